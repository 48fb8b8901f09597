"""The contract of a fit of the offline learners: labels, null rows, budgets, failures, copies, nothing revealed."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import signal
import traceback
import warnings

import numpy as np
import pytest
from leaks import Secrets, reachable, story, surface
from offline_tools import FAR, fitted, problem, released, vector
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from privol import DPFTRL, POL, ObjectivePerturbation, OutputPerturbation, noise
from privol._core._noise import Source
from privol._core._objective import Objective
from privol.errors import (
    BudgetExceeded,
    InvalidParameter,
    InvalidRow,
    PrivacyWarning,
    SolverFailure,
    SourceFailure,
    StateError,
)
from privol.guarantees import square_up
from privol.learners import _offline as noise_of
from privol.learners import averaged, offline
from privol.ledger import Ledger
from privol.losses import Custom
from privol.noise import STREAM_RELEASES, make_source
from privol.streams import open_stream

KINDS = [OutputPerturbation, ObjectivePerturbation]
both = pytest.mark.parametrize("kind", KINDS)
X, Y = problem(60, 3, 21)


def same(one, other):
    assert released(one).tobytes() == released(other).tobytes()


def bare(kind, **words):
    """Without noise, to the solver's certificate."""
    return kind(delta=0.0, epsilon=math.inf, **words)


# ---- labels, rows, layouts ------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_each_class_is_learnt_against_the_rest(kind, epsilon):
    """For a model without noise, or with the noise of the calibration for this many classes."""
    x, y = problem(60, 3, 22, 3)
    names = np.array(["a", "b", "c"])
    learner = kind(delta=0.0, epsilon=epsilon, random_state=0, l2=0.1).fit(x, names[y])
    assert learner.coef_.shape == (3, 3)
    assert learner.intercept_.shape == (3,)
    assert learner.classes_.tolist() == ["a", "b", "c"]
    assert np.allclose(learner.predict_proba(x).sum(axis=1), 1.0)
    assert learner.predict(x).tolist() == names[learner.decision_function(x).argmax(axis=1)].tolist()
    if math.isinf(epsilon):
        for k in range(3):
            alone = kind(delta=0.0, epsilon=epsilon, l2=0.1).fit(x, y == k)
            assert np.allclose(learner.coef_[k], alone.coef_[0], rtol=1e-7)
            assert learner.intercept_[k] == pytest.approx(alone.intercept_[0], rel=1e-6, abs=1e-9)


@both
def test_declared_classes_need_not_occur(kind):
    """A class whose label does not occur has a model as well, and a single label is enough."""
    learner = bare(kind).declare_classes([0, 1, 2]).fit(X, Y)
    assert learner.coef_.shape == (3, 3)
    assert learner.intercept_[2] < min(learner.intercept_[:2])
    assert 2 not in learner.predict(X)
    assert not any("found in the rows" in words for words in learner.guarantee_.conditions)
    assert any("found in the rows" in words for words in bare(kind).fit(X, Y).guarantee_.conditions)
    one = bare(kind).declare_classes(["no", "yes"]).fit(X, np.full(60, "yes"))
    assert one.predict(X).tolist() == ["yes"] * 60
    for seed in range(3):
        noisy = fitted(kind, X, np.full(60, "no"), labels=["no", "yes"], random_state=seed)
        assert np.isfinite(released(noisy)).all()
    with pytest.raises(InvalidParameter, match="one class"):
        kind(delta=0.0).fit(X, np.ones(60))


@both
def test_one_row(kind):
    learner = fitted(kind, [[0.3, 0.4]], [1], labels=[0, 1], random_state=0)
    assert np.isfinite(released(learner)).all()
    assert learner.n_rows_ == learner.n_releases_ == learner.guarantee_.horizon == learner.guarantee_.releases == 1


