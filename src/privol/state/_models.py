"""Released models on disk: the public part of a learner as ``model.npz`` (arrays) and ``model.json`` (all else).

The files hold what a pickle of the learner holds: the last released model, the mean of the released models, the
parameters and the guarantee. They are public as far as the guarantee goes, and say so. Nothing secret is written, and
nothing that is read is ever executed: no pickle, no code.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from .._core._learner_run import average_total
from .._files import write_atomically
from .._validate import integer, number
from .._values import labels_of
from ..calibration import epsilon_of
from ..errors import InvalidParameter, StateError
from ..geometry import Box, ConvexSet, L1Ball, L2Ball, Simplex, WholeSpace
from ..guarantees import Guarantee
from ..learners import ALL_LEARNERS, TABLE, OfflineLearner, OnlineLearner
from ..learners.keeping import show_export
from ..learners.views import Export, export_of
from ..losses import Loss, get_loss
from ..losses import from_record as loss_from_record
from ..readers.arrays import UNREADABLE
from ..topology import MixingSchedule, Topology, from_record, to_record

if TYPE_CHECKING:  # a learner's model does not need the estimators
    from ..auto.estimators import PrivateClassifier, PrivateRegressor

__all__ = ["FORMAT", "VERSION", "describe_parameters", "load_learner", "load_model", "read_record", "save_model"]

Learner = OnlineLearner | OfflineLearner
Estimator: TypeAlias = "PrivateClassifier | PrivateRegressor"

FORMAT = "privol.model"
VERSION = 1
ARRAYS, RECORD = "model.npz", "model.json"
_MOST = (1 << 63) - 1  # rows and releases

_SETS: dict[str, type[ConvexSet]] = {
    "l2": L2Ball, "l1": L1Ball, "box": Box, "simplex": Simplex, "space": WholeSpace,
}  # fmt: skip
# Excluded: an object of this process, and a seed that would reveal the noise.
_LEFT_OUT = ("ledger", "random_state")


# ---- parameters as JSON values ------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Return NumPy scalars and arrays as Python values, infinities as words: JSON has neither."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return [plain(v) for v in value] if isinstance(value, (list, tuple, range)) else value


def _describe_set(domain: ConvexSet | None) -> dict[str, Any] | None:
    if domain is None:
        return None
    for name, kind in _SETS.items():
        if type(domain) is kind:
            own = {"l2": ("radius",), "l1": ("radius",), "box": ("low", "high"), "simplex": ("total",), "space": ()}
            return {"set": name, **{word: plain(getattr(domain, word)) for word in own[name]}}
    raise InvalidParameter(f"domain {domain!r} cannot be written")


def _set_of(record: dict[str, Any] | None) -> ConvexSet | None:
    if record is None:
        return None
    values = dict(record)
    return _SETS[values.pop("set")](**values)


def describe_parameters(learner: Learner) -> dict[str, Any]:
    """Return a learner's constructor parameters as JSON values, without ``ledger`` and ``random_state``.

    Infinite numbers are the word ``"inf"``; losses, sets and graphs are objects.
    """
    found: dict[str, Any] = learner.get_params(deep=False)
    if "mu" in found and found["mu"] is None:  # the value that was used, even if the default changes later
        found["epsilon"] = epsilon_of(learner)
    record = {name: plain(value) for name, value in found.items() if name not in (*_LEFT_OUT, "loss", "domain")}
    if isinstance(found.get("class_weight"), Mapping):  # JSON objects have only strings as keys
        record["class_weight"] = [[plain(label), plain(weight)] for label, weight in found["class_weight"].items()]
    if "domain" in found:
        record["domain"] = _describe_set(found["domain"])
    if isinstance(found.get("topology"), (Topology, MixingSchedule)):
        record["topology"] = to_record(found["topology"])
    return {**record, "loss": get_loss(found["loss"]).to_record()}


def parameters_of(record: dict[str, Any], loss: Loss | None) -> dict[str, Any]:
    values = {name: math.inf if value == "inf" else value for name, value in record.items()}
    if "domain" in record:
        values["domain"] = _set_of(record["domain"])
    if isinstance(record.get("topology"), dict):
        values["topology"] = from_record(record["topology"])
    if record.get("class_weight") is not None:
        values["class_weight"] = {label: float(weight) for label, weight in record["class_weight"]}
    return {**values, "loss": loss_from_record(record["loss"], loss)}


# ---- writing ------------------------------------------------------------------------------------------------


def digest_of(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True, allow_nan=False).encode()).hexdigest()


def has_digest(record: dict[str, Any], seal: object) -> bool:
    """Whether a record that was read is the one that was written."""
    try:
        return seal == digest_of(record)
    except ValueError:  # NaN or infinity, which no record has
        return False


def describe_classes(classes: NDArray[Any] | None) -> dict[str, Any] | None:
    if classes is None:
        return None
    values = classes.tolist()
    if not all(isinstance(v, (str, int, float, bool)) for v in values):
        raise InvalidParameter(f"classes must be strings, numbers or booleans to be written, found {values!r}")
    return {"type": classes.dtype.str, "values": values}


def classes_of(record: dict[str, Any] | None) -> NDArray[Any] | None:
    return None if record is None else labels_of(record["values"], record["type"])


def save_model(
    learner: Learner | Estimator,
    directory: str | os.PathLike[str],
    *,
    inputs: dict[str, Any] | None = None,
) -> None:
    """Write the released model of a fitted learner, with its guarantee: its public export.

    Parameters
    ----------
    learner : OnlineLearner, OfflineLearner, PrivateClassifier or PrivateRegressor
        With at least one release. A live run continues: only its releases are written. For an estimator of
        tables this includes the encoding.
    directory : path
        Made if it does not exist (its parent must); must not hold a model yet.
    inputs : dict, optional
        Public JSON values that say how rows become features (feature names, schema, ranges, target, ...), for
        predictions. The command line writes them and reads them back.

    Raises
    ------
    NotFittedError, StateError
        If there is no run, or nothing was released.
    InvalidParameter
        If a parameter or label has no JSON form.
    OSError
        If the files exist or cannot be written.
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(learner)
    if learner.n_releases_ < 1:
        raise StateError("nothing was released yet, so there is no model to save")
    if not isinstance(learner, OnlineLearner | OfflineLearner):
        from ..auto.kept import describe_encoding, describe_shown

        found = describe_encoding(learner.encoder_)
        inputs = {**(inputs or {}), "schema": found["schema"], "estimator": describe_shown(learner, found)}
        learner = learner.learner_
    folder = Path(directory)
    for name in (ARRAYS, RECORD):
        if (folder / name).exists():
            raise FileExistsError(f"{folder / name} exists and is not overwritten")
    folder.mkdir(exist_ok=True)
    write_released(learner, folder, inputs)


