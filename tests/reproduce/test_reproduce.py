"""Figures of the papers: the basis of a verdict, what a sample may state, and what is written where."""

from __future__ import annotations

import json
import math
import re
import statistics
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from cli_tools import privol_cli, run_json
from places import ROOT

from privol.cli.app import DATA, OK, USAGE
from privol.errors import InvalidParameter, StreamError
from privol.plots import panels_figure, plot_panels
from privol.reproduce import FIGURES, NO_FIGURES, PAPERS, Line, Measured, Panel, Result, chaudhuri2008, find, reproduce
from privol.reproduce import registry as registered
from privol.reproduce.sets import WHERE
from privol.reproduce.verdicts import against, trend

PAGE = ROOT / "docs" / "reproduce.md"
KEPT = json.loads((ROOT / "docs" / "reproduce.json").read_text(encoding="utf-8"))


@cache
def sample(name):
    (figure,) = find((name,))
    return reproduce(figure, quick=True)


def contents():
    return {path: path.read_bytes() for path in (ROOT / "docs").rglob("*") if path.is_file()}


# ---- names and verdicts -----------------------------------------------------------------------------------------


def test_names_are_the_papers_own():
    (figure,) = find(("zhang2018 fig. 3",))
    assert (figure.name, figure.slug) == ("zhang2018 fig. 3", "zhang2018-fig-3")
    assert find(("ZHANG2018-Fig-3", "zhang2018 fig 3")) == [figure]
    assert {f.paper for f in find(("zhang2018",))} == {"zhang2018"}
    assert find(("all",)) == list(FIGURES)
    assert len({f.slug for f in FIGURES}) == len(FIGURES)
    assert {f.paper for f in FIGURES} <= set(PAPERS)
    assert {name for f in FIGURES for name in f.files} <= set(WHERE)
    with pytest.raises(InvalidParameter, match="the drawing of a tree; there is nothing to measure"):
        find(("jain2012 fig. 1",))
    with pytest.raises(InvalidParameter, match=r"'fig\. 3' is no figure of a source paper; known are all, .*zhang2018"):
        find(("fig. 3",))


def test_a_number_agrees_within_its_tolerance_and_two_standard_errors():
    assert against("a", 1.0, [1.1], 0.1000001).agrees
    assert not against("a", 1.0, [1.11], 0.1).agrees
    assert result().verdict == "not compared"  # without a comparison there is no verdict
    wide = [1.0, 1.4]  # mean 1.2, standard error 0.2
    assert against("a", 1.59, wide, 0.0).agrees
    assert not against("a", 1.61, wide, 0.0).agrees
    assert not against("a", math.nan, [1.0], 1.0).agrees


def result(*checks, quick=False):
    return Result(FIGURES[0], Measured(checks=checks), 2, quick, 0.0, "0")


def test_one_failed_statement_makes_a_difference_and_is_reported():
    good, bad = trend("it falls", True, "by 2"), against("error", 0.3, [0.5, 0.5], 0.1)
    assert result(good).verdict == "agrees"
    found = result(good, bad)
    assert found.verdict == "differs"
    assert found.how == "1 of 2: error: 0.500 ± 0.000 (paper: 0.3)"
    assert result(*[bad] * 5).how.endswith("; and 2 more")
    assert result(bad, quick=True).verdict == "not compared"
    assert "| error | 0.3 | 0.500 ± 0.000 | 0.1 | differs |" in found.to_markdown(None)


def test_a_sample_has_no_verdict_and_no_values_of_the_papers():
    for figure in find(("zhang2018", "chaudhuri2008 fig. 1")):
        found = sample(figure.name)
        assert (found.verdict, found.measured.checks) == ("not compared", ())
        assert found.measured.panels
        assert {line.kind for panel in found.measured.panels for line in panel.lines} <= {"measured", "bound"}
        record = found.to_record()
        assert (record["quick"], record["size"], record["private"]) == (True, "a small size", False)
        assert found.file == f"{figure.slug}-quick"
        json.dumps(record, allow_nan=False)
        text = found.to_markdown(None)
        assert "compared with nothing" in text
        assert "Not private." in text
        assert "agrees" not in text


