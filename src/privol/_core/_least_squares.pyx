"""The private moments of PQFTL, and the models solved from them."""

import numpy as np

cimport numpy as cnp
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from libc.math cimport sqrt
from libc.stdint cimport int64_t
from libc.string cimport memset
from scipy.linalg.cython_lapack cimport dgesv, dpotrf, dsyevd, dtrtrs

from ..errors import InvalidParameter
from ._prefix_plan cimport (
    ByEpoch,
    PrefixPlan,
    pv_by_epoch,
    pv_prefix,
    pv_prefix_bind,
    pv_prefix_go_to,
    pv_prefix_in_doubles,
    pv_prefix_kept_size,
    pv_prefix_read,
    pv_prefix_size,
)
from ._noise cimport first_pass, pv_draws, pv_wipe
from ._rows cimport PV_NEED_FAR, PV_OK, pv_rows, pv_rows_bind, pv_rows_use, pv_status, view_block
from ._learner_run cimport LearnerRun, pv_method, pv_plan, pv_state

cnp.import_array()

cdef extern from "prefix/pv_moments.h" nogil:
    enum: PV_MOMENT_ROWS

    ctypedef void (*pv_moments)(const double *v, const double *y, int64_t k, int64_t d, int fresh,
                                double *sum) noexcept nogil

    pv_moments pv_moments_at(int level) noexcept

cdef extern from "noise/pv_draws.h" nogil:
    int pv_draws_level(const pv_draws *draws) noexcept

cdef extern from "prefix/pv_ridge.h" nogil:
    ctypedef struct pv_lapack:
        void (*potrf)(char *, int *, double *, int *, int *) noexcept nogil
        void (*trtrs)(char *, char *, char *, int *, int *, double *, int *, double *, int *, int *) noexcept nogil
        void (*syevd)(char *, char *, int *, double *, int *, double *, double *, int *, int *, int *,
                      int *) noexcept nogil
        void (*gesv)(int *, int *, double *, int *, int *, double *, int *, int *) noexcept nogil

    ctypedef struct pv_ridge:
        pv_lapack lapack
        int d
        double *matrix
        double *work
        int *integers
        int64_t n_indefinite

    int64_t pv_ridge_work(int64_t d) noexcept
    int64_t pv_ridge_integers(int64_t d) noexcept
    int64_t pv_moments_size(int64_t d) noexcept
    int64_t pv_all_moments_size(int64_t d) noexcept
    pv_status pv_ridge_solve(pv_ridge *ridge, const double *moments, double most, double shift, double radius,
                             double *x) noexcept

cdef extern from "runs/pv_least_squares.h" nogil:
    ctypedef struct pv_least_squares_plan:
        pv_plan run
        double row_unit
        double target_unit
        double l2
        const double *shifts
        int64_t n_shifts
        pv_by_epoch ended
        double radius
        double cost
        int as_printed

    ctypedef struct pv_least_squares:
        pv_state run
        pv_prefix sums
        pv_ridge ridge
        pv_moments add
        double *rows
        double *targets
        int64_t waiting
        double *moments
        double *released
        const double *given

    const pv_method pv_least_squares_method

    void pv_least_squares_gather(pv_least_squares *s) noexcept
    void pv_least_squares_leaf(const pv_least_squares_plan *plan, pv_moments add, const pv_rows *rows, const double *y,
                               int64_t first, int64_t n, pv_state *counts, double *scratch, double *out) noexcept
    void pv_least_squares_end(pv_least_squares *s, const pv_least_squares_plan *plan) noexcept

cdef double MOST_MOMENTS = 1.4142149766  # norm of a row's moments in unit bounds: sqrt(2), and 1e-6 for roundings
cdef int64_t MOST_COORDINATES = 16384  # LAPACK's sizes are 32-bit integers


def moments_size(int64_t dim, bint as_printed=False) -> int:
    """Length of the vector of moments of rows with ``dim`` coordinates: ``dim (dim + 1) / 2 + dim``.

    If Algorithm 4 is used as printed, with all entries of the matrix: ``dim**2 + dim``.
    """
    return pv_all_moments_size(dim) if as_printed else pv_moments_size(dim)


