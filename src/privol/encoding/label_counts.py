"""Counts the rows of each label, for a target that may have as many labels as there are rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._threads import each
from .labels import label_text
from .told import Told

__all__ = ["LabelCounts", "label_texts"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Texts that label_text leaves unchanged (a few others are too): whole numbers of at most 15 digits, the shortest form
# of decimals that Python writes without an exponent, and names. What begins like "true" or "false" may mean 1 or 0.
# Decimals of at most 15 digits are their own shortest form; Arrow writes the shortest form of a double.
_WHOLE = "0|-?[1-9][0-9]{0,14}"
_DECIMAL = r"-?(?:0\.0{0,3}(?:[1-9][0-9]*)?[1-9]|[1-9][0-9]*\.[0-9]*[1-9])"
_NAME = "[A-EG-SU-Za-eg-su-z][ -~]*"
_LONGEST = 16  # characters of a decimal of 15 digits
# Numbers are written as text in pieces of this size, in parallel.
_PIECE = 1 << 14
# With this few texts, one at a time is faster.
_SMALL = 256
# New texts are merged with the earlier ones once there are this many, or as many as there are earlier ones.
_FEW = 1 << 16


def label_texts(told: Told) -> Any:
    """Return :func:`~privol.encoding.labels.label_text` of each text, null where it counts as missing.

    Returns
    -------
    pyarrow.StringArray, shape (texts,)
    """
    import pyarrow
    import pyarrow.compute as pc

    if len(told.values) <= _SMALL:
        found = told.present.to_pylist()
        return pyarrow.array([None if text is None else label_text(text) for text in found], "string")
    if told.doubles is not None:
        present = np.flatnonzero(~told.missing[:-1])
        texts = pyarrow.nulls(len(told.doubles), "string")
        return pc.replace_with_mask(
            texts, pyarrow.array(~told.missing[:-1]), _texts_of_doubles(told.doubles[present], "string")
        )
    texts = told.present
    short = pc.less_equal(pc.binary_length(texts), _LONGEST)
    own = pc.or_(
        pc.match_substring_regex(texts, f"^(?:{_WHOLE}|{_NAME})$"),
        pc.and_(short, pc.match_substring_regex(texts, f"^{_DECIMAL}$")),
    )
    rest = np.flatnonzero(pc.invert(own).fill_null(False).to_numpy(zero_copy_only=False))
    return _replaced(texts, rest, list(map(label_text, texts.take(pyarrow.array(rest)).to_pylist())))


def _texts_of_doubles(values: FloatArray, kind: str) -> Any:
    """Return the labels of doubles that are not NaN, as a pyarrow array of the given kind of string."""
    import pyarrow
    import pyarrow.compute as pc

    def written(first: int) -> Any:
        some = values[first : first + _PIECE]
        texts = pyarrow.array(some).cast(kind)
        rest = np.flatnonzero(~pc.match_substring_regex(texts, f"^{_DECIMAL}$").to_numpy(zero_copy_only=False))
        return _replaced(texts, rest, [label_text(repr(x)) for x in some[rest].tolist()])

    pieces = each(written, range(0, len(values), _PIECE), cells=len(values))
    return pyarrow.concat_arrays(pieces) if pieces else pyarrow.array([], kind)


def _replaced(texts: Any, at: IntArray, others: list[str]) -> Any:
    import pyarrow
    import pyarrow.compute as pc

    if not others:
        return texts
    mask = np.zeros(len(texts), dtype=bool)
    mask[at] = True
    return pc.replace_with_mask(texts, pyarrow.array(mask), pyarrow.array(others, texts.type))


def _order(texts: Any) -> IntArray:
    """Return the order of distinct texts by their bytes; the argument is a pyarrow.LargeStringArray without nulls.

    They are sorted by their first eight bytes as one number, which takes a quarter of the time; ties by all bytes.
    """
    import pyarrow
    import pyarrow.compute as pc

    _, offsets, content = texts.buffers()
    if len(texts) < _SMALL or content is None:
        found: IntArray = pc.array_sort_indices(texts).to_numpy().astype(np.int64)
        return found
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    starts, sizes = ends[:-1] - ends[0], np.diff(ends)
    # a number is read where a text begins, so eight bytes after the last are needed; bytes beyond the text are set to 0
    data = np.append(np.frombuffer(content, np.uint8)[ends[0] : ends[-1]], np.zeros(8, dtype=np.uint8))
    windows = np.ndarray(len(data) - 7, dtype=">u8", buffer=data, strides=(1,))
    first = windows[starts].astype(np.uint64)
    beyond = 8 * (8 - np.minimum(sizes, 8)).astype(np.uint64)
    first = np.where(sizes == 0, np.uint64(0), (first >> (beyond & np.uint64(63))) << (beyond & np.uint64(63)))
    order = np.argsort(first)
    first = first[order]
    alike = np.zeros(len(first) + 1, dtype=bool)
    alike[1:-1] = first[1:] == first[:-1]
    tied = np.flatnonzero(alike[1:] | alike[:-1])
    if len(tied):
        some = order[tied]
        order[tied] = some[pc.array_sort_indices(texts.take(pyarrow.array(some))).to_numpy()]
    return order


class LabelCounts:
    """Labels and how many rows have each; doubles become text only after counting, each of them once."""

    def __init__(self) -> None:
        self._texts: list[Any] = []
        self._rows: list[IntArray] = []
        self._doubles = _Doubles()
        self._pending, self._known = 0, 0

    def add(self, told: Told) -> None:
        """Count the rows of the texts that are not missing."""
        rows = told.weights[:-1]
        present = (rows > 0) & ~told.missing[:-1]
        if not np.any(present & ~told.plain):  # a plain number is fully described by its value
            self._doubles.add(told.values[present], None if told.each else rows[present])
            return
        import pyarrow
        import pyarrow.compute as pc

        texts = label_texts(told)
        some = pc.and_(texts.is_valid(), pyarrow.array(rows > 0))
        texts = texts.filter(some)
        # joined, they may exceed 2 GB
        self._add(texts.cast("large_string"), rows[some.to_numpy(zero_copy_only=False)])

    def sorted(self) -> tuple[Any, IntArray]:
        """Return the distinct labels in order of their code points, a pyarrow.LargeStringArray, and their rows."""
        import pyarrow

        values, rows = self._doubles.counts()
        texts = _texts_of_doubles(values, "large_string")
        if self._texts:
            self._add(texts, rows)
            self._doubles = _Doubles()
            self._join()
            (texts,), (rows,) = self._texts, self._rows
        order = _order(texts)
        return texts.take(pyarrow.array(order)), rows[order]

    def found(self) -> dict[str, int]:
        """Return the labels and their rows."""
        texts, rows = self.sorted()
        return dict(zip(texts.to_pylist(), rows.tolist(), strict=True))

    def clear(self) -> None:
        """Forget all labels."""
        self.__init__()  # type: ignore[misc]

    def _add(self, texts: Any, rows: IntArray) -> None:
        self._texts.append(texts)
        self._rows.append(rows)
        self._pending += len(texts)
        if self._pending > max(_FEW, self._known):
            self._join()

    def _join(self) -> None:
        """Merge the parts so that each label occurs once."""
        import pyarrow

        if self._pending or len(self._texts) > 1:
            coded = pyarrow.concat_arrays(self._texts).dictionary_encode()
            rows = np.zeros(len(coded.dictionary), dtype=np.int64)
            np.add.at(rows, coded.indices.to_numpy(), np.concatenate(self._rows))
            self._texts, self._rows = [coded.dictionary], [rows]
        self._pending, self._known = 0, sum(map(len, self._texts))


class _Doubles:
    """Distinct doubles and how many rows have each: different doubles are different labels."""

    def __init__(self) -> None:
        self._values: list[FloatArray] = []
        self._rows: list[IntArray] = []
        self._single: list[FloatArray] = []
        self._pending, self._known = 0, 0

    def add(self, values: FloatArray, rows: IntArray | None) -> None:
        """Count finite values, each with its number of rows; None: one row each."""
        if rows is None:
            self._single.append(values)
        else:
            self._values.append(values)
            self._rows.append(rows)
        self._pending += len(values)
        if self._pending > max(_FEW, self._known):
            self.counts()

    def counts(self) -> tuple[FloatArray, IntArray]:
        """Return the distinct values in ascending order, and their rows."""
        if self._single:
            values, rows = np.unique(np.concatenate(self._single), return_counts=True)
            self._values.append(values)
            self._rows.append(rows)
            self._single = []
        if not self._values:
            return np.empty(0), np.empty(0, dtype=np.int64)
        values, rows = np.concatenate(self._values), np.concatenate(self._rows)
        if len(self._values) > 1 or self._pending:
            values = values + 0.0  # turns -0.0 into 0.0
            order = np.argsort(values, kind="stable")  # fast on runs that are in order already
            values = values[order]
            first = np.flatnonzero(values[1:] != values[:-1]) + 1
            first = np.insert(first, 0, 0)[: len(values)]
            values, rows = values[first], np.add.reduceat(rows[order], first)
            self._values, self._rows = [values], [rows]
        self._pending, self._known = 0, len(values)
        return values, rows
