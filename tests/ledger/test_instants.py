"""Nothing leaves a process before its ledger's journal counts it, at whatever moment the process ends."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pandas
import pytest
from instants import KILLED, MUTANTS, kills, opened, strikes, struck, violations

from privol import DOLA, DPFTRL, LDPSGD, PIGD, POL, ObjectivePerturbation, OutputPerturbation
from privol.cli.app import app
from privol.distributed import Ranks
from privol.encoding.labels import Labels
from privol.encoding.private_encoder import PrivateEncoder
from privol.evaluate import PrivateMetrics, progressive
from privol.guarantees import Guarantee, gdp_mu, square_up
from privol.prefix import PrefixSum, SymmetricSum
from privol.readers.frames import FrameColumns
from privol.rounds import Collector, Device
from privol.state import SealedRelease, State, read_record
from privol.tuning import PrivateSelection

pytestmark = [pytest.mark.process, pytest.mark.skipif(not hasattr(os, "fork"), reason="forks of POSIX systems")]

N, D = 24, 3
RNG = np.random.default_rng(8)
X = RNG.normal(size=(N, D)) / 2
Y = (X[:, 0] > 0).astype(int)


class Rows:
    """Rows in blocks of 6."""

    classes, n_rows = (0, 1), N

    def __iter__(self):
        for k in range(0, N, 6):
            yield SimpleNamespace(X=X[k : k + 6], y=Y[k : k + 6].astype(float), first_row=k)


def whole(guarantee):
    """The cost of a run that is charged as a whole."""
    return square_up((Guarantee.from_record(guarantee) if isinstance(guarantee, dict) else guarantee).mu)


# ---- learners of streams ----------------------------------------------------------------------------------------


def pigd(ledger=None):
    return PIGD(epsilon=1.0, delta=1e-6, radius=1.0, release=7, ledger=ledger)


def _spent_by_releases():
    """The cost of a number of models of that learner, by its kernel, and how many there are after a row."""
    learner = pigd().set_params(horizon=N)
    found, releases = {0: 0.0}, {}
    for k in range(1, N + 1):
        learner.partial_fit(X[k - 1 : k], Y[k - 1 : k], classes=[0, 1])
        releases[k] = learner.n_releases_
        found[learner.n_releases_] = learner._run.state.counters()[2]
    return found, releases


SPENT, RELEASES = _spent_by_releases()


def shows(world, learner, journal="ledger.jsonl"):
    """Record the models that a learner shows."""
    if learner.n_releases_:
        world.leaves("PIGD", SPENT[learner.n_releases_], journal)


def by_hand(world):
    learner = pigd(world.ledger()).set_params(horizon=N)
    world.looks(lambda: shows(world, learner))
    for k in range(0, N, 6):
        learner.partial_fit(X[k : k + 6], Y[k : k + 6], classes=[0, 1])
        shows(world, learner)
        if k == 12:
            learner._run.account.commit()
    learner.close()
    shows(world, learner)


def stream(world, **words):
    learner, journal = pigd(words.pop("ledger", None)), words.pop("journal", "ledger.jsonl")
    world.looks(lambda: shows(world, learner, journal))
    learner.fit_stream(
        Rows(),
        on_release=lambda release: world.leaves("PIGD", SPENT[RELEASES[release.row]], journal),
        progress=lambda at, _: shows(world, at, journal),
        **words,
    )


def online(world):
    stream(world, ledger=world.ledger())


def kept(world):
    """Its journal is that of its directory; a killed run resumes."""
    stream(world, journal="run/ledger.jsonl", checkpoint=State(world.folder / "run", every=10))


def last(world):
    """The only model is the last one: it is sealed before it is paid for."""
    world.shown(world.folder / "run" / "model.json", "PIGD", stated, "run/ledger.jsonl")
    learner = PIGD(epsilon=1.0, delta=1e-6, radius=1.0, horizon=2 * N)
    learner.fit_stream(Rows(), checkpoint=State(world.folder / "run", every=10))
    world.leaves("PIGD", whole(learner.guarantee_), "run/ledger.jsonl")


def stated(path):
    """The cost of a released model by its own record."""
    return whole(read_record(path.parent)["guarantee"])


def devices(world):
    """Reports are charged like those of a learner that requests them, before the first one is made."""
    ledger = world.ledger()
    learner = LDPSGD(epsilon=1.0, radius=1.0, horizon=4, ledger=ledger).declare_classes([0, 1])
    rounds, device = Collector(learner, D), Device(n_features=D, epsilon=1.0, reports=4)
    for x, y in zip(X[:4], Y[:4], strict=True):
        report = device.answer(rounds.ask(), x, y)
        world.leaves("LDPSGD", whole(learner.guarantee_))
        rounds.tell(report)
    learner.close()


# ---- ranks of a network ------------------------------------------------------------------------------------------


class Wire:
    """A substitute for MPI: one other rank that repeats this rank's answers, and whose nodes send zeros."""

    def __init__(self, sends):
        self._sends = sends

    def Iallgather(self, mine, found):
        found[:] = mine

    def Iallgatherv(self, mine, found):
        found[0][:] = np.tile(mine, 2)

    def Ibarrier(self):
        pass

    def Irecv(self, rows, **_):
        rows[:] = 0.0

    def Isend(self, rows, *, dest, tag):
        if tag == 1:
            self._sends()

    def Iprobe(self, **_):
        return False


