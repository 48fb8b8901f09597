from libc.stdint cimport int64_t, uint64_t

from ._geometry cimport pv_set
from ._losses cimport pv_loss
from ._noise cimport pv_draws
from ._rows cimport pv_rows, pv_status
from ._schedule cimport pv_schedule

cdef extern from "pv_iterate.h" nogil:
    ctypedef struct pv_plan
    ctypedef void (*pv_update)(const pv_plan *, double, double, double, double, double, double,
                               double *, double *) noexcept nogil

    ctypedef struct pv_plan:
        pv_loss loss
        pv_set set
        pv_schedule schedule
        pv_update update
        int constrained
        int64_t d
        int intercept
        double x_bound
        int signs
        double y_bound
        int noisy
        int64_t horizon
        int64_t every
        const int64_t *releases
        int64_t n_releases_planned
        int64_t last_row
        int64_t refresh
        double magnitude
        unsigned stream

    ctypedef struct pv_iterate:
        double *u
        double s
        double nn
        double *work
        double *released
        double *released_sum
        int64_t t
        int64_t n_released
        int64_t next_release
        int64_t list_position
        int pending
        double spent
        double spent_tail
        int64_t n_clipped
        int64_t n_null

    ctypedef struct pv_progress:
        const pv_rows *rows
        const double *y
        double *scores
        double *losses

    void pv_update_implicit(const pv_plan *, double, double, double, double, double, double,
                            double *, double *) noexcept
    void pv_update_gradient(const pv_plan *, double, double, double, double, double, double,
                            double *, double *) noexcept
    int64_t pv_next_release(const pv_plan *plan, int64_t t, int64_t *position) noexcept
    int64_t pv_iterate_upcoming(const pv_iterate *it, const pv_plan *plan, int64_t capacity, uint64_t *rows) noexcept
    pv_status pv_iterate_run(pv_iterate *it, const pv_plan *plan, const pv_rows *rows, const double *y, int64_t *i,
                             pv_draws *draws, const pv_progress *progress) noexcept
    void pv_iterate_evaluate(const pv_iterate *it, const pv_plan *plan, const pv_progress *progress) noexcept
    pv_status pv_iterate_release(pv_iterate *it, const pv_plan *plan, double std, double sensitivity,
                                 pv_draws *draws) noexcept
    void pv_iterate_read(const pv_iterate *it, int64_t d, double *out) noexcept
