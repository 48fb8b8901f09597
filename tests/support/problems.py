"""Calibrations by plain arguments: those of the problem, of the budget, and their own."""

from __future__ import annotations

from dataclasses import fields

from privol.calibration import Budget, Problem
from privol.losses import Hinge

USUAL = {"loss": Hinge(), "intercept": False, "x_bound": 1.0, "y_bound": 1.0, "adjacency": "replace"}


def calibrated(calibrate, **words):
    """``calibrate(problem, budget, **others)``."""
    words = USUAL | words
    records = []
    for kind in (Problem, Budget):
        names = {field.name for field in fields(kind)} & words.keys()
        records.append(kind(**{name: words.pop(name) for name in names}))
    return calibrate(*records, **words)
