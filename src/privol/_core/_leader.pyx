"""The private sums of gradients of a regularised leader, and the calls that change it."""

import numpy as np

cimport numpy as cnp
from libc.math cimport sqrt
from libc.stdint cimport int64_t
from libc.string cimport memset

from ..errors import InvalidParameter, StateError
from ._prefix_plan cimport (
    ByEpoch,
    PrefixPlan,
    pv_by_epoch,
    pv_prefix,
    pv_prefix_bind,
    pv_prefix_go_to,
    pv_prefix_in_doubles,
    pv_prefix_kept_size,
    pv_prefix_size,
)
from ._losses cimport CustomCallbacks, bind_loss, callbacks_of
from ._noise cimport first_pass, pv_wipe
from ._rows cimport (
    PV_ENTRY_MAX,
    PV_NEED_FAR,
    PV_OK,
    pv_rows,
    pv_rows_bind,
    pv_rows_use,
    pv_status,
    pv_whole,
    view_block,
)
from ._learner_run cimport LearnerRun, pv_method, pv_plan, pv_state

cnp.import_array()

cdef extern from "runs/pv_leader.h" nogil:
    ctypedef struct pv_tuning:
        int64_t n
        const int64_t *until
        const double *held
        const double *threshold
        const double *lag
        const double *walk
        double power
        double quickest
        double slowest
        double sure

    ctypedef struct pv_leader_plan:
        pv_plan run
        pv_tuning tuning
        double bound
        double regularization
        double reach
        pv_by_epoch rows
        pv_by_epoch variance
        double l2
        double cost

    ctypedef struct pv_leader:
        pv_state run
        pv_prefix sums
        double *gradient
        double *point
        double *start
        double *quick
        double *slow
        double *shown
        int64_t followed
        const double *given

    const pv_method pv_leader_method

    pv_status pv_leader_tell(pv_leader *it, const pv_leader_plan *plan, const double *gradient) noexcept
    void pv_leader_end_leaf(pv_leader *it) noexcept
    pv_status pv_leader_sum(const pv_leader_plan *plan, const double *point, const pv_rows *rows, const double *y,
                            pv_state *counts, double *slopes, double *sum) noexcept

# What a sum of gradients may be longer than their number times their bound, relative to it: by rounding, 1e-9 at most.
cdef double LONGER = 1e-6


cdef int bind_outputs(pv_plan *plan, problem, weights, const double[::1] by_class) except -1:
    """Scores of a row, and what the losses of classes are multiplied with."""
    cdef int64_t outputs = problem.outputs
    if outputs < 1 or problem.dim % outputs or (weights is not None and by_class.shape[0] != max(outputs, 2)):
        raise InvalidParameter(f"{outputs} scores do not share {problem.dim} coordinates and their classes' weights")
    plan.outputs.n = outputs
    plan.outputs.softmax = problem.loss.joint
    plan.outputs.weights = NULL
    if weights is not None:
        plan.outputs.weights = &by_class[0]
    return 0


