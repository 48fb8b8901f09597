"""Random vectors with a common factor that draw ahead, as samplers of single values do."""

from numpy import empty

cimport numpy as cnp
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_SIZE
from libc.stdint cimport int64_t, uint64_t

from ..errors import InvalidParameter, SourceFailure
from ._noise cimport (
    PV_ADDRESS_BYTES,
    PV_GAUSSIAN,
    Source,
    Undecided,
    check_address,
    first_pass,
    mixture_of,
    pv_address_row,
    pv_lattice,
    pv_mixture,
    pv_mixture_round,
    pv_mixture_words,
    pv_row_words,
    pv_undecided,
    pv_value,
    pv_wipe,
    pv_word,
)
from ._rows cimport PV_OK, PV_UNDECIDED, pv_status
from ._sampler cimport FIRST, LONG, KeyedSampler, behind, checked, doubles

cnp.import_array()

cdef enum:
    BUFFER = 1 << 16  # bytes of words drawn ahead: they stay in the cache

cdef uint64_t LAST_ROW = <uint64_t>-1


cdef class VectorSampler(KeyedSampler):
    """Independent vectors ``round_h(x + scale F Z)``, where F is the random factor of a mixture of Gaussians.

    Vector n has the words of address row n. Words of short vectors are drawn ahead.

    A subclass has ``_shape(size)``, which checks a shape, and ``_decide(kind, words, extra, coordinate, x, scale, step,
    factor, enclosures)``, for undecided coordinates: see :func:`privol.noise.decide_mixture_point`.

    Parameters
    ----------
    source : Source
    kind : str
        "l2_laplace" or "sphere" (dim at least 2).
    scale : float
        From 1e-280 to 1e280.
    step : float
        The grid h, a power of two.
    dim : int
        From 1 to 2**31.
    stream : int
        Noise stream, which nothing else may use with this key.
    row : int
        Number of the first vector.
    """

    cdef readonly double scale
    cdef readonly int64_t dim
    cdef str kind
    cdef pv_mixture code
    cdef pv_lattice lattice
    cdef unsigned stream
    cdef unsigned char *addresses
    cdef unsigned char *words
    cdef Undecided undecided
    cdef int64_t used
    cdef int64_t size
    cdef int64_t room
    cdef int64_t ahead
    cdef int64_t at
    cdef int64_t filled
    cdef uint64_t row
    cdef bint ended

    def __init__(self, Source source not None, *, str kind not None, double scale, double step, int64_t dim,
                 unsigned stream, uint64_t row=0):
        self.check_unstarted()
        cdef pv_mixture code = mixture_of(kind)
        cdef int64_t used = pv_mixture_words(code, dim)
        if dim < 1:
            raise InvalidParameter(f"dim must be an integer of at least 1, found {dim}")
        check_address(stream, 0, used)
        self.free()  # from a start that failed
        self.code = code
        self.kind = kind
        self.scale = scale
        self.lattice = pv_lattice(PV_GAUSSIAN, scale, 0.0, step, NULL)
        self.dim = dim
        self.stream = stream
        self.row = row
        self.used = used
        self.size = 8 * pv_row_words(used)
        self.room = BUFFER // self.size
        if self.room > 1:
            self.addresses = <unsigned char *>PyMem_RawMalloc(self.room * self.size)
            self.words = <unsigned char *>PyMem_RawMalloc(self.room * self.size + PV_ADDRESS_BYTES)
            if self.addresses == NULL or self.words == NULL:
                raise MemoryError
            self.undecided = Undecided(dim)
        self.ahead = max(1, min(self.room, FIRST // used))
        super().__init__(source)

    def __dealloc__(self):
        self.free()

    cdef void free(self) noexcept:
        if self.words != NULL:
            pv_wipe(self.words, self.room * self.size + PV_ADDRESS_BYTES)
        PyMem_RawFree(self.words)
        PyMem_RawFree(self.addresses)
        self.words = self.addresses = NULL

    @property
    def granularity(self) -> float:
        """The grid h: the power of two with 2**10 h <= s < 2**11 h, s the standard deviation of a coordinate."""
        return self.lattice.step

    @property
    def _place(self) -> int:
        """Number of the next vector."""
        return self.row - (self.filled - self.at) + (1 << 64 if self.ended else 0)

    def add(self, x):
        """Return ``round_h(x + scale V)`` with an independent random vector V for every vector of x.

        Parameters
        ----------
        x : array-like of float, shape (..., dim)
            Finite, of magnitude below 2**50 h. Integers and booleans count as floats.

        Returns
        -------
        ndarray of float64, of the shape of x

        Raises
        ------
        InvalidParameter
            If x holds anything else, or masked values, or has another shape; before a vector is drawn.
        SourceFailure
            In a forked child process; if the cipher fails; after 2**64 vectors.
        """
        cdef cnp.ndarray values = doubles(x)
        cdef int n_dims = cnp.PyArray_NDIM(values)
        if n_dims == 0 or cnp.PyArray_DIM(values, n_dims - 1) != self.dim:
            raise InvalidParameter(f"x must have shape (..., {self.dim}), found {(<object>values).shape}")
        cdef cnp.ndarray out = checked(&self.lattice, values)
        self.draw(out, True)
        return out

    def sample(self, size):
        """Return vectors ``round_h(scale V)`` in an array of shape (*size, dim).

        Parameters
        ----------
        size : int or tuple of int
        """
        cdef int overflow = 1
        cdef cnp.npy_intp[2] shape
        cdef cnp.ndarray out
        shape[0] = -1
        shape[1] = self.dim
        if PyLong_CheckExact(size):
            shape[0] = PyLong_AsLongLongAndOverflow(size, &overflow)
        if overflow == 0 and shape[0] >= 0:
            out = cnp.PyArray_SimpleNew(2, shape, cnp.NPY_DOUBLE)
        elif PyTuple_CheckExact(size) and PyTuple_GET_SIZE(size) == 0:
            out = cnp.PyArray_SimpleNew(1, &shape[1], cnp.NPY_DOUBLE)
        else:
            out = empty((*(<object>self)._shape(size), self.dim))
        self.draw(out, False)
        return out

    cdef int draw(self, cnp.ndarray out, bint added) except -1:
        """Write vectors from what is drawn ahead; if more are wanted than it may hold, from rows for this call alone.

        They replace the contents of `out`, or are added to it.
        """
        cdef int64_t d = self.dim
        cdef int64_t n = cnp.PyArray_SIZE(out) // max(d, 1)
        cdef double *y = <double *>cnp.PyArray_DATA(out)
        cdef const double *x = y if added else NULL
        cdef list open_ = []
        cdef uint64_t first = 0
        cdef int64_t rest = n
        cdef int64_t m
        self.enter()
        try:
            self.check_left(n)
            while rest > 0:
                if self.at == self.filled:
                    if rest >= self.room:
                        first = self.pass_over(rest)
                        break
                    self.fill(rest)
                m = min(rest, self.filled - self.at)
                self.round(behind(x, (n - rest) * d), m, y + (n - rest) * d, n - rest, open_)
                rest -= m
        finally:
            self.leave()
        if rest > 0:  # these rows belong to this call alone
            own = out.reshape(n, d)[n - rest:]
            self.source.add_mixture(
                own if added else None, self.scale, self.lattice.step, kind=self.kind, bound=0.0, stream=self.stream,
                row=first, decide=(<object>self)._decide, out=own,
            )
        for number, row, undecided, words, factor in open_:
            self.settle(undecided, row, words, factor, y + <int64_t>number * d)
        return 0

    cdef int check_left(self, int64_t n) except -1:
        cdef int64_t beyond = n - (self.filled - self.at)
        if beyond > 0 and (self.ended or <uint64_t>(beyond - 1) > LAST_ROW - self.row):
            raise SourceFailure("this noise has used up its addresses: make another")
        return 0

    cdef uint64_t pass_over(self, int64_t rows) noexcept:
        """The first of n rows, which nobody else will use; nothing is drawn ahead."""
        cdef uint64_t first = self.row
        self.row += <uint64_t>rows
        self.ended = self.row < first
        return first

    cdef int fill(self, int64_t wanted) except -1:
        """Draw at least n vectors' words ahead. After a failure their rows count as used."""
        cdef int64_t m = min(self.room, max(wanted, self.ahead))
        cdef uint64_t first
        cdef int64_t i
        if <uint64_t>(m - 1) > LAST_ROW - self.row:
            m = <int64_t>(LAST_ROW - self.row) + 1
        first = self.pass_over(m)
        self.ahead = min(self.room, 2 * self.ahead)
        self.at = self.filled = 0
        for i in range(m):
            pv_address_row(self.addresses + i * self.size, self.stream, first + i, self.used)
        self.source.fill(self.addresses, m * self.size, self.words)  # this wipes them if it fails
        self.filled = m
        return 0

    cdef int round(self, const double *x, int64_t n, double *out, int64_t number, list open_) except -1:
        """Round with the words of the next n vectors, and wipe them. Vectors with undecided coordinates are listed."""
        cdef int64_t d = self.dim
        cdef uint64_t row = self.row - <uint64_t>(self.filled - self.at)
        cdef unsigned char *words = self.words + self.at * self.size
        cdef pv_lattice lattice = self.lattice
        cdef pv_status status = PV_OK
        cdef pv_value factor
        cdef int64_t i = 0
        lattice.pass_ = first_pass()
        self.at += n  # counts as used, whatever happens next
        try:
            while i < n:
                self.undecided.c.resolved = 0
                if n * d < LONG:
                    status = mixtures_round(self.code, &lattice, x, d, &i, n, words, self.size, out,
                                            &self.undecided.c, &factor)
                else:
                    with nogil:
                        status = mixtures_round(self.code, &lattice, x, d, &i, n, words, self.size, out,
                                                &self.undecided.c, &factor)
                if status == PV_OK:
                    return 0
                if status != PV_UNDECIDED:
                    raise SourceFailure(f"rounding did not succeed (status {status})")
                drawn = [pv_word(words + i * self.size + 8 * k) for k in range(self.used)]
                open_.append((number + i, row + i, self.undecided, drawn, (factor.z, factor.error)))
                self.undecided = Undecided(d)
                i += 1
        finally:
            pv_wipe(words, n * self.size)
        return 0

    cdef int settle(self, Undecided open_, uint64_t row, list words, tuple factor, double *out) except -1:
        """Round the undecided coordinates of one vector."""
        cdef double step = self.lattice.step
        cdef int64_t k
        cdef double value = factor[0]
        cdef double error = factor[1]
        cdef str kind = self.kind
        try:
            decide = (<object>self)._decide
            self.source.resolve_mixture(&open_.c, kind, self.stream, row, self.scale, step, decide, words, value, error)
            for k in range(open_.c.n):
                out[open_.c.coord[k]] = open_.c.value[k] * step + 0.0  # + 0.0: never -0
        finally:
            open_.wipe()
        return 0


cdef pv_status mixtures_round(pv_mixture code, const pv_lattice *lattice, const double *x, int64_t d, int64_t *i,
                              int64_t n, const unsigned char *words, int64_t size, double *out, pv_undecided *und,
                              pv_value *factor) noexcept nogil:
    """Round vectors i[0] to n - 1; stops with i[0] at the first that has undecided coordinates."""
    cdef pv_status status = PV_OK
    while i[0] < n:
        status = pv_mixture_round(code, lattice, behind(x, i[0] * d), d, 0.0, words + i[0] * size, out + i[0] * d, und,
                                  factor)
        if status != PV_OK:
            break
        i[0] += 1
    return status
