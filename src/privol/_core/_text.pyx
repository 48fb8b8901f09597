"""Cells of columns: what text means, histograms of numbers, columns turned into rows."""

from numpy import ascontiguousarray, diff, empty

cimport numpy as cnp
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memset

from ..errors import InvalidParameter

cnp.import_array()

cdef extern from "cells/pv_columns.h":
    void pv_rows_of(int64_t, int64_t, const double **, int64_t, double *) noexcept nogil

cdef extern from "cells/pv_buckets.h":
    ctypedef struct pv_buckets:
        uint32_t buckets
        const int32_t *own
        uint32_t shared
        int32_t others
        int32_t missing

    int32_t PV_SHARED
    void pv_places(const pv_buckets *, int64_t, const unsigned char *, const uint32_t *, int32_t *) noexcept nogil

MISSING = PV_CELL_MISSING
NUMBER = PV_CELL_NUMBER
TIME = PV_CELL_TIME
TEXT = PV_CELL_TEXT
OPEN = PV_CELL_OPEN

STATE_MISSING = PV_STATE_MISSING
STATE_UNKNOWN = PV_STATE_UNKNOWN
STATE_CLIPPED = PV_STATE_CLIPPED
STATE_SPARED = PV_STATE_SPARED

SHARED = PV_SHARED


cdef class Form:
    """How cells are written.

    Parameters
    ----------
    missing : sequence of bytes
        Texts in UTF-8 without blanks around them that count as missing, besides the empty one.
    marks : bytes
        Characters that may be the decimal mark, one or two.
    """

    def __init__(self, missing, bytes marks):
        cdef int64_t[::1] ends
        cdef int64_t at = 0, i
        if not 1 <= len(marks) <= 2:
            raise InvalidParameter(f"marks must be one or two characters, found {marks!r}")
        found = [text for text in missing if text]
        self.texts = b"".join(found)
        self.ends = empty(len(found), dtype="int64")
        ends = self.ends
        memset(self.written.begins, 0, 256)
        for i, text in enumerate(found):
            at += len(text)
            ends[i] = at
            self.written.begins[<unsigned char>text[0]] = 1
        self.written.missing = self.texts
        self.written.ends = &ends[0] if found else NULL
        self.written.n_missing = len(found)
        self.written.mark = marks[0]
        self.written.other = marks[len(marks) - 1]

    def look(self, const int32_t[::1] ends, const unsigned char[::1] data, *, bint hashes=False):
        """Find what each of n texts means; text i is ``data[ends[i] : ends[i + 1]]``.

        Returns
        -------
        values : ndarray of float64, shape (n,)
            Numbers, and times as seconds since 1970; NaN for others.
        cells : ndarray of uint8, shape (n,)
            MISSING, NUMBER, TIME, TEXT, or OPEN if another reader must decide.
        hashes : ndarray of uint32, shape (n,), or None
            Of texts without surrounding blanks; 0 for a missing or open one.
        left : int
            How many are open.
        """
        cdef int64_t n = ends.shape[0] - 1, left = 0, i
        cdef bint wrong = False
        cdef uint32_t *codes = NULL
        if n < 0:
            raise InvalidParameter("ends must have one number more than there are texts, found none")
        with nogil:
            for i in range(n):
                wrong |= ends[i + 1] < ends[i]
        if n and (wrong or ends[0] < 0):
            raise InvalidParameter("ends must ascend from 0 on")
        if n and ends[n] > data.shape[0]:
            raise InvalidParameter(f"ends lead to {ends[n]}, and there are {data.shape[0]} bytes")
        cdef double[::1] values = empty(n)
        cdef unsigned char[::1] cells = empty(n, dtype="uint8")
        cdef uint32_t[::1] found = empty(n if hashes else 0, dtype="uint32")
        cdef const unsigned char *text = &data[0] if data.shape[0] else NULL
        if n:
            if hashes:
                codes = &found[0]
            with nogil:
                left = pv_look(&self.written, n, &ends[0], text, &values[0], &cells[0], codes)
        return values.base, cells.base, found.base if hashes else None, left


