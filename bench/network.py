"""Samples per second of DOLA: ``python bench/network.py``; with ``--ranks`` under mpiexec, the cost of an exchange.

64 nodes on an 8 x 8 grid, 54 features and the intercept, one sample per node and round, in one process: privol's
learner, and the same rounds in batched NumPy and scipy.sparse (all nodes at once; noise from ``numpy.random``, which no
guarantee covers), alternating; the figures are medians of ``--rounds``. Then the shares of noise, mixing and gradients
in the kernel's time, by omitting each: no noise, no neighbours, null rows. Then wide sparse rows. The limit of a sample
has its row, its share of a message's words and first pass, and a multiply-add for each neighbour's coordinate.

    mpiexec -n 2 python bench/network.py --ranks     (--dim, --nodes, --degree: more points for docs/scaling.md)
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from figures import Limit, Row, figure, no_limit, show
from limits import Work, memory, of_noise, of_release, of_row
from numpy.typing import NDArray
from scipy import sparse

from privol import DOLA, SparseDOLA
from privol.errors import PrivacyWarning
from privol.topology import RandomNeighbors, Topology, from_edges, grid, metropolis_weights

FloatArray = NDArray[np.float64]


def rows(n: int, d: int) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) / math.sqrt(d)
    return X, np.where(X @ rng.normal(size=d) > 0, 1.0, -1.0)


def learn(make: Callable[[], Any], X: Any, y: FloatArray) -> float:
    """Seconds per row, without the first rounds."""
    learner = make().set_params(horizon=X.shape[0]).declare_classes([-1.0, 1.0])
    learner.partial_fit(X[:640], y[:640])
    start = time.perf_counter()
    learner.partial_fit(X[640:], y[640:])
    return (time.perf_counter() - start) / (X.shape[0] - 640)


class Batched:
    """The same rounds in NumPy: all nodes at once, the mixing matrix as CSR or dense, whichever is faster here."""

    def __init__(self, nodes: Topology, d: int, horizon: int, *, dense: bool) -> None:
        plan = DOLA(topology=nodes).calibrate(d, horizon)
        weights = metropolis_weights(nodes)
        self.mixing = weights.to_dense() if dense else weights.to_scipy()
        self.bound, self.length, self.std = plan.gradient_bound, plan.length, plan.report.scale
        self.sent = np.zeros((nodes.n_nodes, d + 1))
        self.rng = np.random.default_rng(0)

    def fit(self, X: FloatArray, y: FloatArray) -> float:
        m, width = self.sent.shape
        start = time.perf_counter()
        for t in range(len(X) // m):
            x, labels = X[t * m : (t + 1) * m], y[t * m : (t + 1) * m]
            norms = np.sqrt(np.einsum("ij,ij->i", x, x))
            x = np.column_stack([x * np.minimum(1.0, 1.0 / norms)[:, None], np.ones(m)])
            b = self.mixing @ self.sent
            g = -labels / (1.0 + np.exp(labels * np.einsum("ij,ij->i", x, b)))
            step = g[:, None] * x + self.std * self.rng.standard_normal((m, width))
            self.sent = b - self.length / math.sqrt(t + 1.0) * step
            size = np.sqrt(np.einsum("ij,ij->i", self.sent, self.sent))
            self.sent *= np.minimum(1.0, 1.0 / size)[:, None]
        return (time.perf_counter() - start) / len(X)


def in_one_process(repeats: int) -> None:
    n, d = 64 * 6000, 54
    X, y = rows(n, d)
    nodes = grid(8, 8)
    null = np.zeros_like(X)
    words: dict[str, Any] = {"random_state": 0, "release": "last"}
    # Algorithm 1 as in its source: random neighbours in every round, with matrices made in Python
    random = RandomNeighbors(nodes, 2, seed=1)
    source: dict[str, Any] = {
        "loss": "hinge", "randomizer": "laplace", "noise_position": "output", "step_size": 0.5,
        "calibration": "published",
    }  # fmt: skip
    timed: dict[str, Callable[[], float]] = {
        "privol": lambda: learn(lambda: DOLA(topology=nodes, **words), X, y),
        "privol, every round released": lambda: learn(lambda: DOLA(topology=nodes, random_state=0), X, y),
        "privol, l2laplace": lambda: learn(lambda: DOLA(topology=nodes, randomizer="l2laplace", **words), X, y),
        "privol, 10 samples a node": lambda: learn(lambda: DOLA(topology=nodes, batch=10, **words), X, y),
        "SparseDOLA": lambda: learn(lambda: SparseDOLA(topology=nodes, **words), X, y),
        "privol, as published": lambda: learn(lambda: DOLA(topology=random, **source, **words), X, y),
        "NumPy, CSR mixing": lambda: Batched(nodes, d, n, dense=False).fit(X, y),
        "NumPy, dense mixing": lambda: Batched(nodes, d, n, dense=True).fit(X, y),
        "privol, no noise": lambda: learn(lambda: DOLA(topology=nodes, epsilon=math.inf, step_size=0.5, **words), X, y),
        "privol, no neighbours": lambda: learn(lambda: DOLA(nodes=1, **words), X, y),  # its mix is its own message
        "privol, null rows": lambda: learn(lambda: DOLA(topology=nodes, **words), null, y),
    }
    found: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(repeats):
        for name, run in timed.items():
            found[name].append(run())
    seconds = {name: statistics.median(values) for name, values in found.items()}
    own = seconds["privol"]
    table = in_limits(found, nodes, d)
    best = min(seconds["NumPy, CSR mixing"], seconds["NumPy, dense mixing"])
    print(f"{'':32} {'samples/s':>12} {'over NumPy':>11}")
    for name, value in seconds.items():
        print(f"{name:32} {1.0 / value:12,.0f} {best / value:11.2f}")
    print(f"\nof {own * 1e9:.0f} ns a sample (aim: at most 500, and 2.5 over NumPy):")
    for name, without in (("noise", "privol, no noise"), ("mixing", "privol, no neighbours")):
        print(f"  {name:24} {(own - seconds[without]) * 1e9:6.0f} ns ({100 * (1 - seconds[without] / own):.0f} %)")
    gradient = own - seconds["privol, null rows"]
    print(f"  {'gradients':24} {gradient * 1e9:6.0f} ns ({100 * gradient / own:.0f} %)")
    show(table + wide(words))


def in_limits(found: dict[str, list[float]], nodes: Topology, d: int) -> list[Row]:
    """Samples a second beside NumPy's and what a sample needs at least."""
    width, heard = d + 1, float(np.mean(nodes.degrees)) + 1.0
    gradient, noise, mix = of_row(d), of_noise(width), Work(multiply_adds=heard * width)
    step = of_release(width)
    needed = {
        "privol": gradient + noise + mix + step,
        "privol, every round released": gradient + noise + mix + step,
        "privol, l2laplace": gradient + Work(blocks=0.75 * width) + mix + step,
        "privol, 10 samples a node": gradient + (noise + mix + step) * 0.1,
        "SparseDOLA": gradient + noise + mix + step,
        "privol, as published": gradient + of_noise(width, "laplace") + Work(multiply_adds=3 * width) + step,
        "privol, no noise": gradient + mix + step,
        "privol, no neighbours": gradient + noise + step,
        "privol, null rows": noise + mix + step,
    }
    peers = [found["NumPy, CSR mixing"], found["NumPy, dense mixing"]]
    peer = min(peers, key=statistics.median)
    table = []
    for name, work in needed.items():
        own = found[name]
        words: dict[str, Any] = {"peer_name": "the rounds of privol in NumPy", "peer": 1 / statistics.median(peer)}
        words["ratios"] = [b / a for a, b in zip(own, peer, strict=True)]
        if name == "privol":
            words["aim"] = "2,000,000"
        limit = work.limit("samples/s")
        table.append(figure(name, "samples/s", 1 / statistics.median(own), limit=limit, **words))
    return table


