"""The steps before a run: open the rows, learn their encoding where necessary, and configure the learner."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NoReturn

import click

from .._vocabulary import OF_TARGETS
from ..errors import BudgetExceeded, InvalidParameter, StreamError
from ..readers.source_urls import ended_after, is_live, is_source, states_rows
from .encoding import encoder_for, is_learnt, learns_encoding, spent_note, what_taught
from .options import budget_in_epsilon, given_parameters, learner_name
from .outputs import RunDirectory, uninterrupted
from .progress import counting
from .streams import open_for_run, rows_that_taught

__all__ = ["Ready", "check_labels", "prepare", "say_spent", "weights_of"]

# If the number of rows is unknown, the first epoch has this many steps, which needs less noise than epochs that double
# from a small one. But the default weight of dpftrl is made for the rows of an epoch, and would be far too large
# (docs/guarantee.md). An encoding is learnt as if this many rows were to come.
_STEPS, _ROWS, _EXPECTED, _ANY_NUMBER = 1 << 20, {"dpftrl": 10_000}, 100_000, 1 << 30


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A run that can begin.

    Attributes
    ----------
    made : OnlineLearner
        With its ledger.
    stream : Stream
    inputs : dict
        How the rows are read, public.
    horizon : int
    stated : int or None
        The horizon, where the command states it.
    private : PrivateMetrics or None
    drift_alarm : float or None
        Probability of a false alarm, where one looks at the private metrics.
    x_bound_from : str or None
        What implied the bound of the rows, where the command does not state it.
    encoding : dict or None
        What the first rows taught, for the record.
    shared : bool
        Whether the schema was learnt from the same rows, for a share of the budget.
    encoder : PrivateEncoder or None
        What has learnt it.
    unsized : bool
        Whether the number of rows is unknown: the horizon is only that of the first epoch.
    taught : callable or None
        Reads the rows that taught, where these are others than are learnt and may be read again.
    """

    made: Any
    stream: Any
    inputs: dict[str, Any]
    horizon: int
    stated: int | None
    private: Any
    drift_alarm: float | None
    x_bound_from: str | None
    encoding: dict[str, Any] | None
    shared: bool
    encoder: Any
    unsized: bool
    taught: Callable[[bytes], Iterator[Any]] | None

    @property
    def renewed(self) -> bool:
        """Whether the run continues beyond its horizon."""
        return getattr(self.made, "renewal", "none") != "none"


