"""A plain NumPy twin of NOGD that receives the same noise words; see :mod:`twins`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from twins import REGRESSION, gaussian, nearest, power_of_two_grid, slope_at

from privol import geometry
from privol.losses import get_loss
from privol.noise import Source, decide_lattice_point


@dataclass
class GradientTwin:
    """One run: ``x`` is the point, ``released`` what the schedule counts, ``points`` the point after every row."""

    loss: str
    width: float
    domain: geometry.ConvexSet
    intercept: bool
    x_bound: float
    y_bound: float
    l2: float
    length: float
    batch: int
    bound: float
    sigma: float
    horizon: int
    releases: set[int]
    key: bytes
    x: np.ndarray
    t: int = 0
    steps: int = 0
    waiting: list = field(default_factory=list)
    released: list = field(default_factory=list)

    def __post_init__(self):
        self.source = Source(self.key, private=False, description="twin") if self.key else None

    def gradient(self, row, y):
        row = np.asarray(row, dtype=float)
        length = math.hypot(*row)
        v = row * (self.x_bound / length) if length > self.x_bound else row
        v = np.append(v, 1.0) if self.intercept else v
        y = min(max(float(y), -self.y_bound), self.y_bound) if self.loss in REGRESSION else y
        return slope_at(self.loss, self.width, float(v @ self.x), y) * v

    def learn(self, row, y):
        """One row; None: the null row."""
        self.tell(np.zeros(len(self.x)) if row is None else self.gradient(row, y))

    def tell(self, gradient):
        self.t += 1
        norm = math.hypot(*gradient)
        self.waiting.append(gradient * (self.bound / norm) if norm > self.bound else gradient)
        if self.t % self.batch == 0 or self.t == self.horizon:
            self.step()
        if self.t in self.releases:
            self.released.append(self.x)

    def step(self):
        self.steps += 1
        total = np.sum(self.waiting, axis=0)
        if self.sigma > 0.0:
            total = np.array([self.perturbed(j, float(total[j])) for j in range(len(total))])
        mean = total / len(self.waiting)
        eta = 1 / (self.l2 * self.steps) if self.l2 else self.length / math.sqrt(self.steps)
        self.x = nearest(self.domain, self.x - eta * (mean + self.l2 * self.x))
        self.waiting = []

    def perturbed(self, j, x):
        word = self.source.words(stream=0, level=0, block=j // 2, row=self.t)[j % 2]
        h = power_of_two_grid(self.sigma)
        value = (x + self.sigma * gaussian(word)) / h
        if abs(abs(value - math.floor(value)) - 0.5) > 1e-7:
            return round(value) * h

        def extra(level):
            return self.source.words(stream=0, level=level, block=j, row=self.t)

        return decide_lattice_point(word, extra, x, self.sigma, h) * h


def gradient_twin_of(learner, plan, key, dim, loss=None):
    """The twin of a learner's run: everything from its parameters but the public noise scale."""
    loss = get_loss(loss or learner.loss)
    domain = learner.domain if learner.domain is not None else geometry.L2Ball(learner.radius)
    bound = plan.bound
    length = domain.diameter(dim) / math.sqrt(bound**2 + dim * (plan.sigma / learner.batch) ** 2)
    return GradientTwin(
        loss=loss.name,
        width=loss.width,
        domain=domain,
        intercept=learner.fit_intercept,
        x_bound=learner.x_bound,
        y_bound=learner.y_bound,
        l2=learner.l2,
        length=length,
        batch=learner.batch,
        bound=bound,
        sigma=plan.sigma,
        horizon=plan.releases.horizon,
        releases={int(t) for part in plan.releases.chunks() for t in part},
        key=key,
        x=np.asarray(domain.start(dim), dtype=float),
    )
