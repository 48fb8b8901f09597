"""Answers are those of the model itself, to the bit, however the rows come; bad rows are named."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from datetime import date

import auto_tools
import numpy as np
import pandas
import pyarrow as pa
import pytest
from cli_tools import OK, privol_cli, sparse_rows
from conformance import LEARNERS, OFFLINE, X, Y
from serving_tools import ARROW, JSON, rows_of, stream

from privol import DPFTRL, PrivateClassifier, PrivateRegressor
from privol.errors import InvalidParameter, PrivolError, StateError, StreamError
from privol.learners.views import export_of, released_copy
from privol.losses import get_loss
from privol.serving._predictor import _MOST_ROWS, Predictor
from privol.serving._requests import Refused, answer_in_arrow, answer_in_json, answer_to, wants_arrow
from privol.state import load_learner, load_model, read_record, save_model
from privol.state._models import digest_of


def predictor_of(folder):
    return Predictor(load_learner(folder), read_record(folder)["inputs"])


def same(answer, model, rows):
    """The answer is what the model says itself."""
    np.testing.assert_array_equal(answer.predictions, model.predict(rows))
    if answer.probabilities is None:
        assert not hasattr(model, "predict_proba")
    else:
        np.testing.assert_array_equal(answer.probabilities, model.predict_proba(rows))
        assert answer.classes == model.classes_.tolist()


@pytest.mark.parametrize(
    "name",
    ["NOGD", "DPFTRL classes", "AdaptiveFTRL", "PQFTL", "BANCO", "DOLA", "SparseDOLA", "OutputPerturbation classes",
     "POL", "POL gaussian"],
)  # fmt: skip
def test_kinds_of_learners(name, tmp_path):
    kind, words = {**LEARNERS, **OFFLINE}[name]
    learner = kind(**words)
    learner.fit(X, Y / 2.0 if get_loss(learner.loss).kind == "regression" else Y)
    save_model(learner, tmp_path / "run")
    predictor, rows = predictor_of(tmp_path / "run"), 3.0 * X[:50]  # some are longer than their bound
    assert predictor.columns is None
    same(predictor.of_rows(rows.tolist()), learner, rows)
    same(predictor.of_table(pa.table({str(j): rows[:, j] for j in range(4)})), learner, rows)


@pytest.mark.parametrize("labels", ["learnt", "declared", "three", "as numbers", "three as numbers"])
def test_estimators_of_tables(labels, tmp_path):
    """Texts that are numbers have another order in the learner than in the estimator."""
    table = auto_tools.table(3000)
    y = auto_tools.labels_of(table)
    if labels.endswith("numbers"):
        y = np.where(y == "ill", "10", "9")
    if labels.startswith("three"):
        y = np.where(table["dose"] > 4, "8", y)
    model = PrivateClassifier(epsilon=20.0, classes=("well", "ill") if labels == "declared" else None).fit(table, y)
    save_model(model, tmp_path / "run")
    predictor, rows = predictor_of(tmp_path / "run"), table[:300]
    dicts = [{**row, "more": [1]} for row in rows.replace({np.nan: None}).to_dict("records")]
    same(predictor.of_rows(dicts), model, rows)
    same(predictor.of_table(pa.Table.from_pandas(rows.assign(more=1)[["more", "dose", "town", "age"]])), model, rows)
    assert predictor.columns == ("age", "town", "dose")
    same(predictor.of_rows([list(row.values())[:3] for row in dicts]), model, rows)


def test_real_targets_of_tables(tmp_path):
    table = auto_tools.table(3000)
    model = PrivateRegressor(epsilon=20.0, target_range=(0.0, 300.0)).fit(table, auto_tools.numbers_of(table))
    save_model(model, tmp_path / "run")
    answer = predictor_of(tmp_path / "run").of_table(pa.Table.from_pandas(table[:50]))
    np.testing.assert_array_equal(answer.predictions, model.predict(table[:50]))
    assert (answer.probabilities, answer.classes) == (None, None)


def of_predict(run, file):
    """What ``privol predict`` prints."""
    result = privol_cli("predict", run, file)
    assert result.exit_code == OK, result.output
    head, *rows = csv.reader(io.StringIO(result.stdout))
    return head, rows


@pytest.mark.parametrize("how", ["learnt", "ranges", "softmax", "price"])
def test_runs_of_the_command_line(how, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    rows = pandas.DataFrame({"age": rng.uniform(20, 90, 2000).round(1), "dose": rng.uniform(0, 6, 2000).round(2)})
    target = np.where(rows["age"] > 10 * rows["dose"] + 25, "ill", "well")
    target = rows["age"] * 3.0 if how == "price" else target
    rows.assign(y=target).to_csv("rows.csv", index=False)
    rows[:40].to_csv("new.csv", index=False)
    with open("ranges.json", "w") as file:
        json.dump({"age": [0, 100], "dose": [0, 6]}, file)
    words = {
        "learnt": ["--epsilon", "20"],
        "ranges": ["--ranges", "ranges.json", "--classes", "well,ill"],
        "softmax": ["--ranges", "ranges.json", "--classes", "well,ill", "--loss", "softmax"],
        "price": ["--epsilon", "20", "--loss", "squared"],
    }[how]
    result = privol_cli("run", "rows.csv", "--target", "y", "--out", "RUN", "--no-diagnostics", *words)
    assert result.exit_code == OK, result.output
    predictor = predictor_of("RUN")
    answer = predictor.of_rows(rows[:40].to_dict("records"))
    head, lines = of_predict("RUN", "new.csv")
    if how == "price":
        assert [[repr(x)] for x in answer.predictions.tolist()] == lines
        return
    assert head == ["prediction", f"probability of {answer.classes[1]}"]
    found = zip(answer.predictions.tolist(), answer.probabilities[:, 1].tolist(), strict=True)
    assert [[label, repr(share)] for label, share in found] == lines
    again = predictor.of_table(pa.Table.from_pandas(rows[:40]))
    np.testing.assert_array_equal(again.probabilities, answer.probabilities)


def test_another_release_of_the_same_run(tmp_path):
    learner = DPFTRL(epsilon=100.0, horizon=600)
    learner.partial_fit(X[:100], Y[:100], classes=[0, 1])
    first = Predictor(released_copy(learner, learner.guarantee_), None)
    before = first.of_rows(X[:20].tolist()).probabilities
    learner.partial_fit(X[100:], Y[100:])
    second = first.of_release(released_copy(learner, export_of(learner).guarantee))
    same(second.of_rows(X[:20].tolist()), learner, X[:20])
    np.testing.assert_array_equal(first.of_rows(X[:20].tolist()).probabilities, before)
    assert (before != learner.predict_proba(X[:20])).all()


def test_what_cannot_be_served(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sparse_rows("rows.svm", 800)
    privol_cli("run", "rows.svm", "--classes", "-1,1", "--learn-schema", "--epsilon", "50", "--out", "RUN",
               "--no-diagnostics", "--n-features", "3000")  # fmt: skip
    with pytest.raises(InvalidParameter, match="sparse rows"):
        predictor_of("RUN")
    learner = DPFTRL(epsilon=1.0, horizon=600, release=500).partial_fit(X[:100], Y[:100], classes=[0, 1])
    with pytest.raises(StateError, match="nothing was released"):
        Predictor(released_copy(learner, learner.guarantee_), None)


@pytest.fixture(scope="module")
def of_numbers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "run"
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    save_model(DPFTRL(epsilon=100.0).fit(frame, Y), folder)
    return predictor_of(folder)


@pytest.fixture(scope="module")
def of_columns(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "run"
    table = auto_tools.table(3000)
    save_model(PrivateClassifier(epsilon=20.0).fit(table, auto_tools.labels_of(table)), folder)
    return predictor_of(folder)


GOOD = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 4}


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([1], "row 1: found a number, allowed are objects and arrays"),
        ([None], "row 1: found null"),
        ([GOOD, [1, 2, 3, 4]], "row 2: found an array, and row 1 is an object"),
        ([GOOD, {"a": 1, "b": 2, "d": 3}], "row 2: lacks 'c'"),
        ([{}], "row 1: lacks 'a', 'b', 'c', 'd'"),
        ([[1, 2, 3]], r"row 1: found 3 cell\(s\), allowed are 4 \('a', 'b', 'c', 'd'\)"),
        ([{**GOOD, "b": None}], "row 1, column 'b': found null, allowed is a number"),
        ([{**GOOD, "b": "2"}], "row 1, column 'b': found text"),
        ([{**GOOD, "b": True}], "row 1, column 'b': found true or false"),
        ([[1, 2, 3, [4]]], "row 1, column 'd': found an array"),
        ([GOOD, {**GOOD, "c": math.nan}], "row 2, column 'c': found a number that is not finite"),
        ([GOOD, {**GOOD, "c": math.inf}], "row 2, column 'c': found a number that is not finite"),
        ([{**GOOD, "a": 1e200, "b": 1e200}], "row 1: found numbers whose squares add up beyond the doubles"),
    ],
)
def test_bad_rows_of_numbers(of_numbers, rows, says):
    with pytest.raises(StreamError, match=says):
        of_numbers.of_rows(rows)
    assert of_numbers.of_rows([GOOD, {**GOOD, "more": "x"}]).predictions.shape == (2,)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"a": [1.0], "b": [1.0], "c": [1.0]}, "lacks 'd'"),
        ({"a": ["x"], "b": [1.0], "c": [1.0], "d": [1.0]}, "column .*'a'.*: found the type string"),
        ({"a": [1.0, None], "b": [1.0] * 2, "c": [1.0] * 2, "d": [1.0] * 2}, "row 2, column 'a': found a number that"),
        ({"a": [2**60], "b": [1.0], "c": [1.0], "d": [1.0]}, "integers up to 2\\^53"),
    ],
)
def test_bad_tables_of_numbers(of_numbers, table, says):
    with pytest.raises(StreamError, match=says):
        of_numbers.of_table(pa.table(table))


def test_two_columns_of_one_name(of_numbers):
    names = ["a", "a", "b", "c", "d"]
    with pytest.raises(StreamError, match="two columns 'a'"):
        of_numbers.of_table(pa.Table.from_arrays([pa.array([1.0])] * 5, names=names))


def test_bad_cells_of_columns(of_columns):
    with pytest.raises(StreamError, match="row 1: lacks 'town', 'dose'"):
        of_columns.of_rows([{"age": 3.0}])
    for cell in ([1], {"x": 1}):
        with pytest.raises(StreamError, match="row 2, column 'town'"):
            of_columns.of_rows([{"age": 3.0, "town": "Oslo", "dose": 1}, {"age": 3.0, "town": cell, "dose": 1}])
    unknown = of_columns.of_rows([{"age": None, "town": "Atlantis", "dose": 10**300}])
    assert np.isfinite(unknown.probabilities).all()  # as the encoding says of unknown and missing cells


def resealed(folder, to, change, arrays=None):
    """A model with a changed record or other arrays, whose checksums are right."""
    record = read_record(folder)
    content = (folder / "model.npz").read_bytes() if arrays is None else arrays
    change(record)
    record["arrays"]["sha256"] = hashlib.sha256(content).hexdigest()
    to.mkdir()
    (to / "model.npz").write_bytes(content)
    (to / "model.json").write_text(json.dumps({**record, "sha256": digest_of(record)}))
    return to


def packed(numbers, save):
    sink = io.BytesIO()
    save(sink, model=numbers, average=numbers)
    return sink.getvalue()


def test_forged_models_of_columns_are_not_served(tmp_path):
    table = auto_tools.table(600)
    save_model(PrivateClassifier(epsilon=20.0).fit(table, auto_tools.labels_of(table)), tmp_path / "run")
    changes = {
        "features of a row": lambda inputs: inputs["schema"]["columns"].pop(),
        "in the order": lambda inputs: inputs["estimator"].update(order=[7, 9]),
        "no texts": lambda inputs: inputs["estimator"]["classes"].update(type="|O", values=[[1], {}]),
    }
    for i, (says, change) in enumerate(changes.items()):
        forged = resealed(tmp_path / "run", tmp_path / str(i), lambda record, of=change: of(record["inputs"]))
        with pytest.raises((StateError, ValueError), match=says):
            predictor_of(forged)


def test_forged_models_of_numbers(tmp_path):
    save_model(DPFTRL(epsilon=100.0, fit_intercept=False).fit(X, Y), tmp_path / "run")
    wide = resealed(tmp_path / "run", tmp_path / "wide", lambda record: record["classes"].update(type="<U200000000"))
    with pytest.raises(StateError, match="labels of type"):
        predictor_of(wide)
    rows = resealed(tmp_path / "run", tmp_path / "rows", lambda record: record.update(n_rows=10**400))
    with pytest.raises(InvalidParameter, match="n_rows must be"):
        predictor_of(rows)
    few = packed(np.zeros(4), np.savez_compressed)
    with pytest.raises(StateError, match="compressed"):
        predictor_of(resealed(tmp_path / "run", tmp_path / "few", lambda record: None, few))
    large = packed(np.array([1e308, -1e308, 1e308, 1e308]), np.savez)
    model = predictor_of(resealed(tmp_path / "run", tmp_path / "large", lambda record: None, large))
    with pytest.raises(StreamError, match="row 2: the model's score of it is beyond"):
        model.of_rows([[0, 0, 0, 0], [100, 100, -3, 7]])


# ---- bodies ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"", 400, "not JSON"),
        (b"\xff\xfe", 400, "not JSON"),
        (b"[" * 100_000, 400, "not JSON"),
        (b'{"rows": [[NaN, 1, 1, 1]]}', 400, "not JSON: line 1, column"),
        (b'{"rows": [[1e999, 1, 1, 1]]}', 400, "not JSON"),
        (b"[1]", 400, '"rows"'),
        (b'{"rows": {"a": 1}}', 400, '"rows"'),
        (b'{"rows": [[1, 1, 1, 1]], "x": 1}', 400, "has 'x' beside"),
        (b'{"rows": []}', 422, "found no rows"),
        (rows_of(*[[1, 1, 1, 1]] * 4), 413, "found 4 rows, at most 3"),
    ],
)
def test_bad_json(of_numbers, body, status, says):
    with pytest.raises(Refused, match=says) as found:
        answer_to(JSON, body, of_numbers, 3)
    assert found.value.status == status
    assert "1, 1" not in found.value.message


TABLE = pa.table({name: [0.1, 0.2] for name in "abcd"})


def batches(*given, metadata=None, **options):
    """Batches as a stream of Arrow."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, given[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in given:
            writer.write_batch(batch, custom_metadata=metadata)
    return sink.getvalue().to_pybytes()


