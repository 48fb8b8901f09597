"""Fuzz targets of the readers of records and of binary files: ledgers, guarantees, schemas, models, messages, tables.

``python tests/core/fuzz/fuzz_records.py ledger -max_total_time=600`` runs one of them under atheris (libFuzzer); the
suite runs mutations of the seeds through the same checks. Mutations replace values of a JSON record, also deep in it,
and make checksums good again, so that they come past the first check; or they change bytes. A check accepts an error of
privol, and a record that is read and used without any other; what is read, and what it must agree with, is in its
docstring.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import io
import json
import math
import random
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner
from fuzz_targets import Targets, drive

from privol import DPFTRL, PIGD
from privol.encoding.schema import Schema
from privol.errors import InvalidMessage, PrivolError
from privol.guarantees import Guarantee
from privol.ledger import Ledger
from privol.ledger._journal import _digest
from privol.readers.source_urls import is_source, is_url, parsed, shown, to_keep
from privol.rounds._messages import (
    _FIXED,
    _POINT_AT,
    HEAD_BYTES,
    pack_answer,
    pack_question,
    parse_answer,
    parse_question,
)
from privol.state import load_model, read_record, save_model
from privol.state._models import digest_of
from privol.streams import open_stream
from privol.verifying.checker import Unreadable, verdict, verify

#: What may stand in the place of any value.
ODD = (
    None, True, False, 0, 1, -1, 2**53 + 1, 10**400, 0.5, -0.0, 1e-320, 1e308, math.inf, -math.inf, math.nan, "", "inf",
    "nan", "1", "\0", "\ud800", "é" * 300, [], {}, [[]], {"": None}, [1, "a"], "replace", "user", "gdp", "pure",
)  # fmt: skip
#: What may come between any two bytes; the last ones are deeper, and have more digits, than Python's parsers take.
PIECES = (
    b"\0",
    b"\xff",
    b"9" * 40,
    b'"',
    b"[",
    b"}",
    b"\n",
    b"-",
    b"1e999",
    b"%",
    b"[" * 3000,
    b'{"a":' * 3000,
    b"9" * 5000,
)
DIM = 3
ROOMS = (
    "privol.ledger", "privol.guarantees", "privol.encoding", "privol.state", "privol.verifying", "privol.rounds",
    "privol.readers", "privol.streams",
)  # fmt: skip


# ---- mutations ----------------------------------------------------------------------------------------------


def _places(record: Any) -> Iterator[tuple[Any, Any]]:
    """All places of a record: a container and a key of it."""
    if isinstance(record, (dict, list)):
        for key in list(record) if isinstance(record, dict) else range(len(record)):
            yield record, key
            yield from _places(record[key])


def _changed(record: Any, rng: random.Random) -> Any:
    """A copy of a record of which some values are replaced, scaled, left out or exchanged."""
    record = copy.deepcopy(record)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        places = list(_places(record))
        if not places:
            break
        (holder, key), (other, place) = rng.choice(places), rng.choice(places)
        value, how = holder[key], rng.randrange(6)
        if how == 0:
            del holder[key]
        elif how == 1 and isinstance(value, (int, float)) and not isinstance(value, bool):
            holder[key] = value * rng.choice((-1, 0, 0.5, 2, 1 + 1e-9)) if abs(value) < 1e300 else 1
        elif how == 2:
            holder[key] = copy.deepcopy(other[place])
        else:
            holder[key] = rng.choice(ODD)
    return record


def _dump(record: Any) -> bytes:
    try:
        return json.dumps(record).encode()
    except (TypeError, ValueError):
        return b"{}"


def _chained(lines: list[Any]) -> bytes:
    """Records of a journal, numbered, with good checksums."""
    digest, out = "", []
    for record in lines:
        if isinstance(record, dict):
            record = {key: value for key, value in record.items() if key != "sha256"}
            try:
                digest = _digest(digest, record)
            except (TypeError, ValueError):  # what JSON does not have: no writer could have signed it
                continue
            record = {**record, "sha256": digest}
        out.append(_dump(record))
    return b"\n".join(out) + b"\n"


def mutate(kind: str, data: bytes, rng: random.Random) -> bytes:
    """One change of an input: of its values where it is JSON, in half of the cases, else of its bytes."""
    if kind in _JSON and rng.random() < 0.6:
        try:
            if kind == "ledger":
                return _chained(_changed([json.loads(line) for line in data.splitlines()], rng))
            changed = _changed(json.loads(data), rng)
            if kind == "model" and isinstance(changed, dict):
                changed["sha256"] = digest_of({key: value for key, value in changed.items() if key != "sha256"})
            return _dump(changed)
        except (ValueError, RecursionError):
            pass
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(changed) + 1)
        how = rng.randrange(5)
        if how == 0 and changed:
            changed[at % len(changed)] ^= 1 << rng.randrange(8)
        elif how == 1:
            del changed[at : at + rng.choice((1, 2, 7, 40))]
        elif how == 2:
            changed[at:at] = rng.choice(PIECES)
        elif how == 3:
            changed[at:at] = changed[rng.randrange(len(changed) + 1) :][:30]
        else:
            changed = changed[:at]
    return bytes(changed)


# ---- seeds --------------------------------------------------------------------------------------------------


@functools.cache
def _made() -> dict[str, bytes]:
    """Records of real runs."""
    from privol.cli.app import app

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, DIM)) / 4
    y = (X[:, 0] > 0).astype(int)
    found: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with closing(Ledger(epsilon=4.0, delta=1e-6, journal=folder / "own.jsonl")) as ledger:
            PIGD(epsilon=1.0, ledger=ledger, random_state=0).fit(X, y)
            learner = DPFTRL(epsilon=1.0, horizon=60, ledger=ledger, random_state=1).fit(X, y)
        found["ledger"] = (folder / "own.jsonl").read_bytes()
        found["guarantee"] = learner.guarantee_.to_json().encode()
        save_model(learner, folder / "model")
        found["model"] = (folder / "model" / "model.json").read_bytes()
        found["arrays"] = (folder / "model" / "model.npz").read_bytes()
        np.savetxt(folder / "t.csv", np.column_stack([X, y]), delimiter=",", header="a,b,c,y", comments="")
        words = ["run", str(folder / "t.csv"), "--target", "y", "--classes", "0.0,1.0", "--x-bound", "2", "--quiet"]
        words += ["--no-diagnostics", "--seed", "1", "--rows-per-user", "2"]
        CliRunner().invoke(app, [*words, "--out", str(folder / "run")], catch_exceptions=False)
        found["run"] = (folder / "run" / "run.json").read_bytes()
        found["journal of the run"] = (folder / "run" / "ledger.jsonl").read_bytes()
    return found


def _binary(kind: str) -> bytes:
    """A small table of numbers as a file."""
    rng, file = np.random.default_rng(0), io.BytesIO()
    rows = np.column_stack([rng.normal(size=(20, DIM)), np.arange(20) % 2])
    if kind == "npy":
        np.save(file, rows)
        return file.getvalue()
    table = pa.table({name: rows[:, j] for j, name in enumerate("abcy")})
    if kind == "parquet":
        pq.write_table(table, file, row_group_size=12)
    else:
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    return file.getvalue()


_SCHEMA = b"""
others = "refuse"
[file]
missing = ["", "NA"]
[target]
column = "y"
negative = ["0"]
positive = ["1"]
[columns.a]
range = [0, 10]
[columns."b c"]
levels = ["x", "y"]
[columns.d]
drop = true
[columns.e]
levels = ["u", "v", "w"]
[[cross]]
columns = ["b c", "e"]
"""
_URLS = (
    b"postgresql://me:pa%20ss@host:5432/db?table=t&order=id",
    b"sqlite:///a/b.db?query=select%20*%20from%20t&order=id",
    b"duckdb:///x.duckdb?table=t",
)
_PLACE = bytes(range(1, 1 + HEAD_BYTES - _FIXED.size))
_TERMS = bytes(_POINT_AT - HEAD_BYTES)
_POINT = np.arange(DIM, dtype=np.float64)


def seeds(kind: str) -> list[bytes]:
    """Inputs that are right."""
    if kind == "schema":
        return [_SCHEMA]
    if kind == "schema-record":
        return [json.dumps(tomllib.loads(_SCHEMA.decode())).encode()]
    if kind == "url":
        return list(_URLS)
    if kind == "answer":
        return [pack_answer(_PLACE, _POINT)]
    if kind == "question":
        return [pack_question(_PLACE, _TERMS, _POINT)]
    if kind in ("parquet", "arrow", "npy"):
        return [_binary(kind)]
    return [_made()[kind]]


# ---- checks -------------------------------------------------------------------------------------------------


def check_ledger(data: bytes, folder: Path) -> None:
    """A journal that is read spends no negative amount, and says its sentence."""
    path = folder / "ledger.jsonl"
    path.write_bytes(data)
    ledger = Ledger.read(path)
    assert ledger.spent.mu >= 0.0
    assert all(entry.mu_squared >= 0.0 for entry in ledger.entries())
    ledger.sentence(1e-6)


def check_guarantee(data: bytes, folder: Path) -> None:
    """A guarantee that is read says its sentence, and is the same when it is written and read again."""
    found = Guarantee.from_json(data.decode("utf-8", "replace"))
    assert Guarantee.from_json(found.to_json()) == found
    assert found.sentence()
    assert found.summary()
    assert found.epsilon(1e-6) >= 0.0


def check_schema(data: bytes, folder: Path) -> None:
    """A schema that is read is the same when its record is read."""
    path = folder / "schema.toml"
    path.write_bytes(data)
    check_schema_record(json.dumps(Schema.load(path).to_record()).encode(), folder)


def check_schema_record(data: bytes, folder: Path) -> None:
    """As :func:`check_schema`, from a record in JSON."""
    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        return
    found = Schema.load(record)
    assert Schema.load(json.loads(json.dumps(found.to_record()))) == found


def _model(folder: Path, changed: str, data: bytes) -> None:
    model = folder / "model"
    model.mkdir(exist_ok=True)
    for name, kind in (("model.json", "model"), ("model.npz", "arrays")):
        (model / name).write_bytes(data if kind == changed else _made()[kind])
    if changed == "arrays":
        record = json.loads(_made()["model"])
        record["arrays"]["sha256"] = hashlib.sha256(data).hexdigest()
        record["sha256"] = digest_of({key: value for key, value in record.items() if key != "sha256"})
        (model / "model.json").write_text(json.dumps(record), encoding="utf-8")
    learner = load_model(model)
    read_record(model)
    assert np.isfinite(learner.coef_).all()
    learner.predict(np.zeros((1, DIM)))
    learner.guarantee_.sentence()


def check_model(data: bytes, folder: Path) -> None:
    """A model that is read predicts, from finite weights."""
    _model(folder, "model", data)


def check_arrays(data: bytes, folder: Path) -> None:
    """As :func:`check_model`, of arrays whose checksum was made good again."""
    _model(folder, "arrays", data)


def check_run(data: bytes, folder: Path) -> None:
    """The checker has a verdict on any record, or says that it is damaged."""
    (folder / "run.json").write_bytes(data)
    (folder / "ledger.jsonl").write_bytes(_made()["journal of the run"])
    assert verdict(verify(folder)) in ("holds", "does not hold", "not checked")


def check_answer(data: bytes, folder: Path) -> None:
    """A message that is read has finite numbers, and the bytes of what was read."""
    place, report, square = parse_answer(data, DIM)
    assert math.isfinite(square)
    assert pack_answer(place, report) == data


def check_question(data: bytes, folder: Path) -> None:
    """As :func:`check_answer`."""
    place, terms, point = parse_question(data, DIM)
    assert np.isfinite(point).all()
    assert pack_question(place, terms, point) == data


def _table(data: bytes, path: Path) -> None:
    path.write_bytes(data)
    rows = sum(len(block.y) for block in open_stream(path, classes=(0, 1), target=DIM))
    assert rows > 0


def check_parquet(data: bytes, folder: Path) -> None:
    """A table that is read has rows; none ends the process."""
    _table(data, folder / "t.parquet")


def check_arrow(data: bytes, folder: Path) -> None:
    """As :func:`check_parquet`."""
    _table(data, folder / "t.arrow")


def check_npy(data: bytes, folder: Path) -> None:
    """As :func:`check_parquet`."""
    _table(data, folder / "t.npy")


def check_url(data: bytes, folder: Path) -> None:
    """No password of a URL is in what is shown of it."""
    text = data.decode("utf-8", "surrogateescape")
    assert is_url(to_keep(text)) == is_url(text)
    shown(f"{text} cannot be read: {text}", [text])
    if is_source(text):
        found = parsed(text)
        assert not any(secret in found.hidden(text) for secret in found.secrets if len(secret) > 3)


CHECKS: dict[str, Callable[[bytes, Path], None]] = {
    "ledger": check_ledger,
    "guarantee": check_guarantee,
    "schema": check_schema,
    "schema-record": check_schema_record,
    "model": check_model,
    "arrays": check_arrays,
    "run": check_run,
    "answer": check_answer,
    "question": check_question,
    "url": check_url,
    "parquet": check_parquet,
    "arrow": check_arrow,
    "npy": check_npy,
}
_JSON = ("ledger", "guarantee", "model", "run", "schema-record")
TARGETS = Targets(CHECKS, seeds, mutate, (PrivolError, InvalidMessage, Unreadable))

if __name__ == "__main__":
    drive("fuzz_records", ROOMS)
