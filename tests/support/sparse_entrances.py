"""Every way for a sparse matrix to enter the package, and matrices with an invalid structure.

``python tests/support/sparse_entrances.py learners`` runs a family through a property, ``races`` the calls whose matrix
another thread rewrites. A failure may crash the process, so the tests run both in separate processes.
"""

from __future__ import annotations

import faulthandler
import math
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
from hypothesis import strategies as st
from scipy import sparse

import privol
from privol import OutputPerturbation, topology
from privol.distributed import InterleavedRows
from privol.errors import PrivolError
from privol.evaluate import Tape, best_in_hindsight, progressive
from privol.prefix import PrefixSum, SymmetricSum
from privol.streams import open_stream
from privol.tuning import PrivateSelection

WIDTH = 4
ONLINE = {"loss": "logistic", "epsilon": math.inf, "horizon": 10**9, "release": "last", "random_state": 0}


class Given:
    """A stream of blocks that are not privol's own."""

    def __init__(self, X: Any) -> None:
        self.n_rows, self.classes = X.shape[0], (0, 1)
        self._X = X

    def __iter__(self) -> Any:
        yield privol.streams.Block(self._X, targets(self._X).astype(float), 1)


def targets(X: Any) -> Any:
    return np.arange(X.shape[0]) % 2


def online(**words: Any) -> Any:
    return privol.PIGD(**{**ONLINE, **words})


def fitted(kind: Any = None) -> Any:
    rows = np.eye(WIDTH)
    return online().partial_fit(rows, targets(rows), classes=[0, 1])


def offline(**words: Any) -> Any:
    return OutputPerturbation(epsilon=math.inf, delta=0.0, l2=0.1, **words).declare_classes([0, 1])


def saved(X: Any, made: Callable[[Any], Any]) -> None:
    """Through a file, in the format of ``scipy.sparse.save_npz``."""
    if X.format in ("lil", "dok"):  # these have no file format
        return
    parts = {"format": np.array(X.format.encode()), "shape": np.array(X.shape), "data": X.data, "y": targets(X)}
    names = {"coo": ("row", "col"), "dia": ("offsets",)}.get(X.format, ("indices", "indptr"))
    parts.update({name: getattr(X, name) for name in names})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npz"
        np.savez(path, **parts)
        made(path)


def drained(stream: Any) -> list[Any]:
    return [block.X.copy() for block in stream]


