"""The base of all randomizers: a calibrated plan, a separate source of noise, and the reports."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core._report import Report, ReportSampler
from .._validate import number
from .._values import array_of, unmasked
from ..calibration import Proxy, ReportNoise
from ..errors import InvalidParameter
from ..guarantees import Guarantee
from ..noise import (
    STREAM_REPORTS,
    Source,
    Unshared,
    decide_lattice_point,
    decide_mixture_point,
    decide_side,
    make_source,
)

__all__ = ["Randomizer", "compiled", "randomizer_of"]

_DECIDE: dict[str, Callable[..., float]] = {
    "gaussian": decide_lattice_point,
    "laplace": partial(decide_lattice_point, law="laplace"),
    "l2_laplace": decide_mixture_point,
    "cap": decide_mixture_point,
}
_CONDITIONS = (
    "the bound and all other parameters were chosen without looking at the vectors",
    "nothing else of the vector leaves the device, and no vector is in a second report",
)


def compiled(noise: ReportNoise, *, bound: float | None = None) -> Report:
    """Return the compiled plan of a calibration; ``bound``: of the vectors' norm, if it is not the noise's."""
    side = decide_side if noise.kind == "cap" else None
    words = noise.numbers if bound is None else noise.numbers | {"bound": bound}
    return Report(decide=_DECIDE.get(noise.kind), decide_side=side, **words)


def randomizer_of(noise: ReportNoise, *, delta: float = 1e-6, random_state: Any = None) -> Randomizer:
    """Return a device for a calibration."""
    return Randomizer(noise, delta=delta, random_state=random_state)


class Randomizer(Unshared):
    """A device: it sees vectors and owns the noise.

    Base of the randomizers, and what ``device`` of a learner returns.

    Parameters
    ----------
    noise : ReportNoise
        What :func:`privol.calibration.calibrate_report` returns.
    delta : float, default=1e-6
        In (0, 1): where the guarantee states epsilon.
    random_state : None, int, BitGenerator, ...
        ``None``: noise that cannot be reproduced. Any other value is for tests: see :func:`privol.noise.make_source`.

    Notes
    -----
    Every report draws fresh words: the n-th vector has those of row n, however vectors are cut into calls. Thread-safe.
    Cannot be copied or pickled, and refuses in a forked child process.
    """

    _called = "a randomizer"

    def __init__(self, noise: ReportNoise, *, delta: float = 1e-6, random_state: Any = None) -> None:
        if not isinstance(noise, ReportNoise):
            raise InvalidParameter(f"noise must be what calibrate_report() returns, found {noise!r}")
        self._noise, self._delta = noise, number(delta=delta, above=0.0, below=1.0)
        self._source: Source = make_source(random_state)
        self._sampler = ReportSampler(self._source, report=compiled(noise), stream=STREAM_REPORTS)

    def __repr__(self) -> str:
        noise = self._noise
        return f"<{type(self).__name__}: {noise.dim} coordinates, {noise.name}, {self._source.description}>"

    def __setstate__(self, state: object) -> NoReturn:
        self.__reduce__()

    @property
    def dim(self) -> int:
        """Coordinates of a vector and of its report."""
        return self._noise.dim

    @property
    def bound(self) -> float:
        """L2 norm that vectors are scaled to where they exceed it."""
        return self._noise.bound

    @property
    def adjacency(self) -> str:
        """Whether a vector is replaced by any other ("replace") or by the zero vector ("zero_out")."""
        return self._noise.adjacency

    @property
    def calibration(self) -> ReportNoise:
        """All public numbers of the reports."""
        return self._noise

    @property
    def granularity(self) -> float:
        """The grid of the reports: a power of two."""
        return self._sampler.report.granularity

    @property
    def n_reports(self) -> int:
        """Reports made so far, including those of failed calls."""
        return self._sampler.place - 1

    def privatize(self, gradients: ArrayLike) -> NDArray[np.float64]:
        """Return the reports of vectors.

        Parameters
        ----------
        gradients : array-like of real numbers, shape (dim,) or (n, dim)
            Secret. A vector longer than the bound is scaled to it; one that is not finite everywhere, or holds what is
            masked, missing or no real number, counts as the zero vector. None of it is ever an error, which would tell
            of the vector.

        Returns
        -------
        ndarray of float64, of the shape of gradients
            Public. Each report is differentially private for its own vector; vectors are independent.

        Raises
        ------
        InvalidParameter
            If the shape is wrong; before anything is drawn.
        SourceFailure
            In a forked child process; if the cipher fails; after 2**40 - 1 reports.
        """
        declared = isinstance(gradients, np.ndarray) and gradients.dtype == np.float32
        vectors: NDArray[Any] = np.asarray(unmasked(gradients)) if declared else array_of(gradients)
        if vectors.ndim not in (1, 2) or vectors.shape[-1] != self.dim:
            raise InvalidParameter(f"gradients must have shape ({self.dim},) or (n, {self.dim}), found {vectors.shape}")
        kept = np.float32 if vectors.dtype == np.float32 else np.float64
        rows = np.require(vectors.reshape(-1, self.dim), kept, ["C_CONTIGUOUS", "ALIGNED"])
        return self._sampler.privatize(rows).reshape(vectors.shape)

    def variance(self, norm: float) -> float:
        """Return ``E ||report - v||^2`` for a vector v of that L2 norm, from 0 to the bound.

        Without the rounding to the grid, which adds less than 1e-6 of it.
        """
        return self._noise.variance(norm)

    @property
    def power(self) -> float:
        """Bound of ``E ||report||^2`` over all vectors."""
        return self._noise.power

    def proxy(self, method: str = "numerical", *, theta: float = 0.25) -> Proxy:
        """Return the noise figures for coin betting: see :meth:`privol.calibration.ReportNoise.proxy`."""
        return self._noise.proxy(method, theta=theta)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of one report, against its receiver."""
        noise = self._noise
        kind = "none" if math.isinf(noise.mu) else "pure" if math.isfinite(noise.epsilon) else "gdp"
        return Guarantee(
            kind=kind,
            parameter={"none": math.inf, "pure": noise.epsilon, "gdp": noise.mu}[kind],
            adjacency=noise.adjacency,
            horizon=1,
            releases=1,
            delta=self._delta,
            conditions=_CONDITIONS,
            arithmetic=noise.arithmetic,
            bit_source="none" if kind == "none" else self._source.description,
            private=self._source.private or kind == "none",
            released="reports",
            leakage=noise.leakage,
        )
