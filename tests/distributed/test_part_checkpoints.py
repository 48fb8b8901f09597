"""Runs over parts that outlive their curator: the same bits after a restart, and an exact ledger."""

from __future__ import annotations

import os
import signal
import sys

import numpy as np
import pytest
import warm
from part_rows import SIZES, Stream, leaf_learner, parts_of, rows_of, shown, step_learner
from patience import WAIT

from privol._core._least_squares import moments_size
from privol.distributed import LocalCrew
from privol.errors import PartFailure, StateError
from privol.learners import least_squares
from privol.learners._part_sums import HeldSteps, PartReader, PartsOfRows
from privol.ledger import Ledger
from privol.state import State, load_model

RARE = 1 << 40


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch):
    monkeypatch.setattr(least_squares, "_AT_ONCE", 12 * moments_size(6))


def made(name, **words):
    """A learner, and the kind of its rows."""
    if name == "leaves":
        return leaf_learner("batch", **words), "real"
    more = {"horizon": 1300} if name == "longer" else {}  # the last rows form no step of their own
    return step_learner("classes", batch=150, **more, **words)


class Frail(LocalCrew):
    """Nobody answers the question with a given number."""

    def __init__(self, at):
        super().__init__(2)
        self.left = at

    def session(self, reading, parts):
        found = super().session(reading, parts)
        real = found._ask

        def ask(question, arguments):
            self.left -= 1
            if self.left == 0:
                raise PartFailure("all workers are gone", part=found.parts[0].name)
            return real(question, arguments)

        found._ask = ask
        return found


def spent_of(folder):
    """What the journal says once no process holds it."""
    found = Ledger.read(folder / "ledger.jsonl")
    (entry,) = found.entries()
    return entry.rows, entry.releases, entry.mu_squared, entry.open


@pytest.mark.parametrize(("name", "every"), [("steps", 1), ("steps", RARE), ("longer", 200), ("leaves", 200)])
def test_it_goes_on_where_it_was_kept(name, every, tmp_path):
    """After a failure at any one question, and after failures at every question."""
    learner, kind = made(name)
    parts = parts_of(kind)
    whole = learner.fit_parts(parts, LocalCrew())
    expected, counts = shown(whole), whole._diagnostics()
    spent, at, failed = whole.ledger_.spent.mu, 2, 0
    while True:
        learner, _ = made(name)
        state = State(tmp_path / f"at-{at}", every=every)
        try:
            learner.fit_parts(parts, Frail(at), checkpoint=state)
        except PartFailure:
            failed += 1
            shown_then = 0 if not hasattr(learner, "coef_") else learner.n_rows_
            assert spent_of(state.directory)[0] == shown_then  # no more was revealed than is kept
            learner.fit_parts(parts, LocalCrew(2), checkpoint=state)
        assert shown(learner) == expected
        assert learner._diagnostics() == counts
        rows, releases, mu_squared, going = spent_of(state.directory)
        assert (rows, releases, going) == (sum(SIZES), learner.n_releases_, False)
        assert mu_squared == pytest.approx(spent**2, rel=1e-12)
        assert load_model(state.directory).coef_.tobytes().hex() == expected[0]
        if failed < at - 1:
            break
        at += 1
    assert failed >= (6 if name == "leaves" else 8)


KILLS = """
import os, signal, sys
sys.path.insert(0, sys.argv[3])
import test_part_checkpoints as these
from part_rows import parts_of, shown
from privol._core._least_squares import moments_size
from privol.distributed import LocalCrew
from privol.learners import least_squares
from privol.state import State

least_squares._AT_ONCE = 12 * moments_size(6)
learner, kind = these.made(sys.argv[1])
real, kept = type(learner)._keep_sums, []

def dies(self, run, rows):
    real(self, run, rows)
    kept.append(rows)
    if len(kept) == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)

type(learner)._keep_sums = dies
learner.fit_parts(parts_of(kind), LocalCrew(), checkpoint=State(sys.argv[2], every=1))
print(shown(learner))
"""


