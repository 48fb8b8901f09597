"""DOLA over MPI: real ranks, the bits of one process, failures that end all ranks, resumed runs."""

from __future__ import annotations

import json
import shutil
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from mpi_jobs import codes, mpi, tasks, texts
from mpi_programs import CASES, Block, N, Rows, X, Y, found_of, make, rows_of
from scipy import sparse

from privol.cli.account import describe_account
from privol.cli.app import app
from privol.distributed import DealtRows, InterleavedRows
from privol.errors import InvalidParameter
from privol.ledger import Ledger
from privol.state import State, load_model
from privol.verifying import verify

pytestmark = pytest.mark.mpi

SHARDS = ["part-0.csv", "part-1.csv", "part-2.csv", "part-3.csv"]


@pytest.fixture(scope="module")
def alone():
    return {name: found_of(make(name).fit_stream(rows_of(name))) for name in CASES}


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """All cases in which no process is killed, one after another on the same ranks."""
    folder = tmp_path_factory.mktemp("together")
    todo = [(ranks, folder / f"bits-{ranks}", "bits") for ranks in (1, 2, 3, 4)]
    todo += [(2, folder / f"kept-{lie}", "kept", 0, 0, lie) for lie in ("nan", "far")]
    todo += [(2, folder / f"failing-{how}", "failing", how) for how in ("far", "interrupt")]
    todo += [(2, folder / name, name) for name in ("users", "refusals")]
    todo += [(3, folder / "raise", "kept", 1, 150, "raise")]
    for (name, ranks), words in commands_of(folder).items():
        todo.append((ranks, folder / name, "command", *words))
    tasks(*todo)
    return folder


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Jobs in which a rank was killed after a given number of rows; each needs processes of its own."""
    folder = tmp_path_factory.mktemp("killed")
    for name, ranks, *words in (
        ("kill", 3, 1, 150, "kill"),
        ("crash", 2, 0, 300, "kill"),
        ("lie", 2, 0, 380, "kill", 450),  # ten rounds from checkpoint to checkpoint
        ("early", 2, 1, 150, "kill", 65536),
        ("first", 2, 0, 0, "first", 65536),
    ):
        ended = tasks((ranks, folder / name, "kept", *words), check=False)
        assert ended.returncode != 0, name
        assert len(codes(folder / name)) < ranks, name
    return folder


@pytest.fixture(scope="module")
def refused(killed):
    """Runs that must not resume: one rank's run is lost, or a rank would send something else than before."""
    shutil.copytree(killed / "crash", killed / "lost")
    shutil.rmtree(killed / "lost" / "rank-1")
    sent = (killed / "lie" / "rank-1" / "secret" / "sent.log").read_bytes()
    kept = sorted((killed / "lie" / "rank-1" / "secret").glob("checkpoint-*"))
    tasks((2, killed / "lost", "kept"), (2, killed / "lie", "kept", 0, 0, "lie", 450))
    return {name: (codes(killed / name), texts(killed / name, "traceback")) for name in ("lost", "lie")} | {
        "sent": sent,
        "kept": kept,
        "sent since": (killed / "lie" / "rank-1" / "secret" / "sent.log").read_bytes(),
    }


@pytest.fixture(scope="module")
def gone_on(killed, refused, together):
    """The resumed runs, in new processes."""
    raised = codes(together / "raise")
    kept = [sorted((killed / "crash" / f"rank-{rank}" / "secret").glob("checkpoint-*")) for rank in range(2)]
    kept[1][-1].unlink()  # as if the crash had happened before it was written
    assert not list((killed / "kill").glob("kept-*.npz"))
    assert not list((together / "raise").glob("kept-*.npz"))
    tasks(
        (3, killed / "kill", "kept"),
        (3, together / "raise", "kept"),
        (2, killed / "crash", "kept"),
        (2, killed / "lie", "kept", -1, 0, "kill", 450),  # the honest run resumes
    )
    for folder in (killed / "kill", together / "raise", killed / "crash", killed / "lie"):
        assert not any(codes(folder)), texts(folder, "traceback")
    return {"kill": killed, "raise": together, "crash": killed, "lie": killed, "checkpoints": kept, "raised": raised}


@pytest.fixture(scope="module")
def whole():
    return found_of(make("batch").fit_stream(rows_of("batch")))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks of Linux")
