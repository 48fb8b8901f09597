"""The independent check of every kind of mechanism: real runs of the command line pass, planted errors are caught."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas
import pytest
from cli_tools import run_json
from forged import _pulls_are_remembered, caught, change_ledger, change_run, planted  # noqa: F401

from privol.verifying import Unreadable, verdict, verify

pytestmark = pytest.mark.process

N, SMALL = 6000, 2000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables, and runs on them that are made on request."""
    path = tmp_path_factory.mktemp("kinds")
    rng = np.random.default_rng(0)
    age, town = rng.uniform(18, 90, N).round(1), rng.choice(["Oslo", "Bergen", "Narvik"], N)
    ill = (age - 54) / 12 + (town == "Oslo") + rng.logistic(size=N) > 0
    table = pandas.DataFrame({"age": age, "town": town, "outcome": np.where(ill, "ill", "well")})
    table.to_csv(path / "learnt.csv", index=False)
    table.assign(who=rng.integers(0, N // 3, N)).to_csv(path / "users.csv", index=False)
    for name, surplus in (("drop", "separation = 60"), ("null", 'surplus = "null"')):
        (path / f"{name}.toml").write_text(f'[user]\ncolumn = "who"\nmax_rows = 3\n{surplus}\n')
    X = rng.uniform(-0.5, 0.5, (SMALL, 3))
    score = X @ [1.0, 2.0, -1.0]
    plain = pandas.DataFrame(X, columns=list("pqr"))
    plain.assign(y=np.where(score + 0.2 * rng.logistic(size=SMALL) > 0, "ill", "well")).to_csv(
        path / "two.csv", index=False
    )
    plain.assign(y=np.where(X[:, 0] > 0.2, "a", np.where(X[:, 1] > 0, "b", "c"))).to_csv(
        path / "three.csv", index=False
    )
    plain.assign(y=score.clip(-1, 1)).to_csv(path / "real.csv", index=False)
    lines = [f"{int(s > 0)} " + " ".join(f"{j + 1}:1" for j in range(40) if rng.random() < 0.3) for s in score]
    (path / "sparse.svm").write_text("\n".join(lines) + "\n")
    return path


OFFLINE = {"two": ("--classes", "well,ill"), "three": ("--classes", "a,b,c"), "real": ()}


def made(folder, name):
    """The folder of a run, which is made once."""
    table, *words = RUNS[name]
    run = folder / name.replace(" ", "_")
    if not run.exists():
        before = {"learnt": ("--target", "outcome"), "town": ("--target", "town"), "age": ("--target", "age")}.get(
            table
        )
        if table in ("drop", "null"):
            # learnt labels might not be seen through the noise of so few rows, unless epsilon is large
            labels = ("--classes", "well,ill") if table == "drop" else ()
            declared = ("--target", "outcome", *labels, "--schema", folder / f"{table}.toml")
            run_json("run", folder / "users.csv", *declared, "--learn-schema", "--out", run, "--no-diagnostics", *words)
        elif table == "sparse":
            run_json("run", folder / "sparse.svm", "--learn-schema", "--out", run, "--no-diagnostics", *words)
        elif before is None:
            declared = OFFLINE[table] + (() if words[1] in ONE_RELEASE else ("--no-learn-schema",))
            run_json("run", folder / f"{table}.csv", *declared, "--out", run, "--no-diagnostics", *words)
        else:
            run_json("run", folder / "learnt.csv", *before, "--out", run, "--no-diagnostics", *words)
    return run


ONE_RELEASE = ("pol", "output-perturbation", "objective-perturbation")
R = ("--radius", "2")
SUMS, MOMENTS = ("--learner", "dpftrl", *R), ("--learner", "pqftl")
PIGD, PGIGA, NOGD = (("--learner", name, *R) for name in ("pigd", "pgiga", "nogd"))
POL, OUTPUT, OBJECTIVE = (("--learner", name) for name in ONE_RELEASE)
LDP, DOLA, USERS = ("--learner", "ldpsgd", *R), ("--learner", "dola", *R), ("--rows-per-user", "3")
PURE, ZERO, PUBLISHED = ("--delta", "0"), ("--adjacency", "zero_out"), ("--calibration", "published")

RUNS = {
    "pqftl": ("age", *MOMENTS),
    "pqftl zero_out tree": ("age", *MOMENTS, *ZERO, "--batch", "1", "--design", "tree"),
    "pqftl smooth": ("age", *MOMENTS, "--design", "smooth"),
    "discount": ("learnt", *SUMS, "--discount", "0.999"),
    "discount sqrt": ("learnt", *SUMS, "--discount", "0.999", "--design", "sqrt"),
    "window": ("learnt", *SUMS, "--window", "500"),
    "epochs": ("learnt", "--horizon", "auto"),
    "epochs that double": ("learnt", *SUMS, "--horizon", "3500", "--renewal", "double", "--design", "tree"),
    "softmax": ("town", *SUMS, "--loss", "softmax"),
    "against the rest": ("town", *SUMS, "--loss", "smooth_hinge"),
    "class weight": ("learnt", *SUMS, "--class-weight", "ill=3"),
    "metrics": ("learnt", *SUMS, "--release", "100", "--private-metrics", "0.1"),
    "metrics zero_out": ("learnt", *SUMS, "--release", "100", "--private-metrics", "0.1", *ZERO),
    "metrics of iterates": ("learnt", *PIGD, "--release", "500", "--private-metrics", "0.1"),
    "nogd smooth_hinge": ("learnt", *NOGD, "--loss", "smooth_hinge"),
    "nogd squared": ("age", *NOGD, "--loss", "squared"),
    "nogd huber": ("age", *NOGD, "--loss", "huber"),
    "pigd": ("learnt", *PIGD),
    "pigd every 100": ("learnt", *PIGD, "--release", "100"),
    "pigd rows": ("learnt", *PIGD, "--release", "10,500,900"),
    "pigd hinge": ("learnt", *PIGD, "--release", "100", "--loss", "hinge"),
    "pigd zero_out": ("learnt", *PIGD, "--release", "100", *ZERO),
    "pigd squared": ("age", *PIGD, "--release", "100", "--loss", "squared", "--noise-shape", "smooth"),
    "pigd inverse_sqrt": (
        "learnt",
        *PIGD,
        "--release",
        "100",
        "--l2-schedule",
        "inverse_sqrt",
        "--noise-shape",
        "paper",
    ),
    "pgiga": ("learnt", *PGIGA, "--release", "100"),
    "pigd ended between models": ("learnt", *PIGD, "--release", "100", "--horizon", "20000"),
    "pgiga of users ended between models": ("learnt", *PGIGA, *USERS, "--release", "100", "--horizon", "20000"),
    "pgiga ended early": ("learnt", *PGIGA, "--horizon", "20000"),
    "pol": ("two", *POL),
    "pol narrow": ("two", *POL, "--radius", "0.5", "--l2", "0.0001"),
    "pol pure": ("two", *POL, *PURE),
    "pol uniform": ("two", *POL, *R, "--weights", "uniform"),
    "pol last": ("two", *POL, *R, "--weights", "last"),
    "output": ("two", *OUTPUT),
    "output in a ball": ("two", *OUTPUT, "--radius", "0.1"),
    "output pure": ("two", *OUTPUT, *PURE),
    "output of classes": ("three", *OUTPUT),
    "output huber": ("real", *OUTPUT, "--loss", "huber"),
    "output zero_out": ("two", *OUTPUT, "--loss", "smooth_hinge", *ZERO),
    "objective": ("two", *OBJECTIVE),
    "objective zero_out": ("two", *OBJECTIVE, *ZERO),
    "objective pure": ("two", *OBJECTIVE, *PURE),
    "objective pure full": ("two", *OBJECTIVE, *PURE, "--min-l2", "full"),
    "objective pure zero_out": ("two", *OBJECTIVE, *PURE, *ZERO),
    "objective pure smooth_hinge": ("two", *OBJECTIVE, *PURE, "--loss", "smooth_hinge"),
    "objective of classes": ("three", *OBJECTIVE),
    "objective of classes pure": ("three", *OBJECTIVE, *PURE),
    "objective huber": ("real", *OBJECTIVE, "--loss", "huber"),
    "objective huber zero_out": ("real", *OBJECTIVE, "--loss", "huber", *ZERO),
    "objective squared": ("real", *OBJECTIVE, "--loss", "squared"),
    "miogd": ("learnt", "--learner", "miogd", *R),
    "miogd epsilon": ("learnt", "--learner", "miogd", *R, "--epsilon", "2"),
    "miogd sigma": ("learnt", "--learner", "miogd", *R, "--sigma", "5"),
    "bandit": ("learnt", "--learner", "bandit", *R),
    "bandit of pairs": ("learnt", "--learner", "bandit", *R, "--values", "2"),
    "bandit sign": ("two", "--learner", "bandit", *R, "--randomizer", "privunit", "--epsilon", "2"),
    "privunit": ("two", *LDP),
    "duchi": ("two", *LDP, "--randomizer", "duchi"),
    "l2laplace": ("two", *LDP, "--randomizer", "l2laplace"),
    "laplace": ("two", *LDP, "--randomizer", "laplace"),
    "gaussian": ("two", *LDP, "--randomizer", "gaussian"),
    "banco": ("two", "--learner", "banco"),
    "agnostic": ("two", "--learner", "agnostic"),
    "multiscale": ("two", "--learner", "multiscale"),
    "dola": ("learnt", *DOLA),
    "dola batch": ("learnt", *DOLA, "--batch", "4"),
    "dola output": ("learnt", *DOLA, "--noise-position", "output", "--batch", "3"),
    "dola laplace": ("two", *DOLA, "--randomizer", "laplace"),
    "dola privunit": ("two", *DOLA, "--randomizer", "privunit"),
    "sparse-dola": ("learnt", "--learner", "sparse-dola"),
    "pqftl published": ("age", *MOMENTS, *PUBLISHED),
    "pigd published": ("learnt", *PIGD, *PUBLISHED),
    "dola published": ("learnt", *DOLA, *PUBLISHED),
    "dola published on outputs": (
        "two",
        *DOLA,
        *PUBLISHED,
        "--noise-position",
        "output",
        "--randomizer",
        "laplace",
        "--batch",
        "3",
    ),
    "bandit published": ("learnt", "--learner", "bandit", *R, *PUBLISHED, "--step", "horizon"),
    "output published": ("two", *OUTPUT, *PURE, *PUBLISHED),
    "objective published": ("two", *OBJECTIVE, *PURE, *PUBLISHED),
    "banco published": ("two", "--learner", "banco", *PUBLISHED, "--randomizer", "l2laplace"),
    "users": ("learnt", *USERS),
    "users nogd": ("learnt", *NOGD, *USERS, "--batch", "10"),
    "users sqrt": ("learnt", *SUMS, *USERS, "--design", "sqrt", "--batch", "10", "--user-separation", "20"),
    "users banded": ("two", *SUMS, *USERS, "--design", "banded", "--bandwidth", "70", "--user-separation", "50"),
    "users blt": ("two", *SUMS, *USERS, "--batch", "1", "--user-separation", "100"),
    "users sqrt steps": ("learnt", *SUMS, *USERS, "--design", "sqrt", "--batch", "10", "--user-separation", "24"),
    "users blt steps": ("two", *SUMS, *USERS, "--batch", "4", "--user-separation", "50"),
    "users nogd steps": ("two", *NOGD, *USERS, "--batch", "10", "--user-separation", "3"),
    "users independent": ("two", *SUMS, *USERS, "--design", "independent", "--batch", "9", "--user-separation", "4"),
    "users tree": ("two", *SUMS, *USERS, "--design", "tree", "--batch", "1", "--user-separation", "50"),
    "users tree steps": ("two", *SUMS, *USERS, "--design", "tree", "--batch", "10"),
    "users smooth": ("two", *SUMS, *USERS, "--design", "smooth", "--batch", "10", "--user-separation", "15"),
    "users honaker": ("learnt", *SUMS, *USERS, "--design", "honaker", "--batch", "1"),
    "users epochs": (
        "two",
        *SUMS,
        *USERS,
        "--horizon",
        "300",
        "--renewal",
        "repeat",
        "--batch",
        "3",
        "--user-separation",
        "400",
    ),
    "users epochs that double": ("two", *SUMS, *USERS, "--horizon", "300", "--renewal", "double", "--batch", "3"),
    "users phases": ("learnt", *NOGD, *USERS, "--user-separation", "200", "--batch", "7"),
    "users pigd": ("learnt", *PIGD, *USERS, "--release", "100"),
    "users pqftl": ("age", *MOMENTS, *USERS),
    "users pol": ("two", *POL, *USERS),
    "users output": ("two", *OUTPUT, *USERS),
    "users objective": ("two", *OBJECTIVE, *USERS),
    "users objective pure": ("two", *OBJECTIVE, *USERS, *PURE),
    "sparse rows": ("sparse", *SUMS),
    "cap": ("drop", *NOGD),
    "cap hidden": ("null", *SUMS, "--epsilon", "8"),
    "cap of iterates": ("drop", *PIGD, "--release", "100"),
    "cap of a network": ("drop", *DOLA),
    "cap of devices": ("drop", "--learner", "miogd", *R, "--sigma", "5"),
    "cap and budget": ("drop", *NOGD, *USERS, "--user-separation", "60", "--epsilon", "8", "--batch", "20"),
    "cap and budget hidden": ("null", *SUMS, *USERS, "--epsilon", "8"),
    "cap and metrics": ("null", *SUMS, *USERS, "--epsilon", "8", "--release", "100", "--private-metrics", "0.1"),
}


@pytest.mark.parametrize("name", RUNS)
def test_real_runs_hold_and_less_noise_does_not(folder, name):
    run = made(folder, name)
    findings = verify(run)
    assert [each for each in findings if not each.holds] == []
    assert verdict(findings) == "holds"
    learner = json.loads((run / "run.json").read_text())["learner"]
    with planted(run, folder) as copy:  # a check that detects so small a reduction detects two thirds, too
        change_run(copy, lambda record: drawn(record["mechanism"], 1 - 1e-5))
        assert f"{learner}: noise" in caught(copy)


def drawn(mechanism, share):
    """Less noise of the same kind: another threshold for caps and coins, another gain for releases or one epoch."""
    noise = (
        mechanism["noise"] if "noise" in mechanism else (mechanism["epochs"][1:2] or mechanism["epochs"])[0]["noise"]
    )
    if noise.get("law") in ("cap", "sign"):
        whole = 2**64 if noise["law"] == "cap" else 2**63
        noise["threshold"] = whole - int((whole - noise["threshold"]) * share)
    else:
        for key in ("sigma", "scale", "std", "gain", "first_std", "last_std"):
            if key in noise:
                noise[key] *= share


def of(*path, value):
    """A change of the value at a position of a record."""

    def change(record):
        for key in path[:-1]:
            record = record[key]
        record[path[-1]] = value(record[path[-1]])

    return change


MECHANISM = "mechanism"


def less(noise):
    return {**noise, "sigma": noise["sigma"] * 0.75}


PLANTED = {
    "the norm of another design": (
        "pqftl",
        of(MECHANISM, "noise", "design", "name", value=lambda _: "tree"),
        "PQFTL: noise",
    ),
    "fewer words of a smooth tree": (
        "pqftl smooth",
        of(MECHANISM, "noise", "design", "ones", value=lambda n: n - 1),
        "PQFTL",
    ),
    "a horizon that is one too low": (
        "pqftl",
        of(MECHANISM, "noise", "design", "steps", value=lambda n: n - 1),
        "PQFTL: horizon",
    ),
    "an epoch that is longer than its sums": (
        "epochs",
        of(MECHANISM, "epochs", 0, "rows", value=lambda n: n + 1),
        "AdaptiveFTRL: horizon",
    ),
    "sums that forget more slowly": (
        "discount sqrt",
        of(MECHANISM, "noise", "design", "decay", value=lambda x: 1.0),
        "DPFTRL: noise",
    ),
    "a class weight that is larger": (
        "class weight",
        of(MECHANISM, "gradient_bound", value=lambda x: 1.1 * x),
        "DPFTRL: noise",
    ),
    "metrics with less noise": (
        "metrics",
        of("private_metrics", "std", value=lambda x: x * 0.999),
        "PrivateMetrics: noise",
    ),
    "longer windows than were released": (
        "metrics",
        of("private_metrics", "window_rows", value=lambda n: n + 50),
        "PrivateMetrics: ledger",
    ),
    "another law of the noise": (
        "pigd every 100",
        of(MECHANISM, "noise", "gain", value=lambda x: x * 1.01),
        "PIGD: law of the noise",
    ),
    "releases that are not counted": (
        "pigd every 100",
        of(MECHANISM, "noise", "last_row", value=lambda n: n - 100),
        "PIGD: ledger",
    ),
    "a larger ball": ("pigd every 100", of(MECHANISM, "radius", value=lambda x: 1.1 * x), "PIGD: noise"),
    "a weaker regulariser": ("pigd every 100", of(MECHANISM, "l2", value=lambda x: 0.99 * x), "PIGD: noise"),
    "steps that are too long": ("pgiga", of(MECHANISM, "first_weight", value=lambda x: x / 100), "PGIGA: steps"),
    "a later end": ("pgiga ended early", of(MECHANISM, "noise", "row", value=lambda n: n + 1), "PGIGA: ledger"),
    "an average of more rows": ("pol", of(MECHANISM, "rows", value=lambda n: n + 1), "POL: ledger"),
    "other weights": ("pol last", of(MECHANISM, "weights", value=lambda _: "linear"), "POL: noise"),
    "a solver that stops earlier": (
        "output",
        of(MECHANISM, "gradient_norm", value=lambda x: 1e5 * x),
        "OutputPerturbation: noise",
    ),
    "a class that is not counted": (
        "output of classes",
        of(MECHANISM, "outputs", value=lambda n: n + 1),
        "OutputPerturbation: noise",
    ),
    "less curvature": (
        "objective pure",
        of(MECHANISM, "l2_sum", value=lambda x: 0.9 * x),
        "ObjectivePerturbation: noise",
    ),
    "less noise on the minimiser": (
        "objective",
        of(MECHANISM, "noise", "final_scale", value=lambda x: x * 0.99),
        "ObjectivePerturbation: noise",
    ),
    "a coarser grid": (
        "objective",
        of(MECHANISM, "noise", "step", value=lambda x: x * 64),
        "ObjectivePerturbation: noise",
    ),
    "a delta that is dropped": ("objective", of("guarantee", "slack", value=lambda x: x / 2), "ObjectivePerturbation"),
    "a printed delta that is too small": (
        "objective",
        of("summary", value=lambda s: s.replace("at delta 1e-6 for", "at delta 1e-7 for")),
        "summary",
    ),
    "a source's claim for privol's own figure": (
        "pigd published",
        of("summary", value=lambda s: s.replace("for one row", "for one row; epsilon 0.01 for one row")),
        "summary",
    ),
    "a printed figure behind a source's claim": (
        "pigd published",
        of("summary", value=lambda s: s + "; epsilon 3 for one row"),
        "summary",
    ),
    "a printed epsilon of a pure run": (
        "l2laplace",
        of("summary", value=lambda s: s.replace("epsilon 1 ", "epsilon 0.99 ")),
        "summary",
    ),
    "nats that are too few": ("miogd", of(MECHANISM, "leakage", value=lambda x: 0.99 * x), "MIOGD: nats"),
    "longer vectors": ("laplace", of(MECHANISM, "report_dimension", value=lambda n: n + 1), "LDPSGD: noise"),
    "a longer gradient": ("bandit", of(MECHANISM, "report_bound", value=lambda x: 1.01 * x), "BanditMIOGD: noise"),
    "two uses of a row": ("dola", of(MECHANISM, "uses", value=lambda _: 2), "DOLA: noise"),
    "shorter steps": ("dola output", of(MECHANISM, "last_step", value=lambda x: x * 1e-8), "DOLA: noise"),
    "more rows of a user": ("users nogd", of("guarantee", "rows_per_user", value=lambda n: n + 1), "NOGD"),
    "a printed number of rows": (
        "users nogd",
        of("summary", value=lambda s: s.replace("at most 3 rows", "at most 4 rows")),
        "summary",
    ),
    "a printed figure of a row": (
        "users nogd",
        of("summary", value=lambda s: s[: s.rindex("; epsilon")] + "; epsilon 0.1 for one row"),
        "summary",
    ),
    "a figure of a row that is said of a user": (
        "users nogd",
        of("summary", value=lambda s: s.replace("for one row", "for one user (at most 300 rows)")),
        "summary",
    ),
    "more rows of a user beside it": (
        "cap hidden",
        of("summary", value=lambda s: s.replace("at most 3 rows", "at most 300 rows")),
        "summary",
    ),
    "a user whose rows may be anywhere": (
        "cap",
        of("summary", value=lambda s: s.replace(", any two of them 60 rows apart or more", "")),
        "summary",
    ),
    "more rows of each user": ("cap", of("users", "most_rows", value=lambda n: n + 1), "rows of users"),
    "another relation in an epoch": (
        "users epochs",
        of(MECHANISM, "epochs", value=lambda e: [{**x, "adjacency": "zero_out", "noise": less(x["noise"])} for x in e]),
        "DPFTRL: noise",
    ),
    "a figure of users": ("cap", of("users", "epsilon", value=lambda x: 0.99 * x), "users"),
    "a mu of users": ("cap", of("users", "mu", value=lambda x: 0.99999 * x), "users"),
    "a figure of users that leaves out who taught": (
        "cap of devices",
        of("summary", value=lambda s: re.sub("; epsilon [0-9.]+ ", "; epsilon 4.48 ", s)),
        "summary",
    ),
    "a guarantee that the ledger does not have": (
        "nogd huber",
        of("guarantee", "parameter", value=lambda x: x / 2),
        "NOGD",
    ),
    "votes with less noise": (
        "sparse rows",
        of("encoding", MECHANISM, "phases", value=lambda p: [{**p[0], "std": p[0]["std"] * 0.999}]),
        "PrivateEncoder: noise",
    ),
}


@pytest.mark.parametrize("error", PLANTED)
def test_planted_errors_are_caught(folder, error):
    name, change, where = PLANTED[error]
    with planted(made(folder, name), folder) as run:
        change_run(run, change)
        assert where in caught(run)


def last_charge(change):
    """The same change of the closing entries of all iterates in a ledger."""

    def changed(entries):
        own = {e["plan_id"] for e in entries if e["kind"] == "open" and e["learner"] in ("PIGD", "PGIGA")}
        closing = [e for e in entries if e.get("plan_id") in own and e["kind"] != "open"]
        assert [e["kind"] for e in closing][-1] == "closed"
        return [{**e, **change(e)} if any(e is each for each in closing) else e for e in entries]

    return changed


ENDED_EARLY = {
    "a part in a million less": lambda e: {"mu_squared": e["mu_squared"] * (1 - 1e-6)},
    "a model that is not charged": lambda e: {"releases": e["releases"] + 1},
    "the mean model's cost, not that of all": lambda e: {"mu_squared": e["mu_squared"] / max(e["releases"], 1)},
}


@pytest.mark.parametrize("error", ENDED_EARLY)
@pytest.mark.parametrize("name", ["pigd ended between models", "pgiga of users ended between models"])
def test_a_run_that_ended_early_is_charged_for_each_of_its_models(folder, name, error):
    run = made(folder, name)
    record = json.loads((run / "run.json").read_text())
    assert 2 <= record["releases"] < 150 < record["horizon"] // 100
    with planted(run, folder) as copy:
        change_ledger(copy, last_charge(ENDED_EARLY[error]))
        assert f"{record['learner']}: ledger" in caught(copy)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("users nogd", "NOGD: noise"),
        ("users nogd steps", "NOGD: noise"),
        ("users sqrt", "DPFTRL: noise"),
        ("users sqrt steps", "DPFTRL: noise"),
        ("users blt steps", "DPFTRL: noise"),
        ("users tree", "DPFTRL: noise"),
        ("users smooth", "DPFTRL: noise"),
        ("users honaker", "DPFTRL: noise"),
        ("users epochs", "DPFTRL: noise"),
        ("users epochs that double", "DPFTRL: noise"),
        ("users phases", "PrivateEncoder: noise"),
        ("users pigd", "PIGD: noise"),
    ],
)
def test_noise_for_too_few_rows_of_a_user_is_caught(folder, name, where):
    """4 rows are stated everywhere, and the noise covers 3."""

    def more(record):
        record["guarantee"]["rows_per_user"] = 4
        record["summary"] = record["summary"].replace("at most 3 rows", "at most 4 rows")

    def more_of(entries):
        return [
            {**e, "guarantee": {**e["guarantee"], "rows_per_user": 4}} if e["kind"] == "open" else e for e in entries
        ]

    with planted(made(folder, name), folder) as run:
        change_run(run, more)
        change_ledger(run, more_of)
        assert where in caught(run)


