"""The state of descent on loss values, and the calls that change it."""

import numpy as np

from libc.math cimport isnan
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from ..errors import InvalidParameter, StateError
from ._local cimport PV_REPORT_MAX, ReportRun, pv_vectors, pv_vectors_at
from ._report cimport Report, pv_report
from ._rows cimport PV_NEED_FAR, pv_rows, pv_status
from ._learner_run cimport pv_method, pv_plan, pv_state

cdef extern from "runs/pv_bandit.h" nogil:
    ctypedef struct pv_bandit_plan:
        pv_plan run
        pv_report report
        double cost
        int pair
        int whole
        double low
        double high
        double inner
        double distance
        double most
        double length
        int fixed

    ctypedef struct pv_bandit:
        pv_state run
        double *value
        double *point
        double *direction
        double *asked
        double *sum
        int64_t steps
        double *directions
        int64_t filled
        int64_t used

    const pv_method pv_bandit_method

    void pv_bandit_begin(pv_bandit *it, const pv_bandit_plan *plan) noexcept
    pv_status pv_bandit_tell(pv_bandit *it, const pv_bandit_plan *plan, const double *values) noexcept
    pv_status pv_bandit_receive(pv_bandit *it, const pv_bandit_plan *plan, const double *report,
                                const pv_vectors *vectors) noexcept

cdef int64_t AHEAD = 4096  # coordinates of directions that are asked for at a time, at least those of one direction


