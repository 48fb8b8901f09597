"""Which learner stands behind a learnt encoding, and its settings: from public numbers alone, for whoever asks.

The estimators of this room and ``privol run`` ask here, so that both learn the same model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..encoding import PrivateEncoder
from ..errors import InvalidParameter
from ..guarantees import Guarantee, compose_gdp, epsilon_within, gdp_mu
from ..learners import LEARNERS, default_name, settings_without_look, steps_without_look
from ..learners.views import promise_of
from ..losses import get_loss

__all__ = [
    "default_loss",
    "defaults_for",
    "encoder_for",
    "last_model_for",
    "may_learn_encoding",
    "noisy_steps",
    "with_schema",
]

#: Kinds of guarantees that an encoding's can stand beside.
_BESIDE = "gdp", "none"
_MOST_FEATURES = 1 << 30
# Of one model at the end (docs/offline.md): of two classes noise on the minimiser is better than steps where rows times
# mu, over the square of the longest row, are fewer than the first; moments have the square of so many features at most,
# and so strong a convexity.
_FEW_ROWS, _MOST_OF_MOMENTS, _L2_OF_MOMENTS = 120.0, 1000, 0.001
_MOST_OF_STEP = 1 << 20  # rows that a learner adds up to one step
_OF_NOISY_STEPS = "nogd", "dola", "sparse-dola"


def default_loss(n_classes: int) -> str:
    """Return the loss to take first for so many classes; 0: for real targets."""
    return "squared" if n_classes == 0 else "logistic" if n_classes == 2 else "softmax"


def defaults_for(name: str | None, stream: Any, horizon: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a learner for encoded rows, from public numbers.

    Parameters
    ----------
    name : str or None
        Of the learner; None: the default one for the loss.
    stream : object
        With ``schema``, ``classes`` and ``n_features``, such as a :class:`~privol.streams.Stream` of encoded rows.
    horizon : int
        Rows that the learner's budget must last for.
    given : mapping
        What is stated, which comes first.
    """
    n_classes = 0 if stream.classes is None else len(stream.classes)
    found: dict[str, Any] = {"on_invalid": "zero", "x_bound": stream.schema.usual_norm}
    loss = given.get("loss")
    if loss is None:
        loss = found["loss"] = default_loss(n_classes)
    target = stream.schema.target
    if stream.classes is None and target is not None and target.range is not None:
        found["y_bound"] = 1.0
    name = default_name(loss, given) if name is None else name
    if name in (default_name(loss), default_name(loss, ("l2",))):  # also that which one's own settings ask for
        words = ("epsilon", "delta", "adjacency", "fit_intercept")
        found |= settings_without_look(
            loss,
            learner=name,
            n_features=stream.n_features,
            n_rows=horizon,
            x_bound=given.get("x_bound", found["x_bound"]),
            n_classes=n_classes or 2,
            has_constant=stream.schema.has_constant,
            **{word: given[word] for word in words if word in given},
        )
    else:
        found |= noisy_steps(name, {"horizon": horizon, "x_bound": found["x_bound"], **given})
    return found


