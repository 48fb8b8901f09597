"""Exactness of the samplers: every released coordinate is the correctly rounded ideal sum, on every code path."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
import threading
from functools import partial

import mpmath
import numpy as np
import pytest
from patience import WAIT
from twins_noise import (
    MP,
    TAILS,
    AtRow,
    Chosen,
    ideal,
    ideal_values,
    ideal_vector,
    nearest_all,
    to_boundary,
    words_of_vector,
)

from privol._core import _noise
from privol._core._noise import round_mixture_with_words, round_with_words, values_of_words
from privol.errors import InvalidParameter
from privol.noise import (
    STREAM_SAMPLES,
    Exponential,
    Gaussian,
    L2Laplace,
    Laplace,
    Sphere,
    _decide,
    _lattice,
    _vectors,
    decide_lattice_point,
    decide_mixture_point,
    granularity,
    make_source,
)
from privol.noise._decide import _Digits, _evaluate

pytestmark = pytest.mark.process

SCALARS = {"gaussian": Gaussian, "laplace": Laplace, "exponential": Exponential}
VECTORS = {"l2_laplace": L2Laplace, "sphere": Sphere}
LAWS, KINDS = sorted(SCALARS), sorted(VECTORS)
SIGN = 1 << 63


@pytest.fixture
def levels():
    """Set the instruction-set level; the original one is restored afterwards."""
    before = _noise.instruction_set()
    yield _noise.use_instruction_set
    _noise.use_instruction_set(before)


def decide_by(law):
    return lambda *args: decide_lattice_point(*args, law)


def first_guess(law):
    """The release of a sampler without a fallback: the nearest point to the sum in double precision."""
    return lambda word, extra, x, scale, step: float(
        np.round((x + scale * values_of_words(np.array([word], np.uint64), law)[0][0]) / step)
    )


# ---- whole samplers against the definition -------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [1.0, 1.9999e-3, 7e11])
def test_values_are_correctly_rounded_ideal_sums(law, scale):
    """Value number n uses the words of coordinate n % 4096 of row n // 4096, in whichever call."""
    noise = SCALARS[law](scale=scale, random_state=3)
    h = noise.granularity
    noise.sample(1)
    x = np.linspace(-20.0, 3e6, 4096 + 20) * scale
    calls = [noise.add(x), noise.sample(20)]
    parts = (0, 1, calls[0][:4095], x), (1, 0, calls[0][4095:], x[4095:]), (1, 21, calls[1], np.zeros(20))
    for row, first, values, inputs in parts:
        at = AtRow(noise.source, STREAM_SAMPLES, row)
        words, some = at.words(first + len(values))[first:], [*range(12), *range(len(values) - 8, len(values))]
        ideals = [ideal(words[j], partial(at, first + j), law) for j in some]
        np.testing.assert_array_equal(values[some], nearest_all(inputs[some], scale, ideals, h))


@pytest.mark.parametrize(("kind", "dim"), [("l2_laplace", 1), *itertools.product(KINDS, (2, 3, 4, 5, 66))])
def test_vectors_are_correctly_rounded_ideal_sums(kind, dim):
    scale = 0.37
    noise = VECTORS[kind](scale=scale, dim=dim, random_state=dim)
    x = np.random.default_rng(dim).normal(size=(2, dim)) * 50
    found = np.concatenate([noise.add(x), noise.sample(1)])
    for row, (values, inputs) in enumerate(zip(found, [*x, np.zeros(dim)], strict=True)):
        at = AtRow(noise.source, STREAM_SAMPLES, row)
        ideals = ideal_vector(kind, dim, at.words(words_of_vector(kind, dim)), at)
        np.testing.assert_array_equal(values, nearest_all(inputs, scale, ideals, noise.granularity))


