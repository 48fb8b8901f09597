"""A user's own smooth loss in the offline learners: twins of built-in losses, its certificate, its failures."""

from __future__ import annotations

import math
import pickle
import warnings

import mpmath
import numpy as np
import pytest
from leaks import Secrets, reachable, story, surface
from objective_tools import kernel_square, layouts, scaled
from offline_tools import FAR, fitted, minimiser, point, problem, released, seen, signs, vector
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from privol import ObjectivePerturbation, OutputPerturbation
from privol._core._newton import minimise
from privol._core._objective import CUSTOM_ERROR, Objective
from privol.audit._offline import OfflineCase
from privol.errors import InvalidParameter, PrivacyWarning
from privol.ledger import Ledger
from privol.losses import Custom, Huber, Logistic, SmoothHinge
from privol.noise import STREAM_OBJECTIVE, STREAM_RELEASES, granularity, make_source
from privol.state import load_model, save_model
from privol.tuning import PrivateSelection

both = pytest.mark.parametrize("kind", [OutputPerturbation, ObjectivePerturbation])
X, Y = problem(60, 3, 21)


def logistic_value(p, y):
    return max(-y * p, 0.0) + math.log1p(math.exp(-abs(p)))


def logistic_gradient(p, y):
    tail = math.exp(-abs(p))
    return -y * (tail if y * p >= 0.0 else 1.0) / (1.0 + tail)


def bend_value(p, y):
    e = 1.0 - y * p
    return max(e, 0.0) if abs(e) >= 0.3 else (e + 0.3) ** 2 / 1.2


def bend_gradient(p, y):
    return -y * min(max((1.3 - y * p) / 0.6, 0.0), 1.0)


def huber_value(p, y):
    e = abs(p - y)
    return 0.5 * e * e if e <= 0.7 else 0.7 * (e - 0.35)


def huber_gradient(p, y):
    return min(max(p - y, -0.7), 0.7)


LOGISTIC = Custom(value=logistic_value, gradient=logistic_gradient, lipschitz=1.0, smoothness=0.25, name="own")
BEND = Custom(value=bend_value, gradient=bend_gradient, lipschitz=1.0, smoothness=1 / 0.6, name="own")
HUBER = Custom(
    value=huber_value, gradient=huber_gradient, lipschitz=0.7, smoothness=1.0, kind="regression", name="own"
)  # fmt: skip
#: The user's loss, the equal built-in one, and the classes.
TWINS = {
    "logistic": (LOGISTIC, Logistic(), 1), "logistic of 3": (LOGISTIC, Logistic(), 3),
    "smooth hinge": (BEND, SmoothHinge(0.3), 1), "Huber": (HUBER, Huber(0.7), 1),
}  # fmt: skip
twins = pytest.mark.parametrize(("own", "twin", "outputs"), TWINS.values(), ids=TWINS)


def pseudo_huber(size=1.0, shift=lambda p, y: 0.0):
    """``hypot(size, p - y)`` scaled to the curvature 1; ``shift`` is added to the derivative that is returned."""
    return Custom(
        value=lambda p, y: size * math.hypot(size, p - y),
        gradient=lambda p, y: size * ((p - y) / math.hypot(size, p - y)) + shift(p, y),
        lipschitz=size, smoothness=1.0, kind="regression",
    )  # fmt: skip


# ---- twins ----------------------------------------------------------------------------------------------------------


@twins
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_a_custom_copy_of_a_loss_gives_the_same_model(own, twin, outputs, form):
    """Without noise, to both certificates."""
    x, y = problem(60, 4, 3, outputs, own.kind == "regression")
    x[np.abs(x) < 0.2] = 0.0
    words = {"epsilon": math.inf, "x_bound": 0.8, "l2": 0.003}
    one, other = (fitted(OutputPerturbation, form(x), y, loss=loss, **words) for loss in (own, twin))
    plans = [it.calibrate(4, 60, max(2, outputs)) for it in (one, other)]
    off = math.sqrt(outputs) * sum(plan.gradient_norm / plan.l2_sum for plan in plans)
    assert np.linalg.norm(released(one) - released(other)) <= off < 1e-5 < np.linalg.norm(released(one))


