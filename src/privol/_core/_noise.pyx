"""Addressed cryptographic words and noise on a lattice.

A :class:`Source` turns 128-bit addresses into random words with AES-256 (OpenSSL through ``cryptography``), one block
per address: the keystream of counter mode with explicit counters, so that the words of any row and coordinate can be
computed alone.
"""

import os
import threading

import numpy as np

cimport numpy as cnp
from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from cpython.memoryview cimport PyMemoryView_FromMemory

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from ..errors import InvalidParameter, SourceFailure, StateError
from ._rows cimport PV_OK, PV_UNDECIDED, use_level

cdef extern from "noise/pv_fork.h" nogil:
    int pv_fork_watch() noexcept
    const volatile unsigned long *pv_fork_count() noexcept

cnp.import_array()

# A source remembers the fork count at its birth, so a copy of it in a forked child can tell that it is one.
if pv_fork_watch() != 0:
    raise SourceFailure("forks of the process cannot be watched, and a forked child would repeat its parent's noise")


# Bytes of words drawn at once, unless one vector needs more: they stay in the cache.
cdef size_t BUFFER = 1 << 16

cdef dict MIXTURES = {"l2_laplace": PV_L2_LAPLACE, "sphere": PV_SPHERE}
cdef dict LAWS = {"gaussian": PV_GAUSSIAN, "laplace": PV_LAPLACE, "exponential": PV_EXPONENTIAL}

cdef const pv_first_pass *_first_pass = NULL


cdef const pv_first_pass *first_pass() noexcept:
    return _first_pass


def instruction_sets() -> tuple[str, ...]:
    """Instruction-set levels that this build has and this processor runs, slowest first."""
    return tuple((<bytes>pv_first_pass_level(i).name).decode() for i in range(pv_first_pass_levels()))


def instruction_set() -> str:
    """The level in use."""
    return (<bytes>_first_pass.name).decode()


def use_instruction_set(name):
    """Choose the level for calls and runs that begin from now on; None: the fastest. Results do not depend on it."""
    global _first_pass
    names = instruction_sets()
    if name is not None and name not in names:
        raise InvalidParameter(f"instruction set must be one of {', '.join(names)}, found {name!r}")
    _first_pass = pv_first_pass_level(len(names) - 1 if name is None else names.index(name))
    use_level(_first_pass.level)


cdef const volatile unsigned long *fork_count() noexcept:
    """Where forks are counted: an object made in a parent process remembers another count. All modules share it."""
    return pv_fork_count()


cdef int check_address(unsigned stream, unsigned level, int64_t d) except -1:
    """Refuse what would wrap around into another address: wide rows, large streams and levels."""
    if not pv_address_fits(stream, level, d):
        raise SourceFailure(
            f"a noise address has stream and level up to {PV_FIELD_MAX} and rows of up to {PV_DIMENSION_MAX} "
            f"coordinates, found stream {stream}, level {level}, {d} coordinates"
        )
    return 0


try:
    use_instruction_set(os.environ.get("PRIVOL_INSTRUCTION_SET") or None)
except InvalidParameter as _error:
    raise InvalidParameter(f"environment variable PRIVOL_INSTRUCTION_SET: {_error}") from None


