"""The record of a guarantee: its figures, its sentence, its JSON."""

from __future__ import annotations

import copy
import html
import json
import math
import pickle
import re
from dataclasses import FrozenInstanceError, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privol.errors import InvalidParameter
from privol.guarantees import (
    Claim,
    Guarantee,
    format_up,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
)


def make(**changes: Any) -> Guarantee:
    values: dict[str, Any] = {
        "kind": "gdp",
        "parameter": gdp_mu(1, 1e-6),
        "adjacency": "replace",
        "horizon": 10_000,
        "releases": 10,
        "delta": 1e-6,
        "arithmetic": "lattice of 2^-20",
        "bit_source": "AES-256-CTR keyed by the operating system",
    }
    return Guarantee(**(values | changes))


def test_figures_of_a_guarantee():
    g = make()
    assert g.mu == g.parameter
    assert 1 - 1e-11 < g.epsilon() <= 1
    assert g.epsilon(1e-5) == gdp_epsilon(g.mu, 1e-5) < g.epsilon()
    assert g.delta_at(2) == gdp_delta(2, g.mu)
    assert g.rho == pytest.approx(g.mu**2 / 2)
    nothing = make(kind="none", parameter=math.inf)
    assert (nothing.mu, nothing.rho, nothing.epsilon(), nothing.delta_at(5)) == (math.inf, math.inf, math.inf, 1.0)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "BODY for one row (0.2368-GDP)"),
        ({"adjacency": "zero_out"}, "BODY for the presence of one row (0.2368-GDP)"),
        ({"rows_per_user": 1}, "BODY for one row (0.2368-GDP); epsilon 1 for one user (at most 1 row)"),
        (
            {"rows_per_user": 2, "user": "id"},
            "BODY for one row (0.2368-GDP); epsilon 2.123 for one user (column 'id', at most 2 rows)",
        ),
        (
            {"claim": Claim(epsilon=3, delta=2e-6, source="s")},
            "BODY for one row (0.2368-GDP); the source claims epsilon 3 at delta 2e-06",
        ),
        (
            {"released": "metrics_beyond_models"},
            "BODY for one row (0.2368-GDP); on top of the models that are evaluated, without which nothing holds",
        ),
        (
            {"private": False},
            "NOT PRIVATE: the noise came from a known seed; if that were secret: BODY for one row (0.2368-GDP)",
        ),
        (
            {"kind": "none", "parameter": math.inf},
            "NO PRIVACY: no noise was added, and nothing is guaranteed (epsilon is infinite)",
        ),
    ],
)
def test_summary(changes, expected):
    body = "differential privacy with epsilon 1 at delta 1e-6"
    assert make(**changes).summary() == expected.replace("BODY", body)


def test_sentence_says_everything():
    sentence = make(conditions=("rows of the custom loss have gradients of norm 1",)).sentence()
    assert sentence.startswith("Differential privacy with (epsilon, delta) = (1, 1e-6), from 0.2368-GDP")
    assert "\n" not in sentence
    for words in (
        "0.02802-zCDP",
        "replace one row by any other admissible row",
        "the number of rows is public",
        "Unit: one row",
        "at most 10000 rows",
        "10 releases of the model out of 10000 rows",
        "nothing else is covered",
        "Arithmetic: lattice of 2^-20.",
        "Bit source: AES-256-CTR keyed by the operating system.",
        "Conditions: rows of the custom loss have gradients of norm 1.",
    ):
        assert words in sentence
    assert "PRIVATE" not in sentence
    assert "null row" not in sentence
    assert "1 release of the model out of 1 row," in make(horizon=1, releases=1).sentence()


def test_sentence_of_zero_out_names_the_null_row_and_the_price_of_replacing():
    sentence = make(adjacency="zero_out").sentence()
    assert "replace one row by the null row" in sentence
    assert f"{format_up(2 * make().mu)}-GDP, twice the mu" in sentence
    assert "any other admissible row" not in sentence


def test_sentence_of_a_claim_prints_both_figures():
    over = make(parameter=gdp_mu(24.24, 2e-6), claim=Claim(epsilon=3, delta=2e-6, source="Theorem 1")).sentence()
    assert "The source (Theorem 1) claims (epsilon, delta) = (3, 2e-06); what is proved for this noise is" in over
    assert "is (24.24, 2e-6), more than was claimed" in over
    assert ", within the claim" in make(claim=Claim(epsilon=3, delta=2e-6, source="s")).sentence()
    # A pure claim is not met by Gaussian noise, however small its epsilon.
    pure = make(claim=Claim(epsilon=30, delta=0, source="s")).sentence()
    assert "(1, 1e-6), more than was claimed" in pure


def test_sentence_without_privacy_says_so_first():
    assert make(private=False).sentence().startswith("NOT PRIVATE: the noise came from a known seed")
    nothing = make(kind="none", parameter=math.inf).sentence()
    assert nothing.startswith("NO PRIVACY: ")
    assert "GDP" not in nothing
    assert make(kind="none", parameter=math.inf, private=False).sentence().startswith("NO PRIVACY: ")


@settings(max_examples=200, deadline=None)
@given(st.floats(1e-320, 1e300))
def test_printed_figures_are_never_smaller(x):
    printed = Decimal(format_up(x))
    assert Decimal(repr(x)) <= printed <= Decimal(repr(x)) * Decimal("1.001")
    assert len(printed.as_tuple().digits) - (str(printed).endswith("0")) <= 6


def test_printed_figures():
    values = (0, 0.1, 1e-5, 0.99999999, 0.23670438, 12.3401, 123456.7, 1234567, math.inf)
    assert [format_up(x) for x in values] == [
        "0", "0.1", "1e-5", "1", "0.2368", "12.35", "123500", "1.235e+6", "infinity",
    ]  # fmt: skip


