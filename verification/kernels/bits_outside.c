/* Control: one coordinate pair more than there is room for, which must raise an alarm. */
#include "noise/pv_bits.h"

#include "__fc_builtin.h"

int main(void) {
    unsigned char rows[PV_ADDRESS_BYTES * 32];
    return (int)pv_address_row(rows, 0, 0, Frama_C_long_interval(0, 65));
}
