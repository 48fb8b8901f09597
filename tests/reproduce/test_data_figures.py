"""Figures on data sets: what is read and what they measure; small versions of all figures run without any file."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from experiment_tools import adult, articles, covtype
from places import ROOT

from privol import PIGD, PQFTL
from privol.guarantees import format_up
from privol.reproduce import FIGURES, Setting, chaudhuri2008, find, jain2012, jun2019, li2018, nodes, reproduce, sets
from privol.reproduce.nodes import Rows, along, learner_of
from privol.reproduce.regret import Ridge
from privol.reproduce.sets import TASKS, WHERE, has, path_of, schema_of

pytest.importorskip("pyarrow")


def test_a_figure_of_each_kind_runs_at_a_small_size_without_a_file():
    for name in ("jain2012 fig. 2b", "li2018 fig. 3c", "li2018 table 3"):
        (figure,) = find((name,))
        found = reproduce(figure, quick=True)
        assert found.verdict == "not compared"
        (table, *_) = found.measured.tables
        assert all(len(cells) == len(table.head) for cells in table.rows)
        for panel in found.measured.panels:
            for line in panel.lines:
                assert len(line.x) == len(line.y) > 0
                assert np.all(np.isfinite(line.y))


@pytest.mark.slow
def test_the_other_figures_run_at_a_small_size():
    names = ("jain2012 fig. 2a", "jain2012 fig. 2c", "li2018 fig. 3b", "li2018 fig. 4", "li2018 fig. 5a",
             "li2018 fig. 6a", "li2018 fig. 6b", "li2018 fig. 6c", "jun2019")  # fmt: skip
    for figure in find(names):
        found = reproduce(figure, quick=True)
        assert (found.verdict, found.measured.checks) == ("not compared", ())
        for table in found.measured.tables:
            assert {len(cells) for cells in table.rows} == {len(table.head)}


@pytest.mark.slow
def test_the_data_of_the_files_are_compared(tmp_path, monkeypatch):
    """The full measurement, on short files in the published formats: every number of the papers has its check."""
    monkeypatch.setattr(li2018, "L1", (1e-4, 1e-2))
    for name in ("real-sim", "rcv1_subsets.binary"):
        (tmp_path / name).write_text(articles(140))
    monkeypatch.setattr(sets, "WORDS", 40)
    rng = np.random.default_rng(0)
    for name in sets.PAIR:
        lines = [f"{1950 + k % 60} " + " ".join(f"{i}:{v:.3f}" for i, v in enumerate(rng.normal(size=90), 1))
                 for k in range(200)]  # fmt: skip
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    read = nodes.rcv1(tmp_path, None), li2018.real_sim_rows(Setting(2, data=tmp_path))
    assert [(len(rows.y), len(rows.y_test)) for rows in read] == [(105, 35)] * 2  # none is learnt and held out
    counts = {"jain2012 fig. 2b": 3, "li2018 fig. 5a": 4, "li2018 fig. 5b": 1, "li2018 table 3": 12}
    for figure in find(tuple(counts)):
        found = reproduce(figure, data=tmp_path, runs=2)
        assert len(found.measured.checks) == counts[figure.name]
        assert found.verdict in ("agrees", "differs")
        assert found.to_record()["checks"][0]["what"] in found.to_markdown(None)
    for name, columns in (("adult", adult), ("covtype", covtype)):
        columns(tmp_path)
        assert has(tmp_path, f"{name}.data")
    monkeypatch.setattr(nodes, "NODES", 8)
    monkeypatch.setattr(li2018, "NODES", 8)
    for name, checks in (("li2018 fig. 6a", 4), ("jain2012 fig. 2c", 5)):
        (figure,) = find((name,))
        assert len(reproduce(figure, data=tmp_path, runs=2).measured.checks) == checks


def test_the_printed_numbers_are_all_compared():
    """The numbers of fig. 2c and of table 3, as the papers print them."""
    assert list(jain2012.PRINTED.values()) == [68.1, 66.3, 62.7, 59.4, 58.3]
    assert [li2018.PRINTED[n, e] for e in (1.0, 0.1, 0.01) for n in (1, 4, 64)] == [
        82.51, 74.64, 65.72, 80.17, 70.86, 62.34, 75.69, 64.81, 50.36,
    ]  # fmt: skip
    assert [li2018.PRINTED[n, math.inf] for n in (1, 4, 64)] == [82.51, 74.64, 65.72]


def test_noise_as_printed_has_the_claim_of_its_paper():
    """And privol's own has none: the two are never taken for each other."""
    bounds = {"x_bound": 1.0, "y_bound": 1.0, "release": "all", "batch": 1, "radius": 1e3, "fit_intercept": False}
    sums = {name: PQFTL(**{**bounds, **words}) for name, words in jain2012.NOISE.items()}
    together = {name: learner_of(0, epsilon=1.0, **words) for name, words in li2018.ALGORITHMS.items()}
    for learner, source in (
        (sums["as printed"], "Jain, Kothari and Thakurta 2012"), (sums["tree"], None), (sums["blt"], None),
        (together["Algorithm 1"], "Li et al. 2018"), (together["Algorithm 2"], "Li et al. 2018"),
        (learner_of(0, epsilon=1.0, **li2018.INVERSE), None),
    ):  # fmt: skip
        claim = learner.guarantee_of(learner.calibrate(5, 640), private=False, bit_source="-").claim
        assert (claim is None) == (source is None)
        assert source is None or claim.source.startswith(source)
    assert jun2019.PRINTED == {"calibration": "published", "weighting": "count"}


