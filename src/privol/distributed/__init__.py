"""Several processes and machines: nodes of a network on ranks of MPI, and parts of the rows on workers.

*Nodes* (:class:`Ranks`, :class:`DealtRows`, :class:`InterleavedRows`): :class:`privol.DOLA` in several processes, none
of which sees the rows of another. *Parts* (:func:`file_parts` and a :class:`Crew`): one curator learns from the rows of
many files, which workers read; the workers are trusted as the curator is. This is the only room that imports MPI and
Dask.
"""

from ._crews import Crew, LocalCrew, Session
from ._dask_crew import DaskCrew
from ._mpi_job import DealtRows, Exchange, InterleavedRows, NetworkRows, Ranks, on_all_ranks
from ._rank_crew import RankCrew
from ._row_parts import FilePart, Part, file_parts

__all__ = [
    "Crew",
    "DaskCrew",
    "DealtRows",
    "Exchange",
    "FilePart",
    "InterleavedRows",
    "LocalCrew",
    "NetworkRows",
    "Part",
    "RankCrew",
    "Ranks",
    "Session",
    "file_parts",
    "on_all_ranks",
]
