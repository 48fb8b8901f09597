from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._noise import Source
from ._sampler import KeyedSampler

_Integers: TypeAlias = NDArray[np.int64]

MAX_BLOCK: int
MAX_NUMERATOR: int

class IntegerLaw:
    def __init__(
        self,
        limits: Sequence[int],
        sure: Sequence[int],
        *,
        shift: int,
        square: bool,
        numerator: int,
        denominator: int,
    ) -> None: ...
    def add(
        self,
        out: _Integers,
        source: Source,
        *,
        stream: int,
        row: int,
        decide: Callable[[int, Callable[[int], tuple[int, int]]], int],
    ) -> None: ...
    def add_scripted(
        self, out: _Integers, words: NDArray[np.uint64], decide: Callable[[int, int], int], *, capacity: int
    ) -> int: ...

class IntegerWords: ...

class IntegerSampler(KeyedSampler):
    _law: IntegerLaw
    def __init__(self, source: Source, law: IntegerLaw, *, stream: int, row: int = 0) -> None: ...
    @property
    def _place(self) -> tuple[int, int]: ...
    def add(self, x: ArrayLike) -> _Integers: ...
    def sample(self, size: int | tuple[int, ...]) -> _Integers: ...
