"""What the ranks of test_distributed.py run: ``python mpi_programs.py NAME FOLDER [words]`` under mpiexec."""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from pathlib import Path

import numpy as np

from privol import DOLA, SparseDOLA
from privol.distributed import DealtRows, InterleavedRows, Ranks
from privol.errors import InvalidParameter, PrivacyWarning, RankFailure
from privol.losses import Custom
from privol.state import State
from privol.topology import LinkFailures, MatchingCycle, RandomMatching, StaticMixing, erdos_renyi, grid, ring

warnings.simplefilter("ignore", PrivacyWarning)

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
    """Of several epochs, a multiple of the nodes."""
    stream = Rows(X[:952], Y[:952]) if name == "epochs" else Rows()
    return stream if ranks is None else DealtRows(stream, ranks, make(name).mixing().n_nodes)


def bits(ranks, folder):
    """All cases, once."""
    for name in CASES:
        learner = make(name).fit_ranks(rows_of(name, ranks), ranks)
        np.savez(folder / f"{name}-{ranks.size}-{ranks.rank}.npz", **found_of(learner))
    np.savez(folder / f"traffic-{ranks.size}-{ranks.rank}.npz", sent=np.array([ranks.messages, ranks.bytes]))


def kept(ranks, folder, rank="-1", rows="0", how="kill", every="90"):
    """A run that is kept; one rank is killed, or fails, when it has learnt some rows."""

    def progress(learner, stream):
        if how not in LIES and ranks.rank == int(rank) and learner._run.state.n_rows >= int(rows):
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError("the disk is gone")

    if how in LIES and ranks.rank == int(rank):
        whole = ranks.exchange
        ranks.exchange = lambda schedule, dim: Lying(whole(schedule, dim), ranks.part(schedule.n_nodes)[1], LIES[how])
    state = State(folder / f"rank-{ranks.rank}", every=int(every))
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


class Lying:
    """A rank of an adversary: what leaves it is other than what its nodes have made."""

    before = None

    def __init__(self, exchange, own, lie):
        self.exchange, self.own, self.lie, self.heard = exchange, own, lie, exchange.heard

    def __call__(self, round_, sent):
        self.lie(sent[: self.own])
        self.exchange(round_, sent)


def refusals(ranks, folder):
    """What ranks must agree on, before a row is learnt."""
    found = {}

    def refused(name, learner, stream):
        try:
            learner.fit_ranks(stream, ranks)
        except InvalidParameter as error:
            found[name] = str(error)
        except RankFailure as error:
            found[name] = f"failure of rank {error.rank}"
        assert not hasattr(learner, "_run") or learner._run.state.n_rows == 0

    odd = ranks.rank == 1
    refused("parameters", make("grid", epsilon=2.0 if odd else 1.0), rows_of("grid", ranks))
    refused("seed", make("grid", random_state=6 if odd else 5), rows_of("grid", ranks))
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


if __name__ == "__main__":
    name, folder, *words = sys.argv[1:]
    {"bits": bits, "kept": kept, "refusals": refusals}[name](Ranks(timeout=60.0), Path(folder), *words)
