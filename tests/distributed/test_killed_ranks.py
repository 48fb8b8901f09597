"""A rank of a kept network that is killed where the run begins, or ends: the others have begun or ended, it has not."""

from __future__ import annotations

import shutil
import sys

import numpy as np
import pytest
from mpi_jobs import mpi

from privol.ledger import Ledger
from privol.state import load_model

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.process,
    pytest.mark.skipif(sys.platform == "win32", reason="kill -9"),
]

PROGRAM = """
import os, signal, sys, time
from pathlib import Path

from mpi_programs import make, rows_of

from privol.distributed import Ranks
from privol.errors import RankFailure, StateError
from privol.state import State

folder, victim, where = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
ranks = Ranks(timeout=3.0)
seal = State.seal


def dies(path, text):  # once the others have it
    known = [folder / f"rank-{k}" / path for k in range(ranks.size) if k != victim]
    while not all(each.exists() and text in each.read_text() for each in known):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


def begins(state, run):
    state._company.meet()  # the others keep their first states now
    dies("ledger.jsonl", '"spent"')


def ends(state, learner, run):
    seal(state, learner, run)  # now the others may end
    dies("model.json", "n_rows")


if ranks.rank == victim:
    State.commit, State.seal = (begins, State.seal) if where == "begin" else (State.commit, ends)
learner = make("batch")
try:
    learner.fit_ranks(rows_of("batch", ranks), ranks, checkpoint=State(folder / f"rank-{ranks.rank}", every=90))
except (RankFailure, StateError) as error:
    print(error)
    sys.exit(3)
"""
SIZE = 3


def run(folder, program, victim, where="begin", **options):
    folder.mkdir(exist_ok=True)
    return mpi(SIZE, program, folder, victim, where, warm=sys.platform.startswith("linux"), **options)


def ends(folder):
    models = [load_model(folder / f"rank-{k}").coef_ for k in range(SIZE)]
    entries = [Ledger.read(folder / f"rank-{k}" / "ledger.jsonl").entries() for k in range(SIZE)]
    return models, [[(e.rows, e.releases, e.mu_squared, e.open) for e in each] for each in entries]


def assert_same(folder, whole):
    (models, ledgers), (expected, undisturbed) = ends(folder), ends(whole)
    assert ledgers == undisturbed
    for found, model in zip(models, expected, strict=True):
        assert np.array_equal(found, model)
    assert not list(folder.glob("rank-*/secret/*"))


@pytest.fixture(name="program", scope="module")
def _program(tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "program.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture(name="whole", scope="module")
def _whole(program, tmp_path_factory):
    """What a run comes to that nobody disturbs."""
    folder = tmp_path_factory.mktemp("network") / "whole"
    run(folder, program, -1)
    return folder


def test_it_begins_beside_the_others(tmp_path, program, whole):
    """Found by kills: the run could neither go on nor begin again."""
    assert run(tmp_path / "struck", program, 1, check=False).returncode != 0
    assert list(tmp_path.glob("struck/rank-0/secret/checkpoint-*"))
    assert not list(tmp_path.glob("struck/rank-1/secret/checkpoint-*"))
    lost = shutil.copytree(tmp_path / "struck", tmp_path / "lost")
    run(tmp_path / "struck", program, -1)
    assert_same(tmp_path / "struck", whole)
    # a rank that lost its directory may have sent messages, which must not be sent in another version
    shutil.rmtree(lost / "rank-1")
    refused = run(lost, program, -1, check=False)
    assert refused.returncode != 0
    assert "rank 1 has no run to resume, and others have" in refused.stdout


def test_it_ends_as_the_others_have(tmp_path, program, whole):
    """Its account has all rows that it learnt, also those after its last checkpoint."""
    assert run(tmp_path / "struck", program, 1, "end", check=False).returncode != 0
    assert list(tmp_path.glob("struck/rank-1/secret/model.json"))
    told = run(tmp_path / "struck", program, -1, check=False)
    assert "is finished" in told.stdout
    assert_same(tmp_path / "struck", whole)
