"""The published form of a guarantee: a JSON Schema that comes with privol."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["guarantee_schema"]

_FILE = Path(__file__).parents[1] / "data" / "guarantee.schema.json"


def guarantee_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the record that :meth:`Guarantee.to_record` returns.

    It is the file ``guarantee.schema.json`` in ``privol/data``; its ``$id`` names the version of the record. Any
    validator in any language can read it. Two facts are beyond a schema: ``delta`` is at least ``slack``, and
    ``user_factor`` at most ``rows_per_user``; :meth:`Guarantee.from_record` checks them.
    """
    found: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    return found
