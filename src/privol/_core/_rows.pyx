"""Row views over NumPy arrays and CSR matrices, and the row operations for tests."""

import math

import numpy as np

cimport numpy as cnp
from cpython.ref cimport PyObject
from libc.math cimport isfinite, sqrt

from ..errors import InvalidRow

cdef extern from "Python.h":
    # Borrowed references: nothing in between can drop them, because the keys are texts.
    PyObject *PyTuple_GET_ITEM(tuple names, Py_ssize_t j)
    bint PyFloat_CheckExact(PyObject *value)
    bint PyUnicode_CheckExact(PyObject *value)
    bint PyLong_CheckExact(PyObject *value)
    bint PyBool_Check(PyObject *value)
    bint PyUnicode_IS_ASCII(PyObject *value)
    PyObject *Py_None
    double PyFloat_AS_DOUBLE(PyObject *value)

cdef extern from "numpy/arrayobject.h" nogil:
    ctypedef struct PyArray_ArrFuncs:
        void (*dotfunc)(void *, cnp.npy_intp, void *, cnp.npy_intp, void *, cnp.npy_intp, void *)

    PyArray_ArrFuncs *PyDataType_GetArrFuncs(void *descr)

cnp.import_array()

cdef int _level = 0
cdef tuple REALS = (float, np.float64)
cdef tuple PLAIN = (int, bool, np.float64, np.float32)
cdef object DOUBLES = np.dtype(np.float64)
cdef PyArray_ArrFuncs *OF_DOUBLES = PyDataType_GetArrFuncs(<void *>DOUBLES)


cdef inline double dot(const double *a, const double *b, int64_t n) noexcept:
    """The same bits as NumPy's ``a @ b``."""
    cdef double found
    OF_DOUBLES.dotfunc(<void *>a, sizeof(double), <void *>b, sizeof(double), &found, n, NULL)
    return found


cdef bint is_plain(x, int64_t d) except -1:
    """Whether a row is a contiguous array of n doubles."""
    return (
        cnp.PyArray_CheckExact(x) and cnp.PyArray_TYPE(x) == cnp.NPY_FLOAT64 and cnp.PyArray_NDIM(x) == 1
        and cnp.PyArray_DIM(x, 0) == d and cnp.PyArray_ISCARRAY_RO(x)
    )


cdef bint is_text(str text) except -1:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


cdef bint is_plain_cell(object value) except -1:
    cdef PyObject *cell = <PyObject *>value
    cdef int64_t whole
    if cell == Py_None or PyFloat_CheckExact(cell) or PyBool_Check(cell):
        return True
    if PyLong_CheckExact(cell):
        return exact(value, &whole)
    return PyUnicode_CheckExact(cell) and (PyUnicode_IS_ASCII(cell) or is_text(value))


def plain_row(x, frozenset names not None, tuple numbers not None):
    """Whether a row is a dict with columns of these names and only cells that can be read.

    Parameters
    ----------
    x : anything
    names : frozenset of str
    numbers : tuple of str
        Columns whose cells must be numbers, with integers up to 2^53; other code reads their texts.
    """
    if type(x) is not dict:
        return False
    for name, value in (<dict>x).items():
        if name not in names or not is_plain_cell(value):
            return False
    for name in numbers:
        if type((<dict>x).get(name)) is str:
            return False
    return True


def named_row(dict x not None, tuple names not None):
    """The values of a dict by name, shape (len(names),); None for other names or a value that is no plain number."""
    cdef cnp.npy_intp d = len(names)
    cdef cnp.npy_intp j
    cdef cnp.ndarray row
    cdef double *out
    cdef PyObject *found
    cdef Py_ssize_t at = 0
    if len(x) != d:
        return None
    row = cnp.PyArray_EMPTY(1, &d, cnp.NPY_DOUBLE, 0)
    out = <double *>cnp.PyArray_DATA(row)
    for j in range(d):
        found = next_cell(x, PyTuple_GET_ITEM(names, j), &at)
        if found == NULL:
            return None
        if PyFloat_CheckExact(found):
            out[j] = PyFloat_AS_DOUBLE(found)
        elif type(<object>found) in PLAIN:
            try:
                out[j] = float(<object>found)
            except OverflowError:  # an integer too large for a double
                return None
        else:
            return None
    return row


cdef bint read_target(y, dict codes, double y_bound, double *target) except -1:
    """Whether a label, or a real target if codes is None, can be used directly; and its code, or clipped value."""
    if codes is None:
        if type(y) not in REALS or not isfinite(<double>y):
            return False
        target[0] = min(max(<double>y, -y_bound), y_bound)
        return True
    try:
        code = codes.get(y)
    except Exception:  # not hashable, so not a label
        return False
    if code is None:
        return False
    target[0] = code
    return True


cdef object plain_score(cnp.ndarray x, const double *model, int64_t d, bint intercept, double x_bound):
    """Score of a plain row by a model, with the row scaled to its bound; None if it is not finite."""
    cdef const double *row = <const double *>cnp.PyArray_DATA(x)
    cdef double norm = sqrt(dot(row, row, d))
    cdef double score
    if not isfinite(norm):
        return None
    score = dot(model, row, d)
    if norm > x_bound:
        score *= x_bound / norm
    return score + (model[d] if intercept else 0.0)


cdef void use_level(int level) noexcept:
    global _level
    _level = level


