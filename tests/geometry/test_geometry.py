"""Projections are nearest points at every scale; norm bounds and diameters are attained and never exceeded."""

from __future__ import annotations

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
import twins_geometry as twins
from hypothesis import given, settings
from hypothesis import strategies as st

from privol.errors import InvalidParameter
from privol.geometry import FEASIBLE_RTOL, Box, ConvexSet, L1Ball, L2Ball, Simplex

pytestmark = pytest.mark.slow

SETS = [
    L2Ball(),
    L2Ball(1e-150),
    L2Ball(1e150),
    L2Ball(3.7),
    L1Ball(),
    L1Ball(1e-150),
    L1Ball(1e150),
    L1Ball(0.3),
    Box(),
    Box(-1e150, 1e150),
    Box(0.25, 0.25),
    Box(-2.0, 1e-150),
    Simplex(),
    Simplex(1e-150),
    Simplex(1e150),
    Simplex(0.3),
]


def size_of(set_: ConvexSet) -> float:
    return set_.norm_bound(1)


def exact_excess(set_: ConvexSet, x: np.ndarray) -> float:
    """How far x is outside, relative to the set's size, in exact arithmetic (independent of ``contains``)."""
    values = [Fraction(v) for v in x.tolist()]
    if isinstance(set_, L2Ball):
        return max(0.0, float(sum(v * v for v in values) / Fraction(set_.radius) ** 2 - 1) / 2)
    if isinstance(set_, L1Ball):
        return max(0.0, float(sum(map(abs, values)) / Fraction(set_.radius) - 1))
    if isinstance(set_, Simplex):
        assert min(x) >= 0.0
        return abs(float(sum(values) / Fraction(set_.total) - 1))
    assert isinstance(set_, Box)
    low, high = set_.bounds(x.size)
    return 0.0 if np.all((low <= x) & (x <= high)) else math.inf


finite = st.one_of(
    st.floats(-2, 2, allow_subnormal=False),
    st.floats(-1e150, 1e150),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.3, 1e-150, -1e-150, 1e150, -1e150, 1.7e308, -1.7e308, 5e-324]),
)
vectors = st.lists(finite, min_size=1, max_size=8).map(lambda v: np.array(v, dtype=np.float64))
sets = st.sampled_from(SETS)


def ordinary(rng: np.random.Generator, set_: ConvexSet, dim: int) -> np.ndarray:
    """A random point of the set, built without the projection."""
    if isinstance(set_, Box):
        low, high = set_.bounds(dim)
        return low + (high - low) * rng.random(dim)
    direction = rng.normal(size=dim) * rng.choice([1e-3, 1.0], size=dim)
    if isinstance(set_, L2Ball):
        return direction / np.linalg.norm(direction) * set_.radius * rng.choice([rng.random(), 1.0])
    if isinstance(set_, L1Ball):
        return direction / np.abs(direction).sum() * set_.radius * rng.choice([rng.random(), 1.0])
    assert isinstance(set_, Simplex)
    return np.abs(direction) / np.abs(direction).sum() * set_.total


@settings(deadline=None, max_examples=150)
@given(sets, vectors)
def test_projection_is_feasible_at_every_scale(set_, x):
    before = x.copy()
    p = set_.project(x)
    assert p.dtype == np.float64
    assert p.shape == x.shape
    assert np.array_equal(x, before)
    assert not np.shares_memory(p, x)
    assert exact_excess(set_, p) <= FEASIBLE_RTOL
    assert set_.contains(p)


@settings(deadline=None, max_examples=150)
@given(sets, vectors)
def test_projection_is_idempotent(set_, x):
    p = set_.project(x)
    again = set_.project(p)
    assert np.max(np.abs(again - p)) <= 2 * FEASIBLE_RTOL * size_of(set_)


@settings(deadline=None, max_examples=150)
@given(sets, vectors, st.data())
def test_projection_does_not_expand(set_, x, data):
    y = np.array(data.draw(st.lists(finite, min_size=x.size, max_size=x.size)))
    moved = math.hypot(*(set_.project(x) - set_.project(y)))
    with np.errstate(over="ignore"):
        apart = math.hypot(*(x - y))
    assert moved <= apart * (1 + 1e-14) + 8 * FEASIBLE_RTOL * size_of(set_)


@settings(deadline=None, max_examples=150)
@given(sets, st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=8), st.integers(0, 2**32 - 1))
def test_projection_solves_its_variational_inequality(set_, x, seed):
    """<x - Px, z - Px> <= 0 for all z of the set characterises the nearest point."""
    scale = size_of(set_)
    x = np.array(x) * scale  # at the set's own scale, so that products can be compared
    p = set_.project(x)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        z = ordinary(rng, set_, x.size)
        product = float((x - p) / scale @ ((z - p) / scale))
        assert product <= 1e-12 * (1.0 + np.max(np.abs(x / scale)))