def test_proved_epsilons_are_of_the_rows_that_were_learnt_and_never_rounded_down():
    """Four folds of five of a thousand rows."""
    proved = [(cells[1], cells[2], cells[4]) for cells in sample("chaudhuri2008 fig. 1").measured.tables[0].rows]
    assert len(proved) == 10
    for epsilon, method, shown in proved:
        if shown:  # there is noise
            (kind,) = (kind for kind, name in chaudhuri2008.NAMES.items() if f"({name})" in method)
            words = {"l2": 0.01, "epsilon": float(epsilon), "delta": 0.0, "fit_intercept": False}
            exact = kind(**words, calibration="published").calibrate(10, 800).epsilon
            assert exact <= float(shown) < 1.001 * exact


def test_one_run_has_no_deviation():
    with pytest.raises(InvalidParameter, match="runs: 1 is below 2"):
        reproduce(FIGURES[0], runs=1)


# ---- pictures ---------------------------------------------------------------------------------------------------


def test_legends_hide_nothing_and_labels_do_not_overlap():
    """Drawn at its real size: no legend over axes, no axis label over another."""
    for name in ("zhang2018 fig. 3", "chaudhuri2008 fig. 1"):
        drawn = panels_figure(sample(name).measured.panels)
        drawn.canvas.draw()
        boxes = [axis.get_window_extent() for axis in drawn.axes]
        for part in drawn.subfigs:
            (legend,) = part.legends
            assert not any(box.overlaps(legend.get_window_extent()) for box in boxes)
        for axis in drawn.axes:
            for labels in (axis.get_xticklabels(), axis.get_yticklabels()):
                shown = [label.get_window_extent() for label in labels if label.get_text() and label.get_visible()]
                inside = [box for box in shown if box.width > 0]
                assert not any(a.overlaps(b) for k, a in enumerate(inside) for b in inside[k + 1 :])


def test_curves_differ_in_more_than_colour_and_the_papers_are_black():
    lines = [Line(f"a{k}", (1.0, 2.0), (1.0 + k, 2.0)) for k in range(12)]
    lines += [Line(f"b{k}", (1.0, 2.0), (2.0, 2.0 + k), kind="bound") for k in range(3)]
    lines += [Line(f"c{k}", (1.0, 2.0), (3.0, 2.0 + k), kind="source") for k in range(2)]
    axis = panels_figure([Panel("t", "x", "y", tuple(lines))]).axes[0]
    drawn = [line for line in axis.get_lines() if line.get_label()[0] != "_" or len(line.get_xdata()) == 2]
    assert len({(line.get_marker(), str(line._unscaled_dash_pattern)) for line in drawn}) == len(drawn) == 17
    assert [line.get_color() for line in drawn[-2:]] == ["black", "black"]
    panel = Panel("t", "x", "y", (Line("a", (1.0,), (1.0,)),))
    assert plot_panels([panel]) == plot_panels([panel])


# ---- the command ------------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_list_names_every_figure():
    text = privol_cli("reproduce", "--list").stdout
    for figure in FIGURES:
        assert f"  {figure.name}\n" in text
        assert all(name in text for name in figure.files)
    records = run_json("reproduce", "--list", "zhang2018")["figures"]
    assert [record["name"] for record in records] == ["zhang2018 fig. 3", "zhang2018 fig. 4"]


def test_results_go_into_a_folder_of_the_users_and_replace_none_of_another_size(here):
    before = contents()
    out = here / "privol-reproduce"
    done = privol_cli("reproduce", "zhang2018 fig. 4", "--runs", "2", "--quiet")
    assert (done.exit_code, done.stderr) == (OK, "")
    said = done.stdout.splitlines()  # for one figure: every number with the paper's
    assert said[0].startswith("zhang2018 fig. 4: ")
    assert "  agrees  bound, 1 bits: 5.77, paper 5.7735" in said
    assert said[-1] == "Written to privol-reproduce: zhang2018-fig-4.md, index.md, results.json. Not private."
    full = {path.name: path.read_bytes() for path in out.glob("zhang2018-fig-4.*")}
    assert set(full) == {"zhang2018-fig-4.json", "zhang2018-fig-4.md", "zhang2018-fig-4.png"}
    record = run_json("reproduce", "zhang2018", "--quick")
    assert [one["verdict"] for one in record["results"]] == ["not compared"] * 2
    assert (record["private"], record["out"]) == (False, "privol-reproduce")
    assert {path.name: path.read_bytes() for path in out.glob("zhang2018-fig-4.*")} == full
    kept = json.loads((out / "results.json").read_text())["results"]
    assert [(one["name"], one["quick"]) for one in kept] == [
        ("zhang2018 fig. 3", True), ("zhang2018 fig. 4", False), ("zhang2018 fig. 4", True),
    ]  # fmt: skip
    index = (out / "index.md").read_text()
    for target in re.findall(r"\]\(([^)]+)\)", index):
        assert (out / target).is_file()
    assert index.count("**not compared**") == 2
    assert "| `privol reproduce zhang2018-fig-3 --quick` |" in index
    assert sorted(path.name for path in here.iterdir()) == ["privol-reproduce"]
    assert contents() == before


