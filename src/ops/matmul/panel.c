#include "ops/matmul/panel.h"
#include "base/mem.h"

#include <string.h>

/* How a call is cut. Token tiles are all of one size, so that a tile's buffer and the balance are even. */
typedef struct cut {
    int64_t n_tokens, n_groups, n_blocks;
    int64_t tile_rows, n_row_tiles, tile_groups, n_token_tiles;
} cut;

static cut cut_of(const rdg_op_call *call, const rdg_panel_isa *isa)
{
    const rdg_tensor *weight = &call->operand[RDG_MATMUL_WEIGHT], *x = &call->operand[RDG_MATMUL_X];
    cut c = {.n_tokens = x->dim[1], .tile_rows = RDG_PANEL_ROWS * isa->tile_panels};
    c.n_groups = rdg_div_up(c.n_tokens, RDG_PANEL_TOKENS);
    c.n_blocks = rdg_div_up(x->dim[0], RDG_PANEL_COLUMNS);
    c.n_row_tiles = rdg_div_up(weight->dim[1], c.tile_rows);
    c.n_token_tiles = rdg_div_up(c.n_groups, RDG_PANEL_TILE_GROUPS);
    /* few rows: cut the tokens finer, so that sixteen threads have work, down to what still pays for
     * unpacking */
    enum { WANTED_ITEMS = 64, LEAST_GROUPS = 22 };
    while (c.n_row_tiles * c.n_token_tiles < WANTED_ITEMS &&
           c.n_groups / (c.n_token_tiles + 1) >= LEAST_GROUPS)
        c.n_token_tiles++;
    c.tile_groups = rdg_div_up(c.n_groups, c.n_token_tiles);
    c.n_token_tiles = rdg_div_up(c.n_groups, c.tile_groups);
    return c;
}

static size_t groups_bytes(const cut *c, const rdg_panel_isa *isa)
{
    return (size_t)(c->n_groups * c->n_blocks) * isa->group_bytes;
}

/* A thread's own: panels, then sums. */
static size_t thread_bytes(const cut *c, const rdg_panel_isa *isa)
{
    return (size_t)isa->tile_panels *
           (isa->panel_bytes + (size_t)c->tile_groups * RDG_PANEL_TOKENS * RDG_PANEL_ROWS * sizeof(float));
}

int64_t rdg_panel_n_items(const rdg_op_call *call, int phase, const rdg_panel_isa *isa)
{
    cut c = cut_of(call, isa);
    return phase == 0 ? c.n_groups * c.n_blocks : c.n_row_tiles * c.n_token_tiles;
}

size_t rdg_panel_scratch_bytes(const rdg_op_call *call, int n_threads, const rdg_panel_isa *isa)
{
    cut c = cut_of(call, isa);
    return groups_bytes(&c, isa) + (size_t)n_threads * thread_bytes(&c, isa);
}

/* Groups lie block by block, so that a tile reads one contiguous run for each block of columns. */
static void *group_at(const cut *c, const rdg_panel_isa *isa, void *scratch, int64_t block, int64_t group)
{
    return (char *)scratch + (size_t)(block * c->n_groups + group) * isa->group_bytes;
}

static void pack_group(const rdg_op_call *call, const cut *c, const rdg_panel_isa *isa, int64_t item,
                       void *scratch)
{
    const rdg_tensor *x = &call->operand[RDG_MATMUL_X];
    int64_t group = item / c->n_blocks, block = item % c->n_blocks, first = group * RDG_PANEL_TOKENS;
    int n_tokens = (int)RDG_MIN(RDG_PANEL_TOKENS, c->n_tokens - first);
    const float *rows[RDG_PANEL_TOKENS];
    for (int t = 0; t < n_tokens; t++)
        rows[t] = (const float *)rdg_tensor_row(x, first + t, 0, 0) + block * RDG_PANEL_COLUMNS;
    isa->pack(call->operand[RDG_MATMUL_WEIGHT].type, rows, n_tokens,
              (int)RDG_MIN(RDG_PANEL_COLUMNS, x->dim[0] - block * RDG_PANEL_COLUMNS),
              group_at(c, isa, scratch, block, group));
}

static void store_tile(const rdg_op_call *call, int64_t first_row, int64_t n_rows, int64_t first_token,
                       int64_t n_tokens, const float *sums)
{
    const rdg_tensor *bias = &call->operand[RDG_MATMUL_BIAS], *residual = &call->operand[RDG_MATMUL_RESIDUAL];
    const rdg_tensor *out = &call->operand[RDG_MATMUL_OUT];
    const float *b = rdg_tensor_present(bias) ? (const float *)bias->data + first_row : NULL;
    for (int64_t t = 0; t < n_tokens; t++, sums += RDG_PANEL_ROWS) {
        float *y = (float *)rdg_tensor_row(out, first_token + t, 0, 0) + first_row;
        const float *r = NULL;
        if (rdg_tensor_present(residual))
            r = (const float *)rdg_tensor_row(residual, first_token + t, 0, 0) + first_row;
        for (int64_t i = 0; i < n_rows; i++) y[i] = sums[i] + (b ? b[i] : 0.0f) + (r ? r[i] : 0.0f);
    }
}