def rows_of(list columns, double[:, :] rows):
    """Write columns of doubles, each of shape (n,), into the first columns of rows, which may have more columns.

    The values of a row are contiguous.
    """
    cdef int64_t n = rows.shape[0], width = len(columns), j
    cdef const double[::1] column
    if rows.shape[1] < width or (rows.shape[1] > 1 and rows.strides[1] != 8) or (n > 1 and rows.strides[0] % 8):
        raise InvalidParameter("rows must be as wide as there are columns, their values beside each other")
    if not n or not width:
        return
    cdef const double **found = <const double **>PyMem_Malloc(width * sizeof(double *))
    if found == NULL:
        raise MemoryError
    try:
        for j in range(width):
            column = columns[j]
            if column.shape[0] != n:
                raise InvalidParameter(f"column {j} has {column.shape[0]} values, and there are {n} rows")
            found[j] = &column[0]
        with nogil:
            pv_rows_of(n, width, found, rows.strides[0] // 8, &rows[0, 0])
    finally:
        PyMem_Free(found)


cdef class Buckets:
    """The feature of each hash.

    Parameters
    ----------
    own : ndarray of int32, shape (buckets,), or None
        The place of the hashes of each bucket, or SHARED; None: all are shared.
    others, shared : int
        The first of the features that shared hashes have, and their number; without any, ``others`` is the place of
        these.
    missing : int
        The place of cells that count as missing.
    """

    cdef pv_buckets code
    cdef const int32_t[::1] own

    def __init__(self, const int32_t[::1] own, int others, unsigned int shared, int missing):
        cdef const int32_t *places = NULL
        cdef uint32_t buckets = 1
        if own is not None:
            if not own.shape[0]:
                raise InvalidParameter("there must be a bucket, found none")
            places, buckets = &own[0], <uint32_t>own.shape[0]
        self.own = own
        self.code = pv_buckets(buckets, places, shared, others, missing)

    def places(self, const unsigned char[::1] cells, const uint32_t[::1] hashes):
        """Return the places of n cells, given their kinds and hashes, and one more for a missing cell."""
        cdef int64_t n = cells.shape[0]
        cdef int32_t[::1] found = empty(n + 1, dtype="int32")
        if hashes.shape[0] != n:
            raise InvalidParameter(f"found {hashes.shape[0]} hashes, and there are {n} cells")
        found[n] = self.code.missing
        if n:
            with nogil:
                pv_places(&self.code, n, &cells[0], &hashes[0], &found[0])
        return found.base


cdef class Hats:
    """Functions that are linear between knots, given by their values at the knots.

    Parameters
    ----------
    knots : ndarray of float64, shape (k,)
        Ascending, at least two.
    factors, lows, widths : ndarray of float64, shape (k - 1,)
        For each interval: a factor for its numbers, and its beginning and width, times that factor.
    functions : ndarray of float64, shape (k, width)
        Their values at the knots; differences between any two are exact.
    """

    cdef pv_knots code
    cdef const double[::1] knots
    cdef const double[::1] factors
    cdef const double[::1] lows
    cdef const double[::1] widths
    cdef const double[:, ::1] values
    cdef const double[:, ::1] steps

    def __init__(self, const double[::1] knots, const double[::1] factors, const double[::1] lows,
                 const double[::1] widths, functions):
        cdef int64_t n = knots.shape[0] - 1
        if n < 1 or factors.shape[0] != n or lows.shape[0] != n or widths.shape[0] != n or functions.shape[0] != n + 1:
            raise InvalidParameter("shapes of knots, intervals and functions differ")
        self.knots, self.factors, self.lows, self.widths = knots, factors, lows, widths
        self.values = ascontiguousarray(functions[:n])
        self.steps = ascontiguousarray(diff(functions, axis=0))
        self.code = pv_knots(n, &knots[0], &factors[0], &lows[0], &widths[0])

    def between(self, const double[::1] values, const unsigned char[::1] cells=None, unsigned char right=0):
        """Return the positions and kinds of n cells, and of two more: a missing one, and a spared one.

        Parameters
        ----------
        values : ndarray of float64, shape (n,)
        cells : ndarray of uint8, shape (n,), optional
            The kind of each cell; those that are ``right``, NUMBER or TIME, count as numbers. Default: all do.

        Returns
        -------
        left : ndarray of int32, shape (n + 2,)
            The interval; -1 if there is no number.
        share : ndarray of float64, shape (n + 2,)
            The share of the interval below the number.
        states : ndarray of uint8, shape (n + 2,)
            STATE_MISSING, STATE_UNKNOWN, STATE_CLIPPED, STATE_SPARED or 0.
        """
        cdef int64_t n = values.shape[0]
        cdef int32_t[::1] left = empty(n + 2, dtype="int32")
        cdef double[::1] share = empty(n + 2)
        cdef unsigned char[::1] states = empty(n + 2, dtype="uint8")
        cdef const unsigned char *said = NULL
        left[n] = left[n + 1] = -1
        share[n] = share[n + 1] = 0.0
        states[n], states[n + 1] = PV_STATE_MISSING, PV_STATE_SPARED
        if cells is not None and cells.shape[0] != n:
            raise InvalidParameter(f"found {cells.shape[0]} cells, and there are {n} values")
        if n:
            if cells is not None:
                said = &cells[0]
            with nogil:
                pv_between(&self.code, n, &values[0], said, right, &left[0], &share[0], &states[0])
        return left.base, share.base, states.base


cdef class DenseRows:
    """Dense rows of centred features, from the cells of each column.

    Each method except :meth:`write` adds a column's features: row i has cell ``cells[i]``, or i if ``cells`` is None.

    Parameters
    ----------
    n : int
        Rows.
    means : ndarray of float64, shape (width,)
        What is subtracted from the features, 0 for features that are not centred.
    """

    cdef int64_t n
    cdef const double[::1] means
    cdef pv_part *parts
    cdef int64_t count
    cdef list held

    def __init__(self, int64_t n, const double[::1] means):
        if n < 0 or not means.shape[0]:
            raise InvalidParameter("rows must have a feature")
        self.n, self.means, self.held, self.count = n, means, [], 0

    def __dealloc__(self):
        PyMem_Free(self.parts)

    cdef int take(self, pv_part part, tuple held) except -1:
        """Add a part, and keep alive what it refers to."""
        cdef int64_t fault, width = self.means.shape[0]
        cdef pv_part *parts
        if part.n_cells:
            with nogil:
                fault = pv_part_fault(&part, self.n, width)
        else:
            fault = -1 if not self.n else 0
        if fault >= self.n:
            raise InvalidParameter(f"cell {fault - self.n + 1} has a place that is not in the rows")
        if fault >= 0:
            raise InvalidParameter(f"row {fault + 1} has no such cell or feature")
        parts = <pv_part *>PyMem_Realloc(self.parts, (self.count + 1) * sizeof(pv_part))
        if parts == NULL:
            raise MemoryError
        parts[self.count] = part
        self.parts = parts
        self.count += 1
        self.held.append(held)
        return 0

    def numbers(self, int64_t feature, const double[:] values, const int32_t[::1] cells=None):
        """Add a feature whose value is the cell's value."""
        cdef pv_part part
        memset(&part, 0, sizeof(part))
        part.kind, part.feature, part.n_cells = PV_PART_NUMBERS, feature, values.shape[0]
        if values.shape[0]:
            if values.strides[0] % 8:
                raise InvalidParameter("values must be whole doubles apart")
            part.values, part.width = &values[0], values.strides[0] // 8
        part.cells = self.cells_of(cells)
        self.take(part, (values, cells))

    def entries(self, const int32_t[:, ::1] places, const double[:, ::1] weights=None, const int32_t[::1] cells=None):
        """Add features ``places``, shape (cells, entries), with values ``weights``, or 1; a negative place: none."""
        cdef pv_part part
        memset(&part, 0, sizeof(part))
        part.kind, part.n_cells, part.width = PV_PART_ENTRIES, places.shape[0], places.shape[1]
        if weights is not None and (weights.shape[0] != places.shape[0] or weights.shape[1] != places.shape[1]):
            raise InvalidParameter("shapes of places and weights differ")
        if places.shape[0] and places.shape[1]:
            part.places = &places[0, 0]
            if weights is not None:
                part.values = &weights[0, 0]
        part.cells = self.cells_of(cells)
        self.take(part, (places, weights, cells))

    def functions(self, int64_t feature, Hats hats, const int32_t[::1] left, const double[::1] share,
                  const int32_t[::1] cells=None):
        """Add the functions of the numbers that :meth:`Hats.between` has found; other cells add nothing."""
        cdef pv_part part
        memset(&part, 0, sizeof(part))
        if share.shape[0] != left.shape[0]:
            raise InvalidParameter("shapes of left and share differ")
        part.kind, part.feature, part.n_cells = PV_PART_FUNCTIONS, feature, left.shape[0]
        part.width, part.intervals = hats.values.shape[1], hats.code.intervals
        part.values, part.steps = &hats.values[0, 0], &hats.steps[0, 0]
        if left.shape[0]:
            part.places, part.share = &left[0], &share[0]
        part.cells = self.cells_of(cells)
        self.take(part, (hats, left, share, cells))

    def flag(self, int64_t feature, const unsigned char[::1] states, unsigned char mask,
             const int32_t[::1] cells=None):
        """Add a feature that is 1 if the cell's state has a bit of the mask."""
        cdef pv_part part
        memset(&part, 0, sizeof(part))
        part.kind, part.feature, part.n_cells, part.mask = PV_PART_FLAG, feature, states.shape[0], mask
        if states.shape[0]:
            part.states = &states[0]
        part.cells = self.cells_of(cells)
        self.take(part, (states, cells))

    cdef const int32_t *cells_of(self, const int32_t[::1] cells) except? NULL:
        if cells is None or (not self.n and not cells.shape[0]):
            return NULL
        if cells.shape[0] != self.n:
            raise InvalidParameter(f"found {cells.shape[0]} cells, and there are {self.n} rows")
        return &cells[0]

    def write(self, int64_t first, double[:, ::1] rows):
        """Write rows from ``first`` (from 0) on into an array of shape (some, width); several threads may do so."""
        cdef int64_t some = rows.shape[0], width = self.means.shape[0]
        if first < 0 or first + some > self.n or rows.shape[1] != width:
            raise InvalidParameter(f"rows {first} to {first + some} of {rows.shape[1]} features are not among them")
        if some:
            with nogil:
                pv_dense(first, first + some, self.count, self.parts, width, &self.means[0], &rows[0, 0])


def in_cycle(const double[::1] seconds, double period, double start, const double[:, ::1] turn):
    """Return cosine and sine of each time's position in a cycle, each of shape (n,): see ``pv_cycles``.

    Parameters
    ----------
    seconds : ndarray of float64, shape (n,)
    period, start : float
        Whole seconds.
    turn : ndarray of float64, shape (256, 2)
        Cosine and sine at each part of a turn.
    """
    cdef int64_t n = seconds.shape[0]
    cdef double[::1] cosine = empty(n), sine = empty(n)
    if turn.shape[0] != PV_TURN or turn.shape[1] != 2 or not 1.0 <= period < 2.0**30:
        raise InvalidParameter("a turn has 256 parts with two values each, a period from 1 to 2^30 seconds")
    if n:
        with nogil:
            pv_cycles(n, &seconds[0], period, start, &turn[0, 0], &cosine[0], &sine[0])
    return cosine.base, sine.base


def count_into(const double[::1] values, const int64_t[::1] weights, const double[::1] low, const double[::1] high,
               double[::1] counts):
    """Add the weights of values, shape (n,), to the counts of ascending cells, shape (m,): see ``pv_count``."""
    cdef int64_t n = values.shape[0], m = low.shape[0]
    if weights.shape[0] != n or high.shape[0] != m or counts.shape[0] != m or not m:
        raise InvalidParameter("shapes differ: values and weights, or low, high and counts, or there is no cell")
    if n:
        with nogil:
            pv_count(n, &values[0], &weights[0], m, &low[0], &high[0], &counts[0])
