"""A dict encoded alone equals its row in a block to the last bit; what a block refuses is left to the block."""

from __future__ import annotations

import random
import threading
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pytest

from privol._core._rows import named_row, plain_row
from privol.encoding.encode import SchemaEncoder
from privol.encoding.row_codes import MOST_WIDTH, one_row_code
from privol.encoding.schema import Schema
from privol.encoding.schema_parts import Drop, Hashed, Knots, Levels, NumberColumn
from privol.errors import StreamError
from privol.readers.frames import DictColumns

KNOTS = (-2.0, -1.0, 0.0, 0.5, 1.0, 2.0)
DAYS = (1.5e9, 1.6e9, 1.7e9)
COLUMNS = {
    "plain": NumberColumn(missing="zero"),
    "linear": NumberColumn(range=(-3.0, 7.0), missing="indicator"),
    "log": NumberColumn(range=(0.5, 70.0), scaling="log", missing=3.0),
    "moved": NumberColumn(range=(-1e300, 1e308), onto=(0.25, 1.0), missing="zero"),
    "needed": NumberColumn(range=(-3.0, 7.0)),
    "town": Levels(cells=(("Oslo", "Oslo"), ("Bergen", "west"), (7, "seven"), (1.5, "half")), unknown="zero"),
    "strict": Levels(cells=(("a", "a"), ("b", "b")), missing="refuse", unknown="refuse"),
    "code": Hashed(buckets=16),
    "kept": Hashed(buckets=32, kept=(1, 5, 9), rest=2, reference=3, means=tuple([0.01] * 6)),
    "few": Hashed(buckets=32, kept=(1, 5, 9), missing="zero"),
    "wave": Knots(knots=KNOTS, shape="cosine", means=(0.1, 0.2, 0.0, -0.3, 0.1, 0.5)),
    "odd": Knots(knots=(-1.7e308, 0.0, 1.7e308), shape="cosine", missing="zero"),
    "hats": Knots(knots=KNOTS, shape="spline"),
    "wide": Knots(knots=(-1.7e308, 0.0, 1.7e308), shape="spline", missing="zero", means=(0.1, 0.2, 0.3)),
    "line": Knots(knots=KNOTS, shape="linear"),
    "bins": Knots(knots=KNOTS, shape="bins"),
    "apart": Knots(knots=(1.0, 1.0), shape="apart"),
    "when": Knots(knots=DAYS, shape="cosine", timestamp=True, cycles=("day", "week", "year")),
    "then": Knots(knots=DAYS, shape="spline", timestamp=True, cycles=("day",), missing="zero"),
    "gone": Drop(),
}
CROSSES = ("town", "code"), ("wave", "kept"), ("hats", "bins"), ("when", "few")
FILES = ({}, {"missing": ("?", "-999", "7.50", "NA", "nan", "2020-01-01")}, {"decimal": ",", "missing": ("1.5", "2,5")})
CELLS = [
    None, "", "  ", "?", "-999", " -999 ", -999, -999.0, 7.5, "7.5", "7.50", "NA", "nan", "NaN", "inf", float("nan"),
    float("inf"), float("-inf"), 0, 0.0, -0.0, 1, 1.0, True, False, 1.5, "1.5", "1,5", "2,5", 2.5, "1e3", "+4", ".5",
    "5.", "1_0", "Oslo", " Oslo", "Bergen ", "a", "b", "c", "Zürich", "東京", "7", 7, 7.0, "true", "1e400", "12" * 12,
    2**53, 2**53 + 1, 10**30, -(10**310), 1e300, 1e-300, 5e-324, 1.7e308, -1.7e308, 0.1, 1 / 3, 6.999999999999999,
    "2020-01-01", "2021-05-06 07:08:09", "2021-05-06T07:08:09.25Z", "2021-05-06T07:08+02:00", "2021-13-01",
    date(2020, 1, 1), datetime(2021, 5, 6, 7, 8, 9, 250000), datetime(2021, 5, 6, tzinfo=UTC), np.float64(0.3),
    np.float32(0.3), np.int64(3), np.bool_(True), np.str_("Oslo"), Decimal("0.5"), "\ud800", object(), [1], 1 + 2j,
    "x" * 100, "\u00a0Oslo", "\u00a01.5", "１", "infinity", "-inf",
]  # fmt: skip


