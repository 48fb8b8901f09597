"""How soon an alarm of drift is raised, and how often a false one: the table of docs/drift.md.

    python tools/drift_alarm.py            # prints it
    python tools/drift_alarm.py --write    # into the page

Shares are 0 or 1, as of accuracy, at a mean of 0.25 that rises by so much after 20 windows of 1,000 rows; their totals
are those of the windows, with Gaussian noise of the same scale. Keys are fixed.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from pages import DOCS, parser_of, put

from privol.evaluate import DriftAlarm, MetricsWindow

ROWS, BEFORE, AFTER, RUNS, ALPHA, REFERENCE = 1000, 20, 180, 200, 0.01, 10
BUDGETS, RISES = (0.05, 0.1, 0.2, 0.5), (0.02, 0.05, 0.1, 0.2)


def delay(rng: np.random.Generator, rise: float, mu: float) -> float:
    """Windows from the rise to the alarm; negative: a false one; infinite: none."""
    std = math.sqrt(2.0) / mu
    alarm = DriftAlarm(alpha=ALPHA, reference=REFERENCE)
    alarm.begin(name="accuracy", first_bound=1.0, loss_bound=1.0, std=std, window_rows=ROWS)
    means = np.where(np.arange(BEFORE + AFTER) < BEFORE, 0.25, 0.25 + rise)
    totals = rng.binomial(ROWS, means) + std * rng.normal(size=len(means))
    for k, total in enumerate(totals.tolist()):
        alarm.take(MetricsWindow(k * ROWS + 1, (k + 1) * ROWS, 0.0, total))
        if alarm.alarm is not None:
            return float(alarm.alarm.number - BEFORE)
    return np.inf


def line(mu: float, runs: int = RUNS) -> str:
    """The row of a budget, which needs no other."""
    rng, cells = np.random.default_rng(round(1000 * mu)), []
    for rise in RISES:
        found = np.array([delay(rng, rise, mu) for _ in range(runs)])
        missed = float(np.mean(np.isinf(found)))
        middle, late = np.quantile(found, [0.5, 0.9], method="higher")
        cells.append("not seen" if missed > 0.5 else f"{middle:.0f}, {late:.0f}" if missed < 0.1 else f"{middle:.0f}")
    none = np.array([delay(rng, 0.0, mu) for _ in range(runs)])
    return f"| {mu} | {' | '.join(cells)} | {int(np.sum(np.isfinite(none)))} of {runs} |"


def table() -> str:
    head = "| mu of the metrics | " + " | ".join(f"rise {rise}" for rise in RISES) + " | false alarms |"
    return "\n".join([head, "| --- |" + " --- |" * (len(RISES) + 1), *map(line, BUDGETS)])


def main() -> int:
    given, found, page = parser_of(__doc__).parse_args(), table(), DOCS / "drift.md"
    if given.write:
        page.write_text(put(page.read_text(encoding="utf-8"), "alarm", "drift_alarm.py", found), encoding="utf-8")
    else:
        print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