cdef class BanditRun(ReportRun):
    """One run of BanditMIOGD. Secret: a row's value until its report is made, the noise ahead.

    Parameters
    ----------
    frame : RunFrame
    magnitude : float
        Bound of the coordinates of what is perturbed.
    report : Report
        For one number or, if ``whole``, for all coordinates of the estimate.
    cost : float
        Squared mu of the whole run, charged with the first report.
    directions : callable
        ``directions(first, n)``: the directions of rounds ``first``, ``first + 1``, ..., an array of shape (n, dim).
        Public, but a direction must not be known before the points of the round before it are chosen.
    pair, low, high, inner, distance, most, length, fixed, whole
        See pv_bandit.h.
    """

    cdef pv_bandit_plan own_plan
    cdef pv_bandit it
    cdef object next_directions
    cdef int64_t ahead

    def __init__(self, frame, *, Report report not None, double magnitude, double cost, directions, bint pair,
                 double low, double high, double inner, double distance, double most, double length, bint fixed,
                 bint whole=False):
        cdef int64_t dim = frame.problem.dim
        cdef int64_t numbers = dim if whole else 1
        if report.c.d != numbers:
            raise InvalidParameter(f"the report must be of {numbers} numbers, found {report.c.d}")
        if whole and pair:
            raise InvalidParameter("the whole estimate is of one value")
        self.ahead = max(<int64_t>1, AHEAD // dim)
        self.begin_reports(&self.own_plan.run, &self.it.run, sizeof(pv_bandit), &pv_bandit_method, frame, report,
                           numbers, (5 + self.ahead) * dim)
        self.own_plan.run.magnitude = magnitude
        self.next_directions = directions
        self.own_plan.report = report.c
        self.own_plan.cost = cost
        self.own_plan.pair = pair
        self.own_plan.whole = whole
        self.own_plan.low = low
        self.own_plan.high = high
        self.own_plan.inner = inner
        self.own_plan.distance = distance
        self.own_plan.most = most
        self.own_plan.length = length
        self.own_plan.fixed = fixed
        self.it.value = self.secret
        self.it.point = self.public
        self.it.direction = self.public + dim
        self.it.sum = self.public + 2 * dim
        self.it.asked = self.public + 3 * dim
        self.it.directions = self.public + 5 * dim  # with everything else that a failed block restores
        memcpy(self.it.point, self.state.released, dim * sizeof(double))
        self.look()
        pv_bandit_begin(&self.it, &self.own_plan)

    cdef int look(self) except -1:
        """Get the directions of the next rounds."""
        cdef double[:, ::1] found
        # the current round's direction has been used already, unless no round has begun
        cdef int64_t first = self.it.steps + 1 + (self.it.used > 0)
        cdef int64_t n = min(self.ahead, self.plan.horizon + 2 - first)
        found = np.ascontiguousarray(self.next_directions(first, n), dtype=np.float64)
        if found.shape[0] != n or found.shape[1] != self.plan.d:
            raise StateError(f"directions have shape ({n}, {self.plan.d}), found ({found.shape[0]}, {found.shape[1]})")
        memcpy(self.it.directions, &found[0, 0], n * self.plan.d * sizeof(double))
        self.it.filled, self.it.used = n, 0
        return 0

    def point(self):
        """Copy of the point at which the next value is taken, shape (dim,); (2, dim) for a pair of points."""
        cdef int64_t n = 2 if self.own_plan.pair else 1
        self.enter(False)
        with self.lock:
            asked = self.vector(self.it.asked, n * self.plan.d)
        return asked.reshape(2, self.plan.d) if n == 2 else asked

    def tell(self, values):
        """Learn one row by its value at ``point()``, a float64 array of shape (1,) or (2,); None: the null row."""
        cdef const double[::1] numbers
        cdef const double *given = NULL
        cdef int64_t n = 2 if self.own_plan.pair else 1
        cdef pv_rows none
        self.enter(True)
        if values is not None:
            numbers = values
            if numbers.shape[0] != n:
                raise InvalidParameter(f"value must be {n} numbers, found {numbers.shape[0]}")
            for value in numbers:
                if isnan(value):
                    raise InvalidParameter("value must not be NaN; nothing was learnt")
            given = &numbers[0]
        none.n = 0
        with self.lock:
            self.check_room(1)
            self.run(&none, NULL, NULL)  # finish what an interrupt left undone
            pv_bandit_tell(&self.it, &self.own_plan, given)
            self.run(&none, NULL, NULL)

    def receive(self, const double[::1] report not None):
        """Learn a report that a device made of its value at ``point()``, of shape (1,); (dim,) if ``whole``."""
        cdef pv_rows none
        self.enter(True)
        if self.own_plan.whole:
            self.checked("report", report, PV_REPORT_MAX)
        elif report.shape[0] != 1 or not -1e150 <= report[0] <= 1e150:
            raise InvalidParameter("report must be one finite number of at most 1e150 in magnitude; nothing was learnt")
        none.n = 0
        with self.lock:
            self.check_room(1)
            self.run(&none, NULL, NULL)
            if self.it.used >= self.it.filled:
                self.look()
            pv_bandit_receive(&self.it, &self.own_plan, &report[0], pv_vectors_at(0))

    def release_last(self):
        """Publish the point, which is public already, of a run that ends before its only release was due."""
        self.publish_last(self.it.point)

    cdef int serve(self, pv_status status) except -1:
        if status == PV_NEED_FAR:
            return self.look()
        return ReportRun.serve(self, status)

    # ---- private ------------------------------------------------------------------------------

    cdef dict own_arrays(self):
        return {
            "point": self.vector(self.it.point, self.plan.d),
            "sum": self.vector(self.it.sum, self.plan.d),
            "steps": np.array([self.it.steps], dtype=np.int64),
        }

    cdef int restore_own(self, arrays) except -1:
        self.check_vector(arrays, "point", self.plan.d)
        self.check_vector(arrays, "sum", self.plan.d)
        self.it.steps = int(arrays["steps"][0])
        self.fill_vector(self.it.point, arrays, "point", self.plan.d)
        self.fill_vector(self.it.sum, arrays, "sum", self.plan.d)
        self.it.used = 0
        self.look()
        pv_bandit_begin(&self.it, &self.own_plan)  # the points of the current round again
        return 0
