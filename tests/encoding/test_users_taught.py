"""A learnt encoding under a budget for users: the cost of all rows of a user in the encoding, and with the model."""

from __future__ import annotations

import math
import tomllib
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas
import pytest
from exact_encoder import MIXED, NAMES, apart, counted, table

import privol
from privol import PrivateClassifier, open_stream
from privol.auto.defaults import within_budget
from privol.calibration import mu_with_taught
from privol.encoding import PrivateEncoder
from privol.encoding.outlook import UserOutlook, outlook_of
from privol.encoding.phases import plan_encoding, plan_features
from privol.encoding.schema import Schema
from privol.encoding.users_taught import squares_of_phases
from privol.errors import InvalidParameter
from privol.guarantees import compose_gdp, gdp_mu
from privol.learners.keeping import promised_by
from privol.ledger import Ledger


def worst_places(phases, rows, apart):
    """Largest sums of squares for 0, 1, ... rows of a user, and patterns that attain them, by exhaustive search."""
    phase_of = [i for i, n in enumerate(phases) for _ in range(n)]
    best = {0: (0, ())}

    def go(first, places):
        if len(places) == rows:
            return
        for at in range(first, len(phase_of)):
            more = (*places, at)
            square = sum(n * n for n in np.bincount([phase_of[p] for p in more]).tolist())
            best[len(more)] = max(best.get(len(more), (-1, ())), (square, more))
            go(at + apart, more)

    go(0, ())
    return best


@pytest.mark.parametrize("seed", range(4))
def test_the_worst_pattern_of_a_users_rows_is_found(seed):
    """Against all patterns in small streams: no more, no less."""
    rng = np.random.default_rng(seed)
    for _ in range(12):
        phases = rng.integers(1, 6, rng.integers(1, 5)).tolist()
        rows, separation = int(rng.integers(1, 5)), int(rng.integers(1, 8))
        known = worst_places(phases, rows, separation)
        expected = tuple(known[n][0] for n in range(len(known)))
        assert squares_of_phases(phases, rows, separation) == expected, (phases, rows, separation)


@pytest.mark.parametrize("rows", [1, 2, 5, 40, 200])
@pytest.mark.parametrize("separation", [1, 100, 3000, 10**6])
def test_rows_that_teach_cost_their_share_and_no_less(rows, separation):
    """Of k rows, m cost at most an m-th of k of mu squared, and some number of them costs all of it."""
    users = {"rows_per_user": rows, "user_separation": separation}
    plans = [plan_encoding(80_000, 10, mu=0.5, **users), plan_features(80_000, mu=0.5, **users)]
    for plan in plans:
        squares = squares_of_phases([n for _, n in plan.phases], **users)
        shares = [square * plan.mu**2 / 0.5**2 * rows / m for m, square in enumerate(squares) if m]
        assert 1.0 - 1e-6 < max(shares) <= 1.0
        assert plan.user_factor(**users) == pytest.approx(math.sqrt(squares[-1]))
    whole = plan_encoding(80_000, 10, mu=0.5, whole=True, **users)
    assert whole.rows > 79_000
    assert whole.mu * whole.user_factor(**users) == pytest.approx(0.5, rel=0.01)
    assert whole.mu * whole.user_factor(**users) <= 0.5


def test_a_budget_for_rows_is_as_before():
    plan = plan_encoding(80_000, 10, mu=0.5)
    assert (plan.mu, plan.rows_per_user) == (0.5, None)


