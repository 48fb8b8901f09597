"""``privol publish`` and ``privol registry``: released models as versions that never change."""

from __future__ import annotations

import json
from typing import Any

import click

from ..errors import PrivolError, StateError
from .outputs import printing
from .predict import has_model

__all__ = ["publish", "registry"]


@click.command()
@click.argument("run")
@click.argument("registry", metavar="REGISTRY")
@click.option("--name", required=True, help="Name of the model: letters, digits, _ and -.")
@click.option("--key", metavar="PEM", help="Private key of Ed25519 that signs the version.")
@click.option("--current/--not-current", default=True, show_default=True, help="Whether it is served from now on.")
@click.option("--not-private", is_flag=True, help="Publish even a model that is marked NOT PRIVATE.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def publish(
    run: str, registry: str, name: str, key: str | None, current: bool, not_private: bool, as_json: bool
) -> None:
    """Add the released model of RUN to a REGISTRY.

    It is the next version of a name: the model, its guarantee and its model card, with digests of all three. A version
    never changes. REGISTRY is a directory, which is made if it does not exist. Of a run that lasts (with privol run
    --show-releases) RUN/released has the model.

    \b
    Examples:
        privol publish RUN MODELS --name readmission
        openssl genpkey -algorithm ed25519 -out key.pem
        openssl pkey -in key.pem -pubout -out team.pem
        privol publish RUN MODELS --name readmission --key key.pem
        privol serve MODELS --public-key team.pem
    """
    from ..serving import Registry

    has_model(run)
    found = Registry(registry).publish(run, name, key=key, current=current, allow_not_private=not_private)
    with printing(f"; {found.path} is published"):
        if as_json:
            click.echo(json.dumps(_told(found)))
            return
        which = "" if current else ", which is not current"
        click.echo(f"{found.path}: version {found.number} of {name}{'' if found.signed else ', not signed'}{which}")


@click.command()
@click.argument("registry", metavar="REGISTRY")
@click.option("--public-key", metavar="PEM", help="Accept only versions that this key of Ed25519 has signed.")
@click.option("--name", help="Of this model alone.")
@click.option("--use", type=click.IntRange(min=1), metavar="NUMBER", help="Make this version of --name the current.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def registry(registry: str, public_key: str | None, name: str | None, use: int | None, as_json: bool) -> None:
    """Verify and list the versions in a REGISTRY.

    Exit code 5 if one is damaged, or not signed as it must be.

    \b
    Examples:
        privol registry MODELS
        privol registry MODELS --public-key team.pem
        privol registry MODELS --name readmission --use 3
    """
    from ..serving import Registry

    if use is not None and name is None:
        raise click.UsageError("--use is the number of a version of --name")
    models = Registry(registry, public_key=public_key, create=False)
    if use is not None and name is not None:
        models.use(name, use)
    rows = [row for each in (models.names if name is None else [name]) for row in _rows(models, each)]
    with printing():
        if as_json:
            click.echo(json.dumps({"versions": rows}))
        for row in [] if as_json else rows:
            mark = "*" if row["current"] else " "
            said = row["problem"] or f"{row['published']}  {'signed' if row['signed'] else 'not signed'}"
            click.echo(f"{mark} {row['name']} {row['number']}  {said}")
    wrong = sum(row["problem"] is not None for row in rows)
    if wrong:
        raise StateError(f"{registry}: {wrong} of {len(rows)} version(s) cannot be used")


def _told(version: Any) -> dict[str, Any]:
    return {
        "name": version.name,
        "number": version.number,
        "path": str(version.path),
        "published": version.published,
        "manifest": version.manifest,
        "signed": version.signed,
    }


def _rows(models: Any, name: str) -> list[dict[str, Any]]:
    try:
        current = models.current(name)
    except StateError:  # none yet
        current = None
    rows = []
    for number in models.numbers(name):
        try:
            row: dict[str, Any] = {**_told(models.version(name, number)), "problem": None}
        except PrivolError as error:
            row = {"name": name, "number": number, "published": None, "signed": None, "problem": str(error)}
        rows.append({**row, "current": number == current})
    return rows