def last_model_for(rows: Any, horizon: int, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the learner to take for one model at the end, and its settings, from public numbers.

    Parameters
    ----------
    rows, given
        As for :func:`defaults_for`; ``given`` has the loss, epsilon, delta and the adjacency.
    horizon : int
        Rows that there are.

    Returns
    -------
    name : str
        Of real targets that of PQFTL, whose moments of all rows have noise once; of two classes that of
        OutputPerturbation where rows are few for the budget; else the default learner, which shows its last model. All
        have a guarantee of Gaussian differential privacy, which the encoding's can stand beside, or share a budget
        with.
    settings : dict
    """
    loss = given["loss"]
    found = defaults_for(None, rows, horizon, given)
    x_bound = found["x_bound"]
    longest = math.hypot(x_bound, float(found["fit_intercept"]))
    if get_loss(loss).quadratic and rows.n_features <= _MOST_OF_MOMENTS:
        name = default_name(loss, ("l2",))
        words: dict[str, Any] = {"n_features": rows.n_features, "n_rows": horizon, "x_bound": x_bound}
        words |= {"learner": name, "fit_intercept": found["fit_intercept"]}
        moments = settings_without_look(loss, **words)
        return name, {
            **found,
            **moments,
            "l2": _L2_OF_MOMENTS,
            "batch": min(horizon, _MOST_OF_STEP),
            "release": "last",
        }
    mu = math.inf if math.isinf(given["epsilon"]) else gdp_mu(given["epsilon"], given["delta"])
    if loss == default_loss(2) and horizon * mu < _FEW_ROWS * longest * longest:
        return "output-perturbation", found
    return default_name(loss), {**found, "release": "last"}


def noisy_steps(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return rows of a step, and the radius, of a learner that adds noise to gradients; nothing for others.

    ``given`` has the horizon, the bound of the rows, and what is stated: nothing is chosen where it states a set or the
    length of steps.
    """
    if name not in _OF_NOISY_STEPS or given.keys() & {"radius", "domain", "batch", "step_size", "l2"}:
        return {}
    made: Any = LEARNERS[name](**given)
    promise = _promise(made, made.horizon)
    if promise.kind not in _BESIDE:
        return {}
    nodes = made.mixing().n_nodes if hasattr(made, "mixing") else 1
    return steps_without_look(
        n_rows=made.horizon // nodes, x_bound=made.x_bound, mu=promise.parameter, fit_intercept=made.fit_intercept
    )


def may_learn_encoding(made: Any, horizon: int | None) -> bool:
    """Whether a learner's guarantee is one that a learnt encoding can be put beside."""
    return _promise(made, horizon).kind in _BESIDE


def _promise(made: Any, horizon: int | None, n_features: int = 1) -> Guarantee:
    return promise_of(made, n_features, horizon or 1000, 2)


def encoder_for(
    made: Any,
    *,
    horizon: int | None,
    ledger: Any,
    regression: bool | None,
    mu: float | None = None,
    reuse_rows: bool | None = None,
    declared: Any = None,
    drop: Sequence[str] = (),
    crosses: Sequence[tuple[str, str]] = (),
) -> PrivateEncoder:
    """Return what learns the encoding for a learner: with its budget, or from all rows with ``mu`` of its own.

    Parameters
    ----------
    made : OnlineLearner
        Whose budget, adjacency and seed it gets.
    horizon : int or None
        Rows of the whole stream; None: they are counted.
    ledger : Ledger or None
    regression : bool or None
        As of :class:`~privol.encoding.PrivateEncoder`, as are those that are not named here.
    mu : float, optional
        What it may spend on all rows, which are learnt too.
    reuse_rows : bool or None
        Without mu: None lets all rows teach where the first would be too few, for a share of the learner's budget.

    Raises
    ------
    InvalidParameter
        If the learner's guarantee is none that the encoding can be put beside.
    """
    promise = _promise(made, horizon)
    if promise.kind not in _BESIDE:
        raise InvalidParameter(
            f"the guarantee of {type(made).__name__} with these parameters is of kind {promise.kind!r}, and a learnt "
            "encoding has one of Gaussian differential privacy: declare the columns by a schema"
        )
    if promise.unit != "row":
        raise InvalidParameter(
            "rows_per_user must be None where rows teach the encoding, which are not counted by users: declare the "
            "columns by a schema"
        )
    epsilon, reuse = made.epsilon, False if made.epsilon is None else reuse_rows
    if epsilon is None:  # noise that is stated: the more features, the less it costs, and how many is to be learnt
        epsilon = epsilon_within(_promise(made, horizon, _MOST_FEATURES).parameter, made.delta)
    if mu is not None:
        epsilon, reuse = epsilon_within(mu, made.delta), True
    return PrivateEncoder(
        epsilon=epsilon,
        reuse_rows=reuse,
        delta=made.delta,
        adjacency=made.adjacency,
        n_rows=horizon,
        declared=declared,
        drop=drop,
        crosses=crosses,
        regression=regression,
        random_state=made.random_state,
        ledger=ledger,
    )


def with_schema(found: Guarantee, schema: Any) -> Guarantee:
    """Return what a guarantee becomes together with that of the schema, which the same rows taught."""
    learnt = schema.learnt
    own = (
        "the schema was learnt from the same rows by histograms, under the Gaussian mechanism with mu = "
        f"{learnt.mu:.6g}, which is counted here",
    )
    return replace(
        found,
        kind="none" if math.isinf(learnt.mu) else found.kind,
        parameter=compose_gdp([found.mu, learnt.mu]),
        user_separation=1,
        user_factor=None,
        conditions=(*(words for words in found.conditions if words not in schema.conditions), *own),
        private=found.private and learnt.private,
    )
