from libc.stdint cimport int64_t

from ._prefix_plan cimport ByEpoch, PrefixPlan, pv_by_epoch, pv_prefix
from ._rows cimport pv_status
from ._run cimport LearnerRun, pv_method, pv_plan, pv_state

cdef extern from "pv_leader.h" nogil:
    ctypedef struct pv_leader_plan:
        pv_plan run
        double bound
        double regularization
        double reach
        pv_by_epoch rows
        pv_by_epoch variance
        double l2
        double cost

    ctypedef struct pv_leader:
        pv_state run
        pv_prefix sums
        double *gradient
        double *point
        double *start
        int64_t followed

    const pv_method pv_leader_method

    pv_status pv_leader_tell(pv_leader *it, const pv_leader_plan *plan, const double *gradient) noexcept
    void pv_leader_end_leaf(pv_leader *it) noexcept


cdef class LeaderRun(LearnerRun):
    cdef pv_leader_plan own_plan
    cdef pv_leader it
    cdef PrefixPlan sums
    cdef ByEpoch rows
    cdef ByEpoch variance
    cdef int64_t n_sums
    cdef object weights
    cdef int settle(self) except -1
    cdef int serve(self, pv_status status) except -1
