"""``privol card``: the model card of a run."""

from __future__ import annotations

import json

import click

from .outputs import printing
from .predict import has_model

__all__ = ["card"]


@click.command()
@click.argument("run")
def card(run: str) -> None:
    """Print the model card of RUN, as one JSON object.

    It says what the model is, what it promises and what that does not cover, its parameters, its encoding, and how many
    rows were learnt. It is as public as the model: no metric or diagnostic of the raw rows is on it.

    \b
    Examples:
        privol card RUN
        privol card RUN > card.json
    """
    from ..exporting import model_card

    has_model(run)
    found = model_card(run)
    with printing():
        click.echo(json.dumps(found, indent=1, allow_nan=False))
