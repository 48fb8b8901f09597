"""Clients that are slow, many, or under way when the service stops."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import threading
from contextlib import closing

import pytest
import uvicorn
from patience import WAIT
from serving_tools import X, ask, rows_of, saved, serving, wait_for
from uvicorn.server import ServerState

from privol.serving import Limits, Service
from privol.serving._predictor import Predictor
from privol.serving._service import _patient


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("run") / "run")


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST /v1/predict HT",
        b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nX: ",
        b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
        # refused before its body is there, which never comes
        b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\nHost:",
    ],
)
def test_requests_that_never_end_hold_no_connection(run, sent):
    with serving(run, limits=Limits(request_seconds=0.2, idle_seconds=10_000)) as service:
        with closing(socket.create_connection((service.host, service.port), WAIT)) as slow:
            slow.sendall(sent)
            with closing(slow.makefile("rb")) as answer, contextlib.suppress(ConnectionResetError):
                answer.read()  # until the service closes
        wait_for(lambda: answers(service))


def test_a_byte_now_and_then_holds_no_connection(run):
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(serving(run, limits=Limits(request_seconds=0.2)))
        slow = stack.enter_context(closing(socket.create_connection((service.host, service.port), WAIT)))
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ")

        def dripped():
            try:
                slow.sendall(b"x")
                slow.settimeout(0.05)
                return slow.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        wait_for(dripped)


class Wire(asyncio.Transport):
    """A connection in memory."""

    def __init__(self):
        super().__init__()
        self.sent, self.gone = b"", False

    def write(self, data):
        self.sent += data

    def close(self):
        self.gone = True

    abort = close

    def is_closing(self):
        return self.gone

    def pause_reading(self):
        pass

    resume_reading = pause_reading


def test_when_the_limit_of_a_request_runs():
    """From the first moment of a connection, or the first byte of a later request, until the request is there."""

    async def app(scope, receive, send):
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def course():
        kind = _patient(1000.0)
        config = uvicorn.Config(app, http=kind, lifespan="off", log_config=None, timeout_keep_alive=1000)
        config.load()
        protocol, wire = kind(config, ServerState(), {}, asyncio.get_running_loop()), Wire()
        protocol.connection_made(wire)
        first = protocol._limit
        assert first is not None
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n"
        for piece in (head[:20], head[20:], b"ab"):
            protocol.data_received(piece)
            assert protocol._limit is first  # however often a byte comes
        protocol.data_received(b"cd")
        assert protocol._limit is None
        assert first.cancelled()
        for _ in range(10):
            await asyncio.sleep(0)
        assert wire.sent.endswith(b"ok")
        assert protocol._limit is None  # between two requests another limit holds
        protocol.data_received(head[:7])
        assert protocol._limit is not None
        protocol.data_received(head[7:] + b"abcd" + head[:9])  # and the beginning of a third
        for _ in range(10):
            await asyncio.sleep(0)
        assert wire.sent.count(b"ok") == 2
        assert protocol._limit is not None
        assert not wire.gone
        protocol._give_up()
        assert wire.gone
        protocol.data_received(head[9:])
        protocol.connection_lost(None)
        assert protocol._limit is None

    asyncio.run(course())


def test_connections_are_limited(run):
    with serving(run, limits=Limits(connections=3)) as service:
        held = [socket.create_connection((service.host, service.port), WAIT) for _ in range(3)]
        wait_for(lambda: ask(service, "/healthz")[0] == 503)
        for each in held:
            each.close()
        wait_for(lambda: ask(service, "/healthz")[0] == 200)


def test_requests_under_way_end_before_the_service_does(run, monkeypatch):
    inside, go = threading.Event(), threading.Event()
    real = Predictor.of_rows

    def slow(self, rows):
        inside.set()
        go.wait(WAIT)
        return real(self, rows)

    monkeypatch.setattr(Predictor, "of_rows", slow)
    answers = []
    service = Service(run, port=0).start()
    many = rows_of(*X.tolist() * 5)
    asking = threading.Thread(target=lambda: answers.append(ask(service, body=many)[0]))
    asking.start()
    assert inside.wait(WAIT)
    stopping = threading.Thread(target=service.stop)
    stopping.start()
    wait_for(lambda: refused(service))
    assert service.running
    go.set()
    for thread in (asking, stopping):
        thread.join()
    assert answers == [200]
    assert not service.running
    service.stop()


def answers(service):
    """Whether it does, for a client that is fast enough for its limit."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        return ask(service, "/healthz")[0] == 200
    return False


def refused(service):
    try:
        socket.create_connection((service.host, service.port), WAIT).close()
    except OSError:
        return True
    return False
