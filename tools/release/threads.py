"""Eight threads, on learners of their own and all on one: as many rows and the same bits as one thread.

For builds of CPython without the interpreter's lock, where it also checks that no module of privol turns the lock on:

    python tools/release/threads.py
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import pkgutil
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np

import privol
import privol._core
from privol.learners import TABLE

THREADS, ROWS = 8, 25
#: Learners that take blocks; the offline ones take all rows at once.
ONLINE = [entry.kind for entry in TABLE if entry.group != "rest"]


def locked() -> bool:
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def together(work: Callable[[int], object]) -> list[object]:
    """Let all threads begin at once; the first error of any of them is raised."""
    ready = Barrier(THREADS)

    def one(number: int) -> object:
        ready.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(one, range(THREADS)))


def learner(kind: str, key: int, blocks: int) -> privol.learners.OnlineLearner:
    """Return a learner for all rows, which releases after the last one."""
    words = {"release": "last"} if kind in ("PIGD", "PGIGA") else {}
    return getattr(privol, kind)(horizon=THREADS * blocks * ROWS, random_state=key, **words)


def digest(model: privol.learners.OnlineLearner) -> str:
    return hashlib.sha256(np.ascontiguousarray(model.coef_).tobytes()).hexdigest()[:16]


def alone(kind: str, key: int, blocks: int, x: np.ndarray, y: np.ndarray) -> str:
    model = learner(kind, key, blocks)
    for _ in range(THREADS * blocks):
        model.partial_fit(x, y, classes=[0, 1]) if kind != "PQFTL" else model.partial_fit(x, y)
    return digest(model)


def check(kind: str, blocks: int, x: np.ndarray, y: np.ndarray) -> None:
    """Compare threads with one thread. All blocks are the same rows, so that their order makes no difference."""
    expected = [alone(kind, key, blocks, x, y) for key in range(THREADS)]
    if together(lambda key: alone(kind, key, blocks, x, y)) != expected:
        sys.exit(f"{kind}: learners in threads of their own release something else")
    shared = learner(kind, 0, blocks)
    words = {} if kind == "PQFTL" else {"classes": [0, 1]}
    shared.partial_fit(x, y, **words)

    def work(number: int) -> None:
        for _ in range(blocks - (number == 0)):
            shared.partial_fit(x, y)

    together(work)
    rows = THREADS * blocks * ROWS
    if shared.n_rows_ != rows or digest(shared) != expected[0]:
        sys.exit(f"{kind}: eight threads on one learner learnt {shared.n_rows_} of {rows} rows, or something else")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--blocks", type=int, default=40, help="blocks of each thread; default 40")
    blocks = parser.parse_args().blocks
    warnings.simplefilter("ignore")
    before = locked()
    for module in pkgutil.iter_modules(privol._core.__path__):
        if not module.name.startswith("lib"):  # the library of C kernels is no module
            importlib.import_module(f"privol._core.{module.name}")
    if locked() != before:
        sys.exit("a module of privol turned the interpreter's lock on")
    x = (np.arange(ROWS * 4).reshape(ROWS, 4) % 7 - 3) / 16
    y = (np.arange(ROWS) % 2).astype(int)
    for kind in ONLINE:
        check(kind, blocks, x, y)
    state = "on" if locked() else "off"
    print(f"{len(ONLINE)} learners, {THREADS} threads: as one thread; the interpreter's lock is {state}")


if __name__ == "__main__":
    main()
