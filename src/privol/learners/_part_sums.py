"""Sums over rows, which are either in this process or in parts that workers hold."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._core._leader import GradientSums
from .._core._least_squares import leaf_moments
from .._core._noise import wipe
from .._core._objective import Objective
from .._core._row_sums import RowSums, hessian_width, join
from ..calibration import Problem
from ..distributed import Part, Session
from ..errors import InvalidParameter
from ..losses import Loss

__all__ = ["HeldLeaves", "HeldRows", "HeldSteps", "PartReader", "PartsOfRows", "RowsHere", "RowsThere", "Steps"]

FloatArray = NDArray[np.float64]

_TRUST = (
    "the rows were read by workers, which see raw rows, and models and sums without noise, as does what connects them: "
    "they are trusted as the curator is"
)


def _against_rest(codes: FloatArray, k: int) -> FloatArray:
    signs = np.where(codes == k, 1.0, -1.0)
    signs[np.isnan(codes)] = np.nan
    return signs


class RowsHere:
    """Rows in this process.

    Attributes
    ----------
    n_clipped, n_null : int
        Rows that were scaled to their bound, and null rows; set once there is an objective.
    """

    def __init__(self, learner: Any, X: Any, codes: FloatArray) -> None:
        self._learner, self._X, self._codes = learner, X, codes
        self._first: Objective | None = None

    def objective(
        self, k: int, outputs: int, *, loss: Loss, l2_sum: float, linear: FloatArray | None
    ) -> tuple[Objective, None]:
        """The objective of one output; with several outputs, of a class against the rest."""
        targets = _against_rest(self._codes, k) if outputs > 1 else self._codes
        if self._first is not None:
            return self._first.with_changes(targets=targets, linear=linear), None
        self._first = _objective(self._learner, self._X, targets, loss, l2_sum, linear)
        return self._first, None

    @property
    def n_clipped(self) -> int:
        return 0 if self._first is None else self._first.n_clipped

    @property
    def n_null(self) -> int:
        return 0 if self._first is None else self._first.n_null


def _objective(
    learner: Any, X: Any, targets: FloatArray, loss: Loss, l2_sum: float, linear: FloatArray | None
) -> Objective:
    return Objective(
        X,
        targets,
        loss=loss,
        l2_sum=l2_sum,
        linear=linear,
        intercept=bool(learner.fit_intercept),
        x_bound=float(learner.x_bound),
        y_bound=float(learner.y_bound),
        refuse=learner._refuse(),
    )


# ---- the worker's side ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Problem:
    """The objective over the rows; the same for all parts."""

    name: str  # a name, because users' own losses cannot be compared
    loss: Loss = field(compare=False)
    outputs: int
    k: int


class PartReader:
    """Reads a part as ``fit_stream`` reads a stream: with the learner's parameters, but without its ledger and noise.

    Parameters
    ----------
    learner : LedgeredModel
    holder : type
        The class of what a worker holds after reading.
    """

    def __init__(self, learner: Any, holder: type[HeldRows] | type[HeldLeaves] | type[HeldSteps]) -> None:
        self._holder = holder
        words = learner.get_params(deep=False) | {"ledger": None, "random_state": None}
        self._learner = type(learner)(**words)

    def __call__(self, part: Part) -> HeldRows | HeldLeaves | HeldSteps:
        stream = part.open()
        if getattr(getattr(stream, "schema", None), "learnt", None) is not None or getattr(stream, "beside", None):
            raise InvalidParameter("an encoding that is learnt is of one stream; parts need a public schema, or none")
        X, codes, _ = self._learner._read(stream)
        about = {
            "name": part.name,
            "n_rows": X.shape[0],
            "n_features": X.shape[1],
            "classes": stream.classes,
            "rows_per_user": getattr(stream, "rows_per_user", None),
            "user": getattr(stream, "user", None),
            "users_fixed": getattr(stream, "users_fixed", True),
            "conditions": tuple(getattr(stream, "conditions", ())),
        }
        return self._holder(self._learner, X, codes, about)


def _digest_of(X: Any, codes: FloatArray) -> bytes:
    """Digest of rows in the order in which they are learnt."""
    found = hashlib.sha256(repr(X.shape).encode())
    for array in (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,):
        found.update(np.ascontiguousarray(array).view(np.uint8).data)
    found.update(np.ascontiguousarray(codes).view(np.uint8).data)
    return found.digest()


class HeldRows:
    """The rows of a part; each answer is a function of the rows and of the question alone."""

    def __init__(self, learner: Any, X: Any, codes: FloatArray, about: dict[str, Any]) -> None:
        self._learner, self._X, self._codes, self._about = learner, X, codes, about
        self._problem: _Problem | None = None
        self._rows: RowsHere | None = None
        self._sums: RowSums | None = None

    def about(self) -> dict[str, Any]:
        return self._about

    def digest(self) -> bytes:
        return _digest_of(self._X, self._codes)

    def counts(self, problem: _Problem) -> tuple[int, float, int, int]:
        """Counts of rows in use, of their blocks, of rows scaled to their bound, and of null rows."""
        sums = self._of(problem)
        return sums.n, sums.blocks, sums.objective.n_clipped, sums.objective.n_null

    def losses(self, problem: _Problem, w: FloatArray) -> tuple[float, FloatArray]:
        rows = self._of(problem)
        sums = np.empty((2, rows.dim))
        return rows.losses(w, sums), sums

    def margins(self, problem: _Problem, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        rows = self._of(problem)
        sums = np.empty((2, rows.dim))
        return rows.margins(w, sums), sums

    def hessian(self, problem: _Problem, w: FloatArray, stride: int) -> FloatArray:
        rows = self._of(problem)
        width = hessian_width(rows.dim)
        out = np.empty((width, width))
        rows.hessian(w, stride, out)
        lower: FloatArray = out[np.tril_indices(rows.dim)]
        wipe(out)
        return lower

    def diagonal(self, problem: _Problem, w: FloatArray) -> FloatArray:
        rows = self._of(problem)
        out = np.empty(rows.dim)
        rows.diagonal(w, out)
        return out

    def product(self, problem: _Problem, w: FloatArray, v: FloatArray) -> FloatArray:
        rows = self._of(problem)
        out = np.empty(rows.dim)
        rows.product(w, v, out)
        return out

    def along(self, problem: _Problem, w: FloatArray, v: FloatArray, a: float) -> tuple[float, float]:
        return self._of(problem).along(w, v, a)

    def wipe(self) -> None:
        if self._sums is not None:
            self._sums.wipe()
        self._problem = self._rows = self._sums = None

    def _of(self, problem: _Problem) -> RowSums:
        if self._problem != problem or self._sums is None:
            if self._sums is not None:
                self._sums.wipe()
            if self._rows is None or self._problem is None or self._problem.name != problem.name:
                self._rows = RowsHere(self._learner, self._X, self._codes)
            objective, _ = self._rows.objective(problem.k, problem.outputs, loss=problem.loss, l2_sum=1.0, linear=None)
            self._problem, self._sums = problem, RowSums(objective)
        return self._sums


class _HeldInOrder:
    """The rows of a part of an online run."""

    def __init__(self, learner: Any, X: Any, codes: FloatArray, about: dict[str, Any]) -> None:
        del learner
        self._X, self._codes, self._about = X, codes, about

    def about(self) -> dict[str, Any]:
        return self._about

    def digest(self) -> bytes:
        return _digest_of(self._X, self._codes)

    def wipe(self) -> None:
        """Do nothing: only rows are kept."""


class HeldLeaves(_HeldInOrder):
    """The rows of a part of an online run on moments: whole leaves, which leave as sums, and the rest."""

    def leaves(self, first: int, n: int, words: dict[str, Any]) -> tuple[FloatArray, int, int]:
        """Sums of at most n whole leaves from ``first`` on, their scaled rows, and their null rows."""
        rows = slice(first * words["leaf"], (first + n) * words["leaf"])
        return leaf_moments(self._X[rows], self._codes[rows], **words)

    def rest(self, leaf: int) -> tuple[Any, FloatArray]:
        """The rows after the last whole leaf."""
        first = len(self._codes) // leaf * leaf
        return self._X[first:], self._codes[first:]


@dataclass(frozen=True)
class Steps:
    """The loss and settings of the gradients in a step: the same for all parts and steps of a run."""

    name: str  # of its own, as losses of users' own cannot be compared
    problem: Problem = field(compare=False)
    bound: float = field(compare=False)
    weights: tuple[float, ...] | None = field(compare=False)


class HeldSteps(_HeldInOrder):
    """The rows of a part of an online run on gradients, of which every step takes some."""

    _steps: Steps | None = None
    _sums: GradientSums | None = None

    def gradients(
        self, steps: Steps, point: FloatArray, shares: dict[str, tuple[int, int]]
    ) -> tuple[FloatArray, int, int] | None:
        """The sum of the gradients of this part's rows of a step, and rows that were scaled, and null rows.

        ``shares``: the first row of a part, and how many; None of parts that have none in the step.
        """
        rows = self._share(shares)
        if rows.stop == rows.start:
            return None
        if self._sums is None or self._steps != steps:
            self._steps, self._sums = steps, GradientSums(steps.problem, steps.bound, steps.weights)
        return self._sums.of(self._X[rows], self._codes[rows], point)

    def rows(self, shares: dict[str, tuple[int, int]]) -> tuple[Any, FloatArray]:
        """The part's rows of a step."""
        rows = self._share(shares)
        return self._X[rows], self._codes[rows]

    def _share(self, shares: dict[str, tuple[int, int]]) -> slice:
        first, n = shares.get(self._about["name"], (0, 0))
        return slice(first, first + n)


