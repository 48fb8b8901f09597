"""Draw docs/img/architecture.svg: the rooms of the package, from the bottom up, as the test of layers has them.

python tools/architecture.py            # into a temporary file, whose name is printed
python tools/architecture.py --write    # into the documentation
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from pages import DOCS, parser_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from layers import LAYERS

PICTURE = DOCS / "img" / "architecture.svg"
SENTENCE = (
    ("stream", "rows come", {"readers", "encoding", "streams", "data"}),
    ("loss", "a row becomes a gradient", {"losses"}),
    ("update", "the state moves inside a set", {"learners", "auto", "geometry", "prefix", "distributed", "topology"}),
    ("noise", "at one point of perturbation", {"noise", "randomizers", "rounds", "factorizations", "calibration"}),
    ("ledger", "what is released is charged", {"ledger", "guarantees"}),
)
COLOURS = ("#cfe3f5", "#f6e3c5", "#d9ead3", "#f4cccc", "#e3d5ee")
PLAIN = "#eeeeee"


def colour_of(unit: str) -> str:
    return next((c for (_, _, units), c in zip(SENTENCE, COLOURS, strict=True) if unit in units), PLAIN)


def draw() -> Figure:
    layers = [sorted(units) for units in LAYERS if units not in ({"__main__"}, {"experiments"})]
    figure = Figure(figsize=(9, 0.46 * len(layers) + 1.3), layout="constrained")
    axis = figure.subplots()
    axis.set_axis_off()
    axis.set_xlim(0, 10)
    axis.set_ylim(-0.1, len(layers) + 2.2)

    def box(x: float, y: float, width: float, text: str, colour: str, height: float = 0.76, size: float = 8.5) -> None:
        shape = FancyBboxPatch((x, y), width, height, "round,pad=0,rounding_size=0.08", fc=colour, ec="#888888", lw=0.6)
        axis.add_patch(shape)
        axis.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=size)

    for rank, units in enumerate(layers):
        width = min(1.9, 9.8 / len(units) - 0.1)
        left = 5 - (len(units) * (width + 0.1) - 0.1) / 2
        for k, unit in enumerate(units):
            box(left + k * (width + 0.1), rank, width, unit, colour_of(unit))
    for k, ((word, said, _), colour) in enumerate(zip(SENTENCE, COLOURS, strict=True)):
        box(0.1 + 1.97 * k, len(layers) + 0.7, 1.87, f"{word}\n{said}", colour, height=1.2, size=7)
    return figure


def main() -> None:
    given = parser_of(__doc__).parse_args()
    target = PICTURE
    if not given.write:
        with tempfile.NamedTemporaryFile(suffix=".svg", delete=False) as file:
            target = Path(file.name)
        print(target)
    with matplotlib.rc_context({"svg.hashsalt": "architecture", "svg.fonttype": "none"}):
        draw().savefig(target, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
