"""Average regret of online logistic regression: the learners of the specification's comparison, beside its results.

    python experiments/regret_table.py [--quick] [--runs 12]

20,000 rows in ten dimensions, (epsilon, delta) = (1, 1e-6), replacing one row. A row's loss is that of the model
released before it plus ``l2 / 2 ||x||^2``; regret compares with the best fixed model for these losses. Two or three
minutes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from common import FloatArray, arguments, released_models, say, shown, table, write
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from privol import DPFTRL, NOGD, PIGD
from privol.guarantees import gdp_epsilon
from privol.losses import Custom

DIM, ROWS = 10, 20_000
SETTINGS = ((0.5, 5.0), (0.05, 5.0), (0.005, 12.0))  # l2 and the radius of the ball
GRID = (10.0, 100 / 3, 100.0, 1000 / 3)

# What the specification prints, with its best regularization of the grid, for the three settings.
PRINTED: dict[str, tuple[float, float, float]] = {
    "always 0": (0.0134, 0.0945, 0.271),
    "IGD without noise": (0.0001, 0.0006, 0.0022),
    "PIGD, published": (6.37, 0.524, 0.326),
    "PIGD, noise of the paper's shape": (0.92, 0.80, 1.55),
    "PIGD, lipschitz": (0.85, 0.89, 1.58),
    "PIGD, smooth": (1.35, 0.93, 1.60),
    "NOGD": (0.193, 0.498, 1.25),
    "DPFTRL, regularization 0": (0.0214, 0.0324, 0.157),
    "DPFTRL, best of the grid": (0.0012, 0.0080, 0.0354),
    "DPFTRL": (0.0012, 0.0195, 0.064),
}


def synthetic(rows: int) -> tuple[FloatArray, FloatArray]:
    """Return directions and labels: the same rows as the specification's, drawn in the same order."""
    rng = np.random.default_rng(5)
    truth = rng.normal(size=DIM)
    truth *= 3 / np.linalg.norm(truth)
    X = rng.normal(size=(rows, DIM))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.where(rng.random(rows) < expit(4 * (X @ truth)), 1.0, -1.0)


@dataclass(frozen=True)
class Game:
    """The rows, and the regularised losses that models are measured by."""

    X: FloatArray
    y: FloatArray
    l2: float
    radius: float

    def losses(self, models: FloatArray) -> FloatArray:
        """Return every row's loss; ``models`` is one model or one for each row."""
        scores = np.sum(self.X * models, axis=1)
        found: FloatArray = np.logaddexp(0.0, -self.y * scores) + self.l2 / 2 * np.sum(models**2, axis=-1)
        return found

    @cached_property
    def best(self) -> float:
        """Return the mean loss of the best fixed model, which lies inside the ball."""
        solver = LogisticRegression(
            C=1 / (len(self.y) * self.l2), fit_intercept=False, solver="newton-cholesky", tol=1e-10
        )
        model = solver.fit(self.X, self.y).coef_[0]
        assert np.linalg.norm(model) < self.radius
        return float(self.losses(model).mean())

    def regret(self, learner: Any) -> float:
        """Return the average regret of one run."""
        models = released_models(learner, self.X, self.y, (-1.0, 1.0))
        return float(self.losses(models).mean()) - self.best


def _value(p: float, y: float) -> float:
    return max(0.0, -y * p) + math.log1p(math.exp(-abs(p)))


def _slope(p: float, y: float) -> float:
    return -y / (1.0 + math.exp(y * p)) if y * p < 700.0 else 0.0


#: A loss of which only a slope of at most 1 is known, so that gradients of neighbours may differ by 2.
CRUDE = Custom(value=_value, gradient=_slope, lipschitz=1.0, smoothness=0.25, name="logistic, slope at most 1")


def learners(game: Game, crude: bool) -> Iterator[tuple[str, float, type[Any], dict[str, Any]]]:
    """Yield name, regularization of the grid, class and parameters; ``crude``: the specification's constants."""
    rows = len(game.y)
    tight = {"release": list(range(1, rows))}  # the model after the last row is not used
    bound = {"gradient_bound": 1.0} if crude else {}
    published = {"calibration": "published", "epsilon": 1 / 3, "delta": 5e-7}  # it claims (1, 1e-6)
    yield "IGD without noise", 0.0, PIGD, {"epsilon": math.inf, **tight}
    yield "PIGD, published", 0.0, PIGD, {**published, "release": "all"}
    for shape, name in (("paper", "noise of the paper's shape"), ("lipschitz", "lipschitz"), ("smooth", "smooth")):
        loss = {"loss": CRUDE} if crude else {}
        yield f"PIGD, {name}", 0.0, PIGD, {"noise_shape": shape, **loss, **tight}
    yield "NOGD", 0.0, NOGD, bound
    yield "DPFTRL, regularization 0", 0.0, DPFTRL, {"regularization": 0.0, **bound}
    for start in GRID:
        yield "DPFTRL, best of the grid", start, DPFTRL, {"regularization": start, **bound}
    yield "DPFTRL", 0.0, DPFTRL, bound


def measure(game: Game, crude: bool, runs: int) -> dict[str, tuple[float, list[float]]]:
    """Return a number to show (the regularization, or the epsilon proved) and the average regrets."""
    found: dict[str, tuple[float, list[float]]] = {}
    for name, start, kind, given in learners(game, crude):
        common = {"l2": game.l2, "radius": game.radius, "fit_intercept": False, **given}
        keys = range(1 if common.get("epsilon") == math.inf else runs)
        regrets = [game.regret(kind(random_state=key, **common)) for key in keys]
        if name == "PIGD, published":
            start = gdp_epsilon(kind(**common).calibrate(DIM, len(game.y)).mu, 1e-6)
        if name == "DPFTRL":
            start = kind(**common).calibrate(DIM, len(game.y)).regularization
        if name not in found or statistics.mean(regrets) < statistics.mean(found[name][1]):
            found[name] = (start, regrets)
        say(f"l2 = {game.l2:g}", "specification's constants" if crude else "own constants", name, shown(regrets))
    return found


def agrees(values: list[float], printed: float) -> bool:
    """Whether the mean is within two deviations, or a tenth, of the printed value."""
    spread = 2 * statistics.stdev(values) if len(values) > 1 else 0.0
    return abs(statistics.mean(values) - printed) <= max(spread, printed / 10)


def main() -> None:
    given = arguments(__doc__, runs=12)
    X, y = synthetic(ROWS)
    rows = 300 if given.quick else ROWS
    lines: list[list[str]] = []
    for column, (l2, radius) in enumerate(SETTINGS):
        game = Game(X[:rows], y[:rows], l2, radius)
        zero = float(game.losses(np.zeros(DIM)).mean()) - game.best
        same, own = measure(game, True, given.runs), measure(game, False, given.runs)
        for name, printed in PRINTED.items():
            start, values = same.get(name, (0.0, [zero]))
            other_start, others = own.get(name, (0.0, [zero]))
            lines.append(
                [f"{l2:g}", name, f"{printed[column]:g}", shown(values) + (f" ({start:.3g})" if start else ""),
                 "yes" if agrees(values, printed[column]) else "no",
                 shown(others) + (f" ({other_start:.3g})" if other_start else "")]
            )  # fmt: skip
    head = ["l2", "learner", "printed", "measured, its constants", "agrees", "measured, privol's constants"]
    write("regret_table", table(head, lines), given.page)


if __name__ == "__main__":
    main()
