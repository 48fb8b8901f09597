from libc.stdint cimport int64_t

cdef extern from "runs/pv_schedule.h" nogil:
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


cdef class Schedule:
    cdef pv_schedule c
