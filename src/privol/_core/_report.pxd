from libc.stdint cimport int64_t, uint64_t

from ._noise cimport Source, Undecided, pv_draws
from ._rows cimport pv_status
from ._sampler cimport KeyedSampler

cdef extern from "reports/pv_report.h" nogil:
    ctypedef enum pv_report_kind:
        PV_REPORT_PLAIN
        PV_REPORT_GAUSSIAN
        PV_REPORT_LAPLACE
        PV_REPORT_L2_LAPLACE
        PV_REPORT_CAP
        PV_REPORT_SIGN

    int PV_REPORT_ROW_BITS
    uint64_t PV_REPORT_ROW_MASK
    uint64_t PV_REPORT_TRIALS

    ctypedef struct pv_report:
        pv_report_kind kind
        int64_t d
        double bound
        double scale
        double step
        double gamma
        uint64_t threshold
        int64_t words
        int64_t trials

    ctypedef struct pv_report_coins:
        uint64_t own
        uint64_t other
        double norm

    int64_t pv_report_words(pv_report_kind kind, int64_t d) noexcept
    pv_status pv_report_draw(const pv_report *plan, pv_draws *draws, uint64_t row, const double *v,
                             double *out) noexcept
    int64_t pv_report_upcoming(const pv_report *plan, uint64_t first, uint64_t last_row, int64_t capacity,
                               uint64_t *rows) noexcept
    uint64_t pv_report_next(const pv_draws *draws, uint64_t row) noexcept
    pv_report_coins pv_report_coins_of(const pv_report *plan, const double *v) noexcept
    void pv_report_clip(double bound, int64_t d, const double *x, double *v) noexcept


# The plan of a randomizer, and what its draws ask for.
cdef class Report:
    cdef pv_report c
    cdef readonly str kind
    cdef object decide
    cdef object decide_side
    # After PV_NEED_BITS for `row`: fill the buffer with the words of the address rows that this report and the next
    # ones, up to `last_row`, need. addresses: scratch for draws.capacity address rows.
    cdef int refill(self, pv_draws *draws, unsigned char *addresses, Source source, unsigned stream, uint64_t row,
                    uint64_t last_row) except -1
    # After PV_UNDECIDED.
    cdef int resolve(self, pv_draws *draws, Source source, unsigned stream) except -1
    cdef int settle_side(self, pv_draws *draws, Source source, unsigned stream) except -1


# A randomizer that numbers its vectors.
cdef class ReportSampler(KeyedSampler):
    cdef readonly Report report
    cdef unsigned stream
    cdef uint64_t row
    cdef int64_t ahead
    cdef pv_draws draws
    cdef Undecided undecided
    cdef unsigned char *addresses
    cdef double *vector
    cdef void free(self) noexcept
    cdef int draw(self, const void *x, bint single, int64_t n, double *out, uint64_t first) except -1
