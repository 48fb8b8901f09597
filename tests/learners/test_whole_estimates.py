"""BanditMIOGD as published: noise on all coordinates of the estimate (Algorithm 2)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privol import MIOGD, BanditMIOGD
from privol.errors import InvalidParameter

ONES = {"gradient_bound": 1.0, "fit_intercept": False}
PUBLISHED = {"calibration": "published", "step": "horizon"}


def test_the_whole_estimate_is_algorithm_1_on_estimates():
    """The points are those of MIOGD given ``(d / distance) f e``, with the noise of the same seed."""
    rng, n, d = np.random.default_rng(4), 80, 3
    words = {"leakage": 2.0, "step": "horizon", "horizon": n, "random_state": 3, "fit_intercept": False, "radius": 0.5}
    learner = BanditMIOGD(calibration="published", value_bounds=(-1.0, 2.0), gradient_bound=0.5, **words)
    point, apart, told = learner.ask(d), BanditMIOGD(**learner.get_params()), BanditMIOGD(**learner.get_params())
    apart.ask(d)
    far = 0.5 * n**-0.25
    plan = learner.calibrate(d, n)
    assert plan.report.bound == pytest.approx(d * (2.0 / far + 0.5), rel=1e-9)
    assert (plan.distance_at(7), plan.low, plan.high) == pytest.approx((far, -1.0 - 0.5 * far, 2.0 + 0.5 * far))
    descent = MIOGD(gradient_bound=plan.report.bound, **words)
    device, center = told.device(d, random_state=3), descent.ask(d)
    for told_value in rng.uniform(-3.0, 4.0, size=n):
        e = (point - center) / far
        assert np.linalg.norm(e) == pytest.approx(1.0, abs=1e-9)
        estimate = d / far * np.clip(told_value, plan.low, plan.high) * e
        learner.tell(value=told_value)
        descent.tell(gradient=estimate)
        apart.tell(report=device.privatize(estimate))
        point, center = learner.ask(), descent.ask()
        assert learner.coef_.ravel() == pytest.approx(center, abs=1e-9)
        assert apart.ask() == pytest.approx(point, abs=1e-9)
    assert np.linalg.norm(center) > 0.01
    assert learner.guarantee_.parameter == descent.guarantee_.parameter == learner.ledger_.spent.mu
    assert learner.guarantee_.leakage == descent.guarantee_.leakage == 2.0
    assert learner.regret_bound(n) == pytest.approx(descent.regret_bound(n, d) + n * 0.5 * far, rel=1e-9)


def test_the_published_noise_follows_the_horizon():
    """ZV-7: a fixed sigma leaks more in a longer run, a fixed leakage needs more noise. No single number works."""
    plans = [BanditMIOGD(sigma=9.0, **PUBLISHED, **ONES).calibrate(5, n) for n in (100, 10_000)]
    assert plans[0].report.leakage < plans[1].report.leakage
    assert plans[0].mu < plans[1].mu == pytest.approx(2 * plans[1].report.bound / 9.0, rel=1e-9)
    plans = [BanditMIOGD(leakage=0.5, **PUBLISHED, **ONES).calibrate(5, n) for n in (100, 10_000)]
    assert plans[1].report.scale > 2.0 * plans[0].report.scale
    report = BanditMIOGD(leakage=0.5, **PUBLISHED, **ONES).calibrate(30, 100).report
    assert 0.5 * math.log1p((report.bound / report.scale) ** 2) == pytest.approx(0.351, abs=5e-4)  # docs/local.md
    learner = BanditMIOGD(sigma=9.0, **PUBLISHED, horizon=100)
    assert learner.device(4).guarantee.parameter == learner.calibrate(4, 100).mu
    with pytest.raises(InvalidParameter, match="horizon must be"):
        BanditMIOGD(**PUBLISHED).device(4)