cdef object view_block(pv_rows *rows, object X):
    cdef cnp.ndarray data
    cdef cnp.ndarray indices
    cdef cnp.ndarray indptr
    cdef int64_t bad
    cdef pv_status status
    if isinstance(X, np.ndarray):
        data = X
        if cnp.PyArray_NDIM(data) != 2:
            raise ValueError(f"X must have two dimensions, found {cnp.PyArray_NDIM(data)}")
        data = native(data)
        rows.n = cnp.PyArray_DIM(data, 0)
        rows.d = cnp.PyArray_DIM(data, 1)
        rows.data = <const char *>cnp.PyArray_DATA(data)
        rows.row_stride = cnp.PyArray_STRIDE(data, 0)
        rows.col_stride = cnp.PyArray_STRIDE(data, 1)
        rows.is_csr = 0
        rows.is_f32 = cnp.PyArray_TYPE(data) == cnp.NPY_FLOAT32
        pv_rows_bind(rows)
        return data
    if X.format != "csr":
        raise ValueError(f"a sparse matrix must be CSR, as sound_rows makes it, found {X.format.upper()}")
    data = native(X.data)
    wide = X.indices.dtype.itemsize == 8 or X.indptr.dtype.itemsize == 8
    indices = np.ascontiguousarray(X.indices, dtype=np.int64 if wide else np.int32)
    indptr = np.ascontiguousarray(X.indptr, dtype=np.int64 if wide else np.int32)
    data = np.ascontiguousarray(data)
    rows.n = X.shape[0]
    rows.d = X.shape[1]
    rows.data = <const char *>cnp.PyArray_DATA(data)
    rows.indices = cnp.PyArray_DATA(indices)
    rows.indptr = cnp.PyArray_DATA(indptr)
    rows.nnz = min(data.shape[0], indices.shape[0])
    rows.is_csr = 1
    rows.is_f32 = cnp.PyArray_TYPE(data) == cnp.NPY_FLOAT32
    rows.wide_indices = wide
    if indptr.shape[0] != rows.n + 1:
        raise InvalidRow(f"CSR: {rows.n} rows need {rows.n + 1} row pointers, found {indptr.shape[0]}", row=1)
    pv_rows_bind(rows)
    with nogil:
        status = pv_rows_check(rows, &bad)
    if status == PV_UNSORTED:  # with no worse fault, so SciPy may use it
        X = X.copy()
        # otherwise a row whose entries are in order would be sorted only if another's are not, which may change the
        # order in which repeated entries are added, and so their sum
        X.has_sorted_indices = False
        X.sum_duplicates()  # sorts each row, adds repeated entries: the canonical form of the same matrix
        return view_block(rows, X)
    if status == PV_BAD_INDEX:
        raise InvalidRow(f"CSR: row {bad + 1} of the block has a column index outside 0..{rows.d - 1}", row=bad + 1)
    if status == PV_BAD_INDPTR:
        raise InvalidRow(f"CSR: the row pointers of row {bad + 1} of the block leave the data", row=bad + 1)
    return data, indices, indptr


cdef cnp.ndarray native(object a):
    """The array itself if its elements can be read in place, else a float64 copy."""
    cdef cnp.ndarray array = a
    cdef int code = cnp.PyArray_TYPE(array)
    if (code == cnp.NPY_FLOAT64 or code == cnp.NPY_FLOAT32) and cnp.PyArray_ISBEHAVED_RO(array):
        return array
    return np.array(array, dtype=np.float64, order="C")


cdef int view_row(pv_rows *rows, object x) except -1:
    cdef cnp.ndarray data = x
    rows.n = 1
    rows.d = cnp.PyArray_DIM(data, 0)
    rows.data = <const char *>cnp.PyArray_DATA(data)
    rows.row_stride = 0
    rows.col_stride = cnp.PyArray_STRIDE(data, 0)
    rows.is_csr = 0
    rows.is_f32 = cnp.PyArray_TYPE(data) == cnp.NPY_FLOAT32
    pv_rows_bind(rows)
    return 0


cdef object invalid_row(pv_rows *rows, int64_t i, int64_t learnt):
    cdef double value = 0.0
    cdef int64_t column = pv_rows_bad_column(rows, i, &value)
    what = "NaN" if math.isnan(value) else "infinity" if math.isinf(value) else f"{value:g}"
    return InvalidRow(
        f"row {learnt + i + 1}, feature {column}: found {what}, allowed are finite numbers up to {PV_ENTRY_MAX:g} in "
        "magnitude (NaN and infinity are not); nothing of its block was learnt",
        row=learnt + i + 1,
        column=column,
    )


def squared_norms(X, *, int64_t learnt=0, bint refuse=False):
    """Squared L2 norm of every row, in the kernels' lane order; -1 where a row has an unusable entry.

    Parameters
    ----------
    X : ndarray of shape (n, d) or CSR matrix
        float32 or float64.
    learnt : int
        Rows before this block, for the number in the error.
    refuse : bool
        Raise :class:`~privol.errors.InvalidRow` for the first unusable row instead of marking it.

    Returns
    -------
    ndarray of shape (n,), float64
    """
    cdef pv_rows rows
    cdef int64_t bad = 0
    owner = view_block(&rows, X)
    cdef double[::1] out = np.empty(rows.n)
    if rows.n:
        pv_rows_use(&rows, _level)
        with nogil:
            bad = pv_rows_norms(&rows, &out[0])
        if refuse and bad < rows.n:
            raise invalid_row(&rows, bad, learnt)
    del owner
    return np.asarray(out)
