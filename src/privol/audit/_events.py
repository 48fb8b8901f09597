"""Events that may distinguish two tables: thresholds on values, distances and linear statistics, and single values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._bounds import FloatArray, fit_direction

__all__ = ["FRACTIONS", "Event", "Point", "best_event"]

#: Bets as shares of the largest stake: evidence is the mean over them.
FRACTIONS: FloatArray = np.array([0.005, 0.015, 0.04, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 0.95, 0.99])

_COLUMNS = 12  # released values that are examined one by one
_ATOMS = 6
_THRESHOLDS = 60
_LEAST_FITTED = 60  # number of runs on each table from which on a linear statistic is fitted


@dataclass(frozen=True)
class Point:
    """One inequality of a claim: P(S) <= e^epsilon P'(S) + delta for all events S."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class Event:
    """A set of releases, tested for a larger probability on one table (0 or 1) than ``point`` allows."""

    name: str
    score: Callable[[FloatArray], FloatArray]
    threshold: float
    above: bool
    likelier: int
    point: Point
    growth: float

    def happened(self, released: FloatArray) -> NDArray[np.bool_]:
        """Return for each run whether the event occurred."""
        values = self.score(released)
        return values > self.threshold if self.above else values <= self.threshold

    def sentence(self) -> str:
        """Return the event as plain text."""
        return f"{self.name} is {'above' if self.above else 'at most'} {self.threshold:.6g}"


def _padded(released: FloatArray, width: int) -> FloatArray:
    if released.shape[1] >= width:
        return released[:, :width]
    return np.pad(released, ((0, 0), (0, width - released.shape[1])))


def _grain(values: FloatArray) -> FloatArray:
    """Exponent of the largest power of two of which each value is a multiple; 0 is a multiple of all."""
    mantissa, exponent = np.frexp(values)
    whole = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    lowest = np.where(whole == 0, 1, whole & -whole)
    found = np.log2(lowest.astype(np.float64)) + exponent - 53
    return np.where(values == 0.0, 2000.0, found)


