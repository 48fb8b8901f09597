"""Ratios of privol against its peers, measured side by side in one process: ``python bench/compare.py``.

Beside each figure stand its aim, its peer and its limit: what a row cannot do without (``bench/limits.py``), at the
rates that the same run measures. Every comparison alternates the two sides, so that drifting speed affects both, and
reports the median of the pairwise ratios. Times are processor times, which other users of the machine affect less, and
medians too; quote the ratios. With two cores they are wall-clock times: no other program may run. ``--quick`` runs a
tenth of the rows, ``--json FILE`` saves the figures, ``--only WORD`` selects comparisons by name.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from figures import NONE, Limit, Row, figure, show, written
from limits import Work, machine, moments, of_moments, of_noise, of_release, of_ridge, of_row, of_sums
from numpy.typing import NDArray

from privol import set_threads

FEATURES = 54
DIM = FEATURES + 1  # with the intercept
LABELS = np.array([-1, 1])
ONE_CALL = Work(calls=1)


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
    limit: Limit,
    rounds: int = 7,
    aim: str = NONE,
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
    row = Row(name, unit, middle(ours), middle(theirs), middle(ratios), min(ratios), max(ratios), peer_name, aim, limit)
    print(f"  {name}: {row.ratio:.2f}x, {100 * row.reached:.0f} % of the limit", file=sys.stderr, flush=True)
    return row


def learners(rows: int) -> list[Row]:
    """Learners over dense rows against scikit-learn's non-private SGD."""
    from sklearn.linear_model import SGDClassifier

    from privol import DPFTRL, NOGD, PGIGA, PIGD, AdaptiveFTRL

    X, y = data(rows)
    sgd, row = "scikit-learn SGDClassifier", of_row(FEATURES)
    model = of_noise(DIM) + of_release(DIM)

    def peer() -> None:
        SGDClassifier(loss="log_loss").partial_fit(X, y, classes=LABELS)

    table = []
    for learner in (PIGD, PGIGA):
        for label, models, parameters in (
            ("no noise", 0.0, {"epsilon": math.inf, "release": "last"}),
            ("one release", 1 / rows, {"release": "last"}),
            ("noise every 100 rows", 0.01, {"release": 100}),
            ("noise at every row", 1.0, {"release": "all"}),
        ):
            for radius, activity in ((10.0, "inside the ball"), (1.0, "on the ball")):

                def ours(learner: Any = learner, parameters: Any = parameters, radius: float = radius) -> None:
                    learner(horizon=rows, radius=radius, l2=1e-3, **parameters).partial_fit(X, y, classes=LABELS)

                name = f"{learner.__name__}, {label}, {activity}"
                aim = "1.0x" if parameters["release"] == "all" else NONE
                limit = (row + model * models).limit("ns/row")
                table.append(pair(name, "ns/row", rows, ours, peer, sgd, limit, aim=aim))
    step, silent = of_sums(DIM) + model, of_sums(DIM) + of_release(DIM)
    for label, needed, parameters in (
        ("no noise, BLT", silent, {"epsilon": math.inf}),
        ("BLT", step, {}),
        ("BLT, steps of 10 rows", step * 0.1, {"batch": 10}),
        ("tree", of_sums(DIM, "tree") + model, {"design": "tree"}),
        ("independent", of_sums(DIM, "independent") + model, {"design": "independent"}),
    ):

        def leader(parameters: Any = parameters) -> None:
            DPFTRL(horizon=rows, radius=10.0, **parameters).partial_fit(X, y, classes=LABELS)

        aim, limit = "1.0x" if label == "BLT" else NONE, (row + needed).limit("ns/row")
        table.append(pair(f"DPFTRL, {label}", "ns/row", rows, leader, peer, sgd, limit, aim=aim))

    def descent() -> None:
        NOGD(horizon=rows, radius=10.0).partial_fit(X, y, classes=LABELS)

    name, limit = "NOGD, noise at every row", (row + model).limit("ns/row")
    table.append(pair(name, "ns/row", rows, descent, peer, sgd, limit, aim="1.0x"))

    def adaptive() -> None:
        AdaptiveFTRL(horizon=rows).partial_fit(X, y, classes=LABELS)

    steps = 1 / AdaptiveFTRL().calibrate(FEATURES, rows).batch
    limit = (row + step * steps).limit("ns/row")
    return [*table, pair("AdaptiveFTRL", "ns/row", rows, adaptive, peer, sgd, limit)]


