"""Clean places to install wheels into: a Python and the libraries that it needs, and nothing else.

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

import musl
from wheels import KEPT, ROOT, run

MIRROR = "http://deb.debian.org/debian"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
#: What Debian calls the kinds of processors.
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
#: NumPy's wheels need the C++ library; those for musl bring it along.
LIBRARIES = "libstdc++6"
#: What modules of CPython need, where it is not Debian's own.
OF_PYTHON = "libssl3,libffi8,zlib1g,libbz2-1.0,liblzma5"
#: How platform tags begin.
FAMILIES = {"gnu": "manylinux", "musl": "musllinux"}


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
    libc : str
        ``gnu``, or ``musl`` with a Python that `musl.py` compiles.
    copied : bool
        A copy of this machine's Python of that version, for one that no release of Debian has.
    """

    release: str
    python: str
    machine: str
    model: str | None = None
    oldest: bool = False
    libc: str = "gnu"
    copied: bool = False

    @property
    def name(self) -> str:
        """Return a name for tables."""
        processor = self.machine if self.model is None else f"{self.machine} ({self.model})"
        processor += ", musl" if self.libc == "musl" else ""
        return f"Python {self.python}, {processor}, {'oldest' if self.oldest else 'newest'} dependencies"

    @property
    def tag(self) -> str:
        """Return the tag of CPython in file names of wheels."""
        return f"cp{self.python.replace('.', '')}"

    def takes(self, wheel: str) -> bool:
        """Say whether a wheel of this name can be installed here."""
        _, _, python, _, platform = wheel.removesuffix(".whl").split("-")
        family = FAMILIES[self.libc]
        return python == self.tag and platform.startswith(family) and platform.endswith(self.machine)

    @property
    def interpreter(self) -> str:
        """Return where the room's Python is."""
        return f"{'/opt/python' if self.copied or self.libc == 'musl' else '/usr'}/bin/python{self.python}"

    @property
    def folder(self) -> Path:
        """Return where the room is on this machine."""
        parts = [self.release, self.machine, *(["musl"] if self.libc == "musl" else [])]
        return KEPT / "rooms" / "-".join([*parts, *([self.python] if self.copied else [])])

    @property
    def packages(self) -> str:
        """Return the packages of Debian that it is made of."""
        if self.copied:
            return f"{LIBRARIES},{OF_PYTHON}"
        return "musl" if self.libc == "musl" else f"{LIBRARIES},python{self.python}"


#: Haswell is the first model with x86-64-v3, Nehalem with x86-64-v2, which NumPy's wheels need. For models below it the
#: kernels run alone (`kernels.py`). QEMU 7.2 emulates no AVX-512: x86-64-v4 is what the machine itself has, or nothing.
ROOMS = (
    Room("bookworm", "3.11", "x86_64"),
    Room("bookworm", "3.11", "x86_64", oldest=True),
    Room("bookworm", "3.11", "x86_64", "Nehalem"),
    Room("bookworm", "3.11", "x86_64", "Haswell"),
    Room("trixie", "3.13", "x86_64"),
    Room("testing", "3.14", "x86_64"),
    Room("bookworm", "3.12", "x86_64", copied=True),
    Room("bookworm", "3.11", "aarch64", "max"),
    Room("trixie", "3.13", "aarch64", "max"),
    Room("testing", "3.14", "aarch64", "max"),
    Room("trixie", "3.13", "x86_64", libc="musl"),
)


