"""Running the experiments, and reading their output."""

from __future__ import annotations

import gzip
import importlib
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from places import ROOT

FOLDER = ROOT / "experiments"
PAGE, LOCAL, OFFLINE, NETWORK, ENCODING, ARENA, GUARANTEE, EXPLAIN, PUBLISHED = PAGES = tuple(
    ROOT / "docs" / f"{name}.md"
    for name in ("experiments", "local", "offline", "network", "encoding", "arena", "guarantee", "explain", "published")
)
SHARED = {"common", "diffprivlib_worker", "regression", "reproduced", "sweeps", "tasks"}
SCRIPTS = sorted({path.stem for path in FOLDER.glob("*.py")} - SHARED)


def place(name: str) -> tuple[str, str]:
    return f"<!-- {name}: experiments/{name}.py -->", f"<!-- end of {name} -->"


def page_of(name: str) -> Path:
    """The page with the script's place."""
    (page,) = (page for page in PAGES if place(name)[0] in page.read_text(encoding="utf-8"))
    return page


def written(name: str, page: Path | None = None) -> list[list[str]]:
    """Cells of the tables that a script wrote, without the header rows."""
    page = page_of(name) if page is None else page
    begin, end = place(name)
    (text,) = re.findall(f"{re.escape(begin)}(.*?){re.escape(end)}", page.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("|")]
    rules = [i for i, cells in enumerate(lines) if set(cells) == {"---"}]
    return [cells for i, cells in enumerate(lines) if i not in rules and i + 1 not in rules]


def number(cell: str) -> float:
    """The mean in a cell such as ``0.012 ± 0.003 (333)``."""
    return float(cell.split()[0])


class Experiments:
    """The scripts as modules, run in this process: a new one would take seconds to import the same libraries."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def __call__(self, name: str) -> Any:
        """Import a script."""
        return importlib.import_module(name)

    def run(self, name: str, *words: str) -> None:
        """Run a script by its command line."""
        self._patch.setattr(sys, "argv", [f"{name}.py", *words])
        self(name).main()

    def sample(self, name: str, tmp_path: Path, *words: str) -> list[list[str]]:
        """Run a script with ``--quick``, and return what it wrote into a separate page."""
        page = tmp_path / "page.md"
        page.write_text("\n".join(["before", *place(name), "after"]), encoding="utf-8")
        self.run(name, *words, "--quick", "--page", str(page))
        text = page.read_text(encoding="utf-8")
        assert text.startswith("before\n<!--")
        assert text.endswith("-->\nafter")
        return written(name, page)


@pytest.fixture
def experiments(monkeypatch: pytest.MonkeyPatch) -> Iterator[Experiments]:
    """Provide the scripts, and forget them afterwards: their names are not reserved."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield Experiments(monkeypatch)
    for name in [*SCRIPTS, *SHARED]:
        sys.modules.pop(name, None)


ADULT = (
    "{age}, Private, 77516, {education}, 13, Never-married, Adm-clerical, Not-in-family, White, {sex}, {gain}, 0, 40, "
    "United-States, {label}\n"
)


def adult(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for name, rows, stop in (("adult.data.gz", 300, ""), ("adult.test.gz", 100, ".")):
        text = "|1x3 Cross validator\n" if stop else ""
        for _ in range(rows):
            age = int(rng.integers(17, 91))
            text += ADULT.format(
                age=age,
                education=rng.choice(["Bachelors", "HS-grad", "?"]),
                sex=rng.choice(["Male", "Female"]),
                gain=int(rng.choice([0, 0, 2174])),
                label=(">50K" if age > 50 else "<=50K") + stop,
            )
        (folder / name).write_bytes(gzip.compress((text + "\n").encode()))


def articles(rows: int = 300, columns: int = 40) -> str:
    """Articles of unit norm in svmlight text, labelled by their first half of words."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(rows):
        found = np.sort(rng.choice(columns, size=5, replace=False))
        label = 1 if np.sum(found < columns // 2) > 2 else -1
        lines.append(f"{label} " + " ".join(f"{i + 1}:{5**-0.5:.6f}" for i in found) + "\n")
    return "".join(lines)


def words(folder: Path) -> None:
    """Articles in the newswire's file."""
    import bz2

    (folder / "rcv1_subsets.binary.bz2").write_bytes(bz2.compress(articles().encode()))


def covtype_text(rows: int) -> str:
    """The first embedded rows as in the original file: without header."""
    from privol.data import covtype_path

    with gzip.open(covtype_path(), "rt") as file:
        lines = list(itertools.islice(file, rows + 1))
    return "".join(lines[1 : rows + 1])


def covtype(folder: Path) -> None:
    (folder / "covtype.data.gz").write_bytes(gzip.compress(covtype_text(1_000).encode()))
