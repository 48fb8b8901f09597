"""Integer noise: turns addressed words into values of the discrete Gaussian and the discrete Laplace distribution.

The kernel consumes words in order and stops when there are no more words, or when a word's 63 bits do not decide the
block; between its calls this module fetches the words of the next addresses, or asks for more bits.
"""

import numpy as np

cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from ..errors import InvalidParameter, SourceFailure
from ._noise cimport PV_ADDRESS_BYTES, Source, check_address, pv_address, pv_wipe, pv_word
from ._rows cimport PV_NEED_BITS, PV_OK, PV_UNDECIDED, pv_status
from ._sampler cimport FIRST, LONG, KeyedSampler, check_unmasked

cnp.import_array()

cdef extern from "noise/pv_discrete.h" nogil:
    int PV_DISCRETE_MAX_BLOCK
    int64_t PV_DISCRETE_MAX_NUMERATOR
    int PV_DISCRETE_MAX_SHIFT
    int PV_DISCRETE_GUIDE_BITS

    ctypedef struct pv_discrete:
        const uint64_t *limits
        const uint32_t *sure
        const uint16_t *guide
        int64_t blocks
        unsigned shift
        int square
        uint64_t a
        uint64_t b

    ctypedef struct pv_draw:
        const unsigned char *words
        int64_t n_words
        int64_t used
        int64_t done
        int64_t block

    void pv_discrete_guide(const uint64_t *limits, uint16_t *guide) noexcept
    pv_status pv_discrete_add(const pv_discrete *law, pv_draw *draw, int64_t *out, int64_t n) noexcept

MAX_BLOCK = PV_DISCRETE_MAX_BLOCK
MAX_NUMERATOR = PV_DISCRETE_MAX_NUMERATOR

cdef enum:
    # Words fetched at a time: enough to spread the cost of the cipher's call, few enough for the nearest caches.
    _CAPACITY = 8192
    _ROW = 1 << 16  # values of an address row

# Words of one address row: their numbers, which address the extra bits of undecided words, have 32 bits.
cdef int64_t _ROW_WORDS = (<int64_t>1) << 32

cdef int64_t _LARGEST = (<int64_t>1) << 62  # largest magnitude of a value that noise is added to


cdef class IntegerLaw:
    """A distribution on the integers, in the form that the kernel takes: see pv_discrete.h.

    Parameters
    ----------
    limits : list of int
        floor(2**63 P(block <= j)) for j = 0, 1, ... up to the first that is 2**63 - 1.
    sure : list of int
        For every block, 2**24 times the largest exponent within it, rounded up, at most 2**24.
    shift : int
        Binary logarithm of the block width.
    square : bool
        Discrete Gaussian, else discrete Laplace.
    numerator, denominator : int
        The scale.
    """

    cdef pv_discrete c
    cdef uint64_t[::1] limits
    cdef uint32_t[::1] sure
    cdef uint16_t[::1] guide

    def __init__(self, limits, sure, *, int shift, bint square, numerator, denominator):
        limits = np.array(limits, dtype=np.int64)
        self.limits = limits.astype(np.uint64)
        self.sure = np.array(sure, dtype=np.uint32)
        self.guide = np.zeros(1 << PV_DISCRETE_GUIDE_BITS, np.uint16)
        cdef int64_t n = self.limits.shape[0]
        if not (0 < n == self.sure.shape[0] <= PV_DISCRETE_MAX_BLOCK) or not 0 <= shift <= PV_DISCRETE_MAX_SHIFT:
            raise ValueError("the law has no blocks, or too many or too wide ones")
        if limits[n - 1] != (1 << 63) - 1 or np.any(np.diff(limits) < 0):
            raise ValueError("limits must ascend to 2**63 - 1")
        if not 0 < numerator <= PV_DISCRETE_MAX_NUMERATOR or denominator <= 0:
            raise ValueError("the scale is out of range")
        if shift > 0 and denominator << (shift + 4) > numerator:
            raise ValueError("a block may be no wider than a sixteenth of the scale")
        self.c.limits = &self.limits[0]
        self.c.sure = &self.sure[0]
        self.c.guide = &self.guide[0]
        self.c.blocks = n
        self.c.shift = shift
        self.c.square = square
        # blocks of one integer need no exponents, so a denominator beyond 64 bits is not used
        self.c.a = numerator if shift > 0 else 1
        self.c.b = denominator if shift > 0 else 1
        pv_discrete_guide(self.c.limits, &self.guide[0])

    def add(self, int64_t[::1] out not None, Source source not None, *, unsigned stream, uint64_t row, decide):
        """Add independent values to out, in place, with the words of one address row.

        Parameters
        ----------
        out : ndarray of shape (n,), int64
            Of magnitude at most 2**62.
        source : Source
        stream, row : int
            Address; each may be used once. Words are used in the order of their blocks.
        decide : callable
            ``decide(prefix, extra)``: returns the block of a word whose bits do not decide it; ``extra(level)``, for
            level = 1, 2, ..., returns the next 128 bits as two words.
        """
        cdef int64_t n = out.shape[0]
        if n > 0:
            reader = IntegerWords(source, stream, min(<int64_t>_CAPACITY, 2 * n + 16))
            reader.turn(row)
            reader.add(self, &out[0], n, decide)

    def add_scripted(self, int64_t[::1] out not None, const uint64_t[::1] words not None, decide, *, int64_t capacity):
        """Add values made of given words, fetched at most `capacity` at a time (for tests).

        ``decide(prefix, position)`` gets the number of the word. Returns how many words were used.
        """
        cdef int64_t n = out.shape[0]
        if n == 0:
            return 0
        reader = IntegerWords(None, 0, min(capacity, 2 * n + 16))
        reader.script = words
        reader.add(self, &out[0], n, decide)
        return reader.used()


