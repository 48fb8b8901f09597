"""Graphs by name. Random ones come from a public seed by integer arithmetic: the same graph on every machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from types import MappingProxyType

import numpy as np

from .._validate import choice, integer, number
from ..errors import InvalidParameter
from ._graph import MAX_NODES, Integers, Topology, from_edges
from ._words import Purpose, below, checked_seed, public_words, threshold

__all__ = [
    "PRESETS",
    "complete",
    "erdos_renyi",
    "grid",
    "preset",
    "random_geometric",
    "ring",
    "small_world",
    "star",
    "torus",
]

#: Squared radius of each preset, in units of log(n) / (pi n): about this times log(n) neighbours inside the square.
PRESETS: Mapping[str, float] = MappingProxyType({"sparse": 1.5, "medium": 3.0, "dense": 6.0})

_ATTEMPTS, _PAIRS = 1000, 2**27  # draws, and pairs examined in all of them
_SIDE = 2**31  # of the square that contains random geometric graphs: squared distances stay below 2**63
_MAX_DRAWN = 2**15  # nodes of graphs that examine every pair


def _nodes(n_nodes: int, at_most: int = MAX_NODES) -> int:
    return integer(n_nodes=n_nodes, at_least=1, at_most=at_most)


def ring(n_nodes: int) -> Topology:
    """Make a cycle: node i hears i - 1 and i + 1. Two nodes have one link, one node none.

    Parameters
    ----------
    n_nodes : int

    Returns
    -------
    Topology
    """
    n = _nodes(n_nodes)
    i = np.arange(n)
    return from_edges(n, np.stack([i, (i + 1) % n], axis=1), simplify=n < 3)


def star(n_nodes: int) -> Topology:
    """Make a star: node 0 hears all others, which hear nobody else.

    Parameters
    ----------
    n_nodes : int

    Returns
    -------
    Topology
    """
    n = _nodes(n_nodes)
    leaves = np.arange(1, n)
    return from_edges(n, np.stack([np.zeros_like(leaves), leaves], axis=1))


def complete(n_nodes: int) -> Topology:
    """Make a complete graph: everybody hears everybody.

    Parameters
    ----------
    n_nodes : int
        At most 2**15.

    Returns
    -------
    Topology
    """
    n = _nodes(n_nodes, _MAX_DRAWN)
    return Topology(n, np.stack(np.triu_indices(n, 1), axis=1).astype(np.int64))


def grid(rows: int, columns: int) -> Topology:
    """Make a rectangular lattice: node ``r * columns + c`` hears those above, below, left and right of it.

    Parameters
    ----------
    rows, columns : int
        ``rows=1`` is a path.

    Returns
    -------
    Topology
    """
    return _lattice(rows, columns, wrap=False)


def torus(rows: int, columns: int) -> Topology:
    """Make a lattice whose opposite borders touch. A side of 2 has no second link around, a side of 1 none.

    Parameters
    ----------
    rows, columns : int

    Returns
    -------
    Topology
    """
    return _lattice(rows, columns, wrap=True)


def _lattice(rows: int, columns: int, *, wrap: bool) -> Topology:
    height = integer(rows=rows, at_least=1, at_most=MAX_NODES)
    width = integer(columns=columns, at_least=1, at_most=MAX_NODES)
    if height * width > MAX_NODES:
        raise InvalidParameter(f"rows * columns must be at most {MAX_NODES}, found {height} * {width}")
    node = np.arange(height * width).reshape(height, width)
    right, down = np.roll(node, -1, axis=1), np.roll(node, -1, axis=0)
    links = [np.stack([node, right], axis=2), np.stack([node, down], axis=2)]
    if not wrap:
        links = [links[0][:, :-1], links[1][:-1]]
    return from_edges(height * width, np.concatenate([part.reshape(-1, 2) for part in links]), simplify=wrap)


def erdos_renyi(n_nodes: int, probability: float, *, seed: int) -> Topology:
    """Make a random graph in which every pair is linked with the same probability, independently (Gilbert 1959).

    Drawn again until it is connected, so the law is that of the graph given that it is.

    Parameters
    ----------
    n_nodes : int
        At most 2**15.
    probability : float
        0 to 1; connected graphs are common above ``log(n_nodes) / n_nodes``.
    seed : int
        Public, 0 to 2**128 - 1.

    Returns
    -------
    Topology

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range, or no draw of 1000 (of large graphs fewer, at least 20) is connected.
    """
    n = _nodes(n_nodes, _MAX_DRAWN)
    limit = threshold(number(probability=probability, at_least=0.0, at_most=1.0))
    key = checked_seed(seed)

    def draw(attempt: int) -> Topology:
        linked = [
            np.flatnonzero(below(public_words(key, Purpose.ERDOS_RENYI, attempt, n - 1 - i, item=i), limit)) + i + 1
            for i in range(n - 1)
        ]
        return _from_later_neighbors(n, linked)

    return _until_connected(draw, n, f"probability = {probability}")[0]


def random_geometric(n_nodes: int, radius: float, *, seed: int) -> Topology:
    """Scatter nodes evenly over the unit square and link those that are at most ``radius`` apart.

    Drawn again until it is connected. Coordinates are 31-bit integers and distances are compared exactly.

    Parameters
    ----------
    n_nodes : int
        At most 2**15.
    radius : float
        Above 0, in sides of the square; connected graphs are common above ``sqrt(log(n_nodes) / (pi * n_nodes))``.
    seed : int
        Public, 0 to 2**128 - 1.

    Returns
    -------
    Topology

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range, or no draw of 1000 (of large graphs fewer, at least 20) is connected.
    """
    n = _nodes(n_nodes, _MAX_DRAWN)
    squared = Fraction(number(radius=radius, above=0.0)) ** 2
    key = checked_seed(seed)
    return _until_connected(lambda attempt: _geometric(n, squared, key, attempt), n, f"radius = {radius}")[0]


def _geometric(n: int, squared_radius: Fraction, key: int, attempt: int) -> Topology:
    limit = min(math.floor(squared_radius * _SIDE**2), 2**63 - 1)
    words = public_words(key, Purpose.GEOMETRIC, attempt, n)
    x = (words >> np.uint64(33)).astype(np.int64)
    y = (words & np.uint64(_SIDE - 1)).astype(np.int64)
    linked = []
    for i in range(n - 1):
        dx, dy = x[i + 1 :] - x[i], y[i + 1 :] - y[i]
        linked.append(np.flatnonzero(dx * dx + dy * dy <= limit) + i + 1)
    return _from_later_neighbors(n, linked)


def small_world(n_nodes: int, neighbors: int, rewiring: float, *, seed: int) -> Topology:
    """Make a ring with shortcuts (Watts and Strogatz 1998), drawn again until it is connected.

    Every node is linked to its ``neighbors / 2`` next ones on either side of a ring; then each link (i, i + j), for
    j = 1 first, gives up its far end with probability ``rewiring`` for a node drawn evenly among those that i has no
    link to (if there is one).

    Parameters
    ----------
    n_nodes : int
    neighbors : int
        Even, 2 to ``n_nodes - 1``.
    rewiring : float
        0 (a ring) to 1.
    seed : int
        Public, 0 to 2**128 - 1.

    Returns
    -------
    Topology

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range, or no draw of 1000 (of large graphs fewer, at least 20) is connected.
    """
    n = _nodes(n_nodes)
    degree = integer(neighbors=neighbors, at_least=2, at_most=n - 1)
    if degree % 2:
        raise InvalidParameter(f"neighbors must be even, found {degree}")
    limit = threshold(number(rewiring=rewiring, at_least=0.0, at_most=1.0))
    key = checked_seed(seed)

    def draw(attempt: int) -> Topology:
        adjacent: list[set[int]] = [set() for _ in range(n)]
        lattice = [(i, (i + j) % n) for j in range(1, degree // 2 + 1) for i in range(n)]
        for i, k in lattice:
            adjacent[i].add(k)
            adjacent[k].add(i)
        words = public_words(key, Purpose.SMALL_WORLD, attempt, 2 * len(lattice))
        for (i, k), moves, word in zip(lattice, below(words[::2], limit).tolist(), words[1::2].tolist(), strict=True):
            free = n - 1 - len(adjacent[i])
            if not moves or not free:
                continue
            target = word * free >> 64  # uniform up to free / 2**64
            for taken in sorted(adjacent[i] | {i}):
                target += taken <= target
            adjacent[i].remove(k)
            adjacent[k].remove(i)
            adjacent[i].add(target)
            adjacent[target].add(i)
        return from_edges(n, [(i, k) for i in range(n) for k in adjacent[i] if i < k])

    return _until_connected(draw, n, f"neighbors = {degree}, rewiring = {rewiring}")[0]


def preset(name: str, n_nodes: int = 64, *, seed: int = 0) -> Topology:
    """Make a graph of one of three densities, in place of the "Topology 1, 2 and 3" of Li et al. (2018).

    The paper draws three random topologies over physical neighbours on 64 processors and says of them only that nodes
    have few neighbours, more, and most. Here they are random geometric graphs with squared radius
    ``c * log(n_nodes) / (pi * n_nodes)``: connectivity sets in around c = 1.

    Parameters
    ----------
    name : {"sparse", "medium", "dense"}
        Topology 1, 2 and 3: c = 1.5, 3 and 6.
    n_nodes : int, default=64
        64 and 4 are the paper's.
    seed : int, default=0
        Public, 0 to 2**128 - 1. The same seed has the same places for all three: those of the first draw for which
        "sparse" is connected. So its links are among those of "medium", and these among those of "dense".

    Returns
    -------
    Topology
    """
    asked = choice(tuple(PRESETS), name=name)
    n = _nodes(n_nodes, _MAX_DRAWN)
    key = checked_seed(seed)
    # so coarse that the last bit of a machine's log cannot matter
    unit = math.log(max(n, 2)) / (math.pi * n) * 2**24
    squared = {density: Fraction(round(factor * unit), 2**24) for density, factor in PRESETS.items()}
    found = f"n_nodes = {n}, seed = {seed}"
    sparse, attempt = _until_connected(lambda attempt: _geometric(n, squared["sparse"], key, attempt), n, found)
    return sparse if asked == "sparse" else _geometric(n, squared[asked], key, attempt)


def _from_later_neighbors(n: int, linked: list[Integers]) -> Topology:
    """Make a graph from the ascending later neighbours of all nodes except the last."""
    if not linked:
        return Topology(n, np.zeros((0, 2), dtype=np.int64))
    first = np.repeat(np.arange(n - 1), [len(later) for later in linked])
    return Topology(n, np.stack([first, np.concatenate(linked)], axis=1).astype(np.int64))


def _until_connected(draw: Callable[[int], Topology], n: int, found: str) -> tuple[Topology, int]:
    """Return the first connected graph and the number of the draw."""
    attempts = min(_ATTEMPTS, max(20, _PAIRS // n**2))
    for attempt in range(attempts):
        topology = draw(attempt)
        if topology.is_connected:
            return topology, attempt
    raise InvalidParameter(f"{attempts} random graphs were drawn and none is connected: {found} links too few nodes")
