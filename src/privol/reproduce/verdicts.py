"""A figure of a paper, what was measured for it, and whether the two agree."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidParameter

__all__ = [
    "Check",
    "Figure",
    "Line",
    "Measured",
    "Panel",
    "Result",
    "Setting",
    "Table",
    "against",
    "index_table",
    "shown",
    "trend",
]

FloatArray = NDArray[np.float64]
SAID = 3  # at most this many failed statements appear in one line; the page has all of them


def shown(values: Sequence[float], digits: int = 3) -> str:
    """Return mean and deviation, the mean with ``digits`` significant digits, more if the deviation needs them."""
    mean = statistics.mean(values)
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    places = 0
    if mean != 0.0:
        places = max(places, digits - 1 - math.floor(math.log10(abs(mean))))
    if spread > 0.0:
        places = max(places, -math.floor(math.log10(spread)))
    return f"{mean:.{places}f}" + (f" ± {spread:.{places}f}" if len(values) > 1 else "")


@dataclass(frozen=True)
class Check:
    """One statement of a paper beside what was measured.

    Attributes
    ----------
    what : str
        Which number, or the statement in words.
    agrees : bool
    measured : str
        Mean and standard deviation over the runs, or what was found of the statement.
    source : float or None
        The number as the paper has it; None for a statement in words.
    tolerance : float or None
        How far the mean may be from it, in its unit; two standard errors of the mean are added.
    """

    what: str
    agrees: bool
    measured: str
    source: float | None = None
    tolerance: float | None = None


def against(what: str, source: float, values: Sequence[float], tolerance: float) -> Check:
    """Compare the mean of several runs with a number from the paper."""
    mean = statistics.mean(values)
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return Check(what, bool(abs(mean - source) <= tolerance + 2.0 * error), shown(values), source, tolerance)


def trend(what: str, holds: bool, found: str) -> Check:
    """Check a statement that the paper makes in words."""
    return Check(what, bool(holds), found)


@dataclass(frozen=True)
class Line:
    """A curve: measured values, a computed bound, or the values that the paper prints."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    spread: tuple[float, ...] | None = None
    kind: Literal["measured", "bound", "source"] = "measured"

    @classmethod
    def of(
        cls, label: str, x: Sequence[float] | FloatArray, runs: Sequence[Sequence[float]] | Sequence[FloatArray]
    ) -> Line:
        """Return means and standard deviations; ``runs`` has the values of each point."""
        spread = tuple(float(np.std(values, ddof=1)) for values in runs) if len(runs[0]) > 1 else None
        return cls(label, tuple(map(float, x)), tuple(float(np.mean(values)) for values in runs), spread)


@dataclass(frozen=True)
class Panel:
    """Curves in one pair of axes; with ``names``, single named points at 0, 1, ..."""

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]
    log_x: bool = True
    log_y: bool = True
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """Cells as text."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> list[str]:
        """Return the lines of the table."""
        lines = [f"| {' | '.join(cells)} |" for cells in (self.head, ["---"] * len(self.head), *self.rows)]
        return [*([f"{self.title}:", ""] if self.title else []), *lines, ""]


@dataclass(frozen=True)
class Measured:
    """The result of a figure's function."""

    tables: tuple[Table, ...] = ()
    panels: tuple[Panel, ...] = ()
    checks: tuple[Check, ...] = ()

    def of_small_size(self) -> Measured:
        """Return the result without the paper's values: a small run is not compared with anything."""
        panels = tuple(
            replace(panel, lines=tuple(line for line in panel.lines if line.kind != "source")) for panel in self.panels
        )
        return Measured(self.tables, panels)


@dataclass(frozen=True)
class Setting:
    """How a figure is to be measured.

    Attributes
    ----------
    runs : int
        Repetitions with noise of their own.
    quick : bool
        A small size, on rows that come with privol or are drawn.
    data : Path or None
        Folder of the data sets.
    say : callable
        Takes what is to be shown of the progress.
    """

    runs: int
    quick: bool = False
    data: Path | None = None
    say: Callable[[str], None] = field(default=lambda _: None, repr=False)

    @property
    def folder(self) -> Path:
        """The folder of the data sets.

        Raises
        ------
        InvalidParameter
            If none was given.
        """
        if self.data is None:
            raise InvalidParameter("this figure needs a folder of data sets, and none was given")
        return self.data


