"""The interface of learners for code that keeps runs on the disk, such as :class:`privol.state.State`.

It begins runs, rebuilds them from what was kept, and hands them to their learner. A :class:`Run` holds the compiled
state, whose ``secret_arrays`` are **secret**, noise key included: nothing here is for users.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from .._core._learner_run import LearnerRun
from .._core._noise import Source
from ..calibration import RunPlan
from ..guarantees import Guarantee
from ..ledger import Ledger
from ._base import OnlineLearner
from ._ledgered import LedgeredModel
from ._model import Export
from ._run_protocols import RowStream, Run, Take, promised_by
from ._targets import Targets

__all__ = [
    "Export",
    "Run",
    "Targets",
    "adopt_run",
    "averaging_of",
    "begin_run",
    "build_run",
    "drop_run",
    "pay_from",
    "promised_by",
    "show_export",
]


def begin_run(
    learner: OnlineLearner,
    n_features: int,
    horizon: int,
    release: Any,
    targets: Targets,
    stream: RowStream | None,
    take: Take,
) -> Run:
    """Begin a run as ``fit_stream`` does: parameters first, then the reservation of its whole budget.

    Its account says that the run is kept. ``take``: one that reserves the same already, for a learner's name, the
    guarantee, the stream and the ledger; None: there is none.
    """
    return learner._start(n_features, horizon, release, targets, stream, take=take)


def build_run(
    learner: OnlineLearner,
    n_features: int,
    horizon: int,
    release: Any,
    classes: NDArray[Any] | None,
    source: Source | None,
) -> tuple[LearnerRun, RunPlan, Guarantee]:
    """Return a fresh state, the plan and the guarantee of a run that has an account already.

    ``source``: of the noise that the run had; None: it had none.
    """
    return learner._open_run(n_features, horizon, release, classes, source=source)


def adopt_run(learner: OnlineLearner, run: Run, stream: RowStream | None) -> Run:
    """Make a run the learner's current one; a run that is open ends."""
    return learner._adopt(run, stream)


def drop_run(learner: OnlineLearner) -> None:
    """Let a learner forget its current run, which has released nothing."""
    learner.__dict__.pop("_run", None)


def averaging_of(learner: OnlineLearner) -> int:
    """Return the kernels' number for the weights of releases in ``average_coef_``."""
    return learner._averaging()


def pay_from(learner: OnlineLearner, ledger: Ledger) -> None:
    """Let a learner without a ledger pay from this one."""
    learner._own_ledger = ledger


def show_export(learner: LedgeredModel, export: Export) -> None:
    """Let a learner without a run show a released model."""
    learner.__dict__["_export"] = export
