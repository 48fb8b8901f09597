"""The mean error over all rows, by its closed forms, against the matrices themselves."""

from __future__ import annotations

import numpy as np
import pytest

from privol.factorizations import Independent, SquareRoot


def mean_row_square(coefficients):
    """The mean of the rows' squared norms of a Toeplitz matrix."""
    return float(np.mean(np.cumsum(coefficients**2)))


@pytest.mark.parametrize("steps", [1 << 14, (1 << 14) + 1, 1 << 16])
@pytest.mark.parametrize("decay", [1.0, 1.0 - 1e-5, 0.999, 0.5])
def test_square_roots_beyond_the_summed_terms(steps, decay):
    design = SquareRoot(steps, decay=decay)
    assert design.mean_error() ** 2 / design.column_norm**2 == pytest.approx(
        mean_row_square(design.decoder()), rel=1e-6
    )


@pytest.mark.parametrize(("steps", "decay"), [(1000, 1.0), (1000, 1.0 - 1e-9), (1000, 0.999), (1000, 0.5)])
def test_independent_noise_that_is_hardly_forgotten(steps, decay):
    design = Independent(steps, decay=decay)
    assert design.mean_error() ** 2 / design.column_norm**2 == pytest.approx(
        mean_row_square(decay ** np.arange(steps)), rel=1e-9
    )
