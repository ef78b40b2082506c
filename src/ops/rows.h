/* Cutting the rows of a tensor into the items of a CPU kernel, and the loops kernels share. */
#ifndef RDG_OPS_ROWS_H
#define RDG_OPS_ROWS_H

#include "base/mem.h"
#include "ops/op.h"

/* Row number → address, for any strides. */
static inline void *rdg_nth_row(const rdg_tensor *t, int64_t row)
{
    int64_t i1 = row % t->dim[1], rest = row / t->dim[1];
    return rdg_tensor_row(t, i1, rest % t->dim[2], rest / t->dim[2]);
}

/* The row of b that is broadcast to row number `row` of a. */
static inline void *rdg_broadcast_row(const rdg_tensor *a, const rdg_tensor *b, int64_t row)
{
    int64_t i1 = row % a->dim[1], rest = row / a->dim[1], i2 = rest % a->dim[2], i3 = rest / a->dim[2];
    return rdg_tensor_row(b, b->dim[1] == 1 ? 0 : i1, b->dim[2] == 1 ? 0 : i2, b->dim[3] == 1 ? 0 : i3);
}

/* Rows an item, for kernels that need a whole row at once. `work` is the cost of a row in elements. */
static inline int64_t rdg_rows_per_item(int64_t work)
{
    enum { WORK_PER_ITEM = 4096 };
    return work >= WORK_PER_ITEM ? 1 : WORK_PER_ITEM / work;
}

/* Elementwise work: an item is a part of a long row, or a few short rows. */
typedef struct rdg_pieces {
    int64_t n_items, n_rows, row_len;
    int64_t parts_per_row, part_len; /* part_len == row_len when rows are not cut */
    int64_t rows_per_item;           /* 1 when they are */
} rdg_pieces;
typedef struct rdg_piece {
    int64_t first_row, n_rows, first, n; /* elements [first, first + n) of each of the rows */
} rdg_piece;

static inline rdg_pieces rdg_pieces_of(const rdg_tensor *t)
{
    enum { PART = 2048 };
    rdg_pieces p = {.n_rows = rdg_tensor_n_rows(t), .row_len = t->dim[0]};
    p.parts_per_row = rdg_div_up(p.row_len, PART);
    p.part_len = p.parts_per_row > 1 ? PART : p.row_len;
    p.rows_per_item = p.parts_per_row > 1 ? 1 : PART / p.row_len;
    p.n_items = p.parts_per_row > 1 ? p.n_rows * p.parts_per_row : rdg_div_up(p.n_rows, p.rows_per_item);
    return p;
}

static inline rdg_piece rdg_piece_at(const rdg_pieces *p, int64_t item)
{
    rdg_piece x = {.n = p->part_len};
    if (p->parts_per_row > 1) {
        x.first_row = item / p->parts_per_row;
        x.n_rows = 1;
        x.first = item % p->parts_per_row * p->part_len;
        x.n = RDG_MIN(p->part_len, p->row_len - x.first);
    } else {
        x.first_row = item * p->rows_per_item;
        x.n_rows = RDG_MIN(p->rows_per_item, p->n_rows - x.first_row);
    }
    return x;
}

/* Sixteen partial sums, so that the compiler may use vectors without changing the order of any sum. */
static inline float rdg_dot_f32(const float *RDG_RESTRICT a, const float *RDG_RESTRICT b, int64_t n)
{
    float part[16] = {0}, sum = 0.0f;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++) part[j] += a[i + j] * b[i + j];
    for (; i < n; i++) sum += a[i] * b[i];
    for (int width = 8; width > 0; width /= 2)
        for (int j = 0; j < width; j++) part[j] += part[j + width];
    return sum + part[0];
}

#endif