@pytest.mark.parametrize("separation", [1, 12])
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_the_change_by_all_rows_of_a_user_is_as_charged(adjacency, separation):
    """Two streams that differ in all rows of one user move the counts by the figure for a user, in the code as it runs.

    The distance, in deviations of the noise, is the figure for the worst pattern and less for others. Two thirds of the
    noise, or the root of the number of rows as a factor, would be refuted.
    """
    rows, words = table(160), {"epsilon": 300.0, "adjacency": adjacency}
    words |= {"rows_per_user": 3, "user_separation": separation}
    null = (None,) * 4

    def learn(given):
        data = [dict(zip(NAMES, row, strict=True)) for row in given]
        return lambda encoder: open_stream(data, target="y", schema=encoder)

    def world(places, row):
        return [row if at in places else own for at, own in enumerate(rows)]

    encoder, base = counted(learn(rows), **words)
    plan = encoder.plan_
    phases = [n for _, n in plan.phases]
    assert len(phases) == 4
    known = worst_places(phases, 3, separation)

    def distance(places):
        found = []
        for other in (MIXED[0], MIXED[1] if adjacency == "replace" else null):
            _, source = counted(learn(world(places, other)), base.released, **words)
            assert source.stds == base.stds
            found.append(source.counts)
        return math.hypot(*(apart(a, b) / std for a, b, std in zip(*found, base.stds, strict=True)))

    stated = encoder.guarantee_.mu
    worst = distance(known[max(known)][1])
    assert worst <= stated
    assert worst == pytest.approx(stated, rel=0.01)
    assert 1.5 * worst > stated  # two thirds of the noise would be detected
    if separation == 1:
        assert worst > 1.01 * math.sqrt(3) * plan.mu  # and a factor for rows that are all in other phases
    rng = np.random.default_rng(0)
    for _ in range(3):
        start = int(rng.integers(0, sum(phases) - 2 * separation)) if sum(phases) > 2 * separation else 0
        assert distance(tuple(range(start, start + 3 * separation, separation))) <= stated * (1.0 + 1e-9)


# ---- together with the model ---------------------------------------------------------------------------------------


def test_the_worst_division_of_a_users_rows():
    """Against all divisions."""
    rng = np.random.default_rng(0)
    for rows in (1, 2, 5, 9):
        costs = np.cumsum(rng.random(rows + 1)) ** 2
        costs = np.sqrt(costs / costs[1])
        squares = tuple(np.cumsum([0.0, *rng.random(int(rng.integers(0, rows + 1)))]).tolist())
        row = 0.3
        all_divisions = [
            math.sqrt(square + (row * costs[rows - m] if m < rows else 0.0) ** 2) for m, square in enumerate(squares)
        ]
        found = mu_with_taught(squares, row * costs[rows], lambda n, of=costs: float(of[n]), rows)
        assert found == pytest.approx(max(all_divisions), rel=1e-9)
        assert found >= max(all_divisions) * (1.0 - 1e-15)


def behind(users, n=20_000, mu=1.0, columns=10):
    """What a stream says after a learnt encoding."""
    plan = plan_encoding(n, columns, mu=mu, **users)
    learnt = {"rows": plan.rows, "mu": plan.mu, "adjacency": "replace", **users}
    record = {"learnt": {**learnt, "phases": [rows for _, rows in plan.phases]}, "columns": {"x": {"range": [0, 1]}}}
    schema = Schema.load(record)
    return plan, SimpleNamespace(schema=schema, first_row=plan.rows + 1, n_features=5, classes=(0, 1), beside=None)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (privol.AdaptiveFTRL, {}),
        (privol.DPFTRL, {"design": "sqrt"}),
        (privol.DPFTRL, {"design": "tree"}),
        (privol.NOGD, {}),
        (privol.PQFTL, {"loss": "squared"}),
        (privol.PIGD, {"release": 100}),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
@pytest.mark.parametrize("users", [(2, 1), (8, 300), (8, 1500), (32, 400)])
def test_encoding_and_model_are_within_one_budget(kind, words, users):
    """For every learner: the worst division of a user's rows, tried one by one, costs no more than mu.

    Nor does it cost much less: for the most common learners, the model gets the full budget.
    """
    users = dict(zip(("rows_per_user", "user_separation"), users, strict=True))
    mu = gdp_mu(1.0, 1e-6)
    plan, stream = behind(users, mu=mu)
    horizon = 20_000 - plan.rows
    made = within_budget(kind(epsilon=1.0, horizon=horizon, **users, **words), stream, horizon)
    calibrated = made.calibrate(5, horizon)
    squares = squares_of_phases([n for _, n in plan.phases], **users)
    rows, separation = users.values()
    row = calibrated.mu / calibrated.user_factor(rows, separation)
    whole = []
    for m, square in enumerate(squares):
        rest = row * calibrated.user_factor(rows - m, separation) if m < rows else 0.0
        whole.append(math.hypot(plan.mu * math.sqrt(square), rest))
    assert max(whole) <= mu * (1.0 + 1e-9)
    assert max(whole) > 0.999 * mu
    # the last rows of the tree may cost less than the first
    if kind is not privol.PIGD and words != {"design": "tree"}:
        assert made.epsilon == 1.0


