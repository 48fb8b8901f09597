"""What a run can promise: the arithmetic of privacy budgets, and the guarantee as a record.

Everything here is pure arithmetic on public numbers; nothing in this module sees data or noise. Logarithms
are natural, ``mu`` is the parameter of Gaussian differential privacy (the sensitivity divided by the noise's
standard deviation), and every result is rounded towards more noise or a larger reported figure. A parameter
out of its stated range raises :class:`~privol.errors.InvalidParameter`.

Sources: Balle and Wang 2018 (the exact curve of the Gaussian mechanism), Dong, Roth and Su 2022 (Gaussian
differential privacy and its composition), Canonne, Kamath and Steinke 2020 (from zero-concentrated to
approximate differential privacy).
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr

from ._validate import choice, integer, number
from .errors import InvalidParameter

__all__ = [
    "ADJACENCIES",
    "Claim",
    "Guarantee",
    "compose_gdp",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "zcdp_epsilon",
    "zcdp_rho_of_gdp",
]

ADJACENCIES = ("replace", "zero_out")
"""The neighbouring relations, for two streams of the same public length that differ in one row."""

KINDS = ("gdp", "none")
UNITS = ("row",)

_FORMAT = "privol.guarantee"
_VERSION = 1

_UNIT_ROUNDOFF = 2.0**-53
_SQRT2 = math.sqrt(2.0)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


@functools.cache
def _gauss_legendre() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights on [0, 1]; 64 of them integrate exp(-90 t) and exp(-45 t^2) to full precision."""
    nodes, weights = np.polynomial.legendre.leggauss(64)
    return (nodes + 1.0) / 2.0, weights / 2.0


def _log_delta(epsilon: float, mu: float) -> float:
    """Logarithm of the curve at finite ``epsilon >= 0``, ``mu > 0``, rounded up by a bound of its error.

    With ``a = mu/2 - epsilon/mu`` and ``y = mu/2 + epsilon/mu`` the curve is ``Phi(a) - e^epsilon Phi(-y)``,
    and ``e^epsilon phi(y) = phi(a)`` takes the large exponentials out of it: ``delta = phi(a) (M(-a) -
    M(y))`` with Mills' ratio M. Subtracting loses digits only where the two terms are close (a small mu);
    there the same quantity is summed from its positive integrand ``phi(t - a) (1 - e^(-mu t))``, ``t > 0``. A
    difference of two ``log_ndtr`` values would lose about ``epsilon / mu^2`` units in the last place, more
    than a margin of 1e-12 in mu covers.
    """
    a = mu / 2.0 - epsilon / mu
    y = mu / 2.0 + epsilon / mu
    if math.isinf(a * a):
        return -math.inf if a < 0.0 else 0.0
    value = math.nan
    second = 0.5 * float(erfcx(y / _SQRT2))
    if a <= 0.0:
        first = 0.5 * float(erfcx(-a / _SQRT2))
        if second <= 0.5 * first:
            value = math.log(first - second) - a * a / 2.0
    else:
        log_first = float(log_ndtr(a))
        ratio = math.exp(-a * a / 2.0 - log_first) * second
        if ratio <= 0.5:
            value = log_first + math.log1p(-ratio)
    if math.isnan(value):
        nodes, weights = _gauss_legendre()
        root = math.sqrt(a * a + 90.0)
        length = a + root if a > 0.0 else 90.0 / (root - a)  # beyond it the integrand has fallen by e^-45
        t = length * nodes
        growth = -np.expm1(-mu * t) / mu if mu > 1e-100 else t  # the limit where products would be subnormal
        total = length * float(np.dot(weights, np.exp(t * (a - t / 2.0)) * growth))
        if total <= 0.0:
            return -a * a / 2.0  # it underflows only where this plain bound is already far below any delta
        value = math.log(total) + math.log(mu) - a * a / 2.0 - _LOG_SQRT_2PI
    # The rounding of a moves the value by at most (|a| + 1) y units, the rest of the evaluation by a few.
    slack = _UNIT_ROUNDOFF * (16.0 + 4.0 * abs(value)) + 8.0 * _UNIT_ROUNDOFF * (abs(a) + 1.0) * (y + 1.0)
    return min(value + slack, 0.0)


