"""The programs of the ranks in test_distributed.py: ``python mpi_programs.py TASKS`` under mpiexec.

An interpreter takes longer to start than most runs to learn: ranks that are not killed do one task after another, each
over its own connections.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
from part_rows import PARTS

from privol import DOLA, SparseDOLA, distributed
from privol.cli import main
from privol.distributed import DealtRows, InterleavedRows, Ranks
from privol.errors import InvalidParameter, PrivacyWarning, RankFailure
from privol.ledger import Ledger
from privol.losses import Custom, Huber
from privol.state import State
from privol.topology import LinkFailures, MatchingCycle, RandomMatching, StaticMixing, erdos_renyi, grid, ring

warnings.simplefilter("ignore", PrivacyWarning)

ALIVE = []  # connections of failed runs, for late messages


def connected(comm, timeout):
    ALIVE.append(Ranks(comm, timeout=timeout))
    return ALIVE[-1]


N, D = 1003, 5
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, D)) / 3
Y = (X @ [1.0, -2.0, 0.5, 0.0, 1.0] > 0).astype(float)
CASES = {
    "grid": (DOLA, {"nodes": 12, "topology": "grid"}),
    "batch": (DOLA, {"nodes": 9, "batch": 5, "randomizer": "l2laplace", "topology": "complete"}),
    "matching": (DOLA, {"topology": RandomMatching(erdos_renyi(10, 0.4, seed=2), seed=1), "l2": 0.1}),
    "cycle": (DOLA, {"topology": MatchingCycle(ring(7)), "noise_position": "output", "step_size": 0.5}),
    "failures": (DOLA, {"topology": LinkFailures(StaticMixing(grid(2, 4)), 0.3, seed=4), "randomizer": "privunit"}),
    "sparse": (SparseDOLA, {"nodes": 6, "topology": "grid", "l1": 0.5, "epsilon": 20.0, "release": "last"}),
    "epochs": (DOLA, {"nodes": 17, "epochs": 2}),
}


class Block:
    def __init__(self, X, y, first_row):
        self.X, self.y, self.first_row = X, y, first_row


class Rows:
    """Rows in blocks of 100."""

    classes = (0, 1)

    def __init__(self, rows=X, targets=Y):
        self.rows, self.targets, self.n_rows = rows, targets, rows.shape[0]

    def __iter__(self):
        for start in range(0, self.n_rows, 100):
            yield Block(self.rows[start : start + 100], self.targets[start : start + 100], start)


def make(name, **words):
    kind, parameters = CASES[name]
    return kind(**{"random_state": 5, "epsilon": 4.0, **parameters, **words})


def found_of(learner):
    return {
        "coef": learner.coef_, "intercept": learner.intercept_, "average": learner.average_coef_,
        "nodes": learner.node_coef_, "averages": learner.node_average_coef_,
        "releases": np.array([learner.n_releases_]),
        "sent": np.array(list(learner.communication_.values())),
    }  # fmt: skip


def rows_of(name, ranks=None):
    """Rows of several epochs, a multiple of the nodes."""
    stream = Rows(X[:952], Y[:952]) if name == "epochs" else Rows()
    return stream if ranks is None else DealtRows(stream, ranks, make(name).mixing().n_nodes)


def bits(ranks, folder):
    """All cases, once each."""
    for name in CASES:
        learner = make(name).fit_ranks(rows_of(name, ranks), ranks)
        np.savez(folder / f"{name}-{ranks.size}-{ranks.rank}.npz", **found_of(learner))
    np.savez(folder / f"traffic-{ranks.size}-{ranks.rank}.npz", sent=np.array([ranks.messages, ranks.bytes]))


def kept(ranks, folder, rank="-1", rows="0", how="kill", every="90"):
    """A run that is kept; one rank is killed, or fails, when it has learnt some rows."""

    def progress(learner, stream):
        if how in ("kill", "raise") and ranks.rank == int(rank) and learner._run.state.n_rows >= int(rows):
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError("the disk is gone")

    if how == "first" and ranks.rank == int(rank):
        ranks._comm = Seen(ranks._comm, folder)
    if how in LIES and ranks.rank == int(rank):
        whole = ranks.exchange
        ranks.exchange = lambda schedule, dim: Lying(whole(schedule, dim), ranks.part(schedule.n_nodes)[1], LIES[how])
    state = State(folder / f"rank-{ranks.rank}", every=int(every))
    if how == "sealed" and ranks.rank == int(rank):
        sealed = state.seal

        def dies(*given):
            sealed(*given)
            time.sleep(2.0)  # the others end meanwhile
            os.kill(os.getpid(), signal.SIGKILL)

        state.seal = dies
    began = state.read() is not None
    try:
        learner = make("batch").fit_ranks(rows_of("batch", ranks), ranks, progress=progress, checkpoint=state)
    except RankFailure as error:
        (folder / f"failure-{ranks.rank}.json").write_text(json.dumps([str(error), error.rank]))
        sys.exit(3)
    except OSError:
        sys.exit(4)
    np.savez(folder / f"kept-{ranks.rank}.npz", **found_of(learner), began=np.array([began]))


def half(rows):
    rows *= 0.5


def nowhere(rows):
    rows[0, 0] = np.nan


def far(rows):
    rows[0, 0] = 1e160


LIES = {"lie": half, "nan": nowhere, "far": far}


class Seen:
    """Connections that report what the disk has when a message is about to leave, and end the process there."""

    def __init__(self, comm, folder):
        self.comm, self.folder = comm, folder

    def __getattr__(self, name):
        return getattr(self.comm, name)

    def Isend(self, content, dest, tag):
        (account,) = Ledger.read(self.folder / "rank-0" / "ledger.jsonl").accounts
        found = [account.entry().mu_squared, account.reserved_mu_squared]
        (self.folder / "first.json").write_text(json.dumps(found))
        os.kill(os.getpid(), signal.SIGKILL)


class Lying:
    """An adversary's rank: it sends something other than what its nodes have made."""

    def __init__(self, exchange, own, lie):
        self.exchange, self.own, self.lie, self.heard = exchange, own, lie, exchange.heard
        self.before = []  # it does not check what it sends

    def __call__(self, round_, sent):
        self.lie(sent[: self.own])
        self.exchange(round_, sent)


