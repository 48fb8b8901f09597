"""Private selection: the distribution of the number of fits, the release, and an audit that exposes naive tuning."""

from __future__ import annotations

import functools
import math
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from alpha import rate
from scipy import sparse
from scipy.stats import beta, chisquare

from privol import DPFTRL, LDPSGD, PIGD, POL, MultiscaleSGD, ObjectivePerturbation, OutputPerturbation, tuning
from privol.errors import BudgetExceeded, InvalidParameter, InvalidRow, SelectionFailure, StateError
from privol.guarantees import selection_epsilon, selection_mu
from privol.ledger import Ledger
from privol.noise import BitGenerator, DiscreteLaplace, Gaussian
from privol.tuning import PrivateSelection, _number_of_fits, repetitions_of

pytestmark = pytest.mark.statistical

N, D = 400, 3
RNG = np.random.default_rng(11)
X = RNG.normal(size=(N, D)) / 2
Y = np.where(X @ [2.0, -2.0, 1.0] > 0, "yes", "no")
GOOD, BAD = ObjectivePerturbation(delta=0.0, l2=1e-3), ObjectivePerturbation(delta=0.0, l2=1e6)


def test_the_number_of_fits_has_its_law():
    m, draws = 30, 10_000
    bits = np.random.Generator(BitGenerator(5))
    found = np.array([_number_of_fits(m, bits) for _ in range(draws)])
    k = np.arange(1, 40)
    law = (1 - 1 / m) ** k / (k * math.log(m))
    expected = np.append(law, 1.0 - law.sum()) * draws
    counts = np.append([np.count_nonzero(found == i) for i in k], np.count_nonzero(found >= 40))
    assert chisquare(counts, expected).pvalue > rate("tuning.fits")
    geometric = np.append((1 - 1 / m) ** (k - 1) / m, (1 - 1 / m) ** 39) * draws
    assert chisquare(counts, geometric).pvalue < 1e-12  # this law would cost three times epsilon
    assert _number_of_fits(repetitions_of(1e6), bits) >= 1  # by some m draws, not by their square


@pytest.mark.parametrize("mean", [1.01, 2.0, 20.0, 1000.0])
def test_repetitions(mean):
    m = repetitions_of(mean)
    assert (m - 1) / math.log(m) >= mean
    assert m == 2 or (m - 2) / math.log(m - 1) < mean


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
@pytest.mark.parametrize("g", [0.5, 0.01])
def test_the_claim_on_binary_outputs(epsilon, g):
    """Q of a bit, as unequal as epsilon allows: the best of K is within twice epsilon, and close to it for small g."""

    def best(p):  # probability that the best of K is 1 if Q is 1 with probability p
        return 1.0 - math.log(1.0 - (1.0 - g) * (1.0 - p)) / math.log(g)

    ratios = []
    for p in np.geomspace(1e-9, 0.5, 400):
        other = min(p * math.exp(epsilon), 1.0 - (1.0 - p) * math.exp(-epsilon))
        ratios += [math.log(best(other) / best(p)), math.log((1.0 - best(p)) / (1.0 - best(other)))]
    assert max(ratios) <= 2.0 * epsilon
    if g == 0.01:
        assert max(ratios) > 1.3 * epsilon  # one epsilon does not suffice


def test_selection_finds_the_better_candidate_under_one_guarantee():
    ledger = Ledger(epsilon=30.0, delta=1e-6)
    chosen = PrivateSelection([BAD, GOOD, BAD], epsilon=8.0, ledger=ledger, random_state=2).fit(X, Y)
    assert chosen.best_index_ == 1
    assert chosen.score(X, Y) > 0.85
    assert chosen.best_score_ == pytest.approx(chosen.score(X[-80:], Y[-80:]), abs=0.1)
    (account,) = ledger.accounts
    assert (account.learner, account.guarantee.parameter) == ("PrivateSelection", 8.0)
    for record in (chosen.guarantee_, chosen.best_estimator_.guarantee_):
        assert (record.kind, record.parameter, record.releases, record.horizon) == ("pure", 8.0, 1, N)
        assert not record.private
    assert chosen.ledger_ is ledger
    assert chosen.best_estimator_.get_params()["epsilon"] == 4.0
    with pytest.raises(BudgetExceeded):
        PrivateSelection([GOOD], epsilon=30.0, ledger=ledger).fit(X, Y)


