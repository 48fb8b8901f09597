"""How many rows of each user were kept, and when the last one was: the cap on rows per user."""

import os

import numpy as np

from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy

from ..errors import InvalidParameter, StateError
from ._rows cimport PV_BAD_ROW, PV_HORIZON, PV_OK, pv_status


cdef extern from "users/pv_users.h" nogil:
    enum:
        PV_USERS_KEPT
        PV_USERS_LAST

    ctypedef struct pv_users:
        uint64_t key[2]
        int64_t max_rows
        int64_t separation
        int64_t number
        int64_t near
        int64_t used
        int64_t room
        int64_t limit
        unsigned char *entries
        int stride
        int every

    ctypedef struct pv_users_rows:
        int64_t n
        int64_t texts
        const int32_t *codes
        const int64_t *offsets
        const unsigned char *data
        uint64_t *digests
        unsigned char *fates
        uint64_t *kept
        int64_t *before

    void pv_users_digest(const uint64_t *key, const unsigned char *text, int64_t n, uint64_t *digest) noexcept
    void pv_users_layout(pv_users *table) noexcept
    void pv_users_move(const pv_users *source, pv_users *to) noexcept
    pv_status pv_users_keep(pv_users *table, const pv_users_rows *rows, int64_t *at) noexcept
    void pv_users_undo(pv_users *table, const pv_users_rows *rows, int64_t n, int64_t at) noexcept
    pv_status pv_users_enter(pv_users *table, const uint64_t *digests, const int64_t *numbers, int64_t n,
                             int64_t *at) noexcept

# Rows are numbered below this: an entry has PV_USERS_LAST bytes for a number.
cdef int64_t ROWS = <int64_t>1 << 8 * PV_USERS_LAST


