"""A keystream as a bit generator of NumPy.

NumPy's C code reads words through the five pointers of a ``bitgen_t``, none of which can report a failure. Failures are
therefore detected where an exception can be raised: when NumPy takes the generator's lock, which it does before every
call that draws. A failure in the middle of a call, or in code that does not take the lock, ends the process: stopping
is safer than predictable words.
"""

import threading

import numpy as np
from numpy.random.bit_generator import SeedlessSeedSequence

cimport cython
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from libc.stdint cimport int64_t, uint32_t, uint64_t
from numpy.random cimport BitGenerator

from ..errors import SourceFailure, StateError
from ._noise cimport PV_ADDRESS_BYTES, Source, check_address, fork_count, pv_address_row, pv_wipe

cdef extern from "noise/pv_keystream.h" nogil:
    ctypedef struct pv_keystream:
        unsigned char *at
        unsigned char *end
        const volatile unsigned long *forks
        unsigned long birth
        void (*refill)(void *owner) noexcept
        void *owner

    uint32_t pv_keystream_uint32(void *stream) noexcept
    uint64_t pv_keystream_uint64(void *stream) noexcept
    double pv_keystream_double(void *stream) noexcept

cdef extern from "Python.h":
    void Py_FatalError(const char *message) noexcept

cdef int64_t WORDS = 8192  # drawn at a time: one address row


cdef int refill(Keystream keystream) except -1:
    return keystream.refill()


cdef void refill_or_end(void *owner) noexcept with gil:
    # like a function that reports only by its result: the exception stays set, and the last message shows it
    if (<int (*)(Keystream) noexcept>refill)(<Keystream>owner) != 0:
        Py_FatalError("no random words for NumPy, whose C code cannot be told")


cdef class Keystream:
    """Words of a source in the order of their addresses, and the lock that NumPy holds while it reads them.

    Parameters
    ----------
    source : Source
    Noise stream, which must have no other use.
        Noise stream, which nothing else may use.
    row : int
        First address row.
    """

    cdef pv_keystream c
    cdef Source source
    cdef unsigned stream
    cdef uint64_t row
    cdef bint drawing
    cdef unsigned char *addresses
    cdef unsigned char *words
    cdef object lock

    def __init__(self, Source source not None, unsigned stream, uint64_t row):
        if self.words != NULL:
            raise StateError("a keystream cannot be started twice")
        check_address(stream, 0, WORDS)
        self.source = source
        self.stream = stream
        self.row = row
        self.lock = threading.RLock()
        self.addresses = <unsigned char *>PyMem_RawCalloc(WORDS, 8)
        self.words = <unsigned char *>PyMem_RawCalloc(WORDS * 8 + PV_ADDRESS_BYTES, 1)
        if self.addresses == NULL or self.words == NULL:
            raise MemoryError
        self.c.at = self.words
        self.c.end = self.words
        self.c.forks = fork_count()
        self.c.birth = source.birth
        self.c.refill = refill_or_end
        self.c.owner = <void *>self

    def __dealloc__(self):
        if self.words != NULL:
            pv_wipe(self.words, WORDS * 8)
        PyMem_RawFree(self.words)
        PyMem_RawFree(self.addresses)

    def __reduce__(self):
        raise StateError("a keystream cannot be pickled: two holders would draw the same words")

    def __copy__(self):
        raise StateError("a keystream cannot be copied: two holders would draw the same words")

    def __deepcopy__(self, memo):
        raise StateError("a keystream cannot be copied: two holders would draw the same words")

    cdef int refill(self) except -1:
        """Draw the words of the next row; unread words are dropped."""
        cdef uint64_t row = self.row
        self.source.check()
        if self.drawing:
            raise StateError("the bit generator is busy: the garbage collector ran something that draws from it")
        if row == <uint64_t>-1:
            raise SourceFailure("the bit generator has used up its addresses")
        self.row = row + 1  # counts as used, whatever happens next
        self.drawing = True
        self.c.at = self.c.end
        try:
            pv_address_row(self.addresses, self.stream, row, WORDS)
            self.source.fill(self.addresses, WORDS * 8, self.words)
            self.c.at = self.words
            self.c.end = self.words + WORDS * 8
        finally:
            self.drawing = False
        return 0

    def acquire(self, blocking=True, timeout=-1) -> bool:
        """Take the lock, which one thread may take several times.

        Raises
        ------
        SourceFailure
            In a forked child, or if the words are used up and the source gives no more.
        """
        self.source.check()  # before the lock: in a forked child, the thread that held it is gone
        if not self.lock.acquire(blocking, timeout):
            return False
        try:
            if self.drawing or self.c.at == self.c.end:
                self.refill()
        except BaseException:
            self.lock.release()
            raise
        return True

    def release(self):
        """Give the lock back."""
        self.lock.release()

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *failure):
        self.lock.release()


@cython.no_gc_clear  # NumPy's generators hold pointers into the keystream
cdef class KeyedBitGenerator(BitGenerator):
    """NumPy's interface to a :class:`Keystream`; see :class:`privol.noise.BitGenerator`."""

    cdef Keystream keystream  # one pointer and no more: see fits_numpy

    def __init__(self, Source source not None, *, unsigned stream, uint64_t row=0):
        if self.keystream is not None:
            raise StateError("a bit generator cannot be started twice")
        keystream = Keystream(source, stream, row)
        BitGenerator.__init__(self, SeedlessSeedSequence())
        self.keystream = keystream
        self.lock = keystream
        self._bitgen.state = &self.keystream.c
        self._bitgen.next_uint64 = pv_keystream_uint64
        self._bitgen.next_uint32 = pv_keystream_uint32
        self._bitgen.next_double = pv_keystream_double
        self._bitgen.next_raw = pv_keystream_uint64

    @property
    def private(self) -> bool:
        """Whether nobody knows the key."""
        return self.keystream.source.private

    @property
    def description(self) -> str:
        """The description of the bits."""
        return self.keystream.source.description

    @property
    def state(self):
        """Neither readable nor writable: two holders of a state would draw the same words."""
        raise StateError("the state of a keyed bit generator is secret, and two holders would draw the same words")

    @state.setter
    def state(self, value):
        raise StateError("a keyed bit generator cannot be set back: it would draw the same words again")

    def __reduce__(self):
        raise StateError("a keyed bit generator cannot be pickled: two holders would draw the same words")

    def __copy__(self):
        raise StateError("a keyed bit generator cannot be copied: two holders would draw the same words")

    def __deepcopy__(self, memo):
        raise StateError("a keyed bit generator cannot be copied: two holders would draw the same words")


def fits_numpy() -> bool:
    """Whether the layout of NumPy's bit generators is the one that this module was compiled with."""
    return KeyedBitGenerator.__basicsize__ == np.random.BitGenerator.__basicsize__ + sizeof(void *)
