"""Losses: reference values against mpmath, and every constant against a brute-force search for a counterexample."""

from __future__ import annotations

import copy
import math
import pickle
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from privol import losses
from privol.errors import InvalidParameter
from privol.losses import LOSSES, Absolute, Custom, Hinge, Huber, Logistic, Loss, SmoothHinge, Squared, get_loss

pytestmark = pytest.mark.slow


def named(loss):
    return "custom" if isinstance(loss, Custom) else repr(loss)


BUILT_IN = [
    Logistic(),
    Hinge(),
    SmoothHinge(),
    SmoothHinge(0.01),
    SmoothHinge(3.0),
    Squared(),
    Absolute(),
    Huber(),
    Huber(0.2),
    Huber(4.0),
]


def custom_huber() -> Custom:
    return Custom(value=huber_value, gradient=huber_gradient, lipschitz=1.0, smoothness=1.0, kind="regression")


def huber_value(p: float, y: float) -> float:
    e = abs(p - y)
    return e * e / 2 if e <= 1 else e - 0.5


def huber_gradient(p: float, y: float) -> float:
    return max(-1.0, min(1.0, p - y))


def targets(loss: Loss, bound: float = 1.0) -> np.ndarray:
    return np.array([-1.0, 1.0]) if loss.kind == "classification" else np.linspace(-bound, bound, 9)


def exact_value(loss: Loss, p: float, y: float) -> mpmath.mpf:
    p, y, w = mpmath.mpf(p), mpmath.mpf(y), mpmath.mpf(loss.width)
    m, e = y * p, abs(p - y)
    if loss.name == "logistic":
        return mpmath.log1p(mpmath.exp(-m))
    if loss.name == "hinge":
        return max(mpmath.mpf(0), 1 - m)
    if loss.name == "smooth_hinge":
        return mpmath.mpf(0) if m > 1 + w else (1 - m if m < 1 - w else (1 + w - m) ** 2 / (4 * w))
    if loss.name == "squared":
        return e**2 / 2
    if loss.name == "absolute":
        return e
    return e**2 / 2 if e <= w else w * (e - w / 2)


# ------------------------------------------------------------------------------------------ values and gradients


@pytest.mark.parametrize("loss", BUILT_IN, ids=named)
def test_values_and_gradients_agree_with_high_precision(loss):
    points = np.concatenate([np.linspace(-6, 6, 41) + 0.0123, [-800.0, -40.0, 40.0, 800.0, 1e-100]])
    with mpmath.workdps(400):
        for y in targets(loss):
            for p in points:
                expected = exact_value(loss, p, y)
                assert float(loss.value(p, y)) == pytest.approx(float(expected), rel=4e-15, abs=1e-15 * abs(p))
                step = mpmath.mpf(10) ** -120
                slope = (exact_value(loss, mpmath.mpf(p) + step, y) - exact_value(loss, mpmath.mpf(p) - step, y)) / (
                    2 * step
                )
                assert float(loss.gradient(p, y)) == pytest.approx(float(slope), rel=1e-13, abs=1e-15)


def test_logistic_keeps_relative_precision_in_its_tail():
    assert float(Logistic().gradient(700.0, 1.0)) == pytest.approx(-math.exp(-700.0), rel=1e-12)
    assert float(Logistic().value(700.0, 1.0)) == pytest.approx(math.exp(-700.0), rel=1e-12)
    assert float(Logistic().value(-1e6, 1.0)) == 1e6


def test_subgradients_at_kinks_and_ends_of_pieces():
    assert float(Hinge().gradient(1.0, 1.0)) == 0.0
    assert float(Hinge().gradient(np.nextafter(1.0, 0.0), 1.0)) == -1.0
    assert float(Absolute().gradient(2.0, 2.0)) == 0.0
    loss = SmoothHinge(0.5)
    assert [float(loss.gradient(p, 1.0)) for p in (0.5, 1.0, 1.5, 2.0)] == [-1.0, -0.5, 0.0, 0.0]
    assert [float(loss.gradient(-p, -1.0)) for p in (0.5, 1.0, 1.5, 2.0)] == [1.0, 0.5, 0.0, 0.0]
    assert [float(loss.value(p, 1.0)) for p in (0.5, 1.0, 1.5)] == [0.5, 0.125, 0.0]
    assert [float(Huber(2.0).gradient(p, 1.0)) for p in (-9.0, 0.0, 9.0)] == [-2.0, -1.0, 2.0]


