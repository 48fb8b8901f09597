"""One style for parameter checks: ``number(epsilon=epsilon, above=0)``.

Each helper takes the parameter as its single free keyword, returns the checked
value and raises :class:`~privol.errors.InvalidParameter` with one message
style: ``epsilon must be a number above 0, found -1``.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

from .errors import InvalidParameter

__all__ = ["choice", "integer", "number"]


def _single(named: dict[str, Any]) -> tuple[str, Any]:
    ((name, value),) = named.items()
    return name, value


def _range(above: float, at_least: float, below: float, at_most: float) -> str:
    words = []
    if above > -math.inf:
        words.append(f"above {above:g}")
    if at_least > -math.inf:
        words.append(f"of at least {at_least:g}")
    if below < math.inf:
        words.append(f"below {below:g}")
    if at_most < math.inf:
        words.append(f"of at most {at_most:g}")
    return " and ".join(words)


def as_float(value: Any) -> float:
    """Return a real number as a float: NaN for an integer that is too large to be one."""
    try:
        return float(value)
    except OverflowError:
        return math.nan


def number(
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    below: float = math.inf,
    at_most: float = math.inf,
    infinite: bool = False,
    **named: Any,
) -> float:
    """Return the parameter as a float within the stated range.

    Integers and NumPy scalars are accepted, booleans and NaN are not.
    ``infinite=True`` admits infinities.
    """
    name, value = _single(named)
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        x = as_float(value)
        outside = (x <= above > -math.inf) or x < at_least or (x >= below < math.inf) or x > at_most
        if not (math.isnan(x) or (math.isinf(x) and not infinite) or outside):
            return x
    allowed = " ".join(
        w for w in ("a number" if infinite else "a finite number", _range(above, at_least, below, at_most)) if w
    )
    raise InvalidParameter(f"{name} must be {allowed}, found {value!r}")


def integer(*, at_least: int | None = None, at_most: int | None = None, **named: Any) -> int:
    """Return the parameter as an int within the stated range (no booleans, no floats)."""
    name, value = _single(named)
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        n = int(value)
        if (at_least is None or n >= at_least) and (at_most is None or n <= at_most):
            return n
    allowed = "an integer"
    if at_least is not None:
        allowed += f" of at least {at_least}"
    if at_most is not None:
        allowed += (" and" if at_least is not None else " of") + f" at most {at_most}"
    raise InvalidParameter(f"{name} must be {allowed}, found {value!r}")


def choice(allowed: Sequence[str], **named: Any) -> str:
    """Return the parameter if it is one of the allowed words."""
    name, value = _single(named)
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(repr(w) for w in allowed)
        raise InvalidParameter(f"{name} must be one of {words}, found {value!r}")
    return value
