"""Options reach what they are for: of an arena, an audit, a network, an encoding, and a run with workers."""

from __future__ import annotations

import json
import sys

import pytest
from cli_tools import privol_cli, write

from privol import open_stream
from privol.cli import loading
from privol.cli.app import DATA, USAGE
from privol.cli.encoding import encoder_for
from privol.cli.streams import parts_for_run, rows_that_taught
from privol.cli.workers import PartsOfFile
from privol.errors import StreamError
from privol.guarantees import gdp_mu
from privol.learners import LEARNERS


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows").mkdir()
    for k in range(2):
        body = [[(i % 7) / 7, "yes" if i % 3 else "no", f"u{i % 20}"] for i in range(100)]
        write(tmp_path / "rows" / f"{k}.csv", ["a", "label", "who"], body)
    (tmp_path / "s.toml").write_text(
        '[columns.a]\nrange = [-1, 1]\n[target]\ncolumn = "label"\nnegative = "no"\npositive = "yes"\n'
        '[user]\ncolumn = "who"\nmax_rows = 2\nseparation = 30\n'
    )
    return tmp_path


def test_options_of_an_arena(files, monkeypatch):
    found = {}

    def run_arena(specs, out, **words):
        found.update(words, order=[spec.order for spec in specs])
        raise OSError("not now")

    monkeypatch.setattr("privol.arena.run_arena", run_arena)
    words = "--delta 1e-8 --seeds 2 --rows 0 --jobs 3 --redo sgd,dpftrl --others none --epsilons 2,inf --shuffle"
    privol_cli("arena", "rows/0.csv", "--target", "label", *words.split())
    del found["progress"], found["diffprivlib"]
    assert found == {
        "delta": 1e-8, "seeds": 2, "rows": None, "jobs": 3, "redo": ["sgd", "dpftrl"], "others": [], "learners": None,
        "epsilons": [2.0, float("inf")], "order": ["shuffled"],
    }  # fmt: skip


def test_a_horizon_with_workers(files):
    """The run is planned for its horizon, and not for the rows that the files have."""
    words = ("run", "rows/*.csv", "--schema", "s.toml", "--learner", "dpftrl", "--batch", "100", "--workers", "2")
    result = privol_cli(*words, "--rows-per-user", "4", "--horizon", "500", "--out", "R", "--json")
    found = json.loads(result.stdout)
    assert found["horizon"] == 500, found


def test_users_of_several_files(files):
    """A cap, and how far rows of a user are apart, hold in each file: over all of them more rows may be neighbours."""
    opened = open_stream("rows/*.csv", schema="s.toml")
    assert (opened.rows_per_user, opened.user_separation) == (2, 30)
    whole = PartsOfFile(opened, [0, 0, 0])
    assert (whole.rows_per_user, whole.user_separation) == (6, 1)


def test_workers_are_told_the_first_index(files):
    (files / "rows.svm").write_text("1 1:0.5 2:0.25\n-1 1:0.1\n")
    words = ("run", "rows.svm", "--classes", "-1,1", "--n-features", "2", "--x-bound", "1", "--workers", "1")
    result = privol_cli(*words, "--learner", "objective-perturbation", "--out", "R")
    assert result.exit_code == USAGE
    assert "--workers need --zero-based or --one-based" in " ".join(result.output.split())
    assert not (files / "R").exists()
    options = dict.fromkeys(
        ("schema", "target", "positive", "ranges", "header", "sep", "encoding", "columns", "format")
    )
    (part,) = parts_for_run("rows.svm", {**options, "classes": "-1,1", "n_features": 2, "zero_based": False})
    assert (part.options["zero_based"], part.options["classes"]) == (False, ["-1", "1"])


def test_rows_that_taught_are_those_before_the_first_learnt_one(files):
    schema = open_stream("rows/0.csv", schema="s.toml").schema.to_record()
    words = {"format": None, "classes": None, "positive": None, "zero_based": None}
    blocks = rows_that_taught("rows/0.csv", words, {"schema": schema, "first_row": 11}, bytes(16))
    assert sum(len(block.X) for block in blocks) == 10


