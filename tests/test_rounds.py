"""Rounds in one process: both sides joined are the estimator, and either refuses what the other may not ask or say."""

from __future__ import annotations

import contextlib
import copy
import math
import pickle
import random
import re
import socket
import struct
import threading
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from privol import BANCO, LDPSGD, MIOGD, NOGD, AgnosticBANCO, BanditMIOGD, losses
from privol.calibration import RANDOMIZERS
from privol.errors import BudgetExceeded, InvalidMessage, InvalidParameter, StateError
from privol.guarantees import ADJACENCIES
from privol.losses import LOSSES
from privol.rounds import VERSION, Collector, Device, receive_answer, receive_question
from privol.rounds._collector import longest_report
from privol.rounds._messages import (
    ANSWER,
    QUESTION,
    pack_answer,
    pack_question,
    parse_answer,
    parse_question,
    place_of,
    size_of,
)
from privol.rounds._terms import Terms

ROWS, FEATURES = 300, 7
SEED = 11

# What a learner asks for, and the least that its devices then have to accept.
PAIRS = {
    "miogd": (MIOGD(leakage=0.3, radius=3.0), {"leakage": 0.3}),
    "miogd by epsilon": (MIOGD(epsilon=1.0, delta=1e-5, step="adaptive"), {"epsilon": 1.0, "delta": 1e-5}),
    "privunit": (LDPSGD(epsilon=1.5, radius=2.0), {"epsilon": 1.5}),
    "l2laplace": (LDPSGD(epsilon=1.0, randomizer="l2laplace", l2=0.1), {"epsilon": 1.0}),
    "laplace": (LDPSGD(epsilon=1.0, randomizer="laplace"), {"epsilon": 1.0}),
    "duchi": (LDPSGD(epsilon=1.0, randomizer="duchi", x_bound=0.7), {"epsilon": 1.0}),
    "gaussian": (LDPSGD(epsilon=1.0, randomizer="gaussian"), {"epsilon": 1.0, "delta": 1e-6}),
    "banco": (BANCO(epsilon=2.0), {"epsilon": 2.0}),
    "agnostic": (AgnosticBANCO(epsilon=2.0, loss="hinge"), {"epsilon": 2.0}),
    "no noise": (LDPSGD(epsilon=math.inf), {"epsilon": math.inf}),
    "no intercept": (LDPSGD(epsilon=1.0, fit_intercept=False, gradient_bound=0.1), {"epsilon": 1.0}),
    "halved": (LDPSGD(epsilon=1.0, randomizer="l2laplace", adjacency="zero_out"), {"epsilon": 1.0}),
    "regression": (LDPSGD(epsilon=1.0, loss=losses.Huber(width=0.5), y_bound=2.0), {"epsilon": 1.0}),
}


CUSTOM = losses.Custom(value=lambda p, y: p, gradient=lambda p, y: 1.0, lipschitz=1.0, smoothness=0.0)