# ---- the curator's side -----------------------------------------------------------------------------------------


class PartsOfRows:
    """The joint statements of all parts about their rows, with the attributes of a stream.

    A user may have rows in several parts, so the caps of the parts are added. If a part has no cap, or counts by
    another column, nothing is stated about users.

    Raises
    ------
    InvalidParameter
        If parts differ in their features or classes.
    """

    def __init__(self, session: Session) -> None:
        found = list(session.ask("about"))
        for name in ("n_features", "classes"):
            different = [k for k, about in enumerate(found) if about[name] != found[0][name]]
            if different:
                first, other = session.parts[0].name, session.parts[different[0]].name
                raise InvalidParameter(
                    f"part {other!r}: {name} must be the same in all parts: found {found[different[0]][name]!r}, "
                    f"{found[0][name]!r} in part {first!r}"
                )
        self.sizes: tuple[int, ...] = tuple(about["n_rows"] for about in found)
        self.n_rows: int | None = sum(self.sizes)
        self.n_features: int = found[0]["n_features"]
        self.classes: tuple[Any, ...] | None = found[0]["classes"]
        caps = [about["rows_per_user"] for about in found]
        known = None not in caps and len({about["user"] for about in found}) == 1
        self.rows_per_user: int | None = sum(caps) if known else None
        self.user: str | None = found[0]["user"] if known else None
        self.users_fixed = all(about["users_fixed"] for about in found)
        said = [condition for about in found for condition in about["conditions"]]
        self.conditions = tuple(dict.fromkeys([*said, _TRUST]))
        #: Of the rows of all parts in their order: what a run that is kept knows them by. **Secret**.
        self.parts_digest = hashlib.sha256(b"".join(session.digests())).digest()

    def __iter__(self) -> Iterator[Any]:
        raise InvalidParameter("rows in parts are the workers', and are not read here")


