"""Noise, per value: ``python bench/noise.py``, privol's samplers compared with those of other libraries.

Every line is the median over ``--rounds`` of nanoseconds per value, with all samplers in turn within a round, so that
drifting speed affects all of them; quote the ratios. Values are drawn as vectors of 1 to 10^6, in one call each.
privol's are correctly rounded, or exact on the integers, and from a cryptographic source, and so are OpenDP's. A
value's limit is its keystream and first pass, and the share of a call from Python. ``--levels`` repeats privol's on
each instruction-set level of this processor.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from figures import NONE, Row, figure, no_limit, show
from limits import Work

from privol import noise
from privol._core._noise import first_pass_open, instruction_sets
from privol.noise import _lattice

SIZES = (1, 10, 54, 1000, 1_000_000)
Draw = Callable[[int], Any]


def ours() -> dict[str, Draw]:
    """Samplers of a vector of n values."""

    def vectors(kind: Any) -> Draw:
        made: dict[int, Any] = {}

        def draw(n: int) -> Any:
            if n == 1:
                return None
            if n not in made:
                made[n] = kind(scale=1.0, dim=n)
            return made[n].sample(())

        return draw

    single = (noise.Gaussian, noise.Laplace, noise.Exponential)
    found: dict[str, Draw] = {f"privol {kind.__name__}": kind(scale=1.0).sample for kind in single}
    found["privol L2Laplace"] = vectors(noise.L2Laplace)
    found["privol Sphere"] = vectors(noise.Sphere)
    for scale in (10, 1000):
        found[f"privol DiscreteGaussian({scale})"] = noise.DiscreteGaussian(scale=scale).sample
        found[f"privol DiscreteLaplace({scale})"] = noise.DiscreteLaplace(scale=scale).sample
    return found


def peers() -> dict[str, Draw]:
    """The samplers of other libraries that are installed."""
    found: dict[str, Draw] = {}
    for name in ("PCG64", "SFC64"):
        found[f"NumPy {name} normal (floating point)"] = np.random.Generator(getattr(np.random, name)()).standard_normal
    found["NumPy PCG64 Laplace (floating point)"] = np.random.default_rng().standard_exponential
    try:
        import randomgen

        for name in ("ChaCha", "AESCounter"):
            bits = getattr(randomgen, name)()
            found[f"randomgen {name} normal (floating point)"] = np.random.Generator(bits).standard_normal
    except ImportError:
        print("randomgen is not installed", file=sys.stderr)
    try:
        import opendp.prelude as dp

        dp.enable_features("contrib")
        real, integer = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.vector_domain(dp.atom_domain(T="i64"))
        for title, space, make, value in (
            ("OpenDP Gaussian (float)", (real, dp.l2_distance(T=float)), dp.m.make_gaussian, 0.0),
            ("OpenDP Laplace (float)", (real, dp.l1_distance(T=float)), dp.m.make_laplace, 0.0),
            ("OpenDP Gaussian (integer)", (integer, dp.l2_distance(T=float)), dp.m.make_gaussian, 0),
            ("OpenDP Laplace (integer)", (integer, dp.l1_distance(T="i64")), dp.m.make_laplace, 0),
        ):
            measure = make(*space, scale=10.0)
            found[title] = lambda n, measure=measure, value=value: measure([value] * n)
    except ImportError:
        print("opendp is not installed", file=sys.stderr)
    # diffprivlib's models do not import with a recent scikit-learn, and its mechanisms do not need them
    sys.modules.setdefault("diffprivlib.models", ModuleType("diffprivlib.models"))
    try:
        from diffprivlib.mechanisms import Gaussian, Laplace

        gaussian, laplace = Gaussian(epsilon=0.5, delta=1e-6, sensitivity=1.0), Laplace(epsilon=0.5, sensitivity=1.0)
        found["diffprivlib Gaussian"] = lambda n: [gaussian.randomise(0.0) for _ in range(n)]
        found["diffprivlib Laplace"] = lambda n: [laplace.randomise(0.0) for _ in range(n)]
    except ImportError:
        print("diffprivlib is not installed", file=sys.stderr)
    return found


def measure(samplers: dict[str, Draw], rounds: int) -> dict[str, list[float]]:
    """Nanoseconds per value, by sampler and size; NaN where a call would take too long or is meaningless."""
    table = {name: [math.nan] * len(SIZES) for name in samplers}
    for k, size in enumerate(SIZES):
        calls, times = {}, {name: [] for name in samplers}
        for name, draw in samplers.items():
            start = time.perf_counter()
            if draw(size) is None:
                continue
            first = time.perf_counter() - start
            slow = first / size > 1e-6 and size > 1000  # some microseconds per value: a million would take too long
            if not slow:
                calls[name] = max(1, min(round(0.02 / max(first, 1e-7)), 20_000))
        for _ in range(rounds):
            for name, count in calls.items():
                draw = samplers[name]
                start = time.perf_counter()
                for _ in range(count):
                    draw(size)
                times[name].append((time.perf_counter() - start) / (count * size) * 1e9)
        for name in calls:
            table[name][k] = statistics.median(times[name])
    return table


#: Of each sampler: the peer with the same distribution, blocks of keystream a value, and the law of the first pass
#: ("": another one, of which no rate is measured).
SAMPLERS = {
    "Gaussian": ("NumPy PCG64 normal (floating point)", 0.5, "gaussian"),
    "Laplace": ("NumPy PCG64 Laplace (floating point)", 0.5, "laplace"),
    "Exponential": ("NumPy PCG64 Laplace (floating point)", 0.5, "exponential"),
    "L2Laplace": (NONE, 0.75, ""),
    "Sphere": (NONE, 0.5, ""),
    "DiscreteGaussian(10)": ("OpenDP Gaussian (integer)", 0.5, ""),
    "DiscreteLaplace(10)": ("OpenDP Laplace (integer)", 0.5, ""),
    "DiscreteGaussian(1000)": (NONE, 1.0, ""),
    "DiscreteLaplace(1000)": (NONE, 1.0, ""),
}


def limited(table: dict[str, list[float]]) -> list[Row]:
    """Return privol's figures beside peers and limits."""
    rows = []
    for name, (peer, blocks, law) in SAMPLERS.items():
        for k, size in enumerate(SIZES):
            if math.isnan(table[f"privol {name}"][k]):
                continue  # a vector of one value
            work = Work(blocks=blocks, values=1.0 if law else 0.0, law=law or "gaussian", calls=1 / size)
            if law and size * 8 > 1 << 20:
                work += Work(written=8.0)
            theirs = table[peer][k] if peer in table else math.nan
            beside_it = peer if not math.isnan(theirs) else NONE
            limit, title = work.limit("ns/value"), f"{name}, {size:,} at a time"
            own = table[f"privol {name}"][k]
            rows.append(figure(title, "ns/value", own, limit=limit, peer_name=beside_it, peer=theirs))
    return rows