@both
@pytest.mark.parametrize("l2", [1e-6, 1e-12])
def test_separable_rows_that_are_hardly_regularised(kind, l2):
    x = np.repeat([[0.9, 0.1], [-0.9, 0.1]], 200, axis=0)
    y = x[:, 0] > 0
    learner = bare(kind, l2=l2, fit_intercept=False).fit(x, y)
    assert learner.score(x, y) == 1.0
    assert np.linalg.norm(learner.coef_) > 5
    noisy = fitted(kind, x, y, labels=[False, True], l2=l2, random_state=0)
    assert np.isfinite(released(noisy)).all()


@both
def test_rows_of_zeros(kind):
    """With an intercept they count like other rows; without one, the model is determined by b alone, or 0."""
    y = np.arange(50) < 40
    learner = bare(kind).fit(np.zeros((50, 2)), y)
    assert np.all(learner.coef_ == 0)
    assert learner.intercept_[0] > 0
    assert np.all(bare(kind, fit_intercept=False).fit(np.zeros((50, 2)), y).coef_ == 0)
    noisy = ObjectivePerturbation(delta=0.0, fit_intercept=False, random_state=5, radius=FAR).fit(np.zeros((50, 2)), y)
    plan = noisy.calibrate(2, 50)
    b = np.zeros((1, 2))
    make_source(5).add_mixture(
        None, plan.scale, plan.step, kind="l2_laplace", bound=0.0, stream=noise.STREAM_OBJECTIVE, row=1,
        decide=noise.decide_mixture_point, out=b,
    )  # fmt: skip
    assert np.allclose(noisy.coef_, -b / plan.l2_sum, atol=1e-3 * plan.scale / plan.l2_sum)


@both
def test_layouts_give_the_same_bits(kind):
    x = np.where(np.random.default_rng(3).random(X.shape) < 0.4, 0.0, X).astype(np.float32)
    reference = kind(delta=0.0, random_state=3).fit(x.astype(np.float64), Y)
    wide = np.zeros((60, 6))
    wide[:, ::2] = x
    twice = sparse.csr_matrix(x.astype(float))
    twice = sparse.csr_matrix(
        (np.repeat(twice.data / 2, 2), np.repeat(twice.indices, 2), 2 * twice.indptr), shape=x.shape
    )
    columns = sparse.csc_matrix(x.astype(float))
    for other in (x, np.asfortranarray(x), wide[:, ::2], sparse.csr_matrix(x), columns, twice):
        same(kind(delta=0.0, random_state=3).fit(other, Y), reference)


@both
def test_the_order_of_rows_does_not_matter(kind):
    order = np.random.default_rng(0).permutation(60)
    one, other = kind(delta=0.0, random_state=3).fit(X, Y), kind(delta=0.0, random_state=3).fit(X[order], Y[order])
    plan = one.calibrate(3, 60)
    scale = plan.scale if kind is OutputPerturbation else plan.final_scale
    off = 2 * plan.gradient_norm / plan.l2_sum + noise.granularity(scale * math.sqrt(5)) * 2
    assert np.linalg.norm(released(one) - released(other)) <= off


def blocks(x, y, classes, size=17):
    class Stream:
        n_rows = None

        def __iter__(self):
            memory = np.empty((size, x.shape[1]))
            for start in range(0, x.shape[0], size):
                part = x[start : start + size]
                if not sparse.issparse(part):
                    memory[: len(part)] = part
                    part = memory[: len(part)]  # reused, as by readers of files
                yield type("Block", (), {"X": part, "y": y[start : start + size], "first_row": start + 1})()

    stream = Stream()
    stream.classes = classes
    return stream


