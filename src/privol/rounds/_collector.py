"""The learner's side of the rounds: it asks at its point, and learns only possible reports of that round."""

from __future__ import annotations

import math
import os
import threading
from typing import Any, Protocol

from .._validate import integer
from ..calibration import LocalCalibration, ReportNoise
from ..errors import BudgetExceeded, InvalidMessage, InvalidParameter, StateError
from ..guarantees import Guarantee
from ._messages import RUN_BYTES, FloatArray, pack_question, parse_answer, place_of, read_place
from ._terms import Terms

__all__ = ["Collector", "longest_report"]

# An honest report exceeds the allowed length with probability below 2 exp(-50) = 4e-22.
_TAIL = 50.0


class ReportLearner(Protocol):
    """A learner on reports of gradients."""

    @property
    def plan_(self) -> Any: ...
    @property
    def n_rows_(self) -> int: ...
    @property
    def guarantee_(self) -> Guarantee: ...
    def calibrate(self, n_features: int, horizon: int, release: Any = None) -> Any: ...
    def ask(self, n_features: int | None = None) -> FloatArray: ...
    def tell(self, *, report: FloatArray) -> Any: ...


def longest_report(noise: ReportNoise) -> float:
    """L2 norm that no report of a vector within the bound exceeds, but with probability below 4e-22.

    By the tails of the chi and gamma laws (Laurent and Massart 2000; Boucheron, Lugosi and Massart 2013, 2.4).
    """
    d, scale = noise.dim, noise.scale
    if noise.cap is not None:
        longest = scale
    elif noise.kind == "gaussian":
        longest = noise.bound + scale * (math.sqrt(d) + math.sqrt(2.0 * _TAIL))
    elif noise.kind == "l2_laplace":  # the norm of the noise has a gamma distribution of shape d
        longest = noise.bound + scale * (d + math.sqrt(2.0 * d * _TAIL) + _TAIL)
    else:  # no coordinate of the noise is larger; without noise: the bound
        longest = noise.bound + scale * math.sqrt(d) * (math.log(d) + _TAIL)
    return longest * (1.0 + 1e-9) + math.sqrt(d) * scale * 2.0**-10  # for rounding to the grid


class Collector:
    """Plays a learner's run with devices, one report a round.

    A round is open until a report of it was learnt. If no answer comes, :meth:`ask` gives the same question again, for
    another device: whichever answer is there first counts, the other is refused.

    Parameters
    ----------
    learner : MIOGD, LDPSGD, MultiscaleSGD, BANCO or AgnosticBANCO
        With a ``horizon``. Its run is begun if none is open. For two classes call ``declare_classes`` before. The terms
        are those of that run, whatever is set later.
    n_features : int
        Features of the devices' rows.

    Attributes
    ----------
    run : bytes
        Of the run, 16 bytes, random: answers to another one are refused.
    dim : int
        Coordinates of points and reports.
    longest : float
        L2 norm that no report exceeds but with probability below 4e-22: longer ones are refused, so that what a device
        that sends anything at all does to the model is bounded by what an honest one might.

    Notes
    -----
    The points, the terms and the reports are public, and so is all that is here. A report is made of a gradient at the
    point that the report before it made, so rounds cannot overlap.
    """

    def __init__(self, learner: ReportLearner, n_features: int) -> None:
        n_features = integer(n_features=n_features, at_least=1)
        if not (hasattr(learner, "plan_") or hasattr(type(learner), "plan_")) or not isinstance(
            learner.calibrate(n_features, 1, "all"), LocalCalibration
        ):
            raise InvalidParameter(
                "learner must learn from reports of gradients (MIOGD, LDPSGD, MultiscaleSGD, BANCO, AgnosticBANCO), "
                f"found {learner!r}"
            )
        self.dim = len(learner.ask(n_features))
        plan = learner.plan_  # the open run's, which its guarantee is about
        if self.dim != n_features + plan.gradients.intercept:
            raise InvalidParameter(f"the learner's run has points of {self.dim} coordinates, not {n_features} features")
        self._terms = Terms.of(
            plan.report,
            loss=plan.gradients.loss,
            intercept=plan.gradients.intercept,
            x_bound=plan.gradients.x_bound,
            y_bound=plan.gradients.y_bound,
        ).pack()
        self._learner, self._plan = learner, plan
        self._horizon = learner.guarantee_.horizon
        self.run = os.urandom(RUN_BYTES)
        self.longest = longest_report(plan.report)
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return f"<Collector: round {self.round} of {self._horizon}, {self.dim} coordinates>"

    @property
    def round(self) -> int:
        """Number of the open round, from 1; the horizon plus one if no round is open."""
        return self._learner.n_rows_ + 1

    @property
    def done(self) -> bool:
        """Whether the horizon is reached."""
        return self._learner.n_rows_ >= self._horizon

    def ask(self) -> bytes:
        """Return the question of the open round: public.

        Raises
        ------
        BudgetExceeded
            If the horizon is used up.
        StateError
            If the learner has begun another run since; in a forked child.
        """
        self._same_process()
        with self._lock:
            self._same_run()
            number = self._learner.n_rows_ + 1
            if number > self._horizon:
                raise BudgetExceeded(f"the horizon of {self._horizon} rounds is used up")
            return pack_question(place_of(self.run, number), self._terms, self._learner.ask())

    def tell(self, answer: bytes) -> None:
        """Learn the report of the open round.

        Raises
        ------
        InvalidMessage
            If it is not one message of the right size, with finite numbers; if it is of another run, of a round that
            was answered or was never asked; if no device makes so long a report. Nothing was learnt or spent, and the
            round is still open.
        BudgetExceeded
            If the horizon is used up.
        StateError
            If the learner has begun another run since; in a forked child.
        """
        place, report, square = parse_answer(answer, self.dim)
        self._same_process()
        with self._lock:
            self._same_run()
            this = self._learner.n_rows_ + 1
            if place != place_of(self.run, this):
                raise InvalidMessage(f"{self._elsewhere(place, this)}; nothing was learnt")
            length = math.sqrt(square)
            if not length <= self.longest:
                raise InvalidMessage(
                    f"a report of this run has a norm of at most {self.longest:g}, found {length:g}; nothing was learnt"
                )
            self._learner.tell(report=report)

    def _same_process(self) -> None:
        if os.getpid() != self._pid:  # another thread of the parent may have held the lock
            raise StateError("a forked child cannot play its parent's rounds: the two would play the same ones")

    def _same_run(self) -> None:
        if self._learner.plan_ is not self._plan:
            raise StateError("the learner has begun another run, whose reports are not those that are asked for here")

    def _elsewhere(self, place: bytes, this: int) -> str:
        """Return the message that says which round an answer belongs to."""
        run, number = read_place(place)
        if run != self.run:
            return f"the answer is to the run {run.hex()}, this one is {self.run.hex()}"
        why = "which has its report" if number < this else "which was not asked"
        return f"the answer is of round {number}, {why}; open is {this}"
