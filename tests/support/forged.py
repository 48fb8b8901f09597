"""Copies of runs, to be manipulated as a forger could: checksums of a changed ledger are recomputed."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest
from mpmath import iv

from privol.state import save_run
from privol.verifying import verdict, verify
from privol.verifying.mechanisms import Loss


@pytest.fixture(scope="module", autouse=True)
def _pulls_are_remembered():
    """``Loss.pull`` has no state, takes a hundred bisections of a hundred, and most forgeries leave it as it is."""
    known, computed = {}, Loss.pull

    def pull(loss, m):
        key = (iv.prec, *(getattr(x, "_mpi_", x) for x in (*loss, m)))
        if key not in known:
            known[key] = computed(loss, m)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loss, "pull", pull)
        yield


class planted:
    """A copy of a run, in a folder that holds no other copy at the same time."""

    def __init__(self, run, folder):
        self.run, self.copy = run, folder / "copy"

    def __enter__(self):
        shutil.rmtree(self.copy, ignore_errors=True)
        return shutil.copytree(self.run, self.copy)

    def __exit__(self, *_):
        shutil.rmtree(self.copy)


def keep(learners, folder):
    """Keep a run of each, all of which hold, without its model: texts about it are those of ``run.json``."""
    for name, learner in learners.items():
        run = folder / name
        save_run(learner, run)
        for left in ("model.json", "model.npz"):
            (run / left).unlink(missing_ok=True)
        assert verdict(verify(run)) == "holds", name
    return folder


def forger(runs, folder):
    """Return what changes a copy of one of the runs in a folder, and its ledger, and names the checks that fail."""

    def forged(name, change, of_ledger=None):
        run = folder / "copy"
        run.mkdir()
        for path in (runs / name).glob("[a-z]*"):
            (run / path.name).write_bytes(path.read_bytes())
        change_run(run, change)
        if of_ledger is not None:
            change_ledger(run, of_ledger)
        return set(caught(run))

    return forged


def of_guarantees(change, guarantee):
    """Return the change of a run that also changes its guarantee, and the one of all guarantees of a ledger."""

    def of_run(record):
        change(record)
        guarantee(record["guarantee"])

    def of_ledger(entries):
        for entry in entries:
            if "guarantee" in entry:
                guarantee(entry["guarantee"])
        return entries

    return of_run, of_ledger


def change_run(run, change):
    record = json.loads((run / "run.json").read_text())
    change(record)
    (run / "run.json").write_text(json.dumps(record))


def change_ledger(run, change, name="ledger.jsonl"):
    entries = [json.loads(line) for line in (run / name).read_text().splitlines()]
    digest, lines = "", []
    for number, entry in enumerate(change(entries), 1):
        entry = {**{key: value for key, value in entry.items() if key != "sha256"}, "number": number}
        digest = hashlib.sha256(f"{digest}\n{json.dumps(entry, sort_keys=True)}".encode()).hexdigest()
        lines.append(json.dumps({**entry, "sha256": digest}) + "\n")
    (run / name).write_text("".join(lines))


def caught(*runs, ledger=None):
    """The checks that fail for runs of which some must fail."""
    findings = verify(*runs, ledger=ledger)
    assert verdict(findings) == "does not hold"
    return [each.what for each in findings if each.holds is False]
