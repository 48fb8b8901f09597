"""Rows that are given one by one to a run on the disk: ``privol.live.LiveRun``."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing, suppress

import numpy as np
import pytest
import warm
from conformance import LEARNERS, N, X, Y, fingerprint, make
from patience import WAIT
from sklearn.base import is_classifier

from privol import PIGD, PrivateClassifier, PrivateRegressor, open_stream
from privol.auto import kept
from privol.errors import BudgetExceeded, InvalidParameter, StateError, StreamError
from privol.learners import OutputPerturbation
from privol.ledger import Ledger
from privol.live import ONCE, LiveRun
from privol.state import State
from privol.state._checkpoints import FOLDER, PLAN, Checkpoints

WIDE = {
    "columns": {f"x{j}": {"range": [-4, 4]} for j in range(4)},
    "target": {"column": "late", "negative": 0, "positive": 1},
}
NAMES = [f"x{j}" for j in range(X.shape[1])]
ROWS = [dict(zip(NAMES, row, strict=True)) for row in X.tolist()]
# a table for the estimators
TABLE = [{"age": i * 31 % 97, "ward": "abc"[i * i % 3], "late": i % 7} for i in range(6000)]
ILL = ["yes" if row["age"] > 50 else "no" for row in TABLE]


def state(folder, **words):
    return State(folder, rest=True, **words)


def give(model, folder, rows, targets, *, upto=None, **words):
    """Give the rows that are not kept, up to one; then stop, or end the run at the last row."""
    with LiveRun(model, state(folder), **words) as run:
        for x, y in zip(rows[run.first_row - 1 : upto], targets[run.first_row - 1 : upto], strict=True):
            run.learn_one(x, y)
        if upto is not None:
            run.stop()
    return run


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_learns_what_learn_one_does(name, tmp_path):
    """In three processes' objects, one of which has no row to learn."""

    def made():
        parameters = LEARNERS[name][1]
        needs = not {"window", "renewal", "horizon"} & parameters.keys()
        given = {"horizon": N} if needs else {}
        given |= {"release": "all"} if name in ("PIGD", "PGIGA") and "release" not in parameters else {}
        return make(name, **given)

    real = not is_classifier(made())
    targets, words = (Y.astype(float), {}) if real else (Y, {"classes": [0, 1]})
    plain = made().declare_features(NAMES)
    if not real:
        plain.declare_classes([0, 1])
    for x, y in zip(ROWS, targets, strict=True):
        plain.learn_one(x, y)
    plain.close()
    for upto in (1, 211, 211):
        run = give(made(), tmp_path / "run", ROWS, targets, upto=upto, **words)
        assert state(tmp_path / "run").next_row() == upto + 1
    assert run.features == tuple(NAMES)
    done = give(made(), tmp_path / "run", ROWS, targets, **words).model
    assert fingerprint(done) == fingerprint(plain)


def test_a_run_whose_last_row_is_kept_ends_without_another(tmp_path):
    """A crash may come between the last checkpoint and the end of the run."""

    def made():
        return PIGD(epsilon=1.0, delta=1e-6, horizon=N, random_state=3, release="last")

    give(made(), tmp_path / "run", ROWS, Y, upto=N, classes=[0, 1])
    assert state(tmp_path / "run").next_row() == N + 1
    whole = give(made(), tmp_path / "whole", ROWS, Y, classes=[0, 1]).model
    done = give(made(), tmp_path / "run", ROWS, Y, classes=[0, 1]).model
    assert (fingerprint(done), done.n_releases_) == (fingerprint(whole), 1)
    rows = [{name: row[name] for name in ("age", "ward")} for row in TABLE]

    def estimator():
        return PrivateClassifier(epsilon=4.0, horizon=len(rows), random_state=3)

    give(estimator(), tmp_path / "table", rows, ILL, upto=len(rows))
    done = give(estimator(), tmp_path / "table", rows, ILL).model
    assert np.array_equal(done.learner_.coef_, give(estimator(), tmp_path / "other", rows, ILL).model.learner_.coef_)


