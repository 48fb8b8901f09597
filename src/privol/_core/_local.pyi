from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._learner_run import LearnerRun, _Frame
from ._noise import _FloatArray
from ._report import Report

UPDATES: tuple[str, ...]
PACES: tuple[str, ...]

class ReportRun(LearnerRun): ...

class LocalRun(ReportRun):
    # coin: privol.calibration.Coin, experts: privol.calibration.Experts, which this layer may not know
    def __init__(
        self,
        frame: _Frame,
        *,
        report: Report,
        magnitude: float,
        cost: float,
        update: str,
        pace: str,
        length: float,
        base: float = 0.0,
        coin: object = None,
        experts: object = None,
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
