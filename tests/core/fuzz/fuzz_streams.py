"""Fuzz targets of privol's own text parsers, each compared with a plain reader.

``python tests/core/fuzz/fuzz_streams.py csv -max_total_time=240`` runs one of them under atheris (libFuzzer); the suite
runs :func:`mutations` of the seeds through the same checks. The first four bytes of an input choose options and the
sizes of chunks; the rest is the file. A check accepts two outcomes: the rows that the plain reader finds, or a
StreamError where it finds none, in the same row where that row is known.
"""

from __future__ import annotations

import csv
import importlib
import io
import json
import math
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from sklearn.datasets import load_svmlight_file

from privol.errors import StreamError
from privol.readers import csv as csv_reader
from privol.readers import files as text_files
from privol.readers import json as json_reader
from privol.readers import plain_csv
from privol.streams import open_stream

NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan(?:\(\w*\))?)", re.I | re.A)
BAD = object()
ROOMS = ("privol.readers", "privol.encoding", "privol.streams")


class Refused(Exception):
    """The plain reader refuses the data, in the given row where it knows it."""

    def __init__(self, row: int | None) -> None:
        super().__init__(row)
        self.row = row


def _bytes(data: bytes) -> tuple[bytes, bytes]:
    """Return the options and the text, whose beginning is never that of a compressed file."""
    text = data[4:]
    return data[:4].ljust(4, b"\0"), b" " + text if text_files._codec(text) else text


def _columns(make: Callable[[], Any], kinds_of: Callable[[Any], dict[str, Any]]) -> list[tuple[Any, ...]]:
    columns = make()
    kinds = kinds_of(columns)
    rows: list[tuple[Any, ...]] = []
    for batch in columns.batches(kinds, 7, lambda _: None):
        assert batch.schema.names == list(kinds)
        rows += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    assert columns.count() == len(rows)
    assert columns.sample(3).num_rows == min(3, len(rows))
    return rows


def _compare(found: Callable[[], Any], expected: Callable[[], Any], lenient: bool = False) -> None:
    """Compare the result with the expected one; ``lenient`` allows an error that the plain reader does not raise."""
    try:
        want = expected()
    except Refused as err:
        want = err
    try:
        got = found()
    except StreamError as err:
        if not isinstance(want, Refused) and not (lenient or "only one column" in str(err)):
            raise AssertionError(f"refused: {err}") from err
        if isinstance(want, Refused) and None not in (want.row, err.row) and want.row != err.row:
            raise AssertionError(f"row {want.row} and not: {err}") from err
        return
    assert not isinstance(want, Refused), f"row {want.row} was not refused"
    assert _same(got, want), f"found {got}, expected {want}"


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return type(a) is type(b) and bool(a == b)


# --- CSV -----------------------------------------------------------------------------------


