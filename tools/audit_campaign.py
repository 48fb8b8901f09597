"""Audit every shipped configuration by many runs, and write the tables of docs/audit.md.

Run from the checkout: ``python tools/audit_campaign.py`` (half an hour of one core). The seeds are fixed, so the same
version writes the same figures. ``--quick`` prints the tables of a hundredth of the runs and writes nothing;
``--cases NAME`` prints the lines of some configurations, as the whole campaign would write them.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

from pages import DOCS, parser_of, put

from privol import DPFTRL, NOGD, PGIGA, PIGD, PQFTL
from privol.audit import Audit, audit
from privol.errors import PrivacyWarning
from privol.factorizations import DESIGNS
from privol.guarantees import format_up, gdp_epsilon

PAGE = DOCS / "audit.md"
EPSILONS = (0.5, 1.0, 4.0)
ADJACENCIES = ("replace", "zero_out")
CONFIDENCE = 0.9999
DELTA = 1e-5
# The error of a bound on mu is that of two rates: it decreases with the root of the runs, and mu increases with
# epsilon.
RUNS = {0.5: 400_000, 1.0: 200_000, 4.0: 100_000}
SMOOTH_RUNS = {0.5: 1_000_000, 1.0: 250_000, 4.0: 100_000}  # for designs that reveal less of what is perturbed
LONG_RUNS = {0.5: 300_000, 1.0: 150_000, 4.0: 100_000}  # for PQFTL, which draws ten times as many numbers
OTHER_RUNS = 50_000  # one experiment per run
DEFAULT_RUNS = 30_000
REPORT_RUNS = {0.5: 300_000, 1.0: 150_000, 4.0: 100_000}  # for Gaussian reports
PURE_RUNS = 100_000
PUBLISHED_RUNS = 20_000  # for nodes, whose published noise is worst after many rounds
RANDOMIZERS = ("privunit", "duchi", "l2laplace", "laplace", "gaussian")
SYMMETRIC = ("l2laplace", "laplace", "gaussian")
OF_NUMBERS = ("privunit", "laplace", "gaussian")
UNBANDED = [design for design in DESIGNS if design != "banded"]

Work = tuple[str, Any, dict[str, Any], int]


def shipped() -> Iterator[Work]:
    """Name, learner, parameters, runs."""
    for epsilon in EPSILONS:
        for adjacency in ADJACENCIES:
            words = {"epsilon": epsilon, "delta": DELTA, "adjacency": adjacency}
            for name in ("PIGD", "PGIGA", "NOGD"):
                yield name, name.lower(), words, RUNS[epsilon]
                if name != "NOGD":
                    yield f"{name} release=64", name.lower(), {**words, "release": 64}, RUNS[epsilon]
            for name in ("DPFTRL", "PQFTL", "PrefixSum"):
                for design in UNBANDED:
                    most = SMOOTH_RUNS if design == "smooth" else LONG_RUNS if name == "PQFTL" else RUNS
                    runs = most[epsilon]
                    yield f"{name} {design}", name.lower().replace("sum", ""), {**words, "design": design}, runs
    words = {"delta": DELTA, "epsilon": 4.0}
    for name in ("PIGD", "PGIGA"):
        yield f"{name} release=all", name.lower(), {**words, "release": "all"}, RUNS[4.0]
    for shape in ("smooth", "paper"):
        yield f"PIGD release=64 {shape}", "pigd", {**words, "release": 64, "noise_shape": shape}, RUNS[4.0]
    yield "PIGD inverse_sqrt", "pigd", {**words, "l2_schedule": "inverse_sqrt"}, RUNS[4.0]
    for name in ("DPFTRL", "PrefixSum"):
        for design in UNBANDED:
            more = {**words, "design": design, "steps": 64}
            yield f"{name} {design} 64 steps", name.lower().replace("sum", ""), more, RUNS[4.0]
    for epsilon in EPSILONS:  # at the end: seeds depend on the position in the list
        for adjacency in ADJACENCIES:
            words = {"epsilon": epsilon, "delta": DELTA, "adjacency": adjacency, "design": "banded", "bandwidth": 3}
            for name in ("DPFTRL", "PQFTL", "PrefixSum"):
                runs = (LONG_RUNS if name == "PQFTL" else RUNS)[epsilon]
                yield f"{name} banded", name.lower().replace("sum", ""), words, runs


def defaults() -> Iterator[Work]:
    for epsilon in EPSILONS:
        for kind in (PIGD, PGIGA, NOGD, DPFTRL, PQFTL):
            yield kind.__name__, kind(epsilon=epsilon, delta=DELTA), {}, DEFAULT_RUNS


def published() -> Iterator[Work]:
    for epsilon in EPSILONS:
        words = {"epsilon": epsilon, "delta": 1e-6, "calibration": "published"}
        for name, what in (("PIGD", "l2=0.001"), ("PGIGA", "l2=0.001")):
            yield f"{name} {what}", name.lower(), words, OTHER_RUNS
        for steps in (2, 8):
            more = {**words, "design": "tree", "steps": steps}
            yield f"PrefixSum tree, {steps} rows", "prefix", more, OTHER_RUNS
    more = {"epsilon": 0.1, "delta": 1e-6, "calibration": "published", "design": "tree", "steps": 1024}
    yield "PrefixSum tree, 1,024 rows", "prefix", more, OTHER_RUNS
    for epsilon in EPSILONS:
        words = {"epsilon": epsilon, "delta": 1e-6, "calibration": "published", "steps": 2}
        yield "PQFTL, 2 rows", "pqftl", words, OTHER_RUNS


def reports() -> Iterator[Work]:
    for epsilon in EPSILONS:
        for adjacency in ADJACENCIES:
            words = {"epsilon": epsilon, "delta": DELTA, "adjacency": adjacency}
            yield "MIOGD gaussian", "miogd", words, REPORT_RUNS[epsilon]
            found: list[tuple[str, str, str, dict[str, int]]] = []
            for name, learner, kinds in (
                ("LDPSGD", "ldpsgd", RANDOMIZERS), ("BANCO", "banco", RANDOMIZERS),
                ("AgnosticBANCO", "agnostic", SYMMETRIC),
            ):  # fmt: skip
                found += [(f"{name} {kind}", learner, kind, {}) for kind in kinds]
            for values, what in ((1, ""), (2, ", two values")):
                found += [(f"BanditMIOGD {kind}{what}", "bandit", kind, {"values": values}) for kind in OF_NUMBERS]
            for name, learner, kind, more in found:
                runs = REPORT_RUNS[epsilon] if kind == "gaussian" else PURE_RUNS
                yield name, learner, {**words, "randomizer": kind, **more}, runs
    for epsilon in EPSILONS:  # at the end: seeds depend on the position in the list
        for adjacency in ADJACENCIES:
            for kind in RANDOMIZERS:
                words = {"epsilon": epsilon, "delta": DELTA, "adjacency": adjacency, "randomizer": kind}
                runs = REPORT_RUNS[epsilon] if kind == "gaussian" else PURE_RUNS
                yield f"MultiscaleSGD {kind}", "multiscale", words, runs


def offline() -> Iterator[Work]:
    for epsilon in EPSILONS:
        for adjacency in ADJACENCIES:
            words: dict[str, Any] = {"epsilon": epsilon, "adjacency": adjacency}
            yield "OutputPerturbation", "output-perturbation", words, PURE_RUNS
            yield "ObjectivePerturbation", "objective-perturbation", words, PURE_RUNS
            yield "POL", "pol", words, PURE_RUNS
            logistic = {**words, "loss": "logistic", "l2": 0.01}
            yield "OutputPerturbation logistic", "output-perturbation", logistic, PURE_RUNS
            yield "ObjectivePerturbation logistic, 8 rows", "objective-perturbation", logistic, PURE_RUNS
            many = {**logistic, "steps": 256}
            yield "ObjectivePerturbation logistic, 256 rows", "objective-perturbation", many, OTHER_RUNS
        words = {"epsilon": epsilon, "delta": DELTA}
        yield "OutputPerturbation gaussian", "output-perturbation", words, REPORT_RUNS[epsilon]
        yield "POL gaussian", "pol", words, REPORT_RUNS[epsilon]
        words = {"epsilon": epsilon, "calibration": "published"}
        yield "OutputPerturbation published", "output-perturbation", words, PURE_RUNS
        yield "ObjectivePerturbation published", "objective-perturbation", words, PURE_RUNS
        yield "POL published", "pol", words, OTHER_RUNS
    for epsilon in EPSILONS:  # at the end: seeds depend on the position in the list
        words = {"epsilon": epsilon, "delta": DELTA}
        yield "ObjectivePerturbation gaussian", "objective-perturbation", words, PURE_RUNS


def networks() -> Iterator[Work]:
    for epsilon in EPSILONS:
        for adjacency in ADJACENCIES:
            words: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "adjacency": adjacency}
            found: list[tuple[str, str, dict[str, Any]]] = [
                (f"{name} {kind}", learner, {"randomizer": kind})
                for name, learner in (("DOLA", "dola"), ("SparseDOLA", "sparse-dola"))
                for kind in RANDOMIZERS
            ]
            for kind in SYMMETRIC:
                found.append((f"DOLA {kind}, output", "dola", {"randomizer": kind, "noise_position": "output"}))
                found.append((f"DOLA {kind}, batch of 16", "dola", {"randomizer": kind, "batch": 16}))
            output = {"noise_position": "output", "batch": 16}
            found.append(("DOLA gaussian, output, batch of 16", "dola", output))
            found.append(("DOLA gaussian, 4 epochs", "dola", {"epochs": 4}))
            for name, learner, more in found:
                runs = REPORT_RUNS[epsilon] if more.get("randomizer", "gaussian") == "gaussian" else PURE_RUNS
                yield name, learner, {**words, **more}, runs
    for epsilon in EPSILONS:
        words = {"epsilon": epsilon, "delta": DELTA, "calibration": "published"}
        yield "DOLA gaussian published, steps 1/(10 t), 1,000 rounds", "dola", words, PUBLISHED_RUNS
        words |= {"randomizer": "laplace", "noise_position": "output", "horizon": 8 * 256}
        yield "DOLA laplace published, 8 rounds", "dola", words, PURE_RUNS


def audits(work: Iterator[Work], first_seed: int, share: float, cases: str) -> Iterator[tuple[str, Audit]]:
    for k, (name, learner, words, runs) in enumerate(work):
        if cases not in name:
            continue
        began = time.process_time()
        found = audit(
            learner, **words, runs=max(200, int(runs * share)), confidence=CONFIDENCE, random_state=first_seed + k
        )
        took = time.process_time() - began
        verdict = " and ".join(found.exceeded_by) or "stands"
        print(f"{name}, {found.adjacency}, {found.epsilon:g}: {found.ratio:.3f}, {verdict}, {took:.1f} s",
              file=sys.stderr, flush=True)  # fmt: skip
        yield name, found


def proving(share: float, cases: str) -> list[str]:
    lines = [
        "| configuration | adjacency | epsilon | mu | attainable | runs | epsilon >= | mu >= | Gaussian mu >= "
        "| ratio |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in audits(shipped(), 10_000, share, cases):
        assert found.mu is not None
        assert found.attainable is not None
        assert found.gaussian_mu_lower is not None
        lines.append(
            f"| {name} | {found.adjacency} | {found.epsilon:g} | {format_up(found.mu)} | {found.attainable:.4f} "
            f"| {found.runs:,} | {found.epsilon_lower:.3f} | {found.mu_lower:.4f} | {found.gaussian_mu_lower:.4f} "
            f"| {found.ratio:.3f} |"
        )
    return lines


def as_they_are(share: float, cases: str) -> list[str]:
    lines = [
        "| learner | epsilon | mu | runs | statistic | epsilon >= | mu >= | ratio |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in audits(defaults(), 20_000, share, cases):
        assert found.mu is not None
        lines.append(
            f"| {name} | {found.epsilon:g} | {format_up(found.mu)} | {found.runs:,} | {found.statistic} "
            f"| {found.epsilon_lower:.3f} | {found.mu_lower:.4f} | {found.ratio:.3f} |"
        )
    return lines


def refuting(share: float, cases: str) -> list[str]:
    lines = [
        "| configuration | claimed | proved of its noise | runs | epsilon >= | Gaussian epsilon >= | refuted by |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in audits(published(), 30_000, share, cases):
        assert found.proved_mu is not None
        proved = format_up(gdp_epsilon(found.proved_mu, found.delta))
        lines.append(
            f"| {name} | ({found.epsilon:g}, {found.delta:g}) | ({proved}, {found.delta:g}) | {found.runs:,} "
            f"| {found.epsilon_lower:.3f} | {found.gaussian_epsilon_lower:.3f} | {' and '.join(found.exceeded_by)} |"
        )
    return lines


def of_reports(share: float, cases: str) -> list[str]:
    lines = [
        "| configuration | adjacency | epsilon | delta | mu | runs | epsilon >= | mu >= | Gaussian mu >= | ratio |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in audits(reports(), 40_000, share, cases):
        gaussian = found.gaussian_mu_lower
        lines.append(
            f"| {name} | {found.adjacency} | {found.epsilon:g} | {found.delta:g} "
            f"| {'pure' if found.mu is None else format_up(found.mu)} | {found.runs:,} | {found.epsilon_lower:.3f} "
            f"| {found.mu_lower:.4f} | {'' if gaussian is None else f'{gaussian:.4f}'} | {found.ratio:.3f} |"
        )
    return lines


def at_rest(share: float, cases: str) -> list[str]:
    return claimed_and_proved(offline(), 50_000, share, cases)


def of_networks(share: float, cases: str) -> list[str]:
    return claimed_and_proved(networks(), 60_000, share, cases)


def claimed_and_proved(work: Iterator[Work], first_seed: int, share: float, cases: str) -> list[str]:
    lines = [
        "| configuration | adjacency | claimed | proved | runs | epsilon >= | mu >= | Gaussian mu >= | ratio "
        "| refuted by |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in audits(work, first_seed, share, cases):
        proved = found.proved_epsilon
        if proved is None and found.delta == 0.0:
            proved = found.epsilon  # pure: the claim is the proved figure
        if proved is None:
            assert found.proved_mu is not None
            proved = gdp_epsilon(found.proved_mu, found.delta)
        gaussian = found.gaussian_mu_lower
        lines.append(
            f"| {name} | {found.adjacency} | ({found.epsilon:g}, {found.delta:g}) "
            f"| ({format_up(proved)}, {found.delta:g}) | {found.runs:,} | {found.epsilon_lower:.3f} "
            f"| {found.mu_lower:.4f} | {'' if gaussian is None else f'{gaussian:.4f}'} | {found.ratio:.3f} "
            f"| {' and '.join(found.exceeded_by)} |"
        )
    return lines


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the runs")
    names = ["shipped", "defaults", "reports", "published", "offline", "networks"]
    parser.add_argument("--only", choices=names, help="one table")
    parser.add_argument("--cases", default="", help="configurations with this in their name")
    given = parser.parse_args()
    if given.write and (given.quick or given.cases):
        parser.error("the page has whole tables: --write goes without --quick and --cases")
    warnings.simplefilter("ignore", PrivacyWarning)
    page = PAGE.read_text(encoding="utf-8")
    tables = {
        "shipped": proving, "defaults": as_they_are, "reports": of_reports, "published": refuting, "offline": at_rest,
        "networks": of_networks,
    }  # fmt: skip
    for name, table in tables.items():
        if given.only not in (None, name):
            continue
        lines = table(0.01 if given.quick else 1.0, given.cases)
        if not given.write:
            print("\n".join(lines))
            continue
        page = put(page, name, "audit_campaign.py", "\n".join(lines))
        PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
