"""The secret state of private prefix sums, and the calls that change it.

:class:`PrefixRun` is an opaque handle that owns the exact sums, the noise source and what is released. Python sees the
secret part only through ``secret_arrays``, which exists for checkpoints.
"""

import numpy as np

cimport numpy as cnp
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from libc.stdint cimport int64_t, uint64_t

from ..errors import BudgetExceeded, InvalidParameter, StateError

from ._guarded cimport GuardedRun
from ._noise cimport (
    PV_ADDRESS_BYTES,
    Source,
    Undecided,
    check_address,
    first_pass,
    pv_address_row,
    pv_draws,
    pv_row_words,
    pv_show,
    pv_wipe,
    this_thread,
)
from ._prefix_plan cimport (
    PrefixPlan,
    pv_prefix,
    pv_prefix_bind,
    pv_prefix_end_leaf,
    pv_prefix_go_to,
    pv_prefix_read,
    pv_prefix_row,
    pv_prefix_run,
    pv_prefix_kept_size,
    pv_prefix_secret_size,
    pv_prefix_size,
    pv_prefix_upcoming,
)
from ._rows cimport (
    PV_HORIZON,
    PV_NEED_BITS,
    PV_NEED_FAR,
    PV_OK,
    PV_UNDECIDED,
    invalid_row,
    native,
    pv_rows,
    pv_rows_norm,
    pv_status,
    view_block,
    view_row,
)

cnp.import_array()

cdef int64_t NOISE_BUFFER = 65536  # bytes of noise words drawn ahead
STATE_VERSION = 1


