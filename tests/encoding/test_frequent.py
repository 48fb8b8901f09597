"""Frequent features of sparse rows: the effect of a row, which features are kept, and the resulting rows."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from privol import DPFTRL, open_stream
from privol.encoding import PrivateEncoder, frequent
from privol.encoding.frequent import FrequentRun, frequent_rows
from privol.encoding.phases import plan_features
from privol.encoding.schema import Schema
from privol.encoding.schema_parts import FrequentFeatures
from privol.errors import InvalidParameter, StreamError
from privol.ledger import Ledger

D = 12
VALUES = st.one_of(st.floats(width=32), st.sampled_from([0.0, -0.0, 1e308, 5e-324, math.nan, math.inf]))
ROWS = st.lists(st.tuples(st.integers(0, D - 1), VALUES), max_size=20)
UNIT = frequent._VOTES


def csr(rows):
    """Rows as they may arrive: repeated features, in any order, stored zeros."""
    indptr = np.cumsum([0, *map(len, rows)])
    pairs = [pair for row in rows for pair in row]
    indices = np.array([at for at, _ in pairs], dtype=np.int32)
    return sp.csr_array((np.array([x for _, x in pairs], dtype=float), indices, indptr), shape=(len(rows), D))


def summed(row):
    """The values of a row by feature; repeated features are added up."""
    found = {}
    for at, value in row:
        found[at] = found.get(at, 0.0) + value
    return found


def votes_of(rows):
    run = FrequentRun(D, plan_features(len(rows), mu=math.inf, whole=True), None)
    try:
        assert run.take(csr(rows)) == len(rows)
    except StreamError:  # no row has any feature
        assert not run._votes.any()
    return run._votes


@settings(max_examples=150)
@given(st.lists(ROWS, min_size=1, max_size=5), ROWS)
def test_what_a_row_moves(rows, other):
    """Exactly: the squares of all its votes add up to at most 1 in their unit, whatever the row holds."""
    votes = votes_of(rows)
    for row in (*rows, other):
        alone = votes_of([row])
        assert sum(int(vote) ** 2 for vote in alone) <= UNIT**2
        having = [at for at, value in summed(row).items() if value != 0]
        assert np.array_equal(np.flatnonzero(alone), sorted(having))
        if having:
            assert len(set(alone[having].tolist())) == 1
            assert alone[having[0]] == math.isqrt(UNIT**2 // len(having))
    assert np.array_equal(votes, sum(votes_of([row]) for row in rows))
    moved = votes - votes_of([*rows[:-1], other])
    assert sum(int(vote) ** 2 for vote in moved) <= 2 * UNIT**2
    removed = votes - votes_of([*rows[:-1], []])
    assert sum(int(vote) ** 2 for vote in removed) <= UNIT**2


def test_the_flags_of_a_sparse_matrix_are_not_trusted():
    X = csr([[(2, 1.0), (5, 1.0)], [(1, 3.0)]])
    assert X.has_canonical_format
    X.indices[1] = 2  # the same feature twice, and the matrix's flags do not say so
    assert X.has_canonical_format
    run = FrequentRun(D, plan_features(2, mu=math.inf, whole=True), None)
    run.take(X)
    assert run._votes.tolist() == [0, UNIT, UNIT, *[0] * (D - 3)]
    assert np.linalg.norm(frequent_rows(X, FrequentFeatures(D, (2, 5))).toarray(), axis=1).max() <= 1.0


@settings(max_examples=150)
@given(st.lists(ROWS, min_size=1, max_size=5), st.sets(st.integers(0, D - 1), min_size=1))
def test_rows_by_hand(rows, kept):
    part = FrequentFeatures(D, tuple(sorted(kept)))
    X = csr(rows)
    before = X.copy()
    made = frequent_rows(X, part)
    assert np.array_equal(X.indices, before.indices)
    assert np.array_equal(X.data, before.data, equal_nan=True)
    for i, row in enumerate(rows):
        values = summed(row)
        found = made[[i]].toarray()[0]
        alone = frequent_rows(csr([row]), part)
        assert np.array_equal(found, alone.toarray()[0], equal_nan=True)  # unaffected by other rows
        if not all(map(math.isfinite, values.values())):
            assert np.isnan(found[0])
            continue
        ours = [Fraction(values.get(at, 0.0)) for at in part.kept]
        square = sum(x * x for x in ours)
        if not square:
            assert not found.any()
            continue
        assert sum(Fraction(x) ** 2 for x in found.tolist()) <= 1
        scale = max(map(abs, ours))
        norm = math.sqrt(sum((x / scale) ** 2 for x in ours))
        np.testing.assert_allclose(found, [float(x / scale) / norm for x in ours], rtol=2e-6, atol=1e-300)


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_the_scale_of_the_noise(monkeypatch, adjacency):
    """Scores of 50,000 absent features are standard normal: false alarms below 1e-9; two thirds is rejected."""
    seen = []

    def capture(scores):
        seen.append(scores)
        return np.arange(1)

    monkeypatch.setattr(frequent, "_standing_out", capture)
    d, n = 50_000, 20_000
    X = sp.csr_array((np.ones(4 * n), np.tile(np.arange(4), n), np.arange(0, 4 * n + 1, 4)), shape=(n, d))
    encoder = PrivateEncoder(epsilon=1.0, adjacency=adjacency, random_state=5)
    open_stream((X, np.zeros(n)), schema=encoder)
    (scores,) = seen
    std = math.sqrt(2 if adjacency == "replace" else 1) / encoder.plan_.mu
    assert np.var(scores[4:]) == pytest.approx(1.0, abs=6 * math.sqrt(2 / d))
    assert scores[:4] == pytest.approx(0.5 * encoder.plan_.rows / std, abs=6)


def test_which_features_stand_out():
    rng = np.random.default_rng(0)
    none = [len(frequent._standing_out(rng.standard_normal(20_000))) for _ in range(40)]
    assert sum(map(bool, none)) <= 6  # each with probability 0.01: more with probability less than 1e-6
    scores = rng.standard_normal(20_000)
    scores[100:300] += 6.0
    kept = frequent._standing_out(scores)
    assert np.isin(np.arange(100, 300), kept).mean() > 0.9
    assert len(kept) < 2.5 * 200
    assert np.array_equal(kept, np.unique(kept))
    assert len(frequent._standing_out(scores + 9.0)) == frequent._MOST


def table(n=6000, d=3000, seed=0):
    """Rows with words that follow Zipf's law; the label is that of frequent ones."""
    rng = np.random.default_rng(seed)
    words = np.minimum(rng.zipf(1.4, size=(n, 12)) * 7 % d, d - 1)
    X = sp.csr_array(
        (np.ones(12 * n), words.ravel().astype(np.int32), np.arange(0, 12 * n + 1, 12, dtype=np.int32)), shape=(n, d)
    )
    X.sum_duplicates()
    return X, (X[:, [14, 28, 49]].sum(axis=1) > 0).astype(float)


