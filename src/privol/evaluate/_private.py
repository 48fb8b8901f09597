"""Progressive performance released under a guarantee of its own: noisy totals of windows of rows.

Each row enters exactly one window, with two numbers between 0 and 1: whether its prediction was right (for regression
its absolute error), and its loss, both as shares of public bounds and floored to a grid of 2^-20, so that totals are
exact. At the end of a window its two totals are released with Gaussian noise. The proof is in
``docs/proofs/metrics.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._rounding import UP
from .._validate import integer, number
from ..calibration import factor_of_steps, less_than_all, users_of
from ..errors import InvalidParameter, StateError
from ..guarantees import Guarantee, compose_gdp
from ..learners.keeping import promised_by
from ..learners.views import Keeper
from ..ledger import Account, Ledger
from ..losses import Loss, loss_at_zero
from ..noise import STREAM_METRICS, Source, Unshared, decide_lattice_point, granularity
from ..noise.bits import new_key, source_of
from ._scores import Task, is_null

__all__ = ["MetricsResult", "MetricsWindow", "PrivateMetrics", "Windows"]

FloatArray = NDArray[np.float64]

#: Values of a row are multiples of 2^-20 between 0 and 1.
_UNITS = 1 << 20
#: The null row's two values: with them in the middle, nulling a row moves a total by at most one half.
_NEUTRAL = _UNITS // 2

_ARITHMETIC = (
    "the real-valued sum of an exact total of multiples of 2^-20 and the Gaussian variable, correctly rounded to a "
    "power-of-two grid between 2^-11 and 2^-10 of the noise's standard deviation"
)
_CONDITIONS = (
    "the bounds of loss and error, the length of the windows, the labels and all other parameters, but for the number "
    "of rows, which is public, were chosen without looking at the rows",
    "whether a row was refused, by the learner or by the reader of a file, is not hidden",
)


@dataclass(frozen=True, kw_only=True)
class PrivateMetrics:
    """How progressive accuracy (or absolute error) and loss are released privately. Public, immutable.

    Parameters
    ----------
    mu : float
        Parameter of Gaussian differential privacy that all windows together add to that of the models they evaluate,
        from 1e-100 to 1e100, such as ``privol.guarantees.split_budget(epsilon, delta, share).mu``; ``inf``: exact
        figures, without a guarantee. A row moves later windows through the models too, so the windows, alone or
        with the models, guarantee the composition of both, never ``mu`` alone.
    windows : int, default=20
        Number of windows that the horizon is cut into, at least 1. Fewer windows: less noise in each. The noise of the
        figures over all rows grows with the root of their number.
    window_rows : int, optional
        Rows of a window instead of their number. Default: ``horizon / windows``, rounded up.
    loss_bound : float, optional
        Losses are clipped to it. Default: for classification four times, for regression once the loss of a
        prediction of 0 (for the target ``y_bound``, for the largest class weight). The noise of the mean loss is
        proportional to it.
    error_bound : float, optional
        For regression: absolute errors are clipped to it. Default: ``y_bound``.
    random_state : None, int, BitGenerator, ...
        ``None``: noise that cannot be reproduced. Any other value is for tests: **not private**.

    Notes
    -----
    The standard deviation of a window's mean is ``sqrt(2) bound / (mu rows)``, half of that under "zero_out"; the bound
    of accuracy is 1. Both values have the same noise relative to their bounds: this division of ``mu`` between the two
    has the least sum of variances.
    """

    mu: float
    windows: int = 20
    window_rows: int | None = None
    loss_bound: float | None = None
    error_bound: float | None = None
    random_state: Any = None

    def __post_init__(self) -> None:
        if not math.isinf(number(mu=self.mu, at_least=1e-100, infinite=True)):
            number(mu=self.mu, at_least=1e-100, at_most=1e100)
        integer(windows=self.windows, at_least=1)
        if self.window_rows is not None:
            integer(window_rows=self.window_rows, at_least=1)
        for name in ("loss_bound", "error_bound"):
            if getattr(self, name) is not None:
                number(above=0.0, **{name: getattr(self, name)})

    def rows_of_window(self, horizon: int) -> int:
        """Rows of each window but the last, which may have fewer."""
        return -(-horizon // self.windows) if self.window_rows is None else self.window_rows

    def bounds(self, task: Task, y_bound: float) -> tuple[float, float]:
        """Return the values that a share of 1 stands for: for the accuracy or absolute error, and for the loss."""
        loss_bound = _loss_bound(task, y_bound) if self.loss_bound is None else float(self.loss_bound)
        if task.classification:
            if self.error_bound is not None:
                name = task.loss.name
                raise InvalidParameter(f"error_bound is for regression, and the {name} loss is for classification")
            return 1.0, loss_bound
        return float(y_bound if self.error_bound is None else self.error_bound), loss_bound

    def result(
        self,
        windows: Iterable[MetricsWindow],
        *,
        task: Task,
        y_bound: float,
        horizon: int,
        guarantee: Guarantee,
        models: Guarantee,
        delay: int = 0,
    ) -> MetricsResult:
        """Return windows that were released (what ``on_window`` saw) as a result: what is left of a run cut short.

        ``guarantee`` is that of the windows' account in the ledger and ``models`` that of the run whose models were
        evaluated; the rest as in the run.
        """
        name = "accuracy" if task.classification else "mean_absolute_error"
        std = _noise_of(self.mu, guarantee)
        rows = self.rows_of_window(horizon)
        promised = with_models(guarantee, models)
        return MetricsResult(promised, tuple(windows), name, *self.bounds(task, y_bound), std, rows, delay)


@dataclass(frozen=True)
class MetricsWindow:
    """The released totals of one window.

    Attributes
    ----------
    first_row, last_row : int
        1-based, in the order of arrival.
    first, loss : float
        Noisy totals of shares of the bound: of correct predictions or absolute errors, and of losses.
    """

    first_row: int
    last_row: int
    first: float
    loss: float

    @property
    def rows(self) -> int:
        """Rows of the window, null rows included."""
        return self.last_row - self.first_row + 1


@dataclass(frozen=True)
class MetricsResult:
    """Privately released progressive performance: all of it may be published under :attr:`guarantee`.

    Attributes
    ----------
    guarantee : Guarantee
        Of the windows, with or without the models that they evaluate: the composition of the two.
    windows : tuple of MetricsWindow
    name : {"accuracy", "mean_absolute_error"}
        What the first of the two totals measures.
    first_bound, loss_bound : float
        The values that a share of 1 represents.
    std : float
        Standard deviation of the noise of each total, in shares of the bound.
    window_rows : int
    delay : int
        Rows after which a label was known.
    """

    guarantee: Guarantee
    windows: tuple[MetricsWindow, ...]
    name: str
    first_bound: float
    loss_bound: float
    std: float
    window_rows: int
    delay: int = 0

    def _figures(self, rows: int, windows: int, first: float, loss: float) -> dict[str, Any]:
        """Means of noisy totals over rows: clamped to their ranges, which is post-processing, and raw."""
        record: dict[str, Any] = {"rows": rows}
        for name, total, bound in ((self.name, first, self.first_bound), ("loss", loss, self.loss_bound)):
            raw = bound * total / rows
            record[name] = min(max(raw, 0.0), bound)
            record[f"{name}_std"] = bound * self.std * math.sqrt(windows) / rows
            record[f"{name}_raw"] = raw
        return record

    def to_record(self) -> dict[str, Any]:
        """Return all figures as JSON values: by window and over all rows, each with its noise's standard deviation."""
        windows = [
            {"first_row": w.first_row, "last_row": w.last_row, **self._figures(w.rows, 1, w.first, w.loss)}
            for w in self.windows
        ]
        total = None
        if self.windows:
            sums = [math.fsum(column) for column in zip(*((w.first, w.loss) for w in self.windows), strict=True)]
            total = self._figures(self.windows[-1].last_row, len(self.windows), sums[0], sums[1])
        return {
            "format": "privol.private-metrics",
            "version": 1,
            "private": self.guarantee.private and self.guarantee.kind != "none",
            "sentence": self.guarantee.sentence(),
            "guarantee": self.guarantee.to_record(),
            "metrics": [self.name, "loss"],
            "bounds": {self.name: self.first_bound, "loss": self.loss_bound},
            "window_rows": self.window_rows,
            "std": self.std,
            "delay": self.delay,
            "null_rows": "count as half of each bound",
            "windows": windows,
            "total": total,
        }


