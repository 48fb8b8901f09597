"""Sparse matrices with an invalid structure: an error in the row before any later effect, wherever they enter."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
import warm
from cli_tools import privol_cli
from patience import WAIT
from places import ROOT
from scipy import sparse
from sparse_entrances import FAMILIES

import privol
from privol import OutputPerturbation
from privol._core._rows import squared_norms
from privol._sparse import sound_rows
from privol.errors import InvalidParameter, InvalidRow, StreamError
from privol.ledger import Ledger
from privol.prefix import PrefixSum
from privol.streams import open_stream

pytestmark = pytest.mark.process

PROGRAM = ROOT / "tests" / "support" / "sparse_entrances.py"
X = np.array([[0.5, 0.0, 0.25], [0.0, -0.5, 0.0], [0.125, 0.0, 0.5], [0.0, 0.25, -0.5], [0.5, 0.5, 0.0]])
Y = np.array([0, 1, 1, 0, 1])


@pytest.mark.parametrize("families", [tuple(FAMILIES), ("races",)], ids=["lies", "races"])
def test_no_malformed_matrix_crashes_the_process(families):
    """In a separate process, because such matrices caused segmentation faults: the program lists the cases."""
    found = warm.run([sys.executable, str(PROGRAM), *families], capture_output=True, text=True, timeout=WAIT)
    assert found.returncode == 0, f"{found.stdout}\n{found.stderr[-3000:]}"
    assert found.stdout.split() == list(families)


def changed(form, **arrays):
    """A matrix of that format with arrays changed after SciPy checked them: ``name=(place, value)``."""
    matrix = getattr(sparse, f"{form}_matrix")(X)
    for name, (place, value) in arrays.items():
        array = getattr(matrix, name).astype(np.int64)
        array[place] = value
        setattr(matrix, name, array)
    return matrix


WRONG = {
    "column": (changed("csr", indices=(3, 3)), InvalidRow, r"CSR: row 3 .* column index outside 0\.\.2, found 3$"),
    "negative column": (changed("csr", indices=(2, -1)), InvalidRow, r"CSR: row 2 .* outside 0\.\.2, found -1$"),
    "beyond 32 bits": (changed("csr", indices=(2, 2**32)), InvalidRow, r"CSR: row 2 .* found 4294967296$"),
    "falling pointer": (changed("csr", indptr=(2, 1)), InvalidRow, r"CSR: the row pointers of row 2 .*: found 2 to 1,"),
    "pointer beyond": (changed("csr", indptr=(5, 99)), InvalidRow, r"CSR: .* row 5 .*: found 7 to 99, allowed is 0 to"),
    "first pointer": (changed("csr", indptr=(0, 1)), InvalidRow, r"CSR: .* row 1 of the block .*: found 1 to 2,"),
    "csc row": (changed("csc", indices=(3, 5)), InvalidParameter, r"CSC: row indices must be in 0\.\.4, found 5$"),
    "csc pointer": (changed("csc", indptr=(1, 8)), InvalidParameter, "CSC: the column pointers of column 2 .* 8 to 6"),
    "coo row": (changed("coo", row=(3, -1)), InvalidParameter, r"COO: row indices must be in 0\.\.4, found -1$"),
    "coo column": (changed("coo", col=(0, 3)), InvalidParameter, r"COO: column indices must be in 0\.\.2, found 3$"),
    "bsr column": (changed("bsr", indices=(0, 7)), InvalidParameter, r"BSR: columns of blocks must be in .*found 7$"),
    "dia offset": (changed("dia", offsets=(0, 0)), InvalidParameter, "DIA: is no sparse matrix: offset array"),
}  # fmt: skip


ROWS_OWN = ("column", "negative column", "beyond 32 bits")  # which on_invalid="zero" turns into null rows: below


@pytest.mark.parametrize(
    ("name", "on_invalid"), [(n, o) for n in WRONG for o in ("raise", "zero") if o == "raise" or n not in ROWS_OWN]
)
def test_the_error_says_where_and_what_and_comes_first(name, on_invalid):
    matrix, kind, words = WRONG[name]
    ledger = Ledger()
    learners = [
        privol.DPFTRL(loss="logistic", horizon=9, ledger=ledger, on_invalid=on_invalid).declare_classes([0, 1]),
        OutputPerturbation(ledger=ledger, on_invalid=on_invalid).declare_classes([0, 1]),
    ]
    for learner in learners:
        with pytest.raises(kind, match=words):
            learner.fit(matrix, Y)
    with pytest.raises(kind, match=words):
        PrefixSum(dim=3, horizon=9, ledger=ledger, on_invalid=on_invalid).add_block(matrix)
    # the account of the sum, which its constructor opened
    assert [account.counts()[0] for account in ledger.accounts] == [0]


@pytest.mark.parametrize("name", WRONG)
def test_streams_name_the_source_and_the_row(name):
    matrix, kind, words = WRONG[name]
    good = (sparse.csr_matrix(X), Y)
    with pytest.raises(StreamError, match=f"^arrays: {words}") as caught:
        open_stream((matrix, Y), classes=(0, 1))
    rows = [caught.value.row]
    for blocks in ([good, (matrix, Y)], iter([good, (matrix, Y)])):
        with pytest.raises(StreamError, match=f"^blocks, from row 6: {words}") as caught:
            list(open_stream(blocks, classes=(0, 1)))
        rows.append(caught.value.row)
    expected: list[int | None] = [None] * 3
    if kind is InvalidRow:
        with pytest.raises(InvalidRow) as alone:
            sound_rows(matrix)
        expected = [alone.value.row, 5 + alone.value.row, 5 + alone.value.row]
    assert rows == expected


def test_files_name_themselves_and_the_row(tmp_path, monkeypatch):
    """Three rows in a file made ``privol run`` crash with signal 11."""
    monkeypatch.chdir(tmp_path)
    good = sparse.csr_matrix(X[:3])
    parts = {"format": b"csr", "shape": good.shape, "data": good.data, "y": Y[:3], "indices": good.indices}
    np.savez("rows.npz", indptr=np.array([0, 2_000_000_000, 3, 5], dtype=np.int32), **parts)
    with pytest.raises(StreamError, match=r"rows\.npz: CSR: the row pointers of row 1 .* 0 to 2000000000") as caught:
        open_stream("rows.npz", classes=(0, 1))
    assert caught.value.row == 1
    found = privol_cli("run", "rows.npz", "--classes", "0,1")
    assert found.exit_code != 0
    assert "rows.npz: CSR: the row pointers of row 1" in found.output
    np.savez("short.npz", indptr=good.indptr[:-1], **parts)
    np.savez("lying.npz", indptr=good.indptr, **{**parts, "shape": np.array([3.5, 2.5])})
    whole = Path("rows.npz").read_bytes()
    Path("cut.npz").write_bytes(whole[: len(whole) // 2])
    Path("flipped.npz").write_bytes(whole.replace(b"(4,)", b"(9,)"))
    for name in ("short", "lying", "cut", "flipped"):
        with pytest.raises(StreamError, match=rf"^{name}\.npz: is not a readable \.npz file: "):
            open_stream(f"{name}.npz", classes=(0, 1))


def test_predictions_are_refused_too():
    learner = privol.PIGD(epsilon=math.inf, horizon=9, release="last").partial_fit(X, Y, classes=[0, 1])
    for matrix, kind, words in WRONG.values():
        for method in (learner.predict, learner.decision_function, learner.predict_proba):
            with pytest.raises(kind, match=words):
                method(matrix)


# ---- one row's own ------------------------------------------------------------------------------------------


def null_row(learn):
    """What a learner makes of a CSR row with columns out of range, and of one with NaN."""
    X2 = X.copy()
    X2[2] = np.nan
    dense = learn(X2)
    for matrix in (
        changed("csr", indices=(3, 3)),
        changed("csr", indices=(slice(3, 5), [-1, 2**40])),
        sparse.csr_array((np.ones(9), [0, 2, 1, 0, 10**6, 1, 2, 0, 1], [0, 2, 3, 5, 7, 9]), shape=(5, 3)),
    ):
        matrix.data[:] = sparse.csr_matrix(X).data
        np.testing.assert_array_equal(learn(matrix), dense)
        np.testing.assert_array_equal(learn(matrix.astype(np.float32)), dense)
    lists = sparse.lil_matrix(X)
    lists.rows[2][1] = 7
    np.testing.assert_array_equal(learn(lists), dense)


def test_a_row_with_a_column_outside_is_the_null_row():
    """With on_invalid="zero", replacing one row can neither stop the run nor change another row."""

    class Given:
        n_rows, classes = 5, (0, 1)

        def __init__(self, matrix):
            self.matrix = matrix

        def __iter__(self):
            yield privol.streams.Block(self.matrix, Y.astype(float), 1)

    def online():
        words = {"loss": "logistic", "horizon": 5, "release": "last", "random_state": 0, "on_invalid": "zero"}
        return privol.PIGD(**words).declare_classes([0, 1])

    def offline():
        return OutputPerturbation(random_state=0, on_invalid="zero").declare_classes([0, 1])

    null_row(lambda rows: online().fit(rows, Y).coef_)
    null_row(lambda rows: online().partial_fit(rows, Y).coef_)
    null_row(lambda rows: offline().fit(rows, Y).coef_)
    null_row(lambda rows: PrefixSum(dim=3, horizon=5, random_state=0, on_invalid="zero").add_block(rows))
    for learner in (online, offline):
        null_row(lambda rows, learner=learner: learner().fit_stream(Given(rows)).coef_)


# ---- what is sound ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
@pytest.mark.parametrize("family", ["array", "matrix"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8])
def test_sound_matrices_are_the_same_rows(form, family, dtype):
    values = np.round(8 * X).astype(dtype)
    given = getattr(sparse, f"{form}_{family}")(values)
    found = sound_rows(given)
    assert found.format == "csr"
    assert isinstance(found, sparse.sparray) == (family == "array")
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.toarray(), values)
    if form == "csr":
        assert np.shares_memory(found.data, given.data)
        for name in ("indices", "indptr"):
            assert not np.shares_memory(getattr(found, name), getattr(given, name))


def test_harmless_structures_are_accepted():
    """Unsorted and repeated columns, entries beyond the last pointer, integers of any type, wrong flags."""
    X2 = sparse.csr_matrix((np.ones(5), [2, 0, 1, 1, 0], [0, 2, 4]), shape=(2, 3))
    X2.has_canonical_format = True
    np.testing.assert_array_equal(squared_norms(sound_rows(X2)), [2.0, 4.0])
    np.testing.assert_array_equal(squared_norms(X2), [2.0, 4.0])
    for kind in (np.uint8, np.int16, np.uint32, np.uint64, ">i4", ">i8"):
        X2.indices = np.array([2, 0, 1, 1], dtype=kind)
        np.testing.assert_array_equal(sound_rows(X2).toarray(), [[1.0, 0.0, 1.0], [0.0, 2.0, 0.0]])
    empty = sparse.csr_matrix((0, 3))
    assert sound_rows(empty).shape == (0, 3)
    assert sound_rows(X) is X
    far = sparse.dia_matrix((np.ones((2, 3)), [0, 1]), shape=(5, 3))
    far.offsets = np.array([0, 2**33])
    np.testing.assert_array_equal(sound_rows(far).toarray(), np.eye(5, 3))


def test_objects_that_only_resemble_arrays_are_refused():
    for name, value in (("indices", np.zeros(9)), ("indptr", np.zeros((2, 3), dtype=int)), ("data", np.ones(8))):
        matrix = sparse.csr_matrix(X)
        setattr(matrix, name, value)
        with pytest.raises(InvalidParameter, match=r"^CSR: "):
            sound_rows(matrix)
    lists = sparse.lil_matrix(X)
    lists.rows[1].append(2)
    with pytest.raises(InvalidParameter, match=r"^LIL: 5 rows need"):
        sound_rows(lists)
    with pytest.raises(InvalidParameter, match="two dimensions, found 1"):
        sound_rows(sparse.coo_array(np.ones(3)))
    matrix = sparse.bsr_matrix(X)
    matrix.data = np.ones((3, 2, 2))
    with pytest.raises(InvalidParameter, match=r"^BSR: "):
        sound_rows(matrix)
