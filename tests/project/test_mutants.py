"""The list of mutants that the tests must detect is sound, and the campaign separates detected from undetected ones."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace

import pytest
from places import ROOT

from privol.learners import LEARNERS, OFFLINE_LEARNERS


@pytest.fixture(scope="module")
def mutants():
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "tools" / "mutants.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["mutants"]


def test_every_text_is_once_in_its_file_and_every_test_exists(mutants):
    """A change of a line that tools/mutants.toml quotes needs a change of that list."""
    assert mutants.faults(mutants.load()) == []


def test_every_learner_has_changes(mutants):
    """In each of its files: its updates, its calibration, what is compiled."""
    named = [name for names in mutants.OF_LEARNERS for name in names.split(", ")]
    assert sorted(named) == sorted(kind.__name__ for kind in (*LEARNERS.values(), *OFFLINE_LEARNERS.values()))
    found = mutants.of_learners(mutants.load())
    assert [(name, file) for name, files in found.items() for file, n in files.items() if not n] == []


def test_the_page_has_the_counts_of_the_list(mutants):
    """``python tools/mutants.py --page`` writes them."""
    page = mutants.PAGE.read_text(encoding="utf-8")
    assert mutants.written(page, mutants.counts(mutants.load())) == page


def test_the_record_is_of_changes_in_the_list(mutants):
    """Every change in the list has a result, which is the expected one."""
    found = json.loads(mutants.RESULTS.read_text(encoding="utf-8"))
    known = {one.id: one for one in mutants.load()}
    assert set(found) == set(known)
    assert mutants.recorded(known.values()) == found, "an entry has changed since: make the change again"
    for id, one in found.items():
        assert one["result"] == ("equivalent" if known[id].equivalent else "killed"), id
        assert one["by"], id
        assert len(one["commit"]) == 8, id


def test_those_without_a_result_can_be_asked_for(mutants, capsys):
    known = mutants.recorded(mutants.load())
    assert mutants.main(["--list", "--unrecorded"]) == 0
    named = {line.split(":")[0] for line in capsys.readouterr().out.splitlines()} - {""}
    assert named == {one.id for one in mutants.load()} - known.keys()


def test_a_result_is_recorded_as_long_as_it_is_of_this_code(mutants, tmp_path):
    one, other, third = mutants.load()[:3]
    entries = [mutants.Found(one.id, one.what, "killed", "test_x", 1.0, True, mutants.digest_of(one))]
    entries.append(mutants.Found(other.id, other.what, "killed", "test_x", 1.0, True, "of other code"))
    entries.append(mutants.Found(third.id, third.what, "survived", "", 1.0, False, mutants.digest_of(third)))
    mutants.keep(tmp_path / "found.json", entries)
    mutants.record([one, other, third], [tmp_path / "found.json"], "0123abcd", tmp_path / "record.json")
    assert list(mutants.recorded([one, other, third], tmp_path / "record.json")) == [one.id]
    changed = replace(one, replace=one.replace + " ")
    assert mutants.recorded([changed], tmp_path / "record.json") == {}


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "src" / "privol").mkdir(parents=True)
    (tmp_path / "src" / "privol" / "__init__.py").touch()
    (tmp_path / "src" / "privol" / "figure.py").write_text("def bound(x):\n    return 2 * x + 0 * x\n")
    (tmp_path / "tests" / "room").mkdir(parents=True)
    (tmp_path / "tests" / "room" / "test_figure.py").write_text(
        "from privol.figure import bound\n\n\ndef test_bound():\n    assert bound(3) >= 6\n"
    )
    return tmp_path


def a_mutant(mutants, **words):
    common = {"what": "half", "file": "figure.py", "find": "2 * x", "replace": "1 * x"}
    return mutants.Mutant(**{"id": "figure", **common, "tests": ("test_figure.py::test_bound",), **words})


def test_faults_are_found(mutants, tree):
    sound = a_mutant(mutants)
    assert mutants.faults([sound], tree) == []
    for change, said in (
        ({"find": "3 * x"}, "0 times"), ({"find": "* x"}, "2 times"), ({"replace": "2 * x"}, "changes nothing"),
        ({"file": "other.py"}, "end of 0 paths"), ({"tests": ("test_other.py",)}, "end of 0 paths"),
        ({"tests": ("test_figure.py::test_other",)}, "no test"), ({"tests": ()}, "neither tests nor why"),
    ):  # fmt: skip
        (found,) = mutants.faults([replace(sound, **change)], tree)
        assert said in found
    assert mutants.faults([sound, sound], tree) == ["figure: twice in the list"]
    (tree / "src" / "privol" / "more").mkdir()
    (tree / "src" / "privol" / "more" / "figure.py").write_text("")
    assert "end of 2 paths" in mutants.faults([sound], tree)[0]


def test_changes_are_made_run_and_taken_back(mutants, tree, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # none of the plugins is needed, and they take a second
    copy, before = mutants.Copy(tree, build="false", limit=60.0), (tree / "src" / "privol" / "figure.py").read_text()
    for words, result in (({}, "killed"), ({"find": " + 0 * x", "replace": " + x"}, "survived")):
        found = mutants.judge(a_mutant(mutants, **words), copy)
        assert (found.result, found.expected) == (result, result == "killed")
        assert found.by == ("test_figure.py::test_bound" if result == "killed" else "")
        assert (tree / "src" / "privol" / "figure.py").read_text() == before


@pytest.mark.parametrize(
    ("result", "equivalent", "judged", "expected"),
    [
        ("killed", "so it was thought", "killed", False), ("survived", "adds nothing", "equivalent", True),
        ("open", "", "open", False), ("broken", "", "broken", False),
    ],
)  # fmt: skip
def test_mutants_declared_equivalent_are_tried_too(mutants, tree, monkeypatch, result, equivalent, judged, expected):
    monkeypatch.setattr(mutants.Copy, "run", lambda self, tests: (result, "somebody"))
    found = mutants.judge(a_mutant(mutants, equivalent=equivalent), mutants.Copy(tree, "false", 60.0))
    assert (found.result, found.expected) == (judged, expected)
    assert found.by == (equivalent if judged == "equivalent" else "somebody")
    assert f"| figure | half | {judged} |" in mutants.table([found])


def test_compiled_modules_are_rebuilt_before_tests_and_after_restoring(mutants, tree, monkeypatch):
    """Once for a change and the one before it; tests that compile the kernels come first and need no rebuild."""
    kernel, other = tree / "src" / "privol" / "kernel.c", tree / "tests" / "room" / "test_c.py"
    kernel.write_text("double bound(double x) { return 2 * x; }\n")
    other.write_text("def test_driver():\n    pass\n")
    done = tree / "built"
    copy = mutants.Copy(
        tree, build=f"{sys.executable} -c \"open(r'{done}', 'a').write(open(r'{kernel}').read())\"", limit=60.0
    )
    killed, asked = set(), []

    def run(self, tests):
        asked.append(tests[0])
        return ("killed", tests[0]) if tests[0] in killed else ("survived", "")

    monkeypatch.setattr(mutants.Copy, "run", run)
    words = {"file": "kernel.c", "tests": ("test_figure.py::test_bound", "test_c.py::test_driver")}
    killed.add("test_c.py::test_driver")
    assert mutants.judge(a_mutant(mutants, **words), copy).result == "killed"
    assert (asked, done.exists()) == (["test_c.py::test_driver"], False)
    killed.clear()
    assert mutants.judge(a_mutant(mutants, **words), copy).result == "survived"
    assert asked[1:] == ["test_c.py::test_driver", "test_figure.py::test_bound"]
    assert done.read_text() == kernel.read_text().replace("2", "1")
    mutants.judge(a_mutant(mutants), copy)  # of Python
    assert done.read_text().endswith(kernel.read_text())
    before = done.read_text()
    mutants.judge(a_mutant(mutants), copy)
    assert done.read_text() == before


def test_rooms_and_languages_are_counted(mutants, tree):
    (tree / "src" / "privol" / "_core" / "c" / "runs").mkdir(parents=True)
    (tree / "src" / "privol" / "_core" / "c" / "runs" / "run.c").write_text("2 * x")
    changes = [
        a_mutant(mutants),
        a_mutant(mutants, id="run", file="run.c"),
        a_mutant(mutants, id="same", equivalent="as |x|"),
    ]
    block = mutants.counts(changes, tree)
    for line in (
        "| `_core/c/runs` | 1 | 0 | 0 | 0 | 1 |",
        "| `figure` | 0 | 0 | 2 | 0 | 2 |",
        "| **all** | 1 | 0 | 2 | 0 | 3 |",
    ):
        assert line in block
    assert "tests must find 2" in block
    assert "| `same`: half | as \\|x\\| |" in block
    page = "first\n<!-- counts: tools/mutants.py -->\nold\n<!-- end of counts -->\nlast\n"
    assert mutants.written(page, block) == page.replace("old", block)
    with pytest.raises(ValueError, match="no place"):
        mutants.written("nothing", block)


def test_a_second_call_continues(mutants, tree, tmp_path):
    """Results are kept while entry, file and tests are the same; undecided or broken ones are tried again."""
    path, mutant = tmp_path / "found.json", a_mutant(mutants)
    assert mutants.kept(path, [mutant], tree) == {}
    found = mutants.Found("figure", "half", "killed", "somebody", 1.0, True, mutants.digest_of(mutant, tree))
    mutants.keep(path, [found])
    assert mutants.kept(path, [mutant], tree) == {"figure": found}
    assert mutants.kept(path, [replace(mutant, replace="0 * x")], tree) == {}
    for result in ("open", "broken"):
        mutants.keep(path, [replace(found, result=result)])
        assert mutants.kept(path, [mutant], tree) == {}
    mutants.keep(path, [found])
    for changed in ("src/privol/figure.py", "tests/room/test_figure.py"):
        text = (tree / changed).read_text()
        (tree / changed).write_text(text + "# more\n")
        assert mutants.kept(path, [mutant], tree) == {}
        (tree / changed).write_text(text)
    assert mutants.kept(path, [mutant], tree) == {"figure": found}
