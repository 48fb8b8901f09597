"""The experiments on synthetic rows run, and docs/experiments.md agrees with their output."""

from __future__ import annotations

import re
import statistics

import pytest
from experiment_tools import SCRIPTS, experiments, number, page_of, written  # noqa: F401 (a fixture)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_experiment_has_its_place(name):
    assert bool(written(name)) is (name != "year_prediction")  # its file was not available
    assert f"python experiments/{name}.py" in page_of(name).read_text(encoding="utf-8")


def test_a_page_without_the_place_is_left_alone(tmp_path, experiments):  # noqa: F811
    page = tmp_path / "page.md"
    page.write_text("nothing", encoding="utf-8")
    with pytest.raises(SystemExit, match="no place for 'regret_table'"):
        experiments("common").write("regret_table", ["a line"], page)
    assert page.read_text(encoding="utf-8") == "nothing"


def test_shown_figures_have_their_significant_digits(experiments):  # noqa: F811
    shown = experiments("common").shown
    assert shown([0.0]) == "0"
    assert shown([0.000106]) == "0.000106"
    assert shown([6.366, 6.370]) == "6.368 ± 0.003"
    assert shown([1234.0, 1236.0]) == "1235 ± 1"


# ---- explain --------------------------------------------------------------------------------------------------


def test_the_explain_experiment_runs(tmp_path, experiments):  # noqa: F811
    band, off = experiments.sample("explain", tmp_path, str(tmp_path))
    assert 0.8 < float(band[2]) < 2.0
    assert float(band[3].rstrip("%")) > 95.0
    (sigmoid, now), (loss, loss_now, best), (slope, slope_now) = ([*map(float, cell.split(", "))] for cell in off[2:])
    assert now < sigmoid
    assert best - 1e-4 <= loss_now < loss
    assert slope < slope_now < 1.2  # a sigmoid is overconfident


# ---- regret_table ---------------------------------------------------------------------------------------------


def test_regret_table_runs(tmp_path, experiments):  # noqa: F811
    rows = {tuple(cells[:2]): cells for cells in experiments.sample("regret_table", tmp_path)}
    assert len(rows) == 30
    assert number(rows["0.5", "DPFTRL"][3]) < number(rows["0.5", "NOGD"][3]) < number(rows["0.5", "PIGD, published"][3])


def test_every_printed_regret_is_reproduced(experiments):  # noqa: F811
    """The page's statements on each cell follow from its figures, and all printed cells are there."""
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


def test_one_printed_regret_is_reproduced_now(experiments):  # noqa: F811
    """Noise of fixed keys; the deviation of a run is 0.0007, so a mean of two fails by chance with less than 1e-12."""
    script = experiments("regret_table")
    game = script.Game(*script.synthetic(script.ROWS), 0.05, 5.0)
    found = [
        game.regret(script.DPFTRL(l2=0.05, radius=5.0, fit_intercept=False, gradient_bound=1.0, random_state=key))
        for key in range(2)
    ]
    assert statistics.mean(found) == pytest.approx(script.PRINTED["DPFTRL"][1], rel=0.2)


# ---- linear_regression ----------------------------------------------------------------------------------------


def test_linear_regression_runs(tmp_path, experiments):  # noqa: F811
    rows = experiments.sample("linear_regression", tmp_path)
    assert [len(cells) for cells in rows] == [5] * 16 + [4] * 8
    designs = {cells[0]: [number(cell) for cell in cells[1:]] for cells in rows[8:16]}
    assert designs["blt"][3] < designs["tree"][3] < designs["independent"][3]
    assert designs["follow-the-leader without noise"][3] < designs["always 0"][3]


def test_the_page_shows_the_order_of_the_designs(experiments):  # noqa: F811
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
        if shift != 1.0:  # the page explains it
            assert abs(float(mean) - printed) <= max(2 * float(spread), printed / 10)
        else:
            assert float(mean) < printed


# ---- growth ---------------------------------------------------------------------------------------------------


def grown(script, name):
    horizons = (1_000, 3_162, 10_000, 31_623, 100_000)
    rows = script.synthetic(horizons[-1])
    first = (script.Ridge(rows.X[:n], rows.y[:n], rows.l2) for n in horizons)
    return script.Growth.of(horizons, [script.regret(part, name, 0) for part in first])


def test_the_regret_of_private_least_squares_grows_with_a_logarithm(experiments):  # noqa: F811
    """Between runs the exponent varies by 0.006: that of ln(T)^1.5 is 0.14 here, that of sqrt(T) 0.5."""
    script = experiments("growth")
    growth = grown(script, "PQFTL, epsilon = 10")
    assert growth.power < 0.14
    assert growth.last_power < 0.12
    assert growth.logarithms < 1.5
    assert growth.logarithmic < growth.root / 2
    assert growth.logarithmic < 0.03


def test_the_fits_tell_a_root_from_a_logarithm(experiments):  # noqa: F811
    """With the source's own noise, whose regret does grow with the square root."""
    script = experiments("growth")
    growth = grown(script, "PIGD, noise of the paper's shape, epsilon = 10")
    assert growth.power == pytest.approx(0.5, abs=0.1)
    assert growth.root < growth.logarithmic / 10
    horizons = (1_000, 10_000, 100_000)
    root = script.Growth.of(horizons, [3 * n**0.5 + 2 for n in horizons])
    assert root.root < 1e-10 < 0.01 < root.logarithmic
    logarithm = script.Growth.of(horizons, [2 + 0.1 * script.math.log(n) ** 1.5 for n in horizons])
    assert logarithm.logarithmic < 1e-10 < 0.01 < logarithm.root


def test_growth_runs(tmp_path, experiments):  # noqa: F811
    rows = experiments.sample("growth", tmp_path)
    assert [len(cells) for cells in rows] == [3] * 5 + [6] * 5


def test_the_page_shows_how_regret_grows():
    fits = {cells[0]: [number(cell) for cell in cells[1:]] for cells in written("growth")[5:]}
    for name, (power, last, logarithms, logarithmic, root) in fits.items():
        if name.startswith("PIGD"):
            assert (round(power, 1), root < logarithmic) == (0.5, True)
        else:
            assert max(power, last) < 0.15
            assert logarithms < 1.5
            assert logarithmic < root