FAMILIES: dict[str, dict[str, Callable[[Any], Any]]] = {
    "learners": {
        "partial_fit": lambda X: online().partial_fit(X, targets(X), classes=[0, 1]),
        "partial_fit again": lambda X: fitted().partial_fit(X, targets(X)),
        "fit": lambda X: online().fit(X, targets(X)),
        "zero": lambda X: online(on_invalid="zero").partial_fit(X, targets(X), classes=[0, 1]),
        "fit_stream": lambda X: online().fit_stream(Given(X)),
        "fit_stream zero": lambda X: online(on_invalid="zero").fit_stream(Given(X)),
        "DPFTRL": lambda X: privol.DPFTRL(loss="logistic", epsilon=1.0, horizon=99, random_state=0).fit(X, targets(X)),
        "PQFTL": lambda X: privol.PQFTL(epsilon=1.0, horizon=99, random_state=0).fit(X, targets(X)),
        "DOLA": lambda X: privol.DOLA(loss="logistic", nodes=2, horizon=98, random_state=0).fit(X, targets(X)),
    },
    "predictions": {
        "predict": lambda X: fitted().predict(X),
        "decision_function": lambda X: fitted().decision_function(X),
        "predict_proba": lambda X: fitted().predict_proba(X),
        "score": lambda X: fitted().score(X, targets(X)),
    },
    "offline": {
        "fit": lambda X: offline().fit(X, targets(X)),
        "zero": lambda X: offline(on_invalid="zero").fit(X, targets(X)),
        "fit_stream": lambda X: offline().fit_stream(Given(X)),
        "fit_stream zero": lambda X: offline(on_invalid="zero").fit_stream(Given(X)),
        "selection": lambda X: PrivateSelection([offline()], validation=0.4, random_state=0).fit(X, targets(X)),
    },
    "sums": {
        "block": lambda X: PrefixSum(dim=WIDTH, horizon=99, epsilon=1.0, random_state=0).add_block(X),
        "zero": lambda X: PrefixSum(dim=WIDTH, horizon=99, epsilon=1.0, on_invalid="zero", random_state=0).add_block(X),
        "moment": lambda X: SymmetricSum(dim=WIDTH, horizon=99, epsilon=1.0, gram=True, random_state=0).add_block(X),
    },
    "streams": {
        "pair": lambda X: drained(open_stream((X, targets(X)), classes=(0, 1), block_rows=2)),
        "alone": lambda X: drained(open_stream(X, target=False)),
        "blocks": lambda X: drained(open_stream([(X, targets(X))], classes=(0, 1), block_rows=2)),
        "iterator": lambda X: drained(open_stream(iter([(X, targets(X))]), classes=(0, 1), block_rows=2)),
        "file": lambda X: saved(X, lambda path: drained(open_stream(path, classes=(0, 1)))),
    },
    "evaluation": {
        "tape": lambda X: drained(Tape(Given(X), cut=2)),
        "hindsight": lambda X: best_in_hindsight(Given(X), loss="logistic"),
        "progressive": lambda X: progressive(online(), Given(X)),
        "progressive zero": lambda X: progressive(online(on_invalid="zero"), Given(X)),
        "delay": lambda X: progressive(online(), Given(X), delay=3),
        "nodes": lambda X: drained(InterleavedRows([Given(X), Given(X)], rounds=2)),
        "mixing": lambda X: topology.mixing_matrix(X),
    },
}  # fmt: skip


# ---- matrices ----------------------------------------------------------------------------------------

WILD = [-1, 0, 1, WIDTH - 1, WIDTH, 7, 999_999, -999_999, 2**31 - 1, -(2**31), 2**32, 2**32 + 1, 2**40, -(2**62)]


@st.composite
def matrices(draw: Any) -> Any:
    """In every format, valid or with changed arrays: by SciPy's constructors if they accept them, or afterwards."""
    n = draw(st.integers(0, 6)) if draw(st.booleans()) else WIDTH
    density = draw(st.sampled_from([0.2, 0.6, 1.0]))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    dense = random.integers(1, 9, (n, WIDTH)) * (random.random((n, WIDTH)) < density) / 8
    kind = draw(st.sampled_from(["csr", "csr", "csc", "coo", "bsr", "dia", "lil", "dok"]))
    family = draw(st.sampled_from(["array", "matrix"]))
    X = getattr(sparse, f"{kind}_{family}")(dense.astype(draw(st.sampled_from([np.float64, np.float32, np.int8]))))
    if kind == "lil" and n and draw(st.booleans()):
        row = draw(st.integers(0, n - 1))
        X.rows[row].append(draw(st.sampled_from(WILD)))
        if draw(st.booleans()):
            X.data[row].append(1.0)
    names = {"csr": ["indices", "indptr"], "csc": ["indices", "indptr"], "bsr": ["indices", "indptr"]}
    names |= {"coo": ["row", "col"], "dia": ["offsets"], "lil": [], "dok": []}
    arrays = {name: np.array(getattr(X, name), dtype=np.int64) for name in names[kind]}
    for _ in range(draw(st.integers(0, 3)) if arrays else 0):
        name = draw(st.sampled_from(sorted(arrays)))
        values = arrays[name]
        if len(values) and draw(st.integers(0, 4)):
            values[draw(st.integers(0, len(values) - 1))] = draw(st.sampled_from([*WILD, len(arrays[name])]))
        else:
            arrays[name] = values[: draw(st.integers(0, len(values)))]
    narrow = draw(st.booleans())
    for name, values in arrays.items():
        fits = not len(values) or max(abs(int(values.min())), abs(int(values.max()))) < 2**31
        arrays[name] = values.astype(np.int32) if narrow and fits else values
    if draw(st.booleans()) and kind in ("csr", "csc"):
        try:
            return type(X)((X.data, arrays["indices"], arrays["indptr"]), shape=X.shape)
        except ValueError:
            pass
    for name, values in arrays.items():
        setattr(X, name, values)
    if kind in ("csr", "csc") and draw(st.booleans()):
        X.has_canonical_format = True  # whatever it has
    return X


