"""Rows of numbered features, nearly all 0: frequent features, learnt privately, get all of a row's norm.

Tens of thousands of features that hardly any row has would bring enough noise to drown those that many rows have. The
first rows vote for the features that they have. Of the following rows only the features that stand out are kept, scaled
to norm 1. All other features may share a sketch beside them (:mod:`privol.encoding.sketch`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import log_ndtr

from ..errors import StreamError
from ..noise import STREAM_ENCODING, decide_lattice_point
from ..noise import Source as NoiseSource
from ..readers.base import Piece, Progress, Source
from .phases import EncodingPlan
from .schema_parts import FrequentFeatures
from .sketch import OF_KEPT, OF_SKETCH, sketched

__all__ = ["FrequentRun", "FrequentSource", "frequent_rows"]

FloatArray = npt.NDArray[np.float64]

# A row's votes are whole numbers whose squares add up to at most the square of this, whatever the row has.
_VOTES = 1 << 20
# The share of the kept features that noise alone may contribute, in expectation, and the largest number of such
# features. The first feature must be certain: noise alone produces one in a hundredth of all runs.
_BY_CHANCE, _MOST, _DOUBT = 0.5, 512, 0.01
# The norm of a row is at most 1, whatever the rounding of its computed norm, a sum of at most 2^31 squares.
_ABOVE = 1.0 + 2.0**-21


class FrequentRun:
    """Takes the first rows and decides which features are frequent.

    Parameters
    ----------
    n_features : int
    plan : EncodingPlan
    source : privol.noise.Source or None
        Of the noise; None if the plan has none.
    sketch : int
        How many features the infrequent ones share; with a sketch, no feature needs to be frequent.
    """

    def __init__(self, n_features: int, plan: EncodingPlan, source: NoiseSource | None, sketch: int = 0) -> None:
        self._plan, self._source, self._sketch = plan, source, sketch
        self._votes = np.zeros(n_features, dtype=np.int64)
        self._left = plan.features
        self.kept: tuple[int, ...] = ()

    @property
    def done(self) -> bool:
        """Whether all rows of this phase were taken."""
        return not self._left

    def take(self, X: Any) -> int:
        """Count the next rows, as many as this phase still takes, and return their number."""
        used = min(int(X.shape[0]), self._left)
        _vote(_canonical(X[:used]), self._votes)
        self._left -= used
        if self.done:
            self._release()
        return used

    def _release(self) -> None:
        std = self._plan.noise(1) * _VOTES
        votes = self._votes.astype(np.float64)
        if self._source is None or std == 0.0:
            kept = np.flatnonzero(votes)
        else:
            words: dict[str, Any] = {"stream": STREAM_ENCODING, "row": 1, "decide": decide_lattice_point}
            noisy = self._source.add(votes, std, bound=float(self._plan.features * _VOTES), **words)
            kept = _standing_out(noisy / std)
        if not len(kept) and not self._sketch:
            raise StreamError(
                f"no feature stood out of the noise of the {self._plan.features:,} rows that were to teach which are "
                "frequent: more rows or a larger epsilon are needed, a sketch of all features, or a schema that names "
                "those to keep"
            )
        self.kept = tuple(kept.tolist())


def _vote(X: Any, votes: npt.NDArray[np.int64]) -> None:
    """Add the votes of rows without duplicates: a row gives the same to every feature that it has."""
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    present = X.data != 0
    found, rows = X.indices[present], rows[present]
    having = np.bincount(rows, minlength=X.shape[0])
    most = _VOTES**2 // np.maximum(having, 1)
    vote = np.sqrt(most.astype(np.float64)).astype(np.int64)
    vote -= vote * vote > most  # the root may have been rounded up
    np.add.at(votes, found, vote[rows])


def _standing_out(scores: FloatArray) -> npt.NDArray[np.int64]:
    """Return the features that are kept, ascending, from their votes in standard deviations of the noise.

    There are as many as possible, as long as noise alone would put at most half as many above the last of them.
    """
    order = np.argsort(-scores, kind="stable")[:_MOST]
    expected = np.log(len(scores)) + log_ndtr(-scores[order])
    if expected[0] > np.log(_DOUBT):
        return order[:0]
    enough = np.flatnonzero(expected <= np.log(_BY_CHANCE * np.arange(1, len(order) + 1)))
    return np.sort(order[: enough[-1] + 1])


def frequent_rows(X: Any, part: FrequentFeatures) -> Any:
    """Return the rows of the kept features, each scaled to norm 1 by itself; a row without any is 0.

    With a sketch, sketch and kept features are scaled separately, to norms whose squares add up to at most 1. A row
    with a NaN or an infinity in any of its features has a NaN in its first kept one.
    """
    X = _canonical(X)
    n = X.shape[0]
    rows = np.repeat(np.arange(n), np.diff(X.indptr))
    place, ours = _places(X.indices, part)
    bad = np.zeros(n, dtype=bool)
    bad[rows[~np.isfinite(X.data)]] = True
    sound = ~bad[rows]
    here = ours & sound
    values, places, of = X.data[here].astype(np.float64), place[here], rows[here]
    _to_norm_1(values, of, n)
    if part.sketch:
        others = sound & ~ours
        shared, columns, where = sketched(X.data[others], X.indices[others], rows[others], n, part.sketch)
        _to_norm_1(shared, where, n)
        if part.kept:  # otherwise there is only the sketch
            values *= OF_KEPT
            shared *= OF_SKETCH
        values, of = np.concatenate([values, shared]), np.concatenate([of, where])
        places = np.concatenate([places, columns + len(part.kept)])
    if bad.any():
        first = np.flatnonzero(bad)
        values = np.concatenate([values, np.full(len(first), np.nan)])
        places, of = np.concatenate([places, np.zeros(len(first), dtype=np.int64)]), np.concatenate([of, first])
    made = sp.csr_array((values, (of, places)), shape=(n, part.n_features))
    made.sort_indices()
    return made


def _places(indices: Any, part: FrequentFeatures) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the position of each feature among those that are kept, and whether it is one of them."""
    if not part.kept:
        return np.zeros(len(indices), dtype=np.int64), np.zeros(len(indices), dtype=bool)
    kept = np.array(part.kept, dtype=np.int64)
    place = np.minimum(np.searchsorted(kept, indices), len(kept) - 1)
    return place, kept[place] == indices


