"""Local randomizers: the plans of their draws, what draws ask for, and the device that makes reports of vectors."""

import numpy as np

cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from libc.stdint cimport int64_t, uint64_t

from ..errors import InvalidParameter, SourceFailure, StateError
from ._noise cimport (
    PV_ADDRESS_BYTES,
    PV_L2_LAPLACE,
    PV_SPHERE,
    Source,
    Undecided,
    check_address,
    first_pass,
    pv_address_row,
    pv_draws,
    pv_lattice_step,
    pv_mixture_factor,
    pv_row_words,
    pv_value,
    pv_wipe,
    pv_word,
)
from ._rows cimport PV_NEED_BITS, PV_OK, PV_UNDECIDED, pv_status
from ._sampler cimport KeyedSampler

cnp.import_array()

cdef int64_t BUFFER = 1 << 16  # bytes of words that are drawn ahead: they stay in the cache

cdef dict KINDS = {
    "plain": PV_REPORT_PLAIN,
    "gaussian": PV_REPORT_GAUSSIAN,
    "laplace": PV_REPORT_LAPLACE,
    "l2_laplace": PV_REPORT_L2_LAPLACE,
    "cap": PV_REPORT_CAP,
    "sign": PV_REPORT_SIGN,
}

MOST_ROWS = PV_REPORT_ROW_MASK  # reports with one key and stream


