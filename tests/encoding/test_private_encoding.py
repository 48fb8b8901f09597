"""The cost of a learnt schema: a row moves each histogram of its phase by one cell, and counts in one phase only."""

from __future__ import annotations

import math
import re
import tomllib
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privol.encoding import PrivateEncoder, learning, plan_encoding
from privol.encoding.labels import Labels
from privol.encoding.learning import EncodingRun
from privol.encoding.phases import least_count, noise_of
from privol.encoding.schema_parts import Knots
from privol.errors import BudgetExceeded, InvalidParameter, StreamError
from privol.guarantees import gdp_mu
from privol.ledger import Ledger
from privol.readers.frames import FrameColumns
from privol.readers.written import Written
from privol.streams import Schema, learn_schema, open_stream

NAMES = ("a", "b", "c")
HOSTILE = (
    "", None, "?", "NaN", "inf", "-inf", "1e308", "-1e308", "1e400", "5e-324", "-5e-324", "0", "-0.0", "1", "1.0", "+1",
    "yes", "no", "a new level", "ü", "x" * 10_000, "2026-11-22", "1_000", "0x10", "\x00", "  7  ", "1e-300", "12,5",
)  # fmt: skip


def batch_of(rows):
    columns = [pyarrow.array([row[j] for row in rows], pyarrow.string()).dictionary_encode() for j in range(4)]
    return pyarrow.RecordBatch.from_arrays(columns, [*NAMES, "y"])


class Counting(EncodingRun):
    """Keeps the exact counts of each phase, and continues with those of another run: what is public is the same."""

    def __init__(self, *args, noisy=None, **words):
        self.exact, self.stds, self.noisy = [], [], []
        self._given = noisy
        super().__init__(*args, **words)

    def _noisy(self, counts, std, number):
        self.exact.append(counts.copy())
        self.stds.append(std)
        if self._given is not None:
            return self._given[len(self.exact) - 1]
        noise = np.random.default_rng(number).normal(size=len(counts)) * std
        self.noisy.append(counts + noise)
        return self.noisy[-1]

    def _find_labels(self, number):
        self.texts = self._texts.found()
        self._labels = ("no", "yes")
        self._texts.clear()


def plan(n=4000, adjacency="replace", epsilon=20.0):
    return plan_encoding(n, len(NAMES), mu=gdp_mu(epsilon, 1e-6), adjacency=adjacency)


def rows_of(n, seed=0):
    rng = np.random.default_rng(seed)
    kinds = rng.choice(["red", "green", "blue"], n)
    return [
        (f"{x:.3f}", str(k), str(i % 7), "yes" if x > 0 else "no")
        for i, (x, k) in enumerate(zip(rng.normal(size=n), kinds, strict=True))
    ]


def learn(rows, found, noisy=None):
    run = Counting(NAMES, "y", found, None, Written(learning.MISSING_TEXTS), noisy=noisy)
    assert run.take(batch_of(rows)) == found.rows
    return run


# ---- sensitivity ---------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.data())
def test_one_row_moves_the_histograms_of_its_phase_alone(data):
    """By at most the charged norm: the counts that the code makes for a hostile row in place of any other."""
    adjacency = data.draw(st.sampled_from(["replace", "zero_out"]))
    found = plan(adjacency=adjacency)
    rows = rows_of(found.rows)
    ends = np.cumsum([rows_in for _, rows_in in found.phases]).tolist()
    borders = [0, *(end - 1 for end in ends), *ends[:-1]]  # the first and the last row of each phase
    at = data.draw(st.sampled_from(borders) | st.integers(0, found.rows - 1))
    cells = st.sampled_from(HOSTILE)
    null = (None,) * 4
    other = null if adjacency == "zero_out" else tuple(data.draw(cells) for _ in range(4))
    if data.draw(st.booleans()):
        rows[at] = tuple(data.draw(cells) for _ in range(4))
    one = learn(rows, found)
    two = learn([*rows[:at], other, *rows[at + 1 :]], found, noisy=one.noisy)
    phase, end = 0, found.labels
    for rows_in in (found.kinds, found.coarse, found.fine):
        if at >= end:
            phase, end = phase + 1, end + rows_in
    labels = {text: one.texts.get(text, 0) - two.texts.get(text, 0) for text in {*one.texts, *two.texts}}
    moved = [math.hypot(*labels.values()), *(np.linalg.norm(a - b) for a, b in zip(one.exact, two.exact, strict=True))]
    assert [norm > 0 for norm in moved].count(True) <= 1
    stds = [found.noise(1), *one.stds]
    for which, (norm, std) in enumerate(zip(moved, stds, strict=True)):
        assert which == phase or norm == 0.0
        assert norm <= std * found.mu * (1 + 1e-12)


