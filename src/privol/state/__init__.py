"""Runs on the disk: released models, which are public, and runs that outlive their process, which are secret.

:func:`save_model` and :func:`load_model` write and read what a learner has released. :class:`State` keeps a run that is
still learning, its secrets included, so that it survives a crash. :class:`SealedRelease` is for offline fits, which
release one model and cannot resume.
"""

from ._kept_run import State
from ._models import (
    FORMAT,
    VERSION,
    describe_parameters,
    load_learner,
    load_model,
    read_record,
    save_model,
    write_released,
)
from ._sealed import SealedRelease

__all__ = [
    "FORMAT",
    "VERSION",
    "SealedRelease",
    "State",
    "describe_parameters",
    "load_learner",
    "load_model",
    "read_record",
    "save_model",
    "write_released",
]
