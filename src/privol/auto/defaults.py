"""Chooses the learner behind a learnt encoding, and its settings, from public numbers alone.

The estimators of this room and ``privol run`` both use it, so both learn the same model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .._rounding import UP
from ..calibration import epsilon_of
from ..encoding import PrivateEncoder
from ..errors import InvalidParameter
from ..guarantees import Guarantee, compose_gdp, epsilon_within, gdp_mu, group_mu
from ..learners import LEARNERS, default_name, settings_without_look, steps_without_look
from ..learners.views import promise_beside, promise_of
from ..losses import get_loss

__all__ = [
    "behind_schema",
    "default_loss",
    "defaults_for",
    "encoder_for",
    "last_model_for",
    "may_learn_encoding",
    "noisy_steps",
    "of_user",
    "with_schema",
    "within_budget",
]

#: Kinds of guarantees that can be combined with an encoding's.
_BESIDE = "gdp", "none"
_MOST_FEATURES = 1 << 30
# For one model at the end (docs/offline.md). With two classes, noise on the minimiser is better than noisy steps if
# rows times mu, over the square of the longest row, are fewer than the first number. The other numbers bound the
# features whose moments are taken, and the strong convexity.
_FEW_ROWS, _MOST_OF_MOMENTS, _L2_OF_MOMENTS = 120.0, 1000, 0.001
_MOST_OF_STEP = 1 << 20  # rows that a learner adds up in one step
_HALVINGS = 30  # to find the share of mu left for a learner beside a user's rows that taught
_OF_NOISY_STEPS = "nogd", "dola", "sparse-dola"


def default_loss(n_classes: int) -> str:
    """Return the loss to try first for ``n_classes`` classes; 0: for real targets."""
    return "squared" if n_classes == 0 else "logistic" if n_classes == 2 else "softmax"


def defaults_for(name: str | None, stream: Any, horizon: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a learner for encoded rows, from public numbers.

    Parameters
    ----------
    name : str or None
        The learner; None: the default one for the loss.
    stream : object
        An object with ``schema``, ``classes`` and ``n_features``, such as a :class:`~privol.streams.Stream` of encoded
        rows.
    horizon : int
        Rows that the learner's budget must last for.
    given : mapping
        What the user has stated, which takes precedence.
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
    if name in (default_name(loss), default_name(loss, ("l2",))):  # also if the user's own settings ask for it
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
        if _as_published(given):
            found.pop("noise_shift", None)
    elif not _as_published(given):
        found |= noisy_steps(name, {"horizon": horizon, "x_bound": found["x_bound"], **given})
    return found


def _as_published(given: Mapping[str, Any]) -> bool:
    """Whether the source of a calibration fixes what the noise is for, and so what may be chosen."""
    return bool(given.get("calibration", "tight") != "tight")


def last_model_for(rows: Any, horizon: int, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the learner for a single model at the end, and its settings, from public numbers.

    Parameters
    ----------
    rows, given
        As for :func:`defaults_for`; ``given`` has the loss, epsilon, delta and the adjacency.
    horizon : int
        Number of rows.

    Returns
    -------
    name : str
        For real targets PQFTL, which adds noise once to the moments of all rows. For two classes OutputPerturbation if
        rows are few for the budget. Otherwise the default learner, which shows its last model. All have a guarantee of
        Gaussian differential privacy, which can be combined with the encoding's in parallel or in one budget.
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
    """Return the rows of a step and the radius for a learner that adds noise to gradients; nothing for others.

    ``given`` has the horizon, the bound of the rows, and what the user states; if that includes a set or the length of
    steps, nothing is chosen.
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
    """Whether a learnt encoding can be combined with the guarantee of this learner."""
    return _promise(made, horizon).kind in _BESIDE


def _promise(made: Any, horizon: int | None, n_features: int = 1) -> Guarantee:
    return promise_of(made, n_features, horizon or getattr(made, "horizon", None) or 1000, 2)


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
    sketch: int = 0,
) -> PrivateEncoder:
    """Return the encoder for a learner: with the learner's budget, or from all rows with ``mu`` of its own.

    Parameters
    ----------
    made : OnlineLearner
        The encoder gets its budget, adjacency and seed.
    horizon : int or None
        Rows of the whole stream; None: they are counted.
    ledger : Ledger or None
    regression : bool or None
        As for :class:`~privol.encoding.PrivateEncoder`; so are the parameters that are not described here.
    mu : float, optional
        What the encoder may spend on all rows, which are then learnt too.
    reuse_rows : bool or None
        Without ``mu``: None lets all rows teach if the first ones would be too few, for a share of the learner's
        budget.

    Raises
    ------
    InvalidParameter
        If the learner's guarantee cannot be combined with the encoding's.
    """
    promise = _promise(made, horizon)
    if promise.kind not in _BESIDE:
        raise InvalidParameter(
            f"the guarantee of {type(made).__name__} with these parameters is of kind {promise.kind!r}, and a learnt "
            "encoding has one of Gaussian differential privacy: declare the columns by a schema"
        )
    users = {} if promise.unit == "row" else {"rows_per_user": made.rows_per_user}
    if users:
        users["user_separation"] = getattr(made, "user_separation", 1)
    epsilon = epsilon_of(made)
    reuse = False if epsilon is None else reuse_rows
    if epsilon is None:  # the noise is stated: more features lower the cost, and their number is still to be learnt
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
        sketch=sketch,
        regression=regression,
        random_state=made.random_state,
        ledger=ledger,
        **users,
    )


