"""How users and keys are distinguished: one rule for columns of every type and for single rows."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from numbers import Number

__all__ = ["WRITTEN", "id_of", "id_text"]

# Whole numbers written with a sign, a point or an exponent, and short enough to be written out.
WRITTEN = r"^[+-]?[0-9]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?$"
_written = re.compile(WRITTEN).fullmatch
_MOST_DIGITS = 400


def id_of(text: str) -> str:
    """Return what a user or key is compared by, if it is written with a sign, a point or an exponent.

    1.0, 1e0 and +1 are 1, and -0.0 is 0, so that a double in one file and an integer in another, or 1 and 1.0 in JSON,
    are not two users. Anything that is not a whole number stays as it is.
    """
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    # exactly: doubles would confuse ids above 2^53
    whole = number.adjusted() < _MOST_DIGITS and number == number.to_integral_value()
    return str(int(number)) if whole else text


def id_text(value: object) -> str | None:
    """Return what a user is compared by, if it is handed over as an object; None if the object is not a user.

    The result is that of a column of such objects: text without surrounding blanks, whole numbers by their digits.
    """
    if isinstance(value, Number) and value != value:  # NaN of any numeric type
        return None
    text = str(value).strip() if isinstance(value, str | Number) and not isinstance(value, bool) else ""
    if not text:
        return None
    plain = text.isascii() and text.isdigit()  # 007 is not 7
    return id_of(text) if not plain and _written(text) else text
