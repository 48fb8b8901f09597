"""The secret state of a learner that perturbs iterates, and the calls that move it.

:class:`IterateRun` is one run of one learner: an opaque handle that owns the iterate, the noise source and
the released model. Nothing of the secret part is visible from Python but through ``_secret_arrays``, which
exists for checkpoints.
"""

import numpy as np

cimport cython
cimport numpy as cnp
from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport int64_t
from libc.string cimport memset

from ..errors import BudgetExceeded, InvalidParameter, StateError
from ._geometry cimport bind_set
from ._losses cimport CustomCallbacks, bind_loss, callbacks_of
from ._noise cimport (
    PV_ADDRESS_BYTES,
    Source,
    Undecided,
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
    pv_rows_norms,
    view_block,
    view_row,
)
from ._schedule cimport Schedule, pv_schedule_std

cnp.import_array()

cdef int64_t NOISE_BUFFER = 65536  # bytes of noise words drawn ahead
STATE_VERSION = 1


cdef class Progress:
    """Sums of a progressive evaluation of the released model: functions of raw data, not private."""

    cdef pv_progress c

    def __cinit__(self):
        memset(&self.c, 0, sizeof(self.c))

    @property
    def rows(self) -> int:
        return self.c.rows

    @property
    def correct(self) -> int:
        return self.c.correct

    @property
    def loss(self) -> float:
        return self.c.loss

    @property
    def absolute_error(self) -> float:
        return self.c.absolute_error

    @property
    def squared_error(self) -> float:
        return self.c.squared_error


