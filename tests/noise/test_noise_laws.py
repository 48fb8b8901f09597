"""The distributions of the samplers: each test accepts what they draw, and rejects noise with a specific error.

False-positive rates are those of alpha.py, divided among the uses of a name. Seeds are fixed.
"""

from __future__ import annotations

import os
import threading
from functools import partial

import numpy as np
import pytest
from alpha import rate
from battery import (
    LAWS,
    between,
    coordinate_probability,
    directions,
    right_cells,
    right_directions,
    right_mean,
    right_scale,
    right_tail,
    unrelated,
    within,
)
from patience import WAIT
from scipy import stats
from twins_noise import MP, TAILS, Chosen, tail

from privol._core._noise import round_with_words, values_of_words
from privol.errors import SourceFailure
from privol.noise import Exponential, Gaussian, L2Laplace, Laplace, Sphere, decide_lattice_point, granularity

pytestmark = [pytest.mark.process, pytest.mark.statistical]

SAMPLERS = {"gaussian": Gaussian, "laplace": Laplace, "exponential": Exponential}
H = granularity(1.0)
SIGN = np.uint64(1 << 63)
DIMS = {1: 1_000_000, 2: 500_000, 3: 400_000, 10: 100_000, 54: 30_000}  # and how many vectors


@pytest.fixture(scope="module", params=sorted(LAWS))
def law(request):
    return request.param


@pytest.fixture(scope="module")
def sample(law):
    """A million values at scale 1, from 100 calls: parts of three or four rows of words each."""
    noise = SAMPLERS[law](scale=1.0, random_state=2024)
    return np.concatenate([noise.sample(10_000) for _ in range(100)])


# ---- values ----------------------------------------------------------------------------------------------------


def test_scale(sample, law):
    alpha = rate("laws.scale", len(LAWS))
    assert right_scale(sample, law, alpha)
    for factor in (2 / 3, 3 / 2, 1.01, 1 / 1.01):
        assert not right_scale(sample * factor, law, alpha)


def test_mean(sample, law):
    alpha = rate("laws.mean", len(LAWS))
    assert right_mean(sample, law, alpha)
    assert not right_mean(sample + 0.01, law, alpha)


def test_cells(sample, law):
    alpha, rng = rate("laws.cells", len(LAWS)), np.random.default_rng(0)
    assert right_cells(sample, H, LAWS[law], alpha)
    zeros = np.where(rng.random(sample.size) < 0.01, 0.0, sample)
    others = {
        "gaussian": rng.standard_t(30, sample.size),
        "laplace": rng.standard_normal(sample.size),
        "exponential": rng.gamma(1.02, size=sample.size),
    }
    for wrong in (sample * 1.01, sample / 1.01, sample * 2 / 3, sample + 0.02, zeros, others[law]):
        assert not right_cells(wrong, H, LAWS[law], alpha)


def rounded(law, words, seed=1, x=None, decide=None):
    """Values at scale 1 of given words."""
    found, _ = round_with_words(
        np.zeros(len(words)) if x is None else x,
        1.0,
        words,
        decide or (lambda *args: decide_lattice_point(*args, law)),
        Chosen(seed),
        law,
    )
    return found


