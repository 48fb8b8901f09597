"""Worst neighbouring streams of the learners, and runs on them.

A case is a pair of streams whose first rows of effect differ and whose other rows are null. Where possible, one run is
many experiments: row k of the ``width`` rows of one step lies along coordinate k, so it moves the release in this
coordinate alone, and the noise of the coordinates is independent. The pair of experiment k consists of two streams
that differ in row k alone. A twin of the run without noise shows that all experiments see the same change.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._core._prefix import PrefixRun
from .._validate import choice, integer
from .._vocabulary import CALIBRATIONS
from ..calibration import (
    GradientCalibration,
    IterateCalibration,
    LeaderCalibration,
    LeastSquaresCalibration,
    SumCalibration,
    calibrate_sums,
    epsilon_of,
)
from ..errors import InvalidParameter
from ..factorizations import DESIGNS, Design
from ..geometry import L2Ball
from ..guarantees import Claim
from ..learners import LEARNERS, PGIGA, PQFTL, OnlineLearner
from ..losses import get_loss
from ..noise import STREAM_RELEASES, decide_lattice_point, make_source
from ..prefix import plan_of
from ._bounds import FloatArray
from ._covariance import noise_covariance

__all__ = [
    "FAR", "PREFIX_PARAMETERS", "Case", "LearnerCase", "PrefixCase", "built", "title_of",
    "worst_learner",
]  # fmt: skip

_WIDTH = 128  # the largest number of rows along separate coordinates: for learners without steps of several rows,
_MOST_WIDTH, _MOST_PAIRS = 512, 32  # for those with such steps, and for PQFTL, whose moments grow with the square
FAR = 8.0  # standard deviations that nothing exceeds
_MOST_RELEASES = 4096  # of a run


class Case(ABC):
    """One configuration on two neighbouring streams, as experiments.

    Attributes
    ----------
    title : str
    adjacency : str
    epsilon, delta, mu : float
        What is claimed; ``mu`` is None where the claim is a source's and not of Gaussian differential privacy.
    proved_mu : float or None
        What is proved of the same noise; None where that is an epsilon at one delta.
    proved_epsilon : float or None
        The same of a guarantee that is an epsilon: pure, or at that delta.
    width, size : int
        Experiments of a run, and numbers that each releases.
    repeats : int
        Runs that a call of :meth:`run` makes.
    weights : ndarray of shape (size,) or None
        Of the best linear statistic, which is that of the likelihood ratio unless ``ratio`` says otherwise. None: it is
        not known here.
    gaussian : bool
        Whether the statistic is Gaussian with one standard deviation, where the weights are known.
    attainable : float or None
        mu that the likelihood ratio proves with more and more runs; None where it is not known.
    """

    title: str
    adjacency: str
    epsilon: float
    delta: float
    mu: float | None
    proved_mu: float | None
    width: int
    size: int
    repeats: int = 1
    proved_epsilon: float | None = None
    weights: FloatArray | None = None
    gaussian: bool = True
    attainable: float | None = None

    @abstractmethod
    def run(self, world: int) -> FloatArray:
        """Released numbers of runs on stream 0 or 1, with independent keys, shape (repeats * width, size)."""

    @abstractmethod
    def twin(self, world: int) -> FloatArray:
        """The same without noise."""

    def ratio(self, series: FloatArray) -> FloatArray:
        """Log likelihood ratio of experiments, shape (n, size), up to a factor and a summand."""
        assert self.weights is not None
        return np.asarray(series @ self.weights)

    def know(self, covariance: FloatArray) -> None:
        """Take the covariance of an experiment's noise, which makes the statistic the likelihood ratio."""
        change = (self.twin(1) - self.twin(0)).mean(axis=0)
        self.weights = np.linalg.solve(covariance, change)
        self.attainable = math.sqrt(float(change @ self.weights))

    def alike(self) -> bool:
        """Whether all experiments of a run see the same change."""
        change = self.twin(1) - self.twin(0)
        return bool(np.abs(change - change[0]).max() <= 1e-6 * np.abs(change).max())

    def claimed(self, claim: Claim | None, mu: float, epsilon: float, delta: float) -> None:
        """Set the figures of the claim: the source's where there is one."""
        self.mu, self.proved_mu = mu if claim is None else None, mu
        self.epsilon, self.delta = (epsilon, delta) if claim is None else (claim.epsilon, claim.delta)


# ---- learners ------------------------------------------------------------------------------------------------

