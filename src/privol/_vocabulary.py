"""Words that the command line needs before it imports anything heavy; their own rooms import them from here."""

from __future__ import annotations

__all__ = [
    "ADJACENCIES",
    "AVERAGE_WEIGHTS",
    "AVERAGINGS",
    "BUILT_TOPOLOGIES",
    "CALIBRATIONS",
    "DESIGNS",
    "L2_SCHEDULES",
    "LOSSES",
    "MIN_L2",
    "NOISE_POSITIONS",
    "NOISE_SHAPES",
    "OBJECTIVES",
    "OBJECTIVE_CALIBRATIONS",
    "OF_CLASSES",
    "OF_ONE_SCORE",
    "OF_TARGETS",
    "ON_INVALID",
    "PROGRAM_ADJACENCIES",
    "PROGRAM_FAILURES",
    "PROXIES",
    "RANDOMIZERS",
    "REGULARIZERS",
    "RENEWALS",
    "ROW_FORMATS",
    "STATISTICS",
    "STEPS",
    "THRESHOLDS",
    "WEIGHTINGS",
    "WIDTHS",
]

# What a loss applies to: with one score, a label of two classes or a real target; with a score for each class, labels
# of all classes. Messages to devices encode a loss by its position in this order, so new ones are appended.
_LOSSES = {
    "logistic": "label",
    "hinge": "label",
    "smooth_hinge": "label",
    "squared": "target",
    "absolute": "target",
    "huber": "target",
    "softmax": "scores",
}

#: Names of the built-in losses.
LOSSES: tuple[str, ...] = tuple(_LOSSES)
OF_TARGETS: tuple[str, ...] = tuple(name for name, of in _LOSSES.items() if of == "target")
OF_CLASSES: tuple[str, ...] = tuple(name for name in LOSSES if name not in OF_TARGETS)
OF_ONE_SCORE: tuple[str, ...] = tuple(name for name, of in _LOSSES.items() if of != "scores")

#: The losses that have a width, and what the width is.
WIDTHS: dict[str, str] = {
    "huber": "errors beyond this width count linearly.  [default: 1.0]",
    "smooth_hinge": "half the width of its rounded corner.  [default: 0.5]",
}

# The values that parameters may have; where kernels number them, in that order.
ADJACENCIES = ("replace", "zero_out")
CALIBRATIONS = ("tight", "published")
OBJECTIVE_CALIBRATIONS = ("tight", "published", "jmlr")
NOISE_SHAPES = ("lipschitz", "smooth", "paper")
L2_SCHEDULES = ("constant", "inverse_sqrt")
#: How iterates are averaged: weighted by their number, equally, or only the last.
AVERAGE_WEIGHTS = ("linear", "uniform", "last")
MIN_L2 = ("quarter", "full")
DESIGNS = ("tree", "honaker", "smooth", "sqrt", "blt", "banded", "independent")
OBJECTIVES = ("max", "mean")
RENEWALS = ("none", "repeat", "double")
#: All but the last are pure.
RANDOMIZERS = ("privunit", "duchi", "l2laplace", "laplace", "gaussian")
STEPS = ("anytime", "horizon", "adaptive")
#: Weights of the average: equal, in proportion to k for release k, or in proportion to k (k + 1).
AVERAGINGS = ("uniform", "linear", "quadratic")
NOISE_POSITIONS = ("gradient", "output")
REGULARIZERS = ("explicit", "implicit")
THRESHOLDS = ("noise", "rda", "published")
#: Ways to combine what a run releases into one number.
STATISTICS = ("auto", "fitted")
#: For programs that are audited: how their tables differ, how they read rows, what happens when they fail.
PROGRAM_ADJACENCIES = ("replace", "add_remove", "zero_out")
ROW_FORMATS = ("json", "csv")
PROGRAM_FAILURES = ("raise", "skip", "count")
BUILT_TOPOLOGIES = ("ring", "grid", "star", "complete")
ON_INVALID = ("raise", "zero")
PROXIES = ("numerical", "hoeffding")
WEIGHTINGS = ("norm", "count")
