"""Audits of other programs: correct ones stand, wrong ones fall, evidence is a supermartingale, failures are named."""

from __future__ import annotations

import itertools
import json
import math
import sys

import numpy as np
import pytest
from alpha import rate

from privol.audit import Command, Domain, _of_programs, audit_program
from privol.audit._events import Event, Point, best_event
from privol.audit._evidence import Evidence
from privol.audit._neighbours import given_pair, mutated, pairs_to_try
from privol.errors import InvalidParameter, ProgramFailure

RNG = np.random.default_rng()
SIGNED, UNIT = Domain([-1.0], [1.0]), Domain([0.0], [1.0])
PYTHON = [sys.executable, "-S", "-E", "-c"]


@pytest.fixture(autouse=True)
def _same_noise():
    RNG.bit_generator.state = np.random.default_rng(11).bit_generator.state


class Many:
    """A program that makes many runs at once: ``draw(rows, runs)``."""

    def __init__(self, draw):
        self.many, self.__name__ = draw, draw.__name__

    def __call__(self, rows):
        raise AssertionError("many is there")


def geometric(scale, runs):
    p = -math.expm1(-1 / scale)
    return RNG.geometric(p, (runs, 1)) - RNG.geometric(p, (runs, 1))


@Many
def laplace_sum(rows, runs):  # for values in [-1, 1], at epsilon = 1 under replacement
    return rows.sum() + RNG.laplace(scale=2.0, size=(runs, 1))


@Many
def laplace_sum_add_remove(rows, runs):
    return rows.sum() + RNG.laplace(scale=1.0, size=(runs, 1))


@Many
def gaussian_sum(rows, runs):  # 1-GDP
    return rows.sum() + RNG.normal(scale=2.0, size=(runs, 1))


@Many
def geometric_count(rows, runs):
    return (rows > 0.5).sum() + geometric(1.0, runs)


@Many
def randomized_response(rows, runs):  # e^epsilon = 3
    return np.where(RNG.random((runs, len(rows))) < 0.75, rows[:, 0], 1.0 - rows[:, 0])


@Many
def mean_of_noisy_count(rows, runs):  # sum and count, each with noise for half of epsilon = 1
    total = rows.sum() + RNG.laplace(scale=2.0, size=(runs, 1))
    count = len(rows) + RNG.laplace(scale=2.0, size=(runs, 1))
    return np.hstack([total / np.maximum(count, 1.0), count])


@Many
def laplace_or_rows(rows, runs):  # epsilon = 1, but for a delta of 0.3
    revealed = RNG.random((runs, 1)) < 0.3
    return np.where(revealed, 100.0 * rows.sum(), rows.sum() + RNG.laplace(scale=2.0, size=(runs, 1)))


RIGHT = [
    (laplace_sum, SIGNED, {"epsilon": 1.0}),
    (laplace_sum_add_remove, SIGNED, {"epsilon": 1.0, "adjacency": "add_remove"}),
    (laplace_sum_add_remove, SIGNED, {"epsilon": 1.0, "adjacency": "zero_out"}),
    (gaussian_sum, SIGNED, {"mu": 1.0}),
    (geometric_count, UNIT, {"epsilon": 1.0}),
    (geometric_count, UNIT, {"epsilon": 1.0, "low_bits": True}),  # integers reveal nothing there
    (randomized_response, Domain([0.0], [1.0], levels={0: (0.0, 1.0)}), {"epsilon": math.log(3)}),
    (mean_of_noisy_count, SIGNED, {"epsilon": 1.0, "adjacency": "add_remove"}),
    (laplace_or_rows, SIGNED, {"epsilon": 1.0, "delta": 0.3}),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("program", "domain", "words"), RIGHT)
def test_correct_programs_stand(program, domain, words):
    error = rate("audit.programs", len(RIGHT))
    found = audit_program(program, domain=domain, runs=6_000, error=error, random_state=1, **words)
    assert not found.refuted
    assert (found.runs, found.stages > 2, found.pair is not None) == (6_000, True, True)
    assert found.log_evidence < 5.0
    assert found.epsilon_refuted < found.epsilon
    # most of the claim is found, except for the noisy mean, which divides its budget, and the tails of a Gaussian
    seen = found.mu_lower / found.mu if found.mu else found.epsilon_lower / found.epsilon
    assert seen > (0.3 if program is mean_of_noisy_count else 0.65)
    assert "Nothing here contradicts the claim" in found.sentence()


