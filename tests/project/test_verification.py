"""Machine-checked arithmetic without a prover: the derivation detects allowances that are too small."""

import dataclasses
from fractions import Fraction

import pytest
from places import ROOT

pytestmark = pytest.mark.fast


@pytest.fixture(scope="module")
def first_pass():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        from verification import first_pass

        return first_pass


def test_the_first_pass_allows_what_is_derived(first_pass):
    assert len(first_pass.report()) == 4


def test_an_allowance_below_the_derived_one_is_noticed(first_pass):
    (gaussian, _), (wide, _), narrow, v4, widest = first_pass.read()
    margin = first_pass.single_margin(gaussian, narrow, widest)
    short = dataclasses.replace(narrow, limit_added=narrow.limit_added - margin * Fraction(101, 100))
    assert first_pass.single_margin(gaussian, short, widest) < 0 < margin
    # each of the other allowances matters too: without it a case is decided that may be wrong
    for field, value in (
        ("relative_added", 0),
        ("relative_factor", Fraction(99, 100)),
        ("limit_factor", Fraction(3, 4)),
    ):
        assert first_pass.single_margin(gaussian, dataclasses.replace(narrow, **{field: Fraction(value)}), widest) < 0
    for field in ("relative_factor", "limit_factor"):
        assert first_pass.double_margin(wide, dataclasses.replace(v4, **{field: Fraction(1)}), widest) < (
            first_pass.double_margin(wide, v4, widest)
        )
        assert first_pass.double_margin(wide, dataclasses.replace(v4, **{field: Fraction(99, 100)}), widest) < 0


def test_a_source_of_another_shape_is_refused(first_pass):
    with pytest.raises(SystemExit, match="derive the allowances anew"):
        first_pass.found("limit = ([0-9]+);", "limit = 0.5;")


def test_roundings_of_lanes_are_charged(first_pass):
    from verification import lanes

    assert len(lanes.report()) == 3
    with pytest.raises(SystemExit, match=r"lanes\(1\) is 7.125, derived are 8"):
        lanes.report(lambda n: n / 8 + 7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanes, "SPARE", 60)
        with pytest.raises(SystemExit, match=r"clip_excess\(1\)"):
            lanes.report()


def test_roundings_of_projections_are_charged(first_pass):
    from verification import projections

    assert len(projections.report()) == 1
    for root, fixed in ((9, 200), (16, 7)):
        with pytest.raises(SystemExit, match="derived is more"):
            projections.report([(Fraction(root), Fraction(fixed))])


def test_roundings_of_the_decision_are_allowed_for(first_pass):
    from verification import decision

    assert len(decision.report()) == 1
    for allowed, widest in ((3 * first_pass.DOUBLE, None), (None, Fraction(2**46))):
        with pytest.raises(SystemExit, match="derived is more"):
            decision.report(allowed, widest)


def test_errors_of_exponential_and_logarithm_are_counted(first_pass):
    from verification import elementary

    assert len(elementary.report()) == 2
    with pytest.raises(SystemExit, match="1 units are counted for pv_exp"):
        elementary.report(exponential=1)
    with pytest.raises(SystemExit, match="0 units are counted for pv_log"):
        elementary.report(logarithm=0)


def test_roundings_of_slopes_are_charged(first_pass):
    from verification import slopes

    assert len(slopes.report()) == 2
    with pytest.raises(SystemExit, match="more than is charged"):
        slopes.report(leaders=Fraction(31))
    with pytest.raises(SystemExit, match="5 units are counted for smoothed hinge"):
        slopes.report(slope=5)
    with pytest.raises(SystemExit, match=r"vector_excess\(1\)"):
        slopes.report(leaders=Fraction(100), slope=60)
