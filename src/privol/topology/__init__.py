"""Graphs of nodes that learn together, and doubly stochastic mixing of their messages, fixed or changing every round.

A :class:`Topology` states who may hear whom; a :class:`MixingSchedule` has for every round t a sparse matrix
A_t (:class:`MixingMatrix`) by which nodes average what they hear. Both are public and must not depend on data: random
ones follow from a public seed and t alone, by integer arithmetic, so that all processes have the same ones, in any
order and on any machine. The rows and columns of the weights made here add up to exactly 1 in floating point.

The conditions are Assumption 2 of Li et al. (2018), with the diagonal, which it omits: weights are not negative, those
other than 0 and those on the diagonal are at least eta, rows and columns add up to 1, and the links of any N
consecutive rounds connect all nodes. ``docs/topology.md`` says which one to choose when.

Sources: Li et al. 2018 (DOLA); Xiao and Boyd 2004 (Metropolis weights); Boyd et al. 2006 (gossip); Ram, Nedić and
Veeravalli 2010 (Lemma 3).
"""

from ._generators import (
    PRESETS,
    complete,
    erdos_renyi,
    grid,
    preset,
    random_geometric,
    ring,
    small_world,
    star,
    torus,
)
from ._graph import Topology, from_edges, from_networkx
from ._matrix import MixingMatrix, metropolis_weights, mixing_matrix
from ._rates import (
    MixingConditions,
    TransitionBound,
    algebraic_connectivity,
    check_schedule,
    consensus_distance_bound,
    contraction,
    joint_window,
    mean_square_rate,
    second_singular_value,
    spectral_gap,
    transition_bound,
    transition_matrix,
)
from ._records import from_record, to_record
from ._schedules import (
    CustomMixing,
    Gossip,
    LinkFailures,
    MatchingCycle,
    MixingSchedule,
    PeriodicMixing,
    RandomMatching,
    RandomNeighbors,
    RandomSubgraph,
    StaticMixing,
    greedy_edge_coloring,
)

__all__ = [
    "PRESETS",
    "CustomMixing",
    "Gossip",
    "LinkFailures",
    "MatchingCycle",
    "MixingConditions",
    "MixingMatrix",
    "MixingSchedule",
    "PeriodicMixing",
    "RandomMatching",
    "RandomNeighbors",
    "RandomSubgraph",
    "StaticMixing",
    "Topology",
    "TransitionBound",
    "algebraic_connectivity",
    "check_schedule",
    "complete",
    "consensus_distance_bound",
    "contraction",
    "erdos_renyi",
    "from_edges",
    "from_networkx",
    "from_record",
    "greedy_edge_coloring",
    "grid",
    "joint_window",
    "mean_square_rate",
    "metropolis_weights",
    "mixing_matrix",
    "preset",
    "random_geometric",
    "ring",
    "second_singular_value",
    "small_world",
    "spectral_gap",
    "star",
    "to_record",
    "torus",
    "transition_bound",
    "transition_matrix",
]
