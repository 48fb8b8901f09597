"""Newton's method for the objectives of offline learners, to a certified norm of the gradient."""

import math
from dataclasses import dataclass

import numpy as np

cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport fabs, fmin, isfinite, sqrt
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from ..errors import InvalidParameter, SolverFailure
from ._noise cimport pv_wipe
from ._objective cimport (
    Objective,
    pv_margins,
    pv_objective,
    pv_objective_certify,
    pv_objective_finish,
    pv_risk,
    pv_vectors,
)
from ._row_sums import RowSums, hessian_width

cnp.import_array()

cdef extern from "offline/pv_newton.h" nogil:
    int pv_cholesky(double *a, int64_t dim, int64_t width, double shift, const pv_vectors *vectors) noexcept
    void pv_cholesky_solve(const double *l, int64_t dim, int64_t width, double *x, const pv_vectors *vectors) noexcept
    void pv_add(double a, const double *x, double *y, int64_t n) noexcept
    void pv_scale_add(const double *x, double a, double *y, int64_t n) noexcept
    void pv_divide(const double *r, const double *diagonal, double *z, int64_t n) noexcept

MOST_DENSE = 512  # coordinates up to which the Hessian is formed and factored

cdef int PATIENCE = 12          # iterations without progress before it stops
# a factored Hessian is reused after a step that left less than this share of the gradient
cdef double REUSE = 0.2
cdef int64_t SAMPLE = 50        # rows per coordinate in the first Hessian
cdef int64_t SPARSEST = 64      # largest stride between those rows
cdef double ROUGH = 1e-3        # share of the gradient that conjugate gradients may leave if the loss is piecewise
cdef int MOST_TRIALS = 200      # points of a line search, none of which needs a pass over the rows
cdef int MOST_PRODUCTS = 10000  # steps of conjugate gradients


@dataclass(frozen=True)
class Minimiser:
    """A point whose gradient is certified to be small.

    Attributes
    ----------
    point : ndarray of shape (dim,)
        Secret. The distance from the exact minimiser is at most ``gradient_norm / l2_sum``.
    gradient_norm : float
        Proven upper bound of the norm of the exact gradient there, at most the norm requested.
    iterations : int
        Steps of Newton's method.
    evaluations : int
        Passes over the rows: gradients, Hessians and their products, certificates.
    """

    point: object
    gradient_norm: float
    iterations: int
    evaluations: int