@both
def test_streams_are_fitted_as_a_whole(kind, tmp_path):
    for x in (X, sparse.csr_matrix(X)):
        same(
            kind(delta=0.0, random_state=1).fit_stream(blocks(x, Y, (0, 1))), kind(delta=0.0, random_state=1).fit(X, Y)
        )
    three = np.arange(60) % 3
    same(
        kind(delta=0.0, random_state=1).fit_stream(blocks(X, three, ("a", "b", "c"))),
        kind(delta=0.0, random_state=1).fit(X, three),
    )
    words = {"loss": "huber", "random_state": 1}
    same(kind(delta=0.0, **words).fit_stream(blocks(X, X[:, 0], None)), kind(delta=0.0, **words).fit(X, X[:, 0]))
    same(
        kind(delta=0.0, random_state=1).fit_stream(open_stream((X, Y), classes=[0, 1])),
        kind(delta=0.0, random_state=1).fit(X, Y),
    )
    capped = blocks(X, Y, (0, 1))
    capped.rows_per_user, capped.user, capped.conditions = 3, "patient", ("that the cap was kept",)
    found = kind(delta=0.0, epsilon=0.5).fit_stream(capped).guarantee_
    assert (found.rows_per_user, found.user) == (3, "patient")
    assert found.user_epsilon(0.0) == pytest.approx(1.5)
    assert "that the cap was kept" in found.conditions
    learner = kind(delta=0.0)
    with pytest.raises(InvalidParameter, match="no rows"):
        learner.fit_stream(blocks(X[:0], Y[:0], (0, 1)))
    with pytest.raises(InvalidParameter, match="classes"):
        learner.fit_stream(blocks(X, Y, None))
    with pytest.raises(InvalidRow, match="row 60"):
        learner.fit_stream(blocks(np.vstack([X[:59], [[0, np.nan, 0]]]), Y, (0, 1)))
    assert "_own_ledger" not in vars(learner)


def spoilt():
    """Rows and labels of which the second, the fifth and the sixth are invalid."""
    x, y = X.copy(), Y.astype(float)
    x[1, 2], x[4, 0], y[5] = np.nan, np.inf, 7.0
    return x, y, [1, 4, 5]


@both
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_invalid_rows(kind, form):
    """An error before anything is spent, or null rows, which have no effect but count in n."""
    x, y, bad = spoilt()
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    for row, rows, labels in ((2, x, Y), (6, X, y)):
        with pytest.raises(InvalidRow, match=f"row {row}"):
            kind(delta=0.0, ledger=ledger).declare_classes([0, 1]).fit(form(rows), labels)
    assert ledger.accounts == ()
    learner = bare(kind, on_invalid="zero", l2=0.02).declare_classes([0, 1]).fit(form(x), y)
    kept = np.delete(np.arange(60), bad)
    fewer = bare(kind, l2=0.02 * 60 / 57).fit(X[kept], Y[kept])
    assert np.allclose(released(learner), released(fewer), rtol=1e-6, atol=1e-9)
    assert learner.n_rows_ == 60
    assert learner._diagnostics()["null_rows"] == 3
    assert kind(delta=0.0, on_invalid="zero").declare_classes([0, 1]).fit(form(x), y).guarantee_.parameter == 1.0


@both
@pytest.mark.parametrize("on_invalid", ["raise", "zero"])
def test_a_broken_structure_is_refused_before_anything_is_spent(kind, on_invalid):
    broken, ledger = sparse.csr_matrix(X), Ledger()
    broken.indptr[4] = 99_999
    with pytest.raises(InvalidRow, match="pointers"):
        kind(delta=0.0, ledger=ledger, on_invalid=on_invalid).declare_classes([0, 1]).fit(broken, Y)
    assert ledger.accounts == ()


# ---- refusals -------------------------------------------------------------------------------------------------------