def rows(n=ROWS, features=FEATURES):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, features)) / 2
    return X, (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(float)


def pair(name="privunit", seed=SEED, horizon=ROWS, **limits):
    """A learner's collector and a device that accepts just what it asks for."""
    learner, least = PAIRS[name]
    learner = clone(learner).set_params(horizon=horizon, random_state=seed)
    if losses.get_loss(learner.loss).kind == "classification":
        learner.declare_classes([0, 1])
    words = {"loss": learner.loss, "fit_intercept": learner.fit_intercept, "adjacency": learner.adjacency}
    device = Device(n_features=FEATURES, reports=horizon, random_state=seed, **{**words, **least, **limits})
    return learner, Collector(learner, FEATURES), device


def state_of(learner, collector):
    """All that a message could have changed."""
    return learner.n_rows_, learner.coef_.tobytes(), learner.ledger_.spent.mu, collector.ask()


# ---- joined ---------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::privol.errors.PrivacyWarning")
@pytest.mark.parametrize("name", PAIRS)
def test_the_two_sides_joined_are_the_estimator(name):
    X, y = rows()
    learner, collector, device = pair(name)
    for x, target in zip(X, y, strict=True):
        collector.tell(device.answer(collector.ask(), x, target))
    assert collector.done
    fitted = clone(learner).fit(X, y)
    for attribute in ("coef_", "intercept_", "average_coef_"):
        found, expected = (np.asarray(getattr(each, attribute)) for each in (learner, fitted))
        assert found.tobytes() == expected.tobytes()
    assert np.any(learner.coef_ != 0.0)
    assert learner.guarantee_.mu == fitted.guarantee_.mu
    with pytest.raises(BudgetExceeded, match="horizon of 300 rounds"):
        collector.ask()


def test_rows_as_they_come():
    X, y = rows()
    X[3, 2], X[5, 0], y[8] = np.nan, 1e300, np.nan
    X[9] *= 100
    with np.errstate(over="ignore"):
        singles = X.astype(np.float32)
    strided = np.repeat(singles.astype(float), 2, axis=1)[:, ::2]
    swapped = singles.astype(">f8")
    for given in (singles, strided, swapped):
        learner, collector, device = pair()
        for x, target in zip(given, y, strict=True):
            collector.tell(device.answer(collector.ask(), x, target))
        null = np.isnan(y)
        fitted = clone(learner).set_params(on_invalid="zero")
        fitted.declare_classes([0, 1])
        fitted.partial_fit(singles, np.where(null, -1, y))
        assert learner.coef_.tobytes() == fitted.coef_.tobytes()


def test_a_lost_answer_leaves_the_round_open():
    X, y = rows()
    learner, collector, device = pair()
    fresh = Device(n_features=FEATURES, epsilon=1.5)
    for t, (x, target) in enumerate(zip(X, y, strict=True)):
        question = collector.ask()
        if t == 100:
            fresh.answer(question, x, target)  # a device whose answer never comes
        assert collector.ask() == question
        answer = device.answer(question, x, target)
        collector.tell(answer)
        with pytest.raises(InvalidMessage, match=f"of round {t + 1}, which has its report"):
            collector.tell(answer)
    assert learner.coef_.tobytes() == clone(learner).fit(X, y).coef_.tobytes()


def test_runs_have_names_of_their_own():
    assert pair()[1].run != pair()[1].run
    assert len(pair()[1].run) == 16


@pytest.mark.parametrize(
    ("learner", "words"),
    [
        (NOGD(horizon=5), "must learn from reports"),
        (BanditMIOGD(horizon=5), "must learn from reports"),
        (object(), "must learn from reports"),
        (
            LDPSGD(horizon=5, loss=CUSTOM),
            "built-in",
        ),
        (LDPSGD(), "horizon"),
    ],
)
def test_learners_that_have_no_rounds(learner, words):
    with pytest.raises(InvalidParameter, match=words):
        Collector(learner, 3)


def test_the_page_of_rounds():
    page = Path(__file__).parents[1].joinpath("docs", "rounds.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    names = {"row": np.ones(54)}
    exec(compile(code, "rounds.md", "exec"), names)
    assert names["learner"].n_rows_ == 1
    stated = dict(re.findall(r"(\d) (\w+)", page[page.index("| 40 | 1 |") : page.index("| 42 | 1 |")]))
    assert list(stated.values()) == [*RANDOMIZERS, *ADJACENCIES]
    told = re.findall(r"\d (\w+)[,| ]", page[page.index("| 42 | 1 |") + 10 : page.index("| 43 | 1 |")])
    assert [word for word in told if word in LOSSES] == list(LOSSES[:6])


# ---- what the learner refuses ---------------------------------------------------------------------------------------


def changed(message, at, content):
    return message[:at] + content + message[at + len(content) :]


def refusals():
    """What is wrong with an answer, how to make it so, and what is said of it."""
    nan, many = struct.pack("<d", math.nan), struct.pack("<d", 1e200)
    return {
        "empty": (lambda a: b"", "at least 40 bytes, found 0"),
        "short": (lambda a: a[:39], "at least 40 bytes, found 39"),
        "truncated": (lambda a: a[:-1], "must have 104 bytes, found 103"),
        "longer": (lambda a: a + b"\0", "must have 104 bytes, found 105"),
        "text": (lambda a: bytearray(a), "must be bytes, found bytearray"),
        "magic": (lambda a: changed(a, 0, b"GET "), "begins with b'pvRD', found b'GET '"),
        "version": (lambda a: changed(a, 4, b"\2"), "version 1 are understood here, found version 2"),
        "kind": (lambda a: changed(a, 6, b"\1"), r"kind 2 \(answer\) and then 0, found 1 and 0"),
        "zero": (lambda a: changed(a, 7, b"\1"), "found 2 and 1"),
        "size": (lambda a: changed(a, 8, b"\xff\xff\xff\xff"), "has 104 bytes, this one states 4294967295"),
        "coordinates": (lambda a: changed(a, 12, b"\xff\xff\xff\xff"), "must have 8 coordinates, found 4294967295"),
        "run": (lambda a: changed(a, 16, b"\0" * 16), "is to the run 0000"),
        "round 0": (lambda a: changed(a, 32, b"\0" * 8), "numbered from 1, found 0"),
        "round before": (lambda a: changed(a, 32, b"\1"), "of round 1, which has its report; open is 3"),
        "round after": (lambda a: changed(a, 32, b"\4"), "of round 4, which was not asked; open is 3"),
        "NaN": (lambda a: changed(a, 48, nan), "finite and at most 1e.150 in magnitude, coordinate 1 is nan"),
        "infinite": (lambda a: changed(a, 96, struct.pack("<d", -math.inf)), "coordinate 7 is -inf"),
        "overflow": (lambda a: changed(a, 40, many), r"coordinate 0 is 1e\+200"),
        "long": (lambda a: a[:40] + (1.01 * np.frombuffer(a, "<f8", 8, 40)).tobytes(), "norm of at most .* found"),
    }


@pytest.mark.parametrize("what", refusals())
def test_the_learner_refuses(what):
    spoil, words = refusals()[what]
    X, y = rows()
    learner, collector, device = pair()
    for t in range(2):
        collector.tell(device.answer(collector.ask(), X[t], y[t]))
    good = device.answer(collector.ask(), X[2], y[2])
    before = state_of(learner, collector)
    with pytest.raises(InvalidMessage, match=words):
        collector.tell(spoil(good))
    assert state_of(learner, collector) == before
    collector.tell(good)
    for t in range(3, ROWS):
        collector.tell(device.answer(collector.ask(), X[t], y[t]))
    assert learner.coef_.tobytes() == clone(learner).fit(X, y).coef_.tobytes()


def test_answers_of_another_run_and_of_a_stale_point():
    X, y = rows()
    learner, collector, device = pair()
    other_learner, other, other_device = pair(seed=12)
    first = collector.ask()
    stale = Device(n_features=FEATURES, epsilon=1.5).answer(first, X[0], y[0])
    collector.tell(device.answer(first, X[0], y[0]))
    before = state_of(learner, collector)
    for answer, words in ((other_device.answer(other.ask(), X[0], y[0]), "is to the run"), (stale, "has its report")):
        with pytest.raises(InvalidMessage, match=words):
            collector.tell(answer)
    assert state_of(learner, collector) == before
    assert other_learner.n_rows_ == 0


@pytest.mark.filterwarnings("ignore::privol.errors.PrivacyWarning")
@pytest.mark.parametrize("name", PAIRS)
def test_no_report_is_longer_than_the_longest(name):
    """Lengths of honest reports stay below the longest, which is no more than a small multiple of them.

    One honest report is longer with probability below 4e-22: 300 with one below 1e-19.
    """
    learner, collector, device = pair(name)
    x = np.full(FEATURES, 5.0)
    question = collector.ask()
    lengths = [np.linalg.norm(parse_answer(device.answer(question, x, 1.0), device.dim)[1]) for _ in range(ROWS)]
    assert max(lengths) <= collector.longest
    assert collector.longest < 80 * np.mean(lengths) + 1e-9 or name == "no noise"
    noise = learner.calibrate(FEATURES, 1, "all").report
    assert collector.longest == longest_report(noise)
    if noise.cap is not None:
        assert collector.longest < 1.01 * min(lengths)


# ---- what the device refuses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "limits", "words"),
    [
        ("privunit", {"epsilon": math.nextafter(1.5, 0)}, "epsilon at most 1.5, asked is 1.5"),
        ("privunit", {"epsilon": 1.0}, "epsilon at most 1, asked is 1.5"),
        ("privunit", {"epsilon": None, "leakage": 1.0}, "epsilon at most 1, asked is 1.5"),
        ("laplace", {"epsilon": 0.5}, "at most 0.5, asked is 1"),
        ("no noise", {"epsilon": 20.0}, "at most 20, asked is inf"),
        ("gaussian", {"epsilon": 0.99}, "sigma at least .* asked is"),
        ("gaussian", {"delta": 1e-7}, "sigma at least .* asked is"),
        ("gaussian", {"delta": None}, "pure reports only"),
        ("gaussian", {"leakage": 1e-6}, "sigma at least .* asked is"),
        ("miogd", {"leakage": 0.29}, "sigma at least .* asked is"),
        ("miogd", {"leakage": None, "epsilon": 1.0, "delta": 1e-6}, "sigma at least .* asked is"),
        ("halved", {"adjacency": "replace"}, "for the adjacency 'replace', the question's noise for 'zero_out'"),
    ],
)
@pytest.mark.filterwarnings("ignore::privol.errors.PrivacyWarning")
def test_a_device_refuses_less_noise(name, limits, words):
    X, y = rows()
    learner, collector, exact = pair(name)
    _, _, device = pair(name, **limits)
    before = state_of(learner, collector)
    for x, target in ((X[0], y[0]), (np.full(FEATURES, np.nan), np.nan)):  # whatever the row is
        with pytest.raises(BudgetExceeded, match=words):
            device.answer(collector.ask(), x, target)
    assert device.n_reports == 0
    assert state_of(learner, collector) == before
    assert len(exact.answer(collector.ask(), X[0], y[0])) == size_of(ANSWER, exact.dim)
    assert exact.n_reports == 1


@pytest.mark.filterwarnings("ignore::privol.errors.PrivacyWarning")
def test_a_device_may_ask_for_leakage_alone():
    X, y = rows()
    for name, leakage in (("privunit", 1.5), ("halved", 1.0), ("miogd", 0.3)):
        _, collector, _ = pair(name)
        device = Device(n_features=FEATURES, leakage=leakage)
        collector.tell(device.answer(collector.ask(), X[0], y[0]))


def test_a_device_answers_once():
    X, y = rows()
    _, collector, _ = pair()
    device = Device(n_features=FEATURES, epsilon=1.5)
    collector.tell(device.answer(collector.ask(), X[0], y[0]))
    for _ in range(2):
        with pytest.raises(BudgetExceeded, match="makes 1 reports, and has made 1"):
            device.answer(collector.ask(), X[0], y[0])
    assert device.n_reports == 1


def test_reports_are_counted_over_runs_and_never_repeat_their_noise():
    X, y = rows()
    reports = []
    device = Device(n_features=FEATURES, epsilon=2.0, reports=4, random_state=SEED)
    for name in ("privunit", "l2laplace", "privunit"):
        _, collector, _ = pair(name)
        answer = device.answer(collector.ask(), X[0], y[0])
        reports.append(parse_answer(answer, device.dim)[1].tobytes())
    assert len(set(reports)) == 3
    device.answer(collector.ask(), X[0], y[0])
    with pytest.raises(BudgetExceeded):
        device.answer(collector.ask(), X[0], y[0])


def test_threads_make_no_more_reports_than_allowed():
    X, y = rows()
    _, collector, _ = pair()
    question, made = collector.ask(), []
    device = Device(n_features=FEATURES, epsilon=1.5, reports=50)

    def ask():
        for _ in range(20):
            with contextlib.suppress(BudgetExceeded):
                made.append(device.answer(question, X[0], y[0]))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 50 == device.n_reports
    assert len(set(made)) == 50  # no two of the same noise


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"loss": "hinge"}, "takes gradients of Hinge.*is of 'logistic'"),
        ({"fit_intercept": False}, "must have 7 coordinates, found 8"),
        ({"n_features": 8}, "must have 9 coordinates, found 8"),
        ({"n_features": 8, "fit_intercept": False}, "has fit_intercept=False, the question has True"),
    ],
)
def test_a_device_has_a_task_of_its_own(words, said):
    _, collector, _ = pair()
    device = Device(**{"n_features": FEATURES, "epsilon": 2.0, **words})
    with pytest.raises(InvalidMessage, match=said):
        device.answer(collector.ask(), np.zeros(words.get("n_features", FEATURES)), 1.0)
    assert device.n_reports == 0