cdef class _Search:
    """The state of one minimisation, except for what depends on single rows, which ``rows`` has."""

    cdef Objective objective
    cdef object rows
    cdef pv_objective *o
    cdef int64_t dim, width, n, passes, stride
    cdef bint dense, factored, fresh
    cdef list owners
    cdef object w_array, trial_array, work_array, hessian_array, scratch_array
    cdef double *w
    cdef double *trial
    cdef double *gradient
    cdef double *trial_gradient
    cdef double *step
    cdef double *work
    cdef double *hessian
    cdef double *scratch
    cdef pv_risk risk, trial_risk
    cdef double first, norm, target, rough

    cdef int begin(self, Objective objective, object rows, bint dense, double target) except -1:
        cdef int64_t dim = objective.dim
        self.objective, self.rows, self.o, self.dim, self.n = objective, rows, &objective.c, dim, rows.n
        self.dense, self.target, self.owners = dense, target, []
        self.rough = ROUGH if objective.loss.piecewise else 0.1
        self.w_array, self.trial_array = self.room(dim), self.room(dim)
        self.w, self.trial = address(self.w_array), address(self.trial_array)
        self.gradient, self.trial_gradient = address(self.room(dim)), address(self.room(dim))
        self.step, self.work_array = address(self.room(dim)), self.room(2 * dim).reshape(2, dim)
        self.work = address(self.work_array)
        if dense:
            self.width = hessian_width(dim)
            self.hessian_array = self.room(self.width * self.width).reshape(self.width, self.width)
            self.hessian = address(self.hessian_array)
            self.stride = 1
            while self.stride < SPARSEST and 4 * self.stride * SAMPLE * dim <= self.n:
                self.stride *= 4
        else:
            self.scratch_array = self.room(5 * dim).reshape(5, dim)
            self.scratch = address(self.scratch_array)
        return 0

    cdef object room(self, int64_t n):
        array = np.zeros(max(n, 1))
        self.owners.append(array)
        return array

    cdef int wipe(self) except -1:
        """Wipe the memory of the search: points, gradients, Hessians."""
        cdef cnp.ndarray array
        for array in self.owners:
            pv_wipe(cnp.PyArray_DATA(array), cnp.PyArray_SIZE(array) * sizeof(double))
        return 0

    cdef double length(self, const double *x) noexcept nogil:
        return sqrt(self.o.vectors.sqnorm(x, self.dim))

    cdef double dot(self, const double *x, const double *y) noexcept nogil:
        return self.o.vectors.dot(x, y, self.dim)

    cdef int evaluate(self) except -1:
        """The objective at ``trial``."""
        cdef double value
        PyErr_CheckSignals()
        self.passes += 1
        value = self.rows.losses(self.trial_array, self.work_array)
        self.trial_risk = pv_objective_finish(self.o, self.trial, value, <double>self.n, self.work,
                                              self.trial_gradient)
        return 0

    cdef void accept(self):
        self.w, self.trial = self.trial, self.w
        self.w_array, self.trial_array = self.trial_array, self.w_array
        self.gradient, self.trial_gradient = self.trial_gradient, self.gradient
        self.risk = self.trial_risk
        self.norm = self.length(self.gradient)

    cdef double certify(self, double *allowance) except? -1.0:
        cdef double bound, blocks
        cdef pv_margins margins
        PyErr_CheckSignals()
        self.passes += 1
        margins.slopes, margins.lengths, margins.underflow = self.rows.margins(self.w_array, self.work_array)
        blocks = self.rows.blocks
        bound = pv_objective_certify(self.o, self.w, self.work, &margins, blocks, self.trial_gradient, allowance)
        return bound if isfinite(bound) else math.inf

    cdef int factor(self) except -1:
        """Compute the Cholesky factor of the Hessian at ``w``, from a part of the rows while that is good enough.

        It is shifted by as little as makes it positive definite.
        """
        cdef double shift = 0.0, largest = 0.0
        cdef int64_t j
        cdef int done
        while True:
            PyErr_CheckSignals()
            self.passes += 1
            self.rows.hessian(self.w_array, self.stride, self.hessian_array)
            with nogil:
                largest = 0.0
                for j in range(self.dim):
                    self.hessian[j * self.width + j] += self.o.l2
                    largest = max(largest, self.hessian[j * self.width + j])
                done = pv_cholesky(self.hessian, self.dim, self.width, shift, self.o.vectors)
            if done or not isfinite(largest):
                self.factored = self.fresh = done != 0
                return 0
            shift = max(100.0 * shift, 1e-15 * largest)

    cdef int conjugate_gradients(self, double tolerance) except -1:
        """Find ``step`` with ``|H step + gradient| <= tolerance``, or as close as conjugate gradients come."""
        cdef double *r = self.scratch
        cdef double *z = r + self.dim
        cdef double *p = z + self.dim
        cdef double *product = p + self.dim
        cdef double *diagonal = product + self.dim
        cdef int64_t j
        cdef double rz, before, curve, a
        PyErr_CheckSignals()
        self.passes += 1
        self.rows.diagonal(self.w_array, self.scratch_array[4])
        with nogil:
            for j in range(self.dim):
                diagonal[j] += self.o.l2
                self.step[j] = 0.0
                r[j] = -self.gradient[j]
            pv_divide(r, diagonal, z, self.dim)
            memcpy(p, z, self.dim * sizeof(double))
            rz = self.dot(r, z)
        for _ in range(MOST_PRODUCTS):
            PyErr_CheckSignals()
            self.passes += 1
            self.rows.product(self.w_array, self.scratch_array[2], self.scratch_array[3])
            with nogil:
                for j in range(self.dim):
                    product[j] += self.o.l2 * p[j]
                curve = self.dot(p, product)
                if not (curve > 0.0 and isfinite(curve)):
                    break
                a = rz / curve
                pv_add(a, p, self.step, self.dim)
                pv_add(-a, product, r, self.dim)
                if self.length(r) <= tolerance:
                    break
                pv_divide(r, diagonal, z, self.dim)
                before, rz = rz, self.dot(r, z)
                if not (rz > 0.0 and isfinite(rz)):
                    break
                pv_scale_add(z, rz / before, p, self.dim)
        return 0

    cdef int direction(self) except -1:
        """Write Newton's step from ``w`` into ``step``; the curvatures are those at ``w`` unless a factor is reused."""
        cdef int64_t j
        if self.dense:
            if not self.factored:
                self.factor()
            for j in range(self.dim):
                self.step[j] = -self.gradient[j]
            if self.factored:
                with nogil:
                    pv_cholesky_solve(self.hessian, self.dim, self.width, self.step, self.o.vectors)
            return 0
        # As exact as the last step needs, and before that no more exact than superlinear convergence needs. A loss of
        # quadratic pieces converges once the right pieces are found, which rough steps take long to do.
        return self.conjugate_gradients(
            max(0.25 * self.target, self.norm * fmin(self.rough, sqrt(self.norm / max(self.first, self.norm))))
        )

    cdef void go(self, double a) noexcept:
        """``trial = w + a step``."""
        memcpy(self.trial, self.w, self.dim * sizeof(double))
        pv_add(a, self.step, self.trial, self.dim)

    cdef double along(self, double a, double linear, double square, double *curve) except? -1.0:
        """Derivative of the objective along the step, at ``w + a step``, from the predictions at both its ends."""
        cdef double slope
        slope, curve[0] = self.rows.along(self.w_array, self.trial_array, a)
        curve[0] += square
        return slope + linear + a * square

    cdef double search(self, double start) except? -1.0:
        """The step length at which the derivative along it, ``start`` at 0, is about 0, approached from below.

        The derivative increases, so the objective decreases as long as it is not positive.
        """
        cdef double square = self.o.l2 * self.dot(self.step, self.step)
        cdef double linear = self.o.l2 * self.dot(self.w, self.step)
        cdef double low = 0.0, high = math.inf, a = 1.0, slope, curve = 0.0, next_a
        cdef int k
        if self.o.linear != NULL:
            linear += self.dot(self.o.linear, self.step)
        for k in range(MOST_TRIALS):
            PyErr_CheckSignals()
            slope = self.along(a, linear, square, &curve)
            if not isfinite(slope):
                high = a
                a = 0.5 * (low + a) if low > 0.0 else 0.0625 * a
                continue
            if fabs(slope) <= 1e-3 * fabs(start) or (slope <= 0.0 and slope >= 0.25 * start):
                return a
            if slope > 0.0:
                high = a
            else:
                low = a
            next_a = a - slope / curve
            if not (next_a > low and next_a < high):
                if high == math.inf:
                    next_a = 8.0 * a
                elif low > 0.0:
                    next_a = sqrt(low) * sqrt(high)
                else:
                    next_a = high / 64.0
            elif high < math.inf and k % 3 == 2:  # so that the bracket shrinks whatever Newton's method does
                if low > 0.0625 * high:
                    next_a = 0.5 * (low + high)
                else:
                    next_a = sqrt(low) * sqrt(high) if low > 0.0 else high / 64.0
            if not (next_a > low and next_a < high and next_a < 1e150):
                break
            a = next_a
        return low

    cdef void judge(self, double left) noexcept:
        """Keep the factor if a step with it left little of the gradient's norm; otherwise it is computed again.

        Then more rows are used, unless the step was poor only because the factor came from a distant point.
        """
        if left > REUSE:
            if self.fresh and self.stride > 1:
                self.stride //= 4
            self.factored = False
        self.fresh = False

    cdef int advance(self) except -1:
        """Make one step. 0: no step helps."""
        cdef double start, end, a
        self.direction()
        start = self.dot(self.gradient, self.step)
        if not (start < 0.0 and isfinite(start)):
            return 0
        self.go(1.0)
        self.evaluate()
        end = self.dot(self.trial_gradient, self.step)
        if not (fabs(end) <= 0.5 * fabs(start) and self.trial_risk.value <= self.risk.value + self.risk.slack):
            a = self.search(start)
            if not a > 0.0:
                return 0
            if a != 1.0:
                self.go(a)
                self.evaluate()
        return 1


