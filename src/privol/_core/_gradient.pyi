from ._learner_run import LearnerRun, _Frame
from ._noise import _FloatArray

class GradientRun(LearnerRun):
    def __init__(
        self,
        frame: _Frame,
        *,
        magnitude: float,
        std: float,
        sensitivity: float,
        bound: float,
        batch: int,
        l2: float,
        length: float,
    ) -> None: ...
    def point(self) -> _FloatArray: ...
    def tell(self, gradient: _FloatArray | None) -> None: ...
    def release_last(self) -> None: ...
    def _secret_sum(self) -> _FloatArray: ...
