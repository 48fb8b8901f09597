"""The independent check of several runs, of a ledger that counts them, and of a network's ranks."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pandas
import pytest
from cli_tools import privol_cli, run_json
from forged import caught, change_ledger, change_run
from mpmath import mpf

from privol.cli.app import OK, REFUTED, UNCHECKED, USAGE
from privol.ledger import Ledger
from privol.verifying import Unreadable, checker, verdict, verify

pytestmark = pytest.mark.process

N = 3000
DECLARED = ("--classes", "well,ill")
RUNS = {
    "taught": ("--target", "outcome"),
    "plain": ("--learner", "nogd", "--radius", "2", "--no-learn-schema", *DECLARED),
    "delta": ("--learner", "objective-perturbation", "--delta", "1e-7", *DECLARED),
    "pure": ("--learner", "output-perturbation", "--delta", "0", "--epsilon", "0.5", *DECLARED),
    "pure too": ("--learner", "ldpsgd", "--radius", "2", "--epsilon", "0.5", "--no-learn-schema", *DECLARED),
    "users": ("--learner", "nogd", "--rows-per-user", "3", "--radius", "2", "--no-learn-schema", *DECLARED),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Runs on one table, and the journals of ledgers that count some of them."""
    path = tmp_path_factory.mktemp("ledgers")
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (N, 3))
    table = pandas.DataFrame(X, columns=list("pqr"))
    table.assign(y=np.where(X @ [1.0, 2.0, -1.0] > 0, "ill", "well")).to_csv(path / "rows.csv", index=False)
    age, town = rng.uniform(18, 90, 2 * N).round(1), rng.choice(["Oslo", "Bergen", "Narvik"], 2 * N)
    ill = (age - 54) / 12 + (town == "Oslo") + rng.logistic(size=2 * N) > 0
    mixed = pandas.DataFrame({"age": age, "town": town, "outcome": np.where(ill, "ill", "well")})
    mixed.to_csv(path / "mixed.csv", index=False)
    for name, words in RUNS.items():
        file = "mixed.csv" if name == "taught" else "rows.csv"
        run_json("run", path / file, *words, "--out", path / name.replace(" ", "_"), "--no-diagnostics")
    counted(path, "budget.jsonl", "taught", "plain", "delta", epsilon=8.0, delta=1e-5, slack=1e-6)
    counted(path, "pure.jsonl", "pure", "pure_too", epsilon=1.0, delta=1e-6)
    counted(path, "users.jsonl", "users", epsilon=1.5, delta=1e-5)
    return path


def counted(path, journal, *names, **limit):
    ledger = Ledger(journal=path / journal, **limit)
    for name in names:
        ledger.include(Ledger.read(path / name / "ledger.jsonl"))
    ledger.close()


KNOWN = {"budget.jsonl": ("taught", "plain", "delta"), "pure.jsonl": ("pure", "pure_too"), "users.jsonl": ("users",)}


@pytest.mark.parametrize("journal", KNOWN)
def test_real_ledgers_hold(home, journal):
    findings = verify(*(home / name for name in KNOWN[journal]), ledger=home / journal)
    assert [each for each in findings if not each.holds] == []
    assert [each.what for each in findings][-2:] == ["all together", "limit"]


def test_figures_of_all_together(home):
    """The ledger's own figures: squares add up, once for an encoding and its learner; or epsilons add up."""
    for journal, names in KNOWN.items():
        ledger = Ledger.read(home / journal)
        total = next(
            each.detail
            for each in verify(*(home / name for name in names), ledger=home / journal)
            if each.what == "all together"
        )
        spent = ledger.committed
        words = total.replace(",", "").split()
        found = float(words[words.index("mu") + 1])
        assert found == pytest.approx(spent.bound.mu, rel=1e-6)
        if journal == "pure.jsonl":
            assert float(words[words.index("epsilon") + 1]) == pytest.approx(spent.pure_epsilon)
        if journal == "budget.jsonl":
            assert spent.slack > 0
            assert float(words[-1]) == pytest.approx(spent.slack, rel=1e-6)


def entry(learner, **changes):
    """A change of a ledger's opening entry for a run: in its guarantee, if that has the name."""

    def change(entries):
        return [
            {**each, **{k: v(each) for k, v in changes.items()}} if each.get("learner") == learner else each
            for each in entries
        ]

    return change


def promising(**changes):
    return {"guarantee": lambda each: {**each["guarantee"], **{k: v(each["guarantee"][k]) for k, v in changes.items()}}}


def charged(share):
    """All charges reduced by that share."""
    return lambda entries: [
        {**each, "mu_squared": each["mu_squared"] * share} if isinstance(each.get("mu_squared"), float) else each
        for each in entries
    ]


