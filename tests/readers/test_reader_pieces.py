"""What readers are made of: pieces of batches, texts of messages, words of clients, names of files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest

from privol import open_stream
from privol.errors import InvalidParameter, StreamError
from privol.readers import arrow, csv, plain_csv
from privol.readers.base import BLOCK_BYTES, Facts
from privol.readers.columns import blanked
from privol.readers.csv import CsvOptions
from privol.readers.feeds import said
from privol.readers.formats import by_name
from privol.readers.payloads import Payloads, payloads_of
from privol.readers.source_urls import parsed

FACTS = Facts(name="visits")


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 8, 9])
def test_a_batch_is_cut_into_all_of_its_rows(rows: int) -> None:
    width = BLOCK_BYTES // 32  # so wide that a piece has four rows
    assert arrow.batch_rows(width) == 4
    pieces = list(arrow.cut(pa.record_batch({"x": np.arange(rows)}), width))
    assert [x for piece in pieces for x in piece.column("x").to_pylist()] == list(range(rows))
    assert max(piece.num_rows for piece in pieces) <= 4


def test_values_that_were_missing_stay_so_where_others_are_blanked() -> None:
    rows = np.array([True, False, False])
    for values in ([1.0, None, 3.0], ["a", None, "c"]):
        assert blanked(pa.array(values), rows).to_pylist() == [None, None, values[2]]
    coded = pa.array(["a", None, "c"]).dictionary_encode()
    assert blanked(coded, rows).to_pylist() == [None, None, "c"]


@pytest.mark.parametrize("before", range(48, 62))
def test_a_quoted_line_end_across_two_blocks_of_the_parser(
    before: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv, "PARSE_BYTES", 64)
    path, text = tmp_path / "d.csv", "a" * before + "\r\nb"
    path.write_bytes(f't,x\r\n"c",2\r\n"{text}",1\r\n"c",0\r\n'.encode())
    columns = {"t": {"levels": [text, "c"], "unknown": "refuse"}, "x": {"range": [0, 2]}}
    (block,) = open_stream(path, schema={"file": {"newlines_in_values": True}, "columns": columns}, target=False)
    assert block.X[:, -1].tolist() == [1.0, 0.0, -1.0]


def test_targets_of_a_frame_are_those_of_its_rows() -> None:
    frame = pa.table({"x": np.arange(7.0)})
    blocks = list(open_stream((frame, 10 * np.arange(7.0)), block_rows=2))
    assert len(blocks) == 4
    assert [y for block in blocks for y in block.y] == [10 * x for block in blocks for x in block.X[:, 0]]


def test_rows_that_bring_their_own_target_have_no_other(tmp_path: Path) -> None:
    path = tmp_path / "d.svm"
    path.write_text("1 1:2\n")
    with pytest.raises(InvalidParameter, match=r"target is for columns, and d\.svm has its own y"):
        open_stream(path, target="y")


@pytest.mark.parametrize("part", range(16, 22))
def test_parts_of_a_text_end_at_the_end_of_a_line(part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_csv, "PART_BYTES", part)
    path = tmp_path / "d.csv"
    path.write_text("".join(f"{x}\n" for x in range(1000, 1050)))
    (block,) = open_stream(path, target=False, header=False, sep=",")
    assert block.X[:, 0].tolist() == list(range(1000, 1050))


def test_of_two_columns_of_one_name_none_is_read(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("a,b,a\n1,2,3\n")
    with pytest.raises(StreamError, match=r"two columns \(0 and 2\) are named 'a', names must differ"):
        open_stream(path, target="b")


def test_what_a_client_says_is_told_without_the_password() -> None:
    url = parsed("redis://:Tr0ub4d@there/0?stream=visits")
    assert "Tr0ub4d" not in said(url, OSError("no user with the password Tr0ub4d"))
    assert said(url, OSError("x" * 195 + "Tr0ub4d"))[195:] in ("", "...", "....", ".....")


def test_lines_of_comments_are_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "d.svm"
    path.write_text("# a comment\n1 1:2 # of a row\n\n  # another\n-1 1:3\n")
    stream = open_stream(path, n_features=1, classes=[-1, 1])
    stream.count_rows()
    assert stream.n_rows == 2
    assert sum(len(block.y) for block in stream) == 2


@pytest.mark.parametrize("name", ["rows.parquet.gz", "ROWS.Parquet.ZST", "rows.parquet"])
def test_the_suffix_of_a_compression_hides_none_of_a_format(name: str) -> None:
    found = by_name(name)
    assert found is not None
    assert found.name == "parquet"


def cells(payloads: Payloads, name: str) -> list[str | None]:
    return [
        cell
        for batch in payloads.columns.batches({name: "text"}, 10, lambda _: None)
        for cell in batch.column(0).to_pylist()
    ]


def test_quotes_in_fields_of_messages() -> None:
    _, payloads, _ = payloads_of(None, {b"a": b"x", b"b": b"1"}, FACTS, CsvOptions())
    texts = ['say "1","2"', '"', "", "plain"]
    assert payloads.put([{b"a": text.encode(), b"b": b"1"} for text in texts]) == [1, 1, 1, 1]
    assert cells(payloads, "a") == [text or None for text in texts]


def test_a_cr_within_a_message_is_refused() -> None:
    _, payloads, _ = payloads_of("csv", None, FACTS, CsvOptions(names=("a", "b")))
    assert payloads.put([b"x,1\r\ny,2\r\n", b"z,3"]) == [2, 1]
    assert cells(payloads, "a") == ["x", "y", "z"]
    with pytest.raises(StreamError, match="found a CR within a line"):
        payloads.put([b"x,1\ry,2"])


def message(x: pa.Array) -> bytes:
    batch, sink = pa.record_batch({"x": x}), pa.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def test_a_message_with_another_type_than_the_first_is_refused() -> None:
    first = message(pa.array([1.0, 2.0]))
    _, payloads, _ = payloads_of("arrow", first, FACTS, CsvOptions())
    assert payloads.put([first, first]) == [2, 2]
    with pytest.raises(StreamError, match="column 'x': found the type string, and in the first message double"):
        payloads.put([message(pa.array(["1", "2"]))])
