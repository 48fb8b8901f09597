"""A budget for all rows of a user: whole transcripts of neighbours, statements, and what streams keep."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas
import pytest
from participation_tools import strategy, worst_squares

import privol
from privol.auto.defaults import encoder_for
from privol.calibration import budget_of_rows
from privol.encoding import PrivateEncoder
from privol.encoding.schema_parts import User
from privol.errors import BudgetExceeded, InvalidParameter
from privol.factorizations import factorization, optimise_blt
from privol.guarantees import Guarantee, compose_gdp, gdp_mu, group_slack
from privol.ledger import Ledger

ROWS, SEPARATION, HORIZON = 3, 4, 12
USERS = {"rows_per_user": ROWS, "user_separation": SEPARATION}


def rows_of(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) / 3
    return X, (X @ [1.0, -2.0, 0.5] > 0).astype(int)


def stream_of(n=400, **said):
    X, y = rows_of(n)
    block = SimpleNamespace(X=X, y=y.astype(float), first_row=1)

    class Stream:
        n_rows, classes = n, (0, 1)

        def __iter__(self):
            return iter([block])

    made = Stream()
    for name, value in said.items():
        setattr(made, name, value)
    return made


@pytest.mark.statistical
@pytest.mark.parametrize("design", ["blt", "tree", "sqrt", "banded"])
def test_neighbours_of_a_user_are_as_far_apart_as_the_budget_says(design):
    """The best test of two streams on all releases, with the user's rows in the worst pattern and at the bound.

    The private sums are computed from the released points. Between the two streams they move by twice those of the
    user's
    gradients, whatever the noise; the statistic is the likelihood ratio, with the noise of 200 runs. The measured mu
    has a deviation of 5 %: a fifth above the promise (or below two thirds of it) has a probability below 1e-5.
    """
    words = {"epsilon": 4.0, "delta": 1e-3, "design": design, "horizon": HORIZON, "gradient_bound": 1.0,
             "regularization": 1.0, "radius": 1e6, "fit_intercept": False, "loss": "squared", **USERS}  # fmt: skip
    plan = privol.DPFTRL(**words).calibrate(1, HORIZON)
    c = strategy(plan.sums.factorization)
    _, places = worst_squares(c, ROWS, SEPARATION, 1)
    shifts = np.zeros(HORIZON)
    shifts[list(places[ROWS])] = 1.0

    def released(world, seed):
        learner = privol.DPFTRL(**words, random_state=seed)
        learner.ask(n_features=1)
        points = []
        for shift in shifts:
            learner.tell(gradient=np.array([world * shift]))
            points.append(-float(learner.ask()[0]))
        learner.close()
        return np.array(points)

    moved = released(1.0, 0) - released(-1.0, 0)
    np.testing.assert_allclose(moved, 2.0 * np.cumsum(shifts), atol=0.1)  # a step of the lattice
    decoder = np.tril(np.ones((HORIZON, HORIZON))) @ np.linalg.pinv(c)
    direction = np.linalg.solve(decoder @ decoder.T, moved)
    noise = np.std([direction @ released(0.0, seed) for seed in range(1, 201)])
    mu = float(direction @ moved) / noise
    assert plan.mu / 1.25 <= mu <= 1.25 * plan.mu


CENTRAL = [privol.DPFTRL, privol.AdaptiveFTRL, privol.NOGD, privol.PIGD, privol.PGIGA]


@pytest.mark.parametrize("kind", CENTRAL, ids=lambda kind: kind.__name__)
def test_a_budget_for_users_is_what_is_promised_reserved_and_spent(kind):
    X, y = rows_of()
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    learner = kind(epsilon=1.0, delta=1e-6, ledger=ledger, **{**USERS, "user_separation": 100}).fit(X, y)
    promise = learner.guarantee_
    assert (promise.unit, promise.rows_per_user, promise.user_separation) == ("user", ROWS, 100)
    assert promise.epsilon() == pytest.approx(1.0)
    assert promise.user_mu == promise.mu == learner.plan_.mu == gdp_mu(1.0, 1e-6)
    assert promise.row.mu == pytest.approx(promise.mu / learner.plan_.user_factor(ROWS, 100))
    assert ledger.spent.mu == pytest.approx(promise.mu, rel=1e-9)
    assert ledger.spent.mu <= promise.mu
    with pytest.raises(BudgetExceeded):
        kind(epsilon=0.5, delta=1e-6, ledger=ledger).fit(X, y)
    said = promise.sentence()
    assert said.startswith("Differential privacy for all rows of one user with (epsilon, delta) = (1, 1e-6)")
    assert "at most 3 rows, any two of them 100 rows apart or more; one row alone is covered by" in said
    assert (
        "no user has more than 3 rows in the run, and any two of them are 100 rows apart or more: nobody checks" in said
    )
    assert promise.summary().startswith(
        "differential privacy with epsilon 1 at delta 1e-6 for one user (at most 3 rows"
    )
    assert Guarantee.from_json(promise.to_json()) == promise
    assert "for all rows of one user, as many and as far apart as each run says" in ledger.sentence()


def test_the_condition_disappears_if_the_stream_enforces_it():
    def promise(**said):
        return privol.DPFTRL(**{**USERS, "user_separation": 100}).fit_stream(stream_of(**said)).guarantee_

    kept = promise(rows_per_user=2, user_separation=150, user="who", conditions=("the stream keeps it",))
    assert (kept.unit, kept.user, kept.rows_per_user) == ("user", "who", 3)
    assert "nobody checks" not in kept.sentence()
    assert promise(rows_per_user=1, user="who").unit == "user"  # one row is at any distance
    for said in ({"rows_per_user": 4, "user_separation": 100}, {"rows_per_user": 3}, {"rows_per_user": 2}):
        with pytest.raises(InvalidParameter, match="rows_per_user and user_separation must be what the stream keeps"):
            promise(**said)


def test_a_stream_that_keeps_rows_apart_lowers_the_users_figure_of_a_budget_for_rows():
    def promise(kind, **said):
        learner = kind().fit_stream(stream_of(rows_per_user=4, user="who", **said))
        assert learner.guarantee_.unit == "row"
        factor = learner.plan_.user_factor(4, said.get("user_separation", 1))
        assert learner.guarantee_.user_factor == (factor if factor < 4.0 else None)
        return learner.guarantee_.user_mu / learner.guarantee_.mu

    assert promise(privol.DPFTRL, user_separation=100) < promise(privol.DPFTRL) < 4.0
    assert promise(privol.NOGD) == pytest.approx(2.0)
    assert promise(privol.PIGD, user_separation=100) == pytest.approx(4.0)
    assert promise(privol.MIOGD) == pytest.approx(2.0)  # four reports compose
    ledger = Ledger(epsilon=4.0, delta=1e-5)
    runs = [
        privol.NOGD(epsilon=e, ledger=ledger).fit_stream(stream_of(rows_per_user=4, user="who")) for e in (0.5, 1.0)
    ]
    mu = compose_gdp([run.guarantee_.user_mu for run in runs])
    assert (
        f"all rows of one user (column 'who') that are learnt: {privol.guarantees.format_up(mu)}-GDP"
        in ledger.sentence()
    )


def test_a_users_run_is_never_on_other_rows_of_a_stream():
    """The rows of a user may be in both parts, so squares add up."""
    ledger = Ledger()
    first = ledger.open(learner="A", guarantee=privol.NOGD(epsilon=0.5)._promise(3, 100, 2))
    user = privol.NOGD(**USERS)._promise(3, 100, 2)
    with pytest.raises(InvalidParameter, match="beside is for runs of one unit"):
        ledger.open(learner="B", guarantee=user, beside=first, first_row=101)
    one = ledger.open(learner="B", guarantee=user)
    assert ledger.committed.mu == pytest.approx(compose_gdp([first.guarantee.mu, one.guarantee.mu]))


def test_private_metrics_are_for_users_where_the_budget_is():
    """The noise of a window covers a user's rows in all windows; both budgets add up, for users and for rows."""
    metrics = privol.evaluate.PrivateMetrics(mu=0.1, window_rows=50)
    users = {**USERS, "user_separation": 25}
    one = privol.evaluate.progressive(privol.NOGD(), stream_of(), private=metrics).private
    ledger = Ledger(epsilon=2.0, delta=1e-6)
    learner = privol.NOGD(ledger=ledger, **users)
    found = privol.evaluate.progressive(learner, stream_of(), private=metrics).private
    factor = math.sqrt(2**2 + 1)  # two of them in one window, one in another
    assert found.std == pytest.approx(factor * one.std)
    promise, model = found.guarantee, learner.guarantee_
    assert (promise.unit, promise.rows_per_user, promise.user_separation) == ("user", ROWS, 25)
    assert promise.mu == compose_gdp([0.1, model.mu])
    assert promise.row.mu == pytest.approx(math.hypot(0.1 / factor, model.row.mu))
    assert promise.row.mu >= math.hypot(0.1 / factor, model.row.mu) * (1 - 1e-13)
    assert ledger.spent.mu == pytest.approx(math.hypot(0.1, model.mu))
    assert promise.conditions.count(next(c for c in promise.conditions if "nobody checks it" in c)) == 1
    capped = privol.evaluate.progressive(privol.NOGD(), stream_of(rows_per_user=4, user="who"), private=metrics).private
    assert capped.guarantee.user_mu == pytest.approx(math.hypot(4 * 0.1, 2 * model.mu))
    assert capped.std == one.std


