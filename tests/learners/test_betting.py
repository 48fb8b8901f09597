"""Constants, proxies and regret bounds of coin betting against their definitions; the twin of the recursion."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from twins_betting import RULES, BettingTwin

from privol._core.coin import log_potential, magnitude
from privol.calibration import betting_of, calibrate_report
from privol.calibration._betting import (
    LARGEST_BET,
    Betting,
    agnostic_bet,
    agnostic_regret,
    betting_regret,
    conjugate,
    proxy_betting,
    published_betting,
)
from privol.errors import InvalidParameter


def betting_on(name, dim, *, bound=1.0, theta=0.25, calibration="tight", **budget):
    """The parameters of coin betting for a randomizer's reports."""
    noise = calibrate_report(name, dim=dim, bound=bound, **(budget or {"epsilon": 1.0}))
    return betting_of(noise, theta=theta, proxy="numerical", calibration=calibration)


def test_the_largest_bet_is_the_root_from_below():
    with mp.workdps(40):
        root = mp.findroot(lambda k: mp.exp(-k - k * k) - (1 - k), mp.mpf("0.68"))
        assert mp.nstr(root, 22) == "0.6838026237520206811542"
    assert 0 < root - LARGEST_BET < 1e-15
    for bound in (1.0, 3.0, 1 / 3, 1e-5, 0.1, 7e3):  # for any rounding of a division and a product
        assert LARGEST_BET / bound * bound * (1 + 2e-16) < root
    x = np.linspace(-LARGEST_BET, 3, 100_001)
    assert np.all(np.exp(x - x * x) <= (1 + x) * (1 + 1e-15))
    assert math.exp(-0.69 - 0.69**2) > 1 - 0.69


@pytest.mark.parametrize(("k", "bet"), [(0.75, 0.149829914261), (1, 0.207106781187), (1.5, 0.244016935856), (2, 0.25)])
def test_the_agnostic_bet(k, bet):
    """A symmetric noise is a mixture of pairs +-v: the mean over each pair must be at most 1 + mu."""
    found = agnostic_bet(k)
    assert found == pytest.approx(bet, abs=5e-13)
    assert (1 + 2 * k * found) ** 2 <= 2 * k
    mu = np.linspace(-found, found, 401)[:, None]
    v = np.concatenate([np.linspace(0, 3, 1001), np.geomspace(3, 100, 50)])
    mean = 0.5 * (np.exp(mu + v - k * (mu + v) ** 2) + np.exp(mu - v - k * (mu - v) ** 2))
    assert np.all(mean <= (1 + mu) * (1 + 1e-15))
    assert np.all(np.exp(mu - k * mu * mu) <= 1 + mu)


@pytest.mark.parametrize("k", [0.5, 2.0001, math.nan, -1])
def test_the_agnostic_bet_has_a_range(k):
    with pytest.raises(InvalidParameter, match=r"k must be a finite number above 0\.5 and of at most 2, found"):
        agnostic_bet(k)


PROXIES = {  # at epsilon = lipschitz = 1, by theta
    0.25: {1: 8.26093070560911, 2: 12.391396058413665, 10: 45.435118880850105, 55: 231.30605975705508,
           100: 417.17700063326005, 1000: 4134.5958181573595},
    0.5: {1: 9.2058263184569897, 2: 13.808739477685485, 10: 50.632044751513443, 55: 257.76313691679571,
          100: 464.89422908207798, 1000: 4607.5160723877233},
}  # fmt: skip


