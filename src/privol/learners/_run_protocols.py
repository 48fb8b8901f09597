"""A run of a learner and its surroundings: the stream it reads, its observer, its keeper on the disk."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._core._learner_run import LearnerRun
from .._live_users import LiveUsers
from .._rounding import UP
from ..calibration import MOST_ROWS_PER_USER, RunPlan, less_than_all, mu_with_taught
from ..errors import InvalidParameter
from ..guarantees import Guarantee, square_up, unchecked
from ..ledger import Account, Counts, Ledger
from ._model import Export
from ._targets import Targets

__all__ = ["Keeper", "Observer", "RowBlock", "RowStream", "Run", "Take", "check_null_rows", "place_of", "promised_by"]

FloatArray = NDArray[np.float64]


class RowBlock(Protocol):
    """Consecutive rows: features, and targets as real numbers or as indices into the stream's classes."""

    X: Any
    y: Any
    first_row: int


class RowStream(Protocol):
    """The input of ``fit_stream``: any object with these attributes, such as :func:`privol.open_stream` returns.

    Four more attributes enter the guarantee if they exist: ``rows_per_user``, the most rows of a user (None: unknown);
    ``user_separation``, the least distance between any two of them (default 1); ``user``, what tells users apart (a
    column's name); and ``conditions``, a tuple of sentences about what the stream's rows rest on. Two enter the ledger:
    ``beside``, the account of what learnt from the rows before these, and ``first_row``. What those rows taught is
    ``schema.learnt``, if there is a ``schema``.
    """

    n_rows: int | None
    classes: tuple[Any, ...] | None

    def __iter__(self) -> Any: ...


def check_null_rows(stream: Any, on_invalid: str) -> None:
    """Refuse a stream that makes null rows, if the learner takes none."""
    if not getattr(stream, "users_fixed", True) and on_invalid != "zero":
        raise InvalidParameter(
            f"on_invalid must be 'zero' for a stream that makes null rows of surplus rows of users, found "
            f"{on_invalid!r}"
        )


#: For users' figures if earlier rows of the stream taught the encoding.
_COUNTED = (
    "rows of a user that taught the schema are among those counted here: whichever of them taught and whichever are "
    "learnt, the figures for a user cover both together"
)
_TAUGHT = (
    "rows of a user that taught the schema are none of those counted here: each of them costs what the other account "
    "says of a row, and for all rows of a user both add up"
)


class UserCost(Protocol):
    """Knows the cost of all rows of a user as a multiple of the cost of one; every plan of a run does."""

    def user_factor(self, rows_per_user: int, user_separation: int) -> float: ...


def promised_by(stream: Any, guarantee: Guarantee, plan: UserCost | None = None, *, taught: bool = True) -> Guarantee:
    """Add to a guarantee what its stream promises about users and what its rows rest on.

    Parameters
    ----------
    stream : RowStream or None
        None: rows that are passed directly, and about whose users nothing is known.
    guarantee : Guarantee
        If its unit is a user, the stream must keep at least the assumed limits, or say nothing about users.
    plan : optional
        Knows the cost of a user's rows. Without it their number counts.
    taught : bool, default=True
        Whether a user's rows that taught the encoding of the stream are included. They are not for releases beside the
        models, because the models' figures include them.

    Raises
    ------
    InvalidParameter
        If the stream allows a user more rows, or rows nearer to each other, than the budget is for.
    """
    rows, apart = getattr(stream, "rows_per_user", None), getattr(stream, "user_separation", 1)
    fixed = getattr(stream, "users_fixed", True)
    guarantee = replace(guarantee, conditions=(*guarantee.conditions, *getattr(stream, "conditions", ())))
    if guarantee.unit == "user":
        guarantee = _with_taught(stream, guarantee, plan) if taught else guarantee
        if rows is None:
            return replace(guarantee, conditions=(*guarantee.conditions, unchecked(guarantee)))
        most, least = guarantee.rows_per_user or 1, guarantee.user_separation
        if rows > most or (apart < least and rows > 1):
            raise InvalidParameter(
                f"rows_per_user and user_separation must be what the stream keeps or weaker: it keeps {rows} and "
                f"{apart}, found {most} and {least}"
            )
        return replace(guarantee, user=getattr(stream, "user", None), users_fixed=fixed)
    if rows is None:
        return guarantee
    factor = None
    if plan is not None and guarantee.kind in ("gdp", "none") and rows <= MOST_ROWS_PER_USER:
        factor = less_than_all(plan.user_factor(rows, apart), rows)
    found = replace(
        guarantee,
        rows_per_user=rows,
        user=getattr(stream, "user", None),
        user_separation=apart,
        user_factor=factor,
        users_fixed=fixed,
    )
    return _with_taught(stream, found, plan) if taught else found


