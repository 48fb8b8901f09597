"""Write the tables of docs/prefix_sums.md: errors of every design of private prefix sums, in closed form and measured.

Run from the repository's root: python tools/prefix_tables.py [--check] [--closed]
``--check`` writes nothing and fails if the page differs; ``--closed`` omits the measured table, which takes some
minutes. The noise has a fixed key, so the measured figures are the same every time and everywhere.
"""

from __future__ import annotations

import math
import sys
import warnings
from typing import Any

import numpy as np
from pages import DOCS, parser_of, put

from privol.errors import PrivacyWarning
from privol.factorizations import (
    DESIGNS,
    MAX_STEPS,
    Banded,
    Factorization,
    Honaker,
    Smooth,
    error_bound,
    factorization,
    user_norm,
)
from privol.prefix import PrefixSum

PAGE = DOCS / "prefix_sums.md"
STEPS = {2**10: 4096, 2**16: 1024, 2**20: 256}  # and the measured coordinates, each an independent experiment
SQUARE_ROOT = {2**10: 4096, 2**16: 16}  # its cost grows with the square of the steps
BLOCK = 1024
FORGET_STEPS = 2**9
FORGET: tuple[dict[str, Any], ...] = (
    {"discount": 0.9}, {"discount": 0.99}, {"discount": 0.999}, {"window": 10}, {"window": 100},
)  # fmt: skip


def title(f: Factorization, objective: str) -> str:
    return f.design + (f" ({objective})" if f.design == "blt" else "")


def designs(steps: int) -> list[tuple[str, Factorization]]:
    made = [(objective, factorization(design, steps, objective=objective)) for design in DESIGNS if design != "banded"
            for objective in (("max", "mean") if design == "blt" else ("max",))]  # fmt: skip
    return [(title(f, objective), f) for objective, f in made]


