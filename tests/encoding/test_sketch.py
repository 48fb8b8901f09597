"""The sketch of infrequent features: a twin in plain Python, the norm of a row, and invariance of the bits."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from privol import DPFTRL, PrivateClassifier, open_stream
from privol.encoding import PrivateEncoder, frequent
from privol.encoding.frequent import frequent_rows
from privol.encoding.schema import Schema
from privol.encoding.schema_parts import FrequentFeatures
from privol.encoding.sketch import OF_KEPT, OF_SKETCH, places_of
from privol.errors import InvalidParameter
from privol.ledger import Ledger
from privol.state import load_model, save_model

D = 12
VALUES = st.one_of(st.floats(), st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e308, 5e-324, math.nan, math.inf]))
ROW = st.lists(st.tuples(st.integers(0, D - 1), VALUES), max_size=D, unique_by=lambda pair: pair[0])
ROWS = st.lists(ROW, min_size=1, max_size=3)
PARTS = st.builds(
    lambda kept, width: FrequentFeatures(D, tuple(sorted(kept)), width),
    st.sets(st.integers(0, D - 1)),
    st.integers(1, 5),
)


def csr(rows, d=D):
    """Rows as they may arrive: features in any order, stored zeros."""
    indptr = np.cumsum([0, *map(len, rows)])
    pairs = [pair for row in rows for pair in row]
    indices = np.array([at for at, _ in pairs], dtype=np.int32)
    return sp.csr_array((np.array([x for _, x in pairs], dtype=float), indices, indptr), shape=(len(rows), d))


def murmur(number):
    """The murmurhash3 (32 bits, x86, seed 0) of four bytes, lowest first, as its author specifies it."""
    k = number * 0xCC9E2D51 & 0xFFFFFFFF
    k = (k << 15 | k >> 17) & 0xFFFFFFFF
    h = k * 0x1B873593 & 0xFFFFFFFF
    h = (h << 13 | h >> 19) & 0xFFFFFFFF
    h = h * 5 + 0xE6546B64 & 0xFFFFFFFF
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return h ^ h >> 16


def unit(values):
    """Values in units of their norm, slightly reduced, summed from the left."""
    largest = max(map(abs, values.values()), default=0.0) or 1.0
    values = {at: value / largest for at, value in values.items()}
    square = 0.0
    for at in sorted(values):
        square += values[at] * values[at]
    norm = math.sqrt(square) * frequent._ABOVE or 1.0
    return {at: value / norm for at, value in values.items()}


def twin(row, part):
    """The result for a row, in plain Python, feature by feature."""
    found = [0.0] * part.n_features
    if not all(math.isfinite(value) for _, value in row):
        return [math.nan, *found[1:]]
    kept = {part.kept.index(at): value for at, value in row if at in part.kept}
    others = {at: value for at, value in row if at not in part.kept}
    largest, shared = max(map(abs, others.values()), default=0.0) or 1.0, {}
    for at in sorted(others):
        word = murmur(at)
        place = (word >> 1) % part.sketch
        shared[place] = shared.get(place, 0.0) + (1 if word & 1 else -1) * others[at] / largest
    for place, value in unit(kept).items():
        found[place] = value * OF_KEPT
    for place, value in unit({place: value for place, value in shared.items() if value}).items():
        found[len(part.kept) + place] = value * OF_SKETCH if part.kept else value
    return found


def square(values):
    return sum(Fraction(value) ** 2 for value in values)


def test_places_in_a_sketch_never_change():
    numbers = [0, 1, 2, 47_235, 10**7 - 1, 2**31 - 1, *np.random.default_rng(0).integers(0, 1 << 31, 500).tolist()]
    for width in (1, 3, 64, 1 << 30):
        places, signs = places_of(np.array(numbers), width)
        assert places.tolist() == [(murmur(number) >> 1) % width for number in numbers]
        assert signs.tolist() == [1.0 if murmur(number) & 1 else -1.0 for number in numbers]
    assert [murmur(number) for number in (0, 1, 2**31 - 1)] == [593689054, 4226891818, 2641277762]


@settings(max_examples=100)
@given(ROWS, PARTS, st.randoms(use_true_random=False))
def test_rows_by_hand(rows, part, random):
    """To the last bit, for any order of features and any surrounding rows; no row is too long."""
    expected = [twin(row, part) for row in rows]
    made = frequent_rows(csr(rows), part)
    np.testing.assert_array_equal(made.toarray(), expected)
    shuffled = [random.sample(row, len(row)) for row in rows]
    np.testing.assert_array_equal(frequent_rows(csr(shuffled), part).toarray(), expected)
    dense = csr(rows).toarray()
    for i, row in enumerate(expected):
        np.testing.assert_array_equal(frequent_rows(csr(shuffled)[[i]], part).toarray()[0], row)
        np.testing.assert_array_equal(frequent_rows(dense[[i]], part).toarray()[0], row)
        if not any(map(math.isnan, row)):
            assert square(row) <= 1
            if part.kept:
                assert square(row[: len(part.kept)]) <= Fraction(4, 5)
                assert square(row[len(part.kept) :]) <= Fraction(1, 5)


@pytest.mark.parametrize("kept", [(), (0,)])
def test_scaled_rows_have_norm_at_most_1(kept):
    """For values of all sizes, and for equal ones, whose rounding errors add up."""
    rng, d = np.random.default_rng(1), 2000
    values = np.concatenate([10.0 ** rng.uniform(-300, 300, (4, d)), rng.normal(size=(4, d)), np.full((1, d), 0.1)])
    for width in (7, 4096):
        for row in frequent_rows(sp.csr_array(values), FrequentFeatures(d, kept, width)).toarray().tolist():
            assert 1 - 2.0**-19 < square(row) <= 1


def test_shares_of_a_row():
    assert Fraction(OF_KEPT) ** 2 + Fraction(OF_SKETCH) ** 2 <= 1
    assert Fraction(OF_KEPT) ** 2 <= Fraction(4, 5) < Fraction(math.nextafter(OF_KEPT, 1)) ** 2
    assert Fraction(OF_SKETCH) ** 2 <= Fraction(1, 5) < Fraction(math.nextafter(OF_SKETCH, 1)) ** 2


def test_features_of_one_place():
    """With opposite signs they leave nothing, not even a stored 0; with the same sign they add up."""
    places, signs = places_of(np.arange(1000), 8)
    one = int(np.flatnonzero((places == places[0]) & (signs == signs[0]))[1])
    other = int(np.flatnonzero((places == places[0]) & (signs != signs[0]))[0])
    apart = int(np.flatnonzero(places != places[0])[0])
    part = FrequentFeatures(1000, (999,), 8)
    made = frequent_rows(csr([[(0, 3.0), (other, 3.0)], [(0, 1.0), (one, 2.0), (apart, 4.0)]], 1000), part)
    assert made[[0]].nnz == 0
    (_, shared, alone) = (0.0, made[1, 1 + places[0]], made[1, 1 + places[apart]])
    assert signs[0] * shared == pytest.approx(0.6 * OF_SKETCH, rel=1e-6)
    assert signs[apart] * alone == pytest.approx(0.8 * OF_SKETCH, rel=1e-6)


def words(n=3000, d=2000, seed=0):
    """Rows with words that follow Zipf's law; the label is that of frequent ones."""
    rng = np.random.default_rng(seed)
    at = np.minimum(rng.zipf(1.4, size=(n, 12)) * 7 % d, d - 1)
    indptr = np.arange(0, 12 * n + 1, 12, dtype=np.int32)
    X = sp.csr_array((np.ones(12 * n), at.ravel().astype(np.int32), indptr), shape=(n, d))
    X.sum_duplicates()
    return X, (X[:, [14, 28, 49]].sum(axis=1) > 0).astype(int)


