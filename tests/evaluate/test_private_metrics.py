"""Private metrics: exact totals, the claimed sensitivity and no more, the noise, the two accounts."""

from __future__ import annotations

import copy
import json
import math
import pickle
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from alpha import rate
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, norm

import privol
from privol.errors import BudgetExceeded, InvalidParameter, StateError
from privol.evaluate import PrivateMetrics, Task, compare, progressive
from privol.evaluate._private import MetricsWindow, Windows, noise_std, row_values
from privol.evaluate._watch import Watch
from privol.guarantees import Guarantee, compose_gdp, gdp_delta, gdp_mu, split_budget
from privol.ledger import Ledger
from privol.losses import Custom, get_loss

pytestmark = pytest.mark.statistical

N = 600
UNITS = 1 << 20
SETTINGS = {"release": 100, "radius": 3.0, "x_bound": 1.5, "l2": 0.05, "epsilon": 2.0}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N, 3))
    target = 0.5 * (X @ [1.0, -1.0, 0.5] + rng.normal(size=N))
    return X, (target > 0).astype(float), target


def stream_of(data, kind="classification", block_rows=97, **attributes):
    X, labels, targets = data
    if kind == "classification":
        stream = privol.open_stream((X, labels), classes=(0, 1), block_rows=block_rows)
    else:
        stream = privol.open_stream((X, targets), block_rows=block_rows)
    for name, value in attributes.items():
        setattr(stream, name, value)
    return stream


def recorded(learner, stream):
    found = []

    class Sink:
        def take(self, *columns):
            found.append([column.copy() for column in columns])

    learner.fit_stream(stream, observer=Watch([Sink()]))
    return [np.concatenate(column) for column in zip(*found, strict=True)]


def windows_of(private, *, horizon=N, loss="logistic", adjacency="replace", ledger=None, **more):
    ledger = Ledger(adjacency=adjacency) if ledger is None else ledger
    return Windows(private, task=Task(get_loss(loss)), y_bound=1.0, horizon=horizon, delta=1e-6, ledger=ledger, **more)


# ---- exact totals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared", "absolute"])
def test_without_noise_the_totals_are_exact(data, loss):
    kind = get_loss(loss).kind
    free = {**SETTINGS, "epsilon": math.inf}
    private = PrivateMetrics(mu=math.inf, windows=7)
    result = progressive(privol.PIGD(loss=loss, **free), stream_of(data, kind), private=private).private
    scores, values, y = recorded(privol.PIGD(loss=loss, **free), stream_of(data, kind))
    assert [(w.first_row, w.last_row) for w in result.windows] == [
        (1, 86), (87, 172), (173, 258), (259, 344), (345, 430), (431, 516), (517, 600)
    ]  # fmt: skip
    for w in result.windows:
        at = slice(w.first_row - 1, w.last_row)
        shares = np.minimum(values[at] / result.loss_bound, 1.0)
        assert Fraction(w.loss) == sum(Fraction(math.floor(share * UNITS), UNITS) for share in shares)
        if kind == "classification":
            assert w.first == np.sum((scores[at] > 0) == (y[at] > 0))
        else:
            errors = np.minimum(np.abs(scores[at] - y[at]) / result.first_bound, 1.0)
            assert Fraction(w.first) == sum(Fraction(math.floor(e * UNITS), UNITS) for e in errors)
    record = result.to_record()
    assert record["private"] is False
    assert record["sentence"].startswith("NO PRIVACY")
    assert record["total"]["rows"] == N
    assert record["total"]["loss"] == pytest.approx(np.mean(np.minimum(values, result.loss_bound)), abs=1e-5)
    assert record["total"]["loss_std"] == 0.0
    json.dumps(record, allow_nan=False)


@pytest.mark.parametrize("delay", [0, 40])
@pytest.mark.parametrize("block_rows", [1, 33, 1000])
def test_windows_do_not_depend_on_the_blocks(data, block_rows, delay):
    def run(rows):
        learner = privol.PIGD(random_state=3, **SETTINGS)
        private = PrivateMetrics(mu=0.1, window_rows=50, random_state=3)
        found = progressive(learner, stream_of(data, block_rows=rows), private=private, delay=delay)
        return found.private.windows, found.score

    assert run(97) == run(block_rows)