def test_the_noise_is_no_larger_than_necessary():
    """A row that changes in all columns moves the histograms by the full charge: two thirds would be too little."""
    found = plan()
    rows = rows_of(found.rows)
    other = ("1e-200", "nobody", "1e200", "7")
    for phase, at in enumerate((found.labels, found.labels + found.kinds), start=0):
        one = learn(rows, found)
        two = learn([*rows[:at], other, *rows[at + 1 :]], found, noisy=one.noisy)
        norm = np.linalg.norm(one.exact[phase] - two.exact[phase])
        assert norm == pytest.approx(one.stds[phase] * found.mu, rel=0.2)
        assert norm > one.stds[phase] * found.mu * 2 / 3
    text = {**learn(rows, found).texts}
    rows[0] = (*rows[0][:3], "nobody")
    assert math.hypot(*(text.get(t, 0) - n for t, n in learn(rows, found).texts.items())) >= 1.0


def test_noise_is_rounded_up():
    """Squared, times the square of mu, against the exact square of what moves."""
    for mu in np.random.default_rng(0).uniform(0.01, 2.0, 200).tolist():
        for histograms, adjacency in ((1, "zero_out"), (3, "replace"), (7, "replace")):
            moved = histograms * (2 if adjacency == "replace" else 1)
            assert Fraction(noise_of(histograms, mu, adjacency)) ** 2 * Fraction(mu) ** 2 >= moved


def test_noise_has_the_stated_scale():
    """The counts of empty columns are noise alone: its variance is within 5 standard deviations of the stated one."""
    found = plan_encoding(40_000, 3, mu=0.5)
    run = EncodingRun(NAMES, None, found, None, Written(learning.MISSING_TEXTS))
    source = learning.EncodingRun(NAMES, None, found, learning_source(3), Written(learning.MISSING_TEXTS))
    std = found.noise(3)
    noise = source._noisy(np.zeros(50_000), std, 1)
    assert np.array_equal(run._noisy(np.zeros(3), 0.0, 1), np.zeros(3))
    assert std == pytest.approx(math.sqrt(2 * 3) / 0.5)
    assert abs(noise.var() / std**2 - 1.0) < 5 * math.sqrt(2 / 50_000)
    assert abs(noise.mean()) < 5 * std / math.sqrt(50_000)
    again = source._noisy(np.zeros(50_000), std, 2)
    assert abs(np.corrcoef(noise, again)[0, 1]) < 5 / math.sqrt(50_000)


def learning_source(seed):
    from privol.noise import make_source

    return make_source(seed)


def test_the_plan_uses_only_public_numbers():
    found = plan_encoding(100_000, 10, mu=0.2)
    assert found.noise(10) == pytest.approx(math.sqrt(20) / 0.2, rel=1e-9)
    assert found.noise(10) >= math.sqrt(20) / 0.2
    assert plan_encoding(100_000, 10, mu=0.2, adjacency="zero_out").noise(10) == pytest.approx(math.sqrt(10) / 0.2)
    assert found.rows < 0.12 * 100_000 + 4
    whole = plan_encoding(1000, 10, mu=0.2, whole=True)
    assert 990 <= whole.rows <= 1000
    for words in ({"n_rows": 0}, {"n_columns": 0}, {"mu": 0.0}, {"adjacency": "other"}, {"n_rows": 20}):
        with pytest.raises(InvalidParameter):
            plan_encoding(**{"n_rows": 1000, "n_columns": 3, "mu": 1.0, **words})


# ---- results -------------------------------------------------------------------------------------------------------


