"""Audits for users: the worst pattern, found by trying all, matches the calibration; violations are caught."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from alpha import rate
from cli_tools import privol_cli
from exact_encoder import MIXED, NAMES, apart, counted, table

import privol
from privol import open_stream
from privol.audit import audit
from privol.audit._audit import _case
from privol.auto.defaults import within_budget
from privol.cli.app import OK, REFUTED, USAGE
from privol.errors import InvalidParameter

DELTA = 1e-5
USERS = {"rows_per_user": 4, "user_separation": 256}
EXACT = [
    *(("dpftrl", {"design": design}) for design in ("sqrt", "blt", "tree", "independent")),
    ("dpftrl", {"design": "sqrt", "batch": 1, "steps": 12}),
    ("dpftrl", {"design": "banded", "bandwidth": 3, "batch": 64}),
    ("pqftl", {"design": "sqrt", "steps": 10}),
    ("nogd", {}),
    ("pigd", {"release": "all", "steps": 12}),
    ("pigd", {"release": 64}),
]
PATTERNS = [(1, 1), (3, 1), (4, 2), (3, 4), (4, 128), (3, 256), (2, 512)]


def case_of(name, words, rows, separation, noise=1.0, places=None):
    given = {"epsilon": 4.0, "delta": DELTA, "rows_per_user": rows, "user_separation": separation, **words}
    return _case(name, given, given.pop("steps", 8), noise, 1, places)


@pytest.mark.parametrize(("rows", "separation"), PATTERNS)
@pytest.mark.parametrize(("name", "words"), EXACT, ids=[f"{n}-{'-'.join(map(str, w.values()))}" for n, w in EXACT])
def test_the_worst_pattern_costs_what_is_calibrated(name, words, rows, separation):
    """Within 1 %, and not above: the rows' effect is measured, and the pattern is found by trying all."""
    case = case_of(name, words, rows, separation)
    assert case.attainable <= case.mu * (1 + 1e-9)
    fits = separation <= case._ends[-1]  # otherwise a user can have only one row here
    if fits:
        assert case.attainable > 0.99 * case.mu


@pytest.mark.parametrize(("rows", "separation"), [(3, 100), (4, 300), (4, 225)])
@pytest.mark.parametrize("design", ["sqrt", "blt", "tree", "banded", "independent"])
def test_the_worst_pattern_between_steps_costs_what_is_calibrated(design, rows, separation):
    """Steps of 128 rows: neither a multiple nor a divisor of their distance."""
    case = case_of("dpftrl", {"design": design}, rows, separation)
    assert 0.99 * case.mu < case.attainable <= case.mu * (1 + 1e-9)


@pytest.mark.parametrize("weights", ["linear", "uniform", "last"])
@pytest.mark.parametrize("rows", [2, 4, 8])
def test_an_average_moves_as_far_as_calibrated(rows, weights):
    """With the whole noise and with two thirds of it; later rows of a user have less effect."""
    words = {"epsilon": 2.0, "delta": DELTA, "rows_per_user": rows, "weights": weights}
    for noise in (1.0, 0.67):
        case = _case("pol", words, 20, noise, 1, None)
        assert 0.9999 * case.mu < case.attainable * noise <= case.mu * (1 + 1e-12)
    later = _case("pol", words, 20, 1.0, 1, range(21 - rows, 21))
    assert later.attainable < (1.001 if weights == "last" else 0.9) * case.mu


