"""Other private learners, on the rows that privol's encoding produces: one-pass DP-SGD, and diffprivlib.

Choices made in hindsight are not charged here, so these figures are better than any real run could promise.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from ..encoding.labels import label_key
from ..errors import InvalidParameter
from ..guarantees import compose_fixed, gdp_mu
from ..learners import default_name
from .central import Encoded, Played, encode, in_units, target_of
from .figures import figures_of, headline
from .raw_rows import Rows
from .specs import Prepared

__all__ = ["descend", "play_descent", "play_diffprivlib", "pure_beside", "sum_std"]

FloatArray = NDArray[np.float64]

_WORKER = Path(__file__).with_name("diffprivlib_worker.py")
_BATCHES, _CLIPS, _STEPS = (64, 256, 1024), (1.0, 0.3), (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_FIRST_KEY = 7_330_000
_MOST_CELLS = 200_000_000


def sum_std(clip: float, mu: float) -> float:
    """Return the standard deviation of the noise on a batch's sum of gradients of norm at most ``clip``.

    Replacing one row moves the sum by ``2 clip`` at most, so a batch is mu-GDP; a row is in one batch
    only, so the whole pass is mu-GDP too (``docs/proofs/phases.md``: disjoint rows by their numbers).
    """
    return 0.0 if math.isinf(mu) else 2.0 * clip / mu


def descend(
    X: FloatArray,
    residuals: Any,
    outputs: int,
    *,
    mu: float,
    clip: float,
    batch: int,
    step: float,
    rng: np.random.Generator,
) -> FloatArray:
    """Return the models of DP-SGD in one pass, before the first batch and after each, shape (batches + 1, d, outputs).

    Parameters
    ----------
    X : ndarray of shape (n, d)
    residuals : callable
        Of a slice of rows and their scores: the derivatives of their losses in the scores, shape (rows, outputs).
    outputs : int
        Scores of a row.
    mu : float
        Of Gaussian differential privacy, for rows one of which is replaced; infinite: without noise.
    clip : float
        Norm that each row's gradient is scaled down to.
    batch : int
        Rows of a step, each row in one. What is left of the rows at the end is not learnt.
    step : float
        That the mean of a batch's noisy gradients is multiplied with.
    rng : Generator
        Fast, and not for use on rows that are to be protected.
    """
    lengths = np.linalg.norm(X, axis=1)
    std = sum_std(clip, mu)
    W = np.zeros((X.shape[1], outputs))
    models = [W]
    for start in range(0, len(X) - batch + 1, batch):
        at = slice(start, start + batch)
        R = residuals(at, X[at] @ W)
        norms = np.linalg.norm(R, axis=1) * lengths[at]
        R = R * np.minimum(1.0, clip / np.maximum(norms, 1e-300))[:, None]
        noisy = X[at].T @ R + (rng.normal(scale=std, size=W.shape) if std else 0.0)
        W = W - step / batch * noisy
        models.append(W)
    return np.array(models)


def _usual(prepared: Prepared) -> str:
    """Return the learner whose encoding they use; for real targets, one that needs no search for labels."""
    return "pqftl" if prepared.regression else default_name()


def _gather(rows: Rows, found: Encoded) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Encoded rows with a constant, their targets (NaN: unknown to the encoding), and the held-out rows."""
    blocks = list(found.stream)
    n, d = sum(block.X.shape[0] for block in blocks), found.stream.n_features + 1
    if n * d > _MOST_CELLS:
        raise InvalidParameter(f"{n:,} rows of {d} features are too many for this reference, which keeps them dense")
    parts = [[_dense(block.X) for block in some] for some in (blocks, list(found.held(rows.prepared)))]
    X, held = (np.column_stack([np.concatenate(part), np.ones(sum(map(len, part)))]) for part in parts)
    y = np.concatenate([np.asarray(block.y, dtype=np.float64) for block in blocks])
    usable = np.isfinite(X).all(axis=1)
    X[~usable], y[~usable] = 0.0, np.nan
    return X, y, np.nan_to_num(held)


def _of_outputs(scores: FloatArray) -> FloatArray:
    return scores if scores.shape[1] > 1 else scores[:, 0]


def _dense(X: Any) -> FloatArray:
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)


