"""The state of learners that see only reports, and the calls that change it."""

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from ..errors import InvalidParameter, StateError
from ._losses cimport bind_loss
from ._noise cimport Source
from ._report cimport Report
from ._rows cimport PV_ENTRY_MAX, PV_OK, PV_UNDECIDED, pv_rows, pv_rows_norm, pv_sqnorm, pv_status, view_row
from ._learner_run cimport LearnerRun, pv_admissible, pv_state

cnp.import_array()

UPDATES = ("greedy", "lazy", "coin", "experts")
PACES = ("constant", "root", "inverse", "adaptive")


cdef class ReportRun(LearnerRun):
    """A run whose method perturbs by a report; a subclass makes it and sets the report."""

    cdef int begin_reports(self, pv_plan *plan, pv_state *state, size_t state_size, const pv_method *method, frame,
                           Report report, int64_t n_secret, int64_t n_public) except -1:
        """Begin a run as ``begin`` does, for a method that draws ``words`` words for a report."""
        if frame.source is None and report.c.words:
            raise InvalidParameter("reports with noise need a source of noise")
        self.begin(plan, state, state_size, method, frame, max(<int64_t>1, report.c.words), n_secret, n_public)
        self.report = report
        return 0

    cdef int refill(self) except -1:
        cdef int64_t row = self.state.t if self.state.pending else self.state.t + 1
        cdef Source source = self.source
        return self.report.refill(self.draws, self.ahead.addresses, source, self.plan.stream, row, self.plan.horizon)

    cdef int serve(self, pv_status status) except -1:
        cdef Source source = self.source
        if status == PV_UNDECIDED:
            return self.report.resolve(self.draws, source, self.plan.stream)
        return LearnerRun.serve(self, status)

    cdef const double *checked(self, str name, const double[::1] vector, double most) except? NULL:
        cdef int64_t j
        if vector.shape[0] != self.plan.d:
            raise InvalidParameter(f"{name} must have shape ({self.plan.d},), found ({vector.shape[0]},)")
        for j in range(self.plan.d):
            if not -most <= vector[j] <= most:
                raise InvalidParameter(
                    f"{name} must be finite and at most {most:g} in magnitude, coordinate {j} is {vector[j]}; "
                    "nothing was learnt"
                )
        return &vector[0]


cdef class LocalRun(ReportRun):
    """One run of MIOGD, LDPSGD or BANCO. Secret: a row's gradient until its report is made, the noise ahead.

    Parameters
    ----------
    frame : RunFrame
    magnitude : float
        Bound of the coordinates of what is perturbed.
    report : Report
        How a gradient is randomized before the learner sees it.
    cost : float
        Squared mu of the whole run, charged with the first report.
    update : {"greedy", "lazy", "coin", "experts"}
    pace : {"constant", "root", "inverse", "adaptive"}
    length, base : float
        For the steps; with "coin" and "experts" for the direction's steps.
    coin : Coin, optional
        For "coin": see pv_local.h.
    experts : Experts, optional
        For "experts": see pv_experts.h.
    averaging : {0, 1, 2}
        Whether later releases have more weight in the average, see pv_run.h.
    """

    def __init__(self, frame, *, Report report not None, double magnitude, double cost, str update, str pace,
                 double length, double base=0.0, coin=None, experts=None, int averaging=0):
        cdef int64_t dim = frame.problem.dim
        cdef int64_t k
        if report.c.d != dim:
            raise InvalidParameter(f"the report has {report.c.d} coordinates, the model {dim}")
        self.begin_reports(&self.own_plan.run, &self.it.run, sizeof(pv_local), &pv_local_method, frame, report, dim,
                           2 * dim)
        self.own_plan.run.magnitude = magnitude
        self.own_plan.report = report.c
        self.own_plan.cost = cost
        self.own_plan.update = <pv_update><int>UPDATES.index(update)
        self.own_plan.pace = <pv_pace><int>PACES.index(pace)
        self.own_plan.length = length
        self.own_plan.base = base
        self.own_plan.run.averaging = averaging
        if coin is not None:
            self.own_plan.a = coin.bets
            self.own_plan.drift = coin.drift
            self.own_plan.observed = coin.observed
            self.own_plan.counted = coin.counted
            self.own_plan.wealth = coin.wealth
            self.own_plan.cap = coin.cap
        if experts is not None:
            if len(experts.radii) > PV_EXPERTS_MOST:
                raise InvalidParameter(f"at most {PV_EXPERTS_MOST} radii, found {len(experts.radii)}")
            self.own_plan.experts.n = len(experts.radii)
            for k in range(self.own_plan.experts.n):
                self.own_plan.experts.radius[k] = experts.radii[k]
                self.own_plan.experts.log_prior[k] = experts.log_prior[k]
                self.own_plan.experts.speed[k] = experts.speeds[k]
            self.own_plan.experts.most = experts.rate
            self.own_plan.experts.drift = experts.drift
        self.it.gradient = self.secret
        self.it.point = self.public
        self.it.sum = self.public + dim
        memcpy(self.it.point, self.state.released, dim * sizeof(double))

    def point(self):
        """Copy of the point at which the next gradient is taken, shape (dim,)."""
        self.enter(False)
        with self.lock:
            return self.vector(self.it.point, self.plan.d)

    def tell(self, gradient):
        """Learn one row by its gradient at ``point()``, a float64 array of shape (dim,); None: the null row."""
        cdef const double[::1] vector
        cdef const double *numbers = NULL
        cdef pv_rows none
        self.enter(True)
        if gradient is not None:
            vector = gradient
            numbers = self.checked("gradient", vector, PV_ENTRY_MAX)
        none.n = 0
        with self.lock:
            self.check_room(1)
            self.run(&none, NULL, NULL)  # finish what an interrupt left undone
            pv_local_tell(&self.it, &self.own_plan, numbers)
            self.run(&none, NULL, NULL)

    def receive(self, const double[::1] report not None):
        """Learn a report that a device made of its gradient at ``point()``, of shape (dim,)."""
        cdef const double *numbers
        cdef pv_rows none
        self.enter(True)
        numbers = self.checked("report", report, PV_REPORT_MAX)
        none.n = 0
        with self.lock:
            self.check_room(1)
            self.run(&none, NULL, NULL)
            pv_local_receive(&self.it, &self.own_plan, numbers, pv_vectors_at(0))

    def release_last(self):
        """Publish the point, which is public already, of a run that ends before its only release was due."""
        self.publish_last(self.it.point)

    # ---- private ------------------------------------------------------------------------------

    cdef dict expert_arrays(self):
        cdef int64_t experts = self.own_plan.experts.n
        if not experts:
            return {}
        return {
            "expert_losses": self.vector(self.it.experts.loss, experts),
            "travelled": np.array([self.it.experts.travelled]),
        }

    cdef dict own_arrays(self):
        return {
            "point": self.vector(self.it.point, self.plan.d),
            "sum": self.vector(self.it.sum, self.plan.d),
            "coin": np.array([self.it.squares, self.it.x, self.it.y]),
            "steps": np.array([self.it.steps], dtype=np.int64),
            **self.expert_arrays(),
        }

    cdef int restore_own(self, arrays) except -1:
        cdef int64_t experts = self.own_plan.experts.n
        for name, n in (("point", self.plan.d), ("sum", self.plan.d), ("coin", 3)):
            self.check_vector(arrays, name, n)
        if experts:
            self.check_vector(arrays, "expert_losses", experts)
            self.check_vector(arrays, "travelled", 1)
            self.fill_vector(self.it.experts.loss, arrays, "expert_losses", experts)
            self.it.experts.travelled = float(arrays["travelled"][0])
        self.it.steps = int(arrays["steps"][0])
        self.it.squares, self.it.x, self.it.y = (float(number) for number in arrays["coin"])
        self.fill_vector(self.it.point, arrays, "point", self.plan.d)
        self.fill_vector(self.it.sum, arrays, "sum", self.plan.d)
        return 0


