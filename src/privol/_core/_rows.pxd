cimport numpy as cnp
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t

cdef extern from "base/pv_status.h" nogil:
    ctypedef enum pv_status:
        PV_OK
        PV_NEED_BITS
        PV_UNDECIDED
        PV_HORIZON
        PV_BAD_ROW
        PV_BAD_INDEX
        PV_UNSORTED
        PV_BAD_INDPTR
        PV_NOT_FINITE
        PV_NEED_FAR

cdef extern from "rows/pv_rows.h" nogil:
    double PV_ENTRY_MAX

    ctypedef struct pv_rows:
        int64_t n
        int64_t d
        const char *data
        int64_t row_stride
        int64_t col_stride
        const void *indptr
        const void *indices
        int64_t nnz
        int is_csr
        int wide_indices
        int is_f32

    void pv_rows_bind(pv_rows *rows) noexcept
    pv_status pv_rows_check(const pv_rows *rows, int64_t *bad) noexcept
    double pv_rows_norm(const pv_rows *rows, int64_t i) noexcept
    double pv_sqnorm(const double *x, int64_t n) noexcept
    int64_t pv_whole(int64_t n) noexcept
    void pv_rows_use(pv_rows *rows, int level) noexcept
    int64_t pv_rows_norms(const pv_rows *rows, double *sqnorms) noexcept
    int64_t pv_rows_bad_column(const pv_rows *rows, int64_t i, double *value) noexcept

cdef extern from "Python.h":
    # Borrowed references: the row keeps its cells alive only until other code runs, so each is held before Python is
    # called.
    PyObject *PyDict_GetItemWithError(dict x, PyObject *name) except? NULL
    bint PyDict_Next(dict x, Py_ssize_t *at, PyObject **name, PyObject **cell)
    int64_t PyLong_AsLongLongAndOverflow(object value, int *over) except? -1


cdef inline PyObject *next_cell(dict x, PyObject *name, Py_ssize_t *at) except? NULL:
    """The cell of a text, or NULL: the next of the row from `at` on, as long as the row's names are the same objects in
    the same order; then `at` is -1, and each is looked up."""
    cdef PyObject *key
    cdef PyObject *cell
    if at[0] >= 0:
        if PyDict_Next(x, at, &key, &cell) and key == name:
            return cell
        at[0] = -1
    return PyDict_GetItemWithError(x, name)


cdef inline bint exact(object value, int64_t *found) except -1:
    """Whether a double holds an integer."""
    cdef int over = 0
    found[0] = PyLong_AsLongLongAndOverflow(value, &over)
    return over == 0 and -(1LL << 53) <= found[0] <= (1LL << 53)


# Whether a cell of a dict can be read, whatever it is used for.
cdef bint is_plain_cell(object value) except -1

# Set the view from a 2-d float array or a CSR matrix; the result owns the memory that the view points to.
# The instruction-set level for norms that are requested from Python, set by _noise.
cdef void use_level(int level) noexcept

cdef object view_block(pv_rows *rows, object X)
# An array whose elements can be read in place: itself, or a float64 copy.
cdef cnp.ndarray native(object a)
# The same for one row, given as a 1-d float array.
cdef int view_row(pv_rows *rows, object x) except -1
# The error for row i of a block, which is unusable, after `learnt` rows of the run.
cdef object invalid_row(pv_rows *rows, int64_t i, int64_t learnt)
# For one row that is a contiguous array of doubles, and for its label or target.
cdef bint is_plain(x, int64_t d) except -1
cdef bint read_target(y, dict codes, double y_bound, double *target) except -1
cdef object plain_score(cnp.ndarray x, const double *model, int64_t d, bint intercept, double x_bound)
