"""Streams of files: the libsvm readers agree, files are closed, memory is constant, real files."""

from __future__ import annotations

import bz2
import gc
import os
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import warm
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file
from stream_files import drain, fails, together, write

from privol.readers import files as text_files
from privol.readers import libsvm
from privol.streams import open_stream

pytestmark = pytest.mark.process

pytest.importorskip("pyarrow")


# --- libsvm: the two readers agree ---------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=False),
            st.dictionaries(st.integers(1, 50), st.floats(allow_nan=False), max_size=6),
            st.sampled_from(["\n", "\r\n", " \n", "\n\n", " # c\n"]),
            st.sampled_from([" ", "\t", "  "]),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_libsvm_fast_reader_equals_sklearn(tmp_path_factory, rows):
    text = ""
    for label, pairs, end, gap in rows:
        text += gap.join([repr(label), *(f"{i}:{pairs[i]!r}" for i in sorted(pairs))]) + end
    path = write(tmp_path_factory.mktemp("svm"), "d.svm", text)
    X, y = load_svmlight_file(str(path), n_features=50, zero_based=False)
    stream = open_stream(path, n_features=50, zero_based=False)
    got = together(stream)
    np.testing.assert_array_equal(got[0], X.toarray())
    np.testing.assert_array_equal(got[1], y)
    assert stream.count_rows() == len(rows)


def test_libsvm_fast_reader_is_used(tmp_path, monkeypatch):
    def refuse(*args):
        raise AssertionError("the slow reader was called")

    monkeypatch.setattr(libsvm.LibsvmSource, "_parse", refuse)
    path = write(tmp_path, "d.svm", "1 1:2 2:4\n-1\n1\t2:3 \r\n")
    assert together(open_stream(path))[0].tolist() == [[2, 4], [0, 0], [0, 3]]


def test_libsvm_index_minus_1_does_not_begin_a_row(tmp_path):
    path = write(tmp_path, "d.svm", "1 1:2\n1 -1:2 1:3\n")
    fails(drain(path, n_features=2), "row 2", "-1", row=2)


# --- resources -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["d.csv", "d.csv.gz", "d.csv.bz2", "d.csv.xz", "d.svm"])
def test_files_are_closed(tmp_path, monkeypatch, name):
    monkeypatch.setattr(text_files, "CHUNK_BYTES", 1000)
    text = "1 1:2\n" * 3000 if name == "d.svm" else "1,2\n" * 3000
    path = write(tmp_path, name, text)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        rows = iter(open_stream(path, block_rows=10))
        next(rows)
        if os.path.isdir("/proc/self/fd"):
            assert str(path) in _open_files()
        rows.close()
        if os.path.isdir("/proc/self/fd"):
            assert str(path) not in _open_files()
        del rows
        gc.collect()


def _open_files():
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.append(os.path.realpath(os.readlink(f"/proc/self/fd/{fd}")))
        except OSError:
            continue
    return found


_PEAK = """
import sys
from privol.streams import open_stream
rows = sum(block.X.shape[0] for block in open_stream(sys.argv[1], block_rows=4096))
with open("/proc/self/status") as status:
    peak = next(line for line in status if line.startswith("VmHWM:"))
print(rows, int(peak.split()[1]) * 1024)
"""


# The kernel's high-water mark of the reader's own memory; what a forked child inherits is in both.
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the peak is read from /proc")
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "npy"])
def test_memory_is_flat(tmp_path, kind):
    """Two and a half times the rows may not cost half of the size of the additional rows as an array.

    The files are larger than a few chunks, so that reading one whole (as text, columns or rows) fails; 40 columns make
    320 bytes a row.
    """
    few, many = 100_000, 250_000
    for rows in (few, many):
        if kind == "npy":
            np.save(tmp_path / f"{rows}.npy", np.zeros((rows, 41)))
        else:
            write(tmp_path, f"{rows}.{kind}", ("123456.5," * 40 + "1\n") * rows)

    def peak(rows):
        path = tmp_path / f"{rows}.{kind}"
        done = warm.run([sys.executable, "-c", _PEAK, str(path)], capture_output=True, text=True, check=True)
        read, found = map(int, done.stdout.split())
        assert read == rows
        return found

    # What allocators keep depends on the timing of threads: a reader that holds more rows does so every time.
    assert any(peak(many) - peak(few) < (many - few) * 320 / 2 for _ in range(3))


# --- real files -------------------------------------------------------------------------------


def test_covtype(data_folder):
    stream = open_stream(data_folder / "covtype.data.gz", classes=range(1, 8), positive=2)
    rows = positives = 0
    fractions = []
    for block in stream:
        assert not np.isnan(block.X).any()
        rows += len(block.y)
        positives += int(block.y.sum())
        fractions.append(stream.fraction_read)
    assert (rows, positives, stream.n_features, stream.feature_names) == (581_012, 283_301, 54, None)
    assert fractions == sorted(fractions)
    assert 0 < fractions[0] < 0.5
    assert stream.fraction_read == 1.0
    assert stream.count_rows() == rows


def test_rcv1(data_folder):
    path = data_folder / "rcv1_subsets.binary.bz2"
    stream = open_stream(path, classes=(-1, 1), n_features=47_236, block_rows=5000)
    X = sp.vstack([b.X for b in stream])
    y = np.concatenate([b.y for b in stream])
    with bz2.open(path) as f:
        expected, labels = load_svmlight_file(f, n_features=47_236)
    assert X.shape == (23_749, 47_236)
    assert X.nnz == 1_783_774
    assert y.sum() == 11_829
    assert (expected != X).nnz == 0
    np.testing.assert_array_equal(2 * y - 1, labels)


def test_casp(data_folder):
    stream = open_stream(data_folder / "CASP.csv.gz", target="RMSD")
    X, y = together(stream)
    assert stream.feature_names == tuple(f"F{i}" for i in range(1, 10))
    assert stream.classes is None
    assert X.shape == (45_730, 9)
    assert round(float(y.mean()), 3) == 7.749
    assert y.max() == 20.999


def test_files_with_categories_say_where(data_folder):
    fails(drain(data_folder / "adult.data.gz", positive=">50K"), "row 1", "column 1", "State-gov", row=1)
    fails(
        drain(data_folder / "diabetic_data.csv.gz", target="readmitted", positive="<30"),
        "row 1",
        "column 'race'",
        row=1,
    )
