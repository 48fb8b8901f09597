"""Offline learners over parts of the rows: the same bits whichever worker holds which part, and failing workers."""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import os
import pickle
import signal

import mpmath
import numpy as np
import pytest
from mpi_jobs import codes, tasks, texts
from objective_tools import kernel_square
from part_rows import CASES, SIZES, Stream, found_of, leaf_learner, make, parts_of, rows_of, shown, step_learner
from patience import WAIT

from privol import ObjectivePerturbation, OutputPerturbation, open_stream
from privol._core._newton import minimise
from privol._core._objective import Objective
from privol._core._row_sums import RowSums, join
from privol.distributed import DaskCrew, FilePart, LocalCrew, file_parts
from privol.errors import InvalidParameter, InvalidRow, PartFailure, StateError, StreamError
from privol.learners import _part_sums, least_squares, offline
from privol.learners._part_runs import PartsLearner
from privol.learners._part_sums import PartReader
from privol.ledger import Ledger
from privol.losses import Logistic, SmoothHinge

every = pytest.mark.parametrize("name", CASES)


@pytest.fixture(scope="module")
def alone():
    """The result of one worker in this process."""
    found = {}
    for name in CASES:
        learner, kind = make(name)
        found[name] = found_of(learner.fit_parts(parts_of(kind), LocalCrew()))
    return found


# ---- the result ------------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("threads", [2, 4])
def test_the_same_bits_in_any_number_of_threads(name, threads, alone):
    learner, kind = make(name)
    assert found_of(learner.fit_parts(parts_of(kind), LocalCrew(threads))) == alone[name]
    counts = learner.fit(*rows_with_labels(kind))._counts
    assert make(name)[0].fit_parts(parts_of(kind), LocalCrew(threads))._counts == counts


def rows_with_labels(kind):
    X, y, classes = rows_of(kind)
    return X, y if classes is None else np.asarray(classes)[y.astype(int)]


@every
def test_the_result_is_the_minimiser_over_all_rows(name):
    """Without noise, it is as close to that of one fit as both certificates say."""
    learner, kind = make(name, epsilon=np.inf, l2=0.01)
    learner.fit_parts(parts_of(kind), LocalCrew(2))
    other = make(name, epsilon=np.inf, l2=0.01)[0].fit(*rows_with_labels(kind))
    X, _, classes = rows_of(kind)
    plan = other.calibrate(X.shape[1], sum(SIZES), len(classes or (0, 1)))
    off = np.linalg.norm(learner._export.model - other._export.model)
    outputs = 3 if kind == "three" else 1
    assert off <= 2 * np.sqrt(outputs) * plan.gradient_norm / plan.l2_sum
    assert np.linalg.norm(other._export.model) > 0.1


def test_one_part_gives_the_result_of_fit(tmp_path):
    """Sums of one part equal those of all rows to the bit: only the order of parts can change the arithmetic."""
    X, y = rows_with_labels("two")
    path = tmp_path / "rows.csv"
    lines = [",".join([*map(repr, row), label]) for row, label in zip(X.tolist(), y.tolist(), strict=True)]
    path.write_text("\n".join(["a,b,c,d,e,y", *lines]) + "\n")
    words = {"target": "y", "classes": ["no", "yes"]}
    learner, _ = make("pure")
    whole = found_of(learner.fit_stream(open_stream(path, **words)))
    assert found_of(learner.fit_parts(file_parts([path], **words), LocalCrew())) == whole


