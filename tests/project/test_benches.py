"""Every benchmark can be imported, ``bench/all.py`` runs it, and no figure is without aim, peer and limit."""

from __future__ import annotations

import ast
import importlib
import json
import math
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import warm
from patience import WAIT
from places import ROOT

pytestmark = pytest.mark.process

BENCH = ROOT / "bench"
OTHERS = {"all.py", "conftest.py", "figures.py", "test_bench.py"}
SCRIPTS = [path for path in BENCH.glob("*.py") if path.name not in OTHERS]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """Modules that the scripts share, as they import them."""
    monkeypatch.syspath_prepend(str(BENCH))
    names = ("figures", "limits")
    yield {name: importlib.import_module(name) for name in names}
    for name in names:
        del sys.modules[name]


def printed(*command: str) -> list[str]:
    done = warm.run([sys.executable, *command], capture_output=True, text=True, timeout=WAIT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_all_are_run() -> None:
    commands = [shlex.split(line) for line in printed(str(BENCH / "all.py"), "--list")]
    assert {Path(command[1]) for command in commands} == set(SCRIPTS)
    assert len(printed(str(BENCH / "all.py"), "--list", "--quick", "--only", "scale")) == 2


def test_all_can_be_imported() -> None:
    code = (
        "import runpy, sys\nsys.path.insert(0, sys.argv[1])\n"
        "for path in sys.argv[2:]: print(runpy.run_path(path, run_name='bench')['__doc__'][:9])"
    )
    assert len(printed("-c", code, str(BENCH), *map(str, SCRIPTS))) == len(SCRIPTS)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_shows_its_figures(path: Path) -> None:
    """It hands rows to ``figures.show``; that it has some, ``bench/all.py`` checks when it runs it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "figures"
        for alias in node.names
    }
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert names >= {"show"}, f"{path.name} shows no figure beside its aim, peer and limit"
    assert called >= {"show"}, f"{path.name} does not call show"
    assert called & {"figure", "Row"}, f"{path.name} makes no figure"


@pytest.mark.parametrize("field", ["name", "unit", "peer_name", "aim"])
def test_a_figure_without_a_field_is_refused(bench: dict[str, ModuleType], field: str) -> None:
    figures = bench["figures"]
    words: dict[str, Any] = {
        "name": "a learner", "unit": "ns/row", "privol": 200.0, "peer": 400.0, "ratio": 2.0, "low": 1.0, "high": 3.0,
        "peer_name": "another", "aim": "1.0x", "limit": figures.Limit(50.0, "its words"),
    }  # fmt: skip
    row = figures.Row(**words)
    assert row.reached == 0.25
    assert row.told()["limit"] == {"value": 50.0, "of": "its words"}
    with pytest.raises(ValueError, match=field):
        figures.Row(**{**words, field: " "})
    with pytest.raises(TypeError, match=field):
        figures.Row(**{name: value for name, value in words.items() if name != field})


def test_a_limit_says_what_it_is_or_why_there_is_none(bench: dict[str, ModuleType]) -> None:
    figures = bench["figures"]
    with pytest.raises(ValueError, match="consists"):
        figures.Limit(1.0, "")
    with pytest.raises(ValueError, match="consists"):
        figures.no_limit(" ")
    for value in (0.0, -1.0, math.inf):
        with pytest.raises(ValueError, match="positive"):
            figures.Limit(value, "its words")
    with pytest.raises(TypeError, match="limit"):
        figures.Row("a", "ns", 1.0, 1.0, 1.0, 1.0, 1.0, "another", "1.0x", "")
    with pytest.raises(TypeError, match="limit"):
        figures.figure("a", "ns", 1.0)
    none = figures.figure("a", "ms", 1.0, limit=figures.no_limit("a search"))
    assert none.told() == {
        "name": "a", "unit": "ms", "privol": 1.0, "peer": None, "ratio": None, "low": None, "high": None,
        "peer_name": "none", "aim": "none", "limit": {"value": None, "of": "a search"}, "reached": None,
    }  # fmt: skip
    assert figures.figure("a", "rows/s", 3.0, limit=figures.Limit(4.0, "bytes"), peer=2.0).ratio == 1.5
    assert figures.figure("a", "rows/s", 3.0, limit=figures.Limit(4.0, "bytes")).reached == 0.75


def test_work_adds_up_to_its_limit(bench: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    """The formula at the top of limits.py, with rates that are powers of two."""
    limits = bench["limits"]
    for k, name in enumerate(("block", "exponential", "call", "cell", "multiply_add", "near", "memory", "written")):
        monkeypatch.setattr(limits, name, lambda k=k: 2.0**k)
    monkeypatch.setattr(limits, "value", lambda law: {"gaussian": 1000.0, "laplace": 2000.0}[law])
    work = limits.Work(blocks=1, values=1, exponentials=1, calls=1, cells=1, multiply_adds=1)
    assert work.nanoseconds() == 1 + 1000 + 2 + 4 + 8 + 16
    assert (work + limits.Work(near=1)).nanoseconds() == 1 + 1000 + 2 + 4 + 8 + 32
    assert (work + limits.Work(memory=100)).nanoseconds() == 6400
    assert (work + limits.Work(memory=100, written=1)).nanoseconds() == 6400 + 128
    assert (work + limits.Work(memory=20)).nanoseconds(cores=2) == 1280
    assert work.nanoseconds(cores=2) == 1001
    assert (work * 3).nanoseconds() == 3 * work.nanoseconds()
    assert limits.of_noise(55, "laplace").nanoseconds() == 28 + 55 * 2000
    with pytest.raises(ValueError, match="laplace"):
        limits.of_noise(1) + limits.of_noise(1, "laplace")
    assert work.limit("us/row").value == pytest.approx(1.031)
    assert work.limit("million rows/s").value == pytest.approx(1e3 / 1031)
    assert work.limit("rows/s").value == pytest.approx(1e9 / 1031)
    told = (work + limits.Work(memory=20)).limit("ns").of
    assert "1 noise values 1,000" in told
    assert "20.0 bytes from memory 1,280" in told
    assert "blocks" not in told  # less than a two-hundredth
    with pytest.raises(ValueError, match="MiB"):
        work.limit("MiB")


def test_figures_are_written_with_their_limits(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    lines = printed(str(BENCH / "compare.py"), "--only", "noise", "--rows", "20000", "--json", str(file))
    (told,) = json.loads(file.read_text(encoding="utf-8"))["ratios"]
    assert told["aim"] == "1.0x"
    assert told["peer_name"] == "NumPy PCG64"
    assert "blocks of keystream" in told["limit"]["of"]
    assert told["limit"]["value"] > 0.0
    assert told["reached"] == pytest.approx(told["limit"]["value"] / told["privol"])
    (head,) = (line for line in lines if line.startswith("what"))
    assert head.split()[-5:] == ["range", "aim", "limit", "reached", "peer"]


def test_a_script_without_figures_is_a_failure(tmp_path: Path) -> None:
    silent, telling = tmp_path / "silent.py", tmp_path / "telling.py"
    silent.write_text("print('all is well')\n")
    telling.write_text(
        f"import sys\nsys.path.insert(0, {str(BENCH)!r})\nfrom figures import figure, no_limit, show\n"
        "show([figure('a start', 'ms', 1.0, limit=no_limit('start-up'))])\n"
    )
    code = (
        f"import importlib, sys\nsys.path.insert(0, {str(BENCH)!r})\nevery = importlib.import_module('all')\n"
        "every.machine = lambda: 'this machine'\n"
        "every.BENCHES = tuple(every.Bench(path) for path in sys.argv[2:])\n"
        "sys.argv[1:] = ['--json', sys.argv[1]]\nsys.exit(every.main())"
    )
    file = str(tmp_path / "all.json")
    command = [sys.executable, "-c", code, file, str(silent), str(telling)]
    done = warm.run(command, capture_output=True, text=True, timeout=WAIT, check=False, env=dict(os.environ))
    assert done.returncode == 1, done.stderr
    assert "silent.py: shows no figure" in done.stdout.splitlines()[-1]
    told = json.loads(Path(file).read_text(encoding="utf-8"))
    assert told["machine"] == "this machine"
    assert told["figures"][str(silent)] == []
    assert [each["aim"] for each in told["figures"][str(telling)]] == ["none"]
