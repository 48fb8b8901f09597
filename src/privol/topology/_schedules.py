"""Time-varying mixing: the matrix of round t as a function of a public seed and t alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validate import integer, number
from ..errors import InvalidParameter
from ._connectivity import periodic_window
from ._graph import MAX_NODES, Integers, Topology, from_edges
from ._matrix import UNIT, MixingMatrix, Pattern, metropolis_units, mixing_matrix
from ._words import MAX_ROUND, Purpose, below, checked_seed, public_words, threshold

__all__ = [
    "CustomMixing",
    "Gossip",
    "LinkFailures",
    "MatchingCycle",
    "MixingSchedule",
    "PeriodicMixing",
    "RandomMatching",
    "RandomNeighbors",
    "RandomSubgraph",
    "StaticMixing",
    "greedy_edge_coloring",
]


class MixingSchedule(ABC):
    """Mixing matrices A_1, A_2, ... of the rounds; any of them can be asked for, in any order, by any process.

    The classes below are all there are; rounds of one's own are :class:`PeriodicMixing` or :class:`CustomMixing`.

    Attributes
    ----------
    topology : Topology
        Graph outside of which no round has a weight.
    min_weight : float
        eta of Assumption 2: no weight of any round is smaller, unless it is 0; the diagonal never is.
    window : int or None
        N of Assumption 2, for certain: the links of any N consecutive rounds connect all nodes. ``None``: true of
        long windows with high probability only; :func:`joint_window` finds what holds of the rounds of a run.
    """

    topology: Topology
    min_weight: float
    window: int | None

    @property
    def n_nodes(self) -> int:
        """Number of nodes, m."""
        return self.topology.n_nodes

    def matrix(self, t: int) -> MixingMatrix:
        """Return A_t.

        Parameters
        ----------
        t : int
            Round, from 1.

        Returns
        -------
        MixingMatrix
        """
        return self._matrix(integer(t=t, at_least=1, at_most=MAX_ROUND))

    @abstractmethod
    def _matrix(self, t: int) -> MixingMatrix: ...


class _LinkSchedule(MixingSchedule):
    """Symmetric rounds made of one integer for each link of a connected graph."""

    def __init__(self, topology: Topology, full_every: int | None) -> None:
        if not isinstance(topology, Topology):
            raise InvalidParameter(f"topology must be a Topology, found {type(topology).__name__}")
        topology.require_connected("topology")
        if full_every is not None:
            full_every = integer(full_every=full_every, at_least=1, at_most=MAX_ROUND)
        self.topology = topology
        self.full_every = full_every
        self.window = full_every
        self._pattern = Pattern(topology)

    @cached_property
    def _full(self) -> Integers:
        return metropolis_units(self.topology)

    @cached_property
    def _smallest(self) -> float:
        """Smallest Metropolis weight that the graph or a part of it can have."""
        return UNIT // (1 + int(self.topology.degrees.max())) / UNIT

    def _matrix(self, t: int) -> MixingMatrix:
        if self.full_every is not None and t % self.full_every == 0:
            return self._pattern.matrix(self._full)
        return self._pattern.matrix(self._units(t))

    @abstractmethod
    def _units(self, t: int) -> Integers:
        """Weights of the links in round t, in units of 1 / UNIT."""


class PeriodicMixing(MixingSchedule):
    """Matrices of one's own in turn: the first in round 1, and again after the last.

    Parameters
    ----------
    matrices : sequence of MixingMatrix or array-like
        Each goes through :func:`mixing_matrix`. Together their links must connect all
        nodes; a single one need not.
    topology : Topology, optional
        Graph that they must respect; default: all their links.

    Raises
    ------
    InvalidParameter
        If a matrix is not valid (its position is named), they differ in size, or leave nodes apart.
    """

    def __init__(self, matrices: Sequence[MixingMatrix | Any], *, topology: Topology | None = None) -> None:
        if isinstance(matrices, MixingMatrix) or len(matrices) == 0:
            raise InvalidParameter("matrices must be a sequence of at least one matrix")
        checked = []
        for k, given in enumerate(matrices):
            try:
                checked.append(mixing_matrix(given, topology=topology))
            except InvalidParameter as err:
                raise InvalidParameter(f"matrices[{k}]: {err}") from err
            if checked[k].n_nodes != checked[0].n_nodes:
                raise InvalidParameter(
                    f"matrices[{k}] has {checked[k].n_nodes} nodes, matrices[0] has {checked[0].n_nodes}"
                )
        self._matrices = tuple(checked)
        union = from_edges(checked[0].n_nodes, np.concatenate([a.edges for a in checked]), simplify=True)
        union.require_connected("the links of all matrices together")
        self.topology = union if topology is None else topology
        self.min_weight = min(a.min_weight for a in checked)
        self.window = periodic_window(union, [a.edges for a in checked])

    def _matrix(self, t: int) -> MixingMatrix:
        return self._matrices[(t - 1) % len(self._matrices)]

    @property
    def period(self) -> int:
        """Rounds after which the matrices repeat."""
        return len(self._matrices)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.topology!r}, period={self.period})"


class StaticMixing(PeriodicMixing):
    """The same matrix in every round.

    Parameters
    ----------
    matrix : Topology, MixingMatrix or array-like
        Of a topology, its Metropolis weights. Its links must connect all nodes.
    """

    def __init__(self, matrix: Topology | MixingMatrix | Any) -> None:
        if isinstance(matrix, Topology):
            matrix.require_connected("topology")
            matrix = Pattern(matrix).matrix(metropolis_units(matrix))
        super().__init__([matrix])


class MatchingCycle(PeriodicMixing):
    """Disjoint pairs take averages of two, by the colours of a greedy edge colouring in turn.

    A node talks to at most one other a round, and every link is used once a period. The weights are 1/2, and
    Assumption 2 holds for certain.

    Parameters
    ----------
    topology : Topology
        Connected. The period is at most ``2 * max degree - 1`` (1 for a single node).
    """

    def __init__(self, topology: Topology) -> None:
        topology.require_connected("topology")
        colors = greedy_edge_coloring(topology)
        pattern = Pattern(topology)
        rounds = range(int(colors.max()) + 1) if len(colors) else range(1)
        halves = [np.where(colors == color, UNIT // 2, 0).astype(np.int64) for color in rounds]
        super().__init__([pattern.matrix(units) for units in halves], topology=topology)


class RandomSubgraph(_LinkSchedule):
    """Every link is in use with the same probability in every round, independently; Metropolis weights of those in use.

    Parameters
    ----------
    topology : Topology
        Connected.
    probability : float
        Above 0, at most 1. Links that fail with probability q, noticed before weights are set: ``1 - q``; noticed
        afterwards: :class:`LinkFailures`.
    seed : int
        Public, 0 to 2**128 - 1. Never a secret, and never derived from data.
    full_every : int, optional
        All links are used in rounds that are a multiple of this; then Assumption 2 holds for certain.
    """

    def __init__(self, topology: Topology, probability: float, *, seed: int, full_every: int | None = None) -> None:
        super().__init__(topology, full_every)
        self.probability = number(probability=probability, above=0.0, at_most=1.0)
        self.seed = checked_seed(seed)
        self.min_weight = self._smallest
        self._limit = threshold(self.probability)
        if self.probability == 1.0:
            self.window = 1

    def _units(self, t: int) -> Integers:
        words = public_words(self.seed, Purpose.SUBGRAPH, t, self.topology.n_edges)
        return metropolis_units(self.topology, below(words, self._limit))

    def __repr__(self) -> str:
        return (
            f"RandomSubgraph({self.topology!r}, {self.probability!r}, seed={self.seed}, full_every={self.full_every})"
        )


class RandomNeighbors(_LinkSchedule):
    """Every node calls a random part of its neighbours; a link is in use when either end calls; Metropolis weights.

    Parameters
    ----------
    topology : Topology
        Connected.
    calls : int
        Neighbours that a node calls in a round, drawn evenly without replacement; all, where it has fewer.
    seed : int
        Public, 0 to 2**128 - 1.
    full_every : int, optional
        All links are used in rounds that are a multiple of this; then Assumption 2 holds for certain.
    """

    def __init__(self, topology: Topology, calls: int, *, seed: int, full_every: int | None = None) -> None:
        super().__init__(topology, full_every)
        self.calls = integer(calls=calls, at_least=1, at_most=MAX_NODES)
        self.seed = checked_seed(seed)
        self.min_weight = self._smallest
        caller = np.repeat(np.arange(topology.n_nodes), topology.degrees)
        ends = np.stack([np.minimum(caller, topology.indices), np.maximum(caller, topology.indices)], axis=1)
        keys = topology.edges[:, 0] * topology.n_nodes + topology.edges[:, 1]
        self._caller = caller
        self._link = np.searchsorted(keys, ends[:, 0] * topology.n_nodes + ends[:, 1])
        if self.calls >= int(topology.degrees.max()):
            self.window = 1

    def _units(self, t: int) -> Integers:
        words = public_words(self.seed, Purpose.NEIGHBORS, t, len(self._caller))
        order = np.lexsort((words, self._caller))  # those of one caller stay together, in random order
        place = np.arange(len(order)) - self.topology.indptr[self._caller]
        active = np.zeros(self.topology.n_edges, dtype=np.bool_)
        active[self._link[order[place < self.calls]]] = True
        return metropolis_units(self.topology, active)

    def __repr__(self) -> str:
        return f"RandomNeighbors({self.topology!r}, {self.calls}, seed={self.seed}, full_every={self.full_every})"


class RandomMatching(_LinkSchedule):
    """Disjoint pairs take averages of two: the greedy matching of the links in random order, maximal in every round.

    Parameters
    ----------
    topology : Topology
        Connected.
    seed : int
        Public, 0 to 2**128 - 1.
    full_every : int, optional
        All links are used, with Metropolis weights, in rounds that are a multiple of this; then Assumption 2 holds for
        certain.
    """

    def __init__(self, topology: Topology, *, seed: int, full_every: int | None = None) -> None:
        super().__init__(topology, full_every)
        self.seed = checked_seed(seed)
        pairs = 0.5 if topology.n_edges else 1.0
        self.min_weight = pairs if full_every is None else min(pairs, self._smallest)
        if topology.n_edges < 2:  # the only pair, in every round
            self.window = 1

    def _units(self, t: int) -> Integers:
        words = public_words(self.seed, Purpose.MATCHING, t, self.topology.n_edges)
        return np.where(_greedy_matching(self.topology, words), UNIT // 2, 0).astype(np.int64)

    def __repr__(self) -> str:
        return f"RandomMatching({self.topology!r}, seed={self.seed}, full_every={self.full_every})"


class Gossip(_LinkSchedule):
    """One link a round, drawn evenly: its two nodes take their average (Boyd et al. 2006).

    Parameters
    ----------
    topology : Topology
        Connected.
    seed : int
        Public, 0 to 2**128 - 1.
    full_every : int, optional
        All links are used, with Metropolis weights, in rounds that are a multiple of this; then Assumption 2 holds for
        certain.
    """

    def __init__(self, topology: Topology, *, seed: int, full_every: int | None = None) -> None:
        super().__init__(topology, full_every)
        self.seed = checked_seed(seed)
        pairs = 0.5 if topology.n_edges else 1.0
        self.min_weight = pairs if full_every is None else min(pairs, self._smallest)
        if topology.n_edges < 2:
            self.window = 1

    def _units(self, t: int) -> Integers:
        units = np.zeros(self.topology.n_edges, dtype=np.int64)
        if len(units):
            word = int(public_words(self.seed, Purpose.GOSSIP, t, 1)[0])
            units[word * len(units) >> 64] = UNIT // 2  # uniform up to n_edges / 2**64
        return units

    def __repr__(self) -> str:
        return f"Gossip({self.topology!r}, seed={self.seed}, full_every={self.full_every})"


class LinkFailures(MixingSchedule):
    """Another schedule whose links fail: both ends keep the weight that they had for each other.

    Parameters
    ----------
    schedule : MixingSchedule
        Symmetric in every round.
    probability : float
        At least 0, below 1: of a link in a round, independently of all others.
    seed : int
        Public, 0 to 2**128 - 1; independent of the schedule's, even where they are the same number.

    Notes
    -----
    What stays symmetric and doubly stochastic, diagonals only grow, and sums of privol's own weights stay exact. No
    window is certain (``window`` is None), unless the probability is 0.
    """

    def __init__(self, schedule: MixingSchedule, probability: float, *, seed: int) -> None:
        if not isinstance(schedule, MixingSchedule):
            raise InvalidParameter(f"schedule must be a MixingSchedule, found {type(schedule).__name__}")
        self.schedule = schedule
        self.probability = number(probability=probability, at_least=0.0, below=1.0)
        self.seed = checked_seed(seed)
        self.topology = schedule.topology
        self.min_weight = schedule.min_weight
        self.window = schedule.window if self.probability == 0.0 or self.n_nodes == 1 else None
        self._limit = threshold(self.probability)
        # nested failures are independent of each other
        self._depth: int = schedule._depth + 1 if isinstance(schedule, LinkFailures) else 0
        self._keys = self.topology.edges[:, 0] * self.n_nodes + self.topology.edges[:, 1]

    def _matrix(self, t: int) -> MixingMatrix:
        whole = self.schedule.matrix(t)
        if not whole.is_symmetric:
            raise InvalidParameter(f"schedule must be symmetric where links fail, found round {t}, which is not")
        words = public_words(self.seed, Purpose.FAILURES, t, self.topology.n_edges, item=self._depth)
        rows, columns = whole.rows, whole.indices
        own = rows == columns
        low, high = np.minimum(rows, columns), np.maximum(rows, columns)
        failed = np.zeros(len(rows), dtype=np.bool_)
        link = np.searchsorted(self._keys, (low * self.n_nodes + high)[~own])
        failed[~own] = below(words[link], self._limit)
        weights = whole.weights.copy()
        weights[own] += np.bincount(rows[failed], whole.weights[failed], self.n_nodes)
        counts = np.bincount(rows[~failed], minlength=self.n_nodes)
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return MixingMatrix(indptr, columns[~failed], weights[~failed])

    def __repr__(self) -> str:
        return f"LinkFailures({self.schedule!r}, {self.probability!r}, seed={self.seed})"


class CustomMixing(MixingSchedule):
    """Rounds from a function of one's own, each checked by :func:`mixing_matrix` when it is asked for.

    Parameters
    ----------
    function : callable
        ``function(t)`` for t = 1, 2, ...: a :class:`MixingMatrix`, array or sparse array. It must give every process
        the same matrix for the same t, and not depend on data.
    topology : Topology
        Graph outside of which no weight may be; connected.
    min_weight : float
        eta, above 0: no weight other than 0 may be smaller.
    window : int, optional
        N, as the caller vouches for it; :func:`check_schedule` tries it on the rounds of a run.
    """

    def __init__(
        self, function: Callable[[int], Any], *, topology: Topology, min_weight: float, window: int | None = None
    ) -> None:
        if not callable(function):
            raise InvalidParameter(f"function must be callable, found {type(function).__name__}")
        if not isinstance(topology, Topology):
            raise InvalidParameter(f"topology must be a Topology, found {type(topology).__name__}")
        topology.require_connected("topology")
        self.function = function
        self.topology = topology
        self.min_weight = number(min_weight=min_weight, above=0.0, at_most=1.0)
        self.window = None if window is None else integer(window=window, at_least=1, at_most=MAX_ROUND)

    def _matrix(self, t: int) -> MixingMatrix:
        given = self.function(t)
        try:
            return mixing_matrix(given, topology=self.topology, min_weight=self.min_weight)
        except InvalidParameter as err:
            raise InvalidParameter(f"round {t}: {err}") from err

    def __repr__(self) -> str:
        return f"CustomMixing({self.topology!r}, min_weight={self.min_weight!r}, window={self.window})"


def greedy_edge_coloring(topology: Topology) -> Integers:
    """Colour the links so that those of one node differ: each, in order, gets the smallest colour that is free.

    Parameters
    ----------
    topology : Topology

    Returns
    -------
    ndarray of int64, shape (n_edges,)
        0, 1, ...; at most ``2 * max degree - 1`` colours.
    """
    used: list[set[int]] = [set() for _ in range(topology.n_nodes)]
    colors = np.zeros(topology.n_edges, dtype=np.int64)
    for e, (i, j) in enumerate(topology.edges.tolist()):
        color = 0
        while color in used[i] or color in used[j]:
            color += 1
        used[i].add(color)
        used[j].add(color)
        colors[e] = color
    return colors


def _greedy_matching(topology: Topology, words: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Take links in ascending order of their words (ties: of their numbers) unless an end is taken, in parallel.

    The greedy pass takes a link that is the first of all remaining ones at both its ends, whatever else happens, so all
    such links can be taken together; after O(log n_edges) repetitions, most likely, none remains.
    """
    order = np.argsort(words, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    taken = np.zeros(len(order), dtype=np.bool_)
    left = np.arange(len(order))
    free = np.ones(topology.n_nodes, dtype=np.bool_)
    while len(left):
        i, j = topology.edges[left, 0], topology.edges[left, 1]
        first = np.full(topology.n_nodes, len(order))
        np.minimum.at(first, i, place[left])
        np.minimum.at(first, j, place[left])
        both = (first[i] == place[left]) & (first[j] == place[left])
        taken[left[both]] = True
        free[i[both]] = False
        free[j[both]] = False
        left = left[free[i] & free[j]]
    return taken
