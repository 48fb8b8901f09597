"""Doubly stochastic mixing matrices as CSR: Metropolis weights whose sums are exactly 1, and checks of others."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from .._sparse import sound_rows
from .._validate import integer, number
from ..errors import InvalidParameter
from ._graph import MAX_NODES, Integers, Topology, frozen

__all__ = ["UNIT", "Floats", "MixingMatrix", "Pattern", "metropolis_units", "metropolis_weights", "mixing_matrix"]

Floats = NDArray[np.float64]

UNIT = 2**53
"""Weights that privol makes are multiples of 1 / UNIT: all of these from 0 to 1 are doubles, and so are their sums."""


@dataclass(frozen=True, eq=False, repr=False)
class MixingMatrix:
    """A doubly stochastic matrix in compressed rows; row i says how node i averages what it hears.

    Made by :func:`metropolis_weights`, :func:`mixing_matrix` and the schedules' ``matrix``. Public.

    Attributes
    ----------
    indptr, indices : ndarray of int64, shapes (n_nodes + 1,) and (nnz,)
        Row i has its entries at ``indptr[i]`` to ``indptr[i + 1] - 1``, in ascending columns, the diagonal always among
        them; read-only.
    weights : ndarray of float64, shape (nnz,)
        All above 0; read-only.
    """

    indptr: Integers
    indices: Integers
    weights: Floats

    def __post_init__(self) -> None:
        for values in (self.indptr, self.indices, self.weights):
            frozen(values)

    def __reduce__(self) -> tuple[type[MixingMatrix], tuple[Integers, Integers, Floats]]:
        return MixingMatrix, (self.indptr, self.indices, self.weights)  # a copy is read-only as well

    @property
    def n_nodes(self) -> int:
        """Number of nodes, m."""
        return len(self.indptr) - 1

    @cached_property
    def rows(self) -> Integers:
        """Row of every entry, shape (nnz,)."""
        return frozen(np.repeat(np.arange(self.n_nodes), np.diff(self.indptr)))

    @property
    def min_weight(self) -> float:
        """Smallest weight, the eta of Assumption 2."""
        return float(self.weights.min())

    @cached_property
    def edges(self) -> Integers:
        """Links in use, the smaller node first, in lexicographic order; shape (n_edges, 2)."""
        upper = self.rows < self.indices
        return frozen(np.stack([self.rows[upper], self.indices[upper]], axis=1))

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether every weight equals the one in the opposite direction, exactly."""
        order = np.lexsort((self.rows, self.indices))
        return bool(
            np.array_equal(self.rows[order], self.indices)
            and np.array_equal(self.indices[order], self.rows)
            and np.array_equal(self.weights[order], self.weights)
        )

    @property
    def digest(self) -> str:
        """SHA-256 of the entries in hexadecimal: equal for equal matrices, on every machine."""
        parts = self.indptr.astype("<i8"), self.indices.astype("<i8"), self.weights.astype("<f8")
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()

    def to_scipy(self) -> Any:
        """Return a ``scipy.sparse.csr_array`` of copies, shape (n_nodes, n_nodes)."""
        shape = (self.n_nodes, self.n_nodes)
        return csr_array((self.weights.copy(), self.indices.copy(), self.indptr.copy()), shape=shape)

    def to_dense(self) -> Floats:
        """Return the matrix with its zeros, shape (n_nodes, n_nodes)."""
        dense = np.zeros((self.n_nodes, self.n_nodes))
        dense[self.rows, self.indices] = self.weights
        return dense

    def __repr__(self) -> str:
        return f"<MixingMatrix of {self.n_nodes} nodes, {len(self.weights)} weights of at least {self.min_weight:.6g}>"