def test_the_result_depends_on_the_order_of_parts_and_names_are_unique(tmp_path):
    parts = parts_of("two")
    for wrong, found in (([], "at least one"), ([parts[0], parts[1], parts[0]], "'two-0' more than once")):
        with pytest.raises(InvalidParameter, match=found):
            make("output")[0].fit_parts(wrong, LocalCrew())
    for name in ("b.csv", "a.csv"):
        (tmp_path / name).write_text("x,y\n1,2\n")
    found = file_parts(str(tmp_path / "*.csv"), target="y")
    assert found == [FilePart(str(tmp_path / name), {"target": "y"}) for name in ("a.csv", "b.csv")]
    given = [tmp_path / "b.csv", tmp_path / "a.csv"]
    assert [part.name for part in file_parts(given)] == list(map(str, given))
    with pytest.raises(InvalidParameter, match=r"files must be a pattern with files"):
        file_parts(tmp_path / "*.parquet")


def test_one_file_under_two_names_is_refused(tmp_path):
    """Its rows would count twice."""
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").symlink_to("a.csv")
    (tmp_path / "c.csv").hardlink_to(tmp_path / "a.csv")
    (tmp_path / "a b.csv").hardlink_to(tmp_path / "a.csv")
    urls = [f"file://{tmp_path}/a.csv", f"FILE://{tmp_path}/./a%20b.csv"]
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside/a.csv").hardlink_to(tmp_path / "a.csv")
    urls += [f"file://{tmp_path}/inside", f"{tmp_path}/inside", f"{tmp_path}/*.csv", f"{tmp_path}/**/a.csv"]
    for other in (f"{tmp_path}/./a.csv", tmp_path / "b.csv", tmp_path / "c.csv", *urls):
        with pytest.raises(InvalidParameter, match=r"different files, found .*a\.csv' and .*: one file"):
            file_parts([tmp_path / "a.csv", other])


def test_one_table_under_two_names_is_refused(tmp_path):
    (tmp_path / "a.db").touch()
    (tmp_path / "b.db").symlink_to("a.db")
    first = f"sqlite:///{tmp_path}/a.db?table=visits&order=id"
    others = ["b.db?table=visits&order=id", "./a.db?order=id&table=main.Visits", "a.db?table=visits&order=number"]
    for other in others:
        with pytest.raises(InvalidParameter, match=r"different files, found .*a\.db\?table=visits.*: one table"):
            file_parts([first, f"SQLite:///{tmp_path}/{other}"])
    server = "postgresql://{}:word@Host/clinic?table={}&order=id"
    with pytest.raises(InvalidParameter, match="one table") as found:
        file_parts([server.format("one", "visits"), server.format("other", "public.visits").replace("Host", "host")])
    assert "word" not in str(found.value)
    assert len(file_parts([first, first.replace("visits", "more"), server.format("one", "visits")])) == 3


class Forgetful(LocalCrew):
    """Before the third question, workers without rows take over."""

    def session(self, reading, parts):
        found = super().session(reading, parts)
        real, asked = found._ask, []

        def ask(question, arguments):
            asked.append(question)
            if len(asked) == 3:
                for held in found._held:
                    held.wipe()
            return real(question, arguments)

        found._ask = ask
        return found


@pytest.mark.parametrize("name", ["output", "classes"])
def test_a_part_that_has_changed_ends_the_fit(name, tmp_path):
    """The same rows in another order: a worker that takes over reads them in their present order."""
    alone, kind = make(name)
    again, _ = make(name)
    alone.fit_parts(parts_of(kind), LocalCrew())
    again.fit_parts(parts_of(kind), Forgetful())
    assert found_of(again) == found_of(alone)
    moved, _ = make(name)
    with pytest.raises(PartFailure, match=r"part '\w+-0': another worker has read other rows .* may not change"):
        moved.fit_parts(parts_of(kind, {0: "moves"}, tmp_path), Forgetful())
    assert not hasattr(moved, "coef_")
    assert [entry.releases for entry in moved.ledger_.entries()] == [0]


# ---- sums ------------------------------------------------------------------------------------------------------


def objectives(loss, cuts, **words):
    X, y, _ = rows_of("two")
    bounds = [0, *cuts, len(y)]
    rows = [(X[a:b], 2.0 * y[a:b] - 1.0) for a, b in itertools.pairwise(bounds)]
    return [Objective(a, b, loss=loss, x_bound=1.2, intercept=True, **words) for a, b in rows]


