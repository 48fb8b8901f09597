"""The last resort of exact rounding: as many random bits and as many digits as it takes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import mpmath

__all__ = ["decide_lattice_point", "decide_mixture_point", "decide_side"]

# A private context, used under a lock: mpmath's global precision belongs to the caller and to other threads. A signal
# handler or finaliser in this thread may enter meanwhile: it restores the precision before it leaves.
_MP = mpmath.MPContext()
_MP_LOCK = threading.RLock()


def _after_fork_in_child() -> None:
    # Another thread, which does not exist here, may have held the lock. Every decision sets the precision again.
    global _MP_LOCK
    _MP_LOCK = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)

_Found = TypeVar("_Found")

Enclosures = dict[int, "tuple[Any, Any] | None"]
"""Enclosures of a vector's random factor, by the number of extra words of each of its words; None: not bounded yet."""

_REMEMBERED = 4096  # bits; a decision needs more with a probability below 2**-3000
_ATTEMPTS = 4


def _evaluate(bits: int, find: Callable[[], _Found]) -> _Found:
    """Return what `find` finds at the precision for the given number of digits.

    All contexts of mpmath share its cached constants, the value and then its precision, without a lock: reading a
    constant while it is cached with more bits gives it times a power of two. So constants are first cached with more
    bits than are needed. Decisions never do it again, and do not disturb each other, whichever interrupts which.

    What remains is another user of mpmath in this process, who makes it cache a constant with still more bits. If such
    users leave a value and a precision that do not match, or are stopped between the two, this is detected before and
    after the evaluation, and repaired by more bits. A user who begins and ends within the evaluation is not detected.
    If that corrupts one end of the enclosure, the ends differ, and more digits are read; or they agree in the other
    end's point, which is right, or a neighbour of the right one if the enclosure contains a boundary. For a completely
    wrong point both ends must be corrupted in the same way: by a thread that loses the interpreter between the two
    steps, to a decision between its first check and its first end, and regains it before the second check.
    """
    failure = None
    for attempt in range(_ATTEMPTS):
        with _MP_LOCK:
            with _MP.workprec(_REMEMBERED << attempt):
                _constants_are_right()
            with _MP.workprec(bits + 200):
                if not _constants_are_right():  # with wrong constants evaluations may take for ever
                    continue
                try:
                    found = find()
                except ArithmeticError as error:
                    failure = error
                    continue
                if _constants_are_right():
                    return found
    raise ArithmeticError("the evaluation fails, or something changes the constants that mpmath shares") from failure


