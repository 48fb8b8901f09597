cimport numpy as cnp
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint64_t

from ._noise cimport pv_draws
from ._rows cimport pv_rows, pv_status

cdef extern from "prefix/pv_prefix.h" nogil:
    ctypedef enum pv_design:
        PV_TREE
        PV_HONAKER
        PV_SMOOTH
        PV_SQRT
        PV_BLT
        PV_INDEPENDENT
        PV_BANDED

    ctypedef struct pv_prefix_plan:
        pv_design design
        int64_t dim
        int64_t leaf
        int64_t steps
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
        const pv_prefix_plan *next

    ctypedef struct pv_by_epoch:
        int64_t last
        const double *at
        double more

    ctypedef struct pv_prefix:
        const pv_prefix_plan *plan
        int64_t epoch
        int64_t first_row
        int64_t first_step
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
        double *leaf
        double *past
        double *far
        double *noisy_past
        double *noisy_far
        double *prefix
        double *base
        const double *weight

    size_t pv_prefix_size(const pv_prefix_plan *p) noexcept
    size_t pv_prefix_secret_size(const pv_prefix_plan *p) noexcept
    size_t pv_prefix_kept_size(const pv_prefix_plan *p) noexcept
    void pv_prefix_keep(const pv_prefix_plan *p, const void *memory, void *kept) noexcept
    void pv_prefix_restore(const pv_prefix_plan *p, const void *kept, void *memory) noexcept
    void pv_prefix_bind(pv_prefix *s, const pv_prefix_plan *p, void *memory) noexcept
    void pv_prefix_go_to(pv_prefix *s, int64_t epoch) noexcept
    pv_status pv_prefix_add(pv_prefix *s, const double *w) noexcept
    int pv_prefix_in_doubles(const pv_prefix *s) noexcept
    void pv_prefix_end_leaf(pv_prefix *s) noexcept
    pv_status pv_prefix_settle(pv_prefix *s, pv_draws *draws) noexcept
    int64_t pv_prefix_upcoming(const pv_prefix *s, int64_t capacity, uint64_t *rows) noexcept
    uint64_t pv_prefix_row(const pv_prefix *s) noexcept
    void pv_prefix_read(const pv_prefix *s, double *out) noexcept
    void pv_prefix_svec(const double *v, int64_t width, double *out) noexcept
    pv_status pv_prefix_run(pv_prefix *s, const pv_rows *given, int64_t *i, int64_t *written, pv_draws *draws,
                            double *out) noexcept


cdef class PrefixPlan:
    cdef pv_prefix_plan c
    cdef readonly str design
    cdef object owners
    cdef PrefixPlan following
    cdef double entry_bound(self) except -1.0
    cdef int convolve(self, const pv_prefix *s, given, double *past, double *out) except -1
    cdef int look_far(self, pv_prefix *s) except -1
    cdef cnp.ndarray memory_of(self, const double *memory)
    cdef int fill_memory(self, double *memory, kept) except -1
    cdef object counts(self, const pv_prefix *s)
    cdef int64_t epoch_of(self, counts) except -1
    cdef int restore(self, pv_prefix *s, counts) except -1


cdef class ByEpoch:
    cdef pv_by_epoch c
    cdef object owner
