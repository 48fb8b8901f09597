"""Kernel benchmarks for pytest-benchmark: ``python -m pytest bench --benchmark-group-by=group``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from privol import PGIGA, PIGD
from privol._core._rows import squared_norms
from privol.noise import Gaussian
from privol.prefix import DESIGNS, PrefixSum

ROWS, FEATURES = 20_000, 54
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, FEATURES)) / 8
Y = np.where(X[:, 0] > 0, 1, -1)


@pytest.mark.benchmark(group="rows")
@pytest.mark.parametrize("layout", ["f64", "f32", "fortran", "csr"])
def test_norms(benchmark: Any, layout: str) -> None:
    rows = {"f64": X, "f32": X.astype(np.float32), "fortran": np.asfortranarray(X), "csr": sparse.csr_matrix(X)}[layout]
    assert len(benchmark(squared_norms, rows)) == ROWS


@pytest.mark.benchmark(group="noise")
@pytest.mark.parametrize("size", [1, 54, 1000, 1_000_000])
def test_gaussian(benchmark: Any, size: int) -> None:
    assert benchmark(Gaussian(scale=1.0).sample, size).shape == (size,)


@pytest.mark.benchmark(group="noise")
def test_numpy_gaussian(benchmark: Any) -> None:
    assert benchmark(np.random.default_rng().standard_normal, 1_000_000).shape == (1_000_000,)


@pytest.mark.benchmark(group="prefix sums")
@pytest.mark.parametrize("design", [design for design in DESIGNS if design != "sqrt"])
def test_prefix_sum(benchmark: Any, design: str) -> None:
    """Compared with the noise of as many vectors: ``test_gaussian`` at 54, times the rows."""

    def run() -> int:
        sums = PrefixSum(dim=FEATURES, horizon=ROWS, design=design)
        sums.add_block(X)
        return sums.n_releases_

    assert benchmark(run) == ROWS


@pytest.mark.benchmark(group="learners")
@pytest.mark.parametrize("release", ["last", 100, "all"])
@pytest.mark.parametrize("learner", [PIGD, PGIGA])
@pytest.mark.parametrize("loss", ["logistic", "smooth_hinge"])
def test_learner(benchmark: Any, learner: Any, release: Any, loss: str) -> None:
    def run() -> int:
        fitted = learner(loss=loss, horizon=ROWS, release=release, l2=1e-3).partial_fit(X, Y, classes=[-1, 1])
        return int(fitted.n_rows_)

    assert benchmark(run) == ROWS
