"""Probabilities after clipped gradients: those at which the mean of the clipped gradients is 0."""

from __future__ import annotations

import math

import numpy as np
import pytest
from auto_tools import labels_of, table
from hypothesis import given, settings
from hypothesis import strategies as st

from privol import DPFTRL, PIGD, AdaptiveFTRL, PrivateClassifier
from privol.explaining import cut_of
from privol.losses import Logistic, Softmax, class_gradients, class_probabilities
from privol.streams import Schema

SCHEMA = Schema.load({"columns": {f"x{j}": {"knots": [0.0, 1.0, 2.0]} for j in range(3)}})


@given(st.lists(st.floats(-30.0, 30.0), min_size=2, max_size=6), st.floats(0.7072, 1.5))
@settings(max_examples=150, deadline=None)
def test_softmax(scores, cut):
    """By definition, and in the order of the scores."""
    s = np.array([scores])
    n = s.shape[1]
    p = class_probabilities(Softmax(), s, cut)[0]
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    mean, length = np.zeros(n), 0.0
    for y in range(n):
        gradient = class_gradients(Softmax(), s, np.array([y]))[0]
        scaled = gradient * min(1.0, cut / max(np.linalg.norm(gradient), 1e-300))
        mean, length = mean + p[y] * scaled, length + p[y]
    assert np.abs(mean).max() < 1e-12
    by_score = p[np.argsort(s[0], kind="stable")]
    assert (np.diff(by_score) > -1e-12).all()


@given(st.floats(-700.0, 700.0), st.floats(0.5, 1.2))
@settings(max_examples=150, deadline=None)
def test_one_score(score, cut):
    p = class_probabilities(Logistic(), np.array([score]), cut)[0]
    q = 1.0 / (1.0 + math.exp(-score)) if score > -700 else 0.0
    slopes = min(1.0 - q, cut), min(q, cut)
    assert p[1] * slopes[0] == pytest.approx(p[0] * slopes[1], abs=1e-12)
    assert (p[1] > 0.5) == (score > 0.0) or abs(score) < 1e-12
    other = class_probabilities(Logistic(), np.array([score + 1e-3]), cut)[0]
    assert other[1] >= p[1] - 1e-12
    two = class_probabilities(Softmax(), np.array([[0.0, score]]), math.sqrt(2.0) * cut)[0]
    assert two == pytest.approx(p, abs=1e-9)


def test_the_clipping_level_of_each_learner_is_known():
    """Half of the slope of the longest row, for usual ones; unknown after a class weight or too strong clipping."""
    longest, usual = SCHEMA.row_bound, SCHEMA.usual_norm
    words = {"x_bound": usual, "fit_intercept": False}
    assert cut_of(AdaptiveFTRL(**words), SCHEMA, 9, 2) == pytest.approx(0.5, rel=1e-9)
    assert cut_of(AdaptiveFTRL(**{**words, "x_bound": longest}), SCHEMA, 9, 2) == pytest.approx(0.5 * longest / usual)
    assert cut_of(AdaptiveFTRL(loss="softmax", **words), SCHEMA, 9, 4) == pytest.approx(math.sqrt(0.5), rel=1e-9)
    assert cut_of(DPFTRL(gradient_bound=0.7 * usual, **words), SCHEMA, 9, 2) == pytest.approx(0.7, rel=1e-9)
    for made in (
        DPFTRL(**words),
        DPFTRL(gradient_bound=0.3 * usual, **words),
        PIGD(**words),
        AdaptiveFTRL(class_weight={"a": 1.0, "b": 1.5}, **words),
        AdaptiveFTRL(loss="hinge", **words),
    ):
        assert cut_of(made, SCHEMA, 9, 2) == math.inf
    assert cut_of(AdaptiveFTRL(**words), None, 9, 2) == math.inf
    assert cut_of(AdaptiveFTRL(**words), SCHEMA, 9, 3) == math.inf  # each against the rest


def test_probabilities_of_the_classifier_are_nearer_to_the_shares():
    """Without noise, on rows whose probabilities are known: the sigmoid is overconfident.

    The mean distance is 0.031, against 0.050 with the sigmoid; no privacy noise, and a fixed seed.
    """
    rows = table(20_000)
    p = 1.0 / (1.0 + np.exp(-((rows["dose"].to_numpy() - 2.5) * 0.5 + np.where(rows["town"] == "Oslo", 0.6, -0.6))))
    y = np.where(np.random.default_rng(2).random(len(rows)) < p, "ill", "well")
    model = PrivateClassifier(epsilon=math.inf).fit(rows, y)
    found = model.predict_proba(rows)[:, 0]
    plain = 1.0 / (1.0 + np.exp(model.decision_function(rows)))
    assert np.abs(found - p).mean() < 0.75 * np.abs(plain - p).mean()
    assert np.array_equal(model.predict(rows) == "ill", found > 0.5)
    order = np.argsort(model.decision_function(rows))
    assert (np.diff(found[order]) <= 1e-12).all()


def test_probabilities_survive_a_pickle():
    import pickle

    rows = table(2000)
    model = PrivateClassifier(epsilon=20.0, random_state=0).fit(rows, labels_of(rows))
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(rows), model.predict_proba(rows))
