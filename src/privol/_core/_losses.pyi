from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

_FloatArray: TypeAlias = NDArray[np.float64]

class CustomCallbacks: ...

# loss: privol.losses.Loss, which this layer may not know
def loss_values(loss: object, p: ArrayLike, y: ArrayLike) -> tuple[_FloatArray, _FloatArray]: ...
def implicit_slope(loss: object, k: float, b: float, c: float, y: float) -> float: ...
