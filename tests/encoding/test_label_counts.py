"""Labels counted in bulk equal labels counted one by one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow
import pytest

from privol.encoding import label_counts
from privol.encoding.label_counts import LabelCounts, label_texts
from privol.encoding.labels import label_text
from privol.encoding.told import Told
from privol.readers.written import Written

WRITTEN = Written(("NA", "-999", "0.5"))
ODD = [
    *("0", "-0", "+0", "00", "01", "1", "1.0", "+1", "-1", "1.", ".5", "-.5", "0.50", "10.0", "1.50", "0.0001"),
    *("0.00012", "0.00001", "-0.0001", "1e5", "1E5", "1e-5", "1e400", "1_000", "1_0.5", "123456789012345"),
    *("1234567890123456", "9007199254740993", "0.123456789012345", "0.12345678901234567", "1234567890.12345"),
    *("12345678901.123456", "-12345678901.1234", "true", "True", "TRUE", "truest", "t", "false", "fAlse", "f"),
    *("nan", "NaN", "inf", "-Infinity", "infinity", "abc", "a1", "A-b", "P0001", "1a", "2020-01-01"),
    *("\u0661\u0662", "\xe9t\xe9", "t\xe9", "-", ".", "+", "e5", "E5", "-999", "-999.0", "999", "0,5", "1,5"),
]


def texts():
    rng = np.random.default_rng(0)
    doubles = rng.integers(0, 2**63, 20_000, dtype=np.uint64).view(np.float64)
    near = rng.normal(size=20_000) * 10.0 ** rng.integers(-8, 20, 20_000)
    short = [f"{x:.{k}f}" for x, k in zip(near[:4000], rng.integers(0, 12, 4000), strict=True)]
    return [*ODD, "a b", " 1 ", "two  words", "1 2", *map(repr, np.concatenate([doubles, near]).tolist()), *short]


@pytest.mark.parametrize("n", [60, 50_000])
def test_texts_are_those_of_one_label_each(n):
    given = texts()[:n]
    found = label_texts(Told(pyarrow.array(given), WRITTEN)).to_pylist()
    missing = {"NA", "-999", "0.5"}
    assert found == [None if text.strip() in missing else label_text(text) for text in given]


@pytest.mark.parametrize("n", [60, 44_000])
def test_doubles_are_as_their_texts(n):
    values = [x for x in map(float, texts()[-n:]) if x == x]
    values += [0.0, -0.0, 0.5, -999.0, 1.0, 1e15, 1e16, 2.0**53, 2.0**53 - 1, 1e22, 1e-4, 1e-5, np.inf, -np.inf, 5e-324]
    found = label_texts(Told(pyarrow.array([*values, np.nan, None]), WRITTEN)).to_pylist()
    assert found == [None if x == 0.5 else label_text(repr(x)) for x in values] + [None, None]
    assert "-999" in found  # the marker is that text, not this number


@pytest.mark.parametrize("few", [0, 10, 1 << 20])
def test_rows_are_counted(monkeypatch, few):
    """However many batches are counted together; a dictionary by its rows, and only those texts that occur."""
    monkeypatch.setattr(label_counts, "_FEW", few)
    rng = np.random.default_rng(1)
    counts, expected = LabelCounts(), Counter()
    for n in (1, 50, 0, 200):
        given = rng.choice([*ODD, None], n).tolist()
        column = pyarrow.array(given, "string")
        if n == 50:
            column = pyarrow.array([*given, "no row"], "string").dictionary_encode()[:-1]
        counts.add(Told(column, WRITTEN))
        expected.update(label_text(text) for text in given if text is not None and text not in ("NA", "-999", "0.5"))
    assert counts.found() == expected
    found, rows = counts.sorted()
    assert found.to_pylist() == sorted(expected)
    assert rows.tolist() == [expected[text] for text in sorted(expected)]
    counts.clear()
    assert counts.found() == {}


@pytest.mark.parametrize("few", [0, 10, 1 << 20])
@pytest.mark.parametrize("names", [[], ["1", "1.0", "a", "2.5"]])
def test_rows_of_doubles_are_counted(monkeypatch, few, names):
    """As for their texts, however many batches are counted together, and together with batches of texts."""
    monkeypatch.setattr(label_counts, "_FEW", few)
    monkeypatch.setattr(label_counts, "_PIECE", 16)
    rng = np.random.default_rng(3)
    counts, expected = LabelCounts(), Counter()
    some = [0.0, -0.0, 1.0, 2.5, 0.5, -999.0, 0.1, 1e-5, 1e16, 2.0**53, np.inf, -np.inf, np.nan, *rng.normal(size=40)]
    for n in (1, 50, 0, 200):
        given = rng.choice(some, n)
        counts.add(Told(pyarrow.array(given), WRITTEN))
        expected.update(label_text(repr(x)) for x in given.tolist() if x == x and x != 0.5)
        if n == 50 and names:
            counts.add(Told(pyarrow.array(names), WRITTEN))
            expected.update(map(label_text, names))
    found, rows = counts.sorted()
    assert found.to_pylist() == sorted(expected)
    assert rows.tolist() == [expected[text] for text in sorted(expected)]
    counts.clear()
    assert counts.found() == {}


@pytest.mark.parametrize("decimal", [".", ","])
def test_numbers_as_text_are_labels_by_their_value(decimal):
    """Where their mark is a point: Python reads no other."""
    counts = LabelCounts()
    counts.add(Told(pyarrow.array([], "string"), Written((), decimal)))
    assert counts.found() == {}
    given = ["1,5", "2", "2", " 2"] if decimal == "," else ["1.5", "2", "2.0", " +2", "02", "-0", "0"]
    counts.add(Told(pyarrow.array(given).dictionary_encode(), Written((), decimal)))
    counts.add(Told(pyarrow.array(["2"]), Written((), decimal)))
    assert counts.found() == ({"1,5": 1, "2": 4} if decimal == "," else {"1.5": 1, "2": 5, "0": 2})


@pytest.mark.parametrize("n", [100, 3000])
def test_labels_are_in_the_order_of_their_bytes(n):
    """Noise is addressed by a label's position: many are sorted by their first bytes, few by all of them."""
    rng = np.random.default_rng(2)
    begun = [
        "",
        "\0",
        "\0\0",
        "a",
        "a\0",
        "a\0b",
        "abcdefg",
        "abcdefgh",
        "abcdefgh\0",
        "\x7f",
        "\xff",
        "\u20ac",
        "\U0001f600",
    ]
    ends = ["", "\0", *"0129z", "\xe9", "\uffff", *map(str, rng.integers(0, 10**9, 500).tolist())]
    given = sorted({a + b for a in begun for b in ends})
    shuffled = [given[k] for k in rng.permutation(len(given))[:n].tolist()]
    texts = pyarrow.array(["before", *shuffled, "behind"], "large_string")[1:-1]
    assert len(texts) == n  # above and below the limit for sorting by all bytes
    found = texts.take(pyarrow.array(label_counts._order(texts))).to_pylist()
    assert found == sorted(shuffled, key=str.encode)
    assert label_counts._order(pyarrow.array([""] * 300, "large_string")).tolist() == list(range(300))
