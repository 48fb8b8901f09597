"""The base of all holders of a noise source: two of them must never draw the same."""

from __future__ import annotations

from typing import ClassVar, NoReturn

from ..errors import StateError

__all__ = ["Unshared"]


class Unshared:
    """Refuses to be copied and pickled."""

    _called: ClassVar[str] = "noise"

    def __copy__(self) -> NoReturn:
        raise StateError(f"{self._called} cannot be copied: both holders would draw the same noise")

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise StateError(f"{self._called} cannot be copied: both holders would draw the same noise")

    def __reduce__(self) -> NoReturn:
        raise StateError(f"{self._called} cannot be pickled: both holders would draw the same noise")
