"""Learners side by side at equal privacy, on tables, synthetic streams and files of the user's. **Not private.**

The rules that keep it honest: everyone has the same rows in the same order and with the same delay; a learner of privol
is given a file, its target and epsilon, and nothing else; what an encoding costs is within that epsilon; the rows that
may teach one are scored for nobody; what was tuned, and on what, is said (``docs/arena.md``).
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
