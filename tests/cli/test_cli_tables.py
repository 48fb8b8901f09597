"""The command line on tables: schemas, every format, drafts, users, late labels, private metrics."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from cli_tools import piped, privol_cli, run_json, start

import privol
from privol import guarantees
from privol.cli.app import BUDGET, DATA, OK, USAGE
from privol.guarantees import format_up
from privol.ledger import Ledger
from privol.state import load_model, read_record
from privol.streams import Schema

pytestmark = pytest.mark.process

arrow = pytest.importorskip("pyarrow")
N = 600
SCHEMA = """
[target]
column = "outcome"
negative = ["kept", "Kept"]
positive = ["missed"]

[columns.age]
range = [0, 120]

[columns.job]
levels = ["clerk", "nurse", "smith"]

[columns.km]
range = [0, 100]
missing = "indicator"

[columns.person]
drop = true
"""
CAP = '\n[user]\ncolumn = "person"\nmax_rows = 2\n'
REAL = """
[target]
column = "price"
range = [0, 1000]

[columns.size]
range = [0, 200]
"""
BOUND = 3**0.5  # a number, a number or its indicator, a level


@pytest.fixture
def visits(here):
    """``rows.csv`` with categories and gaps, ``rows.toml``, and ``new.csv`` without target and person."""
    rng = np.random.default_rng(4)
    table = {
        "person": [f"P{i}" for i in rng.integers(0, 200, N)],
        "age": rng.integers(1, 100, N),
        "job": rng.choice(["clerk", "nurse", "smith", "pilot", ""], N),
        "km": [None if gap else km for gap, km in zip(rng.random(N) < 0.1, rng.integers(0, 120, N), strict=True)],
    }
    table["outcome"] = np.where((table["age"] > 50) ^ (table["job"] == "nurse"), "missed", "kept")
    found = arrow.table({name: arrow.array(list(values)) for name, values in table.items()})
    save(found, "rows.csv")
    save(found.select(["age", "job", "km"]).slice(0, 20), "new.csv")
    (here / "rows.toml").write_text(SCHEMA)
    return found


def save(table, name, **options):
    import pyarrow.csv
    import pyarrow.feather
    import pyarrow.parquet

    if name.endswith(".csv"):
        pyarrow.csv.write_csv(table, name, pyarrow.csv.WriteOptions(quoting_style="needed", **options))
    elif name.endswith(".parquet"):
        pyarrow.parquet.write_table(table, name)
    elif name.endswith(".arrow"):
        pyarrow.feather.write_feather(table, name, compression="uncompressed")
    else:
        Path(name).write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


RUN = ("run", "rows.csv", "--schema", "rows.toml", "--learner", "pigd", "--radius=5", "--seed", "3", "--no-diagnostics")


# ---- schemas ------------------------------------------------------------------------------------------------


def test_a_run_by_a_schema_is_what_the_library_does(here, visits):
    record = run_json(*RUN, "--out", "R")
    stream = privol.open_stream("rows.csv", schema="rows.toml")
    twin = privol.PIGD(radius=5.0, x_bound=stream.row_bound, random_state=3, horizon=N).fit_stream(stream)
    model = load_model("R")
    assert np.array_equal(model.coef_, twin.coef_)
    assert model.classes_.tolist() == record["classes"] == ["kept", "missed"]
    assert (record["x_bound_from"], record["parameters"]["x_bound"]) == ("schema", stream.row_bound)
    assert stream.row_bound == pytest.approx(BOUND)
    assert record["inputs"]["feature_names"] == list(stream.feature_names)
    assert Schema.load(read_record("R")["inputs"]["schema"]) == stream.schema
    shown = " ".join(privol_cli(*RUN, "--verbose").stdout.split())
    assert "x-bound 1.73205, the largest norm a row can have by the schema; --x-bound sets another" in shown


def test_an_explicit_x_bound_takes_precedence(here, visits):
    record = run_json(*RUN, "--x-bound", "0.5")
    assert (record["x_bound_from"], record["parameters"]["x_bound"]) == (None, 0.5)


def test_ranges_of_all_columns_imply_the_bound(here):
    Path("rows.csv").write_text("a,b,y\n" + "1,2,0\n2,1,1\n" * 30)
    Path("ranges.json").write_text('{"a": [0, 3], "b": [0, 3]}')
    words = ("run", "rows.csv", "--classes", "0,1", "--ranges", "ranges.json")
    record = run_json(*words)
    assert (record["x_bound_from"], record["parameters"]["x_bound"]) == ("ranges", pytest.approx(2**0.5))
    record = run_json(*words, "--x-bound", "1")
    assert (record["x_bound_from"], record["parameters"]["x_bound"]) == (None, 1.0)


@pytest.mark.skipif(os.name != "posix", reason="asks what kind of file standard input is")
def test_a_pipe_without_a_reader_is_named(here):
    words = ("run", "--no-diagnostics", "--horizon", "120000", "--json")
    record = json.loads(piped("1,2\n", *words).stdout)
    assert [w for w in record["warnings"] if "pipe was not read" in w and "privol run -" in w]
    record = json.loads(piped(None, *words).stdout)
    assert not [w for w in record["warnings"] if "pipe" in w]


def test_predictions_are_encoded_by_the_schema(here, visits):
    run_json(*RUN, "--out", "R")
    Path("rows.toml").unlink()  # the run has its own
    schema = Schema.load(read_record("R")["inputs"]["schema"])
    (block,) = privol.open_stream("new.csv", schema=schema, target=False)
    expected = load_model("R").predict(block.X).tolist()
    assert len(set(expected)) == 2
    new = privol_cli("predict", "R", "new.csv").stdout
    assert [line.split(",")[0] for line in new.splitlines()] == ["prediction", *expected]
    save(visits.slice(0, 20), "old.csv")  # with target and person
    save(visits.slice(0, 20).select(["km", "age", "job"]), "new.parquet")
    save(visits.slice(0, 20).select(["km", "age", "job"]), "new.jsonl")
    save(visits.slice(0, 20).select(["age", "job", "km"]), "semi.csv", delimiter=";")
    for name in ("old.csv", "new.parquet", "new.jsonl", "semi.csv"):
        assert privol_cli("predict", "R", name).stdout == new, name
    assert piped(Path("new.csv").read_text(), "predict", "R", "-").stdout == new
    unknown = privol_cli("predict", "R", "new.csv", "--target", "age")
    assert (unknown.exit_code, "schema" in unknown.stderr) == (USAGE, True)
    save(visits.slice(0, 20).select(["age", "job"]), "less.csv")
    less = privol_cli("predict", "R", "less.csv")
    assert (less.exit_code, "the schema of R" in less.stderr) == (DATA, True)
    more = visits.slice(0, 20).select(["age", "job", "km"])
    save(more.append_column("note", [["x"] * 20]), "more.csv")
    assert privol_cli("predict", "R", "more.csv").stdout == new


def test_columns_of_a_run_without_a_schema_are_taken_by_their_names(here):
    rng = np.random.default_rng(4)
    rows = [(i, *rng.normal(size=2).round(3).tolist(), i % 2) for i in range(60)]
    Path("rows.csv").write_text("a,b,y\n" + "".join(f"{a},{b},{y}\n" for _, a, b, y in rows))
    Path("same.csv").write_text("a,b\n" + "".join(f"{a},{b}\n" for _, a, b, _ in rows))
    Path("more.csv").write_text("name,b,y,a\n" + "".join(f"x{i},{b},{y},{a}\n" for i, a, b, y in rows))
    Path("turned.csv").write_text("b;a\n" + "".join(f"{b};{a}\n" for _, a, b, _ in rows))
    Path("ranges.json").write_text('{"a": [-3, 3]}')
    for ranges in ([], ["--ranges", "ranges.json"]):
        out = f"R{len(ranges)}"
        run_json("run", "rows.csv", "--no-learn-schema", "--target", "y", "--classes", "0,1", *ranges, "--out", out)
        same = privol_cli("predict", out, "same.csv").stdout
        assert len(same.splitlines()) == 61
        assert read_record(out)["parameters"]["x_bound"] == 1.0
        for name in ("rows.csv", "more.csv", "turned.csv"):
            found = privol_cli("predict", out, name)
            assert (found.exit_code, found.stdout) == (OK, same), (name, found.stderr)
    turned = piped(Path("turned.csv").read_text(), "predict", "R0", "-")
    said = "by their names" in turned.stderr or "feature 0 is 'b'" in turned.stderr
    assert (turned.exit_code, said) == (DATA, True), turned.stderr


def test_predictions_without_header_may_lack_the_target(here, visits):
    names = '[file]\nheader = false\nnames = ["person", "age", "job", "km", "outcome"]\n'
    (here / "rows.toml").write_text(names + SCHEMA + CAP)
    save(visits, "rows.csv", include_header=False)
    run_json(*RUN, "--out", "R")
    outputs = []
    for columns in (visits.column_names, ["person", "age", "job", "km"], ["age", "job", "km"]):
        save(visits.select(columns), "new.csv", include_header=False)
        outputs.append(privol_cli("predict", "R", "new.csv").stdout)
    save(visits, "new.csv")
    outputs.append(privol_cli("predict", "R", "new.csv", "--header").stdout)
    assert len(outputs[0].splitlines()) == N + 1
    assert len(set(outputs)) == 1


def test_a_real_target_comes_back_in_its_units(here):
    size = np.random.default_rng(2).permutation(np.linspace(0, 200, 400))
    save(arrow.table({"size": size, "price": 5 * size}), "rows.csv")
    save(arrow.table({"size": size[::40]}), "new.csv")
    (here / "rows.toml").write_text(REAL)
    words = ("--loss", "squared", "--epsilon", "inf", "--radius", "3", "--l2", "0.001")
    run_json("run", "rows.csv", "--schema", "rows.toml", *words, "--out", "R", "--no-diagnostics")
    lines = privol_cli("predict", "R", "new.csv").stdout.splitlines()
    assert lines[0] == "prediction"
    found = [float(line) for line in lines[1:]]
    assert found == pytest.approx((load_model("R").predict(size[::40, None] / 100 - 1) + 1) * 500, rel=1e-9)
    assert np.abs(found - 5 * size[::40]).max() < 100  # the prices themselves, not scaled to [-1, 1]
    logistic = privol_cli("run", "rows.csv", "--schema", "rows.toml")
    assert (logistic.exit_code, "under [target] of rows.toml" in logistic.stderr) == (USAGE, True)


def test_labels_are_not_taken_for_real_targets(here, visits):
    result = privol_cli(*RUN, "--loss", "huber")
    assert (result.exit_code, "the target of rows.toml has labels" in result.stderr) == (USAGE, True)
    columns = SCHEMA[SCHEMA.index("[columns") :]
    (here / "rows.toml").write_text(columns + "\n[columns.outcome]\ndrop = true\n")
    result = privol_cli(*RUN)
    assert (result.exit_code, "has no [target]" in result.stderr) == (USAGE, True)


@pytest.mark.parametrize("option", ["target", "classes", "positive", "ranges", "sep", "encoding"])
def test_options_that_a_schema_states_are_refused(here, visits, option):
    result = privol_cli(*RUN, f"--{option}", "x")
    assert result.exit_code == USAGE
    assert f"--schema and --{option} exclude each other: with --schema the " in result.stderr
    assert "stated in the schema: " in result.stderr


def test_a_bad_row_names_file_row_and_column(here, visits):
    lines = Path("rows.csv").read_text().splitlines()
    cells = lines[123].split(",")
    cells[1] = ""
    lines[123] = ",".join(cells)
    Path("rows.csv").write_text("\n".join(lines) + "\n")
    result = privol_cli(*RUN, "--json")
    assert result.exit_code == DATA
    error = json.loads(result.stdout)["error"]
    assert (error["row"], error["message"]) == (
        123,
        "rows.csv, row 123, column 'age': found nothing, allowed is a number (missing = under [columns.age] of "
        'rows.toml says what else to do: "indicator", "zero", "nan" or a number in its place)',
    )
    assert sorted(p.name for p in here.iterdir()) == ["new.csv", "rows.csv", "rows.toml"]


# ---- formats ------------------------------------------------------------------------------------------------


def test_every_format_gives_the_same_model(here, visits):
    for name in ("rows.parquet", "rows.arrow", "rows.jsonl"):
        save(visits, name)
    save(visits, "semi.csv", delimiter=";")
    save(visits, "tab.csv", delimiter="\t")
    Path("latin.csv").write_bytes(Path("rows.csv").read_text().replace("pilot", "møller").encode("latin-1"))
    for folder, name in (("parts", "parquet"), ("texts", "csv")):
        Path(folder).mkdir()
        for k in range(3):
            save(visits.slice(200 * k, 200), f"{folder}/part-{k}.{name}")
    found = {}
    for data in ("rows.csv", "rows.parquet", "rows.arrow", "rows.jsonl", "semi.csv", "tab.csv", "parts", "texts/*.csv"):
        out = f"R{len(found)}"
        assert run_json("run", data, *RUN[2:], "--out", out)["rows"] == N
        found[data] = load_model(out).coef_.tobytes()
    (here / "rows.toml").write_text('[file]\nencoding = "latin-1"\n' + SCHEMA)
    run_json("run", "latin.csv", *RUN[2:], "--out", "L")
    found["latin.csv"] = load_model("L").coef_.tobytes()  # another unknown job
    assert len(set(found.values())) == 1
    last = piped(Path("rows.jsonl").read_text(), "run", "-", *RUN[2:], "--horizon", N, "--out", "S", "--json")
    assert (json.loads(last.stdout)["source"], last.exit_code) == ("standard input", OK)
    assert load_model("S").coef_.tobytes() == found["rows.csv"]


@pytest.mark.parametrize("word", ["tab", "\\t", "\t"])
def test_separators_and_codecs_without_a_schema(here, word):
    rows = "".join(f"{i % 7}\t{i % 3}\t{'ja' if i % 7 > 3 else 'nø'}\n" for i in range(50))
    Path("t.csv").write_bytes(rows.encode("latin-1"))
    words = ("--sep", word, "--encoding", "latin-1", "--classes", "nø,ja", "--no-header", "--no-diagnostics")
    record = run_json("run", "t.csv", "--no-learn-schema", *words, "--out", "R")
    assert (record["features"], record["classes"]) == (2, ["nø", "ja"])
    assert privol_cli("predict", "R", "t.csv").stdout.count("\n") == 51  # as in the run
    save(arrow.table({"0": [1.0], "1": [2.0]}), "t.parquet")
    assert privol_cli("predict", "R", "t.parquet").stdout.count("\n") == 2


def test_predictions_from_standard_input_without_a_schema(here):
    Path("t.csv").write_text("".join(f"{i % 7},{i % 3},{int(i % 7 > 3)}\n" for i in range(50)))
    Path("ranges.json").write_text('{"0": [0, 7], "1": [0, 3]}')
    run_json("run", "t.csv", "--positive", "1", "--ranges", "ranges.json", "--out", "R", "--no-diagnostics")
    expected = privol_cli("predict", "R", "t.csv").stdout
    for text, words in ((Path("t.csv").read_text(), ("--target", "2")), ("1,2\n3,0\n", ())):
        found = piped(text, "predict", "R", "-", *words)
        assert found.exit_code == OK, found.stderr
        assert found.stdout == (expected if words else found.stdout)
        assert found.stdout.count("\n") == text.count("\n") + 1
    found = piped(Path("t.csv").read_text(), "predict", "R", "-")
    assert found.exit_code == DATA
    assert "--target" in found.stderr


@pytest.mark.skipif(os.name != "posix", reason="asks a pipe whether it has more")
def test_predictions_are_written_as_rows_arrive(here):
    """No row is sent before the earlier rows have been predicted."""
    rows = "".join(f"{i % 7},{i % 3},{int(i % 7 > 3)}\n" for i in range(50))
    Path("t.csv").write_text(rows)
    run_json("run", "t.csv", "--no-learn-schema", "--positive", "1", "--out", "R", "--no-diagnostics")
    expected = privol_cli("predict", "R", "t.csv").stdout.splitlines(keepends=True)
    process = start("predict", "R", "-", "--target", "2", stdin=subprocess.PIPE)
    killer = threading.Timer(60, process.kill)
    killer.start()
    lines = rows.splitlines(keepends=True)
    assert len(expected) == 51
    for first, last in ((0, 10), (10, 11), (11, 50)):
        process.stdin.write("".join(lines[first:last]))
        process.stdin.flush()
        wanted = expected[first + (first > 0) : last + 1]
        found = [process.stdout.readline() for _ in wanted]
        for line, expected_line in zip(found, wanted, strict=True):
            (label, score), (own, probability) = line.split(","), expected_line.split(",")
            assert label == own
            # a product with one row and with many may differ in the last digit
            assert score == probability or float(score) == pytest.approx(float(probability), rel=1e-12)
    out, err = process.communicate(timeout=60)
    killer.cancel()
    assert (out, err, process.returncode) == ("", "", OK)


# ---- drafts -------------------------------------------------------------------------------------------------


def test_a_draft_runs_with_a_warning(here, visits):
    result = privol_cli("info", "rows.csv", "--target", "outcome")
    assert result.exit_code == OK
    assert "NOT PRIVATE" in result.stderr
    (here / "rows.toml").write_text(result.stdout)
    record = run_json(*RUN, "--out", "R")
    warning = record["warnings"][0]
    assert "rows.toml was derived from the data" in warning
    assert sum("derived from the data" in text for text in record["guarantee"]["conditions"]) == 1
    top = privol_cli(*RUN).stdout.split("\n\n")[0]
    assert "\nWARNING: rows.toml was derived from the data" in top
    (here / "rows.toml").write_text(result.stdout.replace("derived_from_data = true", ""))
    assert not any("derived" in text for text in run_json(*RUN)["warnings"])
    drafted = json.loads(privol_cli("info", "rows.csv", "--json").stdout)
    assert drafted == {"private": False, "schema": result.stdout}


def test_a_draft_looks_at_no_more_rows_than_told(here, visits):
    assert "the first 5 rows" in privol_cli("info", "rows.csv", "--rows", "5").stdout
    for words in (("--rows", "5"), ("--target", "x"), ("--sep", ";")):
        assert privol_cli("info", *words).exit_code == USAGE


def test_plan_states_the_figure_for_users(here, visits):
    words = ("plan", "--learner", "pigd", "--schema", "rows.toml", "--horizon", N, "--json")
    assert "for one user" not in json.loads(privol_cli(*words).stdout)["summary"]
    (here / "rows.toml").write_text(SCHEMA + CAP)
    planned = json.loads(privol_cli(*words).stdout)
    record = run_json(*(word for word in RUN if word not in ("--seed", "3")), "--horizon", N)
    assert planned["summary"] == record["summary"]
    assert "(column 'person', at most 2 rows)" in planned["summary"]
    users = ("--rows-per-user", "2", "--user-separation", "1")
    planned = json.loads(privol_cli(*words, *users).stdout)
    record = run_json(*(word for word in RUN if word not in ("--seed", "3")), *users, "--horizon", N)
    assert planned["summary"] == record["summary"]
    assert "at delta 1e-6 for one user (column 'person', at most 2 rows)" in planned["summary"]
    assert [trade["rows"] for trade in planned["users"]] == [1, 2, 4, 8]
    assert record["budget"]["spent"]["epsilon"] <= record["parameters"]["epsilon"] * (1 + 1e-9)
    refused = privol_cli(*words, "--rows-per-user", "1")
    assert refused.exit_code != 0
    assert "must be what the stream keeps or weaker: it keeps 2 and 1, found 1 and 1" in refused.stderr
    (here / "rows.toml").write_text(SCHEMA + CAP.replace("2", "50"))
    assert [text[:21] for text in json.loads(privol_cli(*words).stdout)["warnings"]] == ["epsilon for users is "]


def test_plan_takes_features_and_bound_from_the_schema(here, visits):
    words = ("plan", "--learner", "pigd", "--schema", "rows.toml", "--horizon", N, "--radius", "5", "--json")
    planned = json.loads(privol_cli(*words).stdout)
    record = run_json(*RUN)
    assert planned["n_features"] == record["features"]
    assert planned["parameters"]["x_bound"] == record["parameters"]["x_bound"]
    assert planned["releases"][-1]["std"] == record["noise"]["std"]
    both = privol_cli("plan", "--schema", "rows.toml", "--n-features", "3", "--horizon", "5")
    assert both.exit_code == USAGE
    (here / "open.toml").write_text('others = "number"\n' + SCHEMA)
    result = privol_cli("plan", "--schema", "open.toml", "--horizon", "5")
    assert (result.exit_code, "--n-features" in result.stderr) == (USAGE, True)


# ---- users and late labels ----------------------------------------------------------------------------------


def test_the_cap_is_counted_and_states_a_figure_for_users(here, visits):
    (here / "rows.toml").write_text(SCHEMA + CAP)
    record = run_json(*RUN, "--out", "R")
    people = visits.column("person").to_pylist()
    over = sum(max(people.count(person) - 2, 0) for person in set(people))
    assert record["rows"] == record["horizon"] == N - over
    assert record["dropped"]["private"] is False
    assert record["dropped"]["rows"] == {"over_user_cap": over}
    assert record["users"]["most_rows"] == 2
    assert record["users"]["mu"] == pytest.approx(2 * record["budget"]["reserved"]["mu"], rel=1e-9)
    assert record["users"]["epsilon"] > 2
    shown = " ".join(privol_cli(*RUN).stdout.split())
    assert f"Rows dropped: {over:,} over the cap of a user (NOT PRIVATE)" in shown
    assert f"epsilon {format_up(record['users']['epsilon'])} for one user (column 'person', at most 2 rows)" in shown
    if os.name == "posix":
        assert Path("R/run.json").stat().st_mode & 0o777 == 0o600


def test_late_labels(here):
    rows = ["key,a,y"]
    for i in range(100):
        rows.append(f"k{i},{i % 10},")
        if i >= 5:
            rows.append(f"k{i - 5},,{int((i - 5) % 10 > 4)}")
    Path("rows.csv").write_text("\n".join(rows) + "\n")
    Path("rows.toml").write_text(
        '[target]\ncolumn = "y"\nnegative = ["0"]\npositive = ["1"]\n'
        '[delay]\nkey = "key"\nwindow = 20\n[columns.a]\nrange = [0, 9]\n'
    )
    record = run_json("run", "rows.csv", "--schema", "rows.toml", "--no-diagnostics")
    assert record["rows"] == 95
    assert record["dropped"]["rows"] == {"waited_too_long": 0, "unmatched_labels": 0, "still_waiting": 5}


# ---- private metrics and delayed evaluation -----------------------------------------------------------------

METRICS = ("--release", "100", "--private-metrics", "0.25", "--metric-windows", "3")


@pytest.mark.parametrize("diagnostics", ["--diagnostics", "--no-diagnostics"])
def test_private_metrics_share_the_budget(here, visits, diagnostics):
    record = run_json(*RUN[:-3], *METRICS, diagnostics, "--out", "R", "--epsilon", "4")
    assert record["model_private"] is True
    assert record["budget"]["reserved"]["epsilon"] == pytest.approx(4.0, rel=1e-9)
    assert record["budget"]["spent"]["epsilon"] == pytest.approx(4.0, rel=1e-6)
    parts = Ledger.read("R/ledger.jsonl").accounts
    total = sum(part.reserved_mu_squared for part in parts)
    shares = {part.learner: part.reserved_mu_squared / total for part in parts}
    assert shares == pytest.approx({"PrivateMetrics": 0.25, "PIGD": 0.75}, rel=1e-6)
    metrics = json.loads(Path("R/private_metrics.json").read_text())
    assert metrics == record["private_metrics"]
    assert metrics["private"] is True
    assert [window["rows"] for window in metrics["windows"]] == [200, 200, 200]
    assert "for one row" in record["together"]
    assert metrics["delay"] == 0
    assert ("metrics.json" in record["files"]) == (diagnostics == "--diagnostics")


def test_private_metrics_are_what_the_library_releases(here, visits):
    record = run_json(*RUN, *METRICS, "--out", "R")
    split = privol.guarantees.split_budget(1.0, 1e-6, 0.25)
    stream = privol.open_stream("rows.csv", schema="rows.toml")
    twin = privol.PIGD(
        epsilon=split.epsilon, radius=5.0, x_bound=stream.row_bound, random_state=3, horizon=N, release=100
    )
    private = privol.evaluate.PrivateMetrics(mu=split.mu, windows=3, random_state=3)
    found = privol.evaluate.progressive(twin, stream, private=private).private.to_record()
    assert record["private_metrics"]["windows"] == found["windows"]
    assert record["private_metrics"]["private"] is False  # a seed was given
    assert np.array_equal(load_model("R").coef_, twin.coef_)
    shown = " ".join(privol_cli(*RUN, *METRICS).stdout.split())
    assert "Progressive metrics: NOT PRIVATE" in shown


def test_the_report_states_the_total_first_and_the_sentence_once(here, visits):
    shown = privol_cli(*RUN[:-3], *METRICS, "--epsilon", "4", "--verbose").stdout
    text = " ".join(shown.split())
    assert text.startswith("Guarantee of models and metrics: differential privacy with epsilon 4 at delta 1e-6 for one")
    own = guarantees.split_budget(4.0, 1e-6, 0.25).epsilon
    assert f"the models alone epsilon {format_up(own)} (mu " in text
    assert text.count("Differential privacy with (epsilon, delta) = (4, 1e-6), from ") == 1
    assert text.count("Differential privacy with (epsilon, delta)") == 1
    assert text.count("Bit source") == 1
    parts = [shown.index(words) for words in ("budget spent", "Progressive metrics: released", "The guarantee in full",
                                              "written to", "Diagnostics: NOT PRIVATE")]  # fmt: skip
    assert parts == sorted(parts)
    record = run_json(*RUN[:-3], *METRICS, "--epsilon", "4", "--out", "R")
    assert record["summary"] in text
    shares = record["budget"]["shares"]
    assert sum(share["mu"] ** 2 for share in shares.values()) == pytest.approx(record["budget"]["reserved"]["mu"] ** 2)
    assert {"sentence", "together", "guarantee", "private_metrics", "users", "dropped", "diagnostics"} < set(record)


def test_the_unspent_budget_is_shown(here, visits):
    shown = " ".join(privol_cli(*RUN, "--horizon", 2 * N, "--release", N, "--verbose").stdout.split())
    record = run_json(*RUN, "--horizon", 2 * N, "--release", N)
    spent = record["budget"]["spent"]
    assert spent["epsilon"] < 0.99
    assert f"budget spent epsilon {format_up(spent['epsilon'])} at delta 1e-6 (" in shown
    assert "budget spent all of it" in " ".join(privol_cli(*RUN, "--verbose").stdout.split())


def test_a_delay_changes_the_evaluation_and_not_the_models(here, visits):
    words = (*RUN[:-1], "--release", "10")
    at_once = run_json(*words, "--out", "A")
    late = run_json(*words, "--delay", "200", "--out", "B")
    assert (at_once["diagnostics"]["delay"], late["diagnostics"]["delay"]) == (0, 200)
    assert at_once["diagnostics"]["run"]["progressive"] != late["diagnostics"]["run"]["progressive"]
    assert np.array_equal(load_model("A").coef_, load_model("B").coef_)


def test_private_metrics_state_their_delay(here, visits):
    words = (*RUN, *METRICS, "--delay", "150", "--out", "R")
    shown = " ".join(privol_cli(*words).stdout.split())
    assert "Each row is evaluated as if its label came 150 rows later." in shown
    assert json.loads(Path("R/private_metrics.json").read_text())["delay"] == 150


DRIFT = ("--private-metrics", "0.5", "--metric-windows", "20", "--drift-alarm", "0.05", "--epsilon", "40")


@pytest.mark.parametrize("drifts", [True, False])
def test_an_alarm_of_drift_is_part_of_what_is_released(here, drifts):
    """Labels that are turned over; the alarm is that of the library for the same windows."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(6000, 2)) / 3
    labels = rows[:, 0] > 0
    labels[3000:] ^= drifts
    np.savetxt("drift.csv", np.column_stack([rows, labels]), "%.6g", ",", header="a,b,y", comments="")
    words = ("run", "drift.csv", "--target", "y", "--classes", "0,1", "--radius", "10", "--x-bound", "2", *DRIFT)
    result = privol_cli(*words, "--no-diagnostics", "--out", "R")
    metrics = json.loads(Path("R/private_metrics.json").read_text())
    found, windows = metrics["drift_alarm"], metrics["windows"]
    assert (found["alpha"], found["windows"], found["watched"]) == (0.05, 20, 15)
    shown = " ".join(result.stdout.split())
    if not drifts:
        assert found["alarm"] is None
        assert "No drift alarm in 15 windows behind the 5 that they are compared with" in shown
        return
    assert found["alarm"]["evidence"] >= 2 / 0.05
    assert windows[found["alarm"]["number"] - 1]["last_row"] == found["alarm"]["last_row"] > 3000
    assert f"Drift alarm by row {found['alarm']['last_row']:,}: mean loss worse than" in shown


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--drift-alarm", "0.1"), "--drift-alarm needs --private-metrics"),
        (("--private-metrics", "0.1", "--drift-alarm", "1"), "--drift-alarm: alpha must be"),
    ],
)
def test_alarms_that_are_refused(here, visits, words, says):
    result = privol_cli(*RUN, *words, "--out", "R")
    assert result.exit_code != 0
    assert says in " ".join(result.stderr.split())
    assert not Path("R").exists()


