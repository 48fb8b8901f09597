"""Prefix sums of symmetric matrices, as vectors of their upper triangles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._core._rows import squared_norms
from .._validate import integer
from .._values import NUMBERS, Unread, row_of, shown, unmasked
from ..errors import InvalidParameter, InvalidRow
from ..ledger import Ledger
from ._base import FloatArray, Sums

__all__ = ["SymmetricSum", "svec", "unsvec"]

_CUT = 1024  # matrices at a time, so that their vectors stay small


def svec(matrices: ArrayLike) -> FloatArray:
    """The upper triangles of symmetric matrices by rows, sqrt(2) times off the diagonal.

    Parameters
    ----------
    matrices : array-like of shape (..., dim, dim)
        Only the upper triangles are read.

    Returns
    -------
    ndarray of shape (..., dim * (dim + 1) / 2)
        Its Euclidean norm is the matrix's Frobenius norm.
    """
    values = np.asarray(matrices, dtype=np.float64)
    i, j = np.triu_indices(values.shape[-1])
    return np.ascontiguousarray(values[..., i, j] * np.where(i == j, 1.0, math.sqrt(2.0)))


def unsvec(vectors: ArrayLike) -> FloatArray:
    """The symmetric matrices for :func:`svec`'s vectors, shape (..., dim, dim)."""
    values = np.asarray(vectors, dtype=np.float64)
    dim = (math.isqrt(8 * values.shape[-1] + 1) - 1) // 2
    i, j = np.triu_indices(dim)
    out = np.empty((*values.shape[:-1], dim, dim))
    out[..., i, j] = out[..., j, i] = values * np.where(i == j, 1.0, math.sqrt(0.5))
    return out


