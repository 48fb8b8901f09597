"""Clones of one estimator that are each fitted with their own ledger: no guarantee covers all of them."""

from __future__ import annotations

import warnings
from typing import Any
from weakref import WeakKeyDictionary

from ..errors import UnsharedLedgerWarning

__all__ = ["forget_clone", "note_clone", "warn_of_clones"]


class _Family:
    """An estimator with its direct and indirect clones: how many of them have spent by themselves."""

    spent = 0


# Stored beside the estimators, which may have no attributes but their parameters before they are fitted.
_FAMILIES: WeakKeyDictionary[Any, _Family] = WeakKeyDictionary()
_SPENT: WeakKeyDictionary[Any, None] = WeakKeyDictionary()
_told = False


def note_clone(original: Any, clone: Any) -> None:
    """Note that scikit-learn has cloned an estimator."""
    _FAMILIES[clone] = _FAMILIES.setdefault(original, _Family())


def forget_clone(clone: Any) -> None:
    """Treat a clone as an independent estimator, because its maker manages its budget."""
    _FAMILIES.pop(clone, None)


def warn_of_clones(estimator: Any) -> None:
    """Warn, once in a process, where an estimator is about to spend from its own ledger and a relative has before.

    Clones that scikit-learn sends to other processes are not known here.
    """
    global _told
    family = _FAMILIES.get(estimator)
    if family is None or estimator in _SPENT:
        return
    _SPENT[estimator] = None
    family.spent += 1
    if family.spent > 1 and not _told:
        _told = True
        name = type(estimator).__name__
        words = (
            f"clones of one {name} are fitted, as by cross-validation or a grid search, each with a ledger of its own: "
            "every fit spends its whole budget, and no guarantee says what all of them give away together. Give the "
            f"{name} a ledger with a limit, which its clones share: ledger=privol.ledger.Ledger(epsilon=, delta=)"
        )
        warnings.warn(words, UnsharedLedgerWarning, stacklevel=4)
