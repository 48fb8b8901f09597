"""Kill, starve and damage learning processes by the hundred, and write the findings into docs/reliability.md.

Run from the checkout, with nothing else on the machine: ``python tools/kill_campaign.py --write docs/reliability.md``.
The seed is fixed; the moment of a kill also depends on the machine's speed. ``--share 0.02`` is the run of the suite;
``--only CLASS`` runs one class; ``--json`` prints the figures, and ``--read`` makes the table of such figures. Exit
code 1: something was violated.

The process forks its children after everything is imported, so that a kill strikes learning and not the imports.
"""

from __future__ import annotations

import argparse
import errno
import gc
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # before NumPy: a fork has one thread
    os.environ.setdefault(_name, "1")
sys.path.insert(0, str(Path(__file__).parent))

import kill_damage  # noqa: E402
import kill_jobs  # noqa: E402
import numpy as np  # noqa: E402
from kill_jobs import DONE, FINISHED, OTHER_ROWS, REFUSED, STRUCK, TROUBLE, Case, Job, World  # noqa: E402
from kill_kept import KEPT_THINGS, KeptCase, Thing  # noqa: E402
from kill_layers import Ending, Failing, FailingLosing, Losing, Short, take_away_sync  # noqa: E402
from kill_runs import JOBS  # noqa: E402

from privol.errors import PrivacyWarning  # noqa: E402

KEPT = ("nothing", "names", "contents", "half")
CUTS = (0.0, 0.5, 0.999, 1.0)
MUTANTS = ("files", "folders", "journal")
DENSE = "DPFTRL blt, watched"
KILLS = ("kill", "torn", "lost", "rivals", *KEPT_THINGS)  # what is struck in these classes is a process that is killed
SMALL = 300, 60  # rows of the runs that are struck at every call, and rows between two checkpoints


@dataclass
class Tally:
    """The results of a class of failures."""

    name: str
    cases: int = 0
    struck: int = 0  # processes killed, interrupted, or made to fail
    resumed: int = 0
    refused: int = 0  # attempts that had to be refused, or were rightly refused
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0
    commit: str = ""  # the last one that changed the source

    def take(self, case: Case) -> None:
        self.cases += 1
        self.resumed += case.attempts - 1
        self.violations += case.violations


@dataclass
class Campaign:
    """The folder of the campaign, its size, and its random numbers."""

    folder: Path
    share: float
    rng: np.random.Generator
    names: tuple[str, ...] = ("*",)
    count: int = 0
    thing: Thing | None = None  # strike this, and not runs

    def case(self, job: Any) -> Case:
        self.count += 1
        return (KeptCase if isinstance(job, Thing) else Case)(job, self.folder / f"{self.count}")

    def times(self, n: int) -> int:
        return max(1, round(n * self.share))

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def jobs(self) -> list[Job]:
        """All kinds of runs; four of them in a small campaign."""
        return list(self._all().values())[:: 1 if self.share >= 0.5 else 9]

    def _all(self) -> dict[str, Job]:
        return {name: job for name, job in JOBS.items() if any(fnmatchcase(name, each) for each in self.names)}

    def small(self, apart: int = 1) -> Iterator[tuple[str, Any, int, int]]:
        """The runs that are struck at every call: the first call, and the step from one to the next.

        Of all runs but one the calls are so far ``apart``, in turns. A small campaign has one run.
        """
        jobs = list(self._all().items())
        if self.thing is not None:
            name = self.thing.name if self.thing.slow else DENSE
            yield name, self.thing, 1, 1 if self.share >= 0.5 else max(1, round(0.2 / self.share))
            return
        if self.share < 0.5:
            step = max(1, round(0.2 / self.share))
            name, job = jobs[self.count % len(jobs)]
            yield name, job.resized(*SMALL), int(self.rng.integers(1, step + 1)), step
            return
        for k, (name, job) in enumerate(jobs):
            step = 1 if name == DENSE else apart
            yield name, job.resized(*SMALL), 1 + k % step, step


# ---- other rows ---------------------------------------------------------------------------------------------------


