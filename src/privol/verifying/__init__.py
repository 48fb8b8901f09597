"""Check a run's guarantee again, from its public record alone.

:mod:`privol.verifying.checker`, and ``mechanisms`` in the same folder, import nothing else of privol.
"""

from __future__ import annotations

from .checker import Finding, Unreadable, verdict, verify

__all__ = ["Finding", "Unreadable", "verdict", "verify"]
