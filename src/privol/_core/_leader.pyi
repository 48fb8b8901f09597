from numpy.typing import ArrayLike

from ._noise import Source, _Decide, _FloatArray
from ._prefix_plan import ByEpoch, PrefixPlan
from ._run import LearnerRun

class LeaderRun(LearnerRun):
    # loss: privol.losses.Loss, domain: privol.geometry.ConvexSet, which this layer may not know
    def __init__(
        self,
        *,
        dim: int,
        intercept: bool,
        loss: object,
        domain: object,
        every: int,
        releases: ArrayLike,
        horizon: int,
        last_row: int,
        x_bound: float,
        y_bound: float,
        signs: bool,
        source: Source | None,
        stream: int,
        decide: _Decide,
        sums: PrefixPlan,
        bound: float,
        regularization: float,
        l2: float,
        cost: float,
        outputs: int = 1,
        softmax: bool = False,
        weights: ArrayLike | None = None,
        reach: float = 0.0,
        rows: ByEpoch | None = None,
        variance: ByEpoch | None = None,
    ) -> None: ...
    def point(self) -> _FloatArray: ...
    def tell(self, gradient: _FloatArray | None) -> None: ...
    def release_last(self) -> None: ...
    def _secret_gradient(self) -> _FloatArray: ...