def sound(X: Any) -> bool:
    """Whether a compressed matrix is valid, entry by entry."""
    rows = X.format == "csr"
    n, d = X.shape if rows else X.shape[::-1]
    indptr, indices = X.indptr.tolist(), X.indices.tolist()
    if len(indptr) != n + 1 or indptr[0] != 0 or len(indices) != len(X.data) or indptr[-1] > len(indices):
        return False
    return all(a <= b for a, b in pairwise(indptr)) and all(0 <= j < d for j in indices[: indptr[-1]])


def outside_alone(X: Any) -> bool:
    """Whether nothing is wrong except columns of CSR rows."""
    if X.format != "csr":
        return False
    kept = sparse.csr_matrix(X.shape)
    kept.indptr, kept.data = X.indptr, X.data
    kept.indices = np.zeros(len(X.indices), dtype=np.int32)
    return sound(kept)


def check(family: str) -> None:
    """For any matrix: a result or an error of privol's, and for an invalid one the error."""
    for entrance in FAMILIES[family].values():
        entrance(sparse.csr_matrix(np.eye(WIDTH)))  # otherwise the check says nothing, because it takes no matrix

    @hypothesis.settings(max_examples=75, deadline=None, database=None, derandomize=True)
    @hypothesis.given(matrices())
    def holds(X: Any) -> None:
        for name, entrance in FAMILIES[family].items():
            lying = X.format in ("csr", "csc") and not sound(X) and not ("zero" in name and outside_alone(X))
            try:
                entrance(X)
            except PrivolError:
                continue
            except ValueError:  # scikit-learn's, for a shape that it refuses
                if lying:
                    raise
                continue
            assert not lying, f"{name} took a matrix that is none"

    holds()


# ---- another thread ----------------------------------------------------------------------------------------


def races() -> None:
    """Learning and predicting while the structure is rewritten: the numbers may be anything, the memory may not."""
    n, width, filled = 20_000, 1000, 20
    random = np.random.default_rng(0)
    good = np.sort(random.integers(0, width // filled, (n, filled)) + np.arange(filled) * (width // filled)).ravel()
    good = good.astype(np.int32)
    starts = np.arange(0, n * filled + 1, filled, dtype=np.int32)
    X = sparse.csr_matrix((np.full(n * filled, 0.1), good.copy(), starts.copy()), shape=(n, width))
    calls = [
        lambda learner: learner.partial_fit(X, targets(X), classes=[0, 1]),
        lambda learner: learner.predict(X),
        lambda _: online().fit_stream(open_stream((X, targets(X)), classes=(0, 1))),
    ]
    over = threading.Event()

    def rewrite() -> None:
        while not over.wait(0.0005):
            X.indices[:] = 2**30
            X.indptr[1:-1] = -(2**30)
            over.wait(0.0002)
            X.indices[:], X.indptr[:] = good, starts

    sys.setswitchinterval(1e-4)
    learner = online().partial_fit(X[:2], [0, 1], classes=[0, 1])
    other = threading.Thread(target=rewrite)
    other.start()
    refused = passed = 0
    try:
        while (refused < 10 or passed < 60) and refused + passed < 10_000:
            call = calls[(refused + passed) % len(calls)]
            try:
                call(learner)
                passed += 1
            except PrivolError:
                refused += 1
    finally:
        over.set()
        other.join()
    assert refused, "no call saw it"
    assert passed, "no call came as far as the kernel"


if __name__ == "__main__":
    faulthandler.enable()
    warnings.simplefilter("ignore")
    for family in sys.argv[1:]:
        print(family, flush=True)  # if the process crashes, the last one is responsible
        if family == "races":
            races()
        else:
            check(family)
