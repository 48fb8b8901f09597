"""What campaigns of kills over sources share: processes that are forked, and runs until enough of them were killed."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["code_of", "drive", "forked"]


def forked(folder: Path, work: Callable[[], object], code: Callable[[BaseException], int] = lambda _: 1) -> int:
    """Begin work in a child, whose errors are in a log; return its number. ``code``: its exit code after an error."""
    child = os.fork()
    if child:
        return child
    try:
        os.dup2(os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
        work()
    except BaseException as error:
        traceback.print_exc()
        os._exit(code(error))
    os._exit(0)


def code_of(child: int) -> int:
    """Wait for a child; return its exit code, negative after a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def drive(
    about: str | None, kinds: Sequence[str], kills: int, headings: str, campaign: Callable[[str, Path, Any], Any]
) -> None:
    """Run the campaigns that the command line asks for, each until so many processes were killed, and print a table.

    A campaign has ``run()``, ``close()``, ``tally.kills`` and ``cells()``, the row of its table.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="+", choices=tuple(kinds))
    parser.add_argument("--kills", type=int, default=kills, help="for each of them")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(headings)
    print("| " + " | ".join("---" for _ in headings.strip("|").split("|")) + " |")
    for kind in given.kinds:
        folder = Path(tempfile.mkdtemp(prefix="privol-kills-"))
        made = campaign(kind, folder, random.Random(given.seed))
        try:
            while made.tally.kills < given.kills:
                made.run()
        finally:
            made.close()
        print("| " + " | ".join(map(str, made.cells())) + " |", flush=True)
        shutil.rmtree(folder)