def rows_of(stream):
    blocks = list(stream)
    return sp.vstack([block.X for block in blocks]), np.concatenate([block.y for block in blocks])


def test_the_stream_is_of_the_other_rows_and_costs_nothing_beside():
    X, y = table()
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    encoder = PrivateEncoder(epsilon=1.0, ledger=ledger, random_state=1)
    stream = open_stream((X, y), classes=(0, 1), schema=encoder)
    part = encoder.schema_.rows
    assert {7, 14, 21} <= set(part.kept)
    assert stream.n_features == len(part.kept) < 600
    assert stream.row_bound == stream.schema.usual_norm == 1.0
    assert stream.first_row == encoder.plan_.features + 1 == encoder.plan_.rows + 1
    learner = DPFTRL(epsilon=1.0, on_invalid="zero", ledger=ledger).fit_stream(stream)
    assert ledger.spent.epsilon() == pytest.approx(1.0, rel=1e-6)
    assert any("the schema was learnt from" in words for words in learner.guarantee_.conditions)
    made, found = rows_of(open_stream((X, y), classes=(0, 1), schema=encoder.schema_, first_row=stream.first_row))
    assert np.array_equal(found, y[encoder.plan_.rows :])
    expected = frequent_rows(X[encoder.plan_.rows :], part)
    assert (made != expected).nnz == 0


def test_the_form_of_input_changes_nothing(tmp_path):
    from sklearn.datasets import dump_svmlight_file

    X, y = table()
    dump_svmlight_file(X, y, str(tmp_path / "rows.svm"), zero_based=False)
    blocks = [(X[i : i + 501], y[i : i + 501]) for i in range(0, len(y), 501)]
    inputs = [
        ((X, y), {}),
        ((sp.csr_matrix(X), y), {"block_rows": 77}),
        (tmp_path / "rows.svm", {"n_features": X.shape[1], "zero_based": False}),
        (iter(blocks), {"n_rows": len(y)}),
    ]
    found = []
    for data, words in inputs:
        n_rows = words.pop("n_rows", None)
        encoder = PrivateEncoder(random_state=3, n_rows=n_rows)
        made, labels = rows_of(open_stream(data, classes=(0, 1), schema=encoder, **words))
        assert np.array_equal(labels, y[encoder.plan_.rows :])
        found.append((encoder.schema_.to_record(), made, labels))
    for record, made, labels in found[1:]:
        assert record == found[0][0]
        assert (made != found[0][1]).nnz == 0
        assert np.array_equal(labels, found[0][2])


