"""Controls who may use a run's secrets, and until when; shared by compiled runs of all kinds."""

from ..errors import StateError
from ._noise cimport fork_count, pv_peek, this_thread


cdef class GuardedRun:
    """The one lock of a run, its noise source, and its end.

    Every call that reads or changes the state goes through ``enter`` and then takes ``lock``; every call that learns or
    releases then calls ``check_open`` under the lock. So whoever ends the run, by ``close`` or ``revoke``, has waited
    for the call in progress, and none comes after it: the secret numbers, needed for learning, and the key, needed for
    noise, no longer exist.
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
        """Refuse calls in which the lock would deadlock: re-entry by code run meanwhile, a fork by its holder."""
        cdef unsigned long forks = fork_count()[0]
        if draws and self.source is not None:
            self.source.check_fork()
        if pv_peek(&self.holder) == this_thread():
            raise StateError(self.busy)
        if self.birth != forks:
            self.enter_child(forks)
        return 0

    cdef int enter_child(self, unsigned long forks) except -1:
        """Handle the first use in a forked child, where no thread of the parent exists to release its lock."""
        if self.orphan or self.lock.locked():
            self.orphan = True  # and the data it was writing may be incomplete
            raise StateError(
                "the process was forked while another thread of it was using this run: what it has released can be "
                "read in the parent alone"
            )
        self.birth = forks
        return 0

    cdef int check_open(self) except -1:
        """Refuse a run that has ended, and a source that may no longer draw."""
        if self.revoked is not None:
            raise StateError(self.revoked)
        if self.closed:
            raise StateError(self.ended_words)
        if self.source is not None:
            self.source.check()
        return 0

    cdef void wipe(self) noexcept:
        """Overwrite the secrets; each kind of run implements it."""

    cdef int end(self) except -1:
        """Called under the lock: from here on nothing is learnt, drawn or released."""
        self.closed = True
        self.wipe()
        if self.undecided is not None:
            self.undecided.wipe()
        if self.source is not None:
            self.source.destroy()
        return 0

    def close(self):
        """End the run: no more rows. The secret numbers, the noise ahead and the key are wiped, and the rest stays."""
        self.enter(False)
        with self.lock:
            self.end()

    def revoke(self, words):
        """End the run for a reason that later calls report: nothing more is released.

        Waits for a call in progress in another thread; the counters are final when it returns.
        """
        self.enter(False)
        with self.lock:
            if not self.closed:  # otherwise the reason that ended it stays
                self.revoked = str(words)
            self.end()
