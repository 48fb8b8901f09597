/* Loops over vectors of doubles, included by rows.c once per level: VECTOR(op), the functions' names; LEVEL, their
 * attributes; PIECES(n, body), a loop over pieces of n doubles, whose type in the body is V, read by AT and written by
 * TO. A piece is read before it is written. SQUARES, ADD_SQUARES(v) in a body and RETURN_SQUARES: pv_sqnorm of the pieces. */

LEVEL static void VECTOR(publish)(const double *restrict x, double f, double weight, double *restrict out,
                                  double *restrict sum, int64_t n) {
    PIECES(n, const V v = AT(x) * f + 0.0; TO(out) = v; TO(sum) += weight * v;)
}

LEVEL static void VECTOR(publish_two)(const double *restrict x, double f, double weight, double *restrict out,
                                      double *restrict sum, double *restrict copy, int64_t n) {
    PIECES(n, const V v = AT(x) * f + 0.0; TO(copy) = v; TO(out) = v; TO(sum) += weight * v;)
}

LEVEL static void VECTOR(scale)(const double *restrict x, double f, double *restrict out, int64_t n) {
    PIECES(n, TO(out) = AT(x) * f + 0.0;)
}

LEVEL static void VECTOR(follow)(const pv_affine *to, const double *restrict sum, double *restrict x, int64_t n) {
    const double held = to->held, length = to->length, *start = to->start, *base = to->base;
    PIECES(n, TO(x) = (held * AT(start) - (AT(base) + AT(sum))) * length;)
}

/* Four buffers in one pass, then the remaining ones: the same operations in the same order. */
LEVEL static void VECTOR(mix)(const double *theta, const double *omega, int q, const double *restrict w,
                              double *restrict buffers, double *restrict x, int64_t n) {
    const double *so_far = w;
    int j = 0;
    for (; j + 4 <= q; j += 4) {
        const double *t = theta + j, *o = omega + j, t0 = t[0], t1 = t[1], t2 = t[2], t3 = t[3];
        const double o0 = o[0], o1 = o[1], o2 = o[2], o3 = o[3];
        double *restrict a = buffers + j * n, *restrict b = a + n, *restrict e = b + n, *restrict f = e + n;
        PIECES(n, const V v = AT(w), s = AT(so_far), k = AT(a), l = AT(b), p = AT(e), r = AT(f);
               TO(x) = (((s + o0 * k) + o1 * l) + o2 * p) + o3 * r; TO(a) = t0 * k + v; TO(b) = t1 * l + v;
               TO(e) = t2 * p + v; TO(f) = t3 * r + v;)
        so_far = x;
    }
    if (q == 0) memcpy(x, w, (size_t)n * sizeof(double));
    for (; j < q; ++j) {
        const double t = theta[j], o = omega[j];
        double *restrict b = buffers + j * n;
        PIECES(n, const V v = AT(w), s = AT(so_far), k = AT(b); TO(x) = s + o * k; TO(b) = t * k + v;)
        so_far = x;
    }
}

LEVEL static void VECTOR(unmix)(const double *theta, const double *omega, int q, double *restrict y,
                                double *restrict buffers, double *restrict sum, int64_t n) {
    if (q == 4) {
        const double t0 = theta[0], t1 = theta[1], t2 = theta[2], t3 = theta[3];
        const double o0 = omega[0], o1 = omega[1], o2 = omega[2], o3 = omega[3];
        double *restrict a = buffers, *restrict b = a + n, *restrict e = b + n, *restrict f = e + n;
        PIECES(n, const V k = AT(a), l = AT(b), p = AT(e), r = AT(f), s = AT(sum);
               const V v = (((AT(y) - o0 * k) - o1 * l) - o2 * p) - o3 * r; TO(y) = v; TO(a) = t0 * k + v;
               TO(b) = t1 * l + v; TO(e) = t2 * p + v; TO(f) = t3 * r + v; TO(sum) = s + v;)
        return;
    }
    for (int j = 0; j < q; ++j) {
        const double o = omega[j], *restrict b = buffers + j * n;
        PIECES(n, TO(y) -= o * AT(b);)
    }
    for (int j = 0; j < q; ++j) {
        const double t = theta[j];
        double *restrict b = buffers + j * n;
        PIECES(n, TO(b) = t * AT(b) + AT(y);)
    }
    PIECES(n, TO(sum) += AT(y);)
}

/* In one pass, as long as the vectors are in registers: unmix, then follow. */
LEVEL static double VECTOR(unmix_follow)(const double *theta, const double *omega, const double *restrict y,
                                         double *restrict buffers, double *restrict sum, const pv_affine *to,
                                         double *restrict x, int64_t n) {
    const double t0 = theta[0], t1 = theta[1], t2 = theta[2], t3 = theta[3];
    const double o0 = omega[0], o1 = omega[1], o2 = omega[2], o3 = omega[3];
    const double held = to->held, length = to->length, *start = to->start, *base = to->base;
    double *restrict a = buffers, *restrict b = a + n, *restrict e = b + n, *restrict f = e + n;
    SQUARES
    PIECES(n, const V k = AT(a), l = AT(b), p = AT(e), r = AT(f);
           const V v = (((AT(y) - o0 * k) - o1 * l) - o2 * p) - o3 * r; TO(a) = t0 * k + v; TO(b) = t1 * l + v;
           TO(e) = t2 * p + v; TO(f) = t3 * r + v; const V s = AT(sum) + v; TO(sum) = s;
           const V w = (held * AT(start) - (AT(base) + s)) * length; TO(x) = w; ADD_SQUARES(w))
    RETURN_SQUARES
}
