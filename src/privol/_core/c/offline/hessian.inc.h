/* Included by hessian.c once per level: LEVEL and NAME(x), after a function NAME(tile). */

/* All tiles of the lower triangle: h += sum over m rows of t z', panels of EIGHT columns each. */
LEVEL static void NAME(tiles)(const double *t, const double *z, int64_t m, double *h, int64_t width) {
    for (int64_t j = 0; j < width; j += EIGHT)
        for (int64_t k = 0; k <= j; k += EIGHT) NAME(tile)(t + j * ROWS, z + k * ROWS, m, h + j * width + k, width);
}

#undef LEVEL
#undef NAME
