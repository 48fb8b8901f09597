"""The secret files of a kept run: its plan, its checkpoints, and the thread that writes them beside the learning."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._files import write_atomically
from ..errors import StateError
from ._models import digest_of

__all__ = ["Arrays", "Beside", "Checkpoints"]

FORMAT, VERSION = "privol.state", 1
FOLDER, PLAN = "secret", "run.json"

Arrays = dict[str, NDArray[Any]]
Result = TypeVar("Result")


class Checkpoints:
    """The files of the folder ``secret`` of a run's directory: for the owner's eyes (mode 0600).

    A checkpoint is named arrays in an npz file, and is known by its digest, which the ledger's journal keeps: what the
    journal does not know was never acted on.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.folder = directory / FOLDER
        self._last = ""

    def read_plan(self) -> dict[str, Any] | None:
        """What the run was begun with; None if none is here."""
        try:
            record = json.loads((self.folder / PLAN).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise StateError(f"{self._directory}: {FOLDER}/{PLAN} cannot be read: {error}") from error
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise StateError(f"{self._directory}: {FOLDER}/{PLAN} is not of format {FORMAT!r}")
        if record.get("version") != VERSION:
            raise StateError(
                f"{self._directory}: has version {record.get('version')!r}; this release of privol reads version "
                f"{VERSION}"
            )
        if record.pop("sha256", None) != digest_of(record):
            raise StateError(f"{self._directory}: {FOLDER}/{PLAN} was altered (its checksum does not match)")
        return record

    def write_plan(self, values: dict[str, Any]) -> dict[str, Any]:
        """Write what a run is begun with, and return it as :meth:`read_plan` does."""
        plan = {"format": FORMAT, "version": VERSION, **values}
        text = json.dumps({**plan, "sha256": digest_of(plan)}, indent=1, allow_nan=False)
        write_atomically(self.folder / PLAN, text.encode(), mode=0o600)
        return plan

    def write(self, name: str, arrays: Arrays) -> dict[str, str]:
        """Write arrays, and return what the journal is to say of them."""
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        content = buffer.getvalue()
        write_atomically(self.folder / name, content, mode=0o600)
        return {"checkpoint": name, "sha256": hashlib.sha256(content).hexdigest()}

    def read(self, facts: dict[str, Any]) -> Arrays | None:
        """The arrays that the journal speaks of; None if they are not there, or damaged."""
        try:
            content = (self.folder / facts["checkpoint"]).read_bytes()
            if hashlib.sha256(content).hexdigest() != facts["sha256"]:
                return None
            with np.load(io.BytesIO(content), allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        except (OSError, ValueError, zipfile.BadZipFile):
            return None

    def write_key(self, name: str, key: bytes, plan_id: str) -> None:
        """Write the noise key of what an account releases beside the models."""
        text = json.dumps({"key": key.hex(), "plan_id": plan_id})
        write_atomically(self.folder / f"{name}.key", text.encode(), mode=0o600)

    def read_keys(self) -> dict[str, tuple[bytes, str]]:
        """What :meth:`write_key` wrote: by name, the key and the account."""
        found = {}
        for path in sorted(self.folder.glob("*.key")):
            try:
                record = json.loads(path.read_text(encoding="utf-8"))
                found[path.stem] = (bytes.fromhex(record["key"]), str(record["plan_id"]))
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise StateError(f"{self._directory}: {FOLDER}/{path.name} cannot be read: {error!r}") from error
        return found

    def keep_only(self, name: str) -> None:
        """Remove the checkpoint before this one, which the journal knows of by now."""
        if self._last and self._last != name:
            with suppress(OSError):
                (self.folder / self._last).unlink()
        self._last = name

    def clear(self) -> None:
        """Remove all secrets; the plan last, by which a run is known to be here."""
        for path in sorted([*self.folder.glob("checkpoint-*"), *self.folder.glob("*.key")]):
            path.unlink()
        (self.folder / PLAN).unlink(missing_ok=True)


class Beside:
    """One thread that works beside the learning: it knows rows while they are learnt, and writes while others are.

    Jobs are done in the order in which they are given. A forked child has no such thread, and is refused.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="privol-state")
        self._pid = os.getpid()
        self._written: Future[None] | None = None

    @property
    def mine(self) -> bool:
        """False in a forked child."""
        return os.getpid() == self._pid

    def call(self, job: Callable[[], Result]) -> Future[Result]:
        """Begin a job that the caller waits for."""
        if not self.mine:
            raise StateError("a forked child cannot go on with a run that its parent keeps on the disk")
        return self._thread.submit(job)

    def write(self, job: Callable[[], None]) -> None:
        """Begin to write, when what was written before is on the disk."""
        self.wait()
        self._written = self.call(job)

    def wait(self) -> None:
        """Wait until all is on the disk.

        Raises
        ------
        OSError, StateError
            What kept it from that.
        """
        written = self._written
        if written is None or not self.mine:
            return
        try:
            written.result()
        finally:
            if written.done():  # else an interrupt struck, and it is to be waited for once more
                self._written = None

    def stop(self) -> None:
        """End the thread."""
        if self.mine:
            self._thread.shutdown()
