"""One row never changes how a learner reads another, whatever a row or a label holds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hostile import (
    ANY,
    BIG,
    COLUMNS,
    KINDS,
    ODD_ROWS,
    PLACES,
    ROWS,
    SIDES,
    TABLES,
    UNREADABLE,
    N,
    Raises,
    changed,
    grid,
    pandas,
    same,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from privol import DOLA, DPFTRL, NOGD, PQFTL, ObjectivePerturbation, OutputPerturbation, evaluate
from privol._values import numbers_of, shown
from privol.distributed import InterleavedRows
from privol.errors import InvalidParameter, InvalidRow
from privol.learners._ledgered import FOUND_FEATURES
from privol.learners.views import fresh_copy
from privol.prefix import PrefixSum, SymmetricSum
from privol.streams import Block
from privol.tuning import PrivateSelection

polars = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.filterwarnings("ignore::privol.errors.PrivacyWarning")


class Seen(NOGD):
    """Records what its kernel receives."""

    def _learn(self, run, X, targets, *rest):
        vars(self).setdefault("seen", []).append((np.array(X, dtype=np.float64), np.array(targets)))
        super()._learn(run, X, targets, *rest)

    def encoded(self):
        return (np.concatenate(parts) for parts in zip(*self.seen, strict=True))


def learner(kind=Seen, **words):
    return kind(**{"random_state": 0, "on_invalid": "zero", "horizon": 2 * N, **words})


def by_fit(made, X, y):
    return made.fit(X, y)


def by_partial_fit(made, X, y):
    """After a first block, whose width is the run's."""
    first = [0.0, 0.0]
    return made.partial_fit([first], [made._declared[0]]).partial_fit(X, y)


LEARN = {"fit": by_fit, "partial_fit": by_partial_fit}


def labels(kind):
    return [KINDS[kind][side] for side in SIDES]


# ---- learners: the content of a row affects that row alone -----------------------------------------------------


@pytest.mark.parametrize("learn", LEARN)
@pytest.mark.parametrize("table", TABLES)
@settings(max_examples=25)
@given(at=PLACES, j=st.integers(0, 1), cell=ANY)
def test_a_cell(learn, table, at, j, cell):
    """The kernel receives the same bits for other rows; a value that is not a number makes a null row."""
    rows = changed(ROWS, at, changed(ROWS[at], j, cell))
    found, plain = (learner().declare_classes([0, 1]) for _ in range(2))
    LEARN[learn](found, TABLES[table](rows), SIDES)
    LEARN[learn](plain, ROWS, SIDES)
    same(found.encoded(), plain.encoded(), at)


@pytest.mark.parametrize("learn", LEARN)
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(at=PLACES, label=ANY)
def test_a_label(learn, column, kind, at, label):
    found, plain = (learner().declare_classes(KINDS[kind]) for _ in range(2))
    LEARN[learn](found, ROWS, COLUMNS[column](changed(labels(kind), at, label)))
    LEARN[learn](plain, ROWS, labels(kind))
    same(found.encoded(), plain.encoded(), at)


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
@settings(max_examples=40)
@given(at=PLACES, target=ANY)
def test_a_real_target(learn, at, target):
    targets = [float(side) for side in SIDES]
    found, plain = (learner(loss="squared", y_bound=2.0) for _ in range(2))
    for made, y in ((found, changed(targets, at, target)), (plain, targets)):
        made.fit(ROWS, y) if learn == "fit" else made.partial_fit([[0.0, 0.0]], [0.0]).partial_fit(ROWS, y)
    same(found.encoded(), plain.encoded(), at)


@pytest.mark.parametrize("learn", LEARN)
@settings(max_examples=30)
@given(at=PLACES, row=ODD_ROWS)
def test_a_row_of_another_shape(learn, at, row):
    """How many values the rows have is public; how many one of them has is not."""
    found, plain = (learner().declare_classes([0, 1]) for _ in range(2))
    LEARN[learn](found, changed(ROWS, at, row), SIDES)
    LEARN[learn](plain, ROWS, SIDES)
    same(found.encoded(), plain.encoded(), at)
    null = learner().declare_classes([0, 1])
    LEARN[learn](null, changed(ROWS, at, [math.nan, 0.0]), SIDES)
    assert found.coef_.tobytes() == null.coef_.tobytes()


# ---- releases differ as if the row were the null row -----------------------------------------------------------


def of_prefix(rows, _):
    return PrefixSum(dim=2, horizon=N, random_state=0, on_invalid="zero").add_block(rows)