def prepare(
    directory: RunDirectory,
    stack: ExitStack,
    *,
    file: str | None,
    learner: str | None,
    horizon: int | Literal["auto"] | None,
    options: dict[str, Any],
    kept: Mapping[str, Any] | None,
    learn_schema: bool | None,
    drop: str | None,
    crosses: tuple[tuple[str, str], ...],
    sketch: int,
    schema_share: float | None,
    private_metrics: float | None,
    metric_windows: int | None,
    drift_alarm: float | None,
    seed: int | None,
    diagnostics: bool,
    delay: int | None,
    talking: bool,
) -> Ready:
    """Do everything of a run except learning its rows. Whatever ``stack`` receives closes the ledger."""
    from ..ledger import Ledger

    if diagnostics:
        from .. import plots  # noqa: F401 (a missing package is detected before the run, not after it)
    given = budget_in_epsilon(learner, given_parameters(options))
    if seed is not None:
        given["random_state"] = seed
    if metric_windows is not None and private_metrics is None:
        raise click.UsageError("--metric-windows needs --private-metrics SHARE")
    if drift_alarm is not None:
        _check_alarm(drift_alarm, private_metrics)
    if delay is not None and not diagnostics and private_metrics is None:
        raise click.UsageError("--delay applies to the evaluation: it needs --diagnostics or --private-metrics")
    directory.keep_out_of(file)
    file = _with_end(file, horizon, given)
    unsized = horizon == "auto" and not _counted_in_itself(file, options)
    if unsized:
        given = _without_end(learner_name(learner, given), given)
    rows = horizon if isinstance(horizon, int) else None
    renewed = given.get("renewal", "none") != "none"
    if renewed and private_metrics is not None:
        raise click.UsageError("--private-metrics needs a run that ends at its horizon: --renewal none")
    private: Any = None
    limit: dict[str, float] = {}
    own: float | None = None  # mu of the schema, if it has a share of the budget
    if schema_share is not None:
        if private_metrics is not None:
            raise click.UsageError("--schema-share and --private-metrics exclude each other: both take a share")
        if kept is None and not learns_encoding(file, learn_schema, {**options, **given}):
            raise click.UsageError("--schema-share applies to a learnt encoding, and here none is learnt")
        given, own, limit = _split_off(learner_name(learner, given), given, schema_share)
    if private_metrics is not None:
        given, private, limit = _split(learner_name(learner, given), given, private_metrics, metric_windows)
    journal = directory.path / "ledger.jsonl"
    before = kept["inputs"] if kept is not None and is_learnt(kept["inputs"]) else None
    encoder = ledger = None
    if kept is None and learns_encoding(file, learn_schema, {**options, **given}):
        from ..auto.defaults import may_learn_encoding

        plain = {name: value for name, value in given.items() if name != "class_weight"}
        trial = _make(learner_name(learner, given), {"horizon": rows or _with_release(1000, plain), **plain})
        # the columns of the embedded rows have public ranges, for learners whose guarantee is of another kind
        if file is not None or learn_schema or may_learn_encoding(trial, rows):
            if getattr(trial, "calibration", "tight") != "tight":
                # refuses what the source excludes before a row is read; how many there are may not be known yet
                trial.calibrate(1, rows or _ANY_NUMBER)
            wanted = _regression(trial, learner, "loss" in given, file, options)
            ledger = stack.enter_context(closing(Ledger(adjacency=trial.adjacency, journal=journal, **limit)))
            words: dict[str, Any] = {"declared": options["schema"], "drop": drop, "crosses": crosses, "mu": own}
            words["sketch"] = sketch
            words["shares"] = private is None and not renewed and getattr(trial, "calibration", "tight") == "tight"
            expected = _with_release(_EXPECTED, plain) if unsized else rows
            encoder = encoder_for(trial, horizon=expected, ledger=ledger, regression=wanted, **words)
            encoder.least_left = 0 if unsized else _with_release(0, plain)
    elif drop is not None and before is None:
        raise click.UsageError(
            "--drop applies to a learnt encoding (--learn-schema); a schema has drop = true for each column"
        )
    if crosses and encoder is None and before is None:
        raise click.UsageError("--cross applies to a learnt encoding (--learn-schema); in a schema use [[cross]]")
    if sketch and encoder is None and before is None:
        raise click.UsageError("--sketch goes with --learn-schema; in a schema of sparse rows use sketch below [rows]")
    read = dict(options)
    with _said_as_spent(encoder, directory), _short_of_rows(unsized):
        stream, inputs = open_for_run(file, options, diagnostics, encoder=encoder, kept=before)
        stated = rows
        if rows is not None and encoder is not None and not encoder.reused_:
            stated = rows - encoder.plan_.rows
        if own is None and is_learnt(inputs) and inputs["first_row"] == 1:  # as the encoder found better
            from ..encoding.phases import SHARE_OF_ALL

            given, _, _ = _split_off(learner_name(learner, given), given, SHARE_OF_ALL)
        if kept is not None:
            rows = int(kept["horizon"])
        elif unsized:
            rows = _ROWS.get(learner_name(learner, given), _STEPS)
        else:
            rows = _horizon(stream, stated, talking, renewed)
        chosen = None
        if stream.schema is not None and stream.schema.learnt is not None:
            from ..auto.defaults import defaults_for

            chosen = None if "x_bound" in given else "encoding"
            given = {**defaults_for(learner, stream, rows, given), **given}
        learner = learner_name(learner, given)
        if not stream.users_fixed:
            given.setdefault("on_invalid", "zero")  # surplus rows of users are null rows
        if "x_bound" not in given and stream.row_bound is not None:
            given["x_bound"] = stream.row_bound
            chosen = "schema" if stream.schema is not None else "ranges"
        if "class_weight" in given:
            given["class_weight"] = weights_of(given["class_weight"], stream.classes)
        made = _make(learner, {**given, "horizon": rows})
        n_classes = 2 if stream.classes is None else len(stream.classes)
        if unsized and kept is None and learner not in _ROWS:
            rows *= made.calibrate(stream.n_features, rows, n_classes=n_classes).batch
            made = _make(learner, {**given, "horizon": rows})
        check_labels(made, stream, file)
        if stream.schema is not None and stream.schema.learnt is not None:
            from ..auto.defaults import within_budget

            within_budget(made, stream, rows)
        # refuses parameters before a row is read
        releases = made.calibrate(stream.n_features, rows, n_classes=n_classes).releases
        if private is not None and (releases.every or releases.rows[0]) >= rows:
            raise click.UsageError(
                "--private-metrics evaluates each row with the model released before it, and none is released before "
                "the last row: choose --release K"
            )
    if ledger is None:
        ledger = stack.enter_context(closing(Ledger(adjacency=made.adjacency, journal=journal, **limit)))
    made.ledger = ledger
    return Ready(
        made=made,
        stream=stream,
        inputs=inputs,
        horizon=rows,
        stated=stated,
        private=private,
        drift_alarm=drift_alarm,
        x_bound_from=chosen,
        encoding=None if encoder is None else what_taught(encoder),
        shared=is_learnt(inputs) and inputs["first_row"] == 1,
        encoder=encoder,
        unsized=unsized,
        taught=partial(rows_that_taught, file, read, inputs)
        if is_learnt(inputs) and inputs["first_row"] > 1 and stream.repeatable
        else None,
    )


