"""Learners side by side: the same rows, no look-ahead, equal privacy, results that can be resumed."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score
from threadpoolctl import threadpool_limits

from privol.arena import (
    CENTRAL,
    GENERATORS,
    OTHERS,
    SYNTHETIC,
    Board,
    Results,
    Spec,
    central,
    contest,
    diffprivlib_worker,
    load_specs,
    references,
    rivals,
    run_arena,
)
from privol.arena.central import encode, in_units, play_learner
from privol.arena.figures import figures_of, measure
from privol.arena.raw_rows import Rows
from privol.arena.results import Key
from privol.arena.specs import prepare
from privol.arena.synthetic import generate
from privol.errors import InvalidParameter, StateError, StreamError
from privol.guarantees import compose_fixed, gdp_mu
from privol.ledger import Ledger
from privol.plots import arena_figure, plot_arena

DELTA, BLOCK = 1e-6, 100
TURNING = Spec(name="turning", generator="turning")


def write_table(path, rows, header=True, seed=0):
    """Two numbers of different sizes and a text, which determine a label of three."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=rows), 1e6 * rng.normal(size=rows)
    town = rng.choice(["here", "there"], size=rows)
    label = np.where(a + 1e-6 * b > 0.7, "high", np.where((town == "here") & (a < 0.3), "mid", "low"))
    lines = ["a,b,town,label"] if header else []
    lines += [f"{x:.6f},{y:.3f},{where},{one}" for x, y, where, one in zip(a, b, town, label, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


# ---- rows --------------------------------------------------------------------------------------------------------


def test_rows_of_a_file_are_spread_evenly_and_the_last_sixth_is_held_out(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("n,y\n" + "".join(f"{i},{'ab'[i % 2]}\n\n" for i in range(3500)))  # blank lines are not rows
    cut = prepare(Spec(name="t", file=str(path), target="y"), 0, 1000, tmp_path)
    assert (cut.rows, cut.held, cut.classes, cut.teach, cut.half) == (834, 166, ("a", "b"), 208, 417)
    rows = Rows(cut)
    numbers = np.concatenate([rows.columns[0].learnt, rows.columns[0].held])
    assert numbers[0] == 0
    assert set(np.diff(numbers)) == {3.0, 4.0}
    assert list(rows.y[:3]) == [0.0, 1.0, 1.0]  # rows 0, 3 and 7


def test_shuffled_rows_depend_on_the_seed_and_on_nothing_else(tmp_path):
    spec = Spec(name="t", file=str(write_table(tmp_path / "t.csv", 600)), target="label", order="shuffled")
    digests = [prepare(spec, seed, None, tmp_path).digest for seed in (0, 0, 1)]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("name", SYNTHETIC)
def test_generators_are_functions_of_their_seed(name):
    first, again, other = generate(name, 300, 0), generate(name, 300, 0), generate(name, 300, 1)
    assert first == again
    assert first[1] != other[1]
    assert len(first[1]) == 300
    assert {len(row) for row in first[1]} == {len(first[0])}


def test_river_generators_are_reproducible(tmp_path):
    pytest.importorskip("river")
    for name in set(GENERATORS) - set(SYNTHETIC):
        cut = prepare(Spec(name=name, generator=name), 0, 300, tmp_path)
        assert cut.regression == (name == "friedman")
        assert prepare(Spec(name=name, generator=name), 0, 300, tmp_path).digest == cut.digest


def test_without_river_an_error_names_what_is_missing(monkeypatch):
    for name in [name for name in sys.modules if name == "river" or name.startswith("river.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "river", None)
    with pytest.raises(InvalidParameter, match=r"'sea' is River's, which is not installed: pip install"):
        generate("sea", 100, 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "must have \\[\\[stream\\]\\] and nothing else, found \\['x'\\]"),
        ("[[stream]]\nfile = 'a.csv'", "must have a name"),
        ("[[stream]]\nname = 'a'\nfiles = 'a.csv'", "stream 'a' has 'files', allowed are name, file"),
        ("[[stream]]\nname = 'a'\nfile = 'a.csv'\ntarget = true", "target = True, which is of a wrong type"),
        ("[[stream]]\nname = 'a'", "must have a file or a generator"),
        ("[[stream]]\nname = 'a'\ngenerator = 'nosuch'", "generator must be one of"),
    ],
)
def test_malformed_streams_are_refused_by_name(tmp_path, text, said):
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(InvalidParameter, match=said):
        load_specs(tmp_path / "a.toml")


def test_rows_that_do_not_fit_are_named(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n" + "1,x\n" * 300 + "1,x,3\n")
    spec = Spec(name="t", file=str(tmp_path / "t.csv"), target="y")
    with pytest.raises(StreamError, match="t, row 301: has 3 cells, and the first line 2"):
        prepare(spec, 0, None, tmp_path)
    with pytest.raises(StreamError, match="no column 'z', the file has 'a', 'y'"):
        prepare(replace(spec, target="z"), 0, 100, tmp_path)
    with pytest.raises(StreamError, match="the target 'y' has one value only"):
        prepare(spec, 0, 300, tmp_path)


# ---- figures -----------------------------------------------------------------------------------------------------


def test_figures_are_those_of_scikit_learn(tmp_path):
    rng = np.random.default_rng(1)
    y, scores = rng.integers(2, size=400).astype(float), rng.normal(size=400)
    found = measure(y, scores, 2)
    assert found["auc"] == pytest.approx(roc_auc_score(y, scores))
    assert found["log_loss"] == pytest.approx(log_loss(y, 1 / (1 + np.exp(-scores))))
    y, scores = rng.integers(3, size=400).astype(float), rng.normal(size=(400, 3))
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    found = measure(y, scores, 3)
    assert found["auc"] == pytest.approx(roc_auc_score(y, shares, multi_class="ovr"), abs=0.02)
    assert found["log_loss"] == pytest.approx(log_loss(y, shares))
    assert measure(np.zeros(4), np.zeros(4), 2)["auc"] is None  # one class only
    assert measure(np.ones(4), np.full(4, -1e3), 2)["log_loss"] == pytest.approx(math.log(1e6))


def test_rows_that_may_teach_are_scored_for_no_entrant(tmp_path):
    cut = prepare(TURNING, 0, 600, tmp_path)
    y, scores = Rows(cut).y, np.linspace(-1, 1, cut.rows)
    blind = np.where(np.arange(cut.rows) < cut.teach, np.nan, scores)
    assert figures_of(cut, y, blind, "all") == figures_of(cut, y, scores, "all") == measure(y[125:], scores[125:], 2)
    assert figures_of(cut, y, scores, "second_half") == measure(y[250:], scores[250:], 2)


class _Labelled:
    def __init__(self, *classes):
        self.classes = classes


def test_scores_are_put_under_the_right_labels(tmp_path):
    cut = prepare(Spec(name="t", file=str(write_table(tmp_path / "t.csv", 300)), target="label"), 0, None, tmp_path)
    assert cut.classes == ("high", "low", "mid")
    scores = np.arange(6.0).reshape(2, 3)
    assert np.array_equal(in_units(cut, _Labelled("mid", "high", "low"), scores), scores[:, [1, 2, 0]])
    found = in_units(cut, _Labelled("low", "high"), np.array([1.0, -2.0]))  # the first rows showed two labels
    assert found.argmax(axis=1).tolist() == [0, 1]
    assert np.all(found[:, 2] < -20)
    two = replace(cut, classes=("high", "low"))
    assert in_units(two, _Labelled("low", "high"), np.array([3.0])).tolist() == [-3.0]


# ---- no look-ahead -------------------------------------------------------------------------------------------------


def _players():
    yield "dpftrl", lambda cut: play_learner(cut, "dpftrl", math.inf, DELTA, 0, BLOCK)
    yield "sgd", lambda cut: references.play_sgd(Rows(cut), BLOCK)
    yield "sgd-default", lambda cut: references.play_default_sgd(Rows(cut), BLOCK)
    yield "dp-sgd", lambda cut: rivals.play_descent(Rows(cut), math.inf, DELTA, 0, BLOCK)
    yield "river", lambda cut: references.play_river(Rows(cut), BLOCK)


@pytest.mark.parametrize(("name", "play"), [pytest.param(*pair, id=pair[0]) for pair in _players()])
def test_no_prediction_knows_the_labels_of_its_block(tmp_path, monkeypatch, name, play):
    """Labels from row 1,200 on differ: all predictions until the end of that block must be the same."""
    if name == "river":
        pytest.importorskip("river")
    for module, names in ((references, ("_STEPS", "_SCHEDULES")), (rivals, ("_BATCHES", "_CLIPS", "_STEPS"))):
        for which in names:  # except those chosen in hindsight
            monkeypatch.setattr(module, which, getattr(module, which)[:1])
    table = write_table(tmp_path / "t.csv", 2400)
    cut = prepare(Spec(name="t", file=str(table), target="label"), 0, None, tmp_path)
    first = play(cut).scores
    learnt = (tmp_path / cut.path).read_text().splitlines()
    row = 1200 + 1
    turned = [line.rpartition(",")[0] + ",high" for line in learnt[row:]]
    (tmp_path / cut.path).write_text("\n".join(learnt[:row] + turned) + "\n")
    other = play(cut).scores
    # a learner's blocks begin after the rows that teach, and a batch may end within the next one
    same = np.all(np.isclose(first, other, equal_nan=True), axis=1)
    until = int(np.argmin(same))
    assert 1200 < until <= 1200 + 2 * BLOCK
    assert same[cut.teach : until].all()


@pytest.mark.parametrize("play", [references.play_whole, references.play_trees])
def test_no_reference_learns_the_rows_held_out(tmp_path, play):
    cut = prepare(Spec(name="t", file=str(write_table(tmp_path / "t.csv", 900)), target="label"), 0, None, tmp_path)
    with threadpool_limits(1):
        first = play(Rows(cut)).held
    held = tmp_path / cut.held_path
    head, *lines = held.read_text().splitlines()
    held.write_text("\n".join([head, *(line.rpartition(",")[0] + ",high" for line in lines)]) + "\n")
    with threadpool_limits(1):
        assert np.array_equal(play(Rows(cut)).held, first)


def test_an_encoding_that_reads_further_than_the_quarter_is_refused(tmp_path):
    cut = prepare(TURNING, 0, 600, tmp_path)
    assert encode(cut, "dpftrl", 20.0, DELTA, 0, BLOCK).first > 100
    with pytest.raises(StreamError, match=r"rows taught the encoding, and 100 are not scored"):
        encode(replace(cut, rows=400), "dpftrl", 20.0, DELTA, 0, BLOCK)


# ---- equal privacy -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_encoding_and_learner_spend_the_budget_together(tmp_path, epsilon):
    """At 0.5 all rows teach, for a share of the budget; at 8 the first rows do."""
    cut = prepare(TURNING, 0, 6000, tmp_path)
    whole = gdp_mu(epsilon, DELTA)
    played = play_learner(cut, "dpftrl", epsilon, DELTA, 0, BLOCK)
    assert played.notes["reused"] == (epsilon < 1)
    assert whole * (1 - 1e-6) < played.notes["mu"] <= whole
    assert played.rows == (cut.rows if epsilon < 1 else cut.rows - played.notes["taught"])
    assert encode(cut, "dpftrl", epsilon, DELTA, 0, BLOCK).ledger.epsilon == epsilon  # it refuses more


def test_an_entrant_that_spent_too_much_has_no_figures(tmp_path, monkeypatch):
    """Were its ledger without a limit, and the learner given more than is left."""
    cut = prepare(TURNING, 0, 1500, tmp_path)
    found = encode(cut, "dpftrl", 8.0, DELTA, 0, BLOCK)
    monkeypatch.setattr(central, "encode", lambda *words: replace(found, epsilon=9.0, ledger=Ledger()))
    with pytest.raises(AssertionError, match="more than epsilon = 8 allows"):
        play_learner(cut, "dpftrl", 8.0, DELTA, 0, BLOCK)


def test_encodings_and_learners_have_noise_of_their_own_at_every_seed(tmp_path, monkeypatch):
    keys, kind = [], central.LEARNERS["dpftrl"]

    def made(**words):
        keys.append(words.get("random_state"))
        return kind(**words)

    monkeypatch.setattr(central, "LEARNERS", {**central.LEARNERS, "dpftrl": made})
    cut = prepare(TURNING, 0, 1500, tmp_path)
    for seed in range(3):
        play_learner(cut, "dpftrl", 8.0, DELTA, seed, BLOCK)
    drawn = [key for key in keys if key is not None]
    assert len(set(drawn)) == len(drawn) == 6


def test_dp_sgd_has_what_the_encoding_left_and_noise_of_its_own(tmp_path, monkeypatch):
    given = []

    def descend(X, residuals, outputs, *, mu, rng, batch, **words):
        given.append((mu, rng.random()))
        return np.zeros((len(X) // batch + 1, X.shape[1], outputs))

    monkeypatch.setattr(rivals, "descend", descend)
    cut = prepare(TURNING, 0, 1500, tmp_path)
    for seed in (0, 1):
        rivals.play_descent(Rows(cut), 2.0, DELTA, seed, BLOCK)
    left = encode(cut, "adaptive", 2.0, DELTA, 0, BLOCK).epsilon
    assert left < 2.0
    assert {mu for mu, _ in given} == {gdp_mu(left, DELTA)}
    assert len({draw for _, draw in given}) == len(given) == 2 * 36


@pytest.mark.parametrize(("epsilon", "n"), [(2.0, 1500), (20.0, 1500)])
def test_a_pure_rival_stays_within_the_budget_with_its_encoding(tmp_path, monkeypatch, epsilon, n):
    """If all rows teach, the encoding had a part of mu squared; epsilon of both together is a third larger."""
    told = {}

    def fit(python, given, answer):
        with np.load(given) as words:
            told.update(words)
        np.savez(answer, scores=np.zeros(len(told["held"])), seconds=0.0)

    monkeypatch.setattr(rivals, "_ask", lambda python: None)
    monkeypatch.setattr(rivals, "_work", fit)
    cut = prepare(TURNING, 0, n, tmp_path)
    found = encode(cut, "adaptive", epsilon, DELTA, 0, BLOCK)
    assert (found.first == 0) == (epsilon < 10)
    monkeypatch.setattr(rivals, "encode", lambda *words: found)
    played = rivals.play_diffprivlib(Rows(cut), epsilon, DELTA, 0, BLOCK)
    own = float(told["epsilon"])
    assert own == played.notes["own"]
    assert np.linalg.norm(told["X"], axis=1).max() <= told["bound"] * (1 + 1e-12)
    if found.first:
        assert own == epsilon  # each row is in only one part
        return
    assert 0.99 * epsilon < compose_fixed(found.ledger.spent.mu, [own], DELTA) <= epsilon


def test_the_worker_gives_diffprivlib_epsilon_bound_and_seed(tmp_path, monkeypatch):
    told = {}

    class LogisticRegression:
        def __init__(self, **words):
            told.update(words)

        def fit(self, X, y):
            told.update(rows=X.tolist(), labels=y.tolist())

        def decision_function(self, X):
            return X[:, 0]

    monkeypatch.setitem(sys.modules, "diffprivlib", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "diffprivlib.models", SimpleNamespace(LogisticRegression=LogisticRegression))
    given, answer = tmp_path / "given.npz", tmp_path / "answer.npz"
    np.savez(given, X=[[1.0], [2.0]], y=[0.0, 1.0], held=[[3.0]], bound=2.5, epsilon=0.75, seed=7)
    monkeypatch.setattr(sys, "argv", ["worker", str(given), str(answer)])
    diffprivlib_worker.main()
    words = {"epsilon": 0.75, "data_norm": 2.5, "max_iter": 1000, "random_state": 7}
    assert told == {**words, "rows": [[1.0], [2.0]], "labels": [0, 1]}
    with np.load(answer) as found:
        assert found["scores"].tolist() == [3.0]


def test_a_declared_schema_costs_nothing(tmp_path):
    (tmp_path / "s.toml").write_text(
        "[columns.a]\nrange = [-3, 3]\n[columns.b]\nrange = [-3e6, 3e6]\n[columns.town]\nlevels = ['here', 'there']\n"
        "[target]\ncolumn = 'label'\nclasses = ['low', 'mid', 'high']\n"
    )
    table = write_table(tmp_path / "t.csv", 1200)
    (tmp_path / "l.toml").write_text(f"[[stream]]\nname = 't'\nfile = '{table.name}'\nschema = 's.toml'\n")
    (spec,) = load_specs(tmp_path / "l.toml")
    cut = prepare(replace(spec, target="label"), 0, None, tmp_path)
    played = play_learner(cut, "dpftrl", 1.0, DELTA, 0, BLOCK)
    assert (played.notes["taught"], played.notes["reused"], played.rows) == (0, False, cut.rows)
    assert played.notes["mu"] == pytest.approx(gdp_mu(1.0, DELTA), rel=1e-6)
    assert figures_of(cut, Rows(cut).held_y, played.held, "held_out")["auc"] > 0.7


def test_dp_sgd_adds_the_noise_of_one_batch():
    """Rows of zeros: a step is pure noise, of standard deviation 2 clip step / (mu batch)."""
    words = {"clip": 0.7, "batch": 50, "step": 2.0}
    rng = np.random.default_rng(5)
    models = rivals.descend(np.zeros((100, 4000)), lambda at, s: np.ones((50, 1)), 1, mu=0.5, **words, rng=rng)
    assert models.shape == (3, 4000, 1)
    steps = np.diff(models, axis=0)
    expected = 2 * 0.7 / 0.5 * 2.0 / 50
    # 8,000 normal draws: one false alarm in 10^6 seeds; a deviation of 3 % would be detected
    assert np.std(steps) == pytest.approx(expected, rel=5 / math.sqrt(2 * steps.size))


def test_a_row_moves_one_batch_by_at_most_twice_the_clip():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(90, 3))
    words = {"mu": math.inf, "clip": 0.4, "batch": 30, "step": 1.0, "rng": rng}
    residuals = np.where(np.arange(90) % 2, 50.0, -50.0)[:, None]  # every gradient is clipped
    models = rivals.descend(X, lambda at, s: residuals[at], 1, **words)
    other, turned = X.copy(), residuals.copy()
    other[40] *= -1e3
    moved = rivals.descend(other, lambda at, s: turned[at], 1, **words)
    steps, others = np.diff(models, axis=0), np.diff(moved, axis=0)
    change = np.linalg.norm((steps - others).reshape(3, -1), axis=1)
    assert change[[0, 2]] == pytest.approx([0.0, 0.0], abs=1e-12)  # each row is in one batch
    assert change[1] == pytest.approx(2 * 0.4 / 30)  # and the bound is attained


def test_central_learners_are_those_that_see_rows_in_order():
    assert {"dpftrl", "pqftl", "nogd", "pigd", "pgiga"} <= set(CENTRAL)
    assert not {"miogd", "ldpsgd", "banco", "dola", "objective-perturbation"} & set(CENTRAL)


# ---- results -----------------------------------------------------------------------------------------------------


def run(folder, **words):
    settings = {"learners": ["dpftrl", "pigd"], "others": ["sgd", "linear"], "epsilons": [0.1, 8.0], "seeds": 2}
    settings |= {"rows": 1500, **words}
    return run_arena([TURNING], folder, **settings)


@pytest.fixture(scope="module")
def arena(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arena") / "out"
    run(folder)
    return folder


def copied(arena, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    for path in arena.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def test_one_line_for_each_run(arena):
    lines = [json.loads(line) for line in (arena / "results.jsonl").read_text().splitlines()]
    assert len(lines) == 2 * 2 * 2 + 2 * 2
    found = {(line["entrant"], line["epsilon"], line["seed"]): line for line in lines}
    assert found["sgd", None, 0]["figures"]["second_half"]["auc"] > 0.7
    assert found["linear", None, 0]["figures"]["all"] == {}
    assert found["dpftrl", 8.0, 1]["figures"]["held_out"]["auc"] > 0.5
    assert found["pigd", 8.0, 1]["figures"]["all"] == {}  # its one release comes last
    assert (found["dpftrl", 0.1, 0]["status"], "reason" in found["dpftrl", 0.1, 0]) == ("no model", True)


def test_a_second_call_makes_only_what_is_missing(arena, tmp_path, monkeypatch):
    folder = copied(arena, tmp_path)
    lines = (folder / "results.jsonl").read_bytes().splitlines(keepends=True)
    monkeypatch.setattr(contest, "_play", lambda task: pytest.fail("nothing is missing"))
    run(folder)
    monkeypatch.undo()
    failed = json.loads(lines[-2]) | {"status": "failed", "reason": "no memory"}
    # a process that was killed while it wrote its last line, after a failed run
    text = b"".join([*lines[:-2], json.dumps(failed).encode() + b"\n", lines[-1][:-20]])
    (folder / "results.jsonl").write_bytes(text)
    made = []
    again = run(folder, progress=lambda done, total, record: made.append((total, record)))
    assert [total for total, _ in made] == [2, 2]
    expected = [json.loads(line) for line in lines]
    for record in (*expected, *(record for _, record in made)):
        record.pop("rows_per_second", None)
    assert {record["seed"] for _, record in made} <= {0, 1}
    assert all(record in expected for _, record in made)  # with the same bits
    assert len(again.records) == len(lines)
    made.clear()
    run(folder, redo=["linear"], progress=lambda done, total, record: made.append((total, record)))
    assert [(total, record["entrant"]) for total, record in made] == [(2, "linear")] * 2
    with pytest.raises(InvalidParameter, match="redo must be one of 'dpftrl', 'pigd', 'sgd', 'linear'"):
        run(folder, redo=["trees"])


def test_results_of_other_rows_or_settings_are_not_mixed(arena, tmp_path):
    folder = copied(arena, tmp_path)
    with pytest.raises(InvalidParameter, match="has results with rows = 1500, and these would have 1600"):
        run(folder, rows=1600)
    with pytest.raises(InvalidParameter, match="has results with delta = 1e-06, and these would have 1e-05"):
        run(folder, delta=1e-5)
    other = Spec(name="turning", generator="switching")
    with pytest.raises(InvalidParameter, match="has results of a stream 'turning' with other rows"):
        run_arena([other], folder, rows=1500, seeds=1)
    with open(folder / "results.jsonl", "ab") as file:
        file.write(b"{}\n")
    with pytest.raises(StateError, match="line 13: is damaged"):
        run(folder)
    (tmp_path / "else.txt").touch()
    with pytest.raises(InvalidParameter, match="is not empty, and has no results of an arena"):
        run(tmp_path)


@pytest.mark.slow
@pytest.mark.process
def test_several_processes_give_the_results_of_one(arena, tmp_path):
    found = run(tmp_path / "two", jobs=2, epsilons=[8.0], learners=["dpftrl"]).records
    known = Results(arena, {"rows": 1500, "block": 100, "delta": 1e-6}).records
    assert len(found) == 6
    for key, record in found.items():
        assert record["figures"] == known[key]["figures"]


def test_libraries_that_are_missing_are_left_out_with_the_reason(tmp_path):
    python = tmp_path / "python"
    found = run(tmp_path / "out", learners=[], others=["diffprivlib"], diffprivlib=str(python), epsilons=[8.0])
    (one, other) = found.records.values()
    assert one["status"] == "left out"
    assert str(python) in one["reason"]
    assert other["reason"] == one["reason"]


def made_board(tmp_path, **records):
    """A board of given figures."""
    results = Results(tmp_path / "board", {"rows": 1})
    results.streams["s"] = {"seen": "", "rows": {"0": {"classes": ["a", "b"], "rows": 100, "held": 20}}}
    for name, (epsilon, status, auc) in records.items():
        entrant = name.rstrip("0123456789").replace("_", "-")
        key = Key("s", entrant, epsilon, int(name[len(entrant) :] or 0))
        figures = {part: {} if auc is None else {"auc": auc} for part in ("all", "second_half")}
        record = {"status": status, "reason": "it is told", "figures": figures | {"held_out": {"auc": 0.7}}}
        results.records[key] = {**record, "rows_per_second": 1.0}
    return Board(results)


def test_shares_are_relative_to_the_best_online_reference_above_chance(tmp_path):
    board = made_board(
        tmp_path,
        sgd=(None, "done", 0.9),
        river=(None, "done", 0.8),
        linear=(None, "done", None),
        dpftrl0=(1.0, "done", 0.8),
        dpftrl1=(1.0, "no model", None),
        pigd0=(1.0, "done", None),
        pigd1=(1.0, "no model", None),
    )
    assert board.reference("s", "second_half") == pytest.approx(0.9)
    # no model counts as chance: the mean of 0.8 and 0.5
    assert board.share("s", "dpftrl", 1.0, "second_half") == pytest.approx((0.65 - 0.5) / 0.4)
    assert board.share("s", "pigd", 1.0, "second_half") is None  # its model comes last, or never
    assert board.share("s", "pigd", 1.0, "held_out") == pytest.approx((0.6 - 0.5) / 0.2)
    text = "\n".join(board.lines())
    assert "| s | 1 | 0.650 ± 0.212, 38 % |" in text
    assert "| dpftrl, pigd | no model | s | 1 | 2 | it is told |" in text
    record = board.to_record()
    assert record["private"] is False
    kept = {(one["part"], one["entrant"]): one["median_share"] for one in record["kept"]}
    assert kept["second_half", "dpftrl"] == pytest.approx(0.375)
    assert ("second_half", "pigd") not in kept


def test_several_streams_count_by_their_median(tmp_path, monkeypatch):
    board = made_board(tmp_path, dpftrl0=(1.0, "done", 0.8))
    monkeypatch.setattr(Board, "shares", lambda *words, **others: [0.1, 0.2, 0.9])
    assert {one["median_share"] for one in board.to_record()["kept"]} == {0.2}
    assert "| second half | 1 | 20 % (3) |" in board.kept()
    assert board.curves()["Second half"] == {"dpftrl": [(1.0, 0.2)]}


def test_every_entrant_has_a_title():
    from privol.arena.board import TITLES

    assert TITLES.keys() == OTHERS.keys()


# ---- its picture ------------------------------------------------------------------------------------------------


def test_no_two_learners_look_alike_in_the_picture():
    """With as many entrants as there can be: they differ in more than colour where the eight colours repeat."""
    lines = {f"learner {k}": [(1.0, 0.5), (math.inf, 0.9)] for k in range(20)}
    drawn = [
        line for line in arena_figure({"all": lines}).axes[0].get_lines() if line.get_label().startswith("learner")
    ]
    assert len({(line.get_color(), line.get_marker()) for line in drawn}) == len(drawn) == 20
    assert plot_arena({"all": lines}, kind="svg") == plot_arena({"all": lines}, kind="svg")