def _to_norm_1(values: FloatArray, rows: npt.NDArray[np.int64], n: int) -> None:
    """Scale the values of each row, in place, so that their norm is at most 1, and 1 up to rounding."""
    # by its largest value first: squares of very large numbers are infinite, of very small ones 0
    largest = np.zeros(n)
    np.maximum.at(largest, rows, np.abs(values))
    values /= np.where(largest > 0.0, largest, 1.0)[rows]
    norms = np.sqrt(np.bincount(rows, weights=values * values, minlength=n))
    values /= np.where(norms > 0.0, norms * _ABOVE, 1.0)[rows]


def _canonical(X: Any) -> Any:
    """Return rows in which no feature occurs twice, each from its own entries; the caller's rows do not change."""
    if not sp.issparse(X):  # only the first of several blocks must be sparse
        return sp.csr_array(X)
    X = sp.csr_array((X.data, X.indices, X.indptr), shape=X.shape)  # a new matrix knows nothing yet about its indices
    if X.has_canonical_format:
        return X
    X = X.copy()
    X.has_sorted_indices = False  # sort every row: if only one row needs it, the sums of the others must not change
    X.sum_duplicates()
    return X


class FrequentSource(Source):
    """The kept features of a source's rows.

    Parameters
    ----------
    source : Source
        Of sparse rows.
    part : FrequentFeatures
    conditions : tuple of str
        What a guarantee assumes because of it.
    """

    sparse = True

    def __init__(self, source: Source, part: FrequentFeatures, conditions: tuple[str, ...]) -> None:
        if not source.sparse or source.n_features != part.features:
            kind = "sparse" if source.sparse else "dense"
            raise StreamError(
                f"{source.name}: found {kind} rows of {source.n_features:,} features, the schema is for sparse ones of "
                f"{part.features:,}"
            )
        self._source, self._part = source, part
        self.n_features = part.n_features
        self.facts = replace(source.facts, conditions=(*source.facts.conditions, *conditions))

    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        for piece in self._source.pieces(limit, progress):
            yield piece if not piece.X.shape[0] else piece._replace(X=frequent_rows(piece.X, self._part))

    def brings_rest(self) -> None:
        self._source.brings_rest()

    def count(self) -> int:
        return self._source.count()
