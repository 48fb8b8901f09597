"""Synthetic streams: by NumPy, and by River's generators where River is installed.

Every stream is a function of its name, of the number of rows and of a seed. The seeds begin far from those that privol
was built with, so no setting of privol has been chosen on these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidParameter

__all__ = ["GENERATORS", "RIVER", "SYNTHETIC", "Cells", "generate"]

FloatArray = NDArray[np.float64]
#: Names of the columns, the target last, and the cells of each row as texts.
Cells = tuple[tuple[str, ...], list[list[str]]]

_FIRST_SEED = 7_310_000
_TARGET = "target"


def _rows(columns: dict[str, Any]) -> Cells:
    texts = [list(map(str, np.asarray(values).tolist())) for values in columns.values()]
    return tuple(columns), [list(row) for row in zip(*texts, strict=True)]


def _drawn(rng: np.random.Generator, scores: FloatArray) -> list[str]:
    """Labels of the logistic model."""
    return ["yes" if label else "no" for label in rng.random(len(scores)) < 1.0 / (1.0 + np.exp(-scores))]


def _clicks(n: int, rng: np.random.Generator) -> Cells:
    """Numbers of very different sizes, categories of very different frequencies, one label in three."""
    columns: dict[str, Any] = {}
    score = np.full(n, -1.6)
    for j in range(8):
        z = rng.normal(size=n)
        columns[f"amount{j}"] = np.round(np.exp(z) * 10.0 ** rng.integers(-3, 6), 9)
        score += rng.normal(scale=0.5) * (z if j % 2 else np.abs(z) - 0.8)
    for j, levels in enumerate((3, 8, 25, 60)):
        shares = 1.0 / np.arange(1, levels + 1)
        codes = rng.choice(levels, size=n, p=shares / shares.sum())
        columns[f"kind{j}"] = [f"k{code}" for code in codes]
        score += rng.normal(scale=0.7, size=levels)[codes]
    return _rows({**columns, _TARGET: _drawn(rng, score)})


def _turning(n: int, rng: np.random.Generator) -> Cells:
    """A concept that turns by half a circle from the first row to the last."""
    X = rng.normal(size=(n, 10))
    frame = np.linalg.qr(rng.normal(size=(10, 2)))[0]
    angle = np.pi * np.arange(n) / n
    score = 3.0 * np.sum(X * (np.outer(np.cos(angle), frame[:, 0]) + np.outer(np.sin(angle), frame[:, 1])), axis=1)
    units, zero = 10.0 ** rng.uniform(-3, 5, size=10), rng.normal(scale=3.0, size=10)
    columns: dict[str, Any] = {f"x{j}": units[j] * (X[:, j] + zero[j]) for j in range(10)}
    return _rows({**columns, _TARGET: _drawn(rng, score)})


def _switching(n: int, rng: np.random.Generator) -> Cells:
    """Four concepts one after the other, each with a share of labels of its own."""
    X = rng.exponential(size=(n, 6)) * 10.0 ** rng.integers(-2, 4, size=6)
    part = 4 * np.arange(n) // n
    towns = rng.integers(12, size=n)
    weights, shift, effect = rng.normal(size=(4, 6)), rng.normal(size=4), rng.normal(size=(4, 12))
    score = np.sum(X / X.mean(axis=0) * weights[part], axis=1) + shift[part] + effect[part, towns]
    columns: dict[str, Any] = {f"x{j}": X[:, j] for j in range(6)}
    return _rows({**columns, "town": [f"t{town}" for town in towns], _TARGET: _drawn(rng, score)})


def _five(n: int, rng: np.random.Generator) -> Cells:
    """Five classes of unequal frequency around centres that overlap."""
    shares = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
    label = rng.choice(5, size=n, p=shares)
    X = 1.2 * rng.normal(size=(5, 12))[label] + 1.5 * rng.normal(size=(n, 12))
    columns: dict[str, Any] = {f"x{j}": 10.0 ** rng.integers(-2, 4) * X[:, j] for j in range(12)}
    return _rows({**columns, _TARGET: [f"c{one}" for one in label]})


def _prices(n: int, rng: np.random.Generator) -> Cells:
    """A real target with heavy tails, in large units."""
    area, age = np.exp(rng.normal(4.4, 0.4, size=n)), rng.exponential(30.0, size=n)
    place, others = rng.choice(20, size=n, p=np.arange(20, 0, -1) / 210.0), rng.normal(size=(n, 4))
    value = 2.0 * area + rng.normal(scale=60.0, size=20)[place] - 40.0 * np.minimum(age, 50.0) / 50.0
    value += 15.0 * others @ rng.normal(size=4) + 25.0 * rng.standard_t(4, size=n)
    columns: dict[str, Any] = {"area": area, "age": age, "place": [f"p{one}" for one in place]}
    columns |= {f"other{j}": others[:, j] for j in range(4)}
    return _rows({**columns, _TARGET: 1_000.0 * np.round(value, 2)})


_BY_NUMPY: dict[str, Callable[[int, np.random.Generator], Cells]] = {
    "clicks": _clicks,
    "turning": _turning,
    "switching": _switching,
    "five": _five,
    "prices": _prices,
}


# ---- River's generators -------------------------------------------------------------------------------------------


def _sea(synth: Any, n: int, seed: int) -> Any:
    parts = {"stream": synth.SEA(0, noise=0.1, seed=seed), "drift_stream": synth.SEA(2, noise=0.1, seed=seed + 1)}
    return synth.ConceptDriftStream(**parts, position=n // 2, width=max(n // 50, 1), seed=seed)


def _agrawal(synth: Any, n: int, seed: int) -> Any:
    parts = {
        "stream": synth.Agrawal(0, perturbation=0.05, seed=seed),
        "drift_stream": synth.Agrawal(6, perturbation=0.05, seed=seed + 1),
    }
    return synth.ConceptDriftStream(**parts, position=n // 2, width=max(n // 20, 1), seed=seed)


def _led(synth: Any, n: int, seed: int) -> Any:
    return synth.LEDDrift(seed=seed, noise_percentage=0.1, irrelevant_features=True, n_drift_features=3)


def _hyperplane(synth: Any, n: int, seed: int) -> Any:
    return synth.Hyperplane(seed=seed, n_features=10, n_drift_features=5, mag_change=10.0 / n)


def _rbf(synth: Any, n: int, seed: int) -> Any:
    words = {"n_classes": 5, "n_features": 10, "n_centroids": 30, "change_speed": 2.0 / n, "n_drift_centroids": 15}
    return synth.RandomRBFDrift(seed_model=seed, seed_sample=seed + 1, **words)


def _tree(synth: Any, n: int, seed: int) -> Any:
    return synth.RandomTree(seed_tree=seed, seed_sample=seed + 1)


def _friedman(synth: Any, n: int, seed: int) -> Any:
    position, window = (n // 3, 2 * n // 3), max(n // 10, 1)
    return synth.FriedmanDrift(drift_type="gsg", position=position, transition_window=window, seed=seed)


_BY_RIVER: dict[str, Callable[[Any, int, int], Any]] = {
    "sea": _sea,
    "agrawal": _agrawal,
    "led": _led,
    "hyperplane": _hyperplane,
    "rbf": _rbf,
    "tree": _tree,
    "friedman": _friedman,
}

SYNTHETIC, RIVER = tuple(_BY_NUMPY), tuple(_BY_RIVER)
#: Names of all generators.
GENERATORS = (*SYNTHETIC, *RIVER)


def generate(name: str, rows: int, seed: int) -> Cells:
    """Return rows of a synthetic stream.

    Parameters
    ----------
    name : str
        Of :data:`GENERATORS`.
    rows : int
    seed : int
        At least 0.

    Raises
    ------
    InvalidParameter
        If it is one of River's, and River is not installed.
    """
    if name in _BY_NUMPY:
        return _BY_NUMPY[name](rows, np.random.default_rng((_FIRST_SEED + seed, SYNTHETIC.index(name))))
    try:
        from river.datasets import synth
    except ImportError as error:
        raise InvalidParameter(
            f"the generator {name!r} is River's, which is not installed: pip install 'privol[river]'"
        ) from error
    source = _BY_RIVER[name](synth, rows, _FIRST_SEED + 2 * seed)
    pairs: Iterator[tuple[dict[Any, Any], Any]] = source.take(rows)
    names: tuple[Any, ...] = ()
    cells = []
    for x, y in pairs:
        names = names or tuple(x)
        cells.append([str(value.item() if isinstance(value, np.generic) else value) for value in (*x.values(), y)])
    return (*(f"x{key}" if isinstance(key, int) else str(key) for key in names), _TARGET), cells