@pytest.mark.parametrize("loss", [*BUILT_IN, custom_huber()], ids=named)
def test_evaluation_is_vectorised(loss):
    p = np.linspace(-2, 2, 6).reshape(3, 2)
    y = targets(loss)[:1]
    for function in (loss.value, loss.gradient):
        out = function(p, y)
        assert out.shape == (3, 2)
        assert out.dtype == np.float64
        assert out[1, 1] == function(p[1, 1], y[0])
        assert function([], 1.0).shape == (0,)


@pytest.mark.parametrize("loss", BUILT_IN, ids=named)
def test_curvature_bounds_the_slope_of_the_gradient_and_is_attained(loss):
    steepest = 0.0
    for grid in (np.linspace(-6, 6, 4001), np.linspace(0.98, 1.02, 4001)):
        for y in targets(loss):
            slopes = loss.gradient(grid, y)
            assert np.all(np.diff(slopes) >= -1e-15)  # convex
            steepest = max(steepest, float(np.max(np.diff(slopes) / np.diff(grid))))
    if math.isinf(loss.curvature):
        assert steepest > 1e2
    else:
        assert 0.999 * loss.curvature <= steepest <= loss.curvature * (1 + 1e-9)


def test_facts():
    assert LOSSES == ("logistic", "hinge", "smooth_hinge", "squared", "absolute", "huber", "softmax")
    assert [get_loss(name).code for name in LOSSES] == [0, 1, 2, 3, 4, 5, 0]
    assert [get_loss(name).name for name in LOSSES] == list(LOSSES)
    assert [get_loss(name).kind for name in LOSSES] == ["classification"] * 3 + ["regression"] * 3 + ["classification"]
    assert [get_loss(name).width for name in LOSSES] == [0.0, 0.0, 0.5, 0.0, 0.0, 1.0, 0.0]
    assert [get_loss(name).curvature for name in LOSSES] == [0.25, math.inf, 1.0, 1.0, math.inf, 1.0, 0.5]
    assert [get_loss(name).vouched for name in LOSSES] == [None] * 7
    assert Fraction(SmoothHinge(0.3).curvature) >= 1 / (2 * Fraction(0.3))
    assert custom_huber().code == -1
    assert all(word in losses.__all__ for word in ("LOSSES", "get_loss", "Custom"))


@pytest.mark.parametrize("loss", [*BUILT_IN, custom_huber()], ids=named)
def test_losses_are_frozen_values(loss):
    assert get_loss(loss) is loss
    for twin in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert twin == loss
        assert hash(twin) == hash(loss)
        assert twin.code == loss.code
    with pytest.raises(AttributeError):
        loss.width = 3.0
    assert loss != SmoothHinge(0.77)


# ------------------------------------------------------------------------------------------ oracles


def test_logistic_diameter_has_the_published_digits():
    oracle = {
        0.0: 1.0,
        0.5: 1.029109170417983,
        1.0: 1.099095477064337,
        2.0: 1.269841089857675,
        5.0: 1.617278089061212,
        10.0: 1.820844868899900,
    }
    for rho, expected in oracle.items():
        for x_bound in (1.0, 0.25, 8.0):
            found = Logistic().gradient_diameter(x_bound, rho / x_bound) / x_bound
            assert expected * (1 - 1e-15) <= found <= expected * (1 + 3e-12)


def test_squared_diameter_has_the_published_digits():
    for (a, b), expected, digits in (
        ((1, 1), 2.598076211353316, 3e-12),
        ((5, 1), 6.46090815, 2e-9),
        ((0, 1), 2.0, 3e-12),
    ):
        assert Squared().gradient_diameter(1.0, a, b) == pytest.approx(expected, rel=digits)
    assert Fraction(Squared().gradient_diameter(1.0, 1.0, 1.0)) ** 2 >= Fraction(27, 4)  # (3 sqrt(3) / 2)^2
    assert Squared().gradient_diameter(1.0, 2.0, 0.0) == pytest.approx(2.0, rel=3e-12)


