"""Every benchmark can be imported, and ``bench/all.py`` runs it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
import warm
from patience import WAIT
from places import ROOT

pytestmark = pytest.mark.process

BENCH = ROOT / "bench"
SCRIPTS = [path for path in BENCH.glob("*.py") if path.name not in ("all.py", "test_bench.py")]


def printed(*command: str) -> list[str]:
    done = warm.run([sys.executable, *command], capture_output=True, text=True, timeout=WAIT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_all_are_run() -> None:
    commands = [shlex.split(line) for line in printed(str(BENCH / "all.py"), "--list")]
    assert {Path(command[1]) for command in commands} == set(SCRIPTS)
    assert len(printed(str(BENCH / "all.py"), "--list", "--quick", "--only", "scale")) == 2


def test_all_can_be_imported() -> None:
    code = "import runpy, sys\nfor path in sys.argv[1:]: print(runpy.run_path(path, run_name='bench')['__doc__'][:9])"
    assert len(printed("-c", code, *map(str, SCRIPTS))) == len(SCRIPTS)
