"""Mixing schedules and their rates: exact sums, enumeration, windows by brute force, the specification.

Graphs and single matrices are in test_topology.py.
"""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from alpha import rate
from scipy.stats import chi2
from topology_tools import exact_sums

from privol import topology as tp
from privol.errors import InvalidParameter
from privol.topology import _words
from privol.topology._connectivity import smallest_window

pytestmark = pytest.mark.statistical

GRID = tp.grid(4, 5)
GRAPHS = {
    "node": tp.ring(1),
    "pair": tp.ring(2),
    "star": tp.star(6),
    "grid": GRID,
    "medium": tp.preset("medium"),
}
TRIANGLE_AND_TAIL = tp.from_edges(4, [(0, 1), (0, 2), (1, 2), (2, 3)])

SCHEDULES: dict[str, Callable[[tp.Topology], tp.MixingSchedule]] = {
    "static": tp.StaticMixing,
    "matchings in turn": tp.MatchingCycle,
    "subgraph": lambda g: tp.RandomSubgraph(g, 0.4, seed=3),
    "subgraph, full": lambda g: tp.RandomSubgraph(g, 0.4, seed=3, full_every=5),
    "neighbours": lambda g: tp.RandomNeighbors(g, 1, seed=3),
    "neighbours, full": lambda g: tp.RandomNeighbors(g, 2, seed=3, full_every=5),
    "matching": lambda g: tp.RandomMatching(g, seed=3),
    "matching, full": lambda g: tp.RandomMatching(g, seed=3, full_every=5),
    "gossip": lambda g: tp.Gossip(g, seed=3),
    "gossip, full": lambda g: tp.Gossip(g, seed=3, full_every=5),
    "failures": lambda g: tp.LinkFailures(tp.StaticMixing(g), 0.3, seed=3),
    "failures of matchings": lambda g: tp.LinkFailures(tp.RandomMatching(g, seed=3), 0.3, seed=3),
    "failures twice": lambda g: tp.LinkFailures(tp.LinkFailures(tp.StaticMixing(g), 0.3, seed=3), 0.3, seed=3),
}


def dense(schedule: tp.MixingSchedule, t: int) -> np.ndarray:
    return schedule.matrix(t).to_dense()


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_every_round_is_doubly_stochastic_exactly(name: str, graph: tp.Topology) -> None:
    schedule = SCHEDULES[name](graph)
    allowed = {tuple(edge) for edge in graph.edges.tolist()}
    for t in [*range(1, 11), 10**12, 2**63 - 1]:
        matrix = schedule.matrix(t)
        rows, columns = exact_sums(matrix)
        assert set(rows) == set(columns) == {Fraction(1)}
        assert (np.add.reduceat(matrix.weights, matrix.indptr[:-1]) == 1.0).all()
        assert matrix.is_symmetric
        assert matrix.min_weight >= schedule.min_weight > 0
        assert {tuple(edge) for edge in matrix.edges.tolist()} <= allowed
        assert (np.diff(matrix.indptr) >= 1).all()
        assert matrix.to_dense().diagonal().min() >= schedule.min_weight
    assert schedule.n_nodes == graph.n_nodes
    assert schedule.topology.n_nodes == graph.n_nodes


@pytest.mark.parametrize("name", SCHEDULES)
def test_any_process_has_any_round_in_any_order(name: str) -> None:
    schedule, other = SCHEDULES[name](GRID), SCHEDULES[name](tp.from_edges(20, GRID.edges[::-1, ::-1]))
    forwards = [schedule.matrix(t).digest for t in range(1, 21)]
    backwards = [other.matrix(t).digest for t in range(20, 0, -1)]
    assert forwards == backwards[::-1]
    for same in (copy.deepcopy(schedule), pickle.loads(pickle.dumps(other))):
        assert same.matrix(7).digest == forwards[6]
    assert type(schedule).__name__ in repr(schedule)


PINNED = {
    "subgraph": "08a3bce0165d31cc",
    "neighbours": "0225aa8beb56bda4",
    "matching": "60f40b47331c414f",
    "gossip": "a323cb0867af411c",
    "failures": "413ca485371815bf",
    "failures twice": "e85ffde09ed45f0b",
}


