"""A short run of the fuzz targets: mutated seeds of every text format and record, and the findings of longer runs."""

from __future__ import annotations

import hashlib
import json
import math
import tarfile
from pathlib import Path

import fuzz_doors
import fuzz_kept
import fuzz_lines
import fuzz_records
import fuzz_small
import fuzz_streams
import pytest
from places import ROOT

from privol import ObjectivePerturbation
from privol._values import labels_of
from privol.errors import StateError
from privol.guarantees._arithmetic import times_up
from privol.learners.views import mechanism_of
from privol.verifying import checker

CORPORA = Path(__file__).parent / "fuzz" / "corpora"


# Inputs that the parsers once read differently from the plain readers.
FOUND = [
    ("csv", b"\x08\x10 \x00a,b,t\n\xef\xbb\xbf1,2,0\n3,4,1\n5,6,0\n"),
    ("csv", b"\x00\x03\x03\x00\r\n\xef\xbb\xbfcaf\xc3\xa9,1\n&,2\n"),
    ("csv", b'R\x070\x00\xef\xbb\xbf"a\nb";1,5\r\nd";e;nan'),
    ("csv", b'R\x070\x00"a\nb";1,5\n"c;\r\nd";2\n\n\n\xef\xbb\xbfe;nan'),
    ("csv", b"\x80\x03\x03\x00caf\xe9,1\x80uro,2\n\x9d"),
    ("csv", b'\x00@@\x01"x, y",1.5\r\n"x, y"":k,1.5\r2\n"siniay "ty\r"no""'),
    ("csv", b';\x18*\x18Mv \r1;a\r2;b\rb\r";2\n\n\ne;n#c\n?;1,5\n ""; ?\n#l\nb;inf\n'),
    ("csv", b"21+\x00" + b'"c;\r\nd"|2\n' * 9),
    ("json", b'\x00:1}\n{"w":2}\n{"w":[1]}\n":[1]}\n'),
    ("json", b'\t0\x10\x00{"a":"[}{","b":"\\"\\\\"}\n{"a":1,"a":2}\n'),
    (
        "json",
        b'$\t \x01{"6":1,"}B":2}\r\n{"b":NaN,"a":0}\r\n\n{"6":1,"b":-NaN,"a":0}\r\n\n{"b":-1e410}\r\n{"B":0}\r\n\n',
    ),
    ("libsvm", b"\x01 \x00\x000 0:1\t4:2 \r\n1 8:nan # c\r4:2 \r\n1 8:nan # c\r\n\n2 qid:3 1:1\n"),
]


@pytest.mark.parametrize(("kind", "data"), FOUND)
def test_past_fuzzing_findings_are_handled(tmp_path, kind, data):
    fuzz_streams.CHECKS[kind](data, tmp_path / "input")


@pytest.mark.parametrize("kind", fuzz_streams.CHECKS)
def test_mutated_seeds(tmp_path, kind):
    for data in [*fuzz_streams.SEEDS[kind], *fuzz_streams.mutations(kind, 300, seed=0)]:
        try:
            fuzz_streams.CHECKS[kind](data, tmp_path / "input")
        except AssertionError as err:
            raise AssertionError(f"{data!r}: {err}") from err


