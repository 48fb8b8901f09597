"""An audit of the learnt encoding: the exact effect of one row before the noise, and what noise hides in real runs.

The exact part replaces the noise source: it records the counts that the code hands over in each phase, and answers with
the same releases for all neighbours, so that the public part is equal. The other part learns thousands of schemas from
a few rows with real noise, and compares what distinguishes two neighbours with the mu that is charged.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math

import numpy as np
import pandas
import pyarrow
import pytest
import scipy.sparse as sp
from alpha import rate
from exact_encoder import HOSTILE, MIXED, NAMES, N, apart, counted, learn_table, table
from scipy import stats

from privol.encoding import PrivateEncoder, phases, streaming
from privol.encoding.learning import BUCKETS, EncodingRun
from privol.encoding.phases import EncodingPlan
from privol.encoding.schema_parts import Hashed
from privol.encoding.texts import hash_of
from privol.errors import StreamError
from privol.noise import make_source
from privol.streams import learn_schema, open_stream


def moved(phase, at, adjacency, regression=None):
    """Replace a row by each of the hostile ones: return the largest distance of any two, in units of the charge.

    Every phase but that of the row must have the same counts as before, and each distance must be paid for.
    """
    rows, words = table(), {"epsilon": 60.0, "adjacency": adjacency, "regression": regression}
    if regression:
        rows = [(*row[:3], row[0]) for row in rows]
    encoder, base = counted(learn_table(rows), **words)
    (mu, plan), null = (encoder.plan_.mu, encoder.plan_), (None,) * 4
    found = []
    cells = HOSTILE[::2] if adjacency == "zero_out" else HOSTILE  # the first of them makes the null row
    for other in (*((cell,) * 4 for cell in cells), *MIXED, rows[at]):
        _, source = counted(learn_table([*rows[:at], other, *rows[at + 1 :]]), base.released, **words)
        assert source.stds == base.stds
        for i, (mine, theirs) in enumerate(zip(source.counts, base.counts, strict=True)):
            assert i == phase or apart(mine, theirs) == 0.0, (plan.phases[i], other)
        found.append(source.counts[phase])
        if other == null:
            nothing = source.counts[phase]
    charged = base.stds[phase] * mu
    if isinstance(found[0], dict):
        texts = sorted({text for counts in (*found, nothing) for text in counts})
        *found, nothing = (np.array([counts.get(text, 0) for text in texts]) for counts in (*found, nothing))
    known = np.array([*found, nothing])
    known = known[:, (known != nothing).any(axis=0)]
    against = known[-1:] if adjacency == "zero_out" else known
    distances = [float(np.linalg.norm(known - one, axis=1).max()) for one in against]
    assert max(distances) <= charged, (max(distances), charged)
    return max(distances) / charged


def border(plan, phase, last):
    """The number, from 0, of the first or the last row of a phase, by the fields of the plan."""
    ends = list(itertools.accumulate(rows for rows in (plan.labels, plan.kinds, plan.coarse, plan.fine) if rows))
    return ends[phase] - 1 if last else [0, *ends][phase]


# ---- exact neighbours ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
@pytest.mark.parametrize("phase", ["labels", "kinds", "coarse", "fine"])
def test_what_one_row_of_a_table_moves(phase, adjacency):
    """At most the charge, and some two rows attain it: the phase's first row, for "zero_out" its last."""
    names = ["labels", "kinds", "coarse", "fine"]
    plan = counted(learn_table(table()), epsilon=60.0, adjacency=adjacency)[0].plan_
    assert [name for name, _ in plan.phases] == names
    at = names.index(phase)
    assert moved(at, border(plan, at, adjacency == "zero_out"), adjacency) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.slow
def test_what_one_row_moves_where_the_target_is_real():
    plan = counted(learn_table([(*row[:3], row[0]) for row in table()]), epsilon=60.0, regression=True)[0].plan_
    assert [name for name, _ in plan.phases] == ["kinds", "coarse", "fine"]
    for at in range(3):
        assert moved(at, border(plan, at, True), "replace", regression=True) == pytest.approx(1.0, abs=1e-9)


