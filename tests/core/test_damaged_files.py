"""Files with one wrong value, as an attacker or a disk leaves them: an error of privol names the file."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile

import numpy as np
import pytest
from cli_tools import privol_cli

from privol import DPFTRL
from privol.arena.results import Results
from privol.cli.app import IO
from privol.cli.page_of_run import page_of
from privol.cli.records import fields_of, read_run
from privol.encoding.ranges import Ranges
from privol.errors import InvalidParameter, StateError, StreamError
from privol.reproduce.sets import _opened
from privol.state import State, load_model, save_model
from privol.state._models import digest_of
from privol.streams import open_stream

X = np.random.default_rng(0).normal(size=(40, 3)) / 4
Y = (X[:, 0] > 0).astype(int)
DEEP = "[" * 200_000


def _encrypted(data: bytes) -> bytes:
    """It says that its first array is encrypted."""
    changed = bytearray(data)
    changed[changed.find(b"PK\x01\x02") + 8] |= 1
    return bytes(changed)


def _unknown(data: bytes) -> bytes:
    """Its first array is compressed by a method that nobody knows."""
    changed = bytearray(data)
    for mark, at in ((b"PK\x01\x02", 10), (b"PK\x03\x04", 8)):
        changed[changed.find(mark) + at] = 77
    return bytes(changed)


def _packed(how):
    """Its arrays are what another program has compressed, and then were damaged."""

    def change(data: bytes) -> bytes:
        into = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(into, "w", how) as other:
            for name in archive.namelist():
                other.writestr(name, archive.read(name))
        changed = bytearray(into.getvalue())
        changed[50:90] = bytes(40)
        return bytes(changed)

    return change


CHANGES = {
    "encrypted": _encrypted,
    "unknown": _unknown,
    "cut": lambda data: data[:-30],
    "no-archive": lambda data: b"PK" + data[2:90],
    "zlib": _packed(zipfile.ZIP_DEFLATED),
    "bz2": _packed(zipfile.ZIP_BZIP2),
    "lzma": _packed(zipfile.ZIP_LZMA),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_archives_that_cannot_be_read(tmp_path, change):
    path = tmp_path / "e.npz"
    np.savez(path, X=X, y=Y)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(StreamError, match=r"e\.npz: is not a readable \.npz file"):
        open_stream(path, classes=(0, 1))
    save_model(DPFTRL(epsilon=1.0, horizon=40, random_state=1).fit(X, Y), tmp_path / "m")
    arrays, record = tmp_path / "m" / "model.npz", json.loads((tmp_path / "m" / "model.json").read_text())
    arrays.write_bytes(change(arrays.read_bytes()))
    record["arrays"]["sha256"] = hashlib.sha256(arrays.read_bytes()).hexdigest()
    record["sha256"] = digest_of({key: value for key, value in record.items() if key != "sha256"})
    (tmp_path / "m" / "model.json").write_text(json.dumps(record))
    with pytest.raises(StateError, match=r"model\.npz is damaged, allowed are the arrays"):
        load_model(tmp_path / "m")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (DEEP, "is not the record of a run"),
        ("[]", "found list, allowed is an object"),
        ('{"format":"privol.run","version":1,"status":[],"rows":{}}', "allowed are a word and an integer"),
    ],
)
def test_a_damaged_record_of_a_run_has_no_card_and_no_report(tmp_path, text, said):
    (tmp_path / "run.json").write_text(text)
    found = privol_cli("card", str(tmp_path))
    assert found.exit_code == IO, found.stderr
    assert "run.json" in found.stderr
    assert said in " ".join(found.stderr.split())
    with pytest.raises(StateError, match=r"run\.json: (is not the record|lacks or garbles a field, allowed is)"):
        page_of(tmp_path, public=False)


def test_a_field_that_only_the_page_asks_for(tmp_path):
    (tmp_path / "run.json").write_text('{"format": "privol.run", "rows": []}')
    with (
        pytest.raises(StateError, match=r"run\.json: lacks or garbles a field, .*KeyError\('learner'\)"),
        fields_of(tmp_path),
    ):
        read_run(tmp_path)["learner"]
    with pytest.raises(InvalidParameter, match="mine"), fields_of(tmp_path):
        raise InvalidParameter("mine")


@pytest.mark.parametrize("text", [DEEP, '{"name": '])
def test_a_damaged_result_of_a_reproduction(tmp_path, text):
    from privol.cli.reproduce import _records
    from privol.reproduce import FIGURES

    path = tmp_path / f"{FIGURES[0].slug}.json"
    path.write_text(text)
    with pytest.raises(StreamError, match="is no result of privol reproduce"):
        _records(tmp_path)


def test_a_damaged_archive_of_a_paper(tmp_path):
    (tmp_path / "set.zip").write_bytes(b"PK\x03\x04")
    raised = pytest.raises(StreamError, match=r"set\.zip: is not a readable \.zip file of one file")
    with raised, _opened(tmp_path / "set.zip"):
        pass


_RIGHT = {"key": "00" * 32, "digest": "ab", "users": None, "number": 4}


@pytest.mark.parametrize(
    "wrong", [{"key": "00"}, {"key": "00" * 65}, {"digest": []}, {"users": 1}, {"number": "4"}, {"number": -1}]
)
def test_a_damaged_record_of_the_rows_that_taught(tmp_path, wrong):
    (tmp_path / "secret").mkdir()
    (tmp_path / "encoding.json").write_text("{}")
    (tmp_path / "secret" / "taught.json").write_text(json.dumps(_RIGHT))
    assert State(tmp_path)._number_taught() == 4
    (tmp_path / "secret" / "taught.json").write_text(json.dumps(_RIGHT | wrong))
    with pytest.raises(StateError, match=r"taught\.json: cannot be read: .*(allowed are|must be)"):
        State(tmp_path)._number_taught()


_LINE = {"stream": "a", "entrant": "b", "epsilon": 1.0, "seed": 1, "status": "done", "rows_per_second": 1.0}
_LINE |= {"figures": {"second_half": {"auc": 0.5}, "held_out": {"auc": None}, "all": {}}}


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("arena.json", {"settings": []}, r"arena\.json is damaged"),
        ("arena.json", {"streams": []}, r"arena\.json is damaged"),
        ("arena.json", {"streams": {"a": []}}, r"arena\.json is damaged"),
        ("arena.json", {"streams": {"a": {"seen": "", "rows": {}}}}, "allowed are 'seen', a text, and 'rows'"),
        ("arena.json", {"streams": {"a": {"seen": "", "rows": {"1": float("nan")}}}}, r"arena\.json is damaged"),
        ("results.jsonl", {"seed": float("inf")}, r"results\.jsonl, line 1: is damaged"),
        ("results.jsonl", {"epsilon": 10**400}, r"results\.jsonl, line 1: is damaged"),
        ("results.jsonl", {"stream": ["a"]}, "allowed are texts"),
        ("results.jsonl", {"status": None}, "allowed is a word"),
        ("results.jsonl", {"status": "failed", "reason": 1}, "allowed is a text"),
        ("results.jsonl", {"figures": {"second_half": {}}}, r"line 1: is damaged: 'held_out'"),
        ("results.jsonl", {"rows_per_second": "1"}, "allowed are finite numbers"),
    ],
)
def test_damaged_results_of_an_arena(tmp_path, file, text, said):
    place = tmp_path / "arena"
    Results(place, {}).add(_LINE)
    about = json.loads((place / "arena.json").read_text()) if file == "arena.json" else _LINE
    (place / file).write_text(json.dumps(about | text) + "\n")
    with pytest.raises(StateError, match=said):
        Results(place, {})


def test_ranges_of_a_feature_whose_number_nobody_can_read(tmp_path):
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"9" * 5000: [0, 1]}))
    with pytest.raises(StreamError, match="allowed are 0 to 2"):
        Ranges(path, 3, None)