def test_past_findings_in_records_are_handled(tmp_path):
    """Labels of a type that NumPy cannot parse, a share of a budget beyond the doubles, users with 2^53 rows."""
    with pytest.raises(ValueError, match="labels of type '01,i4'"):
        labels_of([0, 1], "01,i4")
    assert labels_of(["a", "b"], "<U1").tolist() == ["a", "b"]
    assert times_up(1.0, math.inf) == math.inf == times_up(2.0, 10**400)
    for value in ("nan", [None], {}):  # as many times as there are steps, it would fill the memory
        with pytest.raises(ValueError, match="rows_of_step"):
            checker.mechanism_of({"kind": "gradients", "adjacency": "replace", "rows_of_step": value})
    opened = {"plan_id": "a", "learner": "x", "reserved_mu_squared": 1.0, "guarantee": {
        "kind": "approximate", "parameter": 1.0, "slack": 1e-6, "unit": "row", "horizon": 10,
    }}  # fmt: skip
    account = checker._Account(opened)
    account.found = [checker.mechanism_of(mechanism_of(ObjectivePerturbation(epsilon=1.0, delta=1e-30), 2, 100, 2))]
    one = account.law(1, 1).slack
    assert 1e-31 < one < 1e-30
    assert account.law(3, 1).slack == pytest.approx(float(one) * (1 + math.e + math.e**2))
    assert account.law(2**53 + 1, 1).slack > 1


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *((kind, text) for kind in ("ledger", "guarantee", "model", "run") for text in (b"[" * 3000, b"9" * 5000)),
        *((kind, b"x = " + text) for kind in ("schema", "specs") for text in (b"[" * 3000, b"9" * 5000)),
        *(
            (kind, b'{"a":' * 3000 + b"\n")
            for kind in ("plan", "journal", "manifest", "current", "answers", "node", "audit")
        ),
        *(
            (kind, text)
            for kind in ("card", "run-ledger", "run-model", "sealed", "taught", "ranges", "arena")
            for text in (b"[" * 200_000, b"9" * 5000)
        ),
        *(("run-schema", b"x = " + text) for text in (b"[" * 3000, b"9" * 5000)),
        ("audit", b"9" * 400),
        ("request", b"0" + b"[" * 3000),
        ("web", b'HTTP/1.1 200 OK\r\nETag: "x"\r\nContent-Length: \xb2\r\n\r\n12'),
        ("web", b'HTTP/1.1 206 OK\r\nETag: "x"\r\nContent-Range: bytes 0-0/' + b"9" * 5000 + b"\r\n\r\n1"),
    ],
)
def test_what_is_nested_too_deep_or_has_too_many_digits_is_refused(tmp_path, kind, text):
    """Python's parsers end in a RecursionError, or in a ValueError that is no error of the format."""
    assert not RECORDS[kind].check(kind, text, tmp_path)


def test_a_sealed_model_without_its_number_of_releases_is_refused(tmp_path):
    """Found by a longer run: a KeyError."""
    account, _, model = fuzz_kept.seeds("sealed")[0].partition(b"\n")
    record = json.loads(model)
    for value in (None, "1", 1.0, [1]):
        changed = fuzz_records._dump(fuzz_kept._signed({**record, "n_releases": value}))
        bound = {**json.loads(account), "record": hashlib.sha256(changed).hexdigest()}
        with pytest.raises(StateError, match=r"model\.json: n_releases must be a whole number, found"):
            fuzz_kept.check_sealed(fuzz_records._dump(bound) + b"\n" + changed, tmp_path)


RECORDS = {
    kind: each
    for each in (fuzz_records.TARGETS, fuzz_doors.TARGETS, fuzz_lines.TARGETS, fuzz_kept.TARGETS, fuzz_small.TARGETS)
    for kind in each.checks
}
#: Directories that are laid out for each input.
DIRECTORIES = ("plan", "journal", "checkpoint", "seen")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", RECORDS)
def test_mutated_records(tmp_path, kind):
    targets = RECORDS[kind]
    for data in targets.seeds(kind):
        assert targets.check(kind, data, tmp_path)
    for data in targets.mutations(kind, 30 if kind in DIRECTORIES else 100, seed=0):
        try:
            targets.check(kind, data, tmp_path)
        except Exception as error:
            raise AssertionError(f"{data!r}: {error!r}") from error


def test_every_kind_has_a_corpus_and_a_row_of_the_page():
    kinds = {*fuzz_streams.CHECKS, *RECORDS}
    assert {path.name.removesuffix(".tar.xz") for path in CORPORA.iterdir()} == kinds
    text = ROOT.joinpath("docs", "reliability.md").read_text(encoding="utf-8").split("## Fuzzing")[1]
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ") and "---" not in line]
    named = [name.strip("`") for row in rows[1:] for name in row[1].split(", ")]
    assert sorted(named) == sorted([*kinds, "none"])  # one is of C, and keeps none


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kept", sorted(CORPORA.glob("*.tar.xz")), ids=lambda path: path.name.split(".")[0])
def test_inputs_that_longer_runs_have_kept(tmp_path, kept):
    """Some of each kind; ``tools/fuzz_corpora.py`` packs them."""
    kind = kept.name.split(".")[0]
    with tarfile.open(kept) as archive:
        inputs = [archive.extractfile(entry).read() for entry in archive]
    assert inputs
    for data in inputs[:: 1 + len(inputs) // 75]:
        try:
            if kind in fuzz_streams.CHECKS:
                fuzz_streams.CHECKS[kind](data, tmp_path / "input")
            else:
                RECORDS[kind].check(kind, data, tmp_path)
        except Exception as error:
            raise AssertionError(f"{data!r}: {error!r}") from error