@pytest.mark.parametrize("name", PINNED)
def test_rounds_of_a_seed_are_pinned(name: str) -> None:
    """The same on every machine and in every version: ranks must agree, and runs must be repeatable."""
    assert SCHEDULES[name](GRID).matrix(12).digest[:16] == PINNED[name]


def test_seeds_and_rounds_differ() -> None:
    made = [tp.RandomSubgraph(GRID, 0.5, seed=seed).matrix(t).digest for seed in (0, 1, 2**64) for t in (1, 2, 3)]
    assert len(set(made)) == 9
    once = tp.LinkFailures(tp.StaticMixing(GRID), 0.5, seed=0)
    twice = tp.LinkFailures(once, 0.5, seed=0)  # the same seed, but independent failures
    assert len(twice.matrix(1).edges) < len(once.matrix(1).edges)


# Distributions: links in use on a small graph, against probabilities by enumeration. Cells of all rounds together.


def subsets(n: int) -> list[tuple[int, ...]]:
    return [subset for k in range(n + 1) for subset in itertools.combinations(range(n), k)]


def law_of_subgraph(keep: float) -> dict[tuple[int, ...], float]:
    return {subset: keep ** len(subset) * (1 - keep) ** (4 - len(subset)) for subset in subsets(4)}


def greedy(edges: list[list[int]], order: tuple[int, ...] | list[int]) -> tuple[int, ...]:
    busy: set[int] = set()
    taken = []
    for e in order:
        if not busy & set(edges[e]):
            taken.append(e)
            busy |= set(edges[e])
    return tuple(sorted(taken))


def law_of_matching() -> dict[tuple[int, ...], float]:
    orders = list(itertools.permutations(range(4)))
    counts = Counter(greedy(TRIANGLE_AND_TAIL.edges.tolist(), order) for order in orders)
    return {links: count / len(orders) for links, count in counts.items()}


def law_of_neighbors() -> dict[tuple[int, ...], float]:
    edges = TRIANGLE_AND_TAIL.edges.tolist()
    choices = [[e for e in range(4) if node in edges[e]] for node in range(4)]
    law: Counter[tuple[int, ...]] = Counter()
    for calls in itertools.product(*choices):
        law[tuple(sorted(set(calls)))] += 1 / math.prod(map(len, choices))  # type: ignore[assignment]
    return dict(law)


LAWS = {
    "subgraph": (lambda g: tp.RandomSubgraph(g, 0.4, seed=0), law_of_subgraph(0.4)),
    "failures": (lambda g: tp.LinkFailures(tp.StaticMixing(g), 0.3, seed=0), law_of_subgraph(0.7)),
    "neighbours": (lambda g: tp.RandomNeighbors(g, 1, seed=0), law_of_neighbors()),
    "matching": (lambda g: tp.RandomMatching(g, seed=0), law_of_matching()),
    "gossip": (lambda g: tp.Gossip(g, seed=0), {(e,): 0.25 for e in range(4)}),
}


def drawn(schedule: tp.MixingSchedule, rounds: int) -> Counter[tuple[int, ...]]:
    number = {tuple(edge): e for e, edge in enumerate(TRIANGLE_AND_TAIL.edges.tolist())}
    edges = (schedule.matrix(t).edges.tolist() for t in range(1, rounds + 1))
    return Counter(tuple(number[tuple(edge)] for edge in links) for links in edges)


def statistic(schedule: tp.MixingSchedule, law: dict[tuple[int, ...], float], rounds: int) -> float:
    counts = drawn(schedule, rounds)
    assert set(counts) <= set(law)
    return sum((counts[links] - rounds * p) ** 2 / (rounds * p) for links, p in law.items())


@pytest.mark.parametrize("name", LAWS)
def test_links_have_their_probabilities(name: str) -> None:
    """Chi-squared over all sets of links; the smallest expected count is 19."""
    make, law = LAWS[name]
    assert sum(law.values()) == pytest.approx(1.0)
    critical = chi2.isf(rate("mixing.laws", len(LAWS)), len(law) - 1)
    assert statistic(make(TRIANGLE_AND_TAIL), law, 2400) < critical