def show_all(table: dict[str, list[float]]) -> None:
    for name, figures in table.items():
        print(f"{name:44}" + "".join(f"{'' if math.isnan(x) else f'{x:,.1f}':>12}" for x in figures), flush=True)


def fallbacks() -> list[Row]:
    """How many values the first pass leaves undecided, and how many only multiple precision decides."""
    rng = np.random.default_rng(0)
    words = rng.integers(0, 1 << 64, 1 << 22, dtype=np.uint64)
    asked = 0
    real = _lattice.decide_lattice_point

    def counted(*arguments: Any, **named: Any) -> float:
        nonlocal asked
        asked += 1
        return real(*arguments, **named)

    print("\nshare of values that the first pass leaves open, and that double precision leaves open too")
    drawn, rows = 20_000_000, []
    for kind in (noise.Gaussian, noise.Laplace, noise.Exponential):
        law, asked = kind.__name__.lower(), 0
        shares = [first_pass_open(words, scale, law) / words.size for scale in (1.0, 1.999)]
        _lattice.decide_lattice_point = counted  # type: ignore[assignment]
        try:
            kind(scale=1.999).sample(drawn)
        finally:
            _lattice.decide_lattice_point = real
        print(f"{kind.__name__:14}{shares[0]:10.3%} to {shares[1]:.3%} by the scale; {asked} of {drawn:,}")
        title, why = f"{kind.__name__}, left open by the first pass", no_limit("a share, which precision decides")
        rows.append(figure(title, "% of values", 100.0 * max(shares), limit=why))
    print("keystream: 8 bytes a value, L2-Laplace 12; integers 8 below scale 32, else about 17")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--levels", action="store_true", help="privol's samplers on every instruction-set level")
    parser.add_argument("--ours", action="store_true", help="privol's samplers alone")
    arguments = parser.parse_args()
    if arguments.levels:
        for level in instruction_sets():
            print(f"\n{level}", flush=True)
            command = [sys.executable, __file__, "--ours", "--rounds", str(arguments.rounds)]
            subprocess.run(command, check=True, env={**os.environ, "PRIVOL_INSTRUCTION_SET": level})
        return
    print(f"{'ns a value, in vectors of':44}" + "".join(f"{size:>12,}" for size in SIZES))
    table = measure(ours() if arguments.ours else ours() | peers(), arguments.rounds)
    show_all(table)
    show(limited(table) + ([] if arguments.ours else fallbacks()))


if __name__ == "__main__":
    main()
