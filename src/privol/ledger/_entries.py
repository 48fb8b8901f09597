"""What a ledger says was spent: by one run, and by all of them together."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InvalidParameter
from ..guarantees import gdp_delta, gdp_epsilon, zcdp_rho_of_gdp

__all__ = ["LedgerEntry", "Spent"]


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """What one run has spent so far: rows ``first_row`` to ``last_row`` (0 for none) of its own stream. Public.

    Attributes
    ----------
    plan_id : str
        Identifier of the run, 32 hexadecimal digits.
    learner : str
        Name of the learner.
    first_row, last_row : int
        1-based range of rows learnt; ``last_row = 0`` before the first.
    releases : int
        Number of models, or of windows of metrics, released.
    mu_squared : float
        Square of the Gaussian differential privacy parameter of these releases, rounded up; ``inf`` without noise.
    open : bool
        Whether the run may still spend.
    private : bool
        False if the run had no noise or its noise came from a known seed.
    """

    plan_id: str
    learner: str
    first_row: int = 1
    last_row: int
    releases: int
    mu_squared: float
    open: bool
    private: bool


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What all runs of a ledger have spent together: one row may have been in every one of them. Public.

    Attributes
    ----------
    mu : float
        Composed parameter of Gaussian differential privacy, rounded up; ``inf`` after a release without noise.
    adjacency : {"replace", "zero_out"}
        The relation of every run in it.
    releases : int
        Number of models and of windows of metrics released.
    delta : float or None
        Where :meth:`epsilon` is stated unless another delta is asked for (the ledger's limit).
    private : bool
        False as soon as one run that released something had no noise, or noise from a known seed.
    """

    mu: float
    adjacency: str
    releases: int
    delta: float | None
    private: bool

    @property
    def rho(self) -> float:
        """Parameter of zero-concentrated differential privacy, in nats, rounded up."""
        return zcdp_rho_of_gdp(self.mu)

    def epsilon(self, delta: float | None = None) -> float:
        """Epsilon at ``delta`` (above 0, below 1; default: the limit's), rounded up.

        Raises
        ------
        InvalidParameter
            If ``delta`` is out of its range, or not given for a ledger without a limit.
        """
        if delta is None:
            delta = self.delta
        if delta is None:
            raise InvalidParameter("delta must be given: the ledger has no limit to take it from")
        return gdp_epsilon(self.mu, delta)

    def delta_at(self, epsilon: float) -> float:
        """Delta at ``epsilon`` (at least 0), rounded up."""
        return gdp_delta(epsilon, self.mu)
