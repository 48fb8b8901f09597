"""Step sizes in hindsight: a baseline for parameter-free learners that no real user has."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import FloatArray

from privol.reproduce.jun2019 import Game, descend, run

__all__ = ["FACTORS", "Game", "Swept", "descend", "half_decades", "run", "spread", "sweep"]

#: For the best step, whose results the tables show.
FACTORS = (0.01, 0.1, 1.0, 10.0, 100.0)


@dataclass(frozen=True)
class Swept:
    """The result of a sweep of step sizes."""

    steps: tuple[float, ...]
    excess: FloatArray  # a row for each step, a column for each run
    epsilon: float  # what the whole sweep would cost if the rows were private

    @property
    def best(self) -> float:
        """The step with the least mean excess risk."""
        return self.steps[int(np.argmin(self.excess.mean(axis=1)))]


def sweep(game: Game, steps: Sequence[float], keys: Iterable[int], *, epsilon: float, **given: Any) -> Swept:
    """Run gradient descent with every step size, and keep all results.

    It is for comparisons on public or synthetic rows. Every run is one more report of every row, so on private rows the
    cost of the whole sweep, including the choice of the best step, is that of all its runs composed: ``Swept.epsilon``,
    not the ``epsilon`` of one run.

    Parameters
    ----------
    game : Game
    steps : sequence of float
        Constant step sizes.
    keys : iterable of int
        One for each run: they seed synthetic rows and the noise.
    epsilon : float
        Local differential privacy of a report.
    **given
        Other parameters of :class:`privol.LDPSGD`.
    """
    keys = tuple(keys)
    found = [[descend(game, key, step, epsilon=epsilon, **given) for key in keys] for step in steps]
    return Swept(tuple(steps), np.array(found), epsilon * len(steps) * len(keys))


def half_decades(middle: float, below: int, above: int) -> list[float]:
    """Return steps on both sides of a middle one, two to a decade."""
    return [middle * 10 ** (k / 2) for k in range(-below, above + 1)]


def spread(values: Sequence[float]) -> str:
    """Return mean and standard deviation, the mean with two significant digits."""
    return f"{statistics.mean(values):.2g} ± {statistics.stdev(values):.1g}"
