"""The last resort of exact rounding: as many random bits and as many digits as it takes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import mpmath

__all__ = ["decide_lattice_point"]

# A context of our own, used under a lock: mpmath's global precision belongs to the caller and to other threads.
_MP = mpmath.MPContext()
_MP_LOCK = threading.Lock()


def _tail_quantile(u: Any) -> Any:
    """-F^-1(u) for 0 < u <= 1/2 at the working precision, by Newton on the logarithm of the tail."""
    mpmath = _MP
    if u == mpmath.mpf(1) / 2:
        return mpmath.mpf(0)
    z = mpmath.sqrt(-2 * mpmath.log(2 * u))
    z = z if z > 1 else z / 2
    tolerance = mpmath.ldexp(1, -(mpmath.prec - 24))
    for _ in range(400):
        tail = mpmath.erfc(z / mpmath.sqrt(2)) / 2
        step = tail * mpmath.log(tail / u) * mpmath.sqrt(2 * mpmath.pi) * mpmath.exp(z * z / 2)
        z += step
        if abs(step) <= tolerance * (1 + abs(z)):
            return z
    raise ArithmeticError("the normal quantile did not converge")


def _minus_log(u: Any) -> Any:
    """-log(2 u), the magnitude of a Laplace or exponential variable, at the working precision."""
    return -_MP.log(2 * u)


_QUANTILES: dict[str, Callable[[Any], Any]] = {
    "gaussian": _tail_quantile,
    "laplace": _minus_log,
    "exponential": _minus_log,
}


def decide_lattice_point(
    word: int,
    extra: Callable[[int], tuple[int, int]],
    x: float,
    scale: float,
    step: float,
    law: str = "gaussian",
) -> float:
    """Round ``(x + scale Z) / step`` to the nearest integer with as many bits of Z as it takes.

    Parameters
    ----------
    word : int
        The coordinate's 64-bit word: sign of Z, then the first 63 bits of twice the tail probability U of ``|Z|``.
    extra : callable
        ``extra(level)``, level = 1, 2, ...: the next 128 bits of U as two words.
    x, scale, step : float
        Noiseless value, scale of Z, grid (a power of two).
    law : str
        Of Z: "gaussian", "laplace" or "exponential" (never negative: the sign is ignored).

    Returns
    -------
    float
        The integer that every U starting with the bits read so far rounds to.

    Notes
    -----
    U lies in an interval of width 2**-64, 2**-192, ...; the quantile is monotone, so when both ends (each computed to
    within 2**-100 and widened by that) round to the same integer, all of the interval does.
    """
    quantile = _QUANTILES[law]
    negative = word >> 63 and law != "exponential"
    prefix, bits, level = word & ((1 << 63) - 1), 63, 0
    while True:
        with _MP_LOCK, _MP.workprec(bits + 200):
            low, high = _MP.ldexp(prefix, -bits - 1), _MP.ldexp(prefix + 1, -bits - 1)
            if low > 0:
                margin = _MP.ldexp(1, -100)
                near, far = quantile(high) - margin, quantile(low) + margin
                ends = (-far, -near) if negative else (near, far)
                first, last = (_MP.nint((_MP.mpf(x) + scale * z) / step) for z in ends)
                if first == last:
                    return float(first)
        level += 1
        a, b = extra(level)
        prefix, bits = (prefix << 128) | (a << 64) | b, bits + 128
