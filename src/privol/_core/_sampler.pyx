"""Samplers that draw ahead: a call for a few values costs only the rounding of those values.

A sampler numbers its values: value n has the words of coordinate n % 4096 of address row n // 4096, however many values
a call takes. Words are encrypted ahead of their use, the first few when the first value is drawn. The position moves on
before a word is read, and never back.
"""

from numpy import empty
from numpy.ma import MaskedArray, count_masked

cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from cpython.pythread cimport (
    NOWAIT_LOCK,
    PY_LOCK_ACQUIRED,
    PyLockStatus,
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_get_thread_ident,
    PyThread_release_lock,
    PyThread_type_lock,
)
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from ..errors import InvalidParameter, SourceFailure, StateError
from ._noise cimport (
    PV_ADDRESS_BYTES,
    Source,
    Undecided,
    check_address,
    first_pass,
    lattice_of,
    pv_address,
    pv_lattice,
    pv_lattice_round,
    pv_lattice_within,
    pv_wipe,
)
from ._rows cimport PV_OK, PV_UNDECIDED, pv_status

cdef extern from "pythread.h" nogil:
    PyLockStatus PyThread_acquire_lock_timed(PyThread_type_lock lock, long long microseconds, int breaks) noexcept

cnp.import_array()

cdef enum:
    ROW = 4096  # coordinates of an address row: their words stay in the cache

cdef uint64_t LAST_ROW = <uint64_t>-1


cdef class KeyedSampler:
    """A source, and the lock for what is drawn ahead from it.

    An object with a source can draw. The last thing that a subclass's start does is to set it.
    """

    def __cinit__(self):
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError

    def __init__(self, Source source not None):
        self.check_unstarted()
        self.source = source

    def check_unstarted(self):
        if self.source is not None:
            raise StateError("a sampler cannot be started twice")

    def __dealloc__(self):
        if self.lock != NULL:
            PyThread_free_lock(self.lock)

    def __reduce__(self):
        raise StateError("noise cannot be pickled: both holders would draw the same noise")

    def __copy__(self):
        raise StateError("noise cannot be copied: both holders would draw the same noise")

    def __deepcopy__(self, memo):
        raise StateError("noise cannot be copied: both holders would draw the same noise")

    cdef int enter(self) except -1:
        """Take the lock, if this process may draw."""
        if self.source is None:
            raise StateError("this sampler was never started")
        self.source.check()  # before the lock: in a forked child, the thread that held it does not exist
        if not PyThread_acquire_lock(self.lock, NOWAIT_LOCK):
            self.wait()
        self.owner = PyThread_get_thread_ident()
        return 0

    cdef int wait(self) except -1:
        cdef PyLockStatus status
        if self.owner == <unsigned long>PyThread_get_thread_ident():
            raise StateError("the sampler is busy: the garbage collector ran something that draws from it")
        while True:
            with nogil:
                status = PyThread_acquire_lock_timed(self.lock, -1, 1)
            try:
                if status != PY_LOCK_ACQUIRED:
                    PyErr_CheckSignals()
                self.source.check()  # a signal handler may have forked
            except BaseException:
                if status == PY_LOCK_ACQUIRED:
                    PyThread_release_lock(self.lock)
                raise
            if status == PY_LOCK_ACQUIRED:
                return 0

    cdef void leave(self) noexcept:
        self.owner = 0
        PyThread_release_lock(self.lock)


