"""Numbers that are written as text, in files of text and in columns of text of any other input."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from .files import shown

__all__ = ["Written", "is_number"]

_NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)", re.IGNORECASE | re.ASCII)


def is_number(cell: str, decimal: str = ".") -> bool:
    """Whether a cell without blanks around it reads as a number."""
    if decimal != ".":
        if "." in cell:
            return False
        cell = cell.replace(decimal, ".")
    return _NUMBER.fullmatch(cell) is not None


class Written:
    """How numbers are written where cells are text; blanks around a cell do not matter.

    Parameters
    ----------
    missing : collection of str
        Cells, besides empty ones, that count as missing.
    decimal : str
        "." or ",".

    Attributes
    ----------
    missing : frozenset of str
        With the empty text.
    missing_numbers : tuple of float
        What of it is a number: cells that are numbers themselves are compared with these by value.
    """

    def __init__(self, missing: Collection[str] = (), decimal: str = ".") -> None:
        self.decimal = decimal
        self.missing = frozenset({"", *(text.strip() for text in missing)})
        values = {self._read(text) for text in self.missing}
        self.missing_numbers = tuple(sorted(x for x in values if x is not None and x == x))

    def _read(self, text: str) -> float | None:
        return float(text.replace(self.decimal, ".")) if is_number(text, self.decimal) else None

    def number(self, text: str) -> float | None:
        """Return what a cell holds, None if it counts as missing; ValueError if it is no number."""
        text = text.strip()
        if text in self.missing:
            return None
        found = self._read(text)
        if found is None:
            raise ValueError("not a number")
        return found

    def pointed(self, text: str) -> str | None:
        """Return a text without blanks around it, a number with a decimal point; None if it counts as missing."""
        text = text.strip()
        if text in self.missing:
            return None
        return text.replace(self.decimal, ".") if is_number(text, self.decimal) else text

    def refusal(self, text: str) -> str:
        """Say what a cell that is no number holds, and what is allowed."""
        what = f"found {shown(text)}, allowed is a number"
        if self.decimal == "." and is_number(text.strip(), ","):
            what += '; if its comma is a decimal one: decimal = "," under [file] of a schema'
        elif self.decimal != "." and is_number(text.strip()):
            what += f'; the schema declares decimal = "{self.decimal}" under [file], its numbers have no point'
        return what

    def present(self, texts: Any) -> Any:
        """Return an array of strings without the blanks around them, null where they count as missing."""
        import pyarrow
        import pyarrow.compute as pc

        trimmed = pc.utf8_trim_whitespace(texts)
        missing = pc.is_in(trimmed, value_set=pyarrow.array(sorted(self.missing), trimmed.type))
        return pc.if_else(missing, None, trimmed)

    def numbers(self, texts: Any) -> Any:
        """Return an array of strings as float64, null where they count as missing; ArrowInvalid if one is no number."""
        import pyarrow
        import pyarrow.compute as pc

        trimmed = self.present(texts)
        if self.decimal != ".":
            if pc.any(pc.match_substring(trimmed, ".")).as_py():
                raise pyarrow.ArrowInvalid("a point in a number")
            trimmed = pc.replace_substring(trimmed, self.decimal, ".")
        return trimmed.cast(pyarrow.float64())
