"""Inputs that say nothing for a while: servers of databases that have stopped, pipes that have nothing yet."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from patience import WAIT

from privol.readers import served
from privol.readers.pipe import Input
from privol.readers.served import answers


class Server:
    """A database whose second connection is answered, refused, or left without an answer."""

    served = True
    errors = (OSError,)

    def __init__(self, second: str) -> None:
        self.second, self.asked, self.gone = second, 0, threading.Event()

    def connect(self, stack: Any) -> None:
        self.asked += 1
        if self.second == "refused":
            raise ConnectionRefusedError("refused")
        if self.second == "silent":
            self.gone.wait(WAIT)

    def is_answer(self, told: str) -> bool:
        return False


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "SILENCE", 0.05)
    monkeypatch.setattr(served, "BEAT", 0.01)


@pytest.mark.parametrize(("second", "error"), [("silent", TimeoutError), ("refused", ConnectionRefusedError)])
def test_a_server_that_is_silent_ends_the_reading(second: str, error: type[OSError], hurried: None) -> None:
    server, beats = Server(second), []

    def rows() -> Iterator[int]:
        yield 1
        server.gone.wait(WAIT)

    def alive() -> None:
        beats.append(0)
        assert len(beats) < 1000, "the server is waited for without an end"

    found = answers(server, rows, alive)
    assert next(found) == 1
    with pytest.raises(error):
        next(found)
    server.gone.set()
    assert server.asked == 1
    assert beats


def test_a_server_that_computes_is_waited_for(hurried: None) -> None:
    server, done = Server("answered"), threading.Event()

    def rows() -> Iterator[int]:
        done.wait(WAIT)
        yield 1

    def alive() -> None:
        if server.asked >= 3:
            done.set()

    assert list(answers(server, rows, alive)) == [1]
    assert server.asked >= 3


def test_a_pipe_that_has_nothing_yet_has_not_ended() -> None:
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    with open(ours, "rb", buffering=0) as reader, open(theirs, "wb", buffering=0) as writer:
        late = threading.Timer(0.1, writer.write, (b"1,2\n",))
        late.start()
        assert Input(reader).read1(100) == b"1,2\n"
        late.join()
