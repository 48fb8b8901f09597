"""The cap on rows per user, and delayed labels: against plain Python, in any cut, and the guarantees."""

from __future__ import annotations

from collections import Counter, OrderedDict
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from schema_tables import TableColumns, dense, pa, whole

from privol.encoding import encode
from privol.encoding.encode import SchemaEncoder
from privol.encoding.rows import ColumnSource
from privol.encoding.schema import Schema
from privol.errors import InvalidParameter, StreamError
from privol.readers.base import Facts, Piece, Source
from privol.streams import open_stream
from privol.streams._delays import DelayedSource
from privol.streams._encoded import schema_source
from privol.streams._users import CappedSource

pytestmark = pytest.mark.slow


def capped(users, k, *, cut=1000, hashed=False):
    table = {"row": list(range(len(users))), "who": users, "y": [0.0] * len(users)}
    columns = {"row": {}}
    if hashed:
        table["h"] = [f"t{i}" for i in range(len(users))]
        columns["h"] = {"hash": 100}
    schema = {"columns": columns, "target": {"column": "y"}, "user": {"column": "who", "max_rows": k}}
    columns = TableColumns(table, cut=cut)
    return columns, schema_source(Schema.load(schema), columns)[0]


def first_rows(users, k):
    seen: Counter[str] = Counter()
    kept = []
    for i, user in enumerate(users):
        seen[user] += 1
        if seen[user] <= k:
            kept.append(i)
    return kept


# --- the cap -------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=60), st.integers(1, 5), st.integers(1, 13))
def test_the_first_rows_of_each_user_are_kept(users, k, cut):
    _, source = capped(users, k, cut=cut)
    expected = first_rows(users, k)
    X, y = whole(source)
    assert X[:, 0].tolist() == expected
    assert len(y) == len(expected)
    assert source.counts == {"over_user_cap": len(users) - len(expected)}
    assert source.count() == len(expected)
    # and again from the start
    assert whole(source)[0][:, 0].tolist() == expected


def test_sparse_rows_are_capped():
    _, source = capped(list("abacab"), 1, hashed=True)
    assert source.sparse
    assert whole(source)[0][:, 0].tolist() == [0, 1, 3]


def test_a_capped_source_states_its_facts():
    _, source = capped(list("aab"), 2)
    assert (source.facts.rows_per_user, source.facts.user) == (2, "who")
    assert source.facts.n_rows is None
    (condition,) = source.facts.conditions
    assert "whose row each row is, by the text of the cell" in condition
    assert "not hidden" in condition


def test_counting_reads_only_the_user_column():
    columns, source = capped(list("aab"), 1)
    assert source.count() == 2
    assert columns.asked == [("who",)]


def test_blanks_do_not_make_another_user():
    assert whole(capped(["a", " a", "a ", "b"], 1)[1])[0][:, 0].tolist() == [0, 3]


@pytest.mark.parametrize(
    ("spellings", "users"),
    [
        (["1", "1.0", "1e0", "+1", " 1. ", "10E-1", "1", "100e-02"], 1),
        (["0", "-0.0", "-0", ".0", "0e5"], 1),
        (["-7", "-7.0"], 1),
        (["1e22", "10000000000000000000000", "1E+22"], 1),
        # beyond 2^53, where doubles would confuse the two
        (["9007199254740993", "9007199254740992.0", "9007199254740993.0"], 2),
        (["1.5", "1.50"], 2),
        (["7", "007"], 2),
        (["1e400", "1e401", "1e9999999999", "e5", ".", "+", "1_0.0", "10", "1.0.0", "\u0661.\u0660", "nan"], 11),
        (["\u00e9", "e\u0301", "E\u0301"], 3),
    ],
)
@pytest.mark.parametrize("cut", [1, 1000])
def test_spellings_of_one_user(spellings, users, cut):
    """In one batch or in many, for any other content of the batch: each spelling is read by itself."""
    _, source = capped(spellings, 1, cut=cut)
    assert len(whole(source)[0]) == users
    assert source.count() == users
    if users == len(spellings):
        assert len(whole(capped([*spellings, "2.0"], 1, cut=cut)[1])[0]) == users + 1


