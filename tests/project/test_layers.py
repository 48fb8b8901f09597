"""The import direction: lower layers know nothing of higher ones, and optional libraries have one place each.

The table in tests/support/layers.py is the design. A new module fails here until it is assigned to a layer.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from layers import COMPUTED, CORE_ORDER, KERNELS, LAZY, LIBRARIES, ONLY, OPTIONAL, RANK
from longest import LONGEST
from places import ROOT
from thorough import KEPT

PACKAGE = ROOT / "src" / "privol"

LIBC = {"math.h", "pthread.h", "stddef.h", "stdint.h", "string.h", "time.h"}
CYTHON = {"libc", "cpython", "cython"}
MAX_LINES = 600
GENERATED = {"gaussian_segments.inc.h", "gaussian_table.inc.h"}
# written by Cython
TRANSLATED = {"_cyutility.c", *(path.with_suffix(".c").name for path in PACKAGE.rglob("*.pyx"))}


class Import(NamedTuple):
    target: str  # absolute dotted name
    lazy: bool  # inside a function
    line: int


@cache
def modules() -> dict[str, Path]:
    """Dotted name of every Python module and compiled module (by its .pyx) of the package."""
    found: dict[str, Path] = {}
    for path in sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".pyx", ".pxd", ".pyi")):
        parts = list(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        found[".".join(parts) + ("" if path.suffix in (".py", ".pyx") else path.suffix)] = path
    return found


NAMES = {name.removesuffix(".pxd").removesuffix(".pyi") for name in modules()}
KNOWN = NAMES | {f"privol.{unit}" for unit in RANK}


def resolve(module: str, is_package: bool, level: int, base: str | None, names: list[str]) -> list[str]:
    """Absolute names that ``from <level dots><base> import <names>`` in a module refers to."""
    if level == 0:
        return [base or ""]
    parts = module.split(".")
    package = parts[: len(parts) - level + is_package]
    source = ".".join(package + (base.split(".") if base else []))
    return [f"{source}.{name}" if f"{source}.{name}" in KNOWN else source for name in names]


def python_imports(module: str, source: str, is_package: bool) -> list[Import]:
    found: list[Import] = []

    def visit(node: ast.AST, lazy: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend(Import(alias.name, lazy, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
            targets = resolve(module, is_package, node.level, node.module, names)
            found.extend(Import(target, lazy, node.lineno) for target in targets)
        elif isinstance(node, ast.Call):
            last = getattr(node.func, "attr", getattr(node.func, "id", ""))  # unparsing all calls takes long
            if last in ("__import__", "import_module") and ast.unparse(node.func).removeprefix("importlib.") == last:
                found.append(Import("<computed>", lazy, node.lineno))
        inner = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            visit(child, inner)

    visit(ast.parse(source), False)
    return found


CYTHON_IMPORT = re.compile(r"^(\s*)(?:from\s+(\.*)([\w.]*)\s+c?import\s+(.+)|c?import\s+([\w.]+))")


def cython_imports(module: str, source: str) -> list[Import]:
    found: list[Import] = []
    for number, line in enumerate(source.splitlines(), 1):
        match = CYTHON_IMPORT.match(line)
        if not match:
            continue
        indent, dots, base, names, plain = match.groups()
        if plain:
            found.append(Import(plain, bool(indent), number))
        else:
            listed = re.findall(r"\w+", names.split("#")[0])
            targets = resolve(module, False, len(dots), base or None, listed or [""])
            found.extend(Import(target, bool(indent), number) for target in targets)
    return found


def unit_of(name: str) -> str:
    """``privol.readers.csv`` -> ``readers``; the package itself -> ``""``."""
    return name.split(".")[1] if "." in name else ""


def complaint(module: str, imported: Import) -> str | None:
    """What is wrong with one import, or None."""
    unit, top = unit_of(module), imported.target.split(".")[0]
    if unit not in RANK:
        return f"{unit} has no layer in the table"
    if imported.target == "<computed>" and unit in COMPUTED:
        return None
    if imported.target == "<computed>":
        return "a computed import cannot be checked"
    if imported.lazy and unit != "cli" and top not in sys.stdlib_module_names and (unit, top) not in LAZY:
        return f"{imported.target} is imported inside a function, without a reason in the table"
    if top == "privol":
        other = unit_of(imported.target)
        if other in ("", unit):
            return core_order(module, imported.target) if unit == other == "_core" else None
        if other not in RANK:
            return f"{other} has no layer in the table"
        if unit in ONLY and other not in ONLY[unit]:
            return f"{unit} may import only {sorted(ONLY[unit])} of privol, found {other}"
        return None if RANK[other] < RANK[unit] else f"{other} is not below {unit}"
    if top in sys.stdlib_module_names or (unit == "_core" and top in CYTHON):
        return None
    if top not in LIBRARIES:
        return f"{top} is not among the libraries of the table"
    users = LIBRARIES[top]
    if users is not None and unit not in users:
        return f"{top} is for {sorted(users)}"
    if top in OPTIONAL and not imported.lazy:
        return f"{top} is optional and must be imported where it is used"
    return None


def core_order(module: str, target: str) -> str | None:
    low, high = target.split(".")[-1], module.split(".")[2]
    if high not in CORE_ORDER or low not in CORE_ORDER:
        return f"{high} or {low} is not in the order of the compiled modules"
    return None if CORE_ORDER.index(low) <= CORE_ORDER.index(high) else f"{low} is not below {high}"


def imports_of(name: str, path: Path) -> list[Import]:
    module = name.removesuffix(".pxd").removesuffix(".pyi")
    text = path.read_text(encoding="utf-8")
    if path.suffix in (".pyx", ".pxd"):
        return cython_imports(module, text)
    return python_imports(module, text, path.stem == "__init__")


@pytest.mark.parametrize("name", [name for name in modules() if name != "privol"])
def test_imports_point_downwards(name: str) -> None:
    module = name.removesuffix(".pxd").removesuffix(".pyi")
    wrong = [
        f"{modules()[name].relative_to(ROOT)}:{imported.line}: {what}"
        for imported in imports_of(name, modules()[name])
        if (what := complaint(module, imported))
    ]
    assert not wrong, "\n".join(wrong)


def test_every_module_has_a_layer() -> None:
    unknown = {unit_of(name) for name in NAMES if name != "privol"} - RANK.keys()
    assert not unknown, f"give {sorted(unknown)} a layer in the table of this file"
    assert {"errors", "_core", "learners"} <= {unit_of(name) for name in NAMES}, "the package was not found"


def test_the_package_itself_imports_nothing_at_run_time() -> None:
    """Names are imported on first use, except the table of learners, which itself imports nothing."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    executed = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in executed if isinstance(node, ast.Import) for alias in node.names}
    names |= {"." * node.level + (node.module or "") for node in executed if isinstance(node, ast.ImportFrom)}
    assert names <= {"__future__", "importlib", "typing", ".learners", "TABLE"}


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        ("privol.losses", "from .guarantees import Guarantee", "not below"),
        ("privol.losses", "from . import geometry", "not below"),
        ("privol.losses", "import privol.learners", "not below"),
        ("privol.learners.iterate", "from ..evaluate import compare", "not below"),
        ("privol.learners.iterate", "from .. import cli", "not below"),
        ("privol.readers.csv", "from ..losses import Loss", "may import only"),
        ("privol.evaluate._tape", "from ..plots import draw", "not below"),
        ("privol.novelty", "import math", "no layer"),
        ("privol.losses", "from .novelty import x", "no layer"),
        ("privol.losses", "import dp_accounting", "is for"),
        ("privol.guarantees", "import dp_accounting", "optional"),
        ("privol.guarantees", "def f():\n    import dp_accounting", None),
        ("privol.ledger", "def f():\n    import dp_accounting", "inside a function"),
        ("privol.learners.network", "from mpi4py import MPI", "is for"),
        ("privol.tables", "import matplotlib.pyplot", "is for"),
        ("privol.losses", "import pandas", "not among"),
        ("privol.losses", "def f():\n    from .geometry import L2Ball", "inside a function"),
        ("privol.losses", "import importlib\nimportlib.import_module('privol.cli')", "computed"),
        ("privol.cli.main", "def f():\n    from ..tables import table", None),
        ("privol.readers.csv", "def f():\n    import pyarrow", None),
        ("privol.learners.iterate", "from ._base import Run", None),
    ],
)
def test_the_check_sees(module: str, source: str, expected: str | None) -> None:
    found = [what for imported in python_imports(module, source, False) if (what := complaint(module, imported))]
    if expected is None:
        assert not found
    else:
        assert any(expected in what for what in found), found


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from ..guarantees import Guarantee", "may import only"),
        ("from .. import ledger", "may import only"),
        ("from ._iterate cimport IterateRun", "not below"),
        ("import pandas as pd", "not among"),
        ("from ..errors import StateError", None),
        ("from ._rows cimport (", None),
        ("cimport numpy as cnp", None),
    ],
)
def test_the_check_sees_in_cython(source: str, expected: str | None) -> None:
    module = "privol._core._noise"
    found = [what for imported in cython_imports(module, source) if (what := complaint(module, imported))]
    assert (not found) if expected is None else any(expected in what for what in found)


