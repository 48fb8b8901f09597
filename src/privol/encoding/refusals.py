"""Which row of a batch is refused first, whatever the order in which its columns are examined."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import StreamError
from ..readers.columns import Columns
from ..readers.files import shown

__all__ = ["Refusals"]


class Refusals:
    """The first refused row of a batch, whatever the order in which columns are examined."""

    def __init__(self, columns: Columns, first_row: int) -> None:
        self._columns = columns
        self._first_row = first_row
        self._found: tuple[int, str] | None = None

    def add(self, rows: npt.NDArray[np.bool_], name: str, what: str, cells: Any = None) -> None:
        """Note refused rows; ``what`` ends the message, after the first refused cell if ``cells`` is its column."""
        if rows.any():
            at = int(np.argmax(rows))
            if self._found is None or at < self._found[0]:
                found = what if cells is None else f"found {shown(cells[at].as_py())}{what}"
                self._found = at, f"column {self._columns.column(name)}: {found}"

    def report(self) -> None:
        if self._found is not None:
            row = self._first_row + self._found[0]
            raise StreamError(f"{self._columns.name}, row {row}, {self._found[1]}", row=row)
