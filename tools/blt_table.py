"""Write src/privol/data/blt.json: optimised parameters of buffered linear Toeplitz factorisations.

For 2^6, 2^8, ..., 2^30 steps and both objectives the best parameters of 1, 2, ... 6 buffers, ending where one more
does not lower the error by 1e-7 relative, or would need rates closer than 1e-9. Takes some minutes; the last digits of
the parameters depend on the machine, those of the errors do not.

Run from the repository's root: python tools/blt_table.py [--check]
``--check`` writes nothing and fails if the stored parameters miss the optimum by more than 1e-8 relative.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from privol.factorizations import BLT, OBJECTIVES
from privol.factorizations._blt import improvements

TARGET = Path(__file__).parent.parent / "src/privol/data/blt.json"
STEPS = [2**k for k in range(6, 31, 2)]
BUFFERS = 6


def error(found: BLT, objective: str) -> float:
    return found.max_error() if objective == "max" else found.mean_error()


def complaints(kept: list[BLT], made: list[BLT], objective: str) -> list[str]:
    """The faults of stored parameters, compared with those found now."""
    if len(kept) != len(made):
        return [f"{len(kept)} entries are stored, {len(made)} found"]
    return [
        f"{len(old.theta)} buffers: stored {error(old, objective):.9f}, found {error(new, objective):.9f}"
        for old, new in zip(kept, made, strict=True)
        if abs(error(old, objective) / error(new, objective) - 1) > 1e-8
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    table: dict[str, dict[str, list[list[tuple[float, ...]]]]] = {objective: {} for objective in OBJECTIVES}
    stored = json.loads(TARGET.read_text(encoding="utf-8")) if check else table
    wrong = []
    for objective in OBJECTIVES:
        for steps in STEPS:
            made = list(improvements(steps, BUFFERS, objective))
            table[objective][str(steps)] = [[found.theta, found.omega] for found in made]
            print(objective, steps, *(f"{error(found, objective):.6f}" for found in made), flush=True)
            if check:
                kept = [BLT(steps, tuple(theta), tuple(omega)) for theta, omega in stored[objective][str(steps)]]
                wrong += [f"{objective} {steps}: {what}" for what in complaints(kept, made, objective)]
    if not check:
        lines = [
            f'"{objective}": {{\n' + ",\n".join(f'"{n}": {json.dumps(entries)}' for n, entries in found.items()) + "}"
            for objective, found in table.items()
        ]
        TARGET.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")
    print(*wrong, sep="\n")
    return min(len(wrong), 1)


if __name__ == "__main__":
    sys.exit(main())
