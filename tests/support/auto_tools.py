"""Shared data of the tests of the estimators of tables: a table of mixed columns, its labels, its real target."""

from __future__ import annotations

import numpy as np
import pandas


def table(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.normal(50, 10, n).round(2)
    return pandas.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.05, np.nan, age),
            "town": rng.choice(["Oslo", "Bergen", "Narvik"], n, p=[0.5, 0.3, 0.2]),
            "dose": rng.integers(0, 6, n),
        }
    )


def score_of(X):
    age = X["age"].fillna(50.0).to_numpy()
    return (age - 50.0) / 5.0 + np.where(X["town"] == "Oslo", 2.0, -2.0) + 0.3 * X["dose"].to_numpy()


def labels_of(X, seed=1):
    noise = np.random.default_rng(seed).logistic(scale=0.5, size=len(X))
    return np.where(score_of(X) + noise > 0.5, "ill", "well")


def numbers_of(X, seed=1):
    return 120.0 + 10.0 * score_of(X) + np.random.default_rng(seed).normal(size=len(X))