static void run_tile(const rdg_op_call *call, const cut *c, const rdg_panel_isa *isa, int64_t item,
                     const rdg_cpu_task *task)
{
    const rdg_tensor *weight = &call->operand[RDG_MATMUL_WEIGHT];
    int64_t first_row = item / c->n_token_tiles * c->tile_rows,
            first_group = item % c->n_token_tiles * c->tile_groups;
    int64_t n_groups = RDG_MIN(c->tile_groups, c->n_groups - first_group);
    int64_t first_token = first_group * RDG_PANEL_TOKENS;
    int64_t n_tokens = RDG_MIN(n_groups * RDG_PANEL_TOKENS, c->n_tokens - first_token);
    int64_t n_rows = RDG_MIN(c->tile_rows, weight->dim[1] - first_row);
    int n_panels = (int)rdg_div_up(n_rows, RDG_PANEL_ROWS);
    char *own = (char *)task->scratch + groups_bytes(c, isa) + (size_t)task->thread * thread_bytes(c, isa);
    float *sums = (float *)(void *)(own + (size_t)isa->tile_panels * isa->panel_bytes);
    int64_t panel_sums = c->tile_groups * RDG_PANEL_TOKENS * RDG_PANEL_ROWS;
    memset(sums, 0, (size_t)(n_panels * panel_sums) * sizeof(float));
    int64_t block_bytes = rdg_type_row_bytes(weight->type, RDG_PANEL_COLUMNS);
    for (int64_t k = 0; k < c->n_blocks; k++) {
        int n_columns = (int)RDG_MIN(RDG_PANEL_COLUMNS, weight->dim[0] - k * RDG_PANEL_COLUMNS);
        for (int p = 0; p < n_panels; p++) {
            int64_t row = first_row + p * RDG_PANEL_ROWS;
            isa->unpack(weight->type, (const char *)rdg_tensor_row(weight, row, 0, 0) + k * block_bytes,
                        weight->stride[1], (int)RDG_MIN(RDG_PANEL_ROWS, first_row + n_rows - row), n_columns,
                        own + (size_t)p * isa->panel_bytes);
        }
        /* a group is read once for all panels of the tile while it is in L1 */
        const char *group = group_at(c, isa, task->scratch, k, first_group);
        for (int64_t g = 0; g < n_groups; g++, group += isa->group_bytes)
            for (int p = 0; p < n_panels; p++)
                isa->multiply[weight->type](own + (size_t)p * isa->panel_bytes, group,
                                            sums + p * panel_sums + g * RDG_PANEL_TOKENS * RDG_PANEL_ROWS);
    }
    for (int p = 0; p < n_panels; p++)
        store_tile(call, first_row + p * RDG_PANEL_ROWS, RDG_MIN(RDG_PANEL_ROWS, n_rows - p * RDG_PANEL_ROWS),
                   first_token, n_tokens, sums + p * panel_sums);
}

void rdg_panel_run(const rdg_op_call *call, const rdg_cpu_task *task, const rdg_panel_isa *isa)
{
    cut c = cut_of(call, isa);
    for (int64_t i = task->begin; i < task->end; i++) {
        if (task->phase == 0)
            pack_group(call, &c, isa, i, task->scratch);
        else
            run_tile(call, &c, isa, i, task);
    }
}

void rdg_float_pack(rdg_type type, const float *const *x, int n_tokens, int n_columns, void *out)
{
    rdg_float_group *group = out;
    (void)type;
    if (n_tokens < RDG_PANEL_TOKENS || n_columns < RDG_PANEL_COLUMNS) memset(group, 0, sizeof *group);
    for (int t = 0; t < n_tokens; t++)
        for (int c = 0; c < n_columns; c++) group->x[c][t] = x[t][c];
}

void rdg_q8_pack(const float *const *x, int n_tokens, int n_columns, int block_elems, int sub_elems,
                 uint32_t flip, rdg_q8_quantise_fn *quantise, rdg_q8_group *group)
{
    const bool fine = block_elems == 32;
    rdg_q8_block b;
    for (int t = 0; t < RDG_PANEL_TOKENS; t++) {
        if (t < n_tokens)
            quantise(x[t], n_columns, block_elems, &b);
        else
            memset(&b, 0, sizeof b);
        for (int k = 0; k < RDG_PANEL_COLUMNS / 4; k++) {
            uint32_t four;
            memcpy(&four, b.q + 4 * k, 4);
            four ^= flip;
            memcpy(group->q[k][t], &four, 4);
        }
        for (int j = 0; j < RDG_PANEL_COLUMNS / sub_elems; j++)
            group->sum[j][t] = sub_elems == 32 ? b.sum32[8 + j] * (fine ? b.scale[j] : 1.0f) : b.sum[j];
        for (int j = 0; j < 8; j++) group->scale[j][t] = b.scale[j];
    }
}