cdef int bind_ridge(pv_ridge *ridge, int64_t dim) except -1:
    """Give the solver LAPACK and its memory, which the caller frees."""
    if dim < 1 or dim > MOST_COORDINATES:
        raise InvalidParameter(f"a least-squares model has 1 to {MOST_COORDINATES} coordinates, found {dim}")
    ridge.d = <int>dim
    ridge.lapack.potrf = <void (*)(char *, int *, double *, int *, int *) noexcept nogil>dpotrf
    ridge.lapack.trtrs = <void (*)(char *, char *, char *, int *, int *, double *, int *, double *, int *,
                                   int *) noexcept nogil>dtrtrs
    ridge.lapack.syevd = <void (*)(char *, char *, int *, double *, int *, double *, double *, int *, int *, int *,
                                   int *) noexcept nogil>dsyevd
    ridge.lapack.gesv = <void (*)(int *, int *, double *, int *, int *, double *, int *, int *) noexcept nogil>dgesv
    ridge.matrix = <double *>PyMem_RawCalloc(dim * dim + pv_ridge_work(dim), sizeof(double))
    ridge.integers = <int *>PyMem_RawCalloc(pv_ridge_integers(dim), sizeof(int))
    if ridge.matrix == NULL or ridge.integers == NULL:
        raise MemoryError
    ridge.work = ridge.matrix + dim * dim
    return 0


def solve_ridge(cnp.ndarray moments not None, int64_t dim, *, double most, double shift, double radius):
    """The model of given moments, as the run solves it from the sums that it has released.

    Parameters
    ----------
    moments : ndarray of shape (dim (dim + 1) / 2 + dim,), float64, C-contiguous
        The upper triangle of V by rows, entries off the diagonal times sqrt(2); then u.
    most : float
        If V + shift I is not positive definite, the eigenvalues of V are first moved into [0, most].
    shift : float
        Above 0.
    radius : float
        Of the ball of models.

    Returns
    -------
    x : ndarray of shape (dim,)
        ``(V + (shift + nu) I)^-1 u`` with the least ``nu >= 0`` such that it lies in the ball.
    indefinite : bool
        Whether eigenvalues were taken.
    """
    cdef pv_ridge ridge
    cdef const double[::1] given = moments
    cdef double[::1] x = np.empty(dim)
    cdef pv_status status
    if given.shape[0] != pv_moments_size(dim):
        raise InvalidParameter(f"moments must have {pv_moments_size(dim)} values, found {given.shape[0]}")
    ridge.n_indefinite = 0
    ridge.matrix, ridge.integers = NULL, NULL
    try:
        bind_ridge(&ridge, dim)
        with nogil:
            status = pv_ridge_solve(&ridge, &given[0], most, shift, radius, &x[0])
    finally:
        PyMem_RawFree(ridge.matrix)
        PyMem_RawFree(ridge.integers)
    if status != PV_OK:
        raise InvalidParameter("the moments are not finite")
    return np.asarray(x), ridge.n_indefinite > 0


def leaf_moments(X, targets, *, int64_t leaf, int64_t dim, bint intercept, double x_bound, double y_bound,
                 double row_unit, double target_unit):
    """Sums of the moments of whole leaves, from the first row on, with the same bits as a run's sums over these rows.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, features)
        Rows with unusable entries are null rows.
    targets : ndarray of shape (n,), float64
        NaN: a null row.
    leaf : int
        Rows of each leaf, at least 1; rows after the last whole leaf are left out.
    dim : int
        Coordinates of a model, the intercept's included.
    intercept, x_bound, y_bound
        As in the run's problem.
    row_unit, target_unit : float
        As in the run.

    Returns
    -------
    sums : ndarray of shape (n // leaf, moments_size(dim))
        Secret.
    clipped, null : int
        Rows of these leaves that were scaled, and null rows. Not private.
    """
    cdef pv_least_squares_plan plan
    cdef pv_state counts
    cdef pv_rows rows
    cdef int64_t k, n
    cdef const double[::1] y = np.ascontiguousarray(targets, dtype=np.float64)
    cdef double[:, ::1] sums
    cdef double[::1] scratch
    cdef int level = first_pass().level
    cdef pv_moments add = pv_moments_at(level)
    if leaf < 1 or dim < 1 or dim > MOST_COORDINATES:
        raise InvalidParameter(f"leaf and dim must be at least 1, found {leaf} and {dim}")
    _owner = view_block(&rows, X)
    if rows.n != y.shape[0] or rows.d + intercept != dim:
        raise InvalidParameter(f"rows must be {y.shape[0]} times {dim - intercept}, found {rows.n} times {rows.d}")
    pv_rows_bind(&rows)
    pv_rows_use(&rows, level)
    memset(&plan, 0, sizeof(plan))
    memset(&counts, 0, sizeof(counts))
    plan.run.d, plan.run.intercept, plan.run.outputs.n = dim, intercept, 1
    plan.run.x_bound, plan.run.y_bound = x_bound, y_bound
    plan.row_unit, plan.target_unit = row_unit, target_unit
    n = rows.n // leaf
    out = np.empty((n, pv_moments_size(dim)))
    if n == 0:
        return out, 0, 0
    sums, scratch = out, np.zeros(PV_MOMENT_ROWS * (dim + 1))
    with nogil:
        for k in range(n):
            pv_least_squares_leaf(&plan, add, &rows, &y[0], k * leaf, leaf, &counts, &scratch[0], &sums[k, 0])
        pv_wipe(&scratch[0], PV_MOMENT_ROWS * (dim + 1) * sizeof(double))
    return out, counts.n_clipped, counts.n_null


