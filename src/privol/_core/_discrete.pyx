"""Integer noise: addressed words into values of the discrete Gaussian and the discrete Laplace.

The kernel consumes words in order and stops where it runs out of them or where a word's 63 bits leave the
block open; between its calls this module fetches the words of the next addresses, or asks for more bits.
"""

import numpy as np

cimport numpy as cnp
from libc.string cimport memmove

from ..errors import SourceFailure
from ._noise cimport Source, pv_address, pv_wipe, pv_word
from ._rows cimport PV_NEED_BITS, PV_OK, PV_UNDECIDED

cnp.import_array()

MAX_BLOCK = PV_DISCRETE_MAX_BLOCK
MAX_NUMERATOR = PV_DISCRETE_MAX_NUMERATOR

cdef enum:
    # Words fetched at a time: enough that the cipher's call costs little, few enough for the nearest caches.
    _CAPACITY = 8192

# Words of one address row: their numbers, which address the extra bits of the last resort, have 32 bits.
cdef int64_t _ROW_WORDS = (<int64_t>1) << 32


cdef class IntegerLaw:
    """A law of integers, as the kernel takes it: see pv_discrete.h.

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
            ``decide(prefix, extra)``: the block of a word that leaves it open; ``extra(level)``, level = 1, 2, ...,
            the next 128 bits as two words.
        """
        cdef const uint64_t[::1] script = None
        self.run(out, source, script, stream, row, _CAPACITY, decide)

    def add_scripted(self, int64_t[::1] out not None, const uint64_t[::1] words not None, decide, *, int64_t capacity):
        """The same with given words, fetched at most `capacity` at a time (for tests).

        Here ``decide(prefix, position)`` gets the number of the word. Returns how many words were used.
        """
        return self.run(out, None, words, 0, 0, capacity, decide)

    cdef int64_t run(self, int64_t[::1] out, Source source, const uint64_t[::1] script, unsigned stream,
                     uint64_t row, int64_t capacity, object decide) except -1:
        cdef int64_t n = out.shape[0]
        cdef int64_t fetched = 0
        cdef int64_t rest
        cdef pv_status status = PV_OK
        cdef pv_draw draw
        cdef unsigned char[::1] words
        cdef unsigned char[::1] wider
        cdef unsigned char[::1] addresses
        if n == 0:
            return 0
        capacity = max(2, min(capacity, 2 * n + 16))
        words = np.empty(8 * capacity + 16, np.uint8)
        addresses = np.empty(8 * capacity, np.uint8)
        draw.words = &words[0]
        draw.n_words = draw.used = draw.done = 0
        draw.block = -1
        try:
            while True:
                with nogil:
                    status = pv_discrete_add(&self.c, &draw, &out[0], n)
                if status == PV_OK:
                    return fetched - draw.n_words + draw.used
                if status == PV_UNDECIDED:
                    rest = fetched - draw.n_words + draw.used
                    self.resolve(&draw, rest, source, stream, row, decide)
                    continue
                if status != PV_NEED_BITS:
                    raise SourceFailure(f"drawing did not succeed (status {status})")
                # the words of the unfinished proposal, then fresh ones
                rest = draw.n_words - draw.used
                memmove(&words[0], &words[8 * draw.used], 8 * rest)
                if rest + 2 > capacity:
                    wider = np.empty(16 * capacity + 16, np.uint8)
                    wider[:8 * rest] = words[:8 * rest]
                    pv_wipe(&words[0], words.shape[0])
                    words = wider
                    capacity *= 2
                    addresses = np.empty(8 * capacity, np.uint8)
                    draw.words = &words[0]
                draw.used = 0
                draw.n_words = rest + fetch(&words[8 * rest], &addresses[0], capacity - rest, fetched, source, script,
                                            stream, row)
                fetched += draw.n_words - rest
        finally:
            pv_wipe(&words[0], words.shape[0])

    cdef int resolve(self, pv_draw *draw, int64_t position, Source source, unsigned stream, uint64_t row,
                     object decide) except -1:
        """Find the block of the word at draw.used, the `position`-th of the row, with as many bits as it takes."""
        cdef uint64_t prefix = pv_word(draw.words + 8 * draw.used) >> 1
        if source is None:
            block = decide(prefix, position)
        else:

            def extra(level):
                return source.words(stream=stream, level=level, block=position, row=row)

            block = decide(prefix, extra)
        if not 0 <= block <= PV_DISCRETE_MAX_BLOCK:
            raise SourceFailure(f"a value of block {block} was drawn, which has a probability below 2**-360")
        draw.block = block
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
