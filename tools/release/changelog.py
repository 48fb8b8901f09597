"""The changelog: every release has its sections, the one about privacy above all."""

from __future__ import annotations

import re

#: The sections that a release may have, in this order: those of Keep a Changelog, and one more.
SECTIONS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Privacy")
RELEASE = re.compile(r"^## \[([^\]]+)\](?:: (\S+)|(?: - (\d{4}-\d{2}-\d{2})))?$", re.MULTILINE)


def releases(text: str) -> dict[str, str]:
    """Return the text of each release, newest first; of the unreleased one by the version that it will have."""
    found = list(RELEASE.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    return {match[2] or match[1]: text[match.end() : end].strip() for match, end in zip(found, ends, strict=True)}


def faults(text: str, version: str) -> list[str]:
    """Return what is wrong with a changelog of which the first release must be ``version``."""
    told = releases(text)
    wrong = []
    if next(iter(told), None) != version:
        wrong.append(f"the first release is {next(iter(told), 'missing')}, not {version}")
    if len(told) != len(re.findall(r"^## ", text, re.MULTILINE)):
        wrong.append("a release has neither the form '## [VERSION] - YYYY-MM-DD' nor '## [Unreleased]: VERSION'")
    for name, body in told.items():
        sections = re.findall(r"^### (.+)$", body, re.MULTILINE)
        if unknown := [section for section in sections if section not in SECTIONS]:
            wrong.append(f"{name} has sections {unknown}; there are {', '.join(SECTIONS)}")
        elif sections != [section for section in SECTIONS if section in sections]:
            wrong.append(f"{name} has its sections twice or in another order than {', '.join(SECTIONS)}")
        if "Privacy" not in sections:
            wrong.append(f"{name} has no section Privacy: if nothing changed, it says so")
        parts = re.split(r"^### .+$", body, flags=re.MULTILINE)[1:]
        empty = [section for section, part in zip(sections, parts, strict=True) if not part.strip()]
        if empty:
            wrong.append(f"{name} says nothing under {', '.join(empty)}")
    return wrong


def notes(text: str, version: str) -> str:
    """Return what a release says of itself: privacy first, which concerns whoever has published models."""
    body = releases(text)[version]
    parts = re.split(r"^### (.+)$", body, flags=re.MULTILINE)[1:]
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    order = ["Privacy", *(section for section in sections if section != "Privacy")]
    return "".join(f"## {section}\n\n{sections[section].strip()}\n\n" for section in order)
