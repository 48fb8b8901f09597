"""Local randomizers: what a user's device makes of a vector, a gradient say, before anybody else sees it.

A randomizer owns the noise source and sees the vector; whoever receives the report sees the report alone. Reports are
unbiased, ``E report = v`` for every vector v within the bound, and every one is the ideal mechanism's, rounded to a
grid afterwards: floating point adds nothing to the privacy loss (docs/proofs/reports.md).

===========  ===========================================  =========================================================
class        guarantee of one report                      variance ``E ||report - v||^2`` at the bound 1
===========  ===========================================  =========================================================
PrivUnit     pure epsilon                                 least of the pure ones: about d / 1.6 epsilon^2 for small
                                                          epsilon; d >= 2 from a cap of the sphere
DuchiL2      pure epsilon                                 as PrivUnit for small epsilon, does not fall below pi d / 2
TwoPoint     pure epsilon                                 of one number: ``((e^eps + 1) / (e^eps - 1))^2 - v^2``
L2Laplace    pure epsilon                                 ``4 d (d + 1) / epsilon^2``
Laplace      pure epsilon                                 ``8 d^2 / epsilon^2``
Gaussian     (epsilon, delta), mu-GDP, leakage in nats    ``4 d / mu^2``
===========  ===========================================  =========================================================

A person who sends k reports has spent k times epsilon (or leakage), or sqrt(k) times mu.
"""

from ..calibration import gaussian_leakage, gaussian_leakage_std
from ._analysis import PrivUnitG
from ._device import Randomizer, compiled, randomizer_of
from ._randomizers import DuchiL2, Gaussian, L2Laplace, Laplace, PrivUnit, TwoPoint

__all__ = [
    "DuchiL2",
    "Gaussian",
    "L2Laplace",
    "Laplace",
    "PrivUnit",
    "PrivUnitG",
    "Randomizer",
    "TwoPoint",
    "compiled",
    "gaussian_leakage",
    "gaussian_leakage_std",
    "randomizer_of",
]