@Many
def two_thirds(rows, runs):
    return rows.sum() + RNG.laplace(scale=4 / 3, size=(runs, 1))


@Many
def two_thirds_gaussian(rows, runs):
    return rows.sum() + RNG.normal(scale=4 / 3, size=(runs, 1))


@Many
def bounds_of_data(rows, runs):
    width = np.ptp(rows) if len(rows) else 0.0
    return rows.sum() + width * RNG.laplace(size=(runs, 1))


@Many
def public_count(rows, runs):
    return np.hstack([rows.sum() + RNG.laplace(size=(runs, 1)), np.full((runs, 1), float(len(rows)))])


@Many
def mean_of_exact_count(rows, runs):
    return (rows.sum() + RNG.laplace(size=(runs, 1))) / max(1, len(rows))


@Many
def squeezed(rows, runs):  # the noise itself depends on the rows; the mean does not
    return RNG.laplace(scale=1.0 if rows.any() else 3.0, size=(runs, 1))


@Many
def one_of_many(rows, runs):  # noise on every column but the last
    sums = rows.sum(axis=0) + RNG.laplace(scale=50.0, size=(runs, rows.shape[1]))
    sums[:, -1] = rows[:, -1].sum() + RNG.laplace(scale=0.5, size=runs)
    return sums


@Many
def as_many_as_rows(rows, runs):  # the released values are noise, but their number depends on the rows
    return RNG.normal(size=(runs, 1 + len(rows)))


@Many
def often_one(rows, runs):  # one of ten numbers is more frequent, and none of its neighbours
    return np.where(rows.any() & (RNG.random((runs, 1)) < 0.3), 1, RNG.integers(10, size=(runs, 1)))


WRONG = [
    (two_thirds, SIGNED, {"epsilon": 1.0}),
    (two_thirds_gaussian, SIGNED, {"mu": 1.0}),
    (laplace_sum_add_remove, SIGNED, {"epsilon": 1.0}),  # the sensitivity for added rows, where rows are replaced
    (bounds_of_data, SIGNED, {"epsilon": 1.0}),
    (public_count, SIGNED, {"epsilon": 1.0, "adjacency": "add_remove"}),
    (mean_of_exact_count, SIGNED, {"epsilon": 1.0, "adjacency": "add_remove"}),
    (squeezed, UNIT, {"epsilon": 0.5}),
    (squeezed, UNIT, {"epsilon": 0.0, "delta": 0.25}),  # half as much on either side of the middle
    (one_of_many, Domain([0.0] * 20, [1.0] * 20), {"epsilon": 1.0}),
    (as_many_as_rows, UNIT, {"epsilon": 4.0, "adjacency": "add_remove"}),
    (laplace_sum, SIGNED, {"epsilon": 1.0, "low_bits": True}),  # correct for real numbers, not for doubles
    (randomized_response, Domain([0.0], [1.0], levels={0: (0.0, 1.0)}), {"epsilon": 0.7}),
    (laplace_or_rows, SIGNED, {"epsilon": 1.0, "delta": 0.2}),
    (often_one, UNIT, {"epsilon": 1.0}),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("program", "domain", "words"), WRONG)
def test_wrong_programs_fall(program, domain, words):
    found = audit_program(program, domain=domain, random_state=1, **words)
    assert found.refuted
    assert found.runs < 20_000
    assert found.log_evidence >= -math.log(found.error)
    assert "THE CLAIM IS REFUTED" in found.sentence()
    assert found.counts[0] > found.counts[1]


def test_differing_rows_are_found_in_given_tables():
    """Another value shows only if a certain value is there already: no table of extreme rows has it."""

    def program(rows):
        return float(0.37 in rows and rows.max() == 1.0) + RNG.laplace(scale=0.05)

    words = {"domain": UNIT, "epsilon": 1.0, "runs": 6_000, "random_state": 2}
    assert not audit_program(program, **words).refuted
    found = audit_program(program, tables=[np.array([[0.37], [0.5], [0.2]])], **words)
    assert found.refuted
    assert "of a table given" in found.sentence()


