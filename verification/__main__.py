"""Run every machine-checked part: ``python -m verification``. What lacks its tool is said to be NOT CHECKED."""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from verification import (
    addresses,
    averages,
    blocks,
    certificate,
    cycles,
    decision,
    digits,
    elementary,
    first_pass,
    lanes,
    least_squares,
    mixtures,
    network,
    projections,
    recursions,
    sides,
    slopes,
    steps,
)
from verification.eva import kernels, run

HERE = Path(__file__).parent


def lemmas() -> list[str]:
    """Check the lemmas, none of which may rest on more than the axioms of Coq's real numbers."""
    return [line for script in sorted((HERE / "coq").glob("*.v")) for line in lemmas_of(script)]


def lemmas_of(script: Path) -> list[str]:
    """Check those of one script."""
    allowed = {"ClassicalDedekindReals.sig_forall_dec", "ClassicalDedekindReals.sig_not_dec"}
    allowed.add("FunctionalExtensionality.functional_extensionality_dep")
    text = script.read_text()
    theorems = re.findall(r"^Theorem (\w+)", text, re.MULTILINE)
    printed = re.findall(r"^Print Assumptions (\w+)\.", text, re.MULTILINE)
    if re.search(r"\b(Admitted|admit|Axiom|Parameter|Hypothesis|Conjecture)\b", text) or printed != theorems:
        raise SystemExit(f"{script.name}: an axiom of its own, or a theorem whose assumptions are not printed")
    with tempfile.TemporaryDirectory() as name:
        shutil.copy(script, name)
        told = run(["coqc", script.name], Path(name))
    lines = [line for line in told.splitlines() if line[:1].strip()]  # of an axiom, the first one
    used = {line.split()[0] for line in lines} - {"Axioms:", "Closed"}
    if lines.count("Axioms:") + lines.count("Closed under the global context") != len(theorems):
        raise SystemExit(f"{script.name}: not as many answers as theorems\n{told}")
    if used - allowed:
        raise SystemExit(f"{script.name} rests on {sorted(used - allowed)}")
    return [f"{theorem}: proved" for theorem in theorems]


CHECKS: list[tuple[str, str | None, Callable[[], list[str]]]] = [
    ("allowances of the first pass", None, first_pass.report),
    ("decision in double precision", None, decision.report),
    ("sums in lanes", None, lanes.report),
    ("exponential and logarithm", None, elementary.report),
    ("slopes and gradients", None, slopes.report),
    ("projections", None, projections.report),
    ("implicit steps", None, steps.report),
    ("prefix sums in doubles", None, recursions.report),
    ("moments of rows", None, least_squares.report),
    ("averages of points", None, averages.report),
    ("certificate of a gradient", None, certificate.report),
    ("messages of nodes", None, network.report),
    ("factors of vectors", None, mixtures.report),
    ("sides of caps", None, sides.report),
    ("blocks of integers", None, blocks.report),
    ("cycles and norms of encodings", None, cycles.report),
    ("addresses", "z3", addresses.report),
    ("digits of numbers", "z3", digits.report),
    ("kernels", "frama-c", kernels),
    ("lemmas", "coqc", lemmas),
]


def main() -> None:
    """Run all of them."""
    parser = argparse.ArgumentParser(prog="python -m verification", description=__doc__)
    parser.add_argument("--all", action="store_true", help="fail where a tool is missing")
    everything = parser.parse_args().all
    for name, tool, report in CHECKS:
        if tool and not shutil.which(tool):
            if everything:
                raise SystemExit(f"{name}: {tool} is not installed")
            print(f"NOT CHECKED: {name}. It needs {tool}.")
            continue
        print(f"{name}:", *report(), sep="\n  ")


if __name__ == "__main__":
    main()
