"""The one error tree of privol, and its warning.

Every error that privol raises on purpose is a :class:`PrivolError`. Each also
derives from the built-in class that callers expect (``ValueError`` for bad
input, ``RuntimeError`` for a refused action), so that scikit-learn's
conventions hold without importing this module.
"""

from __future__ import annotations

__all__ = [
    "BudgetExceeded",
    "InvalidCell",
    "InvalidMessage",
    "InvalidParameter",
    "InvalidRow",
    "PartFailure",
    "PrivacyWarning",
    "PrivolError",
    "ProgramFailure",
    "RankFailure",
    "ScaledRowsWarning",
    "SelectionFailure",
    "SolverFailure",
    "SourceAway",
    "SourceFailure",
    "StateError",
    "StreamError",
    "UnsharedLedgerWarning",
]


class PrivolError(Exception):
    """Base class of all errors raised by privol."""


class InvalidParameter(PrivolError, ValueError):
    """A parameter is missing, out of its range, or does not fit another one.

    The message names the parameter, what was found and what is allowed.
    """


class InvalidRow(PrivolError, ValueError):
    """A row of the data cannot be learnt; nothing of its block was.

    Attributes
    ----------
    row : int
        1-based number of the row, counted from the start of the run.
    column : int or None
        0-based number of the offending feature, ``None`` for the target.
    """

    def __init__(self, message: str, *, row: int, column: int | None = None) -> None:
        super().__init__(message)
        self.row = row
        self.column = column


class InvalidCell(InvalidRow, TypeError):
    """A row holds something other than real numbers, or another number of them than the rows of its run.

    Also a TypeError, which scikit-learn's conventions require for objects that are no numbers.
    """


class RankFailure(PrivolError, RuntimeError):
    """Another process of a distributed run failed or stopped answering: this one ends too.

    Attributes
    ----------
    rank : int or None
        Number of that process; ``None``: not known.
    """

    def __init__(self, message: str, *, rank: int | None) -> None:
        super().__init__(message)
        self.rank = rank


class ProgramFailure(PrivolError, RuntimeError):
    """A program that is audited cannot be started, fails, takes too long, or releases what is not numbers.

    The message names the program, the size of its table, and what it said last.
    """


class PartFailure(PrivolError, RuntimeError):
    """No worker can answer for a part of the rows: those that read it died, or it cannot be read.

    Attributes
    ----------
    part : str
        Its name.
    worker : str or None
        The last worker that had it; ``None``: not known.
    """

    def __init__(self, message: str, *, part: str, worker: str | None = None) -> None:
        super().__init__(message)
        self.part = part
        self.worker = worker


class InvalidMessage(PrivolError, ValueError):
    """A message from the other side of a round is refused; it caused nothing to be learnt, made or spent."""


class StreamError(PrivolError, ValueError):
    """A file or stream cannot be read as declared.

    Attributes
    ----------
    row : int or None
        1-based number of the data row at which reading failed, where known.
    """

    def __init__(self, message: str, *, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class SourceAway(StreamError):
    """The broker of a live source cannot be reached for now: a run that is kept goes on when it is back."""


class BudgetExceeded(PrivolError, RuntimeError):
    """The action would spend more than the budget or outlive the horizon.

    Raised before anything is learnt, spent or released.
    """


class SourceFailure(PrivolError, RuntimeError):
    """A noise source cannot be used here: forked, copied, pickled or broken."""


class SolverFailure(PrivolError, RuntimeError):
    """A minimiser did not reach the required certificate; there is no result, and none may be released.

    Attributes
    ----------
    iterations : int
    reached : float
        Smallest certified upper bound of the gradient's norm. Private, like the solver's message and ``iterations``: a
        learner's fit raises an error with 0 and infinity instead.
    asked : float
        What it had to reach.
    """

    def __init__(self, message: str, *, iterations: int, reached: float, asked: float) -> None:
        super().__init__(message)
        self.iterations = iterations
        self.reached = reached
        self.asked = asked


class SelectionFailure(PrivolError, RuntimeError):
    """Every fit of a private selection failed: this fact is its release, and it was paid for."""


class StateError(PrivolError, RuntimeError):
    """The object is not in a state that allows the call (closed, in use, ...)."""


class ScaledRowsWarning(UserWarning):
    """Most rows were longer than ``x_bound`` and were scaled to it. **Not private**: it is about the raw rows."""


class PrivacyWarning(UserWarning):
    """A run begins whose guarantee promises next to nothing; see :func:`privol.guarantees.weaknesses`."""


class UnsharedLedgerWarning(PrivacyWarning):
    """Clones of one estimator are fitted, and no ledger adds up their costs. Raised once per process."""
