"""What a run claims, in files that a third party can check: ``privol verify``."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from .. import __version__
from .._files import write_atomically
from ..calibration import RunPlan, mechanism_record
from ..encoding import PrivateEncoder, encoding_record
from ..errors import StateError
from ..guarantees import Guarantee, compose_gdp, gdp_epsilon
from ..learners import DOLA, OfflineLearner, OnlineLearner, SparseDOLA
from ..learners.views import account_of, mechanism_of
from ..ledger import Account, Ledger
from ._models import Estimator, Learner, describe_parameters, plain, save_model

__all__ = ["check_free", "claims_of", "fit_record", "network_record", "run_record", "save_run"]


def _figures(mu: float, epsilon: float) -> dict[str, Any]:
    return {name: "inf" if math.isinf(x) else x for name, x in (("mu", mu), ("epsilon", epsilon))}


def claims_of(guarantee: Guarantee, accounts: Sequence[Account]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return what the accounts of a run reserve together, for a row and for all rows of a user, as JSON values.

    Parameters
    ----------
    guarantee : Guarantee
        Of the learner.
    accounts : sequence of Account
        Its own, and those of an encoding and of private metrics.
    """
    delta = guarantee.delta
    # runs on different rows of the stream together cost as much as the most expensive one
    groups: dict[str, float] = {}
    of_users: dict[str, float] = {}
    for account in accounts:
        groups[account.group] = max(groups.get(account.group, 0.0), account.guarantee.mu)
        if guarantee.rows_per_user is not None:
            # the models' figure covers the rows that taught, if both count the rows of users
            mu = account.guarantee.user_mu
            of_users[account.group] = max(of_users.get(account.group, 0.0), math.inf if mu is None else mu)
    # the learner's own figure is exact, whereas composing would round it up; another run of the group may cost more
    alone = len(groups) == 1 and max(groups.values()) <= guarantee.mu
    together = compose_gdp(list(groups.values()))
    reserved = (
        _figures(guarantee.mu, guarantee.epsilon(delta)) if alone else _figures(together, gdp_epsilon(together, delta))
    )
    if guarantee.rows_per_user is None:
        return reserved, None
    together = compose_gdp(list(of_users.values()))
    own = guarantee.user_epsilon(delta) if guarantee.kind != "gdp" else None  # composed as gdp it would be larger
    epsilon = gdp_epsilon(together, delta) if own is None else own
    return reserved, {"most_rows": guarantee.rows_per_user, **_figures(together, epsilon)}


def run_record(learner: OnlineLearner, first_row: int = 1) -> dict[str, Any] | None:
    """Return the record of the mechanism of an online learner's run; None where there is none.

    ``first_row``: the number of its first row in its stream.
    """
    plan, n = learner.plan_, learner.n_rows_
    early = plan.releases.only_last and n < plan.releases.last_row and learner.n_releases_ > 0
    found = mechanism_record(plan, n if early else None)
    return None if found is None else {"first_row": first_row, **found}


def fit_record(learner: OfflineLearner) -> dict[str, Any] | None:
    """Return the record of the mechanism of an offline learner's fit; None where there is none."""
    classes = getattr(learner, "classes_", None)
    found = mechanism_of(learner, learner.n_features_in_, learner.n_rows_, 2 if classes is None else len(classes))
    return None if found is None else {"first_row": 1, **found}


@runtime_checkable
class Selection(Protocol):
    """The best of some fits, as :class:`privol.tuning.PrivateSelection` has it once it has chosen."""

    candidates: Sequence[Learner]
    best_estimator_: Learner
    guarantee_: Guarantee
    mechanism_: dict[str, Any] | None

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...


@runtime_checkable
class Releases(Protocol):
    """What has a run of its own and releases no model: prefix sums, or the iterates of a user's own algorithm."""

    account_: Account
    guarantee_: Guarantee

    @property
    def n_rows_(self) -> int: ...
    @property
    def n_releases_(self) -> int: ...
    @property
    def parameters_(self) -> dict[str, Any]: ...
    @property
    def mechanism_(self) -> dict[str, Any] | None: ...


def network_record(learner: DOLA | SparseDOLA, plan: RunPlan) -> dict[str, Any]:
    """Return what the nodes of a network claim of a run that has ended, as the beginning of a run's record.

    Parameters
    ----------
    learner : DOLA or SparseDOLA
        With the model.
    plan : RunPlan
        Of the whole network.
    """
    guarantee, mechanism = learner.guarantee_, mechanism_record(plan)
    reserved = _figures(guarantee.mu, guarantee.epsilon())
    return {
        "format": "privol.network-run",
        "version": 1,
        "privol": __version__,
        "status": "complete",
        "learner": type(learner).__name__,
        "parameters": describe_parameters(learner),
        "summary": guarantee.summary(),
        "guarantee": guarantee.to_record(),
        "mechanism": None if mechanism is None else {"first_row": 1, **mechanism},
        "budget": {"delta": guarantee.delta, "reserved": reserved},
        "sentence": guarantee.sentence(),
    }


def _selection_parameters(selection: Selection) -> dict[str, Any]:
    """The parameters of a selection as JSON values, without those of its candidates that it sets itself."""
    of_run = ("candidates", "ledger", "random_state")
    given = {key: plain(x) for key, x in selection.get_params(deep=False).items() if key not in of_run}
    found = [{"learner": type(each).__name__, **describe_parameters(each)} for each in selection.candidates]
    own = [{key: x for key, x in each.items() if key not in ("epsilon", "adjacency")} for each in found]
    return {**given, "candidates": own}


