"""Run the noise as other processors would, in the QEMU emulator: the releases must be the same, bit for bit.

privol must be importable (installed, or PYTHONPATH=src), and the emulator installed: `apt-get install qemu-user`.

    python tools/other_processors.py                    # digests of samples, natively and on every model
    python tools/other_processors.py --tests            # also the tests of samplers under the oldest model (minutes)
    python tools/other_processors.py --kernels          # also the C drivers, compiled here, below what NumPy needs
    python tools/other_processors.py --arm              # also the C drivers, compiled for 64-bit ARM with NEON

NumPy's wheels need x86-64-v2, which Nehalem is the first to have; the C kernels need only x86-64, which is the model
qemu64. Haswell has the level x86-64-v3. QEMU 7.2 emulates AVX2 and FMA, but not AVX-512. For ARM a cross-compiler is
needed as well: `apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross`.
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
CORE, DRIVERS = ROOT / "src/privol/_core/c", ROOT / "tests/core/c"
MODELS = ("Nehalem", "Haswell", "max")
KERNELS_ONLY = "qemu64"
FLAGS = ["-std=c11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
INCLUDES = [f"-I{CORE}", f"-I{DRIVERS}"]


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout.strip()


def same(name: str, native: list[str], others: dict[str, list[str]]) -> None:
    """Run a command natively and the others; end with an error if their outputs differ."""
    expected = run(native)
    print(f"{name}, natively: {expected}")
    for model, command in others.items():
        found = run(command)
        print(f"{name}, {model}: {'the same' if found == expected else found}", flush=True)
        if found != expected:
            sys.exit(1)


def compiled(driver: Path, program: Path, compiler: str, *flags: str) -> str:
    sources = [str(driver), *map(str, sorted(CORE.glob("*/*.c")))]
    run([compiler, *FLAGS, *flags, *INCLUDES, *sources, "-o", str(program), "-lm", "-lpthread"])
    return str(program)


def kernels(emulator: str, arm: tuple[str, str] | None) -> None:
    """Compare every C driver, compiled for this processor, with the oldest one and, by (compiler, emulator), ARM."""
    with tempfile.TemporaryDirectory() as folder:
        for driver in sorted(DRIVERS.glob("test_*.c")):
            native = compiled(driver, Path(folder, driver.stem), os.environ.get("CC", "cc"))
            others = {KERNELS_ONLY: [emulator, "-cpu", KERNELS_ONLY, native]}
            if arm is not None:
                # statically linked: the libraries of the other processor are not installed
                others["aarch64"] = [arm[1], compiled(driver, Path(folder, f"{driver.stem}.arm"), arm[0], "-static")]
            same(f"kernels ({driver.stem.removeprefix('test_')})", [native], others)


def main() -> None:
    parser = argparse.ArgumentParser(description="The noise on other processors, by emulation.")
    parser.add_argument("--qemu", default=shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static"))
    parser.add_argument("--tests", action="store_true", help="also tests/noise/test_samplers.py on the oldest model")
    parser.add_argument("--kernels", action="store_true", help=f"also the C drivers on {KERNELS_ONLY}")
    parser.add_argument("--arm", action="store_true", help=f"also the C drivers on {KERNELS_ONLY} and on 64-bit ARM")
    parser.add_argument("--arm-compiler", default=shutil.which("aarch64-linux-gnu-gcc"))
    parser.add_argument("--arm-qemu", default=shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static"))
    options = parser.parse_args()
    if not options.qemu:
        parser.error("no qemu-x86_64 found: give its path with --qemu")
    if options.arm and not (options.arm_compiler and options.arm_qemu):
        parser.error("no aarch64-linux-gnu-gcc or no qemu-aarch64 found: give --arm-compiler and --arm-qemu")
    emulators = {model: [options.qemu, "-cpu", model] for model in MODELS}
    folders = [str(ROOT / "tests" / name) for name in ("support", "noise")]
    os.environ["PYTHONPATH"] = os.pathsep.join([*folders, *filter(None, sys.path)])
    command = [sys.executable, "-c", "from test_samplers import DIGEST; exec(DIGEST)"]
    same("samples", command, {model: [*emulator, *command] for model, emulator in emulators.items()})
    level = [sys.executable, "-c", "from privol._core._noise import instruction_set; print(instruction_set())"]
    for model, emulator in emulators.items():
        print(f"instruction set on {model}: {run([*emulator, *level])}")
    if options.kernels or options.arm:
        kernels(options.qemu, (options.arm_compiler, options.arm_qemu) if options.arm else None)
    if options.tests:
        # the processes that a test starts are not emulated
        chosen = ["tests/noise/test_samplers.py", "-k", "not environment and not unknown"]
        command = [*emulators[MODELS[0]], sys.executable, "-m", "pytest", "-q", "-m", "", *chosen]
        print(f"tests/noise/test_samplers.py, {MODELS[0]}: {run(command).splitlines()[-1]}")


if __name__ == "__main__":
    main()
