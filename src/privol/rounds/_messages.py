"""The two messages of a round as bytes: a question with its point, an answer with its report.

The layout is fixed and little-endian, and all padding is zero. Sizes follow from the number of coordinates, which both
sides know; nothing is allocated on the strength of a size that a message states.
"""

from __future__ import annotations

import struct
import sys
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._core._local import squared_norm
from ..errors import InvalidMessage
from ._terms import TERMS_BYTES

__all__ = [
    "ANSWER",
    "HEAD_BYTES",
    "QUESTION",
    "RUN_BYTES",
    "VERSION",
    "check_head",
    "pack_answer",
    "pack_question",
    "parse_answer",
    "parse_question",
    "place_of",
    "read_place",
    "size_of",
]

#: Version of the messages; it must be the same on both sides.
VERSION = 1

MAGIC = b"pvRD"
RUN_BYTES = 16
QUESTION, ANSWER = 1, 2
_KINDS = {QUESTION: "question", ANSWER: "answer"}
# magic, version, kind, zero, bytes of the whole message, coordinates: the same in all messages of a kind in a run
_FIXED = struct.Struct("<4sHBBII")
# run, round
_PLACE = struct.Struct("<16sQ")
HEAD_BYTES = _FIXED.size + _PLACE.size
_NUMBER_AT = HEAD_BYTES - 8
_MOST_COORDINATES = (1 << 29) - 64  # so that sizes fit into their field
_POINT_AT = HEAD_BYTES + TERMS_BYTES

_LITTLE = sys.byteorder == "little"
_DOUBLES = np.dtype("<f8")

FloatArray: TypeAlias = NDArray[np.float64]

# Larger coordinates count as not finite, as in squared_norm, so that squares stay finite.
_LARGEST = 1e150


@lru_cache(maxsize=64)
def size_of(kind: int, dim: int) -> int:
    """Bytes of a message with ``dim`` coordinates."""
    if not 1 <= dim <= _MOST_COORDINATES:
        raise InvalidMessage(f"messages have 1 to {_MOST_COORDINATES} coordinates, found {dim}")
    return (_POINT_AT if kind == QUESTION else HEAD_BYTES) + 8 * dim


@lru_cache(maxsize=64)
def _fixed(kind: int, dim: int) -> bytes:
    """The common beginning of all such messages."""
    return _FIXED.pack(MAGIC, VERSION, kind, 0, size_of(kind, dim), dim)


def place_of(run: bytes, number: int) -> bytes:
    """Return the bytes that identify a round in both of its messages."""
    return _PLACE.pack(run, number)


def read_place(place: bytes) -> tuple[bytes, int]:
    """Return the run and the number of a round."""
    run, number = _PLACE.unpack(place)
    return run, number


def pack_question(place: bytes, terms: bytes, point: FloatArray) -> bytes:
    """Return a question as bytes."""
    return b"".join((_fixed(QUESTION, len(point)), place, terms, _content(point)))


def pack_answer(place: bytes, report: FloatArray) -> bytes:
    """Return an answer as bytes."""
    return b"".join((_fixed(ANSWER, len(report)), place, _content(report)))


def check_head(message: bytes, kind: int, dim: int) -> None:
    """Refuse what is not the beginning of such a message.

    Raises
    ------
    InvalidMessage
        What was found, and what is allowed.
    """
    if len(message) < HEAD_BYTES:
        raise InvalidMessage(f"a message has at least {HEAD_BYTES} bytes, found {len(message)}")
    if message[: _FIXED.size] != _fixed(kind, dim):
        raise InvalidMessage(_what_is_wrong(message, kind, dim))
    if message[_NUMBER_AT:HEAD_BYTES] == bytes(HEAD_BYTES - _NUMBER_AT):
        raise InvalidMessage("rounds are numbered from 1, found 0")


def _what_is_wrong(message: bytes, kind: int, dim: int) -> str:
    """Say which part of the beginning is wrong."""
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


def parse_question(message: bytes, dim: int) -> tuple[bytes, bytes, FloatArray]:
    """Return place, terms and point of a question; the terms are left as bytes.

    Raises
    ------
    InvalidMessage
    """
    _check_size(message, QUESTION, dim)
    point, _ = _numbers(message, dim, "point", _POINT_AT)
    return message[_FIXED.size : HEAD_BYTES], message[HEAD_BYTES:_POINT_AT], point


def parse_answer(message: bytes, dim: int) -> tuple[bytes, FloatArray, float]:
    """Return place and report of an answer, and the report's squared norm.

    Raises
    ------
    InvalidMessage
    """
    _check_size(message, ANSWER, dim)
    report, square = _numbers(message, dim, "report", HEAD_BYTES)
    return message[_FIXED.size : HEAD_BYTES], report, square


def _check_size(message: bytes, kind: int, dim: int) -> None:
    if not isinstance(message, bytes):
        raise InvalidMessage(f"a message must be bytes, found {type(message).__name__}")
    check_head(message, kind, dim)
    if len(message) != size_of(kind, dim):
        raise InvalidMessage(f"the {_KINDS[kind]} must have {size_of(kind, dim)} bytes, found {len(message)}")


def _numbers(message: bytes, dim: int, name: str, start: int) -> tuple[FloatArray, float]:
    """The numbers in a message, and their squared norm."""
    found = np.frombuffer(message, _DOUBLES, dim, start)
    x = found if _LITTLE else found.astype(np.float64)
    square = squared_norm(x)
    if square < 0.0:
        place = int(np.argmin(np.abs(x) <= _LARGEST))
        raise InvalidMessage(
            f"the {name} must be finite and at most {_LARGEST:g} in magnitude, coordinate {place} is {x[place]}"
        )
    return x, square


def _content(x: FloatArray) -> bytes:
    return x.tobytes() if _LITTLE else x.astype(_DOUBLES).tobytes()