def _delta(epsilon: float, mu: float) -> float:
    if mu == 0.0:
        return 0.0
    if math.isinf(mu):
        return 1.0
    delta = math.exp(_log_delta(epsilon, mu))
    # Subnormal numbers are too coarse for the error bound: the next one is taken.
    return delta if delta > 1e-300 else math.nextafter(delta, 1.0)


def gdp_delta(epsilon: float, mu: float) -> float:
    """Smallest delta at which ``mu``-GDP implies ``(epsilon, delta)``-differential privacy.

    Parameters
    ----------
    epsilon, mu : float
        At least 0; epsilon finite, ``mu = inf`` (no privacy) gives 1.

    Returns
    -------
    float
        ``Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)``, within [0, 1] and rounded up; 0 only
        for ``mu = 0``, the smallest positive double where the value underflows.

    Notes
    -----
    Balle and Wang 2018, Theorem 8. Accurate in relative terms for every argument, the far tail included.
    """
    return _delta(number(epsilon=epsilon, at_least=0.0), number(mu=mu, at_least=0.0, infinite=True))


def gdp_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon at which ``mu``-GDP implies ``(epsilon, delta)``-differential privacy.

    Parameters
    ----------
    mu, delta : float
        ``mu`` at least 0 (``inf`` gives ``inf``), ``delta`` above 0 and below 1.

    Returns
    -------
    float
        Rounded up; 0 where ``delta`` is at least ``2 Phi(mu/2) - 1``.
    """
    mu = number(mu=mu, at_least=0.0, infinite=True)
    delta = number(delta=delta, above=0.0, below=1.0)
    if mu == 0.0:
        return 0.0
    if math.isinf(mu):
        return math.inf
    if _delta(0.0, mu) <= delta:
        return 0.0
    low, high = 0.0, mu * (mu / 2.0 + math.sqrt(-2.0 * math.log(delta)))
    while math.isfinite(high) and _delta(high, mu) > delta:
        low, high = high, 2.0 * high
    if math.isinf(high):
        return math.inf
    while high - low > 1e-15 * high and high - low > 1e-17 * mu:
        middle = low + (high - low) / 2.0
        if not low < middle < high:
            break
        if _delta(middle, mu) <= delta:
            high = middle
        else:
            low = middle
    return high


def gdp_mu(epsilon: float, delta: float) -> float:
    """Largest ``mu`` whose guarantee is within ``(epsilon, delta)``: the analytic calibration of Gaussian
    noise.

    Parameters
    ----------
    epsilon, delta : float
        ``epsilon`` at least 0 and finite, ``delta`` above 0 (Gaussian noise cannot give 0) and below 1.

    Returns
    -------
    float
        The root of the increasing function ``mu -> gdp_delta(epsilon, mu)``, bisected to a relative 1e-14 and
        then multiplied by ``1 - 1e-12`` (less budget, more noise). Noise of standard deviation ``sensitivity
        / mu`` meets the budget.

    Notes
    -----
    Balle and Wang 2018. The classical ``sqrt(2 ln(1.25/delta))/epsilon`` is both larger and wrong for epsilon
    above 1.
    """
    epsilon = number(epsilon=epsilon, at_least=0.0)
    delta = number(delta=delta, above=0.0, below=1.0)
    # Two lower bounds of the root: delta <= mu/sqrt(2 pi), and delta <= exp(-a^2/2) where a < 0.
    tail = math.sqrt(-2.0 * math.log(delta))
    low = max(delta * math.sqrt(2.0 * math.pi), 2.0 * epsilon / (math.hypot(tail, math.sqrt(2.0 * epsilon)) + tail))
    while _delta(epsilon, low) > delta:
        low /= 2.0
    high = 2.0 * low
    while _delta(epsilon, high) <= delta:
        low, high = high, 2.0 * high
    while high > low * (1.0 + 1e-14):
        middle = low * math.sqrt(high / low)
        if not low < middle < high:
            break
        if _delta(epsilon, middle) <= delta:
            low = middle
        else:
            high = middle
    return low * (1.0 - 1e-12)


def square_up(x: float) -> float:
    """Smallest double that is at least ``x * x`` (``x >= 0``)."""
    if math.isinf(x) or math.isinf(x * x):
        return math.inf
    square = x * x
    return square if Fraction(square) >= Fraction(x) ** 2 else math.nextafter(square, math.inf)


def _sqrt_up(x: Fraction) -> float:
    """Smallest double whose square is at least ``x`` (``x >= 0``)."""
    # Scaled by a power of four, so that squares beyond the range of doubles still have a root within it.
    shift = 600 if 0 < x < Fraction(2) ** -900 else -600 if x > 2**900 else 0
    try:
        root = math.ldexp(math.sqrt(x * Fraction(4) ** shift), -shift)
    except OverflowError:
        return math.inf
    while math.isfinite(root) and Fraction(root) ** 2 < x:
        root = math.nextafter(root, math.inf)
    if math.isinf(root):
        return root
    while root > 0.0 and Fraction(math.nextafter(root, 0.0)) ** 2 >= x:
        root = math.nextafter(root, 0.0)
    return root


def compose_gdp(mus: Iterable[float]) -> float:
    """Compose mechanisms that are ``mu_i``-GDP, each of which may be chosen from the earlier outputs.

    Parameters
    ----------
    mus : iterable of float
        Each at least 0, ``inf`` allowed; anything else raises :class:`~privol.errors.InvalidParameter`.

    Returns
    -------
    float
        ``sqrt(sum mu_i^2)``, exact and then rounded up to a double; 0 for none.

    Notes
    -----
    Dong, Roth and Su 2022, Corollary 3.3. Where the ``mu_i`` are themselves chosen from outputs, a bound
    fixed in advance on the sum of squares is what is guaranteed; that is what :class:`privol.ledger.Ledger`
    enforces.
    """
    total = Fraction(0)
    infinite = False
    for entry in mus:
        mu = number(mu=entry, at_least=0.0, infinite=True)
        if math.isinf(mu):
            infinite = True
        else:
            total += Fraction(mu) ** 2
    return math.inf if infinite else _sqrt_up(total)


def zcdp_rho_of_gdp(mu: float) -> float:
    """Parameter ``rho = mu^2 / 2``, in nats and rounded up, of the zCDP that ``mu``-GDP implies."""
    square = square_up(number(mu=mu, at_least=0.0, infinite=True))
    # Halving is exact except for the smallest subnormals, where the larger neighbour is kept.
    return square / 2.0 if square / 2.0 * 2.0 == square else square


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Epsilon at which ``rho``-zCDP implies ``(epsilon, delta)``-differential privacy.

    Parameters
    ----------
    rho, delta : float
        ``rho`` at least 0 (``inf`` gives ``inf``), ``delta`` above 0 and below 1.

    Returns
    -------
    float
        Minimum over ``alpha > 1`` of ``alpha rho + ln(1 - 1/alpha) - (ln delta + ln alpha)/(alpha - 1)``,
        rounded up, at least 0.

    Notes
    -----
    Canonne, Kamath and Steinke 2020, Corollary 13; never above the classical ``rho + 2 sqrt(rho
    ln(1/delta))``. A mechanism that is known to be ``mu``-GDP has the smaller :func:`gdp_epsilon`.
    """
    rho = number(rho=rho, at_least=0.0, infinite=True)
    delta = number(delta=delta, above=0.0, below=1.0)
    if rho == 0.0 or math.isinf(rho):
        return rho
    log_inverse = -math.log(delta)
    # With u = alpha - 1 the derivative vanishes where rho u^2 + ln(1 + u) = ln(1/delta): an increasing
    # function. The bound holds at every alpha, so an inexact root costs tightness only.
    high = min(math.sqrt(log_inverse / rho), math.expm1(min(log_inverse, 700.0)))
    low = high
    while low > 0.0 and rho * low * low + math.log1p(low) > log_inverse:
        low /= 4.0
    for _ in range(80):
        middle = math.sqrt(low) * math.sqrt(high)
        if not low < middle < high:
            break
        if rho * middle * middle + math.log1p(middle) > log_inverse:
            high = middle
        else:
            low = middle
    u = high
    terms = (rho, rho * u, -math.log1p(1.0 / u), (log_inverse - math.log1p(u)) / u)
    magnitude = math.fsum(abs(term) for term in terms) + (log_inverse + math.log1p(u)) / u
    epsilon = math.fsum(terms) + 8.0 * _UNIT_ROUNDOFF * magnitude
    return max(epsilon, 0.0)


