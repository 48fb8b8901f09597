"""Honest evaluation of a run: progressive performance, the best fixed model in hindsight, regret, the price of privacy.

**Nothing here is private.** Every figure is a function of the raw rows, covered by no guarantee; every record says so.
Progressive means: each row is first predicted with the model released by then, and only then learnt.
"""

from ._compare import Comparison, Progressive, RunFigures, compare, progressive
from ._hindsight import BestFixed, best_in_hindsight
from ._scores import NOTICE, Curve, Score
from ._tape import Tape

__all__ = [
    "NOTICE",
    "BestFixed",
    "Comparison",
    "Curve",
    "Progressive",
    "RunFigures",
    "Score",
    "Tape",
    "best_in_hindsight",
    "compare",
    "progressive",
]
