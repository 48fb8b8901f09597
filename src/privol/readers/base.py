"""The base of all readers of rows: a source of pieces, in constant memory."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ..errors import StreamError
from .positions import Positions

__all__ = [
    "BLOCK_BYTES",
    "PAUSE",
    "SEEN",
    "Facts",
    "FloatArray",
    "Piece",
    "Progress",
    "Reader",
    "Rows",
    "Source",
    "Targets",
    "arrow",
    "plainly",
    "told",
]

FloatArray = npt.NDArray[np.float64]
# A 2-d array of float32 or float64, or a scipy CSR matrix or array.
Rows = Any
Progress = Callable[[float], None]

# Dense blocks stay below this many bytes whatever the number of columns, so that a wide file read with the default
# block_rows needs no more memory than a narrow one. Beyond 32 MiB the C library of Linux gets each block from the
# kernel anew, which clears it: a third of the time that reading and encoding rows of 120 features takes.
BLOCK_BYTES = 30 << 20


def arrow(what: str) -> Any:
    """Return the module pyarrow, or say how to install it for ``what``."""
    try:
        import pyarrow
    except ImportError as err:
        raise StreamError(f"reading {what} needs pyarrow: pip install 'privol[files]'") from err
    return pyarrow


def plainly(err: BaseException) -> str:
    """Return the first line of a library's message, short enough to quote in ours."""
    return (str(err).strip().splitlines() or [type(err).__name__])[0][:200]


class Targets(Protocol):
    """Makes numbers of the targets that a reader finds: labels become indices, numbers stay as they are."""

    def encode(self, values: npt.NDArray[Any], first_row: int, where: str) -> FloatArray:
        """Return the targets as float64, shape (n,); ``where`` names stream and column in messages."""

    def knows(self, label: Any) -> bool:
        """Whether a cell is a declared label."""


class Piece(NamedTuple):
    """Some consecutive rows as a source yields them.

    ``users`` (whose row it is) and ``keys`` (which label belongs to it) are dictionary-coded pyarrow arrays where a
    schema asks for them. ``bare`` marks rows without any known feature, which only bring a label. A target that is
    still to come is NaN in ``y``. ``seen`` belongs to rows that a cap has passed on for a run that is kept: one of
    :data:`SEEN` for each. Wrappers of a source remove these fields; a :class:`Stream` sees rows alone.
    """

    X: Rows
    y: FloatArray | None
    users: Any = None
    keys: Any = None
    bare: npt.NDArray[np.bool_] | None = None
    seen: npt.NDArray[np.void] | None = None


# Whose row it is, by a keyed hash (zeros for a null row), and its number in the input, from 1.
SEEN = np.dtype([("user", "<u8", (2,)), ("row", "<i8")])

# No rows: the input has nothing more for now, so a block is yielded before it is full. Sources that wrap a source pass
# this on unchanged.
PAUSE = Piece(np.empty((0, 0)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts about an input before its rows are read, and the promises about them.

    Attributes
    ----------
    name : str
        For messages: a file's name without its folder, or the kind of input.
    n_rows : int or None
        Where it is known without reading the rows.
    repeatable : bool
        Whether it can be read more than once.
    sized : bool
        Whether it can be known how much of it has been read.
    merge : bool
        Whether small pieces may be joined into full blocks (files), or must be passed on at once (live generators).
    ahead : bool
        Whether a thread may run it ahead of the consumer (not where that runs the caller's code).
    inferred : tuple of str
        What was inferred from the contents, on which every row depends ("columns" stands for their names and order):
        nothing where arguments, a schema or a typed format state it all.
    conditions : tuple of str
        What a guarantee takes for granted, one sentence each.
    rows_per_user : int or None
        The most rows of one user that are yielded.
    user_separation : int
        Any two rows of one user are at least this many rows apart among those yielded.
    users_fixed : bool
        Whether neighbouring streams have the same users, so that what becomes of a row may depend on rows of other
        users. Otherwise all rows of one user may become those of a user who has no others.
    user : str or None
        Name of the column that says whose row it is, which that cap counts by.
    beside : str or None
        Account of the run that learnt the rows before these; beside it, these rows cost nothing.
    first_row : int
        Number of the first row in the whole stream.
    positions : Positions or None
        Where the input is after each row, if it has positions: it is a database, where a row's number may change
        between two readings.
    set_aside : callable or None
        Returns how many messages were set aside so far in the latest iteration; None where none ever are.
    away : callable or None
        Returns whether the input cannot be reached for now, and is waited for; None where nothing is ever waited for.
    lag : callable or None
        Returns how many messages waited at the broker when it was asked last, None where it has not said; None where
        there is no broker.
    """

    name: str
    n_rows: int | None = None
    repeatable: bool = True
    sized: bool = True
    merge: bool = True
    ahead: bool = True
    inferred: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    rows_per_user: int | None = None
    user_separation: int = 1
    users_fixed: bool = True
    user: str | None = None
    beside: str | None = None
    first_row: int = 1
    positions: Positions | None = None
    set_aside: Callable[[], int] | None = None
    away: Callable[[], bool] | None = None
    lag: Callable[[], int | None] | None = None


class Reader(ABC):
    """A kind of input; see :class:`Source` and :class:`~privol.readers.columns.Columns`."""

    facts: Facts

    @property
    def name(self) -> str:
        """The name of the input in messages."""
        return self.facts.name

    @abstractmethod
    def count(self) -> int:
        """Return the number of rows, by reading them if need be."""


class Source(Reader):
    """A kind of input that yields checked pieces of any number of rows, in order.

    Sources that wrap a source say in ``counts`` how many rows the latest iteration has dropped so far. ``cells`` and
    ``cell_rows`` are as in :class:`Stream`, for the latest iteration that has ended.
    """

    n_features: int
    feature_names: tuple[str, ...] | None = None
    sparse: bool = False
    counts: Mapping[str, int] = MappingProxyType({})
    cells: Mapping[str, Mapping[str, int]] | None = None
    cell_rows: int | None = None

    @abstractmethod
    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        """Yield (X, y) pieces; ``limit`` is the number of rows wanted in a block.

        ``progress`` is called with the fraction of the input consumed.
        """

    def brings_rest(self) -> None:
        """Take the rows of an input that can be read only once for those that are left where it begins at a later row.

        Raises
        ------
        StreamError
            If the rows before them are needed.
        """
        raise StreamError(f"{self.name}: has to be brought from its first row on")

    def count(self) -> int:
        """Return the number of rows that :meth:`pieces` yields, by reading them."""
        return sum(int(piece.X.shape[0]) for piece in self.pieces(65536, lambda _: None))


_TOLD = ", inferred from the data, "


def told(inferred: tuple[str, ...]) -> tuple[str, ...]:
    """Return the condition on what was inferred from the contents: one row could change it, and so change every row."""
    if not inferred:
        return ()
    *first, last = (f"the {what}" for what in inferred)
    listed = f"{', '.join(first)} and {last}" if first else last
    be = "are" if first or last.endswith("s") else "is"
    return (f"{listed}{_TOLD}{be} the same in neighbouring streams and {be} not hidden",)


def split_told(conditions: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return what conditions say was inferred from the contents (:func:`told`), and the other conditions."""
    said = [words for words in conditions if _TOLD in words]
    inferred = (what for words in said for what in re.split(", | and ", words.partition(_TOLD)[0]))
    return frozenset(what.removeprefix("the ") for what in inferred), tuple(w for w in conditions if w not in said)