def folder_of(room: Room) -> Path:
    """Return the folder that holds the room's Python; it is made where it is not there."""
    folder = room.folder
    if (folder / "ready").exists():
        return folder
    if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
        sys.exit("clean rooms are made by root on Debian, by mmdebstrap: apt-get install mmdebstrap qemu-user-static")
    own = shutil.which(f"python{room.python}")
    if room.copied and own is None:
        sys.exit(f"{room.name}: this machine has no python{room.python} on its path")
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    command = ["mmdebstrap", "--quiet", "--mode=root", "--variant=extract", f"--keyring={KEYS}"]
    command += [f"--include={room.packages}", f"--architectures={DEBIAN[room.machine]}"]
    if room.release in ("testing", "unstable"):  # a mirror of these may be some weeks old; its signature is checked
        command.append('--aptopt=Acquire::Check-Valid-Until "false"')
    run([*command, room.release, str(folder), MIRROR])
    for name in ("bin", "lib", "lib64"):  # what a package makes when it is configured, and none is here
        if not (folder / name).exists() and (folder / "usr" / name).exists():
            (folder / name).symlink_to(f"usr/{name}")
    if room.libc == "musl":
        musl.python_into(folder)
    elif own and room.copied:
        copy_python(own, room.python, folder / "opt" / "python")
    for machine in DEBIAN:
        if emulator := shutil.which(f"qemu-{machine}-static"):
            shutil.copy(emulator, folder / "usr" / "bin")
    if compilers := [name for name in ("cc", "gcc", "clang", "tcc") if (folder / "usr/bin" / name).exists()]:
        sys.exit(f"{folder} is not clean: it has {compilers}")
    (folder / "ready").touch()
    return folder


def copy_python(own: str, version: str, folder: Path) -> None:
    """Copy this machine's Python of a version, without its headers and what is installed into it."""
    prefix = Path(run([own, "-c", "import sys; print(sys.base_prefix)"]).strip())
    out = shutil.ignore_patterns("site-packages", "test", "__pycache__", "*.a")
    shutil.copytree(prefix / "lib", folder / "lib", symlinks=True, ignore=out)
    (folder / "bin").mkdir()
    shutil.copy(prefix / "bin" / f"python{version}", folder / "bin")


def platforms(machine: str, libc: str = "gnu") -> list[str]:
    """Return the platform tags that pip would accept there: those that NumPy and SciPy have had since 2024."""
    versions = ("2_28", "2_27", "2_24", "2_17", "2_12", "2_5") if libc == "gnu" else ("1_2", "1_1")
    family = FAMILIES[libc]
    older = [f"manylinux2014_{machine}", f"manylinux2010_{machine}"] if libc == "gnu" else []
    return [*(f"{family}_{version}_{machine}" for version in versions), *older]


def install(wheel: Path, room: Room, constraints: Path | None) -> str:
    """Install a wheel and its dependencies into the room, from wheels alone, and return what has been installed."""
    site = folder_of(room) / "opt" / "site"
    shutil.rmtree(site, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", str(site)]
    command += ["--only-binary", ":all:", "--implementation", "cp", "--python-version", room.python]
    command += [part for abi in (room.tag, "abi3", "none") for part in ("--abi", abi)]
    command += [part for platform in platforms(room.machine, room.libc) for part in ("--platform", platform)]
    command += ["--constraint", str(constraints)] if constraints else []
    command += ["--find-links", str(musl.scikit_learn(folder_of(room)))] if room.libc == "musl" else []
    run([*command, f"{wheel}[files]"])
    listed = run([sys.executable, "-m", "pip", "list", "--path", str(site), "--format", "freeze"])
    return " ".join(line for line in listed.split() if "==" in line)


def execute(room: Room, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the room's Python, confined to the room and without any of this machine's variables."""
    emulator = [] if room.model is None else [f"/usr/bin/qemu-{room.machine}-static", "-cpu", room.model]
    confined = [shutil.which("chroot") or "/usr/sbin/chroot", str(folder_of(room)), *emulator]
    own = {"LD_LIBRARY_PATH": "/opt/python/lib"} if room.copied else {}
    return subprocess.run(
        [*confined, room.interpreter, *arguments],
        env={"PATH": "/usr/bin", "LC_ALL": "C.UTF-8", "PYTHONPATH": "/opt/site", **own},
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
