"""One row as an array of doubles has its own code path: the same bits and the same refusals as any other row."""

from __future__ import annotations

import math

import numpy as np
import pytest

import privol
from privol.errors import InvalidParameter, InvalidRow

D = 6
RNG = np.random.default_rng(8)
X = RNG.normal(size=(40, D))
X[::5] *= 1e-3
LABELS = np.where(X[:, 0] + 0.3 * RNG.normal(size=40) > 0, "yes", "no")
TARGETS = 1.5 * X[:, 1]
KINDS = ["AdaptiveFTRL", "DPFTRL", "LDPSGD", "NOGD", "PGIGA", "PIGD", "PQFTL"]


def begun(name, loss, **words):
    settings = {"loss": loss, "horizon": 100, "x_bound": 1.5, "epsilon": 5.0, "random_state": 4, "release": 1}
    learner = getattr(privol, name)(**{**settings, **words})
    return learner.declare_classes(["no", "yes"]) if loss == "logistic" else learner


def rows_of(loss):
    labels = list(LABELS) if loss == "logistic" else list(TARGETS)
    return [(x, y) for x, y in zip(X, labels, strict=True)]


CASES = [(name, loss) for name in KINDS for loss in ("logistic", "squared") if (name, loss) != ("PQFTL", "logistic")]


@pytest.mark.parametrize(("name", "loss"), CASES)
@pytest.mark.parametrize("intercept", [True, False])
def test_the_same_bits(name, loss, intercept):
    quick, slow = (begun(name, loss, fit_intercept=intercept) for _ in range(2))
    for x, y in rows_of(loss):
        quick.learn_one(x, y)
        slow.learn_one(x.tolist(), y)
        np.testing.assert_array_equal(quick.coef_, slow.coef_)
        for other in X[:3]:
            found = quick.predict_one(other)
            assert found == slow.predict_one(other.tolist())
            assert type(found) is type(slow.predict_one(other.tolist()))
    quick.close()
    assert [quick.predict_one(x) for x in X] == [quick.predict_one(x.tolist()) for x in X]
    assert quick.n_rows_ == slow.n_rows_ == 40


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_rows_of_other_kinds(loss):
    """Other types and layouts, and what scikit-learn's masks hide, take the path of all rows."""
    wide = np.zeros((40, 2 * D))
    wide[:, ::2] = X
    plain, others = begun("NOGD", loss), begun("NOGD", loss)
    for k, (x, y) in enumerate(rows_of(loss)):
        plain.learn_one(x.astype(np.float32).astype(np.float64), y)
        same = (wide[k, ::2], x.copy(), np.asfortranarray(x), x.astype(">f8"))[k % 4]
        others.learn_one(same.astype(np.float32) if k % 2 else same.astype(np.float32).astype(np.float64), y)
        found, expected = others.predict_one(wide[k, ::2]), others.predict_one(x)
        assert found == (expected if loss == "logistic" else pytest.approx(expected, rel=1e-12))
    np.testing.assert_array_equal(plain.coef_, others.coef_)


@pytest.mark.parametrize("invalid", ["raise", "zero"])
def test_what_is_refused(invalid):
    learner = begun("NOGD", "logistic", on_invalid=invalid).learn_one(X[0], "yes")
    for x in (X[1, :3], X[1][None, :]):
        with pytest.raises(InvalidParameter, match=r"features|one dimension"):
            learner.learn_one(x, "yes")
    broken = X[1].copy()
    broken[2] = math.nan
    bad = [(broken, "yes"), (X[1], "maybe"), (X[1], ["yes"]), (X[1], None)]
    for x, y in bad:
        if invalid == "raise":
            with pytest.raises(InvalidRow, match="row 2"):
                learner.learn_one(x, y)
        else:
            learner.learn_one(x, y)
    assert (learner.n_rows_, learner.n_null_rows_) == ((1, 0) if invalid == "raise" else (5, 4))
    for x in (broken, X[1, :3]):
        with pytest.raises(InvalidParameter):
            learner.predict_one(x)


@pytest.mark.parametrize("y", [5.0, -5.0, np.float64(5.0), np.float32(0.25), 1, True, math.inf, math.nan, "text"])
def test_targets(y):
    one, block = (begun("NOGD", "squared", on_invalid="zero") for _ in range(2))
    one.learn_one(X[0], y)
    block.partial_fit(X[:1], [y])
    np.testing.assert_array_equal(one.coef_, block.coef_)
    assert one.n_null_rows_ == block.n_null_rows_


def test_ends_and_horizons_hold():
    learner = begun("NOGD", "logistic", horizon=2).learn_one(X[0], "yes").learn_one(X[1], "no")
    with pytest.raises(privol.errors.BudgetExceeded):
        learner.learn_one(X[2], "no")
    assert learner.n_rows_ == 2
    assert learner.predict_one(X[0]) in ("yes", "no")


@pytest.mark.parametrize("shape", [(64,), (2, 3), (3,)])
def test_a_label_that_changes_its_row(shape):
    """The hash of a label's own type runs before the row is looked at: a longer row would leave the run's memory."""

    class Label(str):
        __slots__ = ()

        def __hash__(self):
            row.resize(shape, refcheck=False)
            return hash("yes")

        __eq__ = str.__eq__

    learner, untouched = (begun("DPFTRL", "logistic").learn_one(X[0], "yes") for _ in range(2))
    row = X[1].copy()
    with pytest.raises(InvalidParameter, match=r"features|dimension"):
        learner.learn_one(row, Label("yes"))
    assert learner.n_rows_ == 1
    for each in (learner, untouched):
        each.learn_one(X[2], "no")
    np.testing.assert_array_equal(learner.coef_, untouched.coef_)
