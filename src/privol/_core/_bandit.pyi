from collections.abc import Callable

from numpy.typing import ArrayLike

from ._local import ReportRun
from ._noise import Source, _FloatArray
from ._report import Report

class BanditRun(ReportRun):
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
        magnitude: float,
        source: Source | None,
        stream: int,
        report: Report,
        cost: float,
        directions: Callable[[int, int], _FloatArray],
        pair: bool,
        low: float,
        high: float,
        inner: float,
        distance: float,
        most: float,
        length: float,
        fixed: bool,
    ) -> None: ...
    def point(self) -> _FloatArray: ...
    def tell(self, values: _FloatArray | None) -> None: ...
    def receive(self, report: _FloatArray) -> None: ...
    def release_last(self) -> None: ...
