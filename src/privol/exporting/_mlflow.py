"""Released models in MLflow: what is public of a run, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import InvalidParameter
from ..state import save_model
from ._card import model_card
from ._linear import released

__all__ = ["log_run"]

#: MLflow's own limits differ from version to version; longer values are on the card alone.
_LONGEST = 250
#: The only files of a run's directory that are logged: others have metrics and diagnostics, which are not private.
_FILES = ("model.json", "model.npz")


def log_run(model: Any) -> str:
    """Log a released model, its guarantee and its parameters to the active run of MLflow.

    Parameters
    ----------
    model : OnlineLearner, OfflineLearner, PrivateClassifier, PrivateRegressor, or path
        As for :func:`to_sklearn`.

    Returns
    -------
    str
        The id of the run of MLflow, which goes on; if none was active, this starts one, as MLflow's own functions do.

    Raises
    ------
    InvalidParameter
        If MLflow is not installed, or ``model`` is of another kind.
    NotFittedError, StateError
        As for :func:`to_sklearn`.
    mlflow.exceptions.MlflowException
        If MLflow cannot log, for instance because the run has other values of the same parameters.

    Notes
    -----
    It logs

    * parameters ``model.*``, ``learner.*``, ``estimator.*`` and ``guarantee.*`` (epsilon, delta, mu, adjacency, unit);
      values of more than 250 characters are on the card alone;
    * tags ``privol.version``, ``privol.private`` and ``privol.guarantee``, a sentence;
    * files ``model/model.json`` and ``model/model.npz``, which :func:`privol.state.load_model` reads;
      ``guarantee.json``, and ``model_card.json`` of :func:`model_card`.

    No metric, diagnostic, count of null or dropped rows, ledger or seed is logged, not even from the directory of a
    run that has some. MLflow itself adds what it knows of the process: the user, the script, the commit.
    """
    try:
        import mlflow
    except ImportError as error:
        raise InvalidParameter("MLflow is not installed: pip install 'privol[mlflow]'") from error
    card = model_card(model)
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "model")
        if isinstance(model, str | os.PathLike):
            files.mkdir()
            for name in _FILES:
                shutil.copyfile(Path(model, name), files / name)
        else:
            save_model(released(model).model, files)
        mlflow.log_artifacts(str(files), "model")
    mlflow.log_params(_parameters(card))
    guarantee = card["guarantee"]
    mlflow.set_tags(
        {
            "privol.version": __version__,
            "privol.private": json.dumps(guarantee["private"]),
            "privol.guarantee": guarantee["summary"],
        }
    )
    mlflow.log_dict(guarantee["record"], "guarantee.json")
    mlflow.log_dict(card, "model_card.json")
    run = mlflow.active_run()
    assert run is not None
    return str(run.info.run_id)


def _parameters(card: dict[str, Any]) -> dict[str, str]:
    """What the card says, as short texts by dotted names."""
    guarantee = card["guarantee"]
    groups: dict[str, dict[str, Any]] = {
        "model": card["model"],
        "learner": card["parameters"]["learner"],
        "estimator": card["parameters"]["estimator"] or {},
        "guarantee": {
            **{name: guarantee[name] for name in ("epsilon", "delta", "mu")},
            **{name: guarantee["record"][name] for name in ("adjacency", "unit", "kind")},
        },
    }
    found = {}
    for group, values in groups.items():
        for name, value in values.items():
            text = value if isinstance(value, str) else json.dumps(value)
            if len(text) <= _LONGEST:
                found[f"{group}.{name}"] = text
    return found
