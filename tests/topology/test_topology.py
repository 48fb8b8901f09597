"""Graphs and mixing matrices: against networkx and exact fractions, and all refusals.

Schedules and rates are in test_mixing.py.
"""

from __future__ import annotations

import copy
import importlib.util
import itertools
import math
import pickle
import re
import sys
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from places import ROOT
from scipy.sparse import coo_array, csr_array
from topology_tools import exact_sums

from privol import topology as tp
from privol.errors import InvalidParameter, StateError
from privol.topology import _words
from privol.topology._matrix import UNIT

GRAPHS = {
    "one node": tp.ring(1),
    "pair": tp.ring(2),
    "ring": tp.ring(7),
    "path": tp.grid(1, 5),
    "grid": tp.grid(4, 5),
    "torus": tp.torus(3, 4),
    "star": tp.star(9),
    "complete": tp.complete(11),
    "erdos_renyi": tp.erdos_renyi(30, 0.2, seed=1),
    "geometric": tp.random_geometric(30, 0.35, seed=1),
    "small_world": tp.small_world(30, 4, 0.3, seed=1),
    "sparse": tp.preset("sparse"),
    "dense": tp.preset("dense"),
}

PINNED_GRAPHS = {
    "erdos_renyi": "fb5d004991ea9307",
    "geometric": "7bc1d4220bea5adb",
    "small_world": "24b21d6111ba3b33",
    "sparse": "96e93205aa970789",
    "medium": "cf778a0273665ef4",
    "dense": "e07b3a888b138c73",
}


@pytest.mark.parametrize(
    ("graph", "other"),
    [
        (tp.ring(9), nx.cycle_graph(9)),
        (tp.ring(2), nx.path_graph(2)),
        (tp.star(6), nx.star_graph(5)),
        (tp.complete(6), nx.complete_graph(6)),
        (tp.complete(1), nx.complete_graph(1)),
        (tp.grid(1, 6), nx.path_graph(6)),
        (tp.grid(4, 3), nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 3))),
        (tp.torus(4, 3), nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 3, periodic=True))),
        (tp.torus(5, 1), nx.cycle_graph(5)),
        (tp.torus(2, 2), nx.convert_node_labels_to_integers(nx.grid_2d_graph(2, 2))),
        (tp.small_world(10, 4, 0.0, seed=3), nx.watts_strogatz_graph(10, 4, 0.0)),
    ],
)
def test_named_graphs_are_those_of_networkx(graph: tp.Topology, other: nx.Graph) -> None:
    assert graph == tp.from_networkx(other)
    assert graph.n_edges == other.number_of_edges()


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_is_consistent(name: str) -> None:
    graph = GRAPHS[name]
    other = graph.to_networkx()
    assert tp.from_networkx(other) == graph
    assert graph.is_connected
    assert nx.is_connected(other)
    for i in range(graph.n_nodes):
        assert graph.neighbors(i).tolist() == sorted(other[i])
        assert graph.degrees[i] == other.degree[i]
    if graph.n_nodes > 1:
        laplacian = nx.laplacian_matrix(other).toarray().astype(float)
        assert tp.algebraic_connectivity(graph) == pytest.approx(np.linalg.eigvalsh(laplacian)[1], abs=1e-12)
    for array in (graph.edges, graph.indptr, graph.indices, graph.degrees, graph.components):
        with pytest.raises(ValueError, match="read-only"):
            array[:1] = 0
    for same in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert same == graph
        assert not same.edges.flags.writeable
        assert hash(same) == hash(graph)


def test_graphs_differ() -> None:
    assert len({graph.digest for graph in GRAPHS.values()}) == len(GRAPHS)
    assert tp.ring(5) != tp.ring(6)
    assert tp.ring(5) != "ring"
    assert repr(tp.ring(5)).startswith("<Topology of 5 nodes and 5 edges")


def test_components() -> None:
    graph = tp.from_edges(6, [(4, 1), (2, 5)])
    assert graph.components.tolist() == [0, 1, 2, 3, 1, 2]
    assert not graph.is_connected
    assert tp.algebraic_connectivity(graph) == pytest.approx(0.0, abs=1e-12)
    assert graph.neighbors(0).tolist() == []


