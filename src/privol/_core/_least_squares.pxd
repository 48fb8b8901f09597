from libc.stdint cimport int64_t

from ._prefix_plan cimport ByEpoch, PrefixPlan, pv_by_epoch, pv_prefix
from ._rows cimport pv_status
from ._run cimport LearnerRun, pv_method, pv_plan, pv_state

cdef extern from "pv_ridge.h" nogil:
    ctypedef struct pv_lapack:
        void (*potrf)(char *, int *, double *, int *, int *) noexcept nogil
        void (*trtrs)(char *, char *, char *, int *, int *, double *, int *, double *, int *, int *) noexcept nogil
        void (*syevd)(char *, char *, int *, double *, int *, double *, double *, int *, int *, int *,
                      int *) noexcept nogil

    ctypedef struct pv_ridge:
        pv_lapack lapack
        int d
        double *matrix
        double *work
        int *integers
        int64_t n_indefinite

    int64_t pv_ridge_work(int64_t d) noexcept
    int64_t pv_ridge_integers(int64_t d) noexcept
    int64_t pv_moments_size(int64_t d) noexcept
    pv_status pv_ridge_solve(pv_ridge *ridge, const double *moments, double most, double shift, double radius,
                             double *x) noexcept

cdef extern from "pv_least_squares.h" nogil:
    ctypedef struct pv_least_squares_plan:
        pv_plan run
        double row_unit
        double target_unit
        double l2
        const double *shifts
        int64_t n_shifts
        pv_by_epoch ended
        double radius
        double cost

    ctypedef struct pv_least_squares:
        pv_state run
        pv_prefix sums
        pv_ridge ridge
        double *row
        double *moments
        double *released

    const pv_method pv_least_squares_method

    void pv_least_squares_end(pv_least_squares *s, const pv_least_squares_plan *plan) noexcept


cdef class LeastSquaresRun(LearnerRun):
    cdef pv_least_squares_plan own_plan
    cdef pv_least_squares own
    cdef PrefixPlan sums
    cdef const double[:, ::1] shifts
    cdef ByEpoch ended
    cdef double *matrix
    cdef int *integers
    cdef int64_t n_sums
    cdef bint stopped
