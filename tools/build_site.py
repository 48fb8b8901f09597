"""Build the site from docs/ and check it: no warnings, no broken links, nothing that a browser would fetch elsewhere.

python tools/build_site.py            # into build/site; open build/site/index.html
python tools/build_site.py FOLDER     # into another folder
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

from pages import DOCS

#: Attributes that make a browser fetch what they name, by element. For links it depends on their kind.
FETCHED = {
    "script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src", "embed": "src",
    "object": "data", "image": "href", "use": "href",
}  # fmt: skip
LINKS_FETCHED = {"stylesheet", "icon", "preload", "prefetch", "modulepreload", "preconnect", "dns-prefetch", "manifest"}
REMOTE = re.compile(r"(?:https?:)?//", re.IGNORECASE)
IN_STYLE = re.compile(r"(?:@import\s+|url\(\s*)[\"']?((?:https?:)?//[^\"')\s]+)", re.IGNORECASE)


class Page(HTMLParser):
    """A page's anchors, its links, and what a browser fetches from elsewhere to show it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.remote: list[str] = []
        self._within = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._within = tag
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        fetched = given.get(FETCHED.get(tag, ""), "")
        if tag == "link" and LINKS_FETCHED & set(given.get("rel", "").split()):
            fetched = given.get("href", "")
        self.links += [link for link in (fetched, given.get("href", "") if tag == "a" else "") if link]
        self.remote += [fetched] if REMOTE.match(fetched) else []
        self.remote += IN_STYLE.findall(given.get("style", ""))

    def handle_data(self, data: str) -> None:
        if self._within == "style":
            self.remote += IN_STYLE.findall(data)

    def handle_endtag(self, tag: str) -> None:
        self._within = ""


def faults(site: Path) -> list[str]:
    """Return the faults of a built site: dead links and anchors, and content from elsewhere."""
    site = site.resolve()
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found = [f"{path.relative_to(site)} fetches {what}" for path, page in pages.items() for what in page.remote]
    for path in sorted(site.rglob("*.css")):
        sheet = path.read_text(encoding="utf-8")
        found += [f"{path.relative_to(site)} fetches {what}" for what in IN_STYLE.findall(sheet)]
    for path, page in pages.items():
        for link in page.links:
            address, anchor = urldefrag(link)
            if re.match(r"[a-z]+:|//", address, re.IGNORECASE):  # elsewhere, or a picture within the page
                continue
            target = (path.parent / unquote(address.split("?")[0])).resolve() if address else path
            if not target.is_file():
                found.append(f"{path.relative_to(site)} leads to {link}, which is not there")
            elif anchor and target in pages and unquote(anchor) not in pages[target].anchors:
                found.append(f"{path.relative_to(site)} leads to {link}, which has no such anchor")
    return found


@contextmanager
def quiet_kernels() -> Iterator[None]:
    """Let the kernels of notebooks report errors only, whatever the builder's settings: each warns about its port."""
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "profile_default"
        profile.mkdir()
        (profile / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 40\n", encoding="utf-8")
        os.environ["IPYTHONDIR"] = folder
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=DOCS.parent / "build" / "site")
    site: Path = parser.parse_args().folder
    from sphinx.cmd.build import build_main  # from the extra `docs`, which the checks do not need

    logging.getLogger("traitlets").setLevel(logging.WARNING)  # it announces every notebook
    doctrees = site.parent / f"{site.name}-doctrees"
    with quiet_kernels():
        if build_main(["-q", "-W", "-j", "auto", "-d", str(doctrees), "-b", "html", str(DOCS), str(site)]):
            sys.exit("the site was not built: its warnings are errors (above)")
    if wrong := faults(site):
        sys.exit("\n".join(wrong))
    print(site / "index.html")


if __name__ == "__main__":
    main()