@pytest.mark.parametrize("theta", PROXIES)
def test_l2_laplace(theta):
    for dim, proxy in PROXIES[theta].items():
        betting = betting_on("l2laplace", dim, theta=theta)
        assert proxy < betting.proxy < proxy * (1 + 2e-12)  # larger only because the noise's scale is rounded up
        assert betting.a == pytest.approx(theta / 2, rel=1e-12)
        assert betting.second_moment == pytest.approx(4 * dim * (dim + 1), rel=2e-12)
        assert betting.lipschitz == 1
        assert betting.step == 0.5 * betting.proxy + 1
        scale = calibrate_report("l2laplace", dim=dim, epsilon=1.0).scale
        beta = np.linspace(1e-6, betting.a, 1001)
        exact = -(dim + 1) / 2 * np.log1p(-((scale * beta) ** 2))  # log E exp(beta <xi, q>)
        bound = beta**2 * betting.proxy / 2
        assert np.all(exact <= bound)
        assert exact[-1] > bound[-1] * (1 - 1e-12)  # no smaller proxy would suffice
        scaled = betting_on("l2laplace", dim, bound=4.0, theta=theta)
        assert scaled.proxy == pytest.approx(16 * betting.proxy, rel=1e-15)
        assert scaled.a == betting.a / 4
    wide = betting_on("l2laplace", 3, epsilon=100.0)
    # the gradient, not the noise, limits the bet, and the proxy is close to the variance
    assert wide.a == pytest.approx(LARGEST_BET, rel=1e-15)
    assert wide.a <= LARGEST_BET
    assert wide.proxy == pytest.approx(4 / 50**2 * -math.log1p(-((LARGEST_BET / 50) ** 2)) * (50 / LARGEST_BET) ** 2)


def test_published_constants():
    for dim, factor in ((1, 1.955), (10, 35.6), (100, 387), (1000, 3907)):
        betting = betting_on("l2laplace", dim, calibration="published")
        assert betting == published_betting(dim=dim, epsilon=1, lipschitz=1)
        assert betting.calibration == "published"
        assert betting.proxy == 18 * dim**2
        assert betting.a == 0.25
        assert betting.second_moment == pytest.approx(4 * dim * (dim + 1), rel=1e-13)
        least = betting_on("l2laplace", dim, theta=0.5).proxy
        assert betting.proxy / least == pytest.approx(factor, rel=2e-3)
    scaled = published_betting(dim=3, epsilon=2, lipschitz=4)
    assert (scaled.proxy, scaled.a) == (18 * 36, 0.125)
    assert published_betting(dim=1, epsilon=100, lipschitz=2).a == LARGEST_BET / 2
    with pytest.raises(InvalidParameter, match="calibration must be one of"):
        betting_on("l2laplace", 1, calibration="loose")


def test_laplace_and_gaussian():
    betting = betting_on("laplace", 3)
    scale = calibrate_report("laplace", dim=3, epsilon=1.0).scale
    assert betting.a == pytest.approx(0.25 / scale, rel=1e-15)
    assert betting.second_moment == pytest.approx(6 * scale**2)
    rng = np.random.default_rng(1)
    q = rng.normal(size=(500, 3))
    q /= np.linalg.norm(q, axis=1)[:, None]
    q[:3] = np.eye(3)
    for beta in (betting.a, 0.56 * betting.a, 0.008 * betting.a):
        exact = -np.log1p(-((beta * scale * q) ** 2)).sum(axis=1)
        assert np.all(exact <= beta**2 * betting.proxy / 2)
        assert np.argmax(exact) < 3  # an axis is the worst direction
    gaussian = betting_on("gaussian", 4, bound=2.0, sigma=3.0)
    assert (gaussian.proxy, gaussian.second_moment, gaussian.a) == (9, 36, LARGEST_BET / 2)
    plain = betting_on("l2laplace", 4, bound=2.0, epsilon=math.inf)
    assert (plain.proxy, plain.second_moment, plain.a) == (0, 0, LARGEST_BET / 2)
    assert proxy_betting(proxy=5.0, lipschitz=1.0, second_moment=7.0, largest=0.3).a == 0.3


@pytest.mark.parametrize(
    ("u", "y", "a", "value", "at"),
    [
        (1, 1000, 0.25, 124.964256819265, 139.319725786163),
        (10, 1000, 0.25, 1550.43223586715, 167.017982083),
        (1, 1e5, 0.125, 1733.73275024062, 1842.29310857),
        (5, 50, 0.125, 236.135474167088, 56.8149198598267),
    ],
)
def test_the_conjugate(u, y, a, value, at):
    found, where = conjugate(u, y, a)
    assert found == pytest.approx(value, rel=1e-14)
    assert where == pytest.approx(at, rel=1e-11)
    assert magnitude(where, y, a) == pytest.approx(u, rel=1e-9)
    around = where * np.linspace(0.9, 1.1, 401)
    assert np.all(u * around - np.exp(log_potential(around, float(y), a)) <= found * (1 + 1e-14))


