"""The first rows of a stream alone: what they taught recognises them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from privol.encoding import PrivateEncoder
from privol.errors import InvalidParameter
from privol.streams import open_stream

pytest.importorskip("pyarrow")

SCHEMA = {"columns": {"a": {"range": [0, 200]}}, "target": {"column": "t", "classes": ["0", "1"]}}
SPARSE = {"rows": {"features": 5, "kept": [0, 3]}}


def rows_of(stream):
    blocks = list(stream)
    X = [block.X.toarray() if sp.issparse(block.X) else block.X for block in blocks]
    return np.concatenate(X), np.concatenate([block.y for block in blocks]), blocks


@pytest.mark.parametrize(("first", "last"), [(1, 1), (1, 70), (31, 70), (70, 70), (1, 100), (1, 1000)])
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_between(tmp_path, first, last, sparse):
    if sparse:
        dense = np.random.default_rng(1).integers(0, 2, (100, 5)) * 1.0
        source, words = (sp.csr_array(dense), np.arange(100) % 2), {"schema": SPARSE, "classes": (0, 1)}
    else:
        source, words = tmp_path / "t.csv", {"schema": SCHEMA}
        source.write_text("a,t\n" + "".join(f"{i},{i % 2}\n" for i in range(100)))
    X, y, _ = rows_of(open_stream(source, **words))
    stream = open_stream(source, **words, first_row=first, last_row=last, block_rows=16)
    found, targets, blocks = rows_of(stream)
    np.testing.assert_array_equal(found, X[first - 1 : last])
    np.testing.assert_array_equal(targets, y[first - 1 : last])
    assert len(blocks) == -(-len(found) // 16)
    assert stream.count_rows() == len(found)


def test_later_rows_are_not_read(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,t\n" + "1,0\n" * 10 + "2,neither\n")
    assert len(rows_of(open_stream(path, schema=SCHEMA, last_row=10))[0]) == 10
    with pytest.raises(Exception, match="row 11"):
        rows_of(open_stream(path, schema=SCHEMA, last_row=11))


def test_what_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,t\n1,0\n")
    with pytest.raises(InvalidParameter, match="last_row is for an input with a schema"):
        open_stream(path, target="t", last_row=1)
    with pytest.raises(InvalidParameter, match="last_row must be an integer of at least 3, found 2"):
        open_stream(path, schema=SCHEMA, first_row=3, last_row=2)
    with pytest.raises(InvalidParameter, match="last_row is for a schema that is known"):
        open_stream(path, schema=PrivateEncoder(), last_row=2)
