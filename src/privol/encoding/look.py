"""The facts that the first rows show about a column, and a schema table that may fit it."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Collection
from typing import Any

import numpy as np

from ..errors import StreamError
from ..readers.written import Written, is_number
from .labels import label_key
from .schema_parts import MISSING, UNKNOWN
from .toml import toml_key, toml_list, toml_number, toml_text

__all__ = ["AMONG_NUMBERS", "Look"]

# Cells that mean "missing" in any column, and those that do in a column of numbers.
_ALWAYS = frozenset({"?"})
AMONG_NUMBERS = frozenset({"?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "-", "."})
_PERSON = re.compile(
    r"(^|[^a-z])(user|person|patient|customer|client|member|subject|account|household|device)|(^|[^a-z])u?id$|_nbr$"
)
# Digits that are a code, not a number.
_CODE = re.compile(r"[+-]?0\d")
_LARGEST = sys.float_info.max
# Above this, doubles do not hold every integer.
_EXACT = 2**53
MAX_LEVELS = 50
MAX_INTEGER_LEVELS = 12
# With fewer rows, it cannot be told whether every row of a column has its own value.
_ENOUGH = 50


class Look:
    """The facts that the first rows show about one column.

    Parameters
    ----------
    name : str
    column : pyarrow.Array
        Of integers, doubles, decimals or strings; any other type gives no feature.
    decimal : str
        The decimal mark of numbers that are written as text.
    kept : collection of str
        Texts that do not stand for a missing cell.

    Attributes
    ----------
    n, filled, distinct : int
        The number of cells, of those that are not missing, and of distinct ones among these.
    values, counts : sequence or None
        The distinct cells and how often each occurs; None if the column gives no feature.
    numbers : ndarray or None
        All cells, if they are numbers.
    markers : frozenset of str
        The texts that stand for missing cells.
    person : bool
        Whether the column may identify the user of a row.
    """

    def __init__(self, name: str, column: Any, decimal: str = ".", kept: Collection[str] = ()) -> None:
        import pyarrow as pa

        self.name = name
        self.n = len(column)
        self.markers: frozenset[str] = frozenset()
        self.values: Any = None
        self.counts: Any = None
        self.numbers: Any = None
        self._integers = False
        self._decimals = pa.types.is_decimal(column.type)
        self._always, self._among = _ALWAYS - set(kept), AMONG_NUMBERS - set(kept)
        if pa.types.is_integer(column.type) and not _are_exact(column):
            self._see_texts(column.cast(pa.string()), None)
        elif pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            self._see_numbers(column.cast(pa.float64()))
        elif self._decimals:
            self._see_numbers(column.cast(pa.string()).cast(pa.float64()))
        elif pa.types.is_string(column.type):
            self._see_texts(column, decimal)
        self._count()

    def _count(self) -> None:
        self.filled = 0 if self.values is None else int(sum(self.counts))
        self.distinct = 0 if self.values is None else len(self.values)
        # More distinct cells than a column of levels has, yet several rows for each.
        many = self.distinct > MAX_LEVELS and self.filled < self.n * 1.01
        whole = self.numbers is None or self._integers
        self._unique = self.filled >= _ENOUGH and self.distinct >= 0.98 * self.filled and whole
        kind = self.values is not None and whole
        self.person = bool(kind and many and not self._unique and _PERSON.search(self.name.lower()))

    def _see_numbers(self, column: Any) -> None:
        self.numbers = column.to_numpy(zero_copy_only=False)
        finite = self.numbers[np.isfinite(self.numbers)]
        if finite.size:
            self.values, self.counts = np.unique(finite, return_counts=True)
            self._integers = bool((finite == np.floor(finite)).all())

    def _see_texts(self, column: Any, decimal: str | None) -> None:
        """Look at cells of text; without ``decimal`` they are not numbers, whatever they look like."""
        import pyarrow.compute as pc

        found = pc.value_counts(pc.utf8_trim_whitespace(column))
        counts = dict(zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True))
        texts = {text: n for text, n in counts.items() if text}
        rest = [text for text in texts if text not in self._among]
        if decimal is not None and rest and all(_may_be_number(text, decimal) for text in rest):
            self.markers = frozenset(texts) & self._among
            self._see_numbers(Written(self.markers, decimal).numbers(column))
            return
        self.markers = frozenset(texts) & self._always
        kept = sorted(text for text in texts if text not in self._always)
        if kept:
            self.values, self.counts = kept, [texts[text] for text in kept]

    def leave_out(self, markers: Collection[str]) -> None:
        """Treat texts as missing cells that another column has shown to be missing."""
        if self.values is None or self.numbers is not None:
            return
        kept = [(text, n) for text, n in zip(self.values, self.counts, strict=True) if text not in markers]
        self.values, self.counts = map(list, zip(*kept, strict=True)) if kept else (None, None)
        self._count()

    def draft(self, keep: bool = False) -> str:
        """Return the column's table; ``keep`` drafts a feature even for what looks like a running number."""
        head = f"[columns.{toml_key(self.name)}]\n"
        shown = f"{self.distinct:,} different cells"
        if self.values is None:
            return head + "drop = true  # no cell that is a number or a text\n"
        if self.numbers is not None and np.isinf(self.numbers).any():
            return head + "drop = true  # some cells are infinite\n"
        if self.person and not keep:
            return head + f"drop = true  # {shown}; names persons?\n"
        if self._unique and not keep:
            return head + f"drop = true  # {shown} in {self.filled:,} rows: a running number or a name?\n"
        if self.numbers is not None:
            return head + self._number_draft()
        levels = [text for text in self.values if text not in (MISSING, UNKNOWN)]
        if levels and len(levels) <= MAX_LEVELS:
            return head + f"levels = {toml_list(map(toml_text, levels))}\n"
        buckets = min(max(64, 1 << math.ceil(math.log2(max(self.distinct, 2)))), 4096)
        return head + f"hash = {buckets}  # {shown}; or levels, if there is a public list of them\n"

    def _number_draft(self) -> str:
        low, high = _outwards(float(self.values[0]), float(self.values[-1]))
        bounds = f"[{toml_number(low)}, {toml_number(high)}]"
        missing = 'missing = "indicator"  # some cells are missing\n' if self.filled < self.n else ""
        if self._integers and set(self.values) <= {0.0, 1.0}:
            return f"range = [0, 1]\nonto = [0, 1]\n{missing}"
        # Decimals are read only as numbers.
        if self._integers and self.distinct <= MAX_INTEGER_LEVELS and not self._decimals:
            return f"levels = {toml_list(map(toml_number, self.values))}  # or, if more means more: range = {bounds}\n"
        middle = float(np.median(self.numbers[np.isfinite(self.numbers)]))
        log = "" if middle - low > 0.02 * (high - low) else '# scaling = "log"  # most cells are near the lower end\n'
        return f"range = {bounds}\n{log}{missing}"

    def target(self, at: int) -> str:
        """Return the table of the target, which is column ``at``."""
        head = f"[target]\ncolumn = {toml_text(self.name) if self.name.strip() else at}\n"
        if self.values is None:
            raise StreamError(f"the target {self.name!r} has no cell that is a number or a text, name another column")
        if self.filled < self.n:
            rows = self.n - self.filled
            head += f"# {rows:,} of these rows have no target: they are refused, leave them out of the data\n"
        low, high = self.values[0], self.values[-1]
        few = self.distinct <= (20 if self.numbers is None or self._integers else 2) and not self._decimals
        if self.numbers is not None and not few:
            low, high = _outwards(float(low), float(high))
            return head + f"range = [{toml_number(low)}, {toml_number(high)}]\n"
        # Texts that are one label, such as "1" and "1.0", are shown once.
        labels = list({label_key(v): v for v in reversed(self.values)}.values())[::-1]
        shown = [toml_number(v) if self.numbers is not None else toml_text(v) for v in labels]
        if len(shown) == 2:
            return head + f"negative = [{shown[0]}]\npositive = [{shown[1]}]  # is this the positive one?\n"
        listed = ", ".join(shown[:20]) + (", ..." if len(shown) > 20 else "")
        return head + f'positive = [{shown[-1]}]  # which, of {listed}?\nrest = "negative"\n'


