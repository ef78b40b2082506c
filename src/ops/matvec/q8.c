#include "ops/matvec/q8.h"
#include "base/mem.h"
#include "ops/matmul/matmul.h"

/* An item is about a microsecond of streaming. */
enum { ITEM_BYTES = 24 * 1024, QUANTISE_ITEM_BLOCKS = 4 };

int64_t rdg_q8_item_rows(const rdg_tensor *weight)
{
    int64_t rows = ITEM_BYTES / RDG_MAX(1, weight->stride[1]);
    return RDG_MIN(RDG_MAX(rows, 1), RDG_Q8_MAX_ITEM_ROWS);
}

int64_t rdg_q8_row_blocks(const rdg_tensor *x)
{
    return rdg_div_up(x->dim[0], RDG_Q8_ELEMS);
}

/* Phase 0: blocks [begin, end) of all rows of x, an item being some consecutive blocks of one row. */
int64_t rdg_q8_quantise_items(const rdg_tensor *x)
{
    return rdg_tensor_n_rows(x) * rdg_div_up(rdg_q8_row_blocks(x), QUANTISE_ITEM_BLOCKS);
}

void rdg_q8_quantise_item(const rdg_tensor *x, rdg_type weight_type, int64_t item, rdg_q8_block *blocks,
                          rdg_q8_quantise_fn *quantise)
{
    int64_t n_blocks = rdg_q8_row_blocks(x), parts = rdg_div_up(n_blocks, QUANTISE_ITEM_BLOCKS);
    int64_t row = item / parts, first = item % parts * QUANTISE_ITEM_BLOCKS;
    int64_t n = RDG_MIN(QUANTISE_ITEM_BLOCKS * RDG_Q8_ELEMS, x->dim[0] - first * RDG_Q8_ELEMS);
    const float *src = rdg_tensor_row(x, row % x->dim[1], row / x->dim[1] % x->dim[2], 0);
    quantise(src + first * RDG_Q8_ELEMS, n, rdg_type_block_elems(weight_type),
             blocks + row * n_blocks + first);
}

/* Bias and residual are added after the sums are complete: residual may be out itself. */
static void store_rows(const rdg_op_call *call, int64_t first, int64_t n, const float *sums, int64_t stride)
{
    const rdg_tensor *bias = &call->operand[RDG_MATMUL_BIAS], *residual = &call->operand[RDG_MATMUL_RESIDUAL];
    const rdg_tensor *out = &call->operand[RDG_MATMUL_OUT];
    const float *b = rdg_tensor_present(bias) ? (const float *)bias->data + first : NULL;
    for (int64_t t = 0; t < out->dim[1]; t++) {
        const float *s = sums + t * stride;
        const float *r =
            rdg_tensor_present(residual) ? (const float *)rdg_tensor_row(residual, t, 0, 0) + first : NULL;
        float *y = (float *)rdg_tensor_row(out, t, 0, 0) + first;
        for (int64_t i = 0; i < n; i++) y[i] = s[i] + (b ? b[i] : 0.0f) + (r ? r[i] : 0.0f);
    }
}

int64_t rdg_q8_matvec_n_items(const rdg_op_call *call, int phase)
{
    const rdg_tensor *weight = &call->operand[RDG_MATMUL_WEIGHT];
    if (phase == 0) return rdg_q8_quantise_items(&call->operand[RDG_MATMUL_X]);
    return rdg_div_up(weight->dim[1], rdg_q8_item_rows(weight));
}

size_t rdg_q8_matvec_scratch_bytes(const rdg_op_call *call, int n_threads)
{
    const rdg_tensor *x = &call->operand[RDG_MATMUL_X];
    (void)n_threads;
    return (size_t)(rdg_tensor_n_rows(x) * rdg_q8_row_blocks(x)) * sizeof(rdg_q8_block);
}

/* Rows of each stream of a share. Streams a multiple of 16 KiB apart in large pages keep meeting in the same
 * banks of the memory. */
static int64_t rows_per_stream(int64_t n_rows, int n_streams, int64_t row_stride_bytes)
{
    enum { BANKS_BYTES = 16 * 1024 };
    int64_t rows = n_rows / n_streams;
    return n_streams > 1 && rows > 1 && rows * row_stride_bytes % BANKS_BYTES == 0 ? rows - 1 : rows;
}

/* Items [begin, end) as streams: rows [first, first + n_streams * rows) in streams of `rows`, n_rows of each
 * a turn; and what they leave over, a turn of one row after the other. */
typedef struct layout {
    int64_t first, rows, left, turn_rows;
    int n_streams;
} layout;

static layout layout_of(const rdg_op_call *call, int64_t begin, int64_t end, const rdg_q8_isa *isa)
{
    const rdg_tensor *weight = &call->operand[RDG_MATMUL_WEIGHT];
    int64_t item_rows = rdg_q8_item_rows(weight),
            n_rows = RDG_MIN(end * item_rows, weight->dim[1]) - begin * item_rows;
    layout l = {.first = begin * item_rows,
                .n_streams = call->operand[RDG_MATMUL_X].dim[1] == 1 ? isa->n_streams : 1};
    l.rows = rows_per_stream(n_rows, l.n_streams, weight->stride[1]);
    l.left = n_rows - l.rows * l.n_streams;
    l.turn_rows = RDG_MAX(item_rows / l.n_streams, 1);
    return l;
}

