"""Losses are one layer: no other code asks which loss it has, and an unknown one is an error that names it."""

from __future__ import annotations

import ast
import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path

import conformance
import numpy as np
import pytest
from places import ROOT

import privol
from privol import losses
from privol._core._losses import implicit_slope, loss_values
from privol._core._objective import Objective
from privol._vocabulary import LOSSES, OF_CLASSES, OF_ONE_SCORE, OF_TARGETS, WIDTHS
from privol.audit import audit
from privol.errors import InvalidParameter
from privol.evaluate import best_in_hindsight, progressive
from privol.losses import Custom, Logistic, Loss, SmoothHinge, Squared, from_record, get_loss
from privol.planning import plan
from privol.rounds import Device
from privol.state import load_model, save_model

pytestmark = pytest.mark.slow

PACKAGE = ROOT / "src" / "privol"
CONCRETE = {"Logistic", "Hinge", "SmoothHinge", "Squared", "Absolute", "Huber", "Softmax", "Custom"}
#: The module that binds the user's own losses, and the checker of runs, which by design shares no code with the rest.
CHECKER = {f"verifying/{name}.py" for name in ("checker", "mechanisms")}
EXCEPT = {"_core/_losses.pyx", "_core/_losses.pxd", *CHECKER}
#: Code that distinguishes losses; the recipe in the docstring of ``losses/__init__.py`` must name all of it.
ROOM = re.compile(r"losses/|_core/c/losses/|_vocabulary\.py$")

BUILT_IN = [get_loss(name) for name in LOSSES]
SINGLE = [get_loss(name) for name in OF_ONE_SCORE] + [SmoothHinge(0.1), losses.Huber(0.3)]
SMOOTH = [loss for loss in SINGLE if math.isfinite(loss.curvature)]


# ---- the source ------------------------------------------------------------------------------------------------


def tells_apart(tree: ast.AST) -> list[str]:
    """The places in a Python file that ask for a loss: imported classes, comparisons with names, tables of names."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and "losses" in (node.module or ""):
            found += [f"imports {alias.name}" for alias in node.names if alias.name in CONCRETE]
        elif isinstance(node, ast.Attribute) and node.attr in CONCRETE and ast.unparse(node.value).endswith("losses"):
            found.append(f"takes {node.attr}")
        elif isinstance(node, ast.Compare):
            names = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and part.value in LOSSES]
            found += [f"compares with {name}" for name in names]
        elif isinstance(node, ast.Dict):
            keys = [key.value for key in node.keys if isinstance(key, ast.Constant) and key.value in LOSSES]
            found += [f"has a table with {key}" for key in keys]
        elif isinstance(node, ast.List | ast.Tuple | ast.Set | ast.MatchOr):
            names = [part for part in ast.walk(node) if isinstance(part, ast.Constant) and part.value in LOSSES]
            found += ["lists names"] * (len(names) > 1)
        elif isinstance(node, ast.MatchValue) and ast.unparse(node.value).strip("'\"") in LOSSES:
            found.append("matches a name")
    return found


def kernels_tell_apart(source: str, cython: bool) -> list[str]:
    names = "|".join(LOSSES)
    quoted = rf"""["'](?:{names})["']|""" if cython else ""
    lines = [line.split("#")[0] for line in source.splitlines()] if cython else source.splitlines()
    return [line for line in lines if re.search(rf"{quoted}\bPV_(?:{names.upper()}|CUSTOM)\b", line)]


def test_no_other_room_depends_on_the_kind_of_loss() -> None:
    found, room = {}, set()
    for path in sorted(PACKAGE.rglob("*")):
        name = path.relative_to(PACKAGE).as_posix()
        if path.suffix == ".py":
            what = tells_apart(ast.parse(path.read_text(encoding="utf-8")))
        elif path.suffix in (".pyx", ".pxd"):
            what = kernels_tell_apart(path.read_text(encoding="utf-8"), cython=True)
        elif path.suffix in (".c", ".h") and not path.with_suffix(".pyx").exists():
            what = kernels_tell_apart(path.read_text(encoding="utf-8"), cython=False)
        else:
            continue
        if not what:
            continue
        if ROOM.match(name):
            room.add(name)
        elif name not in EXCEPT:
            found[name] = what
    assert not found, found
    recipe = losses.__doc__ or ""
    assert {"_vocabulary.py", "_core/c/losses/loss.c", "_core/c/losses/pv_loss.h"} <= room
    missing = {name for name in room if name not in recipe and name not in ("losses/_custom.py", "losses/_classes.py")}
    assert not missing, f"the recipe of a loss leaves out {missing}"


def test_the_recipe_names_files_that_exist() -> None:
    named = re.findall(r"``([\w/]+\.(?:py|c|md|h|inc\.h))``", losses.__doc__ or "")
    sources = [name for name in named if not name.startswith(("docs/", "tests/"))]
    assert len(sources) == 7, sources
    missing = [name for name in named if not ((PACKAGE if name in sources else ROOT) / name).is_file()]
    assert not missing, missing


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("if loss.name == 'huber': pass", ["compares with huber"]),
        ("x in ('logistic', 'softmax')", ["compares with logistic", "compares with softmax", "lists names"]),
        ("from ..losses import Huber, get_loss", ["imports Huber"]),
        ("isinstance(loss, losses.Huber)", ["takes Huber"]),
        ("_WIDTHS = {'huber': 1.0}", ["has a table with huber"]),
        ("match name:\n    case 'huber': pass", ["matches a name"]),
        ("def f(loss='logistic'): return g({'loss': 'hinge'})", []),
    ],
)
def test_the_check_sees(source: str, expected: list[str]) -> None:
    assert sorted(tells_apart(ast.parse(source))) == sorted(expected)


