"""What the programs in this folder share: cases with one claim each, and the protocol of ``privol audit --requests``.

    PYTHON of_LIBRARY.py              # lists the cases as JSON: claim, rows, source of the claim, versions
    PYTHON of_LIBRARY.py CASE         # answers requests
    PYTHON of_LIBRARY.py CASE --claim # prints the epsilon that the library computes for it

A case is of one of three kinds: "runs" are compared on neighbouring tables; "canaries" are many rows, each in the table
or not, of a program that is run once; "exact" states the distribution of what is released, and is never run.

PYTHON belongs to an environment with the library; nothing of privol is imported.
"""

from __future__ import annotations

import functools
import json
import math
import platform
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

#: ``release(rows, runs)`` returns what each of ``runs`` runs releases.
Release = Callable[[np.ndarray, int], Iterable[Any]]
#: ``law(rows)`` returns the distribution of what is released, as JSON: probabilities, or a law of scipy.stats.
Law = Callable[[np.ndarray], Mapping[str, Any]]


@dataclass(frozen=True)
class Case:
    """One claim of a library."""

    make: Callable[[], Release] | Callable[[], Law]  # imports the library
    source: str  # where the claim is stated
    kind: str = "runs"
    canaries: int = 0  # each has ``high`` in a column of its own, or ``low`` where it is replaced; 0 in all others
    low: Sequence[float] = (0.0,)
    high: Sequence[float] = (1.0,)
    norm: float | None = None
    levels: Mapping[int, Sequence[float]] = field(default_factory=dict)
    epsilon: float | Callable[[], float] | None = 1.0  # what the library has to compute first is a function
    delta: float = 0.0
    mu: float | None = None
    adjacency: str = "replace"
    sizes: Sequence[int] | None = None
    low_bits: bool = False
    failures: str = "raise"
    runs: int = 20_000
    expected: str = ""  # of controls: "stands" or "falls"


def each(release: Callable[[np.ndarray], Any]) -> Release:
    """A program that makes one run at a time."""
    return lambda rows, runs: (release(rows) for _ in range(runs))


def seen(release: Callable[[np.ndarray], Any]) -> Callable[[np.ndarray], Any]:
    """A program whose failed runs release one 0: many of them take long where each ends the process."""

    def either(rows: np.ndarray) -> Any:
        try:
            return release(rows)
        except Exception:
            return 0.0

    return either


def controls(adds_noise: Callable[[float], Callable[[], Release]], source: str, **words: Any) -> dict[str, Case]:
    """Two textbook cases in the library's environment, by its source of randomness: a right and a wrong one.

    ``adds_noise(scale)`` is for a scale of 1, at which the claim in ``words`` is attained.
    """
    return {
        "control": Case(adds_noise(1.0), f"textbook: {source}", expected="stands", **words),
        "control, two thirds of the noise": Case(
            adds_noise(2 / 3), f"wrong on purpose: {source}", expected="falls", **words
        ),
    }


def canary_controls(adds_noise: Callable[[float], Callable[[], Release]], source: str) -> dict[str, Case]:
    """The same for one run: ``adds_noise(scale)`` adds Laplace noise to the sum of each column, for epsilon 1 at 1.

    One run with so many canaries refutes two thirds of that noise, but for once in ten thousand times.
    """
    words: dict[str, Any] = {"kind": "canaries", "canaries": 4_000, "adjacency": "add_remove"}
    return {
        "canaries, control": Case(adds_noise(1.0), f"textbook: {source}", expected="stands", **words),
        "canaries, control, two thirds of the noise": Case(
            adds_noise(2 / 3), f"wrong on purpose: {source}", expected="falls", **words
        ),
    }


def normal(loc: float, scale: float) -> dict[str, Any]:
    """The normal distribution."""
    return {"law": "norm", "loc": float(loc), "scale": float(scale)}