def test_kernels_are_plain_c_and_know_the_families_below() -> None:
    """They include neither Python nor any system header beyond ``LIBC``; headers are next to their sources."""
    families = PACKAGE / "_core" / "c"
    assert {path.name for path in families.iterdir()} == KERNELS.keys()
    wrong = []
    for path in families.rglob("*.[ch]"):
        known = {path.parent.name} | KERNELS[path.parent.name]
        for quoted, angled in re.findall(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', path.read_text(), re.MULTILINE):
            allowed = quoted.split("/")[0] in known and (families / quoted).is_file() if quoted else angled in LIBC
            # the compiler's own header, for the levels above the baseline
            allowed = allowed or (path.name, angled) == ("pv_level.h", "immintrin.h")
            if not allowed:
                wrong.append(f"{path.relative_to(families)}: {quoted or angled}")
    assert not wrong, wrong


def test_files_stay_small() -> None:
    """One family per file, short enough to read at once."""
    suffixes = {".py", ".pyx", ".pxd", ".pyi", ".c", ".h"}
    long = {}
    for folder in ("src", "tests", "tools", "bench", "examples"):
        for path in ROOT.joinpath(folder).rglob("*"):
            if path.suffix not in suffixes or path.name in GENERATED | TRANSLATED:
                continue
            lines = len(path.read_text(encoding="utf-8").splitlines())
            if lines > MAX_LINES:
                long[str(path.relative_to(ROOT))] = lines
    assert not long, f"over {MAX_LINES} lines: {long}"


def test_the_longest_files_exist() -> None:
    assert len(set(LONGEST)) == len(LONGEST)
    assert not [name for name in LONGEST if not ROOT.joinpath("tests", name).is_file()]


def test_what_is_thorough_exists() -> None:
    """A test of another name would silently be run whole again."""
    for name, tests in KEPT.items():
        tree = ast.parse(ROOT.joinpath("tests", name).read_text(encoding="utf-8"))
        assert tests.keys() <= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, name


def test_the_picture_has_every_room_above_what_it_may_import():
    """In docs/architecture.md a room of a higher layer is higher, or in the same band further to the right."""
    svg = ROOT.joinpath("docs", "img", "architecture.svg").read_text(encoding="utf-8")
    texts = re.findall(r'<text [^>]*font-size: 8\.5px[^>]* x="([\d.]+)" y="([\d.]+)"[^>]*>(\w+)</text>', svg)
    places = {name: (-round(float(y)), float(x)) for x, y, name in texts}
    assert places.keys() == RANK.keys() - {"__main__", "experiments"}
    for lower in places:
        for upper in places:
            if RANK[lower] < RANK[upper]:
                assert places[lower] < places[upper], (
                    f"{upper} is drawn below {lower}: python tools/architecture.py --write"
                )