def within_budget(made: Any, stream: Any, horizon: int) -> Any:
    """Return a learner for a user's budget, reduced if the user's rows that taught the encoding need a part of it.

    The encoding leaves the model its share for each row of a user. That suffices if more rows learnt cost more each, as
    with sums, but not if the last rows cost less, as with iterates that are all released.

    Parameters
    ----------
    made : OnlineLearner or OfflineLearner
    stream : object
        With ``schema``, ``first_row``, ``n_features`` and ``classes``.
    horizon : int
        Rows that the learner's budget must last for.
    """
    n_classes = 2 if stream.classes is None else len(stream.classes)

    def costs(epsilon: float) -> float:
        """Cost of all rows of a user, including those that taught."""
        made.epsilon = epsilon
        return promise_beside(made, stream, horizon, n_classes).mu

    epsilon = epsilon_of(made)
    if getattr(made, "rows_per_user", None) is None or epsilon is None or math.isinf(epsilon):
        return made
    most = promise_of(made, stream.n_features, horizon, n_classes).mu
    low, high = 0.0, 1.0  # shares of mu: none and all
    if costs(epsilon) > most:
        for _ in range(_HALVINGS):
            share = (low + high) / 2
            low, high = (share, high) if costs(epsilon_within(share * most, made.delta)) <= most else (low, share)
        made.epsilon = epsilon_within(low * most, made.delta)
    else:
        made.epsilon = epsilon
    return made


def behind_schema(found: Guarantee, schema: Any) -> Guarantee:
    """Return a guarantee combined with that of the schema, which earlier rows taught.

    Each row taught or is learnt, so both together cost as much as the more expensive one (docs/proofs/phases.md). The
    figure for all rows of a user includes both already.
    """
    learnt = None if schema is None else schema.learnt
    if learnt is None or found.unit == "user" or learnt.mu <= found.mu:
        return found
    own = f"the figures are those of a row that taught the schema, with mu = {learnt.mu:.6g}; later rows cost less"
    return replace(
        found,
        kind="none" if math.isinf(learnt.mu) else found.kind,
        parameter=learnt.mu,
        user_factor=None,  # for the models; a user's rows never cost more than their number times this
        conditions=(*found.conditions, own),
        private=found.private and learnt.private,
    )


def with_schema(found: Guarantee, schema: Any) -> Guarantee:
    """Return a guarantee combined with that of the schema, which the same rows taught."""
    learnt = schema.learnt
    own = (
        f"the schema was learnt from the same rows by {schema.taught_by}, under the Gaussian mechanism with mu = "
        f"{learnt.mu:.6g}{'' if found.unit == 'row' else ' for one row'}, which is counted here",
    )
    both = replace(
        found,
        kind="none" if math.isinf(learnt.mu) else found.kind,
        parameter=compose_gdp([found.row.mu, learnt.mu]),
        unit="row",
        user_factor=None,
        conditions=(*(words for words in found.conditions if words not in schema.conditions), *own),
        private=found.private and learnt.private,
    )
    if found.rows_per_user is None or math.isinf(both.parameter):
        return replace(both, unit=found.unit)
    taught = group_mu(learnt.mu, found.rows_per_user)
    apart = learnt.user_separation
    near = apart == found.user_separation or (found.unit == "user" and apart > found.user_separation)
    if learnt.rows_per_user == found.rows_per_user and near:
        taught = math.sqrt(learnt.squares[-1]) * UP
        both = replace(both, user_separation=learnt.user_separation)
    return of_user(both, compose_gdp([found.user_mu or 0.0, taught]), found.unit)


def of_user(row: Guarantee, mu: float, unit: str) -> Guarantee:
    """Return a guarantee for one row, extended by the cost of all rows of a user, with figures for ``unit``."""
    most = row.rows_per_user or 1
    if unit == "user":  # the divisor is rounded down
        factor = max(mu / row.mu / UP, 1.0) if row.mu else 1.0
        return replace(row, unit=unit, parameter=mu, user_factor=factor if factor < most else None)
    factor = max(mu / row.mu * UP, 1.0) if row.mu else 1.0
    return replace(row, user_factor=factor if factor < most else None)