@pytest.mark.parametrize("kind", [PrivateClassifier, PrivateRegressor])
def test_estimators_go_on_behind_the_rows_that_taught(kind, tmp_path):
    """Also where nothing but the encoding is kept. Rows that teach are kept with their last one."""
    real = kind is PrivateRegressor
    rows = [{name: row[name] for name in ("age", "ward")} for row in TABLE]
    targets = [float(row["late"]) for row in TABLE] if real else ILL
    words = {"epsilon": 4.0, "horizon": len(rows), "random_state": 3, **({"target_range": (0.0, 6.0)} if real else {})}
    whole = kind(**words).fit_stream([{**x, "y": y} for x, y in zip(rows, targets, strict=True)], target="y")
    taught = whole.encoder_.plan_.rows
    folder, spent = tmp_path / "run", []
    for upto, first in ((taught - 1, 1), (taught, 1), (taught + 1, taught + 1), (5000, taught + 2)):
        ledger = Ledger(journal=tmp_path / "ledger.jsonl")
        model = kind(**words, ledger=ledger)
        with LiveRun(model, state(folder), target="y") as run:
            assert run.first_row == first
            for x, y in zip(rows[first - 1 : upto], targets[first - 1 : upto], strict=True):
                run.learn_one(x, y)
            if upto < taught:
                with pytest.raises(StateError, match="stopped while rows taught the encoding"):
                    run.stop()
            else:
                run.stop()
        spent.append(sum(account.learner == "PrivateEncoder" for account in ledger.accounts))
        ledger.close()
    assert spent == [1, 2, 2, 2]  # the encoding that was not finished stays paid for
    assert state(folder).next_row(ledger=Ledger.read(tmp_path / "ledger.jsonl")) == 5001
    again = kind(**words, ledger=Ledger(journal=tmp_path / "ledger.jsonl"))
    run = LiveRun(again, state(folder), target="y")
    assert run.features == ("age", "ward")
    with run:
        run.learn_one({"ward": rows[5000]["ward"], "age": rows[5000]["age"]}, targets[5000])  # in another order
        for x, y in zip(rows[5001:], targets[5001:], strict=True):
            run.learn_one(x, y)
    assert again.n_rows_ == len(rows)
    assert np.array_equal(again.learner_.coef_, whole.learner_.coef_)
    assert again.schema_ == whole.schema_


def test_an_input_that_can_be_read_once_resumes_with_the_rest_alone(tmp_path):
    """By ``fit_stream``; without ``rest=True`` the rows that taught would have to be compared."""

    def made():
        return PrivateClassifier(epsilon=4.0, horizon=len(TABLE), random_state=3)

    rows = [{**row, "ill": ill} for row, ill in zip(TABLE, ILL, strict=True)]
    whole = made().fit_stream(rows, target="ill")

    def breaks():
        yield from rows[:4000]
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        made().fit_stream(breaks(), target="ill", checkpoint=state(tmp_path / "run"), block_rows=100)
    first = state(tmp_path / "run").next_row()
    assert 3900 < first <= 4001
    with pytest.raises(StateError, match=r"bring the rows from next_row\(\) on, with State\(\.\.\., rest=True\)"):
        made().fit_stream(iter(rows), target="ill", checkpoint=State(tmp_path / "run"))
    again = made().fit_stream(iter(rows[first - 1 :]), target="ill", checkpoint=state(tmp_path / "run"))
    assert np.array_equal(again.learner_.coef_, whole.learner_.coef_)
    with pytest.raises(StateError, match="the run is finished"):
        state(tmp_path / "run").next_row()


def test_a_file_is_compared_although_the_rest_alone_is_learnt(tmp_path):
    """Rows that taught could be learnt too if they were behind others now."""
    pa = pytest.importorskip("pyarrow")
    rows = [{**row, "ill": ill} for row, ill in zip(TABLE, ILL, strict=True)]
    calls = []

    def fit(data):
        def stops(model, stream):
            calls.append(1)
            if len(calls) == 1:
                raise KeyboardInterrupt

        made = PrivateClassifier(epsilon=4.0, horizon=len(TABLE), random_state=3)
        return made.fit_stream(data, target="ill", checkpoint=state(tmp_path / "run"), progress=stops, block_rows=500)

    table = pa.Table.from_pylist(rows)
    with pytest.raises(KeyboardInterrupt):
        fit(table)
    other = pa.concat_tables([table.slice(1000, 1), table.slice(1)])
    with pytest.raises(StateError, match="the first rows of the stream are not those that taught"):
        fit(other)
    assert fit(table).n_rows_ == len(rows)


