"""The bits are the same however the rows arrive: any chunking, layout, element type or interruption."""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from privol import PGIGA, PIGD
from privol._core import _noise
from privol.geometry import Box, L1Ball, Simplex

pytestmark = pytest.mark.slow

N = 200  # rows: beyond two recomputations of the norm
CASES = {
    "pigd-logistic": (PIGD, {"loss": "logistic", "radius": 0.4}, 13),
    "pigd-hinge-inactive": (PIGD, {"loss": "hinge", "radius": 90.0, "l2": 0.2, "fit_intercept": False}, 5),
    "pigd-absolute": (PIGD, {"loss": "absolute", "radius": 1.0, "y_bound": 0.7}, 8),
    "pigd-box": (PIGD, {"loss": "huber", "domain": Box(-0.1, 0.2)}, 9),
    "pigd-l1": (PIGD, {"loss": "logistic", "domain": L1Ball(0.2), "l2_schedule": "inverse_sqrt"}, 3),
    "pgiga-squared": (PGIGA, {"loss": "squared", "radius": 2.0}, 17),
    "pgiga-simplex": (PGIGA, {"loss": "logistic", "domain": Simplex(0.5)}, 6),
}
QUICK = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def rows(name, seed=0):
    """Rows with zeros in them, exact in single precision; classification or real targets."""
    _, parameters, d = CASES[name]
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(N, d)) * (rng.random((N, d)) < 0.6) / np.sqrt(d) * 2).astype(np.float32).astype(np.float64)
    signal = X @ rng.normal(size=d) + 0.3 * rng.normal(size=N)
    return X, (signal if parameters["loss"] in ("squared", "absolute", "huber") else np.where(signal > 0, 1.0, -1.0))


def classes_of(name):
    return None if CASES[name][1]["loss"] in ("squared", "absolute", "huber") else [-1.0, 1.0]


def make(name, release=7, **more):
    cls, parameters, _ = CASES[name]
    given = {"epsilon": 6.0, "delta": 1e-4, "horizon": N, "random_state": 3, "l2": 0.05, **parameters, **more}
    return cls(release=release, **given)


def fingerprint(learner):
    """All bits of a run: the secret iterate, what was released, the counters."""
    state = learner._run.state
    return (
        state._secret_iterate().tobytes(),
        state.released_model().tobytes(),
        state.released_average().tobytes(),
        state.counters(),
        tuple(sorted(state.raw_counts().items())),
    )


REFERENCE: dict[tuple, tuple] = {}


def reference(name, release=7):
    """One ``partial_fit`` of all dense float64 rows."""
    if (name, release) not in REFERENCE:
        X, y = rows(name)
        learner = make(name, release).partial_fit(X, y, classes=classes_of(name))
        assert learner.n_rows_ == N
        assert learner._run.state.spent > 0
        REFERENCE[name, release] = fingerprint(learner)
    return REFERENCE[name, release]


@dataclass
class Blocks:
    """The minimum that ``fit_stream`` needs, with blocks cut at given rows."""

    X: object
    y: np.ndarray
    cuts: list[int]
    classes: tuple | None
    n_rows: int | None = N

    def __iter__(self):
        for start, stop in zip(self.cuts[:-1], self.cuts[1:], strict=True):
            yield Block(self.X[start:stop], self.y[start:stop], start + 1)


@dataclass
class Block:
    X: object
    y: np.ndarray
    first_row: int


cuts = st.lists(st.integers(1, N - 1), max_size=12, unique=True).map(lambda inner: [0, *sorted(inner), N])


@pytest.mark.parametrize("name", CASES)
def test_every_instruction_set_gives_the_same_bits(name):
    """Every layout at every level that this processor supports; also with a release after every row."""
    before = _noise.instruction_set()
    X, y = rows(name)
    wide = np.empty((N, 2 * X.shape[1]))
    wide[:, ::2] = X
    try:
        for level, release in itertools.product(_noise.instruction_sets(), (1, 7)):
            _noise.use_instruction_set(level)
            for block in (X, X.astype(np.float32), wide[:, ::2], sparse.csr_matrix(X)):
                learner = make(name, release).partial_fit(block, y, classes=classes_of(name))
                assert fingerprint(learner) == reference(name, release), level
    finally:
        _noise.use_instruction_set(before)


