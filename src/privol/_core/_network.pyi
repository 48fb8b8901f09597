from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

from ._learner_run import _Frame
from ._local import ReportRun
from ._noise import _FloatArray
from ._report import Report

POSITIONS: tuple[str, ...]
THRESHOLDS: tuple[str, ...]

class NetworkRun(ReportRun):
    def __init__(
        self,
        frame: _Frame,
        *,
        report: Report,
        magnitude: float,
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