#: Parameters of "prefix".
PREFIX_PARAMETERS: tuple[str, ...] = (
    "epsilon", "delta", "adjacency", "design", "buffers", "bandwidth", "objective", "bound", "leaf", "calibration",
    "rows_per_user", "user_separation",
)  # fmt: skip

# The effect of a sum on a point is known for these alone.
_KNOWN: dict[str, Any] = {"discount": 1.0, "window": None, "renewal": "none", "class_weight": None}


def worst_learner(name: str, parameters: dict[str, Any]) -> OnlineLearner:
    """A learner with the given parameters, and others such that its sensitivity is attained or nearly so."""
    kind: type[Any] = LEARNERS[name]
    published = kind.worst_published if parameters.get("calibration") == "published" else {}
    users = kind.worst_of_users if parameters.get("rows_per_user") is not None else {}
    return built(kind, {**kind.worst, "fit_intercept": False, **users, **published, **parameters}, parameters)


def built(kind: type[Any], words: dict[str, Any], parameters: dict[str, Any]) -> OnlineLearner:
    """A learner by its arguments, the caller's parameters among them."""
    try:
        learner: OnlineLearner = kind(**words)
    except TypeError:
        known = kind().get_params(deep=False)
        wrong = ", ".join(sorted(set(parameters) - set(known)))
        raise InvalidParameter(f"{kind.__name__} has no parameter {wrong}") from None
    return learner


def _scaled(plan: Any, factor: float) -> Any:
    """A calibration with its noise times a factor, but with the original claim."""
    if isinstance(plan, IterateCalibration):
        return replace(plan, schedule=plan.schedule.with_gain(plan.schedule.gain * factor))
    if isinstance(plan, GradientCalibration):
        return replace(plan, sigma=plan.sigma * factor)
    sums = tuple(replace(found, sigma=found.sigma * factor) for found in plan.epochs.sums)
    return replace(plan, sums=sums[0], epochs=replace(plan.epochs, sums=sums))