def of_vectors(rows, _):
    sums = PrefixSum(dim=2, horizon=N, random_state=0, on_invalid="zero")
    return np.array([sums.add(row) for row in rows])


def of_matrices(rows, _):
    sums = SymmetricSum(dim=2, horizon=N, random_state=0, on_invalid="zero")
    return sums.add_block([[row, [0.0, 1.0]] for row in rows])


def of_products(rows, _):
    return SymmetricSum(dim=2, gram=True, horizon=N, random_state=0, on_invalid="zero").add_block(rows)


def of_single_rows(rows, y):
    made = learner().declare_classes([0, 1])
    for row, label in zip(rows, y, strict=True):
        made.learn_one(row, label)
    return made.coef_


class OwnStream:
    """A caller's own stream whose blocks are lists."""

    n_rows, n_features, classes, rows_per_user, conditions = N, 2, (0, 1), None, ()

    def __init__(self, rows, y):
        self.block = Block(grid(rows), list(y), 1)

    def __iter__(self):
        yield self.block


def of_learner(kind, **words):
    def coef(rows, y):
        return learner(kind, **words).declare_classes([0, 1]).fit(rows, y).coef_

    return coef


def of_selection(rows, y):
    candidates = [
        OutputPerturbation(delta=0.0, on_invalid="zero", l2=l2).declare_classes([0, 1]) for l2 in (0.1, 1.0)
    ]  # fmt: skip
    chosen = PrivateSelection(candidates, repetitions=3.0, validation=0.4, random_state=1).fit(rows, y)
    return np.append(chosen.best_estimator_.coef_, chosen.best_score_)


RELEASES = {
    "PrefixSum": of_prefix,
    "PrefixSum.add": of_vectors,
    "SymmetricSum": of_matrices,
    "gram": of_products,
    "learn_one": of_single_rows,
    "DPFTRL": of_learner(DPFTRL),
    "ObjectivePerturbation": lambda rows, y: offline(ObjectivePerturbation, rows, y),
    "OutputPerturbation": lambda rows, y: offline(OutputPerturbation, rows, y),
    "PrivateSelection": of_selection,
    "fit_stream": lambda rows, y: learner().fit_stream(OwnStream(rows, y)).coef_,
    "offline fit_stream": lambda rows, y: offline(OutputPerturbation, rows, y, OwnStream),
    "tape": lambda rows, y: learner().fit_stream(evaluate.Tape(OwnStream(np.ma.array(rows), y))).coef_,
    "PrivateMetrics": lambda rows, y: metrics_of(OwnStream(rows, y)),
    "delayed metrics": lambda rows, y: metrics_of(OwnStream(rows, y), delay=3),
    "nodes": lambda rows, y: of_nodes(OwnStream(rows, y)),
}  # fmt: skip


def offline(kind, rows, y, stream=None):
    made = kind(random_state=0, on_invalid="zero").declare_classes([0, 1])
    return (made.fit(rows, y) if stream is None else made.fit_stream(stream(rows, y))).coef_


def of_nodes(stream):
    made = DOLA(nodes=1, random_state=0, on_invalid="zero")
    return made.fit_stream(InterleavedRows([stream], rounds=2)).coef_


def metrics_of(stream, delay=0):
    private = evaluate.PrivateMetrics(mu=1.0, windows=2, random_state=0)
    found = evaluate.progressive(learner(horizon=N), stream, private=private, delay=delay).private
    return np.array([(window.first, window.loss) for window in found.windows])


@pytest.mark.parametrize("name", [name for name in RELEASES if name != "tape"])
@settings(max_examples=25)
@given(at=PLACES, j=st.integers(0, 1), cell=UNREADABLE)
def test_what_is_no_number_is_the_null_row(name, at, j, cell):
    release = RELEASES[name]
    found = release(changed(ROWS, at, changed(ROWS[at], j, cell)), SIDES)
    null = release(changed(ROWS, at, [math.nan, math.nan]), SIDES)
    assert found.tobytes() == null.tobytes()


@pytest.mark.parametrize("name", [name for name in RELEASES if "Sum" not in name and name != "gram"])
@settings(max_examples=25)
@given(at=PLACES, label=UNREADABLE)
def test_what_is_no_label_is_the_null_row(name, at, label):
    release = RELEASES[name]
    found = release(ROWS, changed(SIDES, at, label))
    null = release(ROWS, changed(SIDES, at, math.nan))
    assert found.tobytes() == null.tobytes()