def without(learner):
    def change(entries):
        gone = {each["plan_id"] for each in entries if each.get("learner") == learner}
        return [each for each in entries if each.get("plan_id") not in gone]

    return change


def beside_the_first(entries):
    """The second run as if it had other rows of the first run's stream: it would then cost nothing."""
    first = next(each for each in entries if each["kind"] == "open")["plan_id"]
    facts = {"beside": first, "first_row": 2 * N + 1}
    return entry("NOGD", facts=lambda each: {**each["facts"], **facts})(entries)


def beside_without_a_row(entries):
    first = next(each for each in entries if each["kind"] == "open")["plan_id"]
    return entry("NOGD", facts=lambda each: {**each["facts"], "beside": first})(entries)


def limit(**changes):
    return lambda entries: [{**entries[0], **changes}, *entries[1:]]


def lowered(entries):
    """A smaller mu of the second run, charged accordingly."""
    less = entry(
        "NOGD",
        **promising(parameter=lambda mu: mu * 0.9),
        reserved_mu_squared=lambda each: each["reserved_mu_squared"] * 0.81,
    )
    return charged(0.81)(less(entries))


PLANTED = {
    "an entry that is missing": ("budget.jsonl", without("NOGD"), "plain: NOGD"),
    "an encoding that is missing": ("budget.jsonl", without("PrivateEncoder"), "taught: PrivateEncoder"),
    "the mu of an entry that is lowered": ("budget.jsonl", lowered, "plain: NOGD: noise"),
    "a charge that is lowered": ("budget.jsonl", charged(1 - 1e-6), "taught: AdaptiveFTRL: ledger"),
    "runs on the same rows as parallel": ("budget.jsonl", beside_the_first, "plain: NOGD: ledger"),
    "a delta that is dropped": (
        "budget.jsonl",
        entry("ObjectivePerturbation", **promising(slack=lambda _: 1e-12)),
        "delta: ObjectivePerturbation: noise",
    ),
    "a limit that is exceeded": ("budget.jsonl", limit(epsilon=5.0), "limit"),
    "a limit whose delta is less than the slacks": ("budget.jsonl", limit(delta=1e-8), "limit"),
    "another relation": ("budget.jsonl", limit(adjacency="zero_out"), "NOGD"),
    "noise of a known seed": ("budget.jsonl", entry("NOGD", **promising(private=lambda _: False)), "NOGD"),
    "an epsilon that is lowered": (
        "pure.jsonl",
        entry("LDPSGD", **promising(parameter=lambda x: 0.9 * x)),
        "pure_too: LDPSGD: noise",
    ),
    "epsilons that exceed the limit": ("pure.jsonl", limit(epsilon=0.9, delta=1e-12), "limit"),
    "fewer rows of a user": (
        "users.jsonl",
        entry("NOGD", **promising(rows_per_user=lambda n: n - 1, parameter=lambda x: 0.7 * x)),
        "NOGD",
    ),
    "a limit of users": ("users.jsonl", limit(epsilon=0.9, delta=1e-6), "limit"),
}


@pytest.mark.parametrize("error", PLANTED)
def test_planted_errors_are_caught(home, tmp_path, error):
    journal, change, where = PLANTED[error]
    shutil.copy(home / journal, tmp_path)
    change_ledger(tmp_path, change, journal)
    names = KNOWN[journal]
    what = where if len(names) == 1 or where in ("limit", "NOGD") else f"{home}/{where}"
    assert what in caught(*(home / name for name in names), ledger=tmp_path / journal)


def test_rows_of_a_group_count_once_only_where_no_two_share_one(home, tmp_path):
    """The same record of a group, with the positions of the runs' own rows: what overlaps adds up."""
    shutil.copy(home / "budget.jsonl", tmp_path)
    names = [home / name for name in KNOWN["budget.jsonl"]]

    def total():
        found = verify(*names, ledger=tmp_path / "budget.jsonl")
        return next(each.detail for each in found if each.what == "all together")

    before = total()
    change_ledger(tmp_path, beside_without_a_row, "budget.jsonl")
    after = total()
    mus = [float(detail.split(" mu ")[1].split()[0]) for detail in (before, after)]
    taught = Ledger.read(home / "taught" / "ledger.jsonl").committed.mu
    plain = Ledger.read(home / "plain" / "ledger.jsonl").committed.mu
    rest = mus[0] ** 2 - taught**2 - plain**2  # that of the third run
    # the plain run overlaps both the encoding and its learner, so all three add up
    assert mus[1] ** 2 == pytest.approx(2 * taught**2 + plain**2 + rest, rel=1e-5)


