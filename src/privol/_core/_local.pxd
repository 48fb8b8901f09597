from libc.stddef cimport size_t
from libc.stdint cimport int64_t

from ._report cimport Report, pv_report
from ._rows cimport pv_rows, pv_status
from ._learner_run cimport LearnerRun, pv_method, pv_plan, pv_state

cdef extern from "rows/pv_rows.h" nogil:
    ctypedef struct pv_vectors
    const pv_vectors *pv_vectors_at(int level) noexcept

cdef extern from "betting/pv_experts.h" nogil:
    int64_t PV_EXPERTS_MOST

    ctypedef struct pv_experts_plan:
        int64_t n
        double radius[64]
        double log_prior[64]
        double speed[64]
        double most
        double drift

    ctypedef struct pv_experts:
        double loss[64]
        double travelled

cdef extern from "runs/pv_local.h" nogil:
    ctypedef enum pv_update:
        PV_GREEDY
        PV_LAZY
        PV_COIN
        PV_EXPERTS

    ctypedef enum pv_pace:
        PV_CONSTANT
        PV_ROOT
        PV_INVERSE
        PV_ADAPTIVE

    ctypedef struct pv_local_plan:
        pv_plan run
        pv_report report
        double cost
        pv_update update
        pv_pace pace
        double length
        double base
        double a
        double drift
        double observed
        int counted
        double wealth
        double cap
        pv_experts_plan experts

    ctypedef struct pv_local:
        pv_state run
        double *gradient
        double *point
        double *sum
        double squares
        double x
        double y
        pv_experts experts
        int64_t steps

    const pv_method pv_local_method

    pv_status pv_local_gradient(pv_state *state, const pv_plan *run, double bound, const double *point,
                                const pv_rows *rows, int64_t i, double y, double norm, double *gradient) noexcept
    void pv_local_tell(pv_local *it, const pv_local_plan *plan, const double *gradient) noexcept
    double PV_REPORT_MAX
    void pv_local_receive(pv_local *it, const pv_local_plan *plan, const double *report,
                          const pv_vectors *vectors) noexcept


cdef class ReportRun(LearnerRun):
    cdef Report report
    cdef int begin_reports(self, pv_plan *plan, pv_state *state, size_t state_size, const pv_method *method, frame,
                           Report report, int64_t n_secret, int64_t n_public) except -1
    cdef const double *checked(self, str name, const double[::1] vector, double most) except? NULL


cdef class LocalRun(ReportRun):
    cdef pv_local_plan own_plan
    cdef pv_local it
    cdef dict expert_arrays(self)


# The device's part: gradients of a loss at points chosen elsewhere.
cdef class PointGradients:
    cdef pv_plan plan
    cdef double bound
