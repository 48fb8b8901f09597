"""Released models as graphs of ONNX, run by onnxruntime on 100,000 rows beside privol's own answers."""

from __future__ import annotations

import json
import math
import sys

import auto_tools
import numpy as np
import onnxruntime
import pandas
import pytest
from cli_tools import privol_cli
from conformance import LEARNERS, OFFLINE, X, Y
from onnx import checker

import privol
from privol import PrivateClassifier, PrivateRegressor, open_stream
from privol.encoding.schema import Schema
from privol.errors import InvalidParameter, StateError
from privol.exporting import to_onnx, to_sklearn
from privol.guarantees import Guarantee
from privol.losses import SmoothHinge, get_loss
from privol.state import save_model

N = 100_000
RNG = np.random.default_rng(12)
ROWS = RNG.normal(size=(N, 4)) / 1.8
ROWS[7] *= 1e6
SMALL = ROWS[:600]
TWO = np.where(SMALL @ [1.0, -2.0, 0.5, 0.0] > 0, "yes", "no")
SEVERAL = np.argmax(SMALL[:, :3], axis=1) * 10
REAL = SMALL @ [0.3, -0.2, 0.0, 0.1]


def run(graph, feeds):
    """Return the outputs of a graph by name."""
    checker.check_model(graph, full_check=True)
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def near(given, pipeline, rows):
    """The largest difference of scores that rounding explains, shape (n,): what the docstring states."""
    own, last = getattr(given, "learner_", given), pipeline[-1]
    coef, intercept = np.abs(np.atleast_2d(last.coef_)), np.abs(last.intercept_)
    if len(own.coef_) == 2 and get_loss(own.loss).joint:
        coef, intercept = np.abs(own.coef_).sum(axis=0, keepdims=True), np.abs(own.intercept_).sum()
    most = np.abs(pipeline["scale"].transform(rows)) @ coef.T + intercept
    found = (rows.shape[1] + 8) * 2.0**-51 * most.max(axis=1)
    return found + 2.0**-49 * coef.sum() if "encode" in pipeline.named_steps else found


def assert_same(model, given, feeds, rows=None):
    """Compare outputs with the model's answers; return how many labels were compared."""
    out, pipeline = run(to_onnx(model), feeds), to_sklearn(model)
    rows = pipeline["encode"].transform(given) if rows is None else rows
    bound = near(model, pipeline, rows)
    if "prediction" in out:
        assert out.keys() == {"prediction"}
        assert (np.abs(out["prediction"] - model.predict(given)) <= bound + 2.0**-49 * 500).all()
        return len(bound)
    ours = model.decision_function(given)
    assert out["scores"].shape == ours.shape
    assert (np.abs(ours - out["scores"]).reshape(len(bound), -1).max(axis=1) <= bound).all()
    best = np.sort(ours, axis=1)[:, -2:] if ours.ndim == 2 else np.column_stack([np.zeros(len(ours)), ours])
    clear = (np.abs(best[:, 1] - best[:, 0]) > 2 * bound) | (bound == 0.0)
    assert clear.mean() > 0.99
    assert out["label"][clear].tolist() == model.predict(given)[clear].tolist()
    assert ("probabilities" in out) == hasattr(model, "predict_proba")
    if "probabilities" in out:
        apart = np.abs(out["probabilities"] - model.predict_proba(given)).max(axis=1)
        assert (apart <= 2 * bound + 1e-14).all()
    return int(clear.sum())


@pytest.mark.parametrize("name", [*LEARNERS, *OFFLINE])
def test_every_learner(name):
    kind, words = {**LEARNERS, **OFFLINE}[name]
    learner = kind(**words)
    learner.fit(X, Y / 2.0 if get_loss(learner.loss).kind == "regression" else Y)
    assert_same(learner, X, {"X": X}, X)


@pytest.mark.parametrize(
    ("loss", "y"),
    [
        ("logistic", TWO),
        ("logistic", SEVERAL),
        ("softmax", TWO),
        ("softmax", SEVERAL),
        ("softmax", SEVERAL * 1.0),
        ("hinge", TWO == "yes"),
        (SmoothHinge(width=0.3), SEVERAL),
        ("squared", REAL),
    ],
)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_every_loss(loss, y, fit_intercept):
    learner = privol.DPFTRL(loss=loss, epsilon=50.0, x_bound=1.5, fit_intercept=fit_intercept).fit(SMALL, y)
    assert assert_same(learner, ROWS, {"X": ROWS}, ROWS) > 0.99 * N


