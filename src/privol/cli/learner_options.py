"""The options for the parameters of learners: their help, and the default that it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from .._vocabulary import (
    ADJACENCIES,
    AVERAGE_WEIGHTS,
    AVERAGINGS,
    BUILT_TOPOLOGIES,
    DESIGNS,
    L2_SCHEDULES,
    MIN_L2,
    NOISE_POSITIONS,
    NOISE_SHAPES,
    OBJECTIVE_CALIBRATIONS,
    OBJECTIVES,
    OF_CLASSES,
    OF_TARGETS,
    ON_INVALID,
    PROXIES,
    RANDOMIZERS,
    REGULARIZERS,
    RENEWALS,
    STEPS,
    THRESHOLDS,
    WEIGHTINGS,
)
from .option_types import IntervalType, ReleaseType, SetType, WeightsType

__all__ = ["LEARNER_OPTIONS", "LearnerOption"]


@dataclass(frozen=True)
class LearnerOption:
    """An option that sets the constructor parameter of the same name.

    ``default`` is what the help shows: the constructor's own default, which alone decides.
    """

    parameter: str
    kind: Any
    default: str
    help: str
    metavar: str | None = None


LEARNER_OPTIONS = (
    LearnerOption(
        "loss",
        click.Choice([*OF_CLASSES, *OF_TARGETS]),
        "logistic",
        f"The first {len(OF_CLASSES)} learn classes, the others real targets. With more than two classes (adaptive, "
        "dpftrl) softmax learns all of them at once, the other losses each class against the rest.",
    ),
    LearnerOption(
        "epsilon",
        float,
        "1.0",
        "Privacy budget of the whole run, above 0. inf: no noise and no guarantee.",
    ),
    LearnerOption(
        "delta",
        float,
        "1e-06",
        "Between 0 and 1, and well below one over the number of rows. With objective-perturbation, output-perturbation "
        "and pol it may be 0: pure privacy, by L2-Laplace noise.",
    ),
    LearnerOption(
        "mu",
        float,
        "by --epsilon",
        "The budget as mu of Gaussian differential privacy, in place of --epsilon. For learners with Gaussian noise.",
    ),
    LearnerOption(
        "rows_per_user",
        int,
        "the budget is for one row",
        "The budget covers all rows of one user, at most this many (pigd, pgiga, nogd, dpftrl, adaptive, pqftl and the "
        "offline learners).",
        "ROWS",
    ),
    LearnerOption(
        "user_separation",
        int,
        "1",
        "With --rows-per-user: any two rows of a user are at least this many rows apart. This needs less noise.",
        "ROWS",
    ),
    LearnerOption(
        "adjacency",
        click.Choice(ADJACENCIES),
        "replace",
        "What may differ between two neighbouring streams: any content of one row (replace), or whether it is there "
        "(zero_out).",
    ),
    LearnerOption(
        "release",
        ReleaseType(),
        "pigd, pgiga: last; pqftl: at intervals; others: all",
        "Models to publish: last, all, every K-th row, or after the rows N1,N2,... More models need much more noise "
        "with pigd and pgiga, and none with the others.",
        "last|all|K|N1,N2,...",
    ),
    LearnerOption(
        "radius",
        float,
        "1.0; offline learners: from l2 and the bounds",
        "Radius of the L2 ball in which models stay.",
    ),
    LearnerOption(
        "domain",
        SetType(),
        "the L2 ball",
        "Another set for the models: l1:RADIUS, box:LOW:HIGH, simplex:TOTAL.",
        "SET",
    ),
    LearnerOption(
        "x_bound",
        float,
        "1.0",
        "Public bound on a row's L2 norm. Longer rows are scaled to it. A schema, or ranges of all columns, imply a "
        "bound, which is then the default.",
    ),
    LearnerOption(
        "y_bound",
        float,
        "1.0",
        "Public bound on a real target. Targets beyond it are clipped.",
    ),
    LearnerOption(
        "l2",
        float,
        "0.01; nogd, dpftrl, ldpsgd, dola: 0; offline learners: from rows, features, budget and bounds",
        "Strength of the L2 regulariser (strong convexity). A larger value means less noise and a model closer to 0.",
    ),
    LearnerOption(
        "min_l2",
        click.Choice(MIN_L2),
        "quarter",
        "objective-perturbation: if l2 is too small for the curvature of the loss, it is increased until the "
        "curvature costs at most half of epsilon (quarter) or, with the logistic loss, nothing (full).",
    ),
    LearnerOption(
        "error",
        float,
        "from l2",
        "pol: in place of --l2, how much the regulariser may add to the risk of the best model.",
    ),
    LearnerOption(
        "weights",
        click.Choice(AVERAGE_WEIGHTS),
        "linear",
        "pol: weight of iterate t in the average: t (linear), the same for all (uniform), or the last iterate alone "
        "(last).",
    ),
    LearnerOption(
        "max_iter",
        int,
        "200",
        "objective-perturbation, output-perturbation: largest number of Newton steps per class. A fit that needs more "
        "fails, and its budget counts as spent.",
    ),
    LearnerOption(
        "l2_schedule",
        click.Choice(L2_SCHEDULES),
        "constant",
        "inverse_sqrt: l2 falls with the row number t, about as l2 / sqrt(t).",
    ),
    LearnerOption(
        "step_offset",
        float,
        "by the learner",
        "Weight of the starting point, as a number of rows.",
    ),
    LearnerOption(
        "noise_shape",
        click.Choice(NOISE_SHAPES),
        "lipschitz",
        "How the budget is spread over the releases: for the least total norm of the noise (lipschitz), for the least "
        "total square (smooth), or as 1/t (paper).",
    ),
    LearnerOption(
        "regularization",
        float,
        "from the noise",
        "dpftrl: weight of the starting point. Tune it on public data only.",
    ),
    LearnerOption(
        "design",
        click.Choice(DESIGNS),
        "blt",
        "dpftrl, pqftl: matrix factorisation by which running sums share their noise.",
    ),
    LearnerOption(
        "buffers",
        int,
        "4",
        "With --design blt: number of buffers. More of them mean less noise and more memory.",
    ),
    LearnerOption(
        "objective",
        click.Choice(OBJECTIVES),
        "max",
        "With --design blt or banded: minimise the largest or the mean error of the sums.",
    ),
    LearnerOption(
        "bandwidth",
        int,
        "by the error, at most 4096",
        "With --design banded: steps that share their noise. Memory, and time for each step, grow with them.",
    ),
    LearnerOption(
        "renewal",
        click.Choice(RENEWALS),
        "none",
        "adaptive, dpftrl, pqftl: what follows at the horizon: the end (none), or epochs of the same length (repeat) "
        "or of twice the length each (double), with fresh noise. The budget stays that of one epoch.",
    ),
    LearnerOption(
        "batch",
        int,
        "1; pqftl: the rows between two models",
        "Rows of one step; with nodes, rows of each node.",
    ),
    LearnerOption(
        "nodes",
        int,
        "16",
        "dola, sparse-dola: number of nodes.",
    ),
    LearnerOption(
        "topology",
        click.Choice(BUILT_TOPOLOGIES),
        "ring",
        "dola, sparse-dola: which nodes hear each other.",
    ),
    LearnerOption(
        "noise_position",
        click.Choice(NOISE_POSITIONS),
        "gradient",
        "dola: add noise to the gradient, or to the projected step, as first published (output).",
    ),
    LearnerOption(
        "regularizer",
        click.Choice(REGULARIZERS),
        "explicit",
        "dola: take the regulariser's gradient before the step (explicit) or after it (implicit).",
    ),
    LearnerOption(
        "threshold",
        click.Choice(THRESHOLDS),
        "noise",
        "sparse-dola: set small coordinates to 0, measured by the noise in them (noise), by --l1 times all steps so "
        "far (rda), or by --l1 times the current step (published).",
    ),
    LearnerOption(
        "l1",
        float,
        "sqrt(2 log d)",
        "sparse-dola: the threshold, in standard deviations of the noise or in units of the steps.",
    ),
    LearnerOption(
        "discount",
        float,
        "1.0",
        "dpftrl, pqftl: forget old rows. Every later row multiplies a row's weight by this number. For streams that "
        "drift; with design blt, sqrt, banded or independent.",
    ),
    LearnerOption(
        "window",
        int,
        "none",
        "In place of --discount: sums over this many last rows only.",
        "ROWS",
    ),
    LearnerOption(
        "noise_shift",
        float,
        "2.0",
        "pqftl: what is added to the matrix against its noise, in units of the norm of that noise.",
    ),
    LearnerOption(
        "gradient_bound",
        float,
        "from the loss",
        "Learners that perturb gradients: longer gradients are scaled to this L2 norm.",
    ),
    LearnerOption(
        "leakage",
        float,
        "0.1",
        "miogd, bandit: mutual information between a row and its report, in nats. Or state --sigma or --epsilon.",
    ),
    LearnerOption(
        "sigma",
        float,
        "from the leakage",
        "miogd, bandit: standard deviation of a device's noise.",
    ),
    LearnerOption(
        "randomizer",
        click.Choice(RANDOMIZERS),
        "privunit; agnostic: l2laplace; bandit, dola, sparse-dola: gaussian",
        "ldpsgd, banco, agnostic, multiscale, bandit, dola, sparse-dola: how a device or node randomizes its gradient "
        "or loss.",
    ),
    LearnerOption(
        "step",
        click.Choice(STEPS),
        "anytime",
        "miogd, ldpsgd, bandit: choose step lengths by the row number (anytime), by the horizon, or by the reports so "
        "far (adaptive).",
    ),
    LearnerOption(
        "step_size",
        float,
        "from the regret bound",
        "ldpsgd, dola: factor of all steps.",
    ),
    LearnerOption(
        "lazy",
        bool,
        "yes",
        "miogd: project the sum of all reports, instead of the last point.",
    ),
    LearnerOption(
        "values",
        int,
        "1",
        "bandit: number of losses that a device evaluates, 1 or 2.",
    ),
    LearnerOption(
        "value_bounds",
        IntervalType(),
        "from the loss",
        "bandit: losses are clipped to this interval.",
        "LOW:HIGH",
    ),
    LearnerOption(
        "shrink",
        bool,
        "yes",
        "bandit: evaluate losses only at points within the set.",
    ),
    LearnerOption(
        "wealth",
        float,
        "1.0",
        "banco, agnostic: initial wealth of the bettor, about the size of the first models.",
    ),
    LearnerOption(
        "theta",
        float,
        "0.25",
        "banco, multiscale: how close bets come to the limit at which the moments of Laplace noise end, as a share of "
        "it.",
    ),
    LearnerOption(
        "weighting",
        click.Choice(WEIGHTINGS),
        "norm",
        "banco: weigh rounds by the noise along the direction (norm), or count them, as published (count).",
    ),
    LearnerOption(
        "proxy",
        click.Choice(PROXIES),
        "numerical",
        "banco, multiscale: bound on the noise of privunit and duchi: computed, or proved but larger (hoeffding).",
    ),
    LearnerOption(
        "growth",
        float,
        "1.0",
        "agnostic: how fast bets shrink as squared gains add up.",
    ),
    LearnerOption(
        "direction_step",
        float,
        "1.0; multiscale: 1.4",
        "banco, agnostic, multiscale: step length of the direction.",
    ),
    LearnerOption(
        "magnitude_cap",
        float,
        "none",
        "banco, agnostic: largest magnitude of a bet. No regret bound is proved with it.",
    ),
    LearnerOption(
        "smallest_radius",
        float,
        "0.001",
        "multiscale: smallest radius of an expert, divided by the gradient bound.",
    ),
    LearnerOption(
        "largest_radius",
        float,
        "1000.0",
        "multiscale: largest radius of an expert, divided by the gradient bound.",
    ),
    LearnerOption(
        "radii_per_decade",
        int,
        "2",
        "multiscale: number of experts per factor of 10.",
    ),
    LearnerOption(
        "prior_decay",
        float,
        "0.15",
        "multiscale: how much more weight small radii have at the start.",
    ),
    LearnerOption(
        "averaging",
        click.Choice(AVERAGINGS),
        "uniform; multiscale: quadratic",
        "miogd, ldpsgd, banco, agnostic, multiscale, dola, sparse-dola: how much more later models count in the "
        "average.",
    ),
    LearnerOption(
        "class_weight",
        WeightsType(),
        "1 each",
        "adaptive, dpftrl: weights of the rows of each class. Public constants; the noise grows with the largest.",
        "LABEL=W,...",
    ),
    LearnerOption(
        "fit_intercept",
        bool,
        "yes",
        "Append a constant to every row. Its weight is regularised like the others.",
    ),
    LearnerOption(
        "calibration",
        click.Choice(OBJECTIVE_CALIBRATIONS),
        "tight",
        "tight: the noise that is proved. published: the paper's noise; the guarantee then states the paper's claim "
        "and what is proved. jmlr: objective-perturbation's noise of 2011, proved and larger.",
    ),
    LearnerOption(
        "on_invalid",
        click.Choice(ON_INVALID),
        "raise",
        "What a row that is not finite does: end the run with an error that names it (raise), or count as a null row "
        "(zero).",
    ),
)