def play_descent(rows: Rows, epsilon: float, delta: float, seed: int, block: int) -> Played:
    """Let DP-SGD learn in one pass; batch, clipping and step are chosen in hindsight, as is scikit-learn's grid.

    Raises
    ------
    PrivolError
        If the encoding shows too little.
    """
    prepared = rows.prepared
    found = encode(prepared, _usual(prepared), epsilon, delta, seed, block)
    stream = found.stream
    target_of(prepared, stream)
    X, y, held = _gather(rows, found)
    classes = 0 if stream.classes is None else len(stream.classes)
    outputs = classes if classes > 2 else 1
    longest = math.hypot(stream.schema.usual_norm, 1.0)
    known, codes = ~np.isnan(y), np.nan_to_num(y)

    def residuals(at: slice, scores: FloatArray) -> FloatArray:
        here, keep = codes[at], known[at][:, None]
        if not classes:
            return np.asarray((scores - here[:, None]) * keep)
        if classes == 2:
            return np.asarray((expit(scores) - here[:, None]) * keep)
        shares: FloatArray = softmax(scores, axis=1)
        shares[np.arange(len(here)), here.astype(np.int64)] -= 1.0
        return np.asarray(shares * keep)

    mu = math.inf if math.isinf(found.epsilon) else gdp_mu(found.epsilon, delta)
    best: Played | None = None
    most = -np.inf
    for number, (batch, clip, step) in enumerate(product(_BATCHES, _CLIPS, _STEPS)):
        rng = np.random.default_rng((_FIRST_KEY + seed, number))
        words: dict[str, Any] = {"clip": clip * longest, "batch": batch, "step": step / longest**2}
        start = time.perf_counter()
        models = descend(X, residuals, outputs, mu=mu, **words, rng=rng)
        own = np.empty((len(X), outputs))
        for first in range(0, len(X), block):
            at = slice(first, first + block)
            own[at] = X[at] @ models[first // batch]
        seconds = time.perf_counter() - start
        scores = np.full((prepared.rows, *((len(prepared.classes),) if len(prepared.classes) > 2 else ())), np.nan)
        scores[found.first :] = in_units(prepared, stream, _of_outputs(own))
        figure = figures_of(prepared, rows.y, scores, "second_half").get(headline(prepared.regression))
        if best is None or (figure is not None and figure > most):
            most = most if figure is None else figure
            notes = {"features": stream.n_features, "taught": found.taught, **words}
            late = in_units(prepared, stream, _of_outputs(held @ models[-1]))
            best = Played(scores, late, seconds, len(X), notes)
    assert best is not None
    return best


def pure_beside(mu: float, epsilon: float, delta: float) -> float:
    """Return the pure epsilon that a model of the rows that taught an encoding may have, for both to be within epsilon.

    The encoding is mu-GDP. What is left of mu squared is no measure here: a pure mechanism spends its epsilon at every
    delta, and a Gaussian one of the same epsilon at this delta alone.
    """
    low, high = 0.0, epsilon
    while high - low > 1e-4 * epsilon:
        middle = (low + high) / 2.0
        low, high = (middle, high) if compose_fixed(mu, [middle], delta) <= epsilon else (low, middle)
    return low


def play_diffprivlib(
    rows: Rows, epsilon: float, delta: float, seed: int, block: int, python: str | None = None
) -> Played:
    """Fit diffprivlib's logistic regression with its defaults to the encoded rows, for the rows held out.

    It promises pure differential privacy of the rows that it is given, with ``data_norm`` the norm that longer rows are
    scaled to here; where all rows have taught the encoding, of what that has left (:func:`pure_beside`). It runs in an
    interpreter of its own, because its last version needs an old scikit-learn.

    Parameters
    ----------
    python : str, optional
        Of an environment that has it. Default: this one.

    Raises
    ------
    InvalidParameter
        If it cannot be run, or is not made for such rows.
    """
    prepared = rows.prepared
    if len(prepared.classes) != 2 or math.isinf(epsilon):
        raise InvalidParameter("diffprivlib's logistic regression is run for two classes and a finite epsilon")
    _ask(python)
    found = encode(prepared, _usual(prepared), epsilon, delta, seed, block)
    target_of(prepared, found.stream)
    X, y, held = _gather(rows, found)
    X, held = X[:, :-1], held[:, :-1]
    bound = float(found.stream.schema.usual_norm)
    X, held = (part * (bound / np.maximum(np.linalg.norm(part, axis=1), bound))[:, None] for part in (X, held))
    # a row whose label the encoding does not know is learnt as a zero row: the number of such rows is not disclosed
    X[np.isnan(y)] = 0.0
    own = epsilon
    if found.taught and not found.first:  # all rows taught, and all are learnt
        own = pure_beside(found.ledger.spent.mu, epsilon, delta)
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder, "given.npz"), Path(folder, "answer.npz")
        np.savez(given, X=X, y=np.nan_to_num(y), held=held, bound=bound, epsilon=own, seed=_FIRST_KEY + seed)
        _work(python, str(given), str(answer))
        with np.load(answer) as answered:
            scores, seconds = answered["scores"], float(answered["seconds"])
    if [label_key(label) for label in found.stream.classes or ()] != [label_key(label) for label in prepared.classes]:
        scores = -scores
    return Played(None, scores, seconds, len(X), {"features": X.shape[1], "taught": found.taught, "own": own})


_ANSWERS: dict[str | None, str | None] = {}


def _ask(python: str | None) -> None:
    """Refuse an interpreter that has no working diffprivlib."""
    if python not in _ANSWERS:
        try:
            _work(python)
            _ANSWERS[python] = None
        except InvalidParameter as error:
            _ANSWERS[python] = str(error)
    if _ANSWERS[python] is not None:
        raise InvalidParameter(_ANSWERS[python])


def _work(python: str | None, *words: str) -> None:
    command = [python or sys.executable, str(_WORKER), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise InvalidParameter(f"diffprivlib: {python} cannot be run: {error.strerror or error}") from error
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no reason was given"]
        raise InvalidParameter(f"diffprivlib does not run in {python or 'this environment'}: {last[0]}")
