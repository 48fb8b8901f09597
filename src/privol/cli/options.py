"""Options that several commands share, and how help shows them: the learners' parameters by the same words."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from .._vocabulary import (
    ADJACENCIES,
    AVERAGE_WEIGHTS,
    AVERAGINGS,
    BUILT_TOPOLOGIES,
    DESIGNS,
    L2_SCHEDULES,
    MIN_L2,
    NOISE_POSITIONS,
    NOISE_SHAPES,
    OBJECTIVE_CALIBRATIONS,
    OBJECTIVES,
    OF_CLASSES,
    OF_TARGETS,
    ON_INVALID,
    PROXIES,
    RANDOMIZERS,
    REGULARIZERS,
    RENEWALS,
    STEPS,
    THRESHOLDS,
    WEIGHTINGS,
    WIDTHS,
)
from ..errors import InvalidParameter
from ..learners import GROUPS, TABLE

__all__ = [
    "LEARNER_OPTIONS",
    "OFFLINE",
    "CrossType",
    "HorizonType",
    "ReleaseType",
    "SeparatorType",
    "SetType",
    "TargetType",
    "WeightsType",
    "budget_in_epsilon",
    "given_parameters",
    "in_options",
    "learner_name",
    "learner_options",
]

TAB = "\t"
#: Offline learners.
OFFLINE = tuple(entry.name for entry in TABLE if entry.group == "rest")

if TYPE_CHECKING:  # older releases of click have no type parameter here
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType


class ReleaseType(_ParamType):
    """last, all, an integer, or row numbers separated by commas."""

    name = "release"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or value in ("last", "all"):
            return value
        try:
            rows = [int(word) for word in value.split(",")]
        except ValueError:
            self.fail(f"{value!r} is not last, all, an integer K or row numbers separated by commas", param, ctx)
        return rows if "," in value else rows[0]


class SetType(_ParamType):
    """A feasible set: l2:RADIUS, l1:RADIUS, box:LOW:HIGH, simplex:TOTAL, space (all models)."""

    name = "set"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        from ..geometry import Box, L1Ball, L2Ball, Simplex, WholeSpace

        kinds: dict[str, tuple[Callable[..., Any], int]] = {
            "l2": (lambda r: L2Ball(radius=r), 1),
            "l1": (lambda r: L1Ball(radius=r), 1),
            "box": (lambda low, high: Box(low=low, high=high), 2),
            "simplex": (lambda total: Simplex(total=total), 1),
            "space": (WholeSpace, 0),
        }
        name, *words = value.split(":")
        try:
            make, count = kinds[name]
            sizes = [float(word) for word in words]
            if len(sizes) != count:
                raise ValueError
        except (KeyError, ValueError):
            self.fail(f"{value!r} is not l2:RADIUS, l1:RADIUS, box:LOW:HIGH, simplex:TOTAL or space", param, ctx)
        return make(*sizes)


class TargetType(_ParamType):
    """A column's name, or its 0-based number (negative from the end)."""

    name = "column"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str):
            try:
                return int(value)
            except ValueError:
                return value
        return value


class CrossType(_ParamType):
    """Names of two columns, separated by a comma."""

    name = "columns"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        names = tuple(name.strip() for name in value.split(","))
        if len(names) != 2 or "" in names:
            self.fail(f"{value!r} is not A,B: the names of two columns", param, ctx)
        return names


class HorizonType(_ParamType):
    """A number of rows, or the word auto."""

    name = "rows"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or value == "auto":
            return value
        try:
            return int(value)
        except ValueError:
            self.fail(f"{value!r} is not auto or a number of rows", param, ctx)


class SeparatorType(_ParamType):
    """One character, or the word tab."""

    name = "separator"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return TAB if value in ("tab", "\\t") else value


class IntervalType(_ParamType):
    """Two numbers: LOW:HIGH."""

    name = "interval"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            low, high = (float(word) for word in value.split(":"))
        except ValueError:
            self.fail(f"{value!r} is not LOW:HIGH", param, ctx)
        return low, high