def test_only_the_release_remains():
    chosen = PrivateSelection([GOOD, BAD], random_state=2).fit(X, Y)
    copied = pickle.loads(pickle.dumps(chosen))
    np.testing.assert_array_equal(copied.predict(X), chosen.predict(X))
    np.testing.assert_array_equal(copied.predict_proba(X), chosen.predict_proba(X))
    assert "_account" not in vars(copied)
    kept = set(vars(chosen)) - set(chosen.get_params())
    assert kept == {"best_estimator_", "best_index_", "best_score_", "guarantee_", "mechanism_", "classes_", "_account"}
    assert not {"_counts", "_account", "_run"} & set(vars(chosen.best_estimator_))


def test_all_kinds_of_pure_learners():
    for candidates, rows in (
        ([OutputPerturbation(delta=0.0, l2=1.0), POL(delta=0.0, radius=3.0)], X),
        ([MultiscaleSGD(), GOOD], sparse.csr_array(X)),
    ):
        chosen = PrivateSelection(candidates, epsilon=20.0, repetitions=3.0, random_state=0).fit(rows, Y)
        assert chosen.predict(rows).shape == (N,)
    three = np.where(X[:, 0] > 0.4, "maybe", Y)
    assert PrivateSelection([GOOD], epsilon=50.0, random_state=0).fit(X, three).predict_proba(X).shape == (N, 3)
    errors = PrivateSelection([ObjectivePerturbation(delta=0.0, loss="huber", l2=x) for x in (1e-3, 1e3)], epsilon=50.0,
                              random_state=0).fit(X, X @ [0.5, -0.5, 0.2])  # fmt: skip
    assert (errors.best_index_, errors.best_score_ > 0.8) == (0, True)


def test_gaussian_runs_cost_what_the_proof_has(monkeypatch):
    """Every fit is within mu-GDP and close to it, and so is the noise on its score, which a row moves by _SHARE."""
    epsilon, delta, m = 4.0, 1e-6, repetitions_of(20.0)
    mu = selection_mu(epsilon, delta, m)
    fits, scales = [], []

    class Noted(Gaussian):
        def __init__(self, *, scale, **words):
            scales.append(scale)
            super().__init__(scale=scale, **words)

    monkeypatch.setattr(tuning, "Gaussian", Noted)
    candidates = [DPFTRL(radius=5.0), PIGD(radius=5.0, release="last"), OutputPerturbation(delta=1e-5),
                  LDPSGD(randomizer="gaussian"), POL(delta=1e-9), ObjectivePerturbation(delta=0.0),
                  MultiscaleSGD()]  # fmt: skip
    for candidate in candidates:
        kind = type(candidate)
        true = kind.fit

        def noted(self, *rows, true=true, **words):
            found = true(self, *rows, **words)
            fits.append(self.guarantee_)
            return found

        monkeypatch.setattr(kind, "fit", noted)
    for seed in range(4):
        chosen = PrivateSelection(candidates, epsilon=epsilon, delta=delta, random_state=seed).fit(X, Y)
        whole = chosen.guarantee_
        assert (whole.kind, whole.parameter, whole.slack, whole.delta) == ("approximate", epsilon, delta, delta)
        assert chosen.best_estimator_.guarantee_ == whole
        assert chosen.ledger_.spent.epsilon(delta) == epsilon
    assert {guarantee.kind for guarantee in fits} == {"gdp", "pure"}
    for guarantee in fits:
        assert (1 - 1e-6) * mu < guarantee.mu <= mu
    assert len(scales) == len(fits) + 4 > 20  # one beforehand, discarded
    assert all(1 << 20 <= scale * mu <= (1 << 20) * (1 + 1e-12) for scale in scales)