def test_the_check_sees_in_kernels() -> None:
    assert kernels_tell_apart("    case PV_HUBER:\n", cython=False)
    assert kernels_tell_apart('rough = 0.1 if loss.name == "logistic" else 1\n', cython=True)
    assert not kernels_tell_apart("x = 1  # 'logistic'\n", cython=True)


# ---- properties that a loss declares ----------------------------------------------------------------------------


def test_the_words_are_those_of_the_classes() -> None:
    assert [loss.name for loss in BUILT_IN] == list(LOSSES)
    assert {loss.name for loss in BUILT_IN if loss.kind == "regression"} == set(OF_TARGETS)
    assert {loss.name for loss in BUILT_IN if loss.kind == "classification"} == set(OF_CLASSES)
    assert {loss.name for loss in BUILT_IN if not loss.joint} == set(OF_ONE_SCORE)
    assert {loss.name for loss in BUILT_IN if loss.width > 0.0} == set(WIDTHS)
    # numbers in the kernels' tables: as in C
    header = (PACKAGE / "_core/c/losses/pv_loss.h").read_text(encoding="utf-8")
    listed = re.search(r"enum \{ PV_CUSTOM = -1, (.*?), PV_LOSS_COUNT \}", header)
    assert listed
    order = [word.removeprefix("PV_").lower() for word in listed.group(1).split(", ")]
    assert {loss.name: loss.code for loss in BUILT_IN if not loss.joint} == {name: k for k, name in enumerate(order)}


def grid(loss: Loss, y_bound: float = 1.5) -> tuple[np.ndarray, np.ndarray]:
    y = np.array([-1.0, 1.0]) if loss.kind == "classification" else np.linspace(-y_bound, y_bound, 7)
    p, y = np.meshgrid(np.linspace(-4.0, 4.0, 401) + 0.00123, y)
    return p, y


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_second_derivatives_are_those_of_the_gradient(loss: Loss) -> None:
    p, y = grid(loss)
    step = 1e-6
    slope = (loss.gradient(p + step, y) - loss.gradient(p - step, y)) / (2.0 * step)
    found = loss.second_derivative(p, y)
    assert found.shape == p.shape
    np.testing.assert_allclose(found, slope, rtol=1e-6, atol=1e-7)
    assert found.max() <= loss.curvature * (1 + 1e-12)


@pytest.mark.parametrize("name", ["hinge", "absolute", "softmax"])
def test_a_kink_has_no_second_derivative(name: str) -> None:
    with pytest.raises(InvalidParameter, match=f"the {name} loss has no second derivative"):
        get_loss(name).second_derivative(0.0, 1.0)


@pytest.mark.parametrize("loss", SINGLE, ids=repr)
@pytest.mark.parametrize("bound", [0.1, 0.7, 1.3, 6.0])
@pytest.mark.parametrize("y_bound", [0.5, 2.0])
def test_the_bound_of_the_pull_holds_and_is_attained(loss: Loss, bound: float, y_bound: float) -> None:
    """The bound of ``-phi'(p) p`` against a fine grid; attained by the smooth losses."""
    p, y = np.meshgrid(np.linspace(-bound, bound, 4001), [-1.0, 1.0] if loss.kind == "classification" else [y_bound])
    most = float(np.max(-np.asarray(loss.gradient(p, y)) * p))
    found = loss.pull(bound, y_bound)
    assert most <= found * (1 + 1e-13)
    if math.isfinite(loss.curvature):
        assert found <= most * (1 + 2e-3) + 1e-12  # of a grid