cdef class GradientSums:
    """Sums of the gradients of rows at a point: what a run would add up of them as one step.

    Each is a function of the rows and of the point, added up in the order of the rows.

    Parameters
    ----------
    problem : Problem
        Of the run.
    bound : float
        As of the run: gradients are scaled to this L2 norm.
    weights : sequence of float, optional
        As of the run.
    """

    cdef pv_leader_plan plan
    cdef CustomCallbacks user
    cdef object owners
    cdef int64_t dim

    def __init__(self, problem, double bound, weights=None):
        cdef const double[::1] by_class = np.array([] if weights is None else weights, dtype=np.float64)
        cdef pv_plan *run = &self.plan.run
        self.user = callbacks_of(problem.loss)
        bind_loss(&run.loss, problem.loss, self.user)
        bind_outputs(run, problem, weights, by_class)
        self.owners = (problem, by_class)
        self.dim = run.d = problem.dim
        run.intercept, run.x_bound, run.y_bound = problem.intercept, problem.x_bound, problem.y_bound
        run.signs = problem.loss.kind == "classification"
        self.plan.bound = bound

    def of(self, X, targets, point):
        """Return the sum of the gradients of all rows at a point.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, features)
            Rows with unusable entries are null rows.
        targets : ndarray of shape (n,), float64
            NaN: a null row.
        point : ndarray of shape (dim,), float64

        Returns
        -------
        sum : ndarray of shape (dim,)
            Secret.
        clipped, null : int
            Rows that were scaled, and null rows. Not private.

        Raises
        ------
        InvalidParameter
            If a loss of the user's own returned NaN.
        """
        cdef pv_rows rows
        cdef pv_state counts
        cdef pv_status status
        cdef const double[::1] y = np.ascontiguousarray(targets, dtype=np.float64)
        cdef const double[::1] x = np.ascontiguousarray(point, dtype=np.float64)
        cdef cnp.ndarray out = np.zeros(self.dim)
        cdef double[::1] total = out
        cdef double[::1] slopes = np.zeros(self.plan.run.outputs.n)
        cdef int64_t features = self.dim // self.plan.run.outputs.n - self.plan.run.intercept
        _owner = view_block(&rows, X)
        if rows.n != y.shape[0] or rows.d != features or x.shape[0] != self.dim:
            raise InvalidParameter(
                f"rows must be {y.shape[0]} times {features} at {self.dim} coordinates, found {rows.n} times {rows.d} "
                f"at {x.shape[0]}"
            )
        if rows.n == 0:
            return out, 0, 0
        pv_rows_bind(&rows)
        pv_rows_use(&rows, first_pass().level)
        memset(&counts, 0, sizeof(counts))
        if self.user is None:
            with nogil:
                status = pv_leader_sum(&self.plan, &x[0], &rows, &y[0], &counts, &slopes[0], &total[0])
        else:
            self.user.error = None
            status = pv_leader_sum(&self.plan, &x[0], &rows, &y[0], &counts, &slopes[0], &total[0])
        pv_wipe(&slopes[0], slopes.shape[0] * sizeof(double))
        error = None
        if self.user is not None:
            error, self.user.error = self.user.error, None
        if status != PV_OK or error is not None:
            pv_wipe(&total[0], self.dim * sizeof(double))
            if error is not None:
                raise error
            raise InvalidParameter("the loss returned NaN, or the arithmetic left the finite numbers")
        return out, counts.n_clipped, counts.n_null


