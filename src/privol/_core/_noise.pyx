"""Addressed cryptographic words and Gaussian noise on a lattice.

A :class:`Source` turns 128-bit addresses into random words with AES-256 (OpenSSL through
``cryptography``), one block per address: the keystream of counter mode with the counter spelt out, so
that the words of any row and coordinate can be had alone.
"""

import os
import threading

import numpy as np

cimport numpy as cnp
from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from cpython.memoryview cimport PyMemoryView_FromMemory

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from ..errors import SourceFailure, StateError
from ._rows cimport PV_OK, PV_UNDECIDED

cnp.import_array()

# Counts the forks between the process that first imported the module and this one. A source remembers
# the count of its birth, so a copy of it in a child process knows that it is one.
cdef long _generation = 0


def _forked():
    global _generation
    _generation += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


cdef class Source:
    """Random words addressed by (stream, level, block, row), from one key.

    Parameters
    ----------
    key : bytes or bytearray of length 32
        AES-256 key.
    private : bool
        Whether the key is known to nobody: drawn from the operating system and never shown.
    description : str
        What the guarantee sentence says of the bits.

    Notes
    -----
    Never gives two identical streams: it cannot be copied or pickled, and refuses in a forked child.
    """

    def __init__(self, key, *, bint private, str description not None):
        if len(key) != 32:
            raise ValueError(f"key must have 32 bytes, found {len(key)}")
        cdef int i
        for i in range(32):
            self.key[i] = key[i]
        self.private = private
        self.description = description
        self.generation = _generation
        # ECB on addresses that never repeat is counter mode with free choice of the counter
        self.encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
        self.lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Source: {self.description}>"

    def __reduce__(self):
        raise StateError("a noise source cannot be pickled: two holders would draw the same noise")

    def __copy__(self):
        raise StateError("a noise source cannot be copied: two holders would draw the same noise")

    def __deepcopy__(self, memo):
        raise StateError("a noise source cannot be copied: two holders would draw the same noise")

    def __dealloc__(self):
        pv_wipe(self.key, 32)

    cdef bytes secret_key(self):
        """The key: SECRET, for checkpoints only."""
        return (<char *>self.key)[:32]

    cdef void destroy(self) noexcept:
        """Forget the key: no word can be drawn any more. OpenSSL wipes its own copy when the cipher goes."""
        self.encryptor = None
        pv_wipe(self.key, 32)

    cdef int check(self) except -1:
        if self.encryptor is None:
            raise SourceFailure("this noise source is closed")
        if self.generation != _generation:
            raise SourceFailure(
                "this noise source was created before the process forked; the parent may draw the same noise. "
                "Create the learner in the process that uses it"
            )
        return 0

    cdef int fill(self, unsigned char *addresses, size_t n, unsigned char *out) except -1:
        """Encrypt n bytes of addresses into out, which has room for n + 16 bytes."""
        self.check()
        # a cipher works for one thread at a time, and fails for others that come meanwhile
        with self.lock:
            written = self.encryptor.update_into(
                PyMemoryView_FromMemory(<char *>addresses, <Py_ssize_t>n, PyBUF_READ),
                PyMemoryView_FromMemory(<char *>out, <Py_ssize_t>(n + 16), PyBUF_WRITE),
            )
        if <size_t>written != n:
            raise SourceFailure(f"the cipher wrote {written} of {n} bytes")
        return 0

    def words(self, *, unsigned stream, unsigned level, uint32_t block, uint64_t row) -> tuple[int, int]:
        """Return the two 64-bit words at an address (secret where the source is private)."""
        cdef unsigned char address[16]
        cdef unsigned char out[32]
        pv_address(address, stream, level, block, row)
        self.fill(address, 16, out)
        pair = (pv_word(out), pv_word(out + 8))
        pv_wipe(out, 32)
        return pair

    cdef int resolve(self, pv_undecided *und, unsigned stream, uint64_t row, double scale, object decide) except -1:
        """Round the listed coordinates with as many extra words as it takes."""
        cdef int64_t k
        cdef double step = pv_lattice_step(scale)
        for k in range(und.n):
            coordinate = und.coord[k]

            def extra(level, coordinate=coordinate):
                return self.words(stream=stream, level=level, block=coordinate, row=row)

            und.value[k] = decide(und.word[k], extra, und.x[k], scale, step)
        und.resolved = und.n
        return 0

    def gaussian(self, cnp.ndarray x not None, double scale, *, unsigned stream, uint64_t row, decide):
        """round_h(x + scale Z) for one address row.

        Parameters
        ----------
        x : ndarray of shape (d,), float64, C-contiguous
        scale : float
            Standard deviation, above 0 and normal.
        stream, row : int
            Address; each may be used once.
        decide : callable
            See :func:`privol.noise.decide_lattice_point`.

        Returns
        -------
        ndarray of shape (d,), float64
        """
        cdef const double[::1] u = x
        cdef int64_t d = u.shape[0]
        cdef cnp.ndarray[double, ndim=1] out = np.empty(d)
        if d == 0:
            return out
        cdef double magnitude = float(np.max(np.abs(x)))
        cdef size_t n = <size_t>pv_row_words(d) * 8
        cdef unsigned char[::1] addresses = np.empty(n, np.uint8)
        cdef unsigned char[::1] words = np.empty(n + 16, np.uint8)
        cdef Undecided und = Undecided(d)
        cdef pv_status status
        pv_address_row(&addresses[0], stream, row, d)
        self.fill(&addresses[0], n, &words[0])
        with nogil:
            status = pv_lattice_gaussian(&u[0], 1.0, d, scale, magnitude, &words[0], &out[0], &und.c)
        if status == PV_UNDECIDED:
            self.resolve(&und.c, stream, row, scale, decide)
            status = pv_lattice_gaussian(&u[0], 1.0, d, scale, magnitude, &words[0], &out[0], &und.c)
        pv_wipe(&words[0], n)
        if status != PV_OK:
            raise SourceFailure(f"rounding did not settle (status {status})")
        return out


