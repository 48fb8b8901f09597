"""Learners on reports reveal at most what they claim, and nearly as much; wrong ones are caught.

The figures of more runs are in docs/audit.md, whose table is checked here too.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from alpha import rate
from audit_tools import DELTA, PAGE, seed_of
from cli_tools import privol_cli

from privol import BANCO, LDPSGD, MIOGD, AgnosticBANCO, BanditMIOGD, MultiscaleSGD
from privol.audit import MECHANISMS, audit
from privol.audit._reports import ReportCase, reporting
from privol.calibration import calibrate_report
from privol.calibration._caps import cap_of
from privol.cli.app import OK, REFUTED, USAGE
from privol.errors import InvalidParameter
from privol.geometry import WholeSpace
from privol.guarantees import gdp_epsilon, gdp_mu_of_pure
from privol.learners import LEARNERS, OFFLINE_LEARNERS
from privol.ledger import Ledger

pytestmark = pytest.mark.statistical

RANDOMIZERS = ("privunit", "duchi", "l2laplace", "laplace", "gaussian")
FAST = {"proxy": "hoeffding"}  # for caps: the other constant takes a second to compute
SHIPPED = [
    ("miogd", {}),
    ("miogd", {"step": "adaptive"}),
    *(("ldpsgd", {"randomizer": name}) for name in RANDOMIZERS),
    ("ldpsgd", {"step": "adaptive", "randomizer": "laplace"}),
    ("ldpsgd", {"l2": 0.1, "step_size": None, "randomizer": "gaussian"}),
    ("banco", {"randomizer": "privunit", **FAST}),
    ("banco", {"randomizer": "gaussian"}),
    ("banco", {"randomizer": "l2laplace", "calibration": "published"}),
    *(("agnostic", {"randomizer": name}) for name in ("l2laplace", "gaussian")),
    ("multiscale", {"randomizer": "privunit", **FAST}),
    *(("multiscale", {"randomizer": name}) for name in ("laplace", "gaussian")),
    *(("bandit", {"randomizer": name, "values": n}) for name in ("privunit", "laplace", "gaussian") for n in (1, 2)),
    ("bandit", {"randomizer": "gaussian", "values": 1, "calibration": "published"}),
]
POWER = [  # for each learner and randomizer
    (name, words) for name, words in SHIPPED if not {"step", "calibration"} & words.keys() and words.get("values") != 2
]
IDS = [f"{name}-{'-'.join(map(str, words.values()))}" for name, words in SHIPPED]
CONFIDENCE = 1.0 - rate("audit.reports", 3 * (5 * len(SHIPPED) + 40))
FAIR = {("ldpsgd", "duchi"), ("bandit", "privunit")}  # the report of a null row is a fair coin: see the page
BLOCK = 1024  # experiments in a run


def gaussian(name, words):
    return words.get("randomizer", "gaussian") == "gaussian"


def tried(name, words, epsilon, blocks, block=BLOCK, **more):
    return audit(
        name, **{"epsilon": epsilon, "delta": DELTA, **words}, runs=blocks * block, confidence=CONFIDENCE,
        random_state=seed_of(name, words, epsilon, more), **more,
    )  # fmt: skip


@pytest.mark.parametrize(("epsilon", "adjacency"), [(0.5, "zero_out"), (1.0, "replace"), (4.0, "zero_out")])
@pytest.mark.parametrize(("name", "words"), SHIPPED, ids=IDS)
def test_no_bound_is_above_the_claim(name, words, epsilon, adjacency):
    strong = epsilon == 4.0 and (name, words) in POWER
    block, blocks = (BLOCK, 8) if strong else (BLOCK // 4, 2)
    found = tried(name, {**words, "adjacency": adjacency, "horizon": block}, epsilon, blocks, block=block)
    assert found.exceeded_by == ()
    assert found.statistic == "likelihood ratio"
    assert found.width == block
    assert found.epsilon == epsilon
    assert found.epsilon_lower <= epsilon
    assert found.mu_lower <= found.proved_mu
    if gaussian(name, words):
        assert (found.mu, found.delta) == (found.proved_mu, DELTA)
        assert found.epsilon == pytest.approx(gdp_epsilon(found.mu, DELTA), rel=1e-9)
        assert found.gaussian_mu_lower <= found.mu
        assert found.attainable == pytest.approx(found.mu, rel=1e-9), "the rows are not the worst"
    else:
        assert (found.mu, found.delta, found.gaussian_mu_lower) == (None, 0.0, None)
        assert found.proved_mu == gdp_mu_of_pure(epsilon)
    attainable = epsilon
    if adjacency == "zero_out" and (name, words.get("randomizer")) in FAIR:
        attainable = math.log((1 + math.exp(epsilon)) / 2)
        assert found.epsilon_lower <= attainable
    if strong:
        assert found.ratio >= 0.6 * attainable / epsilon, "the audit is too weak to prove anything"


@pytest.mark.parametrize(("name", "words"), POWER, ids=map(str, POWER))
def test_two_thirds_of_the_noise_is_caught(name, words):
    found = tried(name, words, 4.0 if gaussian(name, words) else 2.0, 8, noise=2 / 3)
    assert ("mu" if gaussian(name, words) else "epsilon") in found.exceeded_by  # without any assumption
    assert found.epsilon_lower <= (1.5 * found.epsilon if found.mu is None else math.inf)
    assert "THE CLAIM IS REFUTED" in found.sentence()


# ---- planted defects: learners whose reports are not those of their claims --------------------------------------


class WrongSide(LDPSGD):
    """The probabilities for a larger epsilon, under the claim of the given one."""

    def _report(self, dim, bound):
        report = super()._report(dim, bound)
        return replace(report, cap=replace(report.cap, threshold=cap_of(1.5 * self.epsilon, dim, half=False).threshold))


class WrongAdjacency(LDPSGD):
    """Noise for zeroing out rows, with a claim about replacing them."""

    def _report(self, dim, bound):
        words = {"delta": self.delta} if self.randomizer == "gaussian" else {}
        wrong = calibrate_report(
            self.randomizer, dim=dim, bound=bound, adjacency="zero_out", epsilon=self.epsilon, **words
        )
        return replace(super()._report(dim, bound), scale=wrong.scale)


class WrongClip(LDPSGD):
    """Gradients of up to 3/2 of the bound that the noise covers."""

    def _report(self, dim, bound):
        return replace(super()._report(dim, bound), bound=1.5 * bound)


class WrongFigure(MIOGD):
    """The noise for a leakage, with a claim of two thirds of its mu."""

    def _report(self, dim, bound):
        report = super()._report(dim, bound)
        return replace(report, mu=report.mu / 1.5)


@pytest.mark.parametrize(
    ("learner", "by"),
    [
        (WrongSide(epsilon=2.0), "epsilon"),
        (WrongAdjacency(epsilon=2.0, randomizer="laplace"), "epsilon"),
        (WrongAdjacency(epsilon=2.0, randomizer="l2laplace"), "epsilon"),
        (WrongAdjacency(epsilon=4.0, randomizer="gaussian", delta=DELTA), "mu"),
        (WrongClip(epsilon=2.0, randomizer="laplace"), "epsilon"),
        (WrongClip(epsilon=4.0, randomizer="gaussian", delta=DELTA), "mu"),
        (WrongFigure(leakage=0.2, delta=DELTA), "mu"),
    ],
    ids=lambda value: "-".join(map(str, [type(value).__name__, getattr(value, "randomizer", "")])),
)
def test_planted_defects_are_caught(learner, by):
    if isinstance(learner, LDPSGD):
        learner.set_params(step_size=1.0, domain=WholeSpace())
    found = audit(learner, runs=8 * BLOCK, confidence=CONFIDENCE, random_state=3)
    assert by in found.exceeded_by


# ---- learners as they are ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "width"),
    [
        (lambda **words: MIOGD(epsilon=4.0, **words), BLOCK),
        (lambda **words: MIOGD(sigma=0.5, lazy=False, **words), 1),
        (lambda **words: LDPSGD(epsilon=4.0, **words), 1),
        (lambda **words: BANCO(epsilon=4.0, **FAST, **words), 64),
        (lambda **words: AgnosticBANCO(epsilon=4.0, horizon=40, **words), 40),
        (lambda **words: MultiscaleSGD(epsilon=4.0, **FAST, **words), BLOCK),
        (lambda **words: BanditMIOGD(leakage=0.3, horizon=3000, **words), BLOCK),
        (lambda **words: BanditMIOGD(sigma=20.0, calibration="published", step="horizon", **words), BLOCK),
        (lambda **words: BanditMIOGD(epsilon=4.0, randomizer="laplace", values=2, step="horizon", **words), BLOCK),
    ],
)
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_correct_learners_pass_the_audit(make, width, adjacency):
    """With their own loss, set and intercept; if points are projected, the statistic is fitted."""
    ledger = Ledger(adjacency=adjacency)
    learner = make(ledger=ledger, adjacency=adjacency)
    before = dict(learner.get_params(deep=False))
    found = audit(learner, runs=300 if width == 1 else 2 * BLOCK, confidence=CONFIDENCE, random_state=1)
    assert found.exceeded_by == ()
    assert found.width == width
    assert found.statistic == ("fitted" if width == 1 else "likelihood ratio")
    assert found.epsilon_lower <= found.epsilon
    assert found.mu_lower <= found.proved_mu
    assert max(found.epsilon_lower, found.mu_lower) > 0
    assert ledger.accounts == ()
    assert learner.get_params(deep=False) == before
    assert "_run" not in vars(learner)


def test_a_leakage_is_audited_by_its_mu():
    found = tried("miogd", {"leakage": 0.1, "epsilon": None}, None, 8)
    assert found.mu == pytest.approx(0.9, abs=2e-3)
    assert found.epsilon == pytest.approx(gdp_epsilon(found.mu, DELTA), rel=1e-12)
    assert found.exceeded_by == ()
    assert found.ratio > 0.6


# ---- the argument for a run of many experiments ----------------------------------------------------------------------

CASES = [
    *SHIPPED,
    ("banco", {"randomizer": "laplace", "magnitude_cap": None}),  # gradients are given, the direction is projected
    ("banco", {"randomizer": "laplace", "direction_step": 1e-3}),
    ("ldpsgd", {"gradient_bound": 0.3, "randomizer": "laplace"}),
    ("bandit", {"loss": "hinge", "values": 2}),
]


def case_of(name, words, **more):
    learner, by_rows = reporting(name, {"epsilon": 1.0, "horizon": 100, **words, **more})
    return ReportCase(learner, by_rows=by_rows, noise=1.0, random_state=5)


class Swapped:
    """A run in which one row differs."""

    def __init__(self, state, at, other):
        self.state, self.left, self.other = state, at, other

    def __getattr__(self, name):
        found = getattr(self.state, name)
        if name not in ("learn_one", "tell"):
            return found
        self.left -= 1
        if self.left != -1:
            return found
        return lambda *_: found(*self.other) if name == "learn_one" else found(self.other)


@pytest.mark.parametrize(("name", "words"), CASES)
def test_reports_are_recovered_to_the_last_bit(name, words):
    """A learner that receives them as reports has the same points and, with the same key, the same directions."""
    case = case_of(name, words)
    states = []
    reports = case._series(states.append(case._opened(noisy=True)) or states[0], 0, noisy=True)
    again = case._opened(noisy=False)
    for report in reports:
        signed = report
        if name == "bandit" and words["values"] == 2 and case._by_rows:
            asked = again.point()
            signed = report * np.sign(asked[0] - asked[1])
        elif words.get("calibration") == "published" and name == "bandit":
            signed = report * np.sign(again.point() - again.secret_arrays()["point"])
        again.receive(np.ascontiguousarray(signed))
    for reader in (lambda state: state.point(), lambda state: state.released_average()):
        assert np.array_equal(reader(again), reader(states[0]))
    assert len(reports) == case.width > 1


@pytest.mark.parametrize(("name", "words"), CASES)
def test_one_row_changes_one_report(name, words):
    case = case_of(name, words, adjacency="zero_out")
    t = case.width // 3
    first = case._series(case._opened(noisy=True), 0, noisy=True)
    other = case._series(Swapped(case._opened(noisy=True), t, case._lessons[1]), 0, noisy=True)
    changed = np.flatnonzero((first != other).any(axis=1))
    assert set(changed) <= {t}
    if case._audited.cap is None:  # a coin may fall as before
        assert list(changed) == [t]


@pytest.mark.parametrize(("name", "words"), CASES)
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_audited_vectors_are_as_far_apart_as_the_claim_allows(name, words, adjacency):
    case = case_of(name, words, adjacency=adjacency)
    order = 1 if case._audited.kind == "laplace" else 2
    gap = np.linalg.norm(case.weights, ord=order)
    allowed = case._audited.sensitivity * (math.sqrt(case.size) if order == 1 else 1.0)
    assert gap == pytest.approx(allowed, rel=1e-9)


def test_a_likelihood_ratio_of_caps_is_within_epsilon():
    """And it is attained, except by half spaces beside a null row."""
    for name in ("privunit", "duchi"):
        for adjacency in ("replace", "zero_out"):
            case = case_of("ldpsgd", {"randomizer": name, "adjacency": adjacency, "horizon": BLOCK})
            ratios = case.ratio(np.concatenate([case.run(0), case.run(1)]))
            most = math.log((1 + math.e) / 2) if (name, adjacency) == ("duchi", "zero_out") else 1.0
            assert np.abs(ratios).max() == pytest.approx(most, abs=1e-12)


# ---- parameters, the command line, the page --------------------------------------------------------------------------


def test_every_learner_can_be_audited():
    assert set(MECHANISMS) == {*LEARNERS, *OFFLINE_LEARNERS, "prefix"}


@pytest.mark.parametrize(
    ("name", "words", "match"),
    [
        ("miogd", {"epsilon": math.inf}, "epsilon must be finite"),
        ("ldpsgd", {"epsilon": 1.0, "design": "tree"}, "LDPSGD has no parameter design"),
        ("miogd", {"epsilon": 1.0, "leakage": 0.5}, "found leakage, epsilon"),
        ("bandit", {"epsilon": 1.0, "randomizer": "duchi"}, "randomizer must be one of"),
        ("agnostic", {"epsilon": 1.0, "randomizer": "privunit"}, "randomizer must be one of"),
        ("banco", {"epsilon": 0.0}, "epsilon"),
        ("ldpsgd", {"epsilon": 1.0, "horizon": 0}, "horizon must be"),
    ],
)
def test_parameters_are_checked(name, words, match):
    with pytest.raises(InvalidParameter, match=match):
        audit(name, runs=1000, random_state=1, **words)


def test_the_command():
    words = ("audit", "ldpsgd", "--randomizer", "duchi", "--runs", 2048, "--seed", 2)
    text = privol_cli(*words)
    assert text.exit_code == OK
    assert "Nothing here contradicts the claim" in " ".join(text.stdout.split())
    audits = json.loads(privol_cli(*words, "--json").stdout)["audits"]
    assert [(one["epsilon"], one["delta"], one["mu"]) for one in audits] == [(e, 0.0, None) for e in (0.5, 1.0, 4.0)]
    caught = privol_cli("audit", "bandit", "--randomizer", "privunit", "--values", 2, "--epsilon", 2, "--noise", 0.5,
                        "--runs", 4096, "--seed", 1)  # fmt: skip
    assert caught.exit_code == REFUTED
    (one,) = json.loads(privol_cli("audit", "miogd", "--leakage", 0.1, "--runs", 2048, "--json").stdout)["audits"]
    assert one["mu"] == pytest.approx(0.9, abs=2e-3)
    assert privol_cli("audit", "pigd", "--randomizer", "duchi").exit_code == USAGE


def test_the_page_says_what_is_promised():
    text = PAGE.read_text(encoding="utf-8")
    (table,) = re.findall(r"<!-- reports: tools/audit_campaign.py -->\n(.*?)<!-- end of reports -->", text, re.DOTALL)
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line]
    found = set()
    for row in rows:
        cells = dict(zip(head, row, strict=True))
        found.add((cells["configuration"], cells["adjacency"], cells["epsilon"]))
        assert int(cells["runs"].replace(",", "")) >= 100_000
        assert float(cells["epsilon >="]) <= float(cells["epsilon"])
        if cells["mu"] == "pure":
            assert float(cells["delta"]) == 0.0
            epsilon, name = float(cells["epsilon"]), cells["configuration"]
            assert float(cells["mu >="]) <= gdp_mu_of_pure(epsilon)
            fair = cells["adjacency"] == "zero_out" and ("duchi" in name or "BanditMIOGD privunit" in name)
            attainable = math.log((1 + math.exp(epsilon)) / 2) if fair else epsilon
            assert 0.65 * attainable <= float(cells["epsilon >="]) <= attainable
        else:
            assert float(cells["mu >="]) <= float(cells["mu"])
            assert float(cells["ratio"]) >= 0.7
    names = {
        "MIOGD gaussian",
        *(f"{name} {kind}" for name in ("LDPSGD", "BANCO", "MultiscaleSGD") for kind in RANDOMIZERS),
        *(f"AgnosticBANCO {kind}" for kind in ("l2laplace", "laplace", "gaussian")),
        *(f"BanditMIOGD {kind}{two}" for kind in ("privunit", "laplace", "gaussian") for two in ("", ", two values")),
    }
    assert found == {(n, a, e) for n in names for a in ("replace", "zero_out") for e in ("0.5", "1", "4")}
