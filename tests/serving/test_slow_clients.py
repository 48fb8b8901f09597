"""Clients that are slow, many, or under way when the service stops."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import http.client
import select
import socket
import threading
from contextlib import closing

import pytest
import uvicorn
from patience import WAIT
from serving_tools import X, ask, rows_of, saved, serving, wait_for
from uvicorn.server import ServerState

from privol.serving import Limits, Service
from privol.serving._connections import patient
from privol.serving._predictor import Predictor


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

    def set_write_buffer_limits(self, high=None, low=None):
        self.limits = high, low

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
        kind = patient(1000.0, 100)
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


def test_when_the_limit_of_an_answer_runs():
    """For as long as anything waits to be taken, be it little."""

    async def course():
        kind = patient(1000.0, 100)
        config = uvicorn.Config(lambda: None, http=kind, lifespan="off", log_config=None)
        config.load()
        protocol, wire = kind(config, ServerState(), {}, asyncio.get_running_loop()), Wire()
        protocol.connection_made(wire)
        assert wire.limits == (1, 0)
        state = ServerState()
        state.connections |= set(range(163))
        for gone in (False, True):  # the limit and 64 more, and one more than these
            other, its = kind(config, state, {}, asyncio.get_running_loop()), Wire()
            other.connection_made(its)
            assert its.gone is gone
            other.connection_lost(None)
            state.connections |= {"another"}
        protocol.pause_writing()
        first = protocol._unread
        assert first is not None
        protocol.resume_writing()
        assert first.cancelled()
        assert protocol._unread is None
        protocol.pause_writing()
        protocol._give_up()
        assert wire.gone
        assert protocol._unread is protocol._limit is None

    asyncio.run(course())


def test_connections_are_limited(run):
    with serving(run, limits=Limits(connections=3)) as service:
        held = [socket.create_connection((service.host, service.port), WAIT) for _ in range(3)]
        wait_for(lambda: ask(service, "/healthz")[0] == 503)
        for each in held:
            each.close()
        wait_for(lambda: ask(service, "/healthz")[0] == 200)


def test_who_takes_no_answers_holds_no_connection(run):
    """Answers of half a megabyte each, until nothing more goes into the buffers on the way."""
    body = rows_of(*[[0, 0, 0]] * 10_000)
    head = (
        f"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    )
    left = bytearray((head.encode() + b"\r\n\r\n" + body) * 30)
    # two connections are one too many
    with serving(run, limits=Limits(connections=2, request_seconds=0.5)) as service:
        with closing(socket.create_connection((service.host, service.port), WAIT)) as silent:
            silent.setblocking(False)

            def sent():
                with contextlib.suppress(BlockingIOError):
                    del left[: silent.send(left)]
                return False

            def given_up():
                try:
                    return sent()
                except ConnectionError:
                    return True

            wait_for(given_up)
        wait_for(lambda: ask(service, "/healthz")[0] == 200)


def test_far_too_many_connections_are_closed_unheard(run):
    """Each takes a file of the process, and a run that learns in it needs some."""
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(serving(run, limits=Limits(connections=1)))
        held = [socket.create_connection((service.host, service.port), WAIT) for _ in range(80)]
        for each in held:
            stack.enter_context(closing(each))
        closed = select.poll()
        for each in held:
            closed.register(each, select.POLLIN)
        wait_for(lambda: len(closed.poll(0)) == 80 - 65)


def test_long_bodies_have_limited_room_together(run):
    long, short = rows_of(*[[0.0, 0.0, 0.0]] * 9000), rows_of([0.0, 0.0, 0.0])
    head = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 199999"
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(serving(run, limits=Limits(body=200_000)))
        for _ in range(20):  # 1.6 MB at once
            held = stack.enter_context(closing(socket.create_connection((service.host, service.port), WAIT)))
            with contextlib.suppress(ConnectionError):
                held.sendall(head + b"\r\n\r\n" + b" " * 190_000)
        tries = (asked(service, long) for _ in range(500))  # until the bodies have come that are held
        _, headers, said = next(found for found in tries if found is not None and found[0] == 503)
        assert headers["retry-after"] == "1"
        assert b"too many long bodies" in said
        assert ask(service, body=short)[0] == 200
    with serving(run, limits=Limits(body=200_000)) as service:
        for _ in range(20):
            assert ask(service, body=long)[0] == 200  # each gives back what it took


def asked(service, body):
    """The answer; None where the connection was closed before the whole body was sent."""
    with contextlib.suppress(ConnectionError):
        return ask(service, body=body)


def test_few_long_bodies_are_read_at_once(run, monkeypatch):
    inside, most, go = [], [], threading.Event()
    real = Predictor.of_rows

    def slow(self, rows):
        inside.append(1)
        most.append(len(inside))
        go.wait(WAIT)
        inside.pop()
        return real(self, rows)

    monkeypatch.setattr(Predictor, "of_rows", slow)
    with serving(run) as service:
        body = rows_of(*[[0.0, 0.0, 0.0]] * 9000)
        threads = [threading.Thread(target=ask, args=(service,), kwargs={"body": body}) for _ in range(4)]
        for each in threads:
            each.start()
        wait_for(lambda: len(service._server.server_state.tasks) == 4 and len(most) >= 2)
        for _ in range(5):
            assert ask(service, "/healthz")[0] == 200
        go.set()
        for each in threads:
            each.join()
    assert max(most) == 2
    assert len(most) == 4


def test_a_refusal_keeps_no_rows(run):
    """An error's frames would hold them until Python looks for cycles: forty requests took 8 GB."""
    with serving(run) as service:
        gc.collect()
        gc.disable()
        try:
            for row, times, status in ((b'["a cell"]', 20_000, 413), (b'["a cell",0,0]', 9000, 422)):
                assert ask(service, body=b'{"rows":[' + b",".join([row] * times) + b"]}")[0] == status
            # until the request's own frame has gone
            assert any(ask(service, "/healthz")[0] == 200 and not kept_rows() for _ in range(100))
        finally:
            gc.enable()


def kept_rows():
    found = (each for each in gc.get_objects() if type(each) is list and each)
    return any(type(each[0]) is str and each[0] == "a cell" for each in found)


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
