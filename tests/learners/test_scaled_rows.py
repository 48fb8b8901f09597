"""Rows beyond their bound: counted for the curator alone, warned of if they are most rows, and never exported."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from conformance import LEARNERS, OFFLINE, make
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from privol import DPFTRL, PIGD, ObjectivePerturbation
from privol.encoding import PrivateEncoder
from privol.errors import ScaledRowsWarning
from privol.state import save_model
from privol.streams import open_stream

N = 120
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, 4))
X *= (np.where(np.arange(N) % 3, 7.0, 0.5) / np.linalg.norm(X, axis=1))[:, None]
LONG = 80
Y = np.arange(N) % 2


def learner_of(name):
    found = make(name)
    if "horizon" in found.get_params(deep=False):
        found.set_params(horizon=N)
    if name == "PGIGA":
        found.set_params(release="last")
    return found


@pytest.mark.parametrize("name", [*LEARNERS, *OFFLINE])
def test_every_learner_counts_scaled_rows_and_warns(name):
    learner = learner_of(name)
    targets = Y if is_classifier(learner) else X[:, 0]
    with pytest.warns(ScaledRowsWarning, match=r"x_bound=\d.*StandardScaler.*no part of what is released"):
        learner.fit(X, targets)
    unread = name == "POL"  # the last row moves no iterate of the average
    assert learner.n_scaled_rows_ == LONG * learner.n_rows_ // N - unread
    again = pickle.loads(pickle.dumps(learner))
    with pytest.raises(NotFittedError, match="counts"):
        _ = again.n_scaled_rows_


@pytest.mark.parametrize(
    "form", [np.asarray, sparse.csr_array, np.float32, lambda x: x.tolist()], ids=["dense", "CSR", "float32", "lists"]
)
@pytest.mark.parametrize("kind", [PIGD, ObjectivePerturbation])
def test_whatever_the_layout(kind, form):
    with pytest.warns(ScaledRowsWarning, match="80 of 120 rows"):
        learner = kind().fit(form(X), Y)
    assert learner.n_scaled_rows_ == LONG


def test_frames_and_streams():
    pandas = pytest.importorskip("pandas")
    dummies = pandas.get_dummies(pandas.DataFrame({"age": np.arange(N) + 1000.0, "kind": list("abc") * (N // 3)}))
    with pytest.warns(ScaledRowsWarning, match="120 of 120 rows"):
        PIGD().fit(dummies, Y)
    for kind in (PIGD, ObjectivePerturbation):
        with pytest.warns(ScaledRowsWarning, match="80 of 120 rows"):
            learner = kind().fit_stream(open_stream((X, Y), classes=[0, 1]))
        assert learner.n_scaled_rows_ == LONG


def test_block_by_block_there_is_one_warning():
    learner = DPFTRL(horizon=N + 40)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ScaledRowsWarning)
        for start in range(0, N, 10):
            learner.partial_fit(X[start : start + 10], Y[start : start + 10], classes=[0, 1])
            said = sum(issubclass(it.category, ScaledRowsWarning) for it in caught)
            assert said == (start >= 100)  # before anything of a block is learnt
        for x, y in zip(X[:3], Y[:3], strict=True):
            learner.learn_one(x, y)
        learner.close()
    assert sum(issubclass(it.category, ScaledRowsWarning) for it in caught) == 1
    assert learner.n_scaled_rows_ == LONG + 2


def test_a_warning_that_is_an_error_comes_before_a_block_is_learnt():
    """The warning once came after the block: learning the same rows again put them into the run twice."""
    learner = DPFTRL(horizon=2 * N)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ScaledRowsWarning)
        learner.partial_fit(X, Y, classes=[0, 1])
        with pytest.raises(ScaledRowsWarning):
            learner.partial_fit(X, Y)
        assert learner.n_rows_ == N
        assert learner.partial_fit(X, Y).n_rows_ == 2 * N


@pytest.mark.parametrize("kind", [PIGD, ObjectivePerturbation])
def test_half_of_the_rows_gives_no_warning(kind):
    rows = np.where((np.arange(N) % 2)[:, None], 2.0, 0.1) * np.ones((N, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ScaledRowsWarning)
        assert kind().fit(rows, Y).n_scaled_rows_ == N // 2
        assert kind(x_bound=3.0).fit(rows, Y).n_scaled_rows_ == 0
    with pytest.raises(NotFittedError):
        _ = kind().n_scaled_rows_


@pytest.mark.parametrize("kind", [PIGD, ObjectivePerturbation])
def test_no_file_has_the_count(kind, tmp_path):
    """Two data sets that differ in it alone have the same record."""
    texts = []
    for factor, folder in ((1.0, "a"), (1e-6, "b")):
        learner = kind(random_state=0).fit(X * factor, Y)
        save_model(learner, tmp_path / folder)
        texts.append((tmp_path / folder / "model.json").read_text())
        assert "scaled" not in texts[-1]
    assert texts[0].split('"arrays"')[0] == texts[1].split('"arrays"')[0]


@pytest.mark.parametrize("kind", [PIGD, ObjectivePerturbation])
def test_behind_an_encoder_in_a_pipeline(kind):
    """Rows slightly above the usual norm lose little: no warning. Rows longer by a third and more cause one."""
    encoder = PrivateEncoder(epsilon=np.inf)
    usual = encoder.fit(X).schema_.usual_norm
    with warnings.catch_warnings():
        warnings.simplefilter("error", ScaledRowsWarning)
        made = make_pipeline(encoder, kind(x_bound=usual, fit_intercept=False)).fit(X, Y)
    assert made[-1].n_scaled_rows_ > 0
    with pytest.warns(ScaledRowsWarning, match="behind one x_bound is its schema_.usual_norm"):
        make_pipeline(encoder, kind(x_bound=usual / 1.5)).fit(X, Y)
    with pytest.warns(ScaledRowsWarning):  # by a third and more
        kind(x_bound=usual / 1.5).fit(encoder.transform(X), Y)
