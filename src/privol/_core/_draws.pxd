from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint64_t

from ._noise cimport Source, pv_draws


# The words of the vectors that a run perturbs next.
cdef class Draws:
    cdef pv_draws c
    cdef Source source
    cdef int64_t d
    cdef size_t size
    cdef unsigned char *addresses
    # Address rows of the next vectors, from the pending one on, as far as they are listed, for two buffers.
    cdef uint64_t *coming
    cdef int64_t listed

    # For the second thread: its buffer, and the values of both.
    cdef pv_draws other
    cdef float *values
    cdef float *other_values
    cdef void *todo
    cdef void *done
    cdef void *ended
    cdef bint running
    cdef int64_t thread  # its number while it works; others compare it with their own
    cdef bint busy
    cdef bint stopping
    cdef bint failed
    cdef int64_t asked
    cdef int64_t missed
    cdef int64_t waited  # nanoseconds
    cdef int64_t began
    cdef int64_t pause
    cdef int64_t skip

    cdef int begin(self, Source source, unsigned stream, int64_t d, int64_t capacity) except -1
    cdef int draw(self) except -1
    cdef int fill(self, pv_draws *draws, int64_t n) except -1
    cdef void forget_used(self) noexcept
    cdef void wipe(self) noexcept

    cdef int start(self) except -1
    cdef void ask(self) noexcept nogil
    cdef bint is_slow(self) noexcept nogil
    cdef bint withdraw(self) noexcept nogil
    cdef bint exchange(self) noexcept nogil
    cdef void stop(self) noexcept