def test_a_given_pair_is_the_only_one_tried():
    found = audit_program(laplace_sum_add_remove, domain=SIGNED, epsilon=1.0, pair=([[1.0], [0.3]], [[-1.0], [0.3]]))
    assert (found.refuted, found.pairs, found.pair.at) == (True, 1, 1)
    assert json.loads(found.to_json())["pair"] == {"first": [[1.0], [0.3]], "second": [[-1.0], [0.3]], "at": 1,
                                                   "kind": "given"}  # fmt: skip
    assert audit_program(laplace_sum_add_remove, domain=SIGNED, epsilon=1.0, pair=([[-1.0]], [[1.0]])).refuted
    added = {"adjacency": "add_remove", "pair": ([[0.3]], [[1.0], [0.3]])}
    assert audit_program(laplace_sum_add_remove, domain=SIGNED, epsilon=0.5, **added).refuted


def test_a_program_may_change_its_rows():
    """Every run gets the table as it was: otherwise all but the first would be on zeros, which tell nothing."""

    def program(rows):
        total = rows.sum()
        rows[:] = 0.0
        return total + RNG.laplace(scale=0.1)

    assert audit_program(program, domain=UNIT, epsilon=1.0, runs=1_000, random_state=1).refuted
    together = Many(lambda rows, runs: [[program(rows)] for _ in range(runs)])
    together.many = lambda rows, runs: np.full((runs, 1), program(rows)) + RNG.laplace(scale=0.1, size=(runs, 1))
    assert audit_program(together, domain=UNIT, epsilon=1.0, runs=1_000, random_state=1).refuted


def test_the_same_seeds_give_the_same_audit():
    found = []
    for _ in range(2):
        RNG.bit_generator.state = np.random.default_rng(5).bit_generator.state
        found.append(audit_program(two_thirds, domain=SIGNED, epsilon=1.0, random_state=4).to_json())
    assert found[0] == found[1]


def test_a_time_limit_ends_the_audit_after_a_stage():
    found = audit_program(laplace_sum, domain=SIGNED, epsilon=1.0, runs=100_000, seconds=1e-9, random_state=1)
    assert found.stages == 1
    assert found.runs < 20_000


def test_identical_releases_are_noted():
    found = audit_program(lambda rows: rows.sum(), domain=UNIT, epsilon=1.0, runs=2_000, random_state=1)
    assert found.refuted
    assert "draw noise anew" in found.sentence()


@pytest.mark.parametrize("release", [lambda _: 3.0, len, lambda rows: [0.0] * len(rows)])
@pytest.mark.parametrize("words", [{}, {"runs": 200}, {"pair": ([[0.0], [0.5]], [[1.0], [0.5]])}, {"mu": 1.0}])
def test_identical_releases_on_both_tables_are_noted(release, words):
    claim = {} if "mu" in words else {"epsilon": 1.0}
    found = audit_program(release, domain=UNIT, random_state=1, **{"runs": 500, **claim, **words})
    assert (found.refuted, found.log_evidence, found.event) == (False, 0.0, "")
    assert found.remark.startswith("All runs release the same, on both tables of a pair")
    assert found.sentence().endswith(found.remark)


def test_failures_of_all_runs_are_noted_and_releases_that_vary_on_few_tables_are_not():
    words = {"domain": UNIT, "epsilon": 1.0, "runs": 500, "random_state": 1}
    found = audit_program(lambda _: 1 / 0, failures="count", **words)
    assert (found.refuted, found.remark[:14]) == (False, "All runs fail,")
    assert not audit_program(lambda rows: RNG.laplace() if len(rows) == 2 and all(rows) else 0.0, **words).remark


# ---- evidence -------------------------------------------------------------------------------------------------


ATTAINED = [(0.0, 0.0, 0.3), (1.0, 0.0, 0.2), (0.7, 0.1, 0.25), (3.0, 1e-5, 0.04)]