def frame(n=20_000, seed=0):
    import pandas

    rng = np.random.default_rng(seed)
    x = rng.normal(50.0, 10.0, n)
    return pandas.DataFrame(
        {
            "age": x,
            "year": rng.integers(1990, 2013, n),
            "income": np.exp(rng.normal(10, 1.5, n)),
            "visit": pandas.date_range("2015-03-01", periods=n, freq="37min").strftime("%Y-%m-%d %H:%M"),
            "size": 1e-7 * rng.uniform(1, 9, n),
            "town": rng.choice(["Oslo", "Bergen", "Narvik", "?"], n, p=[0.5, 0.3, 0.15, 0.05]),
            "same": "x",
            "zero": 0.0,
            "name": [f"person {i}" for i in range(n)],
            "mixed": np.where(rng.random(n) < 0.2, "none", rng.integers(0, 5, n).astype(str)),
            "outcome": np.where(x + rng.normal(0, 5, n) > 50, "ill", "well"),
        }
    )


def test_types_scales_and_labels_are_found():
    encoder = PrivateEncoder(epsilon=2.0, random_state=1)
    table = frame()
    stream = open_stream(table, target="outcome", schema=encoder)
    columns = dict(encoder.schema_.columns)
    assert stream.classes == ("ill", "well")
    assert set(encoder.dropped_) == {"name"}
    assert columns["same"].kept == ()
    assert columns["same"].share == pytest.approx(1.0, abs=0.05)  # from noisy counts
    zero = columns["zero"]
    assert zero == Knots((0.0, 0.0), "apart", "zero", share=zero.share, means=zero.means)
    assert zero.share == pytest.approx(1.0, abs=0.05)
    assert zero.means == pytest.approx((0.0, 0.0), abs=0.05)
    low, *_, high = columns["age"].knots
    assert 20 < low < 40 < 60 < high < 130
    low, *_, high = columns["year"].knots
    assert 1980 <= low <= 1992
    assert 2010 <= high <= 2024
    assert 1e3 < columns["income"].knots[2] < 1e5
    assert columns["visit"].timestamp
    assert 1.40e9 < columns["visit"].knots[0] < 1.44e9
    assert 5e-8 < columns["size"].knots[0] < columns["size"].knots[-1] < 2e-6
    assert len(columns["town"].kept) in (2, 3)
    assert columns["mixed"].missing == "indicator"
    assert columns["age"].missing == "zero"
    assert stream.n_rows == len(table) - encoder.plan_.rows
    blocks = list(stream)
    X = np.concatenate([block.X for block in blocks])
    y = np.concatenate([block.y for block in blocks])
    assert len(X) == stream.n_rows
    assert np.linalg.norm(X, axis=1).max() <= stream.row_bound
    assert np.array_equal(y, (table["outcome"][encoder.plan_.rows :] == "well").to_numpy(float))
    assert stream.first_row == encoder.plan_.rows + 1
    entry = encoder.account_.entry()
    assert (entry.last_row, entry.open, entry.mu_squared >= encoder.plan_.mu**2) == (encoder.plan_.rows, False, True)


def test_a_real_target_is_found():
    table = frame()
    encoder = PrivateEncoder(epsilon=2.0, random_state=1)
    stream = open_stream(table, target="age", schema=encoder)
    assert stream.classes is None
    low, high = encoder.schema_.target.range
    assert 5 < low < 40 < 60 < high < 130
    y = np.concatenate([block.y for block in stream])
    assert np.abs(y).max() <= 1.0
    assert np.corrcoef(y, table["age"][encoder.plan_.rows :])[0, 1] > 0.96  # the tails are clipped


def test_declarations_are_used_as_stated():
    table = frame()
    encoder = PrivateEncoder(
        epsilon=2.0, random_state=1, drop=["name"], declared={"columns": {"age": {"range": [0, 100]}}, "others": "drop"}
    )
    stream = open_stream(table, target="outcome", positive="ill", schema=encoder)
    columns = dict(encoder.schema_.columns)
    assert columns["age"].range == (0.0, 100.0)
    assert (encoder.plan_.labels, encoder.plan_.columns) == (0, 8)
    assert stream.classes == ("not ill", "ill")
    with pytest.raises(StreamError, match="no column 'nobody'"):
        open_stream(table, target="outcome", schema=PrivateEncoder(drop=["nobody"]))


