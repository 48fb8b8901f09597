"""A run of a learner, and what stands around it: the stream it reads, who watches it, who keeps it on the disk."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

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

__all__ = ["Keeper", "Observer", "RowBlock", "RowStream", "Run", "check_null_rows", "place_of", "promised_by"]

FloatArray = NDArray[np.float64]


class RowBlock(Protocol):
    """Rows in order: features, and targets as real numbers or as indices into the stream's classes."""

    X: Any
    y: Any
    first_row: int


class RowStream(Protocol):
    """What ``fit_stream`` reads: any object with these names, such as :func:`privol.open_stream` returns.

    Four more are taken into the guarantee where they exist: ``rows_per_user``, the largest number of rows of a user
    (None: unknown), ``user_separation``, how many rows any two of them are apart at least (1, if it is not there),
    ``user``, what tells users apart (a column's name), and ``conditions``, a tuple of sentences on what the stream's
    rows rest on. Two are taken into the ledger: ``beside``, the account of what learnt from the rows
    before these, and ``first_row``; what these rows taught is ``schema.learnt``, if there is a ``schema``.
    """

    n_rows: int | None
    classes: tuple[Any, ...] | None

    def __iter__(self) -> Any: ...


def check_null_rows(stream: Any, on_invalid: str) -> None:
    """Refuse a stream that makes null rows of some, where the learner takes none."""
    if not getattr(stream, "users_fixed", True) and on_invalid != "zero":
        raise InvalidParameter(
            f"on_invalid must be 'zero' for a stream that makes null rows of surplus rows of users, found "
            f"{on_invalid!r}"
        )


#: Of figures for users, where rows before those of the stream taught their encoding.
_COUNTED = (
    "rows of a user that taught the schema are among those counted here: whichever of them taught and whichever are "
    "learnt, the figures for a user cover both together"
)
_TAUGHT = (
    "rows of a user that taught the schema are none of those counted here: each of them costs what the other account "
    "says of a row, and for all rows of a user both add up"
)


class UserCost(Protocol):
    """Knows what all rows of a user cost, in multiples of what one costs: every plan of a run does."""

    def user_factor(self, rows_per_user: int, user_separation: int) -> float: ...


def promised_by(stream: Any, guarantee: Guarantee, plan: UserCost | None = None, *, taught: bool = True) -> Guarantee:
    """Take into a guarantee what its stream says of its users and of what its rows rest on.

    Parameters
    ----------
    stream : RowStream or None
        None: rows that are given as they are, of whose users nothing is known.
    guarantee : Guarantee
        If its unit is a user, the stream must keep at least what it rests on, or say nothing of users.
    plan : optional
        Says what the rows of a user cost. Without it their number is what counts.
    taught : bool, default=True
        Whether rows of a user that taught the encoding of the stream are counted in. Of what is released beside the
        models they are not: the models' figures have them.

    Raises
    ------
    InvalidParameter
        If the stream lets users have more rows, or nearer to each other, than the budget is for.
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
    """Count in what rows of a user cost that taught the encoding of those that are learnt, where both are known."""
    learnt = learnt_before(stream)
    if learnt is None:
        return guarantee
    if not counts_taught(stream, guarantee):
        if guarantee.unit == "row" and learnt.rows_per_user is None:  # the schema says so itself
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
    # no row costs more than one that is learnt, so all cost no more than their number: None, where total has that
    return replace(guarantee, user_factor=less_than_all(max(total / guarantee.mu * UP, 1.0), most))


def _factor(user: float, row: float, most: int) -> float | None:
    """What all rows of a user cost, in multiples of what one does; rounded down, as it is divided by."""
    return less_than_all(max(user / row / UP, 1.0), most)


def learnt_before(stream: Any) -> Any:
    """What rows of a stream taught that are before those that are learnt; None where there are none."""
    learnt = getattr(getattr(stream, "schema", None), "learnt", None)
    return learnt if learnt is not None and getattr(stream, "first_row", 1) > learnt.rows else None


def counts_taught(stream: Any, guarantee: Guarantee) -> bool:
    """Whether the figures for a user count the rows that taught too: as many of a user, and as far apart.

    Of the same relation, and as private: noise of another relation, from a known seed or none at all is not what these
    figures say. Where they are a row's times a factor, a row that taught must not be the more expensive one.
    """
    learnt = learnt_before(stream)
    if learnt is None or guarantee.kind not in ("gdp", "none") or learnt.adjacency != guarantee.adjacency:
        return False
    if (guarantee.private and not learnt.private) or (guarantee.kind == "gdp" and math.isinf(learnt.mu)):
        return False
    if learnt.rows_per_user is None or learnt.rows_per_user != guarantee.rows_per_user:
        return False
    if guarantee.unit == "row":  # whose figures for users have the separation that the stream keeps
        return bool(learnt.mu <= guarantee.mu and learnt.user_separation == guarantee.user_separation)
    return bool(guarantee.user_separation <= learnt.user_separation)


def place_of(stream: Any, ledger: Ledger, guarantee: Guarantee) -> dict[str, Any]:
    """Return where the rows of a stream are, for a ledger: after those that an account of it has paid for, if any.

    A run of another ledger counts by itself, and adds up with that account wherever both are included. So does one
    whose guarantee is of a kind that adds up, or whose rows may be those of a later part of the stream.
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
    if guarantee.unit == "user" and len(others) > 1:  # its rows may be a user's in any of them: they add up
        return {}
    return {"beside": beside, "first_row": first} if known else {}


