"""Magnitudes of coin betting per second: ``python bench/magnitude.py``.

For each set of arguments: privol's kernel on arrays and in single calls from Python; the published closed form in SciPy
(erf, vectorised), ``scipy.integrate.quad`` and mpmath's quadrature of the definition on a few of them. Each speed comes
with the share of its values with a relative error above 1e-12, compared with the kernel, which
tests/learners/test_magnitude.py checks to 1e-13 against other tables. Speeds are the best of ``--rounds``, in turn. The
limit is a single exponential and the four numbers of a magnitude, and of a single call that call.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import mpmath as mp
import numpy as np
from figures import Row, figure, show
from limits import Work
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import erf

from privol._core.coin import magnitude

Array = NDArray[np.float64]
Points = tuple[Array, Array, Array]


def points(count: int) -> dict[str, Points]:
    rng = np.random.default_rng(0)

    def log(low: float, high: float) -> Array:
        return np.asarray(10.0 ** rng.uniform(low, high, count))

    y = log(2, 6)
    return {
        "a run's, x^2 ~ y": (2 * np.sqrt(y) * rng.normal(size=count), y, np.full(count, 0.25)),
        "mode inside, near the end": (log(1.5, 2), log(1.9, 2.2), np.full(count, 0.5)),
        "largest at the end": (log(3, 6), log(-3, 2), log(-1, 0)),
        "small": (log(-3, 0), log(-3, 0), np.full(count, 0.25)),
        "the whole range": (log(-12, 6), log(-12, 8), log(-8, 0)),
    }


def closed_form(x: Array, y: Array, a: Array) -> Array:
    root = np.sqrt(y)
    left, right = (2 * a * y + x) / (2 * root), (2 * a * y - x) / (2 * root)
    bell = np.sqrt(np.pi) * x * np.exp(x * x / (4 * y)) * (erf(left) + erf(right)) / (8 * a * y * root)
    ends = np.exp(-a * x - a * a * y) * np.expm1(2 * a * x) / (4 * a * y)
    return np.asarray(bell - ends)


def by_quad(x: Array, y: Array, a: Array) -> Array:
    return np.array(
        [
            quad(lambda b, x=u, y=v: b * np.exp(b * x - b * b * y), -c, c, epsrel=1e-12)[0] / (2 * c)
            for u, v, c in zip(x, y, a, strict=True)
        ]
    )


def by_mpmath(x: Array, y: Array, a: Array) -> Array:
    def one(x: mp.mpf, y: mp.mpf, a: mp.mpf) -> float:
        return float(mp.quad(lambda b: b * mp.exp(b * x - b * b * y), [-a, 0, a]) / (2 * a))

    return np.array([one(mp.mpf(u), mp.mpf(v), mp.mpf(c)) for u, v, c in zip(x, y, a, strict=True)])


def on_arrays(x: Array, y: Array, a: Array) -> Array:
    return np.asarray(magnitude(x, y, a))


def one_by_one(x: Array, y: Array, a: Array) -> Array:
    return np.array([magnitude(u, v, c) for u, v, c in zip(x.tolist(), y.tolist(), a.tolist(), strict=True)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    ways: dict[str, tuple[Callable[..., Array], int]] = {
        "privol": (on_arrays, options.count),
        "privol, one at a time": (one_by_one, options.count // 10),
        "closed form, SciPy's erf": (closed_form, options.count),
        "scipy.integrate.quad": (by_quad, 300),
        "mpmath.quad": (by_mpmath, 20),
    }
    table: list[Row] = []
    one = Work(exponentials=1.0, memory=24.0, written=8.0)
    for name, (x, y, a) in points(options.count).items():
        print(f"\n{name}\n{'':26} {'per second':>12} {'privol is':>10} {'wrong':>7}")
        best = dict.fromkeys(ways, np.inf)
        wrong = {}
        for _ in range(options.rounds):
            for way, (function, n) in ways.items():
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    start = time.perf_counter()
                    found = function(x[:n], y[:n], a[:n])
                    best[way] = min(best[way], (time.perf_counter() - start) / n)
                expected = np.asarray(magnitude(x[:n], y[:n], a[:n]))
                finite = np.isfinite(expected) & (np.abs(expected) > 1e-300)
                with np.errstate(invalid="ignore"):
                    off = ~(np.abs(found - expected) <= 1e-12 * np.abs(expected))
                wrong[way] = float(np.mean(off[finite]))
        for way, seconds in best.items():
            print(f"{way:26} {1 / seconds:12,.0f} {seconds / best['privol']:9,.1f}x {100 * wrong[way]:6.1f}%")
        for way, work in (("privol", one), ("privol, one at a time", Work(exponentials=1.0, calls=1.0))):
            peer = "closed form, SciPy's erf"
            words = {"peer_name": peer, "peer": 1 / best[peer], "aim": "5,000,000"}
            limit, title = work.limit("magnitudes/s"), f"{name}, {way.removeprefix('privol, ')}"
            table.append(figure(title, "magnitudes/s", 1 / best[way], limit=limit, **words))
    show(table)


if __name__ == "__main__":
    main()
