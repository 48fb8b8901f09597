from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._objective import Objective
from ._row_sums import _Rows

MOST_DENSE: int

@dataclass(frozen=True)
class Minimiser:
    point: NDArray[np.float64]
    gradient_norm: float
    iterations: int
    evaluations: int

def minimise(
    objective: Objective,
    *,
    rows: _Rows | None = None,
    start: ArrayLike | None = None,
    gradient_norm: float,
    max_iterations: int = 200,
    method: Literal["cholesky", "cg"] | None = None,
) -> Minimiser: ...