def test_capped_diameters_pass_through_their_three_regimes():
    # rho = y_bound = 1: the uncapped optimum is c = 1/2 with derivative 3/2.
    assert Huber(1.5).gradient_diameter(1.0, 1.0) == pytest.approx(2.598076211353316, rel=1e-11)
    assert Huber(9.0).gradient_diameter(1.0, 1.0) == pytest.approx(2.598076211353316, rel=1e-11)
    assert Huber(1.25).gradient_diameter(1.0, 1.0) == pytest.approx(2.5 * math.sqrt(1 - 1 / 16), rel=1e-11)
    assert Huber(1.0).gradient_diameter(1.0, 1.0) == 2.0
    assert Huber(0.25).gradient_diameter(3.0, 1.0) == 1.5
    assert SmoothHinge(0.5).gradient_diameter(1.0, 1.0) == 2.0
    assert SmoothHinge(3.0).gradient_diameter(1.0, 0.0) == pytest.approx(4 / 3, rel=1e-11)
    assert SmoothHinge(3.0).gradient_diameter(1.0, 1e9) == pytest.approx(2.0, rel=1e-11)


# ------------------------------------------------------------------------------------------ brute force

CASES = [  # (x_bound, radius, y_bound)
    (1.0, 1.0, 1.0),
    (2.0, 0.7, 0.5),
    (0.5, 8.0, 3.0),
    (1.0, 0.0, 1.0),
    (3.0, 2.0, 0.0),
]


def lengths(v: np.ndarray) -> np.ndarray:
    return np.sqrt(np.einsum("...i,...i->...", v, v))


def decode(loss: Loss, q: np.ndarray, dim: int, case: tuple[float, float, float]):
    """Rows of free parameters -> a model, two rows, two targets within the public bounds."""
    x_bound, radius, y_bound = case
    v = q[..., : 3 * dim].reshape(*q.shape[:-1], 3, dim)
    v = v * np.minimum(1.0, [radius, x_bound, x_bound] / np.maximum(lengths(v), 1e-300))[..., None]
    y = np.minimum(np.maximum(q[..., -2:], -1), 1)
    return v[..., :1, :], v[..., 1:, :], np.where(y >= 0, 1.0, -1.0) if loss.kind == "classification" else y * y_bound


def distance(loss: Loss, q: np.ndarray, dim: int, case: tuple[float, float, float], null: bool) -> np.ndarray:
    x, rows, targets = decode(loss, q, dim, case)
    gradients = np.asarray(loss.gradient(np.sum(x * rows, axis=-1), targets))[..., None] * rows
    return lengths(gradients[..., 0, :] if null else gradients[..., 0, :] - gradients[..., 1, :])


def search(loss: Loss, dim: int, case: tuple[float, float, float], null: bool = False) -> float:
    """The largest distance of two gradients at one model that random search and Nelder-Mead can find."""
    rng = np.random.default_rng(dim)
    scale = np.concatenate([np.full(dim, 2 * case[1]), np.full(2 * dim, 2 * case[0]), [2.0, 2.0]])
    q = rng.normal(size=(5_000, 3 * dim + 2)) * scale
    found = distance(loss, q, dim, case, null)
    best = float(np.max(found))
    for start in q[np.argsort(found)[-2:]]:
        result = minimize(
            lambda p: -float(distance(loss, p * scale, dim, case, null)),
            start / np.where(scale > 0, scale, 1.0),
            method="Nelder-Mead",
            options={"maxfev": 1500, "xatol": 1e-9, "fatol": 1e-12, "adaptive": True},
        )
        best = max(best, -float(result.fun))
    return best


@pytest.mark.parametrize(("case", "dim"), [*((case, 2) for case in CASES), (CASES[0], 3), (CASES[2], 3)], ids=str)
@pytest.mark.parametrize("loss", [x for x in BUILT_IN if x != SmoothHinge(0.01)], ids=named)
def test_replace_diameter_is_never_exceeded_and_nearly_attained(loss, case, dim):
    x_bound, radius, y_bound = case
    bound = loss.gradient_diameter(x_bound, radius, y_bound)
    found = search(loss, dim, case)
    assert found <= bound * (1 + 1e-14)
    if not (isinstance(loss, Absolute) and y_bound == 0.0):  # there the supremum is a limit at a kink
        assert found >= 0.999 * bound
    assert bound <= 2 * loss.gradient_bound(x_bound, radius, y_bound)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("loss", [x for x in BUILT_IN if x != SmoothHinge(0.01)], ids=named)
