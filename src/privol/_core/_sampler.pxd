cimport numpy as cnp
from cpython.pythread cimport PyThread_type_lock
from libc.stdint cimport int64_t, uint64_t

from ._noise cimport Source, Undecided, pv_lattice

cdef enum:
    FIRST = 64  # words that are drawn at first; twice as many each time after that
    LONG = 1024  # from this many values on, other threads may run meanwhile

# Values that begin n later; NULL stands for zeros.
cdef inline const double *behind(const double *x, int64_t n) noexcept nogil:
    return x + n if x != NULL else NULL

# The values as contiguous doubles, without a copy if they are that already.
cdef cnp.ndarray doubles(object x)

# Refuse masked values.
cdef int check_unmasked(object x) except -1

# A copy of the values; refuses what cannot be rounded.
cdef cnp.ndarray checked(const pv_lattice *lattice, cnp.ndarray values)

# A source, and the lock for what is drawn ahead from it.
cdef class KeyedSampler:
    cdef readonly Source source
    cdef PyThread_type_lock lock
    cdef unsigned long owner
    cdef int enter(self) except -1
    cdef int wait(self) except -1
    cdef void leave(self) noexcept

# Words of one address row, drawn ahead in pieces.
cdef class AddressRow:
    cdef unsigned char *addresses
    cdef unsigned char *words
    cdef Undecided undecided
    cdef uint64_t row
    cdef int64_t at
    cdef int64_t filled
    cdef int64_t ahead
    cdef void turn(self, uint64_t row, int64_t at) noexcept
    cdef unsigned char *take(self, Source source, unsigned stream, int64_t n) except NULL
    cdef int fill(self, Source source, unsigned stream) except -1

cdef class LatticeSampler(KeyedSampler):
    cdef readonly double scale
    cdef unsigned stream
    cdef pv_lattice lattice
    cdef AddressRow own
    cdef int draw_rows(self, const double *x, uint64_t first, int64_t rows, double *out) except -1
    cdef int draw(self, const double *x, int64_t n, double *out) except -1
    cdef Undecided round(self, AddressRow row, const double *x, int64_t n, double *out)
    cdef int settle(self, Undecided open_, uint64_t row, int64_t first, double *out) except -1
