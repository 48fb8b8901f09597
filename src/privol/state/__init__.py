"""Runs on the disk: released models, which are public, and runs that outlive their process, which are secret.

:func:`save_model` and :func:`load_model` write and read what a learner has released; :func:`save_run` also writes what
its run claims, for ``privol verify``. :class:`State` keeps a run that is
still learning, its secrets included, so that it survives a crash. :class:`SealedRelease` is for offline fits, which
release one model and cannot resume.
"""

from ._checkpoints import RELEASED
from ._claims import check_free, claims_of, fit_record, network_record, run_record, save_run
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
    "RELEASED",
    "VERSION",
    "SealedRelease",
    "State",
    "check_free",
    "claims_of",
    "describe_parameters",
    "fit_record",
    "load_learner",
    "load_model",
    "network_record",
    "read_record",
    "run_record",
    "save_model",
    "save_run",
    "write_released",
]