class Windows(Unshared):
    """Takes the scores of a run's rows, and releases the noisy totals of each window when its last row is evaluated.

    Opens its account immediately, before a row is learnt; :meth:`close` frees the unspent budget.

    Parameters
    ----------
    settings : PrivateMetrics
    task : Task
    y_bound : float
    horizon : int
        Rows that the run may learn.
    delta : float
        The delta at which the guarantee states its epsilon.
    ledger : Ledger
    stream : object
        Its statements on users and its ``conditions``, if any, enter the guarantee.
    rows_per_user, user_separation : int, optional
        Of the learner: ``settings.mu`` is then for all rows of a user. Default: for one row.
    on_window : callable, optional
        Called with every :class:`MetricsWindow`.
    keeper : Keeper, optional
        Keeps the run on the disk, and the key of the windows' noise. Only :meth:`finish` and :meth:`leave` return
        windows then: what they tell of rows may be seen only when these are kept, and the journal has the windows
        themselves, with which they are compared if they are released once more.
    delay : int
        Rows after which a label was known.
    """

    _called = "private metrics"

    def __init__(
        self,
        settings: PrivateMetrics,
        *,
        task: Task,
        y_bound: float,
        horizon: int,
        delta: float,
        ledger: Ledger,
        stream: Any = None,
        rows_per_user: int | None = None,
        user_separation: int = 1,
        on_window: Callable[[MetricsWindow], object] | None = None,
        keeper: Keeper | None = None,
        delay: int = 0,
    ) -> None:
        self._length = integer(window_rows=settings.rows_of_window(horizon), at_most=1 << 32)  # totals below 2^53
        self._horizon = horizon
        self._on_window = on_window
        self._kept = keeper is not None
        self._settings, self._task, self._y_bound = settings, task, y_bound
        self._first_bound, self._loss_bound = settings.bounds(task, y_bound)
        promise = _guarantee(
            settings.mu, task.loss, delta, horizon, self._length, ledger, rows_per_user, user_separation
        )
        self._std = _noise_of(settings.mu, promise)
        if self._std > 0.0 and not self._length < 2.0**50 * granularity(self._std):
            raise InvalidParameter(
                f"mu must be smaller for windows of {self._length} rows, found {settings.mu!r}: the noise would be "
                "finer than the totals' last digit (inf releases exact totals, without a guarantee)"
            )
        private = settings.random_state is None
        key = b"" if self._std == 0.0 else new_key(settings.random_state)
        self._source: Source | None = source_of(key, private=private) if key else None
        found = replace(
            promise,
            bit_source="none" if self._source is None else self._source.description,
            private=self._source is not None and self._source.private,
        )
        self.guarantee = promised_by(stream, found, _WindowsOf(self._length, found.releases), taught=False)
        self._rows = self._released = 0
        self._totals = [0, 0]
        self._windows: list[MetricsWindow] = []
        self._handed = 0
        self._left = False
        self._account: Account
        if keeper is None:
            self._account = ledger.open(learner="PrivateMetrics", guarantee=self.guarantee)
        else:
            bounds = [self._first_bound, self._loss_bound, float(y_bound)]
            same = {"window_rows": self._length, "bounds": bounds, "std": self._std, "horizon": horizon, "delay": delay}
            self._account, key = keeper.beside("PrivateMetrics", self.guarantee, key, same)
            self._source = source_of(key, private=private) if key else None
        self._account.attach(self._counters)

    @property
    def facts(self) -> dict[str, Any]:
        """The public facts of all windows, as :meth:`DriftAlarm.begin` takes them."""
        return {
            "name": "accuracy" if self._task.classification else "mean_absolute_error",
            "first_bound": self._first_bound,
            "loss_bound": self._loss_bound,
            "std": self._std,
            "window_rows": self._length,
        }

    def _counters(self) -> tuple[int, int, float]:
        # every row is in one window, so the first release spends everything, and later ones nothing more
        return self._rows, self._released, self._account.reserved_mu_squared if self._released else 0.0

    def take(self, scores: FloatArray, losses: FloatArray, targets: FloatArray) -> None:
        """Add rows in order; NaN scores mark null rows."""
        if self._rows + len(scores) > self._horizon:
            raise InvalidParameter(f"more rows than the horizon of {self._horizon}")
        start = 0
        while start < len(scores):
            stop = min(len(scores), start + self._length - self._rows % self._length)
            part = slice(start, stop)
            values = row_values(scores[part], losses[part], targets[part], self._task, self._first_bound,
                                self._loss_bound)  # fmt: skip
            for k in range(2):
                self._totals[k] += int(values[k].sum())
            self._rows += stop - start
            if self._rows % self._length == 0:
                self._release()
            start = stop

    def _release(self) -> None:
        first_row = self._released * self._length + 1
        totals = np.array(self._totals, dtype=np.float64) / _UNITS
        self._totals = [0, 0]
        self._released += 1  # spent before the noise is drawn: whatever happens next, no release is free
        if self._left or (self._std > 0.0 and self._source is None):
            raise StateError("the private metrics are closed")
        self._account.ask()
        if self._std > 0.0:
            assert self._source is not None
            row = self._released
            totals = self._source.add(totals, self._std, stream=STREAM_METRICS, row=row, decide=decide_lattice_point)
        window = MetricsWindow(first_row, self._rows, float(totals[0]), float(totals[1]))
        self._windows.append(window)
        if not self._kept:
            self._hand_out(self._rows)

    def _commit(self, rows: int) -> None:
        """Record the windows up to that row in the journal before anybody sees them; seen ones must not change."""
        shown = [[w.first_row, w.last_row, w.first, w.loss] for w in self._windows if w.last_row <= rows]
        before = self._seen()
        if before[: len(shown)] != shown[: len(before)]:
            raise StateError(
                "the private metrics, computed again, are not those that were released: the loss is not the one that "
                "the run was begun with, or this machine computes otherwise; they are not shown"
            )
        if len(shown) > len(before):
            self._account.commit(windows=shown)

    def _seen(self) -> list[list[float]]:
        """The windows that the journal has."""
        return max((commit["facts"].get("windows", []) for commit in self._account.commits), key=len, default=[])

    def _hand_out(self, rows: int) -> None:
        """Show the windows up to that row."""
        while self._handed < len(self._windows) and self._windows[self._handed].last_row <= rows:
            self._handed += 1
            if self._on_window is not None:
                self._on_window(self._windows[self._handed - 1])

    def finish(self, models: Guarantee, delay: int = 0) -> MetricsResult:
        """Release the last window, if it has rows, and return all; ``models``: the guarantee of the watched run."""
        if self._rows > self._released * self._length:
            self._release()
        if self._kept:
            self._commit(self._rows)
            self._hand_out(self._rows)
        return self._settings.result(
            self._windows,
            task=self._task,
            y_bound=self._y_bound,
            horizon=self._horizon,
            guarantee=self.guarantee,
            models=models,
            delay=delay,
        )

    def leave(self, rows: int) -> None:
        """Stop a run that is resumed later; show its windows up to a row, or those seen before."""
        self._source = None
        self._left = True
        self._commit(rows)
        self._windows = [MetricsWindow(int(w[0]), int(w[1]), w[2], w[3]) for w in self._seen()]
        self._hand_out(self._horizon)

    def close(self) -> None:
        """Release nothing more, and free the unspent budget, unless the run is resumed later."""
        self._source = None
        if not self._left:
            self._account.close()


