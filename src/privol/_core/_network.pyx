"""The state of nodes that learn together, and the calls that change it."""

import numpy as np

cimport numpy as cnp
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from libc.stdint cimport int64_t, uint64_t

from ..errors import InvalidParameter, StateError
from ._local import PACES as _PACES
from ._local cimport ReportRun, pv_pace
from ._noise cimport Source
from ._report cimport PV_REPORT_ROW_BITS, Report, pv_report
from ._rows cimport PV_ENTRY_MAX, PV_NEED_FAR, pv_rows, pv_status
from ._learner_run cimport pv_average_total, pv_method, pv_plan, pv_progress, pv_state

cnp.import_array()

cdef extern from "runs/pv_network.h" nogil:
    ctypedef enum pv_position:
        PV_BEFORE
        PV_SCALED
        PV_AFTER

    ctypedef enum pv_threshold:
        PV_DENSE
        PV_OF_STEP
        PV_OF_STEPS
        PV_OF_NOISE

    ctypedef struct pv_mixing:
        int64_t first
        int64_t rounds
        int periodic
        const int64_t *indptr
        const int64_t *columns
        const double *weights

    ctypedef struct pv_network_plan:
        pv_plan run
        pv_report report
        double bound
        double cost
        double variance
        int64_t nodes
        int64_t own
        int64_t first
        int64_t batch
        int64_t rounds
        pv_position position
        pv_pace pace
        double length
        int implicit
        pv_threshold threshold
        double l1
        pv_mixing mixing
        const int64_t *place
        const double **heard

    ctypedef struct pv_network:
        pv_state run
        double *gradients
        double *sent
        double *mixes
        double *models
        double *sums
        double *spread
        double lengths
        double network
        int64_t round
        int64_t node
        int64_t planned
        int64_t turn
        int64_t messages
        int exchanged

    const pv_method pv_network_method

    void pv_network_start(pv_network *it, const pv_network_plan *plan) noexcept
    uint64_t pv_network_address(const pv_network *it, const pv_network_plan *plan) noexcept
    void pv_network_plan_release(pv_network *it, const pv_network_plan *plan) noexcept
    const int64_t *pv_network_matrix(const pv_network *it, const pv_network_plan *plan) noexcept
    void pv_network_mean(const double *x, int64_t rows, int64_t d, double *mean) noexcept
    void pv_network_show(pv_network *it, const pv_network_plan *plan, const double *mixes, int64_t nodes) noexcept
    void pv_network_publish(pv_network *it, const pv_network_plan *plan) noexcept
    void pv_network_tell(pv_network *it, const pv_network_plan *plan, const double *gradient) noexcept

POSITIONS = ("gradient", "scaled_gradient", "output")
THRESHOLDS = ("none", "step", "steps", "noise")


