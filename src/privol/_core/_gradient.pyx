"""The state of noisy gradient descent, and the calls that change it."""

import numpy as np

from libc.stdint cimport int64_t
from libc.string cimport memcpy

from ..errors import InvalidParameter
from ._rows cimport PV_ENTRY_MAX, pv_rows
from ._learner_run cimport LearnerRun, pv_method, pv_plan, pv_state

cdef extern from "runs/pv_gradient.h" nogil:
    ctypedef struct pv_gradient_plan:
        pv_plan run
        double std
        double sensitivity
        double bound
        int64_t batch
        double l2
        double length

    ctypedef struct pv_gradient:
        pv_state run
        double *sum
        double *point
        int64_t steps

    const pv_method pv_gradient_method

    void pv_gradient_tell(pv_gradient *it, const pv_gradient_plan *plan, const double *gradient) noexcept


cdef class GradientRun(LearnerRun):
    """One run of NOGD. Secret: the gradients of the rows since the last step, the noise ahead. All else is public.

    Parameters
    ----------
    frame : RunFrame
    magnitude : float
        Bound of the coordinates of the perturbed vector.
    std, sensitivity : float
        For the sum of a step's gradients: the noise, and the change by one row.
    bound : float
        Gradients are scaled to this L2 norm.
    batch : int
        Rows of a step.
    l2, length : float
        Step j has length ``1 / (l2 j)``, or ``length / sqrt(j)`` where ``l2`` is 0.
    """

    cdef pv_gradient_plan own_plan
    cdef pv_gradient it

    def __init__(self, frame, *, double magnitude, double std, double sensitivity, double bound, int64_t batch,
                 double l2, double length):
        cdef int64_t dim = frame.problem.dim
        if frame.source is None and std > 0.0:
            raise InvalidParameter(f"noise of standard deviation {std:g} needs a source")
        if batch < 1:
            raise InvalidParameter(f"batch must be at least 1, found {batch}")
        self.begin(&self.own_plan.run, &self.it.run, sizeof(pv_gradient), &pv_gradient_method, frame, dim,
                   dim, dim)
        self.own_plan.run.magnitude = magnitude
        self.own_plan.std = std
        self.own_plan.sensitivity = sensitivity
        self.own_plan.bound = bound
        self.own_plan.batch = batch
        self.own_plan.l2 = l2
        self.own_plan.length = length
        self.it.sum = self.secret
        self.it.point = self.public
        memcpy(self.it.point, self.state.released, dim * sizeof(double))

    def point(self):
        """Copy of the point at which the next gradient is taken, shape (dim,)."""
        self.enter(False)
        with self.lock:
            return self.vector(self.it.point, self.plan.d)

    def tell(self, gradient):
        """Learn one row by its gradient at ``point()``, a float64 array of shape (dim,); None: the null row."""
        cdef const double[::1] vector
        cdef const double *numbers = NULL
        cdef int64_t j
        cdef pv_rows none
        self.enter(True)
        if gradient is not None:
            vector = gradient
            if vector.shape[0] != self.plan.d:
                raise InvalidParameter(f"gradient must have shape ({self.plan.d},), found ({vector.shape[0]},)")
            numbers = &vector[0]
            for j in range(self.plan.d):
                if not -PV_ENTRY_MAX <= numbers[j] <= PV_ENTRY_MAX:
                    raise InvalidParameter(
                        f"gradient must be finite and at most {PV_ENTRY_MAX:g} in magnitude, coordinate {j} is "
                        f"{numbers[j]}; nothing was learnt"
                    )
        none.n = 0
        with self.lock:
            self.check_room(1)
            self.run(&none, NULL, NULL)  # finish what an interrupt left undone
            pv_gradient_tell(&self.it, &self.own_plan, numbers)
            self.run(&none, NULL, NULL)

    def release_last(self):
        """Publish the point, which is public already, of a run that ends before its only release was due."""
        self.publish_last(self.it.point)

    # ---- private ------------------------------------------------------------------------------

    cdef dict own_arrays(self):
        return {
            "sum": self.vector(self.it.sum, self.plan.d),
            "point": self.vector(self.it.point, self.plan.d),
            "steps": np.array([self.it.steps], dtype=np.int64),
        }

    cdef int restore_own(self, arrays) except -1:
        self.check_vector(arrays, "sum", self.plan.d)
        self.check_vector(arrays, "point", self.plan.d)
        self.it.steps = int(arrays["steps"][0])
        self.fill_vector(self.it.sum, arrays, "sum", self.plan.d)
        self.fill_vector(self.it.point, arrays, "point", self.plan.d)
        return 0

    def _secret_sum(self):
        """The gradients of the rows since the last step: SECRET, for tests."""
        self.enter(False)
        with self.lock:
            return self.vector(self.it.sum, self.plan.d)
