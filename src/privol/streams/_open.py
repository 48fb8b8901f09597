"""The one entrance to all streams."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from .._validate import choice, integer
from ..encoding.frequent import FrequentSource
from ..encoding.labels import Labels
from ..encoding.ranges import Ranges
from ..encoding.rest import RestOfRows
from ..encoding.rows import ColumnSource, FrameSource, PlainEncoder
from ..encoding.schema import Schema
from ..encoding.streaming import StreamEncoder
from ..errors import InvalidParameter, StreamError
from ..readers.base import Reader, Source
from ..readers.columns import Columns
from ..readers.csv import CsvOptions
from ..readers.formats import FORMATS
from ..readers.frames import FramePair
from ..readers.open import Options, format_of, is_file, open_reader
from ._base import Stream
from ._capped import capped_by
from ._encoded import declared_by, encoded_rows, encoded_source, learnt_source
from ._first import FirstOfRows

__all__ = ["format_of", "learn_schema", "open_stream"]


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
    schema: Schema | Mapping[str, Any] | str | os.PathLike[str] | StreamEncoder | None = None,
    columns: Sequence[str] | None = None,
    first_row: int = 1,
    last_row: int | None = None,
    hash_features: int | None = None,
    read_ahead: bool = True,
    count_cells: bool = False,
) -> Stream:
    """Open a file, a folder of files, a frame, arrays, an iterable or a queue as a stream of blocks of rows.

    Files are read in constant memory, a few chunks of 8 MiB and at most four blocks, whatever their size (only ``.npz``
    is loaded whole). Everything that the arguments say about the data - label set, ranges, schema, number of features -
    counts as public knowledge. Nothing is computed from the data except as described here; ``Stream.conditions``
    lists it.

    Parameters
    ----------
    data : path, pattern, "-", file object, frame, (X, y), array, iterable or queue
        * a path to CSV, JSON lines (one object per line) or libsvm/svmlight text, plain or compressed
          by gz, bz2, xz or zst (recognised by content); ``"-"`` is standard input, read once,
          and so is a file object of bytes (``open("fifo", "rb")``, ``process.stdout``,
          ``socket.makefile("rb")``);
        * a path to Parquet or Arrow IPC (file or stream form, Feather version 2);
        * a path to ``.npy`` (2-d, memory mapped) or ``.npz`` (arrays ``X`` and ``y``, or
          a matrix saved by ``scipy.sparse.save_npz`` with an array ``y`` added; loaded whole);
        * a URL that one of pyarrow's file systems knows (``s3://``, ``gs://``, ``abfs://``, ``hdfs://``,
          ``file://``) of any of these except ``.npy`` and ``.npz``, or of a folder of them; keys in it
          are never shown;
        * an ``http://`` or ``https://`` URL of such a file, on a server that serves ranges;
        * a table or query of a database (``sqlite://``, ``duckdb://``, ``postgresql://``), or the messages of a broker
          (``redis://``, ``kafka://``, ``mqtt://``), which have no end but ``rows=N`` in the URL: docs/sources.md;
        * a directory or a pattern (a string with ``*``, ``?`` or ``[``; ``**`` for folders at any
          depth): its files, sorted by name, one after the other. All have the same format and the same
          named columns, in any order. Names that begin with ``.`` or ``_`` do not count in a directory;
        * a frame: anything with Arrow's C stream interface (pandas, polars, pyarrow, duckdb, ...).
          A frame with a length can be read again, a reader once. A pandas index is not a column;
        * a tuple (X, y) of a 2-d array, scipy sparse matrix or frame and a 1-d array, series or None;
        * one 2-d array, its target a column as in a ``.npy`` file;
        * a sequence of (X, y) blocks, or an iterator or other iterable of them. The latter
          can be read once, its number of rows is unknown, and its first block is read
          immediately. Blocks are split to ``block_rows`` but never joined or delayed;
        * an iterable of (dict, y) pairs, one per row: the features are hashed (``hash_features``).
          Rows are gathered into blocks: ``block_rows=1`` passes each on immediately;
        * with ``schema`` or ``target``, an iterable of dicts, with the target as one of the keys. The first row has all
          keys, in the order of the columns;
        * a queue (of :mod:`queue`, or ``multiprocessing.Queue``) of any of these elements, until it brings None. A
          block has the rows that are there, at least one. An exception in it is raised in its place.
    target : str, int, False or None
        Column of the target in inputs of columns and ``.npy``: its name, or its 0-based number,
        negative from the end. None: the last column. False: no target at all, every column is a
        feature and ``Block.y`` is None (with ``schema``: features alone, no cap, no delay).
    classes : (negative, positive) or more labels, optional
        The public label set, numbers or strings (surrounding blanks do not count, and
        1, "1", "1.0" and true are the same label). A label outside it is an error.
        More than two labels are that many classes, or with ``positive`` two.
    positive : label, optional
        This label against all others, or against the rest of ``classes`` if given.
        ``Stream.classes`` is then ``("not <positive>", positive)``. A missing label is an error.
        Without ``classes`` and ``positive`` the target is a real number (regression).
    header : bool, optional
        Whether the first line of a CSV file names the columns. None: it does if ``target``
        is a name, if no feature in it is a number, or if its target is text above a number.
        Data whose first row looks like that need ``header=False``.
    n_features : int, optional
        Number of columns of X. A libsvm file without it is read twice: the first pass, at
        the speed of decompression and a search in every line, finds the highest index and
        the number of rows. State it if the width is public, or if a later file
        must have the same width. For other inputs it is checked.
    format : {"csv", "jsonl", "libsvm", "npy", "npz", "parquet", "arrow"}, optional
        Of a file, or of each in a directory. None: inferred from the first bytes, then from the name (``.csv``,
        ``.tsv``, ``.jsonl``, ``.ndjson``, ``.json``, ``.svm``, ``.libsvm``, ``.svmlight``, ``.binary``), then from
        the first line.
    block_rows : int, default 65536
        Rows per block, at least 1; the last block may be shorter, and blocks of dense files
        stay below 30 MiB. If a live input pauses (see Notes), the rows that have arrived are a
        block. It never changes the rows, only where they are cut.
    ranges : pairs, mapping or path, optional
        Public (low, high) of the features: one pair per feature (None for no range), a
        mapping from name or 0-based feature number (the target is not counted), or a JSON
        file ``{"column": [low, high]}``. A feature with a range is mapped affinely from it to
        [-1, 1] and clipped there; others are unchanged. The ranges must be known without
        the data: ranges computed from the data void the guarantee. Dense rows only; the blocks are
        then float64.
    sep : str, optional
        The ASCII character that separates the columns of a CSV file. None: inferred from the first lines,
        among comma, semicolon, tab and ``|``.
    encoding : str, default "utf-8"
        Of a CSV file: UTF-8 or a one-byte encoding that contains ASCII, such as latin-1 or cp1252.
    zero_based : bool, optional
        Whether libsvm indices count from 0. None: they do if an index 0 occurs (in the first
        8 MiB if ``n_features`` is given, otherwise anywhere in the file; in the first row of a live
        input, where a later index 0 is an error). State it if several
        files must agree; the parts of a directory do agree.
    schema : Schema, mapping, path of a TOML file, or PrivateEncoder, optional
        Public facts about the columns: ranges, levels, the target and its labels, the user, ...; see
        :class:`privol.streams.Schema`. It replaces ``target``, ``classes``, ``positive``,
        ``ranges``, ``header``, ``sep``, ``encoding`` and ``columns``. A :class:`privol.encoding.PrivateEncoder`
        learns it under a guarantee from the first rows, immediately, and the stream has the others.
    columns : sequence of str, optional
        Names of the columns of a CSV file that has no header.
    first_row : int, default 1
        With a schema: rows before it are left out, such as those that taught a learnt schema.
    last_row : int, optional
        With a schema: rows after it are left out, and not read if this can be avoided.
    hash_features : int, default 2**18
        Number of columns of X for (dict, y) pairs, preferably a power of two, below 2^31. Each key with a number, and
        each "key=value" with a text, is hashed to one of them with a sign, by scikit-learn's ``FeatureHasher``.
    read_ahead : bool, default True
        Whether one thread makes the next blocks while the caller uses this one, and another reads tables for it. Only
        for files, standard input, file objects of the operating system and frames that can be read again: the caller's
        own iterators and readers run in the caller's thread.
        It never changes the blocks, nor where an error appears.
    count_cells : bool, default False
        Whether iterations count, by column, the unknown, missing and clipped cells under ``schema``, in
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
        passed on: a file that is missing, empty or damaged, or has changed since it was opened; a directory or pattern
        without files, or with files that do not fit together; a header without rows; a row with too few or too many
        fields; text where a number should be; an integer beyond 2^53 in a typed column; a column of a type that is
        neither a number nor text; a label outside the set; a wrong number of features. The message names the
        1-based data row of the whole stream (empty lines and the header are not counted; for parts also the part and
        the row in it), the column, what was found and what is allowed; ``error.row`` has the number.
    InvalidParameter
        A parameter that is invalid, does not fit another one, or has no meaning for this kind of data.

    Notes
    -----
    NaN and infinities are not refused here, nor are missing cells (empty, blank or null), which
    become NaN: the learner's ``on_invalid`` decides, by row number. ``ranges`` keep both as they are. A
    schema states the meaning of missing cells.

    CSV, JSON lines, Parquet, Arrow, frames and zst need pyarrow (``pip install 'privol[files]'``). CSV is quoted by
    double quotes; a line break inside quotes needs a schema with ``newlines_in_values``. An Arrow file is held in
    memory one of its own batches at a time.

    Standard input and file objects that are no regular files are live: whole lines are passed on when nothing more
    arrives for 10 ms, and at the latest after 0.1 s, not when a block is full. Opening waits only for the first
    lines: for CSV the header and the first row (the first two rows unless ``header=False``), and up to 20 lines while
    these may show a separator other than the comma; for JSON lines the first row, which has all keys; for libsvm the
    first row, which decides ``zero_based`` if it is not stated. A row ends with its line end. Compressed rows come
    when the decompressor returns them (zst: by 256 KiB of text), rows of an Arrow stream with their batch. Where
    waiting data cannot be detected (on Windows, and for objects that are not files of the operating system, such as
    those of TLS), each read is passed on by itself.

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
    if integer(first_row=first_row, at_least=1) > 1 and schema is None:
        raise InvalidParameter("first_row is for an input with a schema")
    if last_row is not None and integer(last_row=last_row, at_least=first_row) and schema is None:
        raise InvalidParameter("last_row is for an input with a schema")
    if n_features is not None:
        integer(n_features=n_features, at_least=1)
    if hash_features is not None:
        integer(hash_features=hash_features, at_least=1, at_most=(1 << 31) - 1)
    if format is not None:
        choice(tuple(FORMATS), format=format)
    for name, flag in (("header", header), ("zero_based", zero_based)):
        if flag is not None and not isinstance(flag, bool):
            raise InvalidParameter(f"{name} must be True, False or None, found {flag!r}")
    for name, flag in (("read_ahead", read_ahead), ("count_cells", count_cells)):
        if not isinstance(flag, bool):
            raise InvalidParameter(f"{name} must be True or False, found {flag!r}")
    if count_cells and schema is None:
        raise InvalidParameter("count_cells counts unknown, missing and clipped cells: it needs a schema")
    private = schema if isinstance(schema, StreamEncoder) else None
    stated = None if schema is None or isinstance(schema, StreamEncoder) else Schema.load(schema)
    if private is not None and ranges is not None:
        raise InvalidParameter("ranges and a PrivateEncoder exclude each other: declared= states them")
    if private is not None and (first_row > 1 or last_row is not None):
        name = "first_row" if last_row is None else "last_row"
        raise InvalidParameter(f"{name} is for a schema that is known, and a PrivateEncoder learns one")
    if columns is not None and (header is True or isinstance(columns, str)):
        raise InvalidParameter(f"columns must be names of a file without header, found {columns!r}, header={header!r}")
    if stated is not None:
        given = {"target": None if target is False else target, "classes": classes, "positive": positive}
        given |= {"ranges": ranges, "header": header, "sep": sep, "encoding": encoding, "columns": columns}
        if stated.rows is not None:  # it only states how their features are used
            given = {"ranges": ranges}
            n_features = stated.rows.features if n_features is None else n_features
        for name, value in given.items():
            if value is not None:
                raise InvalidParameter(f"{name} and schema exclude each other: the schema states it")
        format = format or stated.file.get("format")
    labels = Labels(classes, positive)
    options = Options(
        labels=labels,
        target=target,
        header=header,
        sep=sep,
        encoding=encoding,
        format=format,
        n_features=n_features,
        zero_based=zero_based,
        hash_features=hash_features,
    )
    if columns is not None:
        csv = CsvOptions(header=False, sep=sep, encoding=encoding or "utf-8", names=tuple(columns))
        options = replace(options, csv=csv)
    if stated is not None and stated.rows is None:
        options = _with_schema(options, stated)
    elif private is not None:
        options = _with_declared(replace(options, columns=True), private)
    if is_file(data):
        if hash_features is not None:
            raise InvalidParameter("hash_features is for (dict, y) pairs; a schema hashes the columns of a file")
    elif format is not None and (stated is None or "format" not in stated.file):
        raise InvalidParameter(f"format is for files, found format={format!r} with data of type {type(data)}")
    found = open_reader(data, options)
    if not read_ahead:
        reader: Reader = found.columns if isinstance(found, FramePair) else found
        reader.facts = replace(reader.facts, ahead=False)
    classes_shown, used = labels.classes, None
    source: Source
    if isinstance(found, Source) and n_features not in (None, found.n_features):
        raise StreamError(f"{found.name}: found {found.n_features} features, allowed are n_features={n_features}")
    if private is not None and isinstance(found, FramePair):
        raise InvalidParameter("a PrivateEncoder learns of a frame with its target in it, found (X, y)")
    if private is not None and isinstance(found, Source):
        source, used = encoded_rows(private, found), private.schema_
    elif private is not None:
        assert isinstance(found, Columns)
        written = _written(options.csv)
        source, coder = encoded_source(
            private, found, target, labels, written, block_rows=int(block_rows), count_cells=count_cells
        )
        classes_shown, used = coder.classes, coder.schema
    elif isinstance(found, FramePair):
        source = FrameSource(found, labels)
    elif not isinstance(found, Columns):
        assert isinstance(found, Source)
        source = found
        if stated is not None and stated.rows is not None:
            rest = source if first_row == 1 else RestOfRows(source, first_row - 1)
            rest = rest if last_row is None else FirstOfRows(rest, last_row - first_row + 1)
            source, used = FrequentSource(rest, stated.rows, stated.conditions_from(first_row)), stated
    elif stated is not None:
        how = {"target": target is not False, "count_cells": count_cells}
        source, encoder = learnt_source(stated, found, first_row, last_row, **how)
        classes_shown, used = encoder.classes, encoder.schema
    else:
        source = ColumnSource(found, PlainEncoder(found, target, labels))
    if isinstance(found, Columns) and n_features not in (None, source.n_features):
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
        read_ahead=read_ahead and source.facts.ahead,
    )


def learn_schema(
    data: Any,
    encoder: StreamEncoder,
    *,
    target: str | int | bool | None = None,
    columns: Sequence[str] | None = None,
    header: bool | None = None,
    sep: str | None = None,
    encoding: str | None = None,
    format: str | None = None,
) -> Schema:
    """Learn privately from all rows of a table what its columns and its target are, and return that: a public schema.

    Parameters
    ----------
    data, target, columns, header, sep, encoding, format
        As for :func:`privol.open_stream`.
    encoder : PrivateEncoder
        Its budget is spent on all rows: whoever learns one of them again pays for that besides.

    Raises
    ------
    StreamError, InvalidParameter, BudgetExceeded
        As for :func:`privol.open_stream` with the encoder as schema.
    """
    labels = Labels(None, None)
    options = Options(
        labels=labels,
        target=target,
        header=header,
        sep=sep,
        encoding=encoding,
        format=format,
        columns=True,
        schema=True,
    )
    if columns is not None:
        csv = CsvOptions(header=False, sep=sep, encoding=encoding or "utf-8", names=tuple(columns))
        options = replace(options, csv=csv)
    options = _with_declared(options, encoder)
    found = open_reader(data, options)
    if not isinstance(found, Columns):
        raise InvalidParameter(f"{found.name}: a schema is learnt of inputs with columns")
    encoder.learn(capped_by(declared_by(encoder), found), target, labels, _written(options.csv), whole=True)
    return encoder.schema_


def _written(csv: CsvOptions) -> dict[str, Any]:
    """A schema's description of a CSV file that is read with these options."""
    default = CsvOptions()
    return {f.name: getattr(csv, f.name) for f in fields(csv) if getattr(csv, f.name) != getattr(default, f.name)}


def _with_declared(options: Options, encoder: StreamEncoder) -> Options:
    """Return the options with what is declared about the file, if an encoder learns the rest."""
    if encoder.declared is None:
        return options
    declared = Schema.load(encoder.declared, partial=True)
    file, stated = declared.file, _written(options.csv)
    options = replace(options, named_target=declared.target is not None)
    for word in file.keys() & stated.keys():
        raise InvalidParameter(f"{word} and declared exclude each other: the schema that is declared states it")
    format = file.pop("format", None)
    return replace(options, csv=CsvOptions(**{**stated, **file}), format=options.format or format)


def _with_schema(options: Options, schema: Schema) -> Options:
    """Return the options with what the schema states of the file."""
    csv = CsvOptions(**{key: value for key, value in schema.file.items() if key != "format"})
    optional: tuple[str, ...] = ()
    if options.target is False and csv.names is not None:
        # rows to be predicted
        named = [csv.names[p] if isinstance(p, int) else p for p in schema.special if not _beyond(p, csv.names)]
        optional = tuple(named)
    goal = options.goal if schema.target is None else (schema.target.column, schema.target.labels)
    return replace(options, csv=csv, goal=goal, optional=optional, schema=True, columns=True)


def _beyond(place: str | int, names: tuple[str, ...]) -> bool:
    return isinstance(place, int) and not -len(names) <= place < len(names)
