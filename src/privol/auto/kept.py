"""The kept form of an estimator: public values from which another process can predict or continue."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .. import __version__
from .._files import write_atomically
from .._validate import integer
from .._values import labels_of
from ..calibration import epsilon_of
from ..encoding import PrivateEncoder
from ..encoding.phases import EncodingPlan
from ..encoding.schema import Schema
from ..errors import InvalidParameter, PrivolError, StateError
from ..guarantees import Guarantee
from ..learners.views import Keeper
from ..ledger import Ledger
from ..streams import Block, Stream, open_stream

__all__ = ["Directory", "describe_encoding", "describe_shown", "encoding_of", "ledger_beside", "show"]

_FORMAT, _VERSION = "privol.estimator", 1
_ENCODING = "encoding.json"
_COUNTED = ("dropped", "uncrossed")
# Excluded: an object of this process, and a seed that would reveal the noise.
_LEFT_OUT = "ledger", "random_state"


class Directory(Keeper, Protocol):
    """The directory that keeps a run: :class:`privol.state.State`."""

    directory: Path

    def describe(self, inputs: dict[str, Any]) -> None:
        """Record how rows become features."""

    @property
    def rest(self) -> bool | None:
        """Whether only the rows after those that are kept come."""

    def keep_taught(self, blocks: Callable[[bytes], Iterable[Any]] | None, number: int | None = None) -> None:
        """Record the rows that taught, as the encoding has them, and their number; None: they cannot be read again."""

    @property
    def knows_taught(self) -> bool:
        """Whether rows that taught were recorded."""

    def read(self) -> dict[str, Any] | None:
        """Return the facts with which the run began; None: there is none to resume."""

    def check_promise(self, ledger: Ledger | None) -> None:
        """Refuse rows that begin elsewhere than was promised."""

    def expect_taught(self, blocks: Callable[[bytes], Iterable[Any]] | None) -> None:
        """Refuse to continue with other rows."""


# ---- of an estimator ---------------------------------------------------------------------------------------


def parameters_of(model: Any) -> dict[str, Any]:
    """Return an estimator's parameters as JSON values, without ``ledger`` and ``random_state``."""
    found = {name: value for name, value in model.get_params(deep=False).items() if name not in _LEFT_OUT}
    if found["mu"] is None:  # the value that was used, even if the default changes later
        found["epsilon"] = epsilon_of(model)
    if found["declared"] is not None:
        found["declared"] = Schema.load(found["declared"], partial=True).to_record()
    plain: dict[str, Any] = {name: _plain(value) for name, value in found.items()}
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    if isinstance(value, Mapping):
        return {key: _plain(own) for key, own in value.items()}
    return [_plain(own) for own in value] if isinstance(value, list | tuple) else value


def describe_shown(model: Any, encoding: Mapping[str, Any]) -> dict[str, Any]:
    """Return the public values of an estimator, without those of its learner, as JSON values.

    Parameters
    ----------
    model : PrivateModel
        The model; it has a learner.
    encoding : mapping
        The result of :func:`describe_encoding`.
    """
    state = vars(model)
    names, classes, cut = state.get("feature_names_in_"), state.get("classes_"), state.get("_cut", math.inf)
    shown = None if classes is None else {"type": classes.dtype.str, "values": classes.tolist()}
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "estimator": type(model).__name__,
        "parameters": parameters_of(model),
        "encoding": {name: value for name, value in encoding.items() if name != "schema"},
        "features": {"number": state.get("n_features_in_"), "names": None if names is None else names.tolist()},
        "of_stream": bool(state.get("_streamed")),
        "classes": shown,
        "order": None if classes is None else model._order.tolist(),
        "cut": _plain(cut),
    }


