"""Local randomizers: how a user's device randomizes a vector, such as a gradient, before it sends it.

A randomizer owns the noise source and sees the vector; the receiver sees only the report. Reports are unbiased,
``E report = v`` for every vector v within the bound, and each is that of the ideal mechanism, rounded to a grid
afterwards: floating point adds nothing to the privacy loss (docs/proofs/reports.md).

===========  ===========================================  =========================================================
class        guarantee of one report                      variance ``E ||report - v||^2`` at the bound 1
===========  ===========================================  =========================================================
PrivUnit     pure epsilon                                 smallest of the pure ones: about d / 1.6 epsilon^2 for small
                                                          epsilon; d >= 2 from a cap of the sphere
DuchiL2      pure epsilon                                 as PrivUnit for small epsilon, does not fall below pi d / 2
TwoPoint     pure epsilon                                 of one number: ``((e^eps + 1) / (e^eps - 1))^2 - v^2``
L2Laplace    pure epsilon                                 ``4 d (d + 1) / epsilon^2``
Laplace      pure epsilon                                 ``8 d^2 / epsilon^2``
Gaussian     (epsilon, delta), mu-GDP, leakage in nats    ``4 d / mu^2``
===========  ===========================================  =========================================================

A person who sends k reports has spent k times epsilon (or leakage), or sqrt(k) times mu.

The leakage of a report lies between two bounds: :func:`mutual_information` and :func:`channel_capacity` of any
discrete channel, :func:`gaussian_information` of Gaussian noise.
"""

from ..calibration import gaussian_leakage, gaussian_leakage_std
from ._analysis import PrivUnitG
from ._device import Randomizer, compiled, randomizer_of
from ._information import Capacity, Information, channel_capacity, gaussian_information, mutual_information
from ._randomizers import DuchiL2, Gaussian, L2Laplace, Laplace, PrivUnit, TwoPoint

__all__ = [
    "Capacity",
    "DuchiL2",
    "Gaussian",
    "Information",
    "L2Laplace",
    "Laplace",
    "PrivUnit",
    "PrivUnitG",
    "Randomizer",
    "TwoPoint",
    "channel_capacity",
    "compiled",
    "gaussian_information",
    "gaussian_leakage",
    "gaussian_leakage_std",
    "mutual_information",
    "randomizer_of",
]
