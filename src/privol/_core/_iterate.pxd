from libc.stdint cimport int64_t

from ._noise cimport pv_undecided
from ._rows cimport pv_rows, pv_status

cdef extern from "pv_loss.h" nogil:
    enum:
        PV_LOSS_COUNT

    ctypedef struct pv_loss:
        double (*value)(const pv_loss *, double, double) noexcept nogil
        double (*slope)(const pv_loss *, double, double) noexcept nogil
        double (*implicit)(const pv_loss *, double, double, double, double) noexcept nogil
        void (*expand)(const pv_loss *, double, double, double *, double *) noexcept nogil
        double width
        double lipschitz
        void *user

    void pv_loss_bind(pv_loss *loss, int code, double width) noexcept
    double pv_implicit_bracketed(const pv_loss *loss, double k, double b, double c, double y) noexcept

cdef extern from "pv_geometry.h" nogil:
    enum:
        PV_BOX
        PV_SIMPLEX

    ctypedef struct pv_set:
        int code
        double size
        const double *low
        const double *high

    void pv_project(const pv_set *set, double *x, int64_t d, double *work) noexcept

cdef extern from "pv_schedule.h" nogil:
    ctypedef struct pv_schedule:
        int kind
        double a0
        double l2
        int64_t first
        double diameter
        double round0
        double round1
        double round2
        double cap
        int shape
        double gain

    double pv_schedule_weight(const pv_schedule *s, int64_t t) noexcept
    double pv_schedule_sensitivity(const pv_schedule *s, int64_t t) noexcept
    double pv_schedule_std(const pv_schedule *s, int64_t t) noexcept
    void pv_schedule_fill(const pv_schedule *s, int64_t first, int64_t stride, int64_t n,
                          double *sensitivity, double *std) noexcept

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

    ctypedef struct pv_noise:
        unsigned char *words
        int64_t capacity
        int64_t filled
        int64_t used
        int64_t row
        pv_undecided undecided

    ctypedef struct pv_progress:
        double loss
        double absolute_error
        double squared_error
        int64_t rows
        int64_t correct

    void pv_update_implicit(const pv_plan *, double, double, double, double, double, double,
                            double *, double *) noexcept
    void pv_update_gradient(const pv_plan *, double, double, double, double, double, double,
                            double *, double *) noexcept
    int64_t pv_next_release(const pv_plan *plan, int64_t t, int64_t *position) noexcept
    int64_t pv_iterate_addresses(const pv_iterate *it, const pv_plan *plan, int64_t capacity, int64_t until,
                                 unsigned char *out) noexcept
    pv_status pv_iterate_run(pv_iterate *it, const pv_plan *plan, const pv_rows *rows, const double *y,
                             const double *sqnorms, int64_t *i, pv_noise *noise, pv_progress *progress) noexcept
    pv_status pv_iterate_release(pv_iterate *it, const pv_plan *plan, double std, double sensitivity,
                                 pv_noise *noise) noexcept
    void pv_iterate_read(const pv_iterate *it, int64_t d, double *out) noexcept
