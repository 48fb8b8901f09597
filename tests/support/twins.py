"""A plain NumPy twin of PIGD and PGIGA that receives the same noise words in the same order.

It shares no arithmetic with the kernels: the iterate is one plain vector, the implicit step is a root found by scipy's
``brentq`` (or a closed form where the loss has a kink), the constraint is an outer root, projections are the textbook
ones, and a Gaussian value is scipy's normal quantile of the word's tail probability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri
from twins_geometry import project_box, project_l1, project_l2, project_simplex

from privol import geometry
from privol.losses import get_loss
from privol.noise import Source, decide_lattice_point

RTOL = 4 * np.finfo(float).eps


def nearest(domain, x):
    """Nearest point of the set by the textbook formulas."""
    if isinstance(domain, geometry.L2Ball):
        return project_l2(x, domain.radius)
    if isinstance(domain, geometry.L1Ball):
        return project_l1(x, domain.radius)
    if isinstance(domain, geometry.Simplex):
        return project_simplex(x, domain.total)
    return project_box(x, domain.low, domain.high)


def root(function, low, high):
    """Root of an increasing function in [low, high]."""
    if function(low) >= 0.0:
        return low
    if function(high) <= 0.0:
        return high
    return brentq(function, low, high, xtol=1e-300, rtol=RTOL, maxiter=2000)


def slope_at(name, width, m, y):
    """phi'(m; y), scalar."""
    if name == "logistic":
        margin = y * m
        return -y * (math.exp(-margin) / (1 + math.exp(-margin)) if margin >= 0 else 1 / (1 + math.exp(margin)))
    if name == "smooth_hinge":
        return -y * min(max((1 + width - y * m) / (2 * width), 0.0), 1.0)
    if name == "squared":
        return m - y
    if name == "huber":
        return min(max(m - y, -width), width)
    if name == "hinge":
        return -y if y * m < 1 else 0.0
    assert name == "absolute"
    return float(np.sign(m - y))


def implicit_slope(name, width, k, b, c, y):
    """Slope at the minimiser of ``k m^2 / 2 - b m + c phi(m; y)``."""
    if c == 0.0:
        return 0.0
    if name == "hinge":  # margins below, at or above 1
        return -y * min(max((k - y * b) / c, 0.0), 1.0)
    if name == "absolute":
        return min(max((b - k * y) / c, -1.0), 1.0)
    if name == "squared":
        return (b - k * y) / (k + c)
    bound = width if name == "huber" else 1.0
    m = root(lambda m: k * m - b + c * slope_at(name, width, m, y), (b - c * bound) / k, (b + c * bound) / k)
    return slope_at(name, width, m, y)


def prox_in_ball(name, width, a, k, x, v, y, radius):
    """Minimise ``a/2 ||w - x||^2 + phi(v.w; y) + (k - a)/2 ||w||^2`` over the ball: outer root in the multiplier."""
    b, q = float(v @ x), float(v @ v)

    def point(at):
        return (a * x - implicit_slope(name, width, at, a * b, q, y) * v) / at

    if radius is None or math.hypot(*point(k)) <= radius:
        return point(k)
    high = 2 * k
    while math.hypot(*point(high)) > radius:
        high *= 2
    at = root(lambda at: radius - math.hypot(*point(at)), k, high)
    w = point(at)
    return w * (radius / math.hypot(*w))


def gaussian(word):
    """Z of a 64-bit word: sign, then the first bits of the upper-tail probability."""
    z = -float(ndtri(((word & ((1 << 63) - 1)) + 0.5) * 2.0**-64))
    return -z if word >> 63 else z


def power_of_two_grid(scale):
    """h with ``2^10 h <= scale < 2^11 h``."""
    return 2.0 ** (math.floor(math.log2(scale)) - 10)


