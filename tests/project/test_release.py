"""The tools of a release (tools/release): what they refuse, what is the same in every build, what must agree."""

from __future__ import annotations

import io
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import rattler_build
import yaml
from patience import WAIT
from places import ROOT

import privol

TOOLS = ("changelog", "contents", "papers", "rooms", "targets", "wheels")
WORKFLOWS = sorted(ROOT.joinpath(".github", "workflows").glob("*.yml"))
PROJECT = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text(encoding="utf-8"))
CHANGELOG = ROOT.joinpath("CHANGELOG.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.fast


@pytest.fixture(scope="module")
def tools():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools" / "release"))
        found = SimpleNamespace(**{name: __import__(name) for name in TOOLS})
        yield found
        for name in TOOLS:
            del sys.modules[name]


# The changelog.


def test_the_changelog_has_a_section_privacy_in_every_release(tools):
    assert tools.changelog.faults(CHANGELOG, privol.__version__) == []


RELEASES = """# Changelog

## [Unreleased]: 0.2.0

### Added

- A thing.

### Privacy

- Nothing.

## [0.1.0] - 2026-11-01

### Privacy

- Its first.
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("### Privacy\n\n- Its first.", "### Added\n\n- More.", "0.1.0 has no section Privacy"),
        ("- Its first.", "", "0.1.0 says nothing under Privacy"),
        ("### Added", "### Novelties", r"0.2.0 has sections \['Novelties'\]"),
        ("### Added", "### Privacy", "0.2.0 has its sections twice"),
        ("[Unreleased]: 0.2.0", "[0.1.9] - 2026-11-20", "the first release is 0.1.9, not 0.2.0"),
        ("[0.1.0] - 2026-11-01", "0.1.0", "neither the form"),
    ],
)
def test_a_changelog_that_lacks_something_is_refused(tools, old, new, told):
    assert tools.changelog.faults(RELEASES, "0.2.0") == []
    assert old in RELEASES
    assert re.search(told, "\n".join(tools.changelog.faults(RELEASES.replace(old, new), "0.2.0")))


def test_notes_begin_with_privacy(tools):
    assert tools.changelog.notes(RELEASES, "0.2.0") == "## Privacy\n\n- Nothing.\n\n## Added\n\n- A thing.\n\n"


# Files that say the same in other words.


def test_every_file_has_the_version_of_the_package():
    citation = yaml.safe_load(ROOT.joinpath("CITATION.cff").read_text(encoding="utf-8"))
    recipe = yaml.safe_load(ROOT.joinpath("conda", "recipe.yaml").read_text(encoding="utf-8"))
    assert citation["version"] == recipe["context"]["version"] == privol.__version__
    assert (citation["cff-version"], citation["license"]) == ("1.2.0", PROJECT["project"]["license"])


def test_the_conda_recipe_asks_for_what_the_package_needs():
    named = {"python-xxhash": "xxhash", "matplotlib-base": "matplotlib", "cython": "Cython"}

    def of(requirements):
        return {f"{named.get(name, name)}{bound}" for name, bound in (line.split() for line in requirements)}

    recipe = yaml.safe_load(ROOT.joinpath("conda", "recipe.yaml").read_text(encoding="utf-8"))["requirements"]
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = {*PROJECT["project"]["dependencies"], *extras["files"], *extras["cli"]} - {"privol[files]"}
    assert of(recipe["run"]) == wanted | {f"python{PROJECT['project']['requires-python']}"}
    assert of(set(recipe["host"]) - {"python", "pip"}) == set(PROJECT["build-system"]["requires"])


def test_the_conda_recipe_makes_a_package_for_each_python():
    """It is rendered as rattler-build does: names, versions, and the compilers that conda-forge puts in."""
    pythons = [python.removeprefix("cp3").removesuffix("-*") for python in PROJECT["tool"]["cibuildwheel"]["build"]]
    recipe = rattler_build.Stage0Recipe.from_file(ROOT / "conda" / "recipe.yaml")
    chosen = {"python": [f"3.{python}.*" for python in pythons], "c_compiler": ["gcc"], "c_stdlib": ["sysroot"]}
    made = [each.recipe for each in recipe.render(rattler_build.VariantConfig(chosen))]
    assert [each.build.string.partition("h")[0] for each in made] == [f"py3{python}" for python in pythons]
    for each in made:
        assert (each.package.name, str(each.package.version)) == ("privol", privol.__version__)
        tools = [str(each) for each in each.requirements.build]
        assert [tool.partition("_")[0] for tool in tools] == ["gcc", "sysroot"]
        assert "mpmath >=1.3" in [str(each) for each in each.requirements.run]


def test_pythons_are_the_same_everywhere(tools):
    prefix = "Programming Language :: Python :: "
    classified = [line.removeprefix(prefix) for line in PROJECT["project"]["classifiers"] if line.startswith(prefix)]
    pythons = [python for python in classified if python.startswith("3.")]
    assert pythons[0] == PROJECT["project"]["requires-python"].removeprefix(">=")
    assert PROJECT["tool"]["cibuildwheel"]["build"] == [f"cp{python.replace('.', '')}-*" for python in pythons]
    tests = yaml.safe_load(ROOT.joinpath(".github", "workflows", "tests.yml").read_text(encoding="utf-8"))
    matrix = tests["jobs"]["versions"]["strategy"]["matrix"]
    assert matrix["python"] == pythons
    assert matrix["include"] == [{"python": pythons[0], "dependencies": "minimum"}]
    assert {room.python for room in tools.rooms.ROOMS} <= set(pythons)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_trust_nothing_that_can_change(path):
    """An action is named by its digest, a job has no right that it does not ask for, and none knows a password."""
    text = path.read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {}
    used = [step["uses"] for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step]
    assert used
    assert [name for name in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", name)] == []
    assert "secrets." not in text
    assert "${{" not in "".join(step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"])


# Builds.


def sdist(path: Path, times: int, names: list[str], link: bool = False) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            entry = tarfile.TarInfo(f"privol-9/{name}")
            entry.size, entry.mtime, entry.uid, entry.uname = len(name), times, times, f"user{times}"
            entry.mode = 0o775 if name == "run" else 0o600
            archive.addfile(entry, io.BytesIO(name.encode()))
        if link:
            entry = tarfile.TarInfo("privol-9/link")
            entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(entry)
    return path


def test_an_sdist_does_not_tell_who_built_it_and_when(tools, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    one = tools.wheels.normalised(sdist(tmp_path / "a.tar.gz", 1, ["a", "run"]), 7, out)
    first = one.read_bytes()
    other = tools.wheels.normalised(sdist(tmp_path / "a.tar.gz", 2, ["run", "a"]), 7, out)
    assert other.read_bytes() == first
    with tarfile.open(other) as archive:
        told = [(entry.name, entry.mode, entry.mtime, entry.uid, entry.uname) for entry in archive]
        assert told == [("privol-9/a", 0o644, 7, 0, ""), ("privol-9/run", 0o755, 7, 0, "")]
        assert archive.extractfile("privol-9/run").read() == b"run"
    later = tools.wheels.normalised(sdist(tmp_path / "a.tar.gz", 2, ["run", "a"]), 8, out)
    assert later.read_bytes() != first
    with pytest.raises(SystemExit, match="no file: privol-9/link"):
        tools.wheels.normalised(sdist(tmp_path / "a.tar.gz", 1, ["a"], link=True), 7, out)


def test_a_build_inherits_no_flags(tools, monkeypatch):
    for name in ("CFLAGS", "LDFLAGS", "CC", "PYTHONPATH", "PRIVOL_STRICT", "SETUPTOOLS_SCM_PRETEND_VERSION"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("CCACHE_DIR", "kept")
    found = tools.wheels.environment(9)
    assert "x" not in {found.get(name) for name in os.environ}
    assert (found["CCACHE_DIR"], found["SOURCE_DATE_EPOCH"], found["PYTHONHASHSEED"]) == ("kept", "9", "0")


CODE = "int PyInit__rows(void) { return 1; }"


def module(folder: Path, code: str = CODE, *flags: str) -> bytes:
    source, made = folder / "module.c", folder / "module.so"
    source.write_text(code)
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run([*compiler, "-shared", "-fPIC", "-g0", *flags, str(source), "-o", str(made)], check=True)
    return made.read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="modules of Linux, compiled here")
@pytest.mark.parametrize(
    ("code", "flags", "told"),
    [
        (CODE, ["-s"], None),
        (CODE, ["-s", "-Wl,-rpath,$ORIGIN"], None),
        (CODE, [], "it is not stripped"),
        (CODE, ["-s", "-Wl,-rpath,/opt/of/mine"], "elsewhere than beside itself"),
        (CODE, ["-s", "-Wl,--no-as-needed", "-lresolv"], r"needs libresolv\.so\.2"),
        (CODE + "int leak(void) { return 2; }", ["-s"], "exports leak"),
        (CODE + 'const char *PyInit_x(void) { return "/tmp/builder/x.c"; }', ["-s"], "holds a path .*/tmp/builder/x.c"),
    ],
)
def test_a_module_that_must_not_be_released(tools, tmp_path, code, flags, told):
    machine = os.uname().machine
    if machine not in tools.contents.ELF:
        pytest.skip(f"no wheels for {machine}")
    made = module(tmp_path, code, *flags)
    found = "\n".join(tools.contents.faults_of_module("m.so", made, machine))
    assert re.search(told, found) if told else found == ""
    (other,) = set(tools.contents.ELF) - {machine}
    assert f"not for {other}" in "\n".join(tools.contents.faults_of_module("m.so", made, other))


def wheel_of(path: Path, files: dict[str, bytes], time: tuple[int, ...] = (2026, 1, 1, 0, 0, 0)) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo("privol/__init__.py", (2026, 1, 1, 0, 0, 0)), b"")
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, time), content)
    return path


def test_a_wheel_that_must_not_be_released(tools, tmp_path, monkeypatch):
    monkeypatch.setattr(tools.contents, "faults_of_module", lambda *_: ())
    path = tmp_path / "privol-9-cp311-cp311-musllinux_1_2_aarch64.whl"
    own = "privol/_core/_rows.cpython-311-aarch64-linux-musl.so"

    def faults(files: dict[str, bytes], **options: tuple[int, ...]) -> str:
        return "\n".join(tools.contents.faults(wheel_of(path, files, **options), {"_rows"}))

    assert faults({own: b"", "privol-9.dist-info/WHEEL": b"", "privol/data/rows": b"r" * 4_000_000}) == ""
    assert "its modules differ from those of the sources: ['_rows']" in faults({})
    assert "4,000,000 bytes beside the data" in faults({own: b"", "privol/big.py": b"r" * 4_000_000})
    assert "several times" in faults({own: b""}, time=(2026, 1, 2, 0, 0, 0))
    assert "it installs tests" in faults({own: b"", "tests/x.py": b""})
    for name in (own.replace("musl", "gnu"), own.replace("aarch64", "x86_64"), "privol/_core/_rows.so"):
        assert "would not be imported on aarch64 with musl" in faults({name: b""})
    assert tools.contents.sizes(wheel_of(path, {"privol/data/r": b"123", "privol/x.py": b"12"})) == (3, 2)
    other = path.rename(tmp_path / "privol-9-cp311-cp311-win_amd64.whl")
    assert "ends with none of the processors" in tools.contents.faults(other)[-1]


def test_wheels_go_into_rooms_that_can_use_them(tools):
    room = tools.rooms.Room("bookworm", "3.11", "aarch64", "max")
    family = "manylinux2014_aarch64.manylinux_2_17_aarch64"
    assert room.takes(f"privol-0.1.0-cp311-cp311-{family}.whl")
    for name in ("cp312-cp312-" + family, "cp311-cp311-musllinux_1_2_aarch64", "cp311-cp311-manylinux_2_17_x86_64"):
        assert not room.takes(f"privol-0.1.0-{name}.whl")
    (alpine,) = (room for room in tools.rooms.ROOMS if room.libc == "musl")
    assert alpine.takes("privol-0.1.0-cp313-cp313-musllinux_1_2_x86_64.whl")
    assert not alpine.takes("privol-0.1.0-cp313-cp313-manylinux_2_17_x86_64.whl")


def test_headers_with_a_configuration_for_each_processor(tools, tmp_path, monkeypatch):
    """Debian's have none for ARM on x86-64; where one file serves all, nothing is added."""
    include = tmp_path / "usr" / "include" / "python3.11"
    monkeypatch.setattr(tools.wheels, "run", lambda command: f"{include} x86_64-linux-gnu\n")
    arm, own = (tools.targets.BY_NAME[name] for name in ("manylinux-aarch64", "manylinux-x86_64"))
    assert tools.wheels.headers(arm, Path("python3.11"), tmp_path) == ""
    configured = include.parent / "x86_64-linux-gnu" / "python3.11"
    configured.mkdir(parents=True)
    (configured / "pyconfig.h").write_text("#define SIZEOF_LONG 8\n")
    assert tools.wheels.headers(own, Path("python3.11"), tmp_path) == ""
    flag = tools.wheels.headers(arm, Path("python3.11"), tmp_path)
    found = Path(flag.removeprefix(" -I")) / "aarch64-linux-gnu" / "python3.11" / "pyconfig.h"
    assert found.read_text() == "#define SIZEOF_LONG 8\n"


def test_wheels_that_no_room_takes_are_named(tools, capsys, monkeypatch):
    found = {"bits": {"PIGD": "1"}, "level": "baseline", "packages": ""}
    monkeypatch.setattr(tools.rooms, "learns", lambda wheel, room: found)
    wheels = [Path(f"privol-0.1.0-{name}.whl") for name in ("cp311-cp311-manylinux_2_17_x86_64", "cp39-cp39-win_amd64")]
    main = runpy.run_path(str(ROOT / "tools" / "release" / "__main__.py"))
    main["install_all"](SimpleNamespace(files=wheels, only="newest"))
    told = capsys.readouterr().out
    assert "privol-0.1.0-cp39-cp39-win_amd64.whl: NOT TRIED, no room takes it" in told
    assert "manylinux" not in told


def test_rooms_have_folders_of_their_own(tools):
    """Rooms that differ in a processor's model or in dependencies may share one: nothing else of a room is kept."""
    kinds = {(room.release, room.python, room.machine, room.libc, room.copied) for room in tools.rooms.ROOMS}
    assert len({room.folder for room in tools.rooms.ROOMS}) == len(kinds)
    pythons = PROJECT["project"]["classifiers"]
    stated = {each.rpartition(" ")[2] for each in pythons if re.search(r":: 3\.\d+$", each)}
    assert {room.python for room in tools.rooms.ROOMS} == stated


def test_a_copy_of_a_python_needs_that_python(tools, monkeypatch, tmp_path):
    monkeypatch.setattr(tools.rooms.shutil, "which", lambda name: None if name == "python3.12" else f"/usr/bin/{name}")
    monkeypatch.setattr(tools.rooms.os, "geteuid", lambda: 0)
    monkeypatch.setattr(tools.rooms, "KEPT", tmp_path)
    room = tools.rooms.Room("bookworm", "3.12", "x86_64", copied=True)
    with pytest.raises(SystemExit, match=r"no python3\.12 on its path"):
        tools.rooms.folder_of(room)


def test_sources_of_a_python_are_those_that_were_tried(tools, monkeypatch, tmp_path):
    other = tmp_path / "other.tar.gz"
    other.write_bytes(b"not the library")
    monkeypatch.setattr(tools.rooms.musl, "KEPT", tmp_path)
    monkeypatch.setitem(tools.rooms.musl.SOURCES, "zlib", (other.as_uri(), "0" * 64))
    with pytest.raises(SystemExit, match=r"other\.tar\.gz is not the file that it was"):
        tools.rooms.musl.unpacked("zlib", tmp_path)
    assert not (tmp_path / "sources" / "other.tar.gz").exists()


def test_oldest_dependencies_are_the_lower_bounds(tools):
    bounds = tools.rooms.lower_bounds(tools.rooms.dependencies())
    assert re.findall(r"^numpy==(.+)$", bounds, re.MULTILINE) == ["2.0.*"]
    assert len(bounds.splitlines()) == len(PROJECT["project"]["dependencies"]) + 1


def test_digests_are_those_that_sha256sum_checks(tools, tmp_path):
    (tmp_path / "b").write_text("b")
    (tmp_path / "a").write_text("a")
    (tmp_path / "SUMS").write_text(tools.papers.sums([tmp_path / "b", tmp_path / "a"]))
    assert [line.split()[1] for line in (tmp_path / "SUMS").read_text().splitlines()] == ["a", "b"]
    if shutil.which("sha256sum"):
        subprocess.run(["sha256sum", "--check", "--quiet", "SUMS"], cwd=tmp_path, check=True)


@pytest.mark.process
def test_eight_threads_are_compared_with_one():
    told = subprocess.run(
        [sys.executable, ROOT / "tools" / "release" / "threads.py", "--blocks", "1"],
        capture_output=True,
        text=True,
        check=True,
        timeout=WAIT,
    )
    assert re.match(r"(\d+) learners, 8 threads: as one thread", told.stdout)