def test_words_of_dictionaries():
    """Hashed by a public hash: from two frequent words and unique rare ones, few features are left."""
    rng = np.random.default_rng(0)
    rows = [
        (
            {word: 1.0 for word in ("oslo", "bergen") if rng.random() < 0.5} | {f"rare {i}": 1.0},
            "yes" if i % 2 else "no",
        )
        for i in range(4000)
    ]
    words = {"positive": "yes", "hash_features": 1 << 16}
    found = open_stream(rows, **words, schema=PrivateEncoder(epsilon=4.0, random_state=0))
    hashed = open_stream([({"oslo": 1.0, "bergen": 1.0}, "yes")], **words)
    assert {*next(iter(hashed)).X.indices} <= {*found.schema.rows.kept}
    assert found.n_features < 64  # of 65,536: noise may bring half of them


def test_the_schema_is_kept_as_it_is():
    schema = Schema(rows=FrequentFeatures(50, (0, 7, 49)))
    assert Schema.from_record(schema.to_record()) == schema
    assert Schema.load({"rows": {"features": 50, "kept": [0, 7, 49]}}) == schema


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"features": 5}, "rows.kept must be a list"),
        ({"features": 5, "kept": []}, "rows.kept must be a list"),
        ({"features": 5, "kept": [1, 5]}, "rows.kept must be an integer of at least 0 and at most 4"),
        ({"features": 5, "kept": [2, 1]}, "rows.kept must ascend"),
        ({"features": 5, "kept": [1], "cosine": 3}, "cosine"),
        ({"features": 0, "kept": [1]}, "rows.features must be an integer of at least 1"),
    ],
)
def test_bad_schemas(found, words):
    with pytest.raises(InvalidParameter, match=words):
        Schema.load({"rows": found})


def test_rows_and_columns_exclude_each_other():
    with pytest.raises(InvalidParameter, match="rows is for sparse rows, which have no columns"):
        Schema.load({"rows": {"features": 5, "kept": [1]}, "columns": {"a": {}}})


def test_what_is_refused():
    X, y = table(n=400, d=50)
    ledger = Ledger()
    with pytest.raises(InvalidParameter, match="found dense rows without columns"):
        open_stream((X.toarray(), y), schema=PrivateEncoder(ledger=ledger))
    with pytest.raises(InvalidParameter, match="drop applies to columns"):
        open_stream((X, y), schema=PrivateEncoder(drop=["a"], ledger=ledger))
    with pytest.raises(InvalidParameter, match="too few to learn"):
        open_stream((X[:3], y[:3]), schema=PrivateEncoder(ledger=ledger))
    with pytest.raises(StreamError, match="found 50 features, allowed are n_features=51"):
        open_stream((X, y), n_features=51, schema=PrivateEncoder(ledger=ledger))
    assert not ledger.entries()
    schema = {"rows": {"features": 49, "kept": [1]}}
    with pytest.raises(StreamError, match="found 50 features, allowed are n_features=49"):
        open_stream((X, y), schema=schema)
    with pytest.raises(StreamError, match="has no more rows than those that taught"):
        list(open_stream((X, y), schema={"rows": {"features": 50, "kept": [1]}}, first_row=402))


def test_an_encoding_lost_in_noise_is_paid_for():
    X, y = table(n=400, d=3000)
    ledger = Ledger()
    with pytest.raises(StreamError, match="no feature stood out"):
        open_stream((X, y), schema=PrivateEncoder(epsilon=0.1, ledger=ledger, random_state=0))
    (entry,) = ledger.entries()
    assert entry.mu_squared > 0
    assert not entry.open
    with pytest.raises(StreamError, match="ended after 400 rows"):
        open_stream((X, y), schema=PrivateEncoder(n_rows=10**6, ledger=ledger))
    assert len(ledger.entries()) == 2


def test_without_noise_the_features_that_occur_are_kept():
    X, y = table(n=400, d=50)
    stream = open_stream((X, y), schema=PrivateEncoder(epsilon=math.inf))
    assert list(stream.schema.rows.kept) == np.unique(X[:40].indices).tolist()
