"""Losses of several scores: values, gradients, and the bound of the slopes that scales the noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.special import softmax as scipy_softmax

from privol.errors import InvalidParameter
from privol.losses import (
    Custom,
    Hinge,
    Logistic,
    SmoothHinge,
    Softmax,
    _classes,
    class_gradients,
    class_losses,
    class_slope_bound,
    loss_at_zero,
)

pytestmark = pytest.mark.slow

BINARY = [Logistic(), Hinge(), SmoothHinge(), SmoothHinge(width=3.0)]
NAMES = ["logistic", "hinge", "smooth_hinge", "smooth_hinge-3"]


def scores_of(n=200, classes=5, size=3.0, seed=0):
    rng = np.random.default_rng(seed)
    return size * rng.normal(size=(n, classes)), rng.integers(classes, size=n)


def test_softmax_by_its_definition():
    scores, y = scores_of()
    np.testing.assert_allclose(Softmax().value(scores, y), logsumexp(scores, axis=1) - scores[np.arange(200), y])
    np.testing.assert_allclose(Softmax().gradient(scores, y), scipy_softmax(scores, axis=1) - np.eye(5)[y], atol=1e-15)
    far = np.array([[1e4, 0.0, -1e4]])
    assert Softmax().value(far, np.array([2])) == 2e4
    np.testing.assert_array_equal(Softmax().gradient(far, np.array([2])), [[1.0, 0.0, -1.0]])
    assert np.array_equal(class_losses(Softmax(), scores, y), Softmax().value(scores, y))
    assert np.array_equal(class_gradients(Softmax(), scores, y), Softmax().gradient(scores, y))


@pytest.mark.parametrize("loss", BINARY, ids=NAMES)
def test_one_against_the_rest(loss):
    scores, y = scores_of()
    for i in range(len(y)):
        signs = [1.0 if k == y[i] else -1.0 for k in range(5)]
        expected = sum(float(loss.value(s, sign)) for s, sign in zip(scores[i], signs, strict=True))
        assert class_losses(loss, scores, y)[i] == pytest.approx(expected)
        slopes = [float(loss.gradient(s, sign)) for s, sign in zip(scores[i], signs, strict=True)]
        assert class_gradients(loss, scores, y)[i].tolist() == slopes


def test_two_classes_are_the_logistic_loss_of_the_difference():
    scores, y = scores_of(classes=2)
    difference, sign = scores[:, 1] - scores[:, 0], 2.0 * y - 1.0
    np.testing.assert_allclose(Softmax().value(scores, y), Logistic().value(difference, sign))
    np.testing.assert_allclose(Softmax().gradient(scores, y)[:, 1], Logistic().gradient(difference, sign), atol=1e-15)


@pytest.mark.parametrize("classes", [2, 3, 7, 20])
@pytest.mark.parametrize("loss", [Softmax(), *BINARY], ids=["softmax", *NAMES])
def test_a_loss_at_zero(loss, classes):
    if classes > 2 or loss.joint:
        expected = class_losses(loss, np.zeros((1, classes)), np.array([0]))[0]
    else:
        expected = max(float(loss.value(0.0, -1.0)), float(loss.value(0.0, 1.0)))
    assert loss_at_zero(loss, classes) == pytest.approx(expected)


# ---- the bound ----------------------------------------------------------------------------------------------


def largest(loss, classes, size, tries=16):
    """Largest norm of the slopes found by a search over scores of the given norm."""
    rng = np.random.default_rng(0)

    def negative(u):
        scores = (u * (size / np.linalg.norm(u)))[None]
        return -float(np.linalg.norm(class_gradients(loss, scores, np.array([0]))))

    against = np.ones(classes)
    against[0] = -1.0
    one = np.zeros(classes)
    one[:2] = -1.0, 1.0
    starts = [against, one, *(np.concatenate([[-2.0], rng.normal(size=classes - 1)]) for _ in range(tries))]
    return max(-minimize(negative, u, method="BFGS").fun for u in starts)


@pytest.mark.parametrize("size", [1e-9, 0.3, 1.0, 2.0, 4.0, 9.0, 30.0])
@pytest.mark.parametrize("classes", [2, 3, 7, 20])
def test_the_softmax_bound_holds_and_is_nearly_attained(classes, size):
    """Exact for two classes, without scores and in the limit; at most a tenth above what a search finds."""
    bound, found = class_slope_bound(Softmax(), classes, size), largest(Softmax(), classes, size)
    assert found <= bound * (1 + 1e-12)
    loose = 1 + 1e-9 if classes == 2 else (1.001 if size < 1e-6 or (size >= 9.0 and classes < 20) else 1.1)
    assert bound <= loose * found
    assert bound <= math.sqrt(2.0) * (1 + 1e-11)
    assert class_slope_bound(Softmax(), classes, 1.2 * size) >= bound * (1 - 1e-3)


def test_the_softmax_bound_at_random():
    """All kinds of directions, at sizes where the bound is not constant."""
    rng = np.random.default_rng(3)
    for classes in (2, 3, 4, 11):
        u = rng.standard_t(1.2, size=(20_000, classes))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        y = rng.integers(classes, size=len(u))
        for size in (0.5, 1.5, 3.0, 6.0):
            norms = np.linalg.norm(Softmax().gradient(size * u, y), axis=1)
            assert norms.max() <= class_slope_bound(Softmax(), classes, size)


@pytest.mark.parametrize("size", [0.3, 1.0, 2.0, 4.0, 9.0])
@pytest.mark.parametrize("classes", [3, 7, 20])
def test_the_softmax_bound_is_that_of_its_proof(classes, size, monkeypatch):
    """Its supremum is within every cell's bound, however few cells there are: inside, both terms may be large."""
    n = classes - 1
    largest = 1 / (1 + (n - 1) * math.exp(-size * math.sqrt(n / (n - 1))))
    most = largest**2 + (1 - largest) * min(largest, 1 - largest)
    end = (1 + math.sqrt((n - 1) * max(n * most - 1, 0.0))) / n  # the larger share, where the squares sum to most
    x = np.unique(np.append(np.linspace(1 / n, min(end, 1.0), 5001), np.linspace(0.999 * end, end, 1001)))[1:-1]
    x = x[(x > 1 / n) & (x < end)]
    root = np.sqrt(1 + x**2 + (1 - x) ** 2 / (n - 1))
    supremum = np.max(root / (1 + np.exp(-size * root + x * np.log(x) + (1 - x) * np.log((1 - x) / (n - 1)))))
    assert supremum <= class_slope_bound(Softmax(), classes, size) <= 1.002 * supremum
    for cells in (1, 3, 10):
        monkeypatch.setattr(_classes, "_CELLS", cells)
        assert supremum <= class_slope_bound(Softmax(), classes, size)


