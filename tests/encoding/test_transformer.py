"""PrivateEncoder as a scikit-learn transformer: the same bits as a stream, the cost of fit, names and checks."""

from __future__ import annotations

import copy
import math
import pickle
import sys

import numpy as np
import pandas
import polars
import pyarrow
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from privol import DPFTRL, PrivateClassifier, open_stream
from privol.encoding import PrivateEncoder
from privol.encoding.labels import Labels
from privol.encoding.learning import EncodingRun
from privol.encoding.lesson import Lesson
from privol.encoding.schema_parts import Hashed
from privol.errors import BudgetExceeded, InvalidParameter, StateError, StreamError
from privol.guarantees import gdp_mu
from privol.ledger import Ledger
from privol.readers.frames import FrameColumns


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


@parametrize_with_checks([PrivateEncoder(epsilon=math.inf), PrivateEncoder(epsilon=1e7, random_state=0)])
def test_checks(estimator, check):
    check(estimator)


def test_transform_gives_the_bits_of_a_stream():
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
    """The same cells in an array of objects and in a frame of objects; one text cell changes no other row."""
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


def test_lists_are_read_cell_by_cell():
    """Otherwise a number with a fraction in one row would turn another row's 1 into 1.0, which is another category."""
    cells = [["a" if i % 3 else 1 + i % 2, float(i % 5)] for i in range(3000)]
    encoder = PrivateEncoder(epsilon=20.0, random_state=0).fit(cells)
    assert encoder.schema_ == PrivateEncoder(epsilon=20.0, random_state=0).fit(np.array(cells, dtype=object)).schema_
    assert isinstance(dict(encoder.schema_.columns)["x0"], Hashed)
    rows = [[1, 2.0], [2, 3.0]]
    found = encoder.transform([*rows, [2.5, 0.0]])[:2]
    assert np.array_equal(found, encoder.transform(rows))
    assert np.array_equal(found, encoder.transform(np.array(rows, dtype=object)))
    with pytest.raises(ValueError, match="inhomogeneous"):
        encoder.transform([[1, 2.0], [3]])


def test_what_is_masked_is_missing():
    values = np.random.default_rng(0).normal(size=(3000, 2))
    hidden = np.random.default_rng(1).random((3000, 2)) < 0.2
    masked = np.ma.array(np.where(hidden, 1e6, values), mask=hidden)
    found = PrivateEncoder(epsilon=5.0, random_state=0).fit_transform(masked)
    assert np.array_equal(
        found, PrivateEncoder(epsilon=5.0, random_state=0).fit_transform(np.where(hidden, np.nan, values))
    )


def test_frames_of_polars_and_arrow():
    table = frame(3000)[["age", "town", "sick"]]
    encoder = PrivateEncoder(epsilon=5.0, random_state=0).fit(table)
    for other in (polars.from_pandas(table), pyarrow.Table.from_pandas(table)):
        assert np.array_equal(encoder.transform(other), encoder.transform(table))
        again = PrivateEncoder(epsilon=5.0, random_state=0).fit(other)
        assert again.schema_ == encoder.schema_
        assert np.array_equal(again.feature_names_in_, encoder.feature_names_in_)
        assert np.array_equal(again.transform(other), streamed(other, again.schema_))


def test_names_by_position():
    """Columns without names are identified by position: arrays, and frames whose names are not strings."""
    values = np.random.default_rng(0).normal(size=(2000, 3))
    unnamed = pandas.DataFrame(values)
    encoder = PrivateEncoder(epsilon=5.0, random_state=0).fit(unnamed)
    assert not hasattr(encoder, "feature_names_in_")
    assert np.array_equal(encoder.transform(values), encoder.transform(unnamed))
    names = encoder.get_feature_names_out()
    assert {name.split("~")[0] for name in names} == {"x0", "x1", "x2"}
    renamed = encoder.get_feature_names_out(["a", "b", "c"])
    assert [name.replace("x0~", "a~").replace("x1~", "b~").replace("x2~", "c~") for name in names] == list(renamed)
    parts = ColumnTransformer([("first", encoder, [0]), ("last", encoder, [2])]).fit(values)
    assert {name.split("~")[0] for name in parts.get_feature_names_out()} == {"first__x0", "last__x2"}
    named = PrivateEncoder(epsilon=5.0, random_state=0).fit(unnamed.rename(columns=str))
    with pytest.warns(UserWarning, match="valid feature names"):
        assert np.array_equal(named.transform(values), encoder.transform(values))


