"""Regressions of promises that an attack once broke: each test fails on the old code."""

from __future__ import annotations

import copy
import gc
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from ciphers import deepen

from privol import PGIGA, PIGD, noise
from privol._core._geometry import project
from privol._core._noise import Source
from privol.errors import BudgetExceeded, InvalidParameter, InvalidRow, SourceFailure, StateError
from privol.geometry import Box, L1Ball, Simplex
from privol.ledger import Ledger
from privol.losses import Custom

UNIT = 2.0**-53


def exact_simplex(w: np.ndarray, total: float) -> list[Fraction]:
    """Nearest point of the simplex, in rational arithmetic."""
    values = [Fraction(float(v)) for v in w]
    kept, left = sorted(values, reverse=True), Fraction(total)
    tau, sum_ = Fraction(0), Fraction(0)
    for n, v in enumerate(kept, 1):
        sum_ += v
        if v - (sum_ - left) / n <= 0:
            break
        tau = (sum_ - left) / n
    return [max(v - tau, Fraction(0)) for v in values]


@pytest.mark.parametrize("dim", [64, 512, 4096])
@pytest.mark.parametrize("gap", [0.5, 0.97])
@pytest.mark.parametrize("kind", [Simplex, L1Ball])
def test_threshold_projection_errs_by_what_is_charged(dim, gap, kind):
    """One high entry, many equal ones just below it: a plain sum errs by d^2/8 units here, in one direction."""
    rng = np.random.default_rng(dim)
    for _ in range(5):
        low = rng.random() / dim
        w = np.full(dim, low)
        w[0] = low + gap
        w *= 1 + 1e-9 * rng.random()
        if w.sum() <= 1:
            w += (1.3 - w.sum()) / dim
        exact = exact_simplex(w, 1.0)
        found = project(kind(1.0), w)
        error = math.sqrt(sum(float((Fraction(float(a)) - b) ** 2) for a, b in zip(found, exact, strict=True)))
        assert error <= (16 * math.sqrt(dim) + 16) * UNIT * (1 + np.linalg.norm(w))


def test_the_key_is_gone_after_close():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3)) / 3
    learner = PIGD(epsilon=1.0).fit(X, np.arange(50) % 2)
    gc.collect()
    mine = [s for s in gc.get_referents(learner._run.state) if isinstance(s, Source)]
    assert len(mine) == 1
    with pytest.raises(SourceFailure, match="closed"):
        mine[0].words(stream=0, level=0, block=0, row=50)
    assert np.all(learner._run.state._secret_iterate() == 0.0)


def test_rows_are_scaled_when_they_are_learnt():
    """If a caller chooses later rows by earlier releases, in the same buffer, they still meet the bound."""
    X = np.zeros((4, 2))
    X[:, 0] = 0.5

    def rewrite(release):
        X[release.row :] = [[30.0, 40.0]]

    class Stream:
        n_rows, classes = 4, (0, 1)

        def __iter__(self):
            yield type("Block", (), {"X": X, "y": np.ones(4), "first_row": 1})()

    learner = PIGD(loss="hinge", epsilon=math.inf, l2=1.0, radius=50.0, fit_intercept=False, release="all")
    learner.fit_stream(Stream(), on_release=rewrite)
    assert np.linalg.norm(learner.coef_) <= 1.0  # unit rows with l2 = 1; unscaled rows would reach 20


