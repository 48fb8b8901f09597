"""``privol dola``: nodes that learn together, across the processes of an MPI job."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from ..learners import TABLE
from .options import given_parameters, learner_name, learner_options
from .outputs import RunDirectory, naming_rows, printing, uninterrupted
from .prepare import check_labels
from .streams import FILE_OPTIONS, open_for_run, stream_options
from .topics import GroupedCommand, Topic

__all__ = ["dola"]

LEARNERS = tuple(entry.name for entry in TABLE if entry.group == "nodes")


@click.command(cls=GroupedCommand, topics=(Topic("file", "How FILE is written", f"{FILE_OPTIONS} zero_based"),))
@click.argument("files", nargs=-1, metavar="[FILE]...")
@stream_options
@learner_options
@click.option("--epochs", type=int, help="Times that every row is used; the noise is as much more.  [default: 1]")
@click.option("--out", metavar="RUN", required=True, help="Directory to write; must not exist or be empty.")
@click.option(
    "--checkpoint",
    type=click.IntRange(min=1),
    default=65536,
    show_default=True,
    metavar="ROWS",
    help="Rows of the network between two saves of the run. Until it ends, RUN/rank-*/secret hold noise keys.",
)
@click.option("--resume", is_flag=True, help="Continue the run in RUN: the same command, as many ranks.")
@click.option("--timeout", type=float, default=600.0, show_default=True, help="Seconds to wait for other ranks.")
@click.option("--seed", type=int, help="Reproducible noise, for tests: everything is then marked NOT PRIVATE.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def dola(timeout: float, **options: Any) -> None:
    """Let nodes learn together over MPI, by DOLA.

    Nodes exchange noisy parameters. They are spread over the ranks of an MPI job.

    With one FILE, row k is node (k - 1) mod NODES's, and every rank reads the file and keeps the rows of its nodes;
    with several, each is the rows of one node, all equally many, and only the rank that has the node reads it. Without
    FILE: 120,000 real rows that come with the package. Ranks have the nodes in order, as evenly as can be; the models
    do not depend on how many ranks there are, but for the noise, whose keys are each rank's own (--seed: the same
    bits).

    All files are read once before the start, so that one that cannot be read, or whose rows do not fit the others', is
    refused by all ranks. When a rank fails or is killed the run ends on all, with what all have kept: --resume
    continues it.

    \b
    Writes into RUN:
        model.npz, model.json   the network's model and its guarantee
        run.json                what was run and sent, as --json
        rank-0000, ...          each rank's ledger and model; until the end its
                                secret state

    \b
    Examples:
        mpiexec -n 4 privol dola covtype.data.gz --positive 2 --nodes 64
        mpiexec -n 2 privol dola clinic-*.csv --schema clinic.toml --out RUN
        privol dola --nodes 16 --out RUN     one rank: without mpiexec
    """
    from ..distributed import Ranks

    ranks = Ranks(timeout=timeout)
    try:
        _learn(ranks, **options)
    except BaseException as error:
        if not getattr(error, "on_all_ranks", False):
            ranks.fail(f"{type(error).__name__}; its own message says more")
        raise


def _learn(
    ranks: Any,
    *,
    files: tuple[str, ...],
    learner: str | None,
    epochs: int | None,
    out: str,
    checkpoint: int,
    resume: bool,
    seed: int | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    from ..auto.defaults import noisy_steps
    from ..learners import LEARNERS as KINDS
    from ..state import State, save_model

    if learner not in (None, *LEARNERS):
        raise click.UsageError(f"--learner must be dola or sparse-dola, found {learner}: privol run has the others")
    given = given_parameters(options)
    if seed is not None:
        given["random_state"] = seed
    if epochs is not None:
        given["epochs"] = epochs
    name = learner_name(learner or LEARNERS[0], {k: v for k, v in given.items() if k != "random_state"})
    if len(files) > 1 and given.setdefault("nodes", len(files)) != len(files):
        raise click.UsageError(f"--nodes must be the number of FILEs, {len(files)}, found {given['nodes']}")
    with ExitStack() as stack:
        directory = RunDirectory(out, gone_on=resume)
        if ranks.rank == 0:
            stack.enter_context(directory)
            for file in files:
                directory.keep_out_of(file)
        else:
            directory.path = Path(out)
        made: Any = KINDS[name](**given)
        nodes = made.mixing().n_nodes
        opened, stream, inputs = _rows(ranks, files, options, nodes)
        if "x_bound" not in given and opened.row_bound is not None:
            made.set_params(x_bound=opened.row_bound)
        rows = (opened.n_rows or 0) * max(len(files), 1)
        made.set_params(**noisy_steps(name, {**given, "x_bound": made.x_bound, "horizon": rows}))
        check_labels(made, opened, files[0] if files else None)
        ranks.barrier()  # the directory exists, and all rows can be read
        own = directory.path / f"rank-{ranks.rank:04d}"
        state, start = State(own, every=checkpoint, inputs=inputs), time.perf_counter()
        began = state.read() is not None
        try:
            with naming_rows(opened):
                made.fit_ranks(stream, ranks, checkpoint=state)
        except BaseException as error:
            if (own / "secret" / "run.json").exists():
                directory.keep()
                error.add_note(f"what all ranks have kept stays in {out}: the same command with --resume continues it")
            raise
        directory.keep()
        seconds = time.perf_counter() - start
        sent = ranks.gather([ranks.messages, ranks.bytes])
        if ranks.rank == 0:
            with uninterrupted():
                record = _describe(made, opened, inputs, ranks, seconds, sent, began)
                record["out"] = str(directory.path)
                save_model(made, directory.path, inputs=inputs)
                _write(directory.path, record)
            with printing(f"; the run is in {out}"):
                if as_json:
                    click.echo(json.dumps(record, allow_nan=False))
                elif not quiet:
                    click.echo(_lines(record))


def _read_through(stream: Any) -> None:
    """Find unreadable rows before anything is learnt: a row that fails on one rank would end the run on all."""
    with naming_rows(stream):
        for _ in stream:
            pass


def _rows(ranks: Any, files: tuple[str, ...], options: dict[str, Any], nodes: int) -> tuple[Any, Any, dict[str, Any]]:
    """A stream for the declarations, the stream of the rows of the nodes here, and how rows are read."""
    from ..distributed import DealtRows, InterleavedRows

    if len(files) < 2:
        opened, inputs = open_for_run(files[0] if files else None, options, False)
        if opened.n_rows is None:
            if not opened.repeatable:
                raise click.UsageError(f"{opened.source} can be read only once, and rows are dealt out: give a FILE")
            opened.count_rows()
        if files and ranks.rank == 0:
            _read_through(opened)
        return opened, DealtRows(opened, ranks, nodes), inputs
    first, own = ranks.part(nodes)
    streams = []
    for file in files[first : first + own]:
        opened, inputs = open_for_run(file, dict(options), False)
        if opened.n_rows is None:
            opened.count_rows()
        _read_through(opened)
        streams.append(opened)
    return opened, InterleavedRows(streams), inputs


def _describe(
    made: Any, opened: Any, inputs: dict[str, Any], ranks: Any, seconds: float, sent: Any, resumed: bool
) -> dict[str, Any]:
    from ..guarantees import weaknesses
    from ..state import network_record

    guarantee, plan = made.guarantee_, made.plan_
    rows = plan.horizon
    return {
        **network_record(made, plan),
        "resumed": resumed,
        "source": opened.source,
        "inputs": inputs,
        "rows": rows,
        "features": opened.n_features,
        "classes": None if opened.classes is None else [str(label) for label in opened.classes],
        "nodes": plan.nodes,
        "rounds": plan.rounds,
        "ranks": ranks.size,
        "model_private": guarantee.private and guarantee.kind != "none",
        "warnings": list(weaknesses(guarantee, rows=rows)),
        "between_nodes": made.communication_,
        "between_ranks": {"messages": int(sent[:, 0].sum()), "bytes": int(sent[:, 1].sum())},
        "consensus_distance": made.consensus_distance_,
        "sparsity": getattr(made, "sparsity_", None),
        "seconds": seconds,
        "rows_per_second": rows / max(seconds, 1e-9),
        "out": None,
    }


def _write(folder: Path, record: dict[str, Any]) -> None:
    from .._files import write_atomically

    write_atomically(folder / "run.json", json.dumps(record, indent=1, allow_nan=False).encode() + b"\n")


def _lines(record: dict[str, Any]) -> str:
    nodes, ranks = record["between_nodes"], record["between_ranks"]
    sparsity = "" if record["sparsity"] is None else f", {100 * record['sparsity']:.3g} % of its coefficients 0"
    lines = [
        f"{record['learner']} of {record['source']}: {record['rows']:,} rows of {record['nodes']} nodes in "
        f"{record['rounds']:,} rounds, on {record['ranks']} ranks; {record['rows_per_second']:,.0f} rows/s",
        f"between nodes {nodes['messages']:,} messages, {nodes['bytes']:,} bytes, {nodes['bits_per_row']:,.0f} bits a "
        f"row; between ranks {ranks['messages']:,} messages, {ranks['bytes']:,} bytes",
        f"distance of the nodes from their mean {record['consensus_distance']:.4g}{sparsity}",
        record["sentence"],
        *record["warnings"],
        f"model and guarantee: {record['out']}",
    ]
    return "\n".join(lines)
