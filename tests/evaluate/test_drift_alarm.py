"""Alarms of drift: the evidence by its formula, a proved rate of false alarms, power, refusals, no cost."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from alpha import rate
from scipy.stats import binom, norm

import privol
from privol.errors import InvalidParameter, StateError
from privol.evaluate import DriftAlarm, PrivateMetrics, compare, progressive
from privol.evaluate._alarm import _RISES
from privol.evaluate._private import MetricsWindow
from privol.ledger import Ledger
from privol.noise import granularity
from privol.state import State

FACTS = {"name": "accuracy", "first_bound": 1.0, "loss_bound": 2.0, "std": 4.0, "window_rows": 100}


def alarm_of(facts=FACTS, **words):
    found = DriftAlarm(**words)
    found.begin(**facts)
    return found


def windows(totals, rows=100, first=None):
    for k, total in enumerate(totals):
        yield MetricsWindow(k * rows + 1, (k + 1) * rows, total if first is None else first[k], total)


def fed(alarm, totals, **words):
    for window in windows(totals, **words):
        alarm.take(window)
    return alarm


# ---- the evidence ---------------------------------------------------------------------------------------------------


def evidence_by_the_formula(totals, mean, facts):
    """Bets of a share 1 / (k (k + 1)) begin at window k, in equal parts for each rise: as the proof has them."""
    n, std, step = facts["window_rows"], facts["std"], granularity(facts["std"])
    found = []
    for t in range(1, len(totals) + 1):
        value = 1.0 / (t + 1)
        for k in range(1, t + 1):
            for rise in _RISES:
                stake = rise * n / (n / 4 + std**2)
                gains = [stake * (x - n * mean - step / 2) - stake**2 * (n / 4 + std**2) / 2 for x in totals[k - 1 : t]]
                value += math.exp(sum(gains)) / (k * (k + 1)) / len(_RISES)
        found.append(value)
    return found


def test_the_evidence_is_that_of_the_formula():
    totals = [31.0, 28.5, 44.0, 52.0, 30.25, 61.0]
    found = fed(alarm_of(level=0.6), totals)
    assert found.evidence == pytest.approx(evidence_by_the_formula(totals, 0.3, FACTS), rel=1e-11)
    assert sum(1.0 / (k * (k + 1)) for k in range(1, 7)) + 1.0 / 7.0 == pytest.approx(1.0)


@pytest.mark.parametrize(("rows", "reference"), [(1 << 32, None), (1 << 32, 3), (1000, None)])
def test_no_rounding_is_in_favour_of_an_alarm(rows, reference):
    """The evidence of windows near the threshold is at most that of exact arithmetic."""
    rng, mp = np.random.default_rng(3), mpmath.mp.clone()
    mp.prec = 200
    facts = {"name": "accuracy", "first_bound": 1.0, "loss_bound": 1.0, "std": 14.0, "window_rows": rows}
    h, noise = mp.mpf(granularity(14.0)), mp.mpf(14) ** 2
    for level in rng.uniform(0.1, 0.9, 20).tolist():
        words = {"level": level} if reference is None else {"reference": reference}
        alarm, near, mean = (
            alarm_of(facts, **words),
            [rows * level + rng.normal() for _ in range(reference or 0)],
            level,
        )
        if reference is not None:
            seen = rows * reference
            deviation = mp.sqrt(2 * (mp.mpf(seen) / 4 + reference * noise) * mp.log(2 / mp.mpf(0.01)))
            mean = (mp.fsum(near) + reference * h / 2 + deviation) / seen
        stakes = [mp.mpf(rise) * rows / (mp.mpf(rows) / 4 + noise) for rise in _RISES.tolist()]
        watched = [float(rows * mean + rows * _RISES[-1] / 2 + rng.normal() / stakes[-1]) for _ in range(6)]
        fed(alarm, [*near, *watched], rows=rows)
        bets = [mp.mpf(0)] * len(stakes)
        for k, (total, found) in enumerate(zip(watched, alarm.evidence, strict=True), 1):
            gains = [
                stake * (total - rows * mp.mpf(mean) - h / 2) - stake**2 * (mp.mpf(rows) / 4 + noise) / 2
                for stake in stakes
            ]
            bets = [(bet + mp.mpf(1) / (k * (k + 1))) * mp.exp(g) for bet, g in zip(bets, gains, strict=True)]
            exact = mp.log(mp.fsum(bets) / len(bets) + mp.mpf(1) / (k + 1))
            assert math.log(found) <= exact + 1e-12  # the logarithm here is rounded too
            assert math.log(found) >= exact - 1e-3


def test_the_reference_is_bounded_from_above():
    totals = [30.0, 26.0, 34.0, 40.0, 70.0]
    found = fed(alarm_of(reference=3, alpha=0.04, tolerance=0.1), totals)
    deviation = math.sqrt(2 * (300 / 4 + 3 * 16) * math.log(50)) / 300
    mean = 90 / 300 + 1.5 * granularity(4.0) / 300 + deviation + 0.05
    assert found.evidence == pytest.approx(evidence_by_the_formula(totals[3:], mean, FACTS), rel=1e-11)


@pytest.mark.parametrize("mean", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize(("rows", "std"), [(1, 0.5), (100, 0.0), (100, 4.0), (1000, 40.0)])
def test_no_bet_is_favourable_without_drift(mean, rows, std):
    """Exactly, for shares of 0 or 1: no stake's expected factor exceeds 1, and it exceeds it if noise is left out."""
    alarm = alarm_of({**FACTS, "std": std, "window_rows": rows}, level=1.0 - mean, metric="accuracy")
    stakes = alarm._stakes
    of_rows = rows * (np.log1p(mean * np.expm1(stakes)) - stakes * mean)
    of_noise = stakes**2 * std**2 / 2
    most_of_rounding = stakes * (granularity(std) / 2 if std else 0.0)
    compensator = stakes**2 * (rows / 4 + std**2) / 2 + most_of_rounding
    assert np.all(of_rows + of_noise + most_of_rounding <= compensator + 1e-9)
    if std > math.sqrt(rows):
        assert np.all(of_rows + of_noise > stakes**2 * rows / 8)