def squared_norm(const double[::1] x not None) -> float:
    """Squared L2 norm of a vector, -1 if an entry is not finite or beyond the limit for rows."""
    cdef int64_t j
    for j in range(x.shape[0]):
        if not -PV_ENTRY_MAX <= x[j] <= PV_ENTRY_MAX:
            return -1.0
    return pv_sqnorm(&x[0], x.shape[0]) if x.shape[0] else 0.0


cdef class PointGradients:
    """Gradients of rows at points chosen elsewhere, with the bits of a :class:`LocalRun` at that point.

    Parameters
    ----------
    dim, intercept, x_bound, y_bound, signs
        As for :class:`LocalRun`.
    loss : Loss
        A built-in loss of a single score.
    bound : float
        L2 norm that gradients are scaled to, up to rounding.
    """

    def __init__(self, *, int64_t dim, bint intercept, loss, double x_bound, double y_bound, bint signs, double bound):
        bind_loss(&self.plan.loss, loss, None)
        self.plan.outputs.n = 1
        self.plan.d = dim
        self.plan.intercept = intercept
        self.plan.x_bound = x_bound
        self.plan.y_bound = y_bound
        self.plan.signs = signs
        self.bound = bound

    def at(self, const double[::1] point not None, cnp.ndarray x not None, double y):
        """The gradient of a row, shape (dim,): secret. A row with an unusable entry or target is the null row.

        ``point`` has shape (dim,), ``x`` is an aligned array of shape (features,), float32 or float64.
        """
        cdef pv_rows rows
        cdef pv_state counters
        cdef cnp.ndarray out = np.zeros(self.plan.d)
        cdef pv_status status
        cdef double norm
        if point.shape[0] != self.plan.d:
            raise InvalidParameter(f"point must have shape ({self.plan.d},), found ({point.shape[0]},)")
        if cnp.PyArray_NDIM(x) != 1 or cnp.PyArray_DIM(x, 0) != self.plan.d - self.plan.intercept:
            raise InvalidParameter(
                f"x must have {self.plan.d - self.plan.intercept} features, found shape {(<object>x).shape}"
            )
        if not (cnp.PyArray_TYPE(x) == cnp.NPY_FLOAT64 or cnp.PyArray_TYPE(x) == cnp.NPY_FLOAT32):
            raise InvalidParameter(f"x must be of float32 or float64, found {(<object>x).dtype}")
        if not cnp.PyArray_ISBEHAVED_RO(x):
            raise InvalidParameter("x must be aligned and in the machine's byte order")
        view_row(&rows, x)
        memset(&counters, 0, sizeof(pv_state))
        with nogil:
            norm = pv_rows_norm(&rows, 0) if y == y else -1.0
            status = pv_local_gradient(&counters, &self.plan, self.bound, &point[0], &rows, 0,
                                       pv_admissible(&self.plan, y), norm, <double *>cnp.PyArray_DATA(out))
        if status != PV_OK:
            raise StateError(f"kernel status {status}")
        return out
