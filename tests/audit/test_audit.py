"""Many small audits: shipped learners reveal at most what they claim, and nearly as much; wrong ones are caught.

The figures of more runs are in docs/audit.md, whose table is checked here too.
"""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from alpha import rate
from audit_tools import DELTA, PAGE, seed_of
from cli_tools import privol_cli
from scipy import sparse

from privol import DPFTRL, NOGD, PGIGA, PIGD, PQFTL
from privol.audit import MECHANISMS, audit, audit_black_box
from privol.audit._cases import LearnerCase, PrefixCase, worst_learner
from privol.cli.app import OK, REFUTED, USAGE
from privol.cli.audit import AUDITED
from privol.errors import InvalidParameter
from privol.factorizations import DESIGNS
from privol.guarantees import gdp_epsilon
from privol.ledger import Ledger

pytestmark = pytest.mark.statistical

BOTH = ("replace", "zero_out")
SHIPPED = [
    *((name, {"adjacency": adjacency}) for name in ("pigd", "pgiga", "nogd") for adjacency in BOTH),
    ("pigd", {"release": "all"}),
    ("pigd", {"release": 64}),
    ("pigd", {"release": 64, "noise_shape": "paper"}),
    ("pgiga", {"release": 64, "noise_shape": "smooth"}),
    ("pigd", {"release": 64, "l2_schedule": "inverse_sqrt"}),
    *((name, {"design": design}) for name in ("prefix", "dpftrl", "pqftl") for design in DESIGNS),
    *((name, {"design": "tree", "adjacency": "zero_out"}) for name in ("prefix", "dpftrl", "pqftl")),
]  # fmt: skip
SLOW = {"pqftl": 2, "all": 8}  # fewer experiments in a run
IDS = [f"{name}-{'-'.join(map(str, words.values()))}" for name, words in SHIPPED]
CONFIDENCE = 1.0 - rate("audit.claims", 3 * (3 * len(SHIPPED) + 20))


def runs_of(name, words, most):
    return most // max(SLOW.get(name, 1), SLOW.get(words.get("release"), 1))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize(("name", "words"), SHIPPED, ids=IDS)
def test_no_bound_is_above_the_claim(name, words, epsilon):
    runs = runs_of(name, words, 40_000 if epsilon == 4.0 else 4_000)
    found = audit(
        name, **words, epsilon=epsilon, delta=DELTA, runs=runs, confidence=CONFIDENCE,
        random_state=seed_of(name, words, epsilon),
    )  # fmt: skip
    assert found.exceeded_by == ()
    assert found.epsilon_lower <= epsilon
    assert found.mu_lower <= found.mu == found.proved_mu
    assert found.gaussian_mu_lower <= found.mu
    assert found.epsilon == pytest.approx(gdp_epsilon(found.mu, DELTA), rel=1e-9)
    assert found.statistic == "likelihood ratio"
    assert 0.78 * found.mu < found.attainable <= found.mu * (1 + 1e-9), "the streams are not the worst"
    if epsilon == 4.0:
        least = 0.7 if found.runs >= 40_000 else 0.6
        assert found.ratio >= least, "the audit is too weak to prove anything"


@pytest.mark.parametrize(("name", "words"), SHIPPED, ids=IDS)
def test_two_thirds_of_the_noise_is_caught(name, words):
    found = audit(
        name, **words, epsilon=4.0, delta=DELTA, noise=2 / 3, runs=runs_of(name, words, 40_000), confidence=CONFIDENCE,
        random_state=seed_of(name, words),
    )  # fmt: skip
    assert "mu" in found.exceeded_by  # without any assumption
    assert found.gaussian_mu_lower <= 1.5 * found.mu, "more than the noise that is left gives away"
    assert "THE CLAIM IS REFUTED" in found.sentence()
    assert "0.666667 times its noise" in found.sentence()


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize(
    ("name", "words", "proved_by"),
    [
        ("pigd", {}, {0.5: "epsilon", 1.0: "epsilon", 4.0: "gaussian"}),
        ("pgiga", {}, {0.5: "epsilon", 1.0: "epsilon", 4.0: "gaussian"}),
        # two rows: the noise is that of one, for ln 2 instead of 2 nodes
        ("prefix", {"design": "tree", "steps": 2}, {0.5: "epsilon", 1.0: "epsilon", 4.0: "gaussian"}),
        ("prefix", {"design": "tree", "steps": 8}, {0.5: "gaussian", 1.0: "gaussian", 4.0: "gaussian"}),
    ],
)
def test_published_noise_is_caught(name, words, proved_by, epsilon):
    """Lemmas 4 and 5 and Theorem 9 of Jain, Kothari and Thakurta; at epsilon = 4 refuting them would take e^12 runs."""
    weak = name != "prefix" or (words["steps"] == 2) == (epsilon == 4.0)  # two steps are to prove an epsilon
    runs = 4_000 if weak else 8_000
    found = audit(
        name, **words, calibration="published", epsilon=epsilon, delta=1e-6, runs=runs, confidence=CONFIDENCE,
        random_state=seed_of(name, words, epsilon),
    )  # fmt: skip
    assert proved_by[epsilon] in found.exceeded_by
    assert "gaussian" in found.exceeded_by
    assert found.mu is None
    # the other statements of the guarantee about this noise are true
    assert found.gaussian_mu_lower <= found.proved_mu
    assert found.attainable <= found.proved_mu * (1 + 1e-9)
    assert found.epsilon == epsilon * (1 if name == "prefix" else 3)


