"""The arena's page agrees with its script's output, and its medians follow from its cells."""

from __future__ import annotations

import statistics

import pytest
from experiment_tools import ARENA, experiments, number  # noqa: F401 (a fixture)

from privol.arena import RIVER, SYNTHETIC

pytest.importorskip("pyarrow")
PARTS = {"second half": "Second half, AUC", "rows after the end": "Rows after the end, AUC"}


def tables():
    """Header and rows of each table of the page, by the words before it."""
    found, title = {}, ""
    for block in ARENA.read_text(encoding="utf-8").split("\n\n"):
        if block.startswith("| "):
            head, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in block.splitlines())
            found[title] = head, rows
        title = block.strip()
    return found


@pytest.mark.slow
def test_the_arena_runs(tmp_path, experiments):  # noqa: F811
    rows = experiments.sample("arena", tmp_path, str(tmp_path))
    assert {cells[0] for cells in rows} >= {"turning", "prices", "second half", "scikit-learn SGD, best of a grid"}
    assert (tmp_path / "img" / "arena.svg").read_bytes().startswith(b"<?xml")


def test_medians_of_the_page_are_those_of_its_shares():
    page = tables()
    seen = {cells[0]: cells[3] for cells in page["Without privacy:"][1]}
    assert list(seen) == ["Adult", "Covertype", "Diabetes", "CASP", *SYNTHETIC, *RIVER]
    compared = 0
    for title, (names, medians) in page.items():
        if not title.startswith("Share kept"):
            continue
        streams = {name for name, words in seen.items() if f"chose {words} (" in title}
        assert streams
        for part, epsilon, *cells in medians:
            head, rows = next(table for words, table in page.items() if words.startswith(PARTS[part]))
            rows = [dict(zip(head, row, strict=True)) for row in rows if row[0] in streams and row[1] == epsilon]
            for name, cell in zip(names[2:], cells, strict=True):
                shares = [row[name].rpartition(", ")[2] for row in rows if "%" in row.get(name, "")]
                assert bool(shares) == bool(cell)
                if shares and not any("below" in share for share in shares):
                    compared += 1
                    assert number(cell) == pytest.approx(statistics.median(map(number, shares)), abs=1.01)  # rounded
    assert compared > 100
