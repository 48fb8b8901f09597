"""Learners: each names its update, its point of perturbation and its schedule, and shares the rest."""

from __future__ import annotations

from ..losses import Loss, get_loss
from ._base import OnlineLearner
from ._ledgered import LedgeredModel
from ._model import Release
from ._offline import OfflineLearner
from .averaged import POL
from .bandit import BanditMIOGD
from .betting import BANCO, AgnosticBANCO
from .descent import LDPSGD, MIOGD
from .experts import MultiscaleSGD
from .gradient import NOGD
from .iterate import PGIGA, PIGD
from .leader import DPFTRL
from .least_squares import PQFTL
from .network import DOLA, SparseDOLA
from .offline import ObjectivePerturbation, OutputPerturbation

__all__ = [
    "BANCO",
    "DOLA",
    "DPFTRL",
    "LDPSGD",
    "LEARNERS",
    "MIOGD",
    "NOGD",
    "OFFLINE_LEARNERS",
    "PGIGA",
    "PIGD",
    "POL",
    "PQFTL",
    "AgnosticBANCO",
    "BanditMIOGD",
    "LedgeredModel",
    "MultiscaleSGD",
    "ObjectivePerturbation",
    "OfflineLearner",
    "OnlineLearner",
    "OutputPerturbation",
    "Release",
    "SparseDOLA",
    "default_learner",
    "default_name",
]

#: Learners by the name that the command line and :func:`privol.plan` use.
LEARNERS: dict[str, type[OnlineLearner]] = {
    "pigd": PIGD, "pgiga": PGIGA, "nogd": NOGD, "dpftrl": DPFTRL, "pqftl": PQFTL,
    "miogd": MIOGD, "bandit": BanditMIOGD, "ldpsgd": LDPSGD, "banco": BANCO, "agnostic": AgnosticBANCO,
    "multiscale": MultiscaleSGD, "dola": DOLA, "sparse-dola": SparseDOLA,
}  # fmt: skip

#: Those of data at rest, likewise: all rows at once, and one release.
OFFLINE_LEARNERS: dict[str, type[OfflineLearner]] = {
    "objective-perturbation": ObjectivePerturbation, "output-perturbation": OutputPerturbation, "pol": POL,
}  # fmt: skip


def default_learner(loss: str | Loss = "logistic") -> type[OnlineLearner]:
    """Return the learner class to take first for a loss.

    Parameters
    ----------
    loss : str or Loss

    Returns
    -------
    type
        :class:`PQFTL` for squared loss, :class:`DPFTRL` for the others: their noise grows with the logarithm of the
        rows only, and their releases cost nothing.
    """
    return PQFTL if get_loss(loss).name == "squared" else DPFTRL


def default_name(loss: str | Loss = "logistic") -> str:
    """Return the name of :func:`default_learner` in :data:`LEARNERS`."""
    kind = default_learner(loss)
    return next(name for name, learner in LEARNERS.items() if learner is kind)
