"""Encodes rows that come one by one as dicts: the same bits that an encoder gives in blocks, without columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core._one_row import RowCode
from ..readers.frames import text_of_cell
from ..readers.written import Written
from .encode import SchemaEncoder
from .ranges import Scale
from .schema_parts import NumberColumn
from .told import Told, form_of

__all__ = ["MOST_WIDTH", "one_row_code"]

FloatArray = npt.NDArray[np.float64]

#: Up to this many features, a dense row of nearly all zeros takes less time than a sparse one built by columns.
MOST_WIDTH = 1 << 14


def one_row_code(encoder: SchemaEncoder, names: Iterable[str]) -> RowCode | None:
    """Return the code that encodes single dicts, for an encoder that was made for dicts of these columns.

    Its method ``row`` returns the features of a dict, shape (n_features,), with the values that
    :meth:`SchemaEncoder.encode` gives the same row. It returns None if that method must read the row: because it
    refuses the row, or because a cell is of a rare type. No code exists (None) if rows are too wide or have users or
    keys.
    """
    if encoder.n_features > MOST_WIDTH or not encoder.rows_alone:
        return None
    return _Maker(encoder).made([name for name in names if name not in encoder.kinds])


class _Maker:
    """Tells compiled code what the parts of an encoder are."""

    def __init__(self, encoder: SchemaEncoder) -> None:
        self._encoder = encoder
        self._written = encoder.written

    def made(self, others: list[str]) -> RowCode:
        """Return the code."""
        encoder, written = self._encoder, self._written
        numbers, texts, knots, crosses = encoder.parts
        code = RowCode(
            encoder.means,
            others,
            form_of(written.missing, written.decimal, False),
            form_of(written.missing, written.decimal, True),
            written.missing_numbers,
            sorted({*written.missing_numbers, *Written(written.missing).missing_numbers}),
            text_of_cell,
            n_columns=len(numbers) + len(texts) + len(knots),
            n_crosses=len(crosses),
        )
        at: dict[str, int] = {}
        for number in numbers:
            at[number.name] = len(at)
            self._number(code, number)
        for text in texts:
            at[text.name] = len(at)
            code.text(text.name, text.feature, len(text.feature_names), text.place_of)
        for column in knots:
            at[column.name] = len(at)
            code.knots(column.name, column.feature, told=self._told, **column.one_row())
        for left, right, cross in crosses:
            code.cross(at[left], at[right], cross.feature, cross.width)
        return code

    def _number(self, code: RowCode, part: Any) -> None:
        column: NumberColumn = part.column
        scale = Scale([column])
        missing: str | float = column.missing
        if isinstance(missing, str):
            # other code refuses a row with a NaN
            missing = {"zero": "zero", "indicator": "zero"}.get(missing, "refuse")
        log = column.range is not None and column.scaling == "log"
        middle, half, limit = scale.linear(0)
        code.number(
            part.name,
            part.feature,
            missing=missing,
            flag=part.flag is not None,
            middle=middle,
            half=half,
            limit=limit,
            onto=column.onto if column.range is not None and column.onto != (-1.0, 1.0) else None,
            scale=_Scaled(scale) if log else None,
        )

    def _told(self, text: str) -> tuple[float, int]:
        """The meaning of a text that needs a slower reader."""
        import pyarrow

        told = Told(pyarrow.array([text], pyarrow.string()), self._written, pointed=True)
        return float(told.values[0]), int(told.cells[0])


class _Scaled:
    """A number on the logarithmic scale of its range."""

    def __init__(self, scale: Scale) -> None:
        self._scale = scale

    def __call__(self, x: float) -> float:
        cell = np.array([[x]])
        return float(self._scale.apply(cell, cell)[0, 0])
