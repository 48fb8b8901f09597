"""The experiments on real data sets: readers on small files of the same formats, runs on samples, the page."""

from __future__ import annotations

import bz2
import gzip
import zipfile

import numpy as np
import pytest
from experiment_tools import adult, covtype, experiments, number, written  # noqa: F401 (a fixture)

from privol.errors import StreamError
from privol.reproduce import sets

pytestmark = pytest.mark.slow

pytest.importorskip("pyarrow")


# ---- classification -------------------------------------------------------------------------------------------


def test_classification_runs(tmp_path, experiments):  # noqa: F811
    covtype(tmp_path)
    adult(tmp_path)
    rows = experiments.sample("classification", tmp_path, str(tmp_path))
    assert [len(cells) for cells in rows] == [7] * 48
    for part in (rows[:24], rows[24:]):
        assert [cells[2] for cells in part[:21] if "published" not in cells[1]] == ["0.1"] * 6 + ["1"] * 6 + ["10"] * 6
        last, best = part[22:]
        assert number(best[5]) < number(last[5])  # the best fixed model and the learner without noise
        assert number(best[6]) == 0.0


def test_classification_says_what_is_missing(tmp_path, experiments, capsys):  # noqa: F811
    with pytest.raises(SystemExit, match="2"):
        experiments.run("classification", str(tmp_path), "--quick")
    told = capsys.readouterr().err
    assert "has no covtype.data, adult.data, adult.test, diabetic_data.csv" in told


def test_the_page_shows_what_noise_costs():
    rows = written("classification")
    assert len(rows) == 72
    for start in (0, 24, 48):
        part = {(cells[0], cells[1]): cells for cells in rows[start : start + 24]}
        for epsilon in ("0.1", "1", "10"):
            regret = {name: number(cells[6]) for (budget, name), cells in part.items() if budget == epsilon}
            assert regret["DPFTRL"] < min(regret["NOGD"], regret["PIGD, every row"])
            assert float(part[epsilon, "DPFTRL"][2]) == float(epsilon)
        assert number(part["10", "DPFTRL"][6]) < number(part["1", "DPFTRL"][6]) < number(part["0.1", "DPFTRL"][6])


# ---- casp -----------------------------------------------------------------------------------------------------


def test_casp_runs(tmp_path, experiments):  # noqa: F811
    rng = np.random.default_rng(0)
    low = [2000, 400, 0, 10, 300000, 30, 0, 0, 15]
    high = [40000, 15000, 0.6, 400, 6000000, 600, 10000, 350, 60]
    X = rng.uniform(low, high, size=(600, 9))
    y = np.clip(21 * (X[:, 2] / 0.6) + rng.normal(size=600), 0, 21)
    header = "RMSD," + ",".join(f"F{i}" for i in range(1, 10))
    np.savetxt(tmp_path / "CASP.csv", np.column_stack([y, X]), delimiter=",", fmt="%.5f", header=header, comments="")
    rows = experiments.sample("casp", tmp_path, str(tmp_path))
    assert [len(cells) for cells in rows] == [5] * 24
    found = {cells[1]: cells for cells in rows if cells[0] == "inf"}
    best = number(found["best fixed model of the set for the rows learnt"][2])
    assert best <= number(found["online ridge regression (PQFTL without noise)"][2])


def test_casp_says_that_it_is_missing(tmp_path, experiments):  # noqa: F811
    with pytest.raises(SystemExit, match=r"has no CASP\.csv: UCI"):
        experiments.run("casp", str(tmp_path), "--quick")


def test_the_page_has_private_least_squares_ahead():
    rows = written("casp")
    assert len(rows) == 24
    for epsilon in ("0.1", "1", "10"):
        regret = {cells[1]: number(cells[4]) for cells in rows if cells[0] == epsilon}
        assert regret["PQFTL"] == min(regret.values())


# ---- year_prediction ------------------------------------------------------------------------------------------


