"""The parts of a schema: what it says about a column, the target and the users."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from . import cosines
from .labels import Labels
from .users_taught import taught_squares

__all__ = [
    "LEAST_SQUARE",
    "MISSING",
    "MOST_HASHED",
    "MOST_HIDDEN_USERS",
    "MOST_USERS",
    "UNKNOWN",
    "WIDEST",
    "Cell",
    "Column",
    "Delay",
    "Drop",
    "FrequentFeatures",
    "Hashed",
    "Knots",
    "Learnt",
    "Levels",
    "NumberColumn",
    "Pair",
    "Target",
    "User",
]

#: The default for the users of a stream: at 21 to 33 bytes each about half a gigabyte.
MOST_USERS = 1 << 24
#: The maximum where surplus rows become null rows: the guarantee states how likely two of that many share a keyed hash.
MOST_HIDDEN_USERS = 1 << 28

#: The most numbered features of a sketch, because four bytes of each number are hashed; and the most places.
MOST_HASHED, WIDEST = 1 << 31, 1 << 30

Cell = str | int | float
Pair = tuple[float, float]

# Names of features that stand for no declared level.
MISSING = "(missing)"
UNKNOWN = "(unknown)"

LEAST_SQUARE = Fraction(1, 256)
"""The smallest average contribution of a column to the square of a row's norm."""
# Subtracting the mean rounds once: a square may exceed the computed one by at most this share.
_ROUNDING = 1 + Fraction(1, 2**40)


@dataclass(frozen=True)
class Drop:
    """A column that is not read."""


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers: one feature, and one more for ``missing="indicator"``.

    Attributes
    ----------
    range : (low, high) or None
        Public bounds; cells are clipped to them. None: cells stay as they are.
    onto : (low, high)
        What the range is mapped to.
    scaling : {"linear", "log"}
        "log" maps x to ``log1p(x - low) / log1p(high - low)`` before it is mapped onto ``onto``.
    missing : {"refuse", "zero", "indicator", "nan"} or float
        A number replaces a missing cell, in the units of the column.
    """

    range: Pair | None = None
    onto: Pair = (-1.0, 1.0)
    scaling: str = "linear"
    missing: str | float = "refuse"

    @property
    def largest_square(self) -> Fraction | None:
        """Largest sum of squares that the column adds to a row; None if there is no bound."""
        if self.range is None:
            return None
        square = max(Fraction(end) ** 2 for end in self.onto)
        return max(square, Fraction(1)) if self.missing == "indicator" else square


@dataclass(frozen=True)
class Levels:
    """A column of declared levels: one 0/1 feature a level.

    Attributes
    ----------
    cells : tuple of (cell, level)
        What the cells may hold, and the level of each. Text is compared without surrounding blanks, numbers by value.
    missing, unknown : {"refuse", "zero", "indicator"}
        A missing or an undeclared cell: an error, all zeros, or a feature of its own.
    """

    cells: tuple[tuple[Cell, str], ...]
    missing: str = "indicator"
    unknown: str = "indicator"

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels in the order of their first cells."""
        return tuple(dict.fromkeys(level for _, level in self.cells))


@dataclass(frozen=True)
class Hashed:
    """A column of many values: one 0/1 feature a bucket.

    Attributes
    ----------
    buckets : int
    missing : {"refuse", "zero", "indicator"}
        As for :class:`Levels`.
    kept : tuple of int
        Buckets that have a feature of their own; all others share ``rest`` features. If empty and without a
        ``reference``, every bucket has one.
    rest : int
        With 0, values in other buckets have no feature.
    reference : int, optional
        Bucket without a feature, usually the most frequent one: the other features say how a row differs from those in
        it.
    share : float
        The approximate share of all rows in the reference bucket, 0 to 1; rows are scaled for this share.
    means : tuple of float
        What is subtracted from each feature in every row, 0 to 1: about its mean over all rows. Empty: nothing.
    """

    buckets: int
    missing: str = "indicator"
    kept: tuple[int, ...] = ()
    rest: int = 0
    reference: int | None = None
    share: float = 0.0
    means: tuple[float, ...] = ()

    @property
    def all_own(self) -> bool:
        """Whether every bucket has a feature of its own."""
        return not self.kept and self.reference is None

    @property
    def n_features(self) -> int:
        """How many features the column has."""
        own = self.buckets if self.all_own else len(self.kept) + self.rest
        return own + (self.missing == "indicator")

    @property
    def largest_square(self) -> Fraction:
        """Largest sum of squares that the column adds to a row: a cell has one feature or none."""
        if not self.means:
            return Fraction(1)
        means = [Fraction(mean) for mean in self.means]
        taken = sum(mean * mean for mean in means)
        return max(1 - 2 * min(means) + taken, taken) * _ROUNDING

    @property
    def usual_square(self) -> Fraction:
        """Sum of squares that the column adds to a row, on average, given ``share``."""
        return max(1 - Fraction(self.share), LEAST_SQUARE)


