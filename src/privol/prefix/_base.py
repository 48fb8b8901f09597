"""The base of prefix sums of vectors and of matrices: the plan, the life of a run, the guarantee."""

from __future__ import annotations

import math
import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from .._core._prefix import PrefixRun
from .._core._prefix_plan import PrefixPlan
from .._core._rows import squared_norms
from .._live_users import LiveUsers
from .._rounding import UNIT
from .._sparse import sound_rows
from .._validate import choice, integer, number
from .._values import NUMBERS, Unread, frame_of_numbers, numbers_of, refusal, row_of, unmasked
from .._vocabulary import ON_INVALID
from ..calibration import (
    CALIBRATIONS,
    MOST_ROWS,
    NO_LAST_ROW,
    Budget,
    Epochs,
    SumCalibration,
    less_than_all,
    make_epochs,
    sums_record,
    users_of,
)
from ..errors import InvalidParameter, PrivacyWarning, SourceFailure, StateError
from ..factorizations import BLT, DESIGNS, Banded, Design, Smooth, SquareRoot, forgets
from ..guarantees import ADJACENCIES, DELTA_TOO_LARGE, Guarantee, delta_of_noise, square_up, unchecked, weaknesses
from ..ledger import Ledger
from ..noise import ARITHMETIC, STREAM_RELEASES, Source, Unshared, decide_lattice_point, make_source

__all__ = ["FloatArray", "Sums", "plan_of", "plan_of_epochs"]

FloatArray = NDArray[np.float64]

_ROOT_TWO = math.nextafter(math.sqrt(2.0), 2.0)