X, Y = words()
BUDGET = {"epsilon": 8.0, "random_state": 3}


def rows_of(stream):
    blocks = list(stream)
    return sp.vstack([block.X for block in blocks]).toarray()


def test_the_form_of_input_changes_nothing(tmp_path):
    from sklearn.datasets import dump_svmlight_file

    dump_svmlight_file(X, Y, str(tmp_path / "rows.svm"), zero_based=False)
    blocks = [(X[i : i + 501], Y[i : i + 501]) for i in range(0, len(Y), 501)]
    backwards = X.copy()
    for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        backwards.indices[start:stop] = X.indices[start:stop][::-1]
        backwards.data[start:stop] = X.data[start:stop][::-1]
    backwards.has_sorted_indices = backwards.has_canonical_format = False
    inputs = [
        ((X, Y), {}),
        ((backwards, Y), {"block_rows": 77}),
        (tmp_path / "rows.svm", {"n_features": X.shape[1], "zero_based": False}),
        (iter([blocks[0], *((Z.toarray(), y) for Z, y in blocks[1:])]), {"n_rows": len(Y)}),
    ]
    found = []
    for data, options in inputs:
        encoder = PrivateEncoder(n_rows=options.pop("n_rows", None), sketch=32, **BUDGET)
        stream = open_stream(data, classes=(0, 1), schema=encoder, **options)
        found.append((encoder.schema_, rows_of(stream)))
        assert stream.n_features == len(encoder.schema_.rows.kept) + 32
        assert stream.row_bound == stream.schema.usual_norm == 1.0
    for schema, made in found[1:]:
        assert schema == found[0][0]
        assert np.array_equal(made, found[0][1])
    without = PrivateEncoder(**BUDGET)
    open_stream((X, Y), classes=(0, 1), schema=without)
    assert found[0][0].rows.kept == without.schema_.rows.kept  # what teaches and its cost are the same