cdef class NetworkRun(ReportRun):
    """One run of DOLA or SparseDOLA, with all nodes or with those of one process.

    Secret: a node's gradients until it sends, the noise ahead. Everything that is sent, and everything else, is public.

    Parameters
    ----------
    frame : RunFrame
        Its releases are in rounds, but their horizon counts the rows of the nodes in this process.
    magnitude : float
        Bound of the coordinates of what is perturbed.
    report, cost, averaging
        As for :class:`privol._core._local.LocalRun`; the report is about the sum of a batch's gradients, or about what
        ``position`` says.
    variance : float
        Variance of a coordinate of the report's noise.
    bound : float
        L2 norm that the gradient of a row is scaled to.
    nodes, own, first : int
        Nodes of the network; the nodes in this process are ``first``, ..., ``first + own - 1``.
    batch, rounds : int
    position : {"gradient", "scaled_gradient", "output"}
        What is randomized: the sum of gradients, that sum over the length of the step, or the projected step over its
        length, times ``batch``.
    pace : {"constant", "root", "inverse"}
    length : float
    implicit : bool
        For "inverse", with length ``1 / (l2 t)``.
    threshold : {"none", "step", "steps", "noise"}
    l1 : float
        See pv_network.h.
    mixing : callable
        ``mixing(t)`` returns the mixing matrices known from round t on: first round, number of rounds, whether they
        repeat, row pointers (rounds x (nodes + 1), absolute), columns, weights.
    heard : ndarray of int64
        Nodes elsewhere that nodes here hear, in the order in which ``exchange`` has them.
    exchange : callable or None
        ``exchange(round, sent)``: ``sent``, of shape (own + heard, dim), holds what the nodes here have sent in that
        round, and receives what the others have sent.
    """

    cdef pv_network_plan own_plan
    cdef pv_network it
    cdef object mixing
    cdef object exchange
    cdef object window
    cdef object places
    cdef int64_t n_sent
    cdef dict everyone  # models and sums of all nodes, once they have been gathered

    def __init__(self, frame, *, Report report not None, double magnitude, double cost, double variance, double bound,
                 int64_t nodes, int64_t own, int64_t first, int64_t batch, int64_t rounds, str position, str pace,
                 double length, bint implicit, str threshold, double l1, mixing, heard=(), exchange=None,
                 int averaging=0):
        cdef int64_t dim = frame.problem.dim
        cdef int64_t horizon = frame.releases.horizon
        cdef int64_t n_own = own * dim
        cdef int64_t n_gradients = dim if batch == 1 else n_own
        cdef int64_t n_spread = 2 * nodes * nodes if threshold == "noise" else 0
        cdef int64_t n_models = 0 if threshold == "none" else n_own
        cdef int64_t[::1] places
        cdef cnp.ndarray others = np.asarray(heard, dtype=np.int64)
        if report.c.d != dim:
            raise InvalidParameter(f"the report has {report.c.d} coordinates, the model {dim}")
        if batch < 1 or rounds < 1 or nodes < 1 or own < 1 or first < 0 or first + own > nodes:
            raise InvalidParameter(f"no run: {own} nodes from {first} on, of {nodes}, {rounds} rounds of {batch} rows")
        if not 0 < horizon <= rounds * own * batch:
            raise InvalidParameter(f"horizon must be from 1 to {rounds * own * batch}, found {horizon}")
        if rounds > ((<int64_t>1 << PV_REPORT_ROW_BITS) - 1) // nodes:
            raise InvalidParameter(f"rounds times nodes must be below 2**{PV_REPORT_ROW_BITS}: {rounds} x {nodes}")
        self.n_sent = n_own + len(others) * dim
        self.begin_reports(&self.own_plan.run, &self.it.run, sizeof(pv_network), &pv_network_method, frame, report,
                           n_gradients, self.n_sent + 2 * n_own + n_models + n_spread)
        self.own_plan.run.magnitude = magnitude
        places = np.full(nodes, -1, dtype=np.int64)
        np.asarray(places)[first : first + own] = np.arange(own)
        np.asarray(places)[others] = own + np.arange(len(others))
        self.places = places
        self.mixing, self.exchange = mixing, exchange
        self.own_plan.report = report.c
        self.own_plan.bound = bound
        self.own_plan.cost = cost
        self.own_plan.variance = variance
        self.own_plan.nodes, self.own_plan.own, self.own_plan.first = nodes, own, first
        self.own_plan.batch, self.own_plan.rounds = batch, rounds
        self.own_plan.position = <pv_position><int>POSITIONS.index(position)
        self.own_plan.pace = <pv_pace><int>_PACES.index(pace)
        self.own_plan.length = length
        self.own_plan.implicit = implicit
        self.own_plan.threshold = <pv_threshold><int>THRESHOLDS.index(threshold)
        self.own_plan.l1 = l1
        self.own_plan.place = &places[0]
        self.own_plan.run.averaging = averaging
        self.sends = own < nodes
        self.own_plan.heard = <const double **>PyMem_RawCalloc(nodes, sizeof(double *))
        if self.own_plan.heard == NULL:
            raise MemoryError
        self.it.gradients = self.secret
        self.it.sent = self.public
        self.it.mixes = self.it.sent + self.n_sent
        self.it.sums = self.it.mixes + n_own
        self.it.models = self.it.sums + n_own if n_models else self.it.mixes
        self.it.spread = self.it.sums + n_own + n_models
        pv_network_start(&self.it, &self.own_plan)
        pv_network_plan_release(&self.it, &self.own_plan)

    def __dealloc__(self):
        PyMem_RawFree(self.own_plan.heard)  # NULL, if __init__ did not get that far

    cdef int run(self, pv_rows *rows, const double *y, const pv_progress *progress) except -1:
        """Handle an error: where others listen, it ends the run, as what was sent must not be remade of other rows."""
        try:
            return ReportRun.run(self, rows, y, progress)
        except BaseException:
            if self.sends:
                self.end()
            raise

    cdef int run_undoably(self, pv_rows *rows, const double *y, const pv_progress *progress) except -1:
        if not self.sends:
            return ReportRun.run_undoably(self, rows, y, progress)
        self.user.error = None
        try:
            return self.run(rows, y, progress)
        except BaseException:
            error, self.user.error = self.user.error, None
            if error is not None:
                raise error
            raise

    cdef int refill(self) except -1:
        cdef Source source = self.source
        cdef int64_t row = <int64_t>pv_network_address(&self.it, &self.own_plan)
        cdef int64_t own = self.own_plan.own
        cdef int64_t last = row + own - self.it.node - 1  # in this round
        if own == self.own_plan.nodes:
            last = self.own_plan.rounds * own
        return self.report.refill(self.draws, self.ahead.addresses, source, self.plan.stream, row, last)

    cdef int serve(self, pv_status status) except -1:
        if status != PV_NEED_FAR:
            return ReportRun.serve(self, status)
        if pv_network_matrix(&self.it, &self.own_plan) == NULL:
            return self.provide()
        return self.hear()

    cdef int provide(self) except -1:
        """Get the next mixing matrices."""
        cdef int64_t t = self.it.round + 2
        cdef const int64_t[::1] indptr
        cdef const int64_t[::1] columns
        cdef const double[::1] weights
        first, rounds, periodic, indptr, columns, weights = self.mixing(t)
        if indptr.shape[0] != rounds * (self.own_plan.nodes + 1) or not first <= t < first + rounds and not periodic:
            raise StateError(f"the mixing matrices of round {t} were asked for, and others came")
        self.window = (indptr, columns, weights)
        self.own_plan.mixing.first = first
        self.own_plan.mixing.rounds = rounds
        self.own_plan.mixing.periodic = periodic
        self.own_plan.mixing.indptr = &indptr[0]
        self.own_plan.mixing.columns = &columns[0]
        self.own_plan.mixing.weights = &weights[0]
        return 0

    cdef int hear(self) except -1:
        """Take part in the exchange that ends a round."""
        cdef cnp.npy_intp shape[2]
        if self.exchange is None:
            raise StateError("nothing connects these nodes with the others")
        shape[0], shape[1] = self.n_sent // self.plan.d, self.plan.d
        sent = cnp.PyArray_SimpleNewFromData(2, shape, cnp.NPY_FLOAT64, self.it.sent)
        self.exchange(self.it.round + 1, sent)
        self.it.exchanged = 1
        return 0

    def point(self):
        """Copy of the point at which the next gradient is taken, shape (dim,): that of the node whose turn it is."""
        self.enter(False)
        with self.lock:
            return self.vector(self.it.models + self.it.turn * self.plan.d, self.plan.d)

    def tell(self, gradient):
        """Learn one row by its gradient at ``point()``, a float64 array of shape (dim,); None: the null row."""
        cdef const double[::1] vector
        cdef const double *numbers = NULL
        cdef pv_rows none
        self.enter(True)
        if gradient is not None:
            vector = gradient
            numbers = self.checked("gradient", vector, PV_ENTRY_MAX)
        none.n = 0
        with self.lock:
            self.check_room(1)
            self.run(&none, NULL, NULL)  # finish what an interrupt left undone
            pv_network_tell(&self.it, &self.own_plan, numbers)
            self.run(&none, NULL, NULL)

    def release_last(self):
        """Publish the models of the last whole round of a run that ends before its releasing round."""
        self.enter(False)
        with self.lock:
            self.check_open()
            if self.state.n_released:
                raise StateError("only a run that has released nothing may end with such a release")
            pv_network_publish(&self.it, &self.own_plan)
            self.state.next_release = self.plan.horizon + 1

    # ---- public -------------------------------------------------------------------------------

    @property
    def rounds(self) -> int:
        """Complete rounds."""
        return self.it.round

    @property
    def turn(self) -> int:
        """The node of this process that gets the next row."""
        return self.it.turn

    @property
    def messages(self) -> int:
        """The messages of the whole network's nodes to others in all complete rounds."""
        return self.it.messages

    def models(self):
        """Copy of the models of the nodes here after the last whole round, shape (own, dim); once gathered, of all."""
        self.enter(False)
        with self.lock:
            return self.everyone["models"].copy() if self.everyone else self.of_nodes(self.it.models)

    def mixes(self):
        """Copy of the mixes of what the nodes here heard after the last whole round, shape (own, dim)."""
        self.enter(False)
        with self.lock:
            return self.of_nodes(self.it.mixes)

    def sums(self):
        """Copy of the weighted sums of the released models of the nodes here, shape (own, dim)."""
        self.enter(False)
        with self.lock:
            return self.of_nodes(self.it.sums)

    def averages(self):
        """Weighted means of the released models of each node, shape (own, dim); before the first: the models."""
        if self.state.n_released == 0:
            return self.models()
        self.enter(False)
        with self.lock:
            means = self.everyone["sums"].copy() if self.everyone else self.of_nodes(self.it.sums)
        means /= pv_average_total(self.plan, <double>self.state.n_released)
        return means

    def gathered(self, const double[:, ::1] mixes not None, models, sums):
        """Take in the other processes' nodes after the last round: arrays of shape (nodes, dim)."""
        cdef int64_t d = self.plan.d
        for found in (np.asarray(mixes), models, sums):
            if found.shape != (self.own_plan.nodes, d):
                raise InvalidParameter(f"nodes must have shape {(self.own_plan.nodes, d)}, found {found.shape}")
        self.enter(False)
        with self.lock:
            self.check_open()
            self.everyone = {"models": models, "sums": np.ascontiguousarray(sums)}
            pv_network_show(&self.it, &self.own_plan, &mixes[0, 0], self.own_plan.nodes)

    def released_average(self):
        """Weighted mean of all released models of all nodes, shape (dim,); before the first the starting point."""
        self.enter(False)
        with self.lock:
            self.sum_nodes()
        return ReportRun.released_average(self)

    # ---- private ------------------------------------------------------------------------------

    cdef cnp.ndarray of_nodes(self, const double *x):
        return self.vector(x, self.own_plan.own * self.plan.d).reshape(self.own_plan.own, self.plan.d)

    cdef int sum_nodes(self) except -1:
        """The sum of released models: the mean of the nodes' sums, added in order."""
        cdef const double[:, ::1] all_sums
        if self.everyone:
            all_sums = self.everyone["sums"]
            pv_network_mean(&all_sums[0, 0], self.own_plan.nodes, self.plan.d, self.state.released_sum)
        else:
            pv_network_mean(self.it.sums, self.own_plan.own, self.plan.d, self.state.released_sum)
        return 0

    cdef dict parts(self):
        """The learner's own numbers by name, each as address and count."""
        cdef int64_t n_own = self.own_plan.own * self.plan.d
        found = {
            "gradients": (<size_t>self.it.gradients, self.n_secret),
            "sent": (<size_t>self.it.sent, self.n_sent),
            "mixes": (<size_t>self.it.mixes, n_own),
            "model_sums": (<size_t>self.it.sums, n_own),
        }
        if self.own_plan.threshold != PV_DENSE:
            found["models"] = (<size_t>self.it.models, n_own)
        if self.own_plan.threshold == PV_OF_NOISE:
            found["spread"] = (<size_t>self.it.spread, self.own_plan.nodes * self.own_plan.nodes)
        return found

    cdef dict own_arrays(self):
        cdef size_t x
        cdef int64_t n
        found = {}
        self.sum_nodes()
        for name, (x, n) in self.parts().items():
            found[name] = self.vector(<const double *>x, n)
        found["lengths"] = np.array([self.it.lengths, self.it.network])
        place = [self.it.round, self.it.node, self.it.turn, self.it.messages]
        found["place"] = np.array(place, dtype=np.int64)
        return found

    cdef int restore_own(self, arrays) except -1:
        cdef size_t x
        cdef int64_t n
        parts = self.parts()
        for name, (_, n) in parts.items():
            self.check_vector(arrays, name, n)
        self.check_vector(arrays, "lengths", 2)
        self.check_vector(arrays, "place", 4)
        for name, (x, n) in parts.items():
            self.fill_vector(<double *>x, arrays, name, n)
        self.it.lengths, self.it.network = (float(x) for x in arrays["lengths"])
        self.it.round, self.it.node, self.it.turn, self.it.messages = (int(n) for n in arrays["place"])
        return 0

    def restore(self, arrays):
        ReportRun.restore(self, arrays)
        self.state.list_position = 0
        pv_network_plan_release(&self.it, &self.own_plan)

    def _secret_gradients(self):
        """The gradients of nodes that are not yet sent: SECRET, for tests."""
        self.enter(False)
        with self.lock:
            return self.vector(self.it.gradients, self.n_secret).reshape(-1, self.plan.d)
