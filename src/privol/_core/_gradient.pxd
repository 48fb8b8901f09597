from libc.stdint cimport int64_t

from ._run cimport LearnerRun, pv_method, pv_plan, pv_state

cdef extern from "pv_gradient.h" nogil:
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
    cdef pv_gradient_plan own_plan
    cdef pv_gradient it
