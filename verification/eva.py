"""Frama-C's Eva over the kernels: no access outside an array, signed overflow or uninitialised read in any driver."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from verification import reach

HERE = Path(__file__).parent
CORE = HERE.parent / "src" / "privol" / "_core" / "c"
NOISE = ("noise/lattice.c", "noise/first_pass.c", "noise/bits.c", "noise/mixture.c", "noise/draws.c")
LOSSES = ("losses/loss.c", "losses/loss_rows.c", "losses/outputs.c")
RUNS = ("runs/run.c", "reports/report.c", *NOISE, "rows/rows.c", "rows/geometry.c", *LOSSES)
DESCENTS = tuple(f"runs/{name}.c" for name in ("gradient", "iterate", "update", "schedule", "bandit"))
LEADER = ("runs/leader.c", "prefix/prefix.c", *RUNS)
SQUARES = ("runs/least_squares.c", "prefix/prefix.c", "prefix/moments.c", "prefix/ridge.c", *RUNS)
MODELS = "pv_ridge_solve,pv_ridge_solve_as_printed"
LEAVES = "-eva-slevel-function pv_least_squares_leaf:30,moments_baseline:300"
NETWORK = ("runs/local.c", "runs/network.c", *RUNS)
OFFLINE = ("offline/objective.c", "offline/hessian.c", "offline/newton.c", "rows/rows.c", *LOSSES)
SLOPES = "-eva-split-return-function slopes_of:0,take_row:0 -eva-slevel-function slopes_of:10,take_row:10"
DRAWS = (
    "-eva-use-spec pv_draws_round,pv_wipe -eva-slevel-function slopes_of:10,take_row:10 -eva-split-return-function "
    "slopes_of:0,take_row:0,pv_draws_round:0:3:4,settle:0:3:4,pv_prefix_follow:0:3:4,follow:0:3:4"
)
TEXT = "-eva-split-return auto -eva-use-spec pv_over_power"
# What Eva analyses: a driver and what is defined in it, the precision that it needs, kernels that it does not include
# itself, further options.
DRIVERS: tuple[tuple[str, int, tuple[str, ...], str], ...] = (
    ("bits", 6, ("noise/bits.c",), "-eva-slevel-function pv_wipe:20"),
    ("lattice", 3, ("noise/lattice.c", "noise/first_pass.c", "noise/bits.c"), ""),
    (
        "discrete",
        2,
        ("noise/discrete.c", "noise/keystream.c", "noise/bits.c"),
        "-eva-domains octagon,bitwise -eva-split-return-function take:0 -eva-slevel-function pv_discrete_add:300",
    ),
    ("prefix", 6, ("prefix/prefix.c", "rows/rows.c"), ""),
    ("prefix NOISY=1", 6, ("prefix/prefix.c", "rows/rows.c"), ""),
    ("geometry", 6, ("rows/geometry.c", "rows/rows.c"), ""),
    ("rows", 6, ("rows/rows.c",), ""),
    ("cells", 6, ("cells/knots.c", "cells/buckets.c", "cells/columns.c", "cells/cycles.c"), ""),
    ("text", 2, (), f"{TEXT} -eva-min-loop-unroll 10 -eva-slevel-function pv_trimmed:100"),
    (
        "csv",
        2,
        (),
        f"{TEXT},number -eva-min-loop-unroll 7 -eva-split-return-function memchr:full "
        "-eva-slevel-function memchr:20,pv_filled_lines:1000",
    ),
    ("libsvm", 2, (), f"{TEXT} -eva-min-loop-unroll 6 -eva-slevel 40"),
    ("dense", 1, ("cells/dense.c", "cells/csv.c", "cells/written.c", "cells/moment.c"), "-eva-min-loop-unroll 10"),
    ("users", 1, ("users/users.c",), ""),
    ("elementary", 1, (), ""),
    ("losses", 1, (), "-eva-use-spec pv_exp -eva-auto-loop-unroll 64"),
    ("reports", 1, ("reports/report.c", *NOISE), "-eva-use-spec pv_wipe"),
    (
        "betting",
        1,
        (),
        "-eva-use-spec pv_exp -eva-split-return-function prepare:full,prepare_extreme:full,choose:full "
        "-eva-slevel-function prepare:200,prepare_extreme:200,choose:50,one_baseline:400",
    ),
    ("moments", 1, ("prefix/moments.c", "prefix/ridge.c"), "-eva-slevel 20 -eva-split-return auto"),
    ("offline", 1, OFFLINE, "-eva-auto-loop-unroll 64 -eva-slevel-function pv_objective_hessian:30"),
    ("update", 1, (), "-eva-use-spec pv_exp -eva-auto-loop-unroll 64"),
    ("runs", 1, (*DESCENTS, *RUNS), ""),
    ("runs SPARSE=1 NOISY=1", 1, (*DESCENTS, *RUNS), "-eva-use-spec pv_wipe"),
    ("runs SPARSE=1 NOISY=1 OWN=1", 1, (*DESCENTS, *RUNS), "-eva-use-spec pv_wipe"),
    ("leader", 5, LEADER, SLOPES),
    ("leader OTHERS=1 OWN=1", 5, LEADER, SLOPES),
    ("leader SPARSE=1 NOISY=1 OUTPUTS=2", 5, LEADER, DRAWS),
    ("leader OTHERS=1 SPARSE=1 NOISY=1 OUTPUTS=2", 5, LEADER, DRAWS),
    ("squares", 1, SQUARES, f"-eva-use-spec {MODELS} {LEAVES}"),
    ("squares SPARSE=1 NOISY=1", 1, SQUARES, f"-eva-use-spec {MODELS},pv_draws_round,pv_wipe {LEAVES}"),
    ("network", 1, NETWORK, ""),
    ("network APART=1 OWN=1", 1, NETWORK, ""),
    ("network SPARSE=1 NOISY=1", 1, NETWORK, "-eva-use-spec pv_report_draw,pv_wipe"),
    ("network APART=1 SPARSE=1 NOISY=1", 1, NETWORK, "-eva-use-spec pv_report_draw,pv_wipe"),
)


def run(command: list[str], folder: Path) -> str:
    """Return what a tool prints; a failure of it ends the program."""
    ran = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{ran.stdout}")
    return ran.stdout


def kernels() -> list[str]:
    """Analyse the drivers: no alarm, but one in each control; and every function but those that the page excuses."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        lines, analysed = zip(*pool.map(analysis, DRIVERS), strict=True)
    if left := set(reach.functions()).difference(reach.excused(), *analysed):
        raise SystemExit(f"kernels: no driver analyses {', '.join(sorted(left))}, which the page does not say")
    return list(lines)