def test_ranks_are_forked():
    """Else each rank of a test imports privol anew, which takes longer than all that it does."""
    shown = mpi(2, "-c", "import sys; print('privol.cli' in sys.modules)", warm=True)
    assert shown.stdout.split() == ["True", "True"]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_the_same_bits_on_any_number_of_ranks(ranks, alone, together):
    folder = together / f"bits-{ranks}"
    assert codes(folder) == [0] * ranks, texts(folder, "traceback")
    for name in CASES:
        for rank in range(ranks):
            found = np.load(folder / f"{name}-{ranks}-{rank}.npz")
            for part, expected in alone[name].items():
                assert found[part].tobytes() == np.ascontiguousarray(expected).tobytes(), (name, rank, part)
    sent = sum(np.load(folder / f"traffic-{ranks}-{rank}.npz")["sent"] for rank in range(ranks))
    if ranks == 1:
        assert sent.tolist() == [0, 0]
        return
    # rows of neighbours only, each once to a rank that receives it: no more than what nodes send
    bytes_of_nodes = sum(alone[name]["sent"][1] for name in CASES)
    assert 0 < sent[1] < bytes_of_nodes
    assert sent[0] <= sum(alone[name]["sent"][0] for name in CASES)


@pytest.mark.parametrize("how", ["kill", "raise"])
def test_a_dead_rank_ends_the_run_which_can_be_resumed(how, gone_on, whole):
    folder = gone_on[how] / how
    if how == "raise":
        for rank in (0, 2):
            words, failed = json.loads((folder / f"failure-{rank}.json").read_text())
            assert failed == 1
            assert "rank 1 cannot go on: OSError" in words
            assert "disk" not in words  # details about its rows belong in its own log
        assert gone_on["raised"] == [3, 4, 3]
    for rank in range(3):
        found = dict(np.load(folder / f"kept-{rank}.npz"))
        assert found.pop("began")[0]
        for part, expected in whole.items():
            assert found[part].tobytes() == np.ascontiguousarray(expected).tobytes(), (rank, part)
        model = load_model(folder / f"rank-{rank}")
        assert np.array_equal(model.coef_, whole["coef"])
        assert not (folder / f"rank-{rank}" / "secret").exists()


def test_a_rank_that_is_killed_where_its_run_ends_ends_it_as_the_others_have(tmp_path, whole):
    """Found by kills: it could neither go on nor end, and kept its reservation and its secrets."""
    folder = tmp_path / "sealed"
    assert tasks((3, folder, "kept", 1, 0, "sealed"), check=False).returncode != 0
    assert (folder / "rank-0" / "model.json").exists()
    assert (folder / "rank-1" / "secret").exists()
    (before,) = Ledger.read(folder / "rank-1" / "ledger.jsonl").accounts
    assert before.entry().open
    tasks((3, folder, "kept"))
    assert codes(folder) == [1, 1, 1]
    assert texts(folder, "traceback").count("is finished") == 3
    for rank in range(3):
        assert np.array_equal(load_model(folder / f"rank-{rank}").coef_, whole["coef"])
        assert not (folder / f"rank-{rank}" / "secret").exists()
        (account,) = Ledger.read(folder / f"rank-{rank}" / "ledger.jsonl").accounts
        assert account.closed
        assert account.entry().mu_squared == before.reserved_mu_squared


def test_ranks_resume_from_the_last_common_round(gone_on, whole):
    """One rank has kept a round more than another: its rows of that round are learnt again, with the same noise."""
    kept, other = gone_on["checkpoints"]
    assert {len(kept), len(other)} <= {2, 3}  # 3 where a rank was killed before it removed the oldest
    folder = gone_on["crash"] / "crash"
    assert np.load(folder / "kept-1.npz")["nodes"].tobytes() == whole["nodes"].tobytes()


def test_a_rank_without_its_run_prevents_resuming(killed, refused):
    ended, said = refused["lost"]
    assert all(ended)
    assert "rank 1 has no run to resume" in said
    assert State(killed / "lost" / "rank-0").read() is not None


