"""The learnt encoding with a noise source that records the counts that the code hands over, and adds nothing."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import math

import numpy as np
import pytest

from privol.encoding import PrivateEncoder, streaming
from privol.encoding.learning import EncodingRun
from privol.errors import StreamError
from privol.noise import STREAM_ENCODING
from privol.streams import learn_schema

NAMES = ("a", "b", "c", "y")
N = 100
#: Each in all cells of a row.
HOSTILE = (
    None, "", "?", "NaN", " NA ", "yes", "no", "red", "+1", "1.0", True, False, 0, -0.0, 1.5, math.nan, math.inf,
    -math.inf, 1e308, -1e308, 5e-324, -5e-324, 10**300, -(2**53) - 1, "1e400", "-1e-400", "1_000", "0x1p3", "12,5",
    "\x00", "\x1c7", "\u00a07", "７", "a new level", "ü" * 40, "x" * 64, "x" * 65, "z" * 10_000_000, "2026-11-22",
    "2026-11-22 25:00", datetime.date(1, 1, 1), datetime.datetime(2026, 11, 22, 8, tzinfo=datetime.UTC),
    np.float16(0.1), np.float32(1e-40), np.int8(-1), np.bool_(True), np.str_("red"), decimal.Decimal("1e400"),
    decimal.Decimal("NaN"),
)  # fmt: skip
#: Rows that differ from cell to cell; the first two share no cell of any histogram.
MIXED = (
    (-1e308, "red", "1950-01-01", -1e308), (1e308, "green", "2100-01-01", 1e308), (1.0, "blue", "2020-01-01", "yes"),
    (None, "red", None, None), (None, None, None, "no"),
)  # fmt: skip


class Exact:
    """A noise source without noise: it records the counts, and releases given or invented ones."""

    private, description = False, "none: a test"

    def __init__(self, given=None):
        self.given, self.texts = given, None
        self.counts, self.stds, self.addresses, self.released = [], [], [], []

    def add(self, x, std, *, stream, row, decide, bound):
        assert (stream, callable(decide), np.abs(x).max(initial=0.0) <= bound) == (STREAM_ENCODING, True, True)
        at = len(self.counts)
        self.stds.append(std)
        self.addresses.append(row)
        if self.texts is not None:  # labels: their histogram is over all texts
            known = sorted(text for text in self.texts if len(text.encode()) <= 64)
            assert x.tolist() == [self.texts[text] for text in known]
            self.counts.append(self.texts)
            self.released.append(None)
            self.texts = None
            return np.where(np.isin(known, ["yes", "no"]), 1e9, -1e9)
        self.counts.append(x.copy())
        made = x + np.random.default_rng(at).normal(size=len(x)) * std if self.given is None else self.given[at]
        assert made.shape == x.shape
        self.released.append(made)
        return made

    def words(self, **address):
        return 0, 0


def counted(learn, given=None, **words):
    """Return the encoder that has learnt, and its substitute for a source."""
    source, kept = Exact(given), EncodingRun._find_labels

    def find(run, number):
        source.texts = run._texts.found()
        kept(run, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "make_source", lambda random_state: source)
        patch.setattr(EncodingRun, "_find_labels", find)
        encoder = PrivateEncoder(**words)
        with contextlib.suppress(StreamError):  # too little is detected: all phases are over then
            learn(encoder)
    assert len(source.counts) == len(encoder.plan_.phases) == len(set(source.addresses))
    return encoder, source


def apart(one, two):
    """The distance between two neighbours' counts of a phase."""
    if isinstance(one, dict):
        return math.hypot(*(one.get(text, 0) - two.get(text, 0) for text in {*one, *two}))
    return float(np.linalg.norm(one - two))


def learn_table(rows):
    return lambda encoder: learn_schema([dict(zip(NAMES, row, strict=True)) for row in rows], encoder, target="y")


def table(n=N):
    rng = np.random.default_rng(0)
    kinds, days = ["red", "green", "blue"], np.datetime64("2015-01-01") + rng.integers(0, 3000, n)
    return [
        (float(x), kinds[i % 3], str(day), "yes" if x > 0 else "no")
        for i, (x, day) in enumerate(zip(rng.normal(size=n), days, strict=True))
    ]