def test_pure_scores_have_the_noise_of_half_the_budget(monkeypatch):
    """A row moves a sum of scores by _SHARE: the scale is that over epsilon / 2, in exact arithmetic, and no more."""
    scales = []

    class Noted(DiscreteLaplace):
        def __init__(self, *, scale, **words):
            scales.append(Fraction(scale))
            super().__init__(scale=scale, **words)

    monkeypatch.setattr(tuning, "DiscreteLaplace", Noted)
    for epsilon in (1.0, 0.3, 7.1):
        PrivateSelection([GOOD], epsilon=epsilon, repetitions=2.0, random_state=0).fit(X, Y)
        assert len(scales) >= 2  # one beforehand, discarded
        least = 2 * Fraction(1 << 20) / Fraction(epsilon)
        assert all(least <= scale < least * (1 + Fraction(1, 1 << 51)) for scale in scales)
        scales.clear()


def test_a_fit_may_cost_its_share_and_not_one_double_more():
    pure = OutputPerturbation(delta=0.0, random_state=0).fit(X, Y).guarantee_
    gdp = OutputPerturbation(delta=1e-6, random_state=0).fit(X, Y).guarantee_
    assert (pure.kind, gdp.kind) == ("pure", "gdp")
    half, gaussian = tuning._OneRun.of_selection(1.4, 0.0, 20), tuning._OneRun.of_selection(1.4, 1e-6, 20)
    for one, most, guarantee in ((half, 0.7, pure), (gaussian, gaussian.epsilon, pure), (gaussian, gaussian.mu, gdp)):
        assert one.covers(replace(guarantee, parameter=most))
        assert not one.covers(replace(guarantee, parameter=math.nextafter(most, math.inf)))
    assert not half.covers(replace(gdp, parameter=1e-9))


def test_gaussian_selection_finds_better_candidates():
    ledger = Ledger(epsilon=20.0, delta=1e-5, slack=2e-6)
    candidates = [OutputPerturbation(delta=1e-6, l2=l2) for l2 in (1e3, 0.1, 1e4)]
    words = {"epsilon": 8.0, "delta": 1e-6, "ledger": ledger}
    chosen = PrivateSelection(candidates, random_state=3, **words).fit(X, Y)
    assert chosen.best_index_ == 1
    assert chosen.score(X, Y) > 0.85
    assert chosen.best_score_ == pytest.approx(chosen.score(X[-80:], Y[-80:]), abs=0.2)
    PrivateSelection(candidates, random_state=3, **words).fit(X, Y)
    with pytest.raises(BudgetExceeded, match="slack"):
        PrivateSelection(candidates, **words).fit(X, Y)