KINK = Custom(
    value=lambda p, y: abs(p - y), gradient=lambda p, y: float(np.sign(p - y)), lipschitz=1.0, smoothness=math.inf,
    kind="regression",
)  # fmt: skip
REFUSED = {
    "hinge": ({"loss": "hinge"}, "smooth_hinge"),
    "absolute": ({"loss": "absolute"}, "huber"),
    "softmax": ({"loss": "softmax"}, "against the rest"),
    "custom": ({"loss": KINK}, "finite smoothness.*POL"),
    "l2": ({"l2": 0.0}, "l2"),
    "epsilon": ({"epsilon": 0.0}, "epsilon"),
    "x_bound": ({"x_bound": math.inf}, "x_bound"),
    "y_bound": ({"loss": "huber", "y_bound": -1.0}, "y_bound"),
    "steps": ({"max_iter": 0}, "max_iter"),
    "many steps": ({"max_iter": 1 << 70}, "max_iter"),
    "adjacency": ({"adjacency": "add_remove"}, "adjacency"),
    "on_invalid": ({"on_invalid": "drop"}, "on_invalid"),
    "calibration": ({"calibration": "loose"}, "calibration"),
    "published zero_out": ({"calibration": "published", "adjacency": "zero_out"}, "published"),
    "seed": ({"random_state": -1}, "random_state"),
}


@both
@pytest.mark.parametrize("case", REFUSED)
def test_parameters_are_refused_before_there_is_an_account(kind, case):
    words, message = REFUSED[case]
    ledger = Ledger()
    learner = kind(delta=0.0, ledger=ledger, **words)
    if case not in ("hinge", "absolute", "custom", "y_bound"):
        learner.declare_classes([0, 1])
    with pytest.raises(InvalidParameter, match=message):
        learner.fit(X, Y)
    assert ledger.accounts == ()
    with pytest.raises(NotFittedError):
        learner.predict(X)
    if case not in ("on_invalid", "seed"):
        with pytest.raises(InvalidParameter, match=message):
            learner.calibrate(3, 60)


def test_published_noise_is_of_two_classes():
    with pytest.raises(InvalidParameter, match="one output"):
        ObjectivePerturbation(delta=0.0, calibration="published").fit(X, np.arange(60) % 3)


# ---- guarantees -----------------------------------------------------------------------------------------------------


def test_the_guarantee_is_of_the_law_that_was_drawn():
    learner = OutputPerturbation(epsilon=0.5, delta=1e-6, adjacency="zero_out").fit(X, Y)
    assert (learner.guarantee_.kind, learner.guarantee_.adjacency) == ("gdp", "zero_out")
    assert learner.guarantee_.epsilon() <= 0.5
    assert learner.guarantee_.delta == 1e-6
    for kind in KINDS:
        found = kind(delta=0.0, epsilon=0.5).fit(X, Y).guarantee_
        assert (found.kind, found.parameter, found.horizon, found.releases) == ("pure", 0.5, 60, 1)
        none = bare(kind).fit(X, Y)
        assert (none.guarantee_.kind, none.guarantee_.parameter) == ("none", math.inf)
        assert "NO PRIVACY" in none.ledger_.sentence()
        seeded = kind(delta=0.0, random_state=0).fit(X, Y).guarantee_
        assert not seeded.private
        assert "NOT PRIVATE" in seeded.sentence()


def test_published_noise_is_stated_as_proved():
    with pytest.warns(PrivacyWarning, match="published"):
        learner = ObjectivePerturbation(delta=0.0, calibration="published", l2=1e-3).fit(X, Y)
    assert learner.guarantee_.claim.epsilon == 1.0
    assert learner.guarantee_.parameter == learner.calibrate(3, 60).epsilon > 2.0
    assert learner.ledger_.spent.pure_epsilon > 2.0
    with pytest.warns(PrivacyWarning, match="published"):
        learner = OutputPerturbation(delta=0.0, calibration="published", l2=0.01).fit(X, Y)
    assert learner.guarantee_.claim.epsilon == 1.0
    assert 0.8 < learner.guarantee_.parameter < 1.0  # no minimiser is so long that gradients reach their bound
    for words in ({"calibration": "jmlr"}, {}):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = ObjectivePerturbation(delta=0.0, l2=1e-3, **words).fit(X, Y).guarantee_
        assert found.claim is None
        assert found.parameter == 1.0
    with pytest.raises(BudgetExceeded), pytest.warns(PrivacyWarning, match="published"):
        ObjectivePerturbation(delta=0.0, calibration="published", l2=1e-3, ledger=Ledger(epsilon=1.5, delta=1e-6)).fit(
            X, Y
        )