def try_other_rows(campaign: Campaign, case: Case, tally: Tally) -> None:
    """Another row in place of a learnt one is refused; in place of an unseen one, it is learnt."""
    if isinstance(case.job, Thing):
        return
    entries = case.entries()
    rows = case.job.learnt(entries)
    if rows and entries[-1].open and campaign.chance(0.5):
        elsewhere = World(case.folder / "other.txt")
        status = case.attempt(changed=int(campaign.rng.integers(rows)), world=elsewhere)
        case.check_world(elsewhere.read())
        tally.refused += 1
        if status not in (OTHER_ROWS, FINISHED):
            case.wrong(f"a learnt row was changed, and the run was not refused: status {status}")
    elif entries and rows < case.job.rows and not case.job.binds_all:
        copied = campaign.case(case.job)
        shutil.copytree(case.root, copied.root, dirs_exist_ok=True)
        changed = int(campaign.rng.integers(rows, case.job.rows))
        status = copied.attempt(changed=changed)
        seen = copied.world.read()
        copied.check_world([line for line in seen if line[0] == "release" and line[1] <= changed])
        if status not in (DONE, FINISHED):
            case.wrong(f"a row that nobody has seen was changed, and the run was refused: status {status}")
        case.violations += copied.violations
        shutil.rmtree(copied.folder)


# ---- random moments -----------------------------------------------------------------------------------------------


def pace(job: Any, campaign: Campaign) -> float:
    """Seconds of an undisturbed run."""
    case = campaign.case(job)
    began = time.perf_counter()
    case.attempt()
    return time.perf_counter() - began


def random_kills(campaign: Campaign, tally: Tally, job: Any, number: int, signals: tuple[int, ...]) -> None:
    """Runs, each struck at random moments until it ends; three in ten times while it is about to resume."""
    whole, left = pace(job, campaign), number
    while left > 0:
        case = campaign.case(job)
        while left > 0:
            soon = case.attempts > 0 and campaign.chance(0.3)
            child = case.start(block=int(campaign.rng.choice([100, 400, 1500])))
            struck = int(campaign.rng.choice(signals))
            time.sleep(campaign.rng.uniform(0.0, 0.1 if soon else 1.1) * whole)
            os.kill(child, struck)
            if struck == signal.SIGINT and campaign.chance(0.3):  # an impatient user
                time.sleep(campaign.rng.uniform(0.0, 0.05) * whole)
                os.kill(child, struck)
            status = case.wait(child)
            if status in (DONE, FINISHED):
                case.check_end()
                break
            if status not in (-struck, STRUCK, REFUSED):
                case.wrong(f"a process that was struck by signal {struck} ended with status {status}")
            left -= 1
            tally.struck += 1
            case.check()
            if campaign.chance(0.125):
                try_other_rows(campaign, case, tally)
        else:
            case.finish()
        tally.take(case)
        shutil.rmtree(case.folder)


def killed(campaign: Campaign, tally: Tally) -> None:
    for job in campaign.jobs():
        random_kills(campaign, tally, job, campaign.times(67), (signal.SIGKILL,))
    for name in ("PIGD, watched", "DPFTRL blt, looked at"):  # irreproducible noise: one value of each
        job = JOBS[name]
        unseeded = replace(job, seed=None)
        random_kills(campaign, tally, unseeded, campaign.times(50), (signal.SIGKILL,))


def interrupted(campaign: Campaign, tally: Tally) -> None:
    for job in campaign.jobs():
        random_kills(campaign, tally, job, campaign.times(20), (signal.SIGINT, signal.SIGINT, signal.SIGTERM))


# ---- every call ---------------------------------------------------------------------------------------------------


Arm = Callable[..., None]


