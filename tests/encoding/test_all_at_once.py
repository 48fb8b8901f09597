"""Cells processed in bulk get the same bits as cells processed alone: hashes, times, numbers, labels."""

from __future__ import annotations

import math
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schema_tables import pa

from privol._core._text import MISSING
from privol.encoding import histograms, learning, times
from privol.encoding.hashes import hash_of, hashes_of
from privol.encoding.schema_parts import Hashed
from privol.encoding.strings import LONGEST, thresholds
from privol.encoding.texts import TextColumn
from privol.encoding.told import Told
from privol.readers.arrow import written_out
from privol.readers.columns import blanked
from privol.readers.written import Written

pytestmark = pytest.mark.fast

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=90)
WRITTEN = Written(("?", "NA", "-1", "inf"))
NO_TIMES = [
    *("2023-02-29", "1900-02-29", "2024-00-10", "2024-13-01", "0000-01-01", "24-01-01", "2024-1-1", "20240101"),
    *("2024-01-01T24:00:00", "2024-01-01 10:00:61", "2024-01-01 ", "2024-01-01T", "2024-01-01\n2024", "12", "?"),
    *("\u0662024-01-01", "+2024-01-01", "2024-01-01T10:00:00+25:00", "2024-01-01 10:00:00.5Z", "2024-01-01T10:00 Z"),
]
BLANKS = [chr(c) for c in range(sys.maxunicode + 1) if chr(c).isspace()]


def strings(texts):
    return pa.array(texts, pa.string())


@settings(max_examples=100, deadline=None)
@given(st.lists(TEXTS | st.none(), max_size=12), st.integers(0, 3))
def test_hashes_are_those_of_one_text(texts, cut):
    found = hashes_of(strings(["before", *texts, "behind"])[1 + cut : 1 + len(texts)])
    assert [int(h) for h, text in zip(found, texts[cut:], strict=True) if text is not None] == [
        hash_of(text) for text in texts[cut:] if text is not None
    ]


def test_hashes_of_all_lengths_and_bytes():
    rng = np.random.default_rng(0)
    texts = ["".join(map(chr, rng.integers(0, 0x300, n))) for n in range(150) for _ in range(3)]
    rng.shuffle(texts)
    assert hashes_of(strings(texts)).tolist() == [hash_of(text) for text in texts]
    assert not len(hashes_of(strings([])))
    assert hashes_of(strings(["", ""])).tolist() == [hash_of("")] * 2


@pytest.mark.parametrize("missing", ["zero", "indicator", "refuse"])
@pytest.mark.parametrize(("kept", "rest"), [((), 0), ((3, 40, 41, 63), 0), ((3, 40, 41, 63), 5), ((0,), 16)])
def test_places_are_those_of_one_cell(kept, rest, missing):
    column = TextColumn("code", Hashed(64, missing, kept, rest), 7, 0, WRITTEN)
    rng = np.random.default_rng(1)
    texts = [
        *(f"{'  ' * (k % 3)}drug {k}{BLANKS[k % len(BLANKS)]}" for k in range(600)),
        "?",
        " NA",
        "",
        " ",
        "\u2003?",
    ]
    cells = [texts[i] for i in rng.permutation(len(texts))] + [None, "drug 3", None]
    coded = strings(cells).dictionary_encode()
    assert len(coded.dictionary) >= 600
    assert column.places(coded).tolist() == [column.place_of(text) for text in cells]


def by_grammar(texts):
    """Times by the grammar alone."""
    return times._by_grammar(WRITTEN.present(strings(texts)))


MOMENTS = st.datetimes().flatmap(
    lambda t: st.sampled_from([t.date().isoformat(), *(t.isoformat(s, "seconds") for s in "T "), t.isoformat()])
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(MOMENTS, st.sampled_from(["", "Z", "z", "+01:30", " ", "x"]), st.data()), max_size=6))
def test_times_are_those_of_the_grammar(moments):
    texts = [None, *NO_TIMES]
    for moment, end, data in moments:
        text = moment + end
        texts += [text, text.lower()]
        at = data.draw(st.integers(0, len(text) - 1))
        texts.append(text[:at] + data.draw(st.sampled_from("0:9-/ TtZ.\u0663;")) + text[at + 1 :])
    seconds, strange = times.seconds_in(strings(texts), WRITTEN)
    np.testing.assert_array_equal(seconds, by_grammar(texts))
    missing = np.array([text is None or text.strip() in WRITTEN.missing for text in texts])
    np.testing.assert_array_equal(strange, np.isnan(seconds) & ~missing)


