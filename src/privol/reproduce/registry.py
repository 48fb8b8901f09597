"""All tables and figures of the five source papers that show something measured or computed."""

from __future__ import annotations

from ..errors import InvalidParameter
from . import chaudhuri2008, jain2012, jun2019, li2018, zhang2018
from .verdicts import Figure, slug

__all__ = ["FIGURES", "NO_FIGURES", "PAPERS", "find"]

PAPERS = {
    "chaudhuri2008": "Monteleoni, Chaudhuri: Advances in privacy-preserving machine learning, slides, 2008",
    "jain2012": "Jain, Kothari, Thakurta: Differentially private online learning, 2012",
    "li2018": "Li, Zhou, Xiong, Wang, Wang: Differentially private distributed online learning, 2018",
    "zhang2018": "Zhang, Venkitasubramaniam: Mutual-information-private online gradient descent algorithm, 2018",
    "jun2019": "Jun, Orabona: Parameter-free locally differentially private stochastic subgradient descent, 2019",
}

#: Numbered figures and tables that show nothing that could be measured.
NO_FIGURES = {
    "jain2012 fig. 1": "the drawing of a tree",
    "li2018 table 1": "notation",
    "li2018 table 2": "the description of data sets",
    "li2018 fig. 1": "the drawing of a network",
    "li2018 fig. 2": "the drawing of an algorithm",
    "zhang2018 fig. 1": "the drawing of an algorithm",
    "zhang2018 fig. 2": "the drawing of an algorithm",
}

FIGURES: tuple[Figure, ...] = tuple(
    figure for paper in (chaudhuri2008, jain2012, li2018, zhang2018, jun2019) for figure in paper.FIGURES
)


def find(names: tuple[str, ...]) -> list[Figure]:
    """Return the figures of some names, in the registry's order.

    Parameters
    ----------
    names : tuple of str
        Each "all", a paper's key, or a figure's name, in which only letters and digits count.

    Raises
    ------
    InvalidParameter
        If a name is unknown.
    """
    wanted: set[str] = set()
    drawings = {slug(name): what for name, what in NO_FIGURES.items()}
    for name in names:
        key = slug(name)
        found = {f.slug for f in FIGURES if key in ("all", f.paper, f.slug)}
        if key in drawings:
            raise InvalidParameter(f"{name}: {drawings[key]}; there is nothing to measure")
        if not found:
            known = ", ".join(["all", *PAPERS, *(figure.name for figure in FIGURES)])
            raise InvalidParameter(f"{name!r} is no figure of a source paper; known are {known}")
        wanted |= found
    return [figure for figure in FIGURES if figure.slug in wanted]
