"""Features centred by means that depend on released counts alone, near the true means, within the stated norm."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from privol.encoding import PrivateEncoder
from privol.encoding.means import MOST_DENSE_FEATURES, _roundest
from privol.encoding.schema_parts import Hashed, Knots
from privol.errors import InvalidParameter
from privol.streams import Schema, open_stream
from tests.encoding.test_private_encoding import learn, plan, rows_of


def rows(source, schema, **words):
    blocks = list(open_stream(source, schema=schema, **words))
    return np.concatenate([block.X.toarray() if sp.issparse(block.X) else block.X for block in blocks])


def frame(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    some = rng.random(n) < 0.3
    return pandas.DataFrame(
        {
            "size": rng.gamma(2.0, 20.0, n),
            "flag": rng.integers(0, 2, n),
            "visits": rng.poisson(1.5, n),
            "gain": np.where(rng.random(n) < 0.95, 0, rng.integers(1, 9, n)),
            "town": rng.choice(["a", "b", "c", "d"], n, p=[0.5, 0.3, 0.15, 0.05]),
            "income": np.where(some, np.nan, rng.normal(30.0, 9.0, n)),
            "when": np.datetime64("2024-01-01") + rng.integers(0, 700, n).astype("timedelta64[D]"),
        }
    )


def without_means(schema):
    columns = tuple(
        (name, replace(column, means=()) if hasattr(column, "means") else column) for name, column in schema.columns
    )
    return replace(schema, columns=columns)


# ---- what is subtracted ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("numeric", ["cosine", "spline", "linear", "bins"])
def test_the_means_are_subtracted_from_every_row(numeric):
    """The rows equal those of the same columns without means, less the means, bit for bit, whatever a cell is."""
    table = frame()
    schema = PrivateEncoder(epsilon=30.0, numeric=numeric, random_state=0).fit(table).schema_
    means = np.concatenate([column.means for _, column in schema.columns])
    odd = pandas.concat([table[:50], pandas.DataFrame({name: [None, "?", "nonsense"] for name in table})])
    around, plain = rows(odd, schema, target=False), rows(odd, without_means(schema), target=False)
    assert np.array_equal(around, plain - means)
    assert np.count_nonzero(means) > 5
    assert np.linalg.norm(around, axis=1).max() <= schema.row_bound


@pytest.mark.parametrize("numeric", ["cosine", "spline", "linear", "bins"])
def test_centred_features_have_mean_near_zero(numeric):
    """For continuous columns, two values, counts, nearly constant ones, categories, with missing cells."""
    schema = PrivateEncoder(epsilon=30.0, numeric=numeric, random_state=1).fit(frame(seed=1)).schema_
    table = frame(20_000, seed=2)
    around, plain = rows(table, schema, target=False), rows(table, without_means(schema), target=False)
    names = open_stream(table, schema=schema, target=False).feature_names
    known = np.array([":" not in name for name in names])  # the means of cycles are unknown
    left, there = around.mean(axis=0)[known], plain.mean(axis=0)[known]
    assert np.linalg.norm(there) > 0.7
    assert np.linalg.norm(left) < 0.2
    assert np.abs(left).max() < 0.1


def test_means_follow_from_released_counts_alone():
    """Other rows that release the same noisy counts give the same schema, means included."""
    found = plan()
    one = learn(rows_of(found.rows), found)
    two = learn(rows_of(found.rows, seed=5), found, noisy=one.noisy)
    assert one.found.columns == two.found.columns
    assert any(any(column.means) for column in one.found.columns.values())
    assert any(not np.array_equal(a, b) for a, b in zip(one.exact, two.exact, strict=True))


def test_very_many_features_stay_sparse():
    rng = np.random.default_rng(0)
    n = 30_000
    wide = pandas.DataFrame({f"code{j}": rng.integers(0, 200, n).astype(str) for j in range(7)})
    wide = wide.map("c{}".format)
    schema = PrivateEncoder(epsilon=200.0, random_state=0).fit(wide).schema_
    stream = open_stream(wide[:100], schema=schema, target=False)
    assert stream.n_features > MOST_DENSE_FEATURES
    assert sp.issparse(next(iter(stream)).X)
    assert not any(column.means for _, column in schema.columns)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.0, 2.0, 1.0), (0.97, 1.03, 1.0), (37.2, 41.5, 40.0), (0.0, 0.5, 0.0), (-1.0, 1.0, 0.0), (-1.03, -0.97, -1.0),
        (-2.0, -1.5, -2.0), (0.15, 0.2, 0.15), (1.5e308, 1.7e308, 1.5e308), (5e-324, 1e-323, 5e-324), (7.0, 7.0, 7.0),
        (-1.79e308, -1.5e308, -1.7e308),
    ],
)  # fmt: skip
def test_the_roundest_number_of_a_cell(low, high, expected):
    found = _roundest(low, high)
    assert found == expected


# ---- norms ---------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_centred_rows_stay_within_their_bound(data):
    """The squares of every kind of cell, exactly; the bound is attained, up to rounding, without cycles."""
    shape = data.draw(st.sampled_from(["cosine", "spline", "linear", "bins", "apart", "hash"]))
    missing = data.draw(st.sampled_from(["indicator", "zero"]))
    if shape == "hash":
        kept = data.draw(st.lists(st.integers(0, 7), min_size=1, max_size=7, unique=True))
        column = Hashed(8, missing, tuple(kept), data.draw(st.integers(0, 3)))
        cells = [*(f"word{i}" for i in range(60)), None]
    else:
        knots = (0.0, 1.0) if shape == "apart" else (0.0, 1.0, 3.0, 4.5)
        column = Knots(knots, shape, missing)
        cells = [*np.linspace(-1.0, 6.0, 57).tolist(), *knots, None]
    sizes = st.floats(0.0 if shape == "hash" else -1.0, 1.0)
    means = data.draw(st.lists(sizes, min_size=column.n_features, max_size=column.n_features))
    column = replace(column, means=tuple(means))
    X = rows([{"a": cell} for cell in cells], Schema(columns=(("a", column),)), target=False)
    squares = [sum(Fraction(x) ** 2 for x in row) for row in X.tolist()]
    assert max(squares) <= column.largest_square
    if shape != "hash":  # not every bucket has a word
        assert float(max(squares)) == pytest.approx(float(column.largest_square), rel=1e-9, abs=1e-300)


def test_centred_cycles_are_bounded():
    column = Knots((0.0, 1e6), "linear", "zero", True, ("day",), means=(0.25, 0.5, -0.5))
    times = [{"a": f"1970-01-0{day}T{hour:02d}:00:00"} for day in range(1, 9) for hour in range(24)]
    X = rows(times, Schema(columns=(("a", column),)), target=False)
    assert (X**2).sum(axis=1).max() <= float(column.largest_square)


# ---- schemas -------------------------------------------------------------------------------------------------------


def test_a_schema_with_means_is_written_and_read():
    schema = PrivateEncoder(epsilon=30.0, random_state=0).fit(frame()).schema_
    assert Schema.load(schema.to_record()) == schema
    assert not schema.has_constant


def test_wrong_means_are_refused(tmp_path):
    def load(text):
        path = tmp_path / "s.toml"
        path.write_text(f"[columns.a]\n{text}\n")
        return Schema.load(path)

    assert load("hash = 2\nmeans = [0.5, 0.25, 0]").columns[0][1].means == (0.5, 0.25, 0.0)
    for text, words in (
        ("hash = 2\nmeans = [0.5]", "columns.a.means must be a list of 3 numbers, one for each feature"),
        ("hash = 2\nmeans = 0.5", "columns.a.means must be a list of 3 numbers"),
        ("hash = 2\nmeans = [0.5, -0.25, 0]", "columns.a.means"),
        ("knots = [0, 1]\nmeans = [0.5, 1.5, 0]", "columns.a.means"),
        ('levels = ["x"]\nmeans = [0, 0]', "columns.a.means has no meaning"),
    ):
        with pytest.raises(InvalidParameter) as found:
            load(text)
        assert words in str(found.value), found.value


def test_rows_that_only_bring_a_label_stay_empty():
    schema = {
        "columns": {"a": {"hash": 4, "means": [0.25, 0.25, 0.25, 0.25, 0.0]}},
        "target": {"column": "y", "negative": ["no"], "positive": ["yes"]},
        "delay": {"key": "k", "window": 9},
    }
    table = [{"k": "1", "a": "x", "y": None}, {"k": "1", "a": None, "y": "yes"}]
    blocks = list(open_stream(table, schema=schema))
    assert sum(len(block.X) for block in blocks) == 1
    assert np.concatenate([block.y for block in blocks]).tolist() == [1.0]
    assert np.linalg.norm(blocks[0].X) == pytest.approx(np.sqrt(1.0 - 0.5 + 0.25))