def test_a_separator_is_kept_for_predictions(files):
    (files / "t.txt").write_text("a;label\n" + "".join(f"{i % 7};{['no', 'yes'][i % 2]}\n" for i in range(100)))
    (files / "r.json").write_text('{"a": [0, 7]}')
    words = ("run", "t.txt", "--sep", ";", "--ranges", "r.json", "--classes", "no,yes", "--no-learn-schema")
    found = json.loads(privol_cli(*words, "--out", "R", "--json", "--no-diagnostics").stdout)
    assert found["inputs"]["sep"] == ";"
    (files / "new.txt").write_text("a\n1\n")  # one column: nothing shows a separator
    assert privol_cli("predict", "R", "new.txt").stdout.count("\n") == 2


def test_libraries_that_were_not_wanted_can_be_imported_later():
    before = list(sys.meta_path)
    loading.load_libraries()
    assert sys.meta_path == before


def test_budgets_of_an_audit_have_noise_of_their_own(monkeypatch):
    found = []

    def audit(learner, **words):
        found.append((learner, words))
        if len(found) == 3:
            raise OSError("enough")

    monkeypatch.setattr("privol.audit.audit", audit)
    privol_cli("audit", "dpftrl", "--epsilon", "1", "--epsilon", "2", "--epsilon", "3", "--seed", "5", "--batch", "4")
    assert found == [("dpftrl", {"epsilon": k + 1.0, "random_state": k + 5, "batch": 4}) for k in range(3)]


def test_columns_to_drop():
    made = LEARNERS["dpftrl"]()
    options = {"declared": None, "crosses": (), "horizon": 1000, "ledger": None, "regression": None, "mu": None}
    found = encoder_for(made, drop="id, dose", shares=False, sketch=0, **options)
    assert tuple(found.drop) == ("id", "dose")


def test_mu_is_of_the_delta_that_is_stated():
    words = ("plan", "--n-features", "3", "--horizon", "500", "--json", "--mu", "0.5")
    for delta in (1e-6, 1e-9):
        planned = json.loads(privol_cli(*words, "--delta", repr(delta)).stdout)
        assert 0.5 * (1 - 1e-9) <= gdp_mu(planned["parameters"]["epsilon"], delta) <= 0.5


def test_surplus_rows_of_users_are_null_rows_of_a_fit(files):
    schema = files / "s.toml"
    schema.write_text(schema.read_text() + 'surplus = "null"\n')
    words = ("run", "rows/*.csv", "--schema", "s.toml", "--learner", "objective-perturbation", "--out", "R", "--json")
    found = privol_cli(*words, "--rows-per-user", "2")
    assert json.loads(found.stdout)["rows"] == 200, found.output


class OneRank:
    """An MPI job of one process."""

    rank, size, messages, bytes = 0, 1, 0, 0

    def __init__(self, timeout):
        self.said = []

    def part(self, nodes):
        return 0, nodes

    def barrier(self):
        pass

    def fail(self, why):
        pass


DOLA = ("dola", "rows/0.csv", "rows/1.csv", "--schema", "no-user.toml", "--out", "R")


@pytest.fixture
def network(files, monkeypatch):
    (files / "no-user.toml").write_text(
        (files / "s.toml").read_text().partition("[user]")[0] + "[columns.who]\ndrop = true\n"
    )
    monkeypatch.setattr("privol.distributed.Ranks", OneRank)
    return files


def test_the_horizon_of_a_network_is_that_of_all_its_files(network, monkeypatch):
    found = []

    def noisy_steps(name, given):
        found.append((name, given["horizon"]))
        raise OSError("enough")

    monkeypatch.setattr("privol.auto.defaults.noisy_steps", noisy_steps)
    privol_cli(*DOLA)
    assert found == [("dola", 200)]


def test_a_network_that_fails_says_how_it_goes_on(network, monkeypatch):
    def fit_ranks(made, stream, ranks, checkpoint):
        (network / "R" / "rank-0000" / "secret").mkdir(parents=True)
        (network / "R" / "rank-0000" / "secret" / "run.json").write_text("{}")
        raise StreamError("no more rows")

    monkeypatch.setattr(LEARNERS["dola"], "fit_ranks", fit_ranks)
    result = privol_cli(*DOLA)
    assert result.exit_code == DATA
    assert "what all ranks have kept stays in R: the same command with --resume continues it" in result.stderr
    assert (network / "R").exists()