cdef double *address(cnp.ndarray array) noexcept:
    return <double *>cnp.PyArray_DATA(array)


def minimise(Objective objective not None, *, rows=None, start=None, double gradient_norm,
             int64_t max_iterations=200, method=None):
    """Minimise an objective until the norm of its exact gradient is certified.

    Newton's method. Up to 512 coordinates it uses the Cholesky factor of the Hessian, which is reused for several steps
    and formed from a part of the rows as long as steps converge fast; above, conjugate gradients. If the whole step
    overshoots, an exact search along it needs no further pass over the rows. The result has the same bits for all
    layouts and element types of the rows, at every instruction-set level. Ctrl-C takes effect between passes.

    Parameters
    ----------
    objective : Objective
    rows : RowSums, optional
        Where sums over rows come from. Default: the objective's own. Otherwise any object with the methods of
        :class:`RowSums`, whose rows replace those of ``objective``, which then has no rows of its own.
    start : ndarray of shape (dim,) or None
        Starting point, finite; ``None``: 0. For a path of ``l2_sum``, the previous point (which is secret).
    gradient_norm : float
        Above 0: the norm that the certificate must reach, for example ``1e-9 * R * n``.
    max_iterations : int
        At least 1.
    method : {"cholesky", "cg"} or None
        ``None``: by the number of coordinates.

    Returns
    -------
    Minimiser

    Raises
    ------
    SolverFailure
        If the certificate is not reached; the message says how far it came. Nothing uncertified is returned.
    InvalidParameter
        For a parameter out of its range.

    Notes
    -----
    Cost: ten to thirty gradients and some Hessians, ``n dim^2 / 2`` additions and products each; beyond 512
    coordinates, tens to hundreds of passes. Memory: three doubles for each row, and ``2 dim^2``.
    """
    if not (gradient_norm > 0.0 and isfinite(gradient_norm)):
        raise InvalidParameter(f"gradient_norm must be a finite number above 0, found {gradient_norm!r}")
    if max_iterations < 1:
        raise InvalidParameter(f"max_iterations must be an integer of at least 1, found {max_iterations!r}")
    if method is not None and method not in ("cholesky", "cg"):
        raise InvalidParameter(f"method must be one of 'cholesky', 'cg', or None, found {method!r}")
    cdef bint dense = objective.dim <= MOST_DENSE if method is None else method == "cholesky"
    cdef _Search s = _Search()
    own = RowSums(objective) if rows is None else None
    try:
        s.begin(objective, own if rows is None else rows, dense, gradient_norm)
        return _descend(s, start, gradient_norm, max_iterations)
    finally:
        s.wipe()
        if own is not None:
            own.wipe()