def _are_exact(column: Any) -> bool:
    import pyarrow.compute as pc

    ends = pc.min_max(column).as_py()
    return all(end is None or abs(end) <= _EXACT for end in ends.values())


def _may_be_number(text: str, decimal: str) -> bool:
    """Whether a text is a number, not a code with a leading zero nor one of more digits than a double holds."""
    if not is_number(text, decimal) or _CODE.match(text):
        return False
    return not text.lstrip("+-").isdigit() or abs(int(text)) <= _EXACT


def _outwards(low: float, high: float) -> tuple[float, float]:
    """Return a range of round numbers that contains two numbers."""
    span = high / 2 - low / 2
    if span <= 0.0:
        span = max(abs(low), 1.0)
        low, high = max(low - span, -_LARGEST), min(high + span, _LARGEST)
    power = math.floor(math.log10(span))
    step = 10.0**power
    if step == 0.0:
        return low, high
    # Rounded again, because 6 times 0.1 is not 0.6.
    first, last = (round(math.floor(low / step) * step, -power), round(math.ceil(high / step) * step, -power))
    if low >= 0.0 and first < 0.4 * span:
        first = 0.0
    # Beyond the largest double, or empty after rounding: the range stays as it is.
    if not (math.isfinite(first) and math.isfinite(last) and first < last):
        return low, high
    return first, last
