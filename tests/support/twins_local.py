"""Plain NumPy twins of the learners on reports: reports in, points out; see :mod:`twins` and :mod:`twins_betting`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from twins import nearest

from privol import geometry


def onto(domain, x):
    return x if isinstance(domain, geometry.WholeSpace) else nearest(domain, x)


@dataclass
class DescentTwin:
    """Descent on reports: ``step`` and ``c`` as the learners have them, ``l2`` above 0 for steps of 1 / (l2 t)."""

    domain: geometry.ConvexSet
    dim: int
    step: str
    c: float
    lazy: bool
    horizon: int
    power: float = 0.0
    l2: float = 0.0

    def __post_init__(self):
        self.x = np.asarray(self.domain.start(self.dim), dtype=float)
        self.reports = []

    def length(self, number, before):
        """The length of point or step ``number``, after a number of reports."""
        if self.step == "horizon":
            return self.c / math.sqrt(self.horizon)
        if self.step == "anytime":
            return self.c / math.sqrt(number)
        return self.c / math.sqrt(self.power + sum(float(r @ r) for r in self.reports[:before]))

    def receive(self, report):
        self.reports.append(np.asarray(report, dtype=float))
        t = len(self.reports)
        if self.l2:
            self.x = onto(self.domain, self.x - (self.reports[-1] + self.l2 * self.x) / (self.l2 * t))
        elif self.lazy:
            self.x = onto(self.domain, -self.length(t + 1, t) * np.sum(self.reports, axis=0))
        else:
            self.x = onto(self.domain, self.x - self.length(t, t - 1) * self.reports[-1])
        return self.x


@dataclass
class BanditTwin:
    """Descent on values; ``direction(t)`` is the direction of round t."""

    domain: geometry.ConvexSet
    plan: object
    direction: object

    def __post_init__(self):
        self.t, self.theta = 1, np.zeros(self.plan.dim)
        self.x = np.zeros(self.plan.dim)

    @property
    def far(self):
        power = 0.0 if self.plan.fixed else 0.5 if self.plan.pair else 0.25
        return min(self.plan.distance / self.t**power, self.plan.most)

    @property
    def asked(self):
        shrunk, e = (1.0 - self.far / self.plan.inner) * self.x, self.direction(self.t)
        return np.array([shrunk + self.far * e, shrunk - self.far * e]) if self.plan.pair else shrunk + self.far * e

    def number(self, values):
        """The number that a device randomizes from the values at the requested points; as published, an array."""
        values = np.clip(np.atleast_1d(np.asarray(values, dtype=float)), self.plan.low, self.plan.high)
        if self.plan.pair:
            bound = self.plan.report.bound
            return float(np.clip((values[0] - values[1]) / 2.0 / self.far, -bound, bound))
        if self.plan.whole:
            estimate = self.plan.dim / self.far * float(values[0]) * self.direction(self.t)
            return estimate * min(1.0, self.plan.report.bound / np.linalg.norm(estimate))
        return float(values[0]) - (self.plan.low + self.plan.high) / 2.0

    def receive(self, report):
        scale = self.plan.dim if self.plan.pair else self.plan.dim / self.far
        estimate = report if self.plan.whole else scale * report * self.direction(self.t)
        self.theta = self.theta - (1.0 - self.far / self.plan.inner) * estimate
        self.t += 1
        power = 0.0 if self.plan.fixed else 0.5 if self.plan.pair else 0.75
        self.x = onto(self.domain, self.plan.length / self.t**power * self.theta)
        return self.x
