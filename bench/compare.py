"""Ratios of privol against its peers, measured side by side in one process: ``python bench/compare.py``.

Every comparison alternates the two sides, so that drifting speed affects both, and reports the median of the pairwise
ratios. Times are processor times, which other users of the machine affect less, and medians too; quote the ratios. With
two cores they are wall-clock times: no other program may run. ``--quick`` runs a tenth of the rows, ``--json FILE``
saves the figures, ``--only WORD`` selects comparisons by name.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privol import set_threads

FEATURES = 54
LABELS = np.array([-1, 1])


@dataclass
class Row:
    """One line of the table: `ratio` is peer time over privol time, so privol is faster above 1."""

    name: str
    unit: str
    privol: float
    peer: float
    ratio: float
    low: float
    high: float
    peer_name: str
    aim: str


def data(rows: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Noisy linearly separable rows of unit norm."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, FEATURES))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(X[:, 0] + 0.3 * X[:, 1] + 0.2 * rng.normal(size=rows) > 0, 1, -1)
    return X, y


def pair(
    name: str,
    unit: str,
    per: int,
    privol: Callable[[], Any],
    peer: Callable[[], Any],
    peer_name: str,
    rounds: int = 7,
    aim: str = "",
    clock: Callable[[], float] = time.process_time,
) -> Row:
    """Alternate the two sides; times are seconds over `per`, in nanoseconds."""
    ours, theirs = [], []
    privol(), peer()
    for _ in range(rounds):
        for function, times in ((privol, ours), (peer, theirs)):
            start = clock()
            function()
            times.append((clock() - start) / per * 1e9)
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    middle = statistics.median
    row = Row(name, unit, middle(ours), middle(theirs), middle(ratios), min(ratios), max(ratios), peer_name, aim)
    print(f"  {name}: {row.ratio:.2f}x", file=sys.stderr, flush=True)
    return row


def learners(rows: int) -> list[Row]:
    """Learners over dense rows against scikit-learn's non-private SGD."""
    from sklearn.linear_model import SGDClassifier

    from privol import DPFTRL, NOGD, PGIGA, PIGD, AdaptiveFTRL

    X, y = data(rows)

    def peer() -> None:
        SGDClassifier(loss="log_loss").partial_fit(X, y, classes=LABELS)

    table = []
    for learner in (PIGD, PGIGA):
        for label, parameters in (
            ("no noise", {"epsilon": math.inf, "release": "last"}),
            ("one release", {"release": "last"}),
            ("noise every 100 rows", {"release": 100}),
            ("noise at every row", {"release": "all"}),
        ):
            for radius, activity in ((10.0, "inside the ball"), (1.0, "on the ball")):

                def ours(learner: Any = learner, parameters: Any = parameters, radius: float = radius) -> None:
                    learner(horizon=rows, radius=radius, l2=1e-3, **parameters).partial_fit(X, y, classes=LABELS)

                name = f"{learner.__name__}, {label}, {activity}"
                aim = "1.0x" if parameters["release"] == "all" else ""
                table.append(pair(name, "ns/row", rows, ours, peer, "scikit-learn SGDClassifier", aim=aim))
    for label, parameters in (
        ("no noise, BLT", {"epsilon": math.inf}),
        ("BLT", {}),
        ("BLT, steps of 10 rows", {"batch": 10}),
        ("tree", {"design": "tree"}),
        ("independent", {"design": "independent"}),
    ):

        def leader(parameters: Any = parameters) -> None:
            DPFTRL(horizon=rows, radius=10.0, **parameters).partial_fit(X, y, classes=LABELS)

        aim = "1.0x" if label == "BLT" else ""
        table.append(pair(f"DPFTRL, {label}", "ns/row", rows, leader, peer, "scikit-learn SGDClassifier", aim=aim))

    def descent() -> None:
        NOGD(horizon=rows, radius=10.0).partial_fit(X, y, classes=LABELS)

    name = "NOGD, noise at every row"
    table.append(pair(name, "ns/row", rows, descent, peer, "scikit-learn SGDClassifier", aim="1.0x"))

    def adaptive() -> None:
        AdaptiveFTRL(horizon=rows).partial_fit(X, y, classes=LABELS)

    table.append(pair("AdaptiveFTRL", "ns/row", rows, adaptive, peer, "scikit-learn SGDClassifier"))
    return table