@pytest.mark.parametrize(("epsilon", "delta", "rare"), ATTAINED)
def test_evidence_has_a_mean_of_one_where_the_claim_is_attained(epsilon, delta, rare):
    """All outcomes of two stages of two pairs of runs, for an event of a correct program that the claim just allows."""
    likely = math.exp(epsilon) * rare + delta
    point, total = Point(epsilon, delta), 0.0
    for outcome in itertools.product(itertools.product((False, True), repeat=2), repeat=4):
        chance = math.prod((likely if a else 1 - likely) * (rare if b else 1 - rare) for a, b in outcome)
        evidence = Evidence()
        for stage in (outcome[:2], outcome[2:]):
            evidence.add(np.array([a for a, _ in stage]), np.array([b for _, b in stage]), point)
        total += chance * math.exp(evidence.log_wealth(lambda _: point))
    assert 1 - 2e-6 < total <= 1.0


@pytest.mark.parametrize(("epsilon", "delta", "rare"), ATTAINED)
def test_evidence_grows_by_nothing_on_average_after_any_stage(epsilon, delta, rare):
    """A mean of 1 is not enough, because an audit ends when it likes: every outcome of a stage, then of the next."""
    likely, point = math.exp(epsilon) * rare + delta, Point(epsilon, delta)
    outcomes = list(itertools.product(itertools.product((False, True), repeat=2), repeat=2))

    def wealth(*stages):
        evidence = Evidence()
        for stage in stages:
            evidence.add(np.array([a for a, _ in stage]), np.array([b for _, b in stage]), point)
        return math.exp(evidence.log_wealth(lambda _: point))

    for first in outcomes:
        after = sum(
            math.prod((likely if a else 1 - likely) * (rare if b else 1 - rare) for a, b in second)
            * wealth(first, second)
            for second in outcomes
        )
        assert after == pytest.approx(wealth(first), rel=1e-10)


@pytest.mark.parametrize("short", [0.0, 1e-9])
def test_claims_are_refuted_where_the_evidence_reaches_one_over_error(short, monkeypatch):
    """Not before, and at once."""
    monkeypatch.setattr(Evidence, "log_wealth", lambda self, _: -math.log(1e-3) - short)
    found = audit_program(laplace_sum, domain=SIGNED, epsilon=1.0, runs=2_000, error=1e-3, random_state=1)
    assert (found.refuted, found.stages == 1, found.epsilon_refuted > 19.0) == (short == 0.0,) * 3
    assert (found.runs == 2_000) == (short > 0.0)


def test_nothing_is_chosen_by_the_runs_that_it_is_tested_on(monkeypatch):
    """Events, thresholds and their risk: all of the past decides, and the confidence is spent once."""
    chosen, tested, risks = [], [], []

    def choosing(first, second, *args, **words):
        event = best_event(first, second, *args, **words)
        chosen.append((event, {*first[:, 1], *second[:, 1]}))
        return event

    def happened(event, released):
        (known,) = [known for one, known in chosen if one is event]
        tested.append(known.isdisjoint(released[:, 1]))
        return true_happened(event, released)

    def bounding(train, test, *, delta, confidence):
        tested.append(all({*train[0], *train[1]}.isdisjoint(values) for values in test))
        risks.append(1.0 - confidence)
        return true_bounds(train, test, delta=delta, confidence=confidence)

    true_happened, true_bounds = Event.happened, _of_programs.bounds
    monkeypatch.setattr(Event, "happened", happened)
    monkeypatch.setattr(_of_programs, "best_event", choosing)
    monkeypatch.setattr(_of_programs, "bounds", bounding)
    found = audit_program(gaussian_sum, domain=SIGNED, mu=1.0, runs=3_000, random_state=1)
    assert found.stages > 2
    assert len(tested) == 3 * found.stages
    assert all(tested)
    assert len(risks) == found.stages
    assert sum(risks) < 1.0 - found.confidence