def check_csv(data: bytes, path: Path) -> None:
    """Read two kinds of columns, numbers and text in turn, and compare them with the csv module's."""
    choice, text = _bytes(data)
    missing = ("?",) if choice[0] & 1 else ()
    newlines = bool(choice[0] & 2)
    comment = "#" if choice[0] & 4 and not newlines else None
    header = bool(choice[0] & 8)
    sep = ",;\t|"[choice[0] >> 4 & 3]
    decimal = "," if choice[0] & 64 and sep != "," else "."
    encoding = "cp1252" if choice[0] & 128 else "utf-8"
    path.write_bytes(text)
    options = csv_reader.CsvOptions(header, None, sep, comment, missing, encoding, decimal, newlines)
    sizes = {"CHUNK_BYTES": choice[1] % 50 + 1, "PARSE_BYTES": choice[2] % 60 + 1}

    def found() -> Any:
        with (
            mock.patch.object(text_files, "CHUNK_BYTES", sizes["CHUNK_BYTES"]),
            mock.patch.object(csv_reader, "PARSE_BYTES", sizes["PARSE_BYTES"]),
            mock.patch.object(plain_csv, "PART_BYTES", sizes["PARSE_BYTES"]),
        ):
            return _columns(
                lambda: csv_reader.CsvColumns(text_files.LineFile(path), options, target=False, labels=None),
                lambda columns: {n: ("text", "number")[(j + choice[3]) % 2] for j, n in enumerate(columns.names)},
            )

    def expected() -> Any:
        records = _csv_records(text, sep, comment, encoding, newlines)
        if header:
            first = next(records, ["x"])
            names = [BAD if BAD in first else str(cell).strip() for cell in first]
            if BAD in names or len(set(names)) != len(names):
                raise Refused(None)
            width = len(names)
        rows = []
        for row, cells in enumerate(records, 1):
            if row == 1 and not header:
                width = len(cells)
            if len(cells) != width or BAD in cells:
                raise Refused(row)
            try:
                rows.append(
                    tuple(
                        _csv_cell(str(cell), (j + choice[3]) % 2 == 1, {"", *missing}, decimal)
                        for j, cell in enumerate(cells)
                    )
                )
            except ValueError:
                raise Refused(row) from None
        if not rows:
            raise Refused(None)
        return rows

    # one column is refused where another separator would give more columns; binary data and UTF-16 always
    lenient = sep.encode() not in text or b"\0" in text or text[:2] in (b"\xff\xfe", b"\xfe\xff") or not text
    # bytes that a one-byte encoding does not define are refused in comments too
    lenient = lenient or (encoding != "utf-8" and "\ufffd" in text.decode(encoding, "replace"))
    _compare(found, expected, lenient=lenient)


def _csv_records(text: bytes, sep: str, comment: str | None, encoding: str, newlines: bool) -> Iterator[list[Any]]:
    """Yield the cells of the records; BAD stands for one that no reading of the options allows."""
    if encoding == "utf-8":
        decoded = text.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    else:
        text = text.removeprefix(b"\xef\xbb\xbf")
        decoded = "".join(_one_byte(text[i : i + 1], encoding) for i in range(len(text)))
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", decoded)
    if comment:
        lines = [line for line in lines if not line.startswith(comment)]
    records = csv.reader(iter([*lines, "\n", "end\n"]), delimiter=sep)
    before: list[Any] | None = None
    for cells in records:
        if not cells:
            continue
        if before is not None:
            yield before
        before = [_csv_checked(cell, newlines) for cell in cells]
    if before != ["end"]:
        yield [BAD]  # a quote is still open at the end


def _one_byte(byte: bytes, encoding: str) -> str:
    try:
        return byte.decode(encoding)
    except UnicodeDecodeError:
        return "\udcff"


def _csv_checked(cell: str, newlines: bool) -> Any:
    if any("\ud800" <= letter <= "\udfff" for letter in cell):
        return BAD
    return BAD if not newlines and ("\n" in cell or "\r" in cell) else cell


def _csv_cell(cell: str, number: bool, missing: set[str], decimal: str) -> float | str | None:
    if cell.strip() in missing:
        return None
    if not number:
        return cell
    cell = cell.strip()
    if decimal == ",":
        cell = cell.replace(".", "x").replace(",", ".")
    if not NUMBER.fullmatch(cell):
        raise ValueError(cell)
    return float(cell.partition("(")[0])


# --- JSON lines ----------------------------------------------------------------------------


