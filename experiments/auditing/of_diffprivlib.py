"""diffprivlib's mechanisms, statistics and models, tested on its documented claims: epsilon for one record."""

from __future__ import annotations

import numpy as np
from serve import Case, controls, each, main

DOCS = "diffprivlib's documentation: differential privacy with the given epsilon"


def mechanism(name, **words):
    """``randomise`` of a value between 0 and 1, with sensitivity 1."""

    def make():
        from diffprivlib import mechanisms

        drawn = getattr(mechanisms, name)(**words)
        return each(lambda rows: drawn.randomise(rows[0, 0]))

    return make


def integer_mechanism(name, **words):
    def make():
        from diffprivlib import mechanisms

        drawn = getattr(mechanisms, name)(**words)
        return each(lambda rows: drawn.randomise(int(rows[0, 0])))

    return make


def textbook(scale):
    """A value and Laplace noise, as the difference of two exponential numbers from the library's generator."""

    def make():
        from diffprivlib.utils import check_random_state

        draw = check_random_state(None, secure=True).expovariate
        return each(lambda rows: rows[0, 0] + scale * (draw(1.0) - draw(1.0)))

    return make


def tool(name, **words):
    def make():
        from diffprivlib import tools

        return each(lambda rows: getattr(tools, name)(rows[:, 0], **words))

    return make


def histogram(**words):
    def make():
        from diffprivlib import tools

        return each(lambda rows: tools.histogram(rows[:, 0], epsilon=1.0, bins=4, range=(0.0, 1.0), **words)[0])

    return make


def model(name, released, *, supervised=True, classes=None, **words):
    def make():
        from diffprivlib import models

        def release(rows):
            fitted = getattr(models, name)(epsilon=1.0, **words)
            if classes is not None:  # the set of classes is public: two more rows always show both
                rows = np.concatenate([np.array(classes), rows])
            fitted = fitted.fit(rows[:, :-1], rows[:, -1]) if supervised else fitted.fit(rows)
            return released(fitted)

        return each(release)

    return make


def chosen(monotonic):
    """Which of two candidates has more rows, with counts as utilities."""

    def make():
        from diffprivlib.mechanisms import PermuteAndFlip

        def release(rows):
            counts = [float((rows[:, 0] == k).sum()) for k in (0, 1)]
            return PermuteAndFlip(epsilon=1.0, sensitivity=1, utility=counts, monotonic=monotonic).randomise()

        return each(release)

    return make