class WeightsType(_ParamType):
    """Class weights: LABEL=WEIGHT, separated by commas."""

    name = "weights"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        found: dict[str, float] = {}
        for word in value.split(","):
            label, equals, weight = (part.strip() for part in word.rpartition("="))
            if label in found:
                self.fail(f"{label!r} is there twice", param, ctx)
            try:
                found[label] = float(weight)
            except ValueError:
                equals = ""
            if not equals:
                self.fail(f"{word!r} is not LABEL=WEIGHT", param, ctx)
        return found


@dataclass(frozen=True)
class LearnerOption:
    """An option that sets the constructor parameter of the same name.

    ``default`` is what the help shows: the constructor's own default, which alone decides.
    """

    parameter: str
    kind: Any
    default: str
    help: str
    metavar: str | None = None


LEARNER_OPTIONS = (
    LearnerOption(
        "loss",
        click.Choice([*OF_CLASSES, *OF_TARGETS]),
        "logistic",
        f"Loss; the first {len(OF_CLASSES)} learn classes, the others real targets. Of more than two classes (dpftrl) "
        "softmax learns all at once, the others each against the rest.",
    ),
    LearnerOption("epsilon", float, "1.0", "Budget of the whole run, above 0; inf: no noise and no guarantee."),
    LearnerOption(
        "delta",
        float,
        "1e-06",
        "In (0, 1); well below one over the number of rows. 0, of objective-perturbation, output-perturbation and pol: "
        "pure, by L2-Laplace noise.",
    ),
    LearnerOption(
        "mu",
        float,
        "by --epsilon",
        "The budget as the parameter of Gaussian differential privacy; for learners whose noise is Gaussian.",
    ),
    LearnerOption(
        "rows_per_user",
        int,
        "the budget is for one row",
        "The budget is for all rows of one user, who has at most so many. Of pigd, pgiga, nogd, dpftrl, adaptive, "
        "pqftl and the offline ones.",
        "ROWS",
    ),
    LearnerOption(
        "user_separation",
        int,
        "1",
        "With --rows-per-user: any two rows of a user are at least so many rows apart, which takes less noise.",
        "ROWS",
    ),
    LearnerOption(
        "adjacency",
        click.Choice(ADJACENCIES),
        "replace",
        "What may change in one row: anything, or its absence.",
    ),
    LearnerOption(
        "release",
        ReleaseType(),
        "last; pqftl: now and then; others: all",
        "Models to publish: last, all (pigd, pgiga: much noise; others: none more), every K-th row, or row numbers "
        "N1,N2,...",
        "last|all|K|N1,N2,...",
    ),
    LearnerOption(
        "radius",
        float,
        "1.0; of offline learners: by l2 and the bounds",
        "Radius of the L2 ball of models.",
    ),
    LearnerOption(
        "domain",
        SetType(),
        "the L2 ball",
        "Another feasible set: l1:RADIUS, box:LOW:HIGH, simplex:TOTAL.",
        "SET",
    ),
    LearnerOption(
        "x_bound",
        float,
        "1.0",
        "Public bound of a row's L2 norm; longer rows are scaled to it. A schema, or ranges of all columns, "
        "imply one, which is then the default.",
    ),
    LearnerOption("y_bound", float, "1.0", "Public bound of a real target; targets beyond are clipped to it."),
    LearnerOption(
        "l2",
        float,
        "0.01; nogd, dpftrl, ldpsgd, dola: 0; of offline learners: by rows, features, budget and bounds",
        "Strong convexity: larger means less noise and a model closer to 0.",
    ),
    LearnerOption(
        "min_l2",
        click.Choice(MIN_L2),
        "quarter",
        "objective-perturbation: where l2 is too small for the losses' curvature, it is increased until that costs "
        "half of epsilon at most, or (logistic loss) nothing.",
    ),
    LearnerOption(
        "error", float, "by l2", "pol: instead of --l2, what the regulariser may add to the risk of the best model."
    ),
    LearnerOption(
        "weights",
        click.Choice(AVERAGE_WEIGHTS),
        "linear",
        "pol: iterate t counts t times in the average, or all alike, or the last alone.",
    ),
    LearnerOption(
        "max_iter",
        int,
        "200",
        "objective-perturbation, output-perturbation: Newton steps for a class, at most; beyond them the fit fails, "
        "and is paid for.",
    ),
    LearnerOption(
        "l2_schedule",
        click.Choice(L2_SCHEDULES),
        "constant",
        "inverse_sqrt: about l2 / sqrt(t) at row t.",
    ),
    LearnerOption("step_offset", float, "by the learner", "Weight of the starting point, in rows."),
    LearnerOption(
        "noise_shape",
        click.Choice(NOISE_SHAPES),
        "lipschitz",
        "How the budget is spread over the releases: least total noise norm, least total square, 1/t.",
    ),
    LearnerOption(
        "regularization", float, "by the noise", "dpftrl: weight of the starting point. Tune it on public data only."
    ),
    LearnerOption(
        "design",
        click.Choice(DESIGNS),
        "blt",
        "dpftrl, pqftl: how the running sums share their noise.",
    ),
    LearnerOption("buffers", int, "4", "With design blt: more means less noise and more memory."),
    LearnerOption("objective", click.Choice(OBJECTIVES), "max", "With design blt: which error of the sums is least."),
    LearnerOption(
        "renewal",
        click.Choice(RENEWALS),
        "none",
        "dpftrl, pqftl: at the horizon a run ends, or epochs of as many rows, or of twice as many each, follow with "
        "noise of their own. The budget stays that of one epoch.",
    ),
    LearnerOption("batch", int, "1; pqftl: as many as between two models", "Rows of a step; of nodes: of a node's."),
    LearnerOption("nodes", int, "16", "dola, sparse-dola: nodes of the network."),
    LearnerOption("topology", click.Choice(BUILT_TOPOLOGIES), "ring", "dola, sparse-dola: who hears whom."),
    LearnerOption(
        "noise_position",
        click.Choice(NOISE_POSITIONS),
        "gradient",
        "dola: noise on the gradient, or, as first published, on the projected step.",
    ),
    LearnerOption(
        "regularizer",
        click.Choice(REGULARIZERS),
        "explicit",
        "dola: its gradient is taken before the step or after it.",
    ),
    LearnerOption(
        "threshold",
        click.Choice(THRESHOLDS),
        "noise",
        "sparse-dola: small coordinates become 0 by what noise they have, or by --l1 and all steps, or by it and one.",
    ),
    LearnerOption("l1", float, "sqrt(2 log d)", "sparse-dola: threshold, in deviations of the noise or in steps."),
    LearnerOption(
        "discount",
        float,
        "1.0",
        "dpftrl, pqftl: the sums forget; a row's weight is multiplied with it for every row that comes later. For "
        "streams that drift, with design blt, sqrt or independent.",
    ),
    LearnerOption("window", int, "none", "Instead of --discount: sums of the last so many rows.", "ROWS"),
    LearnerOption(
        "noise_shift", float, "2.0", "pqftl: what is added for the noise of the matrix, in units of its norm."
    ),
    LearnerOption(
        "gradient_bound",
        float,
        "by the loss",
        "Of learners that perturb gradients: longer ones are scaled to this L2 norm.",
    ),
    LearnerOption(
        "leakage",
        float,
        "0.1",
        "miogd, bandit: nats of mutual information of a row and what its device sends; or --sigma or --epsilon.",
    ),
    LearnerOption("sigma", float, "by the leakage", "miogd, bandit: standard deviation of a device's noise."),
    LearnerOption(
        "randomizer",
        click.Choice(RANDOMIZERS),
        "privunit; agnostic: l2laplace; bandit, dola, sparse-dola: gaussian",
        "ldpsgd, banco, agnostic, multiscale, bandit, dola, sparse-dola: what is done to a gradient, or a "
        "loss, where it is made.",
    ),
    LearnerOption(
        "step",
        click.Choice(STEPS),
        "anytime",
        "miogd, ldpsgd, bandit: steps by the row's number, by the horizon, or by the reports so far.",
    ),
    LearnerOption("step_size", float, "by the bound of the regret", "ldpsgd, dola: what steps are in proportion to."),
    LearnerOption("lazy", bool, "yes", "miogd: project the sum of all reports, not the last point."),
    LearnerOption("values", int, "1", "bandit: losses that a device is asked for, 1 or 2."),
    LearnerOption(
        "value_bounds", IntervalType(), "by the loss", "bandit: losses are clipped to this interval.", "LOW:HIGH"
    ),
    LearnerOption("shrink", bool, "yes", "bandit: ask within the set."),
    LearnerOption(
        "wealth", float, "1.0", "banco, agnostic: the bettor's at the start; about the size of first models."
    ),
    LearnerOption("theta", float, "0.25", "banco, multiscale: how near bets come to the end of Laplace noise."),
    LearnerOption("weighting", click.Choice(WEIGHTINGS), "norm", "banco: count: as published."),
    LearnerOption("proxy", click.Choice(PROXIES), "numerical", "banco, multiscale: for privunit and duchi."),
    LearnerOption("growth", float, "1.0", "agnostic: how fast bets fall with the squared gains."),
    LearnerOption(
        "direction_step", float, "1.0; multiscale: 1.4", "banco, agnostic, multiscale: step of the direction."
    ),
    LearnerOption("magnitude_cap", float, "none", "banco, agnostic: clips the magnitude of the bets; without a proof."),
    LearnerOption("smallest_radius", float, "0.001", "multiscale: of the experts, over the bound of gradients."),
    LearnerOption("largest_radius", float, "1000.0", "multiscale: likewise."),
    LearnerOption("radii_per_decade", int, "2", "multiscale: experts to a factor of 10."),
    LearnerOption("prior_decay", float, "0.15", "multiscale: how much more small radii weigh at the start."),
    LearnerOption(
        "averaging",
        click.Choice(AVERAGINGS),
        "uniform; multiscale: quadratic",
        "miogd, ldpsgd, banco, agnostic, multiscale, dola: whether later models count more in the average.",
    ),
    LearnerOption(
        "class_weight",
        WeightsType(),
        "1 each",
        "dpftrl: rows of a class count so much. Public constants; the noise grows with the largest.",
        "LABEL=W,...",
    ),
    LearnerOption("fit_intercept", bool, "yes", "Append a constant to every row (regularised like the rest)."),
    LearnerOption(
        "calibration",
        click.Choice(OBJECTIVE_CALIBRATIONS),
        "tight",
        "published: the paper's noise; the guarantee then says what it claims and what is true. jmlr: "
        "objective-perturbation's of 2011, proved and looser.",
    ),
    LearnerOption(
        "on_invalid",
        click.Choice(ON_INVALID),
        "raise",
        "A row that is not finite: an error that names it, or a counted null row.",
    ),
)