class Failing:
    """The exchange of an honest rank whose messages are recorded, and of an adversary (rank 1) from round 45 on."""

    def __init__(self, exchange, own, how, sent):
        self.exchange, self.own, self.how, self.sent = exchange, own, how, sent
        self.heard, self.before = exchange.heard, exchange.before

    def __call__(self, round_, rows):
        if self.sent is None:
            if self.how == "far" and round_ >= 45:
                rows[: self.own] = 1e150
            self.exchange(round_, rows)
            return
        self.sent.append((round_, rows[: self.own].tobytes()))
        self.exchange(round_, rows)
        if self.how == "interrupt" and round_ == 45:
            signal.raise_signal(signal.SIGINT)


def slope_of(score, y):
    return -y / (1.0 + math.exp(y * score))


def slope_of_adversary(score, y):
    return -y / (1.0 + math.exp(min(y * score, 700.0)))


def loss_of(score, y):
    return math.log1p(math.exp(min(-y * score, 700.0)))


def failing(ranks, folder, how):
    """Runs that fail in round 45, on rank 0 by a message of rank 1, or by an interrupt: what remains of them."""
    found = {kept: failed(connected(ranks._comm, 20.0), folder, how, kept) for kept in ("no", "journal", "directory")}
    (folder / f"failing-{ranks.rank}.json").write_text(json.dumps(found))


def failed(ranks, folder, how, kept):
    sent = [] if ranks.rank == 0 else None
    whole = ranks.exchange
    ranks.exchange = lambda schedule, dim: Failing(whole(schedule, dim), ranks.part(schedule.n_nodes)[1], how, sent)
    slope = slope_of if ranks.rank == 0 else slope_of_adversary
    loss = Custom(value=loss_of, gradient=slope, lipschitz=1.0, smoothness=0.25)
    state = State(folder / f"rank-{ranks.rank}") if kept == "directory" else None
    ledger = Ledger(journal=folder / f"ledger-{ranks.rank}.jsonl") if kept == "journal" else None
    learner = DOLA(nodes=4, random_state=5, epsilon=4.0, ledger=ledger, loss=loss, x_bound=10.0)
    stream = InterleavedRows([Rows(X[k:1000:4], Y[k:1000:4]) for k in range(4)][slice(*part_of(ranks, 4))])
    found = {}
    try:
        learner.fit_ranks(stream, ranks, checkpoint=state)
    except BaseException as error:
        found["error"] = type(error).__name__
    run = learner._run
    learner.set_params(horizon=500)
    for name, call in (
        ("partial_fit", lambda: learner.partial_fit(-X[:500], 1 - Y[:500])),
        ("learn_one", lambda: learner.learn_one(-X[0], 1.0)),
        ("learn", lambda: run.state.learn(-X[:500], np.ones(500))),
        ("tell", lambda: run.state.tell(np.ones(D + 1))),
        ("gather", lambda: ranks.gather([1])),
    ):
        try:
            call()
            found[name] = "done"
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    entry = run.account.entry()
    found["spent"] = [entry.mu_squared, run.account.reserved_mu_squared, entry.open, run.state.rounds]
    if sent is not None:
        found["sent"] = [len(sent), len({round_ for round_, _ in sent})]
    return found


def part_of(ranks, nodes):
    first, own = ranks.part(nodes)
    return first, first + own


