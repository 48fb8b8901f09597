"""The beginning of every compiled run."""

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
    """The public facts of a run, its releases and the bits of its noise: what all kernels have in common.

    Attributes
    ----------
    problem : Problem
    releases : ReleaseSchedule
        Its horizon is that of the kernel, which counts the rows of all epochs.
    source : Source or None
        None: no noise.
    stream : int
        The stream of the source from which noise is drawn.
    threads : int
        Threads of the process; with more than one, another thread draws noise ahead. No bit depends on it.
    decide : callable
        Rounds a coordinate that the kernel could not decide.
    """

    problem: Problem
    releases: ReleaseSchedule
    source: Source | None
    # factories, so that a name replaced in the meantime takes effect in the next run
    stream: int = field(default_factory=lambda: STREAM_RELEASES)
    threads: int = field(default_factory=usable_threads)
    decide: Callable[[int, Callable[[int], tuple[int, int]], float, float, float], float] = field(
        default_factory=lambda: decide_lattice_point
    )
