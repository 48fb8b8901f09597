"""Fuzz targets of what servers, audited programs and files of the user say, and of two more records of kept models.

``python tests/core/fuzz/fuzz_lines.py web -max_total_time=600`` runs one of them under atheris (libFuzzer); the suite
runs mutations of the seeds through the same checks. They are as those of ``fuzz_records.py``.
"""

from __future__ import annotations

import functools
import http.client
import io
import json
import random
import shutil
import tempfile
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import fuzz_records
import numpy as np
import pyarrow as pa
from fuzz_targets import Targets, drive

from privol import DOLA, DPFTRL, SparseDOLA
from privol.arena.specs import Spec, load_specs
from privol.audit._exact import exact_delta, stated
from privol.audit._programs import _checked, _parsed
from privol.errors import PrivolError
from privol.readers import http_files
from privol.state import State, load_model, save_model
from privol.state._models import digest_of
from privol.streams import open_stream
from privol.topology import Gossip, LinkFailures, MatchingCycle, RandomMatching, RandomNeighbors, erdos_renyi, ring

ROOMS = ("privol.state", "privol.topology", "privol.readers", "privol.audit", "privol.arena", "privol.learners")
N, DIM = 120, 3


# ---- seeds --------------------------------------------------------------------------------------------------


def _rows(stop: bool = False) -> Any:
    """Rows of users, of which each may have three; they break off before the end, or not."""
    rng = np.random.default_rng(0)
    who = [f"person {k}" for k in rng.integers(0, 30, N)]
    table = pa.table({"x": rng.normal(size=N), "who": who, "y": rng.integers(0, 2, N).astype(str)})

    def lines() -> Iterator[dict[str, Any]]:
        for number, row in enumerate(table.to_pylist()):
            if number == N // 2:
                raise OSError("gone")
            yield row

    target = {"column": "y", "negative": ["0"], "positive": ["1"]}
    schema = {"columns": {"x": {"range": [-3, 3]}}, "target": target, "user": {"column": "who", "max_rows": 3}}
    return open_stream(lines() if stop else table, schema=schema, block_rows=20)


def _capped() -> DPFTRL:
    return DPFTRL(epsilon=1.0, horizon=N, random_state=1, rows_per_user=3, on_invalid="zero")


