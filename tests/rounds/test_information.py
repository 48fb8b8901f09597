"""Mutual information of channels and their capacities: closed forms, both bounds, and refusals."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

from privol.errors import InvalidParameter
from privol.randomizers import channel_capacity, gaussian_information, gaussian_leakage, mutual_information


def entropy(*law):
    return -sum(p * math.log(p) for p in law if p > 0.0)


def test_mutual_information_is_that_of_the_joint_law():
    prior, channel = [0.2, 0.5, 0.3], [[0.7, 0.3, 0.0], [0.1, 0.1, 0.8], [0.25, 0.5, 0.25]]
    out = np.array(prior) @ np.array(channel)
    exact = entropy(*out) - sum(p * entropy(*row) for p, row in zip(prior, channel, strict=True))
    found = mutual_information(prior, channel)
    assert found.lower <= exact + 1e-15
    assert exact - 1e-15 <= found.upper
    assert found.upper - found.lower < 1e-13
    assert mutual_information([1.0, 0.0], [[0.5, 0.5], [0.0, 1.0]]).upper < 1e-13  # nothing is left to reveal
    assert mutual_information([0.5, 0.5], np.eye(2)).lower == pytest.approx(math.log(2.0), rel=1e-13)


def test_both_bounds_hold_against_more_digits():
    """For random channels, the sum in double precision is a digit or two away from the exact one, on either side."""
    rng = np.random.default_rng(0)
    for size in (2, 3, 8, 40):
        for _ in range(5):
            prior, channel = rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(size), size=size)
            found = mutual_information(prior, channel)
            with mpmath.workdps(50):
                w, rows = [mpmath.mpf(p) for p in prior.tolist()], [list(map(mpmath.mpf, r)) for r in channel.tolist()]
                w, rows = [p / sum(w) for p in w], [[p / sum(row) for p in row] for row in rows]
                out = [sum(p * row[j] for p, row in zip(w, rows, strict=True)) for j in range(size)]
                exact = sum(
                    p * sum(q * mpmath.log(q / o) for q, o in zip(row, out, strict=True) if q)
                    for p, row in zip(w, rows, strict=True)
                )
                assert found.lower <= exact <= found.upper
            assert found.upper - found.lower < 1e-11


@pytest.mark.parametrize(
    ("channel", "capacity"),
    [
        ([[0.9, 0.1], [0.1, 0.9]], math.log(2.0) - entropy(0.9, 0.1)),
        ([[1.0, 0.0], [0.3, 0.7]], math.log1p(0.7 * 0.3 ** (0.3 / 0.7))),  # the Z channel
        ([[0.6, 0.4, 0.0], [0.0, 0.4, 0.6]], 0.6 * math.log(2.0)),  # erasures
        (np.eye(5), math.log(5.0)),
        ([[0.5, 0.5], [0.5, 0.5]], 0.0),
        ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]], math.log(2.0)),  # an unnecessary input
    ],
)
def test_capacities_in_closed_form(channel, capacity):
    found = channel_capacity(channel)
    assert found.lower - 1e-12 <= capacity <= found.upper + 1e-12
    assert found.upper - found.lower < 2e-9
    assert mutual_information(found.prior, channel).lower == pytest.approx(found.lower, abs=1e-11)


def test_bounds_hold_if_the_computation_ends_early():
    channel = [[0.97, 0.02, 0.01], [0.2, 0.3, 0.5], [0.05, 0.9, 0.05], [0.5, 0.25, 0.25]]
    exact = channel_capacity(channel)
    widths = []
    for iterations in (1, 3, 30):
        found = channel_capacity(channel, iterations=iterations)
        assert found.lower <= exact.upper
        assert found.upper >= exact.lower
        widths.append(found.upper - found.lower)
    assert widths[0] > widths[1] > widths[2] > 0.0


@pytest.mark.parametrize("ratio", [0.1, 1.0, 1.6])
def test_a_number_with_gaussian_noise(ratio):
    """Up to 1.66 standard deviations two points are the best distribution, whose information is an integral."""
    lost, _ = integrate.quad(
        lambda y: stats.norm.pdf(y - ratio) * np.logaddexp(0.0, -2.0 * ratio * y), -12.0, 14.0, epsabs=1e-13
    )
    found = gaussian_information(1.0 / ratio)
    assert found.lower <= math.log(2.0) - lost <= found.upper == gaussian_leakage(1.0 / ratio, dim=1)
    assert found.lower > 0.999 * (math.log(2.0) - lost)
    # in many dimensions a coordinate's share is small, and the capacity close to that for a limited mean square
    many = gaussian_information(1.0 / ratio, dim=1000)
    assert 0.99 * many.upper < many.lower <= many.upper


def test_a_strong_signal_has_high_information():
    found = gaussian_information(0.1, bound=2.0)
    assert 0.7 * found.upper < found.lower < found.upper
    assert gaussian_information(1e-9).lower < gaussian_information(1e-9).upper
    assert gaussian_information(1e9).lower >= 0.0


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: mutual_information([0.5, 0.4], np.eye(2)), "prior must sum to 1, found 0.9 in row 0"),
        (lambda: mutual_information([1.0], np.eye(2)), "one probability for each row"),
        (lambda: mutual_information([0.5, 0.5], [0.5, 0.5]), r"channel must have the shape \(inputs, outputs\)"),
        (lambda: channel_capacity([[1.5, -0.5]]), "at least 0, found -0.5"),
        (lambda: channel_capacity([[1.0, 0.0], [math.nan, 1.0]]), "at least 0"),
        (lambda: channel_capacity([[1.0, 0.0], [0.7, 0.7]]), "in row 1"),
        (lambda: channel_capacity(np.eye(2), tolerance=0.0), "tolerance"),
        (lambda: channel_capacity(np.eye(2), iterations=0), "iterations"),
        (lambda: gaussian_information(0.0), "std"),
    ],
)
def test_refusals(call, match):
    with pytest.raises(InvalidParameter, match=match):
        call()
