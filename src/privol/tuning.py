"""Private tuning: the best of many fits within one budget, whatever the number of candidates.

Fitting every candidate and publishing the best releases all fits, and a choice by raw scores also reveals something
about the scored rows. Here a random number of random candidates is fitted, and only the best by a private score is
released. This costs about twice as much as a single fit, however many fits there were (Papernot and Steinke 2022;
``docs/proofs/selection.md``).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from ._core._rows import squared_norms
from ._live_users import LiveUsers, counting_for
from ._validate import choice, number
from .calibration import budget_of_rows, check_user
from .errors import InvalidParameter, PrivacyWarning, ScaledRowsWarning, SelectionFailure, SolverFailure, StateError
from .guarantees import (
    ADJACENCIES,
    DELTA_TOO_LARGE,
    Guarantee,
    ShowsGuarantee,
    delta_of_noise,
    gdp_epsilon,
    pure_within_gdp,
    selection_mu,
    square_up,
    unchecked,
    weaknesses,
)
from .learners import LedgeredModel
from .learners.views import (
    Targets,
    TrainingRows,
    fresh_copy,
    mechanism_of,
    promise_of,
    released_copy,
    training_rows,
)
from .ledger import Account, Ledger
from .losses import get_loss
from .noise import BitGenerator, DiscreteLaplace, Gaussian

__all__ = ["PrivateSelection", "repetitions_of"]

FloatArray = NDArray[np.float64]

_SHARE = 1 << 20  # the integer that stands for a score of 1


def repetitions_of(mean: float) -> int:
    """Return m of the law of the number of fits: P(k) proportional to ``(1 - 1/m)^k / k``.

    Parameters
    ----------
    mean : float
        Mean number of fits, above 1, at most 1e6.

    Returns
    -------
    int
        The smallest m, at least 2, with the mean ``(m - 1) / ln m`` at least as large.
    """
    mean = number(repetitions=mean, above=1.0, at_most=1e6)
    low, high = 1, 2
    while (high - 1) / math.log(high) < mean:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if (middle - 1) / math.log(middle) < mean else (low, middle)
    return high


def _number_of_fits(m: int, bits: np.random.Generator) -> int:
    """Draw k with P(k) in proportion to ``(1 - 1/m)^k / k``, exactly, from about m integer draws.

    A k below the first power of two from m on is proposed by its number of binary digits, a larger one as a geometric
    number: docs/proofs/selection.md proves that the accepted ones have this distribution.
    """
    top = (m - 1).bit_length()
    while True:
        digits = int(bits.integers(top + 1))
        if digits < top:
            least = 1 << digits
            k = least + int(bits.integers(least))
            if bits.integers(k) < least and _before_zero(m, bits) >= k:
                return k
        else:
            k = _before_zero(m, bits)
            if k >= 1 << top and bits.integers(k) < m:
                return k


def _before_zero(m: int, bits: np.random.Generator) -> int:
    """Draw how many uniform integers below m come before the first 0: at least k with probability (1 - 1/m)^k."""
    count, size = 0, min(m, 1 << 16)
    while True:
        zeros = np.flatnonzero(bits.integers(m, size=size) == 0)
        if len(zeros):
            return count + int(zeros[0])
        count += size


@dataclass(frozen=True)
class _OneRun:
    """The cost of one row in a fit, or in its score: pure differential privacy, or anything within mu-GDP."""

    epsilon: float
    mu: float | None = None

    @classmethod
    def of_selection(cls, epsilon: float, delta: float, m: int, rows: int = 1) -> _OneRun:
        """Keep a user's rows together within the budget, and each row within its part of epsilon."""
        if delta == 0.0:
            return cls(budget_of_rows(0.5 * epsilon, 0.0, rows, curve=False)[0])
        mu = selection_mu(epsilon, delta, m)
        if rows > 1:
            mu = min(math.nextafter(mu / rows, 0.0), selection_mu(epsilon / rows, delta, m))
        if not 0.0 < mu < math.inf:
            raise InvalidParameter(
                f"epsilon={epsilon:g} with delta={delta:g} leaves nothing for a fit, or sets no limit: give another "
                "epsilon, or fewer candidates"
            )
        return cls(pure_within_gdp(mu), mu)

    def covers(self, guarantee: Guarantee) -> bool:
        if guarantee.claim is not None:
            return False
        if guarantee.kind == "pure":
            return guarantee.parameter <= self.epsilon
        return guarantee.kind == "gdp" and self.mu is not None and guarantee.mu <= self.mu

    @property
    def scale(self) -> float:
        """Of the noise on a sum that one row moves by at most _SHARE; an exact double."""
        return math.nextafter(_SHARE / (self.epsilon if self.mu is None else self.mu), math.inf)

    def add_noise(self, total: int, random_state: Any) -> float:
        """Add noise to a sum that one row moves by at most _SHARE."""
        if self.mu is None:
            return int(DiscreteLaplace(scale=self.scale, random_state=random_state).add(np.array([total]))[0])
        return float(Gaussian(scale=self.scale, random_state=random_state).add(np.array([float(total)]))[0])