@dataclass
class Twin:
    """One run. ``weights(t)`` gives ``(A_{t-1}, A_t)``, ``std(t)`` the public noise scale, ``releases`` row numbers."""

    update: str
    loss: str
    width: float
    domain: geometry.ConvexSet
    intercept: bool
    x_bound: float
    y_bound: float
    weights: object
    first: int
    std: object
    releases: set[int]
    constrained: bool  # implicit step on the ball: constrained exactly, or prox followed by projection
    key: bytes
    x: np.ndarray
    t: int = 0
    released: list = field(default_factory=list)

    def __post_init__(self):
        self.source = Source(self.key, private=False, description="twin") if self.key else None

    def learn(self, row, y):
        """One row (None: the null row), and the release after it if one is due."""
        self.t += 1
        if self.t >= self.first:
            self.step(row, y)
        if self.t in self.releases:
            self.release(self.std(self.t))

    def step(self, row, y):
        before, after = self.weights(self.t)
        if row is None:
            v, y = np.zeros(len(self.x)), 1.0
        else:
            row = np.asarray(row, dtype=float)
            length = math.hypot(*row)
            v = row * (self.x_bound / length) if length > self.x_bound else row
            v = np.append(v, 1.0) if self.intercept else v
            y = min(max(float(y), -self.y_bound), self.y_bound) if self.loss in REGRESSION else y
        if self.update == "gradient":
            moved = (before * self.x - slope_at(self.loss, self.width, float(v @ self.x), y) * v) / after
            self.x = nearest(self.domain, moved)
        else:
            radius = self.domain.radius if self.constrained else None
            self.x = prox_in_ball(self.loss, self.width, before, after, self.x, v, y, radius)
            self.x = self.x if self.constrained else nearest(self.domain, self.x)

    def release(self, std):
        point = self.x if std == 0.0 else np.array([self.perturbed(j, std) for j in range(len(self.x))])
        self.released.append((self.t, nearest(self.domain, point)))

    def perturbed(self, j, std):
        word = self.source.words(stream=0, level=0, block=j // 2, row=self.t)[j % 2]
        h = power_of_two_grid(std)
        value = (float(self.x[j]) + std * gaussian(word)) / h
        if abs(abs(value - math.floor(value)) - 0.5) > 1e-7:
            return round(value) * h

        def extra(level):
            return self.source.words(stream=0, level=level, block=j, row=self.t)

        return decide_lattice_point(word, extra, float(self.x[j]), std, h) * h


REGRESSION = ("squared", "absolute", "huber")


def twin_of(learner, plan, key, dim, loss=None):
    """The twin of a learner's run: everything from its parameters but the public noise scales.

    ``loss`` names the built-in loss of the same function where the learner has a custom one.
    """
    loss = get_loss(loss or learner.loss)
    update = learner._update
    l2, t0 = learner.l2, learner.step_offset
    domain = learner.domain if learner.domain is not None else geometry.L2Ball(learner.radius)
    first = 1
    if learner.calibration == "published" and update == "gradient":
        first = math.ceil(2 * ((plan.row_bound**2 * loss.curvature * (1 + 2.0**-40) + l2) / l2) ** 2)

        def weights(t):
            return 0.5 * l2 * (t - 2), 0.5 * l2 * t
    else:
        if t0 is not None:
            start = t0 * l2
        elif update == "implicit":
            start = l2
        else:  # the smallest value that makes a gradient step a contraction, slightly rounded up
            start = plan.schedule.weight(0)
            exact = loss.curvature * (learner.x_bound**2 + learner.fit_intercept) / 2
            assert exact <= start <= exact * (1 + 1e-9)

        def weights(t):
            if learner.l2_schedule == "inverse_sqrt":
                return start + 2 * l2 * math.sqrt(t - 1), start + 2 * l2 * math.sqrt(t)
            return start + l2 * (t - 1), start + l2 * t

    rows = {int(t) for part in plan.releases.chunks() for t in part}
    return Twin(
        update=update,
        loss=loss.name,
        width=loss.width,
        domain=domain,
        intercept=learner.fit_intercept,
        x_bound=learner.x_bound,
        y_bound=learner.y_bound,
        weights=weights,
        first=first,
        std=plan.std,
        releases=rows,
        constrained=plan.constrained,
        key=key,
        x=np.asarray(domain.start(dim), dtype=float),
    )