cdef class Undecided:
    def __init__(self, int64_t capacity):
        self.c.capacity = capacity
        self.c.coord = <int64_t *>PyMem_RawCalloc(capacity, sizeof(int64_t))
        self.c.word = <uint64_t *>PyMem_RawCalloc(capacity, sizeof(uint64_t))
        self.c.x = <double *>PyMem_RawCalloc(capacity, sizeof(double))
        self.c.value = <double *>PyMem_RawCalloc(capacity, sizeof(double))
        if self.c.coord == NULL or self.c.word == NULL or self.c.x == NULL or self.c.value == NULL:
            raise MemoryError

    def __dealloc__(self):
        self.wipe()
        PyMem_RawFree(self.c.coord)
        PyMem_RawFree(self.c.word)
        PyMem_RawFree(self.c.x)
        PyMem_RawFree(self.c.value)

    cdef void wipe(self) noexcept:
        """Overwrite the words and the noiseless values of the last undecided coordinates."""
        if self.c.word != NULL:
            pv_wipe(self.c.word, self.c.capacity * sizeof(uint64_t))
        if self.c.x != NULL:
            pv_wipe(self.c.x, self.c.capacity * sizeof(double))


def lattice_step(double scale) -> float:
    """Grid h of a noise scale: the power of two with 2**10 h <= scale < 2**11 h."""
    return pv_lattice_step(scale)


def gaussian_of_words(words):
    """Values Z that the fast path gives 64-bit words, and the bounds of their errors (for tests)."""
    cdef uint64_t[::1] w = np.ascontiguousarray(words, dtype=np.uint64)
    cdef double[::1] z = np.empty(w.shape[0])
    cdef double[::1] e = np.empty(w.shape[0])
    cdef Py_ssize_t i
    for i in range(w.shape[0]):
        z[i] = pv_gaussian_value(w[i])
        e[i] = pv_gaussian_error(w[i])
    return np.asarray(z), np.asarray(e)


def round_with_words(x, double scale, words, decide, extra):
    """round_h(x + scale Z) from given level-0 words and a callable for the extra ones (for tests).

    ``extra(coordinate, level)`` returns two words. Returns the rounded values and how many coordinates
    the fast path left undecided.
    """
    cdef double[::1] u = np.ascontiguousarray(x, dtype=np.float64)
    cdef int64_t d = u.shape[0]
    cdef uint64_t[::1] w = np.zeros(pv_row_words(d), np.uint64)
    cdef double[::1] out = np.empty(d)
    cdef Undecided und = Undecided(d)
    cdef double magnitude = float(np.max(np.abs(x)))
    cdef int64_t k
    cdef int64_t n
    np.asarray(w)[:d] = np.ascontiguousarray(words, dtype="<u8")
    status = pv_lattice_gaussian(&u[0], 1.0, d, scale, magnitude, <const unsigned char *>&w[0], &out[0], &und.c)
    n = und.c.n
    if status == PV_UNDECIDED:
        for k in range(n):
            coordinate = und.c.coord[k]
            und.c.value[k] = decide(
                und.c.word[k], lambda level, c=coordinate: extra(c, level), und.c.x[k], scale, pv_lattice_step(scale)
            )
        und.c.resolved = n
        status = pv_lattice_gaussian(&u[0], 1.0, d, scale, magnitude, <const unsigned char *>&w[0], &out[0], &und.c)
    if status != PV_OK:
        raise SourceFailure(f"rounding did not settle (status {status})")
    return np.asarray(out), n
