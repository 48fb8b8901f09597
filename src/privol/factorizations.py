"""Factorisations ``A = B C`` of the prefix-sum matrix: what each design costs, in closed form.

``A`` is the lower-triangular matrix of ones. A design releases ``C w + sigma Z`` for the rows ``w`` of a stream and sums
``B`` of it, so one row moves what is released by its own size times the column norm of ``C``, and the prefix after
``t`` rows has noise of standard deviation ``sigma`` times the norm of row ``t`` of ``B``. Everything here is public
arithmetic: no data, no noise, no epsilon. Errors are in units of ``sensitivity / mu``: times the sensitivity of one row,
divided by the parameter of Gaussian differential privacy, they are standard deviations per coordinate.

Sources: Dwork et al. 2010 and Chan, Shi and Song 2011 (tree), Honaker 2015, Andersson and Pagh 2023 (smooth),
Fichtenberger, Henzinger and Upadhyay 2023 (square root), Dvijotham et al. 2024 (BLT, buffered linear Toeplitz).
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from scipy.special import digamma

from ._validate import choice, integer, number
from .errors import InvalidParameter

__all__ = [
    "BLT",
    "DESIGNS",
    "MAX_STEPS",
    "OBJECTIVES",
    "Factorization",
    "Honaker",
    "Independent",
    "Smooth",
    "SquareRoot",
    "Tree",
    "error_bound",
    "factorization",
    "optimise_blt",
]

DESIGNS = ("tree", "honaker", "smooth", "sqrt", "blt", "independent")
OBJECTIVES = ("max", "mean")
MAX_STEPS = 2**48

_UP = 1.0 + 1e-12  # covers the roundings of a norm, which are below 1e-13
_CLOSEST = 1e-9  # of two decay rates, and of one to 1
_DIRECT = 1 << 14  # terms of the square root's series that are summed one by one
_TABLE = Path(__file__).parent / "data" / "blt.json"


@dataclass(frozen=True)
class Factorization(ABC):
    """One design for ``steps`` rows: public numbers, immutable.

    Attributes
    ----------
    steps : int
        Rows after which a prefix sum is used; 1 to 2**48.
    """

    design: ClassVar[str]
    steps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", integer(steps=self.steps, at_least=1, at_most=MAX_STEPS))

    @property
    @abstractmethod
    def column_norm(self) -> float:
        """Largest L2 norm of a column of C, rounded up: what one row of norm 1 can move."""

    @abstractmethod
    def row_norm(self, step: int) -> float:
        """L2 norm of row ``step`` of B: standard deviation of the prefix after ``step`` rows, in units of sigma.

        Parameters
        ----------
        step : int
            1 to ``steps``.
        """

    @abstractmethod
    def mean_error(self) -> float:
        """Root of the mean over the steps of the variance per coordinate, in units of ``sensitivity / mu``."""

    @abstractmethod
    def max_error(self) -> float:
        """Largest standard deviation per coordinate over the steps, in units of ``sensitivity / mu``."""

    @abstractmethod
    def draws(self, step: int) -> int:
        """Noise vectors drawn at ``step``."""

    @property
    @abstractmethod
    def memory(self) -> int:
        """Most vectors of the row's shape that are kept from one step to the next, apart from the prefix itself."""

    def _step(self, step: int) -> int:
        return integer(step=step, at_least=1, at_most=self.steps)


