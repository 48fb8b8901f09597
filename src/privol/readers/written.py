"""Numbers written as text, in text files and in text columns of any other input."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from .files import shown

__all__ = ["Written", "is_number"]

_NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)", re.IGNORECASE | re.ASCII)
_FIRST = 256
# The same for RE2, where "$" matches only at the end of the text, with the characters that may be the decimal mark.
_GRAMMAR = (
    "^[+-]?(?:(?:[0-9]+[%s]?[0-9]*|[%s][0-9]+)(?:[eE][+-]?[0-9]+)?|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?|[nN][aA][nN])$"
)


def is_number(cell: str, decimal: str = ".") -> bool:
    """Whether a cell without blanks around it reads as a number."""
    if decimal != ".":
        if "." in cell:
            return False
        cell = cell.replace(decimal, ".")
    return _NUMBER.fullmatch(cell) is not None


class Written:
    """How numbers are written in cells of text; blanks around a cell do not matter.

    Parameters
    ----------
    missing : collection of str
        Cells, besides empty ones, that count as missing.
    decimal : str
        "." or ",".

    Attributes
    ----------
    missing : frozenset of str
        With the empty text added.
    missing_numbers : tuple of float
        Those of the markers that are numbers: cells that are themselves numbers are compared with these by value.
    """

    def __init__(self, missing: Collection[str] = (), decimal: str = ".") -> None:
        self.decimal = decimal
        self.missing = frozenset({"", *(text.strip() for text in missing)})
        values = {self._read(text) for text in self.missing}
        self.missing_numbers = tuple(sorted(x for x in values if x is not None and x == x))

    def _read(self, text: str) -> float | None:
        return float(text.replace(self.decimal, ".")) if is_number(text, self.decimal) else None

    def number(self, text: str) -> float | None:
        """Return what a cell holds, None if it counts as missing; raise ValueError if it is not a number."""
        text = text.strip()
        if text in self.missing:
            return None
        found = self._read(text)
        if found is None:
            raise ValueError("not a number")
        return found

    def pointed(self, text: str) -> str | None:
        """Return a text without surrounding blanks, a number with a decimal point; None if it counts as missing."""
        text = text.strip()
        if text in self.missing:
            return None
        return text.replace(self.decimal, ".") if is_number(text, self.decimal) else text

    def refusal(self, text: str) -> str:
        """Return the message for a cell that is not a number: what it holds and what is allowed."""
        what = f"found {shown(text)}, allowed is a number"
        if self.decimal == "." and is_number(text.strip(), ","):
            what += '; if its comma is a decimal one: decimal = "," under [file] of a schema'
        elif self.decimal != "." and is_number(text.strip()):
            what += f'; the schema declares decimal = "{self.decimal}" under [file], its numbers have no point'
        return what

    def present(self, texts: Any) -> Any:
        """Return an array of strings without surrounding blanks, null where they count as missing."""
        import pyarrow
        import pyarrow.compute as pc

        trimmed = pc.utf8_trim_whitespace(texts)
        missing = pc.is_in(trimmed, value_set=pyarrow.array(sorted(self.missing), trimmed.type))
        return pc.if_else(missing, None, trimmed)

    def numbers(self, texts: Any) -> Any:
        """Return an array of strings as float64, null where they count as missing; raise ArrowInvalid for others."""
        import pyarrow
        import pyarrow.compute as pc

        trimmed = self.present(texts)
        if self.decimal != ".":
            if pc.any(pc.match_substring(trimmed, ".")).as_py():
                raise pyarrow.ArrowInvalid("a point in a number")
            trimmed = pc.replace_substring(trimmed, self.decimal, ".")
        return trimmed.cast(pyarrow.float64())

    def values(self, texts: Any, *, pointed: bool = False) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """Return the value of each string of an array, and which strings are neither missing nor a number.

        Nothing is refused, and the value of a text does not depend on the other texts of the array.

        Parameters
        ----------
        texts : pyarrow.StringArray, length n
        pointed : bool
            Whether some texts may come from cells that are numbers themselves, which have a decimal point whatever the
            decimal mark is.

        Returns
        -------
        values : ndarray of float64, shape (n,)
            NaN where a text is missing or no number.
        strange : ndarray of bool, shape (n,)
        """
        import pyarrow
        import pyarrow.compute as pc

        # Markers are found by value here, which is equivalent: where the decimal mark is a point, numbers have no
        # other.
        present, values = texts, _read(texts) if self.decimal == "." else None
        strange = np.zeros(len(texts), dtype=bool)
        if values is None:
            present = self.present(texts)
            values = _read(present) if self.decimal == "." else None
        if values is None:
            marks = "." + self.decimal if pointed else self.decimal
            never, doubtful = _odd(present, marks)
            taken = ~(never | doubtful)
            if taken.any():
                values = _read(self._with_points(pc.if_else(pyarrow.array(taken), present, None)))
            if values is None:  # dates, for example: their characters may occur in numbers
                doubtful, values = ~never, np.full(len(texts), np.nan)
            strange = never & present.is_valid().to_numpy(zero_copy_only=False)
            odd = np.flatnonzero(doubtful)
            if len(odd):
                values[odd], strange[odd] = self._by_grammar(present.take(pyarrow.array(odd)), marks)
        for marker in self.missing_numbers:
            values[values == marker] = np.nan
        return values, strange

    def _with_points(self, texts: Any) -> Any:
        import pyarrow.compute as pc

        return texts if self.decimal == "." else pc.replace_substring(texts, self.decimal, ".")

    def _by_grammar(self, present: Any, marks: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """Return the values of texts (NaN for null), and which texts are not numbers with one of the decimal marks."""
        import pyarrow.compute as pc

        known = pc.fill_null(pc.match_substring_regex(present, _GRAMMAR % (marks, marks)), False)
        plain = self._with_points(pc.if_else(known, present, None))
        values = _read(plain, grammar=True)
        if values is None:  # some versions of Arrow accept no leading sign, or no number as large
            values = np.array([np.nan if text is None else float(text) for text in plain.to_pylist()], np.float64)
        return values, pc.invert(pc.or_(known, present.is_null())).to_numpy(zero_copy_only=False)


def _odd(texts: Any, marks: str) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which texts hold a character that no number has, and which others hold one that plain numbers lack."""
    _, offsets, content = texts.buffers()
    if content is None or not len(texts):
        return np.zeros(len(texts), dtype=bool), np.zeros(len(texts), dtype=bool)
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    held = np.frombuffer(content, np.uint8)[ends[0] : ends[-1]]
    plain = f"0123456789+-eE{marks}"

    def beyond(allowed: str) -> npt.NDArray[np.bool_]:
        other = np.ones(256, dtype=np.uint8)
        other[list(allowed.encode())] = 0
        before = np.concatenate([np.zeros(1, np.int32), np.cumsum(other[held], dtype=np.int32)])[ends - ends[0]]
        found: npt.NDArray[np.bool_] = before[1:] > before[:-1]
        return found

    never = beyond(f"{plain}infatyINFATY")
    return never, beyond(plain) & ~never


def _read(texts: Any, *, grammar: bool = False) -> npt.NDArray[np.float64] | None:
    """Return an array of strings as doubles, NaN for null; None if one of them may not be a number.

    Every text that Arrow reads is a number, except nan(...): NaN is doubtful unless the texts follow the grammar.
    """
    import pyarrow

    # Arrow writes a message for each text that it cannot read; for a column of names, trying the first ones is enough.
    if len(texts) > 2 * _FIRST and _read(texts.slice(0, _FIRST), grammar=grammar) is None:
        return None
    try:
        values = np.array(texts.cast(pyarrow.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    except pyarrow.ArrowInvalid:
        return None
    return values if grammar or np.count_nonzero(np.isnan(values)) == texts.null_count else None
