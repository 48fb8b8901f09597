"""Tables and figures of the source papers, measured again: a registry by the papers' own numbers, with verdicts.

The measurements are not private: they are computed from raw rows, public or synthetic, with noise from fixed keys, so
that the same command gives the same figures.
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
