"""Rows that come as dicts: the names of a learner's features, and their values in its order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from .._core._rows import named_row
from .._validate import choice, integer
from .._values import number_of, shown
from .._vocabulary import ON_INVALID
from ..errors import InvalidParameter, InvalidRow

__all__ = ["FirstRow", "NamedFeatures"]

_FOUND_NAMES = (
    "the names of the features, which were found in the first row, are public (declare_features says them before)"
)


# What a run takes from its first row.
_OF_A_RUN = "n_features_in_", "feature_names_in_"


class FirstRow(NamedTuple):
    """A row that begins a run, and the names of its values."""

    values: Any
    names: tuple[str, ...]
    conditions: tuple[str, ...]  # what the guarantee says about names that were not declared


class NamedFeatures:
    """The names of a learner's features, in the order of its weights."""

    on_invalid: str

    def declare_features(self, n_features: int | Sequence[str]) -> Self:
        """Declare the public number of features, or their names, before the first row.

        Parameters
        ----------
        n_features : int, or sequence of str
            At least 1: nobody looks for it in rows that are a list. Rows of another length are refused, or null rows
            with ``on_invalid="zero"``; an array, a matrix or a frame of another width is an error. Or the names of the
            features in the order of the weights, all different: ``learn_one`` then takes dicts with these names, and
            arrays in this order.
        """
        names: tuple[str, ...] | None = None
        if isinstance(n_features, list | tuple | np.ndarray):
            names = tuple(n_features)
            if not all(isinstance(name, str) for name in names) or not 0 < len(names) == len(set(names)):
                raise InvalidParameter(f"names of features must be different texts, found {shown(n_features)}")
        self._declared_features = integer(n_features=n_features if names is None else len(names), at_least=1)
        self._declared_names = names
        return self

    def _refuse(self) -> bool:
        """Whether a row that cannot be learnt is an error; otherwise it is a null row."""
        return choice(ON_INVALID, on_invalid=self.on_invalid) == "raise"

    def _names(self) -> tuple[str, ...] | None:
        """The names of the features, if they are known."""
        known = self.__dict__
        found = known.get("feature_names_in_")
        if found is None:
            declared: tuple[str, ...] | None = known.get("_declared_names")
            return declared
        latest: tuple[Any, tuple[str, ...]] | None = known.get("_names_of")
        if latest is None or latest[0] is not found:
            latest = self._names_of = (found, tuple(found.tolist()))
        return latest[1]

    def _take_names(self, first: FirstRow | None) -> None:
        """Take the names of a run's first row; they must match declared ones."""
        declared: tuple[str, ...] | None = self.__dict__.get("_declared_names")
        if first is not None:
            self.feature_names_in_ = np.array(first.names, dtype=object)
        elif declared is not None and (self._names() or declared) != declared:
            found = shown(list(self._names() or ()))
            raise InvalidParameter(f"X must have the features {shown(list(declared))}, as were declared, found {found}")

    def _learn_named(self, x: dict[str, Any], y: Any, user: Any) -> Self:
        """Learn one row as ``learn_one`` of the learner does; errors call its features by name."""
        learner: Any = self
        run = self.__dict__.get("_run")
        if run is not None and user is None and type(x) is dict and (names := self._names()) is not None:
            plain = named_row(x, names)
            try:
                if plain is not None and run.learn_one(plain, y):
                    return self
            except InvalidRow:  # nothing was learnt; the error below uses the names
                pass
        row = self._first_row(x) if run is None else self._named_row(x, run.state.n_rows)
        before = {name: self.__dict__[name] for name in _OF_A_RUN if name in self.__dict__}
        try:
            learner.learn_one(row, y, user)
        except InvalidRow as error:
            if self.__dict__.get("_run") is run:  # no run has begun whose guarantee would say that the names are public
                for name in _OF_A_RUN:
                    self.__dict__.pop(name, None)
                self.__dict__.update(before)
            if error.column is None:
                raise
            known = row.names if isinstance(row, FirstRow) else self._names() or ()
            text = str(error).replace(f"feature {error.column}:", f"feature {known[error.column]!r}:", 1)
            raise type(error)(text, row=error.row, column=error.column) from None
        return self

    def _first_row(self, x: dict[str, Any]) -> FirstRow:
        """A row that begins a run; if no names are declared, its own, sorted, become those of the features."""
        declared: tuple[str, ...] | None = self.__dict__.get("_declared_names")
        if declared is not None:
            return FirstRow(self._values(x, declared, 0), declared, ())
        if not x or not all(isinstance(name, str) for name in x):
            raise InvalidParameter(f"names of features must be texts, at least one, found {shown(list(x))}")
        names = tuple(sorted(x))
        return FirstRow(self._values(x, names, 0), names, (_FOUND_NAMES,))

    def _named_row(self, x: dict[str, Any], learnt: int | None) -> Any:
        """Values of a row in the order of the features: doubles, or values that are still to be read.

        ``learnt`` counts the rows before it; None: the row is not learnt.
        """
        names = self._names()
        if names is None:
            raise InvalidParameter(
                "x is a dict, but the features have no names: declare_features([...]) before the first row gives them, "
                "or a first row that is a dict"
            )
        row = named_row(x, names) if type(x) is dict else None
        return self._values(x, names, learnt) if row is None else row

    def _values(self, x: dict[str, Any], names: tuple[str, ...], learnt: int | None) -> Any:
        known = set(names)
        missing, unknown = [name for name in names if name not in x], [name for name in x if name not in known]
        if not missing and not unknown:
            return [x[name] for name in names] if learnt is not None else [_number(name, x[name]) for name in names]
        if learnt is not None and not self._refuse():
            return np.full(len(names), np.nan)  # a null row
        found = " and ".join(f"{what} {shown(of[0])}" for what, of in (("lacks", missing), ("has", unknown)) if of)
        allowed = f"allowed are the {len(names)} names of the features, all of them"
        if learnt is None:
            raise InvalidParameter(f"x {found}: {allowed}")
        row = learnt + 1
        raise InvalidRow(f"row {row} {found}: {allowed}; nothing of its block was learnt", row=row)


def _number(name: str, value: Any) -> float:
    try:
        return number_of(value)
    except Exception:  # a type of the caller's own may raise anything
        raise InvalidParameter(f"x, feature {name!r}: found {shown(value)}, allowed are real numbers") from None
