"""Reads messages from a stream socket, which may deliver them in pieces, too slowly, or not at all."""

from __future__ import annotations

import socket
import time

from ..errors import InvalidMessage
from ._messages import ANSWER, HEAD_BYTES, QUESTION, check_head, size_of

__all__ = ["receive_answer", "receive_question"]


def receive_question(connection: socket.socket, dim: int, *, seconds: float = 60.0) -> bytes | None:
    """Read one question with a given number of coordinates, for :meth:`Device.answer`.

    Parameters
    ----------
    connection : socket.socket
        Of a stream, blocking. After an error its place in the stream is lost: close it.
    dim : int
        Coordinates of the point.
    seconds : float, default=60
        For the rest of a message whose beginning has come. For the beginning the socket's own timeout counts.

    Returns
    -------
    bytes or None
        None: the other side has ended the connection between two messages.

    Raises
    ------
    InvalidMessage
        If the beginning is none of such a message, or the connection ends in the middle of it. No byte beyond the
        message is read, and no room is made for more than that, whatever the beginning says.
    TimeoutError
    """
    return _receive(connection, QUESTION, dim, seconds)


def receive_answer(connection: socket.socket, dim: int, *, seconds: float = 60.0) -> bytes | None:
    """Read one answer for :meth:`Collector.tell`; see :func:`receive_question`."""
    return _receive(connection, ANSWER, dim, seconds)


def _receive(connection: socket.socket, kind: int, dim: int, seconds: float) -> bytes | None:
    size = size_of(kind, dim)
    message = connection.recv(size)
    if not message:
        return None
    if len(message) == size:
        return message
    end, timeout = time.monotonic() + seconds, connection.gettimeout()
    try:
        while len(message) < size:
            if len(message) >= HEAD_BYTES:
                check_head(message, kind, dim)
            left = end - time.monotonic()
            if left <= 0.0:
                raise TimeoutError(f"{len(message)} of {size} bytes have come in {seconds:g} s")
            connection.settimeout(left if timeout is None else min(left, timeout))
            more = connection.recv(size - len(message))
            if not more:
                raise InvalidMessage(f"the connection ended after {len(message)} of {size} bytes")
            message += more
    finally:
        connection.settimeout(timeout)
    return message
