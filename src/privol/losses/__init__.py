"""Convex losses of linear predictions, with the constants that privacy and step sizes need.

Losses of one score are for two classes or a real target; :class:`Softmax` is of several scores, one for each class, and
any loss for two classes can be taken for each class against the rest. Everything that calibration asks about a loss is
a bound over *public* ranges; the proofs are in the modules and in ``docs/proofs/classes.md``.

No other room asks which loss it has: learners, calibration, kernels, audits and scores take what they need from the
methods and facts of :class:`Loss`, and the kernels from one table. A new smooth loss of one score needs

1. ``_vocabulary.py``: its name, the last one, and the meaning of its width, if it has one;
2. ``losses/_classification.py`` or ``losses/_regression.py``: its class, with value, gradient, second derivative,
   constants and their proofs;
3. ``losses/__init__.py``: the class among ``_KINDS``;
4. ``_core/c/losses/pv_loss.h``: its number, which is the class's ``code``;
5. ``_core/c/losses/loss.c``: value, slope, implicit step, error of the slope, and their line of the table;
6. ``_core/c/losses/loss_rows.inc.h``: many rows at once, for the offline learners, and its line of the table;

a proof of the slope's error in ``docs/proofs/solver.md``, and tests: ``tests/losses/test_losses.py`` (against high
precision, and every constant against a search), ``tests/core/c/test_loss.c``, ``tests/core/c/test_objective.c``.
``tests/losses/test_loss_room.py`` checks this list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._validate import choice
from .._vocabulary import LOSSES
from ..errors import InvalidParameter
from ._classes import (
    Softmax,
    class_gradients,
    class_losses,
    class_probabilities,
    class_slope_bound,
    log_probabilities,
    loss_at_zero,
)
from ._classification import Hinge, Logistic, SmoothHinge
from ._custom import Custom
from ._loss import Loss
from ._regression import Absolute, Huber, Squared

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
    "class_probabilities",
    "class_slope_bound",
    "from_record",
    "get_loss",
    "log_probabilities",
    "loss_at_zero",
]

_KINDS: tuple[type[Loss], ...] = (Logistic, Hinge, SmoothHinge, Squared, Absolute, Huber, Softmax)
_MADE: dict[str, type[Loss]] = dict(zip(LOSSES, _KINDS, strict=True))


def get_loss(loss: str | Loss) -> Loss:
    """Return the loss of that name with its default width, or the loss object itself.

    Raises
    ------
    InvalidParameter
        If it is neither, or an object that the kernels do not know: neither a built-in loss nor :class:`Custom`.
    """
    if not isinstance(loss, Loss):
        return _MADE[choice(LOSSES, loss=loss)]()
    if type(loss) not in _KINDS and not isinstance(loss, Custom):
        raise InvalidParameter(
            f"loss={loss.name!r} is a {type(loss).__name__}, which is not one of privol's own losses: give a "
            "losses.Custom, whose functions the learners call"
        )
    return loss


def from_record(record: Mapping[str, Any], given: Loss | None = None) -> Loss:
    """Return the loss that :meth:`Loss.to_record` described.

    Parameters
    ----------
    record : mapping
    given : Loss, optional
        The user's own loss of that name, whose functions no record has.

    Raises
    ------
    InvalidParameter
        If it is of a user's own loss that is not given, or of one that is not known, or its width is wrong.
    """
    if record.get("custom"):
        if given is None or given.name != record["name"]:
            raise InvalidParameter(
                f"the model was learnt with the custom loss {record['name']!r}, whose functions are not in the files: "
                f"pass that object as loss="
            )
        return given
    kind: Any = _MADE[choice(LOSSES, loss=record["name"])]
    loss: Loss = kind(width=record["width"]) if kind.__dataclass_fields__["width"].init else kind()
    return loss