def at_every_call(campaign: Campaign, tally: Tally, arms: Callable[[str, int], Iterator[Arm]], apart: int = 1) -> None:
    """A fresh run for each call and each arm, up to a call that the run does not make; then it resumes.

    Of the arms that tear a write, only the first is used if the call is not a write.
    """
    for name, job, first, step in campaign.small(apart):
        call, more = first, True
        while more:
            more, struck = False, ""
            for arm in arms(name, call):
                if struck not in ("", "write") and _is_torn(arm):
                    continue
                case = campaign.case(job)
                status = case.attempt(block=50, arm=arm)
                struck = case.struck
                if status == DONE and not struck:
                    case.check_end()
                    shutil.rmtree(case.folder)
                    continue
                more = more or bool(struck)
                tally.struck += 1
                if status not in (-signal.SIGKILL, TROUBLE, DONE, REFUSED):
                    case.wrong(f"status {status}")
                case.check()
                if campaign.chance(0.2):  # once more, while it resumes
                    second = partial(_ending, last=int(campaign.rng.integers(1, 60)), cut=0.5)
                    tally.struck += case.attempt(block=50, arm=second) == -signal.SIGKILL
                    case.check()
                elif campaign.chance(0.1):
                    try_other_rows(campaign, case, tally)
                case.finish(block=50)
                case.violations = [f"{what} [call {call}, {struck}, {_words(arm)}]" for what in case.violations]
                tally.take(case)
                shutil.rmtree(case.folder)
            call += step


def _is_torn(arm: Any) -> bool:
    return isinstance(arm, partial) and arm.keywords.get("cut") is not None


def _words(arm: Any) -> str:
    return f"{arm.func.__name__} {arm.keywords}" if isinstance(arm, partial) else str(arm)


def _ending(root: Path, struck: Path, *, last: int, cut: float | None) -> None:
    Ending(root, struck, last, cut).install()


def _losing(root: Path, struck: Path, *, last: int, kept: str, mutant: str | None = None) -> None:
    Losing(root, struck, last, kept).install()
    if mutant is not None:
        take_away_sync(mutant)


def _failing(
    root: Path, struck: Path, *, name: str, first: int, number: int, once: bool, tries: int = 1, kept: str | None = None
) -> None:
    if kept is None:
        Failing(root, struck, name, first, number, once).install()
    else:
        layer = FailingLosing(root, struck, kept, name, first, number)
        layer.install()
        Thing.ending = layer.end_if_failed
    Thing.tries = tries


def torn(campaign: Campaign, tally: Tally) -> None:
    at_every_call(campaign, tally, lambda _, call: (partial(_ending, last=call, cut=cut) for cut in (None, *CUTS)))


def lost(campaign: Campaign, tally: Tally, mutant: str | None = None) -> None:
    """At each call what the disk keeps besides changes from one kind of run to the next; one of them has all."""
    order = {
        name: k for k, name in enumerate([*JOBS, *(thing.name for things in KEPT_THINGS.values() for thing in things)])
    }

    def arms(name: str, call: int) -> Iterator[Arm]:
        all_of_them = mutant is not None or name == DENSE
        for kept in KEPT if all_of_them else [KEPT[(call + order[name]) % len(KEPT)]]:
            yield partial(_losing, last=call, kept=kept, mutant=mutant)

    at_every_call(campaign, tally, arms, 3 if mutant else 1)


# ---- no room, no disk ---------------------------------------------------------------------------------------------


ERRORS = {"write": errno.ENOSPC, "fsync": errno.EIO, "open": errno.ENOSPC, "replace": errno.EIO}
WAYS = ({"once": False}, {"once": True}, {"once": True, "tries": 2}, {"once": True, "tries": 2, "kept": "nothing"})


def failing(campaign: Campaign, tally: Tally) -> None:
    """Once, or from then on; a thing that is no run also goes on in the same process, and then may lose power."""
    ways = WAYS[: 2 if campaign.thing is None else None]
    errors = {**ERRORS, "rename": errno.EIO} if campaign.thing is not None and campaign.thing.renames else ERRORS
    all_of_them = campaign.thing is not None and not campaign.thing.slow and campaign.share >= 0.8

    def arms(_: str, call: int) -> Iterator[Arm]:
        for k, (name, number) in enumerate(errors.items()):
            for way in ways if all_of_them else [ways[(call + k + 1) % len(ways)]]:
                yield partial(_failing, name=name, first=call, number=number, **way)

    at_every_call(campaign, tally, arms)
    for _, job, _, _ in campaign.small():
        for arm in [*(partial(_short, most=most) for most in (1, 100)), _alarmed]:
            case = campaign.case(job)
            tally.struck += 1
            if case.attempt(block=50, arm=arm) != DONE:
                case.wrong(f"{_words(arm)} ended the run")
            case.check_end()
            tally.take(case)