def test_a_loss_of_another_width():
    X, y = rows()
    _, collector, _ = pair("regression")
    device = Device(n_features=FEATURES, epsilon=1.0, loss=losses.Huber(width=0.4))
    with pytest.raises(InvalidMessage, match="gradients of Huber"):
        device.answer(collector.ask(), X[0], y[0])


def terms(**words):
    found = {"randomizer": "privunit", "adjacency": "replace", "loss": "logistic", "width": 0.0, "intercept": True}
    found |= {"figure": "epsilon", "amount": 1.0, "bound": 1.5, "x_bound": 1.0, "y_bound": 1.0}
    return Terms(**{**found, **words}).pack()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\5" + terms()[1:], "randomizer must have a code from 0 to 4, found 5"),
        (changed(terms(), 1, b"\2"), "adjacency must have a code"),
        (changed(terms(), 2, b"\x09"), "loss must have a code"),
        (changed(terms(), 3, b"\2"), "intercept must have a code"),
        (changed(terms(), 4, b"\2"), "figure must have a code"),
        (changed(terms(), 5, b"\1"), "other than 0"),
        (terms(amount=0.0), "epsilon must be above 0, found 0"),
        (terms(amount=-1.0), "above 0"),
        (terms(amount=math.nan), "above 0"),
        (terms(amount=1e-12), "cannot be met"),
        (terms(bound=0.0), "bound must be from"),
        (terms(bound=math.nan), "bound must be from"),
        (terms(x_bound=math.inf), "x_bound must be from"),
        (terms(y_bound=-1.0), "y_bound must be from"),
        (terms(width=math.nan), "width"),
        (terms(width=1.0), "takes gradients"),
        (terms(loss="softmax"), "takes gradients"),
        (terms(figure="sigma"), "not stated by its sigma"),
        (terms(randomizer="gaussian"), "not stated by its epsilon"),
        (terms(randomizer="gaussian", figure="sigma", amount=math.inf), "sigma must be above 0"),
    ],
)
def test_terms_that_are_none(content, said):
    device = Device(n_features=FEATURES, epsilon=2.0, delta=1e-6)
    question = pack_question(place_of(bytes(16), 1), content, np.zeros(8))
    with pytest.raises(InvalidMessage, match=said):
        device.answer(question, np.zeros(FEATURES), 1.0)
    assert device.n_reports == 0


