"""The newest released model of a run that lasts: paid for before it is shown, whole, and gone when the run ends."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
from cli_tools import OK, RUN, interrupted_at, privol_cli, write
from conformance import Stream, fingerprint, make

from privol.cli.app import USAGE
from privol.errors import StateError
from privol.ledger import Ledger
from privol.state import State, load_model


def shown_at(run, shown):
    """A callback that notes, after every block, what others see of a run."""

    def look(learner, stream):
        if not (run / "released" / "model.json").exists():
            shown.append(None)
            return
        model, (entry,) = load_model(run / "released"), Ledger.read(run / "ledger.jsonl").entries()
        assert model.n_releases_ <= entry.releases  # the journal has paid for it
        assert fingerprint(model) == fingerprint(learner)  # which itself shows what is kept
        assert model.guarantee_ == learner.guarantee_
        shown.append((model.n_rows_, model.n_releases_))

    return look


@pytest.mark.parametrize(
    "name",
    ["PGIGA", "NOGD", "DPFTRL batch", "DPFTRL renewal", "DPFTRL classes", "AdaptiveFTRL", "PQFTL", "BANCO", "DOLA"],
)
def test_every_kind_of_learner_shows_what_it_has_released(name, tmp_path):
    run, shown = tmp_path / "run", []
    whole = make(name).fit_stream(Stream(150))
    learner = make(name)
    learner.fit_stream(Stream(150), checkpoint=State(run, show_releases=True), progress=shown_at(run, shown))
    assert fingerprint(learner) == fingerprint(whole) == fingerprint(load_model(run))
    assert not (run / "released").exists()
    releases = [0 if found is None else found[1] for found in shown]
    assert releases == sorted(releases)
    assert shown[-1] is not None


def test_models_of_the_schedule_alone(tmp_path):
    """PIGD has a secret iterate at every row: what is shown is that of row 100, 200, ..., to the bit."""
    run, shown, models = tmp_path / "run", [], []

    def look(learner, stream):
        shown_at(run, shown)(learner, stream)
        models.append(None if shown[-1] is None else load_model(run / "released").coef_)

    make("PIGD", release=100).fit_stream(Stream(60), checkpoint=State(run, show_releases=True), progress=look)
    released = []
    make("PIGD", release=100).fit_stream(Stream(60), on_release=released.append)
    assert [release.row for release in released] == [100, 200, 300, 400, 500, 600]
    assert [None if found is None else found[1] for found in shown] == [None, 1, 1, 2, 3, 3, 4, 4, 5, 6]
    for found, model in zip(shown, models, strict=True):
        if found is not None:
            assert np.array_equal(model[0], released[found[1] - 1].coef)


def test_nothing_is_shown_unless_it_is_asked_for(tmp_path):
    run = tmp_path / "run"
    look = lambda learner, stream: None if not (run / "released").exists() else pytest.fail("shown")  # noqa: E731
    make("NOGD").fit_stream(Stream(100), checkpoint=State(run, every=50), progress=look)


def test_after_an_interrupt_it_stays_and_after_the_end_it_is_gone(tmp_path):
    run = tmp_path / "run"
    for stop in (250, 450):
        stream = Stream(100, stop=stop, error=KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            make("NOGD").fit_stream(stream, checkpoint=State(run, show_releases=True))
        assert load_model(run / "released").n_rows_ == stop // 100 * 100
    (run / "released" / f".model.json.{'0' * 32}.tmp").write_text("a draft that a crash has left")
    State(run).end()
    assert not (run / "released").exists()
    assert load_model(run).n_rows_ == 400


def test_a_full_disk_ends_the_call_and_the_run_goes_on(tmp_path, monkeypatch):
    run, real = tmp_path / "run", os.replace

    def full(source, target):
        if os.path.basename(os.path.dirname(target)) == "released" and len(shown) == 2:
            raise OSError(28, "No space left on device")
        return real(source, target)

    shown = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            make("NOGD").fit_stream(
                Stream(100), checkpoint=State(run, show_releases=True), progress=shown_at(run, shown)
            )
    assert len(shown) == 2
    learner = make("NOGD").fit_stream(Stream(77), checkpoint=State(run, show_releases=True))
    assert fingerprint(learner) == fingerprint(make("NOGD").fit_stream(Stream()))


def test_a_model_between_its_two_files_is_refused(tmp_path):
    """Whoever reads while it is replaced sees the old one, the new one, or that its files do not fit."""
    run = tmp_path / "run"
    kept = tmp_path / "kept"

    def look(learner, stream):
        if not kept.exists():
            shutil.copytree(run / "released", kept)
        elif learner.n_rows_ == 200:
            shutil.copy(run / "released" / "model.npz", kept)

    make("NOGD").fit_stream(Stream(100), checkpoint=State(run, show_releases=True), progress=look)
    with pytest.raises(StateError, match="checksum"):
        load_model(kept)


def test_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1.0, 1.0, size=(500, 2))
    write(tmp_path / "train.csv", ("a", "b", "y"), [(a, b, "sick" if a > b else "well") for a, b in rows])
    (tmp_path / "ranges.json").write_text(json.dumps({"a": [-1, 1], "b": [-1, 1]}))
    words = (*RUN, "--no-diagnostics", "--out", "out")
    result = privol_cli(*words, "--checkpoint", "0", "--show-releases")
    assert (result.exit_code, "leave --checkpoint 0 out" in result.stderr) == (USAGE, True)
    assert not (tmp_path / "out").exists()
    with interrupted_at(monkeypatch, 100):
        privol_cli(*words, "--checkpoint", "100", "--show-releases", "--learner", "dpftrl")
    assert load_model("out/released").n_releases_ >= 100
    assert privol_cli("resume", "out").exit_code == OK
    assert not (tmp_path / "out" / "released").exists()
