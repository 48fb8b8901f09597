"""The secret state of a learner that perturbs iterates, and the calls that move it.

:class:`IterateRun` is one run of one learner: an opaque handle that owns the iterate, the noise source and
the released model. Nothing of the secret part is visible from Python but through ``_secret_arrays``, which
exists for checkpoints.
"""

import numpy as np

cimport cython
cimport numpy as cnp
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree, PyMem_RawMalloc
from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from ..errors import BudgetExceeded, InvalidParameter, StateError
from ._geometry cimport bind_set
from ._losses cimport CustomCallbacks, bind_loss, callbacks_of
from ._noise cimport (
    PV_ADDRESS_BYTES,
    Source,
    Undecided,
    check_address,
    first_pass,
    pv_address_row,
    pv_row_words,
    pv_wipe,
)
from ._rows cimport (
    PV_HORIZON,
    PV_NEED_BITS,
    PV_NOT_FINITE,
    PV_OK,
    PV_UNDECIDED,
    invalid_row,
    pv_rows_norm,
    pv_sqnorm,
    view_block,
    view_row,
)
from ._schedule cimport Schedule, pv_schedule_std

cnp.import_array()

cdef int64_t NOISE_BUFFER = 65536  # bytes of noise words drawn ahead
STATE_VERSION = 1


cdef class Progress:
    """The released model's scores and losses on rows, each taken just before a row is learnt. Not private.

    Parameters
    ----------
    n : int
        Largest number of rows of a call.

    Attributes
    ----------
    scores, losses : ndarray of shape (n,), float64
        Of the rows of the latest call, from the first on: the prediction for the row scaled to its bound exactly as it
        is learnt, and the loss of that prediction, without the regulariser. NaN for the null row.
    """

    cdef readonly object scores
    cdef readonly object losses

    def __init__(self, int64_t n):
        if self.scores is not None:
            raise StateError("a progress cannot be started twice")
        self.scores, self.losses = np.full(n, np.nan), np.full(n, np.nan)
        # read-only for callers: the kernel writes through pointers
        self.scores.flags.writeable = self.losses.flags.writeable = False

    cdef int bind(self, pv_progress *progress, int64_t n) except -1:
        """What the kernel writes into, for n rows."""
        if n > len(self.scores):
            raise InvalidParameter(f"the progress has room for {len(self.scores)} rows, found {n}")
        progress.rows, progress.y = NULL, NULL
        progress.scores = <double *>cnp.PyArray_DATA(self.scores)
        progress.losses = <double *>cnp.PyArray_DATA(self.losses)
        return 0


