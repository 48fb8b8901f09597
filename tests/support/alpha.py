"""The false-positive rates of the statistical tests, in one place.

Every statistical test takes its rate from here. Seeds are fixed, so a test either always passes or always fails; the
rate is the probability that its seed is unlucky although the code is right. The total is so small that a failure is a
defect.
"""

from __future__ import annotations

BUDGET = 1e-4

RATES: dict[str, float] = {
    "noise.rows": 1e-6,
    "laws.scale": 1e-6,
    "laws.mean": 1e-6,
    "laws.cells": 1e-6,
    "laws.tails": 1e-6,
    "laws.forced": 1e-6,
    "laws.neighbours": 1e-6,
    "laws.threads": 1e-6,
    "laws.norm": 1e-6,
    "laws.direction": 1e-6,
    "laws.norm_and_direction": 1e-6,
    "laws.vectors": 1e-6,
    "noise.released_scale": 1e-6,
    "noise.words": 1e-6,
    "integers.cells": 1e-6,
    "integers.scale": 1e-6,
    "integers.sign": 1e-6,
    "integers.zero": 1e-6,
    "integers.coin": 1e-6,
    "integers.twin": 1e-6,
    "integers.neighbours": 1e-6,
    "metrics.scale": 1e-6,
    "metrics.independent": 1e-6,
    "alarm.false": 1e-6,
    "alarm.power": 1e-6,
    "planning.scale": 1e-6,
    "audit.claims": 1e-6,
    "audit.coverage": 1e-6,
    "audit.reports": 1e-6,
    "audit.offline": 1e-6,
    "audit.network": 1e-6,
    "audit.programs": 1e-6,
    "audit.canaries": 1e-6,
    "audit.users": 1e-7,
    "audit.users.others": 1e-7,
    "gradients.scale": 1e-6,
    "least_squares.scale": 1e-6,
    "least_squares.mean": 1e-6,
    "least_squares.printed": 1e-7,
    "leaders.scale": 1e-6,
    "classes.scale": 1e-7,
    "gradients.plan": 1e-6,
    "forgetting.scale": 1e-7,
    "local.leakage": 1e-6,
    "local.scale": 1e-6,
    "local.caps": 1e-6,
    "reports.mean": 1e-7,
    "reports.variance": 1e-7,
    "reports.law": 1e-7,
    "reports.epsilon": 1e-7,
    "reports.trials": 1e-7,
    "offline.pol": 1e-7,
    "tuning.fits": 1e-7,
    "tuning.audit": 1e-6,
    "offline.scale": 1e-6,
    "offline.law": 1e-6,
    "offline.audit": 1e-6,
    "offline.gaussian": 1e-6,
    "mixing.laws": 1e-7,
    "encoding.audit": 3e-7,
    "encoding.thresholds": 1e-7,
    "explaining.scale": 1e-7,
    "explaining.exact": 1e-7,
    "explaining.within": 1e-7,
    "encoding.kinds": 1e-7,
}


def rate(name: str, uses: int = 1) -> float:
    """Probability that one of several uses of the named test fails although the code is right."""
    return RATES[name] / uses
