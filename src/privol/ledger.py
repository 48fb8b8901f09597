"""The journal of what runs release, and the filter that lets no run start beyond the budget.

A :class:`Ledger` reserves the whole of a run's plan before its first row is learnt (``open``), reads what was
really spent from the running learner only when somebody asks, and gives back the unspent part when the run is
closed. It holds O(1) memory per run, whatever the number of rows. Everything in it is public; it sees neither
data nor noise.

The filter is the Gaussian one (Dong, Roth and Su 2022; spent ``mu^2`` adds up): runs may be chosen adaptively,
from the releases of earlier ones, as long as what was reserved and not given back stays within the limit.
"""

from __future__ import annotations

import json
import math
import os
import threading
import uuid
import weakref
from collections.abc import Callable
from dataclasses import asdict, dataclass
from decimal import ROUND_FLOOR, Context
from fractions import Fraction
from typing import Any, NoReturn

from ._validate import choice, integer, number
from .errors import BudgetExceeded, InvalidParameter, StateError
from .guarantees import (
    ADJACENCIES,
    Guarantee,
    describe_composition,
    format_up,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    group_mu,
    square_up,
    zcdp_rho_of_gdp,
)

__all__ = ["Account", "Counters", "Ledger", "LedgerEntry", "LedgerSeat", "LostLedger", "Spent"]

Counters = Callable[[], tuple[int, int, float]]
"""What a run shows its account: rows learnt, models (or windows) released, and ``mu^2`` spent on them so far."""

