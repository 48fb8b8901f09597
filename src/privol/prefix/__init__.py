"""Private prefix sums: after every row (or every k rows) the sum of all rows so far, with noise that grows slowly.

All designs have one contract. The exact sums are secret and live in one compiled handle; the releases are linear
functions of noisy vectors of sums, each ``round_h(x + sigma Z)``, which together are one Gaussian mechanism. So the
whole run costs ``mu`` once, however many prefix sums are used. The proofs about the code are in
``docs/proofs/prefix.md``.
"""

from ..factorizations import DESIGNS
from ._base import plan_of, plan_of_epochs
from ._sums import PrefixSum
from ._symmetric import SymmetricSum, svec, unsvec

__all__ = ["DESIGNS", "PrefixSum", "SymmetricSum", "plan_of", "plan_of_epochs", "svec", "unsvec"]
