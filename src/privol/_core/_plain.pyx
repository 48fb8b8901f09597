"""Plain lines of text: cells of CSV, rows of index:value pairs. Anything unusual is left to slower readers."""

from numpy import empty, zeros

from libc.stdint cimport int32_t, int64_t

from ..errors import InvalidParameter

from ._text cimport Form, pv_written

cdef extern from "cells/pv_lines.h":
    int32_t PV_PASSED_OVER

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

    int64_t pv_filled_lines(const unsigned char *, int64_t, int) noexcept nogil
    int pv_csv_rows(const pv_csv *, const unsigned char *, int64_t) noexcept nogil
    void pv_gather(const unsigned char *, int64_t, const int32_t *, const int32_t *, int32_t *,
                   unsigned char *) noexcept nogil
    void pv_svm_bounds(const unsigned char *, int64_t, int64_t *, int64_t *) noexcept nogil
    int pv_svm_rows(pv_svm *, const unsigned char *, int64_t) noexcept nogil

PASSED_OVER = PV_PASSED_OVER


def filled_lines(const unsigned char[::1] text, *, bint blanks=False):
    """Return how many lines contain anything other than ``blanks``; lines end in LF or CR LF."""
    cdef int64_t found = 0
    if text.shape[0]:
        with nogil:
            found = pv_filled_lines(&text[0], text.shape[0], blanks)
    return found


def read_csv(Form form, const unsigned char[::1] text, bytes sep, const int32_t[::1] at):
    """Read plain CSV; None if anything in it is unusual.

    Parameters
    ----------
    form : Form
    text : bytes-like
        Whole lines without quotes, below 2^31 bytes.
    sep : bytes of length 1
        A character that is in no number and is neither a blank nor a line end.
    at : ndarray of int32, shape (columns,)
        For each column: its place among the numbers, PASSED_OVER if it is not wanted, or -2 minus its place among the
        texts.

    Returns
    -------
    numbers : ndarray of float64, shape (numbers, n)
        NaN where a number is missing.
    gaps : ndarray of uint8, shape (numbers,)
        Whether any number of the column is missing.
    texts : list of (ends, data)
        As for :meth:`~privol._core._text.Form.look`.
    """
    cdef int64_t size = text.shape[0], n_numbers = 0, n_texts = 0, k, total
    cdef int32_t place
    cdef pv_csv csv
    cdef bint right
    if size >= <int64_t>1 << 31 or not at.shape[0] or len(sep) != 1:
        raise InvalidParameter("text must be below 2^31 bytes, with at least one column and one separator")
    for k in range(at.shape[0]):
        place = at[k]
        n_numbers = max(n_numbers, place + 1)
        n_texts = max(n_texts, -1 - place)
    if not size:
        return None
    csv.written = &form.written
    csv.sep = sep[0]
    csv.width = at.shape[0]
    csv.at = &at[0]
    with nogil:
        csv.rows = pv_filled_lines(&text[0], size, False)
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


def read_svm(const unsigned char[::1] text, int64_t base, int64_t n_features):
    """Return (labels, values, indices, starts) of plain rows of index:value pairs, None if anything is unusual.

    Indices begin with ``base`` in the text, and with 0 in the result.
    """
    cdef pv_svm svm
    cdef bint right
    cdef int64_t rows = 1, entries = 0
    if not 1 <= n_features < <int64_t>1 << 31 or not 0 <= base <= 1:
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

    None if anything in the text is unusual. Without any index the least is above the greatest.
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