cdef class IterateRun:
    """One run of PIGD or PGIGA.

    Parameters
    ----------
    dim : int
        Model coordinates, the intercept included.
    intercept : bool
    loss : privol.losses.Loss
    domain : privol.geometry.ConvexSet
    update : {"implicit", "gradient"}
    constrained : bool
        Implicit step on the L2 ball: take the exact constrained step instead of prox, then project.
    schedule : Schedule
    every : int
        Release after every so many rows; 0: the rows of ``releases``.
    releases : ndarray of int64
        Ascending row numbers.
    horizon, last_row, refresh : int
        Rows the run may learn; last row a release may follow; rows between recomputations of the norm.
    x_bound, y_bound : float
        Rows are scaled and real targets clipped to them, whatever the caller did.
    magnitude : float
        Public bound of every coordinate of an iterate.
    source, stream : Source or None, int
        Of the noise; None: no noise.
    signs : bool
        Targets are -1 and +1.
    decide : callable
        Rounds an undecided coordinate, see :func:`privol.noise.decide_lattice_point`.
    """

    cdef pv_plan plan
    cdef pv_iterate it
    cdef pv_draws draws
    cdef Schedule schedule
    cdef Source source
    cdef CustomCallbacks user
    cdef Undecided undecided
    cdef object decide
    cdef object owners
    # Raw memory of our own: __dealloc__ wipes it, and may run when the garbage collector has cleared all else.
    cdef double *memory
    cdef unsigned char *addresses
    cdef cython.pymutex lock
    cdef unsigned long holder
    cdef object committed
    cdef bint closed

    def __init__(self, *, int64_t dim, bint intercept, loss, domain, str update, bint constrained,
                 Schedule schedule not None,
                 int64_t every, releases, int64_t horizon, int64_t last_row, int64_t refresh, double x_bound,
                 double y_bound, bint signs, double magnitude, Source source, unsigned stream, decide):
        cdef int64_t[::1] release_rows = np.array(releases, dtype=np.int64)
        if self.memory != NULL:
            raise StateError("a run cannot be started twice")
        check_address(stream, 0, dim)
        self.schedule = schedule
        self.source = source
        self.decide = decide
        self.user = callbacks_of(loss)
        bind_loss(&self.plan.loss, loss, self.user)
        set_owner = bind_set(&self.plan.set, domain, dim)
        self.plan.schedule = schedule.c
        self.plan.update = pv_update_implicit if update == "implicit" else pv_update_gradient
        self.plan.constrained = constrained
        self.plan.d = dim
        self.plan.intercept = intercept
        self.plan.x_bound = x_bound
        self.plan.y_bound = y_bound
        self.plan.signs = signs
        self.plan.noisy = source is not None
        self.plan.horizon = horizon
        self.plan.every = every
        self.plan.releases = &release_rows[0] if release_rows.shape[0] else NULL
        self.plan.n_releases_planned = release_rows.shape[0]
        self.plan.last_row = last_row
        self.plan.refresh = refresh
        self.plan.magnitude = magnitude
        self.plan.stream = stream

        self.memory = <double *>PyMem_RawCalloc(5 * dim, sizeof(double))
        if self.memory == NULL:
            raise MemoryError
        self.it.u = self.memory
        self.it.released = self.memory + dim
        self.it.released_sum = self.memory + 2 * dim
        self.it.work = self.memory + 3 * dim
        start = np.ascontiguousarray(domain.start(dim), dtype=np.float64)
        memcpy(self.it.u, cnp.PyArray_DATA(start), dim * sizeof(double))
        memcpy(self.it.released, cnp.PyArray_DATA(start), dim * sizeof(double))
        self.owners = (release_rows, set_owner, loss, domain)
        self.it.s = 1.0
        self.it.nn = pv_sqnorm(self.it.u, dim)
        self.it.next_release = pv_next_release(&self.plan, 0, &self.it.list_position)

        self.draws.pass_ = first_pass()
        if source is not None:
            row_bytes = pv_row_words(dim) * 8
            self.draws.capacity = max(1, min(NOISE_BUFFER // row_bytes, horizon))
            self.addresses = <unsigned char *>PyMem_RawCalloc(self.draws.capacity, row_bytes)
            self.draws.words = <unsigned char *>PyMem_RawCalloc(self.draws.capacity * row_bytes + PV_ADDRESS_BYTES, 1)
            self.draws.rows = <uint64_t *>PyMem_RawCalloc(self.draws.capacity, sizeof(uint64_t))
            if self.addresses == NULL or self.draws.words == NULL or self.draws.rows == NULL:
                raise MemoryError
            self.undecided = Undecided(dim)
            self.draws.undecided = &self.undecided.c

    def __dealloc__(self):
        self.wipe()
        PyMem_RawFree(self.memory)
        PyMem_RawFree(self.addresses)
        PyMem_RawFree(self.draws.words)
        PyMem_RawFree(self.draws.rows)

    cdef void wipe(self) noexcept:
        """Overwrite the iterate, what was computed from it on the way to a release, and the noise drawn ahead."""
        if self.memory != NULL:
            pv_wipe(self.it.u, self.plan.d * sizeof(double))
            pv_wipe(self.it.work, 2 * self.plan.d * sizeof(double))
        self.it.s = 0.0
        self.it.nn = 0.0
        if self.draws.words != NULL:
            pv_wipe(self.draws.words, self.draws.capacity * pv_row_words(self.plan.d) * 8)
        self.draws.filled = 0
        self.draws.used = 0

    cdef cnp.ndarray vector(self, const double *x):
        """Copy of one of the vectors, shape (dim,)."""
        out = np.empty(self.plan.d)
        memcpy(cnp.PyArray_DATA(out), x, self.plan.d * sizeof(double))
        return out

    def __repr__(self) -> str:
        return f"<IterateRun: {self.it.t} rows, {self.it.n_released} releases>"

    def __reduce__(self):
        raise StateError("a live run holds secret state and cannot be pickled")

    def __copy__(self):
        raise StateError("a live run holds secret state and cannot be copied")

    def __deepcopy__(self, memo):
        raise StateError("a live run holds secret state and cannot be copied")

    cdef int enter(self, bint draws=False) except -1:
        """Refuse what the lock would make a deadlock: re-entry from a user's loss, a fork while a thread held it."""
        if draws and self.source is not None:
            self.source.check_fork()
        if self.holder == <unsigned long>PyThread_get_thread_ident():
            raise StateError("the learner is busy: its loss function may not use the learner itself")
        return 0

    cdef int refill(self) except -1:
        return self.draw(pv_iterate_upcoming(&self.it, &self.plan, self.draws.capacity, self.draws.rows))

    cdef int draw(self, int64_t n) except -1:
        """Fill the buffer with the words of n vectors, whose address rows are written."""
        cdef size_t size = <size_t>pv_row_words(self.plan.d) * 8
        cdef int64_t k
        self.draws.filled = self.draws.used = 0  # until they are there: a source that fails wipes the buffer
        for k in range(n):
            pv_address_row(self.addresses + k * size, self.plan.stream, self.draws.rows[k], self.plan.d)
        self.source.fill(self.addresses, n * size, self.draws.words)
        self.draws.filled = n
        return 0

    cdef int serve(self, pv_status status, double std) except -1:
        """Give the kernel what it asked for, or raise what it found."""
        cdef int64_t row
        if status == PV_NEED_BITS:
            return self.refill()
        if status == PV_UNDECIDED:
            row = self.it.t
            decide = self.decide
            return self.source.resolve(self.draws.undecided, self.plan.stream, row, std, decide)
        if status == PV_HORIZON:
            raise BudgetExceeded(f"the horizon of {self.plan.horizon} rows is used up")
        if status == PV_NOT_FINITE:
            self.closed = True  # nothing may be released from it; a user's loss that failed is undone by the caller
            raise InvalidParameter("the loss returned NaN, or the arithmetic left the finite numbers")
        raise StateError(f"kernel status {status}")

    cdef int run(self, pv_rows *rows, const double *y, const pv_progress *progress) except -1:
        """Learn the whole block: an interrupt between two of its rows is raised after the last."""
        cdef int64_t i = 0
        cdef pv_status status
        cdef int64_t failed = -1
        interrupt = None
        while True:
            if self.user is not None:
                status = pv_iterate_run(&self.it, &self.plan, rows, y, &i, &self.draws, progress)
            else:
                with nogil:
                    status = pv_iterate_run(&self.it, &self.plan, rows, y, &i, &self.draws, progress)
            if status == PV_OK:
                break
            try:
                self.serve(status, pv_schedule_std(&self.plan.schedule, self.it.t))
            except BaseException as error:
                # an interrupt or a signal handler's exception: what was asked for is asked for again, once a row
                if (status != PV_NEED_BITS and status != PV_UNDECIDED) or failed == self.it.t:
                    raise
                failed = self.it.t
                interrupt = error
        if interrupt is not None:
            raise interrupt
        return 0

    cdef int run_undoably(self, pv_rows *rows, const double *y, const pv_progress *progress) except -1:
        """A user's loss may fail on any row: then nothing of the block has happened."""
        cdef pv_iterate before = self.it
        cdef bint closed = self.closed
        cdef size_t size = 3 * self.plan.d * sizeof(double)  # iterate, released point, sum
        cdef double *saved = <double *>PyMem_RawMalloc(size)
        if saved == NULL:
            raise MemoryError
        memcpy(saved, self.memory, size)
        self.user.error = None
        self.committed = (before.t, before.n_released, before.spent)  # what others see until the block is done
        self.holder = <unsigned long>PyThread_get_thread_ident()
        try:
            self.run(rows, y, progress)
            if self.user.error is not None:  # only its value() failed: seen by the diagnostics alone
                raise self.user.error
        except BaseException:
            self.it = before
            self.closed = closed
            memcpy(self.memory, saved, size)
            self.draws.filled = 0  # the words are drawn again from their addresses
            self.draws.used = 0
            if self.undecided is not None:
                self.undecided.c.resolved = 0
            error, self.user.error = self.user.error, None
            if error is not None:
                raise error
            raise
        finally:
            self.holder = 0
            self.committed = None
            pv_wipe(saved, size)
            PyMem_RawFree(saved)
        return 0

    cdef int check_room(self, int64_t n) except -1:
        if self.closed:
            raise StateError("the run is closed: its last model is released")
        if self.source is not None:
            self.source.check()
        if n > self.plan.horizon - self.it.t:
            raise BudgetExceeded(
                f"the next {n} rows would exceed the horizon: {self.it.t} of {self.plan.horizon} are used; "
                "nothing of them was learnt"
            )
        return 0

    cdef int check_width(self, int64_t d) except -1:
        cdef int64_t expected = self.plan.d - self.plan.intercept
        if d != expected:
            raise InvalidParameter(f"X must have {expected} features, found {d}")
        return 0

    cdef object view(self, pv_rows *rows, object X, const double[::1] y):
        """View a block, its shape checked."""
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
            Targets: -1/+1 for classification.
        progress : Progress or None
            Receives the evaluation of the released model on each row before it is learnt (not private). It is whole
            when the call returns, and when it ends by an interrupt, which is raised after the last row.
        evaluate : (X, y) or None
            As many other rows: the i-th of these is evaluated just before the i-th of the block is learnt, and the
            block's own rows are not.
        """
        cdef pv_rows rows
        cdef pv_rows others
        cdef const double[::1] targets = y
        cdef const double[::1] other_targets
        cdef pv_progress observed
        cdef pv_progress *watched = NULL
        other = None
        self.enter(draws=True)
        owner = self.view(&rows, X, targets)
        if rows.n == 0:
            return
        if progress is not None:
            progress.bind(&observed, rows.n)
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
        """Evaluate the released model on rows that are not learnt now: as ``learn`` does before each row."""
        cdef pv_rows rows
        cdef pv_progress observed
        cdef const double[::1] targets = y
        self.enter()
        owner = self.view(&rows, X, targets)
        if rows.n == 0:
            return
        progress.bind(&observed, rows.n)
        observed.rows, observed.y = &rows, &targets[0]
        with self.lock:
            if self.user is None:
                with nogil:
                    pv_iterate_evaluate(&self.it, &self.plan, &observed)
            else:
                self.user.error = None
                self.holder = <unsigned long>PyThread_get_thread_ident()
                pv_iterate_evaluate(&self.it, &self.plan, &observed)
                self.holder = 0
                error, self.user.error = self.user.error, None
                if error is not None:
                    raise error
        del owner

    def learn_one(self, x, double y, bint null_invalid=False):
        """Learn one row: ``learn`` without the cost of a block."""
        cdef pv_rows rows
        cdef cnp.ndarray row
        self.enter(draws=True)
        if not cnp.PyArray_Check(x) or (
            cnp.PyArray_TYPE(x) != cnp.NPY_FLOAT64 and cnp.PyArray_TYPE(x) != cnp.NPY_FLOAT32
        ) or not cnp.PyArray_ISBEHAVED_RO(x):
            x = np.array(x, dtype=np.float64)
        row = x
        if cnp.PyArray_NDIM(row) != 1:
            raise InvalidParameter(f"x must have one dimension, found {cnp.PyArray_NDIM(row)}")
        self.check_width(cnp.PyArray_DIM(row, 0))
        view_row(&rows, row)
        with self.lock:
            self.check_room(1)
            if not null_invalid and pv_rows_norm(&rows, 0) < 0.0:
                raise invalid_row(&rows, 0, self.it.t)
            if self.user is not None:
                self.run_undoably(&rows, &y, NULL)
            else:
                self.run(&rows, &y, NULL)

    def release_last(self, double std, double sensitivity):
        """Publish the iterate after the last row learnt, with noise of the given standard deviation.

        Used once, when a run ends before the row its only release was planned for.
        """
        cdef pv_status status
        self.enter(draws=True)
        with self.lock:
            if self.closed:
                raise StateError("the run is closed: its last model is released")
            if self.it.n_released:
                raise StateError("only a run that has released nothing may end with such a release")
            if self.source is not None:
                self.source.check()
                self.draws.rows[0] = self.it.t
                self.draw(1)
            while True:
                status = pv_iterate_release(&self.it, &self.plan, std, sensitivity, &self.draws)
                if status == PV_OK:
                    break
                self.serve(status, std)
            self.closed = True

    def finish(self):
        """Make the release that is due after the last row learnt, if an exception kept it from being made."""
        cdef pv_rows none
        self.enter(draws=True)
        none.n = 0
        with self.lock:
            if self.it.pending and not self.closed:
                self.run(&none, NULL, NULL)

    def close(self):
        """End the run: no more rows; the secret iterate, the noise ahead and the key are wiped."""
        self.enter()
        with self.lock:
            self.closed = True
            self.wipe()
            if self.undecided is not None:
                self.undecided.wipe()
            if self.source is not None:
                self.source.destroy()

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
        """Rows, releases and mu^2 spent: what a ledger reads."""
        if self.committed is not None:
            return self.committed
        return self.it.t, self.it.n_released, self.it.spent

    @property
    def next_release(self) -> int:
        """Row after which the next model is released; horizon + 1: none."""
        return self.it.next_release

    def released_model(self):
        """Copy of the last released point, shape (dim,)."""
        self.enter()
        with self.lock:
            return self.vector(self.it.released)

    def released_average(self):
        """Mean of all released points, shape (dim,); before the first release the starting point."""
        self.enter()
        with self.lock:
            if self.it.n_released == 0:
                return self.vector(self.it.released)
            return self.vector(self.it.released_sum) / self.it.n_released

    # ---- private ------------------------------------------------------------------------------

    def _diagnostics(self) -> dict[str, int]:
        """Rows scaled to the bound and rows treated as null: functions of raw data, not private."""
        return {"clipped_rows": self.it.n_clipped, "null_rows": self.it.n_null}

    cdef bytes secret_key(self):
        return self.source.secret_key() if self.source is not None else b""

    def _secret_arrays(self) -> dict[str, np.ndarray]:
        """The whole state as named arrays: SECRET, for checkpoints only (mode 0600, never exported).

        Refused in a forked child, which would go on from it to repeat its parent's noise.
        """
        self.enter(draws=True)
        with self.lock:
            if self.closed:
                raise StateError("the run is closed: it has no secret state")
            if self.it.pending:
                raise StateError("a release is due: finish() makes it")
            return {
                "version": np.array([STATE_VERSION]),
                "iterate": self.vector(self.it.u),
                "scale_norm": np.array([self.it.s, self.it.nn]),
                "released": self.vector(self.it.released),
                "released_sum": self.vector(self.it.released_sum),
                "counts": np.array(
                    [self.it.t, self.it.n_released, self.it.n_clipped, self.it.n_null], dtype=np.int64
                ),
                "spent": np.array([self.it.spent, self.it.spent_tail]),
                "key": np.frombuffer(self.secret_key(), dtype=np.uint8).copy(),
            }

    def _restore(self, arrays):
        """Continue from ``_secret_arrays`` of a run with the same plan and source key."""
        cdef int64_t offset
        if int(arrays["version"][0]) != STATE_VERSION:
            raise StateError(f"checkpoint version {int(arrays['version'][0])}, this privol reads {STATE_VERSION}")
        key = bytes(arrays["key"])
        if key != self.secret_key():
            raise StateError("the checkpoint belongs to another noise key")
        for name in ("iterate", "released", "released_sum"):
            if arrays[name].shape != (self.plan.d,):
                raise StateError(f"the checkpoint's {name} has shape {arrays[name].shape}, the run's ({self.plan.d},)")
        self.enter()
        with self.lock:
            if self.it.t != 0 or self.closed:
                raise StateError("only a fresh run can be restored")
            for k, name in enumerate(("iterate", "released", "released_sum")):
                vector = np.ascontiguousarray(arrays[name], dtype=np.float64)
                offset = k * self.plan.d
                memcpy(self.memory + offset, cnp.PyArray_DATA(vector), self.plan.d * sizeof(double))
            self.it.s, self.it.nn = arrays["scale_norm"]
            self.it.t, self.it.n_released, self.it.n_clipped, self.it.n_null = (int(c) for c in arrays["counts"])
            self.it.spent, self.it.spent_tail = arrays["spent"]
            self.it.list_position = 0
            self.it.next_release = pv_next_release(&self.plan, self.it.t, &self.it.list_position)

    def _secret_iterate(self):
        """The un-noised iterate: SECRET, for tests of sensitivity and replay twins."""
        cdef double[::1] out = np.empty(self.plan.d)
        self.enter()
        with self.lock:
            pv_iterate_read(&self.it, self.plan.d, &out[0])
        return np.asarray(out)
