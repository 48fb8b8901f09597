"""Which state a run continues from: a single process from the newest, ranks from the newest that all of them have."""

from __future__ import annotations

import hashlib
import math
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._files import AppendOnly
from ..errors import StateError
from ..ledger import Account

__all__ = ["Alone", "Together", "close_as_left", "company_of", "has_sent"]

SENT = "sent.log"
_ENTRY = struct.Struct("<q24s8s")  # a round, the beginning of the SHA-256 of what was sent in it, and a checksum


class Alone:
    """A run of one process.

    Attributes
    ----------
    every : int
        Rows after which the state is kept.
    seconds : float
        And seconds, if a row has come.
    kept : int
        Checkpoints that are kept, the newest.
    """

    kept = 1

    def __init__(self, every: int, seconds: float) -> None:
        self.every, self.seconds = every, seconds
        self._since = time.monotonic()

    def common(self, rows: list[int], planned: bool = False) -> int | None:
        """The row count of the state to continue from; None: there is none.

        ``planned``: a run was to begin here, and was killed before it kept its first state or sent a message.
        """
        return max(rows, default=None)

    def ended(self, here: bool) -> bool:
        """Whether the run has ended: here, or on another rank."""
        return here

    def until(self, rows: int, kept: int) -> int:
        """Row at which to check next whether the state must be kept."""
        return max(kept, rows) + self.every

    def due(self, rows: int, kept: int) -> bool:
        """Whether the state must be kept now."""
        return rows - kept >= self.every or (rows > kept and time.monotonic() - self._since >= self.seconds)

    def left(self) -> float:
        """Seconds until the state may be due by time."""
        left = self._since + self.seconds - time.monotonic()
        return left if left > 0.0 else self.seconds  # it was: the next row's block keeps it at once

    def meet(self) -> None:
        """Wait until all ranks have kept their states; the next may then be kept."""
        self._since = time.monotonic()

    def watch(self, folder: Path) -> None:
        """Note that a run has begun or continues."""

    def leave(self) -> None:
        """Note that the call ends."""

    @property
    def alone(self) -> bool:
        """Whether the state can be kept without the other ranks."""
        return True


class Together(Alone):
    """A rank's part of a network's run: whole rounds are kept, the same on all ranks.

    No rank keeps a round before all have kept the one before, and each keeps two; so wherever a crash comes, there is
    one that all have.

    Parameters
    ----------
    spread : object
        What the learner knows of its ranks: ``unit``, rows here of a round, ``whole_rounds``, ``round_rows``, those of
        the network in one, ``gather`` and ``meet``.
    every : int
        In rows of the whole network.
    """

    kept = 2

    def __init__(self, spread: Any, every: int) -> None:
        super().__init__(max(1, every // spread.round_rows) * spread.unit, math.inf)
        self._spread = spread
        self._sent: _Sent | None = None
        self._late = False

    def ended(self, here: bool) -> bool:
        return bool(self._spread.ranks.gather(np.array([int(here)])).any())

    def until(self, rows: int, kept: int) -> int:
        return (rows // self.every + 1) * self.every

    def due(self, rows: int, kept: int) -> bool:
        return rows > kept and rows % self.every == 0 and rows // self._spread.unit <= self._spread.whole_rounds

    def common(self, rows: list[int], planned: bool = False) -> int | None:
        mine = max(rows, default=-1)
        found = self._spread.ranks.gather(np.array([mine if mine < 0 else mine // self._spread.unit, int(planned)]))
        rounds, lacks = found[:, 0], found[:, 0] < 0
        if lacks.any() and not lacks.all():
            # whoever has a plan and no state was killed where the run began: it has sent nothing, and begins now
            if rounds.max() > 0 or (lacks & (found[:, 1] == 0)).any():
                without = ", ".join(map(str, np.flatnonzero(lacks)))
                raise StateError(f"rank {without} has no run to resume, and others have: a run is resumed by all ranks")
            self._late = mine < 0
        if mine < 0:
            return None
        least = int(rounds[~lacks].min())
        if least * int(self._spread.unit) not in rows:
            raise StateError(f"the state of round {least}, from which another rank continues, is not kept here")
        return least * int(self._spread.unit)

    def meet(self) -> None:
        if self._late:  # the others have kept their first states
            self._late = False
            return
        self._spread.ranks.barrier()

    def watch(self, folder: Path) -> None:
        self._sent = _Sent(folder / SENT)
        self._spread.exchange.before.append(self._sent.check)

    def leave(self) -> None:
        if self._sent is not None:
            self._sent.close()
            self._sent = None

    @property
    def alone(self) -> bool:
        return False


class _Sent:
    """The messages of a rank, by digest, on the disk before they leave: no message is ever sent in two versions.

    A run that continues from a checkpoint makes the messages after it again, with the same noise. If they differed,
    because rows differ or because another rank sent something else this time, the difference of two versions would be a
    difference of gradients without noise.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = _read(path, whole=True)
        self._last = max(self._known, default=0)
        self._file = AppendOnly(path)
        self._file.begin(len(self._known) * _ENTRY.size)

    def check(self, round_: int, rows: NDArray[np.float64]) -> None:
        """Allow what the nodes here send in a round, or refuse it."""
        digest = hashlib.sha256(rows.tobytes()).digest()[:24]
        if round_ > self._last:
            self._file.append(_ENTRY.pack(round_, digest, _checksum(round_, digest)))
            self._known, self._last = {round_: digest}, round_
        elif self._known.get(round_) != digest:
            raise StateError(
                f"{self._path}: in round {round_}, which is learnt again, the nodes here would send something else "
                "than before, with the same noise, which would show the difference of gradients: rows have changed, or "
                "another rank has sent something else"
            )

    def close(self) -> None:
        self._file.close()


def _read(path: Path, *, whole: bool = False) -> dict[int, bytes]:
    """The sent messages, by round.

    An entry that a crash cut short belongs to a message that never left. The disk may have its length, and zeros in the
    place of the rest: ``whole`` leaves it out. For what was spent it counts.
    """
    content = path.read_bytes() if path.exists() else b""
    found = list(_ENTRY.iter_unpack(content[: len(content) // _ENTRY.size * _ENTRY.size]))
    if whole and found and found[-1][2] != _checksum(*found[-1][:2]):
        found.pop()
    return {round_: digest for round_, digest, _ in found}


def _checksum(round_: int, digest: bytes) -> bytes:
    return hashlib.sha256(b"%d" % round_ + digest).digest()[:8]


def has_sent(folder: Path) -> bool:
    """Whether a rank has sent messages, or may have."""
    return bool(_read(folder / SENT))


def close_as_left(account: Account, folder: Path, *, rows: int = 0, releases: int | None = None) -> None:
    """Close the account of a run that is not running: the journal has what it released, the folder what it sent.

    ``rows`` and ``releases`` are those of its last model. Without one, each message counts as a release.
    """
    entry, rounds = account.entry(), max(_read(folder / SENT), default=0)
    spent = account.reserved_mu_squared if rounds else entry.mu_squared
    account.close_at(max(entry.rows, rows), max(entry.releases, rounds if releases is None else releases), spent)


def company_of(learner: Any, every: int, seconds: float) -> Alone:
    """Return the processes that keep a learner's run together."""
    spread = learner.__dict__.get("_spread")
    return Alone(every, seconds) if spread is None else Together(spread, every)
