"""Run the noise as older processors would, by the emulator of QEMU: what is released must be the same, bit for bit.

privol must be importable (installed, or PYTHONPATH=src), and the emulator be found: `apt-get install qemu-user`.

    python tools/old_processors.py                    # digests of samples, natively and on every model
    python tools/old_processors.py --tests            # also tests/test_samplers.py under the oldest model (minutes)
    python tools/old_processors.py --kernels          # also the C drivers, compiled here, below what NumPy needs

NumPy's wheels need x86-64-v2, which Nehalem is the first to have; the C kernels alone need no more than x86-64, which
is the model qemu64. Haswell has the level x86-64-v3. QEMU 7.2 emulates AVX2 and FMA, but not AVX-512.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORE, DRIVERS = ROOT / "src/privol/_core", ROOT / "tests/c"
MODELS = ("Nehalem", "Haswell", "max")
KERNELS_ONLY = "qemu64"
FLAGS = ["-std=c11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout.strip()


def same(name: str, command: list[str], emulated: dict[str, list[str]], report: list[str] | None = None) -> None:
    """Run a command natively and emulated; end where it does not print the same."""
    native = run(command)
    print(f"{name}, natively: {native}")
    for model, emulator in emulated.items():
        level = " ".join(["", *run([*emulator, *report]).split()]) if report else ""
        found = run([*emulator, *command])
        print(f"{name}, {model}{level}: {'the same' if found == native else found}", flush=True)
        if found != native:
            sys.exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description="The noise on older processors, by emulation.")
    parser.add_argument("--qemu", default=shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static"))
    parser.add_argument("--tests", action="store_true", help="also tests/test_samplers.py on the oldest model")
    parser.add_argument("--kernels", action="store_true", help=f"also the C drivers on {KERNELS_ONLY}")
    options = parser.parse_args()
    if not options.qemu:
        parser.error("no qemu-x86_64 found: give its path with --qemu")
    emulated = {model: [options.qemu, "-cpu", model] for model in MODELS}
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "tests"), *filter(None, sys.path)])
    level = "from privol._core._noise import instruction_set; print(instruction_set())"
    python = [sys.executable, "-c"]
    same("samples", [*python, "from test_samplers import DIGEST; exec(DIGEST)"], emulated, [*python, level])
    if options.kernels:
        with tempfile.TemporaryDirectory() as folder:
            for driver in ("bits", "discrete", "first_pass", "iterate", "lattice", "math", "mixture", "rows"):
                program = f"{folder}/{driver}"
                sources = [str(DRIVERS / f"test_{driver}.c"), *map(str, sorted(CORE.glob("[a-z]*.c")))]
                includes = [f"-I{CORE}/include", f"-I{CORE}", f"-I{DRIVERS}"]
                run([os.environ.get("CC", "cc"), *FLAGS, *includes, *sources, "-o", program, "-lm", "-lpthread"])
                same(f"kernels ({driver})", [program], {KERNELS_ONLY: [options.qemu, "-cpu", KERNELS_ONLY]})
    if options.tests:
        # the processes that a test starts are not emulated
        chosen = ["tests/test_samplers.py", "-k", "not environment and not unknown"]
        command = [*emulated[MODELS[0]], sys.executable, "-m", "pytest", "-q", *chosen]
        print(f"tests/test_samplers.py, {MODELS[0]}: {run(command).splitlines()[-1]}")


if __name__ == "__main__":
    main()
