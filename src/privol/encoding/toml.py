"""Values written as TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

__all__ = ["toml_key", "toml_list", "toml_number", "toml_text"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_number(x: float) -> str:
    """Write a finite number, the shortest way that reads back as the same one."""
    text = f"{x:.12g}"
    return text if float(text) == x else repr(float(x))


def toml_text(text: str) -> str:
    """Write a basic string: JSON's escapes are TOML's, but for one character more."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def toml_key(name: str) -> str:
    """Write a key."""
    return name if _BARE.fullmatch(name) else toml_text(name)


def toml_list(items: Iterable[str]) -> str:
    """Write an array of what is written already, in lines of at most 120 characters where it is long."""
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
