"""Where a reader goes on: positions that are kept, and rows that are left out where it cannot begin behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from privol.encoding.labels import Labels
from privol.errors import StreamError
from privol.readers.columns import Columns
from privol.readers.open import Options, open_reader
from privol.readers.positions import Positions


def test_the_position_after_each_row() -> None:
    positions = Positions(lambda _: None)
    with pytest.raises(LookupError, match="nothing was read yet"):
        positions.after(1)
    trail = positions.begin(5, "after 5")
    positions.follow()
    for before, rows in ((5, 3), (8, 2)):
        trail.add(rows, lambda k, before=before: f"after {before + k}")
    assert [positions.after(row) for row in range(5, 11)] == [f"after {row}" for row in range(5, 11)]
    for row in (11, 7):  # not read yet; asked for after a later one
        with pytest.raises(LookupError, match=f"the position after row {row} is not known"):
            positions.after(row)


def test_a_position_is_restored_and_settled() -> None:
    restored: list[Any] = []
    settled: list[Any] = []
    positions = Positions(restored.append, lambda *words: settled.append(words))
    positions.follow()
    assert (restored, positions.followed, positions.kept) == ([], True, False)
    positions.follow({"id": 7})
    assert (restored, positions.followed, positions.kept) == ([{"id": 7}], True, True)
    positions.settled({"id": 8})
    positions.settled({"id": 9}, last=True)
    assert settled == [({"id": 8}, False), ({"id": 9}, True)]


def test_an_input_without_the_rows_that_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("a,b\n" + "".join(f"{k},0\n" for k in range(5)))
    columns = open_reader(path, Options(labels=Labels(None, None)))
    assert isinstance(columns, Columns)

    def after(rows: int) -> list[float]:
        batches = columns.batches_after(rows, {"a": "number"}, 10, lambda _: None, "those that taught")
        return [x for batch in batches for x in batch.column(0).to_pylist()]

    assert after(2) == [2.0, 3.0, 4.0]
    assert after(5) == []
    with pytest.raises(StreamError, match=r"has no more rows than those that taught \(6\)"):
        after(6)