def test_users_of_every_reader(tmp_path):
    """Integers and doubles of one user: JSON, dicts, Parquet parts of two types."""
    parquet = pytest.importorskip("pyarrow.parquet")
    schema = {"columns": {"a": {}}, "user": {"column": "u", "max_rows": 1}}
    lines = tmp_path / "d.jsonl"
    lines.write_text("".join(f'{{"a": 1, "u": {u}}}\n' for u in ("1", "1.0", "1e0", '"1"', '" 1.0"', "2")))
    folder = tmp_path / "parts"
    folder.mkdir()
    for i, users in enumerate((pa.array([1, 2]), pa.array([1.0, 2.0]), pa.array(["1", "2"]))):
        parquet.write_table(pa.table({"a": [1.0, 2.0], "u": users}), folder / f"{i}.parquet")
    dicts = [{"a": 1, "u": u} for u in (1, 1.0, np.float32(1), "1", "2", 2.0)]
    for data in (lines, folder, dicts):
        stream = open_stream(data, schema=schema)
        assert stream.count_rows() == sum(block.X.shape[0] for block in stream) == 2


def test_a_key_in_another_spelling_is_matched():
    source = delayed([("7", 1, None), ("7.0", None, 0.5)], 2)
    assert [part.tolist() for part in whole(source)] == [[[1]], [0.5]]


@pytest.mark.parametrize("user", [None, "", "  "])
def test_a_missing_user_is_refused(user):
    _, source = capped(["a", "b", user, "a"], 1, cut=2)
    for read in (lambda: whole(source), source.count):
        with pytest.raises(StreamError, match="row 3, column 'who': found nothing") as found:
            read()
        assert found.value.row == 3


def test_a_marker_is_a_missing_user():
    table = {"a": [1.0, 2.0], "who": ["x", "?"]}
    parts = {"columns": {"a": {}}, "user": {"column": "who", "max_rows": 1}, "file": {"missing": ["?"]}}
    source, _ = schema_source(Schema.load(parts), TableColumns(table))
    with pytest.raises(StreamError, match="row 2"):
        whole(source)


class Pieces(Source):
    """Given pieces."""

    facts = Facts(name="pieces")
    n_features = 1

    def __init__(self, *pieces):
        self._pieces = pieces

    def pieces(self, limit, progress):
        yield from self._pieces


def test_sources_without_users_are_refused():
    with pytest.raises(StreamError, match="do not name their users"):
        whole(CappedSource(Pieces(Piece(np.ones((1, 1)), None)), 1))
    users = pa.array(["a", None]).dictionary_encode()
    with pytest.raises(StreamError, match="row 2: found no user"):
        whole(CappedSource(Pieces(Piece(np.ones((2, 1)), None, users)), 1))
    for k in (0, -1, 1.5, True):
        with pytest.raises(InvalidParameter, match="max_rows"):
            CappedSource(Pieces(), k)


def test_changing_one_user_changes_at_most_k_rows():
    """The guarantee of the cap: with users fixed, streams that differ in one user's cells differ in k kept rows."""
    rng = np.random.default_rng(8)
    users = [f"u{i}" for i in rng.integers(0, 20, 300)]
    for k in (1, 3):
        kept = []
        for changed in (False, True):
            cells = [float(i) + (1000.0 if changed and u == "u7" else 0.0) for i, u in enumerate(users)]
            parts = {"columns": {"a": {}}, "user": {"column": "u", "max_rows": k}}
            source, _ = schema_source(Schema.load(parts), TableColumns({"a": cells, "u": users}, cut=17))
            kept.append(whole(source)[0][:, 0])
        assert len(kept[0]) == len(kept[1])
        assert int((kept[0] != kept[1]).sum()) == k


