"""The stream loop of all learners, and the course of a run, whatever a learner perturbs.

:class:`LearnerRun` is the base of the opaque handles that own a learner's secret state, the noise source and the
released model. Python sees the secret part only through ``secret_arrays``, for checkpoints.
"""

import numpy as np

cimport cython
cimport numpy as cnp
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree, PyMem_RawMalloc
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from ..errors import BudgetExceeded, InvalidParameter, StateError
from ._geometry cimport bind_set
from ._guarded cimport GuardedRun
from ._losses cimport bind_loss, callbacks_of
from ._noise cimport Source, Undecided, check_address, pv_row_words, pv_wipe
from ._noise cimport pv_peek, pv_peek_real, pv_show, this_thread
from ._rows cimport (
    PV_HORIZON,
    PV_NEED_BITS,
    PV_NEED_FAR,
    PV_NOT_FINITE,
    PV_OK,
    PV_UNDECIDED,
    invalid_row,
    is_plain,
    native,
    plain_score,
    pv_rows_norm,
    read_target,
    view_block,
    view_row,
    pv_whole,
)

cnp.import_array()

# Bytes of noise words drawn ahead: twice as many from 65,536 rows on, four times as many from a million.
cdef int64_t NOISE_BUFFER = 65536
# A single row of a model of up to this dimension is learnt with the interpreter's lock held: giving it up costs more.
cdef int64_t SHORT = 512
STATE_VERSION = 1


cdef class Progress:
    """Scores and losses of the released model on rows, each just before the row is learnt. Not private.

    Parameters
    ----------
    n : int
        Largest number of rows of a call.
    outputs : int, default=1
        Scores of a row, as the run has them.

    Attributes
    ----------
    For the rows of the latest call: predictions for each row scaled to its bound exactly as it is learnt. NaN for the
    null row.
    losses : ndarray of shape (n,), float64
        The losses of those predictions, weighted, without the regulariser. NaN for the null row.
    """

    def __init__(self, int64_t n, int64_t outputs=1):
        if self.scores is not None:
            raise StateError("a progress cannot be started twice")
        self.outputs = outputs
        self.scores, self.losses = np.full((n, outputs), np.nan), np.full(n, np.nan)
        if outputs == 1:
            self.scores = self.scores.reshape(n)
        # read-only for callers: the kernel writes through pointers
        self.scores.flags.writeable = self.losses.flags.writeable = False

    cdef int bind(self, pv_progress *progress, int64_t n, int64_t outputs) except -1:
        """Arrays for the kernel to write into, for n rows."""
        if outputs != self.outputs:
            raise InvalidParameter(f"the progress is for {self.outputs} scores of a row, the run has {outputs}")
        if n > len(self.scores):
            raise InvalidParameter(f"the progress has room for {len(self.scores)} rows, found {n}")
        progress.rows, progress.y = NULL, NULL
        progress.scores = <double *>cnp.PyArray_DATA(self.scores)
        progress.losses = <double *>cnp.PyArray_DATA(self.losses)
        return 0


def average_total(int averaging, int64_t releases) -> float:
    """The total weight of the first releases in an average, by its weighting (see pv_run.h)."""
    cdef pv_plan plan
    plan.averaging = averaging
    return pv_average_total(&plan, <double>releases)


