from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t

from ._rows cimport pv_status

cdef extern from "pv_bits.h" nogil:
    int PV_ADDRESS_BYTES
    void pv_address(unsigned char *out, unsigned stream, unsigned level, uint32_t block, uint64_t row) noexcept
    size_t pv_address_row(unsigned char *out, unsigned stream, uint64_t row, int64_t d) noexcept
    int64_t pv_row_words(int64_t d) noexcept
    uint64_t pv_word(const unsigned char *p) noexcept
    void pv_wipe(void *p, size_t n) noexcept

cdef extern from "pv_lattice.h" nogil:
    ctypedef struct pv_undecided:
        int64_t n
        int64_t capacity
        int64_t *coord
        uint64_t *word
        double *x
        int64_t resolved
        double *value

    double pv_lattice_step(double scale) noexcept
    pv_status pv_lattice_gaussian(const double *u, double s, int64_t d, double scale, double magnitude,
                                  const unsigned char *words, double *out, pv_undecided *und) noexcept
    double pv_gaussian_value(uint64_t word) noexcept
    double pv_gaussian_error(uint64_t word) noexcept

cdef class Source:
    cdef object encryptor
    cdef object lock
    cdef unsigned char key[32]
    cdef long generation
    cdef readonly bint private
    cdef readonly str description
    cdef int check(self) except -1
    cdef int fill(self, unsigned char *addresses, size_t n, unsigned char *out) except -1
    cdef bytes secret_key(self)
    cdef void destroy(self) noexcept
    cdef int resolve(self, pv_undecided *und, unsigned stream, uint64_t row, double scale, object decide) except -1

# Scratch memory of a list of undecided coordinates.
cdef class Undecided:
    cdef pv_undecided c
    cdef void wipe(self) noexcept