def wide(words: dict[str, Any]) -> list[Row]:
    """Sparse rows of text: the cost of a sample in addition to the message of its node."""
    rng = np.random.default_rng(1)
    X = sparse.random(64 * 40, 47236, density=75 / 47236, format="csr", rng=rng)
    y = np.where(rng.random(X.shape[0]) > 0.5, 1.0, -1.0)
    print("\n47,236 features, 75 of them in a row:")
    table = []
    for nodes, batch in ((64, 1), (64, 40), (1, 2560)):
        graph = grid(8, nodes // 8) if nodes > 1 else grid(1, 1)
        learner = SparseDOLA(topology=graph, batch=batch, threshold="published", l1=1.0, **words)
        start = time.perf_counter()
        learner.fit(X, y)
        seconds = time.perf_counter() - start
        messages = learner._run.state.rounds * nodes
        each = f"{seconds / X.shape[0] * 1e6:8.1f} us a sample, {seconds / messages * 1e6:8.1f} us a message"
        print(f"  {nodes:2} nodes, batch {batch:4}: {each}")
        width, heard = X.shape[1] + 1, float(np.mean(graph.degrees)) + 1.0
        rows_of_message = Work(memory=75.0 * 12, multiply_adds=75.0 * 3, exponentials=1.0) * batch
        work = rows_of_message + of_noise(width) + of_release(width) + Work(multiply_adds=heard * width)
        title, value = f"SparseDOLA, 47,236 features, {nodes} nodes, batch {batch}", seconds / messages * 1e6
        table.append(figure(title, "us/message", value, limit=work.limit("us/message")))
    return table


def over_ranks(dim: int, nodes: int, degree: int, repeats: int) -> None:
    """A round on a number of ranks: nodes on a ring with ``degree`` neighbours each."""
    from privol.distributed import DealtRows, Ranks

    ranks = Ranks()
    far = np.arange(1, degree // 2 + 1)
    ends = np.array([(i, (i + k) % nodes) for i in range(nodes) for k in far])
    graph = from_edges(nodes, ends, simplify=True)
    count = max(64, 200_000 // dim)
    X, y = rows(nodes * count, dim - 1)

    class Block:
        def __init__(self, X: FloatArray, y: FloatArray) -> None:
            self.X, self.y, self.first_row = X, y, 0

    class Rows:
        n_rows, classes = nodes * count, (0, 1)

        def __iter__(self) -> Any:
            yield Block(X, (y > 0).astype(float))

    dealt = DealtRows(Rows(), ranks, nodes)
    blocks = list(dealt)

    class Here:
        n_rows, classes = dealt.n_rows, dealt.classes

        def __iter__(self) -> Any:
            return iter(blocks)

    def make(graph: Topology) -> Any:
        return DOLA(topology=graph, random_state=0, release="last")

    # the terms of the model in docs/scaling.md: the nodes here alone, and an exchange alone
    _, own = ranks.part(nodes)
    near = [(i, i + k) for k in far for i in range(own - k)]
    alone = from_edges(own, near, simplify=True)
    exchange = ranks.exchange(make(graph).mixing(), dim)
    sent = np.zeros((own + len(exchange.heard), dim))
    kernel, exchanged, whole = [], [], []
    for _ in range(repeats):
        kernel.append(learn(lambda: make(alone), blocks[0].X, np.where(blocks[0].y > 0, 1.0, -1.0)) * own)
        ranks.barrier()
        start = time.perf_counter()
        for t in range(count):
            exchange(t + 1, sent)
        exchanged.append((time.perf_counter() - start) / count)
        before = ranks.bytes
        ranks.barrier()
        start = time.perf_counter()
        make(graph).fit_ranks(Here(), ranks)
        whole.append((time.perf_counter() - start) / count)
        carried = (ranks.bytes - before) / count
    if ranks.rank == 0:
        here, carry, round_ = (statistics.median(times) * 1e6 for times in (kernel, exchanged, whole))
        print(
            f"{ranks.size} ranks, {nodes} nodes of degree {graph.degrees.max()}, {dim:,} numbers: {round_:8.1f} us a "
            f"round; model {here + carry:8.1f} = {here:8.1f} for {own} nodes + {carry:7.1f} for {carried:,.0f} bytes "
            "from rank 0"
        )
        of = "kernel of the nodes here and an exchange, each alone (docs/scaling.md)"
        title = f"a round of {ranks.size} ranks, {nodes} nodes, {dim:,} numbers"
        sent_alone = no_limit("one rank sends nothing") if ranks.size == 1 else copied(carried)
        show(
            [
                figure(title, "us", round_, limit=Limit(here + carry, of)),
                figure(f"{title}: the exchange", "us", carry, limit=sent_alone),
            ]
        )


def copied(size: float) -> Limit:
    """Bytes that go from one process to another on this machine: read once."""
    return Limit(size * memory() / 1e3, f"{size:,.0f} bytes read from memory")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="repetitions, of which the median counts")
    parser.add_argument("--ranks", action="store_true", help="under mpiexec: the time of a round")
    parser.add_argument("--dim", type=int, default=55)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--degree", type=int, default=4)
    words = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    if words.ranks:
        over_ranks(words.dim, words.nodes, words.degree, words.rounds)
    else:
        in_one_process(words.rounds)


if __name__ == "__main__":
    main()
