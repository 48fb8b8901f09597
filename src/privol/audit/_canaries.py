"""Audits by one run: many canary rows, each in the table or not by its own coin, and guesses which are in it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import binom

from .._validate import choice, integer, number
from .._vocabulary import PROGRAM_ADJACENCIES
from ..errors import InvalidParameter
from ..guarantees import format_up
from ._bounds import FloatArray
from ._neighbours import table_of
from ._programs import Command, program_of

__all__ = ["CanaryAudit", "audit_canaries", "canary_p_value"]

_SHARES = (1, 2, 4, 8)  # guesses on all canaries, on half of them, ...


@dataclass(frozen=True, kw_only=True)
class CanaryAudit:
    """A claim about a program, and what guesses after one run say against it.

    Attributes
    ----------
    program, adjacency : str
        What was audited, and how neighbouring tables differ.
    epsilon, delta : float
        The claim.
    refuted : bool
        Whether ``p_value`` is at most ``error``.
    p_value : float
        Probability with which guesses after a run of a program that keeps its claim are at least as good, at most.
    error : float
        Largest probability with which a true claim is refuted.
    epsilon_lower : float
        Lower bound on epsilon at ``delta``, with ``confidence``.
    confidence : float
        See there.
    canaries : int
        Rows that are in the table or not.
    guesses, correct : int
        Those that decided, and how many of them were right.
    """

    program: str
    adjacency: str
    epsilon: float
    delta: float
    refuted: bool
    p_value: float
    error: float
    epsilon_lower: float
    confidence: float
    canaries: int
    guesses: int
    correct: int

    def sentence(self) -> str:
        """Return the audit as plain text."""
        verdict = "THE CLAIM IS REFUTED" if self.refuted else "Nothing here contradicts the claim"
        return (
            f"{self.program}, adjacency {self.adjacency!r}: claimed (epsilon, delta) = ({format_up(self.epsilon)}, "
            f"{format_up(self.delta)}). {verdict}: after one run with {self.canaries:,} canaries {self.correct:,} of "
            f"{self.guesses:,} guesses were right, p <= {max(self.p_value, 1e-300):.2g}; a true claim is refuted "
            f"with a probability of at most {self.error:g}. With confidence {self.confidence:.10g}, epsilon >= "
            f"{math.floor(self.epsilon_lower * 1e4) / 1e4:g} at that delta."
        )

    def to_record(self) -> dict[str, Any]:
        """Return the audit as JSON values."""
        return {"format": "privol.audit.canaries", "version": 1, **asdict(self), "sentence": self.sentence()}

    def to_json(self) -> str:
        """Return the audit as JSON text."""
        return json.dumps(self.to_record(), allow_nan=False)


def canary_p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Largest probability of this many right guesses, for a program that satisfies (epsilon, delta).

    Parameters
    ----------
    canaries, guesses, correct : int
        ``correct <= guesses <= canaries``.
    epsilon, delta : float
        The claim for one canary.

    Notes
    -----
    Steinke, Nasr and Jagielski 2023, Theorem 5.2: with B binomial of ``guesses`` trials that succeed with
    ``e^epsilon / (1 + e^epsilon)``, it is ``P(B >= v) + 2 m delta max_i P(v - i <= B < v) / i``.
    """
    if not correct:
        return 1.0
    right = 1.0 / (1.0 + math.exp(-epsilon))
    p = float(binom.sf(correct - 1, guesses, right))
    if delta > 0.0:
        i = np.arange(1, correct + 1)
        below = np.cumsum(binom.pmf(correct - i, guesses, right))
        p += 2.0 * canaries * delta * float((below / i).max())
    return min(1.0, p * (1.0 + 1e-9))


def _default_score(released: FloatArray, differences: FloatArray) -> FloatArray:
    if len(released) != differences.shape[1]:
        raise InvalidParameter(
            f"score must be given: the program releases {len(released)} values, and rows have {differences.shape[1]}"
        )
    return np.asarray(differences @ released)