def test_what_is_refused():
    for candidates, words, said in (
        ([], {}, "sequence of learners"), ([3], {}, "learners of privol"),
        ([GOOD, ObjectivePerturbation(delta=0.0, loss="huber")], {}, "found both"),
        ([GOOD, DPFTRL()], {}, "pure differential privacy"),
        ([OutputPerturbation(delta=1e-6)], {}, "pure differential privacy"),
        ([ObjectivePerturbation(delta=0.0, calibration="published")], {}, "pure differential privacy"),
        ([GOOD, ObjectivePerturbation(delta=0.0, on_invalid="zero")], {}, "same on_invalid"),
        ([DPFTRL(horizon=100)], {"delta": 1e-6}, "horizon of 100"),
        ([GOOD], {"epsilon": 1e-200, "delta": 1e-6}, "leaves nothing"), ([GOOD], {"epsilon": 1e-9}, "scale"),
        ([GOOD], {"delta": 1.0}, "delta must be"), ([GOOD], {"delta": -0.1}, "delta must be"),
        ([ObjectivePerturbation(delta=1e-6)], {"delta": 1e-6}, "Gaussian or pure"),
        ([DPFTRL(), OutputPerturbation(delta=0.0, calibration="published")], {"delta": 1e-6}, "Gaussian or pure"),
        ([GOOD], {"validation": 1e-9}, "leaves none"), ([GOOD], {"repetitions": 1.0}, "repetitions must be"),
        ([GOOD], {"epsilon": math.inf}, "epsilon must be"), ([GOOD], {"adjacency": "add"}, "adjacency must be"),
    ):  # fmt: skip
        ledger = Ledger()
        with pytest.raises(InvalidParameter, match=said):
            PrivateSelection(candidates, ledger=ledger, **words).fit(X, Y)
        assert not ledger.accounts
    bad = X.copy()
    bad[N - 1, 0] = math.nan
    with pytest.raises(InvalidRow, match=f"row {N}"):
        PrivateSelection([GOOD]).fit(bad, Y)
    PrivateSelection([ObjectivePerturbation(delta=0.0, on_invalid="zero")], repetitions=2.0).fit(bad, Y)


def test_a_solver_that_fails_ends_the_selection_and_is_paid_for():
    """Another candidate in its place would reveal that it failed, which the guarantee does not cover."""
    ledger = Ledger()
    for candidates in (
        [ObjectivePerturbation(delta=0.0, max_iter=1)],
        [GOOD, ObjectivePerturbation(delta=0.0, max_iter=1)],
    ):
        with pytest.raises(SelectionFailure, match=f"solver of candidate {len(candidates) - 1} failed") as caught:
            PrivateSelection(candidates, ledger=ledger, random_state=2, repetitions=1e3).fit(X, Y)
        assert caught.value.__cause__ is caught.value.__context__ is None
    assert ledger.spent.pure_epsilon == 2.0
    conditions = PrivateSelection([GOOD], random_state=0).fit(X, Y).guarantee_.conditions
    assert any("that a solver failed, which ends the selection with an error" in words for words in conditions)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_selection_that_is_interrupted_is_paid_for(error, monkeypatch):
    """The moment of the interrupt is visible, and may depend on the rows."""

    def interrupted(*rows):
        raise error

    ledger = Ledger(epsilon=1.5, delta=1e-6)
    monkeypatch.setattr(ObjectivePerturbation, "fit", interrupted)
    with pytest.raises(error):
        PrivateSelection([GOOD], ledger=ledger).fit(X, Y)
    assert ledger.spent.pure_epsilon == 1.0
    with pytest.raises(BudgetExceeded):
        PrivateSelection([GOOD], ledger=ledger).fit(X, Y)


@pytest.mark.parametrize("kind", [object, "U32", float])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_row_moves_the_sum_of_scores_by_its_share(kind, delta, monkeypatch):
    """Whatever its target is, including NaN or strings in an array of objects; and by one from 0 to 1."""
    sums = []
    monkeypatch.setattr(tuning._OneRun, "add_noise", lambda self, total, key: sums.append(total) or total)
    rows, targets = X[:100].copy(), X[:100] @ [0.5, -0.5, 0.2]
    learner = OutputPerturbation(delta=0.0, loss="huber", on_invalid="zero", l2=1.0)
    words = {"repetitions": 1.01, "random_state": 0, "delta": delta, "validation": 0.2}

    def total(X, y):
        PrivateSelection([learner], **words).fit(X, np.asarray(y).astype(kind))
        return sums[-1]

    whole = total(rows, targets)
    assert 0 < whole <= 20 << 20
    for value in (math.nan, 1e300, -5.0, 0.0):
        changed = targets.astype(object)
        changed[-1] = value
        assert abs(whole - total(rows, changed)) <= 1 << 20
    rows[-1] = math.nan
    assert 0 <= whole - total(rows, targets) <= 1 << 20
    rows[-5:] = math.nan
    assert 0 <= total(sparse.csr_array(rows), targets) <= 15 << 20