def test_an_encoder_taught_by_a_stream_transforms():
    table = frame()
    encoder = PrivateEncoder(epsilon=5.0, random_state=0).fit(np.zeros((500, 2)) + np.arange(500)[:, None])
    stream = open_stream(table, target="sick", schema=encoder)
    assert not hasattr(encoder, "n_features_in_")
    rest = table[encoder.plan_.rows :]
    rows = np.concatenate([block.X for block in stream])
    assert np.array_equal(encoder.transform(rest), rows)  # the target is left out
    assert np.array_equal(encoder.transform(rest.drop(columns="sick")), rows)
    assert tuple(encoder.get_feature_names_out()) == stream.feature_names
    with pytest.raises(InvalidParameter, match="has 2 columns, and the schema is of 4"):
        encoder.transform(np.zeros((3, 2)))
    with pytest.raises(StreamError, match="stood out of the noise"):
        encoder.fit(np.array([f"name{i}" for i in range(1000)]).reshape(500, 2))
    with pytest.raises(NotFittedError):
        encoder.transform(table)


@pytest.mark.parametrize("numeric", ["cosine", "spline", "linear", "bins"])
def test_each_row_is_that_of_a_stream(numeric):
    """Row by row, however the stream is cut."""
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({f"word{j}": rng.choice([f"w{k}" for k in range(40)], 4000) for j in range(3)})
    table["size"] = rng.normal(size=4000)
    encoder = PrivateEncoder(epsilon=20.0, numeric=numeric, random_state=0).fit(table)
    dense = encoder.transform(table)
    assert isinstance(dense, np.ndarray)
    for one, other in zip(dense, streamed(table, encoder.schema_, block_rows=77), strict=True):
        assert one.tobytes() == other.tobytes()
    assert np.linalg.norm(dense, axis=1).max() <= encoder.schema_.row_bound


def test_all_rows_teach_and_pay_once():
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    encoder = PrivateEncoder(epsilon=1.0, ledger=ledger).fit(frame())
    assert sum(rows for _, rows in encoder.plan_.phases) >= len(frame()) - 3
    assert ledger.spent.epsilon() == pytest.approx(1.0, rel=1e-6)
    assert encoder.plan_.labels == 0
    with pytest.raises(BudgetExceeded):
        encoder.fit(frame())
    assert clone(encoder).ledger is ledger
    assert any("whoever learns them again" in words for words in encoder.guarantee_.conditions)
    own = PrivateEncoder(epsilon=1.0).fit(frame()).fit(frame(seed=1))
    assert len(own.ledger_.entries()) == 2
    assert own.ledger_.spent.mu == pytest.approx(math.sqrt(2) * own.plan_.mu, rel=1e-9)
    assert not clone(own).fit(frame()).ledger_.entries()[1:]


def test_fit_spends_what_learn_does():
    """One account, whose noise is that of the plan's phases; the schema is that of learn, with the same seed."""
    table, ledger = frame(), Ledger()
    encoder = PrivateEncoder(epsilon=2.0, ledger=ledger, random_state=3, adjacency="replace").fit(table)
    other = PrivateEncoder(epsilon=2.0, ledger=ledger, random_state=3)
    other.learn(FrameColumns(table), False, Labels(None, None), whole=True)
    assert encoder.schema_ == other.schema_
    assert encoder.plan_ == other.plan_ == encoder.plan(len(table), table.shape[1], target=False, whole=True)
    assert encoder.guarantee_ == other.guarantee_
    one, two = ledger.entries()
    assert one.mu_squared == two.mu_squared >= encoder.plan_.mu**2
    assert (one.last_row, one.open) == (encoder.plan_.rows, False)
    assert encoder.plan_.noise(4) == pytest.approx(math.sqrt(8) / gdp_mu(2.0, 1e-6), rel=1e-9)
    nulls = PrivateEncoder(epsilon=2.0, adjacency="zero_out").fit(table)
    assert nulls.ledger_.adjacency == nulls.guarantee_.adjacency == nulls.schema_.learnt.adjacency == "zero_out"
    with pytest.raises(InvalidParameter, match="adjacency"):
        PrivateEncoder(adjacency="zero_out", ledger=ledger).fit(table)