ROW = TABLE.to_batches()[0]
# Arrow 0.17 named the compression of version 4 of its metadata there, and readers still obey
OLD = {"metadata_version": pa.ipc.MetadataVersion.V4, "metadata": {"ARROW:experimental_compression": "zstd"}}


MANY = pa.Array.from_buffers(pa.null(), 2**31 - 1, [None])


def towns(*names):
    return pa.record_batch([pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array(names))], ["town"])


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"", 400, "not a stream of Arrow"),
        (b"ARROW1\0\0", 400, "not a stream of Arrow"),
        (stream(TABLE)[:-200], 400, "not a stream of Arrow"),
        (stream(TABLE, compression="zstd"), 415, "compressed"),
        (stream(TABLE, compression="lz4"), 415, "compressed"),
        (stream(pa.table({"a": pa.array(["x"]).dictionary_encode()}), compression="zstd"), 415, "compressed"),
        (batches(ROW, **OLD), 415, "compressed"),
        (batches(towns("a"), towns("a", "b"), emit_dictionary_deltas=True), 415, "deltas"),
        (batches(*[ROW.slice(0, 0)] * 256), 413, "more than 256 messages"),
        (stream(TABLE.slice(0, 0)), 422, "found no rows"),
        (stream(pa.concat_tables([TABLE] * 2)), 413, "found 4 rows"),
        (stream(pa.table(dict.fromkeys("abcd", MANY))), 413, "found 2,147,483,647 rows"),
        (stream(pa.table({"a": [[1.0]]})), 422, "column 'a': found list"),
        (stream(pa.table({"a": [{"b": 1}]})), 422, "column 'a': found struct"),
        (stream(pa.table({"a": [b"x"]})), 422, "column 'a': found binary"),
        (stream(pa.table([[1.0], [[1.0]]], names=["a", "a"])), 422, "column 'a': found list"),
    ],
)
def test_bad_arrow(of_numbers, body, status, says):
    with pytest.raises(Refused, match=says) as found:
        answer_to(ARROW, body, of_numbers, 3)
    assert found.value.status == status


