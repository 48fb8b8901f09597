"""An alarm of drift, by what private metrics have released: post-processing, with a proved rate of false alarms.

A window's released total is the sum of its rows' shares, numbers in [0, 1], and of noise whose law is public. Evidence
against "no drift" is an e-process over these totals: a supermartingale that begins at 1 as long as there is none, so
that it ever reaches ``1 / alpha`` with a probability of at most alpha. The proof is in ``docs/proofs/metrics.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._validate import choice, integer, number
from ..errors import InvalidParameter, StateError
from ..noise import granularity
from ._private import MetricsResult, MetricsWindow

__all__ = ["Alarm", "DriftAlarm"]

#: Rises of the mean share for which bets are placed, in equal parts.
_RISES = np.array([2.0**-k for k in range(1, 9)])
#: What the roundings may amount to: of each operation on a window, as a share of what it is on, and of the comparison.
_ROUNDING, _SLACK = 2.0**-48, 1e-9


@dataclass(frozen=True)
class Alarm:
    """An alarm that was raised: public, as the windows.

    Attributes
    ----------
    window : MetricsWindow
        The window at whose release it was raised.
    number : int
        That window's number, from 1.
    evidence : float
        The e-value by then, at least ``1 / alpha``; with a reference ``2 / alpha``.
    level : float
        What the mean was compared with, in units of the metric: accuracy fell below it, or loss or error rose above it.
    """

    window: MetricsWindow
    number: int
    evidence: float
    level: float


class DriftAlarm:
    """Watches the windows of private metrics, and raises an alarm when the metric has got worse.

    Whatever the rows, and whenever it is looked at: as long as there is no drift, an alarm is ever raised with a
    probability of at most ``alpha``, over the rows and over all noise. It reads only what was released and paid for, so
    it costs no budget. It raises one alarm; what follows is the caller's rule.

    Parameters
    ----------
    alpha : float, default=0.01
        Probability of a false alarm, in (0, 1).
    metric : {"loss", "accuracy", "mean_absolute_error"}, default="loss"
        To watch two, give each half of alpha.
    reference : int, default=5
        The first windows, which say what the metric is without drift. *No drift* means: for each later row, the
        expected loss of the model of its time, given all that came before, is at most the average of the same over the
        rows of these windows, plus the tolerance. So rows of one law, and a model that gets no worse, have none.
    level : float, optional
        A public value to compare with instead, in units of the metric: no drift means that the expected accuracy of no
        row is below it, or its expected loss or error above it. ``reference`` is then without effect.
    tolerance : float, default=0.0
        How much worse it may get, in units of the metric; at least 0.
    on_alarm : callable, optional
        Called once with the :class:`Alarm`. An exception that it raises ends the run, as one of ``on_window`` does.

    Attributes
    ----------
    alarm : Alarm or None
    evidence : tuple of float
        The e-values after each watched window.

    Notes
    -----
    The smallest lasting rise that raises an alarm within a number of rows depends on the windows: with shares of
    variance up to 1/4 and noise of standard deviation s in a total of n rows, a rise of Delta is noticed after about
    ``2 log(1 / alpha) (n / 4 + s^2) / (Delta^2 n)`` rows, and some more for not knowing when it began and how large it
    is.
    """

    def __init__(
        self,
        *,
        alpha: float = 0.01,
        metric: str = "loss",
        reference: int = 5,
        level: float | None = None,
        tolerance: float = 0.0,
        on_alarm: Callable[[Alarm], object] | None = None,
    ) -> None:
        self._alpha = number(alpha=alpha, above=0.0, below=1.0)
        self._metric = choice(("loss", "accuracy", "mean_absolute_error"), metric=metric)
        self._reference = integer(reference=reference, at_least=1) if level is None else 0
        self._level = None if level is None else number(level=level, at_least=0.0)
        self._tolerance = number(tolerance=tolerance, at_least=0.0)
        self._on_alarm = on_alarm
        self._begun = False
        self.alarm: Alarm | None = None
        self._evidence: list[float] = []

    def __repr__(self) -> str:
        said = "no alarm" if self.alarm is None else f"alarm in window {self.alarm.number}"
        return f"<DriftAlarm of {self._metric}: {self._windows if self._begun else 0} windows, {said}>"

    @property
    def evidence(self) -> tuple[float, ...]:
        """The e-values after each watched window."""
        return tuple(self._evidence)

    def begin(self, *, name: str, first_bound: float, loss_bound: float, std: float, window_rows: int) -> None:
        """Take the public facts of the windows to come, before any of them: once.

        Parameters
        ----------
        name, first_bound, loss_bound, std, window_rows
            As of :class:`MetricsResult`.

        Raises
        ------
        InvalidParameter
            If the metric is not among those released, or the level beyond its bound.
        StateError
            If the alarm watches a run already.
        """
        if self._begun:
            raise StateError("an alarm watches the windows of one run: make another for another run")
        if self._metric not in ("loss", name):
            raise InvalidParameter(f"metric must be 'loss' or {name!r} for this run, found {self._metric!r}")
        self._bound = loss_bound if self._metric == "loss" else first_bound
        for what, value in (("level", self._level), ("tolerance", self._tolerance)):
            if value is not None and value > self._bound:
                raise InvalidParameter(f"{what} must be at most the bound {self._bound:g}, found {value:g}")
        self._std, self._step = std, granularity(std) if std > 0.0 else 0.0
        self._length = integer(window_rows=window_rows, at_least=1)
        # what a bet stakes on a unit of the total, so that it wins most for its rise
        self._stakes = _RISES * self._length / (self._length / 4.0 + std**2)
        self._bets = np.full(len(_RISES), -math.inf)  # logarithms
        self._windows = self._watched = self._rows = 0
        self._total = self._size = 0.0
        self._mean = None if self._level is None else self._share(self._level)
        self._threshold = math.log(1.0 / self._alpha) if self._mean is not None else math.log(2.0 / self._alpha)
        self._begun = True

    def take(self, window: MetricsWindow) -> None:
        """Look at the next window: each once, in order.

        Raises
        ------
        StateError
            If it is not the next one.
        """
        if not self._begun:
            raise StateError("begin() comes before the first window")
        if window.first_row != self._rows + 1 or not 1 <= window.rows <= self._length:
            raise StateError(
                f"the next window begins at row {self._rows + 1} and has at most {self._length} rows, found rows "
                f"{window.first_row} to {window.last_row}"
            )
        self._windows += 1
        self._rows = window.last_row
        total = self._total_of(window)
        if self._mean is None:
            self._refer(total)
            return
        self._bet(total, window.rows)
        if self.alarm is None and self._log_evidence >= self._threshold + _SLACK:
            self.alarm = Alarm(window, self._windows, self._evidence[-1], self._in_units(self._mean))
            if self._on_alarm is not None:
                self._on_alarm(self.alarm)

    def watch(self, result: MetricsResult) -> Alarm | None:
        """Look at all windows of a result, and return the alarm that they raise, if they do."""
        self.begin(
            name=result.name,
            first_bound=result.first_bound,
            loss_bound=result.loss_bound,
            std=result.std,
            window_rows=result.window_rows,
        )
        for window in result.windows:
            self.take(window)
        return self.alarm

    def to_record(self) -> dict[str, Any]:
        """Return what it watches, how far it has come and its alarm, as JSON values: all public."""
        found = self.alarm
        raised = None
        if found is not None:
            where = {"number": found.number, "first_row": found.window.first_row, "last_row": found.window.last_row}
            raised = {**where, "evidence": found.evidence, "level": found.level}
        return {
            "alpha": self._alpha,
            "metric": self._metric,
            "reference": self._reference,
            "level": self._level,
            "tolerance": self._tolerance,
            "windows": self._windows if self._begun else 0,
            "watched": len(self._evidence),
            "alarm": raised,
        }

    # ---- shares: of the loss's or error's bound, or of wrong predictions ---------------------------------------------

    def _total_of(self, window: MetricsWindow) -> float:
        if self._metric == "loss":
            return window.loss
        return window.rows - window.first if self._metric == "accuracy" else window.first

    def _share(self, value: float) -> float:
        """The mean share that a value of the metric stands for, the tolerance added: more is worse."""
        share = 1.0 - value if self._metric == "accuracy" else value / self._bound
        return min(1.0, share + self._tolerance / self._bound)

    def _in_units(self, share: float) -> float:
        return 1.0 - share if self._metric == "accuracy" else share * self._bound

    # ---- the evidence ------------------------------------------------------------------------------------------------

    def _refer(self, total: float) -> None:
        """Add a window of the reference; after the last the mean is bounded, but with probability alpha / 2."""
        self._total += total
        self._size += abs(total)
        if self._windows < self._reference:
            return
        rows, windows = self._rows, self._reference
        deviation = math.sqrt(2.0 * (rows / 4.0 + windows * self._std**2) * math.log(2.0 / self._alpha))
        above = (self._total + windows * self._step / 2.0 + deviation) / rows
        # so that no rounding of these makes it too small, over as many windows
        above += _ROUNDING * (windows * self._size + windows * self._step + deviation + rows) / rows
        self._mean = min(1.0, above + self._tolerance / self._bound)

    def _bet(self, total: float, rows: int) -> None:
        """One step of the e-process: bets on each rise that begin at each window, with shares 1 / (k (k + 1))."""
        assert self._mean is not None
        self._watched += 1
        k = self._watched
        excess = total - rows * self._mean - self._step / 2.0
        gain = self._stakes * excess - self._stakes**2 * (rows / 4.0 + self._std**2) / 2.0
        gain -= _ROUNDING * (self._stakes * (abs(total) + rows + self._step) + self._stakes**2 * (rows + self._std**2))
        self._bets = np.logaddexp(self._bets, -math.log(k * (k + 1.0))) + gain
        self._bets -= _ROUNDING * (np.abs(self._bets) + math.log(k + 1.0) + 1.0)
        won = float(np.logaddexp.reduce(self._bets)) - math.log(len(self._bets))
        self._log_evidence = float(np.logaddexp(won, -math.log(k + 1.0)))  # and what is not yet at stake
        self._evidence.append(math.exp(min(self._log_evidence, 700.0)))
