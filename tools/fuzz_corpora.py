"""Pack what long runs of the fuzz targets have kept, so that the suite goes through it again.

``python tools/fuzz_corpora.py FOLDER`` packs the corpora FOLDER/KIND of the programs in ``tests/core/fuzz`` into
``tests/core/fuzz/corpora/KIND.tar.xz``: of each the shortest inputs, as many as fit.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import tarfile
from pathlib import Path

KEPT = Path(__file__).parents[1] / "tests" / "core" / "fuzz" / "corpora"
#: Bytes of a packed corpus, at most.
MOST = 100_000


def packed(inputs: list[bytes]) -> bytes:
    """An archive of inputs under their hashes: the same bytes for the same inputs."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:xz", format=tarfile.USTAR_FORMAT) as archive:
        for content in inputs:
            entry = tarfile.TarInfo(hashlib.sha1(content, usedforsecurity=False).hexdigest())
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return whole.getvalue()


def as_many_as_fit(inputs: list[bytes]) -> list[bytes]:
    """The first inputs whose archive has at most ``MOST`` bytes."""
    low, high = 0, len(inputs)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(packed(inputs[:middle])) <= MOST else (low, middle - 1)
    return inputs[:low]


def main() -> None:
    """Pack the corpora of a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    KEPT.mkdir(exist_ok=True)
    for corpus in sorted(path for path in parser.parse_args().folder.iterdir() if path.is_dir()):
        found = {path.read_bytes() for path in corpus.iterdir()}
        inputs = as_many_as_fit(sorted(found, key=lambda content: (len(content), content)))
        if inputs:
            (KEPT / f"{corpus.name}.tar.xz").write_bytes(packed(inputs))
        print(f"{corpus.name}: {len(inputs):,} of {len(found):,} inputs", flush=True)


if __name__ == "__main__":
    main()
