"""Print the results of the counterexamples of docs/errata.md.

``python tools/errata.py`` prints all of them, ``python tools/errata.py JKT-1 LZ-4`` some: each number as on the page
and as computed, and what they show. The functions are in ``tests/support/counterexamples.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import counterexamples_others  # noqa: F401 (registers its own)
from counterexamples import ERRATA


def main(names: list[str]) -> int:
    for name in names or ERRATA:
        if name not in ERRATA:
            print(f"{name}: no such erratum; there are {', '.join(ERRATA)}", file=sys.stderr)
            return 2
        found = ERRATA[name].compute()
        doc = (ERRATA[name].compute.__doc__ or "").strip()
        print(f"{name}: {ERRATA[name].compute.__name__.replace('_', ' ')}. {doc}".rstrip())
        for shown, value in found.numbers.items():
            print(f"    {shown:>12}  {value!r}")
        for words, truth in found.holds.items():
            print(f"    {'yes' if truth else 'NO':>12}  {words}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
