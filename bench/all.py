"""All benchmarks, one after another: ``python bench/all.py``; ``--quick`` takes few rows and rounds.

It first prints the processor, its instruction sets and the libraries, without which figures mean little; then the
output of each script. ``--only PATTERN`` selects scripts by name, ``--list`` shows their commands. Exit code 1: a
script failed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import privol

HERE = Path(__file__).parent
INSTRUCTIONS = ("avx2", "avx512f", "aes", "vaes", "sha_ni")


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
    Bench("parts.py", quick="--rounds 1 --rows 50000 --dask"),
    Bench("scale.py", "dense", "dense --rows 1000000"),
    Bench("scale.py", "sparse", "sparse --dims 1000000 --rounds 1 --steps 2"),
    Bench("timing_leaks.py"),
    Bench("memory_leaks.py"),
)


def machine() -> str:
    """Return the conditions of the figures: processor, its features, its load, versions."""
    import cpuinfo  # only runs need it, not the list of commands

    info = cpuinfo.get_cpu_info()
    flags = [name for name in INSTRUCTIONS if name in info.get("flags", ())]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    lines = [
        f"{info.get('brand_raw', 'unnamed processor')}, {cores} of {os.cpu_count()} processors, {' '.join(flags)}",
        f"load of the last minute {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "load not known",
    ]
    config = privol.show_config()
    libraries = ", ".join(f"{name} {found}" for name, found in config["dependencies"].items() if found)
    lines += [
        f"noise kernels of {config['instruction_set']}, {config['cipher']}",
        f"privol {config['privol']}, Python {config['python']}, {libraries}",
    ]
    return "\n".join(lines)


def main() -> int:
    """Run the benchmarks and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rows and rounds: to see that all of them run")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="scripts whose name matches, such as 's*'")
    parser.add_argument("--list", action="store_true", help="show the commands")
    given = parser.parse_args()
    chosen = [bench for bench in BENCHES if fnmatchcase(bench.script.removesuffix(".py"), given.only)]
    if not chosen:
        parser.error(f"--only matches no script: {given.only}; there are {', '.join(b.script for b in BENCHES)}")
    if given.list:
        print(*(shlex.join(bench.command(given.quick)) for bench in chosen), sep="\n")
        return 0
    print(machine(), flush=True)
    failed = []
    for bench in chosen:
        command = bench.command(given.quick)
        print(f"\n==== {shlex.join(['python', *command[1:]])}", flush=True)
        began = time.monotonic()
        code = subprocess.run(command, check=False).returncode
        print(f"---- {time.monotonic() - began:.0f} s", flush=True)
        if code:
            failed.append(f"{bench.script}: exit code {code}")
    print("\n" + ("\n".join(failed) if failed else f"all {len(chosen)} ran"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
