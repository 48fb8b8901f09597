"""Who may use a run's secrets, and until when: what compiled runs of all kinds share."""

from cpython.pythread cimport PyThread_get_thread_ident

from ..errors import StateError
from ._noise cimport fork_count


cdef class GuardedRun:
    """The one lock of a run, its noise source, and its end.

    Every call that reads or moves the state goes through ``enter`` and then takes ``lock``; every one that learns or
    releases then calls ``check_open``, under the lock. So whoever ends the run, by ``close`` or ``revoke``, has waited
    for the call that was under way, and none comes after: the secret numbers, without which nothing can be learnt, and
    the key, without which no noise can be drawn, do not exist any more.
    """

    def __cinit__(self):
        self.birth = fork_count()[0]
        self.busy, self.ended_words = "the run is busy in this thread", "the run is closed"

    def __reduce__(self):
        raise StateError("a live run holds secret state and cannot be pickled")

    def __copy__(self):
        raise StateError("a live run holds secret state and cannot be copied")

    def __deepcopy__(self, memo):
        raise StateError("a live run holds secret state and cannot be copied")

    cdef int enter(self, bint draws) except -1:
        """Refuse what the lock would make a deadlock: re-entry by what Python runs meanwhile, a fork of its holder."""
        cdef unsigned long forks = fork_count()[0]
        if draws and self.source is not None:
            self.source.check_fork()
        if self.holder == <unsigned long>PyThread_get_thread_ident():
            raise StateError(self.busy)
        if self.birth != forks:
            self.enter_child(forks)
        return 0

    cdef int enter_child(self, unsigned long forks) except -1:
        """The first use in a forked child: no thread of the parent is here to give back a lock that it has."""
        if self.orphan or self.lock.locked():
            self.orphan = True  # and what it was writing may be half written
            raise StateError(
                "the process was forked while another thread of it was using this run: what it has released can be "
                "read in the parent alone"
            )
        self.birth = forks
        return 0

    cdef int check_open(self) except -1:
        """Refuse a run that has ended, and a source that may not draw any more."""
        if self.revoked is not None:
            raise StateError(self.revoked)
        if self.closed:
            raise StateError(self.ended_words)
        if self.source is not None:
            self.source.check()
        return 0

    cdef void wipe(self) noexcept:
        """Overwrite what is secret; the runs' own."""

    cdef int end(self) except -1:
        """Under the lock: nothing is learnt, drawn or released from here on."""
        self.closed = True
        self.wipe()
        if self.undecided is not None:
            self.undecided.wipe()
        if self.source is not None:
            self.source.destroy()
        return 0

    def close(self):
        """End the run: no more rows; the secret numbers, the noise ahead and the key are wiped, the rest stays."""
        self.enter(False)
        with self.lock:
            self.end()

    def revoke(self, words):
        """End the run for a reason that whoever tries to go on is told: nothing is released that was not before.

        Waits for the call that another thread has under way; the counters are final when it returns.
        """
        self.enter(False)
        with self.lock:
            if not self.closed:  # else it says what has ended it
                self.revoked = str(words)
            self.end()