def encoder(columns, file, crosses=()):
    schema = Schema(
        columns=tuple(columns.items()), crosses=crosses, file_options=tuple({"missing": (), **file}.items())
    )
    return SchemaEncoder(schema, DictColumns(dict.fromkeys(columns), iter(()), []), target=False)


def in_block(made, names, rows):
    """Features of rows through a block of them; None where one is refused."""
    columns = DictColumns(dict.fromkeys(names), iter(()), rows)
    made = made.reading(columns)
    try:
        (found,) = [made.encode(batch, 1).X for batch in columns.batches(made.kinds, len(rows), lambda _: None)]
    except (StreamError, UnicodeEncodeError):
        return None
    return found.toarray() if made.sparse else found


def rows_of(names, seed, n):
    """Rows with cells of all kinds, some keys missing or unknown, and rows whose cells are nearly all usual."""
    rng = random.Random(seed)
    usual = {"needed": lambda: rng.gauss(0, 3), "strict": lambda: rng.choice("ab")}
    for k in range(n):
        row = {name: rng.choice(CELLS) for name in names if rng.random() < (0.9 if k % 2 else 0.3)}
        if k % 5:
            row |= {name: usual[name]() for name in usual if name in names}
        if k % 3:
            row |= {name: rng.gauss(0, 2) for name in names if name not in usual and rng.random() < 0.5}
        items = list(row.items())
        rng.shuffle(items)
        yield dict(items) | ({"else": 1.0} if k % 50 == 0 else {})


def check(made, names, rows):
    """Compare rows that are encoded alone with a block, and check why the others are not; return how many."""
    code = one_row_code(made, names)
    taken = []
    for row in rows:
        found = code.row(row)
        if found is not None:
            assert found.shape == (made.n_features,)
            taken.append((row, found))
        elif (
            expected := in_block(made, names, [row])
        ) is not None:  # a cell of a rare type, or one for a learner to refuse
            rare = any(is_rare(cell) for cell in row.values())
            assert rare or not np.isfinite(expected).all() or (np.abs(expected) > 1e150).any(), row
    expected = in_block(made, names, [row for row, _ in taken])
    assert expected is not None
    zero = 0.0 if made.sparse else -0.0  # in sparse rows -0 and an absent value are one value
    for (row, found), wanted in zip(taken, expected, strict=True):
        np.testing.assert_array_equal((found + zero).view(np.int64), (wanted + zero).view(np.int64), str(row))
    return len(taken)


def is_rare(cell):
    """Whether a cell is not among those that every column reads without a block."""
    plain = type(cell) in (str, float, bool, type(None)) or (type(cell) is int and abs(cell) <= 2**53)
    words = "1e400", "12" * 12, "nan", "NaN", "inf", "-inf", "infinity"  # C leaves these to other readers
    return not plain or (isinstance(cell, str) and not cell.strip(" \t").isascii()) or cell in words


@pytest.mark.parametrize("file", FILES, ids=["plain", "markers", "comma"])
@pytest.mark.parametrize("name", COLUMNS)
def test_each_kind_of_column(name, file):
    """Cells of every kind, one after another."""
    columns = {name: COLUMNS[name]} | ({"plain": NumberColumn(missing="zero")} if name == "gone" else {})
    made = encoder(columns, file)
    rows = [{name: cell} for cell in CELLS] + [{}, {"else": 1.0}, {name: 1.0, "else": None}]
    rows += [{name: random.Random(k).gauss(0, 2)} for k in range(20)]
    assert check(made, list(columns), rows + rows[:20]) > (1 if name == "strict" else 30)


@pytest.mark.parametrize("file", FILES, ids=["plain", "markers", "comma"])
@pytest.mark.parametrize("crosses", [(), CROSSES], ids=["alone", "crossed"])
def test_whole_rows(file, crosses):
    made = encoder(COLUMNS, file, crosses)
    assert not made.sparse
    assert check(made, list(COLUMNS), rows_of(list(COLUMNS), 1, 150)) > 5
    tame = {name: column for name, column in COLUMNS.items() if name not in ("needed", "strict")}
    assert check(encoder(tame, file, crosses), list(tame), rows_of(list(tame), 2, 300)) > 20