@pytest.mark.parametrize("other", [{}, {"adjacency": "zero_out"}, {"private": False}, {"mu": math.inf}])
@pytest.mark.parametrize("unit", ["user", "row"])
def test_figures_do_not_include_encodings_with_another_guarantee(other, unit):
    """Noise for another relation, from a known seed or without one: the account of the encoding says which."""
    users = {"rows_per_user": 2, "user_separation": 1}
    _, stream = behind(users)
    stream.schema = replace(stream.schema, learnt=replace(stream.schema.learnt, **other))
    if unit == "row":
        vars(stream).update(users)
    words = {"epsilon": 1.0, **users} if unit == "user" else {"epsilon": 20.0}
    learner = privol.NOGD(horizon=100, **words)
    alone = replace(learner._promise(5, 100, 2), private=True)
    found = promised_by(stream, alone, learner.calibrate(5, 100))
    counted, apart = ("among those counted here", "none of those counted here")
    said = " ".join(found.conditions)
    assert (counted in said, apart in said) == (not other, bool(other))
    if unit == "user":
        assert (found.mu > alone.mu) is (not other)
    else:  # nor an encoding whose rows were further apart than the stream keeps them
        stream.schema = replace(stream.schema, learnt=replace(stream.schema.learnt, user_separation=9))
        found = promised_by(stream, alone, learner.calibrate(5, 100))
        assert apart in " ".join(found.conditions)
        assert found.user_separation == 1


def people(n=8000, seed=0, users=2500):
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame({"age": rng.normal(50, 10, n).round(2), "town": rng.choice(["Oslo", "Bergen"], n)})
    frame["who"] = rng.integers(0, users, n).astype(str)
    frame["state"] = np.where(frame["age"] + 10 * (frame["town"] == "Oslo") > 55, "ill", "well")
    return frame


@pytest.mark.parametrize(("rows", "separation"), [(2, 1), (3, 700)])
def test_a_run_of_both_phases_for_users(rows, separation):
    """One figure for both, in the guarantee and in the ledger; the row's figure is that of the more expensive phase."""
    users = {"rows_per_user": rows, "user_separation": separation}
    declared = {"user": {"column": "who", "max_rows": rows, "separation": separation}}
    ledger = Ledger(epsilon=2.0, delta=1e-6)
    model = PrivateClassifier(epsilon=2.0, declared=declared, ledger=ledger, random_state=0, **users)
    model.fit_stream(people(), target="state")
    found, mu = model.guarantee_, gdp_mu(2.0, 1e-6)
    assert (found.unit, found.user, found.rows_per_user, found.user_separation) == ("user", "who", rows, separation)
    assert found.mu == pytest.approx(mu, rel=1e-9)
    learner = model.learner_.guarantee_
    assert found.row.mu == pytest.approx(max(model.encoder_.plan_.mu, learner.row.mu), rel=1e-9)
    assert model.encoder_.guarantee_.mu <= mu
    assert ledger.spent.mu == pytest.approx(mu, rel=1e-9)  # not the root of both squares
    assert "differential privacy with epsilon 2 at delta 1e-6 for one user (column 'who'" in found.summary()
    assert any("rows of a user that taught the schema are among those counted here" in c for c in found.conditions)
    assert not any("nobody checks it" in c for c in found.conditions)
    assert "who" not in dict(model.schema_.columns)
    again = Schema.from_record(model.schema_.to_record())
    assert again == model.schema_ == Schema.load(tomllib.loads(model.schema_.to_toml()))
    assert again.learnt.rows_per_user == rows


def test_all_rows_teach_and_are_learnt():
    """Then squares add up, for users as for rows."""
    users = {"rows_per_user": 2, "user_separation": 1}
    declared = {"user": {"column": "who", "max_rows": 2}}
    model = PrivateClassifier(epsilon=4.0, declared=declared, reuse_rows=True, random_state=0, **users)
    model.fit_stream(people(), target="state")
    both = [model.encoder_.guarantee_.mu, model.learner_.guarantee_.mu]
    assert model.guarantee_.mu == pytest.approx(compose_gdp(both), rel=1e-9)
    assert model.ledger_.spent.mu == pytest.approx(gdp_mu(4.0, 1e-6), rel=1e-6)
    rows = [model.encoder_.plan_.mu, model.learner_.guarantee_.row.mu]
    assert model.guarantee_.row.mu == pytest.approx(compose_gdp(rows), rel=1e-9)


