"""Joint connectivity: the number of rounds whose links connect all nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree

from ._graph import Integers, Topology

__all__ = ["RecentLinks", "periodic_window", "smallest_window", "spans_of"]


class RecentLinks:
    """How far back one must look, round after round, for links that connect all nodes.

    A maximum spanning tree by the round in which a link was last in use has the largest possible smallest round.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._keys = topology.edges[:, 0] * topology.n_nodes + topology.edges[:, 1]
        self._last = np.zeros(topology.n_edges, dtype=np.int64)

    def add(self, t: int, edges: Integers) -> int | None:
        """Add the links of round t, the next; return how many rounds up to t suffice, or None if all do not."""
        n = self._topology.n_nodes
        self._last[np.searchsorted(self._keys, edges[:, 0] * n + edges[:, 1])] = t
        if n == 1:
            return 1
        seen = self._last > 0
        ends = self._topology.edges[seen].astype(np.int32)  # older SciPys accept only this type
        age = (t + 1 - self._last[seen]).astype(np.float64)
        tree = minimum_spanning_tree(csr_array((age, (ends[:, 0], ends[:, 1])), shape=(n, n)))
        return int(tree.data.max()) if tree.nnz == n - 1 else None


def periodic_window(union: Topology, rounds: Sequence[Integers]) -> int:
    """Return the smallest N such that any N consecutive rounds connect all nodes; ``union``, all links, does."""
    period = len(rounds)
    recent = RecentLinks(union)
    spans = [recent.add(t, rounds[(t - 1) % period]) for t in range(1, 2 * period + 1)]
    return max(span for span in spans[period:] if span is not None)  # by then every link has been seen


def spans_of(topology: Topology, rounds: Iterable[Integers]) -> list[int | None]:
    """Return, for every round, how many rounds up to it suffice to connect all nodes; None: all so far do not."""
    recent = RecentLinks(topology)
    return [recent.add(t, edges) for t, edges in enumerate(rounds, 1)]


def smallest_window(spans: Sequence[int | None]) -> int | None:
    """Return the smallest N, at most the number of rounds, that suffices for all N consecutive ones, or None."""
    window = None
    largest = 0
    # windows of length N end at rounds N, N + 1, ...: N suffices if no span from there on is above it
    for t in range(len(spans), 0, -1):
        span = spans[t - 1]
        if span is None:
            break
        largest = max(largest, span)
        if largest <= t:
            window = t
    return window
