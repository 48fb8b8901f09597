"""No learner is left out of what every learner must pass."""

from __future__ import annotations

import numpy as np
import pytest
from conformance import LEARNERS, Stream, X, Y, fingerprint, make

from privol.learners import LEARNERS as KINDS
from privol.prefix import DESIGNS


def test_every_kind_of_learner_is_there():
    assert {kind for kind, _ in LEARNERS.values()} == set(KINDS.values())
    designs = {words["design"] for _, words in LEARNERS.values() if "design" in words}
    assert designs | {"independent"} == set(DESIGNS)  # of independent noise NOGD is the learner
    used = {name for _, words in LEARNERS.values() for name in words}
    assert {"release", "batch", "window", "discount", "renewal", "class_weight", "loss", "leakage", "values"} <= used


@pytest.mark.parametrize("name", LEARNERS)
def test_a_run_of_each_kind_learns_and_is_private(name):
    """The kinds are no empty shells: each releases, pays, and depends on its rows and on its noise."""
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
