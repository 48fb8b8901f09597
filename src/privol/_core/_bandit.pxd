from libc.stdint cimport int64_t

from ._local cimport ReportRun, pv_vectors
from ._report cimport pv_report
from ._rows cimport pv_status
from ._run cimport pv_method, pv_plan, pv_state

cdef extern from "pv_bandit.h" nogil:
    ctypedef struct pv_bandit_plan:
        pv_plan run
        pv_report report
        double cost
        int pair
        double low
        double high
        double inner
        double distance
        double most
        double length
        int fixed

    ctypedef struct pv_bandit:
        pv_state run
        double *value
        double *point
        double *direction
        double *asked
        double *sum
        int64_t steps
        double *directions
        int64_t filled
        int64_t used

    const pv_method pv_bandit_method

    void pv_bandit_begin(pv_bandit *it, const pv_bandit_plan *plan) noexcept
    pv_status pv_bandit_tell(pv_bandit *it, const pv_bandit_plan *plan, const double *values) noexcept
    pv_status pv_bandit_receive(pv_bandit *it, const pv_bandit_plan *plan, double report,
                                const pv_vectors *vectors) noexcept


cdef class BanditRun(ReportRun):
    cdef pv_bandit_plan own_plan
    cdef pv_bandit it
    cdef object next_directions
    cdef int64_t ahead
    cdef int look(self) except -1