@pytest.mark.parametrize("loss", [Logistic(), SmoothHinge(width=0.2)], ids=["logistic", "hinge"])
def test_answers_do_not_depend_on_earlier_questions(loss):
    """So another worker can replace one that failed."""
    rng = np.random.default_rng(2)
    points = [rng.normal(size=6) for _ in range(4)]
    points[3][:5] = points[0][:5]  # hardly another point
    (o,) = objectives(loss, [], l2_sum=1.0)

    def ask(rows, question):
        name, *words = question
        if name in ("losses", "margins"):
            sums = np.empty((2, 6))
            return np.r_[np.ravel(getattr(rows, name)(*words, sums)), sums.ravel()].tobytes()
        if name == "along":
            return np.array(rows.along(*words)).tobytes()
        out = np.empty((8, 8)) if name == "hessian" else np.empty(6)
        getattr(rows, name)(*words, out)
        return (np.tril(out[:6, :6]) if name == "hessian" else out).tobytes()

    questions = [("losses", w) for w in points] + [("margins", points[0]), ("hessian", points[1], 4)]
    questions += [("diagonal", points[2]), ("product", points[3], points[0]), ("hessian", points[0], 1)]
    questions += [("along", points[i], points[j], 0.3) for i, j in ((0, 1), (1, 2), (2, 1), (0, 0), (3, 2))]
    first = {k: ask(RowSums(o), question) for k, question in enumerate(questions)}
    rows, order = RowSums(o), rng.integers(len(questions), size=300).tolist()
    assert all(ask(rows, questions[k]) == first[k] for k in order)
    kept = [array for array in held_by(rows) if np.any(array)]
    assert len(kept) >= 4
    rows.wipe()
    assert not any(map(np.any, kept))
    assert ask(rows, questions[0]) == first[0]


def test_a_certificate_over_parts_is_above_the_exact_gradient():
    """For sums joined from parts, in the order of the parts."""
    b = np.array([3.0, -1.0, 0.0, 2.0, 1.0, -4.0])
    cuts = [1, 257, 300, 900]
    parts = [RowSums(o) for o in objectives(Logistic(), cuts, l2_sum=1.0)]
    X, y, _ = rows_of("two")
    none = Objective(X[:0], y[:0], loss=Logistic(), x_bound=1.2, intercept=True, l2_sum=0.5, linear=b)

    class Session:
        parts = [None] * 5

        def ask(self, question, problem, *words):
            for rows in parts:
                if question == "counts":
                    yield rows.n, rows.blocks, 0, 0
                elif question == "hessian":
                    out = np.empty((8, 8))
                    rows.hessian(*words, out)
                    yield out[np.tril_indices(6)]
                elif question == "along":
                    yield rows.along(*words)
                else:
                    sums = np.empty((2, 6))
                    yield getattr(rows, question)(*words, sums), sums

    sums = _part_sums._PartsSums(Session(), None, 6)
    assert sums.n == len(y)
    # the bound on rounding depends on the blocks of all parts and on the parts
    assert sums.blocks == sum(rows.n / 256 + 2 for rows in parts)
    both = np.empty((2, 6))
    each = [rows.margins(np.ones(6), both) for rows in parts]
    np.testing.assert_allclose(sums.margins(np.ones(6), both), np.sum(each, axis=0), rtol=1e-14)
    found = minimise(none, rows=sums, gradient_norm=1e-9)
    whole = Objective(X, 2.0 * y - 1.0, loss=Logistic(), x_bound=1.2, intercept=True, l2_sum=0.5, linear=b)
    assert 0 < exact_norm(whole, X, 2.0 * y - 1.0, found.point, b, 0.5) <= found.gradient_norm <= 1e-9
    # the joined sum itself, at another point, against the exact one
    w = np.linspace(-1.0, 1.0, 6)
    both = np.zeros((2, 6))
    value = sums.losses(w, both)
    _, gradient = none.finished(w, value, sums.n, both)
    bound, allowance = whole.certificate(w)
    exact = exact_gradient(whole, X, 2.0 * y - 1.0, w, b, 0.5)
    assert np.linalg.norm(np.array(exact - mpmath.matrix(gradient.tolist()), dtype=float)) <= allowance
    assert value == pytest.approx(whole.value_gradient(w)[0] - 0.25 * w @ w - b @ w, rel=1e-13)
    assert bound > 1.0


