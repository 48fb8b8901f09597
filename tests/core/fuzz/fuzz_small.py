"""Fuzz targets of small records: encodings of kept estimators, keys of accounts, results of papers, message numbers.

``python tests/core/fuzz/fuzz_small.py estimator -max_total_time=600`` runs one of them under atheris (libFuzzer); the
suite runs mutations of the seeds through the same checks. They are as those of ``fuzz_records.py``.
"""

from __future__ import annotations

import functools
import json
import random
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import fuzz_records
import numpy as np
from fuzz_targets import Targets, drive

from privol import PrivateClassifier
from privol.auto import kept
from privol.cli import reproduce
from privol.encoding import PrivateEncoder
from privol.errors import PrivolError
from privol.guarantees import Guarantee
from privol.ledger import Ledger
from privol.readers.mqtt_topics import _number
from privol.reproduce import FIGURES
from privol.state import State
from privol.state._joined import Joined

ROOMS = (
    "privol.auto", "privol.encoding", "privol.guarantees", "privol.state", "privol.cli", "privol.reproduce",
    "privol.readers",
)  # fmt: skip
BUDGET: dict[str, Any] = {"epsilon": 40.0, "delta": 1e-6}
SETTINGS = {"metrics": ["auc", "log_loss"], "rows": 100}
#: What an estimator wrote of itself.
_OWN = ("estimator", "parameters")

# ---- seeds --------------------------------------------------------------------------------------------------


class _Stop(Exception):
    """The process ends behind the encoding."""


@functools.cache
def _made() -> dict[str, Any]:
    """Records of real runs."""
    rng = np.random.default_rng(0)
    rows = [{"word": "ab"[k % 2], "x": float(x), "goal": "yn"[k % 3 == 0]} for k, x in enumerate(rng.normal(size=300))]
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with mock.patch.object(PrivateClassifier, "_show_stream", side_effect=_Stop):
            try:
                model = PrivateClassifier(epsilon=30.0, random_state=0)
                model.fit_stream(rows, target="goal", checkpoint=State(folder / "R"))
            except _Stop:
                found["estimator"] = (folder / "R" / "encoding.json").read_bytes()
        with closing(Ledger(**BUDGET, journal=folder / "ledger.jsonl")) as ledger:
            guarantee = Guarantee.from_record(json.loads(found["estimator"])["encoding"]["guarantee"])
            account = ledger.open(learner="metrics", guarantee=guarantee, facts={"kept": True})
            record = {"key": "00" * 32, "plan_id": account.plan_id, "settings": SETTINGS}
            found["journal"], found["joined"] = (folder / "ledger.jsonl").read_bytes(), json.dumps(record).encode()
    return found


_RESULT = {
    "name": "Figure 1", "file": "figure-1", "what": "regret", "quick": True, "verdict": "agrees", "how": "measured",
    "why": "|x|", "parts": [],
}  # fmt: skip


def seeds(kind: str) -> list[bytes]:
    """Inputs that are right."""
    if kind == "result":
        return [json.dumps(_RESULT).encode()]
    if kind == "number":
        return [b'{"n": 7, "x": 1.5}', b'{"n": 0}', b'{"n": 9223372036854775807}']
    return [_made()[kind]]


# ---- mutations ----------------------------------------------------------------------------------------------


def mutate(kind: str, data: bytes, rng: random.Random) -> bytes:
    """One change of an input, as of ``fuzz_records.mutate``; the checksum of an encoding is made good again."""
    if rng.random() < 0.7:
        try:
            changed = fuzz_records._changed(json.loads(data), rng)
            if kind == "estimator" and isinstance(changed, dict):
                own = {key: value for key, value in changed.items() if key != "sha256"}
                changed = {**own, "sha256": kept._digest(own)}
            return fuzz_records._dump(changed)
        except (ValueError, RecursionError, TypeError):
            pass  # an input that was changed before
    return fuzz_records.mutate(kind, data, rng)


# ---- checks -------------------------------------------------------------------------------------------------


def check_estimator(data: bytes, folder: Path) -> None:
    """An encoding that is restored encodes rows, and has a guarantee that can be said."""
    path = folder / "encoding.json"
    path.write_bytes(data)
    whole = json.loads(_made()["estimator"])
    encoder = PrivateEncoder(epsilon=1.0)
    found = kept.restored(path, encoder, {name: whole[name] for name in _OWN})
    assert encoder.guarantee_.sentence()
    assert encoder.plan_.rows >= 0
    assert found["reused"] is encoder.reused_
    rows = encoder.schema_.to_record()
    assert rows == encoder.schema_.from_record(rows).to_record()


def check_joined(data: bytes, folder: Path) -> None:
    """An account goes on with the key and the settings with which it was begun, and with no others."""
    (folder / "metrics.key").write_bytes(data)
    journal = folder / "ledger.jsonl"
    journal.write_bytes(_made()["journal"])
    with closing(Ledger(**BUDGET, journal=journal)) as ledger:
        assert len(Joined(folder).known(ledger)) <= 1
        account, key = Joined(folder).go_on(ledger, "metrics", ledger.accounts[0].guarantee, SETTINGS)
        assert len(key) == 32
        assert account.plan_id == json.loads(data)["plan_id"]
        assert json.loads(data)["settings"] == SETTINGS


def check_result(data: bytes, folder: Path) -> None:
    """A result that is read has its line in the table."""
    (folder / f"{FIGURES[0].slug}.json").write_bytes(data)
    (record,) = reproduce._records(folder)
    assert reproduce._index([record]).count("\n") == reproduce._index([_RESULT]).count("\n")


def check_number(data: bytes, folder: Path) -> None:
    """A message has a number, or a reason why it has none, and both only where it is refused."""
    for retain, qos in ((False, 1), (True, 1), (False, 0)):
        message = SimpleNamespace(payload=data, properties=None, retain=retain, qos=qos)
        number, fault = _number(message, "n")
        assert (number is None) <= (fault is not None)
        assert number is None or 0 <= number < 2**63
        assert (retain or not qos) <= (fault is not None)


CHECKS: dict[str, Callable[[bytes, Path], None]] = {
    "estimator": check_estimator,
    "joined": check_joined,
    "result": check_result,
    "number": check_number,
}
TARGETS = Targets(CHECKS, seeds, mutate, (PrivolError,))

if __name__ == "__main__":
    drive("fuzz_small", ROOMS)