def test_changing_the_user_of_a_row_shifts_the_rows():
    """The reason why users are fixed: one changed user moves all rows after it."""
    users = list("abababab") + list("cdefgh")
    _, source = capped(users, 1)
    before = whole(source)[0][:, 0]
    _, source = capped([*users[:1], "a", *users[2:]], 1)
    after = whole(source)[0][:, 0]
    assert before.tolist() == [0, 1, 8, 9, 10, 11, 12, 13]
    assert after.tolist() == [0, 3, 8, 9, 10, 11, 12, 13]
    _, source = capped([*users[:8], "a", *users[9:]], 1)
    assert whole(source)[0][:, 0].tolist() == [0, 1, 9, 10, 11, 12, 13]


def test_many_users_in_a_table_that_grows():
    rng = np.random.default_rng(1)
    users = [f"user {i}" for i in rng.integers(0, 30_000, 60_000)]
    _, source = capped(users, 2, cut=7_000)
    assert whole(source)[0][:, 0].tolist() == first_rows(users, 2)


def test_a_dictionary_with_the_same_user_twice():
    users = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array(["a", "b", "a"]))
    source = CappedSource(Pieces(Piece(np.arange(3.0)[:, None], np.zeros(3), users)), 1)
    assert whole(source)[0][:, 0].tolist() == [0, 1]


def test_slices_of_texts_of_either_width():
    """Texts that start anywhere in their buffer, with 32-bit or 64-bit offsets, and codes of any width."""
    for kind in (pa.string(), pa.large_string()):
        texts = pa.array(["none", "a", "bb", "", "a"], kind).slice(1)
        users = pa.DictionaryArray.from_arrays(pa.array([9, 0, 1, 2, 3, 1], pa.int8()).slice(1), texts)
        source = CappedSource(Pieces(Piece(np.arange(5.0)[:, None], np.zeros(5), users)), 1)
        assert whole(source)[0][:, 0].tolist() == [0, 1, 2]


def test_users_beyond_the_bound_are_refused_before_their_block():
    users = [*("abc" * 3), "d", "a"]
    table = {"row": list(range(len(users))), "who": users, "y": [0.0] * len(users)}
    user = {"column": "who", "max_rows": 2, "max_users": 3}
    schema = {"columns": {"row": {}}, "target": {"column": "y"}, "user": user}
    source, _ = schema_source(Schema.load(schema), TableColumns(table, cut=6))
    read = []
    with pytest.raises(StreamError, match="row 10: found one more user than max_users = 3") as found:
        read.extend(piece.X[:, 0].tolist() for piece in source.pieces(6, lambda _: None))
    assert found.value.row == 10
    assert read == [[0, 1, 2, 3, 4, 5]]
    user["max_users"] = 4
    assert len(whole(schema_source(Schema.load(schema), TableColumns(table))[0])[0]) == 7
    for wrong in (0, 1.5, "3"):
        user["max_users"] = wrong
        with pytest.raises(InvalidParameter, match=r"user\.max_users"):
            Schema.load(schema)
    user["max_users"] = (1 << 28) + 1
    Schema.load(schema)
    user["surplus"] = "null"  # the guarantee then includes the probability of a hash collision
    with pytest.raises(InvalidParameter, match=r"at most 268435456, found 268435457"):
        Schema.load(schema)


# --- delayed labels -------------------------------------------------------------------------------


def delayed(events, window, *, cut=1000, user=None, sparse=False):
    """Events are (key, feature or None, label or None[, user])."""
    table = {
        "k": [e[0] for e in events],
        "f": [e[1] for e in events],
        "y": [e[2] for e in events],
    }
    parts = {"columns": {"f": {}}, "target": {"column": "y"}, "delay": {"key": "k", "window": window}}
    if sparse:
        table["h"] = [None if e[1] is None else f"t{e[1]}" for e in events]
        parts["columns"]["h"] = {"hash": 50}
    if user is not None:
        table["u"] = [e[3] for e in events]
        parts["user"] = {"column": "u", "max_rows": user}
    return schema_source(Schema.load(parts), TableColumns(table, cut=cut))[0]