@pytest.mark.parametrize("separation", [50, 700])
def test_a_budget_for_rows_says_what_users_cost(separation):
    """At most k times, in both phases together: k times if all rows of a user fit into one that teaches."""
    declared = {"user": {"column": "who", "max_rows": 3, "separation": separation}}
    model = PrivateClassifier(epsilon=2.0, declared=declared, random_state=0).fit_stream(people(), target="state")
    found, learner = model.guarantee_, model.learner_
    assert (found.unit, found.rows_per_user) == ("row", 3)
    plan = learner.calibrate(learner.n_features_in_, learner.n_rows_)
    squares = squares_of_phases([n for _, n in model.encoder_.plan_.phases], 3, separation)
    divisions = [
        math.hypot(found.mu * math.sqrt(square), found.mu * plan.user_factor(3 - m, separation) if m < 3 else 0.0)
        for m, square in enumerate(squares)
    ]
    assert found.user_mu == pytest.approx(max(divisions), rel=1e-6)
    assert learner.guarantee_.user_mu == pytest.approx(max(divisions), rel=1e-6)
    assert any("are among those counted here" in words for words in found.conditions)
    assert model.ledger_.spent.mu == pytest.approx(found.mu, rel=1e-9)


@pytest.mark.parametrize("releases", ["all", "last"])
def test_uncounted_rows_are_stated_in_the_conditions(releases):
    """The sentence says so, for a frame, for blocks and for one model at the end."""
    frame = people()
    X, y = frame[["age", "town"]], frame["state"]
    model = PrivateClassifier(epsilon=4.0, rows_per_user=3, user_separation=500, releases=releases, random_state=0)
    found = model.fit(X, y).guarantee_
    assert found.unit == "user"
    assert found.mu <= gdp_mu(4.0, 1e-6) * (1 + 1e-9)
    assert any("nobody checks it" in c for c in found.conditions)
    if releases == "all":
        other = PrivateClassifier(
            epsilon=4.0, rows_per_user=3, user_separation=500, horizon=len(frame), reuse_rows=False, random_state=0
        )
        other.partial_fit(X[:3000], y[:3000]).partial_fit(X[3000:], y[3000:]).close()
        assert other.guarantee_.mu == found.mu
        assert np.array_equal(other.learner_.coef_, model.learner_.coef_)


def test_what_is_refused():
    frame, users = people(500), {"rows_per_user": 2, "user_separation": 10}
    declared = {"user": {"column": "who", "max_rows": 3, "separation": 10}}
    with pytest.raises(InvalidParameter, match="it keeps 3 and 10, found 2 and 10"):
        open_stream(frame, target="state", schema=PrivateEncoder(declared=declared, **users))
    declared["user"] |= {"max_rows": 2, "separation": 9}
    with pytest.raises(InvalidParameter, match="it keeps 2 and 9, found 2 and 10"):
        open_stream(frame, target="state", schema=PrivateEncoder(declared=declared, **users))
    with pytest.raises(InvalidParameter, match="rows_per_user"):
        PrivateEncoder(rows_per_user=1025).plan(1000, 3)
    declared["user"] |= {"max_rows": 1025}
    with pytest.raises(InvalidParameter, match=r"user\.max_rows must be at most 1,024"):
        open_stream(frame, target="state", schema=PrivateEncoder(declared=declared))
    with pytest.raises(InvalidParameter, match="declared must not have a user here"):
        PrivateClassifier(declared=declared).fit(frame[["age", "who"]], frame["state"])
    declared["user"] |= {"max_rows": 2, "surplus": "null"}
    labels = {"target": {"column": "state", "negative": ["well"], "positive": ["ill"]}}
    for part, words, said in (
        ({"columns": {"age": {"range": [0, 100]}}}, {"target": "state"}, r"columns\.age\.missing must be stated"),
        (labels, {}, r"target\.rest must be 'null'"),
    ):
        with pytest.raises(InvalidParameter, match=said):  # rather than at the first surplus row, with the budget spent
            open_stream(frame, schema=PrivateEncoder(declared={**declared, **part}), **words)
    with pytest.raises(InvalidParameter, match="user_separation must be 1"):
        PrivateEncoder(user_separation=2).plan(1000, 3)
    for wrong in ({"phases": [1]}, {"phases": [3], "rows_per_user": 0}, {"rows_per_user": 2}):
        learnt = {"rows": 3, "mu": 1.0, "adjacency": "replace", **wrong}
        with pytest.raises(InvalidParameter, match=r"learnt\.(phases|rows_per_user)"):
            Schema.load({"learnt": learnt, "columns": {"x": {"range": [0, 1]}}})