def test_evidence_falls_with_the_claim():
    evidence = Evidence()
    evidence.add(np.arange(100) < 70, np.arange(100) % 7 == 0, Point(0.5, 0.0))
    wealth = [evidence.log_wealth(lambda _, x=x: Point(x, 0.0)) for x in (0.0, 0.5, 1.0, 1.6, 4.0)]
    assert sorted(wealth, reverse=True) == wealth
    assert wealth[0] > 10.0 > 0.0 > wealth[-1]
    assert Evidence().log_wealth(lambda _: Point(0.0, 0.0)) == 0.0


def test_events_see_the_last_bits():
    draw = RNG.laplace(size=4000)
    tables = [np.column_stack([np.ones(4000), shift + draw]) for shift in (0.0, 1.0)]
    point = [Point(1.0, 0.0)]
    blind = best_event(*tables, point, low_bits=False, z=2.0)
    seen = best_event(*tables, point, low_bits=True, z=2.0)
    assert blind.growth < 0.0 < seen.growth
    assert "last bit" in seen.sentence()
    happened = [seen.happened(table).mean() for table in tables]
    assert min(happened) == 0.0
    assert max(happened) > 0.1


# ---- neighbouring tables --------------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ["replace", "add_remove", "zero_out"])
def test_pairs_are_neighbours_in_the_domain(adjacency):
    domain = Domain([-2.0, 0.0, 1.0], [1.0, 5.0, 3.0], norm=4.0, levels={2: (1.0, 3.0)})
    sizes = (0, 1, 5) if adjacency == "add_remove" else (1, 2, 5)
    given = [np.array([[0.5, 0.5, 1.0], [0.1, 0.0, 1.0]])]
    pairs = pairs_to_try(domain, adjacency=adjacency, sizes=sizes, tables=given, at_most=80, rng=RNG)
    assert 60 <= len(pairs) <= 80
    assert {len(pair.first) for pair in pairs} == {*sizes, 2}
    for pair in pairs:
        again = given_pair(pair.first, pair.second, 3, adjacency)
        assert np.array_equal(again.first, pair.first)
        changed = {pair.at - 1} if adjacency == "zero_out" else set()
        assert all(domain.has(row) for k, row in enumerate(pair.first) if k not in changed)
        assert all(domain.has(row) for row in pair.second)
    assert any(len(np.unique(pair.second, axis=0)) == 1 for pair in pairs if len(pair.second) > 1)  # all equal
    ends = np.concatenate([pair.second[pair.at - 1] for pair in pairs])
    assert {-2.0, 1.0, 3.0} <= set(ends)
    for pair in (mutated(pair, domain, adjacency, RNG) for pair in pairs for _ in range(4)):
        again = given_pair(pair.first, pair.second, 3, adjacency)
        assert np.array_equal(again.second, pair.second)
        assert all(domain.has(row) for row in pair.second)


