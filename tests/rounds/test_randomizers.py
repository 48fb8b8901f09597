"""Local randomizers: the distribution of reports, exactly and in samples, which depends on nothing else of a vector."""

from __future__ import annotations

import copy
import itertools
import math
import os
import pickle
from fractions import Fraction

import numpy as np
import pytest
from alpha import rate
from battery import within
from scipy import integrate, stats
from twins_noise import MP, Chosen
from twins_reports import clip, density, grid_of, ideal_direction, ideal_side, noise_of, report

from privol._core._noise import (
    Source,
    instruction_sets,
    round_mixture_with_words,
    round_with_words,
    use_instruction_set,
    values_of_words,
)
from privol._core._report import Report, ReportSampler, clipped, report_with_words
from privol.calibration._caps import cap_of
from privol.calibration._reports import RANDOMIZERS, calibrate_report, clip_excess
from privol.errors import InvalidParameter, SourceFailure, StateError
from privol.guarantees import gdp_mu, gdp_mu_of_pure
from privol.noise import STREAM_REPORTS, decide_lattice_point, decide_mixture_point, make_source
from privol.randomizers import (
    DuchiL2,
    Gaussian,
    L2Laplace,
    Laplace,
    PrivUnit,
    TwoPoint,
    compiled,
    randomizer_of,
)

pytestmark = [pytest.mark.process, pytest.mark.statistical]

PURE = {"privunit": PrivUnit, "duchi": DuchiL2, "l2laplace": L2Laplace, "laplace": Laplace}


def vector(dim, norm, seed=0):
    v = np.random.default_rng(seed).normal(size=dim)
    return v * (norm / np.linalg.norm(v))


# ---- privacy, exactly ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("name", ["privunit", "duchi"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_density_ratio_of_caps(name, dim, epsilon):
    """Integrated over the circle or the sphere: the same total for every norm, ratios within e^epsilon.

    The cap's own mass and the mean are as calibrated; another threshold would exceed epsilon.
    """
    cap = cap_of(epsilon, dim, half=name == "duchi")
    edge = math.asin(cap.gamma)
    weight = {2: lambda angle: 1 / np.pi, 3: lambda angle: np.cos(angle) / 2}[dim]
    pieces = [-math.pi / 2, -edge, edge, math.pi / 2]

    def total(r, moment):
        return sum(
            integrate.quad(lambda t: float(density(cap, r, np.sin(t)) * weight(t) * moment(t)), low, high)[0]
            for low, high in itertools.pairwise(pieces)
            if high > low
        )

    expected = 1.0 - cap.threshold / 2.0**64 * (1.0 - cap.mass)
    for r in (0.0, 0.3, 1.0):
        assert total(r, lambda t: 1.0) == pytest.approx(expected, rel=1e-12)
        assert total(r, np.sin) / expected == pytest.approx(r / cap.length, abs=1e-12)
    inside = integrate.quad(lambda t: float(density(cap, 1.0, np.sin(t)) * weight(t)), edge, math.pi / 2)[0]
    assert inside / expected == pytest.approx(cap.probability, rel=1e-12)
    # rational arithmetic: the ratio of the largest to the smallest acceptance, for any vectors
    ratio = Fraction(2**64, 2**64 - cap.threshold)
    assert MP.log(MP.mpf(ratio.numerator) / ratio.denominator) <= epsilon
    assert MP.log(MP.mpf(ratio.numerator) / ratio.denominator) > epsilon * (1 - 1e-10)
    sides = np.linspace(-1, 1, 2001)
    for r in (0.0, 0.5, 1.0):
        ratios = density(cap, 1.0, sides)[:, None] / density(cap, r, sides)[None, :]
        assert 1 / math.exp(epsilon) * (1 - 1e-12) <= ratios.min()
        assert ratios.max() <= math.exp(epsilon) * (1 + 1e-12)


