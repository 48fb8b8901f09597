from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

_Rows: TypeAlias = NDArray[np.floating[Any]] | sparse.csr_array | sparse.csr_matrix

def plain_row(x: Any, names: frozenset[str], numbers: tuple[str, ...]) -> bool: ...
def named_row(x: dict[str, Any], names: tuple[str, ...]) -> NDArray[np.float64] | None: ...
def squared_norms(X: _Rows, *, learnt: int = 0, refuse: bool = False) -> NDArray[np.float64]: ...
