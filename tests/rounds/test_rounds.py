"""Rounds in one process: both sides together equal the estimator, and each refuses invalid messages of the other."""

from __future__ import annotations

import contextlib
import copy
import math
import pickle
import re
import struct
import threading
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from places import ROOT
from round_tools import FEATURES, PAIRS, ROWS, SEED, changed, pair, rows, state_of, terms
from sklearn.base import clone

from privol import LDPSGD, NOGD, BanditMIOGD, losses
from privol.calibration import RANDOMIZERS, calibrate_report
from privol.errors import BudgetExceeded, InvalidMessage, InvalidParameter, StateError
from privol.guarantees import ADJACENCIES
from privol.losses import LOSSES
from privol.rounds import Collector, Device
from privol.rounds._collector import longest_report
from privol.rounds._messages import ANSWER, pack_question, parse_answer, place_of, size_of

CUSTOM = losses.Custom(value=lambda p, y: p, gradient=lambda p, y: 1.0, lipschitz=1.0, smoothness=0.0)


# ---- both sides together ---------------------------------------------------------------------------------------------


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
            fresh.answer(question, x, target)  # a device whose answer never arrives
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
    page = ROOT.joinpath("docs", "rounds.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    names = {"row": np.ones(54)}
    exec(compile(code, "rounds.md", "exec"), names)
    assert names["learner"].n_rows_ == 1
    for place, words in ((40, RANDOMIZERS), (41, ADJACENCIES), (42, LOSSES[:6])):
        (line,) = re.findall(rf"^\| {place} \| 1 \| (.*) \|$", page, flags=re.MULTILINE)
        assert line.split(": ")[1] == ", ".join(f"{code} {word}" for code, word in enumerate(words))


# ---- what the learner refuses ---------------------------------------------------------------------------------------


def refusals():
    """Faults of an answer, how to make them, and the resulting message."""
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
def test_no_report_exceeds_the_accepted_length(name):
    """Lengths of honest reports stay below the maximum, which is only a small multiple of them.

    One honest report exceeds it with probability below 4e-22, one of 300 with probability below 1e-19.
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


@pytest.mark.parametrize("limits", [{"epsilon": 1.0, "delta": 1e-6}, {"leakage": 0.3}], ids=str)
def test_noise_is_accepted_down_to_the_last_digit_and_not_below(limits):
    least = calibrate_report("gaussian", dim=FEATURES + 1, bound=1.5, adjacency="replace", **limits).scale
    words = {"randomizer": "gaussian", "figure": "sigma"}
    device = Device(n_features=FEATURES, random_state=0, **limits)
    device._agree(terms(amount=least, **words))
    for less in (math.nextafter(least, 0.0), 0.9995 * least, math.nan):
        with pytest.raises((BudgetExceeded, InvalidMessage)):
            device._agree(terms(amount=less, **words))


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
    for x, target in ((X[0], y[0]), (np.full(FEATURES, np.nan), np.nan)):  # for any row
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
    _, bare, _ = pair("no noise")  # the terms of each question count, and not those that were agreed on before
    with pytest.raises(BudgetExceeded, match="at most 2, asked is inf"):
        device.answer(bare.ask(), X[0], y[0])
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
    assert len(set(made)) == 50  # no two have the same noise


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"loss": "hinge"}, "takes gradients of Hinge.*is of 'logistic'"),
        ({"fit_intercept": False}, "must have 7 coordinates, found 8"),
        ({"n_features": 8}, "must have 9 coordinates, found 8"),
        ({"n_features": 8, "fit_intercept": False}, "has fit_intercept=False, the question has True"),
    ],
)
def test_a_device_accepts_only_its_own_task(words, said):
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
def test_invalid_terms_are_refused(content, said):
    device = Device(n_features=FEATURES, epsilon=2.0, delta=1e-6)
    question = pack_question(place_of(bytes(16), 1), content, np.zeros(8))
    with pytest.raises(InvalidMessage, match=said):
        device.answer(question, np.zeros(FEATURES), 1.0)
    assert device.n_reports == 0


def test_invalid_points_are_refused():
    device = Device(n_features=FEATURES, epsilon=2.0)
    for number in (math.nan, math.inf, 1e151):
        with pytest.raises(InvalidMessage, match="point must be finite"):
            device.answer(pack_question(place_of(bytes(16), 1), terms(), np.full(8, number)), np.zeros(FEATURES), 1.0)
    answer = device.answer(pack_question(place_of(bytes(16), 1), terms(), np.full(8, 1e149)), np.ones(FEATURES), 1.0)
    assert len(answer) == 104  # any finite point is accepted


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.zeros(FEATURES + 1), 1.0),
        (np.zeros((1, FEATURES)), 1.0),
        (np.zeros(FEATURES - 1, dtype=object), 1.0),
        (np.zeros(()), 1.0),
    ],
)
def test_an_array_of_another_shape(x, y):
    device = Device(n_features=FEATURES, epsilon=2.0)
    with pytest.raises(InvalidParameter, match="x must have shape"):
        device.answer(pack_question(place_of(bytes(16), 1), terms(), np.zeros(8)), x, y)
    assert device.n_reports == 0


class Hostile:
    """Raises on any access."""

    def __float__(self):
        raise RuntimeError("row")

    def __len__(self):
        raise RuntimeError("row")

    def __repr__(self):
        raise RuntimeError("row")

    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError("row")


def scalars(x):
    """A number as every NumPy and Python scalar type that can hold it."""
    kinds = [np.float16, np.float32, np.float64, np.longdouble, Decimal, str, lambda x: str(x).encode(), np.array]
    if not math.isnan(x):
        kinds += [int, bool, Fraction, np.int8, np.uint64, np.bool_, np.str_]
    return [kind(x) for kind in kinds]


MISSING = [None, math.nan, np.ma.masked, *scalars(math.nan), Decimal("sNaN")]
NO_NUMBERS = [
    "yes", "", b"?", 1j, 1 + 0j, np.complex64(1), np.complex128(1), [], [1.0], [1.0, 2.0], {}, {1}, object(), Hostile(),
    Hostile, np.zeros(2), np.array(1j), np.array(None), np.datetime64("2020-01-01"), np.void(b"1"), iter([1.0]), ...,
]  # fmt: skip


def report_of(x, y):
    """The report of a device for a row, always with the same noise."""
    device = Device(n_features=FEATURES, epsilon=2.0, random_state=3)
    return device.answer(pack_question(place_of(bytes(16), 1), terms(), np.full(8, 0.1)), x, y)


@pytest.mark.parametrize("y", [*MISSING, *NO_NUMBERS, pytest.param("pandas", id="NA")], ids=lambda y: type(y).__name__)
def test_an_invalid_label_is_not_visible_in_the_answer(y):
    """A missing answer would reveal something of the label: the answer is the null row's."""
    if isinstance(y, str) and y == "pandas":
        y = pytest.importorskip("pandas").NA
    x = np.linspace(0.1, 0.5, FEATURES)
    assert report_of(x, y) == report_of(np.full(FEATURES, math.nan), 1.0)


@pytest.mark.parametrize("cell", [*MISSING, *NO_NUMBERS, math.inf, 10**400, "1e999"], ids=lambda y: type(y).__name__)
def test_an_invalid_cell_is_not_visible_in_the_answer(cell):
    cells = [0.25] * FEATURES
    cells[2] = cell
    objects = np.empty(FEATURES, dtype=object)
    for i, value in enumerate(cells):
        objects[i] = value
    null = report_of(np.full(FEATURES, math.nan), 1.0)
    assert report_of(cells, 1.0) == report_of(tuple(cells), 1.0) == report_of(objects, 1.0) == null


@pytest.mark.parametrize(
    "x",
    [None, 1.0, "text", b"bytes", [], [0.5] * (FEATURES - 1), [0.5] * (FEATURES + 1), [[0.5] * FEATURES], {}, Hostile(),
     ["a"] * FEATURES, np.zeros(FEATURES, dtype=complex), np.ma.masked_equal(np.arange(float(FEATURES)), 2.0),
     np.array(["0.5"] * (FEATURES - 1) + ["?"]), np.array([0.5] * (FEATURES - 1) + [None])],
    ids=lambda x: type(x).__name__,
)  # fmt: skip
def test_an_invalid_row_is_not_visible_in_the_answer(x):
    assert report_of(x, 1.0) == report_of(np.full(FEATURES, math.nan), 1.0)


def test_all_scalars_of_a_number_are_one_row_and_one_label():
    x = np.full(FEATURES, 1.0)
    for y in (1.0, 0.0):
        assert {report_of(x, found) for found in scalars(y)} == {report_of(x, y)}
    for cell in scalars(1.0):
        assert report_of([cell] * FEATURES, 1.0) == report_of(x, 1.0)
    assert report_of(x, 10**400) == report_of(x, 1.0)  # above 0


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


def test_devices_cannot_be_copied_or_pickled():
    device = Device(n_features=FEATURES, epsilon=1.0)
    for take in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(StateError, match="a device cannot be"):
            take(device)
    assert repr(device) == "<Device: 8 coordinates, 0 of 1 reports made>"


# ---- the terms are those of the run -------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{"epsilon": 8.0}, {"adjacency": "zero_out"}, {"randomizer": "gaussian"},
                                     {"x_bound": 9.0, "gradient_bound": 9.0}, {"loss": "hinge"},
                                     {"fit_intercept": False}], ids=str)  # fmt: skip
def test_parameters_set_during_a_run_do_not_change_its_terms(changes):
    """The guarantee covers the run as it was started: a device must be asked for that much noise, and no less."""
    words = {"epsilon": 0.5, "randomizer": "l2laplace", "horizon": 9, "random_state": 1}
    begun, plain = (LDPSGD(**words).declare_classes([0, 1]) for _ in range(2))
    begun.ask(FEATURES)
    begun.set_params(**changes)
    ours, theirs = Collector(begun, FEATURES), Collector(plain, FEATURES)
    assert ours._terms == theirs._terms
    assert ours.longest == theirs.longest
    assert begun.guarantee_.parameter == 0.5


def test_a_collector_belongs_to_one_run():
    X, y = rows(40)
    learner, collector, device = pair()
    question = collector.ask()
    answer = device.answer(question, X[0], y[0])
    learner.fit(X, y)  # another run
    for call in (collector.ask, lambda: collector.tell(answer)):
        with pytest.raises(StateError, match="another run"):
            call()
    with pytest.raises(InvalidParameter, match="coordinates"):
        Collector(LDPSGD(horizon=3, fit_intercept=True).declare_classes([0, 1]).partial_fit(X[:1], y[:1]), 3)