def test_what_is_masked_is_missing():
    """The value under the mask is never used."""
    masked = np.ma.array(ROWS, mask=np.zeros((N, 2), dtype=bool))
    masked[2, 1] = masked[5, 0] = np.ma.masked
    rows = np.array(ROWS)
    rows[2, 1] = rows[5, 0] = math.nan
    masked.harden_mask()
    sides = np.ma.array(SIDES, mask=np.arange(N) == 4)
    y = np.where(np.arange(N) == 4, math.nan, SIDES)
    for name, release in RELEASES.items():
        expected = release(rows, y)
        for single in (np.float64, np.float32):
            assert release(masked.astype(single), sides).tobytes() == expected.tobytes(), name
    for made in (learner().fit(masked, np.ma.array(SIDES)), learner(loss="squared").fit(masked, sides)):
        for predict in (made.predict, made.predict_one):
            with pytest.raises(ValueError, match="NaN"):
                predict(masked if predict == made.predict else masked[2])
    for words in ({}, {"loss": "squared"}):
        with pytest.raises(InvalidRow, match="row 3, feature 1: found NaN"):
            NOGD(**words).fit(masked, np.ma.array(SIDES, dtype=float))
        with pytest.raises(InvalidRow, match="row 5, target: found"):
            NOGD(**words).declare_classes([0, 1]).fit(ROWS, sides)


# ---- where rows are refused, the error belongs to the row ------------------------------------------------------


NAMING = [name for name in RELEASES if "metrics" not in name.lower() and name not in ("tape", "nodes")]


@pytest.mark.parametrize("name", NAMING)
def test_the_refused_row_is_named(name, monkeypatch):
    release = RELEASES[name]
    monkeypatch.setitem(globals(), "learner", lambda kind=Seen, **words: kind(random_state=0, horizon=N, **words))
    for kind in (PrefixSum, SymmetricSum, OutputPerturbation, ObjectivePerturbation):
        monkeypatch.setitem(globals(), kind.__name__, refusing(kind))
    for bad in ("?", [1.0], 1j, Raises()):
        with pytest.raises(InvalidRow) as caught:
            release(changed(ROWS, 3, [0.5, bad]), SIDES)
        assert caught.value.row == 4


def refusing(kind):
    return lambda **words: kind(**{**words, "on_invalid": "raise"})


def test_messages_about_refused_rows():
    made = NOGD(horizon=9).partial_fit([[0, 1]], [1], classes=[0, 1])
    for rows, y, words in (
        ([[0, 1], [1, "?"]], [0, 1], r"row 3, feature 1: found '\?', allowed are real numbers \(could not convert"),
        ([[0, 1], [1, 1j]], [0, 1], r"row 3, feature 1: found 1j, allowed are real numbers"),
        ([[0, 1], [1, {}]], [0, 1], "argument must be a string or a real number"),
        ([[0, 1], [1]], [0, 1], "row 3: found 1 values, allowed are 2 numbers; nothing of its block was learnt"),
        ([None, [1, 2]], [0, 1], "row 2: found None, allowed are 2 numbers"),
        ([[0, 1], [1, 2]], [0, [1, 0]], r"row 3, target: found label \[1, 0\], allowed are \[0, 1\]"),
        ([[0, 1], [1, math.nan]], [0, 1], "row 3, feature 1: found NaN"),
    ):
        with pytest.raises(InvalidRow, match=words):
            made.partial_fit(rows, y)
    with pytest.raises(InvalidRow, match="row 2: found 3 values, allowed are 2 numbers"):
        made.learn_one([1, 2, 3], 1)
    with pytest.raises(InvalidRow, match="row 2, feature 0: found 'x'"):
        made.learn_one(["x", 2], 1)
    assert made.n_rows_ == 1
    with pytest.raises(InvalidRow, match=r"row 2, target: found '\?', allowed are finite numbers"):
        NOGD(loss="squared").fit([[0, 1], [1, 1]], [0.5, "?"])
    for rows in ([[1, 2], [1]], [[1, 2], [1], [1, 2, 3]]):
        with pytest.raises(InvalidParameter, match="rows must have one number of values, which is public"):
            NOGD().fit(rows, [0, 1, 1][: len(rows)])


