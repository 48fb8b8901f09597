"""Puts results of ``privol reproduce`` into the documentation: the index of figures, and tables into their places.

    python experiments/reproduced.py FOLDER

FOLDER is what ``privol reproduce all --out FOLDER`` has written. ``docs/reproduce.md`` gets the index of all results;
pages that have a place for a figure get its tables and its picture. Results that are not in FOLDER stay unchanged, and
small runs (``--quick``) are left out.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path
from typing import Any

from privol.reproduce import FIGURES, Figure, Table, index_table

DOCS = Path(__file__).parent.parent / "docs"


def place(name: str) -> tuple[str, str]:
    """Return the two comments around a place."""
    return f"<!-- {name}: experiments/reproduced.py -->", f"<!-- end of {name} -->"


def put(text: str, name: str, lines: list[str]) -> str:
    """Return a page with new lines in a place, or the same page if it has no such place."""
    begin, end = place(name)
    new = "\n".join([begin, "", *lines, end])
    return re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: new, text, flags=re.DOTALL)


def tables_of(record: dict[str, Any]) -> list[str]:
    """Return the tables of a result as lines."""
    return [line for table in record["tables"] for line in Table(**table).markdown()]


def compared(records: list[dict[str, Any]]) -> list[str]:
    """Return the table of all comparisons."""
    rows = []
    for record in records:
        for check in record["checks"]:
            numbers = ("" if check[key] is None else f"{check[key]:.{digits}g}" for key, digits in
                       (("source", 5), ("tolerance", 2)))  # fmt: skip
            source, tolerance = numbers
            verdict = "agrees" if check["agrees"] else "differs"
            rows.append((record["name"], check["what"], source, check["measured"], tolerance, verdict))
    return Table("", ("figure", "statement", "paper", "measured", "tolerance", "verdict"), tuple(rows)).markdown()


def kept(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the full results of a folder by the name of the figure."""
    paths = [folder / f"{figure.slug}.json" for figure in FIGURES]
    records = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]
    if not records:
        raise SystemExit(f"{folder} has no full result of privol reproduce (small sizes are not for the documentation)")
    return {record["name"]: {key: value for key, value in record.items() if key != "panels"} for record in records}


def words_of(figure: Figure) -> dict[str, Any]:
    """Return the registry's description of a figure, which may be newer than a result's."""
    return {"what": figure.what, "size": figure.size, "chosen": figure.chosen, "why": figure.why}


def absent(figure: Figure) -> dict[str, Any]:
    """Return the index entry of a figure that was not measured."""
    how = f"needs {', '.join(figure.files)}"
    return {"name": figure.name, "what": figure.what, "quick": False, "verdict": "not measured", "how": how, "why": ""}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="what privol reproduce has written")
    parser.add_argument("--docs", type=Path, default=DOCS, help="the documentation")
    given = parser.parse_args()
    results = given.docs / "reproduce.json"
    before = json.loads(results.read_text(encoding="utf-8")) if results.is_file() else {}
    new = kept(given.folder)
    merged = {f.name: (before | new)[f.name] | words_of(f) for f in FIGURES if f.name in before or f.name in new}
    index = [merged.get(figure.name) or absent(figure) for figure in FIGURES]
    texts = ""
    for page in sorted(given.docs.glob("*.md")):
        text = old = page.read_text(encoding="utf-8")
        if page.name == "reproduce.md":
            text = put(text, "reproduced", index_table(index, links=False))
            text = put(text, "compared", compared(list(merged.values())))
        for record in new.values():
            text = put(text, record["file"], tables_of(record))
        if text != old:
            page.write_text(text, encoding="utf-8")
        texts += text
    for record in new.values():
        picture = given.folder / f"{record['file']}.png"
        if picture.is_file() and f"img/{picture.name}" in texts:
            shutil.copyfile(picture, given.docs / "img" / picture.name)
    results.write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
