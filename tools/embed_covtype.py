"""Make the data set that is embedded in the package from the published file of Forest Covertype.

    python tools/embed_covtype.py covtype.data.gz

Draws a uniform random sample of the rows without replacement, in random order (fixed public seed), keeps the integers
as they are, adds a header with the official column names, and writes ``src/privol/data/covtype.csv.gz``.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import numpy as np

SEED = 20250101
ROWS = 120_000
LIMIT = 2_500_000  # bytes
QUANTITATIVE = (
    "Elevation",
    "Aspect",
    "Slope",
    "Horizontal_Distance_To_Hydrology",
    "Vertical_Distance_To_Hydrology",
    "Horizontal_Distance_To_Roadways",
    "Hillshade_9am",
    "Hillshade_Noon",
    "Hillshade_3pm",
    "Horizontal_Distance_To_Fire_Points",
)
NAMES = (
    *QUANTITATIVE,
    *(f"Wilderness_Area{k}" for k in range(1, 5)),
    *(f"Soil_Type{k}" for k in range(1, 41)),
    "Cover_Type",
)


def main(source: str) -> None:
    with gzip.open(source, "rt", encoding="ascii") as file:
        lines = [line.rstrip("\n") for line in file if line.strip()]
    if any(line.count(",") != len(NAMES) - 1 for line in lines):
        raise SystemExit(f"{source}: every row must have {len(NAMES)} columns")
    order = np.random.Generator(np.random.PCG64(SEED)).permutation(len(lines))[:ROWS]
    text = "\n".join([",".join(NAMES), *(lines[i] for i in order)]) + "\n"
    # a third larger than xz, but read in a fifth of the time: three times in every run of the command line
    packed = gzip.compress(text.encode("ascii"), 9, mtime=0)
    if len(packed) > LIMIT:
        raise SystemExit(f"{len(packed)} bytes, more than {LIMIT}: lower ROWS")
    target = Path(__file__).resolve().parent.parent / "src" / "privol" / "data" / "covtype.csv.gz"
    target.write_bytes(packed)
    print(f"{target.name}: {len(order)} of {len(lines)} rows, {len(packed)} bytes")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python tools/embed_covtype.py covtype.data.gz")
    main(sys.argv[1])
