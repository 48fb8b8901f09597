"""PrivateEncoder as a transformer of scikit-learn: the same bits as a stream, what fit costs, names and checks."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from privol import DPFTRL, open_stream
from privol.encoding import PrivateEncoder
from privol.errors import BudgetExceeded, InvalidParameter, StateError, StreamError
from privol.ledger import Ledger


def frame(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.normal(50, 10, n)
    return pandas.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, age),
            "town": rng.choice(["Oslo", "Bergen", "Narvik"], n, p=[0.5, 0.3, 0.2]),
            "visit": pandas.date_range("2020-01-01", periods=n, freq="37min"),
            "mixed": [cell if i % 7 else None for i, cell in enumerate(rng.choice([1, 2.5, "none"], n).astype(object))],
            "sick": rng.random(n) < 0.4,
        }
    )


def sparse(n=3000, d=500, seed=0):
    rng = np.random.default_rng(seed)
    words = np.minimum(rng.zipf(1.5, size=(n, 8)), d) - 1
    return sp.csr_array(
        (np.ones(8 * n), words.ravel().astype(np.int32), np.arange(0, 8 * n + 1, 8, dtype=np.int32)), shape=(n, d)
    )


def streamed(data, schema, **words):
    blocks = [block.X for block in open_stream(data, schema=schema, target=False, **words)]
    return np.concatenate([block.toarray() if sp.issparse(block) else block for block in blocks])


def expected_failures(encoder):
    return {"check_fit2d_1sample": "a row is refused as too few, in other words than it looks for"}


@parametrize_with_checks(
    [PrivateEncoder(epsilon=math.inf), PrivateEncoder(epsilon=1e7, random_state=0)],
    expected_failed_checks=expected_failures,
)
def test_checks(estimator, check):
    check(estimator)


def test_the_bits_are_those_of_a_stream():
    table = frame()
    encoder = PrivateEncoder(epsilon=2.0, random_state=0).fit(table)
    found = encoder.transform(table)
    assert np.array_equal(found, streamed(table, encoder.schema_))
    assert found.shape == (len(table), len(encoder.get_feature_names_out()))
    assert np.array_equal(encoder.transform(table[3:11]), found[3:11])  # each row by itself
    assert np.array_equal(found, PrivateEncoder(epsilon=2.0, random_state=0).fit_transform(table))
    stream = open_stream(table, schema=encoder.schema_, target=False)
    assert tuple(encoder.get_feature_names_out()) == stream.feature_names
    assert {"age=missing", "town=(missing)"} & set(stream.feature_names)


def test_arrays_are_read_cell_by_cell():
    """The same cells in an array of objects and in a frame of objects; one cell of text changes no other row."""
    cells = frame(2000)[["age", "town", "mixed"]].to_numpy(dtype=object)
    named = pandas.DataFrame(cells, columns=["x0", "x1", "x2"], dtype=object)
    encoder = PrivateEncoder(epsilon=5.0, random_state=0).fit(cells)
    assert np.array_equal(encoder.transform(cells), PrivateEncoder(epsilon=5.0, random_state=0).fit_transform(named))
    other = cells.copy()
    other[5] = ["?", 7, b"x".decode()]
    assert np.array_equal(np.delete(encoder.transform(other), 5, 0), np.delete(encoder.transform(cells), 5, 0))
    numbers = np.random.default_rng(0).normal(size=(2000, 3))
    as_numbers = PrivateEncoder(epsilon=5.0, random_state=0).fit_transform(numbers)
    assert np.array_equal(as_numbers, PrivateEncoder(epsilon=5.0, random_state=0).fit_transform(numbers.astype(object)))


def test_all_rows_teach_and_pay_once():
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    encoder = PrivateEncoder(epsilon=1.0, ledger=ledger).fit(frame())
    assert sum(rows for _, rows in encoder.plan_.phases) >= len(frame()) - 3
    assert ledger.spent.epsilon() == pytest.approx(1.0, rel=1e-6)
    assert encoder.plan_.labels == 0
    with pytest.raises(BudgetExceeded):
        encoder.fit(frame())
    assert clone(encoder).ledger is ledger


def test_a_pipeline_pays_for_both():
    table = frame()
    y = (table["town"] == "Oslo").to_numpy()
    ledger = Ledger()
    encoder = PrivateEncoder(epsilon=1.0, ledger=ledger, random_state=0)
    learner = DPFTRL(epsilon=1.0, x_bound=3.0, ledger=ledger, random_state=1, radius=20.0, regularization=300.0)
    model = make_pipeline(encoder, learner).fit(table, y)
    assert model.score(table, y) > 0.9
    mu = model[0].guarantee_.mu
    assert ledger.spent.mu == pytest.approx(math.sqrt(2) * mu, rel=1e-9)
    parts = ColumnTransformer([("own", PrivateEncoder(epsilon=5.0, random_state=0), ["age", "town"])])
    assert np.array_equal(
        parts.fit_transform(table), PrivateEncoder(epsilon=5.0, random_state=0).fit_transform(table[["age", "town"]])
    )


def test_frames_come_out():
    table = frame(2000)
    encoder = PrivateEncoder(epsilon=5.0, random_state=0).set_output(transform="pandas").fit(table)
    found = encoder.transform(table)
    assert list(found.columns) == list(encoder.get_feature_names_out())
    assert np.array_equal(found.to_numpy(), clone(encoder).set_output(transform="default").fit_transform(table))
    csr = PrivateEncoder(epsilon=5.0, random_state=0, sparse_output=True).fit_transform(table)
    assert sp.issparse(csr)
    assert np.array_equal(csr.toarray(), found.to_numpy())


def test_sparse_rows():
    X = sparse()
    encoder = PrivateEncoder(epsilon=2.0, random_state=0).fit(X)
    found = encoder.transform(X)
    assert sp.issparse(found)
    assert np.array_equal(found.toarray(), streamed(X, encoder.schema_))
    assert tuple(encoder.get_feature_names_out()) == tuple(f"#{at}" for at in encoder.schema_.rows.kept)
    assert encoder.plan_.features == 3000
    dense = clone(encoder).set_params(sparse_output=False).fit_transform(X)
    assert np.array_equal(dense, found.toarray())


def test_pickles_leave_the_ledger_behind():
    table, ledger = frame(2000), Ledger()
    encoder = PrivateEncoder(epsilon=5.0, ledger=ledger, random_state=0).fit(table)
    assert copy.deepcopy(encoder).ledger is ledger
    found = pickle.loads(pickle.dumps(encoder))
    assert np.array_equal(found.transform(table), encoder.transform(table))
    with pytest.raises(StateError, match="its ledger stayed behind"):
        found.fit(table)
    assert len(ledger.entries()) == 1
    with pytest.raises(InvalidParameter, match=r"ledger must be a privol\.ledger\.Ledger"):
        PrivateEncoder(ledger=1.0).fit(table)


def test_what_is_refused():
    table = frame(2000)
    with pytest.raises(InvalidParameter, match="n_rows is for streams"):
        PrivateEncoder(n_rows=10).fit(table)
    encoder = PrivateEncoder(epsilon=5.0).fit(table)
    with pytest.raises(InvalidParameter, match="fitted on columns"), pytest.warns(UserWarning, match="feature names"):
        encoder.transform(sp.csr_array((4, 5)))
    with pytest.raises(ValueError, match="feature names"):
        encoder.transform(table.rename(columns={"age": "aged"}))
    with pytest.raises(StreamError, match="no rows"):
        encoder.transform(table[:0])
    ledger = Ledger()
    with pytest.raises(InvalidParameter, match="too few"):
        PrivateEncoder(ledger=ledger).fit(table[:2])
    assert not ledger.entries()
