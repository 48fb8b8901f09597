"""Between a learner and its secret state: a row is evaluated when it arrives, and learnt when its label does.

Row t is predicted when it arrives. With a delay of d rows its label arrives with row t + d, just before that row is
predicted. So the rows learnt before row t is predicted are those up to t - d; delays of 0 and 1 are the same.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._core._learner_run import Progress
from .._sparse import sound_rows
from .._values import block_of
from ..learners.views import Run
from ..streams import Block
from ._ranks import RecentScores, ScoreHistogram
from ._scores import Curve, FloatArray, Score, Sums, Task, is_null

__all__ = ["Ahead", "Sink", "Tally", "Watch"]


class Sink(Protocol):
    """Takes scores, losses and targets of consecutive rows; score and loss of a null row are NaN."""

    def take(self, scores: FloatArray, losses: FloatArray, targets: FloatArray) -> None: ...


class Ahead:
    """A stream that reads at least ``lag`` rows ahead of those it yields; the watch evaluates them meanwhile.

    Memory: ``lag`` rows and two blocks. ``null`` says what :func:`sound_rows` makes of a column index outside the rows.
    """

    def __init__(self, stream: Any, lag: int, null: bool = False) -> None:
        self._stream = stream
        self._lag = lag
        self._null = null
        self._arrived: deque[tuple[Any, Any]] = deque()  # rows that have arrived and are not yet evaluated
        self.n_rows = stream.n_rows
        self.classes = stream.classes
        self.rows_per_user = getattr(stream, "rows_per_user", None)
        self.user_separation = getattr(stream, "user_separation", 1)
        self.users_fixed = getattr(stream, "users_fixed", True)
        self.beside, self.first_row = getattr(stream, "beside", None), getattr(stream, "first_row", 1)
        self.schema = getattr(stream, "schema", None)
        self.user = getattr(stream, "user", None)
        self.conditions = getattr(stream, "conditions", ())
        self.go_on, self.positions = getattr(stream, "go_on", None), getattr(stream, "positions", None)

    def __iter__(self) -> Iterator[Any]:
        self._arrived.clear()
        waiting: deque[Any] = deque()
        ahead = 0  # rows of the blocks that wait
        for block in self._stream:
            seen = getattr(block, "seen", None)
            block = Block(sound_rows(block.X, null=self._null), block.y, block.first_row, seen)
            waiting.append(block)
            self._arrived.append(block_of(block))
            ahead += block.X.shape[0]
            while waiting and ahead - waiting[0].X.shape[0] >= self._lag:
                first = waiting.popleft()
                ahead -= first.X.shape[0]
                yield first
        yield from waiting

    def take(self, most: int) -> list[tuple[Any, Any]]:
        """Return the next rows that arrived: at most ``most``, in their order, in parts."""
        parts = []
        while most > 0 and self._arrived:
            X, y = self._arrived.popleft()
            if X.shape[0] > most:
                self._arrived.appendleft((X[most:], y[most:]))
                X, y = X[:most], y[:most]
            parts.append((X, y))
            most -= X.shape[0]
        return parts


class Watch:
    """The observer that ``fit_stream`` lets learn the rows: scores go to the sinks in the order of the rows.

    Whatever ends a call early, the sinks get the scores of every row that was learnt, once.

    Parameters
    ----------
    sinks : sequence of Sink
    ahead : Ahead or None
        The stream, where rows are evaluated before they are learnt.
    """

    def __init__(self, sinks: list[Sink], ahead: Ahead | None = None) -> None:
        self._sinks = sinks
        self._ahead = ahead
        self._progress = Progress(0)

    def learn(self, run: Run, X: Any, targets: FloatArray) -> None:
        """Learn the rows and evaluate them, or the same number of rows that have arrived since."""
        n, before = X.shape[0], run.state.n_rows
        self._make_room(run, n)
        if self._ahead is None:
            try:
                run.state.learn(X, targets, progress=self._progress)
            finally:
                self._hand(run.state.n_rows - before, targets)
            return
        if before == 0:  # rows that arrive before the first label does
            self._evaluate(run, self._ahead._lag)
        most = run.guarantee.horizon - max(self._ahead._lag + before, 0)  # no row beyond the horizon is evaluated
        parts = [(part, _encode(run, y)) for part, y in self._ahead.take(max(0, min(n, most)))]
        real = sum(part.shape[0] for part, _ in parts)
        if real < n:  # the stream has ended: null rows, of which only the number matters
            parts.append((X[real:], np.full(n - real, np.nan)))
        rows, y = _joined([part for part, _ in parts]), np.concatenate([y for _, y in parts])
        try:
            run.state.learn(X, targets, progress=self._progress, evaluate=(rows, y))
        finally:
            self._hand(min(run.state.n_rows - before, real), y)

    def _make_room(self, run: Run, n: int) -> None:
        if len(self._progress.scores) < n:
            self._progress = Progress(n, run.state.outputs)

    def _evaluate(self, run: Run, rows: int) -> None:
        assert self._ahead is not None
        for X, y in self._ahead.take(min(rows, run.guarantee.horizon)):
            self._make_room(run, X.shape[0])
            targets = _encode(run, y)
            run.state.evaluate(X, targets, self._progress)
            self._hand(X.shape[0], targets)

    def _hand(self, n: int, targets: FloatArray) -> None:
        for sink in self._sinks:
            sink.take(self._progress.scores[:n], self._progress.losses[:n], targets[:n])


def _encode(run: Run, y: Any) -> FloatArray:
    """Targets of rows that are not learnt yet: what would be refused later counts as null here."""
    targets = replace(run.targets, refuse=False)
    return targets.encode(y, 0) if targets.classes is None else targets.encode_indices(y, 0)


def _joined(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if any(sparse.issparse(part) for part in parts):
        return sparse.vstack([sparse.csr_array(part) for part in parts], format="csr")
    return np.concatenate(parts)


class Tally:
    """Non-private sums, ranks and a curve, at row numbers that the blocks have no part in.

    Parameters
    ----------
    task : Task
    metrics : tuple of str
    step : int
        Rows between two points of the curve.
    """

    def __init__(self, task: Task, metrics: tuple[str, ...], step: int) -> None:
        self._task = task
        self._metrics = metrics
        self._step = step
        self._rows = 0
        self._sums = Sums()
        self._all, self._recent = ScoreHistogram(), RecentScores()
        self._points: list[tuple[float, ...]] = []

    def take(self, scores: FloatArray, losses: FloatArray, targets: FloatArray) -> None:
        """Add rows in order."""
        start = 0
        while start < len(scores):
            stop = min(len(scores), start + self._step - self._rows % self._step)
            part = slice(start, stop)
            self._add(scores[part], losses[part], targets[part])
            self._rows += stop - start
            if self._rows % self._step == 0:
                self._mark()
            start = stop

    def _add(self, scores: FloatArray, losses: FloatArray, targets: FloatArray) -> None:
        usable: NDArray[np.bool_] = ~is_null(scores)
        if not usable.all():
            scores, losses, targets = scores[usable], losses[usable], targets[usable]
        self._sums.add(self._task, scores, losses, targets, self._metrics)
        if "auc" in self._metrics:
            self._recent.add(scores, targets > 0.0)

    def _mark(self) -> None:
        sums = self._sums
        if sums.rows == (self._points[-1][0] if self._points else 0):
            return
        areas = (math.nan, math.nan)
        if "auc" in self._metrics:
            recent = self._recent.hand_to(self._all)
            areas = _area(self._all.area()), _area(recent)
        figures = (sums.rows, sums.loss, sums.log_loss, sums.correct, sums.absolute, sums.squared)
        self._points.append((*figures, *areas))

    def result(self) -> tuple[Score, Curve]:
        """Score and curve of all rows taken."""
        self._mark()
        columns = np.array(self._points, dtype=np.float64).reshape(-1, 8).T
        area = self._all.area() if "auc" in self._metrics else None
        loss, log_loss, correct, absolute, squared, auc, recent = columns[1:]
        rows = columns[0].astype(np.int64)
        curve = Curve(rows, loss, log_loss, correct, absolute, squared, auc, recent, self._metrics)
        return Score.of(self._sums, area, self._metrics), curve


def _area(found: tuple[float, float] | None) -> float:
    return math.nan if found is None else found[0]
