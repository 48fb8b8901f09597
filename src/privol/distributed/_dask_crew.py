"""Workers of Dask: the curator is a client of their scheduler."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any

from .._validate import number
from ..errors import PartFailure, StateError
from ._crews import Crew, Session
from ._parts import Held, Part, Reading

__all__ = ["DaskCrew"]

# ---- on a worker ------------------------------------------------------------------------------------------------------

#: Seconds after which a worker forgets the parts of a session that asks no more: its curator may have died.
_IDLE = 600.0

_SESSIONS: dict[str, _Kept] = {}
_LOCK = Lock()


class _Kept:
    """The parts of one session that this process holds."""

    def __init__(self) -> None:
        self.held: dict[int, Held] = {}
        self.used = time.monotonic()


def _answer(
    session: str, number_of: int, reading: Reading, part: Part, question: str, arguments: tuple[Any, ...]
) -> Any:
    """Answer for a part, in a process of Dask. Errors are returned: Dask writes those that are raised into its logs."""
    now = time.monotonic()
    with _LOCK:
        idle = [name for name, kept in _SESSIONS.items() if name != session and now - kept.used > _IDLE]
        left = [_SESSIONS.pop(name) for name in idle]
        kept = _SESSIONS.setdefault(session, _Kept())
        kept.used = now
        held = kept.held.setdefault(number_of, Held(reading, part))
    for other in left:
        _wipe(other)
    return held.answer(question, arguments)


def _forget(session: str) -> None:
    with _LOCK:
        kept = _SESSIONS.pop(session, None)
    if kept is not None:
        _wipe(kept)


def _wipe(kept: _Kept) -> None:
    for held in kept.held.values():
        held.wipe()


# ---- the curator ------------------------------------------------------------------------------------------------------


class DaskCrew(Crew):
    """Workers of a Dask cluster, which need privol too.

    A worker keeps the parts that it was asked about first. Where one dies, others read its parts and answer in its
    place: the result has the same bits. A part under which workers die again and again (Dask's setting
    ``distributed.scheduler.allowed-failures``) ends the fit.

    Parameters
    ----------
    client : distributed.Client
        Its connections should use TLS where the network is not trusted. Rows never pass through it or the scheduler;
        models and sums without noise do.
    timeout : float, default=60.0
        Seconds to wait for a worker where there is none; above 0.
    """

    def __init__(self, client: Any, *, timeout: float = 60.0) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise StateError(f"DaskCrew needs Dask's distributed (pip install 'privol[dask]'): {error}") from error
        if not isinstance(client, Client):
            raise StateError(f"client must be a distributed.Client, found {type(client).__name__}")
        self.client = client
        self.timeout = number(timeout=timeout, above=0.0)

    def session(self, reading: Reading, parts: Sequence[Part]) -> Session:
        """Begin to hold parts."""
        return _DaskSession(self.client, reading, parts, self.timeout)


class _DaskSession(Session):
    def __init__(self, client: Any, reading: Reading, parts: Sequence[Part], timeout: float) -> None:
        super().__init__(parts)
        self._client, self._reading, self._timeout = client, reading, timeout
        self._name, self._questions = uuid.uuid4().hex, 0
        self._places: dict[int, str] = {}

    def _placed(self) -> list[str]:
        """A worker for every part: the one that has it, or one with few parts."""
        workers = sorted(self._client.nthreads())
        if not workers:
            try:
                self._client.wait_for_workers(1, timeout=self._timeout)
            except TimeoutError:
                raise PartFailure(f"no worker has come for {self._timeout:g} s", part=self.parts[0].name) from None
            workers = sorted(self._client.nthreads())
        load = Counter(place for place in self._places.values() if place in workers)
        for k in range(len(self.parts)):
            if self._places.get(k) not in workers:
                self._places[k] = min(workers, key=lambda worker: load[worker])
                load[self._places[k]] += 1
        return [self._places[k] for k in range(len(self.parts))]

    def _ask(self, question: str, arguments: tuple[Any, ...]) -> Iterator[Any]:
        self._questions += 1
        futures = [
            self._client.submit(
                _answer,
                self._name,
                k,
                self._reading,
                part,
                question,
                arguments,
                key=f"privol-{question}-{self._name}-{self._questions}-{k}",
                workers=[place],
                allow_other_workers=True,  # where it dies
                pure=False,
            )
            for k, (part, place) in enumerate(zip(self.parts, self._placed(), strict=True))
        ]
        try:
            for part, future in zip(self.parts, futures, strict=True):
                try:
                    found = future.result()
                except Exception as error:
                    raise self._failure(error, part) from None
                future.release()
                yield found
        finally:
            self._client.cancel([future for future in futures if not future.done()])

    @staticmethod
    def _failure(error: Exception, part: Part) -> PartFailure:
        last = getattr(getattr(error, "last_worker", None), "address", None)
        if last is not None:
            return PartFailure(
                f"part {part.name!r}: every worker that read it died, the last one at {last}: nothing was released",
                part=part.name,
                worker=str(last),
            )
        return PartFailure(
            f"part {part.name!r}: no worker has answered ({type(error).__name__}): nothing was released", part=part.name
        )

    def _close(self, left: Any, error: BaseException | None) -> None:
        try:
            self._client.run(_forget, self._name, on_error="ignore")
        except Exception:  # what has died has nothing left to forget
            if error is None:
                raise
