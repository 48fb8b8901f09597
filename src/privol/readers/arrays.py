"""Arrays in memory or mapped from disk, and iterables of blocks."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .._sparse import sound_rows
from .._values import column_of, listed, number_of, shown, table_of, unmasked
from ..errors import InvalidParameter, InvalidRow, PrivolError, StreamError
from .base import Facts, Piece, Progress, Source, Targets
from .columns import resolve_column
from .places import LocalFile

__all__ = ["UNREADABLE", "ArraySource", "BlocksSource", "TableSource", "load_npz", "map_npy", "target_vector"]

try:
    from lzma import LZMAError
except ImportError:  # a Python that was built without it cannot read such files
    LZMAError = OSError  # type: ignore[assignment, misc]


def _float_rows(X: Any, source: str, first_row: int) -> Any:
    """Return 2-d rows as C-contiguous float32 or float64, or CSR of either, copied only where needed."""
    if sp.issparse(X):
        if X.dtype.kind not in "biuf":
            raise StreamError(f"{source}: found sparse data of type {X.dtype}, allowed are numbers")
        return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
    X = unmasked(X)
    if X.dtype.kind in "biuf":
        kept = np.float32 if X.dtype.kind == "f" and X.dtype.itemsize == 4 else np.float64
        return np.ascontiguousarray(X, dtype=kept)
    if X.dtype.kind not in "OUST":
        raise StreamError(f"{source}: found data of type {X.dtype}, allowed are numbers")
    out = np.empty(X.shape, dtype=np.float64)
    for i, cells in enumerate(X):
        for j, cell in enumerate(cells):
            try:
                out[i, j] = number_of(cell)
            except Exception:
                row = first_row + i
                raise StreamError(
                    f"{source}, row {row}, column {j}: found {shown(cell)}, allowed is a number", row=row
                ) from None
    return out


def _matrix(X: Any, source: str, first_row: int = 1) -> Any:
    """Return rows of one length; their values are read later."""
    rows = listed(X)
    if rows is not None:
        try:
            found = table_of(rows)
        except InvalidParameter as err:
            raise StreamError(f"{source}: rows of different lengths or kinds: {err}") from err
        if found is not None and found[1]:
            i, what = min(found[1].items())
            raise StreamError(f"{source}, row {first_row + i}: {what}", row=first_row + i)
        X = np.asarray(rows, dtype=object) if found is None else found[0]
    elif not sp.issparse(X) and not isinstance(X, np.ma.MaskedArray):
        try:
            X = np.asarray(X)
        except ValueError as err:
            raise StreamError(f"{source}: rows of different lengths or kinds: {err}") from err
    if X.ndim != 2:
        at = "" if first_row == 1 else f", row {first_row}"
        raise StreamError(
            f"{source}{at}: X has {X.ndim} dimension(s), allowed are 2 (rows, features)",
            row=None if first_row == 1 else first_row,
        )
    try:
        return sound_rows(X)
    except PrivolError as err:
        at = "" if first_row == 1 else f", from row {first_row}"
        row = first_row - 1 + err.row if isinstance(err, InvalidRow) else None
        raise StreamError(f"{source}{at}: {err}", row=row) from None


def target_vector(y: Any, n: int, source: str, first_row: int = 1) -> npt.NDArray[Any] | None:
    """Return y as a 1-d array of n targets; None stays None."""
    if y is None:
        return None
    found: npt.NDArray[Any] = np.asarray(column_of(y))
    if found.dtype.kind == "O":
        # the marks of a missing value in pandas, which compare equal to nothing
        missing = [type(v).__name__ in ("NAType", "NaTType") for v in found.flat]
        if any(missing):
            found = found.copy()
            found.flat[np.flatnonzero(missing)] = None
    if found.shape == (n, 1):
        found = found[:, 0]
    if found.shape != (n,):
        raise StreamError(
            f"{source}, from row {first_row}: y has the shape {found.shape}, allowed is ({n},)",
            row=first_row,
        )
    return found


class ArraySource(Source):
    """X and y in memory, X dense or sparse."""

    def __init__(self, X: Any, y: Any, labels: Targets, name: str) -> None:
        self._X = X = _matrix(X, name)
        self.sparse = sp.issparse(X)
        n_rows, self.n_features = (int(k) for k in X.shape)
        if not n_rows:
            raise StreamError(f"{name}: no rows, at least one is needed")
        if not self.n_features:
            raise StreamError(f"{name}: no features, at least one is needed")
        self.facts = Facts(name=name, n_rows=n_rows, ahead=False)
        self._y = target_vector(y, n_rows, name)
        self._labels = labels

    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        n = self.facts.n_rows or 0
        for start in range(0, n, limit):
            stop = min(start + limit, n)
            X = _float_rows(self._X[start:stop], self.name, start + 1)
            y = None
            if self._y is not None:
                y = self._labels.encode(self._y[start:stop], start + 1, f"{self.name}, target")
            progress(stop / n)
            yield Piece(X, y)


class TableSource(Source):
    """A 2-d array of numbers with the target as one of its columns.

    Parameters
    ----------
    Returns the array. It is called again for every block, so that pages of a mapped file that were read do not stay in
    memory.
    ahead : bool
        Whether a thread may read ahead: for a mapped file.
    """

    def __init__(
        self, get: Callable[[], npt.NDArray[Any]], labels: Targets, target: Any, name: str, ahead: bool = True
    ) -> None:
        self._get = get
        self._labels = labels
        table = get()
        if table.ndim != 2:
            raise StreamError(f"{name}: the array has {table.ndim} dimension(s), allowed are 2 (rows, columns)")
        if table.dtype.kind not in "biuf":
            raise StreamError(f"{name}: the array has the type {table.dtype}, allowed are numbers")
        self._shape = table.shape
        n_rows, columns = (int(k) for k in table.shape)
        self.facts = Facts(name=name, n_rows=n_rows, ahead=ahead)
        if not n_rows:
            raise StreamError(f"{name}: no rows, at least one is needed")
        if not columns:
            raise StreamError(f"{name}: no columns, at least one is needed")
        self._target = resolve_column(target, None, columns, name)
        self.n_features = columns - (self._target is not None)
        if not self.n_features:
            raise StreamError(f"{name}: no feature besides the target, at least one is needed")

    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        n, t = self._shape[0], self._target
        for start in range(0, n, limit):
            table = self._get()
            if table.shape != self._shape:
                raise StreamError(f"{self.name}: the array has changed while it was read", row=start + 1)
            rows = unmasked(table[start : start + limit])
            single = rows.dtype.kind == "f" and rows.dtype.itemsize == 4
            X = np.empty((len(rows), self.n_features), dtype=np.float32 if single else np.float64)
            y = None
            if t is None:
                X[:] = rows
            else:
                X[:, :t] = rows[:, :t]
                X[:, t:] = rows[:, t + 1 :]
                y = self._labels.encode(np.array(rows[:, t]), start + 1, f"{self.name}, column {t}")
            del rows, table
            progress(min(start + limit, n) / n)
            yield Piece(X, y)


#: What NumPy, SciPy, zipfile and codecs raise on wrong bytes; some of these ask for more memory than there is. NumPy
#: reads the head of an array by Python's own tokenizer. An archive that says it is encrypted is a bare RuntimeError.
UNREADABLE = (
    OSError, ValueError, TypeError, AttributeError, EOFError, KeyError, IndexError, OverflowError, MemoryError,
    RuntimeError, SyntaxError, tokenize.TokenError, zipfile.BadZipFile, zlib.error, struct.error, LZMAError,
)  # fmt: skip


def map_npy(path: Path) -> npt.NDArray[Any]:
    """Return the array of a .npy file, mapped read-only."""
    LocalFile(path).file()
    try:
        mapped: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except UNREADABLE as err:
        raise StreamError(f"{path.name}: is not a readable .npy file: {err}") from err
    if not isinstance(mapped, np.ndarray):
        raise StreamError(f"{path.name}: is not a .npy file")
    return mapped


def load_npz(path: Path) -> tuple[Any, Any]:
    """Return (X, y) of a .npz file, loaded whole."""
    LocalFile(path).file()
    try:
        with np.load(path, allow_pickle=False) as found:
            arrays = {k: found[k] for k in found.files}
        if {"format", "shape", "data"} <= arrays.keys():
            if "y" not in arrays:
                raise StreamError(
                    f"{path.name}: holds a sparse matrix and no array 'y'; "
                    "load it with scipy.sparse.load_npz and give (X, y)"
                )
            return sp.load_npz(path), arrays["y"]
    except StreamError:
        raise
    except UNREADABLE as err:
        raise StreamError(f"{path.name}: is not a readable .npz file: {err}") from err
    if not {"X", "y"} <= arrays.keys():
        raise StreamError(f"{path.name}: found the arrays {sorted(arrays)}, needed are 'X' and 'y'")
    return arrays["X"], arrays["y"]


class BlocksSource(Source):
    """An iterable of (X, y) blocks; a sequence can be read again, anything else once.

    ``first`` is its first element (None where there is none), ``rest`` the iterator from which it was taken.
    """

    def __init__(self, first: Any, rest: Iterator[Any], blocks: Iterable[Any], labels: Targets) -> None:
        again = isinstance(blocks, Sequence)
        self.facts = Facts(name="blocks", repeatable=again, sized=again, merge=False, ahead=False)
        self._labels = labels
        self._blocks: Callable[[], Iterator[Any]]
        if isinstance(blocks, Sequence):
            self._blocks = lambda: iter(blocks)
            peeked, _ = self._checked(first, 1)
            row = 1
            for block in blocks:
                row += self._checked(block, row)[0].shape[0]
            self.facts = replace(self.facts, n_rows=row - 1)
            if row == 1:
                raise StreamError(f"{self.name}: no rows, at least one is needed")
        else:
            # The number of features must be known before the first row is learnt,
            # so the first block is read here and yielded later.
            peeked, _ = self._checked(first, 1)
            self._blocks = lambda: chain([first], rest)
        self.n_features, self.sparse = peeked.shape[1], sp.issparse(peeked)
        if not self.n_features:
            raise StreamError(f"{self.name}: no features, at least one is needed")

    def _checked(self, block: Any, row: int) -> tuple[Any, npt.NDArray[Any] | None]:
        if block is None:
            raise StreamError(f"{self.name}: no block, at least one is needed")
        if not isinstance(block, tuple) or len(block) != 2:
            raise StreamError(
                f"{self.name}, row {row}: found a block of type {type(block).__name__}, allowed is (X, y)",
                row=row,
            )
        X = _matrix(block[0], self.name, row)
        return X, target_vector(block[1], X.shape[0], self.name, row)

    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        row, targets = 1, None
        for block in self._blocks():
            X, y = self._checked(block, row)
            if X.shape[1] != self.n_features:
                raise StreamError(
                    f"{self.name}, row {row}: found a block of {X.shape[1]} features, allowed are "
                    f"{self.n_features} as in the first block",
                    row=row,
                )
            n = X.shape[0]
            if not n:
                continue
            if targets is not None and targets != (y is not None):
                raise StreamError(f"{self.name}, row {row}: y must be None in all blocks or in none", row=row)
            targets = y is not None
            encoded = None if y is None else self._labels.encode(y, row, f"{self.name}, target")
            if self.facts.n_rows:
                progress((row - 1 + n) / self.facts.n_rows)
            yield Piece(_float_rows(X, self.name, row), encoded)
            row += n