# A learner adds up a term per release in double precision; this covers the rounding of 10^6 additions many times over.
_COUNTER_SLACK = 1.0 + 1e-9


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """What one run has spent so far: rows ``first_row`` to ``last_row`` (0 for none) of its own stream. Public.

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
        Square of the Gaussian differential privacy parameter of these releases, rounded up; ``inf`` without noise.
    open : bool
        Whether the run may still spend.
    private : bool
        False if the run had no noise or its noise came from a known seed.
    """

    plan_id: str
    learner: str
    first_row: int = 1
    last_row: int
    releases: int
    mu_squared: float
    open: bool
    private: bool


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What all runs of a ledger have spent together: one row may have been in every one of them. Public.

    Attributes
    ----------
    mu : float
        Composed parameter of Gaussian differential privacy, rounded up; ``inf`` after a release without noise.
    adjacency : {"replace", "zero_out"}
        The relation of every run in it.
    releases : int
        Number of models and of windows of metrics released.
    delta : float or None
        Where :meth:`epsilon` is stated unless another delta is asked for (the ledger's limit).
    private : bool
        False as soon as one run that released something had no noise, or noise from a known seed.
    """

    mu: float
    adjacency: str
    releases: int
    delta: float | None
    private: bool

    @property
    def rho(self) -> float:
        """Parameter of zero-concentrated differential privacy, in nats, rounded up."""
        return zcdp_rho_of_gdp(self.mu)

    def epsilon(self, delta: float | None = None) -> float:
        """Epsilon at ``delta`` (above 0, below 1; default: the limit's), rounded up.

        Raises
        ------
        InvalidParameter
            If ``delta`` is out of its range, or not given for a ledger without a limit.
        """
        if delta is None:
            delta = self.delta
        if delta is None:
            raise InvalidParameter("delta must be given: the ledger has no limit to take it from")
        return gdp_epsilon(self.mu, delta)

    def delta_at(self, epsilon: float) -> float:
        """Delta at ``epsilon`` (at least 0), rounded up."""
        return gdp_delta(epsilon, self.mu)


class _Shared:
    """An object that exists once: copies are the object itself, and it does not leave its process."""

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise StateError(
            f"a {type(self).__name__} cannot be pickled: the copy would let the same budget be spent twice; "
            "share the object within one process, or write its records with to_records()"
        )


class Account(_Shared):
    """One run in a ledger: a reservation, and counters that say how much of it is spent. From :meth:`Ledger.open`.

    Attributes
    ----------
    plan_id : str
        Identifier of the run, 32 hexadecimal digits.
    learner : str
        Name of the learner.
    guarantee : Guarantee
        What the whole run guarantees, if it goes to its horizon.
    reserved_mu_squared : float
        ``mu^2`` of that guarantee, rounded up; ``inf`` without noise.
    """

    def __init__(self, ledger: Ledger, learner: str, guarantee: Guarantee) -> None:
        self.plan_id = uuid.uuid4().hex
        self.learner = learner
        self.guarantee = guarantee
        self.reserved_mu_squared = square_up(guarantee.mu)
        self._ledger = ledger
        self._counters: Counters | None = None
        self._last = (0, 0, 0.0)
        self._closed = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<Account {self.plan_id} of {self.learner}, {state}>"

    @property
    def closed(self) -> bool:
        """Whether the run can spend no more."""
        return self._closed

    def attach(self, counters: Counters) -> None:
        """Name the live counters of the run; they are called only when somebody asks what was spent.

        Parameters
        ----------
        counters : callable
            Returns ``(rows, releases, mu_squared)`` of the run so far, none of which may ever decrease. It may
            be called from any thread, never while the ledger's own lock is held. To be attached before anything
            is learnt.

        Raises
        ------
        StateError
            If the account is closed or has counters already, in a forked child, or by a counter that is not valid.
        """
        self._ledger._same_process("attach counters to an account of")
        if not callable(counters):
            raise InvalidParameter(f"counters must be callable, found {counters!r}")
        with self._ledger._lock:
            if self._closed:
                raise StateError(f"account {self.plan_id} is closed")
            if self._counters is not None:
                raise StateError(f"account {self.plan_id} has counters already")
            self._counters = counters
        self._read()

    def close(self) -> None:
        """Freeze the final counters and give back the unspent part of the reservation; closing again does nothing.

        An account to which no counters were ever attached, or whose counters fail or are not valid, keeps its whole
        reservation: what is not known to be unspent counts as spent.

        Raises
        ------
        StateError
            If the counters are not valid (the account is closed all the same).
        """
        known = False
        try:
            if self._counters is not None:
                self._read()
                known = True
        finally:
            with self._ledger._lock:
                if not self._closed:
                    if not known:
                        self._last = (*self._last[:2], self.reserved_mu_squared)
                    self._closed = True
                    self._counters = None

    def entry(self) -> LedgerEntry:
        """Return what the run has spent so far.

        Raises
        ------
        StateError
            If the counters are not valid: one went backwards, or more was spent than reserved.
        """
        self._read()
        with self._ledger._lock:
            (rows, releases, spent), closed = self._last, self._closed
        return LedgerEntry(
            plan_id=self.plan_id,
            learner=self.learner,
            last_row=rows,
            releases=releases,
            mu_squared=spent,
            open=not closed,
            private=self.guarantee.private and self.guarantee.kind != "none",
        )

    def _read(self) -> None:
        """Read the counters, check them and remember the largest values seen."""
        with self._ledger._lock:
            before, counters = self._last, self._counters
        if counters is None:
            return
        # Called without the lock: the learner may hold a lock of its own, and may call the ledger under it. What
        # was known before the call bounds what it may say from below, whatever other threads read meanwhile.
        now = self._checked(counters())
        if any(new < old for new, old in zip(now, before, strict=True)):
            raise StateError(f"the counters of account {self.plan_id} went backwards, from {before} to {now}")
        with self._ledger._lock:
            if not self._closed:
                last = self._last
                self._last = (max(now[0], last[0]), max(now[1], last[1]), max(now[2], last[2]))

    def _checked(self, counters: Any) -> tuple[int, int, float]:
        try:
            rows, releases, spent = counters
            rows, releases = integer(rows=rows, at_least=0), integer(releases=releases, at_least=0)
            if self.guarantee.kind == "none":
                return rows, releases, math.inf if releases else 0.0
            spent = number(mu_squared=spent, at_least=0.0)
        except (TypeError, ValueError) as error:
            raise StateError(f"the counters of account {self.plan_id} are not valid: {error}") from error
        if spent > self.reserved_mu_squared * _COUNTER_SLACK:
            raise StateError(
                f"account {self.plan_id} has spent mu^2 = {spent!r}, more than its reservation of "
                f"{self.reserved_mu_squared!r}"
            )
        return rows, releases, min(spent * _COUNTER_SLACK, self.reserved_mu_squared)


class Ledger(_Shared):
    """A journal of runs with an optional limit on what they may spend together.

    Shared by reference: ``copy``, ``deepcopy`` and scikit-learn's ``clone`` give the same ledger, ``pickle`` is
    refused, and a forked child can open no run on it (what it reads there is the state at the fork). All methods
    may be called from any thread.

    Parameters
    ----------
    epsilon, delta : float, optional
        The limit of all runs together, both or neither; ``epsilon`` at least 0, ``delta`` above 0 and below 1.
    adjacency : {"replace", "zero_out"}
        The relation that every run must have.

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range, or only one of ``epsilon`` and ``delta`` is given.
    """

    def __init__(self, *, epsilon: float | None = None, delta: float | None = None, adjacency: str = "replace") -> None:
        if (epsilon is None) != (delta is None):
            raise InvalidParameter("epsilon and delta must be given together: a limit needs both, no limit neither")
        self._adjacency = choice(ADJACENCIES, adjacency=adjacency)
        self._limit: tuple[float, float, float] | None = None
        if epsilon is not None and delta is not None:
            mu = gdp_mu(epsilon, delta)
            self._limit = (float(epsilon), float(delta), mu)
        self._accounts: list[Account] = []
        self._lock = threading.RLock()
        self._pid = os.getpid()
        _ledgers.add(self)

    @property
    def adjacency(self) -> str:
        """The relation that every run has."""
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
        """The limit as Gaussian differential privacy, rounded down; ``None`` without a limit."""
        return None if self._limit is None else self._limit[2]

    def __repr__(self) -> str:
        limit = "no limit"
        if self._limit is not None:
            limit = f"epsilon={self._limit[0]:g}, delta={self._limit[1]:g}"
        return f"<Ledger ({limit}, adjacency={self.adjacency!r}) of {len(self._accounts)} accounts>"

    def _same_process(self, what: str) -> None:
        if os.getpid() != self._pid:
            raise StateError(
                f"a forked child cannot {what} the ledger of its parent: the two would spend the same budget "
                "twice; open the run in the parent, or give the child a ledger and a budget of its own"
            )

    def open(self, *, learner: str, guarantee: Guarantee) -> Account:
        """Reserve the whole of a run's plan, before its first row is learnt.

        Parameters
        ----------
        learner : str
            Name of the learner.
        guarantee : Guarantee
            What the run will guarantee if it goes to its horizon.

        Returns
        -------
        Account
            Open; the run attaches its counters and closes it at the end.

        Raises
        ------
        BudgetExceeded
            If the plan does not fit into what is left of the limit. Nothing is reserved then.
        InvalidParameter
            If the guarantee's adjacency is not the ledger's.
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
        account = Account(self, learner, guarantee)
        with self._lock:
            self._admit(account)
            self._accounts.append(account)
        return account

    def _committed(self) -> float:
        """Sum of squares reserved by open runs and spent by closed ones, rounded up; the lock is held."""
        squares = [a._last[2] if a._closed else a.reserved_mu_squared for a in self._accounts]
        return _sum_up(squares)

    def _admit(self, account: Account) -> None:
        if self._limit is None:
            return
        epsilon, delta, mu = self._limit
        committed, asked = self._committed(), account.guarantee.mu
        total = _root_up(_sum_up([committed, account.reserved_mu_squared]))
        # The limit is (epsilon, delta) itself, not its mu: that one is a hair smaller, and a sum of squares is a
        # hair larger than it is on paper. gdp_delta is rounded up, so what is admitted is within the limit.
        if asked == 0.0 or gdp_delta(epsilon, total) <= delta:
            return
        left = _left(mu, committed)
        raise BudgetExceeded(
            f"{account.learner} asks for mu = {asked:.6g} (epsilon = {format_up(account.guarantee.epsilon(delta))} "
            f"at delta = {delta:g}); of the ledger's limit mu = {mu:.6g} (epsilon = {epsilon:g}, delta = {delta:g}), "
            f"mu = {_root_up(committed):.6g} is spent or reserved by {len(self._accounts)} earlier runs, and "
            f"mu = {_format_down(left)} (epsilon = {_format_down(gdp_epsilon(left, delta))}) is left, because the "
            "squares of mu add up"
        )

    @property
    def accounts(self) -> tuple[Account, ...]:
        """All runs ever opened, in that order."""
        with self._lock:
            return tuple(self._accounts)

    def entries(self) -> list[LedgerEntry]:
        """Return what every run has really spent so far, in the order of opening.

        Raises
        ------
        StateError
            If the counters of a run are not valid.
        """
        return [account.entry() for account in self.accounts]

    @property
    def spent(self) -> Spent:
        """What all runs together have really spent so far (:class:`Spent`), reservations not included."""
        entries = [entry for entry in self.entries() if entry.mu_squared > 0.0 or entry.releases > 0]
        return Spent(
            mu=_root_up(_sum_up([entry.mu_squared for entry in entries])),
            adjacency=self.adjacency,
            releases=sum(entry.releases for entry in entries),
            delta=self.delta,
            private=all(entry.private for entry in entries),
        )

    @property
    def remaining(self) -> float | None:
        """Largest ``mu`` that a new run can still reserve, rounded down; ``None`` without a limit."""
        if self._limit is None:
            return None
        with self._lock:
            return _left(self._limit[2], self._committed())

    def sentence(self, delta: float | None = None) -> str:
        """Say in one sentence what all runs together guarantee: what closed ones spent, and what open ones reserved.

        Parameters
        ----------
        delta : float, optional
            Where epsilon is stated, above 0 and below 1. Default: the limit's, or the largest of the runs'.
        """
        with self._lock:
            held = [(a, a._last[2] if a._closed else a.reserved_mu_squared) for a in self._accounts]
        held = [(account, square) for account, square in held if square > 0.0]
        mus = [_root_up(square) for _, square in held]
        promises = [account.guarantee for account, _ in held]
        if delta is None:
            delta = self.delta or max((g.delta for g in promises), default=0.5)
        users = [group_mu(mu, g.rows_per_user) for mu, g in zip(mus, promises, strict=True) if g.rows_per_user]
        return describe_composition(
            mus,
            [account.learner for account, _ in held],
            mu=_root_up(_sum_up([square for _, square in held])),
            user_mu=_root_up(_sum_up([square_up(mu) for mu in users])) if len(users) == len(mus) else None,
            users=[g.user for g in promises],
            delta=number(delta=delta, above=0.0, below=1.0),
            adjacency=self.adjacency,
            private=all(g.private for g in promises),
        )

    def to_records(self) -> list[dict[str, Any]]:
        """Return one dictionary of JSON values per run: its entry, its reservation and its guarantee.

        Raises
        ------
        StateError
            If the counters of a run are not valid.
        """
        records = []
        for account in self.accounts:
            record: dict[str, Any] = {"format": _FORMAT, "version": _VERSION, **asdict(account.entry())}
            record["reserved_mu_squared"] = account.reserved_mu_squared
            # JSON has no infinity; the word stands for it.
            for name in ("mu_squared", "reserved_mu_squared"):
                record[name] = "inf" if math.isinf(record[name]) else record[name]
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
            If the file cannot be written; what was there before is then untouched.
        """
        text = "".join(json.dumps(record, allow_nan=False) + "\n" for record in self.to_records())
        target = os.fspath(path)
        draft = f"{target}.{uuid.uuid4().hex}.tmp"
        try:
            with open(draft, "x", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, target)
            if os.name == "posix":  # the new name, too, has to survive a crash
                folder = os.open(os.path.dirname(target) or ".", os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
        except BaseException:
            if os.path.exists(draft):
                os.unlink(draft)
            raise


_FORMAT = "privol.ledger-entry"
_VERSION = 1


def _sum_up(squares: list[float]) -> float:
    """Sum of numbers of at least 0, rounded up; exact if there is at most one that is not 0."""
    terms = [square for square in squares if square > 0.0]
    if len(terms) < 2:
        return terms[0] if terms else 0.0
    try:
        return math.nextafter(math.fsum(terms), math.inf)
    except OverflowError:
        return math.inf


def _root_up(square: float) -> float:
    """Smallest double whose square is at least ``square``."""
    if math.isinf(square):
        return math.inf
    root = math.sqrt(square)
    if Fraction(root) ** 2 < Fraction(square):
        root = math.nextafter(root, math.inf)
    return root


def _left(limit: float, committed: float) -> float:
    """Root of ``limit^2 - committed``, rounded down; 0 if nothing is left."""
    left = Fraction(limit) ** 2 - Fraction(committed)
    root = math.sqrt(max(left, Fraction(0)))
    return math.nextafter(root, 0.0) if Fraction(root) ** 2 > left > 0 else root


def _format_down(x: float) -> str:
    """Write ``x >= 0`` with 6 significant digits, rounded down: whoever asks for the printed figure gets it."""
    decimal = Context(prec=6, rounding=ROUND_FLOOR).create_decimal(repr(x)).normalize()
    return f"{decimal:f}" if -4 <= decimal.adjusted() < 6 else f"{decimal:e}"


class LostLedger:
    """What an unpickled learner has instead of the ledger that it shared: with it, it cannot learn."""

    def __repr__(self) -> str:
        return "<the ledger of the process that pickled this>"


@dataclass(frozen=True)
class LedgerSeat:
    """A ledger inside a learner's state: copies in the same process share it, a pickle leaves it behind."""

    ledger: Ledger | LostLedger

    def __deepcopy__(self, memo: dict[int, Any]) -> LedgerSeat:
        return self

    def __reduce__(self) -> tuple[type[LedgerSeat], tuple[LostLedger]]:
        return LedgerSeat, (LostLedger(),)


_ledgers: weakref.WeakSet[Ledger] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    # Another thread may have held a lock at the fork; that thread does not exist here, so nobody would ever free it.
    # No process has a negative number: the child stays refused even if the system gives out its parent's again.
    for ledger in _ledgers:
        ledger._lock = threading.RLock()
        ledger._pid = -1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
