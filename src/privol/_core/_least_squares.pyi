from numpy.typing import ArrayLike

from ._noise import Source, _Decide, _FloatArray
from ._prefix_plan import ByEpoch, PrefixPlan
from ._run import LearnerRun

def moments_size(dim: int) -> int: ...
def solve_ridge(
    moments: _FloatArray, dim: int, *, most: float, shift: float, radius: float
) -> tuple[_FloatArray, bool]: ...

class LeastSquaresRun(LearnerRun):
    # loss: privol.losses.Loss, domain: privol.geometry.ConvexSet, which this layer may not know
    def __init__(
        self,
        *,
        dim: int,
        intercept: bool,
        loss: object,
        domain: object,
        sums: PrefixPlan,
        every: int,
        releases: ArrayLike,
        horizon: int,
        last_row: int,
        x_bound: float,
        y_bound: float,
        row_unit: float,
        target_unit: float,
        l2: float,
        shifts: ArrayLike,
        ball: float,
        cost: float,
        source: Source | None,
        stream: int,
        decide: _Decide,
        ended: ByEpoch | None = None,
    ) -> None: ...
    def release_last(self) -> None: ...
    def released_sums(self) -> _FloatArray: ...
    @property
    def n_indefinite(self) -> int: ...