def test_no_message_is_sent_in_two_versions(refused, gone_on, whole):
    """If a repeated round received different gradients, two of them would have one noise: the rank refuses."""
    sent, kept = refused["sent"], refused["kept"]
    rounds = int(kept[-1].stem.split("-")[1]) // (4 * 5)
    assert rounds == 10
    assert len(sent) // 40 > rounds + 2
    ended, said = refused["lie"]
    assert all(ended)
    assert "would send something else" in said
    assert refused["sent since"] == sent
    assert np.load(gone_on["lie"] / "lie" / "kept-1.npz")["nodes"].tobytes() == whole["nodes"].tobytes()


@pytest.mark.parametrize("lie", ["nan", "far"])
def test_impossible_messages_are_not_learnt_from(lie, together):
    """Output noise covers the rounding of a mix within bounds: beyond them a rank refuses to continue."""
    folder = together / f"kept-{lie}"
    assert codes(folder) == [3, 3]
    words, failed = json.loads((folder / "failure-1.json").read_text())
    assert failed == 0
    assert "rank 0 has sent numbers that are not finite, or beyond 1e+150" in words
    assert not list(folder.glob("kept-*.npz"))


@pytest.mark.parametrize("how", ["far", "interrupt"])
def test_sent_messages_are_never_undone(how, together):
    """A user's own loss fails on what another rank sends: if undone, its rounds would be sent again with other rows.

    The run is over for good, and all that it reserved is spent, because other ranks hold its messages.
    """
    folder = together / f"failing-{how}"
    runs = json.loads((folder / "failing-0.json").read_text())
    for kept, found in runs.items():
        assert found["error"] == {"far": "OverflowError", "interrupt": "KeyboardInterrupt"}[how], kept
        assert found["sent"][0] == found["sent"][1] >= 45, kept
        closed = "the run is kept on the disk" if kept == "directory" else "the run is closed"
        assert closed in found["partial_fit"], kept
        assert closed in found["learn_one"], kept
        assert "the run is closed" in found["learn"], kept
        assert "the run is closed" in found["tell"], kept
        assert "cannot go on: another run needs new Ranks" in found["gather"], kept
        spent, reserved, still_open, rounds = found["spent"]
        assert spent == reserved, kept
        assert rounds >= 44, kept
        assert still_open == (kept == "directory")
    for journal in (folder / "ledger-0.jsonl", folder / "rank-0" / "ledger.jsonl"):
        (entry,) = Ledger.read(journal).entries()
        assert entry.mu_squared == reserved


def test_sent_messages_count_as_spent_for_every_reader(killed):
    """A rank that is killed long before its second checkpoint has already sent messages."""
    whole = killed / "early"
    for rank in range(2):
        folder = whole / f"rank-{rank}"
        rounds = len((folder / "secret" / "sent.log").read_bytes()) // 40
        assert rounds > 2
        (entry,) = Ledger.read(folder / "ledger.jsonl").entries()
        (account,) = Ledger.read(folder / "ledger.jsonl").accounts
        assert entry.mu_squared == account.reserved_mu_squared
        record = describe_account([str(folder)], None)
        assert record["journals"][0]["runs"][0]["spent"] == record["journals"][0]["runs"][0]["reserved"]
    State(whole / "rank-0").end()
    ended = CliRunner().invoke(app, ["resume", str(whole / "rank-1"), "--end"])
    assert "nothing was released" not in ended.output
    assert "no model was released, but messages" in ended.output
    for rank in range(2):
        (entry,) = Ledger.read(whole / f"rank-{rank}" / "ledger.jsonl").entries()
        assert not entry.open
        assert entry.mu_squared == account.reserved_mu_squared
        assert entry.releases >= rounds - 1


def test_the_run_is_charged_before_a_message_leaves(killed):
    """The kill comes between the two: the first message was made but not sent."""
    charged, reserved = json.loads((killed / "first" / "first.json").read_text())
    assert charged == reserved


