"""From a budget to noise: sensitivities of what is perturbed, as computed, and the scales that follow.

``"tight"`` is what is proved (the rounding of the kernels charged as derived in ``docs/proofs``). ``"published"``
reproduces the formulas of Jain, Kothari & Thakurta (2012), Algorithms 2, 3 and 5; the guarantee then states what they
really give. Iterates: :func:`calibrate_iterates`; prefix sums: :func:`calibrate_sums`; gradients:
:func:`calibrate_gradients`; leaders on sums of gradients: :func:`calibrate_leaders`.
"""

from ._epochs import RENEWALS, Epochs, make_epochs
from ._gradients import GradientCalibration, calibrate_gradients
from ._iterates import (
    CALIBRATIONS,
    L2_SCHEDULES,
    NOISE_SHAPES,
    IterateCalibration,
    ReleaseSchedule,
    calibrate_iterates,
)
from ._leaders import LeaderCalibration, calibrate_leaders
from ._least_squares import LeastSquaresCalibration, calibrate_least_squares
from ._sums import INTEGER_DESIGNS, MOST_ROWS, NO_LAST_ROW, SumCalibration, calibrate_sums

__all__ = [
    "CALIBRATIONS",
    "INTEGER_DESIGNS",
    "L2_SCHEDULES",
    "MOST_ROWS",
    "NOISE_SHAPES",
    "NO_LAST_ROW",
    "RENEWALS",
    "Epochs",
    "GradientCalibration",
    "IterateCalibration",
    "LeaderCalibration",
    "LeastSquaresCalibration",
    "ReleaseSchedule",
    "SumCalibration",
    "calibrate_gradients",
    "calibrate_iterates",
    "calibrate_leaders",
    "calibrate_least_squares",
    "calibrate_sums",
    "make_epochs",
]