@cython.no_gc_clear  # __dealloc__ wipes the arrays, so they must still be there
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
    x_bound : float
    magnitude : float
        Public bound of every coordinate of an iterate.
    source : Source or None
        None: no noise.
    stream : int
        Noise stream.
    decide : callable
        Rounds an undecided coordinate, see :func:`privol.noise.decide_lattice_point`.
    """

    cdef pv_plan plan
    cdef pv_iterate it
    cdef pv_noise noise
    cdef Schedule schedule
    cdef Source source
    cdef CustomCallbacks user
    cdef Undecided undecided
    cdef object decide
    cdef object owners
    cdef cnp.ndarray u
    cdef cnp.ndarray released
    cdef cnp.ndarray released_sum
    cdef unsigned char[::1] addresses
    cdef unsigned char[::1] words
    cdef cython.pymutex lock
    cdef unsigned long holder
    cdef bint closed

    def __init__(self, *, int64_t dim, bint intercept, loss, domain, str update, bint constrained,
                 Schedule schedule not None,
                 int64_t every, releases, int64_t horizon, int64_t last_row, int64_t refresh, double x_bound,
                 double magnitude, Source source, unsigned stream, decide):
        cdef int64_t[::1] release_rows = np.array(releases, dtype=np.int64)
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
        self.plan.horizon = horizon
        self.plan.every = every
        self.plan.releases = &release_rows[0] if release_rows.shape[0] else NULL
        self.plan.n_releases_planned = release_rows.shape[0]
        self.plan.last_row = last_row
        self.plan.refresh = refresh
        self.plan.magnitude = magnitude
        self.plan.stream = stream

        self.u = np.array(domain.start(dim), dtype=np.float64)
        self.released = self.u.copy()
        self.released_sum = np.zeros(dim)
        work = np.zeros(2 * dim)
        self.owners = (release_rows, set_owner, work, loss, domain)
        self.it.u = <double *>cnp.PyArray_DATA(self.u)
        self.it.s = 1.0
        self.it.nn = float(self.u @ self.u)
        self.it.work = <double *>cnp.PyArray_DATA(<cnp.ndarray>work)
        self.it.released = <double *>cnp.PyArray_DATA(self.released)
        self.it.released_sum = <double *>cnp.PyArray_DATA(self.released_sum)
        self.it.next_release = pv_next_release(&self.plan, 0, &self.it.list_position)

        if source is not None and schedule.c.gain > 0:
            row_bytes = pv_row_words(dim) * 8
            self.noise.capacity = max(1, min(NOISE_BUFFER // row_bytes, horizon))
            self.addresses = np.zeros(self.noise.capacity * row_bytes, np.uint8)
            self.words = np.zeros(self.noise.capacity * row_bytes + PV_ADDRESS_BYTES, np.uint8)
            self.undecided = Undecided(dim)
            self.noise.undecided = self.undecided.c
            self.noise.words = &self.words[0]
            self.noise.row = self.it.next_release

    def __dealloc__(self):
        if self.it.u != NULL:
            pv_wipe(self.it.u, self.plan.d * sizeof(double))
        if self.noise.words != NULL:
            pv_wipe(self.noise.words, self.noise.capacity * pv_row_words(self.plan.d) * 8)

    def __repr__(self) -> str:
        return f"<IterateRun: {self.it.t} rows, {self.it.n_released} releases>"

    def __reduce__(self):
        raise StateError("a live run holds secret state and cannot be pickled")

    def __copy__(self):
        raise StateError("a live run holds secret state and cannot be copied")

    def __deepcopy__(self, memo):
        raise StateError("a live run holds secret state and cannot be copied")

    cdef int enter(self) except -1:
        """Refuse re-entry from a user's loss, which the lock would turn into a deadlock."""
        if self.holder == <unsigned long>PyThread_get_thread_ident():
            raise StateError("the learner is busy: its loss function may not use the learner itself")
        return 0

    cdef int refill(self) except -1:
        cdef int64_t n = pv_iterate_addresses(&self.it, &self.plan, self.noise.capacity, self.plan.last_row,
                                              &self.addresses[0])
        if n == 0:
            raise StateError("no release is due")
        self.source.fill(&self.addresses[0], n * pv_row_words(self.plan.d) * 8, &self.words[0])
        self.noise.filled = n
        self.noise.used = 0
        self.noise.row = self.it.next_release
        return 0

    cdef int serve(self, pv_status status, double std) except -1:
        """Give the kernel what it asked for, or raise what it found."""
        cdef int64_t row
        if status == PV_NEED_BITS:
            return self.refill()
        if status == PV_UNDECIDED:
            row = self.it.t
            decide = self.decide
            return self.source.resolve(&self.noise.undecided, self.plan.stream, row, std, decide)
        if status == PV_HORIZON:
            raise BudgetExceeded(f"the horizon of {self.plan.horizon} rows is used up")
        if status == PV_NOT_FINITE:
            raise InvalidParameter("the loss returned NaN")
        raise StateError(f"kernel status {status}")

    cdef int run(self, pv_rows *rows, const double *y, const double *norms, pv_progress *progress) except -1:
        cdef int64_t i = 0
        cdef pv_status status
        while True:
            if self.user is not None:
                status = pv_iterate_run(&self.it, &self.plan, rows, y, norms, &i, &self.noise, progress)
            else:
                with nogil:
                    status = pv_iterate_run(&self.it, &self.plan, rows, y, norms, &i, &self.noise, progress)
            if status == PV_OK:
                return 0
            self.serve(status, pv_schedule_std(&self.plan.schedule, self.it.t))

    cdef int run_undoably(self, pv_rows *rows, const double *y, const double *norms, pv_progress *progress) except -1:
        """A user's loss may fail on any row: then nothing of the block has happened."""
        cdef pv_iterate before = self.it
        cdef pv_progress progress_before
        saved = (self.u.copy(), self.released.copy(), self.released_sum.copy())
        if progress != NULL:
            progress_before = progress[0]
        self.user.error = None
        self.holder = <unsigned long>PyThread_get_thread_ident()
        try:
            try:
                self.run(rows, y, norms, progress)
            finally:
                self.holder = 0
            if self.user.error is not None:  # only its value() failed: seen by the diagnostics alone
                raise self.user.error
        except BaseException:
            self.it = before
            self.u[:], self.released[:], self.released_sum[:] = saved
            if progress != NULL:
                progress[0] = progress_before
            self.noise.filled = 0  # the words are drawn again from their addresses
            self.noise.used = 0
            self.noise.undecided.resolved = 0
            error, self.user.error = self.user.error, None
            if error is not None:
                raise error
            raise
        return 0

    cdef int check_room(self, int64_t n) except -1:
        if self.closed:
            raise StateError("the run is closed: its last model is released")
        if self.source is not None:
            self.source.check()
        if n > self.plan.horizon - self.it.t:
            raise BudgetExceeded(
                f"{n} more rows would exceed the horizon: {self.it.t} of {self.plan.horizon} are used; "
                "nothing of them was learnt"
            )
        return 0

    cdef int check_width(self, int64_t d) except -1:
        cdef int64_t expected = self.plan.d - self.plan.intercept
        if d != expected:
            raise InvalidParameter(f"X must have {expected} features, found {d}")
        return 0

    def learn(self, X, cnp.ndarray y not None, cnp.ndarray norms not None, *, Progress progress=None):
        """Learn a block of rows, or nothing of it.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, features)
        y : ndarray of shape (n,), float64, C-contiguous
            Targets: -1/+1 for classification.
        norms : ndarray of shape (n,), float64, C-contiguous
            The rows' :func:`privol._core._rows.squared_norms`; -1 marks a row to be learnt as the null row.
        progress : Progress or None
            Receives the progressive evaluation of the released model (not private).
        """
        cdef pv_rows rows
        cdef const double[::1] targets = y
        cdef const double[::1] sqnorms = norms
        self.enter()
        owner = view_block(&rows, X)
        self.check_width(rows.d)
        if targets.shape[0] != rows.n or sqnorms.shape[0] != rows.n:
            raise InvalidParameter(
                f"y and norms must have one value per row: {rows.n} rows, {targets.shape[0]} and {sqnorms.shape[0]}"
            )
        if rows.n == 0:
            return
        cdef const double *ys = &targets[0]
        cdef const double *qs = &sqnorms[0]
        cdef pv_progress *observed = &progress.c if progress is not None else NULL
        with self.lock:
            self.check_room(rows.n)
            if self.user is not None:
                self.run_undoably(&rows, ys, qs, observed)
            else:
                self.run(&rows, ys, qs, observed)
        del owner

    def learn_one(self, x, double y, bint null_invalid=False):
        """Learn one row: ``learn`` without the cost of a block."""
        cdef pv_rows rows
        cdef double norm
        cdef cnp.ndarray row
        self.enter()
        if not isinstance(x, np.ndarray) or (
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
            if pv_rows_norms(&rows, &norm) < 1 and not null_invalid:
                raise invalid_row(&rows, 0, self.it.t)
            if y != y:
                norm = -1.0
            if self.user is not None:
                self.run_undoably(&rows, &y, &norm, NULL)
            else:
                self.run(&rows, &y, &norm, NULL)

    def release_last(self, double std, double sensitivity):
        """Publish the iterate after the last row learnt, with noise of the given standard deviation.

        Used once, when a run ends before the row its only release was planned for.
        """
        cdef pv_status status
        self.enter()
        with self.lock:
            if self.closed:
                raise StateError("the run is closed: its last model is released")
            if self.source is not None and std > 0.0:
                self.source.check()
                pv_address_row(&self.addresses[0], self.plan.stream, self.it.t, self.plan.d)
                self.source.fill(&self.addresses[0], pv_row_words(self.plan.d) * 8, &self.words[0])
                self.noise.filled = 1
                self.noise.used = 0
                self.noise.row = self.it.t
            while True:
                status = pv_iterate_release(&self.it, &self.plan, std, sensitivity, &self.noise)
                if status == PV_OK:
                    break
                self.serve(status, std)
            self.closed = True

    def close(self):
        """End the run: no more rows, the secret iterate and the noise ahead are wiped."""
        self.enter()
        with self.lock:
            self.closed = True
            pv_wipe(self.it.u, self.plan.d * sizeof(double))
            self.it.nn = 0.0
            if self.noise.words != NULL:
                pv_wipe(self.noise.words, self.noise.capacity * pv_row_words(self.plan.d) * 8)
                self.noise.filled = 0
                self.noise.used = 0

    # ---- public -------------------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        """Rows learnt."""
        return self.it.t

    @property
    def n_releases(self) -> int:
        """Models released."""
        return self.it.n_released

    @property
    def spent(self) -> float:
        """Sum of (sensitivity / standard deviation)^2 over the releases."""
        return self.it.spent

    def counters(self) -> tuple[int, int, float]:
        """Rows, releases and mu^2 spent: what a ledger reads."""
        return self.it.t, self.it.n_released, self.it.spent

    @property
    def next_release(self) -> int:
        """Row after which the next model is released; horizon + 1: none."""
        return self.it.next_release

    def released_model(self):
        """Copy of the last released point, shape (dim,)."""
        self.enter()
        with self.lock:
            return self.released.copy()

    def released_average(self):
        """Mean of all released points, shape (dim,); before the first release the starting point."""
        self.enter()
        with self.lock:
            if self.it.n_released == 0:
                return self.released.copy()
            return self.released_sum / self.it.n_released

    # ---- private ------------------------------------------------------------------------------

    def _diagnostics(self) -> dict[str, int]:
        """Rows scaled to the bound and rows treated as null: functions of raw data, not private."""
        return {"clipped_rows": self.it.n_clipped, "null_rows": self.it.n_null}

    def _secret_arrays(self) -> dict[str, np.ndarray]:
        """The whole state as named arrays: SECRET, for checkpoints only (mode 0600, never exported)."""
        self.enter()
        with self.lock:
            if self.closed:
                raise StateError("the run is closed: it has no secret state")
            return {
                "version": np.array([STATE_VERSION]),
                "iterate": self.u.copy(),
                "scale_norm": np.array([self.it.s, self.it.nn]),
                "released": self.released.copy(),
                "released_sum": self.released_sum.copy(),
                "counts": np.array(
                    [self.it.t, self.it.n_released, self.it.n_clipped, self.it.n_null], dtype=np.int64
                ),
                "spent": np.array([self.it.spent, self.it.spent_tail]),
                "key": np.frombuffer(self.source.key if self.source is not None else b"", dtype=np.uint8).copy(),
            }

    def _restore(self, arrays):
        """Continue from ``_secret_arrays`` of a run with the same plan and source key."""
        if int(arrays["version"][0]) != STATE_VERSION:
            raise StateError(f"checkpoint version {int(arrays['version'][0])}, this privol reads {STATE_VERSION}")
        key = bytes(arrays["key"])
        if key != (self.source.key if self.source is not None else b""):
            raise StateError("the checkpoint belongs to another noise key")
        if arrays["iterate"].shape != (self.plan.d,):
            raise StateError(f"the checkpoint has {arrays['iterate'].shape[0]} coordinates, the run {self.plan.d}")
        self.enter()
        with self.lock:
            if self.it.t != 0 or self.closed:
                raise StateError("only a fresh run can be restored")
            self.u[:] = arrays["iterate"]
            self.released[:] = arrays["released"]
            self.released_sum[:] = arrays["released_sum"]
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
