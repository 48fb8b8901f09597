"""The only release of a fit on the disk, sealed until it is paid for: no crash can spend without leaving a model."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from .._files import sync_folder, write_atomically
from .._validate import integer
from ..errors import StateError
from ..learners import OfflineLearner
from ..learners.views import Export
from ..ledger import Account, Ledger
from ._checkpoints import Checkpoints
from ._models import (
    ARRAYS,
    RECORD,
    describe_classes,
    describe_parameters,
    name_of,
    read_record,
    write_export,
)

__all__ = ["SealedRelease"]

ACCOUNT = "account.json"


class SealedRelease:
    """The directory of a fit of an offline learner, whose model survives a crash from the moment it is paid for.

    ``learner.fit_stream(stream, seal=SealedRelease("RUN"))`` reserves the budget, fits, writes the model with its noise
    into the folder ``secret`` (mode 0700), closes the account, and only then moves ``model.npz`` and ``model.json`` to
    where they are looked for. There are no checkpoints: noise is drawn once, at the end.

    Parameters
    ----------
    directory : path
        Exists, and holds no model.
    inputs : dict, optional
        As in :func:`save_model`.

    Notes
    -----
    A process that is killed leaves one of three things. Nothing sealed: nothing was released, and the reservation
    counts as spent, as that the process ended may depend on the rows; another fit pays again. A sealed model:
    :meth:`complete` closes the account, if the process could not, and shows the model; its noise is never drawn again.
    A model that is shown: the fit is complete.
    """

    def __init__(self, directory: str | os.PathLike[str], *, inputs: dict[str, Any] | None = None) -> None:
        self.directory = Path(directory)
        self._inputs = inputs
        self._files = Checkpoints(self.directory)
        self._account: Account | None = None  # the account that pays for what is sealed

    def __repr__(self) -> str:
        return f"<SealedRelease of {self.directory}>"

    # ---- what fit_stream calls ------------------------------------------------------------------------------

    def begin(self, learner: OfflineLearner, classes: NDArray[Any] | None) -> None:
        """Refuse what cannot be written: into no directory or one that has a model, or labels without JSON form."""
        if (self.directory / RECORD).exists():
            raise StateError(f"{self.directory}: holds a model already")
        name_of(learner)
        describe_parameters(learner)
        describe_classes(classes)
        if not self.directory.is_dir():
            raise StateError(f"{self.directory}: is not a directory that exists")

    def seal(self, learner: OfflineLearner, export: Export, account: Account) -> None:
        """Write the release and the account that pays for it, where it is hidden."""
        folder = self._files.folder
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(self.directory)
        self._files.clear_drafts()
        self._files.clear_model()
        (folder / ACCOUNT).unlink(missing_ok=True)
        write_export(learner, export, folder, self._inputs)
        # bound to this model: the account does not pay for another one that is copied here
        bound = {"plan_id": account.plan_id, "record": hashlib.sha256((folder / RECORD).read_bytes()).hexdigest()}
        write_atomically(folder / ACCOUNT, json.dumps(bound).encode(), mode=0o600)
        self._account = account

    def holds(self, account: Account) -> bool:
        """Whether a whole release of this account is sealed, which will be shown even if :meth:`seal` failed."""
        if self.read() is None:
            return False
        bound = json.loads((self._files.folder / ACCOUNT).read_text(encoding="utf-8"))
        return bool(bound["plan_id"] == account.plan_id)

    def settled(self) -> None:
        """Show what was sealed: its account is closed."""
        assert self._account is not None
        self._show(self._account)

    def _show(self, account: Account) -> None:
        self._files.show_model(account)
        self._clear()

    def _clear(self) -> None:
        """Remove what is left beside a model that is shown."""
        self._files.clear_drafts()
        (self._files.folder / ACCOUNT).unlink(missing_ok=True)
        self._files.leave_nothing()

    # ---- after a crash --------------------------------------------------------------------------------------

    def read(self) -> dict[str, Any] | None:
        """Return the record of the model sealed here (``model.json``) if it is complete, else None."""
        folder = self._files.folder
        try:
            record = read_record(folder)
            account = json.loads((folder / ACCOUNT).read_text(encoding="utf-8"))
            if account["record"] != hashlib.sha256((folder / RECORD).read_bytes()).hexdigest():
                return None
            account["plan_id"], record["guarantee"], record["arrays"]["sha256"]
            integer(n_rows=record["n_rows"], at_least=0)
        except (StateError, OSError, ValueError, KeyError, TypeError, RecursionError):
            return None  # also where a field is missing, or of another type
        for place in (folder, self.directory):  # after a crash between the two, it is there already
            try:
                content = (place / ARRAYS).read_bytes()
            except OSError:
                continue
            if hashlib.sha256(content).hexdigest() == record["arrays"]["sha256"]:
                return record
        return None

    def complete(self, ledger: Ledger) -> dict[str, Any]:
        """End a fit whose process was killed when its model was sealed: pay for it, and show it.

        If the model is shown already, only what is left of the fit is removed.

        Parameters
        ----------
        ledger : Ledger
            That of the fit, by its journal.

        Returns
        -------
        dict
            The record of the model.

        Raises
        ------
        StateError
            If nothing whole is sealed here, or the ledger has no account of it, or one that was closed unspent.
        """
        record = self.read()
        if record is None and (self.directory / RECORD).exists():
            record = read_record(self.directory)
            self._clear()
            return record
        if record is None:
            raise StateError(f"{self.directory}: no released model is sealed here")
        plan_id = json.loads((self._files.folder / ACCOUNT).read_text(encoding="utf-8"))["plan_id"]
        account = next((a for a in ledger.accounts if a.plan_id == plan_id), None)
        if account is None or account.facts.get("included"):
            raise StateError(
                f"{self.directory}: the ledger {ledger.journal} has no account of the fit whose model is sealed here"
            )
        if record["guarantee"] != account.guarantee.to_record():
            raise StateError(f"{self.directory}: the model that is sealed here has another guarantee than its account")
        if not account.closed:
            account.close_at(record["n_rows"], 1, account.reserved_mu_squared)
        elif account.entry().mu_squared < account.reserved_mu_squared * (1.0 - 1e-9):
            raise StateError(f"{self.directory}: the account of the model that is sealed here was closed without it")
        self._show(account)
        return record