def test_a_run_that_is_killed_loses_what_is_not_kept_and_says_where_to_go_on(tmp_path):
    program = textwrap.dedent(
        """
        import sys
        from privol import PrivateClassifier
        from privol.live import LiveRun
        from privol.state import State

        model = PrivateClassifier(epsilon=4.0, horizon=6000, random_state=3)
        with LiveRun(model, State(sys.argv[1], rest=True, seconds=0.05)) as run:
            print(run.first_row, flush=True)
            for line in sys.stdin:
                age, ward, ill = line.split()
                run.learn_one({"age": int(age), "ward": ward}, ill)
        print(model.learner_.coef_.tobytes().hex())
        """
    )
    lines = [f"{row['age']} {row['ward']} {ill}\n" for row, ill in zip(TABLE, ILL, strict=True)]

    def kept():
        journal = tmp_path / "run" / "ledger.jsonl"
        entries = journal.read_text().split("\n")[:-1] if journal.exists() else []
        found = [entry for entry in map(json.loads, entries) if "digest" in entry.get("facts", {})]
        return max((entry["rows"] for entry in found), default=0)

    with warm.Popen(
        [sys.executable, "-c", program, tmp_path / "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        process.stdin.writelines(lines[:3000])
        process.stdin.flush()
        try:
            end = time.monotonic() + WAIT
            while process.poll() is None and not kept():
                assert time.monotonic() < end
                time.sleep(0.01)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGKILL
    first = state(tmp_path / "run").next_row()
    assert 1 < first <= 3001

    def end_of(folder, given):
        command = [sys.executable, "-c", program, folder]
        (tmp_path / "given.txt").write_text("".join(given))
        with open(tmp_path / "given.txt") as rows:
            return warm.run(command, stdin=rows, text=True, capture_output=True, check=True).stdout.split()

    assert end_of(tmp_path / "run", lines[first - 1 :]) == [str(first), end_of(tmp_path / "whole", lines)[1]]


def test_a_bad_row_ends_the_object_and_not_the_run(tmp_path):
    def made():
        return PIGD(epsilon=1.0, delta=1e-6, horizon=N, random_state=3)

    run = LiveRun(made(), state(tmp_path / "run"), classes=[0, 1])
    for x, y in zip(ROWS[:50], Y[:50], strict=True):
        run.learn_one(x, y)
    run.learn_one(ROWS[50], "neither")
    with pytest.raises(StreamError, match="row 51"):
        run.close()
    for refused in (lambda: run.learn_one(ROWS[51], 1), run.close):
        with pytest.raises(StateError, match="has ended here, and takes no more rows"):
            refused()
    run.stop()  # harmless
    assert LiveRun(made(), state(tmp_path / "run"), classes=[0, 1]).first_row <= 51  # nothing of its block is learnt
    done = give(made(), tmp_path / "run", ROWS, Y, classes=[0, 1]).model
    whole = give(made(), tmp_path / "whole", ROWS, Y, classes=[0, 1]).model
    assert fingerprint(done) == fingerprint(whole)


def test_more_rows_than_the_horizon_are_refused(tmp_path):
    run = LiveRun(PIGD(epsilon=1.0, delta=1e-6, horizon=10, random_state=3), state(tmp_path / "run"), classes=[0, 1])
    for x, y in zip(ROWS[:10], Y[:10], strict=True):
        run.learn_one(x, y)
    with pytest.raises(BudgetExceeded, match="the horizon of 10 rows is used up: this row was not taken"):
        run.learn_one(ROWS[10], 1)
    assert run.close().n_rows_ == 10
    rows = [{name: row[name] for name in ("age", "ward")} for row in TABLE]
    with LiveRun(PrivateClassifier(epsilon=4.0, horizon=3000, random_state=3), state(tmp_path / "table")) as run:
        for x, y in zip(rows[:3000], ILL[:3000], strict=True):
            run.learn_one(x, y)
        with pytest.raises(BudgetExceeded):  # those that taught count
            run.learn_one(rows[3000], ILL[3000])
    assert run.model.n_rows_ == 3000


def test_a_full_disk_is_said(tmp_path, monkeypatch):
    run = LiveRun(PIGD(epsilon=1.0, delta=1e-6, horizon=N, random_state=3), state(tmp_path / "run"), classes=[0, 1])
    run.learn_one(ROWS[0], 1)

    def full(self, *given, **words):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Checkpoints, "write", full)
    with pytest.raises(OSError, match="No space left"):
        run.close()


def test_an_exception_stops_the_run_and_keeps_what_was_given(tmp_path):
    model = PIGD(epsilon=1.0, delta=1e-6, horizon=N, random_state=3, release=10)
    with pytest.raises(KeyboardInterrupt), LiveRun(model, state(tmp_path / "run"), classes=[0, 1]) as run:  # noqa: PT012
        for x, y in zip(ROWS[:77], Y[:77], strict=True):
            run.learn_one(x, y)
        raise KeyboardInterrupt
    assert model.n_rows_ == 77
    assert model.predict_one(ROWS[0]) in (0, 1)
    assert state(tmp_path / "run").next_row() == 78


def test_what_is_wrong_is_said_before_anything_begins(tmp_path):
    good, directory = PIGD(epsilon=1.0, delta=1e-6, horizon=9), state(tmp_path / "run")
    for model, checkpoint, words, said in (
        (OutputPerturbation(), directory, {}, "model must be a learner of streams"),
        (PIGD(), directory, {}, "horizon must be given"),
        (good, State(tmp_path / "run"), {}, "rest=True"),
        (good, tmp_path / "run", {}, "rest=True"),
        (good, directory, {"target": 3}, "target must be the name of a column"),
        (PrivateClassifier(horizon=9), directory, {"classes": [0, 1]}, "the parameter of the model decides"),
        (PIGD(loss="squared", horizon=9), directory, {"classes": [0, 1]}, "the model is for real targets"),
    ):
        with pytest.raises(InvalidParameter, match=said):
            LiveRun(model, checkpoint, **words)
    run = LiveRun(good, directory)
    for x, said in (([1.0], "x must be a dict"), ({"a": 1.0, "target": 2.0}, "choose another name")):
        with pytest.raises(InvalidParameter, match=said):
            run.learn_one(x, True)
    with pytest.raises(StateError, match="no row was given"):
        run.close()
    assert not (tmp_path / "run").exists()


def test_other_features_than_those_of_the_run_are_refused(tmp_path):
    def made():
        return PIGD(epsilon=1.0, delta=1e-6, horizon=N, random_state=3)

    give(made(), tmp_path / "run", ROWS, Y, upto=5, classes=[0, 1])
    with (
        pytest.raises(StreamError, match="row 1: found the key 'another', allowed are 'x0'"),
        LiveRun(made(), state(tmp_path / "run"), classes=[0, 1]) as run,
    ):
        run.learn_one({**ROWS[5], "another": 1.0}, 1)
    own = made().declare_features(["a", "b", "c", "d"])
    assert LiveRun(own, state(tmp_path / "run"), classes=[0, 1]).features == tuple(NAMES)  # the run's


def test_a_forked_child_gives_no_rows(tmp_path):
    run = LiveRun(PIGD(epsilon=1.0, delta=1e-6, horizon=N, random_state=3), state(tmp_path / "run"), classes=[0, 1])
    run.learn_one(ROWS[0], 1)
    child = os.fork()
    if not child:
        try:
            run.learn_one(ROWS[1], 1)
        except StateError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    run.stop()
    assert state(tmp_path / "run").next_row() == 2


# ---- rows that would be learnt twice --------------------------------------------------------------------------


def estimator(**words):
    return PrivateClassifier(**{"epsilon": 4.0, "horizon": len(TABLE), "random_state": 3, **words})


def learn_and_close(run, x, y):
    """What the thread finds is raised by whichever call comes then."""
    run.learn_one(x, y)
    run.close()


PEOPLE = [{name: row[name] for name in ("age", "ward")} for row in TABLE]


@pytest.mark.parametrize("table", [False, True])
def test_rows_that_another_has_learnt_meanwhile_are_refused(table, tmp_path):
    """A service that starts before the old one has ended: ``first_row`` is of the moment when it started."""

    def made():
        model = estimator() if table else PIGD(epsilon=1.0, delta=1e-6, horizon=N, random_state=3)
        return LiveRun(model, state(tmp_path / "run"), **({} if table else {"classes": [0, 1]}))

    rows, targets = (PEOPLE, ILL) if table else (ROWS, Y)
    old = made()
    for x, y in zip(rows[:100], targets[:100], strict=True):
        old.learn_one(x, y)
    new = made()
    for x, y in zip(rows[100 : len(rows) // 2], targets[100 : len(rows) // 2], strict=True):
        old.learn_one(x, y)
    old.stop()
    with pytest.raises(StateError, match="rows come from row 1 on, and the first that is not kept is row"):
        learn_and_close(new, rows[0], targets[0])
    assert made().first_row == len(rows) // 2 + 1


def test_an_encoding_that_was_not_written_is_learnt_anew_from_the_first_row(tmp_path, monkeypatch):
    """The disk is full between the note of the rows that taught and their encoding."""

    def full(path, *given, **words):
        if path.name == "encoding.json":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, *given, **words)

    write = kept.write_atomically
    with monkeypatch.context() as patch:
        patch.setattr(kept, "write_atomically", full)
        run = LiveRun(estimator(), state(tmp_path / "run"))
        for x, y in zip(PEOPLE[:3000], ILL[:3000], strict=True):
            run.learn_one(x, y)
        with pytest.raises(OSError, match="No space left"):
            run.close()
    assert (tmp_path / "run" / "secret" / "taught.json").exists()
    assert state(tmp_path / "run").next_row() == 1
    done = give(estimator(), tmp_path / "run", PEOPLE, ILL).model
    assert done.n_rows_ == len(PEOPLE)


def test_a_run_that_ended_without_a_release_is_over(tmp_path):
    """Its rows do not come again, and above all not those that taught."""
    with LiveRun(estimator(release=4000), state(tmp_path / "table")) as run:
        for x, y in zip(PEOPLE[:3000], ILL[:3000], strict=True):
            run.learn_one(x, y)
    with pytest.raises(StateError, match="the run is finished"):
        LiveRun(estimator(release=4000), state(tmp_path / "table"))
    rows = [{**x, "target": y} for x, y in zip(PEOPLE, ILL, strict=True)]
    with pytest.raises(StateError, match="the run behind the encoding that is kept here has ended"):
        estimator(release=4000).fit_stream(iter(rows), target="target", checkpoint=state(tmp_path / "table"))

    def made():
        return PIGD(epsilon=1.0, delta=1e-6, horizon=N, random_state=3, release=[N])

    give(made(), tmp_path / "run", ROWS[:50], Y[:50], classes=[0, 1])
    with pytest.raises(StateError, match="the run is finished"):
        LiveRun(made(), state(tmp_path / "run"), classes=[0, 1])


def test_a_run_that_was_killed_before_its_first_checkpoint_has_learnt_nothing(tmp_path, monkeypatch):
    """Its rows before the stream's first are skipped by the call that begins it again, and so they come again."""
    rows = [{**x, "late": y} for x, y in zip(ROWS, Y, strict=True)]

    def fit(data):
        stream = open_stream(data, schema=WIDE, first_row=5)
        return PIGD(epsilon=1.0, delta=1e-6, horizon=N - 4, random_state=3, x_bound=2.0).fit_stream(
            stream, checkpoint=state(tmp_path / "run")
        )

    def full(self, *given, **words):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "write", full)
        with pytest.raises(OSError, match="No space left"):
            fit(iter(rows))
    assert state(tmp_path / "run").next_row() == 1
    assert fit(iter(rows)).n_rows_ == N - 4


def test_a_ledger_of_ones_own_has_to_be_named(tmp_path):
    with closing(Ledger(journal=tmp_path / "mine.jsonl")) as mine:
        give(PIGD(epsilon=1.0, delta=1e-6, horizon=N, ledger=mine), tmp_path / "run", ROWS, Y, upto=9, classes=[0, 1])
        assert state(tmp_path / "run").next_row(ledger=mine) == 10
    with pytest.raises(StateError, match="pays from a ledger that is not here"):
        state(tmp_path / "run").next_row()
    with pytest.raises(StateError, match="has no account of the run"):
        state(tmp_path / "run").next_row(ledger=Ledger())


def test_users_cannot_be_capped(tmp_path):
    """Whose rows were learnt is known by all rows alone; said before anything is spent."""
    declared = {"user": {"column": "ward", "max_rows": 3}}
    with pytest.raises(InvalidParameter, match=r"declared must have no \[user\]"):
        LiveRun(estimator(declared=declared), state(tmp_path / "run"))


# ---- several threads, and handlers of signals -----------------------------------------------------------------


def test_threads_give_rows_at_once(tmp_path):
    """Every row that was taken is learnt, whoever closes the run meanwhile."""
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for k in range(5):
            taken = [0] * 4
            learner = PIGD(epsilon=1.0, delta=1e-6, horizon=N, random_state=3)
            run = LiveRun(learner, state(tmp_path / str(k)), classes=[0, 1])
            run.learn_one(ROWS[0], 1)

            def give_some(i, run=run, taken=taken):
                with suppress(StateError):
                    for x in ROWS[1:100]:
                        run.learn_one(x, 1)
                        taken[i] += 1

            threads = [threading.Thread(target=give_some, args=(i,)) for i in range(4)]
            for thread in threads:
                thread.start()
            while sum(taken) < 20:
                pass
            run.close()
            for thread in threads:
                thread.join()
            assert learner.n_rows_ == sum(taken) + 1
    finally:
        sys.setswitchinterval(switch)


def test_a_handler_of_a_signal_may_stop_the_run(tmp_path):
    """It interrupts whatever the main thread does, also when that is giving a row."""
    program = textwrap.dedent(
        """
        import signal, sys
        from privol import PIGD
        from privol.errors import StateError
        from privol.live import LiveRun
        from privol.state import State

        run = LiveRun(PIGD(epsilon=1.0, delta=1e-6, horizon=10**9), State(sys.argv[1], rest=True))
        signal.signal(signal.SIGALRM, lambda *_: run.stop())
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        given = 0
        try:
            while True:
                run.learn_one({"a": 0.5}, True)
                given += 1
        except StateError:
            kept = State(sys.argv[1], rest=True).next_row() - 1
            assert kept in (given, given + 1), (kept, given)
            print("stopped")
        """
    )
    for k in range(3):
        command = [sys.executable, "-c", program, tmp_path / str(k)]
        assert warm.run(command, capture_output=True, text=True, check=True, timeout=WAIT).stdout == "stopped\n"


def test_one_state_serves_one_run_at_a_time(tmp_path):
    shared = state(tmp_path / "run")
    learner = PIGD(epsilon=1.0, delta=1e-6, horizon=N, random_state=3)
    first = LiveRun(learner, shared, classes=[0, 1])
    first.learn_one(ROWS[0], 1)
    end = time.monotonic() + WAIT
    while not (tmp_path / "run" / FOLDER / PLAN).exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    second = LiveRun(learner, shared, classes=[0, 1])
    with pytest.raises(StateError, match="is in use by another call"):
        learn_and_close(second, ROWS[0], 1)
    first.learn_one(ROWS[1], 0)
    first.stop()
    assert state(tmp_path / "run").next_row() == 3


def test_the_guarantee_says_that_rows_come_once(tmp_path):
    run = give(PIGD(epsilon=1.0, delta=1e-6, horizon=N), tmp_path / "run", ROWS, Y, classes=[0, 1])
    assert ONCE in run.model.guarantee_.conditions
