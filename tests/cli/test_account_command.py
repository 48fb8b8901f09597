"""``privol account``: who spent what, and the total over several journals."""

from __future__ import annotations

import json
import math
import re
import sys
from contextlib import closing

import numpy as np
import pytest
from cli_tools import privol_cli

import privol
from privol.cli.app import IO, OK, USAGE
from privol.errors import StateError
from privol.guarantees import Guarantee, compose_gdp, gdp_epsilon, gdp_mu_of_pure
from privol.ledger import Ledger
from privol.state import State


def plan(kind="gdp", parameter=0.1, **words):
    values = {"adjacency": "replace", "horizon": 100, "releases": 10, "delta": 1e-6, "arithmetic": "a"}
    return Guarantee(kind=kind, parameter=parameter, bit_source="b", **(values | words))


def journal(path, *runs, close=True, **limit):
    """A journal of runs (learner, kind, parameter); each spends a quarter of its square and is closed."""
    words = {"adjacency": runs[0][3]["adjacency"]} if runs and len(runs[0]) > 3 else {}
    ledger = Ledger(journal=path, **limit, **words)
    for learner, kind, parameter, *more in runs:
        account = ledger.open(learner=learner, guarantee=plan(kind, parameter, **(more[0] if more else {})))
        share = 1.0 if kind == "pure" else 0.25
        account.attach(lambda account=account, share=share: (40, 2, share * account.reserved_mu_squared))
        account.commit()
        if close:
            account.close()
    ledger.close()
    return path


@pytest.fixture
def run(tmp_path):
    """The directory of a run that a learner has finished."""
    X = np.random.default_rng(4).uniform(-0.5, 0.5, size=(300, 3))
    stream = privol.open_stream((X, (X[:, 0] > 0).astype(int)), classes=[0, 1])
    privol.DPFTRL(epsilon=0.5, delta=1e-7, horizon=300).fit_stream(stream, checkpoint=State(tmp_path / "RUN"))
    return tmp_path / "RUN"


def account_json(*words):
    result = privol_cli("account", *words, "--json")
    assert result.exit_code == OK, result.output
    return json.loads(result.stdout)


def account_text(*words):
    result = privol_cli("account", *words)
    assert result.exit_code == OK, result.output
    return " ".join(result.stdout.split())


def error_of(*words):
    result = privol_cli("account", *words, "--json")
    error = json.loads(result.stdout)["error"]
    assert result.exit_code == error["exit_code"]
    assert result.stderr == f"privol: error: {error['message']}\n"
    return error["exit_code"], error["message"]


def test_a_run_of_a_learner(run):
    record = account_json(run)
    assert (record["format"], record["version"], record["delta"], record["adjacency"]) == (
        "privol.account", 1, 1e-7, "replace",
    )  # fmt: skip
    (found,) = record["journals"]
    assert (found["path"], found["limit"], found["remaining"]) == (str(run / "ledger.jsonl"), None, None)
    (one,) = found["runs"]
    assert re.fullmatch(r"[0-9a-f]{32}", one["plan_id"])
    expected = {"learner": "DPFTRL", "rows": 300, "open": False, "private": True, "kind": "gdp", "delta": 1e-7}
    assert {name: one[name] for name in expected} == expected
    assert one["spent"]["mu"] == one["reserved"]["mu"] == one["parameter"] == record["together"]["mu"]
    assert one["spent"]["epsilon"] == pytest.approx(0.5, rel=1e-9)
    assert record["together"]["runs"] == 1
    assert record["together"]["sentence"].startswith("Differential privacy with (epsilon, delta) = (0.5, 1e-7), from ")
    assert record["together"]["if_fixed"] is None
    text = account_text(run)
    for words in ("DPFTRL", one["plan_id"][:12], "1 run, no limit", "closed", "In all, 1 run", "epsilon 0.5 mu"):
        assert words in text or words.replace(" mu", "") in text
    assert "NOT PRIVATE" not in text


