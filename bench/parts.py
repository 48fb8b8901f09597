"""Seconds of a fit over parts of the rows: ``python bench/parts.py``, and with ``--ranks`` under mpiexec.

Rows are made where they are held, so nothing is read. For each crew, alternating, the medians of ``--rounds``: the
whole fit without making rows, the questions, and the cost of a question that involves no rows (docs/parts.md). The
limit of a question is that of the rows that it involves, which all workers share: their bytes, or their multiply-adds.

    mpiexec -n 2 python bench/parts.py --ranks       (--rows, --dim, --parts: more points)

``--batch B``: PQFTL with leaves of B rows instead of an offline learner. ``--steps B``: DPFTRL with steps of B rows,
compared with the same run in one process.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from figures import Row, figure, no_limit, show
from limits import Work, moments

from privol import DPFTRL, PQFTL, ObjectivePerturbation
from privol.distributed import Crew, DaskCrew, LocalCrew, RankCrew, Ranks, Session
from privol.errors import PrivacyWarning


@dataclass(frozen=True)
class MadeRows:
    """A part of rows that are made where it is opened."""

    number: int
    rows: int
    dim: int

    @property
    def name(self) -> str:
        return f"part {self.number}"

    classes = (-1, 1)

    @property
    def n_rows(self) -> int:
        return self.rows

    def open(self) -> Any:
        return self

    def __iter__(self) -> Iterator[Any]:
        rng = np.random.default_rng(self.number)
        X = rng.normal(size=(self.rows, self.dim)) / np.sqrt(self.dim)
        score = X @ np.linspace(-4.0, 4.0, self.dim) + rng.normal(size=self.rows)
        yield SimpleNamespace(X=X, y=(score > 0).astype(float), first_row=0)


class Watched:
    """A crew that counts its questions and measures their seconds."""

    def __init__(self, crew: Crew) -> None:
        self._crew, self.curator = crew, crew.curator
        self.seconds: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.shares: Counter[str] = Counter()  # of the rows: Hessians may be formed from every fourth, or fewer

    def session(self, reading: Any, parts: Any) -> Session:
        session = self._crew.session(reading, parts)
        real = session.ask

        def ask(question: str, *arguments: Any) -> Iterator[Any]:
            start = time.perf_counter()
            yield from real(question, *arguments)
            self.seconds[question] += time.perf_counter() - start
            self.asked[question] += 1
            self.shares[question] += 1 / arguments[-1] if question == "hessian" else 1.0  # type: ignore[assignment]

        session.ask = ask  # type: ignore[method-assign]
        return session

    def serve(self) -> Any:
        return self._crew.serve()


def learner_of(words: argparse.Namespace) -> Any:
    if words.batch is not None:
        return PQFTL(x_bound=2.0, batch=words.batch, random_state=1)
    if words.steps is not None:
        return DPFTRL(x_bound=2.0, batch=words.steps, release="last", random_state=1)
    return ObjectivePerturbation(x_bound=2.0, random_state=1)


def fit(crew: Crew, parts: list[MadeRows], words: argparse.Namespace) -> tuple[dict[str, float], bytes]:
    """Seconds of everything except making rows, seconds of single questions, and the model."""
    watched, learner, passes = Watched(crew), learner_of(words), questions(words)
    start = time.perf_counter()
    learner.fit_parts(parts, watched)
    whole = time.perf_counter() - start
    if not crew.curator:
        return {}, b""
    counted = {"fit": whole - watched.seconds["about"], "questions": float(sum(watched.asked.values()) - 1)}
    counted |= {name: watched.seconds[name] / max(watched.asked[name], 1) for name in passes}
    counted |= {f"{name}s": float(watched.asked[name]) for name in passes}
    counted |= {f"{name}, share": watched.shares[name] / max(watched.asked[name], 1) for name in passes}
    return counted, learner.coef_.tobytes()


def questions(words: argparse.Namespace) -> tuple[str, ...]:
    """The questions, the one that involves no rows first."""
    if words.steps is not None:
        return ("gradients",)
    return ("losses", "hessian", "along", "margins") if words.batch is None else ("leaves", "rest")


def needed(question: str, words: argparse.Namespace) -> Work:
    """What a question to all rows needs at least, in one process."""
    n, d = words.rows, words.dim + 1
    if words.steps is not None:
        n = words.steps
    if question == "rest":
        return Work()  # the last rows, which make no leaf
    of_row = {
        "hessian": 2.0 * d + d * (d + 1) / 2,
        "leaves": float(moments(words.dim)),
        "along": 1.0,
        "losses": 2.0 * d,
    }
    read = 8.0 if question == "along" else 8.0 * d  # along a line the scores are there
    return Work(memory=n * read, multiply_adds=n * of_row.get(question, 2.0 * d), exponentials=float(n))


def one_process(parts: list[MadeRows], words: argparse.Namespace) -> float:
    """Seconds of a fit of all rows in one process, part by part."""
    blocks = [block for part in parts for block in part]
    X, y = np.concatenate([block.X for block in blocks]), np.concatenate([block.y for block in blocks])
    learner = learner_of(words)
    start = time.perf_counter()
    learner.fit(X, y)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=54)
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, help="of PQFTL")
    parser.add_argument("--steps", type=int, help="of DPFTRL")
    parser.add_argument("--ranks", action="store_true")
    parser.add_argument("--dask", type=int, nargs="*", default=[1, 2], help="workers of Dask")
    words = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    parts = [MadeRows(k, words.rows // words.parts, words.dim) for k in range(words.parts)]
    tiny = [MadeRows(k, 1, words.dim) for k in range(words.parts)]
    with ExitStack() as stack:
        crews: dict[str, Crew] = {}
        if words.ranks:
            ranks = Ranks()
            crews[f"{ranks.size} ranks"] = RankCrew(ranks)
        else:
            crews |= {f"{threads} threads": LocalCrew(threads) for threads in (1, 2)}
            for count in words.dask:
                from distributed import Client, LocalCluster

                cluster = stack.enter_context(
                    LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None, processes=True)
                )
                crews[f"{count} Dask"] = DaskCrew(stack.enter_context(Client(cluster)))
        found: dict[str, list[dict[str, float]]] = {name: [] for name in crews}
        empty: dict[str, list[float]] = {name: [] for name in crews}
        models, plain = set(), list[float]()
        for _ in range(words.rounds):
            if words.steps is not None and not words.ranks:
                plain.append(one_process(parts, words))
            for name, crew in crews.items():
                counted, model = fit(crew, parts, words)
                bare, _ = fit(crew, tiny, words)
                if crew.curator:
                    models.add(model)
                    found[name].append(counted)
                    empty[name].append(bare[questions(words)[0]])
        if not any(found.values()):
            return
        print(f"{words.rows:,} rows x {words.dim}, {words.parts} parts, medians of {words.rounds}; ms a question")
        print(f"{len(models)} different model(s)")
        if plain:
            print(f"one process: fit {statistics.median(plain):.2f} s")
        table: list[Row] = []
        for name, rounds in found.items():
            workers = int(name.partition(" ")[0])
            middle = {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}
            shown = ", ".join(f"{key} {1000 * middle[key]:.1f} x {middle[f'{key}s']:.0f}" for key in questions(words))
            bare_ms = 1000 * statistics.median(empty[name])
            whole = Work()
            for key in questions(words):
                if not middle[f"{key}s"]:
                    continue
                work = needed(key, words) * middle[f"{key}, share"]
                whole += work * middle[f"{key}s"]
                if work != Work():
                    limit = (work * (1 / workers)).limit("ms")
                    table.append(figure(f"{name}: {key}", "ms/question", 1000 * middle[key], limit=limit))
            limit, alone = (whole * (1 / workers)).limit("s"), no_limit("messages between processes, and waiting")
            peer = {"peer_name": "one process", "peer": statistics.median(plain)} if plain else {}
            table.append(figure(f"{name}: fit", "s", middle["fit"], limit=limit, **peer))  # type: ignore[arg-type]
            table.append(figure(f"{name}: a question of no rows", "ms/question", bare_ms, limit=alone))
            print(f"{name:>10}: fit {middle['fit']:.2f} s; {shown}; a question of no rows {bare_ms:.2f}")
        show(table)


if __name__ == "__main__":
    main()
