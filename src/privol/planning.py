"""The meaning of a budget before anything is spent: the noise of every release relative to the signal.

Everything here is public arithmetic, without any data.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ._rounding import up_to_digits
from ._validate import choice, integer
from .calibration import AverageCalibration, RunPlan, epsilon_of
from .errors import InvalidParameter
from .guarantees import WEAK_EPSILON, Guarantee, weaknesses
from .learners import ALL_LEARNERS, OFFLINE_LEARNERS, default_name
from .learners.keeping import promised_by
from .learners.views import derived_of
from .losses import loss_at_zero
from .noise import make_source
from .state import describe_parameters

__all__ = ["Plan", "PlanRow", "Remedy", "UserTrade", "plan"]

#: Noise of a row's score, relative to the largest score: below the first value the signal is clear, above the second it
#: is lost in noise. The scores that tell rows apart are several times smaller than the largest: on Forest Covertype a
#: ratio of 0.015 costs 1 % of accuracy, 0.05 costs 4 %, 0.15 costs 13 % (PIGD, logistic loss, 120,000 rows).
CLEAR, DROWNED = 0.02, 0.1

#: For noise in an objective only a bound is known: the losses' curvature removes about half of it on the tables of
#: docs/offline.md.
_DAMPED = 2.0

_ROWS = 7
_EPOCHS = 4  # shown for a run that outlives its horizon
_MOST_RELEASES = 4_000_000  # a calibration costs time proportional to its releases


@dataclass(frozen=True, kw_only=True)
class PlanRow:
    """The noise of one release. Public.

    Attributes
    ----------
    row : int
        The release comes after this many rows.
    sensitivity : float
        Largest change of the un-noised model by one row, in the L2 norm.
    std : float
        Standard deviation of the noise per coordinate.
    noise_norm : float
        ``std * sqrt(dim)``: root mean square of the noise vector's norm, before projection.
    score_std : float
        ``std * row_bound``: standard deviation of the noise in the score of a row of the largest norm.
    largest_score : float
        ``radius * row_bound``: no model of the feasible set gives such a row a larger score.
    signal_score : float
        The same for models no longer than the regularised optimum can be, ``sqrt(2 phi(0) / l2)``, where that is less.
    """

    row: int
    sensitivity: float
    std: float
    noise_norm: float
    score_std: float
    largest_score: float
    signal_score: float

    @property
    def ratio(self) -> float:
        """``score_std / signal_score``."""
        return self.score_std / self.signal_score


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """A single change of the plan, and its effect on the last release's noise. Public.

    Attributes
    ----------
    parameter : str
    value : float, int or str
    ratio : float
        ``score_std / signal_score`` of the last release after the change.
    cost : str
        The cost of the change.
    """

    parameter: str
    value: Any
    ratio: float
    cost: str


@dataclass(frozen=True, kw_only=True)
class UserTrade:
    """The noise of a budget for all rows of a user, by the number of learnt rows. Public.

    Attributes
    ----------
    rows : int
        Rows of one user that are learnt at most.
    anywhere, spread : float
        Noise of the last release, before the learner adapts to it, as a multiple of that of a budget for one row:
        wherever these rows are, and if any two of them are a ``rows``-th part of all rows apart.
    apart : float or None
        The same at the given distance.
    """

    rows: int
    anywhere: float
    spread: float
    apart: float | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The guarantee of a run and the noise of its releases, beforehand. Public; nothing is spent.

    Attributes
    ----------
    learner : str
    parameters : dict
        The learner's parameters as JSON values.
    n_features, dim, horizon : int
        ``dim`` counts the intercept, and all scores.
    n_classes : int
        2 also for regression.
    guarantee : Guarantee
    rows : tuple of PlanRow
        The first release, some between (log-spaced), the last.
    warnings : tuple of str
        If the budget promises next to nothing (:func:`weaknesses`).
    verdict : str
        One line: signal against noise at the last release.
    remedies : tuple of Remedy
        Computed if the signal is not clear.
    derived : dict
        Parameters that were not given and are computed from public numbers, of offline learners.
    users : tuple of UserTrade
        If users are stated: the cost of more or fewer rows of theirs.
    """

    learner: str
    parameters: dict[str, Any]
    n_features: int
    dim: int
    horizon: int
    n_classes: int
    guarantee: Guarantee
    rows: tuple[PlanRow, ...]
    warnings: tuple[str, ...]
    verdict: str
    remedies: tuple[Remedy, ...]
    derived: dict[str, float] = field(default_factory=dict)
    users: tuple[UserTrade, ...] = ()

    def to_record(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "format": "privol.plan",
            "version": 1,
            "learner": self.learner,
            "parameters": self.parameters,
            "n_features": self.n_features,
            "dim": self.dim,
            "horizon": self.horizon,
            "n_classes": self.n_classes,
            "guarantee": self.guarantee.to_record(),
            "summary": self.guarantee.summary(),
            "sentence": self.guarantee.sentence(),
            "warnings": list(self.warnings),
            "releases": [{**asdict(row), "ratio": row.ratio} for row in self.rows],
            "verdict": self.verdict,
            "remedies": [asdict(remedy) for remedy in self.remedies],
            "derived": self.derived,
            "users": [asdict(trade) for trade in self.users],
        }

    def to_json(self) -> str:
        """Return the plan as JSON text."""
        return json.dumps(self.to_record(), allow_nan=False)

    def text(self) -> str:
        """Return the plan as plain text."""
        head = (
            f"{'after row':>12} {'sensitivity':>12} {'noise std':>11} {'noise norm':>11} "
            f"{'noise in score':>15} {'largest score':>14}"
        )
        lines = [
            f"Guarantee: {self.guarantee.summary()}",
            *(f"WARNING: {words}" for words in self.warnings),
            "",
            f"{self.extent}:",
            head,
        ]
        lines += [
            f"{r.row:>12,} {r.sensitivity:>12.4g} {r.std:>11.4g} {r.noise_norm:>11.4g} {r.score_std:>15.4g} "
            f"{r.largest_score:>14.4g}"
            for r in self.rows
        ]
        lines += ["", self.verdict, *([describe_derived(self.derived)] if self.derived else [])]
        if self.remedies:
            lines.append("Any one of these changes alone (public, made before the run):")
            lines += [f"  {describe_remedy(r)}" for r in self.remedies]
        if self.users:
            lines += ["", self.about_users, *(f"  {words}" for words in map(self.describe_user, self.users))]
        lines += ["", self.guarantee.sentence()]
        return "\n".join(lines)

    @property
    def about_users(self) -> str:
        """The description of :attr:`users`."""
        return (
            "Noise of a budget for all rows of one user, in multiples of that for one row, by how many of them are "
            "learnt (rows_per_user) and how far apart they are (user_separation). More of them pay only where they "
            "make the rows that are learnt more than as many times as many:"
        )

    def describe_user(self, trade: UserTrade) -> str:
        """Return the cost of a user's rows as a line of text."""
        rows = "1 row" if trade.rows == 1 else f"{trade.rows:,} rows"
        given = self.guarantee.user_separation
        apart = "" if trade.apart is None else f"{trade.apart:.3g} if {given:,} rows apart or more, "
        spread = max(self.horizon // trade.rows, 1)
        return f"{rows}: {trade.anywhere:.3g} anywhere, {apart}{trade.spread:.3g} if {spread:,} rows apart or more"

    @property
    def extent(self) -> str:
        """The numbers of releases, rows and coordinates, in words."""
        if self.parameters.get("renewal", "none") != "none":
            return f"the first {_EPOCHS} epochs, the first of {self.horizon:,} rows, {self.dim} coordinates"
        return f"{self.guarantee.releases:,} release(s) over {self.horizon:,} rows, {self.dim} coordinates"

    def __str__(self) -> str:
        return self.text()


def describe_derived(derived: Mapping[str, float]) -> str:
    """Return the parameters that were computed from public numbers as one line of text."""
    figures = ", ".join(f"{name} = {value:.6g}" for name, value in derived.items())
    return f"By rule, from rows, features, budget and bounds: {figures}"


def describe_remedy(remedy: Remedy, *, option: bool = False) -> str:
    """Return a remedy as one line of text, in terms of Python or, with ``option``, of the command line."""
    change = f"{remedy.parameter}={remedy.value!r}"
    if option:
        change = f"--{remedy.parameter.replace('_', '-')} {remedy.value}"
    return f"{change}: noise {_share(remedy.ratio)} the largest score ({remedy.cost})"


def _share(ratio: float) -> str:
    return f"{100 * ratio:.3g} % of" if ratio < 10 else f"{ratio:,.0f} times"


def noise_row(calibration: RunPlan, row: int, *, early: bool = False) -> PlanRow:
    """Return the noise of a release after ``row``; ``early``: it is the only release, of a run that ends there."""
    problem = calibration.problem
    radius = problem.radius
    at_zero = problem.weight * loss_at_zero(problem.loss, max(problem.outputs, 2), problem.y_bound)
    # mean strong convexity up to this row; the optimum's regulariser is at most the loss of the zero model
    l2 = calibration.convexity(row)
    reach = math.sqrt(2.0 * at_zero / l2) if l2 > 0.0 else math.inf
    std = calibration.last_std(row) if early else calibration.std(row)
    return PlanRow(
        row=row,
        sensitivity=calibration.sensitivity(row),
        std=std,
        noise_norm=std * math.sqrt(problem.dim),
        score_std=std * calibration.row_bound,
        largest_score=radius * calibration.row_bound,
        signal_score=min(radius, reach) * calibration.row_bound,
    )


def noise_of_fit(calibration: Any, *, n: int, x_bound: float, intercept: bool) -> PlanRow:
    """Return the noise of the one release of an offline learner.

    Parameters
    ----------
    calibration : OutputCalibration, ObjectiveCalibration or AverageCalibration
    n : int
        Rows.
    x_bound, intercept
        Of the learner.

    Notes
    -----
    Of noise in the objective these are bounds: b moves the model by ``b / l2_sum`` at most. No vector that is released
    has a sensitivity then; in its place is the bound of the solver's error.
    """
    dim = calibration.iterates.problem.dim if hasattr(calibration, "iterates") else calibration.dim
    longest = math.hypot(float(x_bound), float(intercept))
    inside = in_objective(calibration)
    scale = calibration.scale / calibration.l2_sum + calibration.final_scale if inside else calibration.scale
    std = scale * (math.sqrt(dim + 1.0) if calibration.law == "l2_laplace" else 1.0)
    reach = math.inf if calibration.ball is None else calibration.ball
    return PlanRow(
        row=n,
        sensitivity=calibration.error if inside else calibration.sensitivity,
        std=std,
        noise_norm=std * math.sqrt(dim),
        score_std=std * longest,
        largest_score=reach * longest,
        signal_score=reach * longest,
    )


def in_objective(calibration: Any) -> bool:
    """Whether the noise of a fit is in the objective."""
    return hasattr(calibration, "final_scale")


def drowned_fit(calibration: Any, row: PlanRow) -> str | None:
    """Return the verdict on a fit whose noise hides the signal, else ``None``."""
    verdict, _ = _verdict_of_fit(calibration, row)
    return verdict if verdict.startswith("NOISE") else None


def _verdict_of_fit(calibration: Any, row: PlanRow) -> tuple[str, bool]:
    if row.std == 0.0 or not math.isfinite(row.signal_score):
        return _verdict((row,), math.inf) if row.std == 0.0 else ("how large models are is not bounded", True)
    inside = in_objective(calibration)
    return _verdict((row,), calibration.ball, damped=_DAMPED if inside else 1.0)


def _plan_of_fit(
    learner: str, kind: Any, n_features: int, n: int, n_classes: int, params: Mapping[str, Any], users: Any
) -> Plan:
    """Plan of a learner that sees all rows at once."""
    made: Any = kind(**params)
    calibration = made.calibrate(n_features, n, n_classes)
    source = None if calibration.law == "none" else make_source(made.random_state)
    guarantee = made.guarantee_of(calibration, n, source)
    if users is not None:
        guarantee = promised_by(users, guarantee, calibration if isinstance(calibration, AverageCalibration) else None)

    def row_of(n: int = n, **changes: Any) -> PlanRow:
        changed = kind(**{**params, **changes})
        found = changed.calibrate(n_features, n, n_classes)
        return noise_of_fit(found, n=n, x_bound=changed.x_bound, intercept=bool(changed.fit_intercept))

    row = row_of()
    verdict, clear = _verdict_of_fit(calibration, row)
    remedies: list[tuple[str, Any, float, str]] = []
    if not clear:
        if (more := _search(lambda v: row_of(n=math.ceil(v)).ratio, float(n), 2.0, 20)) is not None:
            rows = math.ceil(more)
            remedies.append(("horizon", rows, row_of(n=rows).ratio, f"{rows / n:.3g} times the rows"))
        epsilon = _search(lambda v: row_of(epsilon=v).ratio, float(made.epsilon), 2.0, 16)
        if epsilon is not None and epsilon <= WEAK_EPSILON:
            remedies.append(("epsilon", epsilon, row_of(epsilon=epsilon).ratio, "less privacy"))
    return Plan(
        learner=learner,
        parameters=describe_parameters(made),
        n_features=int(n_features),
        dim=calibration.iterates.problem.dim if hasattr(calibration, "iterates") else calibration.dim,
        horizon=int(n),
        n_classes=n_classes,
        guarantee=guarantee,
        rows=(row,) if math.isfinite(row.largest_score) else (),
        warnings=tuple(weaknesses(guarantee, rows=n)),
        verdict=verdict,
        remedies=tuple(Remedy(parameter=a, value=b, ratio=c, cost=d) for a, b, c, d in remedies),
        derived=derived_of(calibration),
    )


def plan(
    learner: str | None = None,
    *,
    n_features: int,
    horizon: int,
    n_classes: int = 2,
    users: Any = None,
    **params: Any,
) -> Plan:
    """Return the guarantee of a run and the noise that it needs, before anything is spent.

    Parameters
    ----------
    learner : str, optional
        A name of :data:`privol.learners.LEARNERS`, or of :data:`privol.learners.OFFLINE_LEARNERS`, which see all rows
        at once. Default: ``"adaptive"``; if a parameter is given that it chooses itself, ``"pqftl"`` for squared
        loss and ``"dpftrl"`` for the others.
    n_features : int
        Features of a row, at least 1, the intercept not counted.
    horizon : int
        Rows, at least 1.
    n_classes : int, default=2
        Classes, more than two for ``"adaptive"``, ``"dpftrl"`` and offline minimisers; without effect on
        regression.
    users : optional
        What the stream enforces for its users: an object with ``rows_per_user``, and optionally ``user_separation`` and
        ``user``, such as a stream.
    **params
        Parameters of the learner: ``epsilon``, ``delta``, ``release``, ``l2``, ``radius``, ``x_bound``, ...

    Returns
    -------
    Plan
        ``print`` it, or take its rows.

    Raises
    ------
    InvalidParameter
        As the learner would when it starts.

    Examples
    --------
    >>> import privol
    >>> plan = privol.plan("pigd", n_features=54, horizon=581_012, epsilon=1.0, delta=1e-6, release="last")
    >>> plan.rows[-1].row
    581012
    """
    learner = default_name(params.get("loss", "logistic"), params) if learner is None else learner
    kind: Any = ALL_LEARNERS[choice(tuple(ALL_LEARNERS), learner=learner)]
    unknown = sorted(set(params) - set(kind().get_params(deep=False)))
    if unknown:
        raise InvalidParameter(f"{learner} has no parameter {', '.join(unknown)}")
    made: Any = kind(**params)
    if "mu" in made.get_params(deep=False):  # remedies ask for more epsilon
        params = {**params, "mu": None, "epsilon": epsilon_of(made)}
        made = kind(**params)
    n_classes = integer(n_classes=n_classes, at_least=2)
    if learner in OFFLINE_LEARNERS:
        n = integer(horizon=horizon, at_least=1)
        return _plan_of_fit(learner, kind, n_features, n, n_classes, params, users)
    calibration: RunPlan = made.calibrate(n_features, horizon, n_classes=n_classes)
    dim, radius = calibration.problem.dim, calibration.problem.radius
    if math.isinf(radius):
        raise InvalidParameter(
            f"{kind.__name__} has no plan where all models are allowed: the rows decide how large models and "
            "their noise become; regret_bound() bounds the regret"
        )
    guarantee = made.guarantee_of(
        calibration, private=made.random_state is None, bit_source=make_source(made.random_state).description
    )
    if users is not None or guarantee.unit == "user":  # their conditions depend on who keeps the rows apart
        guarantee = promised_by(users, guarantee, calibration)
    rows = tuple(noise_row(calibration, t, early=early) for t, early in _shown_rows(calibration))
    verdict, clear = _verdict(rows, radius)

    def last(n: int = horizon, **changes: Any) -> PlanRow:
        changed: Any = kind(**{**params, **changes})
        found = changed.calibrate(n_features, n, n_classes=n_classes)
        row, early = _shown_rows(found)[-1]
        return noise_row(found, row, early=early)

    remedies = () if clear else tuple(_remedies(made, calibration, horizon, rows[-1].ratio, last))
    return Plan(
        learner=learner,
        parameters=describe_parameters(made),
        n_features=int(n_features),
        dim=dim,
        horizon=int(horizon),
        n_classes=n_classes,
        guarantee=guarantee,
        rows=rows,
        warnings=tuple(weaknesses(guarantee, rows=horizon)),
        verdict=verdict,
        remedies=remedies,
        users=_trades(kind, params, guarantee, n_features, horizon, n_classes),
    )


def _trades(
    kind: Any, params: Mapping[str, Any], guarantee: Guarantee, n_features: int, horizon: int, n_classes: int
) -> tuple[UserTrade, ...]:
    """The cost of a budget for users, for learners that have one, if users are mentioned."""
    given, apart = guarantee.rows_per_user, guarantee.user_separation
    if given is None or guarantee.kind != "gdp" or "rows_per_user" not in kind().get_params(deep=False):
        return ()

    def noise(rows: int, separation: int) -> float:
        made = kind(**{**params, "rows_per_user": rows, "user_separation": separation})
        found = made.calibrate(n_features, horizon, n_classes=n_classes)
        if found.epochs is not None:
            return float(found.sums.std(found.sums.factorization.steps))
        return float(getattr(found, "sigma", None) or found.last_std(horizon))

    one = noise(1, 1)
    return tuple(
        UserTrade(
            rows=rows,
            anywhere=noise(rows, 1) / one,
            spread=noise(rows, max(horizon // rows, 1)) / one,
            apart=noise(rows, apart) / one if apart > 1 else None,
        )
        for rows in sorted({1, 2, 4, 8, 16, 32, given})
        if rows <= max(4 * given, 4) and rows <= horizon
    )


def _shown_rows(calibration: RunPlan) -> list[tuple[int, bool]]:
    """Some release rows and the last one, each with a flag for the release of a run that ends there.

    For a run that outlives its horizon and releases only the last model: the releases of runs that end with an epoch.
    """
    releases, count = calibration.releases, calibration.releases.count
    if calibration.epochs is not None and calibration.epochs.renewal != "none":
        ends = [calibration.epochs.start(k + 1) for k in range(_EPOCHS)]
        if releases.only_last:
            return [(row, True) for row in ends]
        count = ends[-1] // releases.every if releases.every else int(np.searchsorted(releases.rows, ends[-1], "right"))
    if not count:
        return []
    at = np.unique(np.geomspace(1, count, min(_ROWS, count)).round().astype(np.int64))
    return [(int(releases.every * k if releases.every else releases.rows[k - 1]), False) for k in at]


def drowning(last: PlanRow, radius: float) -> str | None:
    """Return the verdict of a plan on its last release if noise hides the signal, else ``None``."""
    return _verdict((last,), radius)[0] if last.ratio > DROWNED else None


def _verdict(rows: tuple[PlanRow, ...], radius: float, *, damped: float = 1.0) -> tuple[str, bool]:
    """One line about the last release, and whether its signal is clear; ``damped``: a factor that lowers noise."""
    if not rows:
        return "nothing is released", True
    last = rows[-1]
    if last.std == 0.0:
        return "no noise: the releases are exact, and nothing is guaranteed", True
    # Projecting a noise vector much longer than the radius leaves the model's direction to chance.
    figures = (
        f"at the last release the noise moves a row's score by {'at most ' * (damped > 1.0)}{_share(last.ratio)} the "
        "largest score "
        f"(one standard deviation), and the noise vector is {last.noise_norm / radius:.3g} times the radius long"
    )
    if last.ratio <= CLEAR * damped:
        return f"SIGNAL: {figures}", True
    if last.ratio <= DROWNED * damped:
        return f"SIGNAL AND NOISE: {figures}", False
    return f"NOISE: {figures}; do not expect it to beat a constant (the majority class, the mean of the targets)", False


def _search(ratio: Callable[[float], float], start: float, factor: float, steps: int) -> float | None:
    """Least value of three digits above ``start`` that reaches CLEAR; ``None`` if ``steps`` steps do not."""
    low, high = start, start
    for _ in range(steps):
        low, high = high, high * factor
        try:
            if ratio(high) <= CLEAR:
                break
        except InvalidParameter:  # some randomizers have a largest epsilon
            return None
    else:
        return None
    while high / low > 1.005:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if ratio(middle) <= CLEAR else (middle, high)
    return up_to_digits(high, 3)


def _remedies(made: Any, calibration: RunPlan, horizon: int, now: float, last: Callable[..., PlanRow]) -> list[Remedy]:
    """Single changes that reduce the noise to CLEAR; fewer releases and another noise shape go as far as they can."""
    found: list[Remedy] = []
    releases = calibration.releases
    tight = getattr(made, "calibration", "tight") == "tight"
    paid = hasattr(made, "noise_shape")  # the releases have a cost

    def add(parameter: str, value: Any, then: float, cost: str) -> None:
        if then < now:
            found.append(Remedy(parameter=parameter, value=value, ratio=then, cost=cost))

    if paid and releases.count > 1:
        fewer = max(horizon // 10, 1)
        if releases.every and releases.every < fewer:
            add("release", fewer, last(release=fewer).ratio, f"ten models instead of {releases.count:,}")
        add("release", "last", last(release="last").ratio, "one model, at the end")
        if tight and made.noise_shape != "paper":
            add("noise_shape", "paper", last(noise_shape="paper").ratio, "more noise in the early releases")

    if tight and hasattr(made, "l2"):
        l2 = _search(lambda v: last(l2=v).ratio, made.l2 or 1e-6, 2.0, 24)
        # a score below 1 hardly separates the classes
        if l2 is not None and last(l2=l2).signal_score >= 1.0:
            add("l2", l2, last(l2=l2).ratio, "a model drawn closer to 0")

    if releases.every or releases.only_last:
        most = (1 << 20) if releases.only_last else _MOST_RELEASES // releases.count
        n = _search(lambda v: last(n=math.ceil(v)).ratio, float(horizon), 2.0, int(math.log2(max(most, 1))))
        if n is not None:
            rows = math.ceil(n)
            add("horizon", rows, last(n=rows).ratio, f"{rows / horizon:.3g} times the rows")

    stated = made.epsilon is not None  # otherwise the noise is stated
    epsilon = _search(lambda v: last(epsilon=v).ratio, made.epsilon, 2.0, 16) if stated else None
    if epsilon is not None and epsilon <= WEAK_EPSILON:
        add("epsilon", epsilon, last(epsilon=epsilon).ratio, "less privacy")
    return found
