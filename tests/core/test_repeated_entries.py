"""Features stored more than once in a row: their sum depends on their order in that row, and on no other row.

Sums of doubles depend on the order of the terms. SciPy sorts either all rows of a matrix or, if all are in order, none,
by an algorithm that may exchange equal columns of a row of more than 16 entries. So one unsorted row changed the sums
of others: here from 0 to 18.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from privol import DPFTRL, open_stream
from privol._core._rows import squared_norms
from privol._sparse import sound_rows
from privol.encoding.frequent import FrequentRun, frequent_rows
from privol.encoding.phases import plan_features
from privol.encoding.schema_parts import FrequentFeatures

D = 6
IN_ORDER, OUT_OF_ORDER = ([1, 2], [1.0, 1.0]), ([2, 1], [1.0, 1.0])
CANCELLED = ([4] * 20, [1e16, *[1.0] * 18, -1e16])  # 0 when summed from the left


def csr(rows, dtype=np.float64):
    columns, values = zip(*rows, strict=True)
    pointers = np.cumsum([0, *map(len, columns)])
    return sparse.csr_array((np.concatenate(values).astype(dtype), np.concatenate(columns), pointers), (len(rows), D))


def coo(rows, dtype=np.float64):
    row = np.repeat(np.arange(len(rows)), [len(columns) for columns, _ in rows])
    columns, values = zip(*rows, strict=True)
    return sparse.coo_array((np.concatenate(values).astype(dtype), (row, np.concatenate(columns))), (len(rows), D))


def bsr(rows, dtype=np.float64):
    X = csr(rows, dtype)
    return sparse.bsr_array((X.data[:, None, None], X.indices, X.indptr), shape=X.shape)


def votes(X):
    run = FrequentRun(D, plan_features(X.shape[0], mu=np.inf, whole=True), None)
    run.take(X)
    return run._votes


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", [csr, coo, bsr])
def test_a_row_of_a_matrix(form, dtype):
    def seen(other):
        X = sound_rows(form([other, CANCELLED, ([0], [3.0])], dtype))
        part = FrequentFeatures(D, (0, 3, 4))
        return squared_norms(X)[1:].tolist(), votes(X)[[0, 3, 4, 5]].tolist(), frequent_rows(X, part).toarray().tolist()

    assert seen(IN_ORDER) == seen(OUT_OF_ORDER)
    assert seen(([1, 1], [1.0, 1.0])) == seen(OUT_OF_ORDER)


def test_a_learner_of_such_rows():
    """It releases the same model, because the unsorted row is the same row."""

    def learnt(other):
        learner = DPFTRL(epsilon=1e6, horizon=8, random_state=0)
        return learner.fit(csr([other, *[CANCELLED] * 6, ([0], [1.0])]), [0, 1, 1, 1, 1, 1, 1, 0]).coef_

    assert np.array_equal(learnt(IN_ORDER), learnt(OUT_OF_ORDER))


def test_a_row_that_is_hashed():
    """At two positions: the first of the two rows has its features in order, or not."""

    def place(key):
        (block,) = open_stream([({key: 1.0}, 0.0)], hash_features=2)
        return int(block.X.indices[0])

    keys = [f"k{i}" for i in range(80)]
    first, second = ([key for key in keys if place(key) == at] for at in (0, 1))
    values = np.random.default_rng(0).normal(size=20) * 10.0 ** np.arange(20)
    crowded = dict(zip(first, values.tolist(), strict=False)) | {second[0]: 1.0}

    def seen(other):
        (block,) = open_stream([(dict.fromkeys(other, 1.0), 0.0), (crowded, 1.0)], hash_features=2)
        assert block.X.shape == (2, 2)
        return block.X.toarray().tolist()

    assert seen([first[0], second[0]]) == seen([second[0], first[0]])
