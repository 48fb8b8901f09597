"""Learners: each names its update, its point of perturbation and its schedule, and shares the rest."""

from __future__ import annotations

from ..losses import Loss, get_loss
from ._base import OnlineLearner
from ._model import Release
from .gradient import NOGD
from .iterate import PGIGA, PIGD
from .leader import DPFTRL
from .least_squares import PQFTL

__all__ = ["DPFTRL", "LEARNERS", "NOGD", "PGIGA", "PIGD", "PQFTL", "OnlineLearner", "Release", "default_learner"]

#: Learners by the name that the command line and :func:`privol.plan` use.
LEARNERS: dict[str, type[OnlineLearner]] = {
    "pigd": PIGD, "pgiga": PGIGA, "nogd": NOGD, "dpftrl": DPFTRL, "pqftl": PQFTL,
}  # fmt: skip


def default_learner(loss: str | Loss = "logistic") -> type[OnlineLearner]:
    """Return the learner class to take first for a loss.

    Parameters
    ----------
    loss : str or Loss

    Returns
    -------
    type
        :class:`PIGD` for every loss: of the learners here it alone takes losses with kinks, and its error is at most
        that of :class:`PGIGA`. Give it a release schedule; few releases cost little noise.
    """
    get_loss(loss)  # an unknown loss is an error here, not a default
    return PIGD
