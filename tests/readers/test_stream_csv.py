"""CSV in real use: separators, quotes, comments, markers, encodings, and errors that name the row."""

from __future__ import annotations

import gzip
import math
import tracemalloc

import pytest
from stream_files import drain, fails, together, write

from privol.errors import InvalidParameter, StreamError
from privol.readers import csv as csv_reader
from privol.readers import files as text_files
from privol.readers.csv import CsvColumns, CsvOptions
from privol.readers.files import LineFile
from privol.streams import open_stream

pytest.importorskip("pyarrow")


def opened(folder, text, name="d.csv", **options):
    return CsvColumns(LineFile(write(folder, name, text)), CsvOptions(**options), target=None, labels=None)


def read(columns, *kinds):
    """All rows, with the kinds by their first letters in the order of the columns ("-": not requested)."""
    words = {"n": "number", "t": "text"}
    wanted = {name: words[k] for name, k in zip(columns.names, kinds[0], strict=True) if k != "-"}
    rows = []
    for batch in columns.batches(wanted, 1000, lambda _: None):
        assert batch.schema.names == list(wanted)
        rows += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    assert columns.count() == len(rows)
    return rows


# --- separators ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("d.csv", "a;b;c\n1;2;3\n", 3),
        ("d.csv", "a\tb\n1\t2\n", 2),
        ("d.csv", "a|b\n1|2\n", 2),
        ("d.csv", "a,b\n1,2\n", 2),
        ("d.csv", "1,5;2,5;0\n3,5;4,5;1\n", 3),  # with decimal commas, a comma also cuts consistently
        ("d.csv", "a,b,c\nx;y,1,2\nz,3,4\n", 3),  # an occasional semicolon is text
        ("d.csv", '"a;b";c\n"1;2";3\n', 2),
        ("d.tsv", "a,b\tc\n1,2\t3\n", 2),
        ("d.tsv.gz", "a,b\tc\n1,2\t3\n", 2),
        ("d.csv", "a,b\n1;2;3,4\n5;6;7,8", 2),
        ("d.csv", "word\nother\n", 1),
    ],
)
def test_the_separator_is_told_from_the_first_lines_or_the_name(tmp_path, name, text, columns):
    assert len(opened(tmp_path, text, name).names) == columns


def test_a_wrong_separator_is_an_error_that_suggests_the_right_one(tmp_path):
    path = write(tmp_path, "d.csv", "a;b\n1;2\n")
    fails(lambda: open_stream(path, sep=","), "only one column", "separated by ';'", "sep=';'")
    fails(lambda: open_stream(write(tmp_path, "d.tsv", "a,b\n1,2\n")), "only one column", "sep=','")
    columns = opened(tmp_path, "1,5;2\n3,5;4\n5;4\n", sep=",")
    fails(lambda: read(columns, "tt"), "row 3", "1 field(s)", "sep=';'", row=3)


# --- cells ---------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_quotes_line_ends_and_a_byte_order_mark(tmp_path, monkeypatch, end, chunk):
    monkeypatch.setattr(text_files, "CHUNK_BYTES", chunk)
    lines = ['\ufeff"a, 1",b', '"say ""so""",1', '"x"y,"2"', 'z"q"", 3 ', "", '"",4']
    columns = opened(tmp_path, end.join(lines), header=True)
    assert columns.names == ("a, 1", "b")
    assert read(columns, "tn") == [('say "so"', 1), ("xy", 2), ('z"q""', 3), (None, 4)]


def test_quotes_are_no_part_of_a_text(tmp_path):
    path = write(tmp_path, "d.csv", 't,x\n"a",1\n"a ""b""",2\na,0\n')
    columns = {"t": {"levels": ["a", 'a "b"'], "unknown": "refuse"}, "x": {"range": [0, 2]}}
    (block,) = open_stream(path, schema={"columns": columns}, target=False)
    assert block.X[:, -1].tolist() == [0.0, 1.0, -1.0]


