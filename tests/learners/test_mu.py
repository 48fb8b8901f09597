"""A budget given as the parameter of Gaussian differential privacy equals that of the corresponding epsilon."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

import privol
from privol.auto.kept import parameters_of
from privol.calibration import epsilon_of
from privol.errors import InvalidParameter
from privol.evaluate import compare
from privol.guarantees import epsilon_within, gdp_mu
from privol.state import describe_parameters

MU, DELTA = 0.5, 1e-6
RNG = np.random.default_rng(3)
X = RNG.normal(size=(300, 3)) / 3
Y = np.where(X @ [1.0, -2.0, 0.5] > 0, 1.0, 0.0)
TARGETS = np.clip(X @ [0.2, -0.4, 0.1], -1.0, 1.0)
WORDS = {"PIGD": {"release": 100}, "PGIGA": {"release": 100}, "PQFTL": {"loss": "squared"}, "POL": {"radius": 2.0}}
KINDS = ["AdaptiveFTRL", "DPFTRL", "NOGD", "OutputPerturbation", "PGIGA", "PIGD", "POL", "PQFTL"]


def made(name, **words):
    return getattr(privol, name)(**WORDS.get(name, {}), **words)


def fitted(name, **words):
    return made(name, random_state=7, **words).fit(X, TARGETS if name == "PQFTL" else Y)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("users", [None, 3])
def test_mu_and_the_equal_epsilon_give_the_same_run(name, users):
    words = {"delta": DELTA, "rows_per_user": users}
    by_mu, by_epsilon = fitted(name, mu=MU, **words), fitted(name, epsilon=epsilon_within(MU, DELTA), **words)
    np.testing.assert_array_equal(by_mu.coef_, by_epsilon.coef_)
    assert by_mu.guarantee_ == by_epsilon.guarantee_
    assert MU * (1 - 1e-9) <= by_mu.guarantee_.mu <= MU
    said = replace(by_mu.guarantee_, private=True).sentence()
    assert "(epsilon, delta) = (2.255, 1e-6), from 0.5-GDP" in said
    assert not np.array_equal(by_mu.coef_, fitted(name, mu=2 * MU, **words).coef_)


def test_the_noise_is_that_of_mu():
    sigma = made("NOGD", mu=MU).calibrate(3, 300).sigma
    assert made("NOGD", mu=2 * MU).calibrate(3, 300).sigma == pytest.approx(sigma / 2, rel=1e-9)
    assert made("NOGD", mu=MU, delta=1e-9).calibrate(3, 300).sigma == pytest.approx(sigma, rel=1e-9)
    assert made("NOGD", mu=math.inf).calibrate(3, 300).sigma == 0.0


@pytest.mark.parametrize("name", KINDS)
def test_epsilon_and_mu_exclude_each_other(name):
    for words, message in [
        ({"mu": MU, "epsilon": 2.0}, r"exclude each other: found epsilon=2.0 and mu=0.5"),
        ({"mu": MU, "epsilon": 1.0}, r"exclude each other: found epsilon=1.0 and mu=0.5"),
        ({"mu": 0.0}, "mu must be a number above 0"),
        ({"mu": math.nan}, "mu must be"),
        ({"mu": 1e-9}, "mu=1e-09 has no epsilon above 0 at delta=1e-06"),
    ]:
        with pytest.raises(InvalidParameter, match=message):
            fitted(name, delta=DELTA, **words)


@pytest.mark.parametrize("name", KINDS)
def test_the_default_budget_is_epsilon_1(name):
    none, one = fitted(name), fitted(name, epsilon=1.0)
    np.testing.assert_array_equal(none.coef_, one.coef_)
    assert none.guarantee_ == one.guarantee_
    assert epsilon_of(none) == 1.0
    assert describe_parameters(none) == describe_parameters(one)
    assert describe_parameters(made(name, mu=MU))["epsilon"] is None


def test_learners_without_gaussian_noise_refuse_mu():
    with pytest.raises(InvalidParameter, match="delta must be a finite number above 0"):
        fitted("OutputPerturbation", mu=MU, delta=0.0)
    for name in ("PIGD", "OutputPerturbation"):
        with pytest.raises(InvalidParameter, match="calibration='published'"):
            fitted(name, mu=MU, calibration="published")
    for name in ("ObjectivePerturbation", "LDPSGD", "MIOGD", "DOLA"):
        assert "mu" not in getattr(privol, name)().get_params()
    with pytest.raises(InvalidParameter, match="epsilon must be a number above 0, found None"):
        privol.LDPSGD(epsilon=None).fit(X, Y)


@pytest.mark.parametrize("name", KINDS)
def test_parameters_are_scikit_learn_s(name):
    learner = made(name, mu=MU)
    assert clone(learner).get_params()["mu"] == MU
    assert learner.set_params(mu=None, epsilon=2.0).get_params()["mu"] is None
    assert f"mu={MU}" in repr(made(name, mu=MU))


def test_estimators():
    rows, labels = np.tile(X, (10, 1)), np.tile(Y, 10)
    by_mu = privol.PrivateClassifier(mu=5.0, random_state=1).fit(rows, labels)
    by_epsilon = privol.PrivateClassifier(epsilon=epsilon_within(5.0, 1e-6), random_state=1).fit(rows, labels)
    np.testing.assert_array_equal(by_mu.predict_proba(X), by_epsilon.predict_proba(X))
    assert by_mu.guarantee_ == by_epsilon.guarantee_
    assert by_mu.guarantee_.mu <= 5.0
    with pytest.raises(InvalidParameter, match="exclude each other"):
        privol.PrivateRegressor(mu=1.0, epsilon=1.0).fit(rows, labels)
    nothing, one = (
        privol.PrivateClassifier(random_state=1, **words).fit(rows, labels) for words in ({}, {"epsilon": 1.0})
    )
    np.testing.assert_array_equal(nothing.predict_proba(X), one.predict_proba(X))
    assert parameters_of(nothing) == parameters_of(one)


def test_code_that_reads_the_budget_accepts_mu():
    found = compare(made("DPFTRL", mu=MU, random_state=1), privol.open_stream((X, Y), classes=(0, 1)))
    assert math.isinf(found.noiseless.regret) is False
    assert found.every_row is None
    plans = [
        privol.plan("pigd", n_features=3, horizon=300, release=10, **words)
        for words in ({"mu": MU}, {"epsilon": epsilon_within(MU, DELTA)})
    ]
    assert plans[0].guarantee == plans[1].guarantee
    assert plans[0].remedies == plans[1].remedies != ()
    assert gdp_mu(plans[0].parameters["epsilon"], DELTA) <= MU
