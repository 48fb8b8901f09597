"""The models that are served: each is replaced as a whole when a newer one is there, and kept when that is damaged."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import PrivolError, StateError
from ..guarantees import Guarantee
from ..ledger import Ledger
from ..state import RELEASED, load_learner, read_record
from ._predictor import Predictor
from ._versions import MODEL_FILES, Registry

__all__ = ["InRegistry", "InRun", "Place", "Served", "Shelf", "Slot", "Watch", "told"]

log = logging.getLogger("privol.serving")

_TRIES, _PAUSE = 4, 0.05  # of a model whose two files are being replaced
#: What health says of a model; why, only the log does.
WAITING, STALE = "no model yet", "a newer model cannot be read, the last good one is served"


@dataclass(frozen=True, eq=False)
class Served:
    """A released model as it is served. All of it is public.

    Attributes
    ----------
    predictor : Predictor
    guarantee : Guarantee
    private : bool
    rows, releases : int
        Rows learnt and models released by then.
    spent : tuple of float, or None
        mu and epsilon (at the guarantee's delta) that all runs in its ledger have spent by then; None where no ledger
        is beside it.
    number : int or None
        Of its version in a registry.
    manifest : str or None
        SHA-256 of that version's manifest.
    """

    predictor: Predictor
    guarantee: Guarantee
    private: bool
    rows: int
    releases: int
    spent: tuple[float, float] | None = None
    number: int | None = None
    manifest: str | None = None

    @classmethod
    def of(cls, predictor: Predictor, **more: Any) -> Served:
        """Return what is served of a predictor, with what its learner says of itself."""
        learner = predictor.learner
        guarantee = learner.guarantee_
        private = guarantee.private and guarantee.kind != "none"
        return cls(predictor, guarantee, private, learner.n_rows_, learner.n_releases_, **more)


@dataclass(frozen=True)
class Slot:
    """What is known of a name: the model that is served and since when, and what is wrong with a newer one."""

    served: Served | None = None
    problem: str | None = WAITING
    since: float = 0.0


class Shelf:
    """The served models by name. Readers see a whole model or the one before, whenever it is replaced."""

    def __init__(self) -> None:
        self._slots: dict[str, Slot] = {}
        self._lock = threading.Lock()  # of writers

    @property
    def slots(self) -> Mapping[str, Slot]:
        """All names, as they are now."""
        return self._slots

    def expect(self, name: str) -> None:
        """Note that there will be a model of this name."""
        with self._lock:
            self._slots = {name: Slot(), **self._slots}

    def put(self, name: str, served: Served) -> None:
        """Serve a model from now on."""
        with self._lock:
            self._slots = {**self._slots, name: Slot(served, None, time.time())}

    def blame(self, name: str) -> None:
        """Note that a newer model cannot be read: the last good one stays."""
        with self._lock:
            slot = self._slots.get(name, Slot())
            problem = WAITING if slot.served is None else STALE
            self._slots = {**self._slots, name: replace(slot, problem=problem)}


# ---- where models come from --------------------------------------------------------------------------------


class Place(ABC):
    """Where the newest model of a name is found."""

    @abstractmethod
    def mark(self) -> Any:
        """What changes when another model is there; cheap."""

    @abstractmethod
    def load(self) -> Served:
        """Return the model that is there now.

        Raises
        ------
        StateError, InvalidParameter
            If there is none that is whole.
        """


def _mark(path: Path) -> Any:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class InRun(Place):
    """The directory of a run: the model that it ended with or, while it lasts, the one that it released last."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folders = (folder, folder / RELEASED)

    def mark(self) -> Any:
        return [_mark(folder / file) for folder in self._folders for file in MODEL_FILES]

    def load(self) -> Served:
        for attempt in range(_TRIES):
            try:
                return self._load()
            except StateError:  # perhaps its two files are being replaced
                if attempt + 1 == _TRIES:
                    raise
            time.sleep(_PAUSE)
        raise AssertionError("unreachable")

    def _load(self) -> Served:
        found = [(read_record(folder), folder) for folder in self._folders if (folder / "model.json").exists()]
        if not found:
            raise StateError(f"{self._folder}: no released model here yet")
        # of a run that goes on after an interrupt the one that it left then is older
        record, folder = max(found, key=lambda each: (each[0]["n_releases"], each[0]["n_rows"]))
        predictor = Predictor(load_learner(folder), record["inputs"])
        if read_record(folder) != record:  # a learner of one model with the columns of another
            raise StateError(f"{folder}: the model was replaced while it was read")
        return Served.of(predictor, spent=_spent(self._folder / "ledger.jsonl", predictor.learner.guarantee_.delta))


def _spent(journal: Path, delta: float) -> tuple[float, float] | None:
    if not journal.exists():
        return None
    spent = Ledger.read(journal).spent
    return spent.mu, spent.epsilon(delta)


class InRegistry(Place):
    """A name in a registry: its current version, or one that is chosen."""

    def __init__(self, registry: Registry, name: str, number: int | None = None) -> None:
        self._registry, self._name, self._number = registry, name, number

    def mark(self) -> Any:
        return _mark(self._registry.path / self._name / "current.json") if self._number is None else ()

    def load(self) -> Served:
        version, content = self._registry.read(self._name, self._number)
        # what was verified is what is loaded, even if the files change meanwhile
        with tempfile.TemporaryDirectory(prefix="privol-") as own:
            for file in MODEL_FILES:
                (Path(own) / file).write_bytes(content[file])
            predictor = Predictor(load_learner(own), read_record(own)["inputs"])
        return Served.of(predictor, number=version.number, manifest=version.manifest)


class Watch:
    """A thread that looks for newer models and puts them on the shelf.

    Parameters
    ----------
    shelf : Shelf
    places : mapping of str to Place
    registry : Registry or None
        Whose new names are served too.
    seconds : float
        Between two looks.
    """

    def __init__(
        self, shelf: Shelf, places: Mapping[str, Place], registry: Registry | None = None, seconds: float = 1.0
    ) -> None:
        self._shelf, self._places, self._registry, self._seconds = shelf, dict(places), registry, seconds
        self._marks: dict[str, Any] = {}
        self._said: dict[str, str] = {}
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        for name in self._places:
            shelf.expect(name)

    def look(self) -> None:
        """Load every model that is new; one that could not be loaded is tried again."""
        if self._registry is not None:
            for name in self._registry.names:
                if name not in self._places:
                    self._places[name] = InRegistry(self._registry, name)
                    self._shelf.expect(name)
        for name, place in self._places.items():
            mark = place.mark()
            if name in self._marks and self._marks[name] == mark:
                continue
            try:
                served = place.load()
            except (PrivolError, OSError) as error:
                self._blame(name, str(error))
            except Exception as error:  # whatever a damaged file brings about: the last good model stays
                self._blame(name, f"{type(error).__name__} while the model was read")
            else:
                self._marks[name] = mark
                self._said.pop(name, None)
                self._shelf.put(name, served)
                log.info("%s: serving %s", name, told(served))

    def _blame(self, name: str, words: str) -> None:
        self._marks.pop(name, None)
        self._shelf.blame(name)
        if self._said.get(name) != words:  # once, not at every look
            self._said[name] = words
            log.warning("%s: %s", name, words)

    def start(self) -> None:
        """Look now, and from now on."""
        self.look()
        self._thread = threading.Thread(target=self._run, name="privol-watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._done.wait(self._seconds):
            try:
                self.look()
            except Exception as error:  # a registry whose folder is gone, for instance
                log.warning("%s while looking for models", type(error).__name__)

    def stop(self) -> None:
        """Look no more."""
        self._done.set()
        if self._thread is not None and self._thread.is_alive():  # not if a signal struck where it was to start
            self._thread.join()


def told(served: Served) -> str:
    """A served model in words for a log."""
    which = "" if served.number is None else f"version {served.number}, "
    mark = "" if served.private else ", NOT PRIVATE"
    return f"{which}the model of {served.rows:,} rows and {served.releases:,} release(s){mark}"
