"""Evaluation of a run: progressive performance, the best fixed model in hindsight, regret, the price of privacy.

**Nothing here is private**, with one exception. Every figure is a function of the raw rows, covered by no guarantee;
every record says so. Progressive means: each row is predicted with the model released by then, and only then learnt.

The exception is :class:`PrivateMetrics`: progressive accuracy (or absolute error) and loss of windows of rows, released
with noise under a guarantee of their own, in the learner's ledger. :class:`DriftAlarm` watches them at no further cost.
"""

from ._alarm import Alarm, DriftAlarm
from ._compare import Comparison, RunFigures, compare, in_target_units, range_of_targets
from ._fixed import beside_constant
from ._hindsight import BestFixed, best_in_hindsight
from ._private import MetricsResult, MetricsWindow, PrivateMetrics
from ._progressive import Progressive, progressive
from ._scores import NOTICE, Curve, Score, Task
from ._tape import Tape

__all__ = [
    "NOTICE",
    "Alarm",
    "BestFixed",
    "Comparison",
    "Curve",
    "DriftAlarm",
    "MetricsResult",
    "MetricsWindow",
    "PrivateMetrics",
    "Progressive",
    "RunFigures",
    "Score",
    "Tape",
    "Task",
    "beside_constant",
    "best_in_hindsight",
    "compare",
    "in_target_units",
    "progressive",
    "range_of_targets",
]
