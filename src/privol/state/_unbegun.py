"""Reservations of a kept run that was killed before its first checkpoint: the run that begins anew takes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..guarantees import Guarantee
from ..ledger import Account, Ledger
from ..readers.base import split_told

__all__ = ["Unbegun", "as_begun"]


def as_begun(found: Guarantee, kept: Guarantee) -> bool:
    """Whether a guarantee is that with which a kept run began.

    It may rest on fewer inferences from the contents: a schema that was learnt names the columns, which the first call
    had to infer. What was promised then still stands, with all of its conditions.
    """
    (now, others), (before, same) = split_told(found.conditions), split_told(kept.conditions)
    return now <= before and replace(found, conditions=others) == replace(kept, conditions=same)


class Unbegun:
    """Open accounts of earlier processes that kept nothing, and so released nothing.

    A kept run releases nothing before the journal has a commit of its account. An account without one is therefore
    unspent, whatever noise its process drew, and a run with the very same guarantee may take it; the budget is reserved
    all the while. For any other run all of them are closed as unspent.
    """

    def __init__(self) -> None:
        self._accounts: list[Account] = []
        self._planned: tuple[Account, ...] = ()

    def know(self, accounts: list[Account], *planned: Account) -> None:
        """Remember those that an earlier process reserved, and of which the journal knows no more.

        ``planned``: that of the run whose plan is kept here. The call has the same learner and the same inputs.
        """
        self._accounts = [account for account in (*accounts, *planned) if not account.commits and not account.closed]
        self._planned = planned
        for account in planned:
            if account.commits and not account.closed:  # somebody else wrote these: it is not lowered by them
                account.close_at(0, 0, 0.0)

    def take(self, learner: str, guarantee: Guarantee, stream: Any, ledger: Ledger) -> Account | None:
        """The account that reserves the same for the same rows; None, and all are closed, if there is none."""
        for found in self._accounts:
            same = found.learner == learner and as_begun(guarantee, found.guarantee)
            if same and self._same_place(found, stream, ledger):
                self._accounts.remove(found)
                return found
        self.close()
        return None

    def _same_place(self, account: Account, stream: Any, ledger: Ledger) -> bool:
        """Whether an account is for the rows of a stream: those after the rows that another account paid for."""
        if account.group == account.plan_id:  # for any rows
            return True
        if account.first_row != getattr(stream, "first_row", 1):
            return False
        beside = getattr(stream, "beside", None)
        if beside is None:  # a run that resumes: its rows that taught are compared like those of any other
            return account in self._planned
        return any(other.plan_id == beside and other.group == account.group for other in ledger.accounts)

    def close(self) -> None:
        """Give back what is left over."""
        while self._accounts:
            self._accounts.pop().close_at(0, 0, 0.0)
