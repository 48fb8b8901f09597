"""What the programs in this folder share: cases with one claim each, and the protocol of ``privol audit --requests``.

    PYTHON of_LIBRARY.py              # lists the cases as JSON: claim, rows, source of the claim, versions
    PYTHON of_LIBRARY.py CASE         # answers requests

PYTHON belongs to an environment with the library; nothing of privol is imported.
"""

from __future__ import annotations

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


@dataclass(frozen=True)
class Case:
    """One claim of a library."""

    make: Callable[[], Release]  # imports the library
    source: str  # where the claim is stated
    low: Sequence[float] = (0.0,)
    high: Sequence[float] = (1.0,)
    norm: float | None = None
    levels: Mapping[int, Sequence[float]] = field(default_factory=dict)
    epsilon: float | None = 1.0
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


def numbers(value: Any) -> list[float]:
    """All numbers in a release, as one list."""
    return np.concatenate([np.ravel(np.asarray(part, dtype=np.float64)) for part in
                           (value if isinstance(value, (tuple, list)) else [value])]).tolist()  # fmt: skip


def main(library: str, cases: Mapping[str, Case]) -> None:
    """Print the cases, or serve one of them."""
    if len(sys.argv) < 2:
        try:
            found: str | None = version(library)
        except PackageNotFoundError:
            found = None
        described = {name: {key: value for key, value in asdict(case).items() if key != "make"}
                     for name, case in cases.items()}  # fmt: skip
        versions = {"version": found, "python": platform.python_version()}
        json.dump({"library": library, **versions, "cases": described}, sys.stdout)
        return
    warnings.simplefilter("ignore")
    case = cases[sys.argv[1]]
    out, sys.stdout = sys.stdout, sys.stderr  # what a library prints is not a release
    release = case.make()
    for line in sys.stdin:
        request = json.loads(line)
        rows = np.array(request["rows"], dtype=np.float64).reshape(-1, len(case.low))
        for released in release(rows, request["runs"]):
            values = numbers(released)
            if not all(map(math.isfinite, values)):
                raise ValueError(f"released {values}")
            out.write(json.dumps(values) + "\n")
        out.flush()
