"""The Python blocks of all pages run in order, and the promises of a page hold."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from places import ROOT

import privol
from privol import audit

DOCS = ROOT / "docs"

#: Pages whose blocks run in separate tests.
ELSEWHERE = {
    "devices.md": "test_docs.py",
    "flower.md": "../flower/test_flower_processes.py",
    "multiclass.md": "test_docs.py",
    "own_rows.md": "test_docs.py",
    "rounds.md": "../rounds/test_rounds.py",
}


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


PAGES = sorted(
    page
    for page in (str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
    if page not in ELSEWHERE and blocks(page)
)


def of_encoding() -> dict[str, Any]:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"age": rng.uniform(20, 90, 20_000).round(1), "ward": rng.choice(["A", "B"], 20_000)})
    labels = np.where(table["age"] + 20 * (table["ward"] == "B") > 65, "ill", "well")
    table.assign(outcome=labels).to_csv("clinic.csv", index=False)
    return {"X": table, "y": labels, "table": table}


def of_guarantee() -> dict[str, Any]:
    x = np.random.default_rng(0).normal(size=(4000, 3)) / 3
    return {
        "privol": privol,
        "epsilon": 1.0,
        "delta": 1e-6,
        "stream": privol.open_stream((x, np.sign(x[:, 0])), classes=(-1, 1)),
    }


def of_network() -> dict[str, Any]:
    pytest.importorskip("mpi4py")
    x = np.random.default_rng(0).normal(size=(800, 3)) / 3
    lines = [f"{a},{b},{c},{'yes' if a > 0 else 'no'}" for a, b, c in x]
    with open("rows.csv", "w") as file:
        file.write("\n".join(["a,b,c,y", *lines]))
    return {}


#: What a page assumes: the reader's own rows.
def of_parts() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    Path("rows").mkdir()
    for name in ("a", "b", "c"):
        rows = rng.uniform(-1.0, 1.0, size=(200, 3))
        lines = [f"{a},{b},{c},{'yes' if a > b else 'no'}" for a, b, c in rows.tolist()]
        Path("rows", f"{name}.csv").write_text("\n".join(["a,b,c,y", *lines]) + "\n", encoding="utf-8")
    return {}


def of_river() -> dict[str, Any]:
    pytest.importorskip("river")
    return {}


def of_exporting() -> dict[str, Any]:
    """Its runs of MLflow go into files beside the page."""
    import mlflow

    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    mlflow.set_tracking_uri(Path("runs").resolve().as_uri())
    return {}


GIVEN = {
    "encoding.md": of_encoding,
    "exporting.md": of_exporting,
    "guarantee.md": of_guarantee,
    "network.md": of_network,
    "parts.md": of_parts,
    "river.md": of_river,
}


def equal_privacy(names: dict[str, Any], out: str) -> None:
    lines = out.splitlines()
    page = (DOCS / "equal_privacy.md").read_text("utf-8")
    assert f"It prints `{lines[0]}`" in page
    assert f"and `{lines[1].split('second is ')[1]}`" in page
    for delta in (1e-4, 1e-6, 1e-8):
        exponent = f"{delta:.0e}".replace("e-0", "e-")
        (row,) = re.findall(rf"^\| epsilon = 1 at delta = {exponent}, .* \| ([\d.]+) \|$", page, re.MULTILINE)
        assert row == f"{privol.guarantees.gdp_mu(1.0, delta):.3f}"
    for learner, law in ((names["gaussian"], "gdp"), (names["pure"], "pure")):
        learner.fit(np.eye(4).repeat(25, axis=0), np.arange(100) % 2)
        assert learner.guarantee_.kind == law
        assert 0.999 * names["mu"] < learner.guarantee_.mu <= names["mu"]


def shared_budgets(names: dict[str, Any], out: str) -> None:
    lines = out.splitlines()
    assert lines[0].startswith("OutputPerturbation asks for mu = 0.147")
    assert "for one row" in lines[1]
    assert lines[2] == "10 fits, epsilon 1.000"
    assert names["chosen"].guarantee_.epsilon(0.0) <= 1.0


def evaluation(names: dict[str, Any], out: str) -> None:
    found = names["found"]
    # Over 30 runs 0.872 with a standard deviation of 0.0014. The majority class has 0.506.
    assert found.run.progressive.score.accuracy > 0.85 > found.majority
    assert found.best.score.loss < found.noiseless.progressive.score.loss < found.run.progressive.score.loss
    assert 0.999 < names["budget"].spent.epsilon(1e-6) <= 1.0  # metrics and models together


def own_learner(names: dict[str, Any], out: str) -> None:
    below, accuracy = (
        float(re.findall(r"([\d.]+) of the targets", out)[0]),
        float(re.findall(r"accuracy ([\d.]+)", out)[0]),
    )
    # Over 30 runs 0.889 with a standard deviation of 0.028, and 0.994 with one of 0.0025: five of them are allowed.
    # Without learning it is 0.5 in both.
    assert abs(below - 0.89) < 0.15
    assert accuracy > 0.98
    assert "the user vouches that the loss 'log cosh' is convex" in out
    assert not names["audit"].exceeded_by
    assert abs(names["budget"].spent.epsilon(1e-6) - 1.0) < 1e-6


#: What the printed figures of a page must satisfy, in addition to its code running.
SHOWN = {
    "equal_privacy.md": equal_privacy,
    "evaluation.md": evaluation,
    "own_learner.md": own_learner,
    "shared_budgets.md": shared_budgets,
}


@pytest.mark.parametrize("page", PAGES)
def test_python_of_a_page(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for attack in (audit.audit, audit.audit_black_box):  # separate tests run these in full: here with few runs
        few = lambda *given, _attack=attack, **words: _attack(*given, **(words | {"runs": 400}))  # noqa: E731
        monkeypatch.setattr(audit, attack.__name__, few)
    names = {"__name__": "page", **GIVEN.get(page, dict)()}
    for block in blocks(page):
        exec(compile(block, page, "exec"), names)
    if page in SHOWN:
        SHOWN[page](names, capsys.readouterr().out)
