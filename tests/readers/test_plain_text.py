"""Plain CSV and libsvm by our own kernels: the same columns and rows as by the libraries, side by side or not."""

import threading

import numpy as np
import pyarrow as pa
import pytest

from privol import open_stream
from privol.errors import StreamError
from privol.readers import libsvm, parallel, plain_csv
from privol.readers.csv import CsvColumns
from privol.readers.csv_text import CsvOptions
from privol.readers.files import LineFile

KINDS = {"a": "number", "c": "text", "b": "number"}
USUAL = ["0", "1", "-7", " 2.50 ", "1e-3", "+4", "", "?", " NA", "-0", "12345678.12345678901", "0.1", "1E5"]
ODD = ["NaN", "\t8", "é", "12345678901234567890", "1.7976931348623157e308", "x y", ' "q"', "5.", ".5"]
ODD += ["0.30000000000000004", "inf"]


def columns(path, **options):
    words = {"names": ("a", "b", "c"), "missing": ("?", "NA", "-7"), **options}
    return CsvColumns(LineFile(path), CsvOptions(**words), target=False, labels=None)


def batches(path, **options):
    """The whole columns, or the error."""
    try:
        found = list(columns(path, **options).batches(KINDS, 100, lambda _: None))
    except StreamError as err:
        return str(err)
    return [pa.chunked_array([batch.column(name).cast(kind) for batch in found]).to_pylist()
            for name, kind in (("a", "float64"), ("b", "float64"), ("c", "string"))]  # fmt: skip


def bits(found):
    return found if isinstance(found, str) else [[x.hex() if isinstance(x, float) else x for x in c] for c in found]


@pytest.mark.parametrize("sep", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_both_parsers_of_csv_find_the_same(tmp_path, monkeypatch, sep, end):
    rng = np.random.default_rng(5)
    path, plain = tmp_path / "d.csv", 0
    read = plain_csv.PlainCsv.read

    def counted(*args):
        nonlocal plain
        found = read(*args)
        plain += found is not None
        return found

    for trial in range(60):
        cells = USUAL if trial % 3 else USUAL + ODD
        lines = [sep.join(rng.choice(cells, 3)) for _ in range(rng.integers(1, 30))]
        path.write_text("".join(line + end * rng.integers(1, 3) for line in lines), newline="")
        monkeypatch.setattr(parallel, "PART_BYTES", int(rng.integers(1, 60)))
        options = {"sep": sep, "decimal": "," if sep == ";" and trial % 2 else "."}
        monkeypatch.setattr(plain_csv.PlainCsv, "read", counted)
        mine = batches(path, **options)
        monkeypatch.setattr(plain_csv.PlainCsv, "read", lambda *_: None)
        assert bits(mine) == bits(batches(path, **options)), path.read_bytes()
    assert plain > 20


@pytest.mark.parametrize("bad", ["1,2\n", "1,2,3,4\n", "1,x,3\n", "1,2,3\r", '1,2,"3\n'])
def test_what_is_unusual_is_left_to_the_other_parser(tmp_path, bad):
    (tmp_path / "d.csv").write_text("1,2,3\n4,5,6\n", newline="")
    reader = columns(tmp_path / "d.csv")._plain
    assert reader.read(b"1,2,3\n4,5,6\n", KINDS) is not None
    assert reader.read(b"1,2,3\n" + bad.encode() + b"7,8,9\n", KINDS) is None


def test_both_parsers_of_libsvm_find_the_same(tmp_path, monkeypatch):
    rng = np.random.default_rng(6)
    path = tmp_path / "d.svm"
    pairs = ["1:2", "3:-4.5e2", "4:0", "9:0.30000000000000004", "12:.5"]
    for trial in range(60):
        lines = ["1 2:3"]
        for _ in range(rng.integers(0, 30)):
            some = [pair for pair in pairs if rng.random() < 0.5]
            lines.append(" ".join([str(rng.choice(["1", "-1", "+1", "0.5"])), *some]))
        if trial % 4 == 0:
            lines.append("1 2:nan # comment" if trial % 8 else "1 qid:3 2:1")
        path.write_text("\n".join(lines) + "\n" * (trial % 2))
        monkeypatch.setattr(parallel, "PART_BYTES", int(rng.integers(1, 90)))
        mine = open_stream(path)
        rows = [block.X.toarray() for block in mine]
        with monkeypatch.context() as patch:
            patch.setattr(libsvm, "together", lambda *_: None)
            other = open_stream(path)
            assert (mine.n_features, mine.n_rows) == (other.n_features, other.n_rows) == (mine.n_features, len(lines))
            np.testing.assert_array_equal(np.vstack(rows), np.vstack([block.X.toarray() for block in other]))
            assert [b.y.tolist() for b in mine] == [b.y.tolist() for b in other]


@pytest.mark.parametrize("workers", [1, 3])
def test_parts_are_in_their_order_and_errors_come_back(monkeypatch, workers):
    monkeypatch.setattr(parallel, "workers", lambda: workers)
    used, gate = set(), threading.Barrier(workers, timeout=5)

    def square(k):
        if k < workers:
            gate.wait()  # all of them are at work
        used.add(threading.get_ident())
        if k == 50:
            raise KeyboardInterrupt
        return None if k == 40 else k * k

    assert parallel.together(square, range(30)) == [k * k for k in range(30)]
    assert len(used) == workers
    assert parallel.together(square, [*range(45)]) is None
    with pytest.raises(KeyboardInterrupt):
        parallel.together(square, [*range(20), 50, *range(20)])
    assert threading.active_count() < 1 + workers or not any(t.name == "privol-parse" for t in threading.enumerate())


def test_parts_are_whole_lines(monkeypatch):
    monkeypatch.setattr(parallel, "PART_BYTES", 10)
    text = b"12345\n\n123456789012345\n1\n2\n3\n4\nno end, and long"
    parts = [bytes(part) for part in parallel.lines_of(text)]
    assert b"".join(parts) == text
    assert all(part.endswith(b"\n") for part in parts[:-1])
    assert len(parts) > 3
