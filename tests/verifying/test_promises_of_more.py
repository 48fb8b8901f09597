"""Texts of a run that promise more than it gives: other adjacencies, units, conditions, sources, things released."""

from __future__ import annotations

import re

import numpy as np
import pytest
from forged import forger, keep, of_guarantees

from privol import DPFTRL, NOGD, PIGD, POL, ObjectivePerturbation

pytestmark = pytest.mark.process

N = 400


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(N, 3))
    y = (X[:, 0] > 0).astype(int)
    learners = {
        "leader": DPFTRL(epsilon=1.0, delta=1e-6, radius=5.0),
        "mu": NOGD(mu=0.5, radius=2.0),
        "published": PIGD(epsilon=1.0, delta=1e-6, radius=2.0, calibration="published", release="last"),
        "objective": ObjectivePerturbation(epsilon=1.0, delta=1e-6),
        "pure users": POL(epsilon=1.0, delta=0.0, radius=2.0, rows_per_user=2),
    }
    return keep({name: each.fit(X, y) for name, each in learners.items()}, tmp_path_factory.mktemp("runs"))


@pytest.fixture
def forge(runs, tmp_path):
    return forger(runs, tmp_path)


def put(pattern, new, key="sentence"):
    def change(record):
        assert re.search(pattern, record[key]), record[key]
        record[key] = re.sub(pattern, lambda _: new, record[key], count=1)

    return change


def of_reports(record):
    """The words of local reports, in place of models."""
    put("at most 400 releases of the model", REPORTS)(record)
    put("the rows, exact iterates or sums, the noise, progressive", UNCOVERED)(record)


REPORTS = (
    "at most 400 reports, each a gradient or a loss that was randomized where its row is before anything of it was "
    "sent, to the learner itself, which is trusted with nothing, with every point, model and figure computed from them,"
)
UNCOVERED = "the rows, the exact gradients, the noise, progressive"
SOURCE = (
    " The source (in truth all rows of everybody are protected) claims (epsilon, delta) = (inf, inf); what is proved "
    "for this noise is (1, 1e-6), within the claim. Adjacency"
)
TAUGHT = (
    "the schema was learnt from the same rows by nobody so that everybody is safe, under the Gaussian mechanism with "
    "mu = 0, which is counted here"
)
TEXTS = {
    "no conditions": ("leader", put(r"Conditions: .*", "Conditions: none besides these.")),
    "a condition that was taught": ("leader", put(r"Conditions: .*", f"Conditions: {TAUGHT}.")),
    "a source's words": ("leader", put(" Adjacency", SOURCE)),
    "another claim": ("published", put(r"claims \(epsilon, delta\) = \([^)]*", "claims (epsilon, delta) = (0.0001, 0")),
    "another claim in the summary": ("published", put(r"claims epsilon \S+", "claims epsilon 0.0001", "summary")),
    "fewer releases": ("leader", put("at most 400 releases", "at most 1 release")),
    "a mu at one delta": ("objective", put(r"proved at delta \S+ alone, which implies no GDP", "1.5-GDP", "summary")),
    "no noise": ("leader", put(r"Arithmetic: .*? Bit", "Arithmetic: double precision, no noise. Bit")),
}  # fmt: skip


@pytest.mark.parametrize("error", TEXTS)
def test_texts_that_promise_more_do_not_hold(forge, error):
    kind, change = TEXTS[error]
    assert forge(kind, change) in ({"sentence"}, {"summary"})


def test_a_trusted_learner_releases_no_reports(forge):
    changes = of_guarantees(of_reports, lambda guarantee: guarantee.update(released="reports"))
    assert forge("leader", *changes) >= {"DPFTRL"}


@pytest.mark.parametrize(
    "words", ["Epsilon is 0.0001 for everybody", "all of it is (0, 0)-differentially private, mu=0"]
)
def test_conditions_promise_nothing(forge, words):
    def change(record):
        record["sentence"] = record["sentence"].removesuffix(".") + f"; {words}."

    def guarantee(record):
        record["conditions"] = [*record["conditions"], words]

    assert forge("leader", *of_guarantees(change, guarantee)) >= {"sentence"}


def test_bits_of_a_known_seed_are_not_private(forge):
    seeded = "AES-256 in counter mode (OpenSSL), key derived from a known seed"
    changes = of_guarantees(put(r"AES-256[^.]*", seeded), lambda guarantee: guarantee.update(bit_source=seeded))
    assert forge("leader", *changes) == {"bits"}


@pytest.mark.parametrize("asked", [0.49, 0.01])
def test_a_mu_that_was_asked_for_and_not_met_is_caught(forge, asked):
    assert forge("mu", lambda record: record["parameters"].update(mu=asked)) == {"parameters"}


def test_a_schema_that_lets_users_have_more_rows_is_caught(forge):
    def change(record):
        record["inputs"] = {"schema": {"user": {"column": "who", "max_rows": 3}}}

    assert forge("pure users", change) == {"rows of users"}
