"""The secret files of a kept run: its plan and its checkpoints."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._files import sync_folder, write_atomically
from ..errors import StateError
from ..learners.keeping import Export
from ..ledger import Account
from ._models import ARRAYS, RECORD, Learner, digest_of, has_digest, read_record, write_export

__all__ = ["RELEASED", "Arrays", "Checkpoints", "check_facts", "noise_digest", "state_digest"]

FORMAT, VERSION = "privol.state", 3
FOLDER, PLAN = "secret", "run.json"
#: The folder of the model that a run which lasts has released last: public.
RELEASED = "released"
#: Identifies the rows that taught the encoding of a run; it is older than the run itself.
TAUGHT = "taught.json"
#: The description of a run that is about to end; it comes out with the model, as ``run.json`` of the directory.
DESCRIBED = "described.json"

#: What a plan has, and of which types.
_FIELDS: dict[str, tuple[type, ...]] = {
    "learner": (str,),
    "parameters": (dict,),
    "n_features": (int,),
    "classes": (dict, type(None)),
    "horizon": (int,),
    "release": (str, int, list, type(None)),
    "privol": (str,),
    "inputs": (dict, type(None)),
    "plan_id": (str,),
    "first_row": (int,),
    "noise": (str,),
    "digest_key": (str,),
}

_KEY, _NAME = re.compile("[0-9a-f]{64}"), re.compile(r"checkpoint-[0-9]{15,}\.bin")
_DRAFT = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")

Arrays = dict[str, NDArray[Any]]


class Checkpoints:
    """The files of the folder ``secret`` of a run's directory: for the owner's eyes (mode 0600).

    A checkpoint is named arrays: a line of JSON with their names, types and shapes, then their bytes (an npz file takes
    six times as long to make). It is known by its digest, which the ledger's journal keeps: what the journal does not
    know was never acted on. The digest is keyed: who reads the journal learns nothing of the state by it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.folder = directory / FOLDER
        self.kept = 1  # number of checkpoints to keep, the newest
        self._names: list[str] = []

    def read_plan(self) -> dict[str, Any] | None:
        """The values that the run began with; None if there is no plan."""
        try:
            record = json.loads((self.folder / PLAN).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise StateError(f"{self._directory}: {FOLDER}/{PLAN} cannot be read: {error}") from error
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise StateError(f"{self._directory}: {FOLDER}/{PLAN} is not of format {FORMAT!r}")
        if record.get("version") != VERSION:
            raise StateError(
                f"{self._directory}: has version {record.get('version')!r}; this release of privol reads version "
                f"{VERSION}"
            )
        if not has_digest(record, record.pop("sha256", None)):
            raise StateError(f"{self._directory}: {FOLDER}/{PLAN} was altered (its checksum does not match)")
        for name, kinds in _FIELDS.items():
            if name not in record or type(record[name]) not in kinds:
                raise self.garbled(name)
        if not _KEY.fullmatch(record["digest_key"]):
            raise self.garbled("digest_key")
        return record

    def garbled(self, what: object) -> StateError:
        """Return the error about a plan whose checksum is right, and of which a field is missing or of another kind."""
        return StateError(f"{self._directory}: {FOLDER}/{PLAN} lacks or garbles a field: {what}")

    def write_plan(self, values: dict[str, Any]) -> dict[str, Any]:
        """Write the values that a run begins with, and return them as :meth:`read_plan` does."""
        plan = {"format": FORMAT, "version": VERSION, **values}
        text = json.dumps({**plan, "sha256": digest_of(plan)}, indent=1, allow_nan=False)
        write_atomically(self.folder / PLAN, text.encode(), mode=0o600)
        return plan

    def write(self, name: str, arrays: Arrays, key: bytes, place: Any = None) -> dict[str, Any]:
        """Write arrays, and return what the journal records about them.

        ``place``: the position in the input, a JSON value. It is behind the arrays, with its length, and has a digest
        of its own: the state of a run does not depend on where its rows came from.
        """
        content = _content(arrays)
        facts = {"checkpoint": name, "state": _digest(key, content)}
        if place is not None:
            text = json.dumps(place, allow_nan=False).encode()
            facts["place"] = _digest(key, text)
            content = b"".join([content, text, len(text).to_bytes(8, "little")])
        write_atomically(self.folder / name, content, mode=0o600)
        return facts

    def _read(self, facts: Mapping[str, Any], key: bytes) -> tuple[bytes, bytes] | None:
        """Return the bytes of the arrays and of the position that a journal entry names; None if one is damaged."""
        try:
            content, text = (self.folder / facts["checkpoint"]).read_bytes(), b""
        except OSError:
            return None
        if "place" in facts:
            content, length = content[:-8], int.from_bytes(content[-8:], "little")
            at = max(len(content) - length, 0)
            content, text = content[:at], content[at:]
            if _digest(key, text) != facts["place"]:
                return None
        return None if _digest(key, content) != facts["state"] else (content, text)

    def read_place(self, facts: Mapping[str, Any], key: bytes) -> Any:
        """Return the position in the input of a checkpoint that :meth:`read` has found whole; None if it has none."""
        found = self._read(facts, key) if "place" in facts else None
        return None if found is None else json.loads(found[1])

    def read(self, facts: dict[str, Any], key: bytes) -> Arrays | None:
        """The arrays that a journal entry names; None if they, or the position beside them, are missing or damaged."""
        whole = self._read(facts, key)
        if whole is None:
            return None
        content = whole[0]
        head, _, rest = content.partition(b"\n")
        arrays, start = {}, 0
        for word, kind, shape in json.loads(head):
            count = math.prod(shape)
            found = np.frombuffer(rest, np.dtype(kind), count, start) if count else np.empty(0, kind)
            arrays[word] = found.reshape(shape).copy()
            start += found.nbytes
        return arrays

    def keep_only(self, name: str) -> None:
        """Remove the checkpoints before this one, except those to be kept; the journal has this one by now."""
        if name not in self._names:
            self._names.append(name)
        while len(self._names) > self.kept:
            with suppress(OSError):
                (self.folder / self._names.pop(0)).unlink()

    def clear_drafts(self) -> None:
        """Remove files that a crash left unfinished."""
        for folder in (self._directory, self.folder, self._directory / RELEASED):
            for draft in folder.glob(".*.tmp"):
                if _DRAFT.fullmatch(draft.name):
                    draft.unlink()

    def clear_model(self) -> None:
        """Remove a model that was sealed but never shown: its run continues, or ends without it."""
        for name in (DESCRIBED, RECORD, ARRAYS):
            (self.folder / name).unlink(missing_ok=True)

    def show_release(self, learner: Learner, export: Export, inputs: dict[str, Any] | None) -> None:
        """Replace the model that others see while the run lasts."""
        folder = self._directory / RELEASED
        if not folder.exists():
            folder.mkdir(exist_ok=True)
            sync_folder(self._directory)
        write_export(learner, export, folder, inputs)

    def hide_release(self) -> None:
        """Remove that model: the run has ended, and has another."""
        folder = self._directory / RELEASED
        if folder.exists():
            for name in (RECORD, ARRAYS):  # the record first: without it there is no model
                (folder / name).unlink(missing_ok=True)
            with suppress(OSError):  # somebody has put other files there
                folder.rmdir()

    def show_model(self, account: Account | None) -> None:
        """Let a sealed model out, with its description: the account is closed, and counts all that was released.

        Another may have closed it, when the run had been killed with its last model sealed: at what the journal said,
        which was before that model. None: the account of a run whose model is out already, and whose plan is gone.

        Raises
        ------
        StateError
            If the account does not pay for the model. It is removed with all secrets: nobody has seen it, or will.
        """
        if account is None:
            return
        if (self.folder / RECORD).exists():
            entry, releases = account.entry(), read_record(self.folder).get("n_releases")
            if type(releases) is not int:
                raise StateError(f"{self.folder / RECORD}: n_releases must be a whole number, found {releases!r}")
            whole = entry.mu_squared >= account.reserved_mu_squared * (1.0 - 1e-9)
            if entry.open or not (whole or entry.releases >= releases):
                self.clear_model()
                self.clear()
                raise StateError(
                    f"{self._directory}: the account of the model that was sealed here was closed without it, when "
                    f"{entry.releases} of {releases} models were released: it is removed, and never shown"
                )
        for name in (ARRAYS, RECORD):  # the record last: it confirms that the model is complete
            if (self.folder / name).exists():
                os.replace(self.folder / name, self._directory / name)
            sync_folder(self._directory)
        if (self.folder / DESCRIBED).exists():
            os.replace(self.folder / DESCRIBED, self._directory / PLAN)
            sync_folder(self._directory)

    def leave_nothing(self) -> None:
        """Remove the folder while the lock is held, if it has only the lock: later it may be another run's."""
        with suppress(OSError):
            if {path.name for path in self.folder.iterdir()} <= {"lock"}:
                (self.folder / "lock").unlink(missing_ok=True)
                self.folder.rmdir()
                sync_folder(self._directory)

    def clear(self, *, taught: bool = False) -> None:
        """Remove all secrets; the plan last, by which a run is known to be here.

        ``taught``: also what the rows that taught are known by, for a run that is over.
        """
        if taught:
            (self.folder / TAUGHT).unlink(missing_ok=True)
        for path in sorted([path for kind in ("checkpoint-*", "*.key", "*.log") for path in self.folder.glob(kind)]):
            path.unlink()
        (self.folder / PLAN).unlink(missing_ok=True)


def check_facts(directory: Path, facts: Mapping[str, Any]) -> None:
    """Raise StateError if what a journal entry says of a checkpoint is none of it."""
    known = [facts.get(name) for name in ("digest", "state", "checkpoint")]
    if not all(isinstance(value, str) for value in known) or not _NAME.fullmatch(str(known[2])):
        raise StateError(f"{directory}: the ledger's journal garbles what a checkpoint is known by: {dict(facts)}")


def noise_digest(calibration: Any) -> str:
    """Digest of a calibration's noise and sensitivities, in every digit, at rows 1, 2, 4, ... and the last."""
    last = calibration.releases.last_row
    rows = sorted({last, calibration.releases.horizon, *(1 << k for k in range(last.bit_length()))})
    numbers = [(f(row).hex()) for f in (calibration.std, calibration.sensitivity) for row in rows if row <= last]
    return digest_of({"mu": calibration.mu.hex(), "numbers": numbers})


def state_digest(key: bytes, arrays: Arrays) -> str:
    """Keyed digest of a state, in every bit: learning the same rows again must reach it."""
    return _digest(key, _content(arrays))


def _content(arrays: Arrays) -> bytes:
    head = json.dumps([[word, array.dtype.str, array.shape] for word, array in arrays.items()])
    return b"".join([head.encode(), b"\n", *(array.data for array in arrays.values())])


def _digest(key: bytes, content: bytes) -> str:
    assert key, "without a key, anybody could try what the state is"
    # keyed BLAKE2: HMAC takes ten times as long to begin, while holding the interpreter's lock
    return hashlib.blake2b(content, digest_size=32, key=key).hexdigest()
