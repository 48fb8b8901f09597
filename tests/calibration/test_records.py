"""Public records of mechanisms: what they say of a run is what it was calibrated for."""

from __future__ import annotations

import pytest

from privol import DOLA, DPFTRL, NOGD, AdaptiveFTRL
from privol.calibration import mechanism_record


@pytest.mark.parametrize("kind", [DPFTRL, NOGD])
def test_gradients_with_a_bound_of_their_own_are_said_to_be_cut(kind):
    """A checker may use the smaller change of a gradient for a loss's own bound, but never for a given one."""
    for bound in (None, 0.3):
        record = mechanism_record(kind(gradient_bound=bound).calibrate(3, 100))
        assert record["cut"] == (bound is not None)
    assert mechanism_record(AdaptiveFTRL().calibrate(3, 100))["cut"]  # half of the longest is its default


def test_messages_have_the_shortest_step():
    """What a step's rounding is worth on the output grows as steps become shorter: the last one counts."""
    plan = DOLA(nodes=4, noise_position="output").calibrate(3, 100)
    record = mechanism_record(plan)
    assert plan.rounds == 25
    assert record["last_step"] == plan.step_length(25) < plan.step_length(1)