def songs(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the set's shape, and years that depend weakly on them; five decimals, as published."""
    rng = np.random.default_rng(1)
    size = np.array([6.0, *[50.0] * 11, *[1000.0] * 12, *[300.0] * 66])
    middle = np.array([43.0, *[0.0] * 11, *[1500.0] * 12, *[0.0] * 66])
    Z = rng.normal(size=(rows, 90))
    years = np.clip(np.round(1998 + 5 * Z[:, 0] + rng.normal(size=rows)), 1922, 2011)
    return np.round(middle + size * Z, 5), years


def as_text(X: np.ndarray, y: np.ndarray) -> str:
    lines = []
    for row, year in zip(X, y, strict=True):
        lines.append(f"{int(year)}," + ",".join(f"{v:.5f}" for v in row) + "\n")
    return "".join(lines)


def as_libsvm(X: np.ndarray, y: np.ndarray) -> bytes:
    lines = []
    for row, year in zip(X, y, strict=True):
        lines.append(f"{int(year)} " + " ".join(f"{i}:{v:.5f}" for i, v in enumerate(row, 1) if v) + "\n")
    return "".join(lines).encode()


@pytest.mark.parametrize("form", ["txt", "txt.gz", "txt.zip", "libsvm", "libsvm.bz2"])
def test_year_prediction_is_read(tmp_path, form):
    X, y = songs(50)
    X[3, 7] = 0.0  # left out of libsvm text
    text = as_text(X, y)
    name = f"YearPredictionMSD.{form}"
    if form == "txt":
        (tmp_path / name).write_text(text, encoding="utf-8")
    elif form == "txt.gz":
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    elif form == "txt.zip":
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("YearPredictionMSD.txt", text)
    else:
        packed, end = (bz2.compress, ".bz2") if form.endswith("bz2") else (bytes, "")
        (tmp_path / f"YearPredictionMSD{end}").write_bytes(packed(as_libsvm(X[:40], y[:40])))
        (tmp_path / f"YearPredictionMSD.t{end}").write_bytes(packed(as_libsvm(X[40:], y[40:])))
    parts = sets.year_prediction(tmp_path, 40)
    for found, expected in zip(parts, (X[:40], y[:40], X[40:], y[40:]), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_year_prediction_is_scaled():
    assert len(sets.RANGES) == sets.FEATURES == 90
    X = np.tile([low for low, _ in sets.RANGES], (3, 1))
    X[1] = [high for _, high in sets.RANGES]
    X[2] *= 10.0
    scaled = sets.scaled(X)
    np.testing.assert_array_equal(scaled[0], -np.ones(90))
    np.testing.assert_array_equal(scaled[1], np.ones(90))
    assert np.all(np.abs(scaled[2]) <= 1)
    np.testing.assert_array_equal(sets.years(np.array([1922.0, 1966.5, 2011.0, 2020.0])), [-1.0, 0.0, 1.0, 1.0])


def test_year_prediction_refuses_another_shape(tmp_path):
    X, y = songs(20)
    file = tmp_path / "YearPredictionMSD.txt"
    file.write_text(as_text(X[:, :89], y), encoding="utf-8")
    with pytest.raises(StreamError, match="has 89 features; YearPredictionMSD has 90"):
        sets.year_prediction(tmp_path)
    file.write_text(as_text(X, y), encoding="utf-8")
    with pytest.raises(StreamError, match="has 20 rows: 463,715 for training, and none left"):
        sets.year_prediction(tmp_path)


def test_year_prediction_runs(tmp_path, experiments):  # noqa: F811
    (tmp_path / "YearPredictionMSD.txt").write_text(as_text(*songs(1_000)), encoding="utf-8")
    rows = experiments.sample("year_prediction", tmp_path, str(tmp_path))
    assert [len(cells) for cells in rows] == [5] * 24


def test_year_prediction_says_how_to_get_it(tmp_path, experiments):  # noqa: F811
    with pytest.raises(SystemExit, match=r"archive.ics.uci.edu/dataset/203.*nothing was run"):
        experiments.run("year_prediction", str(tmp_path))