def test_the_printed_figure_includes_the_encoding(folder):
    """With stated noise the encoding may cost more than the reports: its rows are in the figure, too."""
    record = json.loads((made(folder, "miogd sigma") / "run.json").read_text())
    assert record["budget"]["shares"]["PrivateEncoder"]["mu"] > record["budget"]["shares"]["MIOGD"]["mu"]
    printed = float(record["summary"].split("epsilon ")[1].split()[0])
    assert printed >= record["budget"]["reserved"]["epsilon"] > record["budget"]["shares"]["MIOGD"]["epsilon"]


def guaranteed(run, **changes):
    """Other words in the guarantee of a run and of its ledger."""
    change_run(run, lambda record: record["guarantee"].update(changes))
    change_ledger(
        run,
        lambda entries: [{**e, "guarantee": {**e["guarantee"], **changes}} if "guarantee" in e else e for e in entries],
    )


@pytest.mark.parametrize("changes", [{"user_separation": -(10**9)}, {"rows_per_user": 0}, {"rows_per_user": 0.5}])
@pytest.mark.parametrize("name", ["users nogd steps", "users smooth", "users pigd"])
def test_rows_of_a_user_are_counted_from_one_on(folder, name, changes):
    """None, parts of one, or places that run backwards would cost nothing."""
    with planted(made(folder, name), folder) as run:

        def change(record):
            drawn(record["mechanism"], 1e-3)
            said = re.sub(", any two of them .* apart or more", "", record["summary"])
            if "rows_per_user" in changes:
                said = said.replace("at most 3 rows", f"at most {changes['rows_per_user']} rows")
            record |= {"users": None, "summary": said.partition("; ")[0]}

        guaranteed(run, **changes)
        change_run(run, change)
        assert caught(run)
        # its parameters differ as well, which some other check finds
        assert any(re.search(r"ValueError .* rows of a user, .* apart", each.detail) for each in verify(run))