def _short(root: Path, struck: Path, *, most: int) -> None:
    Short(root, struck, most).install()


def _alarmed(root: Path, struck: Path) -> None:
    """System calls are interrupted by a handled signal every millisecond."""
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.siginterrupt(signal.SIGALRM, True)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)


def small_disk(campaign: Campaign, tally: Tally) -> None:
    """A separate file system with less and less room; if none may be mounted, a limit on the size of files."""
    for _, job, _, _ in campaign.small():
        for room in range(1, 40):
            case = campaign.case(job)
            mount = subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={4 * room}k", "tmpfs", str(case.root)],
                capture_output=True, check=False,
            )  # fmt: skip
            arm = None if mount.returncode == 0 else partial(_limited, most=256 * room)
            try:
                status = case.attempt(block=50, arm=arm)
                if status == DONE:
                    break
                tally.struck += 1
                if status != TROUBLE:
                    case.wrong(f"{room} pages of room: status {status}")
                case.check()
                if mount.returncode == 0:
                    subprocess.run(["mount", "-o", "remount,size=64m", str(case.root)], check=True)
                case.finish(block=50)
            finally:
                if mount.returncode == 0:
                    subprocess.run(["umount", str(case.root)], check=True)
                tally.take(case)


def _limited(root: Path, struck: Path, *, most: int) -> None:
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


# ---- damaged files ------------------------------------------------------------------------------------------------


def damaged(campaign: Campaign, tally: Tally) -> None:
    for _, job, _, _ in campaign.small():
        for call in campaign.rng.integers(40, 70, size=1):
            victim = campaign.case(job)
            for last in (int(call) - 12, 12):  # the earlier files stay available
                if victim.attempt(block=50, arm=partial(_ending, last=last, cut=0.5)) != -signal.SIGKILL:
                    victim.wrong("it was to be killed")
                if last != 12:
                    older = campaign.folder / "older"
                    shutil.rmtree(older, ignore_errors=True)
                    shutil.copytree(victim.root, older)
            regions = 5 if campaign.share >= 0.5 else 2
            for what, damage in kill_damage.damages(victim.root, older, regions, campaign.rng):
                case = campaign.case(job)
                shutil.copytree(victim.root, case.root, dirs_exist_ok=True)
                if victim.world.path.exists():
                    shutil.copy(victim.world.path, case.world.path)
                damage(case.root)
                tally.struck += 1
                status = case.attempt(block=50)
                kill_damage.check(case, status)
                tally.refused += status in (REFUSED, OTHER_ROWS)
                case.violations = [f"{found} [{what}, killed at call {call}]" for found in case.violations]
                tally.take(case)
                tally.resumed += status not in (REFUSED, OTHER_ROWS)
                shutil.rmtree(case.folder)
            tally.violations += victim.violations
            shutil.rmtree(victim.folder)


# ---- forks and rivals ---------------------------------------------------------------------------------------------