def test_a_ledger_whose_chain_is_broken_is_refused(home, tmp_path):
    text = (home / "budget.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "budget.jsonl").write_text("".join(text[:2] + text[3:]))
    with pytest.raises(Unreadable, match=r"budget\.jsonl, line 3: altered, or a line before it is missing"):
        verify(home / "plain", ledger=tmp_path / "budget.jsonl")


def test_accounts_of_other_runs_are_not_checked(home):
    findings = verify(home / "plain", ledger=home / "budget.jsonl")
    unknown = [each.what for each in findings if each.holds is None]
    assert unknown == ["PrivateEncoder", "AdaptiveFTRL", "ObjectivePerturbation"]
    assert verdict(findings) == "not checked"
    assert verdict(verify(ledger=home / "budget.jsonl")) == "not checked"


def test_several_runs_without_a_ledger(home):
    """privol account composes them in the same way: on the same rows."""
    names = [str(home / name) for name in KNOWN["pure.jsonl"]]
    findings = verify(*names)
    assert verdict(findings) == "holds"
    together = json.loads(privol_cli("account", *names, "--json").stdout)["together"]
    words = findings[-1].detail.split()
    assert findings[-1].what == "all together"
    assert float(words[words.index("epsilon") + 1]) == pytest.approx(together["pure_epsilon"])
    assert float(words[words.index("mu") + 1]) == pytest.approx(together["mu"])


def test_the_command(home):
    runs = [str(home / name) for name in KNOWN["budget.jsonl"]]
    found = privol_cli("verify", *runs, "--ledger", str(home / "budget.jsonl"))
    assert found.exit_code == OK, found.output
    assert "limit: epsilon 8 needs a delta of" in found.stdout
    assert privol_cli("verify", runs[0], "--ledger", str(home / "budget.jsonl")).exit_code == UNCHECKED
    assert privol_cli("verify", runs[0], "--ledger", str(home / "users.jsonl")).exit_code == REFUTED
    assert privol_cli("verify").exit_code == USAGE


@pytest.fixture(scope="module")
def network(home):
    words = ("--nodes", "4", "--batch", "5", "--epochs", "2", "--quiet", "--out", home / "network")
    assert privol_cli("dola", home / "rows.csv", *DECLARED, *words).exit_code == OK
    return home / "network"


def halved(record):
    record["mechanism"]["noise"]["scale"] *= 1 - 1e-5


NETWORK = {
    "less noise": (halved, "DOLA: noise"),
    "epochs that are not counted": (lambda record: record["mechanism"].update(uses=3), "DOLA: noise"),
    "a printed epsilon": (
        lambda record: record.update(summary=record["summary"].replace("epsilon 1 ", "epsilon 0.9 ")),
        "summary",
    ),
    "a smaller delta": (lambda record: record["budget"].update(delta=1e-7), "delta"),
}


def test_a_network_holds(network):
    findings = verify(network)
    assert [each for each in findings if not each.holds] == []
    assert "DOLA: ledger" in [each.what for each in findings]


@pytest.mark.parametrize("error", NETWORK)
def test_planted_errors_of_a_network_are_caught(network, tmp_path, error):
    copy = shutil.copytree(network, tmp_path / "network")
    change, where = NETWORK[error]
    change_run(copy, change)
    assert where in caught(copy)


def test_every_rank_has_a_ledger(network, tmp_path):
    copy = shutil.copytree(network, tmp_path / "network")
    change_run(copy, lambda record: record.update(ranks=2))
    with pytest.raises(Unreadable, match="1 ledgers of 2 ranks"):
        verify(copy)
    shutil.copytree(copy / "rank-0000", copy / "rank-0001")
    change_ledger(copy / "rank-0001", charged(0.5))
    assert caught(copy) == ["DOLA: ledger"]


def test_accounts_beside_each_other_are_for_the_most_rows_of_any():
    """The smallest distance, too: whichever account comes first."""
    asked = []

    def account(plan, *user):
        said = {"private": True, "claim": None, "adjacency": "replace"}
        each = SimpleNamespace(
            plan=plan, name=plan, facts={"beside": "both"}, said=said, user=user, hidden=0, found=[1], closed=True
        )
        each.places = (1, 10)
        each.law = lambda rows, apart, spent: asked.append((rows, apart)) or checker.Law("gdp", mpf(rows))
        return each

    row, users = account("row", 1, 7), account("users", 12, 50)
    for accounts in ([row, users], [users, row]):
        asked.clear()
        list(checker._composed({"adjacency": "replace", "epsilon": None}, accounts))
        assert set(asked) == {(12, 7)}
