"""What a number of rows can teach about columns, and what would help, before a row is read: ``privol plan``."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from .._rounding import UP
from .._validate import choice, integer, number
from ..guarantees import ADJACENCIES, delta_of_noise, epsilon_within, gdp_mu
from .phases import FIRST_TOO_FEW, SHARE_OF_ALL, EncodingPlan, plan_encoding
from .users_taught import check_users, taught_squares

__all__ = ["TOO_SHORT", "Outlook", "Teaching", "UserOutlook", "outlook_of", "too_short"]

#: A stream is short if a category that half of the rows have may be missed.
TOO_SHORT = 0.5


@dataclass(frozen=True, kw_only=True)
class Teaching:
    """The cost of some rows of one user that teach, in the most expensive phases. Public.

    Attributes
    ----------
    rows : int
    mu : float
        What they cost together.
    share : float
        The share of the square of the user's mu that this is.
    allowed : float
        The largest share that they may have: the share that they are of all rows of the user. The other rows, which are
        learnt, have the rest.
    """

    rows: int
    mu: float
    share: float
    allowed: float


@dataclass(frozen=True, kw_only=True)
class UserOutlook:
    """What the same budget leaves the encoding if a user may have another number of rows. Public.

    Attributes
    ----------
    rows_per_user : int
    mu : float
        The most that one row that teaches may cost.
    rows_that_teach : int
    visible_share : float
    """

    rows_per_user: int
    mu: float
    rows_that_teach: int
    visible_share: float


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What an encoding costs and what it can detect. Public.

    Attributes
    ----------
    n_rows : int
        Rows of the whole stream.
    epsilon, delta : float
        Of the encoding, and of a model of the other rows beside it. With ``rows_per_user`` it covers all rows of a
        user, those that teach and those that are learnt.
    mu : float
        The same as Gaussian differential privacy; infinite without noise.
    plan : EncodingPlan
    counts : tuple of (phase, rows, deviation)
        Rows of each phase, and the standard deviation of the noise of one of its counts.
    verdict : str
    remedies : tuple of (what, rows, share)
        Each remedy alone, with the rows that then teach and the ``visible_share``, None if nothing needs to be learnt.
    teaching : tuple of Teaching
        For a user's budget: the cost of 1, 2, ... rows of one user that teach, up to as many as may.
    users : tuple of UserOutlook
        For a user's budget: with more and with fewer rows per user.
    """

    n_rows: int
    epsilon: float
    delta: float
    mu: float
    plan: EncodingPlan
    counts: tuple[tuple[str, int, float], ...]
    verdict: str
    remedies: tuple[tuple[str, int, float | None], ...]
    teaching: tuple[Teaching, ...] = ()
    users: tuple[UserOutlook, ...] = ()

    def to_record(self) -> dict[str, Any]:
        """Return all of it in types that JSON has."""
        plan = self.plan
        users: dict[str, Any] = {}
        if plan.rows_per_user is not None:
            users = {
                "rows_per_user": plan.rows_per_user,
                "user_separation": plan.user_separation,
                "user_mu": _or_inf(self.mu),
                "teaching": [asdict(found) for found in self.teaching],
                "users": [{**asdict(found), "mu": _or_inf(found.mu)} for found in self.users],
            }
        return {
            "rows": self.n_rows,
            "columns": plan.columns,
            "target": plan.target,
            "epsilon": "inf" if math.isinf(self.epsilon) else self.epsilon,
            "delta": self.delta,
            "mu": _or_inf(plan.mu),
            "adjacency": plan.adjacency,
            "rows_that_teach": plan.rows,
            "rows_of_the_model": self.n_rows - plan.rows,
            "phases": [dict(zip(("name", "rows", "std"), found, strict=True)) for found in self.counts],
            "visible_share": plan.visible_share,
            "visible_label_share": plan.visible_label_share,
            "verdict": self.verdict,
            "remedies": [dict(zip(("change", "rows", "visible_share"), found, strict=True)) for found in self.remedies],
            **users,
        }


def _or_inf(mu: float) -> float | str:
    """Return a number, or a word for an infinite one, as JSON needs it."""
    return "inf" if math.isinf(mu) else mu