@pytest.mark.parametrize(("bits", "n"), [(0, 20_000), (10, 20_000), (20, 20_000), (30, 1000)])
def test_tails(law, bits, n):
    """Given that P < 2^-bits (at 30: below 1e-9), which no sample of ordinary size would contain."""
    alpha, limit = rate("laws.tails", 4 * len(LAWS)), 2.0**-bits
    words = np.random.default_rng(bits).integers(0, 1 << 63, n, dtype=np.uint64)
    sign = np.where(np.arange(n) % 2, SIGN, np.uint64(0))
    values = rounded(law, (words >> np.uint64(bits)) | sign)
    assert law == "exponential" or np.all((values <= 0) == (sign > 0) | (values == 0))
    sizes = np.abs(values)
    assert right_tail(sizes, H, law, limit, alpha)
    middle = float(np.median(sizes))
    assert not right_tail(np.minimum(sizes, middle), H, law, limit, alpha)
    assert not right_tail(np.where(np.arange(n) % 5 == 0, middle, sizes), H, law, limit, alpha)
    deeper = (np.random.default_rng(bits).integers(0, 1 << 62, n, dtype=np.uint64)) >> np.uint64(bits)
    if bits < 30:
        assert not right_tail(np.abs(rounded(law, deeper)), H, law, limit, alpha)
    if bits >= 10:
        for factor in (2 / 3, 3 / 2, 1.02, 1 / 1.02):
            assert not right_tail(sizes * factor, H, law, limit, alpha)


def test_forced_values(law):
    """A boundary runs through the interval of every word: the following digits decide, as often as they should.

    The first guess, which ignores them, is rejected.
    """
    n, rng = 120, np.random.default_rng(5)
    # deep in the tail, so that the interval is wide compared with a double's, and next to the value in double precision
    words = rng.integers(1 << 34, 1 << 36, n, dtype=np.uint64) & ~np.uint64(0x7FF) | np.uint64(0x400)
    z, _ = values_of_words(words, law)
    borders = (np.round(rng.normal(size=n) * 100) + 0.5) * H
    x, beyond = np.empty(n), np.empty(n)
    for j in range(n):
        middle = (MP.mpf(int(words[j])) + MP.mpf("0.5")) / MP.mpf(2) ** 63
        size = MP.mpf(float(z[j]))
        if law == "gaussian":  # Newton: from the double to the middle of the interval
            size -= (MP.erfc(size / MP.sqrt(2)) - middle) / -(MP.sqrt(2 / MP.pi) * MP.exp(-size * size / 2))
        else:
            size = -MP.log(middle)
        x[j] = float(MP.mpf(borders[j]) - size)
        # the share of digits with a smaller P, hence a larger sum, than at the boundary
        beyond[j] = float(TAILS[law](MP.mpf(borders[j]) - MP.mpf(x[j])) * MP.mpf(2) ** 63 - int(words[j]))
    assert np.all((beyond > 0.1) & (beyond < 0.9))

    def accepted(decide=None):
        up = rounded(law, words, seed=2, x=x, decide=decide) > borders
        expected, variance = float(np.sum(beyond)), float(np.sum(beyond * (1 - beyond)))
        return within((np.sum(up) - expected) / variance**0.5, rate("laws.forced", len(LAWS)))

    assert accepted()
    assert not accepted(lambda word, extra, x, scale, step: np.round((x + z[words == word][0]) / step))
    # one by one: the digits themselves
    extra = Chosen(2)
    share = [tail(word, partial(extra, j)) * MP.mpf(2) ** 63 - word for j, word in enumerate(words.tolist())]
    np.testing.assert_array_equal(rounded(law, words, seed=2, x=x) > borders, np.array(share, float) < beyond)


