"""Regularised empirical risk of linear models: values, certified gradients, second derivatives."""

import math

import numpy as np

cimport numpy as cnp
from libc.math cimport isfinite
from libc.stdint cimport int64_t

from ..errors import InvalidParameter, InvalidRow, StateError
from ._losses cimport bind_loss, callbacks_of, custom_rows
from ._noise cimport first_pass, pv_first_pass_levels, pv_wipe
from ._rows cimport PV_ENTRY_MAX, invalid_row, pv_rows_bind, view_block

cnp.import_array()

cdef int64_t MOST_COORDINATES = 1 << 29  # docs/proofs/solver.md

#: The assumed error of the computed slope of a user's loss, relative to ``L + c (1 + |p| + |y|)``.
CUSTOM_ERROR = PV_CUSTOM_ERROR


cdef class Objective:
    """The objective ``F(w) = sum_i phi(s_i . w, y_i) + (l2_sum / 2) |w|^2 + linear . w`` on fixed rows.

    ``s_i`` is row i, scaled to ``x_bound`` if it is longer, with the constant 1 if there is an intercept (the last
    coordinate of ``w``, regularised like the others). ``F`` is the exact function of the given doubles, including the
    computed factor of a scaled row: ``|s_i| <= sqrt(x_bound^2 + 1) (1 + (d/8 + 8) 2^-53)`` with an intercept
    (docs/proofs/solver.md). Values and gradients have the same bits for dense, strided and CSR rows, for float32 and
    float64, at every instruction-set level.

    Everything here is secret: rows, and what is computed from them. Rows that can be read in place are not copied, and
    must not change while the objective is in use. Methods may run in several threads at once.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        float32 or float64 in place; other types are copied.
    targets : ndarray of shape (n,)
        -1 and +1 for classification losses, real numbers within 1e150 for others; NaN: the null row, which has no loss
        term. Copied.
    loss : privol.losses.Loss
        With one score and finite smoothness. A user's own loss is called three times for every row in a pass: for the
        value and the slope at its prediction, and for the slope next to it, which gives the curvature.
    l2_sum : float
        Lambda, in sum form: ``n * l2``. From 1e-150 to 1e150.
    linear : ndarray of shape (dim,) or None
        The vector b, in sum form. ``None``: 0. Copied.
    intercept : bool
    x_bound : float
        From 1e-30 to 1e30.
    y_bound : float, default=inf
        Real targets are clipped to it.
    refuse : bool, default=True
        Raise for a row with an unusable entry (not finite, or beyond 1e150) and a target; ``False``: it is a null row.

    Attributes
    ----------
    n : int
        Rows given, null rows among them.
    dim : int
        Coordinates of w: ``d``, one more with an intercept.
    n_clipped, n_null : int
        Rows scaled to ``x_bound``; rows without a loss term. Private.

    Raises
    ------
    InvalidParameter
        For a parameter out of its range, and for a loss with a kink (use smooth_hinge for hinge, huber for absolute) or
        with several scores. Any method raises it if a user's loss raises or returns a number that is not finite: the
        message reveals nothing about the rows, and the objective cannot be used afterwards.
    InvalidRow
        With ``refuse``; for a CSR matrix whose structure is broken, always.

    Notes
    -----
    Cost: one pass over the rows, 16 bytes for each.
    """

    def __init__(self, X, targets, *, loss, double l2_sum, linear=None, bint intercept=False, double x_bound=1.0,
                 double y_bound=math.inf, bint refuse=True):
        cdef double *norm
        cdef double *factor
        cdef int64_t i, scaled
        if self.loss is not None:
            raise InvalidParameter("an objective cannot be made twice")
        _check_loss(loss)
        self.code = loss.code
        self.user = callbacks_of(loss)
        bind_loss(&self.c.loss, loss, self.user)
        if not 1e-30 <= x_bound <= 1e30:
            raise InvalidParameter(f"x_bound must be a number from 1e-30 to 1e30, found {x_bound!r}")
        if not y_bound >= 0.0:
            raise InvalidParameter(f"y_bound must be a number of at least 0, found {y_bound!r}")
        self.rows_owner = view_block(&self.c.rows, X)
        self.use(first_pass().level)
        self.n, self.x_bound, self.y_bound = self.c.rows.n, x_bound, y_bound
        self.dim = self.c.dim = self.c.rows.d + intercept
        self.c.intercept = intercept
        if not 1 <= self.dim <= MOST_COORDINATES:
            raise InvalidParameter(f"a model has 1 to {MOST_COORDINATES} coordinates, found {self.dim}")
        self.norms, self.factors = np.empty(max(self.n, 1)), np.empty(max(self.n, 1))
        norm, factor = <double *>cnp.PyArray_DATA(self.norms), <double *>cnp.PyArray_DATA(self.factors)
        with nogil:
            scaled = pv_objective_factors(&self.c.rows, x_bound, norm, factor)
        if scaled:
            self.c.factors = factor
        self.usable = self.norms[:self.n] >= 0.0
        self.norms = None
        self.loss = loss
        self.bind_targets(targets)
        if refuse and not self.usable.all():
            for i in np.flatnonzero(~self.usable & ~np.isnan(self.targets)):
                raise invalid_row(&self.c.rows, i, 0)
        self.c.l2 = _l2(l2_sum)
        self.bind_linear(linear)

    cdef void use(self, int level) noexcept:
        self.c.level = level
        # custom_rows needs the GIL, which the methods below hold for it: the cast through void * marks this as intended
        self.c.many = pv_loss_rows_at(self.code, level) if self.user is None else <pv_loss_rows><void *>custom_rows
        self.c.vectors = pv_vectors_at(level)
        pv_rows_bind(&self.c.rows)
        pv_rows_use(&self.c.rows, level)

    def with_changes(self, *, targets=None, l2_sum=None, linear=None, level=None):
        """The objective on the same rows with other targets, another ``l2_sum`` or another ``linear``.

        What is not given stays; pass zeros as ``linear`` to drop it. The rows are neither copied nor read, so this is
        cheap for one-versus-rest models and for paths of ``l2_sum``. ``level``, for tests, is an instruction-set level.

        Returns
        -------
        Objective
        """
        cdef Objective other = Objective.__new__(Objective)
        other.c = self.c
        other.loss, other.code, other.user, other.n, other.dim = self.loss, self.code, self.user, self.n, self.dim
        other.n_clipped, other.n_null = self.n_clipped, self.n_null
        other.x_bound, other.y_bound = self.x_bound, self.y_bound
        other.rows_owner, other.usable, other.factors = self.rows_owner, self.usable, self.factors
        other.targets, other.index, other.slopes = self.targets, self.index, self.slopes
        if level is not None:
            if not 0 <= level < pv_first_pass_levels():
                raise InvalidParameter(f"level must be one that this processor has, found {level!r}")
            other.use(level)
        if targets is not None:
            other.bind_targets(targets)
        if l2_sum is not None:
            other.c.l2 = _l2(l2_sum)
        if linear is not None:
            other.bind_linear(linear)
        return other

    @property
    def l2_sum(self) -> float:
        """Lambda, the strong convexity of the objective."""
        return self.c.l2

    @property
    def linear(self):
        """The vector b, shape (dim,), or None."""
        return None if self.slopes is None else self.slopes.copy()

    def value_gradient(self, w):
        """The objective and its gradient at ``w``, as computed.

        Parameters
        ----------
        w : ndarray of shape (dim,)
            Finite.

        Returns
        -------
        value : float
            Within about ``2^-46`` of its terms' sum, and of n.
        gradient : ndarray of shape (dim,)
            Its rounding errors are bounded by ``gradient_allowance``.

        Notes
        -----
        Cost: one pass, two operations with each row.
        """
        owner = []
        cdef const double *point = self.vector(w, "w", owner)
        cdef cnp.ndarray work = np.empty(3 * self.dim)
        cdef cnp.ndarray gradient = np.empty(self.dim)
        cdef double *scratch = <double *>cnp.PyArray_DATA(work)
        cdef double *out = <double *>cnp.PyArray_DATA(gradient)
        cdef double value = 0.0
        cdef pv_risk risk
        self.sums_at(point, scratch, NULL, NULL, &value)
        risk = pv_objective_finish(&self.c, point, value, <double>self.c.n, scratch, out)
        pv_wipe(scratch, 3 * self.dim * sizeof(double))
        return risk.value, gradient

    def finished(self, w, double value, double n, sums):
        """The objective and its gradient at ``w``, given the losses of n rows and the sums of their gradients.

        The rows may be elsewhere; the sums have shape (2, dim), as :class:`privol._core._row_sums.RowSums` gives them.
        """
        owner = []
        cdef const double *point = self.vector(w, "w", owner)
        cdef cnp.ndarray whole = np.ascontiguousarray(sums, dtype=np.float64)
        cdef cnp.ndarray gradient = np.empty(self.dim)
        cdef pv_risk risk
        if cnp.PyArray_SIZE(whole) != 2 * self.dim:
            raise InvalidParameter(f"sums must have shape (2, {self.dim}), found {np.shape(sums)}")
        risk = pv_objective_finish(&self.c, point, value, n, <double *>cnp.PyArray_DATA(whole),
                                   <double *>cnp.PyArray_DATA(gradient))
        return risk.value, gradient

    def hessian_product(self, w, v):
        """The Hessian at ``w`` times ``v``; where the loss's slope has a kink, one of its generalised Hessians.

        Parameters
        ----------
        w, v : ndarray of shape (dim,)
            Finite.

        Returns
        -------
        ndarray of shape (dim,)

        Notes
        -----
        Cost: two passes, 8 bytes for each row.
        """
        owner = []
        cdef const double *point = self.vector(w, "w", owner)
        cdef const double *direction = self.vector(v, "v", owner)
        cdef cnp.ndarray work = np.empty(3 * self.dim)
        cdef cnp.ndarray curvatures = np.empty(max(self.c.n, 1))
        cdef cnp.ndarray product = np.empty(self.dim)
        cdef double *scratch = <double *>cnp.PyArray_DATA(work)
        cdef double *curves = <double *>cnp.PyArray_DATA(curvatures)
        cdef double *out = <double *>cnp.PyArray_DATA(product)
        cdef double value = 0.0
        cdef int64_t j
        self.sums_at(point, scratch, NULL, curves, &value)
        with nogil:
            pv_objective_product(&self.c, curves, direction, out)
            for j in range(self.dim):
                out[j] += self.c.l2 * direction[j]
        return product

    def hessian(self, w):
        """The Hessian at ``w``, shape (dim, dim); where the loss's slope has a kink, a generalised one."""
        owner = []
        cdef const double *point = self.vector(w, "w", owner)
        cdef int64_t width = pv_hessian_width(self.dim)
        cdef cnp.ndarray work = np.empty(max(pv_hessian_work(self.dim), 3 * self.dim))
        cdef cnp.ndarray curvatures = np.empty(max(self.c.n, 1))
        cdef cnp.ndarray matrix = np.empty((width, width))
        cdef double *scratch = <double *>cnp.PyArray_DATA(work)
        cdef double *curves = <double *>cnp.PyArray_DATA(curvatures)
        cdef double *out = <double *>cnp.PyArray_DATA(matrix)
        cdef double value = 0.0
        cdef int64_t j
        self.sums_at(point, scratch, NULL, curves, &value)
        with nogil:
            pv_objective_hessian(&self.c, curves, 1, scratch, out)
            for j in range(self.dim):
                out[j * width + j] += self.c.l2
        lower = np.tril(matrix[:self.dim, :self.dim])
        return lower + np.tril(lower, -1).T

    def gradient_norm_bound(self, w) -> float:
        """A proven upper bound of ``|grad F(w)|``, the exact gradient at the doubles ``w``.

        The gradient is computed again; the bound is its norm plus an allowance for every rounding on the way
        (docs/proofs/solver.md). It is infinite if the arithmetic leaves the finite numbers.

        Parameters
        ----------
        w : ndarray of shape (dim,)
            Finite.

        Notes
        -----
        Cost: one pass, three operations with each row.
        """
        return self.certificate(w)[0]

    def certificate(self, w):
        """``gradient_norm_bound(w)`` and its allowance for rounding, as a pair of floats."""
        owner = []
        cdef const double *point = self.vector(w, "w", owner)
        cdef cnp.ndarray work = np.empty(4 * self.dim)
        cdef double *scratch = <double *>cnp.PyArray_DATA(work)
        cdef double bound, allowance = math.inf
        cdef pv_margins margins
        self.margins_at(point, scratch, &margins)
        bound = pv_objective_certify(&self.c, point, scratch, &margins, pv_objective_blocks(&self.c),
                                     scratch + 3 * self.dim, &allowance)
        if not (isfinite(bound) and isfinite(allowance)):
            return math.inf, math.inf
        return bound, allowance

    def forget(self):
        """Overwrite the copy of ``linear`` with zeros, here and in objectives that share it, then release it."""
        cdef cnp.ndarray b
        if self.slopes is not None:
            b = self.slopes
            pv_wipe(cnp.PyArray_DATA(b), cnp.PyArray_SIZE(b) * sizeof(double))

    def __repr__(self) -> str:
        return f"<Objective: {self.n} rows, {self.dim} coordinates>"

    def __reduce__(self):
        raise StateError("an objective holds secret rows and cannot be pickled or copied; with_changes() shares them")

    # ---- private ------------------------------------------------------------------------------

    cdef int sums_at(self, const double *w, double *work, double *predictions, double *curvatures,
                     double *value) except -1:
        if self.user is not None:
            self.check_user()
            value[0] = pv_objective_sums(&self.c, w, work, predictions, curvatures)
            return self.check_user()
        with nogil:
            value[0] = pv_objective_sums(&self.c, w, work, predictions, curvatures)
        return 0

    cdef int margins_at(self, const double *w, double *work, pv_margins *margins) except -1:
        if self.user is not None:
            self.check_user()
            pv_objective_margins(&self.c, w, work, margins)
            return self.check_user()
        with nogil:
            pv_objective_margins(&self.c, w, work, margins)
        return 0

    cdef int slope_along(self, const double *p, const double *q, double a, double *slope, double *curve) except -1:
        if self.user is not None:
            self.check_user()
            pv_objective_along(&self.c, p, q, a, slope, curve)
            return self.check_user()
        with nogil:
            pv_objective_along(&self.c, p, q, a, slope, curve)
        return 0

    cdef int check_user(self) except -1:
        """Raise the stored error of a user's loss, for this call, later calls and objectives on the same rows."""
        if self.user.error is not None:
            raise self.user.error
        return 0

    cdef int bind_targets(self, object targets) except -1:
        """Copy and check the targets, and find the rows in use."""
        cdef cnp.ndarray y = np.array(targets, dtype=np.float64, order="C")
        if y.ndim != 1 or y.shape[0] != self.n:
            raise InvalidParameter(
                f"targets must have one value per row: {self.n} rows, found shape {np.shape(targets)}"
            )
        if self.loss.kind == "classification":
            wrong = ~((np.abs(y) == 1.0) | np.isnan(y))
            allowed = "-1 or +1"
        else:
            np.clip(y, -self.y_bound, self.y_bound, out=y)
            wrong = np.abs(y) > PV_ENTRY_MAX
            allowed = f"within {PV_ENTRY_MAX:g}"
        if wrong.any():
            i = int(np.argmax(wrong))
            raise InvalidRow(f"row {i + 1}, target: found {y[i]}, allowed are numbers {allowed}", row=i + 1)
        counts = self.usable & ~np.isnan(y)
        self.index = None if counts.all() else np.flatnonzero(counts).astype(np.int64)
        self.targets = y
        self.c.y = <const double *>cnp.PyArray_DATA(y)
        self.c.index, self.c.n = NULL, self.n
        if self.index is not None:
            self.c.index, self.c.n = <const int64_t *>cnp.PyArray_DATA(self.index), self.index.shape[0]
        self.n_null = self.n - self.c.n
        self.n_clipped = 0 if self.c.factors == NULL else int(np.count_nonzero(self.factors[:self.n][counts] != 1.0))
        return 0

    cdef int bind_linear(self, object linear) except -1:
        cdef cnp.ndarray b
        if linear is None:
            return 0
        b = np.array(linear, dtype=np.float64, order="C")
        if b.ndim != 1 or b.shape[0] != self.dim or not (np.abs(b) <= PV_ENTRY_MAX).all():
            raise InvalidParameter(
                f"linear must have shape ({self.dim},) and finite numbers within {PV_ENTRY_MAX:g}, found shape "
                f"{np.shape(linear)}"
            )
        self.slopes = b
        self.c.linear = <const double *>cnp.PyArray_DATA(b)
        return 0

    cdef const double *vector(self, object w, object name, object owner) except? NULL:
        """The numbers of a vector of dim finite doubles, kept alive by the list ``owner``."""
        cdef cnp.ndarray x = np.ascontiguousarray(w, dtype=np.float64)
        if x.ndim != 1 or x.shape[0] != self.dim:
            raise InvalidParameter(f"{name} must have shape ({self.dim},), found {np.shape(w)}")
        if not np.isfinite(x).all():
            raise InvalidParameter(f"{name} must be finite")
        owner.append(x)
        return <const double *>cnp.PyArray_DATA(x)


def _check_loss(loss):
    if loss.joint:
        raise InvalidParameter(f"the objective is of one score of each row, found the loss {loss.name!r} of several")
    if math.isinf(loss.curvature):
        instead = f"; take {loss.smooth_name!r}" if loss.smooth_name else ""
        raise InvalidParameter(f"the {loss.name} loss has a kink, the minimiser needs a derivative{instead}")


def _l2(l2_sum):
    cdef double x = l2_sum
    if not 1e-150 <= x <= 1e150:
        raise InvalidParameter(f"l2_sum must be a number from 1e-150 to 1e150, found {l2_sum!r}")
    return x