def test_record_is_frozen_hashable_and_copies():
    g = make()
    with pytest.raises(FrozenInstanceError):
        g.parameter = 0.0  # type: ignore[misc]
    assert hash(g) == hash(make())
    assert pickle.loads(pickle.dumps(g)) == copy.deepcopy(g) == g
    assert make(conditions=["a"]).conditions == ("a",)
    assert type(make(horizon=np.int64(5)).horizon) is int


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "approximate"},
        {"kind": "pure", "parameter": math.inf},
        {"kind": "pure", "parameter": -0.1},
        {"parameter": -1.0},
        {"parameter": math.inf},
        {"parameter": math.nan},
        {"kind": "none", "parameter": 1.0},
        {"adjacency": "add_remove"},
        {"unit": "user"},
        {"horizon": 0},
        {"horizon": 10.0},
        {"releases": -1},
        {"delta": 0.0},
        {"delta": 1.0},
        {"claim": (1, 2)},
        {"conditions": "one string"},
        {"conditions": ("",)},
        {"arithmetic": ""},
        {"bit_source": None},
        {"private": 1},
        {"released": "gradients"},
        {"rows_per_user": 0},
        {"rows_per_user": 2.0},
        {"rows_per_user": True},
    ],
)
def test_inconsistent_guarantees_are_refused(changes):
    with pytest.raises(InvalidParameter):
        make(**changes)
    with pytest.raises(InvalidParameter):
        Claim(epsilon=1, delta=math.nan, source="s")


guarantees = st.builds(
    make,
    parameter=st.floats(0, 1e300),
    adjacency=st.sampled_from(["replace", "zero_out"]),
    horizon=st.integers(1, 2**70),
    releases=st.integers(0, 2**70),
    delta=st.floats(0, 1, exclude_min=True, exclude_max=True),
    claim=st.none() | st.builds(Claim, epsilon=st.floats(0, 1e9), delta=st.floats(0, 2), source=st.just("é 1")),
    conditions=st.lists(st.text(min_size=1).filter(str.strip), max_size=3),
    private=st.booleans(),
    released=st.sampled_from(["models", "metrics", "metrics_beyond_models"]),
    rows_per_user=st.none() | st.integers(1, 2**70),
)


@settings(max_examples=100, deadline=None)
@given(guarantees)
def test_json_round_trip(g):
    text = g.to_json()
    assert Guarantee.from_json(text) == g
    strict = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert strict["format"] == "privol.guarantee"
    assert strict["version"] == 1


def test_records_of_an_older_release_are_read():
    record = {
        "format": "privol.guarantee", "version": 1, "kind": "gdp", "parameter": 0.1, "adjacency": "replace",
        "unit": "row", "horizon": 5, "releases": 1, "delta": 1e-6, "claim": None, "conditions": [], "arithmetic": "a",
        "bit_source": "b", "private": True, "released": "models", "rows_per_user": None, "user": None,
    }  # fmt: skip
    assert Guarantee.from_record(record).mu == 0.1


def test_json_of_no_privacy_round_trips():
    g = make(kind="none", parameter=math.inf)
    assert Guarantee.from_json(g.to_json()) == g
    assert "Infinity" not in g.to_json()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.update(version=2), "version 2"),
        (lambda r: r.update(version=True), "version True"),
        (lambda r: r.pop("version"), "version None"),
        (lambda r: r.update(format="other"), "format"),
        (lambda r: r.update(sampling=0.1), "unknown fields: 'sampling'"),
        (lambda r: r.pop("adjacency"), "lacks fields: 'adjacency'"),
        (lambda r: r.pop("private"), "lacks fields: 'private'"),
        (lambda r: r.pop("rows_per_user"), "lacks fields: 'rows_per_user'"),
        (lambda r: r.update(released=None), "released must be"),
        (lambda r: r.update(claim={"epsilon": 1}), "lacks fields: 'delta', 'source'"),
        (lambda r: r.update(claim=[1]), "JSON object"),
        (lambda r: r.update(conditions="all"), "list of conditions"),
        (lambda r: r.update(parameter="inf"), "parameter must be finite"),
        (lambda r: r.update(parameter="0.1"), "parameter must be"),
        (lambda r: r.update(releases=1.5), "releases must be"),
    ],
)
def test_json_refuses_what_it_does_not_know(change, message):
    record = make().to_record()
    change(record)
    with pytest.raises(InvalidParameter, match=message):
        Guarantee.from_json(json.dumps(record))


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{", '{"format": NaN}', '{"version": 1, "version": 1}', None, '"privol.guarantee"']
)
def test_json_refuses_what_is_not_a_record(text):
    with pytest.raises(InvalidParameter, match="guarantee record"):
        Guarantee.from_json(text)


def test_replace_makes_a_checked_copy():
    assert replace(make(), releases=3).releases == 3
    with pytest.raises(InvalidParameter):
        replace(make(), parameter=math.inf)


def test_notebooks_show_the_figures_and_the_sentence_escaped():
    g = make(rows_per_user=2, user="<script>alert('x')</script>")
    shown = g._repr_html_()
    assert "<script" not in shown
    assert len(shown) < 200 + len(g.summary()) + len(g.sentence()) + 60
    said = re.sub(r"<[^>]*>", "\n", shown).split("\n")
    assert [html.unescape(text) for text in said if text.strip()] == [
        "Guarantee:", f" {g.summary()}", "What it says", g.sentence(),
    ]  # fmt: skip
    assert "NOT PRIVATE" in make(private=False)._repr_html_()
