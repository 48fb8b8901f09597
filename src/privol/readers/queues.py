"""Rows that other threads or processes put into a queue, as an input that is never waited for in vain."""

from __future__ import annotations

import inspect
import queue
from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import InvalidParameter

__all__ = ["QueueRows", "is_queue"]


def is_queue(data: Any) -> bool:
    """Whether an object is a queue: of :mod:`queue`, :mod:`multiprocessing`, or with the same methods.

    Raises
    ------
    InvalidParameter
        If it is one of :mod:`asyncio`, which threads cannot wait for.
    """
    found = all(callable(getattr(data, name, None)) for name in ("get", "get_nowait", "put"))
    if found and inspect.iscoroutinefunction(data.get):
        raise InvalidParameter("data is a queue of asyncio, which a thread cannot wait for: give a queue.SimpleQueue")
    return found


class QueueRows(Iterator[Any]):
    """The rows of a queue up to None, which ends them.

    An exception in the queue is raised in its place, once the rows before it are passed on: whoever gives the rows has
    failed.

    Parameters
    ----------
    data : queue
    names : sequence of str, optional
        Keys of its rows, which are dicts. Default: nobody knows before the first row has come.
    conditions : tuple of str
        What a guarantee takes for granted of them.
    """

    def __init__(self, data: Any, names: Sequence[str] | None = None, conditions: tuple[str, ...] = ()) -> None:
        self._queue = data
        self.names, self.conditions = names, conditions
        self._end: BaseException | None = None

    def __next__(self) -> Any:
        row = None if self._end is not None else self._queue.get()
        if self._ends(row):
            assert self._end is not None
            raise self._end
        return row

    def ready(self, most: int) -> list[Any]:
        """Return the rows that are there, at most so many, without waiting for any."""
        rows: list[Any] = []
        while len(rows) < most and self._end is None:
            try:
                row = self._queue.get_nowait()
            except queue.Empty:
                break
            if not self._ends(row):
                rows.append(row)
        return rows

    def _ends(self, row: Any) -> bool:
        if row is None:
            self._end = self._end or StopIteration()
        elif isinstance(row, BaseException):
            self._end = row
        return self._end is not None