@dataclass
class Run:
    """One run of a learner: the opaque secret state and what is public about it.

    It is its account's from the start: there is none that could release without an account, or on a closed one.
    """

    state: LearnerRun
    plan: RunPlan
    guarantee: Guarantee
    account: Account
    targets: Targets
    horizon: int  # of the parameters: with renewal that of the first epoch
    unlabelled: bool = False  # of a classifier that was given no labels: it takes gradients, and no rows
    of_stream: bool = False  # its guarantee says of users or rows what only its stream keeps
    users: LiveUsers | None = None  # who counts the rows of users that it is given
    closed: bool = False
    looked_at: bool = False  # whether most of its rows were longer than their bound
    keeper: Keeper | None = None
    handed: Export | None = None  # with a keeper: what is on the disk, and so may be seen

    def __post_init__(self) -> None:
        self.account.attach(self._counters, self._revoke)

    def _counters(self) -> Counts:
        """What the ledger reads."""
        rows, releases, spent = self.state.counters()
        if self.guarantee.claim is not None:
            # a published calibration is charged as a whole: adding its releases up may exceed what they cost together
            spent = min(spent, square_up(self.guarantee.mu))
        elif self.guarantee.unit == "user" and self.guarantee.mu > self.plan.mu:  # what taught is in it too
            whole = square_up(self.guarantee.mu)
            spent = min(spent / self.plan.mu**2 * whole * UP, whole) if spent else 0.0
        return rows, releases, spent

    def _revoke(self, words: str) -> None:
        self.state.revoke(words)

    def learn_one(self, x: Any, y: Any) -> bool:
        """Learn a row that is an array of doubles, and a label or target, as they come; False: nothing was done."""
        if self.closed or self.of_stream or self.unlabelled or self.keeper is not None or self.users is not None:
            return False
        targets = self.targets
        return self.state.learn_labelled(x, y, targets.codes, targets.y_bound, not targets.refuse)

    def predict_one(self, x: Any, x_bound: float) -> Any:
        """Label or target of a row that is an array of doubles; None: it is none, or has several scores."""
        if self.handed is not None or self.unlabelled:
            return None
        score, classes = self.state.score_one(x, x_bound), self.targets.classes
        return score if score is None or classes is None else classes[1 if score > 0.0 else 0]

    def public(self, attribute: str) -> Any:
        """A field of :class:`Export`: of what was kept last, or read from the live state."""
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
    """Sees the released model at work on a stream; what it computes is not covered by the run's guarantee."""

    def learn(self, run: Run, X: Any, targets: FloatArray) -> None:
        """Let ``run.state`` learn these rows and no others, and watch; called for all rows of a run, in order."""


class Keeper(Protocol):
    """Keeps a run on the disk, so that it outlives its process; :class:`privol.state.State` is one."""

    def open(self, learner: Any, *, replay: bool = False) -> None:
        """See whether a run is to go on, before the stream is read; ``replay``: by learning all of its rows again."""

    def begin(self, learner: Any, n_features: int, horizon: int, release: Any, targets: Targets, stream: Any) -> Run:
        """Begin a run, or resume the one that is there."""

    def attend(self, stream: Any, *, once: bool) -> int:
        """Before the stream is read: let it go on where the run does, and return how many rows it leaves out."""

    def named(self, seen: Any) -> None:
        """Whose the rows of the next block are, if the stream says it."""

    def skip(self, X: Any, targets: FloatArray) -> int:
        """How many rows of a block the run has learnt already."""

    def room(self) -> int:
        """Rows that may be learnt before :meth:`learnt` is to be called."""

    def learning(self, X: Any, targets: FloatArray) -> None:
        """Rows are about to be learnt."""

    def learnt(self, run: Run, *, released: bool) -> bool:
        """Those rows have been learnt. Returns whether what they released may be handed out."""

    def beside(self, name: str, guarantee: Guarantee, key: bytes, settings: Any) -> tuple[Account, bytes]:
        """Open an account for what is released beside the models, or resume it: by the noise key returned."""

    @property
    def verified(self) -> int:
        """Rows that this process has learnt or compared, and that are kept: what is released of them may be seen."""

    def ends(self) -> None:
        """The last release is about to be made."""

    def seal(self, learner: Any, run: Run) -> None:
        """The last release is made: keep it where nobody looks, until the account is closed."""

    def settled(self) -> None:
        """The account is closed, for good: show what was sealed."""

    def leave(self, learner: Any, run: Run | None) -> None:
        """An error ends the call; the run is to go on by another."""
