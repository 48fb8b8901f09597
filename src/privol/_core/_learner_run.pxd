cimport numpy as cnp
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint64_t

from ._draws cimport Draws
from ._geometry cimport pv_set
from ._guarded cimport GuardedRun
from ._losses cimport CustomCallbacks, pv_loss
from ._noise cimport Source, pv_draws
from ._rows cimport pv_rows, pv_status, pv_whole

cdef extern from "runs/pv_run.h" nogil:
    ctypedef struct pv_outputs:
        int64_t n
        int softmax
        const double *weights

    ctypedef struct pv_plan
    ctypedef struct pv_state

    ctypedef struct pv_method:
        int64_t (*upcoming)(const pv_state *state, const pv_plan *plan, int64_t capacity,
                            uint64_t *rows) noexcept nogil

    ctypedef struct pv_plan:
        const pv_method *method
        pv_loss loss
        pv_outputs outputs
        pv_set set
        int64_t d
        int intercept
        double x_bound
        int signs
        double y_bound
        int noisy
        int64_t horizon
        int64_t every
        const int64_t *releases
        int64_t n_releases_planned
        int64_t last_row
        double magnitude
        unsigned stream
        int averaging

    ctypedef struct pv_state:
        double *work
        double *released
        double *released_sum
        int64_t t
        int64_t n_released
        int64_t next_release
        int64_t list_position
        int pending
        double spent
        double spent_tail
        int64_t n_clipped
        int64_t n_null

    ctypedef struct pv_progress:
        const pv_rows *rows
        const double *y
        double *scores
        double *losses

    int64_t pv_next_release(const pv_plan *plan, int64_t t, int64_t *position) noexcept
    double pv_average_total(const pv_plan *plan, double k) noexcept
    pv_status pv_run(pv_state *state, const pv_plan *plan, const pv_rows *rows, const double *y, int64_t *i,
                     pv_draws *draws, const pv_progress *progress) noexcept
    void pv_evaluate(const pv_state *state, const pv_plan *plan, const pv_progress *progress) noexcept
    double pv_admissible(const pv_plan *plan, double y) noexcept


cdef class Progress:
    cdef readonly object scores
    cdef readonly object losses
    cdef int64_t outputs
    cdef int bind(self, pv_progress *progress, int64_t n, int64_t outputs) except -1


cdef class LearnerRun(GuardedRun):
    # These belong to the learner's own, larger structs; without a run, to the empty ones.
    cdef pv_plan *plan
    cdef pv_state *state
    cdef size_t state_size
    cdef pv_plan no_plan
    cdef pv_state no_state
    cdef Draws ahead
    cdef pv_draws *draws  # its own
    cdef bint helped  # by a second thread that draws noise, in calls that are long enough
    cdef int64_t drawn
    cdef CustomCallbacks user
    cdef object decide
    cdef object owners
    # Raw memory of its own: __dealloc__ wipes it, and may run after the garbage collector has cleared everything else.
    # Scratch and secret numbers come first, because they are wiped; then released and public ones.
    cdef double *memory
    cdef double *secret
    cdef double *public
    cdef int64_t n_scratch
    cdef int64_t n_secret
    cdef dict codes
    cdef double y_bound
    cdef bint null_invalid
    cdef int64_t n_public
    cdef object committed
    cdef bint sends  # others have the results of a block before it is done, so nothing can be undone

    cdef int begin(self, pv_plan *plan, pv_state *state, size_t state_size, const pv_method *method, frame,
                   int64_t drawn, int64_t n_secret, int64_t n_public) except -1

    # ---- methods that a learner may extend ----
    cdef dict own_arrays(self)
    cdef int restore_own(self, arrays) except -1

    # ---- methods that it may use ----
    cdef cnp.ndarray vector(self, const double *x, int64_t n)
    cdef int check_vector(self, arrays, str name, int64_t n) except -1
    cdef int fill_vector(self, double *x, arrays, str name, int64_t n) except -1
    cdef int refill(self) except -1
    cdef bint exchange(self) noexcept nogil
    cdef int serve(self, pv_status status) except -1
    cdef int run(self, pv_rows *rows, const double *y, const pv_progress *progress) except -1
    cdef int run_undoably(self, pv_rows *rows, const double *y, const pv_progress *progress) except -1
    cdef int publish_last(self, const double *point) except -1
    cdef int take(self, cnp.ndarray row, double y) except -1
    cdef int check_room(self, int64_t n) except -1
    cdef int check_width(self, int64_t d) except -1
    cdef object view(self, pv_rows *rows, object X, const double[::1] y)
    cdef bytes secret_key(self)