@settings(deadline=None, max_examples=150)
@given(st.sampled_from([s for s in SETS if isinstance(s, Simplex)]), vectors)
def test_simplex_is_the_exact_projection(set_, x):
    """The textbook formula loses all digits for large entries; this one must not."""
    error = np.abs(set_.project(x) - twins.exact_simplex(x.tolist(), set_.total))
    assert np.max(error) <= FEASIBLE_RTOL * set_.total


@settings(deadline=None, max_examples=150)
@given(st.sampled_from([s for s in SETS if isinstance(s, L1Ball)]), vectors)
def test_l1_is_the_exact_projection(set_, x):
    error = np.abs(set_.project(x) - twins.exact_l1(x.tolist(), set_.radius))
    assert np.max(error) <= FEASIBLE_RTOL * set_.radius


@pytest.mark.parametrize("dim", [1, 2, 7, 300, 5000])
@pytest.mark.parametrize("spread", [0.01, 1.0, 30.0])
def test_projections_equal_their_twins(dim, spread):
    rng = np.random.default_rng(dim)
    for _ in range(5):
        x = rng.normal(size=dim) * spread
        for ours, twin in (
            (L2Ball(1.3).project(x), twins.project_l2(x, 1.3)),
            (L1Ball(1.3).project(x), twins.project_l1(x, 1.3)),
            (Simplex(1.3).project(x), twins.project_simplex(x, 1.3)),
            (Box(-0.4, 0.7).project(x), twins.project_box(x, -0.4, 0.7)),
        ):
            np.testing.assert_allclose(ours, twin, rtol=0, atol=1e-12 * spread)


def test_many_coordinates_stay_feasible():
    """Near-ties maximise the support; equal entries far below the largest one all round in the same direction."""
    rng = np.random.default_rng(5)
    for x in (1e6 + rng.random(20_000) * 1e-4, np.append(np.full(20_000, 2.0 - 0.68), 2.0)):
        for set_ in (L2Ball(0.7), L1Ball(0.7), Simplex(0.7)):
            p = set_.project(x)
            assert exact_excess(set_, p) <= FEASIBLE_RTOL
            assert set_.contains(p)


def test_interior_points_are_returned_unchanged():
    x = np.array([0.1, -0.2, 0.3])
    for set_ in (L2Ball(1.0), L1Ball(0.7), Box(-1.0, 1.0)):
        assert np.array_equal(set_.project(x), x)
    simplex = np.array([0.25, 0.5, 0.25])
    assert np.array_equal(Simplex().project(simplex), simplex)


def test_ties_and_known_points():
    assert np.array_equal(Simplex().project([5.0, 5.0, 5.0, 5.0]), [0.25] * 4)
    assert np.array_equal(Simplex(2.0).project([1e150, 1e150, 0.0]), [1.0, 1.0, 0.0])
    assert np.array_equal(Simplex().project([1e150, 0.0]), [1.0, 0.0])
    assert np.array_equal(Simplex().project([-7.0]), [1.0])
    assert np.array_equal(L1Ball().project([3.0, -3.0]), [0.5, -0.5])
    assert np.array_equal(L1Ball().project([-1e150]), [-1.0])
    assert np.array_equal(L1Ball().project([2.0, 0.5, -0.5]), [1.0, 0.0, 0.0])
    np.testing.assert_allclose(L2Ball(5.0).project([30.0, -40.0]), [3.0, -4.0], rtol=1e-15)
    np.testing.assert_allclose(L2Ball().project([1.7e308, 1.7e308]), [math.sqrt(0.5)] * 2, rtol=1e-15)
    assert np.array_equal(L2Ball(1e-150).project([5e-324]), [5e-324])
    p = L1Ball().project([-5.0, -1.0])
    assert np.array_equal(p, [-1.0, 0.0])
    assert not np.signbit(p[1])