cdef object _descend(_Search s, object start, double gradient_norm, int64_t max_iterations):
    cdef double bound, allowance = math.inf, best = math.inf, reached = math.inf, smallest = math.inf
    cdef double lowest = math.inf, before
    cdef int64_t iterations = 0
    cdef int idle = 0
    cdef const double *given
    if start is not None:
        owner = []
        given = s.objective.vector(start, "start", owner)
        memcpy(s.trial, given, s.dim * sizeof(double))
    s.evaluate()
    s.accept()
    s.first = s.norm
    while True:
        if s.norm <= gradient_norm and s.norm < 0.9 * smallest:
            smallest = s.norm
            bound = s.certify(&allowance)
            reached = min(reached, bound)
            if bound <= gradient_norm:
                point = np.empty(s.dim)
                memcpy(cnp.PyArray_DATA(point), s.w, s.dim * sizeof(double))
                return Minimiser(point, bound, iterations, s.passes)
        # progress: a smaller gradient, or a lower value
        if s.norm < 0.9 * best or s.risk.value < lowest - s.risk.slack:
            idle = 0
        else:
            idle += 1
        best, lowest = min(best, s.norm), min(lowest, s.risk.value)
        if iterations >= max_iterations or idle > PATIENCE or not isfinite(s.norm):
            break
        before = s.norm
        if not s.advance():
            s.go(0.0)  # evaluates the point again: its values are needed for another try with a new factor
            s.evaluate()
            s.accept()
            s.judge(math.inf)
            idle += 4
            continue
        s.accept()
        iterations += 1
        s.judge(s.norm / before if before > 0.0 else 0.0)
    if reached == math.inf:
        bound = s.certify(&allowance)
        reached = bound
    raise SolverFailure(
        f"the gradient's norm is certified to be at most {reached:.3g} after {iterations} iterations, asked for was "
        f"{gradient_norm:.3g}; {allowance:.3g} of it stands for rounding. Nothing is returned: a larger gradient_norm, "
        "more iterations or a larger l2_sum may help",
        iterations=iterations,
        reached=reached,
        asked=gradient_norm,
    )
