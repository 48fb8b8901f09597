"""Streams that continue where an earlier stream of the same rows stopped: for runs that outlive their process."""

from __future__ import annotations

from functools import partial

from ..encoding.rest import RestOfRows
from ..encoding.rows import ColumnSource
from ..errors import StreamError
from ..readers.base import Source
from ._capped import CountedRows
from ._delays import DelayedSource
from ._users import CappedSource, Seen

__all__ = ["Seen", "gone_on"]

LEARNT = "those that the run has learnt"


def gone_on(source: Source, key: bytes, rows: int, seen: Seen, *, skip: bool) -> Source:
    """Return a source that resumes after a number of delivered rows; parameters as in ``Stream.go_on``.

    Parameters
    ----------
    skip : bool
        Whether the input has these rows, which are to be left out, or only those after them.
    """
    if isinstance(source, CappedSource):
        return source.gone_on(key, rows, seen, partial(_after, skip=skip))
    if isinstance(source, CountedRows):
        if rows:
            raise StreamError(
                f"{source.name}: the users of the rows that taught are counted, but not kept: give such a stream "
                "from its beginning"
            )
        return source.named(key)
    return _after(source, rows, skip=skip)


def _after(source: Source, rows: int, *, skip: bool) -> Source:
    if not rows:
        return source
    if isinstance(source, DelayedSource):
        raise StreamError(
            f"{source.name}: checkpoints do not hold rows that wait for their label: give a stream with [delay] from "
            "its beginning"
        )
    if not skip:
        return source
    rest = source.after(rows, LEARNT) if isinstance(source, ColumnSource) else None
    return RestOfRows(source, rows, what=LEARNT) if rest is None else rest
