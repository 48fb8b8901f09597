"""A running digest of rows; it does not depend on how the rows are cut into blocks."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from xxhash import xxh3_128

__all__ = ["PartsDigest", "RowDigest"]


class RowDigest:
    """The digest by which a checkpoint recognises rows: it detects rows other than the learnt ones.

    128 bits of a fast hash for each of targets, values and places. The hash is not cryptographic, but begins with
    secret seeds: whoever does not know the key cannot choose rows that collide.

    Parameters
    ----------
    key : bytes of length 32
        Secret, as long as the run lasts: who knows it can tell by :meth:`hexdigest` which rows were learnt.
    """

    def __init__(self, key: bytes) -> None:
        self.rows = 0
        self._key = key
        self._layout = ""
        self._parts = [xxh3_128(seed=int.from_bytes(key[8 * k : 8 * k + 8], "little")) for k in range(4)]

    def followed_by(self, X: Any, targets: NDArray[np.float64]) -> RowDigest:
        """The digest with these rows added; this object does not change."""
        longer = RowDigest(self._key)
        longer.rows, longer._layout = self.rows, self._layout
        longer._parts = [part.copy() for part in self._parts]
        longer.update(X, targets)
        return longer

    def update(self, X: Any, targets: NDArray[np.float64]) -> None:
        """Add rows as they are learnt, dense or CSR, float32 or float64, with their targets."""
        if X.shape[0] == 0:
            return
        if sparse.issparse(X):
            layout = "csr"
            start, stop = X.indptr[0], X.indptr[-1]
            lengths = np.diff(X.indptr).astype(np.int64)
            arrays = [X.data[start:stop], X.indices[start:stop].astype(np.int64), lengths]
        else:
            layout = "dense"
            arrays = [np.ascontiguousarray(X)]
        self._layout = f"{layout}-{arrays[0].dtype.str}-{X.shape[1]}"
        for part, array in zip(self._parts, (targets, *arrays), strict=False):
            part.update(np.ascontiguousarray(array).data)
        self.rows += X.shape[0]

    def hexdigest(self) -> str:
        """The digest of all rows so far; without the key it reveals nothing about them."""
        text = "-".join([str(self.rows), self._layout, *(part.hexdigest() for part in self._parts)])
        return hashlib.blake2b(text.encode(), digest_size=32, key=self._key).hexdigest()


class PartsDigest:
    """The digest by which a checkpoint of a run over parts recognises rows: all rows, and how many are learnt.

    Which rows these are follows from the parts, so any other row in any of them makes another digest.

    Parameters
    ----------
    key : bytes of length 32
        As of :class:`RowDigest`.
    parts : bytes
        Of all rows of all parts, in their order.
    rows : int
        Rows that are learnt.
    """

    def __init__(self, key: bytes, parts: bytes, rows: int) -> None:
        self._key, self._parts, self.rows = key, parts, rows

    def followed_by(self, X: Any, targets: NDArray[np.float64]) -> PartsDigest:
        """The digest when these rows are learnt too: they are the parts' next ones."""
        del targets
        return self.after(X.shape[0])

    def update(self, X: Any, targets: NDArray[np.float64]) -> None:
        """Take in these rows: they are the parts' next ones."""
        del targets
        self.rows += X.shape[0]

    def after(self, rows: int) -> PartsDigest:
        """The digest after this many more rows are learnt."""
        return PartsDigest(self._key, self._parts, self.rows + rows)

    def hexdigest(self) -> str:
        """The digest, which tells nothing of the rows without the key."""
        text = b"parts-%d-" % self.rows + self._parts
        return hashlib.blake2b(text, digest_size=32, key=self._key).hexdigest()
