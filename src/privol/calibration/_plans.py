"""The common base of the plans of all runs."""

from __future__ import annotations

from typing import Protocol

from ..guarantees import Claim
from ._epochs import Epochs
from ._iterates import ReleaseSchedule
from ._problem import Problem

__all__ = ["RunPlan"]


class RunPlan(Protocol):
    """The base of all calibrations of a run: all of it public, and the input of the run.

    ``mu`` is the parameter of Gaussian differential privacy of the whole run, infinite without noise; sensitivities and
    deviations are those of the model that is released after a row. ``user_factor``: what all rows of a user cost, in
    multiples of what one costs, under the caps on their number and their distance.
    """

    @property
    def problem(self) -> Problem: ...
    @property
    def releases(self) -> ReleaseSchedule: ...
    @property
    def mu(self) -> float: ...
    @property
    def claim(self) -> Claim | None: ...
    @property
    def row_bound(self) -> float: ...
    @property
    def epochs(self) -> Epochs | None: ...
    def sensitivity(self, row: int) -> float: ...
    def std(self, row: int) -> float: ...
    def last_std(self, row: int) -> float: ...
    def convexity(self, row: int) -> float: ...
    def user_factor(self, rows_per_user: int, user_separation: int) -> float: ...
