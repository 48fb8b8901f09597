"""The runs of the kill campaign: every learner that can be kept, a learnt encoding, rows in parts, silent streams."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from kill_jobs import Job, Look, Rows, sha

from privol import (
    BANCO,
    DOLA,
    DPFTRL,
    LDPSGD,
    MIOGD,
    NOGD,
    PGIGA,
    PIGD,
    PQFTL,
    AdaptiveFTRL,
    AgnosticBANCO,
    BanditMIOGD,
    MultiscaleSGD,
    PrivateClassifier,
    SparseDOLA,
)
from privol.distributed import LocalCrew
from privol.learners import least_squares
from privol.state import State

__all__ = ["JOBS", "folder_of_tables"]


class Taught(Job):
    """A table whose first rows teach an encoding in phases; a model learns the others in it."""

    def shown(self, learner: Any) -> str:
        """Predictions for some rows, and with them the encoding."""
        return sha(learner.predict_proba(_frame(20, None).drop(columns="goal")))

    def fit(self, learner: Any, block: int, changed: int | None, look: Look, **how: Any) -> None:
        how |= {"target": "goal", "block_rows": block, "progress": lambda found, _: look(found)}
        learner.fit_stream(_table(self.rows, changed), **how)

    def seen(self, learner: Any) -> tuple[int, int, str]:
        model = learner.learner_
        return model.n_rows_, model.n_releases_, self.shown(learner)

    def learnt(self, entries: list[Any]) -> int:
        taught = [entry.rows for entry in entries if entry.learner == "PrivateEncoder"]
        return taught[-1] + (0 if entries[-1].learner == "PrivateEncoder" else entries[-1].rows) if taught else 0

    def has_models(self, learner: Any) -> bool:
        return getattr(getattr(learner, "learner_", None), "n_releases_", 0) > 0

    @property
    def shown_first(self) -> str:
        return ""  # nothing is looked at before a release

    @property
    def left(self) -> set[str]:
        return super().left | {"encoding.json"}


def _frame(rows: int, changed: int | None) -> pd.DataFrame:
    """Two columns of numbers, one of words, and labels."""
    rng = np.random.default_rng(11)
    numbers, words = rng.normal(size=(rows, 2)) * [1.0, 40.0], rng.choice(["a", "b", "c"], size=rows)
    labels = np.where(numbers[:, 0] + (words == "a") > 0.3, "yes", "no")
    if changed is not None:
        labels[changed] = "no" if labels[changed] == "yes" else "yes"
    return pd.DataFrame({"small": numbers[:, 0], "large": numbers[:, 1], "word": words, "goal": labels})


@functools.cache
def _table(rows: int, changed: int | None) -> Path:
    """A CSV file that lives as long as the campaign."""
    path = folder_of_tables() / f"{rows}-{changed}.csv"
    if not path.exists():
        _frame(rows, changed).to_csv(path.with_suffix(".draft"), index=False)
        path.with_suffix(".draft").replace(path)
    return path


@functools.cache
def folder_of_tables() -> Path:
    """A folder beside all that is struck."""
    name = tempfile.mkdtemp(prefix="privol-kill-tables-")
    atexit.register(shutil.rmtree, name, ignore_errors=True)
    return Path(name)


@dataclass(frozen=True)
class SomeRows:
    """A part: every row whose number leaves this remainder."""

    name: str
    number: int
    parts: int
    rows: int
    changed: int | None
    real: bool

    def open(self) -> Any:
        (whole,) = Rows(self.rows, self.rows, self.changed, self.real)
        X, y = whole.X[self.number :: self.parts], whole.y[self.number :: self.parts]
        said = {"classes": None if self.real else (0, 1), "n_rows": len(y)}
        block = type("Block", (), {"X": X, "y": y, "first_row": 1})()
        return type("Part", (), {**said, "X": X, "y": y, "__iter__": lambda _: iter([block])})()


class Parted(Job):
    """Rows in four parts, which threads hold; this process, the curator, is killed."""

    binds_all = True

    def resized(self, rows: int, every: int) -> Job:
        return super().resized(rows, every).with_words(batch=64)

    def look(self, learner: Any) -> tuple[int, int, str]:
        keep = vars(learner).pop("_keep_sums", None)
        try:
            return super().look(learner)
        finally:
            if keep is not None:
                vars(learner)["_keep_sums"] = keep

    def fit(self, learner: Any, block: int, changed: int | None, look: Look, **how: Any) -> None:
        """Workers send the sums of one step at a time, and somebody looks after each."""
        least_squares._AT_ONCE = 1
        kept = learner._keep_sums

        def keep(run: Any, rows: int) -> None:
            kept(run, rows)
            look(learner)

        vars(learner)["_keep_sums"] = keep  # not of its class: others in this process are not watched
        real = learner.loss == "squared"
        parts = [SomeRows(f"part {k}", k, 4, self.rows, changed, real) for k in range(4)]
        learner.fit_parts(parts, LocalCrew(2), **how)


class Pausing(Rows):
    """Rows whose stream falls silent now and then, until the journal has grown or a while is over; then somebody looks.

    So a run is kept by time, beside the learner that waits.
    """

    def __init__(self, rows: Rows, journal: Path, look: Callable[[], None]) -> None:
        vars(self).update(vars(rows))
        self._journal, self._look = journal, look

    def __iter__(self) -> Iterator[Any]:
        often = self.n_rows // PAUSES
        for block in super().__iter__():
            yield block
            before, after = block.first_row - 1, block.first_row - 1 + len(block.y)
            if before // often < after // often:
                size, until = self._size(), time.monotonic() + PAUSE
                while self._size() == size and time.monotonic() < until:
                    time.sleep(0.002)
                self._look()

    def _size(self) -> int:
        return self._journal.stat().st_size if self._journal.exists() else 0


class Silent(Job):
    """A stream that falls silent: the run is kept by time alone, mostly by the thread beside the learner that waits."""

    def state(self, directory: Path) -> State:
        return State(directory, every=10 * self.rows, seconds=0.03)

    def fit(self, learner: Any, block: int, changed: int | None, look: Look, **how: Any) -> None:
        rows: Any = Rows(self.rows, block, changed, learner.loss == "squared")
        if "checkpoint" in how:
            journal = self.journal(how["checkpoint"].directory.parent)
            rows = Pausing(rows, journal, lambda: look(learner))
        learner.fit_stream(rows, progress=lambda found, _: look(found), **how)


PAUSES, PAUSE = 5, 0.15  # silences of a run, and the seconds that one lasts at most
WATCHED, LOOKED_AT, SHARED = ("watched", True, False), ("looked at", False, False), ("shared", True, True)


def _job(
    name: str,
    learner: Callable[..., Any],
    mode: tuple[str, bool, bool],
    rows: int = 40000,
    kind: type[Job] = Job,
    **words: Any,
) -> tuple[str, Job]:
    how, watched, shared = mode
    words = {"release": rows // 20} | words
    return f"{name}, {how}", kind(name, learner, words, rows, rows // 25, watched, shared)


JOBS: dict[str, Job] = dict(
    [
        *(_job("PIGD", PIGD, mode) for mode in (WATCHED, LOOKED_AT, SHARED)),
        *(_job("NOGD", NOGD, mode, batch=7) for mode in (WATCHED, LOOKED_AT, SHARED)),
        *(_job("DPFTRL blt", DPFTRL, mode, design="blt", batch=8) for mode in (WATCHED, LOOKED_AT, SHARED)),
        *(_job("DPFTRL tree", DPFTRL, mode, design="tree", batch=8) for mode in (WATCHED, LOOKED_AT, SHARED)),
        *(_job("PQFTL", PQFTL, mode, 8000) for mode in (WATCHED, LOOKED_AT, SHARED)),
        _job("PGIGA", PGIGA, WATCHED),
        _job("AdaptiveFTRL", AdaptiveFTRL, SHARED),
        _job("DPFTRL epochs", AdaptiveFTRL, WATCHED, horizon=5000, renewal="double"),
        _job("DPFTRL users", DPFTRL, LOOKED_AT, design="sqrt", batch=8, rows_per_user=4),
        _job("MIOGD", MIOGD, WATCHED),
        _job("BanditMIOGD", BanditMIOGD, LOOKED_AT),
        _job("LDPSGD", LDPSGD, SHARED),
        _job("BANCO", BANCO, WATCHED, 20000),
        _job("AgnosticBANCO", AgnosticBANCO, LOOKED_AT),
        _job("MultiscaleSGD", MultiscaleSGD, SHARED, 20000),
        _job("DOLA", DOLA, WATCHED, nodes=4, release=500),
        _job("SparseDOLA", SparseDOLA, SHARED, nodes=4, release=500),
        _job("PrivateClassifier", PrivateClassifier, LOOKED_AT, 8000, Taught, epsilon=30.0),
        _job("DPFTRL blt in silence", DPFTRL, WATCHED, 8000, Silent, design="blt", batch=8),
        _job("PIGD in silence", PIGD, LOOKED_AT, 8000, Silent),
        _job("NOGD in silence", NOGD, SHARED, 8000, Silent, batch=7),
        _job("DPFTRL parts", DPFTRL, LOOKED_AT, kind=Parted, batch=1000),
        _job("PQFTL parts", PQFTL, LOOKED_AT, 8000, Parted, batch=64, release=384),
    ]
)
