"""The secret iterate of PIGD and PGIGA, and the calls that change and release it."""

import numpy as np

from libc.stdint cimport int64_t
from libc.string cimport memcpy

from ..errors import InvalidParameter, StateError
from ._noise cimport pv_draws, pv_show, this_thread
from ._rows cimport PV_OK, pv_sqnorm, pv_status
from ._learner_run cimport LearnerRun, pv_method, pv_plan, pv_state
from ._schedule cimport Schedule, pv_schedule

cdef extern from "runs/pv_iterate.h" nogil:
    ctypedef struct pv_iterate_plan
    ctypedef void (*pv_update)(const pv_iterate_plan *, double, double, double, double, double, double,
                               double *, double *) noexcept nogil

    ctypedef struct pv_iterate_plan:
        pv_plan run
        pv_schedule schedule
        pv_update update
        int constrained
        int64_t refresh

    ctypedef struct pv_iterate:
        pv_state run
        double *u
        double s
        double nn

    const pv_method pv_iterate_method

    void pv_update_implicit(const pv_iterate_plan *, double, double, double, double, double, double,
                            double *, double *) noexcept
    void pv_update_gradient(const pv_iterate_plan *, double, double, double, double, double, double,
                            double *, double *) noexcept
    pv_status pv_iterate_release(pv_iterate *it, const pv_iterate_plan *plan, double std, double sensitivity,
                                 pv_draws *draws) noexcept
    void pv_iterate_read(const pv_iterate *it, int64_t d, double *out) noexcept


cdef class IterateRun(LearnerRun):
    """One run of PIGD or PGIGA.

    Parameters
    ----------
    frame : RunFrame
    magnitude : float
        Public bound of every coordinate of an iterate.
    update : {"implicit", "gradient"}
    constrained : bool
        Implicit step on the L2 ball: take the exact constrained step instead of prox, then project.
    schedule : Schedule
    refresh : int
        Rows between recomputations of the norm.
    averaging : int, default=0
        Weights of the released models in their average: see pv_run.h.
    """

    cdef pv_iterate_plan own_plan
    cdef pv_iterate it
    cdef Schedule schedule

    def __init__(self, frame, *, double magnitude, str update, bint constrained, Schedule schedule not None,
                 int64_t refresh, int averaging=0):
        cdef int64_t dim = frame.problem.dim
        if frame.source is None and schedule.c.gain > 0.0:
            raise InvalidParameter(f"noise of the gain {schedule.c.gain:g} needs a source")
        self.begin(&self.own_plan.run, &self.it.run, sizeof(pv_iterate), &pv_iterate_method, frame, dim, dim, 0)
        self.own_plan.run.magnitude = magnitude
        self.own_plan.run.averaging = averaging
        self.schedule = schedule
        self.own_plan.schedule = schedule.c
        self.own_plan.update = pv_update_implicit if update == "implicit" else pv_update_gradient
        self.own_plan.constrained = constrained
        self.own_plan.refresh = refresh
        self.it.u = self.secret
        memcpy(self.it.u, self.state.released, dim * sizeof(double))
        self.it.s = 1.0
        self.it.nn = pv_sqnorm(self.it.u, dim)

    cdef void wipe(self) noexcept:
        LearnerRun.wipe(self)
        self.it.s = 0.0
        self.it.nn = 0.0

    def release_last(self, double std, double sensitivity):
        """Publish the iterate after the last row learnt, with noise of the given standard deviation.

        Used once, when a run ends before the row its only release was planned for.
        """
        cdef pv_status status
        self.enter(True)
        with self.lock:
            self.check_open()
            if self.state.n_released:
                raise StateError("only a run that has released nothing may end with such a release")
            if self.source is not None:
                self.ahead.coming[0], self.ahead.listed = self.state.t, 1
                self.ahead.draw()
            pv_show(&self.holder, this_thread())
            try:
                while True:
                    status = pv_iterate_release(&self.it, &self.own_plan, std, sensitivity, self.draws)
                    if status == PV_OK:
                        break
                    self.serve(status)
            finally:
                pv_show(&self.holder, 0)
            self.closed = True

    # ---- private ------------------------------------------------------------------------------

    cdef dict own_arrays(self):
        return {"iterate": self.vector(self.it.u, self.plan.d), "scale_norm": np.array([self.it.s, self.it.nn])}

    cdef int restore_own(self, arrays) except -1:
        self.check_vector(arrays, "iterate", self.plan.d)
        self.fill_vector(self.it.u, arrays, "iterate", self.plan.d)
        self.it.s, self.it.nn = arrays["scale_norm"]
        return 0

    def _secret_iterate(self):
        """The un-noised iterate: SECRET, for tests of sensitivity and replay twins."""
        cdef double[::1] out = np.empty(self.plan.d)
        self.enter(False)
        with self.lock:
            pv_iterate_read(&self.it, self.plan.d, &out[0])
        return np.asarray(out)