def test_a_larger_rise_than_any_bet_does_not_overflow():
    found = fed(alarm_of({**FACTS, "std": 0.0, "window_rows": 10**6}, level=1.0), [1e6] * 3, rows=10**6)
    assert all(math.isfinite(x) for x in found.evidence)
    assert found.alarm.number == 1


@pytest.mark.parametrize(
    ("metric", "name", "worse"),
    [
        ("loss", "accuracy", "loss"),
        ("accuracy", "accuracy", "low"),
        ("mean_absolute_error", "mean_absolute_error", "high"),
    ],
)
def test_what_is_worse(metric, name, worse):
    facts = {**FACTS, "name": name}
    for first, loss, raised in (([90.0] * 5, [20.0] * 5, False), ([10.0] * 5, [20.0] * 5, worse == "low"),
                                ([90.0] * 5, [95.0] * 5, worse == "loss")):  # fmt: skip
        level = {"loss": 1.0, "accuracy": 0.5, "mean_absolute_error": 0.5}[metric]
        if metric == "mean_absolute_error":
            first, raised = [100.0 - x for x in first], first[0] == 10.0
        found = fed(alarm_of(facts, metric=metric, level=level), loss, first=first)
        assert (found.alarm is not None) == raised
        if raised:
            assert found.alarm.level == level
            assert found.alarm.evidence >= 100
            assert found.alarm.window.last_row == 100 * found.alarm.number


def test_with_a_reference_twice_the_evidence_is_needed():
    """Half of alpha is for a reference whose mean is not within its bound."""
    found = fed(alarm_of(reference=1, alpha=0.05), [0.0] + [22.0] * 60)
    at = found.alarm.number - 2  # the first window is the reference
    assert 20 < found.evidence[at - 1] < 40 <= found.evidence[at] == found.alarm.evidence


def test_one_alarm_is_raised():
    raised = []
    found = fed(alarm_of(level=0.4, on_alarm=raised.append), [90.0] * 6)
    assert raised == [found.alarm]
    assert len(found.evidence) == 6
    assert found.evidence[found.alarm.number - 1] == found.alarm.evidence