def test_random_graphs_are_a_function_of_their_seed() -> None:
    """Pinned: a graph of a seed must be the same on every machine, in every version."""
    made = {
        "erdos_renyi": tp.erdos_renyi(30, 0.2, seed=1),
        "geometric": tp.random_geometric(30, 0.35, seed=1),
        "small_world": tp.small_world(30, 4, 0.3, seed=1),
        "sparse": tp.preset("sparse"),
        "medium": tp.preset("medium"),
        "dense": tp.preset("dense"),
    }
    assert {name: graph.digest[:16] for name, graph in made.items()} == PINNED_GRAPHS
    assert tp.erdos_renyi(30, 0.2, seed=2) != made["erdos_renyi"]
    assert tp.erdos_renyi(30, 0.2, seed=1 + 2**64) != made["erdos_renyi"]


def test_the_words_are_those_of_philox() -> None:
    """Random123's known answers of philox4x64-10: all-zero and all-one counter and key."""
    ones = 2**64 - 1
    # NumPy increments the counter before it makes a block
    zero = np.random.Philox(key=0, counter=2**256 - 1).random_raw(4).tolist()
    assert zero == [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]
    full = np.random.Philox(key=2**128 - 1, counter=2**256 - 2).random_raw(4).tolist()
    assert full == [0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0]
    words = _words.public_words(5, 7, ones, 4, item=3)
    counter = np.array([0, 3, ones, 7], dtype=np.uint64)
    assert words.tolist() == np.random.Philox(key=5, counter=counter).random_raw(4).tolist()
    assert len({tuple(_words.public_words(5, p, t, 2, item=i)) for p in (1, 2) for t in (1, 2) for i in (0, 1)}) == 8


def test_thresholds_are_exact() -> None:
    assert _words.threshold(0.0) == 0
    assert _words.threshold(1.0) == 2**64
    assert _words.threshold(0.1) == round(Fraction(0.1) * 2**64)
    edge = np.array([0, 2**63 - 1, 2**63, 2**64 - 1], dtype=np.uint64)
    assert _words.below(edge, _words.threshold(0.5)).tolist() == [True, True, False, False]
    assert _words.below(edge, _words.threshold(1.0)).all()
    assert not _words.below(edge, _words.threshold(0.0)).any()


def test_the_densities_are_in_order() -> None:
    """Topologies 1, 2, 3: the same nodes, longer links; few neighbours, more, most."""
    sparse, medium, dense = (tp.preset(name) for name in tp.PRESETS)
    assert sparse.n_nodes == medium.n_nodes == dense.n_nodes == 64
    links = [{tuple(edge) for edge in graph.edges.tolist()} for graph in (sparse, medium, dense)]
    assert links[0] < links[1] < links[2]
    assert 2 * sparse.n_edges / 64 < 7 < 2 * medium.n_edges / 64 < 11 < 2 * dense.n_edges / 64
    rates = [tp.second_singular_value(tp.metropolis_weights(graph)) for graph in (sparse, medium, dense)]
    assert 1 > rates[0] > rates[1] > rates[2] > 0
    assert [tp.preset(name, 4).is_connected for name in tp.PRESETS] == [True] * 3
    assert tp.preset("dense", 1).n_edges == 0


def test_geometric_graphs_link_near_nodes() -> None:
    n, radius = 40, 0.3
    graph = tp.random_geometric(n, radius, seed=4)
    for attempt in itertools.count():
        words = [int(w) for w in _words.public_words(4, _words.Purpose.GEOMETRIC, attempt, n)]
        x, y = [w >> 33 for w in words], [w % 2**31 for w in words]
        near = [
            (i, j)
            for i, j in itertools.combinations(range(n), 2)
            if (x[i] - x[j]) ** 2 + (y[i] - y[j]) ** 2 <= Fraction(radius) ** 2 * 2**62
        ]
        if tp.from_edges(n, near).is_connected:
            break
    assert graph.edges.tolist() == [list(pair) for pair in near]
    assert tp.random_geometric(9, 5.0, seed=0) == tp.complete(9)


def test_small_worlds_keep_their_links() -> None:
    for rewiring in (0.0, 0.2, 1.0):
        graph = tp.small_world(25, 6, rewiring, seed=9)
        assert graph.n_edges == 75
    assert tp.small_world(5, 4, 1.0, seed=0) == tp.complete(5)  # no node is left to rewire to
    lattice = {tuple(edge) for edge in tp.small_world(25, 6, 0.0, seed=9).edges.tolist()}
    moved = [len({tuple(e) for e in tp.small_world(25, 6, p, seed=9).edges.tolist()} - lattice) for p in (0.1, 0.9)]
    assert 0 < moved[0] < 20 < moved[1]


