from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

from ._local import ReportRun
from ._noise import Source, _FloatArray
from ._report import Report

POSITIONS: tuple[str, ...]
THRESHOLDS: tuple[str, ...]

class NetworkRun(ReportRun):
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
        variance: float,
        bound: float,
        nodes: int,
        own: int,
        first: int,
        batch: int,
        rounds: int,
        position: str,
        pace: str,
        length: float,
        implicit: bool,
        threshold: str,
        l1: float,
        mixing: Callable[[int], tuple[Any, ...]],
        heard: ArrayLike = (),
        exchange: Callable[[int, _FloatArray], object] | None = None,
        averaging: int = 0,
    ) -> None: ...
    def point(self) -> _FloatArray: ...
    def tell(self, gradient: _FloatArray | None) -> None: ...
    def release_last(self) -> None: ...
    @property
    def rounds(self) -> int: ...
    @property
    def turn(self) -> int: ...
    @property
    def messages(self) -> int: ...
    def models(self) -> _FloatArray: ...
    def mixes(self) -> _FloatArray: ...
    def sums(self) -> _FloatArray: ...
    def averages(self) -> _FloatArray: ...
    def gathered(self, mixes: _FloatArray, models: _FloatArray, sums: _FloatArray) -> None: ...
    def _secret_gradients(self) -> _FloatArray: ...