@twins
@both
def test_the_release_is_the_minimiser_and_the_noise_of_its_key(kind, own, twin, outputs):
    real = own.kind == "regression"
    x, y = problem(40, 3, 1, outputs, real)
    learner = fitted(kind, x, y, loss=own, random_state=7, l2=0.02, radius=FAR)
    plan, S, source = learner.calibrate(3, 40, max(2, outputs)), seen(x), make_source(7)
    targets, b = [np.clip(y, -1, 1)] if real else signs(y, outputs), np.zeros(4 * outputs)
    scale, error = (plan.scale, plan.gradient_norm / plan.l2_sum) if kind is OutputPerturbation else (
        plan.final_scale, plan.error)  # fmt: skip
    if kind is ObjectivePerturbation:
        assert plan.loss is own
        b = vector(source, plan.dim, plan.scale, plan.step, STREAM_OBJECTIVE)
    points = [minimiser(twin, S, t, plan.l2_sum, b[4 * k : 4 * k + 4]) for k, t in enumerate(targets)]
    step = granularity(scale * math.sqrt(plan.dim + 1))
    noise = vector(source, plan.dim, scale, step, STREAM_RELEASES)
    off = np.linalg.norm(released(learner) - np.concatenate(points) - noise)
    assert off <= math.sqrt(outputs) * error + step * math.sqrt(plan.dim) + 1e-11 * np.linalg.norm(points)
    assert np.linalg.norm(noise) > 20 * step


def test_the_noise_is_that_of_a_slope_and_a_curvature():
    """It assumes no shape: two rows may have gradients of the bound in opposite directions."""
    for adjacency, times in (("replace", 2.0), ("zero_out", 1.0)):
        plan = OutputPerturbation(loss=HUBER, adjacency=adjacency).calibrate(3, 100)
        assert plan.diameter == pytest.approx(times * 0.7 * math.sqrt(2.0), rel=1e-11)
        assert plan.sensitivity == pytest.approx((plan.diameter + 2 * plan.gradient_norm) / plan.l2_sum, rel=1e-11)
    assert ObjectivePerturbation(loss=HUBER).calibrate(3, 10_000).scale == pytest.approx(
        ObjectivePerturbation(loss=Huber(0.7)).calibrate(3, 10_000).scale, rel=1e-6
    )
    with pytest.raises(InvalidParameter, match="published"):
        OutputPerturbation(loss=LOGISTIC, calibration="published").calibrate(3, 100)
    with pytest.raises(InvalidParameter, match="do not change their sign"):
        ObjectivePerturbation(loss=LOGISTIC, delta=1e-6).calibrate(3, 100, 3)


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
@pytest.mark.parametrize(("own", "outputs"), [(LOGISTIC, 1), (LOGISTIC, 3), (HUBER, 1), (pseudo_huber(0.01), 1)],
                         ids=["logistic", "logistic of 3", "Huber", "narrow"])  # fmt: skip
def test_no_row_moves_the_minimiser_by_more_than_the_sensitivity(own, outputs, adjacency):
    rng, real, largest = np.random.default_rng(8), own.kind == "regression", 0.0
    labels = None if real else list(range(max(2, outputs)))
    for trial in range(20):
        n, d = int(rng.integers(1, 5)), int(rng.integers(1, 4))
        words = {
            "loss": own, "l2": float(10.0 ** rng.uniform(-2, 2)), "fit_intercept": bool(trial % 2),
            "x_bound": float(rng.choice([0.3, 1.0, 4.0])), "y_bound": 2.0,
        }  # fmt: skip
        line = rng.normal(size=d)
        x = line * rng.choice([-1, 1, 50.0], size=(n, 1)) * 10.0 ** rng.uniform(-1, 1)
        y = rng.choice([-2.0, 2.0, 0.1], size=n) if real else rng.integers(0, max(2, outputs), size=n)
        other, targets = x.copy(), y.astype(float)
        if adjacency == "replace":
            other[0] = line * rng.choice([-50, 50.0])
            targets[0] = -y[0] if real else (y[0] + 1) % max(2, outputs)
        else:
            targets[0] = np.nan
        plan = OutputPerturbation(adjacency=adjacency, **words).calibrate(d, n, max(2, outputs))
        moved = np.linalg.norm(point(x, y.astype(float), labels, **words) - point(other, targets, labels, **words))
        assert moved <= plan.sensitivity
        largest = max(largest, moved / plan.sensitivity)
    assert largest > (0.99 if real else 0.4)  # a slope is at its bound, or about half of it