@both
def test_parameters_that_change_within_a_fit_change_nothing(kind, monkeypatch):
    """Noise for rows of norm 1 must not meet rows of norm 100."""
    learner, reference = (
        kind(delta=0.0, epsilon=20.0, random_state=0),
        fitted(kind, 100 * X, Y, epsilon=20.0, random_state=0),
    )

    def hook(*args, **words):
        learner.set_params(x_bound=100.0, fit_intercept=False, l2=1e-9)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", hook)
        learner.fit(100 * X, Y)
    assert learner.x_bound == 100.0
    assert learner._export.model.tobytes() == released(reference).tobytes()


# ---- budgets and failures -------------------------------------------------------------------------------------------


@both
def test_a_ledger_is_shared_and_ends(kind):
    ledger = Ledger(epsilon=8.0, delta=1e-6)
    DPFTRL(epsilon=1.0, delta=5e-7, ledger=ledger).fit(X, Y)
    learner = kind(delta=0.0, epsilon=1.0, ledger=ledger).fit(X, Y)
    assert [entry.releases > 0 for entry in ledger.entries()] == [True, True]
    assert ledger.entries()[1].pure_epsilon == 1.0
    assert learner.ledger_ is ledger
    pure = Ledger(epsilon=2.0, delta=1e-6)
    first = kind(delta=0.0, epsilon=1.0, ledger=pure).fit(X, Y)
    second = clone(first).fit(X, Y)
    before = released(second)
    for rows, labels in ((X, Y), (X[:, :2], np.arange(60) % 3)):
        with pytest.raises(BudgetExceeded):
            second.fit(rows, labels)
    assert len(pure.accounts) == 2
    assert pure.spent.pure_epsilon == 2.0
    assert released(second).tobytes() == before.tobytes()
    with pytest.raises(BudgetExceeded):
        kind(delta=0.0, epsilon=math.inf, ledger=pure).fit(X, Y)


@both
def test_a_failed_fit_leaves_the_previous_model_unchanged(kind):
    """With its classes and its features, not those of the rows that were not learnt."""
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=["a", "b", "c"])
    learner = kind(delta=0.0, random_state=0).fit(table, Y)
    predicted = learner.predict(table)
    for max_iter, error in ((1, SolverFailure), (0, InvalidParameter)):
        learner.set_params(max_iter=max_iter)
        for failing in (learner.fit, lambda x, y: learner.fit_stream(blocks(x, y, (5, 6, 7)))):
            with pytest.raises(error):
                failing(X[:, :2], np.arange(60) % 3)
        assert learner.n_features_in_ == 3
        assert learner.feature_names_in_.tolist() == ["a", "b", "c"]
        assert learner.classes_.tolist() == [0, 1]
        assert np.array_equal(learner.predict(table), predicted)
    fresh = kind(delta=0.0, max_iter=1)
    with pytest.raises(SolverFailure):
        fresh.fit(X, Y)
    assert not hasattr(fresh, "classes_")
    assert not hasattr(fresh, "n_features_in_")