LABELLED = {"low": (-1.0, 0.0), "high": (1.0, 1.0), "levels": {1: (0.0, 1.0)}, "sizes": (4, 12), "runs": 8_000}
BOTH = [(0.0, 0.0), (0.0, 1.0)]
ONE = {"sizes": (1,)}
BINARY = {"levels": {0: (0.0, 1.0)}, **ONE}
BOUNDED = {"lower": 0.0, "upper": 1.0}
CASES = {
    "Laplace": Case(mechanism("Laplace", epsilon=1.0, sensitivity=1.0), DOCS, **ONE),
    "Laplace, last bits": Case(mechanism("Laplace", epsilon=1.0, sensitivity=1.0), DOCS, **ONE, low_bits=True),
    "LaplaceTruncated": Case(mechanism("LaplaceTruncated", epsilon=1.0, sensitivity=1.0, **BOUNDED), DOCS, **ONE),
    "LaplaceFolded": Case(mechanism("LaplaceFolded", epsilon=1.0, sensitivity=1.0, **BOUNDED), DOCS, **ONE),
    "LaplaceBoundedDomain": Case(
        mechanism("LaplaceBoundedDomain", epsilon=1.0, sensitivity=1.0, **BOUNDED), DOCS, **ONE
    ),
    "LaplaceBoundedNoise": Case(
        mechanism("LaplaceBoundedNoise", epsilon=1.0, delta=0.05, sensitivity=1.0), DOCS, **ONE, delta=0.05
    ),
    "Staircase": Case(mechanism("Staircase", epsilon=1.0, sensitivity=1.0), DOCS, **ONE),
    "Snapping": Case(mechanism("Snapping", epsilon=1.0, sensitivity=1.0, **BOUNDED), DOCS, **ONE, low_bits=True),
    "Uniform": Case(
        mechanism("Uniform", delta=0.2, sensitivity=1.0), DOCS, **ONE, epsilon=0.0, delta=0.2
    ),
    "Gaussian": Case(
        mechanism("Gaussian", epsilon=0.9, delta=0.05, sensitivity=1.0), DOCS, **ONE, epsilon=0.9, delta=0.05
    ),
    "GaussianAnalytic": Case(
        mechanism("GaussianAnalytic", epsilon=1.0, delta=0.05, sensitivity=1.0), DOCS, **ONE, delta=0.05
    ),
    "GaussianDiscrete": Case(
        integer_mechanism("GaussianDiscrete", epsilon=1.0, delta=0.05, sensitivity=1), DOCS, **BINARY, delta=0.05
    ),
    "Geometric": Case(integer_mechanism("Geometric", epsilon=1.0, sensitivity=1), DOCS, **BINARY),
    "GeometricTruncated": Case(
        integer_mechanism("GeometricTruncated", epsilon=1.0, sensitivity=1, lower=0, upper=1), DOCS, **BINARY
    ),
    "GeometricFolded": Case(
        integer_mechanism("GeometricFolded", epsilon=1.0, sensitivity=1, lower=0, upper=1), DOCS, **BINARY
    ),
    "PermuteAndFlip": Case(chosen(False), DOCS, levels={0: (0.0, 1.0)}),
    "PermuteAndFlip, monotonic": Case(chosen(True), DOCS, levels={0: (0.0, 1.0)}, adjacency="add_remove", sizes=(0, 4)),
    "mean": Case(tool("mean", epsilon=1.0, bounds=(0.0, 1.0)), DOCS),
    "sum": Case(tool("sum", epsilon=1.0, bounds=(0.0, 1.0)), DOCS),
    "var": Case(tool("var", epsilon=1.0, bounds=(0.0, 1.0)), DOCS),
    "std": Case(tool("std", epsilon=1.0, bounds=(0.0, 1.0)), DOCS),
    "count_nonzero": Case(tool("count_nonzero", epsilon=1.0), DOCS, levels={0: (0.0, 1.0)}),
    "median": Case(tool("median", epsilon=1.0, bounds=(0.0, 1.0)), DOCS),
    "histogram": Case(histogram(), DOCS, adjacency="add_remove", sizes=(0, 1, 10)),
    "histogram of densities": Case(histogram(density=True), DOCS, adjacency="add_remove", sizes=(1, 10)),
    "GaussianNB": Case(
        model("GaussianNB", lambda m: (m.class_count_, m.theta_, m.var_), bounds=(-1.0, 1.0), classes=BOTH),
        DOCS, **LABELLED,
    ),
    "LogisticRegression": Case(
        model("LogisticRegression", lambda m: (m.coef_, m.intercept_), data_norm=1.0, C=0.1, classes=BOTH), DOCS,
        **{**LABELLED, "sizes": (10,), "runs": 3_000},
    ),
    # known: https://github.com/IBM/differential-privacy-library/issues/104 and 105
    "LinearRegression": Case(
        model("LinearRegression", lambda m: (m.coef_, m.intercept_), bounds_X=(-1.0, 1.0), bounds_y=(0.0, 1.0)),
        DOCS, **LABELLED,
    ),
    "LinearRegression, columns from 0": Case(
        model("LinearRegression", lambda m: m.coef_, bounds_X=(0.0, 1.0), bounds_y=(0.0, 1.0), fit_intercept=False),
        DOCS, low=(0.0, 0.0), high=(1.0, 1.0), sizes=(1, 4), runs=8_000,
    ),
    "StandardScaler": Case(
        model("StandardScaler", lambda m: (m.mean_, m.var_), supervised=False, bounds=(0.0, 1.0)), DOCS, sizes=(2, 10),
        runs=8_000,
    ),
    "KMeans": Case(
        model("KMeans", lambda m: m.cluster_centers_, supervised=False, n_clusters=2, bounds=(0.0, 1.0)), DOCS,
        low=(0.0, 0.0), high=(1.0, 1.0), sizes=(2, 10), runs=4_000, failures="skip",
    ),
    "PCA": Case(
        model("PCA", lambda m: (np.abs(m.components_), m.explained_variance_), supervised=False, n_components=1,
              data_norm=1.0, centered=True),
        DOCS, low=(-1.0, -1.0), high=(1.0, 1.0), norm=1.0, sizes=(3, 10), runs=4_000, failures="skip",
    ),
    **controls(textbook, "Laplace noise from its generator", **ONE),
}  # fmt: skip

if __name__ == "__main__":
    main("diffprivlib", CASES)
