"""Prefix sums of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._validate import integer
from ..ledger import Ledger
from ._base import FloatArray, Sums

__all__ = ["PrefixSum"]


class PrefixSum(Sums):
    """Private prefix sums of vectors.

    Parameters
    ----------
    dim : int
        Coordinates of a row, at least 1.
    horizon : int or None
        Rows that the budget must last for; one row more raises ``BudgetExceeded``. ``None``: not known; the run is then
        a sequence of epochs of doubling length (up to 2**25 / sqrt(leaf) leaves for "blt", 2**48 / leaf**2 for
        "banded", 2**20 numbers to keep for "sqrt"), each with noise of its own for the whole budget over rows of its
        own. A prefix sum is that of the finished epochs and of the current one, and has the noise of all of these. Sums
        that forget (``discount``, ``window``) need no epochs.
    bound : float, default=1.0
        Public bound of a row's L2 norm, 1e-14 to 1e14; longer rows are scaled to it.
    epsilon, delta : float
        The budget of the whole run. ``epsilon=inf``: no noise.
    design : {"blt", "tree", "honaker", "smooth", "sqrt", "banded", "independent"}
        Default "blt": nearly the least noise known, with memory for ``buffers`` vectors. "tree" (Algorithm 5 of Jain,
        Kothari and Thakurta), "honaker" and "smooth" add rows up exactly, in integers. "sqrt" keeps every row
        (``horizon * dim`` at most 2**26) and takes time near the root of their number for each. "banded" is "sqrt" cut
        off after ``bandwidth`` leaves: it keeps twice that many vectors, and the time for a leaf grows with them. It is
        there for comparison: "blt" mostly has less noise, and costs a fraction. "independent" perturbs every row: for
        uses of the differences.
    rows_per_user, user_separation : int, optional
        The budget covers all rows of one user together: at most this many, any two at least this far apart (default:
        1). A larger distance needs less noise; a multiple of ``leaf`` is best. Default: it covers one row.
    count_users : bool, default=False
        Whether the object enforces this: every row then comes with its user (``user``, ``users``). A row beyond the cap
        or too near to the last one of its user is a row of zeros with ``on_invalid="zero"``, and with "raise" an error
        before anything of its block is learnt. Distances count rows of zeros too. At most 2**24 users, stored as keyed
        hashes. Otherwise nobody checks it, and the guarantee says so.
    adjacency : {"replace", "zero_out"}, default="replace"
    leaf : int, default=1
        Rows of a step: a new prefix sum comes after every ``leaf`` rows, and contains fewer noisy numbers.
    buffers, bandwidth, objective, theta, omega : optional
        Of the BLT, and of the band (its length in leaves, 1 to 65,536, times ``dim`` at most 2**26); see
        :func:`privol.factorizations.factorization`.
    discount : float, default=1.0
        Above 0 to 1. Below 1 for discounted sums, of a stream that drifts: a row's weight is multiplied with it for
        every row that comes later (of later leaves). For "blt", "sqrt", "banded" and "independent". The noise of all
        sums then has a bound, and with ``horizon=None`` the run is one mechanism without a last row (2**48).
    window : int, optional
        For sliding sums: the number of most recent rows that a sum covers, a multiple of ``leaf``. Otherwise as
        ``discount``, which excludes it; ``window / leaf`` noisy vectors are stored (at most 2**26 numbers).
    first_epoch : int, default=1024
        Leaves of the first epoch, if the horizon is not known.
    calibration : {"tight", "published"}, default="tight"
        "published": the noise of Algorithm 5 (design "tree", adjacency "replace", a known horizon).
    ledger : Ledger, optional
        Ledger of the run; default: one of its own.
    on_invalid : {"raise", "zero"}, default="raise"
        A row with an entry that is not finite: an error that names it before anything of its block is learnt, or a row
        of zeros.
    random_state : None, int, BitGenerator or Generator, optional
        ``None``: noise that cannot be reproduced. Any other value is for tests, and the guarantee says that it is not
        private.

    Attributes
    ----------
    prefix_ : ndarray of shape (dim,)
        The last prefix sum released; zeros before the first.
    guarantee_ : Guarantee
    ledger_ : Ledger
    n_rows_, n_releases_ : int
    weight_ : float
        Sum of the weights of the rows in the last prefix sum.

    Raises
    ------
    InvalidParameter
        If a parameter is out of its range, or the sums over the horizon do not fit the integers at this noise.
    BudgetExceeded
        If the ledger cannot carry the run.

    Notes
    -----
    Public: everything that is returned, ``guarantee_``, ``std``. Secret: rows, exact sums, noise, ``secret_state``.
    Cost per row O(dim) for "tree", "independent" and, times the buffers or the bandwidth, for "blt" and "banded"; two
    and a little more draws per row for "honaker" and "smooth". Memory: O(log horizon) vectors for the designs of
    intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from privol.prefix import PrefixSum
    >>> sums = PrefixSum(dim=2, horizon=1000, epsilon=1.0, delta=1e-6, design="tree")
    >>> sums.add_block(np.full((1000, 2), 0.5)).shape
    (1000, 2)
    >>> bool(abs(sums.prefix_ - 500).max() < 10 * sums.std())
    True
    """

    def __init__(
        self,
        *,
        dim: int,
        horizon: int | None,
        bound: float = 1.0,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        design: str = "blt",
        rows_per_user: int | None = None,
        user_separation: int = 1,
        count_users: bool = False,
        adjacency: str = "replace",
        leaf: int = 1,
        buffers: int = 4,
        bandwidth: int | None = None,
        objective: str = "max",
        theta: Sequence[float] | None = None,
        omega: Sequence[float] | None = None,
        discount: float = 1.0,
        window: int | None = None,
        first_epoch: int = 1024,
        calibration: str = "tight",
        ledger: Ledger | None = None,
        on_invalid: str = "raise",
        random_state: Any = None,
    ) -> None:
        super().__init__(
            width=integer(dim=dim, at_least=1, at_most=1 << 32),
            gram=False,
            horizon=horizon,
            bound=bound,
            epsilon=epsilon,
            delta=delta,
            design=design,
            rows_per_user=rows_per_user,
            user_separation=user_separation,
            count_users=count_users,
            adjacency=adjacency,
            leaf=leaf,
            buffers=buffers,
            bandwidth=bandwidth,
            objective=objective,
            theta=theta,
            omega=omega,
            discount=discount,
            window=window,
            first_epoch=first_epoch,
            calibration=calibration,
            ledger=ledger,
            on_invalid=on_invalid,
            random_state=random_state,
        )

    def add(self, vector: ArrayLike, user: Any = None) -> FloatArray:
        """Learn one row: as :meth:`add_block` with one row, at a fraction of its cost.

        Parameters
        ----------
        vector : array-like of shape (dim,)
        user : number or text, optional
            Whose row it is, with ``count_users``.

        Returns
        -------
        ndarray of shape (dim,)
            The last prefix sum released: of all rows so far if this one completes a leaf, otherwise that of the last
            complete leaf.
        """
        if self._counting is not None or user is not None:
            row = vector[None] if isinstance(vector, np.ndarray) else [vector]
            return self.add_block(row, every=False, users=None if user is None else [user])
        self._enter()
        if type(vector) is not np.ndarray or vector.dtype.char not in "df":
            vector = self._row(vector, self._width)
        with self._lock:
            return self._run.add_one(vector, not self._refuse)

    def add_block(self, X: Any, *, every: bool = True, users: ArrayLike | None = None) -> FloatArray:
        """Learn a block of rows; how a stream is cut into blocks never changes a bit of the result.

        An interrupt (Ctrl-C) is raised when the block is learnt; an error of the noise source at the row it concerns:
        ``n_rows_`` says how many were learnt, and ``prefix_`` is what was released last.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, dim)
            float32 and float64 are read in place: another thread may not change them meanwhile. The structure of a
            sparse matrix is copied and then checked.
        every : bool, default=True
            Return the prefix sums after all rows instead of only the last.
        users : array-like of shape (n,), optional
            Whose rows they are, with ``count_users``: numbers or texts.

        Returns
        -------
        ndarray of shape (n, dim), or (dim,)
            Within a leaf: the prefix sum of the last complete one, again.

        Raises
        ------
        InvalidRow, InvalidParameter, BudgetExceeded, StateError
            Before anything of the block is learnt, spent or released.
        """
        return self._add(self._rows(X), every, users)

    @property
    def prefix_(self) -> FloatArray:
        """The last prefix sum released, shape (dim,)."""
        return self._run.prefix()
