"""Saved models: only public values are written, reading gives the same predictions bit for bit, damage is refused."""

from __future__ import annotations

import json
import math
import pickle
import zipfile

import numpy as np
import pytest

import privol
from privol import geometry, losses
from privol.errors import InvalidParameter, StateError
from privol.state import describe_parameters, load_model, read_record, save_model


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 5))
    return X, np.where(X @ [1.0, -1.0, 0.5, 0.0, 2.0] > 0, "yes", "no"), X @ [0.1, 0.2, 0.0, -0.1, 0.3]


def fitted(rows, **parameters):
    X, labels, targets = rows
    learner = privol.PIGD(random_state=7, radius=3.0, **parameters)
    return learner.fit(X, labels if privol.losses.get_loss(learner.loss).kind == "classification" else targets)


PARAMETERS = [
    {},
    {"loss": "hinge", "release": 100, "l2_schedule": "inverse_sqrt", "fit_intercept": False},
    {"loss": losses.SmoothHinge(width=0.25), "release": [10, 50, 400]},
    {"loss": "squared", "y_bound": 2.0, "epsilon": math.inf},
    {"loss": losses.Huber(width=0.3), "domain": geometry.L1Ball(2.0)},
    {"loss": "absolute", "domain": geometry.Box(low=[-1.0] * 6, high=[2.0] * 6)},
    {"domain": geometry.Simplex(2.0), "noise_shape": "paper", "adjacency": "zero_out", "step_offset": 5.0},
    {"calibration": "published", "release": "all", "l2": 0.5},
]


@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
def test_reload_is_the_same_model(tmp_path, rows, parameters):
    learner = fitted(rows, **parameters)
    save_model(learner, tmp_path / "m", inputs={"feature_names": ["a", "b", "c", "d", "e"]})
    again = load_model(tmp_path / "m")
    X = rows[0]
    assert again.predict(X).tolist() == learner.predict(X).tolist()
    for name in ("coef_", "intercept_", "average_coef_", "average_intercept_"):
        assert np.asarray(getattr(again, name)).tobytes() == np.asarray(getattr(learner, name)).tobytes()
    assert again.guarantee_ == learner.guarantee_
    assert (again.n_rows_, again.n_releases_, again.n_features_in_) == (400, learner.n_releases_, 5)
    assert describe_parameters(again) == describe_parameters(learner)
    if hasattr(learner, "classes_"):
        assert again.classes_.tolist() == learner.classes_.tolist()
        assert again.classes_.dtype == learner.classes_.dtype
    assert read_record(tmp_path / "m")["inputs"] == {"feature_names": ["a", "b", "c", "d", "e"]}


def test_export_says_whether_it_is_private_and_holds_no_seed(tmp_path, rows):
    save_model(fitted(rows), tmp_path / "seeded")
    record = read_record(tmp_path / "seeded")
    assert record["private"] is False
    assert record["sentence"].startswith("NOT PRIVATE")
    assert "random_state" not in record["parameters"]
    assert load_model(tmp_path / "seeded").random_state is None
    X, y, _ = rows
    save_model(privol.PIGD().fit(X, y), tmp_path / "real")
    assert read_record(tmp_path / "real")["private"] is True
    save_model(privol.PIGD(epsilon=math.inf).fit(X, y), tmp_path / "free")
    assert read_record(tmp_path / "free")["private"] is False


def test_only_released_numbers_are_written(tmp_path, rows):
    X, y, _ = rows
    learner = privol.PIGD(random_state=3, horizon=400, release=200, radius=3.0)
    learner.partial_fit(X[:300], y[:300], classes=["no", "yes"])
    secret = learner._run.state._secret_iterate()
    save_model(learner, tmp_path / "m")
    with np.load(tmp_path / "m" / "model.npz") as arrays:
        assert sorted(arrays.files) == ["average", "model"]
        for name in arrays.files:
            assert not np.isin(secret, arrays[name]).any()
    learner.partial_fit(X[300:], y[300:])  # the live run continues