cdef class IntegerWords:
    """The words of one address row, in the order of their blocks, and how many are used.

    Parameters
    ----------
    source : Source or None
    stream : int
    capacity : int
        Words fetched at most at a time; more are held if one proposal needs more.
    """

    cdef Source source
    cdef const uint64_t[::1] script
    cdef unsigned stream
    cdef uint64_t row
    cdef int64_t capacity
    cdef int64_t ahead
    cdef int64_t fetched
    cdef unsigned char *words
    cdef unsigned char *addresses
    cdef pv_draw draw

    def __cinit__(self, Source source, unsigned stream, int64_t capacity):
        self.source = source
        self.stream = stream
        self.capacity = max(2, capacity)
        self.ahead = self.capacity
        self.words = <unsigned char *>PyMem_RawMalloc(8 * self.capacity + PV_ADDRESS_BYTES)
        self.addresses = <unsigned char *>PyMem_RawMalloc(8 * self.capacity)
        if self.words == NULL or self.addresses == NULL:
            raise MemoryError
        self.turn(0)

    def __dealloc__(self):
        self.wipe()
        PyMem_RawFree(self.words)
        PyMem_RawFree(self.addresses)

    cdef void wipe(self) noexcept:
        if self.words != NULL:
            pv_wipe(self.words, 8 * self.capacity + PV_ADDRESS_BYTES)

    cdef void turn(self, uint64_t row) noexcept:
        """Go to the beginning of another row; unused words are wiped."""
        self.wipe()
        self.row = row
        self.fetched = 0
        self.draw.words = self.words
        self.draw.n_words = self.draw.used = 0
        self.draw.block = -1

    cdef int64_t used(self) noexcept:
        """How many words of the row are used."""
        return self.fetched - self.draw.n_words + self.draw.used

    cdef int add(self, IntegerLaw law, int64_t *out, int64_t n, object decide) except -1:
        """Add n values to out and wipe their words. After a failure all words are wiped."""
        cdef pv_status status
        self.draw.done = 0
        try:
            while True:
                if n < LONG:
                    status = pv_discrete_add(&law.c, &self.draw, out, n)
                else:
                    with nogil:
                        status = pv_discrete_add(&law.c, &self.draw, out, n)
                if status == PV_OK:
                    break
                if status == PV_UNDECIDED:
                    self.resolve(decide)
                elif status == PV_NEED_BITS:
                    self.refill()
                else:
                    raise SourceFailure(f"drawing did not succeed (status {status})")
        except BaseException:
            self.wipe()
            raise
        pv_wipe(self.words, 8 * self.draw.used)
        return 0

    cdef int refill(self) except -1:
        """Keep the words of the unfinished proposal, and fetch more."""
        cdef int64_t rest = self.draw.n_words - self.draw.used
        cdef int64_t room
        cdef int64_t more
        cdef Source source = self.source
        memmove(self.words, self.words + 8 * self.draw.used, 8 * rest)
        pv_wipe(self.words + 8 * rest, 8 * self.draw.used)
        self.draw.used = 0
        self.draw.n_words = rest
        if rest + 2 > self.capacity:
            self.widen(rest)
        room = min(self.ahead, self.capacity - rest)
        more = fetch(self.words + 8 * rest, self.addresses, room, self.fetched, source, self.script, self.stream,
                     self.row)
        self.ahead = min(self.capacity, 2 * self.ahead)
        self.draw.n_words += more
        self.fetched += more
        return 0

    cdef int widen(self, int64_t rest) except -1:
        """Double the memory for words."""
        cdef unsigned char *words = <unsigned char *>PyMem_RawMalloc(16 * self.capacity + PV_ADDRESS_BYTES)
        cdef unsigned char *addresses = <unsigned char *>PyMem_RawMalloc(16 * self.capacity)
        if words == NULL or addresses == NULL:
            PyMem_RawFree(words)
            PyMem_RawFree(addresses)
            raise MemoryError
        memcpy(words, self.words, 8 * rest)
        self.wipe()
        PyMem_RawFree(self.words)
        PyMem_RawFree(self.addresses)
        self.words = words
        self.addresses = addresses
        self.capacity *= 2
        self.draw.words = words
        return 0

    cdef int resolve(self, object decide) except -1:
        """Find the block of the next word, with as many bits as that takes."""
        cdef uint64_t prefix = pv_word(self.words + 8 * self.draw.used) >> 1
        cdef int64_t position = self.used()
        if self.source is None:
            block = decide(prefix, position)
        else:

            def extra(level):
                return self.source.words(stream=self.stream, level=level, block=position, row=self.row)

            block = decide(prefix, extra)
        if not 0 <= block <= PV_DISCRETE_MAX_BLOCK:
            raise SourceFailure(f"a value of block {block} was drawn, which has a probability below 2**-360")
        self.draw.block = block
        return 0