def test_gradients_that_are_not_cut_are_as_long_as_the_loss_makes_them(folder):
    with planted(made(folder, "metrics zero_out"), folder) as run:

        def change(record):
            record["mechanism"] |= {"cut": False, "gradient_bound": record["mechanism"]["gradient_bound"] / 1000}
            drawn(record["mechanism"], 1e-3)

        change_run(run, change)
        assert "DPFTRL" in caught(run)


@pytest.mark.parametrize("name", ["dola", "dola output", "laplace", "gaussian", "miogd", "agnostic"])
def test_short_gradients_of_messages_and_reports_are_caught(folder, name):
    with planted(made(folder, name), folder) as run:

        def change(record):
            key = "report_bound" if "report_bound" in record["mechanism"] else "gradient_bound"
            record["mechanism"][key] /= 1000
            drawn(record["mechanism"], 2e-3)

        change_run(run, change)
        assert json.loads((run / "run.json").read_text())["learner"] in caught(run)


@pytest.mark.parametrize("name", ["nogd huber", "pigd every 100", "users smooth"])
def test_a_ledger_that_charges_nothing_is_caught(folder, name):
    nothing = {"rows": 0, "releases": 0, "mu_squared": 0.0}
    with planted(made(folder, name), folder) as run:
        change_ledger(run, lambda entries: [{**e, **nothing} if "mu_squared" in e else e for e in entries])
        assert any(what.endswith(": ledger") for what in caught(run))


