from collections.abc import Sequence

from ._noise import _FloatArray

LAST_STEP: int
MOST_KEPT: int
MAX_SHIFT: int

def grid_of(std: float, total: float) -> float: ...

class PrefixPlan:
    design: str
    def __init__(
        self,
        *,
        design: str,
        width: int,
        horizon: int,
        bound: float,
        std: float,
        leaf: int = 1,
        gram: bool = False,
        ones: int = 0,
        theta: Sequence[float] | _FloatArray = (),
        omega: Sequence[float] | _FloatArray = (),
        coefficients: Sequence[float] | _FloatArray = (),
        decoder: Sequence[float] | _FloatArray | None = None,
        grid: float = 0.0,
        block: int | None = None,
        discount: float = 1.0,
        window: int = 0,
    ) -> None: ...
    def followed_by(self, plan: PrefixPlan | None) -> None: ...
    @property
    def dim(self) -> int: ...
    @property
    def horizon(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def std(self) -> float: ...
    @property
    def grid(self) -> float: ...
    def numbers(self) -> _FloatArray: ...

class ByEpoch:
    def __init__(self, at: Sequence[float] | _FloatArray, more: float = 0.0) -> None: ...
