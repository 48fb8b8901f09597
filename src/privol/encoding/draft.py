"""A first draft of a schema, derived from the data: you must confirm or replace every guess in it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from typing import Any

from .._validate import choice, integer
from ..errors import InvalidParameter, StreamError
from ..readers.columns import Columns, resolve_column
from ..readers.csv import CsvColumns
from ..readers.formats import FORMATS
from ..readers.open import Options, open_reader
from ..readers.parts import PartsColumns
from ..readers.written import is_number
from .labels import Labels
from .look import AMONG_NUMBERS, Look
from .toml import toml_text

__all__ = ["draft_schema"]

HEAD = """\
# DRAFT OF A SCHEMA, DERIVED FROM THE DATA: the first {rows:,} rows of {name}.
#
# A schema must be public knowledge. This draft was read off the rows, which are private: used unchanged, it discloses
# something about them, and the guarantee does not hold. Replace or confirm every range, level, label and number of
# buckets by what is known without the rows (a code book, a form, a law, a definition). Then remove the next line.
derived_from_data = true
"""
_THOUSANDS = re.compile(r"[+-]?\d{1,3},\d{3}")


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

    It looks at the first rows of private data, so neither the text nor what follows from it is private. While
    ``derived_from_data = true`` is in it, every guarantee under it carries a warning.

    Parameters
    ----------
    data : path, frame, sequence of dicts or Columns
        CSV, JSON lines, Parquet, Arrow, a frame or dicts, as for :func:`privol.open_stream`; only the first rows are
        read.
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
    columns = data
    if not isinstance(data, Columns):
        if format is not None:
            choice(tuple(FORMATS), format=format)
        told: dict[str, Any] = {"header": header, "sep": sep, "encoding": encoding, "format": format}
        columns = open_reader(data, Options(labels=Labels(None, None), target=target, columns=True, **told))
    if not isinstance(columns, Columns):
        raise InvalidParameter(f"{columns.name}: has no columns, needed is CSV, JSON lines, Parquet, Arrow or a frame")
    table = columns.sample(int(rows))
    if not table.num_rows:
        raise StreamError(f"{columns.name}: no rows, at least one is needed")
    if table.num_rows < rows and columns.facts.repeatable:
        columns.count()  # these are all the rows, or the file is damaged after them; counting tells
    at = resolve_column(target, columns.names if columns.named else None, len(columns.names), columns.name)
    cells = [_plain(table.column(name)) for name in columns.names]
    decimal = _decimal(cells, columns)
    # A label does not stand for a missing cell in another column either.
    goal = None if at is None else Look(columns.names[at], cells[at], decimal)
    labels = frozenset(map(str, () if goal is None or goal.numbers is not None else goal.values or ()))
    looks = [Look(name, cells[j], decimal, labels) for j, name in enumerate(columns.names) if j != at]
    markers = frozenset().union(*(look.markers for look in looks), () if goal is None else goal.markers)
    for look in looks:
        look.leave_out(markers)
    drafts = [look.draft() for look in looks]
    if all("drop = true" in text for text in drafts):
        drafts = [look.draft(keep=True) for look in looks]
        if all("drop = true" in text for text in drafts):
            raise StreamError(f"{columns.name}: no column, besides the target, holds numbers or texts to learn from")
    people = [look for look in looks if look.person]
    parts = [HEAD.format(rows=table.num_rows, name=_comment(columns.name))]
    if file := _file_table(columns, markers, decimal, encoding):
        parts.append(file)
    if goal is not None and at is not None:
        parts.append(goal.target(at))
    parts += [_user_hint(look) for look in people]
    return "\n".join((*parts, *drafts))


def _plain(column: Any) -> Any:
    """Return a column as integers, doubles, decimals or strings, or as a type that gives no feature."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_boolean(column.type):
        return pc.if_else(column, "true", "false")
    if pa.types.is_floating(column.type):
        return column.cast(pa.float64())
    if pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        return column.cast(pa.string())
    return column


def _decimal(cells: Iterable[Any], columns: Columns) -> str:
    """Return the decimal mark of the numbers that are written as text."""
    import pyarrow as pa

    first = columns.parts[0] if isinstance(columns, PartsColumns) else columns
    csv = isinstance(first, CsvColumns)
    if isinstance(first, CsvColumns) and first.sep == ",":
        return "."
    commas = False
    for column in cells:
        if pa.types.is_floating(column.type) and csv and column.null_count < len(column):
            return "."  # some numbers have points
        if pa.types.is_string(column.type):
            texts = set(map(str.strip, column.drop_null().unique().to_pylist())) - AMONG_NUMBERS - {""}
            if texts and all(is_number(text) for text in texts) and any("." in text for text in texts):
                return "."
            # Three digits after every comma are groups of thousands unless something else tells.
            sure = csv or any(not _THOUSANDS.fullmatch(text) for text in texts if "," in text)
            commas = commas or (sure and _commas(texts))
    return "," if commas else "."


def _commas(texts: Collection[str]) -> bool:
    """Whether texts are numbers with a decimal comma."""
    return any("," in text for text in texts) and all(is_number(text, ",") for text in texts)


def _file_table(columns: Columns, markers: frozenset[str], decimal: str, encoding: str | None) -> str:
    """Return the contents of [file], empty where there is nothing to say.

    It states what was inferred from the file, so that another file cannot be read differently.
    """
    parts = columns.parts if isinstance(columns, PartsColumns) else (columns,)
    lines = [] if parts[0].format is None else [f"format = {toml_text(parts[0].format)}"]
    seps = {part.sep for part in parts if isinstance(part, CsvColumns)}
    if seps:
        lines.append(f"header = {'true' if columns.named else 'false'}")
        lines += [f"sep = {toml_text(sep)}" for sep in seps if len(seps) == 1]
        lines += [] if encoding is None else [f"encoding = {toml_text(encoding)}"]
    if not columns.named:
        lines.append("# names = [...]  # here the columns may be given names, to be used below instead of numbers")
    if decimal != ".":
        lines.append(f"decimal = {toml_text(decimal)}")
    if markers:
        lines.append(f"missing = [{', '.join(map(toml_text, sorted(markers)))}]  # in every column")
    return "\n".join(("[file]", *lines, "")) if lines else ""


def _user_hint(look: Look) -> str:
    name = toml_text(look.name)
    return (
        f"# Does {name} say whose row it is ({look.distinct:,} different cells in {look.n:,} rows)?\n"
        "# Then a cap makes the guarantee one for persons:\n"
        f"# [user]\n# column = {name}\n# max_rows = 1\n"
    )


def _comment(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in os.fspath(text))
