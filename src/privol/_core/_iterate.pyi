from ._learner_run import LearnerRun, _Frame
from ._noise import _FloatArray
from ._schedule import Schedule

class IterateRun(LearnerRun):
    def __init__(
        self,
        frame: _Frame,
        *,
        magnitude: float,
        update: str,
        constrained: bool,
        schedule: Schedule,
        refresh: int,
        averaging: int = 0,
    ) -> None: ...
    def release_last(self, std: float, sensitivity: float) -> None: ...
    def _secret_iterate(self) -> _FloatArray: ...