@pytest.mark.parametrize(
    ("first", "second", "adjacency", "words"),
    [
        ([[0.0]], [[math.nan]], "replace", "row 1 of the second table is not finite"),
        ([[0.0]], [[math.inf]], "zero_out", "row 1 of the second table is not finite"),
        ([[0.0, 1.0]], [[0.0]], "replace", "rows of 1 numbers each"),
        ([["a"]], [[0.0]], "replace", "rows of 1 numbers each"),
        ([[0.0]], [[0.0]], "replace", "found 0 that differ"),
        ([[0.0], [1.0]], [[1.0], [0.0]], "replace", "found 2 that differ"),
        ([[0.0]], [[0.0], [1.0]], "replace", "equally many rows, found 1 and 2"),
        ([[0.0]], [[1.0]], "add_remove", "but for one row that only one of them has"),
        ([[0.5]], [[1.0]], "zero_out", "row 1 must be zeros"),
    ],
)
def test_invalid_pairs_are_refused(first, second, adjacency, words):
    with pytest.raises(InvalidParameter, match=words):
        audit_program(laplace_sum, domain=UNIT, epsilon=1.0, pair=(first, second), adjacency=adjacency)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({}, "epsilon must be given, or mu"),
        ({"epsilon": 1.0, "mu": 1.0}, "two claims"),
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta must be"),
        ({"epsilon": 1.0, "adjacency": "remove"}, "adjacency must be one of"),
        ({"epsilon": 1.0, "sizes": (0,)}, r"sizes\[0\] must be an integer of at least 1"),
        ({"epsilon": 1.0, "sizes": ()}, "no pair of neighbouring tables"),
        ({"epsilon": 1.0, "tables": [[[math.nan]]]}, "row 1 of table 1 is not finite"),
        ({"epsilon": 1.0, "tables": [[]]}, "sizes has the empty one"),
        ({"epsilon": 1.0, "runs": 199}, "runs must be"),
        ({"epsilon": 1.0, "error": 0.0}, "error must be"),
        ({"epsilon": 1.0, "failures": "ignore"}, "failures must be one of"),
        ({"epsilon": 1.0, "domain": Domain([1.0], [1.0])}, "domain has one row only"),
    ],
)
def test_parameters_are_checked(words, message):
    with pytest.raises(InvalidParameter, match=message):
        audit_program(laplace_sum, **{"domain": UNIT, **words})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (((), ()), "one value for each column, found 0 and 0"),
        (((0.0,), (1.0, 2.0)), "found 1 and 2"),
        (((0.0, 2.0), (1.0, 1.0)), r"high\[1\] must be a finite number of at least 2"),
        (((math.nan,), (1.0,)), r"low\[0\]"),
        (((0.0,), (1.0,), 0.0), "norm must be"),
        (((3.0, 4.0), (9.0, 9.0), 4.9), "norm must be at least that of the shortest row, 5, found 4.9"),
        (((0.0,), (1.0,), None, {1: (0.0,)}), "column of levels must be"),
        (((0.0,), (1.0,), None, {0: ()}), "at least one value"),
        (((0.0,), (1.0,), None, {0: (2.0,)}), "levels of column 0 must be"),
    ],
)
def test_domains_are_checked(words, message):
    with pytest.raises(InvalidParameter, match=message):
        Domain(*words)


# ---- programs that fail -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "words"),
    [
        (lambda _: [], "released nothing"),
        (lambda _: math.nan, "released nan as value 1"),
        (lambda _: [1.0, math.inf], "released inf as value 2"),
        (lambda _: "much", "what is not numbers: 'much'"),
        (lambda _: 1 / 0, "failed: ZeroDivisionError"),
        (Many(lambda rows, runs: np.zeros((runs + 1, 1))), "results for 24 runs"),
    ],
)
def test_callables_that_fail_are_named(release, words):
    with pytest.raises(ProgramFailure, match=words):
        audit_program(release, domain=UNIT, epsilon=1.0, random_state=1)


def no_empty_tables(rows):
    if not len(rows):
        raise ValueError("no rows")
    return rows.sum() + RNG.laplace()


def test_failures_may_be_skipped_or_counted():
    words = {"domain": UNIT, "epsilon": 1.0, "adjacency": "add_remove", "runs": 2_000, "random_state": 1}
    with pytest.raises(ProgramFailure, match="empty table") as raised:
        audit_program(no_empty_tables, **words)
    assert "tables of 0 and 1 rows" in raised.value.__notes__[0]
    found = audit_program(no_empty_tables, failures="skip", **words)
    assert not found.refuted
    assert found.skipped
    assert "ValueError: no rows" in found.sentence()
    counted = audit_program(no_empty_tables, failures="count", **words)
    assert counted.refuted
    assert "the run failed" in counted.sentence()
    with pytest.raises(ProgramFailure, match="fails on all pairs"):
        audit_program(no_empty_tables, sizes=(0,), failures="skip", **{**words, "domain": UNIT})


def test_objects_that_are_not_programs_are_refused():
    with pytest.raises(InvalidParameter, match="must be a callable or a Command"):
        audit_program("python", domain=UNIT, epsilon=1.0)


# ---- commands -----------------------------------------------------------------------------------------------------

ECHO = "import sys, json\nfor line in sys.stdin: print(line, end='')"
LAPLACE = (
    "import json, random, sys\n"
    "draw = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else None).expovariate\n"
    "for line in sys.stdin:\n"
    "    request = json.loads(line)\n"
    "    total = sum(row[0] for row in request['rows'])\n"
    "    for _ in range(request['runs']): print(json.dumps({'sum': total + draw(1) - draw(1)}))\n"
    "    sys.stdout.flush()"
)


