cimport numpy as cnp
from libc.stdint cimport int64_t, uint64_t

from ._local cimport ReportRun, pv_pace
from ._report cimport pv_report
from ._run cimport pv_method, pv_plan, pv_state

cdef extern from "pv_network.h" nogil:
    ctypedef enum pv_position:
        PV_BEFORE
        PV_SCALED
        PV_AFTER

    ctypedef enum pv_threshold:
        PV_DENSE
        PV_OF_STEP
        PV_OF_STEPS
        PV_OF_NOISE

    ctypedef struct pv_mixing:
        int64_t first
        int64_t rounds
        int periodic
        const int64_t *indptr
        const int64_t *columns
        const double *weights

    ctypedef struct pv_network_plan:
        pv_plan run
        pv_report report
        double bound
        double cost
        double variance
        int64_t nodes
        int64_t own
        int64_t first
        int64_t batch
        int64_t rounds
        pv_position position
        pv_pace pace
        double length
        int implicit
        pv_threshold threshold
        double l1
        pv_mixing mixing
        const int64_t *place
        const double **heard

    ctypedef struct pv_network:
        pv_state run
        double *gradients
        double *sent
        double *mixes
        double *models
        double *sums
        double *spread
        double lengths
        double network
        int64_t round
        int64_t node
        int64_t planned
        int64_t turn
        int64_t messages
        int exchanged

    const pv_method pv_network_method

    void pv_network_start(pv_network *it, const pv_network_plan *plan) noexcept
    uint64_t pv_network_address(const pv_network *it, const pv_network_plan *plan) noexcept
    void pv_network_plan_release(pv_network *it, const pv_network_plan *plan) noexcept
    const int64_t *pv_network_matrix(const pv_network *it, const pv_network_plan *plan) noexcept
    void pv_network_mean(const double *x, int64_t rows, int64_t d, double *mean) noexcept
    void pv_network_show(pv_network *it, const pv_network_plan *plan, const double *mixes, int64_t nodes) noexcept
    void pv_network_publish(pv_network *it, const pv_network_plan *plan) noexcept
    void pv_network_tell(pv_network *it, const pv_network_plan *plan, const double *gradient) noexcept


cdef class NetworkRun(ReportRun):
    cdef pv_network_plan own_plan
    cdef pv_network it
    cdef object mixing
    cdef object exchange
    cdef object window
    cdef object places
    cdef int64_t n_sent
    cdef dict everyone  # models and sums of all nodes, where others have gathered them
    cdef int provide(self) except -1
    cdef int hear(self) except -1
    cdef cnp.ndarray of_nodes(self, const double *x)
    cdef int sum_nodes(self) except -1
    cdef dict parts(self)
