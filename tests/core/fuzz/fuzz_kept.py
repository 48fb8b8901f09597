"""Fuzz targets of what runs leave beside their models: files of a run, sealed releases, what taught, arenas, arrays.

``python tests/core/fuzz/fuzz_kept.py npz -max_total_time=600`` runs one of them under atheris (libFuzzer); the suite
runs mutations of the seeds through the same checks. They are as those of ``fuzz_records.py``.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import random
import re
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fuzz_records
import numpy as np
import scipy.sparse as sp
from click.testing import CliRunner
from fuzz_targets import Targets, drive

from privol import OutputPerturbation
from privol.arena.board import Board
from privol.arena.results import Results
from privol.arena.specs import Prepared, Spec
from privol.cli.brief import brief_report
from privol.cli.page_of_run import page_of
from privol.cli.predict import has_model
from privol.cli.records import fields_of, read_run
from privol.encoding.ranges import Ranges
from privol.errors import PrivolError
from privol.ledger import Ledger
from privol.state import SealedRelease, State, load_model
from privol.state._models import digest_of
from privol.streams import open_stream
from privol.verifying.checker import Unreadable, verdict, verify

ROOMS = (
    "privol.state", "privol.ledger", "privol.verifying", "privol.readers", "privol.streams", "privol.encoding",
    "privol.arena", "privol.cli", "privol.tables",
)  # fmt: skip
N, DIM = 60, 3
SETTINGS = {"rows": 60, "seeds": [1]}


# ---- seeds --------------------------------------------------------------------------------------------------


class _Killed(SealedRelease):
    """Its process ends when the model is paid for, and before it is shown."""

    def settled(self) -> None:
        raise KeyboardInterrupt


def _files(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _blocks(key: bytes) -> Iterator[Any]:
    """Rows that taught."""
    X, seen = np.arange(4.0 * DIM).reshape(4, DIM), np.frombuffer(hashlib.sha256(key).digest(), dtype=np.uint64)
    yield SimpleNamespace(X=X, y=np.array([0.0, 1.0, 1.0, 0.0]), seen=seen)


@functools.cache
def _made() -> dict[str, Any]:
    """Files of real runs."""
    from privol.cli.app import app

    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, DIM)) / 4
    y = (X[:, 0] > 0).astype(int)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savetxt(folder / "t.csv", np.column_stack([X, y]), delimiter=",", header="a,b,c,y", comments="")
        ranges = "".join(f"[columns.{name}]\nrange = [-1, 1]\n" for name in "abc")
        (folder / "s.toml").write_text(f'{ranges}[target]\ncolumn = "y"\nnegative = ["0.0"]\npositive = ["1.0"]\n')
        words = ["run", str(folder / "t.csv"), "--schema", str(folder / "s.toml"), "--quiet", "--seed", "1"]
        done = CliRunner().invoke(app, [*words, "--out", str(folder / "run")], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        found["run"] = _files(folder / "run")
        words = ["info", str(folder / "t.csv"), "--target", "y", "--private", "--epsilon", "40"]
        CliRunner().invoke(app, [*words, "--out", str(folder / "encoding")], catch_exceptions=False)
        found["encoding"] = _files(folder / "encoding")
        (folder / "sealed").mkdir()
        ledger = Ledger(epsilon=4.0, delta=1e-6, journal=folder / "sealed" / "ledger.jsonl")
        with closing(ledger), suppress(KeyboardInterrupt):
            learner = OutputPerturbation(epsilon=1.0, x_bound=2.0, ledger=ledger, random_state=1)
            learner.fit_stream(open_stream((X, y), classes=(0, 1)), seal=_Killed(folder / "sealed"))
        found["sealed"] = _files(folder / "sealed")
        State(folder / "taught").keep_taught(_blocks, 4)
        found["taught"] = (folder / "taught" / "secret" / "taught.json").read_bytes()
        results = Results(folder / "arena", SETTINGS)
        results.know(*_stream("a"))
        for seed, epsilon in enumerate((1.0, "inf", None)):
            results.add(_DONE | {"epsilon": epsilon, "seed": seed})
        results.add(_DONE | {"status": "no model", "reason": "too few rows"})
        found["arena"] = b"".join((folder / "arena" / name).read_bytes() for name in ("arena.json", "results.jsonl"))
    return found


_FIGURES = {"auc": 0.75, "log_loss": 0.5, "accuracy": None}
_DONE = {
    "stream": "a", "entrant": "sgd", "epsilon": 1.0, "seed": 7, "status": "done", "rows_per_second": 1e3,
    "figures": dict.fromkeys(("second_half", "held_out", "all"), _FIGURES),
}  # fmt: skip


def _stream(name: str) -> tuple[Spec, Prepared]:
    paths = {"path": "a.csv", "held_path": "b.csv", "schema": None}
    rows = Prepared(name=name, seed=1, target="y", rows=40, held=20, classes=("0", "1"), digest="00", **paths)
    return Spec(name=name, file="a.csv"), rows


def _archives() -> list[bytes]:
    """Tables as they are in memory, in the forms that NumPy and SciPy write."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(8, DIM)).round(2), np.arange(8) % 2
    table, small = sp.csr_matrix(np.where(X > 0, X, 0.0)), [io.BytesIO() for _ in range(3)]
    np.savez(small[0], X=X, y=y)
    np.savez_compressed(small[1], X=X, y=y)
    parts = {"indices": table.indices, "indptr": table.indptr, "data": table.data}
    np.savez(small[2], format=b"csr", shape=np.array(table.shape), y=y, **parts)
    return [file.getvalue() for file in small]


