"""The base of learners of many nodes: who hears whom, the noise of a message, the guarantee, the nodes' models."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from .. import calibration as calibrate
from .. import topology as graphs
from .._core._network import NetworkRun
from .._core._noise import Source
from .._core._report import Report
from .._validate import choice, integer
from .._vocabulary import AVERAGINGS, BUILT_TOPOLOGIES
from ..calibration import NetworkCalibration
from ..distributed import Exchange, NetworkRows, Ranks, on_all_ranks
from ..errors import InvalidParameter, RankFailure, StateError
from ..guarantees import DELTA_TOO_LARGE, Guarantee, square_up
from ..ledger import Account
from ..losses import get_loss
from ..noise import STREAM_REPORTS
from ..randomizers import compiled
from ..topology import MixingSchedule, PeriodicMixing, StaticMixing, Topology
from ._asking import AskingLearner
from ._base import Keeper, RowStream, Run
from ._frame import RunFrame

__all__ = ["NetworkLearner", "mixing_windows"]

FloatArray = NDArray[np.float64]

#: Graphs that can be chosen by name.
TOPOLOGIES: dict[str, Callable[[int], Topology]] = dict(
    zip(
        BUILT_TOPOLOGIES,
        (graphs.ring, lambda nodes: graphs.grid(*_sides(nodes)), graphs.star, graphs.complete),
        strict=True,
    )
)
DEFAULT_NODES = 16
_THRESHOLDS = {"none": "none", "noise": "noise", "rda": "steps", "published": "step"}  # the kernel's names
_WINDOW = 1 << 16  # weights that are given to the kernel at a time


def _sides(nodes: int) -> tuple[int, int]:
    """The two factors of a number that are closest to each other."""
    side = next(k for k in range(math.isqrt(nodes), 0, -1) if nodes % k == 0)
    return side, nodes // side


def mixing_windows(schedule: MixingSchedule, last: int) -> Callable[[int], tuple[Any, ...]]:
    """Return a function that gives the kernel mixing matrices: those of a whole period, or of some rounds from t on.

    After round ``last`` of the run no matrix is needed.
    """

    def window(first: int, rounds: int, periodic: bool) -> tuple[Any, ...]:
        matrices = [schedule.matrix(t) for t in range(first, first + rounds)]
        ends = np.cumsum([0, *(len(matrix.weights) for matrix in matrices)])
        indptr = np.concatenate([end + matrix.indptr for end, matrix in zip(ends, matrices, strict=False)])
        columns = np.concatenate([matrix.indices for matrix in matrices])
        weights = np.concatenate([matrix.weights for matrix in matrices])
        return first, rounds, periodic, indptr, columns, weights

    size = max(1, _WINDOW // (schedule.n_nodes + 2 * schedule.topology.n_edges))
    if isinstance(schedule, PeriodicMixing) and schedule.period <= size:
        return lambda t: window(1, schedule.period, True)
    return lambda t: window(t, max(1, min(size, last + 1 - t)), False)


class NetworkLearner(AskingLearner[NetworkCalibration]):
    """Base of the learners whose nodes send each other noisy parameters."""

    nodes: int | None
    topology: str | Topology | MixingSchedule
    randomizer: str
    batch: int
    epochs: int
    step_size: float | None
    averaging: str
    # for the learners without this parameter
    l2: float = 0.0
    noise_position: str = "gradient"
    regularizer: str = "explicit"

    _perturbed = "gradient"

    def _thresholding(self) -> tuple[str, float | None, float | None]:
        """Kind and factor of a threshold on what is mixed, and the distance that steps are measured in."""
        return "none", None, None

    # ---- who hears whom -------------------------------------------------------------------------------

    def mixing(self) -> MixingSchedule:
        """Return the mixing matrices of the rounds, as ``nodes`` and ``topology`` say: public.

        Raises
        ------
        InvalidParameter
            If the two do not fit each other, or the graph leaves nodes apart.
        """
        nodes = None if self.nodes is None else integer(nodes=self.nodes, at_least=1, at_most=1 << 20)
        made = self.topology
        if isinstance(made, str):
            make = TOPOLOGIES[choice(tuple(TOPOLOGIES), topology=made)]
            made = make(DEFAULT_NODES if nodes is None else nodes)
        if isinstance(made, Topology):
            made = StaticMixing(made)
        if not isinstance(made, MixingSchedule):
            allowed = ", ".join(map(repr, TOPOLOGIES))
            raise InvalidParameter(
                f"topology must be {allowed}, a Topology or a MixingSchedule of privol.topology, found {made!r}"
            )
        if nodes is not None and made.n_nodes != nodes:
            raise InvalidParameter(f"nodes must be None or the topology's {made.n_nodes}, found {nodes}")
        return made

    # ---- nodes in several processes ------------------------------------------------------------------

    def shared_terms(self, classes: Any) -> dict[str, Any]:
        """Return what must be the same for all nodes of a run, by name: parameters, labels, who hears whom. Public."""
        loss, words = get_loss(self.loss), self.get_params(deep=False)
        words |= {"loss": (loss.name, loss.kind, loss.width, loss.vouched), "learner": type(self).__name__}
        if not isinstance(self.random_state, int):  # otherwise each process would have a source of its own
            words["random_state"] = self.random_state is None
        del words["ledger"]
        schedule = self.mixing()
        words["topology"] = (schedule.n_nodes, [schedule.matrix(t).digest for t in (1, 2, 3, 1000)])
        return {"classes": classes, **words}

    def fit_ranks(
        self,
        stream: RowStream,
        ranks: Ranks,
        *,
        progress: Callable[[Self, RowStream], object] | None = None,
        checkpoint: Keeper | None = None,
    ) -> Self:
        """Learn with the nodes spread over the processes of an MPI job, each of which calls this: with the same bits.

        The whole run is charged, in the ledger's journal too, before the first message leaves. However a call ends, its
        run has ended: no message leaves twice. With a `checkpoint` another call resumes it, on all ranks, and
        sends the same messages again, or none.

        Parameters
        ----------
        stream : RowStream
            The rows of the nodes that this rank has, in turn: of :class:`privol.distributed.DealtRows` or
            :class:`privol.distributed.InterleavedRows`. A user may have rows on all ranks: the guarantee adds up their
            ``rows_per_user``, and says nothing about users if a rank does not know it.
        ranks : privol.distributed.Ranks
        progress : callable, optional
            As of ``fit_stream``; each rank calls its own.
        checkpoint : privol.state.State, optional
            Directory of this rank alone.

        Returns
        -------
        self
            With the network's models, on every rank; counts and ledger are for the rows of this rank.

        Raises
        ------
        InvalidParameter
            On every rank, before a row is learnt, if ranks differ in their arguments, or their numbers of rows do
            not fit each other.
        RankFailure
            If another rank fails: an end of the call on one rank ends it on all.
        """
        if self._default_release(whole=True) not in ("all", "last"):
            raise InvalidParameter(f"release must be 'all' or 'last' where ranks learn, found {self.release!r}")
        before: Run | None = self.__dict__.get("_run")
        show = None if progress is None else lambda learner, _: progress(learner, stream)
        try:
            ranks.agree(**self.shared_terms(stream.classes))
            batch = integer(batch=self.batch, at_least=1)
            self._spread = _Spread(ranks, self.mixing().n_nodes, batch, stream.n_rows, self._uses())
            return self.fit_stream(NetworkRows(stream, ranks), progress=show, checkpoint=checkpoint)
        except BaseException as error:
            if not (isinstance(error, RankFailure) or getattr(error, "on_all_ranks", False)):
                ranks.fail(f"{type(error).__name__}; its own message says more")
            run: Run | None = self.__dict__.get("_run")
            if run is not None and run is not before and not run.closed:
                self._settle(run)
            raise
        finally:
            self.__dict__.pop("_spread", None)

    def _adopt(self, run: Run, stream: Any) -> Run:
        spread: _Spread | None = self.__dict__.get("_spread")
        if spread is not None:
            spread.exchange.before.append(_Charge(run.account))
        return super()._adopt(run, stream)

    def _stream_horizon(self, stream: RowStream) -> int:
        spread: _Spread | None = self.__dict__.get("_spread")
        if spread is None:
            return super()._stream_horizon(stream)
        self._check_pass(spread.here)
        if self.horizon not in (None, spread.rows):
            raise InvalidParameter(f"horizon must be None or the {spread.rows} rows of all, found {self.horizon!r}")
        return spread.rows

    # ---- for the base class -------------------------------------------------------------------------

    def _uses(self) -> int:
        return integer(epochs=self.epochs, at_least=1)

    def _check_pass(self, n_rows: int) -> None:
        spread: _Spread | None = self.__dict__.get("_spread")
        if self._uses() > 1:
            total = n_rows if spread is None else spread.rows // self._uses()  # of all nodes
            self._check_epoch(total, self.mixing().n_nodes)

    def _check_epoch(self, n_rows: int, nodes: int) -> None:
        """Refuse rows that would change nodes, or enter a message twice: the noise is for one use in it."""
        uses = self._uses()
        batch = integer(batch=self.batch, at_least=1)
        if uses > 1 and (n_rows % nodes or n_rows < nodes * batch):
            raise InvalidParameter(
                f"epochs must be 1 where an epoch's rows are no multiple of the {nodes} nodes, or fewer than a round "
                f"takes, {nodes * batch}: a row would not stay at its node, or be twice in one message; found {uses} "
                f"epochs of {n_rows} rows"
            )

    def _averaging(self) -> int:
        return AVERAGINGS.index(choice(AVERAGINGS, averaging=self.averaging))

    def _told_bound(self, run: Run | None) -> float | None:
        return math.inf if run is None else self._plan_of(run).gradient_bound

    def calibrate(
        self, n_features: int, horizon: int, release: Any = None, *, n_classes: int = 2
    ) -> NetworkCalibration:
        """Return the calibration of a run before anything is spent.

        Parameters
        ----------
        n_features : int
            Features of a row, at least 1, the intercept not counted.
        horizon : int
            Rows, at least 1; of several epochs every use of a row counts.
        release : optional
            As the parameter ``release``; default: that parameter.

        Returns
        -------
        NetworkCalibration
            The noise of a message, the proven guarantee, step lengths. All of it is public.
        """
        problem = self._problem(n_features, horizon, n_classes)
        nodes, uses = self.mixing().n_nodes, self._uses()
        if problem.horizon % uses:
            raise InvalidParameter(
                f"horizon must be a multiple of epochs={uses}, as every use counts: found {problem.horizon}"
            )
        self._check_epoch(problem.horizon // uses, nodes)
        threshold, l1, reach = self._thresholding()
        return calibrate.calibrate_network(
            problem,
            self._budget(),
            randomizer=self.randomizer,
            gradient_bound=self.gradient_bound,
            nodes=nodes,
            batch=self.batch,
            release=self._default_release(whole=True) if release is None else release,
            epochs=uses,
            l2=self.l2,
            step_size=self.step_size,
            noise_position=self.noise_position,
            regularizer=self.regularizer,
            threshold=threshold,
            l1=l1,
            reach=reach,
        )

    def guarantee_of(self, plan: NetworkCalibration, *, private: bool, bit_source: str) -> Guarantee:
        """Return the guarantee of a run with the given calibration and noise bits."""
        uses = "one round" if plan.uses == 1 else f"{plan.uses} rounds at most, once in each"
        conditions = [
            "the bounds, the labels and all other parameters, but for the number of rows, which is public, were chosen "
            "without looking at the rows",
            f"every row is used by its node in {uses}; which row is at which node, who hears whom and when, mixing "
            "weights and step lengths do not depend on rows",
            "whether a row was refused, by the learner or by the reader of a file, is not hidden",
        ]
        loss = get_loss(self.loss)
        if loss.vouched is not None:
            conditions.append(loss.vouched)
        none = math.isinf(plan.mu)
        if self.delta * plan.horizon >= 1.0 and not none:
            conditions.append(DELTA_TOO_LARGE)
        kind = "none" if none else "pure" if math.isfinite(plan.epsilon) else "gdp"
        return Guarantee(
            kind=kind,
            parameter={"none": math.inf, "pure": plan.epsilon, "gdp": plan.mu}[kind],
            adjacency=self._adjacency(),
            horizon=plan.horizon,
            releases=plan.rounds,
            delta=self.delta if plan.claim is None or plan.claim.delta == 0.0 else plan.claim.delta,
            claim=plan.claim,
            conditions=tuple(conditions),
            arithmetic="double precision, no noise" if none else self._arithmetic(plan),
            bit_source="none" if none else bit_source,
            private=private,
            released="parameters",
        )

    @staticmethod
    def _arithmetic(plan: NetworkCalibration) -> str:
        perturbed = {
            "gradient": "total of a node's gradients",
            "scaled_gradient": "total of a node's gradients over the step's length",
            "output": "node's projected step over its length",
        }[plan.position]
        return plan.report.arithmetic.replace("clipped vector", perturbed)

    def build(self, plan: NetworkCalibration, source: Source | None, classes: NDArray[Any] | None = None) -> NetworkRun:
        """See :meth:`GaussianLearner.build`."""
        schedule, spread = self.mixing(), cast("_Spread | None", self.__dict__.get("_spread"))
        horizon, first, own, heard, exchange = plan.horizon, 0, plan.nodes, np.empty(0, dtype=np.int64), None
        if spread is not None:
            exchange = spread.join(schedule, plan.problem.dim)
            horizon, first, own, heard = spread.here, spread.first, spread.own, exchange.heard
        releases = replace(plan.round_releases, horizon=horizon)
        return NetworkRun(
            RunFrame(plan.problem, releases, source, STREAM_REPORTS),
            report=_report_of(plan),
            magnitude=plan.magnitude,
            cost=square_up(plan.mu),
            variance=plan.report.deviation**2,
            bound=plan.gradient_bound,
            nodes=plan.nodes,
            own=own,
            first=first,
            batch=plan.batch,
            rounds=plan.rounds,
            position=plan.position,
            pace=plan.pace,
            length=plan.length,
            implicit=plan.implicit,
            threshold=_THRESHOLDS[plan.threshold],
            l1=plan.l1,
            mixing=mixing_windows(schedule, plan.rounds + 1),  # the round after the last one is mixed too
            heard=heard,
            exchange=exchange,
            averaging=self._averaging(),
        )

    def _release_last(self, run: Run) -> None:
        only_last = self._plan_of(run).round_releases.only_last
        if only_last and run.state.n_rows < run.guarantee.horizon and run.state.n_releases == 0:
            cast(NetworkRun, run.state).release_last()
        spread: _Spread | None = self.__dict__.get("_spread")
        if spread is not None:
            spread.gather(cast(NetworkRun, run.state))

    # ---- what is released ----------------------------------------------------------------------------

    def _nodes_of(self, which: str) -> FloatArray:
        run: Run | None = self.__dict__.get("_run")
        if run is None:
            raise NotFittedError(
                f"This {type(self).__name__} instance has no run: the models of single nodes are not in an export."
            )
        if run.keeper is not None and not run.account.closed:
            raise StateError("the run is kept on the disk: the models of its nodes can be seen when it has ended")
        found: FloatArray = getattr(run.state, which)()
        return found

    @property
    def node_coef_(self) -> FloatArray:
        """Models of all nodes after the last whole round, shape (nodes, n_features): what each predicts with."""
        models = self._nodes_of("models")
        return models[:, : models.shape[1] - bool(self.fit_intercept)]

    @property
    def node_intercept_(self) -> FloatArray:
        """Their intercepts, shape (nodes,)."""
        models = self._nodes_of("models")
        return models[:, -1] if self.fit_intercept else np.zeros(len(models))

    @property
    def node_average_coef_(self) -> FloatArray:
        """Means over the released rounds of each node's models, shape (nodes, n_features)."""
        means = self._nodes_of("averages")
        return means[:, : means.shape[1] - bool(self.fit_intercept)]

    @property
    def node_average_intercept_(self) -> FloatArray:
        """Their intercepts, shape (nodes,)."""
        means = self._nodes_of("averages")
        return means[:, -1] if self.fit_intercept else np.zeros(len(means))

    @property
    def communication_(self) -> dict[str, float]:
        """The messages that the nodes of the network have sent to each other: public.

        ``messages``, one a round to each neighbour that a mixing matrix has a weight for; ``bytes``, 8 for each
        coordinate; ``bits_per_row``, of the rows that the whole network has learnt (all, once its run has ended).
        """
        run: Run | None = self.__dict__.get("_run")
        if run is None:
            raise NotFittedError(f"This {type(self).__name__} instance has no run.")
        state = cast(NetworkRun, run.state)
        sent = state.messages * 8 * len(state.point())
        plan = self._plan_of(run)
        rows = min(state.rounds * plan.nodes * plan.batch, plan.horizon)
        return {"messages": state.messages, "bytes": sent, "bits_per_row": 8 * sent / max(rows, 1)}

    @property
    def consensus_distance_(self) -> float:
        """Frobenius norm of the nodes' models minus their mean, intercepts included."""
        models = self._nodes_of("models")
        return float(np.linalg.norm(models - models.mean(axis=0)))


