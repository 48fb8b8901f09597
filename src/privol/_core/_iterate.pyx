"""The secret iterate of PIGD and PGIGA, and the calls that move and release it."""

import numpy as np

from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from ..errors import StateError
from ._noise cimport Source
from ._rows cimport PV_OK, pv_sqnorm, pv_status
from ._run cimport LearnerRun
from ._schedule cimport Schedule


cdef class IterateRun(LearnerRun):
    """One run of PIGD or PGIGA.

    Parameters
    ----------
    dim : int
        Model coordinates, the intercept included.
    intercept : bool
    loss : privol.losses.Loss
    domain : privol.geometry.ConvexSet
    update : {"implicit", "gradient"}
    constrained : bool
        Implicit step on the L2 ball: take the exact constrained step instead of prox, then project.
    schedule : Schedule
    every : int
        Release after every so many rows; 0: the rows of ``releases``.
    releases : ndarray of int64
        Ascending row numbers.
    horizon, last_row, refresh : int
        Rows the run may learn; last row a release may follow; rows between recomputations of the norm.
    x_bound, y_bound : float
        Rows are scaled and real targets clipped to them, whatever the caller did.
    magnitude : float
        Public bound of every coordinate of an iterate.
    source, stream : Source or None, int
        Of the noise; None: no noise.
    signs : bool
        Targets are -1 and +1.
    decide : callable
        Rounds an undecided coordinate, see :func:`privol.noise.decide_lattice_point`.
    averaging : {0, 3}
        Whether later points count more in the average, see pv_run.h.
    """

    def __init__(self, *, int64_t dim, bint intercept, loss, domain, str update, bint constrained,
                 Schedule schedule not None,
                 int64_t every, releases, int64_t horizon, int64_t last_row, int64_t refresh, double x_bound,
                 double y_bound, bint signs, double magnitude, Source source, unsigned stream, decide, int averaging=0):
        self.begin(&self.own_plan.run, &self.it.run, sizeof(pv_iterate), &pv_iterate_method, dim, intercept, loss,
                   domain, every, releases, horizon, last_row, x_bound, y_bound, signs, magnitude, source, stream,
                   decide, dim, dim, 0)
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
                self.draws.rows[0] = self.state.t
                self.draw(1)
            self.holder = <unsigned long>PyThread_get_thread_ident()
            try:
                while True:
                    status = pv_iterate_release(&self.it, &self.own_plan, std, sensitivity, &self.draws)
                    if status == PV_OK:
                        break
                    self.serve(status)
            finally:
                self.holder = 0
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
