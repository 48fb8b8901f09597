"""Servers that may fall silent: they are asked in a thread of its own, so that waiting for them can end.

A client blocks in C, where neither Ctrl-C nor a deadline reaches it. A thread whose server never answers is left
behind; it alone closes its connection.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from typing import TypeVar

from .ahead import BEAT, ReadAhead
from .sql_clients import Database

__all__ = ["answers", "reach"]

Item = TypeVar("Item")
# Seconds of silence after which a server is asked for a sign of life, and in which it must give one.
SILENCE = 15.0


def answers(database: Database, make: Callable[[], Iterator[Item]], alive: Callable[[], object]) -> Generator[Item]:
    """Yield what ``make`` yields, and wait for it as long as the server answers another connection.

    A server that computes says nothing for as long as it takes, and neither does one that is stopped or cut off: only
    a second connection tells which.

    Parameters
    ----------
    database : Database
    make : callable
        Asks the server. It must refer to nothing that changes meanwhile: another thread calls it.
    alive : callable
        Called again and again while waiting; what it raises ends that.

    Raises
    ------
    database.errors
        TimeoutError, which is one of them, if the server is silent.
    """
    if not database.served:
        yield from make()
        return
    with closing(ReadAhead(lambda _: make(), 1)) as ahead:
        while True:
            while not _ready(ahead, alive):
                try:
                    reach(database, alive)
                except database.errors as err:
                    if not (database.is_answer(str(err)) or ahead.ready(0.0)):
                        raise
            try:
                item = next(ahead)
            except StopIteration:
                return
            yield item
            del item  # otherwise it would live until the next one is there


def reach(database: Database, alive: Callable[[], object]) -> None:
    """Connect to a server and leave it again, or raise one of the client's errors; TimeoutError if it is silent."""

    def connected() -> Iterator[None]:
        with ExitStack() as stack:
            yield database.connect(stack)

    with closing(ReadAhead(lambda _: connected(), 1)) as ahead:
        if not _ready(ahead, alive):
            raise TimeoutError("the server does not answer")
        next(ahead)


def _ready(ahead: ReadAhead[Item], alive: Callable[[], object]) -> bool:
    """Wait for the next item until the silence is long, and say whether it is there."""
    since = time.monotonic()
    while not ahead.ready(BEAT):
        alive()
        if time.monotonic() - since >= SILENCE:
            return False
    return True
