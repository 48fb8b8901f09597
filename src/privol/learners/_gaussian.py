"""What learners with Gaussian noise share: the feasible set, the guarantee, what every compiled run is given."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from .._core._noise import Source
from .._validate import choice, integer, number
from ..calibration import MOST_ROWS, NO_LAST_ROW, RENEWALS, Epochs, ReleaseSchedule
from ..errors import InvalidParameter
from ..geometry import ConvexSet, L2Ball
from ..guarantees import ADJACENCIES, Claim, Guarantee
from ..losses import get_loss, loss_at_zero
from ..noise import ARITHMETIC, STREAM_RELEASES, decide_lattice_point, make_source
from ._base import OnlineLearner

__all__ = ["DELTA_TOO_LARGE", "GaussianLearner", "GaussianPlan"]


DELTA_TOO_LARGE = (
    "delta is not below one over the number of rows, where publishing a random row in the clear would also meet it: "
    "choose a smaller one"
)


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

    epsilon: float | None
    delta: float
    adjacency: str
    radius: float
    domain: ConvexSet | None

    #: The calibration of a run before anything is spent.
    calibrate: Callable[..., Any]
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

    def _dimension(self, n_features: int, outputs: int = 1) -> int:
        """Coordinates of a model with so many scores, checked against the set."""
        intercept = bool(self.fit_intercept)
        width = integer(n_features=n_features, at_least=1, at_most=(1 << 32) // outputs - intercept) + intercept
        dim = width * outputs
        self._domain().check_dimension(dim)
        return dim

    def _bounds(self) -> dict[str, Any]:
        """Loss, set and bounds, as the calibrations take them."""
        loss = get_loss(self.loss)
        if loss.joint and not self._many_classes:
            raise InvalidParameter(
                f"{type(self).__name__} learns with a single score, and the {loss.name} loss is of one for each class: "
                "DPFTRL takes it"
            )
        return {
            "loss": loss,
            "domain": self._domain(),
            "intercept": bool(self.fit_intercept),
            "x_bound": self.x_bound,
            "y_bound": self.y_bound,
        }

    def _budget(self) -> dict[str, Any]:
        """Those, the budget and the adjacency."""
        return {
            **self._bounds(),
            "epsilon": number(epsilon=self.epsilon, above=0, infinite=True),
            "delta": number(delta=self.delta, above=0, below=1),
            "adjacency": self._adjacency(),
        }

    def _calibrate_classes(self, n_features: int, horizon: int, n_classes: int) -> GaussianPlan:
        """The calibration of a run on so many classes, or on real targets."""
        if n_classes > 2:
            raise InvalidParameter(
                f"{type(self).__name__} learns two classes, found {n_classes}: DPFTRL learns more, or take one of them "
                "against all the rest"
            )
        made: GaussianPlan = self.calibrate(n_features, horizon)
        return made

    def _promise(self, n_features: int, n_rows: int, n_classes: int) -> Guarantee:
        plan = self._calibrate_classes(n_features, n_rows, n_classes)
        return self.guarantee_of(plan, private=False, bit_source="not drawn yet")

    def _loss_at_zero(self, calibration: GaussianPlan) -> float:
        """Largest loss of a row by the model of zeros."""
        return loss_at_zero(get_loss(self.loss), y_bound=self.y_bound)

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
        if plan.releases.horizon >= MOST_ROWS and self._endless():
            conditions.append(NO_LAST_ROW)
        elif plan.epochs is not None and plan.epochs.renewal != "none":
            conditions.append(plan.epochs.condition())
        elif stated * plan.releases.horizon >= 1.0 and not math.isinf(plan.mu):
            conditions.append(DELTA_TOO_LARGE)
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

    def _begin(self, plan: GaussianPlan, source: Source | None = None) -> tuple[Source | None, Guarantee]:
        """Make the noise source of a new run, unless there is one, and what the run guarantees with it."""
        choice(("raise", "zero"), on_invalid=self.on_invalid)
        if source is None and not math.isinf(plan.mu):
            source = make_source(self.random_state)
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
