"""Parts of a text that are parsed side by side, by kernels that need no interpreter."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

__all__ = ["lines_of", "together", "workers"]

Part = TypeVar("Part")
Made = TypeVar("Made")

MOST_WORKERS = 4
# A part of a text: its rows stay in a near cache, and there is work for all.
PART_BYTES = 1 << 19


def workers() -> int:
    """Return how many threads may parse: what the process may use, at most four. It changes no result."""
    may = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(may, MOST_WORKERS)


def lines_of(text: bytes) -> list[memoryview]:
    """Return parts of whole lines of a text."""
    whole, parts, start = memoryview(text), [], 0
    while start < len(text):
        stop = text.rfind(b"\n", start, start + PART_BYTES) + 1 or text.find(b"\n", start + PART_BYTES) + 1
        stop = stop if start + PART_BYTES < len(text) and stop else len(text)
        parts.append(whole[start:stop])
        start = stop
    return parts


def together(work: Callable[[Part], Made | None], parts: Sequence[Part]) -> list[Made] | None:
    """Return what each part gives, in their order; None as soon as one gives None.

    The threads end with the call, so that none of them is left where the process forks or the interpreter exits. What
    is raised in one of them is raised here.
    """
    found: list[Any] = [None] * len(parts)
    left, failed, failures = iter(range(len(parts))), False, []
    lock = threading.Lock()

    def run() -> None:
        nonlocal failed
        try:
            while not failed:
                with lock:
                    at = next(left, None)
                if at is None:
                    return
                found[at] = work(parts[at])
                failed = failed or found[at] is None
        except BaseException as err:
            failed = True
            failures.append(err)

    others = [threading.Thread(target=run, name="privol-parse") for _ in range(min(workers(), len(parts)) - 1)]
    try:
        for thread in others:
            thread.start()
        run()
    finally:
        for thread in others:
            if thread.ident is not None:
                thread.join()
    if failures:
        raise failures[0]
    return None if failed else found