@pytest.mark.parametrize("loss", SINGLE, ids=repr)
def test_facts_hold_on_a_grid(loss: Loss) -> None:
    p, y = grid(loss)
    slope = np.asarray(loss.gradient(p, y))
    assert loss.one_sided == bool(np.all(slope * np.sign(y) <= 0.0) or np.all(slope * np.sign(y) >= 0.0))
    is_odds = math.isfinite(loss.curvature) and np.allclose(
        loss.second_derivative(p, y), np.abs(slope) * (1 - np.abs(slope)), rtol=1e-12, atol=0
    )
    assert loss.log_odds == is_odds
    assert loss.quadratic == bool(np.allclose(loss.value(p, y), 0.5 * (p - y) ** 2, rtol=1e-13, atol=0))
    assert loss.steep == (loss == Squared())
    if math.isfinite(loss.curvature) and not loss.quadratic:
        curve = np.asarray(loss.second_derivative(p, y))
        jumps = np.abs(np.diff(curve, axis=1)).max() > 0.1 * loss.curvature
        assert loss.piecewise == jumps
    assert bool(loss.smooth_name) == math.isinf(loss.curvature)
    assert not loss.smooth_name or math.isfinite(get_loss(loss.smooth_name).curvature)


@pytest.mark.parametrize("loss", SINGLE, ids=repr)
def test_a_bounded_loss_is_the_same_within(loss: Loss) -> None:
    other, (p, y) = loss.bounded(4.1, 1.5), grid(loss)
    assert math.isfinite(other.lipschitz(math.inf, 1.5))
    np.testing.assert_array_equal(other.value(p, y), loss.value(p, y))
    np.testing.assert_array_equal(other.gradient(p, y), loss.gradient(p, y))


@pytest.mark.parametrize("loss", SINGLE, ids=repr)
def test_tangents_of_stand_ins_are_below_the_loss(loss: Loss) -> None:
    """With the slope of every stand-in at every prediction; at a kink the highest such line touches the loss."""
    p, y = grid(loss)
    every = np.linspace(-6.0, 6.0, 1201)
    for stand_in, scale in loss.stand_ins():
        slope = scale * np.asarray(stand_in.gradient(p, y))
        line = loss.line(slope, y)
        if line is None:
            assert (stand_in, scale) == (loss, 1.0)
            line = loss.value(p, y) - slope * p
        for k in range(len(y)):
            gap = np.asarray(loss.value(every, y[k, 0])) - (line[k][:, None] + slope[k][:, None] * every)
            assert gap.min() >= -1e-12
            assert gap.min(axis=1).max() <= 0.02  # of a grid


@pytest.mark.parametrize("loss", [*BUILT_IN, SmoothHinge(0.1), losses.Huber(0.3)], ids=repr)
def test_records_come_back(loss: Loss) -> None:
    assert from_record(json.loads(json.dumps(loss.to_record()))) == loss


# ---- an unknown loss -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unknown(Loss):
    """A smooth loss by subclass that has no number in the kernels."""

    name: str = field(init=False, repr=False, default="unheard_of")
    curvature: float = field(init=False, repr=False, default=0.25)

    def value(self, prediction, y):
        return Logistic().value(prediction, y)

    def gradient(self, prediction, y):
        return Logistic().gradient(prediction, y)

    def _slope(self, prediction_bound, y_bound):
        return 1.0


@dataclass(frozen=True)
class Overridden(Logistic):
    """A loss with a number, but with another value than the kernel of that number."""

    name: str = field(init=False, repr=False, default="unheard_of")


@pytest.mark.parametrize("loss", [Unknown(), Overridden()], ids=repr)
@pytest.mark.parametrize("name", [*conformance.LEARNERS, *conformance.OFFLINE])
def test_learners_refuse_what_the_kernels_do_not_know(name: str, loss: Loss) -> None:
    with pytest.raises(InvalidParameter, match=r"unheard_of|Unknown|Overridden"):
        conformance.make(name, loss=loss).fit(*conformance.rows_for(name))


