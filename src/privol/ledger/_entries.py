"""The spending that a ledger states: of one run, and of all of them together."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from .._rounding import UP
from .._validate import number
from ..errors import InvalidParameter
from ..guarantees import (
    Bound,
    Guarantee,
    compose_fixed,
    describe_composition,
    format_up,
    gdp_mu_of_pure,
    group_mu,
    left_of_delta,
    square_up,
    sum_up,
    times_up,
    zcdp_rho_of_gdp,
    zcdp_rho_of_pure,
)
from ._remaining import root_up

__all__ = ["IF_FIXED", "LedgerEntry", "Share", "Spent", "compose", "delta_of", "describe", "pure_epsilon_of"]

IF_FIXED = (
    "if the number of runs, the kind and parameter of each and where it ends were fixed before the first of them, and "
    "not chosen by what earlier ones released (what a run computes may be)"
)
"""The condition of the figures of :meth:`Spent.epsilon_if_fixed`."""


def pure_epsilon_of(guarantee: Guarantee, releases: int, mu_squared: float) -> float:
    """Epsilon of pure differential privacy that a run has spent: the whole or nothing; ``inf`` for other kinds."""
    if mu_squared == 0.0 and (guarantee.kind not in ("pure", "approximate") or releases == 0):
        return 0.0
    return guarantee.parameter if guarantee.kind == "pure" else math.inf


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """What one run has spent so far: rows ``first_row`` to ``last_row`` (0 for none) of its stream. Public.

    Attributes
    ----------
    plan_id : str
        Identifier of the run, 32 hexadecimal digits.
    learner : str
        Name of the learner.
    first_row, last_row : int
        1-based range of rows learnt; ``last_row = 0`` before the first.
    releases : int
        Number of models, or of windows of metrics, released.
    mu_squared : float
        Square of the Gaussian differential privacy parameter of these releases, rounded up; ``inf`` without noise, and
        for kind "approximate".
    pure_epsilon : float
        Their epsilon of pure differential privacy, 0 if nothing was spent; ``inf`` for runs of another kind.
    slack : float
        For kind "approximate", once something was spent: the delta of its guarantee, which has the epsilon. Otherwise
        0.
    open : bool
        Whether the run may still spend.
    private : bool
        False if the run had no noise or its noise came from a known seed.
    beside : str or None
        For a run on other rows of a stream than an earlier run: ``plan_id`` of the first of these runs. All of them
        together cost as much as the most expensive part of that stream (docs/proofs/phases.md).
    """

    plan_id: str
    learner: str
    first_row: int = 1
    last_row: int
    releases: int
    mu_squared: float
    pure_epsilon: float
    open: bool
    private: bool
    slack: float = 0.0
    beside: str | None = None

    @property
    def rows(self) -> int:
        """Number of rows learnt."""
        return self.last_row - self.first_row + 1 if self.last_row else 0


class Share(NamedTuple):
    """The share of one run in the total budget."""

    plan_id: str
    learner: str
    guarantee: Guarantee
    releases: int
    mu_squared: float
    tables: int = 1  # tables of users, if it stands for several runs: each table may confuse two users

    @property
    def pure_epsilon(self) -> float:
        """Its epsilon of pure differential privacy; ``inf`` for runs of another kind."""
        return pure_epsilon_of(self.guarantee, self.releases, self.mu_squared)

    @property
    def mu(self) -> float:
        """Its parameter of Gaussian differential privacy, rounded up."""
        # the mu of the whole is known without the rounding of a square and its root
        whole = self.guarantee.mu
        return whole if self.mu_squared == square_up(whole) else root_up(self.mu_squared)

    @property
    def slack(self) -> float:
        """For kind "approximate" its delta, as a whole or not at all; else 0."""
        return self.guarantee.slack if self.mu_squared > 0.0 or self.releases > 0 else 0.0

    @property
    def bound(self) -> Bound:
        """The composable figures: mu and pure epsilon, for kind "approximate" without its slack, and the slack."""
        if self.guarantee.kind != "approximate":
            return Bound(self.mu, self.pure_epsilon, 0.0, self._collision if self.guarantee.unit == "user" else 0.0)
        return self.guarantee.bound if self.slack > 0.0 else Bound(0.0, 0.0)

    @property
    def _collision(self) -> float:
        """The part of delta that covers collisions in the figures for users, as a whole or not at all."""
        return self.guarantee.collision * self.tables if self.mu_squared > 0.0 or self.releases > 0 else 0.0

    @property
    def bound_squared(self) -> float:
        """Square of the mu of :attr:`bound`, rounded up."""
        return square_up(self.bound.mu) if self.guarantee.kind == "approximate" else self.mu_squared

    @property
    def bound_pure(self) -> float:
        """The epsilon of :attr:`bound`."""
        return self.bound.pure if self.guarantee.kind == "approximate" else self.pure_epsilon

    @property
    def private(self) -> bool:
        """False if the run has no noise or its noise comes from a known seed."""
        return self.guarantee.private and self.guarantee.kind != "none"

    @property
    def whole(self) -> bool:
        """Whether it is a whole pure run (beside a slack or not), not a part that is only known as Gaussian."""
        guarantee = self.guarantee
        return guarantee.kind in ("pure", "approximate") and self.mu_squared >= square_up(guarantee.mu)

    @property
    def rho(self) -> float:
        """Its parameter of zero-concentrated differential privacy, rounded up."""
        square = self.mu_squared
        rho = square / 2.0 if square / 2.0 * 2.0 == square else square
        return min(rho, zcdp_rho_of_pure(self.guarantee.parameter)) if self.guarantee.kind == "pure" else rho

    @property
    def user_bound(self) -> Bound | None:
        """:attr:`bound` when all rows of one user change; ``None`` if their number is unknown."""
        rows = self.guarantee.rows_per_user
        if rows is None:
            return None
        if self.guarantee.kind == "approximate":
            return self.guarantee.user_bound if self.slack > 0.0 else Bound(0.0, 0.0)
        if self.guarantee.unit == "user":
            return self.bound
        pure, factor = group_mu(self.pure_epsilon, rows), self.guarantee.user_factor
        mu = min(times_up(self.mu, rows if factor is None else factor), gdp_mu_of_pure(pure))
        return Bound(mu, pure, 0.0, self._collision)

    @property
    def row_bound(self) -> Bound:
        """The :attr:`bound` when one row changes, which is smaller if the run's figure is for all rows of a user."""
        whole = self.guarantee.mu
        if self.guarantee.unit == "row" or self.mu == 0.0 or whole == 0.0 or math.isinf(whole):
            return self.bound._replace(collision=0.0)
        row = self.guarantee.row
        share = 1.0 if self.mu == whole else self.mu / whole * UP
        return Bound(times_up(row.mu, share), row.bound.pure if self.releases else 0.0)


