"""The terms of a run's reports, as a question carries them: what a device must know and may refuse."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

from ..calibration import RANDOMIZERS, ReportNoise, calibrate_report
from ..errors import InvalidMessage, InvalidParameter
from ..guarantees import ADJACENCIES
from ..losses import LOSSES, Loss, get_loss

__all__ = ["TERMS_BYTES", "Terms", "loss_name"]

# randomizer, adjacency, loss, intercept, budget figure; bound, amount, x_bound, y_bound, width of the loss
_LAYOUT = struct.Struct("<5B3x5d")
TERMS_BYTES = _LAYOUT.size

_LEAST, _MOST = 1e-30, 1e30  # limits for public bounds, as in the learners
_FIGURES = ("epsilon", "sigma")


def loss_name(loss: Loss) -> str:
    """Name of a loss that a question can state.

    Raises
    ------
    InvalidParameter
        If it is a user's own, or one of several scores: devices know the built-in losses of one score.
    """
    if loss.vouched is not None or loss.joint:
        raise InvalidParameter(f"loss must be a built-in one of a single score for devices, found {loss!r}")
    return get_loss(loss).name


@dataclass(frozen=True)
class Terms:
    """How gradients are taken, bounded and randomized. All of it is public.

    Attributes
    ----------
    randomizer : str
        One of :data:`privol.calibration.RANDOMIZERS`.
    adjacency : {"replace", "zero_out"}
    loss : str
        Built-in, of a single score.
    width : float
        Of the loss; 0 where it has none.
    intercept : bool
        The last coordinate of the point multiplies the constant 1.
    figure : {"epsilon", "sigma"}
        What `amount` is: pure differential privacy of a report (infinite: no noise), or the standard deviation of
        Gaussian noise. A device computes the noise, and what the noise promises, from it by itself.
    amount : float
    bound : float
        L2 norm that gradients are scaled to where they exceed it.
    x_bound, y_bound : float
        Of a row's L2 norm, and of a real target's magnitude.
    """

    randomizer: str
    adjacency: str
    loss: str
    width: float
    intercept: bool
    figure: str
    amount: float
    bound: float
    x_bound: float
    y_bound: float

    @classmethod
    def of(cls, noise: ReportNoise, *, loss: Loss, intercept: bool, x_bound: float, y_bound: float) -> Terms:
        """Return the terms of calibrated reports."""
        sigma = noise.kind == "gaussian"
        return cls(
            randomizer=noise.name,
            adjacency=noise.adjacency,
            loss=loss_name(loss),
            width=loss.width,
            intercept=intercept,
            figure="sigma" if sigma else "epsilon",
            amount=noise.scale if sigma else noise.epsilon,
            bound=noise.bound,
            x_bound=x_bound,
            y_bound=y_bound,
        )

    def pack(self) -> bytes:
        """Return the terms as bytes."""
        return _LAYOUT.pack(
            RANDOMIZERS.index(self.randomizer),
            ADJACENCIES.index(self.adjacency),
            LOSSES.index(self.loss),
            self.intercept,
            _FIGURES.index(self.figure),
            self.bound,
            self.amount,
            self.x_bound,
            self.y_bound,
            self.width,
        )

    @classmethod
    def unpack(cls, content: bytes) -> Terms:
        """Return the terms that :meth:`pack` wrote.

        Raises
        ------
        InvalidMessage
            If the bytes are not those of any terms.
        """
        randomizer, adjacency, loss, intercept, figure, bound, amount, x_bound, y_bound, width = _LAYOUT.unpack(content)
        terms = cls(
            randomizer=_word(RANDOMIZERS, randomizer=randomizer),
            adjacency=_word(ADJACENCIES, adjacency=adjacency),
            loss=_word(LOSSES, loss=loss),
            width=width,
            intercept=_word((False, True), intercept=intercept),
            figure=_word(_FIGURES, figure=figure),
            amount=amount,
            bound=bound,
            x_bound=x_bound,
            y_bound=y_bound,
        )
        for name in ("bound", "x_bound", "y_bound"):
            if not _LEAST <= getattr(terms, name) <= _MOST:
                raise InvalidMessage(f"{name} must be from {_LEAST:g} to {_MOST:g}, found {getattr(terms, name):g}")
        if not (amount > 0.0 and (terms.figure == "epsilon" or amount < math.inf)):
            raise InvalidMessage(f"{terms.figure} must be above 0, found {amount:g}")
        if not 0.0 <= width < math.inf:
            raise InvalidMessage(f"the width of the loss must be finite and at least 0, found {width:g}")
        if (terms.figure == "sigma") != (terms.randomizer == "gaussian" and amount < math.inf):
            raise InvalidMessage(f"{terms.randomizer} is not stated by its {terms.figure}, found {amount:g}")
        if terms.pack() != content:
            raise InvalidMessage("the terms have bytes other than 0 where nothing is stated")
        return terms

    def noise(self, dim: int) -> ReportNoise:
        """Return the noise of reports on these terms, for a number of coordinates.

        Raises
        ------
        InvalidMessage
            If there is none: the randomizer does not go so far.
        """
        words: dict[str, Any] = {self.figure: self.amount}
        if self.randomizer == "gaussian" and self.figure == "epsilon":
            words["delta"] = 0.5  # without effect, because epsilon is infinite
        try:
            return calibrate_report(self.randomizer, dim=dim, bound=self.bound, adjacency=self.adjacency, **words)
        except InvalidParameter as error:
            raise InvalidMessage(f"the terms cannot be met: {error}") from None


def _word(words: tuple[Any, ...], **named: int) -> Any:
    ((name, code),) = named.items()
    if code >= len(words):
        raise InvalidMessage(f"{name} must have a code from 0 to {len(words) - 1}, found {code}")
    return words[code]
