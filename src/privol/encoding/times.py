"""Dates and times written as text: seconds since 1970, and their position in a day, a week or a year."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, localcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core._text import in_cycle
from ..readers.written import Written

__all__ = ["CYCLES", "TURN", "cycle_values", "seconds_held", "seconds_in", "seconds_of", "time_text"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
ByteArray = npt.NDArray[np.uint8]

_DAY = 86400
#: Seconds of a cycle, and when one began: the week on Monday, 1969-12-29. The year is the mean of 400 years.
CYCLES = {"day": (_DAY, 0), "week": (7 * _DAY, -3 * _DAY), "year": (31556952, 0)}

# The extended format of ISO 8601: a date, or a date and a time with or without seconds, fraction and zone.
_GRAMMAR = (
    r"^(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"(?:[Tt ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,15})[0-9]*)?)?"
    r" ?(?:[Zz]|(?P<sign>[+-])(?P<ahead>[0-9]{2})(?::?(?P<minutes>[0-9]{2}))?)?)?$"
)
# Most times have one of these layouts, which are read without the grammar: Y, M, D, h, m, s are digits of a part.
_LAYOUTS = "YYYY-MM-DD", "YYYY-MM-DD hh:mm:ss", "YYYY-MM-DD hh:mm:ssZ"
_PARTS, _MARKS, _SHORTEST = "YMDhms", {" ": "Tt ", "Z": "Zz"}, len(_LAYOUTS[0])
_LENGTHS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
# Arrow's units, as fractions of a second.
_PARTS_OF_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
# The first and last moments with a year of four digits.
_FIRST, _END = -62135596800, 253402300800


def seconds_in(texts: Any, written: Written) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Return the times of an array of strings, and which strings are neither missing nor a time.

    Each text is read by itself and none is refused. A time without a zone is in UTC; a date means its first second.

    Parameters
    ----------
    texts : pyarrow.StringArray, length n
    written : Written
        Says which texts are missing.

    Returns
    -------
    seconds : ndarray of float64, shape (n,)
        Since 1970-01-01 in UTC, without leap seconds; NaN for a text that is missing or not a time.
    strange : ndarray of bool, shape (n,)
    """
    import pyarrow

    present = written.present(texts)
    seconds = np.full(len(texts), np.nan)
    left = np.empty(0, dtype=np.int64)
    _, offsets, content = present.buffers()
    if content is not None and len(present):
        starts = np.frombuffer(offsets, np.int32)[present.offset : present.offset + len(present) + 1]
        held, sizes = np.frombuffer(content, np.uint8), np.diff(starts)
        # no other text is a time, whatever it holds
        left = np.flatnonzero((sizes >= _SHORTEST) & present.is_valid().to_numpy(zero_copy_only=False))
        left = left[held[starts[left] + 4] == ord("-")]
        taken = np.zeros(len(present), dtype=bool)
        for layout in _LAYOUTS:
            at = left[sizes[left] == len(layout)]
            fits, parts = _laid_out(held, starts[at], layout)
            at = at[fits]
            seconds[at] = _whole_seconds(*parts)
            taken[at] = True
        left = left[~taken[left]]
    if len(left):
        seconds[left] = _by_grammar(present.take(pyarrow.array(left)))
    return seconds, np.isnan(seconds) & present.is_valid().to_numpy(zero_copy_only=False)


def seconds_held(moments: Any) -> FloatArray:
    """Return the times of an array of dates or timestamps, as :func:`seconds_in` gives them for their texts.

    Parameters
    ----------
    moments : pyarrow.Date32Array or pyarrow.TimestampArray, length n
        A time without a zone is in UTC.

    Returns
    -------
    ndarray of float64, shape (n,)
        NaN for nulls, and for years without exactly four digits.
    """
    import pyarrow

    seconds: FloatArray
    date = moments.type == pyarrow.date32()
    held = moments.cast("int32" if date else "int64").fill_null(0).to_numpy(zero_copy_only=False)
    if date:
        seconds = held * float(_DAY)
    else:
        parts = _PARTS_OF_SECOND[moments.type.unit]
        whole = held // parts
        # one rounding of the fraction, as when read from digits, and one of the sum
        seconds = whole + (held - whole * parts) / parts
    seconds[~moments.is_valid().to_numpy(zero_copy_only=False) | (seconds < _FIRST) | (seconds >= _END)] = np.nan
    return seconds


