"""Workers of Dask: the curator is a client of their scheduler."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from .._validate import integer, number
from ..errors import PartFailure, StateError
from ._crews import Crew, Session
from ._row_parts import Held, Part, Reading

__all__ = ["DaskCrew"]

# ---- on a worker ------------------------------------------------------------------------------------------------

#: Seconds after which a worker drops the parts of a session that asks nothing more: its curator may have died.
_IDLE = 600.0
#: Seconds before checking whether a worker that has not answered is alive: the first time, and at most.
_LOOK, _SELDOM = 1.0, 30.0
#: Seconds between two checks for new workers.
_PAUSE = 0.1

_SESSIONS: dict[str, _Kept] = {}
_LOCK = Lock()


class _Kept:
    """The parts of one session that this process holds."""

    def __init__(self) -> None:
        self.held: dict[int, Held] = {}
        self.used = time.monotonic()


def _answers(
    session: str, parts: dict[int, Part], reading: Reading, question: str, arguments: tuple[Any, ...], threads: int
) -> list[Any]:
    """Answer for parts, in a Dask process. Errors are returned, because Dask logs errors that are raised."""
    now = time.monotonic()
    with _LOCK:
        idle = [name for name, kept in _SESSIONS.items() if name != session and now - kept.used > _IDLE]
        left = [_SESSIONS.pop(name) for name in idle]
        kept = _SESSIONS.setdefault(session, _Kept())
        kept.used = now
        held = [kept.held.setdefault(k, Held(reading, part)) for k, part in parts.items()]
    for other in left:
        _wipe(other)
    if min(threads, len(held)) <= 1:
        return [one.answer(question, arguments) for one in held]
    with ThreadPoolExecutor(min(threads, len(held))) as pool:
        return list(pool.map(lambda one: one.answer(question, arguments), held))


def _forget(session: str) -> None:
    with _LOCK:
        kept = _SESSIONS.pop(session, None)
    if kept is not None:
        _wipe(kept)


def _wipe(kept: _Kept) -> None:
    for held in kept.held.values():
        held.wipe()


# ---- the curator ------------------------------------------------------------------------------------------------


def _client_type() -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise StateError(f"DaskCrew needs Dask's distributed (pip install 'privol[dask]'): {error}") from error
    return Client


class DaskCrew(Crew):
    """Workers of a Dask cluster, which need privol too.

    A worker keeps the parts that it was asked about first. Where it dies, others read its parts and answer in its
    place: the result has the same bits.

    Parameters
    ----------
    client : distributed.Client
        Its connections should use TLS where the network is not trusted. Models and sums without noise pass through it
        and the scheduler, and of an online run the rows that fill no leaf or step.
    attempts : int, default=3
        Workers that may die over one part before the fit ends; at least 1.
    timeout : float, default=60.0
        Seconds to wait for a worker where there is none; above 0.
    """

    def __init__(self, client: Any, *, attempts: int = 3, timeout: float = 60.0) -> None:
        if not isinstance(client, _client_type()):
            raise StateError(f"client must be a distributed.Client, found {type(client).__name__}")
        self.client = client
        self.attempts = integer(attempts=attempts, at_least=1)
        self.timeout = number(timeout=timeout, above=0.0)

    @classmethod
    @contextmanager
    def at(cls, address: str) -> Iterator[DaskCrew]:
        """Connect to a scheduler for as long as the context lasts.

        Parameters
        ----------
        address : str
            URL of the scheduler, such as ``"tls://scheduler:8786"``; certificates are configured in Dask.

        Raises
        ------
        OSError
            If no scheduler answers.
        """
        with _client_type()(address) as client:
            yield cls(client)

    def session(self, reading: Reading, parts: Sequence[Part]) -> Session:
        """Begin to hold parts."""
        return _DaskSession(self, reading, parts)


class _DaskSession(Session):
    def __init__(self, crew: DaskCrew, reading: Reading, parts: Sequence[Part]) -> None:
        super().__init__(parts)
        self._crew, self._client, self._reading = crew, crew.client, reading
        self._name, self._tasks = uuid.uuid4().hex, 0
        self._places: dict[int, str] = {}
        self._threads: dict[str, int] = {}
        self._deaths: Counter[int] = Counter()  # of workers, by the part that was asked about

    def _workers(self) -> dict[str, int]:
        """The workers' addresses and numbers of threads."""
        deadline = time.monotonic() + self._crew.timeout
        while True:
            found: dict[str, int] = self._client.nthreads()
            if found:
                return found
            if time.monotonic() > deadline:
                raise PartFailure(f"no worker has come for {self._crew.timeout:g} s", part=self.parts[0].name)
            time.sleep(_PAUSE)

    def _place(self, workers: Iterable[str]) -> None:
        """Assign every part to a worker: the one that holds it, or one with few parts."""
        among = sorted(workers)
        load = Counter(place for place in self._places.values() if place in among)
        for k in range(len(self.parts)):
            if self._places.get(k) not in among:
                self._places[k] = min(among, key=lambda worker: load[worker])
                load[self._places[k]] += 1

    def _submit(self, own: list[int], question: str, arguments: tuple[Any, ...]) -> _Task:
        """Ask one worker about parts that it holds."""
        self._tasks += 1
        place = self._places[own[0]]
        future = self._client.submit(
            _answers,
            self._name,
            {k: self.parts[k] for k in own},
            self._reading,
            question,
            arguments,
            self._threads.get(place, 1),
            key=f"privol-{question}-{self._name}-{self._tasks}",
            workers=[place],
            pure=False,
        )
        return _Task(future, place, own)

    def _ask(self, question: str, arguments: tuple[Any, ...]) -> Iterator[Any]:
        if not self._places:
            self._threads = self._workers()
            self._place(self._threads)
        tasks: dict[int, _Task] = {}
        for place in dict.fromkeys(self._places.values()):
            own = [k for k, at in self._places.items() if at == place]
            tasks |= dict.fromkeys(own, self._submit(own, question, arguments))
        try:
            for k in range(len(self.parts)):
                while True:
                    try:
                        found = self._result(tasks[k], k)
                        break
                    except _Died:  # only this part is asked again, to find out which part workers die over
                        self._mourn(k, tasks[k].place)
                        tasks[k] = self._submit([k], question, arguments)
                yield found
        finally:
            for task in tasks.values():
                task.future.cancel()

    def _result(self, task: _Task, k: int) -> Any:
        """Wait for an answer, checking now and then that its worker lives: Dask would wait for it for ever."""
        patience = _LOOK
        while k not in task.found:
            if task.died:
                raise _Died
            try:
                task.found = dict(zip(task.own, task.future.result(timeout=patience), strict=True))
            except TimeoutError:
                task.died = task.place not in self._client.nthreads()
                # a large answer also takes long to arrive
                patience = min(2.0 * patience, _SELDOM) if task.future.done() else _LOOK
            except Exception as error:
                task.died = type(error).__name__ in ("KilledWorker", "FutureCancelledError")
                if not task.died:
                    name = self.parts[k].name
                    raise PartFailure(
                        f"part {name!r}: Dask has no answer ({type(error).__name__}: {error}); nothing was released",
                        part=name,
                        worker=task.place,
                    ) from None
        return task.found.pop(k)

    def _mourn(self, k: int, last: str) -> None:
        """Find another worker for a part, unless too many have died over it."""
        self._deaths[k] += 1
        name = self.parts[k].name
        if self._deaths[k] >= self._crew.attempts:
            raise PartFailure(
                f"part {name!r}: {self._deaths[k]} workers died over it, the last one at {last}; nothing was released",
                part=name,
                worker=last,
            )
        self._threads = self._workers()
        self._place([worker for worker in self._threads if worker != last] or self._threads)

    def _close(self, left: Any, error: BaseException | None) -> None:
        try:
            self._client.run(_forget, self._name, on_error="ignore")
        except Exception:  # a dead worker has nothing to drop
            if error is None:
                raise


@dataclass
class _Task:
    """A question to one worker: the parts it is about, and the answers not yet taken."""

    future: Any
    place: str
    own: list[int]
    found: dict[int, Any] = field(default_factory=dict)
    died: bool = False


class _Died(Exception):
    """The worker that was asked has died."""
