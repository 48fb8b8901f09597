"""The journal of what runs release, and the filter that lets no run start beyond the budget.

A :class:`Ledger` reserves the whole of a run's plan before its first row is learnt (``open``), reads what was
really spent from the running learner only on request, and gives back the unspent part when the run is
closed. It holds O(1) memory per run, whatever the number of rows. Everything in it is public; it sees neither
data nor noise.

The filter is the Gaussian one (Dong, Roth and Su 2022; spent ``mu^2`` adds up): runs may be chosen adaptively,
from the releases of earlier ones, as long as what was reserved and not given back stays within the limit. Runs that
are all of pure differential privacy are also admitted as long as their epsilons add up to no more than the limit's.
Runs that are proved at one (epsilon, delta) alone are as pure ones, if the limit sets a slack aside for their deltas.

With a journal, a file that only grows, a ledger outlives its process: what a crash leaves open stays reserved.
"""

from ._account import Account, Counters, Counts, Revoke
from ._clones import forget_clone, note_clone, warn_of_clones
from ._entries import IF_FIXED, LedgerEntry, Share, Spent, compose, delta_of, describe
from ._groups import groups_of, held_by, shares_of
from ._journal import Step, as_json, history
from ._ledger import Ledger
from ._remaining import format_down
from ._shared import LedgerSeat, LostLedger

__all__ = [
    "IF_FIXED",
    "Account",
    "Counters",
    "Counts",
    "Ledger",
    "LedgerEntry",
    "LedgerSeat",
    "LostLedger",
    "Revoke",
    "Share",
    "Spent",
    "Step",
    "as_json",
    "compose",
    "delta_of",
    "describe",
    "forget_clone",
    "format_down",
    "groups_of",
    "held_by",
    "history",
    "note_clone",
    "shares_of",
    "warn_of_clones",
]
