"""The same rows in every format of files."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from stream_files import together

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

X = np.array([[1.5, -2.0, 0.25], [0.0, 3.0, 1.0], [7.0, 0.5, -0.125], [1.0, 1.0, 1.0], [2.0, -1.0, 4.0]])
Y = np.array([0.0, 1.0, 1.0, 0.0, 1.0])
NAMES = ("a", "b", "c", "y")


def table():
    return pa.table(dict(zip(NAMES, (*X.T, Y), strict=True)))


def rows():
    return np.column_stack((X, Y)).tolist()


def arrow_file(path):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table().schema) as writer:
        writer.write_table(table())


def npy(path):
    with open(path, "wb") as file:  # a path would get a suffix
        np.save(file, np.column_stack((X, Y)))


def npz(path):
    with open(path, "wb") as file:
        np.savez(file, X=X, y=Y)


# How each format stores the rows above.
WRITERS = {
    "csv": lambda path: path.write_text("".join(",".join(map(str, row)) + "\n" for row in (NAMES, *rows()))),
    "jsonl": lambda path: path.write_text("".join(json.dumps(row) + "\n" for row in table().to_pylist())),
    "libsvm": lambda path: dump_svmlight_file(X, Y, str(path), zero_based=False),
    "npy": npy,
    "npz": npz,
    "parquet": lambda path: pq.write_table(table(), path),
    "arrow": arrow_file,
}


def digest(stream):
    """The digest of the rows, for any cut."""
    found, y = together(stream)
    return hashlib.sha256(found.tobytes() + y.tobytes()).hexdigest()
