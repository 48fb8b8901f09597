"""privol's learners as run by a user who knows nothing about the rows: given a file, its target and epsilon."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..auto.defaults import default_loss, defaults_for, encoder_for
from ..encoding.labels import label_key
from ..errors import StreamError
from ..guarantees import gdp_mu
from ..learners import LEARNERS, TABLE
from ..ledger import Ledger
from ..losses import get_loss
from ..streams import Stream, open_stream
from .specs import Prepared

__all__ = ["CENTRAL", "Encoded", "Played", "encode", "play_learner"]

FloatArray = NDArray[np.float64]

#: Names of the learners that see the rows themselves, one after the other: not on devices, on nodes, or offline.
CENTRAL = tuple(entry.name for entry in TABLE if entry.group not in ("devices", "nodes", "rest"))
_FIRST_KEY = 40_000
_IMPOSSIBLE = -30.0  # log-odds of a label that the encoding has not learnt


@dataclass(frozen=True)
class Played:
    """The predictions of an entrant, and how long they took.

    Attributes
    ----------
    scores, held : ndarray of float64 or None
        As :func:`privol.arena.figures.figures_of` takes them: of the stream's rows, each before its block was learnt,
        and of the rows held out, by the last model. None: there was no model in time.
    seconds, rows : float, int
        Learning and predicting, without reading and encoding, and the rows of it.
    notes : dict
        Further entries of the record.
    """

    scores: FloatArray | None
    held: FloatArray | None
    seconds: float
    rows: int
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Encoded:
    """An encoding that is paid for, and the rows that are left to be learnt.

    Attributes
    ----------
    stream : Stream
        Of blocks as they arrive.
    schema : Schema
    epsilon : float
        What is left for the learner of these rows.
    first : int
        0-based number of the first of them.
    taught : int
        Rows that taught the encoding.
    ledger : Ledger
        Limited to the whole budget.
    """

    stream: Stream
    schema: Any
    epsilon: float
    first: int
    taught: int
    ledger: Ledger

    def held(self, prepared: Prepared) -> Stream:
        """Return the held-out rows without their targets."""
        return open_stream(prepared.held_path, target=False, schema=self.schema, read_ahead=False)


def encode(prepared: Prepared, name: str, epsilon: float, delta: float, seed: int, block: int) -> Encoded:
    """Learn the encoding of a stream as ``privol run`` does, or take the schema that is declared.

    Raises
    ------
    StreamError
        If the rows that teach show nothing through the noise: the budget is spent, and there is no model.
    """
    limit: dict[str, Any] = {} if math.isinf(epsilon) else {"epsilon": epsilon, "delta": delta}
    ledger = Ledger(**limit)
    words: dict[str, Any] = {"block_rows": block, "read_ahead": False}
    if prepared.schema is not None:
        stream = open_stream(prepared.path, schema=prepared.schema, **words)
        return Encoded(stream, stream.schema, epsilon, 0, 0, ledger)
    trial: Any = LEARNERS[name](epsilon=epsilon, delta=delta, random_state=2 * (_FIRST_KEY + seed))
    real = True if get_loss(trial.loss).kind == "regression" else None  # as the command does with --learner
    encoder = encoder_for(trial, horizon=None, ledger=ledger, regression=real)
    stream = open_stream(prepared.path, target=prepared.target, schema=encoder, **words)
    first = 0 if encoder.reused_ else encoder.plan_.rows
    if first > prepared.teach:
        raise StreamError(f"{first:,} rows taught the encoding, and {prepared.teach:,} are not scored")
    return Encoded(stream, encoder.schema_, encoder.model_epsilon_, first, encoder.plan_.rows, ledger)


def play_learner(prepared: Prepared, name: str, epsilon: float, delta: float, seed: int, block: int) -> Played:
    """Let a learner with its defaults learn a stream, all for the budget: block after block, each predicted before.

    Raises
    ------
    PrivolError
        If the learner does not take such targets, or the encoding shows too little for a model.
    """
    loss = default_loss(len(prepared.classes))
    # this refuses what the learner cannot do
    LEARNERS[name](loss=loss).calibrate(2, prepared.rows, n_classes=max(len(prepared.classes), 2))
    found = encode(prepared, name, epsilon, delta, seed, block)
    stream, horizon = found.stream, prepared.rows - found.first
    target_of(prepared, stream)
    given: dict[str, Any] = {"epsilon": found.epsilon, "delta": delta}
    if prepared.schema is None:
        given = {**defaults_for(name, stream, horizon, given), **given}
    else:
        given |= {"loss": loss} | ({} if stream.row_bound is None else {"x_bound": stream.row_bound})
    made: Any = LEARNERS[name](**given, horizon=horizon, ledger=found.ledger, random_state=2 * (_FIRST_KEY + seed) + 1)
    watched = _Watched(prepared, stream, made)
    made.fit_stream(watched)
    scores = np.full((prepared.rows, *watched.shape), np.nan)
    if watched.scores:
        scores[found.first :] = np.concatenate(watched.scores)
    held = None
    if made.n_releases_:
        held = np.concatenate([watched.predict(block.X) for block in found.held(prepared)])
    mu = found.ledger.spent.mu
    if mu > (math.inf if math.isinf(epsilon) else gdp_mu(epsilon, delta)):
        raise AssertionError(f"{name} spent mu = {mu!r}, more than epsilon = {epsilon:g} allows")
    notes = {
        "mu": mu,
        "features": stream.n_features,
        "taught": found.taught,
        "reused": found.taught > 0 and found.first == 0,
    }
    progressive = scores if watched.early else None  # a model that comes last does not predict the rows it learnt
    return Played(progressive, held, watched.seconds, horizon, {**notes, "releases": int(made.n_releases_)})


def target_of(prepared: Prepared, stream: Any) -> None:
    """Refuse an encoding that mistook real targets for labels, or labels for real targets."""
    if (stream.classes is None) != prepared.regression:
        what = ("labels", "a real target") if prepared.regression else ("a real target", "labels")
        raise StreamError(f"the encoding took the target for {what[0]}, and it is {what[1]}")


def in_units(prepared: Prepared, stream: Any, scores: FloatArray) -> FloatArray:
    """Return scores of encoded rows by the stream's own labels, or predictions in the target's units."""
    if prepared.regression:
        return np.asarray(stream.schema.unscale(scores), dtype=np.float64)
    number = {label_key(label): k for k, label in enumerate(prepared.classes)}
    known = [number[label_key(label)] for label in stream.classes]
    if len(known) == 2 == len(prepared.classes):
        return scores if known == [0, 1] else -scores
    several = np.column_stack([np.zeros(len(scores)), scores]) if scores.ndim == 1 else scores
    whole = np.full((len(scores), len(prepared.classes)), _IMPOSSIBLE)
    whole[:, known] = several
    return whole


class _Watched:
    """A stream whose blocks are predicted with the model before them; only the learner's time is measured."""

    def __init__(self, prepared: Prepared, stream: Stream, learner: Any) -> None:
        self._prepared, self._stream, self._learner = prepared, stream, learner
        self.n_rows, self.classes, self.beside = stream.count_rows(), stream.classes, stream.beside
        self.first_row, self.conditions = stream.first_row, stream.conditions
        self.shape = () if len(prepared.classes) <= 2 else (len(prepared.classes),)
        self.scores: list[FloatArray] = []
        self.seconds = 0.0
        self.early = False

    def __iter__(self) -> Iterator[Any]:
        for block in self._stream:
            start = time.perf_counter()
            released = self._learner.__sklearn_is_fitted__() and self._learner.n_releases_ > 0
            self.early = self.early or released
            self.scores.append(self.predict(block.X) if released else self._nothing(block.X.shape[0]))
            yield block
            self.seconds += time.perf_counter() - start

    def predict(self, X: Any) -> FloatArray:
        real = self._prepared.regression
        return in_units(self._prepared, self._stream, (self._learner.predict if real else self._decide)(X))

    def _decide(self, X: Any) -> FloatArray:
        found: FloatArray = self._learner.decision_function(X)
        return found

    def _nothing(self, n: int) -> FloatArray:
        """The predictions of a zero model."""
        classes = () if self.classes is None or len(self.classes) == 2 else (len(self.classes),)
        return in_units(self._prepared, self._stream, np.zeros((n, *classes)))
