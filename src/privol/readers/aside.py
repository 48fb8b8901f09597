"""Messages that cannot be read, set aside in a folder instead of ending the run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

from .._files import sync_folder, write_atomically
from ..errors import InvalidParameter
from .payloads import Payload

__all__ = ["CONDITION", "Aside"]

#: What a guarantee takes for granted where messages are set aside: a message that is left out moves all later rows.
CONDITION = (
    "which messages are set aside as unreadable is the same in neighbouring streams and is not hidden: a message that "
    "is set aside is no row"
)


class Aside:
    """A folder of messages that were set aside, each in a file of its own: **private**, as rows are.

    A file is named after its message, so that a message that comes again is the same file again; another message
    of that name, of another stream, has a file beside it.

    Parameters
    ----------
    folder : str
        Made if it does not exist; its parent must.
    """

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            sync_folder(self._folder.parent)
        except OSError as err:
            raise InvalidParameter(f"quarantine={folder}: cannot be made: {err.strerror}") from None

    def put(self, name: str, payload: Payload | None, why: str) -> None:
        """Set a message aside for good, with the reason why: on the disk when this returns."""
        stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)
        if isinstance(payload, Mapping):
            fields = [[_text(key), _text(value)] for key, value in payload.items()]
            content = json.dumps(fields).encode()
        else:
            content = payload or b""
        if self._is_other(stem, content):
            stem += f"-{hashlib.blake2b(content, digest_size=8).hexdigest()}"
        write_atomically(self._folder / f"{stem}.message", content, mode=0o600)
        write_atomically(self._folder / f"{stem}.reason", (why + "\n").encode(), mode=0o600)

    def _is_other(self, stem: str, content: bytes) -> bool:
        """Whether another message has that name."""
        try:
            return (self._folder / f"{stem}.message").read_bytes() != content
        except FileNotFoundError:
            return False


def _text(found: bytes) -> str:
    return found.decode("utf-8", "backslashreplace")
