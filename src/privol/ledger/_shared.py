"""Objects that exist only once, and what copies and pickles hold in their place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import StateError

if TYPE_CHECKING:
    from ._ledger import Ledger

__all__ = ["LedgerSeat", "LostLedger", "Shared"]


class Shared:
    """An object that exists once: copies are the object itself, and it does not leave its process."""

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise StateError(
            f"a {type(self).__name__} cannot be pickled: the copy would let the same budget be spent twice; "
            "share the object within one process, or write its records with to_records()"
        )


class LostLedger:
    """The substitute for the shared ledger of an unpickled learner, which cannot learn with it."""

    def __repr__(self) -> str:
        return "<the ledger of the process that pickled this>"


@dataclass(frozen=True)
class LedgerSeat:
    """A ledger inside a learner's state: copies in the same process share it, a pickle leaves it behind."""

    ledger: Ledger | LostLedger

    def __deepcopy__(self, memo: dict[int, Any]) -> LedgerSeat:
        return self

    def __reduce__(self) -> tuple[type[LedgerSeat], tuple[LostLedger]]:
        return LedgerSeat, (LostLedger(),)