def test_the_conjugate_at_its_ends():
    value, at = conjugate(0, 10, 0.5)
    assert (value, at) == (-math.exp(log_potential(0.0, 10.0, 0.5)), 0.0)
    assert conjugate(1e-290, 10, 0.5)[0] == pytest.approx(value)
    assert conjugate(1.0, 0, 0.5)[0] > 0
    assert conjugate(1e300, 1e6, 1e-3)[0] > 1e300
    assert conjugate(1.7e308, 1e6, 1e-3)[0] == math.inf
    y = np.geomspace(1, 1e6, 60)
    values = np.array([conjugate(2.0, v, 0.25)[0] for v in y])
    assert np.all(np.diff(values) > 0)
    assert np.all(np.diff(np.diff(values) / np.diff(y)) < 0)  # concave: Jensen, for the agnostic rule
    with pytest.raises(InvalidParameter, match="u must be a finite number of at least 0, found -1"):
        conjugate(-1, 1, 1)


def test_the_certificate():
    """Section 5.6 states the bets' part at d = 10, T = 10^4, |u| = 1."""
    direction = 3 * math.sqrt(1e4 * 441)
    for options, bets in (({"theta": 0.25}, 2812), ({"theta": 0.5}, 3094), ({"calibration": "published"}, 21198)):
        betting = betting_on("l2laplace", 10, **options)
        bound = betting_regret(betting, 1, 10_000)
        assert bound - direction == pytest.approx(bets, abs=0.5)
        assert bound == 1 + conjugate(1, 10_000 * betting.step, betting.a)[0] + 3 * math.sqrt(
            10_000 * (1 + betting.second_moment)
        )
    betting = betting_on("l2laplace", 10)
    assert 0.9 < betting_regret(betting, 0, 10_000) <= 1
    assert betting_regret(betting, 0, 10_000, wealth=50) <= 50
    assert betting_regret(betting, 20, 10_000, wealth=20) < betting_regret(betting, 20, 10_000)
    assert betting_regret(betting, 1, 100, step=math.sqrt(2)) < betting_regret(betting, 1, 100)
    assert betting_regret(betting, 1, 101) > betting_regret(betting, 1, 100)


def test_the_agnostic_certificate():
    value = agnostic_regret(2, 1000, lipschitz=1, variance=4, second_moment=12)
    y = 1000 * 5
    assert value == 1 + conjugate(2, y, agnostic_bet())[0] + 6 * math.sqrt(1000 * 13)
    with pytest.raises(InvalidParameter, match="second_moment must be at least variance"):
        agnostic_regret(2, 1000, lipschitz=1, variance=4, second_moment=3)


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (published_betting, {"dim": 0, "epsilon": 1, "lipschitz": 1}, "dim must be"),
        (published_betting, {"dim": 1, "epsilon": 0, "lipschitz": 1}, "epsilon must be a finite number above 0"),
        (published_betting, {"dim": 1, "epsilon": 1, "lipschitz": 0}, "lipschitz must be a finite number above 0"),
        (published_betting, {"dim": 1, "epsilon": 1e-200, "lipschitz": 1}, "proxy must be a finite number"),
        (betting_on, {"name": "l2laplace", "dim": 1, "theta": 1.0}, "theta must be"),
        (betting_on, {"name": "laplace", "dim": 1, "theta": 0.0}, "theta must be"),
        (betting_on, {"name": "gaussian", "dim": 1, "sigma": -1}, "sigma must be"),
        (betting_on, {"name": "laplace", "dim": 1, "calibration": "published"}, "needs randomizer"),
        (proxy_betting, {"proxy": 1, "lipschitz": 1, "second_moment": 1, "largest": 0}, "largest must be"),
        (proxy_betting, {"proxy": math.nan, "lipschitz": 1, "second_moment": 1}, "proxy must be"),
        (Betting, {"a": 0.0, "proxy": 1, "lipschitz": 1, "second_moment": 1}, "a must be"),
    ],
)
def test_parameters_out_of_range(function, options, message):
    with pytest.raises(InvalidParameter, match=message):
        function(**options)


