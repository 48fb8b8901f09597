"""Privacy noise: where its bits come from and how it is rounded.

A release is ``round_h(x + scale Z)``: the ideal real-valued sum of the double ``x`` and an ideal standard Gaussian
``Z``, correctly rounded to a power-of-two grid ``h`` of 2**-11 to 2**-10 of the scale. That is post-processing of the
ideal Gaussian mechanism, so floating point adds nothing to the privacy loss. A polynomial decides almost every
coordinate; where it comes too close to a rounding boundary, :func:`decide_lattice_point` decides with as many more
random bits and digits as it takes.

For releases that are integers anyway there are the discrete Gaussian and the discrete Laplace, whose distributions are
exact.

Bits are AES-256 of addresses (key, stream, level, row, coordinate block), so the noise of any row can be regenerated
from the key alone, and no two rows share bits. :class:`BitGenerator` gives the same kind of bits to NumPy, for uses
that no guarantee of privol's covers.
"""

from ._decide import decide_lattice_point, decide_mixture_point, decide_side
from ._discrete import DiscreteGaussian, DiscreteLaplace
from ._generator import BitGenerator
from ._lattice import ARITHMETIC, Exponential, Gaussian, Laplace, granularity
from ._unshared import Unshared
from ._vectors import L2Laplace, Sphere
from .bits import (
    STREAM_ENCODING,
    STREAM_GENERATOR,
    STREAM_INTEGERS,
    STREAM_METRICS,
    STREAM_OBJECTIVE,
    STREAM_RELEASES,
    STREAM_REPORTS,
    STREAM_SAMPLES,
    Source,
    make_source,
)

__all__ = [
    "ARITHMETIC",
    "STREAM_ENCODING",
    "STREAM_GENERATOR",
    "STREAM_INTEGERS",
    "STREAM_METRICS",
    "STREAM_OBJECTIVE",
    "STREAM_RELEASES",
    "STREAM_REPORTS",
    "STREAM_SAMPLES",
    "BitGenerator",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Exponential",
    "Gaussian",
    "L2Laplace",
    "Laplace",
    "Source",
    "Sphere",
    "Unshared",
    "decide_lattice_point",
    "decide_mixture_point",
    "decide_side",
    "granularity",
    "make_source",
]
