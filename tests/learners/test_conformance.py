"""No learner is excluded from the checks that every learner must pass."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from conformance import LEARNERS, OFFLINE, D, N, Stream, X, Y, fingerprint, make, rows_for

import privol
from privol.errors import InvalidParameter
from privol.learners import GROUPS, OFFLINE_LEARNERS, TABLE
from privol.learners import LEARNERS as KINDS
from privol.prefix import DESIGNS

pytestmark = pytest.mark.slow


def test_every_kind_of_learner_is_there():
    assert {kind for kind, _ in LEARNERS.values()} == set(KINDS.values())
    designs = {words["design"] for _, words in LEARNERS.values() if "design" in words}
    assert designs | {"independent"} == set(DESIGNS)  # NOGD is the learner with independent noise
    used = {name for _, words in LEARNERS.values() for name in words}
    assert {"release", "batch", "window", "discount", "renewal", "class_weight", "loss", "leakage", "values"} <= used
    assert {kind for kind, _ in OFFLINE.values()} == set(OFFLINE_LEARNERS.values())
    assert not set(OFFLINE_LEARNERS) & set(KINDS)


def test_learners_are_listed_in_one_table():
    """A new learner is one row of it: no other module names more than a few of them."""
    from privol.cli.audit import AUDITED

    assert [*KINDS, *OFFLINE_LEARNERS] == [entry.name for entry in TABLE]
    assert {entry.group for entry in TABLE} == GROUPS.keys()
    for entry in TABLE:
        kind = getattr(privol, entry.kind)
        assert kind.__module__ == f"privol.learners.{entry.module}"
        assert entry.kind in privol.__all__
        assert entry.name in AUDITED
    package = Path(privol.__file__).parent
    for path in package.rglob("*.py"):
        named = {word for word in re.findall(r'"([a-z-]+)"', path.read_text()) if word in {e.name for e in TABLE}}
        assert len(named) < 5 or path == package / "learners" / "__init__.py", path


@pytest.mark.parametrize("name", LEARNERS)
def test_a_run_of_each_kind_learns_and_is_private(name):
    """The kinds are real learners: each releases, pays, and depends on its rows and on its noise."""
    one = make(name).fit_stream(Stream())
    again = make(name).fit_stream(Stream(size=7))
    assert fingerprint(one) == fingerprint(again)
    assert one.n_releases_ > 0
    assert 0 < one.ledger_.spent.mu <= one.guarantee_.mu * (1 + 1e-6)
    other_noise = make(name, random_state=4).fit_stream(Stream())
    other_rows = make(name).fit_stream(Stream(targets=1 - Y))
    for other in (other_noise, other_rows):
        assert not np.array_equal(one.coef_, other.coef_)
    assert one.predict(X).shape == (len(X),)


@pytest.mark.parametrize("name", OFFLINE)
def test_an_offline_fit_of_each_kind_learns_and_is_private(name):
    x, y = rows_for(name)
    classes = tuple(range(int(y.max()) + 1))
    one, again = (make(name).fit_stream(labelled(x, y, classes, size)) for size in (64, 7))
    assert fingerprint(one) == fingerprint(again) == fingerprint(make(name).declare_classes(classes).fit(x, y))
    assert (one.n_rows_, one.n_releases_) == (len(x), 1)
    assert 0 < one.ledger_.spent.mu <= one.guarantee_.mu * (1 + 1e-6)
    other_noise = make(name, random_state=4).fit(x, y)
    other_rows = make(name).fit(x, classes[-1] - y)
    for other in (other_noise, other_rows):
        assert not np.array_equal(one.coef_, other.coef_)
    assert one.predict(x).shape == (len(x),)


def labelled(x, y, classes, size):
    stream = Stream(size=size, rows=x, targets=y)
    stream.classes = classes
    return stream


@pytest.mark.parametrize("name", LEARNERS)
def test_a_plan_with_noise_is_not_run_without_a_source(name):
    """The kernels refuse it: without noise nothing of the guarantee would hold, and reports would read no words."""
    learner = make(name)
    classes = np.arange(2) if learner.loss == "softmax" else None
    plan = learner.calibrate(D, N)
    with pytest.raises(InvalidParameter):
        learner.build(plan, None, classes)
    silent = learner.set_params(epsilon=math.inf, **({"leakage": None} if "leakage" in learner.get_params() else {}))
    assert learner.build(silent.calibrate(D, N), None, classes).n_rows == 0