def _laid_out(
    held: ByteArray, starts: npt.NDArray[np.int32], layout: str
) -> tuple[npt.NDArray[np.bool_], list[IntArray]]:
    """Return which texts have that layout, and their year, month, day, hour, minute and second.

    ``starts`` are where the texts begin, each as long as the layout.
    """
    fits = np.ones(len(starts), dtype=bool)
    for k, mark in enumerate(layout):
        if mark not in _PARTS:
            here, found = held[starts + k], False
            for one in _MARKS.get(mark, mark).encode():
                found |= here == one
            fits &= found
    starts = starts[fits]
    parts = {mark: np.zeros(len(starts), dtype=np.int64) for mark in _PARTS}
    digits = np.ones(len(starts), dtype=bool)
    for k, mark in enumerate(layout):
        if mark in _PARTS:
            digit = held[starts + k] - np.uint8(ord("0"))  # a character before "0" gives a large number
            digits &= digit < 10
            parts[mark] = parts[mark] * 10 + digit
    fits[fits] = digits
    return fits, [part[digits] for part in parts.values()]


def _by_grammar(present: Any) -> FloatArray:
    """Return the times of an array of strings, NaN for a null or a text that is not a time."""
    import pyarrow.compute as pc

    found = pc.extract_regex(present, _GRAMMAR)
    some = found.is_valid().to_numpy(zero_copy_only=False)
    parts = {f.name: pc.fill_null(given, "") for f, given in zip(found.type, found.flatten(), strict=True)}

    def part(name: str) -> Any:
        given = parts[name]
        return pc.if_else(pc.equal(given, ""), "0", given).cast("int64").to_numpy(zero_copy_only=False)

    ahead, minutes = part("ahead"), part("minutes")
    zone = (60 * ahead + minutes) * 60
    zone = np.where(pc.equal(parts["sign"], "-").to_numpy(zero_copy_only=False), -zone, zone)
    whole = _whole_seconds(*map(part, ("year", "month", "day", "hour", "minute", "second"))) - zone
    fraction = pc.binary_join_element_wise("0", parts["fraction"], ".").cast("float64").to_numpy(zero_copy_only=False)
    return np.where((ahead < 24) & (minutes < 60) & some, whole + fraction, np.nan)


def _whole_seconds(
    year: IntArray, month: IntArray, day: IntArray, hour: IntArray, minute: IntArray, second: IntArray
) -> FloatArray:
    """Return seconds since 1970 in UTC, NaN if there is no such time."""
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    right = (month >= 1) & (month <= 12) & (year >= 1)
    length = _LENGTHS[np.where(right, month, 0)] + (leap & (month == 2))
    right &= (day >= 1) & (day <= length) & (hour < 24) & (minute < 60) & (second <= 60)
    # Days since 1970, by a calendar whose years begin in March, so that a leap day is the last day of its year.
    years = year - (month <= 2)
    days = 365 * years + years // 4 - years // 100 + years // 400
    days += (153 * ((month + 9) % 12) + 2) // 5 + day - 719469
    # whole numbers below 2^53, so adding to them later is as exact as with integers
    return np.where(right, days * _DAY + hour * 3600 + minute * 60 + second, np.nan)


def seconds_of(moment: date | datetime) -> float:
    """Return a date or time from TOML as seconds since 1970; one without a zone is in UTC."""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(seconds=1)


def time_text(seconds: float) -> str | None:
    """Return whole seconds since 1970 as a date, or a date and a time; None outside the years of four digits."""
    if seconds != int(seconds) or not _FIRST <= seconds < _END:
        return None
    moment = datetime(1970, 1, 1) + timedelta(seconds=int(seconds))
    return moment.date().isoformat() if seconds % _DAY == 0 else f"{moment.isoformat()}Z"


def _turn() -> FloatArray:
    """Return cosine and sine at 256 points of a turn, shape (256, 2), each correctly rounded.

    They come from decimal arithmetic: the last bits of NumPy's cosine may differ between processors.
    """
    with localcontext(Context(prec=40)):
        one = Decimal(0)  # the cosine of a quarter of a turn, whose angle is halved six times
        for _ in range(6):
            one = ((1 + one) / 2).sqrt()
        other, x, y = (1 - one * one).sqrt(), Decimal(1), Decimal(0)
        eighth = np.empty((33, 2))
        for point in eighth:
            point[:] = x, y
            x, y = x * one - y * other, x * other + y * one
    quarter = np.append(eighth[:, 0], eighth[31::-1, 1])  # from 1 to 0
    half = np.append(quarter[:64], -quarter[:0:-1])
    cosines = np.append(half, -half)
    return np.stack([cosines, np.roll(cosines, 64)], axis=1)


#: Cosine and sine at 256 points of a turn.
TURN = _turn()


def cycle_values(seconds: FloatArray, *cycles: str) -> list[FloatArray]:
    """Return cosine and sine of each time's position in each cycle; their squares add up to at most 1. NaN gives 0."""
    found = (in_cycle(np.ascontiguousarray(seconds), *CYCLES[cycle], TURN) for cycle in cycles)
    return list(itertools.chain.from_iterable(found))