# ---- the cap over both parts ---------------------------------------------------------------------------------------


def kept_by_hand(who, most, separation, every):
    """Which rows a cap keeps, by the rule on the schema's page."""
    number, counts, last, kept = 0, {}, {}, []
    for user in who:
        keep = counts.get(user, 0) < most and number - last.get(user, -separation) >= separation
        if keep:
            counts[user] = counts.get(user, 0) + 1
            last[user] = number
        number += keep or every
        kept.append(keep)
    return np.array(kept)


@pytest.mark.parametrize("surplus", ["drop", "null"])
@pytest.mark.parametrize("separation", [1, 40])
@pytest.mark.parametrize("reuse", [False, True])
def test_rows_of_a_user_are_counted_over_the_whole_stream(surplus, separation, reuse):
    """Rows that teach and rows that are learnt are counted together: the kept rows are those of one stream.

    Opening the stream again by the schema, from the row where the others begin, gives the same rows.
    """
    frame = people(3000, users=1200)
    keep = kept_by_hand(frame["who"], 3, separation, surplus == "null")
    user = {"column": "who", "max_rows": 3, "separation": separation, "surplus": surplus}
    words = {"epsilon": 50.0, "random_state": 0, "reuse_rows": reuse}
    stream = open_stream(frame, target="state", schema=PrivateEncoder(declared={"user": user}, **words))
    blocks = list(stream)
    X, y = np.concatenate([b.X for b in blocks]), np.concatenate([b.y for b in blocks])
    plain = frame.drop(columns="who")
    plain = plain.where(np.tile(keep[:, None], 3)) if surplus == "null" else plain[keep]
    knows = PrivateEncoder(**words)
    knows.null_rows = surplus == "null"
    expected = open_stream(plain, target="state", schema=knows)
    same = list(expected)
    assert stream.first_row == expected.first_row
    assert np.array_equal(X, np.concatenate([b.X for b in same]))
    assert np.array_equal(y, np.concatenate([b.y for b in same]), equal_nan=True)
    assert stream.count_rows() == len(y)
    assert sum(stream.counts.values()) == len(keep) - keep.sum()
    again = list(open_stream(frame, schema=stream.schema.to_record(), first_row=stream.first_row))
    assert np.array_equal(X, np.concatenate([b.X for b in again]))
    assert (stream.rows_per_user, stream.user_separation, stream.users_fixed) == (3, separation, surplus == "drop")


def test_errors_name_the_row_of_the_input():
    """For rows that the cap keeps, and for one that has no user."""
    frame = people(3000, users=400)
    declared = {"user": {"column": "who", "max_rows": 2}, "columns": {"age": {"range": [0, 100], "missing": "refuse"}}}
    keep = kept_by_hand(frame["who"], 2, 1, False)
    at = int(np.flatnonzero(keep)[-5])
    frame.loc[at, "age"] = np.nan
    encoder = PrivateEncoder(declared=declared, epsilon=50.0, random_state=0)
    with pytest.raises(privol.errors.StreamError, match=rf"row {at + 1}\b"):
        list(open_stream(frame, target="state", schema=encoder))
    frame.loc[7, "who"] = ""
    with pytest.raises(privol.errors.StreamError, match=r"row 8\b.*every row needs one"):
        list(open_stream(frame, target="state", schema=PrivateEncoder(declared=declared, epsilon=50.0)))
    with pytest.raises(privol.errors.StreamError, match="no column 'whom'"):
        open_stream(frame, target="state", schema=PrivateEncoder(declared={"user": {"column": "whom", "max_rows": 2}}))


