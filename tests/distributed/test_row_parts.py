"""Parts and the ranks that hold them, without a job: what errors show, and whom they reach."""

from __future__ import annotations

import pytest

from privol.distributed import FilePart, LocalCrew
from privol.distributed._rank_crew import RankCrew
from privol.distributed._row_parts import check_parts
from privol.errors import InvalidParameter


def test_a_part_that_is_there_twice_is_refused_without_its_password():
    url = "postgresql://ann:Tr0ub4d@db/clinic?table=visits&order=id"
    with pytest.raises(InvalidParameter, match=r"ann@db.*more than once") as caught:
        check_parts([FilePart(url), FilePart(url)])
    assert "Tr0ub4d" not in str(caught.value)


class Ranks:
    """The ranks of a job whose second one has an error of its own."""

    rank, size = 1, 2

    def __init__(self):
        self.told = []

    def fail(self, why):
        self.told.append(why)


def test_a_rank_that_fails_says_so_to_the_others(monkeypatch):
    ranks = Ranks()
    crew = RankCrew(ranks)
    questions = iter([(0, None, [FilePart("a.csv"), FilePart("b.csv"), FilePart("c.csv")]), (1, "digest", ())])
    monkeypatch.setattr(crew, "_told", lambda words: next(questions))

    def broken(mine):
        raise MemoryError("too large")

    monkeypatch.setattr(crew, "_gathered", broken)
    with pytest.raises(MemoryError):
        crew.serve()
    assert ranks.told == ["MemoryError; its own message says more"]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_every_part_is_held_by_one_rank(size):
    parts = [FilePart(f"{k}.csv") for k in range(4)]
    held = []
    for rank in range(size):
        ranks = Ranks()
        ranks.rank, ranks.size = rank, size
        held += RankCrew(ranks).take(None, parts)
    assert held == [0, 1, 2, 3]


class Holder:
    """What a worker makes of a part."""

    def __init__(self, part):
        self.part, self.wiped = part, False

    def digest(self):
        return self.part.name.encode()

    def rows(self):
        return self.part.name

    def wipe(self):
        self.wiped = True


@pytest.mark.parametrize("threads", [1, 2])
def test_workers_of_this_process_wipe_what_they_held(threads):
    made = []

    def reading(part):
        made.append(Holder(part))
        return made[-1]

    parts = [FilePart("a.csv"), FilePart("b.csv")]
    with LocalCrew(threads).session(reading, parts) as session:
        assert list(session.ask("rows")) == ["a.csv", "b.csv"]
        assert not any(holder.wiped for holder in made)
    assert [holder.wiped for holder in made] == [True, True]
