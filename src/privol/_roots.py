"""Zero of a decreasing function; ``scipy.optimize`` has such a function but takes long to import."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["falling_root"]


def falling_root(f: Callable[[float], float], high: float) -> float:
    """Return where ``f``, positive at 0 and at most 0 at ``high``, changes its sign: bisection, to the last bit.

    Parameters
    ----------
    f : callable
        Decreasing; if rounding matters, the result is one of the points where the computed sign changes.
    high : float
        Positive and finite.

    Returns
    -------
    float
        The upper one of two neighbouring doubles.
    """
    low = 0.0
    while low < (middle := low + (high - low) / 2.0) < high:
        if f(middle) > 0.0:
            low = middle
        else:
            high = middle
    return high
