"""Minimising a logistic risk to a certified gradient, compared with scikit-learn: ``python bench/offline.py``.

Dense rows (n = 10^6, d = 54; n = 10^5 with columns of very different scales) and sparse ones (CSR, n = 10^5,
d = 47,236, 73 entries per row). Every side must reach a point whose gradient, in sum form, is at most ``1e-9 R n`` by
privol's certificate: scikit-learn's tolerance is lowered by factors of ten until it does, and only that run is timed.
All sides alternate within a round; the figures are the smallest of ``--rounds``; quote the ratios.

With ``--diffprivlib PYTHON``, the interpreter of an environment with diffprivlib 0.6.6 (scikit-learn before 1.6, NumPy
before 2.3): whole private fits of the Covertype rows that come with privol, or (``--covtype``) of all, compared with
its LogisticRegression, at the same epsilon, bound and l2. Its solver stops at its default tolerance.

Then single passes, compared with the machine's limits: gradients with one reading of the rows by ``numpy.add.reduce``,
Hessians with BLAS's product of matrices of the same shape, which makes both triangles. In the last table a pass has the
larger of its bytes and its multiply-adds (``limits.py``), a whole solution as many passes as it took. Its Hessians are
not counted: they are formed from a part of the rows, as small as one in 64, and reused.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from figures import Row, figure, show
from limits import Work
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from privol import ObjectivePerturbation, open_stream
from privol._core._newton import minimise
from privol._core._objective import Objective
from privol.data import open_covtype
from privol.errors import PrivacyWarning
from privol.losses import Logistic

FloatArray = NDArray[np.float64]
ROOT = Path(__file__).parent.parent
WORKER, SCHEMA = ROOT / "experiments" / "diffprivlib_worker.py", ROOT / "src" / "privol" / "data" / "covtype.toml"


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def dense(n: int, condition: float = 1.0) -> tuple[FloatArray, FloatArray]:
    """Rows of norm at most 1 whose columns' scales differ by ``condition``."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 54)) * np.geomspace(1.0, 1.0 / condition, 54)
    X /= np.linalg.norm(X, axis=1).max()
    return X, np.where(20 * X @ rng.normal(size=54) + rng.logistic(size=n) > 0, 1.0, -1.0)


def csr(n: int) -> tuple[sparse.csr_matrix, FloatArray]:
    """Columns with the frequencies of words, rows of norm 1."""
    rng = np.random.default_rng(0)
    columns = np.minimum(47_236 * rng.random((n, 73)) ** 3, 47_235).astype(np.int32)
    values = rng.exponential(size=(n, 73))
    values /= np.linalg.norm(values, axis=1)[:, None]
    X = sparse.csr_matrix((values.ravel(), columns.ravel(), np.arange(0, 73 * n + 1, 73)), shape=(n, 47_236))
    X.sum_duplicates()
    X.data /= math.sqrt(float(X.multiply(X).sum(axis=1).max()))
    return X, np.where(X @ (6 * rng.normal(size=47_236)) + rng.logistic(size=n) > 0, 1.0, -1.0)


