from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MISSING: int
NUMBER: int
TIME: int
TEXT: int
OPEN: int
STATE_MISSING: int
STATE_UNKNOWN: int
STATE_CLIPPED: int
STATE_SPARED: int
SHARED: int

class Form:
    def __init__(self, missing: Sequence[bytes], marks: bytes) -> None: ...
    def look(
        self, ends: NDArray[np.int32], data: Any, *, hashes: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.uint8], NDArray[np.uint32] | None, int]: ...

class Hats:
    def __init__(
        self,
        knots: NDArray[np.float64],
        factors: NDArray[np.float64],
        lows: NDArray[np.float64],
        widths: NDArray[np.float64],
        functions: NDArray[np.float64],
    ) -> None: ...
    def between(
        self, values: NDArray[np.float64], cells: NDArray[np.uint8] | None = None, right: int = 0
    ) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.uint8]]: ...

class DenseRows:
    def __init__(self, n: int, means: NDArray[np.float64]) -> None: ...
    def numbers(self, feature: int, values: NDArray[np.float64], cells: NDArray[np.int32] | None = None) -> None: ...
    def entries(
        self,
        places: NDArray[np.int32],
        weights: NDArray[np.float64] | None = None,
        cells: NDArray[np.int32] | None = None,
    ) -> None: ...
    def functions(
        self,
        feature: int,
        hats: Hats,
        left: NDArray[np.int32],
        share: NDArray[np.float64],
        cells: NDArray[np.int32] | None = None,
    ) -> None: ...
    def flag(
        self, feature: int, states: NDArray[np.uint8], mask: int, cells: NDArray[np.int32] | None = None
    ) -> None: ...
    def write(self, first: int, rows: NDArray[np.float64]) -> None: ...

class Buckets:
    def __init__(self, own: NDArray[np.int32] | None, others: int, shared: int, missing: int) -> None: ...
    def places(self, cells: NDArray[np.uint8], hashes: NDArray[np.uint32]) -> NDArray[np.int32]: ...

def rows_of(columns: list[NDArray[np.float64]], rows: NDArray[np.float64]) -> None: ...
def in_cycle(
    seconds: NDArray[np.float64], period: float, start: float, turn: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def count_into(
    values: NDArray[np.float64],
    weights: NDArray[np.int64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    counts: NDArray[np.float64],
) -> None: ...
