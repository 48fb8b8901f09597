cimport numpy as cnp
from libc.stdint cimport int64_t, uint64_t

from ._noise cimport Undecided, pv_lattice, pv_mixture
from ._sampler cimport KeyedSampler

cdef class VectorSampler(KeyedSampler):
    cdef readonly double scale
    cdef readonly int64_t dim
    cdef str kind
    cdef pv_mixture code
    cdef pv_lattice lattice
    cdef unsigned stream
    cdef unsigned char *addresses
    cdef unsigned char *words
    cdef Undecided undecided
    cdef int64_t used
    cdef int64_t size
    cdef int64_t room
    cdef int64_t ahead
    cdef int64_t at
    cdef int64_t filled
    cdef uint64_t row
    cdef bint ended
    cdef void free(self) noexcept
    cdef int draw(self, cnp.ndarray out, bint added) except -1
    cdef int check_left(self, int64_t n) except -1
    cdef uint64_t pass_over(self, int64_t rows) noexcept
    cdef int fill(self, int64_t wanted) except -1
    cdef int round(self, const double *x, int64_t n, double *out, int64_t number, list open_) except -1
    cdef int settle(self, Undecided open_, uint64_t row, list words, tuple factor, double *out) except -1
