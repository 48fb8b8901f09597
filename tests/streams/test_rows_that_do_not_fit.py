"""Arrays, blocks and tables that change, are of another width, or hold other rows than they say."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from stream_files import save

from privol import open_stream
from privol.encoding.labels import Labels
from privol.errors import InvalidParameter, StreamError
from privol.readers.arrays import TableSource
from privol.readers.parquet import ParquetColumns
from privol.readers.places import LocalFile


def parquet(folder: Path) -> ParquetColumns:
    path = save(folder, pa.table({"x": np.arange(10.0)}))
    return ParquetColumns(LocalFile(folder / "d.parquet" if path is None else path))


def test_a_target_between_features() -> None:
    (block,) = open_stream(np.arange(12.0).reshape(3, 4), target=1)
    assert block.X.tolist() == [[0.0, 2.0, 3.0], [4.0, 6.0, 7.0], [8.0, 10.0, 11.0]]
    assert block.y.tolist() == [1.0, 5.0, 9.0]


def test_an_array_that_changes_while_it_is_read() -> None:
    arrays = iter([np.zeros((4, 2)), np.zeros((4, 2)), np.zeros((5, 2))])
    source = TableSource(lambda: next(arrays), Labels(None, None), None, "a.npy")
    pieces = source.pieces(2, lambda _: None)
    assert next(pieces).X.shape == (2, 1)
    with pytest.raises(StreamError, match=r"a\.npy: the array has changed while it was read") as caught:
        next(pieces)
    assert caught.value.row == 3


@pytest.mark.parametrize("width", [2, 4])
def test_a_block_of_another_width(width: int) -> None:
    blocks = ((np.zeros((2, k)), np.zeros(2)) for k in (3, width))
    with pytest.raises(StreamError, match=rf"row 3: found a block of {width} features, allowed are 3"):
        list(open_stream(blocks))


def test_a_database_has_no_format(tmp_path: Path) -> None:
    path = tmp_path / "rows.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE visits (id INTEGER PRIMARY KEY, x REAL, y REAL)")
        connection.execute("INSERT INTO visits VALUES (1, 0.5, 1.0)")
    connection.close()
    with pytest.raises(InvalidParameter, match="format is for files, found format='csv'"):
        open_stream(f"sqlite:///{path}?table=visits&order=id", target="y", format="csv")


def test_a_table_with_fewer_rows_than_it_says(tmp_path: Path) -> None:
    columns = parquet(tmp_path)
    columns.facts = replace(columns.facts, n_rows=11)
    with pytest.raises(StreamError, match="found 10 rows, the file says that it has 11"):
        list(columns.batches({"x": "number"}, 4, lambda _: None))


def test_damage_is_located_behind_the_batches_that_were_read(tmp_path: Path) -> None:
    def batches() -> Iterator[Any]:
        yield from (pa.record_batch({"x": np.zeros(n)}) for n in (5, 3))
        raise OSError("Corrupt snappy compressed data")

    with pytest.raises(StreamError, match="from row 9: cannot be read, the data are damaged") as caught:
        list(parquet(tmp_path)._each(batches()))
    assert caught.value.row == 9
