"""InterpretML's DP-EBM: term scores, bin weights and intercept, tested on the claim of its epsilon and delta.

Exact cases state the total of all noisy queries, with the noise that the library returns for them. A model releases a
few dozen numbers, far fewer than the rows that one run would need: canaries are in its first step, the noisy histogram
of a column, each in a cell of its own.
"""

from __future__ import annotations

import math

import numpy as np
from serve import Case, canary_controls, controls, each, exact_controls, main, normal

DOCS = "interpret.privacy: (epsilon, delta)-differential privacy with privacy_bounds (and privacy_target_min, max)"


def model(kind, **words):
    """A model with few rounds and bins; the claim does not depend on them."""

    def make():
        from interpret import privacy

        bounds = {0: (-1.0, 1.0)}

        def release(rows):
            if kind.endswith("Classifier"):  # the set of classes is public: two more rows always show both
                rows = np.concatenate([[(0.0, 0.0), (0.0, 1.0)], rows])
            fitted = getattr(privacy, kind)(
                epsilon=1.0, delta=0.05, privacy_bounds=bounds, max_rounds=2, max_bins=4, max_leaves=2, n_jobs=1,
                feature_types=["continuous"], **words,
            )  # fmt: skip
            fitted.fit(rows[:, :-1], rows[:, -1] if kind.endswith("Regressor") else rows[:, -1].astype(int))
            # noise decides the number of cuts, so each column has its own places for them
            cuts = np.full(12, -9.0)
            found = np.ravel(fitted.bins_[0][0])[:12]
            cuts[: len(found)] = found
            scores = np.zeros(14)
            terms = np.ravel(fitted.term_scores_[0])[:14]
            scores[: len(terms)] = terms
            return cuts, np.clip(scores, -1e6, 1e6), np.clip(np.ravel(fitted.intercept_), -1e6, 1e6)

        return each(release)

    return make


def textbook(noise):
    """The mean of the first column, and noise from the generator that the models draw from."""

    def make():
        from interpret.utils._native import Native

        native = Native.get_native_singleton()

        def release(rows, runs):
            drawn = native.generate_gaussian_random(None, 2.0 * noise / len(rows), runs)  # None: no seed
            return rows[:, 0].mean() + drawn

        return release

    return make


def columns(scale):
    """Sums of columns and Laplace noise by products of the library's Gaussian numbers: A B + C D is Laplace."""

    def make():
        from interpret.utils._native import Native

        native = Native.get_native_singleton()

        def release(rows):
            a, b, c, d = native.generate_gaussian_random(None, 1.0, 4 * rows.shape[1]).reshape(4, -1)
            return rows.sum(axis=0) + scale * (a * b + c * d)

        return each(release)

    return make


def queries(kind, epsilon, delta, count):
    """So many sums with sensitivity 1, and the noise that the library computes for each."""

    def make():
        from interpret.utils import _privacy

        if kind == "classic":
            noise = _privacy.calc_classic_noise_multi(count, epsilon, delta, 1.0)
        else:
            noise = _privacy.calc_gdp_noise_multi(count, epsilon, delta)
        return lambda rows: normal(count * rows.sum(), noise * math.sqrt(count))

    return Case(
        make, f"interpret.utils._privacy.calc_{kind}_noise_multi", "exact", low=(-1.0,), epsilon=epsilon, delta=delta,
        adjacency="add_remove", sizes=(0, 1),
    )  # fmt: skip


def fitted(composition):
    """One count of bins, and two rounds with a sensitivity of the learning rate, by the scales that a model states."""

    def make():
        from interpret import privacy

        model = privacy.DPExplainableBoostingClassifier(
            epsilon=1.0, delta=0.05, composition=composition, privacy_bounds={0: (-1.0, 1.0)}, max_rounds=2, max_bins=4,
            max_leaves=2, n_jobs=1, feature_types=["continuous"], learning_rate=0.1, outer_bags=1,
        )  # fmt: skip
        model.fit(np.linspace(-1.0, 1.0, 12).reshape(-1, 1), np.arange(12) % 2)
        precision = model.noise_scale_binning_**-2 + 2 * (0.1 / model.noise_scale_boosting_) ** 2
        return lambda rows: normal(rows.sum(), precision**-0.5)

    return Case(
        make, f"{DOCS}; noise_scale_binning_, noise_scale_boosting_", "exact", delta=0.05, adjacency="add_remove",
        sizes=(0,),
    )  # fmt: skip


def histogram(epsilon, delta):
    """Bins of a column that has a row for each canary in the table, and, for each cell, the weight of its bin."""

    def make():
        from interpret.utils import _privacy

        noise = _privacy.calc_gdp_noise_multi(1, epsilon, delta)

        def release(rows):
            cells = rows.shape[1]
            column = rows.argmax(axis=1) + 0.5
            cuts, weights = _privacy.private_numeric_binning(column, None, noise, cells // 2, 0.0, float(cells))
            own = np.searchsorted(cuts, np.arange(cells) + 0.5)
            return np.asarray(weights)[1:][own] / np.bincount(own)[own]

        return each(release)

    return make


CASES = {
    "DPExplainableBoostingClassifier": Case(
        model("DPExplainableBoostingClassifier"), DOCS, low=(-1.0, 0.0), high=(1.0, 1.0), levels={1: (0.0, 1.0)},
        delta=0.05, sizes=(12,), runs=3_000,
    ),
    "DPExplainableBoostingRegressor": Case(
        model("DPExplainableBoostingRegressor", privacy_target_min=-1.0, privacy_target_max=1.0), DOCS,
        low=(-1.0, -1.0), high=(1.0, 1.0), delta=0.05, sizes=(12,), runs=3_000,
    ),
    # known: https://github.com/interpretml/interpret/issues/523
    "DPExplainableBoostingRegressor, targets from 9 to 10": Case(
        model("DPExplainableBoostingRegressor", privacy_target_min=9.0, privacy_target_max=10.0), DOCS, low=(-1.0, 9.0),
        high=(1.0, 10.0), delta=0.05, sizes=(12,), runs=3_000,
    ),
    **controls(
        textbook, "a Gaussian mean by the library's generator", low=(-1.0,), high=(1.0,), epsilon=None, mu=1.0,
        sizes=(12,),
    ),
    "canaries, private_numeric_binning": Case(
        histogram(4.0, 1e-3), "interpret.utils._privacy.private_numeric_binning with calc_gdp_noise_multi", "canaries",
        canaries=2_000, epsilon=4.0, delta=1e-3, adjacency="add_remove",
    ),
    **canary_controls(columns, "sums and products of numbers by the library's generator"),
    "exact, the noise scales of a model, gdp": fitted("gdp"),
    "exact, the noise scales of a model, classic": fitted("classic"),
    **exact_controls(),
}  # fmt: skip
for KIND in ("classic", "gdp"):
    CASES |= {
        f"exact, one query, {KIND}": queries(KIND, 1.0, 1e-3, 1),
        f"exact, 100 queries, {KIND}": queries(KIND, 1.0, 1e-5, 100),
        f"exact, 100 queries, epsilon 8, {KIND}": queries(KIND, 8.0, 0.05, 100),
    }

if __name__ == "__main__":
    main("interpret-core", CASES)
