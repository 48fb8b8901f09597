from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ._text import Form

@final
class RowCode:
    def __init__(
        self,
        means: NDArray[np.float64],
        others: Sequence[str],
        numbers: Form,
        cells: Form,
        markers: Sequence[float],
        suspects: Sequence[float],
        text_of: Callable[[Any], str | None],
        *,
        n_columns: int,
        n_crosses: int,
    ) -> None: ...
    def number(
        self,
        name: str,
        feature: int,
        *,
        missing: str | float,
        flag: bool,
        middle: float,
        half: float,
        limit: float,
        onto: tuple[float, float] | None,
        scale: Callable[[float], float] | None,
    ) -> None: ...
    def text(self, name: str, feature: int, features: int, place_of: Callable[[str | None], int]) -> None: ...
    def knots(
        self,
        name: str,
        feature: int,
        shape: str,
        knots: NDArray[np.float64],
        factors: NDArray[np.float64],
        lows: NDArray[np.float64],
        widths: NDArray[np.float64],
        functions: NDArray[np.float64] | None,
        flag: int | None,
        crossed_flag: int,
        cycles: Sequence[tuple[float, float]],
        turn: NDArray[np.float64],
        times: bool,
        told: Callable[[str], tuple[float, int]],
    ) -> None: ...
    def cross(self, left: int, right: int, feature: int, width: int) -> None: ...
    def row(self, x: Any) -> NDArray[np.float64] | None: ...
