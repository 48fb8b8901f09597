/* The integral at one instruction-set level. The includer defines NAME(x), the names of its functions, and LEVEL,
 * their attributes. Eight nodes at a time are summed separately, and these sums are added in one order: the same
 * bits at every level. */

/* sum_k w_k f(U v_k) for f(u) = s (1 - e^{-2ps}) e^{-u(r + qu)}, or (1 + e^{-2ps}) e^{-u(r + qu)}, s = 1 - side u. */
LEVEL static PV_INLINE double NAME(rule)(const double *node, const double *weight, int nodes, const coin_work *work,
                                         const int potential, const int both) {
    const double r = work->side * work->r, q = work->q, twice = -2.0 * work->p, reach = work->reach, side = work->side;
    double sum[8] = {0};
    for (int k = 0; k < nodes; k += 8) {
        for (int l = 0; l < 8; ++l) {
            const double u = reach * node[k + l], s = 1.0 - side * u;
            const double first = exp_of(-(u * (r + q * u)));
            double f = potential ? 1.0 : s;
            if (both) {
                const double second = expm1_of(twice * s);
                f = potential ? 2.0 + second : -(s * second);
            }
            sum[l] += weight[k + l] * (f * first);
        }
    }
    return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

LEVEL static double NAME(integral)(const coin_work *work, int potential) {
#define PV_RULE(n)                                                               \
    (potential    ? work->both ? NAME(rule)(nodes##n, weights##n, n, work, 1, 1) \
                               : NAME(rule)(nodes##n, weights##n, n, work, 1, 0) \
        : work->both ? NAME(rule)(nodes##n, weights##n, n, work, 0, 1)           \
                  : NAME(rule)(nodes##n, weights##n, n, work, 0, 0))
    switch (work->rule) {
    case 8: return PV_RULE(8);
    case 16: return PV_RULE(16);
    default: return PV_RULE(24);
    }
#undef PV_RULE
}

LEVEL static double NAME(one)(pv_coin what, double x, double y, double a) {
    coin_work work;
    if (x == 0.0 && what != PV_COIN_LOG_POTENTIAL) return what == PV_COIN_MAGNITUDE ? x : -HUGE_VAL;
    prepare(&work, what, fabs(x), y, a);
    if (work.rule) work.full += work.factor * (work.reach * NAME(integral)(&work, what == PV_COIN_LOG_POTENTIAL));
    return finish(&work, what, x);
}

LEVEL static void NAME(many)(pv_coin what, const double *x, int64_t sx, const double *y, int64_t sy, const double *a,
                             int64_t sa, double *out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = NAME(one)(what, x[i * sx], y[i * sy], a[i * sa]);
}
#undef NAME
#undef LEVEL
