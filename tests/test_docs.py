"""What the documentation shows runs: the README's Python, its commands, the examples, the docstrings' examples."""

from __future__ import annotations

import doctest
import lzma
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import privol

ROOT = Path(__file__).parents[1]
README = ROOT.joinpath("README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"))
def test_python_of_the_readme(code, capsys):
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    out = capsys.readouterr().out.splitlines()
    assert float(out[0]) > 0.9
    assert "(epsilon, delta) = (1, 1e-6)" in out[1]
    assert out[-1] == "4 (1, 20)"


def test_commands_of_the_readme(tmp_path, monkeypatch):
    pytest.importorskip("click")
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    import gzip

    rows = "".join(f"{0.1 * (i % 7)},{0.2 * (i % 3)},{'yes' if i % 7 > 3 else 'no'}\n" for i in range(500))
    Path("rows.csv.gz").write_bytes(gzip.compress(("a,b,outcome\n" + rows).encode()))
    Path("new-rows.csv").write_text("a,b\n0.1,0.2\n0.6,0.0\n")
    Path("ranges.json").write_text('{"a": [0, 1], "b": [0, 1]}')
    script = next(b for b in blocks("sh") if "privol predict" in b).replace("\\\n", " ")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    commands = [shlex.split(line, comments=True) for line in script.splitlines() if line.strip()]
    assert [c[:2] for c in commands] == [["privol", "run"], ["privol", "predict"], ["privol", "plan"]]
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", *command], capture_output=True, text=True, env=environment, timeout=120, check=False
        )
        assert done.returncode == 0, (command, done.stderr)
    assert len(Path("predictions.csv").read_text().splitlines()) == 3


def test_links_of_the_documentation():
    for page in [ROOT / "README.md", *ROOT.joinpath("docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert page.parent.joinpath(target).exists(), f"{page.name}: {target}"


def test_example_stream(capsys):
    runpy.run_path(str(ROOT / "examples" / "stream.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "50000 rows, 5 models released" in out
    assert "both together: epsilon" in out


def test_example_covtype(tmp_path, capsys, monkeypatch):
    pytest.importorskip("pyarrow")
    from privol.data import covtype_path

    with lzma.open(covtype_path(), "rt") as file:
        rows = [next(file) for _ in range(4001)][1:]  # the original file has no header
    sample = tmp_path / "covtype.data"
    sample.write_text("".join(rows))
    monkeypatch.setattr(sys, "argv", ["covtype.py", str(sample), "--repeats", "1"])
    with pytest.raises(privol.errors.InvalidParameter, match="release=10000 would release nothing"):
        runpy.run_path(str(ROOT / "examples" / "covtype.py"), run_name="__main__")
    assert "3600 rows learnt, 400 held out" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["privol.learners.iterate", "privol.guarantees", "privol.ledger", "privol.streams"])
def test_docstrings(name):
    module = __import__(name, fromlist=["_"])
    result = doctest.testmod(module)
    assert result.failed == 0
