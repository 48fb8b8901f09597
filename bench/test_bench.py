"""Kernel benchmarks for pytest-benchmark: ``python -m pytest bench --benchmark-group-by=group``.

With ``--benchmark-json FILE``, the ``extra_info`` of each has its figure beside its aim, its peer and its limit. The
rows are few and stay in a cache, so no limit here counts bytes from memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from figures import NONE, figure
from limits import Work, of_noise, of_release, of_row, of_sums
from scipy import sparse

from privol import PGIGA, PIGD
from privol._core._rows import squared_norms
from privol.noise import Gaussian
from privol.prefix import DESIGNS, PrefixSum

ROWS, FEATURES = 20_000, 54
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, FEATURES)) / 8
Y = np.where(X[:, 0] > 0, 1, -1)


def timed(benchmark: Any, work: Work, function: Any, *arguments: Any, peer: str = NONE, aim: str = NONE) -> Any:
    """Time a call and note the limit of its work, and how near it comes."""
    found = benchmark(function, *arguments)
    if benchmark.stats is not None:  # not with --benchmark-disable
        median = benchmark.stats.stats.median * 1e9
        row = figure(benchmark.name, "ns", median, limit=work.limit("ns"), peer_name=peer, aim=aim)
        benchmark.extra_info.update({key: row.told()[key] for key in ("aim", "peer_name", "limit", "reached")})
    return found


@pytest.mark.benchmark(group="rows")
@pytest.mark.parametrize("layout", ["f64", "f32", "fortran", "csr"])
def test_norms(benchmark: Any, layout: str) -> None:
    rows = {"f64": X, "f32": X.astype(np.float32), "fortran": np.asfortranarray(X), "csr": sparse.csr_matrix(X)}[layout]
    size = rows.data.nbytes + rows.indices.nbytes if layout == "csr" else rows.nbytes
    work = Work(near=float(size), multiply_adds=float(X.size))
    assert len(timed(benchmark, work, squared_norms, rows)) == ROWS


@pytest.mark.benchmark(group="noise")
@pytest.mark.parametrize("size", [1, 54, 1000, 1_000_000])
def test_gaussian(benchmark: Any, size: int) -> None:
    work = of_noise(size) + Work(calls=1.0)
    assert timed(benchmark, work, Gaussian(scale=1.0).sample, size, peer="test_numpy_gaussian").shape == (size,)


@pytest.mark.benchmark(group="noise")
def test_numpy_gaussian(benchmark: Any) -> None:
    draw, work = np.random.default_rng().standard_normal, Work(written=8e6)
    assert timed(benchmark, work, draw, 1_000_000, peer="test_gaussian").shape == (1_000_000,)


@pytest.mark.benchmark(group="prefix sums")
@pytest.mark.parametrize("design", [design for design in DESIGNS if design not in ("sqrt", "banded")])
def test_prefix_sum(benchmark: Any, design: str) -> None:
    """Compared with the noise of as many vectors: ``test_gaussian`` at 54, times the rows."""

    def run() -> int:
        sums = PrefixSum(dim=FEATURES, horizon=ROWS, design=design)
        sums.add_block(X)
        return sums.n_releases_

    work = (of_sums(FEATURES, design) + of_noise(FEATURES)) * ROWS
    assert timed(benchmark, work, run, peer="test_gaussian") == ROWS


@pytest.mark.benchmark(group="learners")
@pytest.mark.parametrize("release", ["last", 100, "all"])
@pytest.mark.parametrize("learner", [PIGD, PGIGA])
@pytest.mark.parametrize("loss", ["logistic", "smooth_hinge"])
def test_learner(benchmark: Any, learner: Any, release: Any, loss: str) -> None:
    def run() -> int:
        fitted = learner(loss=loss, horizon=ROWS, release=release, l2=1e-3).partial_fit(X, Y, classes=[-1, 1])
        return int(fitted.n_rows_)

    models = {"last": 1 / ROWS, 100: 0.01, "all": 1.0}[release]
    row = replace(of_row(FEATURES), memory=0.0)
    work = (row + (of_noise(FEATURES + 1) + of_release(FEATURES + 1)) * models) * ROWS
    assert timed(benchmark, work, run, peer="scikit-learn SGDClassifier (compare.py)") == ROWS
