from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._noise import Source, _FloatArray
from ._report import Report
from ._run import LearnerRun

UPDATES: tuple[str, ...]
PACES: tuple[str, ...]

class ReportRun(LearnerRun): ...

class LocalRun(ReportRun):
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
        update: str,
        pace: str,
        length: float,
        base: float = 0.0,
        bets: float = 1.0,
        drift: float = 0.0,
        observed: float = 0.0,
        counted: bool = False,
        wealth: float = 1.0,
        cap: float = ...,
        radii: Sequence[float] = (),
        log_prior: Sequence[float] = (),
        speeds: Sequence[float] = (),
        rate: float = 1.0,
        averaging: int = 0,
    ) -> None: ...
    def point(self) -> _FloatArray: ...
    def tell(self, gradient: _FloatArray | None) -> None: ...
    def receive(self, report: _FloatArray) -> None: ...
    def release_last(self) -> None: ...

def squared_norm(x: _FloatArray) -> float: ...

class PointGradients:
    # loss: privol.losses.Loss
    def __init__(
        self, *, dim: int, intercept: bool, loss: object, x_bound: float, y_bound: float, signs: bool, bound: float
    ) -> None: ...
    def at(self, point: _FloatArray, x: NDArray[np.floating[Any]], y: float) -> _FloatArray: ...
