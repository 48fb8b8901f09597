"""An offline model on the rows that it was learnt from, compared with a constant. Not private."""

from __future__ import annotations

from typing import Any

from ..geometry import WholeSpace
from ..learners.views import export_of, raw_counts
from ._compare import TargetSums, in_target_units, range_of_targets
from ._hindsight import Objective
from ._scores import NOTICE, Task
from ._tape import Tape

__all__ = ["beside_constant"]


def beside_constant(learner: Any, tape: Tape, stream: Any) -> dict[str, Any]:
    """Return figures of a fitted learner's model on the rows of a tape, and those of the best constant.

    Parameters
    ----------
    learner : OfflineLearner
        That has learnt the tape.
    tape : Tape
        Read to its end.
    stream : Stream
        That was recorded: it says what the targets were mapped from.

    Returns
    -------
    dict
        JSON values, marked as **not private**: ``final_model``, ``majority_accuracy`` or ``deviation_of_targets`` (the
        error of the mean), ``target_range``, and counts of rows.
    """
    task = Task.of(learner, tape.classes)
    f = Objective(tape, task, WholeSpace(), learner.x_bound, learner.y_bound, bool(learner.fit_intercept))
    targets = TargetSums(task)
    found = f.scores([export_of(learner).model], targets.add)[0].to_record()
    span = None if task.classification else range_of_targets(stream)
    if targets.deviation:
        found["r_squared"] = 1.0 - (found["root_mean_squared_error"] / targets.deviation) ** 2
    if span is not None:
        found["in_target_units"] = in_target_units(found, span)
    counts = raw_counts(learner)
    return {
        "private": False,
        "notice": NOTICE,
        "classification": task.classification,
        "final_model": found,
        "majority_accuracy": targets.majority,
        "deviation_of_targets": targets.deviation,
        "target_range": None if span is None else list(span),
        "omitted_metrics": list(task.omitted),
        "rows_scaled_to_x_bound": counts["clipped_rows"],
        "null_rows": counts["null_rows"],
    }
