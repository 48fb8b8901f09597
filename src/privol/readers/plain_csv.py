"""Plain CSV: lines without quotes, whose numbers are read in place, without a string for each cell.

A text with anything unusual (quotes, infinities, more digits than a word holds, a wrong number of cells) is left as a
whole to the parser of :mod:`privol.readers.csv`. Both give the same columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .._core._plain import PASSED_OVER, read_csv
from .._core._text import Form
from .columns import Batch, Kind
from .written import Written

__all__ = ["PlainCsv"]

# The columns of this many bytes of lines stay in a near cache until they become rows.
PART_BYTES = 1 << 20
# The offsets of a text column have 32 bits.
_MOST_BYTES = 1 << 30
# Separators that occur in no number and are not a blank around one.
_PLAIN = frozenset(b",;|:\t!#$%&/~^")


class PlainCsv:
    """Reads texts of whole lines.

    Parameters
    ----------
    names : sequence of str
        Of all columns.
    sep : str
    written : Written
    """

    def __init__(self, names: Sequence[str], sep: str, written: Written) -> None:
        self._names = names
        self._sep = sep.encode()
        self._form = Form([text.encode() for text in written.missing], written.decimal.encode())
        self._takes = self._sep[0] in _PLAIN and sep != written.decimal

    def batches(self, text: bytes, kinds: Mapping[str, Kind]) -> Iterator[tuple[Batch, int]]:
        """Yield the wanted columns of a text as record batches, each with its end in the text.

        Yielding stops before the first part that has anything unusual in it. Columns of text are strings without nulls.
        """
        if not self._takes or not kinds or b'"' in text or len(text) > _MOST_BYTES:
            return
        place = dict.fromkeys(self._names, PASSED_OVER)
        numbers = [name for name, kind in kinds.items() if kind == "number"]
        texts = [name for name, kind in kinds.items() if kind != "number"]
        place.update((name, k) for k, name in enumerate(numbers))
        place.update((name, -2 - k) for k, name in enumerate(texts))
        at = np.fromiter(place.values(), np.int32, len(place))
        wide = not text.isascii()
        import pyarrow

        whole, start = memoryview(text), 0
        while start < len(text):
            stop = _end(text, start)
            part = whole[start:stop]
            if stop - start > 2 or bytes(part).strip(b"\r\n"):
                found = read_csv(self._form, part, self._sep, at)
                if found is None:
                    return
                columns = dict(zip(numbers, map(_numbers, found[0], found[1]), strict=True))
                columns.update(zip(texts, (_strings(*column) for column in found[2]), strict=True))
                batch = pyarrow.RecordBatch.from_arrays([columns[name] for name in kinds], names=list(kinds))
                del found, columns
                if wide and not _valid(batch):
                    return
                yield batch, stop
                del batch  # frees its memory for the next one
            start = stop


def _end(text: bytes, start: int) -> int:
    """Return where the part that begins at ``start`` ends: at the end of a line."""
    if len(text) - start <= PART_BYTES:
        return len(text)
    return text.rfind(b"\n", start, start + PART_BYTES) + 1 or text.find(b"\n", start) + 1 or len(text)


def _strings(ends: Any, data: Any) -> Any:
    import pyarrow

    return pyarrow.StringArray.from_buffers(len(ends) - 1, pyarrow.py_buffer(ends), pyarrow.py_buffer(data))


def _valid(batch: Batch) -> bool:
    import pyarrow

    try:
        batch.validate(full=True)
    except pyarrow.ArrowInvalid:
        return False
    return True


def _numbers(values: Any, gaps: int) -> Any:
    import pyarrow

    return pyarrow.array(values, mask=np.isnan(values)) if gaps else pyarrow.array(values)
