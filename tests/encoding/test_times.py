"""Dates and times between knots: what a text means, its position in a day, week or year, and the bound of a row."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schema_tables import encoded, pa
from stream_files import save, together, write

from privol import open_stream
from privol.encoding import encode
from privol.encoding.schema import Schema
from privol.encoding.schema_parts import Knots
from privol.encoding.times import CYCLES, TURN, cycle_values, seconds_in, seconds_of, time_text
from privol.encoding.told import Told
from privol.errors import InvalidParameter
from privol.readers.written import Written

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = 86400.0
NONE = [
    *("2023-02-29", "1900-02-29", "2024-00-10", "2024-13-01", "2024-01-00", "2024-04-31", "0000-01-01", "24-01-01"),
    *("2024-1-1", "20240101", "2024-01-01T24:00", "2024-01-01T10:60", "2024-01-01T10:00:61", "2024-01-01T10", "x"),
    *("2024-01-01 ", "2024-01-01T10:00:00+25:00", "2024-01-01T10:00:00+01:60", "2024-01-01T", "2024-01-01\n2024", "12"),
    *("\u0662024-01-01", "+2024-01-01", "2024-W01-1", "2024-001", "1e9", "10:00"),
]


def seconds(texts, missing=("?",)):
    values, strange = seconds_in(pa.array(texts, pa.string()), Written(missing))
    return values.tolist(), strange.tolist()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)),
            st.integers(-23 * 60 - 59, 23 * 60 + 59) | st.none(),
            st.sampled_from("T "),
            st.sampled_from(["auto", "seconds", "milliseconds", "microseconds", "minutes"]),
        ),
        min_size=1,
        max_size=5,
    )
)
@pytest.mark.slow
def test_times_are_read_as_the_standard_library_does(moments):
    """Each by itself, with and without zone and fraction."""
    texts, expected = [], []
    for moment, ahead, sep, spec in moments:
        zone = None if ahead is None else timezone(timedelta(minutes=ahead))
        text = moment.replace(tzinfo=zone).isoformat(sep, spec)
        again = datetime.fromisoformat(text)
        texts.append(text.replace("+00:00", "Z"))
        expected.append(
            float(Fraction((again.replace(tzinfo=again.tzinfo or UTC) - EPOCH) // timedelta(microseconds=1), 10**6))
        )
    found, strange = seconds([*texts, "x", None])
    np.testing.assert_allclose(found[:-2], expected, rtol=4e-16)
    assert strange == [*([False] * len(texts)), True, False]
    for text, value in zip(texts, found, strict=False):
        assert seconds([text])[0] == [value]


def test_one_century_of_four_has_a_leap_day():
    texts = ["1900-02-29", "2000-02-29", "2100-02-29", "2023-02-29", "2024-02-29"]
    told = Told(pa.array(texts), Written(()), pointed=True)
    assert told.times.tolist() == [False, True, False, False, True]
    assert told.values[[1, 4]].tolist() == [951782400.0, 1709164800.0]


def test_dates_leap_days_and_leap_seconds():
    texts = [
        "1970-01-01",
        "2024-02-29",
        "2000-02-29T00:00Z",
        "2016-12-31T23:59:60Z",
        "2024-01-31t12:30:00,5z",
        " 0001-01-01 ",
    ]
    expected = [0.0, 1709164800.0, 951782400.0, 1483228800.0, 1706704200.5, -62135596800.0]
    assert seconds(texts) == (expected, [False] * 6)


def test_text_that_is_not_a_time_is_missing():
    found, strange = seconds([*NONE, "?", "", None])
    assert strange == [text != "2024-01-01 " for text in NONE] + [False] * 3
    # blanks around a cell do not matter
    assert [math.isnan(x) for x in found] == [text != "2024-01-01 " for text in NONE] + [True] * 3


def test_every_day_of_some_centuries():
    days = [date(1600, 1, 1) + timedelta(days=i) for i in range(0, 200_000, 7)]
    days += [date(year, 3, 1) - timedelta(days=1) for year in range(1, 9999)]
    assert seconds([day.isoformat() for day in days])[0] == [(day.toordinal() - 719163) * DAY for day in days]


def exact(at, cycle):
    """Cosine and sine of the position of a time, from 60 digits."""
    period, start = CYCLES[cycle]
    with mpmath.workdps(60):
        here = (Fraction(at) - start) % period / period
        angle = 2 * mpmath.pi * mpmath.mpf(here.numerator) / here.denominator
        return mpmath.cos(angle), mpmath.sin(angle)


TIMES = st.integers(-(10**10), 10**10).map(float) | st.floats(-(2.0**38), 2.0**38) | st.sampled_from([-0.0, -1e-300])
ODD = st.sampled_from([math.nan, math.inf, -math.inf, 1e300, -(2.0**53)])


@settings(deadline=None)
@given(st.lists(TIMES, max_size=20), st.lists(ODD, max_size=2), st.sampled_from(list(CYCLES)))
def test_cycles_are_accurate_to_the_last_digits(times, odd, cycle):
    """Within 2^-50, apart from what keeps them within the circle; cells that are not times have no cycle."""
    found = np.stack(cycle_values(np.array([*odd, *times], dtype=np.float64), cycle), axis=1)
    assert not found[: len(odd)].any()
    for at, pair in zip(times, found[len(odd) :].tolist(), strict=True):
        # a time a tiny fraction of a second before the cycle's beginning rounds to it
        assert max(abs(x / (1 - 2.0**-48) - y) for x, y in zip(pair, exact(at, cycle), strict=True)) < 2.0**-50
        assert np.stack(cycle_values(np.array([at]), cycle), axis=1).tobytes() == np.array(pair).tobytes()


def test_every_second_of_a_day_is_on_its_side_of_the_circle():
    """The error is below 2^-49.9 against the library's values, which are nearly exact."""
    second = np.arange(-86400.0, 86400.0)
    cosine, sine = cycle_values(second, "day")
    angle = (second % 86400.0) * (2 * np.pi / 86400.0)
    assert np.abs(cosine / (1 - 2.0**-48) - np.cos(angle)).max() < 2.0**-49.9
    assert np.abs(sine / (1 - 2.0**-48) - np.sin(angle)).max() < 2.0**-49.9