def test_zero_out_diameter_is_the_gradient_bound_and_attained(loss, case):
    bound = loss.gradient_bound(*case)
    assert loss.gradient_diameter(*case, adjacency="zero_out") == bound
    found = search(loss, 2, case, null=True)
    assert 0.999 * bound <= found <= bound * (1 + 1e-14)


@pytest.mark.parametrize("loss", BUILT_IN, ids=named)
def test_one_dimension_is_covered(loss):
    for x_bound, radius, y_bound in CASES:
        p = np.linspace(-1, 1, 41)
        x, v, y = np.meshgrid(p * radius, p * x_bound, targets(loss, y_bound), indexing="ij")
        gradients = (loss.gradient(x * v, y) * v).reshape(p.size, -1)
        widest = np.max(gradients.max(axis=1) - gradients.min(axis=1))
        assert widest <= loss.gradient_diameter(x_bound, radius, y_bound) * (1 + 1e-14)


@pytest.mark.parametrize("loss", BUILT_IN, ids=named)
def test_gradients_fill_no_more_than_the_ball_of_the_proof(loss):
    """All gradients at the worst model lie in one ball of half the diameter: a grid in the plane through the axis."""
    t = np.linspace(-1, 1, 201)
    across = np.linspace(0, 1, 51)[:, None] * np.sqrt(1 - t**2)
    for rho in (1e-3, 0.3, 1.0, 2.5, 7.0, 100.0):
        gradients = np.concatenate(
            [
                np.stack([loss.gradient(rho * t, y) * t + 0 * across, loss.gradient(rho * t, y) * across])
                for y in targets(loss)
            ],
            axis=1,
        ).reshape(2, -1)
        along, side = gradients[0], np.abs(gradients[1])
        widest = loss.gradient_diameter(1.0, rho) / 2
        reach = minimize_scalar(
            lambda z, along=along, side=side: float(np.max(np.hypot(along - z, side))),
            bounds=(float(along.min()), float(along.max())),
            method="bounded",
            options={"xatol": 1e-10 * rho},
        )
        assert reach.fun <= widest * (1 + 1e-8)


@pytest.mark.parametrize("loss", [*BUILT_IN, custom_huber()], ids=named)
@pytest.mark.parametrize("prediction_bound", [0.0, 0.4, 1.0, 30.0])
@pytest.mark.parametrize("y_bound", [0.0, 0.5, 2.0])
def test_lipschitz_is_the_supremum(loss, prediction_bound, y_bound):
    p = np.linspace(-prediction_bound, prediction_bound, 2001)[:, None]
    steepest = float(np.max(np.abs(loss.gradient(p, targets(loss, y_bound)[None, :]))))
    bound = loss.lipschitz(prediction_bound, y_bound)
    assert steepest <= bound
    if loss.code not in (4, -1):  # absolute: a kink at 0; custom: the user's declaration
        assert bound <= steepest * (1 + 1e-11)


# ------------------------------------------------------------------------------------------ rounding, limits, extremes


@pytest.mark.parametrize("loss", [*BUILT_IN, custom_huber()], ids=named)
def test_everywhere_is_the_limit_of_large_balls(loss):
    if isinstance(loss, Squared):
        for call in (
            lambda: loss.gradient_diameter(1.0, 1.0, everywhere=True),
            lambda: loss.gradient_diameter(1.0, math.inf),
            lambda: loss.gradient_diameter(1.0, math.inf, adjacency="zero_out"),
            lambda: loss.gradient_bound(1.0, math.inf),
            lambda: loss.lipschitz(math.inf),
        ):
            with pytest.raises(InvalidParameter, match="grows without bound"):
                call()
        return
    most = loss.lipschitz(math.inf)
    assert loss.gradient_diameter(2.0, 0.1, everywhere=True) == 4.0 * most
    assert loss.gradient_diameter(2.0, 0.1, adjacency="zero_out", everywhere=True) == 2.0 * most
    assert loss.gradient_diameter(2.0, 1e100) == pytest.approx(4.0 * most, rel=1e-11)