def test_a_slope_beyond_its_bound_is_clamped():
    """Where it was not checked before: the bound holds, whatever the user declared, and the objective is convex."""

    def value(p, y):
        return max(huber_value(p, y), 5.0 * (abs(p - y) - 50.0))

    def gradient(p, y):
        return huber_gradient(p, y) if abs(p - y) < 57.0 else 5.0 * math.copysign(1.0, p - y)

    steep = Custom(value=value, gradient=gradient, lipschitz=0.7, smoothness=1.0, kind="regression")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 2)), rng.choice([-90.0, 1.0, 200.0], size=40)
    words = {"epsilon": math.inf, "y_bound": 500.0}
    one, other = (released(OutputPerturbation(loss=loss, **words).fit(x, y)) for loss in (steep, Huber(0.7)))
    assert abs(gradient(0.0, 200.0)) > 0.7
    assert np.allclose(one, other, rtol=1e-6)


# ---- the certificate ------------------------------------------------------------------------------------------------


def exact_norm(x, y, size, o, w, x_bound):
    """The gradient norm of the pseudo-Huber loss, in multiple precision; factors are the doubles of the kernel."""
    with mpmath.workdps(50):
        w = [mpmath.mpf(v) for v in w.tolist()]
        total = [mpmath.mpf(o.l2_sum) * v for v in w]
        for row, target in zip(x, y.tolist(), strict=True):
            square = kernel_square(row)
            f = mpmath.mpf(x_bound / math.sqrt(square) if square > x_bound * x_bound else 1.0)
            s = [*(f * mpmath.mpf(v) for v in row.tolist()), mpmath.mpf(1)]
            e, k = mpmath.fdot(s, w) - mpmath.mpf(target), mpmath.mpf(size)
            g = k * e / mpmath.sqrt(k * k + e * e)
            for j, v in enumerate(s):
                total[j] += g * v
        return mpmath.sqrt(mpmath.fdot(total, total))


@pytest.mark.parametrize("size", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("wrong", [0.0, 0.99, -0.99])
def test_the_certificate_holds_for_a_maximally_inexact_function(size, wrong):
    """At a minimiser as computed, for rows whose errors add up."""
    rng = np.random.default_rng(3)
    x = np.abs(rng.normal(size=(120, 3))) * rng.choice([1.0, 30.0], size=(120, 1))
    y = x @ [1.0, 0.2, 2.0] + rng.normal(size=120)
    y /= 1.0 if size == 1.0 else 30.0

    def shift(p, y):
        return wrong * CUSTOM_ERROR * (size + 1.0 + abs(p) + abs(y))

    o = Objective(x, y, loss=pseudo_huber(size, shift), l2_sum=0.05, intercept=True, x_bound=2.0)
    found = minimise(o, gradient_norm=1e-8)
    bound, allowance = o.certificate(found.point)
    exact = exact_norm(x, y, size, o, found.point, 2.0)
    assert exact <= bound <= 1e-8
    if wrong:  # it is nearly all of the allowance, and far more than rounding
        S = scaled(x, 2.0, True)
        p = S @ found.point
        most = np.linalg.norm(S.T @ (CUSTOM_ERROR * (size + 1.0 + np.abs(p) + np.abs(y))))
        assert 0.4 * allowance < most < allowance
        _, gradient = o.value_gradient(found.point)
        assert float(exact) + np.linalg.norm(gradient) > 0.9 * most  # the difference of the two vectors is this large
    assert CUSTOM_ERROR == Custom.ERROR


@pytest.mark.parametrize("method", ["cholesky", "cg"])
def test_the_same_bits_whatever_the_layout_and_the_level(method):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(150, 9)).astype(np.float32).astype(float)
    x[:, 4:] *= rng.random((150, 5)) < 0.3
    y, w, found = np.where(x[:, 0] > 0, 1.0, -1.0), rng.normal(size=10), set()
    y[7] = np.nan
    for rows in layouts(x):
        o, level = Objective(rows, y, loss=LOGISTIC, l2_sum=1.0, linear=w, intercept=True, x_bound=1.5), 0
        while True:
            try:
                at = o.with_changes(level=level)
            except InvalidParameter:
                break
            value, gradient = at.value_gradient(w)
            model = minimise(at, gradient_norm=1e-8, method=method).point
            found.add(np.concatenate([[value], gradient, at.certificate(w), at.hessian_product(w, w), model]).tobytes())
            level += 1
        assert level >= 1
    assert len(found) == 1
    other = Objective(x, y, loss=Logistic(), l2_sum=1.0, linear=w, intercept=True, x_bound=1.5)
    assert value == pytest.approx(other.value_gradient(w)[0], rel=1e-13)
    np.testing.assert_allclose(o.hessian(w), other.hessian(w), rtol=1e-4, atol=1e-4)