def test_neighbours(sample, law):
    """Neighbours share a cipher block, coordinates 8, 16 or 64 apart a position in a vector, rows and calls nothing."""
    lags = (1, 2, 8, 16, 64, 4096, 10_000)
    alpha, p = rate("laws.neighbours", (len(lags) + 1) * len(LAWS)), LAWS[law].cdf(sample)
    for lag in lags:
        assert unrelated(p[:-lag], p[lag:], alpha)
    words = np.random.default_rng(0).integers(0, 1 << 64, 40_000, dtype=np.uint64)
    again = np.where(np.arange(40_000) % 20 == 1, np.roll(words, 1), words)  # every twentieth word is used twice
    assert unrelated(*np.split(LAWS[law].cdf(rounded(law, words)).reshape(-1, 2).T.ravel(), 2), alpha)
    assert not unrelated(*np.split(LAWS[law].cdf(rounded(law, again)).reshape(-1, 2).T.ravel(), 2), alpha)
    signs = again ^ (SIGN * (np.arange(40_000, dtype=np.uint64) & np.uint64(1)))  # or with the opposite sign
    if law != "exponential":
        assert not unrelated(*np.split(LAWS[law].cdf(rounded(law, signs)).reshape(-1, 2).T.ravel(), 2), alpha)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_threads_and_forks(law):
    """Simultaneous draws of threads are independent; a forked child draws nothing of the parent's."""
    noise, drawn = SAMPLERS[law](scale=1.0, random_state=77), {}

    def work(i):
        drawn[i] = np.concatenate([noise.sample(1000) for _ in range(50)])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    alpha = rate("laws.threads", 6 * len(LAWS))
    for i in range(3):
        assert right_cells(drawn[i], H, LAWS[law], alpha)
        assert unrelated(LAWS[law].cdf(drawn[i]), LAWS[law].cdf(drawn[(i + 1) % 3]), alpha)
    if hasattr(os, "fork"):
        in_child_of(noise, SAMPLERS[law])