def test_every_other_entry_point_refuses_them_too(tmp_path: Path) -> None:
    loss = Unknown()
    for enter in (
        lambda: get_loss(loss),
        lambda: privol.default_learner(loss),
        lambda: plan("nogd", loss=loss, horizon=100, n_features=3),
        lambda: best_in_hindsight(conformance.Stream(), loss=loss),
        lambda: progressive(privol.NOGD(loss=loss, horizon=600), conformance.Stream()),
        lambda: audit("objective-perturbation", runs=400, loss=loss),
        lambda: Device(n_features=3, epsilon=1.0, loss=loss),
        lambda: losses.log_probabilities(loss, np.zeros((2, 3))),
        lambda: losses.class_probabilities(loss, np.zeros(2)),
        lambda: loss_values(loss, [0.0], [1.0]),
        lambda: implicit_slope(loss, 1.0, 0.0, 1.0, 1.0),
        lambda: Objective(conformance.X, 2.0 * conformance.Y - 1.0, loss=loss, l2_sum=1.0),
    ):
        with pytest.raises(InvalidParameter, match=r"unheard_of|Unknown"):
            enter()


def test_a_number_beyond_the_table_is_refused() -> None:
    for code in (-3, 6, 1 << 20):
        wrong = Logistic()
        object.__setattr__(wrong, "code", code)
        with pytest.raises(InvalidParameter, match=f"do not know the loss 'logistic', whose code is {code}"):
            loss_values(wrong, [0.0], [1.0])


# ---- a user's own smooth loss ----------------------------------------------------------------------------------


def _margin(p: float, y: float) -> float:
    m = 1.0 - y * p
    return 0.5 * (m + math.sqrt(m * m + 1.0))


def _margin_slope(p: float, y: float) -> float:
    m = 1.0 - y * p
    return -0.5 * y * (1.0 + m / math.sqrt(m * m + 1.0))


def _error(p: float, y: float) -> float:
    return math.sqrt(1.0 + (p - y) ** 2) - 1.0


def _error_slope(p: float, y: float) -> float:
    return (p - y) / math.sqrt(1.0 + (p - y) ** 2)


OF_LABELS = Custom(value=_margin, gradient=_margin_slope, lipschitz=1.0, smoothness=0.5, name="made_up")
OF_NUMBERS = Custom(
    value=_error, gradient=_error_slope, lipschitz=1.0, smoothness=1.0, kind="regression", name="made_up_too"
)
TARGETS = np.clip(conformance.X @ [1.0, -2.0, 0.5, 0.0], -1.0, 1.0)


@pytest.mark.parametrize("loss", [OF_LABELS, OF_NUMBERS], ids=lambda loss: loss.name)
@pytest.mark.parametrize("name", [*conformance.LEARNERS, *conformance.OFFLINE])
def test_a_loss_of_the_users_own_is_learnt_or_refused_by_name(name: str, loss: Custom) -> None:
    X, y = conformance.rows_for(name)
    # methods that are required, methods of other losses, and methods of built-in ones
    words = {"BanditMIOGD": {"value_bounds": (0.0, 3.0)}, "ObjectivePerturbation classes": {"min_l2": "quarter"}}
    words["BanditMIOGD published"] = words["BanditMIOGD"]
    learner = conformance.make(name, loss=loss, **words.get(name, {}))
    try:
        learner.fit(X, TARGETS if loss.kind == "regression" else y)
    except InvalidParameter as error:
        assert re.search(r"made_up|Custom", str(error))  # noqa: PT017 -- either of two outcomes is right
        return
    assert np.isfinite(learner.coef_).all()
    assert loss.name in " ".join(learner.guarantee_.conditions)


@pytest.mark.parametrize("loss", [OF_LABELS, OF_NUMBERS], ids=lambda loss: loss.name)
def test_a_custom_loss_is_scored_saved_and_audited(loss: Custom, tmp_path: Path) -> None:
    stream = conformance.Stream(targets=TARGETS if loss.kind == "regression" else conformance.Y)
    stream.classes = None if loss.kind == "regression" else (0, 1)
    best = best_in_hindsight(stream, loss=loss, radius=3.0, tolerance=1e-4)
    assert best.converged
    assert best.score.log_loss is None
    learner = privol.NOGD(loss=loss, horizon=600, random_state=1)
    assert progressive(learner, stream).score.loss > 0.0
    save_model(learner, tmp_path / "model")
    with pytest.raises(InvalidParameter, match=loss.name):
        load_model(tmp_path / "model")
    again = load_model(tmp_path / "model", loss=loss)
    np.testing.assert_array_equal(again.predict(conformance.X), learner.predict(conformance.X))
    found = audit("objective-perturbation", runs=400, loss=loss, steps=4, random_state=1, radius=None)
    assert found.epsilon_lower <= found.proved_epsilon
