"""Numbers that are none, texts that promise something else, and horizons of another mechanism: nothing of it holds."""

from __future__ import annotations

import re

import numpy as np
import pytest
from forged import forger, keep, of_guarantees

from privol import DPFTRL, LDPSGD, NOGD
from privol.encoding import PrivateEncoder
from privol.wrapping import POCP

pytestmark = pytest.mark.process

N = 400


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(N, 3))
    y = (X[:, 0] > 0).astype(int)
    learners = {
        "leader": DPFTRL(epsilon=1.0, delta=1e-6, radius=5.0).fit(X, y),
        "zeroed": DPFTRL(epsilon=1.0, delta=1e-6, radius=5.0, adjacency="zero_out").fit(X, y),
        "gradient": NOGD(epsilon=1.0, delta=1e-6, radius=5.0).fit(X, y),
        "reports": LDPSGD(epsilon=1.0).fit(X, y),
        "encoder": PrivateEncoder().fit(rng.normal(size=(3000, 2))),
    }
    mean = POCP(lambda point, row: point + 0.1 * (row - point), np.zeros(3), sensitivity=0.2, horizon=N, release=40)
    mean.learn_many(X)
    mean.close()
    return keep({**learners, "own": mean}, tmp_path_factory.mktemp("runs"))


@pytest.fixture
def forge(runs, tmp_path):
    return forger(runs, tmp_path)


def place_of(record, *keys):
    for key in keys:
        record = record[key]
    return record


NUMBERS = [
    ("leader", ("mechanism",), "gradient_bound"),
    ("leader", ("mechanism",), "weight"),
    ("leader", ("mechanism",), "x_bound"),
    ("leader", ("mechanism", "noise"), "sigma"),
    ("gradient", ("mechanism",), "weight"),
    ("gradient", ("mechanism",), "radius"),
    ("gradient", ("mechanism", "noise"), "sigma"),
    ("reports", ("mechanism",), "report_bound"),
    ("encoder", ("mechanism", "phases", 0), "std"),
    ("own", ("mechanism",), "radius"),
    ("own", ("mechanism", "noise"), "std"),
    ("own", ("mechanism", "noise"), "declared"),
]


@pytest.mark.parametrize("text", ["nan", "inf", " NaN", "[0, 1]"])
@pytest.mark.parametrize(("kind", "keys", "name"), NUMBERS, ids=lambda x: x if isinstance(x, str) else "")
def test_a_text_is_no_number(forge, kind, keys, name, text):
    def change(record):
        found = place_of(record, *keys)
        found[name] = [text] * len(found[name]) if isinstance(found[name], list) else text

    assert forge(kind, change)


@pytest.mark.parametrize("ends", [(1, 1), (1, 0.5)])
def test_an_interval_is_no_number(forge, ends):
    def change(record):
        design = record["mechanism"]["noise"]["design"]
        design["rates"] = [[rate * end for end in ends] for rate in design["rates"]]

    assert "DPFTRL" in forge("leader", change)


def put(old, new, key="sentence"):
    def change(record):
        assert old in record[key], record[key]
        record[key] = record[key].replace(old, new, 1)

    return change


def free(name, text):
    """Another text of the guarantee, in the run and in its ledger."""

    def change(record):
        if name == "conditions":
            start = record["sentence"].index("Conditions: ")
            record["sentence"] = record["sentence"][:start] + f"Conditions: {'; '.join(text) or 'none besides these'}."
        else:
            record["sentence"] = record["sentence"].replace(record["guarantee"][name], text)

    return of_guarantees(change, lambda guarantee: guarantee.update({name: text}))