def test_what_counts_something_is_a_whole_number(folder):
    for name, key in (("miogd sigma", "report_dimension"), ("users tree", "rows"), ("metrics", "outputs")):
        with planted(made(folder, name), folder) as run:
            change_run(run, of(MECHANISM, key, value=lambda number: number - 0.5))
            assert caught(run)


def test_a_summary_says_how_many_rows_a_user_has(folder):
    with planted(made(folder, "users smooth"), folder) as run:
        change_run(run, of("summary", value=lambda text: re.sub(r"one user \([^)]*\)", "one USER", text)))
        assert "summary" in caught(run)


def test_records_that_ask_for_too_much_work(folder):
    with planted(made(folder, "pigd every 100"), folder) as run:
        change_run(run, of(MECHANISM, "noise", "last_row", value=lambda _: 10**18))
        assert "more than" in next(each.detail for each in verify(run) if each.what == "PIGD")
        (run / "run.json").write_text("[" * 100_000)
        with pytest.raises(Unreadable, match="damaged"):
            verify(run)
    with planted(made(folder, "users smooth"), folder) as run:
        change_run(run, of(MECHANISM, "noise", "design", "height", value=lambda _: 1000))
        assert "sums of the design 'smooth'" in next(each.detail for each in verify(run) if each.holds is None)
