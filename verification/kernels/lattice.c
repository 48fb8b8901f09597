/* Noise for up to three coordinates: any values, words, scales and lists of resolved sums, NaN and infinities included;
 * with the first half of the work done ahead, or not. */
#include "noise/pv_lattice.h"

#include "__fc_builtin.h"

#ifndef SHORT
#define SHORT 0 /* the control: one number too few */
#endif

enum { MOST = 3 };

int main(void) {
    double u[MOST], s, magnitude, uncertainty, out[MOST - SHORT], x[MOST], value[MOST];
    int64_t coord[MOST];
    uint64_t word[MOST];
    unsigned char words[8 * MOST];
    const int64_t d = Frama_C_long_interval(0, MOST);
    const int law = Frama_C_interval(0, PV_LAWS - 1);
    //@ split d;
    //@ split law;
    Frama_C_make_unknown((char *)u, sizeof u);
    Frama_C_make_unknown((char *)&s, sizeof s);
    Frama_C_make_unknown((char *)&magnitude, sizeof magnitude);
    Frama_C_make_unknown((char *)&uncertainty, sizeof uncertainty);
    Frama_C_make_unknown((char *)coord, sizeof coord);
    Frama_C_make_unknown((char *)value, sizeof value);
    Frama_C_make_unknown((char *)words, sizeof words);
    const double scale = Frama_C_double_interval(1e-280, 1e280);
    pv_undecided und = {0, 0, d, coord, word, x, Frama_C_long_interval(0, d), value};
    const pv_lattice lattice = {law, scale, uncertainty, pv_lattice_step(scale),
                                pv_first_pass_level(pv_first_pass_levels() - 1)};
    pv_lattice_within(&lattice, u + MOST - d, d);
    float ahead[PV_FIRST_PASS_VALUES];
    float *z = ahead + PV_FIRST_PASS_VALUES - pv_lattice_values_size(d);
    pv_lattice_values(&lattice, words + 8 * (MOST - d), d, z);
    pv_lattice_add(&lattice, u + MOST - d, s, d, magnitude, words + 8 * (MOST - d), z, out, &und);
    return pv_lattice_round(&lattice, u + MOST - d, s, d, magnitude, words + 8 * (MOST - d), out, &und);
}
