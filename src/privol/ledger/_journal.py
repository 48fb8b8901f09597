"""The file of a ledger: lines that are only ever appended, each with a checksum of itself and all earlier lines."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from .._files import AppendOnly, LockFile
from ..errors import StateError

__all__ = ["Journal", "JournalRecords", "Step", "history", "read_journal", "reading"]

FORMAT = "privol.ledger"
#: 2: the limit sets a slack aside, which a release that knows 1 alone would spend a second time. Other journals are 1;
#: whoever does not know the kind of a run's guarantee refuses it by that.
VERSIONS = (1, 2)

Record = dict[str, Any]

# made once: a long journal has 10^5 lines
_DECODER = json.JSONDecoder()
_ENCODER = json.JSONEncoder(allow_nan=False)
_SORTED = json.JSONEncoder(sort_keys=True, allow_nan=False)


def _digest(before: str, record: Record) -> str:
    return hashlib.sha256(f"{before}\n{_SORTED.encode(record)}".encode()).hexdigest()


def _line(number: int, before: str, record: Record) -> tuple[bytes, str]:
    """A record as it is written, and its checksum."""
    record = {"number": number, **record}
    digest = _digest(before, record)
    return _ENCODER.encode({**record, "sha256": digest}).encode() + b"\n", digest


def as_json(x: float) -> float | str:
    """A number of at least 0 as JSON has it: without infinity, for which a word stands."""
    return "inf" if math.isinf(x) else x


def from_json(x: Any) -> float:
    """The number again; raise ValueError for what :func:`as_json` does not write."""
    found = math.inf if x == "inf" else x
    if isinstance(found, bool) or not isinstance(found, int | float) or not found >= 0.0:
        raise ValueError(f"found {x!r}, allowed are numbers of at least 0")
    return float(found)


@dataclass(frozen=True)
class JournalRecords:
    """The content of a journal.

    Attributes
    ----------
    path : Path
    records : list of dict
        The first is the ledger's own; without their checksums.
    size : int
        Bytes of the file that are whole records. What may follow was cut short by a crash and never took effect.
    digest : str
        Checksum of the last record, and so of all.
    ended : bool
        Whether the last record has its newline.
    """

    path: Path
    records: list[Record]
    size: int
    digest: str
    ended: bool = True


def _refuse(path: Path, what: str) -> NoReturn:
    raise StateError(
        f"{path}: {what}. A ledger that is damaged cannot say what was spent: restore the file, or count everything "
        "that it stood for as spent"
    )


@contextmanager
def reading(path: Path, number: int) -> Iterator[None]:
    """Refuse a record that cannot be understood though its checksum is right."""
    try:
        yield
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        _refuse(path, f"line {number} lacks or garbles a field ({type(error).__name__}: {error})")


def read_journal(path: str | os.PathLike[str]) -> JournalRecords:
    """Read and check the journal of a ledger.

    Raises
    ------
    StateError
        If it is of another format or version, or a record is damaged or missing. What a crash cut short at the end
        was never acted on, and is left out.
    OSError
        If the file cannot be read.
    """
    target = Path(path)
    content = target.read_bytes()
    records: list[Record] = []
    digest, size, ended = "", 0, True
    for number, line in enumerate(content.split(b"\n"), start=1):
        last = size + len(line) == len(content)
        if last and not line:
            break
        try:
            record, length = _DECODER.raw_decode(line.decode())
            if number == 1 and record.get("format", FORMAT) != FORMAT:  # such as the records of a ledger
                _refuse(target, f"is not a journal of format {FORMAT!r}")
            found = record.pop("sha256")
            whole = found == _digest(digest, record)
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
            if last or (b"\0" in line and size + len(line) + 1 == len(content)):
                break  # cut short by a crash: it was never reported as written
            _refuse(target, f"line {number} is damaged")
        if not whole or record.get("number") != number or (length != len(line) and not last):
            _refuse(target, f"line {number} was altered, or one before it is missing (its checksum does not match)")
        records.append(record)
        ended = not last  # a record without its newline counts as written: that can only overstate the spending
        digest, size = found, size + length + ended
    if records:
        first = records[0]
        if first.get("format") != FORMAT:
            _refuse(target, f"is not a journal of format {FORMAT!r}")
        version = first.get("version")
        if type(version) is not int or version not in VERSIONS or (version == 2) != ("slack" in first):
            read = " and ".join(map(str, VERSIONS))
            raise StateError(f"{target}: has version {version!r}; this release of privol reads versions {read}")
    elif content:
        _refuse(
            target, "holds no whole record: if a crash struck while it was made, remove it. If not, it is no journal"
        )
    return JournalRecords(target, records, size, digest, ended)


class Step(NamedTuple):
    """The spending of a run when it wrote to its journal.

    Attributes
    ----------
    plan_id, learner : str
    rows, releases : int
    mu_squared : float
    """

    plan_id: str
    learner: str
    rows: int
    releases: int
    mu_squared: float


def history(path: str | os.PathLike[str]) -> list[Step]:
    """Return what the runs of a journal had spent whenever they wrote, in the order of writing.

    Raises
    ------
    StateError, OSError
        As :func:`read_journal`.
    """
    names: dict[str, str] = {}
    steps = []
    for record in read_journal(path).records:
        if record["kind"] == "open":
            names[record["plan_id"]] = record["learner"]
            steps.append(Step(record["plan_id"], record["learner"], 0, 0, 0.0))
        elif record["kind"] in ("spent", "closed"):
            known = record["plan_id"]
            figures = record["rows"], record["releases"], from_json(record["mu_squared"])
            steps.append(Step(known, names[known], *figures))
    return steps


class Journal:
    """The one writer of a journal: others, in this process or another, are refused until it is closed.

    Parameters
    ----------
    path : path
        Made if it does not exist; its folder must. A hidden file ``.NAME.lock`` is put beside it.
    first : dict
        The first record of a new journal.

    Attributes
    ----------
    found : JournalRecords
        What it said when it was opened.
    digest : str
        Checksum of the last record, and so of all.

    Raises
    ------
    StateError
        If another writer has it, or it is damaged.
    """

    def __init__(self, path: str | os.PathLike[str], first: Record) -> None:
        self.path = Path(path)
        self._unsure = False
        try:
            self._lock = LockFile(self.path.with_name(f".{self.path.name}.lock"))
        except BlockingIOError:
            raise StateError(
                f"{self.path}: another ledger has this journal open, here or in another process: one at a time may "
                "spend from it"
            ) from None
        try:
            self._file = AppendOnly(self.path)
            try:
                self.found = JournalRecords(self.path, [], 0, "")
                if not self._is_new(first):
                    self.found = read_journal(self.path)
                self.digest, self._count = self.found.digest, len(self.found.records)
                self._opened: dict[str, Record] = {}
                self._closed: dict[str, Record] = {}
                for record in self.found.records:
                    self._learn(record)
                self._file.begin(self.found.size)
                if not self.found.ended:
                    self._file.append(b"\n")
                if not self.found.records:
                    self.append(first)
            except BaseException:
                self._file.close()
                raise
        except BaseException:
            self._lock.release()
            raise

    def _is_new(self, first: Record) -> bool:
        """Whether the file is empty, or holds only what a crash left of the first record: its beginning, and zeros."""
        line, _ = _line(1, "", first)
        with open(self.path, "rb") as file:
            content = file.read(len(line) + 1)
        return len(content) <= len(line) and content != line and line.startswith(content.rstrip(b"\0"))

    def _learn(self, record: Record) -> None:
        kind = record.get("kind")
        if kind in ("open", "closed"):
            (self._opened if kind == "open" else self._closed)[str(record.get("plan_id"))] = record

    def _has(self, record: Record) -> bool:
        """Whether the record adds nothing about an account, which is opened once and closed once."""
        plan_id = str(record.get("plan_id"))
        if record.get("kind") == "open":
            return plan_id in self._opened and all(self._opened[plan_id].get(name) == record[name] for name in record)
        closed = self._closed.get(plan_id)
        counted = ("rows", "releases", "mu_squared")
        return closed is not None and all(from_json(record[name]) <= from_json(closed[name]) for name in counted)

    def append(self, record: Record) -> None:
        """Add a record of JSON values; it is on the disk when this returns.

        Whoever was interrupted when a record was on the disk, before they knew it, will write it again, or write what
        is not to follow it, such as what a run has spent whose account is closed. It is there, and is not written.

        Raises
        ------
        OSError
            If it cannot be written: the journal is then as it was before.
        StateError
            If it would make the journal unreadable, or an interrupt struck within an earlier record.
        """
        if self._unsure:
            raise StateError(f"{self.path}: an interrupt struck while a record was written; open the journal again")
        if self._has(record):
            return
        plan_id = str(record.get("plan_id"))
        if plan_id in self._closed or (record.get("kind") == "open" and plan_id in self._opened):
            raise StateError(f"{self.path}: says otherwise of the account {plan_id}; open the journal again")
        line, digest = _line(self._count + 1, self.digest, record)
        self._unsure = True  # until the file and these two agree
        try:
            self._file.append(line)
        except OSError:
            self._unsure = False
            raise
        self.digest, self._count = digest, self._count + 1
        self._learn(record)
        self._unsure = False

    def close(self) -> None:
        """Release the file for another writer; closing again does nothing."""
        self._file.close()
        self._lock.release()
