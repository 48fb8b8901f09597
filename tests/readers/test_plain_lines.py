"""Plain CSV and libsvm read by kernels: the columns and rows equal those of the general readers."""

import numpy as np
import pyarrow as pa
import pytest

from privol import open_stream
from privol._core._plain import filled_lines, read_csv, read_svm, scan_svm
from privol._core._text import Form
from privol.errors import InvalidParameter, StreamError
from privol.readers import libsvm, plain_csv
from privol.readers.csv import CsvColumns
from privol.readers.csv_text import CsvOptions, Dialect
from privol.readers.files import LineFile

KINDS = {"a": "number", "c": "text", "b": "number", "d": "cells"}
USUAL = ["0", "1", "-7", " 2.50 ", "1e-3", "+4", "", "?", " NA", "-0", "12345678.12345678901", "0.1", "1E5", "5.", ".5"]
ODD = ["NaN", "\t8", "é", "12345678901234567890", "1.7976931348623157e308", "x y", ' "q"', "0.30000000000000004"]
ODD += ["inf", "0,5", "1.5.2", "\u00a07"]


def columns(path, **options):
    words = {"names": ("a", "b", "c", "d"), "missing": ("?", "NA", "-7"), **options}
    return CsvColumns(LineFile(path), CsvOptions(**words), target=False, labels=None)


def read(path, **options):
    """The whole columns with the bits of their numbers, or the error."""
    try:
        source = columns(path, **options)
        found = list(source.batches(KINDS, 100, lambda _: None))
    except StreamError as err:
        return str(err)
    assert source.count() == sum(batch.num_rows for batch in found)
    whole = {}
    for name, kind in KINDS.items():
        column = pa.chunked_array([batch.column(name) for batch in found])
        assert str(column.type) == {"number": "double", "cells": "string"}.get(kind, str(column.type))
        assert kind != "text" or column.type == pa.dictionary(pa.int32(), pa.string())
        cells = column.to_pylist()
        if kind == "cells":  # code that reads these knows the markers
            cells = [None if cell is None or cell.strip() in ("", "?", "NA", "-7") else cell for cell in cells]
        whole[name] = [cell.hex() if isinstance(cell, float) else cell for cell in cells]
    return whole


@pytest.mark.parametrize("sep", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_both_csv_readers_agree(tmp_path, monkeypatch, sep, end):
    rng = np.random.default_rng(5)
    path, parts = tmp_path / "d.csv", 0
    batches = plain_csv.PlainCsv.batches

    def counted(*args):
        nonlocal parts
        for found in batches(*args):
            parts += 1
            yield found

    for trial in range(80):
        cells = USUAL if trial % 3 else USUAL + ODD
        lines = [sep.join(rng.choice(cells, 4)) for _ in range(rng.integers(1, 30))]
        path.write_text("".join(line + end * rng.integers(1, 3) for line in lines), newline="", encoding="utf-8")
        monkeypatch.setattr(plain_csv, "PART_BYTES", int(rng.integers(1, 90)))
        options = {"sep": sep, "decimal": "," if sep == ";" and trial % 2 else "."}
        monkeypatch.setattr(plain_csv.PlainCsv, "batches", counted)
        mine = read(path, **options)
        monkeypatch.setattr(plain_csv.PlainCsv, "batches", lambda *_: iter(()))
        assert mine == read(path, **options), path.read_bytes()
    assert parts > 100


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("1,2\n", "row 3: found 2 field"),
        ("1,2,3,4,5\n", "row 3: found 5 field"),
        ("1,x,3,4\n", "row 3, column 'b': found 'x'"),
        ("1,1_0,3,4\n", "row 3, column 'b': found '1_0'"),
        ('1,2,"3,4\n', "row 3, column 2: a quoted cell has no closing quote"),
        ("1,2,3,\xff\n", "row 3, column 'd': found '.', allowed is text"),
    ],
)
def test_errors_name_the_right_row_after_plain_ones(tmp_path, monkeypatch, bad, said):
    monkeypatch.setattr(plain_csv, "PART_BYTES", 10)
    path = tmp_path / "d.csv"
    path.write_bytes(b"1,2,3,4\n4,5,6,7\n" + bad.encode("latin-1") + b"7,8,9,0\n")
    with pytest.raises(StreamError, match=said):
        list(columns(path).batches(KINDS, 100, lambda _: None))