@dataclass(frozen=True)
class Knots:
    """A column of numbers as functions of the number; no cell is refused, and one that is not a number is missing.

    Attributes
    ----------
    knots : tuple of float
        At least 2, ascending; cells are clipped to the outer ones. For times, in seconds since 1970.
    shape : {"cosine", "spline", "linear", "bins", "apart"}
        "cosine": smooth functions first, the cosine basis over the knots; it has one feature fewer than knots, and each
        function sums to 0 over them. "spline": one hat function a knot (they add up to 1). "linear": one feature from
        -1 to 1 between the outer knots. "bins": one indicator an interval. "apart": for a column whose cells are nearly
        all between two knots, which may be one number: an indicator of cells below and one of cells above.
    missing : {"indicator", "zero"}
    timestamp : bool
        Whether cells are dates or times as in ISO 8601; any other cell is missing.
    cycles : tuple of {"day", "week", "year"}
        Each adds cosine and sine of a time's position in it.
    share : float
        For ``shape="apart"``: the approximate share of all rows between the knots, 0 to 1.
    means : tuple of float
        What is subtracted from each feature in every row, -1 to 1: about its mean over all rows. Empty: nothing.
    """

    knots: tuple[float, ...]
    shape: str = "spline"
    missing: str = "indicator"
    timestamp: bool = False
    cycles: tuple[str, ...] = ()
    share: float = 0.0
    means: tuple[float, ...] = ()

    @property
    def n_functions(self) -> int:
        """How many of the features are functions of the number, without cycles and indicator."""
        return {"spline": len(self.knots), "linear": 1, "apart": 2}.get(self.shape, len(self.knots) - 1)

    @property
    def n_features(self) -> int:
        """How many features the column has."""
        return self.n_functions + 2 * len(self.cycles) + (self.missing == "indicator")

    @property
    def largest_square(self) -> Fraction:
        """Largest sum of squares that the column adds to a row."""
        own = cosines.largest_square(len(self.knots)) if self.shape == "cosine" else Fraction(1)
        if not self.means:
            return max(own, Fraction(self.missing == "indicator")) + len(self.cycles)
        n, means = self.n_functions, [Fraction(mean) for mean in self.means]
        flag = means[n + 2 * len(self.cycles) :]
        of_numbers = max(_from_means(corner, means[:n]) for corner in self._corners()) + _square(flag)
        of_none = _square(means[:n]) + sum((1 - mean) ** 2 for mean in flag)
        # the mean of a cycle's features may point away from the time: (1 + m)^2 <= 2 (1 + m^2)
        cycles = sum(
            2 * (1 + _square(pair)) if any(pair) else Fraction(1)
            for pair in (means[at : at + 2] for at in range(n, n + 2 * len(self.cycles), 2))
        )
        return (max(of_numbers, of_none) + cycles) * _ROUNDING

    def _corners(self) -> Iterable[Sequence[Fraction]]:
        """The function values at the points where a convex function of them is largest."""
        n = self.n_functions
        if self.shape == "cosine":
            return ([Fraction(value) for value in row] for row in cosines.at_knots(len(self.knots)).tolist())
        if self.shape == "linear":
            return [Fraction(-1)], [Fraction(1)]
        corners = [[Fraction(i == j) for j in range(n)] for i in range(n)]
        return [*corners, [Fraction(0)] * n] if self.shape == "apart" else corners

    @property
    def usual_square(self) -> Fraction:
        """Sum of squares that the column adds to a row, averaged over numbers between two knots."""
        if self.shape == "cosine":
            return cosines.usual_square(len(self.knots)) + len(self.cycles)
        if self.shape == "apart":
            return max(1 - Fraction(self.share), LEAST_SQUARE) + len(self.cycles)
        return self.crossed_square + len(self.cycles)

    @property
    def crossed_square(self) -> Fraction:
        """The same average for what it contributes to a cross: hat functions or interval indicators, without cycles."""
        return {"linear": Fraction(1, 3), "bins": Fraction(1)}.get(self.shape, Fraction(2, 3))


