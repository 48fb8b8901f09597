"""``privol plan`` and ``privol info``: what can be known without data."""

from __future__ import annotations

import json
from typing import Any

import click

from .options import given_parameters, learner_options

__all__ = ["info", "plan"]


@click.command()
@click.option("--n-features", type=int, required=True, help="Features of a row, without the intercept.")
@click.option("--horizon", type=int, required=True, help="Rows that the budget must last for.")
@learner_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def plan(n_features: int, horizon: int, learner: str, as_json: bool, **options: Any) -> None:
    """Say what noise a budget means, before anything is spent.

    For some releases: how far one row can move the model (sensitivity), the noise in each coordinate, the length of the
    noise vector, and the noise in the score of a row of the largest norm beside the largest score there is. Then a
    verdict and, where noise drowns the signal, what would help.

    \b
    Examples:
        privol plan --n-features 54 --horizon 500000
        privol plan --n-features 54 --horizon 500000 --release 1000 --epsilon 0.5 --radius 10
        privol plan --n-features 54 --horizon 500000 --calibration published --release all
    """
    from ..planning import plan as make_plan
    from ..report import plan_report, show

    found = make_plan(learner, n_features=n_features, horizon=horizon, **given_parameters(options))
    if as_json:
        click.echo(found.to_json())
    else:
        show(plan_report(found))


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def info(as_json: bool) -> None:
    """Show versions and choices of this installation: what a bug report needs."""
    from ..config import show_config
    from ..report import info_report, show

    found = show_config()
    if as_json:
        click.echo(json.dumps(found))
    else:
        show(info_report(found))