def test_a_plain_reader_stops_before_an_unusual_part(tmp_path, monkeypatch):
    (tmp_path / "d.csv").write_text("1,2,3,4\n")
    plain = columns(tmp_path / "d.csv")._plain
    monkeypatch.setattr(plain_csv, "PART_BYTES", 8)
    good = b"1,2,3,4\n5,6,7,8\n"
    assert [stop for _, stop in plain.batches(good, KINDS)] == [8, 16]
    for odd in (b"1,nan,3,4\n", b"1,2,3\n", b"1,2,3,4\r5,6,7,8\n", b"\xff,2,3,4\n"):
        assert [stop for _, stop in plain.batches(good + odd + good, KINDS)] == [8, 16]
    assert not list(plain.batches(good + b'1,2,"3",4\n', KINDS))
    (tmp_path / "e.csv").write_text("1e2\n")
    assert not list(columns(tmp_path / "e.csv", sep="e", names=("a", "b"))._plain.batches(b"1e2\n", {"a": "number"}))


def test_lines_are_counted_as_they_are_read():
    dialect = Dialect(",", None, newlines=False)
    rng = np.random.default_rng(4)
    for _ in range(300):
        text = b"".join(rng.choice([b"\n", b"\r\n", b"1,2", b" ", b"\r"], rng.integers(1, 9)).tolist())
        assert dialect.count(text) == sum(1 for _ in dialect.records(text)), text
    assert filled_lines(b" \n\t\n1", blanks=True) == 1


def test_both_libsvm_readers_agree(tmp_path, monkeypatch):
    rng = np.random.default_rng(6)
    path, plain = tmp_path / "d.svm", 0
    pairs = ["1:2", "3:-4.5e2", "4:0", "9:0.30000000000000004", "12:.5"]
    for trial in range(60):
        lines = ["1 2:3"]
        for _ in range(rng.integers(0, 30)):
            some = [pair for pair in pairs if rng.random() < 0.5]
            lines.append(" ".join([str(rng.choice(["1", "-1", "+1", "0.5"])), *some]) + str(rng.choice(["", " "])))
        if trial % 4 == 0:
            lines.append("1 2:nan # comment" if trial % 8 else "1 qid:3 2:1")
        path.write_text("\n".join(lines) + "\n" * int(rng.integers(3)))
        plain += read_svm(path.read_bytes(), 1, 20) is not None
        mine = open_stream(path)
        rows = [(block.X.toarray(), block.y) for block in mine]
        with monkeypatch.context() as patch:
            patch.setattr(libsvm, "scan_svm", lambda *_: None)
            patch.setattr(libsvm, "read_svm", lambda *_: None)
            other = open_stream(path)
            others = [(block.X.toarray(), block.y) for block in other]
        assert (mine.n_features, mine.n_rows) == (other.n_features, len(lines))
        for part in (0, 1):
            np.testing.assert_array_equal(
                *(np.concatenate([block[part] for block in found]) for found in (rows, others))
            )
        assert mine.count_rows() == len(lines)
    assert plain > 20


@pytest.mark.parametrize(
    "text", [b"1 2:3 2:4\n", b"1 9:1\n", b"1 0:1\n", b"1 2:3 # a\n", b"1 2:3\r4 5:6\n", b"x 1:2\n"]
)
def test_unusual_rows_of_pairs_are_left_to_another_reader(text):
    assert read_svm(b"1 1:2 8:3\n", 1, 8) is not None
    assert read_svm(b"1 1:2 8:3\n" + text, 1, 8) is None


def test_kernels_refuse_unsupported_input():
    form = Form([], b".")
    for at, sep in ((np.zeros(0, np.int32), b","), (np.zeros(1, np.int32), b",,")):
        with pytest.raises(InvalidParameter, match="at least one column and one separator"):
            read_csv(form, b"1", sep, at)
    with pytest.raises(InvalidParameter, match="n_features must be from 1"):
        read_svm(b"1", 0, 0)
    assert scan_svm(b"") is None
    assert scan_svm(b"1\n-1\n")[2] == 2


def test_doubled_quotes_and_halves_of_line_ends():
    dialect = Dialect(",", None, True)
    assert dialect.cells(b'"a""b",c,"d"e') == ([b'a"b', b"c", b"de"], True)
    assert dialect.cells(b'c,"a""b') == ([b"c", b'"a""b'], False)
    for text, end in ((b'"a"\r', 0), (b'"a"\r\n', 5), (b'"a"\rb', 4), (b'"a"\n"b"\r', 4), (b'"a\n', 0)):
        assert dialect.end(text) == end
