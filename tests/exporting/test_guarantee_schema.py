"""The published schema of guarantees: every guarantee of privol is valid, and what is valid is a guarantee."""

from __future__ import annotations

import copy
import json
import math
from importlib.resources import files

import auto_tools
import pytest
from conformance import LEARNERS, OFFLINE, X, Y
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from privol import DPFTRL, PIGD, PQFTL, ObjectivePerturbation, PrivateClassifier, PrivateRegressor
from privol.encoding import PrivateEncoder
from privol.errors import InvalidParameter
from privol.exporting import guarantee_schema
from privol.guarantees import ADJACENCIES, COLLISION, KINDS, RELEASED, UNITS, Claim, Guarantee
from privol.losses import get_loss

SCHEMA = guarantee_schema()
VALIDATOR = Draft202012Validator(SCHEMA)


def valid(record):
    return VALIDATOR.is_valid(record)


def assert_valid(guarantee):
    VALIDATOR.validate(guarantee.to_record())
    VALIDATOR.validate(json.loads(guarantee.to_json()))


def test_the_schema_is_one_and_comes_with_the_package():
    Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(files("privol.data").joinpath("guarantee.schema.json").read_text("utf-8")) == SCHEMA
    assert all("description" in field for name, field in SCHEMA["properties"].items() if name != "format")
    words = SCHEMA["properties"]
    for name, known in (("kind", KINDS), ("adjacency", ADJACENCIES), ("unit", UNITS), ("released", RELEASED)):
        assert words[name]["enum"] == list(known)
    assert words.keys() == {"format", "version", *Guarantee.__dataclass_fields__}


@pytest.mark.parametrize("name", [*LEARNERS, *OFFLINE])
def test_every_learner(name):
    kind, words = {**LEARNERS, **OFFLINE}[name]
    learner = kind(**words)
    learner.fit(X, Y / 2.0 if get_loss(learner.loss).kind == "regression" else Y)
    assert_valid(learner.guarantee_)


@pytest.mark.parametrize("kind", [PIGD, DPFTRL, PQFTL, ObjectivePerturbation])
def test_a_run_without_noise(kind):
    learner = kind(epsilon=math.inf)
    learner.fit(X, Y / 2.0 if get_loss(learner.loss).kind == "regression" else Y)
    assert learner.guarantee_.kind == "none"
    assert_valid(learner.guarantee_)


BASE = {
    "kind": "gdp", "parameter": 0.5, "adjacency": "replace", "horizon": 10, "releases": 1, "delta": 1e-6,
    "arithmetic": "a", "bit_source": "b",
}  # fmt: skip
SEVERAL = [
    Guarantee(**BASE),
    Guarantee(**{**BASE, "kind": "none", "parameter": math.inf}, private=False, conditions=("c", "d")),
    Guarantee(
        **{**BASE, "kind": "pure"}, released="reports", leakage=0.25, claim=Claim(epsilon=1, delta=0, source="s")
    ),
    Guarantee(**{**BASE, "kind": "approximate", "delta": 1e-3}, slack=1e-4),
    Guarantee(**BASE, rows_per_user=5, user="patient", user_separation=3, user_factor=2.5),
    Guarantee(**BASE, rows_per_user=5, unit="user", users_fixed=False),
]


@pytest.mark.parametrize("guarantee", SEVERAL, ids=lambda g: g.kind)
def test_several_guarantees(guarantee):
    assert_valid(guarantee)


def test_estimators_encodings_and_sums():
    table = auto_tools.table(2000)
    models = [
        PrivateClassifier(epsilon=20.0).fit(table, auto_tools.labels_of(table)),
        PrivateRegressor(epsilon=90.0, rows_per_user=3).fit(table, auto_tools.numbers_of(table)),
        PrivateEncoder().fit(table),
    ]
    for model in models:
        assert_valid(model.guarantee_)
    assert_valid(models[0].encoder_.guarantee_)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"}, {"version": 2}, {"version": True}, {"kind": "renyi"}, {"kind": "none"},
        {"parameter": "inf"}, {"parameter": -1}, {"parameter": "0.5"}, {"parameter": None}, {"adjacency": "add_remove"},
        {"unit": "user"}, {"unit": "group"}, {"horizon": 0}, {"horizon": 1.5}, {"releases": -1}, {"delta": 0},
        {"delta": 1}, {"claim": {"epsilon": 1}}, {"claim": []}, {"conditions": "c"}, {"conditions": [""]},
        {"arithmetic": " "}, {"bit_source": 3}, {"private": 1}, {"private": None}, {"released": "rows"},
        {"rows_per_user": 0}, {"user": "patient"}, {"leakage": 0.1}, {"slack": 1e-7}, {"slack": 0.0},
        {"user_separation": 2}, {"user_factor": 1.0}, {"users_fixed": True}, {"kind": "approximate"},
        {"epsilon": 1.0},
    ],
    ids=str,
)  # fmt: skip
def test_broken_guarantees_are_invalid(change):
    record = {**SEVERAL[0].to_record(), **change}
    assert not valid(record)


@pytest.mark.parametrize("name", SCHEMA["required"])
def test_every_required_field_is_needed(name):
    record = SEVERAL[0].to_record()
    del record[name]
    assert not valid(record)


#: Values that are right in one field and wrong in most others.
VALUES = [
    None, True, False, 0, 1, 2, 5, 0.5, -1, 1.5, 1e-3, 1e-22, COLLISION, "", " ", "inf", "x", [], ["c"], [""], {},
    {"epsilon": 1, "delta": 0, "source": "s"}, *KINDS, *ADJACENCIES, *UNITS, *RELEASED,
]  # fmt: skip
#: What a schema cannot state.
BEYOND = "at least the slack", "user_factor must be"
changes = st.lists(st.tuples(st.sampled_from([*SCHEMA["properties"]]), st.sampled_from(VALUES)), max_size=4)


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(SEVERAL), changes, st.sets(st.sampled_from([*SCHEMA["properties"]]), max_size=1))
@example(SEVERAL[5], [("delta", COLLISION)], set())
@example(SEVERAL[4], [("user_factor", 1)], set())
def test_what_is_valid_is_a_guarantee(base, changes, dropped):
    record = copy.deepcopy(base.to_record())
    record.update(changes)
    for name in dropped:
        record.pop(name, None)
    try:
        guarantee, why = Guarantee.from_record(record), ""
    except InvalidParameter as error:
        guarantee, why = None, str(error)
    if guarantee is None:
        assert not valid(record) or any(words in why for words in BEYOND), (record, why)
    else:
        assert valid(guarantee.to_record()), guarantee