def test_the_cost_of_a_users_rows_that_taught_is_stated():
    """A row is in one phase alone, a user in both: there is no parallel composition for users."""
    rng = np.random.default_rng(0)
    rows = pandas.DataFrame({"x": rng.normal(size=3000), "who": rng.integers(0, 900, size=3000).astype(str)})
    rows["y"] = np.where(rows["x"] > 0, "a", "b")
    encoder = PrivateEncoder(epsilon=20.0, ledger=Ledger(), drop=["who"], random_state=0)
    stream = privol.open_stream(rows, target="y", schema=encoder)
    words = {"epsilon": 20.0, "ledger": encoder.ledger_, "radius": 1.0, "on_invalid": "zero", "random_state": 0}
    of_users = privol.DPFTRL(rows_per_user=3, **words).fit_stream(stream).guarantee_
    assert any("rows of a user that taught the schema are none of those counted here" in c for c in of_users.conditions)
    of_rows = privol.DPFTRL(**words).fit_stream(stream).guarantee_
    assert not any("rows of a user that taught" in c for c in of_rows.conditions)
    capped = replace(encoder.schema_, user=User("who", 3), columns=encoder.schema_.columns[:1])
    found = privol.DPFTRL(horizon=3000, **words).fit_stream(privol.open_stream(rows, schema=capped)).guarantee_
    assert found.user_mu is not None
    assert any("of a user any number of rows, each of which costs that mu beside" in c for c in found.conditions)


