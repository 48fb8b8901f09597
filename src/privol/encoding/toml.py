"""Values written as TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["toml_key", "toml_list", "toml_number", "toml_table", "toml_text"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_number(x: float) -> str:
    """Write a finite number in the shortest form that reads back as the same number."""
    text = f"{x:.12g}"
    return text if float(text) == x else repr(float(x))


def toml_text(text: str) -> str:
    """Write a basic string: the escapes of JSON are those of TOML, except for one more character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def toml_key(name: str) -> str:
    """Write a key."""
    return name if _BARE.fullmatch(name) else toml_text(name)


def toml_list(items: Iterable[str]) -> str:
    """Write an array whose items are TOML text already; a long array gets lines of at most 120 characters."""
    items = list(items)
    line = f"[{', '.join(items)}]"
    if len(line) <= 80:
        return line
    lines, current = [], "   "
    for item in items:
        if len(current) + len(item) + 2 > 118 and current.strip():
            lines.append(current)
            current = "   "
        current += f" {item},"
    return "[\n" + "\n".join((*lines, current)) + "\n]"


def toml_table(place: tuple[str, ...], values: Mapping[str, Any], *, listed: bool = False) -> str:
    """Write a table of texts, numbers, booleans, and lists of these; ``listed``: as one of an array of tables."""
    head = f"[{'.'.join(map(toml_key, place))}]\n" if place else ""
    head = f"[{head[:-1]}]\n" if listed else head
    return head + "".join(f"{toml_key(key)} = {_value(value)}\n" for key, value in values.items())


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return toml_text(value)
    if isinstance(value, (list, tuple)):
        return toml_list(map(_value, value))
    return str(value) if isinstance(value, int) else toml_number(value)
