from typing import Any

from numpy.typing import ArrayLike

from ._learner_run import LearnerRun, _Frame
from ._noise import _FloatArray
from ._prefix_plan import ByEpoch, PrefixPlan

def moments_size(dim: int, as_printed: bool = False) -> int: ...
def leaf_moments(
    X: Any,
    targets: ArrayLike,
    *,
    leaf: int,
    dim: int,
    intercept: bool,
    x_bound: float,
    y_bound: float,
    row_unit: float,
    target_unit: float,
) -> tuple[_FloatArray, int, int]: ...
def solve_ridge(
    moments: _FloatArray, dim: int, *, most: float, shift: float, radius: float
) -> tuple[_FloatArray, bool]: ...

class LeastSquaresRun(LearnerRun):
    def __init__(
        self,
        frame: _Frame,
        *,
        sums: PrefixPlan,
        row_unit: float,
        target_unit: float,
        l2: float,
        shifts: ArrayLike,
        ball: float,
        cost: float,
        ended: ByEpoch | None = None,
        as_printed: bool = False,
    ) -> None: ...
    def learn_leaf(self, moments: _FloatArray, rows: int) -> None: ...
    def count(self, clipped: int, null: int) -> None: ...
    def release_last(self) -> None: ...
    def released_sums(self) -> _FloatArray: ...
    @property
    def n_indefinite(self) -> int: ...
