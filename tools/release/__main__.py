"""Build a release of privol and prove what can be proved of it on this machine: Linux, and root for clean rooms.

pip install '.[release]'
python tools/release build                      # sdist and wheels of the commit that is checked out, into dist/
python tools/release build --python python3.12 --target musllinux-x86_64 --twice
python tools/release check dist/*.whl           # what they hold
python tools/release rooms dist/*.whl           # installed into clean rooms: other Pythons, C libraries, processors
python tools/release kernels                    # the C drivers, compiled for every target
python tools/release tests                      # those marked thorough, which pytest leaves out by default
python tools/release papers dist                # digests, provenance, bill of materials
python tools/release notes                      # what the changelog says of this version; refuses a faulty one
python tools/release bounds                     # constraints for pip: the oldest dependencies that are supported
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import changelog
import contents
import kernels
import papers
import rooms
import wheels
from targets import BY_NAME

CORE = wheels.ROOT / "src" / "privol" / "_core"


def say(*words: object) -> None:
    print(*words, flush=True)


def checked(wheel: Path) -> None:
    if wrong := contents.faults(wheel, contents.modules_of(CORE)):
        sys.exit("\n".join([f"{wheel.name} must not be released:", *wrong]))
    data, rest = contents.sizes(wheel)
    say(f"{wheel.name}: {rest:,} bytes, and {data:,} of rows")


def build_all(options: argparse.Namespace) -> None:
    revision, epoch = wheels.commit()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    pythons = [wheels.builder(python) for python in options.python or [sys.executable]]
    sdist = wheels.build_sdist(pythons[0], revision, epoch, out)
    say(f"{sdist.name}: {sdist.stat().st_size:,} bytes, {papers.digest(sdist)}")
    for name in options.target or BY_NAME:
        for python in pythons:
            began = time.monotonic()
            wheel = wheels.build_wheel(BY_NAME[name], python, sdist, epoch, out)
            checked(wheel)
            say(f"  {papers.digest(wheel)}, built in {time.monotonic() - began:.0f} s")
            if options.twice:
                again(name, python, wheel, sdist, (revision, epoch))


def again(name: str, python: Path, wheel: Path, sdist: Path, origin: tuple[str, int]) -> None:
    """Build the sdist and a wheel once more, in other folders and from no cache: they must have the same bytes."""
    revision, epoch = origin
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        second = wheels.build_sdist(python, revision, epoch, Path(one))
        rebuilt = wheels.build_wheel(BY_NAME[name], python, second, epoch, Path(one), Path(two))
        for first, other in ((sdist, second), (wheel, rebuilt)):
            if papers.digest(first) != papers.digest(other):
                kept = shutil.copy(other, first.with_name(f"other-{first.name}"))
                sys.exit(f"{first.name} is not reproducible: compare it with {kept}")
    say("  built twice: the same bytes")


def check_all(options: argparse.Namespace) -> None:
    for wheel in options.files:
        checked(wheel)


def install_all(options: argparse.Namespace) -> None:
    """Install each wheel wherever it can be, and compare what it releases there with what it does elsewhere."""
    expected: dict[str, object] = {}
    tried = 0
    for room in rooms.ROOMS:
        for wheel in options.files:
            if not room.takes(wheel.name) or (options.only and options.only not in room.name):
                continue
            began = time.monotonic()
            found = rooms.learns(wheel, room)
            if expected and expected != found["bits"]:
                different = {key: value for key, value in found["bits"].items() if expected.get(key) != value}
                sys.exit(f"{room.name}: {wheel.name} releases something else: {different}, not {expected}")
            expected, tried = found["bits"], tried + 1
            seconds = time.monotonic() - began
            say(f"{room.name}: the same bits, {found['level']}, {seconds:.0f} s\n  {found['packages']}")
    for wheel in options.files:
        if not any(room.takes(wheel.name) for room in rooms.ROOMS):
            say(f"{wheel.name}: NOT TRIED, no room takes it")
    if not tried:
        sys.exit("none of these wheels fits into a room: " + ", ".join(room.name for room in rooms.ROOMS))


def write_papers(options: argparse.Namespace) -> None:
    revision, epoch = wheels.commit()
    files = [path for path in sorted(options.folder.iterdir()) if path.name.endswith((".whl", ".tar.gz"))]
    own = [path for path in files if "manylinux" in path.name and path.stem.endswith("x86_64")]
    if not own:
        sys.exit(f"{options.folder} has no wheel for this machine to list the dependencies of")
    with tempfile.TemporaryDirectory() as name:  # the notes must not name a commit that the files are not from
        sdist = wheels.build_sdist(wheels.builder(sys.executable), revision, epoch, Path(name))
        if [papers.digest(path) for path in files if path.name.endswith(".tar.gz")] != [papers.digest(sdist)]:
            sys.exit(f"the sdist in {options.folder} is not that of the commit {revision}")
    builders = {path.name: path / "bin" / "python" for path in wheels.KEPT.glob("env-*")}
    written = {
        "SHA256SUMS": papers.sums(files),
        "provenance.json": json.dumps(papers.provenance(files, revision, epoch, builders), indent=2) + "\n",
        "sbom.cdx.json": papers.bill_of_materials(own[0], epoch),
    }
    for name, text in written.items():
        (options.folder / name).write_text(text)
        say(options.folder / name)


def run_thorough(_: argparse.Namespace) -> None:
    """Run the tests that repeat others over more cases, with the Python that runs this."""
    command = [sys.executable, "-m", "pytest", "-m", "thorough", "-n", "auto"]
    if subprocess.run(command, cwd=wheels.ROOT, check=False).returncode:
        sys.exit("the thorough tests did not pass")


def version() -> str:
    """Return the version, from its one place."""
    text = wheels.ROOT.joinpath("src/privol/__init__.py").read_text(encoding="utf-8")
    return str(re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)[0])


def print_notes(_: argparse.Namespace) -> None:
    text = wheels.ROOT.joinpath("CHANGELOG.md").read_text(encoding="utf-8")
    if wrong := changelog.faults(text, version()):
        sys.exit("\n".join(["CHANGELOG.md:", *wrong]))
    say(changelog.notes(text, version()))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    building = commands.add_parser("build", help="sdist and wheels")
    building.add_argument("--target", action="append", choices=BY_NAME, help="all, if none is given")
    building.add_argument("--python", action="append", help="interpreters to build for; this one, if none is given")
    building.add_argument("--out", type=Path, default=wheels.ROOT / "dist")
    building.add_argument("--twice", action="store_true", help="build again, without caches, and compare the bytes")
    building.set_defaults(do=build_all)
    checking = commands.add_parser("check", help="what wheels hold")
    checking.add_argument("files", nargs="+", type=Path)
    checking.set_defaults(do=check_all)
    installing = commands.add_parser("rooms", help="install wheels into clean rooms")
    installing.add_argument("files", nargs="+", type=Path)
    installing.add_argument("--only", help="rooms whose name has these words")
    installing.set_defaults(do=install_all)
    driving = commands.add_parser("kernels", help="the C drivers on every target")
    driving.add_argument("--driver", action="append", help="some of them; all, if none is given")
    driving.add_argument("--only", help="platforms whose name has these words")
    driving.set_defaults(do=lambda options: kernels.drive(options.driver, options.only))
    testing = commands.add_parser("tests", help="those that pytest leaves out by default")
    testing.set_defaults(do=run_thorough)
    writing = commands.add_parser("papers", help="digests, provenance, bill of materials")
    writing.add_argument("folder", type=Path)
    writing.set_defaults(do=write_papers)
    telling = commands.add_parser("notes", help="what the changelog says of this version")
    telling.set_defaults(do=print_notes)
    bounding = commands.add_parser("bounds", help="constraints for pip: the oldest dependencies")
    bounding.set_defaults(do=lambda _: print(rooms.lower_bounds(rooms.dependencies()), end=""))
    options = parser.parse_args()
    options.do(options)


if __name__ == "__main__":
    main()
