"""Learners describe a shared parameter in the same words: they may add to them, but change none."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict

import pytest

import privol
from privol.learners import TABLE

#: Parameters whose meaning differs from learner to learner, each with the reason.
OWN = {
    "epsilon": "of a report, of a fit or of a whole run",
    "loss": "learners take different losses",
    "randomizer": "learners take different randomizers",
    "release": "what is published differs: iterates at a price, points for nothing, rounds",
    "step": "schedules of their own",
    "step_size": "of schedules of their own",
}


def parameters_of(kind: type) -> dict[str, str]:
    """The text of every parameter in a numpydoc docstring, in one line."""
    doc = inspect.getdoc(kind) or ""
    section = "".join(re.findall(r"^Parameters\n-+\n(.*?)(?=\n\n[A-Z]\w*\n-+|\Z)", doc, re.DOTALL | re.MULTILINE))
    found: dict[str, str] = {}
    for names, text in re.findall(r"^(\w[\w, ]*) : [^\n]*\n((?:[ ]+[^\n]*\n?|\n)*)", section, re.MULTILINE):
        for name in names.split(","):
            found[name.strip()] = " ".join(text.split())
    return found


def shared() -> dict[str, dict[str, str]]:
    texts: dict[str, dict[str, str]] = defaultdict(dict)
    for entry in TABLE:
        for name, text in parameters_of(getattr(privol, entry.kind)).items():
            texts[name][entry.kind] = text
    return {name: found for name, found in texts.items() if len(found) > 1}


def meaning(text: str) -> str:
    """The beginning of a text, up to a comma or the end of a clause."""
    return re.split(r"[,;:(]|\.(?=\s|$)", text)[0].strip()


@pytest.mark.parametrize("name", sorted(shared().keys() - OWN.keys()))
def test_a_shared_parameter_has_one_meaning(name: str) -> None:
    meanings = defaultdict(list)
    for kind, text in shared()[name].items():
        # a quoted choice may come before its own colon
        meanings[meaning(re.sub(r'^`*"\w+"`*: ', "", text))].append(kind)
    assert len(meanings) == 1, dict(meanings)


def test_the_parameters_were_found() -> None:
    found = shared()
    assert {"delta", "adjacency", "horizon", "x_bound", "l2", "ledger", "random_state"} <= found.keys()
    assert len(found["delta"]) == len(TABLE) - 1  # PGIGA shares that of PIGD
    assert found.keys() >= OWN.keys()