@contextmanager
def _said_as_spent(encoder: Any, directory: RunDirectory) -> Iterator[None]:
    """Keep the ledger, and say so, if an encoding was paid for and no run follows."""
    try:
        yield
    except BaseException as error:
        say_spent(error, encoder, directory)
        raise


@contextmanager
def _short_of_rows(unsized: bool) -> Iterator[None]:
    """Let the error about rows that end before an encoding is learnt mention options."""
    says = "n_rows must be the number of its rows"
    try:
        yield
    except StreamError as error:
        if says not in str(error):
            raise
        helps = "state --horizon, the number of its rows"
        helps += f" (auto lets as many rows teach as of {_EXPECTED:,})" if unsized else ""
        raise StreamError(str(error).replace(says, helps)) from error


def say_spent(error: BaseException, encoder: Any, directory: RunDirectory) -> None:
    """Keep the ledger, and say so, if an encoding was paid for: a later error reveals something of its result."""
    if encoder is None:
        return
    with uninterrupted():
        before = directory.keep()  # first: whatever fails from here on, a ledger that was charged stays
        note = spent_note(encoder, "model", directory.path / "ledger.jsonl")
        if note is not None:
            error.add_note(note)
        elif not before:
            directory.drop()


def _regression(
    trial: Any, learner: str | None, stated: bool, file: str | None, options: Mapping[str, Any]
) -> bool | None:
    """Whether the command requires real targets (None: it does not say), before unsuitable labels are learnt."""
    from ..losses import get_loss

    loss = get_loss(trial.loss)  # the loss of a learner that has only one, if the command does not state it
    real = loss.kind == "regression" and (stated or learner is not None)
    if real and (file is None or options["classes"] is not None or options["positive"] is not None):
        _refuse_labels(loss, file)
    return True if real else False if stated else None


def _horizon(stream: Any, stated: int | None, talking: bool, renewed: bool) -> int:
    if stated is None:
        if stream.n_rows is None and not stream.repeatable:
            raise click.UsageError(
                f"--horizon is needed: {stream.source} can be read only once, so its rows cannot be counted first"
            )
        with counting(stream.source, wanted=talking):
            return int(stream.count_rows())
    if stream.n_rows is not None and stream.n_rows > stated and not renewed:
        raise BudgetExceeded(
            f"{stream.source} has {stream.n_rows:,} rows, more than the horizon of {stated:,}: leave --horizon out, "
            "give at least that, or let --renewal begin other epochs"
        )
    return stated


def _counted_in_itself(file: str | None, options: Mapping[str, Any]) -> bool:
    """Whether an input states its number of rows, so that nothing is read to count them."""
    if file is None:
        return True
    if file == "-":
        return False
    if is_source(file):
        return not is_live(file) or states_rows(file)
    from ..streams import format_of

    return "parquet" in (options["format"], format_of(file).name)


def _with_end(file: str | None, horizon: int | Literal["auto"] | None, given: Mapping[str, Any]) -> str | None:
    """Let a live source end where the horizon does, unless its URL states another end."""
    if file is None or not is_live(file) or states_rows(file):
        return file
    if horizon is None:
        raise click.UsageError(
            "--horizon is needed: messages have no end. --horizon N ends the run after N rows, --horizon auto lets it "
            "learn any number of them (rows=N in the URL ends it, too)"
        )
    ends = isinstance(horizon, int) and given.get("renewal", "none") == "none"
    return ended_after(file, horizon) if ends and isinstance(horizon, int) else file


