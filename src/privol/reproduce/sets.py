"""Data sets of the papers: names of their files, where to get them, and how they are read."""

from __future__ import annotations

from pathlib import Path

__all__ = ["WHERE", "path_of"]

_UCI = "https://archive.ics.uci.edu/dataset/"
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
#: Files by name, which may be compressed (.gz, .bz2, .xz, .zip), and where they can be had.
WHERE = {
    "covtype.data": f"{_UCI}31/covertype",
    "adult.data": f"{_UCI}2/adult",
    "adult.test": f"{_UCI}2/adult",
    "diabetic_data.csv": f"{_UCI}296/diabetes+130-us+hospitals+for+years+1999-2008",
    "YearPredictionMSD.txt": f"{_UCI}203/yearpredictionmsd",
    "rcv1_subsets.binary": f"from {_LIBSVM}multilabel.html (rcv1v2, topics; subsets 1 to 5) by docs/network.md",
}


def path_of(folder: Path, name: str) -> Path | None:
    """Return the file of this name in a folder, plain or compressed; None if there is none."""
    return next((p for end in ("", ".gz", ".bz2", ".xz", ".zip") if (p := folder / f"{name}{end}").is_file()), None)