@pytest.mark.process
def test_rows_come_to_a_command_as_they_are():
    rows = np.array([[0.1, -1e-300], [2.0**60, 1 / 3]])
    assert [one.tolist() for one in Command([*PYTHON, ECHO]).released(rows, 2)] == [rows.ravel().tolist()] * 2
    by_commas = Command([*PYTHON, "import sys, json\nprint(json.dumps(sys.stdin.read()))"], rows="csv")
    with pytest.raises(ProgramFailure, match=r"0\.1,-1e-300.n1\.152921504606847e\+18,0\.3333333333333333"):
        by_commas.released(rows, 1)
    seeds = Command([*PYTHON, "import sys; print(int(sys.argv[1]) % 2**50)", "{seed}"], random_state=1)
    assert len({float(one[0]) for one in seeds.released(rows, 3)}) == 3
    assert Command([*PYTHON, "print(1); print('[[2], {\"a\": true}]')"]).released(rows[:0], 1)[0].tolist() == [
        1.0,
        2.0,
        1.0,
    ]


@pytest.mark.process
@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import sys; print('bad luck', file=sys.stderr); sys.exit(3)", "ended with code 3; it said last: bad luck"),
        ("pass", "printed nothing"),
        ("print('nothing')", "printed what is not JSON: 'nothing'"),
        ("print('[1, null]')", "released what is not a number: null"),
        ("print('[]')", "released nothing"),
        ("print('NaN')", "released nan as value 1"),
        ("print(-10**400)", "released -inf as value 1"),
        ("print('[' * 3000)", "printed what is not JSON"),
        ("import time; time.sleep(600)", "took longer than 0.5 s"),
    ],
)
def test_commands_that_fail_are_named(program, words):
    patience = 0.5 if "sleep" in program else 60.0
    with pytest.raises(ProgramFailure, match=words) as raised:
        audit_program(Command([*PYTHON, program], timeout=patience), domain=UNIT, epsilon=1.0, name="mine")
    assert "'mine', given 1 row" in str(raised.value)


@pytest.mark.process
@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import sys; print('bad luck', file=sys.stderr); sys.exit(3)", "code 3 after 0 of 5 runs; it said last: bad"),
        ("print(1, flush=True); print(2, flush=True)", "ended with code 0 after 2 of 5 runs"),
        ("print('1\\n' * 6, flush=True); input(); input()", "more than one line for each of 5 runs"),
        ("print('much\\n' * 5, flush=True); input(); input()", "what is not JSON: 'much'"),
        ("print(1, flush=True)\nimport time; time.sleep(600)", r"took longer than 1 s \(1 of 5 runs came\)"),
        ("import time; time.sleep(600)", "took longer than 1 s"),
    ],
)
def test_commands_that_answer_wrongly_are_named(program, words):
    patience = 1.0 if "sleep" in program else 60.0
    rows = np.zeros((30_000 if "sleep" in program else 1, 1))  # more than a pipe holds, and nobody waits for the reader
    with (
        Command([*PYTHON, program], requests=True, timeout=patience) as command,
        pytest.raises(ProgramFailure, match=words),
    ):
        command.released(rows, 5)


@pytest.mark.process
def test_a_command_that_answers_requests_is_audited():
    command = Command([*PYTHON, LAPLACE, "{seed}"], requests=True, random_state=7)
    words = {"epsilon": 1.0, "runs": 4_000, "random_state": 1}
    assert audit_program(command, domain=SIGNED, **words).refuted
    assert not audit_program(command, domain=UNIT, **words).refuted


def test_commands_are_checked():
    for wrong, words in ((("",), "must name a program"), (([],), "must name"), (("'",), "cannot be split")):
        with pytest.raises(InvalidParameter, match=words):
            Command(*wrong)
    with pytest.raises(InvalidParameter, match="rows must be one of"):
        Command("x", rows="xml")
    with pytest.raises(InvalidParameter, match="timeout"):
        Command("x", timeout=0.0)
    with pytest.raises(ProgramFailure, match="cannot be started: No such file"):
        audit_program(Command("./no-such-program"), domain=UNIT, epsilon=1.0)