@dataclass(frozen=True)
class Tree(Factorization):
    """The binary tree: a prefix adds one noisy node for every set bit of its length.

    A node covers ``2**j`` rows and is used only if it ends at an odd multiple of its size; the first row lies in one
    such node of every height up to ``log2(steps)``, and no row in more.
    """

    design = "tree"

    @property
    def column_norm(self) -> float:
        """Root of the number of heights, ``floor(log2(steps)) + 1``: nodes that end beyond the last step never exist."""
        return math.sqrt(self.steps.bit_length()) * _UP

    def row_norm(self, step: int) -> float:
        """Root of the number of set bits of ``step``."""
        return math.sqrt(self._variance(self._step(step)))

    def mean_error(self) -> float:
        """See :meth:`Factorization.mean_error`; cost O(log steps)."""
        total = math.fsum(self._node_variance(j) * _with_bit(self.steps, j) for j in range(self.steps.bit_length()))
        return math.sqrt(self.steps.bit_length() * total / self.steps)

    def max_error(self) -> float:
        """See :meth:`Factorization.max_error`; cost O(log**2 steps)."""
        # The worst prefix is the last one, or agrees with it down to a bit that it clears to set all below.
        worst = [self.steps, *((self.steps >> j ^ 1) << j | (1 << j) - 1 for j in _bits(self.steps))]
        return math.sqrt(self.steps.bit_length() * max(self._variance(t) for t in worst))

    def draws(self, step: int) -> int:
        """One: the node that ends at ``step`` and at no larger node's end."""
        self._step(step)
        return 1

    @property
    def memory(self) -> int:
        """One node sum and its noise for every height."""
        return 2 * self.steps.bit_length()

    def _variance(self, step: int) -> float:
        return math.fsum(self._node_variance(j) for j in _bits(step))

    def _node_variance(self, height: int) -> float:
        return 1.0


@dataclass(frozen=True)
class Honaker(Tree):
    """The binary tree whose nodes are estimated from all noisy nodes below them (best linear unbiased)."""

    design = "honaker"

    def row_norm(self, step: int) -> float:
        """Root of the sum over the set bits j of ``step`` of ``2**j / (2**(j+1) - 1)``."""
        return super().row_norm(step)

    def draws(self, step: int) -> int:
        """One for every node that ends at ``step``."""
        return (self._step(step) & -step).bit_length()

    def _node_variance(self, height: int) -> float:
        return 1.0 / (2.0 - 0.5**height)


