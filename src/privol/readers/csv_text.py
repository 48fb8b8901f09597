"""The text of CSV: where its records and cells end, what separates them, and whether the first line is a header."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from .._core._plain import filled_lines
from ..errors import InvalidParameter
from .base import Targets
from .files import line_end
from .written import is_number

__all__ = [
    "SEPARATORS",
    "CsvOptions",
    "Dialect",
    "default_separator",
    "looks_like_header",
    "present",
    "separator_is_settled",
    "told_separator",
]

SEPARATORS = ("\t", ";", "|", ",")
# How many lines the separator is inferred from.
TOLD_FROM = 20
_UTF8 = ("utf-8", "utf-8-sig", "ascii")


@dataclass(frozen=True)
class CsvOptions:
    """How to read the text of a CSV file.

    Attributes
    ----------
    header : bool or None
        Whether the first line names the columns; None: inferred from the first two lines.
    names : tuple of str or None
        Names of the columns, for a file without a header.
    sep : str or None
        The ASCII character between cells; None: inferred from the name (``.tsv``) or the first lines, among comma,
        semicolon, tab and ``|``.
    comment : str or None
        Lines that start with this are not data.
    missing : tuple of str
        Cells, besides empty ones, that count as missing; blanks around them do not matter.
    encoding : str
        UTF-8 or a one-byte encoding that contains ASCII, such as latin-1 or cp1252.
    decimal : str
        "." or ",".
    newlines_in_values : bool
        Whether a quoted cell may hold line breaks. This makes reading slower.
    """

    header: bool | None = None
    names: tuple[str, ...] | None = None
    sep: str | None = None
    comment: str | None = None
    missing: tuple[str, ...] = ()
    encoding: str = "utf-8"
    decimal: str = "."
    newlines_in_values: bool = False

    def __post_init__(self) -> None:
        for name in ("header", "newlines_in_values"):
            flag = getattr(self, name)
            if not (isinstance(flag, bool) or (flag is None and name == "header")):
                raise InvalidParameter(f"{name} must be True or False, found {flag!r}")
        sep = self.sep
        if sep is not None and not (isinstance(sep, str) and len(sep) == 1 and sep.isascii() and sep not in '"\r\n\0'):
            raise InvalidParameter(f"sep must be one ASCII character, no quote and no line end, found {sep!r}")
        if self.decimal not in (".", ","):
            raise InvalidParameter(f"decimal must be '.' or ',', found {self.decimal!r}")
        if sep == self.decimal:
            raise InvalidParameter(f"sep and decimal must differ, found {sep!r} for both")
        comment = self.comment
        if comment is not None and not (
            isinstance(comment, str) and comment and comment.isascii() and not set(comment) & set('"\r\n')
        ):
            raise InvalidParameter(f"comment must be ASCII text, no quote and no line end, found {comment!r}")
        object.__setattr__(self, "missing", _texts("missing", self.missing))
        object.__setattr__(self, "encoding", _encoding(self.encoding))
        if self.names is not None:
            names = _texts("names", self.names)
            if self.header:
                raise InvalidParameter("names are for a file without a header, found header=True")
            if "" in names or len(set(names)) != len(names) or not names:
                raise InvalidParameter(f"names must be different and not empty, found {names!r}")
            object.__setattr__(self, "names", names)


def _texts(name: str, given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str) or not all(isinstance(text, str) for text in given):
        raise InvalidParameter(f"{name} must be a list of strings, found {given!r}")
    return tuple(text.strip() for text in given)


def _encoding(name: str) -> str:
    """Return the codec's own name, or refuse one in which separators or line ends may be parts of other characters."""
    try:
        found = codecs.lookup(name).name
        if found in _UTF8:
            return "utf-8"
        if bytes(range(128)).decode(found) == "".join(map(chr, range(128))):
            each = bytes(range(128, 256)).decode(found, "replace")
            if len(each) == 128:
                return found
    except (LookupError, TypeError, ValueError):
        pass
    raise InvalidParameter(
        f"encoding must be utf-8 or a one-byte encoding that contains ASCII (latin-1, cp1252, ...), found {name!r}; "
        "convert the file to UTF-8 first"
    )