def test_points_that_are_none():
    device = Device(n_features=FEATURES, epsilon=2.0)
    for number in (math.nan, math.inf, 1e151):
        with pytest.raises(InvalidMessage, match="point must be finite"):
            device.answer(pack_question(place_of(bytes(16), 1), terms(), np.full(8, number)), np.zeros(FEATURES), 1.0)
    answer = device.answer(pack_question(place_of(bytes(16), 1), terms(), np.full(8, 1e149)), np.ones(FEATURES), 1.0)
    assert len(answer) == 104  # any finite point does


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.zeros(FEATURES + 1), 1.0),
        (np.zeros((1, FEATURES)), 1.0),
        (np.zeros(FEATURES, dtype=complex), 1.0),
        (["a"] * FEATURES, 1.0),
        (np.zeros(FEATURES), "yes"),
        (np.zeros(FEATURES), None),
    ],
)
def test_what_is_no_row(x, y):
    device = Device(n_features=FEATURES, epsilon=2.0)
    with pytest.raises(InvalidParameter):
        device.answer(pack_question(place_of(bytes(16), 1), terms(), np.zeros(8)), x, y)
    assert device.n_reports == 0


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"delta": 1e-6},
        {"delta": 1e-6, "leakage": 1.0},
        {"epsilon": 0.0},
        {"epsilon": math.nan},
        {"epsilon": 1.0, "delta": 0.0},
        {"leakage": -1.0},
        {"epsilon": 1.0, "reports": 0},
        {"epsilon": 1.0, "adjacency": "add"},
        {"epsilon": 1.0, "loss": "softmax"},
        {"epsilon": 1.0, "n_features": 0},
        {"epsilon": 1.0, "random_state": -1},
    ],
)
def test_devices_without_limits_and_others(words):
    with pytest.raises(InvalidParameter):
        Device(**{"n_features": FEATURES, **words})