def test_line_breaks_inside_quotes(tmp_path, monkeypatch):
    text = 'a,b\n"one\ntwo",1\n5" pipe,2\n"x""\r\n""\n",3\n'
    columns = opened(tmp_path, text)
    message = fails(lambda: read(columns, "tn"), "row 1", "column 0", "newlines_in_values = true", row=1)
    assert "two" not in message
    for chunk in (1, 10, 1 << 20):
        monkeypatch.setattr(text_files, "CHUNK_BYTES", chunk)
        columns = opened(tmp_path, text, newlines_in_values=True)
        assert read(columns, "tn") == [("one\ntwo", 1), ('5" pipe', 2), ('x"\r\n"\n', 3)]
    unclosed = opened(tmp_path, 'a,b\n1,2\n"3,4\n5,6\n', newlines_in_values=True)
    fails(lambda: read(unclosed, "tt"), "row 2", "no closing quote", row=2)


def test_a_quote_open_at_the_end_of_a_parsers_block_is_seen(tmp_path, monkeypatch):
    # pyarrow alone takes the cell up to the end of its block
    monkeypatch.setattr(csv_reader, "PARSE_BYTES", 24)
    columns = opened(tmp_path, 'a,b\n1,"2\n3,4\n')
    fails(lambda: read(columns, "nn"), "row 1", "no closing quote", row=1)
    fails(lambda: read(opened(tmp_path, 'a,b\n3,4\n1,"2'), "nn"), "row 2", "no closing quote", row=2)