SHUFFLED = (
    "\nIf, before the first report, a trusted shuffler puts 400 users, of one row each, in a uniformly random order "
    "that nobody else learns or can tell from addresses, times or a seed (the order of a file is none), then all "
    'reports together are (3, 0.001)-differentially private for one row (adjacency "replace") against whoever does '
    "not know that order; users whose turns are known, or who work with the learner, do not count, nor do several rows "
    "of one user, and of fewer users it does not hold."
)
NATS = (
    " Mutual information: a report tells at most 0 nats (0 bits) of a row; k rows of one person tell at most k times "
    "as much."
)
CLAIM = (
    " The source (privol) claims (epsilon, delta) = (0.001, 1e-12); what is proved for this noise is (1, 1e-6), as is."
)
HOUSEHOLD = ["what all rows of one household cost together is mu = 0.0001"]
FALSE = {
    "pure of Gaussian noise": put("D", "Pure d"),
    "a pure epsilon of Gaussian noise": put(
        "Differential privacy with", "Differential privacy with epsilon = 0.25 (delta = 0), which implies"
    ),
    "pure in the summary": put("differential", "pure differential", "summary"),
    "a secret order of rows": lambda record: record.update(sentence=record["sentence"] + SHUFFLED),
    "nats of no reports": put(" Adjacency", f"{NATS} Adjacency"),
    "a source without a claim": put(" Adjacency", f"{CLAIM} Adjacency"),
    "a source in the summary": lambda record: record.update(
        summary=record["summary"] + "; the source claims epsilon 0.001 at delta 1e-12"
    ),
    "not private, it says": lambda record: record.update(summary="NOT PRIVATE things: epsilon 0.0001 for everybody"),
    "a promise in capitals": put("releases of the model", "releases of the model with EPSILON zero"),
    "other words for what is released": put("releases of the model", "releases of the model with nothing to hide"),
    "a sentence about another row": put("by any other admissible row;", "by any similar row;"),
    "a figure that is no ASCII": put("releases of the model", "releases of ½ of the model"),
    "another delta for figures": lambda record: record["budget"].update(delta=0.5),
    "no sentence": lambda record: record.update(sentence=None),
    "no summary": lambda record: record.update(summary=None),
}  # fmt: skip


@pytest.mark.parametrize("error", FALSE)
def test_false_texts_do_not_hold(forge, error):
    assert forge("leader", FALSE[error]) <= {"sentence", "summary", "delta", "parameters", "composition"}


FREE = {
    "arithmetic": ("leader", free("arithmetic", "exact reals; epsilon is in truth 0.0001 for everybody")),
    "arithmetic of others": ("leader", free("arithmetic", "exact reals, without any rounding")),
    "arithmetic of reports": ("leader", free("arithmetic", "double precision, with noise")),
    "bits": ("leader", free("bit_source", "OpenSSL; all of it protects everybody's household")),
    "a mu of households": ("leader", free("conditions", HOUSEHOLD)),
    "no user's claim": ("own", free("conditions", [])),
}


@pytest.mark.parametrize("error", FREE)
def test_what_a_guarantee_says_freely_promises_nothing(forge, error):
    kind, (change, of_ledger) = FREE[error]
    assert forge(kind, change, of_ledger)


def test_a_horizon_beyond_the_mechanism_is_caught(forge):
    """In the guarantee, the ledger and all texts: the noise is for fewer rows."""

    def change(record):
        record["guarantee"]["horizon"] = 10 * N
        record["sentence"] = record["sentence"].replace(f"at most {N} row", f"at most {10 * N} row")
        record["sentence"] = record["sentence"].replace(f"out of {N} row", f"out of {10 * N} row")
        record["parameters"].pop("horizon", None)

    def of_ledger(entries):
        for entry in entries:
            if "guarantee" in entry:
                entry["guarantee"]["horizon"] = 10 * N
        return entries

    assert forge("leader", change, of_ledger) == {"DPFTRL: ledger"}


def test_releases_beyond_the_mechanism_are_caught(forge):
    def change(record):
        noise = record["mechanism"]["noise"]
        record["mechanism"]["noise"] = {key: noise[key][:5] for key in noise}
        record["releases"] = 5

    def of_ledger(entries):
        for entry in entries:
            if "releases" in entry:
                entry["releases"] = min(entry["releases"], 5)
        return entries

    assert "POCP: ledger" in forge("own", change, of_ledger)


def test_a_pure_epsilon_for_two_rows_does_not_hold(forge):
    """To replace a row is then to change two, and of Gaussian noise that has a mu alone."""

    def change(record):
        found = re.search(r"is covered by [\d.]+-GDP", record["sentence"])
        record["sentence"] = record["sentence"].replace(found[0], "is covered by epsilon = 0.5")

    assert forge("zeroed", change) == {"sentence"}


@pytest.mark.parametrize("kind", ["leader", "zeroed", "gradient", "reports", "own"])
def test_a_mu_of_the_record_below_the_computed_one_is_caught(forge, kind):
    def change(record):
        record["mechanism"]["mu"] *= 0.999

    assert any(what.endswith(": mu") for what in forge(kind, change))