def test_a_row_either_teaches_or_is_passed_on():
    """The rows next to the cut are replaced: each is seen on its own side alone, and no row is lost."""
    rows, words, seen = table(1000), {"epsilon": 60.0}, []

    def learn(given):
        def opened(encoder):
            data = [dict(zip(NAMES, row, strict=True)) for row in given]
            seen.append(open_stream(data, target="y", schema=encoder))

        return opened

    encoder, base = counted(learn(rows), **words)
    cut, known = encoder.plan_.rows, np.concatenate([block.X for block in seen[0]])
    assert (len(known), seen[0].first_row) == (len(rows) - cut, cut + 1)
    for at in (cut - 1, cut):
        other = (*MIXED[1][:3], rows[at][3])
        _, source = counted(learn([*rows[:at], other, *rows[at + 1 :]]), base.released, **words)
        moved_phases = [apart(one, two) > 0.0 for one, two in zip(source.counts, base.counts, strict=True)]
        changed = np.flatnonzero((np.concatenate([block.X for block in seen[-1]]) != known).any(axis=1)).tolist()
        assert (moved_phases, changed) == (([False] * 3 + [True], []) if at < cut else ([False] * 4, [0]))


SPARSE = (
    {}, {0: 0.0}, {0: 1.0}, {1: -1e308}, {2: 5e-324}, {0: math.nan, 5: math.inf}, dict.fromkeys(range(12), 1.0),
    {at: float(at) for at in range(7)}, dict.fromkeys(range(1, 12, 2), 1e-300),
)  # fmt: skip


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_what_one_row_of_votes_moves(adjacency):
    """The same for sparse rows, among them one with 20 stored values of a feature that cancel, and one out of order."""
    base = [([3, 7], [1.0, 1.0])] * 4 + [([4] * 20, [1e16, *[1.0] * 18, -1e16])] * 4
    others = [(list(row), list(row.values())) for row in SPARSE]
    others += [([9, 2], [1.0, 1.0]), ([2, 2, 9], [1.0, -1.0, 1.0]), ([11] * 3, [0.0] * 3)]

    def learnt(rows, given=None):
        columns, values = zip(*rows, strict=True)
        pointers = np.cumsum([0, *map(len, columns)])
        X = sp.csr_array((np.concatenate(values), np.concatenate(columns).astype(int), pointers), shape=(len(rows), 12))
        return counted(lambda encoder: encoder.fit(X), given, epsilon=8.0, adjacency=adjacency)

    encoder, first = learnt([*base, others[0]])
    votes = [learnt([*base[:5], other, *base[5:]], first.released)[1].counts[0] for other in others]
    assert np.array_equal(votes[0], first.counts[0])  # the null row, wherever it is
    pairs = (
        zip(votes, [votes[0]] * len(votes), strict=True)
        if adjacency == "zero_out"
        else itertools.combinations(votes, 2)
    )
    largest = max(itertools.starmap(apart, pairs)) / (first.stds[0] * encoder.plan_.mu)
    assert largest <= 1.0
    assert largest == pytest.approx(1.0, abs=1e-9)


# ---- the same, in whatever form rows arrive -------------------------------------------------------------------------


def masked(kind):
    """Arrays of a declared type: one row with another value, masked in one cell, masked as a whole, or not masked."""
    values = np.random.default_rng(0).integers(0, 2, size=(N, 3)).astype(kind)
    other, one, all_of_it = values.copy(), np.zeros(values.shape, bool), np.zeros(values.shape, bool)
    other[5] = values[5][::-1]
    one[5, 0], all_of_it[5] = True, True
    return [
        np.ma.array(values, mask=False),
        np.ma.array(other),
        np.ma.array(values, mask=one),
        np.ma.array(values, mask=all_of_it),
    ]


def containers(tmp_path):
    """Neighbours in the 6th row, as lists of what ``PrivateEncoder.fit`` or ``learn_schema`` takes."""
    rows = [row[:3] for row in table()]
    others = [(cell,) * 3 for cell in HOSTILE[1::2] if not isinstance(cell, str) or len(cell) < 1000]
    others.append((None,) * 3)
    tables = [rows, *([*rows[:5], other, *rows[6:]] for other in others)]
    found = {f"masked {kind}": masked(kind) for kind in ("bool", "i8", "u1", "f2", "f4", "f8", "U3", "M8[s]", "object")}
    found["list"] = [[list(row) for row in given] for given in tables]
    found["objects"] = [np.array(given, dtype=object) for given in tables]
    found["frame"] = [pandas.DataFrame(given, columns=NAMES[:3], dtype=object) for given in tables]
    texts = [[tuple("" if cell is None else str(cell) for cell in row) for row in given] for given in tables]
    found["text"] = [np.array(given) for given in texts]
    found["arrow"] = [pyarrow.table(dict(zip(NAMES, zip(*given, strict=True), strict=False))) for given in texts]
    found["dictionary"] = [
        pyarrow.table({name: t[name].dictionary_encode() for name in t.column_names}) for t in found["arrow"]
    ]
    for form in ("csv", "jsonl"):
        found[form] = []
        for i, (plain, given) in enumerate(zip(tables, texts, strict=True)):
            path = tmp_path / f"{i}.{form}"
            if form == "csv" and "\x00" in given[5]:  # refused because it is not text, before anything is spent
                continue
            if form == "csv":
                pandas.DataFrame(given, columns=NAMES[:3]).to_csv(path, index=False)
            else:
                cells = [
                    [c if isinstance(c, None | bool | int | float | str) else str(c) for c in row] for row in plain
                ]
                path.write_text("".join(json.dumps(dict(zip(NAMES, row, strict=False))) + "\n" for row in cells))
            found[form].append(path)
    return found


