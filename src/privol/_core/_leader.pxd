from libc.stdint cimport int64_t

from ._prefix_plan cimport PrefixPlan, pv_prefix, pv_prefix_plan
from ._rows cimport pv_status
from ._run cimport LearnerRun, pv_method, pv_plan, pv_state

cdef extern from "pv_leader.h" nogil:
    ctypedef struct pv_leader_plan:
        pv_plan run
        pv_prefix_plan sums
        double bound
        double regularization
        double l2
        double cost

    ctypedef struct pv_leader:
        pv_state run
        pv_prefix sums
        double *gradient
        double *point
        double *centre
        int64_t followed

    const pv_method pv_leader_method

    pv_status pv_leader_tell(pv_leader *it, const pv_leader_plan *plan, const double *gradient) noexcept
    void pv_leader_end_leaf(pv_leader *it, const pv_leader_plan *plan) noexcept


cdef class LeaderRun(LearnerRun):
    cdef pv_leader_plan own_plan
    cdef pv_leader it
    cdef PrefixPlan sums
    cdef int64_t n_sums
    cdef object weights
    cdef int settle(self) except -1
    cdef int serve(self, pv_status status) except -1
