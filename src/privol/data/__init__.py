"""The embedded data set: a sample of Forest Covertype (J. A. Blackard 1998, CC BY 4.0; see COVTYPE.txt here).

120,000 rows in random order, 54 features, and the cover type 1 to 7; the task is class 2 (lodgepole pine) against the
rest, or all seven classes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..streams import Stream, open_stream

__all__ = ["covtype_path", "covtype_ranges", "open_covtype", "schema_path"]

_FOLDER = Path(__file__).parent


def covtype_path() -> Path:
    """Path of the CSV file (gzip, with a header line; target column ``Cover_Type``, last)."""
    return _FOLDER / "covtype.csv.gz"


def covtype_ranges() -> dict[str, tuple[float, float]]:
    """Public (low, high) of the ten quantitative columns, chosen without looking at the rows (see COVTYPE.txt)."""
    found = json.loads((_FOLDER / "covtype_ranges.json").read_text(encoding="utf-8"))
    return {name: (float(low), float(high)) for name, (low, high) in found.items()}


def schema_path(name: str) -> Path:
    """Path of the public schema of a data set: "adult", "covtype" or "diabetic_data", as UCI has published them."""
    return _FOLDER / f"{name}.toml"


def open_covtype(*, classes: Sequence[Any] | None = None, block_rows: int = 65536) -> Stream:
    """Open the embedded rows as a stream: classes ``("not 2", 2)``, quantitative columns scaled to [-1, 1].

    Parameters
    ----------
    classes : sequence of labels, optional
        ``range(1, 8)``: all seven.
    block_rows : int, default=65536
        Rows per block.

    Returns
    -------
    Stream
        120,000 rows, 54 features; no row's norm exceeds 3.5.
    """
    return open_stream(
        covtype_path(),
        target="Cover_Type",
        classes=classes,
        positive=2 if classes is None else None,
        header=True,
        sep=",",
        ranges=covtype_ranges(),
        block_rows=block_rows,
    )
