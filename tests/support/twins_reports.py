"""Reports from the definitions, in NumPy: the calibrated numbers, the same words, none of the kernels' arithmetic.

The twin uses double precision and refuses cases next to a boundary, which it cannot decide. :func:`ideal_side` and
:func:`ideal_direction` have several hundred bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from twins_noise import MP, AtRow, Extra, ideal_values, nearest_all

from privol.calibration._reports import calibrate_report

Values = NDArray[np.float64]
CLEAR = 1e-9  # distance from a boundary, in units of the compared values, at which double precision decides
TOP = 1 << 64


def noise_of(name: str, dim: int, epsilon: float = 1.0, **words: Any) -> Any:
    delta = 1e-5 if name == "gaussian" else None
    return calibrate_report(name, dim=dim, epsilon=epsilon, delta=delta, **words)


def sizes(words: Sequence[int]) -> Values:
    """P(|Z'| > |Z|), by about the first 53 digits."""
    return np.array([((word & ((1 << 63) - 1)) + 0.5) * 2.0**-63 for word in words])


def signs(words: Sequence[int]) -> Values:
    return np.array([-1.0 if word >> 63 else 1.0 for word in words])


def gaussians(words: Sequence[int]) -> Values:
    return -ndtri(sizes(words) / 2.0) * signs(words)


def to_grid(x: Values, step: float) -> Values:
    place = x / step
    assert np.all(np.abs(np.abs(place - np.floor(place)) - 0.5) > CLEAR), "too near to a boundary"
    return np.round(place) * step + 0.0


def grid_of(deviation: float) -> float:
    return 2.0 ** (math.floor(math.log2(deviation)) - 10)


def clip(v: Values, bound: float) -> Values:
    v = np.asarray(v, np.float64)
    if not np.all(np.isfinite(v)):
        return np.zeros(v.size)
    norm = float(np.linalg.norm(v))
    return v * (bound / norm) if norm > bound else v


def additive(noise: Any, v: Values, words: Sequence[int]) -> Values:
    d = noise.dim
    if noise.kind == "gaussian":
        return to_grid(v + noise.scale * gaussians(words), grid_of(noise.scale))
    if noise.kind == "laplace":
        return to_grid(v - noise.scale * np.log(sizes(words)) * signs(words), grid_of(noise.scale))
    whole = d + (d + 1) // 2
    square = -2.0 * np.sum(np.log(sizes(words[d:whole]))) + np.sum(gaussians(words[whole:]) ** 2)
    z = math.sqrt(square) * gaussians(words[:d])
    return to_grid(v + noise.scale * z, grid_of(noise.scale * math.sqrt(d + 1)))


def coins(noise: Any, v: Values) -> tuple[int, int, Values]:
    """The coins below which trials in the two caps are rejected, and the unit vector of the caps."""
    norm = float(np.linalg.norm(v))
    near = math.floor((1.0 - min(norm / noise.bound, 1.0)) / 2.0 * noise.cap.threshold)
    first = np.eye(1, noise.dim)[0]
    return near, noise.cap.threshold - near, v / norm if norm > 1e-140 else first


def capped(noise: Any, v: Values, source: Any, stream: int, row: int) -> Values:
    near, far, u = coins(noise, v)
    for trial in range(1 << 20):
        words = AtRow(source, stream, row | trial << 40).words(noise.dim + 1)
        z = gaussians(words[:-1])
        x = z / np.linalg.norm(z)
        side = float(x @ u)
        assert abs(abs(side) - noise.cap.gamma) > CLEAR
        limit = near if side >= noise.cap.gamma else far if -side >= noise.cap.gamma else noise.cap.threshold
        assert abs(words[-1] - limit) > 1 << 20, "the coin is too near to its border"
        if words[-1] >= limit:
            return to_grid(noise.scale * x, grid_of(noise.scale / math.sqrt(noise.dim)))
    raise AssertionError("no trial was accepted")


def report(noise: Any, v: Values, source: Any, stream: int, row: int) -> Values:
    """The report of a vector as row `row` of a source."""
    v = clip(v, noise.bound)
    if noise.kind == "cap":
        return capped(noise, v, source, stream, row)
    if noise.kind == "sign":
        (word,) = AtRow(source, stream, row).words(1)
        border = 2.0**63 + float(v[0]) / noise.bound * noise.cap.threshold
        assert abs(word - border) > 1 << 20
        return np.array([noise.scale if word < border else -noise.scale])
    d = noise.dim
    used = d if noise.kind != "l2_laplace" else d + (d + 1) // 2 + (d % 2 == 0)
    return additive(noise, v, AtRow(source, stream, row).words(used))


def ideal_side(words: Sequence[int], extra: Extra, v: Sequence[float], gamma: float) -> Any:
    """``<Z, v> - gamma norm(Z) norm(v)`` with several hundred bits."""
    z = ideal_values(words, extra, "gaussian")
    numbers = [MP.mpf(float(number)) for number in v]
    product = sum(a * b for a, b in zip(z, numbers, strict=True))
    return product - MP.mpf(gamma) * MP.sqrt(sum(a * a for a in z)) * MP.sqrt(sum(b * b for b in numbers))


def ideal_direction(words: Sequence[int], extra: Extra, scale: float, step: float) -> Values:
    z = ideal_values(words, extra, "gaussian")
    norm = MP.sqrt(sum(a * a for a in z))
    return nearest_all(np.zeros(len(z)), scale, [a / norm for a in z], step)


def density(cap: Any, r: float, side: Values) -> Values:
    """The probability of accepting a trial at ``<x, u> = side``, for a vector of norm r: not normalised."""
    reject = cap.threshold / TOP
    near = (1.0 - r) / 2.0 * reject
    return 1.0 - np.where(side >= cap.gamma, near, np.where(-side >= cap.gamma, reject - near, reject))
