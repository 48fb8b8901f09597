"""The one door to all streams."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._validate import choice, integer
from ..errors import InvalidParameter, StreamError
from ._arrays import ArraySource, BlocksSource, TableSource, load_npz, map_npy
from ._base import Source, Stream
from ._csv import CsvSource
from ._files import LineFile, file_size
from ._labels import Labels
from ._libsvm import LibsvmSource, looks_like_libsvm, tokens
from ._ranges import Ranges

__all__ = ["open_stream"]

_FORMATS = ("csv", "libsvm", "npy", "npz")
_SUFFIXES = {".csv": "csv", ".svm": "libsvm", ".libsvm": "libsvm", ".svmlight": "libsvm", ".binary": "libsvm"}
_NPY, _ZIP = b"\x93NUMPY", b"PK\x03\x04"


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
    sep: str = ",",
    zero_based: bool | None = None,
) -> Stream:
    """Open a file, arrays or a generator as a stream of blocks of rows.

    Files are read in flat memory: a few chunks of 8 MiB and one block at a time,
    whatever the size of the file (only ``.npz`` is loaded whole). Everything the
    arguments say about the data - label set, ranges, number of features - counts
    as public knowledge; nothing is computed from the data but what this page names.

    Parameters
    ----------
    data : path, (X, y), array or iterable of (X, y)
        * a path to CSV or libsvm/svmlight text, plain or compressed by gz, bz2 or xz
          (recognised by content);
        * a path to ``.npy`` (2-d, memory mapped) or ``.npz`` (arrays ``X`` and ``y``, or
          a matrix saved by ``scipy.sparse.save_npz`` with an array ``y`` added; loaded whole);
        * a tuple (X, y) of a 2-d array or scipy sparse matrix and a 1-d array or None;
        * one 2-d array, its target a column as in a ``.npy`` file;
        * a sequence of (X, y) blocks, or an iterator or other iterable of them. The latter
          can be read once, its number of rows is unknown, and its first block is taken at
          once. Blocks are split to ``block_rows`` but never joined or held back.
    target : str, int, False or None
        Column of the target in CSV and ``.npy``: its name in the header, or its 0-based
        number, negative from the end. None: the last column. False: no target at all,
        every column is a feature and ``Block.y`` is None.
    classes : (negative, positive), optional
        The public label set, numbers or strings (surrounding blanks do not count, and
        1, "1" and "1.0" are the same label). A label outside it is an error.
        With ``positive`` it may hold more than two labels.
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
    format : {"csv", "libsvm", "npy", "npz"}, optional
        Overrules the file name (``.csv``, ``.svm``, ``.libsvm``, ``.svmlight``, ``.binary``) and,
        for other names, the look at the first line.
    block_rows : int, default 65536
        Rows per block, at least 1; the last block may be shorter, and blocks of dense files
        stay below 128 MiB. It never changes the rows, only where they are cut.
    ranges : pairs, mapping or path, optional
        Public (low, high) of the features: one pair per feature (None for no range), a
        mapping from name or 0-based feature number (the target is not counted), or a JSON
        file ``{"column": [low, high]}``. A feature with a range is mapped affinely from it to
        [-1, 1] and clipped there; others are unchanged. The ranges must be known without
        the data: computed from the data they would void the guarantee. Dense rows only; the blocks are
        float64 then.
    sep : str, default ","
        The one character that separates the columns of a CSV file.
    zero_based : bool, optional
        Whether libsvm indices count from 0. None: they do if an index 0 occurs (in the first
        8 MiB if ``n_features`` is given, else anywhere in the file). State it when several
        files must agree.

    Returns
    -------
    Stream
        Iterates over :class:`Block`: X float64 (float32 from float32 arrays), C-contiguous,
        or CSR; y float64, an index into ``Stream.classes`` or the target itself.

    Raises
    ------
    StreamError
        When opening, or at the block concerned while iterating, always before that block is
        handed out: a file that is missing, empty, a directory or damaged; a header without
        rows; a row with too few or too many fields; text where a number should be; a label
        outside the set; a wrong number of features. The message names the 1-based data row
        of the whole stream (empty lines and the header are not counted), the column, what was
        found and what is allowed; ``error.row`` has the number.
    InvalidParameter
        A parameter that is wrong by itself.

    Notes
    -----
    NaN and infinities are not refused here, nor are missing cells of a CSV file (empty or blank), which
    become NaN: the learner's ``on_invalid`` decides, by row number. ``ranges`` keep both as they are.

    CSV needs pyarrow (``pip install 'privol[files]'``), and libsvm is read about three times as fast
    with it. CSV is UTF-8, quoted by double quotes; a line break inside quotes is not supported.

    Examples
    --------
    >>> import numpy as np
    >>> from privol import open_stream
    >>> stream = open_stream((np.eye(3), ["no", "yes", "no"]), classes=("no", "yes"), block_rows=2)
    >>> [(block.first_row, block.X.shape, block.y.tolist()) for block in stream]
    [(1, (2, 3), [0.0, 1.0]), (3, (1, 3), [0.0])]
    """
    integer(block_rows=block_rows, at_least=1)
    if n_features is not None:
        integer(n_features=n_features, at_least=1)
    if format is not None:
        choice(_FORMATS, format=format)
    if not isinstance(sep, str) or len(sep) != 1 or sep in '"\r\n' or not sep.isascii():
        raise InvalidParameter(f"sep must be one ASCII character, no quote and no line end, found {sep!r}")
    for name, flag in (("header", header), ("zero_based", zero_based)):
        if flag is not None and not isinstance(flag, bool):
            raise InvalidParameter(f"{name} must be True, False or None, found {flag!r}")
    labels = Labels(classes, positive)

    source: Source
    if isinstance(data, (str, os.PathLike)):
        source = _open_path(Path(data), labels, target, header, n_features, format, sep, zero_based)
    else:
        if format is not None:
            raise InvalidParameter(f"format is for files, found format={format!r} with data of type {type(data)}")
        source = _open_object(data, labels, target)
    if n_features is not None and source.n_features != n_features:
        raise StreamError(f"{source.name}: found {source.n_features} features, allowed are n_features={n_features}")
    if ranges is not None and source.sparse:
        raise StreamError(f"{source.name}: ranges need dense rows, found sparse ones (a shift would fill their zeros)")
    scaling = None if ranges is None else Ranges(ranges, source.n_features, source.feature_names)
    return Stream(source, classes=labels.classes, ranges=scaling, block_rows=int(block_rows))


def _open_path(
    path: Path,
    labels: Labels,
    target: Any,
    header: bool | None,
    n_features: int | None,
    format: str | None,
    sep: str,
    zero_based: bool | None,
) -> Source:
    file_size(path)
    file = LineFile(path)
    if format is None:
        format = _sniffed(path, file)
    if format in ("npy", "npz") and file.compressed:
        raise StreamError(f"{path.name}: a compressed .{format} file cannot be mapped, unpack it first")
    if header is not None and format != "csv":
        raise InvalidParameter(f"header is for CSV files, {path.name} is read as {format}")
    if zero_based is not None and format != "libsvm":
        raise InvalidParameter(f"zero_based is for libsvm files, {path.name} is read as {format}")
    if format == "csv":
        return CsvSource(file, labels, target, header, sep)
    if format == "npy":
        return TableSource(lambda: map_npy(path), labels, target, path.name)
    _no_target(target, path.name)
    if format == "npz":
        return ArraySource(*load_npz(path), labels, path.name)
    return LibsvmSource(file, labels, n_features, zero_based)


def _sniffed(path: Path, file: LineFile) -> str:
    """Return the format by the first bytes, the name, and the look of the first lines, in this order."""
    # A few bytes first: a binary file has no lines to wait for.
    start, _ = file.head(lambda text: len(text) >= len(_NPY))
    if start.startswith(_NPY) or path.suffix.lower() == ".npy":
        return "npy"
    if start.startswith(_ZIP) or path.suffix.lower() == ".npz":
        return "npz"
    known = _SUFFIXES.get(Path(file.stem).suffix.lower())
    if known is not None:
        return known
    text, _ = file.head(lambda text: any(tokens(line) for line in text.splitlines()[:-1]))
    return "libsvm" if looks_like_libsvm(text) else "csv"


def _no_target(target: Any, name: str) -> None:
    if target is not None:
        raise InvalidParameter(f"target names a column of CSV or .npy, {name} has its own y; found target={target!r}")


def _open_object(data: Any, labels: Labels, target: Any) -> Source:
    if isinstance(data, tuple) and len(data) == 2 and not isinstance(data[0], tuple):
        _no_target(target, "(X, y)")
        return ArraySource(data[0], data[1], labels, "arrays")
    if sp.issparse(data):
        if target is not False:
            raise StreamError("arrays: a sparse matrix alone has no target, give (X, y) or target=False")
        return ArraySource(data, None, labels, "arrays")
    if isinstance(data, np.ndarray):
        return TableSource(lambda: data, labels, target, "arrays")
    if isinstance(data, (bytes, Mapping)) or not isinstance(data, Iterable):
        raise InvalidParameter(
            f"data must be a path, (X, y), a 2-d array or an iterable of (X, y), found {type(data).__name__}"
        )
    _no_target(target, "a stream of blocks")
    return BlocksSource(data, labels)