def write_released(learner: Learner, folder: Path, inputs: dict[str, Any] | None) -> None:
    """Write what a learner has released, replacing existing files."""
    write_export(learner, export_of(learner), folder, inputs)


def write_export(learner: Learner, export: Export, folder: Path, inputs: dict[str, Any] | None = None) -> None:
    """Write a public export, replacing existing files."""
    buffer = io.BytesIO()
    try:
        np.savez(buffer, model=export.model, average=export.average)
    except ValueError as error:  # of the archive, which an interrupt within it leaves half open
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise
    arrays = buffer.getvalue()
    guarantee, names = export.guarantee, getattr(learner, "feature_names_in_", None)
    record: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "privol": __version__,
        "learner": name_of(learner),
        "parameters": describe_parameters(learner),
        "n_features": int(learner.n_features_in_),
        "feature_names": names if names is None else [str(name) for name in names],
        "classes": describe_classes(export.classes),
        "n_rows": export.n_rows,
        "n_releases": export.n_releases,
        "private": guarantee.private and guarantee.kind != "none",
        "guarantee": guarantee.to_record(),
        "sentence": guarantee.sentence(),
        "inputs": inputs,
        "arrays": {"file": ARRAYS, "sha256": hashlib.sha256(arrays).hexdigest()},
    }
    record["sha256"] = digest_of(record)
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    write_atomically(folder / ARRAYS, arrays)
    write_atomically(folder / RECORD, text.encode())


def name_of(learner: Learner) -> str:
    for entry in TABLE:  # classes with this name first: comparing all classes would import them all
        if type(learner).__name__ == entry.kind and type(learner) is ALL_LEARNERS[entry.name]:
            return entry.name
    raise InvalidParameter(f"{type(learner).__name__} is not a learner of privol")


# ---- reading ------------------------------------------------------------------------------------------------


#: What a record whose checksum is right raises where a field is missing or of another type.
GARBLED = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)


def _refuse(folder: Path, what: str) -> NoReturn:
    raise StateError(f"{folder}: {what}")


