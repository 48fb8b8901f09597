"""Text that holds numbers: cells of columns, plain CSV, plain rows of index:value pairs."""

from numpy import empty, zeros

cimport numpy as cnp
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memset

from ..errors import InvalidParameter

cnp.import_array()

cdef extern from "cells/pv_written.h":
    ctypedef enum pv_cell:
        PV_CELL_MISSING
        PV_CELL_NUMBER
        PV_CELL_TIME
        PV_CELL_TEXT
        PV_CELL_OPEN

    ctypedef struct pv_written:
        const unsigned char *missing
        const int64_t *ends
        int64_t n_missing
        unsigned char begins[256]
        unsigned char mark
        unsigned char other

    int64_t pv_look(const pv_written *, int64_t, const int32_t *, const unsigned char *, double *, unsigned char *,
                    uint32_t *) noexcept nogil
    void pv_count(int64_t, const double *, const int64_t *, int64_t, const double *, const double *,
                  double *) noexcept nogil

cdef extern from "cells/pv_table_text.h":
    ctypedef struct pv_csv:
        const pv_written *written
        unsigned char sep
        int64_t width
        const int32_t *at
        int64_t rows
        double *numbers
        unsigned char *gaps
        int32_t *starts
        int32_t *sizes

    ctypedef struct pv_svm:
        int64_t base
        int64_t n_features
        double *labels
        double *values
        int32_t *indices
        int64_t *starts
        int64_t rows
        int64_t entries
        int64_t low
        int64_t high

    int64_t pv_csv_count(const unsigned char *, int64_t) noexcept nogil
    int pv_csv_rows(const pv_csv *, const unsigned char *, int64_t) noexcept nogil
    void pv_gather(const unsigned char *, int64_t, const int32_t *, const int32_t *, int32_t *,
                   unsigned char *) noexcept nogil
    void pv_svm_bounds(const unsigned char *, int64_t, int64_t *, int64_t *) noexcept nogil
    int pv_svm_rows(pv_svm *, const unsigned char *, int64_t) noexcept nogil

cdef extern from "cells/pv_columns.h":
    void pv_rows_of(int64_t, int64_t, const double **, int64_t, double *) noexcept nogil

MISSING = PV_CELL_MISSING
NUMBER = PV_CELL_NUMBER
TIME = PV_CELL_TIME
TEXT = PV_CELL_TEXT
OPEN = PV_CELL_OPEN


cdef class Form:
    """How cells are written.

    Parameters
    ----------
    missing : sequence of bytes
        Texts in UTF-8 without blanks around them that count as missing, besides the empty one.
    marks : bytes
        What may stand before decimals, one or two characters.
    """

    cdef pv_written written
    cdef bytes texts
    cdef object ends

    def __init__(self, missing, bytes marks):
        cdef int64_t[::1] ends
        if not 1 <= len(marks) <= 2:
            raise InvalidParameter(f"marks must be one or two characters, found {marks!r}")
        found = [text for text in missing if text]
        self.texts = b"".join(found)
        self.ends = empty(len(found), dtype="int64")
        ends = self.ends
        at = 0
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
        """Tell what each of n texts says: text i is ``data[ends[i] : ends[i + 1]]``.

        Returns
        -------
        values : ndarray of float64, shape (n,)
            Of numbers, and of times the seconds since 1970; NaN else.
        cells : ndarray of uint8, shape (n,)
            MISSING, NUMBER, TIME, TEXT, or OPEN where another reader has to tell.
        hashes : ndarray of uint32, shape (n,), or None
            Of texts without blanks around them; 0 where it is missing or open.
        left : int
            How many are open.
        """
        cdef int64_t n = ends.shape[0] - 1, left = 0, i
        cdef uint32_t *codes = NULL
        if n < 0:
            raise InvalidParameter("ends must have one number more than there are texts, found none")
        for i in range(n):
            if ends[i] < 0 or ends[i + 1] < ends[i]:
                raise InvalidParameter("ends must ascend from 0 on")
        if n and ends[n] > data.shape[0]:
            raise InvalidParameter(f"ends lead to {ends[n]}, and there are {data.shape[0]} bytes")
        cdef double[::1] values = empty(n)
        cdef unsigned char[::1] cells = empty(n, dtype="uint8")
        cdef uint32_t[::1] found = empty(n if hashes else 0, dtype="uint32")
        if n:
            if hashes:
                codes = &found[0]
            with nogil:
                left = pv_look(&self.written, n, &ends[0], &data[0] if data.shape[0] else NULL, &values[0], &cells[0],
                               codes)
        return values.base, cells.base, found.base if hashes else None, left

    def csv(self, const unsigned char[::1] text, bytes sep, const int32_t[::1] at):
        """Read plain CSV: None where anything in it is unusual.

        Parameters
        ----------
        text : bytes-like
            Whole lines without quotes, below 2^31 bytes.
        sep : bytes of length 1
        at : ndarray of int32, shape (columns,)
            The place of each among the numbers, -1 where it is not wanted, or -2 - its place among the texts.

        Returns
        -------
        numbers : ndarray of float64, shape (numbers, n)
            NaN where one is missing.
        gaps : ndarray of uint8, shape (numbers,)
            Whether any is.
        texts : list of (ends, data)
            As for :meth:`look`.
        """
        cdef int64_t size = text.shape[0], n_numbers = 0, n_texts = 0, k, total
        cdef int32_t place
        cdef pv_csv csv
        cdef bint right
        if size >= 1 << 31 or not at.shape[0] or len(sep) != 1:
            raise InvalidParameter("text must be below 2^31 bytes, with at least one column and one separator")
        for place in at:
            n_numbers = max(n_numbers, place + 1)
            n_texts = max(n_texts, -1 - place)
        if not size:
            return None
        csv.written = &self.written
        csv.sep = sep[0]
        csv.width = at.shape[0]
        csv.at = &at[0]
        with nogil:
            csv.rows = pv_csv_count(&text[0], size)
        if not csv.rows:
            return None
        cdef double[:, ::1] numbers = empty((n_numbers, csv.rows))
        cdef unsigned char[::1] gaps = zeros(n_numbers, dtype="uint8")
        cdef int32_t[:, ::1] starts = empty((n_texts, csv.rows), dtype="int32")
        cdef int32_t[:, ::1] sizes = empty((n_texts, csv.rows), dtype="int32")
        csv.numbers = &numbers[0, 0] if n_numbers else NULL
        csv.gaps = &gaps[0] if n_numbers else NULL
        csv.starts = &starts[0, 0] if n_texts else NULL
        csv.sizes = &sizes[0, 0] if n_texts else NULL
        with nogil:
            right = pv_csv_rows(&csv, &text[0], size)
        if not right:
            return None
        texts = []
        cdef int32_t[::1] ends
        cdef unsigned char[::1] data
        for k in range(n_texts):
            total = sizes.base[k].sum(dtype="int64")
            ends, data = empty(csv.rows + 1, dtype="int32"), empty(max(total, 1), dtype="uint8")
            with nogil:
                pv_gather(&text[0], csv.rows, &starts[k, 0], &sizes[k, 0], &ends[0], &data[0])
            texts.append((ends.base, data.base))
        return numbers.base, gaps.base, texts


