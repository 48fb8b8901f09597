"""The classifier and the regressor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin

from .._validate import number
from ..encoding.labels import Labels
from ..encoding.schema_parts import Target
from ..errors import InvalidParameter
from ..explaining import of_scores, probabilities
from ..ledger import Ledger
from .base import PrivateModel
from .course import Learner, declared_target
from .defaults import default_loss
from .inputs import LabelType, read_labels, read_numbers

__all__ = ["PrivateClassifier", "PrivateRegressor"]

FloatArray = NDArray[np.float64]


class PrivateClassifier(ClassifierMixin, PrivateModel):  # type: ignore[misc]
    """A private classifier for tables without a description: the estimator to start with.

    The first rows teach an encoding of the columns and the set of labels, under the guarantee
    (:class:`~privol.encoding.PrivateEncoder`). The model learns the following rows, with settings from public numbers
    alone. A row is in one part only, so both parts together cost ``epsilon`` once (parallel composition). If the first
    rows would be too few, all rows teach for a quarter of the budget, and the model learns all of them for the rest.
    One pass, in the order of the rows.

    Parameters
    ----------
    epsilon : float, optional
        Budget of the whole run, encoding and model, above 0 (default: 1, where ``mu`` is not given); infinite: no noise
        and no guarantee.
    delta : float, default=1e-6
        The delta at which epsilon is stated, above 0 and below 1. Choose it well below one over the number of rows.
    mu : float, optional
        The budget as mu of Gaussian differential privacy, above 0, in place of ``epsilon``. No more than that is spent;
        ``delta`` only says at which delta the guarantee states an epsilon (``docs/equal_privacy.md``).
    adjacency : {"replace", "zero_out"}, default="replace"
        What may differ between neighbouring tables: any content of one row, or whether it is there.
    ledger : Ledger, optional
        Shared budget, by reference: every fit of a search or a cross-validation is charged to it. Default: one of the
        estimator's own, without a limit.
    horizon : int, optional
        Rows that the budget must last for. Default: ``fit`` takes the number of its rows. ``partial_fit`` and
        ``learn_one`` need it.
    classes : sequence of labels, optional
        The public set of labels; no rows are spent on learning it. Default: frequent labels are learnt, and rows with
        any other label are null rows.
    drop : sequence of str, default=()
        Columns that are left out.
    crosses : sequence of pairs of str, default=()
        Pairs of columns whose features are multiplied, for effects that only both together show.
    declared : Schema, mapping or path of a TOML file, optional
        What is publicly known about some columns: it is used as stated, and costs nothing.
    reuse_rows : bool or None, default=None
        True: all rows teach the encoding for a quarter of the budget (of mu squared), and the model learns all of them
        for the rest. False: the first rows teach and the model learns the others, each with the whole budget. None: as
        True if the first rows would be too few, by the numbers of rows and columns and the budget. ``partial_fit``
        cannot read rows twice, so there the first rows teach.
    release : {"all", "last"}, int or list of int, optional
        Which models are shown, by number of the rows that the model learns. Default: all. This costs no budget.
    releases : {"all", "last"}, default="all"
        "last": only one model, at the end of ``fit`` or ``fit_stream``, by the learner that is best for a single model,
        chosen by public numbers: with two classes :class:`OutputPerturbation` if rows are few for the budget, otherwise
        the last model of the online learner (``docs/offline.md``). All encoded rows may be in memory.
    on_invalid : {"raise", "zero"}, default="raise"
        A row that cannot be read, or whose label is missing or not declared: an error that names it, before anything of
        its block counts, or a null row. With "zero" the labels of a list or an array of objects, which have no common
        type, are shown like those of a file: as whole numbers if all are, otherwise as text, or as ``classes``.
    random_state : None, int, ...
        See :func:`privol.noise.make_source`; anything but None is **not private**.
    rows_per_user : int, optional
        The budget covers all rows of one user, at most this many (1 to 1024), whether they teach the encoding or are
        learnt. ``fit_stream`` counts them if ``declared`` has a ``[user]``, ``partial_fit`` if it gets ``users``;
        otherwise nothing counts them. Default: it covers one row.
    user_separation : int, default=1
        With ``rows_per_user``: any two rows of a user are at least this many rows apart. This needs less noise.
    sketch : int, default=0
        Of sparse rows: how many features those share that are not frequent, as in
        :class:`~privol.encoding.PrivateEncoder`. 0: they are left out.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, ascending.
    schema_ : Schema
        The learnt encoding. Public, like all attributes below.
    guarantee_ : Guarantee
        Of both phases together.
    ledger_ : Ledger
        With an entry for each phase, side by side.
    encoder_ : PrivateEncoder
        Learnt the encoding; ``encoder_.dropped_`` says why columns were left out.
    learner_ : OnlineLearner
        Learns the encoded rows.
    n_rows_, n_releases_ : int
    n_features_in_ : int
        Columns.
    feature_names_in_ : ndarray of str
        Their names, where all are strings.

    Notes
    -----
    Names, types and order of the columns, including the target, and the number of rows are public. Labels of text keep
    their text; ``fit`` refuses texts that are read as a number or a truth value (``"1.0"``, ``"True"``)
    unless they are declared. Cost per row: about a microsecond a cell, plus the cost of the learner.

    Examples
    --------
    >>> import numpy as np
    >>> from privol import PrivateClassifier
    >>> rng = np.random.default_rng(0)
    >>> age, town = rng.normal(50, 10, 20000), rng.choice(["Oslo", "Bergen"], 20000)
    >>> X = np.array([age, town], dtype=object).T
    >>> y = np.where(age + 10 * (town == "Oslo") > 55, "ill", "well")
    >>> model = PrivateClassifier(epsilon=1.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.85)
    True
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float = 1e-6,
        mu: float | None = None,
        adjacency: str = "replace",
        ledger: Ledger | None = None,
        horizon: int | None = None,
        classes: Sequence[Any] | None = None,
        drop: Sequence[str] = (),
        crosses: Sequence[tuple[str, str]] = (),
        declared: Any = None,
        reuse_rows: bool | None = None,
        release: Any = None,
        releases: str = "all",
        on_invalid: str = "raise",
        random_state: Any = None,
        rows_per_user: int | None = None,
        user_separation: int = 1,
        sketch: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.mu = mu
        self.adjacency = adjacency
        self.ledger = ledger
        self.horizon = horizon
        self.classes = classes
        self.drop = drop
        self.crosses = crosses
        self.declared = declared
        self.reuse_rows = reuse_rows
        self.release = release
        self.releases = releases
        self.on_invalid = on_invalid
        self.random_state = random_state
        self.rows_per_user = rows_per_user
        self.user_separation = user_separation
        self.sketch = sketch

    def partial_fit(self, X: Any, y: Any, classes: ArrayLike | None = None, users: ArrayLike | None = None) -> Self:
        """Learn a block of rows; how the rows are cut into blocks never changes the result.

        The first rows, as many as follow from ``horizon``, the number of columns and the budget, teach the encoding;
        there is a model when they have come. ``fit`` of the same rows gives the same model where it reuses none.

        Parameters
        ----------
        X : frame or array of shape (n, columns), or sequence of dicts
        y : array-like of shape (n,)
        classes : array-like of labels, optional
            The public set of labels, in the first call. Default: as the parameter says.
        users : array-like of shape (n,), optional
            Whose row each row is, texts or numbers, with every block of a run or with none; with ``rows_per_user``.
            Rows of both phases count: one beyond ``rows_per_user``, or less than ``user_separation`` rows after the
            last one counted of its user, is a null row with ``on_invalid="zero"``, of which nothing is read, else its
            block is refused. Without it the guarantee says that nobody checks.

        Returns
        -------
        self

        Raises
        ------
        InvalidRow, InvalidParameter, StreamError, BudgetExceeded, StateError
            Before anything of the block is counted, learnt or spent; but for a StreamError at the end of a phase of the
            encoding, where too little of it can be seen through the noise.
        """
        given = None if classes is None else _checked(classes)
        known = self._known()
        begun = "_course" in vars(self)
        if given is not None and (begun or self.classes is not None):
            if known is None or known.tolist() != given.tolist():
                stays = "learnt" if known is None else str(known.tolist())
                raise InvalidParameter(f"classes must stay {stays} within a run, found {classes!r}")
            given = None
        return self._partial_fit(X, y, users) if given is None else self._partial_fit(X, y, users, _given=given)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of every row, shape (n,)."""
        scores = self._scores(X)
        best = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0.0).astype(int)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def decision_function(self, X: Any) -> FloatArray:
        """Return the scores of every row.

        Of two classes shape (n,), positive for ``classes_[1]``; of more shape (n, n_classes).
        """
        return self._scores(X)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of every class for every row, shape (n, n_classes).

        Gradients were clipped, which is public, so the sigmoid of a score would be overconfident. For the loss that was
        learnt, the best score of a row that is positive with probability p above one half is
        ``log((3 p - 1) / (1 - p))``; this is inverted here (``docs/explain.md`` has figures, and several classes).
        The order of rows and classes is that of the scores.
        """
        found = self._predicted(X, partial(_probabilities, cut=vars(self).get("_cut", math.inf)))
        return found[:, self._order]

    def predict_one(self, x: Any) -> Any:
        """Return the label of one row: a dict, or its cells in order."""
        score = self._score_of(x)
        asking = self._asking
        if score is None or asking is None:
            label = self.predict([x])[0]
        elif type(score) is not float and np.ndim(score):
            label = self.classes_[int(score[self._order].argmax())]
        else:
            if asking.answers is None:
                other, first = _plain(self.classes_[0]), _plain(self.classes_[1])
                asking.answers = (other, first, other) if self._order[0] == 0 else (other, other, first)
            return asking.answers[int(score > 0.0) - int(score < 0.0)]
        return _plain(label)

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Return the probability of every label of one row: a dict, or its cells in order."""
        score = self._score_of(x)
        if score is None:
            found = self.predict_proba([x])[0]
        else:
            found = of_scores(self._model(), np.asarray(score)[None], vars(self).get("_cut", math.inf))[0, self._order]
        return dict(zip(self.classes_.tolist(), found.tolist(), strict=True))

    def _scores(self, X: Any) -> FloatArray:
        scores = self._predicted(X, _decisions)
        if scores.ndim == 2:
            return scores[:, self._order]
        return scores if self._order[0] == 0 else -scores

    # ---- for the base class -------------------------------------------------------------------------

    def _loss(self, n_classes: int) -> str:
        return default_loss(max(n_classes, 2))

    def _regression(self) -> bool:
        return False

    def _known(self) -> NDArray[Any] | None:
        """The declared labels, ascending."""
        given: NDArray[Any] | None = vars(self).get("_given")
        return given if self.classes is None else _checked(self.classes)

    def _declared_target(self, name: str | int) -> Target | None:
        known = self._known()
        return None if known is None else declared_target(name, known.tolist(), None)

    def _public_labels(self) -> tuple[Any, ...] | None:
        known = self._known()
        return None if known is None else tuple(known.tolist())

    def _refused_labels(self) -> list[Any] | None:
        known = self._known()
        return None if known is None or self.on_invalid == "zero" else known.tolist()

    def _targets_of(self, y: Any, learnt: int, missing: Sequence[str]) -> Any:
        told: LabelType = self.__dict__.setdefault("_label_type", LabelType())
        known = self._known()
        refuse = self.on_invalid == "raise"
        return read_labels(
            y, told, None if known is None else known.tolist(), refuse=refuse, learnt=learnt, missing=missing
        )

    def _show(self, classes: tuple[Any, ...] | None) -> None:
        assert classes is not None
        known = self._known()
        if known is None:
            known = vars(self).get("_label_type", LabelType.of(classes)).shown(classes)
        self._asking = None
        self._order = np.argsort(known, kind="stable")
        self.classes_ = known[self._order]


class PrivateRegressor(RegressorMixin, PrivateModel):  # type: ignore[misc]
    """A private regressor for tables without a description: the estimator to start with.

    As :class:`PrivateClassifier`, for real targets: the first rows teach an encoding of the columns and the range of
    the targets, under the guarantee, and the model learns the following rows by the squared loss. Predictions are in
    the units of the target, and not clipped to its range.

    Parameters
    ----------
    epsilon : float, optional
        Budget of the whole run, encoding and model, above 0 (default: 1, where ``mu`` is not given); infinite: no noise
        and no guarantee.
    delta : float, default=1e-6
        The delta at which epsilon is stated, above 0 and below 1. Choose it well below one over the number of rows.
    mu : float, optional
        The budget as mu of Gaussian differential privacy, above 0, in place of ``epsilon``. No more than that is spent;
        ``delta`` only says at which delta the guarantee states an epsilon (``docs/equal_privacy.md``).
    adjacency : {"replace", "zero_out"}, default="replace"
        What may differ between neighbouring tables: any content of one row, or whether it is there.
    ledger : Ledger, optional
        Shared budget, by reference: every fit of a search or a cross-validation is charged to it. Default: one of the
        estimator's own, without a limit.
    horizon : int, optional
        Rows that the budget must last for. Default: ``fit`` takes the number of its rows. ``partial_fit`` and
        ``learn_one`` need it.
    target_range : pair of float, optional
        The public range of the targets, to which they are clipped; no rows are spent on learning it.
    drop : sequence of str, default=()
        Columns that are left out.
    crosses : sequence of pairs of str, default=()
        Pairs of columns whose features are multiplied, for effects that only both together show.
    declared : Schema, mapping or path of a TOML file, optional
        What is publicly known about some columns: it is used as stated, and costs nothing.
    reuse_rows : bool or None, default=None
        True: all rows teach the encoding for a quarter of the budget (of mu squared), and the model learns all of them
        for the rest. False: the first rows teach and the model learns the others, each with the whole budget. None: as
        True if the first rows would be too few, by the numbers of rows and columns and the budget. ``partial_fit``
        cannot read rows twice, so there the first rows teach.
    release : {"all", "last"}, int or list of int, optional
        Which models are shown, by number of the rows that the model learns. Default: all. This costs no budget.
    releases : {"all", "last"}, default="all"
        "last": only one model, at the end of ``fit`` or ``fit_stream``, from the moments of all rows with noise that
        is added once (:class:`PQFTL`; up to 1,000 features). It is more accurate (``docs/offline.md``).
    on_invalid : {"raise", "zero"}, default="raise"
        A row that cannot be read, or whose target is no finite number: an error that names it, before anything of its
        block counts, or a null row.
    random_state : None, int, ...
        See :func:`privol.noise.make_source`; anything but None is **not private**.
    rows_per_user : int, optional
        The budget covers all rows of one user, at most this many (1 to 1024), whether they teach the encoding or are
        learnt. ``fit_stream`` counts them if ``declared`` has a ``[user]``, ``partial_fit`` if it gets ``users``;
        otherwise nothing counts them. Default: it covers one row.
    user_separation : int, default=1
        With ``rows_per_user``: any two rows of a user are at least this many rows apart. This needs less noise.

    Attributes
    ----------
    schema_ : Schema
        The learnt encoding, with the range of the target. Public, like all attributes below.
    guarantee_ : Guarantee
        Of both phases together.
    ledger_ : Ledger
        With an entry for each phase, side by side.
    encoder_ : PrivateEncoder
        Learnt the encoding; ``encoder_.dropped_`` says why columns were left out.
    learner_ : OnlineLearner
        Learns the encoded rows.
    n_rows_, n_releases_ : int
    n_features_in_ : int
        Columns.
    feature_names_in_ : ndarray of str
        Their names, where all are strings.

    Examples
    --------
    >>> import numpy as np
    >>> from privol import PrivateRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20000, 2))
    >>> model = PrivateRegressor(epsilon=1.0).fit(X, 100.0 + 20.0 * X[:, 0])
    >>> bool(model.score(X, 100.0 + 20.0 * X[:, 0]) > 0.8)
    True
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float = 1e-6,
        mu: float | None = None,
        adjacency: str = "replace",
        ledger: Ledger | None = None,
        horizon: int | None = None,
        target_range: tuple[float, float] | None = None,
        drop: Sequence[str] = (),
        crosses: Sequence[tuple[str, str]] = (),
        declared: Any = None,
        reuse_rows: bool | None = None,
        release: Any = None,
        releases: str = "all",
        on_invalid: str = "raise",
        random_state: Any = None,
        rows_per_user: int | None = None,
        user_separation: int = 1,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.mu = mu
        self.adjacency = adjacency
        self.ledger = ledger
        self.horizon = horizon
        self.target_range = target_range
        self.drop = drop
        self.crosses = crosses
        self.declared = declared
        self.reuse_rows = reuse_rows
        self.release = release
        self.releases = releases
        self.on_invalid = on_invalid
        self.random_state = random_state
        self.rows_per_user = rows_per_user
        self.user_separation = user_separation

    def partial_fit(self, X: Any, y: Any, users: ArrayLike | None = None) -> Self:
        """Learn a block of rows: as :meth:`PrivateClassifier.partial_fit`."""
        return self._partial_fit(X, y, users)

    def predict(self, X: Any) -> FloatArray:
        """Return the predicted target of every row, shape (n,), in its own units."""
        return self.schema_.unscale(self._predicted(X, _targets))

    def predict_one(self, x: Any) -> float:
        """Return the predicted target of one row: a dict, or its cells in order."""
        score = self._score_of(x)
        return float(self.predict([x])[0] if score is None else self.schema_.unscale(score))

    # ---- for the base class -------------------------------------------------------------------------

    def _loss(self, n_classes: int) -> str:
        return default_loss(0)

    def _regression(self) -> bool:
        return True

    def _declared_target(self, name: str | int) -> Target | None:
        if self.target_range is None:
            return None
        if not isinstance(self.target_range, Sequence | np.ndarray) or len(self.target_range) != 2:
            raise InvalidParameter(f"target_range must be a pair (low, high) or None, found {self.target_range!r}")
        low, high = (number(target_range=end) for end in self.target_range)
        if not low < high:
            raise InvalidParameter(f"target_range must have low below high, found {self.target_range!r}")
        return declared_target(name, None, (low, high))

    def _targets_of(self, y: Any, learnt: int, missing: Sequence[str]) -> Any:
        return read_numbers(y, self.on_invalid == "raise", learnt)

    def _show(self, classes: tuple[Any, ...] | None) -> None:
        """Set nothing: real targets have no labels."""


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _checked(classes: Any) -> NDArray[Any]:
    """Return declared labels, ascending."""
    listed = classes.tolist() if isinstance(classes, np.ndarray) else classes
    Labels(listed, None)  # refuses missing or repeated labels
    if isinstance(listed, Mapping) or len({isinstance(label, str) for label in listed}) > 1:
        raise InvalidParameter(f"classes must be of one kind, numbers or text, found {classes!r}")
    return np.unique(np.asarray(classes))


def _probabilities(learner: Learner, X: Any, *, cut: float) -> FloatArray:
    return probabilities(learner, X, cut)


def _decisions(learner: Learner, X: Any) -> FloatArray:
    found: FloatArray = learner.decision_function(X)
    return found


def _targets(learner: Learner, X: Any) -> FloatArray:
    found: FloatArray = learner.predict(X)
    return found