def _with_taught(stream: Any, guarantee: Guarantee, plan: UserCost | None) -> Guarantee:
    """Include the cost of a user's rows that taught the encoding of the learnt rows, if both are known."""
    learnt = learnt_before(stream)
    if learnt is None:
        return guarantee
    if not counts_taught(stream, guarantee):
        if guarantee.unit == "row" and learnt.rows_per_user is None:  # the schema states it itself
            return guarantee
        return replace(guarantee, conditions=(*guarantee.conditions, _TAUGHT))
    most, apart = int(learnt.rows_per_user), int(learnt.user_separation)
    guarantee = replace(guarantee, conditions=(*guarantee.conditions, _COUNTED), user_separation=learnt.user_separation)
    if guarantee.kind != "gdp":
        return guarantee

    def factor_of(rows: int) -> float:
        return float(rows) if plan is None else plan.user_factor(rows, apart)

    mu = guarantee.user_mu or 0.0
    total = mu_with_taught(learnt.squares, mu, factor_of, most)
    if guarantee.unit == "user":
        row = max(guarantee.row.mu, learnt.mu)
        if total == mu and row == guarantee.row.mu:
            return guarantee
        return replace(guarantee, parameter=total, user_factor=_factor(total, row, most))
    if total <= mu:
        return guarantee
    # no row costs more than one that is learnt, so all cost at most their number: None if the total says the same
    return replace(guarantee, user_factor=less_than_all(max(total / guarantee.mu * UP, 1.0), most))


def _factor(user: float, row: float, most: int) -> float | None:
    """The cost of all rows of a user, as a multiple of one row's cost; rounded down, because it is a divisor."""
    return less_than_all(max(user / row / UP, 1.0), most)


def learnt_before(stream: Any) -> Any:
    """The lesson of earlier rows of the stream, before the learnt ones; None if there are none."""
    learnt = getattr(getattr(stream, "schema", None), "learnt", None)
    return learnt if learnt is not None and getattr(stream, "first_row", 1) > learnt.rows else None


def counts_taught(stream: Any, guarantee: Guarantee) -> bool:
    """Whether the figures for a user include the rows that taught too, with the same limits per user.

    Both must have the same adjacency and be equally private: the figures do not cover noise for another adjacency,
    noise from a known seed, or no noise. If they are a row's figure times a factor, a row that taught must not cost
    more than one that is learnt.
    """
    learnt = learnt_before(stream)
    if learnt is None or guarantee.kind not in ("gdp", "none") or learnt.adjacency != guarantee.adjacency:
        return False
    if (guarantee.private and not learnt.private) or (guarantee.kind == "gdp" and math.isinf(learnt.mu)):
        return False
    if learnt.rows_per_user is None or learnt.rows_per_user != guarantee.rows_per_user:
        return False
    if guarantee.unit == "row":  # the figures for users assume the separation that the stream keeps
        return bool(learnt.mu <= guarantee.mu and learnt.user_separation == guarantee.user_separation)
    return bool(guarantee.user_separation <= learnt.user_separation)


def place_of(stream: Any, ledger: Ledger, guarantee: Guarantee) -> dict[str, Any]:
    """Return the position of a stream's rows for a ledger: after those that one of its accounts has paid for, if any.

    A run in another ledger counts by itself, and adds up with that account wherever both are included. The same holds
    for a run whose kind of guarantee adds up, or whose rows may belong to a later part of the stream.
    """
    beside = getattr(stream, "beside", None)
    group = next((account.group for account in ledger.accounts if account.plan_id == beside), None)
    if group is None or guarantee.kind not in ("gdp", "none"):
        return {}
    if guarantee.unit == "user" and not counts_taught(stream, guarantee):
        return {}
    first = int(stream.first_row)
    others = [account for account in ledger.accounts if account.group == group]
    known = all(account.first_row == first or account.rows[1] < first for account in others)
    if guarantee.unit == "user" and len(others) > 1:  # a user may have rows in any of them, so they add up
        return {}
    return {"beside": beside, "first_row": first} if known else {}


#: An open account for a learner's name, a guarantee, a stream and a ledger, which reserves the same already; or None.
Take: TypeAlias = Callable[[str, Guarantee, Any, Ledger], Account | None]


