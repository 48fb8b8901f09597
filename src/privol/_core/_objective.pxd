from libc.stdint cimport int64_t

from ._losses cimport CustomCallbacks, pv_loss
from ._rows cimport pv_rows

cdef extern from "rows/pv_rows.h" nogil:
    ctypedef struct pv_vectors:
        double (*sqnorm)(const double *x, int64_t n) noexcept nogil
        double (*dot)(const double *x, const double *y, int64_t n) noexcept nogil

    const pv_vectors *pv_vectors_at(int level) noexcept
    void pv_rows_use(pv_rows *rows, int level) noexcept

cdef extern from "losses/pv_loss_rows.h" nogil:
    ctypedef double (*pv_loss_rows)(const pv_loss *, int64_t, double *, double *, double *, double *) noexcept nogil

    const double PV_CUSTOM_ERROR

    pv_loss_rows pv_loss_rows_at(int code, int level) noexcept

cdef extern from "offline/pv_objective.h" nogil:
    ctypedef struct pv_objective:
        pv_rows rows
        pv_loss loss
        int level
        pv_loss_rows many
        const pv_vectors *vectors
        int64_t n
        const int64_t *index
        const double *y
        const double *factors
        int64_t dim
        int intercept
        double l2
        const double *linear

    ctypedef struct pv_risk:
        double value
        double slack

    ctypedef struct pv_margins:
        double slopes
        double lengths
        double underflow

    int64_t pv_objective_factors(const pv_rows *rows, double x_bound, double *norms, double *factors) noexcept
    double pv_objective_sums(const pv_objective *o, const double *w, double *work, double *predictions,
                             double *curvatures) noexcept
    void pv_objective_margins(const pv_objective *o, const double *w, double *work, pv_margins *margins) noexcept
    double pv_objective_blocks(const pv_objective *o) noexcept
    void pv_sums_join(const double *part, double *whole, int64_t dim) noexcept
    void pv_objective_product(const pv_objective *o, const double *curvatures, const double *v, double *out) noexcept
    void pv_objective_diagonal(const pv_objective *o, const double *curvatures, double *work, double *out) noexcept
    int64_t pv_hessian_width(int64_t dim) noexcept
    int64_t pv_hessian_work(int64_t dim) noexcept
    void pv_objective_hessian(const pv_objective *o, const double *curvatures, int64_t stride, double *work,
                              double *hessian) noexcept
    void pv_objective_along(const pv_objective *o, const double *p, const double *q, double a, double *slope,
                            double *curve) noexcept
    pv_risk pv_objective_finish(const pv_objective *o, const double *w, double value, double n, const double *sums,
                                double *gradient) noexcept
    double pv_objective_certify(const pv_objective *o, const double *w, const double *sums, const pv_margins *margins,
                                double blocks, double *gradient, double *allowance) noexcept


cdef class Objective:
    cdef pv_objective c
    cdef CustomCallbacks user  # of a loss of the user's own
    cdef readonly object loss
    cdef int code              # of the loss
    cdef readonly int64_t n, dim, n_clipped, n_null
    cdef readonly double x_bound, y_bound
    cdef object rows_owner  # owns what the view points into
    cdef object usable      # rows whose entries can be used, shape (n,)
    cdef object norms, factors, given, targets, index, slopes
    cdef void use(self, int level) noexcept
    # pv_objective_sums, pv_objective_margins, pv_objective_along, with the GIL if the loss is the user's own, whose
    # exceptions they raise
    cdef int sums_at(self, const double *w, double *work, double *predictions, double *curvatures,
                     double *value) except -1
    cdef int margins_at(self, const double *w, double *work, pv_margins *margins) except -1
    cdef int slope_along(self, const double *p, const double *q, double a, double *slope, double *curve) except -1
    cdef int check_user(self) except -1
    cdef int bind_targets(self, object targets) except -1
    cdef int bind_linear(self, object linear) except -1
    cdef const double *vector(self, object w, object name, object owner) except? NULL