def outlook_of(
    n_rows: int,
    n_columns: int,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    adjacency: str = "replace",
    target: bool = True,
    real: bool = False,
    rows_per_user: int | None = None,
    user_separation: int = 1,
) -> Outlook:
    """Return what the first rows of a stream can teach about its columns.

    Parameters
    ----------
    n_rows : int
        Rows of the whole stream.
    n_columns : int
        Columns whose encoding is to be learnt, without the target.
    epsilon, delta : float
    adjacency : {"replace", "zero_out"}
    target, real : bool
        As for :func:`plan_encoding`.
    rows_per_user, user_separation : int, optional
        The budget is for all rows of a user, in the encoding and in the model after it: at most this many (1 to 1024),
        any two at least this many rows apart. Default: it is for one row.

    Returns
    -------
    Outlook

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range, or there are too few rows for any phase.
    """
    n, columns = integer(n_rows=n_rows, at_least=1), integer(n_columns=n_columns, at_least=1)
    choice(ADJACENCIES, adjacency=adjacency)
    epsilon = number(epsilon=epsilon, above=0.0, infinite=True)
    delta = number(delta=delta, above=0.0, below=1.0)
    given, apart = check_users(rows_per_user, user_separation)
    noisy = delta_of_noise(delta, given)
    words: dict[str, Any] = {"adjacency": adjacency, "target": target, "real": real}
    words |= {"rows_per_user": given, "user_separation": apart}
    whole = math.inf if math.isinf(epsilon) else gdp_mu(epsilon, noisy)

    def planned(rows: int, columns: int, budget: float, **others: Any) -> EncodingPlan:
        mu = math.inf if math.isinf(budget) else gdp_mu(budget, noisy)
        return plan_encoding(rows, columns, mu=mu, **{**words, **others})

    plan = planned(n, columns, epsilon)
    counts = []
    for name, rows in plan.phases:
        std = plan.noise(1 if name == "labels" else plan.columns + (plan.target if name == "kinds" else 0))
        counts.append((name, rows, std))
    others: dict[str, EncodingPlan] = {}
    if target:
        others["declare the labels, or the range of a real target"] = planned(n, columns, epsilon, target=False)
    if columns > 1:
        others["drop, or declare, half of the columns"] = planned(n, columns // 2, epsilon)
    if not math.isinf(epsilon):
        quarter = epsilon_within(whole * math.sqrt(SHARE_OF_ALL), noisy)
        if quarter > 0.0:
            others["let all rows teach (--schema-share 0.25)"] = planned(n, columns, quarter, whole=True)
        others["twice the epsilon"] = planned(n, columns, 2.0 * epsilon)
    others["twice the rows"] = planned(2 * n, columns, epsilon)
    remedies: list[tuple[str, int, float | None]] = [(what, p.rows, p.visible_share) for what, p in others.items()]
    remedies.append(("declare all by a schema: the model learns every row", 0, None))
    return Outlook(
        n_rows=n,
        epsilon=epsilon,
        delta=delta,
        mu=whole,
        plan=plan,
        counts=tuple(counts),
        verdict=_verdict(plan),
        remedies=tuple(remedies),
        teaching=() if given is None or math.isinf(whole) else _teaching(plan, whole, given, apart),
        users=()
        if given is None
        else tuple(
            UserOutlook(
                rows_per_user=rows,
                mu=found.mu,
                rows_that_teach=found.rows,
                visible_share=found.visible_share,
            )
            for rows in sorted({1, 2, 4, 8, 16, 32, given})
            if rows <= max(4 * given, 4)
            for found in [planned(n, columns, epsilon, rows_per_user=rows)]
        ),
    )


def _teaching(plan: EncodingPlan, mu: float, rows_per_user: int, user_separation: int) -> tuple[Teaching, ...]:
    """The cost of a user's rows that teach, under a budget of ``mu`` for all of them; rounded up."""
    squares = taught_squares([rows for _, rows in plan.phases], plan.mu, rows_per_user, user_separation)
    return tuple(
        Teaching(rows=rows, mu=math.sqrt(square) * UP, share=square / (mu * mu) * UP, allowed=rows / rows_per_user)
        for rows, square in enumerate(squares)
        if rows
    )


def too_short(rows: int, share: float, reused: bool) -> str | None:
    """Return the message that few rows taught an encoding with this ``visible_share``; None if there were enough."""
    if share <= TOO_SHORT:
        return None
    all_teach = "" if reused else "let all rows teach (--schema-share 0.25), "
    return (
        f"the {rows:,} rows that taught the encoding are few for this budget and so many columns: a category is only "
        f"surely seen if {_share(share)} have it; {all_teach}--drop columns, declare "
        "labels (--classes) or columns (a schema), or take more rows or a larger epsilon; privol plan --n-columns says "
        "what each would bring"
    )


def _share(share: float) -> str:
    return "more than all rows" if share > 1.0 else f"at least {share:.0%} of the rows"


def _verdict(plan: EncodingPlan) -> str:
    share, label = plan.visible_share, plan.visible_label_share
    if share <= FIRST_TOO_FEW:
        seen = f"In 19 of 20 runs a category is seen if a share of at least {share:.2g} of the rows has it"
        return f"{seen}." if label is None else f"{seen}, a label if at least {label:.2g} has it."
    seen = f"in 19 of 20 runs a category is seen if a share of at least {share:.2g} of the rows has it"
    if share > 1.0:
        seen = "not even what all rows have in common is surely seen through the noise"
    return f"The first rows are too few: {seen}. privol run lets all rows teach then."
