cimport cython
from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport int64_t

from ._noise cimport Source, Undecided


cdef extern from "base/pv_shared.h" nogil:
    int64_t pv_peek(const int64_t *place)
    double pv_peek_real(const double *place)
    void pv_show(int64_t *place, int64_t value)


cdef inline int64_t this_thread() noexcept:
    return <int64_t>PyThread_get_thread_ident()


cdef class GuardedRun:
    cdef Source source
    cdef Undecided undecided
    cdef cython.pymutex lock
    cdef int64_t holder  # the thread that has the lock and may run code of others
    cdef unsigned long birth
    cdef bint orphan
    cdef bint closed
    cdef object revoked
    cdef str busy
    cdef str ended_words

    cdef int enter(self, bint draws) except -1
    cdef int enter_child(self, unsigned long forks) except -1
    cdef int check_open(self) except -1
    cdef int end(self) except -1
    cdef void wipe(self) noexcept
