"""Columns of hashed categories: buckets that are kept, buckets that share features, and one without a feature."""

from __future__ import annotations

from schema_tables import encoded
from sklearn.utils import murmurhash3_32

from privol.encoding.schema import Schema


def one(column, cells, **parts):
    """Feature names and rows of a table of one column."""
    encoder, X, _ = encoded({"a": cells}, {"columns": {"a": column}, **parts})
    return list(encoder.feature_names), X.tolist()


def test_kept_buckets():
    cells = ["a", "b", "c", "d", "e", None]
    hashes = [murmurhash3_32(c.encode(), seed=0, positive=True) for c in cells[:-1]]
    kept = [hashes[2] % 4096, hashes[0] % 4096]
    names, rows = one({"hash": 4096, "kept": kept, "rest": 4}, cells)
    assert names == [f"a#{kept[0]}", f"a#{kept[1]}", *(f"a#other{i}" for i in range(4)), "a=(missing)"]
    assert [row.index(1) for row in rows] == [1, 2 + hashes[1] % 4, 0, 2 + hashes[3] % 4, 2 + hashes[4] % 4, 6]
    assert {sum(row) for row in rows} == {1}
    names, rows = one({"hash": 4096, "kept": kept, "missing": "zero"}, cells)
    assert names == [f"a#{bucket}" for bucket in kept]
    assert rows == [[0, 1], [0, 0], [1, 0], [0, 0], [0, 0], [0, 0]]


def test_without_kept_every_bucket_has_a_feature():
    cells = [f"t{i}" for i in range(50)]
    names, rows = one({"hash": 16}, cells)
    assert names == [*(f"a#{i}" for i in range(16)), "a=(missing)"]
    assert [row.index(1) for row in rows] == [murmurhash3_32(c.encode(), seed=0, positive=True) % 16 for c in cells]


def test_the_reference_bucket_has_no_feature():
    hashes = {text: murmurhash3_32(text.encode(), seed=0, positive=True) for text in ("u", "v", "w")}
    u, v = (hashes[text] % 64 for text in "uv")
    column = {"hash": 64, "kept": [v], "rest": 2, "reference": u, "share": 0.75}
    names, rows = one(column, ["u", " u", "v", "w", None])
    assert names == [f"a#{v}", "a#other0", "a#other1", "a=(missing)"]
    shared = [float(hashes["w"] % 2 == i) for i in range(2)]
    assert rows == [[0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0], [0, *shared, 0], [0, 0, 0, 1]]
    assert Schema.load({"columns": {"a": column}}).usual_norm == 0.5
    assert Schema.load({"columns": {"a": column}}).row_bound == 1.0
    del column["kept"]
    shares = [[float(hashes[text] % 2 == i) for i in range(2)] for text in "vw"]
    assert one(column, ["u", "v", "w", None])[1] == [[0, 0, 0], *([*share, 0] for share in shares), [0, 0, 1]]
    many = [*"uvw", *(f"t{i}" for i in range(300))]  # more than are looked up one by one
    assert one(column, many)[1][:3] == one(column, list("uvw"))[1]
    assert one({"hash": 64, "reference": u, "kept": [v], "missing": "zero"}, list("uvw"))[1] == [[0], [1], [0]]