cdef class LeastSquaresRun(LearnerRun):
    """One run of PQFTL.

    Parameters
    ----------
    frame : RunFrame
        Of the squared loss and a ball of models.
    sums : PrefixPlan
        For the moments, in unit bounds. Its rows are ``horizon``, unless other plans follow.
    row_unit, target_unit : float
        Factors of a scaled row with the intercept's constant, and of a clipped target, that make their bounds 1.
    l2 : float
        Strong convexity of a row's loss in these units.
    shifts : ndarray of shape (epochs, n), float64
        Added to V for the noise of an epoch: entry k from step 2^k to 2^(k+1) - 1. The last ones are those of all later
        epochs.
    ended : ByEpoch
        Squares of the shifts for the noise of earlier epochs, which are added to the square of the epoch's own.
    ball : float
        Radius of the models in these units.
    cost : float
        mu^2 of the run, charged with the first row.
    as_printed : bool, default False
        All entries of the matrix have their own noise, and models are ``(V + rows l2 I)^-1 u`` whatever V is, as in
        Algorithm 4 of the source: the shifts must be 0, and the ball is not used.
    """

    cdef pv_least_squares_plan own_plan
    cdef pv_least_squares own
    cdef PrefixPlan sums
    cdef const double[:, ::1] shifts
    cdef ByEpoch ended
    cdef double *matrix
    cdef int *integers
    cdef int64_t n_sums
    cdef bint stopped

    def __init__(self, frame, *, PrefixPlan sums not None, double row_unit, double target_unit, double l2, shifts,
                 double ball, double cost, ByEpoch ended=None, bint as_printed=False):
        cdef int64_t dim = frame.problem.dim
        cdef int64_t horizon = frame.releases.horizon
        cdef int64_t size = pv_all_moments_size(dim) if as_printed else pv_moments_size(dim)
        cdef PrefixPlan plan = sums
        if (
            sums.c.dim != size or (sums.c.next == NULL and sums.c.horizon != horizon) or sums.c.gram
            or (frame.source is None) == sums.c.noisy
        ):
            raise InvalidParameter(f"the sums must be of {size} coordinates over {horizon} rows, noisy with a source")
        self.n_sums = pv_prefix_size(&sums.c)
        self.begin(&self.own_plan.run, &self.own.run, sizeof(pv_least_squares), &pv_least_squares_method, frame,
                   size, self.n_sums + size + PV_MOMENT_ROWS * (dim + 1), size)
        self.own_plan.run.magnitude = sums.c.magnitude
        bind_ridge(&self.own.ridge, dim)
        self.sums, self.shifts = sums, np.array(shifts, dtype=np.float64)
        self.ended = ByEpoch((0.0,)) if ended is None else ended
        while plan.following is not None:
            plan = plan.following
        if self.shifts.shape[0] != self.ended.c.last + 1 or self.shifts.shape[1] < int(plan.c.steps).bit_length():
            raise InvalidParameter(
                f"shifts must have {self.ended.c.last + 1} times {int(plan.c.steps).bit_length()} values"
            )
        self.own_plan.shifts = &self.shifts[0, 0]
        self.own_plan.n_shifts = self.shifts.shape[1]
        self.own_plan.ended = self.ended.c
        self.own_plan.row_unit = row_unit
        self.own_plan.target_unit = target_unit
        self.own_plan.l2 = l2
        self.own_plan.radius = ball
        self.own_plan.cost = cost
        self.own_plan.as_printed = as_printed
        pv_prefix_bind(&self.own.sums, &sums.c, self.secret)
        self.own.add = pv_moments_at(pv_draws_level(self.draws))
        self.own.moments = self.secret + self.n_sums
        self.own.rows = self.own.moments + size
        self.own.targets = self.own.rows + PV_MOMENT_ROWS * dim
        self.own.released = self.public

    def __dealloc__(self):
        PyMem_RawFree(self.own.ridge.matrix)
        PyMem_RawFree(self.own.ridge.integers)

    def learn_leaf(self, cnp.ndarray moments not None, int64_t rows):
        """Learn a whole leaf by its sum, from :func:`leaf_moments`: the same bits as by its rows.

        Of the run's counts only the number of rows is kept; see :meth:`count`.

        Parameters
        ----------
        moments : ndarray of shape (size,), float64, C-contiguous
            Secret.
        rows : int
            Rows of the leaf: the same number for every leaf of this run.

        Raises
        ------
        InvalidParameter
            If the sum is not finite, or longer than the moments of so many rows can be: nothing was learnt.
        """
        cdef const double[::1] given = moments
        cdef int64_t size = pv_moments_size(self.plan.d)
        cdef int64_t j
        cdef double square = 0.0
        if self.own_plan.as_printed or not pv_prefix_in_doubles(&self.own.sums):
            raise InvalidParameter("leaves are learnt by their sums where these are added up in doubles")
        if given.shape[0] != size or rows != self.sums.c.leaf or self.own.sums.in_leaf != 0:
            raise InvalidParameter(f"a leaf has {size} sums of {self.sums.c.leaf} rows, and begins where one has ended")
        for j in range(size):
            square += given[j] * given[j]
        if not sqrt(square) <= MOST_MOMENTS * <double>rows:
            raise InvalidParameter(
                f"the sum of the moments of {rows} rows must be finite and no longer than theirs can be; nothing of it "
                "was learnt"
            )
        none = np.zeros((min(rows, 256), self.plan.d - self.plan.intercept))
        nothing = np.full(min(rows, 256), np.nan)
        left = rows - 1
        while left > 0:
            now = min(left, 256)
            self.learn(none[:now], nothing[:now])
            left -= now
        self.own.given = &given[0]
        try:
            self.learn(none[:1], nothing[:1])
        finally:
            self.own.given = NULL
        self.state.n_null -= rows

    def count(self, int64_t clipped, int64_t null):
        """Add the scaled rows and null rows of leaves that were learnt by their sums. Not private."""
        self.state.n_clipped += clipped
        self.state.n_null += null

    def release_last(self):
        """End a leaf that has begun and publish the model of all rows: the run's last, which learns no more.

        After an exception it may be called again, and continues where it was.
        """
        cdef pv_rows none
        none.n = 0
        self.enter(True)
        with self.lock:
            self.check_open()
            self.run(&none, NULL, NULL)  # finish what an interrupt left undone
            if not self.stopped:
                self.plan.horizon = self.state.t
                self.stopped = True
                pv_least_squares_end(&self.own, &self.own_plan)
                self.run(&none, NULL, NULL)

    def released_sums(self):
        """Copy of the sums released last, in unit bounds; zeros before the first step. Public."""
        cdef cnp.ndarray out = np.zeros(self.drawn)
        self.enter(False)
        with self.lock:
            if self.own.sums.first_step + self.own.sums.step > 0:
                pv_prefix_read(&self.own.sums, <double *>cnp.PyArray_DATA(out))
        return out

    @property
    def n_indefinite(self) -> int:
        """Models that needed eigenvalues: a function of what was released."""
        return self.own.ridge.n_indefinite

    # ---- private ------------------------------------------------------------------------------

    cdef int serve(self, pv_status status) except -1:
        if status == PV_NEED_FAR:
            return self.sums.look_far(&self.own.sums)
        return LearnerRun.serve(self, status)

    cdef dict own_arrays(self):
        pv_least_squares_gather(&self.own)
        return {
            "sums": self.sums.memory_of(self.secret),
            "sums_counts": self.sums.counts(&self.own.sums),
        }

    cdef int restore_own(self, arrays) except -1:
        self.check_vector(arrays, "sums", pv_prefix_kept_size(&self.sums.c))
        self.check_vector(arrays, "sums_counts", 6)
        counts, memory = arrays["sums_counts"], arrays["sums"]
        pv_prefix_go_to(&self.own.sums, self.sums.epoch_of(counts))
        self.sums.restore(&self.own.sums, counts)
        self.sums.fill_memory(self.secret, memory)
        return 0