cdef class LearnerRun(GuardedRun):
    """One run of a learner, made by a subclass, which provides the method and its memory."""

    def __cinit__(self):
        self.plan, self.state = &self.no_plan, &self.no_state
        self.ahead = Draws()
        self.draws = &self.ahead.c
        self.busy = "the learner is busy in this thread: its loss, a signal or a finaliser may not use it meanwhile"
        self.ended_words = "the run is closed: its last model is released"

    cdef int begin(self, pv_plan *plan, pv_state *state, size_t state_size, const pv_method *method, frame,
                   int64_t drawn, int64_t n_secret, int64_t n_public) except -1:
        """Set what all learners share in a plan and a state, and allocate ``secret`` and ``public`` (zeros).

        ``state_size`` is that of the learner's own state, a block that can be copied; ``frame`` is a ``RunFrame`` of
        the learners; ``drawn`` is the number of coordinates of a perturbed vector; the numbers of doubles are those
        that the learner needs besides the released point.
        """
        problem, schedule = frame.problem, frame.releases
        cdef int64_t dim = problem.dim
        cdef Source source = frame.source
        cdef int64_t capacity, whole
        cdef int64_t[::1] release_rows = np.array(schedule.rows, dtype=np.int64)
        if self.memory != NULL:
            raise StateError("a run cannot be started twice")
        plan.stream, plan.horizon = frame.stream, schedule.horizon
        check_address(plan.stream, 0, drawn)
        self.source, self.decide, self.user = source, frame.decide, callbacks_of(problem.loss)
        bind_loss(&plan.loss, problem.loss, self.user)
        set_owner = bind_set(&plan.set, problem.domain, dim)
        self.owners = (release_rows, set_owner, problem)
        plan.method = method
        plan.d = dim
        plan.outputs.n = 1  # learners with several scores set it
        plan.intercept = problem.intercept
        plan.x_bound = problem.x_bound
        plan.y_bound = problem.y_bound
        plan.signs = problem.loss.kind == "classification"
        plan.noisy = source is not None
        plan.every = schedule.every
        plan.releases = &release_rows[0] if release_rows.shape[0] else NULL
        plan.n_releases_planned = release_rows.shape[0]
        plan.last_row = schedule.last_row

        # every vector begins with a cache line
        whole = pv_whole(dim)
        self.n_scratch, self.n_secret, self.n_public = 3 * whole, n_secret, 2 * whole + n_public
        # with the memory at once: whatever interrupts the rest, it is wiped
        self.plan, self.state, self.state_size = plan, state, state_size
        self.memory = <double *>PyMem_RawCalloc(self.n_scratch + pv_whole(n_secret) + self.n_public + 8, sizeof(double))
        if self.memory == NULL:
            raise MemoryError
        state.work = <double *>((<size_t>self.memory + 63) // 64 * 64)
        self.secret = state.work + self.n_scratch
        state.released = self.secret + pv_whole(n_secret)
        state.released_sum = state.released + whole
        self.public = state.released_sum + whole
        start = np.ascontiguousarray(problem.domain.start(dim), dtype=np.float64)
        memcpy(state.released, cnp.PyArray_DATA(start), dim * sizeof(double))
        state.next_release = pv_next_release(plan, 0, &state.list_position)
        self.drawn = drawn
        if source is not None:
            self.helped = frame.threads > 1 and method.upcoming != NULL and self.user is None
            # waking the second thread for a buffer takes as long as some ten rows
            capacity = NOISE_BUFFER << ((plan.horizon >= 1 << 16) + (plan.horizon >= 1 << 20) + self.helped)
            capacity = max(1, min(capacity // (8 * pv_row_words(drawn)), plan.horizon))  # from bytes to vectors
            self.ahead.begin(source, plan.stream, drawn, capacity)
            self.undecided = Undecided(drawn)
            self.draws.undecided = &self.undecided.c
        return 0

    def __dealloc__(self):
        self.wipe()
        PyMem_RawFree(self.memory)

    cdef void wipe(self) noexcept:
        """Overwrite the secret numbers, values computed from them, and the noise drawn ahead."""
        if self.memory != NULL:
            pv_wipe(self.state.work, (self.n_scratch + self.n_secret) * sizeof(double))
        if self.ahead is not None:
            self.ahead.wipe()

    cdef int enter(self, bint draws) except -1:
        """Refuse as every run does; Python code in the noise thread must not wait for the call that waits for it."""
        if pv_peek(&self.ahead.thread) != 0 and pv_peek(&self.ahead.thread) == this_thread():
            raise StateError(self.busy)
        return GuardedRun.enter(self, draws)

    cdef cnp.ndarray vector(self, const double *x, int64_t n):
        """Copy of n numbers, shape (n,)."""
        out = np.empty(n)
        memcpy(cnp.PyArray_DATA(out), x, n * sizeof(double))
        return out

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.n_rows} rows, {self.n_releases} releases>"

    cdef int refill(self) except -1:
        """Draw the words of the next vectors that the method will need."""
        cdef Draws ahead = self.ahead
        cdef int64_t most = ahead.c.capacity * (2 if ahead.running else 1)
        ahead.listed = self.plan.method.upcoming(self.state, self.plan, most, ahead.coming)
        return ahead.draw()

    cdef bint exchange(self) noexcept nogil:
        """Take vectors that a second thread has drawn; return whether there were any."""
        if not self.ahead.running:
            return False
        self.ahead.listed = self.plan.method.upcoming(self.state, self.plan, 2 * self.ahead.c.capacity,
                                                      self.ahead.coming)
        return self.ahead.exchange()

    cdef int serve(self, pv_status status) except -1:
        """Give the kernel what it asked for, or raise the error it found."""
        cdef uint64_t row
        if status == PV_NEED_BITS:
            return self.refill()
        if status == PV_UNDECIDED:
            row = self.draws.rows[self.draws.used]
            decide = self.decide
            return self.source.resolve(self.draws.undecided, self.plan.stream, row, self.draws.std, decide)
        if status == PV_HORIZON:
            raise BudgetExceeded(f"the horizon of {self.plan.horizon} rows is used up")
        if status == PV_NOT_FINITE:
            self.closed = True  # nothing may be released from it; the caller undoes a failure of a user's loss
            raise InvalidParameter("the loss returned NaN, or the arithmetic left the finite numbers")
        raise StateError(f"kernel status {status}")

    cdef int run(self, pv_rows *rows, const double *y, const pv_progress *progress) except -1:
        """Learn the whole block; an interrupt between two of its rows is raised after the last one."""
        cdef int64_t i = 0
        cdef int64_t drawn = 0
        cdef pv_status status
        cdef int64_t failed = -1
        cdef int64_t before = self.holder
        interrupt = None
        if self.closed:  # whichever way the call came
            self.check_open()
        pv_show(&self.holder, this_thread())
        try:
            while True:
                if self.user is not None or (rows.n == 1 and self.plan.d <= SHORT):
                    status = pv_run(self.state, self.plan, rows, y, &i, self.draws, progress)
                else:
                    with nogil:
                        status = pv_run(self.state, self.plan, rows, y, &i, self.draws, progress)
                        while status == PV_NEED_BITS and self.exchange():
                            status = pv_run(self.state, self.plan, rows, y, &i, self.draws, progress)
                if status == PV_OK:
                    break
                try:
                    if status == PV_NEED_BITS and self.helped:
                        drawn += 1
                        if drawn == 3 and rows.n - i >= 4 * i:  # after two buffers: about eight more will be used
                            self.ahead.start()
                    self.serve(status)
                except BaseException as error:
                    # an interrupt or a signal handler's exception: the request is repeated, once a row
                    if self.sends or failed == self.state.t or status not in (PV_NEED_BITS, PV_UNDECIDED, PV_NEED_FAR):
                        raise
                    failed = self.state.t
                    interrupt = error
        finally:
            pv_show(&self.holder, before)
            self.ahead.stop()
        if interrupt is not None:
            raise interrupt
        return 0

    cdef int run_undoably(self, pv_rows *rows, const double *y, const pv_progress *progress) except -1:
        """Learn a block whose loss may fail on any row: then nothing of the block has happened."""
        cdef bint closed = self.closed
        cdef size_t numbers = (pv_whole(self.n_secret) + self.n_public) * sizeof(double)
        cdef size_t size = self.state_size + numbers
        cdef unsigned char *saved = <unsigned char *>PyMem_RawMalloc(size)
        if saved == NULL:
            raise MemoryError
        memcpy(saved, self.state, self.state_size)
        memcpy(saved + self.state_size, self.secret, numbers)
        self.user.error = None
        # what others see until the block is done
        with cython.critical_section(self):
            self.committed = (self.state.t, self.state.n_released, self.state.spent)
        pv_show(&self.holder, this_thread())
        try:
            self.run(rows, y, progress)
            if self.user.error is not None:  # only its value() failed, which affects only the diagnostics
                raise self.user.error
        except BaseException:
            memcpy(self.state, saved, self.state_size)
            memcpy(self.secret, saved + self.state_size, numbers)
            self.closed = closed
            self.draws.filled = self.draws.used = 0  # the words are drawn again from their addresses
            if self.undecided is not None:
                self.undecided.c.resolved = 0
            error, self.user.error = self.user.error, None
            if error is not None:
                raise error
            raise
        finally:
            pv_show(&self.holder, 0)
            with cython.critical_section(self):
                self.committed = None
            pv_wipe(saved, size)
            PyMem_RawFree(saved)
        return 0

    cdef int check_room(self, int64_t n) except -1:
        self.check_open()
        if n > self.plan.horizon - self.state.t:
            raise BudgetExceeded(
                f"the next {n} rows would exceed the horizon: {self.state.t} of {self.plan.horizon} are used; "
                "nothing of them was learnt"
            )
        return 0

    cdef int check_width(self, int64_t d) except -1:
        cdef int64_t expected = self.plan.d // self.plan.outputs.n - self.plan.intercept
        if d != expected:
            raise InvalidParameter(f"X must have {expected} features, found {d}")
        return 0

    cdef object view(self, pv_rows *rows, object X, const double[::1] y):
        """View a block after checking its shape."""
        owner = view_block(rows, X)
        self.check_width(rows.d)
        if y.shape[0] != rows.n:
            raise InvalidParameter(f"y must have one value per row: {rows.n} rows, {y.shape[0]} values")
        return owner

    def learn(self, X, cnp.ndarray y not None, *, Progress progress=None, evaluate=None):
        """Learn a block of rows. Rows with unusable entries or NaN targets are learnt as the null row.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, features)
            May not change during the call.
        y : ndarray of shape (n,), float64, C-contiguous
            Targets: -1/+1 for two classes and a single score, indices of classes for several scores.
        progress : Progress or None
            Receives the evaluation of the released model on each row before it is learnt (not private). It is complete
            when the call returns, and when an interrupt ends it, which is raised after the last row.
        evaluate : (X, y) or None
            The same number of other rows: row i of these, not of the block, is evaluated just before row i of the block
            is learnt.
        """
        cdef pv_rows rows
        cdef pv_rows others
        cdef const double[::1] targets = y
        cdef const double[::1] other_targets
        cdef pv_progress observed
        cdef pv_progress *watched = NULL
        other = None
        self.enter(True)
        owner = self.view(&rows, X, targets)
        if rows.n == 0:
            return
        if progress is not None:
            progress.bind(&observed, rows.n, self.plan.outputs.n)
            watched = &observed
            if evaluate is not None:
                other_X, other_y = evaluate
                other_targets = other_y
                other = self.view(&others, other_X, other_targets)
                if others.n != rows.n:
                    raise InvalidParameter(f"evaluate must have {rows.n} rows, as many as X, found {others.n}")
                observed.rows, observed.y = &others, &other_targets[0]
        elif evaluate is not None:
            raise InvalidParameter("evaluate needs progress, which receives the scores")
        with self.lock:
            self.check_room(rows.n)
            if self.user is not None:
                self.run_undoably(&rows, &targets[0], watched)
            else:
                self.run(&rows, &targets[0], watched)
        del owner, other

    def evaluate(self, X, cnp.ndarray y not None, Progress progress not None):
        """Evaluate the released model on rows that are not learnt, as ``learn`` does before each row."""
        cdef pv_rows rows
        cdef pv_progress observed
        cdef const double[::1] targets = y
        self.enter(False)
        owner = self.view(&rows, X, targets)
        if rows.n == 0:
            return
        progress.bind(&observed, rows.n, self.plan.outputs.n)
        observed.rows, observed.y = &rows, &targets[0]
        with self.lock:
            if self.user is None:
                with nogil:
                    pv_evaluate(self.state, self.plan, &observed)
            else:
                self.user.error = None
                pv_show(&self.holder, this_thread())
                pv_evaluate(self.state, self.plan, &observed)
                pv_show(&self.holder, 0)
                error, self.user.error = self.user.error, None
                if error is not None:
                    raise error
        del owner

    def learn_one(self, x, double y):
        """Learn one row: ``learn`` without the cost of a block."""
        self.enter(True)
        self.take(native(x if cnp.PyArray_Check(x) else np.array(x, dtype=np.float64)), y)

    def declare_targets(self, dict codes, double y_bound, bint null_invalid):
        """Set how single rows are read: codes of labels (None: targets are real), and unusable rows as null rows."""
        self.codes, self.y_bound, self.null_invalid = codes, y_bound, null_invalid

    def learn_labelled(self, x, y):
        """Learn an array of doubles with its label or target as given; False: nothing was done."""
        cdef double target
        cdef int64_t d = self.plan.d // self.plan.outputs.n - self.plan.intercept
        codes = self.codes  # a label's own hash may run any code, even such that changes the array
        if not read_target(y, codes, self.y_bound, &target) or not is_plain(x, d):
            return False
        self.enter(True)
        self.take(x, target)
        return True

    cdef int take(self, cnp.ndarray row, double y) except -1:
        cdef pv_rows rows
        with self.lock:
            row = native(row)  # another thread may have changed its type and shape until here
            if cnp.PyArray_NDIM(row) != 1:
                raise InvalidParameter(f"x must have one dimension, found {cnp.PyArray_NDIM(row)}")
            self.check_width(cnp.PyArray_DIM(row, 0))
            view_row(&rows, row)
            self.check_room(1)
            if not self.null_invalid and pv_rows_norm(&rows, 0) < 0.0:
                raise invalid_row(&rows, 0, self.state.t)
            if self.user is not None:
                self.run_undoably(&rows, &y, NULL)
            else:
                self.run(&rows, &y, NULL)
        return 0

    def finish(self):
        """Make the release that is due after the last row learnt, if an exception prevented it."""
        cdef pv_rows none
        self.enter(True)
        none.n = 0
        with self.lock:
            if self.state.pending and (self.revoked is not None or not self.closed):
                self.check_open()
                self.run(&none, NULL, NULL)

    cdef int publish_last(self, const double *point) except -1:
        """Publish a point, which is public already, of a run that ends before its only release was due."""
        self.enter(False)
        with self.lock:
            self.check_open()
            if self.state.n_released:
                raise StateError("only a run that has released nothing may end with such a release")
            memcpy(self.state.released, point, self.plan.d * sizeof(double))
            memcpy(self.state.released_sum, point, self.plan.d * sizeof(double))
            self.state.n_released = 1
            self.state.next_release = self.plan.horizon + 1
        return 0

    # ---- public -------------------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        """Rows learnt."""
        return self.counters()[0]

    @property
    def n_releases(self) -> int:
        """Models released."""
        return self.counters()[1]

    @property
    def spent(self) -> float:
        """Sum of (sensitivity / standard deviation)^2 over the releases."""
        return self.counters()[2]

    def counters(self) -> tuple[int, int, float]:
        """Rows, releases and mu^2 spent, for the ledger."""
        cdef pv_state *state = self.state
        with cython.critical_section(self):  # without the interpreter's lock another thread may set it meanwhile
            committed = self.committed
        if committed is not None:
            return committed
        return pv_peek(&state.t), pv_peek(&state.n_released), pv_peek_real(&state.spent)

    @property
    def ended(self) -> bool:
        """Whether nothing more can be learnt or released."""
        return self.closed

    @property
    def averaging(self) -> int:
        """The weights of the released models in the average (see pv_run.h)."""
        return self.plan.averaging

    @property
    def outputs(self) -> int:
        """Scores of a row: one, or one for each class."""
        return self.plan.outputs.n

    @property
    def next_release(self) -> int:
        """Row after which the next model is released; horizon + 1 if none is."""
        return pv_peek(&self.state.next_release)

    def score_one(self, x, double x_bound):
        """Score of a row by the last released point; None for several scores, or for no array of finite doubles."""
        cdef int64_t d = self.plan.d - self.plan.intercept
        if self.plan.outputs.n != 1 or not is_plain(x, d):
            return None
        self.enter(False)
        with self.lock:
            return plain_score(x, self.state.released, d, self.plan.intercept, x_bound)

    def released_model(self):
        """Copy of the last released point, shape (dim,)."""
        self.enter(False)
        with self.lock:
            return self.vector(self.state.released, self.plan.d)

    def released_average(self):
        """Weighted mean of all released points, shape (dim,); before the first release the starting point."""
        self.enter(False)
        with self.lock:
            if self.state.n_released == 0:
                return self.vector(self.state.released, self.plan.d)
            mean = self.vector(self.state.released_sum, self.plan.d)
            # in place, because the sum is secret if models are (POL)
            mean /= pv_average_total(self.plan, <double>self.state.n_released)
            return mean

    # ---- private ------------------------------------------------------------------------------

    def raw_counts(self) -> dict[str, int]:
        """Rows scaled to the bound and rows treated as null: functions of raw data, not private."""
        return {"clipped_rows": pv_peek(&self.state.n_clipped), "null_rows": pv_peek(&self.state.n_null)}

    cdef bytes secret_key(self):
        return self.source.secret_key() if self.source is not None else b""

    cdef dict own_arrays(self):
        """The learner's own part of ``secret_arrays``."""
        return {}

    cdef int restore_own(self, arrays) except -1:
        """Check the learner's own arrays, then take them over; an error leaves the run unchanged."""
        return 0

    cdef int check_vector(self, arrays, str name, int64_t n) except -1:
        if arrays[name].shape != (n,):
            raise StateError(f"the checkpoint's {name} has shape {arrays[name].shape}, the run's ({n},)")
        return 0

    cdef int fill_vector(self, double *x, arrays, str name, int64_t n) except -1:
        vector = np.ascontiguousarray(arrays[name], dtype=np.float64)
        memcpy(x, cnp.PyArray_DATA(vector), n * sizeof(double))
        return 0

    def secret_arrays(self) -> dict[str, np.ndarray]:
        """The whole state as named arrays: SECRET, for checkpoints only (mode 0600, never exported).

        Refused in a forked child, which would continue from it and repeat its parent's noise.
        """
        self.enter(True)
        with self.lock:
            if self.closed:
                raise StateError("the run is closed: it has no secret state")
            if self.state.pending:
                raise StateError("a release is due: finish() makes it")
            return {
                "version": np.array([STATE_VERSION]),
                **self.own_arrays(),
                "released": self.vector(self.state.released, self.plan.d),
                "released_sum": self.vector(self.state.released_sum, self.plan.d),
                "counts": np.array(
                    [self.state.t, self.state.n_released, self.state.n_clipped, self.state.n_null], dtype=np.int64
                ),
                "spent": np.array([self.state.spent, self.state.spent_tail]),
                "key": np.frombuffer(self.secret_key(), dtype=np.uint8).copy(),
            }

    def restore(self, arrays):
        """Continue from the ``secret_arrays`` of a run with the same plan and source key."""
        if int(arrays["version"][0]) != STATE_VERSION:
            raise StateError(f"checkpoint version {int(arrays['version'][0])}, this privol reads {STATE_VERSION}")
        key = bytes(arrays["key"])
        if key != self.secret_key():
            raise StateError("the checkpoint belongs to another noise key")
        for name in ("released", "released_sum"):
            self.check_vector(arrays, name, self.plan.d)
        self.enter(False)
        with self.lock:
            if self.state.t != 0 or self.closed:
                raise StateError("only a fresh run can be restored")
            self.restore_own(arrays)
            self.fill_vector(self.state.released, arrays, "released", self.plan.d)
            self.fill_vector(self.state.released_sum, arrays, "released_sum", self.plan.d)
            (self.state.t, self.state.n_released, self.state.n_clipped,
             self.state.n_null) = (int(c) for c in arrays["counts"])
            self.state.spent, self.state.spent_tail = arrays["spent"]
            self.state.list_position = 0
            self.state.next_release = pv_next_release(self.plan, self.state.t, &self.state.list_position)
