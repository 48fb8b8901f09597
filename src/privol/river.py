"""Learners and estimators as estimators of River: they learn dicts one by one in its pipelines and its evaluation.

River is installed by ``pip install 'privol[river]'``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
from sklearn.base import clone, is_classifier

from ._values import shown
from .auto.base import PrivateModel
from .errors import InvalidParameter, StateError
from .guarantees import Guarantee
from .learners import DPFTRL, OnlineLearner
from .live import LiveRun
from .state import State

__all__ = ["as_river"]

_BINARY = (False, True)


def as_river(
    learner: Any,
    *,
    classes: Sequence[Any] | None = None,
    features: Sequence[str] | None = None,
    checkpoint: State | None = None,
) -> Any:
    """Return a learner as an estimator of River: a classifier or a regressor that learns dicts one by one.

    Parameters
    ----------
    learner : OnlineLearner, PrivateClassifier or PrivateRegressor
        That has not begun. It learns what the estimator learns, and has the guarantee, the ledger and the model.
    classes : sequence of labels, optional
        The public set of labels of a classifier. Default: False and True; of :class:`PrivateClassifier` its own
        parameter decides.
    features : sequence of str, optional
        The public names of the features. Default: those of the first row, which is then public in this respect.
    checkpoint : privol.state.State, optional
        Directory in which the run is kept, with ``rest=True``: rows are learnt as :class:`privol.live.LiveRun` does it,
        which is ``live``, and predictions are by what is on the disk. A clone needs another directory.

    Returns
    -------
    river.base.Classifier or river.base.Regressor
        With ``learner``, ``guarantee_`` and ``close()`` besides River's ``learn_one``, ``predict_one`` and
        ``predict_proba_one``. Before there is a model ``predict_one`` is None or 0, and all declared labels are alike.

    Raises
    ------
    InvalidParameter
        If it is no such learner, or River is not installed.

    Notes
    -----
    A feature that a row lacks is 0, for estimators of tables a missing cell; one that is not known is left out. Both
    look at that row alone. ``clone()`` gives an estimator that has not begun, with the same ledger.

    The guarantee is for the rows as the estimator gets them. A transformer before it that learns from rows, such as a
    scaler of River's, lets one row change all rows behind it, and the guarantee then says nothing of the rows that the
    pipeline gets. What looks at each row alone (selections, functions, one-hot encoders) keeps it.
    """
    if is_classifier(learner):
        return _kind("RiverClassifier")(learner, classes, features, checkpoint)
    if classes is not None:
        raise InvalidParameter("classes are those of a classifier, and the learner is for real targets")
    return _kind("RiverRegressor")(learner, features, checkpoint)


class _Wrapped:
    """The base of both kinds. Rows are dicts; missing and additional features are no errors, as in River.

    A feature that a row lacks is 0 for a learner and a missing cell for :class:`PrivateClassifier` and
    :class:`PrivateRegressor`. Features that the first row (or ``features``) did not have are left out. Both depend on
    that row alone.
    """

    learner: Any
    features: Sequence[str] | None
    checkpoint: State | None
    live: LiveRun | None = None
    _names: tuple[str, ...] | None
    _known: frozenset[str]

    def _keep(self, classes: Sequence[Any] | None) -> None:
        """Begin to keep the run, if there is a directory."""
        if self.checkpoint is not None:
            self.live = LiveRun(self.learner, self.checkpoint, classes=classes)
            known = self._names if self.live.features is None else self.live.features
            self._names, self._known = known, frozenset(known or ())

    def _check(self) -> None:
        if not isinstance(self.learner, OnlineLearner | PrivateModel):
            raise InvalidParameter(
                f"learner must be a learner of streams, PrivateClassifier or PrivateRegressor, found "
                f"{shown(self.learner)}: others need all rows at once"
            )
        self._names = None if self.features is None else tuple(self.features)
        self._known = frozenset(self._names or ())

    @property
    def guarantee_(self) -> Guarantee:
        """The guarantee of the learner."""
        return cast("Guarantee", self.learner.guarantee_)

    def close(self) -> None:
        """End the learner's run: make its last release, if one is due."""
        (self.live or self.learner).close()

    def _begun(self) -> bool:
        """Whether there is a model."""
        return bool(self.learner.__sklearn_is_fitted__())

    def _row(self, x: dict[Any, Any]) -> dict[Any, Any]:
        """Return a row with only the known names."""
        names = self._names
        if names is None or x.keys() == self._known:
            return x
        if isinstance(self.learner, PrivateModel):
            return {name: x.get(name) for name in names}
        return {name: x.get(name, 0.0) for name in names}

    def _learn(self, x: dict[Any, Any], y: Any) -> None:
        learn = (self.live or self.learner).learn_one
        if self._names is None:
            learn(x, y)
            self._names, self._known = tuple(x), frozenset(x)
        else:
            learn(self._row(x), y)

    def clone(self, new_params: dict[str, Any] | None = None, include_attributes: bool = False) -> Any:
        """Return an estimator with the same parameters, whose learner has not begun.

        A ledger that the learner was given stays the same one: whatever the clone learns is charged to it as well.
        ``include_attributes`` is refused: of what has been learnt there is one copy, which the budget was spent on.
        """
        if include_attributes:
            raise StateError("a clone of what has been learnt would draw its noise again: pickle holds what is public")
        if self.checkpoint is not None and (new_params or {}).get("checkpoint") is None:
            raise StateError("a clone cannot be kept in the same directory: clone({'checkpoint': State(...)}) has one")
        own: dict[str, Any] = {**cast("Any", self)._get_params(), **(new_params or {})}
        return type(self)(**{**own, "learner": clone(own["learner"])})


