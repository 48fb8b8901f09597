cimport cython
from libc.stdint cimport int64_t

from ._noise cimport Source, Undecided


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
