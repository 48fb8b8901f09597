"""Which learner to take first."""

from __future__ import annotations

from ..losses import Loss, get_loss
from ._base import OnlineLearner
from .leader import DPFTRL
from .least_squares import PQFTL

__all__ = ["default_learner", "default_name"]


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
    return PQFTL if get_loss(loss).quadratic else DPFTRL


def default_name(loss: str | Loss = "logistic") -> str:
    """Return the name of :func:`default_learner` in :data:`LEARNERS`."""
    return "pqftl" if default_learner(loss) is PQFTL else "dpftrl"
