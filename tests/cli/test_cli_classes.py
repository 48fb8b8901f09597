"""The command line with more than two classes: run, predict, plan, report, what is refused."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from cli_tools import privol_cli, run_json, write

from privol import DPFTRL, open_stream
from privol.cli.app import OK, USAGE
from privol.state import load_model

pytestmark = pytest.mark.slow

N = 600
LABELS = ["ash", "birch", "oak"]
RUN = (
    "run",
    "trees.csv",
    "--no-learn-schema",
    "--target",
    "kind",
    "--classes",
    ",".join(LABELS),
    "--radius",
    "6",
    "--epsilon",
    "9",
)


@pytest.fixture
def trees(here):
    """A table of three classes, and rows without them."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(N, 2)).round(4) / 2
    y = (X @ rng.normal(size=(2, 3)) * 3 + rng.gumbel(size=(N, 3))).argmax(axis=1)
    write(here / "trees.csv", ["height", "girth", "kind"], [(*row, LABELS[k]) for row, k in zip(X, y, strict=True)])
    write(here / "new.csv", ["girth", "height"], [(b, a) for a, b in X[:50]])
    return X, np.array(LABELS)[y]


@pytest.mark.parametrize("loss", ["softmax", "logistic", "hinge"])
def test_run_and_predict(loss, trees, here):
    X, _ = trees
    record = run_json(*RUN, "--loss", loss, "--out", "R", "--class-weight", "oak=2,ash=0.5", "--release", "100")
    assert record["learner"] == "DPFTRL"
    assert record["classes"] == LABELS
    assert record["parameters"]["class_weight"] == [["oak", 2.0], ["ash", 0.5]]
    assert "auc" not in record["diagnostics"]["run"]["progressive"]
    assert record["diagnostics"]["omitted_metrics"] == ["auc"]
    assert record["noise"]["noise_norm"] == pytest.approx(record["noise"]["std"] * 3)  # 3 x (2 + 1) coordinates
    model = load_model("R")
    assert model.coef_.shape == (3, 2)
    assert model.class_weight == {"oak": 2.0, "ash": 0.5}
    assert privol_cli("predict", "R", "new.csv", "--out", "P.csv").exit_code == OK
    rows = list(csv.reader((here / "P.csv").open()))
    assert [row[0] for row in rows[1:]] == model.predict(X[:50]).tolist()
    if loss == "hinge":
        assert rows[0] == ["prediction"]
    else:
        assert rows[0] == ["prediction", *(f"probability of {label}" for label in LABELS)]
        np.testing.assert_allclose(np.array([row[1:] for row in rows[1:]], float), model.predict_proba(X[:50]))


def test_the_report(trees, here):
    words = ("--loss", "logistic", "--private-metrics", "0.1", "--release", "50", "--verbose")
    result = privol_cli(*RUN, *words, "--out", "R")
    assert result.exit_code == OK
    text = " ".join(result.stdout.split())
    shown = ("3 classes: ash, birch, oak", "majority", "│ progressive log-loss", "│ progressive loss", "is left out")
    for words in shown:
        assert words in text
    assert "AUC" not in text
    assert (here / "R" / "plot.png").exists()
    private = json.loads((here / "R" / "private_metrics.json").read_text())
    assert private["bounds"]["loss"] == pytest.approx(4 * 3 * np.log(2))
    plain = privol_cli(*RUN, "--loss", "softmax", "--out", "S", "--verbose").stdout
    assert "│ progressive loss" not in plain  # it is the log-loss
    assert "│ progressive log-loss" in plain


def test_the_same_model_as_in_python(trees, here):
    assert privol_cli(*RUN, "--loss", "softmax", "--seed", "3", "--out", "R", "--no-diagnostics").exit_code == OK
    stream = open_stream(here / "trees.csv", target="kind", classes=LABELS)
    learner = DPFTRL(loss="softmax", radius=6.0, epsilon=9.0, horizon=N, random_state=3).fit_stream(stream)
    assert np.array_equal(load_model("R").coef_, learner.coef_)


def test_labels_that_are_numbers(here):
    """Weights find their labels however these are spelled, including those of a schema."""
    rng = np.random.default_rng(1)
    write(here / "t.csv", ["x", "y"], [(round(float(v), 3), 1 + k % 3) for k, v in enumerate(rng.normal(size=90))])
    (here / "s.toml").write_text('[columns.x]\nrange = [-4, 4]\n[target]\ncolumn = "y"\nclasses = [1, 2, 3]\n')
    for words in (("--classes", "1,2,3"), ("--schema", "s.toml")):
        record = run_json(
            "run",
            "t.csv",
            "--no-learn-schema",
            *words,
            "--class-weight",
            "2.0=3",
            "--no-diagnostics",
            "--loss",
            "softmax",
        )
        assert record["classes"] == ["1", "2", "3"]
        ((label, weight),) = record["parameters"]["class_weight"]
        assert (str(label), weight) == ("2", 3.0)
    planned = privol_cli("plan", "--schema", "s.toml", "--loss", "softmax", "--horizon", "90", "--json")
    assert json.loads(planned.stdout)["n_classes"] == 3
    assert json.loads(planned.stdout)["dim"] == 6


def test_plan():
    shape = ("--n-features", "10", "--n-classes", "7", "--horizon", "1000")
    words = ("plan", *shape, "--regularization", "50", "--radius", "30", "--json")
    found = {loss: json.loads(privol_cli(*words, "--loss", loss).stdout) for loss in ("softmax", "hinge")}
    assert [found[loss]["dim"] for loss in found] == [77, 77]
    one, other = (found[loss]["releases"][-1] for loss in found)
    assert other["std"] / one["std"] == pytest.approx(np.sqrt(7 / 2), rel=1e-3)
    heavy = json.loads(privol_cli(*words, "--loss", "softmax", "--class-weight", "a=2").stdout)
    assert heavy["releases"][-1]["std"] == pytest.approx(2 * one["std"])
    assert privol_cli(*words, "--learner", "nogd").exit_code == USAGE


def test_the_embedded_rows(here):
    from privol.data import open_covtype

    stream = open_covtype(classes=range(1, 8))
    assert stream.classes == tuple(range(1, 8))
    assert set(np.unique(next(iter(stream)).y)) == set(range(7))
    record = run_json("run", "--classes", "1,2,3,4,5,6,7", "--loss", "softmax", "--no-diagnostics", "--out", "R")
    assert record["rows"] == 120_000 - record["encoding"]["rows"]
    assert load_model("R").coef_.shape == (7, len(record["inputs"]["feature_names"]))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--learner", "nogd"), "NOGD learns two classes, found 3: DPFTRL learns more"),
        (("--learner", "pigd", "--release", "last"), "PIGD learns two classes"),
        (("--loss", "squared"), "needs real targets"),
        (("--class-weight", "larch=2"), "must name the labels ['ash', 'birch', 'oak'], found 'larch'"),
        (("--class-weight", "oak"), "'oak' is not LABEL=WEIGHT"),
        (("--class-weight", "oak=0"), "'oak' must be"),
        (("--class-weight", "oak=1, oak =2"), "twice"),
        (("--class-weight", "balanced"), "not LABEL=WEIGHT"),
    ],
    ids=str,
)
def test_refused(words, expected, trees, here):
    result = privol_cli(*RUN, *words, "--out", "R")
    assert result.exit_code == USAGE
    assert expected in " ".join(result.output.split())
    assert not (here / "R").exists()
