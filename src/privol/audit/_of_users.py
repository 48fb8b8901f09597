"""Neighbouring streams of a user: all of their rows differ, in the worst pattern, which is found by exhaustive search.

The effect of a row is measured in runs without noise, step by step. The effect of several rows is the sum over their
steps, because all releases are linear in the rows of these streams. The worst pattern is the one with the largest
effect, in deviations of the noise. The calibration's own figures are not used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._validate import integer
from ..calibration import Budget, SumCalibration, check_user, make_epochs
from ..errors import InvalidParameter
from ..factorizations import Design
from ..learners import OnlineLearner
from ._bounds import FloatArray
from ._cases import LearnerCase, PrefixCase, title_of

__all__ = ["PrefixUserCase", "UserCase", "checked_places"]

_MOST_PATTERNS = 200_000


class UserCase(LearnerCase):
    """A learner whose budget is for all rows of a user, on two streams that differ in all of them.

    Parameters
    ----------
    learner : OnlineLearner
        With ``rows_per_user``.
    steps, noise, random_state
        As for :class:`LearnerCase`.
    places : sequence of int, optional
        Numbers of the user's rows from 1, ascending. They need not be those of ``rows_per_user`` and
        ``user_separation``, to see what the claim rests on. Default: the worst of those that are.
    """

    def __init__(
        self, learner: OnlineLearner, *, steps: int, noise: float, random_state: Any, places: Sequence[int] | None
    ) -> None:
        self._given = places
        self._places: NDArray[np.int64] | None = None
        super().__init__(learner, steps=steps, noise=noise, random_state=random_state)
        if places is not None:
            self.title = f"{self.title[:-1]}, rows {', '.join(map(str, places))} of a user)"

    def _row_steps(self) -> int:
        """The steps that all rows of a user may be in, with one to spare."""
        words, batch = self._words, int(self._words["batch"])
        last = (
            max(self._given) if self._given else (int(words["rows_per_user"]) - 1) * int(words["user_separation"]) + 1
        )
        return -(-last // batch) + 1

    def _most_width(self) -> int:
        """Users that may share a run: with the same steps, each with a coordinate of their own."""
        most = super()._most_width()
        self._prepare(1)
        assert self._places is not None
        ends = np.array(self._ends)
        room = (ends[np.searchsorted(ends, self._places, side="right")] - self._places).min()
        apart = np.diff(self._places).min() if len(self._places) > 1 else most  # two users have different rows
        return int(max(1, min(most, room, apart)))

    def _prepare(self, width: int) -> None:
        super()._prepare(width)
        if self._places is None:
            found = self._worst() if self._given is None else checked_places(self._given, self._ends[-1])
            self._places = np.array(found, dtype=np.int64)
        self._differ(self._places)

    def _differ(self, places: NDArray[np.int64]) -> None:
        """Make the two streams: every user of the run has rows in these positions, from 0, shifted by their number."""
        users = np.tile(np.arange(self.width), len(places))
        rows = (places[:, None] + np.arange(self.width)).ravel()
        one, two = self._unit_rows(self._features), self._unit_rows(self._features, other=True)
        zero_out = self.adjacency == "zero_out"
        tops = self._top, math.nan if zero_out else -self._top
        self._streams = []
        for unit, top in zip((one, one if zero_out or not self._pairs else two), tops, strict=True):
            cells = unit[users].tocoo()
            shape = (self._ends[-1], self._features)
            X = sparse.csr_matrix((cells.data, (rows[cells.row], cells.col)), shape=shape)
            y = np.full(self._ends[-1], math.nan)
            y[rows] = top
            self._streams.append((X, y))
        self._worlds = [self._cut(X, y) for X, y in self._streams]

    def _worst(self) -> list[int]:
        rows, apart = int(self._words["rows_per_user"]), int(self._words["user_separation"])
        return worst_places(self._moves, self._covariance, self._ends, rows, apart)

    def _moves(self, place: int) -> FloatArray:
        """The effect of one row in that position, from 0."""
        self._differ(np.array([place]))
        return np.asarray((self.twin(1) - self.twin(0))[0])


class PrefixUserCase(PrefixCase):
    """Prefix sums whose budget covers all rows of a user; ``places`` as for :class:`UserCase`."""

    def __init__(
        self,
        *,
        rows_per_user: int,
        user_separation: int = 1,
        places: Sequence[int] | None,
        design: str = "blt",
        leaf: int | None = None,
        **words: Any,
    ) -> None:
        self._rows, self._apart = check_user(rows_per_user, user_separation)
        self._places: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self._users = 1
        super().__init__(design=design, leaf=leaf, **words)
        told = {"design": design, "rows_per_user": self._rows, "user_separation": self._apart}
        self.title = title_of("PrefixSum", told)
        if places is None:
            found = worst_places(self._moves, lambda: self._noise, self._ends, self._rows, self._apart)
        else:
            found = checked_places(places, self._ends[-1])
            self.title = f"{self.title[:-1]}, rows {', '.join(map(str, places))} of a user)"
        self._places = np.array(found, dtype=np.int64)
        # users that share a run: with the same steps, each with a coordinate of their own
        ends = np.array(self._ends)
        room = int((ends[np.searchsorted(ends, self._places, side="right")] - self._places).min())
        apart = int(np.diff(self._places).min()) if len(found) > 1 else room
        self.width = self._users = max(1, min(room, apart))
        self._differ()
        self.know(self._noise)

    @property
    def _ends(self) -> list[int]:
        return [self._leaf * k for k in range(1, self.size + 1)]

    def _calibrated(self, design: Design, **words: Any) -> SumCalibration:
        """Calibrate a run like :class:`privol.prefix.PrefixSum`, whose own figure for users is the claim."""
        budget = Budget(**{name: words.pop(name) for name in ("epsilon", "delta", "calibration")})
        chosen = replace(design, rows_per_user=self._rows, user_separation=self._apart)
        epochs = make_epochs("none", budget, design=chosen, **words)
        return epochs.sums[0]

    def _differ(self) -> None:
        """Make the two streams: every user has rows in the given positions, shifted by their number."""
        users = np.tile(np.arange(self._users), len(self._places))
        rows = (self._places[:, None] + np.arange(self._users)).ravel()
        shape = (self._ends[-1], self._dim)
        self._blocks = []
        for sign in self._signs:
            values = np.full(len(rows), sign * self._bound)
            X = sparse.csr_matrix((values, (rows, users)), shape=shape)
            self._blocks.append([X[end - self._leaf : end] for end in self._ends])

    def _moves(self, place: int) -> FloatArray:
        self._places = np.array([place], dtype=np.int64)
        self._differ()
        return np.asarray((self.twin(1) - self.twin(0))[0])


def checked_places(places: Sequence[int], most: int) -> list[int]:
    """Return places of the caller's, from 0.

    Raises
    ------
    InvalidParameter
        If they do not ascend within this many rows.
    """
    found = [integer(user_places=place, at_least=1, at_most=most) - 1 for place in places]
    if not found or any(b <= a for a, b in pairwise(found)):
        raise InvalidParameter(f"user_places must ascend, from 1 to {most:,} at most, found {list(places)!r}")
    return found


def worst_places(
    moves: Callable[[int], FloatArray], covariance: Callable[[], FloatArray], ends: Sequence[int], rows: int, apart: int
) -> list[int]:
    """Return the places, from 0, at which all rows of a user move most.

    By trying all divisions of their number among the steps.

    Parameters
    ----------
    moves : callable
        What one row at a place moves.
    covariance : callable
        Of the noise.
    ends : sequence of int
        Last rows of the steps.
    rows, apart : int
        At most this many rows, any two at least this many rows apart.
    """
    starts = [0, *ends[:-1]]
    patterns = math.comb(len(starts) + rows - 1, rows)
    if patterns > _MOST_PATTERNS:
        raise InvalidParameter(
            f"rows_per_user={rows} in {len(starts)} steps are {patterns:,} patterns, of which at most "
            f"{_MOST_PATTERNS:,} are tried: state fewer steps, fewer rows, or user_places"
        )
    effect = np.array([moves(start) for start in starts])
    together = effect @ np.linalg.solve(covariance(), effect.T)
    best: tuple[float, list[int]] = (-1.0, [])

    def go(step: int, places: list[int], steps: list[int], square: float) -> None:
        """Place every later row as early in its step as the earlier ones allow, which leaves the most room."""
        nonlocal best
        if square > best[0]:
            best = square, places
        if len(places) == rows:
            return
        first = places[-1] + apart if places else 0
        for s in range(step, len(starts)):
            place = max(starts[s], first)
            if place < ends[s]:
                more = together[s, s] + 2.0 * together[s, steps].sum() if steps else together[s, s]
                go(s, [*places, place], [*steps, s], square + float(more))

    go(0, [], [], 0.0)
    return best[1]
