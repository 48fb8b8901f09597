"""Shared code of the tests of the service: models on the disk, and requests without a library between."""

from __future__ import annotations

import http.client
import json
import logging
import subprocess
import threading
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
from cli_tools import start
from patience import WAIT

from privol import DPFTRL
from privol.serving import Service
from privol.serving._shelf import Slot
from privol.state import save_model

RNG = np.random.default_rng(5)
X = RNG.normal(size=(300, 3)) / 3
Y = np.where(X @ [1.0, -2.0, 0.5] > 0, "yes", "no")
JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"


def learnt(rows=300, **words):
    return DPFTRL(**{"epsilon": 100.0, "horizon": 300, **words}).fit(X[:rows], Y[:rows])


def saved(folder, rows=300, **words):
    save_model(learnt(rows, **words), folder)
    return folder


def stream(table, **options):
    """A table as a stream of Arrow."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def rows_of(*rows):
    return json.dumps({"rows": rows}).encode()


@contextmanager
def serving(source, **words):
    with Service(source, **{"port": 0, "seconds": 0.02, **words}) as service:
        yield service


def ask(service, path="/v1/predict", body=None, method=None, **headers):
    """Return status, headers and body of an answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        named.setdefault("Content-Type", JSON)
    with closing(http.client.HTTPConnection(service.host, service.port, timeout=WAIT)) as connection:
        connection.request(method or ("GET" if body is None else "POST"), path, body, named)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()


def told(service, *given, **words):
    """The JSON of an answer that is 200."""
    status, _, body = ask(service, *given, **words)
    assert status == 200, body
    return json.loads(body)


def wait_for(condition):
    """Wait until a condition holds, and return what it is then."""
    until = time.monotonic() + WAIT
    while not (found := condition()):
        assert time.monotonic() < until, "it never came"
        time.sleep(0.005)
    return found


def slot_of(service, name="model") -> Slot:
    return service.shelf.slots[name]


@contextmanager
def all_logs(caplog):
    """Every record of every logger, and of this one at its finest."""
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, "privol.serving"):
        for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio"):
            logging.getLogger(name).setLevel(logging.DEBUG)
        yield caplog


def files_of(folder):
    return sorted(path.name for path in Path(folder).iterdir() if not path.name.startswith("."))


# ---- processes of privol serve -----------------------------------------------------------------------------


@contextmanager
def served(*words, **settings):
    """A process of ``privol serve``, once it listens; its lines on standard error are read as they come."""
    process = start("serve", "--port", "0", *words, stdin=subprocess.PIPE, **settings)
    said: list[str] = []
    known = SimpleNamespace(host="127.0.0.1", port=None, process=process, said=said)

    reader = threading.Thread(target=lambda: said.extend(process.stderr))  # line by line, as they come
    reader.start()
    try:
        yield known
    finally:
        with suppress(OSError):
            process.stdin.close()
        if process.poll() is None:
            process.kill()
        process.wait(WAIT)
        reader.join()
        process.stderr.close()
        process.stdout.close()


def listening(known):
    def port():
        found = [line.rsplit(":", 1)[1] for line in known.said if "http://" in line]
        assert found or known.process.poll() is None, known.said
        return found

    known.port = int(wait_for(port)[0])
    return known


def text_of(known):
    return "".join(known.said)


def send(known, lines):
    known.process.stdin.write("".join(lines))
    known.process.stdin.flush()


def ended(known, number):
    known.process.send_signal(number)
    return known.process.wait(WAIT)