def test_an_interrupt_is_raised_when_the_block_is_done(monkeypatch):
    """An interrupt while a coordinate is decided neither drops a row nor learns one twice."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(60, 2)) / 3, np.arange(60) % 2
    calls = []

    def decide(*arguments):
        calls.append(arguments)
        if len(calls) == 2:  # of row 2: the first of its block
            raise KeyboardInterrupt
        return noise.decide_lattice_point(*arguments)

    deepen(monkeypatch)

    def run(stop):
        learner = PIGD(horizon=60, release="all", random_state=5, l2=1.0)
        if stop:
            monkeypatch.setattr("privol.learners._frame.decide_lattice_point", decide)
        learner.partial_fit(X[:1], y[:1], classes=[0, 1])
        if stop:
            with pytest.raises(KeyboardInterrupt):
                learner.partial_fit(X[1:30], y[1:30])
        else:
            learner.partial_fit(X[1:30], y[1:30])
        learner.partial_fit(X[30:], y[30:])
        return learner

    plain, stopped = run(False), run(True)
    assert calls
    assert stopped.n_rows_ == stopped.n_releases_ == 60
    assert np.array_equal(plain._run.state._secret_iterate(), stopped._run.state._secret_iterate())
    assert np.array_equal(plain.average_coef_, stopped.average_coef_)


def test_a_run_that_left_the_finite_numbers_releases_nothing():
    learner = PIGD(loss="logistic", horizon=10, release="last", random_state=0)
    learner.partial_fit(np.eye(2), [0, 1], classes=[0, 1])
    learner.set_params(on_invalid="zero")  # has no effect on the open run
    with pytest.raises(InvalidRow, match="row 3"):
        learner.partial_fit([[0.1, np.nan]], [1])
    with pytest.raises(InvalidRow, match="row 3"):
        learner.partial_fit([[0.1, 0.1]], [7])
    learner.close()
    assert np.all(np.isfinite(learner.coef_))


@pytest.mark.parametrize(
    "parameters",
    [
        {"domain": Box(0.0, 1e-170), "noise_shape": "paper", "loss": "hinge"},
        {"l2": 1e-165, "loss": "hinge"},
        {"x_bound": 3e-162},
        {"radius": 1e-150},
        {"radius": 1e60},
        {"step_offset": 1e-200},
    ],
)
@pytest.mark.parametrize("release", ["all", "last"])
def test_parameters_beyond_double_precision_are_refused(parameters, release):
    X = np.ones((3, 2))
    with pytest.raises(InvalidParameter):
        PIGD(release=release, fit_intercept=False, **parameters).fit(X, [0, 1, 0])


def test_published_gradient_without_rows_to_learn_is_refused():
    with pytest.raises(InvalidParameter, match="learns nothing before row"):
        PGIGA(calibration="published", l2=1e-25).calibrate(3, 1000, "last")


def test_copies_share_the_ledger_and_pickles_lose_it():
    X, y = np.eye(4), [0, 1, 0, 1]
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    learner = PIGD(epsilon=1.0, delta=1e-6, ledger=ledger).fit(X, y)
    for other in (copy.copy(learner), copy.deepcopy(learner)):
        assert np.array_equal(other.coef_, learner.coef_)
        with pytest.raises(BudgetExceeded):
            other.fit(X, y)
    thawed = pickle.loads(pickle.dumps(learner))
    assert np.array_equal(thawed.coef_, learner.coef_)
    with pytest.raises(StateError, match="ledger stayed behind"):
        thawed.fit(X, y)
    assert len(ledger.accounts) == 1
    thawed.set_params(ledger=None).fit(X, y)


def test_the_ledger_may_be_read_while_a_block_is_undone():
    ledger, learner, seen = Ledger(), None, []

    def gradient(p, y):
        if learner is not None:
            seen.append(ledger.spent.mu)
            if len(seen) == 30:
                raise RuntimeError("stop")
        return -0.5 * y

    loss = Custom(value=lambda p, y: -0.5 * y * p, gradient=gradient, lipschitz=1.0, smoothness=0.0)
    X, y = np.full((50, 1), 0.5), np.arange(50) % 2
    fresh = PGIGA(loss=loss, horizon=100, release="all", ledger=ledger).partial_fit(X[:3], y[:3], classes=[0, 1])
    before, learner = ledger.spent.mu, fresh
    with pytest.raises(RuntimeError, match="stop"):
        learner.partial_fit(X, y)
    assert ledger.spent.mu == before > 0
    assert seen == [before] * 30
    assert learner.n_rows_ == 3


def test_the_callers_precision_of_mpmath_is_left_alone():
    import mpmath

    from privol.noise import decide_lattice_point

    with mpmath.workprec(77):
        decide_lattice_point(12345 << 40, lambda level: (1, 2), 0.3, 1.0, 2.0**-10)
        assert mpmath.mp.prec == 77


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_of_a_running_learner_does_not_start_another_run(duplicate):
    live = PIGD(horizon=20, release=5).partial_fit(np.eye(4), [0, 1, 0, 1], classes=[0, 1])
    other = duplicate(live)
    block = np.eye(4), [0, 1, 0, 1], [0, 1]
    for learn in (lambda: other.partial_fit(*block), lambda: other.learn_one([0, 0, 0, 1], 1)):
        with pytest.raises(StateError, match="copy of what another has released"):
            learn()
    assert live.partial_fit(np.eye(4), [0, 1, 0, 1]).n_rows_ == 8


@pytest.mark.parametrize("learner", [PIGD, PGIGA])
@pytest.mark.parametrize("domain", [Simplex(1.0), L1Ball(1.0), Box(-1.0, 1.0), None])
def test_a_loss_that_returns_nan_changes_nothing(learner, domain):
    calls = []

    def gradient(p, y):
        calls.append(p)
        return math.nan if armed and len(calls) > 40 else -0.5 * y

    armed = False
    loss = Custom(value=lambda p, y: -0.5 * y * p, gradient=gradient, lipschitz=1.0, smoothness=1.0)
    fitted = learner(loss=loss, horizon=100, release="all", domain=domain, l2=1.0, random_state=1)
    X, y = np.random.default_rng(0).normal(size=(100, 3)) / 3, np.arange(100) % 2
    fitted.partial_fit(X[:5], y[:5], classes=[0, 1])
    before = fitted._run.state._secret_iterate()
    calls.clear()
    armed = True
    with pytest.raises(InvalidParameter, match="NaN"):
        fitted.partial_fit(X[5:], y[5:])
    assert fitted.n_rows_ == 5
    assert np.array_equal(fitted._run.state._secret_iterate(), before)


@pytest.mark.parametrize("bad", [[math.nan, 0.5, 0.5], [0.5, math.nan, 0.5], [0.5, math.inf, 0.5]])
@pytest.mark.parametrize("domain", [Simplex(1.0), L1Ball(0.1)])
def test_projection_does_not_hide_numbers_that_are_not_finite(domain, bad):
    assert not np.all(np.isfinite(project(domain, np.array(bad))))


def test_any_exception_while_a_release_is_made_leaves_it_made(monkeypatch):
    """A signal handler may raise anywhere: the block is finished, then the exception is raised."""
    calls = []

    def decide(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            raise TimeoutError
        return noise.decide_lattice_point(*arguments)

    monkeypatch.setattr("privol.learners._frame.decide_lattice_point", decide)
    deepen(monkeypatch)
    learner = PIGD(horizon=3, release="last", random_state=5, l2=1.0)
    learner.partial_fit(np.eye(2), [0, 1], classes=[0, 1])
    with pytest.raises(TimeoutError):
        learner.partial_fit([[0.5, 0.5]], [1])
    learner.close()
    assert (learner.n_rows_, learner.n_releases_) == (3, 1)


def test_published_spending_is_read_after_commit():
    learner, seen = None, []

    def gradient(p, y):
        if learner is not None:
            seen.append(ledger.entries()[0].last_row)
            if len(seen) == 30:
                raise RuntimeError("stop")
        return -0.5 * y

    ledger = Ledger()
    loss = Custom(value=lambda p, y: -0.5 * y * p, gradient=gradient, lipschitz=1.0, smoothness=0.0)
    fresh = PIGD(loss=loss, horizon=100, release="all", ledger=ledger, calibration="published")
    X, y = np.full((50, 1), 0.5), np.arange(50) % 2
    fresh.partial_fit(X[:3], y[:3], classes=[0, 1])
    learner = fresh
    with pytest.raises(RuntimeError, match="stop"):
        learner.partial_fit(X, y)
    assert set(seen) == {3}
    assert ledger.entries()[0].last_row == 3


def test_a_copy_of_a_learner_with_a_shared_ledger_can_be_pickled():
    learner = PIGD(ledger=Ledger()).fit(np.eye(4), [0, 1, 0, 1])
    again = pickle.loads(pickle.dumps(copy.deepcopy(learner)))
    assert np.array_equal(again.coef_, learner.coef_)
