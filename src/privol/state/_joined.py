"""Releases of a kept run beside its models: each has its own account, and a noise key stored with the run's."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from .._files import write_atomically
from ..errors import StateError
from ..guarantees import Guarantee
from ..ledger import Account, Ledger
from ..noise.bits import KEY_BYTES
from ._unbegun import Unbegun, as_begun

__all__ = ["Joined"]


class Joined:
    """The accounts that stand beside a kept run's own, such as that of private metrics.

    Parameters
    ----------
    folder : Path
        That of the run's secrets.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._accounts: list[Account] = []

    @property
    def open(self) -> list[Account]:
        """The accounts of this process that may still spend."""
        return [account for account in self._accounts if not account.closed]

    def begin(
        self, ledger: Ledger, name: str, guarantee: Guarantee, key: bytes, settings: Any, unbegun: Unbegun
    ) -> Account:
        """Open an account, and write its key and everything that its noise is for, before any noise is drawn."""
        account = unbegun.take(name, guarantee, None, ledger)
        if account is None:
            account = ledger.open(learner=name, guarantee=guarantee, facts={"kept": True})
        text = json.dumps({"key": key.hex(), "plan_id": account.plan_id, "settings": settings})
        write_atomically(self._folder / f"{name}.key", text.encode(), mode=0o600)
        self._accounts.append(account)
        return account

    def go_on(self, ledger: Ledger, name: str, guarantee: Guarantee, settings: Any) -> tuple[Account, bytes]:
        """The account that was opened, and its key; refused for any other release."""
        record = self._read().get(name)
        account = None if record is None else _account_of(ledger, record["plan_id"])
        if record is None or account is None:
            raise StateError(f"the run in this directory has no {name}")
        if not as_begun(guarantee, account.guarantee) or record["settings"] != json.loads(json.dumps(settings)):
            raise StateError(
                f"{name} of the run in this directory has other settings ({record['settings']}, found {settings}) or "
                "another guarantee: it can be resumed only as it began, because other totals with the same noise "
                "would show their difference"
            )
        self._accounts.append(account)
        return account, bytes.fromhex(record["key"])

    def known(self, ledger: Ledger) -> list[Account]:
        """The open accounts that were begun here, in this process or earlier."""
        found = [_account_of(ledger, record["plan_id"]) for record in self._read().values()]
        return [account for account in found if account is not None and not account.closed]

    def leave(self) -> None:
        """Release the accounts that will be continued another time."""
        for account in self.open:
            account.leave()
        self._accounts.clear()

    def _read(self) -> dict[str, Any]:
        found = {}
        for path in sorted(self._folder.glob("*.key")):
            try:
                record = json.loads(path.read_text(encoding="utf-8"))
                found[path.stem] = {"plan_id": str(record["plan_id"]), "settings": record["settings"]}
                key = bytes.fromhex(record["key"])
                if len(key) != KEY_BYTES:
                    raise ValueError(f"the key has {len(key)} bytes, allowed are {KEY_BYTES}")
                found[path.stem]["key"] = key.hex()
            except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
                raise StateError(f"{path} cannot be read: {error!r}") from error
        return found


def _account_of(ledger: Ledger, plan_id: str) -> Account | None:
    with suppress(StopIteration):
        return next(a for a in ledger.accounts if a.plan_id == plan_id and not a.facts.get("included"))
    return None
