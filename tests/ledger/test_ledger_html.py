"""Ledgers in notebooks: public numbers alone, in HTML that nothing breaks."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from privol import NOGD, ObjectivePerturbation
from privol.guarantees import format_up
from privol.ledger import Ledger

X = np.random.default_rng(0).normal(size=(60, 2)) / 3
Y = (X[:, 0] > 0).astype(int)


class Read(HTMLParser):
    """The text and the elements of a piece of HTML, which must be closed as they were opened."""

    def __init__(self, text):
        super().__init__()
        self.open, self.kinds, self.texts = [], set(), []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert not attrs
        self.open.append(tag)
        self.kinds.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_what_it_shows():
    budget = Ledger(epsilon=3.0, delta=1e-5)
    assert Read(budget._repr_html_()).texts == [
        "Ledger:",
        " 0 run(s), limit epsilon 3 at delta 1e-05, adjacency replace",
    ]
    learner = NOGD(epsilon=1.0, ledger=budget).fit(X, Y)
    open_one = NOGD(epsilon=1.0, ledger=budget, horizon=100).partial_fit(X[:7], Y[:7], classes=[0, 1])
    found = Read(budget._repr_html_())
    first, second = budget.entries()
    cells = found.texts[found.texts.index("spent (mu)") + 1 :]
    assert cells[:5] == ["NOGD", "60", "60", format_up(learner.guarantee_.mu), "closed"]
    assert cells[5:8] == ["NOGD", "7", "7"]
    assert cells[9] == "open"
    assert (first.open, second.open) == (False, True)
    assert budget.sentence() in found.texts
    assert found.kinds == {"p", "strong", "table", "thead", "tbody", "tr", "th", "td", "details", "summary"}
    open_one.close()


def test_many_runs_are_cut_and_seeds_are_marked():
    ledger = Ledger()
    for seed in range(23):
        NOGD(epsilon=1.0, ledger=ledger, random_state=987654 + seed).fit(X, Y)
    text = ledger._repr_html_()
    assert text.count("NOT PRIVATE") == 20 + ledger.sentence().count("NOT PRIVATE")
    assert "3 earlier" in text
    assert "9876" not in text
    ObjectivePerturbation(epsilon=1.0, delta=1e-6, ledger=ledger).fit(X, Y)
    assert "no GDP" in Read(ledger._repr_html_()).texts


GUARANTEE = NOGD(epsilon=1.0).fit(X[:2], [0, 1]).guarantee_


@given(name=st.text(min_size=1, max_size=30))
def test_hostile_names(name):
    """A program's own name for a run is text, whatever it is."""
    name = f"<img src=x onerror=alert(1)>{name}</td></table><script>&amp;"
    ledger = Ledger()
    ledger.open(learner=name, guarantee=GUARANTEE)
    text = ledger._repr_html_()
    assert "<img" not in text
    assert "<script" not in text
    found = Read(text)
    assert name in "".join(found.texts)
