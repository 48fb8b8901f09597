#include "noise/pv_draws.h"

#include "noise/pv_bits.h"

int pv_draws_level(const pv_draws *draws) { return draws->pass ? draws->pass->level : 0; }

pv_status pv_draws_round(pv_draws *draws, uint64_t row, double std, const double *u, double s, int64_t d,
                         double magnitude, double *out) {
    pv_undecided *und = draws->undecided;
    if (!(std > 1e-290 && std < 1e290)) return PV_NOT_FINITE; /* never a release without its noise */
    if (draws->used >= draws->filled || draws->rows[draws->used] != row) return PV_NEED_BITS;
    draws->std = std;
    const size_t size = (size_t)pv_row_words(d) * 8;
    unsigned char *words = draws->words + (size_t)draws->used * size;
    const pv_lattice lattice = {PV_GAUSSIAN, std, 0.0, pv_lattice_step(std), draws->pass};
    const float *values = draws->values ? draws->values + draws->used * pv_lattice_values_size(d) : NULL;
    pv_status status = pv_lattice_add(&lattice, u, s, d, magnitude, words, values, out, und);
    if (status != PV_OK) return status;
    if (!values) pv_wipe(words, size);
    if (und->n > 0) {
        pv_wipe(und->word, (size_t)und->n * sizeof(uint64_t));
        pv_wipe(und->x, (size_t)und->n * sizeof(double));
    }
    und->resolved = 0;
    ++draws->used;
    return PV_OK;
}