@dataclass(frozen=True)
class Figure:
    """A table or figure of a paper.

    Attributes
    ----------
    paper : str
        Key of ``PAPERS``.
    number : str
        As the paper has it, such as "fig. 2a".
    what : str
    size : str
        What is measured, where it is no small size.
    runs : int
        Repetitions by default.
    minutes : float
        On one processor, about.
    measure : callable
        From a :class:`Setting` to a :class:`Measured`.
    files : tuple of str
        Data sets that it needs; keys of ``sets.WHERE``. A small size needs none.
    chosen : str
        What the paper does not say and had to be chosen here.
    why : str
        Known reasons why it differs; of where it agrees, what that is worth.
    """

    paper: str
    number: str
    what: str
    size: str
    runs: int
    minutes: float
    measure: Callable[[Setting], Measured]
    files: tuple[str, ...] = ()
    chosen: str = ""
    why: str = ""

    @property
    def name(self) -> str:
        """Paper and number, such as "jain2012 fig. 2a"."""
        return f"{self.paper} {self.number}"

    @property
    def slug(self) -> str:
        """The name as a file name."""
        return slug(self.name)


def slug(name: str) -> str:
    """Return a name with a single hyphen for each run of characters that are not letters or digits."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


@dataclass(frozen=True)
class Result:
    """A figure that was measured. Not private.

    Attributes
    ----------
    figure : Figure
    measured : Measured
    runs : int
    quick : bool
    seconds : float
    version : str
        Of privol.
    """

    figure: Figure
    measured: Measured
    runs: int
    quick: bool
    seconds: float
    version: str

    @property
    def file(self) -> str:
        """Name of its files without the suffix; a small run has another, so that it replaces no full result."""
        return self.figure.slug + ("-quick" if self.quick else "")

    @property
    def verdict(self) -> str:
        """ "agrees", "differs", or "not compared" for a small run."""
        if self.quick or not self.measured.checks:
            return "not compared"
        return "agrees" if all(check.agrees for check in self.measured.checks) else "differs"

    @property
    def how(self) -> str:
        """The differences, or how much was compared."""
        checks = self.measured.checks
        if self.quick:
            return "a small size, on rows that come with privol or are drawn; the paper's figures are of full size"
        wrong = [check for check in checks if not check.agrees]
        if not wrong:
            return "the one statement" if len(checks) == 1 else f"all {len(checks)} statements"
        said = [
            f"{check.what}: {check.measured}" + ("" if check.source is None else f" (paper: {check.source:g})")
            for check in wrong[:SAID]
        ]
        if len(wrong) > SAID:
            said.append(f"and {len(wrong) - SAID} more")
        return f"{len(wrong)} of {len(checks)}: " + "; ".join(said)

    def to_record(self) -> dict[str, Any]:
        """Return JSON values."""
        figure = self.figure
        record: dict[str, Any] = {
            "name": figure.name,
            "paper": figure.paper,
            "number": figure.number,
            "file": self.file,
            "what": figure.what,
            "size": "a small size" if self.quick else figure.size,
            "quick": self.quick,
            "runs": self.runs,
            "verdict": self.verdict,
            "how": self.how,
            "why": "" if self.quick else figure.why,
            "chosen": figure.chosen,
            "seconds": round(self.seconds, 1),
            "version": self.version,
            "private": False,
        }
        return record | asdict(self.measured)

    def to_markdown(self, picture: str | None) -> str:
        """Return the page in Markdown; ``picture`` is the file name of its picture."""
        figure = self.figure
        size = "A small size, and so compared with nothing" if self.quick else figure.size
        lines = [f"# {figure.name}: {figure.what}", "", f"**{self.verdict}**: {self.how}.", ""]
        if figure.why and not self.quick:
            lines += [figure.why, ""]
        lines += [f"{size}. {self.runs} run{'s' if self.runs > 1 else ''} with noise of their own. Not private.", ""]
        if figure.chosen:
            lines += [f"Chosen here, as the paper does not say it: {figure.chosen}", ""]
        if self.measured.checks:
            rows = tuple(
                (
                    check.what,
                    "" if check.source is None else f"{check.source:.5g}",
                    check.measured,
                    "" if check.tolerance is None else f"{check.tolerance:.2g}",
                    "agrees" if check.agrees else "differs",
                )
                for check in self.measured.checks
            )
            lines += Table("The paper beside what was measured", ("statement", "paper", "measured", "tolerance", ""),
                           rows).markdown()  # fmt: skip
        for table in self.measured.tables:
            lines += table.markdown()
        if picture is not None:
            lines += [f"![{figure.what}]({picture})", ""]
        return "\n".join(lines)


def index_table(records: Sequence[Mapping[str, Any]], *, links: bool) -> list[str]:
    """Return a table from paper to command to result.

    Parameters
    ----------
    records : sequence of mapping
        :meth:`Result.to_record`.
    links : bool
        Whether the pages of the results are beside the table.
    """
    rows = []
    for record in records:
        name = f"[{record['name']}]({record['file']}.md)" if links else record["name"]
        command = f"`privol reproduce {slug(record['name'])}{' --quick' if record['quick'] else ''}`"
        rows.append((name, record["what"], command, f"**{record['verdict']}**", record["how"], record["why"]))
    return Table("", ("figure", "what", "command", "verdict", "how", "why"), tuple(rows)).markdown()