def two_cores(rows: int) -> list[Row]:
    """Noise at every row, drawn ahead by a second thread: wall-clock time."""
    from sklearn.linear_model import SGDClassifier

    from privol import DPFTRL, NOGD, PGIGA, PIGD

    X, y = data(rows)

    def peer() -> None:
        SGDClassifier(loss="log_loss").partial_fit(X, y, classes=LABELS)

    table = []
    needed = of_row(FEATURES) + of_noise(DIM) + of_release(DIM)
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

            work = needed + of_sums(DIM) if kind is DPFTRL else needed
            table.append(
                pair(
                    f"{name}, {threads} thread{'s' * (threads - 1)}", "ns/row", rows, ours, peer,
                    "scikit-learn SGDClassifier", work.limit("ns/row", threads),
                    aim=aim if threads == 2 else NONE, clock=time.perf_counter,
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
    # a row that Python holds is taken to be in a cache
    learnt = ONE_CALL + replace(of_row(FEATURES), memory=0.0)
    named_row, model = Work(cells=FEATURES), of_noise(DIM) + of_release(DIM)
    for kind, needed, parameters in (
        (PIGD, learnt, {"release": "last"}),
        (DPFTRL, learnt + of_sums(DIM) + model, {}),
    ):
        limit = (named_row + needed).limit("ns/row")
        of_dicts = named(lambda kind=kind, parameters=parameters: begun(kind, **parameters), records, labels)
        name = f"learn_one of dicts, {kind.__name__}"
        table.append(pair(name, "ns/row", n, of_dicts, river, "River learn_one", limit, rounds=5, aim="3,000 ns"))
    reals = X[:, 0].tolist()
    regression = named(LinearRegression, records, reals)
    sums = moments(FEATURES)  # noise, their recursion and a model come every 55 rows
    products = ONE_CALL + of_moments(FEATURES) + (of_noise(sums) + of_sums(sums) + of_ridge(FEATURES)) * (1 / DIM)
    for made, label, aim in ((records, "of dicts, PQFTL", "3,000 ns"), (vectors, "PQFTL", "1,000 ns")):
        limit = (products + named_row if made is records else products).limit("ns/row")
        quadratic = named(lambda: begun(PQFTL), made, reals)
        name = f"learn_one {label}"
        table.append(pair(name, "ns/row", n, quadratic, regression, "River learn_one", limit, rounds=5, aim=aim))
    for release, label, needed in (("last", "one release", learnt), ("all", "noise at every row", learnt + model)):
        name, made, limit = f"learn_one, {label}", ours(release), needed.limit("ns/row")
        table.append(pair(name, "ns/row", n, made, river, "River learn_one", limit, rounds=5, aim="1,000 ns"))
        of_sklearn = "scikit-learn partial_fit"
        row = pair(name, "ns/row", n, ours(release), sklearn, of_sklearn, limit, rounds=5, aim="1,000 ns")
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
        guess, needed = predicted(fitted, rows_of), ONE_CALL + Work(multiply_adds=DIM)
        limit = (needed + named_row if rows_of is records else needed).limit("ns/row")
        table.append(pair(label, "ns/row", n, guess, theirs, "River predict_one", limit, rounds=5, aim=aim))
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

        name, d = f"PrivateClassifier of dicts, {label}", model.learner_.coef_.size + 1
        read = ONE_CALL + Work(cells=len(rows[0]))
        for what, ours, peer, needed in (
            ("learn_one", learn, river, Work(multiply_adds=3 * d, exponentials=1)),
            ("predict_one", guess, guesser, Work(multiply_adds=d)),
        ):
            limit, title = (read + needed).limit("ns/row"), f"{what}, {name}"
            table.append(pair(title, "ns/row", n, ours, peer, f"River {what}", limit, rounds=5, aim="3,000 ns"))
    return table


def evaluation(rows: int) -> list[Row]:
    """Progressive evaluation with all metrics, beside the same stream learnt without it; times by the clock."""
    from privol import DPFTRL, NOGD, PIGD, AdaptiveFTRL
    from privol.evaluate import progressive
    from privol.streams import open_stream

    X, y = data(rows)
    blocks = [(X[i : i + 16384], y[i : i + 16384]) for i in range(0, rows, 16384)]
    table, model = [], of_noise(DIM) + of_release(DIM)
    scored = of_row(FEATURES) + Work(multiply_adds=DIM, exponentials=1)  # learnt, and a score
    for kind, needed, parameters in (
        (AdaptiveFTRL, scored, {}),
        (DPFTRL, scored + of_sums(DIM) + model, {}),
        (PIGD, scored, {"release": 1000}),
        (NOGD, scored + model, {}),
    ):

        def learnt(kind: Any = kind, parameters: Any = parameters) -> None:
            kind(horizon=rows, **parameters).fit_stream(open_stream(blocks, classes=LABELS))

        def evaluated(kind: Any = kind, parameters: Any = parameters) -> None:
            progressive(kind(horizon=rows, **parameters), open_stream(blocks, classes=LABELS))

        name, limit, clock = f"progressive evaluation, {kind.__name__}", needed.limit("ns/row"), time.perf_counter
        row = pair(name, "ns/row", rows, evaluated, learnt, "learning alone", limit, aim="0.5x", clock=clock)
        table.append(row)
    return table


def noise(rows: int) -> list[Row]:
    """Cryptographic lattice Gaussian against NumPy's."""
    from privol.noise import Gaussian

    n = rows * 4
    ours, peer = Gaussian(scale=1.0), np.random.default_rng()
    limit = ((of_noise(n) + Work(written=8.0 * n)) * (1 / n)).limit("ns/value")
    sides: Any = lambda: ours.sample(n), lambda: peer.standard_normal(n)
    return [pair("Gaussian sample", "ns/value", n, *sides, "NumPy PCG64", limit, aim="1.0x")]


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
def peak():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            print(int(line.split()[1]) / 1024)
peak()
learner = PIGD(horizon=rows, release=sys.argv[2] if sys.argv[2] == "all" else int(sys.argv[2]))
learner.fit_stream(open_stream(blocks(), classes=(0, 1)))
peak()
"""


def memory(rows: int) -> list[Row]:
    """Peak resident memory of fit_stream in MiB, in a separate process (Linux)."""
    table = []
    of = "MiB of the same process when it has made its imports and the block of rows, before it learns"
    for release in ("all", "1000"):
        for n in (rows // 5, rows * 2, rows * 20):
            command = [sys.executable, "-c", MEMORY, str(n), release]
            done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ)
            before, peak = map(float, done.stdout.split())
            name = f"peak memory of fit_stream, release={release}, {n:,} rows"
            table.append(figure(name, "MiB", peak, limit=Limit(before, of)))
            print(f"  {name}: {peak:.0f} MiB", file=sys.stderr, flush=True)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--rows", type=int, help="so many rows")
    parser.add_argument("--only", default="", help="learners, two_cores, one_row, evaluation, noise or memory")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    rows = arguments.rows or (50_000 if arguments.quick else 500_000)
    table: list[Row] = []
    set_threads(1)
    print(machine())
    for suite in (learners, two_cores, one_row, evaluation, noise, memory):
        if arguments.only in suite.__name__:
            table += suite(rows)
    threads = "one thread where it says no other"
    show(table, f"{rows} dense rows, {FEATURES} features; {threads}; ratio: peer's / privol's, median")
    if arguments.json:
        written(arguments.json, table, machine=machine())


if __name__ == "__main__":
    main()
