"""``privol arena``: learners side by side at equal privacy, on many streams."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ..errors import InvalidParameter
from .option_types import TargetType
from .outputs import printing

__all__ = ["arena"]

_OF_FILE = "target", "columns", "shuffle"


def _listed(words: str | None) -> list[str] | None:
    return None if words is None else [word.strip() for word in words.split(",") if word.strip()]


@click.command()
@click.argument("files", nargs=-1)
@click.option(
    "--out",
    default="privol-arena",
    show_default=True,
    metavar="DIR",
    help="Folder of the results. Runs whose results are in it are not made again.",
)
@click.option("--folder", metavar="DIR", help="Where the files of a TOML file are.  [default: where that one is]")
@click.option(
    "--target", type=TargetType(), help="Of FILES that are tables: the column to predict.  [default: the last]"
)
@click.option("--columns", metavar="A,B,...", help="Likewise: names of their columns, where they have no header.")
@click.option("--shuffle", is_flag=True, help="Likewise: rows in a random order, another one for each seed.")
@click.option(
    "--generators",
    metavar="NAME,...",
    help="Synthetic streams: all, none, river, synthetic, or names.  [default: synthetic; with FILES none]",
)
@click.option("--learners", metavar="NAME,...", help="Of privol's central learners of streams.  [default: all]")
@click.option(
    "--others",
    metavar="NAME,...",
    help="sgd, sgd-default, river, linear, trees (without privacy), dp-sgd, diffprivlib; or none.  [default: all]",
)
@click.option(
    "--epsilons", metavar="E,...", default="0.1,0.5,1,4,inf", show_default=True, help="Budgets; inf: without noise."
)
@click.option("--delta", type=float, default=1e-6, show_default=True)
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Runs of each.")
@click.option(
    "--rows",
    type=click.IntRange(min=0),
    default=50_000,
    show_default=True,
    help="Of a stream at most, spread evenly over a file; the last sixth is held out. 0: all rows of files.",
)
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes, of one thread each.")
@click.option("--diffprivlib", metavar="PYTHON", help="Interpreter that has diffprivlib.  [default: this one]")
@click.option("--redo", metavar="NAME,...", help="Run these again, although their results exist.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def arena(
    files: tuple[str, ...],
    out: str,
    folder: str | None,
    generators: str | None,
    learners: str | None,
    others: str | None,
    epsilons: str,
    delta: float,
    seeds: int,
    rows: int,
    jobs: int,
    diffprivlib: str | None,
    redo: str | None,
    as_json: bool,
    quiet: bool,
    **of_file: Any,
) -> int:
    """Compare learners at equal privacy on many streams. NOT PRIVATE.

    FILES are tables in text (CSV, perhaps compressed), and TOML files that list tables: [[stream]] with name, file,
    target, columns, header, sep, order ("file" or "shuffled"), regression, schema, seen. Without FILES and generators
    the rows that come with privol and synthetic streams are run.

    Every central learner of privol gets a file, its target and epsilon, as in privol run FILE --target T --epsilon E
    --learner L: what it learns about the columns is within that epsilon. Beside it run references without privacy
    (scikit-learn and River, online; a linear model and trees of all rows at once), and with it DP-SGD in one pass, its
    settings chosen in hindsight, and diffprivlib. Everyone has the same rows in the same order, and labels 100 rows
    late. Figures are of all rows but the first quarter, which may teach an encoding, of the second half, and of the
    last sixth, which is not learnt.

    \b
    Writes into DIR:
        results.jsonl    a line for each run: stream, learner, epsilon and seed
        arena.md         tables: AUC or R2, log-loss, and the share kept of the
                         best online linear model without privacy
        arena.png        share kept over epsilon
        arena.json       what the runs have in common

    \b
    Examples:
        privol arena
        privol arena clinic.csv --target readmitted --epsilons 1 --seeds 10
        privol arena --generators all --learners dpftrl,nogd --rows 20000 --jobs 4
        privol arena experiments/arena.toml --folder DATA --generators all
    """
    from ..arena import CENTRAL, EMBEDDED, GENERATORS, NOTICE, RIVER, SEEN_OF_RIVER, SYNTHETIC, Board, Spec, run_arena
    from .app import DATA, OK

    given = [name for name in _OF_FILE if of_file[name] not in (None, False)]
    specs = _specs(files, folder, **of_file)
    tables = any(not name.endswith(".toml") for name in files)
    if given and not tables:
        raise click.UsageError(f"--{given[0]} applies to FILES that are tables, and none is given")
    if folder is not None and not any(name.endswith(".toml") for name in files):
        raise click.UsageError("--folder applies to files that a TOML file names, and none is given")
    if not files and generators is None:
        specs.append(EMBEDDED)
    names: Sequence[str] = {
        None: () if files else SYNTHETIC, "all": GENERATORS, "none": (), "river": RIVER, "synthetic": SYNTHETIC
    }.get(generators, _listed(generators) or ())  # fmt: skip
    for name in names:
        if name not in GENERATORS:
            raise click.UsageError(f"--generators: {name!r} is none of {', '.join(GENERATORS)}")
        specs.append(Spec(name=name, generator=name, seen=SEEN_OF_RIVER if name in RIVER else ""))
    if not specs:
        raise click.UsageError("there is no stream: give FILES or --generators")
    chosen, beside = _listed(learners), [] if others == "none" else _listed(others)
    if chosen is not None and any(name not in CENTRAL for name in chosen):
        raise click.UsageError(f"--learners: of {', '.join(CENTRAL)}, found {learners!r}")

    with _progress(wanted=not (as_json or quiet)) as tick:
        results = run_arena(
            specs,
            out,
            learners=chosen,
            others=beside,
            epsilons=_numbers(epsilons),
            seeds=seeds,
            rows=rows or None,
            delta=delta,
            jobs=jobs,
            diffprivlib=diffprivlib,
            redo=_listed(redo) or (),
            progress=tick,
        )
    board = Board(results)
    _write(Path(out), board, NOTICE)
    record = board.to_record()
    with printing(f"; the results are in {out}"):
        if as_json:
            click.echo(json.dumps({**record, "out": out}, allow_nan=False))
        elif not quiet:
            for line in (*board.kept(), "", f"{len(results.records)} runs; all tables: {out}/arena.md", NOTICE):
                click.echo(line)
    if record["failed"]:
        click.echo(f"privol: {record['failed']} runs failed: {out}/arena.md says why", err=True)
        return DATA
    return OK


def _specs(
    files: Sequence[str], folder: str | None, *, target: str | int | None, columns: str | None, shuffle: bool
) -> list[Any]:
    """Return the streams of FILES."""
    from ..arena import Spec, load_specs

    found: list[Any] = []
    names = _listed(columns)
    for file in files:
        if file.endswith(".toml"):
            found += load_specs(file, folder)
            continue
        spec = Spec(name=Path(file).name, file=file, target=target, order="shuffled" if shuffle else "file")
        found.append(spec if names is None else replace(spec, columns=tuple(names)))
    return found


def _numbers(words: str) -> list[float]:
    try:
        found = [float(word) for word in _listed(words) or ()]
    except ValueError:
        found = []
    if not found:
        raise InvalidParameter(f"epsilons must be numbers separated by commas, inf among them, found {words!r}")
    return found


def _write(folder: Path, board: Any, notice: str) -> None:
    from .._files import write_atomically
    from ..plots import plot_arena

    lines = ["# Arena", "", f"**{notice}.**", "", *board.lines()]
    write_atomically(folder / "arena.md", ("\n".join(lines) + "\n").encode())
    write_atomically(folder / "arena.png", plot_arena(board.curves()))


@contextmanager
def _progress(*, wanted: bool) -> Iterator[Callable[[int, int, dict[str, Any]], None]]:
    """Give a callback that reports the progress of the runs on stderr, if it is a terminal."""
    if not wanted or not sys.stderr.isatty():
        yield lambda done, total, record: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(bar_width=10), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("cutting the streams", total=None)

        def tick(done: int, total: int, record: dict[str, Any]) -> None:
            said = f"{done:,} of {total:,} runs, {record['stream']}, {record['entrant']}"
            bar.update(task, completed=done, total=total, description=said)

        yield tick
