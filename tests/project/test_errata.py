"""docs/errata.md: every counterexample is computed again, and gives every number of its paragraph."""

from __future__ import annotations

import re
import runpy
from decimal import Decimal

import counterexamples_others  # noqa: F401 (registers its own)
import pytest
from counterexamples import ERRATA
from places import ROOT

TEXT = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
SECTIONS = {
    head.split(".")[0]: (head, body)
    for head, body in re.findall(r"^### ([A-Z]+-\d+\..*?)\n(.*?)(?=^##)", TEXT + "\n##", re.MULTILINE | re.DOTALL)
}
NUMBER = re.compile(r"(?<![\w^])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?![\w])")


def paragraph(name: str, title: str) -> str:
    body = SECTIONS[name][1]
    found = re.search(rf"^\*{title}[^*]*\*(.*?)(?=\n\n|\Z)", body, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{name} lacks *{title}*"
    return found[1]


def last_digit(shown: str) -> Decimal:
    """The value of one unit in the last printed digit."""
    return Decimal(1).scaleb(int(Decimal(shown.replace(",", "")).as_tuple().exponent))


def test_every_erratum_is_computed_and_every_computation_is_on_the_page():
    assert len(SECTIONS) > 50
    assert set(SECTIONS) == set(ERRATA)


@pytest.mark.parametrize("name", ERRATA)
def test_erratum(name):
    found = ERRATA[name].compute()
    assert all(found.holds.values()), [words for words, truth in found.holds.items() if not truth]
    for shown, value in found.numbers.items():
        assert abs(Decimal(float(value)) - Decimal(shown.replace(",", ""))) <= last_digit(shown) * Decimal("0.5001")
    written = NUMBER.findall(paragraph(name, "Counterexample"))
    written = [number.rstrip(",") for number in written]
    known = {*found.numbers, *(number.lstrip("-") for number in ERRATA[name].given)}
    assert set(found.numbers) <= set(written), "a number that is computed is not on the page"
    unknown = [n for n in written if n not in known and (not n.isdigit() or int(n) > 9)]
    assert not unknown, "numbers of the page that nothing computes"


@pytest.mark.parametrize("name", ERRATA)
def test_every_erratum_has_its_expected_output(name):
    _, body = SECTIONS[name]
    assert re.search(r"^\*(Published|Stated)\.\* ", body, re.MULTILINE)
    for title in ("Wrong", "Counterexample", "Instead"):
        assert paragraph(name, title).strip()
    assert f"`{name}`." in body, "what shows it"


def test_audits_are_those_of_the_audits_page():
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    tables = re.findall(r"<!-- (?:published|networks): .*?<!-- end of ", page, re.DOTALL)
    rows = "\n".join(tables).splitlines()
    quoted = {
        "JKT-1": [("PIGD l2=0.001", "3", "7.437"), ("PIGD l2=0.001", "3", "456.472")],
        "JKT-2": [("PGIGA l2=0.001", "3", "7.600")],
        "JKT-6": [("PrefixSum tree, 2 rows", "0.5", "1.422"), ("PrefixSum tree, 1,024 rows", "0.1", "0.218")],
        "LZ-1": [("DOLA laplace published, 8 rounds", "8", "0.905")],
        "LZ-4": [
            ("DOLA gaussian published, steps 1/(10 t), 1,000 rounds", "1", bound) for bound in ("5.243", "15.592")
        ],
    }
    for name, bounds in quoted.items():
        said = SECTIONS[name][1]
        for configuration, claimed, bound in bounds:
            head = re.compile(rf"\| {re.escape(configuration)} \|( replace \|)? \({re.escape(claimed)},")
            row = next(r for r in rows if head.match(r))
            assert bound in row
            assert bound in said
            assert f"claimed {claimed}," in said
    assert {name for name, (_, body) in SECTIONS.items() if "Audit:" in body} == set(quoted)


def test_headings_are_where_the_links_say():
    """GitHub's anchors of headings: lower case, without punctuation, blanks as hyphens."""
    heads = [re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in re.findall(r"^#+ (.*)", TEXT, re.M)]
    for page in ROOT.joinpath("docs").rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        links = re.findall(
            r"\]\((?:\S*errata\.md)?#([^)]+)\)" if page.name == "errata.md" else r"errata\.md#([^)]+)\)", text
        )
        for link in links:
            assert link in heads, f"{page.name}: {link}"


def test_the_command_prints_them(capsys):
    command = runpy.run_path(str(ROOT / "tools" / "errata.py"))["main"]
    assert command(["JKT-1", "CM-3"]) == 0
    said = capsys.readouterr().out
    assert "66.60006660006" in said
    assert "CM-3: determinant." in said
    assert "NO" not in said
    assert command(["JKT-99"]) == 2
    assert "there are JKT-1" in capsys.readouterr().err
