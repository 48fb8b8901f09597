"""Functions of the sources that a derivation is about: it has to be made anew once one of them changes."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "privol"


def in_braces(text: str, name: str) -> str:
    """Return a function of C as it stands, or a macro call that names it, without comments."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    heads = list(re.finditer(rf"^[^\n;{{}}#]*\b{re.escape(name)}\)?\([^;{{}}]*\)\s*\{{", text, re.MULTILINE))
    if len(heads) != 1:
        raise SystemExit(f"{len(heads)} functions are called {name}: derive its roundings anew")
    depth, end = 1, heads[0].end()
    while depth:
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    return text[heads[0].start() : end]


def indented(text: str, name: str) -> str:
    """Return a function or method of Python or Cython, without comments of whole lines."""
    heads = list(re.finditer(rf"^( *)(?:def|cdef|cpdef)\b[^\n]*\b{re.escape(name)}\(", text, re.MULTILINE))
    if len(heads) != 1:
        raise SystemExit(f"{len(heads)} functions are called {name}: derive its roundings anew")
    first, *lines = text[heads[0].start() :].split("\n")
    kept = [first]
    for line in lines:
        if line.strip() and not line.startswith((heads[0][1] + " ", heads[0][1] + ")")):
            break
        if not line.lstrip().startswith("#"):
            kept.append(line)
    return "\n".join(kept)


def digest(path: str, name: str) -> str:
    """Return the digest of a function, whatever its comments and blanks."""
    text = (SOURCE / path).read_text()
    found = in_braces(text, name) if Path(path).suffix in {".c", ".h"} else indented(text, name)
    return hashlib.sha256(" ".join(found.split()).encode()).hexdigest()[:16]


def pinned(known: dict[tuple[str, str], str]) -> None:
    """End the program where a function is another one than the derivation has been made for."""
    for (path, name), text in known.items():
        if (now := digest(path, name)) != text:
            raise SystemExit(f"{path}: {name} has changed: derive its roundings anew, then note {now}")