cdef class Source:
    """Random words addressed by (stream, level, block, row), from one key.

    Parameters
    ----------
    key : bytes or bytearray of length 32
        AES-256 key.
    private : bool
        Whether nobody knows the key: it was drawn from the operating system and never shown.
    description : str
        What the guarantee says about the bits.

    Notes
    -----
    Never gives two identical streams: it cannot be copied or pickled, and refuses in a forked child.
    """

    def __init__(self, key, *, bint private, str description not None):
        if self.encryptor is not None:
            raise StateError("a noise source cannot be started twice")
        if len(key) != 32:
            raise ValueError(f"key must have 32 bytes, found {len(key)}")
        cdef int i
        for i in range(32):
            self.key[i] = key[i]
        self.private = private
        self.description = description
        self.birth = pv_fork_count()[0]
        # ECB on addresses that never repeat is counter mode with free choice of the counter
        self.encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
        self.lock = threading.RLock()

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
        """Forget the key: no word can be drawn any more. OpenSSL wipes its own copy when the cipher is released."""
        self.encryptor = None
        pv_wipe(self.key, 32)

    cdef int check_fork(self) except -1:
        if self.birth != pv_fork_count()[0]:
            raise SourceFailure(
                "this noise source was created before the process forked; the parent may draw the same noise. "
                "Create the learner or the noise in the process that uses it"
            )
        return 0

    cdef int check(self) except -1:
        if self.encryptor is None:
            raise SourceFailure("this noise source is closed")
        return self.check_fork()

    cdef int fill(self, unsigned char *addresses, size_t n, unsigned char *out) except -1:
        """Encrypt n bytes of addresses into out, which has room for n + 16 bytes. After a failure out is wiped."""
        self.check()
        try:
            # A cipher serves one thread at a time, and fails for others that come meanwhile. Code that the garbage
            # collector runs in this thread meanwhile does not wait for itself: it draws, or fails as others do.
            with self.lock:
                written = self.encryptor.update_into(
                    PyMemoryView_FromMemory(<char *>addresses, <Py_ssize_t>n, PyBUF_READ),
                    PyMemoryView_FromMemory(<char *>out, <Py_ssize_t>(n + 16), PyBUF_WRITE),
                )
            if written != n:
                raise SourceFailure(f"the cipher wrote {written} of {n} bytes")
        except BaseException:
            pv_wipe(out, n + 16)
            raise
        return 0

    def words(self, *, unsigned stream, unsigned level, uint32_t block, uint64_t row) -> tuple[int, int]:
        """Return the two 64-bit words at an address (secret if the source is private)."""
        cdef unsigned char address[16]
        cdef unsigned char out[32]
        check_address(stream, level, block)
        pv_address(address, stream, level, block, row)
        self.fill(address, 16, out)
        try:
            return pv_word(out), pv_word(out + 8)
        finally:
            pv_wipe(out, 32)

    cdef int resolve(self, pv_undecided *und, unsigned stream, uint64_t row, double scale, object decide) except -1:
        """Round the listed coordinates to the grid of the scale, with as many extra words as that takes."""
        cdef double step = pv_lattice_step(scale)
        return self.resolve_on_grid(und, stream, row, scale, step, decide)

    cdef int resolve_on_grid(self, pv_undecided *und, unsigned stream, uint64_t row, double scale, double step,
                             object decide) except -1:
        cdef int64_t k
        for k in range(und.n):
            coordinate = und.coord[k]

            def extra(level, coordinate=coordinate):
                return self.words(stream=stream, level=level, block=coordinate, row=row)

            und.value[k] = decide(und.word[k], extra, und.x[k], scale, step)
        und.resolved = und.n
        return 0

    def add(self, cnp.ndarray x not None, double scale, *, unsigned stream, uint64_t row, decide,
            bound=None, str law="gaussian", cnp.ndarray out=None, step=None):
        """round_h(x + scale Z) for one address row.

        Parameters
        ----------
        x : ndarray of shape (d,), float64, C-contiguous
        scale : float
            Of the standard variable Z, above 0 and normal.
        stream, row : int
            Address; each may be used once.
        decide : callable
            See :func:`privol.noise.decide_lattice_point`, for the same law.
        bound : float or None
            At least the largest magnitude in x; None: computed here.
        law : str
            "gaussian", "laplace" or "exponential": Z has variance 1, 2 or 1.
        out : ndarray of shape (d,), float64, C-contiguous, or None
            Where the result goes; not x.
        step : float or None
            The grid h, a power of two above 2^-40 of the scale; None: that of the scale.

        Returns
        -------
        ndarray of shape (d,), float64
        """
        cdef const double[::1] u = x
        cdef int64_t d = u.shape[0]
        if out is None:
            out = np.empty(d)
        cdef double[::1] noisy = out
        if noisy.shape[0] != d:
            raise InvalidParameter(f"out must have {d} values, found {noisy.shape[0]}")
        check_address(stream, 0, d)
        if d == 0:
            return out
        cdef size_t n = <size_t>pv_row_words(d) * 8
        cdef unsigned char[::1] addresses = np.empty(n, np.uint8)
        cdef unsigned char[::1] words = np.empty(n + 16, np.uint8)
        cdef Undecided und = Undecided(d)
        cdef pv_status status
        cdef pv_lattice lattice = lattice_of(law, scale)
        cdef double h = lattice.step if step is None else step
        lattice.step = h
        cdef double magnitude = np.max(np.abs(x)) if bound is None else bound
        pv_address_row(&addresses[0], stream, row, d)
        self.fill(&addresses[0], n, &words[0])
        try:
            with nogil:
                status = pv_lattice_round(&lattice, &u[0], 1.0, d, magnitude, &words[0], &noisy[0], &und.c)
            if status == PV_UNDECIDED:
                self.resolve_on_grid(&und.c, stream, row, scale, h, decide)
                status = pv_lattice_round(&lattice, &u[0], 1.0, d, magnitude, &words[0], &noisy[0], &und.c)
        finally:
            pv_wipe(&words[0], n + 16)
            und.wipe()
        if status != PV_OK:
            raise SourceFailure(f"rounding did not settle (status {status})")
        return out

    def add_mixture(self, cnp.ndarray X, double scale, double step, *, str kind, double bound,
                    unsigned stream, uint64_t row, decide, cnp.ndarray out not None):
        """round_h(x + scale F Z) for vectors x, where F is the random factor of a mixture of Gaussians.

        Parameters
        ----------
        X : ndarray of shape (n, d), float64, C-contiguous, or None
            None: zeros.
        scale : float
            Above 0 and normal.
        step : float
            The grid h, a power of two.
        kind : str
            "l2_laplace" or "sphere" (d at least 2).
        bound : float
            At least the largest magnitude in X.
        Address of the first vector; the next ones follow. Each may be used once.
            Address of the first vector, the next follow; each may be used once.
        decide : callable
            See :func:`privol.noise.decide_mixture_point`.
        out : ndarray of the shape of X, float64, C-contiguous
            Where the result goes; may be X.
        """
        cdef const double[:, ::1] x
        cdef double[:, ::1] noisy = out
        cdef int64_t n = noisy.shape[0]
        cdef int64_t d = noisy.shape[1]
        cdef const double *u = NULL
        cdef const double *v = NULL
        if X is not None:
            x = X
            if x.shape[0] != n or x.shape[1] != d:
                raise InvalidParameter(f"out must have shape ({x.shape[0]}, {x.shape[1]}), found ({n}, {d})")
            u = &x[0, 0]
        if n == 0 or d == 0:
            return
        cdef pv_mixture code = mixture_of(kind)
        cdef int64_t used = pv_mixture_words(code, d)
        check_address(stream, 0, used)
        cdef size_t size = <size_t>pv_row_words(used) * 8
        cdef int64_t capacity = max(1, min(<int64_t>(BUFFER // size), n))
        cdef unsigned char[::1] addresses = np.empty(capacity * size, np.uint8)
        cdef unsigned char[::1] words = np.empty(capacity * size + PV_ADDRESS_BYTES, np.uint8)
        cdef Undecided und = Undecided(d)
        cdef pv_lattice lattice = pv_lattice(PV_GAUSSIAN, scale, 0.0, step, _first_pass)
        cdef pv_status status = PV_OK
        cdef pv_value factor
        cdef int64_t first = 0
        cdef int64_t i
        cdef int64_t k
        cdef int64_t m
        try:
            while first < n:
                m = min(capacity, n - first)
                for i in range(m):
                    pv_address_row(&addresses[i * size], stream, row + first + i, used)
                self.fill(&addresses[0], m * size, &words[0])
                i = 0
                while i < m:
                    with nogil:
                        while i < m:
                            if u != NULL:
                                v = u + (first + i) * d
                            status = pv_mixture_round(code, &lattice, v, d, bound, &words[i * size],
                                                      &noisy[first + i, 0], &und.c, &factor)
                            if status != PV_OK:
                                break
                            i += 1
                    if i < m:
                        if status != PV_UNDECIDED:
                            raise SourceFailure(f"rounding did not succeed (status {status})")
                        drawn = [pv_word(&words[i * size + 8 * c]) for c in range(used)]
                        self.resolve_mixture(&und.c, kind, stream, row + first + i, scale, step, decide, drawn,
                                             factor.z, factor.error)
                        for k in range(und.c.n):
                            noisy[first + i, und.c.coord[k]] = und.c.value[k] * step + 0.0  # + 0.0: never -0
                        und.c.resolved = 0
                        i += 1
                first += m
        finally:
            pv_wipe(&words[0], words.shape[0])
            und.wipe()

    cdef int resolve_mixture(self, pv_undecided *und, str kind, unsigned stream, uint64_t row, double scale,
                             double step, object decide, list words, double factor, double error) except -1:
        """Round the listed coordinates of one vector, with as many extra words as that takes."""
        cdef int64_t k
        cdef dict enclosures = {}  # of the factor, which all of them share

        def extra(level, word):
            return self.words(stream=stream, level=level, block=word, row=row)

        for k in range(und.n):
            und.value[k] = decide(kind, words, extra, und.coord[k], und.x[k], scale, step, (factor, error),
                                  enclosures)
        und.resolved = und.n
        return 0


cdef pv_lattice lattice_of(str law, double scale) except *:
    """The noise of a law and a scale, on its own grid."""
    cdef pv_lattice lattice
    lattice.law = LAWS[law]
    lattice.scale = scale
    lattice.uncertainty = 0.0
    lattice.step = pv_lattice_step(scale)
    lattice.pass_ = _first_pass
    return lattice


cdef pv_mixture mixture_of(str kind) except *:
    return <pv_mixture>MIXTURES[kind]


cdef class Undecided:
    """Scratch memory for a list of undecided coordinates."""

    def __init__(self, int64_t capacity):
        if self.c.coord != NULL:
            raise StateError("a list cannot be made twice")
        self.c.capacity = capacity
        # not zeroed: a call writes before it reads
        self.c.coord = <int64_t *>PyMem_RawMalloc(capacity * sizeof(int64_t))
        self.c.word = <uint64_t *>PyMem_RawMalloc(capacity * sizeof(uint64_t))
        self.c.x = <double *>PyMem_RawMalloc(capacity * sizeof(double))
        self.c.value = <double *>PyMem_RawMalloc(capacity * sizeof(double))
        if self.c.coord == NULL or self.c.word == NULL or self.c.x == NULL or self.c.value == NULL:
            raise MemoryError

    def __dealloc__(self):
        self.wipe()
        PyMem_RawFree(self.c.coord)
        PyMem_RawFree(self.c.word)
        PyMem_RawFree(self.c.x)
        PyMem_RawFree(self.c.value)

    cdef void wipe(self) noexcept:
        """Overwrite the words and the noiseless values of all coordinates that were ever undecided."""
        if self.c.word != NULL:
            pv_wipe(self.c.word, self.c.most * sizeof(uint64_t))
        if self.c.x != NULL:
            pv_wipe(self.c.x, self.c.most * sizeof(double))


def wipe(cnp.ndarray array not None):
    """Overwrite an array that held a secret with zeros; the compiler cannot remove this.

    Parameters
    ----------
    array : ndarray of float64
        C-contiguous and writeable. Copies of it are not wiped.
    """
    if array.dtype != np.float64 or not array.flags.c_contiguous or not array.flags.writeable:
        raise ValueError("what is wiped must be a contiguous, writeable array of float64")
    pv_wipe(cnp.PyArray_DATA(array), cnp.PyArray_SIZE(array) * sizeof(double))


def lattice_step(double scale) -> float:
    """Grid h of a noise scale: the power of two with 2**10 h <= scale < 2**11 h."""
    return pv_lattice_step(scale)


def values_of_words(words, str law="gaussian"):
    """The values Z of 64-bit words in double precision, and the bounds of their errors (for tests)."""
    cdef uint64_t[::1] w = np.ascontiguousarray(words, dtype=np.uint64)
    cdef double[::1] z = np.empty(w.shape[0])
    cdef double[::1] e = np.empty(w.shape[0])
    cdef pv_law code = LAWS[law]
    cdef pv_value found
    cdef Py_ssize_t i
    for i in range(w.shape[0]):
        found = pv_lattice_value(code, w[i])
        z[i], e[i] = found.z, found.error
    return np.asarray(z), np.asarray(e)


def first_pass_open(const uint64_t[::1] words, double scale, str law="gaussian") -> int:
    """How many of these words, as noise on zeros, the first pass leaves undecided (for benchmarks)."""
    cdef pv_lattice lattice = lattice_of(law, scale)
    cdef double x[64]
    cdef double out[64]
    cdef uint64_t open_
    cdef int64_t found = 0
    cdef int64_t i
    cdef int j
    for j in range(64):
        x[j] = 0.0
    for i in range(0, words.shape[0] // 64 * 64, 64):
        open_ = lattice.pass_.run(lattice.law, x, lattice.step, scale / lattice.step, 0.0, &words[i], out, 64)
        while open_:
            found += 1
            open_ &= open_ - 1
    return found


def round_with_words(x, double scale, words, decide, extra, str law="gaussian"):
    """round_h(x + scale Z) from given level-0 words and a function for the extra ones (for tests).

    ``extra(coordinate, level)`` returns two words. Returns the rounded values and how many coordinates
    the kernel left undecided.
    """
    cdef double[::1] u = np.ascontiguousarray(x, dtype=np.float64)
    cdef int64_t d = u.shape[0]
    cdef uint64_t[::1] w = np.zeros(pv_row_words(d), np.uint64)
    cdef double[::1] out = np.empty(d)
    cdef Undecided und = Undecided(d)
    cdef double magnitude = float(np.max(np.abs(x)))
    cdef pv_lattice lattice = lattice_of(law, scale)
    cdef int64_t k
    cdef int64_t n
    np.asarray(w)[:d] = np.ascontiguousarray(words, dtype="<u8")
    status = pv_lattice_round(&lattice, &u[0], 1.0, d, magnitude, <const unsigned char *>&w[0], &out[0], &und.c)
    n = und.c.n
    if status == PV_UNDECIDED:
        for k in range(n):
            coordinate = und.c.coord[k]
            und.c.value[k] = decide(
                und.c.word[k], lambda level, c=coordinate: extra(c, level), und.c.x[k], scale, pv_lattice_step(scale)
            )
        und.c.resolved = n
        status = pv_lattice_round(&lattice, &u[0], 1.0, d, magnitude, <const unsigned char *>&w[0], &out[0], &und.c)
    if status != PV_OK:
        raise SourceFailure(f"rounding did not settle (status {status})")
    return np.asarray(out), n


def round_mixture_with_words(x, double scale, double step, words, decide, extra, *, str kind):
    """round_h(x + scale F Z) of one vector, from given level-0 words and a function for the extra ones (for tests).

    ``extra(word, level)`` returns two words. Returns the rounded values, how many coordinates the kernel left
    undecided, and its factor and the bound of the factor's error.
    """
    cdef double[::1] u = np.ascontiguousarray(x, dtype=np.float64)
    cdef int64_t d = u.shape[0]
    cdef pv_mixture code = mixture_of(kind)
    cdef int64_t used = pv_mixture_words(code, d)
    cdef uint64_t[::1] w = np.zeros(pv_row_words(used), np.uint64)
    cdef double[::1] out = np.empty(d)
    cdef Undecided und = Undecided(d)
    cdef double magnitude = float(np.max(np.abs(x)))
    cdef pv_lattice lattice = pv_lattice(PV_GAUSSIAN, scale, 0.0, step, _first_pass)
    cdef const unsigned char *bytes_of = <const unsigned char *>&w[0]
    cdef pv_value factor
    cdef int64_t k
    cdef int64_t n
    np.asarray(w)[:used] = np.ascontiguousarray(words, dtype="<u8")
    status = pv_mixture_round(code, &lattice, &u[0], d, magnitude, bytes_of, &out[0], &und.c, &factor)
    n = und.c.n
    if status == PV_UNDECIDED:
        listed = [int(word) for word in words]
        enclosures = {}
        for k in range(n):
            und.c.value[k] = decide(
                kind, listed, lambda level, word: extra(word, level), und.c.coord[k], und.c.x[k], scale, step,
                (factor.z, factor.error), enclosures,
            )
        und.c.resolved = n
        status = pv_mixture_round(code, &lattice, &u[0], d, magnitude, bytes_of, &out[0], &und.c, &factor)
    if status != PV_OK:
        raise SourceFailure(f"rounding did not settle (status {status})")
    return np.asarray(out), n, (factor.z, factor.error)