def test_erdos_renyi_at_its_ends() -> None:
    assert tp.erdos_renyi(12, 1.0, seed=0) == tp.complete(12)
    assert tp.erdos_renyi(1, 0.0, seed=0).n_edges == 0
    with pytest.raises(InvalidParameter, match=r"1000 random graphs were drawn.*probability = 0.0"):
        tp.erdos_renyi(3, 0.0, seed=0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tp.ring(0), "n_nodes must be an integer of at least 1"),
        (lambda: tp.ring(3.0), "n_nodes must be an integer"),
        (lambda: tp.complete(2**15 + 1), "at most 32768"),
        (lambda: tp.grid(0, 4), "rows must be"),
        (lambda: tp.torus(4, -1), "columns must be"),
        (lambda: tp.grid(2**11, 2**11), r"rows \* columns must be at most 1048576"),
        (lambda: tp.erdos_renyi(5, 1.5, seed=0), "probability must be"),
        (lambda: tp.erdos_renyi(5, 0.5, seed=-1), "seed must be an integer of at least 0"),
        (lambda: tp.erdos_renyi(5, 0.5, seed=2**128), "seed must be"),
        (lambda: tp.random_geometric(5, 0.0, seed=0), "radius must be a finite number above 0"),
        (lambda: tp.random_geometric(40, 0.01, seed=0), r"none is connected: radius = 0.01 links too few nodes"),
        (lambda: tp.small_world(9, 3, 0.1, seed=0), "neighbors must be even, found 3"),
        (lambda: tp.small_world(4, 4, 0.1, seed=0), "neighbors must be an integer of at least 2 and at most 3"),
        (lambda: tp.small_world(9, 4, float("nan"), seed=0), "rewiring must be"),
        (lambda: tp.preset("thick"), "name must be one of 'sparse', 'medium', 'dense', found 'thick'"),
        (lambda: tp.ring(4).neighbors(4), "node must be an integer of at least 0 and at most 3"),
        (lambda: tp.from_edges(0, []), "n_nodes must be"),
        (lambda: tp.from_edges(3, [(0, 1), (1, 3)]), r"edge 1: nodes must be 0 to 2, found \(1, 3\)"),
        (lambda: tp.from_edges(3, [(0, 1), (-1, 2)]), r"edge 1: nodes must be 0 to 2, found \(-1, 2\)"),
        (lambda: tp.from_edges(3, [(0, 1), (2, 2)]), r"edge 1: \(2, 2\) is a self-loop"),
        (lambda: tp.from_edges(3, [(0, 1), (1, 2), (1, 0)]), r"edge 2: the link \(1, 0\) is there already"),
        (lambda: tp.from_edges(3, [(0, 1), (1,)]), "links of different lengths"),
        (lambda: tp.from_edges(3, [(0, 1, 2)]), r"found an array of shape \(1, 3\)"),
        (lambda: tp.from_edges(3, [(0, 1.5)]), "pairs of integers, found float64"),
        (lambda: tp.from_edges(3, [("0", "1")]), "pairs of integers"),
        (lambda: tp.from_networkx([(0, 1)]), "graph of networkx, found list"),
        (lambda: tp.from_networkx(nx.Graph), "graph of networkx, found type"),
        (lambda: tp.from_networkx(nx.Graph()), "at least 1 node, found none"),
        (lambda: tp.from_networkx(nx.DiGraph([(0, 1)])), "must be undirected"),
        (lambda: tp.from_networkx(nx.Graph([(0, 1), (1, 1)])), "self-loop"),
        (lambda: tp.from_networkx(nx.MultiGraph([(0, 1), (0, 1)])), "is there already"),
        (lambda: tp.algebraic_connectivity(tp.ring(1)), "n_nodes must be an integer of at least 2"),
    ],
)
def test_refused(make, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make()


def test_edge_lists_are_simplified_on_demand() -> None:
    listed = [(0, 1), (1, 0), (2, 2), (2, 1), (1, 2)]
    path = tp.from_edges(3, listed, simplify=True)
    assert path.edges.tolist() == [[0, 1], [1, 2]]
    assert tp.from_edges(3, iter([(2, 1), (1, 0)])) == path
    assert tp.from_edges(3, np.array([(2, 1), (1, 0)], dtype=np.uint8)) == path
    assert tp.from_networkx(nx.MultiGraph(listed), simplify=True) == path
    assert tp.from_edges(4, []).n_edges == 0
    with pytest.raises(InvalidParameter, match=r"edge 3: the link \(2, 1\)"):  # positions count the listed edges
        tp.from_edges(3, [(1, 2), (0, 1), (0, 2), (2, 1)])


def test_labels_of_networkx() -> None:
    words = nx.Graph([("c", "a"), ("a", "b")])  # in this order: c, a, b
    assert tp.from_networkx(words).edges.tolist() == [[0, 1], [1, 2]]
    shuffled = nx.Graph()
    shuffled.add_nodes_from([2, 0, 1])
    shuffled.add_edge(2, 0)
    assert tp.from_networkx(shuffled).edges.tolist() == [[0, 2]]


def test_without_networkx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    assert tp.preset("sparse").is_connected  # nothing else needs it
    with pytest.raises(StateError, match=r"pip install 'privol\[graphs\]'"):
        tp.ring(3).to_networkx()


@pytest.mark.parametrize("name", GRAPHS)
def test_metropolis_weights_are_doubly_stochastic_exactly(name: str) -> None:
    graph = GRAPHS[name]
    matrix = tp.metropolis_weights(graph)
    rows, columns = exact_sums(matrix)
    assert set(rows) == set(columns) == {Fraction(1)}
    assert matrix.is_symmetric
    assert matrix.edges.tolist() == graph.edges.tolist()
    dense = matrix.to_dense()
    rng = np.random.default_rng(0)
    for _ in range(5):  # every order of a floating-point sum is exact
        order = rng.permutation(graph.n_nodes)
        assert all(sum(row) == 1.0 for row in dense[:, order].tolist())
    for i, j in graph.edges.tolist():
        ideal = Fraction(1, 1 + int(max(graph.degrees[i], graph.degrees[j])))
        assert 0 <= ideal - Fraction(dense[i, j]) < Fraction(1, UNIT)
    eta = UNIT // (1 + int(graph.degrees.max())) / UNIT
    assert matrix.min_weight >= eta
    assert all(dense[i, i] >= 1 / (1 + graph.degrees[i]) - 1 / UNIT for i in range(graph.n_nodes))
    checked = tp.mixing_matrix(matrix.to_scipy(), topology=graph, min_weight=eta, tolerance=0.0)
    assert checked.digest == matrix.digest
    assert tp.mixing_matrix(dense).digest == matrix.digest


def test_metropolis_weights_of_a_path() -> None:
    third = UNIT // 3 / UNIT
    expected = [[1 - third, third, 0], [third, 1 - 2 * third, third], [0, third, 1 - third]]
    assert tp.metropolis_weights(tp.grid(1, 3)).to_dense().tolist() == expected
    assert tp.metropolis_weights(tp.from_edges(2, [])).to_dense().tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert tp.metropolis_weights(tp.ring(1)).to_dense().tolist() == [[1.0]]


def test_a_matrix_is_read_only_and_has_a_digest() -> None:
    matrix = tp.metropolis_weights(tp.ring(5))
    with pytest.raises(ValueError, match="read-only"):
        matrix.weights[0] = 1.0
    same = pickle.loads(pickle.dumps(matrix))
    assert same.digest == matrix.digest
    assert not same.weights.flags.writeable
    assert tp.mixing_matrix(matrix).digest == matrix.digest
    with pytest.raises(AttributeError):
        matrix.weights = matrix.weights
    sparse = matrix.to_scipy()
    sparse.data[:] = 0.0  # a copy
    assert matrix.min_weight > 0.3
    assert matrix.digest != tp.metropolis_weights(tp.ring(6)).digest
    assert repr(matrix) == "<MixingMatrix of 5 nodes, 15 weights of at least 0.333333>"


GOOD = [[0.5, 0.25, 0.25], [0.25, 0.75, 0.0], [0.25, 0.0, 0.75]]


def changed(*entries: tuple[int, int, float]) -> list[list[float]]:
    matrix = [list(row) for row in GOOD]
    for i, j, value in entries:
        matrix[i][j] = value
    return matrix


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([[0.5, 0.5]], {}, r"square, found shape \(1, 2\)"),
        (np.zeros((2, 2, 2)), {}, "square"),
        (np.zeros((0, 0)), {}, "n_nodes must be an integer of at least 1"),
        ([[1.0], [0.5, 0.5]], {}, "square array of real numbers"),
        ([["a"]], {}, "real numbers"),
        ([[1.0 + 0.0j]], {}, "real numbers: found entries of type complex128"),
        ([[True]], {}, "real numbers: found entries of type bool"),
        (changed((1, 0, -0.25)), {}, r"row 1, column 0: a weight must be finite and at least 0, found -0.25"),
        (changed((2, 2, math.nan)), {}, r"row 2, column 2: .* found nan"),
        (changed((0, 2, math.inf)), {}, r"row 0, column 2: .* found inf"),
        ([[0.0, 1.0], [1.0, 0.0]], {}, "row 0: node 0 must keep a part of its own value, found 0 on the diagonal"),
        (GOOD, {"min_weight": 0.3}, r"row 0, column 1: .* at least min_weight = 0.3, found 0.25"),
        (changed((0, 2, 0.0)), {}, "row 2 has a weight for node 0, row 0 has none for node 2"),
        (changed((1, 1, 0.76)), {}, r"row 1 must sum to 1 within 1e-12, found 1 \+0.01"),
        (changed((0, 0, 0.5 + 2e-12)), {}, r"row 0 must sum to 1"),
        (changed((0, 0, 0.5 + 2.0**-50)), {"tolerance": 0.0}, r"row 0 must sum to 1 within 0"),
        ([[0.5, 0.5], [0.25, 0.75]], {}, r"column 0 must sum to 1 within 1e-12, found 1 -0.25"),
        (GOOD, {"topology": tp.from_edges(3, [(0, 1), (1, 2)])}, "row 0 has a weight for node 2, which the topology"),
        (GOOD, {"topology": tp.ring(4)}, "the topology has 4 nodes, the matrix 3"),
        (GOOD, {"tolerance": 0.1}, "tolerance must be"),
        (GOOD, {"min_weight": 2.0}, "min_weight must be"),
        (csr_array([[1.0, 0.5], [0.0, 0.5]]), {}, "row 0 has a weight for node 1"),
    ],
)
def test_matrices_that_are_refused(values, options, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        tp.mixing_matrix(values, **options)


def test_custom_matrices_are_checked() -> None:
    matrix = tp.mixing_matrix(GOOD, topology=tp.complete(3), min_weight=0.25)
    assert matrix.to_dense().tolist() == GOOD
    assert matrix.edges.tolist() == [[0, 1], [0, 2]]
    assert matrix.is_symmetric
    double = coo_array(([0.25, 0.25, 0.5, 0.5, 0.5, 0.0], ([0, 0, 0, 1, 1, 1], [0, 0, 1, 0, 1, 1])), shape=(2, 2))
    assert tp.mixing_matrix(double).to_dense().tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert tp.mixing_matrix([[1]]).to_dense().tolist() == [[1.0]]
    assert tp.mixing_matrix(changed((0, 0, 0.5 + 9e-13))).n_nodes == 3
    lopsided = tp.mixing_matrix([[0.5, 0.25, 0.25], [0.125, 0.5, 0.375], [0.375, 0.25, 0.375]])
    assert not lopsided.is_symmetric


def test_the_page_has_what_the_script_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """All graphs, and one schedule for each kind of rate; the script has no state on which a row depends."""
    spec = importlib.util.spec_from_file_location("topology_table", ROOT / "tools" / "topology_table.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    spec.loader.exec_module(script)
    page = (ROOT / "docs" / "topology.md").read_text(encoding="utf-8")
    found = dict(re.findall(r"<!-- (\w+): tools/topology_table.py -->\n(.*?)<!-- end", page, re.DOTALL))
    rows = {name: table.strip().splitlines()[2:] for name, table in found.items()}
    assert rows["graphs"] == [script.graph_row(name) for name in script.GRAPHS]
    assert len(rows["schedules"]) == len(script.SCHEDULES)
    for k, name in enumerate(script.SCHEDULES):
        if name.startswith(("`MatchingCycle", "`RandomMatching")):
            assert rows["schedules"][k] == script.schedule_row(name)