def test_devices_stay_where_they_are():
    device = Device(n_features=FEATURES, epsilon=1.0)
    for take in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(StateError, match="a device cannot be"):
            take(device)
    assert repr(device) == "<Device: 8 coordinates, 0 of 1 reports made>"


# ---- messages -------------------------------------------------------------------------------------------------------


def test_the_layout_of_version_1():
    """What is written is what docs/rounds.md says, byte by byte: devices of other makers rely on it."""
    run, point = bytes(range(16)), np.array([0.5, -2.0])
    assert VERSION == 1
    head = b"pvRD" + struct.pack("<HBBII", 1, 1, 0, 40 + 48 + 16, 2) + run + struct.pack("<Q", 77)
    content = struct.pack("<BBBBB3xddddd", 2, 1, 5, 1, 0, 1.25, 0.75, 3.0, 4.0, 0.5)
    stated = terms(
        randomizer="l2laplace",
        adjacency="zero_out",
        loss="huber",
        amount=0.75,
        bound=1.25,
        x_bound=3.0,
        y_bound=4.0,
        width=0.5,
    )
    assert stated == content
    question = pack_question(place_of(run, 77), stated, point)
    assert question == head + content + struct.pack("<dd", 0.5, -2.0)
    assert (head + content)[40:45] == b"\2\1\5\1\0"
    answer = pack_answer(place_of(run, 77), point)
    assert answer == b"pvRD" + struct.pack("<HBBII", 1, 2, 0, 56, 2) + run + struct.pack("<Qdd", 77, 0.5, -2.0)
    assert (size_of(QUESTION, 2), size_of(ANSWER, 2)) == (len(question), len(answer))
    assert Terms.unpack(content).pack() == content
    for dim in (0, 1 << 29):
        with pytest.raises(InvalidMessage, match="1 to 536870848 coordinates"):
            size_of(ANSWER, dim)


