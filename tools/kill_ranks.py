"""Strike ranks of MPI runs that are kept, and compare what the runs come to.

Run from the checkout: ``python tools/kill_ranks.py --kills 300`` kills at random instants: one rank, or the launcher
with all ranks. ``--calls torn``, ``lost`` or ``failing`` strikes each rank at each of its system calls that write, as
``kill_campaign.py`` does: killed there with a write torn, without power, or by a full disk or another error of it.
The next attempt resumes. The runs are networks of nodes (``DOLA``, ``SparseDOLA``; each of three ranks has a directory
and a ledger of its own), and rows in parts (``DPFTRL``, ``PQFTL``; the first of three ranks, the curator, has the
directory). Every rank shows its models to an observer, who records them outside of the run's directories.

Whatever happened, a number of releases shows one model, every ledger covers what its rank has shown and takes nothing
back, and the run ends with the bits and the ledgers of one that nobody disturbs, without secrets. Exit code 1:
something else was found. The seed is fixed; the moment of a random kill also depends on the speed of the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from kill_layers import Ending, Failing, Layer, Losing, take_away_sync
from mpi_jobs import LOCAL, MPIEXEC, launched
from mpi_programs import Rows, X, Y, make
from part_rows import leaf_learner, parts_of, step_learner
from rank_doors import Doors

import privol
from privol.distributed import DealtRows, RankCrew, Ranks
from privol.errors import RankFailure, StateError
from privol.learners.views import export_of
from privol.ledger import Ledger
from privol.state import State, load_model

SIZE = 3
NOBODY, LAUNCHER = -1, -2
#: Seconds after which ranks are taken to wait for ever: they wait 10 for each other, while the curator calibrates too.
PATIENCE = 120
#: Of a torn write, the shares that have reached the file, and what a disk without power keeps: in turns.
CUTS, KEPT = (0.0, 0.5, 0.999, 1.0), ("nothing", "names", "contents", "half")
ERRORS = {"write": errno.ENOSPC, "open": errno.ENOSPC, "fsync": errno.EIO, "replace": errno.EIO}

MUTANTS = ("files", "folders", "journal")

How = dict[str, Any]


# ---- a rank --------------------------------------------------------------------------------------------------------


def learn_network(case: str, n: int, ranks: Ranks, home: Path, look: Callable[..., None]) -> Any:
    """Learn as some nodes of a network; the rank has the directory ``home / "run"``."""
    learner = make(case)
    rows = DealtRows(Rows(X[:n], Y[:n]), ranks, learner.mixing().n_nodes)
    return learner.fit_ranks(rows, ranks, progress=look, checkpoint=State(home / "run", every=n // (3 * SIZE)))


def learn_parts(learner: Any, rows: str, every: int, ranks: Ranks, home: Path, look: Callable[..., None]) -> Any:
    """Learn over rows in parts; the curator has the directory ``home / "run"``."""
    state = State(home.with_name("rank-0") / "run", every=every)
    learner.fit_parts(parts_of(rows), RankCrew(ranks), checkpoint=state)
    return learner


#: What a rank learns, of how many rows: of a large number for random instants, of a small one for every call.
KINDS: dict[str, Callable[..., Any]] = {
    "network": lambda big, *where: learn_network("batch", 1003 if big else 225, *where),
    "parts": lambda big, *where: learn_parts(
        *step_learner("logistic", batch=64 if big else 300), 1 if big else 250, *where
    ),
    "sparse network": lambda big, *where: learn_network("sparse", 1003 if big else 30, *where),
    "parts of least squares": lambda big, *where: learn_parts(
        leaf_learner("batch", batch=64 if big else 300), "real", 1 if big else 250, *where
    ),
}


def seen(learner: Any) -> tuple[int, str]:
    """Releases, and the model with them, all at once: a thread that keeps the run may show the next one."""
    found = export_of(learner)
    return found.n_releases, hashlib.sha256(found.model.tobytes() + found.average.tobytes()).hexdigest()[:24]


def layer_of(how: How, root: Path, struck: Path) -> Layer:
    """What strikes at a call."""
    if "kept" in how:
        return Losing(root, struck, how["call"], how["kept"])
    if "name" in how:
        return Failing(root, struck, how["name"], how["call"], ERRORS[how["name"]], how["once"])
    return Ending(root, struck, how["call"], how["cut"])


def rank(kind: str, folder: Path, victim: int, how: How, big: bool) -> int:
    """Learn, or go on; the victim is killed after a delay, or struck at a call."""
    ranks = Ranks(timeout=10.0)
    began = time.monotonic()
    (folder / f"pid-{ranks.rank}").write_text(str(os.getpid()))
    home = folder / f"rank-{ranks.rank}"
    if ranks.rank == victim and "delay" in how:
        threading.Timer(how["delay"], os.kill, (os.getpid(), signal.SIGKILL)).start()
    elif ranks.rank == victim:
        layer_of(how, home, folder / "struck").install()
        if "mutant" in how:
            take_away_sync(how["mutant"])
    world = os.open(folder / f"world-{ranks.rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def look(learner: Any, *_: Any) -> None:
        releases, model = seen(learner)
        os.write(world, f"{releases} {model}\n".encode())
        os.fsync(world)

    try:
        learner = KINDS[kind](big, ranks, home, look)
    except (RankFailure, StateError):  # of a rank that was killed; of a run that has ended on some rank
        return 3
    except OSError:  # of the disk
        return 4
    look(learner)
    (folder / f"seconds-{ranks.rank}").write_text(str(time.monotonic() - began))
    return 0


# ---- all of them -----------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What was done to runs of one kind."""

    kind: str
    runs: int = 0
    struck: int = 0
    violations: list[str] = field(default_factory=list)