def test_the_estimator(tmp_path):
    """A fit, a stream and blocks give one model, which is stored, explained and applied with its sketch."""
    fitted = PrivateClassifier(**BUDGET, classes=[0, 1], sketch=16, reuse_rows=False).fit(X, Y)
    part = fitted.schema_.rows
    assert fitted.learner_.coef_.shape[-1] == len(part.kept) + 16
    assert (np.asarray(fitted.learner_.coef_).ravel()[len(part.kept) :] != 0).any()
    streamed = PrivateClassifier(**BUDGET, classes=[0, 1], sketch=16, reuse_rows=False).fit_stream((X, Y))
    blocks = PrivateClassifier(**BUDGET, classes=[0, 1], sketch=16, horizon=len(Y))
    for start in range(0, len(Y), 701):
        blocks.partial_fit(X[start : start + 701], Y[start : start + 701])
    for other in (streamed, blocks.close()):
        assert np.array_equal(other.learner_.coef_, fitted.learner_.coef_)
        assert other.guarantee_ == fitted.guarantee_
    save_model(fitted, tmp_path / "M")
    again = load_model(tmp_path / "M")
    assert again.schema_ == fitted.schema_
    assert np.array_equal(again.decision_function(X), fitted.decision_function(X))
    named = [record["column"] for record in fitted.explain().importance]
    assert {"sketch 0", "sketch 15", f"feature {part.kept[0]}"} <= {*named}


def test_the_transformer():
    encoder = PrivateEncoder(**BUDGET, sketch=4).fit(X)
    part = encoder.schema_.rows
    names = encoder.get_feature_names_out().tolist()
    assert names == [*(f"#{feature}" for feature in part.kept), "sketch 0", "sketch 1", "sketch 2", "sketch 3"]
    assert np.array_equal(encoder.transform(X).toarray(), frequent_rows(X, part).toarray())