@pytest.mark.parametrize("kind", [PIGD, PGIGA, NOGD, DPFTRL, PQFTL])
def test_correct_learners_pass_the_audit(kind):
    """With their own loss, ball and intercept, if points are projected: the statistic is fitted."""
    ledger = Ledger()
    learner = kind(epsilon=4.0, delta=DELTA, ledger=ledger)
    before = dict(learner.get_params(deep=False))
    found = audit(learner, runs=2_000, confidence=CONFIDENCE, random_state=1)
    assert found.exceeded_by == ()
    assert found.width == 1
    assert found.statistic == ("likelihood ratio" if kind is PQFTL else "fitted")
    assert ledger.accounts == ()
    assert learner.get_params(deep=False) == before
    assert "_run" not in vars(learner)
    if kind is not PIGD and kind is not PGIGA:  # on the unit ball most of their last releases are on the boundary
        assert found.mu_lower > 0


def test_one_experiment_per_run_proves_the_same():
    wide = worst_learner("dpftrl", {"epsilon": 4.0, "delta": DELTA})
    narrow = worst_learner("dpftrl", {"epsilon": 4.0, "delta": DELTA, "batch": 1})
    one, other = (audit(learner, runs=2_000, confidence=CONFIDENCE, random_state=6) for learner in (wide, narrow))
    assert (one.width, other.width) == (128, 1)
    assert one.attainable == pytest.approx(other.attainable, rel=1e-9)
    assert one.gaussian_mu_lower == pytest.approx(other.gaussian_mu_lower, abs=6 * math.sqrt(2 / 2000))


def test_steps_of_very_many_rows():
    """The rows along coordinates are then fewer than the step's."""
    words = {"epsilon": 4.0, "delta": DELTA, "runs": 2_000, "confidence": CONFIDENCE, "random_state": 7}
    found = [audit(name, batch=2_000, steps=2, **words) for name in ("nogd", "dpftrl", "pqftl")]
    assert [one.width for one in found] == [512, 512, 32]
    assert all(one.attainable == pytest.approx(one.mu, rel=1e-6) for one in found)
    assert not any(one.exceeded_by for one in found)


def test_fitted_statistics_prove_nearly_as_much():
    known, fitted = (
        audit("dpftrl", epsilon=4.0, delta=DELTA, runs=40_000, confidence=CONFIDENCE, statistic=kind, random_state=8)
        for kind in ("auto", "fitted")
    )
    assert fitted.statistic == "fitted"
    assert fitted.exceeded_by == ()
    assert fitted.mu_lower == pytest.approx(known.mu_lower, abs=0.05)


# ---- the argument for many experiments in a run ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["pigd", "pgiga", "nogd", "dpftrl", "pqftl"])
@pytest.mark.parametrize("adjacency", BOTH)
def test_experiments_in_one_run_do_not_affect_each_other(name, adjacency):
    """Only the first differing row changes only the first experiment, as when all rows change."""
    learner = worst_learner(name, {"adjacency": adjacency, "epsilon": 1.0})
    case = LearnerCase(learner, steps=4, noise=1.0, random_state=np.random.default_rng(1))
    assert case.width > 8
    all_change = case.twin(1) - case.twin(0)
    (X, y), (other_X, other_y) = case._streams
    stop = int(np.flatnonzero(~np.isnan(y))[0]) + 1  # after the first row that differs
    case._worlds[1] = case._cut(sparse.vstack([other_X[:stop], X[stop:]]).tocsr(), np.append(other_y[:stop], y[stop:]))
    change = case.twin(1) - case.twin(0)
    assert np.allclose(change[0], all_change[0], rtol=1e-9)
    assert np.abs(change[0]).max() > 0
    assert np.abs(change[1:]).max() <= 1e-9 * np.abs(change[0]).max()