@given(st.floats(-1e12, 1e12) | st.integers(-(10**6), 10**6).map(float), st.sampled_from(sorted(CYCLES)))
def test_cycles_stay_within_the_circle(at, cycle):
    cos, sin = (float(part[0]) for part in cycle_values(np.array([at]), cycle))
    assert Fraction(cos) ** 2 + Fraction(sin) ** 2 <= 1
    period, start = CYCLES[cycle]
    angle = 2 * math.pi * float((Fraction(at) - start) % period) / period
    assert math.isclose(cos, math.cos(angle), abs_tol=1e-9)
    assert math.isclose(sin, math.sin(angle), abs_tol=1e-9)


def test_cycles_begin_where_they_should():
    noon, monday = seconds_of(datetime(2024, 5, 8, 12)), seconds_of(date(2024, 5, 6))
    np.testing.assert_allclose(np.ravel(cycle_values(np.array([noon]), "day")), [-1, 0], atol=1e-13)
    np.testing.assert_allclose(np.ravel(cycle_values(np.array([monday]), "week")), [1, 0], atol=1e-13)
    spring = seconds_of(date(2024, 4, 1))
    np.testing.assert_allclose(np.ravel(cycle_values(np.array([spring]), "year")), [0, 1], atol=0.02)


PARTS = {
    "columns": {
        "at": {
            "knots": [date(2020, 1, 1), datetime(2022, 1, 1, 12), 1704067200.0],
            "timestamp": True,
            "cycles": ["day", "week"],
        }
    }
}
NAMES = ["at~2020-01-01", "at~2022-01-01T12:00:00Z", "at~2024-01-01"]
NAMES += ["at:cos(day)", "at:sin(day)", "at:cos(week)", "at:sin(week)", "at=missing"]


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_rows(share, monkeypatch):
    monkeypatch.setattr(encode, "SPARSE_SHARE", share)
    cells = ["2020-01-01", "2022-01-01T12:00", "2030-01-07T06:00:00Z", None, "yesterday", "1600000000"]
    encoder, X, _ = encoded({"at": cells}, PARTS)
    assert list(encoder.feature_names) == NAMES
    assert X[:3, :3].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    # also for a time beyond the knots: a Monday at six
    np.testing.assert_allclose(X[2, 3:7], [0, 1, math.cos(math.pi / 14), math.sin(math.pi / 14)], atol=1e-12)
    assert X[3:].tolist() == [[0, 0, 0, 0, 0, 0, 0, 1]] * 3
    assert X[:3, 7].tolist() == [0, 0, 0]
    assert encoder.schema.row_bound == math.nextafter(math.sqrt(3), 2)  # rounded up
    for i, cell in enumerate(cells):
        _, alone, _ = encoded({"at": [cell]}, PARTS)
        np.testing.assert_array_equal(alone[0], X[i])


@settings(deadline=None)
@given(
    st.lists(st.floats(-1e11, 1e11), min_size=2, max_size=5, unique=True).map(sorted),
    st.datetimes(),
    st.sampled_from(["spline", "bins", "linear"]),
)
def test_no_row_is_longer_than_the_bound(knots, moment, shape):
    column = {"knots": knots, "shape": shape, "timestamp": True, "cycles": ["year", "day", "week"]}
    encoder, X, _ = encoded({"a": [moment.isoformat()]}, {"columns": {"a": column}})
    assert encoder.schema.row_bound == 2.0
    assert sum(Fraction(x) ** 2 for x in X[0].tolist()) <= 4


