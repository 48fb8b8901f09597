"""Audits: a claim, and what many runs on two neighbouring streams prove against it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .._validate import choice, integer, number
from .._vocabulary import STATISTICS
from ..errors import InvalidParameter
from ..guarantees import format_up, gdp_epsilon
from ..learners import TABLE, NetworkLearner, OfflineLearner, OnlineLearner
from ._bounds import FloatArray, bounds, fit_direction, gaussian_mu_lower
from ._cases import PREFIX_PARAMETERS, Case, LearnerCase, PrefixCase, worst_learner
from ._network import NETWORKS, NetworkCase, networking
from ._of_users import PrefixUserCase, UserCase
from ._offline import OFFLINE, OfflineCase, worst_offline
from ._reports import REPORTERS, ReportCase, reporting

__all__ = ["MECHANISMS", "STATISTICS", "Audit", "audit", "audit_black_box"]

#: Names of what can be audited.
MECHANISMS: tuple[str, ...] = (*(entry.name for entry in TABLE), "prefix")


_FITTED_ON = 20_000  # a statistic is fitted on at most this many runs
_LEAST_RUNS = 200


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A claim, and the lower bounds that runs on two neighbouring streams prove. Every lower bound is rounded down.

    A lower bound above the claim refutes it, up to the confidence. One below it proves nothing in its favour.

    Attributes
    ----------
    learner : str
        The audited learner, with its main parameters.
    adjacency : str
        How the two streams differ; "" for a mechanism of the caller's.
    epsilon, delta : float
        The claim.
    mu : float or None
        The claim in Gaussian differential privacy. None: the claim is of another kind (a pure epsilon, a source's,
        or the caller's).
    proved_mu : float or None
        The proved mu of this noise: ``mu``, unless a source claims something else. None: nothing is known.
    proved_epsilon : float or None
        The same if the guarantee is an epsilon, pure or at that one delta: for offline learners, and for DOLA with the
        source's Laplace noise.
    epsilon_lower : float
        Lower bound of epsilon at ``delta``. It assumes only that the runs are independent, and so does the next:
    mu_lower : float
        Lower bound of mu of Gaussian differential privacy.
    gaussian_mu_lower, gaussian_epsilon_lower : float or None
        The same, **assuming** that the statistic is Gaussian with the same standard deviation on both streams. This
        holds by construction, except for the rounding to a lattice, which can only hide information. None if it is not
        known to hold.
    confidence : float
        Confidence with which each bound holds on its own.
    runs : int
        Experiments on each of the two streams.
    width : int
        Experiments in one run of the learner, on rows and coordinates of their own.
    statistic : str
        "likelihood ratio", "fitted" (the best linear one of the first half of the runs) or "given" (a number).
    attainable : float or None
        mu that the statistic would prove with more and more runs.
    noise : float
        Factor of the audited runs' noise relative to the claim's; ``proved_mu`` is for 1.
    """

    learner: str
    adjacency: str
    epsilon: float
    delta: float
    mu: float | None
    proved_mu: float | None
    epsilon_lower: float
    mu_lower: float
    gaussian_mu_lower: float | None
    gaussian_epsilon_lower: float | None
    confidence: float
    runs: int
    width: int
    statistic: str
    attainable: float | None
    noise: float
    proved_epsilon: float | None = None

    @property
    def ratio(self) -> float:
        """Proved share of the claim: ``mu_lower / mu``; without mu the larger bound on epsilon over epsilon."""
        if self.mu is not None:
            return self.mu_lower / self.mu
        return max(self.epsilon_lower, self.gaussian_epsilon_lower or 0.0) / self.epsilon

    @property
    def exceeded_by(self) -> tuple[str, ...]:
        """Names of the bounds that are above the claim: "epsilon", "mu", "gaussian"."""
        found = []
        if self.epsilon_lower > self.epsilon:
            found.append("epsilon")
        if self.mu is not None and self.mu_lower > self.mu:
            found.append("mu")
        if self.gaussian_mu_lower is not None and self.gaussian_epsilon_lower is not None:
            over = self.gaussian_epsilon_lower > self.epsilon if self.mu is None else self.gaussian_mu_lower > self.mu
            if over:
                found.append("gaussian")
        return tuple(found)

    def sentence(self) -> str:
        """Return the audit as plain text."""
        claim = f"(epsilon, delta) = ({format_up(self.epsilon)}, {format_up(self.delta)})"
        if self.mu is not None:
            claim += f", {format_up(self.mu)}-GDP"
        found = f"epsilon >= {_down(self.epsilon_lower)} at that delta, mu >= {_down(self.mu_lower)}"
        if self.gaussian_mu_lower is not None and self.gaussian_epsilon_lower is not None:
            found += (
                f"; if the statistic is Gaussian, mu >= {_down(self.gaussian_mu_lower)}, which is epsilon >= "
                f"{_down(self.gaussian_epsilon_lower)}"
            )
        where = f", adjacency {self.adjacency!r}" if self.adjacency else ""
        noise = "" if self.noise == 1.0 else f" with {self.noise:g} times its noise"
        verdict = "Nothing here contradicts the claim (which does not prove it)."
        if self.exceeded_by:
            names = {"epsilon": "epsilon", "mu": "mu", "gaussian": "the Gaussian bound"}
            verdict = f"THE CLAIM IS REFUTED by {' and '.join(names[name] for name in self.exceeded_by)}."
        return (
            f"{self.learner}{where}{noise}: claimed {claim}; {self.runs:,} runs on each of two neighbouring streams "
            f"prove, each with confidence {self.confidence:.10g}: {found}. {verdict}"
        )

    def to_record(self) -> dict[str, Any]:
        """Return the audit as JSON values; the word "inf" stands for infinity."""
        figures = {**asdict(self), "ratio": self.ratio, "exceeded_by": list(self.exceeded_by)}
        record = {name: "inf" if value == math.inf else value for name, value in figures.items()}
        return {"format": "privol.audit", "version": 1, **record}

    def to_json(self) -> str:
        """Return the audit as JSON text."""
        return json.dumps(self.to_record(), allow_nan=False)