def test_an_unfinished_run_counts_its_whole_reservation(tmp_path):
    path = journal(tmp_path / "b.jsonl", ("PIGD", "gdp", 0.2), close=False)
    record = account_json(path)
    (one,) = record["journals"][0]["runs"]
    assert (one["open"], one["rows"], one["releases"]) == (True, 40, 2)
    assert one["spent"]["mu"] == pytest.approx(0.1)
    assert one["reserved"]["mu"] == record["together"]["mu"] == 0.2
    assert "open" in account_text(path)


def test_a_limit_and_what_is_left(tmp_path):
    path = journal(tmp_path / "b.jsonl", ("E", "pure", 0.25), ("E", "pure", 0.25), epsilon=1.0, delta=1e-6)
    found = account_json(path)["journals"][0]
    assert found["limit"] == {"epsilon": 1.0, "delta": 1e-6, "mu": Ledger(epsilon=1, delta=1e-6).mu, "slack": 0.0}
    assert found["remaining"] == {"mu": 0.0, "pure_epsilon": 0.5, "slack": 0.0}
    text = account_text(path)
    assert "2 runs; limit: epsilon 1 at delta 1e-6 (mu 0.236704); left for a new run: mu 0, or" in text
    assert "or a pure epsilon of 0.5" in text
    assert "(epsilon, delta) = (0.5, 0), and" in text


def test_several_journals_are_composed(run, tmp_path):
    pytest.importorskip("dp_accounting")
    path = journal(tmp_path / "b.jsonl", ("Output", "pure", 0.3), ("PIGD", "gdp", 0.2))
    record = account_json(run, path)
    whole = record["together"]
    mu = compose_gdp([record["journals"][0]["runs"][0]["parameter"], gdp_mu_of_pure(0.3), 0.1])
    assert mu <= whole["mu"] <= mu * (1 + 1e-8)
    assert (whole["runs"], record["delta"], whole["pure_epsilon"]) == (3, 1e-6, "inf")
    assert whole["epsilon"] == gdp_epsilon(whole["mu"], 1e-6)
    assert whole["rho"] < whole["mu"] ** 2 / 2
    fixed = whole["if_fixed"]
    assert fixed["epsilon"] < 0.95 * whole["epsilon"]
    assert "fixed before the first of them" in fixed["condition"]
    text = account_text(run, path)
    assert "Together, 3 runs; the same rows may be in all of them, so they are composed" in text
    assert "If the number of runs, the kind and parameter of each and where it ends were fixed before" in text
    assert "pure epsilon 0.3" in text
    assert account_json(path, "--delta", "1e-9")["delta"] == 1e-9


def test_without_the_extra_the_tight_figure_is_left_out(tmp_path, monkeypatch):
    for name in ("dp_accounting", "dp_accounting.pld", "dp_accounting.pld.privacy_loss_distribution"):
        monkeypatch.setitem(sys.modules, name, None)
    path = journal(tmp_path / "b.jsonl", ("Output", "pure", 0.3), ("PIGD", "gdp", 0.2))
    assert account_json(path)["together"]["if_fixed"] is None
    assert "fixed" not in account_text(path)
    with pytest.raises(StateError, match="dp-accounting"):
        Ledger.read(path).committed.epsilon_if_fixed(1e-6)


def test_a_run_in_several_journals_counts_once_with_its_larger_figure(run, tmp_path):
    shared = Ledger(journal=tmp_path / "shared.jsonl", epsilon=2.0, delta=1e-5)
    shared.include(Ledger.read(run / "ledger.jsonl"))
    shared.close()
    record = account_json(run, tmp_path / "shared.jsonl", run / "ledger.jsonl", run)
    assert (record["together"]["runs"], len(record["journals"])) == (1, 2)
    assert record["together"]["mu"] == record["journals"][0]["together"]["mu"]
    assert record["delta"] == 1e-5  # the largest over limits and runs
    # one read while the run was open states more than the run that ended early
    path = journal(tmp_path / "b.jsonl", ("PIGD", "gdp", 0.2), close=False)
    early = tmp_path / "early.jsonl"
    early.write_bytes(path.read_bytes())
    ledger = Ledger(journal=path)
    ledger.accounts[0].attach(lambda: (40, 2, 0.01))
    ledger.accounts[0].close()
    ledger.close()
    assert account_json(path)["together"]["mu"] == pytest.approx(0.1)
    for order in ((path, early), (early, path)):
        assert account_json(*order)["together"]["mu"] == 0.2


