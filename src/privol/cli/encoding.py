"""The encoding of a table that no schema describes: learnt from its first rows, under the run's budget."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..readers.formats import by_name

if TYPE_CHECKING:
    from ..guarantees import Guarantee

__all__ = [
    "defaults_for",
    "encoder_for",
    "is_learnt",
    "learns_encoding",
    "may_learn_encoding",
    "noisy_steps",
    "short_of_rows",
    "spent_note",
    "what_taught",
    "with_schema",
]

_STDIN = "-"
#: Kinds of guarantees that an encoding's can stand beside.
_BESIDE = "gdp", "none"
_MOST_FEATURES = 1 << 30
_OF_NOISY_STEPS = "nogd", "dola", "sparse-dola"
#: Options that declare what the rows are: with one of them nothing is learnt about their encoding, unless asked for.
_DECLARING = ("schema", "ranges", "n_features", "zero_based", "x_bound")


def is_learnt(inputs: Mapping[str, Any] | None) -> bool:
    """Whether the rows of a kept run are encoded by a schema that the rows before them taught."""
    schema = (inputs or {}).get("schema")
    return schema is not None and schema.get("learnt") is not None and "first_row" in (inputs or {})


def learns_encoding(file: str | None, asked: bool | None, given: Mapping[str, Any]) -> bool:
    """Whether the first rows of a file are to teach the encoding of the others.

    Parameters
    ----------
    file : str or None
    asked : bool or None
        ``--learn-schema`` or ``--no-learn-schema``; None: neither.
    given : mapping
        Options by their names; None for those that are not given.
    """
    if asked is False:
        return False
    if asked:
        if given.get("ranges") is not None:
            raise click.UsageError("--learn-schema and --ranges exclude each other: a --schema may state some columns")
        return True
    # what comes through a pipe may be alive, and whoever watches it would wait for the rows that teach
    if file == _STDIN or any(given.get(name) is not None for name in _DECLARING):
        return False
    return file is None or _has_columns(file, given.get("format"))


def _has_columns(file: str, format: str | None) -> bool:
    from ..readers.formats import FORMATS
    from ..streams import format_of

    if format is not None:
        return FORMATS[format].columns
    known = by_name(file)
    if known is not None:
        return known.columns
    return format_of(file).columns


def may_learn_encoding(made: Any, horizon: int | None) -> bool:
    """Whether a learner's guarantee is one that a learnt encoding can be put beside."""
    return _promise(made, horizon).kind in _BESIDE


def _promise(made: Any, horizon: int | None, n_features: int = 1) -> Any:
    from ..learners.views import promise_of

    return promise_of(made, n_features, horizon or 1000, 2)


def encoder_for(
    made: Any,
    *,
    declared: str | None,
    drop: str | None,
    crosses: Sequence[tuple[str, str]],
    horizon: int | None,
    ledger: Any,
    regression: bool | None,
    mu: float | None,
    shares: bool,
) -> Any:
    """Return what learns the encoding for a learner: with its budget, or from all rows with ``mu`` of its own.

    ``declared`` is the schema of columns of which nothing is to be learnt; ``shares``: where the first rows would be
    too few, all may teach for a share of the learner's budget.

    Raises
    ------
    click.UsageError
        If the learner's guarantee is none that the encoding can be put beside.
    """
    from ..encoding.private_encoder import PrivateEncoder
    from ..guarantees import epsilon_within

    promise = _promise(made, horizon)
    if promise.kind not in _BESIDE:
        raise click.UsageError(
            f"the guarantee of {type(made).__name__} with these options is of kind {promise.kind!r}, and a learnt "
            "encoding has one of Gaussian differential privacy: declare the columns by --schema or --ranges"
        )
    epsilon, reuse = made.epsilon, False if not shares or made.epsilon is None else None
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
        drop=() if drop is None else [name.strip() for name in drop.split(",")],
        crosses=crosses,
        regression=regression,
        random_state=made.random_state,
        ledger=ledger,
    )