def test_box_with_vectors():
    box = Box([-1.0, 0.0], [1.0, 2.0])
    assert np.array_equal(box.project([-3.0, 5.0]), [-1.0, 2.0])
    assert np.array_equal(Box([0.5, -1.0], 1.0).start(2), [0.5, 0.0])
    low, high = Box(-1.0, 2.0).bounds(3)
    assert np.array_equal(low, [-1.0] * 3)
    assert np.array_equal(high, [2.0] * 3)
    with pytest.raises(InvalidParameter, match="2 coordinates"):
        box.check_dimension(3)
    with pytest.raises(InvalidParameter, match="2 coordinates"):
        box.project([1.0, 2.0, 3.0])
    with pytest.raises(InvalidParameter, match="2 coordinates"):
        box.start(1)
    source = np.array([1.0, 2.0])
    shielded = Box(-1.0, source)
    source[:] = -50.0
    assert np.array_equal(shielded.high, [1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        shielded.high[0] = 9.0


@pytest.mark.parametrize("set_", [*SETS, Box([-3.0, 0.0, 1.0], [0.5, 2.0, 4.0])], ids=repr)
def test_norm_bound_and_diameter_hold_and_are_attained(set_):
    dim = 3
    rng = np.random.default_rng(2)
    points = [set_.project(ordinary(rng, set_, dim)) for _ in range(50)]
    if isinstance(set_, Box):
        low, high = set_.bounds(dim)
        points += [np.where([(k >> i) & 1 for i in range(dim)], low, high) for k in range(2**dim)]
    else:
        points += [set_.project(s * v * 1e300) for s in (1.0, -1.0) for v in np.eye(dim)]
    norms = [math.hypot(*p) for p in points]
    assert set_.norm_bound(dim) * (1 - 1e-11) <= max(norms) <= set_.norm_bound(dim) * (1 + FEASIBLE_RTOL)
    apart = max(math.hypot(*(p - q)) for p in points for q in points)
    slack = FEASIBLE_RTOL * set_.norm_bound(dim)
    assert set_.diameter(dim) * (1 - 1e-11) <= apart + slack
    assert apart <= set_.diameter(dim) + slack


def test_bounds_in_one_dimension_and_round_up():
    assert L2Ball(2.0).diameter(1) == L1Ball(2.0).diameter(1) == 4.0
    assert Simplex(2.0).diameter(1) == 0.0
    assert Simplex(2.0).diameter(2) > 2 * math.sqrt(2.0)
    assert Box(0.5, 0.5).diameter(4) == 0.0
    assert Fraction(Box(-1.0, 1.0).norm_bound(3)) ** 2 > 3
    assert Fraction(Box(-1.0, 1.0).diameter(3)) ** 2 > 12
    assert Box(0.0, 5e-324).diameter(2) >= 1e-323


def test_start_is_the_nearest_point_to_zero():
    assert np.array_equal(L2Ball().start(3), np.zeros(3))
    assert np.array_equal(L1Ball().start(3), np.zeros(3))
    assert np.array_equal(Box(0.5, 2.0).start(2), [0.5, 0.5])
    assert np.array_equal(Simplex(3.0).start(4), [0.75] * 4)


def test_contains_rejects_what_is_outside():
    assert not L2Ball().contains([1.0, 1e-5])
    assert not L2Ball().contains([1.7e308, 1.7e308])
    assert not L1Ball().contains([0.6, -0.5])
    assert not Simplex().contains([0.5, 0.4])
    assert not Simplex().contains([1.1, -0.1])
    assert not Simplex().contains([1.7e308, 1.7e308])
    assert not Box().contains([0.0, 1.0 + 1e-12])
    assert Box().contains([0.0, 1.0 + 1e-12], rtol=1e-11)
    assert L1Ball().contains([0.5, -0.5])


def test_codes_equality_and_copies():
    assert [s().code for s in (L2Ball, L1Ball, Box, Simplex)] == [0, 1, 2, 3]
    for set_ in (L2Ball(2.0), L1Ball(2.0), Box([0.0, 1.0], 2.0), Simplex(2.0)):
        for twin in (copy.deepcopy(set_), pickle.loads(pickle.dumps(set_))):
            assert twin == set_
            assert hash(twin) == hash(set_)
        assert set_ != L2Ball(3.0)
    assert L2Ball(2.0) != L1Ball(2.0)
    assert Box([0.0, 1.0], 2.0) != Box([0.0, 1.5], 2.0)
    with pytest.raises(AttributeError):
        L2Ball().radius = 5.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: L2Ball(0.0), "radius must be"),
        (lambda: L2Ball(math.inf), "radius must be"),
        (lambda: L2Ball(math.nan), "radius must be"),
        (lambda: L1Ball(-1.0), "radius must be"),
        (lambda: L1Ball("1"), "radius must be"),
        (lambda: Simplex(1e200), "total must be"),
        (lambda: Box(1.0, 0.0), "low must be at most high"),
        (lambda: Box([0.0, 3.0], [1.0, 2.0]), "low must be at most high"),
        (lambda: Box(0.0, math.inf), "high must be"),
        (lambda: Box([0.0, math.nan], 1.0), "low must be"),
        (lambda: Box([0.0, 1.0], [1.0, 2.0, 3.0]), "one length"),
        (lambda: Box([[0.0]], 1.0), "low must be"),
        (lambda: Box(["a"], 1.0), "low must be"),
        (lambda: Box([], 1.0), "low must be"),
        (lambda: L2Ball().project([1.0, math.nan]), "x must be"),
        (lambda: L2Ball().project([math.inf]), "x must be"),
        (lambda: L2Ball().project([[1.0]]), "x must be"),
        (lambda: L2Ball().project([]), "dim must be"),
        (lambda: L2Ball().norm_bound(0), "dim must be"),
        (lambda: Simplex().start(0), "dim must be"),
        (lambda: L2Ball().contains([1.0], rtol=-1.0), "rtol must be"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(InvalidParameter, match=message):
        make()
