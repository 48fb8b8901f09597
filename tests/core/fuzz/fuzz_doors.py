"""Fuzz targets of what comes in from outside, or is taken up again: kept runs, requests, messages, registries, devices.

``python tests/core/fuzz/fuzz_doors.py request -max_total_time=600`` runs one of them under atheris (libFuzzer); the
suite runs mutations of the seeds through the same checks. They are as those of ``fuzz_records.py``: allowed are an
error of privol, and an input that is read and used without any other; what is read, and what it must agree with, is in
the docstring of its check.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import random
import shutil
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fuzz_records
import numpy as np
import pyarrow as pa
from fuzz_targets import Targets, drive

from privol import DOLA, DPFTRL, LDPSGD
from privol.encoding.schema import Schema
from privol.errors import InvalidMessage, PrivolError, StateError
from privol.flower._kept_node import KeptNode, Network, _sum, pack_step, parse_reply
from privol.readers.base import Facts
from privol.readers.csv import CsvOptions
from privol.readers.payloads import payloads_of
from privol.rounds import Collector, KeptDevice
from privol.serving import Registry
from privol.serving._predictor import Predictor
from privol.serving._requests import ARROW, JSON, Refused, answer_in_arrow, answer_in_json, answer_to
from privol.serving._versions import _canonical
from privol.state import State, load_model, save_model
from privol.state._models import digest_of
from privol.streams import open_stream

DIM, N, MOST = 3, 120, 50
NAMES = ("a", "b", "town")
OPTIONS = CsvOptions(False, NAMES, ",", None, (), "utf-8", ".", False)
_RUN = bytes(16)
ROOMS = ("privol.state", "privol.ledger", "privol.serving", "privol.readers", "privol.rounds", "privol.flower")


def _rows() -> tuple[Any, Any]:
    X = np.random.default_rng(0).normal(size=(N, DIM)) / 4
    return X, (X[:, 0] > 0).astype(int)


# ---- seeds --------------------------------------------------------------------------------------------------


def _stream() -> Any:
    X, y = _rows()
    table = pa.table({**{name: X[:, j] for j, name in enumerate("abc")}, "y": y})
    return open_stream(table, target="y", classes=(0, 1), block_rows=20)


def _leave_a_run(run: Path) -> None:
    """Learn half of the rows, and leave a directory as a run that was interrupted does."""
    left = [3]

    def progress(*_: Any) -> None:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    try:
        learner = DPFTRL(epsilon=1.0, horizon=N, x_bound=2.0, random_state=1)
        learner.fit_stream(_stream(), checkpoint=State(run, every=20), progress=progress)
    except KeyboardInterrupt:
        pass


def _nodes() -> DOLA:
    return DOLA(epsilon=1.0, horizon=40, topology="ring", nodes=4, x_bound=2.0)


@functools.cache
def _network() -> Network:
    return Network(_nodes(), DIM, (0, 1))


def _node(directory: Path) -> KeptNode:
    return KeptNode(directory, _nodes(), node=1, n_features=DIM, classes=(0, 1))


def _asked() -> bytes:
    """The question of the first step."""
    return pack_step(_RUN, _network().terms, 1, 1, np.empty(0))


@functools.cache
def _made() -> dict[str, Any]:
    """Directories of real runs, as their files, and records of them."""
    rng, found = np.random.default_rng(0), {}
    X, y = _rows()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _leave_a_run(folder / "left")
        found["left"] = {path.relative_to(folder / "left"): path.read_bytes()
                         for path in (folder / "left").rglob("*") if path.is_file()}  # fmt: skip
        save_model(_bare(), folder / "model")
        Registry(folder / "shelf").publish(folder / "model", "m", allow_not_private=True)
        found["shelf"] = {path.relative_to(folder / "shelf"): path.read_bytes()
                          for path in (folder / "shelf").rglob("*") if path.is_file()}  # fmt: skip
        asking = LDPSGD(epsilon=1.0, horizon=4, random_state=1)
        asking.declare_classes([0, 1])
        collector = Collector(asking, DIM)
        device, found["questions"] = _device(folder / "device"), []
        for n in range(2):
            found["questions"].append(collector.ask())
            collector.tell(device.answer(found["questions"][n], lambda n: (X[n], y[n])))
        found["answers"] = (folder / "device" / "answers.jsonl").read_bytes()
        place = folder / "node"
        place.mkdir()
        facts = {"run": _RUN.hex(), "step": 1, "question": hashlib.sha256(_asked()).hexdigest()}
        _node(place)._write(facts | {"answer": "ab" * 9})
        found["node"] = (place / "node.json").read_bytes()
        found["reply"] = pack_step(_RUN, _network().terms, 1, 1, rng.normal(size=_network().dim))
    return found


def _bare() -> DPFTRL:
    return DPFTRL(epsilon=5.0, horizon=N, random_state=1).fit(*_rows())


@functools.cache
def _predictors() -> list[Predictor]:
    """What a service asks: a model of bare features, and one with a schema."""
    X, y = _rows()
    table = pa.table({"a": X[:, 0], "town": ["u", "v", "w"] * (N // 3), "y": y})
    schema = {"columns": {"a": {"range": [-1, 1]}, "town": {"levels": ["u", "v", "w"]}}, "target": {"column": "y",
              "negative": 0, "positive": 1}}  # fmt: skip
    learner = DPFTRL(epsilon=5.0, horizon=N, random_state=1).fit_stream(open_stream(table, schema=schema))
    return [Predictor(_bare(), None), Predictor(learner, {"schema": Schema.load(schema).to_record()})]


def seeds(kind: str) -> list[bytes]:
    """Inputs that are right."""
    made = _made()
    if kind in ("plan", "journal", "checkpoint"):
        path = next(path for path in made["left"] if str(path).startswith(_FILES[kind]))
        return [made["left"][path]]
    if kind in ("manifest", "current"):
        return [made["shelf"][Path(_FILES[kind])]]
    if kind == "request":
        return [
            b'0{"rows": [[0.5, -1, 1e-3], [1, 2, 3]]}',
            b'1{"rows": [{"a": 0.5, "town": "u"}, {"town": "w", "a": -1}]}',
            b'1{"rows": [[0.25, "v"]]}',
        ]
    if kind == "table-request":
        plain = pa.table({name: np.arange(4.0) for name in "abc"})
        mixed = pa.table({"a": [0.5, 1.0], "town": pa.array(["u", "w"]).dictionary_encode()})
        return [b"0" + _streamed(plain), b"1" + _streamed(mixed)]
    if kind == "payload":
        rows = b'{"a": 0.5, "b": 1, "town": "u"}\n{"a": 1, "b": null, "town": "v"}'
        table = pa.table({"a": [0.5, 1.0], "b": [1.0, 2.0], "town": ["u", "v"]})
        return [b"0" + rows, b"1" + b"0.5,1,u\n1,,v\n", b"2" + _streamed(table), b"30.5\x001\x00u"]
    return [made[kind]]


def _streamed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


_FILES = {
    "plan": "secret/run.json",
    "journal": "ledger.jsonl",
    "checkpoint": "secret/checkpoint-",
    "manifest": "m/000001/manifest.json",
    "current": "m/current.json",
}


# ---- mutations ----------------------------------------------------------------------------------------------


def mutate(kind: str, data: bytes, rng: random.Random) -> bytes:
    """One change of an input, as of ``fuzz_records.mutate``; checksums are made good again."""
    if kind == "journal":
        return fuzz_records.mutate("ledger", data, rng)
    if kind in ("plan", "manifest", "current") and rng.random() < 0.6:
        try:
            changed = fuzz_records._changed(json.loads(data), rng)
            if kind == "plan" and isinstance(changed, dict):
                changed["sha256"] = digest_of({key: value for key, value in changed.items() if key != "sha256"})
            return _canonical(changed) if kind == "manifest" else fuzz_records._dump(changed)
        except (ValueError, RecursionError, TypeError):
            pass
    if kind == "answers" and rng.random() < 0.6:
        try:
            lines = [fuzz_records._changed(json.loads(line), rng) for line in data.splitlines()]
            for line in lines[1:]:
                if rng.random() < 0.7:
                    line["sum"] = hashlib.sha256(base64.b64decode(line["answer"], validate=True)).hexdigest()
            return b"\n".join(map(fuzz_records._dump, lines)) + b"\n"
        except (ValueError, RecursionError, TypeError, KeyError):
            pass
    if kind == "node" and rng.random() < 0.6:
        try:
            changed = fuzz_records._changed(json.loads(data), rng)
            if isinstance(changed, dict):
                changed["sum"] = _sum(changed)
            return fuzz_records._dump(changed)
        except (ValueError, RecursionError, TypeError):
            pass
    if kind == "request" and rng.random() < 0.6:
        try:
            return data[:1] + fuzz_records._dump(fuzz_records._changed(json.loads(data[1:]), rng))
        except (ValueError, RecursionError):
            pass
    if kind == "reply" and rng.random() < 0.5 and len(data) > 64:
        at = len(data) - 8 * rng.randrange(1, 4)
        odd = rng.choice((0.0, -1.0, 1e308, float("nan"), float("inf")))
        return data[:at] + struct.pack("<d", odd) + data[at + 8 :]
    return fuzz_records.mutate(kind, data, rng)


# ---- checks -------------------------------------------------------------------------------------------------


def _laid_out(files: dict[Path, bytes], folder: Path, kind: str, data: bytes) -> Path:
    """Return a directory with these files, one of which is the input."""
    run = folder / "files"
    shutil.rmtree(run, ignore_errors=True)
    for path, content in files.items():
        (run / path).parent.mkdir(parents=True, exist_ok=True)
        (run / path).write_bytes(data if str(path).startswith(_FILES[kind]) else content)
    return run


def _taken_up(data: bytes, folder: Path, kind: str) -> None:
    run = _laid_out(_made()["left"], folder, kind, data)
    State(run).learner().fit_stream(_stream(), checkpoint=State(run, every=20))
    model = load_model(run)
    assert np.isfinite(model.coef_).all()
    assert model.n_rows_ == N
    model.guarantee_.sentence()


def check_plan(data: bytes, folder: Path) -> None:
    """A run whose plan is read goes on to its end, or is refused."""
    _taken_up(data, folder, "plan")


def check_journal(data: bytes, folder: Path) -> None:
    """As :func:`check_plan`: the journal says which checkpoint holds."""
    _taken_up(data, folder, "journal")


def check_checkpoint(data: bytes, folder: Path) -> None:
    """As :func:`check_plan`: a checkpoint that was changed is not used."""
    _taken_up(data, folder, "checkpoint")


def check_request(data: bytes, folder: Path) -> None:
    """What a service answers has a class and probabilities for each row, and no more rows than allowed."""
    predictor = _predictors()[data[:1] == b"1"]
    _answered(JSON, data[1:], predictor)


def check_table_request(data: bytes, folder: Path) -> None:
    """As :func:`check_request`, for a table of Arrow."""
    predictor = _predictors()[data[:1] == b"1"]
    _answered(ARROW, data[1:], predictor)


def _answered(kind: str, body: bytes, predictor: Predictor) -> None:
    found = answer_to(kind, body, predictor, MOST)
    assert 1 <= len(found.predictions) <= MOST
    assert set(found.predictions.tolist()) <= set(predictor.classes or ())
    assert found.probabilities is not None
    assert found.probabilities.shape == (len(found.predictions), 2)
    assert np.isfinite(found.probabilities).all()
    assert np.allclose(found.probabilities.sum(axis=1), 1.0)
    json.loads(answer_in_json(found, {}))
    answer_in_arrow(found, {})


def check_manifest(data: bytes, folder: Path) -> None:
    """A version that is read has the files that were published."""
    shelf = _laid_out(_made()["shelf"], folder, "manifest", data)
    version, content = Registry(shelf, create=False).read("m", 1)
    assert (version.name, version.number) == ("m", 1)
    assert all(content[name] == _made()["shelf"][Path("m/000001", name)] for name in content)


def check_current(data: bytes, folder: Path) -> None:
    """The only version there is, or none."""
    shelf = _laid_out(_made()["shelf"], folder, "current", data)
    assert Registry(shelf, create=False).version("m").number == 1


def _device(directory: Path) -> KeptDevice:
    return KeptDevice(directory, n_features=DIM, epsilon=1.0, reports=3, random_state=3)


def check_answers(data: bytes, folder: Path) -> None:
    """A device whose record is read has made at most as many reports as it has whole lines, and repeats them."""
    place = folder / "device"
    place.mkdir(exist_ok=True)
    (place / "answers.jsonl").write_bytes(data)
    device, (X, y) = _device(place), _rows()
    made = device.n_reports
    assert made <= max(data.count(b"\n") - 1, 0)
    answer = device.answer(_made()["questions"][0], lambda n: (X[n], y[n]))
    assert answer == device.answer(_made()["questions"][0], lambda n: (X[n], y[n]))
    assert made <= device.n_reports <= made + 1


def check_reply(data: bytes, folder: Path) -> None:
    """A node's answer that is read has finite numbers, and the bytes of what was read."""
    numbers = parse_reply(data, _network(), _RUN, 1, 1)
    assert np.isfinite(numbers).all()
    assert pack_step(_RUN, _network().terms, 1, 1, numbers) == data