def by_hand(events, window):
    """(learnt rows, counts) from the definition; None if a key is refused."""
    waiting: OrderedDict[str, float] = OrderedDict()
    learnt, late, bare = [], 0, 0
    for key, feature, label in events:
        if label is None:
            if key in waiting:
                return None
            if len(waiting) == window:
                waiting.popitem(last=False)
                late += 1
            waiting[key] = feature
        elif key in waiting:
            learnt.append((waiting.pop(key), label))
        elif feature is not None:
            learnt.append((feature, label))
        else:
            bare += 1
    return learnt, {"waited_too_long": late, "unmatched_labels": bare, "still_waiting": len(waiting)}


EVENTS = st.lists(
    st.tuples(
        st.sampled_from("abcdefg"),
        st.one_of(st.none(), st.integers(0, 9).map(float)),
        st.one_of(st.none(), st.sampled_from([0.5, 1.5])),
    ).filter(lambda e: e[1] is not None or e[2] is not None),
    max_size=40,
    min_size=1,
)


@settings(max_examples=150, deadline=None)
@given(EVENTS, st.integers(1, 5), st.integers(1, 11), st.booleans())
def test_labels_find_their_rows(events, window, cut, sparse):
    expected = by_hand(events, window)
    source = delayed(events, window, cut=cut, sparse=sparse)
    assert source.sparse == sparse
    if expected is None:
        with pytest.raises(StreamError, match="still waiting"):
            whole(source)
        return
    learnt, counts = expected
    X, y = whole(source)
    assert X[:, 0].tolist() == [feature for feature, _ in learnt]
    assert ([] if y is None else y.tolist()) == [label for _, label in learnt]
    if sparse:
        _, Z = encoded_alone([feature for feature, _ in learnt])
        assert X[:, 1:].tolist() == Z
    assert source.counts == counts
    assert source.count() == len(learnt)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("window", "cut"), [(3, 1), (10, 7), (80, 50), (80, 1000)])
def test_long_streams(window, cut, sparse):
    """Rows arrive and leave all the time, so every position of the store is reused often, and all features differ."""
    rng = np.random.default_rng(window)
    events, open_keys = [], []
    for i in range(2_000):
        if open_keys and rng.random() < 0.4:
            # mostly a recent one, sometimes one that was dropped long ago
            at = int(len(open_keys) * rng.random() ** 0.5)
            events.append((open_keys.pop(at), None, float(i)))
        else:
            open_keys.append(f"k{i}")
            events.append((f"k{i}", float(i), None if rng.random() < 0.9 else 0.5))
            if events[-1][2] is not None:
                open_keys.pop()
    learnt, counts = by_hand(events, window)
    assert len(learnt) > 150
    assert counts["waited_too_long"] > 10
    source = delayed(events, window, cut=cut, sparse=sparse)
    X, y = whole(source)
    assert list(zip(X[:, 0].tolist(), y.tolist(), strict=True)) == learnt
    assert source.counts == counts
    if sparse:
        assert X[:, 1:].tolist() == encoded_alone([feature for feature, _ in learnt])[1]


def encoded_alone(features):
    """Hashed parts of rows, encoded without any delay."""
    if not features:
        return None, []
    columns = TableColumns({"h": [f"t{f}" for f in features]})
    encoder = SchemaEncoder(Schema.load({"columns": {"h": {"hash": 50}}}), columns)
    return encoder, whole(ColumnSource(columns, encoder))[0].tolist()


def test_a_second_waiting_row_names_row_and_column():
    source = delayed([("a", 1, None), ("b", 1, None), ("a", 2, None)], 5, cut=2)
    with pytest.raises(StreamError, match="row 3, column 'k': an earlier row") as found:
        whole(source)
    assert found.value.row == 3
    # a key that was dropped or completed may wait again
    assert whole(delayed([("a", 1, None), ("b", 1, None), ("a", 2, None), ("a", None, 3)], 1))[0].tolist() == [[2]]
    assert len(whole(delayed([("a", 1, None), ("a", None, 3), ("a", 2, None), ("a", None, 3)], 1))[0]) == 2


