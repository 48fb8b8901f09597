"""The folder of an arena: one line of JSON per run, so that another call continues where the last one ended."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

from .. import __version__
from .._files import write_atomically
from .._values import shown
from ..errors import InvalidParameter, StateError
from .specs import Prepared, Spec

__all__ = ["Key", "Results", "epsilon_word"]

_FORMAT, _VERSION = "privol.arena", 1
#: The rows that figures are of.
_PARTS = ("second_half", "held_out", "all")
#: What a line raises where a field is missing, of another type, or a number beyond the doubles.
_DAMAGE = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)


class Key(NamedTuple):
    """The key of a run; ``epsilon`` is None for entrants without privacy."""

    stream: str
    entrant: str
    epsilon: float | None
    seed: int


def epsilon_word(epsilon: float | None) -> float | str | None:
    """Return an epsilon as a JSON value."""
    return "inf" if epsilon is not None and math.isinf(epsilon) else epsilon


def _key_of(record: dict[str, Any]) -> Key:
    epsilon = record["epsilon"]
    number = None if epsilon is None else float(epsilon)
    names = record["stream"], record["entrant"]
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f"found the stream and the entrant {shown(names)}, allowed are texts")
    return Key(*names, number, int(record["seed"]))


def _check(record: dict[str, Any]) -> None:
    """Refuse a line without what a board needs of it."""
    status = record["status"]
    if type(status) is not str:
        raise ValueError(f"found the status {shown(status)}, allowed is a word")
    if status != "done":
        if type(record["reason"]) is not str:
            raise ValueError(f"found the reason {shown(record['reason'])}, allowed is a text")
        return
    found = [record["rows_per_second"]]
    for part in _PARTS:
        found += [value for value in record["figures"][part].values() if value is not None]
    if not all(type(value) in (int, float) and math.isfinite(value) for value in found):
        raise ValueError(f"found the figures {shown(found)}, allowed are finite numbers")


class Results:
    """Results in a folder, which is made if it is not there.

    Parameters
    ----------
    folder : Path
    settings : dict
        What all results have in common, as JSON values.

    Attributes
    ----------
    records : dict of Key to dict
        What was read, and what was added.
    streams : dict
        By name: what the results of a stream have in common.

    Raises
    ------
    InvalidParameter
        If the folder has results with other settings, or other files.
    StateError
        If what is in it cannot be read.
    """

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder, self._settings = folder, {**settings, "privol": __version__}
        self._about, self._lines = folder / "arena.json", folder / "results.jsonl"
        self.records: dict[Key, dict[str, Any]] = {}
        self.streams: dict[str, dict[str, Any]] = {}
        if not folder.exists():
            folder.mkdir(parents=True)
        elif any(folder.iterdir()):
            self._resume()
        self._write_about()

    def _resume(self) -> None:
        try:
            about = json.loads(self._about.read_text(encoding="utf-8"))
            if about["format"] != _FORMAT or about["version"] != _VERSION:
                raise ValueError("another format")
            json.dumps(about, allow_nan=False)  # as it will be written again
            found, self.streams = {**about["settings"]}, about["streams"]
            for known in self.streams.values():
                cuts = known["rows"].values()
                right = all(
                    type(cut["classes"]) is list and type(cut["rows"]) is type(cut["held"]) is int for cut in cuts
                )
                if type(known["seen"]) is not str or not cuts or not right:
                    raise ValueError(f"of a stream found {shown(known)}, allowed are 'seen', a text, and 'rows'")
        except FileNotFoundError as error:
            raise InvalidParameter(f"{self.folder} is not empty, and has no results of an arena") from error
        except _DAMAGE as error:
            raise StateError(f"{self._about} is damaged: {error}") from error
        for name, value in self._settings.items():
            if found.get(name) != value:
                raise InvalidParameter(
                    f"{self.folder} has results with {name} = {found.get(name)!r}, and these would have {value!r}: "
                    "choose another folder"
                )
        if self._lines.exists():
            self._read()

    def _read(self) -> None:
        content = self._lines.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:  # a line that was being written when the process ended
            write_atomically(self._lines, whole)
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                record = json.loads(line)
                _check(record)
                self.records[_key_of(record)] = record
            except _DAMAGE as error:
                raise StateError(f"{self._lines}, line {number}: is damaged: {error}") from error

    def _write_about(self) -> None:
        about = {"format": _FORMAT, "version": _VERSION, "settings": self._settings, "streams": self.streams}
        write_atomically(self._about, json.dumps(about, indent=1, allow_nan=False).encode() + b"\n")

    def know(self, spec: Spec, prepared: Prepared) -> None:
        """Note the rows of a stream; refuse them if the folder has results for other rows under that name."""
        known = self.streams.setdefault(spec.name, {"seen": spec.seen, "rows": {}})
        word, record = "any" if prepared.seed is None else str(prepared.seed), prepared.to_record()
        if known["rows"].get(word, record) != record:
            raise InvalidParameter(
                f"{self.folder} has results of a stream {spec.name!r} with other rows: choose another folder or name"
            )
        if word not in known["rows"] or known["seen"] != spec.seen:
            known["seen"], known["rows"][word] = spec.seen, record
            self._write_about()

    def wants(self, key: Key) -> bool:
        """Whether a run still has to be made; a failed run is repeated."""
        return key not in self.records or self.records[key]["status"] == "failed"

    def add(self, record: dict[str, Any]) -> None:
        """Keep a result; it is on the disk when this returns."""
        self.records[_key_of(record)] = record
        with open(self._lines, "ab") as file:
            file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
