"""Private prefix sums and PQFTL, per step: ``python bench/sums.py``.

First every design, compared with the noise that it draws (as many vectors, by privol's own sampler) and with the same
design in NumPy, with floating-point noise and one step at a time, as it is usually written. Then the parts of PQFTL's
time: the difference between runs with and without models, the noise, and the design's recursion. All sides alternate
within a round; the figures are the smallest of ``--rounds``; quote the ratios. The limit of a design is its keystream,
first pass and recursion (``limits.py``), of "sqrt" the noise alone, as its sums over all earlier steps are made by fast
products in blocks; that of PQFTL has a row's moments, its share of the noise and of a model.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
from figures import NONE, Row, figure, show
from limits import Work, moments, of_moments, of_noise, of_ridge, of_sums
from numpy.typing import NDArray

from privol import PQFTL
from privol.factorizations import BLT, Smooth, SquareRoot, factorization
from privol.noise import Gaussian
from privol.prefix import DESIGNS, PrefixSum, SymmetricSum, svec

FloatArray = NDArray[np.float64]

#: Coordinates of a row, whether the sum is that of the rows' outer products, and steps.
BANDWIDTH = 8  # of the banded design: a user's rows that are so many steps apart
SHAPES = ((1, False, 1 << 16), (54, False, 1 << 14), (90, True, 1 << 10), (100_000, False, 1 << 6))


def ones(t: int) -> list[int]:
    """Positions of the ones of t, the highest first."""
    return [j for j in reversed(range(t.bit_length())) if t >> j & 1]


# ---- the designs in NumPy --------------------------------------------------------------------------------------


def independent(rows: FloatArray, rng: np.random.Generator) -> None:
    prefix = np.zeros(rows.shape[1])
    for w in rows:
        prefix += w + rng.standard_normal(len(w))


def tree(rows: FloatArray, rng: np.random.Generator) -> None:
    n, dim = rows.shape
    exact, noisy = np.zeros((n.bit_length(), dim)), np.zeros((n.bit_length(), dim))
    for t, w in enumerate(rows, start=1):
        level = (t & -t).bit_length() - 1
        exact[level] = w + exact[:level].sum(axis=0)
        exact[:level] = noisy[:level] = 0.0
        noisy[level] = exact[level] + rng.standard_normal(dim)
        noisy.sum(axis=0)


def honaker(rows: FloatArray, rng: np.random.Generator) -> None:
    n, dim = rows.shape
    estimates, total = np.zeros((n.bit_length() + 1, dim)), np.zeros(dim)
    for t, w in enumerate(rows, start=1):
        total += w
        e, level = rng.standard_normal(dim), 0
        while not t >> level & 1:
            leaves = 2 << level
            own = leaves / (2 * leaves - 1)
            e = own * rng.standard_normal(dim) + (1 - own) * (estimates[level] + e)
            estimates[level] = 0.0
            level += 1
        estimates[level] = e
        total + estimates.sum(axis=0)


def smooth(rows: FloatArray, rng: np.random.Generator) -> None:
    n, dim = rows.shape
    chosen = factorization("smooth", n)
    assert isinstance(chosen, Smooth)
    k = chosen.shape[1]
    nodes, total, word = np.zeros((k, dim)), np.zeros(dim), (1 << k) - 1
    for w in rows:
        total += w
        low = word & -word
        run = (word // low + 1) & -(word // low + 1)
        moved = run.bit_length() - 1
        top = word + low
        word = top | ((word ^ top) // (low << 2))
        nodes[k - moved :] = rng.standard_normal((moved, dim))
        total + nodes.sum(axis=0)


def blt(rows: FloatArray, rng: np.random.Generator) -> None:
    n, dim = rows.shape
    chosen = factorization("blt", n)
    assert isinstance(chosen, BLT)
    theta, omega = np.array(chosen.theta)[:, None], np.array(chosen.omega)
    buffers, noise, total = np.zeros((len(omega), dim)), np.zeros(dim), np.zeros(dim)
    for w in rows:
        total += w
        y = rng.standard_normal(dim) - omega @ buffers
        buffers *= theta
        buffers += y
        noise += y
        total + noise


def sqrt(rows: FloatArray, rng: np.random.Generator) -> None:
    n, dim = rows.shape
    chosen = factorization("sqrt", n)
    assert isinstance(chosen, SquareRoot)
    series = np.ascontiguousarray(chosen.coefficients()[::-1])
    drawn, total = np.zeros((n, dim)), np.zeros(dim)
    for t, w in enumerate(rows, start=1):
        total += w
        drawn[t - 1] = rng.standard_normal(dim)
        total + series[n - t :] @ drawn[:t]


def banded(rows: FloatArray, rng: np.random.Generator) -> None:
    n, dim = rows.shape
    series = SquareRoot(BANDWIDTH).coefficients()[:0:-1]
    drawn, noise, total = np.zeros((n + BANDWIDTH - 1, dim)), np.zeros(dim), np.zeros(dim)
    for t, w in enumerate(rows):
        total += w
        y = rng.standard_normal(dim) - series @ drawn[t : t + BANDWIDTH - 1]
        drawn[t + BANDWIDTH - 1] = y
        noise += y
        total + noise


PLAIN = {f.__name__: f for f in (tree, honaker, smooth, sqrt, blt, banded, independent)}


# ---- measuring -------------------------------------------------------------------------------------------------


def draws(design: str, steps: int) -> int:
    """Vectors that a run draws."""
    if design == "honaker":
        return sum((t & -t).bit_length() for t in range(1, steps + 1))
    if design == "smooth":
        k = factorization("smooth", steps).shape[1]  # type: ignore[attr-defined]
        word, found = (1 << k) - 1, 0
        for _ in range(steps):
            run = word // (word & -word)
            found += ((run + 1) & -(run + 1)).bit_length() - 1
            top = word + (word & -word)
            word = top | ((word ^ top) // ((word & -word) << 2))
        return found
    return steps


def least(
    functions: list[Callable[[], Any]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """The smallest seconds of each over rounds in which they alternate."""
    best = [math.inf] * len(functions)
    for _ in range(rounds):
        for k, function in enumerate(functions):
            start = clock()
            function()
            best[k] = min(best[k], clock() - start)
    return best


def needed(design: str, dim: int, count: int, n: int) -> Work:
    """What a step needs on average, of a run of n steps that draws so many vectors."""
    recursion = Work() if design == "sqrt" else of_sums(dim, design)
    if design == "banded":  # the last steps, exact and released, times their coefficients
        products = 2 * (min(BANDWIDTH, n) - 1) * dim
        recursion += Work(multiply_adds=products, near=8.0 * products)
    return of_noise(dim) * (count / n) + recursion


def designs(rounds: int, quick: bool) -> list[Row]:
    table = []
    print("ns a coordinate and step; noise: as many values by privol's sampler; NumPy: a step at a time, PCG64")
    print(
        f"{'sum of':>14} {'steps':>7}  {'design':12} {'privol':>8} {'noise':>8} {'ratio':>7} {'NumPy':>9} {'ratio':>7}"
    )
    rng = np.random.default_rng(0)
    for width, gram, steps in SHAPES:
        n = max(steps // 8, 8) if quick else steps
        X = rng.normal(size=(n, width))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        rows = svec(X[:, :, None] * X[:, None, :]) if gram else X
        dim = rows.shape[1]
        for design in DESIGNS:

            def ours(design: str = design, X: FloatArray = X, n: int = n, gram: bool = gram) -> None:
                words: dict[str, Any] = {"dim": X.shape[1], "horizon": n, "design": design}
                if design == "banded":
                    words["bandwidth"] = min(BANDWIDTH, n)
                sums = SymmetricSum(gram=True, **words) if gram else PrefixSum(**words)
                sums.add_block(X, every=False)

            def noise(dim: int = dim, count: int = draws(design, n)) -> None:
                # in vectors that stay in the nearest caches, like a run's
                sampler, size = Gaussian(scale=1.0), max(dim, 1000)
                for _ in range(-(-count * dim // size)):
                    sampler.sample(size)

            def plain(design: str = design, rows: FloatArray = rows) -> None:
                PLAIN[design](rows, np.random.default_rng())

            own, drawn, peer = (s / (n * dim) * 1e9 for s in least([ours, noise, plain], rounds))
            label = f"{width} x {width}" if gram else f"{width:,}"
            work = needed(design, dim, draws(design, n), n) * (1 / dim)
            name, unit = f"{design}, sum of {label}, {n:,} steps", "ns/coordinate and step"
            table.append(figure(name, unit, own, limit=work.limit(unit), peer_name="the design in NumPy", peer=peer))
            numbers = f"{own:8.1f} {drawn:8.1f} {own / drawn:6.2f}x {peer:9.1f} {peer / own:6.2f}x"
            print(f"{label:>9} {n:>6,}  {design:12} {numbers}", flush=True)
    return table


def least_squares(rounds: int, quick: bool) -> list[Row]:
    table = []
    print("\nPQFTL, BLT, a model every 10 rows; rows a second of processor time and the aim, microseconds a row")
    print(
        f"{'features':>8} {'rows':>9} {'rows of a step':>14} {'rows/s':>9} {'aim':>9} "
        f"{'all':>7} {'models':>7} {'noise':>7} {'BLT':>7} {'rows':>7}"
    )
    rng = np.random.default_rng(0)
    for features, rows, aim, step in (
        (54, 100_000, 150_000, 10),
        (54, 100_000, None, 1),  # a sum of every row is released, which nothing asks for by default
        (90, 463_715, 60_000, 10),
        (90, 463_715, None, 1),
    ):
        n = rows // 20 if quick else rows
        w = rng.normal(size=features) / 3

        def blocks(n: int = n, w: FloatArray = w) -> Any:
            X = rng.normal(size=(10_000, len(w)))
            X /= np.linalg.norm(X, axis=1, keepdims=True)
            while True:
                yield X, X @ w

        def run(n: int = n, blocks: Any = blocks, step: int = step, **parameters: Any) -> Callable[[], None]:
            def learn() -> None:
                learner = PQFTL(horizon=n, delta=1e-6, batch=step, **parameters)
                for X, y in islice(blocks(), -(-n // 10_000)):
                    left = n - (learner.n_rows_ if "_run" in vars(learner) else 0)
                    learner.partial_fit(X[:left], y[:left])

            return learn

        whole, silent, exact, bare = (
            s / n * 1e6
            for s in least(
                [
                    run(epsilon=1.0, release=10),
                    run(epsilon=1.0, release="last"),
                    run(epsilon=math.inf, release="last"),
                    run(epsilon=math.inf, release="last", design="independent"),
                ],
                rounds,
                time.process_time,
            )
        )
        sums = moments(features)
        work = of_moments(features) + (of_noise(sums) + of_sums(sums)) * (1 / step) + of_ridge(features) * 0.1
        title, unit = f"PQFTL, {features} features, steps of {step} rows, a model every 10 rows", "rows/s"
        of = NONE if aim is None else f"{aim:,}"
        table.append(figure(title, unit, 1e6 / whole, limit=work.limit(unit), aim=of))
        parts = f"{whole - silent:7.1f} {silent - exact:7.1f} {exact - bare:7.1f} {bare:7.1f}"
        print(f"{features:>8} {n:>9,} {step:>14} {1e6 / whole:>9,.0f} {of:>9} {whole:7.1f} {parts}", flush=True)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="an eighth of the steps, a twentieth of the rows")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["designs", "least_squares"], help="one of the two tables")
    arguments = parser.parse_args()
    rows = []
    for table in (designs, least_squares):
        if arguments.only in (None, table.__name__):
            rows += table(arguments.rounds, arguments.quick)
    show(rows)


if __name__ == "__main__":
    main()
