"""Checkpoints by time while a learner waits for rows: a stream may fall silent for hours."""

from __future__ import annotations

import _thread
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

__all__ = ["Watch", "blocks_of"]

Block = TypeVar("Block")

#: Seconds after which the thread looks again, at least; and for which it waits for its turn at once.
_LEAST, _TURN = 0.05, 1.0


class Watch:
    """A thread that keeps a run while the learner waits for the stream.

    The two take turns: the learner has the turn, and leaves it only while it waits for the next block. Ctrl-C may
    strike as it takes the turn back, so :meth:`stop` ends the thread whoever has the turn. Only bare locks, as in
    :class:`._beside.Job`. A forked child has no such thread.

    Parameters
    ----------
    look : callable
        Keeps the run if that is due, and returns the seconds until it is to be called again. What it raises is raised
        in the learner, when the next block has come.
    seconds : float
        Until the first call.
    """

    def __init__(self, look: Callable[[], float], seconds: float) -> None:
        self._look, self._seconds = look, seconds
        self._pid = os.getpid()
        self._turn, self._wake, self._ended = threading.Lock(), threading.Lock(), threading.Lock()
        for lock in (self._turn, self._wake, self._ended):
            lock.acquire()
        self._stopped = self._done = False
        self._error: BaseException | None = None
        _thread.start_new_thread(self._work, ())

    def _work(self) -> None:
        seconds = self._seconds
        while not self._stopped:
            self._wake.acquire(timeout=min(max(seconds, _LEAST), threading.TIMEOUT_MAX))
            while not self._stopped and not self._turn.acquire(timeout=_TURN):
                pass
            if self._stopped:
                break
            try:
                seconds = self._look()
            except BaseException as error:
                self._error = error
                break
            finally:
                self._leave_turn()
        self._done = True
        self._ended.release()

    def _leave_turn(self) -> None:
        with suppress(RuntimeError):  # stop() has left it already
            self._turn.release()

    def during(self, wait: Callable[[], Block]) -> Block:
        """Call what waits for rows; meanwhile the run may be kept."""
        if os.getpid() != self._pid:
            return wait()
        self._leave_turn()
        try:
            found = wait()
        finally:
            if os.getpid() == self._pid:
                self._turn.acquire()
        if self._error is not None:
            raise self._error
        return found

    def stop(self) -> None:
        """End the thread, once it has kept what it is keeping."""
        if os.getpid() != self._pid:
            return
        self._stopped = True
        with suppress(RuntimeError):
            self._wake.release()
        self._leave_turn()
        while not self._done:
            self._ended.acquire(timeout=1.0)


def blocks_of(stream: Iterable[Block], watch: Callable[[], Watch | None]) -> Iterator[Block]:
    """The blocks of a stream; ``watch()`` keeps the run while the next one is waited for, once there is a run."""
    blocks = iter(stream)
    while True:
        now = watch()
        block = next(blocks, None) if now is None else now.during(lambda: next(blocks, None))
        if block is None:
            return
        yield block