def exact_controls() -> dict[str, Case]:
    """The same for a stated distribution: a sum with Gaussian noise, whose claim in mu is attained."""
    words: dict[str, Any] = {"kind": "exact", "epsilon": None, "mu": 1.0, "adjacency": "add_remove"}
    return {
        "exact, control": Case(
            lambda: lambda rows: normal(rows.sum(), 1.0), "textbook: a Gaussian sum", expected="stands", **words
        ),
        "exact, control, two thirds of the noise": Case(
            lambda: lambda rows: normal(rows.sum(), 2 / 3),
            "wrong on purpose: a Gaussian sum",
            expected="falls",
            **words,
        ),
    }


def samples(rows: np.ndarray, probability: float) -> tuple[np.ndarray, np.ndarray]:
    """All samples of the one column, each row in it with ``probability``: their probabilities, and their sums."""
    weights, sums = np.ones(1), np.zeros(1)
    for value in rows[:, 0]:
        weights = np.concatenate([weights * (1.0 - probability), weights * probability])
        sums = np.concatenate([sums, sums + value])
    return weights, sums


def below_normal(z: float) -> float:
    """The standard normal distribution function."""
    return math.erfc(-z / math.sqrt(2.0)) / 2.0


def below_laplace(z: float) -> float:
    """The standard Laplace distribution function."""
    return math.exp(-abs(z)) / 2.0 if z < 0.0 else 1.0 - math.exp(-abs(z)) / 2.0


def cells(
    mixture: tuple[np.ndarray, np.ndarray], scale: float, steps: int = 1, below: Callable[[float], float] = below_normal
) -> dict[str, Any]:
    """Of ``steps`` draws from a mixture with noise: probabilities of cells, the same ones for all tables.

    The mixture is its weights and places, between -4 and 4. What lies in one cell is not told apart: that can only hide
    something.
    """
    weights, places = mixture
    edges = np.linspace(-9.0 * scale - 4.0, 9.0 * scale + 4.0, 4_000 if steps == 1 else 200)
    rising = [[below((edge - place) / scale) for edge in edges] for place in places]
    of_step = np.maximum(0.0, np.diff(weights @ np.array(rising), prepend=0.0, append=1.0))
    return {"probabilities": functools.reduce(np.kron, [of_step] * steps).tolist()}


def numbers(value: Any) -> list[float]:
    """All numbers in a release, as one list."""
    return np.concatenate([np.ravel(np.asarray(part, dtype=np.float64)) for part in
                           (value if isinstance(value, (tuple, list)) else [value])]).tolist()  # fmt: skip


def main(library: str, cases: Mapping[str, Case]) -> None:
    """Print the cases, or serve one of them, or print its claim."""
    if len(sys.argv) < 2:
        try:
            found: str | None = version(library)
        except PackageNotFoundError:
            found = None
        described = {name: {key: value for key, value in asdict(case).items() if key != "make"}
                     | {"epsilon": "computed" if callable(case.epsilon) else case.epsilon}
                     for name, case in cases.items()}  # fmt: skip
        versions = {"version": found, "python": platform.python_version()}
        json.dump({"library": library, **versions, "cases": described}, sys.stdout)
        return
    warnings.simplefilter("ignore")
    case = cases[sys.argv[1]]
    out, sys.stdout = sys.stdout, sys.stderr  # what a library prints is not a release
    if callable(case.epsilon) and sys.argv[2:] == ["--claim"]:
        json.dump(float(case.epsilon()), out)
        return
    program: Any = case.make()
    for line in sys.stdin:
        request = json.loads(line)
        rows = np.array(request["rows"], dtype=np.float64).reshape(-1, case.canaries or len(case.low))
        if case.kind == "exact":
            out.write(json.dumps(program(rows)) + "\n")
        for released in program(rows, request["runs"]) if case.kind != "exact" else ():
            values = numbers(released)
            if not all(map(math.isfinite, values)):
                raise ValueError(f"released {values}")
            out.write(json.dumps(values) + "\n")
        out.flush()