@both
def test_a_failed_solver_is_paid_for_and_reveals_nothing(kind):
    """The failure itself is no private fact: nothing is released, and the error contains no figure of the rows."""
    ledger = Ledger(epsilon=1.5, delta=1e-6)
    learner = kind(delta=0.0, max_iter=1, ledger=ledger)
    with pytest.raises(SolverFailure, match="max_iter") as caught:
        learner.fit(X, Y)
    (entry,) = ledger.entries()
    assert (entry.releases, entry.pure_epsilon, entry.open) == (0, 1.0, False)
    assert entry.mu_squared >= square_up(ledger.accounts[0].guarantee.mu) * (1 - 1e-12)
    assert learner.ledger_ is ledger
    with pytest.raises(NotFittedError):
        learner.predict(X)
    with pytest.raises(BudgetExceeded):
        learner.set_params(max_iter=200).fit(X, Y)
    twin = kind(delta=0.0, max_iter=1, random_state=3)
    with pytest.raises(SolverFailure) as other:
        twin.fit(0.5 * X[::-1], 1 - Y)
    said = [str(it.value) for it in (caught, other)]
    assert said[0] == said[1]
    assert vars(caught.value) == vars(other.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert "certified to be at most" not in "".join(traceback.format_exception(caught.value))
    (entry,) = twin.ledger_.entries()
    assert entry.pure_epsilon == 1.0
    gaussian = OutputPerturbation(max_iter=1, delta=1e-6)
    with pytest.raises(SolverFailure):
        gaussian.fit(X, Y)
    assert gaussian.ledger_.spent.mu > 0


@both
def test_other_errors_within_a_fit_are_paid_for(kind, monkeypatch):
    """Whatever ends it, the rows may have caused it."""

    def broken(*args, **words):
        raise SourceFailure("rounding did not succeed")

    monkeypatch.setattr(offline, "noisy", broken)
    learner = kind(delta=0.0)
    with pytest.raises(SourceFailure):
        learner.fit(X, Y)
    (entry,) = learner.ledger_.entries()
    assert (entry.releases, entry.pure_epsilon, entry.open) == (0, 1.0, False)


@both
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timer here")
def test_an_interrupted_fit_is_paid_for(kind, monkeypatch):
    """Ctrl-C while the solver runs: nothing was released, but the rows may determine how long it ran."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(100_000, 30)), rng.integers(0, 2, size=100_000)
    ledger, begun = Ledger(epsilon=1.0, delta=1e-6), []
    learner = kind(delta=0.0, loss="smooth_hinge", l2=1e-9, ledger=ledger)
    solve = offline.minimise

    def late(objective, **words):
        begun.append(True)
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        return solve(objective, **words)

    def stop(number, frame):
        raise KeyboardInterrupt

    monkeypatch.setattr(offline, "minimise", late)
    before = signal.signal(signal.SIGALRM, stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            learner.fit(x, y)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    monkeypatch.undo()
    assert begun
    (entry,) = ledger.entries()
    assert (entry.releases, entry.pure_epsilon, entry.open) == (0, 1.0, False)
    with pytest.raises(NotFittedError):
        learner.predict(x)
    with pytest.raises(BudgetExceeded):
        learner.set_params(loss="logistic", l2=0.01).fit(x[:100], y[:100])


@pytest.mark.parametrize("kind", [POL, OutputPerturbation, ObjectivePerturbation])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_model_in_a_traceback_is_always_paid_for(kind, delta, error, monkeypatch):
    """The interrupt comes once the noise is added: no frame holds the model unpaid, and none holds it without noise."""

    def struck(*_):
        raise error

    for module in (offline, averaged):
        monkeypatch.setattr(module, "Found", struck)
    ledger = Ledger()
    with pytest.raises(error):
        kind(epsilon=1.0, delta=delta, ledger=ledger).fit(X, Y)
    (entry,) = ledger.entries()
    assert not entry.open
    assert ledger.spent.epsilon(1e-6) >= 0.9


@pytest.mark.parametrize("law", ["l2_laplace", "gaussian"])
def test_a_failure_while_noise_is_drawn_leaves_no_minimiser(law, monkeypatch):
    seen = []

    class Struck:
        def add(self, x, *_, **__):
            seen.append(x)
            raise KeyboardInterrupt

        add_mixture = add

    with pytest.raises(KeyboardInterrupt):
        noise_of.noisy(Struck(), np.array([1.0, 2.0, 3.0]), law, 0.5)
    assert (seen[0] == 0.0).all()


# ---- copies, and what is revealed -----------------------------------------------------------------------------------


@both
def test_copies(kind):
    ledger = Ledger(epsilon=5.0, delta=1e-6)
    learner = kind(delta=0.0, ledger=ledger).declare_classes([0, 1]).fit(X, Y)
    again = pickle.loads(pickle.dumps(learner))
    same(again, learner)
    assert again.guarantee_ == learner.guarantee_
    assert again.predict(X).tolist() == learner.predict(X).tolist()
    assert (again.n_rows_, again.n_releases_) == (60, 1)
    for it in (again.fit, again._diagnostics):
        with pytest.raises((StateError, NotFittedError)):
            it(*((X, Y) if it == again.fit else ()))
    with pytest.raises(NotFittedError):
        _ = again.ledger_
    assert copy.deepcopy(learner).ledger is ledger
    assert clone(learner).get_params() == learner.get_params()
    assert "_export" not in vars(clone(learner))
    assert len(ledger.accounts) == 1
    alone = kind(delta=0.0).fit(X, Y)
    same(pickle.loads(pickle.dumps(alone)), alone)
    with pytest.raises((StateError, pickle.PicklingError)):
        pickle.dumps(kind(delta=0.0, ledger=ledger))


@both
def test_results_are_copies(kind):
    learner = kind(delta=0.0, random_state=0).fit(X, Y)
    before = released(learner).tobytes()
    for name in ("coef_", "intercept_", "average_coef_", "average_intercept_"):
        array = getattr(learner, name)
        array += 1.0
    assert released(learner).tobytes() == before


@pytest.mark.parametrize(
    ("kind", "outputs", "delta"),
    [*itertools.product(KINDS, (1, 3), (0.0,)), (ObjectivePerturbation, 3, 1e-6)],
)
def test_nothing_secret_is_seen(kind, outputs, delta, monkeypatch):
    """Rows, targets, minimisers, linear terms, noise and its key: in no attribute, copy, error or warning."""
    secrets, y = Secrets(), problem(60, 3, 21, outputs)[1]
    secrets.numbers("rows", X, many=True)
    solve = offline.minimise

    def watched(objective, **words):
        found = solve(objective, **words)
        secrets.numbers("minimiser", found.point)
        secrets.numbers("certificate", [found.gradient_norm])
        if objective.linear is not None:
            secrets.numbers("linear term", objective.linear)
        return found

    monkeypatch.setattr(offline, "minimise", watched)
    key = np.random.PCG64(9).random_raw(8).astype(np.uint64) & np.uint64(0xFFFFFFFF)
    secrets.key("key", key.astype("<u4").tobytes())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        learner = kind(epsilon=20.0, delta=delta, random_state=9).fit(X, y)
    plan = learner.calibrate(3, 60, max(2, outputs))
    scale = plan.scale if kind is OutputPerturbation else plan.final_scale
    step = noise.granularity(scale * (1.0 if delta else math.sqrt(plan.dim + 1)))
    secrets.numbers("noise", vector(make_source(9), plan.dim, scale, step, STREAM_RELEASES, plan.law))
    seen = [surface(learner, plan, learner.ledger_, *learner.ledger_.accounts), *(str(w.message) for w in said)]
    seen += [pickle.dumps(learner), surface(pickle.loads(pickle.dumps(learner)), copy.copy(learner), private=True)]
    seen += [surface(clone(learner), private=True), repr(learner), repr(learner.get_params()), repr(vars(learner))]
    learner.max_iter = 1
    with pytest.raises(SolverFailure) as caught:
        learner.fit(X, y)
    seen.append(story(caught.value))
    assert len(secrets) > 900
    found = {name for haystack in seen for name in secrets.found_in(haystack)}
    assert not found, sorted(found)[:10]
    held = list(reachable(vars(learner)))
    assert not any(isinstance(it, (Source, Objective)) for it in held)
    assert not any(isinstance(it, np.ndarray) and np.shares_memory(it, X) for it in held)