def test_null_rows_leave_the_others_where_they_are():
    held, usable = tuning._usable(np.array([[1.0, 2.0], [math.nan, 1.0], [3.0, 4.0]]), np.array([1.0, 1.0, math.nan]))
    np.testing.assert_array_equal(usable, [True, False, False])
    np.testing.assert_array_equal(held, [[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]])
    thin, same = tuning._usable(sparse.csr_array([[0.0, 2.0], [math.inf, 1.0], [3.0, 0.0]]), np.array([1.0, 1.0, 1.0]))
    np.testing.assert_array_equal(same, [True, False, True])
    np.testing.assert_array_equal(thin.toarray(), [[0.0, 2.0], [0.0, 0.0], [3.0, 0.0]])


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_budget_for_users_is_divided_among_their_rows(delta, monkeypatch):
    """k rows of a user cost, in a fit and a score together, what one row may cost of a budget for rows."""
    epsilon, k, m = 2.0, 3, repetitions_of(20.0)
    one, row = (tuning._OneRun.of_selection(epsilon, delta, m, rows) for rows in (1, k))
    mine, whole = (row.mu, one.mu) if delta else (row.epsilon, one.epsilon)
    assert (1.0 - 1e-3) * whole <= Fraction(mine) * k <= Fraction(whole)
    if delta:  # the statement for one row
        assert selection_epsilon(row.mu, delta, m) <= epsilon / k
    seen = []
    kept = tuning._OneRun.covers
    monkeypatch.setattr(tuning._OneRun, "covers", lambda run, found: seen.append(found) or kept(run, found))
    words = {"epsilon": epsilon, "delta": delta, "random_state": 0}
    chosen = PrivateSelection([GOOD], rows_per_user=k, **words).fit(X, Y)
    assert max(found.parameter for found in seen) <= row.epsilon
    promise = chosen.guarantee_
    assert (promise.unit, promise.rows_per_user, promise.parameter, promise.slack) == ("user", k, epsilon, delta)
    assert promise.row.parameter == pytest.approx(epsilon / k)
    assert "nobody checks it" in promise.sentence()
    assert chosen.best_estimator_.guarantee_ == promise
    with pytest.raises(InvalidParameter, match="that of the selection"):
        PrivateSelection([OutputPerturbation(rows_per_user=2, delta=0.0)], rows_per_user=2, **words).fit(X, Y)
    with pytest.raises(InvalidParameter, match="rows_per_user"):
        PrivateSelection([GOOD], **words).fit(X, Y, users=np.arange(N))


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_rows_of_users_beyond_their_number_are_null_rows(layout):
    users = RNG.integers(0, 150, N)
    rank = np.array([np.count_nonzero(users[:t] == users[t]) for t in range(N)])
    surplus = rank >= 2
    assert 50 < surplus.sum() < N // 2
    rows = X.copy()
    rows[surplus & (np.arange(N) % 2 == 0)] = 0.0  # without stored entries where they are sparse
    by_hand = np.where(surplus[:, None], np.nan, rows)
    lenient = ObjectivePerturbation(delta=0.0, l2=1e-3, on_invalid="zero")
    words = {"epsilon": 4.0, "delta": 1e-6, "repetitions": 4.0, "rows_per_user": 2, "random_state": 3}
    counted = PrivateSelection([lenient], **words).fit(layout(rows), Y, users=users)
    other = PrivateSelection([lenient], **words).fit(by_hand, Y)
    assert counted.best_score_ == pytest.approx(other.best_score_)
    np.testing.assert_allclose(counted.best_estimator_.coef_, other.best_estimator_.coef_, rtol=1e-9)
    promise = counted.guarantee_
    assert "counts the rows of every user" in promise.sentence()
    assert promise.slack + promise.collision <= 1e-6 == promise.delta
    ledger = Ledger()
    with pytest.raises(InvalidRow, match="its user has 2 rows already"):
        PrivateSelection([GOOD], ledger=ledger, **words).fit(layout(rows), Y, users=users)
    assert not ledger.accounts


