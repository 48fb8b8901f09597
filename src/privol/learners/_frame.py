"""What every compiled run begins with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .._core._noise import Source
from .._threads import threads as usable_threads
from ..calibration import Problem, ReleaseSchedule
from ..noise import STREAM_RELEASES, decide_lattice_point

__all__ = ["RunFrame"]


@dataclass(frozen=True)
class RunFrame:
    """The public facts of a run, when it releases, and the bits of its noise: all that kernels have in common.

    Attributes
    ----------
    problem : Problem
    releases : ReleaseSchedule
        Its horizon is that of the kernel, which counts the rows of all epochs.
    source : Source or None
        None: no noise.
    stream : int
        Of the source, that noise is drawn from.
    threads : int
        Of the process; with more than one another draws noise ahead. No bit depends on it.
    decide : callable
        Rounds an undecided coordinate.
    """

    problem: Problem
    releases: ReleaseSchedule
    source: Source | None
    # factories, so that a name that is replaced meanwhile counts for the next run
    stream: int = field(default_factory=lambda: STREAM_RELEASES)
    threads: int = field(default_factory=usable_threads)
    decide: Callable[[int, Callable[[int], tuple[int, int]], float, float, float], float] = field(
        default_factory=lambda: decide_lattice_point
    )
