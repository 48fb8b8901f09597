"""The user's side of the rounds: it sees the row, and answers a learner that it does not trust."""

from __future__ import annotations

import math
import os
import threading
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core._local import PointGradients
from .._validate import choice, integer, number
from .._values import real, row_of
from ..calibration import ReportNoise, calibrate_report
from ..errors import BudgetExceeded, InvalidMessage, InvalidParameter, StateError
from ..guarantees import ADJACENCIES
from ..losses import Loss, get_loss
from ..noise import Unshared
from ..randomizers import Randomizer, randomizer_of
from ._messages import pack_answer, parse_question
from ._terms import Terms, loss_name

__all__ = ["Device"]


class _Agreed(NamedTuple):
    """A device's memory of terms that it has accepted."""

    terms: bytes
    gradients: PointGradients
    randomizer: Randomizer


class Device(Unshared):
    """A user's device: the least noise that its owner accepts, and how many reports.

    The learner is not trusted. The device takes only public terms from a question, computes the noise from them
    itself, and answers only if that noise is at least as large as required here. The question's point, bounds and
    loss do not affect privacy: any gradient is scaled to its bound and randomized.

    Parameters
    ----------
    n_features : int
        Features of a row.
    epsilon : float, optional
        Largest epsilon of a report: pure, or with ``delta``. Above 0; ``inf``: any noise is accepted, even
        none. One of `epsilon` and `leakage` is required; if both are given, both hold.
    delta : float, optional
        In (0, 1): Gaussian reports are accepted if they have `epsilon` at this delta. Default: they are not.
    leakage : float, optional
        Largest mutual information of row and report in nats. Pure reports with that epsilon meet it too.
    adjacency : {"replace", "zero_out"}, default="replace"
        The adjacency of `epsilon`. "zero_out" accepts half the noise.
    reports : int, default=1
        Reports in the lifetime of this object: k of them on one row cost k epsilon, or k times the leakage. A process
        that simulates many users, each with a row of their own, needs as many. The caller must store the number of
        reports before a restart: see :attr:`n_reports`.
    loss : str or Loss, default="logistic"
        A built-in loss of a single score: questions about another loss are refused.
    fit_intercept : bool, default=True
        Whether points have a last coordinate for the constant 1.
    random_state : None, int, BitGenerator or Generator
        ``None``: noise that cannot be reproduced. Any other value is for tests.

    Notes
    -----
    A refusal depends only on the question and on these parameters, never on the row. An answer takes the same steps
    for every row, but the time of the steps is not constant. Thread-safe; cannot be copied or pickled.
    """

    _called = "a device"

    def __init__(
        self,
        *,
        n_features: int,
        epsilon: float | None = None,
        delta: float | None = None,
        leakage: float | None = None,
        adjacency: str = "replace",
        reports: int = 1,
        loss: str | Loss = "logistic",
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        if epsilon is None and leakage is None:
            raise InvalidParameter("epsilon or leakage must be given: how little noise the device's owner accepts")
        if delta is not None and epsilon is None:
            raise InvalidParameter("delta goes with epsilon")
        self._epsilon = math.inf if epsilon is None else number(epsilon=epsilon, above=0.0, infinite=True)
        self._delta = None if delta is None else number(delta=delta, above=0.0, below=1.0)
        self._leakage = math.inf if leakage is None else number(leakage=leakage, above=0.0, infinite=True)
        self._bounded = epsilon is not None
        self._adjacency = choice(ADJACENCIES, adjacency=adjacency)
        self._reports = integer(reports=reports, at_least=1)
        self._loss = get_loss(loss)
        self._loss_name = loss_name(self._loss)
        self._intercept = bool(fit_intercept)
        self._features = integer(n_features=n_features, at_least=1, at_most=1 << 28)
        self._dim = self._features + self._intercept
        # an integer seeds one generator, from which every run gets its own key
        seeded = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
        self._random_state = np.random.PCG64(integer(random_state=random_state, at_least=0)) if seeded else random_state
        self._made = 0
        self._agreed: _Agreed | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return f"<Device: {self.dim} coordinates, {self._made} of {self._reports} reports made>"

    def __setstate__(self, state: object) -> NoReturn:
        self.__reduce__()

    @property
    def dim(self) -> int:
        """Coordinates of points and reports."""
        return self._dim

    @property
    def n_reports(self) -> int:
        """Reports that count as made, including those for failed answers."""
        return self._made

    def answer(self, question: bytes, x: ArrayLike, y: float) -> bytes:
        """Return the answer of one round: the report of the row's gradient at the question's point.

        Parameters
        ----------
        question : bytes
            From the learner, not trusted.
        x : array-like of shape (n_features,)
            The row: secret. A row longer than the question's ``x_bound`` is scaled to it. A row with a value that is
            missing, not finite or no real number, or with another number of values in a list, is the null row, whose
            gradient is 0. The shape of an array is public, its type is not: NumPy may have derived it from the values.
        y : float
            Its target: secret. With two classes, a value above 0 is the positive one, the last of the learner's
            ``classes_`` (which are sorted), and any other value the negative one. NaN, None and anything but a real
            number: the null row.

        Returns
        -------
        bytes
            Public.

        Raises
        ------
        InvalidMessage
            If the question is malformed, or of another task than this device has. No report was made.
        BudgetExceeded
            If its noise is less than the owner accepts, or all reports are made. No report was made.
        InvalidParameter
            If the row is an array of another shape. No report was made.
        StateError
            In a forked child: parent and child would each make all reports.
        """
        self._same_process()
        place, terms, point = parse_question(question, self._dim)
        row = _row(x, self._features)
        target = real(y)
        with self._lock:
            agreed = self._admit(terms)
            self._made += 1  # before any noise is drawn
            self._agreed = agreed
        gradient = agreed.gradients.at(point, row, target)
        try:
            report = agreed.randomizer.privatize(gradient[None])[0]
        finally:
            gradient.fill(0.0)
        return pack_answer(place, report)

    def check(self, question: bytes) -> None:
        """Raise what :meth:`answer` would raise for any row; no report is made, and no row is needed.

        Raises
        ------
        InvalidMessage, BudgetExceeded, StateError
            As :meth:`answer`.
        """
        self._same_process()
        _, terms, _ = parse_question(question, self._dim)
        with self._lock:
            self._agreed = self._admit(terms)

    def _same_process(self) -> None:
        if os.getpid() != self._pid:
            raise StateError("a forked child cannot answer as its parent's device: both would make all reports")

    def _admit(self, terms: bytes) -> _Agreed:
        """Return what was agreed on if another report may be made under these terms; nothing is counted."""
        agreed = self._agreed
        if agreed is None or agreed.terms != terms:
            agreed = self._agree(terms)
        if self._made >= self._reports:
            raise BudgetExceeded(f"this device makes {self._reports} reports, and has made {self._made}")
        return agreed

    def _agree(self, content: bytes) -> _Agreed:
        """Check terms, and prepare for reports under them."""
        terms = Terms.unpack(content)
        if (terms.loss, terms.width) != (self._loss_name, self._loss.width):
            raise InvalidMessage(f"this device takes gradients of {self._loss!r}, the question is of {terms.loss!r}")
        if terms.intercept != self._intercept:
            raise InvalidMessage(f"this device has fit_intercept={self._intercept}, the question has {terms.intercept}")
        noise = self._accepted(terms)
        gradients = PointGradients(
            dim=self._dim,
            intercept=self._intercept,
            loss=self._loss,
            x_bound=terms.x_bound,
            y_bound=terms.y_bound,
            signs=self._loss.kind == "classification",
            bound=noise.bound,
        )
        return _Agreed(content, gradients, randomizer_of(noise, random_state=self._random_state))

    def _accepted(self, terms: Terms) -> ReportNoise:
        """The noise of terms that the device's owner accepts."""
        if self._bounded and terms.adjacency != self._adjacency:  # the leakage does not depend on it
            raise BudgetExceeded(
                f"this device's limits are for the adjacency {self._adjacency!r}, the question's noise for "
                f"{terms.adjacency!r}"
            )
        if terms.figure == "epsilon":
            # before anything is computed from it. It also bounds the mutual information: for either adjacency, the
            # distribution of a report is at most that far from the null vector's in Kullback-Leibler divergence
            most = min(self._epsilon, self._leakage)
            if terms.amount > most:
                raise BudgetExceeded(
                    f"this device makes reports of epsilon at most {most:g}, asked is {terms.amount:g}"
                )
            return terms.noise(self._dim)
        for words in self._gaussian_limits():
            least = calibrate_report(
                "gaussian", dim=self._dim, bound=terms.bound, adjacency=self._adjacency, **words
            ).scale
            if not terms.amount >= least:
                raise BudgetExceeded(
                    f"this device adds Gaussian noise of sigma at least {least:g} to gradients of norm up to "
                    f"{terms.bound:g}, asked is {terms.amount:g}"
                )
        return terms.noise(self._dim)

    def _gaussian_limits(self) -> list[dict[str, Any]]:
        limits: list[dict[str, Any]] = []
        if self._bounded and not math.isinf(self._epsilon):
            if self._delta is None:
                raise BudgetExceeded(
                    "this device makes pure reports only, asked is Gaussian noise: delta was not given"
                )
            limits.append({"epsilon": self._epsilon, "delta": self._delta})
        if not math.isinf(self._leakage):
            limits.append({"leakage": self._leakage})
        return limits


def _row(x: ArrayLike, features: int) -> NDArray[np.floating[Any]]:
    """The row as the kernels take it: NaN for a value that is not a number, all NaN if the row has another length."""
    if isinstance(x, np.ndarray) and x.shape != (features,):
        raise InvalidParameter(f"x must have shape ({features},), found {x.shape}")
    if type(x) is np.ndarray and x.dtype in (np.float64, np.float32) and x.flags.aligned:
        return x
    return row_of(x, features)[0]