def _constants_are_right() -> bool:
    """Read the constants of logarithm, exponential and error function; return whether none is off by a power of two."""
    return bool(0.5 < +_MP.ln2 < 1 and 3 < +_MP.pi < 4 and 2 < +_MP.e < 3)


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
    U lies in an interval of width 2**-64, 2**-192, ...; the quantile is monotone, so when both ends round to the same
    integer, all of the interval does. Each end is computed to within 2**-(100 + digits of U) and widened by that.
    """
    digits = _Digits(word)

    def find() -> float | None:
        magnitude = digits.magnitude(law)
        if magnitude is None:
            return None
        return _nearest(magnitude, digits.negative and law != "exponential", x, scale, step)

    while True:
        point = _evaluate(digits.bits, find)
        if point is not None:
            return point
        digits.extend(extra)


class _Digits:
    """A word and the digits after it so far."""

    def __init__(self, word: int) -> None:
        self.negative = bool(word >> 63)
        self._prefix, self.bits, self._level = word & ((1 << 63) - 1), 63, 0

    def extend(self, extra: Callable[[int], tuple[int, int]]) -> None:
        self._level += 1
        a, b = extra(self._level)
        self._prefix, self.bits = (self._prefix << 128) | (a << 64) | b, self.bits + 128

    def magnitude(self, law: str) -> tuple[Any, Any] | None:
        """Enclose ``|Z|`` at the working precision; None while all digits are zeros."""
        if not self._prefix:
            return None
        low, high = _MP.ldexp(self._prefix, -self.bits - 1), _MP.ldexp(self._prefix + 1, -self.bits - 1)
        # finer with every digit: with a fixed margin, sums within it of a boundary would stay undecided for ever
        margin, quantile = _MP.ldexp(1, -(self.bits + 100)), _QUANTILES[law]
        return max(quantile(high) - margin, _MP.mpf(0)), quantile(low) + margin


def _nearest(magnitude: tuple[Any, Any], negative: bool, x: float, scale: Any, step: float) -> float | None:
    """Round both ends of an enclosed sum; None if they differ."""
    near, far = magnitude
    ends = (-far, -near) if negative else (near, far)
    first, last = (_MP.nint((_MP.mpf(x) + scale * z) / step) for z in ends)
    return float(first) if first == last else None


def decide_mixture_point(
    kind: str,
    words: Sequence[int],
    extra: Callable[[int, int], tuple[int, int]],
    coordinate: int,
    x: float,
    scale: float,
    step: float,
    factor: tuple[float, float],
    enclosures: Enclosures | None = None,
) -> float:
    """Round ``(x + scale F Z) / step`` to the nearest integer, F the random factor that all coordinates share.

    Parameters
    ----------
    kind : str
        "l2_laplace" or "sphere".
    words : sequence of int
        All words of the vector: those of Z, then those of F alone.
    extra : callable
        ``extra(level, word)``, level = 1, 2, ...: the next 128 bits of a word.
    coordinate : int
        Which one is undecided.
    x, scale, step : float
        Noiseless value, scale, grid (a power of two).
    factor : (float, float)
        F by double precision, and a bound on its relative error (infinite: none is known).
    enclosures : dict, optional
        What is found of F, by the number of words that followed each: one for all coordinates of a vector, empty at
        first. F is a function of all words, and by far the most expensive part of a long vector.

    Returns
    -------
    float
        The integer that all digits that may follow lead to.
    """
    enclosures = {} if enclosures is None else enclosures
    own, level = _Digits(words[coordinate]), 0
    value, error = factor
    known = error < 0.5  # nearly always enough: the kernel's own error is mostly that of Z

    def find() -> float | None:
        magnitude = own.magnitude("gaussian")
        shared = enclosures.get(level)
        if known:
            shared = _MP.mpf(value) * (1 - _MP.mpf(error)), _MP.mpf(value) * (1 + _MP.mpf(error))
        if magnitude is None or shared is None:
            return None
        return _nearest((magnitude[0] * shared[0], magnitude[1] * shared[1]), own.negative, x, scale, step)

    while True:
        if not known and level not in enclosures:
            # cached only once it is known to be right; see _evaluate
            enclosures[level] = _evaluate(own.bits, _whole_factor(kind, words, extra, level))
        point = _evaluate(own.bits, find)
        if point is not None:
            return point
        if not known:
            own.extend(partial(_swapped, extra, coordinate))
            level += 1
        known = False


def decide_side(
    words: Sequence[int],
    extra: Callable[[int, int], tuple[int, int]],
    v: Sequence[float],
    gamma: float,
    both: bool,
) -> bool:
    """Decide whether ``<Z, v> >= gamma norm(Z) norm(v)``, Z a vector of ideal Gaussian variables.

    Parameters
    ----------
    words : sequence of int
        Those of Z.
    extra : callable
        ``extra(level, word)``, level = 1, 2, ...: the next 128 bits of a word.
    v : sequence of float
        Not all zero.
    gamma : float
        At least 0, below 1.
    both : bool
        Decide it for v or -v.

    Returns
    -------
    bool
        What all digits that may follow lead to.
    """
    digits = [_Digits(word) for word in words]

    def find() -> bool | None:
        magnitudes = [word.magnitude("gaussian") for word in digits]
        low = high = least = most = total = square = _MP.mpf(0)
        for word, magnitude, number in zip(digits, magnitudes, v, strict=True):
            if magnitude is None:
                return None
            near, far = magnitude
            x = _MP.mpf(-number if word.negative else number)
            ends = sorted((near * x, far * x))
            low, high = low + ends[0], high + ends[1]
            total += max(abs(ends[0]), abs(ends[1]))
            least, most = least + near * near, most + far * far
            square += x * x
        # rounding of all this with 200 bits more than there are digits, relative to the sum of the magnitudes
        slack = _MP.ldexp(1, -(digits[0].bits + 120))
        low, high = low - slack * total, high + slack * total
        if both:
            low, high = max(low, -high, _MP.mpf(0)), max(high, -low)
        border = gamma * _MP.sqrt(square)
        if low >= border * _MP.sqrt(most) * (1 + slack):
            return True
        return False if high < border * _MP.sqrt(least) * (1 - slack) else None

    while True:
        inside = _evaluate(digits[0].bits, find)
        if inside is not None:
            return inside
        for i, word in enumerate(digits):
            word.extend(partial(_swapped, extra, i))


def _swapped(extra: Callable[[int, int], tuple[int, int]], word: int, level: int) -> tuple[int, int]:
    return extra(level, word)


def _dim(words: int) -> int:
    """Return the d with d + ceil(d / 2) words, one more where d is even."""
    return next(d for d in range(1, words + 1) if d + (d + 1) // 2 + (d % 2 == 0) == words)


def _whole_factor(
    kind: str, words: Sequence[int], extra: Callable[[int, int], tuple[int, int]], level: int
) -> Callable[[], tuple[Any, Any] | None]:
    """The result of :func:`_factor` for all words with the given number of digits after each."""
    digits = [_Digits(word) for word in words]
    for i, word in enumerate(digits):
        for _ in range(level):
            word.extend(partial(_swapped, extra, i))
    dim = len(words) if kind == "sphere" else _dim(len(words))
    return lambda: _factor(kind, dim, digits)


def _factor(kind: str, dim: int, digits: Sequence[_Digits]) -> tuple[Any, Any] | None:
    """Enclose the factor at the working precision; None while all digits of a word are zeros."""
    own = [word.magnitude("gaussian") for word in (digits if kind == "sphere" else digits[dim + (dim + 1) // 2 :])]
    rest = [] if kind == "sphere" else [word.magnitude("exponential") for word in digits[dim : dim + (dim + 1) // 2]]
    total = [_MP.mpf(0), _MP.mpf(0)]
    for z in own:
        if z is None:
            return None
        total = [total[end] + z[end] ** 2 for end in (0, 1)]
    for z in rest:
        if z is None:
            return None
        total = [total[end] + 2 * z[end] for end in (0, 1)]
    if not total[0] > 0:
        return None
    slack = _MP.ldexp(1, -(digits[0].bits + 120))  # rounding of all this with 200 bits more than there are digits
    low, high = _MP.sqrt(total[0]) * (1 - slack), _MP.sqrt(total[1]) * (1 + slack)
    return (1 / high * (1 - slack), 1 / low * (1 + slack)) if kind == "sphere" else (low, high)