def rows_of(list columns, double[:, :] rows):
    """Write columns of doubles, each of shape (n,), into rows of shape (n, at least as many), the first into the first.

    The values of a row stand beside each other.
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


def count_lines(const unsigned char[::1] text):
    """Return how many lines have anything in them; lines end in LF or CR LF."""
    cdef int64_t found = 0
    if text.shape[0]:
        with nogil:
            found = pv_csv_count(&text[0], text.shape[0])
    return found


def count_into(const double[::1] values, const int64_t[::1] weights, const double[::1] low, const double[::1] high,
               double[::1] counts):
    """Add the weights of values, shape (n,), to the counts of ascending cells, shape (m,): see ``pv_count``."""
    cdef int64_t n = values.shape[0], m = low.shape[0]
    if weights.shape[0] != n or high.shape[0] != m or counts.shape[0] != m or not m:
        raise InvalidParameter("shapes differ: values and weights, or low, high and counts, or there is no cell")
    if n:
        with nogil:
            pv_count(n, &values[0], &weights[0], m, &low[0], &high[0], &counts[0])


def read_svm(const unsigned char[::1] text, int64_t base, int64_t n_features):
    """Return (labels, values, indices, starts) of plain rows of index:value pairs, None where anything is unusual.

    Indices in the text begin with ``base``, and in the result with 0.
    """
    cdef pv_svm svm
    cdef bint right
    cdef int64_t rows = 1, entries = 0
    if not 1 <= n_features < 1 << 31 or not 0 <= base <= 1:
        raise InvalidParameter(f"n_features must be from 1 to 2^31 - 1, base 0 or 1, found {n_features} and {base}")
    if not text.shape[0]:
        return None
    with nogil:
        pv_svm_bounds(&text[0], text.shape[0], &rows, &entries)
    cdef double[::1] labels = empty(rows)
    cdef int64_t[::1] starts = empty(rows + 1, dtype="int64")
    cdef double[::1] values = empty(max(entries, 1))
    cdef int32_t[::1] indices = empty(max(entries, 1), dtype="int32")
    svm.base, svm.n_features = base, n_features
    svm.labels, svm.values, svm.indices, svm.starts = &labels[0], &values[0], &indices[0], &starts[0]
    with nogil:
        right = pv_svm_rows(&svm, &text[0], text.shape[0])
    if not right:
        return None
    return labels.base[:svm.rows], values.base[:svm.entries], indices.base[:svm.entries], starts.base[:svm.rows + 1]


def scan_svm(const unsigned char[::1] text):
    """Return the least and the greatest index and the number of rows of index:value pairs.

    None where anything in the text is unusual.

    Without an index the least is above the greatest.
    """
    cdef pv_svm svm
    cdef bint right
    if not text.shape[0]:
        return None
    svm.base, svm.n_features = 0, <int64_t>1 << 62
    svm.labels = NULL
    with nogil:
        right = pv_svm_rows(&svm, &text[0], text.shape[0])
    return (svm.low, svm.high, svm.rows) if right else None
