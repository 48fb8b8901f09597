"""Rates of mixing: spectral gaps, Lemma 3, contraction over the rounds of a run, distance to consensus."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .._validate import integer, number
from ..errors import InvalidParameter
from ._connectivity import smallest_window, spans_of
from ._graph import Integers, Topology, connected_labels
from ._matrix import Floats, MixingMatrix, mixing_matrix
from ._schedules import Gossip, MixingSchedule, PeriodicMixing
from ._words import MAX_ROUND

__all__ = [
    "MAX_DENSE",
    "MixingConditions",
    "TransitionBound",
    "algebraic_connectivity",
    "check_schedule",
    "consensus_distance_bound",
    "contraction",
    "joint_window",
    "mean_square_rate",
    "second_singular_value",
    "spectral_gap",
    "transition_bound",
    "transition_matrix",
]

MAX_DENSE = 4096
"""Nodes of the largest matrix whose spectrum is computed: all of it is, densely."""


def _centred(matrix: MixingMatrix) -> Floats:
    if not isinstance(matrix, MixingMatrix):
        raise InvalidParameter(f"matrix must be a MixingMatrix, found {type(matrix).__name__}: see mixing_matrix")
    integer(n_nodes=matrix.n_nodes, at_most=MAX_DENSE)
    return matrix.to_dense() - 1.0 / matrix.n_nodes


def second_singular_value(matrix: MixingMatrix) -> float:
    """Return rho, the second largest singular value: one round shrinks the distance to the mean to rho of it or less.

    Parameters
    ----------
    matrix : MixingMatrix
        At most 4096 nodes.

    Returns
    -------
    float
        ``||A - J||_2`` with J the matrix of 1/m, 0 to 1 up to roundings of about 1e-15; of a symmetric matrix, the
        largest absolute eigenvalue without that of the constant vector. O(m**3).
    """
    rest = _centred(matrix)
    if matrix.is_symmetric:
        return float(np.abs(np.linalg.eigvalsh(rest)).max())
    return float(np.linalg.norm(rest, 2))


def spectral_gap(matrix: MixingMatrix) -> float:
    """Return ``1 - rho`` (see :func:`second_singular_value`): 1 mixes in one round, 0 need not mix at all.

    Parameters
    ----------
    matrix : MixingMatrix
        At most 4096 nodes.

    Returns
    -------
    float
        Absolute error about 1e-15.
    """
    return 1.0 - second_singular_value(matrix)


def algebraic_connectivity(topology: Topology) -> float:
    """Return the second smallest eigenvalue of the Laplacian (Fiedler 1973): above 0 just where the graph is connected.

    Parameters
    ----------
    topology : Topology
        At least 2 nodes, at most 4096.

    Returns
    -------
    float
    """
    integer(n_nodes=topology.n_nodes, at_least=2, at_most=MAX_DENSE)
    laplacian = np.diag(topology.degrees.astype(np.float64))
    i, j = topology.edges[:, 0], topology.edges[:, 1]
    laplacian[i, j] = laplacian[j, i] = -1.0
    return float(np.linalg.eigvalsh(laplacian)[1])


def mean_square_rate(schedule: MixingSchedule, rounds: int = 1000) -> float:
    """Return rho of a random schedule with independent rounds, ``sqrt(lambda_2(E[A^T A]))``.

    The distance to the mean shrinks, in mean square and from any state, to rho of it or less in a round.

    Parameters
    ----------
    schedule : MixingSchedule
        Rounds drawn independently from one law: without ``full_every``, and :class:`LinkFailures` only of such or
        of static mixing. At most 4096 nodes.
    rounds : int, default=1000
        The mean is taken over rounds 1 to this; :class:`Gossip` has a closed form, static mixing needs one round.

    Returns
    -------
    float
        Except for those two an estimate, rather too high than too low (the largest eigenvalue is convex).

    Raises
    ------
    InvalidParameter
        If the rounds are not of one law.
    """
    count = integer(rounds=rounds, at_least=1, at_most=MAX_ROUND)
    n = integer(n_nodes=schedule.n_nodes, at_most=MAX_DENSE)
    if (kind := _two_laws(schedule)) is not None:
        raise InvalidParameter(f"schedule must draw all rounds from one law, found {kind}: see contraction")
    if n == 1:
        return 0.0
    if isinstance(schedule, Gossip):
        return math.sqrt(1.0 - algebraic_connectivity(schedule.topology) / (2 * schedule.topology.n_edges))
    if isinstance(schedule, PeriodicMixing):
        return second_singular_value(schedule.matrix(1))
    total = np.zeros((n, n))
    for t in range(1, count + 1):
        a = schedule.matrix(t).to_scipy()
        total += (a.T @ a).toarray()
    return math.sqrt(max(0.0, float(np.linalg.eigvalsh(total / count - 1.0 / n)[-1])))


def _two_laws(schedule: MixingSchedule) -> str | None:
    inner: MixingSchedule | None = schedule
    while inner is not None:
        if isinstance(inner, PeriodicMixing) and inner.period > 1:
            return f"a period of {inner.period} rounds"
        if getattr(inner, "full_every", None) not in (None, 1):
            return "full_every"
        inner = getattr(inner, "schedule", None)
    return None


def transition_matrix(schedule: MixingSchedule, last: int, first: int = 1) -> Floats:
    """Return the product ``A_last ... A_first``: how values spread over the rounds.

    Parameters
    ----------
    schedule : MixingSchedule
        At most 4096 nodes.
    last, first : int
        Rounds, ``1 <= first <= last + 1``; of no rounds, the identity. The paper's ``phi(k, s)`` is
        ``transition_matrix(schedule, k, s + 1)``.

    Returns
    -------
    ndarray of float64, shape (n_nodes, n_nodes)
    """
    start = integer(first=first, at_least=1, at_most=MAX_ROUND)
    end = integer(last=last, at_least=start - 1, at_most=MAX_ROUND)
    product = np.eye(integer(n_nodes=schedule.n_nodes, at_most=MAX_DENSE))
    for t in range(start, end + 1):
        product = schedule.matrix(t).to_scipy() @ product
    return product


def contraction(schedule: MixingSchedule, rounds: int, first: int = 1) -> float:
    """Return the mean factor a round by which the rounds of a run, as they are, shrink the distance to the mean.

    Parameters
    ----------
    schedule : MixingSchedule
        Of any kind; at most 4096 nodes.
    rounds : int
        How many.
    first : int, default=1

    Returns
    -------
    float
        ``||A_last ... A_first - J||_2 ** (1 / rounds)``, 0 where everything is mixed to the last bit. Of static
        symmetric mixing it is :func:`second_singular_value`. O(rounds * nnz * m).
    """
    count = integer(rounds=rounds, at_least=1, at_most=MAX_ROUND)
    start = integer(first=first, at_least=1, at_most=MAX_ROUND)
    n = integer(n_nodes=schedule.n_nodes, at_most=MAX_DENSE)
    rest = np.eye(n) - 1.0 / n
    log_norm = 0.0
    for t in range(start, start + count):
        rest = schedule.matrix(t).to_scipy() @ rest
        rest -= rest.mean(axis=0)  # the part of the mean that rounding left would not shrink
        size = float(np.linalg.norm(rest))
        if size <= n * 2.0**-52:  # from at most sqrt(n) in one round: rounding alone
            return 0.0
        rest /= size
        log_norm += math.log(size)
    return math.exp((log_norm + math.log(float(np.linalg.norm(rest, 2)))) / count)


@dataclass(frozen=True)
class TransitionBound:
    """Lemma 3 of Li et al. (2018): ``|[A_k ... A_{s+1}]_ij - 1/m| <= theta * beta**(k - s)``.

    Attributes
    ----------
    theta, beta : float
    gap : float
        ``1 - beta``, computed without cancellation.
    """

    theta: float
    beta: float
    gap: float

    def at(self, rounds: int) -> float:
        """Return the bound after this many rounds; no entry ever differs from 1/m by more than 1."""
        k = integer(rounds=rounds, at_least=0)
        return math.exp(math.log(self.theta) + k * math.log1p(-self.gap))


def transition_bound(min_weight: float, window: int, n_nodes: int) -> TransitionBound:
    """Return the constants of Lemma 3 of Li et al. (2018), from Ram, Nedić and Veeravalli (2010).

    Parameters
    ----------
    min_weight : float
        eta of Assumption 2, above 0, at most 1: of all weights that are not 0, **those of the diagonal included**,
        which the printed assumption forgets and without which the lemma is false.
    window : int
        N: the links of any N consecutive rounds connect all nodes.
    n_nodes : int
        m.

    Returns
    -------
    TransitionBound
        ``theta = (1 - eta / (4 m**2))**-2`` and ``beta = (1 - eta / (4 m**2))**(1 / N)``.

    Notes
    -----
    True, and of little use: the constants are those of the worst graph with this eta and window. For 64 nodes
    ``1 / (1 - beta)`` is 49,152 for a ring and 1,048,576 for a complete graph, which mixes in one round.
    :func:`spectral_gap`, :func:`mean_square_rate` and :func:`contraction` measure; ``docs/topology.md`` has a proof.
    """
    eta = number(min_weight=min_weight, above=0.0, at_most=1.0)
    period = integer(window=window, at_least=1, at_most=MAX_ROUND)
    m = integer(n_nodes=n_nodes, at_least=1)
    log_factor = math.log1p(-eta / (4 * m * m))
    return TransitionBound(math.exp(-2 * log_factor), math.exp(log_factor / period), -math.expm1(log_factor / period))


def consensus_distance_bound(rate: float, steps: ArrayLike | Sequence[float], norm: float, n_nodes: int) -> Floats:
    """Bound the nodes' distance to their mean, where every node adds a step of its own after mixing.

    Parameters
    ----------
    rate : float
        rho, 0 to 1: :func:`second_singular_value` of static mixing, :func:`mean_square_rate` of independent rounds.
    steps : array-like of float, shape (rounds,)
        Step sizes alpha_1, alpha_2, ..., at least 0.
    norm : float
        H: root of a bound on the mean squared norm of what alpha_t multiplies, noise included.
    n_nodes : int

    Returns
    -------
    ndarray of float64, shape (rounds,)
        At round t, a bound on the expectation of ``sqrt(sum_i ||b_i - mean b||**2)`` over the mixed values b of round
        t: ``sqrt(m) * H * sum_{k < t} rho**(t - k) * alpha_k``, 0 in the first round.

    Notes
    -----
    All nodes start at the same point. Steps may be projected on a convex set that has all values in it: the
    projection moves a value by no more than its step. With B_t the mixed values (a row each) and E_t the steps taken,
    ``(I - J) B_t = (A_t - J)(B_{t-1} + E_{t-1})``, since A_t commutes with J; norms on both sides, and in expectation
    ``E||E_t||_F <= sqrt(m) H alpha_t``.
    """
    rho = number(rate=rate, at_least=0.0, at_most=1.0)
    size = number(norm=norm, at_least=0.0)
    m = integer(n_nodes=n_nodes, at_least=1)
    alpha = np.atleast_1d(np.asarray(steps, dtype=np.float64))
    if alpha.ndim != 1 or not (np.isfinite(alpha) & (alpha >= 0.0)).all():
        raise InvalidParameter("steps must be one row of finite numbers of at least 0")
    bound = np.zeros(len(alpha))
    for t in range(1, len(alpha)):
        bound[t] = rho * (bound[t - 1] + alpha[t - 1])
    return bound * (math.sqrt(m) * size)


def joint_window(schedule: MixingSchedule, rounds: int) -> int | None:
    """Return the smallest N such that any N consecutive of the first rounds of a schedule connect all nodes.

    Parameters
    ----------
    schedule : MixingSchedule
    rounds : int
        Rounds 1 to this are examined.

    Returns
    -------
    int or None
        None: their links together leave nodes apart. O(rounds * n_edges * log n_edges).
    """
    count = integer(rounds=rounds, at_least=1, at_most=MAX_ROUND)
    return smallest_window(spans_of(schedule.topology, (schedule.matrix(t).edges for t in range(1, count + 1))))


@dataclass(frozen=True)
class MixingConditions:
    """What rounds 1 to ``rounds`` of a schedule satisfy of Assumption 2.

    Attributes
    ----------
    min_weight : float
        eta: the smallest weight found.
    window : int
        N: the smallest that serves all these rounds.
    rounds : int
    """

    min_weight: float
    window: int
    rounds: int


def check_schedule(
    schedule: MixingSchedule, rounds: int, *, min_weight: float | None = None, window: int | None = None
) -> MixingConditions:
    """Check the rounds of a run against Assumption 2, every matrix of them.

    The rounds follow from public numbers, so this is certain for a run, also where the law of a schedule promises a
    window with high probability only.

    Parameters
    ----------
    schedule : MixingSchedule
    rounds : int
        Rounds 1 to this.
    min_weight : float, optional
        eta that is asked for; default: the schedule's.
    window : int, optional
        N that is asked for; default: the schedule's, and if that is None as well, ``rounds``.
        One above ``rounds`` asks for all rounds together.

    Returns
    -------
    MixingConditions
        What was found, at least as good as what was asked for.

    Raises
    ------
    InvalidParameter
        If a matrix is not doubly stochastic within 1e-12, leaves the topology or has a smaller weight (round and row
        are named), or some window leaves nodes apart.
    """
    count = integer(rounds=rounds, at_least=1, at_most=MAX_ROUND)
    eta = schedule.min_weight if min_weight is None else number(min_weight=min_weight, above=0.0, at_most=1.0)
    asked = schedule.window if window is None else integer(window=window, at_least=1, at_most=MAX_ROUND)
    topology = schedule.topology
    smallest = 1.0

    def checked() -> Iterator[Integers]:
        nonlocal smallest
        sound: MixingMatrix | None = None
        for t in range(1, count + 1):
            matrix = schedule.matrix(t)
            if matrix is not sound:  # static mixing has one
                try:
                    mixing_matrix(matrix, topology=topology, min_weight=eta)
                except InvalidParameter as err:
                    raise InvalidParameter(f"round {t}: {err}") from err
                sound = matrix
                smallest = min(smallest, matrix.min_weight)
            yield matrix.edges

    spans = spans_of(topology, checked())
    found = smallest_window(spans)
    limit = count if asked is None else min(asked, count)
    if found is None or found > limit:
        end = next(t for t in range(limit, count + 1) if (span := spans[t - 1]) is None or span > limit)
        begin = end - limit + 1
        links = np.concatenate([schedule.matrix(t).edges for t in range(begin, end + 1)])
        labels = connected_labels(topology.n_nodes, np.unique(links, axis=0))[1]
        apart = int(np.flatnonzero(labels != labels[0])[0])
        raise InvalidParameter(
            f"any {limit} consecutive rounds must connect all nodes, found rounds {begin} to {end} without a path "
            f"from node 0 to node {apart}"
        )
    return MixingConditions(smallest, found, count)
