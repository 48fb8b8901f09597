"""What a kept run leaves: digests of rows, secrets that end with it, accounts that pay for what came out."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import numpy as np
import pytest

from privol import OutputPerturbation, open_stream
from privol.errors import StateError
from privol.guarantees import Guarantee
from privol.ledger import Ledger
from privol.state import SealedRelease
from privol.state._checkpoints import Checkpoints
from privol.state._digest import RowDigest
from privol.state._together import _Sent, close_as_left


def test_the_digest_knows_targets_and_types():
    """The same bytes as rows of another width or type, and the same rows with another target."""

    def digest(rows, target):
        found = RowDigest(bytes(range(32)))
        found.update(rows, np.array([target]))
        return found.hexdigest()

    rows = np.array([[1.0, 2.0]])
    assert len({digest(rows, 1.0), digest(rows, 0.0), digest(rows.view(np.float32), 1.0)}) == 3


def test_a_run_that_has_sent_messages_has_spent_all_that_it_reserved(tmp_path):
    """They may be anywhere; that it made no release of its own gives nothing back."""
    words = {"adjacency": "replace", "horizon": 100, "releases": 10, "delta": 1e-6, "arithmetic": "a"}
    guarantee = Guarantee(kind="gdp", parameter=0.1, bit_source="b", **words)
    for sent in (0, 3):
        account = Ledger().open(learner="DOLA", guarantee=guarantee)
        entries = (struct.pack("<q32s", k + 1, bytes(32)) for k in range(sent))
        (tmp_path / "sent.log").write_bytes(b"".join(entries))
        close_as_left(account, tmp_path)
        assert account.entry().releases == sent
        assert account.entry().mu_squared == (account.reserved_mu_squared if sent else 0.0)


def test_a_run_that_ended_on_other_ranks_has_the_releases_of_its_model(tmp_path):
    """Not its messages: of a network that releases its last model alone these are more than its guarantee has."""
    words = {"adjacency": "replace", "horizon": 100, "releases": 1, "delta": 1e-6, "arithmetic": "a"}
    guarantee = Guarantee(kind="gdp", parameter=0.1, bit_source="b", **words)
    account = Ledger().open(learner="DOLA", guarantee=guarantee)
    entries = (struct.pack("<q32s", k + 1, bytes(32)) for k in range(5))
    (tmp_path / "sent.log").write_bytes(b"".join(entries))
    close_as_left(account, tmp_path, rows=10, releases=1)
    entry = account.entry()
    assert (entry.rows, entry.releases, entry.mu_squared) == (10, 1, account.reserved_mu_squared)


def test_a_message_whose_record_the_power_cut_short_never_left(tmp_path):
    """The disk may have the length of an entry that was not synced, and zeros in the place of some of it."""
    path, rows = tmp_path / "sent.log", np.arange(6.0).reshape(3, 2)
    sent = _Sent(path)
    for round_ in (1, 2):
        sent.check(round_, rows[round_:][:1])
    sent.close()
    content = path.read_bytes()
    for zeros in (1, 8, 20, 39):
        path.write_bytes(content[:-zeros] + bytes(zeros))
        again = _Sent(path)
        with pytest.raises(StateError, match="would send something else"):
            again.check(1, rows[:1])
        again.check(2, rows[:1])  # nobody has the other message of this round
        again.close()
        assert len(path.read_bytes()) == len(content)
    path.write_bytes(content)
    again = _Sent(path)
    with pytest.raises(StateError, match="would send something else"):
        again.check(2, rows[:1])
    again.close()


def test_no_secret_is_left_when_they_are_cleared(tmp_path):
    """Noise keys of what is released beside the models, and what was sent, as well as checkpoints."""
    files = Checkpoints(tmp_path)
    files.folder.mkdir()
    for name in ("checkpoint-00000003", "metrics.key", "sent.log"):
        (files.folder / name).write_text("secret")
    files.clear()
    assert list(files.folder.iterdir()) == []


def test_an_account_that_was_closed_with_less_pays_for_no_sealed_model(tmp_path):
    class Stop(SealedRelease):
        def settled(self):
            raise RuntimeError

    rng = np.random.default_rng(1)
    stream = open_stream((rng.normal(size=(50, 2)), rng.integers(0, 2, 50)), classes=[0, 1])
    ledger = Ledger()
    with pytest.raises(RuntimeError):
        OutputPerturbation(delta=0.0, l2=1.0, ledger=ledger).fit_stream(stream, seal=Stop(tmp_path))
    (paid,) = ledger.accounts
    words = {name: getattr(paid, name) for name in ("plan_id", "facts", "guarantee", "closed", "reserved_mu_squared")}
    assert paid.closed
    unspent = SimpleNamespace(**words, entry=lambda: SimpleNamespace(mu_squared=paid.reserved_mu_squared / 2))
    with pytest.raises(StateError, match="was closed without it"):
        SealedRelease(tmp_path).complete(SimpleNamespace(accounts=[unspent], journal=None))
    assert not (tmp_path / "model.json").exists()
    assert SealedRelease(tmp_path).complete(ledger)["n_rows"] == 50


def test_nothing_is_left_beside_a_model_that_is_shown(tmp_path, monkeypatch):
    """Drafts of a fit that was killed, and the folder of one that was killed when it had shown its model."""
    rng = np.random.default_rng(1)
    stream = open_stream((rng.normal(size=(50, 2)), rng.integers(0, 2, 50)), classes=[0, 1])
    ledger, secret = Ledger(), tmp_path / "secret"
    secret.mkdir()
    draft = secret / f".model.npz.{'a' * 32}.tmp"
    draft.write_text("a model that nobody has seen")
    monkeypatch.setattr(Checkpoints, "leave_nothing", lambda self: None)
    OutputPerturbation(delta=0.0, l2=1.0, ledger=ledger).fit_stream(stream, seal=SealedRelease(tmp_path))
    assert not draft.exists()
    monkeypatch.undo()
    draft.write_text("")
    assert SealedRelease(tmp_path).complete(ledger)["n_rows"] == 50
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json", "model.npz"]
