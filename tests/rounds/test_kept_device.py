"""Devices that outlive their process: one answer to a question, whatever is repeated, lost or killed."""

from __future__ import annotations

import errno
import json
import os
import signal

import numpy as np
import pytest
from round_tools import FEATURES, pair, rows

from privol import _files
from privol.errors import BudgetExceeded, InvalidMessage, InvalidParameter, StateError
from privol.rounds import Device, KeptDevice

LIMITS = {"n_features": FEATURES, "epsilon": 1.5}


def never(number):
    raise AssertionError("the row was read")


@pytest.fixture
def place(tmp_path):
    return tmp_path / "device"


def first():
    X, y = rows()
    return lambda number: (X[number], y[number])


def test_it_answers_as_a_device_does(place):
    """Report n has the noise of the n-th child of the seed, and the answer is the device's to the byte."""
    _, collector, _ = pair()
    for n in range(3):
        question = collector.ask()
        found = KeptDevice(place, reports=3, random_state=5, **LIMITS).answer(question, first())
        seed = np.random.SeedSequence(5, spawn_key=(n,))
        assert found == Device(random_state=seed, **LIMITS).answer(question, *first()(n))
        collector.tell(found)
    assert KeptDevice(place, **LIMITS).n_reports == 3


def test_a_repeated_question_has_the_same_answer_and_reads_no_row(place):
    _, collector, _ = pair()
    question = collector.ask()
    answer = KeptDevice(place, **LIMITS).answer(question, first())
    before = (place / "answers.jsonl").read_bytes()
    for _ in range(2):
        assert KeptDevice(place, **LIMITS).answer(question, never) == answer
    assert (place / "answers.jsonl").read_bytes() == before
    assert KeptDevice(place, **LIMITS).n_reports == 1


def test_another_question_of_a_round_is_refused(place):
    """A learner that asks at another point of the same round would get a second report of it."""
    _, collector, _ = pair()
    question = collector.ask()
    device = KeptDevice(place, reports=5, **LIMITS)
    device.answer(question, first())
    other = question[:-8] + np.float64(0.25).tobytes()
    with pytest.raises(InvalidMessage, match="has answered another question of round 1 of the run"):
        device.answer(other, never)
    assert device.n_reports == 1


def test_reports_are_counted_over_processes_and_runs(place):
    for _ in range(2):
        KeptDevice(place, reports=2, **LIMITS).answer(pair()[1].ask(), first())
    for reports in (1, 2):
        with pytest.raises(BudgetExceeded, match=f"makes {reports} reports, and has made 2"):
            KeptDevice(place, reports=reports, **LIMITS).answer(pair()[1].ask(), never)
    KeptDevice(place, reports=3, **LIMITS).answer(pair()[1].ask(), first())


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        ({"epsilon": 1.0}, BudgetExceeded, "epsilon at most 1, asked is 1.5"),
        ({"loss": "hinge"}, InvalidMessage, "takes gradients of"),
        ({"fit_intercept": False}, InvalidMessage, "must have 7 coordinates, found 8"),
    ],
)
def test_what_a_device_refuses_leaves_nothing(place, words, error, said):
    with pytest.raises(error, match=said):
        KeptDevice(place, **{**LIMITS, **words}).answer(pair()[1].ask(), never)
    assert KeptDevice(place, **LIMITS).n_reports == 0


@pytest.mark.parametrize("row", [lambda n: (np.ones(3), 1.0), lambda n: 7.0, lambda n: [[0.0] * FEATURES, 1.0]])
def test_rows_of_another_shape(place, row):
    with pytest.raises(InvalidParameter, match=r"must have shape|must return the features and the target, found a"):
        KeptDevice(place, **LIMITS).answer(pair()[1].ask(), row)
    assert KeptDevice(place, **LIMITS).n_reports == 0


@pytest.mark.parametrize(
    "words", [{"reports": 0}, {"random_state": -1}, {"random_state": "x"}, {"epsilon": 0.0}, {"n_features": 0}]
)
def test_parameters(place, words):
    with pytest.raises(InvalidParameter):
        KeptDevice(place, **{**LIMITS, **words})
    assert not place.exists()


# ---- the disk -------------------------------------------------------------------------------------------------------


