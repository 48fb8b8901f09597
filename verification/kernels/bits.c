/* Every call of the address functions with rows of up to 64 coordinates, any stream, level, block and row number; and what
 * wipes an address. */
#include "noise/pv_bits.h"

#include "__fc_builtin.h"

#ifndef SHORT
#define SHORT 0 /* the control: one pair of coordinates too few */
#endif

int main(void) {
    unsigned char rows[PV_ADDRESS_BYTES * (32 - SHORT)], one[PV_ADDRESS_BYTES];
    const int64_t d = Frama_C_long_interval(-1, 64);
    const unsigned stream = Frama_C_unsigned_int_interval(0, 0xFFFFFFFF);
    const unsigned level = Frama_C_unsigned_int_interval(0, 0xFFFFFFFF);
    const uint32_t block = Frama_C_unsigned_int_interval(0, 0xFFFFFFFF);
    const uint64_t row = Frama_C_unsigned_long_interval(0, 0xFFFFFFFFFFFFFFFF);
    if (pv_address_row(rows, stream, row, d)) pv_address_turn(rows, row, d);
    pv_address(one, stream, level, block, row);
    const uint64_t word = pv_word(one) ^ pv_word(one + 8);
    pv_wipe(one, sizeof one);
    return (int)(word & 1);
}
