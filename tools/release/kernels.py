"""The C drivers of the kernels (tests/core/c), compiled by Zig for every target and run where it can be run.

Each driver ends with a digest of what it computed: it must be the one that this machine's own compiler and processor
give. Linux programs are linked statically and run by QEMU; Windows programs by Wine
(``apt-get install wine64``; not the drivers that fork); programs for macOS are compiled and linked, and nothing here
runs them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from targets import zig
from wheels import KEPT, ROOT, run

CORE, DRIVERS = ROOT / "src/privol/_core/c", ROOT / "tests/core/c"
FLAGS = ["-std=c11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", f"-I{CORE}", f"-I{DRIVERS}"]


@dataclass(frozen=True)
class Platform:
    """What drivers are compiled for, and the command that runs them there; None: nothing does."""

    name: str
    triple: str
    runner: tuple[str, ...] | None
    static: bool = True


#: qemu64 is the oldest x86-64 processor there is; QEMU 7.2 has no AVX-512.
PLATFORMS = (
    Platform("x86-64, glibc 2.17", "x86_64-linux-gnu.2.17", (), static=False),
    Platform("x86-64, musl", "x86_64-linux-musl", ()),
    Platform("x86-64, musl, oldest processor", "x86_64-linux-musl", ("qemu-x86_64-static", "-cpu", "qemu64")),
    Platform("x86-64, musl, x86-64-v3", "x86_64-linux-musl", ("qemu-x86_64-static", "-cpu", "Haswell")),
    Platform("64-bit ARM, musl", "aarch64-linux-musl", ("qemu-aarch64-static",)),
    Platform("Windows, x86-64", "x86_64-windows-gnu", ("/usr/lib/wine/wine64",), static=False),
    Platform("macOS, x86-64", "x86_64-macos", None, static=False),
    Platform("macOS, 64-bit ARM", "aarch64-macos", None, static=False),
)


def caches() -> dict[str, str]:
    return {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(KEPT / "zig"), "ZIG_LOCAL_CACHE_DIR": str(KEPT / "zig")}


def objects(compiler: list[str], folder: Path) -> list[str]:
    """Compile all kernels and return their objects."""
    made = []
    for source in sorted(CORE.glob("*/*.c")):
        made.append(str(folder / f"{source.parent.name}-{source.stem}.o"))
        run([*compiler, *FLAGS, "-c", str(source), "-o", made[-1]], env=caches())
    return made


def linked(compiler: list[str], driver: str, kernels: list[str], program: Path, flags: list[str]) -> str:
    """Compile a driver, link it with the kernels' objects and return the program."""
    run([*compiler, *FLAGS, str(DRIVERS / f"test_{driver}.c"), *kernels, *flags, "-o", str(program)], env=caches())
    return str(program)


def told_by(command: list[str], folder: str) -> str:
    wine = {"WINEPREFIX": str(KEPT / "wine"), "WINEDEBUG": "-all"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False, env=os.environ | wine)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed ({done.returncode}):\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout.strip()


def drive(chosen: list[str] | None, only: str | None) -> None:
    """Compile drivers for platforms (those whose name has the words), run them where it can be done, and compare."""
    platforms = [platform for platform in PLATFORMS if only is None or only in platform.name]
    if not platforms:
        sys.exit(f"no platform has {only!r} in its name: {', '.join(platform.name for platform in PLATFORMS)}")
    drivers = chosen or sorted(path.stem.removeprefix("test_") for path in DRIVERS.glob("test_*.c"))
    own = os.environ.get("CC", "cc").split()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        kernels = objects(own, place)
        libraries = ["-lm", "-lpthread"]
        expected = {
            driver: told_by([linked(own, driver, kernels, place / "own", libraries)], folder) for driver in drivers
        }
    print(f"{len(drivers)} drivers, compiled by {' '.join(own)}, on this machine: {' '.join(expected.values())}")
    for platform in platforms:
        runs = platform.runner is not None and (not platform.runner or shutil.which(platform.runner[0]) is not None)
        compiler = [*zig(), "cc", "-target", platform.triple]
        flags = ["-static"] if platform.static else []
        with tempfile.TemporaryDirectory() as folder:
            kernels = objects(compiler, Path(folder))
            forking = {name for name in drivers if "sys/wait.h" in DRIVERS.joinpath(f"test_{name}.c").read_text()}
            left_out = forking if "windows" in platform.triple else set()
            for driver in [name for name in drivers if name not in left_out]:
                program = linked(compiler, driver, kernels, Path(folder, f"{driver}.exe"), flags)
                if runs and (found := told_by([*(platform.runner or ()), program], folder)) != expected[driver]:
                    sys.exit(f"{driver}, {platform.name}: {found}, not {expected[driver]}")
        result = "the same" if runs else "NOT RUN, only compiled and linked"
        print(f"{platform.name}: {result}{' but for ' + ', '.join(sorted(left_out)) if left_out else ''}", flush=True)