def audit_canaries(
    program: Callable[[FloatArray], Any] | Command,
    canaries: Any,
    *,
    alternatives: Any = None,
    others: Any = None,
    epsilon: float,
    delta: float = 0.0,
    adjacency: str = "add_remove",
    score: Callable[[FloatArray, FloatArray], Any] | None = None,
    error: float = 1e-6,
    confidence: float = 0.99,
    random_state: int | None = None,
    name: str | None = None,
) -> CanaryAudit:
    """Try to refute what a program claims, by one run with many canaries.

    Parameters
    ----------
    program : callable or Command
        As for :func:`audit_program`. It is run once.
    canaries : array-like of shape (canaries, columns)
        Rows, each of which is in the table with probability 1/2. The less they touch each other in what is released,
        the better.
    alternatives : array-like of shape (canaries, columns), optional
        What stands in the place of those that are not in, where ``adjacency`` is "replace". Default: their negatives.
    others : array-like of shape (rows, columns), optional
        Rows that are in the table before them. Default: none.
    epsilon, delta : float
        The claim, for one row.
    adjacency : {"add_remove", "replace", "zero_out"}, default="add_remove"
        A canary that is not in is left out, is its alternative, or is zeros.
    score : callable, optional
        ``score(released, canaries)`` returns one number for each canary, the larger the likelier it is in. Default: the
        inner product of what is released with the canary (less its alternative), where both are as long.
    error : float, default=1e-6
        Largest probability with which a true claim is refuted, above 0 and below 1.
    confidence : float, default=0.99
        Of the lower bound; at least 0.5, below 1.
    random_state : None or int
        Of the coins. None: from the operating system.
    name : str, optional
        For the sentence. Default: the program's own.

    Returns
    -------
    CanaryAudit

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range, or a row is not finite.
    ProgramFailure
        If the program fails.

    Notes
    -----
    Steinke, Nasr and Jagielski 2023, *Privacy auditing with one (1) training run*. The highest scores are guessed to be
    in, the lowest to be out, and on those between nothing is guessed: on all canaries, a half, a quarter and an
    eighth of them, and each of the four has a quarter of ``error``. The bound holds for any program, scores
    and rows. It is lower than that of many runs, and costs one.

    Examples
    --------
    >>> import numpy as np
    >>> from privol.audit import audit_canaries
    >>> rng = np.random.default_rng(3)
    >>> def noisy_sums(rows):  # of rows of L1 norm 1, with a fifth of the noise for epsilon = 1
    ...     return rows.sum(axis=0) + rng.laplace(scale=0.2, size=400)
    >>> found = audit_canaries(noisy_sums, np.eye(400), epsilon=1.0, random_state=4)
    >>> found.refuted, found.epsilon_lower > 2.0
    (True, True)
    """
    epsilon = number(epsilon=epsilon, at_least=0.0, at_most=500.0)
    delta = number(delta=delta, at_least=0.0, below=1.0)
    choice(PROGRAM_ADJACENCIES, adjacency=adjacency)
    error = number(error=error, above=0.0, below=1.0)
    confidence = number(confidence=confidence, at_least=0.5, below=1.0)
    rows = np.asarray(canaries, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < 2:
        raise InvalidParameter(
            f"canaries must have a shape (canaries, columns), 2 canaries at least, found {rows.shape}"
        )
    m, columns = rows.shape
    rows = table_of(rows, columns, "canaries")
    if alternatives is not None and adjacency != "replace":
        raise InvalidParameter(f"alternatives are for adjacency 'replace', found {adjacency!r}")
    out = np.zeros_like(rows)
    if adjacency == "replace":
        out = -rows if alternatives is None else table_of(alternatives, columns, "alternatives")
        if len(out) != m:
            raise InvalidParameter(f"alternatives must have one row for each of {m} canaries, found {len(out)}")
    before = np.empty((0, columns)) if others is None else table_of(others, columns, "others")
    rng = np.random.default_rng(None if random_state is None else integer(random_state=random_state, at_least=0))
    inside = np.less(rng.random(m), 0.5)
    table = rows[inside] if adjacency == "add_remove" else np.where(inside[:, None], rows, out)
    audited = program_of(program, name)
    try:
        (released,) = audited.released(np.concatenate([before, table]), 1)
    finally:
        audited.close()
    scores = np.asarray(
        _default_score(released, rows - out) if score is None else score(released, rows), dtype=np.float64
    )
    if scores.shape != (m,) or np.isnan(scores).any():
        raise InvalidParameter(f"score must return a number for each of {m} canaries, found shape {scores.shape}")
    order = np.argsort(scores, kind="stable")
    results = []
    for share in _SHARES:
        each = m // share // 2
        if each:
            correct = int(inside[order[m - each :]].sum() + (~inside[order[:each]]).sum())
            results.append((2 * each, correct))

    def p_value(claimed: float) -> tuple[float, int]:
        found = [canary_p_value(m, guesses, correct, claimed, delta) for guesses, correct in results]
        return min(1.0, len(results) * min(found)), int(np.argmin(found))

    p, decided = p_value(epsilon)
    lower = 0.0
    for tried in np.arange(1, 2000) / 100:  # the first that stands ends it: only the smallest true one could be unlucky
        if p_value(float(tried))[0] > 1.0 - confidence:
            break
        lower = float(tried)
    guesses, correct = results[decided]
    return CanaryAudit(
        program=audited.title, adjacency=adjacency, epsilon=epsilon, delta=delta, refuted=p <= error, p_value=p,
        error=error, epsilon_lower=lower, confidence=confidence, canaries=m, guesses=guesses, correct=correct,
    )  # fmt: skip
