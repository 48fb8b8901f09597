"""Exact audits: what two known distributions reveal, by sums and distribution functions instead of runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.stats

from .._validate import choice, integer, number
from ..errors import InvalidParameter
from ._bounds import FloatArray

__all__ = ["exact_delta", "exact_deltas", "stated"]

#: Of scipy.stats, with a distribution function that is quick and accurate in both tails.
_LAWS = (
    "norm", "laplace", "logistic", "uniform", "expon", "cauchy", "t", "gumbel_r", "dlaplace", "geom", "binom",
    "poisson",
)  # fmt: skip


def exact_delta(first: Any, second: Any, epsilon: float, *, cells: int = 200_000) -> float:
    """Smallest delta at which two known distributions are ``(epsilon, delta)``-close, in either order.

    Parameters
    ----------
    first, second : sequence of float or of Fraction, mapping, or frozen distribution of scipy.stats
        Of what is released on the two tables. Sequences: probabilities of the same outcomes, in the same order.
        Mappings: outcome to probability; what is missing has probability 0. A distribution with ``cdf`` and ``ppf``
        (and ``sf`` and ``isf``): of one number.
    epsilon : float
        At least 0.
    cells : int, default=200000
        Of distributions: cells into which the line is cut, at least 10. delta is that of events which are unions of
        cells: never above the true one (but for rounding errors of the distribution functions), and near it.

    Returns
    -------
    float
        ``max over both orders of the sum over outcomes of max(0, P(outcome) - e^epsilon Q(outcome))``. Of Fractions
        the differences are exact but for e^epsilon, which is a double.

    Raises
    ------
    InvalidParameter
        If probabilities are below 0 or do not sum to 1 within 1e-9, or the two are of different kinds or lengths.

    Examples
    --------
    >>> from scipy.stats import norm
    >>> from privol.audit import exact_delta
    >>> from privol.guarantees import gdp_delta
    >>> abs(exact_delta(norm(0.0), norm(1.0), 1.0) - gdp_delta(1.0, 1.0)) < 1e-8
    True
    >>> exact_delta({"yes": 0.75, "no": 0.25}, {"yes": 0.25, "no": 0.75}, 0.0)
    0.5
    """
    epsilon = number(epsilon=epsilon, at_least=0.0, at_most=700.0)
    cells = integer(cells=cells, at_least=10, at_most=100_000_000)
    return exact_deltas(first, second, [epsilon], cells=cells)[0]


def exact_deltas(first: Any, second: Any, epsilons: Sequence[float], *, cells: int) -> list[float]:
    """:func:`exact_delta` at several epsilons."""
    if hasattr(first, "cdf") and hasattr(second, "cdf"):
        tails = _tails(first, second, cells)
        return [
            max(_difference(*tails[0], *tails[1], math.exp(x)), _difference(*tails[1], *tails[0], math.exp(x)))
            for x in epsilons
        ]
    one, other = _probabilities(first, "first"), _probabilities(second, "second")
    if one.keys() != other.keys() and not (isinstance(first, dict) and isinstance(second, dict)):
        raise InvalidParameter(f"first and second must have equally many outcomes, found {len(one)} and {len(other)}")
    exact = any(isinstance(value, Fraction) for value in (*one.values(), *other.values()))
    outcomes, found = one.keys() | other.keys(), []
    for x in epsilons:
        odds: Any = Fraction(math.exp(x)) if exact else math.exp(x)
        sums = [
            sum(max(a.get(o, 0) - odds * b.get(o, 0), 0) for o in outcomes) for a, b in ((one, other), (other, one))
        ]
        found.append(float(max(sums)))
    return found


def stated(words: Any) -> Any:
    """The distribution that a program states as a JSON value, in a form for :func:`exact_delta`.

    InvalidParameter says what is wrong with it.
    """
    if not isinstance(words, dict) or {"probabilities", "law"}.isdisjoint(words):
        raise InvalidParameter("it must be an object with probabilities or a law")
    if "probabilities" in words:
        if len(words) > 1:
            raise InvalidParameter("probabilities must stand alone")
        given = words["probabilities"]
        for value in given.values() if isinstance(given, dict) else given if isinstance(given, list) else ():
            number(probability=value, at_least=0.0)
        _probabilities(given, "it")
        return given
    name, parameters = words["law"], {key: value for key, value in words.items() if key != "law"}
    choice(_LAWS, law=name)
    for key, value in parameters.items():
        number(**{key: value})
    try:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            law = getattr(scipy.stats, name)(**parameters)
            fits = bool(np.isfinite(law.ppf(0.5)))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidParameter(f"parameters of {name}: {error}") from None
    if not fits:
        raise InvalidParameter(f"{name} has no such parameters")
    return law


def _probabilities(given: Any, name: str) -> dict[Any, Any]:
    if not isinstance(given, (dict, Sequence, np.ndarray)) or isinstance(given, str):
        raise InvalidParameter(f"{name} must be probabilities or a distribution with cdf, found {given!r}")
    found = dict(given) if isinstance(given, dict) else dict(enumerate(given))
    for outcome, value in found.items():
        if not value >= 0:
            raise InvalidParameter(f"probability of outcome {outcome!r} of {name} must be at least 0, found {value!r}")
    total = float(sum(found.values()))
    if not abs(total - 1.0) <= 1e-9:
        raise InvalidParameter(f"probabilities of {name} must sum to 1, found {total!r}")
    return found


def _tails(first: Any, second: Any, cells: int) -> list[tuple[FloatArray, FloatArray]]:
    """The probabilities below and above the edges of cells, for each distribution.

    Cells are narrow where either distribution has its mass, and in both tails.
    """
    deep = -np.linspace(np.log(2.0), 600.0, cells // 16)  # logarithms of tails
    shares = np.concatenate([np.linspace(0.0, 1.0, cells // 3 + 2)[1:-1], np.exp(deep)])
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # no edge where a quantile is not finite
        edges = np.concatenate([quantile(shares) for one in (first, second) for quantile in (one.ppf, one.isf)])
    edges = np.unique(edges[np.isfinite(edges)])
    return [
        (np.concatenate([[0.0], one.cdf(edges), [1.0]]), np.concatenate([[1.0], one.sf(edges), [0.0]]))
        for one in (first, second)
    ]


def _between(below: FloatArray, above: FloatArray, left: Any, right: Any) -> FloatArray:
    """Probabilities between edges, from the side on which they are small: no difference of numbers near 1."""
    return np.asarray(np.where(below[right] < 0.5, below[right] - below[left], above[left] - above[right]))


def _difference(p: FloatArray, p_above: FloatArray, q: FloatArray, q_above: FloatArray, odds: float) -> float:
    """``P(S) - odds Q(S)`` for the best union S of cells."""
    edge = np.arange(len(p))
    gains = _between(p, p_above, edge[:-1], edge[1:]) - odds * _between(q, q_above, edge[:-1], edge[1:])
    # a gain within rounding does not count; neighbouring cells are one interval, whose probabilities are rounded once
    rounding = 4e-16 * (np.minimum(p, p_above) + odds * np.minimum(q, q_above))
    chosen = np.concatenate([[False], gains > np.maximum(rounding[:-1], rounding[1:]), [False]])
    left, right = np.flatnonzero(chosen[1:] & ~chosen[:-1]), np.flatnonzero(chosen[:-1] & ~chosen[1:])
    return max(0.0, float((_between(p, p_above, left, right) - odds * _between(q, q_above, left, right)).sum()))