def learner_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command with ``--learner`` and all parameters of the learners."""
    for option in reversed(LEARNER_OPTIONS):
        word = option.parameter.replace("_", "-")
        flags = f"--{word}/--no-{word}" if option.kind is bool else f"--{word}"
        command = click.option(
            flags,
            option.parameter,
            type=None if option.kind is bool else option.kind,
            default=None,
            metavar=option.metavar,
            help=f"{option.help}  [default: {option.default}]",
        )(command)
    for name, about in WIDTHS.items():  # not parameters of the learners but of the loss
        flag = f"--{name.replace('_', '-')}-width"
        command = click.option(flag, type=float, help=f"With --loss {name}: {about}")(command)
    return click.option(
        "--learner",
        type=click.Choice([entry.name for entry in TABLE]),
        help=f"{_about_learners()}  [default: adaptive; dpftrl, or pqftl for squared loss, where a setting of "
        "theirs is given]",
    )(command)


def _about_learners() -> str:
    """What every learner does, group by group."""
    told = []
    for group, words in GROUPS.items():
        names = (f"{entry.name} ({entry.about})" for entry in TABLE if entry.group == group)
        told.append(f"{words}: {', '.join(names)}.")
    return " ".join(told)


def given_parameters(options: dict[str, Any]) -> dict[str, Any]:
    """Take the learner's parameters out of a command's options: those that were given."""
    found = {option.parameter: options.pop(option.parameter) for option in LEARNER_OPTIONS}
    given = {name: value for name, value in found.items() if value is not None}
    for name in WIDTHS:
        width = options.pop(f"{name}_width")
        if width is None:
            continue
        word = f"--{name.replace('_', '-')}-width"
        if given.get("loss") != name:
            raise click.UsageError(f"{word} is about --loss {name}, found the loss {given.get('loss', 'logistic')}")
        from ..losses import from_record

        try:
            given["loss"] = from_record({"name": name, "width": width})
        except InvalidParameter as error:
            raise InvalidParameter(f"{word}: {error}") from error
    return given


def learner_name(name: str | None, given: Mapping[str, Any]) -> str:
    """Return the name of the learner, by default that for the loss, which must have the given parameters."""
    from ..learners import ALL_LEARNERS, default_name

    found = default_name(given.get("loss", "logistic"), given) if name is None else name
    kind: Any = ALL_LEARNERS[found]
    known = kind().get_params(deep=False)
    for parameter in given:
        if parameter not in known:
            why = " (the default for this loss; others: see --learner)" if name is None else ""
            raise click.UsageError(f"--{parameter.replace('_', '-')} is not an option of --learner {found}{why}")
    return found


def budget_in_epsilon(name: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """Return parameters of a learner with the epsilon that ``--mu`` comes to: it can be shared out."""
    if "mu" not in given or given.get("calibration") == "published":  # which the learner refuses
        return given
    if "epsilon" in given:
        raise click.UsageError("--epsilon and --mu exclude each other: two ways to state one budget")
    from ..calibration import stated_epsilon
    from ..learners import ALL_LEARNERS

    kind: Any = ALL_LEARNERS[learner_name(name, given)]
    delta = given.get("delta", kind().delta)
    settled = {**given, "epsilon": stated_epsilon(None, delta, given["mu"])}
    del settled["mu"]
    return settled


# ---- messages of the library, in the words of the command line ------------------------------------------------

# No part of a path, a quoted cell, an option or a longer word.
_BEFORE, _AFTER = r"""(?<![\w./\\'"-])""", r"""(?![\w/\\'"]|[.-]\w)"""
_VALUE = r"""'[^']*'|"[^"]*"|\([^)]*\)|\[[^\]]*\]|[\w+-]+(?:\.\w+)*"""
_OTHER_NAMES = {"random_state": "seed"}
_OF_FILE = ("header", "sep", "encoding")
_ONLY_OF_FILE = ("comment", "decimal", "missing", "names")


def in_options(message: str, parameters: Iterable[click.Parameter], *, schema: bool) -> str:
    """Return a message of the library with its parameters as options: ``sep=';'`` as ``--sep ';'``.

    What is translated is ``name=``, with a value or without, and names with an underscore, if an option sets the
    parameter of that name. With ``schema``, how a file is written is said there, not by options: ``sep = ";" under
    [file] of the schema``; what has no option is said there alone.
    """
    options = {o.name: o for o in parameters if isinstance(o, click.Option) and o.name is not None}
    options |= {name: options[other] for name, other in _OTHER_NAMES.items() if other in options}
    if not options:
        return message
    in_schema = (*_ONLY_OF_FILE, *(_OF_FILE if schema else ()))
    where = f"under [file] of {'the' if schema else 'a'} schema"
    names = "|".join(map(re.escape, (*options, *_ONLY_OF_FILE)))

    def assigned(found: re.Match[str]) -> str:
        name, text = found["name"], found["value"]
        if text is None:
            return f"{name} {where}" if name in in_schema else options[name].opts[0]
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
        if name in in_schema:
            return f"{name} = {json.dumps(value)} {where}"
        option = options[name]
        if isinstance(value, bool):
            if not option.secondary_opts:
                return found[0]
            return (option.opts if value else option.secondary_opts)[0]
        if isinstance(value, (tuple, list)):
            value = ",".join(map(str, value))
        return f"{option.opts[0]} {'tab' if value == TAB else shlex.quote(str(value))}"

    message = re.sub(rf"{_BEFORE}(?P<name>{names})=(?P<value>{_VALUE})?{_AFTER}", assigned, message)
    long = "|".join(re.escape(name) for name in options if "_" in name)
    if not long:
        return message
    return re.sub(rf"{_BEFORE}({long}){_AFTER}(?!=)", lambda found: options[found[0]].opts[0], message)