# ---- coordinates that the fast paths cannot decide ------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS)
def test_values_near_a_boundary(law, monkeypatch):
    """Every x puts its sum as near to a boundary as doubles can: the kernel calls the fallback, which is right."""
    asked = []

    def counting(*args, **kwargs):
        asked.append(args)
        return decide_lattice_point(*args, **kwargs)

    monkeypatch.setattr(_lattice, "decide_lattice_point", counting)
    n, scale = 40, 1.3
    twin, noise = (SCALARS[law](scale=scale, random_state=8) for _ in range(2))
    at = AtRow(twin.source, STREAM_SAMPLES, 0)
    words, h = at.words(n), twin.granularity
    ideals = ideal_values(words, at, law)
    x = np.array([to_boundary(5.0 * scale, scale, z, h, j - n // 2) for j, z in enumerate(ideals)])
    expected = nearest_all(x, scale, ideals, h)
    np.testing.assert_array_equal(noise.add(x), expected)
    assert len(asked) == n
    # without the fallback some are wrong, so this test would detect it
    monkeypatch.setattr(_lattice, "decide_lattice_point", lambda *args, law: first_guess(law)(*args))
    again = SCALARS[law](scale=scale, random_state=8).add(x)
    assert np.mean(again != expected) > 0.1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [2, 3, 30])
def test_vectors_near_a_boundary(kind, dim, monkeypatch):
    """All coordinates at once: they share the digits of the factor."""
    asked = []

    def counting(*args):
        asked.append(args)
        return decide_mixture_point(*args)

    monkeypatch.setattr(_vectors, "decide_mixture_point", counting)
    scale, n = 1.3, 6 if dim < 30 else 1
    twin, noise = (VECTORS[kind](scale=scale, dim=dim, random_state=9) for _ in range(2))
    h, x, expected = twin.granularity, np.empty((n, dim)), np.empty((n, dim))
    for row in range(n):
        at = AtRow(twin.source, STREAM_SAMPLES, row)
        ideals = ideal_vector(kind, dim, at.words(words_of_vector(kind, dim)), at)
        x[row] = [to_boundary(5.0 * scale, scale, z, h, j - dim // 2) for j, z in enumerate(ideals)]
        expected[row] = nearest_all(x[row], scale, ideals, h)
    np.testing.assert_array_equal(noise.add(x), expected)
    assert len(asked) == n * dim

    def guess(kind, words, extra, coordinate, x, scale, step, factor, enclosures):
        return first_guess("gaussian")(words[coordinate], None, x, scale * factor[0], step)

    monkeypatch.setattr(_vectors, "decide_mixture_point", guess)
    again = VECTORS[kind](scale=scale, dim=dim, random_state=9).add(x)
    assert np.mean(again != expected) > 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_the_factor_of_a_vector_is_enclosed_once(kind, monkeypatch):
    """For all its coordinates together; the results are those of each coordinate alone."""
    scale, dim, h, found = 1.3, 12, 2.0**-10, []
    whole, levels = _decide._factor, []

    def counting(*args):
        levels.append(args[2][0].bits)
        return whole(*args)

    monkeypatch.setattr(_decide, "_factor", counting)
    for decide in (decide_mixture_point, lambda *args: decide_mixture_point(*args[:8])):
        rng, extra = np.random.default_rng(2), Chosen(3)
        words = rng.integers(0, 1 << 64, words_of_vector(kind, dim), dtype=np.uint64).tolist()
        ideals = ideal_vector(kind, dim, words, extra)
        x = np.array([to_boundary(5.0 * scale, scale, z, h, j) for j, z in enumerate(ideals)])
        levels.clear()
        values, undecided, _ = round_mixture_with_words(
            x, scale, h, np.array(words, np.uint64), decide, extra, kind=kind
        )
        assert undecided == dim
        found.append((values, list(levels)))
    (values, once), (each, again) = found
    np.testing.assert_array_equal(values, each)
    np.testing.assert_array_equal(values, nearest_all(x, scale, ideals, h))
    assert len(once) == len(set(once)) < len(again)
    assert again.count(63) == dim


def test_gaussian_sums_on_a_finer_grid():
    """The linear term of an objective is drawn like this; the last resort has that grid too."""
    scale, row, n = 3.7, 5, 400
    h, asked = granularity(scale) * 2.0**-20, []

    def counting(*args):
        asked.append(args)
        return decide_lattice_point(*args)

    source = make_source(4)
    at = AtRow(source, STREAM_SAMPLES, row)
    ideals = ideal_values(at.words(n), at, "gaussian")
    near = np.array([to_boundary(scale, scale, z, h, j) if j % 4 == 0 else 0.0 for j, z in enumerate(ideals)])
    for x in (np.zeros(n), near):
        asked.clear()
        found = source.add(x, scale, stream=STREAM_SAMPLES, row=row, decide=counting, step=h)
        np.testing.assert_array_equal(found, nearest_all(x, scale, ideals, h))
        assert np.any(np.mod(found, granularity(scale)))
    assert len(asked) >= n // 4
    assert {args[4] for args in asked} == {h}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("levels_needed", [1, 2, 3])
def test_rounding_reads_as_many_digits_as_needed(law, levels_needed):
    """The digits are those of a sum exactly between two lattice points, except the last: only that one decides."""
    rng, extra, n, scale = np.random.default_rng(1), Chosen(2), 12, 1.7
    h, words, x = granularity(scale), [], np.empty(n)
    for j in range(n):
        x[j] = rng.normal() * 3
        sign = 1 if j % 2 or law == "exponential" else -1
        boundary = (math.floor(x[j] / h) + sign * int(rng.integers(200, 4000)) + 0.5) * h  # exact
        size = sign * (MP.mpf(boundary) - MP.mpf(x[j])) / MP.mpf(scale)
        words.append(extra.set(j, TAILS[law](size), levels_needed - 1) | (SIGN if sign < 0 else 0))
        # p slightly smaller or larger than at the boundary
        a, b = ((1 << 64) - 1, (1 << 64) - 1) if j % 3 else (0, 0)
        extra.known[j, levels_needed] = (a, b)
    found, undecided = round_with_words(x, scale, np.array(words, np.uint64), decide_by(law), extra, law)
    assert undecided == n
    assert {level for _, level in extra.asked} == set(range(1, levels_needed + 1))
    ideals = ideal_values(words, extra, law)
    np.testing.assert_array_equal(found, nearest_all(x, scale, ideals, h))


@pytest.mark.parametrize("kind", KINDS)
def test_rounding_of_vectors_reads_as_many_digits_as_needed(kind):
    """A coordinate's own digits put its sum so near to a boundary that all others' digits count, two levels deep."""
    scale, dim, h = 1.7, 3, 2.0**-10
    for seed in range(4):
        rng, extra = np.random.default_rng(seed), Chosen(seed)
        words = rng.integers(0, 1 << 64, words_of_vector(kind, dim), dtype=np.uint64).tolist()
        z = ideal_vector(kind, dim, words, extra)
        x = rng.normal(size=dim) * 3
        j = int(np.argmax(np.abs([float(v) for v in z])))
        boundary = (MP.nint((MP.mpf(x[j]) + scale * z[j]) / h) + MP.mpf("0.5")) * h
        wanted = (boundary - MP.mpf(x[j])) / scale
        if kind == "sphere":
            others = [v for i, v in enumerate(ideal_values(words, extra, "gaussian")) if i != j]
            size = abs(wanted) * MP.sqrt(sum(v * v for v in others) / (1 - wanted**2))
        else:
            own = ideal(words[j], partial(extra, j), "gaussian")
            size = abs(wanted / (z[j] / own))
        words[j] = extra.set(j, TAILS["gaussian"](size), 2) | (words[j] & SIGN)
        extra.asked.clear()
        found, undecided, _ = round_mixture_with_words(
            x, scale, h, np.array(words, np.uint64), decide_mixture_point, extra, kind=kind
        )
        assert undecided >= 1
        assert {level for _, level in extra.asked} == {1, 2, 3}
        np.testing.assert_array_equal(found, nearest_all(x, scale, ideal_vector(kind, dim, words, extra), h))


TAIL_WORDS = [1, 2, 3, 100, 2047, 2048, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 33, 1 << 50]


@pytest.mark.parametrize("law", LAWS)
def test_words_deep_in_the_tail(law):
    words = np.array(TAIL_WORDS + [word | SIGN for word in TAIL_WORDS], dtype=np.uint64)
    x = np.linspace(-5, 5, len(words))
    for seed in range(2):
        extra = Chosen(seed)
        found, undecided = round_with_words(x, 1.0, words, decide_by(law), extra, law)
        assert undecided >= 16
        ideals = ideal_values(words.tolist(), extra, law)
        np.testing.assert_array_equal(found, nearest_all(x, 1.0, ideals, 2.0**-10))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_words_of_zeros(law, zeros):
    extra = Chosen(4, zeros=zeros)
    words = np.array([0, SIGN], dtype=np.uint64)
    found, undecided = round_with_words(np.zeros(2), 1.0, words, decide_by(law), extra, law)
    assert undecided == 2
    assert (0, zeros + 1) in extra.asked
    ideals = ideal_values(words.tolist(), extra, law)
    np.testing.assert_array_equal(found, nearest_all(np.zeros(2), 1.0, ideals, 2.0**-10))


def test_words_of_ones():
    """P just below 1: noise close to zero, of either sign; 0 is released as +0."""
    words = np.array([SIGN - 1, 2 * SIGN - 1], dtype=np.uint64)
    for law in LAWS:
        for x in (0.0, 3.0 + 2.0**-11):  # in the second, the sum is very close to a boundary and the sign decides
            extra = Chosen(7)
            found, _ = round_with_words(np.full(2, x), 1.0, words, decide_by(law), extra, law)
            ideals = ideal_values(words.tolist(), extra, law)
            np.testing.assert_array_equal(found, nearest_all(np.full(2, x), 1.0, ideals, 2.0**-10))
            assert not np.signbit(found[found == 0]).any()


@pytest.mark.parametrize(("kind", "dim"), [("l2_laplace", 1), *itertools.product(KINDS, (2, 3, 4))])
def test_special_words_in_every_place_of_a_vector(kind, dim):
    """Zeros, tails and ones among the words of the coordinates and of the factor."""
    n, rng = words_of_vector(kind, dim), np.random.default_rng(dim)
    x, h = rng.normal(size=dim), 2.0**-10
    for place in range(n):
        for word in (0, SIGN | 5, (1 << 31) + 9, SIGN - 1, 2 * SIGN - 1):
            extra = Chosen(place, zeros=1 if word == 0 else 0)
            words = rng.integers(0, 1 << 64, n, dtype=np.uint64).tolist()
            words[place] = word
            found, _, _ = round_mixture_with_words(
                x, 1.1, h, np.array(words, np.uint64), decide_mixture_point, extra, kind=kind
            )
            np.testing.assert_array_equal(found, nearest_all(x, 1.1, ideal_vector(kind, dim, words, extra), h))
    for word in (0, SIGN - 1):  # all of them
        extra, words = Chosen(5), [word] * n
        found, undecided, factor = round_mixture_with_words(
            x, 1.1, h, np.array(words, np.uint64), decide_mixture_point, extra, kind=kind
        )
        assert undecided == dim
        assert factor[1] == math.inf
        np.testing.assert_array_equal(found, nearest_all(x, 1.1, ideal_vector(kind, dim, words, extra), h))


# ---- the same bits at every level of instructions ---------------------------------------------------------------

DIGEST = """
import hashlib
import numpy as np
from privol.noise import Exponential, Gaussian, L2Laplace, Laplace, Sphere
total = hashlib.sha256()
for cls in (Gaussian, Laplace, Exponential):
    noise = cls(scale=0.7, random_state=4)
    total.update(noise.sample(100_001).tobytes())
    total.update(noise.add(np.linspace(-1e6, 1e6, 20_001)).tobytes())
for cls, dim in ((L2Laplace, 1), (L2Laplace, 2), (L2Laplace, 67), (Sphere, 2), (Sphere, 67)):
    noise = cls(scale=0.7, dim=dim, random_state=4)
    total.update(noise.sample(20_000 // dim).tobytes())
    total.update(noise.add(np.linspace(-1e6, 1e6, 67 * 100 * dim).reshape(-1, dim)).tobytes())
print(total.hexdigest())
"""


def digest_here():
    printed = []
    exec(DIGEST, {"print": printed.append})
    return printed[0]


@pytest.mark.parametrize("law", ["gaussian", "laplace", "exponential"])
def test_magnitudes_are_enclosed_for_all_digits_that_may_follow(law):
    """Against several hundred digits more: what is computed at the working precision may be beyond either end."""
    rng = np.random.default_rng(2)
    for word in rng.integers(1, 1 << 63, 40, dtype=np.uint64).tolist():
        digits = _Digits(word)
        near, far = _evaluate(digits.bits, lambda digits=digits: digits.magnitude(law))
        with mpmath.workprec(900):
            ends = (mpmath.ldexp(mpmath.mpf(word + k), -64) for k in (1, 0))
            if law == "gaussian":
                beyond = (mpmath.erfc(z / mpmath.sqrt(2)) / 2 for z in (mpmath.mpf(near), mpmath.mpf(far)))
                (high, low), (at_near, at_far) = ends, beyond
                assert at_near >= high
                assert low >= at_far
            else:
                least, most = (-mpmath.log(2 * end) for end in ends)
                assert near <= least < most <= far
                assert far - most <= mpmath.ldexp(1, -160)


def run_python(code, level):
    environment = {**os.environ, "PRIVOL_INSTRUCTION_SET": level}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=WAIT)


def test_the_same_bits_at_every_level(levels):
    found = {}
    for name in _noise.instruction_sets():
        levels(name)
        assert _noise.instruction_set() == name
        found[name] = digest_here()
    assert len(set(found.values())) == 1


def test_the_environment_sets_the_level():
    """A process that was started with the slowest level has the same bits."""
    slowest = _noise.instruction_sets()[0]
    code = "from privol._core._noise import instruction_set\nprint(instruction_set())\n" + DIGEST
    result = run_python(code, slowest)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [slowest, digest_here()]
    default = run_python("from privol._core._noise import instruction_set\nprint(instruction_set())", "")
    assert default.stdout.split() == [_noise.instruction_sets()[-1]]


def test_unknown_levels_are_refused(levels):
    allowed = ", ".join(_noise.instruction_sets())
    with pytest.raises(InvalidParameter, match=f"instruction set must be one of {allowed}, found 'sse9'"):
        levels("sse9")
    result = run_python("import privol.noise", "sse9")
    assert result.returncode != 0
    assert f"PRIVOL_INSTRUCTION_SET: instruction set must be one of {allowed}, found 'sse9'" in result.stderr


@pytest.mark.parametrize("law", LAWS)
def test_forced_words_at_every_level(law, levels):
    """Sums near boundaries, where one level might decide and another call the fallback: equal values from both."""
    rng, n = np.random.default_rng(6), 2000
    words = rng.integers(0, 1 << 64, n, dtype=np.uint64)
    z, _ = values_of_words(words, law)
    distance = 2.0 ** -rng.integers(8, 43, n) * rng.choice([-1, 1], n)
    near = np.flatnonzero(np.isfinite(z))
    h = granularity(1.0)
    x = (np.round(rng.normal(size=n) * 3000) + 0.5 + distance) * h - np.where(np.isfinite(z), z, 0.0)
    found = {}
    for name in _noise.instruction_sets():
        levels(name)
        found[name], undecided = round_with_words(x[near], 1.0, words[near], decide_by(law), Chosen(1), law)
        assert undecided > 0
    first = found[_noise.instruction_sets()[0]]
    assert all(np.array_equal(first, other) for other in found.values())
    np.testing.assert_array_equal(np.abs(first - (x + z)[near]) <= 0.5 * h + 1e-9, True)


# ---- lattice, parameters, threads -------------------------------------------------------------------------------


def make(name, scale=1.0, dim=3, **kwargs):
    return SCALARS[name](scale=scale, **kwargs) if name in SCALARS else VECTORS[name](scale=scale, dim=dim, **kwargs)


@pytest.mark.parametrize("name", LAWS + KINDS)
@pytest.mark.parametrize("scale", [1e-280, 1e-5, 0.7, 1.0, 3.0, 1e10, 1e280])
def test_values_lie_on_the_lattice(name, scale):
    noise = make(name, scale, random_state=5)
    h = noise.granularity
    deviation = scale * {"l2_laplace": 2.0, "sphere": 3**-0.5}.get(name, 1.0)
    assert math.frexp(h)[0] == 0.5
    assert 2.0**10 * h <= deviation < 2.0**11 * h
    values = noise.add(np.linspace(-100, 100, 999).reshape(333, 3) * scale) / h
    np.testing.assert_array_equal(values, np.round(values))
    assert np.std(values) > 0
    assert not np.signbit(values[values == 0]).any()


def test_granularity_is_public():
    """It depends on scale and dimension alone, so the grid of a release reveals nothing."""
    for name in LAWS + KINDS:
        grids = {make(name, 1.5, random_state=seed).granularity for seed in (1, 2, None)}
        assert len(grids) == 1
    assert L2Laplace(scale=1.0, dim=3).granularity == 2.0**-9
    assert L2Laplace(scale=1.0, dim=2).granularity == 2.0**-10
    assert Sphere(scale=1.0, dim=4).granularity == 2.0**-11


@pytest.mark.parametrize("name", LAWS + KINDS)
def test_shapes_and_refusals(name):
    noise = make(name, 3.0, random_state=1)
    shape = (3,) if name in KINDS else ()
    assert noise.sample((2, 5)).shape == (2, 5, *shape)
    assert noise.sample(4).shape == (4, *shape)
    assert noise.sample(0).shape == (0, *shape)
    assert noise.sample((2, 0)).shape == (2, 0, *shape)
    assert noise.sample(()).shape == shape
    assert noise.add(np.zeros((2, 4, 3))).shape == (2, 4, 3)
    assert noise.add(np.zeros((0, 3))).shape == (0, 3)
    assert noise.add([1, 2, 3]).dtype == np.float64
    strided = np.arange(18.0).reshape(3, 6)[:, ::2]
    assert noise.add(strided).shape == (3, 3)
    for bad in (math.nan, math.inf, -math.inf, 2.0**50 * noise.granularity):
        with pytest.raises(InvalidParameter, match="x must be finite and of magnitude below"):
            noise.add([0.0, bad, 0.0])
    for size in (-1, 1.5, (2, -1), "3"):
        with pytest.raises(InvalidParameter, match="size"):
            noise.sample(size)
    for scale in (0.0, -1.0, math.inf, math.nan, 1e-290, 1e290, "1"):
        with pytest.raises(InvalidParameter, match="scale"):
            make(name, scale)
    for state in (-1, 1.5, "seed", True, [1]):
        with pytest.raises(InvalidParameter, match="random_state"):
            make(name, random_state=state)


@pytest.mark.parametrize("name", LAWS + KINDS)
def test_inputs_of_add_are_checked(name):
    """Real numbers that are doubles, or convert to the same number, and nothing that is silently changed."""
    x = np.array([1.0, 0.0, 1.0])
    expected = make(name, random_state=1).add(x)
    same = ([1, 0, True], x.astype(bool), x.astype(np.uint8), x.astype(">f4"), x.astype(np.float16), np.ma.array(x))
    for values in (*same, np.repeat(x, 2)[::2], x.view(np.recarray)):
        found = make(name, random_state=1).add(values)
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, expected)
    noise = make(name, random_state=1)
    others = {
        "complex128": x + 0j, "<U3": ["1.5"] * 3, "datetime64": x.astype("M8[s]"), "timedelta64": x.astype("m8[s]"),
        "object": [1.0, None, 2.0], "longdouble|float128": x.astype(np.longdouble), "f1": np.zeros(3, "i8,f8"),
    }  # fmt: skip
    if np.dtype(np.longdouble) == np.float64:
        del others["longdouble|float128"]
    for found, values in others.items():
        with pytest.raises(InvalidParameter, match=f"x must be of real numbers that doubles can hold, found .*{found}"):
            noise.add(values)
    with pytest.raises(InvalidParameter, match="x must have no masked values, found 2"):
        noise.add(np.ma.array(x, mask=[True, False, True]))
    np.testing.assert_array_equal(noise.add(x), expected)  # nothing was drawn


@pytest.mark.parametrize("kind", KINDS)
def test_dimensions(kind):
    for dim in (0, -1, 1.5, True, (1 << 31) + 1, *([1] if kind == "sphere" else [])):
        with pytest.raises(InvalidParameter, match="dim"):
            VECTORS[kind](scale=1.0, dim=dim)
    noise = VECTORS[kind](scale=1.0, dim=3, random_state=1)
    for x in (1.0, np.zeros(4), np.zeros((3, 2))):
        with pytest.raises(InvalidParameter, match=r"x must have shape \(\.\.\., 3\)"):
            noise.add(x)


@pytest.mark.parametrize("name", LAWS + KINDS)
def test_refused_calls_use_no_words(name):
    """A failing call has released nothing, and the next one gets the noise that it would have had."""
    one, two = (make(name, random_state=2) for _ in range(2))
    with pytest.raises(InvalidParameter):
        one.add([0.0, math.nan, 0.0])
    with pytest.raises(InvalidParameter):
        one.sample(-1)
    np.testing.assert_array_equal(one.sample(5), two.sample(5))


@pytest.mark.parametrize("name", LAWS + KINDS)
def test_threads_on_one_sampler(name):
    """In whatever order, every call has its own words, and together they are those of one thread's calls."""
    calls, size, found, errors = 60, 300, [], []
    noise = make(name, random_state=6)

    def work():
        try:
            found.extend(noise.sample(size) for _ in range(calls))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive(), "deadlock"
    assert not errors
    alone = make(name, random_state=6)
    expected = {alone.sample(size).tobytes() for _ in range(4 * calls)}
    assert len(expected) == 4 * calls
    assert {values.tobytes() for values in found} == expected  # the vectors of a call have consecutive rows, too
