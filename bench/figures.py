"""What every benchmark prints of a figure: beside it its aim, its peer and its limit, and how near it is to that.

A script keeps its figures as :class:`Row` and hands them to :func:`show`. None of the three may be left empty: what has
no aim, peer or limit says "none", and a limit that there is not says why. ``bench/all.py`` collects what its scripts
show in the file named by ``PRIVOL_BENCH_FIGURES``.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

#: The environment's variable that names the file to which :func:`show` appends figures, one a line.
COLLECTED = "PRIVOL_BENCH_FIGURES"
NONE = "none"


@dataclass(frozen=True)
class Limit:
    """What a figure cannot pass on this machine, in the figure's unit (NaN: none); `of`: what it consists of, or why
    there is none."""

    value: float
    of: str

    def __post_init__(self) -> None:
        if not self.of.strip():
            raise ValueError("a limit says what it consists of, or why there is none")
        if not (math.isnan(self.value) or 0.0 < self.value < math.inf):
            raise ValueError(f"a limit is positive and finite, or NaN for none: {self.value}")


def no_limit(reason: str) -> Limit:
    """Return the limit of a figure that has none, for this reason."""
    return Limit(math.nan, reason)


@dataclass(frozen=True)
class Row:
    """One figure. `ratio` tells how many times better than its peer privol is, whatever the unit; NaN without peer."""

    name: str
    unit: str
    privol: float
    peer: float
    ratio: float
    low: float
    high: float
    peer_name: str
    aim: str
    limit: Limit

    def __post_init__(self) -> None:
        for field in ("name", "unit", "peer_name", "aim"):
            if not getattr(self, field).strip():
                raise ValueError(f"{self.name or 'a figure'}: {field} is empty; what there is not is {NONE!r}")
        if not isinstance(self.limit, Limit):
            raise TypeError(f"{self.name}: limit must be a Limit, not {type(self.limit).__name__}")

    @property
    def reached(self) -> float:
        """The share of the limit that is reached: 1 at the limit, NaN without one."""
        if math.isnan(self.limit.value):
            return math.nan
        return self.privol / self.limit.value if more_is_better(self.unit) else self.limit.value / self.privol

    def told(self) -> dict[str, Any]:
        """Return the figure as JSON can have it: no NaN."""

        def plain(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: plain(each) for name, each in value.items()}
            return None if isinstance(value, float) and math.isnan(value) else value

        return {**plain(asdict(self)), "reached": plain(self.reached)}


def more_is_better(unit: str) -> bool:
    """Say whether a unit is that of a speed."""
    return unit.endswith("/s")


def figure(
    name: str,
    unit: str,
    privol: float,
    *,
    limit: Limit,
    aim: str = NONE,
    peer_name: str = NONE,
    peer: float = math.nan,
    ratios: Sequence[float] = (),
) -> Row:
    """Return a figure from medians; `ratios` of its rounds where there are some, else that of the two medians."""
    ratio = peer / privol if not more_is_better(unit) and not math.isnan(peer) else privol / peer
    spread = sorted(ratios) or [ratio]
    middle = ratio if not ratios else spread[len(spread) // 2]
    return Row(name, unit, privol, peer, middle, spread[0], spread[-1], peer_name, aim, limit)


def number(value: float) -> str:
    """Return a number with three or more figures, in at most ten characters; a dash for NaN."""
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def lines(rows: Sequence[Row]) -> list[str]:
    """Return the table, and below it what the limits consist of."""
    notes = {of: k for k, of in enumerate(dict.fromkeys(row.limit.of for row in rows), start=1)}
    wide = max((len(row.name) for row in rows), default=0)
    units = max((len(row.unit) for row in rows), default=0)
    table = [
        f"{'what':{wide}} {'unit':{units}} {'privol':>10} {'peer':>10} {'ratio':>7} {'range':>13} {'aim':>12} "
        f"{'limit':>10} {'reached':>8}       peer"
    ]
    for row in rows:
        span = "-" if math.isnan(row.low) else f"{number(row.low)}-{number(row.high)}"
        ratio = "-" if math.isnan(row.ratio) else f"{row.ratio:.2f}x"
        limit = NONE if math.isnan(row.limit.value) else number(row.limit.value)
        share = 100 * row.reached
        reached = "-" if math.isnan(share) else f"{share:.0f} %" if share >= 9.95 else f"{share:.2g} %"
        figures = f"{number(row.privol):>10} {number(row.peer):>10} {ratio:>7} {span:>13} {row.aim:>12} {limit:>10}"
        note = f"[{notes[row.limit.of]}]"
        table.append(f"{row.name:{wide}} {row.unit:{units}} {figures} {reached:>8} {note:>5} {row.peer_name}")
    return [*table, "limits:", *(f"[{k}] {of}" for of, k in notes.items())]


def show(rows: Sequence[Row], title: str = "") -> None:
    """Print figures beside aim, peer and limit, and add them to the file that ``bench/all.py`` collects."""
    title = title or "beside aim, peer and limit; ratio: how many times as good as the peer"
    print("", title, *lines(rows), sep="\n", flush=True)
    if COLLECTED in os.environ:
        with open(os.environ[COLLECTED], "a", encoding="utf-8") as file:
            file.writelines(json.dumps(row.told()) + "\n" for row in rows)


def written(path: Path, rows: Sequence[Row], **more: Any) -> None:
    """Write figures to a file as JSON, with whatever else there is."""
    path.write_text(json.dumps({**more, "ratios": [row.told() for row in rows]}, indent=1), encoding="utf-8")