@dataclass(frozen=True)
class _Scored:
    score: float  # including noise
    tie: int
    index: int
    learner: Any


@dataclass(frozen=True)
class _Selected:
    best: _Scored
    guarantee: Guarantee
    account: Account
    mechanism: dict[str, Any] | None
    held: int
    classes: NDArray[Any] | None


def _usable(X: Any, codes: FloatArray) -> tuple[Any, NDArray[np.bool_]]:
    """Rows with zeros in place of those that are null or have no target, and which rows are usable.

    The number of rows does not change: a matrix product rounds by its shape, and no row may move another's prediction.
    """
    usable = (squared_norms(X) >= 0.0) & ~np.isnan(codes)
    if sparse.issparse(X):
        kept = X.copy()
        kept.data[np.repeat(~usable, np.diff(kept.indptr))] = 0.0
        return kept, usable
    return np.where(usable[:, None], X, 0.0), usable


def _with_null_rows(X: Any, null: NDArray[np.bool_]) -> Any:
    """Rows, some of which get a NaN entry and so become null rows; the others keep every entry."""
    if not sparse.issparse(X):
        return np.where(null[:, None], np.nan, X)
    entries = np.diff(X.indptr)
    kept = np.repeat(~null, entries)
    pointers = np.append(0, np.cumsum(np.where(null, 1, entries)))
    old = np.ones(pointers[-1], dtype=bool)
    old[pointers[:-1][null]] = False
    data, columns = np.full(len(old), np.nan, dtype=X.data.dtype), np.zeros(len(old), dtype=X.indices.dtype)
    data[old], columns[old] = X.data[kept], X.indices[kept]
    return sparse.csr_array((data, columns, pointers.astype(X.indptr.dtype)), shape=X.shape)


