from collections.abc import Callable

from ._learner_run import _Frame
from ._local import ReportRun
from ._noise import _FloatArray
from ._report import Report

class BanditRun(ReportRun):
    def __init__(
        self,
        frame: _Frame,
        *,
        report: Report,
        magnitude: float,
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
        whole: bool = False,
    ) -> None: ...
    def point(self) -> _FloatArray: ...
    def tell(self, values: _FloatArray | None) -> None: ...
    def receive(self, report: _FloatArray) -> None: ...
    def release_last(self) -> None: ...
