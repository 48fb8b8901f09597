"""Ranks of MPI as workers: rank 0 is the curator, and holds parts like all the others."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidParameter, RankFailure
from ._crews import Crew, Session
from ._mpi_job import Ranks
from ._row_parts import Held, Part, Reading

__all__ = ["RankCrew"]

_CURATOR = 0
_OPEN, _ASK, _CLOSE, _END = range(4)


class RankCrew(Crew):
    """The processes of an MPI job as workers: rank 0 is the curator; every rank calls the same ``fit_parts``.

    Of P ranks and n parts each has n / P or one more, in order: rank 0 the first of them. A rank that dies ends the
    job, as MPI has it: nothing is released.

    Parameters
    ----------
    ranks : Ranks
        Of this job. What they send each other is pickled, and believed.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self.curator = ranks.rank == _CURATOR

    def session(self, reading: Reading, parts: Sequence[Part]) -> Session:
        """Have ranks hold the parts; only rank 0 calls this."""
        try:
            return _RankSession(self, reading, parts)
        except InvalidParameter as error:  # before anything was sent
            self.tell(_END, f"{type(error).__name__}; its own message says more")
            raise

    def serve(self) -> Any:
        """Answer until rank 0 closes its session, and return what it has left.

        Raises
        ------
        RankFailure
            If the session has ended by an error, or rank 0 says nothing for as long as the ranks' timeout.
        """
        own: dict[int, Held] = {}
        try:
            while True:
                kind, *words = self._told(None)
                if kind == _OPEN:
                    own = self.take(*words)
                elif kind == _ASK:
                    self._gathered(answers_of(own, *words))
                elif kind == _CLOSE:
                    return words[0]
                else:
                    raise RankFailure(f"rank {_CURATOR} cannot go on: {words[0]}", rank=_CURATOR)
        except BaseException as error:
            if not isinstance(error, RankFailure):
                self.ranks.fail(f"{type(error).__name__}; its own message says more")
            raise
        finally:
            for held in own.values():
                held.wipe()

    def take(self, reading: Reading, parts: Sequence[Part]) -> dict[int, Held]:
        """Return what this rank holds: parts by number."""
        share, more = divmod(len(parts), self.ranks.size)
        first = self.ranks.rank * share + min(self.ranks.rank, more)
        own = range(first, first + share + (self.ranks.rank < more))
        return {k: Held(reading, parts[k]) for k in own}

    def tell(self, *words: Any) -> None:
        """Send the same question to all ranks; only rank 0 calls this."""
        self._told(words)

    def collect(self, mine: list[Any]) -> list[Any]:
        """The answers of all ranks in the order of the parts, on rank 0."""
        found = self._gathered(mine)
        assert found is not None
        return [answer for rank in found for answer in rank]

    def _told(self, words: tuple[Any, ...] | None) -> Any:
        """The question of rank 0, on every rank."""
        comm, length = self.ranks._comm, np.zeros(1, dtype=np.int64)
        content = np.empty(0, dtype=np.int64) if words is None else _packed(words)
        length[0] = len(content)
        self.ranks.wait([comm.Ibcast(length, root=_CURATOR)])
        if words is None:
            content = np.empty(int(length[0]), dtype=np.int64)
        self.ranks.wait([comm.Ibcast(content, root=_CURATOR)])
        return words if words is not None else pickle.loads(content.tobytes())

    def _gathered(self, mine: list[Any]) -> list[list[Any]] | None:
        """The answers of all ranks, on rank 0; None on the others."""
        content = _packed(mine)
        counts = self.ranks.gather([len(content)])[:, 0]
        whole = np.empty(int(counts.sum()) if self.curator else 0, dtype=np.int64)
        target = (whole, counts) if self.curator else None
        self.ranks.wait([self.ranks._comm.Igatherv(content, target, root=_CURATOR)])
        if not self.curator:
            return None
        ends = np.cumsum(counts)
        return [pickle.loads(whole[end - n : end].tobytes()) for end, n in zip(ends, counts, strict=True)]


def answers_of(own: dict[int, Held], question: str, arguments: tuple[Any, ...]) -> list[Any]:
    return [held.answer(question, arguments) for held in own.values()]


def _packed(words: Any) -> NDArray[np.int64]:
    """Pickle, padded to a multiple of 64 bits: MPI counts items in 32 bits."""
    try:
        content = pickle.dumps(words, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidParameter(
            f"parts and a loss of your own must be such as can be pickled (functions of a module, no lambdas): {error}"
        ) from None
    return np.frombuffer(content.ljust(-(-len(content) // 8) * 8, b"\0"), dtype=np.int64)


class _RankSession(Session):
    def __init__(self, crew: RankCrew, reading: Reading, parts: Sequence[Part]) -> None:
        super().__init__(parts)
        self._crew = crew
        self._broken = False
        self._own = crew.take(reading, self.parts)
        self._tell(_OPEN, reading, self.parts)

    def _tell(self, *words: Any) -> None:
        try:
            self._crew.tell(*words)
        except InvalidParameter:  # nothing was sent
            raise
        except BaseException as error:
            self._break(error)
            raise

    def _break(self, error: BaseException) -> None:
        """End all ranks after an error between a question and its answers: they no longer know what comes next."""
        self._broken = True
        if not isinstance(error, RankFailure):
            self._crew.ranks.fail(f"{type(error).__name__}; its own message says more")

    def _ask(self, question: str, arguments: tuple[Any, ...]) -> Iterator[Any]:
        self._tell(_ASK, question, arguments)
        try:
            return iter(self._crew.collect(answers_of(self._own, question, arguments)))
        except BaseException as error:
            self._break(error)
            raise

    def _close(self, left: Any, error: BaseException | None) -> None:
        for held in self._own.values():
            held.wipe()
        if not self._broken:
            words = (_CLOSE, left) if error is None else (_END, f"{type(error).__name__}; its own message says more")
            self._tell(*words)