def _down(x: float) -> str:
    """Four digits, rounded down."""
    if not x or math.isinf(x):
        return f"{x:g}"
    digits = 3 - math.floor(math.log10(x))
    return f"{math.floor(x * 10.0**digits) / 10.0**digits:.4g}"


def audit(
    learner: str | OnlineLearner | OfflineLearner,
    *,
    runs: int = 100_000,
    confidence: float = 0.99,
    steps: int = 8,
    statistic: str = "auto",
    noise: float = 1.0,
    random_state: int | None = None,
    user_places: Sequence[int] | None = None,
    **parameters: Any,
) -> Audit:
    """Try to refute what a learner claims, by many runs on two neighbouring streams.

    Parameters
    ----------
    learner : str, OnlineLearner or OfflineLearner
        A name of :data:`MECHANISMS` runs with streams and parameters that attain the claim, as far as these are
        known; "prefix" is :class:`privol.prefix.PrefixSum`. A learner runs with its own parameters, and rows that
        move it far; one that sees reports alone gets gradients (values) beyond their bound. Nothing is spent in its
        ledger.
    runs : int, default=100000
        On each of the two streams, at least 200.
    confidence : float, default=0.99
        Of each lower bound on its own, at least 0.5, below 1.
    steps : int, default=8
        Steps of a run, for learners that perturb running sums, or that release all rows; a given horizon takes
        precedence. For offline learners: rows of a data set.
    statistic : {"auto", "fitted"}, default="auto"
        "auto": the likelihood ratio where it is known. "fitted": the best linear statistic of the first half of the
        runs, which sees mistakes that the likelihood ratio of the right mechanism may overlook.
    noise : float, default=1.0
        Factor of the noise, above 0: below 1 a good audit refutes the claim, which shows its power. Of randomizers
        whose noise has no scale ("privunit", "duchi"): reports of ``epsilon / noise``.
    random_state : None or int
        Of the noise. None: keys from the operating system.
    user_places : sequence of int, optional
        For a learner with ``rows_per_user``: numbers from 1 of the rows in which the two streams differ. With more rows
        than a user may have, or nearer ones, the claim does not hold, and is refuted. Default: the
        worst pattern of a user, found by exhaustive search.
    **parameters
        Of the named learner, such as ``epsilon``, ``adjacency``, ``design``, ``release``, ``calibration``,
        ``randomizer``, ``rows_per_user``, ``user_separation``. Of "prefix": epsilon, delta, adjacency, design,
        buffers, bandwidth, objective, bound, leaf, calibration.

    Returns
    -------
    Audit

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range, or there is nothing to audit (no noise).

    Notes
    -----
    The runs are those of the compiled learner, each with a noise key of its own. Where rows can lie along coordinates
    that do not affect each other, a run is ``width`` experiments; they are independent because the noise's
    coordinates are, which other tests check. For a learner that sees reports alone every row of a run is an experiment:
    everything that depends on it follows from its report, which has noise of its own. For nodes that learn together
    every node of a round is one, with the messages of that round and of later ones. For an offline learner every fit is
    one, and the likelihood ratio of noise in the objective includes the determinant of the Hessian. Thresholds (and
    fits) are chosen on one half of the runs and judged on the other.

    Examples
    --------
    >>> from privol.audit import audit
    >>> found = audit("dpftrl", epsilon=4.0, delta=1e-5, runs=20_000, random_state=1)
    >>> 0.8 < found.ratio < 1.0, found.exceeded_by
    (True, ())
    """
    runs = integer(runs=runs, at_least=_LEAST_RUNS)
    confidence = number(confidence=confidence, at_least=0.5, below=1.0)
    noise = number(noise=noise, above=0.0, at_most=1e6)
    steps = integer(steps=steps, at_least=1, at_most=4096)
    choice(STATISTICS, statistic=statistic)
    state = None if random_state is None else np.random.default_rng(integer(random_state=random_state, at_least=0))
    case = _case(learner, parameters, steps, noise, state, user_places)
    fitted = case.weights is None or statistic == "fitted"
    samples = _sampled(case, runs, fitted)
    half = runs // 2
    train, test = (samples[0][:half], samples[1][:half]), (samples[0][half:], samples[1][half:])
    found = bounds(train, test, delta=case.delta, confidence=confidence)
    gaussian = None
    if case.weights is not None and case.gaussian:
        gaussian = gaussian_mu_lower(*(test if fitted else samples), confidence=confidence)
    return Audit(
        learner=case.title,
        adjacency=case.adjacency,
        epsilon=case.epsilon,
        delta=case.delta,
        mu=case.mu,
        proved_mu=case.proved_mu,
        epsilon_lower=found.epsilon,
        mu_lower=found.mu,
        gaussian_mu_lower=gaussian,
        gaussian_epsilon_lower=None if gaussian is None else gdp_epsilon(gaussian, case.delta) * (1.0 - 1e-12),
        confidence=confidence,
        runs=runs,
        width=case.width,
        statistic="fitted" if fitted else "likelihood ratio",
        attainable=case.attainable,
        noise=noise,
        proved_epsilon=case.proved_epsilon,
    )