rdg_cpu_streams rdg_q8_matvec_streams(const rdg_op_call *call, int64_t begin, int64_t end,
                                      const rdg_q8_isa *isa)
{
    const rdg_tensor *weight = &call->operand[RDG_MATMUL_WEIGHT];
    layout l = layout_of(call, begin, end, isa);
    size_t bytes = (size_t)(l.rows * weight->stride[1]);
    return (rdg_cpu_streams){.ahead = {.next = rdg_tensor_row(weight, l.first, 0, 0),
                                       .n_streams = l.n_streams,
                                       .stride_bytes = bytes,
                                       .bytes = bytes},
                             .n_turns = rdg_div_up(l.rows, l.turn_rows) + (l.left > 0)};
}

/* What the streams ask for as they go comes too late for their own beginnings. */
static void begin_streams(const rdg_q8_dot_args *a)
{
    for (int64_t at = 0; at < RDG_Q8_REACH_BYTES; at += 64)
        for (int k = 0; k < a->n_streams; k++)
            __builtin_prefetch((const char *)a->rows + k * a->stream_stride_bytes + at, 0, 0);
}

/* n_rows of each stream, from row `first` of the first stream on. */
static void run_rows(const rdg_op_call *call, rdg_q8_dot_args *a, int64_t first, int64_t n_rows,
                     int64_t rows_apart, const rdg_q8_isa *isa)
{
    const rdg_tensor *weight = &call->operand[RDG_MATMUL_WEIGHT];
    for (int64_t i = 0; i < n_rows; i += a->n_rows) {
        a->n_rows = RDG_MIN(RDG_Q8_MAX_ITEM_ROWS, n_rows - i);
        a->rows = rdg_tensor_row(weight, first + i, 0, 0);
        isa->dot[weight->type](a);
        for (int k = 0; k < a->n_streams; k++)
            store_rows(call, first + k * rows_apart + i, a->n_rows, a->sums + k * RDG_Q8_MAX_ITEM_ROWS,
                       RDG_Q8_MAX_ITEM_ROWS);
    }
}

void rdg_q8_matvec_run(const rdg_op_call *call, const rdg_cpu_task *task, const rdg_q8_isa *isa)
{
    const rdg_tensor *weight = &call->operand[RDG_MATMUL_WEIGHT], *x = &call->operand[RDG_MATMUL_X];
    if (task->phase == 0) {
        for (int64_t i = task->begin; i < task->end; i++)
            rdg_q8_quantise_item(x, weight->type, i, task->scratch, isa->quantise);
        return;
    }
    float sums[RDG_MATVEC_MAX_TOKENS * RDG_Q8_MAX_ITEM_ROWS];
    const layout l = layout_of(call, task->begin, task->end, isa);
    rdg_q8_dot_args a = {.row_stride_bytes = weight->stride[1],
                         .n_columns = weight->dim[0],
                         .n_tokens = (int)x->dim[1],
                         .n_streams = l.n_streams,
                         .stream_stride_bytes = l.rows * weight->stride[1],
                         .sums = sums,
                         .sums_stride = RDG_Q8_MAX_ITEM_ROWS};
    for (int t = 0; t < a.n_tokens; t++)
        a.x[t] = (const rdg_q8_block *)task->scratch + t * rdg_q8_row_blocks(x);
    int64_t begin = task->first_turn * l.turn_rows, end = RDG_MIN(task->end_turn * l.turn_rows, l.rows);
    if (begin < end) {
        a.rows = rdg_tensor_row(weight, l.first + begin, 0, 0);
        if (!task->continues && l.n_streams > 1) begin_streams(&a);
        run_rows(call, &a, l.first + begin, end - begin, l.rows, isa);
    }
    if (task->end_turn <= rdg_div_up(l.rows, l.turn_rows)) return;
    a.n_streams = 1;
    run_rows(call, &a, l.first + l.rows * l.n_streams, l.left, 0, isa);
}

int64_t rdg_float_matvec_n_items(const rdg_op_call *call, int phase)
{
    const rdg_tensor *weight = &call->operand[RDG_MATMUL_WEIGHT];
    (void)phase;
    return rdg_div_up(weight->dim[1], rdg_q8_item_rows(weight));
}

void rdg_float_matvec_run(const rdg_op_call *call, const rdg_cpu_task *task, rdg_float_dot_fn *const *dot)
{
    const rdg_tensor *weight = &call->operand[RDG_MATMUL_WEIGHT], *x = &call->operand[RDG_MATMUL_X];
    float sums[RDG_MATVEC_MAX_TOKENS * RDG_Q8_MAX_ITEM_ROWS];
    int64_t rows = rdg_q8_item_rows(weight);
    for (int64_t i = task->begin; i < task->end; i++) {
        int64_t first = i * rows, n = RDG_MIN(rows, weight->dim[1] - first);
        rdg_float_dot_args a = {.rows = rdg_tensor_row(weight, first, 0, 0),
                                .row_stride_bytes = weight->stride[1],
                                .n_rows = n,
                                .n_columns = weight->dim[0],
                                .x = x->data,
                                .x_stride = x->stride[1] / (int64_t)sizeof(float),
                                .n_tokens = (int)x->dim[1],
                                .sums = sums,
                                .sums_stride = RDG_Q8_MAX_ITEM_ROWS};
        dot[weight->type](&a);
        store_rows(call, first, n, sums, RDG_Q8_MAX_ITEM_ROWS);
    }
}