def table(n, seed=0):
    """A table with missing cells, unknown texts, and numbers far beyond the rest."""
    rows, rng = auto_tools.table(n, seed), np.random.default_rng(seed + 1)
    towns = np.array([None, "", "NA", "Ørsta", "日本", "Oslo city", "x" * 100], dtype=object)
    strange = rng.random(n) < 0.1
    rows["town"] = np.where(strange, rng.choice(towns, n), rows["town"])
    rows.loc[rng.random(n) < 0.01, "age"] = rng.choice([1e300, -1e300, 0.0, -0.0, 1e-320])
    hours = rng.integers(-300_000, 600_000, n) * 3600 + rng.integers(0, 3600, n)
    rows["when"] = pandas.to_datetime(np.where(rng.random(n) < 0.05, np.nan, hours), unit="s")
    rows["pill"] = np.where(rng.random(n) < 0.97, 0.0, rng.normal(size=n).round(1))
    return rows


def feeds_of(rows):
    rows = rows.copy()
    for name in rows.select_dtypes("datetime"):
        seconds = rows[name].to_numpy("datetime64[s]").astype(np.int64)
        rows[name] = np.where(rows[name].isna(), np.nan, seconds)
    numbers = {name: rows[[name]].to_numpy(dtype=np.float64) for name in rows if rows[name].dtype.kind in "fiu"}
    texts = {name: rows[[name]].fillna("").to_numpy(dtype=object) for name in rows if name not in numbers}
    return numbers | texts


@pytest.fixture(scope="module")
def many():
    return table(N, seed=5)


@pytest.mark.parametrize("numeric", ["learnt", "crossed"])
def test_tables_with_two_classes(many, numeric):
    crosses = [("town", "age"), ("age", "dose")] if numeric == "crossed" else []
    few = table(4000)
    model = PrivateClassifier(epsilon=20.0, crosses=crosses).fit(few, auto_tools.labels_of(few))
    assert assert_same(model, many, feeds_of(many)) > 0.99 * N


@pytest.mark.parametrize("epsilon", [0.5, 20.0])
def test_tables_with_several_classes(many, epsilon):
    few = table(4000)
    score = auto_tools.score_of(few)
    y = np.where(score < -1, 1, np.where(score < 1, 3, 2))
    model = PrivateClassifier(epsilon=epsilon, classes=[1, 2, 3]).fit(few, y)
    assert assert_same(model, many, feeds_of(many)) > 0.99 * N


def test_labels_in_an_array_of_objects(many):
    few = table(4000)
    y = np.array(auto_tools.labels_of(few), dtype=object)
    model = PrivateClassifier(epsilon=20.0, classes=np.array(["well", "ill"], dtype=object)).fit(few, y)
    assert assert_same(model, many, feeds_of(many)) > 0.99 * N


def test_clipped_probabilities():
    """A small budget cuts gradients, and the probabilities allow for it."""
    X = auto_tools.table(20_000)
    model = PrivateClassifier(epsilon=1.0, classes=["ill", "well"]).fit(X, auto_tools.labels_of(X))
    assert math.isfinite(to_sklearn(model)["model"].cut)
    assert_same(model, X, feeds_of(X))


def test_a_real_target(many):
    few = table(4000)
    model = PrivateRegressor(epsilon=20.0, target_range=(0.0, 300.0)).fit(few, auto_tools.numbers_of(few))
    assert assert_same(model, many, feeds_of(many)) == N


SCHEMA = {
    "file": {"missing": ["NA", "-1"]},
    "columns": {
        "age": {"range": [20, 80], "missing": "indicator"},
        "dose": {"range": [0, 5], "scaling": "log", "onto": [0, 1], "missing": 2.5},
        "town": {"levels": ["Oslo", "Bergen"], "unknown": "indicator", "missing": "indicator"},
        "grade": {"levels": [1, 2, 3], "unknown": "zero", "missing": "zero"},
        "street": {"hash": 32, "missing": "indicator"},
        "a": {"knots": [-1, 0, 2, 2.5], "shape": "spline"},
        "b": {"knots": [-1, 0, 2], "shape": "linear", "missing": "zero"},
        "c": {"knots": [-1, 0, 2], "shape": "bins"},
        "d": {"knots": [-1e308, 0, 1e308], "shape": "spline"},
        "e": {"knots": [-1, 1], "shape": "spline"},
        "f": {"knots": [-0.5, 0.0, 0.5], "shape": "cosine"},
        "g": {"knots": [-0.5, 0.5], "shape": "apart"},
        "h": {"missing": "zero", "range": [-3, 3]},
        "i": {"knots": [-1e9, 0, 1e9], "timestamp": True, "cycles": ["day", "week", "year"]},
    },
    "cross": [{"columns": ["town", "a"]}, {"columns": ["c", "f"]}, {"columns": ["grade", "street"]}],
    "target": {"column": "y", "negative": ["no"], "positive": ["yes"]},
}


