"""Ask the SMT solver Z3 whether claims over bit vectors have counterexamples."""

from __future__ import annotations

import re
import subprocess

Query = tuple[str, str, str]


def answers(what: str, queries: list[Query]) -> list[str]:
    """Ask about every name, SMT-LIB text and expected answer; another answer than expected ends the program."""
    lines = []
    for name, text, expected in queries:
        ran = subprocess.run(["z3", "-in", "-T:120"], input=text, capture_output=True, text=True, check=False)
        answer = ran.stdout.strip()
        if not re.fullmatch("sat|unsat", answer) or answer != expected:
            raise SystemExit(f"{what}, {name}: the solver says {answer or ran.stderr!r}, expected was {expected}")
        lines.append(f"{name}: {'has no solution' if answer == 'unsat' else 'has one'}")
    return lines