def needing(monkeypatch, *files):
    """Make a figure require data sets."""
    figure = replace(FIGURES[0], files=files)
    monkeypatch.setattr(registered, "FIGURES", (figure, *FIGURES[1:]))
    return figure


def test_a_missing_data_set_is_an_error_that_says_where_to_get_it(here, monkeypatch):
    figure = needing(monkeypatch, "adult.data", "covtype.data")
    (here / "adult.data.gz").write_bytes(b"")
    out = here / "old"
    out.mkdir()
    (out / f"{figure.slug}.md").write_text("old")
    with pytest.raises(StreamError, match=r"covtype\.data .*https://archive\.ics\.uci\.edu/dataset/31/covertype"):
        reproduce(figure, data=here)
    with pytest.raises(StreamError, match=r"no folder of data sets is given: nothing was run\. adult\.data"):
        reproduce(figure)
    done = privol_cli("reproduce", figure.name, "--out", "old", "--data", ".")
    assert done.exit_code == DATA
    assert "covtype.data (for" in done.stderr
    assert "--skip-missing leaves out what needs them" in done.stderr
    assert "adult.data (for" not in done.stderr
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [(f"{figure.slug}.md", "old")]


def test_figures_without_their_data_are_left_out_when_told_to(here, monkeypatch):
    figure = needing(monkeypatch, "adult.data")
    names = (figure.name, "zhang2018 fig. 4")
    assert privol_cli("reproduce", *names, "--runs", "2").exit_code == DATA
    assert not (here / "privol-reproduce").exists()
    record = run_json("reproduce", *names, "--runs", "2", "--skip-missing")
    assert record["left_out"] == [figure.name]
    assert [one["name"] for one in record["results"]] == ["zhang2018 fig. 4"]
    assert privol_cli("reproduce", figure.name, "--skip-missing").exit_code == DATA  # nothing remains


def test_a_folder_with_something_else_in_it_is_left_alone(here):
    out = here / "privol-reproduce"
    out.mkdir()
    for text in ("{", "[]", '{"name": 1}'):
        (out / "zhang2018-fig-3.json").write_text(text)
        done = privol_cli("reproduce", "zhang2018", "--quick")
        assert done.exit_code == DATA
        assert "zhang2018-fig-3.json is no result of privol reproduce" in done.stderr
        assert [(path.name, path.read_text()) for path in out.iterdir()] == [("zhang2018-fig-3.json", text)]


def test_wrong_or_missing_names_are_usage_errors(here):
    for words in ((), ("nonsense",), ("li2018 table 1",), ("all", "--runs", "1")):
        assert privol_cli("reproduce", *words).exit_code == USAGE
    assert not list(here.iterdir())


# ---- the page ---------------------------------------------------------------------------------------------------


def test_the_page_has_every_result_and_every_drawing():
    text = PAGE.read_text(encoding="utf-8")
    rows = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ") and "`privol" in line]
    verdicts = {name: record["verdict"] for name, record in KEPT.items()}
    assert [(cells[0], cells[2].strip("`"), cells[3]) for cells in rows] == [
        (f.name, f"privol reproduce {f.slug}", f"**{verdicts.get(f.name, 'not measured')}**") for f in FIGURES
    ]
    assert all(f.files for f in FIGURES if f.name not in KEPT)  # not measured only because their data are missing
    assert all(record["why"] == find((name,))[0].why for name, record in KEPT.items())
    assert not any(record["quick"] for record in KEPT.values())
    for name, what in NO_FIGURES.items():
        assert f"| {name} | {what} |" in text