def declared(n, seed=0):
    rng = np.random.default_rng(seed)
    rows = pandas.DataFrame({"age": rng.uniform(0, 100, n), "dose": rng.uniform(-1, 7, n)})
    rows["town"] = rng.choice(["Oslo", "Bergen", "Narvik", "NA", ""], n)
    rows["grade"] = rng.choice([1.0, 2.0, 3.0, 4.0, -1.0], n)
    rows["street"] = [f"street {k}" if k else "" for k in rng.integers(0, 300, n)]
    for name in "abcdefgh":
        rows[name] = rng.choice([rng.normal(size=n), np.full(n, 2.0), np.full(n, -1.0), np.zeros(n)])
        rows[name] = np.where(
            rng.random(n) < 0.3, rng.choice([-1, 0, 2, 2.5, 0.5, 1e308, -1e308], n), rng.normal(size=n)
        )
    rows["i"] = pandas.to_datetime(rng.integers(-(2**33), 2**33, n), unit="s")
    for name in ("age", "dose", *"abcdefgh"):
        rows.loc[rng.random(n) < 0.05, name] = np.nan
    return rows


def test_a_declared_schema(tmp_path):
    """Every kind of column that a schema may declare, beside the rows that privol makes of them."""
    few, rows = declared(3000), declared(N, seed=3)
    few["y"] = np.where(few["a"].fillna(0) + (few["town"] == "Oslo") > 0.5, "yes", "no")
    schema = Schema.load(SCHEMA)
    learner = privol.DPFTRL(epsilon=30.0, x_bound=schema.row_bound / 1.5)
    learner.fit_stream(open_stream(few, schema=schema))
    save_model(learner, tmp_path / "model", inputs={"schema": schema.to_record()})
    feeds = feeds_of(rows)
    out, pipeline = run(to_onnx(tmp_path / "model"), feeds), to_sklearn(tmp_path / "model")
    encoded = pipeline["encode"].transform(rows)
    scores = learner.decision_function(encoded)
    bound = near(learner, pipeline, encoded)
    assert (np.abs(out["scores"] - scores) <= bound).all()
    clear = np.abs(scores) > bound
    assert clear.mean() > 0.99
    assert (
        out["label"][clear].tolist()
        == learner.predict(encoded)[clear].tolist()
        == pipeline.predict(rows)[clear].tolist()
    )


def test_refused_cells_have_no_score(tmp_path):
    schema = Schema.load(
        {
            "columns": {"n": {"range": [0, 1]}, "t": {"levels": ["a", "b"], "missing": "zero", "unknown": "refuse"}},
            "target": {"column": "label", "negative": ["no"], "positive": ["yes"]},
        }
    )
    few = pandas.DataFrame({"n": [0.1, 0.9] * 50, "t": ["a", "b"] * 50, "label": ["no", "yes"] * 50})
    learner = privol.DPFTRL().fit_stream(open_stream(few, schema=schema))
    save_model(learner, tmp_path / "model", inputs={"schema": schema.to_record()})
    cells = {"n": [0.5, np.nan, np.inf, -np.inf, 0.5, 0.5, 7.0], "t": ["a", "a", "a", "b", "c", "", "b"]}
    feeds = {"n": np.array(cells["n"])[:, None], "t": np.array(cells["t"], dtype=object)[:, None]}
    out = run(to_onnx(tmp_path / "model"), feeds)
    refused = [False, True, True, True, True, False, False]
    assert np.isnan(out["scores"]).tolist() == refused
    assert np.isnan(out["probabilities"]).any(axis=1).tolist() == refused
    learner = privol.DPFTRL().fit(SMALL, TWO)
    out = run(to_onnx(learner), {"X": np.array([[0, 0, 0, np.nan], [0, np.inf, 0, 0], [0, 0, 0, 1.0]])})
    assert np.isnan(out["scores"]).tolist() == [True, True, False]