cdef int64_t fetch(unsigned char *out, unsigned char *addresses, int64_t room, int64_t first, Source source,
                   const uint64_t[::1] script, unsigned stream, uint64_t row) except -1:
    """Write words number `first`, `first + 1`, ... of the row; return how many, an even number up to `room`."""
    cdef int64_t n = room & ~(<int64_t>1)
    cdef int64_t k
    if first + n > _ROW_WORDS:
        raise SourceFailure(f"one call needs more than {_ROW_WORDS} words")
    if source is None:
        n = min(n, (script.shape[0] - first) & ~(<int64_t>1))
        if n <= 0:
            raise SourceFailure(f"the script has only {script.shape[0]} words")
        for k in range(8 * n):
            out[k] = <unsigned char>(script[first + k // 8] >> (8 * (k % 8)))
        return n
    for k in range(n // 2):
        pv_address(addresses + 16 * k, stream, 0, <unsigned>(first // 2 + k), row)
    source.fill(addresses, 8 * n, out)
    return n


cdef class IntegerSampler(KeyedSampler):
    """Independent values of a distribution on the integers; their words are drawn ahead.

    Value n is value n % 65536 of address row n // 65536, whichever call returns it.

    A subclass has ``_shape(size)``, which checks a shape; ``_integers(x)``, which returns a new, checked C-contiguous
    int64 array; and ``_decide(prefix, extra)``, for undecided words.

    Parameters
    ----------
    source : Source
    law : IntegerLaw
    stream : int
        Noise stream, which nothing else may use with this key.
    row : int
        First address row.
    """

    cdef public IntegerLaw _law
    cdef unsigned stream
    cdef IntegerWords own
    cdef int64_t left

    def __init__(self, Source source not None, IntegerLaw law not None, *, unsigned stream, uint64_t row=0):
        self.check_unstarted()
        check_address(stream, 0, 0)
        self._law = law
        self.stream = stream
        self.own = IntegerWords(source, stream, _CAPACITY)
        self.own.ahead = FIRST
        self.own.turn(row)
        self.left = _ROW
        super().__init__(source)

    @property
    def _place(self) -> tuple[int, int]:
        """The address row, and how many of its values are drawn."""
        return self.own.row, _ROW - self.left

    def add(self, x):
        """Return x with an independent value added to each of its integers.

        Parameters
        ----------
        x : array-like of int, any shape
            Of magnitude at most 2**62.

        Returns
        -------
        ndarray of int64, of the shape of x

        Raises
        ------
        InvalidParameter
            If x holds anything but integers, or masked ones, or one that is too large; before a value is drawn.
        SourceFailure
            In a forked child process; if the cipher fails; after 2**64 rows of 65,536 values.
        """
        cdef cnp.ndarray out
        if cnp.PyArray_CheckExact(x) and cnp.PyArray_TYPE(x) == cnp.NPY_INT64 and cnp.PyArray_ISCARRAY_RO(x):
            out = cnp.PyArray_NewCopy(x, cnp.NPY_CORDER)
        else:
            check_unmasked(x)
            out = (<object>self)._integers(x)
        cdef int64_t n = cnp.PyArray_SIZE(out)
        cdef int64_t *values = <int64_t *>cnp.PyArray_DATA(out)
        cdef int64_t beyond = 0
        cdef int64_t k
        for k in range(n):
            beyond |= (values[k] > _LARGEST) | (values[k] < -_LARGEST)
        if beyond:
            raise InvalidParameter("x must be of magnitude at most 2**62")
        self.draw(out)
        return out

    def sample(self, size):
        """Return independent values in an int64 array of the given shape.

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
            out = cnp.PyArray_ZEROS(1, &n, cnp.NPY_INT64, 0)
        else:
            out = np.zeros((<object>self)._shape(size), np.int64)
        self.draw(out)
        return out

    cdef int draw(self, cnp.ndarray values) except -1:
        """Add noise to the values: the rest of the row in use, then whole rows, then the beginning of another."""
        cdef int64_t n = cnp.PyArray_SIZE(values)
        cdef int64_t *out = <int64_t *>cnp.PyArray_DATA(values)
        cdef IntegerLaw law = self._law
        cdef uint64_t row
        cdef int64_t head
        cdef int64_t rows
        cdef int64_t tail
        cdef int64_t k
        self.enter()
        try:
            row = self.own.row
            head = min(n, self.left)
            rows = (n - head) // _ROW
            tail = (n - head) % _ROW
            if <uint64_t>(rows + (tail > 0)) > <uint64_t>-1 - row:
                raise SourceFailure("this noise has used up its addresses: make another")
            if head > 0:
                self.part(out, head)
            if tail > 0:
                self.own.turn(row + rows + 1)
                self.left = _ROW
                self.part(out + (n - tail), tail)
            elif rows > 0:
                self.own.turn(row + rows)
                self.left = 0
        finally:
            self.leave()
        if rows > 0:  # these rows belong to this call alone
            words = IntegerWords(self.source, self.stream, _CAPACITY)
            decide = (<object>self)._decide
            for k in range(rows):
                PyErr_CheckSignals()
                words.turn(row + 1 + k)
                words.add(law, out + head + k * _ROW, _ROW, decide)
        return 0

    cdef int part(self, int64_t *out, int64_t n) except -1:
        """Add the next n values of the row. After a failure the rest of the row counts as used."""
        cdef int64_t left = self.left
        self.left = 0
        decide = (<object>self)._decide
        self.own.add(self._law, out, n, decide)
        self.left = left - n
        return 0