class _Classifying(_Wrapped):
    """A learner of labels as an estimator of River.

    Parameters
    ----------
    learner : OnlineLearner or PrivateClassifier
    classes : sequence of labels, optional
    features : sequence of str, optional
    checkpoint : privol.state.State, optional
        As for :func:`as_river`.

    Attributes
    ----------
    guarantee_ : Guarantee
    """

    def __init__(
        self,
        learner: Any,
        classes: Sequence[Any] | None = None,
        features: Sequence[str] | None = None,
        checkpoint: State | None = None,
    ) -> None:
        self.learner = learner
        self.classes = classes
        self.features = features
        self.checkpoint = checkpoint
        self._check()
        if not is_classifier(learner):
            raise InvalidParameter(f"learner must be a classifier, found {shown(learner)}: RiverRegressor takes it")
        if isinstance(learner, PrivateModel):
            own: Any = vars(learner).get("classes")
            if classes is not None and (own is None or list(own) != list(classes)):
                raise InvalidParameter(f"classes must be those of the learner, {own!r}, found {classes!r}")
            self._public = None if own is None else list(own)
        else:
            self._public = list(_BINARY if classes is None else classes)
            learner.declare_classes(self._public)
            if features is not None:
                learner.declare_features(list(features))
        self._keep(None if isinstance(learner, PrivateModel) else self._public)

    @property
    def _multiclass(self) -> bool:
        return self._public is None or len(self._public) > 2

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Learn a row and its label; errors are those of the learner's ``learn_one``."""
        self._learn(x, y.item() if isinstance(y, np.generic) else y)

    def predict_one(self, x: dict[Any, Any], **words: Any) -> Any:
        """Return the label of a row by the last released model; None before there is one."""
        if not self._begun():
            return None
        label = self.learner.predict_one(self._row(x))
        return label.item() if isinstance(label, np.generic) else label

    def predict_proba_one(self, x: dict[Any, Any], **words: Any) -> dict[Any, float]:
        """Return the probability of every label; before there is a model, all public labels are alike.

        Raises
        ------
        NotImplementedError
            If the loss has no probabilities, as River expects it.
        """
        if not hasattr(self.learner, "predict_proba_one"):
            raise NotImplementedError("the learner's loss has no probabilities")
        if not self._begun():
            return {} if self._public is None else dict.fromkeys(self._public, 1.0 / len(self._public))
        return cast("dict[Any, float]", self.learner.predict_proba_one(self._row(x)))

    def _unit_test_skips(self) -> set[str]:
        """River's checks that do not apply: labels that are learnt privately are known once enough rows have come."""
        learnt = {"check_predict_proba_one", "check_classifier_tracks_seen_labels"}
        return learnt if self._public is None else set()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"learner": DPFTRL(horizon=10_000, random_state=0)}


class _Regressing(_Wrapped):
    """A learner of real targets as an estimator of River.

    Parameters
    ----------
    learner : OnlineLearner or PrivateRegressor
    features : sequence of str, optional
    checkpoint : privol.state.State, optional
        As for :func:`as_river`.

    Attributes
    ----------
    guarantee_ : Guarantee
    """

    def __init__(self, learner: Any, features: Sequence[str] | None = None, checkpoint: State | None = None) -> None:
        self.learner = learner
        self.features = features
        self.checkpoint = checkpoint
        self._check()
        if is_classifier(learner):
            raise InvalidParameter(f"learner must be for real targets, found {shown(learner)}")
        if features is not None and not isinstance(learner, PrivateModel):
            learner.declare_features(list(features))
        self._keep(None)

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Learn a row and its target; errors are those of the learner's ``learn_one``."""
        self._learn(x, y)

    def predict_one(self, x: dict[Any, Any], **words: Any) -> float:
        """Return the target of a row by the last released model; 0 before there is one."""
        return float(self.learner.predict_one(self._row(x))) if self._begun() else 0.0

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"learner": DPFTRL(loss="squared", horizon=10_000, random_state=0)}


_KINDS = {"RiverClassifier": (_Classifying, "Classifier"), "RiverRegressor": (_Regressing, "Regressor")}


def _kind(name: str) -> Any:
    """Return an estimator's class, which is also River's: it is made when River is first needed."""
    known = globals().get(name)
    if known is None:
        try:
            from river import base
        except ImportError as error:
            raise InvalidParameter("River is not installed: pip install 'privol[river]'") from error
        own, theirs = _KINDS[name]
        body = {"__doc__": own.__doc__, "__module__": __name__}
        known = globals()[name] = type(getattr(base, theirs))(name, (own, getattr(base, theirs)), body)
    return known


def __getattr__(name: str) -> Any:
    if name not in _KINDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _kind(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_KINDS})