# ---- statistics -----------------------------------------------------------------------------------------------------


def alarms(rng, runs, count, mean, facts, **words):
    """How many of so many streams without drift, whose rows' shares are 0 or 1, raise an alarm in so many windows."""
    n, std, raised = facts["window_rows"], facts["std"], 0
    totals = rng.binomial(n, mean, size=(runs, count)) + std * rng.normal(size=(runs, count))
    for row in totals:
        found = alarm_of(facts, **words)
        for window in windows(row.tolist(), rows=n):
            found.take(window)
            if found.alarm is not None:
                raised += 1
                break
    return raised


@pytest.mark.statistical
@pytest.mark.parametrize("words", [{"level": 1.0}, {"reference": 3}], ids=str)
def test_false_alarms_are_as_rare_as_stated(words):
    """At the boundary, the mean at its level: of 1,500 streams at most as many as alpha allows."""
    runs, alpha = 1500, 0.05
    facts = {**FACTS, "std": 20.0}
    raised = alarms(np.random.default_rng(3), runs, 30, 0.5, facts, alpha=alpha, **words)
    assert raised <= binom.isf(rate("alarm.false", 2), runs, alpha)


@pytest.mark.statistical
def test_without_the_allowance_for_noise_the_rate_is_exceeded():
    """The test above sees an alarm that takes the noise of privacy for drift."""

    class Careless(DriftAlarm):
        def begin(self, **facts):
            super().begin(**facts)
            self._std = 0.0
            self._stakes = _RISES * 4.0

    runs, facts, raised = 200, {**FACTS, "std": 20.0}, 0
    rng = np.random.default_rng(4)
    for row in rng.binomial(100, 0.5, size=(runs, 30)) + 20.0 * rng.normal(size=(runs, 30)):
        found = Careless(alpha=0.05, level=1.0)
        found.begin(**facts)
        raised += fed(found, row.tolist()).alarm is not None
    assert raised > binom.isf(rate("alarm.false", 2), runs, 0.05)


@pytest.mark.statistical
def test_power():
    """A rise of 0.2 in windows of 500 rows and noise of 5 is seen within four windows.

    With the stake for a rise of 1/4, 0.83, the logarithm of the evidence is then 125 on average, with a standard
    deviation of 20.5; it needs log(100) + log(8) + log(2) = 7.4. A miss has a probability of P(Z < -5.7) = 5e-9, and
    one in 100 streams of 5e-7.
    """
    assert 100 * norm.cdf(-(125 - 7.4) / 20.5) < rate("alarm.power")
    rng, facts = np.random.default_rng(5), {**FACTS, "std": 5.0, "window_rows": 500}
    for _ in range(100):
        totals = rng.binomial(500, [0.3] * 3 + [0.5] * 4) + 5.0 * rng.normal(size=7)
        found = fed(alarm_of(facts, level=0.6), totals.tolist(), rows=500)
        assert found.alarm is not None


# ---- with a run -----------------------------------------------------------------------------------------------------


