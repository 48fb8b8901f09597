"""The rows that teach an encoding, as they come: paid for before the first, dropped once the last has been counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ..errors import StateError
from ..guarantees import square_up
from ..ledger import Account
from ..readers.columns import Columns, Kind
from ..readers.written import Written
from .phases import EncodingPlan

__all__ = ["Lesson"]


class _Run(Protocol):
    @property
    def done(self) -> bool: ...

    def take(self, rows: Any, /) -> int: ...


class Lesson:
    """An encoding that is being learnt; the result does not depend on how its rows are cut into batches.

    Parameters
    ----------
    plan : EncodingPlan
    n_rows : int
        Of the whole stream.
    begin : callable
        Reserves the cost of the encoding, and returns the run and its account.
    conclude : callable
        Called once with the run and its account, when it has taken its last row.
    kinds : mapping from name to "number", "text" or "cells"
        Columns that batches must have, in this order; empty for rows without columns.
    written : Written, optional
        How cells are written.

    Attributes
    ----------
    plan, n_rows, kinds
    """

    def __init__(
        self,
        plan: EncodingPlan,
        n_rows: int,
        begin: Callable[[], tuple[_Run, Account]],
        conclude: Callable[[Any, Account], None],
        kinds: Mapping[str, Kind] | None = None,
        written: Written | None = None,
    ) -> None:
        self.plan, self.n_rows, self.kinds = plan, n_rows, dict(kinds or {})
        self._begin, self._conclude, self._written = begin, conclude, written
        self._run: _Run | None = None
        self._account: Account | None = None
        self._taken = 0
        self._come = [0]  # including those that wait to be taken
        self._counting = [False]  # whether the run has got a row: before that, nothing depends on any

    def read_as(self, columns: Columns) -> None:
        """Have an input read as this lesson needs it; raise StreamError if a column cannot be of its kind."""
        columns.check(self.kinds)
        columns.written = self._written

    def begin(self) -> Lesson:
        """Reserve the cost before any row is read; it counts as spent once a row has come.

        Raises
        ------
        BudgetExceeded
            If the ledger cannot carry it.
        """
        self._run, self._account = self._begin()
        # the ledger must not keep the rows' counts alive
        come, counting, square = self._come, self._counting, square_up(self._account.guarantee.mu)
        self._account.attach(lambda: (come[0], 1, square) if counting[0] or come[0] else (0, 0, 0.0))
        return self

    @property
    def taken(self) -> int:
        """Rows taken so far."""
        return self._taken

    @property
    def rows_of_phase(self) -> int:
        """Rows that the current phase still needs; 0 after the last phase."""
        end = 0
        for _, rows in self.plan.phases:
            end += rows
            if end > self.taken:
                return end - self.taken
        return 0

    def expect(self, rows: int) -> None:
        """State how many rows have come and wait to be taken: the ledger counts them."""
        self._come[0] = self._taken + rows

    @property
    def done(self) -> bool:
        """Whether all rows that teach have been taken: the encoder then has its schema."""
        return self._run is not None and self._run.done

    def take(self, rows: Any) -> int:
        """Count the next rows and return how many of them taught: not all, if the lesson is done before.

        Raises
        ------
        StreamError
            If too little exceeds the noise: the lesson is over, and its cost is spent.
        StateError
            If it has not begun or is over, or its account is closed.
        """
        run, account = self._run, self._account
        if run is None or account is None or account.closed:
            raise StateError("these rows are to teach an encoding that is not being learnt")
        self._counting[0] = True  # first: whoever closes the account from here on charges it
        account.ask()
        try:
            used = run.take(rows)
            self._taken += used
            self._come[0] = max(self._come[0], self._taken)  # never fewer than before, for any reader at any time
            if run.done:
                account.ask()
                self._conclude(run, account)
        except BaseException:
            account.close()
            raise
        if run.done:
            account.close()
        return used

    def close(self) -> None:
        """End the lesson."""
        if self._account is not None:
            self._account.close()
