"""Jain, Kothari and Thakurta 2012: online linear regression by PQFTL, and the accuracy of PIGD on Covertype."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data import open_covtype
from ..guarantees import format_up
from ..learners import PIGD, PQFTL
from .regret import Ridge, released_models
from .sets import FEATURES, TASKS, Split, scaled, year_prediction, years
from .verdicts import Check, Figure, FloatArray, Line, Measured, Panel, Setting, Table, against, shown, trend

__all__ = ["EPSILONS", "FIGURES", "PRINTED", "ROWS", "SCALINGS", "Scaling", "released"]

EPSILONS = (0.01, 0.1, 1.0, 10.0)
ROWS = 100_000
LONGEST, FARTHEST = 7.0, 5.0  # of rows and targets: fewer than one in a million exceeds them
#: Noise of the sums: the paper's tree and privol's default, both as proved, and Algorithms 4 and 5 as printed.
NOISE: dict[str, dict[str, Any]] = {
    "tree": {"design": "tree"},
    "blt": {"design": "blt"},
    "as printed": {"calibration": "published", "radius": 1e12},
}
POINTS = 40  # of a curve
#: "PQFTL obtained regret of the order of 1e-2 even with high privacy level of epsilon = 0.01": the logarithm may differ
#: by half an order of magnitude.
ORDER, HALF = -2.0, 0.5


# ---- figures 2a and 2b: average regret of PQFTL -----------------------------------------------------------------


@dataclass(frozen=True)
class Scaling:
    """A public factor for rows and targets, and the bounds that follow."""

    name: str
    factor: float

    def rows(self, rows: int) -> Ridge:
        """Return the scaled rows."""
        drawn = Ridge.synthetic(rows)
        return Ridge(self.factor * drawn.X, self.factor * drawn.y, drawn.l2)

    def models(self, rows: Ridge, epsilon: float, key: int, **noise: Any) -> FloatArray:
        """Return the model that PQFTL had released before each row."""
        bounds = {"x_bound": self.factor * LONGEST, "y_bound": self.factor * FARTHEST, "l2": rows.l2}
        return released(rows, epsilon, key, **bounds, **noise)


def released(rows: Ridge, epsilon: float, key: int, **given: Any) -> FloatArray:
    """Let PQFTL learn, with sums and a model after every row; its ball is no constraint."""
    given = {"release": "all", "batch": 1, "radius": 1e3, **given}
    learner = PQFTL(epsilon=epsilon, fit_intercept=False, random_state=key, **given)
    return released_models(learner, rows.X, rows.y)


SCALINGS = (
    Scaling("As drawn, rows of norm 3.2 or so:", 1.0),
    Scaling("Scaled to norm at most 1, targets alike:", 1 / LONGEST),
)


@dataclass
class _Regrets:
    """Average regrets of one set of rows, by noise and epsilon, with curves of the first run."""

    name: str
    rows: Ridge

    def measure(self, setting: Setting, models: Any) -> tuple[list[tuple[str, ...]], Panel, tuple[Check, ...]]:
        """Return table lines, a panel and checks; ``models(epsilon, noise, key)`` gives the model before each row."""
        rows = self.rows
        points = np.unique(np.geomspace(min(100, len(rows.y) // 4), len(rows.y), POINTS).astype(np.int64))
        exact, zero = models(math.inf, "blt", 0), np.zeros_like(rows.X)
        plain = rows.regret(exact)
        curves = [
            Line("follow-the-leader without noise", *_curve(rows, exact, points), kind="bound"),
            Line("always 0", *_curve(rows, zero, points), kind="bound"),
        ]
        lines = []
        means: dict[str, list[float]] = {}
        lowest: dict[str, list[float]] = {}
        for noise in NOISE:
            cells = []
            for epsilon in EPSILONS:
                found = []
                for key in range(setting.runs):
                    run = models(epsilon, noise, key)
                    found.append(rows.regret(run))
                    if key == 0:
                        curves.append(Line(f"{noise}, epsilon = {epsilon:g}", *_curve(rows, run, points)))
                cells.append(found)
                setting.say(f"{self.name}, {noise}, epsilon = {epsilon:g}: {shown(found)}")
            lines.append((self.name, noise, *map(shown, cells)))
            means[noise] = [float(np.mean(found)) for found in cells]
            lowest[noise] = [math.log10(value) for value in cells[0]]
        lines.append((self.name, "follow-the-leader without noise", *[shown([plain])] * len(EPSILONS)))
        lines.append((self.name, "always 0", *[shown([rows.regret(zero)])] * len(EPSILONS)))
        curves.append(Line("paper: order of 1e-2 at epsilon = 0.01", (float(points[-1]),), (10**ORDER,),
                           kind="source"))  # fmt: skip
        falls = all(np.diff(means["tree"]) < 0.0)
        said = (
            f"from {means['tree'][0]:.3g} at epsilon = 0.01 to {means['tree'][-1]:.3g} at 10; without noise {plain:.3g}"
        )
        checks = (
            against(f"{self.name}: log10 of the average regret at epsilon = 0.01", ORDER, lowest["tree"], HALF),
            against(f"{self.name}: the same with Algorithms 4 and 5 as printed", ORDER, lowest["as printed"], HALF),
            trend(f"{self.name}: the regret gets closer to that without noise as epsilon grows", falls, said),
        )
        return lines, Panel(self.name, "rows", "average regret so far", tuple(curves)), checks


def _curve(rows: Ridge, models: FloatArray, points: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(points.astype(float).tolist()), tuple(rows.regrets(models, points).tolist())


_HEAD = ("rows", "noise of the sums", *(f"epsilon = {epsilon:g}" for epsilon in EPSILONS))


def figure_2a(setting: Setting) -> Measured:
    """Average regret on synthetic rows, as drawn and scaled."""
    lines, panels = [], []
    checks: list[Check] = []
    for scaling in SCALINGS:
        rows = scaling.rows(400 if setting.quick else ROWS)
        name = scaling.name.partition(",")[0].lower()
        name = "scaled to norm 1" if "scaled" in name else name

        def models(epsilon: float, noise: str, key: int, at: Scaling = scaling, of: Ridge = rows) -> FloatArray:
            return at.models(of, epsilon, key, **NOISE[noise])

        cells, panel, found = _Regrets(name, rows).measure(setting, models)
        lines += cells
        panels.append(panel)
        checks += found
    return Measured((Table("Average regret", _HEAD, tuple(lines)),), tuple(panels), tuple(checks))


def _songs(setting: Setting) -> Ridge:
    """Return the training rows of YearPredictionMSD, of norm at most 1."""
    X, y, _, _ = year_prediction(setting.folder)
    X = scaled(X)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    return Ridge(X, years(y), 1.0)


def _drawn() -> Ridge:
    """Return synthetic rows with the same number of features, of norm at most 1."""
    drawn = Ridge.synthetic(120, dim=FEATURES)
    longest = float(np.linalg.norm(drawn.X, axis=1).max())
    return Ridge(drawn.X / longest, drawn.y / longest, drawn.l2)


def figure_2b(setting: Setting) -> Measured:
    """Average regret on YearPredictionMSD, in the order of the file."""
    rows = _drawn() if setting.quick else _songs(setting)

    def models(epsilon: float, noise: str, key: int) -> FloatArray:
        bounds = {"x_bound": 1.0, "y_bound": 1.0, "l2": rows.l2, "release": FEATURES}
        return released(rows, epsilon, key, **NOISE[noise], **bounds)

    lines, panel, checks = _Regrets("YearPredictionMSD", rows).measure(setting, models)
    return Measured((Table("Average regret", _HEAD, tuple(lines)),), (panel,), checks)


# ---- figure 2c: accuracy of PIGD --------------------------------------------------------------------------------

BUDGETS = (math.inf, 20.0, 10.0, 1.0, 0.1)
DELTA = 0.01
#: What the paper prints, in percent.
PRINTED = dict(zip(BUDGETS, (68.1, 66.3, 62.7, 59.4, 58.3), strict=True))
TOLERANCE = 2.0
#: Close to no regularization, and enough of it to bring the run without noise near the printed 68.1 %.
PARAMETERS = ({"radius": 20.0, "l2": 0.001}, {"radius": 5.0, "l2": 0.03})
RELEASES: tuple[Any, ...] = ("all", "last")


def figure_2c(setting: Setting) -> Measured:
    """Accuracy on held-out rows, by epsilon, noise and release schedule."""
    rows = _sample() if setting.quick else TASKS[0].split(setting.folder)
    lines, panels = [], []
    checks: tuple[Check, ...] = ()
    for parameters in PARAMETERS:
        name = f"l2 = {parameters['l2']:g}, radius = {parameters['radius']:g}"
        curves = []
        for calibration in ("published", "tight"):
            for release in RELEASES:
                cells, noise = [], []
                for epsilon in BUDGETS:
                    runs = 1 if math.isinf(epsilon) else setting.runs
                    own = "tight" if math.isinf(epsilon) else calibration  # without noise the two are equal
                    found, proved = _accuracies(rows, runs, epsilon=epsilon, calibration=own, release=release,
                                                **parameters)  # fmt: skip
                    cells.append(found)
                    noise.append(proved)
                setting.say(f"{name}, {calibration}, {release}: {', '.join(map(shown, cells))}")
                lines.append((name, calibration, release, *map(shown, cells), " / ".join(noise[1:])))
                if (calibration, release) != ("published", "last"):  # its noise is the same at all releases
                    curves.append(Line.of(f"{calibration} noise, released: {release}", BUDGETS[1:], cells[1:]))
                if parameters is PARAMETERS[1] and (calibration, release) == ("published", "all"):
                    checks = tuple(
                        against("accuracy without noise, %" if math.isinf(epsilon) else f"at epsilon = {epsilon:g}, %",
                                PRINTED[epsilon], found, TOLERANCE)
                        for epsilon, found in zip(BUDGETS, cells, strict=True)
                    )  # fmt: skip
        printed = tuple(PRINTED[epsilon] for epsilon in BUDGETS[1:])
        curves.append(Line("paper", BUDGETS[1:], printed, kind="source"))
        panels.append(
            Panel(name, "epsilon at delta = 0.01", "accuracy on rows held out, %", tuple(curves), log_y=False)
        )
    head = ("setting", "noise", "released", *("no noise" if math.isinf(e) else f"epsilon = {e:g}" for e in BUDGETS),
            "proved epsilons")  # fmt: skip
    size = f"{len(rows.y):,} rows learnt, {len(rows.y_test):,} held out, accuracy in per cent"
    return Measured((Table(size, head, tuple(lines)),), tuple(panels), checks)


def _sample() -> Split:
    """Return rows that come with privol."""
    block = next(iter(open_covtype(block_rows=2_000)))
    assert block.y is not None
    return Split("covtype", block.X[:1_500], block.y[:1_500], block.X[1_500:], block.y[1_500:], 3.0)


def _accuracies(rows: Split, runs: int, **given: Any) -> tuple[list[float], str]:
    """Return accuracies of the last released model in percent, and the epsilon that is proved for the noise."""
    found = []
    for key in range(runs):
        learner = PIGD(delta=DELTA, x_bound=rows.x_bound, random_state=key, **given).fit(rows.X, rows.y)
        found.append(100 * float(learner.score(rows.X_test, rows.y_test)))
    epsilon = learner.guarantee_.epsilon()
    return found, "none" if math.isinf(epsilon) else format_up(epsilon, 3)


_UNSAID = "No delta, scaling of rows and targets, nor covariance is given."

FIGURES = (
    Figure(
        "jain2012", "fig. 2a", "average regret of PQFTL and of FTL on synthetic rows, d = 10", "100,000 rows", 3, 1.0,
        figure_2a,
        chosen=f"{_UNSAID} Independent normal numbers, delta = 1e-6, rows as they are drawn (public bounds 7 and 5 of "
        "norm and target), and rows and targets divided by 7; noise of the targets of deviation 0.01. Tree and blt "
        "have the noise that is proved; as printed: Algorithms 4 and 5 with natural logarithms, leaf t - 1 for row t, "
        "and R the public bound.",
        why="The order of 1e-2 at epsilon = 0.01 comes out on scaled rows alone, and says little there: with alpha = 1 "
        "the model 0 has some 50 times less. As printed, the noisy matrix is indefinite for 139 to 99,986 of the rows "
        "and now and then next to singular: the regret has no mean, and that of a run is of the order of its worst "
        "row, at every epsilon here (JKT-8 to JKT-11 in docs/errata.md).",
    ),
    Figure(
        "jain2012", "fig. 2b", "average regret of PQFTL and of FTL on YearPredictionMSD", "463,715 rows", 2, 7.0,
        figure_2b, files=("YearPredictionMSD.txt",),
        chosen=f"{_UNSAID} Features mapped from public ranges to [-1, 1], rows over norm 1 scaled to it, years mapped "
        "to [-1, 1]; a model after every 90th row; noise as in fig. 2a.",
        why="As fig. 2a.",
    ),
    Figure(
        "jain2012", "fig. 2c", "accuracy of PIGD with the logistic loss on Covertype", "522,910 rows learnt", 10, 2.0,
        figure_2c, files=("covtype.data",),
        chosen="class 2 against the rest, columns mapped by public ranges, rows scaled to norm 3, one pass, the last "
        "model of those released after every row; epsilon is the input of the algorithm. Compared: the paper's noise "
        "at l2 = 0.03 in the ball of radius 5, chosen so that the run without noise is near the printed 68.1 %.",
        why="Scaling, set and regularisation are not given, and the printed noise falls as 1 / l2: the table shows the "
        "accuracy at another l2. That noise proves other epsilons than are claimed: JKT-1 and JKT-3 in docs/errata.md. "
        "docs/published.md has more settings and two more data sets. Tolerance: two points.",
    ),
)  # fmt: skip