def _square(values: Iterable[float | Fraction]) -> Fraction:
    return sum((Fraction(value) ** 2 for value in values), Fraction(0))


def _from_means(values: Sequence[Fraction], means: Sequence[Fraction]) -> Fraction:
    return _square(value - mean for value, mean in zip(values, means, strict=True))


@dataclass(frozen=True)
class FrequentFeatures:
    """Rows of numbered features, nearly all 0: some are kept, and each row is scaled to norm at most 1.

    Attributes
    ----------
    features : int
        Features of the rows as they come.
    kept : tuple of int
        Numbers of the kept features, from 0, ascending.
    sketch : int
        Features that all others share by a public hash (:mod:`privol.encoding.sketch`); 0: the others are left out.
    """

    features: int
    kept: tuple[int, ...]
    sketch: int = 0

    @property
    def n_features(self) -> int:
        """How many features the resulting rows have."""
        return len(self.kept) + self.sketch

    @property
    def names(self) -> list[str]:
        """Names of the features: "#17" for feature 17, then "sketch 0", "sketch 1", ..."""
        return [*(f"#{feature}" for feature in self.kept), *(f"sketch {place}" for place in range(self.sketch))]


Column = Drop | NumberColumn | Levels | Hashed | Knots


@dataclass(frozen=True)
class Target:
    """The target: groups of labels, or a real number.

    Attributes
    ----------
    column : str or int
        Name, or 0-based position; a negative one counts from the end.
    negative, positive : tuple of labels
        The labels of both classes, the first of each being the one shown; both empty for a real number.
    rest : {"refuse", "negative", "null"}
        Any other label is an error, negative, or missing, so that the learner's ``on_invalid`` decides. For a real
        target, "null" concerns cells that are not numbers.
    range : (low, high) or None
        For a real target: the range that is mapped to [-1, 1], with clipping.
    classes : tuple of labels or of tuples of labels
        In place of ``negative`` and ``positive``: one entry for each class; the first label of a group is shown.
    """

    column: str | int
    negative: tuple[Cell, ...] = ()
    positive: tuple[Cell, ...] = ()
    rest: str = "refuse"
    range: Pair | None = None
    classes: tuple[tuple[Cell, ...], ...] = ()

    @property
    def labelled(self) -> bool:
        """Whether the target is a label, not a number."""
        return bool(self.positive or self.classes)

    @property
    def labels(self) -> Labels:
        """The encoder of the labels."""
        if self.classes:
            found = Labels.of_classes(self.classes)
        elif not self.positive:
            return Labels(None, None)
        else:
            found = Labels.of_groups(self.negative, self.positive, self.rest == "negative")
        return found.lenient() if self.rest == "null" else found


@dataclass(frozen=True)
class User:
    """The column that identifies the user of a row, how many rows of a user are learnt, and how far apart they are.

    ``surplus`` decides whether other rows are dropped ("drop") or become null rows ("null"). More than ``max_users``
    users are an error.
    """

    column: str | int
    max_rows: int = 1
    separation: int = 1
    surplus: str = "drop"
    max_users: int = MOST_USERS


@dataclass(frozen=True)
class Learnt:
    """What it cost to learn the schema from rows, under Gaussian differential privacy.

    Attributes
    ----------
    rows : int
        The first rows of a table.
    mu : float
        For one row; infinite: without noise.
    adjacency : {"replace", "zero_out"}
    private : bool
        False if the noise came from a known seed.
    If rows were counted by users: the rows of each phase, in order. The cost of a user's rows that teach follows from
    them.
    rows_per_user : int or None
        The most rows of one user in the whole stream; None: nothing is known about users.
    user_separation : int
        Any two of these were at least this many rows apart.
    """

    rows: int
    mu: float
    adjacency: str
    private: bool = True
    phases: tuple[int, ...] = ()
    rows_per_user: int | None = None
    user_separation: int = 1

    @property
    def squares(self) -> tuple[float, ...]:
        """Squared costs of 0, 1, ... rows of one user that teach, rounded up."""
        if self.rows_per_user is None:
            return (0.0,)
        return taught_squares(self.phases, self.mu, self.rows_per_user, self.user_separation)


@dataclass(frozen=True)
class Delay:
    """The column that says which later label belongs to a row, and how many rows may wait for their labels."""

    key: str | int
    window: int
