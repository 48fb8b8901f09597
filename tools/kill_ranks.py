"""Kill ranks of MPI runs that are kept, at random instants, and compare what the runs come to.

Run from the checkout: ``python tools/kill_ranks.py --kills 300``. Two kinds of runs take turns: a network of nodes
(``DOLA`` on three ranks, each with a directory and a ledger of its own), and rows in parts (``DPFTRL`` on three ranks,
of which the curator has the directory). In each attempt one rank is killed, or the launcher with all ranks; the next
one resumes.
Every rank shows its models to an observer, who records them outside of the run's directories.

Whatever happened, a number of releases shows one model, no ledger takes anything back, and the run ends with the bits
and the ledger of one that nobody disturbs, without secrets. Exit code 1: something else was found. The seed is fixed;
the moment of a kill also depends on the speed of the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from mpi_jobs import LOCAL, MPIEXEC, launched
from mpi_programs import make, rows_of
from part_rows import parts_of, step_learner
from rank_doors import Doors

import privol
from privol.distributed import RankCrew, Ranks
from privol.errors import RankFailure, StateError
from privol.learners.views import export_of
from privol.ledger import Ledger
from privol.state import State, load_model

KINDS = ("network", "parts")
SIZE = 3
NOBODY, LAUNCHER = -1, -2
#: Seconds after which ranks are taken to wait for ever: they wait 3 for each other.
PATIENCE = 120


# ---- a rank --------------------------------------------------------------------------------------------------------


def seen(learner: Any) -> tuple[int, str]:
    """Releases, and the model with them, all at once: a thread that keeps the run may show the next one."""
    found = export_of(learner)
    return found.n_releases, hashlib.sha256(found.model.tobytes() + found.average.tobytes()).hexdigest()[:24]


def rank(kind: str, folder: Path, victim: int, delay: float) -> int:
    """Learn, or go on; the victim is killed after a delay."""
    ranks = Ranks(timeout=3.0)
    began = time.monotonic()
    (folder / f"pid-{ranks.rank}").write_text(str(os.getpid()))
    if ranks.rank == victim:
        threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
    world = os.open(folder / f"world-{ranks.rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def look(learner: Any, *_: Any) -> None:
        releases, model = seen(learner)
        os.write(world, f"{releases} {model}\n".encode())
        os.fsync(world)

    try:
        if kind == "network":
            learner, state = make("batch"), State(folder / f"rank-{ranks.rank}", every=90)
            learner.fit_ranks(rows_of("batch", ranks), ranks, progress=look, checkpoint=state)
        else:
            learner, rows = step_learner("logistic", batch=64)
            learner.fit_parts(parts_of(rows), RankCrew(ranks), checkpoint=State(folder / "rank-0", every=1))
    except (RankFailure, StateError):  # of a rank that was killed; of a run that has ended on some rank
        return 3
    look(learner)
    (folder / f"seconds-{ranks.rank}").write_text(str(time.monotonic() - began))
    return 0


# ---- all of them -----------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What was done to runs of one kind."""

    kind: str
    runs: int = 0
    kills: int = 0
    violations: list[str] = field(default_factory=list)


