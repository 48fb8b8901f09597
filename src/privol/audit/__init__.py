"""Audits: empirical lower bounds on what a learner's runs disclose, compared with its claim.

A guarantee is a proved upper bound. An audit runs the compiled learner many times on two neighbouring streams,
distinguishes the runs as well as it can, and returns a lower bound with a stated confidence. A lower bound above the
claim refutes it: the proof, the calibration or the code is wrong. ``docs/audit.md`` has the figures of everything that
is shipped.

:func:`audit_program` and :func:`audit_canaries` try to refute the claims of any other program, a callable or a command;
:func:`disclosure` reports a refuted claim to the maintainers of the program.
"""

from ._audit import MECHANISMS, STATISTICS, Audit, audit, audit_black_box
from ._canaries import CanaryAudit, audit_canaries
from ._disclosure import disclosure
from ._exact import exact_delta
from ._neighbours import Domain, Pair
from ._of_programs import ProgramAudit, audit_program
from ._programs import Command

__all__ = [
    "MECHANISMS",
    "STATISTICS",
    "Audit",
    "CanaryAudit",
    "Command",
    "Domain",
    "Pair",
    "ProgramAudit",
    "audit",
    "audit_black_box",
    "audit_canaries",
    "audit_program",
    "disclosure",
    "exact_delta",
]