def test_runs_have_noise_of_their_own_and_the_epsilon_that_is_proved():
    words = {"epsilon": 1.0, "calibration": "published", "release": "all", **jain2012.PARAMETERS[1]}
    rows = jain2012._sample()
    accuracies, noise = jain2012._accuracies(rows, 3, **words)
    assert len(set(accuracies)) == 3
    assert noise == format_up(proved_of_pigd(rows.X.shape[1], len(rows.y), **words), 3) != "1"


def proved_of_pigd(n_features, n_rows, **words):
    learner = PIGD(delta=jain2012.DELTA, x_bound=3.0, **words)
    return learner.guarantee_of(learner.calibrate(n_features, n_rows), private=False, bit_source="-").epsilon()


def test_the_page_has_the_epsilons_that_are_proved_today():
    """Computed again from public numbers, and never rounded down."""
    kept = json.loads((ROOT / "docs" / "reproduce.json").read_text(encoding="utf-8"))

    def lines(name):
        return kept[name]["tables"][0]["rows"]

    kinds = {kind.__name__: kind for kind in chaudhuri2008.NAMES}
    for _, epsilon, method, _, noise, _ in lines("chaudhuri2008 fig. 1"):
        if noise:
            found = chaudhuri2008.proved(kinds[method.split()[0]], float(epsilon), chaudhuri2008.ROWS)
            assert noise == format_up(found)
            assert found <= float(noise) < 1.001 * found
    settings = {f"l2 = {words['l2']:g}, radius = {words['radius']:g}": words for words in jain2012.PARAMETERS}
    for setting, calibration, release, *_, noise in lines("jain2012 fig. 2c"):
        words = {"calibration": calibration, "release": release, **settings[setting]}
        found = [proved_of_pigd(54, 522_910, epsilon=epsilon, **words) for epsilon in jain2012.BUDGETS[1:]]
        assert noise == " / ".join(format_up(epsilon, 3) for epsilon in found)
        assert all(epsilon <= float(shown) for epsilon, shown in zip(found, noise.split(" / "), strict=True))
    rows = Rows("diabetic_data", np.zeros((71_518, 212)), np.zeros(71_518))
    for name, number in (("Algorithm 1", "li2018 fig. 3a"), ("Algorithm 2", "li2018 fig. 3b")):
        assert lines(number)[0][-1] == li2018.proved(rows, epsilon=1.0, **li2018.ALGORITHMS[name])


def test_a_model_that_is_known_has_the_regret_that_is_computed_by_hand():
    rows = Ridge(np.array([[1.0], [1.0]]), np.array([1.0, 0.0]), 1.0)
    # losses w^2 / 2 + (y - w)^2 / 2 of w = 0: 1/2 and 0; the best is w = 1/4 with 3/8
    assert rows.best() == pytest.approx(0.375)
    assert rows.regret(np.zeros((2, 1))) == pytest.approx((0.5 - 0.375) / 2)
    np.testing.assert_allclose(rows.regrets(np.zeros((2, 1)), np.array([1, 2])), [0.25, 0.0625])


def test_without_noise_models_follow_the_leader():
    """Without noise PQFTL follows the leader: the model before row t solves the first t - 1 rows."""
    rows = Ridge.synthetic(12, dim=3)
    models = jain2012.released(rows, math.inf, 0, x_bound=50.0, y_bound=50.0, l2=rows.l2)
    assert np.all(models[0] == 0.0)
    for t in (1, 5, 11):
        X, y = rows.X[:t], rows.y[:t]
        np.testing.assert_allclose(models[t], np.linalg.solve(t * np.eye(3) + X.T @ X, X.T @ y), atol=1e-12)


def test_identical_curves_have_no_roughness():
    assert li2018.roughness(np.tile(np.arange(10.0), (3, 1))) == 0.0
    assert li2018.roughness(np.array([[9.0, 9.0, 1.0, 1.0], [0.0, 0.0, 3.0, 3.0]])) == 1.0


def test_a_complete_graph_has_one_model():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(64, 3))
    rows = Rows("tiny", X, (X[:, 0] > 0) * 1.0)
    found = along(learner_of(1, nodes=8, topology="complete", epsilon=5.0), rows)
    assert found.distance.max() < 1e-9
    assert found.rows[-1] == 64


def test_risk_is_in_proportion_to_the_distance():
    game = jun2019.Regression(10, 50, 3.0)
    assert game.excess(np.zeros(10)) == pytest.approx(game.null)
    assert game.excess(game.truth) == 0.0
    assert game.excess(2.0 * game.truth) == pytest.approx(game.null)


def test_files_are_found_in_either_form(tmp_path):
    assert path_of(tmp_path, "adult.data") is None
    for end in (".zip", ".gz", ""):
        (tmp_path / f"adult.data{end}").write_bytes(b"")
        assert path_of(tmp_path, "adult.data") == tmp_path / f"adult.data{end}"
    (tmp_path / "YearPredictionMSD.bz2").write_bytes(b"")
    assert not has(tmp_path, "YearPredictionMSD.txt")
    (tmp_path / "YearPredictionMSD.t").write_bytes(b"")
    assert has(tmp_path, "YearPredictionMSD.txt")


def test_every_set_says_where_it_is():
    assert all(where.startswith("https://") for where in WHERE.values())
    for task in TASKS:
        assert schema_of(task.name)["target"]
        assert set(task.files) <= set(WHERE)


def test_reasons_name_existing_errata():
    errata = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
    for figure in FIGURES:
        for name in re.findall(r"\b(?:JKT|ZV|LZ|JO|CM)-\d+\b", figure.why):
            assert f"### {name}. " in errata, f"{figure.name}: {name}"
