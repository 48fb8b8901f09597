"""Sums over rows that a minimiser needs at the points it visits, without l2 and b.

Rows may be in several parts, each with its own ``RowSums``, in this process or in another. Sums are joined in the order
of the parts (:func:`join`), so the result does not depend on who computed them.
"""

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t

from ..errors import InvalidParameter
from ._noise cimport pv_wipe
from ._objective cimport (
    Objective,
    pv_hessian_width,
    pv_hessian_work,
    pv_margins,
    pv_objective_blocks,
    pv_objective_diagonal,
    pv_objective_hessian,
    pv_objective_product,
    pv_sums_join,
)

cnp.import_array()


cdef class RowSums:
    """Sums over an objective's rows in use, at points chosen elsewhere.

    Each result is a function of the rows and the arguments: what is kept of the last two points only saves passes. All
    of it is secret, and :meth:`wipe` overwrites it. Arrays that are passed and filled are float64 and C-contiguous.

    Parameters
    ----------
    objective : Objective
        Its ``l2_sum`` and ``linear`` are not used.

    Attributes
    ----------
    n, dim : int
        Rows in use, coordinates.
    blocks : float
        Blocks of 256 rows, plus one, for the bound of rounding errors.
    """

    def __init__(self, Objective objective not None):
        self.objective, self.n, self.dim = objective, objective.c.n, objective.dim
        self.owners = []
        self.points = self.zeros(2 * self.dim).reshape(2, self.dim)
        self.predictions = [self.zeros(self.n), self.zeros(self.n)]
        self.curvatures, self.work = self.zeros(self.n), self.zeros(3 * self.dim)
        self.points[:] = np.nan  # no point yet
        self.latest = self.curved = -1

    @property
    def blocks(self) -> float:
        return pv_objective_blocks(&self.objective.c)

    cdef object zeros(self, int64_t n):
        cdef cnp.ndarray array = np.zeros(max(n, 1))
        self.owners.append(array)
        return array

    def wipe(self):
        """Wipe the memory: points, predictions, curvatures. The rows belong to their owner."""
        cdef cnp.ndarray array
        for array in self.owners:
            pv_wipe(cnp.PyArray_DATA(array), cnp.PyArray_SIZE(array) * sizeof(double))
        self.latest = self.curved = -1

    def losses(self, w, sums) -> float:
        """Return the sum of the losses at ``w``; their gradient goes into ``sums``, shape (2, dim): high and low."""
        cdef double value = 0.0
        cdef int k = self.slot(w)
        if k < 0:
            k = 0 if self.latest != 0 else 1
        self.points[k] = np.nan  # until all of it is there
        self.latest = self.curved = -1
        self.objective.sums_at(doubles(w, self.dim), doubles(self.work, 3 * self.dim),
                               doubles(self.predictions[k], self.n), doubles(self.curvatures, self.n), &value)
        np.copyto(sums, self.work[:2 * self.dim].reshape(2, self.dim))
        self.points[k] = w
        self.latest = self.curved = k
        return value

    def margins(self, w, sums):
        """Return bounds for the rounding of the gradient at ``w``, which goes into ``sums`` as in :meth:`losses`.

        Three numbers, shape (3,), to be added to those of other parts.
        """
        cdef pv_margins margins
        self.objective.margins_at(doubles(w, self.dim), doubles(self.work, 3 * self.dim), &margins)
        np.copyto(sums, self.work[:2 * self.dim].reshape(2, self.dim))
        return np.array([margins.slopes, margins.lengths, margins.underflow])

    def hessian(self, w, int64_t stride, out):
        """Write the Hessian at ``w`` into the lower triangle of ``out``: of every ``stride``-th row, ``stride`` times.

        Its shape is (width, width), with the width of :func:`hessian_width`.
        """
        cdef int64_t width = pv_hessian_width(self.dim)
        cdef double *matrix = doubles(out, width * width)
        cdef double *curves = self.curves(w)
        cdef double *scratch
        if self.scratch is None:
            self.scratch = self.zeros(pv_hessian_work(self.dim))
        scratch = doubles(self.scratch, pv_hessian_work(self.dim))
        with nogil:
            pv_objective_hessian(&self.objective.c, curves, stride, scratch, matrix)

    def diagonal(self, w, out):
        """Write the diagonal of the Hessian at ``w`` into ``out``, shape (dim,)."""
        cdef double *target = doubles(out, self.dim)
        cdef double *curves = self.curves(w)
        cdef double *scratch = doubles(self.work, 3 * self.dim)
        with nogil:
            pv_objective_diagonal(&self.objective.c, curves, scratch, target)

    def product(self, w, v, out):
        """Write the Hessian at ``w`` times ``v`` into ``out``, shape (dim,)."""
        cdef double *target = doubles(out, self.dim)
        cdef const double *direction = doubles(v, self.dim)
        cdef double *curves = self.curves(w)
        with nogil:
            pv_objective_product(&self.objective.c, curves, direction, target)

    def along(self, w, v, double a):
        """Return the sums of slopes and curvatures along ``v - w`` at ``w + a (v - w)``; no pass if both are kept.

        Predictions there are ``p + a (q - p)``, from those at ``w`` and ``v``.
        """
        cdef double slope = 0.0, curve = 0.0
        cdef int k = self.known(w)
        cdef int m = self.known(v)
        cdef const double *p = doubles(self.predictions[k], self.n)
        cdef const double *q = doubles(self.predictions[m], self.n)
        self.objective.slope_along(p, q, a, &slope, &curve)
        return slope, curve

    cdef int slot(self, object w) except? -1:
        """Index of a kept point that is equal to the bit; -1: none."""
        cdef int k
        bits = np.asarray(w).view(np.int64)
        for k in range(2):
            if np.array_equal(self.points[k].view(np.int64), bits):
                return k
        return -1

    cdef int known(self, object w) except -1:
        """Index of the predictions at a point; if needed they are computed, replacing the point used less recently."""
        cdef int k = self.slot(w)
        if k < 0:
            self.losses(w, np.empty((2, self.dim)))
            k = self.latest
        self.latest = k
        return k

    cdef double *curves(self, object w) except NULL:
        """The curvatures at a point, computed if needed."""
        if self.curved < 0 or self.slot(w) != self.curved:
            self.losses(w, np.empty((2, self.dim)))
        return doubles(self.curvatures, self.n)


cdef double *doubles(cnp.ndarray array, int64_t n) except NULL:
    """The numbers of an array with at least n doubles."""
    if cnp.PyArray_TYPE(array) != cnp.NPY_DOUBLE or not cnp.PyArray_IS_C_CONTIGUOUS(array):
        raise InvalidParameter("arrays must be float64 and C-contiguous")
    if cnp.PyArray_SIZE(array) < n:
        raise InvalidParameter(f"{n} numbers are needed, found {cnp.PyArray_SIZE(array)}")
    return <double *>cnp.PyArray_DATA(array)


def hessian_width(int64_t dim) -> int:
    """Width of the matrix of :meth:`RowSums.hessian`."""
    return pv_hessian_width(dim)


def join(cnp.ndarray part, cnp.ndarray whole):
    """Add the next part's gradient sums, shape (2, dim), to those of the parts before it.

    High parts are added exactly, their errors and the low parts into the low part: docs/proofs/solver.md, section 3.
    """
    cdef int64_t dim = cnp.PyArray_SIZE(whole) // 2
    pv_sums_join(doubles(part, 2 * dim), doubles(whole, 2 * dim), dim)
