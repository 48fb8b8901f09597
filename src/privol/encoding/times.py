"""Dates and times that are written as text: seconds since 1970, and where in a day, a week or a year they are."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from ..readers.written import Written

__all__ = ["CYCLES", "cycle_values", "seconds_in", "seconds_of", "time_text"]

FloatArray = npt.NDArray[np.float64]

_DAY = 86400
#: Seconds of a cycle, and when one began: the week on Monday, 1969-12-29. The year is the mean one of 400 years.
CYCLES = {"day": (_DAY, 0), "week": (7 * _DAY, -3 * _DAY), "year": (31556952, 0)}

# Extended format of ISO 8601: a date, or a date and a time with or without seconds, fraction and zone.
_GRAMMAR = (
    r"^(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"(?:[Tt ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,15})[0-9]*)?)?"
    r" ?(?:[Zz]|(?P<sign>[+-])(?P<ahead>[0-9]{2})(?::?(?P<minutes>[0-9]{2}))?)?)?$"
)
_LENGTHS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
# Sines and cosines may be too large by a few roundings; their squares must add up to no more than 1.
_SHRUNK = 1.0 - 2.0**-48


def seconds_in(texts: Any, written: Written) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Return the times of an array of strings, and which of them are neither missing nor a time.

    Each by itself; nothing is refused. A time without a zone is one in UTC, a date its first second.

    Parameters
    ----------
    texts : pyarrow.StringArray, length n
    written : Written
        Which are missing.

    Returns
    -------
    seconds : ndarray of float64, shape (n,)
        Since 1970-01-01 in UTC, without leap seconds; NaN where a text is missing or no time.
    strange : ndarray of bool, shape (n,)
    """
    import pyarrow.compute as pc

    present = written.present(texts)
    found = pc.extract_regex(present, _GRAMMAR)
    some = found.is_valid().to_numpy(zero_copy_only=False)
    parts = {f.name: pc.fill_null(given, "") for f, given in zip(found.type, found.flatten(), strict=True)}

    def part(name: str) -> Any:
        given = parts[name]
        return pc.if_else(pc.equal(given, ""), "0", given).cast("int64").to_numpy(zero_copy_only=False)

    year, month, day = part("year"), part("month"), part("day")
    hour, minute, second = part("hour"), part("minute"), part("second")
    ahead, minutes = part("ahead"), part("minutes")
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    right = (month >= 1) & (month <= 12) & (year >= 1)
    length = _LENGTHS[np.where(right, month, 0)] + (leap & (month == 2))
    right &= (day >= 1) & (day <= length) & (hour < 24) & (minute < 60) & (second <= 60)
    right &= (ahead < 24) & (minutes < 60) & some
    # Days since 1970 of a calendar whose years begin in March, so that a leap day is the last one.
    years = year - (month <= 2)
    days = 365 * years + years // 4 - years // 100 + years // 400
    days += (153 * ((month + 9) % 12) + 2) // 5 + day - 719469
    zone = (60 * ahead + minutes) * 60
    zone = np.where(pc.equal(parts["sign"], "-").to_numpy(zero_copy_only=False), -zone, zone)
    whole = days * _DAY + hour * 3600 + minute * 60 + second - zone
    fraction = pc.binary_join_element_wise("0", parts["fraction"], ".").cast("float64").to_numpy(zero_copy_only=False)
    strange = ~right & present.is_valid().to_numpy(zero_copy_only=False)
    return np.where(right, whole + fraction, np.nan), strange


def seconds_of(moment: date | datetime) -> float:
    """Return a date or time of TOML as seconds since 1970; one without a zone is in UTC."""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(seconds=1)


def time_text(seconds: float) -> str | None:
    """Return whole seconds since 1970 as a date, or a date and a time; None if they are none of four-digit years."""
    if seconds != int(seconds) or not -62135596800 <= seconds < 253402300800:
        return None
    moment = datetime(1970, 1, 1) + timedelta(seconds=int(seconds))
    return moment.date().isoformat() if seconds % _DAY == 0 else f"{moment.isoformat()}Z"


def cycle_values(seconds: FloatArray, cycle: str) -> tuple[FloatArray, FloatArray]:
    """Return cosine and sine of where finite times are in a cycle; their squares add up to no more than 1."""
    period, start = CYCLES[cycle]
    angle = np.mod(seconds - start, period) * (2 * np.pi / period)
    return np.cos(angle) * _SHRUNK, np.sin(angle) * _SHRUNK
