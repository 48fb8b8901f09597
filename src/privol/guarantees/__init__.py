"""The promises of a run: the arithmetic of privacy budgets, and the guarantee as a record.

Everything here is pure arithmetic on public numbers; nothing in this module sees data or noise. Logarithms
are natural, ``mu`` is the parameter of Gaussian differential privacy (the sensitivity divided by the noise's
standard deviation), and every result is rounded towards more noise or a larger reported figure. A parameter
out of its stated range raises :class:`~privol.errors.InvalidParameter`.

Sources: Balle and Wang 2018 (the exact curve of the Gaussian mechanism), Dong, Roth and Su 2022 (Gaussian
differential privacy and its composition), Canonne, Kamath and Steinke 2020 (from zero-concentrated to
approximate differential privacy), Kairouz, Oh and Viswanath 2015 (pure differential privacy, and what is proved at one
epsilon and delta), Feldman, McMillan and Talwar 2021 (reports in a secret random order), Papernot and Steinke 2022 (the
best of a random number of runs).
"""

from ._approximate import Bound, approximate_delta, approximate_epsilon, group_slack, left_of_delta
from ._arithmetic import (
    BudgetSplit,
    compose_gdp,
    epsilon_within,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    group_mu,
    split_budget,
    square_up,
    sum_up,
    times_up,
    zcdp_epsilon,
    zcdp_rho_of_gdp,
)
from ._composition import describe_composition
from ._html import ShowsGuarantee, guarantee_html
from ._mixed import compose_fixed, compose_pure
from ._persons import COLLISION, delta_of_noise, unchecked
from ._phrases import RELEASED, format_up
from ._pure import gdp_mu_of_pure, pure_delta, pure_epsilon, pure_within_gdp, zcdp_rho_of_pure
from ._record import ADJACENCIES, KINDS, UNITS, Claim, Guarantee
from ._selection import selection_epsilon, selection_mu
from ._shuffled import shuffled_delta, shuffled_epsilon, shuffled_epsilon_of_gdp
from ._weaknesses import DELTA_TOO_LARGE, WEAK_EPSILON, weaknesses

__all__ = [
    "ADJACENCIES",
    "COLLISION",
    "DELTA_TOO_LARGE",
    "KINDS",
    "RELEASED",
    "UNITS",
    "WEAK_EPSILON",
    "Bound",
    "BudgetSplit",
    "Claim",
    "Guarantee",
    "ShowsGuarantee",
    "approximate_delta",
    "approximate_epsilon",
    "compose_fixed",
    "compose_gdp",
    "compose_pure",
    "delta_of_noise",
    "describe_composition",
    "epsilon_within",
    "format_up",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "gdp_mu_of_pure",
    "group_mu",
    "group_slack",
    "guarantee_html",
    "left_of_delta",
    "pure_delta",
    "pure_epsilon",
    "pure_within_gdp",
    "selection_epsilon",
    "selection_mu",
    "shuffled_delta",
    "shuffled_epsilon",
    "shuffled_epsilon_of_gdp",
    "split_budget",
    "square_up",
    "sum_up",
    "times_up",
    "unchecked",
    "weaknesses",
    "zcdp_epsilon",
    "zcdp_rho_of_gdp",
    "zcdp_rho_of_pure",
]
