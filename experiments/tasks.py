"""The real classification data sets whose files exist."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from common import say

from privol.reproduce.sets import TASKS, Split, Task, has, rows_of

__all__ = ["TASKS", "Split", "Task", "found_in", "rows_of"]


def found_in(folder: Path, most: int | None = None) -> Iterator[tuple[Task, Split]]:
    """Yield the data sets whose files exist."""
    for task in TASKS:
        missing = [name for name in task.files if not has(folder, name)]
        if missing:
            say(f"{task.name} is left out: {folder} has no {', '.join(missing)}")
            continue
        yield task, task.split(folder, most)
