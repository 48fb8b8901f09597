"""Bodies of requests and answers: JSON, and streams of Arrow."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import orjson

from ..errors import PrivolError
from ..readers.base import arrow
from ._predictor import Answer, Predictor

__all__ = ["ARROW", "JSON", "Refused", "answer_in_arrow", "answer_in_json", "answer_to", "wants_arrow"]

JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"

_MOST_TEXT = 64 << 20
_MOST_MESSAGES = 256  # of a stream: each is checked with all of its dictionary, however few rows it has
_RECORD_BATCH, _DICTIONARY_BATCH = 3, 2  # of the union MessageHeader in Message.fbs of Arrow
_OLD_COMPRESSION = b"ARROW:experimental_compression"  # in a message's metadata, by which Arrow 0.17 named it


class Refused(Exception):
    """A request that gets another answer than predictions.

    Parameters
    ----------
    status : int
        Of HTTP.
    message : str
        For the client alone: it may quote its cells, and goes into no log.
    **headers : str
        Of the answer.
    """

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def wants_arrow(accept: str | None, sent: str) -> bool:
    """Whether an answer is Arrow: where the client accepts that or, if it accepts anything, has sent it."""
    kinds = [word.split(";")[0].strip().lower() for word in (accept or "*/*").split(",")]
    if ARROW in kinds:
        return True
    if JSON in kinds:
        return False
    if "*/*" in kinds or "application/*" in kinds:
        return sent == ARROW
    raise Refused(406, f"the answer is {JSON} or {ARROW}, found Accept: {accept}")


def answer_to(kind: str, body: bytes, predictor: Predictor, most: int) -> Answer:
    """Return the answer to the body of a request of at most so many rows.

    Raises
    ------
    Refused
        If it cannot be read or has too many rows.
    StreamError, InvalidParameter
        If its rows are not what the model takes.
    """
    if kind == JSON:
        return predictor.of_rows(_json_rows(body, most))
    try:
        return predictor.of_table(_table(body, most, predictor))
    except PrivolError:
        raise
    except ValueError as error:  # of Arrow, or of a name in the schema that is not UTF-8
        raise Refused(422, f"the table cannot be read: {type(error).__name__}") from None


def _json_rows(body: bytes, most: int) -> list[Any]:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        # its own words quote the body
        raise Refused(400, f"the body is not JSON: line {error.lineno}, column {error.colno}") from None
    if not isinstance(found, dict) or not isinstance(found.get("rows"), list):
        raise Refused(400, 'the body must be an object whose "rows" are an array of objects or of arrays')
    others = sorted(found.keys() - {"rows"})
    if others:
        raise Refused(400, f'the body has {others[0]!r} beside "rows", which is all that it may have')
    _count(len(found["rows"]), most)
    rows: list[Any] = found["rows"]
    return rows


def _count(rows: int, most: int) -> None:
    if not rows:
        raise Refused(422, "found no rows, at least one is needed")
    if rows > most:
        raise Refused(413, f"found {rows:,} rows, at most {most:,} are answered at once")


# ---- Arrow -------------------------------------------------------------------------------------------------


def _table(body: bytes, most: int, predictor: Predictor) -> Any:
    """Read the columns of the model in a stream of Arrow that a stranger has made.

    Nothing is allocated beyond its own bytes, and nothing is checked that the model does not take.
    """
    pa = arrow("a stream of Arrow")
    try:
        _check_messages(pa, body)
        with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
            schema = reader.schema
        nested = next((field for field in schema if not _flat(pa, field.type)), None)
        if nested is not None:  # of several of one name, this one
            raise Refused(422, f"column {nested.name!r}: found {nested.type}, allowed are numbers, text, booleans, "
                          "dates, times, and dictionaries of these")  # fmt: skip
        options = pa.ipc.IpcReadOptions(included_fields=predictor.places(schema.names))
        with pa.ipc.open_stream(pa.BufferReader(body), options=options) as reader:
            batches, rows, text = [], 0, 0
            for batch in reader:
                rows += batch.num_rows
                if rows > most:
                    _count(rows, most)
                batch.validate(full=True)
                text += sum(_text_of(pa, column) for column in batch.columns)
                if text > _MOST_TEXT:
                    raise Refused(413, f"the cells stand for more than {_MOST_TEXT:,} bytes of text")
                batches.append(batch)
            _count(rows, most)
            return pa.Table.from_batches(batches, reader.schema)
    except PrivolError:
        raise
    except (pa.ArrowException, OSError, ValueError, IndexError, struct.error) as error:
        raise Refused(400, f"the body is not a stream of Arrow: {type(error).__name__}") from None


def _flat(pa: Any, kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        return bool(_flat(pa, kind.value_type))
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date(kind)
        or pa.types.is_time(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_duration(kind)
        or pa.types.is_null(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
    )


def _text_of(pa: Any, column: Any) -> int:
    """Bytes of text that the cells stand for, where many of them may share the same: written out they are all there."""
    import pyarrow.compute as pc

    kind, n = column.type, len(column)
    if pa.types.is_string_view(kind):
        views = np.frombuffer(column.buffers()[1], dtype=np.int32).reshape(-1, 4)
        return int(np.abs(views[column.offset : column.offset + n, 0].astype(np.int64)).sum())
    if not pa.types.is_dictionary(kind):
        return 0
    values = column.dictionary
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return pc.sum(pc.binary_length(values).take(column.indices).cast(pa.int64())).as_py() or 0
    # of views the longest, at most: dictionaries of them are rare
    return n * _text_of(pa, values)


def _check_messages(pa: Any, body: bytes) -> None:
    """Refuse messages by which few bytes make much work: before one of them is read.

    A compressed megabyte can hold gigabytes, which reading would allocate at once. A delta makes Arrow copy the whole
    dictionary that it adds to.
    """
    source, found = pa.BufferReader(body), 0
    while True:
        try:
            message = pa.ipc.read_message(source)
        except EOFError:
            return
        metadata = message.metadata.to_pybytes()
        if _OLD_COMPRESSION in metadata:
            raise Refused(415, "the batches are compressed: only streams without compression are read")
        _check_batch(metadata)
        found += 1
        if found > _MOST_MESSAGES:
            raise Refused(413, f"the stream has more than {_MOST_MESSAGES} messages: send its rows in fewer batches")


def _check_batch(metadata: bytes) -> None:
    """Refuse a message whose flatbuffer names a compression (field 3 of its RecordBatch), or a delta."""
    root = struct.unpack_from("<I", metadata, 0)[0]
    kind = _field(metadata, root, 1)
    if kind is None:
        return
    header, at = metadata[kind], _field(metadata, root, 2)
    if header not in (_RECORD_BATCH, _DICTIONARY_BATCH) or at is None:
        return
    batch = at + struct.unpack_from("<I", metadata, at)[0]
    if header == _DICTIONARY_BATCH:
        delta, inner = _field(metadata, batch, 2), _field(metadata, batch, 1)
        if delta is not None and metadata[delta]:
            raise Refused(415, "a dictionary is sent in parts (deltas): only whole ones are read")
        if inner is None:
            return
        batch = inner + struct.unpack_from("<I", metadata, inner)[0]
    if _field(metadata, batch, 3) is not None:
        raise Refused(415, "the batches are compressed: only streams without compression are read")


def _field(buffer: bytes, table: int, number: int) -> int | None:
    """Position of a field of a table of a flatbuffer; None where it has its default."""
    vtable = table - struct.unpack_from("<i", buffer, table)[0]
    if vtable < 0:
        raise ValueError("a table outside its buffer")
    size = struct.unpack_from("<H", buffer, vtable)[0]
    place = 4 + 2 * number
    if place + 2 > size:
        return None
    offset = struct.unpack_from("<H", buffer, vtable + place)[0]
    return table + offset if offset else None


# ---- answers -----------------------------------------------------------------------------------------------


def answer_in_json(answer: Answer, model: dict[str, Any]) -> bytes:
    """Return an answer as JSON, beside what says which model gave it."""
    found: dict[str, Any] = {"model": model, "predictions": answer.predictions.tolist()}
    if answer.classes is not None:
        found["classes"] = answer.classes
    if answer.probabilities is not None:
        found["probabilities"] = np.ascontiguousarray(answer.probabilities)
    return orjson.dumps(found, option=orjson.OPT_SERIALIZE_NUMPY)


def answer_in_arrow(answer: Answer, model: dict[str, Any]) -> bytes:
    """Return an answer as a stream of Arrow: ``prediction`` and, by class, ``probability of LABEL``.

    What says which model gave it is JSON in the schema's metadata, under ``privol.model``.
    """
    pa = arrow("a stream of Arrow")
    columns = {"prediction": pa.array(answer.predictions.tolist())}
    if answer.probabilities is not None and answer.classes is not None:
        for j, label in enumerate(answer.classes):
            columns[f"probability of {label}"] = pa.array(np.ascontiguousarray(answer.probabilities[:, j]))
    table = pa.table(columns).replace_schema_metadata({"privol.model": orjson.dumps(model)})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