def test_an_encoding_and_its_learner_have_the_same_users():
    """They have the same budget too: those of an encoder belong to the whole run."""
    encoder = encoder_for(privol.DPFTRL(epsilon=2.0, **USERS), horizon=1000, ledger=None, regression=False)
    assert (encoder.epsilon, encoder.rows_per_user, encoder.user_separation) == (2.0, ROWS, SEPARATION)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(
    "kind", [privol.POL, privol.OutputPerturbation, privol.ObjectivePerturbation], ids=lambda kind: kind.__name__
)
def test_offline_learners_have_budgets_for_users(kind, delta):
    """Three times the noise of one row for three, almost so for POL: the full budget, and no more of it."""
    X, y = rows_of()
    words = {"epsilon": 1.0, "delta": delta, "l2": 0.1, "radius": 2.0}
    slack = delta if kind is privol.ObjectivePerturbation else 0.0
    ledger = Ledger(epsilon=1.0, delta=1e-6, slack=slack)
    learner = kind(**words, rows_per_user=3, ledger=ledger).fit(X, y)
    promise = learner.guarantee_
    assert (promise.unit, promise.rows_per_user) == ("user", 3)
    assert promise.epsilon(delta) <= 1.0
    assert promise.epsilon(delta) == pytest.approx(1.0, rel=1e-9)
    assert promise.slack <= slack
    assert "nobody checks it" in promise.sentence()
    one, users = (kind(**words, **more).calibrate(3, 400).scale for more in ({}, {"rows_per_user": 3}))
    # a row does not move the part that POL averaged before it
    least = 0.999 if kind is privol.POL and delta > 0.0 else 1.0 - 1e-12
    assert least * 3.0 * one <= users <= 3.1 * one
    assert kind(**words, rows_per_user=1).calibrate(3, 400).scale == one
    kept = kind(**words, rows_per_user=3).fit_stream(stream_of(rows_per_user=3, user="who")).guarantee_
    assert "nobody checks it" not in kept.sentence()
    with pytest.raises(InvalidParameter, match="must be what the stream keeps"):
        kind(**words, rows_per_user=2).fit_stream(stream_of(rows_per_user=3))