cdef class UserTable:
    """Decides row by row which rows of each user are kept: at most ``max_rows``, at least ``separation`` rows apart.

    The decision about a row depends only on the rows of its own user and on which rows are counted. Users are
    identified by a keyed hash of 128 bits. A table is at most four fifths full, and grows by an eighth. An entry takes
    17 bytes for caps below 256 (two more below 65,536, four more beyond that), or 23 with ``separation``, so a user
    takes 21 to 24 or 29 to 33 bytes; and as much again for a moment whenever the table grows.

    Parameters
    ----------
    max_rows : int
        From 1 to 2**31 - 1.
    separation : int, default=1
        From 1 to 2**48.
    every : bool, default=False
        Whether the counted rows, which number the rows, are all rows or only the kept ones.
    key : bytes of length 16, optional
        Key of the hash: **secret**. None: random.
    max_users : int, default=2**24
        The most users.

    Attributes
    ----------
    near : int
        Rows that the cap allows but the distance from the last kept row of their user does not. Not private.
    number : int
        Rows that were counted.
    """

    cdef pv_users c
    cdef int64_t most
    cdef tuple latest  # of keep(): what undo() needs

    def __init__(self, int64_t max_rows, int64_t separation=1, *, bint every=False, key=None,
                 int64_t max_users=1 << 24):
        if max_rows < 1 or max_rows >= <int64_t>1 << 31:
            raise InvalidParameter(f"max_rows must be an integer from 1 to {(1 << 31) - 1}, found {max_rows}")
        if separation < 1 or separation > <int64_t>1 << 48:
            raise InvalidParameter(f"separation must be an integer from 1 to 2**48, found {separation}")
        if max_users < 1 or max_users > <int64_t>1 << 40:
            raise InvalidParameter(f"max_users must be an integer from 1 to 2**40, found {max_users}")
        cdef bytes secret = os.urandom(16) if key is None else bytes(key)
        if len(secret) != 16:
            raise InvalidParameter(f"key must have 16 bytes, found {len(secret)}")
        PyMem_RawFree(self.c.entries)
        self.c.entries = NULL
        self.c.key[0], self.c.key[1] = (int.from_bytes(part, "little") for part in (secret[:8], secret[8:]))
        self.c.max_rows = max_rows
        self.c.separation = separation
        self.c.every = every
        self.c.number = self.c.near = 0
        self.most = max_users
        pv_users_layout(&self.c)
        self.make(&self.c, 1 << 10)

    def __dealloc__(self):
        PyMem_RawFree(self.c.entries)
        self.c.key[0] = self.c.key[1] = 0

    def __reduce__(self):
        raise StateError("who was seen in a stream is secret, and cannot be pickled")

    def __len__(self):
        return self.c.used

    @property
    def near(self):
        return self.c.near

    @property
    def number(self):
        return self.c.number

    @property
    def nbytes(self):
        """Bytes of the table."""
        return self.c.room * self.c.stride

    cdef int make(self, pv_users *table, int64_t room) except -1:
        """Give a table its entries, all of them free."""
        table.entries = <unsigned char *>PyMem_RawCalloc(room, table.stride)
        if table.entries == NULL:
            raise MemoryError(f"{room * table.stride} bytes for a table of users")
        table.room = room
        table.used = 0
        table.limit = min(self.most, 4 * room // 5)
        return 0

    cdef int grow(self) except -1:
        """Make room for one more user.

        Raises OverflowError if the limit is reached; users that were taken back are removed first.
        """
        cdef pv_users larger = self.c
        cdef int64_t room = self.c.room if self.c.limit == self.most else self.c.room + self.c.room // 8
        self.make(&larger, room)
        with nogil:
            pv_users_move(&self.c, &larger)
        PyMem_RawFree(self.c.entries)
        self.c = larger
        if self.c.used >= self.c.limit:
            raise OverflowError
        return 0

    def keep(self, codes, offsets, data, *, bint undoable=False):
        """Decide on rows, and remember those that are kept.

        Parameters
        ----------
        codes : ndarray of int32, shape (n,)
            For each row, the number of the text that names its user.
        offsets : ndarray of int64, shape (m + 1,)
            Text k is ``data[offsets[k]:offsets[k + 1]]``. Equal texts are one user.
        data : ndarray of uint8
        undoable : bool, default=False
            Whether to return the digests, and to let :meth:`undo` take rows back.

        Returns
        -------
        keep : ndarray of bool, shape (n,)
        digests : ndarray of uint64, shape (n, 2), or None
            For the users of kept rows; zeros for other rows.

        Raises
        ------
        OverflowError
            At the first row that would exceed ``max_users`` users: its argument is the row's index. If rows are
            undoable, none of them is remembered.
        """
        cdef const int32_t[::1] which = codes
        cdef const int64_t[::1] bounds = offsets
        cdef const unsigned char[::1] texts = data
        cdef int64_t n = which.shape[0]
        cdef int64_t m = bounds.shape[0] - 1
        cdef int64_t at = 0
        cdef unsigned char none = 0
        cdef pv_status status = PV_OK
        cdef pv_users_rows rows
        if m < 0 or (m and (bounds[0] < 0 or bounds[m] > texts.shape[0])) or np.any(np.diff(offsets) < 0):
            raise InvalidParameter("offsets must ascend within data")
        cdef uint64_t[::1] known = np.zeros(2 * m, dtype=np.uint64)
        fates = np.empty(n, dtype=np.uint8)
        kept = np.empty((n if undoable else 0, 2), dtype=np.uint64)
        before = np.empty(n if undoable else 0, dtype=np.int64)
        cdef unsigned char[::1] fates_view = fates
        cdef uint64_t[:, ::1] kept_view = kept
        cdef int64_t[::1] before_view = before
        rows.n, rows.texts = n, m
        if n:
            rows.codes, rows.offsets = &which[0], &bounds[0]
            rows.data = &texts[0] if texts.shape[0] else &none
            rows.digests = &known[0] if m else NULL
            rows.fates = &fates_view[0]
            rows.kept = &kept_view[0, 0] if undoable else NULL
            rows.before = &before_view[0] if undoable else NULL
        self.latest = (fates, kept, before) if undoable else None
        while n:
            with nogil:
                status = pv_users_keep(&self.c, &rows, &at)
            if status == PV_OK:
                break
            if status != PV_HORIZON:
                raise InvalidParameter(f"codes must be from 0 to {m - 1}, found {which[at]}")
            try:
                self.grow()
            except OverflowError:
                if undoable:
                    with nogil:
                        pv_users_undo(&self.c, &rows, at, 0)
                    self.latest = None
                raise OverflowError(at) from None
        return fates == PV_USERS_KEPT, kept if undoable else None

    def undo(self, int64_t first):
        """Take back the rows from number ``first`` (from 0) of the latest :meth:`keep`: they were not learnt."""
        if self.latest is None:
            raise StateError("there is nothing to take back")
        cdef unsigned char[::1] fates = self.latest[0]
        cdef uint64_t[:, ::1] kept = self.latest[1]
        cdef int64_t[::1] before = self.latest[2]
        cdef int64_t n = fates.shape[0]
        cdef pv_users_rows rows
        if 0 <= first < n:
            rows.fates = &fates[0]
            rows.kept = &kept[0, 0]
            rows.before = &before[0]
            pv_users_undo(&self.c, &rows, n, first)
        self.latest = None

    def enter(self, digests, numbers):
        """Remember rows that were kept, as :meth:`keep` would have done.

        Parameters
        ----------
        digests : ndarray of uint64, shape (n, 2)
        numbers : ndarray of int64, shape (n,)
            Numbers of the counted rows, from 0, ascending.

        Raises
        ------
        StateError
            If one of them would not be kept: the rows have changed.
        """
        cdef const uint64_t[:, ::1] users = digests
        cdef const int64_t[::1] when = numbers
        cdef int64_t n = when.shape[0]
        cdef int64_t at = 0
        cdef pv_status status = PV_OK
        if users.shape[0] != n or users.shape[1] != 2:
            raise InvalidParameter(f"digests must have shape ({n}, 2), found {np.shape(digests)}")
        if n and not (0 <= numbers.min() and numbers.max() < ROWS):
            raise StateError(f"rows are numbered from 0 to 2**48 - 1, found {numbers.min()} to {numbers.max()}")
        while n:
            with nogil:
                status = pv_users_enter(&self.c, &users[0, 0], &when[0], n, &at)
            if status == PV_OK:
                break
            if status == PV_BAD_ROW:
                raise StateError(f"row {when[at]} is said to be kept, and has a user whose rows do not let it be")
            try:
                self.grow()
            except OverflowError:
                raise StateError(f"there are more than {self.most} users") from None

    def secret_arrays(self):
        """All that is known, as named arrays: SECRET, including the key."""
        cdef Py_ssize_t size = self.c.room * self.c.stride
        words = [self.c.max_rows, self.c.separation, self.c.every, self.most, self.c.number, self.c.near, self.c.used]
        return {
            "key": np.array([self.c.key[0], self.c.key[1]], dtype=np.uint64),
            "counts": np.array(words, dtype=np.int64),
            "entries": np.frombuffer(self.c.entries[:size], dtype=np.uint8),
        }

    def restore(self, arrays):
        """Restore what another table with the same parameters knew.

        Raises
        ------
        StateError
            If the arrays belong to a table with other parameters, or are damaged.
        """
        counts = [int(count) for count in arrays["counts"]]
        if counts[:4] != [self.c.max_rows, self.c.separation, self.c.every, self.most]:
            raise StateError("the state counts users by another cap, another separation or another bound")
        cdef bytes entries = arrays["entries"].tobytes()
        cdef int64_t room = len(entries) // self.c.stride
        cdef int64_t used = counts[6]
        whole = room > 0 and room * self.c.stride == len(entries) and 0 <= used <= min(self.most, 4 * room // 5)
        whole = whole and 0 <= counts[4] < ROWS and 0 <= counts[5] < ROWS
        if whole:  # without a free entry, the search for a user would not end
            digests = np.frombuffer(entries, dtype=np.uint8).reshape(room, self.c.stride)[:, :16]
            whole = np.count_nonzero(digests.any(axis=1)) == used
        if not whole:
            raise StateError("the state of the table of users is damaged")
        cdef pv_users known = self.c
        self.make(&known, room)
        memcpy(known.entries, <const unsigned char *>entries, len(entries))
        PyMem_RawFree(self.c.entries)
        known.used = used
        known.key[0], known.key[1] = arrays["key"].tolist()
        known.number, known.near = counts[4:6]
        self.c = known
        self.latest = None

    def go_on(self, int64_t number):
        """State how many rows were counted, after the kept ones have been entered."""
        if not 0 <= number < ROWS:
            raise InvalidParameter(f"number must be from 0 to 2**48 - 1, found {number}")
        self.c.number = number


def user_digests(key, offsets, data):
    """Return the keyed hashes of texts.

    Parameters
    ----------
    key : bytes of length 16
    offsets : ndarray of int64, shape (n + 1,)
        Where each text begins, and where the last one ends.
    data : ndarray of uint8
        All texts.

    Returns
    -------
    ndarray of uint64, shape (n, 2)
    """
    cdef const int64_t[::1] at = offsets
    cdef const unsigned char[::1] texts = data
    cdef Py_ssize_t i, n = at.shape[0] - 1
    cdef uint64_t secret[2]
    found = np.empty((n, 2), dtype=np.uint64)
    cdef uint64_t[:, ::1] digests = found
    cdef const unsigned char *begin = &texts[0] if texts.shape[0] else NULL
    secret[0], secret[1] = (int.from_bytes(part, "little") for part in (key[:8], key[8:16]))
    if n and (at[0] < 0 or at[n] > texts.shape[0] or np.any(np.diff(offsets) < 0)):
        raise InvalidParameter("offsets must not fall, nor lead beyond the texts")
    with nogil:
        for i in range(n):
            pv_users_digest(secret, begin + at[i], at[i + 1] - at[i], &digests[i, 0])
    return found


def user_digest(key, text):
    """The keyed hash of a text, as two words."""
    cdef uint64_t secret[2]
    cdef uint64_t digest[2]
    cdef bytes content = text
    secret[0], secret[1] = (int.from_bytes(part, "little") for part in (key[:8], key[8:16]))
    pv_users_digest(secret, content, len(content), digest)
    return digest[0], digest[1]