def exact_gradient(objective, X, y, w, b, l2_sum):
    with mpmath.workdps(60):
        total = mpmath.matrix(
            [l2_sum * mpmath.mpf(v) + mpmath.mpf(s) for v, s in zip(w.tolist(), b.tolist(), strict=True)]
        )
        norms = np.sqrt((X * X).sum(axis=1))
        assert not (np.abs(norms - 1.2) < 1e-12).any()
        for row, target in zip(X, y.tolist(), strict=True):
            square = kernel_square(row)
            factor = 1.2 / np.sqrt(square) if square > 1.2 * 1.2 else 1.0
            s = [mpmath.mpf(factor) * mpmath.mpf(v) for v in row.tolist()] + [mpmath.mpf(1)]
            p = mpmath.fsum(a * mpmath.mpf(v) for a, v in zip(s, w.tolist(), strict=True))
            slope = -target / (1 + mpmath.exp(target * p))
            for j, a in enumerate(s):
                total[j] += slope * a
        return total


def exact_norm(*words):
    return float(mpmath.norm(exact_gradient(*words)))


def test_joined_sums_are_exact_except_for_the_low_half():
    """Numbers whose plain sum loses all digits."""
    whole = np.zeros((2, 1))
    for high, low in ((1e20, 0.0), (1.0, 2.0**-60), (-1e20, 0.0), (2.0**-40, 0.0)):
        join(np.array([[high], [low]]), whole)
    assert whole[0, 0] + whole[1, 0] == 1.0 + 2.0**-40
    whole = np.zeros((2, 1))
    for high, low in ((1.0, 2.0**-60), (-1.0, 2.0**-61)):
        join(np.array([[high], [low]]), whole)
    assert whole[1, 0] == 2.0**-60 + 2.0**-61
    with pytest.raises(InvalidParameter):
        join(np.zeros((2, 1)), np.zeros((2, 2)))


# ---- refusals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "error", "words"),
    [
        ("nan", InvalidRow, r"part 'two-2': row 3, feature 1"),
        ("label", InvalidRow, r"part 'two-2': row 4, target: found 7.0"),
        (
            "narrow",
            InvalidParameter,
            r"part 'two-2': n_features must be the same in all parts: found 4, 5 in part 'two-0'",
        ),
        ("other classes", InvalidParameter, r"part 'two-2': classes must be the same in all parts"),
        ("error", PartFailure, r"part 'two-2': OSError: the disk is gone"),
    ],
)
def test_a_bad_part_is_named_before_anything_is_spent(rule, error, words):
    ledger = Ledger(epsilon=3.0, delta=1e-6)
    learner, kind = make("output", ledger=ledger)
    before = found_of(learner.fit_parts(parts_of(kind), LocalCrew()))
    spent = ledger.committed
    with pytest.raises(error, match=words) as found:
        learner.fit_parts(parts_of(kind, {2: rule}), LocalCrew(2))
    assert ledger.committed == spent
    assert found_of(learner) == before
    assert getattr(found.value, "row", None) == {"nan": 3, "label": 4}.get(rule)


def test_null_rows_are_counted_where_they_are_taken():
    learner, kind = make("output", on_invalid="zero")
    learner.fit_parts(parts_of(kind, {0: "nan", 2: "label"}), LocalCrew())
    assert learner._counts["null_rows"] == 2
    assert learner.guarantee_.horizon == sum(SIZES)