cdef class AddressRow:
    """The words of one address row, drawn ahead in pieces, and scratch memory for undecided coordinates.

    Words for the coordinates from ``at`` to ``filled`` are in memory; elsewhere there are zeros.
    """

    def __cinit__(self):
        self.addresses = <unsigned char *>PyMem_RawMalloc(ROW * 8)
        self.words = <unsigned char *>PyMem_RawMalloc(ROW * 8 + PV_ADDRESS_BYTES)
        if self.addresses == NULL or self.words == NULL:
            raise MemoryError
        self.undecided = Undecided(ROW)
        self.ahead = FIRST

    def __dealloc__(self):
        if self.words != NULL:
            pv_wipe(self.words, ROW * 8 + PV_ADDRESS_BYTES)
        PyMem_RawFree(self.words)
        PyMem_RawFree(self.addresses)

    cdef void turn(self, uint64_t row, int64_t at) noexcept:
        """Go to a coordinate of another row, with nothing drawn. All words of the earlier row are used."""
        self.row = row
        self.at = at
        self.filled = at

    cdef unsigned char *take(self, Source source, unsigned stream, int64_t n) except NULL:
        """Return the next n words, which the caller wipes; at + n is at most ROW."""
        cdef int64_t first = self.at
        self.at = first + n  # counts as used, whatever happens next
        if self.at > self.filled:
            self.fill(source, stream)
        return self.words + 8 * first

    cdef int fill(self, Source source, unsigned stream) except -1:
        """Draw words up to `at` and beyond. After a failure the rest of the row counts as used."""
        cdef int64_t first = self.filled
        cdef int64_t stop = min(<int64_t>ROW, max((self.at + 1) & ~(<int64_t>1), first + self.ahead))
        cdef int64_t block
        self.ahead = min(<int64_t>ROW, 2 * self.ahead)
        for block in range(first // 2, stop // 2):
            pv_address(self.addresses + 8 * (2 * block - first), stream, 0, <uint32_t>block, self.row)
        try:
            source.fill(self.addresses, 8 * (stop - first), self.words + 8 * first)
        except BaseException:
            pv_wipe(self.words, ROW * 8 + PV_ADDRESS_BYTES)
            self.turn(self.row, ROW)
            raise
        self.filled = stop
        return 0


cdef class LatticeSampler(KeyedSampler):
    """Independent values ``round_h(x + scale Z)`` of one law.

    A subclass has ``_shape(size)``, which checks a shape, and ``_decide(word, extra, x, scale, step)``, for undecided
    values: see :func:`privol.noise.decide_lattice_point`.

    Parameters
    ----------
    source : Source
    law : str
        "gaussian", "laplace" or "exponential".
    scale : float
        From 1e-280 to 1e280.
    stream : int
        Noise stream, which nothing else may use with this key.
    row : int
        First address row.
    """

    def __init__(self, Source source not None, *, str law not None, double scale, unsigned stream, uint64_t row=0):
        self.check_unstarted()
        check_address(stream, 0, ROW)
        self.scale = scale
        self.stream = stream
        self.lattice = lattice_of(law, scale)
        self.own = AddressRow()
        self.own.turn(row, 0)
        super().__init__(source)

    @property
    def granularity(self) -> float:
        """The grid h: the power of two with 2**10 h <= scale < 2**11 h."""
        return self.lattice.step

    @property
    def _place(self) -> tuple[int, int]:
        """Address row and coordinate after the last value drawn."""
        return self.own.row, self.own.at

    def add(self, x):
        """Return ``round_h(x + scale Z)`` with an independent Z for every value of x.

        Parameters
        ----------
        x : array-like of float, any shape
            Finite, of magnitude below 2**50 h. Integers and booleans count as floats.

        Returns
        -------
        ndarray of float64, of the shape of x

        Raises
        ------
        InvalidParameter
            If x holds anything else, or masked values; before a value is drawn.
        SourceFailure
            In a forked child process; if the cipher fails; after 2**64 rows of 4096 values.
        """
        cdef cnp.ndarray out = checked(&self.lattice, doubles(x))
        cdef double *values = <double *>cnp.PyArray_DATA(out)
        self.draw(values, cnp.PyArray_SIZE(out), values)
        return out

    def sample(self, size):
        """Return values of ``round_h(scale Z)`` in an array of the given shape.

        Parameters
        ----------
        size : int or tuple of int
        """
        cdef int overflow = 1
        cdef cnp.npy_intp n = -1
        cdef cnp.ndarray out
        if PyLong_CheckExact(size):
            n = PyLong_AsLongLongAndOverflow(size, &overflow)
        if overflow == 0 and n >= 0:
            out = cnp.PyArray_SimpleNew(1, &n, cnp.NPY_DOUBLE)
        else:
            out = empty((<object>self)._shape(size))
            n = cnp.PyArray_SIZE(out)
        self.draw(NULL, n, <double *>cnp.PyArray_DATA(out))
        return out

    cdef int draw(self, const double *x, int64_t n, double *out) except -1:
        """Write n values: the rest of the row drawn ahead, whole rows, and the beginning of another, which is kept.

        x is `out`, or NULL for zeros.
        """
        cdef AddressRow own = self.own
        cdef Undecided open_head = None
        cdef Undecided open_tail = None
        cdef uint64_t row
        cdef int64_t first
        cdef int64_t head
        cdef int64_t rows
        cdef int64_t tail
        self.enter()
        try:
            row, first = own.row, own.at
            head = min(n, ROW - first)
            rows = (n - head) // ROW
            tail = (n - head) % ROW
            if <uint64_t>(rows + (tail > 0)) > LAST_ROW - row:
                raise SourceFailure("this noise has used up its addresses: make another")
            if head > 0:
                open_head = self.round(own, x, head, out)
            if tail > 0:
                own.turn(row + rows + 1, 0)
                open_tail = self.round(own, behind(x, n - tail), tail, out + (n - tail))
            elif rows > 0:
                own.turn(row + rows, ROW)
        finally:
            self.leave()
        # these rows belong to this call alone
        if rows > 0:
            self.draw_rows(behind(x, head), row + 1, rows, out + head)
        if open_head is not None:
            self.settle(open_head, row, first, out)
        if open_tail is not None:
            self.settle(open_tail, row + rows + 1, 0, out + (n - tail))
        return 0

    cdef int draw_rows(self, const double *x, uint64_t first, int64_t rows, double *out) except -1:
        """Write whole address rows."""
        cdef AddressRow words = AddressRow()
        cdef Undecided open_
        cdef int64_t k
        for k in range(rows):
            PyErr_CheckSignals()
            words.turn(first + k, 0)
            open_ = self.round(words, behind(x, k * ROW), ROW, out + k * ROW)
            if open_ is not None:
                self.settle(open_, first + k, 0, out + k * ROW)
        return 0

    cdef Undecided round(self, AddressRow row, const double *x, int64_t n, double *out):
        """Round with the next n words of a row, and wipe them. Returns the undecided coordinates, if any."""
        cdef int64_t first = row.at
        cdef Source source = self.source
        cdef unsigned char *words = row.take(source, self.stream, n)
        cdef Undecided open_ = row.undecided
        cdef pv_lattice lattice = self.lattice
        cdef pv_status status
        cdef int64_t k
        lattice.pass_ = first_pass()
        open_.c.resolved = 0
        if n < LONG:
            status = pv_lattice_round(&lattice, x, 1.0, n, 0.0, words, out, &open_.c)
            pv_wipe(words, 8 * n)
        else:
            with nogil:
                status = pv_lattice_round(&lattice, x, 1.0, n, 0.0, words, out, &open_.c)
                pv_wipe(words, 8 * n)
        if status == PV_OK:
            return None
        if status != PV_UNDECIDED:
            raise SourceFailure(f"rounding did not succeed (status {status})")
        for k in range(open_.c.n):
            open_.c.coord[k] += first
        row.undecided = Undecided(ROW)
        return open_

    cdef int settle(self, Undecided open_, uint64_t row, int64_t first, double *out) except -1:
        """Round the undecided coordinates; `out` begins with coordinate `first` of the row."""
        cdef int64_t k
        try:
            decide = (<object>self)._decide
            self.source.resolve(&open_.c, self.stream, row, self.scale, decide)
            for k in range(open_.c.n):
                out[open_.c.coord[k] - first] = open_.c.value[k] * self.lattice.step + 0.0  # + 0.0: never -0
        finally:
            open_.wipe()
        return 0


cdef cnp.ndarray doubles(object x):
    """Return the values as contiguous doubles; without a copy if they are that already."""
    cdef cnp.ndarray values
    if cnp.PyArray_CheckExact(x):
        values = x
    else:
        check_unmasked(x)
        values = cnp.PyArray_FROM_O(x)
    if not cnp.PyArray_CanCastSafely(cnp.PyArray_TYPE(values), cnp.NPY_DOUBLE):
        raise InvalidParameter(f"x must be of real numbers that doubles can hold, found dtype {values.dtype}")
    return cnp.PyArray_FROMANY(values, cnp.NPY_DOUBLE, 0, 0, cnp.NPY_ARRAY_CARRAY_RO | cnp.NPY_ARRAY_ENSUREARRAY)


cdef int check_unmasked(object x) except -1:
    """Refuse arrays whose masked values would be perturbed and released."""
    if isinstance(x, MaskedArray) and count_masked(x) > 0:
        raise InvalidParameter(f"x must have no masked values, found {count_masked(x)}")
    return 0


cdef cnp.ndarray checked(const pv_lattice *lattice, cnp.ndarray values):
    """Copy the values, so that no other thread can change them between check and use; refuse what cannot be rounded."""
    cdef cnp.ndarray out = cnp.PyArray_SimpleNew(cnp.PyArray_NDIM(values), cnp.PyArray_DIMS(values), cnp.NPY_DOUBLE)
    cdef int64_t n = cnp.PyArray_SIZE(out)
    cdef const double *x = <const double *>cnp.PyArray_DATA(values)
    cdef double *own = <double *>cnp.PyArray_DATA(out)
    cdef bint within
    if n < LONG:
        within = copy_within(lattice, x, n, own)
    else:
        with nogil:
            within = copy_within(lattice, x, n, own)
    if not within:
        raise InvalidParameter("x must be finite and of magnitude below 2**50 times the granularity")
    return out


cdef bint copy_within(const pv_lattice *lattice, const double *x, int64_t n, double *out) noexcept nogil:
    """Copy in pieces that stay in the cache; return whether all values can be rounded."""
    cdef int64_t start = 0
    cdef int64_t size
    while start < n:
        size = min(<int64_t>ROW, n - start)
        memcpy(out + start, x + start, 8 * size)
        if not pv_lattice_within(lattice, out + start, size):
            return False
        start += size
    return True