class RowsThere:
    """Rows in parts whose sums a session's workers compute; attributes as for :class:`RowsHere`."""

    def __init__(self, learner: Any, session: Session, n_features: int) -> None:
        self._learner, self._session, self._width = learner, session, n_features
        self._name = uuid.uuid4().hex
        self.n_clipped = self.n_null = 0

    def objective(
        self, k: int, outputs: int, *, loss: Loss, l2_sum: float, linear: FloatArray | None
    ) -> tuple[Objective, _PartsSums]:
        """An objective without rows of its own, and the sums over the rows of the parts."""
        none = np.empty((0, self._width)), np.empty(0)
        objective = _objective(self._learner, *none, loss, l2_sum, linear)
        sums = _PartsSums(self._session, _Problem(self._name, loss, outputs, k), objective.dim)
        self.n_clipped, self.n_null = sums.n_clipped, sums.n_null
        return objective, sums


class _PartsSums:
    """The facts that a minimiser needs about rows, collected from all parts and joined in their order.

    The sums of the gradient are joined exactly, except for the rounding of their low halves (``docs/proofs/solver.md``,
    section 3); sums that only steer steps are simply added. All summands are overwritten.
    """

    def __init__(self, session: Session, problem: _Problem, dim: int) -> None:
        self._session, self._problem, self._dim = session, problem, dim
        found = list(session.ask("counts", problem))
        self.n = sum(n for n, _, _, _ in found)
        self.blocks = sum(blocks + 1.0 for _, blocks, _, _ in found)
        self.n_clipped = sum(clipped for _, _, clipped, _ in found)
        self.n_null = sum(null for _, _, _, null in found)

    def losses(self, w: FloatArray, sums: FloatArray) -> float:
        """The losses at ``w``; writes their gradient into ``sums``."""
        total, sums[:] = 0.0, 0.0
        for value, part in self._ask("losses", w):
            total += value
            _take(part, sums)
        return total

    def margins(self, w: FloatArray, sums: FloatArray) -> FloatArray:
        """Bounds of the rounding errors of the gradient at ``w``; writes the gradient into ``sums``."""
        total, sums[:] = np.zeros(3), 0.0
        for margins, part in self._ask("margins", w):
            total += margins
            _take(part, sums)
        return total

    def hessian(self, w: FloatArray, stride: int, out: FloatArray) -> None:
        """Write the Hessian at ``w``, over every ``stride``-th row of each part, into the lower triangle of ``out``."""
        lower = np.zeros(self._dim * (self._dim + 1) // 2)
        for part in self._ask("hessian", w, stride):
            lower += part
            wipe(_own(part))
        out[:] = 0.0
        out[np.tril_indices(self._dim)] = lower
        wipe(lower)

    def diagonal(self, w: FloatArray, out: FloatArray) -> None:
        """Write the diagonal of the Hessian at ``w``."""
        self._add(self._ask("diagonal", w), out)

    def product(self, w: FloatArray, v: FloatArray, out: FloatArray) -> None:
        """Write the Hessian at ``w`` times ``v``."""
        self._add(self._ask("product", w, np.array(v)), out)

    def along(self, w: FloatArray, v: FloatArray, a: float) -> tuple[float, float]:
        """Slope and curvature along ``v - w`` at ``w + a (v - w)``."""
        slope = curve = 0.0
        for s, c in self._ask("along", w, np.array(v), a):
            slope += s
            curve += c
        return slope, curve

    def _ask(self, question: str, w: FloatArray, *rest: Any) -> Iterator[Any]:
        # a copy, because a thread may still read it when the solver continues after an error
        return self._session.ask(question, self._problem, np.array(w), *rest)

    @staticmethod
    def _add(parts: Iterator[FloatArray], out: FloatArray) -> None:
        out[:] = 0.0
        for part in parts:
            out += part
            wipe(_own(part))


def _own(array: FloatArray) -> FloatArray:
    """Return an array that can be wiped: what was received may be a view of a message."""
    return array if array.flags.writeable else np.empty(0)


def _take(part: FloatArray, sums: FloatArray) -> None:
    join(np.ascontiguousarray(part), sums)
    wipe(_own(part))