@dataclass
class Run:
    """One run of a learner: the opaque secret state and its public facts.

    It belongs to its account from the start: no run can release without an account, or on a closed one.
    """

    state: LearnerRun
    plan: RunPlan
    guarantee: Guarantee
    account: Account
    targets: Targets
    horizon: int  # as the parameters state it; with renewal, that of the first epoch
    unlabelled: bool = False  # a classifier that was given no labels: it takes gradients but no rows
    of_stream: bool = False  # its guarantee states about users or rows what only its stream ensures
    users: LiveUsers | None = None  # counts the rows of users that it is given
    closed: bool = False
    looked_at: bool = False  # whether the check for rows longer than their bound was made
    keeper: Keeper | None = None
    handed: Export | None = None  # with a keeper: what is on the disk and may therefore be seen

    def __post_init__(self) -> None:
        self.account.attach(self._counters, self._revoke)
        targets = self.targets
        self.state.declare_targets(targets.codes, targets.y_bound, not targets.refuse)

    def _counters(self) -> Counts:
        """Return the counters that the ledger reads."""
        rows, releases, spent = self.state.counters()
        if self.guarantee.claim is not None:
            # a published calibration is charged as a whole: the sum over its releases may exceed their joint cost
            spent = min(spent, square_up(self.guarantee.mu))
        elif self.guarantee.unit == "user" and self.guarantee.mu > self.plan.mu:  # it includes the rows that taught
            whole = square_up(self.guarantee.mu)
            spent = min(spent / self.plan.mu**2 * whole * UP, whole) if spent else 0.0
        return rows, releases, spent

    def _revoke(self, words: str) -> None:
        self.state.revoke(words)

    def learn_one(self, x: Any, y: Any) -> bool:
        """Learn a row given as an array of doubles, with its label or target as given; False: nothing was done."""
        if self.closed or self.of_stream or self.unlabelled or self.keeper is not None or self.users is not None:
            return False
        return self.state.learn_labelled(x, y)

    def predict_one(self, x: Any, x_bound: float) -> Any:
        """Label or target of a row given as an array of doubles; None if it is not one, or has several scores."""
        if self.handed is not None or self.unlabelled:
            return None
        score, classes = self.state.score_one(x, x_bound), self.targets.classes
        return score if score is None or classes is None else classes[1 if score > 0.0 else 0]

    def public(self, attribute: str) -> Any:
        """A field of :class:`Export`: as kept last, or read from the live state."""
        if self.handed is not None:
            return getattr(self.handed, attribute)
        return self._live(attribute)

    def _live(self, attribute: str) -> Any:
        readers = {"model": self.state.released_model, "average": self.state.released_average}
        if attribute in readers:
            return readers[attribute]()
        if attribute == "classes":
            return self.targets.classes
        return getattr(self if attribute == "guarantee" else self.state, attribute)

    def export(self) -> Export:
        """The public part of the live state, detached from the run."""
        return Export(**{field.name: self._live(field.name) for field in fields(Export)})


class Observer(Protocol):
    """Watches the released model on a stream; the run's guarantee does not cover what it computes."""

    def learn(self, run: Run, X: Any, targets: FloatArray) -> None:
        """Let ``run.state`` learn exactly these rows, and watch; called for all rows of a run, in order."""


class Keeper(Protocol):
    """Keeps a run on the disk, so that it outlives its process; :class:`privol.state.State` is one."""

    def open(self, learner: Any, *, replay: bool = False) -> None:
        """Check for a run to continue, before the stream is read; ``replay``: by learning all its rows again."""

    def begin(self, learner: Any, n_features: int, horizon: int, release: Any, targets: Targets, stream: Any) -> Run:
        """Begin a run, or resume the kept one."""

    def attend(self, stream: Any, *, once: bool) -> int:
        """Let the stream continue where the run does, before it is read; return how many rows it leaves out."""

    def between(self, blocks: Iterable[Any]) -> Iterator[Any]:
        """Yield the blocks of the stream, and keep the run while the next one is waited for."""

    def named(self, seen: Any) -> None:
        """Take the users of the next block, if the stream states them."""

    def skip(self, X: Any, targets: FloatArray) -> int:
        """Return how many rows of a block the run has learnt already."""

    def room(self) -> int:
        """Return how many rows may be learnt before :meth:`learnt` must be called."""

    def learning(self, X: Any, targets: FloatArray) -> None:
        """Prepare for rows that are about to be learnt."""

    def summed(self, rows: int) -> None:
        """A number of rows were learnt from the sums of workers; replaces :meth:`learning`."""

    def learnt(self, run: Run, *, released: bool) -> bool:
        """Record that those rows were learnt; return whether their releases may leave."""

    def beside(self, name: str, guarantee: Guarantee, key: bytes, settings: Any) -> tuple[Account, bytes]:
        """Open, or resume, an account for what is released beside the models; also return its noise key."""

    @property
    def verified(self) -> int:
        """Rows that this process learnt or compared and that are kept: releases about them may be seen."""

    def ends(self) -> None:
        """Prepare for the last release."""

    def seal(self, learner: Any, run: Run) -> None:
        """Write the last release where it is hidden until the account is closed."""

    def settled(self) -> None:
        """Show what was sealed: the account is closed for good."""

    def leave(self, learner: Any, run: Run | None) -> None:
        """Leave the run for another call to continue, after an error."""