# ---- functions that fail --------------------------------------------------------------------------------------------


class Failing:
    """The logistic loss until it is armed; then one of its functions fails in a given way, at a row in the middle."""

    def __init__(self, end, where):
        self.end, self.where, self.calls, self.told, self.armed = end, where, 0, [], False
        self.loss = Custom(
            value=lambda p, y: self.ask("value", logistic_value, p, y),
            gradient=lambda p, y: self.ask("gradient", logistic_gradient, p, y), lipschitz=1.0, smoothness=0.25,
        )  # fmt: skip
        self.armed = True

    def ask(self, where, function, p, y):
        if self.armed and where == self.where:
            self.calls += 1
            if self.calls > 130:
                self.told.append(p)
                return self.end(p)
        return function(p, y)


def raising(error):
    def end(p):
        raise error(f"not at {p!r}")

    return end


ENDS = {
    "raises": (raising(ValueError), "raised ValueError"), "overflows": (lambda p: math.exp(1e4), "OverflowError"),
    "NaN": (lambda p: math.nan, "not finite"), "infinity": (lambda p: -math.inf, "not finite"),
    "a vector": (lambda p: np.array([p, p]), "raised TypeError"), "None": (lambda p: None, "raised TypeError"),
    "text": (str, "raised TypeError"),
}  # fmt: skip


