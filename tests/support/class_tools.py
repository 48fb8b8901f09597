"""Labels of more than two classes, for several test files."""

from __future__ import annotations

LABELS = ["ash", "birch", "cedar", "oak"]
