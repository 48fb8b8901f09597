"""A user's own online algorithm made private: noise on its iterates, for a sensitivity that its author declares.

Algorithm 1 of Jain, Kothari and Thakurta (POCP), with noise that is proved for what is released:
:class:`POCP`. :func:`largest_ratio` tries to refute a declared sensitivity on rows that are no secret.
"""

from __future__ import annotations

import copy
import math
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._validate import choice, integer, number
from .calibration import Budget, ReleaseSchedule, WrappedCalibration, calibrate_wrapped, wrapped_record
from .errors import BudgetExceeded, InvalidParameter, PrivacyWarning, StateError
from .geometry import L2Ball
from .guarantees import ADJACENCIES, DELTA_TOO_LARGE, Guarantee, square_up, weaknesses
from .ledger import Ledger
from .noise import ARITHMETIC, STREAM_RELEASES, decide_lattice_point, make_source

__all__ = ["POCP", "Ratio", "largest_ratio"]

FloatArray = NDArray[np.float64]

_MOST_ROWS = 1 << 48


class POCP:
    """Release the iterates of your own online algorithm, each with Gaussian noise: Algorithm 1 (POCP).

    The algorithm is a deterministic function from its state and a row to its next state. Its state stays secret and has
    no noise; an iterate that is released is scaled into the ball of models, gets noise, and is projected onto it again.
    Iterates that are not released cost nothing.

    **The sensitivity is the caller's claim.** privol proves the noise for it, but cannot prove the claim, and the
    guarantee says so. :func:`largest_ratio` tries to refute it.

    Parameters
    ----------
    update : callable
        ``update(state, row)`` returns the next state. A deterministic function of the row and the state alone.
    start : object
        State before the first row: public.
    sensitivity : float or callable
        Largest distance that changing one row moves an iterate, in L2 norm and with all rounding of ``update``. A
        function of t is for the iterate after row t, whichever of the rows up to t is changed. A number ``c`` means
        ``c / t``, the source's assumption (1).
    horizon : int
        Rows, at most.
    read : callable, optional
        ``read(state)``: the iterate, a vector of numbers. Default: the state is it.
    radius : float, default=1.0
        Of the L2 ball of models around 0, into which iterates are scaled before their noise.
    epsilon : float, default=1.0
        Budget of the whole run, above 0; ``inf``: no noise and no guarantee.
    delta : float, default=1e-6
        Additive term of approximate privacy, in (0, 1).
    release : {"all", "last"}, int or list of int, default="all"
        Rows after which an iterate is released.
    noise_shape : {"lipschitz", "smooth", "paper"}, default="lipschitz"
        Noise proportional to the sensitivity to the power of 2/3 or 1/2, or to 1/t, as printed.
    adjacency : {"replace", "zero_out"}, default="replace"
        The change that the declared sensitivity covers: a row changed in any way, or left out, which ``update`` must be
        able to do.
    ledger : Ledger, optional
        Shared budget. Default: one of its own, without a limit.
    random_state : None, int, BitGenerator or Generator, optional
        ``None``: noise that cannot be reproduced. Any other value is for tests: the guarantee is then marked not
        private.

    Attributes
    ----------
    point_ : ndarray of shape (dim,)
        The last released iterate; before the first release that of ``start``, which is public.
    plan_ : WrappedCalibration
    guarantee_ : Guarantee
    ledger_ : Ledger
    account_ : Account
        Its spending, in :attr:`ledger_`.
    n_rows_, n_releases_ : int

    Notes
    -----
    Noise on outputs has to be as large as what all earlier rows may have done. Where gradients can be had at released
    points, ``DPFTRL`` and ``NOGD`` (``ask`` and ``tell``) lose far less. Not thread-safe but for :meth:`close`; it
    cannot be copied.

    References
    ----------
    Jain, Kothari and Thakurta, "Differentially private online learning", 2012, Algorithm 1. Its own noise is in
    ``docs/errata.md`` (JKT-4); the proof of this one in ``docs/proofs/iterates.md``, section 2.

    Examples
    --------
    A mean that forgets, by steps of 1/10 towards each row of length 1. One row moves it by at most 2/10:

    >>> import numpy as np
    >>> from privol.wrapping import POCP
    >>> def update(point, row):
    ...     return point + 0.1 * (row - point)
    >>> mean = POCP(update, np.zeros(2), sensitivity=lambda t: 0.2, horizon=1000, release=100, epsilon=4.0)
    >>> rng = np.random.default_rng(0)
    >>> for row in rng.normal(0.5, 0.1, size=(1000, 2)):
    ...     seen = mean.learn(row / max(1.0, np.linalg.norm(row)))
    >>> mean.n_releases_
    10
    """

    def __init__(
        self,
        update: Callable[[Any, Any], Any],
        start: Any,
        *,
        sensitivity: float | Callable[[int], float],
        horizon: int,
        read: Callable[[Any], ArrayLike] | None = None,
        radius: float = 1.0,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        release: Any = "all",
        noise_shape: str = "lipschitz",
        adjacency: str = "replace",
        ledger: Ledger | None = None,
        random_state: Any = None,
    ) -> None:
        if not callable(update):
            raise InvalidParameter(f"update must be a function of a state and a row, found {update!r}")
        if ledger is not None and not isinstance(ledger, Ledger):
            raise InvalidParameter(f"ledger must be a privol.ledger.Ledger or None, found {ledger!r}")
        self._update, self._read = update, _reader(read)
        self._state: Any = copy.deepcopy(start)
        self._ball = L2Ball(number(radius=radius, at_least=1e-30, at_most=1e30))
        self.point_ = self._ball.project(_iterate(self._read, self._state))
        self._horizon = integer(horizon=horizon, at_least=1, at_most=_MOST_ROWS)
        budget = Budget(
            epsilon=number(epsilon=epsilon, above=0.0, infinite=True), delta=number(delta=delta, above=0.0, below=1.0)
        )
        self.plan_: WrappedCalibration = calibrate_wrapped(
            budget,
            ReleaseSchedule.of(release, self._horizon),
            _declared(sensitivity),
            dim=len(self.point_),
            radius=self._ball.radius,
            noise_shape=noise_shape,
        )
        noiseless = math.isinf(self.plan_.mu)
        large = (DELTA_TOO_LARGE,) if budget.delta * self._horizon >= 1.0 and not noiseless else ()
        self._source = None if noiseless else make_source(random_state)
        self.guarantee_ = Guarantee(
            kind="none" if noiseless else "gdp",
            parameter=self.plan_.mu,
            adjacency=choice(ADJACENCIES, adjacency=adjacency),
            horizon=self._horizon,
            releases=self.plan_.releases.count,
            delta=budget.delta,
            conditions=(
                "that one row moves an iterate by no more than the sensitivity declared for it, and that the update is "
                "deterministic and learns of rows through its arguments alone, is the user's claim: privol has not "
                "proved it",
                "the update, its start, the sensitivity, the radius, the release schedule and the horizon were chosen "
                "without looking at the rows",
                "whether the update failed at a row, and how long it took, is not hidden",
                *large,
            ),
            arithmetic="double precision, no noise" if noiseless else ARITHMETIC,
            bit_source="none" if self._source is None else self._source.description,
            private=self._source is not None and self._source.private,
        )
        for words in weaknesses(self.guarantee_, rows=self._horizon):
            warnings.warn(words, PrivacyWarning, stacklevel=2)
        self.n_rows_ = self.n_releases_ = 0
        self._spent, self._ended = 0.0, ""
        self._lock = threading.Lock()
        self.ledger_ = Ledger(adjacency=adjacency) if ledger is None else ledger
        self.account_ = self.ledger_.open(learner="POCP", guarantee=self.guarantee_)
        self.account_.attach(lambda: (self.n_rows_, self.n_releases_, self._spent), self._end)

    def learn(self, row: Any) -> FloatArray | None:
        """Learn one row; return the iterate released after it, or None if there is none.

        Parameters
        ----------
        row : object
            The row for ``update``: secret.

        Returns
        -------
        ndarray of shape (dim,), or None

        Raises
        ------
        BudgetExceeded
            If the horizon is used up: ``update`` is not called.
        StateError
            If the run has ended: by :meth:`close`, by its ledger, or because ``update`` or ``read`` failed before.
        """
        with self._lock:
            if self._ended:
                raise StateError(self._ended)
            if self.n_rows_ >= self._horizon:
                raise BudgetExceeded(f"the horizon of {self._horizon} rows is used up; nothing was learnt")
            try:
                self._state = self._update(self._state, row)
                due = self.n_releases_ < len(self.plan_.rows) and self.plan_.rows[self.n_releases_] == self.n_rows_ + 1
                iterate = _iterate(self._read, self._state, len(self.point_)) if due else None
            except BaseException:
                self._ended, self._state = "the update failed at a row, and the run has ended", None
                raise
            self.n_rows_ += 1
            if iterate is None:
                return None
            self.point_ = self._publish(iterate)
            return self.point_.copy()

    def learn_many(self, rows: Iterable[Any]) -> list[FloatArray]:
        """Learn rows in their order; return the iterates that are released."""
        return [seen for seen in map(self.learn, rows) if seen is not None]

    def close(self) -> None:
        """End the run: its ledger counts the releases, and the state is forgotten."""
        self._end("the run is closed; another one pays again")
        self.account_.close()

    # ---- what it claims, for privol verify -----------------------------------------------------------------

    @property
    def parameters_(self) -> dict[str, Any]:
        """The parameters that noise follows from. Public."""
        given = {"radius": self._ball.radius, "epsilon": self.guarantee_.epsilon(), "delta": self.guarantee_.delta}
        return given | {"horizon": self._horizon, "adjacency": self.guarantee_.adjacency}

    @property
    def mechanism_(self) -> dict[str, Any] | None:
        """What ``privol verify`` computes the guarantee from, the declared sensitivities in it; None without noise.

        Public.
        """
        words: dict[str, Any] = {"radius": self._ball.radius, "adjacency": self.guarantee_.adjacency}
        return wrapped_record(self.plan_, dim=len(self.point_), **words)

    # ---- the release ---------------------------------------------------------------------------------------

    def _publish(self, iterate: FloatArray) -> FloatArray:
        """Return the iterate with its noise; the charge comes first."""
        k, row = self.n_releases_, self.n_rows_
        inside = np.ascontiguousarray(self._ball.project(iterate))
        self.n_releases_ += 1
        if self._source is None:
            return inside
        std = float(self.plan_.stds[k])
        last = self.n_releases_ == len(self.plan_.rows)
        cost = square_up(float(self.plan_.sensitivities[k]) / std)
        self._spent = square_up(self.plan_.mu) if last else min(self._spent + cost, square_up(self.plan_.mu))
        noisy = self._source.add(inside, std, stream=STREAM_RELEASES, row=row, decide=decide_lattice_point)
        return np.asarray(self._ball.project(noisy))

    def _end(self, words: str) -> None:
        with self._lock:
            self._ended = self._ended or words
            self._state = None

    def __reduce__(self) -> NoReturn:
        raise StateError("a POCP holds a secret state and the source of its noise, and cannot be copied or pickled")


