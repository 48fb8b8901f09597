"""Shapes of columns: what the model computes, in the column's units, for every kind of column."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas
import pytest
from alpha import rate
from auto_tools import labels_of, numbers_of, table
from cli_tools import privol_cli
from scipy.stats import binom
from sklearn.exceptions import NotFittedError

import privol
from privol import PrivateClassifier, PrivateRegressor
from privol.errors import InvalidParameter, StateError
from privol.explaining import explain, noise_of
from privol.streams import Schema, open_stream

N = 3000
X = table(N).assign(when=pandas.date_range("2024-01-01", periods=N, freq="3h").strftime("%Y-%m-%d %H:%M:%S"))
TOWNS = ["Oslo", "Bergen", "Narvik"]
BUDGET = {"epsilon": 20.0, "random_state": 0, "reuse_rows": False}
CLASSES = PrivateClassifier(**BUDGET, crosses=[("town", "age")]).fit(X, labels_of(X))
NUMBERS = PrivateRegressor(**BUDGET).fit(X, numbers_of(X))


def brings(shape, cells):
    """The contribution of a shape for given cells, between its points as between two knots; shape (n_scores, n)."""
    labels = list(shape.labels)
    found = []
    for values in shape.contribution:
        if shape.places is None:
            found.append([values[labels.index(cell if cell in labels else "(other)")] for cell in cells])
            continue
        inside = ~np.isnan(shape.places)
        line = np.interp(np.nan_to_num(cells), shape.places[inside], values[inside])
        found.append(np.where(np.isnan(cells), values[labels.index("(missing)")], line) if any(~inside) else line)
    return np.array(found)


@pytest.mark.parametrize("model", [CLASSES, NUMBERS])
def test_shapes_add_up_to_the_scores(model):
    """Up to one constant, for rows that are encoded like the learnt ones but not yet scaled to their bound."""
    found = model.explain(names={"town": TOWNS})
    rows = X.iloc[:300].assign(town=np.resize(TOWNS, 300))
    seconds = rows["when"].to_numpy("datetime64[s]").astype(float)
    cells = {"age": rows["age"].to_numpy(), "town": rows["town"].tolist(), "dose": rows["dose"].to_numpy(float)}
    periods = {"when (day)": (86400, 0), "when (week)": (604800, -259200), "when (year)": (31556952, 0)}
    total, seen = 0.0, set()
    for shape in found.shapes:
        if shape.name in periods:
            period, start = periods[shape.name]
            place = np.mod(seconds - start, period)
            harmonics = np.stack([np.cos(2 * np.pi * place / period), np.sin(2 * np.pi * place / period)])
            grid = 2 * np.pi * shape.places / period
            wave = np.linalg.lstsq(np.stack([np.cos(grid), np.sin(grid)]).T, shape.contribution[0], rcond=None)[0]
            total = total + wave @ harmonics
        elif "*" in shape.name:
            continue
        else:
            total = total + brings(shape, seconds if shape.name == "when" else cells[shape.name])[0]
        seen.add(shape.name)
        assert shape.shares @ shape.contribution[0] == pytest.approx(0.0, abs=1e-9)
    assert {"age", "town", "when", *periods} <= seen
    schema, coef = model.schema_, np.atleast_2d(model.learner_.coef_)[0]
    plain = Schema(**{**vars(schema), "target": None, "others": "drop"})
    (block,) = open_stream(rows, schema=plain, target=False)
    crossed = sum("*" in name for name in block_names(plain, rows))
    X_encoded = np.asarray(block.X.todense() if hasattr(block.X, "todense") else block.X)
    width, scale = X_encoded.shape[1] - crossed, 1.0
    if model is NUMBERS:
        low, high = schema.target.range
        scale = (high - low) / 2
    elif model.explain().scores[0] != model.learner_.classes_[1]:
        scale = -1.0
    exact = scale * (X_encoded[:, :width] @ coef[:width])
    assert total - exact == pytest.approx(np.full(300, (total - exact).mean()), abs=1e-6)


def block_names(schema, rows):
    return open_stream(rows, schema=schema, target=False).feature_names


def test_influential_columns_come_first():
    found = CLASSES.explain(names={"town": TOWNS})
    order = [record["column"] for record in found.importance]
    assert set(order[:2]) == {"age", "town"}
    marks = {record["column"]: record["within_noise"] for record in found.importance}
    assert not marks["age"]
    assert not marks["town"]
    (town,) = found.of("town")
    means = dict(zip(town.labels, town.contribution[0], strict=True))
    assert set(TOWNS) <= set(town.labels)
    assert found.scores == ("well",)
    assert means["Oslo"] < means["Bergen"]  # the score is that of the class "well"
    (age,) = found.of("age")
    assert age.contribution[0][0] > age.contribution[0][-2]
    (cross,) = found.of("town*age")
    assert any(label.startswith("Bergen, ") for label in cross.labels)


def test_columns_without_influence_are_within_the_noise():
    rows = table(6000)
    rows["coin"] = np.random.default_rng(2).uniform(4.0, 6.0, 6000)
    found = PrivateClassifier(epsilon=1.0, random_state=0, reuse_rows=False).fit(rows, labels_of(rows)).explain()
    marks = {record["column"]: record["within_noise"] for record in found.importance}
    assert marks["coin"]
    assert not marks["age"]
    assert not marks["town"]
    (line,) = [line for line in str(found).splitlines() if line.startswith("coin")]
    assert line.endswith("within noise")


@pytest.mark.statistical
def test_nineteen_of_twenty_columns_of_noise_are_within_it():
    """Rows of zeros, so that the weights are noise alone; marked by a single deviation it would be two of three."""
    made = privol.PIGD(epsilon=1.0, radius=5000.0, fit_intercept=False, random_state=0)
    found = explain(made.fit(np.zeros((300, 400)), np.arange(300) % 2))
    marked = sum(record["within_noise"] for record in found.importance)
    low, high = binom.ppf(rate("explaining.within", 2), 400, 0.95), binom.isf(rate("explaining.within", 2), 400, 0.95)
    assert low <= marked <= high


def test_regression_is_in_units_of_the_target():
    (age,) = NUMBERS.explain().of("age")
    inside = ~np.isnan(age.places)
    slope = np.polyfit(age.places[inside], age.contribution[0][inside], 1)[0]
    assert 1.0 < slope < 3.0  # 2 in the rows, less the effect of regularization
    assert NUMBERS.explain().unit == "units of the target"
    low, high = NUMBERS.schema_.target.range
    scaled = explain(NUMBERS.learner_, replace(NUMBERS.schema_, target=None))
    for shape, of_scaled in zip(NUMBERS.explain().shapes, scaled.shapes, strict=True):
        for own, other in ((shape.contribution, of_scaled.contribution), (shape.std, of_scaled.std)):  # the bands too
            assert own == pytest.approx(other * (high - low) / 2.0, rel=1e-9)


def test_three_classes_and_the_record():
    y = np.select([X["dose"] < 2, X["dose"] < 4], ["low", "mid"], "high")
    model = PrivateClassifier(**BUDGET).fit(X.drop(columns="when"), y)
    found = model.explain()
    assert found.scores == ("high", "low", "mid")
    (dose,) = found.of("dose")
    assert dose.contribution.sum(axis=0) == pytest.approx(0.0, abs=1e-9)
    assert dose.contribution[1][0] > dose.contribution[0][0]
    frame = pandas.DataFrame(found.table)
    assert len(frame) == sum(3 * len(shape.labels) for shape in found.shapes)
    assert ((frame["low"] <= frame["contribution"]) & (frame["contribution"] <= frame["high"])).all()
    assert json.loads(found.to_json())["importance"] == found.importance
    assert found.width == pytest.approx(1.959964)
    wide = model.explain(coverage=0.99).table
    assert all(a["high"] <= b["high"] for a, b in zip(found.table, wide, strict=True))


def test_rare_values_have_little_importance():
    """In a column nearly all of whose cells are one number, the share may be 1."""
    schema = Schema.load({"columns": {"gain": {"knots": [0, 0], "shape": "apart", "share": 1.0, "missing": "zero"}}})
    rows = np.zeros((400, 2))
    rows[::4, 1] = 1.0
    made = privol.PIGD(radius=50.0, epsilon=30.0, random_state=0).fit(rows, (rows[:, 1] > 0).astype(int))
    found = explain(made, schema)
    (gain,) = found.of("gain")
    assert gain.labels == ("0", "below 0", "above 0")
    above = gain.contribution[0, 2] - gain.contribution[0, 0]
    assert above == pytest.approx(made.coef_[0, 1])
    assert found.importance[0]["importance"] > 0.03 * above > 0.0


def test_text_and_plot():
    found = CLASSES.explain()
    for text in (str(found), *(found.text(record["column"]) for record in found.importance)):
        assert text.startswith("What ")
        assert "noise of privacy" in text
        assert max(map(len, text.splitlines())) <= 80
    pytest.importorskip("matplotlib")
    figure = found.plot(most=4)
    assert sum(axis.get_visible() for axis in figure.axes) == 5
    assert len(found.plot("when").axes[0].lines) > 0


def test_errors():
    with pytest.raises(InvalidParameter, match=r"one of the model's, found 'agee'; it has 'age'|'town'"):
        CLASSES.explain().text("agee")
    with pytest.raises(InvalidParameter, match="hashed categories, found 'age'"):
        CLASSES.explain(names={"age": ["1"]})
    with pytest.raises(NotFittedError):
        PrivateClassifier().explain()
    live = privol.PIGD(epsilon=1.0, horizon=1000, release=300, random_state=0)
    live.partial_fit(np.eye(4)[:2], [0, 1], classes=[0, 1])
    with pytest.raises(StateError, match="nothing was released yet"):
        explain(live)
    for learner, schema in ((NUMBERS.learner_, CLASSES.schema_), (CLASSES.learner_, NUMBERS.schema_)):
        with pytest.raises(InvalidParameter, match="not that of its rows"):
            explain(learner, schema)


def test_a_model_without_a_schema():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 3)) / 4
    made = privol.PIGD(radius=50.0, epsilon=30.0, random_state=0).fit(rows, (rows[:, 0] > 0).astype(int))
    found = explain(made, features=["a", "b", "c"], ranges=[(0.0, 8.0), None, None])
    (a,) = found.of("a")
    assert a.contribution[0] == pytest.approx(made.coef_[0, 0] * np.array([-1.0, 1.0]))
    assert a.places.tolist() == [0.0, 8.0]
    assert found.kind == "exact"
    std = np.sqrt(noise_of(made).across)
    assert a.std[0] == pytest.approx(np.full(2, std[0]))
    (b,) = found.of("b")
    assert b.std[0] == pytest.approx(np.full(2, std[1] / 2.0))  # 0 and 1, relative to their mean
    many = privol.PIGD(radius=50.0, epsilon=30.0, random_state=0).fit(
        np.tile(rows, 30) / 9, (rows[:, 0] > 0).astype(int)
    )
    assert str(explain(many)).splitlines()[-1].startswith("and 30 more columns, ")


@pytest.mark.process
def test_the_command(here):
    pytest.importorskip("pyarrow")
    X.assign(goal=labels_of(X)).to_csv("rows.csv", index=False)
    words = ("--epsilon", 20, "--seed", "0", "--out", "R", "--quiet", "--no-diagnostics", "--cross", "town,age")
    assert privol_cli("run", "rows.csv", "--target", "goal", *words).exit_code == 0
    text = privol_cli("explain", "R").stdout
    assert text.splitlines()[0].startswith("What the columns bring into the score")
    one = privol_cli("explain", "R", "--column", "town", "--names", "town=Oslo, Bergen", "--plot", "town.png")
    assert "Oslo" in one.stdout
    assert (here / "town.png").stat().st_size > 5000
    record = json.loads(privol_cli("explain", "R", "--json").stdout)
    assert record["kind"] == "bound"
    assert {row["column"] for row in record["table"]} == {"age", "town", "dose", "when", "town*age"}
    for wrong, why in (
        (("--column", "x"), "found 'x'"),
        (("--names", "town"), "COLUMN=A,B"),
        (("--plot", "a.txt"), ".png, .svg or .pdf"),
    ):
        failed = privol_cli("explain", "R", *wrong)
        assert failed.exit_code == 2
        assert why in failed.stderr
    # the estimator's model of the same rows is the run's
    model = PrivateClassifier(epsilon=20.0, random_state=0, crosses=[("town", "age")]).fit(
        pandas.read_csv("rows.csv")[list(X)], labels_of(X)
    )
    assert model.explain().importance == record["importance"]