def format_up(x: float, digits: int = 4) -> str:
    """Write ``x >= 0`` with at most ``digits`` significant digits, rounded up: no figure is understated.

    The shortest decimal form of the double is what is rounded: 0.1 is written "0.1".
    """
    if math.isinf(x):
        return "infinity"
    if x == 0.0:
        return "0"
    decimal = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(x)).normalize()
    return f"{decimal:f}" if -4 <= decimal.adjusted() < 6 else f"{decimal:e}"


def _refuse(what: str) -> NoReturn:
    raise InvalidParameter(f"guarantee record {what}")


def _known_fields(record: object, names: set[str]) -> dict[str, Any]:
    if not isinstance(record, dict):
        _refuse(f"must hold a JSON object where it holds {record!r}")
    for what, wrong in (("has unknown", set(record) - names), ("lacks", names - set(record))):
        if wrong:
            _refuse(f"{what} fields: {', '.join(sorted(map(repr, wrong)))}")
    return dict(record)


def _text(**named: object) -> str:
    ((name, value),) = named.items()
    if not isinstance(value, str) or not value.strip():
        raise InvalidParameter(f"{name} must be a non-empty string, found {value!r}")
    return value


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a publication says of its own noise; quoted beside the proved figure, never relied on.

    Attributes
    ----------
    epsilon, delta : float
        The claimed parameters, at least 0.
    source : str
        Where the publication says so.
    """

    epsilon: float
    delta: float
    source: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", number(epsilon=self.epsilon, at_least=0.0))
        object.__setattr__(self, "delta", number(delta=self.delta, at_least=0.0))
        _text(source=self.source)


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """A privacy guarantee with everything that a reader needs to know what it says. Public, immutable.

    Attributes
    ----------
    kind : {"gdp", "none"}
        Gaussian differential privacy, or no guarantee at all (a run without noise).
    parameter : float
        ``mu`` for "gdp" (finite, at least 0), ``inf`` for "none".
    adjacency : {"replace", "zero_out"}
        One row is replaced by any other admissible row, or by the null row.
    unit : {"row"}
        What is protected.
    horizon, releases : int
        Largest numbers of rows the run may read (at least 1, public) and of models it may release.
    delta : float
        Above 0, below 1: where epsilon is stated unless another delta is asked for.
    claim : Claim or None
        What the source of a published calibration says, where that calibration is used.
    conditions : tuple of str
        What the guarantee rests on besides this library (what the user vouched for).
    arithmetic, bit_source : str
        How the released numbers are computed, and where the noise's bits come from.
    private : bool
        False if the noise came from a seed that somebody may know: the figures are then those that the same
        run would have with secret noise, and :meth:`sentence` says that there is no privacy.
    """

    kind: str
    parameter: float
    adjacency: str
    unit: str = "row"
    horizon: int
    releases: int
    delta: float
    claim: Claim | None = None
    conditions: tuple[str, ...] = ()
    arithmetic: str
    bit_source: str
    private: bool = True

    def __post_init__(self) -> None:
        choice(KINDS, kind=self.kind)
        choice(ADJACENCIES, adjacency=self.adjacency)
        choice(UNITS, unit=self.unit)
        parameter = number(parameter=self.parameter, at_least=0.0, infinite=True)
        if (self.kind == "none") != math.isinf(parameter):
            allowed = "inf" if self.kind == "none" else "finite"
            raise InvalidParameter(f"parameter must be {allowed} for kind {self.kind!r}, found {parameter!r}")
        if self.claim is not None and not isinstance(self.claim, Claim):
            raise InvalidParameter(f"claim must be a Claim or None, found {self.claim!r}")
        if isinstance(self.conditions, str) or not isinstance(self.conditions, Iterable):
            raise InvalidParameter(f"conditions must be a sequence of strings, found {self.conditions!r}")
        for name, value in (
            ("parameter", parameter),
            ("horizon", integer(horizon=self.horizon, at_least=1)),
            ("releases", integer(releases=self.releases, at_least=0)),
            ("delta", number(delta=self.delta, above=0.0, below=1.0)),
            ("conditions", tuple(_text(conditions=c) for c in self.conditions)),
        ):
            object.__setattr__(self, name, value)
        _text(arithmetic=self.arithmetic)
        _text(bit_source=self.bit_source)
        if not isinstance(self.private, bool):
            raise InvalidParameter(f"private must be True or False, found {self.private!r}")

    # The four currencies. "none" is the infinite end of the same scale, so one formula serves both kinds; a
    # kind that is not on it (pure differential privacy, mutual information) branches here and in _numbers.

    @property
    def mu(self) -> float:
        """Parameter of Gaussian differential privacy; ``inf`` without noise."""
        return self.parameter

    @property
    def rho(self) -> float:
        """Parameter of zero-concentrated differential privacy, in nats, rounded up."""
        return zcdp_rho_of_gdp(self.mu)

    def epsilon(self, delta: float | None = None) -> float:
        """Epsilon at ``delta`` (default: the record's own), rounded up; ``inf`` without noise."""
        return gdp_epsilon(self.mu, self.delta if delta is None else delta)

    def delta_at(self, epsilon: float) -> float:
        """Delta at ``epsilon``, rounded up; 1 without noise."""
        return gdp_delta(epsilon, self.mu)

    def sentence(self) -> str:
        """Return the guarantee as one paragraph of plain text; every figure proved in it is rounded up."""
        body = f"{self._numbers()}{self._claim()} {self._scope()} {self._fine_print()}"
        if self.private or self.kind == "none":
            return body
        return (
            "NOT PRIVATE: the noise came from a known seed (random_state), so whoever knows or guesses the "
            "seed can subtract it, and no guarantee holds for this run. What the same run would guarantee if "
            f"its noise were secret: {body}"
        )

    def _numbers(self) -> str:
        if self.kind == "none":
            return (
                "NO PRIVACY: no noise was added, the releases are exact functions of the rows and nothing is "
                "guaranteed (epsilon is infinite)."
            )
        pair = f"({format_up(self.epsilon())}, {format_up(self.delta)})"
        return (
            f"Differential privacy with (epsilon, delta) = {pair}, from {format_up(self.mu)}-GDP (Gaussian "
            f"differential privacy), which also implies {format_up(self.rho)}-zCDP."
        )

    def _claim(self) -> str:
        if self.claim is None:
            return ""
        claim = self.claim
        # The two are compared at the same delta wherever the claimed one is a meaningful one.
        delta = claim.delta if 0.0 < claim.delta < 1.0 else self.delta
        proved = self.epsilon(delta)
        more = proved > claim.epsilon or delta > claim.delta
        return (
            f" The source ({claim.source}) claims (epsilon, delta) = ({claim.epsilon:.6g}, "
            f"{claim.delta:.6g}); what is proved for this noise is ({format_up(proved)}, "
            f"{format_up(delta)}), {'more than was claimed' if more else 'within the claim'}."
        )

    def _scope(self) -> str:
        relation = "replace one row by any other admissible row"
        if self.adjacency == "zero_out":
            relation = "replace one row by the null row, which contributes nothing"
            if self.kind != "none":
                twice = format_up(2.0 * self.mu)
                relation += f" (to replace it by another row is covered by {twice}-GDP, twice the mu)"
        models = "1 release of the model" if self.releases == 1 else f"{self.releases} releases of the model"
        rows = "1 row" if self.horizon == 1 else f"{self.horizon} rows"
        return (
            f'Adjacency "{self.adjacency}": {relation}; the number of rows is public. Unit: one {self.unit}; '
            f"several rows of one person are not protected as one. Horizon: at most {rows}, the whole run "
            f"together. Released: at most {models} out of {rows}, to an observer who sees them all and may "
            "choose later rows by them; nothing else is covered (not the rows, the un-noised iterates, the "
            "noise, progressive accuracy or any other diagnostic)."
        )

    def _fine_print(self) -> str:
        conditions = "; ".join(self.conditions) or "none besides these"
        return f"Arithmetic: {self.arithmetic}. Bit source: {self.bit_source}. Conditions: {conditions}."

    def to_record(self) -> dict[str, Any]:
        """Return the guarantee as a dictionary of JSON values, with its format and version."""
        record: dict[str, Any] = {"format": _FORMAT, "version": _VERSION}
        for field in fields(self):
            record[field.name] = getattr(self, field.name)
        # JSON has no infinity; the word stands for it.
        record["parameter"] = "inf" if math.isinf(self.parameter) else self.parameter
        record["conditions"] = list(self.conditions)
        if self.claim is not None:
            record["claim"] = {field.name: getattr(self.claim, field.name) for field in fields(self.claim)}
        return record

    @classmethod
    def from_record(cls, record: object) -> Guarantee:
        """Rebuild a guarantee from :meth:`to_record`'s dictionary.

        Raises
        ------
        InvalidParameter
            If the format or the version is unknown, a field is unknown or missing, or a value is out of its
            range.
        """
        if not isinstance(record, dict) or record.get("format") != _FORMAT:
            _refuse(f'must be a JSON object of format "{_FORMAT}"')
        version = record.get("version")
        if type(version) is not int or version != _VERSION:
            _refuse(f"has version {version!r}; this release of privol reads version {_VERSION}")
        values = _known_fields(record, {"format", "version", *(field.name for field in fields(cls))})
        del values["format"], values["version"]
        if values["parameter"] == "inf":
            values["parameter"] = math.inf
        if not isinstance(values["conditions"], list):
            _refuse(f"must hold a list of conditions, found {values['conditions']!r}")
        if values["claim"] is not None:
            values["claim"] = Claim(**_known_fields(values["claim"], {field.name for field in fields(Claim)}))
        return cls(**values)

    def to_json(self) -> str:
        """Return the guarantee as JSON text; :meth:`from_json` gives back an equal record."""
        return json.dumps(self.to_record(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Guarantee:
        """Rebuild a guarantee from :meth:`to_json`'s text.

        Raises
        ------
        InvalidParameter
            If the text is not JSON, or as :meth:`from_record`.
        """
        try:
            record = json.loads(text, object_pairs_hook=_unique, parse_constant=lambda word: _refuse(f"holds {word}"))
        except (TypeError, json.JSONDecodeError) as error:
            raise InvalidParameter(f"guarantee record is not JSON text: {error}") from error
        return cls.from_record(record)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        _refuse("names a field twice")
    return record
