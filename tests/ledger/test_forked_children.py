"""A ledger belongs to the process that made it, not to any process with the same number."""

from __future__ import annotations

import os
import sys
import textwrap

import pytest
import warm
from patience import WAIT


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_that_has_the_number_of_its_parent_is_refused():
    """A grandchild may have it when the parent has ended and its number is free again."""
    script = """
        import os
        from privol.errors import StateError
        from privol.guarantees import Guarantee
        from privol.ledger import Ledger

        plan = Guarantee(kind="gdp", parameter=0.01, adjacency="replace", horizon=10, releases=1, delta=1e-6,
                         arithmetic="a", bit_source="b")
        ledger, number = Ledger(epsilon=1, delta=1e-6), os.getpid()
        pid = os.fork()
        if pid == 0:
            os.getpid = lambda: number
            try:
                ledger.open(learner="child", guarantee=plan)
            except StateError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        ledger.open(learner="parent", guarantee=plan)
    """
    done = warm.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=WAIT)
    assert done.returncode == 0, done.stderr