def test_entropy_given_the_sum_of_squares():
    """The lemma of docs/proofs/classes.md: one larger share, the others equal."""
    rng = np.random.default_rng(4)
    for n in (2, 3, 6):
        shares = rng.dirichlet(np.full(n, 0.4), size=5000)
        squares = np.sum(shares**2, axis=1)
        x = (1 + np.sqrt((n - 1) * (n * squares - 1))) / n  # the larger root of a(x) = squares
        rest = np.maximum(1 - x, 1e-300)
        most = -x * np.log(x) - rest * np.log(rest / (n - 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            entropy = -np.nansum(np.where(shares > 0, shares * np.log(shares), 0.0), axis=1)
        assert np.all(entropy <= most + 1e-9)


@pytest.mark.parametrize("size", [0.0, 0.5, 2.0, 8.0, 50.0])
@pytest.mark.parametrize("classes", [3, 7])
@pytest.mark.parametrize("loss", BINARY, ids=NAMES)
def test_the_bound_against_the_rest_is_the_supremum(loss, classes, size):
    bound = class_slope_bound(loss, classes, size)
    rng = np.random.default_rng(5)
    u = rng.normal(size=(5000, classes)) * rng.random((5000, 1))
    u *= size / np.maximum(np.linalg.norm(u, axis=1, keepdims=True), 1e-300)
    assert np.linalg.norm(class_gradients(loss, u, np.zeros(len(u), int)), axis=1).max() <= bound
    worst = np.full((1, classes), size / math.sqrt(classes))
    worst[0, 0] *= -1.0
    assert np.linalg.norm(class_gradients(loss, worst, np.array([0]))) == pytest.approx(bound, rel=1e-11)


def test_bounds_without_limits():
    assert class_slope_bound(Softmax(), 9, math.inf) == pytest.approx(math.sqrt(2.0))
    assert class_slope_bound(Logistic(), 9, math.inf) == pytest.approx(3.0)
    custom = Custom(value=lambda p, y: 2 * abs(p - y), gradient=lambda p, y: 2 * float(np.sign(p - y)), lipschitz=2.0,
                    smoothness=math.inf)  # fmt: skip
    assert class_slope_bound(custom, 4, 1.0) == pytest.approx(4.0)
    assert Softmax().gradient_bound(3.0, math.inf) == pytest.approx(3 * math.sqrt(2.0))
    for bad in (1, 2.5, "three"):
        with pytest.raises(InvalidParameter, match="n_classes"):
            class_slope_bound(Softmax(), bad, 1.0)
    with pytest.raises(InvalidParameter, match="score_bound"):
        class_slope_bound(Softmax(), 3, -1.0)
