"""What learners with Gaussian noise share: the feasible set, the guarantee, what every compiled run is given."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Protocol

from .._core._noise import Source
from .._validate import choice, integer, number
from ..calibration import MOST_ROWS, RENEWALS, Epochs, ReleaseSchedule
from ..errors import InvalidParameter
from ..geometry import ConvexSet, L2Ball
from ..guarantees import ADJACENCIES, Claim, Guarantee
from ..losses import get_loss
from ..noise import ARITHMETIC, STREAM_RELEASES, decide_lattice_point, make_source
from ._base import OnlineLearner

__all__ = ["GaussianLearner", "GaussianPlan"]


class GaussianPlan(Protocol):
    """What a calibration says of a run whose noise is Gaussian throughout. All of it is public."""

    @property
    def releases(self) -> ReleaseSchedule: ...
    @property
    def mu(self) -> float: ...
    @property
    def claim(self) -> Claim | None: ...
    @property
    def row_bound(self) -> float: ...
    @property
    def epochs(self) -> Epochs | None: ...
    def sensitivity(self, row: int) -> float: ...
    def std(self, row: int) -> float: ...
    def last_std(self, row: int) -> float: ...
    def convexity(self, row: int) -> float: ...


class GaussianLearner(OnlineLearner):
    """Base of the learners whose whole run is a Gaussian mechanism."""

    epsilon: float
    delta: float
    adjacency: str
    radius: float
    domain: ConvexSet | None

    #: What becomes of a run at its horizon: a parameter of the learners on sums.
    renewal: str = "none"

    #: What the noise is added to, in the words of the guarantee.
    _perturbed: ClassVar[str] = "iterate"

    def _adjacency(self) -> str:
        return choice(ADJACENCIES, adjacency=self.adjacency)

    def _domain(self) -> ConvexSet:
        if self.domain is None:
            return L2Ball(number(radius=self.radius, at_least=1e-30, at_most=1e30))
        if not isinstance(self.domain, ConvexSet):
            raise InvalidParameter(f"domain must be a set of privol.geometry or None, found {self.domain!r}")
        return self.domain

    def _dimension(self, n_features: int) -> int:
        """Coordinates of a model, checked against the set."""
        intercept = bool(self.fit_intercept)
        dim = integer(n_features=n_features, at_least=1, at_most=(1 << 32) - intercept) + intercept
        self._domain().check_dimension(dim)
        return dim

    def _budget(self) -> dict[str, Any]:
        """Budget, adjacency and bounds, as the calibrations take them."""
        return {
            "loss": get_loss(self.loss),
            "domain": self._domain(),
            "intercept": bool(self.fit_intercept),
            "epsilon": number(epsilon=self.epsilon, above=0, infinite=True),
            "delta": number(delta=self.delta, above=0, below=1),
            "adjacency": self._adjacency(),
            "x_bound": self.x_bound,
            "y_bound": self.y_bound,
        }

    def _conditions(self) -> tuple[str, ...]:
        """What the guarantee says of this learner besides."""
        return ()

    def _most_rows(self, horizon: int) -> int:
        return horizon if choice(RENEWALS, renewal=self.renewal) == "none" else MOST_ROWS

    def guarantee_of(self, plan: GaussianPlan, *, private: bool, bit_source: str) -> Guarantee:
        """Return the guarantee of a run with the given calibration and noise bits."""
        loss = get_loss(self.loss)
        conditions = [
            "the bounds, the release schedule, the labels and all other parameters, but for the number of rows, which "
            "is public, were chosen without looking at the rows",
            "whether a row was refused, by the learner or by the reader of a file, is not hidden",
        ]
        conditions.extend(self._conditions())
        if loss.vouched is not None:
            conditions.append(loss.vouched)
        stated = self.delta if plan.claim is None else plan.claim.delta
        if plan.epochs is not None and plan.epochs.renewal != "none":
            conditions.append(plan.epochs.condition())
        elif stated * plan.releases.horizon >= 1.0 and not math.isinf(plan.mu):
            conditions.append(
                "delta is not below one over the number of rows, where publishing a random row in the clear would also "
                "meet it: choose a smaller one"
            )
        none = math.isinf(plan.mu)
        return Guarantee(
            kind="none" if none else "gdp",
            parameter=plan.mu,
            adjacency=self._adjacency(),
            horizon=plan.releases.horizon,
            releases=plan.releases.count,
            delta=stated,
            claim=plan.claim,
            conditions=tuple(conditions),
            arithmetic="double precision, no noise" if none else ARITHMETIC.replace("iterate", self._perturbed),
            bit_source="none" if none else bit_source,
            private=private,
        )

    def _begin(self, plan: GaussianPlan) -> tuple[Source | None, Guarantee]:
        """Make the noise source of a new run, and what the run guarantees with it."""
        choice(("raise", "zero"), on_invalid=self.on_invalid)
        source = None if math.isinf(plan.mu) else make_source(self.random_state)
        guarantee = self.guarantee_of(
            plan,
            private=source.private if source is not None else False,
            bit_source=source.description if source is not None else "none",
        )
        return source, guarantee

    def _run_words(self, plan: GaussianPlan, n_features: int, source: Source | None) -> dict[str, Any]:
        """Words that every compiled run takes; ``magnitude`` is the learner's own."""
        loss, releases = get_loss(self.loss), plan.releases
        return {
            "dim": n_features + bool(self.fit_intercept),
            "intercept": bool(self.fit_intercept),
            "loss": loss,
            "domain": self._domain(),
            "every": releases.every,
            "releases": releases.rows,
            "horizon": releases.horizon,
            "last_row": releases.last_row,
            "x_bound": float(self.x_bound),
            "y_bound": float(self.y_bound),
            "signs": loss.kind == "classification",
            "source": source,
            "stream": STREAM_RELEASES,
            "decide": decide_lattice_point,
        }