class SymmetricSum(Sums):
    """Private prefix sums of symmetric matrices: noise on the upper triangle alone, mirrored.

    A matrix is the vector :func:`svec` of its upper triangle, whose norm is the Frobenius norm; entries off the
    diagonal have noise of ``1 / sqrt(2)`` of the standard deviation of those on it.

    Parameters
    ----------
    dim : int
        Rows of a matrix, 1 to 65,535.
    gram : bool, default=False
        What is added are vectors ``v`` of norm at most ``bound``, and the sums are those of ``v v^T``. One row then
        moves a sum by at most ``sqrt(2) bound**2`` ("replace") or ``bound**2`` ("zero_out"), not by ``2 bound**2``.
    bound : float, default=1.0
        Public bound of a matrix's Frobenius norm, or of a vector's norm; larger ones are scaled to it.
    horizon, epsilon, delta, design, adjacency, leaf, buffers, objective, theta, omega, discount, window, first_epoch
        As for :class:`PrefixSum`, with ``dim * (dim + 1) / 2`` coordinates; so are ``bandwidth``, ``rows_per_user``,
        ``user_separation``, ``count_users``, ``ledger``, ``on_invalid``, ``random_state`` and the attributes.
    """

    def __init__(
        self,
        *,
        dim: int,
        horizon: int | None,
        gram: bool = False,
        bound: float = 1.0,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        design: str = "blt",
        rows_per_user: int | None = None,
        user_separation: int = 1,
        count_users: bool = False,
        adjacency: str = "replace",
        leaf: int = 1,
        buffers: int = 4,
        bandwidth: int | None = None,
        objective: str = "max",
        theta: Sequence[float] | None = None,
        omega: Sequence[float] | None = None,
        discount: float = 1.0,
        window: int | None = None,
        first_epoch: int = 1024,
        ledger: Ledger | None = None,
        on_invalid: str = "raise",
        random_state: Any = None,
    ) -> None:
        self._dim = integer(dim=dim, at_least=1, at_most=65535)
        super().__init__(
            width=self._dim if gram else self._dim * (self._dim + 1) // 2,
            gram=bool(gram),
            horizon=horizon,
            bound=bound,
            epsilon=epsilon,
            delta=delta,
            design=design,
            rows_per_user=rows_per_user,
            user_separation=user_separation,
            count_users=count_users,
            adjacency=adjacency,
            leaf=leaf,
            buffers=buffers,
            bandwidth=bandwidth,
            objective=objective,
            theta=theta,
            omega=omega,
            discount=discount,
            window=window,
            first_epoch=first_epoch,
            calibration="tight",
            ledger=ledger,
            on_invalid=on_invalid,
            random_state=random_state,
        )

    def _matrices(self, X: Any) -> FloatArray:
        """A block of matrices as vectors; if one is not finite, the error names its entry."""
        values = self._entries(X)
        if values.ndim != 3 or values.shape[1:] != (self._dim, self._dim):
            raise InvalidParameter(f"matrices must have shape (n, {self._dim}, {self._dim}), found {values.shape}")
        rows = np.empty((len(values), self._width))
        for start in range(0, len(values), _CUT):
            rows[start : start + _CUT] = svec(values[start : start + _CUT])
        if self._refuse:
            try:
                squared_norms(rows, learnt=self._run.n_rows, refuse=True)
            except InvalidRow as error:
                i, j = (int(index[error.column or 0]) for index in np.triu_indices(self._dim))
                words = str(error).replace(f"feature {error.column}:", f"entry ({i}, {j}):")
                raise InvalidRow(words, row=error.row) from None
        return rows

    def _entries(self, X: Any) -> FloatArray:
        """A block of matrices as numbers: an array of numbers unchanged, otherwise each matrix by itself."""
        if isinstance(X, np.ndarray) and X.dtype.kind in NUMBERS:
            return np.asarray(unmasked(X), dtype=np.float64)
        if isinstance(X, np.ndarray) and (X.ndim != 3 or X.dtype.kind not in "OUST"):
            raise InvalidParameter(f"matrices must be of shape (n, {self._dim}, {self._dim}) and hold numbers, found "
                                   f"shape {X.shape} and dtype {X.dtype}")  # fmt: skip
        try:
            matrices = list(unmasked(X))
        except TypeError as error:
            raise InvalidParameter(f"matrices must hold numbers: {error}") from error
        values = np.full((len(matrices), self._dim, self._dim), np.nan)
        for k, matrix in enumerate(matrices):
            rows = matrix if isinstance(matrix, list | tuple | np.ndarray) else ()
            if len(np.shape(rows) if isinstance(rows, np.ndarray) else (0,)) == 0 or len(rows) != self._dim:
                what = f"found {shown(matrix)}, allowed is a matrix of {self._dim} x {self._dim} numbers"
                self._refuse_unread(Unread(k, None, what))
                continue
            for i, row in enumerate(rows):
                values[k, i], unread = row_of(row, self._dim)
                self._refuse_unread(None if unread is None else Unread(k, None, f"line {i}: {unread.what}"))
        return values

    def add(self, row: ArrayLike, user: Any = None) -> FloatArray:
        """Learn one matrix, or with ``gram`` one vector; return the last prefix sum released, shape (dim, dim)."""
        users = None if user is None else [user]
        return self.add_block(row[None] if isinstance(row, np.ndarray) else [row], every=False, users=users)

    def add_block(self, X: Any, *, every: bool = True, users: ArrayLike | None = None) -> FloatArray:
        """Learn a block of matrices of shape (n, dim, dim), or with ``gram`` of vectors of shape (n, dim).

        Only the upper triangles are read. See :meth:`PrefixSum.add_block`.

        Returns
        -------
        ndarray of shape (n, dim, dim), or with ``every=False`` (dim, dim)
        """
        return unsvec(self._add(self._rows(X) if self._is_gram else self._matrices(X), every, users))

    @property
    def prefix_(self) -> FloatArray:
        """The last prefix sum released, shape (dim, dim)."""
        return unsvec(self._run.prefix())
