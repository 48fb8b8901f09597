"""Streams: files, arrays and generators read as blocks of rows, in flat memory.

:func:`open_stream` opens all of them. It knows the format, the target column, the declared label set and the public
ranges, and returns a :class:`Stream` of :class:`Block` objects. Nothing here learns, scales by statistics of the data,
or spends budget.
"""

from ..encoding.draft import draft_schema
from ..encoding.schema import Schema
from ._base import Block, Stream
from ._open import format_of, learn_schema, open_stream

__all__ = ["Block", "Schema", "Stream", "draft_schema", "format_of", "learn_schema", "open_stream"]
