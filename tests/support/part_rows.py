"""Rows in parts, and what ranks do with them: for tests of one curator and many workers."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from scipy import sparse

from privol import DPFTRL, PQFTL, ObjectivePerturbation, OutputPerturbation
from privol.distributed import LocalCrew, RankCrew
from privol.errors import InvalidRow, RankFailure
from privol.ledger import Ledger
from privol.losses import Custom
from privol.state import State

SIZES = (300, 1, 517, 256, 40)  # whole blocks of 256 rows, parts of one, and a single row


def bowl(score, y):
    return np.sqrt(1.0 + (score - y) ** 2) - 1.0


def slope_of_bowl(score, y):
    return (score - y) / np.sqrt(1.0 + (score - y) ** 2)


BOWL = Custom(value=bowl, gradient=slope_of_bowl, lipschitz=1.0, smoothness=1.0, kind="regression")
CASES = {
    "output": (OutputPerturbation, "two", {}),
    "pure": (ObjectivePerturbation, "two", {"delta": 0.0}),
    "hinge": (ObjectivePerturbation, "two", {"loss": "smooth_hinge", "l2": 1e-3}),  # needs line searches
    "classes": (ObjectivePerturbation, "three", {"radius": 2.0}),
    "huber": (OutputPerturbation, "real", {"loss": "huber", "fit_intercept": False}),
    "squared": (ObjectivePerturbation, "real", {"loss": "squared", "radius": 1.5}),
    "custom": (ObjectivePerturbation, "real", {"loss": BOWL}),
    "wide": (ObjectivePerturbation, "wide", {"epsilon": 50.0}),  # conjugate gradients
}


def rows_of(kind):
    """All rows of a kind, and their targets: real numbers, or indices of classes."""
    rng = np.random.default_rng(7)
    n, d = sum(SIZES), 700 if kind == "wide" else 5
    X = rng.uniform(-1.0, 1.0, size=(n, d))
    score = X[:, :5] @ [1.0, -2.0, 0.5, 0.0, 1.0] + rng.normal(size=n) / 4
    if kind == "wide":
        X[rng.random(X.shape) < 0.97] = 0.0
        X = sparse.csr_matrix(X)
    if kind == "real":
        return X, np.clip(score, -1.0, 1.0), None
    if kind == "three":
        return X, np.digitize(score, [-0.7, 0.7]).astype(float), ("a", "b", "c")
    return X, (score > 0).astype(float), ("no", "yes")


class Stream:
    """Some rows as a stream, in blocks of 100."""

    def __init__(self, X, y, classes, **said):
        self.X, self.y, self.classes, self.n_rows = X, y, classes, X.shape[0]
        self.__dict__.update(said)

    def __iter__(self):
        for k in range(0, self.n_rows, 100):
            yield SimpleNamespace(X=self.X[k : k + 100], y=self.y[k : k + 100], first_row=k)


@dataclass(frozen=True)
class MadePart:
    """A part of the rows of a kind, made where it is opened; its file, if there is one, sets what happens then."""

    name: str
    kind: str
    number: int
    rule: str = ""
    folder: str = ""

    def open(self):
        X, y, classes = rows_of(self.kind)
        first = sum(SIZES[: self.number])
        X, y = X[first : first + SIZES[self.number]], y[first : first + SIZES[self.number]].copy()
        if self.rule == "moves":  # each time that it is read
            turned = Path(self.folder) / "turned"
            X, y = (np.roll(X, -3, axis=0), np.roll(y, -3)) if turned.exists() else (X, y)
            turned.touch()
        if self.rule == "nan":
            X[2, 1] = np.nan
        elif self.rule == "label":
            y[3] = 7.0
        elif self.rule == "error":
            raise OSError("the disk is gone")
        elif self.rule == "narrow":
            X = X[:, :4]
        elif self.rule == "other classes":
            classes = ("yes", "no")
        elif self.rule in ("always dies", "dies"):
            died = Path(self.folder) / f"died-{os.getpid()}"
            if self.rule == "always dies" or not list(died.parent.glob("died-*")):
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        said = {"rows_per_user": 2, "user": "who"} if self.rule == "users" else {}
        return Stream(X, y, classes, **said)


def parts_of(kind, rules=None, folder=""):
    """The parts of a kind; ``rules``: by number."""
    rules = rules or {}
    return [MadePart(f"{kind}-{k}", kind, k, rules.get(k, ""), str(folder)) for k in range(len(SIZES))]


def make(name, **words):
    kind, rows, given = CASES[name]
    return kind(**{"x_bound": 2.0, "random_state": 5, **given, **words}), rows


def found_of(learner):
    return [learner.coef_.tobytes().hex(), np.asarray(learner.intercept_).tobytes().hex()]


LEAVES = {
    "default": {},
    "batch": {"batch": 7},
    "releases": {"batch": 7, "release": 3},  # models between the ends of leaves
    "sqrt": {"batch": 64, "design": "sqrt"},
    "last": {"batch": 40, "release": "last", "fit_intercept": False},
    "plain": {"batch": 30, "epsilon": np.inf},
}


def leaf_learner(name, **words):
    return PQFTL(**{"x_bound": 1.2, "random_state": 5, **LEAVES[name], **words})


@cache
def leaves_alone():
    """The results of one worker in this process."""
    return {name: shown(leaf_learner(name).fit_parts(parts_of("real"), LocalCrew())) for name in LEAVES}


STEPS = {
    "logistic": (DPFTRL, "two", {}),
    "classes": (DPFTRL, "three", {"loss": "softmax", "class_weight": {"b": 3.0}, "release": 200}),
    "hinge": (DPFTRL, "three", {"loss": "hinge", "design": "independent", "discount": 0.99, "release": "last"}),
    "custom": (DPFTRL, "real", {"loss": BOWL, "fit_intercept": False, "batch": 100}),
    "wide": (DPFTRL, "wide", {"design": "sqrt", "epsilon": 50.0}),
    "plain": (DPFTRL, "two", {"epsilon": np.inf, "window": 256}),
}


FEW_STEPS = ("classes", "custom")  # in these, ranks that share a processor ask each other


def step_learner(name, **words):
    kind, rows, given = STEPS[name]
    start = {"batch": 64} if kind is DPFTRL else {}
    return kind(**{"x_bound": 1.2, "random_state": 5, **start, **given, **words}), rows


def shown(learner):
    """All releases of an online run, except intermediate models, which are in the average."""
    return [*found_of(learner), learner.average_coef_.tobytes().hex(), learner.n_rows_, learner.n_releases_]


# ---- programs of ranks ---------------------------------------------------------------------------------------------


def bits(ranks, folder):
    """Every case, with the results on every rank."""
    found = {}
    for name in CASES:
        learner, kind = make(name)
        learner.fit_parts(parts_of(kind), RankCrew(ranks))
        assert learner.guarantee_.horizon == sum(SIZES)
        assert hasattr(learner, "_account") == (ranks.rank == 0)
        found[name] = found_of(learner)
    (folder / f"bits-{ranks.rank}.json").write_text(json.dumps(found))


def refused(ranks, folder):
    """A bad row ends the fit on every rank, and the ranks can continue with another one."""
    learner, kind = make("output")
    try:
        learner.fit_parts(parts_of(kind, {4: "nan"}), RankCrew(ranks))
    except (InvalidRow, RankFailure) as error:
        (folder / f"refused-{ranks.rank}.txt").write_text(f"{type(error).__name__}: {error}\n")
    learner.fit_parts(parts_of(kind), RankCrew(ranks))
    (folder / f"after-{ranks.rank}.json").write_text(json.dumps(found_of(learner)))


def killed(ranks, folder, question, at):
    """A rank is killed after it has answered a question a number of times; a release would be written."""
    if ranks.rank == 1:
        from privol.learners import _part_sums

        real, calls = getattr(_part_sums.HeldRows, question), []

        def dies(self, *words):
            answer = real(self, *words)
            calls.append(1)
            if len(calls) == int(at):
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        setattr(_part_sums.HeldRows, question, dies)
    learner, kind = make("output")
    learner.set_params(
        ledger=Ledger(journal=folder / "ledger.jsonl", epsilon=5.0, delta=1e-5) if ranks.rank == 0 else None
    )
    learner.fit_parts(parts_of(kind), RankCrew(ranks))
    (folder / f"released-{ranks.rank}.json").write_text(json.dumps(found_of(learner)))


def leaves(ranks, folder):
    """PQFTL, with the results on every rank."""
    found = {name: shown(leaf_learner(name).fit_parts(parts_of("real"), RankCrew(ranks))) for name in LEAVES}
    (folder / f"leaves-{ranks.rank}.json").write_text(json.dumps(found))
    found = {}
    for name in FEW_STEPS:
        learner, kind = step_learner(name, batch=300)
        found[name] = shown(learner.fit_parts(parts_of(kind), RankCrew(ranks)))
    (folder / f"steps-{ranks.rank}.json").write_text(json.dumps(found))


def kept(ranks, folder):
    """The curator fails in the middle of a kept run, which resumes when all ranks call again."""
    learner, kind = step_learner("logistic", batch=256)
    state, real, steps = State(folder / "run", every=300), DPFTRL._keep_sums, []

    def fails(self, run, rows):
        real(self, run, rows)
        steps.append(rows)
        if len(steps) == 3:
            raise OSError("the curator is in trouble")

    DPFTRL._keep_sums = fails
    try:
        learner.fit_parts(parts_of(kind), RankCrew(ranks), checkpoint=state)
    except (OSError, RankFailure) as error:
        (folder / f"failed-{ranks.rank}.txt").write_text(f"{type(error).__name__}\n")
    learner, _ = step_learner("logistic", batch=256)
    learner.fit_parts(parts_of(kind), RankCrew(ranks), checkpoint=state)
    (folder / f"kept-{ranks.rank}.json").write_text(json.dumps(shown(learner)))


PARTS = {
    "parts-bits": bits,
    "parts-leaves": leaves,
    "parts-refused": refused,
    "parts-killed": killed,
    "parts-kept": kept,
}
