"""Sparse matrices from callers: their structure is checked before SciPy or a kernel uses it to access memory.

SciPy's constructors check the ends of the row pointers but no index, and its conversions, slices and products trust
both: a matrix with wrong ones makes them read and write other memory.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .errors import InvalidParameter, InvalidRow, PrivolError

__all__ = ["sound_rows"]

Integers = NDArray[np.integer[Any]]


def sound_rows(X: Any, *, null: bool = False) -> Any:
    """Return a sparse matrix as CSR whose structure is sound, and anything else as it is.

    The structure is copied, then checked, so no other thread can change what was checked; the values are not copied.

    Parameters
    ----------
    X : scipy.sparse array or matrix of any format, or anything else
    null : bool, default=False
        Make a CSR row with a column index outside the matrix a null row (its one entry is NaN) instead of refusing it.

    Returns
    -------
    csr_array or csr_matrix, or X
        Indices need not be sorted, and may repeat: that is no error, and their entries are added up where they are
        read.

    Raises
    ------
    InvalidRow
        If the pointers or the column indices of a CSR row are outside the matrix. Wrong pointers are an error with
        ``null`` too: a row has no pointers of its own, as they say where others begin. A column index is the row's,
        and replacing one row can put it there: with ``null`` it must not end the call for all of them.
    InvalidParameter
        If the structure of another format, or the arrays of CSR, are no matrix. Such a matrix is not kept by rows, so
        this is the call's error whatever ``null`` says.

    Notes
    -----
    Cost: a copy of the indices and two passes over them, about 1 ns an entry.
    """
    if not sparse.issparse(X):
        return X
    if X.ndim != 2:
        raise InvalidParameter(f"a sparse matrix must have two dimensions, found {X.ndim}")
    try:
        if X.format != "csr":
            return _to_csr(X, null)
        indptr, indices = _structure(X, X.shape[0], "row")
        return _sound_csr(X, X.data, indices, indptr, null)
    except PrivolError:
        raise
    # SciPy's errors for arrays that do not fit together
    except (IndexError, OverflowError, TypeError, ValueError) as error:
        raise InvalidParameter(f"{X.format.upper()}: is no sparse matrix: {error}") from error


def _to_csr(X: Any, null: bool) -> Any:
    """CSR of a matrix in another format, checked as far as the conversion requires."""
    kind, (n, d) = X.format.upper(), X.shape
    made = getattr(sparse, f"{X.format}_{_family(X)}")
    if X.format == "csc":
        indptr, indices = _structure(X, d, "column")
        _check_range(indices[: indptr[-1]], n, "CSC: row indices")
        return made((X.data, indices, indptr), shape=X.shape).tocsr()
    if X.format == "bsr":
        height, width = X.data.shape[1:] if X.data.ndim == 3 else (0, 0)
        if not height or not width or n % height or d % width:
            raise InvalidParameter(f"BSR: data of shape {X.data.shape} is no blocks of a matrix of shape {X.shape}")
        indptr, indices = _structure(X, n // height, "row of blocks")
        _check_range(indices[: indptr[-1]], d // width, "BSR: columns of blocks")
        return _in_given_order(made((X.data, indices, indptr), shape=X.shape, blocksize=(height, width)).tocoo())
    if X.format == "coo":
        row, column = _integers(X.row, kind), _integers(X.col, kind)
        if X.data.ndim != 1 or not len(row) == len(column) == len(X.data):
            raise InvalidParameter(f"COO: found {len(row)} rows, {len(column)} columns and {len(X.data)} values")
        _check_range(row, n, "COO: row indices")
        _check_range(column, d, "COO: column indices")
        return _in_given_order(made((X.data, (row, column)), shape=X.shape))
    if X.format == "dia":
        offsets = _integers(X.offsets, kind)
        if X.data.ndim != 2 or len(X.data) != len(offsets):
            raise InvalidParameter(f"DIA: found {len(offsets)} offsets for data of shape {X.data.shape}")
        crossing = (-n < offsets) & (offsets < d)  # the conversion would count and cast the others as they are
        return made((X.data[crossing], offsets[crossing]), shape=X.shape).tocsr()
    if X.format == "lil":
        columns, values = list(map(list, X.rows)), list(map(list, X.data))
        lengths = list(map(len, columns))
        if len(lengths) != n or lengths != list(map(len, values)):
            raise InvalidParameter(f"LIL: {n} rows need as many lists of columns, each as long as its list of values")
        indices = np.fromiter(chain.from_iterable(columns), np.int64, sum(lengths))
        data = np.fromiter(chain.from_iterable(values), X.dtype, sum(lengths))
        return _sound_csr(X, data, indices, np.cumsum([0, *lengths]), null)
    return X.tocsr()  # DOK: its entries become a COO matrix, whose indices SciPy checks


def _in_given_order(X: Any) -> Any:
    """CSR of a COO matrix, with the entries of each row in their given order.

    SciPy would add duplicates; if another row is unsorted, it would do so in another order, which changes the sum.
    """
    X.has_canonical_format = True  # whether or not it has
    found = X.tocsr()
    found.has_canonical_format = found.has_sorted_indices = False
    return found


def _sound_csr(X: Any, data: Any, indices: Integers, indptr: Integers, null: bool) -> Any:
    """CSR with X's shape and type (array or matrix), from arrays whose pointers are valid."""
    d, stored = X.shape[1], int(indptr[-1])
    used = indices[:stored]
    if stored and not 0 <= used.min() <= used.max() < d:
        outside = (used < 0) | (used >= d)
        rows = np.unique(np.searchsorted(indptr, np.flatnonzero(outside), side="right") - 1)
        if not null or not d:
            found, row = used[int(np.argmax(outside))], int(rows[0]) + 1
            raise InvalidRow(
                f"CSR: row {row} of the block has a column index outside 0..{d - 1}, found {found}", row=row
            )
        indptr, indices, data = _with_null_rows(indptr, used, data[:stored], rows)
    if max(len(indices), *X.shape) <= np.iinfo(np.int32).max:  # SciPy would search all of them for the same answer
        indices, indptr = indices.astype(np.int32, copy=False), indptr.astype(np.int32, copy=False)
    return getattr(sparse, f"csr_{_family(X)}")((data, indices, indptr), shape=X.shape)


