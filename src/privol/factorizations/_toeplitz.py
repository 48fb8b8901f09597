"""Toeplitz designs: the square root and the identity; discounted and sliding sums, which only these designs offer."""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, exp1

from .._validate import integer, number
from ..errors import InvalidParameter
from ._designs import MAX_STEPS, Factorization

__all__ = ["Independent", "SquareRoot", "Toeplitz"]

_LEAST_DECAY = 1e-100
_DIRECT = 1 << 14  # terms of the square root's series that are summed one by one
_MOST_SLIDING = 1 << 24  # coefficients of a sliding square root, all of which are computed


@dataclass(frozen=True)
class Toeplitz(Factorization):
    """A design whose C is a lower-triangular Toeplitz matrix, for running, discounted or sliding sums.

    Coefficient k of C is that of the design for running sums, times ``decay**k``.

    Attributes
    ----------
    decay : float, default=1.0
        1e-100 to 1. Without ``window`` it is the discount too: the sum after step t is that of ``decay**(t - i) w_i``.
    window : int, optional
        The sum after step t is over this many last rows, 1 to 2**48, without weights; ``decay`` is C's alone.
    """

    decay: float = field(default=1.0, kw_only=True)
    window: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "decay", number(decay=self.decay, at_least=_LEAST_DECAY, at_most=1.0))
        if self.window is not None:
            object.__setattr__(self, "window", integer(window=self.window, at_least=1, at_most=MAX_STEPS))

    @property
    def discount(self) -> float:
        """The factor of a row's weight in the sum at every step."""
        return self.decay if self.window is None else 1.0

    def weight(self, step: int) -> float:
        """Sum of the weights of all rows in the sum after ``step``."""
        step = self._step(step)
        if self.window is not None:
            return float(min(step, self.window))
        return _geometric_sum(math.log(self.decay), step)

    def row_norm(self, step: int) -> float:
        """Norm of the first ``step`` coefficients of B."""
        return math.sqrt(self._row_square(self._step(step)))

    def mean_error(self) -> float:
        """See :meth:`Factorization.mean_error`."""
        return math.sqrt(self._square * self._mean_row_square())

    def max_error(self) -> float:
        """See :meth:`Factorization.max_error`: that of the last step."""
        return math.sqrt(self._square * self._row_square(self.steps))

    def draws(self, step: int) -> int:
        """One."""
        self._step(step)
        return 1

    @property
    @abstractmethod
    def _square(self) -> float:
        """Squared norm of C's first column, which holds all coefficients."""

    @abstractmethod
    def _row_square(self, step: int) -> float:
        """Squared norm of row ``step`` of B."""

    @abstractmethod
    def _mean_row_square(self) -> float:
        """Mean of all rows' squared norms."""

    @property
    def _kept(self) -> int:
        """Released vectors that are kept because they leave a window."""
        return self.window if self.window is not None and self.window < self.steps else 0


