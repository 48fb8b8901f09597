"""Factorisations ``A = B C`` of the prefix-sum matrix: what each design costs, in closed form.

``A`` is the lower-triangular matrix of ones. A design releases ``C w + sigma Z`` for the rows ``w`` of a stream and
sums ``B`` of it, so one row moves what is released by its own size times the column norm of ``C``, and the prefix after
``t`` rows has noise of standard deviation ``sigma`` times the norm of row ``t`` of ``B``. Everything here is public
arithmetic: no data, no noise, no epsilon. Errors are in units of ``sensitivity / mu``: times the sensitivity of one
row, divided by the parameter of Gaussian differential privacy, they are standard deviations per coordinate.

Sources: Dwork et al. 2010 and Chan, Shi and Song 2011 (tree), Honaker 2015, Andersson and Pagh 2023 (smooth),
Fichtenberger, Henzinger and Upadhyay 2023 (square root), Dvijotham et al. 2024 (BLT, buffered linear Toeplitz),
Kalinin and Lampert 2024 (banded square root).
"""

from ._banded import MOST_BANDWIDTH, Banded
from ._blt import BLT, OBJECTIVES, optimise_blt
from ._choose import DESIGNS, DRIFT_DESIGNS, Design, factorization, forgets, step_workload
from ._designs import (
    MAX_STEPS,
    Factorization,
    Honaker,
    Smooth,
    Tree,
    error_bound,
)
from ._patterns import MOST_TOGETHER, best_of_parts, group_squares, rows_that_fit, user_norm
from ._toeplitz import Independent, SquareRoot, Toeplitz

__all__ = [
    "BLT",
    "DESIGNS",
    "DRIFT_DESIGNS",
    "MAX_STEPS",
    "MOST_BANDWIDTH",
    "MOST_TOGETHER",
    "OBJECTIVES",
    "Banded",
    "Design",
    "Factorization",
    "Honaker",
    "Independent",
    "Smooth",
    "SquareRoot",
    "Toeplitz",
    "Tree",
    "best_of_parts",
    "error_bound",
    "factorization",
    "forgets",
    "group_squares",
    "optimise_blt",
    "rows_that_fit",
    "step_workload",
    "user_norm",
]
