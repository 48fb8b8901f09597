"""The formats of files: what each is called and how it is recognised.

A format is an entry in :data:`FORMATS` and an opener of the same name in :mod:`privol.readers.open`. Nothing but the
standard library is imported here: the command line reads the names when it starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["FORMATS", "PACKED", "Format", "by_look", "by_name", "by_start", "reads_as", "tokens"]


@dataclass(frozen=True)
class Format:
    """A format of files.

    Attributes
    ----------
    name : str
        As ``format=`` states it.
    title : str
        The name used in prose.
    look : str
        What completes "it looks like" in a message.
    suffixes : tuple of str
        Suffixes of file names, in lower case.
    starts : tuple of bytes
        The first bytes; none for text.
    columns : bool
        Whether it has named columns, which a schema can describe; otherwise it holds rows of numbers.
    own_target : bool
        Whether each row brings its own target, so that ``target=`` has no meaning.
    options : tuple of str
        Arguments of :func:`privol.open_stream` that mean something for this format alone.
    """

    name: str
    title: str
    look: str
    suffixes: tuple[str, ...]
    starts: tuple[bytes, ...] = ()
    columns: bool = False
    own_target: bool = False
    options: tuple[str, ...] = ()


_CSV = ("header", "sep", "encoding")
_LIBSVM = (".svm", ".libsvm", ".svmlight", ".binary")
_ARROW = (b"ARROW1", b"\xff\xff\xff\xff")  # a file, a stream
_FORMATS = (
    Format("csv", "CSV", "text, perhaps CSV", (".csv", ".tsv"), columns=True, options=_CSV),
    Format("jsonl", "JSON lines", "JSON lines", (".jsonl", ".ndjson", ".json"), columns=True),
    Format("libsvm", "libsvm", "libsvm text", _LIBSVM, own_target=True, options=("zero_based",)),
    Format("npy", ".npy", "an array", (".npy",), (b"\x93NUMPY",)),
    Format("npz", ".npz", "a zip archive or .npz", (".npz",), (b"PK\x03\x04",), own_target=True),
    Format("parquet", "Parquet", "a Parquet file", (".parquet", ".pq"), (b"PAR1",), columns=True),
    Format("arrow", "Arrow", "an Arrow file", (".arrow", ".feather", ".ipc"), _ARROW, columns=True),
)

#: All formats, by name.
FORMATS = {format.name: format for format in _FORMATS}

#: The compression of a file, by the suffix of its name.
PACKED = {".gz": "gz", ".bz2": "bz2", ".xz": "xz", ".zst": "zst", ".zstd": "zst"}


def by_start(start: bytes) -> Format | None:
    """Return the format that begins with these bytes, if there is one."""
    return next((format for format in FORMATS.values() if start.startswith(format.starts)), None)


def by_name(file: str) -> Format | None:
    """Return the format that a file's name tells, if any."""
    suffixes = [suffix.lower() for suffix in Path(file).suffixes]
    last = next((suffix for suffix in reversed(suffixes) if suffix not in PACKED), None)
    return next((format for format in FORMATS.values() if last in format.suffixes), None)


def by_look(text: bytes) -> Format:
    """Return the format of a text, told by its first line that is not blank."""
    if text.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return FORMATS["jsonl"]
    return FORMATS["libsvm" if _looks_like_libsvm(text) else "csv"]


def tokens(line: bytes) -> list[bytes]:
    """Return the blank-separated words of a line, without its comment."""
    return line.split(b"#", 1)[0].split()


def _looks_like_libsvm(text: bytes) -> bool:
    """Whether the first line that is not blank is a label followed by index:value pairs."""
    words: list[bytes] = next(filter(None, map(tokens, text.split(b"\n"))), [])
    pairs = [word.partition(b":") for word in words[1:]]
    indices = all(reads_as(int, index) or index == b"qid" for index, _, _ in pairs)
    return bool(pairs) and indices and all(reads_as(float, word) for word in (words[0], *(v for _, _, v in pairs)))


def reads_as(kind: type[int] | type[float], text: bytes) -> bool:
    """Whether a word reads as a number of the given kind."""
    try:
        kind(text)
    except ValueError:
        return False
    return True
