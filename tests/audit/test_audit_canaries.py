"""Audits of programs without many runs: exact densities, and canaries of one run."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from alpha import rate
from scipy.stats import binom, laplace, norm

from privol.audit import Domain, audit_canaries, audit_program, exact_delta
from privol.audit._canaries import canary_p_value
from privol.errors import InvalidParameter
from privol.guarantees import gdp_delta

RNG = np.random.default_rng()
SIGNED, UNIT = Domain([-1.0], [1.0]), Domain([0.0], [1.0])


@pytest.fixture(autouse=True)
def _same_noise():
    RNG.bit_generator.state = np.random.default_rng(11).bit_generator.state


# ---- exact --------------------------------------------------------------------------------------------------------


def test_exact_deltas():
    assert exact_delta(norm(0.0), norm(1.0), 1.0) == pytest.approx(gdp_delta(1.0, 1.0), rel=1e-6)
    assert exact_delta(norm(0.0), norm(0.1), 0.5) == pytest.approx(gdp_delta(0.5, 0.1), rel=1e-5)
    assert exact_delta(laplace(0.0), laplace(1.0), 1.0) < 1e-12
    assert exact_delta(laplace(0.0), laplace(1.0), 0.5) == pytest.approx(-math.expm1(-0.25), rel=1e-6)
    third = Fraction(1, 3)
    assert exact_delta([third, 1 - third], [1 - third, third], math.log(2)) < 1e-15
    assert exact_delta([third, 1 - third], [1 - third, third], 0.0) == pytest.approx(1 / 3, rel=1e-15)
    assert exact_delta({"a": 1.0}, {"b": 1.0}, 5.0) == 1.0


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ([0.5, 0.4], [0.5, 0.5], "first must sum to 1"),
        ([0.5, 0.5], [1.5, -0.5], "outcome 1 of second must be at least 0"),
        ([0.5, 0.5], [1.0], "equally many outcomes, found 2 and 1"),
        ("yes", [1.0], "must be probabilities or a distribution"),
    ],
)
def test_exact_deltas_are_checked(first, second, words):
    with pytest.raises(InvalidParameter, match=words):
        exact_delta(first, second, 1.0)


def test_programs_with_known_distributions_are_not_run():
    def program(rows):
        raise AssertionError

    few = {"random_state": 1, "at_most_pairs": 12}
    program.distribution = lambda rows: laplace(rows.sum(), 1.0)
    assert not audit_program(program, domain=UNIT, epsilon=1.0, **few).refuted
    found = audit_program(program, domain=SIGNED, epsilon=1.0, **few)
    assert (found.refuted, found.runs, found.log_evidence) == (True, 0, math.inf)
    assert found.exact == pytest.approx(-math.expm1(-0.5), rel=1e-4)
    assert "need delta = 0.393" in found.sentence()
    assert json.loads(found.to_json())["log_evidence"] == "inf"
    program.distribution = lambda rows: norm(rows.sum(), 2.0)
    assert not audit_program(program, domain=SIGNED, mu=1.0, **few).refuted
    assert audit_program(program, domain=SIGNED, mu=0.99, **few).refuted
    program.distribution = lambda rows: [0.5, 0.5] if len(rows) < 2 else [0.4, 0.6]
    words = {"epsilon": 0.0, "adjacency": "add_remove", **few}
    assert not audit_program(program, domain=UNIT, delta=0.1001, **words).refuted
    assert audit_program(program, domain=UNIT, delta=0.0999, **words).refuted


# ---- canaries -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.5, 0.0), (1.0, 0.01), (2.0, 1e-3)])
def test_p_values_of_guesses(epsilon, delta):
    """As in the authors' program, and at least what a program shows that reveals a canary with probability delta."""
    m, r, right = 12, 9, 1 / (1 + math.exp(-epsilon))
    for v in range(1, r + 1):
        worst, below = 0.0, 0.0
        for i in range(1, v + 1):
            below += binom.pmf(v - i, r, right)
            worst = max(worst, below / i)
        expected = min(1.0, binom.sf(v - 1, r, right) + 2 * m * delta * worst)
        found = canary_p_value(m, r, v, epsilon, delta)
        assert found == pytest.approx(expected, rel=1e-8)
        assert found >= binom.sf(v - 1, r, delta + (1 - delta) * right)
    assert canary_p_value(m, r, 0, epsilon, delta) == 1.0


