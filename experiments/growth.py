"""How PQFTL's regret grows with the horizon: like a power of its logarithm, not like its square root.

    python experiments/growth.py [--quick] [--runs 3]

Rows on the unit sphere in ten dimensions, a linear target, l2 = 1; 10^3 to 10^6 rows, with a separate run for every
horizon. Two curves are fitted to the regret: ``a + b ln(T)^1.5`` and ``a + b sqrt(T)``. Three minutes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import LOOKS, FloatArray, Ridge, arguments, picture, released_models, say, shown, table, write
from matplotlib.figure import Figure

from privol import PIGD, PQFTL

DIM = 10
HORIZONS = (1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000)
LEARNERS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "follow-the-leader without noise": (PQFTL, {"epsilon": math.inf}),
    "PQFTL, epsilon = 10": (PQFTL, {"epsilon": 10.0}),
    "PQFTL, epsilon = 1": (PQFTL, {"epsilon": 1.0}),
    "PQFTL on trees, epsilon = 10": (PQFTL, {"epsilon": 10.0, "design": "tree"}),
    "PIGD, noise of the paper's shape, epsilon = 10": (
        PIGD, {"epsilon": 10.0, "loss": "squared", "noise_shape": "paper"},
    ),
}  # fmt: skip


def synthetic(rows: int) -> Ridge:
    """Return directions and linear targets with noise of standard deviation 0.01."""
    drawn = Ridge.synthetic(rows, seed=2, dim=DIM)
    lengths = np.linalg.norm(drawn.X, axis=1)
    return Ridge(drawn.X / lengths[:, None], drawn.y / lengths, drawn.l2)


def regret(rows: Ridge, name: str, key: int) -> float:
    """Return the regret of a run over all rows: a sum, not an average."""
    kind, given = LEARNERS[name]
    learner = kind(l2=rows.l2, radius=1.0, fit_intercept=False, release="all", random_state=key, **given)
    return len(rows.y) * rows.regret(released_models(learner, rows.X, rows.y))


@dataclass(frozen=True)
class Growth:
    """Regrets by horizon, and the curves through them."""

    horizons: FloatArray
    regrets: FloatArray

    @classmethod
    def of(cls, horizons: Sequence[int], regrets: Sequence[float]) -> Growth:
        """Build it from sequences."""
        return cls(np.array(horizons, dtype=np.float64), np.array(regrets))

    def residual(self, shape: FloatArray) -> float:
        """Return the root mean square of the relative errors of the best fit ``a + b shape``."""
        design = np.column_stack([np.ones_like(shape), shape]) / self.regrets[:, None]
        ones = np.ones_like(shape)
        return float(np.sqrt(np.mean((design @ np.linalg.lstsq(design, ones, rcond=None)[0] - ones) ** 2)))

    @property
    def logarithmic(self) -> float:
        """The residual of ``a + b ln(T)^1.5``."""
        return self.residual(np.log(self.horizons) ** 1.5)

    @property
    def root(self) -> float:
        """The residual of ``a + b sqrt(T)``."""
        return self.residual(np.sqrt(self.horizons))

    @property
    def power(self) -> float:
        """The exponent p of the best fit ``c T^p``."""
        return float(np.polyfit(np.log(self.horizons), np.log(self.regrets), 1)[0])

    @property
    def last_power(self) -> float:
        """The exponent between the last horizon and the one a decade before."""
        first = int(np.argmin(np.abs(self.horizons - self.horizons[-1] / 10)))
        return float(np.log(self.regrets[-1] / self.regrets[first]) / np.log(self.horizons[-1] / self.horizons[first]))

    @property
    def logarithms(self) -> float:
        """The exponent q of the best fit ``c ln(T)^q``."""
        return float(np.polyfit(np.log(np.log(self.horizons)), np.log(self.regrets), 1)[0])


def main() -> None:
    given = arguments(__doc__, runs=3)
    horizons = HORIZONS[:2] if given.quick else HORIZONS
    rows = synthetic(horizons[-1])
    figure = Figure(figsize=(6.5, 5), layout="constrained")
    axis = figure.subplots()
    measured, fitted = [], []
    for number, (name, (_, parameters)) in enumerate(LEARNERS.items()):
        keys = range(1 if parameters["epsilon"] == math.inf else given.runs)
        found = []
        for horizon in horizons:
            first = Ridge(rows.X[:horizon], rows.y[:horizon], rows.l2)
            found.append([regret(first, name, key) for key in keys])
            say(name, horizon, shown(found[-1]))
        means = [statistics.mean(values) for values in found]
        growth = Growth.of(horizons, means)
        measured.append([name, *map(shown, found)])
        fitted.append(
            [name, f"{growth.power:.3f}", f"{growth.last_power:.3f}", f"{growth.logarithms:.2f}",
             f"{100 * growth.logarithmic:.1f} %", f"{100 * growth.root:.1f} %"]
        )  # fmt: skip
        spread = [statistics.stdev(values) if len(values) > 1 else 0.0 for values in found]
        axis.errorbar(horizons, means, yerr=spread, capsize=3, label=name, **{**LOOKS[number], "markersize": 6})
    axis.plot(horizons, np.sqrt(horizons), color="grey", linestyle=":", label="square root of the rows")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("rows T")
    axis.set_ylabel("regret (not private)")
    axis.grid(alpha=0.2)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    picture(figure, "growth.png", given.page)
    head = ["learner", "p of T^p", "p of the last decade", "q of ln(T)^q", "error of ln(T)^1.5", "error of sqrt(T)"]
    lines = [
        "Regret (sum over the rows) by T:", "", *table(["learner", *(f"{n:,}" for n in horizons)], measured), "",
        "Fits:", "", *table(head, fitted),
    ]  # fmt: skip
    write("growth", lines, given.page)


if __name__ == "__main__":
    main()