@pytest.fixture
def grouped(tmp_path):
    """A journal of a run, and of a chain of three on the rows of one stream, the middle one of which is open."""
    ledger = Ledger(journal=tmp_path / "group.jsonl", epsilon=1.0, delta=1e-6)
    first = ledger.open(learner="Scale", guarantee=plan(parameter=0.05))
    alone = ledger.open(learner="PIGD", guarantee=plan(parameter=0.08))
    knots = ledger.open(learner="Knots", guarantee=plan(parameter=0.06), beside=first, first_row=101)
    model = ledger.open(learner="Model", guarantee=plan(parameter=0.2), beside=knots, first_row=201)
    for account, part in ((first, 1.0), (alone, 1.0), (model, 0.01)):
        account.attach(lambda account=account, part=part: (40, 2, part * account.reserved_mu_squared))
        account.close()
    ledger.close()
    return tmp_path / "group.jsonl"


def test_a_group_is_one_line_of_budget_with_its_parts(grouped):
    record = account_json(grouped)
    (found,) = record["journals"]
    scale, _, knots, model = found["runs"]
    assert [(run["first_row"], run["rows"]) for run in found["runs"]] == [(1, 40), (1, 40), (101, 0), (201, 40)]
    (group,) = found["groups"]
    assert group["plan_id"] == scale["plan_id"]
    assert group["parts"] == [[run["plan_id"]] for run in (scale, knots, model)]
    # Knots never stated its spending, and may continue; for Model its spending counts
    assert group["spent"]["mu"] == 0.06
    assert group["reserved"]["mu"] == 0.2
    assert model["spent"]["mu"] == pytest.approx(0.02)
    for together in (found["together"], record["together"]):
        assert together["mu"] == pytest.approx(0.1, rel=1e-12)
    assert record["together"]["runs"] == 4
    assert "Scale or Knots or Model (no row in two of them): 0.06, PIGD: 0.08" in record["together"]["sentence"]
    assert found["remaining"]["mu"] == pytest.approx(math.sqrt(found["limit"]["mu"] ** 2 - 0.01))
    text = account_text(grouped)
    line = re.search(r"3 runs, .*?different rows (.*?)Scale", text)
    assert line is not None
    assert "mu 0.2" in line[1]
    assert "mu 0.06" in line[1]
    rest = re.search(r"Scale(.*?)PIGD", text)
    assert rest is not None
    assert re.search(r"1 - 40 .*0\.05-GDP.*0\.06-GDP .*open.*201 - 240 .*0\.2-GDP", rest[1])
    assert "mu" not in rest[1]  # its parts have no figures of their own that could be added up
    assert "runs on different rows of one stream count once: the most expensive" in text
    alone = journal(grouped.parent / "b.jsonl", ("PIGD", "gdp", 0.2))
    assert "count once: the most expensive" not in account_text(alone)


def test_a_group_of_users_counts_by_its_later_figure(tmp_path):
    users = {"unit": "user", "rows_per_user": 3}
    with closing(Ledger(journal=tmp_path / "users.jsonl")) as ledger:
        first = ledger.open(learner="Encoder", guarantee=plan(parameter=0.05, **users))
        ledger.open(learner="Model", guarantee=plan(parameter=0.06, **users), beside=first, first_row=101)
    (group,) = account_json(tmp_path / "users.jsonl")["journals"][0]["groups"]
    assert (group["unit"], group["reserved"]["mu"]) == ("user", 0.06)
    assert "or by the figure of the later one where that is for all rows of a user, in both" in account_text(
        tmp_path / "users.jsonl"
    )


