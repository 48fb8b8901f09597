"""The noise of a run's next vectors, drawn ahead, which is possible because it does not depend on the rows.

A second thread may help: it encrypts words and evaluates the first pass of the rounding. The learning thread lists the
address rows, adds, rounds and releases. There are two buffers, each used by only one thread at a time: the lock `todo`
requests one, and `done` returns it. The thread lives no longer than the call that it helps, and its buffer is wiped
then. No bit depends on it.
"""

import _thread

from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from cpython.pythread cimport (
    NOWAIT_LOCK,
    WAIT_LOCK,
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_release_lock,
)
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from ..errors import StateError
from ._noise cimport (
    PV_ADDRESS_BYTES,
    PV_GAUSSIAN,
    Source,
    first_pass,
    pv_address_row,
    pv_address_turn,
    pv_lattice,
    pv_lattice_values,
    pv_lattice_values_size,
    pv_row_words,
    pv_show,
    pv_wipe,
    this_thread,
)


cdef extern from "<time.h>" nogil:
    int TIME_UTC
    ctypedef long time_t
    struct timespec:
        time_t tv_sec
        long tv_nsec
    int timespec_get(timespec *t, int base)

# How many calls at most go without a second thread after one in which it was slow.
cdef int64_t MOST_SKIPPED = 63
# Nanoseconds of waiting above which it counts as slow.
cdef int64_t LONG_WAIT = 500_000