def test_the_page_has_every_statement():
    text = PAGE.read_text(encoding="utf-8")
    (lines,) = re.findall(r"<!-- compared: .*?-->(.*?)<!-- end of compared -->", text, re.DOTALL)
    rows = [line[2:-2].split(" | ") for line in lines.splitlines() if line.startswith("| ")][2:]
    assert [(cells[0], cells[1], cells[5] == "agrees") for cells in rows] == [
        (name, check["what"], check["agrees"]) for name, record in KEPT.items() for check in record["checks"]
    ]


def test_verdicts_of_the_page_follow_from_its_figures():
    for record in KEPT.values():
        assert record["checks"]
        assert record["verdict"] == ("agrees" if all(check["agrees"] for check in record["checks"]) else "differs")
        assert record["verdict"] == "agrees" or record["why"]


def test_tables_of_other_pages_are_those_of_the_results():
    found = 0
    for page in (ROOT / "docs").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        for name, table in re.findall(r"<!-- ([\w-]+): experiments/reproduced.py -->(.*?)<!-- end of", text, re.DOTALL):
            if name not in ("reproduced", "compared"):
                (record,) = (record for record in KEPT.values() if record["file"] == name)
                for kept in record["tables"]:
                    for cells in kept["rows"]:
                        assert f"| {' | '.join(cells)} |" in table
                found += 1
    assert found >= 3


def test_a_small_rerun_agrees_with_the_page():
    """Other keys, 60 runs: each mean is within five standard errors of its own and of the page's 400 runs.

    The means of a row are Gaussian up to tails: all seven pass except once in 10^5 times.
    """
    from privol.reproduce import zhang2018

    for bits, cells in zip(zhang2018.BITS, KEPT["zhang2018 fig. 4"]["tables"][0]["rows"], strict=True):
        found = [zhang2018.measured_regret(25, zhang2018.sigma_of(bits), 5_000 + key) for key in range(60)]
        mean, _, deviation = cells[3].split()
        error = math.hypot(statistics.stdev(found) / math.sqrt(60), float(deviation) / 20)
        assert abs(statistics.mean(found) - float(mean)) < 5 * error + 0.01 * float(mean)
        assert np.isclose(zhang2018.exact_regret(25, zhang2018.sigma_of(bits)), float(cells[2]), rtol=1e-5)


def test_only_full_results_go_into_the_documentation(here, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    import reproduced

    docs = here / "docs"
    (docs / "img").mkdir(parents=True)
    begin, end = reproduced.place("zhang2018-fig-4")
    (docs / "a.md").write_text(f"before\n{begin}\nold\n{end}\nafter ![x](img/zhang2018-fig-4.png)\n")
    (docs / "b.md").write_text("untouched")
    (docs / "reproduce.json").write_text(json.dumps({"zhang2018 fig. 3": KEPT["zhang2018 fig. 3"]}))
    begin_all, end_all = reproduced.place("reproduced")
    (docs / "reproduce.md").write_text(f"{begin_all}\n{end_all}\n")
    run_json("reproduce", "zhang2018", "--quick", "--out", "out")
    monkeypatch.setattr("sys.argv", ["reproduced.py", "out", "--docs", "docs"])
    with pytest.raises(SystemExit, match="no full result"):
        reproduced.main()
    assert "old" in (docs / "a.md").read_text()
    run_json("reproduce", "zhang2018-fig-4", "--runs", "2", "--out", "out")
    reproduced.main()
    text = (docs / "a.md").read_text()
    assert re.fullmatch(r"before\n<!--.*-->\n\n(\|.*\|\n){9}\n<!--.*-->\nafter .*\n", text)
    assert (docs / "img" / "zhang2018-fig-4.png").read_bytes() == (here / "out" / "zhang2018-fig-4.png").read_bytes()
    assert list(json.loads((docs / "reproduce.json").read_text())) == ["zhang2018 fig. 3", "zhang2018 fig. 4"]
    index = (docs / "reproduce.md").read_text()
    assert index.count("**not measured**") == len(FIGURES) - 2
    assert "| `privol reproduce jain2012-fig-2c` | **not measured** | needs covtype.data |" in index
    assert (docs / "b.md").read_text() == "untouched"