def test_rows_beyond_a_cap_do_not_count_for_the_horizon(here, visits):
    (here / "rows.toml").write_text(SCHEMA + CAP)
    learnt = run_json(*RUN)["rows"]
    assert run_json(*RUN, "--horizon", learnt)["rows"] == learnt < N
    result = privol_cli(*RUN, "--horizon", learnt - 1)
    assert result.exit_code == BUDGET
    assert "rows beyond the cap of a user are not counted" in result.stderr


def test_exact_metrics_without_privacy(here, visits):
    record = run_json(*RUN[:-3], *METRICS, "--epsilon", "inf", "--no-diagnostics")
    assert record["model_private"] is False
    assert record["private_metrics"]["private"] is False
    assert record["private_metrics"]["total"]["accuracy_std"] == 0.0


def test_surplus_rows_of_users_that_are_null_rows(here, visits):
    """They keep their places, learners accept them, and their users are hidden too."""
    (here / "rows.toml").write_text(SCHEMA + CAP + 'separation = 3\nsurplus = "null"\n')
    users = ("--rows-per-user", "2", "--user-separation", "3")
    record = run_json(*RUN, *users)
    assert (record["rows"], record["guarantee"]["users_fixed"]) == (N, False)
    assert record["dropped"]["rows"]["over_user_cap"] + record["dropped"]["rows"]["too_near"] > 0
    shown = " ".join(privol_cli(*RUN, *users, "--out", "again", "--verbose").stdout.split())
    assert "Rows made null rows: " in shown
    assert "whose rows they are may change with them" in shown