def analysis(driver: tuple[str, int, tuple[str, ...], str]) -> tuple[str, set[str]]:
    """Analyse one driver and, unless more is defined in it than in another one's, its control."""
    found, analysed, _ = alarms_of(*driver)
    if found:
        raise SystemExit(f"kernels, {driver[0]}: {found} alarms")
    if " " in driver[0]:
        return f"{driver[0]}: no alarm", analysed
    if not alarms_of(*driver, control=True)[0]:
        raise SystemExit(f"kernels, {driver[0]}: no alarm in the control")
    return f"{driver[0]}: no alarm, and one, as it must, in the control", analysed


def told_of(
    driver: str, precision: int, sources: tuple[str, ...], options: str, *, control: bool = False, core: Path = CORE
) -> str:
    """Return what Eva says of a driver with these kernels."""
    # not for a processor of its own: the baseline of every kernel. Numbers that are not finite are no alarms
    name, *defined = driver.split()
    file = HERE / "kernels" / f"{name}.c"
    definitions = " ".join((f"-I{core} -U__x86_64__ -U__GNUC__", *(f"-D{each}" for each in defined)))
    definitions += control * " -DSHORT=1"
    command = ["frama-c", "-eva", "-eva-precision", str(precision), "-warn-special-float", "none"]
    # a function without code and contract would pass for harmless
    command += ["-kernel-warn-key", "annot:missing-spec=abort"]
    command += [*options.split(), f"-cpp-extra-args={definitions}", str(file)]
    command += [*(str(core / source) for source in sources), "-then", "-metrics", "-metrics-eva-cover"]
    with tempfile.TemporaryDirectory() as folder:
        return run(command, Path(folder))


def alarms_of(
    driver: str, precision: int, sources: tuple[str, ...], options: str, *, control: bool = False, core: Path = CORE
) -> tuple[int, set[str], str]:
    """Return how often Eva finds undefined behaviour possible, the functions of the kernels that it has entered, and
    all that it says.
    """
    file = HERE / "kernels" / f"{driver.split()[0]}.c"
    told = told_of(driver, precision, sources, options, control=control, core=core)
    # a precondition that is not proved (of memcpy: room enough) is no alarm in the tool's words
    number = re.findall(r"^ *(\d+) alarms? generated by the analysis", told, re.MULTILINE)
    open_ends = re.findall(
        r"^ *(?:Assertions|Preconditions) +\d+ valid +(\d+) unknown +(\d+) invalid", told, re.MULTILINE
    )
    # the tool tells functions of one name apart by a number
    covered = re.findall(r"^ *(\w+?)(?:_\d+)?: [1-9]\d* stmts out of", told, re.MULTILINE)
    if len(number) != 1 or len(open_ends) != 2 or not covered:
        raise SystemExit(f"kernels, {driver}: the analysis has no summary\n{told}")
    stands_in = {each.name for each in reach.definitions(file)} | reach.contracts_of(options)
    alarms = int(number[0]) + sum(int(count) for counts in open_ends for count in counts)
    return alarms, {*covered} - stands_in, told