def test_ratio_of_two_points():
    for epsilon in (1e-6, 0.1, 1.0, 20.0):
        cap = cap_of(epsilon, 1, half=True)
        ratio = MP.log(MP.mpf(2**63 + cap.threshold) / (2**63 - cap.threshold))
        assert epsilon * (1 - 1e-5) < ratio <= epsilon


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_density_ratio_of_additive_noise(dim, adjacency):
    """Over a grid of reports, for the vectors that are farthest apart: epsilon is attained and not exceeded."""
    ones = np.ones(dim) / math.sqrt(dim)
    first = np.eye(1, dim)[0]
    points = np.stack(np.meshgrid(*[np.linspace(-4, 4, 41)] * dim), axis=-1).reshape(-1, dim)
    for name in ("l2laplace", "laplace"):
        noise = calibrate_report(name, dim=dim, epsilon=0.7, adjacency=adjacency)
        order, worst = (2, first) if name == "l2laplace" else (1, ones)
        other = -worst if adjacency == "replace" else 0 * worst
        farther = np.concatenate([points, [2 * worst, -2 * worst]])
        logs = [-np.linalg.norm(farther - v, ord=order, axis=1) / noise.scale for v in (worst, other)]
        assert 0.7 * (1 - 1e-9) < np.max(np.abs(logs[0] - logs[1])) <= 0.7
    gauss = calibrate_report("gaussian", dim=dim, epsilon=0.7, delta=1e-5, adjacency=adjacency)
    factor = 2.0 if adjacency == "replace" else 1.0
    assert gauss.mu == gdp_mu(0.7, 1e-5)
    assert factor < gauss.mu * gauss.scale < factor * (1 + 1e-12)


@pytest.mark.parametrize(("dim", "epsilon"), [(2, 1.0), (3, 0.5), (10, 2.0), (30, 4.0)])
def test_empirical_epsilon(dim, epsilon):
    """The side of the cap for reports of u and of -u: as often as calibrated. Other thresholds are detected."""
    alpha, n = rate("reports.epsilon", 8), 30_000
    noise = noise_of("privunit", dim, epsilon)
    u = vector(dim, 1.0)

    def accepted(threshold, gamma):
        plan = {**noise.numbers, "threshold": threshold, "gamma": gamma}
        report_plan = Report(decide=None, decide_side=None, **plan)
        device = ReportSampler(make_source(7), report=report_plan, stream=STREAM_REPORTS)
        verdicts = []
        for sign in (1.0, -1.0):
            sides = device.privatize(np.tile(sign * u, (n, 1))) @ u / noise.scale
            share = (
                noise.cap.probability
                if sign > 0
                else (1 - noise.cap.probability) * noise.cap.mass / (1 - noise.cap.mass)
            )
            count = int(np.sum(sides >= noise.cap.gamma))
            verdicts.append(within((count - n * share) / math.sqrt(n * share * (1 - share)), alpha))
        return all(verdicts)

    assert accepted(noise.cap.threshold, noise.cap.gamma)
    for factor in (2 / 3, 1.2):
        assert not accepted(int(-math.expm1(-factor * epsilon) * 2**64), noise.cap.gamma)
    assert not accepted(noise.cap.threshold, noise.cap.gamma + 0.3)


# ---- the distribution of reports ----------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("dim", [1, 2, 10])
@pytest.mark.parametrize("name", RANDOMIZERS)
def test_unbiased_and_of_the_variance(name, dim, norm):
    uses = 3 * 3 * len(RANDOMIZERS)
    n, noise = 40_000, noise_of(name, dim, 2.0)
    v = vector(dim, norm)
    reports = randomizer_of(noise, random_state=11).privatize(np.tile(v, (n, 1)))
    direction = v / norm if norm else np.eye(1, dim)[0]

    def right_mean(reports):
        along = (reports - v) @ direction
        return within(along.mean() / (along.std() / math.sqrt(n)), rate("reports.mean", uses))

    def right_variance(reports):
        squares = np.sum((reports - v) ** 2, axis=1)
        spread = max(float(squares.std()), 0.05 * noise.variance(norm)) / math.sqrt(n)
        return within((squares.mean() - noise.variance(norm)) / spread, rate("reports.variance", uses))

    assert right_mean(reports)
    assert right_variance(reports)
    assert not right_variance(v + (reports - v) * 2 / 3)
    assert not right_variance(v + (reports - v) * 1.5)
    if norm:
        assert not right_mean(reports - v / 3)