def defaults_for(name: str | None, stream: Any, horizon: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a learner for encoded rows, from public numbers; those that are given come first."""
    from ..learners import default_name, settings_without_look

    found: dict[str, Any] = {"on_invalid": "zero", "x_bound": stream.schema.usual_norm}
    loss = given.get("loss")
    if loss is None:
        n_classes = 0 if stream.classes is None else len(stream.classes)
        loss = "squared" if n_classes == 0 else "logistic" if n_classes == 2 else "softmax"
        found["loss"] = loss
    target = stream.schema.target
    if stream.classes is None and target is not None and target.range is not None:
        found["y_bound"] = 1.0
    if name in (None, default_name(loss)):
        words = ("epsilon", "delta", "adjacency", "fit_intercept")
        found |= settings_without_look(
            loss,
            n_features=stream.n_features,
            n_rows=horizon,
            x_bound=given.get("x_bound", found["x_bound"]),
            n_classes=2 if stream.classes is None else len(stream.classes),
            has_constant=stream.schema.has_constant,
            **{word: given[word] for word in words if word in given},
        )
    elif name is not None:
        found |= noisy_steps(name, {"horizon": horizon, "x_bound": found["x_bound"], **given})
    return found


def noisy_steps(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return rows of a step, and the radius, of a learner that adds noise to gradients; nothing for others.

    ``given`` has the horizon, the bound of the rows, and what the command says: nothing is chosen where it states a
    set or the length of steps.
    """
    from ..learners import LEARNERS, steps_without_look

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


def what_taught(encoder: Any) -> dict[str, Any]:
    """Return what a run's record says of its learnt encoding. Public."""
    from ..encoding.crosses import cross_name

    plan = encoder.plan_
    return {
        "rows": plan.rows,
        "reused": encoder.reused_,
        "phases": dict(plan.phases),
        "visible_share": plan.visible_share,
        "mu": plan.mu if encoder.guarantee_.kind == "gdp" else "inf",
        "columns": len(encoder.schema_.columns) - len(encoder.dropped_),
        "frequent_features": None if encoder.schema_.rows is None else len(encoder.schema_.rows.kept),
        "dropped": dict(encoder.dropped_),
        "crosses": [cross_name(pair) for pair in encoder.schema_.crosses],
        "uncrossed": dict(encoder.uncrossed_),
        "sentence": encoder.guarantee_.sentence(),
    }


def short_of_rows(taught: Mapping[str, Any]) -> str | None:
    """Say where few rows taught an encoding, by :func:`what_taught`; None where there were enough."""
    from ..encoding.outlook import too_short

    if taught["frequent_features"] is not None:
        return None
    return too_short(taught["rows"], taught["visible_share"], taught["reused"])


def with_schema(found: Guarantee, schema: Any) -> Guarantee:
    """Return what a guarantee becomes together with that of the schema, which the same rows taught."""
    from ..guarantees import compose_gdp

    learnt = schema.learnt
    own = (
        "the schema was learnt from the same rows by histograms, under the Gaussian mechanism with mu = "
        f"{learnt.mu:.6g}, which is counted here",
    )
    return replace(
        found,
        kind="none" if math.isinf(learnt.mu) else found.kind,
        parameter=compose_gdp([found.mu, learnt.mu]),
        conditions=(*(words for words in found.conditions if words not in schema.conditions), *own),
        private=found.private and learnt.private,
    )


def spent_note(encoder: Any, what: str, journal: Path | None) -> str | None:
    """Say that what an encoding cost stays spent, where nothing else says it; None where nothing was."""
    account = getattr(encoder, "account_", None)
    if account is None or not account.entry().mu_squared:
        return None
    kept = "" if journal is None else f": {journal} says so"
    return (
        f"no {what} was released, but what {encoder.plan_.rows:,} rows taught may have been seen, and the "
        f"budget counts as spent{kept}"
    )
