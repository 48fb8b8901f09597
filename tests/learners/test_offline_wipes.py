"""An offline fit leaves nothing secret in memory, however it ends; errors name the user's arguments."""

from __future__ import annotations

import gc
import math

import numpy as np
import pytest
from conformance import OFFLINE, X, make, rows_for

from privol import ObjectivePerturbation, OutputPerturbation
from privol._core import _newton
from privol._core._newton import minimise
from privol._core._noise import wipe
from privol._core._objective import Objective
from privol.errors import InvalidParameter, SolverFailure
from privol.learners import averaged, offline
from privol.ledger import Ledger
from privol.losses import Logistic

every = pytest.mark.parametrize("name", OFFLINE)


def own_linear(objective):
    """The array itself, of which the property gives a copy."""
    b = objective.linear
    return next(it for it in gc.get_referents(objective) if isinstance(it, np.ndarray) and np.array_equal(it, b))


def watched(monkeypatch):
    """Arrays that hold secrets while a fit runs, and what each held."""
    kept = []

    def keep(array):
        assert np.any(array)
        kept.append((array, array.copy()))

    solve, linear = offline.minimise, offline._linear_term

    def minimise(objective, **words):
        if objective.linear is not None:
            keep(own_linear(objective))
        found = solve(objective, **words)
        keep(found.point)
        return found

    def term(source, plan):
        b = linear(source, plan)
        keep(b)
        return b

    monkeypatch.setattr(offline, "minimise", minimise)
    monkeypatch.setattr(offline, "_linear_term", term)
    for module in (offline, averaged):
        real = module.noisy

        def noisy(source, point, law, scale, real=real):
            keep(point)
            return real(source, point, law, scale)

        monkeypatch.setattr(module, "noisy", noisy)
    return kept


@every
def test_points_and_linear_terms_are_wiped(name, monkeypatch):
    reference = make(name).fit(*rows_for(name))
    kept = watched(monkeypatch)
    learner = make(name).fit(*rows_for(name))
    classes = 3 if name.endswith("classes") else 1
    expected = {"Objective": 1 + 2 * classes + 1, "Output": classes + 1, "POL": 1}
    assert len(kept) == next(count for word, count in expected.items() if name.startswith(word))
    assert not any(np.any(array) for array, _ in kept)
    assert learner.coef_.tobytes() == reference.coef_.tobytes()
    assert not any(np.shares_memory(learner._export.model, array) for array, _ in kept)


@pytest.mark.parametrize("at", ["solver", "noise"])
@pytest.mark.parametrize("name", [name for name in OFFLINE if not name.startswith("POL")])
def test_points_and_linear_terms_are_wiped_if_a_fit_fails(name, at, monkeypatch):
    kept = watched(monkeypatch)
    solve, calls = offline.minimise, []

    def fails(objective, **words):
        calls.append(1)
        if len(calls) == (3 if name.endswith("classes") else 1):
            solve(objective, **words)
            raise KeyboardInterrupt
        return solve(objective, **words)

    if at == "solver":
        monkeypatch.setattr(offline, "minimise", fails)
    else:

        def interrupted(source, point, law, scale):
            raise KeyboardInterrupt

        monkeypatch.setattr(offline, "noisy", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(name).fit(*rows_for(name))
    left = [array for array, _ in kept if np.any(array)]
    assert len(left) == (at == "solver")  # the point that the solver returned only to this test
    assert kept


def test_a_solver_wipes_its_memory(monkeypatch):
    """Whether it ends with a point or without: iterates, gradients, predictions, Hessians."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 4)), np.where(rng.random(50) < 0.5, 1.0, -1.0)
    for method in ("cholesky", "cg"):
        objective = Objective(x, y, loss=Logistic(), l2_sum=1.0, intercept=False, x_bound=9.0)
        memory = []
        real = np.zeros

        def zeros(*given, memory=memory, real=real, **words):
            array = real(*given, **words)
            memory.append(array)
            return array

        monkeypatch.setattr(_newton.np, "zeros", zeros)
        point = minimise(objective, gradient_norm=1e-8, method=method).point
        with pytest.raises(SolverFailure):
            minimise(objective, gradient_norm=1e-300, method=method)
        monkeypatch.undo()
        assert len(memory) > 15
        assert not any(np.any(array) for array in memory)
        assert np.any(point)


def test_wipe_takes_what_it_can_reach():
    array = np.ones((2, 3))
    wipe(array)
    assert not array.any()
    frozen = np.ones(3)
    frozen.flags.writeable = False
    for wrong in (np.ones(4)[::2], np.ones(3, dtype=np.float32), frozen):
        with pytest.raises(ValueError, match="contiguous"):
            wipe(wrong)
    with pytest.raises(TypeError):
        wipe([1.0])


def test_an_objective_forgets_its_linear_term():
    b = np.array([0.5, -2.0])
    x, y = X[:5, :2], np.ones(5)
    one = Objective(x, y, loss=Logistic(), l2_sum=1.0, intercept=False, x_bound=9.0, linear=b)
    other, own = one.with_changes(l2_sum=2.0), one.with_changes(linear=2 * b)
    one.forget()
    assert not one.linear.any()
    assert not other.linear.any()
    assert own.linear.tolist() == [1.0, -4.0]
    assert b.tolist() == [0.5, -2.0]
    Objective(x, y, loss=Logistic(), l2_sum=1.0, intercept=False, x_bound=9.0).forget()


# ---- errors ---------------------------------------------------------------------------------------------------------

EXTREME = [
    (OutputPerturbation, {"x_bound": 1e30, "l2": 1e-30}, "x_bound and l2 are too large"),
    (OutputPerturbation, {"loss": "huber", "x_bound": 1e30, "l2": 1e-30}, "x_bound, y_bound, the radius and l2"),
    (OutputPerturbation, {"loss": "squared", "y_bound": 1e30, "l2": 1e-30}, "x_bound, y_bound, the radius and l2"),
    (ObjectivePerturbation, {"x_bound": 1e30, "l2": 1e-30, "epsilon": 1e10}, "x_bound and l2 are too large"),
    (
        ObjectivePerturbation,
        {"loss": "squared", "radius": 1e30, "x_bound": 1e30, "l2": 1e-3},
        "x_bound, y_bound, the radius",
    ),
    (
        ObjectivePerturbation,
        {"loss": "squared", "radius": 1e30, "x_bound": 1e30, "l2": 1e-3, "epsilon": math.inf},
        "or too far",
    ),
]


@pytest.mark.parametrize(("kind", "words", "message"), EXTREME, ids=str)
def test_extreme_bounds_are_named(kind, words, message):
    """Rather than the solver's certificate, which follows from them."""
    ledger = Ledger()
    y = X[:, 0] if words.get("loss") in ("huber", "squared") else X[:, 0] > 0
    with pytest.raises(InvalidParameter, match=message) as caught:
        kind(ledger=ledger, **words).fit(X, y)
    assert "gradient_norm" not in str(caught.value)
    assert ledger.accounts == ()
