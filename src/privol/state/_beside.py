"""A thread beside the learning, which no interrupt of the learning can stop."""

from __future__ import annotations

import _thread
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, TypeVar

from ..errors import StateError

__all__ = ["Beside", "Job"]

Result = TypeVar("Result")

#: Seconds for which what is to be written waits at most.
PATIENCE = 0.005


class Job(Generic[Result]):
    """What the thread is to do, and its result.

    Only bare locks, which are taken and released in one step: Ctrl-C within ``threading.Event``, ``Condition`` or a
    ``Future`` may leave their lock taken, and whoever waits for it next waits for ever.
    """

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._ended, self._urgent = threading.Lock(), threading.Lock()
        self._ended.acquire()
        self._urgent.acquire()
        self.done = False
        self._result: Result
        self._error: BaseException | None = None

    def run(self, patience: float) -> None:
        """Do it, once it is urgent, or after so many seconds."""
        try:
            self._urgent.acquire(timeout=patience)
            self._result = self._work()
        except BaseException as error:
            self._error = error
        self.done = True
        self._ended.release()

    def hurry(self) -> None:
        """Let it begin."""
        with suppress(RuntimeError):  # it is urgent already
            self._urgent.release()

    def result(self) -> Result:
        """Wait for the result, or raise the error."""
        while not self.done:  # whoever is interrupted behind the lock finds it done; others look again
            self._ended.acquire(timeout=1.0)
        if self._error is not None:
            raise self._error
        return self._result


class Beside:
    """One thread that works beside the learning: it knows rows while they are learnt, and writes while others are.

    Jobs are done in the order in which they are given. What is to be written waits for a moment until the next block is
    under way: up to then the learning is Python too, and the two would wait for each other at every step. A forked
    child has no such thread, and is refused.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Job[None], float] | None] = SimpleQueue()
        self._pid = os.getpid()
        self._written: Job[None] | None = None
        self._last: Job[None] | None = None
        # not by threading.Thread, whose start waits for an Event. A process that ends without stop() ends the thread:
        # its writes are as those of a process that is killed
        _thread.start_new_thread(_work, (self._jobs,))

    @property
    def mine(self) -> bool:
        """False in a forked child."""
        return os.getpid() == self._pid

    def _submit(self, job: Job[Result], patience: float) -> Job[Result]:
        if not self.mine:
            raise StateError("a forked child cannot resume a run that its parent keeps on the disk")
        self._jobs.put((job, patience))  # type: ignore[arg-type]  # of any result
        return job

    def call(self, work: Callable[[], Result]) -> Job[Result]:
        """Begin a job whose result the caller awaits after doing work of its own."""
        job = self._submit(Job(work), 0.0)
        self._hurry()
        return job

    def write(self, work: Callable[[], None]) -> None:
        """Begin a write, once the previous one is on the disk."""
        self.wait()
        self._written = self._submit(Job(work), PATIENCE)

    def wait(self) -> None:
        """Wait until all is on the disk.

        Raises
        ------
        OSError, StateError
            What kept it from that.
        """
        written = self._written
        if written is None or not self.mine:
            return
        self._hurry()
        try:
            written.result()
        finally:
            if written.done:  # otherwise an interrupt struck, and the write must be awaited again
                self._written = None

    def stop(self) -> None:
        """End the thread, once it has done its jobs."""
        if self.mine:
            self._hurry()
            if self._last is None:
                self._last = self._submit(Job(_nothing), 0.0)
            self._jobs.put(None)
            self._last.result()

    def _hurry(self) -> None:
        if self._written is not None:
            self._written.hurry()


def _nothing() -> None:
    """Be done."""


def _work(jobs: SimpleQueue[tuple[Job[None], float] | None]) -> None:
    while (given := jobs.get()) is not None:
        job, patience = given
        job.run(patience)
