"""Audits of programs other than privol: neighbouring tables found by search, and evidence valid at any time."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from .._validate import choice, integer, number
from .._vocabulary import PROGRAM_ADJACENCIES, PROGRAM_FAILURES
from ..errors import InvalidParameter, ProgramFailure
from ..guarantees import format_up, gdp_delta, gdp_epsilon
from ._bounds import FloatArray, bounds
from ._events import Event, Point, best_event
from ._evidence import Evidence
from ._exact import exact_deltas
from ._neighbours import Domain, Pair, given_pair, mutated, pairs_to_try, table_of
from ._programs import FAILED, Command, Program, joined, program_of

__all__ = ["ProgramAudit", "audit_program"]

_AT_ONCE = 500  # runs per request
_FIRST_RUNS = 24  # for each pair that is tried
_KEPT = 3  # pairs that are examined to the end


@dataclass(frozen=True, kw_only=True)
class ProgramAudit:
    """A claim about a program, and what its runs on neighbouring tables say against it.

    Attributes
    ----------
    program : str
        What was audited.
    adjacency : str
        How the two tables differ.
    epsilon, delta : float
        The claim.
    mu : float or None
        The claim in Gaussian differential privacy, if it is one.
    refuted : bool
        Whether the evidence reached ``1 / error``. A true claim is refuted with a probability of at most ``error``,
        however many pairs and events were tried and whenever the audit ended.
    log_evidence : float
        Natural logarithm of the evidence against the claim; ``inf`` where the distributions are known and refute it.
    error : float
        See ``refuted``.
    epsilon_refuted : float
        Largest epsilon (of a grid) up to which the same evidence refutes a claim at ``delta``, with the same
        ``error``: a lower bound on epsilon that holds with confidence ``1 - error``. 0: none. Of a claim in ``mu``:
        that of ``mu_refuted``.
    mu_refuted : float or None
        The same of a claim in ``mu``.
    epsilon_lower, mu_lower : float
        Clopper and Pearson's lower bounds on epsilon at ``delta`` and on mu, the largest over the stages of the
        audit; each holds with ``confidence`` for all stages together.
    confidence : float
        See there.
    runs : int
        On each of two tables, of all pairs together.
    stages : int
        Times at which the evidence was evaluated.
    pairs : int
        Pairs of neighbouring tables that were tried.
    pair : Pair or None
        The one with most runs: ``first``, ``second``, ``at`` (the number of the row in which they differ).
    event : str
        What the last bets were made on.
    counts : tuple of int
        How often it happened in the last stage: on the table where it is the likelier, on the other, and runs.
    likelier : {"first", "second", ""}
        Which table of the pair that is; "" if there is no event.
    exact : float or None
        delta at the claimed epsilon, by known distributions (a lower bound; ``epsilon_lower`` is 0 then).
    skipped : tuple of str
        What the program said of tables that were left out.
    remark : str
        What is odd about the runs: "" if nothing is.
    """

    program: str
    adjacency: str
    epsilon: float
    delta: float
    mu: float | None
    refuted: bool
    log_evidence: float
    error: float
    epsilon_refuted: float
    mu_refuted: float | None
    epsilon_lower: float
    mu_lower: float
    confidence: float
    runs: int
    stages: int
    pairs: int
    pair: Pair | None
    event: str
    counts: tuple[int, int, int]
    likelier: str
    exact: float | None
    skipped: tuple[str, ...]
    remark: str

    def sentence(self) -> str:
        """Return the audit as plain text."""
        claim = f"(epsilon, delta) = ({format_up(self.epsilon)}, {format_up(self.delta)})"
        if self.mu is not None:
            claim += f", {format_up(self.mu)}-GDP"
        where = "" if self.pair is None else f" The pair with most runs: {self.pair.sentence()}."
        head = f"{self.program}, adjacency {self.adjacency!r}: claimed {claim}. "
        tail = "" if not self.remark else f" {self.remark}"
        if self.skipped:
            tail += f" {len(self.skipped)} pairs were left out, because the program fails there: {self.skipped[0]}."
        if self.exact is not None:
            verdict = "THE CLAIM IS REFUTED" if self.refuted else "Nothing here contradicts the claim"
            return (
                f"{head}{verdict}: its distributions on {self.pairs:,} pairs of neighbouring tables need delta = "
                f"{self.exact:.6g} at that epsilon.{where.replace('with most runs', 'that needs most')}{tail}"
            )
        evidence, needed = self.log_evidence / math.log(10.0), -math.log10(self.error)
        verdict = (
            f"THE CLAIM IS REFUTED: the evidence is 10^{evidence:.1f}, where 10^{needed:.3g} refutes"
            if self.refuted
            else f"Nothing here contradicts the claim (which does not prove it): the evidence is 10^{evidence:.1f}, "
            f"where 10^{needed:.3g} would refute"
        )
        likelier, other, runs = self.counts
        event = (
            f" The event that {self.event} happened in {likelier:,} of {runs:,} runs on the {self.likelier} table, and "
            f"in {other:,} on the other."
        )
        return (
            f"{head}{verdict}, and a true claim is refuted with a probability of at most {self.error:g}. "
            f"{self.runs:,} runs on either table of {self.pairs:,} pairs.{where}"
            f"{event if self.event else ''} With confidence {self.confidence:.10g} each, "
            f"epsilon >= {_down(self.epsilon_lower)} at that delta, mu >= {_down(self.mu_lower)}.{tail}"
        )

    def to_record(self) -> dict[str, Any]:
        """Return the audit as JSON values; the word "inf" stands for infinity."""
        figures = {name: value for name, value in asdict(self).items() if name != "pair"}
        pair = self.pair
        tables = None
        if pair is not None:
            tables = {"first": pair.first.tolist(), "second": pair.second.tolist(), "at": pair.at, "kind": pair.kind}
        record = {name: "inf" if value == math.inf else value for name, value in figures.items()}
        record["counts"], record["skipped"] = list(self.counts), list(self.skipped)
        return {"format": "privol.audit.program", "version": 1, **record, "pair": tables, "sentence": self.sentence()}

    def to_json(self) -> str:
        """Return the audit as JSON text."""
        return json.dumps(self.to_record(), allow_nan=False)


def _down(x: float) -> str:
    return "0" if x <= 0.0 else f"{math.floor(x * 1e4) / 1e4:g}"


@dataclass
class _Watched:
    """A pair, and all releases on its two tables so far."""

    pair: Pair
    released: list[FloatArray] = field(default_factory=list)
    event: Event | None = None

    @property
    def value(self) -> float:
        return -math.inf if self.event is None else self.event.growth

    @property
    def runs(self) -> int:
        return len(self.released[0]) if self.released else 0

    def add(self, batch: list[FloatArray]) -> None:
        if not self.released:
            self.released = batch
            return
        for k in (0, 1):
            width = max(self.released[k].shape[1], batch[k].shape[1])
            both = [np.pad(x, ((0, 0), (0, width - x.shape[1]))) for x in (self.released[k], batch[k])]
            self.released[k] = np.concatenate(both)


@dataclass
class _Claim:
    """A claim as inequalities; a claim of mu has one for each epsilon."""

    epsilon: float
    delta: float
    mu: float | None

    def points(self) -> list[Point]:
        if self.mu is None:
            return [Point(self.epsilon, self.delta)]
        # the privacy loss is normal with mean mu^2 / 2 and deviation mu
        losses = {max(0.0, self.mu**2 / 2 + k * self.mu) for k in (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.5)} | {0.0}
        return [Point(loss, gdp_delta(loss, self.mu)) for loss in sorted(losses)]

    def at(self, value: float) -> Callable[[float], Point]:
        """The inequalities of a similar claim, with another epsilon (or mu)."""
        if self.mu is None:
            return lambda _: Point(value, self.delta)
        return lambda epsilon: Point(epsilon, gdp_delta(epsilon, value))

    @property
    def value(self) -> float:
        return self.epsilon if self.mu is None else self.mu


def audit_program(
    program: Callable[[FloatArray], Any] | Command,
    *,
    domain: Domain,
    epsilon: float | None = None,
    delta: float = 0.0,
    mu: float | None = None,
    adjacency: str = "replace",
    sizes: Sequence[int] | None = None,
    tables: Sequence[Any] = (),
    pair: tuple[Any, Any] | None = None,
    at_most_pairs: int = 96,
    runs: int | None = None,
    seconds: float | None = None,
    error: float = 1e-6,
    confidence: float = 0.99,
    low_bits: bool = False,
    failures: str = "raise",
    random_state: int | None = None,
    name: str | None = None,
) -> ProgramAudit:
    """Try to refute what a program claims, by runs on neighbouring tables that are found by search.

    Parameters
    ----------
    program : callable or Command
        ``program(rows)`` gets an array of shape (rows, columns) and returns what it releases: numbers, or arrays of
        numbers. Each call draws new noise. If it has an attribute ``many``, ``many(rows, runs)`` is called instead and
        returns the releases of that many independent runs. If it has an attribute ``distribution``,
        ``distribution(rows)`` returns probabilities or a distribution as :func:`exact_delta` takes them: then nothing
        is run. A :class:`Command` is a program of any language.
    domain : Domain
        The rows that the claim is for.
    epsilon, delta : float
        The claim; epsilon may be left out where ``mu`` is given.
    mu : float, optional
        The claim in Gaussian differential privacy, above 0; then ``delta`` only names the delta of the figures of
        epsilon, above 0 (default 1e-5).
    adjacency : {"replace", "add_remove", "zero_out"}, default="replace"
        How the tables differ: a row is another one; one table has a row more; a row is zeros.
    sizes : sequence of int, optional
        Numbers of rows of the tables that are tried (of the smaller one, for "add_remove": 0 is an empty table).
        Default: 1, 2 and 10; for "add_remove" 0, 1 and 10.
    tables : sequence of array-like of shape (rows, columns)
        Further tables whose neighbours are tried, such as real data.
    pair : pair of array-like, optional
        Two neighbouring tables: nothing is searched.
    at_most_pairs : int, default=96
        Pairs that are tried, at least 1.
    runs : int, optional
        On each of two tables, of all pairs together; at least 200. Default: 20,000, but 1,000 of a command that is
        started for each run.
    seconds : float, optional
        No further stage begins after this many seconds, above 0; the figures are as valid as without it.
    error : float, default=1e-6
        Largest probability with which a true claim is refuted, above 0 and below 1.
    confidence : float, default=0.99
        Of the two lower bounds, each on its own; at least 0.5, below 1.
    low_bits : bool, default=False
        Whether to look at the last bits of what is released too: noise that is drawn and added in floating point
        shows there what it was added to. Such a claim is then refuted as it is run, however right it is for real
        numbers.
    failures : {"raise", "skip", "count"}, default="raise"
        What happens where the program fails on a table: the audit ends with the error; the pair is left out and
        reported; a failure is taken as one more thing that a run may release.
    random_state : None or int
        Which of many pairs are tried. It is not handed to the program.
    name : str, optional
        For the sentence. Default: the program's own.

    Returns
    -------
    ProgramAudit

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range, or a table has rows that are not finite or not as long as the domain.
    ProgramFailure
        If the program fails, or on all pairs with ``failures="skip"``.

    Notes
    -----
    A quarter of the runs goes into the search: most pairs get 24 runs and the better ones more, and pairs like them are
    tried too. The rest is used in stages of growing size. Before each of them the pair and the event are chosen by
    all earlier runs; then the evidence is multiplied by what bets on that event gained (see ``docs/audit.md``). It is
    assumed that runs are independent of each other.

    Examples
    --------
    >>> import numpy as np
    >>> from privol.audit import Domain, audit_program
    >>> rng = np.random.default_rng(1)
    >>> def noisy_sum(rows):  # of values in [-1, 1], with the sensitivity of rows that are added or removed
    ...     return rows.sum() + rng.laplace()
    >>> found = audit_program(noisy_sum, domain=Domain([-1.0], [1.0]), epsilon=1.0, adjacency="replace", random_state=1)
    >>> found.refuted, found.pair.first[found.pair.at - 1], found.pair.second[found.pair.at - 1]
    (True, array([1.]), array([-1.]))
    >>> audit_program(noisy_sum, domain=Domain([-1.0], [1.0]), epsilon=1.0, adjacency="add_remove").refuted
    False
    """
    claim = _claimed(epsilon, delta, mu)
    choice(PROGRAM_ADJACENCIES, adjacency=adjacency)
    choice(PROGRAM_FAILURES, failures=failures)
    error = number(error=error, above=0.0, below=1.0)
    confidence = number(confidence=confidence, at_least=0.5, below=1.0)
    at_most_pairs = integer(at_most_pairs=at_most_pairs, at_least=1)
    seconds = None if seconds is None else number(seconds=seconds, above=0.0)
    once = isinstance(program, Command) and not program.requests
    runs = integer(runs=(1_000 if once else 20_000) if runs is None else runs, at_least=200)
    rng = np.random.default_rng(None if random_state is None else integer(random_state=random_state, at_least=0))
    if pair is not None:
        chosen = [given_pair(*pair, domain.columns, adjacency)]
    else:
        least = 0 if adjacency == "add_remove" else 1
        sizes = ((0, 1, 10) if not least else (1, 2, 10)) if sizes is None else sizes
        for k, size in enumerate(sizes):
            integer(**{f"sizes[{k}]": size}, at_least=least)
        given = [table_of(table, domain.columns, f"table {k + 1}") for k, table in enumerate(tables)]
        if any(not len(table) for table in given):
            raise InvalidParameter("tables must have rows: sizes has the empty one")
        chosen = pairs_to_try(domain, adjacency=adjacency, sizes=sizes, tables=given, at_most=at_most_pairs, rng=rng)
    if not chosen:
        raise InvalidParameter("there is no pair of neighbouring tables: domain has one row only, or sizes is empty")
    audited = program_of(program, name)
    distribution = getattr(program, "distribution", None)
    deadline = None if seconds is None else time.monotonic() + seconds
    if distribution is not None and failures == "count":
        raise InvalidParameter("failures must be 'raise' or 'skip' where the program states its distribution")
    campaign = _Campaign(audited, claim, domain, adjacency, failures, low_bits, rng, deadline)
    try:
        if distribution is not None:
            return campaign.exactly(distribution, chosen)
        return campaign.audit(chosen, runs, error, confidence, search=pair is None)
    finally:
        audited.close()


def _claimed(epsilon: float | None, delta: float, mu: float | None) -> _Claim:
    delta = number(delta=delta, at_least=0.0, below=1.0)
    if mu is None:
        if epsilon is None:
            raise InvalidParameter("epsilon must be given, or mu")
        return _Claim(number(epsilon=epsilon, at_least=0.0, at_most=500.0), delta, None)
    if epsilon is not None:
        raise InvalidParameter("epsilon and mu are two claims: audit one at a time")
    mu, delta = number(mu=mu, above=0.0, at_most=100.0), delta or 1e-5
    return _Claim(gdp_epsilon(mu, delta), delta, mu)


@dataclass
class _Campaign:
    """The runs of one audit."""

    program: Program
    claim: _Claim
    domain: Domain
    adjacency: str
    failures: str
    low_bits: bool
    rng: np.random.Generator
    deadline: float | None
    used: int = 0
    tried: int = 0
    skipped: list[str] = field(default_factory=list)

    def _late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def _released(self, rows: FloatArray, runs: int) -> FloatArray:
        if self.failures != "count":
            parts = [min(_AT_ONCE, runs - k) for k in range(0, runs, _AT_ONCE)]
            return joined([one for part in parts for one in self.program.released(rows, part)])
        found: list[FloatArray | None] = []
        for _ in range(runs):
            try:
                found += self.program.released(rows, 1)
            except ProgramFailure:
                found.append(None)
        return joined(found)

    def run(self, watched: _Watched, runs: int) -> list[FloatArray]:
        """Run both tables of a pair, and store the releases with it."""
        self.used += runs
        batch = [self._released(table, runs) for table in (watched.pair.first, watched.pair.second)]
        watched.add(batch)
        return batch

    def judge(self, watched: _Watched, z: float = 1.5) -> None:
        first, second = watched.released
        watched.event = best_event(first, second, self.claim.points(), low_bits=self.low_bits, z=z)

    def _tried(self, pair: Pair, runs: int) -> _Watched | None:
        self.tried += 1
        watched = _Watched(pair)
        try:
            self.run(watched, runs)
        except ProgramFailure as failure:
            self._failed(pair, failure)
            return None
        self.judge(watched)
        return watched

    def search(self, pairs: list[Pair], budget: int) -> list[_Watched]:
        """The pairs that look worst, after at most ``budget`` runs (or the runs that one pair needs)."""
        first = max(2, min(_FIRST_RUNS, budget // 2 // len(pairs)))
        pairs = pairs[: max(1, budget // 2 // first)]
        alive: list[_Watched] = []
        for pair in pairs:
            if alive and self._late():
                break
            watched = self._tried(pair, first)
            alive += [watched] if watched else []
        if not alive:
            raise self._fails_everywhere()
        if len(alive) == 1:
            return alive
        alive.sort(key=lambda w: -w.value)
        best = alive[: max(_KEPT, len(alive) // 8)]
        for watched in [*best]:  # pairs like the best ones
            if self._late():
                break
            other = mutated(watched.pair, self.domain, self.adjacency, self.rng)
            if other is not watched.pair:
                like = self._tried(other, first)
                best += [like] if like else []
        more = first
        while len(best) > _KEPT and not self._late():
            best = sorted(best, key=lambda w: -w.value)[: max(_KEPT, len(best) // 2)]
            more = min(4 * more, max(first, (budget - self.used) // (2 * len(best))))
            for watched in best:
                self.run(watched, more)
                self.judge(watched)
        return sorted(best, key=lambda w: -w.value)[:_KEPT]

    def audit(
        self, pairs: list[Pair], runs: int, error: float, confidence: float, *, search: bool
    ) -> ProgramAudit:  # fmt: skip
        if search:
            alive = self.search(pairs, runs // 4)
        else:
            watched = self._tried(pairs[0], max(100, runs // 16))
            if watched is None:
                raise ProgramFailure(self.skipped[0])
            alive = [watched]
        evidence, lower, stage = Evidence(), [0.0, 0.0], 0
        counts, event = (0, 0, 0), None
        size = max(50, (runs - self.used) // 31)
        while self.used < runs and not (stage and self._late()):
            size = min(size, runs - self.used)
            if runs - self.used - size < size:  # no short stage at the end
                size = runs - self.used
            stage += 1
            for watched in alive:
                self.judge(watched, z=1.0)
            chosen = max(alive, key=lambda w: w.value)
            before = [table.copy() for table in chosen.released]
            batch = self.run(chosen, size)
            size *= 2
            if chosen.event is None:  # nothing has varied so far
                continue
            event = chosen.event
            happened = [event.happened(table) for table in batch]
            counts = (int(happened[event.likelier].sum()), int(happened[1 - event.likelier].sum()), len(batch[0]))
            evidence.add(happened[event.likelier], happened[1 - event.likelier], event.point)
            self._bound(lower, event, before, batch, (1.0 - confidence) / (stage * (stage + 1)))
            if evidence.log_wealth(self.claim.at(self.claim.value)) >= -math.log(error):
                break
        log_evidence = evidence.log_wealth(self.claim.at(self.claim.value))
        most = max(alive, key=lambda w: w.runs)
        refuted_to = self._refuted_to(evidence, error)
        is_mu = self.claim.mu is not None
        return ProgramAudit(
            program=self.program.title, adjacency=self.adjacency, epsilon=self.claim.epsilon, delta=self.claim.delta,
            mu=self.claim.mu, refuted=log_evidence >= -math.log(error), log_evidence=log_evidence, error=error,
            epsilon_refuted=(gdp_epsilon(refuted_to, self.claim.delta) * (1 - 1e-12)) if is_mu else refuted_to,
            mu_refuted=refuted_to if is_mu else None, epsilon_lower=lower[0], mu_lower=lower[1], confidence=confidence,
            runs=self.used, stages=stage, pairs=self.tried, pair=most.pair,
            event="" if event is None else event.sentence(), counts=counts,
            likelier="" if event is None else ("first", "second")[event.likelier], exact=None,
            skipped=tuple(self.skipped),
            remark=self._remark(alive),
        )  # fmt: skip

    def exactly(self, distribution: Callable[[FloatArray], Any], pairs: list[Pair]) -> ProgramAudit:
        """What the known distributions on these pairs say."""
        worst, excess, most = None, -math.inf, 0.0
        points = self.claim.points()
        epsilons = [*(point.epsilon for point in points), self.claim.epsilon]
        for pair in pairs:
            if worst is not None and self._late():
                break
            self.tried += 1
            try:
                laws = distribution(pair.first.copy()), distribution(pair.second.copy())
            except ProgramFailure as failure:
                self._failed(pair, failure)
                continue
            try:
                *needed, there = exact_deltas(*laws, epsilons, cells=8_000)
            except InvalidParameter as error:
                where = f"{self.program.title!r} stated distributions that cannot be compared, on {pair.sentence()}"
                raise ProgramFailure(f"{where}: {error}") from error
            over = max(delta - point.delta for delta, point in zip(needed, points, strict=True))
            if over > excess:
                worst, excess = pair, over
            most = max(most, there)
        if worst is None:
            raise self._fails_everywhere()
        refuted = excess > 1e-9  # far above the rounding errors of distribution functions
        return ProgramAudit(
            program=self.program.title, adjacency=self.adjacency, epsilon=self.claim.epsilon, delta=self.claim.delta,
            mu=self.claim.mu, refuted=refuted, log_evidence=math.inf if refuted else 0.0, error=0.0,
            epsilon_refuted=0.0, mu_refuted=None, epsilon_lower=0.0, mu_lower=0.0, confidence=1.0, runs=0, stages=0,
            pairs=self.tried, pair=worst, event="", counts=(0, 0, 0), likelier="", exact=most,
            skipped=tuple(self.skipped), remark="",
        )  # fmt: skip

    def _failed(self, pair: Pair, failure: ProgramFailure) -> None:
        """Leave a pair out, or raise the error."""
        if self.failures == "raise":
            failure.add_note(f"on {pair.sentence()}; other sizes, or failures='skip', leave such tables out")
            raise failure
        self.skipped.append(str(failure))

    def _fails_everywhere(self) -> ProgramFailure:
        return ProgramFailure(f"{self.program.title!r} fails on all pairs of tables; the first: {self.skipped[0]}")

    def _bound(
        self, lower: list[float], event: Event, before: list[FloatArray], batch: list[FloatArray], risk: float
    ) -> None:
        """Raise the lower bounds by a stage, with the statistic and thresholds chosen from earlier runs."""
        sign = (1.0 if event.above else -1.0) * (1.0 if event.likelier == 1 else -1.0)
        train, test = ((sign * event.score(tables[0]), sign * event.score(tables[1])) for tables in (before, batch))
        found = bounds(train, test, delta=self.claim.delta, confidence=1.0 - risk)
        lower[0], lower[1] = max(lower[0], found.epsilon), max(lower[1], found.mu)

    def _refuted_to(self, evidence: Evidence, error: float) -> float:
        """The largest claim of a grid up to which all are refuted; the grid does not depend on the runs."""
        value, grid = 0.0, np.unique(np.concatenate([np.arange(0.0, 20.0, 0.05), [self.claim.value]]))
        for tried in grid[grid > 0.0] if self.claim.mu is not None else grid:
            if evidence.log_wealth(self.claim.at(float(tried))) < -math.log(error):
                break
            value = float(tried)
        return value

    def _remark(self, alive: list[_Watched]) -> str:
        """What is odd about the pairs that were kept: those whose runs vary are kept before all others."""
        still = [w for w in alive if all(len(np.unique(table, axis=0)) == 1 for table in w.released)]
        if any(w.runs >= 50 and not np.array_equal(*(table[0] for table in w.released)) for w in still):
            return "All runs on a table release the same: does the program draw noise anew for each?"
        if len(still) == len(alive) and max(w.runs for w in alive) >= 50:
            done = "fail" if still[0].released[0][0, 0] == FAILED else "release the same"
            return f"All runs {done}, on both tables of a pair: does the program read its rows, and draw noise?"
        return ""