def forked(campaign: Campaign, tally: Tally) -> None:
    """The learning process forks after every few blocks: no child can do anything, and others are kept out."""
    for job in campaign.jobs():
        for _ in range(campaign.times(3)):
            case = campaign.case(job)
            attempts = kill_damage.Forking(case.folder, every=7)
            child = case.start(block=job.every // 2, work=attempts)
            time.sleep(campaign.rng.uniform(0.0, 0.3))
            rival = case.attempt(world=World(case.folder / "rival.txt"))
            if rival not in (REFUSED, FINISHED):
                case.wrong(f"a second process was let in beside one that forks: status {rival}")
            if (status := case.wait(child)) not in (DONE, REFUSED):
                case.wrong(f"a process that forks ended with status {status}")
            tally.struck += attempts.check(case)
            tally.refused += 1
            if status == REFUSED:
                case.finish()
            case.check_end()
            tally.take(case)


def rivals(campaign: Campaign, tally: Tally) -> None:
    """Three processes at once on one directory, or one journal; the first is killed now and then."""
    for job in campaign.jobs():
        whole = pace(job, campaign)
        for _ in range(campaign.times(8)):
            case = campaign.case(job)
            children = []
            for _ in range(3):
                children.append(case.start(block=int(campaign.rng.choice([400, 1500]))))
                time.sleep(campaign.rng.uniform(0.0, 0.4) * whole)
            if campaign.chance(0.5):
                os.kill(children[0], signal.SIGKILL)
                tally.struck += 1
            found = [case.wait(child) for child in children]
            # a process that comes when another has just finished may find the folder of its lock gone
            found = [REFUSED if s == TROUBLE and "No such file" in case.trouble else s for s in found]
            tally.refused += found.count(REFUSED)
            if set(found) - {DONE, REFUSED, FINISHED, -signal.SIGKILL} or found.count(DONE) > 1:
                case.wrong(f"of three processes at once: {found} {case.trouble}")
            case.check()
            if DONE in found:
                case.check_end()
            else:
                case.finish()
            tally.take(case)


# ---- what is no run -----------------------------------------------------------------------------------------------


def all_kills_of(things: list[Thing], campaign: Campaign, tally: Tally) -> None:
    """Killed at random instants; at every call, with writes torn; and without power, whatever the disk keeps."""
    for thing in things:
        campaign.thing = thing
        random_kills(campaign, tally, thing, campaign.times(67), (signal.SIGKILL,))
        torn(campaign, tally)
        lost(campaign, tally)


def all_errors_of(things: list[Thing], campaign: Campaign, tally: Tally) -> None:
    """No room, and errors of the disk, at every call."""
    for thing in things:
        campaign.thing = thing
        failing(campaign, tally)


CLASSES: dict[str, tuple[str, Callable[[Campaign, Tally], None]]] = {
    "kill": ("kill -9 at a random instant", killed),
    "interrupt": ("Ctrl-C and SIGTERM at a random instant", interrupted),
    "torn": ("killed at every writing system call, writes torn", torn),
    "lost": ("power lost at every writing system call", lost),
    "failing": ("no room, errors of the disk, short and interrupted calls", failing),
    "room": ("a real file system that is full", small_disk),
    "damaged": ("damaged, truncated, exchanged and missing files", damaged),
    "forked": ("forks while learning", forked),
    "rivals": ("three processes at once", rivals),
    **{name: (f"{things[0].title}: all kills", partial(all_kills_of, things)) for name, things in KEPT_THINGS.items()},
    **{
        f"{name}-disk": (f"{things[0].title}: errors of the disk", partial(all_errors_of, things))
        for name, things in KEPT_THINGS.items()
    },
}


def tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def run(names: list[str], share: float, seed: int, runs: tuple[str, ...] = ("*",)) -> list[Tally]:
    found = []
    for name in names:
        with kill_jobs.folder_in_memory() as folder:
            words, strike = CLASSES[name]
            tally = Tally(words, commit=kill_jobs.commit_of())
            began = time.perf_counter()
            rng = np.random.default_rng([seed, list(CLASSES).index(name)])
            strike(Campaign(Path(folder), share, rng, runs), tally)
            tally.seconds = time.perf_counter() - began
        said = f"{tally.cases} runs, {tally.struck} struck, {tally.resumed} resumed, {tally.refused} refused"
        tell(f"{words}: {said}, {len(tally.violations)} violations, {tally.seconds:.0f} s")
        for what in tally.violations[:20]:
            tell(f"    {what}")
        found.append(tally)
    return found


def mutants(names: list[str], share: float, seed: int) -> list[Tally]:
    """Remove one sync after another: the layer that loses what was not synced must detect it."""
    found = []
    for mutant in names:
        with kill_jobs.folder_in_memory() as folder:
            tally = Tally(f"without the sync of {mutant}")
            lost(Campaign(Path(folder), min(share, 0.1), np.random.default_rng(seed)), tally, mutant)
        tell(f"{tally.name}: {len(tally.violations)} violations in {tally.cases} runs")
        found.append(tally)
    return found


def figures(files: list[Path]) -> tuple[list[Tally], list[Tally]]:
    """What campaigns have printed; figures of one class at one commit are added up."""
    classes: dict[tuple[str, str], Tally] = {}
    broken: list[Tally] = []
    for path in files:
        read = json.loads(path.read_text())
        broken += [Tally(**values) for values in read["mutants"]]
        for one in (Tally(**values) for values in read["classes"]):
            before = classes.setdefault((one.name, one.commit), Tally(one.name, commit=one.commit))
            for name in ("cases", "struck", "resumed", "refused", "violations", "seconds"):
                setattr(before, name, getattr(before, name) + getattr(one, name))
    order = [words for words, _ in CLASSES.values()]
    return sorted(classes.values(), key=lambda t: order.index(t.name)), broken


def table(found: list[Tally], broken: list[Tally], seed: int) -> list[str]:
    lines = [
        f"Seed {seed}, {sum(t.seconds for t in found) / 60:.0f} minutes.", "",
        "| trouble | commit | runs | processes struck | resumed | refused | violations |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    lines += [
        f"| {t.name} | {t.commit} | {t.cases:,} | {t.struck:,} | {t.resumed:,} | {t.refused:,} "
        f"| {len(t.violations):,} |"
        for t in found
    ]
    kills = [t for t in found if t.name in {CLASSES[name][0] for name in KILLS}]
    runs, struck = sum(t.cases for t in kills), sum(t.struck for t in kills)
    wrong = sum(len(t.violations) for t in kills)
    lines.append(f"| **killed, or without power, in all** | | {runs:,} | **{struck:,}** | | | {wrong:,} |")
    lines += ["", "| mutant | runs that lose power | violations found |", "| --- | --- | --- |"]
    lines += [f"| {t.name} | {t.cases:,} | {len(t.violations):,} |" for t in broken]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", type=Path, help="page to write the table into")
    parser.add_argument("--share", type=float, default=1.0, help="of the whole campaign; default: 1")
    parser.add_argument("--only", choices=[*CLASSES, "mutants"], action="append", help="these classes")
    parser.add_argument("--runs", action="append", help="these kinds of runs, such as 'DOLA*'; default: all")
    parser.add_argument("--mutant", choices=[*MUTANTS, "ledger"], action="append", help="these mutants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--read", type=Path, nargs="+", help="figures of --json, instead of a campaign")
    given = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    gc.freeze()  # children that do not touch inherited memory start sooner
    if given.read:
        found, broken = figures(given.read)
    else:
        names = [name for name in CLASSES if not given.only or name in given.only]
        found = run(names, given.share, given.seed, tuple(given.runs or "*"))
        wanted = given.mutant or ([] if given.only and "mutants" not in given.only else list(MUTANTS))
        broken = mutants(wanted, given.share, given.seed)
    if given.json:
        print(json.dumps({"classes": [vars(t) for t in found], "mutants": [vars(t) for t in broken]}))
    elif given.write is None:
        print("\n".join(table(found, broken, given.seed)))
    if given.write is not None:
        page = given.write.read_text(encoding="utf-8")
        block = "\n".join(["<!-- kills: tools/kill_campaign.py -->", "", *table(found, broken, given.seed), "",
                           "<!-- end of kills -->"])  # fmt: skip
        parts = re.split(r"<!-- kills: .*?<!-- end of kills -->", page, flags=re.DOTALL)
        if len(parts) != 2:
            print(f"{given.write.name} has no place for the table", file=sys.stderr)
            return 2
        given.write.write_text(block.join(parts), encoding="utf-8")
    return int(any(t.violations for t in found) or any(not t.violations for t in broken))


if __name__ == "__main__":
    sys.exit(main())