@both
@pytest.mark.parametrize("where", ["value", "gradient"])
@pytest.mark.parametrize("case", ENDS)
def test_a_function_that_fails_ends_a_fit_that_is_paid_for(kind, where, case):
    """Nothing is released, the previous model stays, and the error reveals nothing of the row."""
    end, message = ENDS[case]
    failing, ledger, secrets = Failing(end, where), Ledger(epsilon=3.5, delta=1e-6), Secrets()
    fresh = kind(delta=0.0, loss=failing.loss, ledger=ledger)
    with pytest.raises(InvalidParameter, match=message) as caught:
        fresh.fit(X, Y)
    (entry,) = ledger.entries()
    assert (entry.releases, entry.pure_epsilon, entry.open) == (0, 1.0, False)
    with pytest.raises(NotFittedError):
        fresh.predict(X)
    assert len(failing.told) == 1  # it is not called again
    secrets.numbers("prediction", failing.told)
    assert secrets.found_in(f"not at {failing.told[0]!r}")
    assert not secrets.found_in(story(caught.value))
    assert not secrets.found_in(surface(fresh, ledger))
    assert caught.value.__context__ is None
    assert not any(isinstance(it, Objective) for it in reachable(vars(fresh)))
    failing.armed = False
    before = released(fresh.fit(X, Y)).tobytes()
    failing.armed = True
    with pytest.raises(InvalidParameter, match=message):
        fresh.fit(X[:, :2], Y)
    assert (released(fresh).tobytes(), fresh.n_features_in_, ledger.spent.pure_epsilon) == (before, 3, 3.0)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interrupt_in_a_user_function_stays_an_interrupt(error):
    failing = Failing(lambda p: raising(error)(0), "gradient")
    learner = OutputPerturbation(loss=failing.loss, delta=0.0)
    with pytest.raises(error) as caught:
        learner.fit(X, Y)
    names = set()
    trace = caught.value.__traceback__
    while trace is not None:
        names.add(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert "fit" in names
    assert not names & {"end", "ask"}  # their variables are predictions
    (entry,) = learner.ledger_.entries()
    assert (entry.releases, entry.pure_epsilon, entry.open) == (0, 1.0, False)


def test_an_objective_is_unusable_after_its_loss_failed():
    failing = Failing(lambda p: math.nan, "gradient")
    o = Objective(X, np.where(Y > 0, 1.0, -1.0), loss=failing.loss, l2_sum=1.0)
    with pytest.raises(InvalidParameter, match="not finite"):
        minimise(o, gradient_norm=1e-8)
    failing.armed = False
    for call in (o.value_gradient, o.certificate, o.hessian, o.with_changes(l2_sum=2.0).certificate):
        with pytest.raises(InvalidParameter, match="not finite"):
            call(np.zeros(3))


# ---- the rest of the library ----------------------------------------------------------------------------------------


@both
def test_the_sentence_says_what_was_vouched_for(kind):
    learner = kind(delta=0.0, loss=LOGISTIC).fit(X, Y)
    assert LOGISTIC.vouched in learner.guarantee_.conditions
    assert "2^-46 (1.0 + 0.25 (1 + |prediction| + |target|))" in learner.guarantee_.sentence()
    assert learner.predict(X).shape == (60,)
    assert not hasattr(learner, "predict_proba")


def test_copies_and_files(tmp_path):
    learner = OutputPerturbation(loss=LOGISTIC).fit(X, Y)
    again = pickle.loads(pickle.dumps(learner))
    assert released(again).tobytes() == released(learner).tobytes()
    assert again.loss == LOGISTIC
    assert clone(learner).loss == LOGISTIC
    save_model(learner, tmp_path / "m")
    with pytest.raises(InvalidParameter, match="custom loss 'own'"):
        load_model(tmp_path / "m")
    again = load_model(tmp_path / "m", loss=LOGISTIC)
    assert released(again).tobytes() == released(learner).tobytes()
    assert again.guarantee_ == learner.guarantee_


def test_private_selection_takes_it_and_repeats_what_was_vouched_for():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2)) / 2
    y = x[:, 0] > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        chosen = PrivateSelection([OutputPerturbation(loss=LOGISTIC, l2=0.1, delta=0.0)], epsilon=8.0).fit(x, y)
    assert LOGISTIC.vouched in chosen.guarantee_.conditions
    failing, ledger = Failing(raising(ValueError), "gradient"), Ledger(epsilon=8.0, delta=1e-6)
    with pytest.raises(InvalidParameter, match="raised ValueError"):
        PrivateSelection([OutputPerturbation(loss=failing.loss, delta=0.0)], epsilon=8.0, ledger=ledger).fit(x, y)
    assert ledger.spent.pure_epsilon == 8.0


def test_an_audit_knows_its_curvature():
    """The densities of models are those of the loss: half of the models are within its bend, where it has curvature."""
    words = {"l2": 1.0, "delta": 0.0, "fit_intercept": False}
    cases = [
        OfflineCase(ObjectivePerturbation(loss=loss, **words), rows=4, noise=1.0, random_state=3)
        for loss in (BEND, SmoothHinge(0.3))
    ]
    series = [1.0, 0.0] + 0.4 * np.random.default_rng(1).normal(size=(200, 2))
    inside = np.abs(1.0 - series[:, 0]) < 0.3
    own, twin = (case.ratio(series) for case in cases)
    assert 60 < np.count_nonzero(inside) < 140
    np.testing.assert_allclose(own, twin, atol=1e-6)
    assert np.ptp(twin) > 0.1