@dataclass(frozen=True)
class SquareRoot(Toeplitz):
    """The square root of A, a Toeplitz matrix with coefficients ``binomial(2k, k) / 4**k``; B = C.

    For discounted sums these times ``discount**k``, the square root of their matrix. For sliding sums B has the
    coefficients ``s_k - s_(k - window)``, s those of running sums times the inverse of C.
    """

    design = "sqrt"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._kept and self.steps > _MOST_SLIDING:
            raise InvalidParameter(
                f"design='sqrt' has sliding sums of at most {_MOST_SLIDING:,} steps, found {self.steps:,}: use "
                "design='blt'"
            )

    def coefficients(self) -> NDArray[np.float64]:
        """The first ``steps`` coefficients of C, each to a relative ``5 * steps`` units of rounding."""
        factors = 1.0 - 0.5 / np.arange(1, self.steps)
        return np.cumprod(np.append(1.0, factors if self.decay == 1.0 else self.decay * factors))

    def decoder(self) -> NDArray[np.float64]:
        """The first ``steps`` coefficients of B."""
        if self.window is None:
            return self.coefficients()
        # of running sums times the inverse of C: sums of its coefficients, all but the first of which are negative
        inverse = np.cumprod(np.append(1.0, self.decay * (1.0 - 1.5 / np.arange(1, self.steps))))
        found = self.coefficients() if self.decay == 1.0 else np.cumsum(inverse)
        if kept := self._kept:
            left = np.append(np.cumsum(inverse[::-1])[::-1], 0.0)  # from k on
            found[kept:] = left[1 : self.steps - kept + 1] - left[kept + 1 :]
        return found

    @property
    def column_norm(self) -> float:
        """Root of the sum of the first ``steps`` squared coefficients."""
        return math.sqrt(self._square) * (1.0 + 1e-11)  # four roundings for each of the coefficients

    @property
    def memory(self) -> int:
        """All rows and their noise."""
        return 2 * self.steps

    @property
    def _square(self) -> float:
        return _root_square(self.steps, self.decay)

    def _row_square(self, step: int) -> float:
        if self.window is None:
            return _root_square(step, self.decay)
        return float(self._row_squares[step - 1])

    def _mean_row_square(self) -> float:
        n = self.steps
        if self.window is not None:
            return float(np.mean(self._row_squares))
        total = _root_square(n, self.decay)
        if self.decay == 1.0:
            # (k+1)^2 r_(k+1)^2 - k^2 r_k^2 = (k + 1/4) r_k^2, so sum k r_k^2 = n^2 r_n^2 - S_n / 4
            last = float(_root_squares(1.0)[n]) if n < _DIRECT else 1.0 / (math.pi * (n + 0.25))
            return total - n * last + total / (4 * n)
        squares = _root_squares(self.decay)[:n]
        ranked = float(np.sum(squares * np.arange(len(squares))))
        if n > _DIRECT:  # k / (k + 1/4) = 1 - 1/4 / (k + 1/4)
            log = 2.0 * math.log(self.decay)
            beyond = math.exp(_DIRECT * log) * _geometric_sum(log, n - _DIRECT) / math.pi
            ranked += beyond - (total - math.fsum(squares)) / 4.0
        return total - ranked / n

    @functools.cached_property
    def _row_squares(self) -> NDArray[np.float64]:
        return np.cumsum(self.decoder() ** 2)


@dataclass(frozen=True)
class Independent(Toeplitz):
    """C is the identity: every row gets noise of its own, and a prefix adds them up."""

    design = "independent"

    @property
    def column_norm(self) -> float:
        """1."""
        return 1.0

    @property
    def memory(self) -> int:
        """None; for sliding sums the noisy rows of a window."""
        return self._kept

    @property
    def _square(self) -> float:
        return 1.0

    def _row_square(self, step: int) -> float:
        if self.window is not None:
            return float(min(step, self.window))
        return _geometric_sum(2.0 * math.log(self.decay), step)

    def _mean_row_square(self) -> float:
        n, log = self.steps, 2.0 * math.log(self.decay)
        if self.window is not None:
            w = min(self.window, n)
            return (w * (w + 1) / 2 + (n - w) * w) / n
        if log == 0.0:
            return (n + 1) / 2
        if -n * log < 1e-4:
            return (n + 1) / 2 + log * (n * n - 1) / 6
        gap = -math.expm1(log)
        return (1.0 - math.exp(log) * -math.expm1(n * log) / (n * gap)) / gap


def _geometric_sum(log: float, count: int) -> float:
    """Sum of ``exp(log k)`` over ``0 <= k < count``, for ``log <= 0``."""
    return float(count) if log == 0.0 else math.expm1(count * log) / math.expm1(log)


@functools.lru_cache(maxsize=16)
def _root_squares(decay: float) -> NDArray[np.float64]:
    """Squares of the square root's first coefficients."""
    return SquareRoot(_DIRECT, decay=decay).coefficients() ** 2


@functools.lru_cache(maxsize=64)
def _root_square(count: int, decay: float) -> float:
    """Sum of the first ``count`` squared coefficients, above the true value by at most 8e-11 where not all are added.

    Beyond them ``r_k**2 < 1 / (pi (k + 1/4))`` (Watson 1959), whose sum is a difference of digamma values; it is above
    by less than ``1 / (64 pi k**2)`` at the first of these k. With weights ``exp(-a k)`` the terms of the bound are
    convex in k, each below its mean over ``k - 1/2`` to ``k + 1/2``, and that integral is one of ``exp(-a x) / x``.
    """
    total = math.fsum(_root_squares(decay)[:count])
    if count <= _DIRECT:
        return total
    first, last = _DIRECT + 0.25, count + 0.25
    if decay == 1.0:
        return total + float(digamma(last) - digamma(first)) / math.pi
    a = -2.0 * math.log(decay)
    tail = math.exp(a / 4.0) * float(exp1(a * (first - 0.5)) - exp1(a * (last - 0.5)))
    return total + tail / math.pi
