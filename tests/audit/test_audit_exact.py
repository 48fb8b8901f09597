"""Programs that state the distribution of what they release, and reports of claims that are refuted."""

from __future__ import annotations

import json
import math
import re
import sys

import numpy as np
import pytest
import scipy.stats
from cli_tools import privol_cli

from privol.audit import Command, Domain, audit_canaries, audit_program, disclosure, exact_delta
from privol.audit._exact import stated
from privol.errors import InvalidParameter, ProgramFailure
from privol.guarantees import gdp_delta

UNIT, SIGNED = Domain([0.0], [1.0]), Domain([-1.0], [1.0])
ANSWER = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    assert request["distribution"] is True and "runs" not in request
    n, total = len(request["rows"]), sum(row[0] for row in request["rows"])
    print({answer}, flush=True)
"""
LAPLACE = 'json.dumps({"law": "laplace", "loc": total, "scale": 1.0})'


@pytest.fixture
def states(tmp_path):
    """A command that answers with what an expression gives."""

    def made(answer, **words):
        path = tmp_path / "states.py"
        path.write_text(ANSWER.replace("{answer}", answer))
        return Command([sys.executable, str(path)], requests=True, exact=True, **words)

    return made


# ---- distributions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("law", "other", "epsilon", "delta"),
    [
        ({"law": "norm", "scale": 2.0}, {"law": "norm", "loc": 1.0, "scale": 2.0}, 0.3, gdp_delta(0.3, 0.5)),
        ({"law": "laplace", "loc": 0.0}, {"law": "laplace", "loc": 1.0}, 0.5, -math.expm1(-0.25)),
        ({"law": "laplace"}, {"law": "laplace", "loc": 1}, 1.0, 0.0),
        # discrete: P(k) ~ exp(-a |k|), whose tail from 1 on is exp(-a) / (1 + exp(-a))
        ({"law": "dlaplace", "a": 0.7}, {"law": "dlaplace", "a": 0.7, "loc": 1}, 0.7, 0.0),
        ({"law": "dlaplace", "a": 0.7}, {"law": "dlaplace", "a": 0.7, "loc": 1}, 0.0, math.tanh(0.35)),
        ({"law": "binom", "n": 1, "p": 0.75}, {"law": "binom", "n": 1, "p": 0.25}, math.log(2.0), 0.25),
        ({"probabilities": [0.75, 0.25]}, {"probabilities": [0.25, 0.75]}, math.log(2.0), 0.25),
        ({"probabilities": {"a": 1}}, {"probabilities": {"a": 0.5, "b": 0.5}}, 5.0, 0.5),
    ],
)  # fmt: skip
def test_stated_distributions_give_closed_forms(law, other, epsilon, delta):
    found = exact_delta(stated(law), stated(other), epsilon)
    assert found == pytest.approx(delta, abs=1e-6)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([0.5, 0.5], "object with probabilities or a law"),
        ({"loc": 1.0}, "object with probabilities or a law"),
        ({"probabilities": [0.5, 0.6]}, "must sum to 1"),
        ({"probabilities": [1.5, -0.5]}, "of at least 0"),
        ({"probabilities": ["1"]}, "probability must be"),
        ({"probabilities": {"a": True}}, "probability must be"),
        ({"probabilities": "1"}, "must be probabilities"),
        ({"probabilities": [1.0], "law": "norm"}, "must stand alone"),
        ({"law": "levy_stable", "alpha": 1.8, "beta": 0.0}, "law must be one of 'norm'"),
        ({"law": "rv_histogram"}, "law must be one of"),
        ({"law": ["norm"]}, "law must be one of"),
        ({"law": "norm", "scale": 0.0}, "norm has no such parameters"),
        ({"law": "norm", "scale": -1.0}, "norm has no such parameters"),
        ({"law": "norm", "std": 1.0}, "parameters of norm"),
        ({"law": "norm", "scale": "1"}, "scale must be a finite number"),
        ({"law": "norm", "loc": [0.0, 1.0]}, "loc must be a finite number"),
        ({"law": "t"}, "parameters of t"),
        ({"law": "norm", "seed": 1.0}, "parameters of norm"),
    ],
)
def test_what_is_no_distribution_is_refused(words, message):
    with pytest.raises(InvalidParameter, match=message):
        stated(words)


def test_commands_state_distributions_and_are_not_run(states):
    words = {"epsilon": 1.0, "random_state": 1, "at_most_pairs": 12}
    with states(LAPLACE) as command:
        found = audit_program(command, domain=UNIT, **words)
        assert (found.refuted, found.runs, found.pairs, found.exact < 1e-15) == (False, 0, 12, True)
    with states(LAPLACE) as command:
        found = audit_program(command, domain=SIGNED, **words)
        assert (found.refuted, found.exact) == (True, pytest.approx(-math.expm1(-0.5), rel=1e-4))
        assert {tuple(found.pair.first[found.pair.at - 1]), tuple(found.pair.second[found.pair.at - 1])} == {
            (1,),
            (-1,),
        }


def test_two_thirds_of_the_noise_are_refuted_exactly(states):
    for share, refuted in ((1.0, False), (2 / 3, True), (1.0 - 1e-6, True)):
        law = f'json.dumps({{"law": "norm", "loc": total, "scale": {share!r}}})'
        with states(law) as command:
            found = audit_program(command, domain=UNIT, mu=1.0, delta=1e-5, random_state=1, at_most_pairs=8)
        assert found.refuted is refuted


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("'no'", "stated no distribution: no JSON: 'no'"),
        ("'[' * 100000", "stated no distribution: no JSON"),
        (
            "json.dumps({'law': 'norm', 'scale': -n})",
            "given 1 row, stated no distribution: norm has no such parameters",
        ),
        ("json.dumps({'law': 'norm', 'scale': float('nan')})", "scale must be a finite number"),
        ("json.dumps({'probabilities': [0.5, 0.5] if total else [1.0]})", "equally many outcomes, found 2 and 1"),
        ("json.dumps({'probabilities': [1.0]}) if total else json.dumps({'law': 'norm'})", "cannot be compared"),
        ("'{}\\n{}'", "printed more than one line"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_answers_that_are_wrong_name_the_program(answer, message, states):
    with states(answer) as command, pytest.raises(ProgramFailure, match=re.escape(message)) as raised:
        audit_program(command, domain=UNIT, epsilon=1.0, sizes=(1,), random_state=1)
    assert "states.py" in str(raised.value)


def test_tables_without_a_distribution_are_left_out_on_request(states):
    answer = f"{LAPLACE} if n != 2 else 1 / 0"
    words = {"domain": UNIT, "epsilon": 1.0, "sizes": (1, 2), "random_state": 1}
    with states(answer) as command:
        found = audit_program(command, failures="skip", **words)
    assert found.skipped
    assert not found.refuted
    assert "pairs were left out" in found.sentence()
    with states("1 / 0") as command, pytest.raises(ProgramFailure, match="fails on all pairs"):
        audit_program(command, failures="skip", **words)
    with states(answer) as command, pytest.raises(InvalidParameter, match="'raise' or 'skip'"):
        audit_program(command, failures="count", **words)


def test_audits_that_need_runs_refuse_stated_distributions(states):
    with pytest.raises(InvalidParameter, match="requests=True"):
        Command("program", exact=True)
    with states(LAPLACE) as command, pytest.raises(InvalidParameter, match="this audit needs runs"):
        audit_canaries(command, np.eye(4), epsilon=1.0)


# ---- reports --------------------------------------------------------------------------------------------------


def noisy(scale):
    rng = np.random.default_rng(1)

    def noisy_sum(rows):
        return rows.sum() + rng.laplace(scale=scale)

    return noisy_sum


def test_a_report_has_what_is_needed_to_repeat_an_audit():
    program, words = noisy(1.0), {"domain": SIGNED, "epsilon": 1.0, "random_state": 1}
    found = audit_program(program, **words)
    text = disclosure(found, source="its docstring", versions={"numpy": "2.4"})
    assert text.startswith("# noisy_sum: a privacy claim that does not hold\n")
    assert "(epsilon, delta) = (1, 0), for any two tables of which one row is another one." in text
    assert "It is stated here: its docstring." in text
    assert "Versions: numpy 2.4." in text
    likelier, other, runs = found.counts
    assert f"happened in {likelier:,} of {runs:,} runs on the {found.likelier} table below, and in {other:,} of" in text
    assert f"The same evidence refutes epsilon = {found.epsilon_refuted:g} at delta = 0." in text
    first, second = (np.array(json.loads(block)) for block in re.findall(r"```json\n(.*?)\n```", text))
    again = audit_program(program, pair=(first, second), **words)
    assert again.refuted
    # P(value 1 above or below a threshold): the table on which the sum is larger has the larger values
    larger = "first" if first.sum() > second.sum() else "second"
    assert (found.likelier == larger) is ("above" in found.event)


def test_a_report_of_exact_audits_says_that_nothing_was_sampled():
    def program(rows):
        raise AssertionError

    program.distribution = lambda rows: scipy.stats.norm(rows.sum(), 1.0)
    text = disclosure(audit_program(program, domain=SIGNED, mu=1.5, delta=1e-5, random_state=1))
    assert "1.5-GDP" in text
    assert "This is computed, not sampled." in text
    assert "runs on" not in text
    assert "It is stated here" not in text
    assert "Versions" not in text


def test_a_report_of_one_run_has_its_guesses():
    rng = np.random.default_rng(2)
    found = audit_canaries(lambda rows: rows.sum(0) + rng.laplace(scale=0.1, size=300), np.eye(300), epsilon=1.0,
                           random_state=3)  # fmt: skip
    text = disclosure(found)
    assert f"told of {found.correct:,} of {found.guesses:,} guesses" in text
    assert "one of them has a row more" in text


def test_last_bits_are_said_to_concern_floating_point():
    rng = np.random.default_rng(4)
    found = audit_program(lambda rows: rows.sum() + rng.laplace(), domain=UNIT, epsilon=1.0, low_bits=True,
                          random_state=1)  # fmt: skip
    assert found.refuted
    assert "last bit" in found.event
    assert "as it runs in floating point" in disclosure(found)


def test_claims_that_stand_are_not_reported():
    found = audit_program(noisy(1.0), domain=UNIT, epsilon=1.0, runs=400, random_state=1)
    with pytest.raises(InvalidParameter, match="nothing to report"):
        disclosure(found)
    with pytest.raises(InvalidParameter, match="audit of a program"):
        disclosure({"refuted": True})


@pytest.mark.parametrize("exact", [True, False])
def test_the_command_line_writes_a_report(exact, tmp_path):
    answer = LAPLACE if exact else ""
    script = tmp_path / "program.py"
    if exact:
        script.write_text(ANSWER.replace("{answer}", answer))
    else:
        script.write_text(
            "import json, sys, random\nfor line in sys.stdin:\n    r = json.loads(line)\n"
            "    for _ in range(r['runs']): print(sum(map(sum, r['rows'])) + random.gauss(0, 0.01))\n"
            "    sys.stdout.flush()\n"
        )
    report = tmp_path / "report.md"
    words = ["--command", f"{sys.executable} {script}", "--requests", *(["--exact"] if exact else []),
             "--seed", "1", "--report", str(report)]  # fmt: skip
    stands = privol_cli(
        "audit", *words, "--column", "0:1" if exact else "0:0.0001", "--epsilon", "1", "--delta", "0.01"
    )
    assert stands.exit_code == 0
    assert "is not written" in stands.output
    assert not report.exists()
    falls = privol_cli("audit", *words, "--column", "-1:1", "--epsilon", "1", "--source", "a page")
    assert falls.exit_code == 6
    assert f"A report for its maintainers: {report}." in falls.output
    assert "It is stated here: a page." in report.read_text()


def test_reports_that_cannot_be_written_are_refused_before_the_audit(tmp_path):
    words = ["--callable", "nothing:at_all", "--column", "0:1", "--epsilon", "1"]
    lost = privol_cli("audit", *words, "--report", str(tmp_path / "none" / "report.md"))
    assert lost.exit_code == 2
    assert "there is no folder" in lost.output
    alone = privol_cli("audit", *words, "--source", "a page")
    assert alone.exit_code == 2
    assert "--source is for --report" in alone.output
    other = privol_cli("audit", *words, "--exact")
    assert other.exit_code == 2
    assert "--exact applies to --command" in other.output