def test_with_a_sketch_no_feature_needs_to_be_frequent():
    """If no feature exceeds the noise, all of them are in the sketch, which holds the whole norm of a row."""
    rare = sp.csr_array((np.ones(600), np.arange(600), np.arange(601)), shape=(600, 10**6))
    ledger = Ledger()
    encoder = PrivateEncoder(epsilon=0.5, random_state=0, sketch=8, ledger=ledger)
    made = rows_of(open_stream((rare, np.arange(600) % 2), classes=(0, 1), schema=encoder))
    assert encoder.schema_.rows == FrequentFeatures(10**6, (), 8)
    assert Schema.load(encoder.schema_.to_record()) == encoder.schema_
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1.0, rtol=1e-6)
    assert ledger.spent.epsilon(1e-6) == pytest.approx(0.5)


def test_ten_million_features_and_nothing_learnt():
    """A declared sketch costs nothing: the model behind it has as many features as the sketch is wide."""
    rng, d = np.random.default_rng(0), 10**7
    at = rng.integers(0, d, (400, 30))
    rows = sp.csr_array((rng.normal(size=at.size), at.ravel(), np.arange(0, at.size + 1, 30)), shape=(400, d))
    schema = {"rows": {"features": d, "kept": [], "sketch": 64}}
    stream = open_stream((rows, np.arange(400) % 2), classes=(0, 1), schema=schema)
    ledger = Ledger()
    learner = DPFTRL(epsilon=1.0, x_bound=1.0, ledger=ledger).fit_stream(stream)
    assert learner.coef_.shape[-1] == 64
    assert learner.n_scaled_rows_ == 0
    assert len(ledger.entries()) == 1


def test_the_schema_is_kept_as_it_is(tmp_path):
    for part in (FrequentFeatures(50, (0, 7, 49), 9), FrequentFeatures(2**31, (), 1 << 30)):
        schema = Schema(rows=part)
        assert Schema.from_record(schema.to_record()) == schema
        (tmp_path / "rows.toml").write_text(schema.to_toml())
        assert Schema.load(tmp_path / "rows.toml") == schema
    assert Schema(rows=FrequentFeatures(50, (7,))).to_record()["rows"] == {"features": 50, "kept": [7]}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"kept": [1], "sketch": -1}, "rows.sketch must be an integer of at least 0 and at most 1073741824, found -1"),
        ({"kept": [1], "sketch": 1.5}, "rows.sketch must be an integer"),
        ({"kept": [1], "sketch": (1 << 30) + 1}, "rows.sketch must be an integer"),
        ({"kept": [], "sketch": 0}, "rows.kept must be a list of at least one number of a feature"),
        ({"sketch": 4}, "rows.kept must be a list of numbers of features, found None"),
        ({"kept": [1], "sketch": 4, "features": 2**31 + 1}, "rows.features must be an integer"),
    ],
)
def test_bad_schemas(found, said):
    with pytest.raises(InvalidParameter, match=said):
        Schema.load({"rows": {"features": 5, **found}})


def test_what_is_refused_before_anything_is_spent():
    ledger = Ledger()
    for sketch in (-1, 0.5, (1 << 30) + 1, None):
        with pytest.raises(InvalidParameter, match="sketch must be an integer"):
            open_stream((X, Y), classes=(0, 1), schema=PrivateEncoder(sketch=sketch, ledger=ledger))
    with pytest.raises(InvalidParameter, match="sketch applies to sparse rows of numbered features, found columns"):
        PrivateEncoder(sketch=4, ledger=ledger).fit(X[:, :5].toarray())
    wide = sp.csr_array((np.ones(9), np.arange(9, dtype=np.int64), np.arange(10)), shape=(9, 2**31 + 1))
    with pytest.raises(InvalidParameter, match=r"a sketch is of at most 2,147,483,648 features, found 2,147,483,649"):
        open_stream((wide, np.arange(9) % 2), schema=PrivateEncoder(sketch=4, ledger=ledger))
    assert not ledger.entries()