def test_users_have_rows_on_all_ranks(together):
    """The sentence covers the whole network: the caps of ranks add up, and if one is unknown nothing is said."""
    folder = together / "users"
    assert codes(folder) == [0, 0], texts(folder, "traceback")
    found = [json.loads((folder / f"users-{rank}.json").read_text()) for rank in range(2)]
    assert found[0] == found[1]
    for name, (cap, column) in {
        "both False": (5, "person"),
        "both True": (2, "person"),  # dealt out of one stream, in which every rank counts all users
        "one False": (None, None),
        "one True": (None, None),
        "columns False": (None, None),
        "columns True": (None, None),
    }.items():
        assert found[0][name][:2] == [cap, column], name
        said = found[0][name][2]
        assert ("several rows of one person are not protected as one" in said) == (cap is None), name
        assert "common" in said
        assert "of rank 0" in said
        assert "of rank 1" in said
        assert ("all ranks deal out the rows of the same stream" in said) == (name == "both True"), name
    for name in ("lie False", "lie True"):
        assert "what a rank says of its rows cannot be" in found[0][name]


def test_ranks_must_agree(together):
    folder = together / "refusals"
    assert codes(folder) == [0, 0], texts(folder, "traceback")
    for rank in range(2):
        found = json.loads((folder / f"refusals-{rank}.json").read_text())
        assert "epsilon must be the same on all ranks: rank 1 has another" in found["parameters"]
        assert "random_state must be the same" in found["seed"]
        assert "loss must be the same" in found["loss"]
        assert "topology must be the same" in found["topology"]
        assert "as many rows as the others" in found["rows"]
        assert "n_features must be the same" in found["features"]
        assert "release must be 'all' or 'last'" in found["release"]


# ---- the command line ---------------------------------------------------------------------------------------------


def write_shards(folder, ragged=False, at=None):
    """Write a file for every node and one for all; row 201 of node 2 may be changed by a function of its text."""
    folder.mkdir(exist_ok=True)
    for i, name in enumerate(SHARDS):
        rows, labels = X[i:1000:4], Y[i:1000:4]
        lines = [",".join(map(repr, x.tolist())) + f",{int(y)}" for x, y in zip(rows, labels, strict=True)]
        if at is not None and i == 2:
            lines[200] = at(lines[200])
        (folder / name).write_text("\n".join(lines[: len(lines) - (ragged and i == 3)]) + "\n")
    lines = [",".join(map(repr, x.tolist())) + f",{int(y)}" for x, y in zip(X[:1000], Y[:1000], strict=True)]
    (folder / "all.csv").write_text("\n".join(lines) + "\n")


DOLA_WORDS = ("dola", "--target", "-1", "--classes", "0,1", "--no-header", "--batch", "5", "--seed", "3")
CORRUPT = {
    "short": (lambda line: line.split(",", 1)[1], "row 201: found 5 field"),
    "letter": (lambda line: "x" + line, "'x"),
}


def commands_of(folder):
    """Commands that run on the same ranks, and their files: arguments by folder and number of ranks."""
    for name in ("one", "few"):
        write_shards(folder / name)
    write_shards(folder / "ragged", ragged=True)
    for name, (at, _) in CORRUPT.items():
        write_shards(folder / name, at=at)
    schema = '[target]\ncolumn = "y"\nnegative = ["0"]\npositive = ["1"]\n'
    schema += '[columns.x]\nrange = [-2, 2]\n[user]\ncolumn = "who"\nmax_rows = 1\n'
    for place in (folder / "users-1", folder / "users-2"):
        place.mkdir()
        (place / "s.toml").write_text(schema)
        for name in ("a.csv", "b.csv"):
            lines = [f"{X[k, 0]:.6f},{int(Y[k])},p{k}" for k in range(100)]
            (place / name).write_text("\n".join(["x,y,who", *lines]) + "\n")
    users = ("dola", "a.csv", "b.csv", "--schema", "s.toml", "--batch", "10", "--json", "--out", "R")
    return {
        ("one", 1): (*DOLA_WORDS, "all.csv", "--nodes", "4", "--out", "S"),
        ("users-1", 1): users,
        ("users-2", 2): users,
        **{(name, 2): (*DOLA_WORDS, *SHARDS, "--out", "R") for name in ("ragged", *CORRUPT)},
        ("few", 2): (*DOLA_WORDS, "all.csv", "--nodes", "1", "--out", "R"),
    }


