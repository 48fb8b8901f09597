"""Models that are sealed before they are paid for, and the accounts that pay for them."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import closing

import numpy as np
import pytest

import privol
from privol.errors import InvalidParameter, SolverFailure, StateError
from privol.ledger import Ledger
from privol.state import SealedRelease, load_model

pytestmark = pytest.mark.process


def test_a_sealed_release_needs_its_account(tmp_path, table):
    X, y = table
    stream = privol.open_stream((X, y), classes=[0, 1])

    class Stop(SealedRelease):
        def settled(self):
            raise RuntimeError

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with pytest.raises(RuntimeError):
        privol.OutputPerturbation(delta=0.0).fit_stream(stream, seal=Stop(tmp_path / "a"))
    sealed = SealedRelease(tmp_path / "a")
    assert sealed.read()["learner"] == "output-perturbation"
    with pytest.raises(privol.errors.StateError, match="no account"):
        sealed.complete(Ledger())
    ledger = Ledger()
    learner = privol.OutputPerturbation(delta=0.0, ledger=ledger)
    with pytest.raises(RuntimeError):
        learner.fit_stream(stream, seal=Stop(tmp_path / "b"))
    assert SealedRelease(tmp_path / "b").complete(ledger)["n_rows"] == len(X)
    assert load_model(tmp_path / "b").n_releases_ == 1
    assert SealedRelease(tmp_path / "b").complete(ledger)["n_rows"] == len(X)  # it is shown: nothing is left to be done
    (tmp_path / "c").mkdir()
    with pytest.raises(privol.errors.StateError, match="no released model"):
        SealedRelease(tmp_path / "c").complete(ledger)
    with pytest.raises(privol.errors.StateError, match="holds a model already"):
        learner.fit_stream(stream, seal=SealedRelease(tmp_path / "b"))
    assert ledger.entries()[-1].pure_epsilon == 1.0  # refused at the end, and so it is spent
    if os.name == "posix":
        assert (tmp_path / "a" / "secret").stat().st_mode & 0o777 == 0o700
    with pytest.raises(SolverFailure):
        privol.OutputPerturbation(max_iter=1).fit_stream(stream, seal=SealedRelease(tmp_path / "a"))


def test_an_error_behind_the_seal_leaves_an_account_of_a_release(tmp_path, table):
    """The model is whole and will be shown, although the disk failed when it was sealed: its account must say so."""
    X, y = table

    class Fails(SealedRelease):
        def seal(self, *given):
            super().seal(*given)
            raise OSError("the disk")

    ledger = Ledger()
    learner = privol.OutputPerturbation(ledger=ledger)
    with pytest.raises(OSError, match="the disk"):
        learner.fit_stream(privol.open_stream((X, y), classes=[0, 1]), seal=Fails(tmp_path))
    assert [entry.releases for entry in ledger.entries()] == [1]
    assert SealedRelease(tmp_path).complete(ledger)["n_rows"] == len(X)
    (tmp_path / "other").mkdir()
    seal, failing = SealedRelease(tmp_path / "other"), privol.OutputPerturbation(max_iter=1, ledger=ledger)
    with pytest.raises(SolverFailure):  # nothing of it is sealed: no release
        failing.fit_stream(privol.open_stream((X, y), classes=[0, 1]), seal=seal)
    assert [entry.releases for entry in ledger.entries()] == [1, 0]


class Cut(SealedRelease):
    """Its process ends after the account is closed and the model is sealed."""

    def settled(self):
        raise KeyboardInterrupt


def test_an_account_does_not_pay_for_the_sealed_model_of_another_fit(tmp_path, clinic):
    for name, epsilon in (("a", 10.0), ("b", 0.1)):
        folder = tmp_path / name
        folder.mkdir()
        stream = privol.open_stream((np.eye(4), [0, 1, 0, 1]), classes=(0, 1))
        learner = privol.OutputPerturbation(
            epsilon=epsilon, delta=0.0, l2=1.0, ledger=Ledger(journal=folder / "ledger.jsonl")
        )
        with closing(learner.ledger), pytest.raises(KeyboardInterrupt):
            learner.fit_stream(stream, seal=Cut(folder))
        assert SealedRelease(folder).read()["guarantee"]["parameter"] == epsilon
    kept = (tmp_path / "b" / "secret" / "account.json").read_text()
    for file in ("model.npz", "model.json"):
        shutil.copy(tmp_path / "a" / "secret" / file, tmp_path / "b" / "secret" / file)
    assert SealedRelease(tmp_path / "b").read() is None
    other = json.loads((tmp_path / "a" / "secret" / "account.json").read_text())
    (tmp_path / "b" / "secret" / "account.json").write_text(json.dumps({**json.loads(kept), "record": other["record"]}))
    ledger = Ledger(journal=tmp_path / "b" / "ledger.jsonl")
    with closing(ledger), pytest.raises(StateError, match="another guarantee than its account"):
        SealedRelease(tmp_path / "b").complete(ledger)
    with closing(Ledger(journal=tmp_path / "a" / "ledger.jsonl")) as ledger:
        assert SealedRelease(tmp_path / "a").complete(ledger)["guarantee"]["parameter"] == 10.0
    assert load_model(tmp_path / "a").n_rows_ == 4


def test_models_that_cannot_be_sealed_are_refused_before_payment(tmp_path):
    class Own(privol.OutputPerturbation):
        pass

    full, ledger = tmp_path / "full", Ledger()
    full.mkdir()
    (full / "model.json").write_text("{}")
    stream = privol.open_stream((np.eye(4), [0, 1, 0, 1]), classes=(0, 1))
    for kind, folder, error, said in (
        (privol.OutputPerturbation, full, StateError, "holds a model already"),
        (privol.OutputPerturbation, tmp_path / "none", StateError, "not a directory"),
        (Own, tmp_path, InvalidParameter, "not a learner of privol"),
    ):
        with pytest.raises(error, match=said):
            kind(ledger=ledger).fit_stream(stream, seal=SealedRelease(folder))
    assert ledger.entries() == []