Entry = tuple[int, int, float, bool]


def kill_all(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Kill the launcher and its ranks, which would wait for each other."""
    process.kill()
    for path in folder.glob("pid-*"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(path.read_text()), signal.SIGKILL)


def attempt(kind: str, folder: Path, victim: int, how: How, big: bool) -> int | None:
    """Start the ranks; return the launcher's exit code, negative after a signal, None if they had to be ended."""
    paths = [str(Path(privol.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**LOCAL, **os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    start = [MPIEXEC, "--allow-run-as-root", "--oversubscribe", "-n", str(SIZE)]
    words = [__file__, "--rank", kind, str(folder), str(victim), json.dumps([how, big])]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    with contextlib.ExitStack() as stack:
        environment |= stack.enter_context(launched())
        python = stack.enter_context(Doors()).command if sys.platform.startswith("linux") else [sys.executable]
        process = stack.enter_context(subprocess.Popen([*start, *python, *words], env=environment, **quiet))
        if victim == LAUNCHER:
            while process.poll() is None and not (folder / "pid-0").exists():
                time.sleep(0.01)
            time.sleep(how["delay"])
            if process.poll() is None:
                kill_all(process, folder)
        code: int | None = None
        try:
            code = process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            kill_all(process, folder)
    for path in folder.glob("pid-*"):
        path.unlink()
    return code


def ledgers(folder: Path) -> dict[str, Entry]:
    """The only entry of every ledger, by its rank; of none that was not begun, or whose first record is not whole."""
    found = {}
    for path in sorted(folder.glob("rank-*/run/ledger.jsonl")):
        try:
            entries = Ledger.read(path).entries()
        except StateError as error:
            if "no whole record" not in str(error) and "is empty" not in str(error):
                raise
        else:
            for entry in entries:
                found[path.parts[-3]] = entry.rows, entry.releases, entry.mu_squared, entry.open
    return found


class Campaign:
    """Runs of one kind, and what one that nobody disturbs comes to."""

    def __init__(self, kind: str, folder: Path, rng: random.Random, strikes: int, big: bool) -> None:
        self.kind, self.folder, self.rng, self.strikes, self.big = kind, folder, rng, strikes, big
        self.tally = Tally(kind)
        whole = self.fresh()
        if self.attempt(whole) != 0:
            raise SystemExit(f"{kind}: a run that nobody disturbs fails")
        self.ends, self.seconds = self.end(whole), float((whole / "seconds-0").read_text())
        self.models, self.ledgers = dict(self.world(whole)), ledgers(whole)
        # a run that resumes may show its nodes between the last step and the model: these are of one value, too
        self.between: dict[tuple[str, str], str] = {}

    def attempt(self, folder: Path, victim: int = NOBODY, how: How | None = None) -> int | None:
        return attempt(self.kind, folder, victim, how or {}, self.big)

    def fresh(self) -> Path:
        self.tally.runs += 1
        folder = self.folder / f"{self.kind.replace(' ', '-')}-{self.tally.runs}"
        for home in range(SIZE):
            (folder / f"rank-{home}").mkdir(parents=True)
        return folder

    def end(self, folder: Path) -> list[tuple[int, str]]:
        """The models of all directories of a run that has ended."""
        return [seen(load_model(path.parent)) for path in sorted(folder.glob("rank-*/run/model.json"))]

    def world(self, folder: Path) -> list[tuple[tuple[str, str], str]]:
        """What each rank showed: by rank and number of releases, one model."""
        lines = [(path.name, line.split()) for path in folder.glob("world-*") for line in path.read_text().splitlines()]
        return [((name, words[0]), words[1]) for name, words in lines if len(words) == 2]

    def wrong(self, folder: Path, what: str) -> None:
        self.tally.violations.append(f"{folder.name}: {what}")

    def at_random(self) -> None:
        """Kill at random instants, until the run ends."""
        folder, attempts, before = self.fresh(), 0, dict[str, Entry]()
        while len(self.end(folder)) < len(self.ends):
            attempts += 1
            if attempts > self.strikes + 4:
                self.wrong(folder, "it does not come to an end")
                return
            victim = self.rng.choice([LAUNCHER, *range(SIZE)]) if attempts <= self.strikes else NOBODY
            code = self.attempt(folder, victim, {"delay": self.rng.uniform(0.0, 1.1) * self.seconds})
            if code is None:
                self.wrong(folder, f"ranks still ran {PATIENCE} s after rank {victim} was killed")
            self.tally.struck += code != 0 and victim != NOBODY
            before = self.check(folder, before)
        self.check_end(folder)

    def at_call(self, victim: int, how: How) -> bool:
        """Strike a rank at a call, and resume; return whether the rank makes so many."""
        folder, known = self.fresh(), self.tally.violations[:]
        code = self.attempt(folder, victim, how)
        if (folder / "struck").read_text() == "":
            shutil.rmtree(folder)
            return False
        self.tally.struck += 1
        if code is None:
            self.wrong(folder, f"ranks still ran {PATIENCE} s after rank {victim} was struck")
        before = self.check(folder, {})
        for _ in range(4):
            if len(self.end(folder)) == len(self.ends):
                break
            self.attempt(folder)
            before = self.check(folder, before)
        self.check_end(folder)
        new = self.tally.violations[len(known) :]
        self.tally.violations = known + [f"{what} [rank {victim}, {how}]" for what in new]
        return True

    def check(self, folder: Path, before: dict[str, Entry]) -> dict[str, Entry]:
        """Check what was shown, and the ledgers, which are returned."""
        now = ledgers(folder)
        for name, (rows, releases, square, open_) in before.items():
            # the whole reservation of a run that had committed nothing counts, until its spending is known
            known = (rows, releases, 0.0 if rows == releases == 0 and open_ else square)
            if name not in now or any(new < old for new, old in zip(now[name], known, strict=False)):
                self.wrong(folder, f"a ledger went back from {before} to {now}")
        for (name, releases), model in self.world(folder):
            key = name, releases
            if model != self.models.get(key) and model != self.between.setdefault(key, model):
                self.wrong(folder, f"{name}: {releases} releases show another model than the run that nobody disturbs")
            entry = now.get(name.replace("world", "rank") if len(self.ledgers) > 1 else "rank-0")
            if int(releases) and (entry is None or entry[1] < int(releases)):
                self.wrong(folder, f"{name}: {releases} releases were shown, and the ledger has {entry}")
        return now

    def check_end(self, folder: Path) -> None:
        """Check a run that has ended."""
        if list(folder.glob("rank-*/run/secret")):  # struck where it ended
            self.attempt(folder)
        if self.end(folder) != self.ends or ledgers(folder) != self.ledgers:
            self.wrong(folder, f"it came to {self.end(folder)}, {ledgers(folder)}, not {self.ends}, {self.ledgers}")
        if left := [str(path) for path in folder.glob("rank-*/run/secret/*")]:
            self.wrong(folder, f"secrets are left: {left}")
        shutil.rmtree(folder)


#: How a rank is struck at a call; a write is torn, and what it leaves changes from call to call.
WAYS: dict[str, list[Callable[[int], How]]] = {
    "torn": [lambda call: {"call": call, "cut": CUTS[call % len(CUTS)]}],
    "lost": [lambda call: {"call": call, "kept": KEPT[call % len(KEPT)]}],
    "failing": [lambda call, name=name: {"call": call, "name": name, "once": call % 2 == 0} for name in ERRORS],
}


def strike(campaign: Campaign, calls: str, apart: int, more: How) -> None:
    """Strike each rank at its calls, so far apart, up to one that it does not make."""
    for victim in range(SIZE):
        for way in WAYS[calls]:
            call = 1 + victim % apart
            while campaign.at_call(victim, way(call) | more):
                call += apart


def main() -> int:
    """Run the campaign, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kills", type=int, default=300, help="at random instants, for all kinds together")
    parser.add_argument("--strikes", type=int, default=26, help="at a run: after these nobody disturbs it")
    parser.add_argument("--calls", choices=WAYS, help="strike at every call, instead of at random instants")
    parser.add_argument("--apart", type=int, default=1, help="calls from one that is struck to the next")
    parser.add_argument("--mutant", choices=MUTANTS, help="without this sync, --calls lost has to find violations")
    parser.add_argument("--only", choices=KINDS, action="append", help="runs of these kinds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rank", nargs=4, metavar=("KIND", "FOLDER", "VICTIM", "HOW"), help="used by the launcher")
    given = parser.parse_args()
    if given.rank is not None:
        kind, folder, victim, how = given.rank
        return rank(kind, Path(folder), int(victim), *json.loads(how))
    with tempfile.TemporaryDirectory(prefix="privol-ranks-") as name:
        campaigns = [
            Campaign(kind, Path(name), random.Random(f"{given.seed} {kind}"), given.strikes, not given.calls)
            for kind in given.only or KINDS
        ]
        if given.calls:
            for campaign in campaigns:
                strike(campaign, given.calls, given.apart, {"mutant": given.mutant} if given.mutant else {})
        while not given.calls and sum(campaign.tally.struck for campaign in campaigns) < given.kills:
            min(campaigns, key=lambda campaign: campaign.tally.struck).at_random()
    print("| runs on ranks | runs | ranks or launchers struck | violations |\n| --- | --- | --- | --- |")
    for campaign in campaigns:
        found = campaign.tally
        print(f"| {found.kind} | {found.runs:,} | {found.struck:,} | {len(found.violations):,} |")
        for what in found.violations[:20]:
            print(f"    {what}", file=sys.stderr)
    return int(any(campaign.tally.violations for campaign in campaigns))


if __name__ == "__main__":
    sys.exit(main())