def in_child_of(noise, sampler):
    """The inherited sampler refuses in a forked child; a new one has a different key from any in the parent."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            noise.sample(1)
        except SourceFailure:
            os.write(writer, sampler(scale=1.0).sample(100).tobytes())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        theirs = pipe.read()
    os.waitpid(child, 0)
    assert len(theirs) == 800, "the inherited sampler drew, or the new one did not"
    assert theirs != sampler(scale=1.0).sample(100).tobytes()


# ---- vectors ---------------------------------------------------------------------------------------------------


def l2_laplace(rng, n, dim, shape):
    """Vectors of a scale mixture with a factor of the given Gamma shape: right for (dim + 1) / 2."""
    return np.sqrt(2 * rng.gamma(shape, size=(n, 1))) * rng.standard_normal((n, dim))


@pytest.fixture(scope="module", params=DIMS)
def vectors(request):
    dim = request.param
    return L2Laplace(scale=1.0, dim=dim, random_state=99).sample(DIMS[dim])


def test_norms(vectors):
    """Gamma(dim), and so their sum. The lattice moves a mean norm by about 1e-7 of it."""
    n, dim = vectors.shape
    alpha, h = rate("laws.norm", 2 * len(DIMS)), granularity((dim + 1) ** 0.5)

    def accepted(found):
        norms = np.linalg.norm(found, axis=1)
        total = between(stats.gamma.cdf(float(np.sum(norms)), n * dim), alpha)
        return total and right_cells(norms, h, stats.gamma(dim), alpha)

    assert accepted(vectors)
    for factor in (2 / 3, 3 / 2, 1.01, 1 / 1.01):
        assert not accepted(vectors * factor)
    rng = np.random.default_rng(dim)
    assert accepted(np.round(l2_laplace(rng, n, dim, (dim + 1) / 2) / h) * h)
    assert not accepted(l2_laplace(rng, n, dim, dim / 2))
    assert not accepted(l2_laplace(rng, n, dim, (dim + 2) / 2))
    assert dim == 1 or not accepted(rng.laplace(size=(n, dim)))


def test_variance_of_a_coordinate(vectors):
    """Variance w = dim + 1 and fourth moment 3 w^2 + 6 w, from the moment generating function (1 - b^2)^(-w / 2)."""
    n, w, alpha = len(vectors), vectors.shape[1] + 1, rate("laws.vectors", 2 * len(DIMS))
    second = float(np.mean(vectors[:, -1] ** 2))
    for factor in (1.0, 2 / 3, 3 / 2):
        z = (second * factor**2 - w) / np.sqrt((2 * w**2 + 6 * w) / n)
        assert within(z, alpha) == (factor == 1.0)


def test_directions(vectors):
    n, dim = vectors.shape
    alpha, rng = rate("laws.direction", 2 * len(DIMS)), np.random.default_rng(dim)
    assert right_directions(directions(vectors)[1], alpha)
    assert not right_directions(directions(np.abs(vectors))[1], alpha)
    if dim > 1:
        stretched = vectors * np.where(np.arange(dim) == 0, 1.03 if dim < 54 else 1.15, 1.0)
        assert not right_directions(directions(stretched)[1], alpha)
        if dim < 54:
            assert not right_directions(directions(rng.laplace(size=(n, dim)))[1], alpha)
        repeated = vectors.copy()
        repeated[::5, 1] = repeated[::5, 0]  # a word used twice
        assert not right_directions(directions(repeated)[1], alpha)


def test_norm_and_direction_are_independent(vectors):
    dim = vectors.shape[1]
    alpha = rate("laws.norm_and_direction", 2 * len(DIMS))

    def accepted(found):
        norms, unit = directions(found)
        p = stats.gamma.cdf(norms, dim)
        if dim == 1:
            return within(float(np.mean((p - 0.5) * unit[:, 0])) * (12 * len(p)) ** 0.5, alpha)
        return all(unrelated(p, coordinate_probability(unit, j), alpha / 2) for j in (0, -1))

    assert accepted(vectors)
    norms, unit = directions(vectors)
    noisy = unit[:, 0] / np.std(unit[:, 0]) + 5 * np.random.default_rng(dim).standard_normal(len(norms))
    related = np.sort(norms)[np.argsort(np.argsort(noisy)), None] * unit  # norms that grow slightly with a coordinate
    assert not accepted(related)


def test_vectors_are_independent(vectors):
    """Norms and directions of neighbours: no factor and no coordinate is used for two vectors."""
    dim = vectors.shape[1]
    alpha = rate("laws.vectors", 2 * len(DIMS))

    def accepted(found):
        norms, unit = directions(found)
        p = stats.gamma.cdf(norms, dim)
        cosines = np.sum(unit[:-1] * unit[1:], axis=1)  # of variance 1 / dim, whatever one of the two is
        along = within(float(np.mean(cosines)) * (dim * len(cosines)) ** 0.5, alpha / 3)
        return along and all(unrelated(p[:-lag], p[lag:], alpha / 3) for lag in (1, 2))

    assert accepted(vectors)
    rng = np.random.default_rng(dim)
    factor = np.sqrt(2 * rng.gamma((dim + 1) / 2, size=(len(vectors) // 2, 1)))
    shared = np.repeat(factor, 2, axis=0) * rng.standard_normal((2 * len(factor), dim))
    assert not accepted(shared)
    assert not accepted(np.repeat(vectors[::2], 2, axis=0))


@pytest.mark.parametrize("dim", [2, 3, 10, 54])
def test_sphere(dim):
    """Lengths equal the scale up to the lattice; directions are uniform and independent."""
    alpha = rate("laws.direction", 2 * len(DIMS))
    noise = Sphere(scale=3.0, dim=dim, random_state=12)
    found = noise.sample(100_000 if dim < 54 else 20_000)

    def right_length(vectors):
        return bool(np.all(np.abs(np.linalg.norm(vectors, axis=1) - 3.0) <= noise.granularity / 2 * dim**0.5))

    assert right_length(found)
    for factor in (0.99, 1.01):
        assert not right_length(found * factor)
    norms, unit = directions(found)
    assert len(norms) == len(found)
    assert right_directions(unit, alpha)
    stretched = found * np.where(np.arange(dim) == 1, 1.05 if dim < 54 else 1.15, 1.0)
    assert not right_directions(directions(stretched)[1], alpha)
    cube = np.random.default_rng(1).uniform(-1, 1, found.shape)
    assert not right_directions(directions(cube)[1], alpha)
    p = coordinate_probability(unit)
    assert unrelated(p[:-1], p[1:], rate("laws.norm_and_direction", 2 * len(DIMS)))