class _Spread:
    """The facts that a run needs about the ranks over which its nodes are spread.

    Attributes
    ----------
    ranks : Ranks
    rows, here : int
        All uses of rows, in the network and on the nodes here.
    round_rows, unit : int
        The same for one round.
    whole_rounds : int
        Rounds in which no node lacks a row.
    exchange : Exchange
        The exchange of the run, once it has begun.
    """

    exchange: Exchange

    def __init__(self, ranks: Ranks, nodes: int, batch: int, rows: int | None, uses: int) -> None:
        if rows is None:
            raise InvalidParameter("the stream must know its number of rows")
        self.ranks, self._nodes = ranks, nodes
        self.first, self.own = ranks.part(nodes)
        found = ranks.counts(rows)
        total = int(found.sum())
        full, rest = divmod(total, nodes)
        for rank in range(ranks.size):
            first, own = ranks.part(nodes, rank)
            expected = full * own + min(max(rest - first, 0), own)
            if found[rank] != expected or not expected:
                error = InvalidParameter(
                    f"every node must have as many rows as the others, or one less: of {total} in all, the {own} nodes "
                    f"of rank {rank} have {found[rank]}, not {max(expected, 1)}"
                )
                raise on_all_ranks(error)
        self.rows, self.here = total * uses, rows * uses
        self.round_rows, self.unit = nodes * batch, self.own * batch
        self.whole_rounds = self.rows // self.round_rows

    def join(self, schedule: MixingSchedule, dim: int) -> Exchange:
        """Return how the nodes of a run hear those on other ranks."""
        self.ranks.agree(n_features=dim)
        self.exchange = self.ranks.exchange(schedule, dim)
        return self.exchange

    def gather(self, state: NetworkRun) -> None:
        """Collect the models of all nodes on every rank."""
        found = self.ranks.gather_nodes(np.hstack((state.mixes(), state.models(), state.sums())))
        mixes, models, sums = (np.ascontiguousarray(rows) for rows in np.hsplit(found, 3))
        state.gathered(mixes, models, sums)


class _Charge:
    """Writes the whole cost of a run into the ledger's journal before its first message leaves."""

    def __init__(self, account: Account) -> None:
        self._account, self._charged = account, False

    def __call__(self, round_: int, rows: FloatArray) -> None:
        if not self._charged:
            self._account.commit()
            self._charged = True


def _report_of(plan: NetworkCalibration) -> Report:
    """The compiled randomizer, with the report's noise and vectors of the plan's length."""
    return compiled(plan.report, bound=plan.magnitude if plan.report.cap is None else plan.report.bound)
