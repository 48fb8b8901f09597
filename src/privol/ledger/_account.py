"""One run in a ledger: what it may spend, and what it has spent."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._validate import integer, number
from ..errors import InvalidParameter, StateError
from ..guarantees import Guarantee, square_up
from ._entries import LedgerEntry, Share, pure_epsilon_of
from ._journal import Record, as_json, from_json
from ._shared import Shared

if TYPE_CHECKING:
    from ._ledger import Ledger

__all__ = ["Account", "Counters", "Counts", "Revoke"]

Counts = tuple[int, int, float]
"""Rows learnt, models (or windows) released, and ``mu^2`` spent on them."""
Counters = Callable[[], Counts]
"""The view of a run for its account: its :data:`Counts` so far.

Of a run of kind "pure" ``mu^2`` may be a part of the reservation only if that part is Gaussian differential privacy by
itself; its epsilon is spent as a whole, as soon as there is a release or ``mu^2`` is above 0. So is a run of kind
"approximate", of which ``mu^2`` is infinite once it is above 0.
"""

Revoke = Callable[[str], object]
"""Ends a run for a reason in words: nothing more is released when it returns, and the run's counts are final."""

_CLOSED = "the run's account is closed: what it released from here on would count nowhere"
_LEFT = "the run's account was left to another run, which resumes it"

# A learner adds one term per release in double precision; this covers the rounding of 10^6 additions many times over.
_COUNTER_SLACK = 1.0 + 1e-9


