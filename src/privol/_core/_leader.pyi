from typing import Protocol

from numpy.typing import ArrayLike

from ._learner_run import LearnerRun, _Frame
from ._noise import _FloatArray
from ._prefix_plan import ByEpoch, PrefixPlan

class _Tuning(Protocol):
    @property
    def until(self) -> ArrayLike: ...
    @property
    def held(self) -> ArrayLike: ...
    @property
    def threshold(self) -> ArrayLike: ...
    @property
    def lag(self) -> ArrayLike: ...
    @property
    def walk(self) -> ArrayLike: ...
    @property
    def power(self) -> float: ...
    @property
    def quickest(self) -> float: ...
    @property
    def slowest(self) -> float: ...
    @property
    def sure(self) -> float: ...

class LeaderRun(LearnerRun):
    def __init__(
        self,
        frame: _Frame,
        *,
        sums: PrefixPlan,
        bound: float,
        regularization: float,
        l2: float,
        cost: float,
        weights: ArrayLike | None = None,
        reach: float = 0.0,
        rows: ByEpoch | None = None,
        variance: ByEpoch | None = None,
        tuning: _Tuning | None = None,
    ) -> None: ...
    def point(self) -> _FloatArray: ...
    def tell(self, gradient: _FloatArray | None) -> None: ...
    def release_last(self) -> None: ...
    def _secret_gradient(self) -> _FloatArray: ...
