"""Measure which lines and branches the tests reach, and write ``docs/coverage.md``: what is left needs a reason.

Run it in a clone of its own, where `pip install --no-build-isolation -e '.[test]' coverage` was done: it builds the
kernels again in place, with the counters of gcc. ``python setup.py -q build_ext --inplace`` takes them out.

    python tools/coverage_page.py build          # the kernels and Cython modules, with counters (gcc and gcov)
    python tools/coverage_page.py run            # the tests of tools/coverage.toml; with names of its runs, those alone
    python tools/coverage_page.py page           # docs/coverage.md, from all that was run since the build
    python tools/coverage_page.py open           # what has no reason yet
    python tools/coverage_page.py all            # build, run, page
    python tools/coverage_page.py python         # run and page for Python alone, where no kernel has changed since

Python is measured by coverage.py, C by gcov, Cython by gcov through the lines that Cython notes in its C. The tests run
room by room, as ``tools/coverage.toml`` says; each branch has to be taken once, not by every parameter of every test.
A place is a line of C or Python that nothing reached, or one of whose branches nothing took. A reason in
``tools/coverage.toml`` names places by file and by text of the line or by function, not by number. Exit code 1: a place
has no reason, a reason has no place, or a test failed.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LIST, PAGE = ROOT / "tools" / "coverage.toml", ROOT / "docs" / "coverage.md"
WORK = ROOT / "build" / "coverage"
PACKAGE, TESTS = ROOT / "src" / "privol", ROOT / "tests"
KERNELS = PACKAGE / "_core" / "c"
OBJECTS, DRIVERS = ROOT / "build" / "inplace", WORK / "drivers"
BEGIN, END = "<!-- figures: tools/coverage_page.py -->", "<!-- end of figures -->"
PYTHON, C, CYTHON = "Python", "C", "Cython"
LANGUAGES = {".py": PYTHON, ".c": C, ".h": C, ".pyx": CYTHON, ".pxd": CYTHON}

# The last -O counts: kernels branch by branch as they are written, what Cython writes a little optimised.
COMPILER = """#!/bin/sh
level=-O1
case "$*" in *core/c/*) level=-O0 ;; esac
exec ${COVERAGE_CC:-gcc} "$@" --coverage -fprofile-update=atomic $level
"""
# Cython notes its lines in the C that it writes, and setup.py does not write it again.
TRANSLATE = """
import runpy, sys
from Cython.Compiler import Options
Options.default_options["emit_linenums"] = True
sys.argv = ["setup.py", "--quiet", "--name"]
runpy.run_path("setup.py", run_name="__main__")
"""
SETTINGS = """[run]
branch = true
parallel = true
source_pkgs = privol
data_file = {data}
{patch}
[report]
exclude_also =
    if TYPE_CHECKING:
    @overload
"""


@dataclass
class Lines:
    """What was counted in a file: how often each line was reached, and each of its branches taken."""

    reached: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    taken: dict[int, list[int]] = field(default_factory=dict)

    def add(self, line: int, count: int, branches: Sequence[int]) -> None:
        """Add one copy of a line: an inlined function, an included header, another file's object."""
        self.reached[line] += count
        known = self.taken.setdefault(line, [])
        known.extend([0] * (len(branches) - len(known)))
        for at, times in enumerate(branches):
            known[at] += times

    def open(self) -> list[int]:
        """Return the lines that nothing reached, or with a branch that nothing took."""
        return sorted(line for line, count in self.reached.items() if not count or 0 in self.taken.get(line, ()))

    def counts(self) -> list[int]:
        """Return lines, lines reached, branches, branches taken."""
        branches = [times for some in self.taken.values() for times in some]
        return [len(self.reached), sum(map(bool, self.reached.values())), len(branches), sum(map(bool, branches))]


@dataclass(frozen=True)
class Entry:
    """What a reason explains: files by a pattern; of them texts of the line and patterns of functions, if given.

    ``raises``: only what does nothing but raise an error, or lead to it.
    """

    file: str
    text: tuple[str, ...] = ()
    function: tuple[str, ...] = ()
    raises: bool = False


@dataclass(frozen=True)
class Reason:
    """Why places are not covered."""

    id: str
    title: str
    why: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Place:
    """A line that is not covered, its function, what stands there, and whether an error is all that it leads to."""

    file: str
    line: int
    function: str
    text: str
    raises: bool


def run(command: Sequence[object], **settings: Any) -> None:
    words = [str(word) for word in command]
    if subprocess.run(words, cwd=ROOT, check=False, **settings).returncode:
        sys.exit(f"failed: {' '.join(words)[:300]}")


# Building and running


def build() -> None:
    """Translate, compile and link everything with counters, and forget what was counted before."""
    for old in [*OBJECTS.rglob("*.o*"), *OBJECTS.rglob("*.gc*"), *WORK.rglob("*.gc*"), *WORK.glob("data/.cov*")]:
        old.unlink()
    for old in [*(PACKAGE / "_core").glob("*.c"), *(PACKAGE / "_core").glob("*.so")]:
        old.unlink()
    DRIVERS.mkdir(parents=True, exist_ok=True)
    compiler = WORK / "cc"
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    run([sys.executable, "-c", TRANSLATE])
    run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], env={**os.environ, "CC": str(compiler)})


def drive() -> None:
    """Compile the C drivers of the kernels' tests with the kernels that were built, and run them."""
    for old in DRIVERS.glob("*.gcda"):
        old.unlink()
    kernels = sorted((OBJECTS / "src" / "privol" / "_core" / "c").rglob("*.o"))
    for driver in sorted((TESTS / "core" / "c").glob("test_*.c")):
        program = DRIVERS / driver.stem
        flags = ["-std=c11", "-ffp-contract=off", "-fno-math-errno", f"-I{KERNELS}", f"-I{driver.parent}"]
        run([WORK / "cc", driver, *flags, *kernels, "-lm", "-pthread", "-o", program])
        run([program], stdout=subprocess.DEVNULL)


def jobs_of(step: dict[str, Any]) -> list[list[str]]:
    """Return the paths of each pytest that a run consists of: a room each, or what the list names."""
    if "tests" in step:
        named = [[path for name in names.split() for path in sorted(TESTS.glob(name))] for names in step["tests"]]
        return [[str(path.relative_to(ROOT)) for path in paths] for paths in named]
    rooms = sorted(path.name for path in TESTS.iterdir() if any(path.glob("test_*.py")))
    return [[f"tests/{room}"] for room in rooms]


def few(step: dict[str, Any], paths: list[str]) -> list[str]:
    """Return of each test the first parameters, those in the middle and the last."""
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", step["marks"], *paths]
    listed = subprocess.run(words, cwd=ROOT, check=False, capture_output=True, text=True).stdout
    by: dict[str, list[str]] = defaultdict(list)
    for line in listed.splitlines():
        if "::" in line:
            by[line.split("[")[0]].append(line)
    return [line for all_ in by.values() for line in dict.fromkeys([all_[0], all_[len(all_) // 2], all_[-1]])]


def test(step: dict[str, Any], paths: list[str]) -> bool:
    """Run some tests under coverage.py; return whether they passed."""
    processes = bool(step.get("processes"))
    settings = WORK / f"settings{int(processes)}.ini"
    patch = "patch =\n    subprocess\n    _exit\n" if processes else ""
    settings.write_text(SETTINGS.format(data=WORK / "data" / ".coverage", patch=patch))
    chosen = few(step, paths) if step.get("few") else paths
    if not chosen:
        return True
    words = ["-q", "-p", "no:cacheprovider", "-m", step["marks"], *chosen]
    words += [word for name in step.get("without", ()) for word in ("--deselect", f"tests/{name}")]
    command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", "-m", "pytest", *words]
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    last = (done.stdout.strip().splitlines() or ["no output"])[-1]
    print(f"{step['name']}: {' '.join(paths)}: {last} ({time.monotonic() - began:.0f} s)", flush=True)
    passed = done.returncode in (0, 5)  # 5: a room without such tests
    if not passed:
        (WORK / "failed.txt").write_text(done.stdout + done.stderr)
        print(f"see {WORK / 'failed.txt'}")
    return passed


def measure(steps: Sequence[dict[str, Any]], workers: int) -> bool:
    (WORK / "data").mkdir(parents=True, exist_ok=True)
    good = True
    for step in steps:
        if step.get("drivers"):
            drive()
            continue
        with ThreadPoolExecutor(workers) as pool:
            good &= all(list(pool.map(lambda paths, step=step: test(step, paths), jobs_of(step))))
    return good


# Reading what was counted


def name_of(source: str) -> str | None:
    """Return the name of a file in the package, by any path that gcov gives; None if it is not one's own."""
    found = re.search(r"(?:^|/)privol/(_core/.*\.(?:[ch]|pyx|pxd))$", source)
    return found[1] if found and (PACKAGE / found[1]).exists() and found[1] not in generated() else None


def written_by_cython(notes: Path) -> bool:
    """Headers in Cython's modules are optimised: branches are merged, and those of lines nobody wrote appear."""
    return notes.parent == OBJECTS / "src" / "privol" / "_core"


@functools.cache
def lines_of(file: str) -> list[str]:
    return (PACKAGE / file).read_text(encoding="utf-8").splitlines()


@functools.cache
def docstrings(file: str) -> frozenset[int]:
    text = (PACKAGE / file).read_text(encoding="utf-8")
    spans = [(found.start(), found.end()) for found in re.finditer(r'"""[\s\S]*?"""', text)]
    return frozenset(n for a, b in spans for n in range(text.count("\n", 0, a) + 1, text.count("\n", 0, b) + 2))


@functools.cache
def generated() -> set[str]:
    return {f"_core/{path.name}" for path in (PACKAGE / "_core").glob("*.c")}


def of_compiled() -> dict[str, Lines]:
    """Read the counters of gcov: kernels, their headers, and lines of Cython."""
    found: dict[str, Lines] = defaultdict(Lines)
    for notes in sorted([*OBJECTS.rglob("*.gcno"), *DRIVERS.rglob("*.gcno")]):
        command = ["gcov", "--branch-probabilities", "--json-format", "--stdout", str(notes)]
        text = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True).stdout
        for part in filter(None, text.splitlines()):
            for source in json.loads(part)["files"]:
                name = name_of(source["file"])
                if name is None or (LANGUAGES[Path(name).suffix] == C and written_by_cython(notes)):
                    continue
                cython, own = LANGUAGES[Path(name).suffix] == CYTHON, lines_of(name)
                for line in source["lines"]:
                    number, branches = line["line_number"], [] if cython else line["branches"]
                    # what Cython adds is counted as lines of docstrings, or beyond the file's end
                    if number <= len(own) and own[number - 1].strip() and not (cython and number in docstrings(name)):
                        found[name].add(number, line["count"], [one["count"] for one in branches])
    return found


def of_python() -> dict[str, Lines]:
    """Read what coverage.py recorded, all runs together."""
    settings, data, report = WORK / "settings0.ini", WORK / "all.coverage", WORK / "python.json"
    parts = [str(path) for path in sorted((WORK / "data").iterdir())]
    tool = [sys.executable, "-m", "coverage"]
    run([*tool, "combine", "-q", "--keep", f"--rcfile={settings}", f"--data-file={data}", *parts])
    run([*tool, "json", "-q", f"--rcfile={settings}", f"--data-file={data}", "-o", report])
    found = {}
    for source, words in json.loads(report.read_text(encoding="utf-8"))["files"].items():
        lines = found[Path(source).resolve().relative_to(PACKAGE).as_posix()] = Lines()
        for key, times in (("executed", 1), ("missing", 0)):
            for line in words[f"{key}_lines"]:
                lines.add(line, times, [])
            for line, _ in words[f"{key}_branches"]:
                lines.taken.setdefault(line, []).append(times)
    return found


# Places and reasons


def functions(path: Path) -> dict[int, str]:
    """Return the function around each line."""
    text, found = path.read_text(encoding="utf-8"), dict[int, str]()
    if path.suffix == ".py":

        def visit(node: ast.AST, around: str) -> None:
            for child in ast.iter_child_nodes(node):
                name = around
                if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    name = f"{around}.{child.name}" if around else child.name
                    first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
                    found.update(dict.fromkeys(range(first, (child.end_lineno or first) + 1), name))
                visit(child, name)

        visit(ast.parse(text), "")
        return found
    function = ""
    head = re.compile(r"^(?:    )?(?:cdef |cpdef |def |static |int|void|double|size_t|pv_|const ).*?\b(\w+)\([^;]*$")
    for number, line in enumerate(text.splitlines(), 1):
        begun = head.match(line)
        function = begun[1] if begun and not line.startswith("     ") else function
        found[number] = function
    return found


def ends_in_error(last: ast.stmt) -> bool:
    """Whether a statement raises, itself or by one of the functions that do nothing else."""
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return ast.unparse(last.value.func).split(".")[-1].lstrip("_") in ("refuse", "fail", "failed", "part_failed")
    return isinstance(last, ast.Raise)


def refusals(file: str, lines: Lines) -> set[int]:
    """Return the lines of blocks that end in an error and were never reached, and those of their conditions."""
    found: set[int] = set()
    if not file.endswith(".py"):
        return found
    for node in ast.walk(ast.parse((PACKAGE / file).read_text(encoding="utf-8"))):
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if not isinstance(block, list) or not block or not ends_in_error(block[-1]):
                continue
            span = range(block[0].lineno, (block[-1].end_lineno or block[-1].lineno) + 1)
            if not any(lines.reached.get(line) for line in span) and not isinstance(node, ast.FunctionDef):
                found |= {*span, *([node.lineno] if isinstance(node, ast.If | ast.ExceptHandler) else [])}
    return found


def places(counted: dict[str, Lines]) -> Iterator[Place]:
    for file, lines in sorted(counted.items()):
        if LANGUAGES[Path(file).suffix] == CYTHON:  # many of its lines hold no statement, but what Cython adds to one
            continue
        within, raising, text = functions(PACKAGE / file), refusals(file, lines), lines_of(file)
        for line in lines.open():
            yield Place(file, line, within.get(line, ""), text[line - 1].strip(), line in raising)


def reasons(words: dict[str, Any]) -> list[Reason]:
    return [
        Reason(one["id"], one["title"], one["why"], tuple(entry for at in one["at"] for entry in entries(at)))
        for one in words.get("reason", ())
    ]


def entries(at: dict[str, Any]) -> Iterator[Entry]:
    files = at["file"] if isinstance(at["file"], list) else [at["file"]]
    for file in files:
        yield Entry(file, tuple(at.get("text", ())), tuple(at.get("function", ())), at.get("raises", False))


def explained(place: Place, reason: Reason) -> Iterator[int]:
    """Yield the numbers of a reason's entries that explain a place."""
    for number, entry in enumerate(reason.entries):
        says = not entry.text or any(text in place.text for text in entry.text)
        within = not entry.function or any(fnmatchcase(place.function, name) for name in entry.function)
        if says and within and (place.raises or not entry.raises) and fnmatchcase(place.file, entry.file):
            yield number


def sort_out(found: Sequence[Place], why: Sequence[Reason]) -> tuple[dict[str, list[Place]], list[Place], list[str]]:
    """Return the places by reason, those without one, and the reasons' entries that explain none."""
    by: dict[str, list[Place]] = {reason.id: [] for reason in why}
    used: set[tuple[str, int]] = set()
    left = []
    for place in found:
        first = ""
        for reason in why:
            numbers = list(explained(place, reason))
            used |= {(reason.id, number) for number in numbers}
            first = first or (reason.id if numbers else "")
        if first:
            by[first].append(place)
        else:
            left.append(place)
    idle = [
        f"{reason.id}: {' '.join([entry.file, *entry.text, *entry.function])}"
        for reason in why
        for number, entry in enumerate(reason.entries)
        if (reason.id, number) not in used
    ]
    return by, left, idle


# The page


def room_of(file: str) -> str:
    parts = Path(file).parts
    if len(parts) == 1:
        return "(top)"
    return "/".join(parts[:3]) if parts[:2] == ("_core", "c") else parts[0]


def share(covered: int, total: int) -> str:
    """Return "97.5 %", rounded down: 100 % is all."""
    return f"{covered * 1000 // total / 10:.1f} %" if total else ""


def table(counted: dict[str, Lines], language: str, title: str) -> list[str]:
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for file, lines in counted.items():
        if LANGUAGES[Path(file).suffix] == language:
            for name in (room_of(file), "**all**"):
                sums[name] = [a + b for a, b in zip(sums[name], lines.counts(), strict=True)]
    rows = sorted(sums.items(), key=lambda item: (item[0] == "**all**", item[0]))
    if not rows:
        return []
    if language == CYTHON:
        return [f"Of {rows[-1][1][0]:,} lines of Cython {share(rows[-1][1][1], rows[-1][1][0])} are reached."]
    found = [f"| {title} | lines | reached | branches | taken |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, (lines_, reached, branches, taken) in filter(lambda row: row[1][0], rows):
        label = name if name.startswith("*") else f"`{name}`"
        found.append(f"| {label} | {lines_:,} | {share(reached, lines_)} | {branches:,} | {share(taken, branches)} |")
    return found


def spans(lines: Sequence[int]) -> str:
    """Return "3, 5-7" of line numbers."""
    found: list[list[int]] = []
    for line in lines:
        if found and line == found[-1][1] + 1:
            found[-1][1] = line
        else:
            found.append([line, line])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in found)


@dataclass(frozen=True)
class Before:
    """What a page says of C and Cython: the commit, its tables, and by a reason's title the lines of each file."""

    commit: str
    tables: list[str]
    lines: dict[str, dict[str, list[int]]]


def compiled_before(text: str) -> Before:
    """Read what was measured of C and Cython from a page."""
    part = text.split(BEGIN, 1)[1].split(END, 1)[0]
    commit = re.findall(r"at commit (\w+)", part.strip().split("\n")[0])[-1]
    lines: dict[str, dict[str, list[int]]] = {}
    for title, listed in re.findall(r"(?m)^\*\*(.+?)\*\* \(\d+ lines\)\. .*\n\n(.*)\.$", part):
        files = dict(re.findall(r"`(_core/[^`]+)` ([\d, -]+)", listed))
        lines[title] = {file: numbers(words) for file, words in files.items()}
    return Before(commit, part[part.index("| C kernels |") : part.index("## What was run")].strip().split("\n"), lines)


def numbers(words: str) -> list[int]:
    """Return the line numbers of "3, 5-7"."""
    ends = [[int(number) for number in span.split("-")] for span in words.split(", ")]
    return [line for span in ends for line in range(span[0], span[-1] + 1)]


def page(
    counted: dict[str, Lines], steps: Sequence[dict[str, Any]], why: Sequence[Reason], before: Before | None = None
) -> tuple[str, list[str]]:
    """Return the page's generated part, and what is wrong; ``before``: what it says of C and Cython stays."""
    by, left, idle = sort_out(list(places(counted)), why)
    out = [*table(counted, PYTHON, "Python"), ""]
    if before is None:
        out += [*table(counted, C, "C kernels"), "", *table(counted, CYTHON, "")]
    else:
        out += before.tables
        idle = [entry for entry in idle if ": _core/" not in entry]
        unknown = {title for title, files in before.lines.items() if files} - {reason.title for reason in why}
        idle += [f"{title}: a reason of C on the page alone" for title in sorted(unknown)]
    out += ["", "## What was run", "", *(f"* {step['what']}" for step in steps), "", "## What is not covered, and why"]
    for reason in why:
        found: dict[str, list[int]] = defaultdict(list, before.lines.get(reason.title, {}) if before else {})
        for place in by[reason.id]:
            found[place.file].append(place.line)
        listed = "; ".join(f"`{file}` {spans(lines)}" for file, lines in found.items())
        out += ["", f"**{reason.title}** ({sum(map(len, found.values()))} lines). {reason.why}", "", f"{listed}."]
    wrong = [
        f"no reason: {place.file}:{place.line} ({place.function}){' raises' * place.raises}: {place.text}"
        for place in left
    ]
    return "\n".join(out), wrong + [f"explains nothing: {entry}" for entry in idle]


def written(text: str, part: str) -> str:
    head, rest = text.split(BEGIN, 1)
    return f"{head}{BEGIN}\n{part}\n{END}{rest.split(END, 1)[1]}"


def commit_of(before: Before | None) -> str:
    """Say which source was measured."""
    asked = ["git", "log", "-1", "--format=%h", "--", str(PACKAGE)]
    commit = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    rest = f"; C and Cython, unchanged since, at commit {before.commit}" if before else ""
    return f"Measured at commit {commit}, the last one then that had changed the source{rest}; lines are as there."


def main() -> None:
    parser = argparse.ArgumentParser(description="Coverage of the tests, with a reason for what is left.")
    parser.add_argument("what", choices=["build", "run", "page", "open", "all", "python"])
    parser.add_argument("runs", nargs="*", help="runs of tools/coverage.toml; default all")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="how many rooms at a time")
    options = parser.parse_args()
    words = tomllib.loads(LIST.read_text(encoding="utf-8"))
    good, own = True, options.what == "python"
    if options.what in ("build", "all"):
        build()
    before = compiled_before(PAGE.read_text(encoding="utf-8")) if own else None
    if before:  # or the page would have old figures of new code
        run(["git", "diff", "--quiet", before.commit, "HEAD", "--", PACKAGE / "_core"])
    if options.what in ("run", "all", "python"):
        chosen = [step for step in words["run"] if not options.runs or step["name"] in options.runs]
        good = measure([step for step in chosen if not (own and step.get("drivers"))], options.workers)
    if options.what in ("page", "open", "all", "python"):
        counted = of_python() if own else {**of_python(), **of_compiled()}
        part, wrong = page(counted, words["run"], reasons(words), before)
        print("\n".join(wrong))
        good &= not wrong
        if options.what != "open":
            text = written(PAGE.read_text(encoding="utf-8"), f"{commit_of(before)}\n\n{part}")
            PAGE.write_text(text, encoding="utf-8")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
