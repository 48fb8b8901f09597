import numpy as np
from numpy.typing import ArrayLike, NDArray

# domain: privol.geometry.ConvexSet, which this layer may not know
def project(domain: object, x: ArrayLike) -> NDArray[np.float64]: ...