cdef class Draws:
    """Buffers of words; without a source they stay empty."""

    def __cinit__(self):
        self.c.pass_ = first_pass()

    cdef int begin(self, Source source, unsigned stream, int64_t d, int64_t capacity) except -1:
        """Allocate a buffer for ``capacity`` vectors of d words."""
        cdef int64_t k
        if self.addresses != NULL:
            raise StateError("buffers cannot be made twice")
        self.source, self.d, self.size = source, d, <size_t>pv_row_words(d) * 8
        self.addresses = <unsigned char *>PyMem_RawCalloc(capacity, self.size)
        self.coming = <uint64_t *>PyMem_RawCalloc(2 * capacity, sizeof(uint64_t))
        if self.addresses == NULL or self.coming == NULL:
            raise MemoryError
        allocate(&self.c, capacity, self.size)
        for k in range(capacity):
            pv_address_row(self.addresses + k * self.size, stream, 0, d)
        return 0

    def __dealloc__(self):
        self.wipe()
        PyMem_RawFree(self.addresses)
        PyMem_RawFree(self.coming)
        PyMem_RawFree(self.c.words)
        PyMem_RawFree(self.c.rows)
        PyMem_RawFree(self.other.words)
        PyMem_RawFree(self.other.rows)
        PyMem_RawFree(self.values)
        PyMem_RawFree(self.other_values)
        free_lock(self.todo)
        free_lock(self.done)
        free_lock(self.ended)

    cdef void wipe(self) noexcept:
        """Overwrite the words that are drawn, and the values made of them."""
        cdef size_t numbers = self.c.capacity * pv_lattice_values_size(self.d) * sizeof(float)
        self.c.filled = self.c.used = 0
        if self.c.words != NULL:
            pv_wipe(self.c.words, self.c.capacity * self.size)
        if self.other.words != NULL:
            pv_wipe(self.other.words, self.other.capacity * self.size)
        if self.values != NULL:
            pv_wipe(self.values, numbers)
        if self.other_values != NULL:
            pv_wipe(self.other_values, numbers)

    cdef int draw(self) except -1:
        """Fill the buffer with the words of the listed vectors."""
        cdef int64_t n = min(self.listed, self.c.capacity)
        self.forget_used()
        memcpy(self.c.rows, self.coming, n * sizeof(uint64_t))
        self.fill(&self.c, n)
        if self.running and not self.failed:
            self.ask()
        return 0

    cdef void forget_used(self) noexcept:
        """Wipe used words that have values; words without values are wiped as they are used.

        A buffer that is filled again may get fewer vectors than before, for example near the last row.
        """
        if self.c.values != NULL:
            pv_wipe(self.c.words, self.c.used * self.size)
            self.c.values = NULL

    cdef int fill(self, pv_draws *draws, int64_t n) except -1:
        cdef int64_t k
        draws.filled = draws.used = 0  # nothing until they are there: a source that fails wipes the buffer
        for k in range(n):
            pv_address_turn(self.addresses + k * self.size, draws.rows[k], self.d)
        self.source.fill(self.addresses, n * self.size, draws.words)
        draws.filled = n
        return 0

    # ---- the second thread ----------------------------------------------------------------------

    cdef int start(self) except -1:
        """Start the thread, if one is available and was useful lately and another buffer will follow the next."""
        cdef size_t numbers = self.c.capacity * pv_lattice_values_size(self.d)
        if self.skip > 0:
            self.skip -= 1
            return 0
        try:
            if self.other.words == NULL:
                allocate(&self.other, self.c.capacity, self.size)
            if self.values == NULL:
                self.values = <float *>PyMem_RawCalloc(numbers, sizeof(float))
            if self.other_values == NULL:
                self.other_values = <float *>PyMem_RawCalloc(numbers, sizeof(float))
            if self.values == NULL or self.other_values == NULL:
                raise MemoryError
            make_lock(&self.todo)
            make_lock(&self.done)
            make_lock(&self.ended)
            self.busy = self.stopping = self.failed = False
            self.asked = self.missed = self.waited = 0
            self.began = now()
            _thread.start_new_thread(self.work, ())
        except (RuntimeError, MemoryError):  # no room, no more threads, or the interpreter is about to exit
            self.skip = MOST_SKIPPED
            return 0
        self.running = True
        return 0

    def work(self):
        """The body of the thread; nothing else may call it."""
        cdef int64_t k
        cdef int64_t numbers = pv_lattice_values_size(self.d)
        cdef pv_lattice lattice
        if self.todo == NULL:
            raise StateError("only the learning thread starts this")
        lattice.law, lattice.pass_ = PV_GAUSSIAN, self.c.pass_
        pv_show(&self.thread, this_thread())
        try:
            while True:
                with nogil:
                    PyThread_acquire_lock(self.todo, WAIT_LOCK)
                if self.stopping:
                    break
                self.fill(&self.other, self.other.filled)
                with nogil:
                    for k in range(self.other.filled):
                        pv_lattice_values(&lattice, self.other.words + k * self.size, self.d,
                                          self.other_values + k * numbers)
                PyThread_release_lock(self.done)
        except BaseException:
            # the learning thread draws them itself, and fails unless the trouble was temporary
            self.failed = True
            PyThread_release_lock(self.done)
        finally:
            pv_show(&self.thread, 0)
            PyThread_release_lock(self.ended)

    cdef void ask(self) noexcept nogil:
        """Request the vectors that are listed after those in the buffer."""
        cdef int64_t n = min(self.listed - self.c.filled, self.c.capacity)
        if n > 0 and not self.is_slow():
            self.asked += 1
            memcpy(self.other.rows, self.coming + self.c.filled, n * sizeof(uint64_t))
            self.other.filled = n
            self.busy = True
            PyThread_release_lock(self.todo)

    cdef bint is_slow(self) noexcept nogil:
        """Whether the learning thread is faster alone, for example because other programs use the second core.

        That is so if half of the buffers have not been begun when they are needed, or waiting takes over a quarter of
        the time.
        """
        return (self.missed > 2 and 2 * self.missed > self.asked) or (
            self.waited > LONG_WAIT and 4 * self.waited > now() - self.began
        )

    cdef bint withdraw(self) noexcept nogil:
        """Take the other buffer back; return whether it was filled. The thread need not do what it has not begun."""
        cdef int64_t since
        if not self.busy:
            return False
        self.busy = False
        if PyThread_acquire_lock(self.todo, NOWAIT_LOCK):
            self.missed += 1
            return False
        if not PyThread_acquire_lock(self.done, NOWAIT_LOCK):
            since = now()
            PyThread_acquire_lock(self.done, WAIT_LOCK)
            self.waited += now() - since
        return not self.failed

    cdef bint exchange(self) noexcept nogil:
        """Exchange the used buffer for the other one, if that has the vectors that are listed first."""
        if not self.withdraw() or self.listed == 0 or self.other.rows[0] != self.coming[0]:
            return False
        self.c.words, self.other.words = self.other.words, self.c.words
        self.c.rows, self.other.rows = self.other.rows, self.c.rows
        self.values, self.other_values = self.other_values, self.values
        self.c.filled, self.c.used, self.c.values = self.other.filled, 0, self.values
        self.ask()
        return True

    cdef void stop(self) noexcept:
        """End the thread, and leave the buffer in use as if there had been no thread."""
        cdef size_t numbers = self.c.capacity * pv_lattice_values_size(self.d) * sizeof(float)
        cdef bint was_slow
        if not self.running:
            return
        was_slow = self.is_slow()
        with nogil:
            self.withdraw()
            self.stopping = True
            PyThread_release_lock(self.todo)
            PyThread_acquire_lock(self.ended, WAIT_LOCK)
            PyThread_acquire_lock(self.todo, NOWAIT_LOCK)  # from a thread that has failed before
        self.forget_used()
        pv_wipe(self.other.words, self.other.capacity * self.size)
        pv_wipe(self.values, numbers)
        pv_wipe(self.other_values, numbers)
        self.running = False
        self.pause = min(2 * self.pause + 1, MOST_SKIPPED) if was_slow else 0
        self.skip = self.pause


cdef int64_t now() noexcept nogil:
    """The time in nanoseconds."""
    cdef timespec t
    timespec_get(&t, TIME_UTC)
    return <int64_t>t.tv_sec * 1_000_000_000 + t.tv_nsec


cdef int allocate(pv_draws *draws, int64_t capacity, size_t size) except -1:
    draws.words = <unsigned char *>PyMem_RawCalloc(capacity * size + PV_ADDRESS_BYTES, 1)
    draws.rows = <uint64_t *>PyMem_RawCalloc(capacity, sizeof(uint64_t))
    if draws.words == NULL or draws.rows == NULL:
        PyMem_RawFree(draws.words)
        PyMem_RawFree(draws.rows)
        draws.words, draws.rows = NULL, NULL
        raise MemoryError
    draws.capacity = capacity
    return 0


cdef int make_lock(void **lock) except -1:
    """Allocate a lock and take it, unless there is one."""
    if lock[0] == NULL:
        lock[0] = PyThread_allocate_lock()
        if lock[0] == NULL:
            raise MemoryError
        PyThread_acquire_lock(lock[0], WAIT_LOCK)
    return 0


cdef void free_lock(void *lock) noexcept:
    if lock != NULL:
        PyThread_free_lock(lock)