cdef class Report:
    """The plan of a local randomizer. Public, immutable; knows nothing of epsilon.

    Parameters
    ----------
    kind : {"plain", "gaussian", "laplace", "l2_laplace", "cap", "sign"}
        See pv_report.h. A cap needs dim at least 2, a sign dim 1.
    dim : int
    bound : float
        Largest L2 norm of the randomized vector: from 1e-100 to 1e100.
    scale : float
        Scale of the noise; for caps and signs the length of the result. From 1e-280 to 1e280; 0 for "plain".
    gamma : float
        For a cap: at least 0, below 1.
    threshold : int
        For a cap below 2**64, for a sign below 2**63.
    trials : int
        For a cap: how many trials are drawn at a time.
    decide : callable or None
        Decides what the rounding could not: :func:`privol.noise.decide_lattice_point`, for the same law, for "gaussian"
        and "laplace"; :func:`privol.noise.decide_mixture_point` for "l2_laplace" and "cap".
    decide_side : callable or None
        For a cap: ``decide_side(words, extra, v, gamma, both)``, see :func:`privol.noise.decide_side`.
    """

    def __init__(self, *, str kind not None, int64_t dim, double bound, double scale=0.0, double gamma=0.0,
                 uint64_t threshold=0, int64_t trials=1, decide=None, decide_side=None):
        if self.kind is not None:
            raise StateError("a plan cannot be made twice")
        if kind not in KINDS:
            raise InvalidParameter(f"kind must be one of {', '.join(map(repr, KINDS))}, found {kind!r}")
        cdef pv_report c
        cdef int64_t least = 2 if kind == "cap" else 1
        cdef int64_t most = 1 if kind == "sign" else <int64_t>1 << 31
        c.kind = KINDS[kind]
        if not least <= dim <= most:
            raise InvalidParameter(f"dim of kind {kind!r} must be from {least} to {most}, found {dim}")
        if not 1e-100 <= bound <= 1e100:
            raise InvalidParameter(f"bound must be from 1e-100 to 1e100, found {bound}")
        if kind != "plain" and not 1e-280 <= scale <= 1e280:
            raise InvalidParameter(f"scale must be from 1e-280 to 1e280, found {scale}")
        if not 0.0 <= gamma < 1.0:
            raise InvalidParameter(f"gamma must be at least 0 and below 1, found {gamma}")
        if kind == "sign" and threshold >> 63:
            raise InvalidParameter(f"threshold of a sign must be below 2**63, found {threshold}")
        if trials < 1 or (trials > 1 and kind != "cap"):
            raise InvalidParameter(f"trials must be at least 1, and 1 but for caps, found {trials}")
        c.d = dim
        c.bound = bound
        c.scale = scale
        c.gamma = gamma
        c.threshold = threshold
        c.trials = trials
        c.words = pv_report_words(c.kind, dim)
        check_address(0, 0, c.words)
        # the grid for the standard deviation of a coordinate; for independent Laplace coordinates that of noise.Laplace
        factor = np.sqrt(dim + 1.0) if kind == "l2_laplace" else 1.0 / np.sqrt(dim) if kind == "cap" else 1.0
        c.step = pv_lattice_step(scale * factor)
        self.c = c
        self.decide = decide
        self.decide_side = decide_side
        self.kind = kind

    @property
    def dim(self) -> int:
        """Dimension of vectors and reports."""
        return self.c.d

    @property
    def bound(self) -> float:
        """Largest L2 norm of the randomized vector."""
        return self.c.bound

    @property
    def scale(self) -> float:
        """Scale of the noise; for caps and signs the length of the result."""
        return self.c.scale

    @property
    def granularity(self) -> float:
        """The grid of the results; those of a sign are ``scale`` and ``-scale``."""
        return self.c.step

    @property
    def words(self) -> int:
        """Words of an address row."""
        return self.c.words

    @property
    def numbers(self) -> dict[str, object]:
        """All numbers of the plan, by name."""
        return {
            "kind": self.kind, "dim": self.c.d, "bound": self.c.bound, "scale": self.c.scale, "gamma": self.c.gamma,
            "threshold": self.c.threshold, "trials": self.c.trials,
        }

    cdef int refill(self, pv_draws *draws, unsigned char *addresses, Source source, unsigned stream, uint64_t row,
                    uint64_t last_row) except -1:
        """Draw the words that a row's report needs, and those of later rows if there is room."""
        cdef size_t size = <size_t>pv_row_words(self.c.words) * 8
        cdef uint64_t first = pv_report_next(draws, row)
        cdef int64_t used = draws.used
        cdef int64_t filled = draws.filled
        cdef int64_t at = 0
        cdef int64_t n
        cdef int64_t k
        if first == row and used > 0 and (draws.rows[used - 1] & PV_REPORT_ROW_MASK) == row:
            raise SourceFailure(f"none of {PV_REPORT_TRIALS} trials of a report was accepted")
        if first != row and used < filled:
            # words of later rows stay in the buffer: the new ones go before them, in place of used ones
            n = min(used, self.c.trials, <int64_t>(PV_REPORT_TRIALS - (first >> PV_REPORT_ROW_BITS)))
            at = used - n
            n = pv_report_upcoming(&self.c, first, row, n, draws.rows + at)
        else:
            n = filled = pv_report_upcoming(&self.c, first, max(row, last_row), draws.capacity, draws.rows)
        draws.filled = draws.used = 0  # nothing until they are there
        for k in range(n):
            pv_address_row(addresses + k * size, stream, draws.rows[at + k], self.c.words)
        source.fill(addresses, n * size, draws.words + at * size)
        draws.used, draws.filled = at, filled
        return 0

    cdef int resolve(self, pv_draws *draws, Source source, unsigned stream) except -1:
        """Settle what the draw in progress has left open."""
        cdef uint64_t row = draws.rows[draws.used]
        cdef const unsigned char *words = draws.words + draws.used * pv_row_words(self.c.words) * 8
        cdef bint sphere = self.c.kind == PV_REPORT_CAP
        cdef pv_value factor
        cdef object decide = self.decide
        cdef int64_t k
        if self.c.kind == PV_REPORT_GAUSSIAN or self.c.kind == PV_REPORT_LAPLACE:
            return source.resolve(draws.undecided, stream, row, self.c.scale, decide)
        if draws.undecided.n == 0:
            return self.settle_side(draws, source, stream)
        factor = pv_mixture_factor(PV_SPHERE if sphere else PV_L2_LAPLACE, self.c.d, words)
        drawn = [pv_word(words + 8 * k) for k in range(self.c.d if sphere else self.c.words)]
        law = "sphere" if sphere else "l2_laplace"
        return source.resolve_mixture(
            draws.undecided, law, stream, row, self.c.scale, self.c.step, decide,
            drawn, factor.z, factor.error,
        )

    cdef int settle_side(self, pv_draws *draws, Source source, unsigned stream) except -1:
        """Accept or reject the next trial of a cap: the decision replaces anything else that its coin could say."""
        cdef uint64_t row = draws.rows[draws.used]
        cdef int64_t size = pv_row_words(self.c.words) * 8
        cdef unsigned char *words = draws.words + draws.used * size
        cdef double *v = draws.undecided.x
        cdef pv_report_coins coins = pv_report_coins_of(&self.c, v)
        cdef uint64_t coin = pv_word(words + 8 * self.c.d)
        cdef int64_t k
        cdef double gamma = self.c.gamma

        def extra(level, word):
            return source.words(stream=stream, level=level, block=word, row=row)

        drawn = [pv_word(words + 8 * k) for k in range(self.c.d)]
        inside = self.decide_side(drawn, extra, [v[k] for k in range(self.c.d)], gamma, coin >= coins.other)
        pv_wipe(v, self.c.d * sizeof(double))
        if inside:
            for k in range(8):
                words[8 * self.c.d + k] = 255
        else:
            pv_wipe(words, size)
            draws.used += 1
        return 0


