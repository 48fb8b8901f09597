"""Labels that come later: rows wait for theirs within a bounded window."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .._validate import integer
from ..encoding.labels import coded
from ..errors import StreamError
from ..readers.base import PAUSE, FloatArray, Piece, Progress, Source

__all__ = ["DelayedSource", "Wrapper"]

DELAY_CONDITION = (
    "which row waits for which label (the keys), where in the stream rows and labels stand, and which rows lack a "
    "label or their features, is the same in neighbouring streams and is not hidden; a row and its label that comes "
    "later are one row"
)


class Wrapper(Source):
    """Rows of another source, fewer of them or in another order; their number is not known in advance."""

    def __init__(self, source: Source, condition: str) -> None:
        self._source = source
        self.facts = replace(source.facts, n_rows=None, conditions=(*source.facts.conditions, condition))
        self.n_features = source.n_features
        self.feature_names = source.feature_names
        self.sparse = source.sparse

    def _note_cells(self) -> None:
        """Take over, at the end of an iteration, what its source has counted."""
        self.cells, self.cell_rows = self._source.cells, self._source.cell_rows


class DelayedSource(Wrapper):
    """Joins rows with labels that come later in the same stream, by key.

    * A row without a target waits. At most ``window`` rows do; one more drops the oldest.
    * A row with a target whose key is waiting completes the waiting row: that row's features are learnt with this
      target, now. Its own features, if it has any, are not used.
    * A row with a target whose key is not waiting is learnt itself if it has features, else dropped.
    * The end of the stream drops what still waits.

    Memory: the rows that wait, as numbers with their keys (and users), and one piece.

    Parameters
    ----------
    source : Source
        Its pieces have ``keys``, and ``y`` with NaN where the target is still to come.
    window : int
        At least 1.
    key : str, optional
        Name of the key column, for messages.

    Attributes
    ----------
    counts : dict of str to int
        What the latest iteration dropped: "waited_too_long" (rows), "unmatched_labels", "still_waiting" (rows, at the
        end). Not private.
    """

    def __init__(self, source: Source, window: int, *, key: str | None = None) -> None:
        self._window = integer(window=window, at_least=1)
        super().__init__(source, DELAY_CONDITION)
        self.facts = replace(self.facts, positions=None)  # rows wait: what is learnt is no beginning of what was read
        self._key = "the key" if key is None else f"column {key!r}"
        self.counts = self._dropped = dict.fromkeys(("waited_too_long", "unmatched_labels", "still_waiting"), 0)

    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        self.counts = self._dropped = dict.fromkeys(self._dropped, 0)
        waiting = _Waiting(self.sparse, self.n_features)
        row = 1
        for piece in self._source.pieces(limit, progress):
            if piece is PAUSE:
                yield piece
                continue
            learnt = self._join(piece, waiting, row)
            if learnt is not None:
                yield learnt
            row += int(piece.X.shape[0])
        self._dropped["still_waiting"] = len(waiting.rows)
        self._note_cells()

    def _join(self, piece: Piece, waiting: _Waiting, first_row: int) -> Piece | None:
        """Return the rows that can be learnt after a piece, in the order of the events, and keep those that wait."""
        n = int(piece.X.shape[0])
        if piece.y is None or piece.keys is None:
            raise StreamError(f"{self.name}, from row {first_row}: rows without targets or keys cannot be joined")
        keys = _texts(piece.keys, n)
        users = [None] * n if piece.users is None else _texts(piece.users, n)
        comes_later = np.isnan(piece.y).tolist()
        bare = [False] * n if piece.bare is None else piece.bare.tolist()
        taken: list[int] = []  # position of each learnt row: in the piece, or negative in the store
        labels: list[int] = []
        owners: list[str | None] = []
        rows = waiting.rows
        for i, key in enumerate(keys):
            if key is None:
                row = first_row + i
                raise StreamError(f"{self.name}, row {row}, {self._key}: found nothing, every row needs one", row=row)
            if comes_later[i]:
                if key in rows:
                    row = first_row + i
                    raise StreamError(
                        f"{self.name}, row {row}, {self._key}: an earlier row with this key is still waiting for its "
                        "label, only one may",
                        row=row,
                    )
                if len(rows) == self._window:
                    _, (place, _) = rows.popitem(last=False)
                    waiting.free(place)
                    self._dropped["waited_too_long"] += 1
                rows[key] = (i, users[i])
                continue
            found = rows.pop(key, None)
            if found is None and bare[i]:
                self._dropped["unmatched_labels"] += 1
                continue
            place, user = (i, users[i]) if found is None else found
            if found is not None:
                waiting.free(place)
                if users[i] is not None and users[i] != user:
                    row = first_row + i
                    raise StreamError(
                        f"{self.name}, row {row}: the label belongs to another user than the row with its key", row=row
                    )
            taken.append(place)
            labels.append(i)
            owners.append(user)
        learnt = None
        if taken:
            y = piece.y[labels]
            learnt = Piece(waiting.take(piece.X, taken), y, None if piece.users is None else _coded(owners))
        waiting.keep(piece.X)
        return learnt


class _Waiting:
    """Rows that wait: in ``rows`` by key, oldest first, as (place, user).

    Places from 0 on are rows of the present piece, negative places rows of the store. Places of the store that become
    free are reused only after the piece, because its learnt rows may still be in them.
    """

    def __init__(self, sparse: bool, n_features: int) -> None:
        self.rows: OrderedDict[str, tuple[int, str | None]] = OrderedDict()
        self._sparse = sparse
        self._n_features = n_features
        self._dense: npt.NDArray[Any] | None = None
        self._csr: list[tuple[npt.NDArray[Any], npt.NDArray[Any]] | None] = []
        self._free: list[int] = []
        self._freed: list[int] = []

    def free(self, place: int) -> None:
        """Note that the row at a place has left."""
        if place < 0:
            self._freed.append(place)

    def take(self, X: Any, places: list[int]) -> Any:
        """Return the rows at some places of the piece and the store, in this order."""
        where = np.array(places, dtype=np.int64)
        stored = where < 0
        if not stored.any():
            return X[where]
        if not self._sparse:
            assert self._dense is not None
            out = np.empty((len(where), X.shape[1]), dtype=np.result_type(X.dtype, self._dense.dtype))
            out[~stored] = X[where[~stored]]
            out[stored] = self._dense[-1 - where[stored]]
            return out
        rows = [self._csr[-1 - place] if place < 0 else _row(X, place) for place in places]
        return _matrix([row for row in rows if row is not None], self._n_features)

    def keep(self, X: Any) -> None:
        """Move the waiting rows of the piece into the store."""
        for place in self._freed:
            if self._sparse:
                self._csr[-1 - place] = None
        self._free += self._freed
        self._freed = []
        # Those of the piece are the youngest.
        new = []
        for key in reversed(self.rows):
            if self.rows[key][0] < 0:
                break
            new.append(key)
        for key in new:
            place, user = self.rows[key]
            at = self._free.pop() if self._free else self._grow(X)
            if self._sparse:
                indices, data = _row(X, place)
                self._csr[-1 - at] = indices.copy(), data.copy()
            elif self._dense is not None:
                self._dense[-1 - at] = X[place]
            self.rows[key] = (at, user)

    def _grow(self, X: Any) -> int:
        """Make room for more rows and return the first new place."""
        if self._sparse:
            self._csr.append(None)
            return -len(self._csr)
        old = 0 if self._dense is None else len(self._dense)
        new = max(64, 2 * old)
        grown = np.empty((new, X.shape[1]), dtype=X.dtype)
        if self._dense is not None:
            grown[:old] = self._dense
        self._dense = grown
        self._free = [-1 - at for at in reversed(range(old + 1, new))]
        return -1 - old


def _texts(column: Any, n: int) -> list[str | None]:
    """Return the n texts of a dictionary-coded column."""
    indices, texts = coded(column)
    if len(indices) != n:
        raise StreamError(f"found {len(indices)} keys or users for {n} rows")
    return [texts[i] for i in indices.tolist()]


def _coded(texts: list[str | None]) -> Any:
    import pyarrow

    return pyarrow.array(texts, pyarrow.string()).dictionary_encode()


def _row(X: Any, row: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    start, stop = X.indptr[row], X.indptr[row + 1]
    return X.indices[start:stop], X.data[start:stop]


def _matrix(rows: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]], n_features: int) -> Any:
    starts = np.cumsum([0, *(len(indices) for indices, _ in rows)])
    indices = np.concatenate([indices for indices, _ in rows])
    data: FloatArray = np.concatenate([data for _, data in rows])
    if starts[-1] <= np.iinfo(np.int32).max:
        starts = starts.astype(np.int32)
    return sp.csr_array((data, indices, starts.astype(indices.dtype)), shape=(len(rows), n_features))
