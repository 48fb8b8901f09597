"""The runs of an arena: which entrants run on which streams, in how many processes."""

from __future__ import annotations

import math
import multiprocessing
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from .. import __version__
from .._validate import choice, integer, number
from ..errors import InvalidParameter, PrivolError, StreamError
from .central import CENTRAL, Played, play_learner
from .figures import PARTS, figures_of
from .raw_rows import Rows
from .references import play_default_sgd, play_river, play_sgd, play_trees, play_whole
from .results import Key, Results, epsilon_word
from .rivals import play_descent, play_diffprivlib
from .specs import Prepared, Spec, named, prepare

__all__ = ["BLOCK", "EPSILONS", "OTHERS", "run_arena"]

EPSILONS = 0.1, 0.5, 1.0, 4.0, math.inf
#: Rows whose labels arrive together: every entrant predicts a block with the model before it.
BLOCK = 100
#: Entrants beside privol's learners: without privacy, online or with all rows at once; or private competitors.
OTHERS = {
    "sgd": "online",
    "sgd-default": "online",
    "river": "online",
    "linear": "whole",
    "trees": "whole",
    "dp-sgd": "rival",
    "diffprivlib": "rival",
}


@dataclass(frozen=True)
class _Task:
    key: Key
    prepared: Prepared
    delta: float
    python: str | None


def run_arena(
    specs: Sequence[Spec],
    out: str | Path,
    *,
    learners: Sequence[str] | None = None,
    others: Sequence[str] | None = None,
    epsilons: Sequence[float] = EPSILONS,
    seeds: int = 3,
    rows: int | None = 50_000,
    delta: float = 1e-6,
    jobs: int = 1,
    diffprivlib: str | None = None,
    redo: Sequence[str] = (),
    progress: Callable[[int, int, dict[str, Any]], object] | None = None,
) -> Results:
    """Let privol's central learners, references without privacy and other private learners run on the same streams.

    Every learner of privol is given a file, its target and epsilon: the encoding is learnt under the same budget, and
    the settings are its defaults. What is there already is not run again.

    Parameters
    ----------
    specs : sequence of Spec
    out : path
        Folder of the results.
    learners : sequence of str, optional
        Of :data:`CENTRAL`. Default: all.
    others : sequence of str, optional
        Of :data:`OTHERS`. Default: all; what is not installed is left out, with its reason in the results.
    epsilons : sequence of float
        Above 0; infinite: without noise.
    seeds : int
        Runs of each, with noise of their own, and rows of their own where these are synthetic or shuffled.
    rows : int or None
        Of a stream at most, with those that are held out. None: all.
    delta : float
    jobs : int
        Processes. With one, everything runs here.
    diffprivlib : str, optional
        Python of an environment that has diffprivlib.
    redo : sequence of str
        Those whose existing results are computed again, for example after a change of their code.
    progress : callable, optional
        Called after each run with the number of runs done, of all runs, and the run's record.

    Returns
    -------
    Results
        **Not private**: computed from the rows of the streams, and covered by no guarantee.

    Raises
    ------
    InvalidParameter, StreamError, StateError
        Before anything is run: if a parameter is wrong, a file cannot be read, or the folder has other results.
    """
    learners = CENTRAL if learners is None else [choice(CENTRAL, learners=name) for name in learners]
    others = tuple(OTHERS) if others is None else [choice(tuple(OTHERS), others=name) for name in others]
    for name in redo:
        choice((*learners, *others), redo=name)
    epsilons = [number(epsilons=epsilon, above=0.0, infinite=True) for epsilon in epsilons]
    seeds, jobs = integer(seeds=seeds, at_least=1), integer(jobs=jobs, at_least=1)
    if rows is not None:
        integer(rows=rows, at_least=1)
    settings = {"rows": rows, "block": BLOCK, "delta": number(delta=delta, above=0.0, below=1.0)}
    if not specs:
        raise InvalidParameter("an arena needs at least one stream")
    results = Results(Path(out), settings)
    with tempfile.TemporaryDirectory(prefix="privol-arena-") as folder:
        tasks: list[_Task] = []
        for spec in named(specs):
            shared: Prepared | None = None
            for seed in range(seeds):
                prepared = shared if shared is not None else prepare(spec, seed, rows, Path(folder))
                shared = None if spec.varies else prepared
                results.know(spec, prepared)
                for entrant, epsilon in _entries(learners, others, epsilons, first=seed == 0 or spec.varies):
                    key = Key(spec.name, entrant, epsilon, seed)
                    if entrant in redo or results.wants(key):
                        tasks.append(_Task(key, prepared, delta, diffprivlib))
        for count, record in enumerate(_played(tasks, jobs), 1):
            results.add(record)
            if progress is not None:
                progress(count, len(tasks), record)
    return results