def compose(shares: Iterable[Share], *, adjacency: str, delta: float | None) -> Spent:
    """Compose the shares of several runs on the same rows; for runs whose unit is a user, for all rows of a user."""
    shares = [share for share in shares if share.mu_squared > 0.0 or share.releases > 0]
    bound = _together(shares)
    # a guarantee with a slack is neither Gaussian, zero-concentrated nor pure differential privacy
    mu = bound.mu if bound.slack == 0.0 else math.inf
    return Spent(
        mu=mu,
        rho=min(sum_up([share.rho for share in shares]), zcdp_rho_of_gdp(mu)),
        pure_epsilon=sum_up([share.pure_epsilon for share in shares]),
        slack=bound.slack,
        adjacency=adjacency,
        releases=sum(share.releases for share in shares),
        delta=delta,
        private=all(share.private for share in shares),
        bound=bound,
        parts=(
            _together([share for share in shares if not share.whole]).mu,
            tuple(share.bound_pure for share in shares if share.whole),
        ),
    )


def _together(shares: list[Share]) -> Bound:
    squares = [share.bound_squared for share in shares]
    paying = [share for share, square in zip(shares, squares, strict=True) if square > 0.0]
    return Bound(
        paying[0].bound.mu if len(paying) == 1 else root_up(sum_up(squares)),
        sum_up([share.bound_pure for share in shares]),
        sum_up([share.slack for share in shares]),
        sum_up([share.bound.collision for share in shares]),
    )


def _bounds_together(bounds: list[Bound]) -> Bound:
    return Bound(
        root_up(sum_up([square_up(bound.mu) for bound in bounds])),
        sum_up([bound.pure for bound in bounds]),
        sum_up([bound.slack for bound in bounds]),
        sum_up([bound.collision for bound in bounds]),
    )


def delta_of(shares: Iterable[Share]) -> float:
    """The default delta for stating several runs together: the largest of theirs, beside the slacks of all."""
    paying = [share for share in shares if share.mu_squared > 0.0]
    if not paying:
        return 0.5
    slack = sum_up([share.bound.beside for share in paying if share.slack > 0.0])
    rest = max((share.guarantee.delta for share in paying if share.slack == 0.0), default=0.0)
    return min(sum_up([slack, rest]), math.nextafter(1.0, 0.0))


