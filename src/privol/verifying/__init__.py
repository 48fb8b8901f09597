"""Check a run's guarantee again, from its public record alone.

:mod:`privol.verifying.checker` is one file that imports nothing else of privol, and can be run by itself.
"""

from __future__ import annotations

from .checker import Finding, Unreadable, verdict, verify

__all__ = ["Finding", "Unreadable", "verdict", "verify"]
