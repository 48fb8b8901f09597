"""Rows of a table under a schema, which is stated or learnt from them, with its delay and its cap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..encoding.cells import CountedSource
from ..encoding.encode import SchemaEncoder, UserEncoder
from ..encoding.frequent import FrequentSource
from ..encoding.labels import Labels
from ..encoding.rest import RestOfColumns
from ..encoding.rows import ColumnSource
from ..encoding.schema import Schema
from ..encoding.streaming import StreamEncoder
from ..readers.base import Source
from ..readers.columns import Columns
from ._capped import capped_by, counted
from ._delays import DelayedSource
from ._first import FirstOfColumns
from ._users import CappedSource

__all__ = ["declared_by", "encoded_rows", "encoded_source", "learnt_source", "schema_source"]


def schema_source(
    schema: Schema, columns: Columns, *, target: bool = True, count_cells: bool = False
) -> tuple[Source, SchemaEncoder]:
    """Return the rows of a table as a schema says, with its delay and its cap, and their encoder.

    With both, labels are joined first and the cap counts the rows that are learnt, or become null rows: a user whose
    rows never get their label does not use up the cap, and rows that only bring labels do not count.

    Parameters
    ----------
    schema : Schema
    columns : Columns
    target : bool, default True
        False gives every row without target, cap and delay, as for prediction.
    count_cells : bool, default False
        Whether iterations fill :attr:`Source.cells`.
    """
    encoder = SchemaEncoder(schema, columns, target=target)
    source: Source = (CountedSource if count_cells else ColumnSource)(columns, encoder)
    inferred = columns.facts.inferred
    if not (schema.others == "number" or any(not isinstance(place, str) for place in schema.special)):
        # Columns asked for by name are found in any position.
        inferred = tuple(what for what in inferred if what != "columns")
    schema = encoder.schema
    # an input whose rows are counted by users already has conditions of its own
    conditions = (*schema.conditions_from(columns.facts.first_row), *columns.facts.conditions)
    source.facts = replace(columns.facts, inferred=inferred, conditions=conditions)
    if target and schema.delay is not None:
        source = DelayedSource(source, schema.delay.window, key=str(schema.delay.key))
    if target and schema.user is not None and columns.facts.user is None:
        users = None if schema.delay is not None else ColumnSource(columns, UserEncoder(encoder, columns))
        user = schema.user
        source = CappedSource(
            source,
            user.max_rows,
            separation=user.separation,
            null=user.surplus == "null",
            max_users=user.max_users,
            users=users,
            user=str(schema.user.column),
        )
    return source, encoder


def encoded_source(
    encoder: StreamEncoder,
    columns: Columns,
    target: Any,
    labels: Labels,
    file_options: Mapping[str, Any],
    *,
    block_rows: int,
    count_cells: bool = False,
) -> tuple[Source, SchemaEncoder]:
    """Learn the schema of a table from its first rows; return the others as it says, and what encodes them.

    They stand beside the encoding in its ledger; where the encoder uses all rows, and they are all, both add up.
    """
    capped = capped_by(declared_by(encoder), columns)
    limit = 65536 if columns.facts.repeatable else block_rows  # then the rows behind come from the same reading
    rest = encoder.learn(capped, target, labels, file_options, limit=limit)
    source, coder = schema_source(encoder.schema_, rest, target=target is not False, count_cells=count_cells)
    source = counted(source, capped)
    if not encoder.reused_:
        source.facts = replace(source.facts, beside=encoder.account_.plan_id)
    return source, coder


def declared_by(encoder: StreamEncoder) -> Schema | None:
    """Return what is declared about the input of an encoder."""
    return None if encoder.declared is None else Schema.load(encoder.declared, partial=True)


def learnt_source(
    schema: Schema, columns: Columns, first_row: int, last_row: int | None, *, target: bool, count_cells: bool
) -> tuple[Source, SchemaEncoder]:
    """Return the rows of a table from this one on, and up to that one, as a schema says; and their encoder.

    Where rows that taught the schema were counted by users, all rows are, and ``first_row`` and ``last_row`` are among
    those that the cap leaves.
    """
    capped = columns
    if target and schema.learnt is not None and schema.learnt.rows_per_user is not None:
        capped = capped_by(schema, columns)
    rest = capped if first_row == 1 else RestOfColumns(capped, first_row - 1)
    if last_row is not None:
        rest = FirstOfColumns(rest, last_row - first_row + 1)
    source, coder = schema_source(schema, rest, target=target, count_cells=count_cells)
    return counted(source, capped), coder


def encoded_rows(encoder: StreamEncoder, source: Source) -> Source:
    """Learn from the first rows which features are frequent; return these features of the other rows."""
    rest = encoder.learn_rows(source)
    assert encoder.schema_.rows is not None
    found = FrequentSource(rest, encoder.schema_.rows, encoder.schema_.conditions_from(rest.facts.first_row))
    if not encoder.reused_:
        found.facts = replace(found.facts, beside=encoder.account_.plan_id)
    return found