def drifting(n=8000, turn=4000, **how):
    """Labels that follow one rule up to a row, and its opposite from there on."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)) / 2
    y = X @ [1.0, -1.0, 0.5] > 0
    y[turn:] = ~y[turn:]
    return privol.open_stream((X, y.astype(int)), classes=(0, 1), **how)


def measured(alarm, turn=4000, ledger=None, **words):
    learner = privol.NOGD(epsilon=8.0, radius=3.0, x_bound=2.0, batch=20, random_state=1, ledger=ledger)
    private = PrivateMetrics(mu=0.3, windows=20, random_state=1)
    return progressive(learner, drifting(turn=turn), private=private, alarm=alarm, **words)


@pytest.mark.parametrize("metric", ["loss", "accuracy"])
def test_a_run_whose_rows_turn_raises_an_alarm_and_costs_no_more(metric):
    spent, plain = Ledger(), Ledger()
    alarm = DriftAlarm(metric=metric)
    found = measured(alarm, ledger=spent)
    assert found.private.windows == measured(None, ledger=plain).private.windows
    assert spent.spent.mu == plain.spent.mu
    assert alarm.alarm.window.first_row > 4000 - 400
    assert alarm.alarm.number <= 14
    again = DriftAlarm(metric=metric)
    assert again.watch(found.private) == alarm.alarm
    assert again.evidence == alarm.evidence


def test_the_callers_rule_may_end_the_run():
    class Enough(Exception):
        pass

    def enough(alarm):
        raise Enough

    seen = []
    with pytest.raises(Enough):
        measured(DriftAlarm(on_alarm=enough), on_window=seen.append)
    assert 10 <= len(seen) < 20


def test_a_comparison_has_an_alarm():
    alarm = DriftAlarm()
    learner = privol.NOGD(epsilon=8.0, radius=3.0, x_bound=2.0, batch=20, random_state=1)
    compare(learner, drifting(2000, 1000), private=PrivateMetrics(mu=2.0, windows=10, random_state=1), alarm=alarm)
    assert len(alarm.evidence) == 5


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [{"alpha": 0.0}, {"alpha": 1.0}, {"metric": "auc"}, {"reference": 0}, {"level": -0.1}, {"tolerance": -1.0}],
)
def test_parameters(words):
    with pytest.raises(InvalidParameter):
        DriftAlarm(**words)


def test_a_run_that_it_does_not_fit():
    with pytest.raises(InvalidParameter, match="'loss' or 'accuracy' for this run, found 'mean_absolute_error'"):
        alarm_of(metric="mean_absolute_error")
    with pytest.raises(InvalidParameter, match=r"level must be at most the bound 2, found 2\.5"):
        alarm_of(level=2.5)
    with pytest.raises(InvalidParameter, match="tolerance must be at most the bound 1"):
        alarm_of(metric="accuracy", tolerance=1.5)
    ledger = Ledger()
    with pytest.raises(InvalidParameter, match="for this run"):
        measured(DriftAlarm(metric="mean_absolute_error"), ledger=ledger)
    assert ledger.spent.mu == 0.0
    assert all(account.closed for account in ledger.accounts)
    learner = privol.NOGD()
    with pytest.raises(InvalidParameter, match="watches private metrics: private must be given"):
        progressive(learner, drifting(), alarm=DriftAlarm())
    with pytest.raises(InvalidParameter, match="must be a DriftAlarm or None"):
        progressive(learner, drifting(), private=PrivateMetrics(mu=1.0), alarm=print)


def test_an_alarm_of_another_run_is_named_where_a_kept_run_goes_on(tmp_path):
    alarm, left = DriftAlarm(), [30]

    def run(alarm, progress=None):
        learner = privol.NOGD(epsilon=8.0, radius=3.0, x_bound=2.0, batch=20, horizon=2000, random_state=1)
        return progressive(learner, drifting(2000, 1000, block_rows=50), private=PrivateMetrics(mu=2.0, windows=20),
                           alarm=alarm, checkpoint=State(tmp_path / "RUN", every=100), progress=progress)  # fmt: skip

    def leave(*_):
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(alarm, leave)
    seen = alarm.evidence
    assert seen
    with pytest.raises(StateError, match="an alarm watches the windows of one run: make another"):
        run(alarm)
    assert alarm.evidence == seen
    again = DriftAlarm()
    run(again)
    assert again.evidence[: len(seen)] == seen
    assert len(again.evidence) == 15


def test_windows_in_order_and_once():
    alarm = alarm_of(level=0.5)
    with pytest.raises(StateError, match="begin"):
        DriftAlarm().take(MetricsWindow(1, 100, 0.0, 0.0))
    alarm.take(MetricsWindow(1, 100, 0.0, 0.0))
    for first, last in ((1, 100), (201, 300), (101, 201), (101, 100)):
        with pytest.raises(StateError, match="begins at row 101 and has at most 100 rows, found"):
            alarm.take(MetricsWindow(first, last, 0.0, 0.0))
    alarm.take(MetricsWindow(101, 150, 0.0, 0.0))
    with pytest.raises(StateError, match="watches the windows of one run"):
        alarm.begin(**FACTS)
    assert "no alarm" in repr(alarm)