def draws_a_step(f: Factorization) -> float:
    """Noise vectors of the whole run, divided by its steps."""
    if isinstance(f, Honaker):
        return (2 * f.steps - f.steps.bit_count()) / f.steps
    if not isinstance(f, Smooth):
        return 1.0
    word, drawn = f.word(0), 0
    for _ in range(f.steps):
        low = word & -word
        top = word + low
        run = ((word ^ top) // low).bit_count() - 1  # the lowest run of ones moves
        drawn += run
        word = top | (1 << run - 1) - 1
    return drawn / f.steps


def worst_step(f: Factorization) -> int:
    """The step of largest variance: the last one, or for trees one that agrees with it down to a bit that it clears."""
    n = f.steps
    found = [n, *((n >> j ^ 1) << j | (1 << j) - 1 for j in range(n.bit_length()) if n >> j & 1)]
    return max((t for t in found if t), key=f.row_norm)


def closed() -> list[str]:
    lines = []
    for steps in STEPS:
        bound = error_bound(steps)
        lines += [
            f"T = 2^{steps.bit_length() - 1} = {steps:,}",
            "",
            "| design | mean squared error | largest | root of the mean | root of the largest "
            "| root of the mean / bound | draws a step | vectors kept |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
        ]
        for name, f in designs(steps):
            mean, worst = f.mean_error(), f.max_error()
            lines.append(
                f"| {name} | {mean**2:,.2f} | {worst**2:,.2f} | {mean:.4f} | {worst:.4f} | {mean / bound:.3f} "
                f"| {draws_a_step(f):.2f} | {f.memory:,} |"
            )
        lines += [f"| lower bound | {bound**2:,.2f} | {bound**2:,.2f} | {bound:.4f} | {bound:.4f} | 1 | | |", ""]
    return lines[:-1]


def forgetting() -> list[str]:
    """Largest errors of discounted and sliding sums, and the smallest possible mean error."""
    lines = [
        "| sums | T | blt: largest | root of the mean | sqrt: largest | independent: largest | bound of the mean |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for steps in (FORGET_STEPS, MAX_STEPS):
        for words in FORGET:
            name = f"discount {words['discount']:g}" if "discount" in words else f"window {words['window']:,}"
            blt = factorization("blt", steps, **words)
            independent = factorization("independent", steps, **words).max_error()
            few = steps == FORGET_STEPS
            root = f"{factorization('sqrt', steps, **words).max_error():.4f}" if few else "-"
            least = f"{least_error(steps, **words):.4f}" if few else "-"
            time = f"{steps:,}" if few else "no last row"
            lines.append(
                f"| {name} | {time} | {blt.max_error():.4f} | {blt.mean_error():.4f} | {root} | {independent:,.4f} "
                f"| {least} |"
            )
    return lines


def least_error(steps: int, discount: float = 1.0, window: int | None = None) -> float:
    """Smallest mean error of any factorisation: the sum of the singular values of the sums' matrix, over the steps."""
    weights = discount ** np.arange(steps) if window is None else (np.arange(steps) < window).astype(float)
    lag = np.subtract.outer(np.arange(steps), np.arange(steps))
    matrix = np.where(lag >= 0, weights[np.abs(lag)], 0.0)
    return float(np.linalg.svd(matrix, compute_uv=False).sum()) / steps


def users() -> list[str]:
    """Errors of sums whose noise covers all rows of a user, spread over the whole run."""
    steps = 1 << 16
    lines = [
        "| rows of a user | apart | design | root of the mean | / blt | root of the largest | / blt | vectors kept |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for rows in (4, 32):
        apart = steps // rows
        words = {"rows_per_user": rows, "user_separation": apart}
        made = [("blt", factorization("blt", steps, **words))]
        made += [(f"banded, {band:,}", Banded(steps, band)) for band in sorted({1, 16, 1024, 4096, apart})]
        found = []
        for name, f in made:
            cost = user_norm(f, rows, separation=apart) / f.column_norm
            found.append((name, cost * f.mean_error(), cost * f.max_error(), f.memory))
        _, least_mean, least_worst, _ = found[0]
        for name, mean, worst, memory in found:
            lines.append(
                f"| {rows} | {apart:,} | {name} | {mean:,.4f} | {mean / least_mean:.3f} | {worst:,.4f} "
                f"| {worst / least_worst:.3f} | {memory:,} |"
            )
    return lines


def measure(design: str, objective: str, steps: int, dim: int) -> tuple[float, float, float, float]:
    """Mean squared error and that of the worst step in units of (sensitivity / mu)^2, each with its standard error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        sums = PrefixSum(dim=dim, horizon=steps, design=design, objective=objective, random_state=5)
    f = factorization(design, steps, objective=objective)
    unit = sums.std(steps) / f.row_norm(steps) / f.column_norm
    worst = worst_step(f)
    rows = np.random.default_rng(6).normal(size=(BLOCK, dim)) / (2 * math.sqrt(dim))
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    running = np.cumsum(rows, axis=0)
    squares, at_worst = np.zeros(dim), np.zeros(dim)
    for start in range(0, steps, BLOCK):
        errors = sums.add_block(rows) - running
        errors -= start // BLOCK * running[-1]
        squares += np.einsum("ij,ij->j", errors, errors)
        if start < worst <= start + BLOCK:
            at_worst = errors[worst - start - 1] ** 2
    figures = []
    for values in (squares / steps, at_worst):
        values = values / unit**2
        figures += [float(values.mean()), float(values.std(ddof=1)) / math.sqrt(dim)]
    return figures[0], figures[1], figures[2], figures[3]


def measured() -> list[str]:
    lines = [
        "| T | design | coordinates | mean squared error | measured | largest | measured |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for steps, dim in STEPS.items():
        for name, f in designs(steps):
            if f.design == "sqrt" and steps not in SQUARE_ROOT:
                continue
            coordinates = SQUARE_ROOT[steps] if f.design == "sqrt" else dim
            objective = "mean" if "mean" in name else "max"
            mean, mean_error, worst, worst_error = measure(f.design, objective, steps, coordinates)
            lines.append(
                f"| 2^{steps.bit_length() - 1} | {name} | {coordinates:,} | {f.mean_error() ** 2:,.2f} "
                f"| {mean:,.2f} ± {mean_error:,.2f} | {f.max_error() ** 2:,.2f} | {worst:,.2f} ± {worst_error:,.2f} |"
            )
            print(lines[-1], file=sys.stderr, flush=True)
    return lines


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the page")
    parser.add_argument("--closed", action="store_true", help="only the tables in closed form")
    given = parser.parse_args()
    before = page = PAGE.read_text(encoding="utf-8")
    for name, table in (
        ("closed", closed),
        ("users", users),
        ("forgetting", forgetting),
        ("measured", measured),
    ):
        if name == "measured" and given.closed:
            continue
        text = "\n".join(table())
        if not (given.write or given.check):
            print(f"{text}\n")
        page = put(page, name, "prefix_tables.py", text)
    if given.write:
        PAGE.write_text(page, encoding="utf-8")
    elif given.check and page != before:
        print(f"{PAGE.name} says something else: run python tools/prefix_tables.py --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