@dataclass(frozen=True)
class Smooth(Factorization):
    """The smooth binary tree: prefixes sit at words of ``height`` bits of which ``ones`` are set.

    The prefix after t rows is read at the word of rank t in increasing order, record i sits at rank i - 1, and every set bit
    stands for the node of all words with the same bits before it and 0 there. So every prefix adds ``ones`` nodes.
    ``(height, ones)`` is the pair with ``binomial(height, ones) > steps`` of least error (smallest height first).
    """

    design = "smooth"

    @functools.cached_property
    def shape(self) -> tuple[int, int]:
        """``(height, ones)``."""
        best, found = math.inf, (0, 0)
        for height in itertools.count(2):
            if height - 1 >= best:
                return found
            for ones in range(1, height // 2 + 1):
                if ones * (height - ones) < best and math.comb(height, ones) > self.steps:
                    best, found = ones * (height - ones), (height, ones)
        raise AssertionError

    def word(self, rank: int) -> int:
        """The word of the given rank, 0 to ``steps``, as an integer whose most significant bit comes first."""
        rank = integer(rank=rank, at_least=0, at_most=self.steps)
        height, ones = self.shape
        word = 0
        for position in reversed(range(height)):
            below = math.comb(position, ones)  # words that have a 0 here
            if rank >= below:
                rank -= below
                word |= 1 << position
                ones -= 1
        return word

    @property
    def column_norm(self) -> float:
        """``sqrt(height - ones)``: the first record lies in one node for every 0 of its word."""
        height, ones = self.shape
        return math.sqrt(height - ones) * _UP

    def row_norm(self, step: int) -> float:
        """``sqrt(ones)``, the same at every step."""
        self._step(step)
        return math.sqrt(self.shape[1])

    def mean_error(self) -> float:
        """See :meth:`Factorization.mean_error`: the same as the largest."""
        return self.max_error()

    def max_error(self) -> float:
        """See :meth:`Factorization.max_error`."""
        height, ones = self.shape
        return math.sqrt(ones * (height - ones))

    def draws(self, step: int) -> int:
        """The set bits from the first one that differs from the previous word; at the first step all."""
        word = self.word(self._step(step))
        if step == 1:
            return self.shape[1]
        return (word & (1 << (word ^ self.word(step - 1)).bit_length()) - 1).bit_count()

    @property
    def memory(self) -> int:
        """The noise of the current word's nodes, and the sums of the nodes under way."""
        return 2 * self.shape[1]


@dataclass(frozen=True)
class SquareRoot(Factorization):
    """The square root of A, a Toeplitz matrix with coefficients ``binomial(2k, k) / 4**k``; B = C."""

    design = "sqrt"

    @property
    def column_norm(self) -> float:
        """Root of the sum of the first ``steps`` squared coefficients."""
        return math.sqrt(_root_square(self.steps)) * (1.0 + 1e-11)  # four roundings for each of the coefficients

    def row_norm(self, step: int) -> float:
        """Root of the sum of the first ``step`` squared coefficients."""
        return math.sqrt(_root_square(self._step(step)))

    def mean_error(self) -> float:
        """See :meth:`Factorization.mean_error`."""
        # (k+1)^2 r_(k+1)^2 - k^2 r_k^2 = (k + 1/4) r_k^2, so sum k r_k^2 = n^2 r_n^2 - S_n / 4
        n, total = self.steps, _root_square(self.steps)
        last = float(_root_squares()[n]) if n < _DIRECT else 1.0 / (math.pi * (n + 0.25))
        return math.sqrt(total * (total - n * last + total / (4 * n)))

    def max_error(self) -> float:
        """See :meth:`Factorization.max_error`."""
        return _root_square(self.steps)

    def draws(self, step: int) -> int:
        """One."""
        self._step(step)
        return 1

    @property
    def memory(self) -> int:
        """All rows and their noise."""
        return 2 * self.steps


@dataclass(frozen=True)
class Independent(Factorization):
    """C is the identity: every row gets noise of its own, and a prefix adds them up."""

    design = "independent"

    @property
    def column_norm(self) -> float:
        """1."""
        return 1.0

    def row_norm(self, step: int) -> float:
        """``sqrt(step)``."""
        return math.sqrt(self._step(step))

    def mean_error(self) -> float:
        """See :meth:`Factorization.mean_error`."""
        return math.sqrt((self.steps + 1) / 2)

    def max_error(self) -> float:
        """See :meth:`Factorization.max_error`."""
        return math.sqrt(self.steps)

    def draws(self, step: int) -> int:
        """One."""
        self._step(step)
        return 1

    @property
    def memory(self) -> int:
        """None."""
        return 0


@dataclass(frozen=True)
class BLT(Factorization):
    """A Toeplitz matrix C with coefficients 1 and ``sum_j omega_j theta_j**(k-1)``: as many buffers as there are thetas.

    Parameters
    ----------
    steps : int
    theta : sequence of float
        Decay rates, within (0, 1), falling, no two (and none and 1) closer than 1e-9. None at all gives the identity.
    omega : sequence of float
        Weights, above 0, with ``sum(omega / theta) <= 1``: then the inverse of C has coefficients of one sign.

    Notes
    -----
    Norms and errors hold for all such parameters: poor ones cost accuracy, never privacy.
    """

    design = "blt"
    theta: tuple[float, ...]
    omega: tuple[float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.theta, str) or isinstance(self.omega, str) or len(self.theta) != len(self.omega):
            raise InvalidParameter("theta and omega must be sequences of the same length")
        theta = tuple(number(theta=t, above=0.0, below=1.0) for t in self.theta)
        omega = tuple(number(omega=w, above=0.0, at_most=1.0) for w in self.omega)
        for larger, smaller in itertools.pairwise((1.0, *theta)):
            if not larger - smaller >= _CLOSEST:
                raise InvalidParameter(
                    f"theta must fall from below 1 in steps of at least {_CLOSEST:g}, found {smaller!r} after {larger!r}"
                )
        if (load := math.fsum(w / t for w, t in zip(omega, theta, strict=True))) > 1.0:
            raise InvalidParameter(f"omega is too large: the sum of omega / theta must not exceed 1, found {load:.6g}")
        object.__setattr__(self, "theta", theta)
        object.__setattr__(self, "omega", omega)

    @property
    def column_norm(self) -> float:
        """Norm of C's first column, which holds all coefficients; cost O(buffers**2)."""
        return math.sqrt(self._square) * _UP

    def row_norm(self, step: int) -> float:
        """Norm of the first ``step`` coefficients of B; cost O(buffers**2)."""
        return math.sqrt(self._errors("max", self._step(step)))

    def mean_error(self) -> float:
        """See :meth:`Factorization.mean_error`."""
        return math.sqrt(self._square * self._errors("mean", self.steps))

    def max_error(self) -> float:
        """See :meth:`Factorization.max_error`."""
        return math.sqrt(self._square * self._errors("max", self.steps))

    def draws(self, step: int) -> int:
        """One."""
        self._step(step)
        return 1

    @property
    def memory(self) -> int:
        """One secret and one public buffer for every theta."""
        return 2 * len(self.theta)

    @functools.cached_property
    def _square(self) -> float:
        # Terms are positive and each is accurate to a few units in the last place: theta's logarithm is, near 1 too.
        log, weight = np.log(np.array(self.theta)), np.array(self.omega)
        return 1.0 + float(np.sum(np.outer(weight, weight) * _geometric(np.add.outer(log, log), self.steps - 1)))

    @functools.cached_property
    def _inverse(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """1 - rate and weight of the exponentials that B's coefficients sum; the first has rate 1."""
        gap, weight = 1.0 - np.array(self.theta), np.array(self.omega)
        count = len(gap)
        offset = np.empty(count)  # of the j-th root of sum omega / (y - gap) = 1 above gap j
        for j in range(count):
            others = [i for i in range(count) if i not in (j, j + 1)]
            if j + 1 < count:
                width, right = gap[j + 1] - gap[j], weight[j + 1]
            else:
                width, right = self.theta[j], 0.0

            def secular(
                d: float,
                j: int = j,
                width: float = width,
                right: float = right,
                others: list[int] = others,
            ) -> float:
                rest = sum(weight[i] / (d + (gap[j] - gap[i])) for i in others) - 1.0
                if right == 0.0:
                    return float(d * rest + weight[j])
                return float(d * (width - d) * rest + weight[j] * (width - d) - right * d)

            # At the far end of the last interval sum(omega / theta) <= 1 holds, perhaps but for a rounding.
            offset[j] = width if secular(width) > 0.0 else brentq(secular, 0.0, width, xtol=1e-300, rtol=1e-15)
        inverse_gap = gap + offset
        # differences gap_i - inverse_gap_j, in which nothing cancels
        across = gap[:, None] - gap[None, :] - offset[None, :]
        within = inverse_gap[:, None] - inverse_gap[None, :] + np.eye(count)
        inverse_weight = np.prod(across, axis=0) / np.prod(within, axis=0)
        return np.append(0.0, inverse_gap), np.append(np.prod(gap / inverse_gap), -inverse_weight / inverse_gap)

    def _errors(self, objective: str, steps: int) -> float:
        """Mean or largest squared norm of the first ``steps`` rows of B."""
        gap, weight = self._inverse
        with np.errstate(divide="ignore"):
            log = np.log1p(-gap)  # minus infinity for a rate of 0
        sums = _geometric if objective == "max" else _average_geometric
        return float(np.sum(np.outer(weight, weight) * sums(np.add.outer(log, log), steps)))


def factorization(
    design: str,
    steps: int,
    *,
    buffers: int = 4,
    objective: str = "max",
    theta: Sequence[float] | None = None,
    omega: Sequence[float] | None = None,
) -> Factorization:
    """Make the factorisation of a design.

    Parameters
    ----------
    design : {"tree", "honaker", "smooth", "sqrt", "blt", "independent"}
    steps : int
        Rows after which a prefix sum is used; 1 to 2**48.
    buffers : int, default=4
        At most so many buffers for ``"blt"``, 1 to 8; the others do not use it. Fewer are taken where more would not help.
    objective : {"max", "mean"}
        Which error the stored parameters of ``"blt"`` minimise; the others do not use it.
    theta, omega : sequence of float, optional
        Parameters for ``"blt"`` (see :class:`BLT`) instead of the stored ones.

    Returns
    -------
    Factorization

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range.

    Notes
    -----
    The stored parameters are those of the smallest tabulated number of steps that is not below ``steps``, optimised by
    :func:`optimise_blt` (``tools/blt_table.py``); beyond the table (2**30 steps, 6 buffers) they are optimised now.
    """
    design = choice(DESIGNS, design=design)
    if (theta is None) != (omega is None) or (theta is not None and design != "blt"):
        raise InvalidParameter("theta and omega go together, and with design='blt' only")
    if design != "blt":
        return _CLASSES[design](steps)
    if theta is not None and omega is not None:
        return BLT(steps, tuple(theta), tuple(omega))
    steps = integer(steps=steps, at_least=1, at_most=MAX_STEPS)
    buffers = integer(buffers=buffers, at_least=1, at_most=8)
    table = _stored()[choice(OBJECTIVES, objective=objective)]
    tabulated = min((n for n in table if n >= steps), default=None)
    if tabulated is None or buffers > max(len(rates) for entries in table.values() for rates, _ in entries):
        best = optimise_blt(steps, buffers, objective)
        return BLT(steps, best.theta, best.omega)
    rates, weights = table[tabulated][min(buffers, len(table[tabulated])) - 1]
    return BLT(steps, rates, weights)


def error_bound(steps: int) -> float:
    """Least mean (hence least largest) error of any factorisation, in units of ``sensitivity / mu``; cost O(steps).

    Parameters
    ----------
    steps : int
        1 to 2**32.

    Returns
    -------
    float
        Sum of the singular values of A divided by ``steps``.
    """
    steps = integer(steps=steps, at_least=1, at_most=2**32)
    parts = []
    for start in range(0, steps, 1 << 20):
        j = np.arange(start, min(start + (1 << 20), steps))
        parts.append(float(np.sum(0.5 / np.sin((2 * j + 1) * (math.pi / (4 * steps + 2))))))
    return math.fsum(parts) / steps


def optimise_blt(steps: int, buffers: int, objective: str = "max") -> BLT:
    """Find the parameters of a BLT of least error.

    Parameters
    ----------
    steps : int
        2 to 2**48.
    buffers : int
        1 to 8. Beyond those that still lower the error by 1e-7 relative none are added.
    objective : {"max", "mean"}
        Error to minimise.

    Returns
    -------
    BLT

    Notes
    -----
    BFGS over the logarithms of the gaps between the interlacing rates of C and its inverse, from a few fixed starts, with
    derivatives by complex steps. Seconds for 8 buffers; the result's last digits depend on the machine.
    """
    steps = integer(steps=steps, at_least=2, at_most=MAX_STEPS)
    buffers = integer(buffers=buffers, at_least=1, at_most=8)
    choice(OBJECTIVES, objective=objective)
    best: BLT | None = None
    least = math.inf
    for count in range(1, buffers + 1):
        value, point = min((_descend(steps, count, objective, start) for start in _STARTS), key=lambda found: found[0])
        if not value < least - 1e-7:
            break
        gap, _, weight, _ = _interlaced(point)
        try:
            best, least = BLT(steps, tuple(1.0 - gap), tuple(weight)), value
        except InvalidParameter:  # rates have merged: fewer buffers do the same
            break
    if best is None:
        raise InvalidParameter(f"no buffer lowers the error over steps={steps}: use design='independent'")
    return best


_CLASSES: dict[str, Callable[[int], Factorization]] = {
    "tree": Tree,
    "honaker": Honaker,
    "smooth": Smooth,
    "sqrt": SquareRoot,
    "independent": Independent,
}
_STARTS = ((1.0, 0.2), (0.8, 0.1), (1.1, 0.4), (0.65, 0.3))


@functools.cache
def _stored() -> dict[str, dict[int, list[tuple[tuple[float, ...], tuple[float, ...]]]]]:
    """Objective -> tabulated steps -> (theta, omega) for 1, 2, ... buffers."""
    found = json.loads(_TABLE.read_text(encoding="utf-8"))
    return {
        objective: {int(n): [(tuple(t), tuple(w)) for t, w in entries] for n, entries in found[objective].items()}
        for objective in OBJECTIVES
    }


def _bits(number: int) -> list[int]:
    return [j for j in range(number.bit_length()) if number >> j & 1]


def _with_bit(last: int, bit: int) -> int:
    """How many of the numbers 1 to ``last`` have the bit set."""
    whole, rest = divmod(last + 1, 2 << bit)
    return (whole << bit) + max(0, rest - (1 << bit))


@functools.cache
def _root_squares() -> NDArray[np.float64]:
    """Squares of the square root's coefficients."""
    k = np.arange(1, _DIRECT)
    return np.append(1.0, np.cumprod((1.0 - 0.5 / k) ** 2))


@functools.lru_cache(maxsize=64)
def _root_square(count: int) -> float:
    """Sum of the first ``count`` squared coefficients, above the true value by at most 1e-10 where not all are added.

    Beyond them ``r_k**2 < 1 / (pi (k + 1/4))`` (Watson 1959), whose sum is a difference of digamma values; it is above by less
    than ``1 / (64 pi k**2)`` at the first of these k.
    """
    total = math.fsum(_root_squares()[:count])
    if count > _DIRECT:
        total += float(digamma(count + 0.25) - digamma(_DIRECT + 0.25)) / math.pi
    return total


def _geometric(log: NDArray[Any], count: float) -> NDArray[Any]:
    """Sum of ``exp(log k)`` over ``0 <= k < count``, for ``log <= 0``."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.expm1(count * log) / np.expm1(log)
    return np.where(log == 0.0, count, found) if count else np.zeros_like(log)


def _average_geometric(log: NDArray[Any], count: float) -> NDArray[Any]:
    """Sum of ``(1 - k / count) exp(log k)`` over ``0 <= k < count``."""
    y, n = -log, float(count)
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = -np.expm1(-y)
        found = (1.0 - np.exp(-y) * -np.expm1(-n * y) / (n * gap)) / gap
        series = (n + 1) / 2 - y * (n * n - 1) / 6 + y * y * n * (n * n - 1) / 24
        return np.where(n * np.real(y) < 1e-4, series, found)


def _interlaced(point: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """1 - theta, 1 - (rates of the inverse), omega and the inverse's weights, from unconstrained numbers."""
    value = np.exp(-np.cumsum(np.exp(point[::-1]))[::-1])
    gap, inverse_gap = value[0::2], value[1::2]
    eye = np.eye(len(gap))
    weight = np.prod(inverse_gap[None, :] - gap[:, None], axis=1) / np.prod(gap[None, :] - gap[:, None] + eye, axis=1)
    inverse_weight = np.prod(gap[None, :] - inverse_gap[:, None], axis=1) / np.prod(
        inverse_gap[None, :] - inverse_gap[:, None] + eye, axis=1
    )
    return gap, inverse_gap, weight, inverse_weight


def _logarithm(point: NDArray[Any], steps: int, objective: str) -> Any:
    """Logarithm of the squared error of the BLT at an unconstrained point, real or complex."""
    gap, inverse_gap, weight, inverse_weight = _interlaced(point)
    log, rates = np.log1p(-gap), np.log1p(-np.append(0.0, inverse_gap))
    size = np.append(np.prod(gap / inverse_gap), -inverse_weight / inverse_gap)
    sums = _geometric if objective == "max" else _average_geometric
    column = 1.0 + np.sum(np.outer(weight, weight) * _geometric(np.add.outer(log, log), steps - 1))
    return np.log(column) + np.log(np.sum(np.outer(size, size) * sums(np.add.outer(rates, rates), steps)))


def _descend(steps: int, buffers: int, objective: str, start: tuple[float, float]) -> tuple[float, NDArray[np.float64]]:
    def function(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        with np.errstate(all="ignore"):  # a wild trial point is worth nothing: its value is not finite
            value = float(np.real(_logarithm(point, steps, objective)))
            tilted = [_logarithm(point + 1e-30j * e, steps, objective) for e in np.eye(len(point))]
        if not math.isfinite(value):
            return 1e10, np.zeros_like(point)
        return value, np.imag(np.array(tilted)) / 1e-30

    log_gap = np.linspace(max(math.log(steps), 1.0) * start[0], start[1], 2 * buffers)
    initial = np.log(np.append(log_gap[:-1] - log_gap[1:], log_gap[-1]))
    found = minimize(function, initial, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 2000})
    return float(found.fun), found.x