def test_reports_of_caps_are_uniform_on_both_sides():
    """d = 3, where <x, u> has a constant density on each side; also in every direction around u."""
    n, noise = 100_000, noise_of("privunit", 3, 1.5)
    cap, u = noise.cap, np.array([0.0, 0.6, -0.8])
    x = randomizer_of(noise, random_state=5).privatize(np.tile(u, (n, 1))) / noise.scale
    inside = 1.0 / (1.0 - cap.threshold / 2.0**64 * (1.0 - cap.mass)) / 2.0
    outside = inside * (1.0 - cap.threshold / 2.0**64)

    def law(side):
        return outside * (np.minimum(side, cap.gamma) + 1.0) + inside * np.maximum(side - cap.gamma, 0.0)

    alpha = rate("reports.law", 3)
    assert stats.kstest(x @ u, law).pvalue > alpha
    assert stats.kstest(0.98 * (x @ u), law).pvalue < alpha
    around = np.arctan2(x[:, 0], x @ np.array([0.0, 0.8, 0.6]))
    assert stats.kstest(around, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > alpha


def test_number_of_trials_is_that_of_any_vector():
    """Geometric with the calibrated mean, for the zero vector, a short and a long one."""
    noise, n = noise_of("privunit", 2, 3.0), 3000
    plan, source = compiled(noise), make_source(1)
    for norm in (0.0, 0.5, 1.0):
        words = np.random.default_rng(int(10 * norm)).integers(0, 1 << 64, (n, 150, 3), dtype=np.uint64)
        used = [report_with_words(plan, vector(2, norm), each, source)[1] for each in words]
        mean = noise.cap.expected_trials
        deviation = math.sqrt(mean * (mean - 1.0) / n)
        assert within((np.mean(used) - mean) / deviation, rate("reports.trials", 3))
        assert not within((np.mean(used) * 1.2 - mean) / deviation, rate("reports.trials", 3))


# ---- against the twin ---------------------------------------------------------------------------------------------

VECTORS = {"zero": 0.0, "short": 0.3, "long": 1.0, "beyond": 5.0}


@pytest.mark.parametrize("dim", [1, 2, 3, 10, 54])
@pytest.mark.parametrize("name", RANDOMIZERS)
def test_twin(name, dim):
    noise = noise_of(name, dim, 3.0, bound=1.3)
    X = np.array([vector(dim, norm, seed) for seed, norm in enumerate(VECTORS.values())] * 3)
    X[5, 0] = np.nan
    device, source = randomizer_of(noise, random_state=3), make_source(3)
    found = device.privatize(X)
    expected = [report(noise, v, source, STREAM_REPORTS, row) for row, v in enumerate(X, 1)]
    np.testing.assert_array_equal(found, expected)
    assert device.n_reports == len(X)
    again = randomizer_of(noise, random_state=3)
    np.testing.assert_array_equal([again.privatize(v) for v in X], found)
    assert not np.any(np.signbit(found[found == 0.0]))


def test_trials_that_the_buffer_does_not_hold():
    """Words of 5000 coordinates: a row has more trials than are drawn ahead, and later rows wait for it."""
    noise = noise_of("privunit", 5000, 3.0)
    X = np.array([vector(5000, 1.0, seed) for seed in range(4)])
    found, source = randomizer_of(noise, random_state=8).privatize(X), make_source(8)
    np.testing.assert_array_equal(found, [report(noise, v, source, STREAM_REPORTS, r) for r, v in enumerate(X, 1)])


@pytest.mark.parametrize("name", RANDOMIZERS)
def test_calls_do_not_matter(name):
    noise = noise_of(name, 7, 6.0)
    X = np.random.default_rng(0).normal(size=(3000, 7)) * 0.4
    whole = randomizer_of(noise, random_state=1).privatize(X)
    parts = randomizer_of(noise, random_state=1)
    cuts = np.split(X, [1, 2, 5, 40, 41, 1000, 2999])
    np.testing.assert_array_equal(np.concatenate([parts.privatize(part) for part in cuts]), whole)
    single = X.astype(np.float32)
    here = randomizer_of(noise, random_state=1).privatize(single)
    np.testing.assert_array_equal(here, randomizer_of(noise, random_state=1).privatize(single.astype(np.float64)))
    strided = randomizer_of(noise, random_state=1).privatize(np.asfortranarray(X)[::1])
    np.testing.assert_array_equal(strided, whole)
    digests = set()
    for level in instruction_sets():
        use_instruction_set(level)
        digests.add(randomizer_of(noise, random_state=1).privatize(X).tobytes())
    use_instruction_set(None)
    assert digests == {whole.tobytes()}


# ---- cases that double precision leaves undecided -----------------------------------------------------------------


class Told(Source):
    """A source with chosen extra words."""

    def __init__(self, extra):
        super().__init__(bytes(32), private=False, description="chosen")
        self.extra = extra

    def words(self, *, stream, level, block, row):
        return self.extra(block, level)


@pytest.mark.parametrize("name", ["privunit", "duchi"])
@pytest.mark.parametrize("reverse", [False, True])
def test_undecided_sides_are_resolved(name, reverse):
    """A vector is at the border's distance from the trial, up to the precision of doubles: the ideal side decides."""
    dim, verdicts = 4, set()
    noise = noise_of(name, dim, 2.0)
    plan, gamma = compiled(noise), noise.cap.gamma
    for seed in range(12):
        rng = np.random.default_rng(seed)
        words = rng.integers(0, 1 << 64, dim + 1, dtype=np.uint64)
        z, _ = values_of_words(words[:dim])
        x = z / np.linalg.norm(z)
        second = rng.integers(0, 1 << 64, dim + 1, dtype=np.uint64)
        second[dim] = (1 << 64) - 1  # accepted on either side
        left_open = 0
        for w in rng.normal(size=(100, dim)):  # how close to the border it gets depends on the rounding of this machine
            extra = Chosen(seed)
            w -= (w @ x) * x
            v = (gamma * x + math.sqrt(1 - gamma**2) * w / np.linalg.norm(w)) * 0.7
            v = -v if reverse else v
            near = int((1 - np.linalg.norm(v)) / 2 * noise.cap.threshold)
            words[dim] = noise.cap.threshold - near + 1000 if reverse else near + 1000
            found, used, left_open = report_with_words(plan, v, [words, second], Told(extra))
            if left_open:
                break
        assert left_open
        off = ideal_side(words[:dim].tolist(), extra, -v if reverse else v, gamma)
        inside = bool(off >= 0) or (reverse and gamma == 0.0)  # where both half-spheres count, everything is inside
        verdicts.add(inside)
        assert used == (1 if inside else 2)
        kept = words if inside else second
        expected = ideal_direction(kept[:dim].tolist(), extra, noise.scale, plan.granularity)
        np.testing.assert_array_equal(found, expected)
    assert verdicts == ({True} if reverse and gamma == 0.0 else {False, True})


def test_sides_and_points_of_words_deep_in_the_tail():
    """Both the side and the rounding of one trial are undecided, and words of zeros need further digits."""
    dim, noise = 3, noise_of("privunit", 3, 2.0)
    plan, v = compiled(noise), np.array([1.0, 0.0, 0.0])
    for seed, deep in enumerate((0, 1, 1 << 63, (1 << 20) + 3)):
        rng, extra = np.random.default_rng(seed), Chosen(seed, zeros=1 if deep == 0 else 0)
        words = rng.integers(0, 1 << 64, dim + 1, dtype=np.uint64)
        words[0], words[dim] = deep, 1  # a trial that is accepted only in the cap
        second = rng.integers(0, 1 << 64, dim + 1, dtype=np.uint64)
        second[dim] = (1 << 64) - 1
        found, used, left_open = report_with_words(plan, v, [words, second], Told(extra))
        inside = ideal_side(words[:dim].tolist(), extra, v, noise.cap.gamma) >= 0
        assert used == (1 if inside else 2)
        assert left_open == (2 if inside else 1)
        kept = words if inside else second
        np.testing.assert_array_equal(found, ideal_direction(kept[:dim].tolist(), extra, noise.scale, plan.granularity))


@pytest.mark.parametrize("name", ["gaussian", "laplace", "l2laplace"])
def test_undecided_sums_are_resolved(name):
    """Deep words of additive noise are resolved, as for the samplers of privol.noise."""
    dim, noise = 3, noise_of(name, 3)
    plan, v = compiled(noise), np.array([0.1, -0.2, 0.3])
    words = np.random.default_rng(0).integers(0, 1 << 64, plan.words, dtype=np.uint64)
    words[1] = 5
    extra = Chosen(3)
    found, _, left_open = report_with_words(plan, v, [words], Told(extra))
    assert left_open == 1
    if name == "l2laplace":
        step = grid_of(noise.scale * math.sqrt(dim + 1))
        expected = round_mixture_with_words(
            v, noise.scale, step, words, decide_mixture_point, extra, kind="l2_laplace"
        )[0]
    else:
        expected = round_with_words(
            v, noise.scale, words, lambda *asked: decide_lattice_point(*asked, law=noise.kind), extra, noise.kind
        )[0]
    np.testing.assert_array_equal(found, expected)


# ---- the device ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 7, 100])
def test_clipped_vectors_are_within_the_bound(dim):
    """By rational arithmetic: longer by no more than is charged, for vectors of every size."""
    rng = np.random.default_rng(dim)
    for size in (1e-300, 1e-160, 1e-30, 1.0, 1e30, 1e160, 1e300):
        for bound in (1e-100, 1e-3, 1.0, 7.3, 1e100):
            x = rng.normal(size=dim) * size
            v = clipped(x, bound)
            square = sum(Fraction(float(a)) ** 2 for a in v)
            assert square <= (Fraction(bound) * (1 + Fraction(clip_excess(dim)))) ** 2
            if 1e-100 < size < 1e100 and bound > 1e-100:
                np.testing.assert_allclose(v, clip(x, bound), rtol=1e-13)
    inside = rng.normal(size=dim) * 0.1 / math.sqrt(dim)
    np.testing.assert_array_equal(clipped(inside, 1.0), inside)


@pytest.mark.parametrize("name", RANDOMIZERS)
def test_vectors_that_are_not_finite_count_as_zero(name):
    noise = noise_of(name, 3)
    zero = randomizer_of(noise, random_state=2).privatize(np.zeros((6, 3)))
    bad = np.array([[np.nan, 0, 0], [0, np.inf, 1], [-np.inf, np.inf, 0], [0, 0, 0], [1e-200, 0, 0], [np.nan] * 3])
    np.testing.assert_array_equal(randomizer_of(noise, random_state=2).privatize(bad), zero)
    assert np.all(np.isfinite(randomizer_of(noise, random_state=2).privatize(np.full((2, 3), 1.7e308))))


def test_vectors_with_other_values_count_as_zero():
    """Refusing a report would reveal something of its vector."""
    masked = np.ma.masked_array([1.0, 2.0, 3.0], mask=[0, 1, 0])
    vectors = (["a", "b", "c"], [1j, 0, 0], [None] * 3, [1, "?", 0], [10**400, 0, 0], np.array([1, 2, 3j]), masked)
    for vector in (*vectors, masked.astype(np.float32), np.array([1, "x", None], dtype=object), [np.ma.masked, 1, 2]):
        reports = [PrivUnit(dim=3, epsilon=1.0, random_state=1).privatize(v) for v in (vector, np.zeros(3))]
        np.testing.assert_array_equal(*reports, err_msg=repr(vector))


def test_what_is_refused():
    device = PrivUnit(dim=3, epsilon=1.0)
    for wrong in (np.zeros(2), np.zeros((1, 1, 3)), 0.0, [[1, 2, 3], [1, 2]]):
        with pytest.raises(InvalidParameter, match="gradients"):
            device.privatize(wrong)
    assert device.n_reports == 0
    assert device.privatize([1, 0, 0]).shape == (3,)
    assert device.privatize(np.zeros((0, 3))).shape == (0, 3)
    assert device.n_reports == 1
    for words in (
        {"epsilon": 0.0},
        {"epsilon": 1.0, "dim": 0},
        {"epsilon": 1.0, "bound": 0.0},
        {"epsilon": 1.0, "adjacency": "add"},
        {"epsilon": math.nan},
    ):
        for cls in PURE.values():
            with pytest.raises(InvalidParameter):
                cls(**{"dim": 3, **words})
    for words in ({}, {"mu": 1.0, "sigma": 1.0}, {"mu": 0.0}, {"leakage": -1.0}, {"sigma": 1e200}, {"epsilon": 1e-200}):
        with pytest.raises(InvalidParameter):
            Gaussian(dim=3, **words)
    with pytest.raises(InvalidParameter, match="too large for privunit"):
        PrivUnit(dim=54, epsilon=16.0)
    with pytest.raises(InvalidParameter, match="dim"):
        TwoPoint(dim=2, epsilon=1.0)
    for kind in ("gaussian", "laplace", "l2_laplace", "cap", "sign"):  # no plan without noise but the plain one
        for scale in (0.0, -1.0, 1e-300, 1e300, math.inf, math.nan):
            with pytest.raises(InvalidParameter, match="scale must be"):
                Report(kind=kind, dim=1 if kind == "sign" else 3, bound=1.0, scale=scale)


def test_a_device_cannot_be_copied():
    device = PrivUnit(dim=3, epsilon=1.0)
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(StateError):
            act(device)
    with pytest.raises(StateError):
        device._sampler.__init__(make_source(1), report=compiled(device.calibration), stream=0)
    assert not np.array_equal(device.privatize(np.zeros(3)), PrivUnit(dim=3, epsilon=1.0).privatize(np.zeros(3)))
    reports = np.array([device.privatize(np.zeros(3)) for _ in range(50)])
    assert len(np.unique(reports, axis=0)) == 50
    if hasattr(os, "fork"):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                device.privatize(np.zeros(3))
            except SourceFailure:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_guarantees():
    for name, cls in PURE.items():
        for adjacency in ("replace", "zero_out"):
            device = cls(dim=4, epsilon=0.9, adjacency=adjacency)
            guarantee = device.guarantee
            assert (guarantee.kind, guarantee.parameter, guarantee.released) == ("pure", 0.9, "reports")
            assert (guarantee.adjacency, guarantee.private, guarantee.leakage) == (adjacency, True, None)
            assert device.calibration.mu == gdp_mu_of_pure(0.9)
            longer = cls(dim=4, epsilon=0.9, adjacency=adjacency, bound=3.0).calibration
            assert longer.scale == pytest.approx(3.0 * device.calibration.scale, rel=1e-9)
            ratio = noise_of(name, 4, 0.9).scale / device.calibration.scale
            assert ratio == (2.0 if adjacency == "zero_out" and "laplace" in name else 1.0)
            assert ("sphere" in guarantee.arithmetic) == (name in ("privunit", "duchi"))
    guarantee = Gaussian(dim=4, epsilon=0.9, delta=1e-7, random_state=0).guarantee
    assert (guarantee.kind, guarantee.delta, guarantee.private) == ("gdp", 1e-7, False)
    assert guarantee.epsilon() <= 0.9 * (1 + 1e-9)
    assert guarantee.leakage == pytest.approx(2 * math.log1p(guarantee.mu**2 / 16), rel=1e-11)
    plain = randomizer_of(calibrate_report("laplace", dim=2, epsilon=math.inf, bound=2.0))
    assert plain.guarantee.kind == "none"
    np.testing.assert_array_equal(plain.privatize([3.0, 4.0]), [3.0 * 0.4, 4.0 * 0.4])