def _with_null_rows(indptr: Integers, indices: Integers, data: Any, rows: Integers) -> tuple[Integers, Integers, Any]:
    """Return the arrays of the same matrix with a single NaN in each of these rows."""
    lengths = np.diff(indptr)
    kept = np.ones(len(lengths), dtype=bool)
    kept[rows] = False
    entries = np.repeat(kept, lengths)
    lengths[rows] = 1
    starts = np.concatenate([indptr[:1], np.cumsum(lengths, dtype=indptr.dtype)])
    old = np.ones(int(starts[-1]), dtype=bool)
    old[starts[:-1][rows]] = False
    values = np.full(len(old), np.nan, dtype=data.dtype if data.dtype in (np.float32, np.float64) else np.float64)
    columns = np.zeros(len(old), dtype=indices.dtype)
    values[old], columns[old] = data[entries], indices[entries]
    return starts, columns, values


def _family(X: Any) -> str:
    return "array" if isinstance(X, sparse.sparray) else "matrix"


def _structure(X: Any, n: int, what: str) -> tuple[Integers, Integers]:
    """Copy the indices and the pointers, which must rise from 0 and stay within the entries."""
    kind = X.format.upper()
    indptr, indices = _integers(X.indptr, kind), _integers(X.indices, kind)
    if len(indices) != len(X.data):
        raise InvalidParameter(f"{kind}: found {len(indices)} indices for {len(X.data)} values")
    words, row = "", 1
    if len(indptr) != n + 1:
        words = f"{kind}: {n} {what}s need {n + 1} {what} pointers, found {len(indptr)}"
    else:
        wrong = (indptr[1:] < indptr[:-1]) | (indptr[1:] > len(indices))
        if indptr[0] != 0 or wrong.any():
            row = int(np.argmax(wrong)) + 1 if indptr[0] == 0 else 1
            words = (
                f"{kind}: the {what} pointers of {what} {row} of the block leave the data: found "
                f"{' to '.join(map(str, indptr[row - 1 : row + 1]))}, allowed is 0 to {len(indices)} in rising order"
            )
    if words:
        raise InvalidRow(words, row=row) if kind == "CSR" else InvalidParameter(words)
    return indptr, indices


def _integers(values: Any, kind: str) -> Integers:
    """Copy integers to 32 or 64 bits in native byte order."""
    found = np.asarray(values)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise InvalidParameter(
            f"{kind}: indices and pointers must be vectors of integers, found {found.dtype} of shape {found.shape}"
        )
    copied: Integers = np.array(found, dtype=np.int32 if found.dtype == np.int32 else np.int64)
    return copied


def _check_range(indices: Integers, n: int, what: str) -> None:
    if len(indices) and not 0 <= indices.min() <= indices.max() < n:
        wrong = indices[(indices < 0) | (indices >= n)][0]
        raise InvalidParameter(f"{what} must be in 0..{n - 1}, found {wrong}")
