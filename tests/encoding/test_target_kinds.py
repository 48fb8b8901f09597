"""Whether a target consists of labels or of real numbers: from few rows, through noise, for any order of labels."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace

import numpy as np
import pyarrow
import pytest
from alpha import rate
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privol import open_stream
from privol.encoding import PrivateEncoder, plan_encoding
from privol.encoding.histograms import AT_KNOWN
from privol.encoding.learning import EncodingRun
from privol.errors import StreamError
from privol.guarantees import gdp_mu
from privol.noise import make_source
from privol.readers.written import Written

N, RUNS = 20_000, 12
#: A wrong kind is chosen in at most this many runs of each of these targets.
WRONG = 0.02
RNG = np.random.default_rng(0)


def by_place(n):
    """Labels 1 to 7 in stretches; the first rows have three of them."""
    return np.repeat([5, 2, 1, 7, 3, 6, 4], [n // 400, n // 400, n // 400, n // 40, n // 40, n // 20, n])[:n]


def zeros_and(values, share):
    return np.where(RNG.random(N) < share, 0.0, values)


LABELS = {
    "of Covertype, by place": by_place(N),
    "of Covertype": RNG.choice(7, N, p=[0.365, 0.488, 0.061, 0.005, 0.016, 0.03, 0.035]) + 1,
    "digits": RNG.integers(0, 10, N),
    "-1 and 1": RNG.choice([-1, 1], N),
    "far apart": RNG.choice([100, 200, 300, 700], N, p=[0.4, 0.3, 0.2, 0.1]),
}
NUMBERS = {
    "normal": RNG.normal(size=N),
    "0 to 21": np.round(RNG.uniform(0, 21, N), 3),
    "counts": RNG.poisson(20, N),
    "counts with a long tail": RNG.negative_binomial(1.5, 0.008, N),
    "years": RNG.integers(1950, 2020, N),
    "many prices are the same": np.where(
        RNG.random(N) < 0.7, RNG.choice(np.arange(1, 30) - 0.01, N), np.round(RNG.uniform(1, 90, N), 2)
    ),
    "half are 0": zeros_and(np.round(RNG.uniform(20.0, 60.0, N), 2), 0.5),
}


def kind_of(y, epsilon, seed):
    """Return what the first two phases of a run take a target for; they learn nothing else."""
    mu = math.inf if math.isinf(epsilon) else gdp_mu(epsilon, 1e-6)
    plan = plan_encoding(N, 9, mu=mu)
    rows = plan.labels + plan.kinds
    run = EncodingRun((), "y", plan, None if math.isinf(epsilon) else make_source(seed), Written((), "."))
    run.take(pyarrow.record_batch({"y": pyarrow.array([f"{x:g}" for x in y[:rows]]).dictionary_encode()}))
    return "labels" if run.found.target is not None else "numbers"


@pytest.mark.statistical
@pytest.mark.parametrize("name", [*LABELS, *NUMBERS])
def test_labels_and_numbers_are_told_apart(name):
    """In 98 of 100 runs at epsilon 1."""
    right = "labels" if name in LABELS else "numbers"
    y, keys = (LABELS | NUMBERS)[name], np.random.default_rng(1)
    wrong = sum(kind_of(y, 1.0, keys) != right for _ in range(RUNS))
    assert wrong <= stats.binom.isf(rate("encoding.kinds", len(LABELS) + len(NUMBERS)), RUNS, WRONG)


@pytest.mark.parametrize("name", [*LABELS, *NUMBERS])
def test_without_noise_labels_and_numbers_are_always_told_apart(name):
    assert kind_of((LABELS | NUMBERS)[name], math.inf, 0) == ("labels" if name in LABELS else "numbers")


def test_each_row_counts_in_one_cell():
    """Its noise assumes this, whatever the target is: labels, numbers of any kind, texts, nothing."""
    texts = ["1", "2", "1.5", "-3", "1e300", "1e-300", "nan", "x", "", "2020-01-01", "0", "-0.5", None]
    plan = plan_encoding(N, 9, mu=1.0)
    run = EncodingRun((), "y", plan, make_source(0), Written((), "."))
    run.take(pyarrow.record_batch({"y": pyarrow.array(["1", "2"] * plan.labels)[: plan.labels].dictionary_encode()}))
    counted = run._counted["y"]
    for text in texts:
        before = counted.counts.copy()
        run.take(pyarrow.record_batch({"y": pyarrow.array([text], pyarrow.string()).dictionary_encode()}))
        known = text not in ("", None)  # without another column it is the null row, which counts nowhere
        assert (counted.counts - before).sum() == known
        assert (counted.counts - before).max() == known


def test_a_target_that_may_consist_of_labels_is_not_taken_for_real():
    """Nothing follows from one label found among small whole numbers: an error says what to declare."""
    y = np.array(["1"] * 40 + ["2", "3"] * 980)
    rows = pyarrow.table({"a": np.arange(2000.0) % 7, "y": y.tolist()})
    with pytest.raises(StreamError, match=r"only the label '1' was frequent.*classes.*--loss squared"):
        open_stream(rows, target="y", schema=PrivateEncoder(epsilon=math.inf, n_rows=2000, reuse_rows=False))


def test_one_noisy_cell_does_not_turn_labels_into_a_real_target():
    """One of thousands of cells is four deviations high in half a percent of runs; seven such cells are rows."""
    plan = plan_encoding(N, 9, mu=gdp_mu(0.6, 1e-6))
    run = EncodingRun((), "y", plan, make_source(0), Written((), "."))
    texts = ["ill", "well"] * plan.labels
    run.take(pyarrow.record_batch({"y": pyarrow.array(texts[: plan.labels]).dictionary_encode()}))
    std, noisy = plan.noise(1), np.zeros_like(run._counted["y"].counts)
    assert 4.5 * std > 0.05 * plan.kinds, "the share alone would not let it through"
    noisy[AT_KNOWN] = plan.kinds
    for deviations, labels in ((4.5, True), (7.0, False)):
        noisy[-len(run._counted["y"].cells) - 2] = deviations * std  # of fractions, beyond the usual sizes
        assert run._of_labels(noisy, std) is labels


def test_numbers_that_were_found_as_labels_are_within_the_range():
    half = np.where(np.arange(2000) % 2, 0.0, RNG.uniform(20.0, 60.0, 2000))
    rows = pyarrow.table({"a": np.arange(2000.0) % 7, "y": half})
    stream = open_stream(rows, target="y", schema=PrivateEncoder(epsilon=math.inf))
    low, high = stream.schema.target.range
    assert low <= 0.0
    assert high > 40.0


def test_the_share_of_rows_with_a_learnt_label_is_stated():
    """The share of the rows of the next phase, with its noise; the others are null rows."""
    plan = plan_encoding(N, 1, mu=gdp_mu(4.0, 1e-6))
    for share in (1.0, 0.5):
        later = np.where(np.random.default_rng(2).random(N) < share, 1, 3)
        y = np.concatenate([np.arange(plan.labels) % 2, later])[:N]
        rows = pyarrow.table({"a": np.arange(N) % 7 + 0.5, "y": y})
        encoder = PrivateEncoder(epsilon=4.0, random_state=3, reuse_rows=False)
        stream = open_stream(rows, target="y", schema=encoder)
        assert stream.classes == ("0", "1")
        assert encoder.labelled_ == pytest.approx(share, abs=0.1)


def found_among_nulls(y, nulls, seed):
    """Return what a run takes a target for if each of its rows is followed by a given number of null rows."""
    plan = plan_encoding(N, 9, mu=gdp_mu(4.0, 1e-6))
    rows = plan.labels + plan.kinds
    cells = [f"{x:g}" if i % (nulls + 1) == 0 else None for i, x in enumerate(y[:rows])]
    run = EncodingRun((), "y", plan, make_source(seed), Written((), "."), null_rows=True)
    run.take(pyarrow.record_batch({"y": pyarrow.array(cells, pyarrow.string()).dictionary_encode()}))
    return run.found


@pytest.mark.parametrize("nulls", [0, 1, 3])
def test_null_rows_do_not_make_labels_real(nulls):
    """Null rows count nowhere: the share of each label among rows with a target does not change."""
    for seed in range(5):
        found = found_among_nulls(LABELS["-1 and 1"], nulls, seed)
        assert found.target is not None
        assert found.labelled > 0.8
        assert found_among_nulls(NUMBERS["normal"], nulls, seed).target is None


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_rows_with_a_target_are_counted_within_the_noise(adjacency):
    """Replacing a row by another, or by a null row, moves all counts of the phase by at most what its noise covers."""
    plan = plan_encoding(200, 1, mu=50.0, adjacency=adjacency)

    def counts(cells):
        run = EncodingRun(("a",), "y", plan, make_source(0), Written((), "."), null_rows=True)
        seen = []
        run._noisy = lambda exact, std, number: seen.append((exact.copy(), std)) or exact
        rows = [("1", "0"), ("2", "1")] * plan.labels
        rows = [*rows[: plan.labels], cells, *rows[: plan.kinds - 1]]
        columns = {name: pyarrow.array([row[i] for row in rows], pyarrow.string()) for i, name in enumerate("ay")}
        run.take(pyarrow.record_batch({name: cells.dictionary_encode() for name, cells in columns.items()}))
        return seen[1]

    null, other = (None, None), [("1", "0"), ("x", "7"), ("1", None), (None, "1.5"), ("3", "word")]
    (nothing, std), norms = counts(null), []
    for one in other:
        found, _ = counts(one)
        norms.append(np.linalg.norm(found - nothing))
        if adjacency == "replace":
            norms += [np.linalg.norm(found - counts(two)[0]) for two in other]
    assert max(norms) <= std * plan.mu
    # two histograms and the rows with a target: the full charge, or all but a sixth of its square
    assert max(norms) ** 2 == pytest.approx({"replace": 5, "zero_out": 3}[adjacency])
    assert (std * plan.mu) ** 2 == pytest.approx({"replace": 6, "zero_out": 3}[adjacency])


CELLS = st.sampled_from(
    [None, "", "NaN", "0", "1", "-0", "+1", "1.0", "1.5", "-7", "1e308", "5e-324", "1e400", "inf", "yes", "no", "word",
     "1_000", "2026-11-22", "2026-11-22 08:00:00", "1,5", " 1", "x" * 70]
)  # fmt: skip
ROWS = st.tuples(CELLS, CELLS, CELLS)


@settings(max_examples=50, deadline=None)
@given(
    others=st.lists(ROWS, min_size=1, max_size=12),
    mine=st.lists(st.tuples(ROWS, ROWS), min_size=1, max_size=4),
    places=st.permutations(range(16)),
    labels=st.sampled_from([("0", "1"), ("yes", "no"), ("1.5", "word")]),
    regression=st.sampled_from([None, False]),
    only_text=st.sampled_from([(), ("b",)]),
    cut=st.integers(0, 15),
    adjacency=st.sampled_from(["replace", "zero_out"]),
)
def test_rows_of_a_user_move_no_more_where_rows_may_be_null(
    others, mine, places, labels, regression, only_text, cut, adjacency
):
    """Replacing any rows of a user in the phase "kinds" by others or by null rows moves all counts as charged.

    For k rows this is k times what the noise covers for one row; the rows with a target are among the counts, and null
    rows count nowhere.
    """
    plan = replace(plan_encoding(200, 2, mu=50.0, adjacency=adjacency), kinds=16)
    first = [(label,) * 3 for label in labels] * plan.labels
    words = {"regression": regression, "only_text": only_text, "null_rows": True}

    def counts(own, cut=0):
        run = EncodingRun(("a", "b"), "y", plan, make_source(0), Written((), "."), **words)
        seen = []
        run._noisy = lambda exact, std, number: seen.append((exact.copy(), std)) or exact
        rows = [*others, *[(None,) * 3] * 16][:16]
        for place, row in zip(places, own, strict=False):
            rows[place] = row
        rows = [*first[: plan.labels], *rows]
        columns = {name: pyarrow.array([row[i] for row in rows], pyarrow.string()) for i, name in enumerate("aby")}
        batch = pyarrow.record_batch({name: cells.dictionary_encode() for name, cells in columns.items()})
        with contextlib.suppress(StreamError):  # too little is detected
            run.take(batch.slice(0, plan.labels + cut))
            run.take(batch.slice(plan.labels + cut))
        return seen[1]

    null = [(None,) * 3] * len(mine)
    two = null if adjacency == "zero_out" else [row for _, row in mine]
    (found, std), (other, _) = counts([row for row, _ in mine], cut), counts(two)
    histograms = 4  # for three columns, and for the rows with a target
    assert std == pytest.approx(math.sqrt(histograms * (2 if adjacency == "replace" else 1)) / plan.mu)
    assert np.linalg.norm(found - other) <= len(mine) * std * plan.mu
    alone = found - counts(null)[0]
    assert alone.min() >= 0.0
    assert alone.sum() <= histograms * sum(row != (None,) * 3 for row, _ in mine)


def test_surplus_rows_of_users_are_handled_like_null_rows():
    """Two rows of three are surplus, and a text is not a number in them."""
    n, rng = 12_000, np.random.default_rng(1)
    rows = {"x": rng.normal(size=n), "who": np.arange(n) // 3, "y": rng.choice(["no", "yes"], n)}
    user = {"column": "who", "max_rows": 1, "surplus": "null"}
    encoder = PrivateEncoder(epsilon=50.0, declared={"user": user}, rows_per_user=1, random_state=1)
    open_stream(pyarrow.table(rows), target="y", schema=encoder)
    assert encoder.schema_.target.labelled
    assert encoder.labelled_ > 0.8