cdef class PrefixRun(GuardedRun):
    """One run of private prefix sums.

    Parameters
    ----------
    plan : PrefixPlan
        It may be followed by others.
    horizon : int
        Rows that may be learnt, in all epochs together.
    source, stream : Source or None, int
        Of the noise; None: no noise.
    decide : callable
        Rounds an undecided coordinate, see :func:`privol.noise.decide_lattice_point`.
    """

    cdef PrefixPlan plan
    cdef pv_prefix s
    cdef pv_draws draws
    cdef object decide
    cdef unsigned stream
    # Raw memory of its own: __dealloc__ wipes it, and may run after the garbage collector has cleared everything else.
    cdef double *memory
    cdef size_t n_secret
    cdef int64_t dim
    cdef unsigned char *addresses
    cdef int64_t horizon
    cdef bint ended

    def __init__(self, PrefixPlan plan not None, *, int64_t horizon, Source source, unsigned stream, decide):
        if self.memory != NULL:
            raise StateError("a run cannot be started twice")
        if (source is None) != (plan.c.std == 0.0):
            raise InvalidParameter("noise needs a source and a standard deviation above 0, a run without it neither")
        if plan.c.next == NULL and horizon > plan.c.horizon:
            raise InvalidParameter(f"horizon must be at most {plan.c.horizon}, the plan's, found {horizon}")
        cdef int64_t dim = plan.c.dim
        check_address(stream, 0, dim)
        self.source = source
        self.stream = stream
        self.decide = decide
        self.draws.pass_ = first_pass()
        self.plan, self.horizon, self.dim = plan, horizon, dim
        self.n_secret = pv_prefix_secret_size(&plan.c)
        self.memory = <double *>PyMem_RawCalloc(pv_prefix_size(&plan.c), sizeof(double))
        if self.memory == NULL:
            raise MemoryError
        pv_prefix_bind(&self.s, &plan.c, self.memory)
        if source is not None:
            row_bytes = pv_row_words(dim) * 8
            self.draws.capacity = max(1, NOISE_BUFFER // row_bytes)
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
        """Overwrite the exact sums, intermediate results of releases, and the noise drawn ahead."""
        if self.memory != NULL:
            pv_wipe(self.memory, self.n_secret * sizeof(double))
        if self.draws.words != NULL:
            pv_wipe(self.draws.words, self.draws.capacity * pv_row_words(self.dim) * 8)
        self.draws.filled = 0
        self.draws.used = 0

    def __repr__(self) -> str:
        return f"<PrefixRun: {self.n_rows} rows, {self.n_steps} prefix sums>"

    cdef int refill(self) except -1:
        """Fill the buffer with the words of the next draws."""
        cdef size_t size = <size_t>pv_row_words(self.dim) * 8
        cdef int64_t k
        self.draws.filled = self.draws.used = 0  # nothing until they are there: a source that fails wipes the buffer
        cdef int64_t n = pv_prefix_upcoming(&self.s, self.draws.capacity, self.draws.rows)
        for k in range(n):
            pv_address_row(self.addresses + k * size, self.stream, self.draws.rows[k], self.dim)
        self.source.fill(self.addresses, n * size, self.draws.words)
        self.draws.filled = n
        return 0

    cdef int serve(self, pv_status status) except -1:
        """Give the kernel what it asked for, or raise the error it found."""
        if status == PV_NEED_BITS:
            return self.refill()
        if status == PV_UNDECIDED:
            decide = self.decide
            return self.source.resolve(
                self.draws.undecided, self.stream, pv_prefix_row(&self.s), self.s.plan.std, decide
            )
        if status == PV_NEED_FAR:
            return self.plan.look_far(&self.s)
        if status == PV_HORIZON:
            raise BudgetExceeded(f"the horizon of {self.horizon} rows is used up")
        raise StateError(f"kernel status {status}")

    cdef int run(self, pv_rows *rows, double *out) except -1:
        """Learn the whole block; an interrupt between two of its rows is raised after the last one."""
        cdef int64_t i = 0
        cdef int64_t written = 0
        cdef int64_t failed = -1
        cdef int64_t row
        cdef pv_status status
        interrupt = None
        if self.closed:
            self.check_open()
        pv_show(&self.holder, this_thread())
        try:
            while True:
                with nogil:
                    status = pv_prefix_run(&self.s, rows, &i, &written, &self.draws, out)
                if status == PV_OK:
                    break
                try:
                    self.serve(status)
                except BaseException as error:
                    # an interrupt or a signal handler's exception: the request is repeated, once a row
                    row = self.s.first_row + self.s.rows
                    if status not in (PV_NEED_BITS, PV_UNDECIDED, PV_NEED_FAR) or failed == row:
                        raise
                    failed = row
                    interrupt = error
        finally:
            pv_show(&self.holder, 0)
        if interrupt is not None:
            raise interrupt
        return 0

    cdef int settle(self) except -1:
        """Make the draws that are due, if an exception prevented them."""
        cdef pv_rows none
        none.n = 0
        none.is_csr = none.is_f32 = 0
        none.col_stride = 8
        return self.run(&none, NULL)

    cdef int check_room(self, int64_t n) except -1:
        self.check_open()
        if self.ended:
            raise StateError("the last leaf of the run is completed as it is: no row follows")
        cdef int64_t learnt = self.s.first_row + self.s.rows
        if n > self.horizon - learnt:
            raise BudgetExceeded(
                f"the next {n} rows would exceed the horizon: {learnt} of {self.horizon} are used; "
                "nothing of them was learnt"
            )
        return 0

    cdef int check_width(self, int64_t width) except -1:
        if width != self.plan.c.width:
            raise InvalidParameter(f"a row must have {self.plan.c.width} values, found {width}")
        return 0

    def add_block(self, X, *, bint every=True):
        """Learn a block of rows. Rows with unusable entries are learnt as rows of zeros.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, width)
            May not change during the call.
        every : bool
            Return the prefix sum after every row; otherwise only that after the last.

        Returns
        -------
        ndarray of shape (n, dim) or (dim,), float64
        """
        cdef pv_rows rows
        cdef cnp.ndarray out = None
        cdef double *into = NULL
        self.enter(True)
        owner = view_block(&rows, X)
        self.check_width(rows.d)
        if every:
            out = np.empty((rows.n, self.dim))
            into = <double *>cnp.PyArray_DATA(out)
        with self.lock:
            self.check_room(rows.n)
            self.run(&rows, into)
            if out is None:
                out = self.vector()
        del owner
        return out

    def add_one(self, x, bint null_invalid=False):
        """Learn one row and return the prefix sum after it: ``add_block`` without the cost of a block."""
        cdef pv_rows rows
        cdef cnp.ndarray row
        self.enter(True)
        row = native(x if cnp.PyArray_Check(x) else np.array(x, dtype=np.float64))
        with self.lock:
            row = native(row)  # another thread may have changed its type and shape until here
            if cnp.PyArray_NDIM(row) != 1:
                raise InvalidParameter(f"a row must have one dimension, found {cnp.PyArray_NDIM(row)}")
            self.check_width(cnp.PyArray_DIM(row, 0))
            view_row(&rows, row)
            self.check_room(1)
            if not null_invalid and pv_rows_norm(&rows, 0) < 0.0:
                raise invalid_row(&rows, 0, self.s.first_row + self.s.rows)
            self.run(&rows, NULL)
            return self.vector()

    def finish(self):
        """Finish the rows so far: a leaf that has begun becomes a step as it is, and its draws are made.

        No row can be learnt afterwards.
        """
        self.enter(True)
        with self.lock:
            if self.revoked is not None and not self.s.due and not self.s.in_leaf:
                return  # nothing is left to do
            self.check_open()
            self.settle()
            self.ended = True
            if self.s.in_leaf > 0:
                pv_prefix_end_leaf(&self.s)
                self.settle()

    # ---- public -------------------------------------------------------------------------------

    cdef cnp.ndarray vector(self):
        """Copy of the last prefix sum, shape (dim,)."""
        out = np.empty(self.dim)
        pv_prefix_read(&self.s, <double *>cnp.PyArray_DATA(out))
        return out

    def prefix(self):
        """Copy of the last prefix sum, shape (dim,); zeros before the first leaf."""
        self.enter(False)
        with self.lock:
            return self.vector()

    @property
    def n_rows(self) -> int:
        """Rows learnt."""
        return self.s.first_row + self.s.rows

    @property
    def weight(self) -> float:
        """Sum of the weights of the rows in the last prefix sum; each row of earlier epochs counts 1."""
        return self.s.weight[0]

    @property
    def n_steps(self) -> int:
        """Prefix sums released."""
        return self.s.first_step + self.s.made

    # ---- private ------------------------------------------------------------------------------

    def raw_counts(self) -> dict[str, int]:
        """Rows scaled to the bound, and rows treated as null: functions of raw data, not private."""
        return {"clipped_rows": self.s.n_clipped, "null_rows": self.s.n_null}

    cdef bytes secret_key(self):
        return self.source.secret_key() if self.source is not None else b""

    def secret_arrays(self) -> dict[str, np.ndarray]:
        """The whole state as named arrays: SECRET, for checkpoints only (mode 0600, never exported).

        Refused in a forked child, which would continue from it and repeat its parent's noise.
        """
        self.enter(True)
        with self.lock:
            if self.closed:
                raise StateError("the run is closed: it has no secret state")
            if self.s.due:
                raise StateError("a draw is due: finish() makes it")
            return {
                "version": np.array([STATE_VERSION]),
                "plan": self.plan.numbers(),
                "memory": self.plan.memory_of(self.memory),
                "counts": self.plan.counts(&self.s),
                "more_counts": np.array([self.ended, self.s.n_clipped, self.s.n_null], dtype=np.int64),
                "key": np.frombuffer(self.secret_key(), dtype=np.uint8).copy(),
            }

    def restore(self, arrays):
        """Continue from the ``secret_arrays`` of a run with the same plan and source key."""
        if int(arrays["version"][0]) != STATE_VERSION:
            raise StateError(f"checkpoint version {int(arrays['version'][0])}, this privol reads {STATE_VERSION}")
        if bytes(arrays["key"]) != self.secret_key():
            raise StateError("the checkpoint belongs to another noise key")
        memory = np.asarray(arrays["memory"])
        cdef size_t n = pv_prefix_kept_size(&self.plan.c)
        if not np.array_equal(arrays["plan"], self.plan.numbers()) or memory.shape != (n,):
            raise StateError("the checkpoint belongs to another plan")
        if np.shape(arrays["more_counts"]) != (3,):
            raise StateError("the checkpoint is damaged")
        ended, clipped, null = (int(c) for c in arrays["more_counts"])
        if min(ended, clipped, null) < 0 or ended > 1:
            raise StateError("the checkpoint is damaged")
        counts = arrays["counts"]
        self.enter(False)
        with self.lock:
            if self.s.first_row + self.s.rows != 0 or self.closed:
                raise StateError("only a fresh run can be restored")
            pv_prefix_go_to(&self.s, self.plan.epoch_of(counts))
            self.plan.restore(&self.s, counts)
            self.plan.fill_memory(self.memory, memory)
            self.ended, self.s.n_clipped, self.s.n_null = ended, clipped, null