def test_prefix_rows_lie_along_coordinates():
    case = PrefixCase(steps=4, noise=1.0, random_state=None, design="honaker")
    assert np.allclose(case.twin(1) - case.twin(0), -2.0, atol=1e-9)
    assert np.array_equal(case._blocks[0][0].toarray(), np.eye(case.width))


# ---- the caller's own mechanisms ------------------------------------------------------------------------------

RNG = np.random.default_rng(5)
ZERO, ONE = np.zeros(6), np.eye(6)[0]


def independent(stream):
    """Noisy running sums: 1-GDP if one row changes by 1."""
    return np.cumsum(stream + RNG.normal(size=6))


def skipped(stream):
    released = stream + RNG.normal(size=6)
    released[0] = stream[0]
    return np.cumsum(released)


def reused(stream):
    """Two releases with the same noise, each in a unit of its own: their difference has no noise."""
    noise = RNG.normal()
    return np.array([stream[0] + noise, 3 * stream[0] + noise])


def scaled(stream):
    return np.cumsum(stream + 0.6 * RNG.normal(size=6))


def laplace(stream):
    return float(stream.sum() + RNG.laplace())


def sign(stream):
    """Randomised response at e^epsilon = 3."""
    return float(stream.any()) if RNG.random() < 0.75 else 1.0 - float(stream.any())


@pytest.mark.parametrize(
    ("mechanism", "claim", "expected", "proved"),
    [
        (independent, {"mu": 1.0, "delta": 1e-5}, (), 0.8),
        (skipped, {"mu": 1.0, "delta": 1e-5}, ("epsilon", "mu"), 2.0),
        (reused, {"mu": 4.0, "delta": 1e-5}, ("mu",), 0.0),
        (scaled, {"mu": 1.0, "delta": 1e-5}, ("mu",), 1.2),
        (laplace, {"epsilon": 1.0, "delta": 0.0}, (), 0.7),
        (laplace, {"epsilon": 0.7, "delta": 0.0}, ("epsilon",), 1.0),
        (sign, {"epsilon": math.log(3), "delta": 0.0}, (), 0.8),
        (sign, {"epsilon": math.log(2.5), "delta": 0.0}, ("epsilon",), 1.0),
    ],
)
def test_black_boxes(mechanism, claim, expected, proved):
    RNG.bit_generator.state = np.random.default_rng(5).bit_generator.state  # whatever ran before in this process
    found = audit_black_box(mechanism, ZERO, ONE, **claim, runs=12_000, confidence=CONFIDENCE, name="mine")
    assert found.exceeded_by == expected
    assert found.ratio >= proved
    assert found.gaussian_mu_lower is None
    assert found.sentence().startswith("mine: claimed")


def test_black_boxes_are_checked():
    for wrong in (lambda _: [], lambda _: math.nan, lambda stream: np.zeros(1 + int(stream.any()))):
        with pytest.raises(InvalidParameter, match="mechanism must release"):
            audit_black_box(wrong, ZERO, ONE, epsilon=1.0, delta=0.0, runs=200)
    with pytest.raises(InvalidParameter, match="epsilon must be given, or mu"):
        audit_black_box(laplace, ZERO, ONE, delta=0.0, mu=1.0)
    with pytest.raises(InvalidParameter, match="delta"):
        audit_black_box(laplace, ZERO, ONE, epsilon=1.0, delta=1.0)


def test_a_constant_release_proves_nothing():
    found = audit_black_box(lambda _: 1.0, ZERO, ONE, epsilon=1.0, delta=0.0, runs=200)
    assert (found.epsilon_lower, found.mu_lower, found.exceeded_by) == (0.0, 0.0, ())


# ---- records, parameters, the command line ----------------------------------------------------------------------