def _scores(
    first: FloatArray, second: FloatArray, low_bits: bool
) -> list[tuple[str, Callable[[FloatArray], FloatArray]]]:
    """Values that may be compared with a threshold, chosen from runs on both tables."""
    both = np.concatenate([first, second])
    width = both.shape[1]
    scores: list[tuple[str, Callable[[FloatArray], FloatArray]]] = []

    def column(k: int, of: Callable[[FloatArray], FloatArray] = lambda x: x) -> Callable[[FloatArray], FloatArray]:
        return lambda released: of(_padded(released, width)[:, k])

    spread = both.std(axis=0)
    gap = np.abs(first.mean(axis=0) - second.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    varied = [int(k) for k in np.flatnonzero(spread > 0.0)]
    if 0 in varied:
        scores.append(("the number of values (-1: the run failed)", column(0)))
    chosen = sorted((k for k in varied if k), key=lambda k: -gap[k])[:_COLUMNS]
    centre = np.median(first, axis=0)
    for k in chosen:
        scores.append((f"value {k}", column(k)))
        middle = float(centre[k])
        scores.append((f"the distance of value {k} from {middle:.6g}", column(k, lambda x, m=middle: np.abs(x - m))))  # type: ignore[misc]
        if low_bits:
            scores.append((f"the binary exponent of the last bit of value {k}", column(k, _grain)))
    for k in chosen[:3]:  # values that are released again and again
        counts = [dict(zip(*np.unique(table[:, k], return_counts=True), strict=True)) for table in (first, second)]
        often = sorted(
            (value for value in counts[0].keys() | counts[1].keys()
             if counts[0].get(value, 0) + counts[1].get(value, 0) >= max(3, len(both) // 200)),
            key=lambda value: -abs(counts[0].get(value, 0) / len(first) - counts[1].get(value, 0) / len(second)),
        )  # fmt: skip
        for value in often[:_ATOMS]:
            equals = column(k, lambda x, v=float(value): (x == v).astype(np.float64))  # type: ignore[misc]
            scores.append((f"the truth (1 or 0) of value {k} being {value!s}", equals))
    if len(chosen) > 1:
        picked = np.array(chosen)
        scale = np.where(spread[picked] > 0.0, spread[picked], 1.0)
        middles = centre[picked]
        scores.append((
            "the distance of all values from their medians",
            lambda released: np.linalg.norm((_padded(released, width)[:, picked] - middles) / scale, axis=1),
        ))  # fmt: skip
        if min(len(first), len(second)) >= _LEAST_FITTED:
            weights = fit_direction(first[:, picked], second[:, picked])
            scores.append(("a linear statistic", lambda released: _padded(released, width)[:, picked] @ weights))
    return scores


def _rates(count: FloatArray, n: int, z: float) -> tuple[FloatArray, FloatArray]:
    """Wilson's bounds: they guide the choice, and prove nothing."""
    share, square = count / n, z * z / n
    middle = (share + square / 2) / (1 + square)
    half = z * np.sqrt(share * (1 - share) / n + square / (4 * n)) / (1 + square)
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)


def _growth(likely: FloatArray, rare: FloatArray, point: Point) -> FloatArray:
    """Largest expected logarithm of one bet, by the probabilities of the event on the two tables.

    If none gains, it is below 0: the epsilon that the event shows, less that of the claim.
    """
    if point.epsilon > 500.0:
        return np.full(likely.shape, -1.0)
    margin = likely - np.exp(point.epsilon) * rare - point.delta
    most, stake = np.exp(point.epsilon) + point.delta, FRACTIONS[:, None]
    gains = (
        likely * (1 - rare) * np.log1p(stake * (1 - point.delta) / most)
        + (1 - likely) * rare * np.log1p(-stake)
        + likely * rare * np.log1p(stake * (1 - most) / most)
        + (1 - likely) * (1 - rare) * np.log1p(-stake * point.delta / most)
    )
    with np.errstate(divide="ignore"):
        missed = np.log(np.maximum(likely - point.delta, 0.0)) - np.log(rare) - point.epsilon
    return np.asarray(np.where(margin > 0.0, np.maximum(gains.max(axis=0), 1e-12), np.minimum(missed, -1e-12)))


def best_event(
    first: FloatArray, second: FloatArray, points: Sequence[Point], *, low_bits: bool, z: float
) -> Event | None:
    """The event by which bets against the claim grow fastest, by pessimistic rates; None: nothing varies.

    Parameters
    ----------
    first, second : ndarray
        Runs on the two tables, as :func:`joined` has them.
    points : sequence of Point
        The claim.
    low_bits : bool
        Whether the last bits of values are looked at.
    z : float
        Standard deviations by which the rates are pessimistic.
    """
    width = max(first.shape[1], second.shape[1])
    first, second = _padded(first, width), _padded(second, width)
    best: Event | None = None
    for name, score in _scores(first, second, low_bits):
        one, other = np.sort(score(first)), np.sort(score(second))
        pooled = np.unique(np.concatenate([one, other]))
        if len(pooled) > _THRESHOLDS:
            last = len(pooled) - 1
            tail = np.geomspace(1, last, _THRESHOLDS // 3)
            ranks = np.concatenate([tail - 1, last - tail, np.linspace(0, last, _THRESHOLDS // 3)])
            pooled = pooled[np.unique(ranks.clip(0, last).astype(np.int64))]
        above = [len(x) - np.searchsorted(x, pooled, side="right").astype(np.float64) for x in (one, other)]
        sizes = (len(one), len(other))
        for over, likelier in ((True, 0), (True, 1), (False, 0), (False, 1)):
            counts = [above[k] if over else sizes[k] - above[k] for k in (0, 1)]
            likely = _rates(counts[likelier], sizes[likelier], z)[0]
            rare = _rates(counts[1 - likelier], sizes[1 - likelier], z)[1]
            for point in points:
                growth = _growth(likely, rare, point)
                k = int(np.argmax(growth))
                if best is None or growth[k] > best.growth:
                    best = Event(name, score, float(pooled[k]), over, likelier, point, float(growth[k]))
    return best