def ranks_of(sends):
    found = object.__new__(Ranks)
    request = SimpleNamespace(Testall=lambda requests: True)
    found.__dict__.update(
        _mpi=SimpleNamespace(Request=request, Status=object), _timeout=9.0, _comm=Wire(sends), rank=0, size=2,
        messages=0, bytes=0, _said=None, _heard=None, _failure=None, _under_way=None,
    )  # fmt: skip
    return found


def rank(world, journal="ledger.jsonl", **words):
    ledger = world.ledger() if journal == "ledger.jsonl" else None
    learner = DOLA(epsilon=4.0, nodes=4, batch=3, randomizer="l2laplace", topology="complete", ledger=ledger)
    cost = whole(learner.guarantee_of(learner.calibrate(D, 2 * N), private=True, bit_source="b"))

    def sends():
        world.leaves("DOLA", cost, journal)

    def look():
        if learner.n_releases_:
            sends()

    world.looks(look)
    learner.fit_ranks(Rows(), ranks_of(sends), progress=lambda *_: look(), **words)


def kept_rank(world):
    rank(world, "run/ledger.jsonl", checkpoint=State(world.folder / "run", every=24))


# ---- all other releases ------------------------------------------------------------------------------------------


def metrics(world, journal="ledger.jsonl", **words):
    ledger = world.ledger() if journal == "ledger.jsonl" else None
    learner = DPFTRL(epsilon=1.0, delta=1e-6, radius=1.0, ledger=ledger)
    window = PrivateMetrics(mu=0.5, window_rows=7)

    def look():
        if learner.n_releases_:
            world.leaves("DPFTRL", whole(learner.guarantee_), journal)

    world.looks(look)
    progressive(
        learner,
        Rows(),
        private=window,
        on_window=lambda _: world.leaves("PrivateMetrics", 0.25, journal),
        progress=lambda *_: look(),
        **words,
    )
    world.leaves("PrivateMetrics", 0.25, journal)


def kept_metrics(world):
    metrics(world, "run/ledger.jsonl", checkpoint=State(world.folder / "run", every=10))


def vectors(world):
    sums = PrefixSum(dim=D, horizon=N, ledger=world.ledger())
    for x in X[:5]:
        sums.add(x / 9)
        world.leaves("PrefixSum", whole(sums.guarantee_))
    sums.close()


def matrices(world):
    sums = SymmetricSum(dim=D, horizon=N, leaf=2, gram=True, ledger=world.ledger())
    sums.add_block(X / 9)
    world.leaves("SymmetricSum", whole(sums.guarantee_))
    sums.close()