LONG = "x" * 100_000


@pytest.mark.parametrize(
    "column",
    [
        pa.DictionaryArray.from_arrays(pa.array([0] * 1000), [LONG]),
        pa.DictionaryArray.from_arrays(pa.array([0] * 1000), pa.array([LONG], pa.large_string())),
        pa.DictionaryArray.from_arrays(pa.array([0] * 1000), pa.array([LONG], pa.string_view())),
        pa.array([LONG] * 1000, pa.string_view()),
    ],
)
def test_text_that_many_cells_share_is_not_written_out(of_columns, column):
    """A small stream may stand for gigabytes: a hundred megabytes are refused, as many cells of a letter are not."""
    table = pa.table({"age": column, "town": ["Oslo"] * 1000, "dose": [1] * 1000})
    with pytest.raises(Refused, match="bytes of text") as found:
        answer_to(ARROW, stream(table), of_columns, 1000)
    assert found.value.status == 413
    short = table.set_column(0, "age", pa.array(["7"] * 1000).dictionary_encode()).set_column(
        1, "town", pa.array(["Oslo", None] * 500, pa.string_view())
    )
    assert len(answer_to(ARROW, stream(short), of_columns, 1000).predictions) == 1000


@pytest.mark.parametrize(("name", "status"), [("more", 200), ("town", 400)])
def test_only_the_columns_of_the_model_are_checked(of_columns, name, status):
    """Any number of columns may share the same megabytes of text."""
    columns = {"age": [1.0], "town": ["Oslo"], "dose": [1], "more": ["Oslo"]} | {name: ["\u00e9\u00e9"]}
    damaged = stream(pa.table(columns)).replace("\u00e9\u00e9".encode(), b"\xff" * 4)  # no UTF-8
    try:
        found = len(answer_to(ARROW, damaged, of_columns, 1).predictions)
    except Refused as refused:
        found = refused.status
    assert found == (1 if status == 200 else status)


