from libc.stdint cimport int64_t

from ._noise cimport pv_draws
from ._rows cimport pv_status
from ._run cimport LearnerRun, pv_method, pv_plan, pv_state
from ._schedule cimport Schedule, pv_schedule

cdef extern from "pv_iterate.h" nogil:
    ctypedef struct pv_iterate_plan
    ctypedef void (*pv_update)(const pv_iterate_plan *, double, double, double, double, double, double,
                               double *, double *) noexcept nogil

    ctypedef struct pv_iterate_plan:
        pv_plan run
        pv_schedule schedule
        pv_update update
        int constrained
        int64_t refresh

    ctypedef struct pv_iterate:
        pv_state run
        double *u
        double s
        double nn

    const pv_method pv_iterate_method

    void pv_update_implicit(const pv_iterate_plan *, double, double, double, double, double, double,
                            double *, double *) noexcept
    void pv_update_gradient(const pv_iterate_plan *, double, double, double, double, double, double,
                            double *, double *) noexcept
    pv_status pv_iterate_release(pv_iterate *it, const pv_iterate_plan *plan, double std, double sensitivity,
                                 pv_draws *draws) noexcept
    void pv_iterate_read(const pv_iterate *it, int64_t d, double *out) noexcept


cdef class IterateRun(LearnerRun):
    cdef pv_iterate_plan own_plan
    cdef pv_iterate it
    cdef Schedule schedule