def test_labels_that_fit_finds():
    X = np.eye(4)
    with pytest.raises(InvalidParameter, match=r"y must hold labels of one kind, found numbers such as 1 and text"):
        NOGD(on_invalid="zero").fit(X, [0, 1, "?", 1])
    with pytest.raises(InvalidRow, match="row 3, target: found NaN, allowed are two labels"):
        NOGD().fit(X, [0, 1, None, 1])
    with pytest.raises(InvalidRow, match=f"row 2, target: found {2**70}, allowed are two labels"):
        NOGD().fit(X, np.array([0, 2**70, 1, 1], dtype=object))
    with pytest.raises(InvalidParameter, match="y must hold two classes, found none"):
        NOGD(on_invalid="zero").fit(X, [None] * 4)
    with pytest.raises(InvalidParameter, match="classes must be of one kind"):
        NOGD(horizon=4).partial_fit(X, [0, 1, 0, 1], classes=[0, "a"])
    for classes in (
        [0, None],
        [0, math.nan],
        ["a", None],
        np.array([0.0, math.nan]),
        np.array([0, None], dtype=object),
    ):
        with pytest.raises(InvalidParameter, match="classes must be numbers or text"):
            NOGD(horizon=4).partial_fit(X, [0, 1, 0, 1], classes=classes)
    for y in ([0, 1, None, 1], [0, 1, 1j, 1], [0, 1, 2**70, 1], [0, 1, [], 1]):
        assert NOGD(on_invalid="zero", horizon=4).fit(X, y).classes_.tolist() == [0, 1]
    assert NOGD(horizon=2).fit(X[:2], [True, False]).classes_.dtype == bool
    declared = NOGD(horizon=2, random_state=0).declare_classes([2**70, 2**70 + 1]).fit(X[:2], [2**70, 2**70 + 1])
    plain = NOGD(horizon=2, random_state=0).fit(X[:2], [0, 1])
    assert declared.coef_.tobytes() == plain.coef_.tobytes()


@pytest.mark.parametrize(
    "y",
    [
        pandas.Series([BIG, BIG + 1, None, BIG], dtype="Int64"),
        pandas.Series([BIG, BIG + 1, None, BIG], dtype="category"),
        pandas.DataFrame({"t": pandas.Series([BIG, BIG + 1, None, BIG], dtype="Int64")}),
        polars.Series([BIG, BIG + 1, None, BIG]),
        polars.DataFrame({"t": [BIG, BIG + 1, None, BIG]}),
        pa.array([BIG, BIG + 1, None, BIG]),
        pa.chunked_array([[BIG, BIG + 1], [None, BIG]]),
        [[BIG], [BIG + 1], [None], [BIG]],
        np.array([BIG, BIG + 1, -1, BIG]),
    ],
    ids=lambda y: f"{type(y).__module__}.{type(y).__name__}",
)
def test_labels_of_libraries_with_one_that_is_missing(y):
    found = learner().declare_classes([BIG, BIG + 1])
    found.fit(np.eye(4), y)
    ((_, codes),) = found.seen
    np.testing.assert_array_equal(codes, [-1.0, 1.0, np.nan, -1.0])


def test_labels_of_declared_types_are_compared_exactly():
    for y, expected in (
        (np.array([BIG, BIG + 1.0, BIG + 2]), [-1, -1, np.nan]),  # doubles: the same label, twice
        (np.array([BIG, BIG + 1], dtype=np.uint64), [-1, 1]),
        (np.array([0.5, 1.0], dtype=np.float32), [np.nan, np.nan]),
        (np.array([True, False]), [np.nan, np.nan]),
    ):
        made = learner().declare_classes([BIG, BIG + 1])
        made.fit(np.ones((len(y), 1)), y)
        np.testing.assert_array_equal(made.seen[0][1], expected)


@pytest.mark.parametrize(
    "X",
    [
        pandas.DataFrame({"a": [0.5, "?", 2], "b": [1, 2, 3]}),
        pandas.DataFrame({"a": pandas.Series(["0.5", "?", "2"], dtype="str"), "b": [1, 2, 3]}),
        polars.DataFrame({"a": ["0.5", "?", "2"], "b": [1, 2, 3]}),
        pa.table({"a": ["0.5", "?", "2"], "b": [1, 2, 3]}),
        np.array([["0.5", "1"], ["?", "2"], ["2", "3"]]),
    ],
    ids=lambda X: f"{type(X).__module__}.{type(X).__name__}",
)
def test_frames_with_a_text(X):
    made = learner(loss="squared").fit(X, [0.0, 0.5, 1.0])
    np.testing.assert_array_equal(made.seen[0][0], [[0.5, 1.0], [np.nan, 2.0], [2.0, 3.0]])
    assert not hasattr(X, "columns") or isinstance(X, pa.Table) or list(made.feature_names_in_) == ["a", "b"]