@pytest.mark.slow
def test_the_form_of_input_changes_no_other_row(tmp_path):
    """The sixth row belongs to phase "kinds": it moves this phase by at most the charge, and no other phase."""
    for name, inputs in containers(tmp_path).items():
        base = None
        for data in inputs:
            fit = name not in ("csv", "jsonl")
            learn = (lambda e, d=data: e.fit(d)) if fit else (lambda e, d=data: learn_schema(d, e, target=False))
            encoder, source = counted(learn, base and base.released, epsilon=60.0)
            base = source if base is None else base
            mine, theirs = source.counts, base.counts
            assert apart(mine[0], theirs[0]) <= source.stds[0] * encoder.plan_.mu, (name, str(data)[:200])
            assert all(apart(one, two) == 0.0 for one, two in zip(mine[1:], theirs[1:], strict=True)), (
                name,
                str(data)[:200],
            )


# ---- the checks detect what they should -----------------------------------------------------------------------------


def test_a_phase_boundary_off_by_one_is_detected(monkeypatch):
    """The phases of a plan and their fields, which disagree about the length of a phase by one row."""
    whole = EncodingPlan.phases.fget

    def shifted(plan):
        (labels, n), (kinds, m), *rest = whole(plan)
        return ((labels, n + 1), (kinds, m - 1), *rest)

    plan = counted(learn_table(table()), epsilon=60.0)[0].plan_
    monkeypatch.setattr(EncodingPlan, "phases", property(shifted))
    with pytest.raises(AssertionError, match="labels"):
        moved(1, border(plan, 1, False), "replace")


def test_a_phase_that_reads_another_s_rows_is_detected(monkeypatch):
    kept = EncodingRun._count

    def looks_back(run, phase, batch):
        before, run.last = getattr(run, "last", None), batch.slice(batch.num_rows - 1)
        kept(run, phase, batch)
        if before is not None:
            kept(run, phase, before)

    plan = counted(learn_table(table()), epsilon=60.0)[0].plan_
    monkeypatch.setattr(EncodingRun, "_count", looks_back)
    with pytest.raises(AssertionError, match="coarse"):
        moved(1, border(plan, 1, True), "replace")


@pytest.mark.parametrize("factor", [2 / 3, 3 / 2])
def test_a_wrong_sensitivity_is_detected(monkeypatch, factor):
    """With too little noise the charge is exceeded; with too much, nothing attains it."""
    kept = phases.noise_of
    monkeypatch.setattr(phases, "noise_of", lambda *words: kept(*words) * factor)
    plan = counted(learn_table(table()), epsilon=60.0)[0].plan_
    with pytest.raises(AssertionError):
        assert moved(2, border(plan, 2, False), "replace") == pytest.approx(1.0, abs=1e-9)


# ---- what distinguishes two neighbours ------------------------------------------------------------------------------


class Listening:
    """A real source of noise whose answers are recorded."""

    def __init__(self, source, heard):
        self._source, self._heard = source, heard
        self.private, self.description = source.private, source.description

    def add(self, x, std, **words):
        found = self._source.add(x, std, **words)
        self._heard.append((x.copy(), found))
        return found

    def words(self, **address):
        return self._source.words(**address)


def releases(learn, runs, **words):
    """Return the exact counts of the first phase, its noisy ones in each run, shape (runs, cells), and the mu."""
    keys, noisy, heard = np.random.default_rng(7), [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "make_source", lambda random_state: Listening(make_source(keys), heard))
        for _ in range(runs):
            heard.clear()
            encoder = PrivateEncoder(random_state=0, **words)
            with contextlib.suppress(StreamError):
                learn(encoder)
            noisy.append(heard[0][1])
        return heard[0][0], np.array(noisy), encoder.plan_.mu


