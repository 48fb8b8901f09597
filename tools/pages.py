"""Tables of the documentation: each is between two comments that name it and the tool that makes it.

No tool writes into docs/ without ``--write``: otherwise it prints its tables.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Return a tool's parser: its first line, and ``--write``."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the tables into the documentation, else print them")
    return parser


def put(text: str, name: str, tool: str, table: str) -> str:
    """Return a page's text with the table in its place: between the comment of name and tool, and the end of name.

    Raises
    ------
    SystemExit
        If the page has no such place, or several.
    """
    begin, end = f"<!-- {name}: tools/{tool} -->", f"<!-- end of {name} -->"
    parts = re.split(rf"{re.escape(begin)}.*?{re.escape(end)}", text, flags=re.DOTALL)
    if len(parts) != 2:
        raise SystemExit(f"the page has no place for the table {name!r}: {begin} ... {end}")
    return f"{begin}\n\n{table.strip()}\n\n{end}".join(parts)
