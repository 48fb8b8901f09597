"""``privol report``: one file, readable without a network or a script, and public if it says so."""

from __future__ import annotations

import base64
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from browser import page_after_its_scripts
from cli_tools import privol_cli

from privol.cli.app import IO, OK, USAGE
from privol.ledger import history

N = 600
VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """Checks that elements are closed in order; collects texts, attributes and names of elements."""

    def __init__(self, text):
        super().__init__()
        self.open, self.names, self.text, self.links = [], set(), [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def page(path):
    found = Page(Path(path).read_text(encoding="utf-8"))
    return found, " ".join(" ".join(found.text).split())


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2)) / 2
    y = np.where(X[:, 0] > 0, "<b>ill", "well & fit")
    lines = [f"{a:.4f},{b:.4f},{label}" for (a, b), label in zip(X, y, strict=True)]
    Path("rows.csv").write_text("\n".join(["<script>dose,age,outcome", *lines]))
    return tmp_path


RUN = (
    "run",
    "rows.csv",
    "--target",
    "outcome",
    "--classes",
    "<b>ill,well & fit",
    "--epsilon",
    "4",
    "--no-learn-schema",
)


@pytest.mark.parametrize(
    "words",
    [
        ("--learner", "pigd", "--release", "100", "--private-metrics", "0.1"),
        ("--learner", "objective-perturbation"),
        ("--no-diagnostics", "--private-metrics", "0.1", "--drift-alarm", "0.01"),
    ],
)
def test_a_run_as_one_file(here, words):
    """Everything that matters is there; nothing is fetched or run, and text from the rows' file stays text."""
    assert privol_cli(*RUN, *words, "--out", "R").exit_code == OK
    result = privol_cli("report", "R")
    assert result.exit_code == OK
    found, text = page("R/report.html")
    record = json.loads(Path("R/run.json").read_text())
    assert record["summary"] in text
    sentence = (record["private_metrics"] or record)["sentence"]
    assert " ".join(sentence.split()) in text
    assert not {"script", "b", "link", "iframe"} & found.names
    assert all(link.startswith("data:image/png;base64,") for link in found.links)
    for link in found.links:
        assert base64.b64decode(link.partition(",")[2]).startswith(b"\x89PNG")
    assert "<b>ill" in text
    assert "Model card" in text
    assert "The budget over time" in text
    assert "What the model makes of each column" in text
    raw = record["diagnostics"] is not None
    assert ("NOT PRIVATE" in text.replace("figures marked NOT PRIVATE", "")) is raw
    assert ("NOT PRIVATE" in result.stdout) is raw
    if raw:
        shown = record["diagnostics"].get("run", {}).get("progressive") or record["diagnostics"]["final_model"]
        assert f"{shown['accuracy']:.4f}" in text
    if os.name == "posix":
        assert bool(Path("R/report.html").stat().st_mode & 0o077) is not raw
    if "--private-metrics" in words:
        assert "released with noise" in text
    assert ("Drift alarm, with a probability of a false one of at most 0.01: not raised in 15" in text) is (
        "--drift-alarm" in words
    )


def test_a_public_page_contains_nothing_about_the_raw_rows(here):
    assert privol_cli(*RUN, "--out", "R").exit_code == OK
    assert privol_cli("report", "R", "--public", "--out", "card.html").exit_code == OK
    _, text = page("card.html")
    assert "NOT PRIVATE" not in text.replace("figures marked NOT PRIVATE", "")
    record = json.loads(Path("R/run.json").read_text())
    kept = {k: v for k, v in record.items() if k not in ("diagnostics", "files", "seconds", "rows_per_second", "out")}
    # a run on other rows with the same public record has the same page
    kept |= {"diagnostics": None, "files": {}, "seconds": 1e9, "rows_per_second": 1e-9, "out": "R"}
    Path("R/run.json").write_text(json.dumps(kept))
    for name in ("metrics.json", "plot.png"):
        Path("R", name).unlink()
    assert privol_cli("report", "R", "--public", "--out", "again.html").exit_code == OK
    assert Path("again.html").read_text() == Path("card.html").read_text()


def test_what_cannot_be_reported(here):
    assert privol_cli("report", "nowhere").exit_code == IO
    assert privol_cli(*RUN, "--seed", "1", "--out", "R").exit_code == OK
    refused = privol_cli("report", "R", "--public")
    assert refused.exit_code == USAGE
    assert "the model itself is not private" in refused.stderr
    assert privol_cli("report", "R", "--out", "R.txt").exit_code == USAGE
    Path("R/run.json").write_text('{"format": "other"}')
    damaged = privol_cli("report", "R")
    assert damaged.exit_code == IO
    assert "is not the record of a run" in damaged.stderr
    assert not Path("R/report.html").exists()


def test_the_budget_is_what_the_journal_says(here):
    privol_cli(*RUN, "--learner", "pigd", "--release", "100", "--checkpoint", "100", "--out", "R", "--no-diagnostics")
    steps = history("R/ledger.jsonl")
    assert [step.rows for step in steps] == sorted(step.rows for step in steps)
    assert (steps[0].mu_squared, steps[-1].rows, steps[-1].releases) == (0.0, N, 6)
    assert len({step.mu_squared for step in steps}) > 3
    assert privol_cli("report", "R").exit_code == OK
    _, text = page("R/report.html")
    assert re.search(r"PIGD 600 6 4\b", text)


@pytest.mark.process
def test_in_a_browser(here):
    """A browser without a network shows it, including pictures."""
    assert privol_cli(*RUN, "--out", "R").exit_code == OK
    assert privol_cli("report", "R").exit_code == OK
    # a page of the test counts the pictures that were drawn
    count = "<script>onload=()=>{document.title=[...document.images].filter(i=>i.naturalWidth>100).length}</script>"
    text = Path("R/report.html").read_text().replace("</body>", f"{count}</body>")
    Path("shown.html").write_text(text)
    shown = page_after_its_scripts(here / "shown.html", here / "profile")
    assert f"<title>{text.count('<img ')}</title>" in shown
    assert "Model card" in shown