def test_damaged_arrow_is_refused_or_answered(of_columns):
    """Every byte of a small stream, changed: nothing but an answer or a refusal comes of it."""
    table = pa.table({"age": [50.0, 60.0], "town": pa.array(["Oslo", "Narvik"]).dictionary_encode(), "dose": [1, 2]})
    whole, refused = stream(table), 0
    for at in range(0, len(whole), 3):
        body = bytearray(whole)
        body[at] ^= 0xFF
        try:
            answer = answer_to(ARROW, bytes(body), of_columns, 100)
        except (Refused, PrivolError):
            refused += 1
        else:
            assert len(answer.predictions) <= 100
    assert 50 < refused < len(whole) / 3


def test_dates_and_times_of_arrow_are_cells(of_columns):
    table = pa.table({"age": [50.0], "town": [date(2020, 1, 1)], "dose": pa.array([None], pa.null())})
    assert answer_to(ARROW, stream(table), of_columns, 1).predictions.shape == (1,)


@pytest.mark.parametrize("labels", ["classes", "targets"])
def test_a_long_table_is_answered_in_blocks(labels, of_columns, tmp_path):
    """Its rows have the answers that they have in short tables, but for how products of a matrix round by its shape."""
    n = 2 * _MOST_ROWS + 100
    table, predictor = pa.Table.from_pandas(auto_tools.table(n, seed=4)), of_columns
    if labels == "targets":
        few, score = auto_tools.table(2000), auto_tools.score_of
        save_model(PrivateRegressor(epsilon=20.0, target_range=(-9, 9)).fit(few, score(few)), tmp_path / "R")
        predictor = predictor_of(tmp_path / "R")
    whole = predictor.of_table(table)
    parts = [predictor.of_table(table.slice(at, 50_000)) for at in range(0, n, 50_000)]
    assert len(whole.predictions) == n
    predictions = np.concatenate([each.predictions for each in parts])
    if labels == "targets":
        np.testing.assert_allclose(whole.predictions, predictions, rtol=1e-12, atol=1e-12)
        assert whole.probabilities is None
    else:
        assert np.array_equal(whole.predictions, predictions)
        shares = np.concatenate([each.probabilities for each in parts])
        np.testing.assert_allclose(whole.probabilities, shares, rtol=1e-12, atol=1e-12)
        assert whole.classes == parts[0].classes


