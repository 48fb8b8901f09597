"""Audits released versions of several libraries, each in its own environment and with a time limit for each case.

    python experiments/auditing/run.py --python diffprivlib=VENV/bin/python --python opendp=VENV/bin/python

Without ``--python`` only the controls are audited, by this interpreter. Results are JSON: one record for each case,
with the tables, the event and the bounds for a claim that falls. Every library has controls in its own environment: one
that is right, and one with too little noise. The exit code is 6 if a control has the wrong result. The last line for
each library names versions, cases, processor time and results of controls; no verdict on the library is in it.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from privol.audit import CanaryAudit, Command, Domain, ProgramAudit, audit_canaries, audit_program, disclosure
from privol.errors import PrivolError, ProgramFailure
from privol.guarantees import gdp_epsilon

FOLDER = Path(__file__).parent
KINDS = {"runs": "by many runs", "canaries": "by canaries in one run", "exact": "exactly"}
LIBRARIES = sorted(path.stem.removeprefix("of_") for path in FOLDER.glob("of_*.py"))


def script(library: str) -> Path:
    """The program of a library."""
    return FOLDER / ("controls.py" if library == "controls" else f"of_{library}.py")


def cases(library: str, python: str) -> dict[str, Any]:
    """Return the cases that a program lists."""
    printed = subprocess.run([python, str(script(library))], check=True, capture_output=True, text=True, timeout=300)
    found: dict[str, Any] = json.loads(printed.stdout)
    return found


def computed(library: str, python: str, name: str) -> float:
    """Return the epsilon that a library computes for a case."""
    words = [python, str(script(library)), name, "--claim"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=600)
    if ended.returncode:
        raise ProgramFailure(f"the claim was not computed: {(ended.stderr.strip().splitlines() or ['no word'])[-1]}")
    return float(json.loads(ended.stdout))


def processor_seconds() -> float:
    """Of this process and of those that it started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def audit(command: Command, case: dict[str, Any], seconds: float, **words: Any) -> ProgramAudit | CanaryAudit:
    """Audit one case, of any kind."""
    if case["kind"] == "canaries":
        one, delta, mu, adjacency = np.eye(case["canaries"]), case["delta"], case["mu"], case["adjacency"]
        epsilon = case["epsilon"] if mu is None else gdp_epsilon(mu, delta)
        out = case["low"][0] * one if adjacency == "replace" else None
        return audit_canaries(
            command, case["high"][0] * one, alternatives=out, epsilon=epsilon, delta=delta, adjacency=adjacency, **words
        )  # fmt: skip
    levels = {int(column): values for column, values in case["levels"].items()}  # JSON keys are texts
    claim = ("epsilon", "delta", "mu", "adjacency", "sizes", "low_bits", "failures", "runs")
    return audit_program(
        command, domain=Domain(case["low"], case["high"], case["norm"], levels), seconds=seconds,
        **{word: case[word] for word in claim}, **words,
    )  # fmt: skip


def audited(
    library: str, python: str, name: str, case: dict[str, Any], seconds: float, seed: int
) -> tuple[dict[str, Any], ProgramAudit | CanaryAudit | None]:
    """Audit one case, and return its record, too; a case that fails is recorded with its error."""
    start, before = time.perf_counter(), processor_seconds()
    words = {"requests": True, "exact": case["kind"] == "exact", "timeout": max(600.0, seconds)}
    command, title = Command([python, str(script(library)), name], **words), f"{library}: {name}"
    found = None
    try:
        if case["epsilon"] == "computed":
            case = {**case, "epsilon": computed(library, python, name)}
        found = audit(command, case, seconds, random_state=seed, name=title)
        record = found.to_record()
    except (PrivolError, subprocess.TimeoutExpired) as error:
        record = {"program": title, "failed": "; ".join([str(error), *getattr(error, "__notes__", ())])}
    told = {"kind": case["kind"], "claim": case["source"], "expected": case["expected"]}
    took = {"seconds": time.perf_counter() - start, "processor_seconds": processor_seconds() - before}
    return {**record, **told, **took}, found


def is_wrong(record: dict[str, Any]) -> bool:
    """Whether a control has another result than the expected one."""
    return bool(record["expected"]) and record.get("refuted") is not (record["expected"] == "falls")