def mutations(seeds, n, seed):
    """Messages changed, cut, lengthened, joined; and bytes that never were one."""
    draw = random.Random(seed)
    special = [0.0, -0.0, math.nan, math.inf, 5e-324, 1e200, -1.0, 1e-12, 1e30]
    for _ in range(n):
        message = bytearray(draw.choice(seeds))
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(message) + 1)
            match draw.randrange(7):
                case 0:
                    message[at : at + 1] = bytes([draw.randrange(256)])
                case 1:
                    del message[at : at + draw.randrange(1, 60)]
                case 2:
                    message[at:at] = draw.randbytes(draw.randrange(1, 60))
                case 3:
                    at = at // 8 * 8
                    message[at : at + 8] = struct.pack("<d", draw.choice(special))
                case 4:
                    message = bytearray(draw.randbytes(draw.choice([0, 1, 40, 104, 152, 300])))
                case 5:
                    message[40:] = draw.choice(seeds)[40:]
                case _:
                    at = min(at, 40)
                    message[at : at + 1] = bytes([message[at] ^ 1 << draw.randrange(8)]) if at < len(message) else b""
        yield bytes(message)


@pytest.mark.filterwarnings("error")
def test_random_messages_change_nothing_that_they_may_not():
    X, y = rows()
    learner, collector, device = pair(horizon=5000)
    seeds = []
    for t in range(3):
        seeds.append(collector.ask())
        seeds.append(device.answer(seeds[-1], X[t], y[t]))
        collector.tell(seeds[-1])
    seeds.append(collector.ask())
    seeds.append(device.answer(seeds[-1], X[3], y[3]))
    careful = Device(n_features=FEATURES, epsilon=1.5, delta=1e-6, reports=10**6)
    learnt = answered = 0
    for message in mutations(seeds, 6000, seed=3):
        before = (learner.n_rows_, learner.coef_.tobytes(), careful.n_reports)
        open_round, place = collector.round, message[32:40]
        try:
            collector.tell(message)
        except InvalidMessage:
            assert (learner.n_rows_, learner.coef_.tobytes()) == before[:2]
        else:  # numbers of a report may be any that a report may have
            report = np.frombuffer(message, "<f8", 8, 40)
            assert (len(message), message[:16], message[16:32]) == (104, seeds[1][:16], collector.run)
            assert int.from_bytes(place, "little") == open_round
            assert np.linalg.norm(report) <= collector.longest
            assert learner.n_rows_ == before[0] + 1
            learnt += 1
        try:
            answer = careful.answer(message, X[0], y[0])
        except (InvalidMessage, BudgetExceeded):
            assert careful.n_reports == before[2]
        else:
            stated = Terms.unpack(message[40:88])
            assert stated.pack() == message[40:88]
            assert stated.figure == "sigma" or stated.amount <= 1.5
            assert answer[16:40] == message[16:40]
            assert np.isfinite(parse_question(message, 8)[2]).all()
            answered += 1
    assert learnt >= 1
    assert answered > 100


