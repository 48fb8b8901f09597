"""``privol audit``: claims, and what many runs prove against them."""

from __future__ import annotations

import json
from typing import Any

import click

from .._vocabulary import (
    DESIGNS,
    NOISE_POSITIONS,
    OBJECTIVE_CALIBRATIONS,
    OF_ONE_SCORE,
    PROGRAM_ADJACENCIES,
    RANDOMIZERS,
    STATISTICS,
)
from ..learners import TABLE
from .audited_programs import audit_a_program, program_options
from .option_types import ReleaseType
from .outputs import printing

__all__ = ["AUDITED", "audit"]

AUDITED = (*(entry.name for entry in TABLE), "prefix")


@click.command(epilog=f"LEARNER is one of {', '.join(AUDITED)}.")
@click.argument("learner", type=click.Choice(AUDITED), required=False, metavar="[LEARNER]")
@program_options
@click.option(
    "--epsilon", "epsilons", type=float, multiple=True, help="Budget; may be given several times.  [default: 0.5, 1, 4]"
)
@click.option("--delta", type=float, help="[default: 1e-06; offline learners, programs: 0]")
@click.option(
    "--adjacency", type=click.Choice(PROGRAM_ADJACENCIES), help="add_remove: of programs alone.  [default: replace]"
)
@click.option(
    "--design",
    type=click.Choice(DESIGNS),
    help="dpftrl, pqftl, prefix: how the running sums share their noise.  [default: blt]",
)
@click.option("--bandwidth", type=int, help="With --design banded: steps that share their noise.  [default: all]")
@click.option("--release", type=ReleaseType(), metavar="last|all|K|N1,N2,...", help="pigd, pgiga.  [default: last]")
@click.option(
    "--calibration",
    type=click.Choice(OBJECTIVE_CALIBRATIONS),
    help="pigd, pgiga, pqftl, dola, bandit, prefix with design tree, and the offline learners; published: the "
    "paper's claim is audited.  [default: tight]",
)
@click.option(
    "--randomizer",
    type=click.Choice(RANDOMIZERS),
    help="ldpsgd, banco, agnostic, multiscale, bandit, dola, sparse-dola.  [default: the learner's]",
)
@click.option(
    "--noise-position",
    type=click.Choice(NOISE_POSITIONS),
    help="dola: noise on gradients, or on messages.  [default: gradient]",
)
@click.option(
    "--batch", type=int, help="nogd, dpftrl, pqftl, dola, sparse-dola: rows of a step.  [default: 128, 24 or 1]"
)
@click.option(
    "--rows-per-user",
    type=int,
    metavar="ROWS",
    help="pigd, pgiga, nogd, dpftrl, pqftl, prefix, offline learners: the claim is for all rows of a user, at most "
    "this many; the streams differ in all of them, at the worst places.  [default: the claim is for one "
    "row]",
)
@click.option(
    "--user-separation",
    type=int,
    metavar="ROWS",
    help="With it: any two of them are this many rows apart.  [default: 1]",
)
@click.option(
    "--user-places",
    metavar="N1,N2,...",
    help="With it: numbers of the user's rows, from 1. More, or nearer to each other, than the claim is for: refuted.  "
    "[default: the worst that there may be, by trying all]",
)
@click.option("--leakage", type=float, help="miogd, bandit: nats per report, instead of epsilon.")
@click.option("--values", type=click.IntRange(1, 2), help="bandit: values of a loss in a report.  [default: 1]")
@click.option(
    "--loss",
    type=click.Choice(OF_ONE_SCORE),
    help="objective-perturbation, output-perturbation, pol.  [default: one that attains the claim]",
)
@click.option("--l2", type=float, help="Likewise.")
@click.option(
    "--steps",
    type=int,
    help="Steps of a run, for learners that perturb running sums; rows, of the offline ones.  [default: 8]",
)
@click.option(
    "--runs",
    type=int,
    help="Runs on each of the two streams.  [default: 100000; programs: 20000; commands without --requests: 1000]",
)
@click.option("--confidence", type=float, help="Of each lower bound on its own.  [default: 0.99]")
@click.option(
    "--statistic",
    type=click.Choice(STATISTICS),
    help="auto: the likelihood ratio where it is known; fitted: the best linear one of half of the runs.  "
    "[default: auto]",
)
@click.option(
    "--noise", type=float, help="Factor of the noise: below 1, a good audit refutes the claim.  [default: 1.0]"
)
@click.option("--seed", type=int, help="For the same noise again.  [default: keys from the operating system]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def audit(learner: str | None, epsilons: tuple[float, ...], as_json: bool, seed: int | None, **options: Any) -> int:
    """Try to refute a learner's claim on two neighbouring streams.

    Each is learnt many times, by LEARNER. The claim may also be any other program's: --command names one that reads
    rows and prints what it releases, as docs/audit_programs.md says; --callable a function of Python. Neighbouring
    tables are found by search.

    No data is needed: streams and parameters are the worst cases of the proofs, as far as they are known. Prints
    the claim and lower bounds on epsilon and mu, each with the stated confidence. A bound above the claim refutes it
    (exit code 6). A bound below proves nothing in its favour, but a ratio near 1 shows that the audit could have seen a
    mistake.

    \b
    Examples:
        privol audit dpftrl
        privol audit prefix --design tree --epsilon 1 --runs 1000000
        privol audit nogd --epsilon 4 --noise 0.67
        privol audit pigd --calibration published
        privol audit ldpsgd --randomizer privunit --epsilon 4
        privol audit miogd --leakage 0.1
        privol audit dola --noise-position output
        privol audit objective-perturbation --calibration published
        privol audit dpftrl --rows-per-user 4 --user-separation 256
        privol audit prefix --design sqrt --rows-per-user 4 --user-separation 256
        privol audit --command 'python mechanism.py' --column 0:1 --epsilon 1
        privol audit --callable mechanism:release --column 0:1x3 --norm 1
    """
    from ..audit import audit as make_audit
    from ..tables import audit_report, show
    from .app import OK, REFUTED

    words = {**options, "epsilons": epsilons, "as_json": as_json, "seed": seed}
    refuted = audit_a_program(learner, words)
    if refuted is not None:
        return REFUTED if refuted else OK
    assert learner is not None
    given = {name: value for name, value in words.items() if name in options and value is not None}
    if "user_places" in given:
        try:
            given["user_places"] = [int(place) for place in given["user_places"].split(",")]
        except ValueError:
            raise click.UsageError("--user-places are numbers of rows, such as 1,4,9") from None
    found = []
    budgets: list[dict[str, Any]] = [{"epsilon": epsilon} for epsilon in epsilons]
    if not budgets:
        budgets = [{}] if "leakage" in given else [{"epsilon": epsilon} for epsilon in (0.5, 1.0, 4.0)]
    for k, budget in enumerate(budgets):
        state = None if seed is None else seed + k  # independent noise for each
        found.append(make_audit(learner, random_state=state, **budget, **given))
    with printing():
        if as_json:
            click.echo(json.dumps({"audits": [one.to_record() for one in found]}, allow_nan=False))
        else:
            show(audit_report(found))
    return REFUTED if any(one.exceeded_by for one in found) else OK