@pytest.mark.process
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="signals of Linux")
@pytest.mark.parametrize(("name", "at"), [("steps", "5"), ("leaves", "8")])
def test_a_curator_that_is_killed(name, at, tmp_path):
    learner, kind = made(name)
    expected = shown(learner.fit_parts(parts_of(kind), LocalCrew()))
    paths = os.pathsep.join(filter(None, sys.path))
    words = [sys.executable, "-c", KILLS, name, str(tmp_path / "run"), os.path.dirname(__file__), at]
    ends = []
    while not ends or ends[-1] == -signal.SIGKILL:
        done = warm.run(words, capture_output=True, text=True, timeout=WAIT, env={**os.environ, "PYTHONPATH": paths})
        ends.append(done.returncode)
        assert len(ends) < 12, "it does not come further"
    assert ends[-1] == 0, done.stderr
    assert len(ends) > 1
    assert done.stdout.strip() == str(expected)
    assert spent_of(tmp_path / "run") == (sum(SIZES), expected[-1], spent_of(tmp_path / "run")[2], False)


def cut_short(tmp_path, name="steps"):
    learner, kind = made(name)
    state = State(tmp_path / "run", every=1)
    with pytest.raises(PartFailure, match="all workers are gone"):
        learner.fit_parts(parts_of(kind), Frail(6), checkpoint=state)
    assert 0 < learner.n_rows_ < sum(SIZES)
    return kind, state


class Changed:
    """A part whose last row has changed."""

    def __init__(self, part):
        self.name, self._part = part.name, part

    def open(self):
        stream = self._part.open()
        stream.X = stream.X.copy()
        stream.X[-1] = np.nextafter(stream.X[-1], 2.0)
        return stream


@pytest.mark.parametrize("which", ["last", "order"])
def test_other_parts_are_refused(which, tmp_path):
    """Also if the changed row is not learnt yet: published noise could be subtracted."""
    kind, state = cut_short(tmp_path)
    parts = parts_of(kind)
    other = [*parts[:4], Changed(parts[4])] if which == "last" else [parts[1], parts[0], *parts[2:]]
    with pytest.raises(StateError, match="rows of the stream are not those that the run has learnt"):
        made("steps")[0].fit_parts(other, LocalCrew(), checkpoint=state)
    learner = made("steps")[0].fit_parts(parts, LocalCrew(), checkpoint=state)
    assert learner.n_rows_ == sum(SIZES)


def test_a_run_over_parts_goes_on_over_parts_only(tmp_path):
    kind, state = cut_short(tmp_path)
    X, y, classes = rows_of(kind)
    learner, _ = made("steps")
    with pytest.raises(StateError, match="has another guarantee"):  # the message says nothing of workers
        learner.fit_stream(Stream(X, y, classes), checkpoint=state)
    with pytest.raises(StateError, match="a run over parts goes on by itself"):
        made("steps")[0].fit_parts(parts_of(kind), LocalCrew(), checkpoint=State(tmp_path / "run", rest=True))
    with pytest.raises(StateError, match="other parameters"):
        made("steps", x_bound=1.3)[0].fit_parts(parts_of(kind), LocalCrew(), checkpoint=state)
    learner = State(tmp_path / "run").end()
    assert learner.n_rows_ < sum(SIZES)
    assert not spent_of(tmp_path / "run")[3]


def test_the_journal_tells_nothing_of_the_rows_without_the_key(tmp_path):
    kind, state = cut_short(tmp_path)
    learner, _ = made("steps")
    with LocalCrew().session(PartReader(learner, HeldSteps), parts_of(kind)) as session:
        stream = PartsOfRows(session)
        known = [stream.parts_digest, *session.digests()]
    text = (state.directory / "ledger.jsonl").read_text()
    assert len(known) == 1 + len(SIZES)
    assert not any(digest.hex() in text for digest in known)