def plan_of(
    found: SumCalibration, *, horizon: int, width: int | None = None, bound: float | None = None, gram: bool = False
) -> PrefixPlan:
    """The kernel's plan of a calibration.

    Parameters
    ----------
    found : SumCalibration
    horizon : int
        Rows: at most the calibration's leaves, and all of these needed.
    width, bound : optional
        Coordinates of a row and the bound of its norm, where these are not those of what is added up (``gram``).
    gram : bool
        What is added up is ``v v^T`` of a row v.
    """
    chosen, leaf = found.factorization, found.leaf
    steps = -(-horizon // leaf)
    if steps != chosen.steps:
        raise InvalidParameter(f"horizon must make {chosen.steps} leaves of {leaf} rows, found {horizon}")
    numbers: dict[str, Any] = {}
    if isinstance(chosen, Smooth):
        numbers["ones"] = chosen.shape[1]
    elif isinstance(chosen, BLT):
        numbers["theta"], numbers["omega"] = chosen.recursion
    elif isinstance(chosen, SquareRoot):
        numbers["coefficients"] = chosen.coefficients()
        numbers["decoder"] = None if chosen.window is None else chosen.decoder()
    elif isinstance(chosen, Banded):
        numbers["coefficients"] = chosen.coefficients()
    return PrefixPlan(
        design=chosen.design,
        width=found.dim if width is None else width,
        horizon=horizon,
        bound=found.bound if bound is None else bound,
        std=found.sigma,
        leaf=leaf,
        gram=gram,
        grid=found.grid,
        discount=chosen.discount,
        window=chosen.window or 0,
        **numbers,
    )


def plan_of_epochs(
    epochs: Epochs, *, width: int | None = None, bound: float | None = None, gram: bool = False
) -> PrefixPlan:
    """The kernel's plan of a run, followed by those of later epochs.

    Parameters
    ----------
    epochs : Epochs
    width, bound, gram : optional
        As for :func:`plan_of`.
    """
    plans = [
        plan_of(found, horizon=rows, width=width, bound=bound, gram=gram)
        for found, rows in zip(epochs.sums, epochs.rows, strict=True)
    ]
    if epochs.renewal != "none":
        for k, plan in enumerate(plans):
            plan.followed_by(plans[k + 1] if k < epochs.last else None)
    return plans[0]


def _without(X: Any, surplus: NDArray[np.bool_]) -> Any:
    """Rows in the kernels' form, some of them replaced by null rows."""
    if not surplus.any():
        return X
    X = X.copy()
    if sparse.issparse(X):
        X.data[np.repeat(surplus, np.diff(X.indptr))] = 0.0
    else:
        X[surplus] = 0.0
    return X


class Sums(Unshared):
    """The base of prefix sums of vectors and of matrices; see :class:`PrefixSum`."""

    _called = "a live prefix sum"
    _gram: ClassVar[bool] = False

    def __init__(
        self,
        *,
        width: int,
        gram: bool,
        horizon: int | None,
        bound: float,
        epsilon: float,
        delta: float,
        design: str,
        rows_per_user: int | None,
        user_separation: int,
        count_users: bool,
        adjacency: str,
        leaf: int,
        buffers: int,
        bandwidth: int | None,
        objective: str,
        theta: Sequence[float] | None,
        omega: Sequence[float] | None,
        discount: float,
        window: int | None,
        first_epoch: int,
        calibration: str,
        ledger: Ledger | None,
        on_invalid: str,
        random_state: Any,
    ) -> None:
        self._width, self._is_gram = width, gram
        self._endless = horizon is None and forgets(discount, window)
        horizon = MOST_ROWS if self._endless else horizon
        self._horizon = None if horizon is None else integer(horizon=horizon, at_least=1, at_most=MOST_ROWS)
        self._bound = number(bound=bound, at_least=1e-14, at_most=1e14)
        self._delta = number(delta=delta, above=0.0, below=1.0)
        self._budget = Budget(
            epsilon=number(epsilon=epsilon, above=0.0, infinite=True),
            delta=delta_of_noise(self._delta, rows_per_user),
            calibration=choice(CALIBRATIONS, calibration=calibration),
        )
        self._adjacency = choice(ADJACENCIES, adjacency=adjacency)
        self._users = users_of(rows_per_user, user_separation)
        self._leaf = integer(leaf=leaf, at_least=1, at_most=1 << 20)
        self._design = Design(
            name=choice(DESIGNS, design=design),
            leaf=self._leaf,
            discount=discount,
            window=window,
            buffers=buffers,
            bandwidth=bandwidth,
            objective=objective,
            theta=theta,
            omega=omega,
            **self._users,
        )
        self._first_epoch = integer(first_epoch=first_epoch, at_least=1, at_most=1 << 40)
        self._refuse = choice(ON_INVALID, on_invalid=on_invalid) == "raise"
        self._counting = self._who_counts(count_users)
        if self._budget.published and (horizon is None or leaf != 1 or gram):
            raise InvalidParameter("calibration='published' is for vectors, a known horizon and leaf=1")
        if ledger is not None and not isinstance(ledger, Ledger):
            raise InvalidParameter(f"ledger must be a privol.ledger.Ledger or None, found {ledger!r}")
        self._epochs = self._calibrate()
        noisy = not math.isinf(self._epochs.mu)
        self._source = make_source(random_state) if noisy else None
        self.guarantee_ = self._promise()
        for words in weaknesses(self.guarantee_, rows=1 if self._endless else self._epochs.rows[0]):
            warnings.warn(words, PrivacyWarning, stacklevel=3)
        self._run = self._begin(self._source)
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._closed = False
        self._revoked: str | None = None
        self.ledger_ = Ledger(adjacency=self._adjacency) if ledger is None else ledger
        #: The run's account in the ledger.
        self.account_ = self.ledger_.open(learner=type(self).__name__, guarantee=self.guarantee_)
        self.account_.attach(self._counters, self._revoke)

    def _who_counts(self, count_users: bool) -> LiveUsers | None:
        """The object that keeps the cap on the rows of users, or None."""
        if not isinstance(count_users, bool):
            raise InvalidParameter(f"count_users must be True or False, found {count_users!r}")
        if not count_users:
            return None
        if not self._users:
            raise InvalidParameter(
                "users are counted where the budget is for users: rows_per_user says for how many rows of each, found "
                "None"
            )
        return LiveUsers(**self._users, refuse=self._refuse)

    # ---- the plan ------------------------------------------------------------------------------------------

    def _calibrate(self) -> Epochs:
        """The mechanisms of the run: one if the horizon is known."""
        dim = self._width * (self._width + 1) // 2 if self._is_gram else self._width
        largest = self._bound * self._bound if self._is_gram else self._bound
        one = largest if self._adjacency == "zero_out" else (_ROOT_TWO if self._is_gram else 2.0) * largest
        return make_epochs(
            "double" if self._horizon is None else "none",
            self._budget,
            rows=self._first_epoch * self._leaf if self._horizon is None else self._horizon,
            design=self._design,
            dim=dim,
            bound=largest,
            adjacency=self._adjacency,
            sensitivity=one if self._is_gram else None,
            rounding=4 * UNIT * self._is_gram,  # of v v^T: sqrt(2) and two products
        )

    def _promise(self) -> Guarantee:
        found, rows = self._epochs.sums[0], self._epochs.horizon
        none = self._source is None
        conditions = [
            "the bound, the horizon, the design and all other parameters, but for the number of rows, which is public, "
            "were chosen without looking at the rows",
        ]
        if self._refuse:
            conditions.append("whether a row was refused is not hidden")
        if self._horizon is None:
            conditions.append(self._epochs.condition())
        elif self._endless:
            conditions.append(NO_LAST_ROW)
        elif self._delta * rows >= 1.0 and not none:
            conditions.append(DELTA_TOO_LARGE)
        stated = self._delta if found.claim is None else found.claim.delta
        users: dict[str, Any] = dict(self._users)
        if users:
            factor = self._epochs.user_factor(**self._users)
            users |= {"unit": "user", "user_factor": less_than_all(factor, users["rows_per_user"])}
        promise = Guarantee(
            kind="none" if none else "gdp",
            parameter=self._epochs.mu,
            adjacency=self._adjacency,
            horizon=rows,
            releases=-(-rows // self._leaf),
            delta=stated,
            claim=found.claim,
            conditions=tuple(conditions),
            arithmetic="double precision, no noise" if none else ARITHMETIC.replace("iterate", "sum"),
            bit_source="none" if self._source is None else self._source.description,
            private=self._source is not None and self._source.private,
            released="sums",
            **users,
        )
        if self._counting is not None:
            conditions += self._counting.conditions
            return replace(promise, conditions=tuple(conditions), users_fixed=self._counting.users_fixed)
        return replace(promise, conditions=(*conditions, unchecked(promise))) if users else promise

    def _begin(self, source: Source | None) -> PrefixRun:
        plan = plan_of_epochs(self._epochs, width=self._width, bound=self._bound, gram=self._is_gram)
        return PrefixRun(
            plan, horizon=self._epochs.horizon, source=source, stream=STREAM_RELEASES, decide=decide_lattice_point
        )

    def _counters(self) -> tuple[int, int, float]:
        """The figures for a ledger: the first draw spends the whole budget, as one mechanism."""
        releases = self._run.n_steps
        return self._run.n_rows, releases, square_up(self.guarantee_.mu) if releases else 0.0

    def _revoke(self, words: str) -> None:
        self._revoked = words  # first, for a run that replaces this one in the meantime
        self._run.revoke(words)

    # ---- rows ----------------------------------------------------------------------------------------------

    def _enter(self) -> None:
        if os.getpid() != self._pid:
            raise SourceFailure(
                "this prefix sum was created before the process forked; the parent may draw the same noise. Create it "
                "in the process that uses it"
            )
        if self._closed:
            raise StateError("the run is closed; another one pays again")

    def _rows(self, X: Any) -> Any:
        """A block in the kernels' form, with its shape checked."""
        read, unread = numbers_of(sound_rows(frame_of_numbers(X), null=not self._refuse), self._width)
        rows = read if sparse.issparse(read) else np.asarray(read)
        if rows.dtype.kind not in NUMBERS:
            raise InvalidParameter(f"rows must hold numbers, found dtype {rows.dtype}")
        if rows.dtype not in (np.float64, np.float32):
            rows = rows.astype(np.float64)
        if rows.ndim != 2 or rows.shape[1] != self._width:
            raise InvalidParameter(f"rows must have shape (n, {self._width}), found {rows.shape}")
        self._refuse_unread(unread)
        return rows

    def _row(self, x: Any, width: int) -> Any:
        """One row in the kernels' form; the shape of an array of numbers is checked elsewhere."""
        if isinstance(x, np.ndarray) and x.dtype.kind in NUMBERS:
            return unmasked(x)
        row, unread = row_of(x, width)
        self._refuse_unread(unread)
        return row

    def _refuse_unread(self, unread: Unread | None) -> None:
        if unread is not None and self._refuse:
            raise refusal(unread, self._run.n_rows)

    def _add(self, X: Any, every: bool, users: ArrayLike | None) -> FloatArray:
        """Check a block, then learn it."""
        self._enter()
        if self._refuse:
            squared_norms(X, learnt=self._run.n_rows, refuse=True)
        self._told(users)
        with self._lock:
            if self._counting is None:
                return self._run.add_block(X, every=every)
            with self._counting.counted(users, X.shape[0], lambda: self._run.n_rows) as surplus:
                return self._run.add_block(_without(X, surplus), every=every)

    def _told(self, users: Any) -> None:
        """Refuse rows without a user if users are counted, and users if they are not."""
        if (users is None) != (self._counting is None):
            raise InvalidParameter(
                f"users must be given with all rows if count_users=True, and otherwise with none: found "
                f"{'none' if users is None else 'some'}"
            )

    # ---- public --------------------------------------------------------------------------------------------

    @property
    def parameters_(self) -> dict[str, Any]:
        """The parameters that noise follows from, for ``privol verify``; ``power`` 2: of ``v v^T`` of rows. Public."""
        given: dict[str, Any] = {"dim": self._width, "bound": self._bound, "adjacency": self._adjacency}
        given |= {"epsilon": self._budget.epsilon, "delta": self._delta, "horizon": self._horizon, "leaf": self._leaf}
        given |= {"design": self._design.name, "bandwidth": self._design.bandwidth, "discount": self._design.discount}
        given |= {
            "power": 1 + self._is_gram,
            "window": self._design.window,
            "rows_per_user": None,
            "user_separation": 1,
            **self._users,
        }
        return given

    @property
    def mechanism_(self) -> dict[str, Any] | None:
        """What ``privol verify`` computes the guarantee from; None without noise. Public."""
        words: dict[str, Any] = {"bound": self._bound, "adjacency": self._adjacency, "leaf": self._leaf}
        return sums_record(self._epochs, gram=self._is_gram, **words)

    @property
    def n_rows_(self) -> int:
        """Rows learnt."""
        return self._run.n_rows

    @property
    def n_releases_(self) -> int:
        """The number of prefix sums released, one for each complete leaf."""
        return self._run.n_steps

    @property
    def weight_(self) -> float:
        """Sum of the weights of the rows in the last prefix sum, or their number without weights. Public."""
        return self._run.weight

    def std(self, step: int | None = None) -> float:
        """Standard deviation per coordinate of the noise of a prefix sum. Public.

        Parameters
        ----------
        step : int, optional
            Number of the prefix sum, which is that of its leaf, from 1; 0 for the zeros before the first. Default: the
            last one released.

        Returns
        -------
        float
            Of a sum of matrices: of an entry on the diagonal; off it, this over sqrt(2).
        """
        at = self._run.n_steps if step is None else integer(step=step, at_least=0)
        steps = self._epochs.sums[0].factorization.steps
        if self._horizon is not None and at > steps:
            raise InvalidParameter(f"step must be at most {steps}, found {step}")
        # epochs have whole leaves, except the last one of a known horizon
        return self._epochs.std(*self._epochs.step(min(at * self._leaf, self._epochs.horizon), ended=True))

    def close(self) -> None:
        """End the run: the last leaf is completed as it is and released, the secret state wiped, the account settled.

        The last prefix sum can still be read. Closing twice is harmless.

        Raises
        ------
        StateError
            If a prefix sum is due and the run's account is closed: the run ends without it.
        """
        if self._closed:
            return
        self._enter()
        with self._lock:
            try:
                self._run.finish()
            finally:
                # what failed because of an error of the noise can be tried again; on a closed account it cannot
                self._closed = self._revoked is not None
            self._closed = True
            self._run.close()
        self.account_.close()

    # ---- secret --------------------------------------------------------------------------------------------

    def secret_state(self) -> dict[str, NDArray[Any]]:
        """The whole state as named arrays: SECRET, noise key included.

        Keep it as the rows themselves (a file of mode 0600), and only to go on after a crash.

        Raises
        ------
        StateError
            If the run is closed.
        """
        self._enter()
        with self._lock:
            arrays = self._run.secret_arrays()
            seen = {} if self._counting is None else self._counting.secret_arrays()
        return {**arrays, **seen, "private": np.array([self.guarantee_.private])}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from :meth:`secret_state` of a prefix sum with the same parameters; this one must be fresh.

        The noise of what follows is that of the saved run. So the rows that follow must be those that followed there,
        if any did: other rows with the same noise show their difference in the clear.

        Raises
        ------
        StateError
            If this prefix sum has rows, or the state is of other parameters.
        """
        self._enter()
        if self._revoked is not None:
            raise StateError(self._revoked)
        if self._run.n_rows:
            raise StateError("only a fresh prefix sum can be restored")
        if bool(arrays["private"][0]) != self.guarantee_.private:
            raise StateError("random_state must be None for a state whose noise is secret, and not otherwise")
        source = self._source
        if source is not None:
            source = Source(bytes(arrays["key"]), private=source.private, description=source.description)
        if self._counting is None and "users_key" in arrays:
            raise StateError("the state is of a run that counts users, and this one does not")
        run = self._begin(source)
        run.restore(arrays)
        if self._counting is not None:
            self._counting.restore(arrays)
        with self._lock:
            self._run.close()
            self._source, self._run = source, run
            if self._revoked is not None:
                run.revoke(self._revoked)
