"""Which learner stands behind a learnt encoding, and its settings: from public numbers alone, for whoever asks.

The estimators of this room and ``privol run`` ask here, so that both learn the same model.
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

#: Kinds of guarantees that an encoding's can stand beside.
_BESIDE = "gdp", "none"
_MOST_FEATURES = 1 << 30
# Of one model at the end (docs/offline.md): of two classes noise on the minimiser is better than steps where rows times
# mu, over the square of the longest row, are fewer than the first; moments have the square of so many features at most,
# and so strong a convexity.
_FEW_ROWS, _MOST_OF_MOMENTS, _L2_OF_MOMENTS = 120.0, 1000, 0.001
_MOST_OF_STEP = 1 << 20  # rows that a learner adds up to one step
_HALVINGS = 30  # of the share of mu that a learner may have beside what a user's rows taught
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
    sketch: int = 0,
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
    users = {} if promise.unit == "row" else {"rows_per_user": made.rows_per_user}
    if users:
        users["user_separation"] = getattr(made, "user_separation", 1)
    epsilon = epsilon_of(made)
    reuse = False if epsilon is None else reuse_rows
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
        sketch=sketch,
        regression=regression,
        random_state=made.random_state,
        ledger=ledger,
        **users,
    )


def within_budget(made: Any, stream: Any, horizon: int) -> Any:
    """Return a learner whose budget is for users, with less of it if rows of a user that taught the encoding need some.

    The encoding leaves the model its share for each row of a user, which is enough where more of them that are learnt
    cost more each, as of sums; not where the last of them cost less, as of iterates that are all released.

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
        """Of all rows of a user, those that taught among them."""
        made.epsilon = epsilon
        return promise_beside(made, stream, horizon, n_classes).mu

    epsilon = epsilon_of(made)
    if getattr(made, "rows_per_user", None) is None or epsilon is None or math.isinf(epsilon):
        return made
    most = promise_of(made, stream.n_features, horizon, n_classes).mu
    low, high = 0.0, 1.0  # shares of mu: none, and all
    if costs(epsilon) > most:
        for _ in range(_HALVINGS):
            share = (low + high) / 2
            low, high = (share, high) if costs(epsilon_within(share * most, made.delta)) <= most else (low, share)
        made.epsilon = epsilon_within(low * most, made.delta)
    else:
        made.epsilon = epsilon
    return made


def behind_schema(found: Guarantee, schema: Any) -> Guarantee:
    """Return what a guarantee becomes together with that of the schema, which earlier rows taught.

    A row taught or is learnt, so both cost what the more expensive one costs (docs/proofs/phases.md). The figure of all
    rows of a user has both in it already.
    """
    learnt = None if schema is None else schema.learnt
    if learnt is None or found.unit == "user" or learnt.mu <= found.mu:
        return found
    own = f"the figures are those of a row that taught the schema, with mu = {learnt.mu:.6g}; later rows cost less"
    return replace(
        found,
        kind="none" if math.isinf(learnt.mu) else found.kind,
        parameter=learnt.mu,
        user_factor=None,  # of the models; any rows of a user cost no more than their number times this
        conditions=(*found.conditions, own),
        private=found.private and learnt.private,
    )


def with_schema(found: Guarantee, schema: Any) -> Guarantee:
    """Return what a guarantee becomes together with that of the schema, which the same rows taught."""
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
    """Return a guarantee for one row with what all rows of a user cost, as figures of the unit."""
    most = row.rows_per_user or 1
    if unit == "user":  # what is divided by is rounded down
        factor = max(mu / row.mu / UP, 1.0) if row.mu else 1.0
        return replace(row, unit=unit, parameter=mu, user_factor=factor if factor < most else None)
    factor = max(mu / row.mu * UP, 1.0) if row.mu else 1.0
    return replace(row, user_factor=factor if factor < most else None)
