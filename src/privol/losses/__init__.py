"""Convex losses of linear predictions, with the constants that privacy and step sizes need.

Losses of one score are for two classes or a real target; :class:`Softmax` is of several scores, one for each class, and
any loss for two classes can be taken for each class against the rest. Everything that calibration asks about a loss is
a bound over *public* ranges; the proofs are in the modules and in ``docs/proofs/classes.md``.
"""

from __future__ import annotations

from collections.abc import Callable

from .._validate import choice
from ._classes import Softmax, class_gradients, class_losses, class_slope_bound, log_probabilities, loss_at_zero
from ._single import BUILT_IN, Absolute, Custom, Hinge, Huber, Logistic, Loss, SmoothHinge, Squared

__all__ = [
    "LOSSES",
    "Absolute",
    "Custom",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "SmoothHinge",
    "Softmax",
    "Squared",
    "class_gradients",
    "class_losses",
    "class_slope_bound",
    "get_loss",
    "log_probabilities",
    "loss_at_zero",
]

_MADE: dict[str, Callable[[], Loss]] = dict(
    zip(BUILT_IN, (Logistic, Hinge, SmoothHinge, Squared, Absolute, Huber, Softmax), strict=True)
)

#: Names of the built-in losses.
LOSSES: tuple[str, ...] = BUILT_IN


def get_loss(loss: str | Loss) -> Loss:
    """Return the loss of that name with its default width, or the loss object itself.

    Raises
    ------
    InvalidParameter
        If it is neither.
    """
    if isinstance(loss, Loss):
        return loss
    return _MADE[choice(LOSSES, loss=loss)]()