@pytest.mark.parametrize(("name", "words"), EXACT, ids=[f"{n}-{'-'.join(map(str, w.values()))}" for n, w in EXACT])
def test_other_patterns_cost_no_more(name, words):
    """A few admissible patterns, and one with a row fewer."""
    rng = np.random.default_rng(0)
    rows, separation = 3, 5 if words.get("steps") is None else 2
    most = case_of(name, words, rows, separation)._ends[-1]
    for _ in range(4):
        gaps = separation + rng.integers(0, max(1, (most - 1) // rows - separation), rows - 1)
        places = (1 + np.cumsum([0, *gaps])).tolist()
        for some in (places, places[1:]):
            case = case_of(name, words, rows, separation, places=some)
            assert case.attainable <= case.mu * (1 + 1e-9), some


def test_the_worst_pattern_need_not_be_the_first_rows():
    """For a design in which middle rows have the most effect; and no admissible pattern is worse than the one found."""
    words = {"design": "honaker", "batch": 1, "steps": 8}
    case = case_of("dpftrl", words, 2, 2)
    others = [
        case_of("dpftrl", words, 2, 2, places=[a, b]).attainable
        for a, b in itertools.combinations(range(1, 9), 2)
        if b - a >= 2
    ]
    assert case.attainable == pytest.approx(max(others))
    assert case.attainable > 1.005 * case_of("dpftrl", words, 2, 2, places=[1, 3]).attainable


@pytest.mark.parametrize("name", ["dpftrl", "nogd", "pigd"])
def test_what_breaks_the_claim_costs_more(name):
    """Rows nearer than the separation, one row more, or two thirds of the noise."""
    words = {"design": "sqrt"} if name == "dpftrl" else {"release": 64} if name == "pigd" else {}
    rows, apart_ = 3, 128
    for places, noise in (([1, 2, 3], 1.0), ([1, 129, 257, 385], 1.0), (None, 0.67)):
        if name == "pigd" and places is not None and places[-1] > 256:
            places = [1, 65, 129, 193]
        case = case_of(name, words, rows, apart_, noise=noise, places=places)
        assert case.attainable > 1.04 * case.mu, places
    assert "rows 1, 2, 3 of a user" in case_of(name, words, rows, apart_, places=[1, 2, 3]).title


@pytest.mark.statistical
def test_audits_of_runs():
    """Claims hold, and are caught if the noise, the distance or the number of rows is wrong."""
    confidence = 1.0 - rate("audit.users", 60)
    words = {"design": "sqrt", "delta": DELTA, "epsilon": 4.0, "confidence": confidence, "random_state": 3, **USERS}
    found = audit("dpftrl", runs=20_000, **words)
    assert found.exceeded_by == ()
    assert found.ratio > 0.7
    assert found.attainable == pytest.approx(found.mu, rel=0.01)
    assert audit("dpftrl", runs=20_000, noise=0.67, **words).exceeded_by
    assert audit("dpftrl", runs=20_000, user_places=[1, 129, 257, 385], **words).exceeded_by
    near = {**words, "user_separation": 64, "rows_per_user": 3}
    assert audit("dpftrl", runs=20_000, user_places=[1, 65, 129, 193, 257], **near).exceeded_by
    assert audit(privol.NOGD(loss="hinge", l2=1e4, radius=1e3, fit_intercept=False, batch=64, rows_per_user=3),
                 runs=4000, confidence=confidence, random_state=1).exceeded_by == ()  # fmt: skip


@pytest.mark.process
def test_the_command():
    words = ("audit", "dpftrl", "--epsilon", "4", "--runs", "4000", "--seed", "1")
    users = ("--rows-per-user", "3", "--user-separation", "128")
    result = privol_cli(*words, *users, "--json")
    assert result.exit_code == OK, result.stderr
    (found,) = json.loads(result.stdout)["audits"]
    assert "rows_per_user=3, user_separation=128" in found["learner"]
    result = privol_cli(*words, *users, "--user-places", "1,129,257,385,513,641,769,897")
    assert result.exit_code == REFUTED
    assert privol_cli(*words, *users, "--user-places", "1,b").exit_code == USAGE


def test_what_is_refused():
    with pytest.raises(InvalidParameter, match="user_places needs rows_per_user"):
        audit("dpftrl", user_places=[1, 2])
    with pytest.raises(InvalidParameter, match="must ascend"):
        case_of("dpftrl", {}, 3, 1, places=[2, 1])
    with pytest.raises(InvalidParameter, match="user_places must be"):
        case_of("dpftrl", {}, 3, 1, places=[1, 5000])
    with pytest.raises(InvalidParameter, match="patterns, of which at most 200,000 are tried"):
        case_of("dpftrl", {"steps": 40}, 8, 1)
    for words in ({"user_places": [1, 2]}, {"user_separation": 3}):
        with pytest.raises(InvalidParameter, match="needs rows_per_user"):
            audit("prefix", **words)
    with pytest.raises(InvalidParameter, match="must ascend"):
        case_of_fits("pol", 3, places=[2, 1])


# ---- prefix sums, and fits of all rows at once ---------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "separation"), PATTERNS)
@pytest.mark.parametrize("design", ["sqrt", "blt", "tree", "banded", "independent"])
def test_prefix_sums_cost_what_is_calibrated(design, rows, separation):
    case = case_of("prefix", {"design": design}, rows, separation)
    assert 0.99 * case.mu < case.attainable <= case.mu * (1 + 1e-9)
    assert len(case._places) == rows
    more = [*(case._places + 1).tolist(), case._places[-1] + 2]
    assert case_of("prefix", {"design": design}, rows, separation, places=more).attainable > 1.04 * case.mu
    assert case_of("prefix", {"design": design}, rows, separation, noise=0.67).attainable > 1.4 * case.mu
    alone = case_of("prefix", {"design": design, "leaf": 1}, min(rows, 2), 2)
    assert 0.99 * alone.mu < alone.attainable <= alone.mu * (1 + 1e-9)


@pytest.mark.parametrize("design", ["honaker", "smooth"])
def test_prefix_sums_may_release_less_than_they_pay_for(design):
    for rows, separation in PATTERNS:
        case = case_of("prefix", {"design": design}, rows, separation)
        assert 0.84 * case.mu < case.attainable <= case.mu * (1 + 1e-9)


def case_of_fits(name, rows, *, noise=1.0, places=None, **words):
    return _case(name, {"epsilon": 2.0, "rows_per_user": rows, **words}, 8, noise, 1, places)


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_fits_cost_a_user_the_number_of_rows(rows):
    """By group privacy, which output perturbation attains; the projected average of POL falls short with more rows."""
    whole = case_of_fits("output-perturbation", rows, delta=DELTA)
    assert whole.attainable == pytest.approx(whole.mu, rel=0.01)
    assert whole.attainable <= whole.mu * (1 + 1e-9)
    assert "rows_per_user=" in whole.title
    average = case_of_fits("pol", rows, delta=DELTA)
    assert 0.75 * average.mu < average.attainable <= average.mu * (1 + 1e-9)
    twice = case_of_fits("output-perturbation", rows, delta=DELTA, places=range(1, 2 * rows + 1))
    assert twice.attainable > 1.9 * twice.mu
    pure = case_of_fits("output-perturbation", rows, delta=0.0)
    assert (pure.mu, pure.proved_epsilon, pure.epsilon) == (None, pytest.approx(2.0), 2.0)
    one, other = pure._points
    assert np.linalg.norm(one - other) / pure._plan.scale == pytest.approx(2.0, rel=0.01)


@pytest.mark.statistical
def test_audits_of_users_of_prefix_sums_and_fits():
    confidence = 1.0 - rate("audit.users.others", 8)
    words = {"epsilon": 2.0, "confidence": confidence, "random_state": 3, "rows_per_user": 2}
    prefix = {**words, "user_separation": 256, "runs": 20_000}
    found = audit("prefix", **prefix)
    assert found.exceeded_by == ()
    assert found.ratio > 0.5
    assert audit("prefix", user_places=[1, 129, 257, 385], **prefix).exceeded_by
    fits = {**words, "runs": 3000, "delta": 0.0}
    assert audit("objective-perturbation", **fits).exceeded_by == ()
    assert audit("objective-perturbation", user_places=[1, 2, 3, 4], **fits).exceeded_by


# ---- an encoding and the model behind it ---------------------------------------------------------------------------


@pytest.mark.slow
def test_whole_transcripts_of_a_users_rows():
    """Everything that leaves a run of both phases, for two worlds that differ in all rows of one user, at any places.

    The effect of rows in a phase is counted in the code as it runs, replaying its own releases, so that everything
    public is equal in both worlds; their effect after it is read off noise-free runs. The worst of all admissible
    patterns is the figure for a user, within 1 %, and no pattern costs more. One row more, or rows nearer than the
    separation, do cost more.
    """
    rows, k, separation = table(130), 3, 22
    users = {"rows_per_user": k, "user_separation": separation}
    data = [dict(zip(NAMES, row, strict=True)) for row in rows]

    def learn(given):
        return lambda encoder: seen.append(open_stream(given, target="y", schema=encoder))

    seen = []
    encoder, base = counted(learn(data), epsilon=300.0, **users)
    stream, phases = seen[0], [n for _, n in encoder.plan_.phases]
    first, n = encoder.plan_.rows, len(rows)
    moved = np.zeros((len(phases), k + 2))  # by the number of rows in each phase, in deviations of the noise
    for p, start in enumerate(itertools.accumulate([0, *phases[:-1]])):
        for count in range(1, min(k + 1, phases[p]) + 1):
            worlds = []
            for other in MIXED[:2]:
                world = [dict(zip(NAMES, other, strict=True)) if start <= at < start + count else row
                         for at, row in enumerate(data)]  # fmt: skip
                worlds.append(counted(learn(world), base.released, epsilon=300.0, **users)[1])
            gap = [apart(a, b) for a, b in zip(worlds[0].counts, worlds[1].counts, strict=True)]
            assert [d > 0.0 for d in gap] == [i == p for i in range(len(phases))]
            moved[p, count] = gap[p] / base.stds[p]
    horizon = n - first
    learner = privol.DPFTRL(epsilon=300.0, design="sqrt", loss="hinge", radius=1e3, regularization=1e4,
                            fit_intercept=False, horizon=horizon, **users)  # fmt: skip
    within_budget(learner, stream, horizon)
    assert learner.epsilon == 300.0
    stated = learner.fit_stream(stream).guarantee_.mu
    same = {"design": "sqrt", "batch": 1, "steps": horizon, "epsilon": 300.0, "delta": 1e-6}
    model = case_of("dpftrl", same, k, separation, places=[1])
    effect = []
    for at in range(horizon):
        model._differ(np.array([at]))
        effect.append((model.twin(1) - model.twin(0))[0])
    together = np.array(effect) @ np.linalg.solve(model._covariance(), np.array(effect).T)
    phase_of = np.repeat(range(len(phases)), phases)

    def cost(places):
        taught = np.bincount(phase_of[[p for p in places if p < first]], minlength=len(phases))
        learnt = [p - first for p in places if p >= first]
        return math.sqrt(sum(moved[p, m] ** 2 for p, m in enumerate(taught)) + together[np.ix_(learnt, learnt)].sum())

    def admissible(places, left):
        """As early as possible in every phase, and anywhere after them: there the worst patterns are."""
        yield places
        if left:
            least = places[-1] + separation if places else 0
            starts = {max(least, start) for start in (*itertools.accumulate([0, *phases]), *range(least, n))}
            for at in sorted(start for start in starts if start < n):
                yield from admissible((*places, at), left - 1)

    found = [cost(places) for places in admissible((), k) if places]
    assert len(found) > 10_000
    assert max(found) <= stated * (1 + 1e-9)
    assert max(found) > 0.99 * stated
    apart_again = (first, first + separation, first + 2 * separation)
    assert cost((*apart_again, first + 3 * separation - 1)) > 1.01 * stated
    assert cost((first, first + 1, first + 2)) > 1.01 * stated