def test_command(tmp_path, together):
    write_shards(tmp_path)
    shown = mpi(3, "-m", "privol", *DOLA_WORDS, *SHARDS, "--out", "R", "--json", folder=tmp_path)
    record = json.loads(shown.stdout)
    assert (record["rows"], record["nodes"], record["ranks"], record["rounds"]) == (1000, 4, 3, 50)
    assert record["between_nodes"]["messages"] == 8 * 50
    assert json.loads((tmp_path / "R" / "run.json").read_text()) == record
    # with the bits of a seed, by rank
    assert [each.what for each in verify(tmp_path / "R") if not each.holds] == 3 * ["bits"]
    assert codes(together / "one") == [0], texts(together / "one", "err")
    assert "NOT PRIVATE: the noise came from a known seed" in texts(together / "one", "out")
    models = [load_model(place) for place in (tmp_path / "R", together / "one" / "S", tmp_path / "R" / "rank-0002")]
    assert np.array_equal(models[0].coef_, models[1].coef_)
    assert np.array_equal(models[0].coef_, models[2].coef_)


def test_the_command_counts_users_over_all_files(together):
    """A patient may be in both files: with one rank for each file, the sentence is that of one process."""
    one, two = (json.loads(texts(together / name, "out"))["guarantee"] for name in ("users-1", "users-2"))
    assert (codes(together / "users-1"), codes(together / "users-2")) == ([0], [0, 0])
    assert one["rows_per_user"] == two["rows_per_user"] == 2
    assert one["conditions"] == two["conditions"]


def test_command_refuses(together):
    for name, said in (
        ("ragged", "all nodes must have the same number of rows"),
        ("few", "nodes must be at least the number of ranks"),
        *((name, said) for name, (_, said) in CORRUPT.items()),
    ):
        errors = texts(together / name, "err")
        assert all(codes(together / name)), name
        assert said in errors
        if name in CORRUPT:
            assert SHARDS[2] in errors
            assert "rank 1 cannot go on" in errors
        assert not (together / name / "R").exists()


# ---- rows of the nodes here, without MPI --------------------------------------------------------------------------


class Part:
    """A substitute for ranks where only the partition matters."""

    def __init__(self, first, own):
        self.own = first, own

    def part(self, nodes):
        return self.own


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
def test_rows_are_dealt_and_interleaved_alike(kind):
    for first, own in ((0, 3), (3, 2), (5, 2)):
        dealt = DealtRows(Rows(), Part(first, own), 7)
        blocks = list(dealt)
        found = np.concatenate([b.X for b in blocks])
        mine = np.flatnonzero((np.arange(N) % 7 >= first) & (np.arange(N) % 7 < first + own))
        assert np.array_equal(found, X[mine])
        assert dealt.n_rows == len(mine)
    even = 7 * 143
    nodes = [OfKind(X[i:even:7], Y[i:even:7], kind) for i in range(3, 5)]
    joined = InterleavedRows(nodes, rounds=10)
    blocks = list(joined)
    mine = np.flatnonzero((np.arange(even) % 7 >= 3) & (np.arange(even) % 7 < 5))
    rows = np.concatenate([b.X.toarray() if sparse.issparse(b.X) else b.X for b in blocks])
    assert np.array_equal(rows, X[:even][mine])
    assert np.array_equal(np.concatenate([b.y for b in blocks]), Y[:even][mine])
    assert joined.n_rows == len(mine)


class OfKind(Rows):
    def __init__(self, rows, targets, kind):
        super().__init__(kind(rows), targets)

    def __iter__(self):
        for start in range(0, self.n_rows, 33):
            yield Block(self.rows[start : start + 33], self.targets[start : start + 33], start)


def test_mismatched_streams_of_nodes_are_refused():
    with pytest.raises(InvalidParameter, match="the same number of rows, found"):
        InterleavedRows([Rows(X[:10], Y[:10]), Rows(X[:11], Y[:11])])
    other = Rows(X[:10], Y[:10])
    other.classes = (1, 0)
    with pytest.raises(InvalidParameter, match="the same classes"):
        InterleavedRows([Rows(X[:10], Y[:10]), other])
    short = Rows(X[:10], Y[:10])
    short.n_rows, short.rows = 10, X[:7]
    with pytest.raises(InvalidParameter, match="ended before others"):
        list(InterleavedRows([Rows(X[:10], Y[:10]), Short()]))


class Short(Rows):
    """Declares more rows than it has."""

    def __init__(self):
        super().__init__(X[:7], Y[:7])
        self.n_rows = 10

    def __iter__(self):
        yield Block(X[:7], Y[:7], 0)