def users(ranks, folder):
    """The statements on users, who may have rows on every rank."""
    found = {}
    for name, caps, columns in (
        ("both", (2, 3), ("person", "person")),
        ("one", (2, None), ("person", None)),
        ("columns", (2, 3), ("person", "patient")),
        ("lie", (2, -1), ("person", "person")),
    ):
        for dealt in (False, True):
            stream = Rows(X[:1000], Y[:1000])
            stream.rows_per_user, stream.user = caps[ranks.rank], columns[ranks.rank]
            stream.conditions = ("common", f"of rank {ranks.rank}")
            if name == "both" and dealt:
                stream.rows_per_user = 2
            stream = DealtRows(stream, ranks, 4) if dealt else Half(stream, ranks.rank)
            try:
                guarantee = make("cycle", topology="ring", nodes=4).fit_ranks(stream, ranks).guarantee_
            except InvalidParameter as error:
                found[f"{name} {dealt}"] = str(error)
            else:
                found[f"{name} {dealt}"] = [guarantee.rows_per_user, guarantee.user, guarantee.sentence()]
    (folder / f"users-{ranks.rank}.json").write_text(json.dumps(found))


class Half(Rows):
    def __init__(self, stream, rank):
        super().__init__(stream.rows[rank::2], stream.targets[rank::2])
        self.rows_per_user, self.user, self.conditions = stream.rows_per_user, stream.user, stream.conditions


def refusals(ranks, folder):
    """Facts on which ranks must agree before a row is learnt."""
    found = {}

    def refused(name, learner, stream):
        try:
            learner.fit_ranks(stream, ranks)
        except InvalidParameter as error:
            found[name] = str(error)
        except RankFailure as error:
            found[name] = f"failure of rank {error.rank}"
        assert "_run" not in vars(learner) or learner._run.state.n_rows == 0

    odd = ranks.rank == 1
    refused("parameters", make("grid", epsilon=2.0 if odd else 1.0), rows_of("grid", ranks))
    refused("seed", make("grid", random_state=6 if odd else 5), rows_of("grid", ranks))
    refused("loss", make("grid", loss=Huber(0.5 if odd else 1.0)), rows_of("grid", ranks))
    other = "ring" if odd else "grid"
    refused("topology", make("grid", topology=other), rows_of("grid", ranks))
    shard = InterleavedRows([Rows(X[: 50 + odd], Y[: 50 + odd]) for _ in range(ranks.part(12)[1])])
    refused("rows", make("grid"), shard)
    wide = Rows(np.ones((1003, 6)), Y) if odd else Rows()
    refused("features", make("grid"), DealtRows(wide, ranks, 12))
    refused("release", make("grid", release=3), rows_of("grid", ranks))
    loss = Custom(value=abs_of, gradient=sign_of, lipschitz=1.0, smoothness=np.inf)
    assert make("grid", loss=loss).fit_ranks(rows_of("grid", ranks), ranks).n_releases_ == 84
    (folder / f"refusals-{ranks.rank}.json").write_text(json.dumps(found))


def abs_of(score, y):
    return abs(score - y)


def sign_of(score, y):
    return float(np.sign(score - y))


def command(ranks, folder, *words):
    """The command line, in its folder; the output of each rank is kept separately."""
    whole, argv = distributed.Ranks, sys.argv
    distributed.Ranks = lambda timeout: connected(ranks._comm, timeout)  # the ranks of this task alone
    sys.argv = ["privol", *words]
    with contextlib.ExitStack() as stack:
        for name, redirected in (("out", contextlib.redirect_stdout), ("err", contextlib.redirect_stderr)):
            written = stack.enter_context(open(folder / f"{name}-{ranks.rank}.txt", "w"))
            stack.enter_context(redirected(written))
        stack.enter_context(contextlib.chdir(folder))
        try:
            main()
        finally:
            distributed.Ranks, sys.argv = whole, argv


PROGRAMS = {"bits": bits, "kept": kept, "failing": failing, "users": users, "refusals": refusals, "command": command}
PROGRAMS |= PARTS


def do(comm, tasks):
    """Do tasks, [[ranks, folder, name, *words], ...], each on the first ranks; its folder gets their exit codes.

    Ranks without a part in a task wait without using the processor.
    """
    me, everybody = comm.Get_rank(), connected(comm, 600.0)
    for count, folder, name, *words in tasks:
        everybody.barrier()
        part = comm.Split(0 if me < count else 1)
        if me >= count:
            continue
        code = 0
        try:
            PROGRAMS[name](connected(part, 60.0), Path(folder), *words)
        except SystemExit as stop:
            code = stop.code or 0
        except Exception:
            (Path(folder) / f"traceback-{me}.txt").write_text(traceback.format_exc())
            code = 1
        (Path(folder) / f"code-{me}.json").write_text(json.dumps(code))
    everybody.barrier()


if __name__ == "__main__":
    from mpi4py import MPI

    do(MPI.COMM_WORLD, json.loads(sys.argv[1]))
