"""Turns rows and targets that a caller gives to an estimator into tables that a run takes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_consistent_length, validate_data

from .._values import cells_of
from ..encoding.learning import MISSING_TEXTS
from ..encoding.schema import Schema
from ..errors import InvalidParameter
from ..guarantees import ShowsGuarantee
from ..readers.columns import Columns, blanked
from ..readers.frames import is_frame
from .course import Course
from .inputs import Blanked, Labelled, columns_of, dict_columns, target_name, unreadable, without
from .sparse_table import SparseCourse, SparseRows, codes_of

__all__ = ["ReadsTables"]

_FITTED = (
    "encoder_", "learner_", "classes_", "n_features_in_", "feature_names_in_", "_course", "_order", "_streamed",
    "_label_type", "_given", "_coders", "_cut",
    "_single", "_asking",
)  # fmt: skip


class ReadsTables(ShowsGuarantee, BaseEstimator):  # type: ignore[misc]
    """Reads the rows of an estimator and remembers their columns."""

    declared: Any
    on_invalid: str

    @abstractmethod
    def _regression(self) -> bool:
        """Whether targets are real."""

    @abstractmethod
    def _targets_of(self, y: Any, learnt: int, missing: Sequence[str]) -> Any:
        """Return the targets of a block as a pyarrow array, before anything of it is learnt."""

    def _public_labels(self) -> tuple[Any, ...] | None:
        """Return the declared labels, ascending; None: none are declared."""
        return None

    def _forget(self) -> None:
        """Drop an earlier run; one that is open ends."""
        course: Course | None = vars(self).get("_course")
        if course is not None and not course.closed:
            course.abandon()
        for name in _FITTED:
            self.__dict__.pop(name, None)

    def _columns(
        self, X: Any, *, reset: bool, least: int = 1, gone: NDArray[np.bool_] | None = None
    ) -> tuple[Columns, NDArray[np.bool_] | None]:
        """Return rows as columns, and which are null rows: those ``gone``, and those that cannot be read."""
        if reset:
            self._forget()
        if sp.issparse(X):
            raise InvalidParameter("X is sparse, and the encoding was learnt of columns")
        if _are_dicts(X):
            return self._dict_columns(list(X), reset=reset, gone=gone)
        if not is_frame(X):
            words: dict[str, Any] = {"ensure_all_finite": False, "ensure_min_samples": least, "estimator": self}
            X = check_array(cells_of(X), dtype=None, **words)
        if not (vars(self).get("_streamed") and is_frame(X)):
            validate_data(self, X, reset=reset, skip_check_array=True)
        null = _either(unreadable(X) if self.on_invalid == "zero" else None, gone)
        if null is not None and null.any():
            X = without(X, null)
        named = hasattr(self, "feature_names_in_")
        if not is_frame(X):
            return _readable(columns_of(X, self.feature_names_in_.tolist() if named else None), null)
        if not hasattr(X, "__len__"):
            raise InvalidParameter(f"X must have a length, found a {type(X).__name__}: fit_stream reads as it comes")
        return _readable(columns_of(X, None if named else [f"x{j}" for j in range(self.n_features_in_)]), null)

    def _table(
        self,
        X: Any,
        y: Any,
        *,
        reset: bool,
        least: int = 1,
        learnt: int = 0,
        stated: Mapping[str, Any] | None = None,
        gone: NDArray[np.bool_] | None = None,
    ) -> Any:
        """Return rows with their targets.

        ``stated`` has attributes that are set once the columns are known; ``gone`` marks rows of which nothing is read.
        """
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        if sp.issparse(X):
            return self._sparse(X, y, reset=reset, learnt=learnt, stated=stated or {})
        course: Course | None = vars(self).get("_course")
        if isinstance(course, SparseCourse) and not reset:
            raise InvalidParameter("X must be sparse, as the rows before it were")
        columns, null = self._columns(X, reset=reset, least=least, gone=gone)
        self.__dict__.update(stated or {})
        return self._labelled(columns, y, null, learnt)

    def _sparse(self, X: Any, y: Any, *, reset: bool, learnt: int, stated: Mapping[str, Any]) -> SparseRows:
        if reset:
            self._forget()
        elif not isinstance(vars(self).get("_course"), SparseCourse):
            raise InvalidParameter("X is sparse, and the encoding is learnt of columns")
        self.__dict__.update(stated)
        known = self._public_labels()
        if known is None:
            helps = "PrivateRegressor takes columns" if self._regression() else "classes= says which there are"
            raise InvalidParameter(f"X is sparse: its rows teach which features are frequent, and no targets; {helps}")
        validate_data(self, X, reset=reset, skip_check_array=True)
        check_consistent_length(X, y)
        codes = codes_of(self._targets_of(y, learnt, MISSING_TEXTS), known)
        return SparseRows(X, codes, known, refuse=self.on_invalid == "raise", learnt=learnt)

    def _dict_columns(
        self, rows: list[Any], *, reset: bool, gone: NDArray[np.bool_] | None
    ) -> tuple[Columns, NDArray[np.bool_] | None]:
        if reset:
            names = list(rows[0])
            if not names or not all(isinstance(name, str) for name in names):
                raise InvalidParameter("the first row must have the names of all columns as its keys, which are text")
            self.feature_names_in_, self.n_features_in_ = np.array(names, dtype=object), len(names)
        names = self._column_names()
        null = _either(unreadable(rows, names) if self.on_invalid == "zero" else None, gone)
        return _readable(dict_columns(rows if null is None else without(rows, null), names), null)

    def _column_names(self) -> list[str]:
        """The names of the columns, once they are known."""
        known = getattr(self, "feature_names_in_", None)
        return [f"x{j}" for j in range(self.n_features_in_)] if known is None else list(known.tolist())

    def _labelled(self, columns: Columns, y: Any, null: NDArray[np.bool_] | None, learnt: int) -> Labelled:
        """Return columns with their targets, after reading all targets."""
        stated = {} if self.declared is None else Schema.load(self.declared, partial=True).file
        target = self._targets_of(y, learnt, stated.get("missing", MISSING_TEXTS))
        n = columns.count()
        check_consistent_length(np.empty(n), np.empty(len(target)))
        if null is not None and null.any():
            target = blanked(target, null)
        return Labelled(columns, target_name(columns.names), target, as_text=not self._regression())


def _either(null: NDArray[np.bool_] | None, gone: NDArray[np.bool_] | None) -> Any:
    """Return rows that are null rows for either reason; None: there are none."""
    return gone if null is None else null if gone is None else null | gone


def _readable(columns: Columns, null: NDArray[np.bool_] | None) -> tuple[Columns, NDArray[np.bool_] | None]:
    """Return columns without the cells of null rows, and which rows these are; None: nobody looked for any."""
    return (columns if null is None or not null.any() else Blanked(columns, null)), null


def _are_dicts(X: Any) -> bool:
    return isinstance(X, Sequence) and not isinstance(X, str | bytes) and len(X) > 0 and isinstance(X[0], Mapping)