def kill_all(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Kill the launcher and its ranks, which would wait for each other."""
    process.kill()
    for path in folder.glob("pid-*"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(path.read_text()), signal.SIGKILL)


def attempt(kind: str, folder: Path, victim: int, delay: float) -> int | None:
    """Start the ranks; return the launcher's exit code, negative after a signal, None if they had to be ended."""
    paths = [str(Path(privol.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**LOCAL, **os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    start = [MPIEXEC, "--allow-run-as-root", "--oversubscribe", "-n", str(SIZE)]
    words = [__file__, "--rank", kind, str(folder), str(victim), str(delay)]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    with contextlib.ExitStack() as stack:
        environment |= stack.enter_context(launched())
        python = stack.enter_context(Doors()).command if sys.platform.startswith("linux") else [sys.executable]
        process = stack.enter_context(subprocess.Popen([*start, *python, *words], env=environment, **quiet))
        if victim == LAUNCHER:
            while process.poll() is None and not (folder / "pid-0").exists():
                time.sleep(0.01)
            time.sleep(delay)
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


def ledgers(folder: Path) -> list[tuple[int, int, float, bool]]:
    """The only entry of every ledger; of none that was not begun."""
    found = []
    for path in sorted(folder.glob("rank-*/ledger.jsonl")):
        if path.stat().st_size:
            found += [(e.rows, e.releases, e.mu_squared, e.open) for e in Ledger.read(path).entries()[-1:]]
    return found


class Campaign:
    """Runs of one kind, and what one that nobody disturbs comes to."""

    def __init__(self, kind: str, folder: Path, rng: random.Random, strikes: int) -> None:
        self.kind, self.folder, self.rng, self.strikes, self.tally = kind, folder, rng, strikes, Tally(kind)
        whole = self.fresh()
        if attempt(kind, whole, NOBODY, 0.0) != 0:
            raise SystemExit(f"{kind}: a run that nobody disturbs fails")
        self.ends, self.seconds = self.end(whole), float((whole / "seconds-0").read_text())
        self.models, self.ledgers = dict(self.world(whole)), ledgers(whole)

    def fresh(self) -> Path:
        self.tally.runs += 1
        folder = self.folder / f"{self.kind}-{self.tally.runs}"
        folder.mkdir()
        return folder

    def end(self, folder: Path) -> list[tuple[int, str]]:
        """The models of all directories of a run that has ended."""
        return [seen(load_model(path.parent)) for path in sorted(folder.glob("rank-*/model.json"))]

    def world(self, folder: Path) -> list[tuple[tuple[str, str], str]]:
        """What each rank showed: by rank and number of releases, one model."""
        lines = [(path.name, line.split()) for path in folder.glob("world-*") for line in path.read_text().splitlines()]
        return [((name, words[0]), words[1]) for name, words in lines if len(words) == 2]

    def wrong(self, folder: Path, what: str) -> None:
        self.tally.violations.append(f"{folder.name}: {what}")

    def run(self) -> None:
        """One run, which is struck until it ends."""
        folder, before = self.fresh(), list[tuple[int, int, float, bool]]()
        attempts = 0
        while len(self.end(folder)) < len(self.ends):
            attempts += 1
            if attempts > self.strikes + 4:
                self.wrong(folder, "it does not come to an end")
                return
            victim = self.rng.choice([LAUNCHER, *range(SIZE)]) if attempts <= self.strikes else NOBODY
            code = attempt(self.kind, folder, victim, self.rng.uniform(0.0, 1.1) * self.seconds)
            if code is None:
                self.wrong(folder, f"ranks still ran {PATIENCE} s after rank {victim} was killed")
            self.tally.kills += code != 0 and victim != NOBODY
            now = ledgers(folder)
            for (rows, releases, square, open_), after in zip(before, now, strict=False):
                # the whole reservation of a run that had committed nothing counts, until its spending is known
                known = (rows, releases, 0.0 if rows == releases == 0 and open_ else square)
                if any(new < old for new, old in zip(after, known, strict=False)) or len(now) < len(before):
                    self.wrong(folder, f"a ledger went back from {before} to {now}")
            before, shown = now, dict(self.models)
            for key, model in self.world(folder):
                if shown.setdefault(key, model) != model:
                    self.wrong(folder, f"{key} shows another model than the run that nobody disturbs")
        if list(folder.glob("rank-*/secret")):  # killed where it ended
            attempt(self.kind, folder, NOBODY, 0.0)
        if self.end(folder) != self.ends or ledgers(folder) != self.ledgers:
            self.wrong(folder, f"it came to {self.end(folder)}, {ledgers(folder)}, not {self.ends}, {self.ledgers}")
        if left := [str(path) for path in folder.glob("rank-*/secret/*")]:
            self.wrong(folder, f"secrets are left: {left}")
        shutil.rmtree(folder)


def main() -> int:
    """Run the campaign, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kills", type=int, default=300, help="for both kinds together")
    parser.add_argument("--strikes", type=int, default=26, help="at a run: after these nobody disturbs it")
    parser.add_argument("--only", choices=KINDS, help="runs of this kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rank", nargs=4, metavar=("KIND", "FOLDER", "VICTIM", "DELAY"), help="used by the launcher")
    given = parser.parse_args()
    if given.rank is not None:
        kind, folder, victim, delay = given.rank
        return rank(kind, Path(folder), int(victim), float(delay))
    kinds = KINDS if given.only is None else (given.only,)
    with tempfile.TemporaryDirectory(prefix="privol-ranks-") as name:
        campaigns = [Campaign(kind, Path(name), random.Random(f"{given.seed} {kind}"), given.strikes) for kind in kinds]
        while sum(campaign.tally.kills for campaign in campaigns) < given.kills:
            min(campaigns, key=lambda campaign: campaign.tally.kills).run()
    print("| runs on ranks | runs | ranks or launchers killed | violations |\n| --- | --- | --- | --- |")
    for campaign in campaigns:
        found = campaign.tally
        print(f"| {found.kind} | {found.runs:,} | {found.kills:,} | {len(found.violations):,} |")
        for what in found.violations[:20]:
            print(f"    {what}", file=sys.stderr)
    return int(any(campaign.tally.violations for campaign in campaigns))


if __name__ == "__main__":
    sys.exit(main())