class Pattern:
    """The positions of entries in a graph's matrices: makes any of them from one integer for each link."""

    def __init__(self, topology: Topology) -> None:
        n, edges = topology.n_nodes, topology.edges
        self.topology = topology
        diagonal = np.arange(n)
        rows = np.concatenate([diagonal, edges[:, 0], edges[:, 1]])
        columns = np.concatenate([diagonal, edges[:, 1], edges[:, 0]])
        number_of_edge = np.arange(len(edges))
        links = np.concatenate([np.full(n, -1), number_of_edge, number_of_edge])
        order = np.lexsort((columns, rows))
        self.rows, self.columns, self.links = rows[order], columns[order], links[order]

    def matrix(self, units: Integers) -> MixingMatrix:
        """Return the symmetric matrix with weight ``units[e] / UNIT`` on link e, and the rest on the diagonal."""
        n, edges = self.topology.n_nodes, self.topology.edges
        # sums of integers up to 2**53 in total are exact in doubles
        given = np.bincount(edges[:, 0], units, n) + np.bincount(edges[:, 1], units, n)
        entries = np.append(units, 0)[self.links]
        own = self.links < 0
        entries[own] = UNIT - given[self.rows[own]].astype(np.int64)
        used = own | (entries > 0)
        counts = np.bincount(self.rows[used], minlength=n)
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return MixingMatrix(indptr, self.columns[used].astype(np.int64), entries[used] / float(UNIT))


