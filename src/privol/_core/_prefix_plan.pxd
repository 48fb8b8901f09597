from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint64_t

from ._noise cimport pv_draws
from ._rows cimport pv_rows, pv_status

cdef extern from "pv_prefix.h" nogil:
    ctypedef enum pv_design:
        PV_TREE
        PV_HONAKER
        PV_SMOOTH
        PV_SQRT
        PV_BLT
        PV_INDEPENDENT

    ctypedef struct pv_prefix_plan:
        pv_design design
        int64_t dim
        int64_t leaf
        int64_t steps
        int64_t first_step
        int noisy
        double std
        double magnitude
        double grid
        int shift
        int order
        const double *theta
        const double *omega
        const double *coefficients
        const double *decoder
        double discount
        int64_t window
        int64_t block
        int64_t horizon
        int64_t width
        double bound
        int gram

    ctypedef struct pv_prefix:
        int64_t rows
        int64_t step
        int64_t made
        int64_t far_step
        int64_t in_leaf
        int due
        int drawn
        uint64_t word
        int64_t n_clipped
        int64_t n_null
        double *past
        double *far
        double *noisy_past
        double *noisy_far
        double *prefix
        double *base
        const double *weight

    size_t pv_prefix_size(const pv_prefix_plan *p) noexcept
    size_t pv_prefix_secret_size(const pv_prefix_plan *p) noexcept
    void pv_prefix_bind(pv_prefix *s, const pv_prefix_plan *p, void *memory) noexcept
    pv_status pv_prefix_add(pv_prefix *s, const pv_prefix_plan *p, const double *w) noexcept
    void pv_prefix_end_leaf(pv_prefix *s, const pv_prefix_plan *p) noexcept
    pv_status pv_prefix_settle(pv_prefix *s, const pv_prefix_plan *p, pv_draws *draws) noexcept
    int64_t pv_prefix_upcoming(const pv_prefix *s, const pv_prefix_plan *p, int64_t capacity, uint64_t *rows) noexcept
    uint64_t pv_prefix_row(const pv_prefix *s, const pv_prefix_plan *p) noexcept
    void pv_prefix_read(const pv_prefix *s, const pv_prefix_plan *p, double *out) noexcept
    void pv_prefix_svec(const double *v, int64_t width, double *out) noexcept
    pv_status pv_prefix_run(pv_prefix *s, const pv_prefix_plan *p, const pv_rows *given, int64_t *i, int64_t *written,
                            pv_draws *draws, double *out) noexcept


cdef class PrefixPlan:
    cdef pv_prefix_plan c
    cdef readonly str design
    cdef object owners
    cdef double entry_bound(self) except -1.0
    cdef int convolve(self, const pv_prefix *s, given, double *past, double *out) except -1
    cdef int look_far(self, pv_prefix *s) except -1
    cdef object counts(self, const pv_prefix *s)
    cdef int restore(self, pv_prefix *s, counts) except -1