@pytest.mark.parametrize("loss", BUILT_IN, ids=named)
def test_constants_increase_with_every_bound(loss):
    radii = [0.0, 1e-300, 1e-9, 0.1, 0.5, 1.0, 1.5, 1.9, 2.0, 2.1, 3.0, 10.0, 1e3, 1e9, 1e100]
    for method in (loss.gradient_bound, loss.gradient_diameter):
        for found in (
            [method(1.0, r, 1.0) for r in radii],
            [method(1.0, 1.0, r) for r in radii],
            [method(r, 1.0, 1.0) for r in radii],
        ):
            assert all(b >= a * (1 - 4e-12) for a, b in pairwise(found))
            assert all(math.isfinite(x) for x in found)


def test_bounds_round_up_exactly():
    third, tenth = 1 / 3, 0.1
    for loss in (Squared(), Huber(1e9)):
        exact = Fraction(third) * (Fraction(third) * Fraction(tenth) + Fraction(0.7))
        assert exact <= Fraction(loss.gradient_bound(third, tenth, 0.7)) <= exact * (1 + Fraction(1, 2**50))
    assert Hinge().gradient_bound(third, 5.0) == third
    assert Fraction(SmoothHinge(5.0).lipschitz(0.3)) >= (6 + Fraction(0.3)) / 10


def test_nearly_equal_cap_and_offset_stay_bounds():
    """The kink c = (cap - offset) / slope cancels; the exact maximum is known in rational arithmetic."""
    rng = np.random.default_rng(11)
    with mpmath.workdps(60):
        for _ in range(300):
            slope = float(10.0 ** rng.uniform(-14, 0))
            offset = float(rng.uniform(0.5, 2.0))
            cap = offset + slope * float(rng.uniform(0, 1.2))
            a, b, k = mpmath.mpf(slope), mpmath.mpf(offset), mpmath.mpf(cap)
            c = min((-b + mpmath.sqrt(b * b + 8 * a * a)) / (4 * a), max(mpmath.mpf(0), (k - b) / a))
            exact = 2 * mpmath.sqrt(1 - c * c) * min(k, b + a * c)
            found = Huber(cap).gradient_diameter(1.0, slope, offset)
            assert exact <= found <= 2 * min(k, b + a) * (1 + mpmath.mpf(2) ** -50)