def at_rest(kind, **words):
    def fit(world):
        learner = kind(ledger=world.ledger(), **words)

        def look():
            if learner.n_releases_:
                world.leaves(kind.__name__, whole(learner.guarantee_))

        world.looks(look)
        learner.fit(X, Y)
        look()

    return fit


def sealed(world):
    world.shown(world.folder / "model.json", "OutputPerturbation", stated)
    learner = OutputPerturbation(delta=0.0, ledger=world.ledger())
    learner.fit_stream(Rows(), seal=SealedRelease(world.folder))
    world.leaves("OutputPerturbation", whole(learner.guarantee_))


def completed(world):
    """The end of a sealed fit, in another process."""
    world.shown(world.folder / "model.json", "OutputPerturbation", stated)
    SealedRelease(world.folder).complete(world.ledger())


def selection(world):
    found = PrivateSelection(
        [OutputPerturbation(delta=0.0, l2=0.5), OutputPerturbation(delta=0.0)], repetitions=2.0, ledger=world.ledger()
    )

    def look():
        if hasattr(found, "best_estimator_"):
            world.leaves("PrivateSelection", whole(found.guarantee_))

    world.looks(look)
    found.fit(X, Y)
    look()


def encoder(world):
    table = FRAME
    found = PrivateEncoder(epsilon=50.0, ledger=world.ledger())

    def look():
        if hasattr(found, "schema_"):
            world.leaves("PrivateEncoder", whole(found.guarantee_))

    world.looks(look)
    found.learn(FrameColumns(table), "outcome", Labels(None, None))
    look()


# ---- the command line --------------------------------------------------------------------------------------------


HALF = 0.5 * gdp_mu(1.0, 1e-6) ** 2 * (1.0 - 1e-9)  # the share of private metrics in the default budget


class Printed:
    """Standard output, where every word leaves the process: it describes the released model."""

    def __init__(self, says):
        self._says = says

    def write(self, text):
        if text.strip():
            self._says()
        return len(text)

    def flush(self):
        pass

    def isatty(self):
        return False


def of_windows(path):
    return HALF if json.loads(path.read_text())["windows"] else 0.0


def called(world, name, *words):
    """A command; its results are RUN's files, and its output once these exist."""
    run = world.folder / "RUN"
    world.shown(run / "model.json", name, stated, "RUN/ledger.jsonl")
    world.shown(run / "private_metrics.json", "PrivateMetrics", of_windows, "RUN/ledger.jsonl")

    def says():
        if (run / "model.json").exists():
            world.leaves(name, stated(run / "model.json"), "RUN/ledger.jsonl")

    sys.stdout = Printed(says)
    os.chdir(world.folder)
    app.main([*words, "--json"], standalone_mode=False)


def command(kind, name, *words):
    def run(world):
        rows = [",".join([*map(str, x), f"c{y}"]) for x, y in zip(X.tolist(), Y, strict=True)]
        world.folder.joinpath("rows.csv").write_text("a,b,c,label\n" + "\n".join(rows) + "\n")
        limits = {name: [-3.0, 3.0] for name in "abc"}
        world.folder.joinpath("ranges.json").write_text(json.dumps(limits))
        options = ["--classes", "c0,c1", "--ranges", "ranges.json", "--x-bound", "2", "--out", "RUN", *words]
        called(world, name, "run", "rows.csv", "--learner", kind, *options)

    return run


def resumed(name):
    return lambda world: called(world, name, "resume", "RUN")


FRAME = pandas.DataFrame({"x": np.linspace(0.0, 1.0, 200), "outcome": np.linspace(2.0, 3.0, 200)})

