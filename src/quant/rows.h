/* Rows from one type to another by all threads of a pool. The same bytes and the same errors from any number.
 */
#ifndef RDG_QUANT_ROWS_H
#define RDG_QUANT_ROWS_H

#include <ridge/quantize.h>
#include "base/pool.h"

typedef struct rdg_rows {
    rdg_type type_in, type_out; /* the first can be dequantised, the second quantised */
    const void *src;            /* any alignment; n_rows rows of each */
    void *dst;
    int64_t n_rows, n_columns;
    /* n_columns values a matrix, or NULL. Row r of this piece belongs to matrix (first_row + r) /
     * rows_per_matrix; for a plain weight rows_per_matrix is the number of its rows. */
    const float *importance;
    int64_t first_row, rows_per_matrix;
} rdg_rows;

/* What the stored values differ by, summed in double precision in a fixed order. */
typedef struct rdg_rows_error {
    double squares;          /* sum of (stored - given)^2 */
    double weighted, weight; /* sum of h (stored - given)^2, and of h; 0 without importance */
} rdg_rows_error;

/* Rows are shared out in groups of this many, so pieces of one tensor should begin at multiples of it. */
int64_t rdg_rows_group(int64_t n_columns);
/* Adds to *error (NULL: not measured, which is faster). pool may be NULL. MALFORMED names the first bad row
 * and column. */
rdg_err rdg_quantise_rows_parallel(rdg_pool *pool, const rdg_rows *rows, rdg_rows_error *error, rdg_error *e);

#endif
