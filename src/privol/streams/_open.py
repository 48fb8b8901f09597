"""The one door to all streams."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from .._validate import choice, integer
from ..errors import InvalidParameter, StreamError
from ._arrays import ArraySource, BlocksSource, TableSource, load_npz, map_npy
from ._base import Source, Stream
from ._columns import Columns, ColumnSource, PlainEncoder
from ._csv import CsvColumns, CsvOptions
from ._files import LineFile, file_size
from ._frames import DictColumns, FrameColumns, FrameSource, HashedSource, is_frame
from ._json import JsonColumns
from ._labels import Labels
from ._libsvm import LibsvmSource, looks_like_libsvm, tokens
from ._parquet import IPC_FILE, IPC_STREAM, PARQUET, IpcFileColumns, IpcStreamColumns, ParquetColumns
from ._parts import PartsColumns, PartsSource, find_parts, is_pattern
from ._pipe import is_file_object
from ._ranges import Ranges
from ._schema import Schema
from ._users import schema_source

__all__ = ["FORMATS", "open_stream"]

FORMATS = ("csv", "jsonl", "libsvm", "npy", "npz", "parquet", "arrow")
_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".svm": "libsvm",
    ".libsvm": "libsvm",
    ".svmlight": "libsvm",
    ".binary": "libsvm",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".npy": "npy",
    ".npz": "npz",
}
_MAGIC = {
    b"\x93NUMPY": "npy",
    b"PK\x03\x04": "npz",
    PARQUET: "parquet",
    IPC_FILE: "arrow",
    IPC_STREAM: "arrow",
    b"FEA1": "feather version 1",
}
_HASH_FEATURES = 1 << 18
_STDIN = "-"


@dataclass(frozen=True)
class _Options:
    """What open_stream was told, checked as far as it can be without the data."""

    labels: Labels
    target: Any
    header: bool | None
    format: str | None
    sep: str | None
    encoding: str | None
    n_features: int | None = None
    zero_based: bool | None = None
    schema: Schema | None = None
    hash_features: int | None = None
    count_cells: bool = False
    columns: bool = False  # columns are asked for, not yet rows

    def __post_init__(self) -> None:
        self.csv()  # raises InvalidParameter whatever the format

    def csv(self) -> CsvOptions:
        if self.schema is not None:
            known = {key: value for key, value in self.schema.file.items() if key != "format"}
            return CsvOptions(**known)
        return CsvOptions(
            header=self.header, sep=self.sep, encoding="utf-8" if self.encoding is None else self.encoding
        )

    def only_for(self, format: str, name: str) -> None:
        """Raise InvalidParameter if an option was given that means nothing for this format."""
        for option, value, wanted, title in (
            ("header", self.header, "csv", "CSV"),
            ("sep", self.sep, "csv", "CSV"),
            ("encoding", self.encoding, "csv", "CSV"),
            ("zero_based", self.zero_based, "libsvm", "libsvm"),
        ):
            if value is not None and format != wanted:
                raise InvalidParameter(f"{option} is for {title} files, {name} is read as {format}")
        if self.target is not None and format in ("npz", "libsvm"):
            _no_target(self.target, name)

    def needs_columns(self, name: str) -> None:
        if self.schema is not None:
            raise InvalidParameter(f"schema is for inputs with columns (CSV, Parquet, frames, ...), found {name}")

    def joined(self, columns: Columns) -> tuple[Source, Any]:
        """Return the rows of an input of columns, and the encoder that makes them."""
        if self.schema is not None:
            return schema_source(self.schema, columns, target=self.target is not False, count_cells=self.count_cells)
        encoder = PlainEncoder(columns, self.target, self.labels)
        return ColumnSource(columns, encoder), encoder


def open_stream(
    data: Any,
    *,
    target: str | int | bool | None = None,
    classes: Sequence[Any] | None = None,
    positive: Any = None,
    header: bool | None = None,
    n_features: int | None = None,
    format: str | None = None,
    block_rows: int = 65536,
    ranges: Sequence[Any] | Mapping[Any, Any] | str | os.PathLike[str] | None = None,
    sep: str | None = None,
    encoding: str | None = None,
    zero_based: bool | None = None,
    schema: Schema | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    hash_features: int | None = None,
    read_ahead: bool = True,
    count_cells: bool = False,
) -> Stream:
    """Open a file, a folder of files, a frame, arrays or an iterable as a stream of blocks of rows.

    Files are read in flat memory: a few chunks of 8 MiB and at most four blocks, whatever the size
    of the file (only ``.npz`` is loaded whole). Everything the arguments say about the data - label
    set, ranges, schema, number of features - counts as public knowledge; nothing is computed from
    the data but what this page names, and ``Stream.conditions`` lists what of it was.

    Parameters
    ----------
    data : path, pattern, "-", file object, frame, (X, y), array or iterable
        * a path to CSV, JSON lines (one object a line) or libsvm/svmlight text, plain or compressed
          by gz, bz2, xz or zst (recognised by content); ``"-"`` is standard input, read once,
          and so is a file object of bytes (``open("fifo", "rb")``, ``process.stdout``,
          ``socket.makefile("rb")``);
        * a path to Parquet or Arrow IPC (file or stream form, Feather version 2);
        * a path to ``.npy`` (2-d, memory mapped) or ``.npz`` (arrays ``X`` and ``y``, or
          a matrix saved by ``scipy.sparse.save_npz`` with an array ``y`` added; loaded whole);
        * a directory or a pattern (a string with ``*``, ``?`` or ``[``; ``**`` for folders at any
          depth): its files, sorted by name, one after the other. All are of one format; named columns
          are the same in each, in any order. Names that begin with ``.`` or ``_`` do not count in a directory;
        * a frame: anything with Arrow's C stream interface (pandas, polars, pyarrow, duckdb, ...).
          What has a length can be read again, a reader once. A pandas index is no column;
        * a tuple (X, y) of a 2-d array, scipy sparse matrix or frame and a 1-d array, series or None;
        * one 2-d array, its target a column as in a ``.npy`` file;
        * a sequence of (X, y) blocks, or an iterator or other iterable of them. The latter
          can be read once, its number of rows is unknown, and its first block is taken at
          once. Blocks are split to ``block_rows`` but never joined or held back;
        * an iterable of (dict, y) pairs, one per row: the features are hashed (``hash_features``).
          Rows are gathered to blocks: ``block_rows=1`` hands each on at once;
        * with ``schema``, an iterable of dicts, the target one of the keys. The first row has all keys.
    target : str, int, False or None
        Column of the target in inputs of columns and ``.npy``: its name, or its 0-based number,
        negative from the end. None: the last column. False: no target at all, every column is a
        feature and ``Block.y`` is None (with ``schema``: features alone, no cap, no delay).
    classes : (negative, positive) or more labels, optional
        The public label set, numbers or strings (surrounding blanks do not count, and
        1, "1", "1.0" and true are the same label). A label outside it is an error.
        More than two are so many classes, or with ``positive`` two.
    positive : label, optional
        This label against all the rest, or against the rest of ``classes`` where given.
        ``Stream.classes`` is then ``("not <positive>", positive)``. A missing label is an error.
        Without ``classes`` and ``positive`` the target is a real number (regression).
    header : bool, optional
        Whether the first line of a CSV file names the columns. None: it does if ``target``
        is a name, if no feature in it is a number, or if its target is text above a number.
        Data whose first row looks like that need ``header=False``.
    n_features : int, optional
        Number of columns of X. A libsvm file without it is read twice: the first pass, at
        the speed of decompression and a search in every line, finds the highest index and
        the number of rows. State it where the width is public, or where a later file
        must have the same width. Elsewhere it is checked.
    format : {"csv", "jsonl", "libsvm", "npy", "npz", "parquet", "arrow"}, optional
        Of a file, or of each in a directory. None: told from the first bytes, else from the name (``.csv``,
        ``.tsv``, ``.jsonl``, ``.ndjson``, ``.json``, ``.svm``, ``.libsvm``, ``.svmlight``, ``.binary``), else from
        the look of the first line.
    block_rows : int, default 65536
        Rows per block, at least 1; the last block may be shorter, and blocks of dense files
        stay below 128 MiB. Where a live input pauses (see Notes), the rows that have come are a
        block. It never changes the rows, only where they are cut.
    ranges : pairs, mapping or path, optional
        Public (low, high) of the features: one pair per feature (None for no range), a
        mapping from name or 0-based feature number (the target is not counted), or a JSON
        file ``{"column": [low, high]}``. A feature with a range is mapped affinely from it to
        [-1, 1] and clipped there; others are unchanged. The ranges must be known without
        the data: computed from the data they would void the guarantee. Dense rows only; the blocks are
        float64 then.
    sep : str, optional
        The one ASCII character that separates the columns of a CSV file. None: told from the first lines,
        among comma, semicolon, tab and ``|``.
    encoding : str, default "utf-8"
        Of a CSV file: UTF-8 or a one-byte encoding that contains ASCII, such as latin-1 or cp1252.
    zero_based : bool, optional
        Whether libsvm indices count from 0. None: they do if an index 0 occurs (in the first
        8 MiB if ``n_features`` is given, else anywhere in the file; in the first row of a live
        input, where an index 0 that comes later is an error). State it when several
        files must agree; the parts of a directory do agree.
    schema : Schema, mapping or path of a TOML file, optional
        What is public of the columns: ranges, levels, the target and its labels, the user, ...; see
        :class:`privol.streams.Schema`. It takes the place of ``target``, ``classes``, ``positive``,
        ``ranges``, ``header``, ``sep`` and ``encoding``.
    hash_features : int, default 2**18
        Number of columns of X for (dict, y) pairs, best a power of two, below 2^31. Each key with a number, and each
        "key=value" with a text, is hashed to one of them with a sign, by scikit-learn's ``FeatureHasher``.
    read_ahead : bool, default True
        Whether a thread parses the next blocks while the caller uses this one. Only for files, standard input, file
        objects of the operating system and frames that can be read again: the caller's own iterators and readers run
        in the caller's thread.
        It never changes the blocks, nor where an error appears.
    count_cells : bool, default False
        Whether iterations count, by column, the cells that ``schema`` does not take as they are, in
        :attr:`Stream.cells`. Not private. It never changes the blocks.

    Returns
    -------
    Stream
        Iterates over :class:`Block`: X float64 (float32 from float32 arrays), C-contiguous,
        or CSR; y float64, an index into ``Stream.classes`` or the target itself.

    Raises
    ------
    StreamError
        When opening, or at the block concerned while iterating, always before that block is
        handed out: a file that is missing, empty or damaged, or has changed since it was opened; a directory or pattern
        without files, or with files that do not fit together; a header without rows; a row with too few or too many
        fields; text where a number should be; an integer beyond 2^53 in a typed column; a column of a type that is
        neither a number nor text; a label outside the set; a wrong number of features. The message names the
        1-based data row of the whole stream (empty lines and the header are not counted; for parts also the part and
        the row in it), the column, what was found and what is allowed; ``error.row`` has the number.
    InvalidParameter
        A parameter that is wrong by itself, does not fit another one, or means nothing for this kind of data.

    Notes
    -----
    NaN and infinities are not refused here, nor are missing cells (empty, blank or null), which
    become NaN: the learner's ``on_invalid`` decides, by row number. ``ranges`` keep both as they are. A
    schema states what a missing cell means.

    CSV, JSON lines, Parquet, Arrow, frames and zst need pyarrow (``pip install 'privol[files]'``), and libsvm is read
    about three times as fast with it. CSV is quoted by double quotes; a line break inside quotes needs a schema with
    ``newlines_in_values``. An Arrow file is held in memory one of its own batches at a time.

    Standard input and file objects that are no regular files are live: whole lines that have come are handed out
    when nothing more comes for 10 ms, and at the latest after 0.1 s, not when a block is full. Opening waits for the
    first lines alone: of CSV for the header and the first row (the first two rows where it is not stated that there
    is no header), and for up to 20 lines while these might tell another separator than the comma; of JSON lines for
    the first row, which has all keys; of libsvm for the first row, which tells ``zero_based`` if it is not stated.
    A row ends with its line end. Compressed rows come when the decompressor gives them (zst: by 256 KiB of text),
    rows of an Arrow stream with their batch. Where it cannot be asked whether there is more (on Windows, and of
    objects that are not files of the operating system, such as those of TLS), each read is handed out by itself.

    Examples
    --------
    >>> import numpy as np
    >>> from privol import open_stream
    >>> stream = open_stream((np.eye(3), ["no", "yes", "no"]), classes=("no", "yes"), block_rows=2)
    >>> [(block.first_row, block.X.shape, block.y.tolist()) for block in stream]
    [(1, (2, 3), [0.0, 1.0]), (3, (1, 3), [0.0])]

    >>> rows = [({"city": "Oslo", "age": 41}, "yes"), ({"city": "Bergen"}, "no")]
    >>> next(iter(open_stream(rows, positive="yes", hash_features=16))).X.shape
    (2, 16)
    """
    integer(block_rows=block_rows, at_least=1)
    if n_features is not None:
        integer(n_features=n_features, at_least=1)
    if hash_features is not None:
        integer(hash_features=hash_features, at_least=1, at_most=(1 << 31) - 1)
    if format is not None:
        choice(FORMATS, format=format)
    for name, flag in (("header", header), ("zero_based", zero_based)):
        if flag is not None and not isinstance(flag, bool):
            raise InvalidParameter(f"{name} must be True, False or None, found {flag!r}")
    for name, flag in (("read_ahead", read_ahead), ("count_cells", count_cells)):
        if not isinstance(flag, bool):
            raise InvalidParameter(f"{name} must be True or False, found {flag!r}")
    if count_cells and schema is None:
        raise InvalidParameter("count_cells counts what a schema does not take as it is, and no schema is given")
    if schema is not None:
        given = {"target": None if target is False else target, "classes": classes, "positive": positive}
        for name, value in {**given, "ranges": ranges, "header": header, "sep": sep, "encoding": encoding}.items():
            if value is not None:
                raise InvalidParameter(f"{name} and schema exclude each other: the schema states it")
        schema = Schema.load(schema)
        format = format or schema.file.get("format")
    options = _Options(
        labels=Labels(classes, positive),
        target=target,
        header=header,
        n_features=n_features,
        format=format,
        sep=sep,
        encoding=encoding,
        zero_based=zero_based,
        schema=schema,
        hash_features=hash_features,
        count_cells=count_cells,
    )
    found: Source | Columns
    if isinstance(data, (str, os.PathLike)) or is_file_object(data):
        if hash_features is not None:
            raise InvalidParameter("hash_features is for (dict, y) pairs; a schema hashes the columns of a file")
        found = _open_files(data, options)
    else:
        if format is not None and (schema is None or "format" not in schema.file):
            raise InvalidParameter(f"format is for files, found format={format!r} with data of type {type(data)}")
        found = _open_object(data, options)
    classes_shown, used = options.labels.classes, None
    ahead = found.ahead
    if isinstance(found, Columns):
        source, encoder = options.joined(found)
        if schema is not None:
            classes_shown, used = encoder.classes, encoder.schema
    else:
        source = found
    if n_features is not None and source.n_features != n_features:
        raise StreamError(f"{source.name}: found {source.n_features} features, allowed are n_features={n_features}")
    if ranges is not None and source.sparse:
        raise StreamError(f"{source.name}: ranges need dense rows, found sparse ones (a shift would fill their zeros)")
    scaling = None if ranges is None else Ranges(ranges, source.n_features, source.feature_names)
    return Stream(
        source,
        classes=classes_shown,
        ranges=scaling,
        block_rows=int(block_rows),
        schema=used,
        read_ahead=read_ahead and ahead,
    )


def open_columns(
    data: Any,
    *,
    target: str | int | bool | None = None,
    header: bool | None = None,
    sep: str | None = None,
    encoding: str | None = None,
    format: str | None = None,
) -> Columns:
    """Open an input that has columns, without saying yet what they mean; the options are those of :func:`open_stream`.

    Raises
    ------
    StreamError, InvalidParameter
        As :func:`open_stream`, and where the input has no columns.
    """
    if format is not None:
        choice(FORMATS, format=format)
    options = _Options(
        labels=Labels(None, None),
        target=target,
        header=header,
        format=format,
        sep=sep,
        encoding=encoding,
        columns=True,
    )
    a_file = isinstance(data, (str, os.PathLike)) or is_file_object(data)
    found = _open_files(data, options) if a_file else _open_object(data, options)
    if not isinstance(found, Columns):
        raise InvalidParameter(f"{found.name}: has no columns, needed is CSV, JSON lines, Parquet, Arrow or a frame")
    return found


# ---- files --------------------------------------------------------------------------------------


def _open_files(data: str | os.PathLike[str] | BinaryIO, options: _Options) -> Source | Columns:
    if not isinstance(data, (str, os.PathLike)) or data == _STDIN:
        return _open_once(LineFile(data), options)
    if not is_pattern(data) and not Path(data).is_dir():
        format, told = _format(Path(data), options)
        return _noted(_open_file(Path(data), options, format), told)
    name, paths = find_parts(data if isinstance(data, str) else Path(data))
    recognised = [_format(path, options) for path in paths]
    formats = [format for format, _ in recognised]
    for path, format in zip(paths, formats, strict=True):
        if format != formats[0]:
            raise StreamError(
                f"{name}: {paths[0].name} is read as {formats[0]} and {path.name} as {format}, "
                "allowed are parts of one format"
            )
    parts = [_open_file(path, options, formats[0]) for path in paths]
    sizes = [file_size(path) for path in paths]
    if formats[0] == "libsvm":
        parts = _of_one_width(paths, parts, options)
    columns = [part for part in parts if isinstance(part, Columns)]
    sources = [part for part in parts if isinstance(part, Source)]
    whole = PartsColumns(name, columns, sizes) if columns else PartsSource(name, sources, sizes)
    return _noted(whole, any(told for _, told in recognised))


def _noted(found: Source | Columns, told: bool) -> Source | Columns:
    """Note that the format was told from the look of the first line, if it was."""
    if told:
        found.inferred = ("format", *found.inferred)
    return found


def _of_one_width(paths: list[Path], parts: Sequence[Any], options: _Options) -> list[Any]:
    """Return libsvm parts that agree on the width and on where indices count from."""
    zero_based = any(part.zero_based for part in parts)
    if options.n_features is None and any(part.zero_based != zero_based for part in parts):
        # a part without index 0 was taken to count from 1
        width = max(part.n_features + (not part.zero_based) for part in parts)
    else:
        width = max(part.n_features for part in parts)
    again = []
    for path, part in zip(paths, parts, strict=True):
        if (part.n_features, part.zero_based) != (width, zero_based):
            n_rows, inferred = part.n_rows, part.inferred
            part = LibsvmSource(LineFile(path), options.labels, width, zero_based)
            part.n_rows, part.inferred = n_rows, inferred
        again.append(part)
    return again


def _format(path: Path, options: _Options) -> tuple[str, bool]:
    """Return the format that was stated, or else that of the first bytes, the name or the look, in this order.

    And whether it was the look.
    """
    file_size(path)
    file = LineFile(path)
    format, told = (options.format, False) if options.format else _sniffed(file)
    options.only_for(format, path.name)
    if file.compressed and format in ("npy", "npz", "parquet"):
        raise StreamError(f"{path.name}: a compressed .{format} file cannot be read from any place, unpack it first")
    return format, told


def _sniffed(file: LineFile) -> tuple[str, bool]:
    """Return the format of a file, and whether it was told from the look of the first line."""
    # A few bytes first: a binary file has no lines to wait for.
    start, _ = file.head(lambda text: len(text) >= 8 or b"\n" in text)
    told = next((format for magic, format in _MAGIC.items() if start.startswith(magic)), None)
    if told is not None and told not in FORMATS:
        raise StreamError(f"{file.name}: is {told}, allowed is version 2 (write it anew)")
    told = told or _SUFFIXES.get(Path(file.stem).suffix.lower())
    if told is not None:
        return told, False
    text, _ = file.head(lambda text: any(map(tokens, _whole_lines(text))))
    if text.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return "jsonl", True
    return "libsvm" if looks_like_libsvm(text) else "csv", True


def _whole_lines(text: bytes) -> list[bytes]:
    return [line for line in text.splitlines(keepends=True) if line.endswith((b"\n", b"\r"))]


def _open_file(path: Path, options: _Options, format: str) -> Source | Columns:
    if format == "parquet":
        return ParquetColumns(path)
    if format in ("npy", "npz"):
        options.needs_columns(path.name)
    if format == "npy":
        return TableSource(lambda: map_npy(path), options.labels, options.target, path.name)
    if format == "npz":
        return ArraySource(*load_npz(path), options.labels, path.name)
    file = LineFile(path)
    if format == "arrow" and _is_ipc_file(file):
        if file.compressed:
            raise StreamError(f"{path.name}: a compressed Arrow file cannot be read from any place, unpack it first")
        return IpcFileColumns(path)
    return _open_text(file, options, format)


def _is_ipc_file(file: LineFile) -> bool:
    return file.head(lambda text: len(text) >= 8)[0].startswith(IPC_FILE)


def _open_text(file: LineFile, options: _Options, format: str) -> Source | Columns:
    """Open what is read from its beginning to its end."""
    if format == "arrow":
        return IpcStreamColumns(file)
    if format == "jsonl":
        return JsonColumns(file)
    if format == "libsvm":
        options.needs_columns(file.name)
        return LibsvmSource(file, options.labels, options.n_features, options.zero_based)
    target, labels = options.target, options.labels
    if options.schema is not None and options.schema.target is not None:
        target, labels = options.schema.target.column, options.schema.target.labels
    csv = options.csv()
    optional: tuple[str, ...] = ()
    if options.schema is not None and options.target is False and csv.names is not None:
        # rows to be predicted
        places = options.schema.special
        optional = tuple(csv.names[p] if isinstance(p, int) else p for p in places if not _beyond(p, csv.names))
    return CsvColumns(file, csv, target=target, labels=labels, optional=optional)


def _beyond(place: str | int, names: tuple[str, ...]) -> bool:
    return isinstance(place, int) and not -len(names) <= place < len(names)


def _open_once(file: LineFile, options: _Options) -> Source | Columns:
    """Open standard input or a file object, of which nothing must be lost."""
    format, told = (options.format, False) if options.format else _sniffed(file)
    options.only_for(format, file.name)
    if format in ("parquet", "npy", "npz") or (format == "arrow" and _is_ipc_file(file)):
        raise StreamError(
            f"{file.name}: {'an Arrow file' if format == 'arrow' else format} cannot be read from a pipe, because it "
            "must be read from any place; store it as a file, or send CSV, JSON lines or an Arrow stream"
        )
    return _noted(_open_text(file, options, format), told)


# ---- objects ------------------------------------------------------------------------------------


def _no_target(target: Any, name: str) -> None:
    if target is not None:
        raise InvalidParameter(
            f"target is for columns, and {name} has its own y, found target={target!r}; leave target out"
        )


def _open_object(data: Any, options: _Options) -> Source | Columns:
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
            return FrameSource(data[0], data[1], options.labels)
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
    if isinstance(data, (bytes, Mapping)) or not isinstance(data, Iterable):
        raise InvalidParameter(
            "data must be a path, a file object, a frame, (X, y), a 2-d array or an iterable of (X, y), of (dict, y) "
            f"or (with schema) of dicts, found {type(data).__name__}"
        )
    rest = iter(data)
    return _open_rows(next(rest, None), rest, data, options)


def _open_rows(first: Any, rest: Any, data: Iterable[Any], options: _Options) -> Source | Columns:
    """Open an iterable whose first element tells what it is of."""
    if isinstance(first, Mapping):
        _no_hash(options, "dicts with a schema")
        if options.schema is None and not options.columns:
            raise InvalidParameter("an iterable of dicts needs a schema; without one give (dict, y) pairs")
        return DictColumns(first, rest, data)
    _no_target(options.target, "an iterable of pairs")
    if isinstance(first, tuple) and len(first) == 2 and isinstance(first[0], Mapping):
        options.needs_columns("(dict, y) pairs: give dicts, the target one of the keys")
        return HashedSource(first, rest, data, options.labels, options.hash_features or _HASH_FEATURES)
    _no_hash(options, "blocks")
    options.needs_columns("blocks")
    return BlocksSource(first, rest, data, options.labels)


def _no_hash(options: _Options, what: str) -> None:
    if options.hash_features is not None:
        raise InvalidParameter(f"hash_features is for (dict, y) pairs, found {what}")