def _without_end(learner: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return parameters of a learner whose run may have any number of rows."""
    from ..factorizations import forgets

    if "renewal" not in _make(learner, {}).get_params(deep=False):
        raise click.UsageError(
            f"--horizon auto is for --learner adaptive, dpftrl and pqftl: how much noise {learner} needs depends on the"
            " number of rows, so state it"
        )
    if forgets(given.get("discount", 1.0), given.get("window")):
        raise click.UsageError(
            "--horizon auto is for sums that keep their older rows: with --discount or --window the noise does not "
            "depend on the rows to come, and --horizon may be any number that is large enough"
        )
    return {"renewal": "double", **given}


def _with_release(rows: int, given: Mapping[str, Any]) -> int:
    """Return a number of rows in which the release that is asked for comes, where it is not known how many come."""
    release = given.get("release")
    if release is None or isinstance(release, str):
        return rows
    return max(rows, release if isinstance(release, int) else max(release))


def _make(name: str, parameters: dict[str, Any]) -> Any:
    from ..learners import LEARNERS

    return LEARNERS[name](**parameters)


def weights_of(given: dict[str, float], classes: tuple[Any, ...] | None) -> dict[Any, float]:
    """Class weights by the labels as the learner receives them."""
    import numpy as np

    from ..encoding.labels import label_key

    labels = [] if classes is None else np.asarray(classes).tolist()
    found: dict[Any, float] = {}
    for word, weight in given.items():
        label = next((label for label in labels if label_key(label) == label_key(word)), word)
        if label in found:
            raise InvalidParameter(f"--class-weight names the label {word!r} twice")
        found[label] = weight
    return found


def _split(
    name: str, given: dict[str, Any], share: float, windows: int | None
) -> tuple[dict[str, Any], Any, dict[str, float]]:
    """Divide a budget between models and metrics: the models' parameters, the metrics, and the limit of both."""
    from ..evaluate import PrivateMetrics
    from ..guarantees import split_budget

    epsilon, delta = _with_budget(name, given, "--private-metrics")
    try:
        split = split_budget(epsilon, delta, share)
        settings = {} if windows is None else {"windows": windows}
        private = PrivateMetrics(mu=split.mu, random_state=given.get("random_state"), **settings)
    except InvalidParameter as error:
        raise InvalidParameter(f"--private-metrics {share:g}: {error}") from error
    if math.isinf(epsilon):
        return given, private, {}
    return {**given, "epsilon": split.epsilon}, private, {"epsilon": epsilon, "delta": delta}


def _check_alarm(alpha: float, private_metrics: float | None) -> None:
    from ..evaluate import DriftAlarm

    if private_metrics is None:
        raise click.UsageError("--drift-alarm needs --private-metrics SHARE: it looks at these metrics")
    try:
        DriftAlarm(alpha=alpha)
    except InvalidParameter as error:
        raise InvalidParameter(f"--drift-alarm: {error}") from error


def _split_off(name: str, given: dict[str, Any], share: float) -> tuple[dict[str, Any], float, dict[str, float]]:
    """Divide a budget between models and their schema: the models' parameters, the schema's mu, the limit of both."""
    from ..guarantees import split_budget

    epsilon, delta = _with_budget(name, given, "--schema-share")
    try:
        split = split_budget(epsilon, delta, share)
    except InvalidParameter as error:
        raise InvalidParameter(f"--schema-share {share:g}: {error}") from error
    if math.isinf(epsilon):
        return given, split.mu, {}
    return {**given, "epsilon": split.epsilon}, split.mu, {"epsilon": epsilon, "delta": delta}


def _with_budget(name: str, given: dict[str, Any], flag: str) -> tuple[float, float]:
    from ..calibration import epsilon_of

    whole = _make(name, given)
    if getattr(whole, "calibration", "tight") != "tight":
        raise click.UsageError(
            f"{flag} shares a budget, and --calibration published keeps none: its epsilon is only what the source "
            "claims"
        )
    if (epsilon := epsilon_of(whole)) is None:
        raise click.UsageError(f"{flag} divides an epsilon, and here --learner {name} has none: give --epsilon")
    return epsilon, whole.delta


def check_labels(made: Any, stream: Any, file: str | None) -> None:
    from ..learners import OfflineLearner
    from ..losses import get_loss

    loss, schema = get_loss(made.loss), stream.schema
    if schema is not None and schema.rows is None and schema.target is None:
        raise InvalidParameter(f"{schema.name}: has no [target], which a run needs: state its column and its labels")
    if loss.kind == "classification" and stream.classes is None:
        needed = "--classes NEGATIVE,POSITIVE (or more), or --positive LABEL"
        if schema is not None:
            needed = f"negative and positive, or classes, under [target] of {schema.name}"
        elif isinstance(made, OfflineLearner):  # other learners learn them themselves
            needed += ", or --schema with one that privol info FILE --private has learnt, under a budget of its own"
        # a pipe may be live, so nothing is learnt from it without a request
        elif file == "-" and stream.schema is None:
            needed += ", or --learn-schema, which learns them and the columns from the first rows"
        raise InvalidParameter(
            f"the {loss.name} loss needs the public labels: {needed}; for real targets choose --loss "
            f"{', '.join(OF_TARGETS[:-1])} or {OF_TARGETS[-1]}"
        )
    if loss.kind == "regression" and stream.classes is not None:
        _refuse_labels(loss, file, schema)


def _refuse_labels(loss: Any, file: str | None, schema: Any = None) -> NoReturn:
    what = "the embedded rows have labels" if file is None else "--classes and --positive are for labels"
    what = what if schema is None or file is None else f"the target of {schema.name} has labels"
    raise InvalidParameter(f"the {loss.name} loss needs real targets; {what}")