def test_inputs_of_all_kinds_agree(tmp_path):
    moments = [datetime(2020, 1, 1), None, datetime(2023, 3, 4, 5, 6, 7, 250000), datetime(1969, 12, 31, 23, 59, 59)]
    table = pa.table({"at": pa.array(moments, pa.timestamp("us"))})
    expected = encoded({"at": [None if m is None else m.isoformat() for m in moments]}, PARTS)[1]

    def read(data):
        return together(open_stream(data, schema=PARTS, target=False))[0]

    csv = write(tmp_path, "d.csv", "at,b\n" + "".join(f"{'' if m is None else m},\n" for m in moments))
    parts = {**PARTS, "others": "drop"}
    np.testing.assert_array_equal(together(open_stream(csv, schema=parts, target=False))[0], expected)
    lines = "".join(json.dumps({"at": None if m is None else f"{m.isoformat()}Z"}) + "\n" for m in moments)
    berlin = timezone(timedelta(hours=1))
    aware = [None if m is None else m.replace(tzinfo=UTC).astimezone(berlin) for m in moments]
    others = [write(tmp_path, "d.jsonl", lines), save(tmp_path, table), table, table.to_pandas()]
    others += [pa.table({"at": pa.array(aware, pa.timestamp("ns", "Europe/Berlin"))})]
    others += [[{"at": m} for m in moments], [{"at": m} for m in aware]]
    for other in others:
        np.testing.assert_array_equal(read(other), expected)


def test_numbers_are_not_times(tmp_path):
    """Whether they are written as text or held as doubles."""
    parts = {"columns": {"at": {**PARTS["columns"]["at"]}}}
    table = pa.table({"at": pa.array([1.6e9, None])})
    found = [together(open_stream(save(tmp_path, table), schema=parts, target=False))[0]]
    found.append(encoded({"at": ["1.6e9", None]}, parts)[1])
    for X in found:
        assert X.tolist() == [[0, 0, 0, 0, 0, 0, 0, 1]] * 2


def test_records_round_trip():
    schema = Schema.load(PARTS)
    knots = (seconds_of(date(2020, 1, 1)), seconds_of(datetime(2022, 1, 1, 12)), 1704067200.0)
    assert schema.columns == (("at", Knots(knots, timestamp=True, cycles=("day", "week"))),)
    assert Schema.from_record(json.loads(json.dumps(schema.to_record(), sort_keys=True))) == schema
    assert seconds_of(datetime(2020, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))) == knots[0]


def test_texts_of_times():
    assert [time_text(x) for x in (0.0, -62135596800.0, 59.0)] == ["1970-01-01", "0001-01-01", "1970-01-01T00:00:59Z"]
    assert [time_text(x) for x in (0.5, 253402300800.0, -62135596801.0)] == [None] * 3
    assert time_text(253402300799.0) == "9999-12-31T23:59:59Z"


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("timestamp = 1\nknots = [0, 1]", "timestamp", "true or false"),
        ("timestamp = true", "timestamp", "no meaning for a column of numbers"),
        ("knots = [0, 1]\ncycles = ['day']", "cycles", "timestamp = true"),
        ("knots = [0, 1]\ntimestamp = true\ncycles = 'day'", "cycles", "a list of 'day', 'week', 'year'"),
        ("knots = [0, 1]\ntimestamp = true\ncycles = ['month']", "cycles", "'day', 'week', 'year'"),
        ("knots = [0, 1]\ntimestamp = true\ncycles = ['day', 'day']", "cycles", "twice"),
        ("knots = [2020-01-01, 2021-01-01]", "knots", "number"),
        ("knots = [2021-01-01, 2020-01-01]\ntimestamp = true", "knots", "must ascend"),
    ],
)
def test_errors_name_the_place(tmp_path, text, place, words):
    path = write(tmp_path, "s.toml", f"[columns.a]\n{text}\n")
    with pytest.raises(InvalidParameter) as found:
        Schema.load(path)
    assert str(found.value).startswith(f"s.toml: columns.a.{place} "), found.value
    assert words in str(found.value), found.value


def test_points_of_a_turn_are_correctly_rounded() -> None:
    """The last bit of a processor's own cosine would be one of a model, too."""
    with mpmath.workprec(200):
        for k in range(256):
            exact = [mpmath.cospi(mpmath.mpf(k) / 128), mpmath.sinpi(mpmath.mpf(k) / 128)]
            assert TURN[k].tolist() == [float(value) for value in exact]
