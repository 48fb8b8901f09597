"""The counterexamples of docs/errata.md, computed: Jain, Kothari and Thakurta, and the specification of privol.

Closed forms and small simulations; where privol has the learner, that it does what the page says instead.
``python tools/errata.py`` prints them; ``tests/test_errata.py`` holds every number of the page against them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import numpy as np
from scipy import optimize, special, stats

from privol import LDPSGD
from privol.guarantees import gdp_delta, gdp_epsilon, gdp_mu


@dataclass(frozen=True)
class Erratum:
    """What a counterexample comes to.

    Attributes
    ----------
    numbers : dict
        As the page prints them -> as computed.
    holds : dict
        What it shows, in words -> whether it does.
    """

    numbers: dict[str, float]
    holds: dict[str, bool]


@dataclass(frozen=True)
class Counterexample:
    """A function that computes it, and the numbers that it starts from, as the page prints them."""

    compute: Callable[[], Erratum]
    given: tuple[str, ...]


ERRATA: dict[str, Counterexample] = {}


def erratum(name: str, given: str = "") -> Callable[[Callable[[], Erratum]], Callable[[], Erratum]]:
    def register(compute: Callable[[], Erratum]) -> Callable[[], Erratum]:
        ERRATA[name] = Counterexample(compute, tuple(given.split()))
        return compute

    return register


# ---- Jain, Kothari, Thakurta 2012 -----------------------------------------------------------------------------


def pocp_beta(rate: float, horizon: int, epsilon: float, delta: float) -> float:
    """Beta of Algorithm 1, for a sensitivity of rate / t."""
    step = math.sqrt(2.0 * epsilon / (horizon * math.log(2.0 / delta)))
    return rate * math.sqrt(2.0 * (math.log(horizon / delta) + step)) / step


def last_true(claimed: Callable[[float], bool], grid: np.ndarray) -> float:
    """Where something ceases to be true that is true at points of an ascending grid; 0 if at none."""
    true = [k for k, x in enumerate(grid) if claimed(float(x))]
    if not true:
        return 0.0
    low, high = float(grid[true[-1]]), float(grid[min(true[-1] + 1, len(grid) - 1)])
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if claimed(middle) else (low, middle)
    return low


@erratum("JKT-1", "0.1 0.01 1,000 1e-6 2e-6 1.5 1 2 3")
def implicit_sensitivity() -> Erratum:
    """x_{t+1} of implicit steps on g x + alpha x^2 / 2, for g = 0 in all rows but the last."""
    horizon, ratio = 1000, {}
    for alpha in (0.1, 0.01):
        ends = []
        for g in (1.0, -1.0):
            x = 0.0
            for t in range(1, horizon + 1):
                slope = g if t == horizon else 0.0
                x = (alpha * t * x - slope) / (alpha * (t + 1))  # minimises (alpha t / 2) (x - x_t)^2 + f_t(x)
            ends.append(x)
        radius = 1.0 / (2.0 * alpha)  # then every f_t has slope at most L = 1 + alpha radius on the interval
        assert max(map(abs, ends)) <= radius
        ratio[alpha] = abs(ends[0] - ends[1]) / (2.0 * (1.0 + alpha * radius) / horizon)
    beta = pocp_beta(2.0 * 1.5, horizon, 1.0, 1e-6)
    mu = math.sqrt(sum((t * 2.0 / (0.01 * (t + 1)) / beta) ** 2 for t in range(1, horizon)))
    true = gdp_epsilon(mu, 2e-6)
    return Erratum(
        {"6.66": ratio[0.1], "66.6": ratio[0.01], "24.2": true},
        {"Lemma 4 is exceeded": min(ratio.values()) > 1.0, "Theorem 3 is exceeded": true > 3.0},
    )


def gradient_change(alpha: float, row: int) -> tuple[float, float]:
    """How far x_{t+1} moves by one step 2 / (alpha t) at t = row, and G with the regulariser on a radius it fits."""
    moved = 2.0 * (2.0 / (alpha * row))
    return moved, 1.0 + alpha * (2.0 / (alpha * row))


@erratum("JKT-2", "100 1,000 1 2 4")
def gradient_sensitivity() -> Erratum:
    ratio = {}
    for row in (100, 1000):
        moved, strength = gradient_change(1.0, row)
        ratio[row] = moved / (2.0 * strength / row)
    return Erratum({"1.96": ratio[100], "1.996": ratio[1000]}, {"Lemma 5 is exceeded": min(ratio.values()) > 1.0})


@erratum("JKT-3", "0.1 1,000 2 4")
def gradient_noise() -> Erratum:
    moved, strength = gradient_change(0.1, 1000)
    ratio = moved * 1000 / (2.0 * strength)
    return Erratum({"19.96": ratio}, {"the assumption that lambda = 2G is false": ratio > 1.0})


@erratum("JKT-4", "1,000 522,911 1e-6 0.001 1e-3 1e-7 0.01 20")
def azuma_step() -> Erratum:
    """Theorem 1 with a correct sensitivity lambda / t: mu = sqrt(T - 1) lambda / beta."""

    def mu(horizon: int, epsilon: float, delta: float) -> float:
        return math.sqrt(horizon - 1) / pocp_beta(1.0, horizon, epsilon, delta)

    def false(horizon: int, delta: float) -> Callable[[float], bool]:
        return lambda epsilon: gdp_delta(3.0 * epsilon, mu(horizon, epsilon, delta)) > 2.0 * delta

    def excess(epsilon: float) -> float:
        """Published noise over what the claim needs."""
        return gdp_mu(3.0 * epsilon, 2e-6) / mu(1000, epsilon, 1e-6)

    found = gdp_delta(0.003, mu(1000, 0.001, 1e-6))
    grid = np.geomspace(1e-7, 0.01, 4001)
    ends = [last_true(false(horizon, 1e-6), grid) for horizon in (1000, 522_911)]
    return Erratum(
        {"3.81e-5": found, "19": found / 2e-6, "0.00301": ends[0], "0.00218": ends[1],
         "1.64": excess(0.01), "28.5": excess(20.0)},
        {"false for every epsilon below": all(false(1000, 1e-6)(e) for e in grid if e <= ends[0]),
         "never false at delta = 0.01": last_true(false(1000, 0.01), grid) == 0.0},
    )  # fmt: skip


@erratum("JKT-5", "1,000 1e-6 1 2")
def divergence_of_a_step() -> Erratum:
    """Mean of the log-ratio of a Gaussian step, and what Lemma 2 would give for a pure step of epsilon_1."""
    step = math.sqrt(2.0 / (1000 * math.log(2e6)))
    mean = (1.0 / pocp_beta(1.0, 1000, 1.0, 1e-6)) ** 2 / 2.0
    return Erratum({"166": 2.0 * step * step / mean}, {"the conclusion holds": mean <= 2.0 * step * step})


def tree_sigma(horizon: int, epsilon: float, delta: float, log: Callable[[float], float] = math.log) -> float:
    """Sigma of Algorithm 5 for vectors of norm at most 1."""
    return math.sqrt(log(horizon) ** 2 * log(log(horizon) / delta) / epsilon)


@erratum("JKT-6", "1,024 1e-6 0.1 0.01 10 1e-5 2 11")
def tree_noise() -> Erratum:
    def mu(epsilon: float) -> float:
        return math.sqrt(11) * 2.0 / tree_sigma(1024, epsilon, 1e-6)

    grid = np.geomspace(1e-5, 10.0, 4001)
    end = last_true(lambda epsilon: gdp_delta(epsilon, mu(epsilon)) > 1e-6, grid)
    exponent = 2.0 * math.sqrt(0.1) / math.log(1024) + 0.1 / (
        2.0 * math.log(1024) ** 2 * math.log(math.log(1024) / 1e-6)
    )
    return Erratum(
        {"0.00356": gdp_delta(0.1, mu(0.1)), "0.297": gdp_epsilon(mu(0.1), 1e-6), "0.0867": gdp_epsilon(mu(0.01), 1e-6),
         "1.04": end, "2.4": gdp_mu(10.0, 1e-6) / mu(10.0), "0.0913": exponent, "0.0144": 0.1 / math.log(1024)},
        {"false for every epsilon below": all(gdp_delta(e, mu(e)) > 1e-6 for e in map(float, grid) if e <= end)},
    )  # fmt: skip


@erratum("JKT-7", "1 1,024 2")
def nodes_of_a_row() -> Erratum:
    """Nodes of the complete tree over 1,024 leaves that have row 1 below them."""
    nodes = sum(1 for height in range(11) if 2**height <= 1024)
    sigma = tree_sigma(2, 1.0, 1e-6) > 0.0 == math.log(1)
    return Erratum(
        {"11": nodes, "10": math.log2(1024), "6.93": math.log(1024)},
        {"without noise at T = 1": math.log(1) == 0.0, "noise at T = 2": bool(sigma)},
    )


@erratum("JKT-8", "13 8 4")
def late_leaves() -> Erratum:
    """Lines 5, 6 and 13 word by word: which rows the output at t = 5 sums, rows 1 to 8 at leaves with their labels."""
    t, label = 5, format(5, "04b")
    summed = []
    for i, bit in enumerate(label):
        if bit == "1":
            node = label[:i] + "0"
            first = int(node.ljust(4, "0"), 2)
            summed += range(first, first + 2 ** (4 - len(node)))
    return Erratum(
        {"5": t, "0": min(summed), "4": max(summed)}, {"the rows before t": sorted(summed) == list(range(t))}
    )


@erratum("JKT-9", "10 1")
def moments_of_targets() -> Erratum:
    bound = 10.0
    v, y = np.array([bound, 0.0]), bound
    return Erratum(
        {"100": float(np.linalg.norm(y * v))}, {"ten times the bound": float(np.linalg.norm(y * v)) == 10 * bound}
    )


@erratum("JKT-10", "10 100,000 1,000 1e-6 0.01 1 200")
def indefinite_matrix() -> Erratum:
    """The least eigenvalue of t alpha I + V_t + noise at t = 1,000, V_t = (t / d) I; epsilon / 2 and delta / 2."""
    d, t, rng = 10, 1000, np.random.default_rng(1)
    std = tree_sigma(100_000, 0.005, 5e-7) * math.sqrt(bin(t).count("1"))
    bad = 0
    for _ in range(200):
        noisy = (t + t / d) * np.eye(d) + std * rng.standard_normal((d, d))
        bad += bool(np.linalg.eigvalsh((noisy + noisy.T) / 2.0)[0] < 0.0)
    return Erratum({"200": bad}, {"never a minimum": bad == 200})


@erratum("JKT-11", "19 21 1")
def halved_squares() -> Erratum:
    """Gradient of both readings at (t alpha I + V)^-1 u, of one row (v, y) = (1, 1) and alpha = 1."""
    x = 1.0 / (1.0 + 1.0)
    halved, whole = (x - 1.0) + x, 2.0 * (x - 1.0) + x
    return Erratum({"0.5": x}, {"a minimum of (19)": halved == 0.0, "none of Algorithm 4's": whole == -0.5})


@erratum("JKT-12", "10 100 1")
def norm_of_the_leader() -> Erratum:
    v, y, alpha = 10.0, 10.0, 100.0
    x = v * y / (alpha + v * v)
    return Erratum(
        {"0.5": x, "0.2": 2 * 10.0 / alpha},
        {"the bound is exceeded": x > 0.2, "privol's bound holds": x <= min(100.0 / alpha, 10.0 / (2 * 10.0))},
    )


@erratum("JKT-13", "1 1,000 0.1 0.01 1e-6 999")
def offline_noise() -> Erratum:
    horizon = 1000
    harmonic = float(np.sum(1.0 / np.arange(1, horizon + 1)))
    ratio, true = {}, {}
    for alpha in (0.1, 0.01):
        change = 2.0 * (harmonic - 1.0) / (alpha * horizon)  # (1 / T) sum_t D / A_t, attained by linear losses
        ratio[alpha] = change / (2.0 * (1.0 + alpha) * math.log(horizon) / horizon)
        beta = math.sqrt(2.0) * 2.0 * (1.0 + alpha) * math.log(horizon) / horizon * math.sqrt(math.log(1e6) + 1.0)
        true[alpha] = gdp_epsilon(change / beta, 1e-6)
    below = harmonic - 1.0 / horizon
    return Erratum(
        {"8.54": ratio[0.1], "93.0": ratio[0.01], "8.2": true[0.1], "226": true[0.01], "7.484": below,
         "6.908": math.log(horizon)},
        {"Theorem 10 is exceeded": min(true.values()) > 1.0, "(35) is exceeded": below > math.log(horizon)},
    )  # fmt: skip


@erratum("JKT-14", "1.5 10,000 2")
def decaying_regulariser() -> Erratum:
    """t s_t with s_t = D / A_t, A_t = 2 sqrt(t): a bound lambda / t would keep it constant."""
    growth = (10_000 / (2.0 * math.sqrt(10_000))) / (1 / 2.0)
    kinked = [abs(1.0 + lam * 1.0) for lam in (0.0, 1.0)]  # |x - 0| between 1 and 2 is affine
    middle = (kinked[0] + kinked[1]) / 2.0
    return Erratum({"100": growth}, {"|x| is affine away from 0": middle == abs(1.5)})


@erratum("JKT-15", "1 1,000 10")
def bounds_from_the_rows() -> Erratum:
    """Noise of standard deviation 1 or 1,000: the bound follows one row. How often it exceeds 10."""
    small, large = 2.0 * stats.norm.sf(10.0), 2.0 * stats.norm.sf(0.01)
    return Erratum(
        {"1.5e-23": small, "0.992": large, "52.5": math.log(large / small)},
        {"no budget covers it": large / small > 1e20},
    )


# ---- the specification that privol was written from ------------------------------------------------------------


@erratum("SPEC-1", "0.5 1,000 1 1e-6 2e-6 3 2")
def published_noise_that_suffices() -> Erratum:
    beta = pocp_beta(2.0 * 1.5, 1000, 1.0, 1e-6)
    mu = math.sqrt(sum((t * 2.0 / (0.5 * (t + 1)) / beta) ** 2 for t in range(1, 1000)))
    true = gdp_epsilon(mu, 2e-6)
    return Erratum({"0.28": true}, {"within the claim": true < 3.0})


@erratum("SPEC-2", "2 1")
def order_of_shift_and_clip() -> Erratum:
    """An eigenvalue of -1, a shift of 2 over a regulariser of 0.1: what is divided by."""
    before, after = max(-1.0, 0.0) + 2.0, max(-1.0 + 2.0, 0.0)
    return Erratum({"2": before, "1": after}, {"different": before != after})


@erratum("SPEC-3", "1e-6 1e-8 1e-10 1e-12")
def bisection_of_a_difference() -> Erratum:
    """mu at (1e-6, 1e-8) by the difference of log-CDFs, and by 60 digits."""

    def rough(mu: float) -> float:
        a, b = (special.log_ndtr(-1e-6 / mu + sign * mu / 2.0) for sign in (1.0, -1.0))
        return float(math.exp(a) * -math.expm1(min(1e-6 + b - a, 0.0))) - 1e-8

    found = math.exp(optimize.brentq(lambda log: rough(math.exp(log)), -20.0, -14.0, xtol=1e-15, rtol=8.9e-16))
    with mpmath.workdps(60):

        def exact(mu: mpmath.mpf) -> mpmath.mpf:
            epsilon = mpmath.mpf(1e-6)
            return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.e**epsilon * mpmath.ncdf(-mu / 2 - epsilon / mu) - 1e-8

        true = mpmath.findroot(exact, mpmath.mpf(found))
        error = float(found / true - 1)
    return Erratum({}, {"off by more than 1e-10": error > 1e-10, "privol's is below": gdp_mu(1e-6, 1e-8) <= true})


@erratum("SPEC-4", "-1 1 2 10,000 281")
def greedy_falling_steps() -> Erratum:
    """Points of [-1, 1], steps 1 / sqrt(2 t): up in two rounds, rest, then down all the way."""
    rounds, w, regret = 10_000, 0.0, 0.0
    for t in range(1, rounds + 1):
        slope = -1.0 if t <= 2 else 1.0 if t > rounds - 281 else 0.0
        regret += slope * (w + 1.0)  # against -1
        w = min(max(w - slope / math.sqrt(2.0 * t), -1.0), 1.0)
    stated, bound = (
        LDPSGD(epsilon=math.inf, radius=1.0, gradient_bound=1.0, fit_intercept=False, step_size=c).regret_bound(
            rounds, 1
        )
        for c in (math.sqrt(0.5), math.sqrt(2.0))
    )
    return Erratum(
        {"278.5": regret, "141.4": math.sqrt(2.0 * rounds), "282.8": 2.0 * math.sqrt(2.0 * rounds)},
        {"the stated bound is exceeded": regret > math.sqrt(2.0 * rounds),
         "privol's, of these steps and of its own": regret <= min(stated, bound)},
    )  # fmt: skip