@pytest.mark.parametrize("chunk", [1, 9, 1 << 20])
def test_comments_are_not_rows(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(text_files, "CHUNK_BYTES", chunk)
    text = '|1x3 Cross "validator\n1,a\n|2,b\n2,"|c"\r\n|\r\n3,d\n|end'
    assert read(opened(tmp_path, text, comment="|"), "nt") == [(1, "a"), (2, "|c"), (3, "d")]
    quoted = '#x\n1,"a\n#b"\n#"c\n2,d\n'
    assert read(opened(tmp_path, quoted, comment="#", newlines_in_values=True), "nt") == [(1, "a\n#b"), (2, "d")]
    fails(lambda: read(opened(tmp_path, "1,2\n#x\n3,x\n", comment="#"), "nn"), "row 2", "'x'", row=2)


@pytest.mark.parametrize("blanks", ["", " ", "   ", "            "])
def test_missing_markers_and_blanks(tmp_path, blanks):
    text = f"1,{blanks}?{blanks},{blanks}?{blanks}\n{blanks}2{blanks},{blanks}3{blanks}, x\n?,, \nNA,NA,NA\n"
    columns = opened(tmp_path, text, missing=("?", "NA"), header=False)
    assert read(columns, "nnt") == [(1, None, None), (2, 3, " x"), (None, None, None), (None, None, None)]
    # without the markers they are text
    plain = opened(tmp_path, text, header=False)
    assert read(plain, "-tt")[0] == (f"{blanks}?{blanks}",) * 2
    fails(lambda: read(plain, "nnt"), "row 1", "column 1", "?", "number", row=1)


def test_a_decimal_comma(tmp_path):
    text = "a;b\n1,5;x,y\n -2e3 ;\n;,5\n"
    assert read(opened(tmp_path, text, decimal=","), "nt") == [(1.5, "x,y"), (-2000, None), (None, ",5")]
    fails(lambda: read(opened(tmp_path, text, sep=";"), "nt"), "row 1", "'1,5'", 'decimal = ","', row=1)
    fails(lambda: read(opened(tmp_path, "a;b\n1,5;1\n1.5;1\n", decimal=","), "nn"), "row 2", "'1.5'", row=2)
    # also where the careful reader decides, because of the many blanks
    assert read(opened(tmp_path, "a;b\n1,5;1\n            ;?\n", decimal=",", missing=("?",)), "nn")[0] == (1.5, 1)


def test_one_byte_encodings(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "CHUNK_BYTES", 5)
    text = "naïve,prix €\nça,1\n"
    assert read(opened(tmp_path, text.encode("cp1252"), encoding="cp1252"), "tn") == [("ça", 1)]
    columns = opened(tmp_path, text.replace("€", "").encode("latin-1"), encoding="ISO-8859-1")
    assert columns.names == ("naïve", "prix")
    bad = opened(tmp_path, b"a,b\nx,1\n\x81,2\n", encoding="cp1252")
    fails(lambda: read(bad, "tn"), "row 2", "column 'a'", "CP1252", row=2)
    for codec in ("utf-16", "shift_jis", "cp037", "rot13", "no such", "utf-7", 3):
        with pytest.raises(InvalidParameter, match="encoding must be"):
            CsvOptions(encoding=codec)


@pytest.mark.parametrize(("raw", "codec"), [(b"caf\xe9", "cp1252"), (b"5 \x80", "cp1252")])
def test_a_wrong_encoding_names_row_and_column_and_suggests_another(tmp_path, raw, codec):
    columns = opened(tmp_path, b"a,b\n1,x\n2," + raw + b"\n")
    message = fails(lambda: read(columns, "nt"), "row 2", "column 'b'", "UTF-8", f'encoding="{codec}"', row=2)
    assert "5 " in message or "caf" in message
    assert read(columns, "n-") == [(1,), (2,)]  # an unrequested column is not decoded
    fails(lambda: opened(tmp_path, b"a," + raw + b"\n1,2\n"), "header", "column 1", f'encoding="{codec}"')


# --- columns -------------------------------------------------------------------------------


def test_unwanted_columns_are_not_converted(tmp_path):
    columns = opened(tmp_path, "a,b,c\n1,oops,x\n2,3,y\n")
    assert read(columns, "n-t") == [(1, "x"), (2, "y")]
    fails(lambda: read(columns, "nnt"), "row 1", "column 'b'", "'oops'", row=1)


def test_names(tmp_path):
    columns = opened(tmp_path, "1,2\n3,4\n", names=["u", "v"])
    assert (columns.names, columns.named) == (("u", "v"), True)
    assert read(columns, "nn") == [(1, 2), (3, 4)]
    fails(lambda: opened(tmp_path, "1,2\n", names=["u"]), "names under [file]", "1 column(s)", "has 2")
    fails(lambda: opened(tmp_path, "a,b,a\n1,2,3\n"), "two columns (0 and 2)", "'a'", "differ")
    fails(lambda: opened(tmp_path, "a,,\n1,2,3\n", header=True), "two columns (1 and 2)", "no name")


@pytest.mark.parametrize(
    "options",
    [
        {"sep": '"'},
        {"sep": "\n"},
        {"sep": "ab"},
        {"sep": ",", "decimal": ","},
        {"decimal": "'"},
        {"comment": ""},
        {"comment": 'a"'},
        {"missing": "?"},
        {"missing": (1,)},
        {"names": ("a", "a")},
        {"names": ("a", "b"), "header": True},
        {"header": "yes"},
        {"newlines_in_values": None},
    ],
)
def test_wrong_options(options):
    with pytest.raises(InvalidParameter):
        CsvOptions(**options)


def test_a_target_of_text_hints_at_labels_and_a_feature_of_text_at_a_schema(tmp_path):
    path = write(tmp_path, "d.csv", "a,b,t\n1,2,yes\n3,x,no\n")
    fails(drain(path), "row 1", "column 't'", "'yes'", "classes=", "positive=", row=1)
    fails(drain(path, positive="yes"), "row 2", "column 'b'", "schema", row=2)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("1,x,0", ["column 'b'", "'x'", "number"]),
        ("1,0", ["2 field(s)", "3"]),
        ("1,2,3,4", ["4 field(s)", "3"]),
        ("1," + "y" * 5000 + ",0", ["column 'b'", "'" + "y" * 40 + "'..."]),
    ],
)
def test_mixed_types_and_ragged_rows_never_quote_the_row(tmp_path, monkeypatch, bad, words):
    monkeypatch.setattr(text_files, "CHUNK_BYTES", 50)
    path = write(tmp_path, "d.csv", "a,b,t\n" + "7,6,0\n" * 40 + bad + "\n7,6,0\n")
    message = fails(drain(path), "row 41", *words, row=41)
    assert len(message) < 200
    assert bad not in message