def test_the_run_is_the_same_with_and_without(data):
    plain = privol.PIGD(random_state=3, **SETTINGS).fit_stream(stream_of(data))
    watched = privol.PIGD(random_state=3, **SETTINGS)
    progressive(watched, stream_of(data), private=PrivateMetrics(mu=0.1, random_state=3))
    assert np.array_equal(plain.coef_, watched.coef_)
    assert np.array_equal(plain.average_coef_, watched.average_coef_)
    assert plain.guarantee_ == watched.guarantee_


def test_null_rows_count_as_half(data):
    X = data[0].copy()
    X[:5, 0] = np.nan
    learner = privol.PIGD(on_invalid="zero", **{**SETTINGS, "epsilon": math.inf})
    private = PrivateMetrics(mu=math.inf, window_rows=5)
    result = progressive(learner, stream_of((X, *data[1:])), private=private).private
    assert (result.windows[0].first, result.windows[0].loss) == (2.5, 2.5)


# ---- sensitivity ---------------------------------------------------------------------------------------------


def extremes():
    scores = np.array([np.nan, -1e300, -30.0, -1.0, -1e-9, 0.0, 1e-9, 1.0, 30.0, 1e300, np.inf, -np.inf])
    targets = np.array([-1.0, 1.0, 0.3])
    values = np.array([np.nan, -5.0, 0.0, 1e-8, 0.7, 2.0, 1e300, np.inf])
    grid = np.meshgrid(scores, values, targets)
    s, v, y = (column.ravel() for column in grid)
    v = np.where(np.isnan(s), np.nan, v)
    return s, v, y


@pytest.mark.parametrize("task", [Task(get_loss("logistic")), Task(get_loss("absolute"))], ids=["labels", "numbers"])
def test_no_row_moves_the_totals_by_more_than_is_claimed(task):
    """For extreme rows, whatever the loss returns; the claims are attained."""
    first, loss = row_values(*extremes(), task, 1.0, 2.0)
    pairs = np.unique(np.column_stack([first, loss]), axis=0) / UNITS
    assert pairs.min() == 0.0
    assert pairs.max() == 1.0
    moves = np.linalg.norm(pairs[:, None] - pairs[None], axis=2)
    assert moves.max() == math.sqrt(2)
    null_first, null_loss = row_values(*(np.array([np.nan]) for _ in range(3)), task, 1.0, 2.0)
    null = np.array([null_first[0], null_loss[0]]) / UNITS
    assert np.linalg.norm(pairs - null, axis=1).max() == math.sqrt(0.5)


