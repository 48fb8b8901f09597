"""Shared code of the stream tests: writing files, reading them back, and expecting a failure that names its row."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from privol.errors import StreamError
from privol.streams import Block, open_stream

PACK = {"": lambda b: b, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def together(stream):
    """All blocks as one (X, y), with the row numbers checked on the way."""
    X, y, row = [], [], 1
    for block in stream:
        assert isinstance(block, Block)
        assert block.first_row == row
        n = block.X.shape[0]
        assert n > 0
        assert block.X.shape == (n, stream.n_features)
        if sp.issparse(block.X):
            assert block.X.format == "csr"
            assert block.X.indices.dtype in (np.int32, np.int64)
            assert block.X.dtype in (np.float32, np.float64)
        else:
            assert block.X.flags.c_contiguous
            assert block.X.dtype in (np.float32, np.float64)
        if block.y is not None:
            assert block.y.dtype == np.float64
            assert block.y.shape == (n,)
        X.append(block.X.toarray() if sp.issparse(block.X) else block.X)
        y.append(block.y)
        row += n
    return np.vstack(X), None if y[0] is None else np.concatenate(y)


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(PACK.get(path.suffix, PACK[""])(data))
    return path


def save(folder: Path, table, name="d.parquet", **options):
    """Write a pyarrow.Table in the format that the name says."""
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    path = folder / name
    if path.suffix == ".parquet":
        pa.parquet.write_table(table, path, **options)
    elif path.suffix == ".feather":
        pa.feather.write_feather(table, path, **options)
    else:
        make = pa.ipc.new_file if path.suffix == ".arrow" else pa.ipc.new_stream
        with make(path, table.schema) as writer:
            writer.write_table(table, **options)
    return path


def fails(call, *words, row=None):
    with pytest.raises(StreamError) as found:
        call()
    message = str(found.value)
    for word in words:
        assert str(word) in message, message
    assert found.value.row == row, message
    return message


def drain(path, **options):
    return lambda: together(open_stream(path, **options))


def as_csv(X, y, header=None, labels=None, sep=",", end="\n"):
    lines = [sep.join(header)] if header else []
    for x, t in zip(X, y, strict=True):
        lines.append(sep.join([*(repr(float(v)) for v in x), labels[int(t)] if labels else repr(float(t))]))
    return end.join(lines) + end