def two_cores(rows: int) -> list[Row]:
    """Noise at every row, drawn ahead by a second thread: wall-clock time."""
    from sklearn.linear_model import SGDClassifier

    from privol import DPFTRL, NOGD, PGIGA, PIGD

    X, y = data(rows)

    def peer() -> None:
        SGDClassifier(loss="log_loss").partial_fit(X, y, classes=LABELS)

    table = []
    for name, kind, parameters, aim in (
        ("PIGD, inside the ball", PIGD, {"release": "all", "radius": 10.0, "l2": 1e-3}, "1.6x"),
        ("PIGD, on the ball", PIGD, {"release": "all", "radius": 1.0, "l2": 1e-3}, "1.6x"),
        ("PGIGA, inside the ball", PGIGA, {"release": "all", "radius": 10.0, "l2": 1e-3}, "1.6x"),
        ("NOGD", NOGD, {"radius": 10.0}, "1.6x"),
        ("DPFTRL, BLT", DPFTRL, {"radius": 10.0}, "1.5x"),
    ):
        for threads in (1, 2):
            set_threads(threads)

            def ours(kind: Any = kind, parameters: Any = parameters) -> None:
                kind(horizon=rows, **parameters).partial_fit(X, y, classes=LABELS)

            table.append(
                pair(
                    f"{name}, {threads} thread{'s' * (threads - 1)}", "ns/row", rows, ours, peer,
                    "scikit-learn SGDClassifier", aim=aim if threads == 2 else "", clock=time.perf_counter,
                )
            )  # fmt: skip
    set_threads(1)
    return table


