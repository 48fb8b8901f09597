"""MPI jobs for tests."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import ROOT
from rank_doors import Doors

import privol

HERE = ROOT / "tests" / "support"
MPIEXEC = shutil.which("mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
# Open MPI otherwise tests for a second whether other machines can be reached
LOCAL = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,sm"}


@contextlib.contextmanager
def launched() -> Iterator[dict[str, str]]:
    """The environment of one launcher, whose files are its own.

    A launcher that was killed leaves a folder by the number of its process, and a later one of that number does not
    start where it is.
    """
    with tempfile.TemporaryDirectory(prefix="mpi-", ignore_cleanup_errors=True) as own:
        yield {"TMPDIR": own}


def mpi(ranks, *program, folder=None, check=True, warm=False):
    """Run a Python program on a number of ranks; ``warm``: forked from a process that has made the imports."""
    pytest.importorskip("mpi4py", exc_type=ImportError)
    if MPIEXEC is None:
        if os.environ.get("CI"):
            pytest.fail("there is no mpiexec")
        pytest.skip("there is no mpiexec")
    options = ["--allow-run-as-root", "--oversubscribe"]
    # the privol of this process, wherever it is
    paths = [str(Path(privol.__file__).parents[1]), str(HERE)]
    env = {**LOCAL, **os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [MPIEXEC, *options, "-n", str(ranks)]
    with launched() as own, Doors() if warm else contextlib.nullcontext() as doors:
        env |= own
        words = [*(doors.command if doors else [sys.executable]), *map(str, program)]
        done = subprocess.run([*command, *words], capture_output=True, text=True, cwd=folder, env=env, timeout=120)
    assert not check or done.returncode == 0, done.stderr
    return done


def tasks(*todo, check=True):
    """Start ranks once, as many as the largest task needs: (ranks, folder, name in mpi_programs.py, words)."""
    for _, folder, *_ in todo:
        folder.mkdir(exist_ok=True)
    words = [[ranks, str(folder), *map(str, rest)] for ranks, folder, *rest in todo]
    program = HERE / "mpi_programs.py", json.dumps(words)
    return mpi(max(ranks for ranks, *_ in todo), *program, check=check, warm=sys.platform.startswith("linux"))


def codes(folder):
    """The exit codes of a task's ranks."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("code-*.json"))]


def texts(folder, name):
    """What all ranks wrote into files of a task."""
    return "".join(path.read_text() for path in sorted(folder.glob(f"{name}-*.txt")))
