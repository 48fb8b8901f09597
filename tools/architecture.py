"""Draw docs/img/architecture.svg: the rooms of the package, from the bottom up, as in the test of layers.

python tools/architecture.py            # into a temporary file, whose name is printed
python tools/architecture.py --write    # into the documentation
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from pages import DOCS, parser_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from layers import RANK

PICTURE = DOCS / "img" / "architecture.svg"

#: The parts: each with its text and its rooms. In the picture a part is a column, and its colour has no further
#: meaning.
SENTENCE = (
    ("stream", "rows come", ("readers", "encoding", "_live_users", "streams", "data"), "#cfe3f5"),
    ("loss", "a row becomes\na gradient", ("losses",), "#fdf0c4"),
    (
        "update",
        "the state moves\ninside a set",
        ("geometry", "topology", "prefix", "wrapping", "distributed"),
        "#e4e4e4",
    ),
    (
        "noise",
        "at one point\nof perturbation",
        ("noise", "factorizations", "calibration", "randomizers", "rounds"),
        "#f5d9bd",
    ),
    ("ledger", "what is released\nis charged", ("guarantees", "ledger"), "#e3d5ee"),
)
#: Layers that belong to no single part, from below: their meaning for those above, and their common name.
BELOW = (
    (
        "errors and checks",
        ("errors", "_files", "_roots", "_rounding", "_sparse", "_validate", "_values", "_vocabulary", "_threads"),
    ),
    ("arithmetic: kernels in C", ("_core", "config")),
)
ABOVE = (
    ("an update, a point of perturbation, a schedule", ("learners",)),
    ("whole runs", ("explaining", "auto", "state", "live", "river", "exporting", "flower")),
    ("figures, budgets, attacks", ("evaluate", "planning", "audit", "tuning")),
    ("many runs side by side", ("arena", "reproduce")),
    ("what people see", ("tables", "plots", "verifying", "serving", "cli")),
)
LEFT, WIDTH, PLAIN = 1.0, 10.0, "#f6f6f6"


def check() -> None:
    """Refuse a picture that contradicts the layers: all rooms, each once, and no band above a higher one."""
    bands = [rooms for _, rooms in BELOW] + [tuple(r for _, _, rooms, _ in SENTENCE for r in rooms)]
    bands += [rooms for _, rooms in ABOVE]
    drawn = [room for rooms in bands for room in rooms]
    assert sorted(drawn) == sorted(set(RANK) - {"__main__", "experiments"}), set(drawn) ^ set(RANK)
    for lower, upper in itertools.pairwise(bands):
        assert max(RANK[room] for room in lower) < min(RANK[room] for room in upper), (lower, upper)


def draw() -> Figure:
    check()
    parts = sorted({RANK[room] for _, _, rooms, _ in SENTENCE for room in rooms})
    height = len(BELOW) + 0.62 * len(parts) + len(ABOVE) + 2.6
    figure = Figure(figsize=(9, 0.62 * height), layout="constrained")
    axis = figure.subplots()
    axis.set_axis_off()
    axis.set_xlim(0, LEFT + WIDTH + 0.1)
    axis.set_ylim(0, height)

    def box(x: float, y: float, width: float, text: str, colour: str, tall: float = 0.5) -> None:
        shape = FancyBboxPatch((x, y), width, tall, "round,pad=0,rounding_size=0.08", fc=colour, ec="#555555", lw=0.7)
        axis.add_patch(shape)
        axis.text(x + width / 2, y + tall / 2, text, ha="center", va="center", fontsize=8.5)

    def band(y: float, about: str, rooms: tuple[str, ...]) -> None:
        axis.add_patch(Rectangle((LEFT, y), WIDTH, 0.9, fc=PLAIN, ec="none"))
        axis.text(LEFT + 0.1, y + 0.74, about, ha="left", va="center", fontsize=7, style="italic")
        each = (WIDTH - 0.2) / len(rooms)
        for k, room in enumerate(rooms):
            box(LEFT + 0.15 + each * k, y + 0.08, each - 0.1, room, "white")

    y = 0.05
    for about, rooms in BELOW:
        band(y, about, rooms)
        y += 1.0
    each = WIDTH / len(SENTENCE)
    top = y + 0.62 * len(parts)
    for k, (part, said, rooms, colour) in enumerate(SENTENCE):
        x = LEFT + each * k
        axis.add_patch(Rectangle((x + 0.05, y), each - 0.1, top - y + 1.2, fc=colour, ec="none"))
        axis.text(x + each / 2, top + 0.92, part, ha="center", va="center", fontsize=10, weight="bold")
        axis.text(x + each / 2, top + 0.38, said, ha="center", va="center", fontsize=7.5)
        for place, rank in enumerate(parts):
            here = [room for room in rooms if RANK[room] == rank]
            left, letters = x + 0.1, sum(len(room) for room in here)
            for room in here:
                width = (each - 0.2) * len(room) / letters
                box(left + 0.02, y + 0.62 * place + 0.06, width - 0.04, room, "white")
                left += width
    y = top + 1.3
    for about, rooms in ABOVE:
        band(y, about, rooms)
        y += 1.0
    arrow = {"arrowstyle": "->", "lw": 1.2, "color": "#333333"}
    axis.annotate("", xy=(0.55, 0.1), xytext=(0.55, y - 0.1), arrowprops=arrow)
    words = "imports point downwards"
    axis.text(0.3, y / 2, words, rotation=90, ha="center", va="center", fontsize=9)
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
