"""What Flower's messages carry: one record of bytes there and back, or a refusal; nothing else is read or sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._values import shown
from ..errors import BudgetExceeded, InvalidMessage, StateError

__all__ = ["REFUSED", "RowFailure", "content_of", "flwr_app", "guarded", "record_of", "was_lost"]

#: The only record of a message.
_RECORD = "privol"
#: Code of the error that a client replies with; Flower's own are small.
REFUSED = 7100
#: Flower's codes for what did not arrive: messages or replies that are not there any more, nodes that are away, apps
#: that were killed. The same question may be asked again, and costs nothing.
_LOST = frozenset({3, 4, 5, 8})

#: What a client says of errors that are not about the question alone: their words may be about its row.
_SILENT = "this client cannot answer; its owner may know why"
_NO_ROW = "this client cannot read its rows; its owner may know why"


class RowFailure(Exception):
    """The owner's function raised an error, whose words may be about a row: they stay on the device."""


def flwr_app() -> Any:
    """Return Flower's module of messages.

    Raises
    ------
    StateError
        If Flower is not installed.
    """
    try:
        import flwr.app
    except ImportError as error:
        raise StateError(f"privol.flower needs Flower (pip install 'privol[flower]' brings it): {error}") from error
    return flwr.app


def content_of(**values: bytes) -> Any:
    """Return the content of a message: one record with bytes by name."""
    app = flwr_app()
    return app.RecordDict({_RECORD: app.ConfigRecord(dict(values))})


def record_of(message: Any, *names: str) -> tuple[bytes, ...]:
    """Return the bytes of a message by name.

    Raises
    ------
    InvalidMessage
        If it has anything else, or something missing.
    """
    app = flwr_app()
    if not message.has_content():
        raise InvalidMessage("a message has content, found none")
    content = message.content
    if list(content) != [_RECORD] or not isinstance(content[_RECORD], app.ConfigRecord):
        raise InvalidMessage(f"a message has one ConfigRecord, {_RECORD!r}, found {shown(sorted(content))}")
    record = content[_RECORD]
    if sorted(record) != sorted(names) or not all(type(value) is bytes for value in record.values()):
        found = {name: type(value).__name__ for name, value in record.items()}
        raise InvalidMessage(f"the record {_RECORD!r} has bytes named {list(names)}, found {shown(found)}")
    return tuple(record[name] for name in names)


def was_lost(reply: Any) -> bool:
    """Whether Flower says in place of a client that no reply has come."""
    return bool(reply.has_error()) and reply.error.code in _LOST


def guarded(
    answer: Callable[[Any, Any], Any], failed: Callable[[Exception], object] | None
) -> Callable[[Any, Any], Any]:
    """Return a client's function that never raises: Flower would send the words of an error to the server.

    Refusals that depend on the message and public limits alone are replied in their own words, and all other errors in
    fixed ones. Nothing is logged; ``failed`` gets the error, on the device.
    """
    app = flwr_app()

    def call(message: Any, context: Any) -> Any:
        try:
            return app.Message(answer(message, context), reply_to=message)
        except Exception as error:
            if isinstance(error, RowFailure):
                words = _NO_ROW
            elif type(error) in (InvalidMessage, BudgetExceeded):
                words = str(error)
            else:
                words = _SILENT
            if failed is not None:
                try:
                    failed(error.__cause__ if isinstance(error.__cause__, Exception) else error)
                except Exception:
                    words = _SILENT  # the owner's own log failed: its error may be about the row as well
        return app.Message(app.Error(code=REFUSED, reason=words), reply_to=message)

    return call
