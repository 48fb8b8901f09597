from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._noise import Source
from ._sampler import KeyedSampler

_FloatArray: TypeAlias = NDArray[np.float64]

# (words, extra words by level and word, vector, gamma, both) -> whether the trial is in the cap
_DecideSide: TypeAlias = Callable[[list[int], Callable[[int, int], tuple[int, int]], list[float], float, bool], bool]

MOST_ROWS: int

class Report:
    @property
    def kind(self) -> str: ...
    @property
    def dim(self) -> int: ...
    @property
    def bound(self) -> float: ...
    @property
    def scale(self) -> float: ...
    @property
    def granularity(self) -> float: ...
    @property
    def words(self) -> int: ...
    @property
    def numbers(self) -> dict[str, Any]: ...
    def __init__(
        self,
        *,
        kind: str,
        dim: int,
        bound: float,
        scale: float = 0.0,
        gamma: float = 0.0,
        threshold: int = 0,
        trials: int = 1,
        decide: Callable[..., float] | None = None,
        decide_side: _DecideSide | None = None,
    ) -> None: ...

class ReportSampler(KeyedSampler):
    @property
    def report(self) -> Report: ...
    def __init__(self, source: Source, *, report: Report, stream: int, row: int = 1) -> None: ...
    @property
    def place(self) -> int: ...
    def privatize(self, X: NDArray[Any]) -> _FloatArray: ...

def clipped(x: ArrayLike, bound: float) -> _FloatArray: ...
def report_with_words(
    report: Report, v: ArrayLike, words: ArrayLike, source: Source
) -> tuple[_FloatArray, int, int]: ...