def test_loaded_learner_has_no_live_run(tmp_path, rows):
    X, y, _ = rows
    save_model(fitted(rows), tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert "_run" not in vars(again)
    assert again.close().predict(X[:3]).tolist() == pickle.loads(pickle.dumps(again)).predict(X[:3]).tolist()
    assert again.set_params(epsilon=0.5).fit(X, y).guarantee_.epsilon() == pytest.approx(0.5)


def test_nothing_to_save(tmp_path, rows):
    X, y, _ = rows
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        save_model(privol.PIGD(), tmp_path / "m")
    learner = privol.PIGD(horizon=400, release=200).partial_fit(X[:100], y[:100], classes=["no", "yes"])
    with pytest.raises(StateError, match="nothing was released"):
        save_model(learner, tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_existing_model_is_not_overwritten(tmp_path, rows):
    learner = fitted(rows)
    save_model(learner, tmp_path / "m")
    before = (tmp_path / "m" / "model.json").read_bytes()
    with pytest.raises(FileExistsError):
        save_model(learner, tmp_path / "m")
    assert (tmp_path / "m" / "model.json").read_bytes() == before
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == ["model.json", "model.npz"]


def test_custom_loss_comes_from_the_caller(tmp_path, rows):
    X, y, _ = rows
    own = losses.Custom(
        value=lambda p, y: math.log1p(math.exp(-y * p)) if y * p > -30 else -y * p,
        gradient=lambda p, y: -y / (1.0 + math.exp(min(y * p, 700.0))),
        lipschitz=1.0,
        smoothness=0.25,
        name="mine",
    )
    learner = privol.PIGD(loss=own, random_state=1).fit(X[:50], y[:50])
    save_model(learner, tmp_path / "m")
    with pytest.raises(InvalidParameter, match="mine"):
        load_model(tmp_path / "m")
    assert load_model(tmp_path / "m", loss=own).predict(X).tolist() == learner.predict(X).tolist()


def altered(record, **changes):
    from privol.state._models import digest_of

    new = {**{k: v for k, v in record.items() if k != "sha256"}, **changes}
    return {**new, "sha256": digest_of(new)}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("truncated json", "truncated"),
        ("tampered json", "altered"),
        ("no json", "missing"),
        ("other format", "not a record"),
        ("newer version", "version 2"),
        ("unknown learner", "garbles"),
        ("truncated npz", "checksum"),
        ("tampered npz", "checksum"),
        ("no npz", "cannot be read"),
        ("pickle in npz", "damaged"),
        ("wrong shape", "finite numbers"),
        ("not finite", "finite numbers"),
    ],
)
def test_damage_is_refused(tmp_path, rows, damage, message):
    import hashlib

    folder = tmp_path / "m"
    save_model(fitted(rows), folder)
    text, arrays = (folder / "model.json").read_text(), (folder / "model.npz").read_bytes()
    record = json.loads(text)

    def forge(**values):
        np.savez(folder / "model.npz", **values)
        digest = hashlib.sha256((folder / "model.npz").read_bytes()).hexdigest()
        (folder / "model.json").write_text(json.dumps(altered(record, arrays={"file": "model.npz", "sha256": digest})))

    match damage:
        case "truncated json":
            (folder / "model.json").write_text(text[: len(text) // 2])
        case "tampered json":
            (folder / "model.json").write_text(json.dumps({**record, "private": True}))
        case "no json":
            (folder / "model.json").unlink()
        case "other format":
            (folder / "model.json").write_text("[1, 2]")
        case "newer version":
            (folder / "model.json").write_text(json.dumps(altered(record, version=2)))
        case "unknown learner":
            (folder / "model.json").write_text(json.dumps(altered(record, learner="sgd")))
        case "truncated npz":
            (folder / "model.npz").write_bytes(arrays[:-20])
        case "tampered npz":
            (folder / "model.npz").write_bytes(arrays[:200] + bytes([arrays[200] ^ 1]) + arrays[201:])
        case "no npz":
            (folder / "model.npz").unlink()
        case "pickle in npz":
            forge(model=np.array([print] * 6, dtype=object), average=np.zeros(6))
        case "wrong shape":
            forge(model=np.zeros(5), average=np.zeros(5))
        case "not finite":
            forge(model=np.full(6, np.nan), average=np.zeros(6))
    with pytest.raises(StateError, match=message):
        load_model(folder)


def test_files_are_readable_without_privol(tmp_path, rows):
    save_model(fitted(rows), tmp_path / "m")
    assert json.loads((tmp_path / "m" / "model.json").read_text())["format"] == "privol.model"
    with zipfile.ZipFile(tmp_path / "m" / "model.npz") as archive:
        assert sorted(archive.namelist()) == ["average.npy", "model.npy"]


def test_an_interrupt_within_the_archive_is_an_interrupt(monkeypatch, tmp_path):
    """Found by kills: closing the archive, whose member is open, hid Ctrl-C behind an error of its own."""
    model = privol.PIGD(epsilon=1.0, x_bound=1.0).fit([[0.1], [0.2], [0.3]], [0, 1, 1])

    def struck(file, **arrays):
        with zipfile.ZipFile(file, "w") as archive:
            archive.open("model", "w")
            raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", struck)
    with pytest.raises(KeyboardInterrupt):
        save_model(model, tmp_path / "M")
    monkeypatch.setattr(np, "savez", lambda *_, **__: (_ for _ in ()).throw(ValueError("another")))
    with pytest.raises(ValueError, match="another"):
        save_model(model, tmp_path / "N")