@pytest.mark.parametrize("whole_batches", [0, 1])
def test_rows_that_cannot_be_read_cost_nothing_until_one_has_taught(whole_batches):
    """A batch of the first phase alone has shown nothing yet, but it was counted, so it is paid for."""

    class Torn(FrameColumns):
        def batches(self, *asked):
            for number, batch in enumerate(super().batches(*asked)):
                yield from [batch.slice(0, 5)] * whole_batches
                raise StreamError(f"torn at batch {number}")

    ledger = Ledger()
    with pytest.raises(StreamError, match="torn at batch 0"):
        PrivateEncoder(epsilon=1.0, ledger=ledger).learn(Torn(frame()), False, Labels(None, None), whole=True)
    (account,) = ledger.entries()
    assert not account.open
    assert ledger.spent.mu == (pytest.approx(gdp_mu(1.0, 1e-6)) if whole_batches else 0.0)


def test_an_account_closed_at_any_moment_pays_for_what_is_said():
    """Another thread or a signal closes the account at each line of the lesson: an error of noisy counts is charged."""
    X, found = frame(600), []
    for at in range(1, 40):
        ledger, seen = Ledger(epsilon=2.0, delta=1e-6), []

        def trace(code, event, _, at=at, ledger=ledger, seen=seen):
            if code.f_code is not Lesson.take.__code__:
                return trace if event == "call" and code.f_code.co_name == "partial_fit" else None
            if event == "line":
                seen.append(code.f_lineno)
                if len(seen) == at:
                    for account in ledger.accounts:
                        account.close()
            return trace

        sys.settrace(trace)
        try:
            PrivateClassifier(epsilon=0.1, ledger=ledger, random_state=0).fit(X[["age"]], ["HIV+"] * 600)
        except (StreamError, StateError) as error:
            found.append((isinstance(error, StreamError), ledger.spent.mu > 0.0))
        finally:
            sys.settrace(None)
        if len(seen) < at:
            break
    assert (True, True) in found
    assert (False, False) in found
    assert (True, False) not in found, "a message of noisy counts was free"


def test_a_lesson_keeps_its_own_account(monkeypatch):
    """Another thread sets a smaller epsilon and learns with the same encoder, while the first one prepares."""
    X, ledger = frame(), Ledger()
    encoder, made, begun = PrivateEncoder(epsilon=1.0, ledger=ledger, random_state=0), EncodingRun.__init__, []

    def slow(run, *args, **how):
        made(run, *args, **how)
        if not begun:
            begun.append(encoder.account_)
            encoder.set_params(epsilon=0.6).fit(X)

    monkeypatch.setattr(EncodingRun, "__init__", slow)
    encoder.fit(X)
    first, second = ledger.accounts
    assert first is begun[0]
    assert first.closed
    assert first.entry().rows == second.entry().rows > 0
    assert first.entry().mu_squared == pytest.approx(gdp_mu(1.0, 1e-6) ** 2)
    assert encoder.schema_.learnt.mu == first.guarantee.mu


def test_a_pipeline_pays_for_both():
    table = frame()
    y = (table["town"] == "Oslo").to_numpy()
    ledger = Ledger()
    encoder = PrivateEncoder(epsilon=1.0, ledger=ledger, random_state=0)
    learner = DPFTRL(epsilon=1.0, x_bound=3.0, ledger=ledger, random_state=1, radius=20.0, regularization=300.0)
    model = make_pipeline(encoder, learner).fit(table, y)
    assert model.score(table, y) > 0.8
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
