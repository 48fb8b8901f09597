"""What all holders of a noise source have in common: two of them must never draw the same."""

from __future__ import annotations

import threading
from typing import Any, ClassVar, NoReturn

from ..errors import SourceFailure, StateError
from ._bits import make_source

__all__ = ["Sampler", "Unshared"]


class Unshared:
    """Refuses to be copied and pickled."""

    _called: ClassVar[str] = "noise"

    def __copy__(self) -> NoReturn:
        raise StateError(f"{self._called} cannot be copied: both holders would draw the same noise")

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise StateError(f"{self._called} cannot be copied: both holders would draw the same noise")

    def __reduce__(self) -> NoReturn:
        raise StateError(f"{self._called} cannot be pickled: both holders would draw the same noise")


class Sampler(Unshared):
    """A source, and which of its address rows no call has used yet; thread-safe."""

    _ROWS = 1 << 64  # address rows of a key

    def __init__(self, random_state: Any) -> None:
        self.source = make_source(random_state)
        self._next_row = 0
        self._lock = threading.Lock()

    def _take_rows(self, n: int) -> int:
        """Return the first of n rows that belong to the caller alone."""
        with self._lock:
            first = self._next_row
            if first + n > self._ROWS:
                raise SourceFailure("this noise has used up its addresses: make another")
            self._next_row += n
        return first
