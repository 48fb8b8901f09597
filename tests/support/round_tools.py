"""Matching learners and devices, for the tests of rounds."""

from __future__ import annotations

import math

import numpy as np
from sklearn.base import clone

from privol import BANCO, LDPSGD, MIOGD, AgnosticBANCO, MultiscaleSGD, losses
from privol.rounds import Collector, Device
from privol.rounds._terms import Terms

ROWS, FEATURES = 300, 7
SEED = 11

# A learner's request, and the least that its devices must accept for it.
PAIRS = {
    "miogd": (MIOGD(leakage=0.3, radius=3.0), {"leakage": 0.3}),
    "miogd by epsilon": (MIOGD(epsilon=1.0, delta=1e-5, step="adaptive"), {"epsilon": 1.0, "delta": 1e-5}),
    "privunit": (LDPSGD(epsilon=1.5, radius=2.0), {"epsilon": 1.5}),
    "l2laplace": (LDPSGD(epsilon=1.0, randomizer="l2laplace", l2=0.1), {"epsilon": 1.0}),
    "laplace": (LDPSGD(epsilon=1.0, randomizer="laplace"), {"epsilon": 1.0}),
    "duchi": (LDPSGD(epsilon=1.0, randomizer="duchi", x_bound=0.7), {"epsilon": 1.0}),
    "gaussian": (LDPSGD(epsilon=1.0, randomizer="gaussian"), {"epsilon": 1.0, "delta": 1e-6}),
    "banco": (BANCO(epsilon=2.0), {"epsilon": 2.0}),
    "multiscale": (MultiscaleSGD(epsilon=2.0), {"epsilon": 2.0}),
    "agnostic": (AgnosticBANCO(epsilon=2.0, loss="hinge"), {"epsilon": 2.0}),
    "no noise": (LDPSGD(epsilon=math.inf), {"epsilon": math.inf}),
    "no intercept": (LDPSGD(epsilon=1.0, fit_intercept=False, gradient_bound=0.1), {"epsilon": 1.0}),
    "halved": (LDPSGD(epsilon=1.0, randomizer="l2laplace", adjacency="zero_out"), {"epsilon": 1.0}),
    "regression": (LDPSGD(epsilon=1.0, loss=losses.Huber(width=0.5), y_bound=2.0), {"epsilon": 1.0}),
}


def rows(n=ROWS, features=FEATURES):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, features)) / 2
    return X, (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(float)


def pair(name="privunit", seed=SEED, horizon=ROWS, **limits):
    """A learner's collector and a device that accepts exactly its request."""
    learner, least = PAIRS[name]
    learner = clone(learner).set_params(horizon=horizon, random_state=seed)
    if losses.get_loss(learner.loss).kind == "classification":
        learner.declare_classes([0, 1])
    words = {"loss": learner.loss, "fit_intercept": learner.fit_intercept, "adjacency": learner.adjacency}
    device = Device(n_features=FEATURES, reports=horizon, random_state=seed, **{**words, **least, **limits})
    return learner, Collector(learner, FEATURES), device


def state_of(learner, collector):
    """Everything that a message could have changed."""
    return learner.n_rows_, learner.coef_.tobytes(), learner.ledger_.spent.mu, collector.ask()


def changed(message, at, content):
    return message[:at] + content + message[at + len(content) :]


def terms(**words):
    found = {"randomizer": "privunit", "adjacency": "replace", "loss": "logistic", "width": 0.0, "intercept": True}
    found |= {"figure": "epsilon", "amount": 1.0, "bound": 1.5, "x_bound": 1.0, "y_bound": 1.0}
    return Terms(**{**found, **words}).pack()
