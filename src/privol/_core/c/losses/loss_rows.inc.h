/* Included by loss_rows.c once per level; LEVEL defines the functions' attributes and NAME(x) their names. Loops run
 * over whole blocks of rows, padded with harmless numbers, so that compilers vectorise them. */

LEVEL static double NAME(logistic)(const pv_loss *loss, int64_t n, double *restrict p, double *restrict y,
                                   double *restrict slope, double *restrict curve) {
    (void)loss;
    double sum[LANES] = {0}, product[LANES] = {1, 1, 1, 1, 1, 1, 1, 1};
    pad(n, p, y);
    for (int i = 0; i < PV_LOSS_ROWS; ++i) {
        const double m = y[i] * p[i], e = exp_below(-fabs(m)), inverse = 1.0 / (1.0 + e), tail = e * inverse;
        curve[i] = tail * inverse;
        slope[i] = -y[i] * (m >= 0.0 ? tail : inverse);
        p[i] = e;
        y[i] = m < 0.0 ? -m : 0.0;
    }
    for (int64_t i = n; i < PV_LOSS_ROWS; ++i) p[i] = y[i] = 0.0;
    /* ln(1 + e^-m) = max(-m, 0) + ln(1 + e): one logarithm of a product that is at most 2^64 */
    for (int i = 0; i < PV_LOSS_ROWS; i += LANES)
        for (int l = 0; l < LANES; ++l) {
            sum[l] += y[i + l];
            product[l] *= 1.0 + p[i + l];
        }
    return reduce(sum) + pv_log(((product[0] * product[4]) * (product[2] * product[6])) *
                                ((product[1] * product[5]) * (product[3] * product[7])));
}

LEVEL static double NAME(smooth_hinge)(const pv_loss *loss, int64_t n, double *restrict p, double *restrict y,
                                       double *restrict slope, double *restrict curve) {
    const double w = loss->width, whole = 2.0 * w, inside = 1.0 / whole;
    double sum[LANES] = {0};
    pad(n, p, y);
    for (int i = 0; i < PV_LOSS_ROWS; ++i) {
        const double e = 1.0 - y[i] * p[i], t = (e + w) / whole, part = t < 0.0 ? 0.0 : (t > 1.0 ? 1.0 : t);
        curve[i] = t >= 0.0 && t <= 1.0 ? inside : 0.0;
        slope[i] = -y[i] * part;
        p[i] = w * part * part + (e > w ? e - w : 0.0);
    }
    for (int64_t i = n; i < PV_LOSS_ROWS; ++i) p[i] = 0.0;
    for (int i = 0; i < PV_LOSS_ROWS; i += LANES)
        for (int l = 0; l < LANES; ++l) sum[l] += p[i + l];
    return reduce(sum);
}

LEVEL static double NAME(squared)(const pv_loss *loss, int64_t n, double *restrict p, double *restrict y,
                                  double *restrict slope, double *restrict curve) {
    (void)loss;
    double sum[LANES] = {0};
    pad(n, p, y);
    for (int i = 0; i < PV_LOSS_ROWS; ++i) {
        slope[i] = p[i] - y[i];
        curve[i] = 1.0;
        p[i] = 0.5 * slope[i] * slope[i];
    }
    for (int64_t i = n; i < PV_LOSS_ROWS; ++i) p[i] = 0.0;
    for (int i = 0; i < PV_LOSS_ROWS; i += LANES)
        for (int l = 0; l < LANES; ++l) sum[l] += p[i + l];
    return reduce(sum);
}

LEVEL static double NAME(huber)(const pv_loss *loss, int64_t n, double *restrict p, double *restrict y,
                                double *restrict slope, double *restrict curve) {
    const double w = loss->width;
    double sum[LANES] = {0};
    pad(n, p, y);
    for (int i = 0; i < PV_LOSS_ROWS; ++i) {
        const double e = p[i] - y[i], size = fabs(e), inside = size <= w ? size : w;
        slope[i] = e < -w ? -w : (e > w ? w : e);
        curve[i] = size <= w ? 1.0 : 0.0;
        p[i] = inside * (size - 0.5 * inside);
    }
    for (int64_t i = n; i < PV_LOSS_ROWS; ++i) p[i] = 0.0;
    for (int i = 0; i < PV_LOSS_ROWS; i += LANES)
        for (int l = 0; l < LANES; ++l) sum[l] += p[i + l];
    return reduce(sum);
}

static const pv_loss_rows NAME(rows)[PV_LOSS_COUNT] = {
    [PV_LOGISTIC] = NAME(logistic),
    [PV_SMOOTH_HINGE] = NAME(smooth_hinge),
    [PV_SQUARED] = NAME(squared),
    [PV_HUBER] = NAME(huber),
};

#undef LEVEL
#undef NAME