def with_models(metrics: Guarantee, models: Guarantee) -> Guarantee:
    """Return the guarantee of the windows alone: composed with the models through which rows affect them."""
    mu = compose_gdp([metrics.mu, models.mu])
    none, factor = math.isinf(mu), None
    if metrics.user_mu is not None and models.user_mu is not None and not none and mu > 0.0:
        users = compose_gdp([metrics.user_mu, models.user_mu])
        row = compose_gdp([metrics.row.mu, models.row.mu])
        # towards the larger figure of the one that is not the unit's
        factor = users / row / UP if metrics.unit == "user" else users / row * UP
        factor = max(factor, 1.0) if factor < (metrics.rows_per_user or 1) else None
    sources = dict.fromkeys([metrics.bit_source, models.bit_source])
    return replace(
        metrics,
        released="metrics",
        kind="none" if none else "gdp",
        parameter=mu,
        user_factor=factor,
        conditions=tuple(dict.fromkeys([*metrics.conditions, *models.conditions])),
        arithmetic="; of the models: ".join([metrics.arithmetic, models.arithmetic]),
        bit_source="; of the models: ".join(sources),
        private=metrics.private and models.private,
    )


def row_values(
    scores: FloatArray,
    losses: FloatArray,
    targets: FloatArray,
    task: Task,
    first_bound: float,
    loss_bound: float,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return what each row adds to the two totals, in units of 2^-20 of the bounds, from 0 to 2^20.

    A function of the row's own score, loss and target; one half, exactly, for a null row.
    """
    null = is_null(scores)
    if task.classification:
        first = task.correct(scores, targets).astype(np.int64) * _UNITS
    else:
        first = _floored(np.abs(scores - targets) / first_bound)
    loss = _floored(losses / loss_bound)
    first[null] = loss[null] = _NEUTRAL
    return first, loss


def _floored(shares: FloatArray) -> NDArray[np.int64]:
    # a loss that is not a number counts as the worst; the bounds hold whatever a user's loss returns
    shares = np.where(np.isnan(shares), 1.0, np.clip(shares, 0.0, 1.0))
    return np.floor(shares * _UNITS).astype(np.int64)


def noise_std(mu: float, adjacency: str) -> float:
    """Return the least noise of each total, in shares of its bound, with which a window is ``mu``-GDP, rounded up.

    One row moves each of the two totals by at most 1, and by at most 1/2 where the other row is null.
    """
    if math.isinf(mu):
        return 0.0
    square = (Fraction(2) if adjacency == "replace" else Fraction(1, 2)) / Fraction(mu) ** 2
    std = math.sqrt(square)
    while Fraction(std) ** 2 < square:
        std = math.nextafter(std, math.inf)
    return std


def _loss_bound(task: Task, y_bound: float) -> float:
    """Four times the loss of a zero model for labels, once for real targets: public, and seldom exceeded by much."""
    worst = task.worst_at_zero if task.classification else loss_at_zero(task.loss, y_bound=y_bound)
    if not 0.0 < worst < math.inf:
        raise InvalidParameter(
            f"loss_bound must be given for the loss {task.loss.name!r}: of a prediction of 0 it is {worst!r}"
        )
    return 4.0 * worst if task.classification else worst


@dataclass(frozen=True)
class _WindowsOf:
    """Windows of a number of rows, each with its own noise."""

    length: int
    number: int

    def user_factor(self, rows_per_user: int, user_separation: int) -> float:
        """Cost of all rows of a user, as a multiple of the cost of one."""
        return factor_of_steps(
            batch=self.length,
            rows_per_user=rows_per_user,
            user_separation=user_separation,
            horizon=self.number * self.length,
        )


def _noise_of(mu: float, promise: Guarantee) -> float:
    """Standard deviation of the totals of a window with that guarantee, for which ``mu`` was requested."""
    std = noise_std(mu, promise.adjacency)
    if promise.unit == "row" or promise.rows_per_user == 1:
        return std
    return (promise.user_factor or float(promise.rows_per_user or 1)) * std * UP


def _guarantee(
    mu: float,
    loss: Loss,
    delta: float,
    horizon: int,
    length: int,
    ledger: Ledger,
    rows_per_user: int | None,
    user_separation: int,
) -> Guarantee:
    """The guarantee of the windows, without the statements about bits and by the stream."""
    none = math.isinf(mu)
    users: dict[str, Any] = dict(users_of(rows_per_user, user_separation))
    windows = -(-horizon // length)
    if users:
        factor = _WindowsOf(length, windows).user_factor(**users)
        users |= {"unit": "user", "user_factor": less_than_all(factor, users["rows_per_user"])}
    return Guarantee(
        kind="none" if none else "gdp",
        parameter=mu,
        adjacency=ledger.adjacency,
        horizon=horizon,
        releases=windows,
        delta=delta,
        conditions=(*_CONDITIONS, *(() if loss.vouched is None else (loss.vouched,))),
        arithmetic="exact totals of multiples of 2^-20, no noise" if none else _ARITHMETIC,
        bit_source="none",
        private=False,
        released="metrics_beyond_models",
        **users,
    )