def test_the_file_is_read_as_declared(tmp_path):
    frame(6000).to_csv(tmp_path / "t.csv", index=False, sep="|", header=False, decimal=",")
    names = list(frame(10).columns)
    declared = {"file": {"names": names, "sep": "|", "decimal": ","}, "columns": {"zero": {"drop": True}}}
    declared["target"] = {"column": "outcome", "negative": "well", "positive": "ill"}
    encoder = PrivateEncoder(epsilon=4.0, random_state=1, declared=declared)
    stream = open_stream(tmp_path / "t.csv", schema=encoder)
    assert stream.classes == ("well", "ill")
    assert encoder.plan_.labels == 0
    again = open_stream(tmp_path / "t.csv", schema=encoder.schema_, first_row=encoder.plan_.rows + 1)
    assert np.array_equal(next(iter(stream)).X, next(iter(again)).X)
    assert type(dict(encoder.schema_.columns)["age"]).__name__ == "Knots"  # 12,5 is a number
    for words in ({"sep": ";"}, {"columns": names}, {"target": "age"}, {"positive": "ill"}):
        encoder.ledger = Ledger()
        with pytest.raises(InvalidParameter, match="exclude each other"):
            open_stream(tmp_path / "t.csv", **words, schema=encoder)
        assert not encoder.ledger.entries()


@pytest.mark.parametrize("cuts", [(1,), (7, 100, 101), (3000,)])
def test_chunks_and_formats_do_not_matter(cuts, tmp_path):
    table = frame(6000)
    table.to_csv(tmp_path / "t.csv", index=False)

    def found(data, **words):
        encoder = PrivateEncoder(epsilon=5.0, random_state=2, **words)
        stream = open_stream(data, target="outcome", schema=encoder, block_rows=cuts[0])
        X = np.concatenate([block.X for block in stream])
        return encoder.schema_.to_record()["columns"], X

    texts = table.astype(str)  # as CSV writes them
    columns, X = found(tmp_path / "t.csv")
    other, Z = found(texts)
    assert columns == other
    assert np.array_equal(X, Z)
    with open(tmp_path / "t.csv", "rb") as file:  # read once
        live, W = found(file, n_rows=6000)
    assert live == columns
    assert np.array_equal(W, X)


def test_a_schema_that_was_learnt_is_used_again():
    table = frame()
    encoder = PrivateEncoder(epsilon=2.0, random_state=1)
    first = open_stream(table, target="outcome", schema=encoder)
    record = Schema.from_record(encoder.schema_.to_record())
    assert record == encoder.schema_
    again = open_stream(table, schema=record, first_row=encoder.plan_.rows + 1)
    for a, b in zip(first, again, strict=True):
        assert np.array_equal(a.X, b.X)
        assert np.array_equal(a.y, b.y)
    assert again.conditions == first.conditions
    assert "the schema was learnt from" in again.conditions[0]


# ---- the cost ------------------------------------------------------------------------------------------------------


def test_the_encoding_is_paid_for_before_a_row_is_read():
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    table = frame(5000)
    with pytest.raises(BudgetExceeded):
        open_stream(table, target="outcome", schema=PrivateEncoder(epsilon=1.5, ledger=ledger))
    assert ledger.spent.mu == 0.0
    with pytest.raises(StreamError, match="ended after 5,000 rows"):
        open_stream(
            iter(table.to_dict("records")), target="outcome", schema=PrivateEncoder(n_rows=10**6, ledger=ledger)
        )
    assert ledger.spent.epsilon() == pytest.approx(1.0, rel=1e-6)
    assert not ledger.entries()[0].open


def test_facts_inferred_from_the_data_become_conditions(tmp_path):
    """The separator is not protected unless it is stated; names of columns are public in any case."""
    table = frame(5000)[["age", "town", "outcome"]]
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_json(tmp_path / "t.jsonl", orient="records", lines=True)

    def conditions(file, **words):
        encoder = PrivateEncoder(epsilon=5.0)
        learn_schema(tmp_path / file, encoder, target="outcome", **words)
        return [words for words in encoder.guarantee_.conditions if "inferred from the data" in words]

    (words,) = conditions("t.csv")
    assert words.startswith("the separator, inferred from the data, is the same in neighbouring streams")
    assert conditions("t.csv", sep=",") == []
    assert conditions("t.jsonl") == []


