"""Worst neighbouring rows of nodes that learn together, and runs on them.

A row is in one message of one node (in one per epoch), and everything else that the nodes know is public. So a round is
as many experiments as there are nodes: the pair of experiment i consists of two streams that differ in one row of node
i. All other rows are null, also in earlier rounds, so the public part before the round has the same distribution in
both streams. Messages are taken from the compiled run; the randomized vectors follow from them and the public mixes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from .._validate import integer
from ..calibration import NetworkCalibration, ReportNoise
from ..errors import InvalidParameter
from ..geometry import WholeSpace
from ..guarantees import gdp_epsilon
from ..learners import DOLA, LEARNERS, TABLE, NetworkLearner, OnlineLearner
from ..noise import make_source
from ..randomizers import compiled
from ._bounds import FloatArray
from ._cases import Case, built, title_of
from ._reports import DIMS, FAR_TARGETS, log_ratio, scaled

__all__ = ["NETWORKS", "NetworkCase", "networking"]

_NODES, _FEW_NODES = 256, 64  # for learners by name; for those with batches of several rows, or many rounds
_ROUNDS = 2  # by default
# For the published noise of gradients, which is smallest in the last round and grows with the root of the coordinates.
_PUBLISHED = {"rounds": 1000, "dim": 55, "l2": 10.0}
_MOST_ROUNDS = 4096
_MOST_NULL = 1 << 20  # null rows that are learnt at once
_NEVER = 50.0  # standard deviations that no noise exceeds, whatever its distribution here

#: Learners of many nodes that can be audited, by name.
NETWORKS: dict[str, type[Any]] = {entry.name: LEARNERS[entry.name] for entry in TABLE if entry.group == "nodes"}
_ABSOLUTE = {"loss": "absolute", "y_bound": FAR_TARGETS, "fit_intercept": False}  # slopes of 1 at every point
# With other parameters the rows are not known to be the worst.
_OF_ROWS = {"loss", "x_bound", "y_bound", "radius", "domain", "gradient_bound", "fit_intercept"}


def _of_gradients(words: dict[str, Any]) -> bool:
    """Whether the noise is that published for gradients."""
    return words.get("calibration") == "published" and words.get("noise_position", "gradient") == "gradient"


def networking(name: str, parameters: dict[str, Any]) -> tuple[OnlineLearner, bool]:
    """A learner of many nodes with the given parameters, and whether its worst rows are known for them."""
    kind = NETWORKS[name]
    published = _of_gradients(parameters)
    few = published or parameters.get("batch", 1) > 1
    words: dict[str, Any] = {**_ABSOLUTE, "nodes": _FEW_NODES if few else _NODES}
    if "topology" in parameters:
        words["nodes"] = None
    if published and "step_size" not in parameters:
        words["l2"] = _PUBLISHED["l2"]
    elif not parameters.get("l2"):
        words["step_size"] = 1.0
    if kind is DOLA and parameters.get("noise_position") == "output":
        words["radius"] = 1e6  # nothing reaches its boundary
    elif kind is DOLA:
        words["domain"] = WholeSpace()  # without projection, the points show the reports
    return built(kind, {**words, **parameters}, parameters), not parameters.keys() & _OF_ROWS


class NetworkCase(Case):
    """The compiled run of DOLA or SparseDOLA.

    An experiment is one node: what it makes public from the round on in which it has the row that differs. In a run of
    several epochs the row comes again.

    Parameters
    ----------
    learner : NetworkLearner
        Its parameters are what is audited; nothing is spent or changed in it.
    by_rows : bool
        Learn rows whose gradients are the longest, longer ones being scaled; else be given such gradients.
    noise : float
        Factor of the noise, for audits that are to find something; see :class:`ReportCase`.
    random_state : optional
        Of the noise.
    """

    def __init__(self, learner: NetworkLearner, *, by_rows: bool, noise: float, random_state: Any) -> None:
        words = {**learner.get_params(deep=False), "ledger": None, "on_invalid": "zero", "random_state": random_state}
        self._kind: type[Any] = type(learner)
        self._words, self._by_rows = words, by_rows
        self.title, self.adjacency = title_of(self._kind.__name__, words), words["adjacency"]
        made: Any = self._kind(**words)
        self._learner = made.set_params(topology=made.mixing())  # checked once, rather than in every run
        self.width = nodes = self._learner.mixing().n_nodes
        self._batch = integer(batch=words["batch"], at_least=1)
        self._epochs = integer(epochs=words["epochs"], at_least=1)
        self._round_rows: int = nodes * self._batch
        published = _of_gradients(words)
        per = self._rounds_of_an_epoch(int(_PUBLISHED["rounds"]) if published else _ROUNDS)
        rounds = per * self._epochs
        dim = int(_PUBLISHED["dim"]) if published else DIMS[words["randomizer"]]
        self._features = max(1, dim - bool(words["fit_intercept"]))
        plan = self._learner.calibrate(self._features, rounds * self._round_rows, [rounds])
        if math.isinf(plan.mu):
            raise InvalidParameter("epsilon must be finite: without noise there is no claim to audit")
        self._plan: NetworkCalibration = plan
        self._dim = plan.report.dim
        first = rounds if plan.position == "scaled_gradient" else 1  # where the noise is smallest
        self._lesson_rounds = range(first, rounds + 1, per)
        self._seen = range(first, rounds + 1)
        self.size = len(self._seen) * self._dim
        self._claim()
        report: ReportNoise = plan.report
        self._audited = scaled(report, noise)
        self._grid = compiled(self._audited).granularity
        without = replace(report, kind="plain", scale=0.0, deviation=0.0, cap=None)
        self._noisy, self._silent = (replace(plan, report=one) for one in (self._audited, without))

        # A projection hides a part of the randomized vector, or the vector was projected before.
        shown = math.isinf(plan.diameter) if plan.position != "output" else self._inside()
        self.gaussian = shown and report.kind == "gaussian"
        if not shown:
            return
        twins = [self.twin(world) for world in (0, 1)]
        if any(np.ptp(twin, axis=0).max() > 1e-6 * report.sensitivity for twin in twins):
            self.gaussian = False
            return
        self._vectors = [twin.mean(axis=0) for twin in twins]
        self.weights = self._vectors[1] - self._vectors[0]
        if self.gaussian:
            self.attainable = float(np.linalg.norm(self.weights)) / self._audited.scale

    def _rounds_of_an_epoch(self, default: int) -> int:
        given = self._words["horizon"]
        if given is None:
            return default
        rounds = -(-integer(horizon=given, at_least=1) // (self._round_rows * self._epochs))
        if rounds * self._epochs > _MOST_ROUNDS:
            raise InvalidParameter(f"an audited run has at most {_MOST_ROUNDS:,} rounds, found {rounds * self._epochs}")
        return rounds

    def _claim(self) -> None:
        plan = self._plan
        if plan.claim is not None:
            self.claimed(plan.claim, plan.mu, plan.claim.epsilon, plan.claim.delta)
            self.proved_epsilon = plan.epsilon if math.isfinite(plan.epsilon) else None
        elif math.isfinite(plan.epsilon):
            self.claimed(None, plan.mu, plan.epsilon, 0.0)
            self.mu = None  # only epsilon is claimed
        else:
            delta = float(self._words["delta"])
            given = self._words["epsilon"]
            self.claimed(None, plan.mu, gdp_epsilon(plan.mu, delta) if given is None else float(given), delta)

    def _inside(self) -> bool:
        """Whether no visible step that contains a row reaches the boundary of the set."""
        plan, last = self._plan, self._lesson_rounds[-1]
        far = (math.sqrt(self._dim) + _NEVER) * self._audited.deviation / plan.batch + plan.gradient_bound
        way = sum(plan.step_length(t) for t in range(1, last)) * far
        return way + plan.step_length(last) * plan.gradient_bound <= plan.norm

    # ---- the rows ------------------------------------------------------------------------------------------

    def _unit(self) -> FloatArray:
        """Direction of the two gradients: see :meth:`ReportCase._unit`."""
        dim = self._features if self._by_rows else self._dim
        if self._plan.report.kind == "laplace":
            return np.full(dim, 1.0 / math.sqrt(dim))
        return np.asarray(np.eye(dim)[-1])

    def _teach(self, state: Any, world: int) -> None:
        """The rows of a round: one for each node, then null rows."""
        null = world == 1 and self.adjacency == "zero_out"
        sign, nodes = 1.0 - 2.0 * world, self.width
        if self._by_rows:
            rows = np.tile(2.0 * float(self._words["x_bound"]) * self._unit(), (nodes, 1))
            targets = np.full(nodes, math.nan if null else -sign * float(self._words["y_bound"]))
            state.learn(rows, targets)
        else:
            gradient = None if null else 2.0 * self._plan.gradient_bound * sign * self._unit()
            for _ in range(nodes):
                state.tell(gradient)
        self._skip(state, nodes * (self._batch - 1))

    def _skip(self, state: Any, rows: int) -> None:
        while rows:
            n = min(rows, _MOST_NULL)
            state.learn(sparse.csr_matrix((n, self._features)), np.full(n, math.nan))
            rows -= n

    # ---- runs ----------------------------------------------------------------------------------------------

    def run(self, world: int) -> FloatArray:
        """See :meth:`Case.run`."""
        return self._series(self._opened(noisy=True), world, noisy=True)

    def twin(self, world: int) -> FloatArray:
        """See :meth:`Case.twin`."""
        return self._series(self._opened(noisy=False), world, noisy=False)

    def _opened(self, *, noisy: bool) -> Any:
        """A new run of the calibration."""
        if noisy:
            return self._learner.build(self._noisy, make_source(self._words["random_state"]))
        return self._learner.build(self._silent, None)

    def _series(self, state: Any, world: int, *, noisy: bool) -> FloatArray:
        first = self._seen[0]
        self._skip(state, (first - 1) * self._round_rows)
        found = []
        for t in self._seen:
            mixes = state.mixes()
            if t in self._lesson_rounds:
                self._teach(state, world)
            else:
                self._skip(state, self._round_rows)
            # all messages are public; a checkpoint shows them
            sent = state.secret_arrays()["sent"].reshape(self.width, self._dim)
            found.append(self._randomized(t, mixes, sent, noisy))
        return np.concatenate(found, axis=1)

    def _randomized(self, t: int, mixes: FloatArray, sent: FloatArray, noisy: bool) -> FloatArray:
        """The value to which noise was added, and the noise: from message and previous mix, up to public rounding."""
        plan = self._plan
        unit = plan.step_length(t) / plan.batch
        keep = 1.0
        if plan.pace == "inverse":
            keep = t / (t + 1.0) if plan.implicit else (t - 1.0) / t
        if plan.implicit and plan.position != "output" and plan.pace == "inverse":
            unit *= keep
        if plan.position == "scaled_gradient":
            unit *= plan.step_length(t)
        found = (keep * mixes - sent) / unit
        # Rounding depends on earlier values: a statistic without ties would distinguish streams by it.
        if self._audited.kind == "sign" and noisy:
            return np.copysign(self._audited.scale, found)
        return np.round(found / self._grid) * self._grid if noisy and self._grid > 0.0 else found

    # ---- what is known -------------------------------------------------------------------------------------

    def ratio(self, series: FloatArray) -> FloatArray:
        """See :meth:`Case.ratio`: the sum over the rounds that contain a row, whose noise is independent."""
        if self._audited.kind == "gaussian":
            return super().ratio(series)
        total = np.zeros(len(series))
        for t in self._lesson_rounds:
            part = slice((t - self._seen[0]) * self._dim, (t - self._seen[0] + 1) * self._dim)
            zero, one = (vector[part] for vector in self._vectors)
            total += log_ratio(self._audited, series[:, part], zero, one)
        return total
