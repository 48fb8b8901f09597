"""The experiments on reports run, and docs/local.md agrees with their output."""

from __future__ import annotations

import math

import numpy as np
import pytest
from experiment_tools import experiments, number, written  # noqa: F401 (a fixture)

from privol import BANCO, AgnosticBANCO, MultiscaleSGD

pytestmark = pytest.mark.slow

pytest.importorskip("pyarrow")


def spread(cell: str) -> float:
    return float(cell.split(" ± ")[1].split()[0])


# ---- bandit_regret --------------------------------------------------------------------------------------------


def test_the_regression_finds_the_exponent(experiments):  # noqa: F811
    script = experiments("bandit_regret")
    rows = np.array([10.0, 100.0, 1000.0])
    found, error = script.slope(rows, np.outer(3 * rows**0.75, np.ones(4)))
    assert (found, error) == (pytest.approx(0.75), pytest.approx(0.0, abs=1e-6))


def test_bandit_regret_runs(tmp_path, experiments):  # noqa: F811
    rows = experiments.sample("bandit_regret", tmp_path)
    assert [len(cells) for cells in rows] == [4] * 8
    for cells in rows[:6]:
        assert 0 < number(cells[2]) < number(cells[3])


def test_the_page_shows_the_exponents():
    rows = written("bandit_regret")
    for cells in rows[:-2]:
        assert number(cells[2]) < number(cells[3])
    for cells in rows[-2:]:
        assert abs(number(cells[3]) - float(cells[1])) < 0.02
        assert spread(cells[3]) < 0.005


# ---- bandit_vector --------------------------------------------------------------------------------------------


def test_bandit_vector_runs(tmp_path, experiments):  # noqa: F811
    rows = experiments.sample("bandit_vector", tmp_path)
    assert [cells[:2] for cells in rows] == [[d, name] for d in ("3", "30") for name in ("as published", "one number")]
    assert all(0.0 < number(cells[2]) < number(cells[3]) for cells in rows)


def test_noise_on_the_whole_estimate_costs_regret():
    rows = written("bandit_vector")
    for published, own in ((rows[0], rows[1]), (rows[2], rows[3])):
        assert all(number(one) > number(other) for one, other in zip(published[2:], own[2:], strict=True))


# ---- decaying_regulariser -------------------------------------------------------------------------------------


def test_decaying_regulariser_runs(tmp_path, experiments):  # noqa: F811
    rows = experiments.sample("decaying_regulariser", tmp_path)
    assert [cells[1] for cells in rows[:2]] == ["20, constant", "20, as T^(1/4)"]
    for cells in rows:
        assert number(cells[4]) > number(cells[3]) > number(cells[2]) > 0


def test_a_constant_l2_has_no_rate_and_a_growing_one_the_papers():
    rows = written("decaying_regulariser")
    assert len(rows) == 4
    for constant, growing in ((rows[0], rows[1]), (rows[2], rows[3])):
        assert abs(float(constant[-1]) - 1.0) < 0.01
        assert 0.65 < number(growing[-2]) < 0.75
        assert float(growing[-1]) < 0.75


# ---- betting --------------------------------------------------------------------------------------------------


def test_descent_is_the_same_at_every_scale(experiments):  # noqa: F811
    """The reason why one sweep serves for all norms: a power of two as the factor changes no bit."""
    sweeps, betting = experiments("sweeps"), experiments("betting")
    for randomizer in betting.RANDOMIZERS:
        found = [
            sweeps.descend(game := betting.Regression(3, 400, norm), 5, 0.02 * norm, epsilon=2.0, randomizer=randomizer)
            / game.null
            for norm in (1.0, 64.0)
        ]
        assert found[0] == found[1] < 1.0


def test_a_sweep_is_charged_with_all_of_its_runs(experiments):  # noqa: F811
    sweeps, betting = experiments("sweeps"), experiments("betting")
    game = betting.Regression(2, 300, 1.0)
    found = sweeps.sweep(game, [1e-9, 0.05, 1e3], range(2), epsilon=3.0, randomizer="l2laplace")
    assert found.epsilon == 3.0 * 3 * 2
    assert found.best == 0.05
    assert found.excess.shape == (3, 2)
    assert found.excess[0] == pytest.approx([game.null] * 2, rel=1e-3)  # no step at all


