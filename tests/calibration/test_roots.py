"""Roots by bisection: the sign changes between the returned double and the one below."""

from __future__ import annotations

import math

import pytest

from privol._roots import falling_root


@pytest.mark.parametrize("root", [1.0 / 3.0, 1e-200, 5e-324, 7.0 - 1e-15, 7.0])
def test_the_sign_changes_at_the_root(root: float) -> None:
    found = falling_root(lambda x: root - x, 7.0)
    assert found == root
    assert math.nextafter(found, 0.0) < root


def test_where_the_computed_sign_changes() -> None:
    found = falling_root(lambda x: 2.0 - x * x, 2.0)
    below = math.nextafter(found, 0.0)
    assert found * found >= 2.0 > below * below
