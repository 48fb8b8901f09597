"""Change guarantee-critical code one place at a time, and check that a test fails: ``tools/mutants*.toml`` is the list.

``python tools/mutants.py`` tries all changes in a copy of the checkout, which has to be built (it takes its time);
``python tools/mutants.py 'tuning-*' local-spend`` tries some, ``--unrecorded`` those without a result in
``docs/mutants.json``. With ``CC='ccache gcc'`` a change of a kernel takes seconds. ``--list`` shows them, ``--page``
writes their number into ``docs/mutants.md``. ``--limit`` is how many seconds the tests of one change may take,
``--build`` the command that builds the copy after a change of C or Cython, ``--markdown`` and ``--json`` write the
results. The file of ``--json`` is written after every change: a second call with it resumes where the first was
stopped, and repeats undecided and broken changes, and every change whose entry, file or named tests have changed since.
``--record FILE...`` adds what such files have of the present code and tests to ``docs/mutants.json``, with the commit.
Exit code 1: a change survived that should not, or one was killed that is said to change nothing.

The tests that guard a change first run on the unchanged code: a test that fails there would kill everything.
"""

from __future__ import annotations

import argparse
import ast
import functools
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).parents[1]
LISTS = tuple(sorted(Path(__file__).parent.glob("mutants*.toml")))
PACKAGE, TESTS = Path("src", "privol"), Path("tests")
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "dist", "__pycache__", ".*_cache", ".hypothesis", ".benchmarks")
BUILT = {".c", ".h", ".pyx", ".pxd"}
SOURCES = BUILT | {".py", ".toml"}
LANGUAGES = {"C": {".c", ".h"}, "Cython": {".pyx", ".pxd"}, "Python": {".py"}, "TOML": {".toml"}}
PAGE, RESULTS = ROOT / "docs" / "mutants.md", ROOT / "docs" / "mutants.json"
DRIVERS = "test_c.py"  # compiles what it tests itself
#: What learners have for themselves, or share with those named beside them; all of it but the kernels as a path's end.
OF_LEARNERS = {
    "PIGD, PGIGA": ("learners/iterate.py", "calibration/_iterates.py", "_core/_iterate.pyx", "runs/iterate.c"),
    "NOGD": ("learners/gradient.py", "calibration/_gradients.py", "_core/_gradient.pyx", "runs/gradient.c"),
    "DPFTRL": ("learners/leader.py", "calibration/_leaders.py", "_core/_leader.pyx", "runs/leader.c"),
    "AdaptiveFTRL": ("learners/adaptive.py", "calibration/_tuned_leaders.py", "_core/_leader.pyx", "runs/leader.c"),
    "PQFTL": (
        "learners/least_squares.py", "calibration/_least_squares.py", "_core/_least_squares.pyx",
        "runs/least_squares.c",
    ),
    "MIOGD, LDPSGD": ("learners/descent.py", "calibration/_local.py", "_core/_local.pyx", "runs/local.c"),
    "BanditMIOGD": ("learners/bandit.py", "calibration/_bandit.py", "_core/_bandit.pyx", "runs/bandit.c"),
    "BANCO, AgnosticBANCO": ("learners/betting.py", "calibration/_betting.py", "_core/coin.pyx", "betting/magnitude.c"),
    "MultiscaleSGD": ("learners/experts.py", "calibration/_experts.py", "betting/experts.c"),
    "DOLA, SparseDOLA": ("learners/network.py", "calibration/_network.py", "_core/_network.pyx", "runs/network.c"),
    "OutputPerturbation": ("learners/offline.py", "calibration/_offline.py", "_core/_newton.pyx", "offline/newton.c"),
    "ObjectivePerturbation": (
        "learners/offline.py", "calibration/_objective.py", "_core/_objective.pyx", "offline/objective.c",
    ),
    "POL": ("learners/averaged.py", "calibration/_averages.py", "_core/_iterate.pyx", "runs/iterate.c"),
}  # fmt: skip
KILLED, SURVIVED, OPEN, BROKEN, EQUIVALENT = "killed", "survived", "open", "broken", "equivalent"


@dataclass(frozen=True)
class Mutant:
    """A single change of the code, and the expected result.

    ``file`` is the end of a path in the package, ``tests`` are "file::function" or "file" with the file's name alone:
    both must be unique, so that the list survives moves. ``equivalent`` says why no test can detect the change; it is
    empty if the tests must.
    """

    id: str
    what: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...] = ()
    equivalent: str = ""