class PrivateSelection(ShowsGuarantee, BaseEstimator):  # type: ignore[misc]
    """The best of a random number of private fits, as one release.

    A number of times, drawn from a logarithmic law, a candidate is drawn at random, fitted to the first rows with about
    half of the budget, and scored on the last rows with noise for the other half. The fit with the best noisy score is
    released, with its score and its parameters. Secret: all other fits and scores, and their number.

    Parameters
    ----------
    candidates : sequence of learners
        Of privol, all for classes or all for targets. With guarantees of pure differential privacy
        (``OutputPerturbation``, ``ObjectivePerturbation``, ``POL`` with ``delta=0``; ``LDPSGD``, ``BANCO``,
        ``MultiscaleSGD`` with a pure randomizer), or if `delta` is above 0 also of Gaussian differential privacy (the
        same with a delta, except ``ObjectivePerturbation``, and the online learners: ``DPFTRL``, ``PIGD``, ...).
        Their ``epsilon``, ``adjacency``, ``ledger`` and ``random_state`` are set here.
    epsilon : float, default=1.0
        Of the whole selection, above 0.
    delta : float, default=0.0
        0: pure differential privacy, every fit has half of epsilon. Above 0, below 1: the selection is (epsilon,
        delta)-differentially private, by fits and scores of Gaussian differential privacy.
    rows_per_user : int, optional
        The budget covers all rows of one user together, at most this many, by group privacy: fits and
        scores have the noise for a budget smaller by this factor. ``fit(users=)`` enforces the number; otherwise nobody
        checks it, and the guarantee says so. Default: it covers one row.
    repetitions : float, default=20.0
        Mean number of fits, above 1. It costs time, not privacy. For k candidates it should be some times k.
    validation : float, default=0.2
        Share of the rows, the last ones, on which candidates are scored. In (0, 1).
    error_bound : float, default=1.0
        For regression: absolute errors are clipped to it.
    adjacency : {"replace", "zero_out"}, default="replace"
    ledger : Ledger, optional
        Shared budget. Default: one of its own, without a limit.
    random_state : None, int, BitGenerator or Generator, optional
        ``None``: noise that cannot be reproduced. Any other value is for tests: the release is marked not private.

    Attributes
    ----------
    best_estimator_ : learner
        The released one, with the guarantee of the whole selection.
    best_index_ : int
        Its place among the candidates.
    best_score_ : float
        Its noisy score: the share of the validation rows that it labels correctly, or one minus the mean absolute error
        as a share of ``error_bound``.
    guarantee_ : Guarantee
    mechanism_ : dict or None
        What the guarantee follows from, as JSON values: of each candidate's fit, of the scores' noise, of the number of
        fits. All of it is public. :func:`privol.state.save_run` writes it for ``privol verify``.
    ledger_ : Ledger
    classes_ : ndarray

    Notes
    -----
    The duration of the selection may reveal how many fits there were, which depends on no row, and how long
    they took, which may.

    References
    ----------
    Papernot and Steinke, "Hyperparameter tuning with Renyi differential privacy", 2022: the truncated negative binomial
    law with eta = 0. Liu and Talwar, "Private selection from private candidates", 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from privol import ObjectivePerturbation
    >>> from privol.tuning import PrivateSelection
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20000, 3)) / 3
    >>> y = np.where(X @ [1.0, -2.0, 0.5] > 0, "yes", "no")
    >>> candidates = [ObjectivePerturbation(delta=0, l2=l2) for l2 in (1e-4, 1e-2, 1.0)]
    >>> chosen = PrivateSelection(candidates, epsilon=1.0).fit(X, y)
    >>> bool(chosen.score(X, y) > 0.9)
    True
    """

    def __init__(
        self,
        candidates: Sequence[Any],
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        rows_per_user: int | None = None,
        repetitions: float = 20.0,
        validation: float = 0.2,
        error_bound: float = 1.0,
        adjacency: str = "replace",
        ledger: Ledger | None = None,
        random_state: Any = None,
    ) -> None:
        self.candidates = candidates
        self.epsilon = epsilon
        self.delta = delta
        self.rows_per_user = rows_per_user
        self.repetitions = repetitions
        self.validation = validation
        self.error_bound = error_bound
        self.adjacency = adjacency
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, users: ArrayLike | None = None) -> Self:
        """Select, and release one fit. Every call pays again.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, n_features)
        y : array-like of shape (n,)
            Labels (public, as found, unless the candidates have declared them) or real targets.
        users : array-like of shape (n,), optional
            Whose row each row is, texts or numbers, if the budget is for users: a row beyond it is a null row if
            the candidates have ``on_invalid="zero"``, otherwise nothing is fitted.

        Raises
        ------
        InvalidParameter, InvalidRow, BudgetExceeded
            Before anything is fitted or spent.
        SelectionFailure
            If a fit's solver failed. This, and any other end after the budget is reserved, including Ctrl-C, is
            charged as a release.
        """
        # the checked values are the ones used, even if parameters are set meanwhile
        return self._take(self._fixed()._select(X, y, users))

    def _fixed(self) -> Self:
        """The parameters and candidates as they are now."""
        fixed = object.__new__(type(self))
        fixed.__dict__.update(self.__dict__)
        if not isinstance(fixed.candidates, Sequence) or not fixed.candidates:
            raise InvalidParameter(f"candidates must be a sequence of learners, found {fixed.candidates!r}")
        copies = []
        for candidate in fixed.candidates:
            if not isinstance(candidate, LedgeredModel):
                raise InvalidParameter(f"candidates must be learners of privol, found {candidate!r}")
            copies.append(fresh_copy(candidate))
        fixed.candidates = tuple(copies)
        return fixed

    def _take(self, found: _Selected) -> Self:
        self._account: Account = found.account
        self.best_estimator_ = released_copy(found.best.learner, found.guarantee)
        self.best_index_ = found.best.index
        self.best_score_ = found.best.score / (_SHARE * found.held)
        self.guarantee_ = found.guarantee
        self.mechanism_ = found.mechanism
        if found.classes is not None:
            self.classes_ = found.classes
        return self

    def _select(self, X: ArrayLike, y: ArrayLike, users: ArrayLike | None) -> _Selected:
        whole = number(epsilon=self.epsilon, above=0.0)
        delta = number(delta=self.delta, at_least=0.0, below=1.0)
        m = repetitions_of(self.repetitions)
        most = 1 if self.rows_per_user is None else check_user(self.rows_per_user, 1)[0]
        adjacency = choice(ADJACENCIES, adjacency=self.adjacency)
        first = self._first()
        counting = counting_for(self, users, None, refuse=first.on_invalid == "raise")
        if counting is not None:  # a guarantee at only one delta leaves no delta for two users with the same hash
            delta = delta_of_noise(delta, most)
        one = _OneRun.of_selection(whole, delta, m, most)
        number(error_bound=self.error_bound, above=0.0)
        one.add_noise(0, 0)  # refuses a scale that cannot be drawn
        rows = training_rows(first, X, y)
        if counting is not None:
            surplus = counting.admit(users, rows.X.shape[0], 0)
            if surplus.any():
                codes = np.where(surplus, np.nan, rows.codes)
                rows = replace(rows, X=_with_null_rows(rows.X, surplus), codes=codes)
        classes, n = rows.targets.classes, rows.X.shape[0]
        held = math.floor(n * number(validation=self.validation, above=0.0, below=1.0))
        if not 0 < held < n:
            raise InvalidParameter(f"validation={self.validation:g} of {n} rows leaves none to fit or none to score")
        shape = (rows.X.shape[1], n - held, 2 if classes is None else len(classes))
        budgets = [self._budget(candidate, one, classes, shape) for candidate in self.candidates]
        made = [self._made(*each, classes, 0) for each in zip(self.candidates, budgets, strict=True)]
        mechanism = self._mechanism([mechanism_of(each, *shape) for each in made], one, m, delta, n, held)
        bits = BitGenerator(self.random_state)
        guarantee = self._for_users(
            self._guarantee(whole, delta, n, held, adjacency, rows.conditions, bits), most, counting
        )
        for words in weaknesses(guarantee, rows=n):
            warnings.warn(words, PrivacyWarning, stacklevel=3)
        account = self._ledger(adjacency).open(learner=type(self).__name__, guarantee=guarantee)
        # any ending may depend on the rows: an error, a time limit; and a traceback may hold fits
        account.attach(lambda: (n, 1, square_up(guarantee.mu)))
        try:
            best = self._best(rows, one, budgets, m, np.random.Generator(bits), n - held)
            account.ask()
        finally:
            account.close()
        return _Selected(best, guarantee, account, mechanism, held, classes)

    # ---- the candidates -----------------------------------------------------------------------------

    def _first(self) -> Any:
        """Check that the candidates are of one kind, and return the first."""
        kinds = {get_loss(candidate.loss).kind for candidate in self.candidates}
        if len(kinds) > 1:
            found = ", ".join(f"{get_loss(candidate.loss).name} ({i})" for i, candidate in enumerate(self.candidates))
            raise InvalidParameter(f"candidates must all be for classes or all for targets, found both: {found}")
        for candidate in self.candidates:
            if getattr(candidate, "rows_per_user", None) is not None:
                raise InvalidParameter(
                    f"rows_per_user of candidates must be None, found {candidate.rows_per_user!r}: that of the "
                    "selection makes its budget, and so theirs, one for users"
                )
        refusing = {candidate.on_invalid for candidate in self.candidates}
        if len(refusing) > 1:
            raise InvalidParameter(f"candidates must have the same on_invalid, found {' and '.join(sorted(refusing))}")
        return self.candidates[0]

    def _made(self, candidate: Any, epsilon: float, classes: NDArray[Any] | None, random_state: Any) -> Any:
        made = fresh_copy(candidate)
        words = {"mu": None} if "mu" in candidate.get_params(deep=False) else {}  # epsilon replaces it
        made.set_params(epsilon=epsilon, adjacency=self.adjacency, ledger=None, random_state=random_state, **words)
        return made if classes is None else made.declare_classes(classes)

    def _budget(self, candidate: Any, one: _OneRun, classes: NDArray[Any] | None, shape: tuple[int, int, int]) -> float:
        """Return the epsilon of a candidate's fits; refuse one whose fits cost more, before anything is fitted."""
        given = candidate.get_params(deep=False)
        own, horizon = given.get("delta") or 0.0, given.get("horizon")
        if horizon is not None and horizon < shape[1]:
            raise InvalidParameter(
                f"{candidate!r} has a horizon of {horizon}, allowed are at least the {shape[1]} rows that are to be "
                "fitted, or None"
            )
        budgets = [one.epsilon]
        if one.mu is not None and own > 0.0:
            budgets.insert(0, gdp_epsilon(one.mu, own) * (1.0 - 1e-9))  # downwards: the fit's mu is checked
        found = []
        for epsilon in budgets:
            guarantee = promise_of(self._made(candidate, epsilon, classes, 0), *shape)
            if one.covers(guarantee):
                return epsilon
            found.append(guarantee.kind)
        kinds = "pure differential privacy" if one.mu is None else "Gaussian or pure differential privacy"
        raise InvalidParameter(
            f"candidates must have guarantees of {kinds}, proved for their epsilon; found {candidate!r}, of kind "
            f"{found[0]!r}; offline learners are purely private with delta=0"
        )

    def _mechanism(
        self, fits: Sequence[Any], one: _OneRun, m: int, delta: float, n: int, held: int
    ) -> dict[str, Any] | None:
        """Return the public record of all that may be fitted; None if a candidate's mechanism has none."""
        if None in fits:
            return None
        return {
            "first_row": 1,
            "kind": "selection",
            "adjacency": self.adjacency,
            "rows": n,
            "fitted_rows": n - held,
            "scored_rows": held,
            "repetitions": float(self.repetitions),
            "m": m,
            "delta": delta or None,
            "score_bound": _SHARE,
            "noise": {"law": "discrete_laplace" if one.mu is None else "gaussian", "scale": one.scale},
            "fits": fits,
        }

    def _best(
        self,
        rows: TrainingRows,
        one: _OneRun,
        budgets: Sequence[float],
        m: int,
        bits: np.random.Generator,
        n_train: int,
    ) -> _Scored:
        best: _Scored | None = None
        X, y, codes, targets = rows.X, rows.labels, rows.codes, rows.targets
        held, usable = _usable(X[n_train:], codes[n_train:])
        for _ in range(_number_of_fits(m, bits)):
            index = int(bits.integers(len(self.candidates)))
            tie = int(bits.integers(1 << 62))
            keys = [None if self.random_state is None else int(bits.integers(1 << 62)) for _ in range(2)]
            made = self._made(self.candidates[index], budgets[index], targets.classes, keys[0])
            failed = False
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", PrivacyWarning)  # the release has the selection's guarantee
                    # which candidates are fitted, and how many, is secret
                    warnings.simplefilter("ignore", ScaledRowsWarning)
                    made.fit(X[:n_train], y[:n_train])
            except SolverFailure:
                failed = True
            if failed:  # raised here, with no link to the solver's own error
                raise SelectionFailure(
                    f"the solver of candidate {index} failed: nothing was released, and the budget counts as spent, as "
                    "that it failed is seen. More steps (max_iter) or a larger l2 may help"
                )
            if not one.covers(made.guarantee_) or made.guarantee_.adjacency != self.adjacency:
                raise StateError(f"the guarantee of candidate {index} is not the one that was checked")
            noisy = one.add_noise(self._score(made, held, codes[n_train:], usable, targets), keys[1])
            if best is None or (noisy, tie) > (best.score, best.tie):
                best = _Scored(noisy, tie, index, made)
        assert best is not None
        return best

    def _score(self, made: Any, X: Any, codes: FloatArray, usable: NDArray[np.bool_], targets: Targets) -> int:
        """Sum over rows of integers from 0 to ``_SHARE``; rows that are not usable count 0."""
        predicted = made.predict(X)
        if "classes_" in vars(made):
            return int(np.count_nonzero((targets.encode(predicted, 0) == codes) & usable)) * _SHARE
        wrong = np.abs(predicted - np.where(usable, codes, 0.0)) / float(self.error_bound)
        right = usable & (wrong < 1.0)  # false where a prediction overflowed
        return int(np.sum(np.floor((1.0 - wrong[right]) * _SHARE).astype(np.int64)))

    # ---- what is released ---------------------------------------------------------------------------

    def _guarantee(
        self,
        epsilon: float,
        delta: float,
        n: int,
        held: int,
        adjacency: str,
        conditions: tuple[str, ...],
        bits: BitGenerator,
    ) -> Guarantee:
        vouched = dict.fromkeys(get_loss(candidate.loss).vouched for candidate in self.candidates)
        return Guarantee(
            kind="approximate" if delta else "pure",
            parameter=epsilon,
            slack=delta,
            adjacency=adjacency,
            horizon=n,
            releases=1,
            delta=delta or 1e-6,
            conditions=(
                "the candidates, the bounds, the labels and all other parameters, but for the number of rows, which is "
                "public, were chosen without looking at the rows",
                f"the last {held} rows are those that candidates are scored on",
                "whether a row was refused, and that a solver failed, which ends the selection with an error, is not "
                "hidden, and the time that the selection took is not covered",
                *conditions,
                *(words for words in vouched if words is not None),
                *((DELTA_TOO_LARGE,) if delta * n >= 1.0 else ()),
            ),
            arithmetic="that of the candidates; scores are integers with "
            + ("correctly rounded Gaussian noise" if delta else "discrete Laplace noise"),
            bit_source=bits.description,
            private=bits.private,
        )

    def _for_users(self, found: Guarantee, most: int, counting: LiveUsers | None) -> Guarantee:
        """State that the figures are for all rows of a user, if they are, and who keeps their number."""
        if self.rows_per_user is None:
            return found
        found = replace(found, unit="user", rows_per_user=most, delta=max(found.delta, float(self.delta)))
        if counting is None:
            return replace(found, conditions=(*found.conditions, unchecked(found)))
        conditions = (*found.conditions, *counting.conditions)
        return replace(found, conditions=conditions, users_fixed=counting.users_fixed)

    def _ledger(self, adjacency: str) -> Ledger:
        if self.ledger is None:
            return Ledger(adjacency=adjacency)
        if not isinstance(self.ledger, Ledger):
            raise InvalidParameter(f"ledger must be a privol.ledger.Ledger or None, found {self.ledger!r}")
        return self.ledger

    def _fitted(self) -> Any:
        if "best_estimator_" not in vars(self):
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet: call fit first.")
        return self.best_estimator_

    @property
    def ledger_(self) -> Ledger:
        """The ledger that the selection was written into."""
        self._fitted()
        account: Account | None = self.__dict__.get("_account")
        if account is None:
            raise StateError("this is a copy of the released fit: the ledger stayed behind")
        return account.ledger

    def predict(self, X: ArrayLike) -> Any:
        """Return the released model's class labels or targets, shape (n,)."""
        return self._fitted().predict(X)

    def predict_proba(self, X: ArrayLike) -> Any:
        """Return the released model's probabilities, if it has them: shape (n, n_classes)."""
        return self._fitted().predict_proba(X)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Accuracy or R squared of the released model. Computed from raw rows: not private."""
        return float(self._fitted().score(X, y))

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_account", None)
        state["ledger"] = None
        return state
