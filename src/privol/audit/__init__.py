"""Audits: empirical lower bounds on what a learner's runs disclose, beside what it claims.

A guarantee is an upper bound that is proved. An audit runs the compiled learner many times on two neighbouring streams,
distinguishes the runs as well as it can, and returns a lower bound with a stated confidence. A lower bound above the
claim refutes it: the proof, the calibration or the code is wrong. ``docs/audit.md`` has the figures of all that is
shipped.
"""

from ._audit import MECHANISMS, STATISTICS, Audit, audit, audit_black_box

__all__ = ["MECHANISMS", "STATISTICS", "Audit", "audit", "audit_black_box"]
