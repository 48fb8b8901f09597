"""InterpretML's DP-EBM: term scores, bin weights and intercept, tested on the claim of its epsilon and delta."""

from __future__ import annotations

import numpy as np
from serve import Case, controls, each, main

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
}  # fmt: skip

if __name__ == "__main__":
    main("interpret-core", CASES)
