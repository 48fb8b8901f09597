"""Learners side by side at equal privacy: the page of the arena.

    python experiments/arena.py FOLDER [--quick] [--runs 3] [--diffprivlib PYTHON] [--write]

FOLDER holds UCI's adult.data.gz, covtype.data.gz, diabetic_data.csv.gz and CASP.csv.gz as downloaded. It does the same
as ``privol arena experiments/arena.toml --folder FOLDER --generators all --rows 30000`` in the current directory, and
continues that command's results: runs that are there are not repeated. It needs River, and takes ten to thirty
minutes. ``--diffprivlib`` names the Python of an environment that has diffprivlib, if this one has none.
"""

from __future__ import annotations

import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path

from common import arguments, say, write

from privol.arena import RIVER, SEEN_OF_RIVER, SYNTHETIC, Board, Spec, load_specs, run_arena
from privol.plots import plot_arena

ROWS, OUT = 30_000, "privol-arena"


def main() -> None:
    """Run what is missing, and write the page."""
    parser = ArgumentParser(add_help=False)
    parser.add_argument("--diffprivlib", metavar="PYTHON")
    peers, sys.argv[1:] = parser.parse_known_args()
    given = arguments(__doc__, folder="the four tables", runs=3, page="arena.md")
    specs = load_specs(Path(__file__).with_suffix(".toml"), given.folder)
    absent = [spec.file for spec in specs if spec.file is not None and not Path(spec.file).is_file()]
    if absent and not given.quick:
        raise SystemExit(f"there is no {', '.join(map(str, absent))}")
    specs = [] if given.quick else specs
    names = ("turning", "prices") if given.quick else (*SYNTHETIC, *RIVER)
    specs += [Spec(name=name, generator=name, seen=SEEN_OF_RIVER if name in RIVER else "") for name in names]
    with tempfile.TemporaryDirectory() as folder:
        results = run_arena(
            specs,
            folder if given.quick else OUT,
            seeds=given.runs,
            rows=1_500 if given.quick else ROWS,
            diffprivlib=peers.diffprivlib,
            **({"epsilons": [8.0], "others": ["sgd", "dp-sgd"]} if given.quick else {}),
            progress=lambda done, total, record: say(f"{done} of {total}", record["stream"], record["entrant"]),
        )
        board = Board(results, [spec.name for spec in specs])
    if given.page is not None:
        (given.page.parent / "img").mkdir(exist_ok=True)
        (given.page.parent / "img" / "arena.svg").write_bytes(plot_arena(board.curves(), kind="svg"))
    write("arena", board.lines(whole=False), given.page)


if __name__ == "__main__":
    main()
