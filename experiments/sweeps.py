"""Step sizes in hindsight: what parameter-free learners are measured against, and nobody has."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from common import FloatArray

from privol import LDPSGD
from privol.geometry import WholeSpace

#: Of the best step, whose results the tables show.
FACTORS = (0.01, 0.1, 1.0, 10.0, 100.0)


class Game(Protocol):
    """Rows to learn, and what a model of them is worth."""

    words: dict[str, Any]  # loss and bounds, for the learners

    def rows(self, key: int) -> tuple[Any, FloatArray]:
        """Return the rows of a run."""
        ...

    def excess(self, model: FloatArray) -> float:
        """Return how much more than the best model's a model's risk is; the intercept comes last."""
        ...


@dataclass(frozen=True)
class Swept:
    """What a sweep of step sizes found."""

    steps: tuple[float, ...]
    excess: FloatArray  # a row for each step, a column for each run
    epsilon: float  # what the whole sweep costs, had the rows been private

    @property
    def best(self) -> float:
        """The step with the least mean excess risk."""
        return self.steps[int(np.argmin(self.excess.mean(axis=1)))]


def run(kind: type[Any], game: Game, key: int, **given: Any) -> float:
    """Return the excess risk of the average model of one run."""
    X, y = game.rows(key)
    learner = kind(random_state=key, **game.words, **given).fit(X, y)
    model = learner.average_coef_.ravel()
    if learner.fit_intercept:
        model = np.append(model, learner.average_intercept_)
    return game.excess(model)


def descend(game: Game, key: int, step: float, **given: Any) -> float:
    """Return the excess risk of gradient descent with a constant step, anywhere in the space."""
    rows = len(game.rows(key)[1])
    return run(LDPSGD, game, key, domain=WholeSpace(), step="horizon", step_size=step * rows**0.5, **given)


def sweep(game: Game, steps: Sequence[float], keys: Iterable[int], *, epsilon: float, **given: Any) -> Swept:
    """Run gradient descent with every step size, and keep them all.

    It is for comparisons, on public or synthetic rows: every run of it is a report more of every row, so on private
    rows the privacy of the whole sweep, the choice of the best included, is that of all its runs composed, which is
    ``Swept.epsilon`` and not the ``epsilon`` of one.

    Parameters
    ----------
    game : Game
    steps : sequence of float
        Constant step sizes.
    keys : iterable of int
        Of the runs: of rows that are made up, and of the noise.
    epsilon : float
        Local differential privacy of a report.
    **given
        Other parameters of :class:`privol.LDPSGD`.
    """
    keys = tuple(keys)
    found = [[descend(game, key, step, epsilon=epsilon, **given) for key in keys] for step in steps]
    return Swept(tuple(steps), np.array(found), epsilon * len(steps) * len(keys))


def half_decades(middle: float, below: int, above: int) -> list[float]:
    """Return steps on both sides of one, two to a decade."""
    return [middle * 10 ** (k / 2) for k in range(-below, above + 1)]


def spread(values: Sequence[float]) -> str:
    """Return mean and standard deviation with two digits of the mean that count."""
    return f"{statistics.mean(values):.2g} ± {statistics.stdev(values):.1g}"