def _what_ran(learner: Any, account: Account) -> dict[str, Any]:
    """What was run, by the names of a run's record."""
    found: dict[str, Any] = {"learner": type(learner).__name__}
    if isinstance(learner, Selection):
        guarantee = learner.guarantee_
        found |= {"parameters": _selection_parameters(learner), "rows": guarantee.horizon}
        return found | {"releases": guarantee.releases, "mechanism": learner.mechanism_}
    if isinstance(learner, PrivateEncoder):
        of_run = ("declared", "ledger", "random_state")
        found |= {"parameters": {k: plain(x) for k, x in learner.get_params(deep=False).items() if k not in of_run}}
        entry = account.entry()
        found |= {"rows": entry.last_row, "releases": entry.releases}
        return found | {"mechanism": encoding_record(learner)}
    if isinstance(learner, Releases):
        found |= {"parameters": {key: plain(x) for key, x in learner.parameters_.items()}, "rows": learner.n_rows_}
        own = None if (given := learner.mechanism_) is None else {"first_row": account.rows[0], **given}
        return found | {"releases": learner.n_releases_, "mechanism": own}
    online = isinstance(learner, OnlineLearner)
    found |= {"parameters": describe_parameters(learner), "rows": learner.n_rows_, "releases": learner.n_releases_}
    return found | {"mechanism": run_record(learner, account.rows[0]) if online else fit_record(learner)}


def check_free(folder: Path) -> None:
    """Check that a folder has none of the files that :func:`save_run` writes for an encoder or for sums.

    Raises
    ------
    FileExistsError, FileNotFoundError
        If one of them exists, or the folder's parent does not.
    """
    for name in ("run.json", "ledger.jsonl", "schema.toml"):
        if (folder / name).exists():
            raise FileExistsError(f"{folder / name} exists and is not overwritten")
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"{folder.parent} is not a folder")


def save_run(
    model: Learner | Estimator | Selection | Releases | PrivateEncoder, directory: str | os.PathLike[str]
) -> None:
    """Write what a model released, and what its run claims and spent, for whoever wants to check it.

    The files are public: ``model.json`` and ``model.npz`` of :func:`save_model`; ``run.json``, the numbers that noise
    and guarantee follow from; and ``ledger.jsonl``, a copy of the accounts of this run. ``privol verify DIRECTORY``
    computes the guarantee again from the last two (``docs/verify.md``).

    Parameters
    ----------
    model : learner, PrivateClassifier, PrivateRegressor, PrivateSelection, PrivateEncoder, prefix sums or POCP
        Whose run has ended. Of a selection the released fit is the model; of an encoder its schema is written
        (``schema.toml``); of prefix sums and a POCP only what was claimed and spent. A learner that a ``Collector``
        or a Flower app has played is saved as any other.
    directory : path
        Made if it does not exist (its parent must); must hold no model, schema, run or journal yet.

    Raises
    ------
    NotFittedError, StateError
        If there is no run in this process, nothing was released, or the run goes on: ``close()`` ends it.
    InvalidParameter
        If a parameter or label has no JSON form.
    FileExistsError
        If one of the files exists.
    OSError
        If they cannot be written.

    Examples
    --------
    >>> from privol import DPFTRL
    >>> from privol.state import save_run
    >>> learner = DPFTRL(epsilon=1.0).fit(X, y)  # doctest: +SKIP
    >>> save_run(learner, "monday")  # doctest: +SKIP

    and ``privol verify monday`` in a shell.
    """
    learner: Any = getattr(model, "learner_", model)
    released: Any = learner.best_estimator_ if isinstance(learner, Selection) else model
    encoder: PrivateEncoder | None = getattr(model, "encoder_", None)
    bare = isinstance(learner, (PrivateEncoder, Releases))
    own = getattr(learner, "account_", None) if bare else account_of(learner)
    if own is None or not (released is not model or isinstance(learner, PrivateEncoder) or learner.n_releases_):
        raise StateError("there is no run of this process that has released a model: what is loaded or copied has none")
    accounts = [own] if encoder is None else [encoder.account_, own]
    if not all(account.closed for account in accounts):
        raise StateError("the run goes on: close() ends it")
    folder = Path(directory)
    check_free(folder)
    guarantee: Guarantee = learner.guarantee_
    reserved, users = claims_of(guarantee, accounts)
    record = {
        "format": "privol.run",
        "version": 1,
        "privol": __version__,
        "status": "complete",
        **_what_ran(learner, own),
        "summary": model.guarantee_.summary(),
        "guarantee": guarantee.to_record(),
        "encoding": None if encoder is None else {"mechanism": encoding_record(encoder)},
        "sentence": model.guarantee_.sentence(),
        "users": users,
        "budget": {"delta": guarantee.delta, "reserved": reserved},
        "private_metrics": None,
    }
    text = json.dumps(record, indent=1, allow_nan=False).encode() + b"\n"
    if bare:
        folder.mkdir(exist_ok=True)
    else:
        save_model(released, folder)
    with closing(Ledger(adjacency=guarantee.adjacency, journal=folder / "ledger.jsonl")) as ledger:
        ledger.include(own.ledger, runs={account.plan_id for account in accounts})
    if isinstance(learner, PrivateEncoder):
        write_atomically(folder / "schema.toml", learner.schema_.to_toml().encode())
    write_atomically(folder / "run.json", text)
