"""The experiments run, and docs/experiments.md says what they wrote."""

from __future__ import annotations

import importlib
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from patience import WAIT

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "experiments"
PAGE = ROOT / "docs" / "experiments.md"
SHARED = {"common", "regression", "tasks"}
SCRIPTS = sorted({path.stem for path in FOLDER.glob("*.py")} - SHARED)


def place(name: str) -> tuple[str, str]:
    return f"<!-- {name}: experiments/{name}.py -->", f"<!-- end of {name} -->"


def written(name: str, page: Path = PAGE) -> list[list[str]]:
    """Cells of the tables that a script wrote, without their heads."""
    begin, end = place(name)
    (text,) = re.findall(f"{re.escape(begin)}(.*?){re.escape(end)}", page.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    rules = [i for i, cells in enumerate(lines) if set(cells) == {"---"}]
    return [cells for i, cells in enumerate(lines) if i not in rules and i + 1 not in rules]


def number(cell: str) -> float:
    """The mean in a cell such as ``0.012 ± 0.003 (333)``."""
    return float(cell.split()[0])


def run(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(FOLDER / f"{name}.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=WAIT, check=False)


def sample(name: str, tmp_path: Path, *words: str) -> list[list[str]]:
    """Run a script with ``--quick``, and return what it wrote into a page of its own."""
    page = tmp_path / "page.md"
    page.write_text("\n".join(["before", *place(name), "after"]), encoding="utf-8")
    done = run(name, *words, "--quick", "--page", str(page))
    assert done.returncode == 0, done.stderr
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n<!--")
    assert text.endswith("-->\nafter")
    return written(name, page)


@pytest.fixture
def experiments(monkeypatch):
    """Import the scripts as modules."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module
    for name in [*SCRIPTS, *SHARED]:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_experiment_has_its_place(name):
    assert written(name)
    assert f"python experiments/{name}.py" in PAGE.read_text(encoding="utf-8")


def test_a_page_without_the_place_is_left_alone(tmp_path, experiments):
    page = tmp_path / "page.md"
    page.write_text("nothing", encoding="utf-8")
    with pytest.raises(SystemExit, match="no place for 'regret_table'"):
        experiments("common").write("regret_table", ["a line"], page)
    assert page.read_text(encoding="utf-8") == "nothing"


def test_figures_show_what_counts(experiments):
    shown = experiments("common").shown
    assert shown([0.0]) == "0"
    assert shown([0.000106]) == "0.000106"
    assert shown([6.366, 6.370]) == "6.368 ± 0.003"
    assert shown([1234.0, 1236.0]) == "1235 ± 1"


# ---- regret_table ---------------------------------------------------------------------------------------------


def test_regret_table_runs(tmp_path):
    rows = {tuple(cells[:2]): cells for cells in sample("regret_table", tmp_path)}
    assert len(rows) == 30
    assert number(rows["0.5", "DPFTRL"][3]) < number(rows["0.5", "NOGD"][3]) < number(rows["0.5", "PIGD, published"][3])


def test_every_printed_regret_is_reproduced(experiments):
    """What the page says of each cell follows from its figures, and the printed ones are all there."""
    script = experiments("regret_table")
    rows = written("regret_table")
    assert [(cells[0], cells[1]) for cells in rows] == [
        (f"{l2:g}", name) for l2, _ in script.SETTINGS for name in script.PRINTED
    ]
    for cells in rows:
        column = [f"{l2:g}" for l2, _ in script.SETTINGS].index(cells[0])
        printed = script.PRINTED[cells[1]][column]
        assert number(cells[2]) == printed
        mean, _, spread = re.match(r"([\d.]+)( ± ([\d.]+))?", cells[3]).groups()
        close = abs(float(mean) - printed) <= max(2 * float(spread or 0), printed / 10)
        assert (cells[4], close) == ("yes", True)


def test_one_printed_regret_is_reproduced_now(experiments):
    """Noise of fixed keys; the deviation of a run is 0.0007, so a mean of two misses by chance below 1e-12."""
    script = experiments("regret_table")
    game = script.Game(*script.made_up(script.ROWS), 0.05, 5.0)
    found = [
        game.regret(
            script.DPFTRL(l2=0.05, radius=5.0, fit_intercept=False, gradient_bound=1.0, random_state=key)
        )
        for key in range(2)
    ]
    assert statistics.mean(found) == pytest.approx(script.PRINTED["DPFTRL"][1], rel=0.2)


# ---- linear_regression ----------------------------------------------------------------------------------------


def test_linear_regression_runs(tmp_path):
    rows = sample("linear_regression", tmp_path)
    assert [len(cells) for cells in rows] == [5] * 16 + [4] * 8
    designs = {cells[0]: [number(cell) for cell in cells[1:]] for cells in rows[8:16]}
    assert designs["blt"][3] < designs["tree"][3] < designs["independent"][3]
    assert designs["follow-the-leader without noise"][3] < designs["always 0"][3]


def test_the_page_shows_the_order_of_the_designs(experiments):
    rows = written("linear_regression")
    for part in (rows[:8], rows[8:16]):
        regret = {cells[0]: [number(cell) for cell in cells[1:]] for cells in part}
        assert tuple(regret)[:6] == experiments("linear_regression").DESIGNS
        for epsilon in (1, 2, 3):
            least = min(regret[design][epsilon] for design in ("tree", "honaker", "smooth", "independent"))
            assert max(regret["blt"][epsilon], regret["sqrt"][epsilon]) < least
    shifts = {(number(a), number(b)): (number(printed), cell) for a, b, printed, cell in rows[16:]}
    assert {key: printed for key, (printed, _) in shifts.items()} == experiments("linear_regression").SHIFTS
    for (_, shift), (printed, cell) in shifts.items():
        mean, _, spread = cell.split()
        if shift != 1.0:  # the page says why
            assert abs(float(mean) - printed) <= max(2 * float(spread), printed / 10)
        else:
            assert float(mean) < printed
