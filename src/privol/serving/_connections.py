"""Connections that end: clients that send or read too slowly, or are too many, hold none."""

from __future__ import annotations

from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["patient"]

_RECEIVED = (h11.DONE, h11.MUST_CLOSE, h11.CLOSED, h11.ERROR, h11.SWITCHED_PROTOCOL)
_SPARE = 64  # connections beyond the limit, which get 503; more are closed unheard, as each takes a file of the process


def patient(seconds: float, connections: int) -> type[H11Protocol]:
    """Return uvicorn's protocol with limits on what a client may hold.

    It closes a connection whose request takes longer than this to be there, or whose answers wait longer than this to
    be taken: uvicorn itself waits for ever for both.
    """

    class Patient(H11Protocol):
        _limit: Any = None
        _unread: Any = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            # so that writing is paused for as long as anything waits to be sent
            transport.set_write_buffer_limits(high=1, low=0)
            if len(self.connections) > connections + _SPARE:
                transport.abort()
            else:
                self._watch()

        def handle_events(self) -> None:
            super().handle_events()
            self._watch()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._unread = self._unread or self.loop.call_later(seconds, self._give_up)

        def resume_writing(self) -> None:
            self._taken()
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget()
            self._taken()
            super().connection_lost(exc)

        def _watch(self) -> None:
            state = self.conn.their_state
            waits = state is h11.IDLE and self.cycle is not None and not self.conn.trailing_data[0]
            if state in _RECEIVED or waits:  # between two requests, uvicorn's own limit holds
                self._forget()
            elif self._limit is None:
                self._limit = self.loop.call_later(seconds, self._give_up)

        def _forget(self) -> None:
            if self._limit is not None:
                self._limit.cancel()
                self._limit = None

        def _taken(self) -> None:
            if self._unread is not None:
                self._unread.cancel()
                self._unread = None

        def _give_up(self) -> None:
            self._forget()
            self._taken()
            self.transport.abort()

    return Patient
