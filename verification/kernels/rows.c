/* The check of sparse rows with any pointers and columns of both widths, and what is done with dense rows at any distance. */
#include "rows/pv_rows.h"

#include "__fc_builtin.h"

#ifndef SHORT
#define SHORT 0 /* the control: one number too few */
#endif

enum { ROWS = 2, COLUMNS = 3, ENTRIES = 3 };

static void sparse(void) {
    int32_t pointers[ROWS + 1], columns[ENTRIES - SHORT];
    int64_t long_pointers[ROWS + 1], long_columns[ENTRIES], bad;
    Frama_C_make_unknown((char *)pointers, sizeof pointers);
    Frama_C_make_unknown((char *)columns, sizeof columns);
    Frama_C_make_unknown((char *)long_pointers, sizeof long_pointers);
    Frama_C_make_unknown((char *)long_columns, sizeof long_columns);
    const int wide = Frama_C_interval(0, 1);
    //@ split wide;
    pv_rows rows = {ROWS, COLUMNS, 0, 0, 0, pointers, columns, ENTRIES, 1, wide, 0, 0};
    if (wide) rows.indptr = long_pointers, rows.indices = long_columns;
    pv_rows_check(&rows, &bad);
}

static void dense(void) {
    double data[ROWS * COLUMNS], point[COLUMNS], squares[ROWS], value;
    Frama_C_make_unknown((char *)data, sizeof data);
    Frama_C_make_unknown((char *)point, sizeof point);
    const int apart = Frama_C_interval(0, 1);
    //@ split apart;
    pv_rows rows = {ROWS, COLUMNS, (const char *)data, 8 * COLUMNS, 8, 0, 0, 0, 0, 0, 0, 0};
    if (apart) { /* columns one after the other, as Fortran has them */
        rows.row_stride = 8;
        rows.col_stride = 8 * ROWS;
    }
    pv_rows_bind(&rows);
    pv_rows_norms(&rows, squares);
    pv_rows_bad_column(&rows, ROWS - 1, &value);
    const double product = rows.ops->dot(&rows, ROWS - 1, point);
    rows.ops->axpy(&rows, ROWS - 1, product, point);
    rows.ops->scaled(&rows, 0, product, point);
}

int main(void) {
    sparse();
    dense();
    return 0;
}
