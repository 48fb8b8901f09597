"""Recognises the rows that taught the encoding of a kept run, as it recognises those that were learnt."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from .._files import sync_folder, write_atomically
from .._validate import integer
from .._values import shown
from ..errors import StateError
from ..noise.bits import KEY_BYTES, new_key
from ._checkpoints import TAUGHT, Checkpoints
from ._digest import RowDigest
from ._place import users_key

__all__ = ["KnowsTaught"]

#: What estimators with a learnt encoding keep of it in the same directory.
ENCODING = "encoding.json"

#: Returns rows as blocks; if users are counted, the blocks have their hashes under this key.
Taught = Callable[[bytes], Iterable[Any]]


class KnowsTaught:
    """The rows before those of a run, as :class:`State` knows them.

    An encoding and the model behind it together cost as much as the more expensive one, because no row is in both. That
    is so only if the resuming call has the same rows in the same positions.
    """

    directory: Path
    _files: Checkpoints
    _inputs: dict[str, Any] | None
    _expected: Taught | None = None
    _expects = False

    def describe(self, inputs: dict[str, Any]) -> None:
        """Add to ``inputs`` what was not known when this was made: how an estimator with a learnt encoding encodes."""
        self._inputs = {**(self._inputs or {}), **json.loads(json.dumps(inputs))}

    def keep_taught(self, blocks: Taught | None, number: int | None = None) -> None:
        """Note the rows that taught, before their encoding is kept.

        Parameters
        ----------
        blocks : callable or None
            Returns these rows as the encoding has them, block by block, for a key by whose hash they name their users
            where these are counted. None: they cannot be read again, and are not compared when the run resumes behind
            them, as it must.
        number : int, optional
            How many they are, if a run can begin behind them in another process.
        """
        key, folder = new_key(None), self._files.folder
        rows, users = (None, None) if blocks is None else _digests(key, blocks)
        self.directory.mkdir(exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(self.directory)
        record = {"key": key.hex(), "digest": rows, "users": users, "number": number}
        write_atomically(folder / TAUGHT, json.dumps(record).encode(), mode=0o600)

    def _number_taught(self) -> int:
        """How many rows taught what is kept here for a run that has not begun; 0: nothing is kept."""
        kept = self.knows_taught and (self.directory / ENCODING).exists()  # noted before the encoding is written
        return (self._taught_record()["number"] or 0) if kept else 0

    def _taught_record(self) -> dict[str, Any]:
        try:
            record = json.loads((self._files.folder / TAUGHT).read_text(encoding="utf-8"))
            key, number = bytes.fromhex(record["key"]), record.get("number")  # older records lack it, and the users
            if len(key) != KEY_BYTES:
                raise ValueError(f"the key has {len(key)} bytes, allowed are {KEY_BYTES}")
            digests = record["digest"], record.get("users")
            if not all(digest is None or isinstance(digest, str) for digest in digests):
                raise ValueError(f"found the digests {shown(digests)}, allowed are texts")
            if number is not None:
                number = integer(number=number, at_least=0)
            return {"key": key, "digest": digests[0], "users": digests[1], "number": number}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise StateError(f"{self._files.folder / TAUGHT}: cannot be read: {error!r}") from error

    @property
    def knows_taught(self) -> bool:
        """Whether rows that taught were recorded here."""
        return (self._files.folder / TAUGHT).exists()

    def forget_taught(self) -> None:
        """Remove the record of the rows that taught, if there is no run that could continue."""
        if self._files.read_plan() is None:
            (self._files.folder / TAUGHT).unlink(missing_ok=True)
            self._files.leave_nothing()

    def expect_taught(self, blocks: Taught | None) -> None:
        """Compare the rows that taught when the run goes on, unless it does so behind them; as :meth:`check_taught`."""
        self._expected, self._expects = blocks, True

    def _compare_taught(self) -> None:
        if self._expects:
            self._expects = False
            self.check_taught(self._expected)

    def check_taught(self, blocks: Taught | None) -> None:
        """Refuse to continue with other rows than those that taught; ``blocks`` as for :meth:`keep_taught`.

        Raises
        ------
        StateError
            If they are others, or other users', or cannot be compared.
        """
        record = self._taught_record()
        known, users = record["digest"], record["users"]
        if blocks is None or known is None:
            raise StateError(
                f"{self.directory}: the rows that taught the encoding must be compared with those that come now, which "
                "an input that can be read only once does not allow: bring the rows from next_row() on, with "
                "State(..., rest=True), or begin again in another directory"
            )
        found = _digests(record["key"], blocks)
        if found[0] != known:
            raise StateError(
                f"{self.directory}: the first rows of the stream are not those that taught the encoding which is kept "
                "here: a row could teach the encoding and then the model, which the guarantee excludes"
            )
        if users is not None and found[1] != users:
            raise StateError(
                f"{self.directory}: the first rows of the stream taught the encoding which is kept here, "
                "but then they were other users': a user could have more rows than the cap"
            )


def _digests(key: bytes, taught: Taught) -> tuple[str, str | None]:
    """Return the digests that identify rows and their users; None in place of the latter if the rows name no users."""
    found, users = RowDigest(key), hashlib.blake2b(digest_size=32, key=key)
    named = False
    for block in taught(users_key(key)):
        found.update(block.X, np.asarray(block.y, dtype=np.float64))
        if block.seen is not None:
            named = True
            users.update(block.seen.tobytes())
    return found.hexdigest(), users.hexdigest() if named else None
