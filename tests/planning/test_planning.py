"""Plans state before a run what the run will do."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from alpha import rate
from scipy.stats import chi2

import privol
from privol.errors import InvalidParameter, PrivacyWarning
from privol.guarantees import Guarantee
from privol.learners import LEARNERS
from privol.ledger import Ledger
from privol.planning import CLEAR, noise_row, plan

pytestmark = pytest.mark.statistical

SETTINGS = {"radius": 4.0, "x_bound": 2.0, "l2": 0.02}


@pytest.mark.parametrize("learner", ["pigd", "pgiga"])
@pytest.mark.parametrize("release", ["last", "all", 100, [1, 10, 700, 999]])
@pytest.mark.parametrize("shape", ["lipschitz", "paper"])
def test_figures_are_those_of_the_calibration(learner, release, shape):
    found = plan(learner, n_features=9, horizon=1000, release=release, noise_shape=shape, **SETTINGS)
    kind = {"pigd": privol.PIGD, "pgiga": privol.PGIGA}[learner]
    made = kind(release=release, noise_shape=shape, **SETTINGS)
    calibration = made.calibrate(9, 1000)
    assert found.dim == 10
    assert found.guarantee.mu == calibration.mu
    assert found.guarantee.private
    assert "operating system" in found.guarantee.bit_source
    rows = [row.row for row in found.rows]
    assert rows == sorted(set(rows))
    first, last = {"last": (1000, 1000), "all": (1, 1000)}.get(str(release), (None, None))
    if isinstance(release, int):
        first, last = 100, 1000
    if isinstance(release, list):
        first, last = 1, 999
    assert (rows[0], rows[-1]) == (first, last)
    for row in found.rows:
        assert row.std == calibration.std(row.row)
        assert row.sensitivity == calibration.sensitivity(row.row)
        assert row.noise_norm == pytest.approx(row.std * math.sqrt(10))
        assert row.score_std == pytest.approx(row.std * math.sqrt(5))
        assert row.largest_score == pytest.approx(4.0 * math.sqrt(5))
        assert row.ratio == pytest.approx(row.std * math.sqrt(5) / row.signal_score)


def test_a_single_release_by_hand():
    found = plan("pigd", n_features=3, horizon=5000, epsilon=0.7, delta=1e-5, fit_intercept=False, loss="hinge", l2=0.1)
    (row,) = found.rows
    mu = privol.guarantees.gdp_mu(0.7, 1e-5)
    assert row.sensitivity == pytest.approx(2.0 / (0.1 * 5001), rel=1e-6)
    assert row.std == pytest.approx(2.0 / (0.1 * 5001) / mu, rel=1e-6)
    assert found.guarantee.epsilon() == pytest.approx(0.7, rel=1e-9)


def test_the_run_adds_the_planned_noise():
    # Sum of squares of the noise of 400 releases of 20 coordinates each: chi-square. Rejects a deviation of 8 %.
    X, y = np.zeros((50, 20)), np.tile([0, 1], 25)
    found = plan("pigd", n_features=20, horizon=50, loss="hinge", fit_intercept=False, radius=1e6, l2=1.0)
    (row,) = found.rows
    models = [
        privol.PIGD(loss="hinge", fit_intercept=False, radius=1e6, l2=1.0, random_state=seed).fit(X, y).coef_
        for seed in range(400)
    ]
    total = float(np.sum(np.square(models))) / row.std**2
    half = rate("planning.scale") / 2
    assert chi2.ppf(half, 8000) < total < chi2.isf(half, 8000)


def test_verdicts():
    clear = plan("pigd", n_features=9, horizon=1_000_000, **SETTINGS)
    assert clear.verdict.startswith("SIGNAL:")
    assert clear.remedies == ()
    drowned = plan("pigd", n_features=9, horizon=500, release="all", **SETTINGS)
    assert drowned.verdict.startswith("NOISE")
    exact = plan("pigd", n_features=9, horizon=500, epsilon=math.inf, **SETTINGS)
    assert exact.rows[-1].std == 0.0
    assert "no noise" in exact.verdict
    assert exact.guarantee.kind == "none"


@pytest.mark.parametrize(
    "changes",
    [
        {"release": "all", "horizon": 20_000},
        {"release": 100, "horizon": 20_000, "epsilon": 0.1},
        {"release": "last", "horizon": 2_000, "l2": 0.001},
        {"release": [10, 2_000], "horizon": 2_000, "l2_schedule": "inverse_sqrt"},
        {"release": "all", "horizon": 2_000, "loss": "huber", "learner": "pgiga"},
    ],
    ids=str,
)
def test_remedies_do_what_they_say(changes):
    settings = {"learner": "pigd", "n_features": 9, **SETTINGS, **changes}
    found = plan(**settings)
    assert found.remedies
    for remedy in found.remedies:
        after = plan(**{**settings, remedy.parameter: remedy.value})
        assert after.rows[-1].ratio == pytest.approx(remedy.ratio)
        assert remedy.ratio < found.rows[-1].ratio
        if remedy.parameter in ("l2", "horizon", "epsilon"):
            assert remedy.ratio <= CLEAR
            less = plan(**{**settings, remedy.parameter: type(remedy.value)(remedy.value * 0.97)})
            assert less.rows[-1].ratio > CLEAR  # no larger change than needed


def test_published_calibration_states_both_figures():
    found = plan("pigd", n_features=9, horizon=1000, calibration="published", release="all", l2=0.1)
    assert found.guarantee.claim is not None
    assert "claims" in found.text()
    assert found.rows[-1].row == 999


def test_records():
    found = plan("pigd", n_features=9, horizon=1000, release=7, domain=privol.geometry.L1Ball(2.0), epsilon=0.3)
    record = json.loads(found.to_json())
    assert Guarantee.from_record(record["guarantee"]) == found.guarantee
    assert record["parameters"]["domain"] == {"set": "l1", "radius": 2.0}
    assert [row["std"] for row in record["releases"]] == [row.std for row in found.rows]
    assert found.guarantee.sentence() in str(found)
    assert found.verdict in str(found)


def test_a_seed_is_named():
    assert plan("pigd", n_features=2, horizon=10, random_state=1).guarantee.sentence().startswith("NOT PRIVATE")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"learner": "sgd"}, "learner"),
        ({"n_features": 0}, "n_features"),
        ({"horizon": 0}, "horizon"),
        ({"l3": 1.0}, "l3"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"release": 2000}, "release"),
        ({"loss": "hinge", "learner": "pgiga"}, "kink"),
    ],
)
def test_runs_that_would_be_refused_cannot_be_planned(changes, word):
    with pytest.raises(InvalidParameter, match=word):
        plan(**{"learner": "pigd", "n_features": 9, "horizon": 1000, **changes})


def test_top_level_name():
    assert privol.plan is plan


def begun(**parameters):
    return privol.PIGD(horizon=30, release="last", **parameters).partial_fit(np.eye(2), [0, 1], classes=[0, 1])


@pytest.mark.parametrize(
    ("parameters", "words"),
    [({"epsilon": 30.0}, "epsilon is 30"), ({"delta": 0.04}, "delta is not below one over the number of rows")],
)
def test_a_run_with_a_nearly_worthless_guarantee_warns(parameters, words):
    with pytest.warns(PrivacyWarning, match=words):
        begun(**parameters)


def test_a_warning_made_an_error_stops_before_anything_is_reserved():
    ledger = Ledger()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PrivacyWarning):
            begun(epsilon=30.0, ledger=ledger)
        for epsilon in (1.0, math.inf):
            begun(epsilon=epsilon)
    assert not ledger.accounts


def test_the_default_learner_is_planned():
    found = plan(n_features=9, horizon=20_000)
    calibration = privol.AdaptiveFTRL().calibrate(9, 20_000)
    assert (found.learner, found.guarantee.releases) == ("adaptive", 20_000)
    noise = calibration.sums.sigma * calibration.sums.factorization.row_norm(1000)
    assert found.rows[-1].std == pytest.approx(noise / calibration.tuning.held[-1])
    assert plan(n_features=9, horizon=1000, loss="squared").learner == "adaptive"


def test_a_stated_setting_selects_the_learner_that_has_it():
    found = plan(n_features=9, horizon=1000, radius=5.0, l2=0.01)
    calibration = privol.DPFTRL(radius=5.0, l2=0.01).calibrate(9, 1000)
    assert (found.learner, found.guarantee.releases) == ("dpftrl", 1000)
    last, sums = found.rows[-1], calibration.sums
    divisor = calibration.regularization + 0.01 * 1000
    assert last.std == pytest.approx(sums.sigma * sums.factorization.row_norm(1000) / divisor)
    assert last.sensitivity == pytest.approx(sums.sensitivity / divisor)
    assert plan(n_features=9, horizon=1000, loss="squared", l2=0.01).learner == "pqftl"


@pytest.mark.parametrize("learner", [name for name in LEARNERS if name not in ("banco", "multiscale")])
def test_every_learner_has_a_plan_or_says_why_not(learner):
    """Some have no l2, some take their noise in place of epsilon, some randomizers have a largest epsilon."""
    unbounded = learner in ("agnostic", "sparse-dola")
    with pytest.raises(InvalidParameter, match="where all models are allowed") if unbounded else nullcontext():
        assert plan(learner, n_features=3, horizon=1000).rows[-1].std > 0.0


@pytest.mark.parametrize("renewal", ["repeat", "double"])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_a_run_that_outlives_its_horizon(loss, renewal):
    """The first four epochs are planned; for a single release, the ends of all four."""
    words = {"n_features": 9, "horizon": 1000, "loss": loss, "renewal": renewal, "radius": 5.0, "l2": 0.01, "batch": 1}
    ends = [1000, 3000, 7000, 15000] if renewal == "double" else [1000, 2000, 3000, 4000]
    found = plan(**words, release=10)
    calibration = getattr(privol, found.learner.upper())(
        loss=loss, renewal=renewal, radius=5.0, l2=0.01, release=10, batch=1
    ).calibrate(9, 1000)
    assert found.rows[-1].row == ends[-1]
    assert [r.std for r in found.rows] == [calibration.std(r.row) for r in found.rows]
    assert "the first 4 epochs, the first of 1,000 rows, 10 coordinates" in str(found)
    last = plan(**words, release="last")
    assert [(r.row, r.std) for r in last.rows] == [(row, calibration.last_std(row)) for row in ends]
    listed = plan(**words, release=[500, 3500, 10**9])
    assert [r.row for r in listed.rows] == [500, 3500]
    assert plan(**words, delta=5e-4).warnings == ()
    assert "delta is not below one over" in plan(**words, delta=1e-3).warnings[0]  # of 1,000 rows: just that
    (warning,) = plan(**words, delta=2e-3).warnings
    assert "delta is not below one over the number of rows: with 0.002 and 1,000 rows" in warning
    drowned = plan(**{**words, "l2": 1e-9 if loss == "squared" else 0.0}, epsilon=0.001, release="last")
    assert all(remedy.ratio < drowned.rows[-1].ratio for remedy in drowned.remedies)


def test_a_run_that_ends_early_is_planned_with_its_own_noise():
    """The single release of a shorter run is calibrated for its last row."""
    calibration = privol.PIGD(l2=0.1).calibrate(3, 1000)
    early = noise_row(calibration, 400, early=True)
    assert (early.row, early.std) == (400, calibration.last_std(400))
    assert early.std > 1.5 * noise_row(calibration, 1000).std == 1.5 * calibration.std(1000)


# ---- budgets for users ---------------------------------------------------------------------------------------


def test_a_plan_shows_what_rows_of_users_cost():
    """Noise by how many rows of a user are learnt: more for more rows, less for distant ones, and factor 1 for one."""
    made = plan("dpftrl", n_features=3, horizon=10_000, rows_per_user=4, user_separation=1000)
    assert [trade.rows for trade in made.users] == [1, 2, 4, 8, 16]
    one, *more = made.users
    assert (one.anywhere, one.apart, one.spread) == (1.0, 1.0, 1.0)
    for few, many in itertools.pairwise(made.users):
        assert many.anywhere > few.anywhere
        assert many.apart > few.apart
    assert all(trade.spread <= trade.anywhere and trade.apart <= trade.anywhere <= trade.rows for trade in more)
    assert "4 rows: " in made.text()
    third = made.to_record()["users"][2]
    assert (third["rows"], third["apart"]) == (4, made.users[2].apart)
    assert "nobody checks it" in made.guarantee.sentence()
    assert plan("dpftrl", n_features=3, horizon=10_000).users == ()
    kept = SimpleNamespace(rows_per_user=3, user_separation=1000, user="who")
    rows = plan("nogd", n_features=3, horizon=10_000, users=kept)
    assert (rows.guarantee.unit, rows.guarantee.user_factor) == ("row", pytest.approx(3**0.5))
    assert rows.users[1].anywhere == pytest.approx(2**0.5)
    users = plan("nogd", n_features=3, horizon=10_000, users=kept, rows_per_user=3, user_separation=500)
    assert "nobody checks it" not in users.guarantee.sentence()
    assert plan("output-perturbation", n_features=3, horizon=10_000, users=kept).users == ()
