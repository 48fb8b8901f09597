"""Running the experiments, and reading what they wrote."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "experiments"
PAGE, LOCAL, OFFLINE, NETWORK = (
    ROOT / "docs" / f"{name}.md" for name in ("experiments", "local", "offline", "network")
)
SHARED = {"common", "diffprivlib_worker", "network_data", "regression", "sweeps", "tasks"}
SCRIPTS = sorted({path.stem for path in FOLDER.glob("*.py")} - SHARED)


def place(name: str) -> tuple[str, str]:
    return f"<!-- {name}: experiments/{name}.py -->", f"<!-- end of {name} -->"


def page_of(name: str) -> Path:
    """The page that has the script's place."""
    (page,) = (page for page in (PAGE, LOCAL, OFFLINE, NETWORK) if place(name)[0] in page.read_text(encoding="utf-8"))
    return page


def written(name: str, page: Path | None = None) -> list[list[str]]:
    """Cells of the tables that a script wrote, without their heads."""
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
        """Run a script with ``--quick``, and return what it wrote into a page of its own."""
        page = tmp_path / "page.md"
        page.write_text("\n".join(["before", *place(name), "after"]), encoding="utf-8")
        self.run(name, *words, "--quick", "--page", str(page))
        text = page.read_text(encoding="utf-8")
        assert text.startswith("before\n<!--")
        assert text.endswith("-->\nafter")
        return written(name, page)


@pytest.fixture
def experiments(monkeypatch: pytest.MonkeyPatch) -> Iterator[Experiments]:
    """Give the scripts, and forget them afterwards: their names are not reserved."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield Experiments(monkeypatch)
    for name in [*SCRIPTS, *SHARED]:
        sys.modules.pop(name, None)