def copied(name):
    """An equal text that is another object."""
    return "".join(list(name))


def in_every_order(names):
    """Rows whose names are the same objects in the same order, then other objects, then the same in another order."""
    rng = random.Random(4)
    for k in range(60):
        row = {name: rng.gauss(0, 2) for name in names}
        yield row
        yield {copied(name): row[name] for name in names}
        yield {name if j != k % len(names) else copied(name): row[name] for j, name in enumerate(names)}
        yield {name: row[name] for name in names if name != names[k % len(names)]}
        yield dict(sorted(row.items(), key=lambda _: rng.random()))
        yield {"else": 1.0} | row
        yield row | {"else": 1.0}


def test_rows_need_not_have_the_names_of_the_first_row_in_its_order():
    names = [copied(f"column {j}") for j in range(5)]
    columns = {name: COLUMNS["wave"] if j % 2 else NumberColumn(missing="zero") for j, name in enumerate(names)}
    rows = list(in_every_order(names))
    assert check(encoder(columns, {}), [*reversed(names), "else"], rows) == len(rows)


def test_named_rows_need_not_be_in_the_order_of_their_names():
    names = tuple(copied(f"column {j}") for j in range(5))
    for row in in_every_order(names):
        found = named_row(row, names)
        if set(row) == set(names):
            assert found.tolist() == [row[name] for name in names]
        else:
            assert found is None


def test_sparse_rows_have_the_same_values():
    columns = {"code": Hashed(buckets=300), "town": COLUMNS["town"], "few": Hashed(buckets=200), "x": NumberColumn()}
    made = encoder(columns, {})
    assert made.sparse
    rng = random.Random(3)
    rows = [
        {"code": rng.choice(CELLS), "town": rng.choice(CELLS), "few": str(k), "x": rng.gauss(0, 1)} for k in range(200)
    ]
    assert check(made, list(columns), rows) > 100


def test_texts_are_forgotten_and_found_again(monkeypatch):
    made = encoder({"code": Hashed(buckets=16)}, {})
    code = one_row_code(made, ["code"])
    many = [{"code": f"text {k}"} for k in range((1 << 16) + 10)]
    first = [code.row(row).argmax() for row in many[:100]]
    for row in many:
        code.row(row)
    assert [code.row(row).argmax() for row in many[:100]] == first


def test_other_mappings_and_rows_are_left_to_blocks():
    made = encoder({"plain": NumberColumn(missing="zero")}, {})
    code = one_row_code(made, ["plain"])

    class Own(dict):
        pass

    for row in (Own(plain=1.0), [1.0], None, "plain"):
        assert code.row(row) is None
    assert code.row({"plain": 1.0}) == [1.0]
    assert code.row({1: 2.0}) is None


def test_rows_that_are_too_wide_have_no_short_path():
    assert one_row_code(encoder({"code": Hashed(buckets=MOST_WIDTH + 1)}, {}), ["code"]) is None


def test_two_threads_at_once():
    """One of them holds the row, the other does not: never a mixture of both."""
    made = encoder({"code": Hashed(buckets=64), "log": COLUMNS["log"]}, {})
    code = one_row_code(made, ["code", "log"])
    wrong = []

    def ask(of):
        expected = in_block(made, ["code", "log"], [{"code": of, "log": float(len(of))}])[0]
        for _ in range(1500):
            found = code.row({"code": of, "log": float(len(of))})
            if found is not None and (found != expected).any():
                wrong.append(of)

    threads = [threading.Thread(target=ask, args=(text,)) for text in ("one", "twenty", "three hundred")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_plain_rows():
    names = frozenset(["a", "b"])
    assert plain_row({"a": 1.0, "b": "Zürich"}, names, ())
    assert plain_row({"a": None, "b": 2**53}, names, ("b",))
    assert plain_row({}, names, ("a",))
    for row in ({"c": 1.0}, {"a": [1]}, {"a": 2**53 + 1}, {"a": "\ud800"}, {"a": np.float64(1)}, [1.0], None):
        assert not plain_row(row, names, ())
    assert not plain_row({"b": "1.0"}, names, ("b",))