class Ratio(NamedTuple):
    """Distance that an iterate moved, in units of the declared sensitivity; above 1 the declaration is refuted.

    Attributes
    ----------
    ratio : float
    changed, after : int
        The row that was changed, and after which row the iterate moved that far; numbered from 1.
    """

    ratio: float
    changed: int
    after: int


def largest_ratio(
    update: Callable[[Any, Any], Any],
    start: Any,
    rows: Sequence[Any],
    others: Sequence[Any],
    *,
    sensitivity: float | Callable[[int], float],
    read: Callable[[Any], ArrayLike] | None = None,
    changed: Iterable[int] | None = None,
) -> Ratio:
    """Try to refute a declared sensitivity: change one row after the other, and measure how far iterates move.

    No ratio proves the claim; one above 1 refutes it. The rows are not secret: choose the worst that you can find, such
    as those whose gradients are opposite and of the largest norm. Cost: ``len(rows)`` updates for each changed row.

    Parameters
    ----------
    update, start, sensitivity, read
        As of :class:`POCP`.
    rows : sequence
        Rows of a stream.
    others : sequence
        As many rows: the replacement of each.
    changed : iterable of int, optional
        Numbers of the rows to change, from 1. Default: all of them.

    Returns
    -------
    Ratio
        The largest that was found.

    Raises
    ------
    InvalidParameter
        If two runs on the same rows differ, or the arguments do not fit.
    """
    declared, reader = _declared(sensitivity), _reader(read)
    if len(rows) != len(others) or not len(rows):
        raise InvalidParameter(f"rows and others must be equally many, at least 1, found {len(rows)} and {len(others)}")

    def iterates(stream: Sequence[Any]) -> FloatArray:
        state, found = copy.deepcopy(start), []
        for row in stream:
            state = update(state, copy.deepcopy(row))
            found.append(_iterate(reader, state).copy())
        return np.array(found)

    usual = iterates(rows)
    if not np.array_equal(usual, iterates(rows)):
        raise InvalidParameter("update must be deterministic: two runs on the same rows have different iterates")
    limits = np.array([number(sensitivity=declared(t), above=0.0) for t in range(1, len(rows) + 1)])
    best = Ratio(0.0, 1, 1)
    for k in range(1, len(rows) + 1) if changed is None else changed:
        k = integer(changed=k, at_least=1, at_most=len(rows))
        stream = [*rows[: k - 1], others[k - 1], *rows[k:]]
        ratios = np.linalg.norm(iterates(stream) - usual, axis=1) / limits
        worst = int(np.argmax(ratios))
        if ratios[worst] > best.ratio:
            best = Ratio(float(ratios[worst]), k, worst + 1)
    return best


def _declared(sensitivity: float | Callable[[int], float]) -> Callable[[int], float]:
    if callable(sensitivity):
        return sensitivity
    rate = number(sensitivity=sensitivity, above=0.0)
    return lambda t: rate / t


def _reader(read: Callable[[Any], ArrayLike] | None) -> Callable[[Any], ArrayLike]:
    if read is not None and not callable(read):
        raise InvalidParameter(f"read must be a function of a state or None, found {read!r}")
    return (lambda state: state) if read is None else read


def _iterate(read: Callable[[Any], ArrayLike], state: Any, dim: int | None = None) -> FloatArray:
    """Return the iterate of a state, checked."""
    try:
        found = np.asarray(read(state), dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameter("an iterate must be a vector of numbers: read= takes it from the state") from None
    if found.ndim != 1 or found.size == 0 or (dim is not None and len(found) != dim):
        shape = "(dim,)" if dim is None else f"({dim},)"
        raise InvalidParameter(f"an iterate must be a vector of shape {shape}, found shape {found.shape}")
    if not np.all(np.isfinite(found)):
        raise InvalidParameter("an iterate must be finite")
    return found
