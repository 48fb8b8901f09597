"""The time that privol takes, by the content of the rows: the figures of docs/limitations.md, "Time".

``python bench/timing_leaks.py``: nanoseconds per row, median of interleaved repetitions and the middle half of them,
for streams that differ only in their rows. Nothing is asserted: it shows what an observer of time sees. Each case
stands beside the first one of its kind: no difference would be 1.0, which is no aim (docs/limitations.md).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from figures import NONE, Row, figure, no_limit, show
from scipy import sparse

import privol
from privol.noise import decide_lattice_point

ROWS, FEATURES, REPEATS = 20_000, 54, 21


def rows(length: float, seed: int = 1) -> np.ndarray:
    X = np.random.default_rng(seed).normal(size=(ROWS, FEATURES))
    return X * (length / np.linalg.norm(X, axis=1, keepdims=True))


def labels(X: np.ndarray) -> np.ndarray:
    return np.where(np.nan_to_num(X[:, 0]) > 0, 1.0, -1.0)


def learning(learner: Callable[[], privol.learners.OnlineLearner], X: object, y: np.ndarray) -> float:
    made = learner()
    made.partial_fit(X[:1], y[:1], classes=[-1.0, 1.0])
    start = time.perf_counter()
    made.partial_fit(X[1:], y[1:])
    return (time.perf_counter() - start) / (ROWS - 1) * 1e9


def compare(title: str, **cases: Callable[[], float]) -> list[Row]:
    """Interleaved, so that other load on the machine affects all of them equally."""
    found: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(REPEATS):
        for name, case in cases.items():
            found[name].append(case())
    print(title)
    for name, times in found.items():
        low, middle, high = statistics.quantiles(times, n=4)
        print(f"    {name.replace('_', ' '):32} {middle:9.1f}   ({low:.1f} to {high:.1f})")
    first, *_ = found
    why, table = no_limit("times that are compared, not lowered: see compare.py for the limits of rows"), []
    for name, times in found.items():
        words: dict[str, Any] = {}
        if name != first:
            ratios = [b / a for a, b in zip(times, found[first], strict=True)]
            words = {"peer_name": first.replace("_", " "), "peer": statistics.median(found[first]), "ratios": ratios}
        title_of = f"{title.partition(':')[0]}, {name.replace('_', ' ')}"
        table.append(figure(title_of, "ns/row", statistics.median(times), limit=why, **words))
    return table


def main() -> None:
    inside, beyond = rows(0.9), rows(1.1)
    null = np.full_like(inside, np.nan)
    y = labels(inside)

    def pigd(radius: float = 100.0) -> Callable[[], privol.learners.OnlineLearner]:
        return lambda: privol.PIGD(
            horizon=ROWS, release="last", radius=radius, l2=0.001, on_invalid="zero", fit_intercept=False
        )

    def dpftrl() -> privol.learners.OnlineLearner:
        return privol.DPFTRL(horizon=ROWS, on_invalid="zero", fit_intercept=False)

    table = compare(
        "PIGD, one release: nanoseconds a row",
        within_the_bound=lambda: learning(pigd(), inside, y),
        beyond_the_bound_scaled=lambda: learning(pigd(), beyond, y),
        null_rows=lambda: learning(pigd(), null, y),
        model_at_the_edge_of_the_ball=lambda: learning(pigd(0.05), inside, y),
    )
    table += compare(
        "DPFTRL, every row: nanoseconds a row",
        within_the_bound=lambda: learning(dpftrl, inside, y),
        beyond_the_bound_scaled=lambda: learning(dpftrl, beyond, y),
        null_rows=lambda: learning(dpftrl, null, y),
    )
    thin, thick = (sparse.random(ROWS, 1000, density, "csr", rng=3) for density in (0.005, 0.05))
    table += compare(
        "PIGD, CSR rows of 1,000 features: nanoseconds a row",
        five_entries=lambda: learning(pigd(), thin, y),
        fifty_entries=lambda: learning(pigd(), thick, y),
    )

    start = time.perf_counter()
    for word in range(50):
        decide_lattice_point(1 << 62 | word, lambda level: (12345, 678910), 0.3, 1.0, 2.0**-10)
    seconds = (time.perf_counter() - start) / 50
    print(f"a coordinate in multiple precision: {seconds * 1e3:.1f} ms")
    why = no_limit("digits until it is decided: almost no coordinate needs it")
    show([*table, figure("a coordinate in multiple precision", "ms", seconds * 1e3, limit=why, aim=NONE)])


if __name__ == "__main__":
    main()
