from cpython.pythread cimport PyThread_get_thread_ident
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t

from ._rows cimport pv_status

cdef extern from "base/pv_shared.h" nogil:
    int64_t pv_peek(const int64_t *place)
    double pv_peek_real(const double *place)
    void pv_show(int64_t *place, int64_t value)


cdef inline int64_t this_thread() noexcept:
    return <int64_t>PyThread_get_thread_ident()


cdef extern from "noise/pv_bits.h" nogil:
    int PV_ADDRESS_BYTES
    int PV_FIELD_MAX
    int64_t PV_DIMENSION_MAX
    bint pv_address_fits(unsigned stream, unsigned level, int64_t d) noexcept
    void pv_address(unsigned char *out, unsigned stream, unsigned level, uint32_t block, uint64_t row) noexcept
    size_t pv_address_row(unsigned char *out, unsigned stream, uint64_t row, int64_t d) noexcept
    void pv_address_turn(unsigned char *out, uint64_t row, int64_t d) noexcept
    int64_t pv_row_words(int64_t d) noexcept
    uint64_t pv_word(const unsigned char *p) noexcept
    void pv_wipe(void *p, size_t n) noexcept

cdef extern from "noise/pv_first_pass.h" nogil:
    ctypedef enum pv_law:
        PV_GAUSSIAN
        PV_LAPLACE
        PV_EXPONENTIAL

    ctypedef struct pv_first_pass:
        const char *name
        uint64_t (*run)(pv_law law, const double *x, double h, double b, double uncertainty, const uint64_t *word,
                        double *out, int64_t n) noexcept
        void (*quantile)(pv_law law, const uint32_t *top, float *z, int64_t n) noexcept
        int level

    int PV_FIRST_PASS_CHUNK
    int pv_first_pass_levels() noexcept
    const pv_first_pass *pv_first_pass_level(int level) noexcept

cdef extern from "noise/pv_lattice.h" nogil:
    ctypedef struct pv_undecided:
        int64_t n
        int64_t most
        int64_t capacity
        int64_t *coord
        uint64_t *word
        double *x
        int64_t resolved
        double *value

    ctypedef struct pv_lattice:
        pv_law law
        double scale
        double uncertainty
        double step
        const pv_first_pass *pass_ "pass"

    double pv_lattice_step(double scale) noexcept
    bint pv_lattice_within(const pv_lattice *lattice, const double *x, int64_t n) noexcept
    pv_status pv_lattice_round(const pv_lattice *lattice, const double *u, double s, int64_t d, double magnitude,
                               const unsigned char *words, double *out, pv_undecided *und) noexcept
    void pv_lattice_values(const pv_lattice *lattice, const unsigned char *words, int64_t d, float *z) noexcept
    int64_t pv_lattice_values_size(int64_t d) noexcept

    ctypedef struct pv_value:
        double z
        double error

    pv_value pv_lattice_value(pv_law law, uint64_t word) noexcept

cdef extern from "noise/pv_draws.h" nogil:
    ctypedef struct pv_draws:
        unsigned char *words
        float *values
        uint64_t *rows
        int64_t capacity
        int64_t filled
        int64_t used
        pv_undecided *undecided
        double std
        const pv_first_pass *pass_ "pass"

cdef extern from "noise/pv_mixture.h" nogil:
    ctypedef enum pv_mixture:
        PV_L2_LAPLACE
        PV_SPHERE

    int64_t pv_mixture_words(pv_mixture kind, int64_t d) noexcept
    pv_value pv_mixture_factor(pv_mixture kind, int64_t d, const unsigned char *words) noexcept
    pv_status pv_mixture_round(pv_mixture kind, const pv_lattice *lattice, const double *u, int64_t d,
                               double magnitude, const unsigned char *words, double *out, pv_undecided *und,
                               pv_value *factor) noexcept

# The instruction-set level in use.
cdef const pv_first_pass *first_pass() noexcept

# The noise of a law and a scale, on its own grid.
cdef pv_lattice lattice_of(str law, double scale) except *
cdef pv_mixture mixture_of(str kind) except *

# Forks of this process and of its ancestors.
cdef const volatile unsigned long *fork_count() noexcept

cdef int check_address(unsigned stream, unsigned level, int64_t d) except -1

cdef class Source:
    cdef object encryptor
    cdef object lock
    cdef unsigned char key[32]
    cdef unsigned long birth
    cdef readonly bint private
    cdef readonly str description
    cdef int check_fork(self) except -1
    cdef int check(self) except -1
    cdef int fill(self, unsigned char *addresses, size_t n, unsigned char *out) except -1
    cdef bytes secret_key(self)
    cdef void destroy(self) noexcept
    cdef int resolve_mixture(self, pv_undecided *und, str kind, unsigned stream, uint64_t row, double scale,
                             double step, object decide, list words, double factor, double error) except -1
    cdef int resolve(self, pv_undecided *und, unsigned stream, uint64_t row, double scale, object decide) except -1
    cdef int resolve_on_grid(self, pv_undecided *und, unsigned stream, uint64_t row, double scale, double step,
                             object decide) except -1

# Scratch memory for a list of undecided coordinates.
cdef class Undecided:
    cdef pv_undecided c
    cdef void wipe(self) noexcept
