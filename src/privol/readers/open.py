"""Finds the reader of an input: files by their format, objects by their kind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, cast

import numpy as np
import scipy.sparse as sp

from ..errors import InvalidParameter, StreamError
from .arrays import ArraySource, BlocksSource, TableSource, load_npz, map_npy
from .base import Reader, Source, Targets
from .columns import Columns
from .csv import CsvColumns, CsvOptions
from .files import LineFile
from .formats import FORMATS, Format, by_look, by_name, by_start, tokens
from .frames import DictColumns, FrameColumns, FramePair, HashedSource, is_frame
from .json import JsonColumns
from .libsvm import LibsvmSource, of_one_width
from .parquet import ParquetColumns, arrow_columns
from .parts import PartsColumns, PartsSource
from .pipe import is_file_object
from .places import Folder, place_of
from .queues import QueueRows, is_queue
from .source_urls import is_live, is_source
from .sources import open_live
from .sql import open_sql

__all__ = ["OPENERS", "Options", "format_of", "is_file", "open_reader"]

_HASH_FEATURES = 1 << 18
_STDIN = "-"


@dataclass(frozen=True, kw_only=True)
class Options:
    """The arguments of a reader about its input, checked as far as possible without the data.

    Attributes
    ----------
    labels : Targets
        What turns the targets of rows into numbers.
    target, header, sep, encoding, format, n_features, zero_based, hash_features
        As for :func:`privol.open_stream`.
    csv : CsvOptions
        By default what ``header``, ``sep`` and ``encoding`` say; a schema says more.
    goal : (target, labels)
        The target column and its labels, which help to tell a header from a first row.
    optional : tuple of str
        Which of ``csv.names`` a file may lack.
    schema : bool
        Whether there is a schema, so that the input must have columns.
    columns : bool
        Whether columns are asked for, for a schema or for themselves.
    named_target : bool
        Whether what is declared of the columns names the target.
    """

    labels: Targets
    target: Any = None
    header: bool | None = None
    sep: str | None = None
    encoding: str | None = None
    format: str | None = None
    n_features: int | None = None
    zero_based: bool | None = None
    hash_features: int | None = None
    csv: CsvOptions = None  # type: ignore[assignment]
    goal: tuple[Any, Targets] = None  # type: ignore[assignment]
    optional: tuple[str, ...] = ()
    schema: bool = False
    columns: bool = False
    named_target: bool = False

    def __post_init__(self) -> None:
        if self.csv is None:
            encoding = "utf-8" if self.encoding is None else self.encoding
            object.__setattr__(self, "csv", CsvOptions(header=self.header, sep=self.sep, encoding=encoding))
        if self.goal is None:
            object.__setattr__(self, "goal", (self.target, self.labels))

    def only_for(self, found: str, name: str) -> None:
        """Raise InvalidParameter if an option was given that has no meaning for the format that was found."""
        for format in FORMATS.values():
            for option in format.options:
                if getattr(self, option) is not None and found != format.name:
                    raise InvalidParameter(f"{option} is for {format.title} files, {name} is read as {found}")
        if self.target is not None and found in FORMATS and FORMATS[found].own_target:
            _no_target(self.target, name)

    def needs_columns(self, name: str) -> None:
        """Raise InvalidParameter if a schema is given for an input without columns."""
        if self.schema:
            raise InvalidParameter(f"schema is for inputs with columns (CSV, Parquet, frames, ...), found {name}")


def is_file(data: Any) -> bool:
    """Whether data are a path, a pattern, standard input or an open file."""
    return isinstance(data, (str, os.PathLike)) or is_file_object(data)


def open_reader(data: Any, options: Options) -> Reader:
    """Return the reader of an input: its columns or its rows."""
    return _open_files(data, options) if is_file(data) else _open_object(data, options)


# ---- files --------------------------------------------------------------------------------------


def _open_csv(file: LineFile, options: Options) -> Columns:
    target, labels = options.goal
    return CsvColumns(file, options.csv, target=target, labels=labels, optional=options.optional)


def _open_npy(file: LineFile, options: Options) -> Source:
    path = file.seekable("npy", ".npy file").path("an array")
    return TableSource(lambda: map_npy(path), options.labels, options.target, file.name)


def _open_npz(file: LineFile, options: Options) -> Source:
    path = file.seekable("npz", ".npz file").path("an .npz file")
    return ArraySource(*load_npz(path), options.labels, file.name)


#: The opener of each of :data:`~privol.readers.formats.FORMATS`.
OPENERS: dict[str, Callable[[LineFile, Options], Source | Columns]] = {
    "csv": _open_csv,
    "jsonl": lambda file, options: JsonColumns(file),
    "libsvm": lambda file, options: LibsvmSource(file, options.labels, options.n_features, options.zero_based),
    "npy": _open_npy,
    "npz": _open_npz,
    "parquet": lambda file, options: ParquetColumns(file.seekable("parquet", ".parquet file")),
    "arrow": lambda file, options: arrow_columns(file),
}


def _open_files(data: str | os.PathLike[str] | BinaryIO, options: Options) -> Source | Columns:
    if is_source(data):
        return _open_source(str(data), options)
    given = data if not isinstance(data, (str, os.PathLike)) or data == _STDIN else place_of(data)
    if not isinstance(given, Folder):
        file = LineFile(given)
        format, told = _format(file, options)
        return _noted(_opened(file, format, options), told)
    name, files = given.name, [LineFile(place) for place in given.places]
    recognised = [_format(file, options) for file in files]
    first = recognised[0][0]
    for file, (format, _) in zip(files, recognised, strict=True):
        if format != first:
            raise StreamError(
                f"{name}: {files[0].name} is read as {first.name} and {file.name} as {format.name}, "
                "allowed are parts of one format"
            )
    parts = [_opened(file, first, options) for file in files]
    sizes = [file.size for file in files]
    whole: Source | Columns
    if first.columns:
        whole = PartsColumns(name, cast(list[Columns], parts), sizes)
    else:
        rows = cast(list[Source], parts)
        if isinstance(rows[0], LibsvmSource):
            rows = [*of_one_width(cast(list[LibsvmSource], rows), options.n_features)]
        whole = PartsSource(name, rows, sizes)
    return _noted(whole, any(told for _, told in recognised))


def _open_source(url: str, options: Options) -> Columns:
    if is_live(url):
        named = options.named_target or options.schema or options.target is not None
        live = open_live(url, options.csv, options.format, named_target=named)
        options.only_for(live.written_as, live.name)
        return live
    found = open_sql(url)
    options.only_for("a database", found.name)
    if options.format is not None:
        raise InvalidParameter(f"format is for files, found format={options.format!r} with {found.name}")
    return found


def format_of(data: str | os.PathLike[str]) -> Format:
    """Return the format of a file, or of the first file of a folder, recognised by first bytes, name or first lines."""
    given = place_of(data)
    place = given.places[0] if isinstance(given, Folder) else given
    return _sniffed(LineFile(place))[0]


def _noted(found: Source | Columns, told: bool) -> Source | Columns:
    """Note that the format was inferred from the look of the first line, if it was."""
    if told:
        found.facts = replace(found.facts, inferred=("format", *found.facts.inferred))
    return found


def _opened(file: LineFile, format: Format, options: Options) -> Source | Columns:
    if not format.columns:
        options.needs_columns(file.name)
    return OPENERS[format.name](file, options)


def _format(file: LineFile, options: Options) -> tuple[Format, bool]:
    """Return the format, and whether it was inferred from the look.

    The format is the one that was stated, or else that of the first bytes, the name or the look, in this order.
    """
    format, told = (FORMATS[options.format], False) if options.format else _sniffed(file)
    options.only_for(format.name, file.name)
    return format, told


def _sniffed(file: LineFile) -> tuple[Format, bool]:
    """Return the format of a file, and whether it was inferred from the look of the first line."""
    # A few bytes first: a binary file has no lines to wait for.
    start, _ = file.head(lambda text: len(text) >= 8 or b"\n" in text)
    if start.startswith(b"FEA1"):
        raise StreamError(f"{file.name}: is feather version 1, allowed is version 2 (write it anew)")
    told = by_start(start) or by_name(file.stem)
    if told is not None:
        return told, False
    text, _ = file.head(lambda text: any(map(tokens, _whole_lines(text))))
    return by_look(text), True


def _whole_lines(text: bytes) -> list[bytes]:
    return [line for line in text.splitlines(keepends=True) if line.endswith((b"\n", b"\r"))]


# ---- objects ------------------------------------------------------------------------------------


def _no_target(target: Any, name: str) -> None:
    if target is not None:
        raise InvalidParameter(
            f"target is for columns, and {name} has its own y, found target={target!r}; leave target out"
        )


def _open_object(data: Any, options: Options) -> Reader:
    options.only_for("object", f"data of type {type(data).__name__}")
    if is_frame(data):
        _no_hash(options, "a frame")
        return FrameColumns(data)
    pair = isinstance(data, tuple) and len(data) == 2
    if pair and not isinstance(data[0], (tuple, Mapping)):
        _no_target(options.target, "(X, y)")
        _no_hash(options, "(X, y)")
        options.needs_columns("(X, y)")
        if is_frame(data[0]):
            return FramePair(data[0], data[1])
        return ArraySource(data[0], data[1], options.labels, "arrays")
    if sp.issparse(data) or isinstance(data, np.ndarray):
        _no_hash(options, "an array")
        options.needs_columns("an array")
    if sp.issparse(data):
        if options.target is not False:
            raise StreamError("arrays: a sparse matrix alone has no target, give (X, y) or target=False")
        return ArraySource(data, None, options.labels, "arrays")
    if isinstance(data, np.ndarray):
        return TableSource(lambda: data, options.labels, options.target, "arrays", ahead=False)
    if is_queue(data):
        data = QueueRows(data)
    if isinstance(data, QueueRows) and data.names is not None:
        return DictColumns(None, data, data, data.names)
    if isinstance(data, (bytes, Mapping)) or not isinstance(data, Iterable):
        raise InvalidParameter(
            "data must be a path, a file object, a frame, (X, y), a 2-d array or an iterable or a queue of (X, y), of "
            f"(dict, y) or (with schema) of dicts, found {type(data).__name__}"
        )
    rest = iter(data)
    return _open_rows(next(rest, None), rest, data, options)


def _open_rows(first: Any, rest: Any, data: Iterable[Any], options: Options) -> Reader:
    """Open an iterable, whose first element tells what it contains."""
    if first is None and (options.columns or options.target not in (None, False)):
        raise StreamError("dict rows: no rows, at least one is needed")
    if isinstance(first, Mapping):
        _no_hash(options, "dicts with a schema")
        if not options.columns and options.target in (None, False):
            raise InvalidParameter(
                "an iterable of dicts needs a schema, or target= which says which key is the target; otherwise give "
                "(dict, y) pairs"
            )
        return DictColumns(first, rest, data)
    _no_target(options.target, "an iterable of pairs")
    if isinstance(first, tuple) and len(first) == 2 and isinstance(first[0], Mapping):
        options.needs_columns("(dict, y) pairs: give dicts, the target one of the keys")
        return HashedSource(first, rest, data, options.labels, options.hash_features or _HASH_FEATURES)
    _no_hash(options, "blocks")
    options.needs_columns("blocks")
    return BlocksSource(first, rest, data, options.labels)


def _no_hash(options: Options, what: str) -> None:
    if options.hash_features is not None:
        raise InvalidParameter(f"hash_features is for (dict, y) pairs, found {what}")