def seeds(kind: str) -> list[bytes]:
    """Inputs that are right."""
    if kind == "npz":
        return _archives()
    if kind == "ranges":
        return [b'{"a": [0, 10], "c": [-1.5, 2e3], "b": null}', b'{"0": [0, 1], " 2 ": [-1, 1]}']
    if kind in _OF_RUN:
        return [_run_with(kind)[Path(_OF_RUN[kind])]]
    if kind == "card":
        whole = json.loads(_made()["run"][Path("run.json")])
        return [fuzz_records._dump(whole), fuzz_records._dump({**whole, "status": "interrupted", "diagnostics": None})]
    if kind == "sealed":
        files = _made()["sealed"]
        return [files[Path("secret/account.json")] + b"\n" + files[Path("secret/model.json")]]
    return [_made()[kind]]


#: Of which file of a run a kind is.
_OF_RUN = {"run-ledger": "ledger.jsonl", "run-model": "model.json", "run-schema": "schema.toml"}
#: What may stand in the place of a value of TOML.
_ODD = (b"inf", b"nan", b"-1", b"0", b"1e400", b"true", b'""', b"[]", b"{}", b"[[1]]", b"1979-05-27", b"9" * 400)


def _run_with(kind: str) -> dict[Path, bytes]:
    """The files of a run that has a file of a kind: an encoding alone has a schema."""
    return dict(_made()["encoding" if kind == "run-schema" else "run"])


# ---- mutations ----------------------------------------------------------------------------------------------


def _signed(record: Any) -> Any:
    """A record with a good checksum, where it can have one."""
    if isinstance(record, dict):
        with suppress(ValueError, TypeError):
            record["sha256"] = digest_of({key: value for key, value in record.items() if key != "sha256"})
    return record


