"""Rows of numbered features, nearly all of them 0: the frequent ones, learnt under a guarantee, take all of a row.

Noise for tens of thousands of features that hardly any row has drowns those that many rows have. The first rows vote
for the features that they have; the following rows are what is left of them in the features that stand out, scaled to
norm 1.
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

__all__ = ["FrequentRun", "FrequentSource", "frequent_rows"]

FloatArray = npt.NDArray[np.float64]

# A row's votes are whole numbers whose squares add up to at most the square of this, whatever it has.
_VOTES = 1 << 20
# Of the features that are kept, the share that noise alone may bring, in expectation; and their largest number. The
# first of them must be there beyond doubt: noise alone brings such a one in a hundredth of all runs.
_BY_CHANCE, _MOST, _DOUBT = 0.5, 512, 0.01
# No row is longer than 1, whatever the roundings of its norm, a sum of at most 2^31 squares.
_ABOVE = 1.0 + 2.0**-21


class FrequentRun:
    """Takes the first rows, and says which features are frequent.

    Parameters
    ----------
    n_features : int
    plan : EncodingPlan
    source : privol.noise.Source or None
        Of the noise; None where the plan has none.
    """

    def __init__(self, n_features: int, plan: EncodingPlan, source: NoiseSource | None) -> None:
        self._plan, self._source = plan, source
        self._votes = np.zeros(n_features, dtype=np.int64)
        self._left = plan.features
        self.kept: tuple[int, ...] = ()

    @property
    def done(self) -> bool:
        """Whether all rows that teach were taken."""
        return not self._left

    def take(self, X: Any) -> int:
        """Count the next rows, as many as are still to teach, and return their number."""
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
        if not len(kept):
            raise StreamError(
                f"no feature stood out of the noise of the {self._plan.features:,} rows that were to teach which are "
                "frequent: more rows or a larger epsilon are needed, or a schema that names the features to keep"
            )
        self.kept = tuple(kept.tolist())


def _vote(X: Any, votes: npt.NDArray[np.int64]) -> None:
    """Add the votes of rows without duplicates: each gives the same to every feature that it has."""
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    present = X.data != 0
    found, rows = X.indices[present], rows[present]
    having = np.bincount(rows, minlength=X.shape[0])
    most = _VOTES**2 // np.maximum(having, 1)
    vote = np.sqrt(most.astype(np.float64)).astype(np.int64)
    vote -= vote * vote > most  # the root may have been rounded up
    np.add.at(votes, found, vote[rows])


def _standing_out(scores: FloatArray) -> npt.NDArray[np.int64]:
    """Return the features that are kept, ascending, by their votes in standard deviations of the noise.

    As many as possible, so long as noise alone would bring at most half as many above the last of them.
    """
    order = np.argsort(-scores, kind="stable")[:_MOST]
    expected = np.log(len(scores)) + log_ndtr(-scores[order])
    if expected[0] > np.log(_DOUBT):
        return order[:0]
    enough = np.flatnonzero(expected <= np.log(_BY_CHANCE * np.arange(1, len(order) + 1)))
    return np.sort(order[: enough[-1] + 1])


def frequent_rows(X: Any, part: FrequentFeatures) -> Any:
    """Return the rows of the kept features, each scaled to norm 1 by itself; a row that has none is 0.

    A row with a NaN or an infinity among all its features has a NaN in its first one.
    """
    X = _canonical(X)
    kept = np.array(part.kept, dtype=np.int64)
    n = X.shape[0]
    rows = np.repeat(np.arange(n), np.diff(X.indptr))
    place = np.minimum(np.searchsorted(kept, X.indices), len(kept) - 1)
    ours = kept[place] == X.indices
    bad = np.zeros(n, dtype=bool)
    bad[rows[~np.isfinite(X.data)]] = True
    ours &= ~bad[rows]
    values, places, rows = X.data[ours].astype(np.float64), place[ours], rows[ours]
    # by its largest value first: squares of large or small numbers are infinite or 0
    largest = np.zeros(n)
    np.maximum.at(largest, rows, np.abs(values))
    values /= np.where(largest > 0.0, largest, 1.0)[rows]
    norms = np.sqrt(np.bincount(rows, weights=values * values, minlength=n))
    values /= np.where(norms > 0.0, norms * _ABOVE, 1.0)[rows]
    if bad.any():
        first = np.flatnonzero(bad)
        values = np.concatenate([values, np.full(len(first), np.nan)])
        places, rows = np.concatenate([places, np.zeros(len(first), dtype=np.int64)]), np.concatenate([rows, first])
    made = sp.csr_array((values, (rows, places)), shape=(n, part.n_features))
    made.sort_indices()
    return made


def _canonical(X: Any) -> Any:
    """Return rows in which no feature comes twice, each of its own entries alone; the caller's are not changed."""
    if not sp.issparse(X):  # of blocks the first alone need be sparse
        return sp.csr_array(X)
    X = sp.csr_array((X.data, X.indices, X.indptr), shape=X.shape)  # which knows nothing yet of its indices
    if X.has_canonical_format:
        return X
    X = X.copy()
    X.has_sorted_indices = False  # sort every row: where one alone needs it, the sums of the others must not change
    X.sum_duplicates()
    return X


class FrequentSource(Source):
    """The kept features of the rows of a source.

    Parameters
    ----------
    source : Source
        Of sparse rows.
    part : FrequentFeatures
    conditions : tuple of str
        What a guarantee takes for granted because of it.
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

    def count(self) -> int:
        return self._source.count()