cdef class ReportSampler(KeyedSampler):
    """Reports of vectors, numbered in the order in which these arrive.

    Vector n, from 1 on, is row n of :class:`Report`'s addresses, however vectors are cut into calls, and also for a
    learner that draws reports itself from the same key and stream. Rows count as used before any of their words is
    read.

    Parameters
    ----------
    source : Source
    report : Report
    stream : int
        Noise stream, which nothing else may use with this key.
    row : int
        Number of the first vector.
    """

    def __init__(self, Source source not None, *, Report report not None, unsigned stream, uint64_t row=1):
        self.check_unstarted()
        cdef int64_t size
        check_address(stream, 0, report.c.words)
        if not 1 <= row <= PV_REPORT_ROW_MASK:
            raise InvalidParameter(f"row must be from 1 to {PV_REPORT_ROW_MASK}, found {row}")
        self.free()  # from a start that failed
        self.report = report
        self.stream = stream
        self.row = row
        self.ahead = 1
        size = max(<int64_t>16, pv_row_words(report.c.words) * 8)
        self.draws.capacity = max(<int64_t>1, BUFFER // size)
        self.addresses = <unsigned char *>PyMem_RawCalloc(self.draws.capacity, size)
        self.draws.words = <unsigned char *>PyMem_RawCalloc(self.draws.capacity * size + PV_ADDRESS_BYTES, 1)
        self.draws.rows = <uint64_t *>PyMem_RawCalloc(self.draws.capacity, sizeof(uint64_t))
        self.vector = <double *>PyMem_RawCalloc(2 * report.c.d, sizeof(double))
        if self.addresses == NULL or self.draws.words == NULL or self.draws.rows == NULL or self.vector == NULL:
            raise MemoryError
        self.undecided = Undecided(max(report.c.words, report.c.d))
        self.draws.undecided = &self.undecided.c
        super().__init__(source)

    def __dealloc__(self):
        self.free()

    cdef void free(self) noexcept:
        if self.draws.words != NULL:
            pv_wipe(self.draws.words, self.draws.capacity * pv_row_words(self.report.c.words) * 8)
        if self.vector != NULL:
            pv_wipe(self.vector, 2 * self.report.c.d * sizeof(double))
        PyMem_RawFree(self.addresses)
        PyMem_RawFree(self.draws.words)
        PyMem_RawFree(self.draws.rows)
        PyMem_RawFree(self.vector)
        self.addresses = self.draws.words = NULL
        self.draws.rows = NULL
        self.vector = NULL

    @property
    def place(self) -> int:
        """Number of the next vector."""
        return self.row

    def privatize(self, X):
        """Return the reports of vectors.

        Parameters
        ----------
        X : ndarray of shape (n, dim), float32 or float64, C-contiguous
            Vectors whose norm exceeds the bound are scaled to it; a vector with an entry that is not finite counts as
            zeros.

        Returns
        -------
        ndarray of shape (n, dim), float64

        Raises
        ------
        SourceFailure
            In a forked child process; if the cipher fails; after 2**40 - 1 vectors.
        """
        cdef cnp.ndarray x = X
        cdef bint single = cnp.PyArray_TYPE(x) == cnp.NPY_FLOAT32
        cdef int64_t n = cnp.PyArray_DIM(x, 0)
        cdef cnp.ndarray out = np.empty((n, self.report.c.d))
        cdef uint64_t first
        if not (single or cnp.PyArray_TYPE(x) == cnp.NPY_FLOAT64) or not cnp.PyArray_ISCARRAY_RO(x):
            raise InvalidParameter("X must be a C-contiguous array of float32 or float64")
        if cnp.PyArray_NDIM(x) != 2 or cnp.PyArray_DIM(x, 1) != self.report.c.d:
            raise InvalidParameter(f"X must have shape (n, {self.report.c.d}), found {X.shape}")
        self.enter()
        try:
            first = self.row
            if n > 0 and <uint64_t>n > PV_REPORT_ROW_MASK - first + 1:
                raise SourceFailure("this noise has used up its addresses: make another")
            self.row += n
            self.draw(cnp.PyArray_DATA(x), single, n, <double *>cnp.PyArray_DATA(out), first)
        finally:
            self.leave()
        return out

    cdef int draw(self, const void *x, bint single, int64_t n, double *out, uint64_t first) except -1:
        cdef int64_t i = 0
        cdef uint64_t row
        cdef uint64_t last
        cdef pv_status status
        cdef Source source = self.source
        cdef Report report = self.report
        self.draws.pass_ = first_pass()
        self.draws.undecided.resolved = 0
        try:
            while True:
                with nogil:
                    status = reports_draw(&self.report.c, &self.draws, x, single, &i, n, out, first, self.vector)
                if status == PV_OK:
                    return 0
                if status == PV_NEED_BITS:
                    PyErr_CheckSignals()
                    row = first + <uint64_t>i
                    last = min(row + <uint64_t>max(n - i, self.ahead) - 1, PV_REPORT_ROW_MASK)
                    report.refill(&self.draws, self.addresses, source, self.stream, row, last)
                    self.ahead = min(2 * self.ahead, self.draws.capacity)
                elif status == PV_UNDECIDED:
                    report.resolve(&self.draws, source, self.stream)
                else:
                    raise SourceFailure(f"a report was not made (status {status})")
        finally:
            pv_wipe(self.vector, 2 * self.report.c.d * sizeof(double))
            self.undecided.wipe()


cdef pv_status reports_draw(const pv_report *plan, pv_draws *draws, const void *x, bint single, int64_t *i, int64_t n,
                            double *out, uint64_t first, double *work) noexcept nogil:
    """Reports of rows i[0] to n - 1; stops with i[0] at the first row that asks for something."""
    cdef int64_t d = plan.d
    cdef int64_t j
    cdef const double *row
    cdef pv_status status
    while i[0] < n:
        if single:
            for j in range(d):
                work[d + j] = (<const float *>x)[i[0] * d + j]
            row = work + d
        else:
            row = <const double *>x + i[0] * d
        pv_report_clip(plan.bound, d, row, work)
        status = pv_report_draw(plan, draws, first + <uint64_t>i[0], work, out + i[0] * d)
        if status != PV_OK:
            return status
        i[0] += 1
    return PV_OK


def clipped(x, double bound):
    """A vector as the device scales it (for tests)."""
    cdef const double[::1] given = np.ascontiguousarray(x, dtype=np.float64)
    cdef double[::1] out = np.empty(given.shape[0])
    pv_report_clip(bound, given.shape[0], &given[0], &out[0])
    return np.asarray(out)


def report_with_words(Report report not None, v, words, Source source not None):
    """The report of one vector from given words, those of its first trials (for tests).

    ``words`` has the shape (trials, report.words); ``source`` gives extra words. Returns the report, the trials that
    were used, and how often something was undecided.
    """
    cdef const double[::1] given = np.ascontiguousarray(v, dtype=np.float64)
    cdef int64_t d = report.c.d
    cdef int64_t n = len(words)
    cdef int64_t stride = pv_row_words(report.c.words)
    cdef cnp.ndarray padded = np.zeros((n, stride), dtype="<u8")
    cdef cnp.ndarray rows = np.arange(n, dtype=np.uint64) << np.uint64(PV_REPORT_ROW_BITS) | np.uint64(1)
    cdef double[::1] out = np.empty(d)
    cdef Undecided und = Undecided(max(report.c.words, d))
    cdef pv_draws draws
    cdef pv_status status
    cdef int64_t open_ = 0
    padded[:, : report.c.words] = words
    draws.words, draws.values = <unsigned char *>cnp.PyArray_DATA(padded), NULL
    draws.rows = <uint64_t *>cnp.PyArray_DATA(rows)
    draws.capacity = draws.filled = n
    draws.used = 0
    draws.undecided = &und.c
    draws.pass_ = first_pass()
    while True:
        status = pv_report_draw(&report.c, &draws, 1, &given[0], &out[0])
        if status == PV_OK:
            return np.asarray(out), draws.used, open_
        if status != PV_UNDECIDED:
            raise SourceFailure(f"a report was not made (status {status})")
        open_ += 1
        report.resolve(&draws, source, 0)