class LearnerCase(Case):
    """A learner's compiled run.

    Parameters
    ----------
    learner : OnlineLearner
        Its parameters are what is audited; nothing is spent or changed in it.
    steps : int
        Steps of a run, where the learner's horizon is not given.
    noise : float
        Factor of the noise, for audits that are to find something.
    random_state : optional
        Of the noise.
    """

    def __init__(self, learner: OnlineLearner, *, steps: int, noise: float, random_state: Any) -> None:
        words = {**learner.get_params(deep=False), "ledger": None, "on_invalid": "zero", "random_state": random_state}
        if "mu" in words:
            words |= {"mu": None, "epsilon": epsilon_of(learner)}
        if words.get("batch", 1) is None:
            words["batch"] = 1  # the steps, among those that PQFTL would choose for its models, that release most
        for name, known in _KNOWN.items():
            if words.get(name, known) != known:
                raise InvalidParameter(
                    f"an audit by the learner's own streams needs {name}={known!r}, found {words[name]!r}: "
                    "audit_black_box() takes any callable"
                )
        if get_loss(words["loss"]).joint:
            raise InvalidParameter(
                f"an audit by the learner's own streams needs two classes or real targets, found the {words['loss']!r} "
                "loss: audit_black_box() takes any callable"
            )
        self._kind: type[Any] = type(learner)
        if not self._kind.worst:
            raise InvalidParameter(f"no worst streams are known of {self._kind.__name__}: use audit_black_box")
        self._words, self._steps, self._noise = words, steps, noise
        self.title, self.adjacency = title_of(self._kind.__name__, words), words["adjacency"]
        width = self._most_width()
        self._prepare(width)
        plain = self._plain()
        if width > 1 and not (plain and self.alike()):
            self._prepare(1)
            plain = self._plain()
        if plain:
            self.know(self._covariance())

    # ---- the streams ---------------------------------------------------------------------------------------

    def _iterates(self) -> bool:
        """Whether iterates are perturbed: these have no steps of several rows."""
        return "batch" not in self._words

    def _rows(self) -> tuple[int, int]:
        """The number of rows of a run, and of a step."""
        batch = 1 if self._iterates() else integer(batch=self._words["batch"], at_least=1)
        given = self._words["horizon"]
        if given is not None:
            return integer(horizon=given, at_least=1), batch
        if self._iterates():
            every = self._words["release"] == "all"
            return self._steps if every else max(2 * _WIDTH, self._steps), 1
        return self._steps * batch, batch

    def _most_width(self) -> int:
        """The number of rows of effect that may share a run."""
        words = self._words
        if words["fit_intercept"] or words.get("domain") is not None:
            return 1
        if not self._iterates():
            return min(*self._rows(), _MOST_PAIRS if self._kind is PQFTL else _MOST_WIDTH)
        if words["calibration"] == "published" and self._kind is PGIGA:
            return 1  # steps whose effect decays: the rows are not alike
        first, _ = self._release_rows(1)
        return min(first, 8 if words["calibration"] == "published" else _WIDTH)

    def _row_steps(self) -> int:
        """The number of steps examined where a row enters only one of them."""
        return 2

    def _release_rows(self, features: int) -> tuple[int, list[int]]:
        rows = self._rows()[0]
        release = self._words["release"] or "last"
        found = self._kind(**self._words).calibrate(features, rows, release).releases
        _check_releases(found.count)
        listed = [int(t) for chunk in found.chunks() for t in chunk]
        if not listed:
            raise InvalidParameter(f"release={release!r} releases nothing within {rows} rows")
        return listed[0], listed

    def _prepare(self, width: int) -> None:
        """Calibrate, and make the two streams."""
        words, loss = self._words, get_loss(self._words["loss"])
        self.width = width
        self._pairs = self._kind is PQFTL
        features = 2 * width if self._pairs else width
        horizon, batch = self._rows()
        release: Any = [horizon]
        if self._iterates():
            first, release = self._release_rows(features)
        made: Any = self._kind(**words)
        plan = made.calibrate(features, horizon, release)
        if math.isinf(plan.mu):
            raise InvalidParameter("epsilon must be finite: without noise there is no claim to audit")
        if self._iterates():
            before, ends = first - width, release
        else:
            steps = -(-horizon // batch)
            if isinstance(plan, GradientCalibration):
                steps = min(steps, self._row_steps())
            _check_releases(steps)
            before, ends = 0, [min(k * batch, horizon) for k in range(1, steps + 1)]
        self._learner, self._features, self._ends = made, features, ends
        self._plan, self._silent = _scaled(plan, self._noise), _scaled(plan, 0.0)
        self.claimed(plan.claim, plan.mu, words["epsilon"], words["delta"])

        top = self._top = 1.0 if loss.kind == "classification" else float(words["y_bound"])
        zero_out = self.adjacency == "zero_out"
        one, two = self._unit_rows(features), self._unit_rows(features, other=True)
        targets = (np.full(width, top), np.full(width, math.nan if zero_out else -top))
        null, missing = sparse.csr_matrix((ends[-1], features)), np.full(ends[-1], math.nan)
        self._streams: list[tuple[Any, FloatArray]] = [
            (
                sparse.vstack([null[:before], rows, null[before + width :]], format="csr"),
                np.concatenate([missing[:before], target, missing[before + width :]]),
            )
            for rows, target in zip((one, one if zero_out or not self._pairs else two), targets, strict=True)
        ]
        self._worlds = [self._cut(X, y) for X, y in self._streams]
        self.size = len(ends)
        directions = self._moment_directions() if self._pairs else self._row_direction()
        self._parts = None if directions is None else _parts(directions)

    def _cut(self, X: Any, y: FloatArray) -> list[tuple[Any, FloatArray]]:
        """The blocks of rows after which something is released."""
        return [(X[a:b], y[a:b]) for a, b in pairwise([0, *self._ends])]

    def _unit_rows(self, features: int, other: bool = False) -> Any:
        """Rows of the largest norm along separate coordinates; ``other``: turned by the worst angle."""
        bound = float(self._words["x_bound"])
        if not self._pairs:
            return sparse.csr_matrix(bound * np.eye(features))
        # docs/proofs/least_squares.md, section 2: 60 degrees, unless the printed noise weighs targets otherwise
        plan = self._plan
        cosine = min(0.5 * (self._top * plan.target_unit / (plan.row_bound * plan.row_unit)) ** 2, 1.0)
        turned = (cosine, math.sqrt(1.0 - cosine * cosine)) if plan.as_printed else (0.5, math.sqrt(0.75))
        rows = np.zeros((features // 2, features))
        for k in range(features // 2):
            rows[k, 2 * k : 2 * k + 2] = turned if other else (1.0, 0.0)
        return sparse.csr_matrix(bound * rows)

    def _row_direction(self) -> FloatArray | None:
        """Unit vector of the single row's gradient; None: every coordinate belongs to one row."""
        if not self._words["fit_intercept"]:
            return None
        row = np.array([[float(self._words["x_bound"]), 1.0]])
        return np.asarray(row / np.linalg.norm(row))

    def _moment_directions(self) -> FloatArray:
        """Unit vectors of the changes of the moments by every pair of rows."""
        changes = []
        intercept = bool(self._words["fit_intercept"])
        zero_out = self.adjacency == "zero_out"
        one, two = (self._unit_rows(self._features, other).toarray() for other in (False, True))
        for v, w in zip(one, two, strict=True):
            rows = (np.append(row, 1.0) if intercept else row for row in (v, w))
            most = self._top * self._plan.target_unit
            first, second = (
                _moments(self._plan.row_unit * row, y, self._plan.as_printed)
                for row, y in zip(rows, (most, -most), strict=True)
            )
            changes.append(first - (0.0 if zero_out else second))
        found = np.array(changes)
        return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True))

    # ---- runs ------------------------------------------------------------------------------------------------

    def run(self, world: int) -> FloatArray:
        """See :meth:`Case.run`."""
        return self._series(self._learner.build(self._plan, make_source(self._words["random_state"])), world)

    def twin(self, world: int) -> FloatArray:
        """See :meth:`Case.twin`."""
        return self._series(self._learner.build(self._silent, None), world)

    def _series(self, state: Any, world: int) -> FloatArray:
        read = state.released_model if self._iterates() else state.released_sums if self._pairs else state.point
        points = [] if self._iterates() or self._pairs else [read()]
        for X, y in self._worlds[world]:
            state.learn(X, y)
            points.append(read())
        found = self._perturbed(np.array(points))
        if self._parts is not None:
            places, shares = self._parts
            found = (found[:, places] * shares).sum(axis=2)
        return np.asarray(found.T)

    def _perturbed(self, points: FloatArray) -> FloatArray:
        """The values to which noise was added, from the points alone: a public, invertible function of them."""
        plan = self._plan
        if isinstance(plan, GradientCalibration):
            lengths = np.array([plan.step_length(j) for j in range(1, len(points))])[:, None]
            return ((1.0 - lengths * plan.l2) * points[:-1] - points[1:]) * (plan.batch / lengths)
        if isinstance(plan, LeaderCalibration):
            weights = plan.regularization + plan.l2 * np.array(self._ends)[:, None]
            return np.asarray(plan.regularization * points[0] - weights * points[1:])
        return points

    # ---- what is known -------------------------------------------------------------------------------------

    def _plain(self) -> bool:
        """Whether no point is projected, so that all releases are Gaussian with a known covariance."""
        if self._pairs:
            return True
        domain = self._words.get("domain")
        if domain is not None and not isinstance(domain, L2Ball):
            return False
        radius = float(self._words["radius"]) if domain is None else domain.radius
        dim = self._features + bool(self._words["fit_intercept"])
        return all(
            (math.sqrt(dim) + FAR) * self._plan.std(t) + math.sqrt(dim) * self._plan.sensitivity(t) <= radius
            for t in self._ends
        )

    def _covariance(self) -> FloatArray:
        plan = self._plan
        if isinstance(plan, IterateCalibration):
            return np.diag([plan.std(t) ** 2 for t in self._ends])
        if isinstance(plan, GradientCalibration):
            return plan.sigma**2 * np.eye(self.size)
        assert isinstance(plan, (LeaderCalibration, LeastSquaresCalibration))
        return plan.sums.sigma**2 * noise_covariance(plan.sums.factorization)


def _parts(directions: FloatArray) -> tuple[NDArray[np.int64], FloatArray]:
    """The nonzero coordinates of every direction and their values, shape (width, largest number of them)."""
    most = int(np.count_nonzero(directions, axis=1).max())
    places = np.argsort(directions == 0.0, axis=1, kind="stable")[:, :most]
    return places, np.take_along_axis(directions, places, axis=1)


def _check_releases(count: int) -> None:
    if count > _MOST_RELEASES:
        raise InvalidParameter(f"an audited run has at most {_MOST_RELEASES:,} releases, found {count:,}")


def _moments(v: FloatArray, y: float, as_printed: bool) -> FloatArray:
    """Moments of a row in units of the bounds, in the kernel's order."""
    if as_printed:
        return np.concatenate([np.outer(v, v).ravel(), y * v])
    i, j = np.triu_indices(len(v))
    return np.concatenate([v[i] * v[j] * np.where(i == j, 1.0, math.sqrt(2.0)), y * v])


# ---- prefix sums ---------------------------------------------------------------------------------------------


class PrefixCase(Case):
    """Prefix sums of vectors: every row of the first leaf lies along a separate coordinate."""

    def __init__(
        self,
        *,
        steps: int,
        noise: float,
        random_state: Any,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        adjacency: str = "replace",
        design: str = "blt",
        buffers: int = 4,
        bandwidth: int | None = None,
        objective: str = "max",
        bound: float = 1.0,
        leaf: int | None = None,
        calibration: str = "tight",
    ) -> None:
        published = choice(CALIBRATIONS, calibration=calibration) == "published"
        # Published noise is for leaves of one row; with several, rows along all coordinates share the first.
        leaf = (1 if published else _WIDTH) if leaf is None else integer(leaf=leaf, at_least=1, at_most=1 << 12)
        if published and leaf > 1:
            raise InvalidParameter("calibration='published' is for leaf=1")
        found = self._calibrated(
            Design(
                name=choice(DESIGNS, design=design),
                leaf=leaf,
                buffers=buffers,
                bandwidth=bandwidth,
                objective=objective,
            ),
            rows=leaf * steps,
            dim=leaf,
            bound=bound,
            epsilon=epsilon,
            delta=delta,
            adjacency=adjacency,
            calibration=calibration,
        )
        if math.isinf(found.mu):
            raise InvalidParameter("epsilon must be finite: without noise there is no claim to audit")
        words = {"design": design, "calibration": calibration}
        self.title, self.adjacency = title_of("PrefixSum", words), adjacency
        self.width, self.size, self._state = leaf, steps, random_state
        self.claimed(found.claim, found.mu, epsilon, delta)
        self._plans = [self._plan_of(found, factor) for factor in (noise, 0.0)]
        self._signs = (1.0, 0.0 if adjacency == "zero_out" else -1.0)
        self._leaf, self._dim, self._bound = leaf, leaf, bound
        self._noise = (noise * found.sigma) ** 2 * noise_covariance(found.factorization)
        self._differ()
        self.know(self._noise)

    def _calibrated(self, design: Design, **words: Any) -> SumCalibration:
        return calibrate_sums(factorization=design.over(words.pop("rows")), leaf=design.leaf, **words)

    def _differ(self) -> None:
        """Make the two streams, leaf by leaf."""
        unit, null = sparse.csr_matrix(self._bound * np.eye(self._leaf)), sparse.csr_matrix((self._leaf, self._leaf))
        self._blocks = [[sign * unit, *[null] * (self.size - 1)] for sign in self._signs]

    def _plan_of(self, found: SumCalibration, factor: float) -> Any:
        return plan_of(replace(found, sigma=found.sigma * factor), horizon=found.leaf * self.size)

    def run(self, world: int) -> FloatArray:
        """See :meth:`Case.run`."""
        return self._series(0, world)

    def twin(self, world: int) -> FloatArray:
        """See :meth:`Case.twin`."""
        return self._series(1, world)

    def _series(self, which: int, world: int) -> FloatArray:
        source = None if which else make_source(self._state)
        plan = self._plans[which]
        run = PrefixRun(plan, horizon=plan.horizon, source=source, stream=STREAM_RELEASES, decide=decide_lattice_point)
        if self._leaf == 1:
            return run.add_block(sparse.vstack(self._blocks[world], format="csr")).T
        sums = np.array([run.add_block(block, every=False) for block in self._blocks[world]])
        return np.asarray(sums.T[: self.width])


_TOLD = (
    "loss", "weights", "design", "randomizer", "values", "release", "noise_shape", "noise_position", "calibration",
    "rows_per_user", "user_separation",
)  # fmt: skip
_UNTOLD = {
    "noise_position": "gradient", "noise_shape": "lipschitz", "calibration": "tight", "release": None, "values": 1,
    "weights": "linear", "user_separation": 1,
}  # fmt: skip


def title_of(name: str, words: dict[str, Any]) -> str:
    """The name and the main parameters, as in a call."""
    told = []
    for word in _TOLD:
        value = words.get(word)
        if value is None or _UNTOLD.get(word) == value:
            continue
        if word == "loss":
            value = get_loss(value).name
        elif isinstance(value, (list, tuple)):
            value = f"{len(value)} rows"
        told.append(f"{word}={value!r}")
    return f"{name}({', '.join(told)})"
