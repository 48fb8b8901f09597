"""The base of learners with Gaussian noise: the feasible set, the guarantee, the arguments of every compiled run."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar, cast

from numpy.typing import NDArray

from .._core._learner_run import LearnerRun
from .._core._noise import Source
from .._validate import choice, integer, number
from .._vocabulary import ON_INVALID
from ..calibration import (
    CALIBRATIONS,
    MOST_ROWS,
    NO_LAST_ROW,
    RENEWALS,
    Budget,
    Problem,
    RunPlan,
    less_than_all,
    users_of,
)
from ..errors import InvalidParameter
from ..geometry import ConvexSet, L2Ball
from ..guarantees import ADJACENCIES, DELTA_TOO_LARGE, Guarantee, delta_of_noise
from ..losses import get_loss
from ..noise import ARITHMETIC, make_source
from ._base import OnlineLearner, Run
from ._targets import MOST_CLASSES

__all__ = ["GaussianLearner", "P"]

#: The kind of plan of a learner.
P = TypeVar("P", bound=RunPlan)


class GaussianLearner(OnlineLearner, Generic[P]):
    """Base of the learners whose whole run is a Gaussian mechanism."""

    epsilon: float | None
    delta: float
    calibration: str = "tight"
    adjacency: str
    radius: float
    domain: ConvexSet | None

    #: Whom the budget protects: parameters of the central learners. None: it is for one row.
    rows_per_user: int | None = None
    user_separation: int = 1

    #: What happens to a run at its horizon: a parameter of the learners on sums.
    renewal: str = "none"

    #: What the noise is added to, in the words of the guarantee.
    _perturbed: ClassVar[str] = "iterate"
    #: Parameters with which one row moves the release exactly or nearly as far as the plan says, for audits by name.
    #: None: no such parameters are known.
    worst: ClassVar[Mapping[str, Any]] = {}
    #: What several rows of a user need in addition: no margin comes near the kink of the loss, whatever the noise, so
    #: each row moves the release equally.
    worst_of_users: ClassVar[Mapping[str, Any]] = {}
    #: The same for ``calibration="published"``.
    worst_published: ClassVar[Mapping[str, Any]] = {}
    #: The most rows of a run, limited by the kernels and their noise addresses.
    _longest: ClassVar[int] = 1 << 52

    @abstractmethod
    def calibrate(self, n_features: int, horizon: int, release: Any = None, *, n_classes: int = 2) -> P:
        """Return the plan of a run, from public numbers alone, before anything is spent."""

    @abstractmethod
    def build(self, plan: P, source: Source | None, classes: NDArray[Any] | None = None) -> LearnerRun:
        """Return the compiled state of a new run, which is not in any ledger.

        Parameters
        ----------
        plan
            The result of :meth:`calibrate`.
        source : Source or None
            The source of the noise; None: no noise.
        classes : ndarray, optional
            The labels.
        """

    def _plan_of(self, run: Run) -> P:
        """The plan of a run of this learner."""
        return cast(P, run.plan)

    def _adjacency(self) -> str:
        return choice(ADJACENCIES, adjacency=self.adjacency)

    def _domain(self) -> ConvexSet:
        if self.domain is None:
            return L2Ball(number(radius=self.radius, at_least=1e-30, at_most=1e30))
        if not isinstance(self.domain, ConvexSet):
            raise InvalidParameter(f"domain must be a set of privol.geometry or None, found {self.domain!r}")
        return self.domain

    def _dimension(self, n_features: int, outputs: int) -> int:
        """Coordinates of a model with this many scores, checked against the set."""
        intercept = bool(self.fit_intercept)
        width = integer(n_features=n_features, at_least=1, at_most=(1 << 32) // outputs - intercept) + intercept
        dim = width * outputs
        self._domain().check_dimension(dim)
        return dim

    def _problem(self, n_features: int, horizon: int, n_classes: int, weight: float = 1.0) -> Problem:
        """The public facts of a run on classes or real targets; ``weight`` is the largest weight of a class."""
        loss = get_loss(self.loss)
        outputs = 1
        if not self._many_classes:
            if n_classes > 2:
                raise InvalidParameter(
                    f"{type(self).__name__} learns two classes, found {n_classes}: DPFTRL learns more, or take one of "
                    "them against all the rest"
                )
            if loss.joint:
                raise InvalidParameter(
                    f"{type(self).__name__} learns with a single score, and the {loss.name} loss is of one for each "
                    "class: DPFTRL takes it"
                )
        elif loss.kind == "classification":
            n_classes = integer(n_classes=n_classes, at_least=2, at_most=MOST_CLASSES)
            outputs = n_classes if n_classes > 2 or loss.joint else 1
        return Problem(
            loss=loss,
            domain=self._domain(),
            dim=self._dimension(n_features, outputs),
            intercept=bool(self.fit_intercept),
            x_bound=self.x_bound,
            y_bound=self.y_bound,
            adjacency=self._adjacency(),
            horizon=integer(horizon=horizon, at_least=1, at_most=self._longest),
            outputs=outputs,
            weight=weight,
            **self._users(),
        )

    def _users(self) -> dict[str, int]:
        """How many rows of a user the budget covers, and how far apart they are."""
        return users_of(self.rows_per_user, self.user_separation)

    def _budget(self) -> Budget:
        return Budget(
            epsilon=self._stated_epsilon(),
            delta=delta_of_noise(number(delta=self.delta, above=0, below=1), self.rows_per_user),
            calibration=choice(CALIBRATIONS, calibration=self.calibration),
        )

    def _promise(self, n_features: int, n_rows: int, n_classes: int) -> Guarantee:
        plan = self.calibrate(n_features, n_rows, n_classes=n_classes)
        return self.guarantee_of(plan, private=False, bit_source="not drawn yet")

    def _conditions(self) -> tuple[str, ...]:
        """Further statements of the guarantee about this learner."""
        return ()

    def _most_rows(self, horizon: int) -> int:
        return horizon if choice(RENEWALS, renewal=self.renewal) == "none" else MOST_ROWS

    def guarantee_of(self, plan: P, *, private: bool, bit_source: str) -> Guarantee:
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
            **self._unit(plan),
        )

    def _unit(self, plan: P) -> dict[str, Any]:
        """Whom the figures are for."""
        users = self._users()
        if not users:
            return {}
        factor = less_than_all(plan.user_factor(**users), users["rows_per_user"])
        return {"unit": "user", "user_factor": factor, **users}

    def _open_run(
        self,
        n_features: int,
        horizon: int,
        release: Any,
        classes: NDArray[Any] | None = None,
        *,
        source: Source | None = None,
    ) -> tuple[LearnerRun, P, Guarantee]:
        choice(ON_INVALID, on_invalid=self.on_invalid)
        plan = self.calibrate(n_features, horizon, release, n_classes=2 if classes is None else len(classes))
        if source is None and not math.isinf(plan.mu):
            source = make_source(self.random_state)
        guarantee = self.guarantee_of(
            plan,
            private=source is not None and source.private,
            bit_source="none" if source is None else source.description,
        )
        return self.build(plan, source, classes), plan, guarantee