# ---- sockets --------------------------------------------------------------------------------------------------------


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_messages_in_pieces(ends):
    ours, theirs = ends
    _, collector, device = pair()
    question = collector.ask()
    answer = device.answer(question, np.ones(FEATURES), 1.0)

    def trickle():
        for message in (question, question):
            for k in range(len(message)):
                theirs.sendall(message[k : k + 1])
        theirs.close()

    writer = threading.Thread(target=trickle)
    writer.start()
    assert [receive_question(ours, 8) for _ in range(3)] == [question, question, None]
    writer.join()
    assert ours.gettimeout() is None
    one, other = socket.socketpair()
    with one, other:
        other.sendall(answer + answer)
        assert [receive_answer(one, 8) for _ in range(2)] == [answer, answer]


def test_a_connection_that_ends_in_the_middle(ends):
    ours, theirs = ends
    _, collector, _ = pair()
    theirs.sendall(collector.ask()[:100])
    theirs.close()
    with pytest.raises(InvalidMessage, match="ended after 100 of 152 bytes"):
        receive_question(ours, 8)


def test_a_wrong_beginning_is_refused_before_the_rest_comes(ends):
    ours, theirs = ends
    _, collector, _ = pair()
    theirs.sendall(changed(collector.ask(), 8, b"\xff\xff\xff\xff")[:40])  # 4 GB are announced, and nothing follows
    with pytest.raises(InvalidMessage, match="has 152 bytes, this one states 4294967295"):
        receive_question(ours, 8)


def test_a_rest_that_never_comes(ends):
    ours, theirs = ends
    _, collector, _ = pair()
    theirs.sendall(collector.ask()[:50])
    with pytest.raises(TimeoutError):
        receive_question(ours, 8, seconds=0.05)
    ours.settimeout(0.05)
    with pytest.raises(TimeoutError):
        receive_question(ours, 8)
    assert ours.gettimeout() == 0.05
