"""Graphs and schedules as JSON values, by which a kept run is recognised."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InvalidParameter
from ._graph import Topology, from_edges
from ._matrix import MixingMatrix
from ._schedules import (
    Gossip,
    LinkFailures,
    MatchingCycle,
    MixingSchedule,
    PeriodicMixing,
    RandomMatching,
    RandomNeighbors,
    RandomSubgraph,
    StaticMixing,
)

__all__ = ["from_record", "to_record"]

# The parameters of each: positional ones, then those with a name.
_MADE_FROM: dict[type[MixingSchedule], tuple[tuple[str, ...], tuple[str, ...]]] = {
    RandomSubgraph: (("topology", "probability"), ("seed", "full_every")),
    RandomNeighbors: (("topology", "calls"), ("seed", "full_every")),
    RandomMatching: (("topology",), ("seed", "full_every")),
    Gossip: (("topology",), ("seed", "full_every")),
    MatchingCycle: (("topology",), ()),
    LinkFailures: (("schedule", "probability"), ("seed",)),
}
_KINDS = {kind.__name__: kind for kind in _MADE_FROM}


def to_record(value: Topology | MixingSchedule) -> dict[str, Any]:
    """Return a graph or a schedule as JSON values; numbers keep every digit.

    Raises
    ------
    InvalidParameter
        If it is a :class:`CustomMixing`, whose function cannot be written.
    """
    if isinstance(value, Topology):
        return {"kind": "Topology", "n_nodes": value.n_nodes, "edges": value.edges.tolist()}
    names = _MADE_FROM.get(type(value))
    if names is not None:
        parts = {name: getattr(value, name) for name in (*names[0], *names[1])}
        nested = {name: to_record(part) for name, part in parts.items() if isinstance(part, (Topology, MixingSchedule))}
        return {"kind": type(value).__name__, **parts, **nested}
    if type(value) in (PeriodicMixing, StaticMixing):
        matrices = [value.matrix(t) for t in range(1, value.period + 1)]  # type: ignore[attr-defined]
        rows = [{name: getattr(a, name).tolist() for name in ("indptr", "indices", "weights")} for a in matrices]
        return {"kind": "PeriodicMixing", "topology": to_record(value.topology), "matrices": rows}
    raise InvalidParameter(f"topology {value!r} cannot be written")


def from_record(record: dict[str, Any]) -> Topology | MixingSchedule:
    """Make what :func:`to_record` has described; a fixed matrix becomes a :class:`PeriodicMixing` of it alone."""
    values = dict(record)
    kind = values.pop("kind")
    for name in ("topology", "schedule"):
        if name in values:
            values[name] = from_record(values[name])
    if kind == "Topology":
        return from_edges(values["n_nodes"], np.array(values["edges"], dtype=np.int64).reshape(-1, 2))
    if kind == "PeriodicMixing":
        matrices = [
            MixingMatrix(
                np.array(rows["indptr"], dtype=np.int64),
                np.array(rows["indices"], dtype=np.int64),
                np.array(rows["weights"], dtype=np.float64),
            )
            for rows in values["matrices"]
        ]
        return PeriodicMixing(matrices, topology=values["topology"])
    positional, named = _MADE_FROM[_KINDS[kind]]
    return _KINDS[kind](*(values[name] for name in positional), **{name: values[name] for name in named})
