"""How often a run's noise key occurs in the memory of its process: the figures of docs/limitations.md, "Memory".

``python bench/memory_leaks.py``, on Linux. The script takes the key of a run where the operating system provides it,
keeps it masked, and a second process searches the first one's memory for it, so that searching makes no copies. Nothing
is asserted. A closed run should leave no copy; an open one needs its key.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from figures import NONE, Limit, Row, figure, no_limit, show

import privol
from privol.noise import bits

MASK = 0x5A
ROWS = 2_000

# Reads a process number and masked bytes from its standard input, and prints how often the bytes occur in its memory.
SCANNER = """
import sys
pid, *masked = map(int, sys.stdin.read().split())
wanted, found = bytes(b ^ 0x5A for b in masked), 0
with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
    for line in maps:
        area, permissions = line.split()[:2]
        low, high = (int(end, 16) for end in area.split("-"))
        if "r" in permissions and "[v" not in line:
            memory.seek(low)
            try:
                found += memory.read(high - low).count(wanted)
            except OSError:
                pass
print(found)
"""

masked: list[int] = []
_urandom = os.urandom


def noting(size: int) -> bytes:
    key = _urandom(size)
    if size == 32:
        masked[:] = [b ^ MASK for b in key]
    return key


def copies() -> int:
    gc.collect()
    told = " ".join(map(str, (os.getpid(), *masked)))
    command = [sys.executable, "-c", SCANNER]
    return int(subprocess.run(command, input=told, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    bits.os = type("os", (), {"urandom": staticmethod(noting)})  # type: ignore[assignment]
    X = np.random.default_rng(0).normal(size=(ROWS, 20)) / 8
    y = np.where(X[:, 0] > 0, "yes", "no")
    learner = privol.PIGD(horizon=ROWS, release="last")
    learner.partial_fit(X[: ROWS // 2], y[: ROWS // 2], classes=["no", "yes"])
    needed = Limit(1.0, "an open run needs its key")
    gone = no_limit("0 can be had: the key is wiped when the run closes")
    table = [counted("a run that is open", needed)]
    learner.partial_fit(X[ROWS // 2 :], y[ROWS // 2 :]).close()
    table.append(counted("the same, closed", gone, aim="0"))
    with tempfile.TemporaryDirectory() as folder:
        kept = privol.PIGD(horizon=ROWS, release="last")
        stream = privol.open_stream((X, y), classes=("no", "yes"))
        kept.fit_stream(stream, checkpoint=privol.state.State(Path(folder) / "run", every=100))
    kept = no_limit("0 could be had: checkpoints are serialised in ordinary buffers (docs/limitations.md)")
    table.append(counted("a run that was kept on the disk, closed", kept))
    show(table)


def counted(name: str, limit: Limit, aim: str = NONE) -> Row:
    """Count the key's copies now."""
    found = copies()
    print(f"{name}: {found}")
    return figure(name, "copies", float(found), limit=limit, aim=aim)


if __name__ == "__main__":
    main()
