"""Tables and figures of the source papers, measured again: a registry by the papers' own numbers, and their verdicts.

What is measured is not private: it is computed from raw rows, public or synthetic, with noise of fixed keys, so that
the same command gives the same figures.
"""

from __future__ import annotations

from .registry import FIGURES, NO_FIGURES, PAPERS, find
from .runner import missing_files, reproduce, where_to_get
from .verdicts import Check, Figure, Line, Measured, Panel, Result, Setting, Table, index_table

__all__ = [
    "FIGURES",
    "NO_FIGURES",
    "PAPERS",
    "Check",
    "Figure",
    "Line",
    "Measured",
    "Panel",
    "Result",
    "Setting",
    "Table",
    "find",
    "index_table",
    "missing_files",
    "reproduce",
    "where_to_get",
]