@functools.cache
def _made() -> dict[str, Any]:
    """Files of a run that broke off, and models of networks."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with suppress(OSError):
            _capped().fit_stream(_rows(stop=True), checkpoint=State(folder / "left", every=20, rest=True))
        found["left"] = {path.relative_to(folder / "left"): path.read_bytes()
                         for path in (folder / "left").rglob("*") if path.is_file()}  # fmt: skip
        found["rows"] = _capped().fit_stream(_rows(), checkpoint=State(folder / "left", rest=True)).n_rows_
        found["seen"] = found["left"][Path("secret", "seen.log")]
        X = np.random.default_rng(0).normal(size=(40, DIM)) / 4
        graph = erdos_renyi(4, 0.8, seed=2)
        schedules = (
            ring(4), RandomMatching(graph, seed=1), Gossip(graph, seed=1), MatchingCycle(ring(4)),
            RandomNeighbors(graph, 1, seed=3), LinkFailures(RandomMatching(graph, seed=1), 0.2, seed=4),
        )  # fmt: skip
        found["network"], found["arrays"] = [], []
        for k, schedule in enumerate(schedules):
            learner = (SparseDOLA if k == 0 else DOLA)(epsilon=4.0, horizon=40, topology=schedule, x_bound=2.0)
            save_model(learner.fit(X, (X[:, 0] > 0).astype(int)), folder / f"model-{k}")
            found["network"].append((folder / f"model-{k}" / "model.json").read_bytes())
            found["arrays"].append((folder / f"model-{k}" / "model.npz").read_bytes())
    return found


_CONTENT = b"a,y\n1,0\n2,1\n3,0\n"
_HEAD = b'HTTP/1.1 206 Partial Content\r\nETag: "x"\r\nContent-Range: bytes %d-%d/16\r\nContent-Length: %d\r\n\r\n%s'
_BREAK = b"\n--\n"
_LAWS = b"""{"law": "laplace", "loc": 3.0, "scale": 1.0}
{"law": "dlaplace", "a": 0.5}
{"law": "binom", "n": 9, "p": 0.3}
{"probabilities": [0.25, 0.75]}
{"probabilities": {"a": 0.5, "b": 0.5}}
"""


def _part(first: int, last: int, cut: int | None = None) -> bytes:
    return _HEAD % (first, last, last - first + 1, _CONTENT[first : last + 1][:cut])


def seeds(kind: str) -> list[bytes]:
    """Inputs that are right."""
    if kind == "web":
        return [
            _BREAK.join([_part(0, 0), _part(0, 15)]),
            _BREAK.join([_part(0, 0), _part(0, 15, 7), b"HTTP/1.1 503 Busy\r\n\r\n", _part(7, 15)]),
            _BREAK.join([_part(0, 0), b"HTTP/1.1 200 OK\r\nETag: \"x\"\r\nTransfer-Encoding: chunked\r\n"
                         b"Content-Length: 16\r\n\r\n10\r\n" + _CONTENT + b"\r\n0\r\n\r\n"]),
            _BREAK.join([b"HTTP/1.0 200 OK\r\nLast-Modified: x\r\nContent-Length: 1\r\n\r\n1"] * 2),
        ]  # fmt: skip
    if kind == "audit":
        return [
            _LAWS,
            b"[0.5, -1e-3]\n2\n",
            b'{"model": {"coef": [1, 2.5], "intercept": true}, "n": [[], [3]]}\n',
            b"1e308\n",
        ]
    if kind == "specs":
        return [
            b'[[stream]]\nname = "a"\nfile = "a.csv"\ntarget = -1\nheader = true\nsep = ";"\norder = "shuffled"\n',
            b'[[stream]]\nname = "b"\nfile = "b.csv"\ncolumns = ["u", "v"]\ntarget = "v"\nregression = true\n'
            b'[[stream]]\nname = "c"\nfile = "c"\nschema = "c.toml"\nseen = "x"\n',
        ]
    return list(_made()[kind]) if kind == "network" else [_made()[kind]]


# ---- mutations ----------------------------------------------------------------------------------------------


def mutate(kind: str, data: bytes, rng: random.Random) -> bytes:
    """One change of an input, as of ``fuzz_records.mutate``; checksums are made good again."""
    if kind == "network" and rng.random() < 0.7:
        try:
            changed = json.loads(data)
            if isinstance(changed, dict):
                place = changed["parameters"]["topology"] if rng.random() < 0.7 else changed
                mixed = fuzz_records._changed(place, rng)
                changed = (
                    changed | {"parameters": changed["parameters"] | {"topology": mixed}}
                    if place is not changed
                    else mixed
                )
                changed["sha256"] = digest_of({key: value for key, value in changed.items() if key != "sha256"})
            return fuzz_records._dump(changed)
        except (ValueError, RecursionError, TypeError, KeyError):
            pass
    if kind == "web" and rng.random() < 0.5:
        parts = data.split(_BREAK)
        odd = (
            b"0",
            b"-1",
            b"16",
            b"17",
            b"9" * 20,
            b"9" * 5000,
            b"\xb2",
            b"",
            b"*",
            b"bytes 0-15/*",
            b"gzip",
            b"identity",
        )
        lines = rng.choice(parts).split(b"\r\n") if rng.random() < 0.2 else None
        if lines is not None:
            return _BREAK.join([*parts, b"\r\n".join(rng.sample(lines, len(lines)))])
        at = rng.randrange(len(parts))
        head = parts[at].split(b"\r\n")
        line = rng.randrange(len(head))
        name, colon, _ = head[line].partition(b":")
        head[line] = rng.choice((
            name + colon + b" " + rng.choice(odd), b"Content-Encoding: " + rng.choice(odd), b"ETag: " + rng.choice(odd),
            b"HTTP/1.1 " + rng.choice((b"200", b"206", b"204", b"304", b"404", b"429", b"500", b"100")) + b" x",
            b"Transfer-Encoding: chunked", b"",
        ))  # fmt: skip
        parts[at] = b"\r\n".join(head)
        return _BREAK.join(parts)
    if kind == "audit" and rng.random() < 0.4:
        return (
            rng.choice((b"[" * 100_000, b'{"a":' * 50_000, b"1" + b"0" * 400, b"[1e400]", b"-" + b"9" * 5000, b"NaN"))
            + b"\n"
        )
    return fuzz_records.mutate("model" if kind == "network" else kind, data, rng)


# ---- checks -------------------------------------------------------------------------------------------------


def check_seen(data: bytes, folder: Path) -> None:
    """A run goes on only with the users that it has seen; what is cut off behind them does not count."""
    run = folder / "files"
    shutil.rmtree(run, ignore_errors=True)
    for path, content in _made()["left"].items():
        (run / path).parent.mkdir(parents=True, exist_ok=True)
        (run / path).write_bytes(data if path.name == "seen.log" else content)
    state = State(run, rest=True)
    state.next_row()
    State(run).learner().fit_stream(_rows(), checkpoint=state)
    assert data.startswith(_made()["seen"])
    assert load_model(run).n_rows_ == _made()["rows"]


def check_network(data: bytes, folder: Path) -> None:
    """A model of a network that is read predicts, from finite weights, and mixes by rows that sum to 1."""
    model = folder / "model"
    model.mkdir(exist_ok=True)
    (model / "model.json").write_bytes(data)
    try:
        name = json.loads(data)["arrays"]["sha256"]
    except (ValueError, KeyError, TypeError, RecursionError):
        name = None
    arrays = {json.loads(text)["arrays"]["sha256"]: content
              for text, content in zip(_made()["network"], _made()["arrays"], strict=True)}  # fmt: skip
    (model / "model.npz").write_bytes(arrays.get(name, _made()["arrays"][0]) if isinstance(name, str) else b"")
    learner = load_model(model)
    assert np.isfinite(learner.coef_).all()
    learner.predict(np.zeros((1, DIM)))
    learner.guarantee_.sentence()
    mixing = learner.mixing()
    if mixing.n_nodes <= 50:
        matrix = mixing.matrix(1)
        sums = np.add.reduceat(matrix.weights, matrix.indptr[:-1])
        assert np.allclose(sums, 1.0)


class _Sock:
    """What :mod:`http.client` reads an answer from."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def makefile(self, *_: Any) -> io.BytesIO:
        return io.BytesIO(self._content)