def sklearn_sides(X: Any, y: FloatArray, l2: float, o: Objective, asked: float) -> dict[str, Callable[[], FloatArray]]:
    """Solvers with the largest tolerance, from 1e-4 down by tens, that reaches the requested gradient."""
    sides = {}
    for solver in ("lbfgs", "newton-cholesky", "newton-cg"):
        if solver == "newton-cholesky" and sparse.issparse(X):
            continue  # its Hessian would take 17 GB

        def fit(tol: float, solver: str = solver) -> FloatArray:
            model = LogisticRegression(C=1 / l2, fit_intercept=False, tol=tol, solver=solver, max_iter=100_000)
            return np.asarray(model.fit(X, y).coef_[0])

        for tol in (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                norm = o.gradient_norm_bound(fit(tol))
            if norm <= asked:
                sides[f"scikit-learn {solver}, tol {tol:g}"] = lambda tol=tol, fit=fit: fit(tol)
                break
        else:
            print(f"    scikit-learn {solver}: {norm:.2g} is the best it comes to, asked for was {asked:.2g}")
    return sides


def pass_over(X: Any, products: float) -> Work:
    """One reading of the rows with their labels; so many products for each entry, and one exponential a row."""
    size = X.data.nbytes + X.indices.nbytes if sparse.issparse(X) else X.nbytes
    entries = X.data.size if sparse.issparse(X) else X.size
    return Work(memory=size + 8.0 * X.shape[0], multiply_adds=products * entries, exponentials=float(X.shape[0]))


def of_hessian(X: Any) -> Work:
    """One triangle of the weighted X'X."""
    n, d = X.shape
    return Work(multiply_adds=n * d * (d + 1) / 2)


def compare(name: str, X: Any, y: FloatArray, rounds: int) -> list[Row]:
    n = X.shape[0]
    l2 = 1e-6 * n if "scales" in name else 1e-4 * n
    asked = 1e-9 * n
    print(f"\n{name}: {n:,} rows, l2_sum = {l2:g}, gradient {asked:g}")
    made, o = timed(lambda: Objective(X, y, loss=Logistic(), l2_sum=l2))
    found = minimise(o, gradient_norm=asked)
    print(f"    objective made in {made:.3f} s; {found.iterations} iterations, {found.evaluations} passes, "
          f"certified {found.gradient_norm:.2g}, of which rounding {o.certificate(found.point)[1]:.2g}")  # fmt: skip
    sides: dict[str, Callable[[], Any]] = {
        "privol": lambda: minimise(Objective(X, y, loss=Logistic(), l2_sum=l2), gradient_norm=asked)
    }
    if not sparse.issparse(X):
        sides["privol, conjugate gradients"] = lambda: minimise(o, gradient_norm=asked, method="cg")
    sides |= sklearn_sides(X, y, l2, o, asked)
    best = dict.fromkeys(sides, math.inf)
    for _ in range(rounds):
        for side, run in sides.items():
            best[side] = min(best[side], timed(run)[0])
    for side, seconds in best.items():
        print(f"    {side:40} {seconds:8.3f} s  {seconds / best['privol']:7.2f}")
    work = pass_over(X, 2.0) * found.evaluations
    table = []
    for side in [side for side in best if side.startswith("scikit")] or [""]:
        words = {"peer_name": side, "peer": best[side]} if side else {}
        limit = work.limit("s")
        table.append(figure(f"{name}: minimum", "s", best["privol"], limit=limit, **words))  # type: ignore[arg-type]
    return table + passes(o, X, rounds, name)


def passes(o: Objective, X: Any, rounds: int, name: str) -> list[Row]:
    """Single passes, and their limits."""
    w = np.full(o.dim, 0.1)
    size = X.data.nbytes + X.indices.nbytes if sparse.issparse(X) else X.nbytes
    sides: dict[str, Callable[[], Any]] = {
        "gradient": lambda: o.value_gradient(w),
        "certificate": lambda: o.certificate(w),
        "gradient and H v": lambda: o.hessian_product(w, w),
        "the rows read": lambda: np.add.reduce(X.data if sparse.issparse(X) else X, axis=None),
    }
    if not sparse.issparse(X):
        sides["gradient and H"] = lambda: o.hessian(w)
        sides["X'X by BLAS"] = lambda: X.T @ X
    best = dict.fromkeys(sides, math.inf)
    for _ in range(rounds):
        for side, run in sides.items():
            best[side] = min(best[side], timed(run)[0])
    for side, seconds in best.items():
        print(f"        {side:20} {1e3 * seconds:8.1f} ms  {size / seconds / 1e9:6.1f} GB/s")
    if not sparse.issparse(X):
        flops = o.n * o.dim * (o.dim + 1.0)
        own = best["gradient and H"] - best["gradient"]
        blas = best["X'X by BLAS"]
        print(f"        a Hessian's own {flops / own / 1e9:.1f} Gflop/s, BLAS {2 * flops / blas / 1e9:.1f}")
    works = {"gradient": pass_over(X, 2.0), "certificate": pass_over(X, 2.0), "gradient and H v": pass_over(X, 3.0)}
    if not sparse.issparse(X):
        works["gradient and H"] = pass_over(X, 2.0) + of_hessian(X)
    return [
        figure(f"{name}: {side}", "ms", 1e3 * best[side], limit=work.limit("ms"), **beside(side, best))
        for side, work in works.items()
    ]


def beside(side: str, best: dict[str, float]) -> dict[str, Any]:
    """Return the peer of a pass."""
    peer = "X'X by BLAS" if side == "gradient and H" else "the rows read"
    return {"peer_name": f"{peer} (NumPy)", "peer": 1e3 * best[peer]}


def whole_fits(python: str, rounds: int, part: int, table: Path | None) -> list[Row]:
    """ObjectivePerturbation from rows to released model, checks and noise included, compared with diffprivlib's."""
    blocks = list(open_covtype() if table is None else open_stream(table, schema=SCHEMA))
    X = np.vstack([block.X for block in blocks])[::part].copy()
    y = np.concatenate([block.y for block in blocks if block.y is not None])[::part].copy()
    n, bound = len(y), 3.0
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.npz"
        np.savez(file, X=X, y=y, X_test=X[:1000], y_test=y[:1000], x_bound=bound)
        for l2 in (1e-2, 1e-3, 1e-4):
            own, other, steps = [], [], []
            for key in range(rounds):
                learner = ObjectivePerturbation(delta=0.0, epsilon=1.0, l2=l2, x_bound=bound, random_state=key)
                own.append(timed(lambda learner=learner: learner.fit(X, y))[0])
                done = subprocess.run(
                    [python, str(WORKER), str(file)], input=json.dumps([[1.0, 1 / (n * l2), key]]),
                    capture_output=True, text=True, check=True,
                )  # fmt: skip
                ((_, seconds, iterations),) = json.loads(done.stdout)
                other.append(seconds)
                steps.append(iterations)
            ratios = [b / a for a, b in zip(own, other, strict=True)]
            print(f"whole fit, {n:,} rows of Covertype, epsilon = 1, l2 = {l2:g}: privol {min(own):.3f} s, diffprivlib "
                  f"{min(other):.3f} s ({min(steps)} to {max(steps)} iterations); ratio "
                  f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")  # fmt: skip
            words: dict[str, Any] = {"peer_name": "diffprivlib", "peer": min(other), "ratios": ratios}
            # at least a pass that checks the rows, one that learns, and one that certifies
            limit = (pass_over(X, 2.0) * 3).limit("s")
            title = f"whole fit, {n:,} rows of Covertype, l2 = {l2:g}"
            figures.append(figure(title, "s", min(own), limit=limit, **words))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="that BLAS and scikit-learn may use; privol uses one")
    parser.add_argument("--only", choices=["dense", "scaled", "csr", "fits"], help="one part")
    parser.add_argument("--diffprivlib", metavar="PYTHON", help="whole fits, beside its: see above")
    parser.add_argument("--covtype", metavar="FILE", type=Path, help="covtype.data.gz: whole fits of all of its rows")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)  # keys are fixed
    part = 10 if arguments.quick else 1
    with threadpool_limits(arguments.threads):
        print(f"threads of the others: {arguments.threads}")
        table: list[Row] = []
        if arguments.diffprivlib is not None:
            table += whole_fits(arguments.diffprivlib, arguments.rounds, part, arguments.covtype)
        if arguments.only in (None, "dense"):
            table += compare("dense, d = 54", *dense(1_000_000 // part), arguments.rounds)
        if arguments.only in (None, "scaled"):
            name = "dense, d = 54, columns of scales from 1 to 1/300"
            table += compare(name, *dense(100_000 // part, 300.0), arguments.rounds)
        if arguments.only in (None, "csr"):
            table += compare("CSR, d = 47,236", *csr(100_000 // part), arguments.rounds)
        show(table)


if __name__ == "__main__":
    main()
