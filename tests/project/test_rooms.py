"""Rooms do not use each other's internals, imports have no cycles, and a file name stands for one thing."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from places import ROOT

PACKAGE = ROOT / "src" / "privol"

#: Functions and methods that take a name as text.
BY_TEXT = {"delattr", "get", "getattr", "hasattr", "pop", "setattr"}

#: File names that occur in several rooms, or twice in one, and the one thing that they stand for everywhere.
ONE_THING = {
    "account": "what a run may spend, and has spent; the command says it",
    "audit": "claims beside what runs prove; the command and the computation",
    "bandit": "losses in the place of gradients",
    "base": "what the other modules of a room share",
    "betting": "coin betting",
    "card": "a model card; the command prints it",
    "device": "the user's side",
    "discrete": "noise on integers",
    "experts": "experts of many magnitudes",
    "files": "what is on the disk: written whole, read by lines",
    "geometry": "convex sets",
    "gradient": "noise on gradients",
    "html": "what notebooks show",
    "iterate": "noise on iterates",
    "leader": "noise on sums of gradients",
    "least_squares": "noise on sums of moments",
    "local": "learners that see reports alone",
    "network": "nodes that learn together",
    "objective": "noise in what is minimised",
    "offline": "offline learners",
    "open": "from what is given to what is read",
    "records": "an object as JSON values",
    "reports": "a message that a device randomized",
    "rows": "rows of a table, as numbers",
    "sums": "prefix sums",
    "vectors": "noise of vectors",
}


@cache
def sources() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def own(node: ast.expr) -> bool:
    """Whether an object is the reader itself."""
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


@cache
def defined() -> dict[str, set[str]]:
    """Names that each room defines: functions, classes, attributes, variables; for compiled modules all words."""
    found: dict[str, set[str]] = defaultdict(set)
    for path, tree in sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found[room_of(path)].add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and own(node.value):
                found[room_of(path)].add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found[room_of(path)].add(node.id)
            elif isinstance(node, ast.keyword) and node.arg:
                found[room_of(path)].add(node.arg)
    for path in PACKAGE.rglob("*.pyx"):
        found["_core"].update(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    return found


def names_read(tree: ast.AST) -> Iterator[tuple[int, str, ast.AST]]:
    """Underscore names that a module reads from objects, by attribute or as text: line, name, how."""
    for node in ast.walk(tree):
        texts: list[ast.expr] = []
        if isinstance(node, ast.Attribute) and private(node.attr):
            yield node.lineno, node.attr, node
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            texts = node.args if called in BY_TEXT else []
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            texts = [node.left]
        elif isinstance(node, ast.Subscript):
            texts = [node.slice]
        for text in texts:
            if isinstance(text, ast.Constant) and isinstance(text.value, str) and private(text.value):
                yield node.lineno, text.value, node


def foreign_reads(tree: ast.AST, room: str, package: tuple[str, ...], names: dict[str, set[str]]) -> list[str]:
    """Where a module reads or imports an underscore name of another room, or imports from a module with such a name.

    Rooms with an underscore (``_core``, ``_files``) are private to the package as a whole. A name that both rooms
    define counts as the reader's own, because this check does not know the types of objects.
    """
    foreign = set().union(*(known for other, known in names.items() if other != room)) - names[room]
    found = [f"{line}: {ast.unparse(how)}" for line, name, how in names_read(tree) if name in foreign]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = (*package[: len(package) + 1 - node.level], *(node.module or "").split("."))
            for alias in node.names:
                whole = [part for part in (*base, alias.name) if part]
                if len(whole) > 1 and whole[0] != room and not private(whole[0]) and any(map(private, whole)):
                    found.append(f"{node.lineno}: from {'.'.join(whole[:-1])} import {whole[-1]}")
    return found


def test_rooms_do_not_reach_into_each_other() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}:{what}"
        for path, tree in sources().items()
        for what in foreign_reads(tree, room_of(path), path.relative_to(PACKAGE).parts[:-1], defined())
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("source", "room", "wrong"),
    [
        ("learner._run.state", "cli", ["1: learner._run"]),
        ("vars(learner).get('_run')", "cli", ["1: vars(learner).get('_run')"]),
        ("learner.__dict__['_run']", "cli", ["1: learner.__dict__['_run']"]),
        ("'_run' in vars(learner)", "cli", ["1: '_run' in vars(learner)"]),
        ("learner._own", "cli", []),
        ("learner._run", "learners", []),
        ("learner.run", "cli", []),
        ("from ..ledger import _secret", "cli", ["1: from ledger import _secret"]),
        ("from ..learners._base import Run", "cli", ["1: from learners._base import Run"]),
        ("from ..learners.views import run_of", "cli", []),
        ("from .._core._run import LearnerRun", "cli", []),
        ("from ._own import x", "cli", []),
        ("from .options import _own", "cli", []),
    ],
)
def test_the_check_sees(source: str, room: str, wrong: list[str]) -> None:
    names = {"learners": {"_run"}, "cli": {"_own"}}
    assert foreign_reads(ast.parse(source), room, (room,), names) == wrong


def test_the_check_sees_in_modules_of_their_own() -> None:
    names = {"learners": {"_run"}, "planning": set()}
    wrong = foreign_reads(ast.parse("from .learners._base import Run"), "planning", (), names)
    assert wrong == ["1: from learners._base import Run"]


def imports() -> dict[str, set[str]]:
    """Modules that each module imports when it is imported itself."""
    modules = {}
    for path in sources():
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        package = module.split(".") if path.stem == "__init__" else module.split(".")[:-1]
        graph[module] = set()
        for node in sources()[path].body:
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            base = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
            for alias in node.names:
                whole = ".".join([*base, alias.name])
                graph[module].add(whole if whole in modules else ".".join(base))
        graph[module].discard(module)
    return {module: found & modules.keys() for module, found in graph.items()}


def test_no_circles() -> None:
    graph = imports()
    assert sum(map(len, graph.values())) > 300
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(f"modules import each other: {' -> '.join(error.args[1])}") from None


def test_file_names_that_repeat_are_listed() -> None:
    """``run`` once was four things in four rooms. A file with the name of another one needs an entry for both."""
    homes = defaultdict(set)
    for path in [*sources(), *PACKAGE.rglob("*.pyx")]:
        if path.stem not in ("__init__", "__main__"):
            homes[path.stem.strip("_")].add(path)
    several = {name: sorted(map(str, paths)) for name, paths in homes.items() if len(paths) > 1}
    assert several.keys() == ONE_THING.keys(), {name: several.get(name) for name in several.keys() ^ ONE_THING.keys()}


#: Rooms whose figures guarantees rest on, and what BLAS or LAPACK computes.
OF_FIGURES = ("calibration", "factorizations", "guarantees", "noise", "randomizers")
OF_BLAS = {"convolve", "correlate", "cov", "dot", "einsum", "inner", "linalg", "matmul", "matvec", "tensordot", "vdot"}
OF_BLAS |= {"vecdot", "vecmat"}


def uses_of_blas(tree: ast.AST) -> list[str]:
    """Where a module asks for sums of products in an order that the processor's BLAS chooses, or a broken one."""
    return [
        f"{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree)
        if (isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult))
        or (isinstance(node, ast.Attribute) and node.attr in OF_BLAS and not own(node.value))
        or (isinstance(node, ast.ImportFrom) and "linalg" in (node.module or ""))
        or (
            isinstance(node, ast.ImportFrom)
            and node.module == "numpy"
            and OF_BLAS & {alias.name for alias in node.names}
        )
    ]


def test_figures_do_not_depend_on_blas() -> None:
    """Its sums differ between processors, and were wrong altogether under one emulator."""
    wrong = [
        f"{path.relative_to(PACKAGE)}:{what}"
        for path, tree in sources().items()
        if room_of(path) in OF_FIGURES
        for what in uses_of_blas(tree)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("source", ["x @ y", "x @= y", "np.dot(x, y)", "x.dot(y)", "np.linalg.norm(x)",
                                    "from scipy.linalg import toeplitz", "from numpy import dot"])  # fmt: skip
def test_uses_of_blas_are_seen(source: str) -> None:
    assert uses_of_blas(ast.parse(source))
