"""Sums of mixing matrices in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

from privol import topology as tp


def exact_sums(matrix: tp.MixingMatrix) -> tuple[list[Fraction], list[Fraction]]:
    rows, columns = ([Fraction(0)] * matrix.n_nodes for _ in range(2))
    for i, j, weight in zip(matrix.rows.tolist(), matrix.indices.tolist(), matrix.weights.tolist(), strict=True):
        rows[i] += Fraction(weight)
        columns[j] += Fraction(weight)
    return rows, columns
