"""Model cards: what a reader of a released model needs to know, as JSON values."""

from __future__ import annotations

import importlib.metadata
import math
import platform
from typing import Any

from .. import __version__
from ..guarantees import Guarantee, weaknesses
from ..state import describe_parameters
from ._linear import Estimator, Learner, LinearModel, linear_model, released, shown_of
from ._published import guarantee_schema

__all__ = ["model_card"]

_FORMAT, _VERSION = "privol.model_card", 1


def model_card(model: Any) -> dict[str, Any]:
    """Return a model card: what the model is, what it promises, and what it does not.

    Parameters
    ----------
    model : OnlineLearner, OfflineLearner, PrivateClassifier, PrivateRegressor, or path
        As for :func:`to_sklearn`.

    Returns
    -------
    dict
        Of JSON values; infinities are the word ``"inf"``. Keys:

        ``format``, ``version``
            ``"privol.model_card"``, 1.
        ``description``
            A sentence.
        ``model``
            ``estimator`` (None: a learner), ``learner``, ``task``, ``loss``, ``classes`` (None: a real target),
            ``columns`` (or named features; None: they have no names), ``n_features`` of the rows as they are learnt.
        ``guarantee``
            ``private``, ``summary``, ``sentence``, the figures of its unit: ``epsilon`` at ``delta``, and ``mu``
            (infinite where there is none); its ``record``, and the ``$id`` of the record's ``schema``.
        ``warnings``
            What makes the guarantee weak.
        ``not_covered``
            What the guarantee does not cover.
        ``parameters``
            Of the ``estimator`` and the ``learner``, without ledger and seed.
        ``encoding``
            The public record of the schema; None: rows come as numbers.
        ``rows``, ``releases``
            How many rows taught or were learnt, and how many models were released.
        ``versions``
            Of the libraries that wrote the card.

        All of it is public as far as the guarantee goes. Nothing on it is computed from raw rows: no metric, no
        diagnostic, no count of null or dropped rows. Whatever you add, such as an intended use or a metric, is up to
        you; only private metrics are covered by a guarantee.

    Raises
    ------
    InvalidParameter, NotFittedError, StateError
        As for :func:`to_sklearn`.
    """
    given = released(model)
    found, shown = linear_model(given), given.model
    learner: Learner = shown.learner_ if isinstance(shown, Estimator) else shown
    guarantee: Guarantee = shown.guarantee_
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "description": _description(found),
        "model": {
            "estimator": type(shown).__name__ if isinstance(shown, Estimator) else None,
            "learner": type(learner).__name__,
            "task": "regression" if found.classes is None else "classification",
            "loss": found.loss.name,
            "classes": None if found.classes is None else found.classes.tolist(),
            "columns": None if found.names is None else list(found.names),
            "n_features": int(found.coef.shape[1]),
        },
        "guarantee": {
            "private": guarantee.private and guarantee.kind != "none",
            "summary": guarantee.summary(),
            "sentence": guarantee.sentence(),
            "epsilon": _plain(guarantee.epsilon()),
            "delta": guarantee.delta,
            "mu": _plain(guarantee.mu),
            "record": guarantee.to_record(),
            "schema": guarantee_schema()["$id"],
        },
        "warnings": weaknesses(guarantee),
        "not_covered": _not_covered(guarantee),
        "parameters": {
            "estimator": shown_of(shown)["parameters"] if isinstance(shown, Estimator) else None,
            "learner": describe_parameters(learner),
        },
        "encoding": None if given.schema is None else given.schema.to_record(),
        "rows": int(shown.n_rows_),
        "releases": int(shown.n_releases_),
        "versions": {
            "privol": __version__,
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in ("numpy", "scipy", "scikit-learn")},
        },
    }


def _plain(x: float) -> float | str:
    return "inf" if math.isinf(x) else x


def _description(found: LinearModel) -> str:
    of = "of functions of the columns" if found.schema is not None else "of the features"
    bound = f"rows are scaled to an L2 norm of at most {found.x_bound:g}"
    if found.classes is None:
        what = "predicts a real number"
    else:
        labels = ", ".join(map(str, found.classes[:10])) + (", ..." if len(found.classes) > 10 else "")
        what = f"tells {len(found.classes)} classes apart ({labels})"
    return f"A linear model {of} that {what}, learnt by the {found.loss.name} loss with privol {__version__}; {bound}."


def _not_covered(guarantee: Guarantee) -> list[str]:
    """What the guarantee does not cover, the worst first."""
    found = []
    if guarantee.kind == "none":
        found.append("Anything: the model was learnt without noise, and there is no guarantee.")
    elif not guarantee.private:
        found.append("Anything: the noise came from a seed that somebody may know, and there is no privacy.")
    if guarantee.released == "metrics_beyond_models":
        found.append("The models themselves: the figures are what metrics add to their guarantee.")
    if guarantee.rows_per_user is None:
        found.append("Several rows of one person together: each row is protected by itself.")
    elif guarantee.users_fixed:
        found.append("Whose row each row is.")
    found += [
        "How many rows there are.",
        "What other runs on the same rows release, unless one ledger counts them with this one.",
        "Whoever sees the machine that learnt, its memory, its secret files, errors or timings.",
        "Metrics, diagnostics and counts that are computed from raw rows: they are not on this card.",
        "Bounds, labels, schemas and parameters that were chosen by looking at the rows.",
        "What the model says of people in general: it holds for somebody whether or not their row was learnt.",
    ]
    return found