@dataclass(frozen=True)
class Found:
    """The result for a mutant: ``by`` is the test that failed, ``digest`` identifies what was tried (``digest_of``)."""

    id: str
    what: str
    result: str
    by: str
    seconds: float
    expected: bool
    digest: str = ""


def load(paths: Iterable[Path] = LISTS) -> list[Mutant]:
    """Read the list, from all its files."""
    found = (words for path in paths for words in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"])
    return [Mutant(**{**words, "tests": tuple(words.get("tests", ()))}) for words in found]


def source_of(mutant: Mutant, root: Path = ROOT) -> Path:
    """The file that is changed."""
    return _only(mutant.file, root, PACKAGE)


def node_of(test: str, root: Path = ROOT) -> str:
    """The argument for pytest, from the root."""
    name, *inside = test.split("::")
    return "::".join([_only(name, root, TESTS).relative_to(root).as_posix(), *inside])


@functools.lru_cache
def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.*") if path.suffix in SOURCES]


@functools.lru_cache
def _functions(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


def _only(name: str, root: Path, folder: Path) -> Path:
    end = tuple(name.split("/"))
    found = [path for path in _files(root / folder) if path.parts[-len(end) :] == end]
    if len(found) != 1:
        raise LookupError(f"{name} is the end of {len(found)} paths in {folder.as_posix()}, not of one")
    return found[0]


def faults(mutants: Iterable[Mutant], root: Path = ROOT) -> list[str]:
    """All faults of a list: what it names must exist, and every text must occur exactly once in its file."""
    _files.cache_clear()
    _functions.cache_clear()
    found: list[str] = []
    seen: set[str] = set()
    for mutant in mutants:
        if mutant.id in seen:
            found.append(f"{mutant.id}: twice in the list")
        seen.add(mutant.id)
        if mutant.find == mutant.replace:
            found.append(f"{mutant.id}: changes nothing")
        if not mutant.tests and not mutant.equivalent:
            found.append(f"{mutant.id}: neither tests nor why it is equivalent")
        try:
            times = source_of(mutant, root).read_text().count(mutant.find)
            if times != 1:
                found.append(f"{mutant.id}: the text is {times} times in {mutant.file}")
        except LookupError as error:
            found.append(f"{mutant.id}: {error}")
        for test in mutant.tests:
            try:
                path = root / node_of(test, root).split("::")[0]
            except LookupError as error:
                found.append(f"{mutant.id}: {error}")
                continue
            if any(name.split("[")[0] not in _functions(path) for name in test.split("::")[1:]):
                found.append(f"{mutant.id}: no test {test}")
    return found


def digest_of(mutant: Mutant, root: Path = ROOT) -> str:
    """The digest of the entry, its file and the files of its tests: a result holds as long as it is the same."""
    tests = [root / node_of(test, root).split("::")[0] for test in mutant.tests]
    texts = [json.dumps(asdict(mutant)), *(path.read_text() for path in [source_of(mutant, root), *tests])]
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def entry_of(mutant: Mutant) -> str:
    """A short digest of the entry alone: a recorded result is that of this change, of the code at its commit."""
    return hashlib.sha256(json.dumps(asdict(mutant)).encode()).hexdigest()[:16]


def recorded(mutants: Iterable[Mutant], path: Path = RESULTS) -> dict[str, dict[str, str]]:
    """The recorded results of these changes, as long as their entries are the same."""
    found: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {one.id: found[one.id] for one in mutants if one.id in found and found[one.id]["entry"] == entry_of(one)}


def record(mutants: Sequence[Mutant], files: Iterable[Path], commit: str, path: Path = RESULTS) -> None:
    """Add expected results to the record, if they are of the present code and tests; the others stay."""
    found = recorded(mutants, path)
    for file in files:
        for id, one in kept(file, mutants).items():
            if one.expected:
                mutant = next(each for each in mutants if each.id == id)
                found[id] = {"result": one.result, "by": one.by, "commit": commit, "entry": entry_of(mutant)}
    lines = ",\n".join(f"{json.dumps(id)}: {json.dumps(found[id])}" for id in sorted(found))
    path.write_text("{\n" + lines + "\n}\n", encoding="utf-8")


def kept(path: Path | None, mutants: Iterable[Mutant], root: Path = ROOT) -> dict[str, Found]:
    """The results of an earlier call for these mutants in their present form."""
    if path is None or not path.exists():
        return {}
    before = {words["id"]: Found(**words) for words in json.loads(path.read_text())}
    return {
        one.id: before[one.id] for one in mutants
        if one.id in before and before[one.id].result not in {OPEN, BROKEN}
        and before[one.id].digest == digest_of(one, root)
    }  # fmt: skip


def keep(path: Path | None, found: Iterable[Found]) -> None:
    """Write the results, completely or not at all."""
    if path is not None:
        draft = path.with_name(path.name + ".draft")
        draft.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")
        os.replace(draft, path)


class Copy:
    """A copy of the checkout, in which one place at a time is changed."""

    def __init__(self, root: Path, build: str, limit: float) -> None:
        self.root, self.limit = root, limit
        self._stale = False  # the extension modules were built from other sources
        self._build = shlex.split(build)
        self._environment = os.environ | {
            "PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": "1", "HYPOTHESIS_DATABASE_FILE": os.devnull,
        }  # fmt: skip

    def build(self) -> bool:
        """Build the extension modules if the sources have changed; return whether they are up to date."""
        if self._stale:
            built = subprocess.run(self._build, cwd=self.root, env=self._environment, capture_output=True)
            self._stale = built.returncode != 0
        return not self._stale

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """While the code is changed. Extension modules are built on demand, and once more afterwards."""
        path = source_of(mutant, self.root)
        before = path.read_text()
        path.write_text(before.replace(mutant.find, mutant.replace))
        self._stale |= path.suffix in BUILT
        try:
            yield
        finally:
            path.write_text(before)
            self._stale |= path.suffix in BUILT

    def run(self, tests: Sequence[str]) -> tuple[str, str]:
        """The verdict of the tests on the present code, and the test that failed."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider"]
        command += ["-m", ""]  # all of a test, thorough cases too
        command += [node_of(test, self.root) for test in tests]
        try:
            ended = subprocess.run(
                command, cwd=self.root, env=self._environment, capture_output=True, text=True, timeout=self.limit
            )
        except subprocess.TimeoutExpired:
            return OPEN, f"more than {self.limit:g} s"
        if ended.returncode < 0:
            return KILLED, f"signal {-ended.returncode}"
        if ended.returncode == 0:
            return SURVIVED, ""
        failed = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        if not failed:
            return BROKEN, (ended.stdout + ended.stderr).strip().splitlines()[-1]
        return KILLED, failed[0].split(" ", 1)[1].split(" - ")[0].rpartition("/")[2]


def judge(mutant: Mutant, copy: Copy) -> Found:
    """Change the code, and run the tests that guard it."""
    began, digest = time.monotonic(), digest_of(mutant, copy.root)
    if not mutant.tests:
        return Found(mutant.id, mutant.what, EQUIVALENT, mutant.equivalent, 0.0, True, digest)
    drivers = [test for test in mutant.tests if test.startswith(DRIVERS)]
    rest = [test for test in mutant.tests if test not in drivers]
    with copy.changed(mutant):
        result, by = copy.run(drivers) if drivers else (SURVIVED, "")
        if result == SURVIVED and rest:
            result, by = copy.run(rest) if copy.build() else (BROKEN, "cannot be built")
    expected = result == (SURVIVED if mutant.equivalent else KILLED)
    if mutant.equivalent and expected:
        result, by = EQUIVALENT, mutant.equivalent
    return Found(mutant.id, mutant.what, result, by, time.monotonic() - began, expected, digest)


def table(found: Iterable[Found]) -> str:
    """A table for readers."""
    lines = ["| mutant | what it does | result | by |", "| --- | --- | --- | --- |"]
    cells = ([one.id, one.what, one.result, one.by] for one in found)
    return "\n".join([*lines, *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells)])


def room_of(mutant: Mutant, root: Path = ROOT) -> str:
    """The room of the changed file: a folder of the package, kernels with their family, or a top-level module."""
    place = source_of(mutant, root).relative_to(root / PACKAGE)
    parts = place.parts[:-1] or (place.stem,)
    return "/".join(parts[:3])


def of_learners(mutants: Sequence[Mutant]) -> dict[str, dict[str, int]]:
    """The number of changes in each file of each learner."""
    where = [source_of(one) for one in mutants]
    return {
        learner: {name: where.count(_only(name, ROOT, PACKAGE)) for name in files}
        for learner, files in OF_LEARNERS.items()
    }


def counts(mutants: Sequence[Mutant], root: Path = ROOT) -> str:
    """The page's summary of a list: numbers of changes by room and language, and why some change nothing."""
    lines = [f"| room | {' | '.join(LANGUAGES)} | together |", f"| --- |{' ---: |' * (len(LANGUAGES) + 1)}"]
    by_room: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        by_room.setdefault(room_of(mutant, root), []).append(mutant)
    for room, there in [*sorted(by_room.items()), ("all", list(mutants))]:
        suffixes = [source_of(one, root).suffix for one in there]
        each = [sum(suffix in kinds for suffix in suffixes) for kinds in LANGUAGES.values()]
        lines.append(f"| {'**all**' if room == 'all' else f'`{room}`'} | {' | '.join(map(str, [*each, len(there)]))} |")
    if root == ROOT:
        lines += ["", "By learner, in the files that it has for itself or shares with few:", ""]
        lines += ["| learner | changes | in |", "| --- | ---: | --- |"]
        for learner, files in of_learners(mutants).items():
            named = ", ".join(f"`{name}` {n}" for name, n in files.items())
            lines.append(f"| {learner} | {sum(files.values())} | {named} |")
    equal = [one for one in mutants if one.equivalent]
    killed = len(mutants) - len(equal)
    known = len(recorded(mutants)) if root == ROOT else 0
    lines += [
        "",
        f"`docs/mutants.json` has the results of {known} of them in their present form: the commit at which each was "
        "tried, and the test that found it.",
        "",
        f"Of these {len(mutants)}, tests must find {killed}. The other {len(equal)} have no effect:",
        "",
        "| change | why |",
        "| --- | --- |",
        *(f"| `{one.id}`: {one.what} | {one.equivalent.replace('|', chr(92) + '|')} |" for one in equal),
    ]
    return "\n".join(lines)


def written(page: str, block: str) -> str:
    """A page with the counts of the list between its two marks."""
    begin, end = "<!-- counts: tools/mutants.py -->\n", "\n<!-- end of counts -->"
    before, found, rest = page.partition(begin)
    if not found or end not in rest:
        raise ValueError(f"the page has no place for the counts: {begin.strip()} and {end.strip()}")
    return before + begin + block + end + rest.partition(end)[2]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("ids", nargs="*", default=["*"], help="names or patterns; default: all")
    parser.add_argument("--unrecorded", action="store_true", help="only those without a result in docs/mutants.json")
    parser.add_argument("--list", action="store_true", help="show them, and change nothing")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for the tests of one change")
    parser.add_argument("--build", default=f"{shlex.quote(sys.executable)} setup.py -q build_ext --inplace")
    parser.add_argument("--page", nargs="?", const=PAGE, type=Path, help="write the list's counts, and change nothing")
    parser.add_argument("--record", nargs="+", type=Path, help="files of --json whose results are added to the record")
    parser.add_argument("--markdown", type=Path, help="file for the table")
    parser.add_argument("--json", type=Path, help="file for what was found")
    words = parser.parse_args(arguments)
    mutants = [one for one in load() if any(fnmatchcase(one.id, pattern) for pattern in words.ids)]
    if wrong := faults(mutants) or ([] if mutants else [f"no mutant is called {' or '.join(words.ids)}"]):
        print(*wrong, sep="\n", file=sys.stderr)
        return 2
    if words.unrecorded:
        known = recorded(mutants)
        mutants = [one for one in mutants if one.id not in known]
    if words.list:
        print(*(f"{one.id}: {one.what}{' (equivalent)' if one.equivalent else ''}" for one in mutants), sep="\n")
        return 0
    if words.page:
        words.page.write_text(written(words.page.read_text(encoding="utf-8"), counts(mutants)), encoding="utf-8")
        return 0
    if words.record:
        head = subprocess.run(
            ["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        record(load(), words.record, head.stdout.strip())
        return 0
    done = kept(words.json, mutants)
    todo = [one for one in mutants if one.id not in done]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        root = Path(folder, "checkout")
        shutil.copytree(ROOT, root, ignore=LEFT_OUT, symlinks=True)
        copy = Copy(root, words.build, words.limit)
        guards = sorted({test for one in todo for test in one.tests})
        result, by = Copy(root, words.build, words.limit * len(todo)).run(guards) if guards else (SURVIVED, "")
        if result != SURVIVED:
            print(f"without any change: {result}, {by}", file=sys.stderr)
            return 2
        for mutant in todo:
            one = done[mutant.id] = judge(mutant, copy)
            keep(words.json, done.values())
            print(f"{one.id}: {one.result}, {one.by} ({one.seconds:.1f} s)", flush=True)
    found = [done[mutant.id] for mutant in mutants]
    if words.markdown:
        words.markdown.write_text(table(found) + "\n")
    unexpected = [one.id for one in found if not one.expected]
    print(f"{len(found)} changes, not as expected: {', '.join(unexpected) or 'none'}")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
