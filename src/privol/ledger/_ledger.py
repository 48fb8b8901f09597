"""The ledger: a filter that lets no run start beyond the budget, an odometer, and the journal that outlives both."""

from __future__ import annotations

import json
import math
import os
import threading
import weakref
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .._files import write_atomically
from .._validate import choice, number
from ..errors import BudgetExceeded, InvalidParameter, StateError
from ..guarantees import (
    ADJACENCIES,
    Guarantee,
    gdp_delta,
    gdp_mu,
    left_of_delta,
    pure_within_gdp,
    sum_up,
)
from ._account import Account
from ._admission import refusal
from ._entries import LedgerEntry, Share, Spent, compose, describe
from ._groups import PLACE, facts_beside, held_by, shares_of, squares_of
from ._html import ledger_html
from ._journal import FORMAT, Journal, Record, as_json, read_journal, reading
from ._remaining import difference_down, left, root_up
from ._shared import Shared

__all__ = ["Ledger"]

_ENTRY_FORMAT, _ENTRY_VERSION = "privol.ledger-entry", 1
# The largest share of a limit's delta that collisions of users' hashes may take.
_COLLISIONS = 2.0**-36


class Ledger(Shared):
    """A journal of runs with an optional limit on what they may spend together.

    Shared by reference: ``copy``, ``deepcopy`` and scikit-learn's ``clone`` give the same ledger, ``pickle`` is
    refused, and a forked child can open no run on it (what it reads there is the state at the fork). All methods
    may be called from any thread.

    Parameters
    ----------
    epsilon, delta : float, optional
        The limit of all runs together, both or neither; ``epsilon`` at least 0, ``delta`` above 0 and below 1. A run is
        admitted if the squares of the mu of all runs fit or, if all are of kind "pure", their epsilons add up to at
        most ``epsilon``.
    adjacency : {"replace", "zero_out"}
        The relation that every run must have.
    slack : float, default=0.0
        Part of ``delta`` that is set aside for runs of kind "approximate" (such as ``ObjectivePerturbation`` with a
        delta), whose deltas together are at most this; all other figures use the rest. At most ``delta``: then every
        run must be pure or approximate. Needs a limit; without one such runs are all admitted.
    journal : path, optional
        File that outlives the process: every reservation is on the disk before a run begins, and every run's end before
        its budget is freed. An existing file is continued; its limit and adjacency must be those given. Runs that are
        still open in it, because their process ended without closing them, keep their whole reservation until they are
        resumed (:mod:`privol.state`) and closed. One ledger at a time may have a journal open. Default: none; the
        ledger ends with its process.

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range, or only one of ``epsilon`` and ``delta`` is given.
    StateError
        If the journal is damaged, in use, or of another limit or adjacency.
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str = "replace",
        slack: float = 0.0,
        journal: str | os.PathLike[str] | None = None,
    ) -> None:
        if (epsilon is None) != (delta is None):
            raise InvalidParameter("epsilon and delta must be given together: a limit needs both, no limit neither")
        self._adjacency = choice(ADJACENCIES, adjacency=adjacency)
        self._slack = number(slack=slack, at_least=0.0, below=1.0)
        self._limit: tuple[float, float, float] | None = None
        # of the limit's delta: what the slack leaves, fixed before the first run, however much slack is used
        self._rest = 0.0
        if epsilon is not None and delta is not None:
            mu = gdp_mu(epsilon, delta)
            rest = left_of_delta(float(delta), self._slack)
            if rest is None:
                raise InvalidParameter(f"slack is a part of delta and must be at most {delta!r}, found {slack!r}")
            if self._slack > 0.0:
                mu = gdp_mu(epsilon, rest) if rest > 0.0 else 0.0
            self._limit, self._rest = (float(epsilon), float(delta), mu), rest
        elif self._slack > 0.0:
            raise InvalidParameter("slack must be 0 without a limit, of whose delta it is a part")
        self._accounts: list[Account] = []
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._journal: Journal | None = None
        self._closed = False
        if journal is not None:
            self._journal = self._take_over(Journal(journal, self._header()))
        _ledgers.add(self)

    # ---- the journal ----------------------------------------------------------------------------------

    def _header(self) -> Record:
        epsilon, delta, _ = self._limit or (None, None, None)
        limit: Record = {"epsilon": None if epsilon is None else as_json(epsilon), "delta": delta}
        if self._slack > 0.0:
            limit["slack"] = self._slack
        version = 2 if self._slack > 0.0 else 1
        return {"format": FORMAT, "version": version, "kind": "ledger", "adjacency": self.adjacency, **limit}

    def _take_over(self, journal: Journal) -> Journal:
        """Continue a journal: its accounts become this ledger's."""
        try:
            own = {"slack": 0.0, **self._header(), "version": None}  # the version follows from the slack
            for found in journal.found.records[:1]:
                found = {"slack": 0.0, **found, "version": None}
                for name in own:
                    if name not in found or found[name] != own[name]:
                        raise StateError(
                            f"{journal.path}: this journal has {name} {found.get(name)!r}, and {own[name]!r} is asked "
                            "for: a limit stays what it was when the first run was reserved under it"
                        )
            self._replay(journal.path, journal.found.records)
        except BaseException:
            journal.close()
            raise
        return journal

    def _replay(self, path: Path, records: list[Record]) -> None:
        accounts: dict[str, Account] = {}
        for record in records[1:]:
            with reading(path, record["number"]):
                self._recall(record, accounts)

    def _recall(self, record: Record, accounts: dict[str, Account]) -> None:
        kind, plan_id = record["kind"], record["plan_id"]
        if kind == "open" and plan_id not in accounts:
            guarantee = Guarantee.from_record(record["guarantee"])
            facts = record.get("facts")
            account = accounts[plan_id] = Account(self, record["learner"], guarantee, plan_id, facts)
            self._accounts.append(account)
        elif kind not in ("spent", "closed") or plan_id not in accounts:
            raise StateError(f"record {record['number']} of the journal is of no known kind or account")
        accounts[plan_id]._recall(record)

    def _write(self, record: Record) -> None:
        """Add to the journal; the lock is held. A forked child has a copy of the ledger, not its journal."""
        if self._journal is None or os.getpid() != self._pid:
            return
        if self._closed:
            raise StateError(self._let_go())
        self._keep(record)

    def _keep(self, record: Record) -> None:
        """Add to this process's journal, even if it is about to be abandoned; the lock is held."""
        assert self._journal is not None
        self._journal.append(record)

    def _let_go(self) -> str:
        """Return why nothing can be spent from the ledger any more."""
        return f"the ledger of {self.journal} is closed: open its journal by another"

    @property
    def journal(self) -> Path | None:
        """Path of the journal; ``None`` without one."""
        return None if self._journal is None else self._journal.path

    @property
    def closed(self) -> bool:
        """Whether the journal was released: nothing can be opened, committed or closed any more."""
        return self._closed

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Ledger:
        """Return the contents of a journal as a ledger without a journal: to read, or to :meth:`include`.

        Its file is not locked, and another process may be writing it. Runs that are open there are open here, with
        their spending at their last record, or with their whole reservation if they may have spent more since; no run
        can be opened.

        Raises
        ------
        StateError
            If the journal is damaged.
        OSError
            If it cannot be read.
        """
        found = read_journal(path)
        if not found.records:
            raise StateError(f"{found.path}: is empty")
        first = found.records[0]
        with reading(found.path, 1):
            limit = {"epsilon": _or_none(first["epsilon"]), "delta": first["delta"], "slack": first.get("slack", 0.0)}
            ledger = cls(adjacency=first["adjacency"], **limit)
        ledger._replay(found.path, found.records)
        ledger._pid = -1
        return ledger

    def include(self, other: Ledger, *, runs: Collection[str] | None = None) -> None:
        """Count the runs of another ledger as spent here too: on the same rows, or on rows that may be the same.

        Runs that are open there count with their whole reservation. Nothing is refused: spent budget is spent, and may
        use up this ledger's limit. Including a run again only updates what it has spent since.

        Parameters
        ----------
        other : Ledger
            Such as :meth:`read` returns.
        runs : collection of str, optional
            The ``plan_id`` of each run that is included; default: all.

        Raises
        ------
        InvalidParameter
            If its adjacency is not this ledger's.
        StateError
            In a forked child.
        OSError
            If the journal cannot be written.
        """
        self._same_process("include runs in")
        if other.adjacency != self.adjacency:
            raise InvalidParameter(
                f"adjacency must be the ledger's, {self.adjacency!r}, found {other.adjacency!r}: guarantees for "
                "different relations do not compose"
            )
        wanted = [account for account in other.accounts if runs is None or account.plan_id in runs]
        found = [(account, *account._known()) for account in wanted]
        with self._lock:
            known = {account.plan_id: account for account in self._accounts}
            for account, now, closed in found:
                mine = known.get(account.plan_id)
                if mine is None:
                    facts = {"included": True} | {k: v for k, v in account.facts.items() if k in PLACE}
                    mine = Account(self, account.learner, account.guarantee, account.plan_id, facts)
                    self._write(mine._record("open"))
                    self._accounts.append(mine)
                if not mine.closed:
                    # only this ledger knows the end of its own runs
                    closed = closed and bool(mine.facts.get("included"))
                    self._write(mine._follow(now, closed))
                    mine._written = mine._last

    def close(self) -> None:
        """Release the journal for another ledger. Open runs keep their whole reservation in it.

        They are ended first, as by :meth:`Account.close`, because that other ledger may settle their accounts. Without
        a journal it does nothing; closing twice is harmless.

        Raises
        ------
        StateError
            If a run calls it while it learns, for instance in a loss: the journal is then not released.
        """
        with self._lock:
            if self._journal is None or os.getpid() != self._pid:
                return
            closed, self._closed = self._closed, True  # no new run begins
            accounts = [account for account in self._accounts if not account.closed]
        try:
            for account in accounts:
                account._let_go(self._let_go())
        except BaseException:
            self._closed = closed
            raise
        self._journal.close()

    @property
    def adjacency(self) -> str:
        """The adjacency that all runs have."""
        return self._adjacency

    @property
    def epsilon(self) -> float | None:
        """Limit on epsilon, at :attr:`delta`; ``None`` without a limit."""
        return None if self._limit is None else self._limit[0]

    @property
    def delta(self) -> float | None:
        """Delta of the limit; ``None`` without a limit."""
        return None if self._limit is None else self._limit[1]

    @property
    def mu(self) -> float | None:
        """The limit as Gaussian differential privacy, of all but the slack, rounded down; ``None`` without a limit."""
        return None if self._limit is None else self._limit[2]

    @property
    def slack(self) -> float:
        """The part of the limit's delta that is set aside for runs of kind "approximate"."""
        return self._slack

    def __repr__(self) -> str:
        limit = "no limit"
        if self._limit is not None:
            limit = f"epsilon={self._limit[0]:g}, delta={self._limit[1]:g}"
            limit += f", slack={self._slack:g}" if self._slack > 0.0 else ""
        return f"<Ledger ({limit}, adjacency={self.adjacency!r}) of {len(self._accounts)} accounts>"

    def _repr_html_(self) -> str:
        """What notebooks show: the limit, the runs, and the sentence to unfold."""
        return ledger_html(self)

    def _same_process(self, what: str) -> None:
        if os.getpid() != self._pid:
            raise StateError(
                f"a forked child cannot {what} the ledger of its parent: the two would spend the same budget "
                "twice; open the run in the parent, or give the child a ledger and a budget of its own"
            )

    def open(
        self,
        *,
        learner: str,
        guarantee: Guarantee,
        facts: dict[str, Any] | None = None,
        beside: str | Account | None = None,
        first_row: int = 1,
    ) -> Account:
        """Reserve the whole of a run's plan, before its first row is learnt.

        Parameters
        ----------
        learner : str
            Name of the learner.
        guarantee : Guarantee
            The guarantee of the run if it reaches its horizon.
        facts : dict, optional
            JSON values that the journal keeps with it.
        beside : Account or str, optional
            A run of this ledger (or one included in it, open or closed), or its ``plan_id``, on rows of the same stream
            that end before ``first_row``. Its releases may be public to this run: together they cost as much as the
            more expensive one (docs/proofs/phases.md). All runs connected in this way form a group, whose rows
            are counted from the same first row: a run has the rows from its ``first_row`` on, as many as its
            guarantee's ``horizon``, and learns no other row of the stream. Runs with the same ``first_row`` are on the
            same rows, and add up; ranges that overlap otherwise are refused. All must be of kind "gdp" (or "none").
            If they state how many rows a user has, these are counted over the whole stream. If the unit is a user,
            there may be one run besides the first, and its guarantee must cover all rows of a user, including those of
            the first run: the cost of both, as a user's rows may be in both. Default: on rows that any run may have
            learnt.
        first_row : int
            Number of the run's first row in its stream; only with ``beside``.

        Returns
        -------
        Account
            Open; the run attaches its counters and closes it at the end.

        Raises
        ------
        BudgetExceeded
            If the plan does not fit into the rest of the limit. Nothing is reserved then.
        InvalidParameter
            If the guarantee's adjacency is not the ledger's, or the run cannot be ``beside`` that account: of another
            ledger, on rows that are not apart from it, of another kind, or with other caps of the rows of a user.
        StateError
            In a forked child.
        """
        self._same_process("open a run on")
        if not isinstance(learner, str) or not learner:
            raise InvalidParameter(f"learner must be a non-empty string, found {learner!r}")
        if not isinstance(guarantee, Guarantee):
            raise InvalidParameter(f"guarantee must be a Guarantee, found {guarantee!r}")
        if guarantee.adjacency != self.adjacency:
            raise InvalidParameter(
                f"adjacency must be the ledger's, {self.adjacency!r}, found {guarantee.adjacency!r}: guarantees for "
                "different relations do not compose"
            )
        facts = {} if facts is None else facts
        if kept := sorted({"included", *PLACE} & facts.keys()):
            raise InvalidParameter(f"facts must not have {', '.join(map(repr, kept))}, which the ledger itself keeps")
        with self._lock:
            if beside is not None:
                facts = {**facts, **facts_beside(self._accounts, learner, guarantee, beside, first_row)}
            elif first_row != 1:
                raise InvalidParameter(f"first_row is for a run beside another, found {first_row!r}")
            account = Account(self, learner, guarantee, facts=facts)
            self._admit(account)
            self._write(account._record("open"))
            self._accounts.append(account)
        return account

    def _held(self) -> list[Share]:
        """The shares that runs hold: reservations of open ones, spending of closed ones; the lock is held."""
        return held_by(self._accounts)

    def _squares(self) -> list[float]:
        """Squares of the mu that they hold, of all but slack; the lock is held."""
        return squares_of(self._accounts)

    def _overdrawn(self) -> bool:
        """Whether runs that were included hold more slack than the limit sets aside; the lock is held."""
        slacks = [a.held().slack for a in self._accounts if a.guarantee.slack > 0.0]
        return sum_up(slacks) > self._slack

    def _admit(self, account: Account) -> None:
        """Refuse a run with which neither rule holds for all runs together; docs/guarantee.md has the proof."""
        if self._limit is None:
            return
        if account.reserved_mu_squared == 0.0:
            return
        epsilon = self._limit[0]
        shares: list[Share] | None = None
        if any(a.guarantee.slack > 0.0 for a in [*self._accounts, account]):
            shares = held_by([*self._accounts, account])
            if sum_up([share.slack for share in shares]) > self._slack:
                raise BudgetExceeded(self._refusal(account))
        if account.guarantee.bound.collision > 0.0:
            shares = shares or held_by([*self._accounts, account])
            collision = sum_up([share.bound.collision for share in shares])
            if collision > _COLLISIONS * self._rest:
                raise BudgetExceeded(
                    f"{account.learner}: two users with one keyed hash would cost a delta of {collision:.3g} in "
                    f"all, allowed is {_COLLISIONS * self._rest:.3g} beside a limit of delta = {self._rest:.3g}"
                )
        total = root_up(sum_up(squares_of([*self._accounts, account])))
        # The limit is (epsilon, rest of delta) itself, not its mu: that one is a hair smaller, and a sum of squares is
        # a hair larger than it is on paper. gdp_delta is rounded up, so what is admitted is within the limit.
        if gdp_delta(epsilon, total) <= self._rest:
            return
        if sum_up([share.bound_pure for share in shares or held_by([*self._accounts, account])]) <= epsilon:
            return
        raise BudgetExceeded(self._refusal(account))

    def _refusal(self, account: Account) -> str:
        assert self._limit is not None
        return refusal(
            account,
            self._accounts,
            limit=self._limit,
            rest_of_delta=self._rest,
            slack=self._slack,
            remaining_pure=self.remaining_pure or 0.0,
        )

    @property
    def accounts(self) -> tuple[Account, ...]:
        """All runs ever opened, in that order."""
        with self._lock:
            return tuple(self._accounts)

    def entries(self) -> list[LedgerEntry]:
        """Return what every run has spent so far, in the order of opening.

        Raises
        ------
        StateError
            If the counters of a run are not valid.
        """
        return [account.entry() for account in self.accounts]

    @property
    def spent(self) -> Spent:
        """What all runs together have spent so far (:class:`Spent`), without reservations."""
        shares = []
        for account, entry in [(account, account.entry()) for account in self.accounts]:
            share = Share(entry.plan_id, entry.learner, account.guarantee, entry.releases, entry.mu_squared)
            shares.append((account, share))
        return compose(shares_of(shares), adjacency=self.adjacency, delta=self.delta)

    @property
    def committed(self) -> Spent:
        """What closed runs have spent and open ones reserved, all together: what a limit is compared with."""
        with self._lock:
            held = self._held()
        return compose(held, adjacency=self.adjacency, delta=self.delta)

    @property
    def remaining(self) -> float | None:
        """Largest ``mu`` that a new run can still reserve, of all but slack, rounded down; ``None`` without a limit.

        A run ``beside`` another (:meth:`open`) may reserve more: what its group already holds costs it nothing.
        """
        if self._limit is None:
            return None
        with self._lock:
            return 0.0 if self._overdrawn() else left(self._limit[2], sum_up(self._squares()))

    @property
    def remaining_pure(self) -> float | None:
        """Largest epsilon that a new run of kind "pure" can still reserve, rounded down; ``None`` without a limit."""
        if self._limit is None:
            return None
        with self._lock:
            held, overdrawn = self._held(), self._overdrawn()
        if overdrawn:
            return 0.0
        rest = left(self._limit[2], sum_up([share.bound_squared for share in held]))
        return max(pure_within_gdp(rest), difference_down(self._limit[0], [share.bound_pure for share in held]))

    @property
    def remaining_slack(self) -> float | None:
        """Largest delta of a new run of kind "approximate", rounded down; ``None`` without a limit.

        Its epsilon may be up to :attr:`remaining_pure`.
        """
        if self._limit is None:
            return None
        with self._lock:
            return difference_down(self._slack, [share.slack for share in self._held()])

    def sentence(self, delta: float | None = None, *, if_fixed: bool = False) -> str:
        """State in one sentence what all runs together guarantee: closed ones by their spending, open ones as reserved.

        Parameters
        ----------
        delta : float, optional
            The delta at which epsilon is stated, above 0 and below 1. Default: the limit's, or the largest of the
            runs'.
        if_fixed : bool
            A second sentence states :meth:`Spent.epsilon_if_fixed`, and when it holds.
        """
        with self._lock:
            held = self._held()
        delta = self.delta if delta is None else delta
        return describe(held, adjacency=self.adjacency, delta=delta, if_fixed=if_fixed)

    def to_records(self) -> list[dict[str, Any]]:
        """Return one dictionary of JSON values per run: its entry, its reservation and its guarantee.

        Raises
        ------
        StateError
            If the counters of a run are not valid.
        """
        records = []
        for account in self.accounts:
            record: dict[str, Any] = {"format": _ENTRY_FORMAT, "version": _ENTRY_VERSION, **asdict(account.entry())}
            record["reserved_mu_squared"] = account.reserved_mu_squared
            if not record["slack"]:
                del record["slack"]  # newer than the format; where it matters, mu_squared states that there is no mu
            if record["beside"] is None:
                del record["beside"]  # newer, too; a reader that does not know it adds the squares
            for name in ("mu_squared", "pure_epsilon", "reserved_mu_squared"):
                record[name] = as_json(record[name])
            record["guarantee"] = account.guarantee.to_record()
            records.append(record)
        return records

    def write_jsonl(self, path: str | os.PathLike[str]) -> None:
        """Write :meth:`to_records` as JSON lines, whole or not at all: a reader never sees half a ledger.

        Raises
        ------
        StateError
            If the counters of a run are not valid.
        OSError
            If the file cannot be written; its earlier contents are then untouched.
        """
        text = "".join(json.dumps(record, allow_nan=False) + "\n" for record in self.to_records())
        write_atomically(path, text.encode())


def _or_none(x: Any) -> float | None:
    return None if x is None else math.inf if x == "inf" else float(x)


_ledgers: weakref.WeakSet[Ledger] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    # Another thread may have held a lock at the fork; that thread does not exist here, so the lock would never be
    # released. No process has a negative number: the child stays refused even if the system reuses its parent's number.
    for ledger in _ledgers:
        ledger._lock = threading.RLock()
        ledger._pid = -1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