def test_the_test_of_link_probabilities_detects_errors() -> None:
    critical = chi2.isf(rate("mixing.laws", len(LAWS)), 15)
    assert statistic(tp.RandomSubgraph(TRIANGLE_AND_TAIL, 0.5, seed=0), law_of_subgraph(0.4), 2400) > critical


def test_matchings_are_those_of_the_greedy_pass() -> None:
    graph = tp.preset("medium")
    edges = graph.edges.tolist()
    for t in range(1, 6):
        words = _words.public_words(3, _words.Purpose.MATCHING, t, graph.n_edges)
        taken = greedy(edges, np.argsort(words, kind="stable").tolist())
        assert tp.RandomMatching(graph, seed=3).matrix(t).edges.tolist() == [edges[e] for e in taken]


def test_calls_are_without_replacement() -> None:
    graph = tp.complete(9)
    degrees = np.diff(tp.RandomNeighbors(graph, 3, seed=0).matrix(1).indptr) - 1
    assert degrees.min() >= 3
    assert degrees.max() < 8
    assert tp.RandomNeighbors(graph, 8, seed=0).matrix(1).digest == tp.metropolis_weights(graph).digest


def test_edge_colours() -> None:
    for graph in (GRID, tp.ring(9), tp.complete(8), tp.preset("dense"), tp.ring(1)):
        colors = tp.greedy_edge_coloring(graph)
        assert len(colors) == graph.n_edges
        for i in range(graph.n_nodes):
            own = colors[(graph.edges == i).any(axis=1)].tolist()
            assert len(set(own)) == len(own)
        if graph.n_edges:
            assert colors.max() + 1 <= 2 * graph.degrees.max() - 1


# Windows


def brute_window(n: int, rounds: list[list[list[int]]]) -> int | None:
    for size in range(1, len(rounds) + 1):
        spans = [rounds[s : s + size] for s in range(len(rounds) - size + 1)]
        unions = [list(itertools.chain.from_iterable(span)) for span in spans]
        if all(tp.from_edges(n, union, simplify=True).is_connected for union in unions):
            return size
    return None


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_window_is_the_smallest(name: str) -> None:
    graph = tp.grid(2, 3)
    schedule = SCHEDULES[name](graph)
    for count in (1, 2, 6, 25):
        rounds = [schedule.matrix(t).edges.tolist() for t in range(1, count + 1)]
        found = tp.joint_window(schedule, count)
        assert found == brute_window(6, rounds)
        if found is None:
            with pytest.raises(InvalidParameter, match=rf"found rounds 1 to {count} without a path from node 0"):
                tp.check_schedule(schedule, count, window=count)
        else:
            conditions = tp.check_schedule(schedule, count, window=found)
            assert (conditions.window, conditions.rounds) == (found, count)
            assert conditions.min_weight >= schedule.min_weight
            if found > 1:
                with pytest.raises(InvalidParameter, match=rf"any {found - 1} consecutive rounds must connect"):
                    tp.check_schedule(schedule, count, window=found - 1)
    if schedule.window is not None and found is not None:
        assert found <= schedule.window


def test_long_windows_without_connection_are_refused() -> None:
    """Hundreds of rounds with the same link: it is one link, however often it is counted."""
    pair = tp.metropolis_weights(tp.from_edges(3, [(0, 1)]))
    schedule = tp.CustomMixing(lambda t: pair, topology=tp.grid(1, 3), min_weight=0.5)
    with pytest.raises(InvalidParameter, match=r"any 256 consecutive rounds .* rounds 1 to 256 .* node 0 to node 2"):
        tp.check_schedule(schedule, 256)
    assert tp.joint_window(schedule, 256) is None


def test_windows_of_spans() -> None:
    assert smallest_window([]) is None
    assert smallest_window([1, 1]) == 1
    assert smallest_window([None, 2, 3, 1]) == 3
    assert smallest_window([None, None, 3, 4, None]) is None
    assert smallest_window([None, 2, 3, 4]) == 4