def test_extreme_scales():
    assert Logistic().gradient_diameter(0.0, 1.0) == 0.0
    assert Squared().gradient_diameter(1.0, 0.0, 0.0) == 0.0
    assert Squared().gradient_diameter(1e-200, 1e-200, 0.0) > 0.0  # underflow rounds up, too
    assert Squared().gradient_diameter(1.0, 1e300, 1e300) == pytest.approx(2.598076211353316e300, rel=1e-11)
    assert Huber(1.0).gradient_diameter(1.0, 5e-324, 0.5) == pytest.approx(1.0, rel=1e-11)
    assert Logistic().gradient_diameter(1.0, 1e308) == 2.0
    with pytest.raises(InvalidParameter, match="not finite doubles"):
        Squared().gradient_bound(1e200, 1e200, 1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: get_loss("log"), "loss must be one of 'logistic'"),
        (lambda: get_loss(None), "loss must be one of"),
        (lambda: SmoothHinge(0.0), "width must be"),
        (lambda: SmoothHinge(math.nan), "width must be"),
        (lambda: Huber(-1.0), "width must be"),
        (lambda: Huber(math.inf), "width must be"),
        (lambda: Huber("1"), "width must be"),
        (lambda: Logistic().lipschitz(-1.0), "prediction_bound must be"),
        (lambda: Squared().lipschitz(1.0, math.inf), "y_bound must be"),
        (lambda: Logistic().gradient_bound(math.inf, 1.0), "x_bound must be"),
        (lambda: Logistic().gradient_diameter(-1.0, 1.0), "x_bound must be"),
        (lambda: Logistic().gradient_diameter(1.0, math.nan), "radius must be"),
        (lambda: Logistic().gradient_diameter(1.0, 1.0, adjacency="add"), "adjacency must be"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(InvalidParameter, match=message):
        make()


# ------------------------------------------------------------------------------------------ the user's own


def make_custom(**changes) -> Custom:
    given = {
        "value": huber_value,
        "gradient": huber_gradient,
        "lipschitz": 1.0,
        "smoothness": 1.0,
        "kind": "regression",
    }
    return Custom(**(given | changes))


def test_custom_loss_equals_the_built_in_it_copies():
    loss, twin = custom_huber(), Huber()
    p, y = np.linspace(-3, 3, 13), np.linspace(-1, 1, 13)
    np.testing.assert_allclose(loss.value(p, y), twin.value(p, y), rtol=1e-15, atol=1e-15)
    np.testing.assert_allclose(loss.gradient(p, y), twin.gradient(p, y), rtol=1e-15, atol=1e-15)
    assert (loss.kind, loss.name, loss.curvature, loss.width) == ("regression", "custom", 1.0, 0.0)
    # Its shape is unknown, so only the crude diameter is claimed.
    assert loss.gradient_diameter(2.0, 0.01, 0.0) == 4.0
    assert loss.gradient_bound(2.0, 0.01, 0.0) == 2.0
    assert loss.gradient_diameter(2.0, 0.01, 0.0, adjacency="zero_out") == 2.0


def test_the_guarantee_states_what_the_user_declared():
    text = make_custom(name="mine", lipschitz=1.5, smoothness=2.5).vouched
    assert all(word in text for word in ("'mine'", "convex", "1.5", "2.5"))
    assert "second derivative" not in make_custom(smoothness=math.inf).vouched


def test_custom_accepts_kinks_and_classification():
    hinge = Custom(
        value=lambda p, y: max(0.0, 1 - y * p),
        gradient=lambda p, y: -y if y * p < 1 else 0.0,
        lipschitz=1,
        smoothness=math.inf,
    )
    assert hinge.kind == "classification"
    assert math.isinf(hinge.curvature)
    logistic = Custom(
        value=lambda p, y: math.log1p(math.exp(-y * p)),
        gradient=lambda p, y: -y / (1 + math.exp(y * p)),
        lipschitz=1,
        smoothness=0.25,
    )
    assert logistic.curvature == 0.25


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lipschitz": 0.99}, r"lipschitz 0.99, but its gradient is -1 at prediction -32, y -1"),
        ({"lipschitz": 0.0}, "lipschitz must be"),
        ({"lipschitz": math.inf}, "lipschitz must be"),
        ({"smoothness": 0.98}, r"smoothness 0.98, but its gradient rises .* between the predictions"),
        ({"smoothness": -1.0}, "smoothness must be"),
        ({"gradient": lambda p, y: -huber_gradient(p, y)}, "not the derivative of its value"),
        ({"value": lambda p, y: math.sin(p), "gradient": lambda p, y: math.cos(p)}, "not convex: its gradient falls"),
        ({"gradient": lambda p, y: 0.95 * huber_gradient(p, y)}, "not the derivative of its value"),
        ({"gradient": lambda p, y: 1.05 * huber_gradient(p, y), "lipschitz": 2.0, "smoothness": 2.0}, "not the deriv"),
        ({"gradient": lambda p, y: huber_gradient(p + 0.1, y)}, "not the derivative of its value"),
        ({"value": lambda p, y: -huber_value(p, y)}, "not the derivative of its value"),
        ({"gradient": lambda p, y: math.nan if p == 16 else huber_gradient(p, y)}, "gradient nan at prediction 16"),
        ({"value": lambda p, y: math.inf if p > 30 else huber_value(p, y)}, "value inf at prediction 32"),
        (
            {"value": lambda p, y: 1 / (p - 3) if p == 3 else huber_value(p, y)},
            "raises ZeroDivisionError.* prediction 3,",
        ),
        ({"gradient": lambda p, y: "x"}, "raises ValueError"),
        ({"value": None}, "value must be a function"),
        ({"kind": "ranking"}, "kind must be one of"),
        ({"name": "hinge"}, "name must be"),
        ({"name": ""}, "name must be"),
    ],
)
def test_custom_losses_that_contradict_their_declaration_are_refused(changes, message):
    with pytest.raises(InvalidParameter, match=message):
        make_custom(**changes)
