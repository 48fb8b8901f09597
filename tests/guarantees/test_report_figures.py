"""The figures of local randomizers: lengths, variances, capacities and proxies, against tables and by quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from twins_noise import MP
from twins_reports import density, noise_of

from privol.calibration._caps import cap_of, gaussian_cap_of
from privol.calibration._reports import calibrate_report
from privol.randomizers import Gaussian, PrivUnitG, TwoPoint, gaussian_leakage, gaussian_leakage_std

# epsilon, d, gamma = m, p, c, B, variance at the bound
CAPS = [
    (1, 2, 0.30828712990480649, 0.644638128252, 0.400244248515, 3.2437293127, 9.52177985406),
    (1, 3, 0.24491866240370913, 0.622459331202, 0.377540668798, 4.08298816507, 15.6707923561),
    (1, 10, 0.12831840024724477, 0.597756879657, 0.35345821199, 7.79311461235, 59.7326353612),
    (1, 100, 0.039829939332148914, 0.590115505731, 0.346251550422, 25.1067417317, 629.34848038),
    (1, 1000, 0.012571529722240776, 0.5894041928, 0.345586348885, 79.5448145209, 6326.37751717),
    (0.5, 10, 0.064542822144078295, 0.549501770545, 0.425229416067, 15.4935896321, 239.051319689),
    (4, 10, 0.46253208053378498, 0.817882247924, 0.0760030645694, 2.16201219783, 3.67429674355),
    (4, 100, 0.15106821396601161, 0.79357070113, 0.0657788186804, 6.61952619778, 42.8181270831),
    (8, 10, 0.73684239497326797, 0.935521829585, 0.00484369361581, 1.35714232354, 0.841835286355),
    (8, 100, 0.26985154705133049, 0.904739365311, 0.00317594279702, 3.70574121559, 12.732517957),
    (8, 1000, 0.086598159127556199, 0.90139663014, 0.00305730321879, 11.5475895801, 132.346825111),
]


@pytest.mark.parametrize(("epsilon", "dim", "gamma", "p", "c", "length", "variance"), CAPS)
def test_caps(epsilon, dim, gamma, p, c, length, variance):
    cap = cap_of(float(epsilon), dim, half=False)
    found = (cap.gamma, cap.probability, cap.mass, cap.length, cap.length**2 - 1.0, 1.0 / cap.length)
    np.testing.assert_allclose(found, (gamma, p, c, length, variance, gamma), rtol=2e-11)
    assert noise_of("privunit", dim, float(epsilon)).variance(1.0) == pytest.approx(variance, rel=2e-11)
    if dim == 3:
        assert cap.gamma == pytest.approx(math.tanh(epsilon / 4), rel=1e-13)


# epsilon, d: L2-Laplace, Laplace, Duchi, PrivUnit, PrivUnitG, Gaussian at delta = 1e-5
VARIANCES = [
    (0.5, 10, 1760, 3200, 248.1134432, 239.0513197, 251.7735578, 1977.86),
    (0.5, 100, 161600, 320000, 2604.581626, 2504.928255, 2517.982761, 19778.6),
    (0.5, 1000, 1.6016e7, 3.2e7, 26172.32946, 25166.76595, 25179.85235, 197786),
    (1, 10, 440, 800, 68.97400572, 59.73263536, 63.27554208, 556.704),
    (1, 100, 40400, 80000, 730.8873732, 629.3484804, 633.0016621, 5567.04),
    (1, 1000, 4.004e6, 8e6, 7350.882267, 6326.377517, 6330.041358, 55670.4),
    (4, 10, 27.5, 50, 15.07910993, 3.674296744, 4.329908943, 46.7564),
    (4, 100, 2525, 5000, 167.1781315, 42.81812708, 43.52957946, 467.564),
    (4, 1000, 250250, 500000, 1688.366244, 434.6033163, 435.3203557, 4675.64),
    (8, 10, 6.875, 12.5, 13.96317243, 0.8418352864, 1.308893335, 14.411),
    (8, 100, 631.25, 1250, 155.5060747, 12.73251796, 13.288812, 144.11),
    (8, 1000, 62562.5, 125000, 1571.119259, 132.3468251, 132.912263, 1441.1),
]


@pytest.mark.parametrize(("epsilon", "dim", "l2", "l1", "duchi", "unit", "unit_g", "gauss"), VARIANCES)
def test_variances(epsilon, dim, l2, l1, duchi, unit, unit_g, gauss):
    for name, expected in (("l2laplace", l2), ("laplace", l1), ("duchi", duchi), ("privunit", unit)):
        assert noise_of(name, dim, float(epsilon)).variance(1.0) == pytest.approx(expected, rel=2e-9)
        scaled = noise_of(name, dim, float(epsilon), bound=3.0)
        assert scaled.variance(3.0) == pytest.approx(9 * expected, rel=2e-9)
    assert PrivUnitG(dim=dim, epsilon=epsilon).variance(1.0) == pytest.approx(unit_g, rel=1e-8)
    assert noise_of("gaussian", dim, float(epsilon)).variance(1.0) == pytest.approx(gauss, rel=1e-5)


def test_lengths_of_half_spaces_and_of_two_points():
    for dim, epsilon, length in ((2, 1.0, 3.39913007365595), (10, 1.0, 8.3650466656377), (100, 0.5, 51.044898136068)):
        assert cap_of(epsilon, dim, half=True).length == pytest.approx(length, rel=1e-12)
    assert noise_of("privunit", 1).scale == pytest.approx(2.16395341373865, rel=1e-13)
    assert TwoPoint(epsilon=1.0).power == pytest.approx(4.68269, rel=1e-5)
    assert calibrate_report("laplace", dim=1, epsilon=1.0).power == pytest.approx(9.0)
    assert calibrate_report("gaussian", dim=1, mu=0.5).power == pytest.approx(17.0)


def test_capacity():
    """dim / 2 log(1 + 1 / (dim sigma^2)), and its inverse."""
    for dim, sigma in ((1, 0.76287397836689), (10, 0.975106760553687), (1000, 0.999750010419271)):
        assert gaussian_leakage_std(0.5, dim=dim) == pytest.approx(sigma, rel=1e-12)
    assert gaussian_leakage(1.0, dim=1) == pytest.approx(0.346573590279973, rel=1e-12)
    # leakage, d: sigma, rho, mu, epsilon at delta = 1e-5
    for leakage, dim, sigma, rho, mu, epsilon in (
        (0.01, 10, 7.067533, 0.040040, 0.282984, 1.06137304496),
        (0.1, 10, 2.224897, 0.404027, 0.898918, 3.87082978634),
        (0.346573590279973, 1, 1.0, 2.0, 2.0, 9.99725614643),
        (0.346573590279973, 10, 1.1803696951766, 1.435469, 1.694384, 8.16495551869),
        (1.0, 10, 0.672061, 4.428055, 2.975922, 16.502549525),
    ):
        device = Gaussian(dim=dim, leakage=leakage, delta=1e-5)
        guarantee = device.guarantee
        assert device.calibration.scale == pytest.approx(sigma, rel=1e-6)
        assert (guarantee.rho, guarantee.mu) == (pytest.approx(rho, rel=1e-4), pytest.approx(mu, rel=1e-6))
        assert guarantee.epsilon() == pytest.approx(epsilon, rel=1e-10)
        assert guarantee.leakage == leakage
    for dim in (1, 3, 1000, 10**6):  # rounded up in both directions
        for leakage in (1e-8, 0.1, 7.0):
            for bound in (1.0, 1e-20):
                std = gaussian_leakage_std(leakage, bound=bound, dim=dim)
                exact = MP.mpf(dim) / 2 * MP.log1p((MP.mpf(bound) / MP.mpf(std)) ** 2 / dim)
                assert leakage * (1 - 1e-11) < exact <= leakage
                assert exact <= gaussian_leakage(std, bound=bound, dim=dim) <= exact * (1 + 1e-11)


def test_proxies():
    figures = {0.5: (26.672, 26.741, 27.214), 1.0: (6.9733, 7.2945, 7.4024), 2.0: (2.4898, 2.6036, 2.6154)}
    figures |= {4.0: (1.3674, 1.4282, 1.4346), 8.0: (1.0842, 1.1273, 1.1323)}
    for epsilon, expected in figures.items():
        for dim, constant in zip((10, 100, 1000), expected, strict=True):
            noise = noise_of("privunit", dim, epsilon, bound=2.0)
            found = noise.proxy()
            assert found.constant == pytest.approx(4 * 1.01 * constant, rel=1e-4)
            assert (found.b, found.proved) == (0.0, False)
            assert noise.proxy("hoeffding") == (pytest.approx(noise.scale**2), 0.0, True)
    for dim, constant in ((1, 8.26093070560911), (2, 12.391396058413665), (55, 231.30605975705508)):
        found = noise_of("l2laplace", dim).proxy()
        assert found == (pytest.approx(constant, rel=1e-11), pytest.approx(8.0), True)
    assert noise_of("l2laplace", 10).proxy(theta=0.5).constant == pytest.approx(50.632044751513443, rel=1e-11)
    assert noise_of("l2laplace", 3, 100.0).proxy().b == pytest.approx(1 / 0.6838026237520206)
    assert noise_of("laplace", 1).proxy().constant == pytest.approx(8.26093070560911, rel=1e-11)
    gauss = calibrate_report("gaussian", dim=7, sigma=3.0)
    assert gauss.proxy() == (9.0, 0.0, True)
    assert TwoPoint(epsilon=1.0).proxy().proved


@pytest.mark.parametrize("name", ["privunit", "duchi"])
@pytest.mark.parametrize("dim", [2, 3, 20])
def test_proxies_bound_the_moments(name, dim):
    """By quadrature, at values of r and beta that the search does not use; a smaller constant fails."""
    cap = noise_of(name, dim, 2.0).cap
    constant = noise_of(name, dim, 2.0).proxy().constant / cap.length**2
    angles = np.concatenate([np.linspace(-np.pi / 2, math.asin(cap.gamma), 20_001)[:-1] + 1e-9,
                             np.linspace(math.asin(cap.gamma), np.pi / 2, 20_001)[1:] - 1e-9])  # fmt: skip
    a, worst = np.sin(angles), 0.0
    for r in (0.0, 0.33, 0.77, 1.0):
        law = density(cap, r, a) * np.cos(angles) ** (dim - 2) * np.gradient(angles)
        law /= law.sum()
        for beta in np.geomspace(0.11, 43, 31):
            for t in (beta, -beta):
                moment = math.log(float(np.sum(law * np.exp(t * (a - r / cap.length)))))
                worst = max(worst, 2 * moment / t**2)
    assert worst <= constant
    assert worst > 0.8 * constant or constant >= 1.0 / (dim - 1)


def test_gaussian_caps_are_worse_and_meet_their_budget():
    for epsilon in (0.5, 3.0):
        found = gaussian_cap_of(epsilon, 10)
        q = stats.norm.cdf(found.gamma * math.sqrt(10))
        p = found.probability
        assert math.log(p * q / ((1 - p) * (1 - q))) == pytest.approx(epsilon, rel=1e-9)
        assert found.power > noise_of("privunit", 10, epsilon).power
    assert not hasattr(PrivUnitG(dim=3, epsilon=1.0), "privatize")
