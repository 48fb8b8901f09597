"""Where a run is in its stream: runs that continue after the rows they have learnt, and know their users."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..learners.keeping import Run
from ..ledger import Account, Ledger
from ..noise.bits import new_key
from ..readers.positions import Positions
from ._checkpoints import Arrays, Checkpoints, state_digest
from ._digest import PartsDigest, RowDigest
from ._joined import Joined
from ._models import RECORD
from ._seen_log import KnownUsers, SeenLog
from ._together import Alone

__all__ = ["GoesOn", "users_key"]


class GoesOn(ABC):
    """The position of a run in the stream, as :class:`State` knows it."""

    directory: Path
    _files: Checkpoints
    _rest: bool | None
    _promised: int | None = None
    _replay: bool
    _resume: tuple[Account, Arrays, int] | None
    _key: bytes
    _digest: RowDigest | PartsDigest
    _longer: Any
    _known: dict[int, tuple[str, str]]
    _kept: int
    _caught_up: int
    _verified: int
    _company: Alone
    _joined: Joined

    @abstractmethod
    def _refuse(self, what: str) -> NoReturn:
        """Raise StateError about the directory."""

    @abstractmethod
    def _compare_taught(self) -> None:
        """Refuse rows that are not those which taught the encoding, if there are any to compare."""

    @abstractmethod
    def _number_taught(self) -> int:
        """Return how many rows taught what is kept here for a run that has not begun; 0 if nothing is kept."""

    def _begin_going(self) -> None:
        self._parts: bytes | None = None  # of a run over parts: what all of their rows are known by
        self._log: SeenLog | None = None
        self._since = 0  # rows before those in the running digest
        self._beside_it = False  # whether something is released beside the models
        self._seen: dict[int, str] = {}  # rows -> digest of their users, from the journal
        self._users: KnownUsers | None = None  # what the users of later rows are compared with
        self._goes_on = False  # whether this call begins after the learnt rows
        self._attended = False  # whether a stream has begun to bring its rows
        self._positions: Positions | None = None  # of the input, if it has some
        # input rows up to the last learnt one, and the position after them
        self._where: dict[str, Any] | None = None
        self._before = 0  # input rows before the run's first

    def _find_place(self, rows: int, known: Mapping[int, Mapping[str, Any]], ledger: Ledger) -> None:
        """Determine where the kept run continues."""
        self._seen = {at: facts["seen"] for at, facts in known.items() if "seen" in facts}
        self._since = max(int(facts.get("since", 0)) for facts in known.values())
        self._beside_it = bool(self._joined.known(ledger))
        self._where = self._files.read_place(known[rows], self._key)

    def _check_place(self, rows: int) -> None:
        """Refuse to continue after these rows, or from the first, if that would not be the same run."""
        if not self._goes_on:
            if self._since:
                self._refuse(
                    f"the run went on after row {self._since} without the rows before, which nobody has compared "
                    "since: it can be resumed only so, by State(..., rest=True)"
                )
            return
        whole = "can be resumed only with all of its rows, from the first: rest=False"
        if self._replay or self._beside_it:
            self._refuse(f"a run that is evaluated {whole}")
        if not self._company.alone:
            self._refuse(f"a run of several ranks {whole}")
        if rows != self._caught_up:
            self._refuse(
                f"the checkpoint of row {self._caught_up}, the last that the journal knows of, is not here or damaged, "
                f"and from an older one a run {whole}"
            )

    def attend(self, stream: Any, *, once: bool) -> int:
        """Let a stream say whose its rows are, and bring the rows after those that are learnt, where it is to.

        Parameters
        ----------
        stream : RowStream
        once : bool
            Whether the learner takes the rows once.

        Returns
        -------
        int
            How many rows it leaves out.
        """
        kept, self._attended = 0 if self._resume is None else self._resume[2], True
        self._find_positions(stream, once)
        if self._rest is None:
            able = once and self._company.alone and not (self._replay or self._beside_it) and kept == self._caught_up
            self._goes_on = able and self._positions is not None and self._where is not None
        else:
            self._goes_on = self._rest
        if self._resume is not None:
            self._check_place(kept)
        if self._positions is not None:
            self._positions.follow(None if self._where is None else self._where["position"])
            self._settle(self._where)  # whoever was killed may not have told
        brings = bool(self._rest) and not getattr(stream, "repeatable", True)  # nothing but the rows behind
        if brings and self._resume is not None and hasattr(stream, "brings_rest"):
            stream.brings_rest()
        if not (brings or (self._goes_on and self._positions is not None)):  # those rows are known by their keys
            self._compare_taught()
        rows = kept if self._goes_on else 0
        capped, go_on = getattr(stream, "rows_per_user", None) is not None, getattr(stream, "go_on", None)
        if rows and not once:
            self._refuse("a run that learns its rows several times can be resumed only with all of them: rest=False")
        self._key = self._key or new_key()
        self._parts = getattr(stream, "parts_digest", None)
        if self._parts is not None:
            return self._attend_parts(kept)
        whole = False
        if capped and go_on is not None:
            self._log = SeenLog(self._files.folder, self._key)
            self._log.on_disk = once
            whole = self._log.begin(kept, self._seen.get(kept))
        if not rows:
            self._users = KnownUsers(self._key, self._seen)
        if rows:
            if capped and not whole:
                self._refuse(
                    "whose rows the run has learnt was not kept, or is damaged, and a user could have more rows than "
                    "the cap: it can be resumed only with all of its rows, from the first: rest=False"
                )
            if self._log is not None:
                self._log.go_on(rows)
            self._digest.rows = self._since = self._verified = rows
        if go_on is not None and (rows or self._log is not None):
            known = self._log.read if rows and self._log is not None else tuple
            enters = go_on(users_key(self._key), rows=rows, seen=known)
            if self._log is not None and not enters:
                self._log.on_disk = False  # the run cannot continue from what it holds
        return rows

    def _find_positions(self, stream: Any, once: bool) -> None:
        """Note whether the input has positions: a row of several passes, or of several ranks, is at no single one."""
        self._positions = getattr(stream, "positions", None) if once and self._company.alone else None
        self._before = getattr(stream, "first_row", 1) - 1
        if self._positions is None:
            self._where = None

    def _place_until(self, rows: int) -> tuple[NDArray[Any] | None, dict[str, Any] | None]:
        """Return the new entries of users up to a row, and where the input is after it."""
        seen = None if self._log is None else self._log.taken(rows)
        if self._positions is None:
            return seen, None
        read = self._before + rows
        if self._log is not None:  # a cap leaves rows out
            read = self._before if self._where is None else self._where["rows"]
            if seen is not None and len(seen):
                read = self._before + int(seen["row"][-1])
        try:
            self._where = {"rows": read, "position": self._positions.after(read)}
        except LookupError as error:
            self._refuse(f"{error}: the stream is read by somebody else at the same time")
        return seen, self._where

    def _settle(self, where: dict[str, Any] | None, *, last: bool = False) -> None:
        """Tell the input that a checkpoint with its position is on the disk."""
        if self._positions is not None and where is not None:
            self._positions.settled(where["position"], last=last)

    @property
    def _pressed(self) -> bool:
        """Whether the input waits for a checkpoint before it gives more rows."""
        return self._positions is not None and self._positions.eager

    def _passed(self, rows: int) -> None:
        """Rows are learnt or known: positions before the last of them are not needed."""
        if self._positions is not None:
            self._positions.forget(self._before + rows)

    def _attend_parts(self, kept: int) -> int:
        """Go on after the rows of parts that are learnt: all of their rows must be what they were."""
        if self._rest:
            self._refuse("a run over parts goes on by itself where it was kept: rest=False")
        self._digest = self._fresh(kept)
        if kept:
            self._compare()
            self._verified = kept
        return kept

    def _fresh(self, rows: int = 0) -> RowDigest | PartsDigest:
        """The digest that a run begins with."""
        return RowDigest(self._key) if self._parts is None else PartsDigest(self._key, self._parts, rows)

    def summed(self, rows: int) -> None:
        """So many rows of parts were learnt by sums that workers made of them."""
        assert isinstance(self._digest, PartsDigest)
        self._longer = self._digest.after(rows)

    def skip(self, X: Any, targets: NDArray[np.float64]) -> int:
        """Return how many rows of a block the run has learnt already; they must be the same."""
        if self._resume is None or self._replay or self._digest.rows >= self._resume[2]:
            return 0
        rows = self._resume[2]
        n = min(X.shape[0], rows - self._digest.rows)
        self._digest.update(X[:n], targets[:n])
        self._skipped(self._digest.rows)
        self._passed(self._digest.rows)
        if self._digest.rows == rows:
            self._compare()
            self._verified = rows
        return int(n)

    def _compare(self) -> None:
        known = self._known.get(self._digest.rows)
        if known is not None and known[0] != self._digest.hexdigest():
            self._refuse(
                f"the first {self._digest.rows} rows of the stream are not those that the run has learnt: it can "
                "be resumed only with the same rows, because noise that was published with them would show what "
                "differs (rest=True, privol resume --rest: only with the rows after them)"
            )

    def _compare_state(self, run: Run) -> None:
        known = self._known.get(run.state.n_rows)
        if known is not None and known[1] != state_digest(self._key, run.state.secret_arrays()):
            self._refuse(
                f"the same {run.state.n_rows} rows, learnt again, have led to another state: the loss is not the one "
                "that the run was begun with, or this machine computes otherwise"
            )

    def room(self) -> int:
        """Return how many rows may be learnt before the state must be kept or compared."""
        rows = self._digest.rows
        until = self._company.until(rows, self._kept)
        return min((known for known in self._known if known > rows), default=until) - rows

    @property
    def verified(self) -> int:
        """Rows that this process has learnt or compared, and that are kept: what is released of them may be seen."""
        return self._verified

    def named(self, seen: NDArray[Any] | None) -> None:
        """Note the users of the stream's next rows; rows that are learnt must have the same users again."""
        if seen is None:  # the stream does not state them
            if self._users:
                self._refuse("the run knows whose rows it has learnt, and this stream does not say whose its rows are")
            self._leave_place()
            return
        found = self._users.unlike(seen) if self._users else None
        if found is not None:
            self._refuse(
                f"rows {found[0]} to {found[1]} of the stream are not those that the run has learnt, or not of the "
                "same users: it can be resumed only with the same rows of the same users, as a user could have more "
                "rows than the cap"
            )
        if self._log is not None:
            self._log.add(seen)

    def _skipped(self, rows: int) -> None:
        """Note that rows came which are learnt already; rebuild an incomplete record of users from them."""
        if self._log is not None and len(seen := self._log.taken(rows)):
            self._log.keep(seen)

    def promise(self, row: int | None) -> None:
        """Note that rows come from this one on: the next call refuses them if that is not the first; None: no more."""
        self._promised = row

    def check_promise(self, ledger: Ledger | None) -> None:
        """Refuse rows that begin elsewhere than was promised: another process has learnt meanwhile.

        Raises
        ------
        StateError
        """
        row, self._promised = self._promised, None
        if row is not None and (now := self.next_row(ledger=ledger)) != row:
            self._refuse(
                f"rows come from row {row} on, and the first that is not kept is row {now}: somebody else has learnt "
                "here meanwhile"
            )

    @property
    def rest(self) -> bool | None:
        """Whether the rows after those that are kept come, as it was given."""
        return self._rest

    def next_row(self, *, ledger: Ledger | None = None) -> int:
        """Return the number of the first row of the input that nothing of is kept: where rest=True goes on.

        Parameters
        ----------
        ledger : Ledger, optional
            That of the run, where it is not the directory's own.

        Returns
        -------
        int
            From 1, without headers; rows that taught an encoding, or came before the stream's ``first_row``, count. 1
            before anything is kept. **Not private** where a cap drops rows.

        Raises
        ------
        StateError
            If the run has ended, or its place was not kept.
        """
        plan, journal = self._files.read_plan(), self.directory / "ledger.jsonl"
        here = journal.exists() and journal.stat().st_size > 0  # it is empty while another process begins one
        if ledger is None and not here and plan is not None:
            self._refuse("the run pays from a ledger that is not here: next_row(ledger=...)")
        found = ledger if ledger is not None or not here else Ledger.read(journal)
        if plan is None:
            own = () if ledger is not None or found is None else found.accounts
            if (self.directory / RECORD).exists() or any(a.closed and a.commits and a.facts.get("kept") for a in own):
                self._refuse("the run is finished: there is no run to resume here")
            return self._number_taught() + 1
        before: int = plan["first_row"] - 1
        account = None if found is None else next((a for a in found.accounts if a.plan_id == plan["plan_id"]), None)
        if account is None:
            self._refuse("the ledger has no account of the run that is kept here")
        mine = account.commits
        known = [(int(commit["rows"]), commit["facts"]) for commit in mine if "digest" in commit["facts"]]
        if not known:  # it begins anew, and where an encoding is kept behind the rows that taught it
            return self._number_taught() + 1
        rows, seen = known[-1][0], known[-1][1].get("seen")
        capped = account.guarantee.user is not None
        if not rows or (seen is None and not capped):
            return before + rows + 1
        place = SeenLog.place(self._files.folder, rows)
        if place is None:
            self._refuse(
                "whose rows the run has learnt, and so which, was not kept: it can be resumed only with all of its rows"
            )
        return before + place + 1

    def _keep_place(self, seen: NDArray[Any] | None) -> dict[str, Any]:
        """Keep the users of the rows up to the next checkpoint, and return what the journal records about them."""
        place: dict[str, Any] = {"since": self._since} if self._since else {}
        if seen is not None and self._log is not None:
            place["seen"] = self._log.keep(seen)
        return place

    def _leave_place(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None


def users_key(key: bytes) -> bytes:
    """The key for users; it reveals nothing about the run's key."""
    return hashlib.blake2b(b"users", digest_size=16, key=key).digest()