def test_the_risk_is_computed(experiments):  # noqa: F811
    """Compared with the mean over 40,000 rows, within seven deviations: fails by chance with less than 1e-11."""
    betting = experiments("betting")
    for dim in (2, 10, 54):
        game = betting.Regression(dim, 40_000, 3.0)
        X, y = game.rows(0)
        model = np.linspace(-1.0, 1.0, dim)
        losses = np.abs(X @ model - y)
        assert abs(losses.mean() - game.excess(model)) < 7 * losses.std() / 200
        assert game.excess(np.zeros(dim)) == pytest.approx(game.null)
        assert game.excess(game.truth) == 0.0


def test_betting_runs(tmp_path, experiments):  # noqa: F811
    rows = experiments.sample("betting", tmp_path)
    assert [len(cells) for cells in rows] == [8] * 5 + [9] * 7


def test_the_specifications_table_is_reproduced(experiments):  # noqa: F811
    """Excess risks of the page against the printed means of five runs, within three of their deviations and 5 %."""
    printed = experiments("betting").PRINTED
    rows = [cells for cells in written("betting") if len(cells) == 8]
    assert len(rows) == len(printed)
    for cells, old in zip(rows, printed.values(), strict=True):
        measured = [cells[2], cells[3], cells[5], cells[6], cells[7]]
        for cell, value in zip(measured, old, strict=True):
            assert number(cell.rpartition("(")[2].rstrip(")")) == pytest.approx(value, rel=1e-3)
            assert abs(number(cell) - value) <= 3 * spread(cell) / math.sqrt(5) + 0.05 * value


def test_the_page_shows_who_wins():
    """Descent with the best step beats betting except in cells where both learn next to nothing."""
    rows = {tuple(cells[:4]): [number(cell) for cell in cells[4:]] for cells in written("betting") if len(cells) == 9}
    assert len(rows) == 12 * 4 + 12 * 3
    for (randomizer, dim, epsilon, name), cells in rows.items():
        best = rows[randomizer, dim, epsilon, "LDPSGD, best step for each norm"]
        assert len(set(best)) == 1
        if "BANCO" in name:
            assert min(cells) > 0.95 * best[0]
            assert max(cells) < 1.05  # never worse than the model of zeros
        if name == "BANCO":
            step = rows[randomizer, dim, epsilon, "LDPSGD, best step for norm 1"]
            for k in (0, -1):  # 100 times too long, or too short
                assert cells[k] < step[k] or cells[k] > 0.95  # the latter learns nothing
        if name.endswith("norm 1"):
            assert cells[0] > 5 * best[0]  # a step 100 times too long


# ---- betting_data ---------------------------------------------------------------------------------------------


def test_betting_data_runs(tmp_path, experiments):  # noqa: F811
    rows = experiments.sample("betting_data", tmp_path, str(tmp_path))
    assert [len(cells) for cells in rows] == [9] * 2  # covtype alone: the folder is empty


def test_the_page_shows_real_rows():
    rows = written("betting_data")
    assert len(rows) == 16
    for cells in rows:
        values = [number(cell) for cell in cells[2:7]]
        assert values[2] <= 1.05 * min(values)
        assert number(cells[7]) > 0.95 * values[2]


# ---- multiscale ------------------------------------------------------------------------------------------------


def test_multiscale_runs(tmp_path, experiments):  # noqa: F811
    rows = experiments.sample("multiscale", tmp_path, str(tmp_path))
    assert [len(cells) for cells in rows] == [7] * 5 + [8]  # covtype alone: the folder is empty


def test_the_page_shows_where_the_aim_is_met():
    """At most 1.5 times the error of the best constant step, with one exception; less than BANCO on a signal."""
    rows = written("multiscale")
    assert [len(cells) for cells in rows] == [7] * 27 + [8] * 16
    missed, signals = [], 0
    for cells in rows:
        null, multiscale, banco = (number(cell) for cell in cells[-5:-2])
        if multiscale > 1.5:
            missed.append((cells[:3], multiscale))
        assert multiscale <= 1.05 * null  # no worse than no model, to two digits
        if null > 2.0:
            signals += 1
            assert multiscale < banco
    assert signals == 31
    assert missed == [(["covtype", "privunit", "8"], 1.7)]


