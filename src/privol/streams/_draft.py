"""A first draft of a schema, read off the data: a list of questions, not yet something to be trusted."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from .._validate import integer
from ..errors import StreamError
from ._columns import Columns, resolve_column
from ._csv import CsvColumns
from ._json import JsonColumns
from ._open import open_columns
from ._parquet import IpcFileColumns, IpcStreamColumns, ParquetColumns
from ._parts import PartsColumns
from ._schema_parts import MISSING, UNKNOWN

__all__ = ["draft_schema"]

HEAD = """\
# DRAFT OF A SCHEMA, DERIVED FROM THE DATA: the first {rows:,} rows of {name}.
#
# A schema must be public knowledge. What stands here was read off the rows, which are private: used as it is, it gives
# away something of them, and the guarantee does not hold. Replace or confirm every range, level, label and number of
# buckets from what is known without the rows (a code book, a form, a law, a definition); then take out the next line.
derived_from_data = true
"""
_FORMATS: dict[type[Columns], str] = {
    CsvColumns: "csv",
    JsonColumns: "jsonl",
    ParquetColumns: "parquet",
    IpcFileColumns: "arrow",
    IpcStreamColumns: "arrow",
}
# Cells that mean "missing" wherever they stand, and those that do in a column which else holds numbers.
_ALWAYS = frozenset({"?"})
_AMONG_NUMBERS = frozenset({"?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "-", "."})
_PERSON = re.compile(
    r"(^|[^a-z])(user|person|patient|customer|client|member|subject|account|household|device)|(^|[^a-z])u?id$|_nbr$"
)
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+(,\d+)?")
MAX_LEVELS = 50
MAX_INTEGER_LEVELS = 12
# Fewer rows say nothing about whether a column's cells are different in every row.
_ENOUGH = 50


def draft_schema(
    data: Any,
    *,
    target: str | int | bool | None = None,
    rows: int = 100_000,
    header: bool | None = None,
    sep: str | None = None,
    encoding: str | None = None,
    format: str | None = None,
) -> str:
    """Return a draft of a schema for a table, as TOML text with comments.

    It looks at the first rows of private data, so neither the text nor what follows from it is private:
    ``derived_from_data = true`` in it makes every guarantee under it carry a warning until it is taken out.

    Parameters
    ----------
    data : path, frame or Columns
        CSV, JSON lines, Parquet, Arrow or a frame, as for :func:`privol.open_stream`; only its first rows are read.
    target : str, int, None or False
        Column of the target; None is the last, False none.
    rows : int, default 100,000
        How many rows to look at, at least 1.
    header, sep, encoding, format
        As for :func:`privol.open_stream`.

    Raises
    ------
    StreamError
        If the data cannot be read or hold no rows.
    """
    integer(rows=rows, at_least=1)
    columns: Columns = (
        data
        if isinstance(data, Columns)
        else open_columns(data, target=target, header=header, sep=sep, encoding=encoding, format=format)
    )
    table = columns.sample(int(rows))
    if not table.num_rows:
        raise StreamError(f"{columns.name}: no rows, at least one is needed")
    at = resolve_column(target, columns.names if columns.named else None, len(columns.names), columns.name)
    looks = [_Look(name, table.column(name), comma=_may_have_commas(columns)) for name in columns.names]
    if any(look.comma for look in looks) and any(look.points for look in looks):  # a file has one or the other
        looks = [_Look(name, table.column(name)) for name in columns.names]
    goal = None if at is None else looks.pop(at)
    drafts = [look.draft() for look in looks]
    if all("drop = true" in text for text in drafts):
        drafts = [look.draft(keep=True) for look in looks]
    people = [look for look in looks if look.person]
    parts = [HEAD.format(rows=table.num_rows, name=_comment(columns.name))]
    seen = looks if goal is None else [*looks, goal]
    if file := _file_table(columns, seen, encoding):
        parts.append(file)
    if goal is not None:
        parts.append(goal.target())
    parts += [_user_hint(look) for look in people]
    return "\n".join((*parts, *drafts))


def _may_have_commas(columns: Columns) -> bool:
    """Whether a comma may be a decimal point: in CSV whose columns are separated by something else."""
    parts = columns.parts if isinstance(columns, PartsColumns) else (columns,)
    return all(isinstance(part, CsvColumns) and part.sep != "," for part in parts)


def _file_table(columns: Columns, looks: Iterable[_Look], encoding: str | None) -> str:
    """Return what stands under [file], or nothing where there is nothing to say.

    What was told from the file is stated, so that another file cannot be understood in another way.
    """
    parts = columns.parts if isinstance(columns, PartsColumns) else (columns,)
    lines = [f"format = {_text(name)}" for kind, name in _FORMATS.items() if isinstance(parts[0], kind)]
    seps = {part.sep for part in parts if isinstance(part, CsvColumns)}
    if seps:
        lines.append(f"header = {'true' if columns.named else 'false'}")
        lines += [f"sep = {_text(sep)}" for sep in seps if len(seps) == 1]
        lines += [] if encoding is None else [f"encoding = {_text(encoding)}"]
    if commas := [_comment(look.name) for look in looks if look.comma]:
        lines.append(f'decimal = ","  # in {", ".join(commas[:3])}{", ..." if len(commas) > 3 else ""}')
    if not columns.named:
        lines.append("# names = [...]  # here the columns may be given names, to be used below instead of numbers")
    if markers := sorted(set().union(*(look.markers for look in looks))):
        lines.append(f"missing = [{', '.join(map(_text, markers))}]  # in every column of text")
    return "\n".join(("[file]", *lines, "")) if lines else ""


def _user_hint(look: _Look) -> str:
    name = _text(look.name)
    return (
        f"# Does {name} say whose row it is ({look.distinct:,} different cells in {look.n:,} rows)?\n"
        "# Then a cap makes the guarantee one for persons:\n"
        f"# [user]\n# column = {name}\n# max_rows = 1\n"
    )


class _Look:
    """What the first rows show of one column."""

    def __init__(self, name: str, column: Any, comma: bool = False) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        self.name = name
        self.n = len(column)
        self.markers: frozenset[str] = frozenset()
        self.values: Any = None  # distinct cells, without missing ones
        self.counts: Any = None
        self.numbers: Any = None  # all cells as float64, if they are numbers
        self.integers = False
        self.comma = False  # whether its decimal point is a comma, if it may be
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_boolean(column.type):
            column = pc.if_else(column, "true", "false")
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            self._see_numbers(column)
        elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            self._see_texts(pc.utf8_trim_whitespace(column), comma)
        self.points = self.numbers is not None and not self.comma and not self.integers
        self.filled = 0 if self.values is None else int(sum(self.counts))
        self.distinct = 0 if self.values is None else len(self.values)
        # More cells than levels have, yet several rows each.
        many = self.distinct > MAX_LEVELS and self.filled < self.n * 1.01
        self.unique = self.filled >= _ENOUGH and self.distinct >= 0.98 * self.filled
        self.unique = self.unique and (self.numbers is None or self.integers)
        kind = self.values is not None and (self.numbers is None or self.integers)
        self.person = bool(kind and many and not self.unique and _PERSON.search(name.lower()))

    def _see_numbers(self, column: Any) -> None:
        import pyarrow as pa

        self.numbers = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        finite = self.numbers[np.isfinite(self.numbers)]
        if finite.size:
            self.values, self.counts = np.unique(finite, return_counts=True)
            self.integers = bool((finite == np.floor(finite)).all())

    def _see_texts(self, column: Any, comma: bool) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        found = pc.value_counts(column)
        counts = dict(zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True))
        texts = {text: n for text, n in counts.items() if text}
        rest = [text for text in texts if text not in _AMONG_NUMBERS]
        self.comma = comma and any("," in text for text in rest) and all(map(_DECIMAL_COMMA.fullmatch, rest))
        if self.comma or (rest and len(rest) < len(texts) and all(map(_is_number, rest))):
            self.markers = frozenset(texts) & _AMONG_NUMBERS
            cells = pc.if_else(pc.is_in(column, value_set=pa.array(rest, column.type)), column, None)
            cells = pc.replace_substring(cells, ",", ".") if self.comma else cells
            self._see_numbers(cells.cast(pa.float64()))
            return
        self.markers = frozenset(texts) & _ALWAYS
        kept = sorted(text for text in texts if text not in _ALWAYS)
        if kept:
            self.values, self.counts = kept, [texts[text] for text in kept]

    def draft(self, keep: bool = False) -> str:
        """Return the column's table; ``keep`` drafts a feature even of what looks like a running number."""
        head = f"[columns.{_key(self.name)}]\n"
        shown = f"{self.distinct:,} different cells"
        if self.values is None:
            return head + "drop = true  # no cell that is a number or a text\n"
        if self.person and not keep:
            return head + f"drop = true  # {shown}; names persons?\n"
        if self.unique and not keep:
            return head + f"drop = true  # {shown} in {self.filled:,} rows: a running number or a name?\n"
        if self.numbers is not None:
            return head + self._number_draft()
        levels = [text for text in self.values if text not in (MISSING, UNKNOWN)]
        if levels and len(levels) <= MAX_LEVELS:
            return head + f"levels = {_listed(map(_text, levels))}\n"
        buckets = min(max(64, 1 << math.ceil(math.log2(max(self.distinct, 2)))), 4096)
        return head + f"hash = {buckets}  # {shown}; or levels, if there is a public list of them\n"

    def _number_draft(self) -> str:
        low, high = _outwards(float(self.values[0]), float(self.values[-1]))
        bounds = f"[{_number(low)}, {_number(high)}]"
        missing = 'missing = "indicator"  # some cells are missing\n' if self.filled < self.n else ""
        if self.integers and set(self.values) <= {0.0, 1.0}:
            return f"range = [0, 1]\nonto = [0, 1]\n{missing}"
        if self.integers and self.distinct <= MAX_INTEGER_LEVELS:
            return f"levels = {_listed(map(_number, self.values))}  # or, if more means more: range = {bounds}\n"
        middle = float(np.median(self.numbers[np.isfinite(self.numbers)]))
        log = "" if middle - low > 0.02 * (high - low) else '# scaling = "log"  # most cells are near the lower end\n'
        return f"range = {bounds}\n{log}{missing}"

    def target(self) -> str:
        """Return the table of the target."""
        head = f"[target]\ncolumn = {_text(self.name)}\n"
        if self.values is None:
            raise StreamError(f"the target {self.name!r} has no cell that is a number or a text, name another column")
        shown = [_number(v) if self.numbers is not None else _text(v) for v in self.values]
        few = self.distinct <= (20 if self.numbers is None or self.integers else 2)
        if self.numbers is not None and not few:
            low, high = _outwards(float(self.values[0]), float(self.values[-1]))
            return head + f"range = [{_number(low)}, {_number(high)}]\n"
        if self.distinct == 2:
            return head + f"negative = [{shown[0]}]\npositive = [{shown[1]}]  # is this the positive one?\n"
        listed = ", ".join(shown[:20]) + (", ..." if len(shown) > 20 else "")
        return head + f'positive = [{shown[-1]}]  # which, of {listed}?\nrest = "negative"\n'


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _outwards(low: float, high: float) -> tuple[float, float]:
    """Return a range of round numbers around two numbers."""
    span = high / 2 - low / 2
    if span <= 0.0:
        span = max(abs(low), 1.0)
        low, high = low - span, high + span
    power = math.floor(math.log10(span))
    step = 10.0**power
    # Rounded again, since 6 times 0.1 is not 0.6.
    first, last = (round(math.floor(low / step) * step, -power), round(math.ceil(high / step) * step, -power))
    if low >= 0.0 and first < 0.4 * span:
        first = 0.0
    # Beyond the largest double, or no range after rounding: as they are.
    if not (math.isfinite(first) and math.isfinite(last) and first < last):
        return low, high
    return first, last


def _number(x: float) -> str:
    """Write a finite number as TOML."""
    text = f"{x:.12g}"
    return text if float(text) == x else repr(float(x))


def _text(text: str) -> str:
    """Write a basic string of TOML: JSON's escapes are TOML's, but for one character more."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _comment(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in os.fspath(text))


def _listed(items: Iterable[str]) -> str:
    """Write an array, in lines of at most 120 characters where it is long."""
    items = list(items)
    line = f"[{', '.join(items)}]"
    if len(line) <= 80:
        return line
    lines, current = [], "   "
    for item in items:
        if len(current) + len(item) + 2 > 118 and current.strip():
            lines.append(current)
            current = "   "
        current += f" {item},"
    return "[\n" + "\n".join((*lines, current)) + "\n]"