def show(kind: Callable[..., Any], record: Mapping[str, Any], schema: Any, learner: Any) -> Any:
    """Return an estimator that shows what another one has released.

    Parameters
    ----------
    kind : class
    record : mapping
        The result of :func:`describe_shown`.
    schema : mapping
        Record of the schema.
    learner : OnlineLearner or OfflineLearner
        The learner that shows the model.

    Raises
    ------
    StateError
        If the record has another format or version.
    """
    if record.get("format") != _FORMAT or record.get("version") != _VERSION:
        raise StateError(f"an estimator of format {record.get('format')!r}, version {record.get('version')!r}: "
                         f"this release of privol reads version {_VERSION} of {_FORMAT!r}")  # fmt: skip
    words = {name: math.inf if value == "inf" else value for name, value in record["parameters"].items()}
    model, encoder = kind(**words), PrivateEncoder()
    _restore(encoder, {**record["encoding"], "schema": schema})
    features = record["features"]
    state: dict[str, Any] = {"encoder_": encoder, "learner_": learner, "_cut": float(record["cut"])}
    state |= {"_streamed": record["of_stream"], "n_features_in_": features["number"]}
    if features["names"] is not None:
        state["feature_names_in_"] = np.array(features["names"], dtype=object)
    if record["classes"] is not None:
        state["classes_"] = labels_of(record["classes"]["values"], record["classes"]["type"])
        state["_order"] = np.array(record["order"])
    vars(model).update(state)
    return model


# ---- of its encoding ---------------------------------------------------------------------------------------


def describe_encoding(encoder: PrivateEncoder) -> dict[str, Any]:
    """Return what an encoder has learnt and its cost, as JSON values. Public."""
    account = getattr(encoder, "account_", None)
    return {
        "schema": encoder.schema_.to_record(),
        "plan": {name: _plain(value) for name, value in asdict(encoder.plan_).items()},
        "reused": encoder.reused_,
        "model_epsilon": _plain(encoder.model_epsilon_),
        "dropped": dict(encoder.dropped_),
        "uncrossed": dict(encoder.uncrossed_),
        "labelled": encoder.labelled_,
        "guarantee": encoder.guarantee_.to_record(),
        "plan_id": None if account is None else account.plan_id,
    }


def _restore(encoder: PrivateEncoder, record: Mapping[str, Any]) -> None:
    encoder.schema_ = Schema.from_record(record["schema"])
    plan: dict[str, Any] = {name: math.inf if value == "inf" else value for name, value in record["plan"].items()}
    for phase in ("labels", "kinds", "coarse", "fine", "features"):
        integer(**{phase: plan[phase]}, at_least=0)
    if not isinstance(record["reused"], bool) or not all(isinstance(record[name], dict) for name in _COUNTED):
        raise TypeError("reused must be a truth value, and dropped and uncrossed must be objects")
    encoder.plan_, encoder.reused_ = EncodingPlan(**plan), record["reused"]
    encoder.model_epsilon_ = float(record["model_epsilon"])
    encoder.dropped_, encoder.uncrossed_ = record["dropped"], record["uncrossed"]
    encoder.labelled_ = record["labelled"]
    encoder.guarantee_ = Guarantee.from_record(record["guarantee"])


def encoding_of(
    checkpoint: Directory,
    model: Any,
    encoder: PrivateEncoder,
    ledger: Ledger,
    learn: Callable[[], Stream],
    data: Any,
    words: Mapping[str, Any],
) -> tuple[dict[str, Any], Stream]:
    """Return the encoding of a kept run and the rows after it, whether it is learnt now or was learnt before.

    The encoding is public, and on the disk before any row is learnt with it. If it was learnt before, the same rows
    must follow: a row that taught it must not be learnt if the guarantee says that each row is in only one part.

    Parameters
    ----------
    checkpoint : Directory
    model : PrivateModel
    encoder : PrivateEncoder
        It learns or is restored.
    ledger : Ledger
        The ledger that pays.
    learn : callable
        Lets the encoder learn, and returns the remaining rows.
    data, words
        What is read, and how: arguments of :func:`privol.open_stream`.

    Raises
    ------
    StateError
        If the directory holds other parameters, another ledger, another version or other rows.
    """
    directory = checkpoint.directory
    file = directory / _ENCODING
    own: dict[str, Any] = {"estimator": type(model).__name__, "parameters": parameters_of(model)}
    checkpoint.check_promise(None if model.ledger is None else ledger)  # nobody else learns here from now on
    if not file.exists():
        stream = learn()
        if not encoder.reused_:
            again = partial(_taught, data, words, encoder) if stream.repeatable else None
            counted = stream.rows_per_user is not None  # then rows were left out, too
            checkpoint.keep_taught(again, None if counted else encoder.plan_.rows)
        found = describe_encoding(encoder)
        record = {"format": _FORMAT, "version": _VERSION, "privol": __version__, **own, "encoding": found}
        text = json.dumps({**record, "sha256": _digest(record)}, indent=1, allow_nan=False)
        write_atomically(file, text.encode() + b"\n")
        return found, stream
    found = restored(file, encoder, own)
    account = next((account for account in ledger.accounts if account.plan_id == found["plan_id"]), None)
    if account is None or account.facts.get("included"):
        raise StateError(f"{directory}: the ledger has no account of the encoding in this directory")
    encoder.ledger_, encoder.account_ = ledger, account
    if encoder.reused_:  # all rows are in both parts and pay for both
        return dict(found), _opened(data, words, encoder, 1)
    stream = _opened(data, words, encoder, encoder.plan_.rows + 1)
    stream.beside = account.plan_id
    if checkpoint.rest and not stream.repeatable:
        if not checkpoint.knows_taught and checkpoint.read() is None:
            raise StateError(f"{directory}: the run behind the encoding that is kept here has ended")
        stream.brings_rest()
    checkpoint.expect_taught(partial(_taught, data, words, encoder) if stream.repeatable else None)
    return dict(found), stream