@pytest.mark.parametrize("name", list(CASES))
@QUICK
@given(cuts=cuts, one=st.integers(0, 3))
def test_chunks(name, cuts, one):
    """Any split into partial_fit calls, a quarter of the pieces row by row."""
    X, y = rows(name)
    learner = make(name)
    for k, (start, stop) in enumerate(itertools.pairwise(cuts)):
        if k % 4 == one and k:
            for i in range(start, stop):
                learner.learn_one(X[i], y[i])
        else:
            learner.partial_fit(X[start:stop], y[start:stop], classes=classes_of(name))
    assert fingerprint(learner) == reference(name)


@pytest.mark.parametrize("name", list(CASES))
def test_one_by_one(name):
    X, y = rows(name)
    learner = make(name)
    if classes_of(name):
        learner.declare_classes(classes_of(name))
    for row, target in zip(X, y, strict=True):
        learner.learn_one(row, target)
    assert fingerprint(learner) == reference(name)


@pytest.mark.parametrize("release", ["all", 1, 64, [1, 2, 3, 100, 200], "last"])
@QUICK
@given(cuts=cuts)
def test_chunks_with_every_kind_of_release(release, cuts):
    name = "pigd-logistic"
    X, y = rows(name)
    learner = make(name, release)
    for start, stop in itertools.pairwise(cuts):
        learner.partial_fit(X[start:stop], y[start:stop], classes=classes_of(name))
    key = tuple(release) if isinstance(release, list) else release
    if (name, key) not in REFERENCE:
        REFERENCE[name, key] = fingerprint(make(name, release).partial_fit(X, y, classes=classes_of(name)))
    assert fingerprint(learner) == REFERENCE[name, key]


@pytest.mark.parametrize("name", list(CASES))
@QUICK
@given(cuts=cuts, watch=st.booleans(), data=st.data())
def test_fit_stream(name, cuts, watch, data):
    """Any block size, dense or CSR blocks, with and without a call at every release."""
    X, y = rows(name)
    known = classes_of(name)
    targets = y if known is None else (y + 1) / 2
    source = sparse.csr_array(X) if data.draw(st.booleans()) else X
    seen = []
    whole, streamed = make(name), make(name)
    whole.fit(X, y)
    streamed.fit_stream(
        Blocks(source, targets, cuts, None if known is None else tuple(known)),
        on_release=seen.append if watch else None,
    )
    for attribute in ("coef_", "intercept_", "average_coef_", "n_rows_", "n_releases_"):
        np.testing.assert_array_equal(getattr(streamed, attribute), getattr(whole, attribute))
    assert streamed._run.state.spent == whole._run.state.spent == reference(name)[3][2]
    if watch:
        assert [r.row for r in seen] == list(range(7, N + 1, 7))
        np.testing.assert_array_equal(seen[-1].coef, np.ravel(streamed.coef_))


# ---- layouts -------------------------------------------------------------------------------------


def wide(matrix, bits):
    """The same CSR matrix with indices of the given number of bits."""
    kind = np.int64 if bits == 64 else np.int32
    out = matrix.copy()
    out.indices, out.indptr = out.indices.astype(kind), out.indptr.astype(kind)
    return out


def shuffled(matrix):
    """Every row's entries in reverse order."""
    out = sparse.csr_array(matrix)
    for i in range(out.shape[0]):
        part = slice(out.indptr[i], out.indptr[i + 1])
        out.indices[part] = out.indices[part][::-1]
        out.data[part] = out.data[part][::-1]
    out.has_sorted_indices = False
    return out


def doubled(matrix):
    """Every entry stored twice, at half its value."""
    m = sparse.csr_array(matrix)
    return sparse.csr_array((np.repeat(m.data / 2, 2), np.repeat(m.indices, 2), m.indptr * 2), shape=m.shape)


def strided(X):
    out = np.full((2 * X.shape[0], 3 * X.shape[1]), np.nan)
    out[::2, 1::3] = X
    return out[::2, 1::3]


LAYOUTS = {
    "fortran": np.asfortranarray,
    "strided": strided,
    "negative rows": lambda X: X[::-1].copy()[::-1],
    "negative columns": lambda X: X[:, ::-1].copy()[:, ::-1],
    "float32": lambda X: X.astype(np.float32),
    "float32 fortran": lambda X: np.asfortranarray(X.astype(np.float32)),
    "float32 negative": lambda X: X.astype(np.float32)[:, ::-1].copy()[:, ::-1],
    "csr 32": lambda X: wide(sparse.csr_array(X), 32),
    "csr 64": lambda X: wide(sparse.csr_array(X), 64),
    "csr float32": lambda X: sparse.csr_array(X.astype(np.float32)),
    "csr float32 64": lambda X: wide(sparse.csr_array(X.astype(np.float32)), 64),
    "csr matrix": sparse.csr_matrix,
    "csr unsorted": lambda X: shuffled(sparse.csr_array(X)),
    "csr unsorted 64": lambda X: shuffled(wide(sparse.csr_array(X), 64)),
    "csr duplicates": doubled,
    "csr explicit zeros": lambda X: with_zeros(sparse.csr_array(X)),
    "read-only": lambda X: frozen(X),
    "big-endian": lambda X: X.astype(">f8"),
}


