"""All benchmarks, one after another: ``python bench/all.py``; ``--quick`` takes few rows and rounds.

It first prints the processor, its instruction sets and the libraries, without which figures mean little, and the rates
that limits rest on (``bench/limits.py``); then the output of each script, with every figure beside its aim, its peer
and its limit. ``--json FILE`` writes them all to a file, ``--only PATTERN`` selects scripts by name, ``--list`` shows
their commands. Exit code 1: a script failed, or showed no figure.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from figures import COLLECTED

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Bench:
    """One command: the script, its usual arguments, and those of a quick run."""

    script: str
    usual: str = ""
    quick: str = ""

    def command(self, quick: bool) -> list[str]:
        """Return the command of a run."""
        return [sys.executable, str(HERE / self.script), *shlex.split(self.quick if quick else self.usual)]


BENCHES = (
    Bench("limits.py"),
    Bench("compare.py", quick="--quick"),
    Bench("noise.py", quick="--rounds 1"),
    Bench("sums.py", quick="--quick --rounds 1"),
    Bench("peers_sums.py"),
    Bench("local.py", quick="--rounds 1 --rows 20000"),
    Bench("devices.py", quick="--users 1000 --repeats 3"),
    Bench("magnitude.py", quick="--rounds 1 --count 20000"),
    Bench("network.py", quick="--rounds 1"),
    Bench("offline.py", quick="--quick --rounds 1"),
    Bench("streams.py", quick="--rounds 1 --rows 60000"),
    Bench("encoding.py", quick="--rounds 1 --rows 20000"),
    Bench("keeping.py", quick="--rounds 1 --blocks 10"),
    Bench("serve.py", quick="--rounds 1 --seconds 1"),
    Bench("parts.py", quick="--rounds 1 --rows 50000 --dask"),
    Bench("scale.py", "dense", "dense --rows 1000000"),
    Bench("scale.py", "sparse", "sparse --dims 1000000 --rounds 1 --steps 2"),
    Bench("timing_leaks.py"),
    Bench("memory_leaks.py"),
)


def machine() -> str:
    """Return the conditions of the figures."""
    from limits import machine as conditions  # only runs need what it imports, not the list of commands

    return conditions()


def ran(command: list[str], collected: Path) -> tuple[int, list[dict[str, Any]]]:
    """Run a script; return its exit code and the figures that it showed."""
    collected.write_text("")
    code = subprocess.run(command, env={**os.environ, COLLECTED: str(collected)}, check=False).returncode
    return code, [json.loads(line) for line in collected.read_text(encoding="utf-8").splitlines()]


def main() -> int:
    """Run the benchmarks and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rows and rounds: to see that all of them run")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="scripts whose name matches, such as 's*'")
    parser.add_argument("--list", action="store_true", help="show the commands")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    given = parser.parse_args()
    chosen = [bench for bench in BENCHES if fnmatchcase(bench.script.removesuffix(".py"), given.only)]
    if not chosen:
        parser.error(f"--only matches no script: {given.only}; there are {', '.join(b.script for b in BENCHES)}")
    if given.list:
        print(*(shlex.join(bench.command(given.quick)) for bench in chosen), sep="\n")
        return 0
    conditions = machine()
    print(conditions, flush=True)
    failed, figures = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for bench in chosen:
            command = bench.command(given.quick)
            print(f"\n==== {shlex.join(['python', *command[1:]])}", flush=True)
            began = time.monotonic()
            code, shown = ran(command, Path(folder, "figures"))
            print(f"---- {time.monotonic() - began:.0f} s, {len(shown)} figures", flush=True)
            figures[shlex.join([bench.script, *command[2:]])] = shown
            if code:
                failed.append(f"{bench.script}: exit code {code}")
            elif not shown:
                failed.append(f"{bench.script}: shows no figure beside its aim, peer and limit")
    if given.json:
        given.json.write_text(json.dumps({"machine": conditions, "figures": figures}, indent=1), encoding="utf-8")
    print("\n" + ("\n".join(failed) if failed else f"all {len(chosen)} ran"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
