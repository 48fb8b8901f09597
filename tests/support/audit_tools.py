"""Shared code of the tests of audits."""

from __future__ import annotations

from places import ROOT

PAGE = ROOT / "docs" / "audit.md"
DELTA = 1e-5


def seed_of(*words):
    """A separate seed for every audit."""
    return sum((k + 1) * ord(c) for k, c in enumerate(repr(words)))
