"""How far each loop of the kernels runs in Eva's analyses: ``python -m verification.loops`` writes it into the page.

A copy of the kernels says at each test of a loop what its counters are, and Eva prints every value that they may have.
The bounds are those of the drivers, not of the kernels: they say what was analysed.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from verification import eva, reach

PAGE = eva.HERE.parent / "docs" / "machine_checked_loops.md"
BEGIN, END = "<!-- loops: verification/loops.py -->\n", "\n<!-- end of loops -->"
_STEPPED = re.compile(r"(?:\+\+|--)\s*(\*?\w+)|(?<![\w.>])(\w+)\s*(?:\+\+|--|(?:[-+*/&|]|<<|>>)?=(?!=))")
_NAME = re.compile(r"(?<![.>\w])[a-z]\w*(?:(?:->|\.)\w+)*(?!\w|\s*[(\[]|->)")
_CALL = re.compile(r"\w+\([^()]*\)|'(?:\\.|[^'\\])'")
#: No counters: types, and what a cast names.
_WORDS = {"int", "int64_t", "uint64_t", "size_t", "double", "char", "const", "unsigned", "sizeof", "uint32_t", "long"}


@dataclass(frozen=True)
class Loop:
    """A loop of the kernels: its file, what stands before its body, and its counters."""

    file: str
    head: str
    counters: tuple[str, ...]


def loops_of(path: Path) -> list[tuple[int, int, Loop]]:
    """Return the loops of a file, each with where its condition begins and ends."""
    text = path.read_text()
    plain = reach.COMMENTS.sub(lambda found: " " * len(found[0]), text)
    found = []
    for start in re.finditer(r"\b(for|while) \(", plain):
        depth, at, cuts = 1, start.end(), []
        while depth:
            depth += {"(": 1, ")": -1}.get(plain[at], 0)
            if plain[at] == ";" and depth == 1:
                cuts.append(at)
            at += 1
        begin, end = (start.end(), at - 1) if start[1] == "while" else (cuts[0] + 1, cuts[1])
        condition, step = plain[begin:end], plain[end : at - 1] if cuts else ""
        names = [name for pair in _STEPPED.findall(step) for name in pair if name] or _NAME.findall(
            _CALL.sub("", condition)
        )
        counters = tuple(name for name in dict.fromkeys(names) if name not in _WORDS)
        head = " ".join(plain[start.start() : at].replace("\\\n", " ").split())
        found.append((begin, end, Loop(path.relative_to(reach.CORE).as_posix(), head, counters)))
    return found


def all_loops() -> list[Loop]:
    """Return the loops of all kernels, in the order of files and lines."""
    return [loop for path in sorted(reach.CORE.rglob("*.[ch]")) for _, _, loop in loops_of(path)]


def with_probes(folder: Path) -> list[Loop]:
    """Copy the kernels into a folder; each loop there shows its counters under its number in the list returned."""
    shutil.copytree(reach.CORE, folder, dirs_exist_ok=True)
    numbered: list[Loop] = []
    for path in sorted(reach.CORE.rglob("*.[ch]")):
        text, done, parts = path.read_text(), 0, []
        for begin, end, loop in loops_of(path):
            shown = f"Frama_C_show_each_{len(numbered)}_({', '.join(loop.counters)})"
            condition = text[begin:end].strip()
            parts += [text[done:begin], f" ({shown}, {condition or 1})"]
            done = end
            numbered.append(loop)
        (folder / path.relative_to(reach.CORE)).write_text("".join([*parts, text[done:]]))
    return numbered


def values_of(told: str) -> Iterator[tuple[int, list[str]]]:
    """Return what Eva shows of counters: the number of the loop, and a text for each of them."""
    for number, shown in re.findall(r"Frama_C_show_each_(\d+)_:((?:.*\n?)(?:^ .*\n)*)", told, re.MULTILINE):
        yield int(number), re.split(r",\s*(?![^{\[]*[}\]])", " ".join(shown.split()))


@dataclass
class Range:
    """All values of a counter so far: least and largest, None where Eva knows no bound."""

    low: int | None
    high: int | None
    pointer: bool = False

    def add(self, other: Range) -> None:
        """Take in the values of another one."""
        self.low = None if None in (self.low, other.low) else min(self.low, other.low)  # type: ignore[type-var, assignment]
        self.high = None if None in (self.high, other.high) else max(self.high, other.high)  # type: ignore[type-var, assignment]
        self.pointer |= other.pointer

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return "any"
        span = f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"
        return f"{span}, in its array" if self.pointer else span


def range_of(shown: str) -> Range:
    """Return what a printed value stands for: a set, an interval, or places in arrays."""
    pointer = "&" in shown
    plain = re.sub(r",\d+%\d+", "", shown)
    if pointer:  # of &text + {0; 1}, &text[2] and &text only what stands behind the name
        plain = " ".join(re.findall(r"&[\w.]+((?:\[\d+\])?(?:\s*\+\s*(?:\{[^}]*\}|\[[^]]*\]|\d+))?)", plain))
        if not re.search(r"\d|--", plain):
            plain = "0"
    plain = plain.replace("..", " ")
    numbers = [int(word) for word in re.findall(r"-?\d+", plain)]
    if "--" in plain or "." in plain or not numbers:
        return Range(None, None, pointer)
    if pointer and "&" in shown and re.search(r"&[\w.]+(?=\s*[;}])", shown):
        numbers.append(0)
    return Range(min(numbers), max(numbers), pointer)


def found_by(driver: tuple[str, int, tuple[str, ...], str], core: Path) -> dict[int, dict[int, Range]]:
    """Return the values of the counters of each loop that an analysis has entered."""
    # what shows values may make the analysis coarser; it goes on behind an alarm as if there were none, and without
    # the probes there is none
    _, _, told = eva.alarms_of(*driver, core=core)
    found: dict[int, dict[int, Range]] = {}
    for number, shown in values_of(told):
        here = found.setdefault(number, {})
        for k, text in enumerate(shown if shown != [""] else []):
            value = range_of(text)
            here.setdefault(k, Range(value.low, value.high)).add(value)
    return found


def measured() -> tuple[list[Loop], dict[int, dict[int, Range]], dict[int, set[str]]]:
    """Analyse every driver; return all loops, and by number what their counters may be, and who enters them."""
    together: dict[int, dict[int, Range]] = {}
    by: dict[int, set[str]] = {}
    with tempfile.TemporaryDirectory() as name:
        loops = with_probes(Path(name))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for driver, found in zip(
                eva.DRIVERS, pool.map(lambda each: found_by(each, Path(name)), eva.DRIVERS), strict=True
            ):
                for number, counters in found.items():
                    by.setdefault(number, set()).add(driver[0].split()[0])
                    here = together.setdefault(number, {})
                    for k, value in counters.items():
                        here.setdefault(k, Range(value.low, value.high)).add(value)
    return loops, together, by


def table(loops: list[Loop], found: dict[int, dict[int, Range]], by: dict[int, set[str]]) -> str:
    """Return the page's table."""
    lines = [
        f"{len(found)} of {len(loops)} loops are entered.",
        "",
        "| loop | counters at its test | drivers |",
        "| --- | --- | --- |",
    ]
    file = ""
    for number, loop in enumerate(loops):
        if loop.file != file:
            file = loop.file
            lines.append(f"| **`{file}`** | | |")
        counters = (f"`{loop.counters[k]}` {value}" for k, value in sorted(found.get(number, {}).items()))
        drivers = ", ".join(sorted(by.get(number, ()))) or "none"
        lines.append(f"| `{loop.head.replace('|', chr(92) + '|')}` | {'; '.join(counters)} | {drivers} |")
    return "\n".join(lines)


def listed(page: str) -> list[tuple[str, str]]:
    """Return the loops that a page names: file and head."""
    found, file = [], ""
    for line in page.partition(BEGIN)[2].partition(END)[0].splitlines():
        if begins := re.match(r"\| \*\*`(.*?)`\*\*", line):
            file = begins[1]
        elif row := re.match(r"\| `((?:for|while) .*?)` \| ", line):
            found.append((file, row[1].replace("\\|", "|")))
    return found


def main() -> None:
    """Measure, and write the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, begins, rest = text.partition(BEGIN)
    if not begins or END not in rest:
        raise SystemExit(f"{PAGE.name} has no place for the loops")
    PAGE.write_text(before + BEGIN + table(*measured()) + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
