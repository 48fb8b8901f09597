"""The problem of a run and its budget: the public records from which calibrations start."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .._rounding import bound_of_rows
from .._validate import choice, number
from ..errors import InvalidParameter
from ..geometry import ConvexSet
from ..guarantees import ADJACENCIES, epsilon_within, gdp_mu
from ..losses import Loss
from ._participation import check_user

__all__ = ["EPSILON", "Budget", "Problem", "epsilon_of", "stated_epsilon"]

#: The default budget of a run.
EPSILON = 1.0

_SMALL, _LARGE = 1e-30, 1e30  # within these, no square in the kernels leaves the normal doubles


@dataclass(frozen=True, kw_only=True)
class Problem:
    """The problem of a run: the loss, and the size and number of its rows; all of it public.

    Attributes
    ----------
    loss : Loss
    domain : ConvexSet
        The feasible models.
    dim : int
        Coordinates of a model: the intercept and all ``outputs`` counted.
    intercept : bool
        The constant 1 is appended to every row.
    x_bound, y_bound : float
        Of a row's L2 norm without the constant, and of a real target's magnitude; 1e-30 to 1e30.
    adjacency : {"replace", "zero_out"}
    horizon : int
        Rows that the budget must last for; with renewal those of the first epoch.
    outputs : int
        Scores of a row: one for each class where they are several.
    weight : float
        The largest class weight.
    rows_per_user, user_separation : int
        For all rows of a user: at most this many, any two at least this many rows apart. 1 and 1: for a row.

    Raises
    ------
    InvalidParameter
        If a bound is out of its range, or there is no such adjacency.
    """

    loss: Loss
    domain: ConvexSet
    dim: int
    intercept: bool
    x_bound: float
    y_bound: float
    adjacency: str
    horizon: int
    outputs: int = 1
    weight: float = 1.0
    rows_per_user: int = 1
    user_separation: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "x_bound", number(x_bound=self.x_bound, at_least=_SMALL, at_most=_LARGE))
        object.__setattr__(self, "y_bound", number(y_bound=self.y_bound, at_least=_SMALL, at_most=_LARGE))
        choice(ADJACENCIES, adjacency=self.adjacency)
        check_user(self.rows_per_user, self.user_separation)

    @property
    def row_bound(self) -> float:
        """L2 bound of a row with the intercept's constant."""
        return bound_of_rows(self.x_bound, self.intercept)

    @property
    def radius(self) -> float:
        """Largest L2 norm of a feasible model."""
        return self.domain.norm_bound(self.dim)

    @property
    def replaces(self) -> bool:
        """Whether a neighbouring stream may have any other row in a row's place, not only its absence."""
        return self.adjacency == "replace"


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The budget of a run, and how noise follows from it: public.

    Attributes
    ----------
    epsilon : float
        Above 0; infinite: no noise and no guarantee.
    delta : float
        In (0, 1).
    calibration : {"tight", "published"}
        Noise that is proved, or a source's own.
    """

    epsilon: float
    delta: float
    calibration: str = "tight"

    @property
    def noiseless(self) -> bool:
        """Whether there is no guarantee and no noise."""
        return math.isinf(self.epsilon)

    @property
    def published(self) -> bool:
        """Whether the noise is the source's."""
        return self.calibration == "published"

    @property
    def mu(self) -> float:
        """Parameter of Gaussian differential privacy that the budget comes to; infinite without noise."""
        return math.inf if self.noiseless else gdp_mu(self.epsilon, self.delta)


def stated_epsilon(epsilon: float | None, delta: float, mu: float | None) -> float:
    """Return the epsilon of a budget that is stated by epsilon, or by the parameter of Gaussian differential privacy.

    Parameters
    ----------
    epsilon : float or None
        Above 0, or infinite; None: not stated.
    delta : float
        In (0, 1) with ``mu``.
    mu : float or None
        Above 0, or infinite; None: not stated.

    Returns
    -------
    float
        1 where neither is stated. With ``mu``: the largest, but for rounding, whose noise spends no more than it.

    Raises
    ------
    InvalidParameter
        If both are stated, or mu is so small that delta alone allows it.
    """
    if mu is None:
        return number(epsilon=EPSILON if epsilon is None else epsilon, above=0, infinite=True)
    mu = number(mu=mu, above=0, infinite=True)
    if epsilon is not None:
        raise InvalidParameter(
            f"epsilon and mu are two ways to state one budget, and exclude each other: found epsilon={epsilon!r} and "
            f"mu={mu!r}"
        )
    if math.isinf(mu):
        return mu
    found = epsilon_within(mu, number(delta=delta, above=0, below=1))
    if found <= 0.0:
        raise InvalidParameter(
            f"mu={mu!r} has no epsilon above 0 at delta={delta!r}, which allows as much by itself: choose a smaller "
            "delta"
        )
    return found


def epsilon_of(learner: Any) -> float | None:
    """Return the epsilon of an estimator's budget, which it may state by ``mu`` or leave to the default.

    None where it states its noise in another way, as by ``leakage``.
    """
    given = learner.get_params(deep=False)
    if "mu" not in given:
        epsilon: float | None = given.get("epsilon")
        return epsilon
    if given["mu"] is not None and given.get("calibration") == "published":
        raise InvalidParameter(
            f"mu={given['mu']!r} states what a run may spend, but calibration='published' fixes the noise by the "
            "source's epsilon: state epsilon instead"
        )
    return stated_epsilon(given["epsilon"], given["delta"], given["mu"])
