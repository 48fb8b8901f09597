from numpy.typing import ArrayLike

from ._noise import Source, _Decide, _FloatArray
from ._run import LearnerRun
from ._schedule import Schedule

class IterateRun(LearnerRun):
    # loss: privol.losses.Loss, domain: privol.geometry.ConvexSet, which this layer may not know
    def __init__(
        self,
        *,
        dim: int,
        intercept: bool,
        loss: object,
        domain: object,
        update: str,
        constrained: bool,
        schedule: Schedule,
        every: int,
        releases: ArrayLike,
        horizon: int,
        last_row: int,
        refresh: int,
        x_bound: float,
        y_bound: float,
        signs: bool,
        magnitude: float,
        source: Source | None,
        stream: int,
        decide: _Decide,
        averaging: int = 0,
    ) -> None: ...
    def release_last(self, std: float, sensitivity: float) -> None: ...
    def _secret_iterate(self) -> _FloatArray: ...
