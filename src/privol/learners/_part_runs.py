"""Online runs whose rows are in parts that workers hold: sums over whole steps come from them, noise is added here."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from ..distributed import Crew, Part, Session
from ..errors import InvalidParameter, PartFailure
from ._base import OnlineLearner
from ._part_sums import HeldLeaves, HeldSteps, PartReader, PartsOfRows
from ._run_protocols import Keeper, Run

__all__ = ["IN_DOUBLES", "PartsLearner", "learn_rest", "part_failed", "shares_of_steps"]

FloatArray = NDArray[np.float64]

#: Designs that add up a leaf in doubles: its sum may come from elsewhere.
IN_DOUBLES = ("blt", "sqrt", "banded", "independent")


class PartsLearner(OnlineLearner):
    """Base of online learners that take the sums of whole steps from workers."""

    _holder: ClassVar[type[HeldLeaves] | type[HeldSteps]]
    user_separation: int

    @abstractmethod
    def _check_parts(self) -> None:
        """Refuse parameters that parts cannot have, before one is read."""

    def _check_run_of_parts(self, n_features: int, horizon: int, n_classes: int) -> None:
        """Refuse a run that cannot be over parts, before anything is reserved."""

    @abstractmethod
    def _learn_parts(self, run: Run, session: Session, sizes: tuple[int, ...]) -> None:
        """Learn the rows of all parts, whose numbers are given, from row ``run.state.n_rows + 1`` on."""

    def fit_parts(self, parts: Sequence[Part], crew: Crew, *, checkpoint: Keeper | None = None) -> Self:
        """Learn the rows of several parts, which workers read and hold, in one run. Every call pays again.

        Workers add up whole steps; this process, the curator, learns these sums in an order that public numbers fix,
        and alone has the noise. What is released depends on the parts and their order, to the bit, and not on how many
        workers there are or which of them holds what. The order of the rows, and when it pays: ``docs/parts.md``.

        * ``PQFTL``: steps of ``batch`` rows (or those between two models) are of one part each, and the parts take
          turns; the rows after the last whole step of each part come at the end. What is released is what :meth:`fit`
          releases of the rows in that order.
        * ``DPFTRL``, ``AdaptiveFTRL``: a step of ``batch`` rows takes the next ones of every part, in proportion to
          what is left of each. A step is a question to all workers, as its gradients are taken at the point that the
          step before has released: it has to have many rows. Its sums are joined in the order of the parts.

        Parameters
        ----------
        parts : sequence of Part
            As :func:`privol.distributed.file_parts` gives them: each a name and how a worker opens its stream.
        crew : privol.distributed.Crew
            ``LocalCrew`` (threads), ``DaskCrew``, or ``RankCrew`` (MPI: every rank calls this, and each gets the
            model). Workers and what connects them see raw rows, and models and sums without noise: they are trusted as
            the curator is, and the guarantee says so.
        checkpoint : privol.state.State, optional
            Directory in which the run is kept, as of :meth:`fit_stream`: of the curator, other ranks' is left alone. It
            is seen whether the state is to be kept when a step, or what a part sends of its steps at once, is learnt. A
            curator that failed resumes from there, to the same bits; all parts must then be unchanged.

        Returns
        -------
        self
            Closed. On other ranks than the curator's with the models and their guarantee, without ledger and counts.

        Raises
        ------
        InvalidParameter
            For designs whose steps are not added up in doubles (allowed: "blt", "sqrt", "banded", "independent"), for
            ``renewal``, ``calibration="published"`` and ``user_separation`` other than 1, and for a ``DPFTRL`` with
            steps of fewer than 64 rows. Most of them before a part is read, all before anything is spent.
        InvalidRow, StreamError, BudgetExceeded
            Before anything is spent or released; with the name of the part, and the number of the row in it.
        PartFailure, RankFailure
            If no worker can answer for a part any more, or a sum is not one of rows within their bounds. The run has
            ended, unless it is kept by ``checkpoint``; the ledger has what it spent.
        """
        if not crew.curator:
            self.n_features_in_, export = crew.serve()
            self.__dict__.pop("_run", None)
            self._export = export
            return self
        with crew.session(PartReader(self, self._holder), parts) as session:
            self._check_parts()
            stream = PartsOfRows(session)
            run = self._fit_sums(session, stream, checkpoint)
            session.leave((stream.n_features, run.export()))
        self._look_at_scaled(run, stream)
        return self

    def _fit_sums(self, session: Session, stream: PartsOfRows, checkpoint: Keeper | None) -> Run:
        n = sum(stream.sizes)
        horizon = n if self.horizon is None else self._needed_horizon()
        self._check_horizon(n, 0, horizon)
        targets, release = self._targets_of(stream.classes), self._default_release(whole=True)
        self._check_run_of_parts(stream.n_features, horizon, 2 if targets.classes is None else len(targets.classes))
        begin: Any = self._start
        before: Run | None = self.__dict__.get("_run")
        if checkpoint is not None:
            checkpoint.open(self)
            begin = partial(checkpoint.begin, self)
        try:
            if checkpoint is not None:
                checkpoint.attend(stream, once=True)
            run: Run = begin(stream.n_features, horizon, release, targets, stream)
            self.n_features_in_ = stream.n_features
            try:
                self._learn_parts(run, session, stream.sizes)
            except BaseException:
                if checkpoint is None:
                    self._settle(run)
                raise
            self.close()
        except BaseException:
            begun: Run | None = self.__dict__.get("_run")
            if checkpoint is not None:
                checkpoint.leave(self, None if begun is before else begun)
            raise
        return run

    def _refuse_for_parts(self, design: str, renewal: str, calibration: str) -> None:
        if design not in IN_DOUBLES:
            raise InvalidParameter(f"design must be one of {', '.join(IN_DOUBLES)} for parts, found {design!r}")
        if renewal != "none":
            raise InvalidParameter(f"renewal must be 'none' for parts, whose rows are counted, found {renewal!r}")
        if calibration == "published":
            raise InvalidParameter("calibration must be 'tight' for parts, found 'published'")
        if self.user_separation != 1:
            raise InvalidParameter(
                "user_separation must be 1 for parts, whose rows are learnt in another order than that of the files, "
                f"found {self.user_separation!r}"
            )

    def _keep_sums(self, run: Run, rows: int) -> None:
        """So many rows have been learnt by their sums: let the keeper see to it."""
        if run.keeper is not None:
            run.keeper.summed(rows)
            run.keeper.learnt(run, released=False)


def learn_rest(learner: Any, run: Run, answers: Iterator[tuple[Any, FloatArray]], before: int) -> None:
    """Learn rows that come as they are, part by part: of a run, after row ``before`` of it, those not learnt yet."""
    for rows, codes in answers:
        learnt = min(max(run.state.n_rows - before, 0), len(codes))
        before += len(codes)
        if learnt < len(codes):
            learner._learn(run, rows[learnt:], codes[learnt:])


def part_failed(name: str, why: str) -> NoReturn:
    raise PartFailure(f"part {name!r}: {why}; nothing more is released", part=name)


def shares_of_steps(sizes: Sequence[int], batch: int) -> Iterator[list[tuple[int, int]]]:
    """Return which rows of each part the steps take: step by step, the first row of each and how many.

    A step takes of each part in proportion to what is left of it, rounded down; where that is too few, one row more of
    those with the largest remainders, the first parts of equal ones. By public numbers alone, in integers.
    """
    left, taken = list(sizes), [0] * len(sizes)
    while (total := sum(left)) > 0:
        rows = min(batch, total)
        shares = [rows * n // total for n in left]
        first = sorted(range(len(left)), key=lambda p: (-(rows * left[p] % total), p))
        for p in first[: rows - sum(shares)]:
            shares[p] += 1
        yield list(zip(taken, shares, strict=True))
        for p, n in enumerate(shares):
            taken[p] += n
            left[p] -= n
