"""Learns the encoding of an undescribed table, or of sparse rows; a transformer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from .._values import cells_of
from ..errors import InvalidParameter
from ..guarantees import ShowsGuarantee
from ..ledger import Ledger, LedgerSeat
from ..readers.arrays import ArraySource
from ..readers.base import Source
from ..readers.columns import Columns
from ..readers.frames import ArrayColumns, DictColumns, FrameColumns, is_frame
from .encode import SchemaEncoder
from .frequent import FrequentSource
from .labels import Labels
from .rows import ColumnSource
from .streaming import StreamEncoder

__all__ = ["PrivateEncoder", "encoding_record"]


class PrivateEncoder(ShowsGuarantee, TransformerMixin, StreamEncoder, BaseEstimator):  # type: ignore[misc]
    """Learns from the first rows of a table what its columns mean, under differential privacy.

    Nothing has to be declared: it learns which columns are numbers and which are categories, the scales of the numbers,
    and the frequent categories and labels. The result is a :class:`~privol.streams.Schema`, which may be shown, stored
    and used again. The rows that taught it are not used again: a learner takes the following rows, and both together
    cost as much as the more expensive of them, since a row is in one of them only (``docs/proofs/phases.md``).

    Pass it to :func:`privol.open_stream` as ``schema``, and a learner takes the following rows. Or use it as any
    transformer of scikit-learn: :meth:`fit` learns from *all* rows that it is given. A learner of the same rows then
    costs its own budget in addition, in a pipeline or not; a shared :class:`~privol.ledger.Ledger` adds them up.

    For sparse rows of numbered features it learns which are frequent, and keeps these; others may share a ``sketch``.

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget of the whole encoding, above 0; infinite: without noise.
    delta : float, default=1e-6
        The delta at which epsilon is stated, above 0 and below 1.
    adjacency : {"replace", "zero_out"}
    numeric : {"cosine", "spline", "linear", "bins"}
        The features of a column of numbers: smooth functions of its quantiles, hat functions on them, one feature
        between the outer ones, or one indicator for each interval.
    n_rows : int, optional
        Rows of the whole stream, public. Default: they are counted, which needs an input that can be read twice.
    drop : sequence of str
        Columns that are left out.
    crosses : sequence of pairs of str
        Columns whose features are multiplied, each of one with each of the other. This needs no further learning.
    declared : Schema, mapping or path of a TOML file, optional
        Public facts about some columns, or the target, used as stated. With a ``[user]`` the rows of a user are counted
        over the whole stream, including those that teach.
    regression : bool, optional
        Whether the target is a real number. Default: it is unless nearly all rows have one of the frequent labels.
    reuse_rows : bool or None, default=False
        True: all rows of a stream teach, and all of them are passed on. A learner of them pays in addition (squares of
        both mu add up, in their shared ledger), and the input must be readable twice. This helps if rows are few;
        ``docs/encoding.md`` has figures. None: only if the first rows are too few, by the numbers of rows and columns
        and the budget; the encoding then takes a quarter of the budget (of mu squared), and :attr:`model_epsilon_` is
        the rest.
    random_state : None, int, ...
        See :func:`privol.noise.make_source`; anything but None is **not private**.
    ledger : Ledger, optional
        It pays. Default: one of its own, which adds up repeated learning. A learner of the following rows must
        have the same one.
    rows_per_user : int, optional
        The budget covers all rows of one user, at most this many in the stream (1 to 1024), whether they teach or
        are learnt. If following rows are learnt, m rows of a user that teach cost at most
        the share ``m / rows_per_user`` of mu squared, so that a learner with the same budget after the encoding stays
        within it too. Default: it covers one row.
    user_separation : int, default=1
        With ``rows_per_user``: any two rows of a user are at least this many rows apart. With a larger distance fewer
        of them teach.
    sketch : int, default=0
        Of sparse rows: how many features those share that are not frequent (up to 2^30), by a public hash, with a fifth
        of a row's square. This costs nothing, and rarely gains anything: ``docs/encoding.md`` has figures. 0: they are
        left out.
    sparse_output : bool, optional
        Whether :meth:`transform` returns CSR. Default: if its rows are sparse.

    Attributes
    ----------
    schema_ : Schema
        The learnt schema. Public, like all attributes below.
    plan_ : EncodingPlan
        Which rows taught it, and with how much noise.
    reused_ : bool
        Whether the rows that taught are passed on too.
    model_epsilon_ : float
        The epsilon of a learner of the following rows with which both stay within ``epsilon``; with
        ``reuse_rows=True`` the encoding has all of it.
    dropped_ : dict of str to str
        Why a column was left out.
    labelled_ : float or None
        If labels were learnt: the approximate share of the later rows with a target that have one of these labels. The
        others are null rows; in a sorted table there may be many.
    counted_ : tuple of CountedPhase
        The releases of each phase, for its guarantee: rows, histograms and the noise of a count.
    uncrossed_ : dict of str to str
        Why a cross was left out, by its name, such as "age*town".
    guarantee_ : Guarantee
    ledger_ : Ledger
    account_ : Account
        Its spending, in :attr:`ledger_`.
    n_features_in_ : int
        Columns of the input that was fitted.
    feature_names_in_ : ndarray of str
        Their names, where all are strings.

    Notes
    -----
    Cost: about a microsecond per cell of the rows that teach; for the others only reading.
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        adjacency: str = "replace",
        numeric: str = "cosine",
        n_rows: int | None = None,
        drop: Sequence[str] = (),
        crosses: Sequence[tuple[str, str]] = (),
        declared: Any = None,
        regression: bool | None = None,
        reuse_rows: bool | None = False,
        random_state: Any = None,
        ledger: Ledger | None = None,
        rows_per_user: int | None = None,
        user_separation: int = 1,
        sketch: int = 0,
        sparse_output: bool | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            adjacency=adjacency,
            numeric=numeric,
            n_rows=n_rows,
            drop=drop,
            crosses=crosses,
            declared=declared,
            regression=regression,
            reuse_rows=reuse_rows,
            random_state=random_state,
            ledger=ledger,
            rows_per_user=rows_per_user,
            user_separation=user_separation,
            sketch=sketch,
        )
        self.sparse_output = sparse_output

    def fit(self, X: Any, y: Any = None) -> PrivateEncoder:
        """Learn the encoding from all rows.

        Parameters
        ----------
        X : frame, array or sparse matrix of shape (n, columns)
            Columns of an array, or of a frame whose names are no strings, are called x0, x1, ... Cells may be numbers,
            text and None; in lists, arrays of objects and masked arrays each is read by itself, and masked cells are
            missing.
        y : None
            Neither read nor paid for. ``regression=True`` learns fewer knots, as suits a real target.

        Returns
        -------
        PrivateEncoder
            This one.

        Raises
        ------
        InvalidParameter, StreamError, BudgetExceeded
            As :func:`privol.open_stream` with it as schema.
        """
        if self.n_rows is not None:
            raise InvalidParameter("n_rows is for streams: fit counts the rows that it is given")
        found = self._read(X, reset=True)
        seen = {name: value for name, value in vars(self).items() if name in ("n_features_in_", "feature_names_in_")}
        if isinstance(found, Columns):
            self.learn(found, False, Labels(None, None), whole=True)
        else:
            self.learn_rows(found, whole=True)
        self.__dict__.update(seen)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Learn the encoding from all rows, and return their features.

        It costs as much as :meth:`fit`: the encoding alone. These rows have then been used: a learner of them pays its
        own budget in addition, and the squares of both mu add up. They must not be learnt as rows *beside*
        the encoding, which would count them once (``docs/proofs/phases.md``).

        Parameters
        ----------
        X, y
            As for :meth:`fit`.

        Returns
        -------
        ndarray or CSR array of shape (n, features)
            As of :meth:`transform`.
        """
        return self.fit(X, y).transform(X)

    def transform(self, X: Any) -> Any:
        """Return the features of rows, a function of each row's own cells and of public values.

        Returns
        -------
        ndarray or CSR array of shape (n, features)
            The same bits as the rows of a stream with :attr:`schema_`.
        """
        check_is_fitted(self, "schema_")
        source = self._encoded(self._read(X, reset=False))
        blocks = [piece.X for piece in source.pieces(65536, lambda _: None) if piece.X.shape[0]]
        whole: Any = sp.vstack(blocks, format="csr") if source.sparse else np.concatenate(blocks)
        wanted = isinstance(source, FrequentSource) if self.sparse_output is None else self.sparse_output
        if wanted:
            return whole if sp.issparse(whole) else sp.csr_array(whole)
        return whole.toarray() if sp.issparse(whole) else whole

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[Any]:
        """Return the names of the features: as in :attr:`privol.streams.Stream.feature_names`, or "#17" of sparse rows.

        ``input_features`` must be None or :attr:`feature_names_in_`; if the encoder saw no names, it may give them.
        """
        check_is_fitted(self, "schema_")
        part, own = self.schema_.rows, self._columns
        n_columns = getattr(self, "n_features_in_", len(own) if part is None else part.features)
        given = None if input_features is None else np.asarray(input_features, dtype=object)
        known = getattr(self, "feature_names_in_", None)
        if given is not None:
            if known is not None and not np.array_equal(given, known):
                raise InvalidParameter("input_features is not equal to feature_names_in_")
            if len(given) != n_columns:
                raise InvalidParameter(
                    f"input_features should have length equal to number of features ({n_columns}), found {len(given)}"
                )
        if part is not None:
            return np.array(part.names, dtype=object)
        schema = self.schema_
        if given is not None and known is None:
            own = tuple(map(str, given))
            schema = schema.renamed(dict(zip(self._columns, own, strict=True)))
        row = dict.fromkeys(own)
        names = SchemaEncoder(schema, DictColumns(row, iter(()), [row]), target=False).feature_names
        return np.array(names, dtype=object)

    @property
    def _columns(self) -> tuple[str, ...]:
        """The columns that were learnt from, but for the target."""
        return tuple(name for name, _ in self.schema_.columns)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        for name in ("ledger_", "account_", "_own_ledger"):
            state.pop(name, None)
        if self.ledger is not None:
            state["ledger"] = LedgerSeat(self.ledger)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        seat = state.get("ledger")
        super().__setstate__({**state, "ledger": seat.ledger} if isinstance(seat, LedgerSeat) else state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def _read(self, X: Any, *, reset: bool) -> Columns | Source:
        """Return the columns of a frame or array, or sparse rows."""
        if not is_frame(X) and not sp.issparse(X):
            least = 2 if reset else 1
            words: dict[str, Any] = {"ensure_all_finite": False, "ensure_min_samples": least, "estimator": self}
            X = check_array(cells_of(X), dtype=None, **words)
        if reset or hasattr(self, "n_features_in_"):  # otherwise a stream taught it, and its schema says what it takes
            validate_data(self, X, reset=reset, skip_check_array=True)
        if sp.issparse(X):
            return ArraySource(X, None, Labels(None, None), "X")
        names = None
        if not reset and self.schema_.rows is None:
            names = self._columns
            if X.shape[1] != len(names) and not is_frame(X):
                raise InvalidParameter(f"X has {X.shape[1]} columns, and the schema is of {len(names)}")
        if not is_frame(X):
            return ArrayColumns(X, names)
        if hasattr(self, "feature_names_in_") or not hasattr(self, "n_features_in_"):
            return FrameColumns(X)  # by the frame's own names, which are those of the schema
        return FrameColumns(X, [f"x{j}" for j in range(self.n_features_in_)])

    def _encoded(self, found: Columns | Source) -> Source:
        part = self.schema_.rows
        if isinstance(found, Columns):
            if part is not None:
                raise InvalidParameter("X has columns, and the encoder was fitted on sparse rows")
            return ColumnSource(found, SchemaEncoder(self.schema_, found, target=False))
        if part is None:
            raise InvalidParameter("X is sparse, and the encoder was fitted on columns")
        return FrequentSource(found, part, ())


def encoding_record(encoder: PrivateEncoder) -> dict[str, Any]:
    """Return the public record of the mechanism of a learnt encoding, for ``privol verify``.

    JSON values: the phases, the rows and histograms of each, and the noise as it was drawn.
    """
    phases, first = [], 1
    for phase in encoder.counted_:
        phases.append({"first_row": first, **asdict(phase)})
        first += phase.rows
    if encoder.schema_.rows is not None:  # votes: those of a row have norm 1, as the 1 of a histogram
        plan = encoder.plan_
        phases = [{"first_row": 1, "name": "votes", "rows": plan.rows, "histograms": 1, "std": plan.noise(1)}]
        first = 1 + plan.rows
    adjacency = encoder.guarantee_.adjacency
    return {"kind": "histograms", "adjacency": adjacency, "first_row": 1, "rows": first - 1, "phases": phases}
