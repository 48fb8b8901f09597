"""Scripts write into the documentation only on request, and only from all of their data."""

from __future__ import annotations

import pytest
from experiment_tools import SCRIPTS, experiments  # noqa: F401 (a fixture)
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
