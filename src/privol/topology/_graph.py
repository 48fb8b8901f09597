"""Undirected graphs: who may hear whom. An immutable CSR of sorted neighbours, from any input."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from .._validate import integer
from ..errors import InvalidParameter, StateError

__all__ = ["MAX_NODES", "Integers", "Topology", "connected_labels", "from_edges", "from_networkx", "frozen"]

Integers = NDArray[np.int64]

MAX_NODES = 2**20


def frozen(values: NDArray[Any]) -> NDArray[Any]:
    """Return the array, made read-only."""
    values.flags.writeable = False
    return values


def connected_labels(n_nodes: int, edges: Integers) -> tuple[int, Integers]:
    """Return the number of connected components of a graph, and the component of every node."""
    ones = np.ones(len(edges))  # those of double links are added up
    ends = edges.astype(np.int32)  # older SciPys accept only this type
    graph = csr_array((ones, (ends[:, 0], ends[:, 1])), shape=(n_nodes, n_nodes))
    count, labels = connected_components(graph, directed=False)
    return int(count), np.asarray(labels, dtype=np.int64)


class Topology:
    """An undirected graph without self-loops: which pairs of nodes may exchange messages.

    Made by :func:`ring`, :func:`grid`, :func:`torus`, :func:`star`, :func:`complete`, :func:`erdos_renyi`,
    :func:`random_geometric`, :func:`small_world`, :func:`preset`, :func:`from_edges` and :func:`from_networkx`. It is
    public, like everything of this module: privacy rests on what nodes send, not on who hears it. It must not depend
    on the data.

    Attributes
    ----------
    n_nodes : int
        Nodes are 0 to ``n_nodes - 1``.
    n_edges : int
    edges : ndarray of int64, shape (n_edges, 2)
        Each link once, the smaller node first, in lexicographic order; read-only.
    indptr, indices : ndarray of int64, shapes (n_nodes + 1,) and (2 * n_edges,)
        Node i's neighbours are ``indices[indptr[i]:indptr[i + 1]]``, ascending; read-only.
    degrees : ndarray of int64, shape (n_nodes,)
        Neighbours of each node, itself not counted.
    """

    def __init__(self, n_nodes: int, edges: Integers) -> None:
        # edges: already checked and in order; callers use the functions above
        self.n_nodes = n_nodes
        self.edges: Integers = frozen(edges)
        both = np.concatenate([edges, edges[:, ::-1]])
        both = both[np.lexsort((both[:, 1], both[:, 0]))]
        self.degrees: Integers = frozen(np.bincount(both[:, 0], minlength=n_nodes).astype(np.int64))
        self.indptr: Integers = frozen(np.concatenate([[0], np.cumsum(self.degrees)]).astype(np.int64))
        self.indices: Integers = frozen(np.ascontiguousarray(both[:, 1]))

    def __reduce__(self) -> tuple[type[Topology], tuple[int, Integers]]:
        return Topology, (self.n_nodes, self.edges)  # a copy is read-only as well

    @property
    def n_edges(self) -> int:
        """Number of links."""
        return len(self.edges)

    def neighbors(self, node: int) -> Integers:
        """Return a node's neighbours, ascending, as a read-only view."""
        i = integer(node=node, at_least=0, at_most=self.n_nodes - 1)
        return self.indices[self.indptr[i] : self.indptr[i + 1]]

    @cached_property
    def components(self) -> Integers:
        """Connected component of every node, numbered by its first node; shape (n_nodes,)."""
        return frozen(connected_labels(self.n_nodes, self.edges)[1])

    @property
    def is_connected(self) -> bool:
        """Whether every node reaches every other; a single node does."""
        return int(self.components.max()) == 0

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the graph in hexadecimal: equal for equal graphs, on every machine."""
        data = self.n_nodes.to_bytes(8, "little") + self.edges.astype("<i8").tobytes()
        return hashlib.sha256(data).hexdigest()

    def to_networkx(self) -> Any:
        """Return a new ``networkx.Graph`` of the same nodes and links.

        Raises
        ------
        StateError
            If networkx is not installed (``pip install 'privol[graphs]'``).
        """
        try:
            import networkx
        except ImportError as err:
            raise StateError("Topology.to_networkx needs networkx: pip install 'privol[graphs]'") from err
        graph = networkx.Graph()
        graph.add_nodes_from(range(self.n_nodes))
        graph.add_edges_from(self.edges.tolist())
        return graph

    def require_connected(self, what: str) -> None:
        """Raise :class:`InvalidParameter`, naming nodes that are apart, if the graph is not connected."""
        if self.is_connected:
            return
        labels = self.components
        other = int(np.flatnonzero(labels)[0])
        lonely = np.flatnonzero(self.degrees == 0)
        alone = f", among them {len(lonely)} nodes without a neighbour, node {lonely[0]} first" if len(lonely) else ""
        found = f"{int(labels.max()) + 1} components{alone}: no path from node 0 to node {other}"
        raise InvalidParameter(f"{what} must be connected, found {found}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Topology):
            return NotImplemented
        return self.n_nodes == other.n_nodes and np.array_equal(self.edges, other.edges)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"<Topology of {self.n_nodes} nodes and {self.n_edges} edges, {self.digest[:12]}>"


def from_edges(n_nodes: int, edges: NDArray[Any] | Iterable[Sequence[int]], *, simplify: bool = False) -> Topology:
    """Make a graph from a list of links.

    Parameters
    ----------
    n_nodes : int
        Number of nodes, at least 1; a node that no link names has no neighbours.
    edges : array-like of int, shape (n_edges, 2), or iterable of pairs
        Links between nodes 0 to ``n_nodes - 1``, in any order and direction.
    simplify : bool, default=False
        Drop self-loops, and keep one of several links between two nodes (also of (i, j) and (j, i)), instead of
        refusing them.

    Returns
    -------
    Topology

    Raises
    ------
    InvalidParameter
        If a link is no pair of integers, names a node that is not there, is a self-loop or is there twice. The message
        has the link's position, 0-based.
    """
    n = integer(n_nodes=n_nodes, at_least=1, at_most=MAX_NODES)
    try:
        listed = np.asarray(edges if isinstance(edges, np.ndarray | list | tuple) else list(edges))
    except ValueError as err:  # pairs of different lengths
        raise InvalidParameter("edges must be pairs of nodes, found links of different lengths") from err
    if listed.size == 0:
        listed = np.zeros((0, 2), dtype=np.int64)
    if listed.ndim != 2 or listed.shape[1] != 2:
        raise InvalidParameter(f"edges must be pairs of nodes, found an array of shape {listed.shape}")
    if listed.dtype.kind not in "iu":
        raise InvalidParameter(f"edges must be pairs of integers, found {listed.dtype}")
    outside = np.flatnonzero(((listed < 0) | (listed >= n)).any(axis=1))
    if len(outside):
        k = int(outside[0])
        raise InvalidParameter(f"edge {k}: nodes must be 0 to {n - 1}, found {_pair(listed[k])}")
    pairs = np.sort(listed.astype(np.int64), axis=1)
    loops = pairs[:, 0] == pairs[:, 1]
    if loops.any() and not simplify:
        k = int(np.flatnonzero(loops)[0])
        raise InvalidParameter(
            f"edge {k}: {_pair(listed[k])} is a self-loop; every node hears itself anyway (simplify=True drops it)"
        )
    pairs = pairs[~loops]
    keys, first = np.unique(pairs[:, 0] * n + pairs[:, 1], return_index=True)
    if len(keys) < len(pairs) and not simplify:
        k = int(np.setdiff1d(np.arange(len(pairs)), first)[0])
        raise InvalidParameter(
            f"edge {k}: the link {_pair(listed[k])} is there already (links have no direction; simplify=True keeps one)"
        )
    return Topology(n, np.stack([keys // n, keys % n], axis=1))


def _pair(edge: Any) -> str:
    return f"({int(edge[0])}, {int(edge[1])})"


def from_networkx(graph: Any, *, simplify: bool = False) -> Topology:
    """Make a graph from one of networkx.

    Nodes labelled 0 to n - 1 keep their numbers; else they are numbered in the order of ``list(graph)``. Attributes,
    weights among them, are not looked at.

    Parameters
    ----------
    graph : networkx.Graph or networkx.MultiGraph
        Undirected, with at least one node.
    simplify : bool, default=False
        Drop self-loops and keep one of parallel links, instead of refusing them.

    Returns
    -------
    Topology

    Raises
    ------
    InvalidParameter
        If the argument is no graph, is directed, or has self-loops or parallel links and ``simplify`` is false.
    """
    methods = ("is_directed", "nodes", "edges", "number_of_nodes")
    if isinstance(graph, type) or not all(hasattr(graph, name) for name in methods):
        raise InvalidParameter(f"graph must be a graph of networkx, found {type(graph).__name__}")
    if graph.is_directed():
        raise InvalidParameter("graph must be undirected, found a directed one: graph.to_undirected() has every link")
    nodes = list(graph.nodes)
    if not nodes:
        raise InvalidParameter("graph must have at least 1 node, found none")
    integers = all(isinstance(v, int | np.integer) and not isinstance(v, bool) for v in nodes)
    if integers and {int(v) for v in nodes} == set(range(len(nodes))):
        number = {v: int(v) for v in nodes}
    else:
        number = {v: i for i, v in enumerate(nodes)}
    pairs = [(number[u], number[v]) for u, v in graph.edges()]
    return from_edges(len(nodes), pairs, simplify=simplify)