def check_json(data: bytes, path: Path) -> None:
    """Read the keys as numbers and as text in turn, and compare them with the json module's."""
    choice, text = _bytes(data)
    path.write_bytes(text)

    def kinds_of(names: Any) -> dict[str, Any]:
        return {
            n: ("text", "number")[(j + choice[3]) % 2]
            for j, n in enumerate(names)
            if j != choice[0] % 5 or len(names) == 1
        }

    def found() -> Any:
        with (
            mock.patch.object(text_files, "CHUNK_BYTES", choice[1] % 50 + 1),
            mock.patch.object(json_reader, "_BLOCK_BYTES", choice[2] % 60 + 1),
            mock.patch.object(json_reader, "HEAD_LINES", 2),
        ):
            reader = json_reader.JsonColumns
            return _columns(lambda: reader(text_files.LineFile(path)), lambda columns: kinds_of(columns.names))

    def expected() -> Any:
        objects: list[dict[str, Any]] = []
        refused = None
        for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
            if line.strip():
                try:
                    objects.append(_json_object(line))
                except (ValueError, RecursionError):
                    refused = len(objects) + 1
                    break
        if refused and refused <= 2:
            raise Refused(None)  # the first lines are searched for keys before any cell is read
        names = list(dict.fromkeys(key for found in objects[:2] for key in found))
        if not names:
            raise Refused(None)
        kinds = kinds_of(names)
        rows = []
        for row, found in enumerate(objects, 1):
            if not set(found) <= set(names):
                raise Refused(row)
            try:
                rows.append(tuple(_json_cell(found.get(name), kind) for name, kind in kinds.items()))
            except ValueError:
                raise Refused(row) from None
        if refused:
            raise Refused(refused)
        return rows if kinds else None

    if text[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return
    _compare(found, expected, lenient=not kinds_of("abc") or text.count(b"\n") < 2)


def _json_object(line: bytes) -> dict[str, Any]:
    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError
        return dict(pairs)

    found = json.loads(line.decode("utf-8"), object_pairs_hook=members)
    if not isinstance(found, dict):
        raise ValueError
    return found


def _json_cell(value: Any, kind: str) -> float | str | None:
    if value is None:
        return None
    if isinstance(value, (list, dict)) or (kind == "number" and isinstance(value, str)):
        raise ValueError
    if kind == "number":
        try:
            return float(value)
        except OverflowError:
            return math.copysign(math.inf, value)
    text = value if isinstance(value, str) else json.dumps(value)
    text.encode()
    return text


# --- libsvm --------------------------------------------------------------------------------


def check_libsvm(data: bytes, path: Path) -> None:
    """Compare the rows with scikit-learn's reader of the whole file."""
    choice, text = _bytes(data)
    zero_based = bool(choice[0] & 1)
    path.write_bytes(text)

    def found() -> Any:
        with mock.patch.object(text_files, "CHUNK_BYTES", choice[1] % 50 + 1):
            stream = open_stream(path, format="libsvm", n_features=9, zero_based=zero_based, block_rows=5)
            blocks = [(block.X.toarray(), block.y) for block in stream]
            rows = np.vstack([X for X, _ in blocks]), np.concatenate([y for _, y in blocks])
            assert stream.count_rows() == len(rows[1])
            return rows[0].tolist(), rows[1].tolist()

    def expected() -> Any:
        try:
            X, y = load_svmlight_file(io.BytesIO(text), n_features=9, zero_based=zero_based)
        except (ValueError, OverflowError):
            raise Refused(None) from None
        if not len(y):
            raise Refused(None)
        return X.toarray().tolist(), y.tolist()

    # carriage returns and compressed data are refused or read; scikit-learn takes them for something else
    _compare(found, expected, lenient=True)


CHECKS: dict[str, Callable[[bytes, Path], None]] = {"csv": check_csv, "json": check_json, "libsvm": check_libsvm}

# Each begins with four bytes of options.
SEEDS: dict[str, list[bytes]] = {
    "csv": [
        b"\x08\x10\x20\x00a,b,t\n1,2,0\n3,4,1\n5,6,0\n",
        b'\x00\x05\x09\x01"x, y",1.5\r\n"say ""no""",-2e3\r\n,\r\n z ,7\r\n',
        b"\x45\x07\x30\x00#c\n?;1,5\n a ; ?\n#d\nb;inf\n",
        b'\x52\x07\x30\x00"a\nb";1,5\n"c;\r\nd";2\n\n\ne;nan',
        b"\x18\x20\x11\x01k;v\r1;a\r2;b\r",
        b"\x80\x03\x03\x00caf\xe9,1\n\x80uro,2\n",
        b"\x00\x03\x03\x00\xef\xbb\xbfcaf\xc3\xa9,1\n\xff,2\n",
    ],
    "json": [
        b'\x09\x10\x20\x00{"a": 1, "b": "x"}\n{"a": 2.5, "b": null}\n{}\n{"b": "y\\u00e9"}\n',
        b'\x09\x20\x20\x01{"a":true,"b":-1e400}\r\n{"b":NaN,"a":false}\r\n\n{"a":null,"b":1}',
        b'\x00\x08\x08\x01{"u":{"v":[1,{}]},"w":1}\n{"w":2}\n{"w":[1]}\n',
        b'\x09\x30\x10\x00{"a":"[}{","b":"\\"\\\\"}\n{"a":1,"a":2}\n',
    ],
    "libsvm": [
        b"\x00\x10\x00\x001 1:2 3:4.5\n-1 2:-1e3\n+1\n",
        b"\x01\x20\x00\x000 0:1\t4:2 \r\n1 8:nan # c\r\n\n2 qid:3 1:1\n",
        b"\x00\x05\x00\x00# c\n1.5 9:1e-3\n",
    ],
}
_PIECES = [
    *(bytes([byte]) for byte in b',;"\n\r#? \t1-.e:{}[]\0\xff'),
    *(b'""', b"\r\n", b'"a"', b"nan", b"null", b"true", b"\\u", b"\xc3\xa9", b"0:", b"qid:1", b"x" * 70, b"1e999"),
    *(b"Infinity", b"-NaN", b"}\n{", b'":', b"\xef\xbb\xbf"),
]


def mutations(kind: str, n: int, seed: int) -> Iterator[bytes]:
    """Yield ``n`` inputs made from a format's seeds: bytes changed, pieces inserted, removed, repeated or joined."""
    draw = random.Random(f"{kind} {seed}")
    for _ in range(n):
        data = bytearray(draw.choice(SEEDS[kind]))
        for _ in range(draw.randrange(5)):
            at = draw.randrange(len(data) + 1)
            match draw.randrange(5):
                case 0:
                    data[at:at] = draw.choice(_PIECES)
                case 1:
                    del data[at : at + draw.randrange(1, 6)]
                case 2:
                    data[at : at + 1] = bytes([draw.randrange(256)])
                case 3:
                    data[at:at] = data[at : at + draw.randrange(30)]
                case _:
                    data += draw.choice(SEEDS[kind])[4:]
        yield bytes(data)


def main() -> None:
    """Fuzz one format with libFuzzer: ``fuzz_streams.py FORMAT [corpus ...] [-max_total_time=...]``."""
    import atheris

    kind = sys.argv.pop(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "input"
        corpus = Path(folder) / "seeds"
        corpus.mkdir()
        for i, seed in enumerate([*SEEDS[kind], *mutations(kind, 200, 1)]):
            (corpus / str(i)).write_bytes(seed)
        dictionary = Path(folder) / "words"
        dictionary.write_text("".join('"' + "".join(f"\\x{b:02x}" for b in piece) + '"\n' for piece in _PIECES))
        # imported again, with the counters that libFuzzer reads
        for name in [name for name in sys.modules if name.startswith(ROOMS)]:
            del sys.modules[name]
        with atheris.instrument_imports(include=[*ROOMS]):
            target = importlib.import_module("fuzz_streams")

        def check(data: bytes) -> None:
            try:
                target.CHECKS[kind](data, path)
            except BaseException:
                print(f"found by {data!r}", flush=True)
                raise

        atheris.Setup([*sys.argv, str(corpus), f"-dict={dictionary}"], check)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