def test_windows_that_are_certain() -> None:
    assert tp.StaticMixing(GRID).window == 1
    assert tp.MatchingCycle(GRID).window == tp.MatchingCycle(GRID).period == 4
    assert tp.RandomSubgraph(GRID, 0.5, seed=0).window is None
    assert tp.RandomSubgraph(GRID, 0.5, seed=0, full_every=7).window == 7
    assert tp.RandomSubgraph(GRID, 1.0, seed=0).window == 1
    assert tp.RandomNeighbors(GRID, 4, seed=0).window == 1
    assert tp.RandomMatching(tp.ring(2), seed=0).window == tp.Gossip(tp.ring(1), seed=0).window == 1
    assert tp.LinkFailures(tp.StaticMixing(GRID), 0.1, seed=0).window is None
    assert tp.LinkFailures(tp.StaticMixing(GRID), 0.0, seed=0).window == 1
    halves = [[[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]], [[1, 0, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]]]
    alternating = tp.PeriodicMixing(halves)
    assert (alternating.window, alternating.period, alternating.min_weight) == (2, 2, 0.5)
    assert tp.PeriodicMixing([halves[0], np.eye(3), np.eye(3), halves[1]]).window == 4
    assert tp.PeriodicMixing([halves[0], halves[1], np.full((3, 3), 1 / 3)]).window == 2
    assert alternating.matrix(1).to_dense().tolist() == alternating.matrix(3).to_dense().tolist() == halves[0]


def test_a_full_round_comes_every_so_often() -> None:
    full = tp.metropolis_weights(GRID).digest
    for name in ("subgraph, full", "neighbours, full", "matching, full", "gossip, full"):
        schedule = SCHEDULES[name](GRID)
        assert [schedule.matrix(t).digest == full for t in range(1, 11)] == [t % 5 == 0 for t in range(1, 11)]


def test_failed_weight_stays_with_both_ends() -> None:
    whole = tp.StaticMixing(GRID)
    broken = tp.LinkFailures(whole, 0.5, seed=1)
    before, after = dense(whole, 1), dense(broken, 1)
    failed = (before > 0) & (after == 0)
    assert failed.any()
    assert (failed == failed.T).all()
    expected = np.where(failed, 0.0, before)
    expected[np.diag_indices(20)] += np.where(failed, before, 0.0).sum(axis=1)
    assert after.tolist() == expected.tolist()