class Account(Shared):
    """One run in a ledger: a reservation, and counters of how much of it is spent. From :meth:`Ledger.open`.

    Attributes
    ----------
    plan_id : str
        Identifier of the run, 32 hexadecimal digits.
    learner : str
        Name of the learner.
    guarantee : Guarantee
        The guarantee of the whole run if it reaches its horizon.
    reserved_mu_squared : float
        ``mu^2`` of that guarantee, rounded up; ``inf`` without noise, and of kind "approximate".
    reserved_pure_epsilon : float
        Its epsilon, for pure differential privacy; otherwise ``inf`` (0 if it releases nothing).
    facts : dict
        JSON values stored when it was opened; ``{"included": True}`` for another ledger's run.
    first_row : int
        Number of the run's first row in its stream.
    group : str
        Identifier of the first run of those on other rows of the same stream (:meth:`Ledger.open`); its own, if it is
        none of them.
    commits : list of dict
        What :meth:`commit` kept: ``rows``, ``releases`` and ``mu_squared`` by then, and the ``facts``.
    """

    def __init__(
        self,
        ledger: Ledger,
        learner: str,
        guarantee: Guarantee,
        plan_id: str | None = None,
        facts: Record | None = None,
    ) -> None:
        self.plan_id = uuid.uuid4().hex if plan_id is None else plan_id
        self.learner = learner
        self.guarantee = guarantee
        self.reserved_mu_squared = square_up(guarantee.mu)
        self.reserved_pure_epsilon = pure_epsilon_of(guarantee, 0, self.reserved_mu_squared)
        self._beside_slack = square_up(guarantee.bound.mu) if guarantee.kind == "approximate" else None
        self.facts: Record = {} if facts is None else facts
        self.group = str(self.facts.get("beside", self.plan_id))
        self.first_row = int(self.facts.get("first_row", 1))
        self.commits: list[Record] = []
        self._written: Counts = (0, 0, 0.0)  # what the journal records
        self._committed: Counts = (0, 0, 0.0)  # from this run's counters
        self._ledger = ledger
        self._counters: Counters | None = None  # of the run that may spend from it
        self._revoke: Revoke | None = None
        self._ended: str | None = None  # why nothing may be released: the account is closed or about to be
        self._last: Counts = (0, 0, 0.0)
        self._closed = False
        self._resumed = False  # its counters may begin below what an earlier process spent
        self._untold = False  # an earlier process had the account, and what it released is recorded nowhere
        self._let = False  # the journal's last record is of a process that ended the run without keeping it

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<Account {self.plan_id} of {self.learner}, {state}>"

    @property
    def ledger(self) -> Ledger:
        """The ledger that the account belongs to."""
        return self._ledger

    @property
    def rows(self) -> tuple[int, int]:
        """First and last row of the stream that the run may learn: its horizon, or the rows that it has learnt."""
        return self.first_row, self.first_row + max(self.guarantee.horizon, self._last[0]) - 1

    @property
    def closed(self) -> bool:
        """Whether the run can spend no more."""
        return self._closed

    def attach(self, counters: Counters, revoke: Revoke | None = None) -> None:
        """Set the live counters of the run; they are called only when the spending is asked for.

        From now on only the run states what it has spent, and the account controls its releases: by ``revoke``,
        or because the run calls :meth:`ask` before every release. If the run belongs to an earlier process and has no
        directory, its whole reservation stays spent, unless that process committed and then closed its ledger: nothing
        better is known.

        Parameters
        ----------
        counters : callable
            Returns ``(rows, releases, mu_squared)`` of the run so far, none of which may ever decrease. It may
            be called from any thread, never while the ledger's own lock is held. To be attached before anything
            is learnt.
        revoke : callable, optional
            ``revoke(words)`` ends the run: it waits for other threads that use the run, prevents all later releases
            (``words`` say why), and may be called again. If it raises, the run was not ended.

        Raises
        ------
        StateError
            If the account is closed or has counters already, in a forked child, or by a counter that is not valid; if
            it was included from another ledger, or its own is closed.
        OSError
            If the journal cannot be written.
        """
        self._ledger._same_process("attach counters to an account of")
        if not callable(counters):
            raise InvalidParameter(f"counters must be callable, found {counters!r}")
        with self._ledger._lock:
            self._check_own()
            if self._counters is not None:
                raise StateError(f"account {self.plan_id} has counters already")
            if self._ledger.closed:
                raise StateError(self._ledger._let_go())
            self._count_untold()
            if self._let and not self._untold:  # from here on the journal does not know the end
                self._ledger._write({**self._record("spent"), "facts": {}})
                self._written = self._last
            self._let = False
            self._counters, self._revoke = counters, revoke
            self._committed, self._ended = (0, 0, 0.0), None
        self._read()

    def ask(self) -> None:
        """Refuse a release that would not be counted: for runs whose counters already include it, before it is made.

        A release is counted first, then asked for, then made. Closing the account refuses all later requests and reads
        the counters afterwards, so it sees every allowed release.

        Raises
        ------
        StateError
            If the account is closed or is being closed, or its ledger is closed.
        """
        with self._ledger._lock:
            if self._ended is not None:
                raise StateError(self._ended)

    def close(self) -> None:
        """End the run, freeze its final counters and free the unspent part of the reservation.

        The run is ended first: this waits for the rows that another thread is learning with it, and nothing is learnt
        or released afterwards. So the frozen counters are all that the run ever spends. Closing again does nothing.

        An account to which no counters were ever attached, or whose counters fail or are not valid, keeps its whole
        reservation: whatever is not known to be unspent counts as spent.

        Raises
        ------
        StateError
            If the counters are not valid (the account is closed nevertheless). If the run itself calls it while it
            learns, for instance in a loss: the account then stays open.
        """
        known, counters = False, self._end(_CLOSED)
        try:
            if counters is not None:
                self._read()
                known = True
        finally:
            with self._ledger._lock:
                another = self._counters is not counters  # attached in the meantime, and not ended
                if not self._closed and not another:
                    if not known:
                        self._last = (*self._last[:2], self.reserved_mu_squared)
                    self._settle()
        if another:
            self.close()

    def _end(self, words: str) -> Counters | None:
        """End the run that may spend, if there is one, and return its counters: they are final."""
        with self._ledger._lock:
            counters, revoke = self._counters, self._revoke
        if revoke is not None:
            revoke(words)  # without the lock, because it may wait for a run that calls the ledger
        with self._ledger._lock:
            if self._counters is counters:
                self._ended = words
        return counters

    def _settle(self) -> None:
        """Close the account at the known spending; the lock is held."""
        # the journal first: if it cannot be written, the account stays open with its whole reservation
        self._ledger._write(self._record("closed"))
        self._closed, self._ended = True, _CLOSED
        self._counters = self._revoke = None

    def close_at(self, rows: int, releases: int, mu_squared: float) -> None:
        """Close the account of a run that is not running, with its known spending.

        It cannot lower a run's spending. A live run is refused: only the run itself knows. A run that was left
        (:meth:`leave`) has ended, and at least the spending known to this process or the journal is counted. A
        run of an earlier process ended with that process, or when it closed its ledger: the journal has one writer at
        a time. If the run has no directory, and that process did not commit and then close its ledger, the whole
        reservation counts as spent. No run can attach itself afterwards, as the account is closed. For a run with a
        directory, the caller's word is taken only for the spending after its last record: such a run releases
        nothing before the journal has it.

        Raises
        ------
        StateError
            If the run is live, the account is closed or another ledger's, or in a forked child.
        """
        self._ledger._same_process("close an account of")
        now = self._checked((rows, releases, mu_squared))
        with self._ledger._lock:
            self._check_own()
            if self._counters is not None:
                raise StateError(
                    f"account {self.plan_id} is of a run that is live, which alone says what it has spent: close() "
                    "ends it, and settles the account"
                )
            self._count_untold()
            self._last = _larger(self._last, now)
            self._settle()

    def _count_untold(self) -> None:
        """Count the whole reservation as spent if the spending is unknown; the lock is held."""
        if self._untold:
            # also in the journal's floor: later commits may not state less
            self._last = self._written = (*self._last[:2], self.reserved_mu_squared)

    def _check_own(self) -> None:
        """Refuse an account that is closed, or belongs to a run of another ledger; the lock is held."""
        if self._closed:
            raise StateError(f"account {self.plan_id} is closed")
        if self.facts.get("included"):
            raise StateError(f"account {self.plan_id} is of a run of another ledger, which counts for it")

    def counts(self) -> Counts:
        """Return the run's counters as they are now; without counters, those of :meth:`entry`."""
        with self._ledger._lock:
            counters = self._counters
        return self._entered() if counters is None else counters()

    def commit(self, counts: Counts | None = None, **facts: Any) -> None:
        """Write the spending into the ledger's journal, permanently; a ledger without a journal stores nothing.

        After a crash only this counts for a run that releases nothing before it is committed, and states so by the
        fact ``{"kept": True}`` when it is opened. Any other run may have released more since: then its whole
        reservation counts.

        Parameters
        ----------
        counts : tuple, optional
            The result of :meth:`counts` when there was something to commit, no less than in the call before. Default:
            the present :meth:`entry`.
        **facts
            JSON values that are stored with it.

        Raises
        ------
        StateError
            If the account is closed, or the counters are not valid.
        OSError
            If the journal cannot be written: its earlier contents hold, and with them the whole reservation.
        """
        found = self._entered() if counts is None else self._checked(counts)
        with self._ledger._lock:
            if self._closed:
                raise StateError(f"account {self.plan_id} is closed")
            if counts is not None:
                self._check_order(self._committed, found)
            # the written ones may be later: another thread may have committed in the meantime
            now = _larger(self._written, found)
            record = {**self._record("spent", now), "facts": facts}
            self._ledger._write(record)
            self._written, self._last = now, _larger(self._last, now)
            if counts is not None:
                self._committed = found
            self.commits.append(record)

    def leave(self) -> None:
        """Detach the counters of a run that ends without closing its account: another run may attach its own.

        The run is ended as by :meth:`close`. Committed spending stays spent, and the whole reservation stays reserved.
        For a run without a directory (:mod:`privol.state`) all of its spending is remembered: its releases were seen.
        """
        counters = self._end(_LEFT)
        if counters is not None and not self.facts.get("kept"):
            self._read()
        with self._ledger._lock:
            if self._counters is counters:
                self._counters = self._revoke = None
                self._resumed = True

    def _let_go(self, words: str) -> None:
        """End the run because its ledger is closed: the account stays open and keeps its whole reservation.

        Its spending is written as by :meth:`leave`, so settling the account later refunds none of it. If its
        counters cannot tell, the whole reservation counts as spent.
        """
        counters = self._end(words)
        if counters is None or self.facts.get("kept") or self._let:
            return
        try:
            self._read()
            known = self._last
        except Exception:
            known = (*self._last[:2], self.reserved_mu_squared)
        with self._ledger._lock:
            self._ledger._keep(self._record("spent", known))
            self._last = self._written = known
            self._let = True

    def entry(self) -> LedgerEntry:
        """Return what the run has spent so far.

        The whole reservation, if this is not known: for a run that was open in another process, which never committed,
        or may have released more.

        Raises
        ------
        StateError
            If the counters are not valid: one went backwards, or more was spent than reserved.
        """
        (rows, releases, spent), closed = self._known()
        if self._resumed and not closed and (self._untold or not self.commits) and self._counters is None:
            spent = self.reserved_mu_squared
        return LedgerEntry(
            plan_id=self.plan_id,
            learner=self.learner,
            first_row=self.first_row,
            last_row=self.first_row - 1 + rows if rows else 0,
            releases=releases,
            mu_squared=spent,
            pure_epsilon=pure_epsilon_of(self.guarantee, releases, spent),
            slack=self._share(releases, spent).slack,
            open=not closed,
            private=self.guarantee.private and self.guarantee.kind != "none",
            beside=self.group if self.group != self.plan_id else None,
        )

    def _entered(self) -> Counts:
        entry = self.entry()
        return entry.rows, entry.releases, entry.mu_squared

    def _known(self) -> tuple[Counts, bool]:
        """The spending that its counters or the journal state, and whether that is all."""
        self._read()
        with self._ledger._lock:
            return self._last, self._closed

    def held(self) -> Share:
        """The most that it may have spent at the end: its spending once closed, its reservation before."""
        with self._ledger._lock:
            releases, square = self._last[1], self._last[2] if self._closed else self.reserved_mu_squared
        return self._share(releases, square)

    def held_square(self) -> float:
        """Square of the mu of :meth:`held`, of all but slack, without making it; the lock is held."""
        square = self._last[2] if self._closed else self.reserved_mu_squared
        return self._beside_slack if square > 0.0 and self._beside_slack is not None else square

    def _share(self, releases: int, mu_squared: float) -> Share:
        return Share(self.plan_id, self.learner, self.guarantee, releases, mu_squared)

    def _read(self) -> None:
        """Read the counters, check them and remember the largest values seen."""
        with self._ledger._lock:
            before, counters = self._last, self._counters
        if counters is None:
            return
        # Called without the lock: the learner may hold a lock of its own, and may call the ledger under it. What
        # was known before the call bounds what it may say from below, whatever other threads read meanwhile.
        now = self._checked(counters())
        if self._resumed:  # repeated rows are paid for already, and spending is never refunded
            now = _larger(now, before)
        self._check_order(before, now)
        with self._ledger._lock:
            if not self._closed:
                self._last = _larger(self._last, now)

    def _check_order(self, before: Counts, now: Counts) -> None:
        if any(new < old for new, old in zip(now, before, strict=True)):
            raise StateError(f"the counters of account {self.plan_id} went backwards, from {before} to {now}")

    def _checked(self, counters: Any) -> Counts:
        try:
            rows, releases, spent = counters
            rows, releases = integer(rows=rows, at_least=0), integer(releases=releases, at_least=0)
            if self.guarantee.kind == "none":
                return rows, releases, math.inf if releases or spent else 0.0
            spent = number(mu_squared=spent, at_least=0.0, infinite=self.guarantee.kind == "approximate")
            if self.guarantee.kind == "approximate":  # it has no parts, and no finite mu
                return rows, releases, math.inf if releases or spent else 0.0
            if self.guarantee.kind == "pure" and releases and not spent:
                spent = self.reserved_mu_squared  # the whole or nothing, unless the run states otherwise
        except (TypeError, ValueError) as error:
            raise StateError(f"the counters of account {self.plan_id} are not valid: {error}") from error
        if spent > self.reserved_mu_squared * _COUNTER_SLACK:
            raise StateError(
                f"account {self.plan_id} has spent mu^2 = {spent!r}, more than its reservation of "
                f"{self.reserved_mu_squared!r}"
            )
        return rows, releases, min(spent * _COUNTER_SLACK, self.reserved_mu_squared)

    # ---- the journal ----------------------------------------------------------------------------------

    def _record(self, kind: str, now: Counts | None = None) -> Record:
        """The journal's record of the account; the lock is held."""
        rows, releases, spent = self._last if now is None else now
        record: Record = {"kind": kind, "plan_id": self.plan_id}
        if kind == "open":
            record |= {
                "learner": self.learner,
                "reserved_mu_squared": as_json(self.reserved_mu_squared),
                "guarantee": self.guarantee.to_record(),
                "facts": self.facts,
            }
        return {**record, "rows": rows, "releases": releases, "mu_squared": as_json(spent)}

    def _follow(self, now: Counts, closed: bool) -> Record:
        """Take over another ledger's knowledge of the same run, and return what must be written; the lock is held."""
        self._last = _larger(self._last, now)  # an older copy refunds nothing
        self._closed, self._ended = closed, _CLOSED if closed else None
        self._resumed = True
        record = self._record("closed" if closed else "spent")
        if self.commits and not closed and not self.facts.get("kept") and not self._let:
            record["facts"] = {}  # without facts the record would mean that the run was abandoned
        return record

    def _recall(self, record: Record) -> None:
        """Take over the spending that the journal states."""
        now = (int(record["rows"]), int(record["releases"]), from_json(record["mu_squared"]))
        if self._closed or any(new < old for new, old in zip(now, self._last, strict=True)):
            raise StateError(f"the records of account {self.plan_id} are not in order")
        self._last = self._written = now
        self._closed = record["kind"] == "closed"
        self._ended = _CLOSED if self._closed else None
        self._resumed = True
        committed = record["kind"] == "spent" and "facts" in record
        if committed:
            if not isinstance(record["facts"], dict):
                raise StateError(f"the facts of account {self.plan_id} are none: {record['facts']!r}")
            self.commits.append(record)
        if not self.facts.get("kept"):
            self._untold = committed or not self.commits
            # without facts it means an abandoned run, or another ledger's knowledge of a run that never committed
            self._let = record["kind"] == "spent" and not committed


def _larger(one: Counts, other: Counts) -> Counts:
    """The larger of each pair of counts."""
    return max(one[0], other[0]), max(one[1], other[1]), max(one[2], other[2])