def test_shown_is_short_whatever_it_is():
    assert shown(Raises()) == "a value of type Raises"
    assert len(shown("x" * 1000)) == 80
    assert numbers_of(np.eye(2)) == (pytest.approx(np.eye(2)), None)


@pytest.mark.parametrize("kind", [DPFTRL, PQFTL, PrefixSum])
def test_a_design_given_as_an_array_is_refused(kind):
    words = {"dim": 2, "horizon": 3} if kind is PrefixSum else {}
    with pytest.raises(InvalidParameter, match="design must be one of"):
        kind(design=np.array(["blt", "tree"]), **words).fit(np.eye(4), [0, 1, 0, 1])


# ---- the number of features ------------------------------------------------------------------------------------------

RAGGED = ([[1.0, 2.0], [1.0, 2.0], [1.0]], [[1.0, 2.0], [1.0], [1.0]])


@pytest.mark.parametrize("how", ["fit", "partial_fit", "learn_one", "offline", "selection"])
def test_an_inferred_number_of_features_is_stated(how):
    """One row can decide the width of more than half of the rows, so every list is learnt under that condition."""

    def said(X, declare):
        def made(kind, **words):
            found = kind(**{"random_state": 0, "on_invalid": "zero", **words}).declare_classes([0, 1])
            return found.declare_features(2) if declare else found

        y = [0, 1, 0]
        if how == "selection":
            candidates = [made(OutputPerturbation, delta=0.0, l2=l2) for l2 in (0.1, 1.0)]
            return PrivateSelection(candidates, repetitions=3.0, validation=0.4, random_state=1).fit(X, y).guarantee_
        if how == "offline":
            return made(OutputPerturbation).fit(X, y).guarantee_
        online = made(DPFTRL, horizon=3)
        if how == "learn_one":
            return online.learn_one(X[0], 0).guarantee_
        return getattr(online, how)(X, y).guarantee_

    whole = RAGGED[0][:2] * 2
    lists = RAGGED[0] if how != "learn_one" else whole
    for X, declare, expected in (
        (whole[:3], False, True), (lists, False, True), (whole[:3], True, False), (lists, True, False),
        (np.array(whole[:3]), False, False),
    ):  # fmt: skip
        assert (FOUND_FEATURES in said(X, declare).conditions) is expected, (X, declare)


def test_a_declared_number_of_features_stays_whatever_one_row_is():
    """RAGGED has two neighbours: without a declaration they have two features and one."""
    found = [learner().declare_classes([0, 1]).fit(rows, [0, 1, 0]).n_features_in_ for rows in RAGGED]
    assert found == [2, 1]
    one, other = (learner().declare_classes([0, 1]).declare_features(2).fit(rows, [0, 1, 0]) for rows in RAGGED)
    assert one.n_features_in_ == other.n_features_in_ == 2
    for a, b in zip(one.encoded(), other.encoded(), strict=True):
        assert a[[0, 2]].tobytes() == b[[0, 2]].tobytes()
    for rows in (["abc"], [[1.0], [1.0, 2.0]], [None]):
        made = learner().declare_classes([0, 1]).declare_features(2).fit(rows, [0] * len(rows))
        assert made.n_rows_ == len(rows)
        copy = fresh_copy(made).fit(rows, [0] * len(rows))
        assert copy.coef_.tobytes() == made.coef_.tobytes()


def test_an_array_has_the_declared_number_of_features():
    for bad in (0, 1.5, "2"):
        with pytest.raises(InvalidParameter, match="n_features"):
            learner().declare_features(bad)
    made = learner().declare_classes([0, 1]).declare_features(3)
    with pytest.raises(InvalidParameter, match="3 features, as were declared, found 2"):
        made.partial_fit(np.ones((2, 2)), [0, 1])
    with pytest.raises(InvalidRow, match=r"row 1: found 2 values, allowed are 3 numbers"):
        made.set_params(on_invalid="raise").partial_fit([[1.0, 2.0]], [0])


@pytest.mark.parametrize("of", [sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_one_sparse_row(of):
    rows, labels = np.random.default_rng(0).normal(size=(6, 3)), [0, 1, 1, 0, 1, 0]
    dense, sparse = (NOGD(horizon=6, random_state=0).declare_classes([0, 1]) for _ in range(2))
    dense.partial_fit(sp.csr_array(rows), labels)
    for row, label in zip(rows, labels, strict=True):
        sparse.learn_one(of(row[None, :]), label)
    assert sparse.coef_.tobytes() == dense.coef_.tobytes()