APART = tp.from_edges(4, [(0, 1), (1, 2)])
HALF = [[0.5, 0.5], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tp.StaticMixing(APART), "topology must be connected, found 2 components, among them 1 nodes without a "
         "neighbour, node 3 first: no path from node 0 to node 3"),
        (lambda: tp.StaticMixing(np.eye(2)), "links of all matrices together must be connected"),
        (lambda: tp.MatchingCycle(APART), "topology must be connected"),
        (lambda: tp.RandomSubgraph(APART, 0.5, seed=0), "topology must be connected"),
        (lambda: tp.RandomSubgraph(GRID, 0.0, seed=0), "probability must be a finite number above 0"),
        (lambda: tp.RandomSubgraph(GRID, 0.5, seed=-1), "seed must be"),
        (lambda: tp.RandomSubgraph(GRID, 0.5, seed=0, full_every=0), "full_every must be"),
        (lambda: tp.RandomSubgraph("ring", 0.5, seed=0), "topology must be a Topology, found str"),
        (lambda: tp.RandomNeighbors(GRID, 0, seed=0), "calls must be"),
        (lambda: tp.LinkFailures(tp.StaticMixing(GRID), 1.0, seed=0), "probability must be .* below 1"),
        (lambda: tp.LinkFailures(tp.StaticMixing(GRID), -0.1, seed=0), "probability must be"),
        (lambda: tp.LinkFailures(GRID, 0.1, seed=0), "schedule must be a MixingSchedule, found Topology"),
        (lambda: tp.PeriodicMixing([]), "at least one matrix"),
        (lambda: tp.PeriodicMixing(tp.metropolis_weights(GRID)), "must be a sequence"),
        (lambda: tp.PeriodicMixing([HALF, [[1, 0], [0.5, 0.5]]]), r"matrices\[1\]: row 1 has a weight"),
        (lambda: tp.PeriodicMixing([HALF, np.eye(3)]), r"matrices\[1\] has 3 nodes, matrices\[0\] has 2"),
        (lambda: tp.PeriodicMixing([np.full((3, 3), 1 / 3)], topology=tp.grid(1, 3)), "row 0 has a weight for node 2"),
        (lambda: tp.CustomMixing(HALF, topology=tp.ring(2), min_weight=0.5), "function must be callable"),
        (lambda: tp.CustomMixing(abs, topology=APART, min_weight=0.5), "topology must be connected"),
        (lambda: tp.CustomMixing(abs, topology=tp.ring(2), min_weight=0.0), "min_weight must be"),
        (lambda: tp.StaticMixing(GRID).matrix(0), "t must be an integer of at least 1"),
        (lambda: tp.Gossip(GRID, seed=0).matrix(2**63), "t must be"),
        (lambda: tp.second_singular_value(np.eye(2)), "matrix must be a MixingMatrix, found ndarray"),
        (lambda: tp.second_singular_value(tp.metropolis_weights(tp.ring(4097))), "n_nodes must be .* at most 4096"),
        (lambda: tp.mean_square_rate(tp.MatchingCycle(GRID)), "one law, found a period of 4 rounds"),
        (lambda: tp.mean_square_rate(tp.LinkFailures(tp.Gossip(GRID, seed=0, full_every=3), 0.1, seed=0)), "law"),
        (lambda: tp.transition_matrix(tp.StaticMixing(GRID), 3, 5), "last must be"),
        (lambda: tp.transition_bound(0.0, 1, 4), "min_weight must be"),
        (lambda: tp.transition_bound(0.5, 0, 4), "window must be"),
        (lambda: tp.consensus_distance_bound(1.5, [1.0], 1.0, 4), "rate must be"),
        (lambda: tp.consensus_distance_bound(0.5, [1.0, -1.0], 1.0, 4), "steps must be"),
    ],
)  # fmt: skip
def test_refused(make, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make()


def test_custom_rounds_are_checked_on_request() -> None:
    def alternate(t: int) -> object:
        if t == 4:
            return [[0.5, 0.5, 0], [0.5, 0.5 + 1e-9, 0], [0, 0, 1]]
        return tp.metropolis_weights(tp.from_edges(3, [(0, 1)] if t % 2 else [(1, 2)]))

    schedule = tp.CustomMixing(alternate, topology=tp.grid(1, 3), min_weight=0.5, window=2)
    assert tp.check_schedule(schedule, 3) == tp.MixingConditions(min_weight=0.5, window=2, rounds=3)
    with pytest.raises(InvalidParameter, match=r"round 4: row 1 must sum to 1 within 1e-12, found 1 \+1e-09"):
        tp.check_schedule(schedule, 4)
    with pytest.raises(InvalidParameter, match=r"round 1: row 0, column 0: .* at least min_weight = 0.6"):
        tp.check_schedule(schedule, 3, min_weight=0.6)
    with pytest.raises(InvalidParameter, match="rounds 1 to 1 without a path from node 0 to node 2"):
        tp.check_schedule(schedule, 3, window=1)
    lopsided = [[0.5, 0.25, 0.25], [0.125, 0.5, 0.375], [0.375, 0.25, 0.375]]
    with pytest.raises(InvalidParameter, match="must be symmetric where links fail, found round 1"):
        tp.LinkFailures(tp.StaticMixing(lopsided), 0.1, seed=0).matrix(1)


# Rates


def rho(graph: tp.Topology) -> float:
    return tp.second_singular_value(tp.metropolis_weights(graph))


def test_the_figures_of_the_specification() -> None:
    """Section 4.3, 64 nodes: rho, its rounds per e-fold, and 1 / (1 - beta) of Lemma 3."""
    assert rho(tp.ring(64)) == pytest.approx(0.996789817781465, abs=1e-14)
    assert rho(tp.grid(8, 8)) == pytest.approx(0.967705, abs=5e-7)
    assert rho(tp.complete(64)) == pytest.approx(0.0, abs=1e-14)
    assert -1 / math.log(rho(tp.ring(64))) == pytest.approx(311.0, abs=0.05)
    assert -1 / math.log(rho(tp.grid(8, 8))) == pytest.approx(30.46, abs=0.005)
    for graph, expected in ((tp.ring(64), 49152), (tp.grid(8, 8), 81920), (tp.complete(64), 1048576)):
        eta = tp.metropolis_weights(graph).min_weight
        assert 1 / tp.transition_bound(eta, 1, 64).gap == pytest.approx(expected, rel=1e-9)
    gossip = tp.Gossip(tp.grid(8, 8), seed=0)
    assert tp.mean_square_rate(gossip) ** 2 == pytest.approx(0.9993203530, abs=5e-11)
    assert -1 / math.log(tp.mean_square_rate(gossip)) == pytest.approx(2942, abs=0.5)


def test_rings_have_a_closed_form() -> None:
    for m in (4, 5, 12, 33):
        expected = (1 + 2 * math.cos(2 * math.pi / m)) / 3
        assert rho(tp.ring(m)) == pytest.approx(expected, abs=1e-14)
        assert tp.spectral_gap(tp.metropolis_weights(tp.ring(m))) == pytest.approx(1 - expected, abs=1e-14)
    assert rho(tp.ring(3)) == pytest.approx(0.0, abs=1e-15)
    assert rho(tp.ring(1)) == 0.0


def test_the_second_singular_value_of_asymmetric_matrices() -> None:
    values = [[0.5, 0.25, 0.25], [0.125, 0.5, 0.375], [0.375, 0.25, 0.375]]
    expected = np.linalg.svd(np.array(values))[1][1]
    assert tp.second_singular_value(tp.mixing_matrix(values)) == pytest.approx(expected, abs=1e-14)


def second_moment(law: dict[tuple[int, ...], float], halves: bool) -> np.ndarray:
    """E[A^T A] on the triangle with a tail, by enumeration in plain doubles."""
    edges, total = TRIANGLE_AND_TAIL.edges.tolist(), np.zeros((4, 4))
    for links, p in law.items():
        degrees = Counter(node for e in links for node in edges[e])
        a = np.zeros((4, 4))
        for i, j in (edges[e] for e in links):
            a[i, j] = a[j, i] = 0.5 if halves else 1 / (1 + max(degrees[i], degrees[j]))
        a += np.diag(1 - a.sum(axis=1))
        total += p * a.T @ a
    return total


@pytest.mark.parametrize("name", ["subgraph", "neighbours", "matching"])
def test_the_mean_square_rate_is_that_of_the_links_drawn(name: str) -> None:
    schedule, rounds = LAWS[name][0](TRIANGLE_AND_TAIL), 300
    shares = {links: count / rounds for links, count in drawn(schedule, rounds).items()}
    moment = second_moment(shares, halves=name == "matching")
    expected = math.sqrt(np.linalg.eigvalsh(moment - 0.25)[-1])
    assert tp.mean_square_rate(schedule, rounds) == pytest.approx(expected, rel=1e-12)


def test_the_mean_square_rate_of_gossip_is_exact() -> None:
    make, law = LAWS["gossip"]
    expected = math.sqrt(np.linalg.eigvalsh(second_moment(law, halves=True) - 0.25)[-1])
    assert tp.mean_square_rate(make(TRIANGLE_AND_TAIL)) == pytest.approx(expected, rel=1e-12)


def test_rates_of_what_does_not_change() -> None:
    static = tp.StaticMixing(GRID)
    expected = rho(GRID)
    assert tp.mean_square_rate(static) == expected
    assert tp.contraction(static, 40) == pytest.approx(expected, rel=1e-12)
    assert tp.contraction(static, 1, first=10**9) == pytest.approx(expected, rel=1e-12)
    assert tp.contraction(tp.StaticMixing(tp.complete(8)), 5) == 0.0
    assert tp.contraction(tp.StaticMixing(tp.ring(1)), 5) == tp.mean_square_rate(tp.StaticMixing(tp.ring(1))) == 0.0


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_product_of_rounds(name: str) -> None:
    schedule = SCHEDULES[name](GRID)
    product = np.eye(20)
    for t in range(4, 24):
        product = dense(schedule, t) @ product
    assert tp.transition_matrix(schedule, 23, 4) == pytest.approx(product, abs=1e-14)
    assert tp.contraction(schedule, 20, first=4) ** 20 == pytest.approx(np.linalg.norm(product - 0.05, 2), rel=1e-9)
    assert tp.transition_matrix(schedule, 3, 4).tolist() == np.eye(20).tolist()


@pytest.mark.parametrize("name", SCHEDULES)
def test_lemma_3_holds_with_the_diagonal(name: str) -> None:
    """Also with its theta replaced by the root, as docs/topology.md proves."""
    schedule = SCHEDULES[name](tp.grid(1, 3))
    conditions = tp.check_schedule(schedule, 60, window=60)
    bound = tp.transition_bound(conditions.min_weight, conditions.window, 3)
    product = np.eye(3)
    for k in range(1, 61):
        product = dense(schedule, k) @ product
        distance = float(np.abs(product - 1 / 3).max())
        assert distance <= bound.at(k) / math.sqrt(bound.theta) + 1e-15
        assert bound.at(k) == pytest.approx(bound.theta * bound.beta**k, rel=1e-12)


def test_lemma_3_fails_without_the_diagonal() -> None:
    """The printed assumption holds for [[0, 1], [1, 0]] with N = 1, which never mixes, and is refused."""
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    bound = tp.transition_bound(1.0, 1, 2)
    assert (np.linalg.matrix_power(swap, 1001) == swap).all()
    assert abs(swap[0, 0] - 0.5) > 1e20 * bound.at(1001)
    with pytest.raises(InvalidParameter, match="node 0 must keep a part of its own value"):
        tp.StaticMixing(swap)


def test_constants_of_lemma_3() -> None:
    bound = tp.transition_bound(0.25, 3, 5)
    factor = 1 - Fraction(1, 400)
    assert bound.theta == pytest.approx(float(factor**-2), rel=1e-15)
    assert bound.beta == pytest.approx(float(factor) ** (1 / 3), rel=1e-15)
    assert bound.gap == pytest.approx(1 - float(factor) ** (1 / 3), rel=1e-12)
    assert tp.transition_bound(1e-9, 1000, 10**6).gap == pytest.approx(1e-9 / (4e12 * 1000), rel=1e-12)


def test_the_distance_to_consensus_is_bounded() -> None:
    """Steps of norm H in the worst common direction, the slowest eigenvector: attains the bound up to signs."""
    graph, alpha = tp.ring(8), [1 / math.sqrt(t) for t in range(1, 31)]
    rate_, m, size = rho(graph), 8, 2.0
    bound = tp.consensus_distance_bound(rate_, alpha, size, m)
    expected = [math.sqrt(m) * size * sum(rate_ ** (t - k) * alpha[k] for k in range(t)) for t in range(30)]
    assert bound == pytest.approx(expected, rel=1e-12, abs=0.0)
    rng = np.random.default_rng(0)
    a = dense(tp.StaticMixing(graph), 1)
    slowest = np.linalg.eigh(a)[1][:, -2]
    for direction in (slowest[:, None] * math.sqrt(m), rng.normal(size=(m, 3)), np.sign(slowest)[:, None]):
        steps = direction / np.sqrt((direction**2).sum() / m) * size
        values = np.zeros_like(steps)
        for t in range(30):
            mixed = a @ values
            assert np.linalg.norm(mixed - mixed.mean(axis=0)) <= bound[t] * (1 + 1e-12)
            values = mixed + alpha[t] * steps
        if direction is slowest:
            assert np.linalg.norm(mixed - mixed.mean(axis=0)) == pytest.approx(bound[29])
    assert tp.consensus_distance_bound(0.5, [], 1.0, 4).tolist() == []