def test_answers_in_both_forms(of_numbers):
    answer = of_numbers.of_rows([[0.1, 0.2, 0.3, 4], [-0.5, 0.5, 0.5, 0.5]])
    plain = json.loads(answer_in_json(answer, {"name": "m"}))
    table = pa.ipc.open_stream(answer_in_arrow(answer, {"name": "m"})).read_all()
    assert plain["predictions"] == table["prediction"].to_pylist() == answer.predictions.tolist()
    assert plain["classes"] == [0, 1]
    assert np.array_equal(plain["probabilities"], answer.probabilities)
    for j in (0, 1):
        assert np.array_equal(table[f"probability of {j}"].to_numpy(), answer.probabilities[:, j])
    assert json.loads(table.schema.metadata[b"privol.model"]) == plain["model"] == {"name": "m"}


@pytest.mark.parametrize(
    ("accept", "sent", "arrow"),
    [
        (None, JSON, False), (None, ARROW, True), ("*/*", ARROW, True), (JSON, ARROW, False), (ARROW, JSON, True),
        (f"text/html, {JSON};q=0.9", ARROW, False), ("application/*", JSON, False), (f"{JSON}, {ARROW}", JSON, True),
    ],
)  # fmt: skip
def test_accept(accept, sent, arrow):
    assert wants_arrow(accept, sent) is arrow


def test_other_forms_are_refused():
    with pytest.raises(Refused, match="text/csv") as found:
        wants_arrow("text/csv", JSON)
    assert found.value.status == 406


def test_a_directory_is_as_load_model_reads_it(tmp_path):
    save_model(DPFTRL(epsilon=1.0).fit(X, Y), tmp_path / "run")
    same(predictor_of(tmp_path / "run").of_rows(X[:5].tolist()), load_model(tmp_path / "run"), X[:5])
