"""Arrays in memory, then in a file: reading returns what was added, wherever it is stored."""

from __future__ import annotations

import numpy as np
import pytest

from privol.errors import StateError
from privol.evaluate._spool import Room, Spool


@pytest.mark.parametrize("size", [0, 100, 8 * 60, 10_000])
def test_a_spool_returns_what_was_added(size: int) -> None:
    rng = np.random.default_rng(3)
    room = Room(size)
    spool, other = Spool(np.dtype(np.float64), room), Spool(np.dtype(np.float64), room)
    parts = [rng.normal(size=(n, 3)) for n in (4, 1, 0, 9, 7)]
    whole = np.concatenate([part.reshape(-1) for part in parts])
    for part in parts:
        held = part.copy()
        spool.append(held)
        other.append(held[:, :1])
        held[:] = np.nan  # the stored values do not change
    for start in range(len(whole)):
        for count in range(len(whole) - start + 1):
            assert np.array_equal(spool.read(start, count), whole[start : start + count])
    assert np.array_equal(other.read(0, 21), np.concatenate([part[:, 0] for part in parts]))
    assert room.left == size - sum(s._ends[-1] * 8 for s in (spool, other) if s._file is None)
    spool.close()
    other.close()
    assert room.left == size


def test_what_is_read_cannot_be_written_to() -> None:
    for size in (0, 1000):
        spool = Spool(np.dtype(np.float64), Room(size))
        spool.append(np.arange(6.0))
        for count in (2, 6):
            with pytest.raises(ValueError, match="read-only"):
                spool.read(0, count)[0] = 1.0
        assert spool.read(0, 1)[0] == 0.0


def test_a_file_that_is_cut_short() -> None:
    spool = Spool(np.dtype(np.float32), Room(0))
    spool.append(np.arange(6.0))
    assert spool._file is not None
    spool._file.truncate(8)
    with pytest.raises(StateError, match="cut short"):
        spool.read(0, 6)
