"""Plain CSV by a kernel of our own: parts of a chunk side by side, numbers without a detour over their texts.

Whatever is unusual (quotes, infinities, more digits than a word holds, a wrong number of cells) is left to the parser
of :mod:`privol.readers.csv`, for the whole chunk. Both give the same columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._core._text import Form
from .columns import Kind
from .parallel import lines_of, together
from .written import Written

__all__ = ["PlainCsv"]

# Separators that no number holds, and no blank around one.
_PLAIN = frozenset(b",;|:\t!#$%&/~^")
# The offsets of a text column are 32 bits.
_MOST_BYTES = 1 << 30


class PlainCsv:
    """Reads chunks of whole lines.

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
        self._written = written
        self._takes = self._sep[0] in _PLAIN and sep != written.decimal

    def read(self, text: bytes, kinds: Mapping[str, Kind]) -> list[Any] | None:
        """Return the wanted columns of a text as record batches, None where anything in it is unusual."""
        if not self._takes or b'"' in text or len(text) > _MOST_BYTES or not kinds:
            return None
        place = dict.fromkeys(self._names, -1)
        numbers = [name for name, kind in kinds.items() if kind == "number"]
        texts = [name for name, kind in kinds.items() if kind != "number"]
        place.update((name, k) for k, name in enumerate(numbers))
        place.update((name, -2 - k) for k, name in enumerate(texts))
        at = np.fromiter(place.values(), np.int32, len(place))
        ascii_only = text.isascii()

        def parsed(part: memoryview) -> Any:
            found = self._form.csv(part, self._sep, at)
            if found is None:
                return None
            columns = dict(zip(numbers, map(self._number, found[0], found[1]), strict=True))
            for name, (ends, data) in zip(texts, found[2], strict=True):
                column = self._text(ends, data, ascii_only)
                if column is None:
                    return None
                columns[name] = column
            import pyarrow

            return pyarrow.RecordBatch.from_arrays([columns[name] for name in kinds], names=list(kinds))

        parts = [part for part in lines_of(text) if part.nbytes > 2 or bytes(part).strip(b"\r\n")]
        return together(parsed, parts)

    @staticmethod
    def _number(values: Any, gaps: int) -> Any:
        import pyarrow

        return pyarrow.array(values, mask=np.isnan(values)) if gaps else pyarrow.array(values)

    def _text(self, ends: Any, data: Any, ascii_only: bool) -> Any:
        """Return a dictionary-coded column, null where a cell counts as missing; None if a text is no UTF-8."""
        import pyarrow
        import pyarrow.compute as pc

        texts = pyarrow.StringArray.from_buffers(len(ends) - 1, pyarrow.py_buffer(ends), pyarrow.py_buffer(data))
        if not ascii_only:
            try:
                texts.validate(full=True)
            except pyarrow.ArrowInvalid:
                return None
        column = texts.dictionary_encode()
        present = self._written.present(column.dictionary)
        if not present.null_count:
            return column
        missing = pc.take(present.is_null(), column.indices)
        indices = pc.if_else(missing, None, column.indices)
        return pyarrow.DictionaryArray.from_arrays(indices, column.dictionary)