def describe(shares: Iterable[Share], *, adjacency: str, delta: float | None, if_fixed: bool) -> str:
    """Say in one sentence what several runs guarantee together; ``delta``: default :func:`delta_of` them."""
    shares = [share for share in shares if share.mu_squared > 0.0]
    promises = [share.guarantee for share in shares]
    if delta is None:
        delta = delta_of(shares)
    delta = number(delta=delta, above=0.0, below=1.0)
    user_bounds = [bound for share in shares if (bound := share.user_bound) is not None]
    of_users = bool(promises) and all(g.unit == "user" for g in promises) and len({g.user for g in promises}) == 1
    together = compose(shares, adjacency=adjacency, delta=delta)
    sentence = describe_composition(
        [share.bound for share in shares],
        [share.learner for share in shares],
        together=together.bound,
        for_users=_bounds_together(user_bounds) if len(user_bounds) == len(shares) else None,
        for_rows=_bounds_together([share.row_bound for share in shares]) if of_users else None,
        grouped=any(g.user_factor is None for g in promises),
        users=[g.user for g in promises],
        delta=delta,
        adjacency=adjacency,
        private=all(g.private for g in promises),
    )
    if not if_fixed or not shares or not together.private:
        return sentence
    pair = f"(epsilon, delta) = ({format_up(together.epsilon_if_fixed(delta))}, {format_up(delta)})"
    return f"{sentence} {IF_FIXED[0].upper()}{IF_FIXED[1:]}: {pair}, by their privacy loss distributions."


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What runs have spent together, or hold: one row may have been in every one of them. Public.

    Of runs that are known to be on different rows of one stream, only those of its most expensive part count.

    Its figures hold for runs that are chosen by what earlier ones released, but for :meth:`epsilon_if_fixed`.

    Attributes
    ----------
    mu : float
        Composed parameter of Gaussian differential privacy, rounded up; ``inf`` after a release without noise or of
        kind "approximate".
    rho : float
        Composed parameter of zero-concentrated differential privacy, in nats, rounded up; ``inf`` where mu is.
    pure_epsilon : float
        Sum of the epsilons of pure runs, rounded up; ``inf`` as soon as a run of another kind is among them.
    slack : float
        Sum of the deltas of runs of kind "approximate", rounded up: below it no epsilon is finite.
    collision : float
        Probability, at most, that a run whose surplus rows of users are null rows takes two users for one. ``mu``,
        ``rho`` and ``pure_epsilon`` hold but for it: where it is above 0 there is no pure privacy of users. It is in
        the delta of :meth:`epsilon`.
    adjacency : {"replace", "zero_out"}
        The relation of every run in it.
    releases : int
        Number of models and of windows of metrics released.
    delta : float or None
        Where :meth:`epsilon` is stated unless another delta is asked for (the ledger's limit).
    private : bool
        False as soon as one run that released something had no noise, or noise from a known seed.
    bound : Bound
        What :meth:`epsilon` and :meth:`delta_at` follow from: mu and pure epsilon of all but the slack, and the slack.
    parts : tuple
        ``mu`` of the runs that are Gaussian, and the epsilon of each pure one, those beside a slack among them.
    """

    mu: float
    rho: float
    pure_epsilon: float
    slack: float
    adjacency: str
    releases: int
    delta: float | None
    private: bool
    bound: Bound
    parts: tuple[float, tuple[float, ...]]

    @property
    def collision(self) -> float:
        """Beside which ``mu``, ``rho`` and ``pure_epsilon`` hold."""
        return self.bound.collision

    def _delta(self, delta: float | None) -> float:
        delta = self.delta if delta is None else delta
        if delta is None:
            raise InvalidParameter("delta must be given: the ledger has no limit to take it from")
        return number(delta=delta, above=0.0, below=1.0)

    def epsilon(self, delta: float | None = None) -> float:
        """Epsilon at ``delta`` (above 0, below 1; default: the limit's), rounded up.

        By :attr:`mu`, or :attr:`pure_epsilon` where that is smaller, of all but the :attr:`slack` and at what that
        leaves of delta; ``inf`` where delta does not cover it.

        Raises
        ------
        InvalidParameter
            If ``delta`` is out of its range, or not given for a ledger without a limit.
        """
        return self.bound.epsilon(self._delta(delta))

    def epsilon_if_fixed(self, delta: float | None = None) -> float:
        """Epsilon at ``delta``, rounded up, **if** all was fixed before the first run: smaller than :meth:`epsilon`.

        The condition: the number of the runs, the kind and parameter of each and where it ends were not chosen by what
        earlier runs released. What each computes may be. Nobody can see here whether that is so. Runs of kind "gdp"
        compose in closed form, as in :meth:`epsilon`; pure ones, and both together, by privacy loss distributions.

        Raises
        ------
        InvalidParameter
            As :meth:`epsilon`.
        StateError
            If dp-accounting is needed and not installed (``pip install 'privol[accounting]'``).
        """
        delta = self._delta(delta)
        rest = left_of_delta(delta, self.bound.beside)
        if not rest:
            return self.epsilon(delta)
        return min(compose_fixed(*self.parts, rest), self.epsilon(delta))

    def delta_at(self, epsilon: float) -> float:
        """Delta at ``epsilon`` (at least 0), rounded up; the :attr:`slack` from the sum of all epsilons on."""
        return self.bound.delta_at(epsilon)
