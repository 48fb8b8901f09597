"""Integer noise: the exact discrete Gaussian and discrete Laplace of Canonne, Kamath and Steinke (2020)."""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core._discrete import MAX_NUMERATOR, IntegerLaw, IntegerSampler
from ..errors import InvalidParameter
from ._blocks import BlockWeights
from ._lattice import shape_of
from .bits import STREAM_INTEGERS, make_source

__all__ = ["DiscreteGaussian", "DiscreteLaplace"]

_LARGEST_SCALE = 1 << 40
_LARGEST_VALUE = 1 << 62
_LEAD = 1 << 24
_TOP = (1 << 63) - 1


class _Integers(IntegerSampler):
    _square: ClassVar[bool]

    def __init__(self, *, scale: Any, random_state: Any = None) -> None:
        self.check_unstarted()
        self.scale = _rational(scale)
        self._weights, law = _law(self.scale, self._square)
        super().__init__(make_source(random_state), law, stream=STREAM_INTEGERS)

    def _shape(self, size: int | tuple[int, ...]) -> tuple[int, ...]:
        return shape_of(size)

    def _integers(self, x: ArrayLike) -> NDArray[np.int64]:
        """Return the content of x in a new array, if it consists of integers that noise may be added to."""
        values = np.asarray(x)
        if values.size == 0:
            return np.zeros(values.shape, np.int64)
        if values.dtype.kind not in "iu":
            raise InvalidParameter(f"x must be an array of integers that fit into 64 bits, found dtype {values.dtype}")
        if int(values.max()) > _LARGEST_VALUE or int(values.min()) < -_LARGEST_VALUE:
            raise InvalidParameter("x must be of magnitude at most 2**62")
        return np.array(values, dtype=np.int64, order="C")

    def _decide(self, prefix: int, extra: Callable[[int], tuple[int, int]]) -> int:
        return self._weights.decide(prefix, extra)


class DiscreteGaussian(_Integers):
    """Integer noise of the law P(k) proportional to exp(-k**2 / (2 scale**2)), from a cryptographic source.

    Added to an integer query of sensitivity D it gives rho-zCDP with rho = D**2 / (2 scale**2): the law is exactly that
    of the definition, not an approximation to it (docs/proofs/discrete.md). The mu-GDP of the continuous Gaussian does
    not carry over.

    Parameters
    ----------
    scale : int, Fraction or float
        From 2**-40 to 2**40, with a numerator of at most 2**53 in lowest terms. A float counts as the binary fraction
        that it is, and every float between the bounds will do. The standard deviation is below the scale; above 1 by
        less than 2 in 10**7 of it.
    random_state : None, int, BitGenerator, ...
        See :func:`make_source`.

    Attributes
    ----------
    scale : Fraction

    Notes
    -----
    Every call draws fresh words. Thread-safe; cannot be copied or pickled, and refuses in a forked child. How long a
    call takes depends on the values drawn: do not show it to those from whom they are secret.

    References
    ----------
    Canonne, Kamath, Steinke: The discrete Gaussian for differential privacy, 2020.
    """

    _square = True


class DiscreteLaplace(_Integers):
    """Integer noise of the law P(k) proportional to exp(-abs(k) / scale), from a cryptographic source.

    Added to an integer query of L1 sensitivity D it gives epsilon-differential privacy with epsilon = D / scale: the
    law is exactly that of the definition, not an approximation to it (docs/proofs/discrete.md).

    Parameters
    ----------
    scale : int, Fraction or float
        From 2**-40 to 2**40, with a numerator of at most 2**53 in lowest terms. A float counts as the binary fraction
        that it is, and every float between the bounds will do. The variance is 1 / (2 sinh(1 / (2 scale))**2).
    random_state : None, int, BitGenerator, ...
        See :func:`make_source`.

    Attributes
    ----------
    scale : Fraction

    Notes
    -----
    As for :class:`DiscreteGaussian`.

    References
    ----------
    Canonne, Kamath, Steinke: The discrete Gaussian for differential privacy, 2020.
    """

    _square = False


@functools.lru_cache(maxsize=64)
def _law(scale: Fraction, square: bool) -> tuple[BlockWeights, IntegerLaw]:
    """The tables of a scale, which are never changed: a selection adds noise of one scale to hundreds of scores."""
    # blocks of a power of two of integers, between a thirty-second and a sixteenth of the scale
    shift = max((int(scale) >> 4).bit_length() - 1, 0)
    width = 1 << shift
    weights = BlockWeights(Fraction(*_growth(scale, square, 0, width)), square=square, lone_zero=width == 1)
    limits: list[int] = []
    sure: list[int] = []
    for limit in weights.limits(63):
        n, d = _growth(scale, square, len(limits) * width, width - 1)
        sure.append(min(_LEAD, -(-n * _LEAD // d)))
        limits.append(limit)
        if limit == _TOP:
            break
    a, b = scale.numerator, scale.denominator
    return weights, IntegerLaw(limits, sure, shift=shift, square=square, numerator=a, denominator=b)


def _growth(scale: Fraction, square: bool, first: int, offset: int) -> tuple[int, int]:
    """log(P(first) / P(first + offset)) as a numerator and a denominator."""
    a, b = scale.numerator, scale.denominator
    return (offset * (2 * first + offset) * b * b, 2 * a * a) if square else (offset * b, a)


def _rational(scale: Any) -> Fraction:
    allowed = f"an int, Fraction or float from 2**-40 to 2**40 with a numerator of at most {MAX_NUMERATOR}"
    exact: Fraction | None = None
    if isinstance(scale, numbers.Rational) and not isinstance(scale, bool):
        exact = Fraction(int(scale.numerator), int(scale.denominator))
    elif isinstance(scale, float | np.floating) and np.isfinite(scale):
        exact = Fraction(*scale.as_integer_ratio())
    if exact is None or not Fraction(1, _LARGEST_SCALE) <= exact <= _LARGEST_SCALE or exact.numerator > MAX_NUMERATOR:
        raise InvalidParameter(f"scale must be {allowed}, found {scale!r}")
    return exact
