"""What a process released and wrote nowhere before it died counts as spent."""

from __future__ import annotations

import pytest

from privol.guarantees import Guarantee
from privol.ledger import Ledger

LIMIT = {"epsilon": 1.0, "delta": 1e-6, "slack": 5e-7}
PROMISES = {
    "gdp": {"horizon": 100, "releases": 10},
    "pure": {"horizon": 100, "releases": 10},
    "approximate": {"horizon": 1, "releases": 1, "slack": 1e-7},
}


def promise(kind):
    return Guarantee(
        kind=kind, parameter=0.1, adjacency="replace", delta=1e-6, arithmetic="a", bit_source="b", **PROMISES[kind]
    )


@pytest.fixture
def crashed(tmp_path):
    """The journal of a process that died with two runs open, one of them kept on the disk."""

    def journal(kind):
        ledger = Ledger(journal=tmp_path / "budget.jsonl", **LIMIT)
        for facts in ({}, {"kept": True}):
            ledger.open(learner="PIGD", guarantee=promise(kind), facts=facts)
        path = tmp_path / "crashed.jsonl"
        path.write_bytes(ledger.journal.read_bytes())
        ledger.close()
        return path

    return journal


@pytest.mark.parametrize("kind", PROMISES)
@pytest.mark.parametrize("how", ["attach", "commit", "close_at", "close"])
def test_nothing_comes_back_of_a_run_that_never_committed(crashed, kind, how):
    path = crashed(kind)
    ledger = Ledger(journal=path, **LIMIT)
    lost, kept = ledger.accounts
    whole = lost.reserved_mu_squared
    if how in ("attach", "commit"):
        lost.attach(lambda: (0, 0, 0.0))
    if how == "commit":
        lost.commit((0, 0, 0.0))
    elif how == "close_at":
        lost.close_at(0, 0, 0.0)
    else:
        lost.close()
    kept.close_at(0, 0, 0.0)  # who keeps a run hands out nothing before it is committed
    ledger.close()
    lost, kept = Ledger.read(path).accounts
    assert lost.closed is (how != "commit")
    assert lost.entry().mu_squared == whole > 0.0
    assert (kept.closed, kept.entry().mu_squared) == (True, 0.0)
    again = Ledger(journal=path, **LIMIT)
    assert again.spent.delta_at(0.05) == pytest.approx(promise(kind).bound.delta_at(0.05), rel=1e-9)
    again.close()
