"""Learners: each defines its update, its point of perturbation and its schedule, and shares the rest.

:data:`TABLE` lists them all. To add a learner, add a row, and an import for type checkers: everything else that needs
the learners (the package itself, the command line, plans, saved models, audits, conformance tests) reads the table.
Each learner is imported on first use, so the table loads at once.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ._base import OnlineLearner as OnlineLearner
    from ._default import default_learner as default_learner
    from ._default import default_name as default_name
    from ._default import settings_without_look as settings_without_look
    from ._default import steps_without_look as steps_without_look
    from ._ledgered import LedgeredModel as LedgeredModel
    from ._model import Release as Release
    from ._network import NetworkLearner as NetworkLearner
    from ._offline import OfflineLearner as OfflineLearner
    from .adaptive import AdaptiveFTRL as AdaptiveFTRL
    from .averaged import POL as POL
    from .bandit import BanditMIOGD as BanditMIOGD
    from .betting import BANCO as BANCO
    from .betting import AgnosticBANCO as AgnosticBANCO
    from .descent import LDPSGD as LDPSGD
    from .descent import MIOGD as MIOGD
    from .experts import MultiscaleSGD as MultiscaleSGD
    from .gradient import NOGD as NOGD
    from .iterate import PGIGA as PGIGA
    from .iterate import PIGD as PIGD
    from .leader import DPFTRL as DPFTRL
    from .least_squares import PQFTL as PQFTL
    from .network import DOLA as DOLA
    from .network import SparseDOLA as SparseDOLA
    from .offline import ObjectivePerturbation as ObjectivePerturbation
    from .offline import OutputPerturbation as OutputPerturbation


class Entry(NamedTuple):
    """A learner.

    Attributes
    ----------
    name : str
        What the command line and :func:`privol.plan` call it.
    kind, module : str
        Its class, and where that is.
    group : str
        One of :data:`GROUPS`.
    about : str
        What it perturbs, or how: a few words for the command line's help.
    """

    name: str
    kind: str
    module: str
    group: str
    about: str


#: What the learners of a group have in common, for the command line's help.
GROUPS = {
    "free": "Noise on gradients or sums, so that releases cost nothing",
    "few": "Noise on what is released, for few releases",
    "devices": "Simulated users' devices, which randomize what they send and need not trust the learner",
    "nodes": "Nodes that send each other noisy parameters, and take the rows in turn",
    "rest": "Offline, with all rows in memory and one release",
}

TABLE = (
    Entry("pigd", "PIGD", "iterate", "few", "implicit steps, every loss"),
    Entry("pgiga", "PGIGA", "iterate", "few", "gradient steps, smooth losses"),
    Entry("nogd", "NOGD", "gradient", "free", "every gradient"),
    Entry("dpftrl", "DPFTRL", "leader", "free", "running sums of gradients"),
    Entry("adaptive", "AdaptiveFTRL", "adaptive", "free", "running sums of gradients, nothing to choose"),
    Entry("pqftl", "PQFTL", "least_squares", "free", "running sums of moments, for squared loss"),
    Entry("miogd", "MIOGD", "descent", "devices", "gradients"),
    Entry("bandit", "BanditMIOGD", "bandit", "devices", "losses"),
    Entry("ldpsgd", "LDPSGD", "descent", "devices", "gradients"),
    Entry("banco", "BANCO", "betting", "devices", "gradients, without a step size"),
    Entry("agnostic", "AgnosticBANCO", "betting", "devices", "likewise, whatever the noise"),
    Entry("multiscale", "MultiscaleSGD", "experts", "devices", "likewise, by experts"),
    Entry("dola", "DOLA", "network", "nodes", "gradients"),
    Entry("sparse-dola", "SparseDOLA", "network", "nodes", "sparse models"),
    Entry("objective-perturbation", "ObjectivePerturbation", "offline", "rest", "noise in what is minimised"),
    Entry("output-perturbation", "OutputPerturbation", "offline", "rest", "noise on the minimiser"),
    Entry("pol", "POL", "averaged", "rest", "noise on the average of one pass"),
)


class Kinds(Mapping[str, type[Any]]):
    """Classes of learners by the name that the command line uses; a class is imported when it is asked for."""

    def __init__(self, *groups: str) -> None:
        self._entries = {entry.name: entry for entry in TABLE if entry.group in groups}

    def __getitem__(self, name: str) -> type[Any]:
        kind: type[Any] = __getattr__(self._entries[name].kind)
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


#: The learners of streams, by the name that the command line and :func:`privol.plan` use.
LEARNERS: Mapping[str, type[OnlineLearner]] = Kinds(*(group for group in GROUPS if group != "rest"))
#: The offline learners, by the same names: all rows at once, and one release.
OFFLINE_LEARNERS: Mapping[str, type[OfflineLearner]] = Kinds("rest")
#: All learners.
ALL_LEARNERS: Mapping[str, type[Any]] = Kinds(*GROUPS)

_MODULES = {
    "LedgeredModel": "_ledgered",
    "NetworkLearner": "_network",
    "OfflineLearner": "_offline",
    "OnlineLearner": "_base",
    "Release": "_model",
    "default_learner": "_default",
    "default_name": "_default",
    "settings_without_look": "_default",
    "steps_without_look": "_default",
    **{entry.kind: entry.module for entry in TABLE},
}


def __getattr__(name: str) -> Any:
    if name == "__all__":  # computed here, as type checkers need no such list
        return __dir__()
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: Any = getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_MODULES, "ALL_LEARNERS", "LEARNERS", "OFFLINE_LEARNERS"])
