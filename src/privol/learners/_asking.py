"""Learners whose gradients are taken at public points: ``ask`` and ``tell`` let a caller play any convex loss."""

from __future__ import annotations

from typing import Any, Protocol, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._values import array_of
from ..calibration import RunPlan
from ..errors import InvalidParameter, StateError
from ..losses import get_loss
from ._base import Run
from ._gaussian import GaussianLearner
from ._model import is_classifier

__all__ = ["AskingLearner"]

FloatArray = NDArray[np.float64]

_LARGEST = 1e150  # larger entries count as not finite, as in rows


class PointPlan(RunPlan, Protocol):
    """A plan for gradients that are taken at public points."""

    @property
    def gradient_bound(self) -> float | None: ...


#: The kind of plan of a learner.
A = TypeVar("A", bound=PointPlan)


class _PointRun(Protocol):
    """A compiled run whose gradients are taken at a public point."""

    def point(self) -> FloatArray: ...
    def tell(self, gradient: FloatArray | None) -> None: ...
    def release_last(self) -> None: ...


def _point_run(run: Run) -> _PointRun:
    return cast(_PointRun, run.state)


class AskingLearner(GaussianLearner[A]):
    """Base of the learners that perturb gradients taken at public points; every such point is public."""

    gradient_bound: float | None
    release: Any

    # ---- any convex loss, evaluated by the caller --------------------------------------------------

    def ask(self, n_features: int | None = None) -> FloatArray:
        """Return the point at which the next gradient is to be taken: public.

        Parameters
        ----------
        n_features : int, optional
            Coordinates of the point, the intercept not counted. Needed where no run is open: it begins one.

        Returns
        -------
        ndarray of shape (n_features + 1,), or (n_features,) without intercept
            The intercept comes last. Where there is a score for each class: (n_classes, n_features + 1).
        """
        run = self._current_run()
        if run is None:
            if n_features is None:
                raise InvalidParameter("n_features must be given in the first call of ask(), which begins the run")
            declared = self.__dict__.get("_declared")
            if declared is None and get_loss(self.loss).joint:
                raise InvalidParameter("declare_classes() must come before ask(): there is a score for each class")
            run = self._start(
                n_features,
                self._needed_horizon(),
                self._default_release(whole=True),
                self._targets(declared if is_classifier(self) else None),
            )
            run.unlabelled = is_classifier(self) and declared is None
            self.n_features_in_ = int(n_features)
        point, outputs = _point_run(run).point(), run.state.outputs
        return point.reshape(outputs, -1) if outputs > 1 else point

    def tell(self, *, gradient: ArrayLike) -> Self:
        """Learn one row by its gradient at the point that ``ask`` returns, of any convex loss.

        Parameters
        ----------
        gradient : array-like of the shape that ``ask`` returns
            Without the regulariser. Scaled to ``gradient_bound`` where it is longer.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameter
            If ``gradient_bound`` was not given, the shape is wrong, or an entry is not finite
            (``on_invalid="zero"``: such a gradient is the null row's). Nothing was learnt or spent.
        BudgetExceeded
            If the horizon is used up.
        StateError
            If no run is open: ``ask`` begins it.
        """
        run = self._current_run()
        if self._told_bound(run) is None:
            raise InvalidParameter(
                "gradient_bound must be given for tell(), before the run begins: the noise is scaled to it"
            )
        if run is None:
            raise StateError("ask() comes before tell(): a gradient is taken at the point that it returns")
        if run.users is not None:
            raise StateError("the run counts the rows of users, which a gradient does not name: it takes rows alone")
        vector = np.ascontiguousarray(array_of(gradient))
        outputs = run.state.outputs
        if outputs > 1:
            if vector.ndim != 2 or vector.shape[0] != outputs:
                raise InvalidParameter(f"gradient must have a row for each of {outputs} classes, found {vector.shape}")
            vector = vector.reshape(-1)
        elif vector.ndim != 1:
            raise InvalidParameter(f"gradient must have one dimension, found {vector.ndim}")
        skipped = not run.targets.refuse and not bool((np.abs(vector) <= _LARGEST).all())
        _point_run(run).tell(None if skipped else vector)
        return self

    def _told_bound(self, run: Run | None) -> float | None:
        """The bound that `tell` scales gradients to, for the open or the next run; None: `tell` takes no gradients."""
        return self.gradient_bound if run is None else self._plan_of(run).gradient_bound

    # ---- for the base class -------------------------------------------------------------------------

    def _default_release(self, whole: bool) -> Any:
        return "all" if self.release is None else self.release

    def _conditions(self) -> tuple[str, ...]:
        return ("all points of the run are public, not only those that were counted as released",)

    def _release_last(self, run: Run) -> None:
        releases = run.plan.releases
        # after an interrupt, its release may have been made
        if releases.only_last and 0 < run.state.n_rows < releases.last_row and run.state.n_releases == 0:
            _point_run(run).release_last()