def test_records_and_noise():
    words = {"epsilon": 4.0, "delta": DELTA, "runs": 2_000, "random_state": 3}
    one, again = audit("nogd", **words), audit("nogd", **words)
    assert one == again
    assert one != audit("nogd", **{**words, "random_state": 4})
    assert audit("nogd", **{**words, "random_state": None}) != audit("nogd", **{**words, "random_state": None})
    record = json.loads(one.to_json())
    assert record["ratio"] == one.ratio
    assert (record["format"], record["exceeded_by"], record["runs"]) == ("privol.audit", [], 2000)
    with pytest.raises(AttributeError):
        one.mu = 0.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("sgd", {}), "learner must be one of"),
        (("pigd", {"design": "tree"}), "PIGD has no parameter design"),
        (("prefix", {"radius": 1.0}), "'prefix' has no parameter radius"),
        (("prefix", {"calibration": "published", "design": "tree", "leaf": 2}), "for leaf=1"),
        (("prefix", {"epsilon": math.inf}), "epsilon must be finite"),
        (("dpftrl", {"epsilon": math.inf}), "epsilon must be finite"),
        (("dpftrl", {"runs": 199}), "runs must be"),
        (("dpftrl", {"confidence": 1.0}), "confidence must be"),
        (("dpftrl", {"noise": 0.0}), "noise must be"),
        (("dpftrl", {"statistic": "best"}), "statistic must be one of"),
        (("dpftrl", {"random_state": -1}), "random_state must be"),
        (("dpftrl", {"horizon": 10_000, "batch": 1}), "at most 4,096 releases"),
        (("pigd", {"horizon": 10_000, "release": "all"}), "at most 4,096 releases"),
        ((NOGD(), {"epsilon": 1.0}), "its own parameters: epsilon"),
    ],
)
def test_parameters_are_checked(call, words):
    learner, parameters = call
    with pytest.raises(InvalidParameter, match=words):
        audit(learner, **parameters)


def test_the_command():
    assert AUDITED == MECHANISMS
    words = ("audit", "dpftrl", "--delta", DELTA, "--runs", 3000, "--seed", 2)
    text = privol_cli(*words)
    assert text.exit_code == OK
    assert "Nothing here contradicts the claim" in " ".join(text.stdout.split())
    done = privol_cli(*words, "--json")
    audits = json.loads(done.stdout)["audits"]
    assert [one["epsilon"] for one in audits] == [0.5, 1.0, 4.0]
    assert all(0 < one["ratio"] < 1 for one in audits[1:])
    caught = privol_cli(*words, "--epsilon", 4, "--noise", 0.5)
    assert caught.exit_code == REFUTED
    assert "THE CLAIM IS REFUTED" in " ".join(caught.stdout.split())
    published = ("audit", "prefix", "--design", "tree", "--steps", 2, "--calibration", "published", "--runs", 2000)
    assert privol_cli(*published, "--seed", 1).exit_code == REFUTED
    wrong = privol_cli("audit", "pigd", "--design", "tree")
    assert wrong.exit_code == USAGE
    assert "PIGD has no parameter design" in wrong.stderr


# ---- the campaign's page ------------------------------------------------------------------------------------------


def test_the_page_says_what_is_promised():
    """Every row of the campaign: no proved claim is exceeded, and Gaussian mechanisms reveal at least 0.7 of theirs."""
    text = PAGE.read_text(encoding="utf-8")
    tables = dict(re.findall(r"<!-- (\w+): tools/audit_campaign.py -->\n(.*?)<!-- end of \1 -->", text, re.DOTALL))
    rows = {
        name: [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:2] == "| "]
        for name, table in tables.items()
    }
    assert rows.keys() == {"shipped", "defaults", "reports", "published", "offline", "networks"}
    head, *shipped = rows["shipped"]
    assert head[0] == "configuration"
    found = {(row[0], row[1], row[2]) for row in shipped}
    by_design = [f"{name} {design}" for name in ("DPFTRL", "PQFTL", "PrefixSum") for design in DESIGNS]
    for name in ("PIGD", "PGIGA", "NOGD", *by_design):
        assert {(name, adjacency, epsilon) for adjacency in BOTH for epsilon in ("0.5", "1", "4")} <= found
    for row in shipped[1:]:
        cells = dict(zip(head, row, strict=True))
        assert int(cells["runs"].replace(",", "")) >= 100_000
        assert float(cells["mu >="]) <= float(cells["mu"])
        assert float(cells["epsilon >="]) <= float(cells["epsilon"])
        assert float(cells["ratio"]) >= 0.7
    head, *published = rows["published"]
    for row in published[1:]:
        assert row[head.index("refuted by")]


@pytest.mark.parametrize(
    ("name", "words", "match"),
    [
        ("dpftrl", {"discount": 0.9}, "discount=1.0"),
        ("dpftrl", {"window": 3}, "window=None"),
        ("dpftrl", {"class_weight": {1: 2.0}}, "class_weight=None"),
        ("dpftrl", {"loss": "softmax"}, "two classes"),
        ("pqftl", {"renewal": "double"}, "renewal='none'"),
    ],
)
def test_settings_that_the_audit_streams_do_not_fit_are_refused(name, words, match):
    with pytest.raises(InvalidParameter, match=match):
        audit(name, epsilon=1.0, runs=1000, random_state=1, **words)
