"""Programs that are correct or wrong on purpose: what an auditor must accept, and what it must find."""

from __future__ import annotations

import numpy as np
from serve import Case, canary_controls, exact_controls, main

RNG = np.random.default_rng()


def laplace(scale, sensitivity=1.0):
    return lambda: lambda rows, runs: rows.sum() + RNG.laplace(scale=scale * sensitivity, size=runs)


def gaussian(scale):
    return lambda: lambda rows, runs: rows.sum(axis=0) + RNG.normal(scale=scale, size=(runs, rows.shape[1]))


def geometric(epsilon):
    p = -np.expm1(-epsilon)
    return lambda: lambda rows, runs: rows.sum() + RNG.geometric(p, runs) - RNG.geometric(p, runs)


def response():
    return lambda rows, runs: np.where(RNG.random((runs, len(rows))) < 0.75, rows[:, 0], 1.0 - rows[:, 0])


def bounds_of_data():
    return lambda rows, runs: rows.sum() + (np.ptp(rows) if len(rows) else 0.0) * RNG.laplace(size=runs)


def public_count():
    return lambda rows, runs: np.column_stack([rows.sum() + RNG.laplace(size=runs), np.full(runs, len(rows))])


def exact_count():
    return lambda rows, runs: (rows.sum() + RNG.laplace(size=runs)) / max(1, len(rows))


def columns(scale):
    return lambda: lambda rows, runs: rows.sum(axis=0) + RNG.laplace(scale=scale, size=(runs, rows.shape[1]))


def geometric_law(epsilon):
    return lambda: lambda rows: {"law": "dlaplace", "a": epsilon, "loc": float(rows.sum())}


def response_law(right):
    def law(rows):
        yes = right if rows[0, 0] else 1.0 - right
        return {"probabilities": {"yes": yes, "no": 1.0 - yes}}

    return lambda: law


SIGNED = {"low": (-1.0,), "high": (1.0,)}
ONE_RUN = {"kind": "canaries", "canaries": 1_000, "epsilon": None, "mu": 0.25, "delta": 1e-12, "adjacency": "zero_out"}
BIT = {"kind": "exact", "levels": {0: (0.0, 1.0)}}
BALL = {"low": (-1.0,) * 3, "high": (1.0,) * 3, "norm": 1.0, "epsilon": None}
CASES = {
    "laplace": Case(laplace(2.0), "textbook", **SIGNED, expected="stands"),
    "laplace, rows added": Case(laplace(1.0), "textbook", **SIGNED, adjacency="add_remove", expected="stands"),
    "gaussian": Case(gaussian(2.0), "textbook", **BALL, mu=1.0, expected="stands"),
    "geometric": Case(geometric(1.0), "textbook", levels={0: (0.0, 1.0)}, low_bits=True, expected="stands"),
    "randomized response": Case(response, "textbook", levels={0: (0.0, 1.0)}, epsilon=np.log(3.0), expected="stands"),
    "two thirds of the noise": Case(laplace(4 / 3), "wrong on purpose", **SIGNED, expected="falls"),
    "two thirds of the noise, gaussian": Case(gaussian(4 / 3), "wrong on purpose", **BALL, mu=1.0, expected="falls"),
    "sensitivity of another adjacency": Case(laplace(1.0), "wrong on purpose", **SIGNED, expected="falls"),
    "bounds of the data": Case(bounds_of_data, "wrong on purpose", **SIGNED, expected="falls"),
    "a count that is not public": Case(
        public_count, "wrong on purpose", **SIGNED, adjacency="add_remove", expected="falls"
    ),
    "a mean with an exact count": Case(
        exact_count, "wrong on purpose", **SIGNED, adjacency="add_remove", expected="falls"
    ),
    "last bits": Case(
        laplace(2.0), "Mironov 2012: noise that is added in floating point", **SIGNED, low_bits=True, expected="falls"
    ),
    **canary_controls(columns, "numpy's Laplace noise"),
    "canaries, gaussian": Case(gaussian(4.0), "textbook", **ONE_RUN, expected="stands"),
    "canaries, an eighth of the noise, gaussian": Case(gaussian(0.5), "wrong on purpose", **ONE_RUN, expected="falls"),
    **exact_controls(),
    "exact, geometric": Case(geometric_law(1.0), "textbook", **BIT, sizes=(1,), expected="stands"),
    "exact, two thirds of the noise, geometric": Case(
        geometric_law(1.5), "wrong on purpose", **BIT, sizes=(1,), expected="falls"
    ),
    "exact, randomized response": Case(
        response_law(0.75), "textbook", **BIT, sizes=(1,), epsilon=np.log(3.0), expected="stands"
    ),
    "exact, randomized response, 0.76 for 0.75": Case(
        response_law(0.76), "wrong on purpose", **BIT, sizes=(1,), epsilon=np.log(3.0), expected="falls"
    ),
}

if __name__ == "__main__":
    main("numpy", CASES)
