"""The directory of a run: reserved before anything is spent, and kept with a run in it or not at all."""

from __future__ import annotations

import errno
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import click

from ..errors import BudgetExceeded, InvalidParameter, InvalidRow, StreamError

__all__ = ["RunDirectory", "naming_rows", "never_began", "printing", "uninterrupted"]

_DEFAULT = "privol-run"


@contextmanager
def printing(left: str = "") -> Iterator[None]:
    """If nothing can be printed, say that the output failed, and what is left (``left``)."""
    try:
        yield
    except KeyboardInterrupt:
        from .app import INTERRUPTED

        click.echo(f"privol: error: interrupted{left}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}{left}", "standard output") from error


@contextmanager
def naming_rows(stream: Any, *, learning: bool = True) -> Iterator[None]:
    """Let errors about rows name the file and the column: the learners only know numbers."""
    try:
        yield
    except InvalidRow as error:
        text, names = str(error), stream.feature_names
        if error.column is not None and names is not None:
            text = text.replace(f"feature {error.column}:", f"column {names[error.column]!r}:", 1)
        if learning and "found NaN," in text and stream.schema is None:
            text += (
                "; missing = in a schema says what an empty cell means (privol info FILE drafts one), and --on-invalid "
                "zero learns such a row as if it were not there"
            )
        text = text.replace("found NaN,", "found NaN or an empty cell,", 1)
        if not learning:
            text = text.replace("; nothing of its block was learnt", "", 1)
        raise InvalidRow(f"{stream.source}, {text}", row=error.row, column=error.column) from error
    except StreamError as error:
        if "need a schema" not in str(error):
            raise
        raise StreamError(f"{error}: privol info FILE drafts one", row=error.row) from error
    except BudgetExceeded as error:
        raise BudgetExceeded(f"{stream.source}: {error}") from error


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C and similar interrupts: the few system calls within belong together."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread is interrupted
        yield
        return
    struck: list[int] = []
    before: dict[int, Any] = {}
    try:
        for number in signal.valid_signals():
            if (handler := signal.getsignal(number)) is signal.default_int_handler:
                before[number] = handler  # first: another signal may strike before all wait
                signal.signal(number, lambda number, _: struck.append(number))
        yield
    finally:
        for each, kept in before.items():
            signal.signal(each, kept)
    if struck:
        raise KeyboardInterrupt


class RunDirectory:
    """A directory that is left with a run in it, or not at all.

    Entering reserves its name. Leaving removes what was made, also where Ctrl-C strikes, unless there is something in
    it that is to stay: since :meth:`keep` was called.

    Parameters
    ----------
    out : path or None
        Must not exist, or be an empty directory; its parent must exist. ``None``: ``privol-run`` in the current
        directory, numbered if taken.
    gone_on : bool
        A run exists and continues: nothing is reserved, and nothing is removed.
    shown : str, optional
        What messages call it. Default: its path.
    """

    def __init__(self, out: str | None, *, gone_on: bool = False, shown: str | None = None) -> None:
        self._wanted = out
        self._shown = shown
        self._made = False
        self._kept = gone_on

    def __enter__(self) -> RunDirectory:
        try:
            with uninterrupted():
                if self._wanted is None:
                    self.path = self._fresh()
                else:
                    self.path = Path(self._wanted)
                    if not self._kept:
                        self._reserve()
        except KeyboardInterrupt:
            if self._made:
                self.path.rmdir()
            raise
        return self

    @property
    def shown(self) -> str:
        """The name of the directory in messages."""
        return str(self.path) if self._shown is None else self._shown

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
                raise OSError(errno.ENOTDIR, "exists and is no directory", str(self.path)) from None
            if (self.path / "secret" / "run.json").exists():
                raise OSError(
                    errno.ENOTEMPTY, "holds a run that has not ended; privol resume continues it", str(self.path)
                ) from None
            if never_began(self.path):
                self._kept = True  # whoever may be about to begin there has it locked, and refuses this run
                return
            if any(self.path.iterdir()):
                raise OSError(
                    errno.ENOTEMPTY,
                    "exists and is not empty; a run is not written over another: choose another --out",
                    str(self.path),
                ) from None
        else:
            self._made = True

    def keep_out_of(self, file: str | None) -> None:
        """Refuse a directory of rows in which the run itself would lie.

        Raises
        ------
        InvalidParameter
        """
        if file is not None and Path(file).is_dir() and Path(file).resolve() in self.path.resolve().parents:
            raise InvalidParameter(
                f"the run would be written to {self.path}, inside the directory of rows {file}: choose another --out, "
                "or name the files by a quoted pattern such as 'folder/*.csv'"
            )

    def keep(self) -> bool:
        """Keep its content, whatever happens; return whether it was to be kept already."""
        before, self._kept = self._kept, True
        return before

    def drop(self) -> None:
        """Remove its content after all."""
        self._kept = False

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._kept:
            return
        with uninterrupted():
            for path in self.path.iterdir():
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
            if self._made:
                self.path.rmdir()


def never_began(path: Path) -> bool:
    """Whether a directory has only what is left of runs that were killed before they began: nothing was reserved."""
    from ..ledger import Ledger

    if not (path / "secret").is_dir():
        return False
    journal = path / "ledger.jsonl"
    inside = {entry.name for entry in path.iterdir()}
    if not inside <= {"secret", journal.name, f".{journal.name}.lock"}:
        return False
    if {entry.name for entry in (path / "secret").iterdir()} != {"lock"}:
        return False
    return not journal.exists() or not Ledger.read(journal).accounts