class Dialect:
    """Where the records and cells of a CSV text end, as pyarrow's parser sees it.

    A cell is quoted if its first character is a quote; elsewhere a quote is an ordinary character. What follows the
    closing quote belongs to the cell. Empty lines are not records.

    Parameters
    ----------
    seps : str
        What separates cells. There may be several where only records are asked for.
    comment : str or None
    newlines : bool
        Whether a quoted cell may hold line breaks.
    """

    def __init__(self, seps: str, comment: str | None, newlines: bool) -> None:
        self._sep = seps.encode()
        self._newlines = newlines
        self._comment = None if comment is None else comment.encode()
        # A pattern that begins with a literal is found much faster than one that begins with a look-behind.
        self._opens = rb'"(?<![^%s\r\n]")' % re.escape(self._sep)
        inside = rb'[^"]' if newlines else rb'[^"\r\n]'
        self._inside = rb'%s*(?:""%s*)*' % (inside, inside)
        self._open = re.compile(self._opens)
        # No other quote follows the closing quote: without this condition an open cell could end at the first of two
        # quotes.
        self._quoted = re.compile(self._opens + self._inside + rb'"(?!")')

    @cached_property
    def _comments(self) -> re.Pattern[bytes]:
        start = re.escape(self._comment or b"")
        line = rb"%s(?<![^\r\n]%s)[^\r\n]*(?:\r\n|[\r\n]|\Z)" % (start, start)
        # In a quoted cell a line may look like a comment without being one.
        return re.compile(line + (b"|(" + self._opens + self._inside + rb'(?:"(?!")|\Z))' if self._newlines else b""))

    @cached_property
    def _tokens(self) -> re.Pattern[bytes]:
        """Quoted cells, closed or not, comments (group 1), and line ends (group 2)."""
        comment = (
            b"|(" + re.escape(self._comment) + rb"(?<![^\r\n]%s)[^\r\n]*)" % re.escape(self._comment)
            if (self._comment)
            else b"|(?!)()"
        )
        return re.compile(self._opens + self._inside + rb'(?:"(?!")|\Z)' + comment + rb"|(\r\n|[\r\n])")

    def uncommented(self, text: bytes) -> bytes:
        """Return a text without its comment lines."""
        if self._comment is None or self._comment not in text:
            return text
        return self._comments.sub(rb"\1" if self._newlines else b"", text)

    def end(self, text: bytes) -> int:
        """Return where the last whole record of a text ends; the text begins with a record."""
        if not self._newlines or b'"' not in text:
            # Lines may end in a bare CR; a CR at the very end may be half of a CR LF.
            return line_end(text) or text.rfind(b"\r", 0, max(len(text) - 1, 0)) + 1
        found = 0
        for token in self._tokens.finditer(text):
            # a CR at the very end may be half of a CR LF
            if token.group(2) and (token.end() < len(text) or token.group(2) != b"\r"):
                found = token.end()
        return found

    def unclosed(self, text: bytes) -> bool:
        """Whether a quoted cell of a text does not end where it must."""
        return b'"' in text and self._open.search(self._quoted.sub(b"x", text)) is not None

    def count(self, text: bytes) -> int:
        """Return the number of records of a text without comments."""
        if self._newlines and b'"' in text:
            text = self._quoted.sub(b"x", text)
        if b"\r" in text and text.count(b"\r") != text.count(b"\r\n"):
            return sum(1 for line in text.splitlines() if line)
        return filled_lines(text)

    def records(self, text: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield the records of a text without comments and empty lines, each with its end (after its line end)."""
        if self._newlines:
            comment = False
            begin = 0
            for token in self._tokens.finditer(text):
                comment = comment or token.group(1) is not None
                if token.group(2) is not None:
                    if token.start() > begin and not comment:
                        yield text[begin : token.start()], token.end()
                    begin, comment = token.end(), False
            if begin < len(text) and not comment:
                yield text[begin:], len(text)
            return
        for line in re.compile(rb"([^\r\n]+)(?:\r\n|[\r\n]|\Z)").finditer(text):
            if self._comment is None or not line.group(1).startswith(self._comment):
                yield line.group(1), line.end()

    def cells(self, record: bytes) -> tuple[list[bytes], bool]:
        """Return the cells of a record without their quotes, and whether all quotes are closed."""
        if b'"' not in record:
            return record.split(self._sep), True
        cells: list[bytes] = []
        at = 0
        while True:
            begin, quoted = at, b""
            if record.startswith(b'"', at):
                match = self._quoted.match(record, at)
                if match is None:
                    return [*cells, record[at:]], False
                quoted, begin = record[at + 1 : match.end() - 1].replace(b'""', b'"'), match.end()
            stop = record.find(self._sep, begin)
            cells.append(quoted + record[begin : len(record) if stop < 0 else stop])
            if stop < 0:
                return cells, True
            at = stop + 1


def present(names: tuple[str, ...], optional: tuple[str, ...], n: int) -> tuple[str, ...]:
    """Return the names of a file of n columns, which may lack the first of the optional ones or all of them."""
    for absent in ((), optional[:1], optional):
        rest = tuple(name for name in names if name not in absent)
        if len(rest) == n:
            return rest
    return names


def told_separator(text: bytes, options: CsvOptions, name: str) -> tuple[str | None, str | None]:
    """Return the separators that the name of the file and its first whole lines tell, each None if it tells none.

    A separator cuts all of the first lines into the same number of cells, more than one. Of several such characters it
    is the one that gives the greatest share of numbers, then the one that gives most cells.
    """
    best: tuple[float, int] = (-1.0, 0)
    told = None
    for sep, rows in _even(text, options):
        decimals = {".", options.decimal} if sep == "," else {".", ","}
        cells = [cell.decode("latin-1").strip() for row in rows for cell in row]
        numbers = sum(any(is_number(cell, decimal) for decimal in decimals) for cell in cells)
        score = (numbers / len(cells), len(rows[0]))
        if score > best:
            best, told = score, sep
    return _named_separator(name), told


def _named_separator(name: str) -> str | None:
    return "\t" if name.lower().endswith((".tsv", ".tab")) else None


def default_separator(options: CsvOptions) -> str:
    """Return the separator to use where nothing tells it."""
    return "," if options.decimal != "," else ";"


def _even(text: bytes, options: CsvOptions) -> Iterator[tuple[str, list[list[bytes]]]]:
    """Yield each character that cuts all of the first lines into the same number of cells, with the cells."""
    for sep in SEPARATORS:
        if sep == options.decimal:
            continue
        dialect = Dialect(sep, options.comment, options.newlines_in_values)
        rows = [dialect.cells(record) for record, _ in islice(dialect.records(text), TOLD_FROM)]
        widths = {len(cells) for cells, _ in rows}
        if len(widths) == 1 and widths != {1} and all(closed for _, closed in rows):
            yield sep, [cells for cells, _ in rows]


def separator_is_settled(text: bytes, options: CsvOptions, name: str) -> bool:
    """Whether more lines cannot change the separator, nor whether there is one."""
    stated = options.sep or _named_separator(name)
    if stated is None and options.newlines_in_values and b'"' in text:
        return False  # where lines end depends on the separator
    if stated is not None:
        dialect = Dialect(stated, options.comment, options.newlines_in_values)
        if any(len(dialect.cells(record)[0]) > 1 for record, _ in islice(dialect.records(text), 1)):
            return True
    # A character that does not cut the first lines evenly does not cut more lines evenly.
    return {sep for sep, _ in _even(text, options)} <= {stated or default_separator(options)}


def looks_like_header(
    first: list[str], second: list[str] | None, target: object, labels: Targets | None, decimals: str
) -> bool:
    """Whether the first line names the columns.

    It does if the target is asked for by a name that stands there, if no feature cell is a number (a file of numbers
    cannot begin so), or if only the target's cell is text while the second line has a number there. Otherwise it is the
    first row. ``decimals`` are the characters that may be the decimal mark of a number.
    """

    def numeric(cell: str) -> bool:
        return any(is_number(cell, decimal) for decimal in decimals)

    cells = [cell.strip() for cell in first]
    if isinstance(target, str) and target.strip() in cells:
        return True
    at = None
    if target is None or (isinstance(target, (int, np.integer)) and not isinstance(target, bool)):
        column = -1 if target is None else int(target)
        at = column % len(cells) if -len(cells) <= column < len(cells) else None
    features = [cell for j, cell in enumerate(cells) if j != at]
    if any(features) and not any(map(numeric, features)):
        return True
    if at is None or numeric(cells[at]) or not cells[at] or (labels is not None and labels.knows(cells[at])):
        return False
    return second is not None and len(second) == len(first) and numeric(second[at].strip())