def test_a_loss_that_is_not_a_number_counts_as_the_worst():
    scores, losses, targets = np.array([0.5, 0.5]), np.array([np.nan, 0.25]), np.array([1.0, 1.0])
    _, loss = row_values(scores, losses, targets, Task(get_loss("absolute")), 1.0, 1.0)
    np.testing.assert_array_equal(loss, [UNITS, UNITS // 4])


@pytest.mark.parametrize("delay", [0, 30])
def test_one_row_moves_one_window_only(data, delay):
    """Given the models: if both streams have equal models, one window moves by the claim and the others are equal."""
    rng = np.random.default_rng(0)
    for row in (0, 99, 100, 350, 599):
        X, labels, targets = (part.copy() for part in data)
        runs = []
        for world in range(2):
            if world:
                X[row] = 50 * rng.normal(size=3)
                labels[row] = 1 - labels[row]
            learner = privol.PIGD(**{**SETTINGS, "epsilon": math.inf, "release": "last"})
            private = PrivateMetrics(mu=math.inf, window_rows=100)
            found = progressive(learner, stream_of((X, labels, targets)), private=private, delay=delay)
            runs.append([(w.first, w.loss) for w in found.private.windows])
        moves = np.linalg.norm(np.array(runs[0]) - np.array(runs[1]), axis=1)
        others = np.delete(moves, row // 100)
        assert np.all(others == 0.0)
        assert moves[row // 100] <= math.sqrt(2)


def test_the_noise_covers_the_sensitivity_in_exact_arithmetic():
    rng = np.random.default_rng(1)
    for mu in [*np.exp(rng.uniform(-12, 4, 300)), 1e-100, 1.0]:
        for adjacency, square in (("replace", Fraction(2)), ("zero_out", Fraction(1, 2))):
            std = noise_std(mu, adjacency)
            assert square / Fraction(std) ** 2 <= Fraction(mu) ** 2
            assert square / Fraction(std * (1 - 1e-15)) ** 2 > Fraction(mu) ** 2 * (1 - Fraction(1, 10**15))
    assert noise_std(math.inf, "replace") == 0.0


# ---- noise ---------------------------------------------------------------------------------------------------


def noise_of(windows, factor=1.0):
    """The noise of many windows of one row each, in units of ``factor`` times the reported standard deviation."""
    length = 4000
    private = PrivateMetrics(mu=0.5, window_rows=1, random_state=17)
    metrics = windows_of(private, horizon=length, **windows)
    scores = np.tile([1.0, -1.0], length // 2)
    targets, values = np.ones(length), np.full(length, 0.25)
    metrics.take(scores, values, targets)
    result = metrics.finish(metrics.guarantee)
    first, loss = row_values(scores, values, targets, Task(get_loss("logistic")), 1.0, result.loss_bound)
    noisy = np.array([(w.first, w.loss) for w in result.windows])
    return (noisy - np.column_stack([first, loss]) / UNITS) / (factor * result.std)


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_noise_has_its_scale(adjacency):
    """Rejects two thirds and three halves of the scale. Rate: metrics.scale, for the pair of totals together."""
    z = noise_of({"adjacency": adjacency})

    def accepted(sample):
        low, high = chi2.ppf(rate("metrics.scale") / 2, sample.size), chi2.isf(rate("metrics.scale") / 2, sample.size)
        return low <= float(np.sum(sample**2)) <= high

    assert accepted(z)
    assert not accepted(z * 1.5)
    assert not accepted(z / 1.5)
    claimed = math.sqrt(2.0 if adjacency == "replace" else 0.5) / 0.5
    result = windows_of(PrivateMetrics(mu=0.5), adjacency=adjacency)
    assert result._std == pytest.approx(claimed, rel=1e-14)


def test_noise_is_independent_between_windows_and_totals():
    """Rate: metrics.independent, shared by two correlations; the same noise twice would give 1."""
    z = noise_of({})
    bound = float(norm.isf(rate("metrics.independent") / 4)) / math.sqrt(len(z))
    assert abs(np.mean(z[:, 0] * z[:, 1])) < bound
    assert abs(np.mean(z[1:] * z[:-1])) < bound


def test_noise_is_not_that_of_the_models(data):
    """The words differ even with the same key for both. Without a seed two runs differ."""
    learner = privol.PIGD(random_state=5, **{**SETTINGS, "release": 60})
    private = PrivateMetrics(mu=0.1, window_rows=60, random_state=5)
    first = progressive(learner, stream_of(data), private=private).private.windows
    source = privol.noise.make_source(5)
    words = {source.words(stream=s, level=0, block=0, row=60) for s in range(3)}
    assert len(words) == 3
    fresh = [progressive(privol.PIGD(**SETTINGS), stream_of(data), private=PrivateMetrics(mu=0.1)).private
             for _ in range(2)]  # fmt: skip
    assert fresh[0].windows != fresh[1].windows
    assert fresh[0].guarantee.private
    assert first != fresh[0].windows


# ---- budgets -------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(st.floats(1e-3, 50.0), st.floats(-14, -2), st.floats(1e-5, 1 - 1e-5))
def test_the_two_parts_fit_and_never_exceed(epsilon, log_delta, share):
    delta = 10.0**log_delta
    try:
        split = split_budget(epsilon, delta, share)
    except InvalidParameter:
        # epsilon is 0 at this delta for so small a mu
        assert gdp_delta(0.0, gdp_mu(epsilon, delta) * math.sqrt(1 - share)) <= delta
        return
    rest, mu = gdp_mu(split.epsilon, delta), gdp_mu(epsilon, delta)
    total = math.sqrt(rest**2 + split.mu**2)
    assert Fraction(rest) ** 2 + Fraction(split.mu) ** 2 <= Fraction(mu) ** 2
    assert rest <= mu * math.sqrt(1 - share)
    assert split.mu <= mu * math.sqrt(share)
    assert total >= mu * (1 - 1e-6)  # nothing is wasted
    ledger = Ledger(epsilon=epsilon, delta=delta)
    for part in (split.mu, rest):
        ledger.open(learner="part", guarantee=promise(parameter=part, delta=delta))
    assert gdp_delta(epsilon, total) <= delta


def promise(**changes):
    values = {"kind": "gdp", "parameter": 0.1, "adjacency": "replace", "horizon": 10, "releases": 1, "delta": 1e-6,
              "arithmetic": "exact", "bit_source": "none"}  # fmt: skip
    return Guarantee(**{**values, **changes})


def test_splitting_the_budget_refuses_invalid_shares():
    for bad in ((0.0, 1e-6, 0.1), (1.0, 0.0, 0.1), (1.0, 1e-6, 0.0), (1.0, 1e-6, 1.0)):
        with pytest.raises(InvalidParameter):
            split_budget(*bad)
    with pytest.raises(InvalidParameter, match="share must leave"):
        split_budget(1e-3, 0.1, 0.999)
    assert split_budget(math.inf, 1e-6, 0.1) == (math.inf, math.inf)


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_model_and_metrics_share_one_limited_ledger(data, adjacency):
    split = split_budget(1.0, 1e-6, 0.2)
    ledger = Ledger(epsilon=1.0, delta=1e-6, adjacency=adjacency)
    learner = privol.PIGD(**{**SETTINGS, "epsilon": split.epsilon, "adjacency": adjacency}, ledger=ledger)
    found = progressive(learner, stream_of(data), private=PrivateMetrics(mu=split.mu))
    assert [a.learner for a in ledger.accounts] == ["PrivateMetrics", "PIGD"]
    assert all(account.closed for account in ledger.accounts)
    metrics = ledger.entries()[0]
    assert (metrics.last_row, metrics.releases) == (N, 20)
    assert metrics.mu_squared == pytest.approx(split.mu**2, rel=1e-12)
    assert ledger.spent.epsilon() <= 1.0
    assert ledger.spent.epsilon() > 0.999
    assert learner.ledger_.accounts[0].guarantee.mu == split.mu
    assert learner.ledger_.accounts[0].guarantee.released == "metrics_beyond_models"
    assert found.private.guarantee.mu == compose_gdp([split.mu, learner.guarantee_.mu])
    with pytest.raises(BudgetExceeded):
        progressive(privol.PIGD(**SETTINGS, ledger=ledger), stream_of(data), private=PrivateMetrics(mu=0.1))
    sentence = ledger.sentence()
    assert "(epsilon, delta) = (1, 1e-6)" in sentence
    assert "all 2 runs (mu by run: PrivateMetrics: " in sentence
    assert f'adjacency "{adjacency}"' in sentence


def test_a_refused_run_gives_back_the_metrics_budget(data):
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    learner = privol.PIGD(**{**SETTINGS, "epsilon": 1.0}, ledger=ledger)
    with pytest.raises(BudgetExceeded):
        progressive(learner, stream_of(data), private=PrivateMetrics(mu=0.1))
    assert [entry.mu_squared for entry in ledger.entries()] == [0.0]
    assert ledger.remaining == ledger.mu
    assert not hasattr(learner, "coef_")


def test_metrics_that_do_not_fit_stop_the_run_before_it_begins(data):
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    read = []

    class Stream:
        n_rows, classes = N, (0, 1)

        def __iter__(self):
            read.append(1)
            yield from stream_of(data)

    learner = privol.PIGD(**{**SETTINGS, "epsilon": 0.5}, ledger=ledger)
    with pytest.raises(BudgetExceeded, match="PrivateMetrics asks for"):
        progressive(learner, Stream(), private=PrivateMetrics(mu=10.0))
    assert not read
    assert ledger.accounts == ()


@pytest.mark.parametrize(("stop", "released"), [(50, 0), (99, 1), (250, 3)])
def test_an_interrupted_run_keeps_what_was_released(data, stop, released):
    """The windows so far were released and are paid for; nothing more is released."""
    ledger, seen = Ledger(), []

    def interrupt(learner, _):
        if learner.n_rows_ > stop:
            raise KeyboardInterrupt

    learner = privol.PIGD(ledger=ledger, **SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        progressive(learner, stream_of(data, block_rows=20), private=PrivateMetrics(mu=0.1, window_rows=80),
                    progress=interrupt, on_window=seen.append)  # fmt: skip
    assert len(seen) == released
    account = ledger.accounts[0]
    assert account.closed
    assert account.entry().releases == released
    assert account.entry().mu_squared == (account.reserved_mu_squared if released else 0.0)


def test_a_window_is_paid_for_before_its_noise_is_drawn():
    ledger = Ledger()
    metrics = windows_of(PrivateMetrics(mu=0.1, window_rows=10), ledger=ledger)

    class Broken:
        def add(self, *_, **__):
            raise KeyboardInterrupt

    metrics._source = Broken()
    with pytest.raises(KeyboardInterrupt):
        metrics.take(np.ones(10), np.ones(10), np.ones(10))
    metrics.close()
    assert ledger.entries()[0].mu_squared == ledger.accounts[0].reserved_mu_squared
    assert ledger.entries()[0].releases == 1


def test_closed_metrics_release_nothing():
    metrics = windows_of(PrivateMetrics(mu=0.1))
    metrics.take(np.ones(3), np.ones(3), np.ones(3))
    metrics.close()
    with pytest.raises(StateError, match="closed"):
        metrics.finish(metrics.guarantee)
    with pytest.raises(InvalidParameter, match="horizon"):
        windows_of(PrivateMetrics(mu=0.1), horizon=2).take(np.ones(3), np.ones(3), np.ones(3))


def test_a_short_stream_releases_its_last_window(data):
    learner = privol.PIGD(horizon=1000, **SETTINGS)
    found = progressive(learner, stream_of(data), private=PrivateMetrics(mu=0.1, windows=10)).private
    assert [w.rows for w in found.windows] == [100] * 6
    assert found.guarantee.releases == 10
    late = progressive(privol.PIGD(horizon=1000, **SETTINGS), stream_of(data), private=PrivateMetrics(mu=1, windows=7))
    assert [w.rows for w in late.private.windows] == [143] * 4 + [28]


# ---- statements ---------------------------------------------------------------------------------------------


def test_record_and_sentence(data):
    stream = stream_of(data, rows_per_user=3, conditions=("the schema was written without the rows",))
    learner = privol.PIGD(**SETTINGS)
    result = progressive(learner, stream, private=PrivateMetrics(mu=0.2, windows=4)).private
    for guarantee in (result.guarantee, learner.guarantee_):
        assert guarantee.rows_per_user == 3
        assert "the schema was written without the rows" in guarantee.conditions
        assert "of one user at most 3 rows are learnt" in guarantee.sentence()
        assert "several rows of one person" not in guarantee.sentence()
    assert result.guarantee.released == "metrics"
    released = "at most 4 windows of rows, with the models that are evaluated, whether these are published or not,"
    assert f"{released} out of 600 rows" in result.guarantee.sentence()
    assert "releases of the model" not in result.guarantee.sentence()
    assert "by group privacy" in learner.ledger_.sentence(1e-6)
    record = json.loads(json.dumps(result.to_record(), allow_nan=False))
    assert Guarantee.from_record(record["guarantee"]) == result.guarantee
    assert record["sentence"] == result.guarantee.sentence()
    assert record["private"] is True
    assert record["metrics"] == ["accuracy", "loss"]
    assert record["bounds"] == {"accuracy": 1.0, "loss": 4 * math.log(2)}
    for window, shown in zip(result.windows, record["windows"], strict=True):
        assert (shown["first_row"], shown["rows"]) == (window.first_row, 150)
        assert shown["accuracy_raw"] == window.first / 150
        assert shown["accuracy"] == min(max(window.first / 150, 0), 1)
        assert shown["accuracy_std"] == pytest.approx(math.sqrt(2) / 0.2 / 150)
        assert shown["loss_std"] == pytest.approx(4 * math.log(2) * math.sqrt(2) / 0.2 / 150)
    total = record["total"]
    assert total["rows"] == N
    assert total["accuracy_raw"] == pytest.approx(np.mean([w["accuracy_raw"] for w in record["windows"]]))
    assert total["accuracy_std"] == pytest.approx(math.sqrt(2) * 2 / 0.2 / 600)
    seeded = progressive(
        privol.PIGD(**SETTINGS), stream_of(data), private=PrivateMetrics(mu=0.2, random_state=1)
    ).private.to_record()
    assert seeded["private"] is False
    assert seeded["sentence"].startswith("NOT PRIVATE")


def test_figures_are_clamped_but_kept_raw(data):
    wild = progressive(
        privol.PIGD(**SETTINGS), stream_of(data), private=PrivateMetrics(mu=1e-4, random_state=1)
    ).private.to_record()
    raw = [w["accuracy_raw"] for w in wild["windows"]]
    assert min(raw) < 0
    assert max(raw) > 1
    assert all(0 <= w["accuracy"] <= 1 for w in wild["windows"])
    assert all(0 <= w["loss"] <= wild["bounds"]["loss"] for w in wild["windows"])


def test_comparison_hands_the_private_metrics_on(data):
    made = privol.PIGD(**SETTINGS)
    found = compare(made, stream_of(data), private=PrivateMetrics(mu=0.1))
    assert len(found.private.windows) == 20
    assert [a.learner for a in made.ledger_.accounts] == ["PrivateMetrics", "PIGD"]
    assert "windows" not in json.dumps(found.to_record())  # they are not part of the figures without privacy


def test_report_of_private_metrics(data, capsys):
    report = pytest.importorskip("privol.tables")
    result = progressive(privol.PIGD(**SETTINGS), stream_of(data), private=PrivateMetrics(mu=0.2, windows=2)).private
    report.show(report.private_metrics_report(result.to_record()))
    out = capsys.readouterr().out
    assert "1 - 300" in out
    assert "all 600" in out
    assert "0.0236" in out  # sqrt(2) / (0.2 * 300)
    assert "GDP" in out


def test_parameters_are_checked(data):
    for bad in ({"mu": 0.0}, {"mu": -1.0}, {"mu": math.nan}, {"windows": 0}, {"window_rows": 0}, {"loss_bound": 0.0},
                {"error_bound": math.inf}):  # fmt: skip
        with pytest.raises(InvalidParameter, match=next(iter(bad))):
            PrivateMetrics(**{"mu": 1.0, **bad})
    with pytest.raises(InvalidParameter, match="mu must be smaller"):
        windows_of(PrivateMetrics(mu=1e15))
    with pytest.raises(InvalidParameter, match="window_rows"):
        windows_of(PrivateMetrics(mu=1.0, windows=1), horizon=1 << 40)
    with pytest.raises(InvalidParameter, match="error_bound is for regression"):
        windows_of(PrivateMetrics(mu=1.0, error_bound=1.0))
    with pytest.raises(InvalidParameter, match="private must be"):
        progressive(privol.PIGD(**SETTINGS), stream_of(data), private=0.1)
    flat = Custom(value=lambda p, y: p * 0.0, gradient=lambda p, y: 0.0, lipschitz=1.0, smoothness=0.0)
    with pytest.raises(InvalidParameter, match="loss_bound must be given"):
        windows_of(PrivateMetrics(mu=1.0), loss=flat)
    windows_of(PrivateMetrics(mu=1.0, loss_bound=1.0), loss=flat)


@pytest.mark.parametrize("changes", [{"epsilon": math.inf}, {"random_state": 3}])
def test_windows_are_no_more_private_than_the_models_that_they_evaluate(data, changes):
    """A row moves later windows through the models: with exact or seeded models the windows' noise protects nothing."""
    found = progressive(privol.PIGD(**{**SETTINGS, **changes}), stream_of(data), private=PrivateMetrics(mu=0.1)).private
    assert found.to_record()["private"] is False
    assert found.guarantee.sentence().startswith(("NO PRIVACY", "NOT PRIVATE"))


def test_one_row_moves_later_windows_through_the_models():
    """The reason why the windows' mu is not the whole cost: row 1 decides the model that evaluates all later rows."""
    X = np.full((400, 1), 1e-3)
    X[0] = 1.0
    accuracy = []
    for label in (0, 1):
        stream = privol.open_stream((X, np.r_[label, np.ones(399)]), classes=(0, 1))
        learner = privol.PIGD(epsilon=math.inf, release=[1], fit_intercept=False)
        found = progressive(learner, stream, private=PrivateMetrics(mu=1.0, windows=1, random_state=1)).private
        accuracy.append(found.to_record()["total"]["accuracy_raw"])
    assert accuracy[1] - accuracy[0] > 0.9


def test_open_metrics_cannot_be_copied():
    metrics = windows_of(PrivateMetrics(mu=0.1))
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(StateError, match="same noise"):
            attempt(metrics)
    with pytest.raises(InvalidParameter, match="mu"):
        PrivateMetrics(mu=1e101)


def test_windows_that_come_out_otherwise_are_not_shown():
    """For a resumed run: windows already seen, and totals of the same rows after they have changed."""
    now = [MetricsWindow(1, 100, 40.0, 3.5), MetricsWindow(101, 200, 41.0, 3.25)]
    shown = [[w.first_row, w.last_row, w.first, w.loss] for w in now]
    committed = []
    run = SimpleNamespace(_windows=now, _account=SimpleNamespace(commit=lambda windows: committed.append(windows)))
    for seen in ([], shown[:1], shown):
        run._seen = lambda seen=seen: seen
        Windows._commit(run, 200)
    assert committed == [shown, shown]
    run._seen = lambda: [shown[0], [101, 200, 41.0, 3.5]]
    with pytest.raises(StateError, match="are not those that were released"):
        Windows._commit(run, 200)
    assert len(committed) == 2