def test_a_learner_of_the_other_rows_costs_no_more():
    from privol import DPFTRL

    ledger = Ledger(epsilon=1.0, delta=1e-6)
    encoder = PrivateEncoder(epsilon=1.0, ledger=ledger, random_state=0)
    stream = open_stream(frame(), target="outcome", schema=encoder)
    learner = DPFTRL(epsilon=1.0, x_bound=stream.row_bound, on_invalid="zero", ledger=ledger).fit_stream(stream)
    assert ledger.spent.epsilon() == pytest.approx(1.0, rel=1e-6)
    assert len(ledger.entries()) == 2
    assert any("the schema was learnt from" in words for words in learner.guarantee_.conditions)
    with pytest.raises(BudgetExceeded):
        DPFTRL(epsilon=0.1, x_bound=1.0, ledger=ledger).fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(BudgetExceeded):  # the same rows again
        DPFTRL(epsilon=0.1, x_bound=stream.row_bound, on_invalid="zero", ledger=ledger).fit_stream(stream)


def test_rows_may_both_teach_and_be_learnt_and_the_costs_add_up():
    from privol import DPFTRL

    table, n = frame(6000), 6000
    ledger = Ledger()
    encoder = PrivateEncoder(epsilon=4.0, reuse_rows=True, ledger=ledger, random_state=1)
    stream = open_stream(table, target="outcome", schema=encoder)
    assert encoder.plan_ == encoder.plan(
        n, len(table.columns) - 1
    )  # all rows, as far as each phase takes a whole number of them
    assert n - 4 < encoder.plan_.rows <= n
    alone = PrivateEncoder(epsilon=4.0, random_state=1)
    assert learn_schema(table, alone, target="outcome") == encoder.schema_
    assert (stream.count_rows(), stream.first_row, stream.beside) == (n, 1, None)
    rows = np.concatenate([block.X for block in stream])
    assert np.array_equal(rows, np.concatenate([block.X for block in open_stream(table, schema=encoder.schema_)]))
    words = {"x_bound": stream.schema.usual_norm, "on_invalid": "zero", "horizon": n}
    DPFTRL(epsilon=3.0, ledger=ledger, random_state=2, **words).fit_stream(stream)
    assert ledger.spent.mu == pytest.approx(math.hypot(gdp_mu(4.0, 1e-6), gdp_mu(3.0, 1e-6)))
    limited = Ledger(epsilon=4.5, delta=1e-6)
    encoder = PrivateEncoder(epsilon=4.0, reuse_rows=True, ledger=limited)
    stream = open_stream(table, target="outcome", schema=encoder)
    with pytest.raises(BudgetExceeded):
        DPFTRL(epsilon=3.0, ledger=limited, **words).fit_stream(stream)


@pytest.mark.parametrize(("epsilon", "reused"), [(0.2, True), (4.0, False), (math.inf, False)])
def test_all_rows_teach_if_the_first_ones_are_too_few(epsilon, reused):
    """The choice depends on public numbers alone, and both ways are within the budget."""
    table, ledger = frame(6000), Ledger()
    encoder = PrivateEncoder(epsilon=epsilon, reuse_rows=None, ledger=ledger, random_state=0, drop=["name", "mixed"])
    n_columns = len(table.columns) - 3
    stream = open_stream(table, target="outcome", schema=encoder)
    assert encoder.reused_ is reused
    first = encoder.plan(6000, n_columns)
    assert (first.visible_share > 0.25) is reused
    assert stream.count_rows() == (6000 if reused else 6000 - first.rows)
    mu = math.inf if math.isinf(epsilon) else gdp_mu(epsilon, 1e-6)
    assert encoder.plan_.mu == pytest.approx(mu / 2 if reused else mu)
    if reused:
        assert (stream.beside, stream.first_row) == (None, 1)
        assert mu * (1 - 1e-9) < math.hypot(encoder.plan_.mu, gdp_mu(encoder.model_epsilon_, 1e-6)) <= mu
    else:
        assert encoder.model_epsilon_ == epsilon
        assert encoder.plan_ == first