cdef class LeaderRun(LearnerRun):
    """One run of DPFTRL or AdaptiveFTRL. Secret: the sums of gradients, the noise ahead. Every point is public.

    Parameters
    ----------
    frame : RunFrame
    sums : PrefixPlan
        For the gradients, as rows of ``dim`` coordinates. Its rows are ``horizon``, unless other plans follow.
    bound : float
        Gradients are scaled to this L2 norm.
    regularization, l2 : float
        Strong convexity of the objective at the beginning, and what every row adds to it. Their sum is above 0.
    reach : float
        Above 0: the regularization of later epochs is chosen anew for this distance from the starting point, from
    rows, variance : ByEpoch
        the rows of all epochs before, and the variance that their sums leave behind. 0: it is kept.
    cost : float
        mu^2 of the run, charged with the first row.
    weights : ndarray of float64, optional
        Factors of a row's loss by class: one for each output, or two for a single score.
    tuning : Tuning, optional
        For a leader that tunes itself and starts at 0; ``regularization`` and ``l2`` then have no effect.
    """

    cdef pv_leader_plan own_plan
    cdef pv_leader it
    cdef PrefixPlan sums
    cdef ByEpoch rows
    cdef ByEpoch variance
    cdef object weights
    cdef tuple tables

    def __init__(self, frame, *, PrefixPlan sums not None, double bound, double regularization, double l2,
                 double cost, weights=None, double reach=0.0, ByEpoch rows=None, ByEpoch variance=None,
                 tuning=None):
        problem = frame.problem
        cdef int64_t dim = problem.dim
        cdef int64_t whole = pv_whole(dim)
        cdef int64_t n_sums = pv_whole(pv_prefix_size(&sums.c))
        cdef int64_t horizon = frame.releases.horizon
        cdef int64_t j
        cdef const double[::1] by_class = np.array([] if weights is None else weights, dtype=np.float64)
        if (
            sums.c.dim != dim or (sums.c.next == NULL and sums.c.horizon != horizon) or sums.c.gram
            or (frame.source is None) == sums.c.noisy
        ):
            raise InvalidParameter(f"the sums must be of {dim} coordinates over {horizon} rows, noisy with a source")
        if not (regularization >= 0.0 and l2 >= 0.0 and regularization + l2 > 0.0):
            raise InvalidParameter(f"no objective has regularization {regularization:g} and l2 {l2:g}")
        self.begin(&self.own_plan.run, &self.it.run, sizeof(pv_leader), &pv_leader_method, frame, dim,
                   n_sums + dim, (2 if tuning is None else 5) * whole)
        self.own_plan.run.magnitude = sums.c.magnitude
        self.weights = by_class
        bind_outputs(&self.own_plan.run, problem, weights, by_class)
        self.sums = sums
        self.rows = ByEpoch((0.0,)) if rows is None else rows
        self.variance = ByEpoch((0.0,)) if variance is None else variance
        self.own_plan.reach = reach
        self.own_plan.rows = self.rows.c
        self.own_plan.variance = self.variance.c
        self.own_plan.bound = bound
        self.own_plan.regularization = regularization
        self.own_plan.l2 = l2
        self.own_plan.cost = cost
        pv_prefix_bind(&self.it.sums, &sums.c, self.secret)
        self.it.gradient = self.secret + n_sums
        self.it.point = self.public
        self.it.start = self.public + whole
        for j in range(dim):
            self.it.point[j] = self.it.start[j] = self.state.released[j]
        if tuning is not None:
            self.it.quick = self.public + 2 * whole  # zeros, as the start is
            self.it.slow = self.it.quick + whole
            self.it.shown = self.it.slow + whole
            self.tune(tuning, (horizon + sums.c.leaf - 1) // sums.c.leaf)

    cdef int tune(self, tuning, int64_t steps) except -1:
        cdef const int64_t[::1] until = np.array(tuning.until, dtype=np.int64)
        cdef const double[::1] held = np.array(tuning.held, dtype=np.float64)
        cdef const double[::1] threshold = np.array(tuning.threshold, dtype=np.float64)
        cdef const double[::1] lag = np.array(tuning.lag, dtype=np.float64)
        cdef const double[::1] walk = np.array(tuning.walk, dtype=np.float64)
        cdef pv_tuning *own = &self.own_plan.tuning
        if not (
            until.shape[0] == held.shape[0] == threshold.shape[0] == lag.shape[0] == walk.shape[0] > 0
            and np.all(np.diff(until) > 0)
            and until[until.shape[0] - 1] >= steps and np.min(held) > 0.0 and np.min(threshold) >= 0.0
            and np.min(lag) >= 0.0 and np.min(walk) >= 0.0 and tuning.power >= 0.0 and tuning.sure >= 1.0
            and 1.0 <= tuning.quickest <= tuning.slowest
            and not self.vector(self.it.start, self.plan.d).any()
        ):
            raise InvalidParameter(f"a run that tunes itself starts at 0 and needs ascending parts up to step {steps}")
        self.tables = (until, held, threshold, lag, walk)
        own.n, own.until, own.held, own.threshold = until.shape[0], &until[0], &held[0], &threshold[0]
        own.lag, own.walk = &lag[0], &walk[0]
        own.power, own.quickest, own.slowest, own.sure = tuning.power, tuning.quickest, tuning.slowest, tuning.sure
        return 0

    def point(self):
        """Copy of the point at which the next gradient is taken, shape (dim,)."""
        self.enter(False)
        with self.lock:
            return self.vector(self.it.point, self.plan.d)

    def tell(self, gradient):
        """Learn one row by its gradient at ``point()``, a float64 array of shape (dim,); None: the null row."""
        cdef const double[::1] vector
        cdef const double *numbers = NULL
        cdef int64_t j
        cdef pv_status status
        self.enter(True)
        if gradient is not None:
            vector = gradient
            if vector.shape[0] != self.plan.d:
                raise InvalidParameter(f"gradient must have shape ({self.plan.d},), found ({vector.shape[0]},)")
            numbers = &vector[0]
            for j in range(self.plan.d):
                if not -PV_ENTRY_MAX <= numbers[j] <= PV_ENTRY_MAX:
                    raise InvalidParameter(
                        f"gradient must be finite and at most {PV_ENTRY_MAX:g} in magnitude, coordinate {j} is "
                        f"{numbers[j]}; nothing was learnt"
                    )
        with self.lock:
            self.check_room(1)
            self.settle()  # finish what an interrupt left undone
            status = pv_leader_tell(&self.it, &self.own_plan, numbers)
            if status != PV_OK:
                self.serve(status)
            self.settle()

    def learn_step(self, cnp.ndarray gradients not None, int64_t rows):
        """Learn a whole step by the sum of its gradients, of :class:`GradientSums` at ``point()``.

        Of the run's counts only that of the rows is kept; see :meth:`count`.

        Parameters
        ----------
        gradients : ndarray of shape (dim,), float64, C-contiguous
            Secret. Its norm is that of so many gradients at most.
        rows : int
            Of the step: those of every step of this run, or of its last one those that are left to the horizon.

        Raises
        ------
        InvalidParameter
            If the sum is not finite, or longer than so many gradients can be: nothing was learnt.
        """
        cdef const double[::1] given = gradients
        cdef pv_rows none
        cdef int64_t left, now, j
        cdef double square = 0.0, most = self.own_plan.bound * <double>rows * (1.0 + LONGER)
        cdef const double[::1] nothing
        if not pv_prefix_in_doubles(&self.it.sums):
            raise InvalidParameter("steps are learnt by their sums where these are added up in doubles")
        left = min(self.sums.c.leaf, self.plan.horizon - self.state.t)
        if given.shape[0] != self.plan.d or rows < 1 or rows != left or self.it.sums.in_leaf != 0:
            raise InvalidParameter(
                f"a step has {self.plan.d} sums of {left} rows, and begins where one has ended: found {given.shape[0]} "
                f"of {rows}"
            )
        for j in range(self.plan.d):
            square += given[j] * given[j]
        if not sqrt(square) <= most:
            raise InvalidParameter(
                f"the sum of {rows} gradients of norm at most {self.own_plan.bound:g} must be finite and no longer "
                "than they are; nothing of it was learnt"
            )
        self.enter(True)
        memset(&none, 0, sizeof(none))
        nothing = np.full(min(rows, 4096), np.nan)  # null rows, of which no entry is read
        with self.lock:
            self.check_room(rows)
            try:
                left = rows - 1
                while left > 0:
                    none.n = now = min(left, <int64_t>nothing.shape[0])
                    self.run(&none, &nothing[0], NULL)
                    left -= now
                none.n = 1
                self.it.given = &given[0]
                self.run(&none, &nothing[0], NULL)
            finally:
                self.it.given = NULL
            self.state.n_null -= rows

    def count(self, int64_t clipped, int64_t null):
        """Add rows that were scaled, and null rows, of steps that were learnt by their sums. Not private."""
        self.state.n_clipped += clipped
        self.state.n_null += null

    def release_last(self):
        """Publish the point after the last row of a run that ends before its only release was due.

        A leaf that has begun ends: its rows enter the point.
        """
        self.enter(True)
        with self.lock:
            self.check_open()
            if self.state.n_released:
                raise StateError("only a run that has released nothing may end with such a release")
            self.settle()
            self.state.next_release = self.plan.horizon = self.state.t
            self.state.pending = 1
            pv_leader_end_leaf(&self.it)
            self.settle()

    cdef int settle(self) except -1:
        """Make the pending draws."""
        cdef pv_rows none
        none.n = 0
        return self.run(&none, NULL, NULL)

    # ---- private ------------------------------------------------------------------------------

    cdef int serve(self, pv_status status) except -1:
        if status == PV_NEED_FAR:
            return self.sums.look_far(&self.it.sums)
        return LearnerRun.serve(self, status)

    cdef dict own_arrays(self):
        averages = {}
        if self.own_plan.tuning.n:
            averages = {
                "quick": self.vector(self.it.quick, self.plan.d),
                "slow": self.vector(self.it.slow, self.plan.d),
                "shown": self.vector(self.it.shown, self.plan.d),
            }
        return averages | {
            "point": self.vector(self.it.point, self.plan.d),
            "sums": self.sums.memory_of(self.secret),
            "sums_counts": self.sums.counts(&self.it.sums),
        }

    cdef int restore_own(self, arrays) except -1:
        self.check_vector(arrays, "point", self.plan.d)
        if self.own_plan.tuning.n:
            for name in ("quick", "slow", "shown"):
                self.check_vector(arrays, name, self.plan.d)
        self.check_vector(arrays, "sums", pv_prefix_kept_size(&self.sums.c))
        self.check_vector(arrays, "sums_counts", 6)
        counts, memory = arrays["sums_counts"], arrays["sums"]
        pv_prefix_go_to(&self.it.sums, self.sums.epoch_of(counts))
        self.sums.restore(&self.it.sums, counts)
        self.fill_vector(self.it.point, arrays, "point", self.plan.d)
        if self.own_plan.tuning.n:
            self.fill_vector(self.it.quick, arrays, "quick", self.plan.d)
            self.fill_vector(self.it.slow, arrays, "slow", self.plan.d)
            self.fill_vector(self.it.shown, arrays, "shown", self.plan.d)
        self.sums.fill_memory(self.secret, memory)
        self.it.followed = self.it.sums.first_step + self.it.sums.step
        return 0

    def _secret_gradient(self):
        """The gradient of the last row, unless sparse in a step of several rows: SECRET, for tests."""
        cdef bint in_leaf = self.sums.c.leaf == 1 and pv_prefix_in_doubles(&self.it.sums)
        self.enter(False)
        with self.lock:
            return self.vector(self.it.sums.leaf if in_leaf else self.it.gradient, self.plan.d)
