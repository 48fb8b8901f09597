"""Reading ahead: a thread that parses the next blocks while the caller learns from this one."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

__all__ = ["ReadAhead"]

Item = TypeVar("Item")
# How many finished items may wait for the consumer; the thread works on one more. Two for blocks, because one piece of
# a file often completes several blocks and the next piece takes long. More would only cost memory.
DEPTH = 2
# Seconds to wait for the thread when it is stopped. It checks before every piece whether it should stop, so only a
# thread that waits for a silent pipe is left behind; that one ends with the process.
PATIENCE = 2.0
# How often a consumer that waits wakes, for signals: a handler that restarts system calls, as polars installs one for
# Ctrl-C, does not wake it.
BEAT = 0.2


class _Stopped(Exception):
    """The consumer is gone: this ends the producer."""


class _Shelf(Generic[Item]):
    """The state of both threads. The thread refers to this alone, so that a dropped iterator can be collected."""

    def __init__(self, depth: int, size: Callable[[Item], int]) -> None:
        self.pid = os.getpid()
        self.depth, self.size = depth, size
        self.changed = threading.Condition()
        self.items: deque[Item] = deque()
        self.ended = False
        self.failure: BaseException | None = None
        self.stopped = False
        self.thread: threading.Thread | None = None

    def alive(self) -> None:
        """Raise once the consumer is gone; the producer calls this as often as it can."""
        if self.stopped:
            raise _Stopped

    def produce(self, make: Callable[[Callable[[], None]], Iterator[Item]]) -> None:
        """Make the items; this is what the thread runs."""
        failure: BaseException | None = None
        try:
            for item in make(self.alive):
                with self.changed:
                    while sum(map(self.size, self.items)) >= self.depth and not self.stopped:
                        self.changed.wait()
                    self.alive()
                    self.items.append(item)
                    self.changed.notify_all()
                del item  # otherwise it would live until the next one is there
        except _Stopped:
            pass
        except BaseException as err:
            failure = err
        with self.changed:
            self.ended, self.failure = True, failure
            self.changed.notify_all()
        del failure  # its traceback refers to this frame

    def take(self) -> Item:
        """Return the next item, or raise what ended the producer; the consumer's thread calls this."""
        with self.changed:
            while not (self.items or self.ended):
                self.changed.wait(BEAT)
            if self.items:
                item = self.items.popleft()
                self.changed.notify_all()
                return item
            failure, self.failure = self.failure, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # its traceback refers to this frame
        raise StopIteration

    def ready(self, seconds: float) -> bool:
        """Wait so long for an item or the end, and say whether it is there."""
        with self.changed:
            return self.changed.wait_for(lambda: bool(self.items) or self.ended, seconds)

    def stop(self) -> None:
        """End the thread and wait until it is gone, which takes at most as long as one piece of its input."""
        # In a forked child the thread does not exist, and its lock may be held for ever.
        if self.pid != os.getpid():
            return
        with self.changed:
            self.stopped = True
            self.items.clear()
            self.changed.notify_all()
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join(PATIENCE)


class ReadAhead(Iterator[Item]):
    """Iterates over what ``make`` yields, which a thread makes ahead of the consumer.

    The thread makes another item while the total size of those that wait is below ``depth``.

    The thread starts when the first item is asked for. It ends when everything has been read, when either side raises,
    or when the iterator is closed or dropped; at the latest when the interpreter exits, before other threads are
    stopped.

    Parameters
    ----------
    make : callable
        The thread calls it with a function ``alive()``; it returns the iterator of the items. It must call ``alive``
        between the steps of its work, which raises once nobody waits for the result. It must refer neither to this
        iterator nor to its consumer.
    depth : int, default=DEPTH
        At least 1.
    size : callable, optional
        The size of an item; by default every item has size 1.
    """

    def __init__(
        self,
        make: Callable[[Callable[[], None]], Iterator[Item]],
        depth: int = DEPTH,
        size: Callable[[Item], int] = lambda _: 1,
    ) -> None:
        self._make: Callable[[Callable[[], None]], Iterator[Item]] | None = make
        self._shelf: _Shelf[Item] = _Shelf(depth, size)
        # Unlike __del__ it runs at exit too, when daemon threads still run as usual.
        self._stop: Callable[[], Any] = weakref.finalize(self, self._shelf.stop)

    def _begin(self) -> None:
        """Start the thread, once."""
        if self._make is not None:
            make, self._make = self._make, None
            # A daemon thread: the interpreter's exit does not wait for it, and the finalizer above ends it first.
            self._shelf.thread = threading.Thread(
                target=self._shelf.produce, args=(make,), name="privol-read-ahead", daemon=True
            )
            self._shelf.thread.start()

    def ready(self, seconds: float) -> bool:
        """Wait so many seconds for the next item or the end, and say whether :meth:`__next__` would wait no more."""
        self._begin()
        return self._shelf.stopped or self._shelf.ready(seconds)

    def __next__(self) -> Item:
        self._begin()
        if self._shelf.stopped:
            raise StopIteration
        try:
            return self._shelf.take()
        except BaseException:  # the end, an error of the input, or Ctrl-C while waiting
            self.close()
            raise

    def close(self) -> None:
        """End the thread; nothing more is delivered."""
        self._make = None
        self._stop()
