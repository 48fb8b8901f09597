"""Learners side by side at equal privacy, on tables, synthetic streams and the user's files. **Not private.**

Rules keep the comparison honest. All entrants get the same rows in the same order with the same delay. A learner of
privol gets a file, its target and epsilon, and nothing else; the cost of an encoding is within that epsilon. Rows that
may teach an encoding are scored for no entrant. The tables state what was tuned, and on what (``docs/arena.md``).
"""

from .board import NOTICE, Board
from .central import CENTRAL
from .contest import BLOCK, EPSILONS, OTHERS, run_arena
from .results import Key, Results
from .specs import EMBEDDED, SEEN_OF_RIVER, Prepared, Spec, load_specs
from .synthetic import GENERATORS, RIVER, SYNTHETIC

__all__ = [
    "BLOCK",
    "CENTRAL",
    "EMBEDDED",
    "EPSILONS",
    "GENERATORS",
    "NOTICE",
    "OTHERS",
    "RIVER",
    "SEEN_OF_RIVER",
    "SYNTHETIC",
    "Board",
    "Key",
    "Prepared",
    "Results",
    "Spec",
    "load_specs",
    "run_arena",
]