def metropolis_units(topology: Topology, active: NDArray[np.bool_] | None = None) -> Integers:
    """Return ``floor(UNIT / (1 + max degree))`` for every active link, degrees counted over active links; else 0."""
    edges = topology.edges
    use = np.ones(len(edges), dtype=np.bool_) if active is None else active
    degrees = np.bincount(edges[use].ravel(), minlength=topology.n_nodes)
    larger = np.maximum(degrees[edges[:, 0]], degrees[edges[:, 1]])
    return np.where(use, UNIT // (1 + larger), 0).astype(np.int64)


def metropolis_weights(topology: Topology) -> MixingMatrix:
    """Return the Metropolis weights of a graph: 1 / (1 + the larger degree) on a link, the rest on the diagonal.

    Parameters
    ----------
    topology : Topology
        Need not be connected: see the schedules, which ask for it.

    Returns
    -------
    MixingMatrix
        Symmetric; rows and columns add up to exactly 1, also in floating point and in any order of the sum.

    Notes
    -----
    A weight is ``floor(2**53 / (1 + max(d_i, d_j))) / 2**53``. It is not above ``1 / (1 + d_i)``, so those of a row add
    up to at most ``d_i / (1 + d_i)``, and the diagonal, exactly 1 minus that sum, is at least ``1 / (1 + d_i)``: not
    below the smallest weight of the row's links. All entries and partial sums are multiples of 2**-53 from 0 to 1,
    every one of which is a double, so no sum is ever rounded. Columns are rows by symmetry. A weight is within
    2**-53 of what it would be without the floor.

    Source: Xiao and Boyd 2004; Li et al. 2018, Assumption 2.
    """
    return Pattern(topology).matrix(metropolis_units(topology))


def mixing_matrix(
    values: ArrayLike | Any, *, topology: Topology | None = None, min_weight: float = 0.0, tolerance: float = 1e-12
) -> MixingMatrix:
    """Check a matrix of one's own against Assumption 2 (without its window) and compress it.

    Parameters
    ----------
    values : array-like, SciPy sparse array or MixingMatrix, shape (n_nodes, n_nodes)
        Real and finite. Explicit zeros are dropped, duplicates of sparse formats added up.
    topology : Topology, optional
        Graph outside of which no weight may be.
    min_weight : float, default=0.0
        eta: weights that are not 0 must be at least this, those of the diagonal too.
    tolerance : float, default=1e-12
        Largest distance of a row's or column's sum from 1, at most 1e-6. Sums are computed exactly, then rounded once.

    Returns
    -------
    MixingMatrix

    Raises
    ------
    InvalidParameter
        If the matrix is not square, an entry is negative or not finite, a diagonal entry is 0 (the printed assumption
        forgets this: [[0, 1], [1, 0]] never mixes), a weight is below ``min_weight``, one of (i, j) and (j, i) is 0
        and the other is not, a link is not in the graph, or a row or column does not sum to 1. The message names it.
    """
    eta = number(min_weight=min_weight, at_least=0.0, at_most=1.0)
    slack = number(tolerance=tolerance, at_least=0.0, at_most=1e-6)
    if isinstance(values, MixingMatrix):
        values = values.to_scipy()
    try:
        dense: Any = sound_rows(values) if issparse(values) else np.atleast_2d(np.asarray(values))
        if dense.dtype.kind not in "iuf":
            raise TypeError(f"found entries of type {dense.dtype}")
        given = csr_array(dense, dtype=np.float64, copy=True)
    except (TypeError, ValueError) as err:
        raise InvalidParameter(f"a mixing matrix must be a square array of real numbers: {err}") from err
    n = given.shape[0]
    if len(given.shape) != 2 or given.shape[1] != n:
        raise InvalidParameter(f"a mixing matrix must be square, found shape {tuple(given.shape)}")
    integer(n_nodes=n, at_least=1, at_most=MAX_NODES)
    if topology is not None and topology.n_nodes != n:
        raise InvalidParameter(f"the topology has {topology.n_nodes} nodes, the matrix {n}")
    given.sum_duplicates()
    given.eliminate_zeros()
    indptr, indices = given.indptr.astype(np.int64), given.indices.astype(np.int64)
    matrix = MixingMatrix(indptr, indices, np.asarray(given.data, dtype=np.float64))
    _check_entries(matrix, eta)
    _check_support(matrix, topology)
    by_column = np.lexsort((matrix.rows, matrix.indices))
    _check_sums("row", matrix.weights, matrix.rows, n, slack)
    _check_sums("column", matrix.weights[by_column], matrix.indices[by_column], n, slack)
    return matrix


def _first(wrong: NDArray[np.bool_]) -> int | None:
    return int(np.argmax(wrong)) if wrong.any() else None


def _check_entries(matrix: MixingMatrix, eta: float) -> None:
    rows, columns, weights = matrix.rows, matrix.indices, matrix.weights
    if (k := _first(~(np.isfinite(weights) & (weights > 0.0)))) is not None:
        raise InvalidParameter(
            f"row {rows[k]}, column {columns[k]}: a weight must be finite and at least 0, found {float(weights[k])!r}"
        )
    kept = np.zeros(matrix.n_nodes, dtype=np.bool_)
    kept[rows[rows == columns]] = True
    if (i := _first(~kept)) is not None:
        raise InvalidParameter(f"row {i}: node {i} must keep a part of its own value, found 0 on the diagonal")
    if (k := _first(weights < eta)) is not None:
        raise InvalidParameter(
            f"row {rows[k]}, column {columns[k]}: a weight other than 0 must be at least min_weight = {eta!r}, "
            f"found {float(weights[k])!r}"
        )


def _check_support(matrix: MixingMatrix, topology: Topology | None) -> None:
    n, rows, columns = matrix.n_nodes, matrix.rows, matrix.indices
    there = rows * n + columns
    if (k := _first(~np.isin(columns * n + rows, there))) is not None:
        raise InvalidParameter(
            f"row {rows[k]} has a weight for node {columns[k]}, row {columns[k]} has none for node {rows[k]}: "
            "neighbours must hear each other"
        )
    if topology is None:
        return
    linked = matrix.edges[:, 0] * n + matrix.edges[:, 1]
    if (k := _first(~np.isin(linked, topology.edges[:, 0] * n + topology.edges[:, 1]))) is not None:
        i, j = matrix.edges[k]
        raise InvalidParameter(f"row {i} has a weight for node {j}, which the topology does not link to it")


def _check_sums(what: str, weights: Floats, owners: Integers, n: int, slack: float) -> None:
    ends = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=n))]).tolist()
    listed = weights.tolist()
    for i in range(n):
        # one exact sum, 1 subtracted before it is rounded
        excess = math.fsum([*listed[ends[i] : ends[i + 1]], -1.0])
        if abs(excess) > slack:
            raise InvalidParameter(f"{what} {i} must sum to 1 within {slack:g}, found 1 {excess:+.3g}")
