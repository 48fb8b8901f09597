"""Directories and patterns: many files of one format as one input."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import StreamError
from .base import Facts, Piece, Progress, Reader, Source
from .columns import Columns, Kind

__all__ = ["PartsColumns", "PartsSource"]


class _Places:
    """Which part each row of the whole is in, for the parts read so far."""

    def __init__(self, name: str, names: Sequence[str]) -> None:
        self._name = name
        self._names = names
        self._starts: list[int] = []

    def begin(self, part: int, before: int) -> None:
        """Note that a part begins after ``before`` rows."""
        del self._starts[part:]
        self._starts.append(before)

    def outer(self, error: StreamError, part: int) -> StreamError:
        """Return a part's error with its row number, which counts within the part, changed to that of the whole."""
        before = self._starts[part]
        if error.row is None or not before:
            return error
        whole = error.row + before
        text = re.sub(rf"\brow {error.row}\b", f"row {error.row} (row {whole:,} of all)", str(error), count=1)
        return StreamError(text, row=whole)

    def inner(self, error: StreamError) -> StreamError:
        """Return an error about the whole in terms of the part that holds its row."""
        if error.row is None:
            return error
        part = max(i for i, before in enumerate(self._starts) if before < error.row)
        row = error.row - self._starts[part]
        text = str(error).replace(self._name, self._names[part], 1)
        text = re.sub(rf"\brow {error.row}\b", f"row {row}", text, count=1)
        return self.outer(StreamError(text, row=row), part)


def _progress(sizes: Sequence[int], part: int, progress: Progress) -> Progress:
    before, whole = sum(sizes[:part]), max(sum(sizes), 1)
    return lambda fraction: progress((before + fraction * sizes[part]) / whole)


def _facts(name: str, parts: Sequence[Reader]) -> Facts:
    """Return the facts of the whole: what was inferred in any part, and the sum of the rows."""
    known = [part.facts.n_rows for part in parts if part.facts.n_rows is not None]
    return Facts(
        name=name,
        n_rows=sum(known) if len(known) == len(parts) else None,
        inferred=tuple(dict.fromkeys(what for part in parts for what in part.facts.inferred)),
    )


class PartsColumns(Columns):
    """Parts with columns: each has the same names, in any order; without names, the same number of columns.

    Parameters
    ----------
    name : str
        Of the directory or pattern.
    parts : sequence of Columns
    sizes : sequence of int
        Bytes of each part.
    """

    def __init__(self, name: str, parts: Sequence[Columns], sizes: Sequence[int]) -> None:
        first = parts[0]
        self.facts = _facts(name, parts)
        self.names, self.named = first.names, first.named
        self._parts, self._sizes = parts, sizes
        for part in parts[1:]:
            self._check_names(part)
        self._places = _Places(name, [part.name for part in parts])

    def _check_names(self, part: Columns) -> None:
        first = self._parts[0]
        if part.named != first.named:
            has, lacks = (part, first) if part.named else (first, part)
            raise StreamError(
                f"{self.name}: {has.name} has names of its columns and {lacks.name} has none (header= says which it is)"
            )
        if not part.named and len(part.names) != len(self.names):
            raise StreamError(
                f"{part.name}: found {len(part.names)} columns, allowed are {len(self.names)} as in {first.name}"
            )
        missing = [name for name in self.names if name not in set(part.names)]
        if missing:
            raise StreamError(f"{part.name}: no column {missing[0]!r}, which {first.name} has")
        extra = [name for name in part.names if name not in set(self.names)]
        if extra:
            raise StreamError(f"{part.name}: found a column {extra[0]!r}, which {first.name} does not have")

    @property
    def parts(self) -> tuple[Columns, ...]:
        """The parts, in order."""
        return tuple(self._parts)

    def check(self, kinds: Mapping[str, Kind]) -> None:
        for part in self._parts:
            part.hints, part.written = self.hints, self.written
            part.check(kinds)

    def only_text(self, name: str) -> bool:
        return all(part.only_text(name) for part in self._parts)

    def batches(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[Any]:
        row = 0
        for i, part in enumerate(self._parts):
            self._places.begin(i, row)
            try:
                for batch in part.batches(kinds, limit, _progress(self._sizes, i, progress)):
                    row += batch.num_rows
                    yield batch
            except StreamError as err:
                raise self._places.outer(err, i) from err.__cause__

    def located(self, error: StreamError) -> StreamError:
        return self._places.inner(error)

    def count(self) -> int:
        return sum(part.count() for part in self._parts)

    def sample(self, rows: int) -> Any:
        return self._parts[0].sample(rows)


class PartsSource(Source):
    """Parts that hold rows of one width; arguments as for :class:`PartsColumns`."""

    def __init__(self, name: str, parts: Sequence[Source], sizes: Sequence[int]) -> None:
        first = parts[0]
        self.facts = _facts(name, parts)
        self._parts, self._sizes = parts, sizes
        self.n_features, self.sparse = first.n_features, first.sparse
        for part in parts[1:]:
            if part.n_features != self.n_features:
                raise StreamError(
                    f"{part.name}: found {part.n_features} features, allowed are {self.n_features} as in {first.name}"
                )
            if part.sparse != self.sparse:
                raise StreamError(f"{name}: {first.name} and {part.name} are not both dense or both sparse")
        self._places = _Places(name, [part.name for part in parts])

    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        row = 0
        for i, part in enumerate(self._parts):
            self._places.begin(i, row)
            try:
                for piece in part.pieces(limit, _progress(self._sizes, i, progress)):
                    row += int(piece.X.shape[0])
                    yield piece
            except StreamError as err:
                raise self._places.outer(err, i) from err.__cause__

    def count(self) -> int:
        return sum(part.count() for part in self._parts)