def _with_another_member(data: bytes, rng: random.Random) -> bytes:
    """An archive of which an array is changed, with the checksum of what it has become."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    how, into = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)), io.BytesIO()
    name = rng.choice(list(members))
    members[name] = fuzz_records.mutate("npy", members[name], rng)
    with zipfile.ZipFile(into, "w", how) as archive:
        for each, content in members.items():
            archive.writestr(each, content)
    return into.getvalue()


def _with_another_head(data: bytes, rng: random.Random) -> bytes:
    """An archive of which one field of its directory, or of a head, is changed."""
    changed = bytearray(data)
    mark = rng.choice((b"PK\x01\x02", b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06"))
    found = changed.find(mark, rng.randrange(len(changed)) if rng.random() < 0.5 else 0)
    at = max(found, 0) + rng.randrange(4, 46)
    if at + 2 <= len(changed):
        if rng.random() < 0.5:
            changed[at] ^= 1 << rng.randrange(8)
        else:
            struct.pack_into("<H", changed, at, rng.choice((0, 1, 8, 12, 14, 93, 99, 0xFFFF)))
    return bytes(changed)


def mutate(kind: str, data: bytes, rng: random.Random) -> bytes:
    """One change of an input, as of ``fuzz_records.mutate``; checksums are made good again."""
    if kind == "run-ledger":
        return fuzz_records.mutate("ledger", data, rng)
    try:
        if kind == "npz" and rng.random() < 0.8:
            return (_with_another_member if rng.random() < 0.6 else _with_another_head)(data, rng)
        if kind in ("card", "ranges", "taught", "run-model") and rng.random() < 0.7:
            changed = fuzz_records._changed(json.loads(data), rng)
            return fuzz_records._dump(_signed(changed) if kind == "run-model" else changed)
        if kind == "run-schema" and rng.random() < 0.6:
            values = list(re.finditer(rb"(?<== )[^\n]+|-?\d[\d.]*", data))
            at = rng.choice(values)
            return data[: at.start()] + rng.choice(_ODD) + data[at.end() :]
        if kind == "sealed" and rng.random() < 0.8:
            account, _, model = data.partition(b"\n")
            record = fuzz_records._dump(_signed(fuzz_records._changed(json.loads(model), rng)))
            bound = {**json.loads(account), "record": hashlib.sha256(record).hexdigest()}
            if rng.random() < 0.3:
                bound = fuzz_records._changed(bound, rng)
            return fuzz_records._dump(bound) + b"\n" + record
        if kind == "arena" and rng.random() < 0.7:
            about, lines = _parts(data)
            changed = fuzz_records._changed([json.loads(about), [json.loads(line) for line in lines.splitlines()]], rng)
            return b"\n".join([_dumped(changed[0]), b"}", *map(fuzz_records._dump, changed[1])]) + b"\n"
    except (ValueError, RecursionError, TypeError, IndexError, KeyError, zipfile.BadZipFile, RuntimeError, EOFError):
        pass  # an input that was changed before
    except Exception as error:
        if type(error).__name__ not in ("error", "LZMAError", "OSError"):  # of zlib, and of others that compress
            raise
    return fuzz_records.mutate(kind, data, rng)


def _dumped(about: Any) -> bytes:
    """A record whose last line is a brace, as :class:`Results` writes it."""
    return fuzz_records._dump(about)[:-1]


def _parts(data: bytes) -> tuple[bytes, bytes]:
    """The two files of an arena: the first ends with a brace that stands alone."""
    about, mark, lines = data.partition(b"\n}\n")
    return about + mark, lines


# ---- checks -------------------------------------------------------------------------------------------------


def check_npz(data: bytes, folder: Path) -> None:
    """A table that is read has rows; none ends the process."""
    path = folder / "t.npz"
    path.write_bytes(data)
    assert sum(block.X.shape[0] for block in open_stream(path, classes=(0, 1))) > 0


def _laid_out(files: dict[Path, bytes], folder: Path) -> Path:
    run = folder / "files"
    shutil.rmtree(run, ignore_errors=True)
    for path, content in files.items():
        (run / path).parent.mkdir(parents=True, exist_ok=True)
        (run / path).write_bytes(content)
    return run


def _check_run(kind: str, data: bytes, folder: Path) -> None:
    files = {path: content for path, content in _run_with(kind).items() if path.suffix in (".json", ".jsonl")}
    run = _laid_out(files | {Path(_OF_RUN[kind]): data}, folder)
    assert verdict(verify(run)) in ("holds", "does not hold", "not checked")


def check_run_ledger(data: bytes, folder: Path) -> None:
    """The checker has a verdict on any journal of a run, or says that it is damaged."""
    _check_run("run-ledger", data, folder)


def check_run_model(data: bytes, folder: Path) -> None:
    """As :func:`check_run_ledger`, of the record of a model."""
    _check_run("run-model", data, folder)


def check_run_schema(data: bytes, folder: Path) -> None:
    """As :func:`check_run_ledger`, of a schema."""
    _check_run("run-schema", data, folder)


def check_card(data: bytes, folder: Path) -> None:
    """A record of a run is said to have no model, shown on a screen, and on a page without what needs the model."""
    run = folder / "ended"
    run.mkdir(exist_ok=True)
    (run / "run.json").write_bytes(data)
    with suppress(PrivolError):
        has_model(str(run))
    record = read_run(run)
    with fields_of(run):
        brief_report(record)
    if hashlib.sha256(data).digest()[0] < 32:  # a page takes long
        (run / "run.json").write_bytes(fuzz_records._dump({**record, "releases": 0}))
        assert page_of(run, public=False)[0].startswith("<!doctype html>")


def check_sealed(data: bytes, folder: Path) -> None:
    """A model that was sealed and is shown is paid for by the account it was sealed with."""
    account, _, model = data.partition(b"\n")
    made = _made()["sealed"]
    run = _laid_out(made | {Path("secret/account.json"): account, Path("secret/model.json"): model}, folder)
    with closing(Ledger(epsilon=4.0, delta=1e-6, journal=run / "ledger.jsonl")) as ledger:
        SealedRelease(run).complete(ledger)
        assert all(entry.closed for entry in ledger.accounts)
        assert ledger.spent.mu > 0.0
    with suppress(PrivolError):  # what else is in its record is not the account's business
        load_model(run)


def check_taught(data: bytes, folder: Path) -> None:
    """A record of rows that taught knows how many there were, and accepts these and no others."""
    run = _laid_out({Path("encoding.json"): b"{}", Path("secret/taught.json"): data}, folder)
    assert State(run)._number_taught() >= 0
    State(run).check_taught(_blocks)
    digests = [json.loads(text)["digest"] for text in (data, _made()["taught"])]
    assert digests[0] is not None
    assert len(digests[0]) == len(digests[1])


def check_ranges(data: bytes, folder: Path) -> None:
    """Ranges that are read map any finite number into [-1, 1] where there is a range, and none to what is no number."""
    path = folder / "r.json"
    path.write_bytes(data)
    X = np.array([[0.0, 1.0, -1.0], [1e308, -1e308, 5e-324], [-2.5, 7.0, 1e-300]])
    names = None if b'"0"' in data else ("a", "b", "c")
    found = Ranges(path, DIM, names)
    rows = found.rows(X, "it", 1)
    assert np.isfinite(rows).all()
    if found.row_bound is not None:
        assert np.abs(rows).max() <= 1.0


def check_arena(data: bytes, folder: Path) -> None:
    """Results that are read are the same when they are read again, and go on with their streams."""
    about, lines = _parts(data)
    place = _laid_out({Path("arena.json"): about, Path("results.jsonl"): lines}, folder)
    found = Results(place, SETTINGS)
    assert sum(not found.wants(key) for key in found.records) <= len(found.records)
    assert len(Results(place, SETTINGS).records) == len(found.records)
    found.know(*_stream("a"))
    assert Board(found).lines()
    found.add(_DONE)
    assert any(key.seed == 7 for key in Results(place, SETTINGS).records)


CHECKS: dict[str, Callable[[bytes, Path], None]] = {
    "npz": check_npz,
    "run-ledger": check_run_ledger,
    "run-model": check_run_model,
    "run-schema": check_run_schema,
    "card": check_card,
    "sealed": check_sealed,
    "taught": check_taught,
    "ranges": check_ranges,
    "arena": check_arena,
}
TARGETS = Targets(CHECKS, seeds, mutate, (PrivolError, Unreadable))

if __name__ == "__main__":
    drive("fuzz_kept", ROOMS)