def restored(file: Path, encoder: PrivateEncoder, own: Mapping[str, Any]) -> dict[str, Any]:
    """Give an encoder what an earlier process has learnt, and return it; StateError if it is not of this estimator."""
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        if record.pop("sha256") != _digest(record):
            raise ValueError("its checksum is another")
        found: dict[str, Any] = record["encoding"]
        known = (record["format"], record["version"], record["privol"]) == (_FORMAT, _VERSION, __version__)
        others = [name for name, value in own["parameters"].items() if record["parameters"].get(name) != value]
        other = record["estimator"] != own["estimator"] or record["parameters"] != own["parameters"]
        if known and not other:
            _restore(encoder, found)
    except (
        OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, PrivolError,
    ) as error:  # fmt: skip
        raise StateError(f"{file}: cannot be read: {error!r}") from error
    if not known:
        raise StateError(f"{file}: was written by another version of privol, and can be resumed only with it")
    if other:
        names = ", ".join(others or ["the class"])
        raise StateError(f"{file.parent}: the run in this directory has other parameters ({names})")
    return found


def _digest(record: Mapping[str, Any]) -> str:
    """What shows that a record is as it was written."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def ledger_beside(directory: Path, given: Any, adjacency: str) -> Ledger:
    """Return the ledger of a kept run: the given one, which must outlive the process, or the directory's own.

    Raises
    ------
    InvalidParameter, StateError
    """
    ended = (directory / "model.json").exists()
    # killed while it ended: its encoding is known, and the state finds its model, removes its secrets and says so
    if ended and not ((directory / "secret").exists() and (directory / _ENCODING).exists()):
        raise StateError(
            f"{directory}: the run in this directory is finished: privol.state.load_model() reads its model"
        )
    if given is None:
        directory.mkdir(exist_ok=True)
        return Ledger(adjacency=adjacency, journal=directory / "ledger.jsonl")
    if given.journal is None:
        raise InvalidParameter("a run that outlives its process needs a ledger that does: Ledger(journal=...), or none")
    directory.mkdir(exist_ok=True)
    known: Ledger = given
    return known


#: How an input is written, as a learnt schema states it.
_IN_SCHEMA = "target", "header", "sep", "encoding", "columns"


def _taught(data: Any, words: Mapping[str, Any], encoder: PrivateEncoder, key: bytes) -> Iterator[Block]:
    """Yield the rows that taught an encoding, block by block, as it encodes them; the input is read once more.

    If a cap counts users, each row has its user, hashed with the key.
    """
    stream = _opened(data, words, encoder, 1, encoder.plan_.rows)
    stream.go_on(key)
    yield from stream


def _opened(
    data: Any, words: Mapping[str, Any], encoder: PrivateEncoder, first_row: int, last_row: int | None = None
) -> Stream:
    """Return the rows from ``first_row`` to ``last_row``, as an encoding has them."""
    schema = encoder.schema_
    left = {name: value for name, value in words.items() if name not in _IN_SCHEMA or schema.rows is not None}
    if schema.rows is None:
        left.pop("classes", None)
    return open_stream(data, **left, schema=schema, first_row=first_row, last_row=last_row)