def test_impossible_days_and_seconds_are_not_times():
    days = [f"{y:04}-{m:02}-{d:02}" for y in (0, 1, 1900, 2000, 2023, 2024, 9999) for m in range(14) for d in range(33)]
    clocks = [f"2024-02-29 {h:02}:{m:02}:{s:02}" for h in (0, 23, 24, 99) for m in (0, 59, 60) for s in (0, 59, 60, 61)]
    texts = days + clocks + [f"{clock}Z" for clock in clocks]
    np.testing.assert_array_equal(times.seconds_in(strings(texts), WRITTEN)[0], by_grammar(texts))


NUMBERS = ["1", "-1", "+1", " 12.5 ", "1e5", "1E-5", "1,5", "1.5,2", ".5", "5.", ".", "e", "1e", "--1", "1-2", "1e400"]
NUMBERS += ["inf", "Infinity", "-INF", "nan", "nan(1)", "NaN(x)", "in", "tiny", "0x1", "1_0", "\u0661", "2020-01-01"]
NUMBERS += ["", "?", " NA ", "drug", "\u00a07\u2003", "1 2", "1\n", "-0", "1.0", None, "1d", "1f", "e5", "+", "-"]
NUMBERS += ["7\u2003", "drug\u00a0"]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(NUMBERS) | TEXTS, max_size=12), st.booleans(), st.sampled_from([".", ","]), st.booleans()
)
def test_numbers_are_those_of_one_text(texts, many, decimal, pointed):
    """Also after so many plain cells that the first ones say nothing about the others."""
    written = Written(("?", "NA", "-1", "inf"), decimal)
    texts = (["3"] * 600 if many else []) + texts
    values, strange = written.values(strings(texts), pointed=pointed)
    for text, value, odd in zip(texts[-12:], values[-12:], strange[-12:], strict=True):
        try:
            alone = None if text is None else written.number(text)
        except ValueError:
            try:
                alone = Written(written.missing).number(text) if pointed else "strange"
            except ValueError:
                alone = "strange"
        assert odd == (alone == "strange"), text
        np.testing.assert_equal(value, np.nan if alone in (None, "strange", *written.missing_numbers) else alone, text)


@settings(max_examples=40, deadline=None)
@given(st.lists(TEXTS | st.sampled_from(["?", " NA", *BLANKS]) | st.none(), min_size=1, max_size=20))
def test_cells_that_teach_are_those_of_python(texts):
    """Blanks, missing cells, and buckets."""
    texts += [blank + "x" + blank for blank in BLANKS]
    plain = [None if text is None or text.strip() in WRITTEN.missing else text.strip() for text in texts]
    buckets = Counter(hash_of(text) % learning.BUCKETS for text in plain if text is not None)
    for column in (strings(texts), strings(texts).dictionary_encode()):
        values = histograms.Values(column, WRITTEN, True, hashes=True)
        told = Told(column, WRITTEN)
        found = zip([*told.present.to_pylist(), None], told.weights.tolist(), strict=True)
        assert sum((Counter({text: n}) for text, n in found), Counter()) == Counter(plain)
        assert values.present().tolist() == [text is not None for text in plain]
        assert values.absent() == plain.count(None)
        assert dict(enumerate(values.buckets().tolist())) == {b: buckets[b] for b in range(learning.BUCKETS)}


MOMENTS = ["2020-02-29", " 2020-02-30", "2020-02-29 12:30", "2020-02-29T12:30:01.25+01:30", "1969-12-31 23:59:59z"]
MOMENTS += ["2020-02-29 12:30:00,1234567890123456789 -03", "2020-02-29 ", "\u00a02020-02-29", "2020-02-29 12:30 +25"]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from([*NUMBERS, *MOMENTS]) | TEXTS, min_size=1, max_size=30),
    st.sampled_from([".", ","]),
    st.booleans(),
)
def test_one_look_agrees_with_every_reader(texts, decimal, pointed):
    """Numbers, times, missing cells and hashes; of strings, of a slice of them, and of a dictionary."""
    written = Written(("?", "NA", "-1", "inf"), decimal)
    whole = strings([None, "12", *texts])
    values, strange = written.values(strings(texts), pointed=pointed)
    seconds, _ = times.seconds_in(strings(texts), written)
    present = written.present(strings(texts))
    for column in (
        strings(texts),
        whole.slice(2),
        strings(texts).dictionary_encode(),
        whole.dictionary_encode().slice(2),
    ):
        told = Told(column, written, pointed=pointed, hashes=True)
        at = told.indices
        assert told.missing[at].tolist() == present.is_null().to_pylist()
        numbers, moments = np.append(told.numbers, False)[at], np.append(told.times, False)[at]
        assert numbers.tolist() == (~told.missing[at] & ~strange).tolist()
        assert moments.tolist() == (~np.isnan(seconds)).tolist()
        found = np.append(told.values, np.nan)[at]
        np.testing.assert_array_equal(np.where(numbers, found, np.nan), values)
        np.testing.assert_array_equal(np.where(moments, found, np.nan), seconds)
        hashes = np.append(told.hashes, 0)[at].tolist()
        assert [h for h, text in zip(hashes, present.to_pylist(), strict=True) if text is not None] == [
            hash_of(text) for text in present.to_pylist() if text is not None
        ]
        assert told.weights.sum() == len(texts)


