"""How many threads a process uses, and work that they share: parts that are independent of each other.

Results are the same to the last bit for any number of threads.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from contextvars import copy_context
from typing import TypeVar

from ._validate import integer

__all__ = ["each", "set_threads", "threads"]

Item = TypeVar("Item")
Result = TypeVar("Result")

# More threads would wait for each other: between kernels they take turns with the interpreter's lock.
_MOST = 8
# Handing a part to another thread takes some 50 us, in which this many cells are encoded.
_ENOUGH = 1 << 13

_limit: int | None = None


class _Helpers:
    """The threads of this process beside the caller's, made when first needed, and made again in a forked child."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    def pool(self) -> ThreadPoolExecutor:
        # two threads may both make one; the one that is not kept has no thread yet and ends with its last reference
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_MOST - 1, thread_name_prefix="privol-threads")
        return self._pool

    def forget(self) -> None:
        """Leave the threads to the parent process: a forked child has none."""
        self._pool = None


_HELPERS = _Helpers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_HELPERS.forget)


def set_threads(threads: int | None) -> None:
    """Set how many threads this process uses to learn, to encode and to read.

    Beside this, ``OMP_NUM_THREADS`` is obeyed, and for Arrow's files :func:`pyarrow.set_cpu_count`. A run takes the
    number when it begins. Models, noise and guarantees do not depend on it, to the last bit.

    Parameters
    ----------
    threads : int or None
        At least 1; 1: no thread beside the caller's. None: the processors that the process may use, at most 8.

    Raises
    ------
    InvalidParameter
        If it is not such a number.
    """
    global _limit
    _limit = None if threads is None else integer(threads=threads, at_least=1)


def threads() -> int:
    """Return how many threads work at a time: see :func:`set_threads`."""
    if _limit is not None:
        return _limit
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # a list has one number for each level of nested loops
    told = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    arrow = sys.modules.get("pyarrow")
    most = [own, _MOST]
    if told.isdecimal() and int(told) > 0:
        most.append(int(told))
    if arrow is not None:
        most.append(int(arrow.cpu_count()))
    return max(1, min(most))


def each(work: Callable[[Item], Result], items: Sequence[Item], *, cells: int) -> list[Result]:
    """Return what ``work`` makes of each item, in their order, whatever the number of threads.

    The caller's thread takes part, so nothing waits for a helper that is busy elsewhere.

    Parameters
    ----------
    work : callable
        Of any two items it may run at the same time, and in any order.
    items : sequence
        The longest work first.
    cells : int
        Of all items together, about: of few the caller does all.

    Raises
    ------
    BaseException
        What the first item raises that raises anything.
    """
    n = min(threads(), len(items)) if cells >= _ENOUGH else 1
    if n < 2:
        return [work(item) for item in items]
    found: dict[int, Result] = {}
    failed: dict[int, BaseException] = {}
    left = deque(range(len(items)))

    def share() -> None:
        while not failed:
            try:
                at = left.popleft()
            except IndexError:
                return
            try:
                found[at] = work(items[at])
            except BaseException as err:
                failed[at] = err

    helpers: list[Future[None]] = []
    # if the interpreter is about to exit, or no thread is available, the caller does the rest
    with suppress(RuntimeError):
        helpers += (_HELPERS.pool().submit(copy_context().run, share) for _ in range(n - 1))
    try:
        share()
    finally:
        left.clear()  # if the caller was interrupted
        # jobs that have not begun never will, and nobody waits for them: all helpers may be waiting here themselves
        wait([helper for helper in helpers if not helper.cancel()])
    if failed:
        # items begin in order, so all before the first failure are done
        failure = failed[min(failed)]
        try:
            raise failure
        finally:
            failed.clear()
            del failure  # its traceback refers to this frame
    return [found[at] for at in range(len(items))]
