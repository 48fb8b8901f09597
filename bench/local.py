"""Rows per second of the learners on devices' reports: ``python bench/local.py``.

Compared with scikit-learn's SGDClassifier, which is not private, and with the same learner in NumPy (with noise from
``numpy.random``, which no guarantee covers), alternating in one process; the figures are medians of ``--rounds``. The
limit is a report's words, its first pass where it has one, and the arithmetic of a row and a step; of PrivUnit those of
one trial.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from figures import Row, figure, show
from limits import Work, of_noise, of_release, of_row
from numpy.typing import NDArray
from sklearn.linear_model import SGDClassifier

from privol import BANCO, LDPSGD, MIOGD, AgnosticBANCO, BanditMIOGD, MultiscaleSGD
from privol._core import coin
from privol.learners import OnlineLearner

FloatArray = NDArray[np.float64]

LEARNERS: dict[str, Callable[[], OnlineLearner]] = {
    "MIOGD": lambda: MIOGD(leakage=0.5),
    "BanditMIOGD": lambda: BanditMIOGD(leakage=0.5),
    "BanditMIOGD, pair": lambda: BanditMIOGD(leakage=0.5, values=2),
    "LDPSGD gaussian": lambda: LDPSGD(randomizer="gaussian"),
    "LDPSGD l2laplace": lambda: LDPSGD(randomizer="l2laplace"),
    "LDPSGD laplace": lambda: LDPSGD(randomizer="laplace"),
    "BANCO gaussian": lambda: BANCO(randomizer="gaussian"),
    "BANCO l2laplace": lambda: BANCO(randomizer="l2laplace"),
    "AgnosticBANCO l2laplace": AgnosticBANCO,
    "MultiscaleSGD gaussian": lambda: MultiscaleSGD(randomizer="gaussian"),
    "MultiscaleSGD l2laplace": lambda: MultiscaleSGD(randomizer="l2laplace"),
    **{f"LDPSGD privunit {e:g}": lambda e=e: LDPSGD(epsilon=e) for e in (0.5, 1.0, 2.0, 4.0, 8.0)},
    **{f"BANCO privunit {e:g}": lambda e=e: BANCO(epsilon=e) for e in (1.0, 4.0)},
    **{f"MultiscaleSGD privunit {e:g}": lambda e=e: MultiscaleSGD(epsilon=e) for e in (1.0, 4.0)},
}


class Experts:
    """Magnitudes of many radii, as in MultiscaleSGD: losses over the radii, weights by Newton's method."""

    def __init__(self, dim: int, rows: int) -> None:
        plan = MultiscaleSGD(randomizer="l2laplace").calibrate(dim, rows).experts
        assert plan is not None
        self.radii, self.log_prior, self.speeds = (np.array(a) for a in (plan.radii, plan.log_prior, plan.speeds))
        self.rate, self.drift, self.travelled = plan.rate, plan.drift, 0.0
        self.losses = np.zeros(len(self.radii))

    def rates(self) -> FloatArray:
        return np.minimum(self.rate, self.speeds / math.sqrt(self.drift * (1.0 + self.travelled)))

    def learn(self, gain: float, square: float) -> None:
        self.losses += self.rates() * (square * self.drift) - gain
        self.travelled += square

    def magnitude(self) -> float:
        rates = self.rates()
        slopes = rates / self.radii
        alone = (rates * self.losses - self.log_prior) / slopes
        z, at = slopes * (alone.min() - alone), 0.0
        for _ in range(200):
            p = np.exp(z + at * slopes)
            total = float(p.sum())
            if total <= 1.0 + 1e-14:
                break
            following = at - math.log(total) * total / float(p @ slopes)
            if following >= at:
                break
            at = following
        return float(p @ self.radii) / total


def in_numpy(X: FloatArray, y: FloatArray, *, update: str) -> None:
    """Descent, coin betting or experts on L2-Laplace reports, one row at a time."""
    rng, (n, d) = np.random.default_rng(0), X.shape
    w, q, squares, at, drift = np.zeros(d), np.zeros(d), 0.0, 0.0, 0.0
    experts = Experts(d, n) if update == "experts" else None
    for t in range(1, n + 1):
        x = X[t - 1]
        g = -y[t - 1] / (1.0 + math.exp(y[t - 1] * float(x @ w))) * x
        z = rng.standard_normal(d)
        report = g + 2.0 * rng.gamma(d) / math.sqrt(float(z @ z)) * z
        if update != "descent":
            gain, square = -float(report @ q), float(q @ q)
            squares += float(report @ report)
            q = q - report / math.sqrt(squares)
            q /= max(1.0, math.sqrt(float(q @ q)))
            if experts is None:
                at += gain
                drift += square * 200.0
                w = coin.magnitude(at, drift, 0.1) * q
            else:
                experts.learn(gain, square)
                w = experts.magnitude() * q
        else:
            w = w - 0.01 / math.sqrt(t) * report
            w /= max(1.0, math.sqrt(float(w @ w)))


def needed(name: str, features: int) -> Work:
    """What a row, its report and the step need at least."""
    d = features + 1
    words = Work(blocks=0.75 * d)  # of L2-Laplace
    if "Bandit" in name or "privunit" in name:
        words = Work(blocks=0.5 * d)  # a direction, of another first pass than the one that is measured
    elif "laplace" not in name or name.endswith(" laplace"):
        words = of_noise(d, "laplace" if "laplace" in name else "gaussian")
    experts = Work(exponentials=13.0) if "Multiscale" in name else Work()
    return of_row(features) + of_release(d) + words + experts


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=54)
    parser.add_argument("--only", default="", help="learners whose name has this in it")
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(given.rows, given.dim))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    few = min(given.rows, 20_000)
    table: list[Row] = []
    print(f"{'':<26}{'rows/s':>12}{'to SGD':>9}{'to NumPy':>10}")
    for name, make in LEARNERS.items():
        if given.only not in name:
            continue
        rows = given.rows if "privunit 8" not in name else few
        update = "experts" if "Multiscale" in name else "betting" if "BANCO" in name else "descent"
        own, sgd, plain = [], [], []
        for _ in range(given.rounds):
            learner = make().declare_classes([-1.0, 1.0])
            learner.horizon = rows
            own.append(seconds(lambda: learner.partial_fit(X[:rows], y[:rows])) / rows)  # noqa: B023
            peer = SGDClassifier(loss="log_loss")
            sgd.append(seconds(lambda: peer.partial_fit(X, y, classes=[-1.0, 1.0])) / given.rows)  # noqa: B023
            plain.append(seconds(lambda: in_numpy(X[:few], y[:few], update=update)) / few)  # noqa: B023
        mine = statistics.median(own)
        to_sgd, to_numpy = statistics.median(sgd) / mine, statistics.median(plain) / mine
        limit = needed(name, given.dim).limit("rows/s")
        for peer, times in (("scikit-learn SGDClassifier", sgd), ("the same update in NumPy", plain)):
            theirs, ratios = 1.0 / statistics.median(times), [b / a for a, b in zip(own, times, strict=True)]
            words: dict[str, Any] = {"peer_name": peer, "peer": theirs, "ratios": ratios}
            table.append(figure(name, "rows/s", 1.0 / mine, limit=limit, **words))
        print(f"{name:<26}{1.0 / mine:>12,.0f}{to_sgd:>9.2f}{to_numpy:>10.1f}", flush=True)
    show(table)


if __name__ == "__main__":
    main()