@pytest.mark.parametrize("separation", [1, 700])
def test_the_outlook_states_the_cost_of_a_users_rows_that_teach(separation):
    """The figures of the run itself: the cost of one row, and the worst pattern of several."""
    words = {"rows_per_user": 4, "user_separation": separation}
    found = outlook_of(30_000, 9, epsilon=1.0, **words)
    encoder = PrivateEncoder(epsilon=1.0, **words)
    assert found.plan == encoder.plan(30_000, 9)
    assert found.mu == gdp_mu(1.0, 1e-6)
    squares = squares_of_phases([rows for _, rows in found.plan.phases], 4, separation)
    assert [one.rows for one in found.teaching] == list(range(1, len(squares)))
    for one in found.teaching:
        assert one.mu == pytest.approx(found.plan.mu * math.sqrt(squares[one.rows]))
        assert one.mu <= found.mu
        assert one.share == pytest.approx(one.mu**2 / found.mu**2)
        assert one.share <= one.allowed == one.rows / 4
    # at the same distance, fewer rows of a user leave more for each, and one row has a row's budget
    assert [one.rows_per_user for one in found.users] == [1, 2, 4, 8, 16]
    assert found.users[0].mu == pytest.approx(found.mu)
    plan = found.plan
    own = UserOutlook(rows_per_user=4, mu=plan.mu, rows_that_teach=plan.rows, visible_share=plan.visible_share)
    assert found.users[2] == own
    assert found.users[1].mu > found.users[2].mu
    record = found.to_record()
    assert (record["user_mu"], record["mu"], record["user_separation"]) == (found.mu, found.plan.mu, separation)
    plain = outlook_of(30_000, 9, epsilon=1.0)
    assert plain.teaching == plain.users == ()
    assert "user_mu" not in plain.to_record()
    assert outlook_of(30_000, 9, epsilon=math.inf, **words).teaching == ()
    with pytest.raises(InvalidParameter, match="rows_per_user"):
        outlook_of(30_000, 9, rows_per_user=0)


@pytest.mark.parametrize("weights", ["linear", "uniform"])
def test_an_average_behind_an_encoding_that_all_rows_of_a_user_may_have_taught(weights):
    """The effect of m rows on an average is concave in m: the figure is that of the worst division of them."""
    rng, n = np.random.default_rng(0), 1000
    rows = {"age": rng.normal(50.0, 10.0, n).round(2), "town": rng.choice(["Oslo", "Bergen"], n)}
    rows |= {"who": rng.integers(0, 2, n).astype(str), "state": np.where(rows["age"] > 50.0, "ill", "well")}
    words = {"epsilon": 1e5, "delta": 1e-6, "rows_per_user": n}
    encoder = PrivateEncoder(declared={"user": {"column": "who", "max_rows": n}}, random_state=0, **words)
    stream = open_stream(pandas.DataFrame(rows), target="state", schema=encoder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner = privol.POL(weights=weights, random_state=0, **words).fit_stream(stream)
    promise = learner.guarantee_
    plan = learner.calibrate(learner.n_features_in_, promise.horizon)
    taught = stream.schema.learnt.squares
    moved = [0.0, *(plan.user_factor(m, 1) for m in range(1, n + 1))]
    one = plan.sensitivity / plan.user_factor(n, 1) / plan.scale
    worst = max(math.hypot(math.sqrt(square), moved[n - m] * one) for m, square in enumerate(taught))
    assert worst > 1.05 * plan.mu  # what they would cost if all were learnt
    assert worst * (1 - 1e-9) <= promise.mu <= worst * (1 + 1e-9)
    assert learner.ledger_.spent.mu >= promise.mu * (1 - 1e-12)


def test_the_ledger_charges_the_rows_that_taught_with_the_run():
    """A run whose guarantee for users includes rows that taught spends all of it with its last release."""
    users = {"rows_per_user": 2, "user_separation": 1}
    plan, _ = behind(users)
    learnt = {"rows": plan.rows, "mu": plan.mu, "adjacency": "replace", "phases": [n for _, n in plan.phases], **users}
    target = {"column": "y", "negative": ["no"], "positive": ["yes"]}
    schema = Schema.load({"learnt": learnt, "columns": {"x": {"range": [0, 1]}}, "target": target})
    rng = np.random.default_rng(4)
    n = plan.rows + 100
    frame = pandas.DataFrame({"x": rng.random(n), "y": rng.choice(["no", "yes"], n)})
    ledger = Ledger()
    learner = privol.NOGD(horizon=100, epsilon=0.1, release=10, ledger=ledger, **users)
    learner.fit_stream(open_stream(frame, schema=schema, first_row=plan.rows + 1))
    assert learner.guarantee_.mu > 1.5 * learner._run.plan.mu
    assert ledger.spent.mu == pytest.approx(learner.guarantee_.mu, rel=1e-9)
    assert ledger.spent.mu >= learner.guarantee_.mu