def read_record(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the checked contents of ``model.json`` (guarantee, parameters, inputs, ...).

    Raises
    ------
    StateError
        If the file is missing, truncated, altered, or of another format or version.
    """
    folder = Path(directory)
    try:
        text = (folder / RECORD).read_text(encoding="utf-8")
    except FileNotFoundError:
        _refuse(folder, f"no saved model here ({RECORD} is missing)")
    except (OSError, UnicodeDecodeError) as error:
        _refuse(folder, f"{RECORD} cannot be read: {error}")
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        _refuse(folder, f"{RECORD} is truncated or damaged: {error}")
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        _refuse(folder, f"{RECORD} is not a record of format {FORMAT!r}")
    version = record.get("version")
    if type(version) is not int or version != VERSION:
        _refuse(folder, f"{RECORD} has version {version!r}; this release of privol reads version {VERSION}")
    seal = record.pop("sha256", None)
    if not has_digest(record, seal):
        _refuse(folder, f"{RECORD} was altered after it was written (its checksum does not match)")
    return record


def _read_arrays(folder: Path, record: dict[str, Any], dim: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    try:
        content = (folder / ARRAYS).read_bytes()
    except OSError as error:
        _refuse(folder, f"{ARRAYS} cannot be read: {error}")
    if hashlib.sha256(content).hexdigest() != record["arrays"]["sha256"]:
        _refuse(folder, f"{ARRAYS} is truncated, altered or of another run (its checksum does not match)")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
                raise ValueError("its arrays are compressed, and could be of any size")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            model, average = np.asarray(file["model"]), np.asarray(file["average"])
    except UNREADABLE as error:
        _refuse(folder, f"{ARRAYS} is damaged, allowed are the arrays that privol has written: {error}")
    for array in (model, average):
        if array.shape != (dim,) or array.dtype != np.float64 or not np.isfinite(array).all():
            _refuse(folder, f"{ARRAYS} must hold {dim} finite numbers")
    return model, average


def load_model(directory: str | os.PathLike[str], *, loss: Loss | None = None) -> Learner | Estimator:
    """Return the learner, or the estimator of tables, saved by :func:`save_model`: it predicts, and has no live run.

    Parameters
    ----------
    directory : path
    loss : Loss, optional
        The object itself, for a model learnt with a custom loss.

    Returns
    -------
    OnlineLearner, OfflineLearner, PrivateClassifier or PrivateRegressor
        With ``coef_``, ``intercept_``, ``guarantee_``, ``classes_``, ..., an estimator with ``schema_`` and
        ``learner_``, and with neither ledger nor seed. Learning with it starts a new run, which pays again.

    Raises
    ------
    StateError
        If a file is missing, truncated, altered, or of another format or version.
    InvalidParameter
        If a custom loss is needed.

    Notes
    -----
    A model of the command line has its schema in the record. New rows are encoded by it, without target and user::

        schema = Schema.load(read_record("RUN")["inputs"]["schema"])
        for block in open_stream("new.csv", schema=schema, target=False):
            labels = load_model("RUN").predict(block.X)     # schema.unscale() of it for a real target

    The checksums find damage, not malice: whoever can write the files can write their checksums.
    """
    learner, found = load_learner(directory, loss=loss), read_record(directory).get("inputs")
    inputs = found if isinstance(found, dict) else {}
    shown = inputs.get("estimator")
    if shown is None:
        return learner
    from ..auto.estimators import PrivateClassifier, PrivateRegressor
    from ..auto.kept import show

    kinds = {kind.__name__: kind for kind in (PrivateClassifier, PrivateRegressor)}
    try:
        model: Estimator = show(kinds[shown["estimator"]], shown, inputs["schema"], learner)
    except GARBLED as error:
        _refuse(Path(directory), f"{RECORD} lacks or garbles a field of its estimator: {error!r}")
    return model


def load_learner(directory: str | os.PathLike[str], *, loss: Loss | None = None) -> Learner:
    """Return the learner of a saved model, of an estimator of tables what is behind its encoding.

    Parameters and errors as for :func:`load_model`.
    """
    folder = Path(directory)
    record = read_record(folder)
    try:
        kind: Any = ALL_LEARNERS[record["learner"]]
        learner: Learner = kind(**parameters_of(record["parameters"], loss))
        if "x_bound" in record["parameters"]:
            number(x_bound=learner.x_bound, above=0.0)
        guarantee = Guarantee.from_record(record["guarantee"])
        labels = classes_of(record["classes"])
        if labels is not None and len(labels) < 2:
            raise ValueError(f"{len(labels)} classes")
        n_features = integer(n_features=record["n_features"], at_least=1)
        counts = {name: record[name] for name in ("n_rows", "n_releases")}
        n_rows, n_releases = (integer(**{name: found}, at_least=0, at_most=_MOST) for name, found in counts.items())
        names = record.get("feature_names")  # missing in models that an earlier privol saved
        if names is not None and (not all(isinstance(name, str) for name in names) or len(names) != n_features):
            raise ValueError(f"{n_features} features have the names {names!r}")
        outputs = len(labels) if labels is not None and (len(labels) > 2 or get_loss(learner.loss).joint) else 1
        model, average = _read_arrays(folder, record, outputs * (n_features + bool(learner.fit_intercept)))
    except InvalidParameter:
        raise
    except GARBLED as error:
        _refuse(folder, f"{RECORD} lacks or garbles a field: {error!r}")
    show_export(learner, Export(model, average, n_rows, n_releases, guarantee, labels))
    learner.n_features_in_ = n_features
    if names is not None:
        learner.feature_names_in_ = np.array(names, dtype=object)
    if labels is not None:
        learner.classes_ = labels
    return learner


def exported(
    arrays: Mapping[str, NDArray[Any]], averaging: int, guarantee: Guarantee, classes: NDArray[Any] | None
) -> Export:
    """The public part of a state."""
    rows, releases = (int(count) for count in arrays["counts"][:2])
    released = arrays["released"]
    average = arrays["released_sum"] / average_total(averaging, releases) if releases else released.copy()
    return Export(released, average, rows, releases, guarantee, classes)
