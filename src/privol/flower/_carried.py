"""A network's run at one node, where messages bring what other nodes have sent: it goes on until it has to wait.

A node's run is that of a rank of MPI, kept on the disk. A call continues from the last checkpoint with all that has
come. Where something has not come yet, it ends with what the node sends meanwhile, and the next call continues from
there, with the same noise and hence the same message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidParameter, StateError
from ..topology import MixingSchedule

__all__ = ["LARGEST", "Carried", "Waiting", "heard_by", "share_of"]

FloatArray = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Of a parameter's magnitude: nodes send nothing larger.
LARGEST = 1e150


class Waiting(Exception):
    """The run waits for other nodes.

    Attributes
    ----------
    round : int
        The round that ends here; after the last one, the run.
    sent : ndarray
        What this node sends meanwhile: public.
    """

    def __init__(self, round_: int, sent: FloatArray) -> None:
        super().__init__("the run waits for what other nodes send")
        self.round, self.sent = round_, sent


def share_of(total: int, nodes: int) -> Integers:
    """Rows of each node, of a total that is dealt out in turn."""
    full, rest = divmod(total, nodes)
    return np.array([full + (node < rest) for node in range(nodes)], dtype=np.int64)


def heard_by(schedule: MixingSchedule, round_: int, node: int) -> Integers:
    """Nodes of which a node hears what they have sent in a round, ascending, without itself."""
    matrix = schedule.matrix(round_ + 1)  # it makes the points of the next round
    found = np.setdiff1d(matrix.indices[matrix.indptr[node] : matrix.indptr[node + 1]], [node])
    return found.astype(np.int64)


class Carried:
    """What a network's learner asks of :class:`privol.distributed.Ranks`, for one node whose messages others carry.

    Parameters
    ----------
    schedule : MixingSchedule
    node : int
    total, rounds : int
        Rows of all nodes, and rounds of the run.
    heard : mapping
        By round, what the nodes have sent that this one hears: rows in the order of :func:`heard_by`.
    everyone : ndarray, optional
        The rows of all nodes with which the run ends.
    """

    messages = bytes = 0

    def __init__(
        self,
        schedule: MixingSchedule,
        node: int,
        total: int,
        rounds: int,
        heard: Mapping[int, FloatArray],
        everyone: FloatArray | None = None,
    ) -> None:
        self.rank, self.size = node, schedule.n_nodes
        self._schedule, self._total, self._last = schedule, total, rounds
        self._heard, self._everyone = heard, everyone
        # for the kernel: all nodes that may be heard
        self.heard: Integers = np.delete(np.arange(self.size, dtype=np.int64), node)
        self.before: list[Callable[[int, FloatArray], object]] = []

    # ---- what ranks agree on: here each node has its learner's word for it, and the question's terms -----------------

    def part(self, nodes: int, rank: int | None = None) -> tuple[int, int]:
        """Every node is by itself."""
        return (self.rank if rank is None else rank), 1

    def counts(self, rows: int) -> Integers:
        """The shares of the total, which is public; that of this node is checked."""
        shares = share_of(self._total, self.size)
        if rows != shares[self.rank]:
            raise InvalidParameter(
                f"node {self.rank} must have {shares[self.rank]} of the {self._total} rows that {self.size} nodes have "
                f"in all, found {rows}"
            )
        return shares

    def gather(self, values: Any) -> Integers:
        """All other nodes are where this one is: what it waits for comes by messages."""
        return np.tile(np.asarray(values, dtype=np.int64), (self.size, 1))

    def gather_json(self, value: Any) -> list[Any]:
        """Others say nothing of users, who may have rows at several nodes."""
        silent: dict[str, Any] = {"rows_per_user": None, "user": None, "dealt": False, "conditions": []}
        return [value, *([silent] * (self.size - 1))]

    def agree(self, **values: Any) -> None:
        """The terms came with the question, and were compared."""

    def barrier(self) -> None:
        """Nobody waits for this node."""

    def fail(self, words: str) -> None:
        """Other nodes do not hear of this call's end."""

    def exchange(self, schedule: MixingSchedule, dim: int) -> Carried:
        """As :meth:`privol.distributed.Ranks.exchange`."""
        return self

    # ---- what messages carry ----------------------------------------------------------------------------------------

    def __call__(self, round_: int, sent: FloatArray) -> None:
        """End a round: take what was heard in it, or wait for it with what the node has sent."""
        for see in self.before:
            see(round_, sent[:1])
        rows = self._heard.get(round_)
        if rows is None:
            raise Waiting(round_, sent[0].copy())
        sent[1 + np.searchsorted(self.heard, heard_by(self._schedule, round_, self.rank))] = rows

    def gather_nodes(self, rows: FloatArray) -> FloatArray:
        """Return the rows of all nodes, or wait for them with those of this one."""
        if self._everyone is None:
            raise Waiting(self._last + 1, np.ascontiguousarray(rows[0]))
        if self._everyone[self.rank].tobytes() != rows[0].tobytes():
            raise StateError("what this node has sent at the end has come back as something else")
        return self._everyone