class _Server:
    """Gives one answer after another, and none in the end."""

    def __init__(self, answers: list[bytes]) -> None:
        self._answers = iter(answers)

    def open(self, request: Any, timeout: float) -> Any:
        content = next(self._answers, None)
        if content is None:
            raise urllib.error.URLError("gone")
        answer = http.client.HTTPResponse(_Sock(content), method=request.get_method())  # type: ignore[arg-type]
        answer.begin()
        if not 200 <= answer.status < 300:
            raise urllib.error.HTTPError("http://host/t.csv", answer.status, "x", answer.headers, None)
        return answer


class _Clock:
    """Time that goes by with every look at it."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        self._now += 20.0
        return self._now

    def sleep(self, seconds: float) -> None:
        """Nobody waits."""


@contextmanager
def _web(data: bytes) -> Iterator[http_files.HttpFile]:
    file = http_files.HttpFile("http://host/t.csv")
    file._opener = _Server(data.split(_BREAK))  # type: ignore[assignment]
    with mock.patch.object(http_files, "time", _Clock()):
        yield file


def check_web(data: bytes, folder: Path) -> None:
    """A file that is read to its end has the length that its server stated, and never more."""
    with _web(data) as file:
        size = file.state().size
        with file.open() as reader:
            found = 0
            while piece := reader.read1(1 << 16):
                found += len(piece)
                assert found <= size
        assert found == size


def check_audit(data: bytes, folder: Path) -> None:
    """A line of a program is finite numbers, or a distribution, or an error of the program."""
    for line in data.split(b"\n"):
        if b"law" in line or b"probabilities" in line:
            with suppress(ValueError, RecursionError):  # no JSON
                found = stated(json.loads(line.decode("utf-8", "replace")))
                assert exact_delta(found, found, 0.1, cells=100) < 1e-9
        elif line.strip():
            vector = _checked(_parsed(line.decode("utf-8", "replace"), "it"), "it")
            assert len(vector)
            assert np.isfinite(vector).all()


def check_specs(data: bytes, folder: Path) -> None:
    """Streams of an arena have names, and a file or a generator."""
    path = folder / "streams.toml"
    path.write_bytes(data)
    found = load_specs(path)
    assert found
    assert all(isinstance(spec, Spec) and (spec.file is None) != (spec.generator is None) for spec in found)


CHECKS: dict[str, Callable[[bytes, Path], None]] = {
    "seen": check_seen,
    "network": check_network,
    "web": check_web,
    "audit": check_audit,
    "specs": check_specs,
}
TARGETS = Targets(CHECKS, seeds, mutate, (PrivolError, OSError, http.client.HTTPException))

if __name__ == "__main__":
    drive("fuzz_lines", ROOMS)
