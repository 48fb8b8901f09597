"""The guarantee as a record: what a reader needs to know, and the sentence that says it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NoReturn

from .._rounding import ceil_double
from .._validate import choice, integer, number
from .._vocabulary import ADJACENCIES
from ..errors import InvalidParameter
from ._approximate import Bound, approximate_delta, approximate_epsilon, group_slack, left_of_delta
from ._arithmetic import gdp_delta, gdp_epsilon, sum_up, times_up, zcdp_rho_of_gdp
from ._html import guarantee_html
from ._persons import COLLISION, about_row, about_users, change_of_users, whose
from ._phrases import RELEASED, WORDS_OF_RELEASED, format_up
from ._pure import gdp_mu_of_pure, pure_delta, pure_epsilon, zcdp_rho_of_pure
from ._shuffled import shuffled_epsilon, shuffled_epsilon_of_gdp

__all__ = ["ADJACENCIES", "KINDS", "UNITS", "Claim", "Guarantee"]

"""The neighbouring relations, for two streams of the same public length that differ in one row."""

KINDS = ("gdp", "pure", "approximate", "none")
"""What can be promised: Gaussian, pure, or at one point (epsilon, delta)-differential privacy, or nothing."""

UNITS = ("row", "user")
"""Whom the figures are of: one row, or all rows of one user."""

_FORMAT = "privol.guarantee"
#: Fields that are left out if they hold nothing, so that releases that do not know them can read the record.
_YOUNGER = ("leakage", "slack", "user_separation", "user_factor", "users_fixed")
# New kinds do not need a new version: a release that does not know a kind refuses it by its name.
_VERSION = 1


#: A larger horizon stands for an open number of rows, not for a number of users that could be shuffled.
_MOST_SHUFFLED = 10**12


@lru_cache(maxsize=256)
def _shuffled(kind: str, parameter: float, n: int, delta: float, adjacency: str) -> float:
    of = shuffled_epsilon if kind == "pure" else shuffled_epsilon_of_gdp
    return of(parameter, n, delta, adjacency=adjacency)


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
    """A publication's claim about its own noise; quoted next to the proved figure, never relied on.

    Attributes
    ----------
    epsilon, delta : float
        The claimed parameters, at least 0.
    source : str
        Where the publication states it.
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
    """A privacy guarantee with all facts that are needed to read it. Public, immutable.

    Attributes
    ----------
    kind : {"gdp", "pure", "approximate", "none"}
        Gaussian differential privacy, pure differential privacy, (epsilon, delta)-differential privacy proved at
        one point alone, or no guarantee at all (a run without noise).
    parameter : float
        Of the unit: ``mu`` for "gdp", ``epsilon`` for "pure" and "approximate" (finite, at least 0), ``inf`` for
        "none".
    adjacency : {"replace", "zero_out"}
        One row is replaced by any other admissible row, or by the null row; or all rows of one user are.
    unit : {"row", "user"}
        What is protected: one row, or all rows of one user, at most ``rows_per_user``. The figures of the record are
        for this unit, except those that name the other.
    horizon, releases : int
        Largest numbers of rows the run may read (at least 1, public) and of models (or windows) it may release.
    delta : float
        Above 0, below 1: the delta at which epsilon is stated by default. At least the slack.
    claim : Claim or None
        The claim of the source, if a published calibration is used.
    conditions : tuple of str
        Conditions of the guarantee outside this library (what the user vouched for).
    arithmetic, bit_source : str
        How the released numbers are computed, and the source of the noise's bits.
    private : bool
        False if the noise came from a seed that somebody may know: the figures are then those of the same
        run with secret noise, and :meth:`sentence` says that there is no privacy.
    released : {"models", "sums", "reports", "parameters", "encoding", "metrics",
        "metrics_beyond_models"}
        The releases: models; prefix sums; randomized gradients or values, and everything computed from them; a
        learnt schema; noisy totals of windows of rows, together with the evaluated models; or the addition of these
        windows to the guarantee of the models.
    rows_per_user : int or None
        At least 1: no user has more learnt rows than this, so the guarantee holds for users too
        (:attr:`user_mu`). ``None``: nothing is known about users.
    user : str or None
        What identifies users: the column of the cap.
    user_separation : int
        Any two of these rows are at least this many rows apart; 1, which always holds, if nothing is known about users.
    users_fixed : bool
        Whether the user of each row must be the same in neighbouring streams. Otherwise all rows of one user may belong
        to another user who has no others, or to nobody.
    user_factor : float or None
        For "gdp", from 1 to ``rows_per_user``: the cost of all rows of a user, as a multiple of the cost of one, as the
        calibration proves it. ``None``: their number, by group privacy.
    leakage : float or None
        For "reports": bound, in nats, of the mutual information of a row and its report given all earlier reports,
        for every law of the row. ``None``: only the other figures imply one.
    slack : float
        For "approximate": the delta of its point, above 0 and below 1, and so the probability with which nothing is
        promised. 0 for all other kinds. A guarantee of this kind has one release, of models.
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
    released: str = "models"
    rows_per_user: int | None = None
    user: str | None = None
    leakage: float | None = None
    slack: float = 0.0
    user_separation: int = 1
    user_factor: float | None = None
    users_fixed: bool = True

    def __post_init__(self) -> None:
        choice(KINDS, kind=self.kind)
        choice(RELEASED, released=self.released)
        if self.leakage is not None:
            object.__setattr__(self, "leakage", number(leakage=self.leakage, at_least=0.0))
            if self.released != "reports" or self.kind == "none":
                raise InvalidParameter(f"leakage must be None but for reports with noise, found {self.leakage!r}")
        choice(ADJACENCIES, adjacency=self.adjacency)
        choice(UNITS, unit=self.unit)
        self._check_users()
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
        self._check_slack()
        if self.delta <= self.collision:
            least = f"{self.collision:.3g} where surplus rows of users are null rows"
            raise InvalidParameter(f"delta must be above {least}, found {self.delta!r}")
        _text(arithmetic=self.arithmetic)
        _text(bit_source=self.bit_source)
        if not isinstance(self.private, bool):
            raise InvalidParameter(f"private must be True or False, found {self.private!r}")

    def _check_users(self) -> None:
        separation = integer(user_separation=self.user_separation, at_least=1)
        object.__setattr__(self, "user_separation", separation)
        if self.rows_per_user is not None:
            object.__setattr__(self, "rows_per_user", integer(rows_per_user=self.rows_per_user, at_least=1))
        elif self.unit == "user" or separation > 1:
            raise InvalidParameter("rows_per_user must be given where unit is 'user' or user_separation is above 1")
        if not isinstance(self.users_fixed, bool):
            raise InvalidParameter(f"users_fixed must be True or False, found {self.users_fixed!r}")
        if self.user is not None:
            _text(user=self.user)
            if self.rows_per_user is None:
                raise InvalidParameter(f"user must be None where rows_per_user is, found {self.user!r}")
        if self.user_factor is not None:
            if self.rows_per_user is None or self.kind not in ("gdp", "none"):
                raise InvalidParameter(
                    f"user_factor must be None but for kind 'gdp' and known rows_per_user, found {self.user_factor!r}"
                )
            factor = number(user_factor=self.user_factor, at_least=1.0, at_most=self.rows_per_user)
            object.__setattr__(self, "user_factor", factor)

    def _check_slack(self) -> None:
        slack = number(slack=self.slack, at_least=0.0, below=1.0)
        object.__setattr__(self, "slack", slack)
        if (self.kind == "approximate") != (slack > 0.0):
            allowed = "above 0" if self.kind == "approximate" else "0"
            raise InvalidParameter(f"slack must be {allowed} for kind {self.kind!r}, found {slack!r}")
        if self.delta < slack:
            raise InvalidParameter(f"delta must be at least the slack, {slack!r}, found {self.delta!r}")
        if slack > 0.0 and (self.released != "models" or self.releases > 1):
            raise InvalidParameter("kind 'approximate' is for a single release of a model")

    # The four currencies. "none" is the infinite end of each scale; "approximate" has epsilon and delta alone.

    @property
    def bound(self) -> Bound:
        """The figures that compose: mu and epsilon without the slack, and the slack, which no other figure includes."""
        collision = self.collision if self.unit == "user" else 0.0
        if self.kind in ("pure", "approximate"):
            return Bound(gdp_mu_of_pure(self.parameter), self.parameter, self.slack, collision)
        return Bound(self.parameter, math.inf, 0.0, collision)

    @property
    def user_bound(self) -> Bound | None:
        """:attr:`bound` when all rows of one user change; ``None`` if their number is unknown."""
        parameter = self._user_parameter
        if parameter is None or self.rows_per_user is None:
            return None
        if self.unit == "user":
            return self.bound
        if self.kind not in ("pure", "approximate"):
            return Bound(parameter, math.inf, 0.0, self.collision)
        slack = group_slack(self.parameter, self.slack, self.rows_per_user)
        return Bound(gdp_mu_of_pure(parameter), parameter, slack, self.collision)

    @property
    def collision(self) -> float:
        """Bound on the probability that two users are taken for one, where it matters (not :attr:`users_fixed`).

        With this probability the figures for all rows of a user do not hold: every delta of theirs includes it. Figures
        for one row do not, because each row's user stays the same for them.
        """
        return 0.0 if self.users_fixed or self.rows_per_user is None or self.kind == "none" else COLLISION

    @property
    def mu(self) -> float:
        """Parameter of Gaussian differential privacy, for "pure" rounded up; ``inf`` without noise.

        "approximate" has none: ``inf`` too.
        """
        if self.kind == "approximate":
            return math.inf
        return gdp_mu_of_pure(self.parameter) if self.kind == "pure" else self.parameter

    @property
    def rho(self) -> float:
        """Parameter of zero-concentrated differential privacy, in nats, rounded up; ``inf`` if mu is."""
        return zcdp_rho_of_pure(self.parameter) if self.kind == "pure" else zcdp_rho_of_gdp(self.mu)

    def epsilon(self, delta: float | None = None) -> float:
        """Epsilon at ``delta`` (default: the record's own), rounded up; ``inf`` without noise.

        ``delta`` is above 0 (for "pure" at least 0, which gives the parameter) and below 1. For "approximate" the
        result is ``inf`` below the slack.
        """
        return self._epsilon(self.parameter, self.slack, delta, self.collision if self.unit == "user" else 0.0)

    def _epsilon(self, parameter: float, slack: float, delta: float | None, collision: float) -> float:
        delta = self.delta if delta is None else delta
        if collision > 0.0:
            rest = left_of_delta(number(delta=delta, at_least=0.0, below=1.0), collision)
            if rest is None or (rest == 0.0 and self.kind == "gdp"):
                return math.inf
            delta = rest
        if self.kind == "approximate":
            return approximate_epsilon(parameter, slack, delta)
        return pure_epsilon(parameter, delta) if self.kind == "pure" else gdp_epsilon(parameter, delta)

    def delta_at(self, epsilon: float) -> float:
        """Delta at ``epsilon``, rounded up; 1 without noise. From its parameter on it is 0 for "pure" and the slack for
        "approximate"."""
        found = gdp_delta(epsilon, self.mu) if self.kind in ("gdp", "none") else pure_delta(epsilon, self.parameter)
        if self.kind == "approximate":
            found = approximate_delta(epsilon, self.parameter, self.slack)
        return found if self.unit == "row" or not self.collision else min(sum_up([found, self.collision]), 1.0)

    @property
    def _user_parameter(self) -> float | None:
        """The parameter when all rows of one user change, rounded up."""
        if self.rows_per_user is None:
            return None
        return self.parameter if self.unit == "user" else times_up(self.parameter, self._factor)

    @property
    def _factor(self) -> float:
        """The factor, even for integers beyond all doubles."""
        return self.rows_per_user or 1 if self.user_factor is None else self.user_factor

    @property
    def row(self) -> Guarantee:
        """The same with one row as its unit: the cost of one row within a user's figures, rounded up."""
        if self.unit == "row":
            return self
        parameter = self.parameter
        if not math.isinf(parameter):
            parameter = ceil_double(Fraction(parameter) / Fraction(self._factor))
        return replace(self, unit="row", parameter=parameter)

    @property
    def user_mu(self) -> float | None:
        """``mu`` when all rows of one user change, rounded up; ``None`` if their number is unknown.

        :attr:`user_factor` times the mu of a row, or by group privacy: k steps to a neighbouring stream cost k times
        the mu (Dong, Roth and Su 2022, Theorem 2.14). For "pure" they cost k times the epsilon, of which this is the
        mu: at most k times the mu. ``inf`` if mu is.
        """
        parameter = self._user_parameter
        if parameter is not None and self.kind == "approximate":
            return math.inf
        return gdp_mu_of_pure(parameter) if parameter is not None and self.kind == "pure" else parameter

    def user_epsilon(self, delta: float | None = None) -> float | None:
        """Epsilon at ``delta`` (as in :meth:`epsilon`) when all rows of one user change, rounded up.

        ``None`` if the number of rows of a user is unknown. For "approximate" the slack is that of the user's rows
        (:func:`privol.guarantees.group_slack`), below which it is ``inf``.
        """
        parameter = self._user_parameter
        if parameter is None or self.rows_per_user is None:
            return None
        slack = self.slack if self.unit == "user" else group_slack(self.parameter, self.slack, self.rows_per_user)
        return self._epsilon(parameter, slack, delta, self.collision)

    def sentence(self) -> str:
        """Return the guarantee as one paragraph of plain text; every figure proved in it is rounded up."""
        figures = f"{self._numbers()}{self._leakage()}{self._claim()}"
        body = f"{figures} {self._scope()} {self._fine_print()}{self._shuffle()}"
        if self.private or self.kind == "none":
            return body
        return (
            "NOT PRIVATE: the noise came from a known seed (random_state), so whoever knows or guesses the "
            "seed can subtract it, and no guarantee holds for this run. What the same run would guarantee if "
            f"its noise were secret: {body}"
        )

    def summary(self) -> str:
        """Return the figures alone, in one line of plain text: for rows and, if known, for users."""
        if self.kind == "none":
            return "NO PRIVACY: no noise was added, and nothing is guaranteed (epsilon is infinite)"
        of = whose(self, most=True) if self.unit == "user" else "one row"
        who = of if self.adjacency == "replace" else f"the presence of {of}"
        pure, beside = self.kind == "pure", self.bound.beside  # a delta that no other figure has in it
        figures = f"epsilon {format_up(self.epsilon())} at delta {format_up(self.delta)}"
        curve = f"{format_up(self.mu)}-GDP"
        if pure and beside > 0.0:
            figures = f"epsilon {format_up(self.parameter)} at delta {format_up(beside)}"
        elif pure:
            figures = f"epsilon {format_up(self.parameter)} (delta 0)"
        elif self.slack > 0.0:
            curve = f"proved at delta {format_up(beside)} alone, which implies no GDP"
        line = f"{'pure ' if pure and not beside else ''}differential privacy with {figures} for {who} ({curve})"
        users, bound = self._user_parameter if pure else self.user_epsilon(), self.user_bound
        if self.unit == "user":
            row = self.row
            line += f"; epsilon {format_up(row.parameter if pure else row.epsilon())} for one row"
        elif users is not None and bound is not None:
            at = ""
            if self.slack > 0.0 or (pure and bound.beside > 0.0):
                users = bound.pure if bound.beside < 1.0 else math.inf
                at = f" at delta {format_up(bound.beside)}"
            line += f"; epsilon {format_up(users)}{at} for {whose(self, most=True)}"
        if self.claim is not None:
            line += f"; the source claims epsilon {self.claim.epsilon:.6g} at delta {self.claim.delta:.6g}"
        if self.released == "metrics_beyond_models":
            line += "; on top of the models that are evaluated, without which nothing holds"
        if self.private:
            return line
        return f"NOT PRIVATE: the noise came from a known seed; if that were secret: {line}"

    def _repr_html_(self) -> str:
        """The figures, and the sentence to unfold: what notebooks show."""
        return guarantee_html(self)

    def _numbers(self) -> str:
        if self.kind == "none":
            return (
                "NO PRIVACY: no noise was added, the releases are exact functions of the rows and nothing is "
                "guaranteed (epsilon is infinite)."
            )
        pair = f"({format_up(self.epsilon())}, {format_up(self.delta)})"
        whom = f" for all rows of {whose(self)}" if self.unit == "user" else ""
        beside = self.bound.beside
        if self.kind == "approximate":
            point = f"({format_up(self.parameter)}, {format_up(beside)})"
            more = "" if self.delta == beside else f", which implies {pair}"
            return (
                f"Differential privacy{whom} with (epsilon, delta) = {point}{more}. It is proved at this one delta: "
                'with a probability of up to that much nothing is promised ("slack"), so no smaller delta has an '
                "epsilon, and Gaussian, zero-concentrated or Renyi differential privacy does not follow."
            )
        if self.kind == "pure" and beside > 0.0:
            return (
                f"Differential privacy{whom} with (epsilon, delta) = ({format_up(self.parameter)}, "
                f"{format_up(beside)}), which implies {pair} and, beside that delta, {format_up(self.mu)}-GDP "
                f"(Gaussian differential privacy) and {format_up(self.rho)}-zCDP."
            )
        if self.kind == "pure":
            return (
                f"Pure differential privacy{whom} with epsilon = {format_up(self.parameter)} (delta = 0), which "
                f"implies (epsilon, delta) = {pair}, {format_up(self.mu)}-GDP (Gaussian differential privacy) and "
                f"{format_up(self.rho)}-zCDP."
            )
        return (
            f"Differential privacy{whom} with (epsilon, delta) = {pair}, from {format_up(self.mu)}-GDP (Gaussian "
            f"differential privacy), which also implies {format_up(self.rho)}-zCDP."
        )

    def _leakage(self) -> str:
        if self.leakage is None:
            return ""
        bits = format_up(math.nextafter(self.leakage / math.log(2.0) * (1.0 + 1e-15), math.inf))
        return (
            f" Mutual information: a report tells at most {format_up(self.leakage)} nats ({bits} bits) about its row, "
            "on average and given all reports before it; where rows are independent so does the whole transcript, and "
            "k rows of one person tell at most k times as much."
        )

    def shuffled_epsilon(self, delta: float | None = None) -> float | None:
        """Epsilon at ``delta`` if the users' order is random and secret, rounded up: in the central model.

        The guarantee of as many reports as the horizon for one row, against an observer who sees them all and does not
        know their order (docs/proofs/shuffling.md). ``None`` for anything but reports, for users with several rows,
        and if the number of users is not fixed.
        """
        if self.released != "reports" or self.kind not in ("gdp", "pure") or (self.rows_per_user or 1) > 1:
            return None
        if self.horizon > _MOST_SHUFFLED:
            return None
        delta = self.delta if delta is None else number(delta=delta, above=0.0, below=1.0)
        return _shuffled(self.kind, self.parameter, self.horizon, delta, self.adjacency)

    def _shuffle(self) -> str:
        epsilon = self.shuffled_epsilon()
        if epsilon is None or epsilon >= self.epsilon():
            return ""
        return (
            f"\nIf, before the first report, a trusted shuffler puts {self.horizon} users, of one row each, in a "
            "uniformly random order that nobody else learns or can tell from addresses, times or a seed (the order of "
            "a file is none), then all reports together are "
            f"({format_up(epsilon)}, {format_up(self.delta)})-differentially private for one row (adjacency "
            f'"{self.adjacency}") against whoever does not know that order; users whose turns are known, or who work '
            "with the learner, do not count, nor do several rows of one user, and of fewer users it does not hold."
        )

    def _claim(self) -> str:
        if self.claim is None:
            return ""
        claim = self.claim
        # The two are compared at the same delta wherever the claimed one is a meaningful one.
        meaningful = 0.0 < claim.delta < 1.0 or (claim.delta == 0.0 and self.kind == "pure")
        delta = claim.delta if meaningful else self.delta
        proved = self.epsilon(delta)
        more = proved > claim.epsilon or delta > claim.delta
        return (
            f" The source ({claim.source}) claims (epsilon, delta) = ({claim.epsilon:.6g}, "
            f"{claim.delta:.6g}); what is proved for this noise is ({format_up(proved)}, "
            f"{format_up(delta)}), {'more than was claimed' if more else 'within the claim'}."
        )

    def _scope(self) -> str:
        relation = "replace one row by any other admissible row"
        if self.unit == "user":
            relation = change_of_users(self)
        elif self.adjacency == "zero_out":
            relation = "replace one row by the null row, which contributes nothing"
        if self.adjacency == "zero_out" and self.kind != "none":
            twice = format_up(2.0 * self.parameter)
            covered = f"{twice}-GDP, twice the mu" if self.kind == "gdp" else f"epsilon = {twice}, twice as much"
            if self.kind != "gdp" and self.bound.beside > 0.0:
                slack = format_up(group_slack(self.parameter, self.bound.beside, 2))
                covered = f"(epsilon, delta) = ({twice}, {slack}), by group privacy"
            another = "them by other rows" if self.unit == "user" else "it by another row"
            relation += f" (to replace {another} is covered by {covered})"
        one, several, uncovered = WORDS_OF_RELEASED[self.released]
        what = one if self.releases == 1 else several.format(self.releases)
        rows = "1 row" if self.horizon == 1 else f"{self.horizon} rows"
        unit = f"one row; {about_users(self, self._user_parameter)}"
        if self.unit == "user":
            unit = f"{whose(self)} with {about_row(self)}"
        return (
            f'Adjacency "{self.adjacency}": {relation}; the number of rows is public. Unit: {unit} '
            f"Horizon: at most {rows}, the whole run together. Released: {what} out of {rows}, "
            f"to an observer who sees them all and may choose later rows by them; nothing else is covered (not "
            f"{uncovered}; what other runs on the same rows release is not counted)."
        )

    def _fine_print(self) -> str:
        conditions = "; ".join(self.conditions) or "none besides these"
        return f"Arithmetic: {self.arithmetic}. Bit source: {self.bit_source}. Conditions: {conditions}."

    def to_record(self) -> dict[str, Any]:
        """Return the guarantee as a dictionary of JSON values, with its format and version."""
        record: dict[str, Any] = {"format": _FORMAT, "version": _VERSION}
        for field in fields(self):
            record[field.name] = getattr(self, field.name)
        if self.leakage is None:
            del record["leakage"]
        if self.slack == 0.0:
            del record["slack"]
        if self.user_separation == 1:
            del record["user_separation"]
        if self.user_factor is None:
            del record["user_factor"]
        if self.users_fixed:
            del record["users_fixed"]
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
        names = {"format", "version", *(field.name for field in fields(cls))}
        values = _known_fields(record, names - {name for name in _YOUNGER if name not in record})
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
        except InvalidParameter:
            raise
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidParameter(f"guarantee record is not JSON text: {error}") from error
        return cls.from_record(record)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        _refuse("names a field twice")
    return record
