from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

_FloatArray: TypeAlias = NDArray[np.float64]

# (word, extra words by level, noiseless value, scale, step) -> lattice point in units of the step
_Decide: TypeAlias = Callable[[int, Callable[[int], tuple[int, int]], float, float, float], float]

# (kind, words, extra words by level and word, coordinate, noiseless value, scale, step, factor and its relative error,
# what was found of the factor for other coordinates)
_Extra: TypeAlias = Callable[[int, int], tuple[int, int]]
_DecideMixture: TypeAlias = Callable[
    [str, list[int], _Extra, int, float, float, float, tuple[float, float], dict[int, Any]], float
]

class Source:
    @property
    def private(self) -> bool: ...
    @property
    def description(self) -> str: ...
    def __init__(self, key: bytes | bytearray, *, private: bool, description: str) -> None: ...
    def __reduce__(self) -> NoReturn: ...
    def __copy__(self) -> NoReturn: ...
    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn: ...
    def words(self, *, stream: int, level: int, block: int, row: int) -> tuple[int, int]: ...
    def add(
        self,
        x: _FloatArray,
        scale: float,
        *,
        stream: int,
        row: int,
        decide: _Decide,
        bound: float | None = None,
        law: str = "gaussian",
        out: _FloatArray | None = None,
        step: float | None = None,
    ) -> _FloatArray: ...
    def add_mixture(
        self,
        X: _FloatArray | None,
        scale: float,
        step: float,
        *,
        kind: str,
        bound: float,
        stream: int,
        row: int,
        decide: _DecideMixture,
        out: _FloatArray,
    ) -> None: ...

class Undecided:
    def __init__(self, capacity: int) -> None: ...

def lattice_step(scale: float) -> float: ...
def instruction_sets() -> tuple[str, ...]: ...
def instruction_set() -> str: ...
def use_instruction_set(name: str | None) -> None: ...
def values_of_words(words: NDArray[np.uint64], law: str = "gaussian") -> tuple[_FloatArray, _FloatArray]: ...
def first_pass_open(words: NDArray[np.uint64], scale: float, law: str = "gaussian") -> int: ...
def round_with_words(
    x: ArrayLike,
    scale: float,
    words: ArrayLike,
    decide: _Decide,
    extra: Callable[[int, int], tuple[int, int]],
    law: str = "gaussian",
) -> tuple[_FloatArray, int]: ...
def round_mixture_with_words(
    x: ArrayLike,
    scale: float,
    step: float,
    words: ArrayLike,
    decide: _DecideMixture,
    extra: Callable[[int, int], tuple[int, int]],
    *,
    kind: str,
) -> tuple[_FloatArray, int, tuple[float, float]]: ...
def wipe(array: _FloatArray) -> None: ...