def summary(told: dict[str, Any], records: list[dict[str, Any]]) -> str:
    """What was run of a library, without a verdict on it."""
    stand, fall = ([r for r in records if r["expected"] == kind] for kind in ("stands", "falls"))
    rest = [record for record in records if not record["expected"]]
    ended = [record["kind"] for record in rest if "failed" not in record]
    kinds = ", ".join(f"{ended.count(kind)} {how}" for kind, how in KINDS.items())
    used = sum(record["processor_seconds"] for record in records)
    return (
        f"{told['library']} {told['version']}, Python {told['python']}: {len(ended)} of {len(rest)} cases audited "
        f"({kinds}) in {used:.0f} processor-seconds, controls included; right controls not "
        f"refuted: {sum(not is_wrong(r) for r in stand)} of {len(stand)}; wrong controls refuted: "
        f"{sum(not is_wrong(r) for r in fall)} of {len(fall)}"
    )


def report(folder: Path, library: str, told: dict[str, Any], name: str, found: Any) -> None:
    """Write what the maintainers of a library need to check that a claim of theirs falls."""
    source = (
        f"{told['cases'][name]['source']} (the program: {script(library).name} of privol's auditing, case {name!r})"
    )
    folder.mkdir(parents=True, exist_ok=True)
    file = re.sub(r"[^a-z0-9]+", "-", f"{told['library']} {name}".lower()).strip("-") + ".md"
    versions = {told["library"]: told["version"] or "of unknown version", "Python": told["python"]}
    (folder / file).write_text(disclosure(found, source=source, versions=versions), encoding="utf-8")


def main() -> int:
    """Audit what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", default=[], metavar="LIBRARY=PROGRAM",
                        help=f"The interpreter that has the library: {', '.join(LIBRARIES)}.")  # fmt: skip
    parser.add_argument("--case", action="append", default=[], help="Audit these cases alone.")
    parser.add_argument("--kind", action="append", choices=[*KINDS], help="Cases of these kinds alone.")
    parser.add_argument("--runs", type=int, help="At most so many, but for controls.  [default: as each case names]")
    parser.add_argument("--seconds", type=float, default=600.0, help="Of a case; begun stages end.  [default: 600]")
    parser.add_argument("--hour", type=float, default=3600.0, help="Seconds of a library.  [default: 3600]")
    parser.add_argument("--seed", type=int, default=1, help="Which tables are tried.  [default: 1]")
    parser.add_argument("--out", type=Path, help="File for the records.  [default: standard output]")
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="For the maintainers, of each claim that falls.")
    options = parser.parse_args()
    pythons = dict(word.split("=", 1) for word in options.python) or {"controls": sys.executable}
    records: list[dict[str, Any]] = []
    reports = 0
    for library, python in pythons.items():
        told = cases(library, python)
        end, first = time.perf_counter() + options.hour, len(records)
        for name, case in told["cases"].items():
            if (options.case and name not in options.case) or case["kind"] not in (options.kind or KINDS):
                continue
            left = options.seconds
            if not case["expected"]:  # controls are audited in full, even if the library's time is used up
                case["runs"] = min(case["runs"], options.runs or case["runs"])
                left = min(left, end - time.perf_counter())
            if left <= 0:
                record = {"program": f"{library}: {name}", "failed": "no time was left", "kind": case["kind"],
                          "expected": "", "processor_seconds": 0.0}  # fmt: skip
            else:
                record, found = audited(library, python, name, case, left, options.seed)
                said = record.get("failed") or ("FALLS" if record["refuted"] else "stands")
                print(f"{library}, {name}: {said} ({record['seconds']:.0f} s)", file=sys.stderr, flush=True)
                if options.report and not case["expected"] and record.get("refuted"):
                    report(options.report, library, told, name, found)
                    reports += 1
            records.append({"library": told["library"], "release": told["version"], **record})
            if options.out:
                options.out.write_text(json.dumps({"audits": records}, indent=1) + "\n", encoding="utf-8")
        print(summary(told, records[first:]), file=sys.stderr, flush=True)
    if options.report:
        print(f"reports, which belong to the maintainers first: {reports}", file=sys.stderr, flush=True)
    if not options.out:
        json.dump({"audits": records}, sys.stdout, indent=1)
    return 6 if any(map(is_wrong, records)) else 0


if __name__ == "__main__":
    sys.exit(main())