def test_a_delta_too_large_for_a_single_row_is_refused():
    with pytest.raises(InvalidParameter, match=r"delta must be smaller for a budget of 3 rows of a user, found 0\.01"):
        privol.OutputPerturbation(mu=0.05, delta=0.01, rows_per_user=3).calibrate(3, 100)


def test_a_budget_is_divided_among_rows_without_exceeding_it():
    for epsilon, delta, rows in ((1.0, 1e-6, 7), (0.1, 1e-9, 1000), (8.0, 1e-5, 3), (1.0, 1e-6, 1)):
        row, slack = budget_of_rows(epsilon, delta, rows, curve=False)
        assert rows * Fraction(row) <= Fraction(epsilon)
        assert delta * (1 - 1e-9) <= group_slack(row, slack, rows) <= delta
        row, same = budget_of_rows(epsilon, delta, rows, curve=True)
        assert same == delta
        assert gdp_mu(epsilon, delta) * (1 - 1e-9) <= rows * gdp_mu(row, delta)
        assert rows * Fraction(gdp_mu(row, delta)) <= Fraction(gdp_mu(epsilon, delta))
    assert budget_of_rows(math.inf, 1e-6, 5, curve=True) == (math.inf, 1e-6)
    with pytest.raises(InvalidParameter, match="epsilon must be smaller"):
        budget_of_rows(1000.0, 1e-6, 2, curve=False)
    with pytest.raises(InvalidParameter, match="rows_per_user must be None with calibration='published'"):
        privol.POL(calibration="published", weights="uniform", rows_per_user=2, l2=0.1, radius=1.0).calibrate(3, 100)
    for learner in (privol.PIGD, privol.PGIGA):  # the source's claim, which the sentence states, is for one row
        with pytest.raises(InvalidParameter, match="rows_per_user must be None or 1 with calibration='published'"):
            learner(calibration="published", rows_per_user=2).calibrate(3, 10_000)


@pytest.mark.parametrize("kind", [privol.prefix.PrefixSum, privol.prefix.SymmetricSum], ids=lambda kind: kind.__name__)
def test_prefix_sums_have_budgets_for_users(kind):
    words = {"dim": 2, "horizon": HORIZON, "design": "tree"}
    one, users = kind(**words), kind(**words, **USERS)
    c = strategy(factorization("tree", HORIZON))
    truth, _ = worst_squares(c, ROWS, SEPARATION, 1)
    assert users.std(HORIZON) == pytest.approx(math.sqrt(truth[ROWS] / truth[1]) * one.std(HORIZON))
    promise = users.guarantee_
    assert (promise.unit, promise.mu, promise.rows_per_user) == ("user", one.guarantee_.mu, ROWS)
    assert "nobody checks it" in promise.sentence()
    assert users.ledger_.committed.mu == promise.mu
    best = optimise_blt(HORIZON, 1, rows_per_user=ROWS, user_separation=SEPARATION)
    given = kind(**{**words, "design": "blt"}, theta=best.theta, omega=best.omega, **USERS)
    assert given.std(HORIZON) <= kind(**{**words, "design": "blt", "buffers": 1}, **USERS).std(HORIZON) * (1 + 1e-9)
    with pytest.raises(InvalidParameter, match="user_separation must be 1"):
        kind(**words, user_separation=2)


@pytest.mark.parametrize(
    "kind", [privol.NOGD, privol.DPFTRL, privol.POL, privol.OutputPerturbation], ids=lambda k: k.__name__
)
def test_a_tiny_delta_leaves_room_for_users_with_one_hash(kind):
    """Statements on counted users are within the budget, where the probability of a collision counts in delta."""
    delta = 1e-18
    X, y = rows_of()
    learner = kind(epsilon=1.0, delta=delta, rows_per_user=2)
    whose = np.arange(len(y)) // 2
    if hasattr(learner, "partial_fit"):
        learner.set_params(horizon=len(y))
        learner.declare_classes([0, 1]).partial_fit(X, y, users=whose)
    else:
        learner.fit(X, y, users=whose)
    promise = learner.guarantee_
    assert not promise.users_fixed
    assert promise.collision > 1e-4 * delta
    assert 1.0 - 1e-9 < promise.epsilon(delta) <= 1.0