UNITS = st.sampled_from(["s", "ms", "us", "ns"])
TYPES = st.builds(pa.timestamp, UNITS, st.sampled_from([None, "UTC", "Asia/Tokyo"])) | st.just(pa.date32())
# around 1970, at the ends of years with four digits, and at the limits of the types
WHEN = st.integers(-(10**6), 10**6) | st.sampled_from([-719162, -719163, 2932896, 2932897, 253402300799, 253402300800])
WHEN |= st.integers(-(2**63), 2**63 - 1)
MARKERS = st.lists(
    st.sampled_from(["1970-01-02", "1970-01-01 00:00:00", "0001-01-01", "-0001-12-31", "1970-01-01 00:00:00Z", "?"]),
    max_size=3,
)


@settings(max_examples=150, deadline=None)
@given(TYPES, st.lists(WHEN | st.none(), max_size=12), MARKERS)
def test_dates_and_times_mean_what_their_texts_mean(kind, when, markers):
    if kind == pa.date32():
        when = [None if x is None else x % 2**24 - 2**23 for x in when]
        moments = pa.array(when, pa.int32()).cast(kind)
    else:
        moments = pa.array(when, pa.int64()).cast(kind)
    written = Written(markers)
    expected, found = Told(written_out(moments), written), Told(moments, written)
    np.testing.assert_array_equal(found.cells, expected.cells)
    np.testing.assert_array_equal(found.values, expected.values)
    assert found.present.equals(expected.present)
    assert found.indices.tolist() == expected.indices.tolist()
    assert found.each
    hashed = Told(moments, written, hashes=True)
    there = hashed.cells != MISSING
    assert hashed.hashes[there].tolist() == Told(written_out(moments), written, hashes=True).hashes[there].tolist()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats() | st.sampled_from([-1.0, 2.0, math.inf, -9.5]) | st.none(), max_size=20), st.booleans())
def test_doubles_mean_what_their_texts_mean(values, comma):
    """Also where numbers count as missing: by their text or by their value."""
    written = Written(("-1", "2.0", "inf", "-9.5"), "," if comma else ".")
    texts = [None if x is None or math.isnan(x) else repr(x) for x in values]
    written_out = Told(strings(texts), written, pointed=True, hashes=True)
    told = Told(pa.array(values, pa.float64()), written, pointed=True, hashes=True)
    for name in ("values", "missing", "times", "numbers", "weights"):
        np.testing.assert_array_equal(getattr(told, name), getattr(written_out, name), name)
    assert told.present == written_out.present
    some = ~told.missing[:-1]
    assert told.hashes[some].tolist() == written_out.hashes[some].tolist()


def test_strings_of_some_rows_are_left_out():
    column = blanked(strings(["a", None, "", "b"]), np.array([True, False, False, False]))
    assert (column.type, column.to_pylist()) == (pa.string(), [None, None, "", "b"])


@settings(deadline=None, max_examples=50)
@given(st.lists(TEXTS | st.text(st.characters(exclude_categories=["Cs"]), max_size=70), min_size=1, max_size=5))
def test_thresholds_are_those_of_the_bytes(texts):
    printable = [all(32 <= byte < 127 for byte in text.encode()) for text in texts]
    like = ["\0a"[plain] * len(text.encode()) for text, plain in zip(texts, printable, strict=True)]
    bounds = thresholds(strings(texts), 3.0)
    np.testing.assert_array_equal(bounds, thresholds(strings(like), 3.0))
    assert (~np.isnan(bounds)).tolist() == [0 < len(text.encode()) <= LONGEST for text in texts]
    assert bounds.tobytes() == b"".join(thresholds(strings([text]), 3.0).tobytes() for text in texts)
    part = strings(["\xe9", *texts, "", "\xe9"])[1:-1]  # does not start at the first byte of its buffer
    assert thresholds(part, 3.0).tobytes() == np.append(bounds, np.nan).tobytes()