@pytest.mark.parametrize("event", [(None, 1, None), (None, 1, 2), (" ", None, 2)])
def test_a_missing_key_is_refused(event):
    with pytest.raises(StreamError, match="row 2, column 'k': found nothing"):
        whole(delayed([("a", 1, None), event], 5))


def test_missing_features_are_refused_except_in_rows_that_only_bring_a_label():
    table = {"k": ["a", "a"], "f": [1, None], "g": [2, None], "y": [None, 1]}
    parts = {"columns": {"f": {}, "g": {}}, "target": {"column": "y"}, "delay": {"key": "k", "window": 2}}

    def read(**cells):
        source, _ = schema_source(Schema.load(parts), TableColumns({**table, **cells}))
        return whole(source)[0].tolist()

    assert read() == [[1, 2]]
    with pytest.raises(StreamError, match="row 2, column 'g'"):
        read(f=[1, 5])
    with pytest.raises(StreamError, match="row 1, column 'f'"):
        read(f=[None, None], g=[None, None])


@pytest.mark.parametrize("policy", ["zero", "indicator"])
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_row_with_an_unknown_level_is_not_bare(monkeypatch, policy, share):
    monkeypatch.setattr(encode, "SPARSE_SHARE", share)
    table = {"k": ["a", "b", "c"], "t": ["x", "strange", None], "n": [1, None, None], "y": ["p", "p", "p"]}
    parts = {
        "columns": {"t": {"levels": ["x"], "missing": policy, "unknown": policy}, "n": {"missing": "nan"}},
        "target": {"column": "y", "positive": ["p"], "rest": "negative"},
        "delay": {"key": "k", "window": 2},
    }
    columns = TableColumns(table)
    encoder = SchemaEncoder(Schema.load(parts), columns)
    (piece,) = ColumnSource(columns, encoder).pieces(10, lambda _: None)
    assert piece.bare.tolist() == [False, False, True]
    assert dense(piece.X)[2].tolist() == [0] * encoder.n_features
    source, _ = schema_source(Schema.load(parts), columns)
    assert len(whole(source)[0]) == 2
    assert source.counts["unmatched_labels"] == 1


def test_labels_of_classes_may_come_later():
    table = {"k": ["a", "b", "a"], "f": [1, 2, None], "y": [None, "?", "yes"]}
    parts = {
        "columns": {"f": {}},
        "target": {"column": "y", "negative": ["no"], "positive": ["yes"]},
        "delay": {"key": "k", "window": 2},
        "file": {"missing": ["?"]},
    }
    source, encoder = schema_source(Schema.load(parts), TableColumns(table))
    X, y = whole(source)
    assert (X.tolist(), y.tolist(), encoder.classes) == ([[1]], [1], ("no", "yes"))
    table["y"] = [None, "maybe", "yes"]
    with pytest.raises(StreamError, match="row 2: found 'maybe'"):
        whole(schema_source(Schema.load(parts), TableColumns(table))[0])


def test_memory_is_bounded_by_the_window():
    """Among rows that wait for ever only the window is kept, and positions are reused."""
    n, window = 5_000, 70
    events = [(f"k{i}", float(i), None) for i in range(n)]
    for sparse in (False, True):
        source = delayed(events, window, cut=100, sparse=sparse)
        waiting = None

        def spy(piece, store, row, join=source._join):
            nonlocal waiting
            waiting = store
            return join(piece, store, row)

        source._join = spy
        whole(source)
        assert source.counts == {"waited_too_long": n - window, "unmatched_labels": 0, "still_waiting": window}
        places = len(waiting._csr) if sparse else len(waiting._dense)
        assert window <= places <= 2 * window
        # copies: a view would keep the whole piece from which it was cut
        assert all(part.base is None for row in waiting._csr if row is not None for part in row)