PLAIN = ("--radius", "1", "--no-diagnostics")
SCENARIOS = {
    "partial_fit": by_hand,
    "fit_stream": online,
    "a kept run": kept,
    "a kept run, last": last,
    "devices": devices,
    "a rank": rank,
    "a kept rank": kept_rank,
    "metrics": metrics,
    "kept metrics": kept_metrics,
    "PrefixSum": vectors,
    "SymmetricSum": matrices,
    "OutputPerturbation": at_rest(OutputPerturbation),
    "ObjectivePerturbation": at_rest(ObjectivePerturbation, delta=0.0),
    "POL": at_rest(POL, delta=1e-6),
    "a sealed fit": sealed,
    "PrivateSelection": selection,
    "PrivateEncoder": encoder,
    "privol run": command("dpftrl", "DPFTRL", *PLAIN, "--checkpoint", "10", "--private-metrics", "0.5"),
    "privol run, last": command("pigd", "PIGD", *PLAIN, "--horizon", "48"),
    "privol run, at rest": command("output-perturbation", "OutputPerturbation"),
}


#: Releases nothing before it is committed: a record that is one step late is too late.
KEPT = ("a kept run", "a kept run, last", "a kept rank", "kept metrics", "privol run, last")
#: A sealed model is released if its account pays for it, or not at all, whatever happened to the charge.
SEALED = ("a kept run, last", "a sealed fit", "privol run", "privol run, last", "privol run, at rest")
WATCHED = ("watch", 0)

#: Runs that resume after a kill.
GOING_ON = {
    "a kept run, last": last,
    "a kept rank": kept_rank,
    "kept metrics": kept_metrics,
    "a sealed fit": completed,
    "privol run, last": resumed("PIGD"),
    "privol run, at rest": resumed("OutputPerturbation"),
}


@pytest.fixture(scope="module", autouse=True)
def _found_before():
    """Values that a process computes once, such as the thresholds of strings, so that not every child computes them."""
    PrivateEncoder(epsilon=50.0).learn(FrameColumns(FRAME), "outcome", Labels(None, None))


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Folders of worlds. Nothing is synced here either."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)

    def made():
        folder = tmp_path / f"{len([*tmp_path.iterdir()])}"
        folder.mkdir()
        return folder

    return made


@pytest.mark.parametrize("name", SCENARIOS)
def test_everything_that_left_is_counted(name, folders):
    """Wherever the process ends, and whoever reads or settles its journal; a late ledger is detected."""
    scenario, known = SCENARIOS[name], set()
    (whole_run,) = struck(scenario, folders(), WATCHED)
    assert (whole_run.code, whole_run.errors) == (0, [])
    assert whole_run.left
    assert list(violations(whole_run, known)) == []
    # a moment that always occurs: how often a second thread makes a model visible during learning varies
    (found,) = struck(scenario, folders(), ("kill", kills(whole_run, "left", 2)[0]))
    assert found.code == KILLED
    assert list(violations(found, known)) == []
    todo = strikes(whole_run, 3)
    for strike, found in zip(todo, struck(scenario, folders(), *todo), strict=True):
        assert found.code == 0
        assert list(violations(found, known)) == [], strike
    for mutant in ("by one" if name in KEPT else "late", "unspent"):
        (found,) = struck(scenario, folders(), WATCHED, mutant=MUTANTS[mutant])
        refused = name in SEALED and any("was closed without it" in error for error in found.errors)
        assert refused or any(violations(found)), mutant


def settle_low(folder):
    """Another process with the journal states that nothing more was spent than it records."""
    for path in [path for path in folder.rglob("ledger.jsonl") if "aside" not in path.parts]:
        with opened(path) as ledger:
            for account in ledger.accounts:
                if not account.closed:
                    account.close_at(0, 0, 0.0)


@pytest.mark.parametrize("name", GOING_ON)
def test_everything_that_leaves_a_resumed_run_is_counted(name, folders):
    """It was killed when a file had its name, and another process may have closed its account meanwhile."""
    known, before = set(), SCENARIOS[name]
    (whole_run,) = struck(before, folders(), WATCHED)
    places = {re.sub(r"\d+", "", place): at for place, at in whole_run.renamed.items()}
    assert len(places) >= 5
    for place, at in places.items():
        folder = folders()
        struck(before, folder / "0", ("kill", at))
        shutil.copytree(folder / "0", folder / "1")
        settle_low(folder / "1")
        for after in struck(GOING_ON[name], folder, WATCHED, WATCHED):
            assert after.code == 0
            assert list(violations(after, known)) == [], place
