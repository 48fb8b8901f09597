"""The tables of an arena in Markdown, and the shares in tables and plot. Not private."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from ..learners import LEARNERS
from .central import CENTRAL
from .contest import OTHERS
from .figures import headline
from .results import Key, Results

__all__ = ["NOTICE", "TITLES", "Board"]

NOTICE = "NOT PRIVATE: computed from the rows of the streams and covered by no guarantee; do not publish"
#: What the tables call entrants that are not privol's.
TITLES = {
    "sgd": "scikit-learn SGD, best of a grid",
    "sgd-default": "scikit-learn SGD, its defaults",
    "river": "River",
    "linear": "offline linear",
    "trees": "offline trees",
    "dp-sgd": "DP-SGD, best of a grid",
    "diffprivlib": "diffprivlib",
}
_PARTS = {"second_half": "Second half", "held_out": "Rows after the end", "all": "All rows that nobody's encoding saw"}
_CHANCE = {"auc": 0.5, "r2": 0.0}
_LEAST_REFERENCE = 0.02  # above chance: with less, a share is a ratio of two random errors


class Board:
    """The results of an arena, put side by side.

    Parameters
    ----------
    results : Results
    streams : iterable of str, optional
        Which, in which order. Default: all.
    """

    def __init__(self, results: Results, streams: Iterable[str] | None = None) -> None:
        self._about = results.streams
        self.streams = list(results.streams if streams is None else streams)
        self._runs: dict[tuple[str, str, float | None], list[dict[str, Any]]] = defaultdict(list)
        for key in sorted(results.records, key=_order):
            if key.stream in self.streams:
                self._runs[key.stream, key.entrant, key.epsilon].append(results.records[key])
        self.epsilons = sorted({key[2] for key in self._runs if key[2] is not None})
        known = {key[1] for key in self._runs}
        self.rivals = [name for name in OTHERS if OTHERS[name] == "rival" and name in known]
        self.private = [*(name for name in CENTRAL if name in known), *self.rivals]
        self.references = [name for name in OTHERS if OTHERS[name] != "rival" and name in known]
        done = [(key[1], run) for key, runs in self._runs.items() for run in runs if run["status"] == "done"]
        # their only model comes after the last row, so they have no figures along the way, not even those of chance
        self._late = {name for name, _ in done} - {name for name, run in done if run["figures"]["all"]}

    # ---- figures -------------------------------------------------------------------------------------------------

    def figure(self, stream: str) -> str:
        """Return the name of a stream's figure of merit: "auc" or "r2"."""
        (rows, *_) = self._about[stream]["rows"].values()
        return headline(not rows["classes"])

    def values(self, stream: str, entrant: str, epsilon: float | None, part: str, name: str) -> list[float]:
        """Return a figure for all seeds; a run without a model counts as chance, where chance is known."""
        found = []
        for record in self._runs.get((stream, entrant, epsilon), ()):
            if record["status"] == "no model" and name in _CHANCE:
                if part == "held_out" or entrant not in self._late:
                    found.append(_CHANCE[name])
            elif record["status"] == "done" and record["figures"][part].get(name) is not None:
                found.append(record["figures"][part][name])
        return found

    def reference(self, stream: str, part: str) -> float | None:
        """Return the figure of the best online linear model without privacy; None if none is above chance."""
        name = self.figure(stream)
        found = [
            statistics.mean(values)
            for entrant in self.references
            if OTHERS[entrant] == "online" and (values := self.values(stream, entrant, None, part, name))
        ]
        return max(found) if found and max(found) - _CHANCE[name] > _LEAST_REFERENCE else None

    def share(self, stream: str, entrant: str, epsilon: float, part: str) -> float | None:
        """Return the mean share kept: what is above chance, relative to the reference."""
        name, best = self.figure(stream), self.reference(stream, part)
        values = self.values(stream, entrant, epsilon, part, name)
        if best is None or not values:
            return None
        return (statistics.mean(values) - _CHANCE[name]) / (best - _CHANCE[name])

    def shares(self, entrant: str, epsilon: float, part: str, *, seen: str | None = None) -> list[float]:
        """Return the shares kept on all streams, or on those with which ``seen`` was chosen ("": nothing was)."""
        streams = [name for name in self.streams if seen is None or self._about[name]["seen"] == seen]
        found = (self.share(stream, entrant, epsilon, part) for stream in streams)
        return [share for share in found if share is not None]

    # ---- tables --------------------------------------------------------------------------------------------------

    def lines(self, *, whole: bool = True) -> list[str]:
        """Return all tables in Markdown; without ``whole``, those of log-loss, accuracy and all rows are left out."""
        parts = _PARTS if whole else [part for part in _PARTS if part != "all"]
        lines = [*self.kept(), "", "Without privacy:", "", *self._without(), ""]
        for part in parts:
            lines += [f"{_PARTS[part]}, AUC (of real targets R2) and share kept:", "", *self._figures(part), ""]
        for part in parts if whole else ["second_half"]:
            lines += [f"{_PARTS[part]}, log-loss and accuracy:", "", *self._losses(part), ""]
        lines += ["Rows per second, learning and predicting, one thread:", "", *self._speed()]
        if reasons := self._reasons():
            lines += ["", "Without figures:", "", *reasons]
        return lines

    def kept(self) -> list[str]:
        """Return the tables of the shares kept, in Markdown."""
        lines: list[str] = []
        for seen in self.seen:
            said = (
                f"Share kept, median over the streams with which privol chose {seen or 'nothing'} (how many take part):"
            )
            lines += [*([""] if lines else []), said, "", *self._kept(seen)]
        return lines

    @property
    def seen(self) -> list[str]:
        """The use of each stream; unused streams come first."""
        return sorted({self._about[name]["seen"] for name in self.streams})

    def _without(self) -> list[str]:
        titles = [TITLES[name] for name in self.references]
        parts = [("second_half", name) for name in self.references if OTHERS[name] == "online"]
        parts += [("held_out", name) for name in self.references]
        head = ["stream", "learnt", "held out", "what privol chose with it", "figure"]
        head += [f"{titles[self.references.index(name)]}: {_PARTS[part].lower()}" for part, name in parts]
        rows = []
        for stream in self.streams:
            about = self._about[stream]
            (cut, *_) = about["rows"].values()
            name = self.figure(stream)
            cells = [shown(self.values(stream, entrant, None, part, name)) for part, entrant in parts]
            words = [stream, f"{cut['rows']:,}", f"{cut['held']:,}", about["seen"] or "nothing"]
            rows.append([*words, {"auc": "AUC", "r2": "R2"}[name], *cells])
        return table(head, rows)

    def _kept(self, seen: str) -> list[str]:
        rows = []
        for part in ("second_half", "held_out"):
            for epsilon in self.epsilons:
                cells = []
                for entrant in self.private:
                    found = self.shares(entrant, epsilon, part, seen=seen)
                    cells.append(f"{percent(statistics.median(found))} ({len(found)})" if found else "")
                rows.append([_PARTS[part].lower(), f"{epsilon:g}", *cells])
        return table(["rows", "epsilon", *map(_title, self.private)], rows, fixed=2)

    def _figures(self, part: str) -> list[str]:
        def cell(stream: str, entrant: str, epsilon: float) -> str:
            found = shown(self.values(stream, entrant, epsilon, part, self.figure(stream)))
            share = self.share(stream, entrant, epsilon, part)
            return found if share is None else f"{found}, {percent(share)}"

        return self._by_stream(cell)

    def _losses(self, part: str) -> list[str]:
        def cell(stream: str, entrant: str, epsilon: float) -> str:
            losses, right = (
                shown(self.values(stream, entrant, epsilon, part, name)) for name in ("log_loss", "accuracy")
            )
            return f"{losses}; {right}" if losses else ""

        return self._by_stream(cell, [name for name in self.streams if self.figure(name) == "auc"])

    def _by_stream(self, cell: Any, streams: Sequence[str] | None = None) -> list[str]:
        rows = [
            [stream, f"{epsilon:g}", *(cell(stream, entrant, epsilon) for entrant in self.private)]
            for stream in (self.streams if streams is None else streams)
            for epsilon in self.epsilons
        ]
        return table(["stream", "epsilon", *map(_title, self.private)], rows, fixed=2)

    def _speed(self) -> list[str]:
        rows = []
        for entrant in (*self.private, *self.references):
            runs = [run for key, found in self._runs.items() if key[1] == entrant for run in found]
            rates = [run["rows_per_second"] for run in runs if run["status"] == "done"]
            if rates:
                rows.append([_title(entrant), *(_rounded(f(rates)) for f in (statistics.median, min, max))])
        return table(["who", "median", "least", "most"], rows)

    def _reasons(self) -> list[str]:
        """Which entrants lack figures where, and why; runs with the same reason are grouped."""
        found: dict[tuple[str, str], list[tuple[str, str, float | None]]] = defaultdict(list)
        for (stream, entrant, epsilon), runs in self._runs.items():
            for run in runs:
                if run["status"] != "done":
                    reason = run["reason"]
                    if entrant in LEARNERS:  # several learners give the same reason
                        reason = reason.removeprefix(f"{LEARNERS[entrant].__name__} ")
                    found[run["status"], reason].append((_title(entrant), stream, epsilon))
        rows = []
        for (status, reason), where in found.items():
            who, streams = (", ".join(dict.fromkeys(words)) for words in ([w[0] for w in where], [w[1] for w in where]))
            epsilons = ", ".join(f"{epsilon:g}" for epsilon in sorted({e for *_, e in where if e is not None}))
            rows.append([who, status, streams, epsilons, str(len(where)), reason.replace("|", "/")])
        return table(["who", "what", "streams", "epsilon", "runs", "why"], rows) if rows else []

    def failed(self) -> int:
        """Return how many runs failed."""
        return sum(run["status"] == "failed" for runs in self._runs.values() for run in runs)

    def to_record(self) -> dict[str, Any]:
        """Return medians of the shares as JSON values, marked as not private."""
        kept = [
            {
                "part": part,
                "entrant": entrant,
                "epsilon": "inf" if math.isinf(epsilon) else epsilon,
                "seen": seen,
                "streams": len(found),
                "median_share": statistics.median(found),
            }
            for part in _PARTS
            for entrant in self.private
            for epsilon in self.epsilons
            for seen in self.seen
            if (found := self.shares(entrant, epsilon, part, seen=seen))
        ]
        return {"private": False, "notice": NOTICE, "streams": self.streams, "kept": kept, "failed": self.failed()}

    def curves(self) -> dict[str, dict[str, list[tuple[float, float]]]]:
        """Return (epsilon, median share over the streams) by part of the rows and by title of the entrant."""
        return {
            _PARTS[part]: {
                _title(entrant): line
                for entrant in self.private
                if (
                    line := [
                        (epsilon, statistics.median(found))
                        for epsilon in self.epsilons
                        if (found := self.shares(entrant, epsilon, part))
                    ]
                )
            }
            for part in ("second_half", "held_out")
        }


def _order(key: Key) -> tuple[str, str, float, int]:
    return key.stream, key.entrant, -1.0 if key.epsilon is None else key.epsilon, key.seed


def _title(entrant: str) -> str:
    return TITLES.get(entrant, entrant)


def percent(share: float) -> str:
    """Return a share in percent; far below chance, only a bound."""
    return f"{round(100.0 * share)} %" if share > -9.995 else "below -999 %"


def _rounded(rate: float) -> str:
    return f"{float(f'{rate:.2g}'):,.0f}"


def shown(values: Sequence[float]) -> str:
    """Return mean and deviation with three digits, or as many as the deviation needs; empty without values."""
    if not values:
        return ""
    mean = statistics.mean(values)
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    places = 3 if abs(mean) < 10 else 1
    return f"{mean:.{places}f}" + (f" ± {spread:.{places}f}" if len(values) > 1 else "")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, fixed: int | None = None) -> list[str]:
    """Return a table in Markdown; from column ``fixed`` on, empty columns are left out."""
    if fixed is not None:
        kept = [j for j in range(len(head)) if j < fixed or any(row[j] for row in rows)]
        head, rows = [head[j] for j in kept], [[row[j] for j in kept] for row in rows]
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