def check_node(data: bytes, folder: Path) -> None:
    """A node whose record is read repeats the answer that is in it, or begins, which needs its rows."""
    place = folder / "node"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    (place / "node.json").write_bytes(data)
    answer = _node(place).answer(_asked(), _no_rows)
    assert answer.hex() == json.loads(data)["answer"]


def _no_rows() -> Any:
    raise StateError("rows are not to be learnt here")


def check_payload(data: bytes, folder: Path) -> None:
    """Messages of a broker that are read have as many rows as they say."""
    facts, choice = Facts(name="messages"), data[:1]
    if choice == b"3":
        cells: Any = dict(zip((name.encode() for name in NAMES), data[1:].split(b"\0"), strict=False))
        _, payloads, _ = payloads_of(None, cells, facts, OPTIONS)
        data = cells
    else:
        format = {b"1": "csv", b"2": "arrow"}.get(choice, "jsonl")
        data = data[1:]
        _, payloads, _ = payloads_of(format, data, facts, OPTIONS)
    sizes = payloads.put([data])
    kinds: Any = dict.fromkeys(payloads.columns.names, "cells")
    payloads.columns.check(kinds)
    rows = sum(batch.num_rows for batch in payloads.columns.batches(kinds, 100, lambda _: None))
    # a line of text may turn out not to be a row, which its reader compares
    assert rows <= sum(sizes)
    assert sizes[0] >= 1


CHECKS: dict[str, Callable[[bytes, Path], None]] = {
    "plan": check_plan,
    "journal": check_journal,
    "checkpoint": check_checkpoint,
    "request": check_request,
    "table-request": check_table_request,
    "manifest": check_manifest,
    "current": check_current,
    "answers": check_answers,
    "reply": check_reply,
    "node": check_node,
    "payload": check_payload,
}
TARGETS = Targets(CHECKS, seeds, mutate, (PrivolError, InvalidMessage, Refused))

if __name__ == "__main__":
    drive("fuzz_doors", ROOMS)
