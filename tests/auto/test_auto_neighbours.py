"""Replacing one row, whatever it holds: the estimators read, count and learn all other rows as before."""

from __future__ import annotations

import datetime
import math
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import numpy as np
import pandas
import pyarrow
import pytest
from auto_tools import labels_of, table

from privol import PrivateClassifier
from privol.auto.inputs import LabelType, columns_of, read_labels

N = 1500
X = table(N)
Y = labels_of(X)
LENIENT = {"epsilon": 30.0, "random_state": 0, "on_invalid": "zero", "reuse_rows": False}


class Anything:
    """Equal to everything, without a hash or a representation."""

    def __eq__(self, other):
        return True

    __hash__ = None

    def __repr__(self):
        raise RuntimeError


class Text(str):
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


ODD = [
    None, math.nan, math.inf, 1, 1.0, True, 2.5, "1", "1.0", "?", "x", "\ud800", b"x", [1, 2], {"a": 1}, Anything(),
    Text("ill"), 10**500, Decimal("sNaN"), datetime.date(2020, 1, 1), pandas.NaT, np.timedelta64(1, "D"), np.ma.masked,
]  # fmt: skip


def decoded(cells, declared=None):
    told = LabelType()
    found = read_labels(np.fromiter(cells, object, len(cells)), told, declared, refuse=False, learnt=0)
    return found.to_pylist(), told


@pytest.mark.parametrize("labels", [["ill", "well"], [0, 1], [0.0, 1.0], [False, True]], ids=str)
@pytest.mark.parametrize("declared", [False, True])
def test_no_label_decides_how_others_are_read(labels, declared):
    """It did once: the number 5 in its place made null rows of all later texts."""
    known = labels if declared else None
    cells = [labels[i % 2] for i in range(6)]
    texts, _ = decoded(cells, known)
    assert None not in texts
    for at in (0, 3):
        for odd in ODD:
            found, told = decoded([*cells[:at], odd, *cells[at + 1 :]], known)
            assert found[:at] + found[at + 1 :] == texts[:at] + texts[at + 1 :], odd
            assert told.shown(["0", "1"]).dtype == np.int64  # by what was learnt
            assert told.shown(["0", "x"]).tolist() == ["0", "x"]


def test_the_first_label_does_not_decide_the_type_of_later_ones():
    y = Y.tolist()
    for first in (5, True):
        assert PrivateClassifier(**LENIENT).fit(X, [first, *y[1:]]).classes_.tolist() == ["ill", "well"]


def test_one_number_does_not_decide_how_labels_are_shown():
    y = (Y == "ill").astype(int).tolist()
    words = {"epsilon": 30.0, "random_state": 0, "reuse_rows": False}
    kinds = {PrivateClassifier(**words).fit(X, [first, *y[1:]]).classes_.dtype for first in (y[0], float(y[0]))}
    assert kinds == {np.dtype(np.int64)}


def test_a_cell_that_cannot_be_read_leaves_types_alone():
    """The frame once became one of objects, where times lose the zeros after their seconds."""
    typed = pandas.DataFrame(
        {
            "age": X["age"],
            "text": pandas.array(["1.5", "2,5"] * (N // 2), dtype="string"),
            "when": pandas.Timestamp("2020-01-01") + pandas.to_timedelta(np.arange(N), unit="s"),
            "kind": pandas.Categorical(X["town"]),
            "odd": X["town"].astype(object),
        }
    )

    def rows_of(columns, kinds):
        return pyarrow.Table.from_batches(list(columns.batches(kinds, 65536, lambda _: None))).to_pylist()

    model = PrivateClassifier(**LENIENT)
    expected, null = model._columns(typed, reset=True)
    assert not null.any()
    texts, numbers = dict.fromkeys(typed, "text"), {"age": "number"}
    for odd in ([1, 2], Anything(), b"x", "\ud800", np.timedelta64(1, "D")):
        cells = typed["odd"].tolist()
        cells[7] = odd
        frame = typed.assign(odd=pandas.Series(cells, dtype=object))
        found, null = model._columns(frame, reset=True)
        assert np.flatnonzero(null).tolist() == [7]
        for name in typed:
            assert (found.floats(name), found.only_text(name)) == (expected.floats(name), expected.only_text(name))
        for kinds in (texts, numbers):
            was, now = rows_of(expected, kinds), rows_of(found, kinds)
            assert set(now.pop(7).values()) == {None}
            assert now == was[:7] + was[8:]
        labels = [
            row["target"] for row in rows_of(model._table(frame, Y, reset=True), {"age": "number", "target": "text"})
        ]
        assert labels == [*Y[:7], None, *Y[8:]]


def test_dicts_that_cannot_be_read_are_null_rows():
    rows = X.to_dict("records")
    gone, y = [dict(row) for row in rows], Y.astype(object)
    for at, odd in ((3, {"age": [1]}), (N - 9, {"city": "Oslo"}), (N - 5, None)):
        rows[at], gone[at], y[at] = odd, {}, None
    blocks = slice(0, 800), slice(800, N)
    models = [PrivateClassifier(**LENIENT, horizon=N, classes=["ill", "well"]) for _ in range(2)]
    for block in blocks:
        models[0].partial_fit(rows[block], Y[block])
        models[1].partial_fit(gone[block], y[block])
    assert np.array_equal(models[0].learner_.coef_, models[1].learner_.coef_)


def test_threads_wait_for_each_other():
    """Each row counts once, in one run; threads once ended phases twice."""
    model = PrivateClassifier(**LENIENT, horizon=N)
    model.partial_fit(X[:10], Y[:10])
    pause = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(2) as pool:
            blocks = [slice(start, start + 20) for start in range(10, N - 10, 20)]
            assert len(list(pool.map(lambda at: model.partial_fit(X[at], Y[at]), blocks))) == len(blocks)
    finally:
        sys.setswitchinterval(pause)
    assert model.n_rows_ == 10 + 20 * len(blocks)
    assert [account.rows[1] for account in model.ledger_.accounts] == [model.encoder_.plan_.rows, N]


class Shuffled:
    """A frame whose rows come in another order each time they are requested, as those of a query may."""

    def __init__(self, frame):
        self.frame, self.asked, self.shape = frame, 0, frame.shape

    def __len__(self):
        return len(self.frame)

    def __dataframe__(self):
        raise AssertionError

    @property
    def columns(self):
        return self.frame.columns

    def __arrow_c_stream__(self, requested_schema=None):
        self.asked += 1
        return pyarrow.table(dict(self.frame.sample(frac=1.0, random_state=self.asked))).__arrow_c_stream__()


def test_a_frame_is_asked_for_its_rows_once():
    """The number of a row decides whether it teaches or is learnt: another order would mix the two."""
    frame = Shuffled(X)
    columns = columns_of(frame)
    first, again = ([b.to_pydict() for b in columns.batches({"age": "number"}, 65536, lambda _: None)] for _ in "12")
    assert first == again
    assert frame.asked == 1