def test_a_delayed_source_states_its_facts():
    source = delayed([("a", 1, 2)], 3)
    assert source.facts.rows_per_user is None
    (condition,) = source.facts.conditions
    assert "keys" in condition
    assert "not hidden" in condition
    with pytest.raises(StreamError, match="targets or keys"):
        whole(DelayedSource(Pieces(Piece(np.ones((1, 1)), None)), 1))
    with pytest.raises(InvalidParameter, match="window"):
        DelayedSource(Pieces(), 0)


# --- both ----------------------------------------------------------------------------------------


def test_labels_are_joined_before_rows_are_capped():
    """The cap counts learnt rows: neither rows that never get a label nor rows that only bring one."""
    events = [
        ("a", 1, None, "ann"),
        ("b", 2, None, "ann"),
        ("c", 3, None, "bob"),
        ("b", None, 0.5, None),  # ann's first learnt row; a label needs no user
        ("c", None, 0.5, "bob"),
        ("d", 4, 0.5, "ann"),  # over the cap
        ("a", None, 0.5, "ann"),  # over the cap
        ("e", 5, 0.5, "cid"),
    ]
    source = delayed(events, 5, user=1, cut=3)
    assert whole(source)[0][:, 0].tolist() == [2, 3, 5]
    assert source.counts == {"waited_too_long": 0, "unmatched_labels": 0, "still_waiting": 0, "over_user_cap": 2}
    assert source.facts.rows_per_user == 1
    assert len(source.facts.conditions) == 2
    assert source.count() == 3


def test_a_row_needs_a_user_though_a_label_does_not():
    with pytest.raises(StreamError, match="row 1, column 'u'"):
        whole(delayed([("a", 1, None, None)], 5, user=1))


def test_a_label_of_another_user_is_refused():
    with pytest.raises(StreamError, match="row 2: the label belongs to another user"):
        whole(delayed([("a", 1, None, "ann"), ("a", None, 0.5, "bob")], 5, user=1))


def test_prediction_takes_every_row():
    parts = {
        "columns": {"f": {}},
        "target": {"column": "y"},
        "user": {"column": "u", "max_rows": 1},
        "delay": {"key": "k", "window": 1},
    }
    source, _ = schema_source(Schema.load(parts), TableColumns({"f": [1, 2, 3]}), target=False)
    X, y = whole(source)
    assert (X.tolist(), y, source.facts.rows_per_user, source.facts.conditions) == ([[1], [2], [3]], None, None, ())


def test_a_draft_warns_in_the_conditions():
    parts = {"columns": {"f": {}}, "derived_from_data": True, "user": {"column": "u", "max_rows": 1}}
    source, _ = schema_source(Schema.load(parts), TableColumns({"f": [1], "u": ["a"]}))
    assert "WARNING" in source.facts.conditions[0]
    assert len(source.facts.conditions) == 2


def test_pieces_stay_csr():
    source = delayed([("a", 1, None), ("b", 2, 3), ("a", None, 1)], 2, sparse=True)
    (piece,) = source.pieces(10, lambda _: None)
    assert sp.issparse(piece.X)
    assert piece.X.format == "csr"
    assert piece.X.indices.dtype == piece.X.indptr.dtype == np.int32


def test_users_of_rows_that_were_handed_out_must_all_be_known():
    """A source that resumes counts rows by the users of earlier ones: too short a record is refused."""
    words = {"_max_rows": 2, "_separation": 1, "_null": True, "_max_users": 9, "_key": bytes(16), "name": "rows.csv"}
    known = SimpleNamespace(**words, _seen=tuple, _rows=0)
    CappedSource._table(known)
    known._rows = 5
    with pytest.raises(StreamError, match=r"rows\.csv: the users are known of 0 of 5 rows"):
        CappedSource._table(known)
