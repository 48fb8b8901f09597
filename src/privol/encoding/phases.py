"""How many rows teach an encoding, and with how much noise, from public numbers alone.

The row numbers cut the first rows of a stream into four phases, and each row is in only one of them:

========  ==========================================================  =============================================
phase     counts of each row                                          what follows from them
========  ==========================================================  =============================================
labels    the text of the target                                      the labels that are frequent
kinds     one cell a column: missing, text, or a number's exponent     numbers or categories, scale, target's kind
coarse    one cell a column: equally full intervals, or hash buckets   finer intervals
fine      the same                                                    knots and buckets
========  ==========================================================  =============================================

Each row adds one to one cell of each histogram of its phase. Replacing one row moves ``k`` histograms by ``sqrt(2 k)``
(by ``sqrt(k)`` if it becomes a null row), so Gaussian noise of that size over mu makes the phase mu-GDP. If the budget
is for all rows of a user, mu is what one of them may cost (:mod:`privol.encoding.users_taught`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from .._rounding import UP
from .._validate import choice, integer, number
from ..errors import InvalidParameter
from ..guarantees import ADJACENCIES
from .strings import label_deviations
from .users_taught import check_users, factor_of_all, factor_of_phases, squares_of_phases

__all__ = [
    "BELIEVED_BUCKET",
    "BUCKETS",
    "FIRST_TOO_FEW",
    "SHARE_OF_ALL",
    "EncodingPlan",
    "least_count",
    "plan_encoding",
    "plan_features",
]

#: Hash buckets in which the frequent values of a column of categories are looked for.
BUCKETS = 4096
#: In standard deviations of the noise of both phases: of 4,096 buckets of pure noise, one is believed in 70 columns.
BELIEVED_BUCKET = 4.5
#: If a category must be more frequent than this to be detected reliably, the first rows are too few: whether anything
#: of a column is detected is then a matter of luck. All rows may teach instead, for this share of the budget.
#: (docs/encoding.md)
FIRST_TOO_FEW, SHARE_OF_ALL = 0.25, 0.25
_NEARLY_ALWAYS = 1.645  # standard deviations: exceeded in 1 of 20 runs
_ONE_NEARLY_ALWAYS = 3.0  # expected rows, with at least one in 19 of 20 runs
_LABEL_BYTES, _ITERATIONS = 8, 20

# Rows of a phase: this many standard deviations of its noise, or this share of all rows if that is more, up to twenty
# times as many; but never more than the last share.
_LABELS = 225.0, 0.02, 0.1
_LABELS_OF_ALL = 150.0, 0.005, 0.1  # where all rows teach, each phase has many
_KINDS = 60.0, 0.003, 0.03
_COARSE = 80.0, 0.004, 0.045
_FINE = 120.0, 0.006, 0.06
_MORE = 20.0
# How many plans are tried for a budget of all rows of a user: each row's noise decides how many rows teach.
_PLANS = 20
# For rows of numbered features: one phase, before the rows that are learnt.
_FEATURES = 320.0, 0.1, 0.3


@dataclass(frozen=True, kw_only=True)
class EncodingPlan:
    """The cost of learning an encoding, before a row is read. Public.

    Attributes
    ----------
    mu : float
        Parameter of Gaussian differential privacy for one row, of each phase and of all together.
    adjacency : {"replace", "zero_out"}
    columns : int
        Columns to learn, without the target.
    target : bool
        Whether the target is learnt too.
    labels, kinds, coarse, fine : int
        Rows of the phases; 0 if there is nothing to learn.
    features : int
        Rows of the only phase if rows have no columns (:mod:`privol.encoding.frequent`).
    rows_per_user : int or None
        For a budget of all rows of a user: the most rows of one user, wherever in the stream. None: it is for one row.
    user_separation : int
        Any two rows of a user are at least this many rows apart.
    """

    mu: float
    adjacency: str
    columns: int
    target: bool
    labels: int
    kinds: int
    coarse: int
    fine: int
    features: int = 0
    rows_per_user: int | None = None
    user_separation: int = 1

    @property
    def phases(self) -> tuple[tuple[str, int], ...]:
        """Name and rows of each phase that has rows, in order."""
        found = ("labels", self.labels), ("kinds", self.kinds), ("coarse", self.coarse), ("fine", self.fine)
        return tuple(phase for phase in (*found, ("features", self.features)) if phase[1])

    @property
    def rows(self) -> int:
        """Rows of all phases: those before the first row that a learner takes."""
        return sum(rows for _, rows in self.phases)

    def user_factor(self, rows_per_user: int, user_separation: int) -> float:
        """Cost of all rows of a user that teach, as a multiple of the cost of one; rounded up."""
        lengths = [rows for _, rows in self.phases]
        square = squares_of_phases(lengths, rows_per_user, user_separation)[-1]
        root = math.isqrt(square)
        return float(root) if root * root == square else math.sqrt(square) * UP

    @property
    def visible_share(self) -> float:
        """The share of the rows that a category must have to be detected in 19 of 20 runs; above 1 none is.

        For rows without columns it is a share of the votes; a feature gets a row's whole vote only if it is the only
        one.
        """
        if not self.columns:
            return self.noise(1) * (BELIEVED_BUCKET + _NEARLY_ALWAYS) / self.features
        rows, noise = self.coarse + self.fine, math.sqrt(2.0) * self.noise(self.columns + self.target)
        return (least_count(rows, noise) + _NEARLY_ALWAYS * noise) / rows

    @property
    def visible_label_share(self) -> float | None:
        """The share of the rows that a label must have to be found in 19 of 20 runs; None if no labels are looked for.

        It holds for a label of eight printable characters: shorter ones need less, longer ones more.
        """
        if not self.labels:
            return None
        noise = self.noise(1)
        least = label_deviations(_LABEL_BYTES) * noise
        count = least if noise else _ONE_NEARLY_ALWAYS
        for _ in range(_ITERATIONS if noise else 0):  # the number of rows that have it varies by chance, too
            count = least + _NEARLY_ALWAYS * math.hypot(noise, math.sqrt(count))
        return count / self.labels

    def noise(self, histograms: int) -> float:
        """Standard deviation of the noise of histograms in each of which a row counts once, rounded up."""
        return noise_of(histograms, self.mu, self.adjacency)


def least_count(rows: int, noise: float) -> float:
    """Return the count above which a bucket holds a frequent value, given the rows and the deviation of the noise.

    Rows that are all different put ``rows / BUCKETS`` rows into a bucket, with the root of that as standard deviation.
    """
    by_chance = rows / BUCKETS
    return by_chance + BELIEVED_BUCKET * math.sqrt(noise * noise + by_chance)


def noise_of(histograms: int, mu: float, adjacency: str) -> float:
    """Return the standard deviation that makes a number of histograms mu-GDP together, rounded up."""
    if math.isinf(mu):
        return 0.0
    moved = 2 * histograms if adjacency == "replace" else histograms
    return math.sqrt(moved) / mu * UP


def plan_encoding(
    n_rows: int,
    n_columns: int,
    *,
    mu: float,
    adjacency: str = "replace",
    target: bool = True,
    real: bool = False,
    whole: bool = False,
    rows_per_user: int | None = None,
    user_separation: int = 1,
) -> EncodingPlan:
    """Return how many of the rows of a stream teach its encoding.

    Parameters
    ----------
    n_rows : int
        Rows of the whole stream, at least 1.
    n_columns : int
        Columns to learn, at least 1.
    mu : float
        Above 0; infinite: without noise. With ``rows_per_user`` it covers all rows of a user, including those that are
        learnt after the encoding: of k rows, m that teach cost at most the share m / k of its square.
    adjacency : {"replace", "zero_out"}
    target : bool
        Whether the labels, or the range, of a target are learnt too.
    real : bool
        The target is known to be a real number: no rows are spent on labels.
    whole : bool
        All rows are for the encoding, and the phases share them in the same proportions. With ``rows_per_user`` the
        encoding has the whole of mu.
    rows_per_user, user_separation : int
        A user has at most this many rows in the stream (1 to 1024), any two at least this many rows apart. Default: the
        budget is for one row.

    Returns
    -------
    EncodingPlan

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range, or a phase would have no rows.
    """
    n = integer(n_rows=n_rows, at_least=1)
    columns = integer(n_columns=n_columns, at_least=1)
    mu = number(mu=mu, above=0.0, infinite=True)
    choice(ADJACENCIES, adjacency=adjacency)

    def plan(mu: float) -> EncodingPlan:
        noise = noise_of(columns + target, mu, adjacency)
        labelled = target and not real
        rule = _LABELS_OF_ALL if whole else _LABELS
        parts = [_rows(rule, n, noise_of(1, mu, adjacency)) if labelled else 0.0]
        parts += [_rows(rule, n, noise) for rule in (_KINDS, _COARSE, _FINE)]
        if whole:
            parts = [n * part / sum(parts) for part in parts]
        labels, kinds, coarse, fine = map(math.floor, parts)
        if min(labels if labelled else 1, kinds, coarse, fine) < 1:
            raise InvalidParameter(
                f"{n:,} rows are too few to learn an encoding from; declare ranges, levels and labels by a schema"
            )
        shared = {"labels": labels, "kinds": kinds, "coarse": coarse, "fine": fine}
        return EncodingPlan(mu=mu, adjacency=adjacency, columns=columns, target=target, **shared)

    return _of_users(plan, mu, rows_per_user, user_separation, whole)


def plan_features(
    n_rows: int,
    *,
    mu: float,
    adjacency: str = "replace",
    whole: bool = False,
    rows_per_user: int | None = None,
    user_separation: int = 1,
) -> EncodingPlan:
    """Return how many rows of a stream teach which of its numbered features are frequent.

    Parameters and errors as for :func:`plan_encoding`.
    """
    n = integer(n_rows=n_rows, at_least=1)
    mu = number(mu=mu, above=0.0, infinite=True)
    choice(ADJACENCIES, adjacency=adjacency)

    def plan(mu: float) -> EncodingPlan:
        rows = n if whole else math.floor(_rows(_FEATURES, n, noise_of(1, mu, adjacency)))
        if rows < 1:
            raise InvalidParameter(
                f"{n:,} rows are too few to learn from which features are frequent; name them by a schema"
            )
        none = {"labels": 0, "kinds": 0, "coarse": 0, "fine": 0}
        return EncodingPlan(mu=mu, adjacency=adjacency, columns=0, target=False, **none, features=rows)

    return _of_users(plan, mu, rows_per_user, user_separation, whole)


def _of_users(
    plan: Callable[[float], EncodingPlan], mu: float, rows_per_user: int | None, user_separation: int, whole: bool
) -> EncodingPlan:
    """Return the plan from what one row may cost, where ``mu`` is what all rows of a user may cost.

    More noise takes more rows, more of which may be one user's, which needs more noise again: the first plan whose own
    noise suffices is taken. Of k rows, the share 1 / k is always enough.
    """
    rows, apart = check_users(rows_per_user, user_separation)
    if rows is None:
        return plan(mu)
    factor, needed = 0.0, 1.0
    for last in (*(False,) * _PLANS, True):
        factor = factor_of_all(rows) if last else needed
        found = plan(mu / factor)
        needed = factor_of_phases([n for _, n in found.phases], rows, apart, whole=whole)
        if needed <= factor:
            break
    return replace(found, rows_per_user=rows, user_separation=apart)


def _rows(rule: tuple[float, float, float], n: int, noise: float) -> float:
    deviations, share, most = rule
    if noise == 0.0:
        return share * n
    enough = deviations * noise
    return min(most * n, max(enough, min(share * n, _MORE * enough)))
