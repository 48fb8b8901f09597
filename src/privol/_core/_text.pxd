"""What cells mean, for readers of whole lines and of single rows."""

from libc.stdint cimport int32_t, int64_t, uint32_t

cdef extern from "cells/pv_written.h":
    ctypedef struct pv_written:
        const unsigned char *missing
        const int64_t *ends
        int64_t n_missing
        unsigned char begins[256]
        unsigned char mark
        unsigned char other

    ctypedef enum pv_cell:
        PV_CELL_MISSING
        PV_CELL_NUMBER
        PV_CELL_TIME
        PV_CELL_TEXT
        PV_CELL_OPEN

    int64_t pv_look(const pv_written *, int64_t, const int32_t *, const unsigned char *, double *, unsigned char *,
                    uint32_t *) noexcept nogil
    void pv_count(int64_t, const double *, const int64_t *, int64_t, const double *, const double *,
                  double *) noexcept nogil

cdef extern from "cells/pv_knots.h":
    ctypedef struct pv_knots:
        int64_t intervals
        const double *knots
        const double *factors
        const double *lows
        const double *widths

    ctypedef enum pv_state:
        PV_STATE_MISSING
        PV_STATE_UNKNOWN
        PV_STATE_CLIPPED
        PV_STATE_SPARED

    void pv_between_one(const pv_knots *, double, int32_t *, double *, unsigned char *)
    void pv_between(const pv_knots *, int64_t, const double *, const unsigned char *, unsigned char, int32_t *,
                    double *, unsigned char *) noexcept nogil

cdef extern from "cells/pv_cycles.h":
    int64_t PV_TURN
    void pv_cycles(int64_t, const double *, double, double, const double *, double *, double *) noexcept nogil

cdef extern from "cells/pv_dense.h":
    ctypedef enum pv_part_kind:
        PV_PART_NUMBERS
        PV_PART_ENTRIES
        PV_PART_FUNCTIONS
        PV_PART_FLAG

    ctypedef struct pv_part:
        pv_part_kind kind
        unsigned char mask
        int64_t feature
        int64_t width
        int64_t n_cells
        int64_t intervals
        const int32_t *cells
        const int32_t *places
        const double *values
        const double *steps
        const double *share
        const unsigned char *states

    void pv_dense_row(int64_t, const pv_part *, int64_t, const double *, double *) noexcept nogil
    int64_t pv_part_fault(const pv_part *, int64_t, int64_t) noexcept nogil
    void pv_dense(int64_t, int64_t, int64_t, const pv_part *, int64_t, const double *, double *) noexcept nogil


cdef class Form:
    cdef pv_written written
    cdef bytes texts
    cdef object ends
