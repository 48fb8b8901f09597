"""The directory of a run: reserved before anything is spent, filled aside, put in place whole."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from contextlib import suppress
from pathlib import Path
from types import TracebackType

__all__ = ["RunDirectory"]

_DEFAULT = "privol-run"


class RunDirectory:
    """A directory that appears complete or not at all.

    Entering reserves its name (an empty directory) and makes a hidden sibling to write into; :meth:`publish` renames
    the sibling into place. Leaving without it removes both.

    Parameters
    ----------
    out : path or None
        Must not exist, or be an empty directory; its parent must exist. ``None``: ``privol-run`` in the current
        directory, numbered if taken.
    """

    def __init__(self, out: str | None) -> None:
        self._wanted = out
        self._made = False
        self._done = False

    def __enter__(self) -> RunDirectory:
        if self._wanted is None:
            self.path = self._fresh()
        else:
            self.path = Path(self._wanted)
            self._reserve()
        self.draft = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex}.tmp")
        try:
            self.draft.mkdir(mode=0o755)
        except BaseException:
            self._release()
            raise
        return self

    def _fresh(self) -> Path:
        number = 1
        while True:
            path = Path(_DEFAULT if number == 1 else f"{_DEFAULT}-{number}")
            try:
                path.mkdir()
            except FileExistsError:
                number += 1
                continue
            self._made = True
            return path

    def _reserve(self) -> None:
        try:
            self.path.mkdir()
        except FileExistsError:
            if not self.path.is_dir():
                raise
            if any(self.path.iterdir()):
                raise OSError(
                    errno.ENOTEMPTY, "exists and is not empty; a run is not written over another", str(self.path)
                ) from None
        else:
            self._made = True

    def publish(self) -> None:
        """Put the finished directory in place.

        Raises
        ------
        OSError
            If something was put there meanwhile; the finished run then stays in the sibling that the message names.
        """
        self._done = True
        try:
            if os.name == "nt":  # no directory can be renamed onto another there, not even onto an empty one
                self.path.rmdir()
            os.replace(self.draft, self.path)
        except OSError as error:
            raise OSError(f"{self.path}: {error.strerror}; the finished run is in {self.draft}") from error

    def _release(self) -> None:
        if self._made:
            with suppress(OSError):  # somebody else's files are in it by now: they stay
                self.path.rmdir()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self._done:
            shutil.rmtree(self.draft, ignore_errors=True)
            self._release()