def _case(
    learner: str | OnlineLearner | OfflineLearner,
    parameters: dict[str, Any],
    steps: int,
    noise: float,
    state: Any,
    places: Sequence[int] | None,
) -> Case:
    of_users = (parameters if isinstance(learner, str) else vars(learner)).get("rows_per_user") is not None
    if places is not None and not of_users:
        raise InvalidParameter("user_places needs rows_per_user")

    def of_learner(made: OnlineLearner) -> Case:
        words: dict[str, Any] = {"steps": steps, "noise": noise, "random_state": state}
        return UserCase(made, places=places, **words) if of_users else LearnerCase(made, **words)

    if isinstance(learner, (OnlineLearner, OfflineLearner)):
        if parameters:
            raise InvalidParameter(f"a learner has its own parameters: {', '.join(parameters)} must be set there")
        if isinstance(learner, OfflineLearner):
            return OfflineCase(learner, rows=steps, noise=noise, random_state=state, places=places)
        if isinstance(learner, NetworkLearner):
            return NetworkCase(learner, by_rows=False, noise=noise, random_state=state)
        if isinstance(learner, tuple(REPORTERS.values())):
            return ReportCase(learner, by_rows=False, noise=noise, random_state=state)
        return of_learner(learner)
    name = choice(MECHANISMS, learner=learner)
    if name in REPORTERS:
        reporter, by_rows = reporting(name, parameters)
        return ReportCase(reporter, by_rows=by_rows, noise=noise, random_state=state)
    if name in NETWORKS:
        network, by_rows = networking(name, parameters)
        return NetworkCase(network, by_rows=by_rows, noise=noise, random_state=state)
    if name in OFFLINE:
        made = worst_offline(name, parameters)
        return OfflineCase(made, rows=steps, noise=noise, random_state=state, places=places)
    if name != "prefix":
        return of_learner(worst_learner(name, parameters))
    wrong = ", ".join(sorted(set(parameters) - set(PREFIX_PARAMETERS)))
    if wrong:
        raise InvalidParameter(f"'prefix' has no parameter {wrong}: it has {', '.join(PREFIX_PARAMETERS)}")
    words: dict[str, Any] = {"steps": steps, "noise": noise, "random_state": state}
    if of_users:
        return PrefixUserCase(places=places, **words, **parameters)
    parameters = {name: value for name, value in parameters.items() if name != "rows_per_user"}
    if "user_separation" in parameters:
        raise InvalidParameter("user_separation needs rows_per_user")
    return PrefixCase(**words, **parameters)


