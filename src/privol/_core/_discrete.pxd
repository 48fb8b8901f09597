cimport numpy as cnp
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

from ._noise cimport Source
from ._rows cimport pv_status
from ._sampler cimport KeyedSampler

cdef extern from "pv_discrete.h" nogil:
    int PV_DISCRETE_MAX_BLOCK
    int64_t PV_DISCRETE_MAX_NUMERATOR
    int PV_DISCRETE_MAX_SHIFT
    int PV_DISCRETE_GUIDE_BITS

    ctypedef struct pv_discrete:
        const uint64_t *limits
        const uint32_t *sure
        const uint16_t *guide
        int64_t blocks
        unsigned shift
        int square
        uint64_t a
        uint64_t b

    ctypedef struct pv_draw:
        const unsigned char *words
        int64_t n_words
        int64_t used
        int64_t done
        int64_t block

    void pv_discrete_guide(const uint64_t *limits, uint16_t *guide) noexcept
    pv_status pv_discrete_add(const pv_discrete *law, pv_draw *draw, int64_t *out, int64_t n) noexcept

cdef class IntegerLaw:
    cdef pv_discrete c
    cdef uint64_t[::1] limits
    cdef uint32_t[::1] sure
    cdef uint16_t[::1] guide

# Words of one address row in order, and how far they are used.
cdef class IntegerWords:
    cdef Source source
    cdef const uint64_t[::1] script
    cdef unsigned stream
    cdef uint64_t row
    cdef int64_t capacity
    cdef int64_t ahead
    cdef int64_t fetched
    cdef unsigned char *words
    cdef unsigned char *addresses
    cdef pv_draw draw
    cdef void wipe(self) noexcept
    cdef void turn(self, uint64_t row) noexcept
    cdef int64_t used(self) noexcept
    cdef int add(self, IntegerLaw law, int64_t *out, int64_t n, object decide) except -1
    cdef int refill(self) except -1
    cdef int widen(self, int64_t rest) except -1
    cdef int resolve(self, object decide) except -1

cdef class IntegerSampler(KeyedSampler):
    cdef public IntegerLaw _law
    cdef unsigned stream
    cdef IntegerWords own
    cdef int64_t left
    cdef int draw(self, cnp.ndarray values) except -1
    cdef int part(self, int64_t *out, int64_t n) except -1
