"""Clean places to install wheels into: a Python from Debian and the libraries that it needs, and nothing else.

No compiler, no headers, no source tree, an older or newer C library than the build machine's, another kind of processor
by the emulator QEMU. They are folders that a process is confined to, made by ``mmdebstrap`` as root on Debian:
``apt-get install mmdebstrap qemu-user-static``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wheels import KEPT, ROOT, run

MIRROR = "http://deb.debian.org/debian"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
#: What Debian calls the kinds of processors.
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
#: NumPy's wheels need the C++ library.
LIBRARIES = "libstdc++6"


@dataclass(frozen=True)
class Room:
    """A Debian release, the Python that it has, and a processor.

    Attributes
    ----------
    release, python, machine : str
        Such as ``"bookworm"``, ``"3.11"``, ``"aarch64"``.
    model : str or None
        The processor's model, as QEMU names it; None: this machine's own.
    oldest : bool
        The lower bounds of all dependencies, else the newest.
    """

    release: str
    python: str
    machine: str
    model: str | None = None
    oldest: bool = False

    @property
    def name(self) -> str:
        """Return a name for tables."""
        processor = self.machine if self.model is None else f"{self.machine} ({self.model})"
        return f"Python {self.python}, {processor}, {'oldest' if self.oldest else 'newest'} dependencies"

    @property
    def tag(self) -> str:
        """Return the tag of CPython in file names of wheels."""
        return f"cp{self.python.replace('.', '')}"

    def takes(self, wheel: str) -> bool:
        """Say whether a wheel of this name can be installed here."""
        _, _, python, _, platform = wheel.removesuffix(".whl").split("-")
        return python == self.tag and platform.startswith("manylinux") and platform.endswith(self.machine)


#: Haswell is the first model with x86-64-v3, Nehalem with x86-64-v2, which NumPy's wheels need. For models below it the
#: kernels run alone (`kernels.py`). QEMU 7.2 emulates no AVX-512: x86-64-v4 is what the machine itself has, or nothing.
ROOMS = (
    Room("bookworm", "3.11", "x86_64"),
    Room("bookworm", "3.11", "x86_64", oldest=True),
    Room("bookworm", "3.11", "x86_64", "Nehalem"),
    Room("bookworm", "3.11", "x86_64", "Haswell"),
    Room("trixie", "3.13", "x86_64"),
    Room("testing", "3.14", "x86_64"),
    Room("bookworm", "3.11", "aarch64", "max"),
    Room("trixie", "3.13", "aarch64", "max"),
)


def folder_of(room: Room) -> Path:
    """Return the folder that holds the room's Python; it is made where it is not there."""
    folder = KEPT / "rooms" / f"{room.release}-{room.machine}"
    if (folder / "ready").exists():
        return folder
    if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
        sys.exit("clean rooms are made by root on Debian, by mmdebstrap: apt-get install mmdebstrap qemu-user-static")
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    chosen = f"python{room.python},{LIBRARIES}"
    command = ["mmdebstrap", "--quiet", "--mode=root", "--variant=extract", f"--keyring={KEYS}", f"--include={chosen}"]
    command.append(f"--architectures={DEBIAN[room.machine]}")
    if room.release in ("testing", "unstable"):  # a mirror of these may be some weeks old; its signature is checked
        command.append('--aptopt=Acquire::Check-Valid-Until "false"')
    run([*command, room.release, str(folder), MIRROR])
    for name in ("bin", "lib", "lib64"):  # what a package makes when it is configured, and none is here
        if not (folder / name).exists() and (folder / "usr" / name).exists():
            (folder / name).symlink_to(f"usr/{name}")
    for machine in DEBIAN:
        if emulator := shutil.which(f"qemu-{machine}-static"):
            shutil.copy(emulator, folder / "usr" / "bin")
    if compilers := [name for name in ("cc", "gcc", "clang", "tcc") if (folder / "usr/bin" / name).exists()]:
        sys.exit(f"{folder} is not clean: it has {compilers}")
    (folder / "ready").touch()
    return folder


def platforms(machine: str, libc: str = "gnu") -> list[str]:
    """Return the platform tags that pip would accept there: those that NumPy and SciPy have had since 2024."""
    versions = ("2_28", "2_27", "2_24", "2_17", "2_12", "2_5") if libc == "gnu" else ("1_2", "1_1")
    family = "manylinux" if libc == "gnu" else "musllinux"
    older = [f"manylinux2014_{machine}", f"manylinux2010_{machine}"] if libc == "gnu" else []
    return [*(f"{family}_{version}_{machine}" for version in versions), *older]


def install(wheel: Path, room: Room, constraints: Path | None) -> str:
    """Install a wheel and its dependencies into the room, from wheels alone, and return what has been installed."""
    site = folder_of(room) / "opt" / "site"
    shutil.rmtree(site, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", str(site)]
    command += ["--only-binary", ":all:", "--implementation", "cp", "--python-version", room.python]
    command += [part for abi in (room.tag, "abi3", "none") for part in ("--abi", abi)]
    command += [part for platform in platforms(room.machine) for part in ("--platform", platform)]
    command += ["--constraint", str(constraints)] if constraints else []
    run([*command, f"{wheel}[files]"])
    listed = run([sys.executable, "-m", "pip", "list", "--path", str(site), "--format", "freeze"])
    return " ".join(line for line in listed.split() if "==" in line)


def execute(room: Room, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the room's Python, confined to the room and without any of this machine's variables."""
    emulator = [] if room.model is None else [f"/usr/bin/qemu-{room.machine}-static", "-cpu", room.model]
    confined = [shutil.which("chroot") or "/usr/sbin/chroot", str(folder_of(room)), *emulator]
    return subprocess.run(
        [*confined, f"/usr/bin/python{room.python}", *arguments],
        env={"PATH": "/usr/bin", "LC_ALL": "C.UTF-8", "PYTHONPATH": "/opt/site"},
        capture_output=True,
        text=True,
        check=False,
    )


def dependencies() -> list[str]:
    """Return what pyproject.toml requires, and the extra that reads files."""
    with ROOT.joinpath("pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["files"]]


def lower_bounds(requirements: list[str]) -> str:
    """Return constraints that ask for the lower bound of every dependency.

    Examples
    --------
    >>> lower_bounds(["numpy>=2.0", "xxhash>=3.4"])
    'numpy==2.0.*\\nxxhash==3.4.*\\n'
    """
    lines = []
    for requirement in requirements:
        name, bound = requirement.split(">=")
        lines.append(f"{name}=={bound}.*\n")
    return "".join(lines)


def learns(wheel: Path, room: Room) -> dict[str, Any]:
    """Install a wheel into the room and let every learner run there; return what they released, and with what."""
    with tempfile.TemporaryDirectory() as name:
        bounds = Path(name, "oldest.txt")
        bounds.write_text(lower_bounds(dependencies()))
        packages = install(wheel, room, bounds if room.oldest else None)
    shutil.copy(Path(__file__).with_name("smoke.py"), folder_of(room) / "opt")
    done = execute(room, ["/opt/smoke.py"])
    if done.returncode:
        sys.exit(f"{room.name}: {wheel.name} failed ({done.returncode}):\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    told = json.loads(done.stdout)
    if not told["from"].startswith("/opt/site/") or told["config"]["machine"] != room.machine:
        sys.exit(f"{room.name}: what ran is not the installed wheel: {told}")
    level = told["config"]["instruction_set"]
    return {"bits": told["released"] | told["rounded"], "packages": packages, "level": level}
