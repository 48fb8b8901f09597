"""Flower as it is deployed: a SuperLink and SuperNodes as processes, and its simulation; the examples of the page."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from flower_processes import Federation, Processes
from places import ROOT

import privol
from privol import LDPSGD
from privol.rounds import Collector, Device
from privol.state import load_model

pytestmark = pytest.mark.process

PAGE = ROOT / "docs" / "flower.md"
DEVICES, NETWORK = (ROOT / "examples" / name for name in ("flower_devices", "flower_network"))
ROWS = ([0.3125, -0.75, 0.125, 0.5, 1], [-0.25, 0.625, -0.375, 0.0625, 0])
LIMITS = {"n_features": 4, "epsilon": 2.0}


def _table(n):
    X = np.random.default_rng(1).normal(size=(n, 4)) / 2
    return X, np.where(X[:, 0] > X[:, 1], "yes", "no")


def _write_rows(path, X, y):
    lines = [f"{','.join(map(repr, x.tolist()))},{t}" for x, t in zip(X, y, strict=True)]
    path.write_text("\n".join(["a,b,c,d,outcome", *lines]) + "\n")


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """Two SuperNodes: each has the row of a user, and the rows of a node."""
    with Federation(tmp_path_factory.mktemp("federation")) as made:
        for user, row in enumerate(ROWS):
            (made.home / f"row-{user}.json").write_text(json.dumps(row))
            _write_rows(made.home / f"rows-{user}.csv", *(part[user::2] for part in _table(80)))
            one = {"device": f"{made.home}/device-{user}", "row": f"{made.home}/row-{user}.json", "seed": 30 + user}
            many = {"node": user, "directory": f"{made.home}/node-{user}", "rows": f"{made.home}/rows-{user}.csv"}
            made.add_node(**one, **many)
        yield made
    assert not made.marked()


@pytest.mark.parametrize("app", [DEVICES, NETWORK], ids=lambda app: app.name)
def test_the_page_shows_the_examples(app):
    page = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:python|toml)\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    for path in sorted(app.rglob("*.py")):
        if path.name != "__init__.py":
            assert path.read_text(encoding="utf-8") in blocks, path.name
    if app is DEVICES:
        assert (app / "pyproject.toml").read_text(encoding="utf-8") in blocks


def same_as_in_one_process(found, home):
    """The model is that of the devices in ``home``, asked in the order that they remember."""
    order = {}
    for user in range(len(ROWS)):
        (line,) = (home / f"device-{user}" / "answers.jsonl").read_text().splitlines()[1:]
        order[int.from_bytes(bytes.fromhex(json.loads(line)["place"])[16:], "little")] = user
    assert sorted(order) == [1, 2]
    learner = LDPSGD(epsilon=2.0, radius=5.0, horizon=2).declare_classes(["no", "yes"])
    collector = Collector(learner, 4)
    for number in (1, 2):
        user = order[number]
        device = Device(random_state=np.random.SeedSequence(30 + user, spawn_key=(0,)), **LIMITS)
        collector.tell(device.answer(collector.ask(), ROWS[user][:4], ROWS[user][4]))
    for name in ("coef_", "intercept_", "average_coef_"):
        assert np.asarray(getattr(found, name)).tobytes() == np.asarray(getattr(learner, name)).tobytes()
    assert np.any(found.coef_ != 0.0)


def test_devices_in_processes(federation, tmp_path):
    """The example of the page: the model is that of one process, and nothing of a row is in any log or message."""
    app = tmp_path / "app"
    shutil.copytree(DEVICES, app, ignore=shutil.ignore_patterns("__pycache__"))
    project = app / "pyproject.toml"
    config = project.read_text().replace("users = 1000", "users = 2").replace('"model"', f'"{tmp_path}/model"')
    project.write_text(config)
    federation.run_app(app)
    federation.wait_for(tmp_path / "model" / "model.json")
    found = load_model(tmp_path / "model")

    same_as_in_one_process(found, federation.home)
    logs = federation.logs()
    assert "query.report" in logs
    for value in ("0.3125", "0.625", "-0.375"):
        assert value not in logs


def test_a_network_in_processes(federation, tmp_path):
    """The example with two nodes and fewer rows: the model is that of one process, and every node has it."""
    app, key = tmp_path / "app", 5
    shutil.copytree(NETWORK, app, ignore=shutil.ignore_patterns("__pycache__"))
    for path, old, new in (
        (app / "network" / "shared.py", 'nodes=3, topology="ring"', 'nodes=2, topology="complete"'),
        (app / "network" / "shared.py", "batch=200, radius=5.0, horizon=1200", "batch=40, radius=5.0, horizon=80"),
        (app / "network" / "client.py", 'mine.get("seed")', str(key)),  # theirs is that of a device
        (app / "network" / "server.py", 'context.run_config.get("seed")', str(key)),
        (app / "pyproject.toml", '"model"', f'"{tmp_path}/model.npz"'),
    ):
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
    federation.run_app(app)
    federation.wait_for(tmp_path / "model.npz")
    shared = runpy.run_path(str(app / "network" / "shared.py"))
    X, y = _table(80)
    expected = shared["learner"](key).fit_stream(privol.open_stream((X, y.tolist()), classes=shared["CLASSES"]))
    found = np.load(tmp_path / "model.npz")
    assert found["coef"].tobytes() == np.ravel(expected.coef_).tobytes()
    assert np.ravel(found["intercept"]).tobytes() == np.ravel(expected.intercept_).tobytes()
    assert np.any(expected.coef_ != 0.0)
    for k in range(2):
        assert load_model(federation.home / f"node-{k}" / "run").coef_.tobytes() == expected.coef_.tobytes()
    assert not any(repr(value) in federation.logs() for value in X.ravel().tolist())


def test_both_examples_in_flowers_simulation(tmp_path):
    """The examples' nodes and devices, as SuperNodes that Flower simulates by Ray: the bits of one process."""
    X, y = _table(1200)
    for k in range(3):
        _write_rows(tmp_path / f"rows-{k}.csv", X[k::3], y[k::3])
    for user, row in enumerate(ROWS):
        (tmp_path / f"row-{user}.json").write_text(json.dumps(row))
    with Processes(tmp_path) as made:
        program = str(Path(__file__).with_name("simulated.py"))
        made.run(sys.executable, program, str(NETWORK), str(DEVICES), str(tmp_path))
    same_as_in_one_process(load_model(tmp_path / "of-devices"), tmp_path)
    shared = runpy.run_path(str(NETWORK / "network" / "shared.py"))
    stream = privol.open_stream((X, y.tolist()), classes=shared["CLASSES"])
    expected = shared["learner"](5).fit_stream(stream)
    found = np.load(tmp_path / "model.npz")
    assert found["coef"].tobytes() == np.ravel(expected.coef_).tobytes()
    assert np.ravel(found["intercept"]).tobytes() == np.ravel(expected.intercept_).tobytes()
    assert expected.score(X, y) > 0.8
    for k in range(3):
        assert load_model(tmp_path / f"node-{k}" / "run").coef_.tobytes() == expected.coef_.tobytes()