def test_rows_of_a_stream_read_once_are_not_used_twice():
    ledger = Ledger()
    encoder = PrivateEncoder(reuse_rows=True, n_rows=6000, ledger=ledger)
    rows = iter(frame(6000).to_dict("records"))
    with pytest.raises(InvalidParameter, match="reads the rows twice"):
        open_stream(rows, target="outcome", schema=encoder)
    assert ledger.spent.mu == 0.0
    assert len(list(rows)) >= 5999  # the first row gives the columns
    with pytest.raises(InvalidParameter, match="reuse_rows must be"):
        open_stream(frame(6000), target="outcome", schema=PrivateEncoder(reuse_rows=1))


def test_an_encoding_lost_in_noise_is_reported():
    """Not of one column: the later phases then have no histogram."""
    encoder = PrivateEncoder(epsilon=0.01, random_state=0)
    with pytest.raises(StreamError, match="no column stood out of the noise of the"):
        encoder.fit(np.ones((50, 1)))
    assert encoder.ledger_.spent.mu == pytest.approx(encoder.plan_.mu)


def test_an_interrupt_is_paid_for(monkeypatch):
    ledger = Ledger()
    encoder = PrivateEncoder(ledger=ledger)

    def struck(self, batch):
        raise KeyboardInterrupt

    monkeypatch.setattr(EncodingRun, "take", struck)
    with pytest.raises(KeyboardInterrupt):
        encoder.learn(FrameColumns(frame(5000)), "outcome", Labels(None, None))
    assert ledger.spent.mu == pytest.approx(encoder.plan_.mu)


def test_a_learnt_schema_is_the_same_as_toml():
    encoder = PrivateEncoder(epsilon=3.0, random_state=0, declared={"columns": {"age": {"range": [0, 100]}}})
    schema = learn_schema(frame(), encoder, target="outcome")
    assert schema.learnt.rows > 19_990
    found = Schema.load(tomllib.loads(schema.to_toml()))
    assert found == schema
    assert [name for name, _ in found.columns] == [name for name, _ in schema.columns]
    without = PrivateEncoder(epsilon=math.inf).fit(frame(500)).schema_
    assert Schema.load(tomllib.loads(without.to_toml())).learnt.mu == math.inf
    with pytest.raises(InvalidParameter, match="schema is for inputs with columns"):
        learn_schema((np.eye(3), None), encoder)


def most_columns(n_rows, mu, share=0.2):
    """How many columns a table may have so that a category with that share of the rows is detected."""

    def seen(columns):
        try:
            return plan_encoding(n_rows, columns, mu=mu).visible_share <= share
        except InvalidParameter:  # too few rows for any
            return False

    low, high = 0, 10**7  # detected with low columns, not with high ones
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if seen(middle) else (low, middle)
    return low


def test_the_page_states_how_many_columns_the_rows_support():
    page = (Path(__file__).parents[2] / "docs" / "encoding.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", page, re.MULTILINE)
    assert len(found) == 4
    for rows, *columns in found:
        n_rows = int(rows.replace(",", ""))
        wanted = [f"{most_columns(n_rows, gdp_mu(epsilon, 1e-6)):,}" for epsilon in (0.1, 1.0, 4.0)]
        assert columns == wanted, (rows, wanted)


@pytest.mark.parametrize("epsilon", [4.0, 20.0, math.inf])
def test_names_are_not_taken_for_categories(epsilon):
    """Values that are all different fill all buckets, and some buckets get twice as many as others by chance."""
    n = 12_000
    table = pyarrow.table({"name": [f"n{k}" for k in range(n)], "town": ["Oslo", "Bergen", "Narvik"] * (n // 3)})
    found = PrivateEncoder(epsilon=epsilon, random_state=0).fit(table)
    assert found.dropped_ == {"name": "no value is frequent: names, row numbers, or a notation that is not read?"}
    assert len(dict(found.schema_.columns)["town"].kept) == 2


def test_a_category_of_the_visible_share_is_detected():
    """Counted without a table: the threshold is exceeded in 95 % of the runs; false alarms below 1e-6."""
    found = plan_encoding(20_000, 9, mu=gdp_mu(2.0, 1e-6))
    rng = np.random.default_rng(0)
    rows, std = found.coarse + found.fine, math.sqrt(2) * found.noise(10)
    seen = found.visible_share * rows + rng.normal(0, std, 4000) > least_count(rows, std)
    assert seen.mean() == pytest.approx(0.95, abs=0.017)
