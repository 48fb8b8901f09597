"""The two messages of a round as bytes: a question with its point, an answer with its report.

Fixed layout, little-endian, without padding but zeros; a size follows from the number of coordinates, which both sides
know. Nothing is allocated by what a message says of its own size.
"""

from __future__ import annotations

import math
import struct
import sys
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidMessage
from ._terms import TERMS_BYTES

__all__ = [
    "ANSWER",
    "HEAD_BYTES",
    "QUESTION",
    "RUN_BYTES",
    "VERSION",
    "Answer",
    "Question",
    "check_head",
    "pack_answer",
    "pack_question",
    "parse_answer",
    "parse_question",
    "size_of",
]

#: Version of the messages: both sides have the same.
VERSION = 1

MAGIC = b"pvRD"
RUN_BYTES = 16
QUESTION, ANSWER = 1, 2
_KINDS = {QUESTION: "question", ANSWER: "answer"}
# magic, version, kind, zero, bytes of the whole message, coordinates: the same in all messages of a run
_FIXED = struct.Struct("<4sHBBII")
# run, round
_PLACE = struct.Struct("<16sQ")
HEAD_BYTES = _FIXED.size + _PLACE.size
_MOST_COORDINATES = (1 << 29) - 64  # so that sizes fit in their field
_POINT_AT = HEAD_BYTES + TERMS_BYTES

_LITTLE = sys.byteorder == "little"

FloatArray: TypeAlias = NDArray[np.float64]

# Of a norm: coordinates beyond it count as not finite everywhere, so that squares stay finite.
_LARGEST = 1e150


class Question(NamedTuple):
    """What a learner asks of a device: all public."""

    run: bytes
    number: int
    terms: bytes
    point: FloatArray


class Answer(NamedTuple):
    """What a device answers: public by the noise in it."""

    run: bytes
    number: int
    report: FloatArray


def size_of(kind: int, dim: int) -> int:
    """Bytes of a message with so many coordinates."""
    if not 1 <= dim <= _MOST_COORDINATES:
        raise InvalidMessage(f"messages have 1 to {_MOST_COORDINATES} coordinates, found {dim}")
    return (_POINT_AT if kind == QUESTION else HEAD_BYTES) + 8 * dim


@lru_cache(maxsize=64)
def _fixed(kind: int, dim: int) -> bytes:
    """The beginning of all such messages."""
    return _FIXED.pack(MAGIC, VERSION, kind, 0, size_of(kind, dim), dim)


def pack_question(run: bytes, number: int, terms: bytes, point: FloatArray) -> bytes:
    """Return a question as bytes."""
    return _fixed(QUESTION, len(point)) + _PLACE.pack(run, number) + terms + _content(point)


def pack_answer(run: bytes, number: int, report: FloatArray) -> bytes:
    """Return an answer as bytes."""
    return _fixed(ANSWER, len(report)) + _PLACE.pack(run, number) + _content(report)


def check_head(message: bytes, kind: int, dim: int) -> tuple[bytes, int]:
    """Return run and round of a message, of which at least the head is there.

    Raises
    ------
    InvalidMessage
        If it is not the head of such a message; the text says what was found and what is allowed.
    """
    if len(message) < HEAD_BYTES:
        raise InvalidMessage(f"a message has at least {HEAD_BYTES} bytes, found {len(message)}")
    if message[: _FIXED.size] != _fixed(kind, dim):
        raise InvalidMessage(_what_is_wrong(message, kind, dim))
    run, number = _PLACE.unpack_from(message, _FIXED.size)
    if number < 1:
        raise InvalidMessage("rounds are numbered from 1, found 0")
    return run, number


def _what_is_wrong(message: bytes, kind: int, dim: int) -> str:
    """Which part of the beginning is another than it must be."""
    magic, version, found, zero, size, coordinates = _FIXED.unpack_from(message)
    if magic != MAGIC:
        return f"a message begins with {MAGIC!r}, found {magic!r}"
    if version != VERSION:
        return f"messages of version {VERSION} are understood here, found version {version}"
    if (found, zero) != (kind, 0):
        return f"expected the kind {kind} ({_KINDS[kind]}) and then 0, found {found} and {zero}"
    if coordinates != dim:
        return f"the {_KINDS[kind]} must have {dim} coordinates, found {coordinates}"
    return f"the {_KINDS[kind]} with {dim} coordinates has {size_of(kind, dim)} bytes, this one states {size}"


def parse_question(message: bytes, dim: int) -> Question:
    """Return what a question says; its terms are left as bytes.

    Raises
    ------
    InvalidMessage
    """
    run, number = _checked(message, QUESTION, dim)
    point = _numbers(message, dim, _POINT_AT)
    _check_finite("point", point)
    return Question(run, number, message[HEAD_BYTES:_POINT_AT], point)


def parse_answer(message: bytes, dim: int) -> Answer:
    """Return what an answer says.

    Raises
    ------
    InvalidMessage
    """
    run, number = _checked(message, ANSWER, dim)
    report = _numbers(message, dim, HEAD_BYTES)
    _check_finite("report", report)
    return Answer(run, number, report)


def _checked(message: bytes, kind: int, dim: int) -> tuple[bytes, int]:
    if not isinstance(message, bytes):
        raise InvalidMessage(f"a message must be bytes, found {type(message).__name__}")
    head = check_head(message, kind, dim)
    size = int.from_bytes(message[8:12], "little")  # which is right, or the head would not be
    if len(message) != size:
        raise InvalidMessage(f"the {_KINDS[kind]} must have {size} bytes, found {len(message)}")
    return head


def _numbers(message: bytes, dim: int, start: int) -> FloatArray:
    numbers = np.frombuffer(message, "<f8", dim, start)
    return numbers if _LITTLE else numbers.astype(np.float64)


def _content(x: FloatArray) -> bytes:
    return x.tobytes() if _LITTLE else x.astype("<f8").tobytes()


def _check_finite(name: str, x: FloatArray) -> None:
    if not x.dot(x) <= _LARGEST * _LARGEST:
        raise InvalidMessage(f"the {name} must be finite, with a norm of at most {_LARGEST:g}: found {_length(x):g}")


def _length(x: FloatArray) -> float:
    """L2 norm, without overflow on the way."""
    largest = float(np.abs(x).max())
    return largest * float(np.linalg.norm(x / largest)) if 0.0 < largest < math.inf else largest