def _array(cell):
    X = np.ones((9, 1))
    X[0] = cell
    return lambda encoder: encoder.fit(X)


def _labels(label):
    rows = [{"a": "1", "y": label if i == 0 else ("yes", "no")[i % 2]} for i in range(20)]
    return lambda encoder: learn_schema(rows, encoder, target="y")


def _votes(feature):
    X = sp.csr_array(np.eye(4)[[0, 1, 2, 3, feature]])
    return lambda encoder: encoder.fit(X)


MECHANISMS = {
    "kinds": (_array, (1.0, 1e300), 500),
    "labels": (_labels, ("yes", "no"), 400),
    "votes": (_votes, (0, 1), 1000),
}
EPSILON = 13.0  # mu is 2.3: both errors of the best test are 0.12


def audit(mechanism, adjacency="replace", share=1.0):
    """Learn from two neighbours and check that mu says how well they are distinguished: no better, and no worse.

    The statistic is the projection of the noisy counts onto their difference, which is optimal: it is normal, with the
    variance of the noise, and its means are mu deviations apart. The check compares it with mu as an estimate, and by
    the errors of the threshold test half-way, with the bounds of Clopper and Pearson, which assume no distribution.
    """
    make, (one, other), runs = MECHANISMS[mechanism]
    runs = int(runs * share)
    seen = [releases(make(cell), runs, epsilon=EPSILON, adjacency=adjacency) for cell in (one, other)]
    mu = seen[0][2]
    difference = seen[1][0] - seen[0][0]
    zero, one = (noisy @ difference / np.linalg.norm(difference) for _, noisy, _ in seen)
    wrong = rate("encoding.audit", 3 * len(MECHANISMS))
    spread = math.sqrt((zero.var(ddof=1) + one.var(ddof=1)) / 2)
    estimate = (one.mean() - zero.mean()) / spread
    error = math.sqrt(2 / runs + mu**2 / (4 * (runs - 1)))
    assert abs(estimate - mu) <= stats.norm.isf(wrong / 2) * error, (estimate, mu, error)
    middle = (one.mean() + zero.mean()) / 2
    mistakes = np.count_nonzero(zero > middle), np.count_nonzero(one <= middle)
    most = [stats.beta.isf(wrong, found + 1, runs - found) for found in mistakes]
    assert sum(map(stats.norm.isf, most)) <= mu, (most, mu)


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_neighbours_are_as_distinguishable_as_charged(mechanism):
    audit(mechanism)


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_two_thirds_of_the_noise_are_refused(monkeypatch, mechanism):
    kept = phases.noise_of
    monkeypatch.setattr(phases, "noise_of", lambda *words: kept(*words) * 2 / 3)
    with pytest.raises(AssertionError):
        audit(mechanism, share=0.6)


def test_no_two_releases_share_noise():
    """The phases of one encoder, and the same phase of two: each pair of noise vectors is uncorrelated."""
    rows, noises = table(), []
    keys = np.random.default_rng(3)
    for _ in range(2):
        heard = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                streaming, "make_source", lambda random_state, heard=heard: Listening(make_source(keys), heard)
            )
            PrivateEncoder(epsilon=60.0, random_state=0).fit([list(row) for row in rows])
        noises += [(found - exact) / np.std(found - exact) for exact, found in heard]
    assert len(noises) == 6
    for one, two in itertools.combinations(noises, 2):
        n = min(len(one), len(two))
        if n > 500:
            assert abs(np.dot(one[:n], two[:n])) < 6 * math.sqrt(n)
        else:
            assert not np.array_equal(one[:n], two[:n])


