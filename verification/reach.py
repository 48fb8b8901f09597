"""Which functions of the kernels a driver of Eva reaches: calls are followed by name, through tables and macros too."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
CORE = HERE.parent / "src" / "privol" / "_core" / "c"
COMMENTS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
#: Arguments of a function, or of a macro that names it; then the body begins.
HEAD = re.compile(r"(?P<name>\w+)\s*\((?P<rest>(?:[^()]|\([^()]*\))*)\)\s*$")
TABLE = re.compile(r"(?P<name>\w+)(?:\[\w*\])*\s*=\s*$")
# of a member, x.name or x->name, the name is not that of a function; a designator's value is
NAMES = re.compile(r"(?<![.>\w])\w+|(?<=->)\w+(?=\s*\()")


@dataclass(frozen=True)
class Definition:
    """A function, table or macro, with the names in it."""

    name: str
    file: Path
    static: bool
    function: bool
    names: frozenset[str]


@cache
def definitions(file: Path) -> list[Definition]:
    """Return what a file defines, whatever the conditions around it."""
    text = COMMENTS.sub(" ", file.read_text()).replace("\\\n", " ")
    found = []
    for name, body in re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)([^\n]*)", text, re.MULTILINE):
        found.append(Definition(name, file, True, False, frozenset(NAMES.findall(body))))
    text = re.sub(r"^[ \t]*#[^\n]*", "", text, flags=re.MULTILINE)
    depth, begin, head, opened = 0, 0, "", 0
    for brace in re.finditer(r"[{};]", text):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if brace[0] == "{" and depth == 1:
            head, opened = text[begin : brace.start()], brace.end()
        elif brace[0] == "}" and depth == 0:
            known = HEAD.search(head) or TABLE.search(head)
            if known:
                function = known.re is HEAD
                name = known["name"]
                if function and name.isupper():  # VECTOR(name)(...): a name that a macro makes
                    name = known["rest"]
                names = frozenset(NAMES.findall(text[opened : brace.start()]))
                found.append(Definition(name, file, bool(re.search(r"\bstatic\b", head)), function, names))
            begin = brace.end()
        elif depth == 0:
            begin = brace.end()
    return found


def included(file: Path) -> set[Path]:
    """Return the files of privol that a file includes, those that they include, and itself."""
    seen, left = set(), [file]
    while left:
        each = left.pop()
        if each in seen:
            continue
        seen.add(each)
        for name in re.findall(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', each.read_text(), re.MULTILINE):
            left += [path for path in (CORE / name, each.parent / name) if path.exists()]
    return seen


def reached(driver: Path, sources: Iterable[str], contracts: set[str]) -> set[tuple[str, Path]]:
    """Return the functions that a driver reaches, without those of which it sees a contract, each with its file."""
    units = [included(file) for file in (driver, *(CORE / source for source in sources))]
    parsed = {file: definitions(file) for unit in units for file in unit}
    own = {each.name for each in parsed[driver] if each.function}
    everywhere: dict[str, list[tuple[int, Definition]]] = {}
    for k, unit in enumerate(units):
        for file in unit:
            for each in parsed[file]:
                everywhere.setdefault(each.name, []).append((k, each))
    seen: set[tuple[int, Definition]] = set()
    left = [found for found in everywhere["main"] if found[0] == 0]
    while left:
        k, each = left.pop()
        if (k, each) in seen or each.name in contracts:
            continue
        if each.name in own and each.file != driver and not each.static:
            continue  # the driver has a function in its place
        seen.add((k, each))
        for name in each.names:
            left += [(m, other) for m, other in everywhere.get(name, ()) if m == k or not other.static]
    return {(each.name, each.file) for _, each in seen if each.function and each.file.is_relative_to(CORE)}


def contracts_of(options: str) -> set[str]:
    """Return the functions of which a driver sees a contract alone, by its options."""
    return {name for names in re.findall(r"-eva-use-spec (\S+)", options) for name in names.split(",")}


def functions() -> dict[str, Path]:
    """Return every ``pv_`` function that is defined in the kernels, with its file: those of headers too."""
    return {
        each.name: file
        for file in sorted(CORE.rglob("*.[ch]"))
        for each in definitions(file)
        if each.function and each.name.startswith("pv_") and (not each.static or file.suffix == ".h")
    }


def excused() -> set[str]:
    """Return the functions that the page says are not analysed: two of its points name them, or their files."""
    text = (HERE.parent / "docs" / "machine_checked.md").read_text()
    points = re.findall(r"^\* ((?:Functions that a contract|Accesses of what no driver).*?)(?=^\*)", text, re.M | re.S)
    names = {name for point in points for name in re.findall(r"`([\w.]+)`", point)}
    return {name for name, file in functions().items() if name in names or file.name in names}


def left_out(drivers: Iterable[tuple[str, int, tuple[str, ...], str]]) -> list[str]:
    """Return the functions that no driver reaches and that the page does not excuse."""
    names = excused()
    for name, _, sources, options in drivers:
        file = HERE / "kernels" / f"{name.split()[0]}.c"
        names |= {found for found, _ in reached(file, sources, contracts_of(options))}
    return sorted(set(functions()) - names)
