"""Nodes that learn together without a master: each mixes what its neighbours sent, and sends a randomized step."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._validate import choice, integer, number
from ..calibration import THRESHOLDS
from ..geometry import ConvexSet, WholeSpace
from ..ledger import Ledger
from ..losses import Loss
from ..topology import MixingSchedule, Topology
from ._network import NetworkLearner

__all__ = ["DOLA", "SparseDOLA"]


class DOLA(NetworkLearner):
    """Distributed online learning: nodes exchange noisy parameters with their neighbours, without a coordinator.

    In round t node i averages what it and its neighbours have sent, ``b = sum_j a_ij(t) r_j``, takes the gradients of
    ``batch`` rows of its own at b, randomizes their mean, and sends ``r = Proj(b - alpha_t (noisy mean + l2 b))``. It
    continues from the noisy message, so a row is in one message only, and the whole run costs as much as one message.
    Row k of a stream is at node ``(k - 1) mod nodes``: one process simulates all nodes, with the same bits as one
    process for each.

    Released: all messages, and everything computed from them: every node's points and models. Secret: the rows, the
    gradients before they are randomized, which only their own node sees, and the noise.

    Parameters
    ----------
    loss : str or Loss, default="logistic"
        ``"logistic"``, ``"hinge"``, ``"smooth_hinge"`` (classification, two classes), ``"absolute"``, ``"huber"``
        (regression), or an object of :mod:`privol.losses`; ``"squared"`` too, over a set with a bound.
    epsilon : float, default=1.0
        Budget of the whole run, above 0; ``inf``: no noise and no guarantee.
    delta : float, default=1e-6
        Additive term of approximate privacy, in (0, 1): of Gaussian noise, which is not pure.
    randomizer : {"gaussian", "l2laplace", "laplace", "privunit", "duchi"}, default="gaussian"
        The noise; all except "gaussian" are pure. The last two need ``batch=1``.
    noise_position : {"gradient", "output"}, default="gradient"
        Noise on the gradient, before the projection; or on the projected step, as in the source's Algorithm 1: messages
        may then leave the set.
    adjacency : {"replace", "zero_out"}, default="replace"
        What may differ between neighbouring streams: any content of one row, or whether it is there.
    ledger : Ledger, optional
        Shared budget. Default: one of the learner's own, without a limit.
    horizon : int, optional
        Rows of the run, with every use of a row counted; it ends a last round that is not full. Default: ``fit`` and
        sized streams take their number of rows.
    nodes : int, optional
        Nodes of the network. Default: the topology's, or 16.
    topology : {"ring", "grid", "star", "complete"}, Topology or MixingSchedule, default="ring"
        Who hears whom, from :mod:`privol.topology`; graphs have Metropolis weights. Public, never chosen by the rows.
    batch : int, default=1
        Rows of a step, of each node, 1 to 2**20. The noise is on the sum of their gradients.
    epochs : int, default=1
        Times that every row is used; the noise grows accordingly. ``fit`` and ``fit_stream`` repeat their rows. Their
        number must be a multiple of the nodes, so that rows stay at their nodes, and at least that of a round, so that
        no row is twice in a message.
    radius : float, default=1.0
        Radius of the L2 ball of models.
    domain : ConvexSet, optional
        Another feasible set instead of the ball.
    x_bound : float, default=1.0
        Public bound of a row's L2 norm, above 0; longer rows are scaled to it.
    y_bound : float, default=1.0
        Public bound of a real target's magnitude; targets beyond are clipped to it.
    gradient_bound : float, optional
        Public bound of a row's gradient in L2 norm; longer ones are scaled to it. Default: the loss's own.
    l2 : float, default=0.0
        Strong convexity: every loss gets ``l2 / 2 ||w||^2``, and the step of round t is ``1 / (l2 t)``. 0: it is
        ``step_size / sqrt(t)``.
    step_size : float, optional
        With ``l2=0``; the source's is 0.5. Default: the value that minimises the regret bound.
    regularizer : {"explicit", "implicit"}, default="explicit"
        Whether its gradient is taken at the mix b, or at the new point.
    calibration : {"tight", "published"}, default="tight"
        "published": the source's noise: Laplace noise on the output (Algorithms 1 and 4) or Gaussian noise on the
        gradient (Algorithm 2). The sentence states its claim and the proved figure.
    release : {"all", "last"}, int or list of int, optional
        Rounds (not rows) after which ``coef_`` and ``average_coef_`` are renewed. Default: all. Without effect on the
        noise.
    averaging : {"uniform", "linear", "quadratic"}, default="uniform"
        ``average_coef_`` weights released models equally, or the k-th in proportion to k or to k (k + 1).
    fit_intercept : bool, default=True
        Append the constant 1 to every row; the calibration counts it, and it is regularised like the rest.
    on_invalid : {"raise", "zero"}, default="raise"
        A row that is not finite, or a label outside the set: an error that names it, or a counted null row.
    random_state : None, int, BitGenerator or Generator, optional
        ``None``: noise that cannot be reproduced. Any other value is for tests, and marks every export as not private.

    Attributes
    ----------
    coef_, intercept_ : ndarray
        Mean of the nodes' models after the last released round; ``average_coef_``, ``average_intercept_``: the mean of
        those over the released rounds.
    node_coef_, node_average_coef_ : ndarray of shape (nodes, n_features)
        The same of every node, with ``node_intercept_`` and ``node_average_intercept_``; not in a pickle.
    consensus_distance_ : float
        Frobenius norm of the nodes' models minus their mean.
    guarantee_ : Guarantee
    ledger_ : Ledger
        The first message is charged with the whole run's cost; the others are then free.
    n_rows_, n_releases_ : int
    classes_ : ndarray of shape (2,)

    Notes
    -----
    The expected regret of all nodes together, each at its own points, has a bound for every topology:
    :meth:`regret_bound`. How far nodes are from each other depends on the mixing matrices' contraction
    (:func:`privol.topology.contraction`). ``progressive`` evaluation predicts every row with the model of its node.

    Cost per row: two passes over its non-zeros; per message O(n_features) for every neighbour, with as many noise words
    as features. Memory O(nodes n_features).

    References
    ----------
    Li, Zhou, Xiong, Wang and Wang, "Differentially private distributed online learning", 2018, Algorithms 1, 2 and 4.
    Errors of its analysis: ``docs/errata.md``; proof of the guarantee: ``docs/proofs/network.md``.

    Examples
    --------
    >>> import numpy as np
    >>> from privol import DOLA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20000, 3)) / 3
    >>> y = np.where(X @ [1.0, -2.0, 0.5] > 0, "yes", "no")
    >>> learner = DOLA(epsilon=2.0, nodes=8, topology="grid", batch=10, radius=5.0).fit(X, y)
    >>> bool(learner.score(X, y) > 0.8)
    True
    """

    def __init__(
        self,
        *,
        loss: str | Loss = "logistic",
        epsilon: float = 1.0,
        delta: float = 1e-6,
        randomizer: str = "gaussian",
        noise_position: str = "gradient",
        adjacency: str = "replace",
        ledger: Ledger | None = None,
        horizon: int | None = None,
        nodes: int | None = None,
        topology: str | Topology | MixingSchedule = "ring",
        batch: int = 1,
        epochs: int = 1,
        radius: float = 1.0,
        domain: ConvexSet | None = None,
        x_bound: float = 1.0,
        y_bound: float = 1.0,
        gradient_bound: float | None = None,
        l2: float = 0.0,
        step_size: float | None = None,
        regularizer: str = "explicit",
        calibration: str = "tight",
        release: Any = None,
        averaging: str = "uniform",
        fit_intercept: bool = True,
        on_invalid: str = "raise",
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.epsilon = epsilon
        self.delta = delta
        self.randomizer = randomizer
        self.noise_position = noise_position
        self.adjacency = adjacency
        self.ledger = ledger
        self.horizon = horizon
        self.nodes = nodes
        self.topology = topology
        self.batch = batch
        self.epochs = epochs
        self.radius = radius
        self.domain = domain
        self.x_bound = x_bound
        self.y_bound = y_bound
        self.gradient_bound = gradient_bound
        self.l2 = l2
        self.step_size = step_size
        self.regularizer = regularizer
        self.calibration = calibration
        self.release = release
        self.averaging = averaging
        self.fit_intercept = fit_intercept
        self.on_invalid = on_invalid
        self.random_state = random_state

    def regret_bound(self, n_rows: int, n_features: int | None = None) -> float:
        """Return the bound of the expected regret of all nodes together after ``n_rows`` rows.

        Against the best fixed point of the set, of the losses that nodes pay at their own points, batches counted by
        their means; for convex losses whose gradients are within ``gradient_bound``, chosen without looking at the
        noise.

        Parameters
        ----------
        n_rows : int
            Rows, which are the horizon too.
        n_features : int, optional
            Default: those of the last run.

        Raises
        ------
        InvalidParameter
            If nothing is proved for these steps.
        """
        n_rows = integer(n_rows=n_rows, at_least=1)
        plan = self.calibrate(self._width(n_features), n_rows)
        return plan.regret_bound(plan.rounds)


class SparseDOLA(NetworkLearner):
    """Distributed online learning of sparse models: nodes exchange noisy dual parameters, and threshold their average.

    In round t node i averages what it and its neighbours have sent, ``p = sum_j a_ij(t) r_j``; its model is
    ``w = soft(p, threshold)``, small coordinates to 0; it takes the gradients of ``batch`` rows of its own at w,
    randomizes their mean and sends ``r = p - alpha_t noisy mean``. Everything but the gradient is public, so a row is
    in one message only, and the whole run costs as much as one message. This is the corrected form of the source's
    Algorithm 3, which takes gradients at points that depend on the node's own rows without noise.

    Released, secret and the rows of nodes: as :class:`DOLA`.

    Parameters
    ----------
    loss : str or Loss, default="logistic"
        ``"logistic"``, ``"hinge"``, ``"smooth_hinge"`` (classification, two classes), ``"absolute"``, ``"huber"``
        (regression), or an object of :mod:`privol.losses`; ``"squared"`` with a ``gradient_bound``.
    epsilon : float, default=1.0
        Budget of the whole run, above 0; ``inf``: no noise and no guarantee.
    delta : float, default=1e-6
        Additive term of approximate privacy, in (0, 1): of Gaussian noise, which is not pure.
    randomizer : {"gaussian", "l2laplace", "laplace", "privunit", "duchi"}, default="gaussian"
        The noise; all except "gaussian" are pure. The last two need ``batch=1``.
    threshold : {"noise", "rda", "published"}, default="noise"
        How far the coordinates of p are shrunk towards 0. "noise": ``l1`` standard deviations of their noise, which is
        public. "rda": ``l1`` times the sum of all step lengths so far. "published": ``l1`` times the length of the
        current step, which leaves hardly any zeros under much noise. None costs privacy.
    l1 : float, optional
        For "noise" the number of standard deviations, by default ``sqrt(2 log d)``: coordinates of noise alone are then
        0 with high probability. Required for the others.
    adjacency : {"replace", "zero_out"}, default="replace"
        What may differ between neighbouring streams: any content of one row, or whether it is there.
    ledger : Ledger, optional
        Shared budget. Default: one of the learner's own, without a limit.
    horizon : int, optional
        Rows of the run, with every use of a row counted; it ends a last round that is not full. Default: ``fit`` and
        sized streams take their number of rows.
    nodes : int, optional
        Nodes of the network. Default: the topology's, or 16.
    topology : {"ring", "grid", "star", "complete"}, Topology or MixingSchedule, default="ring"
        Who hears whom, from :mod:`privol.topology`; graphs have Metropolis weights. Public, never chosen by the rows.
    batch : int, default=1
        Rows of a step, of each node, 1 to 2**20. The noise is on the sum of their gradients.
    epochs : int, default=1
        Times that every row is used; the noise grows accordingly. ``fit`` and ``fit_stream`` repeat their rows. Their
        number must be a multiple of the nodes, so that rows stay at their nodes, and at least that of a round, so that
        no row is twice in a message.
    radius : float, default=1.0
        Radius of the L2 ball of models, as they are expected, which the default steps are measured by; nothing is
        projected.
    x_bound : float, default=1.0
        Public bound of a row's L2 norm, above 0; longer rows are scaled to it.
    y_bound : float, default=1.0
        Public bound of a real target's magnitude; targets beyond are clipped to it.
    gradient_bound : float, optional
        Public bound of a row's gradient in L2 norm; longer ones are scaled to it. Default: the loss's own.
    step_size : float, optional
        The step of round t is ``step_size / sqrt(t)``; the source's is 0.5. Default:
        ``radius / sqrt(2 E ||noisy mean||^2)``.
    release : {"all", "last"}, int or list of int, optional
        Rounds (not rows) after which ``coef_`` and ``average_coef_`` are renewed. Default: all. Without effect on the
        noise.
    averaging : {"uniform", "linear", "quadratic"}, default="uniform"
        ``average_coef_`` weights released models equally, or the k-th in proportion to k or to k (k + 1).
    fit_intercept : bool, default=True
        Append the constant 1 to every row; the calibration counts it, and its coefficient is thresholded like the rest.
    on_invalid : {"raise", "zero"}, default="raise"
        A row that is not finite, or a label outside the set: an error that names it, or a counted null row.
    random_state : None, int, BitGenerator or Generator, optional
        ``None``: noise that cannot be reproduced. Any other value is for tests, and marks every export as not private.

    Attributes
    ----------
    coef_, intercept_ : ndarray
        The mean of all nodes' p after the last released round, thresholded; ``average_coef_``: the mean of the nodes'
        models over the released rounds, which is not sparse.
    node_coef_, node_average_coef_ : ndarray of shape (nodes, n_features)
        The same of every node, with ``node_intercept_`` and ``node_average_intercept_``; not in a pickle.
    sparsity_, node_sparsity_ : float and ndarray of shape (nodes,)
        Share of coordinates that are 0, of the mean's model and of every node's.
    consensus_distance_ : float
        Frobenius norm of the nodes' models minus their mean.
    guarantee_ : Guarantee
    ledger_ : Ledger
        The first message is charged with the whole run's cost; the others are then free.
    n_rows_, n_releases_ : int
    classes_ : ndarray of shape (2,)

    Notes
    -----
    Cost per row and memory: as :class:`DOLA`; "noise" adds two products of the mixing matrix with a matrix of
    nodes x nodes per round.

    References
    ----------
    Li, Zhou, Xiong, Wang and Wang, "Differentially private distributed online learning", 2018, Algorithm 3; its leak is
    in ``docs/errata.md``, the proof of this form in ``docs/proofs/network.md``.

    Examples
    --------
    >>> import numpy as np
    >>> from privol import SparseDOLA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(64000, 50)) / 8
    >>> y = np.where(X[:, 0] > X[:, 1], "yes", "no")
    >>> learner = SparseDOLA(epsilon=4.0, nodes=4, batch=100, radius=4.0).fit(X, y)
    >>> bool(learner.score(X, y) > 0.8 and learner.sparsity_ > 0.8)
    True
    """

    def __init__(
        self,
        *,
        loss: str | Loss = "logistic",
        epsilon: float = 1.0,
        delta: float = 1e-6,
        randomizer: str = "gaussian",
        threshold: str = "noise",
        l1: float | None = None,
        adjacency: str = "replace",
        ledger: Ledger | None = None,
        horizon: int | None = None,
        nodes: int | None = None,
        topology: str | Topology | MixingSchedule = "ring",
        batch: int = 1,
        epochs: int = 1,
        radius: float = 1.0,
        x_bound: float = 1.0,
        y_bound: float = 1.0,
        gradient_bound: float | None = None,
        step_size: float | None = None,
        release: Any = None,
        averaging: str = "uniform",
        fit_intercept: bool = True,
        on_invalid: str = "raise",
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.epsilon = epsilon
        self.delta = delta
        self.randomizer = randomizer
        self.threshold = threshold
        self.l1 = l1
        self.adjacency = adjacency
        self.ledger = ledger
        self.horizon = horizon
        self.nodes = nodes
        self.topology = topology
        self.batch = batch
        self.epochs = epochs
        self.radius = radius
        self.x_bound = x_bound
        self.y_bound = y_bound
        self.gradient_bound = gradient_bound
        self.step_size = step_size
        self.release = release
        self.averaging = averaging
        self.fit_intercept = fit_intercept
        self.on_invalid = on_invalid
        self.random_state = random_state

    @property
    def sparsity_(self) -> float:
        """Share of the coordinates of ``coef_`` that are 0."""
        return float(np.mean(np.asarray(self.coef_) == 0.0))

    @property
    def node_sparsity_(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Share of the coordinates of each node's model that are 0, shape (nodes,)."""
        return np.asarray(np.mean(self.node_coef_ == 0.0, axis=1))

    def _domain(self) -> ConvexSet:
        return WholeSpace()

    def _thresholding(self) -> tuple[str, float | None, float | None]:
        reach = number(radius=self.radius, at_least=1e-30, at_most=1e30)
        return choice(THRESHOLDS, threshold=self.threshold), self.l1, reach