# ---- thresholds ----------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_real_runs_detect_a_category_of_the_visible_share():
    """In 19 of 20, and other buckets only as often as noise alone brings: an error of one deviation is detected."""
    n, columns, runs, words = 500, 40, 50, {"epsilon": 3.0, "delta": 1e-6}
    plan = PrivateEncoder(**words).plan(n, columns, target=False, whole=True)
    rows = plan.coarse + plan.fine
    wanted = math.ceil(plan.visible_share * rows)
    assert 0.1 < plan.visible_share < 0.6
    ours = hash_of("common") % BUCKETS
    rare = [text for text in (f"n{i}" for i in range(2 * n)) if hash_of(text) % BUCKETS != ours]
    cells = ["common"] * (plan.kinds + wanted) + rare
    given = pyarrow.table({f"c{j}": cells[:n] for j in range(columns)})
    keys, seen, others = np.random.default_rng(11), 0, 0
    for _ in range(runs):
        found = dict(PrivateEncoder(random_state=keys, **words).fit(given).schema_.columns)
        hashed = [column for column in found.values() if isinstance(column, Hashed)]
        kept = [(column.reference, *column.kept) for column in hashed]
        seen += sum(ours in buckets for buckets in kept)
        others += sum(len(buckets) for buckets in kept) - sum(ours in buckets for buckets in kept)
    wrong, tries = rate("encoding.thresholds", 6), runs * columns
    chance = stats.norm.cdf(1.645 + (wanted - plan.visible_share * rows) / (math.sqrt(2) * plan.noise(columns)))
    assert stats.binom.ppf(wrong, tries, chance) <= seen <= stats.binom.isf(wrong, tries, chance)
    most = stats.poisson.isf(wrong, 1.5 * tries * BUCKETS * stats.norm.sf(4.5))  # some have a rare text or two
    assert others <= most


def _labels_of_runs(rows, epsilon, runs):
    """Return the plan of such runs, and the labels that each run has found."""
    found, kept, keys = [], EncodingRun._find_labels, np.random.default_rng(5)

    def find(run, number):
        kept(run, number)
        found.append(run._labels)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EncodingRun, "_find_labels", find)
        for _ in range(runs):
            encoder = PrivateEncoder(epsilon=epsilon, random_state=keys)
            with contextlib.suppress(StreamError):
                learn_schema(rows, encoder, target="y")
    return encoder.plan_, found


@pytest.mark.statistical
def test_a_label_passes_as_often_as_its_threshold_says():
    """In real runs, by the stated number of absent texts that pass: 10^-6 over all lengths and alphabets."""
    runs, count = 600, 5
    rows = [{"a": "1", "y": "rare" if i < count else "base"} for i in range(60)]
    plan, found = _labels_of_runs(rows, 13.0, runs)
    std = math.sqrt(2) / plan.mu
    threshold = stats.norm.isf(1e-6 / (128 * 95**4)) * std
    chance = stats.norm.cdf((count - threshold) / std)
    assert 0.2 < chance < 0.8
    wrong, passed = rate("encoding.thresholds", 6), sum("rare" in labels for labels in found)
    # the threshold is rounded up by a step of the grid, which is less than a thousandth of a deviation
    assert stats.binom.ppf(wrong, runs, chance - 1e-3) <= passed <= stats.binom.isf(wrong, runs, chance)
    assert all("base" in labels for labels in found)
    assert not {*itertools.chain(*found)} - {"rare", "base"}


@pytest.mark.statistical
def test_real_runs_find_a_label_of_the_visible_share():
    """In 19 of 20 where the number of rows varies by chance; here it is fixed, which the check allows for."""
    runs, rows = 400, [{"a": "1", "y": "uncommon" if i % 66 == 0 else "base"} for i in range(1200)]
    plan, found = _labels_of_runs(rows, 13.0, runs)
    share, std = plan.visible_label_share, math.sqrt(2) / plan.mu
    assert 0.01 < share < 0.05
    least = stats.norm.isf(1e-6 / (128 * 95**8)) * std
    there = share * plan.labels
    assert there - least == pytest.approx(1.645 * math.sqrt(std**2 + there), rel=1e-6)  # in 19 of 20
    count = sum(row["y"] == "uncommon" for row in rows[: plan.labels])
    chance = stats.norm.cdf((count - least) / std)
    assert 0.02 < chance < 0.98
    wrong, passed = rate("encoding.thresholds", 6), sum("uncommon" in labels for labels in found)
    assert stats.binom.ppf(wrong, runs, chance - 1e-3) <= passed <= stats.binom.isf(wrong, runs, chance)


def test_the_visible_share_of_labels_without_noise_and_without_labels():
    plan = PrivateEncoder(epsilon=math.inf).plan(10_000, 3)
    # three rows are expected, and at least one is there with probability 1 - e^-3
    assert plan.visible_label_share == 3.0 / plan.labels
    assert PrivateEncoder(regression=True).plan(10_000, 3).visible_label_share is None
    assert PrivateEncoder().plan(10_000, 3, target=False).visible_label_share is None