def test_factors_that_are_nearly_one(tmp_path):
    """onnxruntime takes a factor for 1 that is 1 in single precision."""
    schema = Schema.load(
        {
            "columns": {
                "a": {"range": [-1.0, 1.00000003], "missing": "zero"},
                "b": {"range": [0, 4], "onto": [-1, 0.99999999]},
            },
            "target": {"column": "y", "negative": ["no"], "positive": ["yes"]},
        }
    )
    few = pandas.DataFrame({"a": [-0.5, 0.7] * 50, "b": [0.0, 3.0] * 50, "y": ["no", "yes"] * 50})
    learner = privol.DPFTRL(epsilon=50.0).fit_stream(open_stream(few, schema=schema))
    save_model(learner, tmp_path / "model", inputs={"schema": schema.to_record()})
    rows = pandas.DataFrame({"a": RNG.uniform(-1, 1, 1000), "b": RNG.uniform(0, 4, 1000)})
    out, pipeline = run(to_onnx(tmp_path / "model"), feeds_of(rows)), to_sklearn(tmp_path / "model")
    encoded = pipeline["encode"].transform(rows)
    assert (np.abs(out["scores"] - learner.decision_function(encoded)) <= near(learner, pipeline, encoded)).all()


def test_names_that_collide():
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({name: rng.normal(size=3000) for name in ("label", "scores", "value 0", "constant 0", "é b")})
    model = PrivateClassifier(epsilon=20.0).fit(X, np.where(X["label"] > 0, "p", "q"))
    out = run(to_onnx(model), feeds_of(X))
    assert out.keys() == {"label_", "scores_", "probabilities"}
    assert (out["label_"] == model.predict(X)).mean() > 0.999


def test_the_run_of_a_command(tmp_path, many):
    few = table(4000)
    few.assign(y=auto_tools.labels_of(few)).to_csv(tmp_path / "rows.csv", index=False)
    words = ["--target", "y", "--epsilon", "20", "--out", str(tmp_path / "run")]
    privol_cli("run", str(tmp_path / "rows.csv"), *words)
    out, pipeline = run(to_onnx(tmp_path / "run"), feeds_of(many)), to_sklearn(tmp_path / "run")
    assert (out["label"] == pipeline.predict(many)).mean() > 0.9999
    np.testing.assert_allclose(out["probabilities"], pipeline.predict_proba(many), atol=1e-12)


def test_the_metadata_have_the_guarantee():
    learner = privol.PIGD(random_state=987654321).fit(SMALL, TWO)
    graph = to_onnx(learner)
    facts = {entry.key: entry.value for entry in graph.metadata_props}
    assert Guarantee.from_json(facts["privol.guarantee"]) == learner.guarantee_
    assert facts["privol.sentence"].startswith("NOT PRIVATE")
    assert graph.doc_string.endswith(learner.guarantee_.summary())
    assert json.loads(facts["privol.guarantee"])["private"] is False
    assert graph.producer_name == "privol"
    assert b"987654321" not in graph.SerializeToString()
    assert (987654321).to_bytes(4, "little") not in graph.SerializeToString()


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"columns": {"a": {"levels": [1, "b"]}}}, "with numbers and with texts"),
        ({"columns": {"a": {"range": [0, 1e-4], "scaling": "log"}}}, "logarithmic range of at least 0.001"),
        ({"others": "number", "columns": {"a": {"hash": 4}}}, "name them"),
    ],
)
def test_what_onnx_cannot_express_is_refused(schema, message, tmp_path):
    schema = Schema.load({**schema, "target": {"column": "y", "negative": ["no"], "positive": ["yes"]}})
    save_model(privol.DPFTRL().fit(SMALL, TWO), tmp_path / "model", inputs={"schema": schema.to_record()})
    with pytest.raises(InvalidParameter, match=message):
        to_onnx(tmp_path / "model")


def test_refusals(monkeypatch):
    with pytest.raises(InvalidParameter, match="found int"):
        to_onnx(3)
    learner = privol.PIGD(horizon=100, release=[50]).partial_fit(SMALL[:10], TWO[:10], classes=["no", "yes"])
    with pytest.raises(StateError, match="nothing was released"):
        to_onnx(learner)
    wide = privol.DPFTRL(horizon=10).declare_classes(["no", "yes"])
    wide.partial_fit(np.zeros((4, 17_000)), TWO[:4])
    with pytest.raises(InvalidParameter, match="at most 16,384 features, found 17,000"):
        to_onnx(wide)
    import scipy.sparse as sp

    model = PrivateClassifier(epsilon=20.0, classes=[0, 1])
    model.fit(sp.random_array((2000, 300), density=0.02, rng=3, format="csr"), np.arange(2000) % 2)
    with pytest.raises(InvalidParameter, match="no sparse rows"):
        to_onnx(model)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InvalidParameter, match=r"pip install 'privol\[onnx\]'"):
        to_onnx(privol.PIGD().fit(SMALL, TWO))