def sums(scale):
    return lambda rows: rows.sum(axis=0) + RNG.laplace(scale=scale, size=rows.shape[1])


@pytest.mark.statistical
@pytest.mark.parametrize(("adjacency", "scale"), [("add_remove", 1.0), ("zero_out", 1.0), ("replace", 2.0)])
def test_canaries(adjacency, scale):
    """Each canary has a coordinate, with noise for epsilon = 1."""
    words = {"adjacency": adjacency, "random_state": 3}
    found = audit_canaries(sums(scale), np.eye(1000), epsilon=1.0, error=rate("audit.canaries", 3), **words)
    assert not found.refuted
    assert 0.3 < found.epsilon_lower < 1.0
    wrong = audit_canaries(sums(scale / 3), np.eye(1000), epsilon=1.0, **words)
    assert wrong.refuted
    assert wrong.epsilon_lower > 1.0
    assert "THE CLAIM IS REFUTED" in wrong.sentence()
    assert json.loads(wrong.to_json())["correct"] == wrong.correct
    for one in (found, wrong):  # four numbers of guesses share the error
        assert one.p_value == min(1.0, 4 * canary_p_value(1000, one.guesses, one.correct, 1.0, 0.0))


@pytest.mark.parametrize("adjacency", ["add_remove", "replace", "zero_out"])
def test_canaries_are_in_by_fair_coins_which_no_score_sees(adjacency):
    tables, rows = [], np.eye(1000)

    def program(table):
        tables.append(table)
        return RNG.normal(size=1000)

    def score(released, canaries):
        assert np.array_equal(canaries, rows)
        return released

    found = audit_canaries(program, rows, epsilon=0.0, adjacency=adjacency, score=score, random_state=1)
    (table,) = tables
    assert 400 < (table == 1.0).sum() < 600
    assert 400 < 2 * found.correct * 500 / found.guesses < 600
    assert not found.refuted


def test_guesses_refute_at_their_own_error():
    words = {"epsilon": 1.0, "random_state": 1}
    p = audit_canaries(lambda rows: rows.sum(axis=0), np.eye(30), **words).p_value
    assert 1e-3 < p < 1e-2
    for error, refuted in ((p, True), (0.999 * p, False)):
        assert audit_canaries(lambda rows: rows.sum(axis=0), np.eye(30), error=error, **words).refuted == refuted


def test_canaries_are_checked():
    program, words = sums(1.0), {"epsilon": 1.0}
    for canaries, message, more in (
        ([[1.0]], "2 canaries at least", {}),
        ([1.0, 2.0], "must have a shape", {}),
        ([[1.0], [math.nan]], "row 2 of canaries is not finite", {}),
        (np.eye(3), "for adjacency 'replace'", {"alternatives": np.eye(3)}),
        (np.eye(3), "one row for each of 3 canaries", {"alternatives": np.eye(3)[:2], "adjacency": "replace"}),
        (np.eye(3), "others must have rows of 3", {"others": [[1.0]]}),
        (np.eye(3), "a number for each of 3 canaries", {"score": lambda released, canaries: released[:2]}),
    ):
        with pytest.raises(InvalidParameter, match=message):
            audit_canaries(program, canaries, **words, **more)
    with pytest.raises(InvalidParameter, match="score must be given: the program releases 1 values"):
        audit_canaries(lambda rows: rows.sum(), np.eye(3), **words)
