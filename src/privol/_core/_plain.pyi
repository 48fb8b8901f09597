from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._text import Form

PASSED_OVER: int

def filled_lines(text: Any, *, blanks: bool = False) -> int: ...
def read_csv(
    form: Form, text: Any, sep: bytes, at: NDArray[np.int32]
) -> tuple[NDArray[np.float64], NDArray[np.uint8], list[tuple[NDArray[np.int32], NDArray[np.uint8]]]] | None: ...
def read_svm(
    text: Any, base: int, n_features: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int32], NDArray[np.int64]] | None: ...
def scan_svm(text: Any) -> tuple[int, int, int] | None: ...