# ---- the tables against results of today ------------------------------------------------------------------------


def near(found: list[float], mean: float, deviation: float, runs: int) -> None:
    """Check that a few runs and a cell of the page have one mean: within five standard errors, and rounding.

    Means of eight runs and of 20: fails by chance in fewer than one of 10^5 cells.
    """
    error = deviation * math.sqrt(1 / len(found) + 1 / runs)
    assert abs(np.mean(found) - mean) < 5 * error + 0.05 * mean, (np.mean(found), mean, error)


def test_small_reruns_agree_with_the_page(experiments):  # noqa: F811
    """New rows and noise in cells of each table of synthetic rows: the page describes the present version."""
    sweeps, betting, bandit = experiments("sweeps"), experiments("betting"), experiments("bandit_regret")
    keys = range(5_000, 5_008)
    for values, cells in ((1, written("bandit_regret")[1]), (2, written("bandit_regret")[9])):
        assert cells[1] == "1,000"
        near([bandit.regret(1_000, values, key) for key in keys], number(cells[2]), spread(cells[2]), 20)
    whole = experiments("bandit_vector")
    for dim, cells in ((3, written("bandit_vector")[0]), (30, written("bandit_vector")[2])):
        near([whole.as_published(1_000, dim, key) for key in keys], number(cells[2]), spread(cells[2]), 10)
    game, given = betting.Regression(2, 20_000, 1.0), {"epsilon": 1.0, "randomizer": "l2laplace"}
    (first,) = (cells for cells in written("betting") if cells[0] == "2, 20,000, 1, 1")
    eta0 = 1.0 / 2 / math.sqrt(20_000)
    near([sweeps.run(BANCO, game, key, theta=0.5, **given) for key in keys], number(first[3]), spread(first[3]), 20)
    near([sweeps.descend(game, key, eta0, **given) for key in keys], number(first[6]), spread(first[6]), 20)
    rows = {tuple(cells[:4]): cells[4:] for cells in written("betting") if len(cells) == 9}
    for name, kind in (("BANCO", BANCO), ("AgnosticBANCO", AgnosticBANCO)):
        cell = rows["l2laplace", "2", "1", name][betting.NORMS.index(1.0)]
        near([sweeps.run(kind, game, key, **given) / game.null for key in keys], number(cell), spread(cell), 20)
    rows = {tuple(cells[:2]): cells[2:] for cells in written("multiscale") if len(cells) == 7}
    null, cell, *_ = rows["l2laplace", "2, 20,000, 1, 1"]
    unit = 1.0 / number(null)
    found = [sweeps.run(MultiscaleSGD, game, key, **given) / game.null / unit for key in keys]
    near(found, number(cell), spread(cell), 20)


def test_small_reruns_on_real_rows_agree_with_the_page(experiments, tmp_path):  # noqa: F811
    """New noise on the rows that come with privol, for one cell in each of the two tables of real rows."""
    sweeps, script = experiments("sweeps"), experiments("betting_data")
    (game,) = script.found_in(tmp_path, script.ROWS)  # an empty folder: covtype alone
    given, keys = {"epsilon": 4.0, "randomizer": "privunit"}, range(5_000, 5_004)
    null = game.excess(np.zeros(game.X.shape[1] + 1))
    table = {tuple(cells[:2]): cells[2:] for cells in written("betting_data")[:8]}  # covtype is the first
    banco = table["privunit", "4"][5]
    near([sweeps.run(BANCO, game, key, **given) for key in keys], number(banco), spread(banco), 20)
    table = {tuple(cells[:3]): cells[3:] for cells in written("multiscale") if len(cells) == 8}
    shown_null, cell, *_ = table["covtype", "privunit", "4"]
    found = [sweeps.run(MultiscaleSGD, game, key, **given) / null * number(shown_null) for key in keys]
    near(found, number(cell), spread(cell), 20)
