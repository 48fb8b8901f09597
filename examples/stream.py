"""Learn from a stream row by row and block by block, under one budget, and read what was released.

python examples/stream.py
"""

from __future__ import annotations

import numpy as np

from privol import PIGD
from privol.ledger import Ledger
from privol.losses import Custom

rng = np.random.default_rng(0)
HORIZON = 50_000


def rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 8)) / 4
    return X, np.where(X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=n) > 0, "late", "on time")


# One budget for everything that is learnt from these rows.
budget = Ledger(epsilon=2.0, delta=1e-6)
learner = PIGD(epsilon=1.0, delta=1e-6, horizon=HORIZON, release=10_000, radius=5.0, ledger=budget)
learner.declare_classes(["late", "on time"])

X, y = rows(10)
for x, label in zip(X, y, strict=True):
    learner.learn_one(x, label)
while learner.n_rows_ < HORIZON:
    X, y = rows(min(9_998, HORIZON - learner.n_rows_))
    learner.partial_fit(X, y)
    print(f"{learner.n_rows_:6d} rows, {learner.n_releases_} models released, mu spent {budget.spent.mu:.4f}")
learner.close()

X, y = rows(20_000)
print(f"accuracy of the last released model: {learner.score(X, y):.3f}")
print(learner.guarantee_.sentence())

# A user's own loss: convex in the prediction, with its bounds vouched for.
pinball = Custom(
    value=lambda p, y: max(0.9 * (y - p), 0.1 * (p - y)),
    gradient=lambda p, y: 0.1 if p > y else -0.9 if p < y else 0.0,
    lipschitz=0.9,
    smoothness=float("inf"),
    kind="regression",
    name="pinball",
)
X = rng.normal(size=(200_000, 8)) / 4
quantile = PIGD(loss=pinball, epsilon=0.5, delta=1e-6, y_bound=2.0, radius=2.0, ledger=budget).fit(X, X[:, 0] + 0.1)
print(f"0.9 quantile, weights {np.round(quantile.coef_, 2)}")
print(f"both together: epsilon {budget.spent.epsilon(1e-6):.3f} at delta 1e-6, {budget.remaining:.3f} mu left")