def test_a_group_in_several_journals(grouped, tmp_path):
    shared = Ledger(journal=tmp_path / "shared.jsonl")
    shared.include(Ledger.read(grouped))
    (scale,) = (account for account in shared.accounts if account.learner == "Scale")
    shared.close()
    for order in ((grouped, tmp_path / "shared.jsonl"), (tmp_path / "shared.jsonl", grouped)):
        record = account_json(*order)
        assert record["together"]["runs"] == 4
        assert record["together"]["mu"] == pytest.approx(0.1, rel=1e-12)
    shared = Ledger(journal=tmp_path / "shared.jsonl")
    other = Ledger(journal=tmp_path / "other.jsonl")
    other.include(shared)
    other.open(learner="Other", guarantee=plan(parameter=0.08), beside=scale.plan_id, first_row=301)
    shared.open(learner="Clash", guarantee=plan(parameter=0.06), beside=scale.plan_id, first_row=351)
    shared.close()
    other.close()
    # the two are on overlapping rows, which neither journal knows: their squares add up
    record = account_json(tmp_path / "shared.jsonl", tmp_path / "other.jsonl")
    assert record["together"]["mu"] == pytest.approx(math.hypot(0.08, math.hypot(0.06, 0.08)), rel=1e-9)


def test_what_is_not_private_is_marked(tmp_path):
    runs = ("PIGD", "gdp", 0.2, {"adjacency": "replace", "private": False}), ("E", "pure", 0.2)
    path = journal(tmp_path / "b.jsonl", *runs)
    record = account_json(path)
    assert not record["together"]["private"]
    assert record["together"]["sentence"].startswith("NOT PRIVATE: ")
    assert record["together"]["if_fixed"] is None
    assert [one["private"] for one in record["journals"][0]["runs"]] == [False, True]
    assert "NOT PRIVATE" in account_text(path)
    path = journal(tmp_path / "none.jsonl", ("PIGD", "none", math.inf))
    record = account_json(path)
    assert record["together"]["epsilon"] == record["together"]["mu"] == "inf"
    assert record["together"]["sentence"].startswith("NO PRIVACY")
    assert "epsilon infinity" in account_text(path)


def test_an_empty_ledger(tmp_path):
    path = journal(tmp_path / "b.jsonl")
    record = account_json(path)
    assert record["together"]["runs"] == record["together"]["epsilon"] == 0
    assert "Nothing was released and nothing is reserved." in account_text(path)


def test_errors(tmp_path, run):
    path = journal(tmp_path / "b.jsonl", ("PIGD", "gdp", 0.2))
    code, message = error_of(tmp_path)
    assert (code, message.startswith(f"{tmp_path}: no ledger is here (ledger.jsonl); a learner")) == (IO, True)
    code, message = error_of(tmp_path / "nowhere")
    assert (code, message) == (IO, f"{tmp_path / 'nowhere'}: No such file or directory")
    other = journal(tmp_path / "zero.jsonl", ("PIGD", "gdp", 0.2, {"adjacency": "zero_out"}))
    code, message = error_of(run, other)
    assert code == USAGE
    assert "'replace'" in message
    assert message.endswith("do not compose; ask about the runs of one adjacency at a time")
    for delta in ("0", "1", "nan"):
        code, message = error_of(path, "--delta", delta)
        assert (code, "delta must be" in message) == (USAGE, True)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"0.2", b"0.1", 1))
    code, message = error_of(run, path)
    assert (code, "its checksum does not match" in message) == (IO, True)
    path.write_text("not a journal\n")
    assert error_of(path)[0] == IO
    entries = tmp_path / "entries.jsonl"
    ledger = Ledger()
    ledger.open(learner="A", guarantee=plan())
    ledger.write_jsonl(entries)
    code, message = error_of(entries)
    assert (code, "is not a journal of format 'privol.ledger'" in message) == (IO, True)
    assert error_of()[0] == USAGE


def test_nothing_is_changed_and_nothing_is_locked(tmp_path):
    path = tmp_path / "b.jsonl"
    ledger = Ledger(journal=path)
    ledger.open(learner="A", guarantee=plan())
    before = path.read_bytes(), sorted(tmp_path.iterdir())
    account_json(path)  # while the run is open elsewhere
    assert (path.read_bytes(), sorted(tmp_path.iterdir())) == before
    ledger.open(learner="B", guarantee=plan())
    assert account_json(path)["together"]["runs"] == 2


def test_help_says_how_to_include_in_python():
    words = " ".join(privol_cli("account", "--help").output.split())
    assert 'ledger.include(Ledger.read("RUN/ledger.jsonl"))' in words
    assert "Exit codes" in privol_cli("--help").output
    assert "privol account RUN" in privol_cli("--help").output