def test_the_checked_candidates_are_the_ones_fitted():
    selection = PrivateSelection([OutputPerturbation(delta=1e-6)], delta=1e-6, random_state=0)

    class Turning:
        def __array__(self, *words, **more):
            selection.set_params(adjacency="zero_out", epsilon=100.0, candidates=[BAD], delta=0.5)
            return X

    selection.fit(Turning(), Y)
    assert (selection.guarantee_.adjacency, selection.guarantee_.parameter) == ("replace", 1.0)
    made = selection.best_estimator_
    assert (made.adjacency, made.delta, selection.guarantee_.slack) == ("replace", 1e-6, 1e-6)
    expected = PrivateSelection([OutputPerturbation(delta=1e-6)], delta=1e-6, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(made.coef_, expected.best_estimator_.coef_)


def test_an_unexpected_guarantee_ends_the_selection(monkeypatch):
    monkeypatch.setattr(PrivateSelection, "_budget", lambda *given: 0.51)
    ledger = Ledger()
    with pytest.raises(StateError, match="not the one that was checked"):
        PrivateSelection([OutputPerturbation(delta=0.0)], ledger=ledger).fit(X, Y)
    assert ledger.spent.pure_epsilon == 1.0


# ---- the naive way ------------------------------------------------------------------------------------------------


def lower_epsilon(hits, others, runs, confidence):
    """Clopper-Pearson lower bound of the log of the ratio of two probabilities."""
    low = beta.ppf((1 - confidence) / 2, hits, runs - hits + 1)
    high = beta.ppf(1 - (1 - confidence) / 2, others + 1, runs - others)
    return math.log(low / high)


def test_an_audit_exposes_naive_tuning_and_not_this_one():
    """Only the last row is scored. In one stream it has the label that the model of sign + predicts, in the other not.

    The event: the published model labels it as in the first stream. Two fits of epsilon 1 on a balanced row are a coin
    each; naive tuning publishes the one that happens to be right. Claims: 1 and 1. Half as many runs would
    refute it, too: so many are made of the other.
    """
    runs, fewer = 200, 100
    rows = np.array([[1.0], [1.0], [1.0]])
    events = {}

    @functools.cache
    def naive_fit(seed, k):
        """Label of the last row by the k-th of eight fits, which do not see its label: the score is 1 or 0."""
        fit = ObjectivePerturbation(delta=0.0, l2=1e-2, epsilon=1.0, fit_intercept=False, random_state=100 * seed + k)
        return int(fit.declare_classes([0, 1]).fit(rows[:-1], [1, 0]).predict(rows[-1:])[0])

    for world, label in (("one", 1), ("two", 0)):
        labels = np.array([1, 0, label])
        events[world] = sum(
            next((said for k in range(8) if (said := naive_fit(seed, k)) == label), naive_fit(seed, 0))
            for seed in range(runs)
        )
        candidates = [ObjectivePerturbation(delta=0.0, l2=1e-2, fit_intercept=False).declare_classes([0, 1])]
        words = {"epsilon": 1.0, "repetitions": 8.0, "validation": 0.34}
        chosen = [PrivateSelection(candidates, random_state=seed, **words).fit(rows, labels) for seed in range(fewer)]
        events["private " + world] = sum(int(found.predict(rows[-1:])[0]) for found in chosen)
    confidence = 1.0 - rate("tuning.audit")
    assert lower_epsilon(events["one"], events["two"], runs, confidence) > 2.0  # the claim was 1
    assert lower_epsilon(events["one"] // 2, (events["two"] + 1) // 2, fewer, confidence) > 1.2
    private = [events["private one"], events["private two"]]
    assert lower_epsilon(max(private), min(private), fewer, confidence) < 1.0