def with_zeros(matrix):
    out = sparse.csr_array(np.ones(matrix.shape))
    out.data = matrix.toarray().ravel()
    return out


def frozen(X):
    out = X.copy()
    out.flags.writeable = False
    return out


@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize("name", list(CASES))
def test_layouts(name, layout):
    X, y = rows(name)
    rearranged = LAYOUTS[layout](X)
    learner = make(name).partial_fit(rearranged, y, classes=classes_of(name))
    assert fingerprint(learner) == reference(name)
    # below scikit-learn's own checks too, which copy some layouts
    direct = make(name).partial_fit(X[:1], y[:1], classes=classes_of(name))
    rest = rearranged[1:]
    targets = y[1:] if classes_of(name) else np.clip(y[1:], -direct.y_bound, direct.y_bound)
    direct._run.state.learn(rest, targets)
    assert fingerprint(direct) == reference(name)


@pytest.mark.parametrize("layout", ["float32", "strided", "negative columns", "big-endian", "read-only"])
def test_layouts_one_by_one(layout):
    name = "pigd-logistic"
    X, y = rows(name)
    rearranged = LAYOUTS[layout](X)
    learner = make(name)
    learner.declare_classes([-1.0, 1.0])
    for row, target in zip(rearranged, y, strict=True):
        learner.learn_one(row, target)
    assert fingerprint(learner) == reference(name)


def test_unsorted_rows_of_the_caller_are_left_as_they_were():
    X = shuffled(sparse.csr_array(rows("pigd-logistic")[0]))
    indices = X.indices.copy()
    learner = make("pigd-logistic").partial_fit(X, rows("pigd-logistic")[1], classes=[-1.0, 1.0])
    assert learner.n_rows_ == N
    np.testing.assert_array_equal(X.indices, indices)


# ---- interruption --------------------------------------------------------------------------------


@pytest.mark.parametrize("release", [7, [1, 50, 51, 199], "last"])
@pytest.mark.parametrize("name", ["pigd-logistic", "pigd-l1", "pgiga-squared"])
@QUICK
@given(stop=st.integers(1, N - 1))
def test_restore_continues_with_the_same_bits(name, release, stop):
    X, y = rows(name)
    first, second, whole = make(name, release), make(name, release), make(name, release)
    first.partial_fit(X[:stop], y[:stop], classes=classes_of(name))
    saved = {word: array.copy() for word, array in first._run.state.secret_arrays().items()}
    state, _, _ = second._open_run(X.shape[1], N, release)
    state.restore(saved)
    assert state.counters() == first._run.state.counters()
    targets = y if classes_of(name) else np.clip(y, -second.y_bound, second.y_bound)
    state.learn(X[stop:], targets[stop:])
    whole.partial_fit(X, y, classes=classes_of(name))
    first.partial_fit(X[stop:], y[stop:])
    second._run = copy.copy(first._run)  # not a run of its own: it has no account
    second._run.state = state
    assert fingerprint(second) == fingerprint(first) == fingerprint(whole)


def test_restore_refuses_the_state_of_another_run():
    name = "pigd-logistic"
    X, y = rows(name)
    saved = make(name).partial_fit(X[:9], y[:9], classes=[-1.0, 1.0])._run.state.secret_arrays()
    other_key = make(name, random_state=99)._open_run(X.shape[1], N, 7)[0]
    with pytest.raises(RuntimeError, match="another noise key"):
        other_key.restore(saved)
    other_width = make(name)._open_run(X.shape[1] - 1, N, 7)[0]
    with pytest.raises(RuntimeError, match="shape"):
        other_width.restore(saved)
    used = make(name)._open_run(X.shape[1], N, 7)[0]
    used.restore(saved)
    with pytest.raises(RuntimeError, match="fresh"):
        used.restore(saved)
    with pytest.raises(RuntimeError, match="version"):
        make(name)._open_run(X.shape[1], N, 7)[0].restore({**saved, "version": np.array([99])})