def one_row(rows: int) -> list[Row]:
    """One-row calls against scikit-learn's and River's."""
    from river.linear_model import LinearRegression, LogisticRegression
    from sklearn.linear_model import SGDClassifier

    from privol import DPFTRL, PIGD, PQFTL

    n = max(rows // 25, 2000)
    X, y = data(n + 1)
    names = [f"feature {j}" for j in range(FEATURES)]
    records = [dict(zip(names, x.tolist(), strict=True)) for x in X]
    targets = [bool(label > 0) for label in y]
    vectors, labels = list(X), y.tolist()

    def ours(release: Any) -> Callable[[], None]:
        def run() -> None:
            learner = PIGD(horizon=n + 1, release=release)
            learner.partial_fit(X[:1], y[:1], classes=LABELS)
            learn = learner.learn_one
            for i in range(1, n + 1):
                learn(vectors[i], labels[i])

        return run

    def river() -> None:
        learner = LogisticRegression()
        learn = learner.learn_one
        for i in range(1, n + 1):
            learn(records[i], targets[i])

    few = n // 40
    sgd = SGDClassifier(loss="log_loss").partial_fit(X[:1], y[:1], classes=LABELS)

    def sklearn() -> None:
        for i in range(1, few + 1):
            sgd.partial_fit(X[i : i + 1], y[i : i + 1])

    def named(learner: Any, rows: list[Any], answers: list[Any]) -> Callable[[], None]:
        def run() -> None:
            learn = learner().learn_one
            for i in range(1, n + 1):
                learn(rows[i], answers[i])

        return run

    def begun(kind: Any, **parameters: Any) -> Any:
        learner = kind(horizon=n + 1, **parameters).declare_features(names)
        return learner if kind is PQFTL else learner.declare_classes(LABELS)

    table = []
    for kind, parameters in ((PIGD, {"release": "last"}), (DPFTRL, {})):
        of_dicts = named(lambda kind=kind, parameters=parameters: begun(kind, **parameters), records, labels)
        name = f"learn_one of dicts, {kind.__name__}"
        table.append(pair(name, "ns/row", n, of_dicts, river, "River learn_one", rounds=5, aim="3,000 ns"))
    reals = X[:, 0].tolist()
    regression = named(LinearRegression, records, reals)
    for made, label, aim in ((records, "of dicts, PQFTL", "3,000 ns"), (vectors, "PQFTL", "1,000 ns")):
        quadratic = named(lambda: begun(PQFTL), made, reals)
        name = f"learn_one {label}"
        table.append(pair(name, "ns/row", n, quadratic, regression, "River learn_one", rounds=5, aim=aim))
    for release, label in (("last", "one release"), ("all", "noise at every row")):
        name, made = f"learn_one, {label}", ours(release)
        table.append(pair(name, "ns/row", n, made, river, "River learn_one", rounds=5, aim="1,000 ns"))
        row = pair(f"learn_one, {label}", "ns/row", n, ours(release), sklearn, "scikit-learn partial_fit", rounds=5)
        factor = n / few  # the peer ran a fortieth of the rows
        scaled = {name: getattr(row, name) * factor for name in ("peer", "ratio", "low", "high")}
        table.append(replace(row, **scaled))
    fitted, guesser = PIGD(release="last").fit(X, y), LogisticRegression()
    for record, target in zip(records[:1000], targets, strict=False):
        guesser.learn_one(record, target)

    def predicted(by: Any, rows: list[Any]) -> Callable[[], None]:
        def run() -> None:
            predict = by.predict_one
            for row in rows[1:]:
                predict(row)

        return run

    fitted.declare_features(names)
    theirs = predicted(guesser, records)
    for rows_of, label, aim in ((vectors, "predict_one", "1,000 ns"), (records, "predict_one of dicts", "3,000 ns")):
        guess = predicted(fitted, rows_of)
        table.append(pair(label, "ns/row", n, guess, theirs, "River predict_one", rounds=5, aim=aim))
    return table + whole_table(n, records, labels, river, theirs)


def whole_table(
    n: int, records: list[Any], labels: list[Any], river: Callable[[], None], guesser: Callable[[], None]
) -> list[Row]:
    """Dicts through a learnt encoding: 54 columns of numbers, and 12 of them with two of text."""
    from privol import PrivateClassifier

    words = [f"word {k}" for k in range(50)]
    mixed = [
        {**{name: x[name] for name in list(x)[:10]}, "ward": words[i % 50], "town": words[i % 7]}
        for i, x in enumerate(records)
    ]
    table = []
    for label, rows in (("54 columns", records), ("12 columns", mixed)):
        model, taught = PrivateClassifier(epsilon=2.0, horizon=1_000_000, classes=LABELS), 0
        while not hasattr(model, "learner_"):  # the first rows teach, in blocks
            at = taught % len(rows)
            model.partial_fit(rows[at : at + 5000], labels[at : at + 5000])
            taught += len(rows[at : at + 5000])

        def learn(model: Any = model, rows: list[Any] = rows) -> None:
            for i in range(1, n + 1):
                model.learn_one(rows[i], labels[i])

        def guess(model: Any = model, rows: list[Any] = rows) -> None:
            for i in range(1, n + 1):
                model.predict_one(rows[i])

        name = f"PrivateClassifier of dicts, {label}"
        for what, ours, peer in (("learn_one", learn, river), ("predict_one", guess, guesser)):
            row = pair(f"{what}, {name}", "ns/row", n, ours, peer, f"River {what}", rounds=5, aim="3,000 ns")
            table.append(row)
    return table


def noise(rows: int) -> list[Row]:
    """Cryptographic lattice Gaussian against NumPy's."""
    from privol.noise import Gaussian

    n = rows * 4
    ours, peer = Gaussian(scale=1.0), np.random.default_rng()
    return [
        pair("Gaussian sample", "ns/value", n, lambda: ours.sample(n), lambda: peer.standard_normal(n), "NumPy PCG64")
    ]


MEMORY = """
import sys, numpy as np
from privol import PIGD
from privol.streams import open_stream
rows, block = int(sys.argv[1]), 16384
rng = np.random.default_rng(0)
X = rng.normal(size=(block, 54)) / 8
y = (X[:, 0] > 0).astype(float)
def blocks():
    left = rows
    while left:
        n = min(left, block)
        yield X[:n], y[:n]
        left -= n
learner = PIGD(horizon=rows, release=sys.argv[2] if sys.argv[2] == "all" else int(sys.argv[2]))
learner.fit_stream(open_stream(blocks(), classes=(0, 1)))
for line in open("/proc/self/status"):
    if line.startswith("VmHWM"):
        print(int(line.split()[1]) / 1024)
"""


def memory(rows: int) -> list[tuple[str, int, float]]:
    """Peak resident memory of fit_stream in MiB, in a separate process (Linux)."""
    table = []
    for release in ("all", "1000"):
        for n in (rows // 5, rows * 2, rows * 20):
            command = [sys.executable, "-c", MEMORY, str(n), release]
            peak = float(subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ).stdout)
            table.append((f"release={release}", n, peak))
            print(f"  fit_stream, release={release}, {n} rows: {peak:.0f} MiB", file=sys.stderr, flush=True)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--only", default="", help="learners, two_cores, one_row, noise or memory")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    rows = 50_000 if arguments.quick else 500_000
    table: list[Row] = []
    set_threads(1)
    for suite in (learners, two_cores, one_row, noise):
        if arguments.only in suite.__name__:
            table += suite(rows)
    peaks = memory(rows) if arguments.only in "memory" else []

    print(
        f"\n{rows} dense rows, {FEATURES} features; one thread where it says no other; ratio: peer's / privol's, median"
    )
    print(f"{'what':46} {'privol':>9} {'peer':>9} {'ratio':>7}  {'range':>11} {'aim':>9}  peer")
    for row in table:
        span = f"{row.low:.2f}-{row.high:.2f}"
        times = f"{row.privol:9.1f} {row.peer:9.1f}"
        print(f"{row.name:46} {times} {row.ratio:6.2f}x  {span:>11} {row.aim:>9}  {row.peer_name} ({row.unit})")
    if peaks:
        print("\npeak resident memory of fit_stream")
        for name, n, peak in peaks:
            print(f"{name:20} {n:>12,} rows {peak:8.0f} MiB")
    if arguments.json:
        arguments.json.write_text(json.dumps({"ratios": [asdict(r) for r in table], "memory": peaks}, indent=1))


if __name__ == "__main__":
    main()