def _entries(
    learners: Sequence[str], others: Sequence[str], epsilons: Sequence[float], *, first: bool
) -> Iterator[tuple[str, float | None]]:
    """The entrants with their epsilons; those without noise run only once on the same rows."""
    for name in others:
        if OTHERS[name] != "rival" and first:
            yield name, None
    for name in (*learners, *(name for name in others if OTHERS[name] == "rival")):
        for epsilon in epsilons:
            yield name, epsilon


def _played(tasks: Sequence[_Task], jobs: int) -> Iterator[dict[str, Any]]:
    if jobs == 1 or len(tasks) < 2:
        yield from map(_play, tasks)
        return
    pool = ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=multiprocessing.get_context("spawn"))
    try:
        for future in as_completed([pool.submit(_play, task) for task in tasks]):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


@lru_cache(maxsize=1)
def _rows_of(prepared: Prepared) -> Rows:
    return Rows(prepared)


def _play(task: _Task) -> dict[str, Any]:
    """Make one run and return its record."""
    key, prepared = task.key, task.prepared
    record: dict[str, Any] = {
        "stream": key.stream,
        "entrant": key.entrant,
        "kind": OTHERS.get(key.entrant, "privol"),
        "epsilon": epsilon_word(key.epsilon),
        "seed": key.seed,
        "privol": __version__,
    }
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # noise from fixed keys, and references whose fits stopped early
        rows = _rows_of(prepared)
        try:
            played = _by_name(task, rows)
        except StreamError as error:  # from the encoding: the rows that teach showed too little
            return {**record, "status": "no model", "reason": str(error)}
        except InvalidParameter as error:
            return {**record, "status": "left out", "reason": str(error)}
        except Exception as error:  # the other runs continue, and the error is shown
            kind = "" if isinstance(error, PrivolError) else f"{type(error).__name__}: "
            return {**record, "status": "failed", "reason": f"{kind}{error}"}
        figures = {part: _figures(rows, played, part) for part in PARTS}
    return {
        **record,
        "status": "done",
        "figures": figures,
        "rows_per_second": played.rows / max(played.seconds, 1e-9),
        **{name: epsilon_word(note) if isinstance(note, float) else note for name, note in played.notes.items()},
    }


def _figures(rows: Rows, played: Played, part: str) -> dict[str, float | None]:
    held = part == "held_out"
    y, scores = (rows.held_y, played.held) if held else (rows.y, played.scores)
    found = figures_of(rows.prepared, y, scores, part)
    return {name: value if value is None or math.isfinite(value) else None for name, value in found.items()}


def _by_name(task: _Task, rows: Rows) -> Played:
    name, epsilon, seed = task.key.entrant, task.key.epsilon, task.key.seed
    if epsilon is None:
        if name == "sgd":
            return play_sgd(rows, BLOCK)
        if name == "sgd-default":
            return play_default_sgd(rows, BLOCK)
        if name == "river":
            return play_river(rows, BLOCK)
        return play_whole(rows) if name == "linear" else play_trees(rows)
    if name == "dp-sgd":
        return play_descent(rows, epsilon, task.delta, seed, BLOCK)
    if name == "diffprivlib":
        return play_diffprivlib(rows, epsilon, task.delta, seed, BLOCK, task.python)
    return play_learner(task.prepared, name, epsilon, task.delta, seed, BLOCK)
