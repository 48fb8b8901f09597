"""Wording and figures of a guarantee: what is released, and numbers that are never understated."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context

__all__ = ["RELEASED", "WORDS_OF_RELEASED", "format_up"]

_TOTALS = "the noisy totals (of correct predictions or absolute errors, and of losses) of at most"
WORDS_OF_RELEASED: dict[str, tuple[str, str, str]] = {
    "models": (
        "at most 1 release of the model",
        "at most {} releases of the model",
        "the rows, exact iterates or sums, the noise, progressive accuracy or any other diagnostic",
    ),
    "sums": (
        "at most 1 private prefix sum, with the noisy sums that it is made of,",
        "at most {} private prefix sums, with the noisy sums that they are made of,",
        "the rows, the exact sums, the noise or any diagnostic",
    ),
    "reports": (
        "at most 1 report, a gradient or a loss that was randomized where its row is before anything of it was sent, "
        "to the learner itself, which is trusted with nothing, with every point, model and figure computed from it,",
        "at most {} reports, each a gradient or a loss that was randomized where its row is before anything of it was "
        "sent, to the learner itself, which is trusted with nothing, with every point, model and figure computed from "
        "them,",
        "the rows, the exact gradients, the noise, progressive accuracy or any other diagnostic",
    ),
    "parameters": (
        "at most 1 round of the noisy parameters that nodes send to their neighbours, and go on from themselves, with "
        "every point, model and figure computed from them,",
        "at most {} rounds of the noisy parameters that nodes send to their neighbours, and go on from themselves, "
        "with every point, model and figure computed from them,",
        "the rows, the exact gradients and steps, the noise, progressive accuracy or any other diagnostic",
    ),
    "encoding": (
        # of histograms there are several: what the columns are, and where their numbers or categories lie
        "the schema that was learnt from them, by 1 phase of votes for their features under the Gaussian mechanism,",
        "the schema that was learnt from them, by {} phases of histograms under the Gaussian mechanism, each of "
        "rows of its own,",
        "the rows, the exact counts, the noise or any diagnostic",
    ),
    "metrics": (
        f"{_TOTALS} 1 window of rows, with the models that are evaluated, whether these are published or not,",
        f"{_TOTALS} {{}} windows of rows, with the models that are evaluated, whether these are published or not,",
        "the rows, exact iterates, sums or totals, the noise, any other diagnostic",
    ),
    "metrics_beyond_models": (
        f"{_TOTALS} 1 window of rows",
        f"{_TOTALS} {{}} windows of rows",
        "the rows, the exact totals, the noise, any other diagnostic; and the figures are what the windows add to the "
        "guarantee of the models that were evaluated, which one row moves too: nothing holds without the composition "
        "of the two",
    ),
}
"""By the word of the record: one of it, several, and what else is not covered."""

RELEASED = tuple(WORDS_OF_RELEASED)


def format_up(x: float, digits: int = 4) -> str:
    """Write ``x >= 0`` with at most ``digits`` significant digits, rounded up: no figure is understated.

    The shortest decimal form of the double is what is rounded: 0.1 is written "0.1".
    """
    if math.isinf(x):
        return "infinity"
    if x == 0.0:
        return "0"
    decimal = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(x)).normalize()
    return f"{decimal:f}" if -4 <= decimal.adjusted() < 6 else f"{decimal:e}"
