"""Scripts write into the documentation only on request, and only from all of their data."""

from __future__ import annotations

import re

import pytest
from experiment_tools import SCRIPTS, experiments, page_of, written  # noqa: F401 (a fixture)
from places import ROOT

DATA = [name for name in SCRIPTS if "given.folder" in (ROOT / "experiments" / f"{name}.py").read_text(encoding="utf-8")]


def contents():
    return {path: path.read_bytes() for path in (ROOT / "docs").rglob("*") if path.is_file()}


def test_the_scripts_were_found():
    assert {"network_accuracy", "network", "offline", "classification", "multiscale", "casp"} <= set(DATA)


@pytest.mark.parametrize("name", DATA)
def test_a_missing_file_is_an_error_before_anything_is_written(name, tmp_path, experiments):  # noqa: F811
    before = contents()
    with pytest.raises(SystemExit) as ended:
        experiments.run(name, str(tmp_path), "--write", "--runs", "1")
    assert ended.value.code not in (None, 0)
    assert contents() == before


def test_one_missing_file_of_several_is_an_error_where_the_page_is_written(tmp_path, experiments, capsys):  # noqa: F811
    before = contents()
    for file in ("covtype.data.gz", "adult.data.gz", "adult.test.gz"):
        (tmp_path / file).write_bytes(b"")  # nobody reads them
    with pytest.raises(SystemExit):
        experiments.run("network_accuracy", str(tmp_path), "--write")
    assert "has no rcv1_subsets.binary" in capsys.readouterr().err
    assert contents() == before


def test_without_write_the_table_is_printed(experiments, capsys):  # noqa: F811
    """Also when it is not a sample."""
    before = contents()
    script = experiments("common")
    script.write("regret_table", ["| a |"], None)
    assert capsys.readouterr().out == "| a |\n"
    experiments.run("growth", "--quick")
    assert "|" in capsys.readouterr().out
    assert contents() == before


def test_results_of_a_sample_are_not_written_to_the_documentation(experiments, capsys):  # noqa: F811
    with pytest.raises(SystemExit):
        experiments.run("growth", "--quick", "--write")
    assert "a sample is not for the documentation" in capsys.readouterr().err


DRAWN = {  # the panels of a picture that is made of the page's tables, and the curves in the first of them
    "betting": (12, 7),
    "betting_data": (2, 9),
    "classification": (3, 7),
    "multiscale": (2, 14),
    "offline": (4, 8),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_drawn_again_from_the_page(name, experiments, monkeypatch):  # noqa: F811
    """Nothing is measured, each curve shows means of the table, and no two look alike."""
    before, drawn = contents(), []
    script = experiments(name)
    monkeypatch.setattr(script, "picture", lambda figure, file, page: drawn.append((figure, file, page)))
    experiments.run(name, "--draw")
    ((figure, file, page),) = drawn
    assert file.startswith(name)
    assert page == page_of(name)
    assert contents() == before
    means = {
        float(cell.split(" ± ")[0]) for cells in written(name) for cell in cells if re.match(r"[\d.]+( ± |$)", cell)
    }
    curves = [[line for line in axis.lines if line.get_marker() not in ("None", "|", "_")] for axis in figure.axes]
    assert (len(curves), len(curves[0])) == DRAWN[name]
    for panel in curves:
        assert {float(y) for line in panel for y in line.get_ydata()} <= means
        looks = [(line.get_marker(), line.get_linestyle(), line.get_markerfacecolor() == "white") for line in panel]
        assert len(set(looks)) == len(looks)


def test_what_needs_a_folder_says_so_unless_it_only_draws(experiments, capsys):  # noqa: F811
    for words, found in (([], "arguments are required: folder"), (["--draw", "--quick"], "--quick or --draw")):
        with pytest.raises(SystemExit):
            experiments.run("offline", *words)
        assert found in capsys.readouterr().err