REPORTS = [(1, 0), (0.5, -1), (2, 1), (-1, 0.5), (1.5, 1.5)]
ORACLE = [  # x, y, q, m, w after each report
    (0, 0, (1, 0), 0, (0, 0)),
    (0.5, 7.90436973884274, (0.894427190999916, -0.447213595499958), 0.00782203047897415,
     (0.00699623674922458, -0.00349811837461229)),
    (1.84164078649987, 15.8087394776855, (0.998929306735752, -0.04626272953933), 0.0223611781763437,
     (0.0223372362134896, -0.00103448913815295)),
    (0.819580114994457, 23.7131092165282, (0.655932136450735, 0.125235855603179), 0.00760970436817139,
     (0.00499144964397315, 0.000953007837435191)),
    (1.99133210307533, 27.2379126170281, (0.892660736824776, 0.4507291968926), 0.0168825486580884,
     (0.0150703883246093, 0.00760945759816042)),
]  # fmt: skip


def test_the_twin_against_the_specification():
    twin = BettingTwin(dim=2, a=0.25, growth=0.5 * 13.808739477685485 + 1.0)
    for report, (x, y, q, m, w) in zip(REPORTS, ORACLE, strict=True):
        twin.tell(report)
        found = [twin.x, twin.y, *twin.q, twin.m, *twin.w]
        assert found == pytest.approx([x, y, *q, m, *w], abs=1e-12, rel=1e-12)
    assert twin.energy == 1 + 1.25 + 5 + 1.25 + 4.5
    expected = np.sum([w for *_, w in ORACLE[:-1]], axis=0) / 5  # the first iterate is 0
    assert twin.average == pytest.approx(expected, abs=1e-14)


def reports(n: int, dim: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, dim)) + 0.5


@pytest.mark.parametrize("rule", RULES)
def test_invariances_of_the_twin(rule):
    """The sign of the direction step changes no bit of w; powers of two scale w inversely; rotations rotate it."""
    g = reports(60, 4)
    a, growth = (0.2, 1.0) if rule == "agnostic" else (0.25, 9.0)
    plain, flipped = (BettingTwin(4, a, growth, rule, step=step) for step in (1.0, -1.0))
    smaller = BettingTwin(4, 8 * a, growth if rule == "agnostic" else growth / 64, rule)
    turned = BettingTwin(4, a, growth, rule)
    turn = np.linalg.qr(np.random.default_rng(9).normal(size=(4, 4)))[0]
    for row in g:
        w = plain.tell(row)
        assert flipped.tell(row) == w
        assert smaller.tell(row / 8) == [8 * v for v in w]
        assert turned.tell(turn @ row) == pytest.approx(turn @ w, abs=1e-10 * np.linalg.norm(w) + 1e-300)
    assert flipped.x == -plain.x
    assert np.linalg.norm(plain.q) <= 1 + 1e-15
    assert plain.m != 0


def test_rules_of_the_twin():
    g = reports(40, 3)
    twins = {rule: BettingTwin(3, 0.2, 2.0, rule) for rule in RULES}
    outcomes = []
    for row in g:
        outcomes.append(float(row @ twins["agnostic"].q))
        for twin in twins.values():
            twin.tell(row)
    assert twins["count"].y == 80.0
    assert twins["weighted"].y < 78.1  # the first direction is 0
    assert twins["agnostic"].y == pytest.approx(2 * float(np.square(outcomes).sum()))
    still = BettingTwin(3, 0.2, 2.0)
    for _ in range(3):
        assert still.tell([0.0, 0.0, 0.0]) == [0.0, 0.0, 0.0]
    assert (still.energy, still.q) == (0.0, [0.0] * 3)


def test_an_infinite_magnitude_ends_the_twin_s_run():
    twin = BettingTwin(1, 0.5, 0.0)
    for _ in range(4):
        twin.tell([400.0])
    before = (twin.x, twin.y, twin.energy, twin.w)
    with pytest.raises(OverflowError, match="after report 5"):
        twin.tell([500.0])
    assert (twin.x, twin.y, twin.energy, twin.w) == before