def test_an_answer_that_cannot_be_kept_is_not_handed_out(place, monkeypatch):
    device, question = KeptDevice(place, **LIMITS), pair()[1].ask()
    assert device.n_reports == 0
    synced = os.fsync
    monkeypatch.setattr(_files.os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    with pytest.raises(OSError, match="full"):
        device.answer(question, first())
    monkeypatch.setattr(_files.os, "fsync", synced)
    assert device.n_reports == 0
    device.answer(question, first())
    assert device.n_reports == 1


@pytest.mark.process
@pytest.mark.parametrize("call", range(1, 12))
def test_a_kill_at_any_step_makes_no_second_report(place, call):
    """A child is killed before its n-th call of the system; what it had handed out is what its successor answers."""
    question = pair()[1].ask()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        calls = 0

        def counting(name):
            real = getattr(os, name)

            def count(*args, **words):
                nonlocal calls
                calls += 1
                if calls == call:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*args, **words)

            return count

        for name in ("mkdir", "open", "write", "fsync", "ftruncate"):
            setattr(_files.os, name, counting(name))
        answer = KeptDevice(place, **LIMITS).answer(question, first())
        calls = -(10**9)
        os.write(write, answer)
        os._exit(0)
    os.close(write)
    _, status = os.waitpid(child, 0)
    with os.fdopen(read, "rb") as file:
        handed = file.read()
    again = KeptDevice(place, **LIMITS).answer(question, first())
    assert bool(handed) == (status == 0) == (call == 11)  # the last one is beyond its calls
    assert handed in (b"", again)
    assert KeptDevice(place, **LIMITS).answer(question, never) == again
    with pytest.raises(BudgetExceeded, match="has made 1"):
        KeptDevice(place, **LIMITS).answer(pair()[1].ask(), never)


def test_a_torn_last_line_was_never_handed_out(place):
    question = pair()[1].ask()
    device = KeptDevice(place, **LIMITS)
    device.answer(question, first())
    content = (place / "answers.jsonl").read_bytes()
    for length in range(len(content) - 1, 0, -17):
        (place / "answers.jsonl").write_bytes(content[:length])
        assert device.n_reports == 0
        device.answer(question, first())
        assert device.n_reports == 1


@pytest.mark.parametrize("change", ["format", "sum", "twice", "place", "text"])
def test_a_damaged_directory_reports_nothing_more(place, change):
    device, question = KeptDevice(place, reports=9, **LIMITS), pair()[1].ask()
    device.answer(question, first())
    lines = (place / "answers.jsonl").read_bytes().splitlines()
    record = json.loads(lines[1])
    if change == "format":
        lines[0] = lines[0].replace(b'"version": 1', b'"version": 2')
    elif change == "twice":
        lines.append(lines[1])
    elif change == "text":
        lines.insert(1, b"{")
    else:
        record[change] = record[change][:-2]
        lines[1] = json.dumps(record).encode()
    (place / "answers.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    for asked in (question, pair()[1].ask()):
        with pytest.raises(StateError, match=r"answers\.jsonl: cannot be read, line .*reports nothing more"):
            device.answer(asked, never)


def test_one_process_at_a_time(place):
    device, question = KeptDevice(place, **LIMITS), pair()[1].ask()

    def meanwhile(number):
        with pytest.raises(StateError, match="is open elsewhere"):
            KeptDevice(place, **LIMITS).answer(question, never)
        return first()(number)

    device.answer(question, meanwhile)
    assert device.n_reports == 1


def test_nothing_of_the_row_is_kept(place):
    """The directory is a function of the question and the answer."""
    question = pair()[1].ask()
    KeptDevice(place, **LIMITS).answer(question, first())
    assert [each.name for each in place.iterdir()] == ["answers.jsonl"]
    record = json.loads((place / "answers.jsonl").read_text().splitlines()[1])
    assert sorted(record) == ["answer", "place", "question", "sum"]
    assert (place.stat().st_mode & 0o777) == 0o700


def watch_syncs(monkeypatch, fail):
    """The names of what is synced, in order; the sync number ``fail`` has an error of the disk."""
    real, synced = os.fsync, []

    def fsync(descriptor):
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        if len(synced) == fail:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    monkeypatch.setattr(_files.os, "fsync", fsync)
    return synced


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="/proc of Linux")
def test_what_an_earlier_call_could_not_sync_is_synced_before_an_answer(place, monkeypatch):
    """A loss of power would take the whole directory, and with it what the device has reported."""
    _, collector, _ = pair()
    question = collector.ask()
    for fail in (1, 2):
        synced = watch_syncs(monkeypatch, fail)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            KeptDevice(place, **LIMITS).answer(question, never)
    synced = watch_syncs(monkeypatch, 0)
    KeptDevice(place, **LIMITS).answer(question, first())
    assert place.parent.name in synced
    del synced[:]
    KeptDevice(place, **LIMITS).answer(question, never)  # made by a process that may have been killed before its sync
    assert synced == ["answers.jsonl", "device"]
