"""Worst neighbouring data sets of the offline learners, and fits of them.

A fit is one experiment, because the coordinates of L2-Laplace noise are dependent. The models of noise on a point (a
minimiser, an average) differ by the point alone, so the likelihood ratio is that of the noise. Noise in the objective
makes the model a function of it that a change of variables inverts: the density is that of the noise whose minimiser is
the model, times the determinant of the objective's Hessian there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..calibration import check_user, epsilon_of
from ..errors import InvalidParameter
from ..guarantees import gdp_mu_of_pure
from ..learners import OFFLINE_LEARNERS, POL, ObjectivePerturbation, OfflineLearner, OutputPerturbation
from ..learners.views import perturbed_model
from ..losses import get_loss
from ..noise import make_source
from ._bounds import FloatArray
from ._cases import FAR, Case, built, title_of
from ._of_users import checked_places

__all__ = ["OFFLINE", "OfflineCase", "worst_offline"]

#: Offline learners that can be audited, by name.
OFFLINE: dict[str, type[Any]] = dict(OFFLINE_LEARNERS)

_FITS = 256  # per call
_HELD = 256  # rows of a data set, of which all but one keep the minimiser far from 0
_ANGLES = 64  # angles tried between the changed row and the others

_WORST: dict[type[Any], dict[str, Any]] = {
    # Gradients of constant size in the region of the models: the sensitivity is attained.
    OutputPerturbation: {"loss": "smooth_hinge", "l2": 4.0},
    ObjectivePerturbation: {"loss": "smooth_hinge", "l2": 100.0},
    POL: {"loss": "hinge", "l2": 1.0, "radius": 1e3},
}
_PUBLISHED: dict[type[Any], dict[str, Any]] = {
    OutputPerturbation: {"loss": "logistic", "l2": 0.01, "delta": 0.0},
    # A row adds much to the Hessian only if the regulariser is small: a determinant that the noise does not cover.
    ObjectivePerturbation: {"loss": "logistic", "l2": 1e-5, "delta": 0.0},
    # The published noise grows with the radius; for such short rows the hinge keeps its slope throughout.
    POL: {"weights": "uniform", "delta": 1e-6, "l2": 0.01, "x_bound": 0.1, "radius": 40.0},
}


def worst_offline(name: str, parameters: dict[str, Any]) -> OfflineLearner:
    """A learner with the given parameters, and others such that its claim is attained or nearly so."""
    kind = OFFLINE[name]
    published = _PUBLISHED[kind] if parameters.get("calibration") in ("published", "jmlr") else {}
    if parameters.get("calibration") == "jmlr":
        published = {"loss": "logistic", "delta": 0.0}
    words = {**_WORST[kind], "fit_intercept": False, **published, **parameters}
    made: OfflineLearner = built(kind, words, parameters)
    return made


class OfflineCase(Case):
    """Fits of an offline learner.

    Parameters
    ----------
    learner : OfflineLearner
        Its parameters are what is audited; nothing is spent or changed in it.
    rows : int
        Of a data set, all of which but the changed one are null; where the minimiser is to be held, there are more.
    noise : float
        Factor of the noise, for audits that are to find something.
    random_state : optional
        Of the noise.
    places : sequence of int, optional
        Of a learner with ``rows_per_user``: numbers from 1 of the rows that differ. Default: as many as it is for, the
        first ones.
    """

    def __init__(
        self,
        learner: OfflineLearner,
        *,
        rows: int,
        noise: float,
        random_state: Any,
        places: Sequence[int] | None = None,
    ) -> None:
        words = {**learner.get_params(deep=False), "ledger": None, "on_invalid": "zero", "random_state": random_state}
        if "mu" in words:
            words |= {"mu": None, "epsilon": epsilon_of(learner)}
        self._kind: type[Any] = type(learner)
        if self._kind not in OFFLINE.values():
            raise InvalidParameter(f"no worst data sets are known of {self._kind.__name__}: use audit_black_box")
        if get_loss(words["loss"]).joint:
            raise InvalidParameter(
                "an audit by the learner's own data sets needs two classes or real targets, found the "
                f"{words['loss']!r} loss"
            )
        self._learner: Any = self._kind(**words)
        self._state, self.adjacency = random_state, words["adjacency"]
        self.title = title_of(self._kind.__name__, words)
        self._of_user = check_user(words["rows_per_user"], 1)[0] if words["rows_per_user"] is not None else 1
        rows = max(rows, self._of_user, *(places or ()))
        self._changed = list(range(self._of_user)) if places is None else checked_places(places, rows)
        if places is not None:
            self.title = f"{self.title[:-1]}, rows {', '.join(map(str, places))} of a user)"
        self.width, self.repeats, self.size = 1, _FITS, 2 + bool(words["fit_intercept"])
        held, curved = self._form(words, rows, self._learner.calibrate(2, rows).l2)
        n = max(rows, _HELD) if held else rows
        plan = self._learner.calibrate(2, n)
        if plan.law == "none":
            raise InvalidParameter("epsilon must be finite: without noise there is no claim to audit")
        if not plan.scale > 0.0:
            raise InvalidParameter("the release depends on no row, so there is nothing to audit: take more steps")
        self._claim(plan, words)
        self._inside = hasattr(plan, "final_scale")
        if self._kind is not POL:  # a projection of the release can only hide the difference
            plan = replace(plan, ball=None)
        self._quiet = replace(plan, law="none")
        scaled = {"scale": plan.scale * noise} | ({"final_scale": plan.final_scale * noise} if self._inside else {})
        self._plan: Any = replace(plan, **scaled)
        self._worlds = self._largest_change(n) if held else [self._alone(n, world, curved) for world in (0, 1)]
        self._points = [self.twin(world)[0] for world in (0, 1)]
        # that of Gaussian noise on a point; otherwise the ratio is not linear
        self.weights = (self._points[1] - self._points[0]) / self._plan.scale**2
        self.gaussian = plan.law == "gaussian" and not self._inside and self._unprojected(words)
        if self.gaussian:
            self.attainable = float(np.linalg.norm(self._points[1] - self._points[0])) / self._plan.scale

    def _form(self, words: dict[str, Any], rows: int, l2: float) -> tuple[bool, bool]:
        """Whether other rows must hold the minimiser, and whether the row's curvature makes the difference."""
        if not get_loss(words["loss"]).log_odds or self._kind is POL:
            return False, False
        if self._kind is OutputPerturbation:
            return True, False
        costs = rows * l2 * float(words["epsilon"]) < 2.0 * float(words["x_bound"]) ** 2
        return not costs, costs

    def _unprojected(self, words: dict[str, Any]) -> bool:
        """Whether the release is not projected onto a set after the noise."""
        if self._kind is not POL:
            return True
        if words["domain"] is not None:
            return False
        noise = (math.sqrt(self.size) + FAR) * self._plan.scale
        return bool(max(float(np.linalg.norm(point)) for point in self._points) + noise <= float(self._plan.ball))

    def _claim(self, plan: Any, words: dict[str, Any]) -> None:
        pure = plan.law == "l2_laplace"
        # each change costs what the plan says, unless the plan's figure is for all of them
        rows = self._of_user // getattr(plan, "rows_per_user", 1)
        epsilon = math.inf if hasattr(plan, "mu") and not pure else rows * float(plan.epsilon)
        mu = rows * float(plan.mu) if hasattr(plan, "mu") else gdp_mu_of_pure(epsilon)
        self.claimed(plan.claim, mu, float(words["epsilon"]), 0.0 if pure else float(words["delta"]))
        if pure or not hasattr(plan, "mu"):  # with a delta, noise in the objective is proved at that one point
            self.mu, self.proved_epsilon = None, epsilon
            self.proved_mu = mu if pure else None

    # ---- the data sets -------------------------------------------------------------------------------------

    def _alone(self, n: int, world: int, curved: bool) -> tuple[FloatArray, FloatArray]:
        """The changed rows of the largest norm, with one target and the other; the others are null.

        ``curved``: the row, or a row of zeros in its place, which adds nothing to the objective's Hessian.
        """
        X, y = np.zeros((n, 2)), np.full(n, math.nan)
        zero_out = world == 1 and self.adjacency == "zero_out"
        if not zero_out:
            sign = 1.0 if curved else 1.0 - 2.0 * world
            X[self._changed, 0] = 0.0 if curved and world else float(self._learner.x_bound)
            top = 1.0 if get_loss(self._learner.loss).kind == "classification" else float(self._learner.y_bound)
            y[self._changed] = sign * top
        return X, y

    def _largest_change(self, n: int) -> list[tuple[FloatArray, FloatArray]]:
        """All other rows hold the minimiser where the gradients of the changed rows nearly attain their bound."""
        bound = float(self._learner.x_bound)
        best: tuple[float, list[tuple[FloatArray, FloatArray]]] = (-1.0, [])
        for angle in np.linspace(0.0, math.pi / 2, _ANGLES, endpoint=False):
            worlds = []
            for sign in (1.0, -1.0):
                X, y = np.tile([bound, 0.0], (n, 1)), np.ones(n)
                X[self._changed] = bound * np.array([-math.sin(angle), sign * math.cos(angle)])
                if sign < 0.0 and self.adjacency == "zero_out":
                    y[self._changed] = math.nan
                worlds.append((X, y))
            one, other = (perturbed_model(self._learner, X, y, self._quiet, None) for X, y in worlds)
            change = float(np.linalg.norm(one - other))
            if change > best[0]:
                best = change, worlds
        return best[1]

    # ---- fits ----------------------------------------------------------------------------------------------

    def run(self, world: int) -> FloatArray:
        """See :meth:`Case.run`."""
        X, y = self._worlds[world]
        sources = (make_source(self._state) for _ in range(self.repeats))
        return np.array([perturbed_model(self._learner, X, y, self._plan, source) for source in sources])

    def twin(self, world: int) -> FloatArray:
        """See :meth:`Case.twin`."""
        X, y = self._worlds[world]
        return np.asarray(perturbed_model(self._learner, X, y, self._quiet, None))[None]

    # ---- what is known -------------------------------------------------------------------------------------

    def ratio(self, series: FloatArray) -> FloatArray:
        """See :meth:`Case.ratio`."""
        if self._inside:
            return self._density(series, 1) - self._density(series, 0)
        if self._plan.law == "gaussian":
            return super().ratio(series)
        away = [np.linalg.norm(series - point, axis=1) for point in self._points]
        return np.asarray((away[0] - away[1]) / self._plan.scale)

    def _density(self, series: FloatArray, world: int) -> FloatArray:
        """Log density of models from noise in the objective, up to a summand: shape (n,).

        It omits the small noise that covers the solver: any statistic is valid, and this one is nearly optimal.
        """
        plan, (X, y) = self._plan, self._worlds[world]
        counts = ~np.isnan(y)
        rows, targets = X[counts], y[counts]
        if self._learner.fit_intercept:
            rows = np.column_stack([rows, np.ones(len(rows))])
        predictions = series @ rows.T
        slopes = np.asarray(plan.loss.gradient(predictions, targets))
        noise = -(plan.l2_sum * series + slopes @ rows)
        lengths = np.linalg.norm(noise, axis=1) / plan.scale
        curves = np.asarray(plan.loss.second_derivative(predictions, targets))
        hessians = plan.l2_sum * np.eye(self.size) + np.einsum("nm,mi,mj->nij", curves, rows, rows)
        log_noise = -lengths if plan.law == "l2_laplace" else -0.5 * lengths**2
        return np.asarray(log_noise + np.linalg.slogdet(hessians)[1])
