"""What pages say of machine-checked arithmetic: every kernel is analysed or excused, every constant has a source."""

import re

import pytest
from places import ROOT

pytestmark = pytest.mark.fast

PROOFS = sorted((ROOT / "docs" / "proofs").glob("*.md"))
PAGE = ROOT / "docs" / "machine_checked.md"
HIGH = "⁰¹²³⁴⁵⁶⁷⁸⁹"
#: Bounds of errors: powers of two from 2^-22 to 2^-59 in three spellings, hexadecimal ones, and 10^-10 to 10^-19.
CONSTANT = re.compile(
    r"2\^\{?-(?:2[2-9]|[345]\d)(?!\d)|0x1[.\da-f]*p-\d+"
    rf"|2⁻(?:²[²³⁴⁵⁶⁷⁸⁹]|[³⁴⁵][{HIGH}])(?![{HIGH}])"
    rf"|10\^\{{-1\d\}}|\b1e-1\d|10⁻¹[{HIGH}]"
    r"|\d\)? u\b(?!\^)"  # so many roundings
)
SOURCE = re.compile(r".+ (?:derived by `([\w/.]+)`|by hand|measured|chosen)", re.DOTALL)


@pytest.fixture(scope="module")
def reach():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        from verification import reach

        return reach


@pytest.fixture(scope="module")
def drivers(reach):
    from verification.eva import DRIVERS

    return DRIVERS


def sections(text):
    """Return the sections of a page, each with its heading."""
    return re.split(r"^## ", text, flags=re.MULTILINE)[1:]


def sources(section):
    """Return the line that says where a section's constants come from, by constants."""
    lines = re.findall(r"^Constants: (.*)\.$", section, re.MULTILINE)
    return [entry for line in lines for entry in line.split("; ")]


def hand_made(text):
    return any(entry.endswith("by hand") for section in sections(text) for entry in sources(section))


def faults(text):
    """Return what is wrong with the sources that a proof names for its constants."""
    found = []
    for section in sections(text):
        heading, entries = section.split("\n", 1)[0], sources(section)
        if CONSTANT.search(section) and not entries:
            found.append(f"{heading}: no source of its constants")
        for entry in entries:
            told = SOURCE.fullmatch(entry)
            if not told:
                found.append(f"{heading}: {entry} has no source")
            elif told[1] and not (ROOT / told[1]).is_file():
                found.append(f"{heading}: there is no {told[1]}")
    return found


def test_every_kernel_is_analysed_or_excused(reach, drivers):
    assert reach.left_out(drivers) == []
    assert reach.excused() == {"pv_fork_count", "pv_fork_watch", "pv_over_power"}


def test_a_kernel_that_no_driver_reaches_is_noticed(reach, drivers):
    for without, lost in (
        ("users", {"pv_users_digest", "pv_users_enter"}),
        ("offline", {"pv_objective_sums", "pv_cholesky_solve"}),
        ("bits", {"pv_address_turn"}),
        ("runs", {"pv_bandit_tell"}),
    ):
        left = reach.left_out(driver for driver in drivers if driver[0].split()[0] != without)
        assert lost <= set(left), without


def test_calls_are_followed(reach, tmp_path):
    """Through a table, a macro and a static function; not into a function of another file, a member or a comment."""
    file = tmp_path / "driver.c"
    file.write_text(
        "/* lost_by_name(); */\n#define CALL(x) through_macro(x)\n"
        "static int helper(int x) { return CALL(x); }\n"
        "const pv_method table = {helper, &through_table};\n"
        "int main(void) {\n    table.member(1);\n    return 0;\n}\n"
    )
    names = {each.name: each for each in reach.definitions(file)}
    assert set(names) == {"CALL", "helper", "table", "main"}
    assert names["helper"].static
    assert names["helper"].function
    assert not names["table"].function
    assert {"helper", "through_table"} <= names["table"].names
    assert "through_macro" in names["CALL"].names
    assert "member" not in names["main"].names
    assert not any("lost_by_name" in each.names for each in names.values())


def test_functions_of_which_a_driver_sees_a_contract_are_not_reached(reach, drivers):
    (driver,) = (driver for driver in drivers if driver[0] == "csv")
    file = ROOT / "verification" / "kernels" / "csv.c"
    found = {name for name, _ in reach.reached(file, driver[2], reach.contracts_of(driver[3]))}
    assert "pv_csv_rows" in found
    assert "pv_over_power" not in found


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.stem)
def test_constants_have_a_source(proof):
    text = proof.read_text()
    assert faults(text) == []
    if hand_made(text):
        (listed,) = re.findall(r"^\* Constants: (.*)$", PAGE.read_text(), re.MULTILINE)
        assert f"(proofs/{proof.name})" in listed


def test_proofs_that_are_listed_have_constants_by_hand():
    (listed,) = re.findall(r"^\* Constants: (.*)$", PAGE.read_text(), re.MULTILINE)
    assert {*re.findall(r"\(proofs/(\w+\.md)\)", listed)} == {p.name for p in PROOFS if hand_made(p.read_text())}


def test_a_constant_without_a_source_is_noticed():
    assert faults("## A\n\nAt most $2^{-50}$.\n\nConstants: $2^{-50}$ by hand.\n") == []
    assert faults("## A\n\nAt most $2^{-50}$.\n") == ["A: no source of its constants"]
    assert faults("## A\n\nAt most 2⁻⁵³, with `0x1.8p-48`.\n") == ["A: no source of its constants"]
    assert faults("## A\n\nConstants: $2^{-50}$ guessed.\n") == ["A: $2^{-50}$ guessed has no source"]
    assert faults("## A\n\nConstants: 2 derived by `verification/none.py`.\n") == [
        "A: there is no verification/none.py"
    ]
    assert faults("## A\n\nNoise on a grid of $2^{-20}$, 2^-128 of all keys.\n") == []


def test_versions_of_the_tools_are_stated():
    for tool in (r"Z3 \d+\.\d+\.\d+", r"Frama-C \d+\.\d+", r"Coq \d+\.\d+\.\d+"):
        assert re.search(tool, PAGE.read_text())


def test_every_loop_of_the_kernels_has_its_bounds_on_the_page():
    """A loop that is new or has another condition was not measured: python -m verification.loops."""
    from verification import loops

    page = loops.PAGE.read_text(encoding="utf-8")
    assert loops.listed(page) == [(each.file, each.head) for each in loops.all_loops()]
    rows = [line for line in page.splitlines() if line.startswith(("| `for", "| `while"))]
    assert sum(not line.endswith("| none |") for line in rows) == int(re.search(r"(\d+) of \d+ loops", page)[1]) > 300


def test_shown_counters_become_ranges():
    from verification.loops import range_of, values_of

    told = "[eva] a.c:1: Frama_C_show_each_7_: {0; 1}, {{ &text + [2..8] }}\n"
    told += "[eva] b.c:2: Frama_C_show_each_8_: [0..5],\n  {3}\n"
    assert list(values_of(told)) == [(7, ["{0; 1}", "{{ &text + [2..8] }}"]), (8, ["[0..5]", "{3}"])]
    for shown, words in {
        "{0; 4; 2}": "0 to 4", "[-3..8],1%4": "-3 to 8", "{7}": "7", "[--..9]": "any", "[-0. .. 1.5]": "any",
        "{{ &text + {1; 6} }}": "1 to 6, in its array", "{{ &text }}": "0, in its array",
        "{{ &t[3] }}": "3, in its array", "{{ &t[0] + [0..--] }}": "any",
    }.items():  # fmt: skip
        assert str(range_of(shown)) == words