def _sampled(case: Case, runs: int, fitted: bool) -> tuple[FloatArray, FloatArray]:
    """Values of the statistic on both streams, ``runs`` each."""
    weights: FloatArray = np.zeros(case.size)
    each = case.width * case.repeats
    kept: list[list[FloatArray]] = [[], []]
    if fitted:
        first = min(_FITTED_ON, runs // 2)
        kept = [[case.run(world) for _ in range(-(-first // each))] for world in (0, 1)]
        weights = fit_direction(*(np.concatenate(found)[:first] for found in kept))

    def statistic(series: FloatArray) -> FloatArray:
        return np.asarray(series @ weights) if fitted else case.ratio(series)

    values = []
    for world in (0, 1):
        found = [statistic(series) for series in kept[world]]
        found += [statistic(case.run(world)) for _ in range(-(-runs // each) - len(found))]
        values.append(np.concatenate(found)[:runs])
    return values[0], values[1]


def audit_black_box(
    mechanism: Callable[[Any], Any],
    first: Any,
    second: Any,
    *,
    epsilon: float | None = None,
    delta: float,
    mu: float | None = None,
    runs: int = 2000,
    confidence: float = 0.99,
    name: str = "black box",
) -> Audit:
    """Try to refute the claim of any mechanism, by many calls on two neighbouring streams.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(stream)`` returns the release, a number or a vector of fixed length; every call draws fresh
        noise.
    first, second : object
        The two streams, passed unchanged. The nearer to the worst pair, the stronger the audit.
    epsilon, delta : float
        The claim; epsilon may be left out if ``mu`` is given.
    mu : float, optional
        The claim in Gaussian differential privacy.
    runs : int, default=2000
        Calls on each stream, at least 200.
    confidence : float, default=0.99
        Of each lower bound on its own.
    name : str
        For the sentence.

    Returns
    -------
    Audit
        For a vector: with the linear statistic that best separates the first halves of the calls.

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range, or a release is not finite or changes its length.

    Examples
    --------
    >>> import numpy as np
    >>> from privol.audit import audit_black_box
    >>> rng = np.random.default_rng(0)
    >>> def noisy_mean(rows):  # of 10 rows in [0, 1], with the noise of a claim that forgets a factor of 4
    ...     return np.mean(rows) + rng.laplace(scale=1 / 40)
    >>> found = audit_black_box(noisy_mean, np.zeros(10), np.eye(10)[0], epsilon=1.0, delta=0.0, runs=20_000)
    >>> found.exceeded_by
    ('epsilon',)
    """
    runs = integer(runs=runs, at_least=_LEAST_RUNS)
    confidence = number(confidence=confidence, at_least=0.5, below=1.0)
    delta = number(delta=delta, at_least=0.0, below=1.0)
    mu = None if mu is None else number(mu=mu, above=0.0)
    if epsilon is None and (mu is None or delta == 0.0):
        raise InvalidParameter("epsilon must be given, or mu and a delta above 0")
    claimed = gdp_epsilon(mu, delta) if epsilon is None and mu is not None else number(epsilon=epsilon, above=0.0)
    calls: tuple[list[FloatArray], list[FloatArray]] = ([], [])
    for _ in range(runs):
        for stream, kept in zip((first, second), calls, strict=True):  # in turn, so that any drift affects both
            kept.append(np.array(mechanism(stream), dtype=np.float64).ravel())
    size = len(calls[0][0])
    if size == 0 or any(len(released) != size for kept in calls for released in kept):
        raise InvalidParameter("mechanism must release a number or a vector of one length")
    released = [np.array(kept) for kept in calls]
    if not all(np.isfinite(values).all() for values in released):
        raise InvalidParameter("mechanism must release finite numbers")
    half = runs // 2
    weights = fit_direction(released[0][:half], released[1][:half])
    samples = [values @ weights for values in released]
    found = bounds(
        (samples[0][:half], samples[1][:half]), (samples[0][half:], samples[1][half:]), delta=delta,
        confidence=confidence,
    )  # fmt: skip
    return Audit(
        learner=name,
        adjacency="",
        epsilon=claimed,
        delta=delta,
        mu=mu,
        proved_mu=None,
        epsilon_lower=found.epsilon,
        mu_lower=found.mu,
        gaussian_mu_lower=None,
        gaussian_epsilon_lower=None,
        confidence=confidence,
        runs=runs,
        width=1,
        statistic="given" if size == 1 else "fitted",
        attainable=None,
        noise=1.0,
    )
