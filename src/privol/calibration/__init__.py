"""From a budget to noise: sensitivities of the perturbed values, as computed, and the resulting scales.

``"tight"`` is the proved calibration, which charges the rounding of the kernels (``docs/proofs``). ``"published"``
reproduces formulas of Jain, Kothari & Thakurta (2012), of Monteleoni & Chaudhuri (2008) and of Li et al. (2018); the
guarantee then states what is proved for their noise. Iterates: :func:`calibrate_iterates`, and their average:
:func:`calibrate_average`; prefix sums: :func:`calibrate_sums`; gradients: :func:`calibrate_gradients`; leaders on sums
of gradients: :func:`calibrate_leaders`, and one that tunes itself: :func:`calibrate_adaptive`; coin betting on noisy
gradients: :func:`betting_regret`; experts of many magnitudes: :func:`experts_regret`; nodes that learn together:
:func:`calibrate_network`; minimisers over all rows at once: :func:`calibrate_output` and :func:`calibrate_objective`.
"""

from ._averages import AVERAGE_WEIGHTS, AverageCalibration, average_rule, calibrate_average, sample_size
from ._bandit import BanditCalibration, bounds_of_values, calibrate_bandit, inner_radius, published_values
from ._betting import BETTING_CALIBRATIONS, Betting, agnostic_bet, agnostic_regret, betting_regret
from ._caps import gaussian_cap_of
from ._epochs import RENEWALS, Epochs, make_epochs
from ._experts import MOST_EXPERTS, Experts, experts_of, experts_regret
from ._gradients import GradientCalibration, calibrate_gradients
from ._iterates import (
    CALIBRATIONS,
    L2_SCHEDULES,
    NOISE_SHAPES,
    IterateCalibration,
    ReleaseSchedule,
    calibrate_iterates,
)
from ._leaders import LeaderCalibration, Tuning, calibrate_leaders
from ._least_squares import LeastSquaresCalibration, calibrate_least_squares
from ._local import Coin, GradientTerms, LocalCalibration, betting_of, bound_of_gradients, calibrate_steps
from ._network import NOISE_POSITIONS, REGULARIZERS, THRESHOLDS, NetworkCalibration, calibrate_network
from ._objective import MIN_L2, OBJECTIVE_CALIBRATIONS, ObjectiveCalibration, calibrate_objective
from ._offline import MOST_OUTPUTS, OutputCalibration, calibrate_output, minimiser_bound
from ._participation import (
    MOST_ROWS_PER_USER,
    budget_of_rows,
    check_user,
    factor_of_steps,
    less_than_all,
    mu_with_taught,
    users_of,
)
from ._plans import RunPlan
from ._problem import EPSILON, Budget, Problem, epsilon_of, stated_epsilon
from ._records import mechanism_record, offline_record, sums_record, wrapped_record
from ._reports import (
    RANDOMIZERS,
    Proxy,
    ReportNoise,
    calibrate_report,
    gaussian_leakage,
    gaussian_leakage_std,
)
from ._sums import INTEGER_DESIGNS, MOST_ROWS, NO_LAST_ROW, SumCalibration, calibrate_sums
from ._tuned_leaders import LARGEST_SCORE, calibrate_adaptive, score_unit
from ._wrapped import WrappedCalibration, calibrate_wrapped

__all__ = [
    "AVERAGE_WEIGHTS",
    "BETTING_CALIBRATIONS",
    "CALIBRATIONS",
    "EPSILON",
    "INTEGER_DESIGNS",
    "L2_SCHEDULES",
    "LARGEST_SCORE",
    "MIN_L2",
    "MOST_EXPERTS",
    "MOST_OUTPUTS",
    "MOST_ROWS",
    "MOST_ROWS_PER_USER",
    "NOISE_POSITIONS",
    "NOISE_SHAPES",
    "NO_LAST_ROW",
    "OBJECTIVE_CALIBRATIONS",
    "RANDOMIZERS",
    "REGULARIZERS",
    "RENEWALS",
    "THRESHOLDS",
    "AverageCalibration",
    "BanditCalibration",
    "Betting",
    "Budget",
    "Coin",
    "Epochs",
    "Experts",
    "GradientCalibration",
    "GradientTerms",
    "IterateCalibration",
    "LeaderCalibration",
    "LeastSquaresCalibration",
    "LocalCalibration",
    "NetworkCalibration",
    "ObjectiveCalibration",
    "OutputCalibration",
    "Problem",
    "Proxy",
    "ReleaseSchedule",
    "ReportNoise",
    "RunPlan",
    "SumCalibration",
    "Tuning",
    "WrappedCalibration",
    "agnostic_bet",
    "agnostic_regret",
    "average_rule",
    "betting_of",
    "betting_regret",
    "bound_of_gradients",
    "bounds_of_values",
    "budget_of_rows",
    "calibrate_adaptive",
    "calibrate_average",
    "calibrate_bandit",
    "calibrate_gradients",
    "calibrate_iterates",
    "calibrate_leaders",
    "calibrate_least_squares",
    "calibrate_network",
    "calibrate_objective",
    "calibrate_output",
    "calibrate_report",
    "calibrate_steps",
    "calibrate_sums",
    "calibrate_wrapped",
    "check_user",
    "epsilon_of",
    "experts_of",
    "experts_regret",
    "factor_of_steps",
    "gaussian_cap_of",
    "gaussian_leakage",
    "gaussian_leakage_std",
    "inner_radius",
    "less_than_all",
    "make_epochs",
    "mechanism_record",
    "minimiser_bound",
    "mu_with_taught",
    "offline_record",
    "published_values",
    "sample_size",
    "score_unit",
    "stated_epsilon",
    "sums_record",
    "users_of",
    "wrapped_record",
]