def test_a_file_that_is_not_there(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n0.5,1\n0.25,0\n")
    parts = file_parts([tmp_path / "a.csv", tmp_path / "b.csv"], target="y", classes=["0", "1"])
    with pytest.raises(StreamError, match=r"b\.csv"):
        make("output")[0].fit_parts(parts, LocalCrew())
    (tmp_path / "b.csv").write_text("x,y\n0.5,1\nfive,0\n")
    with pytest.raises(StreamError, match=r"b\.csv.*row 2"):
        make("output")[0].fit_parts(parts, LocalCrew())


def test_users_may_have_rows_in_every_part():
    learner, kind = make("output", rows_per_user=10)
    learner.fit_parts(parts_of(kind, dict.fromkeys(range(5), "users")), LocalCrew())
    assert (learner.guarantee_.unit, learner.guarantee_.user) == ("user", "who")
    with pytest.raises(InvalidParameter, match=r"rows_per_user .* keeps 10"):
        make("output", rows_per_user=9)[0].fit_parts(parts_of(kind, dict.fromkeys(range(5), "users")), LocalCrew())
    learner.fit_parts(parts_of(kind, {0: "users"}), LocalCrew())  # other workers do not know them
    assert learner.guarantee_.user is None
    assert any("nobody" in words or "not checked" in words for words in learner.guarantee_.conditions)


# ---- who sees what ---------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks of POSIX")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_forked_child_is_refused_instead_of_waiting_for_threads_that_it_does_not_have(threads):
    """Found by kills."""
    learner, kind = make("output")
    with LocalCrew(threads).session(PartReader(learner, _part_sums.HeldRows), parts_of(kind)) as session:
        child = os.fork()
        if child == 0:
            try:
                session._ask("facts", ())
            except StateError as error:
                os._exit(7 if "forked child" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_workers_have_no_noise_and_no_ledger():
    learner, kind = make("output", ledger=Ledger(epsilon=9.0, delta=1e-6))
    sent = PartReader(learner, _part_sums.HeldRows)
    assert (sent._learner.random_state, sent._learner.ledger) == (None, None)
    held = sent(parts_of(kind)[0])
    assert learner.random_state == 5
    assert pickle.loads(pickle.dumps(sent))._learner.get_params() == sent._learner.get_params()
    assert held.about()["n_rows"] == SIZES[0]


def test_the_guarantee_says_who_is_trusted():
    learner, kind = make("output", random_state=None)
    there = learner.fit_parts(parts_of(kind), LocalCrew()).guarantee_
    here = learner.fit(*rows_with_labels(kind)).guarantee_
    more = set(there.conditions) - set(here.conditions)
    assert len(more) == 1
    assert "workers, which see raw rows, and models and sums without noise" in more.pop()
    assert (there.kind, there.parameter, there.private) == (here.kind, here.parameter, True)


@pytest.mark.parametrize("ends", ["well", "badly"])
def test_nothing_secret_is_left(ends, monkeypatch):
    """In workers and in the curator: points, sums, predictions."""
    made, arrays = [], []
    real, init = RowSums, _part_sums._PartsSums.losses

    def kept(objective):
        made.append(real(objective))
        return made[-1]

    def losses(self, w, sums):
        arrays.append(sums)
        return init(self, w, sums)

    monkeypatch.setattr(_part_sums, "RowSums", kept)
    monkeypatch.setattr(_part_sums._PartsSums, "losses", losses)
    learner, kind = make("classes")
    if ends == "badly":
        monkeypatch.setattr(offline, "noisy", lambda *words: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            learner.fit_parts(parts_of(kind), LocalCrew(2))
    else:
        learner.fit_parts(parts_of(kind), LocalCrew(2))
    assert len(made) == 3 * len(SIZES)
    assert arrays
    assert not any(np.any(array) for array in arrays)
    for rows in made:
        found = np.empty((2, rows.dim))
        assert rows.n == 0 or rows.losses(np.zeros(rows.dim), found) > 0  # it works after starting with nothing


def test_unsupported_arguments_are_refused():
    with pytest.raises(StateError, match=r"client must be a distributed\.Client"):
        DaskCrew("tcp://127.0.0.1:1")
    with pytest.raises(InvalidParameter, match="threads"):
        LocalCrew(0)
    stream = Stream(*rows_of("two"), schema=type("Schema", (), {"learnt": object()})())
    part = type("Learnt", (), {"name": "one", "open": lambda self: stream})()
    with pytest.raises(InvalidParameter, match="part 'one': an encoding that is learnt is of one stream"):
        make("output")[0].fit_parts([part], LocalCrew())
    assert issubclass(ObjectivePerturbation, offline._Minimiser)
    assert issubclass(OutputPerturbation, offline._Minimiser)


# ---- ranks -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    todo = [(count, folder / f"bits-{count}", "parts-bits") for count in (1, 2, 4)]
    tasks(*todo, (2, folder / "refused", "parts-refused"))
    return folder


@pytest.mark.mpi
@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_same_bits_on_any_number_of_ranks(count, ranks, alone):
    folder = ranks / f"bits-{count}"
    assert codes(folder) == [0] * count, texts(folder, "traceback")
    for rank in range(count):
        assert json.loads((folder / f"bits-{rank}.json").read_text()) == alone


@pytest.mark.mpi
def test_a_bad_row_ends_the_fit_on_all_ranks_which_can_continue(ranks, alone):
    folder = ranks / "refused"
    assert codes(folder) == [0, 0], texts(folder, "traceback")
    first, second = texts(folder, "refused").splitlines()
    assert first.startswith("InvalidRow: part 'two-4': row 3, feature 1")
    assert second == "RankFailure: rank 0 cannot go on: InvalidRow; its own message says more"
    assert [json.loads((folder / f"after-{rank}.json").read_text()) for rank in (0, 1)] == [alone["output"]] * 2


@pytest.mark.mpi
@pytest.mark.parametrize(("question", "at", "spent"), [("about", 1, False), ("hessian", 1, True), ("margins", 1, True)])
def test_a_rank_that_is_killed_ends_the_job_and_nothing_is_released(question, at, spent, tmp_path):
    """While parts are read, nothing is spent; later the budget counts as spent, because the end of the fit is seen."""
    folder = tmp_path / "killed"
    ended = tasks((2, folder, "parts-killed", question, at), check=False)
    assert ended.returncode != 0
    assert not list(folder.glob("released-*"))
    committed = Ledger(journal=folder / "ledger.jsonl", epsilon=5.0, delta=1e-5).committed
    assert (committed.mu > 0) == spent


# ---- Dask ------------------------------------------------------------------------------------------------------


def test_serve_is_refused_for_the_curator():
    """Workers that are threads or a cluster's are asked for answers: the process that holds them never serves."""
    for crew in (LocalCrew(), DaskCrew.__new__(DaskCrew)):
        assert crew.curator
        with pytest.raises(
            StateError, match=rf"curator of a {type(crew).__name__}, and has no other process to serve: ses"
        ):
            crew.serve()


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    before = dict(os.environ)  # Dask keeps what its workers receive there: no process forks from a warm one after that
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None)
    client = distributed.Client(cluster)
    yield cluster, client
    client.close()
    # Dask's own error: a killed worker may be forgotten before it is reported as gone
    with contextlib.suppress(KeyError):
        cluster.close()
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.process
def test_the_same_bits_on_any_number_of_dask_workers(cluster, alone):
    workers, client = cluster
    for count in (1, 2):  # those that the tests below have anyway: starting one takes seconds
        workers.scale(count)
        client.wait_for_workers(count, timeout=WAIT)
        names = ("output",) if count < 2 else ("output", "custom", "wide")  # a loss that is pickled; many questions
        with DaskCrew.at(workers.scheduler_address) if count == 1 else contextlib.nullcontext(DaskCrew(client)) as crew:
            for name in names:
                learner, kind = make(name)
                assert found_of(learner.fit_parts(parts_of(kind), crew)) == alone[name]


@pytest.mark.process
def test_a_dask_worker_that_is_killed_is_replaced(cluster, alone, monkeypatch, tmp_path):
    """During reading, or in the middle of a step: others read its parts and give the same answers."""
    workers, client = cluster
    workers.scale(2)
    client.wait_for_workers(2, timeout=WAIT)
    learner, kind = make("hinge")
    assert found_of(learner.fit_parts(parts_of(kind, {3: "dies"}, tmp_path), DaskCrew(client))) == alone["hinge"]
    assert len(list(tmp_path.glob("died-*"))) == 1
    real, killed = _part_sums._PartsSums.hessian, []

    def kills(self, *words):
        if not killed:
            killed.extend(client.run(os.getpid).values())
            os.kill(killed[0], signal.SIGKILL)
        return real(self, *words)

    monkeypatch.setattr(_part_sums._PartsSums, "hessian", kills)
    learner, kind = make("hinge")
    assert found_of(learner.fit_parts(parts_of(kind), DaskCrew(client))) == alone["hinge"]
    assert killed[0] not in client.run(os.getpid).values()


@pytest.mark.process
@pytest.mark.parametrize("kind", ["leaves", "steps"])
def test_a_dask_worker_that_is_killed_in_an_online_run_is_replaced(kind, cluster, monkeypatch):
    workers, client = cluster
    workers.scale(2)
    client.wait_for_workers(2, timeout=WAIT)
    monkeypatch.setattr(least_squares, "_AT_ONCE", 27 * 8)

    def fitted(crew):
        learner, rows = (leaf_learner("batch"), "real") if kind == "leaves" else step_learner("custom", batch=200)
        return shown(learner.fit_parts(parts_of(rows), crew))

    expected = fitted(LocalCrew())
    real, killed = PartsLearner._keep_sums, []

    def kills(learner, run, rows):
        real(learner, run, rows)
        if run.state.n_rows > 300 and not killed:
            killed.extend(client.run(os.getpid).values())
            os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setattr(PartsLearner, "_keep_sums", kills)
    assert fitted(DaskCrew(client)) == expected
    assert killed
    assert killed[0] not in client.run(os.getpid).values()


@pytest.mark.process
def test_a_part_that_kills_every_worker_ends_the_fit(cluster, tmp_path):
    _, client = cluster
    ledger = Ledger(epsilon=3.0, delta=1e-6)
    learner, kind = make("output", ledger=ledger)
    with pytest.raises(PartFailure, match=r"part 'two-1': 3 workers died over it, the last one at tcp") as found:
        learner.fit_parts(parts_of(kind, {1: "always dies"}, tmp_path), DaskCrew(client))
    assert found.value.part == "two-1"
    assert found.value.worker.startswith("tcp://")
    assert ledger.committed.mu == 0
    client.wait_for_workers(1, timeout=WAIT)
    with pytest.raises(InvalidRow, match="part 'two-2': row 3, feature 1"):
        learner.fit_parts(parts_of(kind, {2: "nan"}), DaskCrew(client))


def held_by(rows):
    """The arrays of an object that shows none of them."""
    lists = [each if isinstance(each, list) else [each] for each in gc.get_referents(rows)]
    return [each for each in itertools.chain(*lists) if isinstance(each, np.ndarray)]


@pytest.mark.process
def test_workers_forget_what_they_held(cluster):
    _, client = cluster
    learner, kind = make("output")
    learner.fit_parts(parts_of(kind), DaskCrew(client))

    def sessions():  # in here, as workers need not find this file
        from privol.distributed import _dask_crew

        return len(_dask_crew._SESSIONS)

    assert set(client.run(sessions).values()) == {0}
