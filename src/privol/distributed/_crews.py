"""Workers that hold parts of the rows, and what a curator asks of them, whatever connects the two."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from .._validate import integer
from ..errors import StateError
from ._row_parts import Held, Part, Reading, check_parts, result_of

__all__ = ["Crew", "LocalCrew", "Session"]


class Session(ABC):
    """Parts that workers hold, for as long as one fit takes; a context manager, which lets go of them.

    A question is a function of the part and of its arguments alone: what a worker keeps between two of them only saves
    time. So another worker can replace one that failed, with the same answers.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        check_parts(list(parts))
        self.parts = tuple(parts)
        self._digests: dict[str, bytes] = {}  # of the parts, from their first reading
        self._left: Any = None

    @abstractmethod
    def _ask(self, question: str, arguments: tuple[Any, ...]) -> Iterator[Any]:
        """Yield answers or refusals in the order of the parts."""

    @abstractmethod
    def _close(self, left: Any, error: BaseException | None) -> None:
        """Dismiss the workers; processes in :meth:`Crew.serve` get ``left``."""

    def ask(self, question: str, *arguments: Any) -> Iterator[Any]:
        """Ask the same of every part, and return the answers in the order of the parts; they are to be read to the end.

        Raises
        ------
        InvalidRow, StreamError, InvalidParameter
            What a worker refuses with, with the name of the part before it.
        PartFailure
            If no worker can answer for a part any more, or its rows are not those that were first read.
        """
        for part, found in zip(self.parts, self._ask(question, arguments), strict=True):
            yield result_of(found, part, self._digests)

    def digests(self) -> list[bytes]:
        """The digests of the rows of each part, in the order of the parts, once they have been requested.

        A function of the rows without a key: **secret**.
        """
        return [self._digests[part.name] for part in self.parts]

    def leave(self, what: Any) -> None:
        """Set what processes in :meth:`Crew.serve` get once the session is closed: a release, which is public."""
        self._left = what

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(self._left, error)


class Crew(ABC):
    """Workers who hold parts of the rows and answer questions about them; the curator alone has the noise.

    Workers see raw rows, and models and sums without noise: they, and whatever connects them, are trusted as the
    curator is. Subclasses connect them: :class:`LocalCrew`, :class:`RankCrew`, :class:`DaskCrew`.
    """

    #: Whether this process is the curator; other processes :meth:`serve`.
    curator: bool = True

    @abstractmethod
    def session(self, reading: Reading, parts: Sequence[Part]) -> Session:
        """Have workers hold the parts; only the curator calls this."""

    def serve(self) -> Any:
        """Answer until the curator's session is closed, and return what it has left: of all other processes.

        Raises
        ------
        StateError
            If this process is the curator of every fit, as it is of a crew whose workers are threads or a cluster's.
        """
        raise StateError(
            f"this process is the curator of a {type(self).__name__}, and has no other process to serve: session() "
            "asks its workers; serve() is for the other ranks of a RankCrew, and for crews of your own like it"
        )


class _LocalSession(Session):
    def __init__(self, reading: Reading, parts: Sequence[Part], threads: int) -> None:
        super().__init__(parts)
        self._held = [Held(reading, part) for part in self.parts]
        self._pid = os.getpid()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="privol-part") if threads > 1 else None

    def _ask(self, question: str, arguments: tuple[Any, ...]) -> Iterator[Any]:
        if os.getpid() != self._pid:
            raise StateError("a forked child has none of the threads of its parent's session, and would wait for ever")
        if self._pool is None:
            return (held.answer(question, arguments) for held in self._held)
        return self._pool.map(lambda held: held.answer(question, arguments), self._held)

    def _close(self, left: Any, error: BaseException | None) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        for held in self._held:
            held.wipe()


class LocalCrew(Crew):
    """Workers in this process: threads, which share its memory.

    Parameters
    ----------
    threads : int, default=1
        At least 1. Kernels run beside each other; a loss of your own does not.
    """

    def __init__(self, threads: int = 1) -> None:
        self.threads = integer(threads=threads, at_least=1)

    def session(self, reading: Reading, parts: Sequence[Part]) -> Session:
        """Have workers hold the parts."""
        return _LocalSession(reading, parts, self.threads)