def test_sample_shows_the_types(tmp_path):
    text = "i,d,t,m,big\n 1, 2 , a,?,1\n?,2.5,?,?,99999999999999999999\n3,,b,?,2\n4,5,6,7,8\n"
    table = opened(tmp_path, text, missing=("?",)).sample(3)
    assert [str(t) for t in table.schema.types] == ["int64", "double", "string", "null", "double"]
    assert table.column("i").to_pylist() == [1, None, 3]
    assert table.column("d").to_pylist() == [2, 2.5, None]
    assert table.column("t").to_pylist() == [" a", None, "b"]
    table = opened(tmp_path, "#c\na;b\n1,5;2\n", decimal=",", comment="#").sample(9)
    assert table.to_pydict() == {"a": [1.5], "b": [2]}
    fails(lambda: opened(tmp_path, "a,b\n1,2\n3\n").sample(5), "row 2", "1 field(s)", row=2)


def test_sample_does_not_read_the_whole_file(tmp_path, monkeypatch):
    path = write(tmp_path, "d.csv", "1,2\n" * 500_000)
    columns = CsvColumns(LineFile(path), CsvOptions(), target=None, labels=None)
    taken = []
    plain = text_files._Bytes.read
    monkeypatch.setattr(text_files._Bytes, "read", lambda self, n: (taken.append(n), plain(self, n))[1])
    monkeypatch.setattr(text_files._Bytes, "read1", text_files._Bytes.read)
    assert columns.sample(1000).num_rows == 1000
    assert 0 < sum(taken) < 300_000


def test_adult_and_diabetes(data_folder):
    options = CsvOptions(missing=("?",), comment="|")
    for name, rows, absent in (("adult.data.gz", 32_561, 1836), ("adult.test.gz", 16_281, 963)):
        columns = CsvColumns(LineFile(data_folder / name), options, target=None, labels=None)
        assert columns.names == tuple(map(str, range(15)))
        read_rows = read(columns, "nt" + "-" * 13)
        assert len(read_rows) == rows
        assert sum(cell is None for _, cell in read_rows) == absent


# --- lines that are too long --------------------------------------------------------------


@pytest.mark.slow
def test_a_line_of_100_megabytes(tmp_path):
    """It is refused in bounded memory: reading it whole, compressed or not, would take three times the limit."""
    line = b"1,2\n" * 3 + b"1" * (100 << 20)
    plain = tmp_path / "d.csv"
    plain.write_bytes(line)
    (tmp_path / "p.csv.gz").write_bytes(gzip.compress(line, 1))
    del line
    for path in (plain, tmp_path / "p.csv.gz"):
        stream = open_stream(path, header=False)
        tracemalloc.start()
        with pytest.raises(StreamError, match="row 4: the line is longer than 64 MiB") as found:
            together(stream)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert found.value.row == 4
        assert peak < 250 << 20
    plain.write_bytes(b"1" * (70 << 20))
    fails(lambda: open_stream(plain), "row 1", "64 MiB", row=1)


def test_what_reads_as_a_number(tmp_path):
    for cell in ("+1", "-0", ".5", "1.", "1e400", "INF", "-infinity", "NaN", '" 7 "'):
        (row,) = read(opened(tmp_path, f"0,{cell}\n", header=False), "nn")
        value = float(cell.strip('"'))
        assert row[1] == value or (math.isnan(value) and math.isnan(row[1]))
    for cell in ("1_0", "0x10", "1e", "--1", "1 2", "１", "e5", "infinit"):
        columns = opened(tmp_path, f"0,{cell}\n", header=False)
        fails(lambda columns=columns: read(columns, "nn"), "row 1", "column 1", "number", row=1)
