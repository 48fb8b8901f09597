"""The runs that every learner must pass: one of each kind, for the tests of kept runs, of leaks and of kills.

Suites that must hold for all learners take them from ``LEARNERS``, and the offline ones from ``OFFLINE``. A learner is
included by default; one with several kinds lists them here. ``test_conformance.py`` refuses a design or an option of
the noise that is in none of them.
"""

from __future__ import annotations

import numpy as np

from privol import (
    BANCO,
    DOLA,
    DPFTRL,
    LDPSGD,
    MIOGD,
    NOGD,
    PGIGA,
    PIGD,
    POL,
    PQFTL,
    AdaptiveFTRL,
    AgnosticBANCO,
    BanditMIOGD,
    MultiscaleSGD,
    ObjectivePerturbation,
    OutputPerturbation,
    SparseDOLA,
)
from privol.learners import LEARNERS as KINDS
from privol.learners import OFFLINE_LEARNERS
from privol.topology import RandomMatching, ring

N, D = 600, 4
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, D)) / 3
Y = np.where(X @ [1.0, -2.0, 0.5, 0.0] > 0, 1, 0)

LEARNERS = {
    "PIGD": (PIGD, {"release": 50}),
    "PIGD last": (PIGD, {"release": "last"}),
    "PGIGA": (PGIGA, {"release": [7, 300, 590], "l2_schedule": "inverse_sqrt"}),
    "NOGD": (NOGD, {"batch": 7}),
    **{f"DPFTRL {design}": (DPFTRL, {"design": design}) for design in ("blt", "tree", "honaker", "smooth", "sqrt")},
    "DPFTRL banded": (DPFTRL, {"design": "banded", "bandwidth": 7, "batch": 4}),
    "DPFTRL batch": (DPFTRL, {"batch": 32, "release": 100}),
    "DPFTRL classes": (DPFTRL, {"loss": "softmax", "class_weight": {1: 2.0}}),
    "DPFTRL window": (DPFTRL, {"window": 50}),
    "DPFTRL renewal": (DPFTRL, {"renewal": "double", "horizon": 100}),
    "AdaptiveFTRL": (AdaptiveFTRL, {}),
    "AdaptiveFTRL classes": (AdaptiveFTRL, {"loss": "softmax", "horizon": 3000, "release": 100}),
    "PQFTL": (PQFTL, {"release": 40}),
    "PQFTL discount": (PQFTL, {"discount": 0.99}),
    "PQFTL batch": (PQFTL, {"batch": 9, "design": "tree"}),
    "MIOGD": (MIOGD, {"epsilon": None, "leakage": 0.5, "radius": 3.0}),
    "LDPSGD": (LDPSGD, {"release": 100, "averaging": "linear"}),
    "BANCO": (BANCO, {"epsilon": 8.0}),
    "AgnosticBANCO": (AgnosticBANCO, {"epsilon": 8.0}),
    "MultiscaleSGD": (MultiscaleSGD, {"epsilon": 8.0, "release": 3}),
    "BanditMIOGD": (BanditMIOGD, {"values": 2}),
    "BanditMIOGD published": (BanditMIOGD, {"calibration": "published", "step": "horizon"}),
    "DOLA": (DOLA, {"nodes": 7, "topology": "star"}),
    "DOLA batch": (DOLA, {"nodes": 6, "topology": "grid", "batch": 5, "randomizer": "l2laplace", "release": 3}),
    "DOLA output": (DOLA, {"nodes": 4, "noise_position": "output", "topology": RandomMatching(ring(4), seed=1)}),
    "SparseDOLA": (SparseDOLA, {"nodes": 5, "l1": 1.0}),
}

OFFLINE = {
    "OutputPerturbation": (OutputPerturbation, {}),
    "OutputPerturbation gaussian": (OutputPerturbation, {"delta": 1e-6, "radius": 2.0}),
    "OutputPerturbation classes": (OutputPerturbation, {"loss": "smooth_hinge"}),
    "ObjectivePerturbation": (ObjectivePerturbation, {}),
    "ObjectivePerturbation classes": (ObjectivePerturbation, {"min_l2": "full", "delta": 0.0}),
    "POL": (POL, {}),
    "POL gaussian": (POL, {"delta": 1e-6, "weights": "last", "loss": "hinge"}),
}

for known, kinds in ((LEARNERS, KINDS), (OFFLINE, OFFLINE_LEARNERS)):
    told = {kind for kind, _ in known.values()}
    known |= {kind.__name__: (kind, {}) for kind in kinds.values() if kind not in told}


def make(name, **words):
    kind, parameters = {**LEARNERS, **OFFLINE}[name]
    return kind(**{"random_state": 3, "epsilon": 2.0, **parameters, **words})


def rows_for(name):
    """Rows and labels for an offline learner, of three classes where its name says so."""
    return X, Y + (np.arange(N) % 5 == 0) if name.endswith("classes") else Y


class Stream:
    """Rows in blocks of the given size; ``stop``: an error, or an interrupt, before that row."""

    n_rows: int | None = N
    classes = (0, 1)

    def __init__(self, size=64, rows=X, targets=Y, stop=None, error=None):
        self.size, self.rows, self.targets, self.stop = size, rows, targets, stop
        self.error = OSError("gone") if error is None else error

    def __iter__(self):
        for start in range(0, self.rows.shape[0], self.size):
            end = min(start + self.size, self.rows.shape[0])
            if self.stop is not None and end > self.stop:
                raise self.error
            yield Block(self.rows[start:end], self.targets[start:end], start)


class Block:
    def __init__(self, X, y, first_row):
        self.X, self.first_row = X, first_row
        self.y = np.asarray(y, dtype=np.float64)


def fingerprint(learner):
    return (learner.coef_.tobytes(), np.asarray(learner.intercept_).tobytes(), learner.average_coef_.tobytes(),
            learner.n_rows_, learner.n_releases_)  # fmt: skip


def releases_of(learner, stream, **words):
    found = []
    learner.fit_stream(stream, on_release=lambda r: found.append((r.row, r.coef.tobytes(), r.intercept)), **words)
    return found
