"""Write the tables of docs/topology.md: the mixing rates of graphs and schedules.

Run from the repository's root: python tools/topology_table.py [--print]
Everything follows from public seeds, so the figures are the same every time.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pages import DOCS, parser_of, put

from privol import topology as tp
from privol.errors import InvalidParameter

PAGE = DOCS / "topology.md"
ROUNDS = 500

GRAPHS: dict[str, Callable[[], tp.Topology]] = {
    "`ring(64)`": lambda: tp.ring(64),
    "`grid(1, 64)`, a path": lambda: tp.grid(1, 64),
    "`star(64)`": lambda: tp.star(64),
    "`grid(8, 8)`": lambda: tp.grid(8, 8),
    "`torus(8, 8)`": lambda: tp.torus(8, 8),
    "`small_world(64, 4, 0.2, seed=0)`": lambda: tp.small_world(64, 4, 0.2, seed=0),
    "`erdos_renyi(64, 0.125, seed=0)`": lambda: tp.erdos_renyi(64, 0.125, seed=0),
    '`preset("sparse")`': lambda: tp.preset("sparse"),
    '`preset("medium")`': lambda: tp.preset("medium"),
    '`preset("dense")`': lambda: tp.preset("dense"),
    "`complete(64)`": lambda: tp.complete(64),
    "`ring(4)`": lambda: tp.ring(4),
    '`preset("sparse", 4)`': lambda: tp.preset("sparse", 4),
    '`preset("medium", 4)`': lambda: tp.preset("medium", 4),
    '`preset("dense", 4)`': lambda: tp.preset("dense", 4),
}
SCHEDULES: dict[str, Callable[[tp.Topology], tp.MixingSchedule]] = {
    "`StaticMixing(g)`": tp.StaticMixing,
    "`MatchingCycle(g)`": tp.MatchingCycle,
    "`RandomSubgraph(g, 0.5, seed=0)`": lambda g: tp.RandomSubgraph(g, 0.5, seed=0),
    "`RandomSubgraph(g, 0.25, seed=0)`": lambda g: tp.RandomSubgraph(g, 0.25, seed=0),
    "`RandomSubgraph(g, 0.25, seed=0, full_every=10)`": lambda g: tp.RandomSubgraph(g, 0.25, seed=0, full_every=10),
    "`RandomNeighbors(g, 1, seed=0)`": lambda g: tp.RandomNeighbors(g, 1, seed=0),
    "`RandomMatching(g, seed=0)`": lambda g: tp.RandomMatching(g, seed=0),
    "`LinkFailures(StaticMixing(g), 0.5, seed=0)`": lambda g: tp.LinkFailures(tp.StaticMixing(g), 0.5, seed=0),
    "`Gossip(g, seed=0)`": lambda g: tp.Gossip(g, seed=0),
}


def rate(rho: float) -> str:
    return "0" if rho < 1e-9 else f"{rho:.6f}"


def fold(rho: float) -> str:
    """Rounds in which distances shrink by e."""
    return "0" if rho < 1e-9 else f"{-1 / math.log(rho):,.1f}"


def graph_row(name: str) -> str:
    graph = GRAPHS[name]()
    matrix = tp.metropolis_weights(graph)
    rho = tp.second_singular_value(matrix)
    lemma = 1 / tp.transition_bound(matrix.min_weight, 1, graph.n_nodes).gap
    eta = f"1/{round(1 / matrix.min_weight)}"
    cells = [name, graph.n_edges, int(graph.degrees.max()), eta, rate(rho), rate(1 - rho), fold(rho), f"{lemma:,.0f}"]
    return "| " + " | ".join(map(str, cells)) + " |"


def schedule_row(name: str) -> str:
    schedule = SCHEDULES[name](tp.grid(8, 8))
    links = sum(len(schedule.matrix(t).edges) for t in range(1, ROUNDS + 1)) / ROUNDS
    try:
        mean_square = rate(tp.mean_square_rate(schedule, ROUNDS))
    except InvalidParameter:
        mean_square = "-"
    run = tp.contraction(schedule, ROUNDS)
    certain = "-" if schedule.window is None else schedule.window
    cells = [name, f"{links:.1f}", mean_square, rate(run), fold(run), certain, tp.joint_window(schedule, ROUNDS)]
    return "| " + " | ".join(map(str, cells)) + " |"


def tables() -> dict[str, str]:
    graphs = [
        "| graph | links | largest degree | eta | rho | gap 1 - rho | rounds to 1/e | 1 / (1 - beta), Lemma 3 |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *map(graph_row, GRAPHS),
    ]
    schedules = [
        f"| schedule, g = `grid(8, 8)` | links a round | rho, mean square | a round, rounds 1 to {ROUNDS} | "
        f"rounds to 1/e | `window` | `joint_window`, {ROUNDS} rounds |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *map(schedule_row, SCHEDULES),
    ]
    return {"graphs": "\n".join(graphs), "schedules": "\n".join(schedules)}


def main() -> None:
    given = parser_of(__doc__).parse_args()
    made = tables()
    if not given.write:
        print("\n\n".join(made.values()))
        return
    page = PAGE.read_text(encoding="utf-8")
    for name, table in made.items():
        page = put(page, name, "topology_table.py", table)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
